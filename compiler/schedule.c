/* The exact schedule of one group: which cuts of the ready order finish first on one FIFO channel.
 *
 * With P the prefix sums of the bytes and F[j] the least time at which the first j gradients can
 * all be reduced, F[j] = min over i < j of max(F[i], r_j) + c(P_j - P_i): the last bucket holds
 * i+1..j, it starts when its last gradient is ready and the channel is free. `forward` evaluates
 * this in O(pieces * n). Two facts make that possible. F is nondecreasing, so among all i with
 * F[i] <= r_j the largest is best: its bucket is the smallest of those that start at r_j. And for
 * the others, where the bucket starts at F[i], the value for a piece is
 * (F[i] - beta P_i) + alpha + beta P_j, a minimum over a window whose two ends only move right: a
 * monotone deque. With one piece the keys F[i] - beta P_i are already ascending (drop gradient j+1
 * from an optimal plan of j+1: its last bucket shrinks by at least beta s), so the window's first
 * element is the answer and no deque is needed.
 *
 * The optimum is hardly ever unique: a plan of five buckets may finish with one of three hundred.
 * The rule is the fewest buckets, then the lexicographically earliest boundaries. `fewest` finds
 * them by going backwards in layers. State (i, w) of layer m says: with m buckets after the first i
 * gradients the rest needs w µs of channel, so the prefix must be done by T - w. A state is kept
 * only if F[i] <= T - w, and only if no smaller i of the layer dominates it: each further byte
 * costs at least the least slope b, so i < i' dominates when w + b P_i <= w' + b P_i' - any
 * continuation of i' works from i, with a later deadline. For one piece w + b P_i is the same for
 * all states of a layer, so one state survives and the whole walk is a greedy O(n); in practice few
 * survive for several pieces. Dominated states cannot lie on the lexicographically earliest of the
 * shortest plans, so a walk forwards through the layers that takes the first state in time finds
 * it.
 *
 * All arithmetic is +, -, *, max and comparisons of doubles: the same bits everywhere. */
#include "schedule.h"
#include <math.h>
#include <stdlib.h>

struct problem {
    uint32_t n;
    const double *ready;
    const uint64_t *sum; /* P */
    const struct topology *t;
    uint64_t cap;    /* UINT64_MAX: none */
    double slope;    /* what a byte more costs at least, in any bucket */
    uint64_t flat;   /* and exactly, in one of at least so many bytes; UINT64_MAX: of none */
    uint32_t *count; /* the fewest buckets that the cap allows for the first j gradients, at [j] */
};

static struct problem problem_of(const struct lane *l, const struct topology *t,
                                 uint64_t cap_bytes) {
    return (struct problem){.n = l->n,
                            .ready = l->ready_us,
                            .sum = l->sum,
                            .t = t,
                            .cap = cap_bytes ? cap_bytes : UINT64_MAX};
}

static double later(double a, double b) { return a > b ? a : b; }

/* ---- the optimum ----------------------------------------------------------------------------- */

/* The candidates i of one piece, ascending, their keys F[i] - beta P_i strictly ascending. */
static void window_push(struct lane_window *w, uint32_t i, double key) {
    while (w->tail > w->head && w->key[w->tail - 1] >= key) w->tail--;
    w->at[w->tail] = i;
    w->key[w->tail++] = key;
}

/* From `prev` to `next`: one more bucket, or, where both are the same array, any number of them.
 * from[j] is where the last bucket of next[j] begins. */
