/* Files of `key = value` lines, and numbers in text, whatever the locale. */
#ifndef DDPC_KEYFILE_H
#define DDPC_KEYFILE_H

#include "lines.h"

/* Splits the line at its first '='. False if there is none. */
bool keyfile_pair(struct line *line, struct word *key, struct word *value);

enum { KEYFILE_NAME = 64 };

/* A thing that a flag names: one of a few presets, or a file of pairs that describes another one.
 * It is a struct of `size` bytes that begins with `char name[KEYFILE_NAME]`, for which a file may
 * have the line `name = TEXT`. */
struct keyfile {
    const char *flag; /* with its dashes */
    const void *presets;
    uint32_t n_presets;
    size_t size;
    const void *blank; /* what a file starts from */
    enum diag_code unknown, malformed;
    const char *repeats; /* the key that may come more than once, or NULL */
    /* NULL, or what is wrong with the pair. Text may be taken from `a`. */
    const char *(*set)(void *to, struct word key, struct word value, struct arena *a);
    /* NULL, or what the file ends without. */
    const char *(*missing)(const void *of);
};

/* False after reporting. */
bool keyfile_read(const struct keyfile *k, const char *name_or_file, void *out, struct diags *d);

/* A decimal number such as 12, 0.5 or 1.5e3: finite and not negative. */
bool keyfile_number(const char *text, size_t length, double *out);

#endif
