/* From classes and ready times to a step's buckets on the channel.
 *
 * Gradients fall into groups that never share a bucket: by element type, as a collective has one;
 * by whether they always exist, so that buckets of certain gradients never wait for others; and
 * conditional ones by their guard where it uses uniform branches alone, since then all ranks can
 * skip the bucket together. Under --guards=discovered nobody knows before the end of the backward
 * pass which conditional gradients there are: their groups are late, ready at its end and after all
 * others in the channel. Under reported they take part like the others.
 *
 * The policies: `exact` is the least finish. With one group that is not late it is schedule.c's,
 * with two pair.c's; late groups start together when all else is done, so the sum of their costs
 * counts, and each is scheduled by itself. With more groups the best of three plans is taken and
 * proved only if it meets the lower bound. `ddp` applies DDP's rule to each group, `single` makes
 * one bucket of it.
 *
 * The lower bound holds for every bucketing whatever its order: after r_j the channel still has to
 * carry all that is ready at r_j or later, and no way to cut a group's bytes costs less than one
 * bucket, as the cost is subadditive. So finish >= r_j + sum over groups of c(bytes ready from r_j
 * on). */
#include "buckets.h"
#include "plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double later(double a, double b) { return a > b ? a : b; }

/* ---- groups ---------------------------------------------------------------------------------- */

/* Most of what is put in order here is in order already. */
void sort_unless_sorted(void *at, uint32_t n, size_t size,
                        int (*compare)(const void *, const void *)) {
    const char *c = at;
    uint32_t i = 1;
    while (i < n && compare(c + (i - 1) * size, c + i * size) <= 0) i++;
    if (i < n) qsort(at, n, size, compare);
}

struct keyed {
    uint32_t key[3]; /* late or conditional, dtype, guard */
    uint32_t rank;   /* in ready order */
};

static int compare_keyed(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static bool uniform_alone(const struct branches *b, bdd guard) {
    bdd_support support = {0};
    bdd_support_of(b->bdd, guard, &support);
    bool uniform = support.n > 0;
    for (uint32_t i = 0; i < support.n; i++) uniform &= b->all.at[support.at[i]].uniform;
    vec_free(&support);
    return uniform;
}

static void group_items(struct bucketer *u, const struct reach *r, const struct branches *b,
                        const struct ready_times *ready) {
    struct keyed *keyed = arena_new(&u->scratch, struct keyed, u->n + 1u);
    for (uint32_t i = 0; i < u->n; i++) {
        const struct gradient *g = &r->gradient[ready->order[i]];
        bool conditional = g->class == GRAD_CONDITIONAL;
        enum ir_dtype dtype = u->p->params.at[ready->order[i]].dtype;
        keyed[i] = (struct keyed){{conditional, dtype, conditional ? g->may : BDD_TRUE}, i};
    }
    sort_unless_sorted(keyed, u->n, sizeof *keyed, compare_keyed);
    /* Equal guards are neighbours now: ask once for each. */
    for (uint32_t i = 0, next; i < u->n; i = next) {
        bdd guard = keyed[i].key[2];
        bool alone = keyed[i].key[0] && guard != BDD_OVERFLOW && uniform_alone(b, guard);
        for (next = i; next < u->n && keyed[next].key[0] == keyed[i].key[0] &&
                       keyed[next].key[1] == keyed[i].key[1] && keyed[next].key[2] == guard;
             next++)
            ;
        for (uint32_t k = i; k < next; k++)
            if (!alone) keyed[k].key[2] = BDD_TRUE;
    }
    sort_unless_sorted(keyed, u->n, sizeof *keyed, compare_keyed);

    u->start = arena_new(&u->scratch, uint32_t, u->n + 1u);
    for (uint32_t i = 0; i < u->n; i++) {
        const uint32_t *key = keyed[i].key;
        if (i == 0 || memcmp(key, keyed[i - 1].key, sizeof keyed[i].key) != 0) {
            u->start[u->out->group.n] = i;
            vec_push(&u->out->group,
                     ((struct sched_group){.dtype = (enum ir_dtype)key[1],
                                           .conditional = key[0],
                                           .late = key[0] && u->o->guards == GUARDS_DISCOVERED,
                                           .guard = key[2]}));
        }
        uint32_t group = u->out->group.n - 1, param = ready->order[keyed[i].rank];
        const struct param *x = &u->p->params.at[param];
        bool late = u->out->group.at[group].late;
        u->raw[i] = ((uint64_t)x->elements * ir_dtype_bits(x->dtype) + 7) / 8;
        u->item[i] = (struct sched_item){param, group, plan_segment_bytes(u->raw[i]),
                                         late ? ready->backward_us : ready->us[param]};
        u->n_early += !late;
        if (!late) u->early_groups = group + 1;
    }
    u->start[u->out->group.n] = u->n;
}

/* ---- plans of cuts --------------------------------------------------------------------------- */

double bucketer_replay(const struct bucketer *u, const sched_cuts *cuts) {
    double now = 0;
    for (uint32_t c = 0; c < cuts->n; c++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < cuts->at[c].n; i++) {
            const struct sched_item *item = &u->item[cuts->at[c].first + i];
            now = later(now, item->ready_us);
            bytes += item->bytes;
        }
        now += topology_cost_us(u->t, bytes);
    }
    return now;
}

