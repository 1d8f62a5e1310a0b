/* Plans that lie. Every field of every record that tells of the schedule - step, bucket, segment,
 * certificate, cost piece, option - is changed in every way that is worth trying, the hashes made to
 * fit, and the plan must be refused: by its reader, or by the check of its claims, which says why.
 * Fields that carry no claim are listed, and must be listed: some change of theirs has to pass. */
#define _POSIX_C_SOURCE 200809L
#include "claims.h"
#include "pipeline.h"
#include "plan_forge.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum weight {
    CLAIM,   /* no change passes */
    PREMISE, /* claims follow from it: a change passes where they still do */
    FREE,    /* nothing in a plan says what it should be */
};

struct field {
    const char *name;
    enum plan_section_kind section;
    size_t at, size;
    bool real;
    enum weight weight;
    uint32_t passed, refused;
};

#define FIELD(kind, record, member, real, weight)                                                  \
    {                                                                                              \
#record "." #member, PLAN_SECTION_##kind, offsetof(struct record, member),                 \
            sizeof(((struct record *)NULL)->member), real, weight, 0, 0                            \
    }
static struct field fields[] = {
    FIELD(STEPS, plan_step, name, false, FREE),
    FIELD(STEPS, plan_step, policy, false, CLAIM),
    FIELD(STEPS, plan_step, order, false, CLAIM),
    FIELD(STEPS, plan_step, average, false, CLAIM),
    FIELD(STEPS, plan_step, guards, false, CLAIM),
    FIELD(STEPS, plan_step, topology, false, CLAIM),
    FIELD(STEPS, plan_step, first_bucket, false, CLAIM),
    FIELD(STEPS, plan_step, n_buckets, false, CLAIM),
    FIELD(STEPS, plan_step, first_segment, false, CLAIM),
    FIELD(STEPS, plan_step, n_segments, false, CLAIM),
    FIELD(STEPS, plan_step, n_conditional, false, CLAIM),
    FIELD(STEPS, plan_step, arena_bytes, false, CLAIM),
    FIELD(STEPS, plan_step, error_bucket, false, CLAIM),
    FIELD(STEPS, plan_step, zero, false, CLAIM),
    FIELD(STEPS, plan_step, error_offset, false, CLAIM),
    FIELD(STEPS, plan_step, backward_us, true, CLAIM),
    FIELD(STEPS, plan_step, finish_us, true, CLAIM),
    FIELD(STEPS, plan_step, lower_bound_us, true, CLAIM),
    FIELD(STEPS, plan_step, exposed_us, true, CLAIM),
    FIELD(STEPS, plan_step, worst_regret, true, CLAIM),
    FIELD(BUCKETS, plan_bucket, step, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, kind, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, dtype, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, class, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, zero, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, guard, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, first_segment, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, n_segments, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, zero2, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, offset, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, bytes, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, gradient_bytes, false, CLAIM),
    FIELD(BUCKETS, plan_bucket, ready_us, true, CLAIM),
    FIELD(BUCKETS, plan_bucket, start_us, true, CLAIM),
    FIELD(BUCKETS, plan_bucket, end_us, true, CLAIM),
    FIELD(SEGMENTS, plan_segment, param, false, CLAIM),
    FIELD(SEGMENTS, plan_segment, bucket, false, CLAIM),
    FIELD(SEGMENTS, plan_segment, offset, false, CLAIM),
    FIELD(SEGMENTS, plan_segment, bytes, false, CLAIM),
    FIELD(SEGMENTS, plan_segment, ready_us, true, PREMISE),
    FIELD(CERTIFICATE, plan_certificate, step, false, CLAIM),
    FIELD(CERTIFICATE, plan_certificate, optimal, false, CLAIM),
    FIELD(CERTIFICATE, plan_certificate, first_piece, false, CLAIM),
    FIELD(CERTIFICATE, plan_certificate, n_pieces, false, CLAIM),
    FIELD(CERTIFICATE, plan_certificate, cap_bytes, false, CLAIM),
    FIELD(CERTIFICATE, plan_certificate, max_buckets, false, CLAIM),
    FIELD(CERTIFICATE, plan_certificate, ranks, false, FREE),
    FIELD(CERTIFICATE, plan_certificate, optimum_us, true, CLAIM),
    FIELD(PIECES, plan_piece, alpha_us, true, PREMISE),
    FIELD(PIECES, plan_piece, us_per_byte, true, PREMISE),
    FIELD(OPTIONS, plan_option, key, false, CLAIM),
    FIELD(OPTIONS, plan_option, value, false, CLAIM),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };
