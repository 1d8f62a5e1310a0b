/* Reading JSON of any length, token by token, out of a plain file or one packed by gzip.
 *
 * Nothing is kept but the token at hand and one bit per open bracket, so that a trace of gigabytes
 * takes no more memory than one of kilobytes. */
#ifndef DDPC_JSON_READ_H
#define DDPC_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_token {
    JSON_END, /* after the one value of a file */
    JSON_BAD, /* `why` says what is wrong, and json_place where; it stays so */
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_STRING,
    JSON_NUMBER, /* its digits are the text */
    JSON_WORD,   /* true, false, null, and what programs write for numbers that are none */
};

enum { JSON_MAX_DEPTH = 256, JSON_MAX_TEXT = 4 << 10 };

struct json {
    /* The text of a key, string, number or word: escapes undone, not terminated, valid until the
     * next token. */
    const char *text;
    size_t length;
    bool cut; /* it was longer than JSON_MAX_TEXT; this is its beginning */
    const char *why;
    uint64_t line, column; /* where the token begins, in the unpacked text; both from 1 */
    struct json_stream *stream;
};

/* "-" is standard input. NULL: it cannot be opened. */
struct json *json_open(const char *path);
void json_close(struct json *j);
/* The first byte that is no blank and no byte order mark, not yet consumed; -1 at the end of the
 * file or where it cannot be read (then `why` is set). */
int json_peek(struct json *j);
/* Instead of tokens: up to `size` bytes as they are. */
size_t json_raw(struct json *j, char *to, size_t size);

enum json_token json_next(struct json *j);
/* Passes over the value that begins with this token. False: JSON_BAD. */
bool json_skip(struct json *j, enum json_token first);
/* After JSON_BAD: nothing is wrong but that the file ends between two values of its outermost
 * bracket. */
bool json_ended(const struct json *j);
/* The number of a JSON_NUMBER; false where it is beyond what a time could be. */
bool json_number(const struct json *j, double *out);

#endif
