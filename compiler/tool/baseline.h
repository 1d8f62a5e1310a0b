/* A baseline: what an earlier `ddpc check --format=json` said, to be compared with. */
#ifndef DDPC_BASELINE_H
#define DDPC_BASELINE_H

#include "advice.h"
#include "tool.h"

struct baseline_param {
    const char *name;    /* without wrappers */
    uint32_t first, n;   /* in baseline.at: one per step that has it */
    enum grad_class all; /* over all steps */
    bool seen;           /* for the caller's use */
};

struct baseline {
    const char *file; /* NULL: there is none */
    enum verdict verdict;
    enum evidence evidence;
    bool nothing_trained;
    string_list steps;
    VEC(enum verdict) step_verdict; /* by step */
    string_list assumed;            /* operators */
    VEC(struct baseline_at {
        const char *name;
        uint32_t step;
        enum grad_class class;
    })
    at;                                /* by name, then by step */
    VEC(struct baseline_param) params; /* by name */
    struct arena arena;
};

/* False after reporting. Free it in any case. */
bool baseline_read(struct baseline *b, const struct tool *t, const char *path);
void baseline_free(struct baseline *b);

struct baseline_param *baseline_find(const struct baseline *b, const char *name); /* NULL: none */
/* The index of a step's name, or -1. */
int baseline_step(const struct baseline *b, const char *name);
/* What the parameter was in that step, or over all steps if there was no such step (-1). */
enum grad_class baseline_class(const struct baseline *b, const struct baseline_param *p, int step);

#endif
