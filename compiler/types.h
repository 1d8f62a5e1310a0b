/* What the parts of type inference share. */
#ifndef DDPC_TYPES_H
#define DDPC_TYPES_H

#include "check_sizes.h"
#include "check_types.h"
#include "program.h"
#include "shapes.h"

/* The type of an operator's output, of or from a sequence; 0: nothing more than the element type. */
typedef ir_type (*type_rule_of_sequence)(struct ir_module *m, ir_node n);

struct type_before {
    ir_value v;
    ir_type was;
};

struct typer {
    struct ir_module *m;
    const struct op_table *ops;
    struct diags *d;
    bool ok;
    struct facts facts;
    struct {
        bool known;
        shape_rule rule;
        const struct fold_rule *fold;
        const struct type_rule *types;
        uint32_t sizes;
        type_rule_of_sequence sequence;
    } * rules; /* by operator, found when first needed */

    /* While a loop's body is inferred: what values were before, to start over (types_flow.c). */
    uint32_t loops;   /* around here */
    uint64_t repeats; /* how many nodes may still be inferred again */
    VEC(struct type_before) journal;
};

/* types_dims.c */
bool types_apply_dims(struct ir_module *m, const struct options *o, struct diags *d);

/* types.c */
void types_infer_graph(struct typer *x, ir_graph g);
/* What the text says of the value, filled in with what was inferred. `by` is the node that makes it,
 * or 0. */
void types_give(struct typer *x, ir_value v, ir_type inferred, ir_node by);
/* A type for a value that may have come from either: where they differ, nothing is known. */
ir_type types_join(struct ir_module *m, ir_type a, ir_type b);
ir_type types_tensor(struct ir_module *m, enum ir_dtype dtype, const struct shape *s);
ir_type types_container(struct ir_module *m, enum ir_type_kind kind, ir_type elem);
static inline bool types_is_tensor(const struct ir_type_info *t) {
    return t->kind == IR_TYPE_TENSOR || t->kind == IR_TYPE_SPARSE_TENSOR;
}

/* types_flow.c: If, Loop, Scan, SequenceMap */
void types_infer_flow(struct typer *x, ir_node n, const char *op);

/* types_sequence.c; NULL if the operator is none of these */
type_rule_of_sequence types_sequence_rule(const char *op);

#endif
