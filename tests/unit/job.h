/* A plan with one of everything that the runtime can add, and a job: ranks as threads of the test,
 * each with a runtime over transport `local`.
 *
 *     step "train"   control | w0 w1 (float32) | d (float64) | h (float16) | c0 c1 | u | presence
 *                    c0, c1 conditional on branch a; u on the uniform branch b, so its bucket can
 *                    be skipped; n never has a gradient; f is frozen
 *     step "other"   control | w0 f (float32, with the error slot at the tail) */
#ifndef JOB_H
#define JOB_H

#include "ddpc/ddprt.h"
#include "plan_write.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { W0, W1, D, H, C0, C1, U, N, F, N_PARAMS };
enum { TRAIN, OTHER };
enum { BRANCH_A, BRANCH_B };
enum { MAX_RANKS = 8 };

static const int64_t job_elements[N_PARAMS] = {5, 1000, 7, 9, 6, 3, 4, 2, 8};

static inline void *job_plan(enum plan_average average, const char *name_of_w0, size_t *size) {
    static const char *names[N_PARAMS] = {NULL, "w1", "d", "h", "c0", "c1", "u", "n", "f"};
    struct plan_builder *b = plan_builder_new();
    struct plan_source here = {1, 1};
    for (int i = 0; i < N_PARAMS; i++)
        plan_add_param(b, i == W0 ? name_of_w0 : names[i],
                       i == D   ? PLAN_FLOAT64
                       : i == H ? PLAN_FLOAT16
                                : PLAN_FLOAT32,
                       1, &job_elements[i], here);
    uint32_t a = plan_add_branch(b, "a", false), u = plan_add_branch(b, "b", true);
    uint32_t guard_a = plan_add_guard(b, plan_add_guard_node(b, a, 0, 1), "a");
    uint32_t guard_b = plan_add_guard(b, plan_add_guard_node(b, u, 0, 1), "b");
    struct plan_piece piece = {10, 0.001};
    struct plan_step_info info = {.name = "train",
                                  .topology = "local",
                                  .average = average,
                                  .worst_regret = -1,
                                  .ranks = 2,
                                  .n_pieces = 1,
                                  .piece = &piece};
    static const enum plan_class class[2][N_PARAMS] = {
        {PLAN_ALWAYS, PLAN_ALWAYS, PLAN_ALWAYS, PLAN_ALWAYS, PLAN_CONDITIONAL, PLAN_CONDITIONAL,
         PLAN_CONDITIONAL, PLAN_NEVER, PLAN_FROZEN},
        {PLAN_ALWAYS, PLAN_FROZEN, PLAN_FROZEN, PLAN_FROZEN, PLAN_FROZEN, PLAN_FROZEN, PLAN_FROZEN,
         PLAN_NEVER, PLAN_ALWAYS}};
    for (int s = 0; s < 2; s++) {
        info.name = s ? "other" : "train";
        plan_add_step(b, &info);
        for (uint32_t i = 0; i < N_PARAMS; i++)
            plan_set_class(b, i, class[s][i], true,
                           class[s][i] != PLAN_CONDITIONAL ? PLAN_NONE
                           : i == U                        ? guard_b
                                                           : guard_a);
        static const int bucket_of[2][N_PARAMS] = {{1, 1, 2, 3, 4, 4, 5},
                                                   {1, 0, 0, 0, 0, 0, 0, 0, 1}};
        for (int k = 1; k <= (s ? 1 : 5); k++) {
            plan_add_bucket(b, k == 5 ? guard_b : PLAN_NONE, k, k, k + 1);
            for (uint32_t i = 0; i < N_PARAMS; i++)
                if (bucket_of[s][i] == k) plan_add_segment(b, i, k);
        }
    }
    void *bytes;
    if (!plan_build(b, &bytes, size)) abort();
    plan_builder_free(b);
    return bytes;
}

