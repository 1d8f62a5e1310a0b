/* Characters, names, strings and numbers of a model's text.
 *
 * One table classifies all 256 bytes, so that the inner loops (lex.h) are one load and one test a
 * byte. The NUL behind the text belongs to no class; loops therefore stop at the end by themselves.
 * That is why the reader refuses a text that holds a NUL elsewhere.
 *
 * Names are taken generously: what stands where only a name can stand may hold slashes, dots,
 * colons and any character beyond ASCII, as older printers of ONNX wrote them without quotes. */
#include "lex.h"
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* clang-format off */
#define O 0
#define A LEX_ALPHA
#define D LEX_DIGIT
#define M LEX_MARK
#define S LEX_SPACE
#define C LEX_COLON
#define A16 A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A
const uint8_t lex_classes[256] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, /* 0x00 */
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, /* 0x10 */
    S, M, O, O, M, M, M, O, O, O, M, M, O, M, M, M, /* 0x20 */
    D, D, D, D, D, D, D, D, D, D, C, O, O, O, O, O, /* 0x30 */
    M, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, /* 0x40 */
    A, A, A, A, A, A, A, A, A, A, A, O, O, O, O, A, /* 0x50 */
    O, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, /* 0x60 */
    A, A, A, A, A, A, A, A, A, A, A, O, M, O, M, O, /* 0x70 */
    A16, A16, A16, A16, A16, A16, A16, A16, /* 0x80 ... 0xff */
};
#undef O
#undef A
#undef D
#undef M
#undef S
#undef C
#undef A16
/* clang-format on */

char lex_skip_blanks(struct lexer *l) {
    const char *at = l->at;
    for (;;) {
        while (lex_is(*at, LEX_SPACE)) at++;
        if (*at != '#') break;
        const char *line_end = memchr(at, '\n', (size_t)(l->end - at));
        at = line_end ? line_end : l->end;
    }
    l->at = at;
    return *at;
}

bool lex_take_arrow(struct lexer *l) {
    if (lex_peek(l) != '=') return false;
    const char *from = l->at++;
    if (lex_take(l, '>')) return true;
    l->at = from;
    return false;
}

/* The closing quote of the string that starts at `at`; NULL if there is none. */
static const char *closing_quote(const char *at, const char *end, bool *escaped) {
    at++;
    const char *quote = memchr(at, '"', (size_t)(end - at));
    *escaped = quote && memchr(at, '\\', (size_t)(quote - at));
    if (!*escaped) return quote;
    for (; at < end; at++) {
        if (*at == '"') return at;
        if (*at == '\\') at++;
    }
    return NULL;
}

bool lex_string_span(struct lexer *l, struct span *out, bool *escaped) {
    const char *from = l->at + 1, *to = closing_quote(l->at, l->end, escaped);
    if (!to) return false;
    *out = (struct span){from, (size_t)(to - from)};
    l->at = to + 1;
    return true;
}

str lex_unescape(struct strtab *strings, struct span s) {
    VEC(char) text = {0};
    for (size_t i = 0; i < s.len; i++) {
        if (s.s[i] == '\\') i++;
        vec_push(&text, s.s[i]);
    }
    str unescaped = strtab_add(strings, text.at, text.n);
    vec_free(&text);
    return unescaped;
}

bool lex_string(struct lexer *l, struct strtab *strings, str *out) {
    struct span s;
    bool escaped;
    if (!lex_string_span(l, &s, &escaped)) return false;
    *out = escaped ? lex_unescape(strings, s) : strtab_add(strings, s.s, s.len);
    return true;
}

bool lex_skip_string(struct lexer *l) {
    struct span ignored;
    bool escaped;
    return lex_string_span(l, &ignored, &escaped);
}

