/* Analyses a model's text, for the tests of reach.c. */
#ifndef DDPC_TEST_REACH_MODEL_H
#define DDPC_TEST_REACH_MODEL_H

#include "reach.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct analysed {
    struct options options;
    struct source source;
    struct diags diags;
    struct ir_module m;
    struct op_table ops;
    struct program p;
    struct branches b;
    struct reach r[4]; /* by step */
};

/* `limit`: nodes of the decision diagrams; 0: as always. */
static void analyse_within(struct analysed *a, const char *text, uint32_t limit) {
    source_from_memory(&a->source, "model", text, strlen(text));
    diags_init(&a->diags, &a->source);
    op_table_init(&a->ops);
    branches_init(&a->b);
    if (limit) {
        bdd_free(a->b.bdd);
        a->b.bdd = bdd_new(limit);
    }
    for (uint32_t i = 0; i < a->options.assume_differentiable.n; i++)
        op_table_assume(&a->ops, a->options.assume_differentiable.at[i]);
    bool ok = ir_parse(&a->m, &a->source, &a->diags) && ir_verify(&a->m, &a->ops, &a->diags) &&
              inline_functions(&a->m, &a->ops, &a->diags);
    if (ok) infer_types(&a->m, &a->ops, &a->options, &a->diags);
    ok = ok && program_build(&a->p, &a->m, &a->ops, &a->options, &a->diags);
    if (!ok || a->diags.errors) diags_print(&a->diags, stderr, false, false);
    cr_assert(ok, "the model is wrong:\n%s", text);
    cr_assert(a->p.steps.n <= 4);
    for (uint32_t s = 0; s < a->p.steps.n; s++) reach_step(&a->p, s, &a->b, &a->diags, &a->r[s]);
}

static inline void analyse(struct analysed *a, const char *text) { analyse_within(a, text, 0); }

static inline void analysed_free(struct analysed *a) {
    branches_free(&a->b);
    program_free(&a->p);
    op_table_free(&a->ops);
    ir_module_free(&a->m);
    diags_free(&a->diags);
    source_free(&a->source);
}

static inline uint32_t analysed_param(const struct analysed *a, const char *name) {
    for (uint32_t i = 0; i < a->p.params.n; i++)
        if (!strcmp(ir_text(&a->m, a->p.params.at[i].name), name)) return i;
    cr_assert_fail("no parameter %s", name);
    return 0;
}

#endif
