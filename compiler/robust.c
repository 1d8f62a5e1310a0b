/* The robust schedule: of the plans that are nearly the best if all goes as predicted, the one that
 * loses least if it does not.
 *
 * The optimum is degenerate: among plans that finish alike, some are brittle. When compute is
 * faster or latency higher than was thought, the exact plan can finish at twice the time that was
 * possible. So candidates are drawn up (`portfolio`): exact plans of perturbed predictions, plans
 * of fewest buckets that may take a little longer, MG-WFBP's, DDP's with several caps. Those that
 * finish within ROBUST_SLACK of the nominal optimum compete in the box: compute x {.7, 1, 1.4},
 * latency x {.5, 1, 2}, time per byte x {.8, 1, 1.25}, all 27 combinations, each several times
 * with new jitter, less often the more gradients there are, since their jitter averages out. The
 * regret of a plan in a draw is how much longer it takes than the least finish that was possible
 * there. The plan with the least worst regret is taken; of those within .1 % of it the one of
 * fewest buckets, of these the first.
 *
 * In a draw, the time between two consecutive moments at which gradients become ready is multiplied
 * by the draw's factor of compute and by a jitter of mean 1 and standard deviation 1/4, so that the
 * ready order stays. The jitter of moment k in draw d comes from 64 bits of splitmix64 (Steele, Lea,
 * Flood, OOPSLA 2014) for the seed, d and k: their four 16-bit parts u summed, (20279 + sum u) /
 * 151349, between .13 and 1.87. Integers up to the one division, so the same everywhere.
 *
 * The least finish of a draw is lane_optimum's if there is one group that is not late, under the
 * same cap, with any number of buckets. With more it is the lower bound of buckets.c, so that their
 * regret is an upper bound. Late groups follow at their least cost. The check of certificates does
 * all this again, from this description. */
#include "buckets.h"
#include "rivals.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double later(double a, double b) { return a > b ? a : b; }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* ---- the box --------------------------------------------------------------------------------- */

struct box {
    const struct topology *nominal;
    uint64_t cap;
    uint32_t n_ticks; /* moments at which gradients become ready */
    double *tick;     /* ascending */
    uint32_t n_groups, early_groups;
    struct lane early, *late; /* gradients in ready order; late ones by group, ready at once */
    uint32_t *early_tick, *early_group;
    struct lane_room room;
    double *early_ready; /* by gradient, in the last draw */
    /* By group, for the lower bound: bytes so far, their cost. */
    uint64_t *bytes;
    double *cost;
};

struct draw {
    struct topology t;
    double *ready; /* by tick */
    double least;  /* the benchmark */
};

struct moment {
    double us;
    uint32_t item;
};

static int compare_moments(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* tick_of gets each item's tick; of two items that are ready at once the first stays first. */
static struct box box_of(const struct sched_item *item, uint32_t n, const struct sched *s,
                         const struct topology *t, struct arena *a, uint32_t *tick_of) {
    struct box x = {.nominal = t, .cap = s->cap_bytes, .n_groups = s->group.n};
    struct moment *moment = arena_new(a, struct moment, n + 1u);
    uint64_t *sum = arena_new(a, uint64_t, n + 1u);
    x.tick = arena_new(a, double, n + 1u);
    x.early_tick = arena_new(a, uint32_t, n + 1u);
    x.early_group = arena_new(a, uint32_t, n + 1u);
    x.early_ready = arena_new(a, double, n + 1u);
    x.late = arena_new(a, struct lane, s->group.n + 1u);
    x.bytes = arena_new(a, uint64_t, s->group.n + 1u);
    x.cost = arena_new(a, double, s->group.n + 1u);
    for (uint32_t i = 0; i < n; i++) moment[i] = (struct moment){item[i].ready_us, i};
    sort_unless_sorted(moment, n, sizeof *moment, compare_moments);
    uint32_t n_early = 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_item *i = &item[moment[k].item];
        if (k == 0 || moment[k].us > moment[k - 1].us) x.tick[x.n_ticks++] = moment[k].us;
        tick_of[moment[k].item] = x.n_ticks - 1;
        if (s->group.at[i->group].late) {
            x.late[i->group].n++;
            continue;
        }
        x.early_tick[n_early] = x.n_ticks - 1;
        x.early_group[n_early] = i->group;
        sum[n_early + 1] = sum[n_early] + i->bytes;
        n_early++;
    }
    x.early = (struct lane){n_early, x.early_ready, sum};
    for (uint32_t g = 0; g < s->group.n; g++) {
        x.early_groups += !s->group.at[g].late;
        if (!x.late[g].n) continue;
        uint64_t *late_sum = arena_new(a, uint64_t, x.late[g].n + 1u);
        x.late[g] = (struct lane){0, arena_new(a, double, x.late[g].n + 1u), late_sum};
        for (uint32_t i = 0; i < n; i++)
            if (item[i].group == g) {
                late_sum[x.late[g].n + 1] = late_sum[x.late[g].n] + item[i].bytes;
                x.late[g].n++;
            }
    }
    lane_room_init(&x.room, a, n, t->n_pieces);
    return x;
}

