/* A program built from a model's text, and its parameters as one line of text to compare with. */
#ifndef PROGRAM_FIXTURE_H
#define PROGRAM_FIXTURE_H

#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    struct source source;
    struct ir_module m;
    struct op_table ops;
    struct diags d;
    struct program p;
    struct options o;
    bool ok;
    char list_path[32]; /* of a temporary --params file, or "" */
};

static inline void fixture_write(char path[32], const char *text) {
    strcpy(path, "/tmp/ddpc-unit-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) abort();
    close(fd);
}

/* Options first: vec_push(&f->o.frozen, "..."), fixture_params(f, "..."); then fixture_build. */
static inline void fixture_params(struct fixture *f, const char *text) {
    fixture_write(f->list_path, text);
    f->o.params = f->list_path;
}

static inline bool fixture_build(struct fixture *f, const char *text) {
    source_from_memory(&f->source, "m.ir", text, strlen(text));
    diags_init(&f->d, &f->source);
    op_table_init(&f->ops);
    f->ok = ir_parse(&f->m, &f->source, &f->d) && ir_verify(&f->m, &f->ops, &f->d) &&
            inline_functions(&f->m, &f->ops, &f->d);
    if (!f->ok) {
        diags_print(&f->d, stderr, false, false);
        abort();
    }
    infer_types(&f->m, &f->ops, &f->o, &f->d);
    return f->ok = program_build(&f->p, &f->m, &f->ops, &f->o, &f->d);
}

/* "w v(frozen) mean:buffer": the parameters in order; a name that the graph lacks has a '?'. */
static inline const char *fixture_show(struct fixture *f) {
    const char *out = "";
    for (uint32_t i = 0; i < f->p.params.n; i++) {
        const struct param *q = &f->p.params.at[i];
        out = arena_printf(&f->p.arena, "%s%s%s%s%s%s", out, i ? " " : "", ir_text(&f->m, q->name),
                           q->value ? "" : "?", q->kind == PARAM_BUFFER ? ":buffer" : "",
                           f->p.steps.at[0].frozen[i] ? "(frozen)" : "");
    }
    return out;
}

/* How many diagnostics of a code there are. */
static inline uint32_t fixture_count(const struct fixture *f, enum diag_code code) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->d.all.n; i++) n += f->d.all.at[i]->code == code;
    return n;
}

static inline const struct diag *fixture_diag(const struct fixture *f, enum diag_code code) {
    for (uint32_t i = 0; i < f->d.all.n; i++)
        if (f->d.all.at[i]->code == code) return f->d.all.at[i];
    return NULL;
}

static inline void fixture_free(struct fixture *f) {
    if (*f->list_path) unlink(f->list_path);
    program_free(&f->p);
    op_table_free(&f->ops);
    ir_module_free(&f->m);
    diags_free(&f->d);
    source_free(&f->source);
    vec_free(&f->o.loss);
    vec_free(&f->o.trainable);
    vec_free(&f->o.frozen);
    vec_free(&f->o.uniform);
    vec_free(&f->o.assume);
    vec_free(&f->o.tie);
    vec_free(&f->o.alias);
    vec_free(&f->o.step);
    *f = (struct fixture){0};
}

#endif