/* Appends the exact schedule of a range of items as if it had the channel for itself, with no start
 * before `now`. False after reporting that the limits allow none. */
static bool cut_exact(struct bucketer *u, uint32_t first, uint32_t n, double now, sched_cuts *out) {
    double *ready = malloc((n + 1u) * sizeof *ready), finish;
    uint64_t *bytes = malloc((n + 1u) * sizeof *bytes);
    uint32_t *boundary = malloc((n + 1u) * sizeof *boundary);
    if (!ready || !bytes || !boundary) arena_out_of_memory((n + 1u) * sizeof *ready);
    for (uint32_t i = 0; i < n; i++) {
        ready[i] = later(u->item[first + i].ready_us, now);
        bytes[i] = u->item[first + i].bytes;
    }
    uint32_t buckets = schedule_exact(n, ready, bytes, u->t, u->out->cap_bytes, u->out->max_buckets,
                                      boundary, &finish);
    for (uint32_t b = 0; b < buckets; b++)
        vec_push(out, ((struct sched_cut){first + boundary[b], boundary[b + 1] - boundary[b]}));
    free(ready);
    free(bytes);
    free(boundary);
    if (buckets || !n) return true;
    const char *dtype = ir_dtype_array(u->out->group.at[u->item[first].group].dtype);
    struct diag *x = diag_plain(u->d, DIAG_MAX_BUCKETS, "--max-buckets",
                                "%u gradients of type %s do not fit into %u buckets of %g MiB", n,
                                dtype, u->out->max_buckets, u->o->bucket_cap_mib);
    diag_set_help(u->d, x, "raise --max-buckets or --bucket-cap-mib");
    return false;
}

int compare_ordered(const void *a, const void *b) {
    const struct ordered *x = a, *y = b;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Fixed buckets finish first when they go by the time they are ready. */
static void sort_by_ready(const struct bucketer *u, sched_cuts *cuts) {
    struct ordered *o = malloc((cuts->n + 1u) * sizeof *o);
    if (!o) arena_out_of_memory((cuts->n + 1u) * sizeof *o);
    for (uint32_t c = 0; c < cuts->n; c++) {
        struct sched_cut cut = cuts->at[c];
        o[c] = (struct ordered){0, u->item[cut.first + cut.n - 1].ready_us, c, cut};
    }
    sort_unless_sorted(o, cuts->n, sizeof *o, compare_ordered);
    for (uint32_t c = 0; c < cuts->n; c++) cuts->at[c] = o[c].cut;
    free(o);
}

/* ---- the policies ---------------------------------------------------------------------------- */

struct merged bucketer_merge(const struct bucketer *u, struct arena *a) {
    uint32_t n = u->n_early;
    double *ready = arena_new(a, double, n + 1u);
    uint64_t *sum = arena_new(a, uint64_t, n + 1u);
    struct merged m = {{n, ready, sum}, arena_new(a, uint32_t, n + 1u)};
    struct ordered *o = malloc((n + 1u) * sizeof *o);
    if (!o) arena_out_of_memory((n + 1u) * sizeof *o);
    for (uint32_t i = 0; i < n; i++) o[i] = (struct ordered){0, u->item[i].ready_us, i, {i, 1}};
    sort_unless_sorted(o, n, sizeof *o, compare_ordered);
    for (uint32_t i = 0; i < n; i++) {
        m.item[i] = o[i].place;
        ready[i] = o[i].time;
        sum[i + 1] = sum[i] + u->item[o[i].place].bytes;
    }
    free(o);
    return m;
}

void bucketer_cut(const struct bucketer *u, const struct merged *m, const uint32_t *boundary,
                  uint32_t buckets, sched_cuts *out) {
    /* Of each group, the items up to the boundary that are not cut off yet. */
    struct arena scratch = {0};
    uint32_t *done = arena_new(&scratch, uint32_t, u->early_groups + 1u);
    uint32_t *now = arena_new(&scratch, uint32_t, u->early_groups + 1u);
    uint32_t *met = arena_new(&scratch, uint32_t, u->early_groups + 1u);
    for (uint32_t g = 0; g < u->early_groups; g++) done[g] = now[g] = u->start[g];
    for (uint32_t b = 0; b < buckets; b++) {
        uint32_t n_met = 0; /* in the order of their last gradients: that is when they are ready */
        for (uint32_t i = boundary[b + 1]; i-- > boundary[b];) {
            uint32_t g = u->item[m->item[i]].group;
            if (now[g]++ == done[g]) met[n_met++] = g;
        }
        while (n_met) {
            uint32_t g = met[--n_met];
            vec_push(out, ((struct sched_cut){done[g], now[g] - done[g]}));
            done[g] = now[g];
        }
    }
    arena_free(&scratch);
}

bool bucketer_within_limits(const struct bucketer *u, const sched_cuts *cuts) {
    uint32_t *count = calloc(u->out->group.n + 1u, sizeof *count);
    if (!count) arena_out_of_memory(u->out->group.n * sizeof *count);
    bool ok = true;
    for (uint32_t c = 0; c < cuts->n && ok; c++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < cuts->at[c].n; i++) bytes += u->item[cuts->at[c].first + i].bytes;
        uint32_t buckets = ++count[u->item[cuts->at[c].first].group];
        ok = (!u->out->max_buckets || buckets <= u->out->max_buckets) &&
             (!u->out->cap_bytes || bytes <= u->out->cap_bytes || cuts->at[c].n == 1);
    }
    free(count);
    return ok;
}

