/* Measured times: a table that beats the estimates.
 *
 *     # from a trace of one step
 *     node  encoder.layer.0.attention.qkv  41.5
 *     ready encoder.embeddings.word.weight 18230
 *
 * `node NAME µs` is the backward duration of the node of that name (or, as exporters often leave
 * nodes without a name, of the node whose first output has it); `ready PARAMETER µs` is the time at
 * which that gradient is ready, from the start of the backward pass. A name may contain blanks: it
 * is what stands between the first word and the last. Of several lines for one name the last
 * counts. Names that match nothing are counted by order.c. */
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
static const char *parse_line(struct profile *f, const char *text, size_t length) {
    size_t first = 0, last = length;
    while (first < length && text[first] != ' ' && text[first] != '\t') first++;
    while (last > first && text[last - 1] != ' ' && text[last - 1] != '\t') last--;
    bool node = keyfile_is(text, first, "node");
    if (!node && !keyfile_is(text, first, "ready")) return "begins with neither `node` nor `ready`";
    size_t begin = first, end = last;
    while (begin < end && (text[begin] == ' ' || text[begin] == '\t')) begin++;
    while (end > begin && (text[end - 1] == ' ' || text[end - 1] == '\t')) end--;
    double us;
    if (begin == end || !keyfile_number(text + last, length - last, &us))
        return "wants a name and a time in µs";
    add(f, node ? PROFILE_NODE : PROFILE_READY, text + begin, end - begin, us);
    return NULL;
}

struct profile *profile_read(const char *path, struct diags *d) {
    struct keyfile file;
    const char *why, *text;
    size_t length;
    if (!keyfile_open(&file, path, &why)) {
        diag_plain(d, DIAG_CANNOT_READ, path, "cannot read the profile: %s", why);
        return NULL;
    }
    struct profile *f = calloc(1, sizeof *f);
    if (!f) arena_out_of_memory(sizeof *f);
    strtab_init(&f->names);
    bool ok = true;
    while (keyfile_line(&file, &text, &length)) {
        if (!(why = parse_line(f, text, length))) continue;
        keyfile_report(&file, d, DIAG_PROFILE_FILE, why);
        ok = false;
    }
    keyfile_close(&file);
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
