/* The exact schedule against brute force, its tie rules, and its speed. Times and slopes are small
 * integers or binary fractions, so that sums are exact and equality means equality. */
#define _POSIX_C_SOURCE 200809L
#include "random.h"
#include "schedule.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { MAX_N = 12 };

struct instance {
    uint32_t n, max_buckets;
    double ready[MAX_N];
    uint64_t bytes[MAX_N], cap;
    struct topology t;
};

static double cost(const struct topology *t, uint64_t bytes) {
    double best = INFINITY;
    for (uint32_t p = 0; p < t->n_pieces; p++)
        best = fmin(best, t->piece[p].alpha_us + t->piece[p].us_per_byte * (double)bytes);
    return best;
}

static double replay(const struct instance *x, uint32_t buckets, const uint32_t *boundary) {
    double now = 0;
    for (uint32_t b = 0; b < buckets; b++) {
        uint64_t bytes = 0;
        for (uint32_t i = boundary[b]; i < boundary[b + 1]; i++) {
            bytes += x->bytes[i];
            now = fmax(now, x->ready[i]);
        }
        now += cost(&x->t, bytes);
    }
    return now;
}

static bool allowed(const struct instance *x, uint32_t buckets, const uint32_t *boundary) {
    if (x->max_buckets && buckets > x->max_buckets) return false;
    for (uint32_t b = 0; x->cap && b < buckets; b++) {
        uint64_t bytes = 0;
        for (uint32_t i = boundary[b]; i < boundary[b + 1]; i++) bytes += x->bytes[i];
        if (bytes > x->cap && boundary[b + 1] > boundary[b] + 1) return false;
    }
    return true;
}

/* All 2^(n-1) bucketings: the least finish, then the fewest buckets, then the earliest boundaries.
 */
static uint32_t brute(const struct instance *x, uint32_t *boundary, double *finish) {
    uint32_t best = 0;
    *finish = INFINITY;
    for (uint32_t mask = 0; mask < 1u << (x->n - 1); mask++) {
        uint32_t cut[MAX_N + 1] = {0}, k = 0;
        for (uint32_t i = 1; i <= x->n; i++)
            if (i == x->n || mask >> (i - 1) & 1) cut[++k] = i;
        if (!allowed(x, k, cut)) continue;
        double us = replay(x, k, cut);
        if (us > *finish || (us == *finish && k > best)) continue;
        if (us == *finish && k == best) {
            uint32_t i = 0;
            while (i < k && cut[i] == boundary[i]) i++;
            if (cut[i] >= boundary[i]) continue;
        }
        *finish = us;
        best = k;
        memcpy(boundary, cut, sizeof cut);
    }
    return best;
}

static struct instance draw(uint64_t *seed, uint32_t pieces, bool capped, bool limited) {
    struct instance x = {.n = 1 + random_below(seed, 10), .t.n_pieces = pieces};
    uint32_t burst = random_below(seed, 3);
    double now = random_below(seed, 6);
    for (uint32_t i = 0; i < x.n; i++) {
        if (i) now += burst == 0 ? random_below(seed, 30) : burst == 1 ? random_below(seed, 4) : 0;
        if (burst == 2 && random_below(seed, 4) == 0) now += 20;
        x.ready[i] = now;
        x.bytes[i] = 1 + random_below(seed, random_below(seed, 2) ? 4 : 20);
    }
    for (uint32_t p = 0; p < pieces; p++) {
        x.t.piece[p].alpha_us = random_below(seed, 20 + 25 * p);
        x.t.piece[p].us_per_byte = (double)(1 + random_below(seed, 12)) / (double)(1u << 2 * p);
    }
    if (capped) x.cap = 3 + random_below(seed, 30);
    if (limited) x.max_buckets = 1 + random_below(seed, 4);
    return x;
}

static void compare(const struct instance *x, uint32_t trial) {
    uint32_t want[MAX_N + 1], got[MAX_N + 1];
    double want_us, got_us;
    uint32_t want_k = brute(x, want, &want_us);
    uint32_t k =
        schedule_exact(x->n, x->ready, x->bytes, &x->t, x->cap, x->max_buckets, got, &got_us);
    cr_assert_eq(k, want_k, "trial %u: %u buckets, brute force %u", trial, k, want_k);
    if (!k) return;
    cr_assert_eq(got_us, want_us, "trial %u: optimum %g, brute force %g", trial, got_us, want_us);
    cr_assert_eq(replay(x, k, got), want_us, "trial %u: the plan misses its optimum", trial);
    for (uint32_t i = 0; i <= k; i++)
        cr_assert_eq(got[i], want[i], "trial %u: boundary %u is %u, brute force %u", trial, i,
                     got[i], want[i]);
}

