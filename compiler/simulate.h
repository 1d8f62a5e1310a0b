/* Replaying schedules: what a step takes on many ranks, where every collective waits for the last
 * one. It knows neither models nor plan files; whoever has a plan fills in sim_work and a
 * sim_schedule. Times are µs, sizes bytes. docs/simulate.md says what is modelled and what is not. */
#ifndef DDPC_SIMULATE_H
#define DDPC_SIMULATE_H

#include "cost.h"
#include "jitter.h"

/* The gradients of one step in the order in which they are ready: those of groups that are late
 * (conditional ones, under --guards=discovered) at the end of the backward pass. Of equal times in
 * the order of the scheduler. */
struct sim_gradient {
    double ready_us;
    uint64_t bytes, raw_bytes; /* on the wire, padded to 16; its own */
    uint32_t group, element_bytes;
    uint32_t moment; /* index into moment_us; filled in by sim_work_prepare */
};
struct sim_work {
    uint32_t n, n_groups, n_moments;
    struct sim_gradient *gradient;
    const bool *late;  /* by group */
    double *moment_us; /* the different ready times, ascending, and the backward's end */
    double backward_us;
    struct topology topology;
};
/* Fills in moments; backward_us at least the last ready time. Memory is the arena's. */
void sim_work_prepare(struct sim_work *w, struct arena *a);

struct sim_bucket {
    uint32_t first, n; /* in the schedule's gradients */
    uint32_t group;
    uint32_t moment; /* of its last gradient */
    uint64_t bytes;
    double release_us; /* does not start before this, for reasons of its own; 0 */
};
struct sim_schedule {
    const char *name;
    struct sim_bucket *bucket; /* in the order of issue; room for as many as gradients */
    uint32_t n_buckets;
    uint32_t *gradient; /* every one of them once, by bucket */
    bool by_clock;      /* its buckets depend on the run: Horovod's */
    bool partly;        /* `exact` of more groups than can be scheduled together */
};
/* Other rules, with their names. */
#define SIM_RULES(X)                                                                               \
    X(DDP, "ddp")                                                                                  \
    X(SINGLE, "single")                                                                            \
    X(MGWFBP, "mgwfbp")                                                                            \
    X(HOROVOD, "horovod")                                                                          \
    X(XLA, "xla")                                                                                  \
    X(MEGATRON, "megatron")                                                                        \
    X(WFBP, "wfbp")                                                                                \
    X(EXACT, "exact")
enum sim_rule {
#define RULE(id, name) SIM_##id,
    SIM_RULES(RULE)
#undef RULE
        SIM_N_RULES
};
/* A rule's buckets, decided for times and network as they are without jitter (Horovod's: in each
 * run). */
void sim_rule(const struct sim_work *w, enum sim_rule rule, struct arena *a,
              struct sim_schedule *out);

/* One step on one FIFO channel: a collective starts when its gradients are ready on every rank, so
 * at at_us[moment], and the channel is free. Returns the end of the last collective. start_us and
 * end_us, by bucket, may be NULL. A schedule by_clock gets its buckets anew. */
double sim_replay(const struct sim_work *w, struct sim_schedule *s, const double *at_us,
                  const struct topology *t, double *start_us, double *end_us);
/* How much later a bucket's gradients could be without delaying the step's end, by bucket: 0 on the
 * way that decides it. Returns the bucket that starts that way: from there the channel is never idle
 * until the last collective ends. */
uint32_t sim_slack(const struct sim_work *w, const struct sim_schedule *s, const double *at_us,
                   const double *start_us, const double *end_us, double *slack_us);

struct sim_quantiles {
    double p50, p99;
};
struct sim_result {
    struct sim_quantiles step_us, exposed_us; /* exposed: after the slowest rank's backward */
    uint32_t n_buckets;                       /* in the median step */
};
struct sim_report {
    struct sim_quantiles backward_us; /* of each step's slowest rank */
    uint32_t median_step;             /* of the first schedule: its time is the p50 */
    uint32_t slowest_rank;            /* that most often ends last; JITTER_NO_RANK if none does */
    uint32_t slowest_steps;           /* how often */
    /* Of the first schedule, by bucket: the least slack in any step; in how many steps it begins the
     * way that decides the end. */
    double *least_slack_us;
    uint32_t *bottleneck_steps;
};
/* `steps` draws, the same ones for each of the n schedules. */
void simulate(const struct sim_work *w, const struct jitter *j, uint32_t steps,
              struct sim_schedule *s, uint32_t n, struct arena *a, struct sim_result *result,
              struct sim_report *report);
/* One of these draws: when the last rank is there, by moment, and the network then. Returns the rank
 * that ends last, or JITTER_NO_RANK. */
uint32_t sim_draw(const struct sim_work *w, const struct jitter *j, uint32_t step, double *at_us,
                  struct topology *t);

#endif
