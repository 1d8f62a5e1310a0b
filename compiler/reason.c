/* Why each gradient has its class, in words that name nodes and lines.
 *
 * For a parameter without a gradient the question is where its way to the loss is cut. Every value
 * that no gradient reaches has a cut: the first edge, in the order of the text, at which one of the
 * ways from it ends, and a flag if other ways end elsewhere. A value's cut follows from those of
 * the values behind it, so one more backward walk finds all of them, whatever the number of
 * parameters; it is not made if no parameter asks. Loop bodies are walked once: what a state does
 * in the next trip is not followed, except to say that the trips did not suffice. */
#include "reason.h"

#include <string.h>

struct reasons {
    const struct flow *f;
    const struct ir_module *m;
    struct arena scratch;
    struct cut *cut; /* by value */
    bool *more;      /* by value: other ways end elsewhere */
};

/* ---- edges ----------------------------------------------------------------------------------- */

bool cut_at_input(const struct flow *f, ir_node n, uint32_t input) {
    ir_value v = ir_inputs(f->m, n)[input];
    bool moves = op_get(f->p->ops, f->m->node.at[n].def)->flags & OP_MOVES_DATA;
    return !flow_edge(f, n, input, moves && !f->type_carries[f->m->value.at[v].type]);
}

bool cut_at_output(const struct flow *f, ir_node n, uint32_t output) {
    bool straight;
    return !flow_enters(f, n, output, &straight) || f->p->param_of[ir_outputs(f->m, n)[output]];
}

/* ---- the cut of every value ------------------------------------------------------------------ */

static bool same_place(const struct flow *f, ir_node a, ir_node b) {
    return a == b || cut_same_line(f, a, b);
}

/* Uses are met from last to first, so a later call is an earlier use. */
static void add_cut(struct reasons *r, ir_value v, struct cut c, bool more) {
    if (!v || c.kind == CUT_NONE) return;
    struct cut *old = &r->cut[v];
    bool same = old->kind == c.kind && old->value == c.value &&
                (c.kind == CUT_OUTPUT || same_place(r->f, old->node, c.node)) &&
                old->index == c.index;
    r->more[v] |= more || (old->kind != CUT_NONE && !same);
    *old = c;
}

/* The way from `v` goes on to `to`. */
static void follow(struct reasons *r, ir_value v, ir_value to) {
    if (r->cut[to].kind)
        add_cut(r, v, r->cut[to], r->more[to]);
    else
        add_cut(r, v, (struct cut){.kind = CUT_UNREAD, .value = to}, false);
}

static void cut_plain(struct reasons *r, ir_node n) {
    const struct ir_node_info *node = &r->m->node.at[n];
    for (uint32_t i = node->n_inputs; i-- > 0;) {
        ir_value v = ir_inputs(r->m, n)[i];
        if (!v || r->f->live[v]) continue;
        if (cut_at_input(r->f, n, i)) {
            add_cut(r, v, (struct cut){.kind = CUT_INPUT, .node = n, .index = i}, false);
            continue;
        }
        bool any = false;
        for (uint32_t o = node->n_outputs; o-- > 0;) {
            ir_value out = ir_outputs(r->m, n)[o];
            if (!out || cut_at_output(r->f, n, o) || !flow_connects(r->f, n, i, o)) continue;
            if (r->f->live[out])
                add_cut(r, v, (struct cut){.kind = CUT_ELEMENT, .node = n, .index = i}, false);
            else
                follow(r, v, out);
            any = true;
        }
        for (uint32_t o = node->n_outputs; !any && o-- > 0;)
            if (ir_outputs(r->m, n)[o])
                add_cut(r, v, (struct cut){.kind = CUT_MAKES, .node = n, .index = o}, false);
    }
}

static void cut_graph(struct reasons *r, ir_graph g);

/* What leaves a graph at one of its outputs goes on to the node's output. */
static void cut_graph_output(struct reasons *r, ir_value inner, ir_node n, uint32_t output,
                             struct cut dead_end) {
    if (!inner || r->f->live[inner]) return;
    ir_value outer = output < r->m->node.at[n].n_outputs ? ir_outputs(r->m, n)[output] : 0;
    if (outer && r->f->live[outer]) {
        add_cut(r, inner, dead_end, false);
        return;
    }
    struct ir_source source;
    ir_node maker = r->m->value.at[inner].node;
    struct cut cut = outer ? r->cut[outer] : (struct cut){0};
    if (cut.kind == CUT_OUTPUT && ir_node_source(r->m, maker, &source)) {
        cut.node = maker;
        add_cut(r, inner, cut, r->more[outer]);
    } else
        follow(r, inner, outer ? outer : inner);
}

