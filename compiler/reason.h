/* Words about places in a model (cut.c), for reason.c and explain.c. Text goes into the arena. */
#ifndef DDPC_REASON_H
#define DDPC_REASON_H

#include "flow.h"

/* Why no gradient comes from a place. */
enum cut_kind {
    CUT_NONE,
    CUT_UNREAD, /* nothing reads the value */
    CUT_OUTPUT, /* the value is an output of the model and no loss */
    CUT_INPUT,  /* the node's input `index` passes nothing */
    CUT_MAKES,  /* the node's output `index` carries nothing */
    CUT_BRANCH, /* the If never takes its branch `index` (0 then, 1 else) */
    CUT_RUNS,   /* the loop never runs */
    CUT_ELEMENT, /* the node puts the value into a sequence, of which the loss needs another element */
    CUT_TRIPS, /* the loop's trips never bring the state to an output that a loss needs */
};

struct cut {
    enum cut_kind kind;
    ir_node node; /* CUT_OUTPUT: inside a branch, the node there that makes it; else 0 */
    uint32_t index;
    ir_value value;
};

/* Whether the node's input ends a gradient's way, whatever becomes of its outputs. */
bool cut_at_input(const struct flow *f, ir_node n, uint32_t input);
/* Whether the node's output does. */
bool cut_at_output(const struct flow *f, ir_node n, uint32_t output);
/* "ends at ArgMax (choice, line 9), whose input 'data' passes no gradient" */
const char *cut_text(const struct flow *f, struct arena *a, const struct cut *c);
ir_loc cut_loc(const struct flow *f, const struct cut *c);
/* The node that a cut is at, or that makes the value at which a way ends; 0: neither. */
ir_node cut_node(const struct flow *f, const struct cut *c);
/* Whether both carry the same line of a recorded program. */
bool cut_same_line(const struct flow *f, ir_node a, ir_node b);
/* "ArgMax (choice, line 9)"; of a recorded program "argmax at model.py:91" */
const char *node_text(const struct flow *f, struct arena *a, ir_node n);

#endif