/* The best of three plans, where the optimum is out of reach. */
static bool cut_heuristic(struct bucketer *u, sched_cuts *out) {
    sched_cuts plan[3] = {0};
    struct arena scratch = {0};
    struct merged all = bucketer_merge(u, &scratch);
    uint32_t *boundary = arena_new(&scratch, uint32_t, all.lane.n + 1u);
    struct lane_room room;
    for (uint32_t g = 0; g < u->early_groups; g++) {
        uint32_t n = u->start[g + 1] - u->start[g];
        if (!cut_exact(u, u->start[g], n, 0, &plan[0])) {
            vec_free(&plan[0]);
            arena_free(&scratch);
            return false;
        }
        vec_push(&plan[2], ((struct sched_cut){u->start[g], n}));
    }
    lane_room_init(&room, &scratch, all.lane.n, u->t->n_pieces);
    double as_one = lane_optimum(&all.lane, u->t, u->out->cap_bytes, &room);
    uint32_t buckets = lane_fewest(&all.lane, u->t, u->out->cap_bytes, &room, as_one, boundary);
    bucketer_cut(u, &all, boundary, buckets, &plan[1]);
    double best = INFINITY;
    uint32_t choice = 0;
    for (uint32_t i = 0; i < 3; i++) {
        sort_by_ready(u, &plan[i]);
        double us = bucketer_within_limits(u, &plan[i]) ? bucketer_replay(u, &plan[i]) : INFINITY;
        if (us < best) best = us, choice = i;
    }
    for (uint32_t c = 0; c < plan[choice].n; c++) vec_push(out, plan[choice].at[c]);
    for (uint32_t i = 0; i < 3; i++) vec_free(&plan[i]);
    arena_free(&scratch);
    return true;
}

static bool cut_early(struct bucketer *u, sched_cuts *out) {
    if (u->early_groups == 0) return true;
    u->out->optimal = true;
    if (u->early_groups == 1) return cut_exact(u, 0, u->n_early, 0, out);
    double finish;
    if (u->early_groups == 2 && schedule_pair(u->item, u->start[1], u->n_early - u->start[1], u->t,
                                              u->out->cap_bytes, out, &finish)) {
        if (bucketer_within_limits(u, out)) return true;
        out->n = 0; /* --max-buckets is no dimension of that method */
    }
    u->out->optimal = false;
    return cut_heuristic(u, out);
}

static bool policy_exact(struct bucketer *u, sched_cuts *out) {
    if (!cut_early(u, out)) return false;
    uint32_t n_early = out->n;
    double now = bucketer_replay(u, out);
    for (uint32_t g = u->early_groups; g < u->out->group.n; g++)
        if (!cut_exact(u, u->start[g], u->start[g + 1] - u->start[g], now, out)) return false;
    double finish = bucketer_replay(u, out);
    if (finish <= u->out->lower_bound_us * (1 + SCHEDULE_EQUAL)) u->out->optimal = true;
    if (u->out->optimal) u->out->optimum_us = finish;
    if (u->o->schedule == SCHEDULE_ROBUST) u->out->worst_regret = bucketer_robust(u, out, n_early);
    return true;
}

static void policy_single(struct bucketer *u, sched_cuts *out) {
    for (uint32_t g = 0; g < u->early_groups; g++)
        vec_push(out, ((struct sched_cut){u->start[g], u->start[g + 1] - u->start[g]}));
    sort_by_ready(u, out);
    for (uint32_t g = u->early_groups; g < u->out->group.n; g++)
        vec_push(out, ((struct sched_cut){u->start[g], u->start[g + 1] - u->start[g]}));
}

