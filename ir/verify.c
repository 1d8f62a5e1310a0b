/* The verifier: whether a text that has the right syntax is a model.
 *
 * One walk over each graph in the order of its nodes, subgraphs at the node that holds them, marks
 * values as they become defined; so a use that is not marked, a second definition and an output
 * that nobody defines show without further passes, and the whole is linear. What the nodes
 * themselves promise (operators, arities, subgraphs, calls) is checked on the way by verify_node.c.
 *
 * A use of a value whose node has not come yet is only noted here. If there was one, verify_order.c
 * looks at the graph's dependencies to say whether nodes stand in the wrong order or depend on each
 * other in a circle. The reader cannot tie a use inside a subgraph to a definition that an outer
 * graph makes later, so such uses stay open until the graphs around them end.
 *
 * Near names are looked for only after an error, and only for the first DIAG_MAX_SHOWN, so that
 * a broken model of a million values does not make it quadratic. */
#include "verify.h"
#include <stdlib.h>
#include <string.h>

uint32_t verify_name_length(const struct verifier *v, str name) {
    return strtab_len(&v->m->strings, name);
}

const char *verify_node_name(struct verifier *v, ir_node n) {
    const struct ir_node_info *node = &v->m->node.at[n];
    str name = node->name;
    for (uint32_t i = 0; !name && i < node->n_outputs; i++)
        name = v->m->value.at[ir_outputs(v->m, n)[i]].name;
    return arena_printf(&v->d->arena, "'%s' (%s)", ir_text(v->m, name), ir_text(v->m, node->op));
}

/* ---- near names ------------------------------------------------------------------------------ */

/* A name is worth the edit distance only if its length is near. */
static bool near_length(uint32_t a, uint32_t b) { return (a > b ? a - b : b - a) <= 1 + b / 4; }

static bool visible(const struct ir_module *m, ir_graph from, ir_graph owner) {
    for (ir_graph g = from; g; g = m->graph.at[g].parent)
        if (g == owner) return true;
    return false;
}

static void suggest(struct verifier *v, struct diag *to, str name, ir_graph from) {
    const struct ir_module *m = v->m;
    VEC(const char *) names = {0};
    VEC(ir_value) values = {0};
    uint32_t length = verify_name_length(v, name);
    if (v->d->errors <= DIAG_MAX_SHOWN && length > 1) { /* all names of one letter are near */
        for (ir_value x = 1; x < m->value.n; x++) {
            const struct ir_value_info *info = &m->value.at[x];
            if (info->def == IR_DEF_UNDEFINED || !info->name || info->name == name ||
                !near_length(verify_name_length(v, info->name), length) ||
                !visible(m, from, info->graph))
                continue;
            vec_push(&names, ir_text(m, info->name));
            vec_push(&values, x);
        }
    }
    const char *nearest = diag_nearest(ir_text(m, name), names.at, names.n);
    for (uint32_t i = 0; nearest && i < names.n; i++) {
        if (names.at[i] != nearest) continue;
        diag_add_note(v->d, to, m->value.at[values.at[i]].loc, "'%s' is defined here", nearest);
        diag_set_help(v->d, to, "did you mean '%s'?", nearest);
        break;
    }
    vec_free(&names);
    vec_free(&values);
}

/* ---- definitions and uses -------------------------------------------------------------------- */

/* A definition enters its name; the reader makes a new value for a second one in the same graph. */
static void define(struct verifier *v, ir_value x, ir_loc loc) {
    const struct ir_value_info *info = &v->m->value.at[x];
    ir_value before = v->by_name[info->name];
    if (!x || before == x) return;
    v->defined[x] = true;
    if (before && v->m->value.at[before].graph == info->graph) {
        struct diag *e = diag_at(v->d, DIAG_DEFINED_TWICE, loc, verify_name_length(v, info->name),
                                 "'%s' is defined twice", ir_value_name(v->m, x));
        diag_add_note(v->d, e, v->m->value.at[before].loc, "first defined here");
        return;
    }
    vec_push(&v->hidden, before);
    vec_push(&v->hidden, x);
    v->by_name[info->name] = x;
}

