/* The optimum of a certificate, by other means than the scheduler's. The recurrence
 *
 *     F[j] = min over i < j of max(F[i], r_j) + c(P_j - P_i)
 *
 * is evaluated over all pairs i, j; and where that would take too long, with the minimum of F[i] -
 * beta P_i over a window whose ends only move right: the window is two runs, of the left one the
 * minimum from each place on is known, of the right one the minimum so far; when the left one is
 * used up, the right one becomes it. That relies on nothing but F and c being nondecreasing. Two
 * groups are done over all pairs or not at all. */
#include "certificate_check.h"
#include <math.h>

#define ALL_PAIRS 2e7

struct checker_lane checker_lane_of(struct checker *k, uint32_t group) {
    const struct certificate *c = k->c;
    struct checker_lane l = {0};
    for (uint32_t b = 0; b < c->n_buckets; b++)
        if (c->bucket[b].group == group) l.n += c->bucket[b].n;
    l.item = arena_new(&k->scratch, uint32_t, l.n + 1u);
    l.sum = arena_new(&k->scratch, uint64_t, l.n + 1u);
    l.ready = arena_new(&k->scratch, double, l.n + 1u);
    l.f = arena_new(&k->scratch, double, l.n + 1u);
    l.g = arena_new(&k->scratch, double, l.n + 1u);
    l.key = arena_new(&k->scratch, double, (l.n + 1u) * (size_t)c->n_pieces);
    l.least = arena_new(&k->scratch, uint32_t, (l.n + 1u) * (size_t)c->n_pieces);
    uint32_t at = 0;
    for (uint32_t b = 0; b < c->n_buckets; b++)
        for (uint32_t i = 0; i < c->bucket[b].n && c->bucket[b].group == group; i++, at++) {
            l.item[at] = c->bucket[b].first + i;
            l.sum[at + 1] = l.sum[at] + c->item[l.item[at]].bytes;
        }
    return l;
}

/* A bucket starts when all its gradients are ready, so a running maximum is as good; the order
 * inside a bucket is free. */
static void set_ready(const struct checker *k, struct checker_lane *l) {
    for (uint32_t i = 0; i < l->n; i++)
        l->ready[i] = i ? greater(l->ready[i - 1], k->ready[l->item[i]]) : k->ready[l->item[i]];
}

static bool too_large(const struct checker *k, const struct checker_lane *l, uint32_t i,
                      uint32_t j) {
    return k->c->cap_bytes && j - i > 1 && l->sum[j] - l->sum[i] > k->c->cap_bytes;
}

static double last_bucket_us(const struct checker *k, const struct checker_lane *l, const double *f,
                             uint32_t i, uint32_t j) {
    return greater(f[i], l->ready[j - 1]) + checker_transfer_us(k, l->sum[j] - l->sum[i]);
}

/* Both fill g[1..n] from f, the least finish by prefix with one bucket less; they may be the same
 * array, for any number of buckets. */
static void all_pairs(const struct checker *k, const struct checker_lane *l, const double *f,
                      double *g) {
    for (uint32_t j = 1; j <= l->n; j++) {
        double least = f == g ? INFINITY : f[j];
        for (uint32_t i = 0; i < j; i++)
            if (!too_large(k, l, i, j)) least = smaller(least, last_bucket_us(k, l, f, i, j));
        g[j] = least;
    }
}

/* The minimum over [low, high), of which [mid, high) is the right run. */
struct range {
    uint32_t low, mid, recent; /* recent: where the right run has its minimum */
    double *key;
    uint32_t *least; /* by place in the left run: where the minimum from there on is */
};

static uint32_t range_minimum(struct range *r, uint32_t low, uint32_t high) {
    if (low >= r->mid) {
        r->mid = high;
        for (uint32_t i = high; i-- > low;)
            r->least[i] =
                i + 1 < high && r->key[r->least[i + 1]] <= r->key[i] ? r->least[i + 1] : i;
        return r->least[low];
    }
    uint32_t left = r->least[low];
    return high > r->mid && r->key[r->recent] < r->key[left] ? r->recent : left;
}

