/* Few affine pieces for a cost that is known at points: by a model (compiler/nccl.c) or by
 * measurement (ddprun --calibrate). */
#ifndef DDPC_PIECES_H
#define DDPC_PIECES_H

#include "plan.h"
#include <stdbool.h>

struct cost_point {
    double bytes, us;
};
enum { PIECES_MAX_POINTS = 256 };

/* Replaces the times by the least at that size or above, since a bucket can be padded: a cost that
 * never falls. Points ascend by bytes. */
void pieces_monotone(struct cost_point *point, uint32_t n);

/* The fewest pieces, at most `most`, whose least is within `good` (.05: 5 %) of the cost at every
 * point; if that many do not do it, the best of them. 1 to 256 points ascend by bytes, times never
 * fall; both are above 0. Returns how many pieces there are, the steepest first; *error is how far
 * the pieces are from the points, the same upwards and downwards. */
uint32_t pieces_fit(const struct cost_point *point, uint32_t n, uint32_t most, double good,
                    struct plan_piece *piece, double *error);

static inline double pieces_us(const struct plan_piece *piece, uint32_t n, double bytes) {
    double best = piece[0].alpha_us + piece[0].us_per_byte * bytes;
    for (uint32_t i = 1; i < n; i++) {
        double us = piece[i].alpha_us + piece[i].us_per_byte * bytes;
        if (us < best) best = us;
    }
    return best;
}

#endif
