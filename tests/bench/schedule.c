/* How long 100,000 gradients of one group take: the exact schedule, the robust one, and the check
 * of their certificates, in milliseconds of processor time (the least of three runs), for
 * gradients that arrive slower and faster than the channel carries them, and about as fast, on
 * one, two and three cost pieces. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "random.h"
#include "step_fixture.h"
#include <stdio.h>
#include <time.h>

enum { N = 100000, RUNS = 3 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

struct times {
    double schedule_ms, verify_ms;
    uint32_t buckets;
    enum certificate_verdict verdict;
};

static struct times measure(struct fixture *f, enum schedule_policy policy) {
    struct times t = {1e9, 1e9, 0, CERTIFICATE_REFUSED};
    f->o.schedule = policy;
    for (int run = 0; run < RUNS; run++) {
        double start = now_ms();
        fixture_run(f);
        double end = now_ms();
        if (end - start < t.schedule_ms) t.schedule_ms = end - start;
        struct arena a = {0};
        struct fixture_certificate x = fixture_certify(f, &a);
        struct certificate_report report;
        start = now_ms();
        certificate_check(&x.c, &report);
        end = now_ms();
        if (end - start < t.verify_ms) t.verify_ms = end - start;
        t.buckets = f->s.bucket.n;
        t.verdict = report.verdict;
        arena_free(&a);
    }
    return t;
}

int main(void) {
    static const struct {
        double gap_us;   /* the mean */
        uint32_t floats; /* sizes of 1 to so many blocks of 256 */
        const char *words;
    } arrivals[] = {{60, 4096, "slower"},
                    {7.74, 4096, "as fast as 8 GPUs carry them"},
                    {11.6, 4096, "as fast as 64 nodes carry them"},
                    {2, 4096, "faster"},
                    {4, 1, "small ones"}};
    static const struct topology topologies[] = {
        {"one", 8, 1, {{25, 1 / 272e3}}},
        {"two", 8, 2, {{15, 1 / 85.5e3}, {25, 1 / 272e3}}},
        {"three", 512, 3, {{75.2, 1 / 4.29e3}, {134.5, 1 / 143e3}, {275.8, 1 / 182e3}}}};
    bool ok = true;
    printf(
        "%d gradients, ms:             pieces  exact  verify  buckets    robust  verify  buckets\n",
        N);
    for (size_t k = 0; k < sizeof arrivals / sizeof *arrivals; k++)
        for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
            struct fixture f;
            uint64_t seed = 3;
            double now = 0;
            fixture_init(&f, N);
            f.t = topologies[i];
            for (uint32_t p = 0; p < N; p++) {
                now += arrivals[k].gap_us * (double)random_below(&seed, 2001) / 1000;
                fixture_add(&f, IR_FLOAT, 256 * (1 + random_below(&seed, arrivals[k].floats)), now,
                            BDD_TRUE);
            }
            struct times e = measure(&f, SCHEDULE_EXACT), r = measure(&f, SCHEDULE_ROBUST);
            printf("  %-32s %-6s %6.1f %7.1f %8u %9.1f %7.1f %8u\n", i ? "" : arrivals[k].words,
                   f.t.name, e.schedule_ms, e.verify_ms, e.buckets, r.schedule_ms, r.verify_ms,
                   r.buckets);
            fflush(stdout);
            ok = ok && e.verdict == CERTIFICATE_PROVED && r.verdict == CERTIFICATE_PROVED;
            fixture_free(&f);
        }
    if (!ok) puts("a certificate was not proved");
    return !ok;
}
