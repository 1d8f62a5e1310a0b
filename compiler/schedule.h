/* The schedule: gradients in ready order become buckets, each one collective on one FIFO channel.
 *
 * schedule.c has the exact minimum of the finish time over order-preserving bucketings, ddp.c the
 * buckets DDP would build; certificate.c checks a plan's claim by its own method and shares no code
 * with either. docs/scheduling.md has the algorithms and their sources. */
#ifndef DDPC_SCHEDULE_H
#define DDPC_SCHEDULE_H

#include "cost.h"

/* One gradient on its way to a bucket. Never mixed in a bucket: different groups. */
struct sched_item {
    uint32_t param; /* index into program.params */
    uint32_t group;
    uint64_t bytes; /* as the cost sees it: padded to 16 */
    double ready_us;
};
/* dtype x {always, conditional}; conditional ones split by guard where it uses uniform branches
 * alone, because such a bucket can be skipped by all ranks alike. */
struct sched_group {
    enum ir_dtype dtype;
    bool conditional;
    bool late; /* follows every group that is not late: conditional, --guards=discovered */
    bdd guard; /* of uniform branches alone; BDD_TRUE where there is no such guard */
};
struct sched_bucket {
    uint32_t first, n; /* range in sched.item */
    uint32_t group;    /* index into sched.group */
    double ready_us, start_us, end_us;
};
struct sched {
    VEC(struct sched_item) item;     /* in bucket order */
    VEC(struct sched_bucket) bucket; /* in issue order */
    VEC(struct sched_group) group;
    double finish_us, lower_bound_us, backward_us;
    bool optimal;       /* optimum_us is the proved minimum over order-preserving bucketings */
    double optimum_us;  /* finish_us exceeds it by less than SCHEDULE_EQUAL; 0 unless optimal */
    uint64_t cap_bytes; /* the limits it was computed under; 0: none */
    uint32_t max_buckets;
};

/* Finish times that differ by less than this part of them count as equal: a nanosecond in a second.
 */
#define SCHEDULE_EQUAL 1e-9

/* The core, free of models: items of one group, ascending ready times, bytes > 0.
 * cap_bytes 0: none (an item larger than the cap is a bucket of its own); max_buckets 0: none.
 * Fills boundaries: bucket k is [boundary[k], boundary[k+1]), returns the number of buckets;
 * boundary has room for n + 1. *finish_us gets the optimum. Among the plans that finish within
 * SCHEDULE_EQUAL of it: the fewest buckets, then the lexicographically earliest boundaries. Returns
 * 0 if the cap allows no plan of max_buckets (and for n = 0). */
uint32_t schedule_exact(uint32_t n, const double *ready_us, const uint64_t *bytes,
                        const struct topology *t, uint64_t cap_bytes, uint32_t max_buckets,
                        uint32_t *boundary, double *finish_us);
/* DDP's rule: add a tensor, then close if size >= limit. The limit is first_bytes for a group's
 * first bucket, then cap_bytes. Unpadded bytes. Returns the number of buckets. */
uint32_t schedule_ddp(uint32_t n, const uint64_t *bytes, uint64_t first_bytes, uint64_t cap_bytes,
                      uint32_t *boundary);

/* A step's schedule under the options' policy. */
bool schedule_step(struct program *p, uint32_t step, const struct reach *r,
                   const struct branches *b, const struct ready_times *ready,
                   const struct topology *t, const struct options *o, struct diags *d,
                   struct sched *out);
void sched_free(struct sched *s);

#endif
