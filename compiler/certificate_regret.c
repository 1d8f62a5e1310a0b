/* The worst regret of a certificate, from the description of the box in docs/scheduling.md.
 *
 * A draw multiplies the latency and the time per byte of every cost piece, and each span between
 * two consecutive moments at which gradients become ready. There the plan's buckets are replayed,
 * and what they take is compared with the least that the same gradients could have taken. The
 * constants are written down here once more, since what is checked cannot be taken from the
 * scheduler. */
#include "certificate_check.h"
#include <stdlib.h>

enum { CORNERS = 27, MOST_ROUNDS = 12, GRADIENTS = 30000, SEED = 1 };

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Of the span before moment k: four uniform numbers of 16 bits, the mean 1, the deviation 1/4. */
static double jitter(uint32_t draw, uint32_t k) {
    uint64_t bits = mix(0x9e3779b97f4a7c15u * ((uint64_t)SEED << 56 ^ (uint64_t)draw << 32 ^ k));
    uint32_t sum = 0;
    for (int part = 0; part < 4; part++) sum += bits >> 16 * part & 0xffff;
    return (20279. + sum) / 151349.;
}

struct moments {
    uint32_t n, *of; /* by item */
    double *us, *drawn;
};

static struct moments moments_of(struct checker *k) {
    const struct certificate *c = k->c;
    struct moments m = {.of = arena_new(&k->scratch, uint32_t, c->n_items + 1u),
                        .us = arena_new(&k->scratch, double, c->n_items + 1u),
                        .drawn = arena_new(&k->scratch, double, c->n_items + 1u)};
    for (uint32_t i = 0; i < c->n_items; i++) m.us[i] = c->item[i].ready_us;
    qsort(m.us, c->n_items, sizeof *m.us, by_value);
    for (uint32_t i = 0; i < c->n_items; i++)
        if (m.n == 0 || m.us[i] > m.us[m.n - 1]) m.us[m.n++] = m.us[i];
    for (uint32_t i = 0; i < c->n_items; i++) {
        uint32_t low = 0, high = m.n - 1;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (m.us[middle] < c->item[i].ready_us)
                low = middle + 1;
            else
                high = middle;
        }
        m.of[i] = low;
    }
    return m;
}

static double finish_us(const struct checker *k, const uint64_t *bytes) {
    double now = 0;
    for (uint32_t b = 0; b < k->c->n_buckets; b++) {
        const struct certificate_bucket *x = &k->c->bucket[b];
        for (uint32_t i = x->first; i < x->first + x->n; i++) now = greater(now, k->ready[i]);
        now += checker_transfer_us(k, bytes[b]);
    }
    return now;
}

/* The least there is: of one group that is not late exactly, of more the bound; then the late
 * ones. */
static double least_us(struct checker *k, struct checker_lane *lane, uint32_t n_early) {
    double now = 0;
    for (uint32_t g = 0; g < k->c->n_groups && n_early == 1; g++)
        if (lane[g].n && !k->c->group_late[g]) now = checker_lane_us(k, &lane[g], 0);
    if (n_early > 1) now = checker_early_bound_us(k);
    for (uint32_t g = 0; g < k->c->n_groups; g++)
        if (lane[g].n && k->c->group_late[g]) now = checker_lane_us(k, &lane[g], now);
    return now;
}

double checker_worst_regret(struct checker *k) {
    static const double compute[] = {.7, 1, 1.4}, latency[] = {.5, 1, 2}, rate[] = {.8, 1, 1.25};
    const struct certificate *c = k->c;
    if (c->n_items == 0) return 0;
    struct moments m = moments_of(k);
    uint32_t rounds = GRADIENTS / c->n_items, draws;
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    draws = CORNERS * (rounds ? rounds : 1);
    if ((double)c->n_items * (c->n_pieces + 2) * draws > WORK_LIMIT / 8) return -1;
    struct checker_lane *lane = arena_new(&k->scratch, struct checker_lane, c->n_groups + 1u);
    struct certificate_piece *piece = arena_new(&k->scratch, struct certificate_piece, c->n_pieces);
    uint64_t *bytes = arena_new(&k->scratch, uint64_t, c->n_buckets);
    double *ready = arena_new(&k->scratch, double, c->n_items), worst = 0;
    uint32_t n_early = 0;
    for (uint32_t g = 0; g < c->n_groups; g++) {
        lane[g] = checker_lane_of(k, g);
        n_early += lane[g].n && !c->group_late[g];
    }
    for (uint32_t b = 0; b < c->n_buckets; b++)
        for (uint32_t i = 0; i < c->bucket[b].n; i++)
            bytes[b] += c->item[c->bucket[b].first + i].bytes;
    k->piece = piece;
    k->ready = ready;
    for (uint32_t d = 0; d < draws; d++) {
        for (uint32_t p = 0; p < c->n_pieces; p++)
            piece[p] = (struct certificate_piece){c->piece[p].alpha_us * latency[d / 3 % 3],
                                                  c->piece[p].us_per_byte * rate[d / 9 % 3]};
        for (uint32_t i = 0; i < m.n; i++)
            m.drawn[i] = (i ? m.drawn[i - 1] : 0) +
                         (m.us[i] - (i ? m.us[i - 1] : 0)) * compute[d % 3] * jitter(d, i);
        for (uint32_t i = 0; i < c->n_items; i++) ready[i] = m.drawn[m.of[i]];
        worst = greater(worst, finish_us(k, bytes) / least_us(k, lane, n_early) - 1);
    }
    return worst;
}
