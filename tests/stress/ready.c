/* No bucket is lost: threads complete buckets at the same moment, in 100,000 steps (or argv[1]) of
 * four rounds, and after each round, when all calls of ddprt_ready have returned, every bucket that
 * is complete must have been issued. A later call would issue a forgotten one too and so hide the
 * loss; this looks before there is one.
 *
 * The transport does nothing, so that the threads meet in the executor as often as possible. Meant
 * to be run under ThreadSanitizer too. */
#define _GNU_SOURCE
#include "job.h"
#include "runtime.h"

#include <sched.h>

enum { THREADS = 3, ROUNDS = 4, BUCKETS = THREADS * ROUNDS }; /* of one gradient each */

static bool adds(uint32_t dtype) { return dtype == PLAN_FLOAT32; }
static int gather(ddprt_comm *c, const void *mine, uint32_t bytes, void *all, int64_t deadline,
                  struct comm_record *failure) {
    (void)c, (void)deadline, (void)failure;
    memcpy(all, mine, bytes);
    return 0;
}
static void *memory;
static int map(ddprt_comm *c, uint64_t bytes, void **to, int64_t deadline,
               struct comm_record *failure) {
    (void)c, (void)deadline, (void)failure;
    *to = memory = calloc(1, bytes);
    return 0;
}
static uint32_t expected; /* of the communication thread: the next bucket */
static _Atomic int out_of_order;
static int allreduce(ddprt_comm *c, const struct comm_op *op, struct comm_record *failure) {
    (void)c, (void)failure;
    if (op->bucket != expected) atomic_store(&out_of_order, 1);
    expected = op->bucket == BUCKETS ? 0 : expected + 1;
    return 0;
}
static void breaks(ddprt_comm *c, int code, int rank) { (void)c, (void)code, (void)rank; }
static int missing(ddprt_comm *c) {
    (void)c;
    return -1;
}
static void hint(ddprt_comm *c, uint64_t sequence, uint32_t parameter) {
    (void)c, (void)sequence, (void)parameter;
}
static void post(ddprt_comm *c, const struct comm_record *mine) { (void)c, (void)mine; }
static void collect(ddprt_comm *c, struct comm_record *all, int64_t deadline) {
    (void)c, (void)deadline;
    all[0] = COMM_RECORD_NONE;
}
static void closes(ddprt_comm *c) {
    (void)c;
    free(memory);
}
static const struct comm_ops idle = {"idle",  adds, gather, map,     allreduce, breaks,
                                     missing, hint, post,   collect, closes};

static ddprt_plan *plan_of_buckets(void) {
    size_t size;
    void *bytes = job_flat_plan(BUCKETS, 4, 1, &size);
    ddprt_plan *plan;
    if (ddprt_plan_from_memory(bytes, size, &plan, NULL)) abort();
    free(bytes);
    return plan;
}

static ddprt_runtime *rt;
static long steps;
static _Atomic int bad_code;

/* A barrier that releases everybody within nanoseconds, where futexes would wake one after the
 * other. */
static _Atomic uint32_t arrived, generation;
static void barrier(void) {
    uint32_t now = atomic_load(&generation);
    if (atomic_fetch_add(&arrived, 1) + 1 == THREADS) {
        atomic_store(&arrived, 0);
        atomic_store(&generation, now + 1);
    }
    for (int spin = 0; atomic_load(&generation) == now; spin++)
        if (spin > 20) sched_yield(); /* there may be more threads than processors */
}

static void report(int round, int thread) {
    if (ddprt_ready(rt, round * THREADS + thread)) atomic_store(&bad_code, 1);
}

static void *reporter(void *argument) {
    int thread = (int)(intptr_t)argument;
    for (long i = 0; i < steps * ROUNDS; i++) {
        barrier();
        report((int)(i % ROUNDS), thread);
        barrier();
    }
    return NULL;
}

int main(int argc, char **argv) {
    steps = argc > 1 ? atol(argv[1]) : 100000;
    ddprt_comm comm = {&idle, 0, 1};
    ddprt_plan *plan = plan_of_buckets();
    ddprt_error error;
    if (ddprt_open(plan, &comm, NULL, &rt, &error)) return 2;
    pthread_t thread[THREADS];
    for (int t = 1; t < THREADS; t++)
        pthread_create(&thread[t], NULL, reporter, (void *)(intptr_t)t);
    long lost = 0, failed = 0;
    for (long s = 0; s < steps; s++) {
        uint32_t before = atomic_load(&rt->issued);
        failed += ddprt_step_begin(rt, 0, 0, NULL) != 0;
        for (int round = 0; round < ROUNDS; round++) {
            barrier();
            report(round, 0);
            barrier();
            /* the control bucket too, but not the last, which waits for step_end */
            uint32_t complete = 1 + (uint32_t)(round + 1) * THREADS - (round == ROUNDS - 1);
            lost += atomic_load(&rt->issued) - before != complete;
        }
        failed += ddprt_step_end(rt) != 0;
        failed += ddprt_step_wait(rt, 10000, NULL) != 0;
    }
    for (int t = 1; t < THREADS; t++) pthread_join(thread[t], NULL);
    ddprt_close(rt);
    ddprt_plan_close(plan);
    printf("%ld steps, %d threads, %d buckets: lost %ld times, %ld failures, order %s\n", steps,
           THREADS, BUCKETS, lost, failed, atomic_load(&out_of_order) ? "WRONG" : "right");
    return lost || failed || atomic_load(&out_of_order) || atomic_load(&bad_code);
}
