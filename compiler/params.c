/* What is a parameter.
 *
 * The graph's text says it in one of two ways. A *declared* model lists float tensors with a static
 * shape and without data between < and >, and reads one of them: then the declared names are the
 * parameters and numbers are constants. Otherwise float initializers are the parameters, as
 * exporters write them, except literals that exporters give generated names, and buffers, whose
 * every use is state (running statistics, scales). Declared names are then stale value_info of a
 * tensor that some optimizer removed.
 *
 * --params FILE replaces all that by what the module has: params_list.c.
 *
 * Everything that could be a parameter becomes a candidate with a role first; --trainable moves
 * candidates between roles, --tie merges them, and what then has the role of a parameter or a
 * buffer enters the program, in declaration order or in the file's. */
#include "program_build.h"
#include <ctype.h>
#include <string.h>

/* ---- candidates ------------------------------------------------------------------------------ */

/* Names that exporters make up for numbers of the program: torch's two exporters, tf2onnx and
 * torch.export's lifted constants; '#' stands for digits. docs/parameters.md lists them. */
static const char *const generated_names[] = {
    "onnx::*",
    "val_#",
    "_val_#",
    "#",
    "*Constant_output_#",
    "*Constant_#_output_#",
    "*Constant_#",
    "const_*__#",
    "_tensor_constant#",
    "c_lifted_tensor_#",
    "lifted_tensor_#",
    "scalar_tensor_default*",
};

