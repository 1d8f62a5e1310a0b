/* The exact schedule of two groups on one channel.
 *
 * F[i][j] is the least time by which the first i gradients of one group and the first j of the
 * other can be reduced; the last bucket belongs to one of them:
 *
 *     F[i][j] = min( min over k < i of max(F[k][j], rA_i) + c(A_i - A_k),
 *                    min over k < j of max(F[i][k], rB_j) + c(B_j - B_k) )
 *
 * F is nondecreasing in both, so of the k with F <= r the largest is best, as with one group. The
 * others need a real minimum even for one cost piece: F[i][j] - beta A_i is not monotone here,
 * because a bucket of the other group may end last. (With r = 0, 16 and sizes 2, 1 in one group, r
 * = 13 and size 6 in the other, c = 9 + S, two candidates as with one group give 40, the optimum
 * is 38.) A monotone deque per column and piece, and one per piece for the row, give O(pieces) per
 * cell.
 *
 * The plan is read off backwards from the least finish: at each step the largest bucket that leaves
 * the rest in time, of the group whose last gradient is ready later if it has one. That is
 * deterministic and lazy, but the number of buckets is not proved to be the least. */
#include "pair.h"
#include <math.h>

enum { MAX_CELLS = 4000000, MAX_WORK = 3 * MAX_CELLS }; /* cells; cells x pieces */

/* Indices k of one column or row, with ascending keys F - beta P. */
struct deque {
    uint32_t *at;
    uint32_t head, tail;
};

struct axis {
    uint32_t n, left;
    const double *ready;
    uint64_t *sum;
};

static struct axis axis_of(const struct sched_item *item, uint32_t n, double *ready,
                           uint64_t *sum) {
    for (uint32_t i = 0; i < n; i++) {
        ready[i] = item[i].ready_us;
        sum[i + 1] = sum[i] + item[i].bytes;
    }
    return (struct axis){n, 0, ready, sum};
}

/* The best last bucket that ends at `end` along one axis, whose cells are f[k * stride]. `count` is
 * the number of k with f <= r, so far. */
static double best_last(const struct topology *t, const struct axis *a, uint32_t end,
                        const double *f, size_t stride, uint32_t *count, struct deque *deque,
                        size_t deque_stride) {
    double r = a->ready[end - 1], best = INFINITY;
    while (*count < end && f[*count * stride] <= r) ++*count;
    if (*count > a->left) best = r + topology_cost_us(t, a->sum[end] - a->sum[*count - 1]);
    uint32_t from = a->left > *count ? a->left : *count;
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        struct deque *q = &deque[p * deque_stride];
        double slope = t->piece[p].us_per_byte;
        double key = f[(end - 1) * stride] - slope * (double)a->sum[end - 1];
        while (q->tail > q->head &&
               f[q->at[q->tail - 1] * stride] - slope * (double)a->sum[q->at[q->tail - 1]] >= key)
            q->tail--;
        q->at[q->tail++] = end - 1;
        while (q->head < q->tail && q->at[q->head] < from) q->head++;
        if (q->head == q->tail) continue;
        uint32_t k = q->at[q->head];
        double us = f[k * stride] + topology_cost_us(t, a->sum[end] - a->sum[k]);
        if (us < best) best = us;
    }
    return best;
}

static uint32_t leftmost(const struct axis *a, uint32_t end, uint64_t cap) {
    uint32_t left = a->left;
    while (left + 1 < end && a->sum[end] - a->sum[left] > cap) left++;
    return left;
}

/* The smallest k whose bucket up to `end` is done by `until`, or `end`; *least gets the k that is
 * done first of all, in *least_us its time. */
static uint32_t largest_bucket(const struct topology *t, const struct axis *a, uint32_t end,
                               const double *f, size_t stride, uint64_t cap, double until,
                               uint32_t *least, double *least_us) {
    *least_us = INFINITY;
    for (uint32_t k = 0; k < end; k++) {
        uint64_t bytes = a->sum[end] - a->sum[k];
        if (bytes > cap && k + 1 < end) continue;
        double start = f[k * stride] > a->ready[end - 1] ? f[k * stride] : a->ready[end - 1];
        double us = start + topology_cost_us(t, bytes);
        if (us <= until) return k;
        if (us < *least_us) {
            *least_us = us;
            *least = k;
        }
    }
    return end;
}

