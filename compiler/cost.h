/* What things take: the backward time of a node on a device, and the time of a collective on a
 * topology. Times are µs, sizes bytes. docs/scheduling.md has formulas, presets and sources. */
#ifndef DDPC_COST_H
#define DDPC_COST_H

#include "keyfile.h"
#include "program.h"
#include "reach.h"

/* c(S) = min over pieces of (alpha_us + S / bandwidth). */
struct cost_piece {
    double alpha_us, us_per_byte;
};
enum { TOPOLOGY_MAX_PIECES = 16 };
struct topology {
    char name[KEYFILE_NAME];
    uint32_t ranks, n_pieces;
    struct cost_piece piece[TOPOLOGY_MAX_PIECES];
};
/* A preset's name, a file of `key = value` lines, or a cluster as nccl.h has it. False after
 * reporting. */
bool topology_read(struct topology *t, const char *name, struct diags *d);
const struct topology *topology_preset(uint32_t i); /* NULL: there are no more */
/* Fits pieces to a model, by four at most; returns how far they are from it (.05: 5 %) between these
 * sizes. The name is left alone. */
struct nccl_model;
enum { TOPOLOGY_FIT_FROM = 1 << 10, TOPOLOGY_FIT_TO = 1 << 30 };
double topology_fit(struct topology *t, const struct nccl_model *m);
static inline double topology_cost_us(const struct topology *t, uint64_t bytes) {
    double best = t->piece[0].alpha_us + t->piece[0].us_per_byte * (double)bytes;
    for (uint32_t p = 1; p < t->n_pieces; p++) {
        double us = t->piece[p].alpha_us + t->piece[p].us_per_byte * (double)bytes;
        if (us < best) best = us;
    }
    return best;
}

struct device {
    char name[KEYFILE_NAME];
    double flops_per_us, bytes_per_us;             /* peak */
    double matmul, convolution, attention, memory; /* efficiencies, 0..1 */
    double floor_us;                               /* a kernel launch */
};
bool device_read(struct device *t, const char *name_or_file, struct diags *d);

/* The backward duration of a node in µs by its shapes; the floor where they are unknown, and then
 * *unknown is set. Control flow costs 0: its bodies' nodes count. `needs`, by value, says which
 * inputs want a gradient (the backward of others is not run); NULL: all. */
double cost_backward_us(const struct program *p, const struct device *dev, ir_node n,
                        const bool *needs, bool *unknown);

/* needs.c: which values a parameter that trains precedes; `trains` is by parameter, `needs` by value,
 * all false before. */
void needs_find(const struct program *p, const bool *trains, bool *needs);
/* How often a loop's body runs in one execution, as far as is known, else 1. */
double order_trips(const struct ir_module *m, ir_node n);

/* order.c: when each parameter's gradient is ready, counted from the start of backward. */
struct ready_times {
    double *us;      /* by parameter; 0 where it has no gradient */
    uint32_t *order; /* parameters with a gradient, earliest first */
    uint32_t n;
    double backward_us;     /* the whole backward */
    uint32_t nodes;         /* that took part */
    uint32_t unknown_nodes; /* of them: those that cost the floor by ignorance */
};
/* --profile: measured durations by node name and ready times by parameter; of a trace perhaps
 * only by the shapes of gradients. FORWARD: the node's forward. */
struct profile;
struct profile *profile_read(const char *path, struct diags *d); /* NULL after reporting */
void profile_free(struct profile *f);
enum profile_kind { PROFILE_NODE, PROFILE_READY, PROFILE_FORWARD };
/* The entry's index + 1, or 0; *us gets its time. */
uint32_t profile_find(const struct profile *f, enum profile_kind kind, const char *name, size_t len,
                      double *us);
uint32_t profile_size(const struct profile *f);
const char *profile_name(const struct profile *f, uint32_t entry); /* entry < profile_size */
bool order_ready(struct program *p, uint32_t step, const struct reach *r, const struct device *dev,
                 const struct profile *profile, struct diags *d, struct ready_times *out);

#endif
