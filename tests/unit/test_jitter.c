/* The draws: their distribution, and that the latest rank is the latest. */
#include "jitter.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { N = 40, STEPS = 2000 };

static void moments(double *us) {
    for (uint32_t i = 0; i < N; i++) us[i] = 50.0 * (i + 1) + (i % 3) * 20;
}

Test(jitter, none) {
    double at[N], us[N];
    moments(us);
    struct jitter j = {.seed = 7, .ranks = 1000};
    cr_expect_eq(jitter_backward(&j, 3, N, us, at), JITTER_NO_RANK);
    for (uint32_t i = 0; i < N; i++) cr_expect_eq(at[i], us[i]);
    cr_expect_eq(jitter_network(&j, 3), 1);
}

Test(jitter, a_straggler_alone) {
    double at[N], us[N], factor[5] = {1, 1, 0.9, 1.25, 1.1};
    moments(us);
    struct jitter j = {.ranks = 5, .factor = factor};
    cr_expect_eq(jitter_backward(&j, 0, N, us, at), 3);
    for (uint32_t i = 0; i < N; i++) cr_expect_eq(at[i], us[i] * 1.25);
    for (uint32_t r = 0; r < 5; r++) factor[r] = 0.5; /* all alike: as fast as they are */
    cr_expect_eq(jitter_backward(&j, 0, N, us, at), JITTER_NO_RANK);
    cr_expect_eq(at[N - 1], us[N - 1] * 0.5);
    /* The same with jitter that is next to none. */
    factor[2] = 1.5;
    j.op = 1e-9;
    cr_expect_eq(jitter_backward(&j, 0, N, us, at), 2);
    cr_expect_float_eq(at[N - 1], us[N - 1] * 1.5, us[N - 1] * 1e-5);
}

/* A backward pass that takes no time ends on all ranks at once, however they differ. */
Test(jitter, nothing_to_wait_for) {
    double at[1], us[1] = {0}, factor[3] = {1, 2, 1};
    struct jitter j = {.seed = 7, .ranks = 3, .factor = factor, .rank = 0.1};
    cr_expect_eq(jitter_backward(&j, 0, 1, us, at), JITTER_NO_RANK);
    j.op = 0.2;
    cr_expect_eq(jitter_backward(&j, 0, 1, us, at), JITTER_NO_RANK);
    cr_expect_eq(at[0], 0);
}

/* One rank: the mean is the undisturbed time, the deviation that of a sum of independent
 * stretches. */
Test(jitter, distribution) {
    double at[N], us[N], sum = 0, square = 0, variance = 0;
    moments(us);
    for (uint32_t i = 0; i < N; i++) {
        double by = us[i] - (i ? us[i - 1] : 0);
        variance += by * by * 0.2 * 0.2;
    }
    variance += us[N - 1] * us[N - 1] * 0.05 * 0.05;
    struct jitter j = {.seed = 11, .ranks = 1, .op = 0.2, .rank = 0.05};
    for (uint32_t s = 0; s < STEPS; s++) {
        cr_assert_eq(jitter_backward(&j, s, N, us, at), JITTER_NO_RANK);
        double x = at[N - 1] - us[N - 1];
        sum += x;
        square += x * x;
        for (uint32_t i = 1; i < N; i++) cr_assert(at[i] > at[i - 1]);
    }
    double deviation = sqrt(variance);
    cr_expect_lt(fabs(sum / STEPS), 4 * deviation / sqrt(STEPS));
    cr_expect_float_eq(sqrt(square / STEPS), deviation, 0.05 * deviation);
}

/* More ranks draw more and change nothing for the others. */
Test(jitter, the_latest_rank) {
    double less[N], more[N], us[N];
    moments(us);
    struct jitter j = {.seed = 3, .op = 0.1, .rank = 0.02};
    uint32_t last = 0;
    for (j.ranks = 2; j.ranks < 1200; j.ranks += 1 + j.ranks / 3) {
        uint32_t slowest = jitter_backward(&j, 5, N, us, more);
        cr_assert(slowest < j.ranks && slowest >= last);
        if (slowest != last && last)
            for (uint32_t i = 0; i < N; i++) cr_assert(more[i] >= less[i]);
        struct jitter before = j;
        before.ranks = slowest + 1; /* it and those before it */
        cr_assert(before.ranks < 2 || jitter_backward(&before, 5, N, us, less) == slowest);
        if (before.ranks >= 2) cr_assert_eq(less[N - 1], more[N - 1]);
        before.ranks = slowest; /* those before it alone */
        if (before.ranks >= 2) {
            jitter_backward(&before, 5, N, us, less);
            cr_assert(less[N - 1] < more[N - 1]);
        }
        jitter_backward(&j, 5, N, us, less);
        last = slowest;
    }
}

/* The expected maximum of n normal numbers: 1.54 deviations for 10, 3.24 for 1000. */
Test(jitter, extremes) {
    static const struct {
        uint32_t ranks;
        double want;
    } all[] = {{10, 1.539}, {1000, 3.241}};
    for (uint32_t k = 0; k < 2; k++) {
        double at[N], us[N], variance = 0, sum = 0;
        moments(us);
        for (uint32_t i = 0; i < N; i++) {
            double by = us[i] - (i ? us[i - 1] : 0);
            variance += by * by * 0.1 * 0.1;
        }
        struct jitter j = {.seed = 2, .ranks = all[k].ranks, .op = 0.1};
        for (uint32_t s = 0; s < 400; s++) {
            jitter_backward(&j, s, N, us, at);
            sum += at[N - 1] - us[N - 1];
        }
        cr_expect_float_eq(sum / 400 / sqrt(variance), all[k].want, 0.1, "%u ranks: %g",
                           all[k].ranks, sum / 400 / sqrt(variance));
    }
}

Test(jitter, slow_steps) {
    struct jitter j = {.seed = 1, .ranks = 2, .slow_share = 0.25, .slow_factor = 3};
    uint32_t slow = 0;
    for (uint32_t s = 0; s < STEPS; s++) {
        double x = jitter_network(&j, s);
        cr_assert(x == 1 || x == 3);
        slow += x == 3;
    }
    cr_expect_float_eq(slow, 0.25 * STEPS, 80);
    j.slow_share = 1;
    for (uint32_t s = 0; s < STEPS; s++) cr_assert_eq(jitter_network(&j, s), 3);
}

Test(jitter, choice) {
    static bool chosen[JITTER_MAX_RANKS];
    static const uint32_t ranks[] = {1, 7, 1000, JITTER_MAX_RANKS};
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t count = 0; count <= ranks[k]; count = 2 * count + 1) {
            uint32_t n = 0;
            jitter_choose(count, ranks[k], count, chosen);
            for (uint32_t r = 0; r < ranks[k]; r++) n += chosen[r];
            cr_expect_eq(n, count, "%u of %u ranks, not %u", n, ranks[k], count);
        }
    }
}

/* The same on every machine and with every compiler. */
Test(jitter, known_values) {
    double at[N], us[N];
    moments(us);
    struct jitter j = {.seed = 42, .ranks = 4096, .op = 0.25, .rank = 0.03};
    uint32_t slowest = jitter_backward(&j, 9, N, us, at);
    cr_expect_eq(slowest, 614, "%u", slowest);
    cr_expect_eq(at[0], 82.239143371582031, "%.17g", at[0]);
    cr_expect_eq(at[N - 1], 2504.3650817871094, "%.17g", at[N - 1]);
}
