/* The replay against plain recurrences, slack by delaying, and the rules that schedules follow. */
#include "pair.h"
#include "random.h"
#include "rivals.h"
#include "simulate.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { MAX_N = 24 };

struct instance {
    struct sim_work w;
    struct sim_gradient gradient[MAX_N];
    bool late[4];
    struct arena a;
};

static const char *const names[] = {
#define RULE(id, name) name,
    SIM_RULES(RULE)
#undef RULE
};

/* `groups` of them, the last late if asked; ready times with ties, sizes up to 64 MiB. */
static void draw(struct instance *x, uint64_t *seed, uint32_t groups, bool late) {
    uint32_t n = groups + random_below(seed, MAX_N - groups);
    double now = random_below(seed, 50), end = 0;
    memset(x, 0, sizeof *x);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t group = i < groups ? i : random_below(seed, groups);
        now += random_below(seed, 3) ? random_below(seed, 400) : 0;
        uint64_t raw =
            4 * (1 + (uint64_t)random_below(seed, random_below(seed, 2) ? 1000 : 1 << 24));
        x->gradient[i] = (struct sim_gradient){.ready_us = now,
                                               .bytes = (raw + 15) / 16 * 16,
                                               .raw_bytes = raw,
                                               .group = group,
                                               .element_bytes = 4};
    }
    end = now + random_below(seed, 2) * 100;
    x->late[groups - 1] = late;
    /* Late ones last, at the end of the backward pass. */
    struct sim_gradient sorted[MAX_N];
    uint32_t k = 0;
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < n; i++)
            if (x->late[x->gradient[i].group] == side) {
                sorted[k] = x->gradient[i];
                if (side) sorted[k].ready_us = end;
                k++;
            }
    memcpy(x->gradient, sorted, sizeof sorted);
    x->w = (struct sim_work){.n = n,
                             .n_groups = groups,
                             .gradient = x->gradient,
                             .late = x->late,
                             .backward_us = end,
                             .topology = {"test", 64, 2, {{10, 1e-4}, {40, 5e-6}}}};
    sim_work_prepare(&x->w, &x->a);
}

/* What any schedule must be. */
static void check_rule(const struct instance *x, const struct sim_schedule *s, uint32_t trial) {
    bool seen[MAX_N] = {0};
    uint32_t at = 0;
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        const struct sim_bucket *q = &s->bucket[b];
        uint64_t bytes = 0;
        uint32_t moment = 0;
        cr_assert(q->first == at || !s->by_clock, "trial %u, %s", trial, s->name);
        for (uint32_t i = q->first; i < q->first + q->n; i++, at++) {
            const struct sim_gradient *g = &x->w.gradient[s->gradient[i]];
            cr_assert(!seen[s->gradient[i]]);
            seen[s->gradient[i]] = true;
            cr_assert_eq(g->group, q->group);
            bytes += g->bytes;
            if (g->moment > moment) moment = g->moment;
        }
        cr_assert(q->n && bytes == q->bytes && moment == q->moment, "trial %u, %s", trial, s->name);
        if (b && x->w.late[s->bucket[b - 1].group])
            cr_assert(x->w.late[q->group] || s->by_clock, "trial %u, %s: late first", trial,
                      s->name);
    }
    cr_assert_eq(at, x->w.n, "trial %u, %s: not all gradients", trial, s->name);
}

static double plain(const struct instance *x, const struct sim_schedule *s, double network) {
    double now = 0;
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < s->bucket[b].n; i++) {
            const struct sim_gradient *g = &x->gradient[s->gradient[s->bucket[b].first + i]];
            now = fmax(now, g->ready_us);
            bytes += g->bytes;
        }
        now = fmax(now, s->bucket[b].release_us);
        now += fmin(10 + 1e-4 * network * (double)bytes, 40 + 5e-6 * network * (double)bytes);
    }
    return now;
}

