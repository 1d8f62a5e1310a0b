/* The exact schedule of two groups that share the channel. */
#ifndef DDPC_PAIR_H
#define DDPC_PAIR_H

#include "schedule.h"

/* A bucket as a range of items, before it has times. */
struct sched_cut {
    uint32_t first, n;
};
typedef VEC(struct sched_cut) sched_cuts;

/* The items of one group, then those of the other, each by ascending ready time. Appends the
 * buckets in the order of issue and returns true; false if it would be too large to compute. */
bool schedule_pair(const struct sched_item *item, uint32_t n_a, uint32_t n_b,
                   const struct topology *t, uint64_t cap_bytes, sched_cuts *out,
                   double *finish_us);

#endif
