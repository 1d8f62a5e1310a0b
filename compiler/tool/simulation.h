/* What the forms of `ddpc simulate` are written from: one step of a plan, simulated. */
#ifndef DDPC_TOOL_SIMULATE_H
#define DDPC_TOOL_SIMULATE_H

#include "plan_tool.h"
#include "simulate.h"

struct simulation {
    const struct plan *plan;
    uint32_t step; /* of the plan */
    struct sim_work work;
    uint32_t *param;               /* by gradient */
    struct sim_schedule *schedule; /* the plan's, then those of --against */
    uint32_t n;
    struct sim_result *result; /* by schedule */
    struct sim_report report;
    /* By bucket of the plan, without jitter. */
    double *start_us, *end_us, *slack_us;
};

/* All steps, and what is the same for them. */
struct simulations {
    const char *file; /* the plan or the model */
    struct jitter jitter;
    uint32_t steps;      /* drawn, for each step of the plan */
    uint32_t stragglers; /* ranks whose factor is not 1 */
    struct simulation *at;
    uint32_t n;
};

/* Of a step of a plan: what it says that a collective costs. */
struct topology simulate_topology(const struct plan *p, uint32_t step);
/* Fills in the steps, for the jitter and the number of draws that are set. topology NULL: each
 * step's own. Memory is the arena's, the plan is borrowed. */
void simulate_plan(struct simulations *s, const struct plan *p, const struct topology *topology,
                   const enum sim_rule *rules, uint32_t n_rules, struct arena *a);
/* The steps as predicted, beside DDP's buckets: what a picture of a plan shows. */
void simulate_predicted(struct simulations *s, const struct plan *p, const char *file,
                        struct arena *a);

void simulate_text(const struct simulations *s, FILE *out);
void simulate_json(const struct simulations *s, FILE *out);
void simulate_svg(const struct simulations *s, FILE *out); /* simulate_picture.c */
void simulate_trace(const struct simulations *s, FILE *out);
/* Whether the plan gains anything over one of the others, in a sentence; NULL if there are none. */
const char *simulate_verdict(const struct simulation *s, struct arena *a);

#endif
