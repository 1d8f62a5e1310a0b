/* The certificate of a schedule: what a plan says about its own quality, and the check of it.
 *
 * A plan carries the numbers its schedule was computed from - when each gradient is ready, its
 * bytes on the wire, the cost pieces, the limits - and what it claims: the times of its buckets,
 * the finish, a lower bound, where `optimal` the least finish of any order-preserving bucketing, and
 * of a robust schedule the worst regret. The check replays the buckets and computes the rest anew.
 * It shares no code with the scheduler, and knows neither models nor plan files: whoever has a plan
 * fills in this struct.
 *
 * Times are µs, sizes bytes. All arrays are borrowed. */
#ifndef DDPC_CERTIFICATE_H
#define DDPC_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct certificate_piece {
    double alpha_us, us_per_byte; /* the cost of S > 0 bytes is the least alpha + S * us_per_byte */
};

/* One gradient, in the order of the plan: buckets in issue order, each one's gradients together. */
struct certificate_item {
    double ready_us;
    uint64_t bytes; /* on the wire: padded to 16 */
};

struct certificate_bucket {
    uint32_t first, n; /* its items */
    uint32_t group;    /* gradients of different groups never share a bucket */
    double ready_us, start_us, end_us;
};

struct certificate {
    uint32_t n_items, n_buckets, n_groups, n_pieces;
    uint32_t first_number; /* what messages call the first bucket */
    const struct certificate_item *item;
    const struct certificate_bucket *bucket;
    /* By group: it follows all groups that are not late, and late groups follow each other in the
     * order of their numbers (conditional gradients under --guards=discovered). */
    const bool *group_late;
    const struct certificate_piece *piece;
    uint64_t cap_bytes;   /* 0: none. A gradient larger than this alone is a bucket of its own */
    uint32_t max_buckets; /* 0: no limit; of the gradient buckets of each group */
    bool optimal;         /* optimum_us is claimed to be the least finish there is */
    double slack; /* by how much of it the finish may exceed that; not 0: a robust schedule */
    double optimum_us, lower_bound_us, finish_us;
    double worst_regret; /* of a robust schedule; else -1 */
};

enum certificate_verdict {
    CERTIFICATE_REFUSED,  /* something claimed is not so */
    CERTIFICATE_REPLAYED, /* times and bound hold; no optimum is claimed, or something is too large
                           * to redo */
    CERTIFICATE_PROVED,   /* the optimum was computed anew and the plan is as near as it says */
};

struct certificate_report {
    enum certificate_verdict verdict;
    char what[160];        /* one sentence: the first thing that is wrong, or what was shown */
    double optimum_us;     /* computed anew; 0 where it was not */
    double lower_bound_us; /* computed anew */
    double worst_regret;   /* computed anew; negative where it was not */
    double gap;            /* finish / (optimum, or where there is none the lower bound) - 1 */
    /* The bottleneck chain: item `chain_item` is ready last in bucket `chain_bucket`, which starts
     * at that moment; from there to the last bucket the channel is never idle. */
    uint32_t chain_bucket, chain_item;
};

/* The slack of a robust schedule. */
#define CERTIFICATE_ROBUST .01

/* Two times are equal when they differ by less than this part of them. */
#define CERTIFICATE_EPSILON 2e-9

/* Any input is safe: ranges and orders are checked before they are used. */
void certificate_check(const struct certificate *c, struct certificate_report *out);

#endif
