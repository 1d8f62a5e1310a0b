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
struct sched_bucket {
    uint32_t first, n; /* range in sched.item */
    uint32_t group;
    double ready_us, start_us, end_us;
};
struct sched {
    VEC(struct sched_item) item;     /* in bucket order */
    VEC(struct sched_bucket) bucket; /* in issue order */
    double finish_us, lower_bound_us, backward_us;
    bool optimal; /* finish_us is the proved minimum over order-preserving bucketings */
};

/* The core, free of models: items of one group, ascending ready times.
 * cap_bytes 0: none; max_buckets 0: none. Fills boundaries: bucket k is [boundary[k],
 * boundary[k+1]), returns the number of buckets; boundary has room for n + 1. *finish_us gets the
 * optimum. */
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
