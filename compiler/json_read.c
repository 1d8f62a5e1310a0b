/* A pull reader for JSON: the caller asks for the next token, and skips what it has no use for.
 *
 * jansson, which writes this project's JSON, builds a tree of a whole file; traces of training are
 * larger than the memory that a compiler may take. zlib's gzread reads packed and plain files alike.
 *
 * Structure is checked strictly: a bracket too few, a comma too many or a file that ends early is
 * an error with its place. Strings are taken as profilers write them: names of kernels and paths
 * with backslashes that escape nothing, raw control characters, bytes that are no UTF-8 (whoever
 * uses a name looks at its bytes). Numbers are not looked at before somebody asks for one. The
 * array of events may end without its bracket, which the trace format allows so that a program can
 * be killed while it writes: the caller decides (trace.c). Source: RFC 8259. */
#define _GNU_SOURCE /* O_CLOEXEC, dup */
#include "json_read.h"
#include "keyfile.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER = 128 << 10 };
static const char ends_early[] = "ends before its last bracket";

enum expects { ANY_VALUE, VALUE_OR_CLOSE, KEY_OR_CLOSE, KEY, COMMA_OR_CLOSE, NOTHING };

struct json_stream {
    struct json j;
    gzFile file;
    size_t at, end; /* in buffer */
    uint64_t before, line,
        newline; /* bytes before the buffer; lines so far; where this one begins */
    enum expects expects;
    uint32_t depth, skip_from; /* skip_from: texts at this depth or deeper are not kept */
    bool object[JSON_MAX_DEPTH];
    size_t length;
    char text[JSON_MAX_TEXT];
    char buffer[BUFFER];
};

struct json *json_open(const char *path) {
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    struct json_stream *s = calloc(1, sizeof *s);
    if (!s || !(s->file = gzdopen(fd, "rb"))) arena_out_of_memory(sizeof *s);
    gzbuffer(s->file, BUFFER);
    s->line = 1;
    s->skip_from = UINT32_MAX;
    s->j.stream = s;
    return &s->j;
}

void json_close(struct json *j) {
    gzclose(j->stream->file);
    free(j->stream);
}

static enum json_token bad(struct json_stream *s, const char *why) {
    if (!s->j.why) s->j.why = why;
    return JSON_BAD;
}

static void mark(struct json_stream *s) {
    s->j.line = s->line;
    s->j.column = s->before + s->at - s->newline + 1;
}

/* At least one more byte, or false: at the end, or with `why` where the file cannot be read. */
static bool more(struct json_stream *s) {
    if (s->at < s->end) return true;
    if (s->j.why) return false;
    s->before += s->end;
    s->at = s->end = 0;
    int got = gzread(s->file, s->buffer, BUFFER), error;
    if (got > 0) s->end = (size_t)got;
    const char *message = gzerror(s->file, &error);
    if (got <= 0 && error != Z_OK && error != Z_STREAM_END) {
        mark(s);
        bad(s, error == Z_BUF_ERROR    ? "ends in the middle of its gzip data"
               : error == Z_DATA_ERROR ? "holds damaged gzip data"
               : error == Z_MEM_ERROR  ? "needs more memory than there is"
               : message && *message   ? "cannot be read to its end"
                                       : "cannot be read");
    }
    return got > 0;
}

/* What a byte is, where most of the time goes. */
enum { BLANK = 1, WORD = 2, STOPS_STRING = 4 };
static const unsigned char class[256] = {
    [' '] = BLANK,        ['\t'] = BLANK,
    ['\r'] = BLANK,       ['\n'] = BLANK | STOPS_STRING,
    ['"'] = STOPS_STRING, ['\\'] = STOPS_STRING,
    ['-'] = WORD,         ['+'] = WORD,
    ['.'] = WORD,         ['0' ... '9'] = WORD,
    ['a' ... 'z'] = WORD, ['A' ... 'Z'] = WORD,
};
static bool is(char c, unsigned char what) { return class[(unsigned char)c] & what; }

static void skip_blanks(struct json_stream *s) {
    do {
        while (s->at < s->end && is(s->buffer[s->at], BLANK))
            if (s->buffer[s->at++] == '\n') {
                s->line++;
                s->newline = s->before + s->at;
            }
    } while (s->at == s->end && more(s));
}

