/* Where a conditional gradient is decided: the If or the loop that lies on its way to the loss, for
 * a reader who wants to see the condition rather than the declaration.
 *
 * On the way from a value to the loss its condition changes at the border of a control-flow node: a
 * value inside a branch has the condition of the If's output and the If's own. So the place of a
 * value is the node at whose border it changes first, else the place of what it flows into. One
 * walk from the last node to the first finds that for all values; of several uses the first one of
 * the text decides. A loop's body is walked once: what a state does in the next trip is decided by
 * the loop, and that is what is said. */
#include "flow.h"

struct places {
    const struct flow *f;
    const struct ir_module *m;
    ir_node *of; /* by value: the node, or 0 */
};

static bool same(const struct places *p, ir_value a, ir_value b) {
    return p->f->may[a] == p->f->may[b] && p->f->must[a] == p->f->must[b];
}

/* The gradient of `inner` comes through `n` from `outer`. */
static void cross(struct places *p, ir_value inner, ir_value outer, ir_node n) {
    if (!inner || !p->f->live[inner]) return;
    p->of[inner] = outer && p->of[outer] && same(p, inner, outer) ? p->of[outer] : n;
}

/* The gradient of `v` comes through the plain node `n` from `out`, and perhaps from elsewhere too:
 * from both branches of an If around n, say. Then an output of that If has its condition. */
static void follow(struct places *p, ir_value v, ir_value out, ir_node n) {
    const struct ir_module *m = p->m;
    if (!p->of[out]) return;
    if (same(p, v, out)) {
        p->of[v] = p->of[out];
        return;
    }
    for (ir_node at; (at = m->graph.at[m->node.at[n].graph].owner) != 0; n = at)
        for (uint32_t o = 0; o < m->node.at[at].n_outputs; o++) {
            ir_value outer = ir_outputs(m, at)[o];
            if (!outer || !p->of[outer] || !same(p, v, outer)) continue;
            p->of[v] = p->of[outer];
            return;
        }
    if (!p->of[v]) p->of[v] = p->of[out];
}

static void place_graph(struct places *p, ir_graph g) {
    const struct flow *f = p->f;
    const struct ir_module *m = p->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t k = graph->n_nodes; k-- > 0;) {
        ir_node n = m->node_list.at[graph->nodes + k];
        const struct ir_node_info *node = &m->node.at[n];
        if (!f->passes[n]) continue;
        const struct control *c = control_of(&f->c.control, n);
        ir_graph inner;
        for (uint32_t j = 0; c && (inner = control_graph(m, n, j)); j++) {
            uint32_t skip = control_is_loop(c) ? c->body_out : 0;
            for (uint32_t o = skip; o < m->graph.at[inner].n_outputs; o++)
                cross(p, control_graph_output(m, inner, o),
                      o - skip < node->n_outputs ? ir_outputs(m, n)[o - skip] : 0, n);
            place_graph(p, inner);
        }
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            ir_value v = ir_inputs(m, n)[i];
            if (!v || !f->live[v] || !f->flows[node->refs + node->n_outputs + i]) continue;
            ir_value out = 0;
            for (uint32_t o = node->n_outputs; o-- > 0;)
                if (f->live[ir_outputs(m, n)[o]]) out = ir_outputs(m, n)[o];
            if (c)
                cross(p, v, out, n);
            else
                follow(p, v, out, n);
        }
    }
}

void place_guards(const struct flow *f, struct reach *r) {
    struct arena scratch = {0};
    struct places p = {.f = f, .m = f->m};
    for (uint32_t i = 0; i < f->p->params.n; i++) {
        const struct param *param = &f->p->params.at[i];
        struct gradient *g = &r->gradient[i];
        struct ir_source source;
        g->guard_loc = IR_NO_LOC;
        if (g->class != GRAD_CONDITIONAL) continue;
        if (!p.of) {
            p.of = arena_new(&scratch, ir_node, f->m->value.n);
            place_graph(&p, f->m->main);
        }
        ir_node n = p.of[param->value];
        for (uint32_t k = 0; !n && k < param->tied.n; k++) n = p.of[param->tied.at[k]];
        if (n) g->guard_loc = f->m->node.at[n].loc;
        if (ir_node_source(f->m, n, &source)) g->source = n;
    }
    arena_free(&scratch);
}
