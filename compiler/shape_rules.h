/* What the shape rules share: dimensions, shapes of inputs, and the numbers that a node is given.
 *
 * A rule may call these with whatever a text holds: ranks, axes and numbers are checked here. */
#ifndef DDPC_SHAPE_RULES_H
#define DDPC_SHAPE_RULES_H

#include "shapes.h"

/* ---- tables of rules ------------------------------------------------------------------------- */

/* A table ends with a rule NULL. */
struct shape_rules {
    shape_rule rule;
    const char *ops; /* separated by spaces */
};

extern const struct shape_rules shape_rules_same[], shape_rules_window[], shape_rules_move[],
    shape_rules_index[], shape_rules_reduce[], shape_rules_attention[], shape_rules_image[],
    shape_rules_signal[], shape_rules_microsoft[], shape_rules_ml[], shape_rules_training[];

/* Whether a list separated by spaces has the word. */
bool shape_word_in(const char *words, const char *word);

/* ---- dimensions and shapes ------------------------------------------------------------------- */

#define DIM_UNKNOWN ((struct ir_dim){.size = -1})

static inline struct ir_dim dim_fixed(int64_t size) {
    return (struct ir_dim){.size = size < 0 ? -1 : size};
}
static inline bool dim_is_fixed(struct ir_dim d) { return !d.symbol && d.size >= 0; }
static inline bool dim_same(struct ir_dim a, struct ir_dim b) {
    return a.symbol == b.symbol && (a.symbol || (a.size == b.size && a.size >= 0));
}

static inline void shape_give_up(struct shape *s) { s->rank = IR_RANK_UNKNOWN; }

/* Sets a rank whose dimensions are not known yet. Out of range: gives up, false. */
bool shape_set_rank(struct shape *s, int64_t rank);

/* False if the rank of a node's input is not known. */
bool shape_of_input(const struct facts *f, ir_node n, uint32_t i, struct shape *out);

/* Makes `a` what numpy makes of both. */
void shape_broadcast(struct shape *a, const struct shape *b);

/* A negative axis counts from the end; -1 if it is out of range. */
int32_t shape_axis(int64_t axis, int32_t rank);

/* How many elements of `size` a slice takes. Bounds are clamped; `step` is not 0. */
int64_t shape_slice_length(int64_t size, int64_t start, int64_t end, int64_t step);

/* ---- what a node is given -------------------------------------------------------------------- */

struct numbers {
    bool known;
    uint32_t n;
    int64_t at[IR_MAX_INTS];
};

void numbers_of_attr(const struct facts *f, ir_node n, const char *name, struct numbers *out);

/* Of an input whose elements are all known. */
void numbers_of_input(const struct facts *f, ir_node n, uint32_t i, struct numbers *out);

void numbers_of_elements(const struct elements *e, struct numbers *out);

/* As below, for shapes of which only a part may be known. False if not even the length is. */
bool elements_of_attr_or_input(const struct facts *f, ir_node n, const char *name, uint32_t input,
                               struct elements *out);

/* Axes and the like: an attribute in early opsets, an input in later ones. False if there is
 * neither; true does not say that the numbers are known. */
bool numbers_of_attr_or_input(const struct facts *f, ir_node n, const char *name, uint32_t input,
                              struct numbers *out);

/* `otherwise` if there is no i-th. */
static inline int64_t numbers_at(const struct numbers *x, uint32_t i, int64_t otherwise) {
    return x->known && i < x->n ? x->at[i] : otherwise;
}

/* a + b, a * b, a / b: '?' where that does not follow, leaves a rest or would be too much. */
struct ir_dim dim_plus(struct ir_dim a, int64_t b);
struct ir_dim dim_times(struct ir_dim a, int64_t b);
struct ir_dim dim_over(struct ir_dim a, int64_t b);

/* Anything larger is nonsense; sums and products of two of these cannot overflow. */
static inline bool number_is_sane(int64_t x) { return x >= -(1 << 30) && x <= (1 << 30); }

/* What is padded on both sides together, at(i) + at(behind); something insane if either is. */
int64_t numbers_both_pads(const struct numbers *pads, uint32_t i, uint32_t behind);

/* A bit for each axis that is in range. */
uint32_t numbers_axis_bits(const struct numbers *axes, int32_t rank);

/* "" if there is no such attribute. */
const char *shape_attr_string(const struct facts *f, ir_node n, const char *name);

#endif
