/* What one rank of ddprun does: the loop of a training program, with the gradients of ddprun_data.c
 * and, in one iteration of one rank, a fault. It uses the public interface alone, as any program
 * would.
 *
 * Making and checking gradients takes far longer than reducing them and on a busy machine lasts
 * differently long on each rank. So the ranks wait for each other before each step, outside the
 * runtime: a step's time and its deadline are about the step alone.
 *
 * What the runtime costs the training thread (bookkeeping) is processor time inside ddprt_ calls:
 * time asleep, in which others compute or add, does not count, and neither does the work of the
 * communication thread. One ddprt_ready is too short for a clock. Calls are timed in batches of up
 * to BATCH, the clock's own time is taken off, and batches end before a call that completes a
 * bucket, because that one issues it and wakes a thread: what is left is the plain call. */
#define _GNU_SOURCE
#include "ddprun.h"

#include "futex.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STALL_MS = 200, /* past the deadline */
    BATCH = 16,     /* calls of ddprt_ready */
};

/* A gradient of the step in the order of reporting. */
struct gradient {
    uint32_t param;
    bool present;   /* this rank has it */
    bool completes; /* it is the last that its bucket waits for */
};

struct worker {
    struct job *j;
    int rank;
    ddprt_plan *plan;
    ddprt_runtime *rt;
    struct rank_result *result;
    uint32_t *order; /* parameters with a segment, by predicted ready time, for each step in turn */
    uint32_t *first; /* [n_steps + 1] into order */
    uint8_t *branches;         /* [ranks x n_branches] of this iteration */
    struct gradient *gradient; /* of this iteration's step */
    uint32_t n_gradients;
    uint32_t *waits_for; /* per bucket: gradients that have not come */
    double *batch;       /* ns per call of ddprt_ready, of each batch of an iteration */
    uint32_t n_batches;
    double now_cost, cpu_cost; /* of one look at the clock, in µs */
    bool left;                 /* it closed its runtime: a thread's way to die */
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n) {
    qsort(x, n, sizeof *x, ascending);
    return x[(n - 1) / 2];
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Processor time of this thread: what the runtime costs it, without the time that others take away.
 */
static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The median of a few looks. */
static double cost_of(double (*clock)(void)) {
    double cost[33];
    for (int i = 0; i < 33; i++) {
        double begin = clock();
        for (int k = 0; k < 8; k++) clock();
        cost[i] = (clock() - begin) / 9;
    }
    return median(cost, 33);
}

static void sleep_until_us(double when) {
    double left = when - now_us();
    if (left <= 0) return;
    struct timespec t = {.tv_sec = (time_t)(left / 1e6)};
    t.tv_nsec = (long)((left - (double)t.tv_sec * 1e6) * 1e3);
    nanosleep(&t, NULL);
}

static double ready_us(const struct job *j, uint32_t step, uint32_t param) {
    return j->plan->segment[plan_step_param(j->plan, step, param)->segment].ready_us;
}

/* Segments in the order of their predicted times; those with equal times in the plan's order.
 * Merges runs, because the plan is nearly sorted: buckets of one group are. */
static bool sort_by_time(struct worker *w) {
    const struct plan *p = w->j->plan;
    uint32_t n = 0;
    for (uint32_t k = 0; k < w->j->n_steps; k++) n += p->step[w->j->step[0] + k].n_segments;
    w->first = calloc(w->j->n_steps + 1, sizeof *w->first);
    w->order = malloc((n + 1) * sizeof *w->order);
    uint32_t *spare = malloc((n + 1) * sizeof *spare);
    if (!w->first || !w->order || !spare) {
        free(spare);
        return false;
    }
    for (uint32_t k = 0; k < w->j->n_steps; k++) {
        uint32_t step = w->j->step[0] + k, count = p->step[step].n_segments;
        uint32_t *order = w->order + w->first[k];
        for (uint32_t i = 0; i < count; i++)
            order[i] = p->segment[p->step[step].first_segment + i].param;
        for (uint32_t width = 1; width < count; width *= 2) {
            for (uint32_t low = 0; low < count; low += 2 * width) {
                uint32_t middle = low + width < count ? low + width : count;
                uint32_t high = middle + width < count ? middle + width : count;
                uint32_t a = low, b = middle, out = low;
                while (a < middle || b < high) {
                    bool take_b = a == middle || (b < high && ready_us(w->j, step, order[b]) <
                                                                  ready_us(w->j, step, order[a]));
                    spare[out++] = take_b ? order[b++] : order[a++];
                }
            }
            memcpy(order, spare, count * sizeof *order);
        }
        w->first[k + 1] = w->first[k] + count;
    }
    free(spare);
    return true;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static bool fault_here(const struct worker *w, int iteration, uint32_t param) {
    const struct run_options *o = &w->j->options;
    return o->fault != FAULT_NONE && o->fault_rank == w->rank && o->fault_iteration == iteration &&
           w->j->fault_param == param;
}

/* Before a parameter's ready. True: do not report it. */
static bool do_fault(struct worker *w) {
    const struct run_options *o = &w->j->options;
    switch (o->fault) {
    case FAULT_KILL:
        w->result->gone = true;
        if (!o->threads) raise(SIGKILL);
        w->left = true;
        return true;
    case FAULT_STALL: sleep_until_us(now_us() + 1e3 * (o->timeout_ms + STALL_MS)); return false;
    case FAULT_TWICE: ddprt_ready(w->rt, (int)w->j->fault_param); return false;
    case FAULT_SKIP: return true;
    default: return false;
    }
}

/* A plan that is valid and means something else: its average is another. */
static int open_other_plan(const struct job *j, ddprt_plan **plan, ddprt_error *error) {
    struct plan *p = plan_from_memory(j->plan->bytes, j->plan->size, NULL);
    if (!p) return DDPRT_NO_MEMORY;
    unsigned char *bytes = p->bytes;
    struct plan_step *step =
        (struct plan_step *)(void *)(bytes + ((const unsigned char *)p->step - bytes));
    struct plan_header *header = (struct plan_header *)(void *)bytes;
    step->average = step->average == PLAN_WORLD ? PLAN_UNSCALED : PLAN_WORLD;
    plan_semantic_hash(p, header->semantic_hash);
    plan_content_hash(bytes, p->size, header->content_hash);
    int code = ddprt_plan_from_memory(bytes, p->size, plan, error);
    plan_close(p);
    return code;
}

/* ---- an iteration ---------------------------------------------------------------------------- */

static const uint8_t *branches_of(const struct worker *w, int rank) {
    return w->branches + (size_t)rank * w->j->plan->n_branches;
}

static bool is_present(const struct worker *w, int iteration, int rank, uint32_t param) {
    return data_present(w->j, iteration, rank, param, branches_of(w, rank));
}

static void keep_error(struct worker *w, const ddprt_error *error, const ddprt_report *report) {
    w->result->error = *error;
    if (!report) return;
    w->result->n_errors = report->n_errors;
    for (int i = 0; i < report->n_errors; i++) w->result->errors[i] = report->errors[i];
}

void rank_prepared(struct job *j, int rank, uint32_t iterations) {
    atomic_store(&j->result[rank].prepared, iterations);
    futex_wake_all(&j->result[rank].prepared, true);
}

/* Everything an iteration needs before its step begins: gradients in the arena, and a list of them.
 * Returns when all ranks have got so far. */
static void prepare(struct worker *w, int iteration, const uint32_t *order, uint32_t n) {
    struct job *j = w->j;
    uint32_t step = job_step(j, iteration);
    const struct plan_step *s = &j->plan->step[step];
    for (int r = 0; r < j->options.ranks; r++)
        data_branches(j, iteration, r, w->branches + (size_t)r * j->plan->n_branches);
    for (uint32_t b = 0; b < s->n_buckets; b++)
        w->waits_for[b] = j->plan->bucket[s->first_bucket + b].n_segments;
    w->n_gradients = n;
    for (uint32_t i = 0; i < n; i++) {
        struct gradient *g = &w->gradient[i];
        *g = (struct gradient){.param = order[i],
                               .present = is_present(w, iteration, w->rank, order[i])};
        if (!g->present) continue;
        uint32_t segment = plan_step_param(j->plan, step, g->param)->segment;
        g->completes = --w->waits_for[j->plan->segment[segment].bucket - s->first_bucket] == 0;
        data_fill(j, iteration, w->rank, g->param,
                  ddprt_grad(w->rt, (int)step, (int)g->param, NULL));
    }
    rank_prepared(j, w->rank, (uint32_t)iteration + 1);
    for (int r = 0; r < j->options.ranks; r++) {
        _Atomic uint32_t *theirs = &j->result[r].prepared;
        for (uint32_t p; (p = atomic_load(theirs)) <= (uint32_t)iteration;)
            futex_wait(theirs, p, FUTEX_SLICE_NS, true);
    }
}

/* Calls of ddprt_ready that are timed together. */
struct batch {
    uint32_t calls;
    double since;
};

static void close_batch(struct worker *w, struct batch *b) {
    if (b->calls) w->batch[w->n_batches++] = 1e3 * (now_us() - b->since - w->now_cost) / b->calls;
    b->calls = 0;
}

static void report(struct worker *w, const struct gradient *g, struct batch *b) {
    if (g->completes || b->calls == BATCH) close_batch(w, b);
    if (!g->completes && b->calls++ == 0) b->since = now_us();
    ddprt_ready(w->rt, (int)g->param);
}

/* Reports all gradients; the processor time inside the runtime in µs. */
static double report_gradients(struct worker *w, int iteration, double begin_us) {
    const struct job *j = w->j;
    uint32_t step = job_step(j, iteration), looks = 1;
    struct batch b = {0};
    double inside = 0, start = cpu_us();
    w->n_batches = 0;
    for (uint32_t i = 0; i < w->n_gradients; i++) {
        const struct gradient *g = &w->gradient[i];
        if (j->options.compute_plan) {
            close_batch(w, &b);
            inside += cpu_us() - start;
            sleep_until_us(begin_us + ready_us(j, step, g->param));
            start = cpu_us();
            looks++;
        }
        bool withheld = fault_here(w, iteration, g->param) && do_fault(w);
        if (w->left) return 0;
        if (g->present && !withheld) report(w, g, &b);
    }
    close_batch(w, &b);
    if (j->options.fault == FAULT_EXTRA && j->options.fault_rank == w->rank &&
        j->options.fault_iteration == iteration)
        ddprt_ready(w->rt, (int)j->fault_param);
    inside += cpu_us() - start - looks * w->cpu_cost - 2 * w->n_batches * w->now_cost;
    return inside > 0 ? inside : 0;
}

static bool check_all(struct worker *w, int iteration, const uint32_t *order, uint32_t n) {
    const struct job *j = w->j;
    struct rank_result *res = w->result;
    uint32_t step = job_step(j, iteration);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t param = order[i];
        bool present[DDPRT_LOCAL_MAX];
        int count = 0;
        double got = 0, want = 0;
        for (int r = 0; r < j->options.ranks; r++)
            count += present[r] = is_present(w, iteration, r, param);
        int64_t bad = data_check(j, iteration, param, present,
                                 ddprt_grad(w->rt, (int)step, (int)param, NULL), &got, &want);
        if (bad >= 0)
            snprintf(res->wrong, sizeof res->wrong,
                     "iteration %d, parameter \"%.120s\", element %lld: %g instead of %g",
                     iteration, plan_param_name(j->plan, param), (long long)bad, got, want);
        else if (ddprt_presence(w->rt, (int)param) != count)
            snprintf(res->wrong, sizeof res->wrong,
                     "iteration %d, parameter \"%.120s\": present on %d ranks, the runtime says %d",
                     iteration, plan_param_name(j->plan, param), count,
                     ddprt_presence(w->rt, (int)param));
        if (res->wrong[0]) return false;
        res->checked += j->plan->param[param].elements;
    }
    res->iterations++;
    return true;
}

/* Processor time since `*last`, without that of looking. */
static double spent(const struct worker *w, double *last) {
    double now = cpu_us(), us = now - *last - w->cpu_cost;
    *last = now;
    return us > 0 ? us : 0;
}

static bool iterate(struct worker *w, int iteration) {
    const struct job *j = w->j;
    uint32_t step = job_step(j, iteration);
    const uint32_t *first = &w->first[step - j->step[0]], *order = w->order + first[0];
    uint32_t n = first[1] - first[0];
    ddprt_report report;
    prepare(w, iteration, order, n);

    double clock = cpu_us();
    if (ddprt_step_begin(w->rt, (int)step, 0, NULL)) {
        keep_error(w, ddprt_last_error(w->rt), NULL);
        return false;
    }
    for (uint32_t b = 0; b < j->plan->n_branches; b++)
        ddprt_branch(w->rt, (int)b, branches_of(w, w->rank)[b]);
    double bookkeeping = spent(w, &clock);
    bookkeeping += report_gradients(w, iteration, now_us());
    if (w->left) return false;
    clock = cpu_us();
    ddprt_step_end(w->rt);
    int code = ddprt_step_wait(w->rt, j->options.timeout_ms, &report);
    bookkeeping += spent(w, &clock);
    if (code) {
        keep_error(w, &report.error, &report);
        return false;
    }
    int measured = iteration - j->options.warmup;
    if (measured >= 0)
        j->sample[(size_t)w->rank * (size_t)j->options.iters + (size_t)measured] = (struct sample){
            .step_us = report.step_us,
            .exposed_us = report.exposed_us,
            .bookkeeping_us = bookkeeping,
            .ready_ns = w->n_batches ? median(w->batch, w->n_batches) : -1,
            .wire_bytes = report.wire_bytes,
            .buckets = report.buckets,
            .skipped = report.skipped,
        };
    return check_all(w, iteration, order, n);
}

/* Room for the largest step. */
static bool allocate(struct worker *w) {
    const struct job *j = w->j;
    uint32_t gradients = 1, buckets = 1;
    for (uint32_t k = 0; k < j->n_steps; k++) {
        const struct plan_step *s = &j->plan->step[j->step[0] + k];
        if (s->n_segments > gradients) gradients = s->n_segments;
        if (s->n_buckets > buckets) buckets = s->n_buckets;
    }
    w->branches = malloc((size_t)j->options.ranks * j->plan->n_branches + 1);
    w->gradient = malloc(gradients * sizeof *w->gradient);
    w->batch = malloc(gradients * sizeof *w->batch);
    w->waits_for = malloc(buckets * sizeof *w->waits_for);
    return w->branches && w->gradient && w->batch && w->waits_for && sort_by_time(w);
}

void rank_run(struct job *j, int rank) {
    struct worker w = {.j = j, .rank = rank, .result = &j->result[rank]};
    ddprt_options options = {.timeout_ms = j->options.timeout_ms};
    ddprt_comm *comm = NULL;
    ddprt_error error = {.code = DDPRT_NO_MEMORY, .text = "out of memory"};
    bool other = j->options.fault == FAULT_CORRUPT && j->options.fault_rank == rank;
    w.now_cost = cost_of(now_us);
    w.cpu_cost = cost_of(cpu_us);
    int code = allocate(&w) ? DDPRT_OK : DDPRT_NO_MEMORY;
    if (!code)
        code = other ? open_other_plan(j, &w.plan, &error)
                     : ddprt_plan_from_memory(j->plan->bytes, j->plan->size, &w.plan, &error);
    if (!code)
        code =
            ddprt_comm_local(j->name, rank, j->options.ranks, j->options.timeout_ms, &comm, &error);
    if (!code) code = ddprt_open(w.plan, comm, &options, &w.rt, &error);
    if (code) {
        keep_error(&w, &error, NULL);
        ddprt_comm_close(comm);
    } else {
        for (int i = 0; i < j->options.warmup + j->options.iters; i++)
            if (!iterate(&w, i)) break;
        ddprt_close(w.rt);
    }
    ddprt_plan_close(w.plan);
    free(w.order);
    free(w.first);
    free(w.branches);
    free(w.gradient);
    free(w.batch);
    free(w.waits_for);
}
