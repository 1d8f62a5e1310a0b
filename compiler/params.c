/* What is a parameter.
 *
 * The graph's text says it in one of two ways. A *declared* model lists float tensors with a static
 * shape and without data between < and >, and reads one of them: then the declared names are the
 * parameters and numbers are constants. Otherwise float initializers are the parameters, as
 * exporters write them, except literals that exporters give generated names, and buffers, whose
 * every use is state (running statistics, scales). Declared names are then stale value_info of a
 * tensor that some optimizer removed.
 *
 * --params FILE replaces all that by what the module has. A name of the file is looked for in the
 * graph; where an exporter wrote it as an Identity of an initializer, that is the parameter, unless
 * the initializer is one itself: exporters store equal tensors once, so the copy stands for a
 * second parameter and no gradient may pass it into the first. A name that is not in the graph was
 * dropped because nothing used it, or was folded into an initializer of another name. Only its
 * element count can tell the two apart: without an unlisted initializer of that size, nothing was
 * folded.
 *
 * Everything that could be a parameter becomes a candidate with a role first; --trainable moves
 * candidates between roles, --tie merges them, and what then has the role of a parameter or a
 * buffer enters the program, in declaration order or in the file's. */
#include "lines.h"
#include "program_build.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- candidates --------------------------------------------------------------------------------
 */

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

static bool is_float_tensor(const struct ir_module *m, ir_value v) {
    ir_type type = m->value.at[v].type;
    return m->type.at[type].kind == IR_TYPE_TENSOR &&
           ir_dtype_carries_gradient(ir_type_dtype(m, type));
}

static void add_candidate(struct builder *b, ir_value v, int64_t elements,
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
        add_candidate(b, v, elements, ROLE_STALE);
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
        if (!is_float_tensor(m, v)) continue;
        int64_t elements = ir_type_elements(m, value->type);
        if (value->def == IR_DEF_DECLARED) {
            if (!add_declared(b, v, &b->declared)) ok = false;
        } else if (value->def == IR_DEF_INITIALIZER) {
            if (elements < 0) elements = (int64_t)m->data.at[value->data].count;
            bool literal = elements == 0 || (elements == 1 && is_generated(ir_value_name(m, v)));
            bool state = !literal && b->use[v] == USE_STATE;
            add_candidate(b, v, elements, state ? ROLE_BUFFER : ROLE_CONSTANT);
            b->candidates.at[b->candidates.n - 1].literal = literal;
        } else if (value->def == IR_DEF_INPUT && elements >= 0) {
            add_candidate(b, v, elements, ROLE_INPUT);
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
        if (v && is_float_tensor(m, v) && elements >= 0)
            add_candidate(b, v, elements, b->use[v] == USE_STATE ? ROLE_BUFFER : role);
    }
    return true;
}

/* ---- roles without a list ----------------------------------------------------------------------
 */

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

/* ---- roles from --params -----------------------------------------------------------------------
 */

struct listing {
    struct builder *b;
    struct params_list list;
    struct lines file;   /* for messages: its name */
    uint32_t *candidate; /* by value: its candidate + 1 */
    uint32_t *owner;     /* by value: the entry that is this tensor, + 1 */
    uint32_t *found;     /* by entry: its candidate + 1 */
    bool ok;
};

static str entry_name(const struct listing *l, const struct params_entry *e, uint32_t k) {
    return k ? l->list.alias.at[e->aliases + k - 1] : e->name;
}

static void describe(struct listing *l, struct param *p, const struct params_entry *e) {
    const struct ir_module *m = l->b->m;
    p->name = e->name;
    p->type = e->type;
    p->dtype = ir_type_dtype(m, e->type);
    p->elements = ir_type_elements(m, e->type);
    p->no_grad = !e->requires_grad;
    for (uint32_t k = 1; k <= e->n_aliases; k++) vec_push(&p->aliases, entry_name(l, e, k));
}

