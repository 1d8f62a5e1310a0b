/* A model for a test: text to a verified module. */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include "ops.h"
#include <criterion/criterion.h>
#include <string.h>

struct model {
    struct source source;
    struct diags diags;
    struct ir_module m;
    struct op_table ops;
};

/* Reads the text, which must have the right syntax; `t` must not be moved afterwards. */
static inline void model_read(struct model *t, const char *text) {
    source_from_memory(&t->source, "test.ir", text, strlen(text));
    diags_init(&t->diags, &t->source);
    op_table_init(&t->ops);
    if (!ir_parse(&t->m, &t->source, &t->diags)) {
        diags_print(&t->diags, stderr, false, false);
        cr_assert(false, "the text does not parse");
    }
}

static inline void model_free(struct model *t) {
    op_table_free(&t->ops);
    ir_module_free(&t->m);
    diags_free(&t->diags);
    source_free(&t->source);
}

/* The values called `name`, in order of creation; 0 if there is none. */
static inline ir_value model_value(const struct model *t, const char *name) {
    for (ir_value v = 1; v < t->m.value.n; v++)
        if (strcmp(ir_value_name(&t->m, v), name) == 0) return v;
    return 0;
}

#endif
