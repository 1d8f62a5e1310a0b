/* Diagnostics: what the compiler tells its user.
 *
 * A pass reports with diag_at (a place in the model) or diag_plain (a flag, a file); both return
 * the new diagnostic, to which notes (further places) and one help (the way out) are added. Nothing
 * is printed here before diag_print: it sorts by place, shows at most 20, and draws the line with a
 * caret:
 *
 *     m.ir:4:12: error[DDP0203]: value 'h1' is not defined
 *        4 |     h2 = Relu (h1)
 *          |                ^~
 *     m.ir:3:5: note: 'hl' is defined here
 *     help: did you mean 'hl'?
 *
 * Every code is one record of diagnostics.def: its severity, a title, and the essay behind
 * `ddpc help DDP0203`. A code is never reused for another meaning. */
#ifndef DDPC_DIAG_H
#define DDPC_DIAG_H

#include "source.h"
#include <stdbool.h>
#include <stdio.h>

enum diag_severity { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE };

enum diag_code {
#define DIAG(number, ident, severity, title, essay) DIAG_##ident = number,
#include "diagnostics.def"
#undef DIAG
};

struct diag_note {
    ir_loc loc; /* IR_NO_LOC: no place */
    const char *text;
};

struct diag {
    enum diag_code code;
    enum diag_severity severity;
    ir_loc loc;       /* IR_NO_LOC: no place in the model */
    uint32_t length;  /* bytes under the caret, at least 1 */
    const char *file; /* for a place outside the model, "file:line" or NULL */
    const char *text;
    const char *help; /* NULL: none */
    VEC(struct diag_note) notes;
    uint32_t sequence; /* order of reporting */
};

struct diags {
    struct arena arena;
    VEC(struct diag *) all;
    struct source *source; /* the model; NULL before it is read */
    uint32_t errors, warnings;
};

void diags_init(struct diags *d, struct source *source);
void diags_free(struct diags *d);

/* `length` bytes from `loc` get the caret. The severity is the code's. */
struct diag *diag_at(struct diags *d, enum diag_code code, ir_loc loc, uint32_t length,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* `file` ("params.txt:3", "--dim") stands in front of the message; NULL: "ddpc". */
struct diag *diag_plain(struct diags *d, enum diag_code code, const char *file, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));
void diag_add_note(struct diags *d, struct diag *to, ir_loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_set_help(struct diags *d, struct diag *to, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As if only the first n had been reported. */
void diags_take_back(struct diags *d, uint32_t n);

enum { DIAG_MAX_SHOWN = 20 };
/* Sorts; then prints the first DIAG_MAX_SHOWN and says how many are left. `short_form` is one line
 * a diagnostic; `color` uses terminal escapes. */
void diags_sort(struct diags *d);
void diags_print(struct diags *d, FILE *out, bool short_form, bool color);

const char *diag_title(enum diag_code code);
const char *diag_essay(enum diag_code code); /* NULL for a number that is no code */
enum diag_severity diag_severity_of(enum diag_code code);

/* The nearest to `name` by edit distance among n candidates, or NULL if none is near enough. One that
 * differs in the case of letters alone is nearer than any other. */
const char *diag_nearest(const char *name, const char *const *candidates, size_t n);

#endif
