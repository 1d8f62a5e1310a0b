/* The edges of a graph's picture, and where the gradient's way is cut.
 *
 * An edge is there where a node reads what another makes. A gradient passes it backwards if reach.c
 * says so in any step. It is cut where a trainable parameter precedes but the operator passes
 * nothing on: what nothing trainable precedes (masks, indices) would have no gradient anyway. That an
 * operator only asks for a shape is not worth a mark. */
#include "graph_fold.h"
#include <stdlib.h>
#include <string.h>

enum { MANY_ENDS = 12 };

static bool flows(const struct folder *f, uint32_t ref) {
    for (uint32_t s = 0; s < f->p->steps.n; s++)
        if (f->reach[s].ref_flows[ref]) return true;
    return false;
}

static bool active(const struct folder *f, ir_node n) {
    for (uint32_t s = 0; s < f->p->steps.n; s++)
        if (f->reach[s].node_active[n]) return true;
    return false;
}

static struct cut cut_of(const struct folder *f, ir_node n, uint32_t input) {
    const struct ir_node_info *node = &f->m->node.at[n];
    const char *op = ir_text(f->m, node->op);
    ir_value v = ir_inputs(f->m, n)[input];
    if (!f->needs[v] || control_graph(f->m, n, 0) || !strcmp(op, "Shape") || !strcmp(op, "Size"))
        return (struct cut){0};
    if (cut_at_input(&f->flow, n, input))
        return (struct cut){.kind = CUT_INPUT, .node = n, .index = input, .value = v};
    struct cut cut = {0};
    for (uint32_t o = node->n_outputs; o-- > 0;) {
        if (!ir_outputs(f->m, n)[o] || !flow_connects(&f->flow, n, input, o)) continue;
        if (!cut_at_output(&f->flow, n, o)) return (struct cut){0};
        cut = (struct cut){.kind = CUT_MAKES, .node = n, .index = o, .value = v};
    }
    return cut;
}

/* The vertex that makes a value; 0: none that is drawn. */
static uint32_t maker(struct folder *f, ir_value v) {
    const struct ir_value_info *value = &f->m->value.at[v];
    if (value->def == IR_DEF_NODE) return f->of_node[value->node];
    if (value->def != IR_DEF_INPUT || f->p->param_of[v]) return 0;
    uint32_t body = f->body_of[value->graph];
    if (value->graph != f->m->main && !body) return 0;
    if (!f->of_input[v]) {
        f->place = 0;
        f->of_input[v] = graph_vertex_add(f, GRAPH_INPUT, body, ir_text(f->m, value->name));
    }
    return f->of_input[v];
}

static void add_way(struct folder *f, uint32_t from, uint32_t to, bool flows, struct cut cut) {
    if (!from || !to || (from == to && !cut.kind)) return;
    struct way w = {from, to, flows, cut};
    vec_push(&f->ways, w);
}

static void connect_nodes(struct folder *f) {
    const struct ir_module *m = f->m;
    for (ir_node n = 1; n < m->node.n; n++) {
        const struct ir_node_info *node = &m->node.at[n];
        if (!f->of_node[n]) continue;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            ir_value v = ir_inputs(m, n)[i];
            if (!v) continue;
            bool passes = flows(f, node->refs + node->n_outputs + i);
            struct cut cut = passes ? (struct cut){0} : cut_of(f, n, i);
            uint32_t from = maker(f, v);
            if (!from && cut.kind) from = f->of_node[n]; /* a parameter's own cut */
            add_way(f, from, f->of_node[n], passes, cut);
        }
    }
    for (ir_graph g = 1; g < m->graph.n; g++) {
        const struct ir_graph_info *graph = &m->graph.at[g];
        for (uint32_t i = 0; f->body_of[g] && i < graph->n_outputs; i++) {
            ir_value v = m->decl.at[graph->outputs + i].value;
            if (v && m->value.at[v].graph == g)
                add_way(f, maker(f, v), f->of_node[graph->owner],
                        m->value.at[v].node && active(f, m->value.at[v].node), (struct cut){0});
        }
    }
}

