/* --dim B=32: a symbol is replaced by a number wherever it stands, before types are inferred. */
#include "types.h"
#include <stdlib.h>
#include <string.h>

struct dim_flag {
    str symbol;
    int64_t size;
    bool used;
};

/* Rules for shapes take a larger one for nonsense (shape_rules.h). */
enum { LARGEST_SIZE = 1 << 30 };

static bool parse_dim_flag(const struct ir_module *m, const char *text, struct dim_flag *out,
                           struct diags *d) {
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    long long size = equals ? strtoll(equals + 1, &end, 10) : -1; /* saturates */
    if (!equals || equals == text || end == equals + 1 || *end) {
        struct diag *e =
            diag_plain(d, DIAG_DIM_FLAG, "--dim", "'%s' is not of the form NAME=SIZE", text);
        diag_set_help(d, e, "write --dim B=32");
        return false;
    }
    if (size < 0 || size > LARGEST_SIZE) {
        struct diag *e = diag_plain(d, DIAG_DIM_FLAG, "--dim", "'%s' is not a size", equals + 1);
        diag_set_help(d, e, "sizes are from 0 to %d", LARGEST_SIZE);
        return false;
    }
    out->size = size;
    if (!strtab_find(&m->strings, text, (size_t)(equals - text), &out->symbol)) out->symbol = 0;
    return true;
}

/* Whether an earlier flag gives the same symbol another size. */
static bool contradicts_earlier(const struct dim_flag *flags, uint32_t i, const char *text,
                                struct diags *d) {
    for (uint32_t k = 0; k < i; k++) {
        if (!flags[i].symbol || flags[k].symbol != flags[i].symbol) continue;
        if (flags[k].size == flags[i].size) continue;
        struct diag *e = diag_plain(d, DIAG_DIM_FLAG, "--dim",
                                    "'%s' contradicts an earlier --dim, which says %lld", text,
                                    (long long)flags[k].size);
        diag_set_help(d, e, "a name is one size wherever it stands; leave one of the two out");
        return true;
    }
    return false;
}

static void unused_dim_flag(const struct ir_module *m, const char *text, struct diags *d) {
    size_t length = (size_t)(strrchr(text, '=') - text);
    char *name = arena_strndup(&d->arena, text, length);
    VEC(const char *) symbols = {0};
    bool *seen = calloc(m->strings.text.n, sizeof *seen);
    if (!seen) arena_out_of_memory(m->strings.text.n);
    for (uint32_t i = 0; i < m->dim.n; i++) {
        str s = m->dim.at[i].symbol;
        if (s && !seen[s]) vec_push(&symbols, ir_text(m, s));
        seen[s] = true;
    }
    struct diag *e =
        diag_plain(d, DIAG_DIM_UNUSED, "--dim", "no dimension of the model is called '%s'", name);
    const char *nearest = diag_nearest(name, symbols.at, symbols.n);
    if (nearest)
        diag_set_help(d, e, "did you mean '%s'?", nearest);
    else if (symbols.n)
        diag_set_help(d, e, "it has %u, '%s' among them", symbols.n, symbols.at[0]);
    vec_free(&symbols);
    free(seen);
}

/* The type with the symbols replaced; the same handle if it has none of them. */
static ir_type replace_dims(struct ir_module *m, ir_type t, struct dim_flag *flags, uint32_t n,
                            ir_type *done) {
    if (!t || done[t]) return done[t];
    struct ir_type_info info = m->type.at[t];
    if (info.elem) info.elem = replace_dims(m, info.elem, flags, n, done);
    bool changed = info.elem != m->type.at[t].elem;
    VEC(struct ir_dim) dims = {0};
    for (int32_t i = 0; i < info.rank; i++) {
        struct ir_dim d = m->dim.at[info.dims + (uint32_t)i];
        str symbol = d.symbol;
        for (uint32_t k = 0; k < n && symbol; k++)
            if (flags[k].symbol == symbol) {
                d = (struct ir_dim){.size = flags[k].size};
                flags[k].used = changed = true;
            }
        vec_push(&dims, d);
    }
    done[t] = changed ? ir_type_add(m, &info, dims.at) : t;
    vec_free(&dims);
    return done[t];
}

bool types_apply_dims(struct ir_module *m, const struct options *o, struct diags *d) {
    uint32_t n = o->dim.n;
    if (!n) return true;
    struct dim_flag *flags = calloc(n, sizeof *flags);
    ir_type *done = calloc(m->type.n, sizeof *done);
    if (!flags || !done) arena_out_of_memory(m->type.n * sizeof *done);
    bool ok = true;
    for (uint32_t i = 0; i < n; i++)
        ok &= parse_dim_flag(m, o->dim.at[i], &flags[i], d) &&
              !contradicts_earlier(flags, i, o->dim.at[i], d);
    if (ok) {
        for (ir_value v = 1; v < m->value.n; v++)
            m->value.at[v].type = replace_dims(m, m->value.at[v].type, flags, n, done);
        for (uint32_t i = 0; i < n; i++)
            if (!flags[i].used) unused_dim_flag(m, o->dim.at[i], d);
    }
    free(flags);
    free(done);
    return ok;
}
