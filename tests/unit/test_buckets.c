/* A step's buckets: two groups against brute force, late groups, guards, limits, lower bounds; and
 * the certificates of all of them. */
#include "random.h"
#include "step_fixture.h"
#include <criterion/criterion.h>
#include <math.h>

static double cost(const struct topology *t, uint64_t bytes) {
    double best = INFINITY;
    for (uint32_t p = 0; p < t->n_pieces; p++)
        best = fmin(best, t->piece[p].alpha_us + t->piece[p].us_per_byte * (double)bytes);
    return best;
}

/* Whatever the policy: times follow from the buckets, groups do not mix, nothing beats the bound.
 */
static void check_sched(const struct fixture *f) {
    const struct sched *s = &f->s;
    double now = 0;
    uint32_t next = 0;
    bool late = false;
    for (uint32_t b = 0; b < s->bucket.n; b++) {
        const struct sched_bucket *x = &s->bucket.at[b];
        uint64_t bytes = 0;
        double ready = 0;
        cr_assert_eq(x->first, next);
        cr_assert_geq(x->n, 1);
        for (uint32_t i = x->first; i < x->first + x->n; i++) {
            cr_assert_eq(s->item.at[i].group, x->group);
            cr_assert_eq(f->p.params.at[s->item.at[i].param].dtype, s->group.at[x->group].dtype);
            ready = fmax(ready, s->item.at[i].ready_us);
            bytes += s->item.at[i].bytes;
        }
        cr_assert(!late || s->group.at[x->group].late, "bucket %u follows a late one", b);
        late = s->group.at[x->group].late;
        cr_assert_eq(x->ready_us, ready);
        cr_assert_eq(x->start_us, fmax(ready, now));
        cr_assert_eq(x->end_us, x->start_us + cost(&f->t, bytes));
        now = x->end_us;
        next += x->n;
    }
    cr_assert_eq(next, f->ready.n, "%u of %u items are in buckets", next, f->ready.n);
    cr_assert_eq(s->finish_us, now);
    cr_assert_leq(s->lower_bound_us, s->finish_us * (1 + 1e-12));
}

static void check_certificate(const struct fixture *f, enum certificate_verdict want) {
    struct arena a = {0};
    struct fixture_certificate x = fixture_certify(f, &a);
    struct certificate_report report;
    certificate_check(&x.c, &report);
    cr_assert_eq(report.verdict, want, "verdict %d: %s", (int)report.verdict, report.what);
    if (x.c.n_buckets) {
        double finish = x.item[report.chain_item].ready_us;
        for (uint32_t b = report.chain_bucket; b < x.c.n_buckets; b++)
            finish += x.bucket[b].end_us - x.bucket[b].start_us;
        cr_assert(fabs(finish - x.c.finish_us) <= 1e-9 * finish, "the chain explains %g of %g",
                  finish, x.c.finish_us);
    }
    arena_free(&a);
}

/* ---- two groups ------------------------------------------------------------------------------ */

/* All bucketings of both groups; fixed buckets finish first in the order of their ready times. */
static double brute_two(const struct fixture *f, uint32_t n_a, uint32_t n_b) {
    const struct sched_item *item = f->s.item.at;
    struct lane {
        double ready[8];
        uint64_t bytes[8];
        uint32_t n;
    } lane[2] = {0};
    for (uint32_t i = 0; i < n_a + n_b; i++) {
        struct lane *l = &lane[item[i].group];
        l->ready[l->n] = item[i].ready_us;
        l->bytes[l->n++] = item[i].bytes;
    }
    double best = INFINITY;
    for (uint32_t mask = 0; mask < 1u << (n_a + n_b - 2); mask++) {
        double ready[16];
        uint64_t bytes[16];
        uint32_t k = 0;
        bool ok = true;
        for (uint32_t g = 0; g < 2; g++) {
            uint32_t cuts = g ? mask >> (n_a - 1) : mask, n = 0;
            for (uint32_t i = 0; i < lane[g].n; i++) {
                if (i == 0 || cuts >> (i - 1) & 1) bytes[k++] = n = 0;
                bytes[k - 1] += lane[g].bytes[i];
                ready[k - 1] = lane[g].ready[i];
                if (f->s.cap_bytes && bytes[k - 1] > f->s.cap_bytes && ++n && i &&
                    !(cuts >> (i - 1) & 1))
                    ok = false;
            }
        }
        if (!ok) continue;
        double now = 0;
        for (uint32_t done = 0; done < k; done++) {
            uint32_t next = 0;
            for (uint32_t b = 1; b < k; b++)
                if (ready[b] < ready[next]) next = b;
            now = fmax(now, ready[next]) + cost(&f->t, bytes[next]);
            ready[next] = INFINITY;
        }
        best = fmin(best, now);
    }
    return best;
}

