/* What varies from step to step: how long the backward pass takes on each rank, and how fast the
 * network is. Drawn from a seed: the same seed gives the same steps on every machine, whatever is
 * simulated on them. Times are µs. */
#ifndef DDPC_JITTER_H
#define DDPC_JITTER_H

#include <stdbool.h>
#include <stdint.h>

enum { JITTER_MAX_RANKS = 16384 };
/* Relative standard deviations up to which no time can become negative. */
#define JITTER_MAX_OP   0.40
#define JITTER_MAX_RANK 0.15

struct jitter {
    uint64_t seed;
    uint32_t ranks;       /* 1 to JITTER_MAX_RANKS */
    double op, rank;      /* of each stretch of each rank's step; of each rank's whole step */
    const double *factor; /* by rank, in every step: a straggler's is above 1; NULL: all 1 */
    double slow_share;    /* of the steps in which the network is slow */
    double slow_factor;   /* what a byte then takes, against what it takes else; 1 or more */
};
#define JITTER_NO_RANK UINT32_MAX

/* The backward pass of one step. Its stretches end at moment_us[0..n), ascending, as it would go
 * without jitter; at_us[i] gets the time at which the last of the ranks comes to the end of stretch
 * i. Returns the rank that ends last, JITTER_NO_RANK if all ranks do at the same time. Takes
 * O(n + ranks), with jitter of operations O(n * ranks). */
uint32_t jitter_backward(const struct jitter *j, uint32_t step, uint32_t n, const double *moment_us,
                         double *at_us);
/* What a byte takes on the network in this step, against what it takes without jitter. */
double jitter_network(const struct jitter *j, uint32_t step);
/* Draws `count` of the ranks, the same for all steps: sets chosen[rank] for them. */
void jitter_choose(uint64_t seed, uint32_t ranks, uint32_t count, bool *chosen);

#endif