Test(simulate, rules) {
    uint64_t seed = 1;
    for (uint32_t trial = 0; trial < 400; trial++) {
        struct instance x;
        uint32_t groups = 1 + trial % 3;
        draw(&x, &seed, groups, trial % 5 == 0);
        double exact = INFINITY, finish[SIM_N_RULES];
        for (enum sim_rule r = 0; r < SIM_N_RULES; r++) {
            struct sim_schedule s;
            double start[MAX_N], end[MAX_N];
            sim_rule(&x.w, r, &x.a, &s);
            cr_assert_str_eq(s.name, names[r]);
            finish[r] = sim_replay(&x.w, &s, x.w.moment_us, &x.w.topology, start, end);
            check_rule(&x, &s, trial);
            cr_assert_float_eq(finish[r], plain(&x, &s, 1), finish[r] * 1e-12, "trial %u, %s",
                               trial, s.name);
            if (r == SIM_EXACT && !s.partly) exact = finish[r];
            if (r == SIM_SINGLE) cr_assert(s.n_buckets == groups);
            if (r == SIM_WFBP) cr_assert(s.n_buckets == x.w.n);
        }
        for (enum sim_rule r = 0; r < SIM_N_RULES; r++)
            cr_assert(isinf(exact) || exact <= finish[r] * (1 + SCHEDULE_EQUAL),
                      "trial %u: %s beats exact", trial, names[r]);
        arena_free(&x.a);
    }
}

/* A slower network and later ranks never make a step end earlier, but for schedules by the clock. */
Test(simulate, monotone) {
    uint64_t seed = 9;
    for (uint32_t trial = 0; trial < 200; trial++) {
        struct instance x;
        draw(&x, &seed, 1 + trial % 3, trial % 2);
        for (enum sim_rule r = 0; r < SIM_N_RULES; r++) {
            struct sim_schedule s;
            sim_rule(&x.w, r, &x.a, &s);
            double before = 0;
            for (double slow = 1; slow < 9; slow *= 1.7) {
                struct topology t = x.w.topology;
                for (uint32_t p = 0; p < 2; p++) t.piece[p].us_per_byte *= slow;
                double us = sim_replay(&x.w, &s, x.w.moment_us, &t, NULL, NULL);
                cr_assert(us >= before || s.by_clock, "trial %u, %s", trial, s.name);
                before = us;
            }
            double at[MAX_N + 1];
            before = sim_replay(&x.w, &s, x.w.moment_us, &x.w.topology, NULL, NULL);
            memcpy(at, x.w.moment_us, x.w.n_moments * sizeof *at);
            for (uint32_t i = random_below(&seed, x.w.n_moments); i < x.w.n_moments; i++)
                at[i] += 33;
            cr_assert(sim_replay(&x.w, &s, at, &x.w.topology, NULL, NULL) >= before || s.by_clock);
        }
        arena_free(&x.a);
    }
}

/* Slack: as much later a bucket may be, and no more. */
Test(simulate, slack) {
    uint64_t seed = 5;
    for (uint32_t trial = 0; trial < 300; trial++) {
        struct instance x;
        struct sim_schedule s;
        double start[MAX_N], end[MAX_N], slack[MAX_N], at[MAX_N + 1];
        draw(&x, &seed, 1, false);
        sim_rule(&x.w, trial % 2 ? SIM_WFBP : SIM_MGWFBP, &x.a, &s);
        /* A moment of its own for every bucket, so that one can be delayed alone. */
        struct sim_work w = x.w;
        w.n_moments = s.n_buckets + 1;
        for (uint32_t b = 0; b < s.n_buckets; b++) {
            at[b] = x.w.moment_us[s.bucket[b].moment];
            s.bucket[b].moment = b;
        }
        at[s.n_buckets] = x.w.backward_us;
        double finish = sim_replay(&w, &s, at, &w.topology, start, end);
        uint32_t chain = sim_slack(&w, &s, at, start, end, slack);
        double step = fmax(finish, x.w.backward_us);
        cr_assert(chain < s.n_buckets);
        cr_assert(start[chain] == at[chain]);
        for (uint32_t b = chain + 1; b < s.n_buckets; b++) cr_assert_eq(start[b], end[b - 1]);
        for (uint32_t b = 0; b < s.n_buckets; b++) {
            double was = at[b];
            cr_assert(slack[b] >= 0);
            at[b] = was + slack[b];
            double later = fmax(sim_replay(&w, &s, at, &w.topology, NULL, NULL), x.w.backward_us);
            cr_assert_float_eq(later, step, 1e-6, "trial %u, bucket %u: slack %g is too much",
                               trial, b, slack[b]);
            at[b] += 1;
            later = fmax(sim_replay(&w, &s, at, &w.topology, NULL, NULL), x.w.backward_us);
            cr_assert_float_eq(later, step + 1, 1e-6, "trial %u, bucket %u: slack %g is too little",
                               trial, b, slack[b]);
            at[b] = was;
        }
        arena_free(&x.a);
    }
}