Test(buckets, two_groups_match_brute_force) {
    uint64_t seed = 5;
    for (uint32_t trial = 0; trial < random_instances(1000); trial++) {
        struct fixture f;
        uint32_t n[2] = {1 + random_below(&seed, 5), 1 + random_below(&seed, 5)};
        fixture_init(&f, 16);
        f.t.n_pieces = 1 + trial % 3;
        for (uint32_t p = 0; p < f.t.n_pieces; p++) {
            f.t.piece[p].alpha_us = random_below(&seed, 30 + 40 * p);
            f.t.piece[p].us_per_byte = (double)(1 + random_below(&seed, 8)) / (16 << 2 * p);
        }
        double now[2] = {0, 0};
        for (uint32_t i = 0; i < n[0] + n[1]; i++) {
            uint32_t g = i >= n[0];
            now[g] += random_below(&seed, 20);
            fixture_add(&f, g ? IR_FLOAT16 : IR_FLOAT, 4 * (1 + random_below(&seed, 20)), now[g],
                        BDD_TRUE);
        }
        if (trial % 2) f.o.bucket_cap_mib = (64 + random_below(&seed, 300)) / 1048576.;
        cr_assert(fixture_run(&f));
        check_sched(&f);
        double want = brute_two(&f, n[0], n[1]);
        cr_assert(f.s.optimal);
        cr_assert_eq(f.s.finish_us, want, "trial %u: %g, brute force %g", trial, f.s.finish_us,
                     want);
        check_certificate(&f, CERTIFICATE_PROVED);
        fixture_free(&f);
    }
}

/* Two candidates for each last bucket, enough for one group, would give 40 here. */
Test(buckets, two_groups_need_a_full_minimum) {
    struct fixture f;
    fixture_init(&f, 4);
    f.t.piece[0].us_per_byte = 1 / 16.;
    fixture_add(&f, IR_FLOAT, 8, 0, BDD_TRUE);
    fixture_add(&f, IR_FLOAT, 4, 16, BDD_TRUE);
    fixture_add(&f, IR_FLOAT16, 48, 13, BDD_TRUE);
    cr_assert(fixture_run(&f));
    cr_assert_eq(f.s.finish_us, 38);
    fixture_free(&f);
}

/* ---- limits, late groups, guards ------------------------------------------------------------- */

static void draw(struct fixture *f, uint64_t *seed, uint32_t n, uint32_t dtypes, uint32_t guards) {
    static const enum ir_dtype dtype[] = {IR_FLOAT, IR_BFLOAT16, IR_DOUBLE, IR_FLOAT16};
    static const char *const names[] = {"a", "b", "c"};
    bdd guard[4] = {BDD_TRUE};
    fixture_init(f, n);
    f->t.n_pieces = 1 + random_below(seed, 3);
    for (uint32_t p = 0; p < f->t.n_pieces; p++)
        f->t.piece[p] = (struct cost_piece){20 + 30 * p, 1 / (double)(4u << 2 * p)};
    for (uint32_t g = 0; g < guards; g++) guard[g + 1] = fixture_branch(f, names[g], g > 0);
    double now = 0;
    for (uint32_t i = 0; i < n; i++) {
        now += random_below(seed, 40);
        fixture_add(f, dtype[random_below(seed, dtypes)], 1 + random_below(seed, 100), now,
                    guard[random_below(seed, guards + 1)]);
    }
}

Test(buckets, every_policy_is_sound) {
    uint64_t seed = 11;
    for (uint32_t trial = 0; trial < 2000; trial++) {
        struct fixture f;
        uint32_t dtypes = 1 + trial % 4, guards = trial / 4 % 4;
        draw(&f, &seed, random_below(&seed, 25), dtypes, guards);
        f.o.guards = trial / 16 % 2 ? GUARDS_REPORTED : GUARDS_DISCOVERED;
        f.o.schedule = (enum schedule_policy)(trial / 32 % 4);
        f.o.order = (enum ddp_order)(trial / 128 % 3);
        if (trial % 5 == 0) f.o.bucket_cap_mib = 500 / 1048576.;
        cr_assert(fixture_run(&f));
        check_sched(&f);
        check_certificate(&f, f.s.optimal ? CERTIFICATE_PROVED : CERTIFICATE_REPLAYED);
        if (f.o.schedule == SCHEDULE_SINGLE) cr_assert_eq(f.s.bucket.n, f.s.group.n);
        bool groups_are_few = dtypes <= 2 && (guards == 0 || f.o.guards == GUARDS_DISCOVERED);
        bool best = f.o.schedule == SCHEDULE_EXACT || f.o.schedule == SCHEDULE_ROBUST;
        if (best && groups_are_few) cr_assert(f.s.optimal);
        fixture_free(&f);
    }
}

