/* What stock DistributedDataParallel costs, and how to set it: the walk of find_unused_parameters,
 * and the size of its buckets. */
#ifndef DDPC_STOCK_H
#define DDPC_STOCK_H

#include "schedule.h"

/* The walk over the autograd graph that the flag makes after each forward pass. One operator of the
 * model is taken for one node of autograd, each trained parameter has one more. */
struct flag_walk {
    double nodes, edges; /* of an `If` the larger branch, of a loop trips times the body */
    double us;
};
/* Per node, on the CPUs of a server: 20,000 nodes take 24 ms. docs/report.md has the measurement. */
#define FLAG_WALK_US 1.2
/* Zeros for a list. */
void stock_walk(const struct program *p, const struct reach *r, struct flag_walk *out);

/* bucket_cap_mb: the one of a few whose predicted finish is the least under DDP's own rule. */
struct stock_buckets {
    uint32_t unknown_nodes, nodes; /* of so many no sizes are known: nothing is said then */
    uint32_t cap_mib; /* the best; STOCK_DEFAULT_CAP if that is as good. 0: nothing said */
    double finish_us, default_us; /* with it, and without any setting */
    double backward_us;
};
enum { STOCK_DEFAULT_CAP = 25 };
/* Below this part of the finish a difference is not worth a setting. */
#define STOCK_GAIN .01
/* flag: with find_unused_parameters=True. */
void stock_buckets(struct program *p, uint32_t step, const struct reach *r,
                   const struct branches *b, const struct ready_times *ready,
                   const struct topology *t, bool flag, struct stock_buckets *out);

#endif
