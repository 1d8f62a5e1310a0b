/* The replay of a schedule, many times.
 *
 * All ranks do the same collectives in the same order, and none ends before the last rank has come
 * to it. So a step on N ranks is a step on one rank that is always as late as the latest: what has
 * to be drawn is, for each moment at which a gradient becomes ready, when the last rank gets there
 * (jitter.c). Each schedule then replays the same draw, so a difference between two of them is a
 * difference of the schedules and not of luck.
 *
 * What it does not model: that a rank which is early could do something else meanwhile, that
 * collectives slow the backward pass down, more than one channel. */
#include "simulate.h"
#include "rivals.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double later(double a, double b) { return a > b ? a : b; }

void sim_work_prepare(struct sim_work *w, struct arena *a) {
    w->moment_us = arena_new(a, double, w->n + 1u);
    w->n_moments = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        double us = w->gradient[i].ready_us;
        if (w->n_moments == 0 || us > w->moment_us[w->n_moments - 1])
            w->moment_us[w->n_moments++] = us;
        w->gradient[i].moment = w->n_moments - 1;
    }
    if (w->n_moments == 0 || w->backward_us > w->moment_us[w->n_moments - 1])
        w->moment_us[w->n_moments++] = w->backward_us;
    w->backward_us = w->moment_us[w->n_moments - 1];
}

/* ---- one step -------------------------------------------------------------------------------- */

/* Horovod's buckets in this run. Its cycles are those of all groups together; a cycle's tensors of
 * different groups are different buckets. Groups that are late follow the rest. */
static void by_the_clock(const struct sim_work *w, struct sim_schedule *s, const double *at_us,
                         const struct topology *t) {
    double *ready = malloc((w->n + 1u) * sizeof *ready);
    double *release = malloc((w->n + 1u) * sizeof *release);
    uint64_t *bytes = malloc((w->n + 1u) * sizeof *bytes);
    uint32_t *boundary = malloc((w->n + 1u) * sizeof *boundary);
    if (!ready || !release || !bytes || !boundary) arena_out_of_memory(w->n * sizeof *ready);
    for (uint32_t i = 0; i < w->n; i++) {
        ready[i] = at_us[w->gradient[i].moment];
        bytes[i] = w->gradient[i].bytes;
    }
    uint32_t fused = rival_horovod(w->n, ready, bytes, t, boundary, release), at = 0;
    s->n_buckets = 0;
    for (uint32_t f = 0; f < fused; f++) {
        for (uint32_t g = 0; g < w->n_groups; g++) {
            struct sim_bucket b = {.first = at, .group = g, .release_us = release[f]};
            for (uint32_t i = boundary[f]; i < boundary[f + 1]; i++) {
                if (w->gradient[i].group != g) continue;
                s->gradient[at++] = i;
                b.n++;
                b.bytes += w->gradient[i].bytes;
                b.moment = w->gradient[i].moment;
            }
            if (b.n) s->bucket[s->n_buckets++] = b;
        }
    }
    free(ready);
    free(release);
    free(bytes);
    free(boundary);
}

double sim_replay(const struct sim_work *w, struct sim_schedule *s, const double *at_us,
                  const struct topology *t, double *start_us, double *end_us) {
    double now = 0;
    if (s->by_clock) by_the_clock(w, s, at_us, t);
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        const struct sim_bucket *x = &s->bucket[b];
        now = later(later(now, at_us[x->moment]), x->release_us);
        if (start_us) start_us[b] = now;
        now += topology_cost_us(t, x->bytes);
        if (end_us) end_us[b] = now;
    }
    return now;
}

uint32_t sim_slack(const struct sim_work *w, const struct sim_schedule *s, const double *at_us,
                   const double *start_us, const double *end_us, double *slack_us) {
    uint32_t chain = 0, n = s->n_buckets;
    double spare = 0; /* by how much this bucket could end later */
    for (uint32_t b = n; b-- > 0;) {
        spare +=
            (b + 1 < n ? start_us[b + 1] : later(end_us[b], at_us[w->n_moments - 1])) - end_us[b];
        slack_us[b] = spare + (start_us[b] - at_us[s->bucket[b].moment]);
    }
    for (uint32_t b = 1; b < n; b++)
        if (start_us[b] > end_us[b - 1] || at_us[s->bucket[b].moment] >= end_us[b - 1]) chain = b;
    return chain;
}

