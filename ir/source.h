/* A source: the bytes of one input file, and the way from a byte offset to line and column. */
#ifndef DDPC_SOURCE_H
#define DDPC_SOURCE_H

#include "arena.h"
#include <stdbool.h>

/* A place in a source: a byte offset. IR_NO_LOC where there is none. */
typedef uint32_t ir_loc;
#define IR_NO_LOC UINT32_MAX

struct source {
    const char *name;    /* as the user gave it; "<stdin>" for "-" */
    const char *bytes;   /* `size` bytes, then a NUL */
    size_t size;         /* < 4 GiB */
    bool binary;         /* a serialized ModelProto: places are paths, not lines */
    VEC(uint32_t) lines; /* offset of each line's first byte; filled at the first question */
    VEC(uint32_t)
    indices;       /* of a binary one: `lines` has its main graph's fields, these their indices */
    void *mapping; /* what to release */
    size_t mapping_size;
};

/* Reads a whole file ("-" is standard input), without a byte order mark. On failure returns false
 * and sets *why to a sentence such as "is a directory" (static storage); the source is then empty
 * and need not be freed. */
bool source_open(struct source *s, const char *path, const char **why);
/* Takes a private copy of the bytes. */
void source_from_memory(struct source *s, const char *name, const void *bytes, size_t size);
void source_free(struct source *s);

/* Line and column of a byte, both from 1; columns count bytes, a tab is one. Both 0 in a binary
 * model.
 */
void source_position(struct source *s, ir_loc at, uint32_t *line, uint32_t *column);
/* Of a binary model's byte: the path of fields to it, such as graph.node[12].input[0]
 * (onnx_wire.c). */
const char *source_path(struct source *s, ir_loc at, struct arena *a);
/* The text of a line (from 1) without its end; returns its length in bytes. */
size_t source_line(struct source *s, uint32_t line, const char **text);

#endif
