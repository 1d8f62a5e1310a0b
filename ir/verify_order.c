/* Nodes in the wrong order, or in a circle.
 *
 * Called only where some use comes before its definition. For each graph that has one, the nodes of
 * the graph and what they depend on (uses inside a node's subgraphs count as the node's own) form a
 * directed graph; its strongly connected components are found with Tarjan's algorithm (1972,
 * without recursion, since chains of a million nodes are normal). An early use inside a component
 * is part of a cycle, reported once per component along a shortest circle; any other is a node in
 * the wrong place. */
#include "verify.h"
#include <stdlib.h>

enum { SHOWN_NODES = 8 }; /* of a cycle */

/* The dependencies of one graph's nodes. Nodes are counted from 0 in the order of the graph. */
struct dependencies {
    struct verifier *v;
    ir_graph graph;
    uint32_t n;
    uint32_t *index;      /* by ir_node: position in the graph + 1 */
    uint32_t *first;      /* by position: range of `on`; n + 1 of them */
    VEC(uint32_t) on;     /* positions of the nodes whose outputs it reads */
    uint32_t *component;  /* by position; from 1 */
    bool *reported;       /* by component */
    uint32_t *came, *way; /* for shortest_way; by position, came 0 between its calls */
};

static void *allocate(size_t count, size_t size) {
    void *p = calloc(count + 1, size);
    if (!p) arena_out_of_memory(count * size);
    return p;
}

static ir_node node_at(const struct dependencies *g, uint32_t position) {
    const struct ir_module *m = g->v->m;
    return m->node_list.at[m->graph.at[g->graph].nodes + position];
}

/* What node n, or anything in its subgraphs, reads from the graph. */
static void collect(struct dependencies *g, ir_node n) {
    const struct ir_module *m = g->v->m;
    const struct ir_node_info *node = &m->node.at[n];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        ir_value v = ir_inputs(m, n)[i];
        const struct ir_value_info *x = &m->value.at[g->v->later[v] ? g->v->later[v] : v];
        if (x->def == IR_DEF_NODE && x->graph == g->graph && g->index[x->node])
            vec_push(&g->on, g->index[x->node] - 1);
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        if (a->kind != IR_ATTR_GRAPH && a->kind != IR_ATTR_GRAPHS) continue;
        for (uint32_t k = 0; k < a->n_values; k++) {
            const struct ir_graph_info *inner = &m->graph.at[m->attr_value.at[a->values + k].g];
            for (uint32_t j = 0; j < inner->n_nodes; j++)
                collect(g, m->node_list.at[inner->nodes + j]);
        }
    }
}

static void find_components(struct dependencies *g) {
    uint32_t n = g->n, count = 0, time = 0, n_stack = 0, depth = 0;
    uint32_t *seen = allocate(n, sizeof *seen), *low = allocate(n, sizeof *low);
    uint32_t *stack = allocate(n, sizeof *stack), *path = allocate(n, sizeof *path);
    uint32_t *next = allocate(n, sizeof *next);
    for (uint32_t root = 0; root < n; root++) {
        if (seen[root]) continue;
        path[depth++] = root;
        while (depth) {
            uint32_t at = path[depth - 1];
            if (!seen[at]) {
                seen[at] = low[at] = ++time;
                next[at] = g->first[at];
                stack[n_stack++] = at;
            }
            if (next[at] < g->first[at + 1]) {
                uint32_t to = g->on.at[next[at]++];
                if (!seen[to])
                    path[depth++] = to;
                else if (!g->component[to] && seen[to] < low[at])
                    low[at] = seen[to];
                continue;
            }
            depth--;
            if (depth && low[at] < low[path[depth - 1]]) low[path[depth - 1]] = low[at];
            if (low[at] != seen[at]) continue;
            count++;
            do g->component[stack[--n_stack]] = count;
            while (stack[n_stack] != at);
        }
    }
    free(seen);
    free(low);
    free(stack);
    free(path);
    free(next);
}

/* A shortest way from `from` to `to` along dependencies inside their component, breadth first:
 * fills g->way from `from` to `to` and returns its length in nodes. Takes as long as the component is
 * large, so that all components together take no longer than the graph. */
static uint32_t shortest_way(struct dependencies *g, uint32_t from, uint32_t to) {
    uint32_t *came = g->came, *way = g->way, head = 0, length = 0;
    VEC(uint32_t) queue = {0};
    came[from] = from + 1;
    vec_push(&queue, from);
    while (head < queue.n && !came[to]) {
        uint32_t at = queue.at[head++];
        for (uint32_t i = g->first[at]; i < g->first[at + 1]; i++) {
            uint32_t next = g->on.at[i];
            if (came[next] || g->component[next] != g->component[from]) continue;
            came[next] = at + 1;
            vec_push(&queue, next);
        }
    }
    for (uint32_t at = to;; at = came[at] - 1) {
        way[length++] = at;
        if (at == from) break;
    }
    for (uint32_t i = 0; i < length / 2; i++) {
        uint32_t swap = way[i];
        way[i] = way[length - 1 - i];
        way[length - 1 - i] = swap;
    }
    for (uint32_t i = 0; i < queue.n; i++) came[queue.at[i]] = 0;
    vec_free(&queue);
    return length;
}

