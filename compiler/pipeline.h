/* The compile path, from a file's name to a plan: every pass in order, and what each
 * leaves behind. Commands run it as far as they need. */
#ifndef DDPC_PIPELINE_H
#define DDPC_PIPELINE_H

#include "plan.h"
#include "schedule.h"

/* PASS(name): the passes in the order they run. */
#define PIPELINE_PASSES                                                                            \
    PASS(read)     /* text -> module */                                                            \
    PASS(verify)   /* names, structure, operators */                                               \
    PASS(inline)   /* calls of the model's functions become copies of their bodies */              \
    PASS(types)    /* values get the types that follow */                                          \
    PASS(program)  /* parameters, losses, steps, evidence */                                       \
    PASS(reach)    /* per step: which gradients exist, and when */                                 \
    PASS(order)    /* per step: when they are ready */                                             \
    PASS(schedule) /* per step: which bucket takes them */                                         \
    PASS(emit)     /* offsets; the plan */

enum pipeline_pass {
#define PASS(name) PIPELINE_##name,
    PIPELINE_PASSES
#undef PASS
        PIPELINE_N_PASSES
};

struct compilation {
    const struct options *options;
    const char *path; /* of the model or the list; "-" is standard input */
    struct source source;
    struct diags diags;
    struct ir_module module;
    struct op_table ops;
    struct program program;
    struct branches branches;
    struct topology topology;
    struct device device;
    struct profile *profile; /* NULL: none */

    /* By step of the program, in its arena. */
    struct reach *reach;
    struct ready_times *ready;
    struct sched *sched;

    struct plan *plan; /* the finished one: its bytes and size are the file */

    double pass_ms[PIPELINE_N_PASSES];

    /* Called after each pass, for --print-after; may be NULL. */
    void (*after)(struct compilation *c, enum pipeline_pass pass, void *context);
    void *after_context;
};

const char *pipeline_pass_name(enum pipeline_pass p);

/* Prepares an empty compilation; it must not be moved afterwards. `options` is borrowed. */
void pipeline_init(struct compilation *c, const struct options *options);
void pipeline_free(struct compilation *c);

/* Runs the passes up to and including `last` on the file (or, with --from-list, on the list; `path`
 * is then not used). Returns false if one of them reported an error; diags has it. */
bool pipeline_run(struct compilation *c, const char *path, enum pipeline_pass last);

#endif
