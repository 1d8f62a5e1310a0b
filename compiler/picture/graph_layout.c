/* Layers of boxes, in the manner of Sugiyama, each step linear or n log n.
 *
 *   1. A box is one layer below the lowest that leads to it; one that leads to at least as many as lead
 *      to it sinks to just above the first of them. Edges against the order of places (folding a graph can close
 *      circles) count as reversed.
 *   2. What leads further than to the next layer hangs on the box's trunk: items without width in the
 *      layers between. One trunk for all such edges keeps a mask that every layer reads to one line.
 *   3. Sweeps down and up put each layer in the order of the means of its neighbours' positions.
 *   4. The same sweeps for places: within an order, those nearest to the neighbours' means (least
 *      squares under the widths) are an isotonic regression, solved by pooling neighbours. */
#include "graph.h"
#include <stdlib.h>
#include <string.h>

enum { GAP_X = 18, GAP_Y = 34, TRUNK_WIDTH = 2, ORDER_SWEEPS = 6, PLACE_SWEEPS = 8 };
/* How much neighbours draw each other: pieces of a trunk, and ends of an edge that shall be straight;
 * others by 1; a box and its trunk. */
#define STRAIGHT 8.
#define LOOSE    .1

struct item {
    uint32_t node; /* whose it is, itself or a piece of its trunk */
    uint32_t layer, position;
    double width, x, key, weight;
    bool bend; /* a piece of a trunk */
};

/* Neighbours of items: of i, at[start[i]] to at[start[i + 1]]. */
struct neighbours {
    uint32_t *start, *at;
    double *weight;
};

struct layers {
    struct layout *l;
    struct arena scratch;
    struct item *item;
    uint32_t n_items, n_layers;
    uint32_t *layer_start, *in_layer; /* items, layer by layer, in order */
    struct neighbours above, below;
    double *top, *height; /* by layer */
};

struct rank {
    uint32_t place, node;
};

static int compare_ranks(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Pairs (key, other) as lists by key. */
static struct neighbours lists(struct arena *a, uint32_t n, const uint32_t *key,
                               const uint32_t *other, const double *weight, uint32_t pairs) {
    struct neighbours out = {arena_new(a, uint32_t, n + 2), arena_new(a, uint32_t, pairs + 1),
                             weight ? arena_new(a, double, pairs + 1) : NULL};
    for (uint32_t i = 0; i < pairs; i++) out.start[key[i] + 2]++;
    for (uint32_t i = 0; i < n; i++) out.start[i + 2] += out.start[i + 1];
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t at = out.start[key[i] + 1]++;
        out.at[at] = other[i];
        if (weight) out.weight[at] = weight[i];
    }
    return out;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static void find_layers(struct layers *s) {
    struct layout *l = s->l;
    struct rank *rank = arena_new(&s->scratch, struct rank, l->n + 1);
    uint32_t *rank_of = arena_new(&s->scratch, uint32_t, l->n + 1);
    uint32_t *over = arena_new(&s->scratch, uint32_t, l->n_edges + 1);
    uint32_t *under = arena_new(&s->scratch, uint32_t, l->n_edges + 1);
    uint32_t *above = arena_new(&s->scratch, uint32_t, l->n + 1);
    for (uint32_t i = 0; i < l->n; i++) rank[i] = (struct rank){l->node[i].place, i};
    qsort(rank, l->n, sizeof *rank, compare_ranks);
    for (uint32_t i = 0; i < l->n; i++) rank_of[rank[i].node] = i;
    for (uint32_t i = 0; i < l->n_edges; i++) {
        struct layout_edge *e = &l->edge[i];
        bool up = rank_of[e->from] > rank_of[e->to];
        over[i] = e->over = up ? e->to : e->from;
        under[i] = e->under = up ? e->from : e->to;
        above[e->under]++;
    }
    struct neighbours below = lists(&s->scratch, l->n, over, under, NULL, l->n_edges);
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t u = rank[i].node;
        for (uint32_t k = below.start[u]; k < below.start[u + 1]; k++) {
            struct layout_node *v = &l->node[below.at[k]];
            if (v->layer <= l->node[u].layer) v->layer = l->node[u].layer + 1;
        }
        if (l->node[u].layer >= s->n_layers) s->n_layers = l->node[u].layer + 1;
    }
    for (uint32_t i = l->n; i-- > 0;) {
        uint32_t u = rank[i].node, nearest = UINT32_MAX, n = below.start[u + 1] - below.start[u];
        for (uint32_t k = below.start[u]; k < below.start[u + 1]; k++)
            if (l->node[below.at[k]].layer < nearest) nearest = l->node[below.at[k]].layer;
        if (n && n >= above[u]) l->node[u].layer = nearest - 1;
    }
    /* By rank, so that the first order of each layer is that of execution. */
    s->item = arena_new(&s->scratch, struct item, l->n + 1);
    for (uint32_t i = 0; i < l->n; i++)
        s->item[i] = (struct item){
            .node = i, .layer = l->node[i].layer, .width = l->node[i].width, .key = rank_of[i]};
    s->n_items = l->n;
}

