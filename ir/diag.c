/* Diagnostics: collecting, sorting, and drawing them.
 *
 * Texts live in the collection's own arena, so a pass may free everything it used to make them.
 * What is printed has been through `put_text`: a model is somebody else's file, and its names must
 * not reach the terminal as escape sequences.
 *
 * The drawing has to cope with lines as they are: tabs (the underline repeats them, so that both
 * lines move alike), UTF-8 (one column per code point; the reported column still counts bytes, as
 * editors' jump commands do), and lines of a megabyte, where only a window around the place is
 * shown.
 *
 * When there are more than DIAG_MAX_SHOWN, errors take precedence: a warning is shown only if all
 * errors are. */
#include "diag.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WINDOW = 120 }; /* bytes of a long line that are shown */

static const struct record {
    int number;
    enum diag_severity severity;
    const char *title, *essay;
} records[] = {
#define DIAG(number, ident, severity, title, essay) {number, severity, title, essay},
#include "diagnostics.def"
#undef DIAG
};

static const struct record *record_of(enum diag_code code) {
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (records[i].number == (int)code) return &records[i];
    return NULL;
}

const char *diag_title(enum diag_code code) {
    const struct record *r = record_of(code);
    return r ? r->title : NULL;
}

const char *diag_essay(enum diag_code code) {
    const struct record *r = record_of(code);
    return r ? r->essay : NULL;
}

enum diag_severity diag_severity_of(enum diag_code code) {
    const struct record *r = record_of(code);
    return r ? r->severity : DIAG_ERROR;
}

void diags_init(struct diags *d, struct source *source) { *d = (struct diags){.source = source}; }

void diags_take_back(struct diags *d, uint32_t n) {
    while (d->all.n > n) {
        struct diag *g = d->all.at[--d->all.n];
        d->errors -= g->severity == DIAG_ERROR;
        d->warnings -= g->severity == DIAG_WARNING;
        vec_free(&g->notes);
    }
}

void diags_free(struct diags *d) {
    diags_take_back(d, 0);
    vec_free(&d->all);
    arena_free(&d->arena);
    *d = (struct diags){0};
}

static struct diag *add(struct diags *d, enum diag_code code, const char *text) {
    struct diag *new = arena_new(&d->arena, struct diag, 1);
    new->code = code;
    new->severity = diag_severity_of(code);
    new->loc = IR_NO_LOC;
    new->length = 1;
    new->text = text;
    new->sequence = d->all.n;
    vec_push(&d->all, new);
    if (new->severity == DIAG_ERROR) d->errors++;
    if (new->severity == DIAG_WARNING) d->warnings++;
    return new;
}

/* The bytes of a quoted name that begins at `loc`, quotes and escapes included; `length` for
 * others. */
static uint32_t quoted_length(const struct source *s, ir_loc loc, uint32_t length) {
    if (!s || s->binary || loc >= s->size || s->bytes[loc] != '"') return length;
    for (size_t i = loc + 1; i < s->size && s->bytes[i] != '\n'; i++) {
        if (s->bytes[i] == '"') return (uint32_t)(i + 1 - loc);
        if (s->bytes[i] == '\\') i++;
    }
    return length;
}

struct diag *diag_at(struct diags *d, enum diag_code code, ir_loc loc, uint32_t length,
                     const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct diag *new = add(d, code, arena_vprintf(&d->arena, format, args));
    va_end(args);
    new->loc = loc;
    new->length = quoted_length(d->source, loc, length ? length : 1);
    return new;
}

struct diag *diag_plain(struct diags *d, enum diag_code code, const char *file, const char *format,
                        ...) {
    va_list args;
    va_start(args, format);
    struct diag *new = add(d, code, arena_vprintf(&d->arena, format, args));
    va_end(args);
    new->file = arena_printf(&d->arena, "%s", file ? file : "ddpc");
    return new;
}

void diag_add_note(struct diags *d, struct diag *to, ir_loc loc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct diag_note note = {loc, arena_vprintf(&d->arena, format, args)};
    va_end(args);
    vec_push(&to->notes, note);
}

void diag_set_help(struct diags *d, struct diag *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    to->help = arena_vprintf(&d->arena, format, args);
    va_end(args);
}

/* ---- printing -------------------------------------------------------------------------------- */

struct style {
    const char *bold, *error, *warning, *note, *line, *off;
};

