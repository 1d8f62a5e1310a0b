/* Conditions: the boolean values that decide control flow, as functions of the branches. Private to
 * the passes that ask which gradients exist. */
#ifndef DDPC_CONDITIONS_H
#define DDPC_CONDITIONS_H

#include "control.h"
#include "reach.h"

/* A range of variables. */
struct var_range {
    uint32_t first, last; /* last is outside */
};

/* A variable of a loop's trip whose value follows from the trip's number. */
struct trip_test {
    uint32_t variable;
    ir_value value; /* the boolean */
    uint64_t is;    /* bit t: its value in trip t */
};

struct loop_facts {
    bdd runs;      /* it makes at least one trip; BDD_OVERFLOW beyond the budget */
    int64_t trips; /* then it makes exactly so many; -1: not known */
    /* The variables of what differs from trip to trip. They stand for one trip, and are projected
     * away before the trip before it is looked at. */
    VEC(struct var_range) own;
    VEC(struct trip_test) tests; /* among them; of a Loop whose trips are known, 64 at most */
};

struct conditions {
    struct program *p;
    struct branches *branches;
    struct control_flow control;
    struct arena arena;
    ir_value *same;           /* by value: the first value that it equals (numbering.h) */
    bdd *function;            /* by value, for those that conditions are made of */
    struct loop_facts *loops; /* by index into control.all */
    ir_node overflow;         /* the node where the budget was first exceeded, or 0 */
};

void conditions_make(struct conditions *c, struct program *p, const struct step *step,
                     struct branches *b);
void conditions_free(struct conditions *c);

/* The function of a boolean that decides an If; BDD_OVERFLOW beyond the budget. */
bdd condition_of(const struct conditions *c, ir_value v);

#endif
