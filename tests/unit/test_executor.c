/* The protocol of a step, one rule a test. Rank 1 misbehaves; the other ranks must hear of it. */
#define _GNU_SOURCE
#include "comm.h"
#include "job.h"
#include "reduce.h"

#include <criterion/criterion.h>
#include <sys/wait.h>

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

/* ---- what works ------------------------------------------------------------------------------ */

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
    cr_assert_null(ddprt_last_error(r->rt));
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

static double average_scale; /* of an always-parameter; set before the threads start */
static double conditional_scale;

static void averaged(struct rank *r) {
    for (int it = 0; it < 6; it++) {
        ddprt_step_begin(r->rt, TRAIN, 0, NULL);
        ddprt_branch(r->rt, BRANCH_B, 1);
        job_ready_all(r, TRAIN, W0, H, it);
        if (r->rank < 2) job_ready(r, TRAIN, C0, it);
        job_ready(r, TRAIN, U, it);
        ddprt_step_end(r->rt);
        cr_assert_eq(ddprt_step_wait(r->rt, 5000, NULL), 0);
        for (int p = W0; p <= H; p++) check_sum(r, TRAIN, p, it, 7, average_scale);
        check_sum(r, TRAIN, C0, it, 3, conditional_scale);
    }
}

Test(executor, averages_over_the_world_or_the_present_or_not) {
    for (int average = PLAN_WORLD; average <= PLAN_UNSCALED; average++) {
        ddprt_plan *plan = job_open_plan((enum plan_average)average);
        struct rank ranks[MAX_RANKS];
        average_scale = average == PLAN_UNSCALED ? 1 : 1.0 / 3;
        conditional_scale = average == PLAN_PRESENT ? 0.5 : average_scale;
        job_init(ranks, 3, plan, averaged);
        job_run(ranks);
        ddprt_plan_close(plan);
    }
}

static void zeroed(struct rank *r) {
    for (int it = 0; it < 2; it++) {
        ddprt_step_begin(r->rt, OTHER, DDPRT_ZERO, NULL);
        float *grad = ddprt_grad(r->rt, OTHER, F, NULL);
        for (int i = 0; i < 8; i++) grad[i] += 3; /* accumulates onto zeros */
        float *w0 = ddprt_grad(r->rt, OTHER, W0, NULL);
        for (int i = 0; i < 5; i++) w0[i] += (float)r->rank;
        ddprt_ready(r->rt, W0);
        ddprt_ready(r->rt, F);
        ddprt_step_end(r->rt);
        cr_assert_eq(ddprt_step_wait(r->rt, 5000, NULL), 0);
        cr_assert_eq(grad[7], 3);
        cr_assert_eq(w0[4], 0.5f);
    }
}

static void cancelled(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    job_ready(r, TRAIN, C0, 0);
    r->code[0] = ddprt_step_cancel(r->rt);
    r->code[1] = ddprt_step_end(r->rt);
    zeroed(r);
    ddprt_step_begin(r->rt, OTHER, 0, NULL);
    job_ready(r, OTHER, W0, 0);
    job_ready(r, OTHER, F, 0); /* issues */
    r->code[2] = ddprt_step_cancel(r->rt);
    ddprt_step_end(r->rt);
    r->code[3] = ddprt_step_wait(r->rt, 5000, NULL);
}

/* Two ranks run `run`; what it stored is in ranks. */
static struct rank ranks[MAX_RANKS];
static void run_ranks(int size, int timeout_ms, void (*run)(struct rank *)) {
    ddprt_plan *plan = job_open_plan(PLAN_WORLD);
    job_init(ranks, size, plan, run);
    for (int r = 0; r < size; r++) ranks[r].timeout_ms = timeout_ms;
    job_run(ranks);
    ddprt_plan_close(plan);
}

Test(executor, zero_flag_clears_gradients) { run_ranks(2, 5000, zeroed); }

Test(executor, cancel_takes_back_what_is_not_issued) {
    run_ranks(2, 5000, cancelled);
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(ranks[r].code[0], 0);
        cr_assert_eq(ranks[r].code[1], DDPRT_STATE);
        cr_assert_eq(ranks[r].code[2], DDPRT_STATE);
        cr_assert_eq(ranks[r].code[3], 0);
    }
}