static const struct style plain = {"", "", "", "", "", ""};
static const struct style colored = {"\033[1m",    "\033[1;31m", "\033[1;35m",
                                     "\033[1;36m", "\033[34m",   "\033[0m"};

static int compare(const void *a, const void *b) {
    const struct diag *x = *(struct diag *const *)a, *y = *(struct diag *const *)b;
    if (x->loc != y->loc) return x->loc < y->loc ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

void diags_sort(struct diags *d) {
    if (d->all.n) qsort(d->all.at, d->all.n, sizeof(struct diag *), compare);
}

/* The bytes of the character at s: 1 to 4. *shown is false for a control character and for what is
 * not UTF-8; such a character is printed as '?'. */
static size_t character(const char *s, size_t len, bool *shown) {
    unsigned char c = (unsigned char)s[0];
    *shown = c >= ' ' && c < 0x7f;
    if (c < 0xc2 || c > 0xf4) return 1;
    size_t n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < n; i++)
        if (i >= len || ((unsigned char)s[i] & 0xc0) != 0x80) return 1;
    *shown = c != 0xc2 || (unsigned char)s[1] >= 0xa0; /* U+0080 ... U+009F are controls too */
    return n;
}

/* A newline or a tab may stand in a message. */
static void put_text(FILE *out, const char *s, size_t len) {
    for (size_t n; len > 0; s += n, len -= n) {
        bool shown;
        n = character(s, len, &shown);
        if (shown || *s == '\n' || *s == '\t')
            fwrite(s, 1, n, out);
        else
            putc('?', out);
    }
}

enum { LONGEST_TEXT = 2000 }; /* a name may be a megabyte long */

static void puts_text(FILE *out, const char *s) {
    size_t n = strlen(s), shown = n > LONGEST_TEXT ? LONGEST_TEXT : n;
    while (shown < n && ((unsigned char)s[shown] & 0xc0) == 0x80) shown--;
    put_text(out, s, shown);
    if (shown < n) fputs("...", out);
}

/* As wide as the text: `fill` for each character, and tabs as they are if `keep_tabs`. */
static void put_underline(FILE *out, const char *s, size_t len, char fill, bool keep_tabs) {
    for (size_t n; len > 0; s += n, len -= n) {
        bool shown;
        n = character(s, len, &shown);
        putc(keep_tabs && *s == '\t' ? '\t' : fill, out);
    }
}

static void put_place(struct diags *d, FILE *out, ir_loc loc) {
    puts_text(out, d->source->name);
    if (loc == IR_NO_LOC) return;
    if (d->source->binary) {
        struct arena a = {0};
        const char *path = source_path(d->source, loc, &a);
        fprintf(out, "%s%s", *path ? ":" : "", path);
        arena_free(&a);
        return;
    }
    uint32_t line, column;
    source_position(d->source, loc, &line, &column);
    fprintf(out, ":%u:%u", line, column);
}

/* The line of the place and, below, the caret. */
static void put_excerpt(struct diags *d, FILE *out, const struct diag *g, const struct style *st) {
    uint32_t line, column;
    source_position(d->source, g->loc, &line, &column);
    const char *text;
    size_t len = source_line(d->source, line, &text), at = column - 1, from = 0, to = len;
    if (at > len) at = len;
    if (len > WINDOW) {
        from = at > WINDOW / 2 ? at - WINDOW / 2 : 0;
        while (from > 0 && ((unsigned char)text[from] & 0xc0) == 0x80) from--;
        to = len - from > WINDOW ? from + WINDOW : len;
    }
    size_t last = at + g->length < to ? at + g->length : to;
    fprintf(out, "%s%5u |%s %s", st->line, line, st->off, from ? "..." : "");
    put_text(out, text + from, to - from);
    fprintf(out, "%s\n%s      |%s %s", to < len ? "..." : "", st->line, st->off, from ? "   " : "");
    put_underline(out, text + from, at - from, ' ', true);
    fprintf(out, "%s^", g->severity == DIAG_ERROR ? st->error : st->warning);
    bool shown;
    size_t first = at < last ? character(text + at, last - at, &shown) : 0;
    put_underline(out, text + at + first, last > at + first ? last - at - first : 0, '~', false);
    fprintf(out, "%s\n", st->off);
}