static void grow_trunks(struct layers *s) {
    struct layout *l = s->l;
    uint64_t room = 20 * ((uint64_t)l->n + l->n_edges) + 2000, points = 0;
    uint32_t *length = arena_new(&s->scratch, uint32_t, l->n + 1);
    for (uint32_t i = 0; i < l->n_edges; i++) {
        const struct layout_edge *e = &l->edge[i];
        uint32_t between = l->node[e->under].layer - l->node[e->over].layer - 1;
        if (between > length[e->over]) length[e->over] = between;
    }
    for (uint32_t u = 0; u < l->n; u++) {
        if (points + length[u] > room) length[u] = 0;
        l->node[u].trunk = (uint32_t)points;
        l->node[u].n_trunk = length[u];
        points += length[u];
    }
    l->point = arena_new(l->arena, struct layout_point, points + 1);
    struct item *all = arena_new(&s->scratch, struct item, l->n + points + 1);
    memcpy(all, s->item, sizeof *all * l->n);
    for (uint32_t u = 0; u < l->n; u++)
        for (uint32_t k = 0; k < length[u]; k++)
            all[l->n + l->node[u].trunk + k] = (struct item){.node = u,
                                                             .layer = l->node[u].layer + 1 + k,
                                                             .width = TRUNK_WIDTH,
                                                             .key = all[u].key,
                                                             .bend = true};
    s->item = all;
    s->n_items = l->n + (uint32_t)points;

    uint32_t *a = arena_new(&s->scratch, uint32_t, points + l->n_edges + 1);
    uint32_t *b = arena_new(&s->scratch, uint32_t, points + l->n_edges + 1), n = 0;
    double *weight = arena_new(&s->scratch, double, points + l->n_edges + 1);
    for (uint32_t u = 0; u < l->n; u++)
        for (uint32_t k = 0; k < length[u]; k++, n++) {
            b[n] = l->n + l->node[u].trunk + k;
            a[n] = k ? b[n] - 1 : u;
            weight[n] = k ? STRAIGHT : LOOSE;
        }
    for (uint32_t i = 0; i < l->n_edges; i++) {
        struct layout_edge *e = &l->edge[i];
        const struct layout_node *u = &l->node[e->over];
        e->leaves = l->node[e->under].layer - u->layer - 1;
        e->direct = e->leaves > u->n_trunk;
        if (e->direct) continue;
        a[n] = e->leaves ? l->n + u->trunk + e->leaves - 1 : e->over;
        weight[n] = e->leaves ? LOOSE : e->straight ? STRAIGHT : 1;
        b[n++] = e->under;
    }
    s->below = lists(&s->scratch, s->n_items, a, b, weight, n);
    s->above = lists(&s->scratch, s->n_items, b, a, weight, n);
}

/* ---- the order in each layer ----------------------------------------------------------------- */

struct keyed {
    double key;
    uint32_t position, item;
};

