/* Advice: what to set in DistributedDataParallel, from the classes of the parameters. Computed for
 * each step, and for one wrapper around all of them. Buffers take no part. */
#ifndef DDPC_ADVICE_H
#define DDPC_ADVICE_H

#include "reach.h"

enum verdict { VERDICT_NOT_NEEDED, VERDICT_NEEDED, VERDICT_UNKNOWN };
/* "flag_not_needed", "flag_needed", "unknown". */
const char *verdict_name(enum verdict v);

struct advice {
    enum verdict verdict; /* is find_unused_parameters=True needed? */
    bool static_graph;    /* static_graph=True is safe */
    bool nothing_trains;  /* no parameter has a gradient: then the verdict is unknown */
    uint32_t by_step;     /* of the conditional ones: those that only the steps tell apart */
    uint32_t parameters, count[4]; /* all, and by enum grad_class */
    uint32_t unsure;               /* of those never: what may be in the graph all the same */
    VEC(uint32_t) freeze; /* parameters to set requires_grad=False on: never, in a complete model */
    VEC(uint32_t) returned; /* never-parameters on which a returned output depends */
};

struct advices {
    struct advice *step;    /* by step of the program */
    struct advice all;      /* one wrapper around all steps */
    enum grad_class *class; /* by parameter: what it counts as over all steps */
    uint32_t n_steps;
};

/* `reach` is by step. */
void advices_give(struct program *p, const struct reach *reach, struct advices *out);
void advices_free(struct advices *a);

/* What a parameter counts as over all steps that is `a` in some and `b` in another. */
enum grad_class advice_merge(enum grad_class a, enum grad_class b);

/* The names that DDP's ignore list needs for a parameter: each of its names, with and without the
 * dot that DDP puts before a name of the root module. Appended to `out`, in `a`. */
void advice_ignore_names(const struct program *p, uint32_t param, struct arena *a,
                         string_list *out);

#endif
