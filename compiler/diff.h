/* The semantic difference of two plans, for `ddpc diff`.
 *
 *     diff_align.c     which parameter, step and bucket of NEW is which of OLD
 *     diff_rules.c     what changed about each, as records of diff_rules.def
 *     tool/diff*.c     the command, its text and its JSON */
#ifndef DDPC_DIFF_H
#define DDPC_DIFF_H

#include "arena.h"
#include "plan.h"

enum diff_class {
#define CLASS(ident, name, meaning) DIFF_##ident,
#include "diff_rules.def"
    DIFF_N_CLASSES
};

enum diff_rule {
#define RULE(number, ident, class, title, essay) DIFF_RULE_##ident,
#include "diff_rules.def"
    DIFF_N_RULES
};

enum diff_action { DIFF_ADD, DIFF_REMOVE, DIFF_UPDATE, DIFF_MOVE };

struct diff_change {
    enum diff_rule rule;
    enum diff_action action;
    const char *path;              /* "step/train/bucket/2"; names as they are in OLD, if there */
    const char *before, *after;    /* NULL: nothing there */
    const char *reason;            /* a sentence without its stop */
    uint32_t old_param, new_param; /* whose places in the models' texts to show; or PLAN_NONE */
};

struct diff {
    const struct plan *old, *new;
    struct arena *arena;
    /* By index, the partner's index in the other plan, or PLAN_NONE. */
    uint32_t *param_to_new, *param_to_old, *step_to_new, *step_to_old;
    /* By bucket of OLD in all steps: its partner, and the component of buckets that exchanged
     * members: buckets of either plan with the same component number belong together. */
    uint32_t *bucket_to_new, *old_component, *new_component;
    VEC(struct diff_change) changes; /* wire first, then by place */
};

/* The caller sets old, new and arena; this fills the rest. */
void diff_plans(struct diff *d);
void diff_free(struct diff *d);

/* The steps of diff_plans. */
void diff_align_params(struct diff *d);
void diff_align_steps(struct diff *d);
/* `follows[param of OLD]` is false for gradients whose place has a cause of its own in this step
 * (another dtype, class or guard): they say nothing about the buckets. */
void diff_align_buckets(struct diff *d, uint32_t old_step, const bool *follows);

enum { DIFF_ID_SIZE = 16 };
const char *diff_rule_id(enum diff_rule r, char id[DIFF_ID_SIZE]); /* "DDPW001", into id */
enum diff_class diff_rule_class(enum diff_rule r);
const char *diff_rule_title(enum diff_rule r);
const char *diff_rule_essay(enum diff_rule r);
const char *diff_class_name(enum diff_class c);
const char *diff_class_meaning(enum diff_class c);
bool diff_compatible(const struct diff *d); /* ranks of both could run together */

/* The longest ascending run of `value`, with gaps: sets keep[i] for its members, returns its
 * length. */
uint32_t diff_longest_ascending(const uint32_t *value, uint32_t n, bool *keep, struct arena *a);

#endif
