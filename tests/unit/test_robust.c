/* The robust schedule: it keeps within its slack and the limits, is never more brittle than the
 * exact one, and its promise holds for draws that it has not seen. */
#include "pipeline.h"
#include "random.h"
#include "step_fixture.h"
#include <criterion/criterion.h>
#include <math.h>

static void draw(struct fixture *f, uint64_t *seed, uint32_t n, uint32_t dtypes, bool conditional) {
    static const enum ir_dtype dtype[] = {IR_FLOAT, IR_BFLOAT16, IR_FLOAT16};
    fixture_init(f, n);
    f->t = (struct topology){
        "ib", 512, 3, {{75.2, 1 / 4.29e3}, {134.5, 1 / 143e3}, {275.8, 1 / 182e3}}};
    f->t.n_pieces = 1 + random_below(seed, 3);
    bdd guard = conditional ? fixture_branch(f, "g", false) : BDD_TRUE;
    double now = 0;
    uint32_t pace = 10 + random_below(seed, 400);
    for (uint32_t i = 0; i < n; i++) {
        now += random_below(seed, pace);
        fixture_add(f, dtype[random_below(seed, dtypes)],
                    1 + (int64_t)random_below(seed, random_below(seed, 4) ? 1 << 22 : 1 << 12), now,
                    random_below(seed, 5) ? BDD_TRUE : guard);
    }
}

Test(robust, keeps_its_slack_and_is_less_brittle_than_the_exact_schedule) {
    uint64_t seed = 31;
    uint32_t better = 0;
    for (uint32_t trial = 0; trial < 300; trial++) {
        struct fixture f;
        draw(&f, &seed, 1 + random_below(&seed, 120), 1 + trial % 3, trial / 3 % 2);
        if (trial / 6 % 3 == 1) f.o.bucket_cap_mib = 20;
        if (trial / 6 % 3 == 2) f.o.max_buckets = 12;
        if (trial / 18 % 2) f.o.guards = GUARDS_REPORTED;
        cr_assert(fixture_run(&f));
        double exact_us = f.s.finish_us, lost = 0;
        cr_assert_eq(f.s.worst_regret, -1);
        lost = sched_worst_regret(&f.s, &f.t, ROBUST_SEED, 12);
        f.o.schedule = SCHEDULE_ROBUST;
        cr_assert(fixture_run(&f));
        cr_assert_leq(f.s.finish_us, exact_us * (1 + ROBUST_SLACK));
        if (f.s.optimal) cr_assert_leq(fabs(f.s.optimum_us - exact_us), 1e-9 * exact_us);
        /* What it says of itself is what it is, and the exact schedule was a candidate. */
        double regret = sched_worst_regret(&f.s, &f.t, ROBUST_SEED, 12);
        cr_assert_leq(fabs(regret - f.s.worst_regret), 1e-12, "trial %u: %g, %g", trial, regret,
                      f.s.worst_regret);
        cr_assert_leq(regret, lost + .001 + 1e-12);
        better += regret < lost - .001;
        uint32_t count[16] = {0};
        for (uint32_t b = 0; b < f.s.bucket.n; b++) {
            const struct sched_bucket *x = &f.s.bucket.at[b];
            uint64_t bytes = 0;
            for (uint32_t i = 0; i < x->n; i++) bytes += f.s.item.at[x->first + i].bytes;
            cr_assert(!f.o.max_buckets || ++count[x->group] <= 12);
            cr_assert(!f.s.cap_bytes || bytes <= 20 << 20 || x->n == 1);
        }
        struct arena a = {0};
        struct fixture_certificate x = fixture_certify(&f, &a);
        struct certificate_report report;
        certificate_check(&x.c, &report);
        cr_assert_eq(report.verdict, f.s.optimal ? CERTIFICATE_PROVED : CERTIFICATE_REPLAYED, "%s",
                     report.what);
        x.c.worst_regret += 1e-6;
        certificate_check(&x.c, &report);
        cr_assert_eq(report.verdict, CERTIFICATE_REFUSED);
        arena_free(&a);
        fixture_free(&f);
    }
    cr_assert_gt(better, 100, "%u", better);
}

/* The samples on both clusters, in draws of another seed. */
Test(robust, holds_where_predictions_are_off) {
    static const char *const models[] = {"resnet50", "bert", "gpt2"};
    static const char *const topologies[] = {"h100x8", "h100x8-ib400-x64"};
    for (uint32_t i = 0; i < 6; i++) {
        struct options o = {.topology = topologies[i % 2]};
        char path[512];
        snprintf(path, sizeof path, TESTS_FOLDER "/../samples/%s.ir", models[i / 2]);
        struct compilation c;
        pipeline_init(&c, &o);
        cr_assert(pipeline_run(&c, path, PIPELINE_schedule));
        cr_assert(c.sched->optimal);
        cr_assert_leq(c.sched->finish_us, c.sched->optimum_us * 1.01);
        double unseen = sched_worst_regret(c.sched, &c.topology, 2, 20);
        cr_assert_leq(unseen, .03, "%s on %s: %g", models[i / 2], topologies[i % 2], unseen);
        pipeline_free(&c);
    }
}
