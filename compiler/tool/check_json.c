/* `ddpc check --format=json`, format_version 1.0.
 *
 * Names come from somebody else's file, and JSON must be valid UTF-8: every name passes tool_utf8,
 * which replaces what is not. Keys stand in the order of the documentation. */
#include "check.h"

static json_t *text(struct tool *t, const char *s) { return json_string(tool_utf8(&t->arena, s)); }

static json_t *params_names(struct tool *t, const struct compilation *c, const uint32_t *at,
                            uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(check_param_name(t, c, at[i])));
    return list;
}

static json_t *shape(const struct ir_module *m, ir_type type) {
    json_t *list = json_array();
    const struct ir_type_info *info = &m->type.at[type];
    for (int32_t i = 0; i < info->rank; i++)
        json_array_append_new(list, json_integer(m->dim.at[info->dims + (uint32_t)i].size));
    return list;
}

static json_t *guard(struct tool *t, const struct compilation *c, const struct gradient *g) {
    if (!g->guard) return json_null();
    json_t *names = json_array();
    bdd_support support = {0};
    bdd_support_of(c->branches.bdd, g->may, &support);
    for (uint32_t i = 0; i < support.n; i++)
        json_array_append_new(names, text(t, c->branches.all.at[support.at[i]].name));
    vec_free(&support);
    return json_pack("{s:o, s:b, s:o}", "text", text(t, g->guard), "exact", (int)g->exact,
                     "branches", names);
}

static json_t *location(struct tool *t, struct compilation *c, ir_loc loc) {
    if (loc == IR_NO_LOC) return json_null();
    uint32_t line, column;
    if (c->source.binary)
        return json_pack("{s:o}", "path", text(t, source_path(&c->source, loc, &t->arena)));
    source_position(&c->source, loc, &line, &column);
    return json_pack("{s:i, s:i}", "line", (int)line, "column", (int)column);
}

/* The line of a recorded program. */
static json_t *source(struct tool *t, struct compilation *c, ir_node n) {
    struct ir_source s;
    if (!ir_node_source(&c->module, n, &s)) return json_null();
    const char *file = arena_strndup(&t->arena, s.text, s.file);
    return json_pack("{s:o, s:I}", "file", text(t, file), "line", (json_int_t)s.line);
}

static json_t *parameter(struct tool *t, struct compilation *c, const struct gradient *g,
                         uint32_t i) {
    const struct param *p = &c->program.params.at[i];
    bool buffer = p->kind == PARAM_BUFFER;
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(check_param_name(t, c, i)));
    json_object_set_new(o, "kind", json_string(buffer ? "buffer" : "parameter"));
    json_object_set_new(o, "dtype", json_string(ir_dtype_array(p->dtype)));
    json_object_set_new(o, "shape", shape(&c->module, p->type));
    json_object_set_new(o, "elements", json_integer(p->elements));
    json_object_set_new(o, "class", json_string(grad_class_name(buffer ? GRAD_NEVER : g->class)));
    json_object_set_new(o, "contributions", json_integer(g->contributions));
    json_object_set_new(o, "uses", json_integer(g->uses));
    json_object_set_new(o, "guard", guard(t, c, g));
    json_object_set_new(o, "reason", text(t, g->reason));
    json_object_set_new(o, "location", location(t, c, g->loc));
    json_object_set_new(o, "source", source(t, c, g->source));
    return o;
}

static json_t *ddp(struct tool *t, const struct compilation *c, const struct advice *a) {
    json_t *ignore = json_array();
    for (uint32_t i = 0; i < a->freeze.n; i++) {
        string_list names = {0};
        advice_ignore_names(&c->program, a->freeze.at[i], &t->arena, &names);
        for (uint32_t k = 0; k < names.n; k++) json_array_append_new(ignore, text(t, names.at[k]));
        vec_free(&names);
    }
    return json_pack("{s:s, s:b, s:o, s:o}", "verdict", verdict_name(a->verdict), "static_graph",
                     (int)a->static_graph, "freeze", params_names(t, c, a->freeze.at, a->freeze.n),
                     "parameters_to_ignore", ignore);
}

static json_t *flag_walk(const struct flag_walk *w) {
    if (w->nodes <= 0) return json_null();
    return json_pack("{s:I, s:I, s:f}", "nodes", (json_int_t)w->nodes, "edges",
                     (json_int_t)w->edges, "us", w->us);
}