/* ---- calls that do nothing ------------------------------------------------------------------- */

static void out_of_order(struct rank *r) {
    ddprt_runtime *rt = r->rt;
    cr_assert_eq(ddprt_ready(rt, W0), DDPRT_STATE);
    cr_assert_eq(ddprt_absent(rt, C0), DDPRT_STATE);
    cr_assert_eq(ddprt_presence(rt, W0), -1);
    cr_assert_eq(ddprt_branch(rt, BRANCH_B, 1), DDPRT_STATE);
    cr_assert_eq(ddprt_step_end(rt), DDPRT_STATE);
    cr_assert_eq(ddprt_step_wait(rt, 0, NULL), DDPRT_STATE);
    cr_assert_eq(ddprt_step_cancel(rt), DDPRT_STATE);
    cr_assert_eq(ddprt_step_begin(rt, 2, 0, NULL), DDPRT_INVALID);
    cr_assert_eq(ddprt_step_begin(rt, -1, 0, NULL), DDPRT_INVALID);
    cr_assert_eq(ddprt_step_begin(rt, 0, 256, NULL), DDPRT_INVALID);
    cr_assert_eq(ddprt_step_begin(rt, 0, 0, rt), DDPRT_INVALID);
    cr_assert_eq(ddprt_step_begin(NULL, 0, 0, NULL), DDPRT_INVALID);
    cr_assert_null(ddprt_grad(rt, 0, N, NULL));
    cr_assert_null(ddprt_grad(rt, 0, F, NULL));
    cr_assert_null(ddprt_grad(rt, 2, W0, NULL));
    cr_assert_null(ddprt_grad(rt, 0, 99, NULL));
    size_t bytes;
    cr_assert_not_null(ddprt_arena(rt, 1, &bytes));
    cr_assert_eq(bytes, 2 * 4096);
    cr_assert_eq((uintptr_t)ddprt_grad(rt, 0, W1, &bytes) % 16, 0);
    cr_assert_eq(bytes, 4000);
    ddprt_step_begin(rt, TRAIN, 0, NULL);
    cr_assert_eq(ddprt_step_begin(rt, TRAIN, 0, NULL), DDPRT_STATE);
    cr_assert_eq(ddprt_branch(rt, 2, 1), DDPRT_INVALID);
    cr_assert_eq(ddprt_branch(rt, BRANCH_B, 0), 0);
    cr_assert_eq(ddprt_step_wait(rt, 0, NULL), DDPRT_STATE);
    job_ready_all(r, TRAIN, W0, H, 0);
    cr_assert_eq(ddprt_absent(rt, N), 0); /* true, if superfluous */
    cr_assert_eq(ddprt_step_end(rt), 0);
    cr_assert_eq(ddprt_step_begin(rt, TRAIN, 0, NULL), DDPRT_STATE);
    cr_assert_eq(ddprt_step_end(rt), DDPRT_STATE);
    cr_assert_eq(ddprt_step_wait(rt, 5000, NULL), 0);
    r->code[0] = 1;
}

Test(executor, calls_out_of_order_do_nothing) {
    run_ranks(2, 5000, out_of_order);
    cr_assert(ranks[0].code[0] && ranks[1].code[0]);
}

static void forked(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 0);
    pid_t child = fork();
    if (child == 0) {
        bool refused =
            ddprt_ready(r->rt, W0) == DDPRT_FORKED && ddprt_absent(r->rt, C0) == DDPRT_FORKED &&
            ddprt_branch(r->rt, 0, 0) == DDPRT_FORKED &&
            ddprt_step_begin(r->rt, 0, 0, NULL) == DDPRT_FORKED &&
            ddprt_step_end(r->rt) == DDPRT_FORKED &&
            ddprt_step_wait(r->rt, 0, NULL) == DDPRT_FORKED &&
            ddprt_step_cancel(r->rt) == DDPRT_FORKED && ddprt_abort(r->rt, "child") == DDPRT_FORKED;
        ddprt_close(r->rt); /* does nothing to the parent */
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    r->code[0] = status;
    job_ready_all(r, TRAIN, W0, H, 0);
    ddprt_step_end(r->rt);
    r->code[1] = ddprt_step_wait(r->rt, 5000, NULL);
}

