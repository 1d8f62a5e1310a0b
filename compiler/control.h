/* Control flow: the nodes that hold graphs, in one shape for the passes that walk them.
 *
 * Loop, Scan and SequenceMap are all loops here: a body with states that are carried from trip to
 * trip and scan values that each trip has its own of. A Loop has no scan inputs, a SequenceMap no
 * states:
 *
 *     node inputs     [ .. node_in ..  | states | scan inputs  ]
 *     node outputs    [                  states | scan outputs ]
 *     body inputs     [ .. body_in ..  | states | scan inputs  ]
 *     body outputs    [ .. body_out .. | states | scan outputs ] */
#ifndef DDPC_CONTROL_H
#define DDPC_CONTROL_H

#include "ops.h"

enum control_kind {
    CONTROL_NONE,
    CONTROL_IF,
    CONTROL_LOOP,
    CONTROL_SCAN,
    CONTROL_SEQUENCE_MAP,
    CONTROL_OPAQUE, /* an operator accepted by assumption that holds graphs: nothing is known */
};

struct control {
    enum control_kind kind;
    ir_node node;
    ir_graph body;      /* the then branch of an If */
    ir_graph otherwise; /* the else branch of an If */
    uint32_t node_in, body_in, body_out;
    uint32_t n_state, n_scan_in, n_scan_out;
    uint32_t depth;         /* loops around it */
    VEC(ir_value) captures; /* of a loop or opaque node: outer values read inside, each once */
};

struct control_flow {
    uint32_t
        *of_node; /* by node: index in `all`, 0 for a plain node; NULL if there are no others */
    VEC(struct control) all;
};

void control_find(const struct ir_module *m, const struct op_table *ops, struct control_flow *out);
void control_free(struct control_flow *f);

/* NULL for a plain node. */
static inline const struct control *control_of(const struct control_flow *f, ir_node n) {
    return f->of_node && f->of_node[n] ? &f->all.at[f->of_node[n]] : NULL;
}
static inline bool control_is_loop(const struct control *c) {
    return c->kind == CONTROL_LOOP || c->kind == CONTROL_SCAN || c->kind == CONTROL_SEQUENCE_MAP;
}
/* The graphs that a node holds, by k = 0, 1, ...; 0 ends them. */
ir_graph control_graph(const struct ir_module *m, ir_node n, uint32_t k);
/* The value at a place among a graph's inputs or outputs; 0 beyond. */
ir_value control_graph_input(const struct ir_module *m, ir_graph g, uint32_t i);
ir_value control_graph_output(const struct ir_module *m, ir_graph g, uint32_t i);

#endif