static void by_ranges(const struct checker *k, const struct checker_lane *l, const double *f,
                      double *g) {
    const struct certificate *c = k->c;
    struct range range[64];
    for (uint32_t p = 0; p < c->n_pieces; p++)
        range[p] = (struct range){.key = l->key + (l->n + 1u) * (size_t)p,
                                  .least = l->least + (l->n + 1u) * (size_t)p};
    uint32_t left = 0, busy = 0; /* the first start within the cap; with the channel free after r */
    for (uint32_t j = 1; j <= l->n; j++) {
        double least = f == g ? INFINITY : f[j];
        while (too_large(k, l, left, j)) left++;
        while (busy < j && f[busy] <= l->ready[j - 1]) busy++;
        if (busy > left) least = smaller(least, last_bucket_us(k, l, f, busy - 1, j));
        uint32_t low = left > busy ? left : busy;
        for (uint32_t p = 0; p < c->n_pieces; p++) {
            struct range *r = &range[p];
            r->key[j - 1] = f[j - 1] - k->piece[p].us_per_byte * (double)l->sum[j - 1];
            if (r->mid == j - 1 || r->key[j - 1] < r->key[r->recent]) r->recent = j - 1;
            if (low < j)
                least = smaller(least, last_bucket_us(k, l, f, range_minimum(r, low, j), j));
        }
        g[j] = least;
    }
}

double checker_lane_us(const struct checker *k, struct checker_lane *l, double start) {
    set_ready(k, l);
    l->f[0] = start;
    by_ranges(k, l, l->f, l->f);
    return l->f[l->n];
}

/* Under the limit on buckets too; negative if that is too much work. */
static double optimum_of_one(struct checker *k, uint32_t group, double start) {
    const struct certificate *c = k->c;
    struct checker_lane l = checker_lane_of(k, group);
    bool layered = c->max_buckets && c->max_buckets < l.n;
    double layers = layered ? c->max_buckets : 1, n = l.n;
    bool pairs = n * n * layers * c->n_pieces <= ALL_PAIRS;
    if (!pairs && 8 * n * layers * c->n_pieces > WORK_LIMIT) return -1;
    set_ready(k, &l);
    double *f = l.f, *g = layered ? l.g : f;
    for (uint32_t j = 0; j <= l.n; j++) f[j] = j ? INFINITY : start;
    for (uint32_t layer = 0; layer < (uint32_t)layers; layer++) {
        g[0] = start;
        if (pairs)
            all_pairs(k, &l, f, g);
        else
            by_ranges(k, &l, f, g);
        double *swap = f;
        f = g;
        g = swap;
    }
    return f[l.n];
}

static double optimum_of_two(struct checker *k, uint32_t group_a, uint32_t group_b) {
    struct checker_lane a = checker_lane_of(k, group_a), b = checker_lane_of(k, group_b);
    if ((a.n + 1.0) * (b.n + 1.0) * ((double)a.n + b.n) * k->c->n_pieces > WORK_LIMIT) return -1;
    set_ready(k, &a);
    set_ready(k, &b);
    size_t width = b.n + 1u;
    double *f = arena_new(&k->scratch, double, (a.n + 1u) * width);
    for (uint32_t i = 0; i <= a.n; i++) {
        for (uint32_t j = 0; j <= b.n; j++) {
            double least = i || j ? INFINITY : 0;
            for (uint32_t x = 0; x < i; x++)
                if (!too_large(k, &a, x, i))
                    least = smaller(least, greater(f[x * width + j], a.ready[i - 1]) +
                                               checker_transfer_us(k, a.sum[i] - a.sum[x]));
            for (uint32_t x = 0; x < j; x++)
                if (!too_large(k, &b, x, j))
                    least = smaller(least, last_bucket_us(k, &b, f + i * width, x, j));
            f[i * width + j] = least;
        }
    }
    return f[(a.n + 1u) * width - 1];
}

double checker_optimum_us(struct checker *k) {
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
