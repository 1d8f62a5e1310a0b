/* Which gradients exist: for every parameter of a step, the condition under which a gradient path
 * leads from it to a loss.
 *
 * Two boolean functions of the branches are carried backwards per value, must => may: under which
 * branch values a path certainly, and possibly, exists. conditions.c turns the graph's boolean
 * values into such functions; reach.c walks the graphs; reason.c says why in words. docs/design.md
 * has the rules, with those for loops. */
#ifndef DDPC_REACH_H
#define DDPC_REACH_H

#include "bdd.h"
#include "program.h"

enum grad_class { GRAD_ALWAYS, GRAD_NEVER, GRAD_CONDITIONAL, GRAD_FROZEN };
const char *grad_class_name(enum grad_class c);

/* A run-time boolean. Its index is its variable. */
struct branch {
    const char *name; /* the producing value's name; "call/value" inside an inlined function */
    ir_value
        value; /* the boolean; 0: "there is a trip", named "(n>=1)" after one of the next two */
    ir_value count;    /* a loop's trip count, or a sequence or tensor that a loop scans */
    str size;          /* a symbolic dimension that a loop scans */
    bool uniform;      /* the same on every rank, as the user promises */
    const char *words; /* what the model says that it is: "batch 2 of 3"; NULL */
};

struct gradient {
    enum grad_class class;
    bdd must, may;           /* must => may */
    bool exact;              /* must == may */
    uint32_t contributions;  /* (node, input) pairs through which gradient flows into it */
    uint32_t uses;           /* pairs that read it */
    const char *guard;       /* conditional: may as text; else NULL */
    const char *guard_words; /* "when" and the same, or "in" the batches of a recording */
    const char *reason;      /* never NULL */
    ir_loc loc;              /* of the cutting edge or the declaration */
    ir_node source;          /* whose line of a recorded program the reason is about; 0: none */
    ir_loc guard_loc; /* conditional: of the If or loop that decides; IR_NO_LOC: none known */
};

struct reach {
    struct gradient *gradient; /* by parameter of the program */
    /* Where the backward pass works, under some branch: on the ways between a loss and a parameter
     * that trains in this step. Autograd computes nothing elsewhere. */
    bool *node_active; /* by node: a gradient passes through it */
    bool *ref_flows;   /* by index into module.ref_value, inputs only: a gradient flows there */
    bool exact_budget; /* false: the BDD budget was exceeded somewhere (a warning says where) */
};

/* The branches and their functions, shared by all steps of a program. */
struct branches {
    struct bdd_manager *bdd;
    VEC(struct branch) all;
};
enum { BRANCHES_MAX_NODES = 1000000 }; /* of their decision diagrams */
void branches_init(struct branches *b);
void branches_free(struct branches *b);
/* A condition in words of the branches, as bdd_text; in the arena. */
const char *branches_text(const struct branches *b, bdd f, struct arena *a);

/* One step's gradients; results live in the program's arena. */
void reach_step(struct program *p, uint32_t step, struct branches *b, struct diags *d,
                struct reach *out);

/* explain.c: the path from a parameter to the loss, or every cut, as text for the user. */
void reach_explain(struct program *p, uint32_t step, struct branches *b, const struct reach *r,
                   uint32_t param, FILE *out);

#endif
