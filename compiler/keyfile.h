/* Files of `key = value` lines, and numbers in text, whatever the locale. */
#ifndef DDPC_KEYFILE_H
#define DDPC_KEYFILE_H

#include "lines.h"

/* Splits the line at its first '='. False if there is none. */
bool keyfile_pair(struct line *line, struct word *key, struct word *value);

/* A decimal number such as 12, 0.5 or 1.5e3: finite and not negative. */
bool keyfile_number(const char *text, size_t length, double *out);

#endif