/* A cycle's tensors of two types are two buckets, both after the cycle began. */
Test(simulate, horovod_of_two_groups) {
    struct instance x = {.late = {false, false}};
    const double ready[] = {100, 200, 300, 1500};
    for (uint32_t i = 0; i < 4; i++)
        x.gradient[i] = (struct sim_gradient){ready[i], 1600, 1600, i == 1, 4, 0};
    x.w = (struct sim_work){.n = 4,
                            .n_groups = 2,
                            .gradient = x.gradient,
                            .late = x.late,
                            .backward_us = 1500,
                            .topology = {"test", 8, 1, {{10, 0.01}}}};
    sim_work_prepare(&x.w, &x.a);
    struct sim_schedule s;
    double start[4], end[4];
    sim_rule(&x.w, SIM_HOROVOD, &x.a, &s);
    double finish = sim_replay(&x.w, &s, x.w.moment_us, &x.w.topology, start, end);
    cr_assert_eq(s.n_buckets, 3);
    cr_expect(s.bucket[0].group == 0 && s.bucket[0].n == 2 && start[0] == 1000);
    cr_expect(s.bucket[1].group == 1 && s.bucket[1].n == 1 && start[1] == 1042);
    cr_expect(s.bucket[2].group == 0 && s.bucket[2].n == 1 && start[2] == 2000);
    cr_expect_eq(finish, 2026);
    arena_free(&x.a);
}

/* Without jitter, a thousand steps are one step; with it the same draws serve all schedules. */
Test(simulate, many_steps) {
    uint64_t seed = 77;
    struct instance x;
    draw(&x, &seed, 1, false);
    struct sim_schedule s[3];
    struct sim_result r[3];
    struct sim_report report;
    sim_rule(&x.w, SIM_EXACT, &x.a, &s[0]);
    sim_rule(&x.w, SIM_DDP, &x.a, &s[1]);
    sim_rule(&x.w, SIM_EXACT, &x.a, &s[2]);
    struct jitter j = {.seed = 1, .ranks = 100, .slow_factor = 1};
    simulate(&x.w, &j, 10, s, 3, &x.a, r, &report);
    double finish = sim_replay(&x.w, &s[0], x.w.moment_us, &x.w.topology, NULL, NULL);
    cr_expect(r[0].step_us.p50 == finish && r[0].step_us.p99 == finish);
    cr_expect_eq(report.slowest_rank, JITTER_NO_RANK);
    cr_expect_eq(report.backward_us.p99, x.w.backward_us);

    j.op = 0.2;
    simulate(&x.w, &j, 200, s, 3, &x.a, r, &report);
    cr_expect(r[0].step_us.p50 > finish && r[0].step_us.p99 > r[0].step_us.p50);
    cr_expect_eq(r[0].step_us.p99, r[2].step_us.p99);
    cr_expect(report.slowest_rank < 100 && report.slowest_steps >= 2);
    uint32_t decided = 0;
    for (uint32_t b = 0; b < s[0].n_buckets; b++) decided += report.bottleneck_steps[b];
    cr_expect_eq(decided, 200);
    double at[MAX_N + 1];
    struct topology t;
    sim_draw(&x.w, &j, report.median_step, at, &t);
    double median = fmax(sim_replay(&x.w, &s[0], at, &t, NULL, NULL), at[x.w.n_moments - 1]);
    cr_expect_eq(median, r[0].step_us.p50);
    arena_free(&x.a);
}

Test(simulate, nothing_to_reduce) {
    struct instance x = {.a = {0}};
    x.w = (struct sim_work){.gradient = x.gradient,
                            .late = x.late,
                            .backward_us = 100,
                            .topology = {"test", 2, 1, {{1, 1}}}};
    sim_work_prepare(&x.w, &x.a);
    for (enum sim_rule r = 0; r < SIM_N_RULES; r++) {
        struct sim_schedule s;
        struct sim_result result;
        struct sim_report report;
        sim_rule(&x.w, r, &x.a, &s);
        struct jitter j = {.seed = 1, .ranks = 4, .op = 0.1};
        simulate(&x.w, &j, 5, &s, 1, &x.a, &result, &report);
        cr_expect_eq(s.n_buckets, 0);
        cr_expect(result.exposed_us.p99 == 0 && result.step_us.p50 > 0);
    }
    arena_free(&x.a);
}
