/* Measured times: a table that beats the estimates.
 *
 *     # from a trace of one step
 *     node  encoder.layer.0.attention.qkv  41.5
 *     ready encoder.embeddings.word.weight 18230
 *     node  "a name with blanks"           7
 *
 * `node NAME µs` is the backward duration of the node of that name (or, as exporters often leave
 * nodes without a name, of the node whose first output has it); `ready PARAMETER µs` is the time at
 * which that gradient is ready, from the start of the backward pass. Of several lines for one name
 * the last counts. Names that match nothing are counted by order.c. */
#include "keyfile.h"
#include "schedule.h"
#include "strtab.h"
#include <stdlib.h>
#include <string.h>

struct profile {
    struct strtab names;
    /* By kind and the name's handle: index into all + 1, or 0. */
    VEC(uint32_t) entry[2];
    VEC(struct {
        str name;
        double us;
    })
    all;
};

static void add(struct profile *f, enum profile_kind kind, const char *name, size_t length,
                double us) {
    str handle = strtab_add(&f->names, name, length);
    for (int k = 0; k < 2; k++)
        while (f->entry[k].n <= handle) vec_push(&f->entry[k], 0);
    uint32_t *entry = &f->entry[kind].at[handle];
    if (!*entry) {
        vec_reserve(&f->all, 1);
        *entry = ++f->all.n;
        f->all.at[*entry - 1].name = handle;
    }
    f->all.at[*entry - 1].us = us;
}

/* NULL, or what is wrong with the line. */
static const char *parse_line(struct profile *f, struct line *line, struct arena *a) {
    struct word kind, name, time;
    double us;
    if (!line_word(line, a, &kind)) return NULL;
    bool node = word_is(kind, "node");
    if (!node && !word_is(kind, "ready")) return "begins with neither `node` nor `ready`";
    if (!line_word(line, a, &name) || !line_word(line, a, &time) ||
        !keyfile_number(time.text, time.length, &us))
        return "wants a name and a time in µs after its first word";
    if (line_rest(line).length) return "goes on after its time; a name with blanks needs quotes";
    add(f, node ? PROFILE_NODE : PROFILE_READY, name.text, name.length, us);
    return NULL;
}

struct profile *profile_read(const char *path, struct diags *d) {
    struct lines lines;
    struct line line;
    const char *why;
    if (!lines_open(&lines, path, "profile", d)) return NULL;
    struct profile *f = calloc(1, sizeof *f);
    if (!f) arena_out_of_memory(sizeof *f);
    strtab_init(&f->names);
    bool ok = true;
    while (lines_next(&lines, &line)) {
        if (!(why = parse_line(f, &line, &d->arena))) continue;
        lines_report(&lines, lines.number, DIAG_PROFILE_FILE, "this line %s", why);
        ok = false;
    }
    lines_close(&lines);
    if (ok) return f;
    profile_free(f);
    return NULL;
}

void profile_free(struct profile *f) {
    strtab_free(&f->names);
    vec_free(&f->entry[0]);
    vec_free(&f->entry[1]);
    vec_free(&f->all);
    free(f);
}

uint32_t profile_find(const struct profile *f, enum profile_kind kind, const char *name, size_t len,
                      double *us) {
    str handle;
    if (!strtab_find(&f->names, name, len, &handle) || handle >= f->entry[kind].n) return 0;
    uint32_t entry = f->entry[kind].at[handle];
    if (entry) *us = f->all.at[entry - 1].us;
    return entry;
}

uint32_t profile_size(const struct profile *f) { return f->all.n; }

const char *profile_name(const struct profile *f, uint32_t entry) {
    return strtab_text(&f->names, f->all.at[entry].name);
}