uint32_t robust_rounds(uint32_t n_gradients) {
    uint32_t rounds = 30000 / (n_gradients ? n_gradients : 1);
    return rounds < 1 ? 1 : rounds > 12 ? 12 : rounds;
}

static double jitter(uint64_t seed, uint32_t draw, uint32_t tick) {
    uint64_t z = (seed << 56 ^ (uint64_t)draw << 32 ^ tick) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    return (double)(20279 + sum) / 151349;
}

/* Least finish of what is not late, by the lower bound: after each moment the channel carries what
 * is ready then or later, of each group in one bucket. */
static double bound(struct box *x, const struct topology *t) {
    double tail = 0, best = 0;
    memset(x->bytes, 0, x->n_groups * sizeof *x->bytes);
    memset(x->cost, 0, x->n_groups * sizeof *x->cost);
    for (uint32_t i = x->early.n; i-- > 0;) {
        uint32_t g = x->early_group[i];
        x->bytes[g] += x->early.sum[i + 1] - x->early.sum[i];
        tail -= x->cost[g];
        tail += x->cost[g] = topology_cost_us(t, x->bytes[g]);
        best = later(best, x->early_ready[i] + tail);
    }
    return best;
}

static struct draw box_draw(struct box *x, uint64_t seed, uint32_t number, struct arena *a) {
    static const double compute[] = {.7, 1, 1.4}, latency[] = {.5, 1, 2}, rate[] = {.8, 1, 1.25};
    struct draw d = {.t = *x->nominal, .ready = arena_new(a, double, x->n_ticks)};
    double now = 0, before = 0;
    for (uint32_t p = 0; p < d.t.n_pieces; p++) {
        d.t.piece[p].alpha_us *= latency[number / 3 % 3];
        d.t.piece[p].us_per_byte *= rate[number / 9 % 3];
    }
    for (uint32_t k = 0; k < x->n_ticks; k++) {
        now += (x->tick[k] - before) * compute[number % 3] * jitter(seed, number, k);
        before = x->tick[k];
        d.ready[k] = now;
    }
    for (uint32_t i = 0; i < x->early.n; i++) x->early_ready[i] = d.ready[x->early_tick[i]];
    d.least =
        x->early_groups == 1 ? lane_optimum(&x->early, &d.t, x->cap, &x->room) : bound(x, &d.t);
    for (uint32_t g = 0; g < x->n_groups; g++) {
        if (!x->late[g].n) continue;
        d.least = later(d.least, now); /* all are ready at the very end */
        d.least += lane_optimum(&x->late[g], &d.t, x->cap, &x->room);
    }
    return d;
}

/* A bucket as the box sees it. */
struct boxed {
    uint32_t tick;
    uint64_t bytes;
};

static double regret(const struct draw *d, const struct boxed *bucket, uint32_t n) {
    double now = 0;
    for (uint32_t b = 0; b < n; b++)
        now = later(now, d->ready[bucket[b].tick]) + topology_cost_us(&d->t, bucket[b].bytes);
    return now / d->least - 1;
}

