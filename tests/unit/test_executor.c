/* The protocol of a step, one rule a test. */
#define _GNU_SOURCE
#include "job.h"
#include "reduce.h"

#include <criterion/criterion.h>

static double job_load(const void *grad, int param, int64_t i) {
    if (param == D) return ((const double *)grad)[i];
    if (param == H) return reduce_from_float16(((const uint16_t *)grad)[i]);
    return ((const float *)grad)[i];
}

/* The gradient is the sum over the ranks in `present`, times scale. */
static void check_sum(struct rank *r, int step, int param, int iteration, unsigned present,
                      double scale) {
    const void *grad = ddprt_grad(r->rt, step, param, NULL);
    for (int64_t i = 0; i < job_elements[param]; i++) {
        double want = 0;
        for (int k = 0; k < r->size; k++)
            if (present >> k & 1) want += job_value(k, i, iteration);
        cr_assert_float_eq(job_load(grad, param, i), want * scale, 2e-3,
                           "rank %d param %d [%ld]: %g %g", r->rank, param, (long)i,
                           job_load(grad, param, i), want * scale);
    }
}

static void everything(struct rank *r) {
    for (int it = 0; it < 50; it++) {
        cr_assert_eq(ddprt_step_begin(r->rt, TRAIN, 0, NULL), 0);
        cr_assert_eq(ddprt_branch(r->rt, BRANCH_B, it & 1), 0);
        job_ready_all(r, TRAIN, W0, H, it);
        unsigned who = 0;
        for (int k = 0; k < r->size; k++) who |= (unsigned)((k + it) % 3 == 0) << k;
        if (who >> r->rank & 1)
            cr_assert_eq(job_ready(r, TRAIN, C0, it), 0);
        else if (it & 2)
            cr_assert_eq(ddprt_absent(r->rt, C0), 0);
        if (it & 1) cr_assert_eq(job_ready(r, TRAIN, U, it), 0);
        cr_assert_eq(ddprt_step_end(r->rt), 0);
        int code = ddprt_step_wait(r->rt, 5000, &r->report);
        cr_assert_eq(code, 0, "%s", r->report.error.text);
        unsigned all = (1u << r->size) - 1;
        double scale = 1.0 / r->size;
        for (int p = W0; p <= H; p++) check_sum(r, TRAIN, p, it, all, scale);
        check_sum(r, TRAIN, C0, it, who, scale);
        check_sum(r, TRAIN, C1, it, 0, scale);
        check_sum(r, TRAIN, U, it, it & 1 ? all : 0, scale);
        cr_assert_eq(ddprt_presence(r->rt, W1), r->size);
        cr_assert_eq(ddprt_presence(r->rt, C0), __builtin_popcount(who));
        cr_assert_eq(ddprt_presence(r->rt, C1), 0);
        cr_assert_eq(ddprt_presence(r->rt, U), it & 1 ? r->size : 0);
        cr_assert_eq(ddprt_presence(r->rt, N), 0);
        cr_assert_eq(r->report.skipped, it & 1 ? 0 : 1);
        cr_assert_eq(r->report.buckets, it & 1 ? 7 : 6);
        cr_assert_eq(r->report.absent, 1 + !who + !(it & 1));
        cr_assert_eq(r->report.sequence, 2 * it + 1);

        cr_assert_eq(ddprt_step_begin(r->rt, OTHER, 0, NULL), 0);
        job_ready(r, OTHER, F, it);
        job_ready(r, OTHER, W0, it);
        cr_assert_eq(ddprt_ready(r->rt, W1), 0); /* frozen here: ignored */
        cr_assert_eq(ddprt_step_end(r->rt), 0);
        cr_assert_eq(ddprt_step_wait(r->rt, 5000, &r->report), 0);
        check_sum(r, OTHER, F, it, all, scale);
        check_sum(r, OTHER, W0, it, all, scale);
    }
    ddprt_counters n;
    ddprt_stats(r->rt, &n);
    cr_assert_eq(n.steps, 100);
    cr_assert_eq(n.skipped, 25);
    cr_assert_eq(n.frozen_ready, 50);
}

Test(executor, everything_adds_up_on_any_number_of_ranks) {
    ddprt_plan *plan = job_open_plan(PLAN_WORLD);
    for (int size = 1; size <= 5; size++) {
        struct rank ranks[MAX_RANKS];
        job_init(ranks, size, plan, everything);
        job_run(ranks);
        for (int r = 0; r < size; r++)
            cr_assert_eq(ranks[r].error.code, 0, "%s", ranks[r].error.text);
    }
    ddprt_plan_close(plan);
}
