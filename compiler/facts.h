/* What is known of the elements of small integer tensors: the numbers that graphs compute shapes
 * from. */
#ifndef DDPC_FACTS_H
#define DDPC_FACTS_H

#include "ir.h"

/* A number, the size that a symbol stands for, or (neither) not known. */
struct element {
    int64_t n;
    str symbol;
    bool known; /* n is it */
};

struct elements {
    uint32_t n;
    struct element at[IR_MAX_INTS]; /* row by row; the value's type has the shape */
};

struct facts {
    struct ir_module *m; /* symbols are added to it */
    struct {
        uint32_t first, n; /* in `pool`; n 0: nothing is known */
    } * of;                /* by value */
    VEC(struct element) pool;
};

#define ELEMENT_UNKNOWN ((struct element){0})
#define ELEMENT(number) ((struct element){.n = (number), .known = true})

void facts_init(struct facts *f, struct ir_module *m);
void facts_free(struct facts *f);

/* False if not even their number is known, or if they are more than IR_MAX_INTS. */
bool facts_elements(const struct facts *f, ir_value v, struct elements *out);
void facts_set(struct facts *f, ir_value v, const struct elements *known);
static inline void facts_forget(struct facts *f, ir_value v) { f->of[v].n = 0; }

/* The elements of a small payload of floats; false if it has more than `max` or is not at hand. */
bool facts_floats(const struct facts *f, ir_value v, double *out, uint32_t max, uint32_t *n);

static inline bool element_same(struct element a, struct element b) {
    return a.symbol ? a.symbol == b.symbol : a.known && b.known && a.n == b.n && !b.symbol;
}
/* Leaves in the module what is known of values with one element, for the passes to come. */
void facts_keep(const struct facts *f, struct ir_module *m);
/* The only element of an integer or boolean; false if it is not known before the run. */
bool facts_number(const struct ir_module *m, ir_value v, int64_t *out);

struct ir_dim element_dim(struct element e);
struct element element_of_dim(struct ir_dim d);

/* fold.c: how an operator of ONNX computes on elements; NULL: nothing is known of what it gives. */
struct fold_rule;
const struct fold_rule *fold_rule_of(const char *op);
/* For an output whose type is final. Sets what follows, if anything does. */
void fold(struct facts *f, ir_node n, uint32_t output, const struct fold_rule *rule);

#endif