static void run(uint32_t pieces, bool capped, bool limited) {
    uint32_t trials = random_instances(1000);
    uint64_t seed = 1 + pieces + 8 * capped + 16 * limited;
    for (uint32_t trial = 0; trial < trials; trial++) {
        struct instance x = draw(&seed, pieces, capped, limited);
        compare(&x, trial);
    }
}

Test(schedule, affine) { run(1, false, false); }
Test(schedule, affine_cap) { run(1, true, false); }
Test(schedule, affine_max_buckets) { run(1, false, true); }
Test(schedule, two_pieces) { run(2, false, false); }
Test(schedule, two_pieces_cap) { run(2, true, false); }
Test(schedule, three_pieces) { run(3, false, false); }
Test(schedule, three_pieces_cap) { run(3, true, false); }
Test(schedule, two_pieces_max_buckets) { run(2, false, true); }
Test(schedule, affine_cap_max_buckets) { run(1, true, true); }
Test(schedule, three_pieces_cap_max_buckets) { run(3, true, true); }

/* Longer instances: the optimum, the fewest buckets and the earliest boundaries by plain
 * recurrences over all pairs. due[k][i]: the latest time at which i gradients may be done when k
 * buckets follow. */
enum { LONG = 60 };

static void compare_long(uint32_t n, const double *ready, const uint64_t *bytes,
                         const struct topology *t, uint64_t cap, uint32_t trial) {
    static double f[LONG + 1], due[LONG + 1][LONG + 1];
    double step[LONG + 1][LONG + 1];
    for (uint32_t j = 1; j <= n; j++) {
        uint64_t sum = 0;
        f[j] = INFINITY;
        for (uint32_t i = j; i-- > 0;) {
            sum += bytes[i];
            step[i][j] = cap && sum > cap && i + 1 < j ? INFINITY : cost(t, sum);
            f[j] = fmin(f[j], fmax(f[i], ready[j - 1]) + step[i][j]);
        }
    }
    uint32_t want = 0;
    for (uint32_t i = 0; i <= n; i++) due[0][i] = i == n ? f[n] : -1;
    for (uint32_t k = 1; !want; k++) {
        for (uint32_t i = 0; i <= n; i++) {
            due[k][i] = -1;
            for (uint32_t j = i + 1; j <= n; j++)
                if (due[k - 1][j] - step[i][j] >= ready[j - 1])
                    due[k][i] = fmax(due[k][i], due[k - 1][j] - step[i][j]);
        }
        if (due[k][0] >= 0) want = k;
    }
    uint32_t boundary[LONG + 1];
    double us;
    uint32_t k = schedule_exact(n, ready, bytes, t, cap, 0, boundary, &us);
    cr_assert_eq(us, f[n], "trial %u: optimum %g, recurrence %g", trial, us, f[n]);
    cr_assert_eq(k, want, "trial %u: %u buckets, recurrence %u", trial, k, want);
    double now = 0;
    for (uint32_t b = 1, at = 0; b <= k; b++) {
        uint32_t next = at + 1;
        while (!(fmax(now, ready[next - 1]) + step[at][next] <= due[k - b][next])) next++;
        now = fmax(now, ready[next - 1]) + step[at][next];
        at = next;
        cr_assert_eq(boundary[b], at, "trial %u: boundary %u is %u, recurrence %u", trial, b,
                     boundary[b], at);
    }
}

Test(schedule, longer_instances) {
    uint64_t seed = 77;
    for (uint32_t trial = 0; trial < random_instances(1000); trial++) {
        uint32_t n = 20 + random_below(&seed, LONG - 19), pace = 1 + random_below(&seed, 20);
        struct topology t = {.n_pieces = 1 + trial % 3};
        for (uint32_t p = 0; p < t.n_pieces; p++) {
            t.piece[p].alpha_us = random_below(&seed, 20 + 40 * p);
            t.piece[p].us_per_byte = (double)(4 + random_below(&seed, 4)) / (double)(4u << 2 * p);
        }
        double ready[LONG], now = 0;
        uint64_t bytes[LONG], cap = trial / 3 % 2 ? 20 + random_below(&seed, 60) : 0;
        for (uint32_t i = 0; i < n; i++) {
            now += random_below(&seed, pace);
            ready[i] = now;
            bytes[i] = 1 + random_below(&seed, random_below(&seed, 10) ? 8 : 120);
        }
        compare_long(n, ready, bytes, &t, cap, trial);
    }
}

