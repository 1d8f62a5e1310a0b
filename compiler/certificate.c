/* The check of a schedule's certificate, by methods of its own.
 *
 * First the plan is replayed: every bucket starts when its last gradient is ready and the channel
 * is free, and its times, the finish and the limits must be what the plan says. Then the lower
 * bound is computed anew: after r the channel still has to carry all that becomes ready at r or
 * later, and a group's bytes cost no less than one bucket of them. Last, where an optimum is
 * claimed, the recurrence
 *
 *     F[j] = min over i < j of max(F[i], r_j) + c(P_j - P_i)
 *
 * is evaluated over all pairs i, j; and where that would take too long, with range minima from a
 * segment tree over F[i] - beta P_i, which relies on nothing but F and c being nondecreasing. Two
 * groups are done over all pairs or not at all. So a plan can be proved without trusting the
 * scheduler, its deques, or its rule for ties; sharing code with it would defeat the purpose.
 *
 * The bottleneck chain says why the finish is what it is: going back from the last bucket as long
 * as buckets wait for the channel ends at one that waited for a gradient. Finish = its ready time +
 * the costs of the buckets from there on. */
#include "certificate.h"
#include "arena.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Steps of the inner loops that a check may take: about a second. */
#define WORK_LIMIT 5e8
#define ALL_PAIRS  2e7
enum { MAX_PIECES = 64 };

struct checker {
    const struct certificate *c;
    struct certificate_report *out;
    struct arena scratch;
};

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

static double greater(double a, double b) { return a < b ? b : a; }
static double smaller(double a, double b) { return b < a ? b : a; }

static bool differ(double a, double b) {
    double scale = greater(a < 0 ? -a : a, b < 0 ? -b : b);
    double gap = a < b ? b - a : a - b;
    return !(gap <= scale * CERTIFICATE_EPSILON);
}