static void forward(const struct problem *q, const double *prev, double *next,
                    struct lane_room *room) {
    const struct topology *t = q->t;
    const uint64_t *sum = q->sum;
    struct lane_window *window = room->window;
    bool layered = prev != next;
    for (uint32_t p = 0; p < t->n_pieces; p++) window[p].head = window[p].tail = 0;
    next[0] = 0;
    uint32_t k = 0;    /* the largest i < j with F[i] <= r_j */
    uint32_t left = 0; /* the leftmost i that the cap allows */
    for (uint32_t j = 1; j <= q->n; j++) {
        double r = q->ready[j - 1], best = INFINITY;
        uint32_t choice = k;
        while (k + 1 < j && prev[k + 1] <= r) k++;
        while (left + 1 < j && sum[j] - sum[left] > q->cap) left++;
        if (k >= left) {
            best = later(prev[k], r) + topology_cost_us(t, sum[j] - sum[k]);
            choice = k;
        }
        uint32_t from = left > k + 1 ? left : k + 1;
        if (t->n_pieces == 1) {
            if (from < j) {
                double us = prev[from] + topology_cost_us(t, sum[j] - sum[from]);
                if (us < best) best = us, choice = from;
            }
        } else if (from < j) { /* else no i up to j - 1 will ever be one of them */
            uint32_t i = from;
            double least = INFINITY;
            for (uint32_t p = 0; p < t->n_pieces; p++) {
                struct lane_window *w = &window[p];
                double slope = t->piece[p].us_per_byte;
                window_push(w, j - 1, prev[j - 1] - slope * (double)sum[j - 1]);
                while (w->at[w->head] < from) w->head++;
                double us = w->key[w->head] + (t->piece[p].alpha_us + slope * (double)sum[j]);
                if (us < least) least = us, i = w->at[w->head];
            }
            double us = prev[i] + topology_cost_us(t, sum[j] - sum[i]);
            if (us < best) best = us, choice = i;
        }
        next[j] = layered && prev[j] < best ? prev[j] : best;
        room->from[j] = choice;
    }
}

void lane_room_init(struct lane_room *room, struct arena *a, uint32_t n, uint32_t n_pieces) {
    *room = (struct lane_room){arena_new(a, double, n + 1u), arena_new(a, uint32_t, n + 1u), {{0}}};
    for (uint32_t p = 0; p < n_pieces && n_pieces > 1; p++) {
        room->window[p].at = arena_new(a, uint32_t, n);
        room->window[p].key = arena_new(a, double, n);
    }
}

double lane_optimum(const struct lane *l, const struct topology *t, uint64_t cap_bytes,
                    struct lane_room *room) {
    struct problem q = problem_of(l, t, cap_bytes);
    forward(&q, room->f, room->f, room);
    return room->f[l->n];
}

uint32_t lane_trace(const struct lane *l, const struct lane_room *room, uint32_t *boundary) {
    uint32_t buckets = 0;
    for (uint32_t j = l->n; j; j = room->from[j]) buckets++;
    boundary[buckets] = l->n;
    for (uint32_t b = buckets; b; b--) boundary[b - 1] = room->from[boundary[b]];
    return buckets;
}

/* ---- the fewest buckets ---------------------------------------------------------------------- */

struct state {
    uint32_t at; /* gradients before the boundary */
    double work; /* µs of channel that the rest needs */
};
typedef VEC(struct state) state_list;

/* The leftmost i whose bucket (i, s.at] is within the cap and lets the rest finish by `until`;
 * s.at if there is none. */
