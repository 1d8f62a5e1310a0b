/* SARIF 2.1.0, the form of findings that code scanning services read. */
#ifndef DDPC_SARIF_H
#define DDPC_SARIF_H

#include "diag.h"
#include <jansson.h>

/* A log with one run: rules and results are arrays that it takes. Written as one JSON object with a
 * newline. invocations (an array) and properties: of the run, taken; NULL: none. */
void sarif_write(FILE *out, json_t *rules, json_t *results, json_t *invocations, json_t *properties,
                 size_t flags);

/* A rule; level: what a result of it has if nothing else is said. */
json_t *sarif_rule(const char *id, const char *title, const char *essay, const char *level);

/* A place in a file; line 0: the file, column 0: the line. NULL where `path` is no file's name
 * (standard input, a flag). */
json_t *sarif_place(struct arena *a, const char *path, uint32_t line, uint32_t column);
/* The same for a byte of a source. */
json_t *sarif_place_in(struct arena *a, struct source *s, ir_loc at);

/* Adds the diagnostics to an array of results. */
void sarif_add(json_t *results, struct diags *d);
/* Prints such an array as a log. */
void sarif_print(FILE *out, json_t *results);

#endif
