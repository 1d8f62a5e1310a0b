/* The other systems' buckets: small cases by hand, and the same rules as another implementation has
 * them (tests/data/rivals.txt). */
#include "rivals.h"
#include "schedule.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MAX_N = 16 };
#define MIB ((uint64_t)1 << 20)

static const struct topology ten_plus_bytes = {"test", 8, 1, {{10, 1}}};

static void expect(uint32_t k, const uint32_t *got, uint32_t want_k, const uint32_t *want,
                   const char *rule) {
    cr_assert_eq(k, want_k, "%s: %u buckets, not %u", rule, k, want_k);
    for (uint32_t b = 0; b <= k; b++)
        cr_expect_eq(got[b], want[b], "%s: boundary %u is %u, not %u", rule, b, got[b], want[b]);
}

Test(rivals, wfbp_and_single) {
    uint32_t cut[4];
    expect(rival_wfbp(3, cut), cut, 3, (uint32_t[]){0, 1, 2, 3}, "wfbp");
    expect(rival_single(3, cut), cut, 1, (uint32_t[]){0, 3}, "single");
    cr_expect_eq(rival_wfbp(0, cut), 0);
    cr_expect_eq(rival_single(0, cut), 0);
}

/* Gradient 1 comes 3 µs after the first could start: less than a latency, so it waits. Gradient 2
 * comes 10 after that, which is no gain. Gradient 3 is there when the channel is free at last. */
Test(rivals, mgwfbp_merges_within_a_latency) {
    const double ready[] = {0, 3, 13, 20};
    const uint64_t bytes[] = {5, 5, 5, 5};
    uint32_t cut[5];
    expect(rival_mgwfbp(4, ready, bytes, &ten_plus_bytes, cut), cut, 2, (uint32_t[]){0, 2, 4},
           "mgwfbp");
    cr_expect_eq(rival_mgwfbp(0, ready, bytes, &ten_plus_bytes, cut), 0);
}

/* The piece for large messages is the one that it knows. */
Test(rivals, mgwfbp_takes_the_fastest_piece) {
    const struct topology t = {"test", 8, 2, {{1, 1}, {100, 0.001}}};
    const double ready[] = {0, 60};
    const uint64_t bytes[] = {50, 50};
    uint32_t cut[3];
    expect(rival_mgwfbp(2, ready, bytes, &t, cut), cut, 1, (uint32_t[]){0, 2}, "mgwfbp");
}

Test(rivals, xla_closes_before) {
    const uint64_t bytes[] = {20 * MIB, 10 * MIB, 7, 1, 40 * MIB, 1};
    const uint64_t ready_made[] = {20 * MIB, 10 * MIB + 7, 1};
    uint32_t cut[7];
    expect(rival_xla(6, bytes, cut), cut, 4, (uint32_t[]){0, 3, 4, 5, 6}, "xla");
    expect(rival_xla(3, ready_made, cut), cut, 2, (uint32_t[]){0, 2, 3}, "xla");
    cr_expect_eq(rival_xla(0, bytes, cut), 0);
}

Test(rivals, megatron_closes_after) {
    const uint64_t bytes[] = {100000000, 59999999, 1, 80000000, 1};
    uint32_t cut[6];
    expect(rival_megatron(5, bytes, 4, 8, cut), cut, 2, (uint32_t[]){0, 3, 5}, "megatron");
    expect(rival_megatron(5, bytes, 2, 40, cut), cut, 3, (uint32_t[]){0, 1, 4, 5}, "megatron");
    expect(rival_megatron(5, bytes, 4, 60, cut), cut, 2, (uint32_t[]){0, 4, 5}, "megatron");
}

/* 0.1 ms to 1 ms wait for the first cycle; the second begins late, when the channel is free; more
 * than 128 MiB are two buckets of one cycle. */
Test(rivals, horovod_waits_for_its_cycle) {
    const struct topology t = {"test", 8, 1, {{1500, 1e-9}}};
    const double ready[] = {100, 1000, 1001, 2400, 2600, 6000, 6000};
    const uint64_t bytes[] = {1, 1, 1, 1, 1, 128 * MIB, 1};
    uint32_t cut[8];
    double release[7];
    uint32_t k = rival_horovod(7, ready, bytes, &t, cut, release);
    expect(k, cut, 5, (uint32_t[]){0, 2, 4, 5, 6, 7}, "horovod");
    cr_expect_eq(release[0], 1000);
    cr_expect(release[1] > 2500 && release[1] < 2500.001);
    cr_expect(release[2] > 4000 && release[2] < 4000.001);
    cr_expect_eq(release[3], 6000);
    cr_expect_eq(release[4], 6000);
}

