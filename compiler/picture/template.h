/* Pages from templates: HTML with places to fill in, in the manner of Mustache.
 *
 *     {{name}}                a text, escaped for HTML
 *     {{{name}}}              what a function writes, as it is
 *     {{#name}} .. {{/name}}  as often as there is something; the names inside then mean that
 *
 * A line that holds only the begin or the end of a part leaves no line behind. */
#ifndef DDPC_TEMPLATE_H
#define DDPC_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct template_data {
    void *context;
    const char *(*text)(void *context, const char *name);
    void (*raw)(void *context, const char *name, FILE *out);
    /* Makes the i-th the current one; false: there are only i. */
    bool (*part)(void *context, const char *name, uint32_t i);
};
void template_write(const char *text, size_t n, const struct template_data *d, FILE *out);

/* The files beside this one, which the build puts into the program. */
#define TEMPLATE_FILES(X) X(report_html) X(report_css) X(report_js)
#define FILE_OF(name)                                                                              \
    extern const char name[];                                                                      \
    extern const size_t name##_size;
TEMPLATE_FILES(FILE_OF)
#undef FILE_OF

#endif