/* ---- times ----------------------------------------------------------------------------------- */

static int compare_ready(const void *a, const void *b) {
    const struct sched_item *x = a, *y = b;
    if (x->ready_us != y->ready_us) return x->ready_us < y->ready_us ? -1 : 1;
    return x->param > y->param ? -1 : x->param < y->param; /* as they are ready */
}

static double lower_bound(struct bucketer *u) {
    uint64_t *tail = arena_new(&u->scratch, uint64_t, u->out->group.n + 1u);
    struct sched_item *early = arena_new(&u->scratch, struct sched_item, u->n_early + 1u);
    memcpy(early, u->item, u->n_early * sizeof *early);
    sort_unless_sorted(early, u->n_early, sizeof *early, compare_ready);
    double bound = 0, cost = 0;
    for (uint32_t i = u->n_early; i-- > 0;) {
        uint64_t *bytes = &tail[early[i].group];
        if (*bytes) cost -= topology_cost_us(u->t, *bytes);
        *bytes += early[i].bytes;
        cost += topology_cost_us(u->t, *bytes);
        bound = later(bound, early[i].ready_us + cost);
    }
    if (u->n_early < u->n) bound = later(bound, u->out->backward_us);
    for (uint32_t g = u->early_groups; g < u->out->group.n; g++) {
        uint64_t bytes = 0;
        for (uint32_t i = u->start[g]; i < u->start[g + 1]; i++) bytes += u->item[i].bytes;
        bound += topology_cost_us(u->t, bytes);
    }
    return bound;
}

/* Puts the items into the order of the cuts and gives each bucket its times. */
static void emit(struct bucketer *u, const sched_cuts *cuts) {
    struct sched *out = u->out;
    double now = 0;
    for (uint32_t c = 0; c < cuts->n; c++) {
        const struct sched_item *item = &u->item[cuts->at[c].first];
        struct sched_bucket bucket = {
            .first = out->item.n, .n = cuts->at[c].n, .group = item->group};
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < bucket.n; i++) {
            bucket.ready_us = later(bucket.ready_us, item[i].ready_us);
            bytes += item[i].bytes;
            vec_push(&out->item, item[i]);
        }
        bucket.start_us = later(now, bucket.ready_us);
        now = bucket.end_us = bucket.start_us + topology_cost_us(u->t, bytes);
        vec_push(&out->bucket, bucket);
    }
    out->finish_us = now;
}

bool schedule_step(struct program *p, uint32_t step, const struct reach *r,
                   const struct branches *b, const struct ready_times *ready,
                   const struct topology *t, const struct options *o, struct diags *d,
                   struct sched *out) {
    bool best = o->schedule == SCHEDULE_EXACT || o->schedule == SCHEDULE_ROBUST;
    *out = (struct sched){.backward_us = ready->backward_us, .worst_regret = -1};
    if (best) out->cap_bytes = bucketer_mib(o->bucket_cap_mib);
    if (best && o->max_buckets > 0) out->max_buckets = (uint32_t)o->max_buckets;
    struct bucketer u = {.p = p, .t = t, .o = o, .d = d, .out = out, .n = ready->n};
    u.item = arena_new(&u.scratch, struct sched_item, u.n + 1u);
    u.raw = arena_new(&u.scratch, uint64_t, u.n + 1u);
    group_items(&u, r, b, ready);
    out->lower_bound_us = lower_bound(&u);

    sched_cuts cuts = {0};
    bool ok = true;
    switch (o->schedule) {
    case SCHEDULE_ROBUST:
    case SCHEDULE_EXACT:
        out->optimal = true;
        ok = policy_exact(&u, &cuts);
        break;
    case SCHEDULE_DDP: bucketer_ddp(&u, &cuts); break;
    case SCHEDULE_SINGLE: policy_single(&u, &cuts); break;
    }
    if (ok) emit(&u, &cuts);
    double slack = o->schedule == SCHEDULE_ROBUST ? ROBUST_SLACK : 0;
    if (ok && best && !out->optimal && out->finish_us > out->lower_bound_us * (1 + slack))
        diag_plain(
            d, DIAG_NOT_PROVED, "--schedule",
            "step '%s': the schedule of %u groups finishes within %.2f %% of the lower bound; "
            "it is not proved to be %s",
            ir_text(p->m, p->steps.at[step].name), out->group.n,
            (out->finish_us / out->lower_bound_us - 1) * 100,
            o->schedule == SCHEDULE_EXACT ? "the best" : "within 1 % of the best");
    vec_free(&cuts);
    arena_free(&u.scratch);
    return ok;
}

void sched_free(struct sched *s) {
    vec_free(&s->item);
    vec_free(&s->bucket);
    vec_free(&s->group);
}
