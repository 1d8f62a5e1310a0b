/* Models from text for the tests of the reader and the printer. */
#ifndef DDPC_TEXT_MODEL_H
#define DDPC_TEXT_MODEL_H

#include "ir.h"

struct text_model {
    struct source source;
    struct diags diags;
    struct ir_module m;
    bool ok;
};

static inline void text_model_read(struct text_model *t, const char *text, size_t size) {
    source_from_memory(&t->source, "m.ir", text, size);
    diags_init(&t->diags, &t->source);
    t->ok = ir_parse(&t->m, &t->source, &t->diags);
}

static inline void text_model_free(struct text_model *t) {
    ir_module_free(&t->m);
    diags_free(&t->diags);
    source_free(&t->source);
}

/* What is printed to a FILE, as a string to be freed. */
static inline char *text_model_print(const struct ir_module *m) {
    static char *text; /* not on the stack: the stream keeps their addresses */
    static size_t size;
    FILE *out = open_memstream(&text, &size);
    ir_print(m, out);
    fclose(out);
    return text;
}

static inline char *text_model_diagnostics(struct diags *d, bool short_form) {
    static char *text; /* not on the stack: the stream keeps their addresses */
    static size_t size;
    FILE *out = open_memstream(&text, &size);
    diags_print(d, out, short_form, false);
    fclose(out);
    return text;
}

#endif