/* The node of graph `g` that is `n` or holds it in a subgraph. */
static ir_node lift(const struct ir_module *m, ir_node n, ir_graph g) {
    while (n && m->node.at[n].graph != g) n = m->graph.at[m->node.at[n].graph].owner;
    return n;
}

static void use(struct verifier *v, ir_value x, ir_node n, ir_loc loc) {
    const struct ir_value_info *info = &v->m->value.at[x];
    if (!x || v->defined[x]) return;
    if (info->def == IR_DEF_NODE)
        vec_push(&v->early, ((struct early_use){x, lift(v->m, n, info->graph), loc}));
    else
        vec_push(&v->open, ((struct open_use){x, n, loc}));
}

/* At the end of graph `g`: names used in its subgraphs that it has defined since. */
static void close_uses(struct verifier *v, ir_graph g, uint32_t from) {
    const struct ir_module *m = v->m;
    uint32_t left = from;
    for (uint32_t i = from; i < v->open.n; i++) {
        struct open_use u = v->open.at[i];
        ir_value found = v->by_name[m->value.at[u.value].name];
        if (found && m->value.at[found].graph == g && m->value.at[found].def == IR_DEF_NODE) {
            v->later[u.value] = found;
            vec_push(&v->early, ((struct early_use){found, lift(m, u.user, g), u.loc}));
        } else {
            v->open.at[left++] = u;
        }
    }
    v->open.n = left;
}

/* After a main graph or a body: what no graph around it defines. Each value is reported once. */
static void report_open_uses(struct verifier *v) {
    const struct ir_module *m = v->m;
    for (uint32_t i = 0; i < v->open.n; i++) {
        const struct open_use *u = &v->open.at[i];
        const struct ir_value_info *info = &m->value.at[u->value];
        if (v->defined[u->value]) continue;
        v->defined[u->value] = true;
        struct diag *e = diag_at(v->d, DIAG_UNDEFINED, u->loc, verify_name_length(v, info->name),
                                 "value '%s' is not defined", ir_text(m, info->name));
        suggest(v, e, info->name, m->node.at[u->user].graph);
    }
    v->open.n = 0;
}

static void walk_outputs(struct verifier *v, ir_graph g) {
    const struct ir_module *m = v->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const struct ir_decl *out = &m->decl.at[graph->outputs + i];
        const struct ir_value_info *info = &m->value.at[out->value];
        if (!out->value || v->defined[out->value] || info->def == IR_DEF_NODE) continue;
        v->defined[out->value] = true;
        struct diag *e =
            diag_at(v->d, DIAG_OUTPUT_UNDEFINED, out->loc, verify_name_length(v, info->name),
                    "output '%s' is not produced by any node", ir_text(m, info->name));
        suggest(v, e, info->name, g);
    }
}

static void walk_graph(struct verifier *v, ir_graph g);

static void walk_node(struct verifier *v, ir_node n) {
    const struct ir_module *m = v->m;
    const struct ir_node_info *node = &m->node.at[n];
    verify_node(v, n);
    for (uint32_t i = node->n_outputs; i < node->n_outputs + node->n_inputs; i++)
        use(v, m->ref_value.at[node->refs + i], n, m->ref_loc.at[node->refs + i]);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        if (a->kind == IR_ATTR_GRAPH || a->kind == IR_ATTR_GRAPHS)
            for (uint32_t k = 0; k < a->n_values; k++)
                walk_graph(v, m->attr_value.at[a->values + k].g);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++)
        define(v, m->ref_value.at[node->refs + i], m->ref_loc.at[node->refs + i]);
}

static void walk_graph(struct verifier *v, ir_graph g) {
    const struct ir_module *m = v->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    uint32_t hidden = v->hidden.n, open = v->open.n;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct ir_decl *in = &m->decl.at[graph->inputs + i];
        define(v, in->value, in->loc);
    }
    for (uint32_t i = 0; i < graph->n_items; i++) {
        const struct ir_decl *item = &m->decl.at[graph->items + i];
        /* A type alone defines something in the main graph only: a parameter. */
        bool declared = g == m->main && m->value.at[item->value].def == IR_DEF_DECLARED;
        if (item->data || declared) define(v, item->value, item->loc);
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) walk_node(v, m->node_list.at[graph->nodes + i]);
    walk_outputs(v, g);
    close_uses(v, g, open);
    for (; v->hidden.n > hidden; v->hidden.n -= 2) {
        ir_value x = v->hidden.at[v->hidden.n - 1];
        v->by_name[m->value.at[x].name] = v->hidden.at[v->hidden.n - 2];
    }
}

