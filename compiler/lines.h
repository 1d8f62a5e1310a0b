/* Small text files of one record a line: --params, --from-list, --policy.
 *
 * A line is words between blanks; '#' starts a comment where a word could start; a word in double
 * quotes may hold anything, with \" and \\ inside. A shape is one word: `3x5` or `[3,5]`; `[]` or
 * `scalar` for rank 0. */
#ifndef DDPC_LINES_H
#define DDPC_LINES_H

#include "ir.h"

struct lines {
    struct source source;
    const char *path;
    size_t at;
    uint32_t number; /* of the line read last, from 1 */
    struct diags *diags;
};

struct line {
    const char *at, *end;
};

struct word {
    const char *text; /* not terminated */
    size_t length;
    bool quoted, open; /* open: no quote closes it */
    const char *from;  /* where it stands in the file, its quote included */
};

/* `what` it is, in a message: "list". False after reporting. */
bool lines_open(struct lines *l, const char *path, const char *what, struct diags *d);
/* The same of a text in memory, of which it takes a copy. */
bool lines_from(struct lines *l, const char *path, const char *bytes, size_t size, struct diags *d);
void lines_close(struct lines *l);
/* The next line that has a word. False at the end. */
bool lines_next(struct lines *l, struct line *out);
/* The next word of a line; false at its end. Escapes of a quoted word are undone in `a`. */
bool line_word(struct line *line, struct arena *a, struct word *out);
/* What is left of a line, without blanks at either end. */
struct word line_rest(struct line *line);

bool word_is(struct word w, const char *text);

/* Reads `dtype shape` of a parameter, the dtype perhaps as PyTorch prints it (torch.float32); a
 * complaint names the parameter. False after reporting. */
bool lines_type(struct lines *l, struct line *line, struct arena *a, const char *name,
                struct ir_module *m, ir_type *out);

/* A diagnostic in front of which "FILE:LINE" stands. */
struct diag *lines_report(struct lines *l, uint32_t number, enum diag_code code, const char *format,
                          ...) __attribute__((format(printf, 4, 5)));

#endif