Test(buckets, max_buckets_is_kept) {
    uint64_t seed = 12;
    for (uint32_t trial = 0; trial < 500; trial++) {
        struct fixture f;
        draw(&f, &seed, 1 + random_below(&seed, 20), 1 + trial % 3, trial % 2);
        f.o.max_buckets = 1 + trial % 4;
        cr_assert(fixture_run(&f));
        check_sched(&f);
        check_certificate(&f, f.s.optimal ? CERTIFICATE_PROVED : CERTIFICATE_REPLAYED);
        uint32_t count[16] = {0};
        for (uint32_t b = 0; b < f.s.bucket.n; b++)
            cr_assert_leq(++count[f.s.bucket.at[b].group], f.o.max_buckets);
        fixture_free(&f);
    }
}

Test(buckets, impossible_limits_are_reported) {
    struct fixture f;
    fixture_init(&f, 4);
    for (uint32_t i = 0; i < 4; i++) fixture_add(&f, IR_FLOAT, 100, i, BDD_TRUE);
    f.o.max_buckets = 2;
    f.o.bucket_cap_mib = 500 / 1048576.;
    cr_assert(!fixture_run(&f));
    cr_assert_eq(f.d.errors, 1);
    cr_assert_eq(f.d.all.at[0]->code, DIAG_MAX_BUCKETS);
    fixture_free(&f);
}

/* Guards of uniform branches alone have groups of their own, all others of a dtype share one. */
Test(buckets, uniform_guards_split) {
    struct fixture f;
    fixture_init(&f, 8);
    bdd turn = fixture_branch(&f, "turn", true), mask = fixture_branch(&f, "mask", false);
    fixture_add(&f, IR_FLOAT, 4, 1, turn);
    fixture_add(&f, IR_FLOAT, 4, 2, bdd_not(f.b.bdd, turn));
    fixture_add(&f, IR_FLOAT, 4, 3, mask);
    fixture_add(&f, IR_FLOAT, 4, 4, bdd_and(f.b.bdd, turn, mask));
    fixture_add(&f, IR_FLOAT, 4, 5, turn);
    fixture_add(&f, IR_FLOAT, 4, 6, BDD_TRUE);
    cr_assert(fixture_run(&f));
    check_sched(&f);
    cr_assert_eq(f.s.group.n, 4);
    cr_assert(!f.s.group.at[0].conditional && !f.s.group.at[0].late);
    for (uint32_t g = 1; g < 4; g++) cr_assert(f.s.group.at[g].conditional && f.s.group.at[g].late);
    uint32_t shared = f.s.item.at[1].group;
    cr_assert_eq(f.s.group.at[shared].guard, BDD_TRUE);
    for (uint32_t i = 0; i < 6; i++) {
        bdd may = f.r.gradient[f.s.item.at[i].param].may;
        bdd want = may == turn || may == bdd_not(f.b.bdd, turn) ? may : BDD_TRUE;
        cr_assert_eq(f.s.group.at[f.s.item.at[i].group].guard, want);
    }
    f.o.guards = GUARDS_REPORTED;
    cr_assert(fixture_run(&f));
    for (uint32_t g = 0; g < 4; g++) cr_assert(!f.s.group.at[g].late);
    fixture_free(&f);
}

/* Padding to 16 bytes is what costs count; nothing scheduled is a schedule too. */
Test(buckets, padding_and_nothing) {
    struct fixture f;
    fixture_init(&f, 2);
    cr_assert(fixture_run(&f));
    cr_assert_eq(f.s.bucket.n, 0);
    cr_assert(f.s.optimal);
    check_certificate(&f, CERTIFICATE_PROVED);
    fixture_add(&f, IR_FLOAT, 5, 3, BDD_TRUE);
    cr_assert(fixture_run(&f));
    cr_assert_eq(f.s.item.at[0].bytes, 32);
    cr_assert_eq(f.s.finish_us, 3 + 9 + 32);
    fixture_free(&f);
    fixture_init(&f, 2); /* a gradient without elements takes a place all the same */
    fixture_add(&f, IR_FLOAT, 0, 3, BDD_TRUE);
    fixture_add(&f, IR_FLOAT, 1, 3, BDD_TRUE);
    cr_assert(fixture_run(&f));
    cr_assert_eq(f.s.finish_us, 3 + 9 + 32);
    fixture_free(&f);
}