static void cut_if(struct reasons *r, const struct control *c) {
    for (uint32_t branch = 2; branch-- > 0;) {
        ir_graph g = branch ? c->otherwise : c->body;
        struct cut never = {.kind = CUT_BRANCH, .node = c->node, .index = branch};
        for (uint32_t o = r->m->graph.at[g].n_outputs; o-- > 0;)
            cut_graph_output(r, control_graph_output(r->m, g, o), c->node, o, never);
        cut_graph(r, g);
    }
}

static void cut_loop(struct reasons *r, const struct control *c) {
    const struct ir_module *m = r->m;
    ir_node n = c->node;
    struct cut never = {.kind = CUT_RUNS, .node = n};
    bdd runs = r->f->c.loops[r->f->c.control.of_node[n]].runs;
    for (uint32_t o = c->n_state + c->n_scan_out; o-- > 0;)
        cut_graph_output(r, control_graph_output(m, c->body, c->body_out + o), n, o, never);
    for (uint32_t o = 0; o < c->body_out; o++) {
        ir_value v = control_graph_output(m, c->body, o);
        if (!r->f->live[v])
            add_cut(r, v, (struct cut){.kind = CUT_INPUT, .node = n, .index = 1}, false);
    }
    cut_graph(r, c->body);
    for (uint32_t i = c->n_state + c->n_scan_in; i-- > 0;) {
        ir_value v = ir_input(m, n, c->node_in + i);
        ir_value inner = control_graph_input(m, c->body, c->body_in + i);
        if (!v || r->f->live[v]) continue;
        if (r->f->live[inner])
            add_cut(r, v, (struct cut){.kind = CUT_TRIPS, .node = n}, false);
        else if (runs != BDD_FALSE)
            follow(r, v, inner);
        if (i < c->n_state && runs != BDD_TRUE && i < m->node.at[n].n_outputs &&
            ir_outputs(m, n)[i])
            follow(r, v, ir_outputs(m, n)[i]);
    }
}

static void cut_graph(struct reasons *r, ir_graph g) {
    const struct ir_module *m = r->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        ir_node n = m->node_list.at[graph->nodes + i];
        const struct control *c = control_of(&r->f->c.control, n);
        if (!c || c->kind == CONTROL_OPAQUE) {
            cut_plain(r, n);
            ir_graph inner;
            for (uint32_t k = 0; c && (inner = control_graph(m, n, k)); k++) cut_graph(r, inner);
            continue;
        }
        if (c->kind == CONTROL_IF)
            cut_if(r, c);
        else
            cut_loop(r, c);
        for (uint32_t k = c->kind == CONTROL_IF ? 1 : c->node_in; k-- > 0;) {
            ir_value v = ir_input(m, n, k);
            if (v && !r->f->live[v])
                add_cut(r, v, (struct cut){.kind = CUT_INPUT, .node = n, .index = k}, false);
        }
    }
}

static void find_cuts(struct reasons *r) {
    const struct ir_graph_info *graph = &r->m->graph.at[r->m->main];
    r->cut = arena_new(&r->scratch, struct cut, r->m->value.n);
    r->more = arena_new(&r->scratch, bool, r->m->value.n);
    for (uint32_t i = graph->n_outputs; i-- > 0;) {
        ir_value v = r->m->decl.at[graph->outputs + i].value;
        if (v && !r->f->live[v]) add_cut(r, v, (struct cut){.kind = CUT_OUTPUT, .value = v}, false);
    }
    cut_graph(r, r->m->main);
}

/* ---- a reason for each parameter ------------------------------------------------------------- */

/* (node, input) pairs: those that read a parameter, those that pass it a gradient. A program's line
 * that was recorded several times, in several batches, is one place. */
struct uses {
    uint32_t n;
    ir_node read, first;        /* the first ones */
    bool many_read, many_first; /* there are more, of other places */
};

static void note_use(const struct flow *f, ir_node n, ir_node *first, bool *many) {
    if (!*first)
        *first = n;
    else if (!*many)
        *many = !cut_same_line(f, *first, n);
}

/* "2 "; nothing for a recorded program, which has a use once for each batch. */
static const char *number(const struct flow *f, struct arena *a, ir_node first, uint32_t n) {
    struct ir_source source;
    return ir_node_source(f->m, first, &source) ? "" : arena_printf(a, "%u ", n);
}

/* Nodes are met in the order of the text; a parameter's values are united. */
static void count_uses(const struct flow *f, ir_graph g, struct uses *uses) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        ir_node n = m->node_list.at[graph->nodes + k];
        const struct ir_node_info *node = &m->node.at[n];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t ref = node->refs + node->n_outputs + i;
            uint32_t param = f->p->param_of[m->ref_value.at[ref]];
            if (!param) continue;
            struct uses *u = &uses[param - 1];
            u->n++;
            note_use(f, n, &u->read, &u->many_read);
            if (f->flows[ref]) note_use(f, n, &u->first, &u->many_first);
        }
        ir_graph inner;
        if (control_of(&f->c.control, n))
            for (uint32_t j = 0; (inner = control_graph(m, n, j)); j++) count_uses(f, inner, uses);
    }
}

