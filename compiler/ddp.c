/* DDP's buckets: the rule of PyTorch's DistributedDataParallel, for plans that shall look like its
 * own.
 *
 * A tensor is added to the open bucket first; the bucket closes when it has then reached the limit.
 * So buckets overshoot and a tensor is never split. The first limit is small (1 MiB), so that the
 * first collective starts early; all others are the cap. What is left at the end is the last
 * bucket. Sizes are the gradients' own, without the padding that the plan's layout adds. Source:
 * compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp. */
#include "schedule.h"

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