static uint32_t leftmost(const struct problem *q, const struct state *s, double until) {
    uint32_t low = 0, high = s->at; /* high works or is s.at, everything before low does not */
    double spare = until - s->work - q->ready[s->at - 1];
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        uint64_t bytes = q->sum[s->at] - q->sum[mid];
        if ((bytes <= q->cap || mid == s->at - 1) && topology_cost_us(q->t, bytes) <= spare)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* The first i from `from` on that is done in time if the bucket (i, s.at] follows; s.at if there is
 * none. */
static uint32_t first_in_time(const struct problem *q, const double *f, const struct state *s,
                              double until, uint32_t from) {
    double due = until - s->work;
    while (from < s->at && f[from] + topology_cost_us(q->t, q->sum[s->at] - q->sum[from]) > due)
        from++;
    return from;
}

/* The first i whose bucket (i, s.at] is not larger than `flat`. */
static uint32_t first_near(const struct problem *q, const struct state *s) {
    uint32_t low = 0, high = s->at;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (q->sum[s->at] - q->sum[mid] <= q->flat)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* A heap of states by key, least on top; those that have expired leave when they get there. */
struct heap {
    struct heap_entry {
        double key;
        uint32_t state;
    } * at;
    uint32_t n;
};

static void heap_push(struct heap *h, double key, uint32_t state) {
    uint32_t i = h->n++;
    for (; i && h->at[(i - 1) / 2].key > key; i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = (struct heap_entry){key, state};
}

static void heap_pop(struct heap *h) {
    struct heap_entry last = h->at[--h->n];
    uint32_t i = 0;
    for (uint32_t c; (c = 2 * i + 1) < h->n; i = c) {
        if (c + 1 < h->n && h->at[c + 1].key < h->at[c].key) c++;
        if (h->at[c].key >= last.key) break;
        h->at[i] = h->at[c];
    }
    h->at[i] = last;
}

static int descending(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

/* Appends the states of the layer before the last one, which begins at `first` and reaches to the
 * end of `all`. Those that could only lead to more than `most` buckets are left out. For each state
 * of that layer the first i in time and those near it are looked at: all between are dominated by
 * the first, as a byte more in so large a bucket costs the least slope. */
static void layer_before(const struct problem *q, const double *f, double until, uint32_t most,
                         state_list *all, uint32_t first) {
    const struct topology *t = q->t;
    uint32_t n = all->n - first, lowest = UINT32_MAX;
    VEC(uint32_t) expire = {0}, early = {0}, near = {0};
    (void)vec_extend(&expire, n);
    (void)vec_extend(&early, n);
    (void)vec_extend(&near, n);
    struct heap heap[TOPOLOGY_MAX_PIECES] = {0};
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        VEC(struct heap_entry) room = {0};
        vec_reserve(&room, n);
        heap[p].at = room.at;
    }
    for (uint32_t s = 0; s < n; s++) {
        const struct state *x = &all->at[first + s];
        expire.at[s] = leftmost(q, x, until);
        near.at[s] = first_near(q, x);
        early.at[s] = first_in_time(q, f, x, until, expire.at[s]);
        if (expire.at[s] < lowest) lowest = expire.at[s];
    }
    qsort(early.at, n, sizeof *early.at, descending);
    uint32_t enter = n, begin = all->n; /* states from `enter` on are in the heaps */
    uint32_t next = 0;                  /* in `early` */
    for (uint32_t i = all->at[all->n - 1].at; i-- > lowest;) {
        for (; enter && all->at[first + enter - 1].at > i; enter--) {
            const struct state *x = &all->at[first + enter - 1];
            for (uint32_t p = 0; p < t->n_pieces; p++)
                heap_push(&heap[p], x->work + t->piece[p].us_per_byte * (double)q->sum[x->at],
                          enter - 1);
        }
        while (next < n && early.at[next] > i) next++;
        if (i < near.at[enter] && (next == n || early.at[next] < i)) {
            /* Further down, at what is early or just before another state. */
            uint32_t on = enter ? all->at[first + enter - 1].at : 0;
            i = next < n && early.at[next] >= on ? early.at[next] + 1 : on;
            continue;
        }
        double work = INFINITY;
        for (uint32_t p = 0; p < t->n_pieces; p++) {
            while (heap[p].n && expire.at[heap[p].at[0].state] > i) heap_pop(&heap[p]);
            if (!heap[p].n) continue;
            const struct state *s = &all->at[first + heap[p].at[0].state];
            double us = s->work + topology_cost_us(t, q->sum[s->at] - q->sum[i]);
            if (us < work) work = us;
        }
        if (f[i] + work <= until && q->count[i] <= most) vec_push(all, ((struct state){i, work}));
    }
    for (uint32_t p = 0; p < t->n_pieces; p++) vec_release_(heap[p].at);
    vec_free(&expire);
    vec_free(&early);
    vec_free(&near);

    /* Turn them around, then drop the dominated ones. The tolerance keeps rounding from telling
     * states apart that are equal; n of it are still far below SCHEDULE_EQUAL. */
    for (uint32_t a = begin, b = all->n; a + 1 < b; a++, b--) {
        struct state x = all->at[a];
        all->at[a] = all->at[b - 1];
        all->at[b - 1] = x;
    }
    double best = INFINITY, tolerance = until * 0x1p-48;
    uint32_t kept = begin;
    for (uint32_t s = begin; s < all->n; s++) {
        double key = all->at[s].work + q->slope * (double)q->sum[all->at[s].at];
        if (key >= best - tolerance) continue;
        best = key;
        all->at[kept++] = all->at[s];
    }
    all->n = kept;
}

typedef VEC(uint32_t) layer_list;

/* Layers from the end to the start, each at its place in `all`. `narrow` keeps one state of each,
 * the leftmost: a quick walk to an upper bound. Returns the number of buckets, 0 if there is no
 * way. */
static uint32_t walk(const struct problem *q, const double *f, double until, uint32_t most,
                     bool narrow, state_list *all, layer_list *layer) {
    all->n = layer->n = 0;
    vec_push(layer, 0);
    vec_push(all, ((struct state){q->n, 0}));
    while (all->at[layer->at[layer->n - 1]].at != 0) {
        uint32_t begin = all->n;
        if (narrow) {
            const struct state *s = &all->at[begin - 1];
            uint32_t i = first_in_time(q, f, s, until, leftmost(q, s, until));
            if (i == s->at) return 0;
            double work = s->work + topology_cost_us(q->t, q->sum[s->at] - q->sum[i]);
            vec_push(all, ((struct state){i, work}));
        } else {
            layer_before(q, f, until, most - layer->n, all, layer->at[layer->n - 1]);
            if (all->n == begin) return 0;
        }
        vec_push(layer, begin);
    }
    return layer->n - 1;
}

/* The plan of fewest buckets that finishes by about `optimum`, of several the one with the earliest
 * boundaries; f is the least finish by prefix. Returns the number of buckets, 0 if there is none.
 */
static uint32_t fewest(const struct problem *q, const double *f, double optimum,
                       uint32_t *boundary) {
    /* Each stage has a little more time than the one before, so that rounding can not take from it
     * what that one found. */
    double until = optimum * (1 + SCHEDULE_EQUAL * 4 / 8);
    double then = optimum * (1 + SCHEDULE_EQUAL * 5 / 8);
    double last = optimum * (1 + SCHEDULE_EQUAL * 6 / 8);
    state_list all = {0};
    layer_list layer = {0};
    uint32_t buckets = walk(q, f, until, UINT32_MAX, true, &all, &layer);
    if (q->t->n_pieces > 1 && buckets) buckets = walk(q, f, then, buckets, false, &all, &layer);
    boundary[0] = 0;
    double now = 0;
    for (uint32_t b = 1; b <= buckets; b++) {
        uint32_t from = boundary[b - 1], choice = 0;
        double end = INFINITY, over = INFINITY;
        for (uint32_t s = layer.at[buckets - b]; s < layer.at[buckets - b + 1]; s++) {
            uint32_t at = all.at[s].at;
            if (at <= from) continue;
            uint64_t bytes = q->sum[at] - q->sum[from];
            if (bytes > q->cap && at != from + 1) break;
            double us = later(now, q->ready[at - 1]) + topology_cost_us(q->t, bytes);
            if (us + all.at[s].work >= over) continue;
            over = us + all.at[s].work;
            end = us;
            choice = at;
            if (over <= last) break;
        }
        boundary[b] = choice;
        now = end;
    }
    vec_free(&layer);
    vec_free(&all);
    return buckets;
}

/* A bucket is within the cap, or one larger gradient: then its cost by byte is what it adds. */
static double least_slope(const struct problem *q) {
    const struct topology *t = q->t;
    uint64_t most = q->cap < q->sum[q->n] ? q->cap : q->sum[q->n];
    double at_most = topology_cost_us(t, most), slope = INFINITY;
    for (uint32_t p = 0; p < t->n_pieces; p++)
        if (t->piece[p].alpha_us + t->piece[p].us_per_byte * (double)most <= at_most &&
            t->piece[p].us_per_byte < slope)
            slope = t->piece[p].us_per_byte;
    for (uint32_t j = 0; j < q->n; j++) {
        uint64_t bytes = q->sum[j + 1] - q->sum[j];
        if (bytes > q->cap && topology_cost_us(t, bytes) < slope * (double)bytes)
            slope = topology_cost_us(t, bytes) / (double)bytes;
    }
    return slope;
}

/* From where on a bucket costs `slope` for every byte more. */
static uint64_t flat_from(const struct problem *q) {
    const struct topology *t = q->t;
    double alpha = INFINITY, flat = 0;
    for (uint32_t p = 0; p < t->n_pieces; p++)
        if (t->piece[p].us_per_byte == q->slope && t->piece[p].alpha_us < alpha)
            alpha = t->piece[p].alpha_us;
    if (alpha == INFINITY) return UINT64_MAX;
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        double steeper = t->piece[p].us_per_byte - q->slope;
        if (steeper > 0) flat = later(flat, (alpha - t->piece[p].alpha_us) / steeper);
    }
    return flat < 0x1p60 ? (uint64_t)flat + 1 : UINT64_MAX;
}

static void count_by_cap(const struct problem *q) {
    uint32_t left = 0;
    q->count[0] = 0;
    for (uint32_t j = 1; j <= q->n; j++) {
        while (left + 1 < j && q->sum[j] - q->sum[left] > q->cap) left++;
        q->count[j] = q->count[left] + 1;
    }
}

/* ---- together -------------------------------------------------------------------------------- */

uint32_t lane_fewest(const struct lane *l, const struct topology *t, uint64_t cap_bytes,
                     const struct lane_room *room, double finish_us, uint32_t *boundary) {
    struct arena scratch = {0};
    struct problem q = problem_of(l, t, cap_bytes);
    q.count = arena_new(&scratch, uint32_t, l->n + 1u);
    q.slope = least_slope(&q);
    q.flat = flat_from(&q);
    count_by_cap(&q);
    uint32_t buckets = fewest(&q, room->f, finish_us, boundary);
    arena_free(&scratch);
    return buckets;
}

/* The least finish with at most so many buckets; infinite if the cap asks for more. */
static double limited(const struct lane *l, const struct topology *t, uint64_t cap_bytes,
                      uint32_t max_buckets) {
    struct arena scratch = {0};
    struct problem q = problem_of(l, t, cap_bytes);
    struct lane_room room;
    lane_room_init(&room, &scratch, l->n, t->n_pieces);
    double *prev = room.f, *next = arena_new(&scratch, double, l->n + 1u);
    for (uint32_t j = 1; j <= l->n; j++) prev[j] = INFINITY;
    for (uint32_t k = 0; k < max_buckets; k++) {
        forward(&q, prev, next, &room);
        double *swap = prev;
        prev = next;
        next = swap;
    }
    double finish = prev[l->n];
    arena_free(&scratch);
    return finish;
}

uint32_t schedule_exact(uint32_t n, const double *ready_us, const uint64_t *bytes,
                        const struct topology *t, uint64_t cap_bytes, uint32_t max_buckets,
                        uint32_t *boundary, double *finish_us) {
    *finish_us = 0;
    boundary[0] = 0;
    if (n == 0) return 0;
    struct arena scratch = {0};
    struct lane_room room;
    uint64_t *sum = arena_new(&scratch, uint64_t, n + 1u);
    struct lane l = {n, ready_us, sum};
    for (uint32_t j = 0; j < n; j++) sum[j + 1] = sum[j] + bytes[j];
    lane_room_init(&room, &scratch, n, t->n_pieces);
    *finish_us = lane_optimum(&l, t, cap_bytes, &room);
    uint32_t buckets = lane_fewest(&l, t, cap_bytes, &room, *finish_us, boundary);
    if (max_buckets && buckets > max_buckets) {
        *finish_us = limited(&l, t, cap_bytes, max_buckets);
        buckets =
            *finish_us < INFINITY ? lane_fewest(&l, t, cap_bytes, &room, *finish_us, boundary) : 0;
    }
    arena_free(&scratch);
    return buckets;
}
