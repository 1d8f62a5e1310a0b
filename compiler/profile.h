/* Inside --profile: what its readers write and the match reads. cost.h has what others use. */
#ifndef DDPC_PROFILE_H
#define DDPC_PROFILE_H

#include "cost.h"
#include "json_read.h"
#include "strtab.h"

enum { PROFILE_KINDS = PROFILE_FORWARD + 1 };

/* Of the passes that gave gradients of the same shapes: their times, medians of the passes. */
struct profile_gradients {
    uint32_t n, passes;
    str *shape; /* ascending; "512x256", "scalar" */
    double *us; /* among equal shapes ascending */
};

struct profile {
    struct arena arena;
    struct strtab names; /* and shapes */
    /* By kind and the name's handle: index into all + 1, or 0. */
    VEC(uint32_t) entry[PROFILE_KINDS];
    VEC(struct {
        str name;
        double us;
    })
    all;
    VEC(struct profile_gradients) gradients; /* of a trace */
    const char *trace;                       /* a trace's path; NULL: a table */
    const char *holds;                       /* a trace: what it has, in words */
    uint32_t passes, shapeless;              /* backward passes; gradients without a shape */
};

/* The index of this entry in `all`, with the time 0 if it is new. */
uint32_t profile_entry(struct profile *f, enum profile_kind kind, const char *name, size_t length);

/* trace.c: a trace into f. False after reporting. */
bool trace_read(struct profile *f, struct json *j, const char *path, struct diags *d);

/* passes.c: what trace.c picks out of a trace, and how it becomes times. */
enum mark_kind { MARK_BREAK, MARK_BACKWARD, MARK_GRADIENT, MARK_READY };
struct mark {       /* BREAK: a step of training or of its optimizer begins */
    double at, end; /* µs */
    int64_t number; /* BACKWARD: the forward's sequence number, -1 without; READY: its entry */
    str name;       /* BACKWARD: the forward's thread; GRADIENT: its shape, 0 without */
    enum mark_kind kind;
};
struct launch {
    uint64_t correlation;
    double host,
        end; /* when the host asked for the kernel, when the device ended it; -1: not seen */
};
struct sample {
    uint32_t entry, number;
    double us;
};
enum { MOST_MARKS = 1 << 18, MOST_LAUNCHES = 1 << 18, MOST_SAMPLES = 64, MOST_GROUPS = 16 };
struct passes {
    VEC(struct mark) marks;
    VEC(struct launch) launches;
    uint32_t *slots; /* of launches, by correlation: index + 1, or 0; 2 × MOST_LAUNCHES of them */
    double until;    /* where one of the two was full: later passes do not count */
    VEC(struct sample) samples; /* of named entries */
    VEC(uint32_t) counted;      /* by entry: its samples so far */
};
void passes_init(struct passes *p);
void passes_free(struct passes *p);
void passes_mark(struct passes *p, struct mark m);
void passes_launch(struct passes *p, uint64_t correlation, double host, double end);
void passes_sample(struct passes *p, uint32_t entry, double us);
/* Fills in f's entries and gradients. */
void passes_finish(struct passes *p, struct profile *f);

/* match.c: ready times of a step's gradients. `order` has n parameters in the order that is
 * predicted, `us`, by parameter, what is estimated; what was measured replaces it, in all of them
 * or, with false, in none. */
bool profile_match(const struct profile *f, const struct program *p, const char *step,
                   const uint32_t *order, uint32_t n, double *us, struct diags *d);

#endif
