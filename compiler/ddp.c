/* DDP's buckets: the rule of PyTorch's DistributedDataParallel, for plans that shall look like its
 * own.
 *
 * A tensor is added to the open bucket first; the bucket closes when it has then reached the limit.
 * So buckets overshoot and a tensor is never split. The first limit is small (1 MiB), so that the
 * first collective starts early; all others are the cap. What is left at the end is the last
 * bucket. Sizes are the gradients' own, without the padding that the plan's layout adds. Source:
 * compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp. */
#include "buckets.h"
#include <stdlib.h>
#include <string.h>

uint32_t schedule_ddp(uint32_t n, const uint64_t *bytes, uint64_t first_bytes, uint64_t cap_bytes,
                      uint32_t *boundary) {
    uint32_t buckets = 0;
    uint64_t size = 0, limit = first_bytes;
    boundary[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        size += bytes[i];
        if (size < limit && i + 1 < n) continue;
        boundary[++buckets] = i + 1;
        size = 0;
        limit = cap_bytes;
    }
    return buckets;
}

/* Where the walk meets an item: registration order runs backwards, the flag's forwards. */
static double place_of(const struct bucketer *u, uint32_t i) {
    switch (u->o->order) {
    case ORDER_READY: return u->item[i].ready_us;
    case ORDER_REGISTRATION: return -(double)u->item[i].param;
    case ORDER_DDP_FLAG: break;
    }
    return u->item[i].param;
}

void bucketer_ddp(struct bucketer *u, sched_cuts *out) {
    uint64_t first = bucketer_mib(u->o->first_bucket_mib > 0 ? u->o->first_bucket_mib : 1);
    uint64_t cap = bucketer_mib(u->o->bucket_cap_mib > 0 ? u->o->bucket_cap_mib : 25);
    uint32_t *boundary = arena_new(&u->scratch, uint32_t, u->n + 1u);
    struct ordered *o = arena_new(&u->scratch, struct ordered, u->n + 1u);
    struct sched_item *items = arena_new(&u->scratch, struct sched_item, u->n + 1u);
    uint64_t *raw = arena_new(&u->scratch, uint64_t, u->n + 1u);
    VEC(struct ordered) cuts = {0};
    for (uint32_t g = 0; g < u->out->group.n; g++) {
        uint32_t start = u->start[g], n = u->start[g + 1] - start;
        for (uint32_t i = 0; i < n; i++)
            o[i] = (struct ordered){0, place_of(u, start + i), i, {start + i, 1}};
        qsort(o, n, sizeof *o, compare_ordered);
        for (uint32_t i = 0; i < n; i++) {
            items[i] = u->item[o[i].cut.first];
            raw[i] = u->raw[o[i].cut.first];
        }
        memcpy(u->item + start, items, n * sizeof *items);
        memcpy(u->raw + start, raw, n * sizeof *raw);
        uint32_t buckets = schedule_ddp(n, raw, first, cap, boundary);
        for (uint32_t b = 0; b < buckets; b++) {
            /* Buckets go in the order in which they closed, then what was left over when the walk
             * ended. With the flag the list goes by first tensors and is turned round. */
            uint64_t size = 0;
            for (uint32_t i = boundary[b]; i < boundary[b + 1]; i++) size += raw[i];
            bool flag = u->o->order == ORDER_DDP_FLAG;
            bool left_over = !flag && size < (b ? cap : first);
            struct sched_cut cut = {start + boundary[b], boundary[b + 1] - boundary[b]};
            double place = place_of(u, flag || left_over ? cut.first : cut.first + cut.n - 1);
            vec_push(&cuts, ((struct ordered){2u * u->out->group.at[g].late + left_over,
                                              flag ? -place : place, cut.first, cut}));
        }
    }
    if (cuts.n) qsort(cuts.at, cuts.n, sizeof *cuts.at, compare_ordered);
    for (uint32_t c = 0; c < cuts.n; c++) vec_push(out, cuts.at[c].cut);
    vec_free(&cuts);
}