void lex_skip_to(struct lexer *l, const char *stops) {
    int depth = 0;
    for (char c; (c = lex_peek(l)) != 0; l->at++) {
        if (depth == 0 && strchr(stops, c) && !(c == '>' && l->at[-1] == '=')) return;
        if (c == '"') {
            if (!lex_skip_string(l)) l->at = l->end;
            l->at--;
        } else if (strchr("([{<", c)) {
            depth++;
        } else if (depth > 0 && strchr(")]}>", c) && !(c == '>' && l->at[-1] == '=')) {
            depth--;
        }
    }
}

bool lex_starts_line(const struct lexer *l) {
    const char *at = l->at;
    while (at > l->base && (at[-1] == ' ' || at[-1] == '\t')) at--;
    return at == l->base || at[-1] == '\n';
}

static bool equal_ignoring_case(struct span s, const char *word) {
    if (s.len != strlen(word)) return false;
    for (size_t i = 0; i < s.len; i++)
        if (tolower((unsigned char)s.s[i]) != word[i]) return false;
    return true;
}

bool lex_is_special(struct span s) {
    return equal_ignoring_case(s, "inf") || equal_ignoring_case(s, "infinity") ||
           equal_ignoring_case(s, "nan");
}

enum lex_number_kind lex_number(struct lexer *l, struct span *out) {
    const char *from = l->at;
    if (*l->at == '-' || *l->at == '+') l->at++;
    struct span word = lex_while(l, LEX_ALPHA);
    enum lex_number_kind kind = LEX_INT;
    bool bad = false;
    if (word.len) {
        if (!lex_is_special(word)) {
            l->at = from;
            return LEX_NO_NUMBER;
        }
        kind = equal_ignoring_case(word, "nan") ? LEX_NAN : LEX_INF;
    } else {
        size_t digits = lex_while(l, LEX_DIGIT).len;
        if (*l->at == '.') {
            kind = LEX_FLOAT;
            l->at++;
            digits += lex_while(l, LEX_DIGIT).len;
        }
        if (digits == 0 && l->at == from) return LEX_NO_NUMBER;
        bad = digits == 0;
        if (!bad && (*l->at == 'e' || *l->at == 'E')) {
            kind = LEX_SCIENTIFIC;
            l->at++;
            if (*l->at == '-' || *l->at == '+') l->at++;
            bad = lex_while(l, LEX_DIGIT).len == 0;
        }
    }
    if (lex_while(l, LEX_IDENT | LEX_MARK).len) bad = true; /* 0x10, 1.2.3, 5-6, inf2 */
    *out = (struct span){from, (size_t)(l->at - from)};
    return bad ? LEX_BAD_NUMBER : kind;
}

bool lex_int_value(struct span s, uint64_t *magnitude, bool *negative) {
    size_t i = s.s[0] == '-' || s.s[0] == '+';
    *negative = s.s[0] == '-';
    *magnitude = 0;
    for (; i < s.len; i++) {
        unsigned digit = (unsigned)(s.s[i] - '0');
        if (*magnitude > (UINT64_MAX - digit) / 10) return false;
        *magnitude = *magnitude * 10 + digit;
    }
    return true;
}

double lex_float_value(enum lex_number_kind kind, struct span s) {
    double sign = s.s[0] == '-' ? -1.0 : 1.0;
    if (kind == LEX_INF) return sign * (double)INFINITY;
    if (kind == LEX_NAN) return (double)NAN;
    return strtod(s.s, NULL); /* the span is a whole number, so strtod ends where it does */
}

bool lex_is_identifier(const char *s, size_t len) {
    if (len == 0 || (s[0] >= '0' && s[0] <= '9')) return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] >= 0x80 || !lex_is(s[i], LEX_IDENT)) return false;
    return true;
}

double lex_float32(double x) {
    const double half_way = 0x1.ffffffp+127; /* between the largest one and the next power of two */
    if (fabs(x) >= half_way) return x < 0 ? -INFINITY : INFINITY;
    if (fabs(x) > (double)FLT_MAX) return x < 0 ? -(double)FLT_MAX : (double)FLT_MAX;
    return (double)(float)x;
}
