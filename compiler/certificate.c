/* The check of a schedule's certificate, by methods of its own.
 *
 * First the plan is replayed: every bucket starts when its last gradient is ready and the channel
 * is free, and its times, the finish and the limits must be what the plan says. Then the lower
 * bound is computed anew: after r the channel still has to carry all that becomes ready at r or
 * later, and a group's bytes cost no less than one bucket of them. Where an optimum is claimed,
 * certificate_optimum.c computes it by other means than the scheduler, and the plan must be as near
 * to it as its policy promises; where a worst regret is claimed, certificate_regret.c computes that
 * from the description of the box. So a plan can be proved without trusting the scheduler; sharing
 * code with it would defeat the purpose.
 *
 * The bottleneck chain says why the finish is what it is: going back from the last bucket as long
 * as buckets wait for the channel ends at one that waited for a gradient. Finish = its ready time +
 * the costs of the buckets from there on. */
#include "certificate_check.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PIECES = 64 };

static bool refuse(struct checker *k, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse(struct checker *k, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(k->out->what, sizeof k->out->what, format, args);
    va_end(args);
    k->out->verdict = CERTIFICATE_REFUSED;
    return false;
}

static bool differ(double a, double b) {
    double scale = greater(a < 0 ? -a : a, b < 0 ? -b : b);
    double gap = a < b ? b - a : a - b;
    return !(gap <= scale * CERTIFICATE_EPSILON);
}

double checker_transfer_us(const struct checker *k, uint64_t bytes) {
    double least = INFINITY;
    for (uint32_t p = 0; p < k->c->n_pieces; p++) {
        double us = k->piece[p].alpha_us + (double)bytes * k->piece[p].us_per_byte;
        if (us < least) least = us;
    }
    return least;
}

/* ---- structure and replay -------------------------------------------------------------------- */

static bool is_time(double x) { return x >= 0 && x < 1e300; }

static bool check_structure(struct checker *k) {
    const struct certificate *c = k->c;
    if (c->n_pieces == 0 || c->n_pieces > MAX_PIECES)
        return refuse(k, "there are %u cost pieces, not 1 to %d", c->n_pieces, MAX_PIECES);
    for (uint32_t p = 0; p < c->n_pieces; p++)
        if (!is_time(c->piece[p].alpha_us) || !is_time(c->piece[p].us_per_byte))
            return refuse(k, "cost piece %u is not a pair of numbers from 0", p);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->n_items; i++) {
        if (!is_time(c->item[i].ready_us)) return refuse(k, "gradient %u has no ready time", i);
        if (c->item[i].bytes > UINT64_MAX / 4 - sum)
            return refuse(k, "gradient %u has %llu bytes", i, (unsigned long long)c->item[i].bytes);
        sum += c->item[i].bytes;
    }
    uint32_t next = 0;
    bool late = false;
    for (uint32_t b = 0; b < c->n_buckets; b++) {
        const struct certificate_bucket *x = &c->bucket[b];
        if (x->first != next || x->n == 0 || x->n > c->n_items - next)
            return refuse(k, "bucket %u does not begin where the one before it ends",
                          b + c->first_number);
        if (x->group >= c->n_groups)
            return refuse(k, "bucket %u is of no group", b + c->first_number);
        if (late && !c->group_late[x->group])
            return refuse(k, "bucket %u follows a late group and is not late", b + c->first_number);
        late = c->group_late[x->group];
        next += x->n;
    }
    if (next != c->n_items) return refuse(k, "%u gradients are in no bucket", c->n_items - next);
    return true;
}

static bool check_replay(struct checker *k) {
    const struct certificate *c = k->c;
    double now = 0;
    for (uint32_t b = 0; b < c->n_buckets; b++) {
        const struct certificate_bucket *x = &c->bucket[b];
        uint64_t bytes = 0;
        double ready = 0;
        uint32_t latest = x->first;
        for (uint32_t i = x->first; i < x->first + x->n; i++) {
            bytes += c->item[i].bytes;
            if (c->item[i].ready_us > ready) ready = c->item[latest = i].ready_us;
        }
        double start = greater(ready, now), end = start + checker_transfer_us(k, bytes);
        if (differ(x->ready_us, ready))
            return refuse(k, "bucket %u is ready at %.3f µs, not at %.3f µs", b + c->first_number,
                          ready, x->ready_us);
        if (differ(x->start_us, start))
            return refuse(k, "bucket %u starts at %.3f µs, not at %.3f µs", b + c->first_number,
                          start, x->start_us);
        if (differ(x->end_us, end))
            return refuse(k, "bucket %u ends at %.3f µs, not at %.3f µs", b + c->first_number, end,
                          x->end_us);
        if (ready >= now || b == 0) {
            k->out->chain_bucket = b;
            k->out->chain_item = latest;
        }
        now = end;
    }
    if (differ(c->finish_us, now))
        return refuse(k, "the finish is %.3f µs, not %.3f µs", now, c->finish_us);
    return true;
}