/* Versions begin with 1, and a list has one of each domain. `seen` is by str: the last import of that
 * domain, counted from 1; a list that is checked later has later ones. */
static void check_imports(struct verifier *v, uint32_t first, uint32_t n, uint32_t *seen) {
    for (uint32_t i = first; i < first + n; i++) {
        const struct ir_opset *o = &v->m->opset.at[i];
        const char *domain = o->domain ? ir_text(v->m, o->domain) : "ai.onnx";
        uint32_t before = seen[o->domain];
        seen[o->domain] = i + 1;
        if (o->version < 1) {
            struct diag *e =
                diag_at(v->d, DIAG_OPSET_VERSION, o->loc, 1,
                        "domain '%s' is imported with version %lld", domain, (long long)o->version);
            diag_set_help(v->d, e,
                          "versions begin with 1; give the one that the model is made for");
        } else if (before > first && v->m->opset.at[before - 1].version != o->version) {
            struct diag *e =
                diag_at(v->d, DIAG_OPSET_VERSION, o->loc, 1,
                        "domain '%s' is imported with version %lld, and with %lld before", domain,
                        (long long)o->version, (long long)v->m->opset.at[before - 1].version);
            diag_add_note(v->d, e, v->m->opset.at[before - 1].loc, "first imported here");
            diag_set_help(v->d, e, "leave out the one that the model is not made for");
        }
    }
}

/* The opset_import of the model and of its functions. */
static void check_opsets(struct verifier *v) {
    const struct ir_module *m = v->m;
    uint32_t *seen = arena_new(&v->scratch, uint32_t, m->strings.text.n);
    check_imports(v, m->opsets, m->n_opsets, seen);
    for (ir_function f = 1; f < m->function.n; f++)
        if (m->function.at[f].has_opsets)
            check_imports(v, m->function.at[f].opsets, m->function.at[f].n_opsets, seen);
    for (uint32_t i = 0; i < m->opset.n; i++) {
        const struct ir_opset *o = &m->opset.at[i];
        if (o->domain || o->version <= OP_NEWEST_OPSET) continue;
        diag_at(v->d, DIAG_NEWER_OPSET, o->loc, 1,
                "opset %lld is newer than %d, the last one whose gradient rules are known",
                (long long)o->version, OP_NEWEST_OPSET);
        return;
    }
}

bool ir_verify(struct ir_module *m, struct op_table *ops, struct diags *d) {
    uint32_t errors = d->errors;
    struct verifier v = {.m = m, .ops = ops, .d = d};
    v.defined = arena_new(&v.scratch, bool, m->value.n);
    v.later = arena_new(&v.scratch, ir_value, m->value.n);
    v.by_name = arena_new(&v.scratch, ir_value, m->strings.text.n);
    v.given = arena_new(&v.scratch, ir_attr, m->strings.text.n);
    vec_reserve(&v.hidden, 2 * (size_t)m->value.n);
    check_opsets(&v);
    verify_functions(&v);
    walk_graph(&v, m->main);
    report_open_uses(&v);
    for (ir_function f = 1; f < m->function.n; f++) {
        v.function = f;
        v.missing_domains.n = 0;
        walk_graph(&v, m->function.at[f].body);
        report_open_uses(&v);
    }
    verify_unknown_counts(&v);
    verify_recursion(&v);
    if (v.early.n) verify_order(&v);
    arena_free(&v.scratch);
    free(v.names);
    vec_free(&v.hidden);
    vec_free(&v.open);
    vec_free(&v.calls);
    vec_free(&v.early);
    vec_free(&v.missing_domains);
    return d->errors == errors;
}
