/* Building a plan: the caller says what there is, in order, and the builder lays it out.
 *
 *     b = plan_builder_new();
 *     plan_add_param ... plan_add_branch, plan_add_guard_node, plan_add_guard, plan_add_option
 *     for each step: plan_add_step; plan_set_class for each parameter;
 *                    then for each bucket in the order of issue: plan_add_bucket, plan_add_segment
 *     plan_build(b, &bytes, &size); plan_builder_free(b);
 *
 * Control and presence buckets, the error slot, offsets, sizes, the strings' order, the name table
 * and both hashes are the builder's work. The same calls give the same bytes. Strings are copied.
 *
 * No call fails: when memory runs out plan_build says so. Nor does any check its arguments beyond
 * asserting that indices exist; plan_from_memory on the result does. */
#ifndef DDPC_PLAN_WRITE_H
#define DDPC_PLAN_WRITE_H

#include "plan.h"

struct plan_builder; /* opaque */

struct plan_builder *plan_builder_new(void); /* NULL: no memory */
void plan_builder_free(struct plan_builder *b);

/* All parameters come before the first step. Returns its index. */
uint32_t plan_add_param(struct plan_builder *b, const char *name, uint32_t dtype, uint32_t rank,
                        const int64_t *dims, struct plan_source source);
uint32_t plan_add_branch(struct plan_builder *b, const char *name, bool uniform);
/* Returns the function (node index + 2). Children first; 0 and 1 are the constants. */
uint32_t plan_add_guard_node(struct plan_builder *b, uint32_t branch, uint32_t low, uint32_t high);
uint32_t plan_add_guard(struct plan_builder *b, uint32_t root, const char *text);
bool plan_guard_is_uniform(const struct plan_builder *b, uint32_t guard);
/* Keys in any order, each once. */
void plan_add_option(struct plan_builder *b, const char *key, const char *value);

struct plan_step_info {
    const char *name, *topology;
    enum plan_policy policy;
    enum plan_order order;
    enum plan_average average;
    enum plan_guards guards;
    double backward_us, finish_us, lower_bound_us;
    double worst_regret; /* -1: not computed */
    /* the certificate */
    bool optimal;
    uint64_t cap_bytes;
    uint32_t max_buckets, ranks, n_pieces;
    const struct plan_piece *piece;
    double optimum_us;
};
/* All its parameters are `never` until plan_set_class says otherwise. Returns its index. */
uint32_t plan_add_step(struct plan_builder *b, const struct plan_step_info *info);
/* Of the step added last. `guard` is PLAN_NONE unless conditional. */
void plan_set_class(struct plan_builder *b, uint32_t param, enum plan_class class, bool exact,
                    uint32_t guard);
/* A gradient bucket of the step added last; `guard` (uniform) if it may be skipped, else PLAN_NONE.
 * Its dtype and class are its first segment's. */
void plan_add_bucket(struct plan_builder *b, uint32_t guard, double ready_us, double start_us,
                     double end_us);
void plan_add_segment(struct plan_builder *b, uint32_t param, double ready_us);

/* To be called once. *bytes is malloc'd. False: out of memory. */
bool plan_build(struct plan_builder *b, void **bytes, size_t *size);

#endif