static bool digits_match(const char *pattern, const char *name) {
    for (; *pattern; pattern++) {
        if (*pattern == '*') {
            for (;; name++) {
                if (digits_match(pattern + 1, name)) return true;
                if (!*name) return false;
            }
        }
        if (*pattern == '#') {
            if (!isdigit((unsigned char)*name)) return false;
            while (isdigit((unsigned char)*name)) name++;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return !*name;
}

static bool is_generated(const char *name) {
    for (size_t i = 0; i < sizeof generated_names / sizeof *generated_names; i++)
        if (digits_match(generated_names[i], name)) return true;
    return false;
}

bool params_is_generated(const struct builder *b, const struct candidate *c) {
    return is_generated(ir_text(b->m, c->param.name));
}

bool params_is_float(const struct ir_module *m, ir_value v) {
    ir_type type = m->value.at[v].type;
    return m->type.at[type].kind == IR_TYPE_TENSOR &&
           ir_dtype_carries_gradient(ir_type_dtype(m, type));
}

void params_add_candidate(struct builder *b, ir_value v, int64_t elements,
                          enum candidate_role role) {
    const struct ir_module *m = b->m;
    const struct ir_value_info *value = &m->value.at[v];
    struct candidate c = {
        .role = role,
        .param = {.name = names_real(b, v),
                  .type = value->type,
                  .dtype = ir_type_dtype(m, value->type),
                  .elements = elements,
                  .value = v,
                  .loc = value->loc},
    };
    vec_push(&b->candidates, c);
}

static bool add_declared(struct builder *b, ir_value v, bool *any_read) {
    const struct ir_module *m = b->m;
    int64_t elements = ir_type_elements(m, m->value.at[v].type);
    if (elements >= 0) {
        params_add_candidate(b, v, elements, ROLE_STALE);
        if (b->use[v]) *any_read = true;
    } else if (b->use[v]) {
        const char *name = ir_value_name(m, v);
        struct diag *g =
            diag_at(b->d, DIAG_DECLARED_SHAPE, m->value.at[v].loc, (uint32_t)strlen(name),
                    "'%s' has neither data nor a producer, and as a parameter its "
                    "shape would have to be static, not %s",
                    name, ir_type_text(m, &b->d->arena, m->value.at[v].type));
        diag_set_help(b->d, g, "write its sizes as numbers, or make it an input of the graph");
        return false;
    }
    return true;
}

/* The candidates in declaration order: the items between < and >, the inputs, and with
 * --params-from the outputs of that operator. Their first roles are what they are without a list:
 * stale, constant or buffer, input. */
static bool collect(struct builder *b) {
    const struct ir_module *m = b->m;
    const struct ir_graph_info *graph = &m->graph.at[m->main];
    bool *seen = arena_new(&b->scratch, bool, m->value.n), ok = true;
    for (uint32_t i = 0; i < graph->n_items + graph->n_inputs; i++) {
        bool item = i < graph->n_items;
        ir_value v =
            m->decl.at[item ? graph->items + i : graph->inputs + (i - graph->n_items)].value;
        const struct ir_value_info *value = &m->value.at[v];
        if (!v || seen[v] || (item && value->def == IR_DEF_INPUT)) continue;
        seen[v] = true;
        if (!params_is_float(m, v)) continue;
        int64_t elements = ir_type_elements(m, value->type);
        if (value->def == IR_DEF_DECLARED) {
            if (!add_declared(b, v, &b->declared)) ok = false;
        } else if (value->def == IR_DEF_INITIALIZER) {
            if (elements < 0) elements = (int64_t)m->data.at[value->data].count;
            bool literal = elements == 0 || (elements == 1 && is_generated(ir_value_name(m, v)));
            bool state = !literal && b->use[v] == USE_STATE;
            params_add_candidate(b, v, elements, state ? ROLE_BUFFER : ROLE_CONSTANT);
            b->candidates.at[b->candidates.n - 1].literal = literal;
        } else if (value->def == IR_DEF_INPUT && elements >= 0) {
            params_add_candidate(b, v, elements, ROLE_INPUT);
        }
    }
    return ok;
}

static bool collect_producers(struct builder *b) {
    const struct ir_module *m = b->m;
    const char *op = b->o->params_from;
    if (!op) return true;
    enum candidate_role role = b->o->params ? ROLE_CONSTANT : ROLE_PARAMETER;
    uint32_t def = op_find(b->p->ops, "", "ConstantOfShape");
    if (strcmp(op, "ConstantOfShape") != 0) {
        diag_plain(b->d, DIAG_FLAG_SYNTAX, "--params-from",
                   "'%s' is not a source of parameters; the only one is ConstantOfShape", op);
        return false;
    }
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        const struct ir_node_info *node = &m->node.at[b->nodes.at[i]];
        if (node->def != def || node->graph != m->main || !node->n_outputs) continue;
        ir_value v = ir_outputs(m, b->nodes.at[i])[0];
        int64_t elements = ir_type_elements(m, m->value.at[v].type);
        if (v && params_is_float(m, v) && elements >= 0)
            params_add_candidate(b, v, elements, b->use[v] == USE_STATE ? ROLE_BUFFER : role);
    }
    return true;
}

/* ---- roles without a list -------------------------------------------------------------------- */

static void warn_stale(struct builder *b, uint32_t first, uint32_t count) {
    const struct param *p = &b->candidates.at[first].param;
    const char *name = ir_text(b->m, p->name);
    char others[32] = "";
    if (count > 1) snprintf(others, sizeof others, " and %u more", count - 1);
    struct diag *g =
        diag_at(b->d, DIAG_STALE_DECLARED, p->loc, (uint32_t)strlen(name),
                "'%s'%s: listed with a type, but nothing reads or makes it; ignored", name, others);
    diag_set_help(b->d, g,
                  "the parameters of this model are its initializers; tell with --params what the "
                  "module has");
}

static void default_roles(struct builder *b) {
    uint32_t stale = 0, first_stale = 0, weights = 0;
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        struct candidate *c = &b->candidates.at[i];
        if (c->role == ROLE_CONSTANT && !c->literal && !b->declared) c->role = ROLE_PARAMETER;
        if (c->role == ROLE_STALE && stale++ == 0) first_stale = i;
        if (c->role == ROLE_PARAMETER || c->role == ROLE_BUFFER) weights++;
    }
    if (!stale) return;
    if (!b->declared && weights) {
        warn_stale(b, first_stale, stale);
        return;
    }
    for (uint32_t i = 0; i < b->candidates.n; i++)
        if (b->candidates.at[i].role == ROLE_STALE) b->candidates.at[i].role = ROLE_PARAMETER;
}

/* ---- --trainable, --tie ---------------------------------------------------------------------- */

/* A glob means the first of these in which it matches something: parameters, then the constants and
 * buffers, then the static float inputs of the graph. So `--trainable '*'` never trains the data.
 */
static bool choose(struct builder *b, struct wish w, bool restricts) {
    static const enum candidate_role groups[][2] = {
        {ROLE_PARAMETER, ROLE_PARAMETER}, {ROLE_CONSTANT, ROLE_BUFFER}, {ROLE_INPUT, ROLE_INPUT}};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        uint32_t matches = 0;
        for (uint32_t i = 0; i < b->candidates.n; i++) {
            struct candidate *c = &b->candidates.at[i];
            const char *name = ir_text(b->m, c->param.name);
            if ((c->role != groups[g][0] && c->role != groups[g][1]) ||
                (strcmp(w.text, name) != 0 && !glob_match(w.text, name)))
                continue;
            matches++;
            c->role = ROLE_PARAMETER;
            c->chosen = true;
        }
        if (!matches) continue;
        if (g == 0 && restricts) b->restricted = true;
        return true;
    }
    return names_unknown(b, w, NAME_PARAMETER);
}

