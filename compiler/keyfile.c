/* Readers of the small files: topologies, devices, profiles.
 *
 * Numbers are parsed here and not by strtod, which obeys the locale: the same file must give the
 * same plan everywhere. A mantissa of up to 2^53 and a power of ten of up to 22 are both exact as
 * doubles, so that one multiplication or division rounds correctly; more digits than that are
 * refused, no file of this kind has them. Source: W. D. Clinger, "How to read floating point
 * numbers accurately", PLDI 1990 (the fast path). */
#include "keyfile.h"
#include <string.h>

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void trim(const char **text, size_t *length) {
    while (*length && blank(**text)) ++*text, --*length;
    while (*length && blank((*text)[*length - 1])) --*length;
}

bool keyfile_open(struct keyfile *f, const char *path, const char **why) {
    memset(f, 0, sizeof *f);
    if (!source_open(&f->source, path, why)) return false;
    f->next = f->source.bytes;
    return true;
}

void keyfile_close(struct keyfile *f) { source_free(&f->source); }

bool keyfile_line(struct keyfile *f, const char **text, size_t *length) {
    const char *end = f->source.bytes + f->source.size;
    while (f->next < end) {
        const char *start = f->next, *stop = memchr(start, '\n', (size_t)(end - start));
        if (!stop) stop = end;
        f->next = stop < end ? stop + 1 : end;
        f->line++;
        const char *hash = memchr(start, '#', (size_t)(stop - start));
        *text = start;
        *length = (size_t)((hash ? hash : stop) - start);
        trim(text, length);
        if (*length) return true;
    }
    return false;
}

bool keyfile_pair(struct keyfile *f, const char **key, size_t *key_length, const char **value,
                  size_t *value_length) {
    size_t length;
    if (!keyfile_line(f, key, &length)) return false;
    const char *equals = memchr(*key, '=', length);
    *value = NULL;
    *value_length = 0;
    *key_length = length;
    if (!equals) return true;
    *key_length = (size_t)(equals - *key);
    *value = equals + 1;
    *value_length = length - *key_length - 1;
    trim(key, key_length);
    trim(value, value_length);
    return true;
}

bool keyfile_is(const char *text, size_t length, const char *word) {
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

void keyfile_report(struct keyfile *f, struct diags *d, enum diag_code code, const char *what) {
    const char *at = arena_printf(&d->arena, "%s:%u", f->source.name, f->line ? f->line : 1);
    diag_plain(d, code, at, "this line %s", what);
}

bool keyfile_number(const char *text, size_t length, double *out) {
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t mantissa = 0;
    int exponent = 0, digits = 0;
    bool point = false;
    size_t i = 0;
    for (; i < length && ((text[i] >= '0' && text[i] <= '9') || (text[i] == '.' && !point)); i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        mantissa = mantissa * 10 + (uint64_t)(text[i] - '0');
        if (mantissa > (UINT64_C(1) << 53)) return false;
        exponent -= point;
        digits++;
    }
    if (!digits) return false;
    if (i < length && (text[i] == 'e' || text[i] == 'E')) {
        int sign = 1, power = 0;
        if (++i < length && (text[i] == '-' || text[i] == '+')) sign = text[i++] == '-' ? -1 : 1;
        if (i == length) return false;
        for (; i < length && text[i] >= '0' && text[i] <= '9'; i++)
            if ((power = power * 10 + (text[i] - '0')) > 99) return false;
        exponent += sign * power;
    }
    if (i < length || exponent < -22 || exponent > 22) return false;
    *out = exponent < 0 ? (double)mantissa / ten[-exponent] : (double)mantissa * ten[exponent];
    return true;
}