Test(executor, forked_children_are_refused) {
    run_ranks(2, 5000, forked);
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(ranks[r].code[0], 0);
        cr_assert_eq(ranks[r].code[1], 0);
    }
}

/* ---- errors of a rank ------------------------------------------------------------------------ */

/* One ordinary step, then one in which rank 1 does something else. */
static void misbehave(struct rank *r, void (*wrong)(struct rank *r)) {
    for (int it = 0; it < 2; it++) {
        r->code[0] = ddprt_step_begin(r->rt, TRAIN, 0, NULL);
        bool now = it == 1 && r->rank == 1;
        if (now && wrong) wrong(r);
        if (!now || !r->no_branch) ddprt_branch(r->rt, BRANCH_B, 1);
        for (int p = W0; p <= H; p++)
            if (!now || p != r->withhold) job_ready(r, TRAIN, p, it);
        job_ready(r, TRAIN, U, it);
        r->code[1] = ddprt_step_end(r->rt);
        r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
        if (it == 0) cr_assert_eq(r->code[2], 0, "%s", r->report.error.text);
    }
    r->code[3] = ddprt_step_begin(r->rt, TRAIN, 0, NULL);
}

/* Rank 1 has this error; the others heard of it; all failed in the same step. */
static void expect(int code, int param, int bucket, const char *words) {
    for (int r = 0; r < ranks[0].size; r++) {
        const ddprt_error *e = &ranks[r].report.error;
        cr_assert_eq(e->code, r == 1 ? code : DDPRT_PEER_ERROR, "rank %d: %d %s", r, e->code,
                     e->text);
        cr_assert_eq(ranks[r].code[2], e->code);
        cr_assert_eq(e->rank, 1, "%s", e->text);
        cr_assert_eq(e->parameter, param, "%s", e->text);
        cr_assert_eq(e->bucket, bucket, "%s", e->text);
        cr_assert_eq(e->sequence, 2, "%s", e->text);
        cr_assert_not_null(strstr(e->text, words), "%s", e->text);
        cr_assert_not_null(strstr(e->text, "rank 1, step \"train\" (number 2)"), "%s", e->text);
        cr_assert_eq(ranks[r].report.n_errors, 1);
        cr_assert_eq(ranks[r].report.sequence, 2);
        cr_assert_eq(ranks[r].code[3], e->code, "the next step is refused");
    }
}

static void wrong_twice(struct rank *r) {
    job_ready(r, TRAIN, W1, 0);
    r->code[4] = ddprt_ready(r->rt, W1);
}
static void twice(struct rank *r) { misbehave(r, wrong_twice); }
Test(executor, twice) {
    run_ranks(3, 5000, twice);
    expect(DDPRT_TWICE, W1, 1, "parameter \"w1\": its gradient was reported twice");
    cr_assert_eq(ranks[1].code[4], DDPRT_TWICE);
    cr_assert_eq(ranks[1].code[1], DDPRT_TWICE);
}

static void wrong_never(struct rank *r) { r->code[4] = ddprt_ready(r->rt, N); }
static void never(struct rank *r) { misbehave(r, wrong_never); }
Test(executor, never) {
    run_ranks(2, 5000, never);
    expect(DDPRT_NEVER, N, -1, "parameter \"n\": a gradient came");
}

static void wrong_unknown(struct rank *r) { r->code[4] = ddprt_ready(r->rt, N_PARAMS); }
static void unknown(struct rank *r) { misbehave(r, wrong_unknown); }
Test(executor, unknown_parameter) {
    run_ranks(2, 5000, unknown);
    expect(DDPRT_UNKNOWN_PARAMETER, N_PARAMS, -1, "parameter index 9 of 9");
}

static void missing(struct rank *r) {
    r->withhold = D;
    misbehave(r, NULL);
}
Test(executor, missing) {
    run_ranks(3, 5000, missing);
    expect(DDPRT_MISSING, D, 2, "parameter \"d\": no gradient came");
    cr_assert_eq(ranks[1].code[1], DDPRT_MISSING);
    cr_assert_eq(ranks[0].code[1], 0);
}