/* What the search for the optimum ranged over must hold for the plan itself. */
static bool check_limits(struct checker *k) {
    const struct certificate *c = k->c;
    uint32_t *count = arena_new(&k->scratch, uint32_t, c->n_groups + 1u);
    double *latest = arena_new(&k->scratch, double, c->n_groups + 1u);
    for (uint32_t b = 0; b < c->n_buckets; b++) {
        const struct certificate_bucket *x = &c->bucket[b];
        uint64_t bytes = 0;
        for (uint32_t i = x->first; i < x->first + x->n; i++) {
            bytes += c->item[i].bytes;
            if (c->item[i].ready_us < latest[x->group])
                return refuse(k, "gradient %u of bucket %u is out of ready order", i,
                              b + c->first_number);
            latest[x->group] = c->item[i].ready_us;
        }
        if (c->cap_bytes && bytes > c->cap_bytes && x->n > 1)
            return refuse(k, "bucket %u has %llu bytes, more than the cap", b + c->first_number,
                          (unsigned long long)bytes);
        if (++count[x->group] > c->max_buckets && c->max_buckets)
            return refuse(k, "group %u has more than %u buckets", x->group, c->max_buckets);
    }
    return true;
}

/* ---- the lower bound ------------------------------------------------------------------------- */

struct early {
    double ready;
    uint32_t item, group;
};