/* A moment that no multiple of the cycle hits exactly still ends. */
Test(rivals, horovod_at_odd_times) {
    double ready[1000];
    uint64_t bytes[1000];
    uint32_t cut[1001];
    double release[1000];
    for (uint32_t i = 0; i < 1000; i++) {
        ready[i] = 1e15 + 333.3333 * i;
        bytes[i] = 1;
    }
    uint32_t k = rival_horovod(1000, ready, bytes, &ten_plus_bytes, cut, release);
    cr_assert(k > 100 && cut[k] == 1000);
    for (uint32_t b = 0; b < k; b++) cr_expect(release[b] >= ready[cut[b + 1] - 1]);
}

Test(rivals, horovod_beyond_any_cycle) {
    const double ready[] = {1e30, 1e300};
    const uint64_t bytes[] = {1, 1};
    uint32_t cut[3];
    double release[2];
    expect(rival_horovod(2, ready, bytes, &ten_plus_bytes, cut, release), cut, 2,
           (uint32_t[]){0, 1, 2}, "horovod");
}

/* ---- the other implementation ---------------------------------------------------------------- */

static uint32_t numbers(FILE *file, const char *word, double *out) {
    char line[1024], at[32];
    cr_assert(fgets(line, sizeof line, file));
    int used = 0;
    cr_assert(sscanf(line, "%31s%n", at, &used) == 1 && !strcmp(at, word), "%s", line);
    uint32_t n = 0;
    for (char *s = line + used; n < MAX_N; s += used, n++)
        if (sscanf(s, "%lf%n", &out[n], &used) != 1) break;
    return n;
}

static void compare(FILE *file, const char *rule, uint32_t k, const uint32_t *cut, uint32_t trial) {
    double want[MAX_N];
    uint32_t want_k = numbers(file, rule, want);
    cr_assert_eq(k, want_k, "instance %u, %s: %u buckets, not %u", trial, rule, k, want_k);
    for (uint32_t b = 0; b < k; b++)
        cr_expect_eq(cut[b + 1], (uint32_t)want[b], "instance %u, %s: bucket %u ends at %u", trial,
                     rule, b, cut[b + 1]);
}

Test(rivals, as_others_compute_them) {
    FILE *file = fopen(TESTS_FOLDER "/data/rivals.txt", "r");
    cr_assert(file);
    char line[256];
    uint32_t trials = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned n;
        double alpha, gb_s, ready[MAX_N], number[MAX_N], release[MAX_N], finish;
        if (sscanf(line, "instance %u %lf %lf", &n, &alpha, &gb_s) != 3) continue;
        struct topology t = {"test", 64, 1, {{alpha, 1 / (1000.0 * gb_s)}}};
        uint64_t bytes[MAX_N];
        uint32_t cut[MAX_N + 1];
        cr_assert_eq(numbers(file, "ready", ready), n);
        cr_assert_eq(numbers(file, "bytes", number), n);
        for (uint32_t i = 0; i < n; i++) bytes[i] = (uint64_t)number[i];
        compare(file, "mgwfbp", rival_mgwfbp(n, ready, bytes, &t, cut), cut, trials);
        compare(file, "xla", rival_xla(n, bytes, cut), cut, trials);
        compare(file, "megatron64", rival_megatron(n, bytes, 4, 64, cut), cut, trials);
        uint32_t k = rival_horovod(n, ready, bytes, &t, cut, release);
        compare(file, "horovod", k, cut, trials);
        double now = 0;
        for (uint32_t b = 0; b < k; b++) {
            uint64_t size = 0;
            for (uint32_t i = cut[b]; i < cut[b + 1]; i++) size += bytes[i];
            now = (now > release[b] ? now : release[b]) + topology_cost_us(&t, size);
        }
        cr_assert_eq(numbers(file, "horovod_finish", &finish), 1);
        cr_expect_float_eq(now, finish, finish * 1e-12, "instance %u", trials);
        trials++;
    }
    fclose(file);
    cr_assert_eq(trials, 40);
}
