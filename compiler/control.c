/* Finds the control flow of a module and gives it one shape (control.h).
 *
 * Most models have none; then no array is made and the passes take their fast path. Otherwise the
 * graphs are walked once from the main one, outermost first, and for every loop the outer values
 * that its body reads are listed: what gradient analysis must know per trip are just those and the
 * states. Listing them walks each body once more per loop around it, so the cost is nodes times
 * loop depth. */
#include "control.h"

#include <string.h>

struct finder {
    const struct ir_module *m;
    struct control_flow *out;
    uint32_t if_def, loop_def, scan_def, map_def;
    uint32_t *seen; /* by value: the last loop in whose body it was defined or read */
};

ir_graph control_graph(const struct ir_module *m, ir_node n, uint32_t k) {
    const struct ir_node_info *node = &m->node.at[n];
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        if (a->kind != IR_ATTR_GRAPH && a->kind != IR_ATTR_GRAPHS) continue;
        if (k < a->n_values) return m->attr_value.at[a->values + k].g;
        k -= a->n_values;
    }
    return 0;
}

ir_value control_graph_input(const struct ir_module *m, ir_graph g, uint32_t i) {
    const struct ir_graph_info *graph = &m->graph.at[g];
    return i < graph->n_inputs ? m->decl.at[graph->inputs + i].value : 0;
}

ir_value control_graph_output(const struct ir_module *m, ir_graph g, uint32_t i) {
    const struct ir_graph_info *graph = &m->graph.at[g];
    return i < graph->n_outputs ? m->decl.at[graph->outputs + i].value : 0;
}

static void mark_decls(struct finder *f, uint32_t first, uint32_t n, uint32_t id) {
    for (uint32_t i = 0; i < n; i++) f->seen[f->m->decl.at[first + i].value] = id;
}

/* Marks what a body defines, its inner graphs included. */
static void mark_defined(struct finder *f, ir_graph g, uint32_t id) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    mark_decls(f, graph->inputs, graph->n_inputs, id);
    mark_decls(f, graph->items, graph->n_items, id);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        for (uint32_t k = 0; k < m->node.at[n].n_outputs; k++) f->seen[ir_outputs(m, n)[k]] = id;
        ir_graph inner;
        for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++) mark_defined(f, inner, id);
    }
}

static void capture(struct finder *f, struct control *c, ir_value v, uint32_t id) {
    if (!v || f->seen[v] == id) return;
    f->seen[v] = id;
    vec_push(&c->captures, v);
}

static void list_captures(struct finder *f, struct control *c, ir_graph g, uint32_t id) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        for (uint32_t k = 0; k < m->node.at[n].n_inputs; k++) capture(f, c, ir_inputs(m, n)[k], id);
        ir_graph inner;
        for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++) list_captures(f, c, inner, id);
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        capture(f, c, m->decl.at[graph->outputs + i].value, id);
}

static uint32_t less(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t minus(uint32_t a, uint32_t b) { return a > b ? a - b : 0; }

/* The verifier has compared the counts; `less` and `minus` keep a module that it did not see
 * harmless. */
static void shape(struct finder *f, struct control *c) {
    const struct ir_module *m = f->m;
    const struct ir_node_info *node = &m->node.at[c->node];
    uint32_t def = node->def;
    c->kind = CONTROL_OPAQUE;
    if (def && def == f->if_def) {
        c->body = ir_subgraph(m, c->node, "then_branch");
        c->otherwise = ir_subgraph(m, c->node, "else_branch");
        if (c->body && c->otherwise) c->kind = CONTROL_IF;
    } else if (def && (def == f->loop_def || def == f->scan_def || def == f->map_def)) {
        c->body = ir_subgraph(m, c->node, "body");
        if (!c->body) return;
        const struct ir_graph_info *body = &m->graph.at[c->body];
        if (def == f->loop_def) {
            c->kind = CONTROL_LOOP;
            c->node_in = c->body_in = 2; /* trip count and number, condition */
            c->body_out = 1;             /* condition */
            c->n_state = less(minus(node->n_inputs, 2), minus(body->n_inputs, 2));
        } else {
            int64_t scans = ir_attr_int(m, c->node, "num_scan_inputs", 0);
            c->kind = def == f->scan_def ? CONTROL_SCAN : CONTROL_SEQUENCE_MAP;
            /* Scan of opset 8 had sequence lengths in front. */
            c->node_in = c->kind == CONTROL_SCAN && node->n_inputs == body->n_inputs + 1;
            c->n_scan_in = body->n_inputs;
            if (c->kind == CONTROL_SCAN && scans >= 0 && scans <= body->n_inputs)
                c->n_scan_in = (uint32_t)scans;
            c->n_state = body->n_inputs - c->n_scan_in;
        }
        c->n_state = less(c->n_state, minus(body->n_outputs, c->body_out));
        c->n_scan_out = minus(body->n_outputs, c->body_out) - c->n_state;
    }
}

static void find(struct finder *f, ir_graph g, uint32_t depth) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        if (!control_graph(m, n, 0)) continue;
        struct control c = {.node = n, .depth = depth};
        uint32_t id = f->out->all.n;
        shape(f, &c);
        f->out->of_node[n] = id;
        ir_graph inner;
        if (c.kind != CONTROL_IF) {
            for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++) mark_defined(f, inner, id);
            for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++)
                list_captures(f, &c, inner, id);
        }
        bool loop = control_is_loop(&c);
        vec_push(&f->out->all, c);
        for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++) find(f, inner, depth + loop);
    }
}

void control_find(const struct ir_module *m, const struct op_table *ops, struct control_flow *out) {
    *out = (struct control_flow){0};
    bool any = false;
    for (uint32_t g = 1; g < m->graph.n; g++) any |= m->graph.at[g].owner != 0;
    if (!any) return;
    struct arena scratch = {0};
    struct finder f = {.m = m, .out = out, .seen = arena_new(&scratch, uint32_t, m->value.n)};
    f.if_def = op_find(ops, "", "If");
    f.loop_def = op_find(ops, "", "Loop");
    f.scan_def = op_find(ops, "", "Scan");
    f.map_def = op_find(ops, "", "SequenceMap");
    vec_push(&out->all, (struct control){0});
    out->of_node = vec_grow_(NULL, 0, m->node.n, &(uint32_t){0}, sizeof *out->of_node);
    memset(out->of_node, 0, m->node.n * sizeof *out->of_node);
    find(&f, m->main, 0);
    arena_free(&scratch);
}

void control_free(struct control_flow *f) {
    for (uint32_t i = 0; i < f->all.n; i++) vec_free(&f->all.at[i].captures);
    vec_free(&f->all);
    vec_release_(f->of_node);
    f->of_node = NULL;
}
