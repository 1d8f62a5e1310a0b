/* The program: a verified module plus what it means for training - its parameters, its steps with
 * their losses, and how much of the truth the text can know.
 *
 * program.c builds it from the module, its metadata and the flags (flags win):
 *   - which values are parameters, which are buffers, literals or constants;
 *   - which of them are one parameter (--tie), and how the module spells their names (--alias);
 *   - the losses of each step, its trainables and its assumptions;
 *   - completeness and evidence, which decide whether a verdict can be more than `unknown`. */
#ifndef DDPC_PROGRAM_H
#define DDPC_PROGRAM_H

#include "glob.h"
#include "ir.h"
#include "ops.h"
#include "options.h"

enum param_kind { PARAM_PARAMETER, PARAM_BUFFER };

struct param {
    str name; /* as the module spells it, after --alias */
    enum param_kind kind;
    ir_type type;
    enum ir_dtype dtype;
    int64_t elements;
    ir_value value;      /* 0: --params lists it, the graph does not have it */
    VEC(ir_value) tied;  /* further values that are the same parameter */
    bool unsure;         /* absent, but perhaps there under another name, or computed away */
    const char *perhaps; /* unsure: the unlisted initializer that it could be; NULL: none */
    VEC(str) aliases;    /* further names of it in the module, from --params and --tie */
    bool no_grad;        /* --params says requires_grad is false */
    ir_loc loc;          /* of its declaration; IR_NO_LOC if absent */
};

struct assumption {
    ir_value value; /* boolean */
    bool is;
};

struct step {
    str name; /* "train" where there is only one and nobody named it */
    VEC(ir_value) losses;
    const char *loss_because;      /* "the only scalar output"; NULL: called so, or named */
    bool loss_named;               /* by a flag */
    VEC(struct assumption) assume; /* global ones included */
    bool *frozen;                  /* by parameter: not trainable in this step */
};

/* What a branch is in words: "batch 2 of 3". */
struct branch_words {
    const char *name, *text;
};

/* What the batches of a recorded step did: a chain of Ifs, each of which chooses one path. */
struct path {
    const char *branch; /* the boolean that chooses it; NULL: the last else */
    uint32_t first, n;  /* its batches */
};

struct paths {
    VEC(struct path) all;
    VEC(uint32_t) batch; /* numbers from 1 */
};

enum evidence { EVIDENCE_PROVED, EVIDENCE_OBSERVED, EVIDENCE_UNKNOWN };

struct program {
    struct ir_module *m;
    struct op_table *ops;
    struct arena arena;       /* for everything below and for the passes' results */
    VEC(struct param) params; /* in declaration order, buffers among them */
    /* By value: index into params + 1, or 0. A parameter may be the output of a node (a copy by
     * Identity of a shared initializer, ConstantOfShape): no gradient passes on to that node. */
    uint32_t *param_of;
    VEC(struct step) steps;
    bool complete; /* the text accounts for every parameter of the module */
    enum evidence evidence;
    const char *incomplete_because; /* a sentence; NULL if complete */
    const char *export_again;       /* how, where the export has lost names; NULL: it has not */
    bool traced;                    /* observed, by an exporter that traces */
    const char *basis;              /* the evidence in words, with what is assumed */
    uint32_t *assumed, n_assumed;   /* operators that the user vouches for, as in ops.h */
    string_list uniform;            /* globs of branch names, flags and metadata */
    const char *module;             /* Python that names the module; NULL: `model` */
    VEC(struct branch_words) branch_words;
    VEC(struct paths) paths; /* of each step that has more than one */
    string_list not_taken;   /* Python branches that no batch took, a sentence each */
};

/* Builds it; the module may gain inlined copies (inline.c) before. False after reporting. */
bool program_build(struct program *p, struct ir_module *m, struct op_table *ops,
                   const struct options *o, struct diags *d);
/* --from-list: a program without a graph. The classes and ready times stand in the list. */
void program_free(struct program *p);

/* "my.domain.Op" of the assumed operator i. */
const char *program_assumed_name(const struct program *p, uint32_t i, struct arena *a);

/* A flag's value matched nothing. If that may be so because it holds several names, says so as the
 * diagnostic's help and returns true. */
bool names_help_repeat(struct diags *d, struct diag *g, const char *flag, const char *text);

/* inline.c: replaces calls of the model's own functions by copies of their bodies, in every graph.
 */
bool inline_functions(struct ir_module *m, struct op_table *ops, struct diags *d);

/* types.c: gives values the types that follow from the operators; believes declarations. False
 * after reporting that a --dim does not read. */
bool infer_types(struct ir_module *m, const struct op_table *ops, const struct options *o,
                 struct diags *d);
/* types_sequence.c: how many nodes have an output of unknown rank or with a '?' afterwards. */
uint32_t types_unknown_shapes(const struct ir_module *m);

#endif