static void report_cycle(struct dependencies *g, const struct early_use *use, uint32_t producer,
                         uint32_t user) {
    struct verifier *v = g->v;
    struct diags *d = v->d;
    uint32_t length = shortest_way(g, producer, user);
    const uint32_t *way = g->way;
    /* The way goes from a node to what it needs; data flow the other way. */
    const char *text = "";
    uint32_t shown = length <= SHOWN_NODES ? length : SHOWN_NODES;
    for (uint32_t i = 0; i < shown; i++)
        text = arena_printf(&d->arena, "%s%s%s", text, i ? " needs " : "",
                            verify_node_name(v, node_at(g, way[i])));
    if (length > shown)
        text = arena_printf(&d->arena, "%s, and so on over %u more", text, length - shown);
    uint32_t caret = verify_name_length(v, v->m->value.at[use->value].name);
    struct diag *e;
    if (length == 1)
        e = diag_at(d, DIAG_CYCLE, use->loc, caret, "%s needs its own output '%s'", text,
                    ir_value_name(v->m, use->value));
    else
        e = diag_at(d, DIAG_CYCLE, use->loc, caret, "nodes depend on each other: %s needs %s", text,
                    verify_node_name(v, node_at(g, way[0])));
    for (uint32_t i = 0; length > 1 && i < shown; i++)
        diag_add_note(d, e, v->m->node.at[node_at(g, way[i])].loc, "%s is here",
                      verify_node_name(v, node_at(g, way[i])));
    diag_set_help(d, e, "break the circle, or carry the value over iterations with a Loop or Scan");
}

static void report(struct dependencies *g, const struct early_use *use) {
    struct verifier *v = g->v;
    const struct ir_value_info *x = &v->m->value.at[use->value];
    if (!g->index[x->node] || !g->index[use->user]) return;
    uint32_t producer = g->index[x->node] - 1, user = g->index[use->user] - 1;
    uint32_t component = g->component[producer];
    if (component == g->component[user]) {
        if (!g->reported[component]) report_cycle(g, use, producer, user);
        g->reported[component] = true;
        return;
    }
    struct diag *e =
        diag_at(v->d, DIAG_USED_BEFORE_DEFINED, use->loc, verify_name_length(v, x->name),
                "value '%s' is used before it is defined", ir_text(v->m, x->name));
    diag_add_note(v->d, e, x->loc, "it is defined here, by %s", verify_node_name(v, x->node));
    diag_set_help(v->d, e, "move that node above this one");
}

static void check_graph(struct verifier *v, ir_graph graph) {
    struct dependencies g = {.v = v, .graph = graph, .n = v->m->graph.at[graph].n_nodes};
    g.index = allocate(v->m->node.n, sizeof *g.index);
    g.first = allocate(g.n, sizeof *g.first);
    g.component = allocate(g.n, sizeof *g.component);
    g.reported = allocate(g.n, sizeof *g.reported);
    g.came = allocate(g.n, sizeof *g.came);
    g.way = allocate(g.n, sizeof *g.way);
    for (uint32_t i = 0; i < g.n; i++) g.index[node_at(&g, i)] = i + 1;
    for (uint32_t i = 0; i < g.n; i++) {
        g.first[i] = g.on.n;
        collect(&g, node_at(&g, i));
    }
    g.first[g.n] = g.on.n;
    find_components(&g);
    for (uint32_t i = 0; i < v->early.n; i++)
        if (v->m->value.at[v->early.at[i].value].graph == graph) report(&g, &v->early.at[i]);
    free(g.index);
    free(g.first);
    free(g.component);
    free(g.reported);
    free(g.came);
    free(g.way);
    vec_free(&g.on);
}

void verify_order(struct verifier *v) {
    /* Few graphs have such uses, and a model that is this broken in thousands of them is worth a
     * look at the first DIAG_MAX_SHOWN only. */
    VEC(ir_graph) seen = {0};
    for (uint32_t i = 0; i < v->early.n && seen.n < DIAG_MAX_SHOWN; i++) {
        ir_graph graph = v->m->value.at[v->early.at[i].value].graph;
        bool known = false;
        for (uint32_t k = 0; k < seen.n; k++) known |= seen.at[k] == graph;
        if (known) continue;
        vec_push(&seen, graph);
        check_graph(v, graph);
    }
    vec_free(&seen);
}
