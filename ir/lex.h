/* The lexer: characters of a model's text, grouped on demand.
 *
 * There is no token type. The grammar can always be decided by the next character, so a reader
 * peeks at it and then asks for what it wants there: a name, a string, a number, a sign. */
#ifndef DDPC_LEX_H
#define DDPC_LEX_H

#include "strtab.h"
#include <string.h>

struct lexer {
    const char *base, *at, *end; /* *end is NUL, and there is no NUL before it */
};

struct span {
    const char *s;
    size_t len;
};

enum lex_class {
    LEX_SPACE = 1,
    LEX_ALPHA = 2, /* letters, '_', and every byte of a character beyond ASCII */
    LEX_DIGIT = 4,
    LEX_MARK = 8, /* what older printers left unquoted in names: / . - | and the like */
    LEX_COLON = 16,
    LEX_IDENT = LEX_ALPHA | LEX_DIGIT,
    LEX_NAME = LEX_IDENT | LEX_MARK | LEX_COLON,
};

extern const uint8_t lex_classes[256];

static inline bool lex_is(char c, int classes) { return lex_classes[(unsigned char)c] & classes; }

/* Behind white space and comments: the next character, 0 at the end of the text. */
char lex_skip_blanks(struct lexer *l);
static inline char lex_peek(struct lexer *l) {
    if (*l->at == ' ') l->at++; /* nearly always none, or a single one */
    return (unsigned char)*l->at > '#' ? *l->at : lex_skip_blanks(l);
}

/* Takes the character if it is next. */
static inline bool lex_take(struct lexer *l, char c) {
    if (lex_peek(l) != c) return false;
    l->at++;
    return true;
}

/* Takes "=>" (or "= >") if it is next. */
bool lex_take_arrow(struct lexer *l);

/* Takes characters of the given classes, from the current position on. */
static inline struct span lex_while(struct lexer *l, int classes) {
    const char *from = l->at, *at = from;
    /* Four at a time, as names are most of a text. */
    while (lex_is(at[0], classes)) {
        if (!lex_is(*++at, classes)) break;
        if (!lex_is(*++at, classes)) break;
        if (!lex_is(*++at, classes)) break;
        at++;
    }
    l->at = at;
    return (struct span){from, (size_t)(at - from)};
}

/* The same without a "..." at the end, which names would swallow: data that a printer left out. */
static inline struct span lex_while_not_elided(struct lexer *l, int classes) {
    struct span s = lex_while(l, classes);
    if (s.len > 3 && memcmp(s.s + s.len - 3, "...", 3) == 0) l->at = s.s + (s.len -= 3);
    return s;
}

static inline bool span_is(struct span s, const char *word) {
    size_t len = strlen(word);
    return s.len == len && memcmp(s.s, word, len) == 0;
}

/* Takes a quoted string that starts at the current position and interns it; a backslash stands for
 * the character after it. False, with nothing taken, if the closing quote is missing. */
bool lex_string(struct lexer *l, struct strtab *strings, str *out);
/* The same without keeping it; or only what stands between the quotes, and whether there are
 * backslashes, which lex_unescape takes out. */
bool lex_string_span(struct lexer *l, struct span *out, bool *escaped);
str lex_unescape(struct strtab *strings, struct span s);
bool lex_skip_string(struct lexer *l);

/* To the next of `stops` outside brackets, strings and comments, not taken, or to the end. */
void lex_skip_to(struct lexer *l, const char *stops);
/* Nothing but blanks stands before the current position in its line. */
bool lex_starts_line(const struct lexer *l);

enum lex_number_kind {
    LEX_NO_NUMBER,
    LEX_INT,
    LEX_FLOAT,      /* with a point */
    LEX_SCIENTIFIC, /* with an exponent */
    LEX_INF,
    LEX_NAN,
    LEX_BAD_NUMBER,
};

/* Takes a number that starts at the current position: its sign, digits, or inf, infinity, nan in
 * any case. LEX_NO_NUMBER: nothing taken. LEX_BAD_NUMBER: taken what looks like one but is none. */
enum lex_number_kind lex_number(struct lexer *l, struct span *out);
/* False if it does not fit into 64 bits. `*negative` tells what *magnitude leaves out. */
bool lex_int_value(struct span s, uint64_t *magnitude, bool *negative);
double lex_float_value(enum lex_number_kind kind, struct span s);
/* The nearest float of 32 bits, infinite beyond them: '3.4028235e+38' is above the largest one and
 * means it, as printers write nine digits or fewer. */
double lex_float32(double x);

/* A word that is a number to the grammar: inf, infinity, nan. */
bool lex_is_special(struct span s);
/* [A-Za-z_][A-Za-z0-9_]* */
bool lex_is_identifier(const char *s, size_t len);

#endif