/* Entry `i` is the tensor `v`, of the candidate at[c - 1] if c. */
static void claim(struct listing *l, uint32_t i, ir_value v) {
    struct builder *b = l->b;
    const struct params_entry *e = &l->list.all.at[i];
    int64_t listed = ir_type_elements(b->m, e->type);
    int64_t here = ir_type_elements(b->m, b->m->value.at[v].type);
    if (here >= 0 && listed != here) {
        struct diag *g =
            lines_report(&l->file, e->line, DIAG_PARAMS_MISMATCH,
                         "'%s' is listed as %s, but the model has it as %s", ir_text(b->m, e->name),
                         ir_type_text(b->m, &b->scratch, e->type),
                         ir_type_text(b->m, &b->scratch, b->m->value.at[v].type));
        diag_add_note(b->d, g, b->m->value.at[v].loc, "the model has it here");
        l->ok = false;
    }
    l->owner[v] = i + 1;
    if (l->found[i]) {
        vec_push(&b->candidates.at[l->found[i] - 1].param.tied, v);
        if (l->candidate[v]) {
            b->candidates.at[l->candidate[v] - 1].role = ROLE_TIED;
            b->candidates.at[l->candidate[v] - 1].into = l->found[i] - 1;
        }
        return;
    }
    if (!l->candidate[v]) {
        add_candidate(b, v, listed, ROLE_PARAMETER);
        l->candidate[v] = b->candidates.n;
    }
    l->found[i] = l->candidate[v];
    struct candidate *c = &b->candidates.at[l->found[i] - 1];
    c->role = ROLE_PARAMETER;
    c->listed = true;
    describe(l, &c->param, e);
}

/* The value of which `v` is a copy by Identity nodes; `v` itself if it is none. */
static ir_value copied_from(const struct builder *b, ir_value v) {
    const struct ir_module *m = b->m;
    uint32_t identity = op_find(b->p->ops, "", "Identity");
    while (m->value.at[v].def == IR_DEF_NODE && m->node.at[m->value.at[v].node].def == identity) {
        ir_value from = ir_input(m, m->value.at[v].node, 0);
        if (!from) break;
        v = from;
    }
    return v;
}

/* A stale name does not count: the tensor may live on under another one. */
static bool is_candidate(const struct listing *l, ir_value v) {
    return l->candidate[v] && l->b->candidates.at[l->candidate[v] - 1].role != ROLE_STALE;
}

static void find_entries(struct listing *l) {
    struct builder *b = l->b;
    /* The names that the graph has come first: they decide whose copy an Identity is. */
    for (int copies = 0; copies < 2; copies++) {
        for (uint32_t i = 0; i < l->list.all.n; i++) {
            const struct params_entry *e = &l->list.all.at[i];
            if (!ir_type_carries_gradient(b->m, e->type)) continue;
            for (uint32_t k = 0; k <= e->n_aliases; k++) {
                str name = entry_name(l, e, k);
                ir_value v = names_find(b, ir_text(b->m, name), strtab_len(&b->m->strings, name));
                if (!v) continue;
                if (!copies) {
                    if (is_candidate(l, v) && !l->owner[v]) claim(l, i, v);
                    continue;
                }
                ir_value from = copied_from(b, v);
                if (from == v || !is_candidate(l, from) || l->owner[from] == i + 1) continue;
                claim(l, i, l->owner[from] ? v : from);
            }
        }
    }
}

struct sized {
    int64_t elements;
    uint32_t candidate;
};

