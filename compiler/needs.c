/* Which values autograd computes with a graph behind them: those that a trainable parameter precedes.
 *
 * One walk forwards. Bodies get what their nodes get; whether a gradient would really arrive is
 * reach.c's question. */
#include "control.h"
#include "cost.h"
#include <string.h>

struct walk {
    const struct program *p;
    const struct ir_module *m;
    bool *needs;
};

static bool is_loop(const struct ir_module *m, ir_node n) {
    const char *op = ir_text(m, m->node.at[n].op);
    return !strcmp(op, "Loop") || !strcmp(op, "Scan");
}

static void needs_of(struct walk *w, ir_graph g);

static void needs_of_node(struct walk *w, ir_node n) {
    const struct ir_module *m = w->m;
    const struct ir_node_info *node = &m->node.at[n];
    const struct op_def *def = op_get(w->p->ops, node->def);
    bool any = false, bodies = false;
    ir_graph g;
    for (uint32_t k = 0; (g = control_graph(m, n, k)); k++) {
        /* What a body gets may want a gradient if anything given to the node does; a loop may carry
         * a body's parameter round, which counts as well. */
        const struct ir_graph_info *body = &m->graph.at[g];
        bool carries = is_loop(m, n);
        for (uint32_t i = 0; i < node->n_inputs && !carries; i++)
            carries = w->needs[ir_inputs(m, n)[i]];
        for (uint32_t i = 0; i < body->n_inputs; i++) {
            ir_value v = m->decl.at[body->inputs + i].value;
            w->needs[v] = carries && ir_type_carries_gradient(m, m->value.at[v].type);
        }
        needs_of(w, g);
        for (uint32_t i = 0; i < body->n_outputs; i++)
            any |= w->needs[m->decl.at[body->outputs + i].value];
        bodies = true;
    }
    for (uint32_t i = 0; i < node->n_inputs && !any && !bodies; i++)
        any = w->needs[ir_inputs(m, n)[i]] && op_input_of(w->p->ops, node->def, i)->rule != OP_STOP;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        ir_value v = ir_outputs(m, n)[i];
        if (!v || w->p->param_of[v]) continue; /* a parameter wants one by itself */
        w->needs[v] =
            any && op_output_carries(def, i) && ir_type_carries_gradient(m, m->value.at[v].type);
    }
}

static void needs_of(struct walk *w, ir_graph g) {
    const struct ir_graph_info *graph = &w->m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        needs_of_node(w, w->m->node_list.at[graph->nodes + i]);
}

void needs_find(const struct program *p, const bool *trains, bool *needs) {
    struct walk w = {p, p->m, needs};
    for (ir_value v = 1; v < p->m->value.n; v++) {
        uint32_t i = p->param_of[v];
        needs[v] = i && p->params.at[i - 1].kind == PARAM_PARAMETER && trains[i - 1];
    }
    if (p->m->main) needs_of(&w, p->m->main);
}
