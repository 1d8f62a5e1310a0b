/* The bucketings of other systems, as functions of the gradients alone, so that a plan can be
 * compared with what a user has today, and the scheduler can choose among them.
 *
 * Each takes n gradients in the order in which they are ready (ascending ready times, µs) and their
 * bytes, and fills boundary[0..k], for which the caller has room for n + 1: bucket b is
 * [boundary[b], boundary[b + 1]). Each returns k, 0 for n = 0. schedule_ddp (schedule.h) is DDP's. */
#ifndef DDPC_RIVALS_H
#define DDPC_RIVALS_H

#include "cost.h"

/* A collective per gradient: wait-free backpropagation. */
uint32_t rival_wfbp(uint32_t n, uint32_t *boundary);
/* One collective after the backward pass. */
uint32_t rival_single(uint32_t n, uint32_t *boundary);
/* MG-WFBP's merging rule. It knows one latency and one rate: those of the topology's piece that is
 * best for large messages. O(n). */
uint32_t rival_mgwfbp(uint32_t n, const double *ready_us, const uint64_t *bytes,
                      const struct topology *t, uint32_t *boundary);
/* XLA's combiner: closes before the threshold would be exceeded. */
uint32_t rival_xla(uint32_t n, const uint64_t *bytes, uint32_t *boundary);
/* Megatron-Core's: add, then close from `max(40 M, 1 M x ranks)` elements on. */
uint32_t rival_megatron(uint32_t n, const uint64_t *bytes, uint32_t element_bytes, uint32_t ranks,
                        uint32_t *boundary);
/* Horovod's: every cycle it fuses what is ready by then. release_us[b], room for n, gets the moment
 * of the cycle that bucket b waited for, before which it does not start even on a free channel. */
uint32_t rival_horovod(uint32_t n, const double *ready_us, const uint64_t *bytes,
                       const struct topology *t, uint32_t *boundary, double *release_us);

#endif