static void put_diag(struct diags *d, FILE *out, const struct diag *g, bool short_form,
                     const struct style *st) {
    fputs(st->bold, out);
    if (g->file)
        puts_text(out, g->file);
    else if (d->source && d->source->name) /* opened */
        put_place(d, out, g->loc);
    else
        fputs("ddpc", out);
    static const char *const words[] = {"error", "warning", "note"};
    const char *color = g->severity == DIAG_ERROR     ? st->error
                        : g->severity == DIAG_WARNING ? st->warning
                                                      : st->note;
    fprintf(out, ": %s%s[DDP%04d]%s%s: ", color, words[g->severity], (int)g->code, st->off,
            st->bold);
    puts_text(out, g->text);
    fprintf(out, "%s\n", st->off);
    if (short_form) return;
    if (!g->file && d->source && !d->source->binary && g->loc != IR_NO_LOC)
        put_excerpt(d, out, g, st);
    for (uint32_t i = 0; i < g->notes.n; i++) {
        const struct diag_note *note = &g->notes.at[i];
        if (note->loc != IR_NO_LOC && d->source) {
            put_place(d, out, note->loc);
            fputs(": ", out);
        }
        fprintf(out, "%snote%s: ", st->note, st->off);
        puts_text(out, note->text);
        putc('\n', out);
    }
    if (g->help) {
        fprintf(out, "%shelp%s: ", st->bold, st->off);
        puts_text(out, g->help);
        putc('\n', out);
    }
}

void diags_print(struct diags *d, FILE *out, bool short_form, bool color) {
    diags_sort(d);
    uint32_t left_errors = DIAG_MAX_SHOWN, hidden_errors = 0, hidden_others = 0;
    uint32_t left_others = d->errors < DIAG_MAX_SHOWN ? DIAG_MAX_SHOWN - d->errors : 0;
    for (uint32_t i = 0; i < d->all.n; i++) {
        const struct diag *g = d->all.at[i];
        bool error = g->severity == DIAG_ERROR;
        uint32_t *left = error ? &left_errors : &left_others;
        if (*left == 0) {
            *(error ? &hidden_errors : &hidden_others) += 1;
            continue;
        }
        --*left;
        put_diag(d, out, g, short_form, color ? &colored : &plain);
    }
    if (hidden_errors)
        fprintf(out, "%u more error%s not shown\n", hidden_errors, hidden_errors > 1 ? "s" : "");
    if (hidden_others)
        fprintf(out, "%u more warning%s not shown\n", hidden_others, hidden_others > 1 ? "s" : "");
}

/* ---- near names ------------------------------------------------------------------------------ */

enum { LONGEST = 256 }; /* names beyond this many bytes get no suggestion */

/* Insertions, deletions, replacements and swaps of neighbours that lead from one to the other
 * (optimal string alignment); limit + 1 as soon as there must be more than `limit`. What both
 * begin and end with costs nothing, and a way that leaves the band of `limit` around the diagonal
 * is too long (Ukkonen 1985): with a million names that differ in their last letters, each costs a
 * few steps. */
static uint32_t distance(const char *a, size_t n, const char *b, size_t m, uint32_t limit) {
    if ((n > m ? n - m : m - n) > limit) return limit + 1;
    while (n && m && *a == *b) a++, b++, n--, m--;
    while (n && m && a[n - 1] == b[m - 1]) n--, m--;
    uint32_t rows[3][LONGEST + 2], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m && j <= limit + 1; j++) before[j] = last[j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        size_t from = i > limit ? i - limit : 1, to = i + limit < m ? i + limit : m;
        uint32_t least = row[from - 1] = from == 1 ? (uint32_t)i : limit + 1;
        for (size_t j = from; j <= to; j++) {
            uint32_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
            if (best < least) least = best;
        }
        if (least > limit) return limit + 1;
        row[to + 1] = limit + 1; /* the next row looks one beyond */
        uint32_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

const char *diag_nearest(const char *name, const char *const *candidates, size_t n) {
    size_t len = strlen(name);
    if (len > LONGEST) return NULL;
    /* A third of the name may differ; of a short one, a single letter. */
    uint32_t limit = len < 6 ? 1 : (uint32_t)(len / 3 < 6 ? len / 3 : 6);
    const char *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(name, candidates[i]) && strcmp(name, candidates[i])) return candidates[i];
    for (size_t i = 0; i < n; i++) {
        size_t other = strlen(candidates[i]);
        if (other == 0 || other > LONGEST) continue;
        uint32_t far = distance(name, len, candidates[i], other, limit);
        if (far > limit || far == 0) continue;
        best = candidates[i];
        if (far == 1) break;
        limit = far - 1;
    }
    return best;
}