double sched_worst_regret(const struct sched *s, const struct topology *t, uint64_t seed,
                          uint32_t rounds) {
    if (s->item.n == 0) return 0;
    struct arena scratch = {0};
    uint32_t *tick = arena_new(&scratch, uint32_t, s->item.n);
    struct boxed *bucket = arena_new(&scratch, struct boxed, s->bucket.n);
    struct box x = box_of(s->item.at, s->item.n, s, t, &scratch, tick);
    for (uint32_t i = 0, b = 0; i < s->item.n; i++) {
        b += i == s->bucket.at[b].first + s->bucket.at[b].n;
        if (tick[i] > bucket[b].tick) bucket[b].tick = tick[i];
        bucket[b].bytes += s->item.at[i].bytes;
    }
    double worst = 0;
    for (uint32_t d = 0; d < rounds * ROBUST_CORNERS; d++) {
        struct arena once = {0};
        struct draw draw = box_draw(&x, seed, d, &once);
        worst = later(worst, regret(&draw, bucket, s->bucket.n));
        arena_free(&once);
    }
    arena_free(&scratch);
    return worst;
}

/* ---- the portfolio --------------------------------------------------------------------------- */

struct candidate {
    uint32_t first, n; /* its buckets, in `cut` and `bucket` */
    double worst;
};

struct portfolio {
    struct bucketer *u;
    const uint32_t *tick; /* by item */
    const struct sched_cut *late;
    uint32_t n_late;
    double until; /* the nominal finish that a candidate may have */
    VEC(struct candidate) all;
    sched_cuts cut;
    VEC(struct boxed) bucket;
};

/* Beyond so many, gradients go together in candidates for other predictions. */
enum { MOST_APART = 16384 };
/* Buckets of all candidates; what would be beyond that does not compete. */
enum { MOST_BUCKETS = 400000 };
/* Regrets that differ by no more count as equal: no prediction is that good. */
#define EQUAL_REGRET .001

/* Appends a candidate if it is within the limits and new. */
static void compete(struct portfolio *f, const sched_cuts *cuts) {
    if (f->cut.n + cuts->n > MOST_BUCKETS && f->all.n) return;
    for (uint32_t c = 0; c < f->all.n; c++)
        if (f->all.at[c].n == cuts->n &&
            !memcmp(f->cut.at + f->all.at[c].first, cuts->at, cuts->n * sizeof *cuts->at))
            return;
    if (!bucketer_within_limits(f->u, cuts) || bucketer_replay(f->u, cuts) > f->until) return;
    vec_push(&f->all, ((struct candidate){f->cut.n, cuts->n, 0}));
    for (uint32_t c = 0; c < cuts->n; c++) {
        struct boxed bucket = {0};
        for (uint32_t i = cuts->at[c].first; i < cuts->at[c].first + cuts->at[c].n; i++) {
            if (f->tick[i] > bucket.tick) bucket.tick = f->tick[i];
            bucket.bytes += f->u->item[i].bytes;
        }
        vec_push(&f->cut, cuts->at[c]);
        vec_push(&f->bucket, bucket);
    }
}

static void compete_cut(struct portfolio *f, const struct merged *m, const uint32_t *boundary,
                        uint32_t buckets) {
    sched_cuts cuts = {0};
    if (buckets) bucketer_cut(f->u, m, boundary, buckets, &cuts);
    for (uint32_t c = 0; c < f->n_late; c++) vec_push(&cuts, f->late[c]);
    if (buckets) compete(f, &cuts);
    vec_free(&cuts);
}

static struct topology scaled(const struct topology *t, double latency, double rate) {
    struct topology out = *t;
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        out.piece[p].alpha_us *= latency;
        out.piece[p].us_per_byte *= rate;
    }
    return out;
}

/* Boundaries that count `together` gradients as one. */
static void compete_apart(struct portfolio *f, const struct merged *m, uint32_t *boundary,
                          uint32_t buckets, uint32_t together) {
    for (uint32_t b = 0; b <= buckets; b++)
        boundary[b] = smaller(boundary[b] * together, m->lane.n);
    compete_cut(f, m, boundary, buckets);
}