uint32_t sim_draw(const struct sim_work *w, const struct jitter *j, uint32_t step, double *at_us,
                  struct topology *t) {
    double network = jitter_network(j, step);
    *t = w->topology;
    for (uint32_t p = 0; p < t->n_pieces; p++) t->piece[p].us_per_byte *= network;
    return jitter_backward(j, step, w->n_moments, w->moment_us, at_us);
}

/* ---- many steps ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n values, in place, by nearest rank: half of them are at most p50. */
static struct sim_quantiles quantiles(double *x, uint32_t n) {
    qsort(x, n, sizeof *x, ascending);
    uint64_t p50 = ((uint64_t)n * 50 + 99) / 100, p99 = ((uint64_t)n * 99 + 99) / 100;
    return (struct sim_quantiles){x[p50 - 1], x[p99 - 1]};
}

void simulate(const struct sim_work *w, const struct jitter *j, uint32_t steps,
              struct sim_schedule *s, uint32_t n, struct arena *a, struct sim_result *result,
              struct sim_report *report) {
    struct arena scratch = {0};
    double *at = arena_new(&scratch, double, w->n_moments);
    double *start = arena_new(&scratch, double, w->n + 1u),
           *end = arena_new(&scratch, double, w->n + 1u);
    double *slack = arena_new(&scratch, double, w->n + 1u);
    double *backward = arena_new(&scratch, double, steps),
           *first = arena_new(&scratch, double, steps);
    double *took = arena_new(&scratch, double, (size_t)n *steps);
    double *exposed = arena_new(&scratch, double, (size_t)n *steps);
    uint32_t *last = arena_new(&scratch, uint32_t, j->ranks);
    *report = (struct sim_report){.slowest_rank = JITTER_NO_RANK,
                                  .least_slack_us = arena_new(a, double, w->n + 1u),
                                  .bottleneck_steps = arena_new(a, uint32_t, w->n + 1u)};
    for (uint32_t b = 0; b < s[0].n_buckets; b++) report->least_slack_us[b] = INFINITY;
    for (uint32_t i = 0; i < steps; i++) {
        struct topology t;
        uint32_t slowest = sim_draw(w, j, i, at, &t);
        if (slowest != JITTER_NO_RANK) last[slowest]++;
        backward[i] = at[w->n_moments - 1];
        for (uint32_t k = 0; k < n; k++) {
            double finish = sim_replay(w, &s[k], at, &t, start, end);
            double step = later(finish, backward[i]);
            took[(size_t)k * steps + i] = step;
            exposed[(size_t)k * steps + i] = step - backward[i];
            if (k || !s[0].n_buckets) continue;
            report->bottleneck_steps[sim_slack(w, s, at, start, end, slack)]++;
            for (uint32_t b = 0; b < s[0].n_buckets; b++)
                if (slack[b] < report->least_slack_us[b]) report->least_slack_us[b] = slack[b];
        }
    }
    for (uint32_t r = 0; r < j->ranks; r++) {
        if (last[r] <= report->slowest_steps) continue;
        report->slowest_rank = r;
        report->slowest_steps = last[r];
    }
    memcpy(first, took, steps * sizeof *first);
    report->backward_us = quantiles(backward, steps);
    for (uint32_t k = 0; k < n; k++)
        result[k] = (struct sim_result){quantiles(took + (size_t)k * steps, steps),
                                        quantiles(exposed + (size_t)k * steps, steps), 0};
    while (report->median_step + 1 < steps && first[report->median_step] != result[0].step_us.p50)
        report->median_step++;
    struct topology t;
    sim_draw(w, j, report->median_step, at, &t);
    for (uint32_t k = 0; k < n; k++) {
        sim_replay(w, &s[k], at, &t, NULL, NULL); /* leaves a schedule by_clock as in that step */
        result[k].n_buckets = s[k].n_buckets;
    }
    arena_free(&scratch);
}