static int by_size(const void *a, const void *b) {
    const struct sized *x = a, *y = b;
    if (x->elements != y->elements) return x->elements < y->elements ? -1 : 1;
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

enum { CANDIDATES_SHOWN = 3 };

/* `same`, `n`: the unlisted initializers of its size. */
static void report_absent(struct listing *l, const struct params_entry *e, const struct sized *same,
                          uint32_t n) {
    struct builder *b = l->b;
    const char *name = ir_text(b->m, e->name);
    struct diag *g = lines_report(&l->file, e->line, DIAG_PARAMS_ABSENT,
                                  "the model has no '%s'; %u initializer%s of its %lld elements "
                                  "could be it under another name",
                                  name, n, n == 1 ? "" : "s", (long long)same->elements);
    for (uint32_t k = 0; k < n && k < CANDIDATES_SHOWN; k++) {
        const struct param *p = &b->candidates.at[same[k].candidate].param;
        diag_add_note(b->d, g, p->loc, "'%s', %s", ir_text(b->m, p->name),
                      ir_type_text(b->m, &b->scratch, p->type));
    }
    diag_set_help(b->d, g, "if it is the first of them: --alias '%s=%s'",
                  ir_value_name(b->m, b->candidates.at[same->candidate].param.value), name);
}

/* Listed parameters that the graph does not have. */
static void add_absent(struct listing *l) {
    struct builder *b = l->b;
    VEC(struct sized) pool = {0};
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        bool unlisted = c->role == ROLE_CONSTANT || (c->role == ROLE_PARAMETER && !c->listed);
        struct sized s = {c->param.elements, i};
        if (unlisted) vec_push(&pool, s);
    }
    if (pool.n) qsort(pool.at, pool.n, sizeof *pool.at, by_size);
    for (uint32_t i = 0; i < l->list.all.n; i++) {
        const struct params_entry *e = &l->list.all.at[i];
        if (l->found[i] || !ir_type_carries_gradient(b->m, e->type)) continue;
        struct candidate c = {.role = ROLE_PARAMETER, .listed = true, .param.loc = IR_NO_LOC};
        describe(l, &c.param, e);
        vec_push(&b->candidates, c);
        l->found[i] = b->candidates.n;
        uint32_t low = 0, high = pool.n;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (pool.at[middle].elements < c.param.elements)
                low = middle + 1;
            else
                high = middle;
        }
        while (high < pool.n && pool.at[high].elements == c.param.elements) high++;
        if (high > low && e->requires_grad) {
            report_absent(l, e, &pool.at[low], high - low);
            str name = b->candidates.at[pool.at[low].candidate].param.name;
            b->candidates.at[b->candidates.n - 1].param.perhaps = ir_text(b->m, name);
            b->unaccounted++;
        }
    }
    vec_free(&pool);
}

/* Declared parameters that the file does not know: one of the two is wrong. */
static void warn_unlisted(struct builder *b) {
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (c->role != ROLE_PARAMETER || c->listed) continue;
        const char *name = ir_text(b->m, c->param.name);
        diag_at(b->d, DIAG_PARAMS_UNLISTED, c->param.loc, (uint32_t)strlen(name),
                "the model declares the parameter '%s', but %s does not list it", name,
                b->o->params);
        b->unaccounted++;
    }
}

/* The listed parameters first, in the file's order: that is the order of the module. */
static void reorder(struct listing *l) {
    struct builder *b = l->b;
    VEC(struct candidate) sorted = {0};
    uint32_t *moved = arena_new(&b->scratch, uint32_t, b->candidates.n);
    for (uint32_t i = 0; i < l->list.all.n; i++) {
        if (!l->found[i]) continue;
        moved[l->found[i] - 1] = sorted.n;
        vec_push(&sorted, b->candidates.at[l->found[i] - 1]);
    }
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        if (b->candidates.at[i].listed) continue;
        moved[i] = sorted.n;
        vec_push(&sorted, b->candidates.at[i]);
    }
    for (uint32_t i = 0; i < sorted.n; i++) sorted.at[i].into = moved[sorted.at[i].into];
    vec_free(&b->candidates);
    b->candidates.at = sorted.at;
    b->candidates.n = sorted.n;
    b->candidates.cap = sorted.cap;
}

