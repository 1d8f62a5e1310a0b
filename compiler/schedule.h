/* The schedule: gradients in ready order become buckets, each one collective on one FIFO channel.
 *
 * schedule.c has the exact minimum of the finish time over order-preserving bucketings, robust.c
 * the plan among the near-optimal ones that keeps its promise when predictions are off, ddp.c the
 * buckets DDP would build; certificate.c checks a plan's claims by its own method and shares no code
 * with any. docs/scheduling.md has the algorithms and their sources. */
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
    bool optimal;        /* optimum_us is the proved minimum over order-preserving bucketings */
    double optimum_us;   /* 0 unless optimal; finish_us exceeds it by less than SCHEDULE_EQUAL, of a
                         * robust schedule by at most ROBUST_SLACK */
    double worst_regret; /* of a robust schedule, in the box of robust.c; else -1 */
    uint64_t cap_bytes;  /* the limits it was computed under; 0: none */
    uint32_t max_buckets;
};

/* Finish times that differ by less than this part of them count as equal: a nanosecond in a second.
 */
#define SCHEDULE_EQUAL 1e-9
/* What a robust schedule may cost if everything goes as predicted. */
#define ROBUST_SLACK .01

/* ---- the core, free of models ---------------------------------------------------------------- */

/* Items of one group, ascending ready times, bytes > 0. cap_bytes 0: none (an item larger than the
 * cap is a bucket of its own); max_buckets 0: none. Fills boundaries: bucket k is [boundary[k],
 * boundary[k+1]), returns the number of buckets; boundary has room for n + 1. *finish_us gets the
 * optimum. Among the plans that finish within SCHEDULE_EQUAL of it: the fewest buckets, then the
 * lexicographically earliest boundaries. Returns 0 if the cap allows no plan of max_buckets (and
 * for n = 0). */
uint32_t schedule_exact(uint32_t n, const double *ready_us, const uint64_t *bytes,
                        const struct topology *t, uint64_t cap_bytes, uint32_t max_buckets,
                        uint32_t *boundary, double *finish_us);

/* Its parts, for who asks many times. Gradients of one group, or taken as if they were of one: */
struct lane {
    uint32_t n;
    const double *ready_us; /* ascending */
    const uint64_t *sum;    /* sum[j]: the bytes of the first j; n + 1 of them */
};
/* The least finish in O(pieces * n), and with it the room's f (by prefix) and from (where the
 * prefix's last bucket begins). */
struct lane_window {
    uint32_t *at, head, tail;
    double *key;
};
struct lane_room {
    double *f;
    uint32_t *from;
    struct lane_window window[TOPOLOGY_MAX_PIECES];
};
void lane_room_init(struct lane_room *room, struct arena *a, uint32_t n, uint32_t n_pieces);
double lane_optimum(const struct lane *l, const struct topology *t, uint64_t cap_bytes,
                    struct lane_room *room);
/* The plan that `from` says: none finishes any prefix earlier. */
uint32_t lane_trace(const struct lane *l, const struct lane_room *room, uint32_t *boundary);
/* The plan of fewest buckets that finishes by `finish_us`, as in schedule_exact; the room is that of
 * lane_optimum. */
uint32_t lane_fewest(const struct lane *l, const struct topology *t, uint64_t cap_bytes,
                     const struct lane_room *room, double finish_us, uint32_t *boundary);

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

/* The box of robust.c: every corner so many times, by the number of gradients. */
enum { ROBUST_CORNERS = 27, ROBUST_SEED = 1 };
uint32_t robust_rounds(uint32_t n_gradients);
/* How a schedule fares in it, whatever its policy: the worst regret over the draws of a seed, from 0
 * to 255. */
double sched_worst_regret(const struct sched *s, const struct topology *t, uint64_t seed,
                          uint32_t rounds);

#endif