static double transfer_us(const struct certificate *c, uint64_t bytes) {
    double least = INFINITY;
    for (uint32_t p = 0; p < c->n_pieces; p++) {
        double us = c->piece[p].alpha_us + (double)bytes * c->piece[p].us_per_byte;
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
        double start = greater(ready, now), end = start + transfer_us(c, bytes);
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

static double bound_us(struct checker *k) {
    const struct certificate *c = k->c;
    struct early *early = arena_new(&k->scratch, struct early, c->n_items + 1u);
    uint64_t *bytes = arena_new(&k->scratch, uint64_t, c->n_groups + 1u);
    double *cost = arena_new(&k->scratch, double, c->n_groups + 1u), bound = 0, late = 0;
    uint32_t n = 0;
    for (uint32_t b = 0; b < c->n_buckets; b++) {
        const struct certificate_bucket *x = &c->bucket[b];
        for (uint32_t i = x->first; i < x->first + x->n; i++) {
            if (c->group_late[x->group]) {
                bytes[x->group] += c->item[i].bytes;
                late = greater(late, c->item[i].ready_us);
            } else {
                early[n++] = (struct early){c->item[i].ready_us, i, x->group};
            }
        }
    }
    qsort(early, n, sizeof *early, by_ready);
    double tail = 0;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t g = early[i].group;
        bytes[g] += c->item[early[i].item].bytes;
        tail -= cost[g];
        tail += cost[g] = transfer_us(c, bytes[g]);
        bound = greater(bound, early[i].ready + tail);
    }
    bound = greater(bound, late);
    for (uint32_t g = 0; g < c->n_groups; g++)
        if (c->group_late[g] && bytes[g]) bound += transfer_us(c, bytes[g]);
    return bound;
}

/* ---- the optimum ----------------------------------------------------------------------------- */

/* One group's gradients in the plan's order. */
struct lane {
    uint32_t n;
    double *ready;
    uint64_t *sum;
};

static struct lane lane_of(struct checker *k, uint32_t group) {
    const struct certificate *c = k->c;
    struct lane l = {0, NULL, NULL};
    for (uint32_t b = 0; b < c->n_buckets; b++)
        if (c->bucket[b].group == group) l.n += c->bucket[b].n;
    l.ready = arena_new(&k->scratch, double, l.n + 1u);
    l.sum = arena_new(&k->scratch, uint64_t, l.n + 1u);
    uint32_t at = 0;
    for (uint32_t b = 0; b < c->n_buckets; b++) {
        if (c->bucket[b].group != group) continue;
        for (uint32_t i = 0; i < c->bucket[b].n; i++, at++) {
            const struct certificate_item *x = &c->item[c->bucket[b].first + i];
            /* A bucket starts when all its gradients are ready, so a running maximum is as good;
             * the order inside a bucket is free. */
            l.ready[at] = at ? greater(l.ready[at - 1], x->ready_us) : x->ready_us;
            l.sum[at + 1] = l.sum[at] + x->bytes;
        }
    }
    return l;
}

static bool too_large(const struct certificate *c, const struct lane *l, uint32_t i, uint32_t j) {
    return c->cap_bytes && j - i > 1 && l->sum[j] - l->sum[i] > c->cap_bytes;
}

/* Both fill g[1..n] from f, the least finish by prefix with one bucket less; they may be the same
 * array, for any number of buckets. */
static void all_pairs(const struct certificate *c, const struct lane *l, const double *f,
                      double *g) {
    for (uint32_t j = 1; j <= l->n; j++) {
        double least = f == g ? INFINITY : f[j];
        for (uint32_t i = 0; i < j; i++) {
            if (too_large(c, l, i, j)) continue;
            double us = greater(f[i], l->ready[j - 1]) + transfer_us(c, l->sum[j] - l->sum[i]);
            if (us < least) least = us;
        }
        g[j] = least;
    }
}

/* Segment tree over positions 0..n: tree[size + i] is leaf i; index of the least key in a range. */
static uint32_t tree_min(const double *key, const uint32_t *tree, uint32_t size, uint32_t from,
                         uint32_t to) {
    uint32_t best = from;
    for (uint32_t a = from + size, b = to + size; a < b; a /= 2, b /= 2) {
        if (a & 1) {
            if (key[tree[a]] < key[best]) best = tree[a];
            a++;
        }
        if (b & 1) {
            b--;
            if (key[tree[b]] < key[best]) best = tree[b];
        }
    }
    return best;
}

static void by_ranges(struct checker *k, const struct lane *l, const double *f, double *g) {
    const struct certificate *c = k->c;
    uint32_t size = l->n + 1;
    double *key = arena_new(&k->scratch, double, (size_t)size * c->n_pieces);
    uint32_t *tree = arena_new(&k->scratch, uint32_t, 2 * (size_t)size * c->n_pieces);
    for (size_t i = 0; i < (size_t)size * c->n_pieces; i++) key[i] = INFINITY;
    for (uint32_t p = 0; p < c->n_pieces; p++)
        for (uint32_t i = 0; i < size; i++) tree[2 * (size_t)size * p + size + i] = i;
    for (uint32_t j = 1; j <= l->n; j++) {
        double r = l->ready[j - 1], least = f == g ? INFINITY : f[j];
        /* Enter j - 1. */
        for (uint32_t p = 0; p < c->n_pieces; p++) {
            double *keys = key + (size_t)size * p;
            uint32_t *t = tree + 2 * (size_t)size * p;
            keys[j - 1] = f[j - 1] - c->piece[p].us_per_byte * (double)l->sum[j - 1];
            for (uint32_t x = (j - 1 + size) / 2; x; x /= 2)
                t[x] = keys[t[2 * x + 1]] < keys[t[2 * x]] ? t[2 * x + 1] : t[2 * x];
        }
        uint32_t low = 0, high = j - 1; /* the leftmost start within the cap */
        while (low < high) {
            uint32_t mid = (low + high) / 2;
            if (too_large(c, l, mid, j))
                low = mid + 1;
            else
                high = mid;
        }
        uint32_t left = low;
        high = j; /* the first start whose channel is free after r only */
        while (low < high) {
            uint32_t mid = (low + high) / 2;
            if (f[mid] <= r)
                low = mid + 1;
            else
                high = mid;
        }
        if (low > left)
            least = greater(f[low - 1], r) + transfer_us(c, l->sum[j] - l->sum[low - 1]);
        if (f != g && f[j] < least) least = f[j];
        for (uint32_t p = 0; p < c->n_pieces && low < j; p++) {
            uint32_t i =
                tree_min(key + (size_t)size * p, tree + 2 * (size_t)size * p, size, low, j);
            double us = f[i] + transfer_us(c, l->sum[j] - l->sum[i]);
            if (us < least) least = us;
        }
        g[j] = least;
    }
}

/* The least finish of one group that has the channel from `start` on; negative if that is too much
 * work. */
static double optimum_of_one(struct checker *k, uint32_t group, double start) {
    const struct certificate *c = k->c;
    struct lane l = lane_of(k, group);
    double layers = c->max_buckets && c->max_buckets < l.n ? c->max_buckets : 1;
    double n = l.n, steps = 32 * n * layers * c->n_pieces;
    bool pairs = n * n * layers * c->n_pieces <= ALL_PAIRS;
    if (!pairs && steps > WORK_LIMIT) return -1;
    double *f = arena_new(&k->scratch, double, l.n + 1u), *g = f;
    if (c->max_buckets && c->max_buckets < l.n) g = arena_new(&k->scratch, double, l.n + 1u);
    for (uint32_t j = 0; j <= l.n; j++) f[j] = j ? INFINITY : start;
    for (uint32_t layer = 0; layer < (uint32_t)layers; layer++) {
        g[0] = start;
        struct arena kept = k->scratch;
        if (pairs) {
            all_pairs(c, &l, f, g);
        } else {
            k->scratch = (struct arena){0};
            by_ranges(k, &l, f, g);
            arena_free(&k->scratch);
            k->scratch = kept;
        }
        double *swap = f;
        f = g;
        g = swap;
    }
    return f[l.n];
}

static double optimum_of_two(struct checker *k, uint32_t group_a, uint32_t group_b) {
    const struct certificate *c = k->c;
    struct lane a = lane_of(k, group_a), b = lane_of(k, group_b);
    if ((a.n + 1.0) * (b.n + 1.0) * ((double)a.n + b.n) * c->n_pieces > WORK_LIMIT) return -1;
    size_t width = b.n + 1u;
    double *f = arena_new(&k->scratch, double, (a.n + 1u) * width);
    for (uint32_t i = 0; i <= a.n; i++) {
        for (uint32_t j = 0; j <= b.n; j++) {
            double least = i || j ? INFINITY : 0;
            for (uint32_t x = 0; x < i; x++)
                if (!too_large(c, &a, x, i))
                    least = smaller(least, greater(f[x * width + j], a.ready[i - 1]) +
                                               transfer_us(c, a.sum[i] - a.sum[x]));
            for (uint32_t x = 0; x < j; x++)
                if (!too_large(c, &b, x, j))
                    least = smaller(least, greater(f[i * width + x], b.ready[j - 1]) +
                                               transfer_us(c, b.sum[j] - b.sum[x]));
            f[i * width + j] = least;
        }
    }
    return f[(a.n + 1u) * width - 1];
}

/* The least finish of the step, or a negative number if it can not be had. */
static double optimum_us(struct checker *k) {
    const struct certificate *c = k->c;
    bool *used = arena_new(&k->scratch, bool, c->n_groups + 1u);
    for (uint32_t b = 0; b < c->n_buckets; b++) used[c->bucket[b].group] = true;
    uint32_t early[2] = {0}, n = 0;
    for (uint32_t g = 0; g < c->n_groups; g++) {
        if (!used[g] || c->group_late[g]) continue;
        if (n == 2) return -1;
        early[n++] = g;
    }
    double now = 0;
    if (n == 1) now = optimum_of_one(k, early[0], 0);
    if (n == 2) now = optimum_of_two(k, early[0], early[1]);
    for (uint32_t g = 0; g < c->n_groups && now >= 0; g++)
        if (used[g] && c->group_late[g]) now = optimum_of_one(k, g, now);
    return now;
}

/* ---- together -------------------------------------------------------------------------------- */

static void check(struct checker *k) {
    const struct certificate *c = k->c;
    struct certificate_report *out = k->out;
    if (!check_structure(k) || !check_replay(k)) return;
    out->lower_bound_us = bound_us(k);
    out->gap = out->lower_bound_us > 0 ? c->finish_us / out->lower_bound_us - 1 : 0;
    if (differ(c->lower_bound_us, out->lower_bound_us)) {
        refuse(k, "the lower bound is %.3f µs, not %.3f µs", out->lower_bound_us,
               c->lower_bound_us);
        return;
    }
    out->verdict = CERTIFICATE_REPLAYED;
    if (!c->optimal) {
        snprintf(out->what, sizeof out->what, "no optimum is claimed; within %.2f %% of the bound",
                 out->gap * 100);
        return;
    }
    if (!check_limits(k)) return;
    double optimum = optimum_us(k);
    if (optimum < 0 && c->finish_us <= out->lower_bound_us * (1 + CERTIFICATE_EPSILON))
        optimum = out->lower_bound_us; /* the bound is attained, so nothing can be better */
    if (optimum < 0) {
        snprintf(out->what, sizeof out->what,
                 "the claimed optimum is too large to compute anew; within %.2f %% of the bound",
                 out->gap * 100);
        return;
    }
    out->optimum_us = optimum;
    out->gap = optimum > 0 ? c->finish_us / optimum - 1 : 0;
    if (differ(c->optimum_us, optimum)) {
        refuse(k, "the optimum is %.3f µs, not %.3f µs", optimum, c->optimum_us);
        return;
    }
    if (c->finish_us > optimum * (1 + CERTIFICATE_EPSILON)) {
        refuse(k, "the finish of %.3f µs misses the optimum of %.3f µs", c->finish_us, optimum);
        return;
    }
    out->verdict = CERTIFICATE_PROVED;
    snprintf(out->what, sizeof out->what, "the optimum of %.3f µs is proved and attained", optimum);
}

void certificate_check(const struct certificate *c, struct certificate_report *out) {
    *out = (struct certificate_report){.verdict = CERTIFICATE_REFUSED};
    struct checker k = {.c = c, .out = out};
    check(&k);
    arena_free(&k.scratch);
}
