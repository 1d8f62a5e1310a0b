/* Nothing is allocated after the first step: all of malloc's family is counted, for the whole
 * process, over 1,000 steps of two ranks as threads. */
#define _GNU_SOURCE
#include "job.h"

#include <stdatomic.h>

static _Atomic long allocations;

/* glibc's own names for what is replaced here. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

void *malloc(size_t n) {
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(alignment, n);
}

static pthread_barrier_t all;
static long counted = -1;

static int step(struct rank *r, int it) {
    int code = ddprt_step_begin(r->rt, TRAIN, DDPRT_ZERO, NULL);
    ddprt_branch(r->rt, BRANCH_B, it & 1);
    job_ready_all(r, TRAIN, W0, H, it);
    if ((it + r->rank) % 3) job_ready(r, TRAIN, C0, it);
    if (it & 1) job_ready(r, TRAIN, U, it);
    code |= ddprt_step_end(r->rt);
    return code | ddprt_step_wait(r->rt, 10000, &r->report);
}

static void run(struct rank *r) {
    int code = step(r, 0);
    pthread_barrier_wait(&all);
    long before = atomic_load(&allocations);
    pthread_barrier_wait(&all);
    for (int it = 1; it <= 1000; it++) code |= step(r, it);
    pthread_barrier_wait(&all);
    if (r->rank == 0) counted = atomic_load(&allocations) - before;
    pthread_barrier_wait(&all);
    r->code[0] = code;
}

int main(void) {
    struct rank ranks[2];
    ddprt_plan *plan = job_open_plan(PLAN_WORLD);
    pthread_barrier_init(&all, NULL, 2);
    job_init(ranks, 2, plan, run);
    long before = atomic_load(&allocations);
    job_run(ranks);
    ddprt_plan_close(plan);
    printf("%ld allocations in 1,000 steps of two ranks, %ld around them\n", counted,
           atomic_load(&allocations) - before);
    bool counts = atomic_load(&allocations) > before; /* the counter works: opening allocates */
    return counted != 0 || !counts || ranks[0].code[0] || ranks[1].code[0];
}
