/* The schedules to compare with: each rule of rivals.c applied to a step's gradients.
 *
 * A rule sees one group at a time, since none of the systems mixes element types in a bucket. The
 * buckets then go by the time at which they are ready, groups that are late after all others, and
 * what DDP has left over at the end of its walk last, as its list of buckets has it. The byte limits
 * of other systems count a gradient's own bytes, costs those on the wire.
 *
 * `exact` is the least finish for one group, and for two where schedule_pair can have them; for more
 * each group is scheduled as if it had the channel for itself, and `partly` is set. */
#include "pair.h"
#include "rivals.h"
#include "simulate.h"
#include <stdlib.h>

static const char *const names[] = {
#define RULE(id, name) name,
    SIM_RULES(RULE)
#undef RULE
};
static const uint64_t ddp_first_bytes = 1 << 20, ddp_cap_bytes = 25 << 20;

struct builder {
    const struct sim_work *w;
    struct sim_schedule *out;
    /* Of one group, in ready order. */
    uint32_t n, *at, *boundary; /* at: indices of gradients */
    double *ready;
    uint64_t *bytes, *raw;
    uint32_t placed; /* gradients that have a place in out->gradient */
    /* By bucket: what it is ordered by besides its moment. */
    uint32_t *phase;
};

static void gather(struct builder *u, uint32_t group) {
    u->n = 0;
    for (uint32_t i = 0; i < u->w->n; i++) {
        const struct sim_gradient *g = &u->w->gradient[i];
        if (g->group != group) continue;
        u->at[u->n] = i;
        u->ready[u->n] = g->ready_us;
        u->bytes[u->n] = g->bytes;
        u->raw[u->n++] = g->raw_bytes;
    }
}

static void add_bucket(struct builder *u, const uint32_t *gradient, uint32_t n, uint32_t phase) {
    struct sim_bucket b = {.first = u->placed, .n = n, .group = u->w->gradient[*gradient].group};
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_gradient *g = &u->w->gradient[gradient[i]];
        if (g->moment > b.moment) b.moment = g->moment;
        b.bytes += g->bytes;
        u->out->gradient[u->placed++] = gradient[i];
    }
    u->phase[u->out->n_buckets] = phase;
    u->out->bucket[u->out->n_buckets++] = b;
}

static void apply(struct builder *u, enum sim_rule rule, bool late) {
    const struct topology *t = &u->w->topology;
    uint32_t k = 0, *cut = u->boundary;
    double finish;
    switch (rule) {
    case SIM_DDP: k = schedule_ddp(u->n, u->raw, ddp_first_bytes, ddp_cap_bytes, cut); break;
    case SIM_SINGLE: k = rival_single(u->n, cut); break;
    case SIM_MGWFBP: k = rival_mgwfbp(u->n, u->ready, u->bytes, t, cut); break;
    case SIM_XLA: k = rival_xla(u->n, u->raw, cut); break;
    case SIM_MEGATRON:
        k = rival_megatron(u->n, u->raw, u->w->gradient[u->at[0]].element_bytes, t->ranks, cut);
        break;
    case SIM_WFBP: k = rival_wfbp(u->n, cut); break;
    case SIM_HOROVOD:
    case SIM_N_RULES: break;
    case SIM_EXACT: k = schedule_exact(u->n, u->ready, u->bytes, t, 0, 0, cut, &finish); break;
    }
    for (uint32_t b = 0; b < k; b++) {
        uint64_t size = 0;
        for (uint32_t i = cut[b]; i < cut[b + 1]; i++) size += u->raw[i];
        bool left_over = rule == SIM_DDP && size < (b ? ddp_cap_bytes : ddp_first_bytes);
        add_bucket(u, u->at + cut[b], cut[b + 1] - cut[b], 2u * late + left_over);
    }
}

/* Two groups that are not late. False if they are too large. */
static bool exact_pair(struct builder *u, uint32_t a, uint32_t b) {
    const struct sim_work *w = u->w;
    struct sched_item *item = malloc((w->n + 1u) * sizeof *item);
    uint32_t *place = malloc((w->n + 1u) * sizeof *place), n[2], k = 0;
    if (!item || !place) arena_out_of_memory(w->n * sizeof *item);
    for (uint32_t side = 0; side < 2; side++) {
        gather(u, side ? b : a);
        n[side] = u->n;
        for (uint32_t i = 0; i < u->n; i++, k++) {
            place[k] = u->at[i];
            item[k] = (struct sched_item){u->at[i], side, u->bytes[i], u->ready[i]};
        }
    }
    sched_cuts cuts = {0};
    double finish;
    bool ok = schedule_pair(item, n[0], n[1], &w->topology, 0, &cuts, &finish);
    for (uint32_t c = 0; ok && c < cuts.n; c++)
        add_bucket(u, place + cuts.at[c].first, cuts.at[c].n, 0);
    vec_free(&cuts);
    free(item);
    free(place);
    return ok;
}

struct ordered {
    uint32_t phase, moment, place;
    struct sim_bucket bucket;
};

static int compare(const void *a, const void *b) {
    const struct ordered *x = a, *y = b;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    if (x->moment != y->moment) return x->moment < y->moment ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void sort_buckets(struct builder *u, struct arena *scratch) {
    uint32_t n = u->out->n_buckets;
    struct ordered *o = arena_new(scratch, struct ordered, n + 1u);
    for (uint32_t b = 0; b < n; b++)
        o[b] = (struct ordered){u->phase[b], u->out->bucket[b].moment, b, u->out->bucket[b]};
    qsort(o, n, sizeof *o, compare);
    for (uint32_t b = 0; b < n; b++) u->out->bucket[b] = o[b].bucket;
}

void sim_rule(const struct sim_work *w, enum sim_rule rule, struct arena *a,
              struct sim_schedule *out) {
    *out = (struct sim_schedule){.name = names[rule],
                                 .bucket = arena_new(a, struct sim_bucket, w->n + 1u),
                                 .gradient = arena_new(a, uint32_t, w->n + 1u),
                                 .by_clock = rule == SIM_HOROVOD};
    if (out->by_clock) return;
    struct arena scratch = {0};
    struct builder u = {.w = w,
                        .out = out,
                        .at = arena_new(&scratch, uint32_t, w->n + 1u),
                        .boundary = arena_new(&scratch, uint32_t, w->n + 1u),
                        .phase = arena_new(&scratch, uint32_t, w->n + 1u),
                        .ready = arena_new(&scratch, double, w->n + 1u),
                        .bytes = arena_new(&scratch, uint64_t, w->n + 1u),
                        .raw = arena_new(&scratch, uint64_t, w->n + 1u)};
    uint32_t early[2] = {0}, n_early = 0;
    for (uint32_t g = 0; g < w->n_groups; g++)
        if (!w->late[g] && n_early++ < 2) early[n_early - 1] = g;
    bool paired = rule == SIM_EXACT && n_early == 2 && exact_pair(&u, early[0], early[1]);
    out->partly = rule == SIM_EXACT && n_early > 1 && !paired;
    for (uint32_t g = 0; g < w->n_groups; g++) {
        if (paired && !w->late[g]) continue;
        gather(&u, g);
        apply(&u, rule, w->late[g]);
    }
    if (!paired) sort_buckets(&u, &scratch);
    arena_free(&scratch);
}