static void set_source(const struct flow *f, struct gradient *g, ir_node n) {
    struct ir_source source;
    if (ir_node_source(f->m, n, &source)) g->source = n;
}

/* A recording shows only what its batches did. */
static const char *unread_parameter(struct program *p) {
    uint32_t n = p->not_taken.n;
    if (p->evidence != EVIDENCE_OBSERVED || p->traced) return "nothing reads it";
    if (n == 0) return "nothing reads it in what was observed";
    if (n > 1)
        return arena_printf(&p->arena,
                            "nothing reads it in what was observed; %u Python branches were not "
                            "taken",
                            n);
    return arena_printf(&p->arena, "nothing reads it in what was observed; not taken: %s",
                        p->not_taken.at[0]);
}

static void reason_never(struct reasons *r, const struct param *param, struct uses uses,
                         struct gradient *g) {
    struct arena *a = &r->f->p->arena;
    struct cut cut = {0};
    bool more = false;
    for (uint32_t k = 0; k <= param->tied.n; k++) {
        ir_value v = k ? param->tied.at[k - 1] : param->value;
        if (!r->cut[v].kind) continue;
        more |= r->more[v] || cut.kind;
        if (!cut.kind) cut = r->cut[v];
    }
    if (cut_loc(r->f, &cut) != IR_NO_LOC) g->loc = cut_loc(r->f, &cut);
    set_source(r->f, g, cut_node(r->f, &cut));
    if (!param->value)
        g->reason = param->perhaps ? arena_printf(a,
                                                  "is listed, but the graph does not have it, "
                                                  "unless '%s' is it under another name",
                                                  param->perhaps)
                    : param->unsure
                        ? "is listed, but the graph does not have it; what folded the graph may "
                          "have merged it with another or computed it away"
                        : "is listed, but the graph does not have it";
    else if (param->kind == PARAM_BUFFER && !cut.kind)
        g->reason = uses.n ? "a buffer" : "a buffer that nothing reads";
    else if (!cut.kind && uses.first)
        g->reason =
            arena_printf(a, "no trip of a loop takes its way to the loss, which begins at %s",
                         node_text(r->f, a, uses.first));
    else if (!cut.kind)
        g->reason = unread_parameter(r->f->p);
    else {
        const char *text = cut_text(r->f, a, &cut), *head = "";
        const char *n = number(r->f, a, uses.read, uses.n);
        if (param->kind == PARAM_BUFFER)
            head = "a buffer: ";
        else if (more)
            head = uses.many_read
                       ? arena_printf(a, "none of its %suses reaches a loss: the first ", n)
                       : "no path from it reaches a loss: the first ";
        else if (cut.kind == CUT_INPUT || cut.kind == CUT_MAKES || cut.kind == CUT_ELEMENT)
            head = uses.many_read ? arena_printf(a, "each of its %suses ", n) : "its only use ";
        g->reason = arena_printf(a, "%s%s", head, text);
    }
}

static void reason_reached(const struct flow *f, struct uses uses, struct gradient *g) {
    struct arena *a = &f->p->arena;
    set_source(f, g, uses.first);
    const char *used = "it is a loss itself", *several = number(f, a, uses.first, g->contributions);
    if (uses.first && !uses.many_first)
        used = arena_printf(a, "gets its gradient from %s", node_text(f, a, uses.first));
    else if (uses.first)
        used = arena_printf(a, "gets its gradient from %suses, the first %s",
                            *several ? several : "several ", node_text(f, a, uses.first));
    if (g->class == GRAD_ALWAYS)
        g->reason = arena_printf(a, "%s, in every execution", used);
    else if (g->exact)
        g->reason = arena_printf(a, "only %s: %s", g->guard_words, used);
    else if (g->may == BDD_TRUE)
        g->reason =
            arena_printf(a, "only in some executions, and no branch alone says in which: %s", used);
    else
        g->reason = arena_printf(a, "only %s, and not always then: %s", g->guard_words, used);
}

void reason_all(const struct flow *f, struct reach *out) {
    struct reasons r = {.f = f, .m = f->m};
    struct uses *uses = arena_new(&r.scratch, struct uses, f->p->params.n);
    count_uses(f, f->m->main, uses);
    for (uint32_t i = 0; i < f->p->params.n; i++) {
        const struct param *param = &f->p->params.at[i];
        struct gradient *g = &out->gradient[i];
        g->loc = param->loc;
        g->uses = uses[i].n;
        if (g->class == GRAD_NEVER) {
            if (!r.cut) find_cuts(&r);
            reason_never(&r, param, uses[i], g);
        } else if (g->class == GRAD_FROZEN)
            g->reason = param->no_grad ? "its requires_grad is false"
                                       : arena_printf(&f->p->arena, "not trainable in step %s",
                                                      ir_text(f->m, f->step->name));
        else
            reason_reached(f, uses[i], g);
    }
    arena_free(&r.scratch);
}
