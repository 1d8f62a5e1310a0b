/* The runtime's insides, shared by open.c (birth and death), executor.c (the protocol of a step, in
 * the callers' threads), communicate.c (the communication thread) and verdict.c (what became of
 * it). docs/runtime.md has the state machine. */
#ifndef DDPRT_RUNTIME_H
#define DDPRT_RUNTIME_H

#include "comm.h"
#include "plan.h"

#include <pthread.h>
#include <stdatomic.h>

struct ddprt_plan {
    struct plan *p;
};

/* How a parameter's claim was taken; the low bits of the claim, above them the epoch. */
enum { CLAIM_READY = 1, CLAIM_ABSENT, CLAIM_CLOSED, CLAIM_SHIFT = 2 };

/* Per step and parameter: all that ddprt_ready looks at. */
struct ready_slot {
    _Atomic uint64_t claim; /* epoch << CLAIM_SHIFT | how, of the last time it was taken */
    uint32_t bucket;        /* in the step; PLAN_NONE: no segment here */
    uint32_t presence;      /* float in the presence bucket, or PLAN_NONE */
};

/* Gradients that a bucket still waits for. A line each: threads count down different ones. */
struct bucket_left {
    _Alignas(64) _Atomic uint32_t left;
};

struct step_state {
    _Atomic uint64_t epoch; /* sequence number of its last begin << CLAIM_SHIFT, or 0 */
    struct ready_slot *slot;
    float *presence; /* slots in the arena; NULL: no presence bucket */
    struct bucket_left *bucket;
    uint32_t index, n_buckets;
    const struct plan_step *plan;
    const struct plan_bucket *plan_bucket;
    unsigned char *arena;
    bool guarded; /* has buckets that can be skipped */
};

enum phase { PHASE_IDLE, PHASE_OPEN, PHASE_ENDED };

struct ddprt_runtime {
    /* Read by every ddprt_ready; written by step_begin. */
    _Atomic(struct step_state *) current;
    const _Atomic uint32_t *alive; /* a page that the kernel zeroes in forked children */
    uint32_t n_params;

    /* Who issues buckets: `pending` counts calls of drive since the last time that nobody was
     * driving; the one that found 0 owns `next` and `open` until it has put 0 back. */
    _Alignas(64) _Atomic uint32_t pending;
    struct step_state *open;  /* the step being driven */
    uint32_t next;            /* the bucket to issue next */
    _Atomic uint32_t limit;   /* buckets before this one may be issued */
    _Atomic uint64_t started; /* the highest epoch that somebody wanted driven */

    /* From the drivers to the communication thread: bucket indices in order of issue. */
    _Alignas(64) _Atomic uint32_t issued; /* how many ever; its futex */
    _Atomic uint32_t asleep;              /* it sleeps, or is about to */
    _Atomic uint32_t quit;
    uint32_t *queue, queue_mask;

    /* From the communication thread to the caller. */
    _Alignas(64) _Atomic uint32_t news; /* counts events; its futex */
    _Atomic uint32_t control_read;      /* the guards of the open step are known */
    _Atomic uint64_t completed;         /* the sequence number whose collectives are over */
    _Atomic uint32_t failed;            /* no step will succeed any more */
    int64_t completed_ns, reduce_ns;    /* of the step in `completed` */

    /* The first error of this rank: 0 none, 1 being written, 2 there. */
    _Atomic uint32_t error_state;
    struct comm_record record;
    ddprt_error error;

    /* The caller's thread. */
    enum phase phase;
    uint64_t sequence; /* of the last step_begin, which is also its epoch */
    int64_t begin_ns, end_ns;
    bool told;               /* `errors` is filled */
    _Atomic uint8_t *branch; /* 0, 1, BRANCH_UNKNOWN */
    struct step_state *last; /* the last step that succeeded */
    _Atomic uint64_t frozen_ready;
    ddprt_counters counters;
    ddprt_error *errors;
    struct comm_record *records; /* one per rank, for the exchange */
    int n_errors;

    /* Set once. */
    ddprt_comm *comm;
    const struct plan *plan;
    struct step_state *step;
    struct ready_slot *slots;
    struct bucket_left *buckets;
    unsigned char *memory;
    uint64_t memory_bytes;
    int timeout_ms;
    pthread_t thread;
};

enum { BRANCH_UNKNOWN = 2 };
enum { EXCHANGE_MS = 300, ABORT_MS = 500 };

/* executor.c */
void drive(ddprt_runtime *rt, uint64_t epoch);
/* The step that tells the others of an error that became known too late for its own: its control
 * bucket and nothing else. */
void send_error_flag(ddprt_runtime *rt, struct step_state *s);

/* communicate.c: the communication thread's main; its argument is the runtime. */
void *communicate(void *runtime);
/* The guard's value in the control bucket after its reduction. */
bool guard_is_true(const struct step_state *s, const struct plan *p, uint32_t guard);

/* verdict.c */
struct comm_record record_at(const ddprt_runtime *rt, int code, int rank);
/* Keeps the error if it is the first of this rank, and lets the others see it. Returns the code. */
int record_error(ddprt_runtime *rt, const struct comm_record *record);
bool has_error(const ddprt_runtime *rt);
/* Waits for the open step's collectives, the transport broken at the deadline. */
void wait_completed(ddprt_runtime *rt, int64_t deadline_ns);
/* After a failure, once: what everybody says. Fills rt->errors and, if this rank has no error of
 * its own, takes over the most telling one. */
void exchange_errors(ddprt_runtime *rt);
/* Wakes the caller's thread, if it waits for something that has just changed. */
void tell_news(ddprt_runtime *rt);

static inline bool is_forked(const ddprt_runtime *rt) {
    return atomic_load_explicit(rt->alive, memory_order_relaxed) == 0;
}

#endif