/* The index of names; those of the ties are put into it, for they need not be in the graph. */
static void index_candidates(struct builder *b) {
    struct strtab *strings = &b->m->strings;
    for (uint32_t i = 0; i < b->tie.n; i++) {
        const char *text = b->tie.at[i].text, *equal = strchr(text, '=');
        if (equal && equal > text) strtab_add(strings, text, (size_t)(equal - text));
        if (equal) strtab_addz(strings, equal + 1);
    }
    b->n_names = strings->text.n;
    b->candidate_of = arena_new(&b->scratch, uint32_t, b->n_names);
    for (uint32_t i = b->candidates.n; i-- > 0;) {
        const struct param *p = &b->candidates.at[i].param;
        for (uint32_t k = 0; k < p->aliases.n; k++) b->candidate_of[p->aliases.at[k]] = i + 1;
    }
    for (uint32_t i = b->candidates.n; i-- > 0;)
        b->candidate_of[b->candidates.at[i].param.name] = i + 1;
}

static struct candidate *candidate_named(struct builder *b, const char *name) {
    str s;
    if (!strtab_find(&b->m->strings, name, strlen(name), &s) || s >= b->n_names) return NULL;
    if (!b->candidate_of[s]) return NULL;
    struct candidate *c = &b->candidates.at[b->candidate_of[s] - 1];
    while (c->role == ROLE_TIED) c = &b->candidates.at[c->into];
    return c->role == ROLE_PARAMETER ? c : NULL;
}

/* A tensor that --params does not list, as a copy is. */
static struct candidate *copy_named(struct builder *b, const char *name) {
    str s;
    if (!strtab_find(&b->m->strings, name, strlen(name), &s) || s >= b->n_names) return NULL;
    if (!b->candidate_of[s]) return NULL;
    struct candidate *c = &b->candidates.at[b->candidate_of[s] - 1];
    return c->role == ROLE_CONSTANT && !c->literal ? c : NULL;
}

/* `other` becomes `keep`, which stands first: so do modules count a tensor that has two names. */
static void merge(struct builder *b, struct candidate *keep, struct candidate *other) {
    struct param *to = &keep->param, *from = &other->param;
    if (from->value && to->value) vec_push(&to->tied, from->value);
    if (!to->value) {
        to->value = from->value;
        to->loc = from->loc;
    }
    for (uint32_t i = 0; i < from->tied.n; i++) vec_push(&to->tied, from->tied.at[i]);
    vec_push(&to->aliases, from->name);
    for (uint32_t i = 0; i < from->aliases.n; i++) vec_push(&to->aliases, from->aliases.at[i]);
    keep->chosen |= other->chosen;
    other->role = ROLE_TIED;
    other->into = (uint32_t)(keep - b->candidates.at);
}

/* Of the metadata's A=B the graph may lack B: it is then a further name of A. */
static bool tie(struct builder *b, struct wish w) {
    const char *equal = strchr(w.text, '=');
    if (!equal || equal == w.text || !equal[1]) {
        diag_plain(b->d, w.metadata ? DIAG_METADATA : DIAG_FLAG_SYNTAX, w.flag,
                   "'%s' is not of the form A=B", w.text);
        return w.metadata;
    }
    const char *name[2] = {arena_strndup(&b->scratch, w.text, (size_t)(equal - w.text)), equal + 1};
    struct candidate *c[2] = {candidate_named(b, name[0]), candidate_named(b, name[1])};
    if (w.metadata && c[0] && !c[1]) {
        str alias = strtab_addz(&b->m->strings, name[1]);
        vec_push(&c[0]->param.aliases, alias);
        if (alias < b->n_names) b->candidate_of[alias] = (uint32_t)(c[0] - b->candidates.at) + 1;
        return true;
    }
    for (int i = 0; i < 2; i++)
        if (!c[i] && !w.metadata && c[1 - i]) c[i] = copy_named(b, name[i]);
    for (int i = 0; i < 2; i++)
        if (!c[i])
            return names_unknown(b, (struct wish){name[i], w.flag, w.metadata}, NAME_PARAMETER);
    if (c[0] == c[1]) return true;
    if (c[0]->param.dtype != c[1]->param.dtype || c[0]->param.elements != c[1]->param.elements) {
        diag_plain(b->d, DIAG_BAD_TIE, w.flag,
                   "'%s' is %s and '%s' is %s: they cannot be one parameter", name[0],
                   ir_type_text(b->m, &b->scratch, c[0]->param.type), name[1],
                   ir_type_text(b->m, &b->scratch, c[1]->param.type));
        return false;
    }
    if (c[1]->role == ROLE_CONSTANT || (c[0]->role != ROLE_CONSTANT && c[0] < c[1]))
        merge(b, c[0], c[1]);
    else
        merge(b, c[1], c[0]);
    return true;
}

