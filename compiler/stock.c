/* What stock DDP costs.
 *
 * With find_unused_parameters=True it looks, after every forward pass, at each node of the autograd
 * graph that the returned outputs lead to. Such a node is there for each operator that a trained
 * parameter precedes, and one (AccumulateGrad) for each such parameter; the edges are the inputs. So
 * one walk back from all outputs counts them. Exporters split and fuse operators, so it is an
 * estimate.
 *
 * The best bucket_cap_mb is searched among a few sizes by replaying DDP's buckets (ddp.c) on the
 * topology. Without the flag DDP puts its buckets into the order of the first step's gradients; with
 * it they stay in the order of the declarations. Conditional gradients count as if they were there,
 * and mix with the others. Releases differ in the first bucket: without a given cap it has 1 MiB,
 * with one it has the cap too in new ones; a size is judged by the worse of the two. */
#include "stock.h"
#include "control.h"
#include <string.h>

#define MOST 1e12 /* of nodes: nested trip counts may be anything */

struct walk {
    const struct program *p;
    const struct ir_module *m;
    bool *needs;   /* by value */
    bool *reached; /* by value: an output depends on it */
    bool *counted; /* by parameter */
};

struct count {
    double nodes, edges;
};

static struct count count_graph(struct walk *w, ir_graph g);

static void reach_value(struct walk *w, ir_value v, struct count *c) {
    if (!v || !w->needs[v]) return;
    c->edges++;
    w->reached[v] = true;
    uint32_t param = w->p->param_of[v];
    if (!param || w->counted[param - 1]) return;
    w->counted[param - 1] = true;
    c->nodes++;
}

static struct count count_node(struct walk *w, ir_node n) {
    const struct ir_module *m = w->m;
    const struct ir_node_info *node = &m->node.at[n];
    struct count c = {0};
    bool any = false;
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        ir_value v = ir_outputs(m, n)[o];
        any |= v && w->reached[v] && !w->p->param_of[v];
    }
    if (!any) return c;
    ir_graph body;
    bool holds = false, is_if = !strcmp(ir_text(m, node->op), "If");
    for (uint32_t k = 0; (body = control_graph(m, n, k)); k++, holds = true) {
        const struct ir_graph_info *graph = &m->graph.at[body];
        struct count outputs = {0};
        for (uint32_t i = 0; i < graph->n_outputs; i++)
            reach_value(w, m->decl.at[graph->outputs + i].value, &outputs);
        struct count inner = count_graph(w, body);
        double trips = is_if ? 1 : order_trips(m, n);
        inner.nodes = inner.nodes * trips < MOST ? inner.nodes * trips : MOST;
        inner.edges = inner.edges * trips < MOST ? inner.edges * trips : MOST;
        if (inner.nodes > c.nodes) c = inner;
    }
    if (!holds) c.nodes++;
    for (uint32_t i = 0; i < node->n_inputs; i++) reach_value(w, ir_inputs(m, n)[i], &c);
    return c;
}

static struct count count_graph(struct walk *w, ir_graph g) {
    const struct ir_graph_info *graph = &w->m->graph.at[g];
    struct count sum = {0};
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        struct count c = count_node(w, w->m->node_list.at[graph->nodes + i]);
        sum.nodes += c.nodes;
        sum.edges += c.edges;
    }
    return sum;
}

void stock_walk(const struct program *p, const struct reach *r, struct flag_walk *out) {
    const struct ir_module *m = p->m;
    *out = (struct flag_walk){0};
    if (!m->main) return;
    struct arena a = {0};
    struct walk w = {p, m, arena_new(&a, bool, m->value.n + 1u),
                     arena_new(&a, bool, m->value.n + 1u), arena_new(&a, bool, p->params.n + 1u)};
    bool *trains = arena_new(&a, bool, p->params.n + 1u);
    for (uint32_t i = 0; i < p->params.n; i++) trains[i] = r->gradient[i].class != GRAD_FROZEN;
    needs_find(p, trains, w.needs);
    const struct ir_graph_info *main = &m->graph.at[m->main];
    struct count outputs = {0};
    for (uint32_t i = 0; i < main->n_outputs; i++)
        reach_value(&w, m->decl.at[main->outputs + i].value, &outputs);
    struct count c = count_graph(&w, m->main);
    *out = (struct flag_walk){c.nodes + outputs.nodes, c.edges,
                              (c.nodes + outputs.nodes) * FLAG_WALK_US};
    arena_free(&a);
}

/* ---- buckets --------------------------------------------------------------------------------- */

struct trial {
    struct program *p;
    uint32_t step;
    const struct reach *r;
    const struct branches *b;
    const struct ready_times *ready;
    const struct topology *t;
    struct options options;
};

static double finish(struct trial *x, double first_mib, double cap_mib) {
    struct diags d;
    struct sched s = {0};
    diags_init(&d, NULL);
    x->options.first_bucket_mib = first_mib;
    x->options.bucket_cap_mib = cap_mib;
    bool ok = schedule_step(x->p, x->step, x->r, x->b, x->ready, x->t, &x->options, &d, &s);
    double us = ok ? s.finish_us : -1;
    sched_free(&s);
    diags_free(&d);
    return us;
}

void stock_buckets(struct program *p, uint32_t step, const struct reach *r,
                   const struct branches *b, const struct ready_times *ready,
                   const struct topology *t, bool flag, struct stock_buckets *out) {
    static const uint32_t caps[] = {1, 5, 10, 50, 100, 200, 400};
    *out = (struct stock_buckets){.unknown_nodes = ready->unknown_nodes,
                                  .nodes = ready->nodes,
                                  .backward_us = ready->backward_us};
    if (ready->unknown_nodes || !ready->n) return;
    struct arena a = {0};
    struct reach all = *r;
    all.gradient = arena_new(&a, struct gradient, p->params.n);
    memcpy(all.gradient, r->gradient, sizeof *all.gradient * p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++)
        if (all.gradient[i].class == GRAD_CONDITIONAL) all.gradient[i].class = GRAD_ALWAYS;
    struct trial x = {p,
                      step,
                      &all,
                      b,
                      ready,
                      t,
                      {.schedule = SCHEDULE_DDP, .order = flag ? ORDER_DDP_FLAG : ORDER_READY}};
    out->finish_us = out->default_us = finish(&x, 1, STOCK_DEFAULT_CAP);
    out->cap_mib = STOCK_DEFAULT_CAP;
    double best = out->default_us * (1 - STOCK_GAIN);
    for (uint32_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        double small = finish(&x, 1, caps[i]), large = finish(&x, caps[i], caps[i]);
        double us = small > large ? small : large;
        if (us >= best) continue;
        best = out->finish_us = us;
        out->cap_mib = caps[i];
    }
    arena_free(&a);
}