static json_t *ddp_buckets(struct tool *t, const struct compilation *c,
                           const struct stock_buckets *b) {
    bool known = b->cap_mib > 0;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "topology", text(t, c->topology.name),
                     "device", text(t, c->device.name), "bucket_cap_mb",
                     known ? json_integer(b->cap_mib) : json_null(), "predicted_us",
                     known ? json_real(b->finish_us) : json_null(), "default_us",
                     known ? json_real(b->default_us) : json_null(), "gain",
                     known ? json_real(1 - b->finish_us / b->default_us) : json_null(),
                     "unknown_sizes", (int)b->unknown_nodes);
}

static json_t *step(struct tool *t, struct compilation *c, const struct advices *a,
                    const struct check_stock *stock, uint32_t s) {
    const struct step *at = &c->program.steps.at[s];
    json_t *losses = json_array(), *params = json_array();
    for (uint32_t i = 0; i < at->losses.n; i++)
        json_array_append_new(losses, text(t, ir_value_name(&c->module, at->losses.at[i])));
    for (uint32_t i = 0; i < c->program.params.n; i++)
        json_array_append_new(params, parameter(t, c, &c->reach[s].gradient[i], i));
    json_t *o = json_object();
    json_object_set_new(o, "name", text(t, ir_text(&c->module, at->name)));
    json_object_set_new(o, "losses", losses);
    json_object_set_new(o, "parameters", params);
    json_object_set_new(o, "ddp", ddp(t, c, &a->step[s]));
    json_object_set_new(o, "flag_walk", flag_walk(&stock[s].walk));
    json_object_set_new(o, "ddp_buckets", ddp_buckets(t, c, &stock[s].buckets));
    return o;
}

static json_t *branches(struct tool *t, const struct compilation *c) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < c->branches.all.n; i++) {
        const struct branch *b = &c->branches.all.at[i];
        json_array_append_new(list, json_pack("{s:o, s:b, s:o}", "name", text(t, b->name),
                                              "uniform", (int)b->uniform, "description",
                                              b->words ? text(t, b->words) : json_null()));
    }
    return list;
}

/* Operators that were accepted only because the user vouches for them. */
static json_t *unknown_operators(struct tool *t, const struct program *p) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_assumed; i++)
        json_array_append_new(list, text(t, program_assumed_name(p, i, &t->arena)));
    return list;
}

void check_json(const struct check_report *r) {
    struct tool *t = r->t;
    struct compilation *c = r->c;
    const struct advices *a = r->a;
    const string_list *denied = &r->g->denied;
    json_t *steps = json_array(), *reasons = json_array(), *not_taken = json_array();
    for (uint32_t i = 0; i < c->program.not_taken.n; i++)
        json_array_append_new(not_taken, text(t, c->program.not_taken.at[i]));
    for (uint32_t i = 0; i < denied->n; i++) json_array_append_new(reasons, text(t, denied->at[i]));
    for (uint32_t s = 0; s < c->program.steps.n; s++)
        json_array_append_new(steps, step(t, c, a, r->stock, s));
    json_t *root = json_object();
    const char *model = t->options.from_list ? t->options.from_list : c->source.name;
    json_object_set_new(root, "format_version", json_string("1.0"));
    json_object_set_new(root, "model", text(t, model));
    json_object_set_new(root, "static", json_boolean(!a->all.count[GRAD_CONDITIONAL]));
    json_object_set_new(root, "verdict", json_string(verdict_name(a->all.verdict)));
    json_object_set_new(root, "complete", json_boolean(c->program.complete));
    json_object_set_new(root, "evidence", json_string(check_evidence_name(c->program.evidence)));
    json_object_set_new(root, "steps", steps);
    json_object_set_new(root, "branches", branches(t, c));
    json_object_set_new(root, "unknown_operators", unknown_operators(t, &c->program));
    json_object_set_new(root, "unknown_shapes", json_integer(types_unknown_shapes(&c->module)));
    json_object_set_new(root, "not_taken", not_taken);
    json_object_set_new(root, "denied", reasons);
    gate_json(r, root);
    json_dumpf(root, r->out, JSON_INDENT(1));
    fputc('\n', r->out);
    json_decref(root);
}