static void wrong_absent(struct rank *r) { r->code[4] = ddprt_absent(r->rt, H); }
static void absent_always(struct rank *r) {
    r->withhold = H;
    misbehave(r, wrong_absent);
}
Test(executor, always_cannot_be_absent) {
    run_ranks(2, 5000, absent_always);
    expect(DDPRT_MISSING, H, 3, "parameter \"h\": no gradient came");
}

static void guard_false(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 0);
    job_ready_all(r, TRAIN, W0, H, 0);
    if (r->rank == 1) job_ready(r, TRAIN, U, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, gradient_although_the_guard_is_false) {
    run_ranks(2, 5000, guard_false);
    cr_assert_eq(ranks[1].code[2], DDPRT_GUARD_FALSE);
    cr_assert_eq(ranks[0].code[2], DDPRT_PEER_ERROR);
    cr_assert_eq(ranks[0].report.error.parameter, U);
    cr_assert_eq(ranks[0].report.error.rank, 1);
}

static void branch_unset(struct rank *r) {
    r->no_branch = true;
    misbehave(r, NULL);
}
Test(executor, branch_unset) {
    run_ranks(2, 5000, branch_unset);
    expect(DDPRT_BRANCH_UNSET, -1, -1, "branch \"b\": a uniform branch that decides");
}

static void wrong_branch_late(struct rank *r) {
    job_ready(r, TRAIN, D, 1); /* completes a bucket */
    r->code[4] = ddprt_branch(r->rt, BRANCH_B, 1);
}
static void branch_late(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 1);
    if (r->rank == 1) wrong_branch_late(r);
    job_ready_all(r, TRAIN, W0, W1, 0);
    if (r->rank != 1) job_ready(r, TRAIN, D, 0);
    job_ready(r, TRAIN, H, 0);
    job_ready(r, TRAIN, U, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, branch_late) {
    run_ranks(2, 5000, branch_late);
    cr_assert_eq(ranks[1].code[4], DDPRT_BRANCH_LATE);
    cr_assert_eq(ranks[1].code[2], DDPRT_BRANCH_LATE);
    cr_assert_eq(ranks[0].code[2], DDPRT_PEER_ERROR);
    cr_assert_not_null(strstr(ranks[0].report.error.text, "rank 1"));
    cr_assert_not_null(strstr(ranks[0].report.error.text, "branch \"b\""));
}

static void branch_differs(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, r->rank == 1);
    job_ready_all(r, TRAIN, W0, H, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, branch_differs) {
    run_ranks(3, 5000, branch_differs);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(ranks[r].code[2], DDPRT_BRANCH_DIFFERS);
        cr_assert_eq(ranks[r].report.n_errors, 3);
        for (int k = 0; k < 3; k++)
            cr_assert_not_null(
                strstr(ranks[r].errors[k].text, k == 1 ? "here it is true" : "here it is false"),
                "%s", ranks[r].errors[k].text);
    }
}

/* An error after the error slot was issued: that step succeeds everywhere, the next fails
 * everywhere. */
static void late(struct rank *r) {
    for (int it = 0; it < 2; it++) {
        r->code[4 + it] = ddprt_step_begin(r->rt, TRAIN, 0, NULL);
        if (r->code[4 + it]) return;
        ddprt_branch(r->rt, BRANCH_B, 0);
        job_ready_all(r, TRAIN, W0, H, it);
        ddprt_step_end(r->rt);
        if (r->rank == 1) r->code[3] = ddprt_ready(r->rt, C0);
        r->code[it] = ddprt_step_wait(r->rt, 5000, &r->report);
        if (r->rank == 1 && r->shared) return; /* closes */
    }
}
static void late_then_close(struct rank *r) {
    r->shared = r;
    late(r);
}
/* The same, but the others go on with another step. */
static void late_close_other(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 0);
    job_ready_all(r, TRAIN, W0, H, 0);
    ddprt_step_end(r->rt);
    if (r->rank == 0) r->code[3] = ddprt_ready(r->rt, C0);
    r->code[0] = ddprt_step_wait(r->rt, 5000, &r->report);
    if (r->rank == 0) return;
    ddprt_step_begin(r->rt, OTHER, 0, NULL);
    job_ready(r, OTHER, W0, 0);
    job_ready(r, OTHER, F, 0);
    ddprt_step_end(r->rt);
    r->code[1] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, late_fails_the_next_step) {
    run_ranks(3, 5000, late);
    cr_assert_eq(ranks[1].code[3], DDPRT_LATE);
    cr_assert_eq(ranks[1].code[5], DDPRT_LATE, "step_begin tells");
    for (int r = 0; r < 3; r++) cr_assert_eq(ranks[r].code[0], 0, "the step itself was good");
    for (int r = 0; r < 3; r += 2) {
        cr_assert_eq(ranks[r].code[1], DDPRT_PEER_ERROR);
        cr_assert_eq(ranks[r].report.error.rank, 1);
        cr_assert_eq(ranks[r].report.error.parameter, C0);
    }
}
Test(executor, close_tells_of_a_late_error) {
    run_ranks(3, 5000, late_then_close);
    for (int r = 0; r < 3; r += 2) {
        cr_assert_eq(ranks[r].code[1], DDPRT_PEER_ERROR, "%s", ranks[r].report.error.text);
        cr_assert_eq(ranks[r].report.error.parameter, C0);
    }
}

