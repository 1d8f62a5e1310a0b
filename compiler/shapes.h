/* Shapes of operators' outputs from those of their inputs, where they matter to costs. */
#ifndef DDPC_SHAPES_H
#define DDPC_SHAPES_H

#include "facts.h"

enum { SHAPE_MAX_RANK = 16 };

struct shape {
    int32_t rank; /* IR_RANK_UNKNOWN, or at most SHAPE_MAX_RANK */
    struct ir_dim dim[SHAPE_MAX_RANK];
};

/* The shape of a node's output; rank IR_RANK_UNKNOWN if it does not follow from what is known. */
typedef void (*shape_rule)(const struct facts *f, ir_node n, uint32_t output, struct shape *out);

/* NULL if shapes of this operator are not inferred. */
shape_rule shape_rule_of(const char *domain, const char *op);

/* The shape of a tensor type; rank IR_RANK_UNKNOWN if it has none or is not a tensor's. */
void shape_of_type(const struct ir_module *m, ir_type t, struct shape *out);

/* A dimension of two values of which either may be the result: equal, or '?'. */
struct ir_dim shape_join_dim(struct ir_dim a, struct ir_dim b);

#endif
