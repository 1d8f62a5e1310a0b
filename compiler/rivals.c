/* What other systems do with the same gradients, each in a few lines.
 *
 * All of them but one decide by size alone, so their buckets are the same on every network: DDP
 * (ddp.c), Megatron-Core and XLA's combiner by a fixed size, wait-free backpropagation by none, one
 * bucket by infinity. Horovod decides by the clock: its background thread wakes every cycle and
 * fuses what has arrived, so its buckets depend on the run. MG-WFBP alone looks at ready times and
 * the network; it decides from front to back and never takes a merge back, which is why it is not
 * optimal.
 *
 * Sources:
 *   WFBP      Zhang et al., "Poseidon", USENIX ATC 2017
 *   MG-WFBP   Shi et al., INFOCOM 2019; github.com/HKBU-HPML/MG-WFBP, distributed_optimizer.py,
 *             _generate_groups_mgwfbp
 *   Horovod   Sergeev and Del Balso, 2018; HOROVOD_FUSION_THRESHOLD = 128 MiB, HOROVOD_CYCLE_TIME =
 *             1 ms: horovod/common/common.h, operations.cc
 *   XLA       all_reduce_combiner.cc; xla_gpu_all_reduce_combine_threshold_bytes = 30 MiB + 7
 *   Megatron  Megatron-Core, distributed/distributed_data_parallel.py: bucket_size
 *
 * Only +, -, *, / and comparisons of doubles: the same buckets everywhere. */
#include "rivals.h"
#include "schedule.h"

#define MIB ((uint64_t)1 << 20)
enum { MEGATRON_ELEMENTS = 40000000, MEGATRON_ELEMENTS_PER_RANK = 1000000 };
static const uint64_t xla_bytes = 30 * MIB + 7, horovod_bytes = 128 * MIB;
static const double horovod_cycle_us = 1000;

uint32_t rival_wfbp(uint32_t n, uint32_t *boundary) {
    for (uint32_t i = 0; i <= n; i++) boundary[i] = i;
    return n;
}

uint32_t rival_single(uint32_t n, uint32_t *boundary) {
    boundary[0] = 0;
    if (n) boundary[1] = n;
    return n > 0;
}

uint32_t rival_mgwfbp(uint32_t n, const double *ready_us, const uint64_t *bytes,
                      const struct topology *t, uint32_t *boundary) {
    struct cost_piece piece = t->piece[0];
    for (uint32_t p = 1; p < t->n_pieces; p++)
        if (t->piece[p].us_per_byte < piece.us_per_byte) piece = t->piece[p];
    uint32_t buckets = 0;
    boundary[0] = 0;
    if (n == 0) return 0;
    double start = ready_us[0]; /* of the open bucket, if it closed now */
    uint64_t size = bytes[0];
    for (uint32_t i = 1; i < n; i++) {
        double end = start + (piece.alpha_us + piece.us_per_byte * (double)size);
        /* Waiting for the next gradient pays where that costs less than a latency of its own. */
        if (ready_us[i] < end && ready_us[i] - start < piece.alpha_us) {
            if (ready_us[i] > start) start = ready_us[i];
            size += bytes[i];
            continue;
        }
        boundary[++buckets] = i;
        start = end > ready_us[i] ? end : ready_us[i];
        size = bytes[i];
    }
    boundary[++buckets] = n;
    return buckets;
}

/* How many gradients of [first, end) fit into `most` bytes; at least one. */
static uint32_t fill(const uint64_t *bytes, uint32_t first, uint32_t end, uint64_t most) {
    uint32_t i = first + 1;
    for (uint64_t size = bytes[first]; i < end && size + bytes[i] <= most; i++) size += bytes[i];
    return i - first;
}

uint32_t rival_xla(uint32_t n, const uint64_t *bytes, uint32_t *boundary) {
    uint32_t buckets = 0;
    boundary[0] = 0;
    for (uint32_t i = 0; i < n; boundary[++buckets] = i) i += fill(bytes, i, n, xla_bytes);
    return buckets;
}

uint32_t rival_megatron(uint32_t n, const uint64_t *bytes, uint32_t element_bytes, uint32_t ranks,
                        uint32_t *boundary) {
    uint64_t elements = (uint64_t)MEGATRON_ELEMENTS_PER_RANK * ranks;
    if (elements < MEGATRON_ELEMENTS) elements = MEGATRON_ELEMENTS;
    return schedule_ddp(n, bytes, elements * element_bytes, elements * element_bytes, boundary);
}

/* The first cycle that begins at `us` or later. */
static double cycle_after(double us) {
    if (us > 1e18) return us; /* no cycle can be told from the next there */
    double cycle = (double)(uint64_t)(us / horovod_cycle_us) * horovod_cycle_us;
    return cycle < us ? cycle + horovod_cycle_us : cycle;
}

/* The thread that wakes also waits for the collectives that it issues; while it is late it does not
 * sleep. */
uint32_t rival_horovod(uint32_t n, const double *ready_us, const uint64_t *bytes,
                       const struct topology *t, uint32_t *boundary, double *release_us) {
    uint32_t buckets = 0;
    double now = 0;
    boundary[0] = 0;
    for (uint32_t i = 0; i < n;) {
        double cycle = cycle_after(ready_us[i]);
        if (cycle > now) now = cycle;
        cycle = now;
        uint32_t end = i;
        while (end < n && ready_us[end] <= cycle) end++;
        while (i < end) {
            uint32_t count = fill(bytes, i, end, horovod_bytes);
            uint64_t size = 0;
            for (uint32_t k = i; k < i + count; k++) size += bytes[k];
            now += topology_cost_us(t, size);
            release_us[buckets] = cycle;
            boundary[++buckets] = i += count;
        }
    }
    return buckets;
}