Test(executor, close_tells_of_a_late_error_whatever_step_comes_next) {
    run_ranks(2, 5000, late_close_other);
    cr_assert_eq(ranks[0].code[3], DDPRT_LATE);
    cr_assert_eq(ranks[1].code[1], DDPRT_PEER_ERROR, "%s", ranks[1].report.error.text);
    cr_assert_eq(ranks[1].report.error.rank, 0);
    cr_assert_eq(ranks[1].report.error.parameter, C0, "%s", ranks[1].report.error.text);
}

static void other_step(struct rank *r) {
    int step = r->rank == 1 ? OTHER : TRAIN;
    ddprt_step_begin(r->rt, step, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 0);
    if (step == TRAIN) job_ready_all(r, TRAIN, W0, H, 0);
    if (step == OTHER) job_ready(r, OTHER, W0, 0), job_ready(r, OTHER, F, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, other_step) {
    run_ranks(3, 5000, other_step);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(ranks[r].code[2], DDPRT_OTHER_STEP, "%s", ranks[r].report.error.text);
        cr_assert_eq(ranks[r].report.error.rank, 1);
        cr_assert_not_null(strstr(ranks[r].report.error.text, "rank 1, step \"other\""), "%s",
                           ranks[r].report.error.text);
    }
}

static void other_sequence(struct rank *r) {
    if (r->rank == 1) {
        ddprt_step_begin(r->rt, TRAIN, 0, NULL);
        ddprt_step_cancel(r->rt);
    }
    ddprt_step_begin(r->rt, OTHER, 0, NULL);
    job_ready(r, OTHER, W0, 0);
    job_ready(r, OTHER, F, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, other_sequence_number) {
    run_ranks(3, 5000, other_sequence);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(ranks[r].code[2], DDPRT_OTHER_STEP);
        cr_assert_eq(ranks[r].report.error.sequence, 2);
        cr_assert_eq(ranks[r].report.error.rank, 1);
    }
}

static void aborts(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 0);
    job_ready_all(r, TRAIN, W0, W1, 0);
    if (r->rank == 1) ddprt_abort(r->rt, "the loss is not a number");
    job_ready_all(r, TRAIN, D, H, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
    r->code[3] = ddprt_ready(r->rt, W0);
}
Test(executor, abort_reaches_everybody) {
    run_ranks(3, 5000, aborts);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(ranks[r].code[2], DDPRT_ABORTED);
        cr_assert_eq(ranks[r].code[3], DDPRT_ABORTED);
        cr_assert_eq(ranks[r].report.error.rank, 1);
        bool said = strstr(ranks[r].report.error.text, "not a number") != NULL;
        for (int k = 0; k < ranks[r].report.n_errors; k++)
            said |= strstr(ranks[r].errors[k].text, "not a number") != NULL;
        cr_assert(said);
    }
}

static void leaves(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 0);
    job_ready_all(r, TRAIN, W0, W1, 0);
    if (r->rank == 1) return;
    job_ready_all(r, TRAIN, D, H, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, a_rank_that_leaves_is_named) {
    run_ranks(3, 5000, leaves);
    for (int r = 0; r < 3; r += 2) {
        cr_assert_eq(ranks[r].code[2], DDPRT_PEER_LEFT);
        cr_assert_eq(ranks[r].report.error.rank, 1);
    }
}

