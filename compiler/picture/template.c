/* Writing a template. It is ours, so what is wrong with it is an assertion. */
#define _GNU_SOURCE
#include "template.h"
#include "svg.h"
#include <assert.h>
#include <string.h>

enum { LONGEST_NAME = 32 };

static const char *find(const char *at, const char *end, const char *what) {
    const char *found = at < end ? memmem(at, (size_t)(end - at), what, strlen(what)) : NULL;
    return found ? found : end;
}

/* Behind a mark that begins a line: the end of that line belongs to it. */
static const char *skip_line(const char *mark, const char *after, const char *start) {
    return (mark == start || mark[-1] == '\n') && *after == '\n' ? after + 1 : after;
}

static void write_range(const char *start, const char *at, const char *end,
                        const struct template_data *d, FILE *out) {
    while (at < end) {
        const char *mark = find(at, end, "{{");
        fwrite(at, 1, (size_t)(mark - at), out);
        if (mark == end) return;
        char kind = mark[2] == '{' || mark[2] == '#' ? mark[2] : 0;
        const char *from = mark + 2 + (kind != 0), *to = find(from, end, "}}");
        char name[LONGEST_NAME + 8];
        assert(to < end && to - from < LONGEST_NAME);
        snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
        at = to + 2 + (kind == '{');
        if (kind == '{') {
            d->raw(d->context, name, out);
        } else if (kind == '#') {
            char closing[LONGEST_NAME + 8];
            snprintf(closing, sizeof closing, "{{/%.*s}}", (int)(to - from), from);
            const char *first = skip_line(mark, at, start), *close = find(first, end, closing);
            assert(close < end);
            for (uint32_t i = 0; d->part(d->context, name, i); i++)
                write_range(start, first, close, d, out);
            at = skip_line(close, close + strlen(closing), start);
        } else
            svg_escape(out, d->text(d->context, name));
    }
}

void template_write(const char *text, size_t n, const struct template_data *d, FILE *out) {
    write_range(text, text, text + n, d, out);
}
