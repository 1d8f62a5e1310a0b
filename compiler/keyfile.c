/* The small files: pairs and numbers in topologies, devices and profiles, and the way from a flag's
 * value to a preset or a file.
 *
 * Numbers are parsed here and not by strtod, which obeys the locale: the same file must give the
 * same plan everywhere. A mantissa of up to 2^53 and a power of ten of up to 22 are both exact as
 * doubles, so that one multiplication or division rounds correctly. Digits beyond that, as programs
 * print them, are cut off, which changes less than one part in 10^15. Source: W. D. Clinger, "How
 * to read floating point numbers accurately", PLDI 1990 (the fast path). */
#include "keyfile.h"
#include <string.h>

/* ---- pairs and numbers ----------------------------------------------------------------------- */

bool keyfile_pair(struct line *line, struct word *key, struct word *value) {
    const char *equals = memchr(line->at, '=', (size_t)(line->end - line->at));
    if (!equals) return false;
    struct line left = {line->at, equals};
    *key = line_rest(&left);
    line->at = equals + 1;
    *value = line_rest(line);
    return true;
}

bool keyfile_number(const char *text, size_t length, double *out) {
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t mantissa = 0;
    int exponent = 0, digits = 0;
    bool point = false, full = false;
    size_t i = 0;
    for (; i < length && ((text[i] >= '0' && text[i] <= '9') || (text[i] == '.' && !point)); i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        digits++;
        uint64_t longer = mantissa * 10 + (uint64_t)(text[i] - '0');
        full = full || longer > UINT64_C(1) << 53;
        if (!full) mantissa = longer;
        exponent += full ? !point : -point;
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

/* ---- presets and files ----------------------------------------------------------------------- */

static const char *preset_name(const struct keyfile *k, uint32_t i) {
    return (const char *)k->presets + i * k->size;
}

/* "a, b and c" */
static const char *list_of(struct arena *a, const char *const *names, uint32_t n) {
    const char *list = names[0];
    for (uint32_t i = 1; i < n; i++)
        list = arena_printf(a, "%s%s%s", list, i + 1 < n ? ", " : " and ", names[i]);
    return list;
}

static void report_unknown(const struct keyfile *k, const char *name, const char *why,
                           struct diags *d) {
    const char **names = arena_new(&d->arena, const char *, k->n_presets);
    for (uint32_t i = 0; i < k->n_presets; i++) names[i] = preset_name(k, i);
    const char *nearest = diag_nearest(name, names, k->n_presets);
    struct diag *x =
        diag_plain(d, k->unknown, k->flag, "'%s' is no preset, and as a file it %s", name, why);
    diag_set_help(d, x, "%s%s%sthe presets are %s", nearest ? "did you mean '" : "",
                  nearest ? nearest : "", nearest ? "'? " : "",
                  list_of(&d->arena, names, k->n_presets));
}

typedef VEC(struct word) word_list;

/* NULL, or what is wrong with the line. */
static const char *read_pair(const struct keyfile *k, struct line *line, word_list *seen, void *out,
                             struct arena *a) {
    struct word key, value;
    if (!keyfile_pair(line, &key, &value)) return "is not `key = value`";
    for (uint32_t i = 0; i < seen->n; i++)
        if (seen->at[i].length == key.length && !memcmp(seen->at[i].text, key.text, key.length))
            return arena_printf(a, "gives `%.*s` again", (int)key.length, key.text);
    if (!word_is(key, "name")) {
        const char *wrong = k->set(out, key, value, a);
        if (!wrong && !(k->repeats && word_is(key, k->repeats))) vec_push(seen, key);
        return wrong;
    }
    if (value.length == 0 || value.length >= KEYFILE_NAME) return "wants 1 to 63 bytes";
    for (size_t i = 0; i < value.length; i++)
        if ((unsigned char)value.text[i] < ' ' || value.text[i] == 0x7f)
            return "has a control character in the name";
    memcpy(out, value.text, value.length);
    ((char *)out)[value.length] = 0;
    vec_push(seen, key);
    return NULL;
}

bool keyfile_read(const struct keyfile *k, const char *name_or_file, void *out, struct diags *d) {
    for (uint32_t i = 0; i < k->n_presets; i++)
        if (strcmp(name_or_file, preset_name(k, i)) == 0) {
            memcpy(out, preset_name(k, i), k->size);
            return true;
        }
    struct lines f = {.path = name_or_file, .diags = d};
    const char *why;
    if (!source_open(&f.source, name_or_file, &why)) {
        report_unknown(k, name_or_file, why, d);
        return false;
    }
    memcpy(out, k->blank, k->size);
    struct line line;
    word_list seen = {0};
    bool ok = true;
    while (lines_next(&f, &line)) {
        if (!(why = read_pair(k, &line, &seen, out, &d->arena))) continue;
        lines_report(&f, f.number, k->malformed, "this line %s", why);
        ok = false;
    }
    if (ok && (why = k->missing(out))) {
        lines_report(&f, f.number ? f.number : 1, k->malformed, "the file ends without %s", why);
        ok = false;
    }
    vec_free(&seen);
    lines_close(&f);
    return ok;
}
