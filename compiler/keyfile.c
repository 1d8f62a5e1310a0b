/* Numbers and pairs of the small files: topologies, devices, profiles.
 *
 * Numbers are parsed here and not by strtod, which obeys the locale: the same file must give the
 * same plan everywhere. A mantissa of up to 2^53 and a power of ten of up to 22 are both exact as
 * doubles, so that one multiplication or division rounds correctly. Digits beyond that, as programs
 * print them, are cut off, which changes less than one part in 10^15. Source: W. D. Clinger, "How to read floating point
 * numbers accurately", PLDI 1990 (the fast path). */
#include "keyfile.h"
#include <string.h>

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
