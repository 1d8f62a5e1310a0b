/* The flow of gradients: what reach.c, reason.c and explain.c share. */
#ifndef DDPC_FLOW_H
#define DDPC_FLOW_H

#include "conditions.h"

struct flow {
    struct program *p;
    const struct ir_module *m;
    const struct step *step;
    struct bdd_manager *bdd;
    struct conditions c;
    struct arena arena;
    bool *type_carries; /* by type: its values carry gradients */
    bdd *must, *may;    /* by value; of values inside loops: in the trip looked at last */
    /* What happens under some branch, in some trip: */
    bool *live;   /* by value: a gradient reaches it */
    bool *passes; /* by node: it passes on a gradient */
    bool *flows;  /* by index into module.ref_value: one flows to that input */
    uint32_t sequence_at, sequence_erase; /* operators that leave elements out, as in ops.h */
    ir_node overflow;                     /* the node where a budget was first exceeded, or 0 */
};

/* Walks the graphs backwards from the step's losses. */
void flow_make(struct flow *f, struct program *p, uint32_t step, struct branches *b);
void flow_free(struct flow *f);

/* Whether a gradient at a node's output enters the node; *straight: only as the straight-through
 * gradient of a quantized value. */
bool flow_enters(const struct flow *f, ir_node n, uint32_t output, bool *straight);
/* Whether a gradient that entered goes on to an input. For nodes without graphs. */
bool flow_edge(const struct flow *f, ir_node n, uint32_t input, bool straight);

/* Whether what enters at an output of a node without graphs depends on the input. */
bool flow_connects(const struct flow *f, ir_node n, uint32_t input, uint32_t output);

/* flow_sequence.c: from a SequenceAt to the node and input that put its element in. */
enum { SEQUENCE_MAX_WAY = 64 };
struct sequence_step {
    ir_node node;
    uint32_t input;
};
struct sequence_way {
    uint32_t n;
    struct sequence_step at[SEQUENCE_MAX_WAY];
};
/* False if the graph does not say which element that is. */
bool sequence_way(const struct flow *f, ir_node at, struct sequence_way *way);
/* Whether all elements are pieces of one tensor. */
bool sequence_of_pieces(const struct flow *f, ir_value v);

/* reason.c: fills reason and loc of every gradient, whose class and functions are known. */
void reason_all(const struct flow *f, struct reach *r);

/* place.c: fills guard_loc of the conditional ones. */
void place_guards(const struct flow *f, struct reach *r);

#endif