static bool listed_roles(struct builder *b) {
    const struct ir_module *m = b->m;
    struct listing l = {.b = b, .ok = true, .file = {.path = b->o->params, .diags = b->d}};
    if (params_file_read(&l.list, b->m, b->o->params, b->d)) {
        l.candidate = arena_new(&b->scratch, uint32_t, m->value.n);
        l.owner = arena_new(&b->scratch, uint32_t, m->value.n);
        l.found = arena_new(&b->scratch, uint32_t, l.list.all.n);
        for (uint32_t i = 0; i < b->candidates.n; i++) {
            struct candidate *c = &b->candidates.at[i];
            l.candidate[c->param.value] = i + 1;
            if (c->role == ROLE_STALE && b->declared) c->role = ROLE_PARAMETER;
        }
        find_entries(&l);
        add_absent(&l);
        warn_unlisted(b);
        reorder(&l);
    } else {
        l.ok = false;
    }
    params_file_free(&l.list);
    return l.ok;
}

/* ---- --trainable, --tie -------------------------------------------------------------------------
 */

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
            if ((c->role != groups[g][0] && c->role != groups[g][1]) ||
                !glob_match(w.text, ir_text(b->m, c->param.name)))
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

static struct candidate *candidate_named(struct builder *b, const char *name) {
    str s;
    if (!strtab_find(&b->m->strings, name, strlen(name), &s)) return NULL;
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        struct candidate *c = &b->candidates.at[i];
        if (c->param.name != s) continue;
        while (c->role == ROLE_TIED) c = &b->candidates.at[c->into];
        return c->role == ROLE_PARAMETER ? c : NULL;
    }
    return NULL;
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

static bool tie(struct builder *b, const char *text) {
    const char *equal = strchr(text, '=');
    if (!equal || equal == text || !equal[1]) {
        diag_plain(b->d, DIAG_FLAG_SYNTAX, "--tie", "'%s' is not of the form A=B", text);
        return false;
    }
    const char *name[2] = {arena_strndup(&b->scratch, text, (size_t)(equal - text)), equal + 1};
    struct candidate *c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = candidate_named(b, name[i]);
        if (!c[i]) {
            names_unknown(b, (struct wish){name[i], "--tie", false}, NAME_PARAMETER);
            return false;
        }
    }
    if (c[0] == c[1]) return true;
    if (c[0]->param.dtype != c[1]->param.dtype || c[0]->param.elements != c[1]->param.elements) {
        diag_plain(b->d, DIAG_BAD_TIE, "--tie",
                   "'%s' is %s and '%s' is %s: they cannot be one parameter", name[0],
                   ir_type_text(b->m, &b->scratch, c[0]->param.type), name[1],
                   ir_type_text(b->m, &b->scratch, c[1]->param.type));
        return false;
    }
    if (c[0] < c[1])
        merge(b, c[0], c[1]);
    else
        merge(b, c[1], c[0]);
    return true;
}

static bool check_frozen(struct builder *b, struct wish w) {
    for (uint32_t i = 0; i < b->candidates.n; i++)
        if (b->candidates.at[i].role == ROLE_PARAMETER &&
            glob_match(w.text, ir_text(b->m, b->candidates.at[i].param.name)))
            return true;
    return names_unknown(b, w, NAME_PARAMETER);
}

static bool apply_flags(struct builder *b) {
    bool ok = true;
    for (uint32_t i = 0; i < b->trainable.n; i++) ok &= choose(b, b->trainable.at[i], true);
    for (uint32_t s = 0; s < b->specs.n; s++)
        for (uint32_t i = 0; i < b->specs.at[s].trainable.n; i++)
            ok &= choose(b, b->specs.at[s].trainable.at[i], false);
    for (uint32_t i = 0; i < b->o->tie.n; i++) ok &= tie(b, b->o->tie.at[i]);
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
    else if (!listed_roles(b))
        return false;
    if (!apply_flags(b)) return false;

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
