/* The certificate's check: it accepts what the scheduler makes (here and in test_buckets.c),
 * refuses a plan in which any one claim was changed, and its two ways to the optimum agree. */
#include "random.h"
#include "step_fixture.h"
#include <criterion/criterion.h>
#include <math.h>

static void fill(struct fixture *f, uint64_t *seed, uint32_t n, uint32_t guards) {
    fixture_init(f, n);
    f->t = (struct topology){"two", 2, 2, {{15, .01}, {25, .004}}};
    bdd guard[2] = {BDD_TRUE, guards ? fixture_branch(f, "g", false) : BDD_TRUE};
    double now = 0;
    for (uint32_t i = 0; i < n; i++) {
        now += 1 + random_below(seed, 10);
        fixture_add(f, IR_FLOAT, 1 + random_below(seed, 1000), now, guard[i % 3 == 2]);
    }
}

static enum certificate_verdict verdict(const struct fixture_certificate *x) {
    struct certificate_report report;
    certificate_check(&x->c, &report);
    cr_assert_neq(report.what[0], 0, "no words");
    return report.verdict;
}

/* Each change makes the certificate a lie. */
enum { N_CHANGES = 21 };
static bool change(struct fixture_certificate *x, uint32_t what, uint32_t b) {
    struct certificate_bucket *bucket = &x->bucket[b];
    struct certificate_item *item = &x->item[bucket->first];
    switch (what) {
    case 0: item[bucket->n - 1].ready_us += 3; break; /* the last of a bucket makes it ready */
    case 1: item->bytes += 160; break;
    case 2: bucket->ready_us += .1; break;
    case 3: bucket->start_us -= .1; break;
    case 4: bucket->end_us += .1; break;
    case 5: bucket->first++; break;
    case 6: bucket->n--; break;
    case 7: bucket->n++; break;
    case 8: bucket->group = x->c.n_groups; break;
    case 9: x->c.finish_us *= .999; break;
    case 10: x->c.optimum_us *= .999; break;
    case 11: x->c.optimum_us *= 1.001; break;
    case 12: x->c.lower_bound_us *= .99; break;
    case 13: x->c.lower_bound_us = NAN; break;
    case 14: x->piece[1].alpha_us *= 1.01; break;
    case 15: x->piece[1].us_per_byte = -1; break;
    case 16: x->c.n_pieces = 0; break;
    case 17: x->c.n_buckets--; break;
    case 18: x->c.max_buckets = 1; break;
    case 19: x->c.cap_bytes = 16; break;
    case 20: item->bytes = UINT64_MAX; break;
    }
    return true;
}

Test(certificate, refuses_every_change) {
    uint64_t seed = 21;
    for (uint32_t trial = 0; trial < 40; trial++) {
        struct fixture f;
        fill(&f, &seed, 20 + random_below(&seed, 60), trial % 2);
        cr_assert(fixture_run(&f));
        cr_assert(f.s.bucket.n >= 2 && f.s.optimal);
        for (uint32_t what = 0; what < N_CHANGES; what++) {
            struct arena a = {0};
            struct fixture_certificate x = fixture_certify(&f, &a);
            cr_assert_eq(verdict(&x), CERTIFICATE_PROVED);
            /* A bucket of several gradients, so that limits and ranges can be broken. */
            uint32_t b = 0;
            for (uint32_t k = 0; k < f.s.bucket.n; k++)
                if (f.s.bucket.at[k].n > f.s.bucket.at[b].n) b = k;
            change(&x, what, b);
            cr_assert_eq(verdict(&x), CERTIFICATE_REFUSED, "change %u passed", what);
            arena_free(&a);
        }
        fixture_free(&f);
    }
}

