/* Numbering: which values of a module are equal in every execution, and which change from trip to
 * trip of a loop. */
#ifndef DDPC_NUMBERING_H
#define DDPC_NUMBERING_H

#include "control.h"

/* What an operator is to a condition. */
enum logic {
    LOGIC_OTHER,
    LOGIC_COPY,  /* Identity: the same value */
    LOGIC_SHAPE, /* Reshape, Squeeze ...: the same single element */
    LOGIC_CAST,
    LOGIC_NOT,
    LOGIC_AND,
    LOGIC_OR,
    LOGIC_XOR,
    LOGIC_EQUAL,
    LOGIC_GREATER, /* and the next three: pairs that are each other's mirror */
    LOGIC_LESS,
    LOGIC_GREATER_OR_EQUAL,
    LOGIC_LESS_OR_EQUAL,
    LOGIC_CONSTANT,
    LOGIC_ADD, /* and the next three: of integers, for numbers that constants decide */
    LOGIC_SUB,
    LOGIC_MUL,
    LOGIC_MOD,
};

struct numbering {
    const struct ir_module *m;
    const struct op_table *ops;
    const struct control_flow *control;
    uint8_t *logic; /* by operator definition: enum logic */
    uint32_t n_logic;
    ir_value *same;     /* by value: the first value that it equals, or itself */
    ir_value *opposite; /* by value: of a first one, an earlier boolean that it is the negation of;
                           or 0 */
    uint16_t *level; /* by value: the innermost loop whose trips it varies with, as a depth from 1;
                        0: with none */
    bool *boolish;   /* by value: a boolean, or the number 0 or 1 that one was cast to */
};

void numbering_make(struct numbering *n, const struct ir_module *m, const struct op_table *ops,
                    const struct control_flow *control, struct arena *a);
enum logic numbering_logic(const struct numbering *n, ir_node node);
/* A trip of a Loop whose number is known. */
struct trip {
    ir_value number_of; /* the value that holds the number, in its body */
    int64_t number;
    ir_value going; /* the condition in its body: true while it runs */
};
/* The boolean or integer that constants and the trip, or NULL, decide. False if it depends on more,
 * or is too far from them. */
bool numbering_evaluate(const struct numbering *n, ir_value v, const struct trip *t, int64_t *out);

#endif