static int by_ready(const void *a, const void *b) {
    const struct early *x = a, *y = b;
    if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static void list_early(struct checker *k) {
    const struct certificate *c = k->c;
    struct early *early = arena_new(&k->scratch, struct early, c->n_items + 1u);
    for (uint32_t b = 0; b < c->n_buckets; b++)
        for (uint32_t i = 0; i < c->bucket[b].n && !c->group_late[c->bucket[b].group]; i++) {
            uint32_t item = c->bucket[b].first + i;
            early[k->n_early++] = (struct early){c->item[item].ready_us, item, c->bucket[b].group};
        }
    qsort(early, k->n_early, sizeof *early, by_ready);
    k->early = arena_new(&k->scratch, uint32_t, k->n_early + 1u);
    k->group = arena_new(&k->scratch, uint32_t, c->n_items + 1u);
    k->group_bytes = arena_new(&k->scratch, uint64_t, c->n_groups + 1u);
    k->group_us = arena_new(&k->scratch, double, c->n_groups + 1u);
    for (uint32_t i = 0; i < k->n_early; i++) k->early[i] = early[i].item;
    for (uint32_t b = 0; b < c->n_buckets; b++)
        for (uint32_t i = 0; i < c->bucket[b].n; i++)
            k->group[c->bucket[b].first + i] = c->bucket[b].group;
}

double checker_early_bound_us(struct checker *k) {
    double bound = 0, tail = 0;
    for (uint32_t g = 0; g < k->c->n_groups; g++) k->group_bytes[g] = 0, k->group_us[g] = 0;
    for (uint32_t i = k->n_early; i-- > 0;) {
        uint32_t item = k->early[i], g = k->group[item];
        k->group_bytes[g] += k->c->item[item].bytes;
        tail -= k->group_us[g];
        tail += k->group_us[g] = checker_transfer_us(k, k->group_bytes[g]);
        bound = greater(bound, k->ready[item] + tail);
    }
    return bound;
}

static double bound_us(struct checker *k) {
    const struct certificate *c = k->c;
    double bound = checker_early_bound_us(k);
    uint64_t *bytes = arena_new(&k->scratch, uint64_t, c->n_groups + 1u);
    for (uint32_t i = 0; i < c->n_items; i++) {
        if (!c->group_late[k->group[i]]) continue;
        bytes[k->group[i]] += c->item[i].bytes;
        bound = greater(bound, k->ready[i]);
    }
    for (uint32_t g = 0; g < c->n_groups; g++)
        if (bytes[g]) bound += checker_transfer_us(k, bytes[g]);
    return bound;
}

/* ---- together -------------------------------------------------------------------------------- */

/* Whether the optimum is what is claimed, and the plan as near to it as its policy promises. */
static bool check_optimum(struct checker *k) {
    const struct certificate *c = k->c;
    struct certificate_report *out = k->out;
    if (!check_limits(k)) return false;
    double most = (1 + c->slack) * (1 + CERTIFICATE_EPSILON);
    if (c->optimum_us < out->lower_bound_us * (1 - CERTIFICATE_EPSILON))
        return refuse(k, "the optimum of %.3f µs is below the lower bound of %.3f µs",
                      c->optimum_us, out->lower_bound_us);
    if (c->finish_us > c->optimum_us * most || c->optimum_us > c->finish_us * most)
        return refuse(k, "the finish of %.3f µs is not that of an optimum of %.3f µs", c->finish_us,
                      c->optimum_us);
    double optimum = checker_optimum_us(k);
    /* No plan is faster than the bound: what is claimed to be as fast is the optimum, and a plan
     * that is near the bound is near the optimum. */
    if (optimum < 0 && c->finish_us <= out->lower_bound_us * most &&
        c->optimum_us <= out->lower_bound_us * (1 + CERTIFICATE_EPSILON))
        optimum = out->lower_bound_us;
    if (optimum < 0) {
        snprintf(out->what, sizeof out->what,
                 "the claimed optimum is too large to compute anew; within %.2f %% of the bound",
                 out->gap * 100);
        return true;
    }
    out->optimum_us = optimum;
    out->gap = optimum > 0 ? c->finish_us / optimum - 1 : 0;
    if (differ(c->optimum_us, optimum))
        return refuse(k, "the optimum is %.3f µs, not %.3f µs", optimum, c->optimum_us);
    if (c->finish_us > optimum * most)
        return refuse(k, "the finish of %.3f µs misses the optimum of %.3f µs", c->finish_us,
                      optimum);
    out->verdict = CERTIFICATE_PROVED;
    if (c->slack > 0)
        snprintf(out->what, sizeof out->what,
                 "the finish is within %.2f %% of the optimum of %.3f µs", c->slack * 100, optimum);
    else
        snprintf(out->what, sizeof out->what, "the optimum of %.3f µs is proved and attained",
                 optimum);
    return true;
}

static bool check_regret(struct checker *k) {
    const struct certificate *c = k->c;
    if ((c->worst_regret >= 0) != (c->slack > 0))
        return refuse(k, "a worst regret is %s", c->slack > 0 ? "missing" : "claimed in vain");
    if (c->slack == 0) return true;
    double regret = checker_worst_regret(k);
    k->out->worst_regret = regret;
    if (regret >= 0 && differ(1 + c->worst_regret, 1 + regret))
        return refuse(k, "the worst regret is %.7f %%, not %.7f %%", regret * 100,
                      c->worst_regret * 100);
    if (regret < 0 && k->out->verdict == CERTIFICATE_PROVED) {
        k->out->verdict = CERTIFICATE_REPLAYED;
        snprintf(k->out->what, sizeof k->out->what,
                 "the worst regret is too large to compute anew; within %.2f %% of the optimum",
                 k->out->gap * 100);
    }
    return true;
}

static void check(struct checker *k) {
    const struct certificate *c = k->c;
    struct certificate_report *out = k->out;
    if (!check_structure(k) || !check_replay(k)) return;
    double *ready = arena_new(&k->scratch, double, c->n_items + 1u);
    for (uint32_t i = 0; i < c->n_items; i++) ready[i] = c->item[i].ready_us;
    k->ready = ready;
    list_early(k);
    out->lower_bound_us = bound_us(k);
    out->gap = out->lower_bound_us > 0 ? c->finish_us / out->lower_bound_us - 1 : 0;
    if (differ(c->lower_bound_us, out->lower_bound_us)) {
        refuse(k, "the lower bound is %.3f µs, not %.3f µs", out->lower_bound_us,
               c->lower_bound_us);
        return;
    }
    out->verdict = CERTIFICATE_REPLAYED;
    snprintf(out->what, sizeof out->what, "no optimum is claimed; within %.2f %% of the bound",
             out->gap * 100);
    if (!c->optimal && c->optimum_us != 0) {
        refuse(k, "an optimum of %.3f µs is given but not claimed", c->optimum_us);
        return;
    }
    if (c->optimal && !check_optimum(k)) return;
    check_regret(k);
}

void certificate_check(const struct certificate *c, struct certificate_report *out) {
    *out = (struct certificate_report){.verdict = CERTIFICATE_REFUSED, .worst_regret = -1};
    struct checker k = {.c = c, .out = out, .piece = c->piece};
    check(&k);
    arena_free(&k.scratch);
}
