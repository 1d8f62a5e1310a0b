/* Reading the small text files: a list of the module's parameters, or a program without a graph.
 *
 * Both come from scripts (a loop over named_parameters) and from people, so the reader is generous
 * in form - two spellings of shapes, two of element types, blanks and comments anywhere - and
 * strict in content: a line that does not say what it must is an error that names the line, never a
 * line that is skipped, since a skipped parameter would make training hang later. */
#include "lines.h"
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

/* False after reporting what no text holds. */
static bool is_text(struct lines *l) {
    l->path = l->source.name; /* which calls standard input by a name */
    const char *nul = l->source.size ? memchr(l->source.bytes, 0, l->source.size) : NULL;
    if (!nul) return true;
    diag_plain(l->diags, DIAG_NOT_TEXT, l->path, "byte %zu is a NUL, which no text holds",
               (size_t)(nul - l->source.bytes));
    lines_close(l);
    return false;
}

bool lines_from(struct lines *l, const char *path, const char *bytes, size_t size,
                struct diags *d) {
    *l = (struct lines){.path = path, .diags = d};
    source_from_memory(&l->source, path, bytes, size);
    return is_text(l);
}

bool lines_open(struct lines *l, const char *path, const char *what, struct diags *d) {
    *l = (struct lines){.path = path, .diags = d};
    const char *why;
    if (!source_open(&l->source, path, &why)) {
        diag_plain(d, DIAG_CANNOT_READ, path, "cannot read the %s: %s", what, why);
        return false;
    }
    return is_text(l);
}

void lines_close(struct lines *l) { source_free(&l->source); }

static void skip_blanks(struct line *line) {
    while (line->at < line->end && isspace((unsigned char)*line->at)) line->at++;
    if (line->at < line->end && *line->at == '#') line->at = line->end;
}

bool lines_next(struct lines *l, struct line *out) {
    while (l->at < l->source.size) {
        const char *from = l->source.bytes + l->at;
        const char *newline = memchr(from, '\n', l->source.size - l->at);
        const char *end = newline ? newline : l->source.bytes + l->source.size;
        l->at = (size_t)(end - l->source.bytes) + 1;
        l->number++;
        *out = (struct line){from, end};
        skip_blanks(out);
        if (out->at < out->end) return true;
    }
    return false;
}

static struct word quoted_word(struct line *line, struct arena *a) {
    char *text = arena_alloc(a, (size_t)(line->end - line->at) + 1);
    size_t n = 0;
    const char *p = line->at + 1;
    for (; p < line->end && *p != '"'; p++) {
        if (*p == '\\' && p + 1 < line->end) p++;
        text[n++] = *p;
    }
    struct word w = {text, n, true, p == line->end, line->at};
    line->at = w.open ? p : p + 1;
    return w;
}

bool line_word(struct line *line, struct arena *a, struct word *out) {
    skip_blanks(line);
    if (line->at == line->end) return false;
    if (*line->at == '"') {
        *out = quoted_word(line, a);
        return true;
    }
    /* Blanks inside the brackets of a shape do not end the word. */
    bool bracket = *line->at == '[';
    const char *from = line->at;
    while (line->at < line->end && (bracket || !isspace((unsigned char)*line->at)))
        if (*line->at++ == ']') bracket = false;
    *out = (struct word){from, (size_t)(line->at - from), false, false, from};
    return true;
}

struct word line_rest(struct line *line) {
    skip_blanks(line);
    const char *end = line->at;
    while (end < line->end && *end != '#') end++;
    while (end > line->at && isspace((unsigned char)end[-1])) end--;
    struct word rest = {line->at, (size_t)(end - line->at), false, false, line->at};
    line->at = line->end;
    return rest;
}

bool word_is(struct word w, const char *text) {
    return w.length == strlen(text) && memcmp(w.text, text, w.length) == 0;
}

struct diag *lines_report(struct lines *l, uint32_t number, enum diag_code code, const char *format,
                          ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char place[512];
    snprintf(place, sizeof place, "%s:%u", l->path, number);
    return diag_plain(l->diags, code, place, "%s", text);
}

enum { MAX_RANK = 64 };

/* `3x5`, `[3,5]`, `[]`, `scalar`. Returns the rank, or -1. */
static int read_shape(struct word w, struct ir_dim *dims) {
    if (word_is(w, "scalar")) return 0;
    const char *p = w.text, *end = w.text + w.length;
    bool bracket = *p == '[';
    char separator = bracket ? ',' : 'x';
    if (bracket) {
        if (end[-1] != ']') return -1;
        p++;
        end--;
    }
    int rank = 0;
    for (bool more = true; more; rank++) {
        while (p < end && *p == ' ') p++;
        if (bracket && rank == 0 && p == end) return 0;
        int64_t size = 0;
        const char *digits = p;
        for (; p < end && isdigit((unsigned char)*p); p++) {
            if (size > (INT64_MAX - 9) / 10) return -1;
            size = size * 10 + (*p - '0');
        }
        if (p == digits || rank == MAX_RANK) return -1;
        dims[rank] = (struct ir_dim){.size = size};
        while (p < end && *p == ' ') p++;
        more = p < end && *p == separator;
        if (more) p++;
    }
    return p == end ? rank : -1;
}

bool lines_type(struct lines *l, struct line *line, struct arena *a, const char *name,
                struct ir_module *m, ir_type *out) {
    struct word w;
    enum ir_dtype dtype;
    bool word = line_word(line, a, &w);
    if (word && w.length > 6 && memcmp(w.text, "torch.", 6) == 0) w.text += 6, w.length -= 6;
    if (!word || !ir_dtype_parse(w.text, w.length, &dtype)) {
        lines_report(l, l->number, DIAG_LIST_SYNTAX,
                     "after the name '%s' an element type must follow, as in `%s float32 3x5`",
                     name, name);
        return false;
    }
    struct ir_dim dims[MAX_RANK];
    int rank = line_word(line, a, &w) ? read_shape(w, dims) : -1;
    if (rank >= 0) *out = ir_type_tensor(m, dtype, rank, dims);
    if (rank < 0 || ir_type_elements(m, *out) < 0) {
        lines_report(
            l, l->number, DIAG_LIST_SYNTAX,
            "'%s' needs a shape after its element type: `3x5` or `[3,5]`; `[]` for a scalar", name);
        return false;
    }
    return true;
}