/* A step of n float32 gradients that always exist, so many in a bucket. */
static inline void *job_flat_plan(int n, int64_t elements, int per_bucket, size_t *size) {
    struct plan_builder *b = plan_builder_new();
    struct plan_piece piece = {10, 0.001};
    struct plan_step_info info = {.name = "train",
                                  .topology = "local",
                                  .worst_regret = -1,
                                  .ranks = 2,
                                  .n_pieces = 1,
                                  .piece = &piece};
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        plan_add_param(b, name, PLAN_FLOAT32, 1, &elements, (struct plan_source){1, 1});
    }
    plan_add_step(b, &info);
    for (int i = 0; i < n; i++) plan_set_class(b, (uint32_t)i, PLAN_ALWAYS, true, PLAN_NONE);
    for (int i = 0; i < n; i++) {
        if (i % per_bucket == 0) plan_add_bucket(b, PLAN_NONE, i, i, i + 1);
        plan_add_segment(b, (uint32_t)i, i);
    }
    void *bytes;
    if (!plan_build(b, &bytes, size)) abort();
    plan_builder_free(b);
    return bytes;
}

static inline ddprt_plan *job_open_plan(enum plan_average average) {
    size_t size;
    void *bytes = job_plan(average, "w0", &size);
    ddprt_plan *plan;
    ddprt_error error;
    if (ddprt_plan_from_memory(bytes, size, &plan, &error)) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    free(bytes);
    return plan;
}

/* One rank of a job, and what a test keeps of it. */
struct rank {
    int rank, size, timeout_ms;
    ddprt_plan *plan; /* the job's, unless the test gives each rank its own */
    ddprt_runtime *rt;
    char name[40];
    void (*run)(struct rank *r);
    ddprt_error error; /* of opening */
    ddprt_report report;
    ddprt_error errors[MAX_RANKS]; /* the report's, which the runtime frees */
    int withhold;                  /* a parameter that rank 1 does not report; -1: none */
    bool no_branch;                /* rank 1 does not set its branch */
    int code[8];                   /* whatever the test stores */
    void *shared;                  /* whatever the test passes */
};

static inline void *job_thread(void *argument) {
    struct rank *r = argument;
    ddprt_comm *comm;
    ddprt_options options = {.timeout_ms = r->timeout_ms};
    if (ddprt_comm_local(r->name, r->rank, r->size, 10000, &comm, &r->error)) return NULL;
    if (ddprt_open(r->plan, comm, &options, &r->rt, &r->error)) {
        ddprt_comm_close(comm);
        return NULL;
    }
    r->run(r);
    for (int i = 0; i < r->report.n_errors; i++) r->errors[i] = r->report.errors[i];
    ddprt_close(r->rt);
    return NULL;
}

/* Fills ranks; run with job_run. */
static inline void job_init(struct rank *ranks, int size, ddprt_plan *plan,
                            void (*run)(struct rank *)) {
    static int jobs;
    jobs++;
    memset(ranks, 0, (size_t)size * sizeof *ranks);
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank){
            .rank = r, .size = size, .timeout_ms = 10000, .withhold = -1, .plan = plan, .run = run};
        snprintf(ranks[r].name, sizeof ranks[r].name, "test-%d-%d", (int)getpid(), jobs);
    }
}

static inline void job_run(struct rank *ranks) {
    pthread_t thread[MAX_RANKS];
    for (int r = 0; r < ranks[0].size; r++) pthread_create(&thread[r], NULL, job_thread, &ranks[r]);
    for (int r = 0; r < ranks[0].size; r++) pthread_join(thread[r], NULL);
}

/* Element i of a gradient on a rank in an iteration: a small integer, so that sums are exact. */
static inline double job_value(int rank, int64_t i, int iteration) {
    return (double)((i * 7 + rank * 3 + iteration) % 11 - 5);
}

static inline void job_store(void *grad, int param, int64_t i, double x) {
    static const uint16_t half[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    if (param == D)
        ((double *)grad)[i] = x;
    else if (param == H)
        ((uint16_t *)grad)[i] = x < 0 ? half[(int)-x] | 0x8000 : half[(int)x];
    else
        ((float *)grad)[i] = (float)x;
}

static inline void job_fill(struct rank *r, int step, int param, int iteration) {
    void *grad = ddprt_grad(r->rt, step, param, NULL);
    for (int64_t i = 0; i < job_elements[param]; i++)
        job_store(grad, param, i, job_value(r->rank, i, iteration));
}

/* Writes a gradient and reports it. */
static inline int job_ready(struct rank *r, int step, int param, int iteration) {
    job_fill(r, step, param, iteration);
    return ddprt_ready(r->rt, param);
}

static inline void job_ready_all(struct rank *r, int step, int first, int last, int iteration) {
    for (int i = first; i <= last; i++) job_ready(r, step, i, iteration);
}

#endif