/* Which steps start at a value: "loss of d and g". */
static const char *loss_text(struct folder *f, ir_value v) {
    const char *text = NULL;
    for (uint32_t s = 0; s < f->p->steps.n; s++) {
        const struct step *step = &f->p->steps.at[s];
        bool is = false;
        for (uint32_t i = 0; i < step->losses.n; i++) is |= step->losses.at[i] == v;
        if (!is) continue;
        const char *name = ir_text(f->m, step->name);
        text = f->p->steps.n == 1 ? "the gradient starts here"
               : text             ? arena_printf(&f->g->arena, "%s and %s", text, name)
                                  : arena_printf(&f->g->arena, "loss of %s", name);
    }
    return text;
}

static void connect_outputs(struct folder *f) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *main = &m->graph.at[m->main];
    bool *done = arena_new(&f->scratch, bool, m->value.n);
    VEC(ir_value) ends = {0};
    for (uint32_t s = 0; s < f->p->steps.n; s++)
        for (uint32_t i = 0; i < f->p->steps.at[s].losses.n; i++)
            vec_push(&ends, f->p->steps.at[s].losses.at[i]);
    for (uint32_t i = 0; i < main->n_outputs; i++)
        vec_push(&ends, m->decl.at[main->outputs + i].value);
    uint32_t others = 0;
    f->place = UINT32_MAX;
    for (uint32_t i = 0; i < ends.n; i++) {
        ir_value v = ends.at[i];
        if (!v || done[v]) continue;
        done[v] = true;
        const char *loss = loss_text(f, v);
        bool together = !loss && !f->all && main->n_outputs > MANY_ENDS;
        uint32_t end =
            together && others ? others : graph_vertex_add(f, GRAPH_OUTPUT, 0, ir_value_name(m, v));
        struct graph_vertex *vertex = &f->g->vertex.at[end];
        if (together) {
            others = end;
            vertex->label = "other outputs";
        }
        vertex->loss = loss != NULL;
        vertex->detail = loss ? loss : "no loss";
        add_way(f, maker(f, v), end, loss && m->value.at[v].node && active(f, m->value.at[v].node),
                (struct cut){0});
    }
    vec_free(&ends);
}

static int compare_ways(const void *a, const void *b) {
    const struct way *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->cut.node != y->cut.node) return x->cut.node < y->cut.node ? -1 : 1;
    return x->cut.index < y->cut.index ? -1 : x->cut.index > y->cut.index;
}

static uint32_t say_cut(struct folder *f, const struct cut *cut) {
    struct arena *a = &f->g->arena;
    vec_push(&f->g->cut,
             arena_printf(a, "%s %s", ir_value_name(f->m, cut->value), cut_text(&f->flow, a, cut)));
    return f->g->cut.n - 1;
}

static void merge_ways(struct folder *f) {
    if (f->ways.n) qsort(f->ways.at, f->ways.n, sizeof *f->ways.at, compare_ways);
    struct graph *g = f->g;
    for (uint32_t i = 0; i < f->ways.n; i++) {
        const struct way *w = &f->ways.at[i];
        if (w->from == w->to) {
            struct graph_vertex *v = &g->vertex.at[w->to];
            if (!v->cuts++) v->first_cut = say_cut(f, &w->cut);
            continue;
        }
        struct graph_edge *last = g->edge.n ? &g->edge.at[g->edge.n - 1] : NULL;
        if (!last || last->from != w->from || last->to != w->to) {
            struct graph_edge edge = {.from = w->from, .to = w->to};
            vec_push(&g->edge, edge);
            last = &g->edge.at[g->edge.n - 1];
        }
        last->flows |= w->flows;
        if (w->cut.kind && !last->cuts++) last->first_cut = say_cut(f, &w->cut);
    }
}

void graph_connect(struct folder *f) {
    connect_nodes(f);
    connect_outputs(f);
    merge_ways(f);
}