static void stalls(struct rank *r) {
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 1);
    job_ready_all(r, TRAIN, W0, D, 0);
    if (r->rank == 1) usleep(600 * 1000);
    job_ready(r, TRAIN, H, 0);
    job_ready(r, TRAIN, U, 0);
    ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 300, &r->report);
}
Test(executor, a_rank_that_stalls_is_named_with_the_gradient) {
    run_ranks(3, 5000, stalls);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(ranks[r].code[2], DDPRT_PEER_STALLED, "%s", ranks[r].report.error.text);
        cr_assert_eq(ranks[r].report.error.rank, 1);
        cr_assert_eq(ranks[r].report.error.parameter, H, "%s", ranks[r].report.error.text);
        cr_assert_eq(ranks[r].report.error.bucket, 3);
    }
}

/* step_end itself waits for the guards, with a deadline. */
static void stalls_before_control(struct rank *r) {
    if (r->rank == 1) usleep(500 * 1000);
    ddprt_step_begin(r->rt, TRAIN, 0, NULL);
    ddprt_branch(r->rt, BRANCH_B, 1);
    job_ready_all(r, TRAIN, W0, H, 0);
    job_ready(r, TRAIN, U, 0);
    r->code[1] = ddprt_step_end(r->rt);
    r->code[2] = ddprt_step_wait(r->rt, 5000, &r->report);
}
Test(executor, step_end_has_a_deadline) {
    run_ranks(2, 200, stalls_before_control);
    cr_assert_eq(ranks[0].code[1], DDPRT_PEER_STALLED);
    cr_assert_eq(ranks[0].code[2], DDPRT_PEER_STALLED);
    cr_assert_eq(ranks[1].code[2], DDPRT_PEER_STALLED);
    cr_assert_eq(ranks[1].report.error.rank, 1);
}

/* ---- a transport that does not answer -------------------------------------------------------- */

struct mute {
    ddprt_comm comm;
    void *memory;
    _Atomic int broken; /* the code */
    bool deaf;          /* does not react to abort within its deadline */
};
static bool mute_adds(uint32_t dtype) { return dtype != PLAN_FLOAT16; }
static bool mute_adds_all(uint32_t dtype) { return dtype != 0; }
static int mute_gather(ddprt_comm *c, const void *mine, uint32_t bytes, void *all, int64_t deadline,
                       struct comm_record *failure) {
    (void)c, (void)deadline, (void)failure;
    memcpy(all, mine, bytes);
    return 0;
}
static int mute_map(ddprt_comm *c, uint64_t bytes, void **memory, int64_t deadline,
                    struct comm_record *failure) {
    (void)deadline, (void)failure;
    *memory = ((struct mute *)c)->memory = calloc(1, bytes);
    return 0;
}
static int mute_allreduce(ddprt_comm *c, const struct comm_op *op, struct comm_record *failure) {
    struct mute *m = (struct mute *)c;
    (void)op;
    while (!m->broken) usleep(1000);
    if (m->deaf) usleep(900 * 1000);
    failure->rank = 0;
    return failure->code = m->broken;
}
static void mute_abort(ddprt_comm *c, int code, int rank) {
    (void)rank;
    ((struct mute *)c)->broken = code;
}
static int mute_missing(ddprt_comm *c) {
    (void)c;
    return -1;
}
static void mute_hint(ddprt_comm *c, uint64_t sequence, uint32_t parameter) {
    (void)c, (void)sequence, (void)parameter;
}
static void mute_post(ddprt_comm *c, const struct comm_record *mine) { (void)c, (void)mine; }
static void mute_collect(ddprt_comm *c, struct comm_record *all, int64_t deadline) {
    (void)c, (void)deadline;
    all[0] = COMM_RECORD_NONE;
}
static void mute_close(ddprt_comm *c) { free(((struct mute *)c)->memory); }
static struct comm_ops mute_ops = {"mute",         mute_adds_all, mute_gather,  mute_map,
                                   mute_allreduce, mute_abort,    mute_missing, mute_hint,
                                   mute_post,      mute_collect,  mute_close};

