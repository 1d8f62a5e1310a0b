/* Which thing of NEW is which of OLD.
 *
 * Parameters and steps are known by name. What is left over on both sides is paired by structure: a
 * parameter with the first unpaired one of the same type, a step with the next unpaired one if at
 * least half of the gradients are common. Such a pair is a renaming, one change instead of a
 * removal and an addition.
 *
 * Buckets have no names; they are their members. Every gradient that both plans have draws an edge
 * from its old bucket to its new one. The pairs of buckets with an edge are sorted by Jaccard's
 * measure (common members over all members) and taken greedily from 1/2 up, ties to the lower old
 * index. The connected components of the same graph tell splits and merges from buckets that merely
 * lost or gained: a component of one old and one new bucket is the same bucket, any other is one
 * change, however many gradients moved. All of it is sorting and linear passes. */
#include "diff.h"
#include <stdlib.h>
#include <string.h>

static uint32_t *filled(struct arena *a, uint32_t n) {
    uint32_t *at = arena_new(a, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) at[i] = PLAN_NONE;
    return at;
}

/* ---- parameters ------------------------------------------------------------------------------ */

struct typed {
    const struct plan *plan;
    uint32_t param;
};

static int compare_types(const struct typed *a, const struct typed *b) {
    const struct plan_param *p = &a->plan->param[a->param], *q = &b->plan->param[b->param];
    if (p->dtype != q->dtype) return p->dtype < q->dtype ? -1 : 1;
    if (p->rank != q->rank) return p->rank < q->rank ? -1 : 1;
    return p->rank ? memcmp(a->plan->dim + p->first_dim, b->plan->dim + q->first_dim,
                            p->rank * sizeof *a->plan->dim)
                   : 0;
}

static int compare_typed(const void *left, const void *right) {
    const struct typed *a = left, *b = right;
    int order = compare_types(a, b);
    return order ? order : (a->param > b->param) - (a->param < b->param);
}

static struct typed *unpaired(struct diff *d, const struct plan *p, const uint32_t *partner,
                              uint32_t *n) {
    struct typed *list = arena_new(d->arena, struct typed, p->n_params + 1);
    *n = 0;
    for (uint32_t i = 0; i < p->n_params; i++)
        if (partner[i] == PLAN_NONE) list[(*n)++] = (struct typed){p, i};
    qsort(list, *n, sizeof *list, compare_typed);
    return list;
}