/* A plan that is consistent in itself but not the best: moved boundaries, times redone. */
Test(certificate, refuses_a_slower_plan) {
    uint64_t seed = 22;
    uint32_t slower = 0;
    for (uint32_t trial = 0; trial < 200; trial++) {
        struct fixture f;
        fill(&f, &seed, 20, 0);
        cr_assert(fixture_run(&f));
        struct arena a = {0};
        struct fixture_certificate x = fixture_certify(&f, &a);
        uint32_t last = x.c.n_buckets - 1, moved = x.bucket[last - 1].n / 2;
        if (last && moved) {
            x.bucket[last - 1].n -= moved;
            x.bucket[last].first -= moved;
            x.bucket[last].n += moved;
            double now = 0;
            for (uint32_t b = 0; b <= last; b++) {
                struct certificate_bucket *k = &x.bucket[b];
                uint64_t bytes = 0;
                for (uint32_t i = k->first; i < k->first + k->n; i++) bytes += x.item[i].bytes;
                k->ready_us = x.item[k->first + k->n - 1].ready_us;
                k->start_us = fmax(k->ready_us, now);
                now = k->end_us = k->start_us + topology_cost_us(&f.t, bytes);
            }
            x.c.finish_us = now;
            if (now > f.s.finish_us * (1 + 1e-6)) {
                slower++;
                cr_assert_eq(verdict(&x), CERTIFICATE_REFUSED);
                x.c.optimum_us = now; /* claiming that this is the optimum does not help */
                cr_assert_eq(verdict(&x), CERTIFICATE_REFUSED);
                x.c.optimal = false; /* claiming nothing does */
                cr_assert_eq(verdict(&x), CERTIFICATE_REFUSED);
                x.c.optimum_us = 0;
                cr_assert_eq(verdict(&x), CERTIFICATE_REPLAYED);
            }
        }
        arena_free(&a);
        fixture_free(&f);
    }
    cr_assert_gt(slower, 50);
}

/* Beyond a few thousand gradients the optimum comes from range minima. */
Test(certificate, large_plans_are_proved) {
    uint64_t seed = 23;
    for (uint32_t trial = 0; trial < 6; trial++) {
        struct fixture f;
        fill(&f, &seed, 4000, 0);
        if (trial % 3 == 1) f.o.bucket_cap_mib = .01;
        if (trial % 3 == 2) f.o.max_buckets = 3;
        if (trial >= 3) f.t.piece[1] = (struct cost_piece){40, .00005};
        cr_assert(fixture_run(&f));
        struct arena a = {0};
        struct fixture_certificate x = fixture_certify(&f, &a);
        cr_assert_eq(verdict(&x), CERTIFICATE_PROVED);
        x.c.optimum_us *= 1.00001;
        cr_assert_eq(verdict(&x), CERTIFICATE_REFUSED);
        arena_free(&a);
        fixture_free(&f);
    }
}

/* Whatever the numbers are, the check comes to an end. */
Test(certificate, nonsense_is_safe) {
    uint64_t seed = 24;
    for (uint32_t trial = 0; trial < 5000; trial++) {
        struct fixture f;
        fill(&f, &seed, 1 + random_below(&seed, 20), trial % 2);
        cr_assert(fixture_run(&f));
        struct arena a = {0};
        struct fixture_certificate x = fixture_certify(&f, &a);
        for (uint32_t k = 1 + random_below(&seed, 4); k-- > 0;) {
            struct certificate_bucket *bucket = &x.bucket[random_below(&seed, f.s.bucket.n)];
            struct certificate_item *item = &x.item[random_below(&seed, f.s.item.n)];
            static const double odd[] = {-1, 0, 1e300, 1e308, INFINITY, -INFINITY, NAN, 1e-320};
            double d = odd[random_below(&seed, 8)];
            uint32_t u = random_below(&seed, 2) ? random_below(&seed, 30) : UINT32_MAX;
            switch (random_below(&seed, 14)) {
            case 0: item->ready_us = d; break;
            case 1: item->bytes = random_next(&seed); break;
            case 2: bucket->first = u; break;
            case 3: bucket->n = u; break;
            case 4: bucket->group = u; break;
            case 5: bucket->ready_us = d; break;
            case 6: bucket->start_us = d; break;
            case 7: bucket->end_us = d; break;
            case 8: x.piece[0].alpha_us = d; break;
            case 9: x.piece[1].us_per_byte = d; break;
            case 10: x.c.optimum_us = d; break;
            case 11: x.c.finish_us = d; break;
            case 12: x.c.max_buckets = u; break;
            case 13: x.c.cap_bytes = u; break;
            }
        }
        verdict(&x);
        arena_free(&a);
        fixture_free(&f);
    }
}
