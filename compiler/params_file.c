/* Reading --params FILE. A graph shows the parameters that an exporter kept, under the names that
 * it chose; this file says what the module has. Each line is one parameter:
 *
 *     name dtype shape requires_grad [alias...]
 *
 * where an alias is another name of the same tensor (a tied head). Every name may stand in the file
 * once: a name that stands twice would leave open which of the two lines is true. What follows from
 * the list is decided in params_list.c. */
#include "params_file.h"
#include "lines.h"

static bool read_flag(struct word w, bool *out) {
    static const char *const yes[] = {"true", "True", "1", "yes"};
    static const char *const no[] = {"false", "False", "0", "no"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        *out = word_is(w, yes[i]);
        if (*out || word_is(w, no[i])) return true;
    }
    return false;
}

/* Notes that `name` is taken; false after reporting that it was. `first` is by string: a line. */
static bool claim(struct lines *l, const struct ir_module *m, uint32_t *first, str name) {
    if (!first[name]) {
        first[name] = l->number;
        return true;
    }
    lines_report(l, l->number, DIAG_LIST_DUPLICATE, "'%s' is listed twice; first on line %u",
                 ir_text(m, name), first[name]);
    return false;
}

static bool read_entry(struct params_list *list, struct lines *l, struct line line,
                       struct ir_module *m, struct arena *a) {
    struct params_entry e = {.line = l->number, .aliases = list->alias.n};
    struct word w;
    line_word(&line, a, &w);
    e.name = strtab_add(&m->strings, w.text, w.length);
    const char *name = ir_text(m, e.name);
    if (!lines_type(l, &line, a, name, m, &e.type)) return false;
    if (!line_word(&line, a, &w) || !read_flag(w, &e.requires_grad)) {
        lines_report(l, l->number, DIAG_LIST_SYNTAX,
                     "'%s' needs `true` or `false` after its shape: does it require a gradient?",
                     name);
        return false;
    }
    while (line_word(&line, a, &w)) {
        vec_push(&list->alias, strtab_add(&m->strings, w.text, w.length));
        e.n_aliases++;
    }
    vec_push(&list->all, e);
    return true;
}

bool params_file_read(struct params_list *list, struct ir_module *m, const char *path,
                      struct diags *d) {
    struct lines l;
    if (!lines_open(&l, path, "list", d)) return false;
    struct arena scratch = {0};
    bool ok = true;
    for (struct line line; lines_next(&l, &line);)
        if (!read_entry(list, &l, line, m, &scratch)) ok = false;

    uint32_t *first = arena_new(&scratch, uint32_t, m->strings.text.n);
    for (uint32_t i = 0; i < list->all.n; i++) {
        const struct params_entry *e = &list->all.at[i];
        l.number = e->line;
        if (!claim(&l, m, first, e->name)) ok = false;
        for (uint32_t k = 0; k < e->n_aliases; k++)
            if (!claim(&l, m, first, list->alias.at[e->aliases + k])) ok = false;
    }
    arena_free(&scratch);
    lines_close(&l);
    return ok;
}

void params_file_free(struct params_list *list) {
    vec_free(&list->all);
    vec_free(&list->alias);
}
