/* What the files of the certificate's check share. */
#ifndef DDPC_CERTIFICATE_CHECK_H
#define DDPC_CERTIFICATE_CHECK_H

#include "arena.h"
#include "certificate.h"

/* Steps of the inner loops that a check may take: about a second. */
#define WORK_LIMIT 5e8

struct checker {
    const struct certificate *c;
    struct certificate_report *out;
    /* What is computed with: the certificate's own, or those of a draw. */
    const double *ready; /* by item */
    const struct certificate_piece *piece;
    /* Items that are not late, by ready time; of each item its group; room by group. */
    uint32_t n_early, *early, *group;
    uint64_t *group_bytes;
    double *group_us;
    struct arena scratch;
};

static inline double greater(double a, double b) { return a < b ? b : a; }
static inline double smaller(double a, double b) { return b < a ? b : a; }

double checker_transfer_us(const struct checker *k, uint64_t bytes);
/* The lower bound of what is not late. */
double checker_early_bound_us(struct checker *k);

/* certificate_optimum.c: the least finish of the step; negative if that is too much work. */
double checker_optimum_us(struct checker *k);
/* One group's gradients in the plan's order. */
struct checker_lane {
    uint32_t n, *item;
    uint64_t *sum;
    double *ready, *f, *g, *key;
    uint32_t *least;
};
struct checker_lane checker_lane_of(struct checker *k, uint32_t group);
/* The least finish of a group that has the channel from `start` on, with any number of buckets. */
double checker_lane_us(const struct checker *k, struct checker_lane *l, double start);

/* certificate_regret.c: negative if that is too much work. */
double checker_worst_regret(struct checker *k);

#endif