/* Together they are all that the records have. */
#define LAST(record, member)                                                                       \
    (offsetof(struct record, member) + sizeof(((struct record *)NULL)->member))
_Static_assert(LAST(plan_step, worst_regret) == sizeof(struct plan_step), "a field more");
_Static_assert(LAST(plan_bucket, end_us) == sizeof(struct plan_bucket), "a field more");
_Static_assert(LAST(plan_segment, ready_us) == sizeof(struct plan_segment), "a field more");
_Static_assert(LAST(plan_certificate, optimum_us) == sizeof(struct plan_certificate),
               "a field more");
_Static_assert(LAST(plan_piece, us_per_byte) == sizeof(struct plan_piece), "a field more");
_Static_assert(LAST(plan_option, value) == sizeof(struct plan_option), "a field more");

/* ---- plans ----------------------------------------------------------------------------------- */

static char *write_list(uint32_t kind) {
    static char path[] = "/tmp/test_claims_XXXXXX";
    strcpy(path + sizeof path - 7, "XXXXXX");
    FILE *f = fdopen(mkstemp(path), "w");
    cr_assert(f);
    for (int i = 0; i < 24; i++)
        fprintf(f, "p%d %s %d %d%s\n", i, kind == 1 && i % 3 == 0 ? "bfloat16" : "float32",
                i % 5 ? 4000 * i + 1000 : 900000 * (i + 1), 700 - 29 * i,
                kind == 1 && i % 7 == 0 ? " flag" : "");
    fclose(f);
    return path;
}

static uint8_t *compile(struct options *o, uint32_t list, size_t *size) {
    struct compilation c;
    o->from_list = write_list(list);
    pipeline_init(&c, o);
    cr_assert(pipeline_run(&c, NULL, PIPELINE_emit));
    *size = c.plan->size;
    uint8_t *bytes = malloc(*size);
    memcpy(bytes, c.plan->bytes, *size);
    pipeline_free(&c);
    unlink(o->from_list);
    return bytes;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Fills `to` with the n-th change of a field; false after the last one. */
static bool change(const struct field *f, const uint8_t *from, uint32_t n, uint8_t *to) {
    memcpy(to, from, f->size);
    if (f->real) {
        double x;
        memcpy(&x, from, sizeof x);
        const double all[] = {x * 1.0001, x * .9999,        x + 1, x - 1, x + .001, 2 * x, 0, -1,
                              INFINITY,   x == -1 ? 0 : -x, NAN};
        if (n >= sizeof all / sizeof *all) return false;
        memcpy(to, &all[n], sizeof x);
        return true;
    }
    if (n < 8 * f->size) {
        to[n / 8] ^= (uint8_t)(1 << n % 8);
        return true;
    }
    uint64_t x = 0;
    memcpy(&x, from, f->size);
    const uint64_t all[] = {x + 1, x - 1, 0, UINT64_MAX, x + 2, x - 2};
    n -= 8 * (uint32_t)f->size;
    if (n >= sizeof all / sizeof *all) return false;
    memcpy(to, &all[n], f->size);
    return true;
}

static bool refused(uint8_t *bytes, size_t size, char why[240]) {
    struct plan_error error;
    struct plan *p = open_with_hashes(bytes, size, &error);
    snprintf(why, 240, "%s", p ? "" : error.message);
    if (!p) return true;
    bool refused = false;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        struct arena a = {0};
        struct claims c;
        claims_check(p, s, &a, &c);
        if (c.report.verdict == CERTIFICATE_REFUSED) {
            refused = true;
            snprintf(why, 240, "%s", c.report.what);
        }
        arena_free(&a);
    }
    plan_close(p);
    cr_assert(!refused || *why, "refused without a reason");
    return refused;
}