static void portfolio(struct portfolio *f, struct arena *a) {
    static const double slack[] = {0, .001, .0025, .005, .0075, .01};
    static const double latency[] = {1, 1.5, 2, 3, 4, 6}, compute[] = {1, .85, .7, .6};
    static const double rate[] = {1, .8, 1.25};
    static const uint64_t caps_mib[] = {25, 2, 5, 10, 50, 100, 200};
    struct merged m = bucketer_merge(f->u, a);
    const struct topology *t = f->u->t;
    uint64_t cap = f->u->out->cap_bytes;
    uint32_t n = m.lane.n, *boundary = arena_new(a, uint32_t, n + 1u);
    uint64_t *bytes = arena_new(a, uint64_t, n + 1u);
    double *ready = arena_new(a, double, n + 1u);
    struct lane_room room;
    lane_room_init(&room, a, n, t->n_pieces);
    for (uint32_t i = 0; i < n; i++) bytes[i] = m.lane.sum[i + 1] - m.lane.sum[i];

    double least = lane_optimum(&m.lane, t, cap, &room);
    for (size_t i = 0; i < sizeof slack / sizeof *slack; i++)
        compete_cut(f, &m, boundary,
                    lane_fewest(&m.lane, t, cap, &room, least * (1 + slack[i]), boundary));
    compete_cut(f, &m, boundary, rival_mgwfbp(n, m.lane.ready_us, bytes, t, boundary));
    for (size_t i = 0; i < sizeof caps_mib / sizeof *caps_mib; i++)
        compete_cut(f, &m, boundary, schedule_ddp(n, bytes, 1 << 20, caps_mib[i] << 20, boundary));
    /* What is not so exactly known need not be cut so exactly: of very many, neighbours go
     * together. */
    uint32_t together = n / MOST_APART + 1;
    uint64_t *sum = arena_new(a, uint64_t, n + 1u);
    struct lane l = {(n + together - 1) / together, ready, sum};
    for (uint32_t i = 1; i <= l.n; i++) sum[i] = m.lane.sum[smaller(i * together, n)];
    for (size_t c = 0; c < sizeof compute / sizeof *compute; c++) {
        for (uint32_t i = 1; i <= l.n; i++)
            ready[i - 1] = m.lane.ready_us[smaller(i * together, n) - 1] * compute[c];
        for (size_t k = 0; k < sizeof latency / sizeof *latency; k++)
            for (size_t r = 0; r < sizeof rate / sizeof *rate; r++) {
                struct topology there = scaled(t, latency[k], rate[r]);
                double us = lane_optimum(&l, &there, cap, &room);
                uint32_t buckets = lane_trace(&l, &room, boundary);
                compete_apart(f, &m, boundary, buckets, together);
                if (r != 0 || (k != 2 && k != 4) || c % 2 != 0) continue;
                buckets = lane_fewest(&l, &there, cap, &room, us, boundary);
                compete_apart(f, &m, boundary, buckets, together);
            }
    }
}

double bucketer_robust(struct bucketer *u, sched_cuts *cuts, uint32_t n_early) {
    if (u->n == 0) return 0;
    struct arena scratch = {0};
    uint32_t *tick = arena_new(&scratch, uint32_t, u->n), best = 0;
    struct box x = box_of(u->item, u->n, u->out, u->t, &scratch, tick);
    struct portfolio f = {.u = u,
                          .tick = tick,
                          .late = cuts->at + n_early,
                          .n_late = cuts->n - n_early,
                          .until = bucketer_replay(u, cuts) * (1 + ROBUST_SLACK)};
    compete(&f, cuts);
    if (n_early) portfolio(&f, &scratch);
    uint32_t n = robust_rounds(u->n) * ROBUST_CORNERS;
    struct draw *draw = arena_new(&scratch, struct draw, n);
    for (uint32_t d = 0; d < n; d++) draw[d] = box_draw(&x, ROBUST_SEED, d, &scratch);
    double least = INFINITY, worst;
    for (uint32_t c = 0; c < f.all.n; c++) {
        struct candidate *k = &f.all.at[c];
        for (uint32_t d = 0; d < n && k->worst <= least + EQUAL_REGRET; d++)
            k->worst = later(k->worst, regret(&draw[d], f.bucket.at + k->first, k->n));
        if (k->worst < least) least = k->worst;
    }
    for (uint32_t c = 0, fewest = UINT32_MAX; c < f.all.n; c++)
        if (f.all.at[c].worst <= least + EQUAL_REGRET && f.all.at[c].n < fewest)
            fewest = f.all.at[best = c].n;
    worst = f.all.at[best].worst;
    cuts->n = 0;
    for (uint32_t c = 0; c < f.all.at[best].n; c++)
        vec_push(cuts, f.cut.at[f.all.at[best].first + c]);
    vec_free(&f.all);
    vec_free(&f.cut);
    vec_free(&f.bucket);
    arena_free(&scratch);
    return worst;
}
