/* What one rank of ddprun does: the loop of a training program, with the gradients of ddprun_data.c
 * and, in one iteration of one rank, a fault. It uses the public interface alone, as any program
 * would. */
#define _GNU_SOURCE
#include "ddprun.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STALL_MS = 200 }; /* past the deadline */

struct worker {
    struct job *j;
    int rank;
    ddprt_plan *plan;
    ddprt_runtime *rt;
    struct rank_result *result;
    uint32_t *order; /* parameters with a segment, by predicted ready time, for each step in turn */
    uint32_t *first; /* [n_steps + 1] into order */
    uint8_t *branches; /* [ranks x n_branches] of this iteration */
    bool left;         /* it closed its runtime: a thread's way to die */
};

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

/* Reports all gradients; the processor time inside the runtime in µs. */
static double report_gradients(struct worker *w, int iteration, const uint32_t *order, uint32_t n,
                               double begin_us) {
    const struct job *j = w->j;
    uint32_t step = job_step(j, iteration);
    double inside = 0, start = cpu_us();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t param = order[i];
        if (j->options.compute_plan) {
            sleep_until_us(begin_us + ready_us(j, step, param));
            start = cpu_us();
        }
        bool withheld = fault_here(w, iteration, param) && do_fault(w);
        if (w->left) return 0;
        if (!withheld && is_present(w, iteration, w->rank, param)) ddprt_ready(w->rt, (int)param);
        if (j->options.compute_plan) inside += cpu_us() - start;
    }
    if (j->options.fault == FAULT_EXTRA && j->options.fault_rank == w->rank &&
        j->options.fault_iteration == iteration)
        ddprt_ready(w->rt, (int)j->fault_param);
    return j->options.compute_plan ? inside : cpu_us() - start;
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

static bool iterate(struct worker *w, int iteration) {
    const struct job *j = w->j;
    uint32_t step = job_step(j, iteration), n_branches = j->plan->n_branches;
    const uint32_t *order = w->order + w->first[step - j->step[0]];
    uint32_t n = w->first[step - j->step[0] + 1] - w->first[step - j->step[0]];
    ddprt_report report;
    for (int r = 0; r < j->options.ranks; r++)
        data_branches(j, iteration, r, w->branches + (size_t)r * n_branches);
    for (uint32_t i = 0; i < n; i++)
        if (is_present(w, iteration, w->rank, order[i]))
            data_fill(j, iteration, w->rank, order[i],
                      ddprt_grad(w->rt, (int)step, (int)order[i], NULL));

    double t0 = cpu_us();
    int code = ddprt_step_begin(w->rt, (int)step, 0, NULL);
    if (code) {
        keep_error(w, ddprt_last_error(w->rt), NULL);
        return false;
    }
    for (uint32_t b = 0; b < n_branches; b++)
        ddprt_branch(w->rt, (int)b, branches_of(w, w->rank)[b]);
    double t1 = cpu_us();
    double inside = report_gradients(w, iteration, order, n, now_us());
    if (w->left) return false;
    double t2 = cpu_us();
    ddprt_step_end(w->rt);
    double t3 = cpu_us();
    if (ddprt_step_wait(w->rt, j->options.timeout_ms, &report)) {
        keep_error(w, &report.error, &report);
        return false;
    }
    int measured = iteration - j->options.warmup;
    if (measured >= 0)
        j->sample[(size_t)w->rank * (size_t)j->options.iters + (size_t)measured] = (struct sample){
            .step_us = report.step_us,
            .exposed_us = report.exposed_us,
            .bookkeeping_us = t1 - t0 + inside + t3 - t2,
            .ready_ns = n ? 1e3 * inside / n : 0,
            .wire_bytes = report.wire_bytes,
            .buckets = report.buckets,
            .skipped = report.skipped,
        };
    return check_all(w, iteration, order, n);
}

void rank_run(struct job *j, int rank) {
    struct worker w = {.j = j, .rank = rank, .result = &j->result[rank]};
    ddprt_options options = {.timeout_ms = j->options.timeout_ms};
    ddprt_comm *comm = NULL;
    ddprt_error error = {.code = DDPRT_NO_MEMORY, .text = "out of memory"};
    bool other = j->options.fault == FAULT_CORRUPT && j->options.fault_rank == rank;
    size_t n_branches = (size_t)j->options.ranks * j->plan->n_branches;
    w.branches = malloc(n_branches + 1);
    int code = !w.branches || !sort_by_time(&w) ? DDPRT_NO_MEMORY : DDPRT_OK;
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
}