/* What a premise or an option weighs in this record of this plan. */
static enum weight weigh(const struct field *f, const struct plan *p, uint32_t record) {
    if (f->section == PLAN_SECTION_OPTIONS)
        return strcmp(plan_string(p, p->option[record].key), "device") ? CLAIM : FREE;
    if (f->weight != PREMISE) return f->weight;
    if (f->section == PLAN_SECTION_SEGMENTS) { /* the last of a bucket makes it ready */
        const struct plan_bucket *b = &p->bucket[p->segment[record].bucket];
        return record == b->first_segment + b->n_segments - 1 ? CLAIM : PREMISE;
    }
    for (uint32_t i = 0; i < p->n_buckets; i++) {
        if (p->bucket[i].kind != PLAN_GRADIENT) continue;
        double best = INFINITY, bytes = 0;
        uint32_t piece = 0, first = p->bucket[i].first_segment;
        for (uint32_t s = first; s < first + p->bucket[i].n_segments; s++)
            bytes += (double)plan_segment_bytes(p->segment[s].bytes);
        for (uint32_t k = 0; k < p->n_pieces; k++) {
            double us = p->piece[k].alpha_us + p->piece[k].us_per_byte * bytes;
            if (us < best) best = us, piece = k;
        }
        if (piece == record) return CLAIM;
    }
    return PREMISE;
}

static void mutate(const uint8_t *good, size_t size, const char *plan) {
    struct plan *p = plan_from_memory(good, size, NULL);
    uint8_t *bytes = malloc(size);
    char why[240];
    memcpy(bytes, good, size);
    cr_assert(!refused(bytes, size, why), "%s: the plan itself is refused: %s", plan, why);
    for (uint32_t k = 0; k < N_FIELDS; k++) {
        struct field *f = &fields[k];
        const struct plan_section *section = &sections_of(good)[f->section - 1];
        for (uint32_t record = 0; record < section->count; record++) {
            enum weight weight = weigh(f, p, record);
            size_t at = section->offset + record * (size_t)section->record_bytes + f->at;
            uint8_t to[8];
            for (uint32_t n = 0; change(f, good + at, n, to); n++) {
                if (!memcmp(to, good + at, f->size)) continue;
                memcpy(bytes, good, size);
                memcpy(bytes + at, to, f->size);
                bool ok = refused(bytes, size, why);
                f->refused += ok;
                f->passed += !ok;
                cr_expect(ok || weight != CLAIM, "%s: %s of record %u passes with change %u", plan,
                          f->name, record, n);
            }
        }
    }
    plan_close(p);
    free(bytes);
}

Test(claims, every_field_of_the_schedule_is_held_to_what_it_says, .timeout = 240) {
    static const struct {
        const char *name;
        uint32_t list;
        struct options o;
    } plans[] = {
        {"robust", 0, {.schedule = SCHEDULE_ROBUST}},
        {"exact", 0, {.schedule = SCHEDULE_EXACT}},
        {"exact with limits",
         0,
         {.schedule = SCHEDULE_EXACT, .bucket_cap_mib = 20, .max_buckets = 12}},
        {"robust with limits",
         0,
         {.schedule = SCHEDULE_ROBUST, .bucket_cap_mib = 20.5, .max_buckets = 12}},
        {"groups", 1, {.schedule = SCHEDULE_ROBUST}},
        {"reported", 1, {.schedule = SCHEDULE_ROBUST, .guards = GUARDS_REPORTED}},
        {"ddp", 0, {.schedule = SCHEDULE_DDP, .order = ORDER_REGISTRATION}},
        {"single", 1, {.schedule = SCHEDULE_SINGLE, .average = AVERAGE_NONE}},
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct options o = plans[i].o;
        size_t size;
        uint8_t *bytes = compile(&o, plans[i].list, &size);
        mutate(bytes, size, plans[i].name);
        free(bytes);
    }
    uint32_t changes = 0;
    for (uint32_t k = 0; k < N_FIELDS; k++) changes += fields[k].refused + fields[k].passed;
    cr_log_info("%u changes of %u fields", changes, (uint32_t)N_FIELDS);
    for (uint32_t k = 0; k < N_FIELDS; k++) {
        const struct field *f = &fields[k];
        cr_expect(f->refused > 0, "%s: no change of it is refused", f->name);
        cr_expect(f->weight == CLAIM || f->passed, "%s: no change of it passes", f->name);
    }
}
