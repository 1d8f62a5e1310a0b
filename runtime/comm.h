/* A transport: what the executor needs of the ranks' connection, and nothing of what a plan means.
 *
 * The executor calls gather and map from the caller's thread while it opens, allreduce from its
 * communication thread alone, one after the other, in the same order on every rank; abort, missing
 * and post from any thread. All return within their deadline, or soon after abort.
 *
 * A transport breaks once: after the first failure, on whatever rank, every pending and later call
 * fails on every rank, with the same cause; a collective that was complete before the failure
 * succeeds on every rank. So no two ranks ever disagree about which collective was the last good
 * one. */
#ifndef DDPRT_COMM_H
#define DDPRT_COMM_H

#include "ddpc/ddprt.h"

#include <stdbool.h>

/* What a rank has to say about a failure, in numbers, so that each rank can print it with the names
 * of its own plan. -1 is "none". */
struct comm_record {
    int32_t code; /* 0: this rank has nothing to say */
    int32_t rank; /* at fault */
    int32_t step, parameter, bucket, branch;
    int64_t sequence;
    char message[80]; /* of ddprt_abort */
};
#define COMM_RECORD_NONE                                                                           \
    ((struct comm_record){                                                                         \
        .rank = -1, .step = -1, .parameter = -1, .bucket = -1, .branch = -1, .sequence = -1})

/* One all-reduce in place: the sum over ranks, in rank order. Elements that begin before
 * scaled_bytes are multiplied by `scale` afterwards (float32 arithmetic for 16-bit types). */
struct comm_op {
    uint64_t offset, bytes; /* in the memory from map; bytes is a multiple of 16 */
    uint64_t scaled_bytes;
    double scale;
    uint32_t dtype; /* enum plan_dtype */
    uint32_t step, bucket;
    uint64_t sequence;
};

enum { COMM_GATHER_MAX = 256 };

struct comm_ops {
    const char *name;
    /* Whether allreduce can add elements of this type. */
    bool (*adds)(uint32_t dtype);
    /* Everybody's `bytes` bytes (at most COMM_GATHER_MAX), in rank order, to everybody. */
    int (*gather)(ddprt_comm *c, const void *mine, uint32_t bytes, void *all, int64_t deadline_ns,
                  struct comm_record *failure);
    /* The zeroed memory on which allreduce works; once. All ranks pass the same size. */
    int (*map)(ddprt_comm *c, uint64_t bytes, void **memory, int64_t deadline_ns,
               struct comm_record *failure);
    int (*allreduce)(ddprt_comm *c, const struct comm_op *op, struct comm_record *failure);
    /* Breaks the transport with this cause, unless it is broken already. */
    void (*abort)(ddprt_comm *c, int code, int rank_at_fault);
    /* The lowest rank that the pending collective waits for, -1 if none. */
    int (*missing)(ddprt_comm *c);
    /* Publishes which parameter this rank waits for in which step, for those who wait for this
     * rank. */
    void (*hint)(ddprt_comm *c, uint64_t sequence, uint32_t parameter);
    /* Publishes this rank's record; the first one stays. Works on a broken transport too. */
    void (*post)(ddprt_comm *c, const struct comm_record *mine);
    /* Waits until every living rank has posted one or the deadline passes, then copies them all. */
    void (*collect)(ddprt_comm *c, struct comm_record *all, int64_t deadline_ns);
    /* Leaves and frees it. Memory from map goes away. */
    void (*close)(ddprt_comm *c);
};

/* What every transport's struct begins with. */
struct ddprt_comm {
    const struct comm_ops *ops;
    int rank, size;
};

#endif