void diff_align_params(struct diff *d) {
    uint32_t n_old, n_new;
    d->param_to_new = filled(d->arena, d->old->n_params);
    d->param_to_old = filled(d->arena, d->new->n_params);
    for (uint32_t i = 0; i < d->old->n_params; i++) {
        const char *name = plan_param_name(d->old, i);
        uint32_t j = d->param_to_new[i] = plan_find_param(d->new, name, strlen(name));
        if (j != PLAN_NONE) d->param_to_old[j] = i;
    }
    const struct typed *old = unpaired(d, d->old, d->param_to_new, &n_old);
    const struct typed *new = unpaired(d, d->new, d->param_to_old, &n_new);
    for (uint32_t i = 0, j = 0; i < n_old && j < n_new;) {
        int order = compare_types(&old[i], &new[j]);
        if (order == 0) {
            d->param_to_new[old[i].param] = new[j].param;
            d->param_to_old[new[j].param] = old[i].param;
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Whether two steps have at least half of their gradients in common. */
static bool steps_are_alike(const struct diff *d, uint32_t old, uint32_t new) {
    uint32_t common = 0;
    uint32_t all = d->old->step[old].n_segments + d->new->step[new].n_segments;
    for (uint32_t i = 0; i < d->old->n_params; i++) {
        uint32_t j = d->param_to_new[i];
        common += j != PLAN_NONE && plan_step_param(d->old, old, i)->segment != PLAN_NONE &&
                  plan_step_param(d->new, new, j)->segment != PLAN_NONE;
    }
    return 3 * common >= all; /* common / (all - common) >= 1/2 */
}

static uint32_t next_unpaired(const uint32_t *partner, uint32_t n, uint32_t from) {
    while (from < n && partner[from] != PLAN_NONE) from++;
    return from;
}

void diff_align_steps(struct diff *d) {
    uint32_t n_old = d->old->n_steps, n_new = d->new->n_steps;
    d->step_to_new = filled(d->arena, n_old);
    d->step_to_old = filled(d->arena, n_new);
    for (uint32_t i = 0; i < n_old; i++) {
        uint32_t j = plan_find_step(d->new, plan_string(d->old, d->old->step[i].name));
        d->step_to_new[i] = j;
        if (j != PLAN_NONE) d->step_to_old[j] = i;
    }
    uint32_t i = next_unpaired(d->step_to_new, n_old, 0);
    uint32_t j = next_unpaired(d->step_to_old, n_new, 0);
    while (i < n_old && j < n_new) {
        if (steps_are_alike(d, i, j)) {
            d->step_to_new[i] = j;
            d->step_to_old[j] = i;
        }
        i = next_unpaired(d->step_to_new, n_old, i + 1);
        j = next_unpaired(d->step_to_old, n_new, j + 1);
    }
}

/* ---- buckets --------------------------------------------------------------------------------- */

struct edge {
    uint32_t old, new, common; /* buckets, and the gradients that both have */
    double likeness;
};

static int compare_edges(const void *left, const void *right) {
    const struct edge *a = left, *b = right;
    if (a->old != b->old) return a->old < b->old ? -1 : 1;
    return (a->new > b->new) - (a->new < b->new);
}

static int compare_likeness(const void *left, const void *right) {
    const struct edge *a = left, *b = right;
    if (a->likeness != b->likeness) return a->likeness > b->likeness ? -1 : 1;
    return compare_edges(left, right);
}

static uint32_t find_root(uint32_t *parent, uint32_t i) {
    for (; parent[i] != i; i = parent[i]) parent[i] = parent[parent[i]];
    return i;
}

static uint32_t collect_edges(const struct diff *d, uint32_t old_step, const bool *follows,
                              struct edge *edges) {
    const struct plan_step *s = &d->old->step[old_step];
    uint32_t n = 0, distinct = 0;
    for (uint32_t i = s->first_segment; i < s->first_segment + s->n_segments; i++) {
        uint32_t param = d->old->segment[i].param;
        if (!follows[param]) continue;
        uint32_t segment =
            plan_step_param(d->new, d->step_to_new[old_step], d->param_to_new[param])->segment;
        edges[n++] =
            (struct edge){d->old->segment[i].bucket, d->new->segment[segment].bucket, 1, 0};
    }
    qsort(edges, n, sizeof *edges, compare_edges);
    for (uint32_t i = 0; i < n; i++) {
        if (distinct && compare_edges(&edges[distinct - 1], &edges[i]) == 0)
            edges[distinct - 1].common++;
        else
            edges[distinct++] = edges[i];
    }
    return distinct;
}

void diff_align_buckets(struct diff *d, uint32_t old_step, const bool *follows) {
    const struct plan *old = d->old, *new = d->new;
    struct edge *edges = arena_new(d->arena, struct edge, old->step[old_step].n_segments + 1);
    uint32_t n = collect_edges(d, old_step, follows, edges);
    /* Components by union and find over the buckets of OLD, then those of NEW. */
    const struct plan_step *s = &old->step[old_step], *t = &new->step[d->step_to_new[old_step]];
    uint32_t *parent = arena_new(d->arena, uint32_t, s->n_buckets + t->n_buckets);
    uint32_t *taken = filled(d->arena, t->n_buckets);
    for (uint32_t i = 0; i < s->n_buckets + t->n_buckets; i++) parent[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        struct edge *e = &edges[i];
        uint32_t a = find_root(parent, e->old - s->first_bucket);
        uint32_t b = find_root(parent, s->n_buckets + e->new - t->first_bucket);
        parent[a > b ? a : b] = a > b ? b : a;
        uint32_t members = old->bucket[e->old].n_segments + new->bucket[e->new].n_segments;
        e->likeness = (double)e->common / (members - e->common);
    }
    for (uint32_t i = 0; i < s->n_buckets; i++)
        d->old_component[s->first_bucket + i] = find_root(parent, i);
    for (uint32_t i = 0; i < t->n_buckets; i++)
        d->new_component[t->first_bucket + i] = find_root(parent, s->n_buckets + i);
    qsort(edges, n, sizeof *edges, compare_likeness);
    for (uint32_t i = 0; i < n && edges[i].likeness >= 0.5; i++) {
        uint32_t *partner = &d->bucket_to_new[edges[i].old];
        uint32_t *owner = &taken[edges[i].new - t->first_bucket];
        if (*partner == PLAN_NONE && *owner == PLAN_NONE) {
            *partner = edges[i].new;
            *owner = edges[i].old;
        }
    }
}

uint32_t diff_longest_ascending(const uint32_t *value, uint32_t n, bool *keep, struct arena *a) {
    /* Patience sorting: tail[k] is the index of the least value that ends an ascending run of k
     * + 1. */
    uint32_t *tail = arena_new(a, uint32_t, n + 1), *before = arena_new(a, uint32_t, n + 1);
    uint32_t length = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t low = 0, high = length;
        while (low < high) {
            uint32_t mid = (low + high) / 2;
            if (value[tail[mid]] < value[i])
                low = mid + 1;
            else
                high = mid;
        }
        before[i] = low ? tail[low - 1] : PLAN_NONE;
        tail[low] = i;
        if (low == length) length++;
        keep[i] = false;
    }
    for (uint32_t i = length ? tail[length - 1] : PLAN_NONE; i != PLAN_NONE; i = before[i])
        keep[i] = true;
    return length;
}
