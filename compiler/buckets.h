/* A step's gradients on their way into buckets: what buckets.c shares with the policies that have a
 * file of their own (robust.c, ddp.c). */
#ifndef DDPC_BUCKETS_H
#define DDPC_BUCKETS_H

#include "pair.h"

struct bucketer {
    const struct program *p;
    const struct topology *t;
    const struct options *o;
    struct diags *d;
    struct sched *out;
    /* Group after group, each in ready order; the groups that are not late first. */
    struct sched_item *item;
    uint64_t *raw; /* by item: bytes without padding */
    uint32_t n, n_early, early_groups;
    uint32_t *start; /* by group, and one more: its items */
    struct arena scratch;
};

/* A cut with the keys by which it is put in order. */
struct ordered {
    uint32_t phase;
    double time;
    uint32_t place;
    struct sched_cut cut;
};
/* A qsort. */
void sort_unless_sorted(void *at, uint32_t n, size_t size,
                        int (*compare)(const void *, const void *));
int compare_ordered(const void *a, const void *b);

/* All gradients that are not late as if they were of one group. */
struct merged {
    struct lane lane;
    uint32_t *item; /* by place in the lane */
};
struct merged bucketer_merge(const struct bucketer *u, struct arena *a);
/* Cuts the groups where the lane has its boundaries, and appends the cuts in the order in which
 * they are ready. */
void bucketer_cut(const struct bucketer *u, const struct merged *m, const uint32_t *boundary,
                  uint32_t buckets, sched_cuts *out);
bool bucketer_within_limits(const struct bucketer *u, const sched_cuts *cuts);
/* FIFO: the finish of the cuts in their order. */
double bucketer_replay(const struct bucketer *u, const sched_cuts *cuts);
static inline uint64_t bucketer_mib(double x) { return (uint64_t)(x * 1048576 + .5); }

/* robust.c: puts the most robust early cuts in the place of the first n_early of `cuts`, the nominal
 * best, and returns their worst regret. */
double bucketer_robust(struct bucketer *u, sched_cuts *cuts, uint32_t n_early);
/* ddp.c */
void bucketer_ddp(struct bucketer *u, sched_cuts *out);

#endif