int json_peek(struct json *j) {
    struct json_stream *s = j->stream;
    if (!more(s)) return -1;
    size_t from = s->at;
    if (s->end - s->at >= 3 && memcmp(s->buffer + s->at, "\xef\xbb\xbf", 3) == 0) from += 3;
    for (size_t i = from; i < s->end; i++)
        if (!is(s->buffer[i], BLANK)) {
            if (s->buffer[i] == '{' || s->buffer[i] == '[') s->at = from;
            return (unsigned char)s->buffer[i];
        }
    return ' ';
}

size_t json_raw(struct json *j, char *to, size_t size) {
    struct json_stream *s = j->stream;
    size_t n = 0;
    while (n < size && more(s)) {
        size_t part = s->end - s->at < size - n ? s->end - s->at : size - n;
        memcpy(to + n, s->buffer + s->at, part);
        s->at += part;
        n += part;
    }
    return n;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void keep(struct json_stream *s, const char *bytes, size_t n) {
    if (s->depth >= s->skip_from) return;
    size_t room = JSON_MAX_TEXT - s->length;
    if (n > room) {
        s->j.cut = true;
        n = room;
    }
    memcpy(s->text + s->length, bytes, n);
    s->length += n;
}

static void keep_code_point(struct json_stream *s, uint32_t c) {
    char b[4];
    if (c < 0x80) {
        b[0] = (char)c;
        keep(s, b, 1);
    } else if (c < 0x800) {
        b[0] = (char)(0xC0 | c >> 6);
        b[1] = (char)(0x80 | (c & 63));
        keep(s, b, 2);
    } else if (c < 0x10000) {
        b[0] = (char)(0xE0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 63));
        b[2] = (char)(0x80 | (c & 63));
        keep(s, b, 3);
    } else {
        b[0] = (char)(0xF0 | c >> 18);
        b[1] = (char)(0x80 | (c >> 12 & 63));
        b[2] = (char)(0x80 | (c >> 6 & 63));
        b[3] = (char)(0x80 | (c & 63));
        keep(s, b, 4);
    }
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of \uXXXX. */
static bool code_unit(struct json_stream *s, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int digit = more(s) ? hex_digit(s->buffer[s->at]) : -1;
        if (digit < 0) return false;
        s->at++;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* After a backslash. `high` is the first half of a pair that waits for its second, or 0. */
static bool escape(struct json_stream *s, uint32_t *high) {
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    if (!more(s)) return false;
    char c = s->buffer[s->at++];
    uint32_t unit = 0;
    if (c == 'u' && !code_unit(s, &unit)) return false;
    bool second = c == 'u' && *high && unit >= 0xDC00 && unit < 0xE000;
    if (*high && !second) keep_code_point(s, 0xFFFD);
    if (second) keep_code_point(s, 0x10000 + ((*high - 0xD800) << 10) + (unit - 0xDC00));
    *high = c == 'u' && unit >= 0xD800 && unit < 0xDC00 ? unit : 0;
    if (second || *high) return true;
    const char *known = memchr(from, c, sizeof from - 1);
    if (c == 'u')
        keep_code_point(s, unit >= 0xDC00 && unit < 0xE000 ? 0xFFFD : unit);
    else
        keep(s, known ? to + (known - from) : &c, 1);
    return true;
}

/* The rest of a string, whose opening quote is consumed. */
static bool string(struct json_stream *s) {
    uint32_t high = 0;
    while (more(s)) {
        const char *from = s->buffer + s->at;
        size_t n = s->end - s->at, i = 0;
        while (i < n && !is(from[i], STOPS_STRING)) i++;
        if (high && (i || from[0] != '\\')) {
            keep_code_point(s, 0xFFFD);
            high = 0;
        }
        keep(s, from, i);
        s->at += i;
        if (i == n) continue;
        char c = s->buffer[s->at++];
        if (c == '"') return true;
        if (c == '\n') {
            keep(s, "\n", 1);
            s->line++;
            s->newline = s->before + s->at;
        } else if (!escape(s, &high))
            break;
    }
    bad(s, more(s) ? "has an escape of a string that is cut off" : "ends inside a string");
    return false;
}

static enum json_token word(struct json_stream *s) {
    static const char *const known[] = {"true", "false",    "null",      "NaN", "nan",
                                        "-nan", "Infinity", "-Infinity", "inf", "-inf"};
    uint32_t skip_from = s->skip_from; /* words are looked at even where they are passed over */
    s->skip_from = UINT32_MAX;
    while (more(s) && is(s->buffer[s->at], WORD)) {
        size_t from = s->at;
        while (s->at < s->end && is(s->buffer[s->at], WORD)) s->at++;
        keep(s, s->buffer + from, s->at - from);
    }
    s->skip_from = skip_from;
    if (s->length == 0) return bad(s, "has a character where a value should begin");
    char digit = s->text[s->text[0] == '-' && s->length > 1];
    if (digit >= '0' && digit <= '9') return JSON_NUMBER;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == s->length && memcmp(known[i], s->text, s->length) == 0)
            return JSON_WORD;
    return bad(s, "has a word that is none of JSON's");
}

/* ---- structure ------------------------------------------------------------------------------- */

static void after_value(struct json_stream *s) { s->expects = s->depth ? COMMA_OR_CLOSE : NOTHING; }

static enum json_token open_bracket(struct json_stream *s, bool object) {
    if (s->depth == JSON_MAX_DEPTH) return bad(s, "is nested deeper than 256 brackets");
    s->at++;
    s->object[s->depth++] = object;
    s->expects = object ? KEY_OR_CLOSE : VALUE_OR_CLOSE;
    return object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token close_bracket(struct json_stream *s, char c) {
    bool may =
        s->expects == VALUE_OR_CLOSE || s->expects == KEY_OR_CLOSE || s->expects == COMMA_OR_CLOSE;
    if (!may || s->object[s->depth - 1] != (c == '}'))
        return bad(s, "has a bracket that closes nothing");
    s->at++;
    s->depth--;
    after_value(s);
    return c == '}' ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static enum json_token key(struct json_stream *s) {
    s->at++;
    if (!string(s)) return JSON_BAD;
    skip_blanks(s);
    if (!more(s) || s->buffer[s->at] != ':') {
        mark(s);
        return bad(s, more(s) ? "has a key without a colon after it" : ends_early);
    }
    s->at++;
    s->expects = ANY_VALUE;
    return JSON_KEY;
}

static enum json_token value(struct json_stream *s, char c) {
    if (c == '{' || c == '[') return open_bracket(s, c == '{');
    enum json_token t = JSON_STRING;
    if (c == '"') {
        s->at++;
        if (!string(s)) return JSON_BAD;
    } else if ((t = word(s)) == JSON_BAD)
        return t;
    after_value(s);
    return t;
}

static enum json_token token(struct json_stream *s) {
    skip_blanks(s);
    if (s->expects == COMMA_OR_CLOSE && more(s) && s->buffer[s->at] == ',') {
        s->at++;
        s->expects = s->object[s->depth - 1] ? KEY : ANY_VALUE;
        skip_blanks(s);
    }
    if (s->j.why) return JSON_BAD;
    mark(s);
    if (!more(s)) {
        if (s->j.why) return JSON_BAD;
        return s->expects == NOTHING ? JSON_END : bad(s, ends_early);
    }
    char c = s->buffer[s->at];
    if (s->expects == NOTHING) return bad(s, "goes on after its value");
    if (c == '}' || c == ']') return close_bracket(s, c);
    if (s->expects == COMMA_OR_CLOSE) return bad(s, "lacks a comma or a bracket");
    if (s->expects != KEY && s->expects != KEY_OR_CLOSE) return value(s, c);
    return c == '"' ? key(s) : bad(s, "has something that is no key in an object");
}

enum json_token json_next(struct json *j) {
    struct json_stream *s = j->stream;
    if (j->why) return JSON_BAD;
    s->length = 0;
    j->cut = false;
    enum json_token t = token(s);
    j->text = s->text;
    j->length = s->length;
    return t;
}

bool json_skip(struct json *j, enum json_token first) {
    if (first != JSON_OBJECT && first != JSON_ARRAY) return first != JSON_BAD;
    struct json_stream *s = j->stream;
    uint32_t depth = s->depth - 1;
    s->skip_from = s->depth;
    enum json_token t = first;
    while (s->depth > depth && t != JSON_BAD) t = json_next(j);
    s->skip_from = UINT32_MAX;
    return t != JSON_BAD;
}

bool json_ended(const struct json *j) {
    const struct json_stream *s = j->stream;
    return j->why == ends_early && s->depth == 1 &&
           (s->expects == COMMA_OR_CLOSE || s->expects == ANY_VALUE ||
            s->expects == VALUE_OR_CLOSE);
}

bool json_number(const struct json *j, double *out) {
    bool negative = j->length && j->text[0] == '-';
    if (j->cut || !keyfile_number(j->text + negative, j->length - negative, out)) return false;
    if (negative) *out = -*out;
    return true;
}