static int compare_keyed(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static void sort_layer(struct layers *s, uint32_t layer, struct keyed *room) {
    uint32_t *in = &s->in_layer[s->layer_start[layer]];
    uint32_t n = s->layer_start[layer + 1] - s->layer_start[layer];
    for (uint32_t i = 0; i < n; i++) room[i] = (struct keyed){s->item[in[i]].key, i, in[i]};
    qsort(room, n, sizeof *room, compare_keyed);
    for (uint32_t i = 0; i < n; i++) {
        in[i] = room[i].item;
        s->item[in[i]].position = i;
    }
}

static void order_layers(struct layers *s) {
    uint32_t *layer = arena_new(&s->scratch, uint32_t, s->n_items + 1);
    uint32_t *self = arena_new(&s->scratch, uint32_t, s->n_items + 1);
    struct keyed *room = arena_new(&s->scratch, struct keyed, s->n_items + 1);
    for (uint32_t i = 0; i < s->n_items; i++) layer[i] = s->item[i].layer, self[i] = i;
    struct neighbours by = lists(&s->scratch, s->n_layers, layer, self, NULL, s->n_items);
    s->layer_start = by.start;
    s->in_layer = by.at;
    for (uint32_t k = 0; k < s->n_layers; k++) sort_layer(s, k, room);
    for (int sweep = 0; sweep < ORDER_SWEEPS; sweep++) {
        bool down = sweep % 2 == 0;
        const struct neighbours *of = down ? &s->above : &s->below;
        for (uint32_t k = 0; k < s->n_layers; k++) {
            uint32_t at = down ? k : s->n_layers - 1 - k;
            for (uint32_t i = by.start[at]; i < by.start[at + 1]; i++) {
                struct item *x = &s->item[by.at[i]];
                uint32_t first = of->start[by.at[i]], end = of->start[by.at[i] + 1];
                double sum = 0;
                for (uint32_t j = first; j < end; j++) {
                    const struct item *y = &s->item[of->at[j]];
                    uint32_t n = by.start[y->layer + 1] - by.start[y->layer];
                    sum += (y->position + .5) / n;
                }
                uint32_t n = by.start[at + 1] - by.start[at];
                x->key = end > first ? sum / (end - first) : (x->position + .5) / n;
            }
            sort_layer(s, at, room);
        }
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

struct pool {
    double sum, weight;
    uint32_t n;
};

static double distance(const struct item *a, const struct item *b) {
    double gap = a->bend && b->bend ? GAP_X / 2. : GAP_X;
    return (a->width + b->width) / 2 + gap;
}

/* Items get the places nearest to their keys that their order and widths allow. */
static void settle(struct layers *s, uint32_t layer, struct pool *pool) {
    const uint32_t *in = &s->in_layer[s->layer_start[layer]];
    uint32_t n = s->layer_start[layer + 1] - s->layer_start[layer], pools = 0;
    double offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct item *x = &s->item[in[i]];
        if (i) offset += distance(&s->item[in[i - 1]], x);
        double weight = x->weight;
        struct pool p = {(x->key - offset) * weight, weight, 1};
        while (pools && pool[pools - 1].sum * p.weight >= p.sum * pool[pools - 1].weight) {
            pools--;
            p = (struct pool){p.sum + pool[pools].sum, p.weight + pool[pools].weight,
                              p.n + pool[pools].n};
        }
        pool[pools++] = p;
    }
    offset = 0;
    for (uint32_t i = 0, k = 0; k < pools; k++)
        for (uint32_t end = i + pool[k].n; i < end; i++) {
            if (i) offset += distance(&s->item[in[i - 1]], &s->item[in[i]]);
            s->item[in[i]].x = pool[k].sum / pool[k].weight + offset;
        }
}

static void add_neighbours(const struct layers *s, const struct neighbours *of, uint32_t i,
                           double *sum, double *weight) {
    for (uint32_t k = of->start[i]; k < of->start[i + 1]; k++) {
        *sum += of->weight[k] * s->item[of->at[k]].x;
        *weight += of->weight[k];
    }
}

static void place_layers(struct layers *s) {
    struct pool *pool = arena_new(&s->scratch, struct pool, s->n_items + 1);
    for (int sweep = 0; sweep < PLACE_SWEEPS; sweep++)
        for (uint32_t k = 0; k < s->n_layers; k++) {
            uint32_t at = sweep % 2 ? s->n_layers - 1 - k : k;
            for (uint32_t i = s->layer_start[at]; i < s->layer_start[at + 1]; i++) {
                struct item *x = &s->item[s->in_layer[i]];
                double sum = 0, weight = 0;
                bool last = sweep == PLACE_SWEEPS - 1;
                if (last || sweep % 2 == 0)
                    add_neighbours(s, &s->above, s->in_layer[i], &sum, &weight);
                if (last || sweep % 2) add_neighbours(s, &s->below, s->in_layer[i], &sum, &weight);
                x->key = weight > 0 ? sum / weight : x->x;
                x->weight = x->bend ? LOOSE : weight > 0 ? weight : 1;
            }
            settle(s, at, pool);
        }
}

static void measure(struct layers *s) {
    struct layout *l = s->l;
    double least = 0, most = 0;
    s->top = arena_new(&s->scratch, double, s->n_layers + 1);
    s->height = arena_new(&s->scratch, double, s->n_layers + 1);
    for (uint32_t i = 0; i < s->n_items; i++) {
        const struct item *x = &s->item[i];
        if (!i || x->x - x->width / 2 < least) least = x->x - x->width / 2;
        if (!i || x->x + x->width / 2 > most) most = x->x + x->width / 2;
        if (i < l->n && l->node[i].height > s->height[x->layer])
            s->height[x->layer] = l->node[i].height;
    }
    for (uint32_t k = 0; k < s->n_layers; k++) s->top[k + 1] = s->top[k] + s->height[k] + GAP_Y;
    for (uint32_t i = 0; i < s->n_items; i++) {
        double x = s->item[i].x - least;
        uint32_t layer = s->item[i].layer;
        if (i < l->n) {
            l->node[i].x = x;
            l->node[i].top = s->top[layer];
            l->node[i].bottom = s->top[layer] + s->height[layer];
            double spare = s->height[layer] - l->node[i].height;
            l->node[i].y = s->top[layer] + (l->n_edges ? spare / 2 : 0);
        } else
            l->point[i - l->n] =
                (struct layout_point){x, s->top[layer], s->top[layer] + s->height[layer]};
    }
    l->width = most - least;
    l->height = s->n_layers ? s->top[s->n_layers] - GAP_Y : 0;
}

void layout_layers(struct layout *l) {
    struct layers s = {.l = l};
    find_layers(&s);
    grow_trunks(&s);
    order_layers(&s);
    place_layers(&s);
    measure(&s);
    arena_free(&s.scratch);
}
