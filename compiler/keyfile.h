/* Small text files of the user's: lines of words, and lines `key = value`. '#' begins a comment. */
#ifndef DDPC_KEYFILE_H
#define DDPC_KEYFILE_H

#include "diag.h"

struct keyfile {
    struct source source;
    const char *next; /* the rest of the bytes */
    uint32_t line;    /* of what was read last, from 1 */
};

/* False if it cannot be read, with *why as source_open. */
bool keyfile_open(struct keyfile *f, const char *path, const char **why);
void keyfile_close(struct keyfile *f);

/* The next line that is not empty, without comment and outer blanks; not NUL-terminated. */
bool keyfile_line(struct keyfile *f, const char **text, size_t *length);
/* The next line as key and value; a line without '=' has an empty value and *value NULL. */
bool keyfile_pair(struct keyfile *f, const char **key, size_t *key_length, const char **value,
                  size_t *value_length);

bool keyfile_is(const char *text, size_t length, const char *word);
/* Reports that the line just read `what` ("has no value"). */
void keyfile_report(struct keyfile *f, struct diags *d, enum diag_code code, const char *what);

/* A decimal number such as 12, 0.5 or 1.5e3, finite and not negative, whatever the locale. */
bool keyfile_number(const char *text, size_t length, double *out);

#endif