static bool check_frozen(struct builder *b, struct wish w) {
    if (candidate_named(b, w.text)) return true;
    for (uint32_t i = 0; i < b->candidates.n && strpbrk(w.text, "*?["); i++)
        if (b->candidates.at[i].role == ROLE_PARAMETER &&
            glob_match(w.text, ir_text(b->m, b->candidates.at[i].param.name)))
            return true;
    return names_unknown(b, w, NAME_PARAMETER);
}

/* ddpc.buffers: what --params lists is believed to be a parameter all the same. A buffer without
 * gradients, of integers, is no candidate and needs no word. */
static void set_buffers(struct builder *b) {
    const struct name_set set = names_set(b, &b->buffers);
    for (uint32_t i = 0; i < b->candidates.n && set.n; i++) {
        struct candidate *c = &b->candidates.at[i];
        if (c->role == ROLE_PARAMETER && !c->listed && names_in(b, &set, &c->param))
            c->role = ROLE_BUFFER;
    }
    for (uint32_t i = 0; i < b->buffers.n; i++) {
        const struct wish *w = &b->buffers.at[i];
        if (!strpbrk(w->text, "*?[") && !names_find(b, w->text, strlen(w->text)))
            names_unknown(b, *w, NAME_VALUE);
    }
}

static bool apply_flags(struct builder *b) {
    bool ok = true;
    index_candidates(b);
    set_buffers(b);
    for (uint32_t i = 0; i < b->trainable.n; i++) ok &= choose(b, b->trainable.at[i], true);
    for (uint32_t s = 0; s < b->specs.n; s++)
        for (uint32_t i = 0; i < b->specs.at[s].trainable.n; i++)
            ok &= choose(b, b->specs.at[s].trainable.at[i], false);
    for (uint32_t i = 0; i < b->tie.n; i++) ok &= tie(b, b->tie.at[i]);
    for (uint32_t i = 0; i < b->o->tie.n; i++)
        ok &= tie(b, (struct wish){b->o->tie.at[i], "--tie", false});
    for (uint32_t i = 0; i < b->frozen.n; i++) ok &= check_frozen(b, b->frozen.at[i]);
    for (uint32_t s = 0; s < b->specs.n; s++)
        for (uint32_t i = 0; i < b->specs.at[s].frozen.n; i++)
            ok &= check_frozen(b, b->specs.at[s].frozen.at[i]);
    return ok;
}

bool params_build(struct builder *b) {
    if (!collect(b) || !collect_producers(b)) return false;
    if (!b->o->params)
        default_roles(b);
    else if (!params_listed(b))
        return false;
    if (!apply_flags(b)) return false;
    exporter_note(b);

    struct program *p = b->p;
    p->param_of = arena_new(&p->arena, uint32_t, b->m->value.n);
    b->chosen = arena_new(&b->scratch, bool, b->candidates.n);
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        struct candidate *c = &b->candidates.at[i];
        if (c->role != ROLE_PARAMETER && c->role != ROLE_BUFFER) continue;
        c->param.kind = c->role == ROLE_BUFFER ? PARAM_BUFFER : PARAM_PARAMETER;
        b->chosen[p->params.n] = c->chosen;
        vec_push(&p->params, c->param);
        p->param_of[c->param.value] = p->params.n;
        for (uint32_t k = 0; k < c->param.tied.n; k++)
            p->param_of[c->param.tied.at[k]] = p->params.n;
        c->param = (struct param){.name = c->param.name}; /* its lists have moved */
    }
    p->param_of[0] = 0; /* parameters that the graph does not have */
    return true;
}