/* The O(n^2) recurrence on long instances with the presets' numbers: equal but for rounding. */
static double quadratic(uint32_t n, const double *ready, const uint64_t *bytes,
                        const struct topology *t, uint64_t cap) {
    static double f[4001];
    for (uint32_t j = 1; j <= n; j++) {
        uint64_t sum = 0;
        f[j] = INFINITY;
        for (uint32_t i = j; i-- > 0;) {
            sum += bytes[i];
            if (cap && sum > cap && i + 1 < j) break;
            f[j] = fmin(f[j], fmax(f[i], ready[j - 1]) + cost(t, sum));
        }
    }
    return f[n];
}

static const struct topology h100x8 = {"h100x8", 8, 2, {{15, 1 / 85.5e3}, {25, 1 / 272e3}}};
static const struct topology ib = {
    "ib", 512, 3, {{75.2, 1 / 4.29e3}, {134.5, 1 / 143e3}, {275.8, 1 / 182e3}}};

/* Gradients as a training step has them: mean gap in µs, sizes from a few bytes to tens of MiB. */
static void fill(uint64_t *seed, uint32_t n, double gap, uint32_t kinds, double *ready,
                 uint64_t *bytes) {
    static const uint64_t sizes[] = {4096, 1 << 20, 64, 16 << 20, 262144};
    double now = 0;
    for (uint32_t i = 0; i < n; i++) {
        now += gap * (double)random_below(seed, 2001) / 1000;
        ready[i] = now;
        bytes[i] = sizes[random_below(seed, kinds)];
    }
}

Test(schedule, long_instances_match_the_quadratic_recurrence) {
    static double ready[4000];
    static uint64_t bytes[4000];
    static uint32_t boundary[4001];
    uint64_t seed = 7;
    for (uint32_t trial = 0; trial < 60; trial++) {
        struct topology t = trial % 2 ? h100x8 : ib;
        if (trial % 3 == 0) t.n_pieces = 1;
        uint32_t n = 1 + random_below(&seed, 1500);
        uint64_t cap = trial % 5 < 2 ? 25 << 20 : 0;
        fill(&seed, n, trial % 7 * 3.0, 1 + trial % 5, ready, bytes);
        double us, want = quadratic(n, ready, bytes, &t, cap);
        uint32_t k = schedule_exact(n, ready, bytes, &t, cap, 0, boundary, &us);
        cr_assert(fabs(us - want) <= 1e-12 * want, "trial %u: %.17g, recurrence %.17g", trial, us,
                  want);
        double now = 0;
        for (uint32_t b = 0; b < k; b++) {
            uint64_t sum = 0;
            for (uint32_t i = boundary[b]; i < boundary[b + 1]; i++) sum += bytes[i];
            now = fmax(now, ready[boundary[b + 1] - 1]) + cost(&t, sum);
        }
        cr_assert(now <= want * (1 + SCHEDULE_EQUAL), "trial %u: plan %.17g, optimum %.17g", trial,
                  now, want);
    }
}

/* --verbose prints what it takes. */
Test(schedule, hundred_thousand_gradients) {
    enum { N = 100000 };
    static double ready[N];
    static uint64_t bytes[N];
    static uint32_t boundary[N + 1];
    for (uint32_t kind = 0; kind < 12; kind++) {
        static const double gaps[] = {10, 4, 1, 60};
        uint64_t seed = 3;
        struct topology t = kind % 3 ? (kind % 3 == 1 ? h100x8 : ib) : h100x8;
        if (kind % 3 == 0) t.piece[0] = t.piece[1], t.n_pieces = 1;
        fill(&seed, N, gaps[kind / 3], kind / 3 == 1 ? 1 : kind / 3 == 2 ? 2 : 4, ready, bytes);
        struct timespec a, b;
        double us;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        uint32_t k = schedule_exact(N, ready, bytes, &t, 0, 0, boundary, &us);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6;
        cr_log_info("gap %g µs, %u pieces: %u buckets, finish %.1f µs, ready %.1f, in %.1f ms",
                    gaps[kind / 3], t.n_pieces, k, us, ready[N - 1], ms);
        double now = 0;
        for (uint32_t i = 0; i < k; i++) {
            uint64_t sum = 0;
            for (uint32_t j = boundary[i]; j < boundary[i + 1]; j++) sum += bytes[j];
            now = fmax(now, ready[boundary[i + 1] - 1]) + cost(&t, sum);
        }
        cr_assert(k >= 1 && boundary[k] == N);
        cr_assert(fabs(now - us) <= SCHEDULE_EQUAL * us, "plan %.17g, optimum %.17g", now, us);
    }
}