Test(executor, a_transport_that_does_not_answer_is_a_timeout) {
    for (int deaf = 0; deaf < 2; deaf++) {
        struct mute m = {.comm = {&mute_ops, 0, 1}, .deaf = deaf};
        ddprt_plan *plan = job_open_plan(PLAN_WORLD);
        struct rank r = {.size = 1};
        cr_assert_eq(ddprt_open(plan, &m.comm, NULL, &r.rt, &r.error), 0);
        ddprt_step_begin(r.rt, OTHER, 0, NULL);
        job_ready(&r, OTHER, W0, 0);
        job_ready(&r, OTHER, F, 0);
        ddprt_step_end(r.rt);
        cr_assert_eq(ddprt_step_wait(r.rt, 50, &r.report), DDPRT_TIMEOUT);
        cr_assert_not_null(strstr(r.report.error.text, "rank 0, step \"other\" (number 1)"));
        cr_assert_eq(ddprt_step_begin(r.rt, OTHER, 0, NULL), DDPRT_TIMEOUT);
        ddprt_close(r.rt);
        ddprt_plan_close(plan);
    }
}

Test(executor, element_types_that_the_transport_cannot_add) {
    mute_ops.adds = mute_adds;
    struct mute m = {.comm = {&mute_ops, 0, 1}};
    ddprt_plan *plan = job_open_plan(PLAN_WORLD);
    ddprt_runtime *rt;
    ddprt_error error;
    cr_assert_eq(ddprt_open(plan, &m.comm, NULL, &rt, &error), DDPRT_PLAN_DTYPE);
    cr_assert_str_eq(error.text, "step \"train\", bucket 3: transport mute cannot add float16");
    ddprt_plan_close(plan);
}

/* ---- plans and codes ------------------------------------------------------------------------- */

Test(executor, a_bad_plan_is_refused) {
    ddprt_plan *plan;
    ddprt_error error;
    size_t size;
    unsigned char *bytes = job_plan(PLAN_WORLD, "w0", &size);
    bytes[size / 2] ^= 1;
    cr_assert_eq(ddprt_plan_from_memory(bytes, size, &plan, &error), DDPRT_PLAN);
    cr_assert_null(plan);
    cr_assert(error.text[0]);
    cr_assert_eq(ddprt_plan_open("/nonexistent/plan", &plan, &error), DDPRT_PLAN);
    cr_assert_eq(ddprt_plan_open(NULL, &plan, &error), DDPRT_INVALID);
    free(bytes);
}

Test(executor, lookups) {
    ddprt_plan *plan = job_open_plan(PLAN_WORLD);
    cr_assert_eq(ddprt_param_count(plan), N_PARAMS);
    cr_assert_eq(ddprt_param_find(plan, "c1"), C1);
    cr_assert_eq(ddprt_param_find(plan, "zz"), -1);
    cr_assert_str_eq(ddprt_param_name(plan, U), "u");
    cr_assert_null(ddprt_param_name(plan, N_PARAMS));
    cr_assert_null(ddprt_param_name(plan, -1));
    cr_assert_eq(ddprt_step_find(plan, "other"), OTHER);
    cr_assert_eq(ddprt_step_find(plan, "w1"), -1);
    cr_assert_eq(ddprt_branch_find(plan, "b"), BRANCH_B);
    cr_assert_eq(ddprt_branch_find(plan, "c"), -1);
    ddprt_plan_close(plan);
}

Test(executor, codes_have_names_and_fit_a_byte) {
    static const int codes[] = {
#define DDPRT_ERROR(id, number, name, text) number,
#include "ddpc/ddprt_errors.def"
#undef DDPRT_ERROR
    };
    int n = sizeof codes / sizeof *codes;
    for (int i = 0; i < n; i++) {
        cr_assert(codes[i] > 0 && codes[i] < 256);
        cr_assert(ddprt_code_name(codes[i])[0] && ddprt_code_text(codes[i])[0]);
        for (int k = 0; k < i; k++)
            cr_assert_str_neq(ddprt_code_name(codes[i]), ddprt_code_name(codes[k]));
    }
    cr_assert_str_eq(ddprt_code_name(0), "ok");
    cr_assert_str_eq(ddprt_code_name(255), "unknown");
}