/* Fills `out` with the buckets in issue order; items of b follow those of a. */
static void read_off(const struct topology *t, const struct axis *a, const struct axis *b,
                     const double *f, uint64_t cap, sched_cuts *out) {
    size_t width = b->n + 1u;
    uint32_t i = a->n, j = b->n;
    double optimum = f[i * width + j], until = optimum * (1 + SCHEDULE_EQUAL / 2);
    uint32_t first = out->n;
    while (i || j) {
        uint32_t k[2] = {i, j}, least[2] = {i, j};
        double least_us[2] = {INFINITY, INFINITY}, slack = optimum * (SCHEDULE_EQUAL / 4);
        if (i)
            k[0] =
                largest_bucket(t, a, i, f + j, width, cap, until + slack, &least[0], &least_us[0]);
        if (j)
            k[1] = largest_bucket(t, b, j, f + i * width, 1, cap, until + slack, &least[1],
                                  &least_us[1]);
        bool of_a = k[0] < i, of_b = k[1] < j;
        if (of_a && of_b) {
            of_a = a->ready[i - 1] > b->ready[j - 1];
        } else if (!of_a && !of_b) { /* rounding ate the slack: go on from the least itself */
            of_a = least_us[0] < least_us[1];
            until = of_a ? least_us[0] : least_us[1];
            k[0] = least[0];
            k[1] = least[1];
        }
        uint32_t from = of_a ? k[0] : a->n + k[1], to = of_a ? i : a->n + j;
        until -= of_a ? topology_cost_us(t, a->sum[i] - a->sum[k[0]])
                      : topology_cost_us(t, b->sum[j] - b->sum[k[1]]);
        vec_push(out, ((struct sched_cut){from, to - from}));
        if (of_a)
            i = k[0];
        else
            j = k[1];
    }
    for (uint32_t x = first, y = out->n; x + 1 < y; x++, y--) {
        struct sched_cut swap = out->at[x];
        out->at[x] = out->at[y - 1];
        out->at[y - 1] = swap;
    }
}

bool schedule_pair(const struct sched_item *item, uint32_t n_a, uint32_t n_b,
                   const struct topology *t, uint64_t cap_bytes, sched_cuts *out,
                   double *finish_us) {
    uint64_t cells = ((uint64_t)n_a + 1) * ((uint64_t)n_b + 1);
    if (cells > MAX_CELLS || cells * t->n_pieces > MAX_WORK) return false;
    struct arena scratch = {0};
    uint64_t cap = cap_bytes ? cap_bytes : UINT64_MAX;
    struct axis a = axis_of(item, n_a, arena_new(&scratch, double, n_a),
                            arena_new(&scratch, uint64_t, n_a + 1u));
    struct axis b = axis_of(item + n_a, n_b, arena_new(&scratch, double, n_b),
                            arena_new(&scratch, uint64_t, n_b + 1u));
    size_t width = n_b + 1u;
    double *f = arena_new(&scratch, double, (n_a + 1u) * width);
    uint32_t *count = arena_new(&scratch, uint32_t, width);
    struct deque *column = arena_new(&scratch, struct deque, t->n_pieces * width);
    struct deque row[TOPOLOGY_MAX_PIECES] = {0};
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        uint32_t *room = arena_new(&scratch, uint32_t, n_a * width);
        for (size_t j = 0; j < width; j++) column[p * width + j].at = room + j * n_a;
        row[p].at = arena_new(&scratch, uint32_t, n_b);
    }

    for (uint32_t i = 0; i <= n_a; i++) {
        uint32_t row_count = 0;
        if (i) a.left = leftmost(&a, i, cap);
        b.left = 0;
        for (uint32_t p = 0; p < t->n_pieces; p++) row[p].head = row[p].tail = 0;
        for (uint32_t j = 0; j <= n_b; j++) {
            double best = i || j ? INFINITY : 0;
            if (i) best = best_last(t, &a, i, f + j, width, &count[j], &column[j], width);
            if (j) {
                b.left = leftmost(&b, j, cap);
                double us = best_last(t, &b, j, f + i * width, 1, &row_count, row, 1);
                if (us < best) best = us;
            }
            f[i * width + j] = best;
        }
    }
    *finish_us = f[n_a * width + n_b];
    read_off(t, &a, &b, f, cap, out);
    arena_free(&scratch);
    return true;
}
