/* Measured times that beat the estimates: a table, or what trace.c finds in a profiler's trace.
 *
 *     # a table, of one step
 *     node  encoder.layer.0.attention.qkv  41.5
 *     ready encoder.embeddings.word.weight 18230
 *     node  "a name with blanks"           7
 *
 * `node NAME µs` is the backward duration of the node of that name (or, as exporters often leave
 * nodes without a name, of the node whose first output has it); `ready PARAMETER µs` is the time at
 * which that gradient is ready, from the start of the backward pass. Of several lines for one name
 * the last counts. Names that match nothing are counted by order.c. Either may be packed by gzip; a
 * file whose first character is a bracket is a trace. */
#include "profile.h"
#include "keyfile.h"
#include <stdlib.h>
#include <string.h>

uint32_t profile_entry(struct profile *f, enum profile_kind kind, const char *name, size_t length) {
    str handle = strtab_add(&f->names, name, length);
    while (f->entry[kind].n <= handle) vec_push(&f->entry[kind], 0);
    uint32_t *entry = &f->entry[kind].at[handle];
    if (!*entry) {
        vec_reserve(&f->all, 1);
        *entry = ++f->all.n;
        f->all.at[*entry - 1].name = handle;
        f->all.at[*entry - 1].us = 0;
    }
    return *entry - 1;
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
    uint32_t entry = profile_entry(f, node ? PROFILE_NODE : PROFILE_READY, name.text, name.length);
    f->all.at[entry].us = us;
    return NULL;
}

static bool read_table(struct profile *f, struct lines *lines, struct diags *d) {
    struct line line;
    const char *why;
    bool ok = true;
    while (lines_next(lines, &line)) {
        if (!(why = parse_line(f, &line, &d->arena))) continue;
        lines_report(lines, lines->number, DIAG_PROFILE_FILE, "this line %s", why);
        ok = false;
    }
    lines_close(lines);
    return ok;
}

enum { MOST_TABLE = 256 << 20 };

/* A table, packed or not, through the stream that has seen that it is no trace. */
static bool open_table(struct lines *lines, struct json *j, const char *path, struct diags *d) {
    VEC(char) bytes = {0};
    size_t got = 0;
    do {
        vec_reserve(&bytes, 1 << 16);
        bytes.n += (uint32_t)(got = json_raw(j, bytes.at + bytes.n, 1 << 16));
    } while (got && bytes.n < MOST_TABLE);
    bool ok = false;
    if (j->why || bytes.n >= MOST_TABLE)
        diag_plain(d, DIAG_CANNOT_READ, path, "cannot read the profile: it %s",
                   j->why ? j->why : "is larger than 256 MiB, and no trace");
    else
        ok = lines_from(lines, path, bytes.at, bytes.n, d);
    vec_free(&bytes);
    return ok;
}

struct profile *profile_read(const char *path, struct diags *d) {
    struct lines lines = {0};
    struct profile *f = calloc(1, sizeof *f);
    if (!f) arena_out_of_memory(sizeof *f);
    strtab_init(&f->names);
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    struct json *j = json_open(path);
    int first = j ? json_peek(j) : -1;
    bool ok;
    if (first == '{' || first == '[')
        ok = trace_read(f, j, name, d);
    else if (first >= 0)
        ok = open_table(&lines, j, name, d) && read_table(f, &lines, d);
    else if (j && j->why && *j->why != 'c') { /* what is wrong with its gzip data */
        diag_plain(d, DIAG_CANNOT_READ, name, "cannot read the profile: it %s", j->why);
        ok = false;
    } else /* empty, or the system's reason */
        ok = lines_open(&lines, path, "profile", d) && read_table(f, &lines, d);
    if (j) json_close(j);
    if (ok) return f;
    profile_free(f);
    return NULL;
}

void profile_free(struct profile *f) {
    strtab_free(&f->names);
    for (int k = 0; k < PROFILE_KINDS; k++) vec_free(&f->entry[k]);
    vec_free(&f->all);
    vec_free(&f->gradients);
    arena_free(&f->arena);
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
