/* Inside the reader of binary models: what its files (onnx*.c) share.
 *
 * Nothing is decoded into structs: a message is a span of the source, and whoever wants something of
 * it goes over its fields with a cursor. */
#ifndef DDPC_ONNX_H
#define DDPC_ONNX_H

#include "lex.h"
#include "scope.h"

enum onnx_message {
    ONNX_NONE,
    ONNX_MODEL,
    ONNX_OPSET,
    ONNX_ENTRY,
    ONNX_TRAINING,
    ONNX_FUNCTION,
    ONNX_GRAPH,
    ONNX_VALUE,
    ONNX_NODE,
    ONNX_ATTRIBUTE,
    ONNX_TENSOR,
    ONNX_SPARSE,
    ONNX_TYPE,
    ONNX_TENSOR_TYPE,
    ONNX_ELEM_TYPE,
    ONNX_MAP_TYPE,
    ONNX_OPAQUE_TYPE,
    ONNX_SHAPE,
    ONNX_DIM,
    ONNX_N_MESSAGES,
};

/* MODEL_ir_version and so on: the numbers of fields. */
enum onnx_number {
#define FIELD(message, number, name, kind, of, many) message##_##name = number,
#include "onnx.def"
#undef FIELD
    ONNX_N_NUMBERS = 32
};

/* ---- onnx_wire.c ----------------------------------------------------------------------------- */

struct onnx_cursor {
    const char *at, *end; /* the rest of the message */
    enum onnx_message message;
    const char *broken; /* in words, once the bytes are no message; `field.loc` says where */
};

struct onnx_field {
    uint32_t number;
    ir_loc loc; /* of the field's first byte */
    bool is_span;
    uint64_t value;    /* of a number */
    struct span bytes; /* else: a string, a message, packed numbers */
};

static inline struct onnx_cursor onnx_cursor(enum onnx_message message, struct span bytes) {
    return (struct onnx_cursor){.at = bytes.s, .end = bytes.s + bytes.len, .message = message};
}
/* The next field; false at the message's end, and where it is broken. */
bool onnx_next(const struct source *s, struct onnx_cursor *c, struct onnx_field *f);
/* The next of packed numbers; the cursor is one over the field's bytes. */
bool onnx_next_number(struct onnx_cursor *c, uint32_t number, uint64_t *out);
/* The next n <= 8 bytes as a number, the first one lowest. */
bool onnx_next_bytes(struct onnx_cursor *c, uint32_t n, uint64_t *out);
/* True if the bytes are a ModelProto. */
bool onnx_is_model(const struct source *s);

/* ---- onnx.c ---------------------------------------------------------------------------------- */

/* A name of a node's lists; read first and interned when the node's other names have been read
 * (strtab.h). */
struct onnx_ref {
    struct onnx_field field;
    uint32_t hash;
    str name;
    ir_value value; /* of an input */
    bool output;
};

struct onnx {
    struct ir_module *m;
    struct source *source;
    struct diags *d;
    struct scope scope;
    uint32_t errors;
    uint32_t depth; /* graphs and types around this place */
    bool stopped;   /* by an error behind which nothing can be read */

    struct span last_type; /* a TypeProto, and what it is: the next one is often the same */
    ir_type last;

    VEC(str) buffers;   /* what an exporter calls buffers, in values' metadata */
    VEC(str) trained;   /* what a training algorithm updates */
    bool folded;        /* an optimizer rewrote the graph */
    const char *folder; /* the current one, "/" at its end; "" if it has no name; NULL: not asked */
    char folder_bytes[4096];

    /* Stacks for lists whose elements may hold graphs and so further lists of the same kind. */
    VEC(struct onnx_ref) refs;
    VEC(struct ir_attr_info) attrs;
    VEC(union ir_attr_value) values;
    VEC(ir_node) nodes;
    VEC(struct ir_dim) dims;
};

/* Reads the model; false if there was an error, which is reported. */
bool onnx_read(struct ir_module *m, struct source *source, struct diags *d);
/* True, and reported, if the cursor has met bytes that are no field or number. */
bool onnx_broken(struct onnx *o, const struct onnx_cursor *c, ir_loc loc);
/* The next field of a message; reports what is broken. */
static inline bool onnx_field(struct onnx *o, struct onnx_cursor *c, struct onnx_field *f) {
    if (o->stopped) return false;
    if (onnx_next(o->source, c, f)) return true;
    if (c->broken) onnx_broken(o, c, f->loc);
    return false;
}
/* What the format allows to write and ONNX does not. NULL if nothing more is to be said. */
struct diag *onnx_error(struct onnx *o, ir_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A string that is a name: it holds no NUL. */
str onnx_name(struct onnx *o, const struct onnx_field *f);
str onnx_name_hashed(struct onnx *o, const struct onnx_field *f, uint32_t hash);
str onnx_string(struct onnx *o, const struct onnx_field *f);
/* A key and a value; false if it is broken. */
bool onnx_entry(struct onnx *o, struct span bytes, struct span *key, struct span *value);
/* One more level of nesting; false, reported, if there are too many. */
bool onnx_enter(struct onnx *o, ir_loc loc);

/* ---- onnx_note.c ----------------------------------------------------------------------------- */

/* A line of the program, and where the model says it. */
struct onnx_source {
    str line; /* "FILE:LINE"; 0: none */
    ir_loc loc;
};
/* A value's or a tensor's metadata may say what an exporter took it for. */
void onnx_note_kind(struct onnx *o, struct span entry, str name);
/* A node's doc string or metadata may say where in the program it comes from. */
void onnx_note_node(struct onnx *o, const struct onnx_field *f, struct onnx_source *out);
/* The attribute `source` onto o->attrs, unless the node has one there above `mark`. */
void onnx_add_source(struct onnx *o, const struct onnx_source *s, uint32_t mark);
/* What was noted, into the model's metadata. */
void onnx_add_properties(struct onnx *o);

/* ---- onnx_graph.c ---------------------------------------------------------------------------- */

void onnx_graph(struct onnx *o, ir_graph g, struct span bytes);
void onnx_function(struct onnx *o, const struct onnx_field *f);
/* The imports that are the message's fields of that number, to module.opset. */
void onnx_opsets(struct onnx *o, enum onnx_message message, struct span bytes, uint32_t number,
                 uint32_t *first, uint32_t *n);

/* ---- onnx_attr.c ----------------------------------------------------------------------------- */

/* Onto o->attrs. */
void onnx_attribute(struct onnx *o, const struct onnx_field *f, ir_node owner);
/* What stands on o->attrs above `mark`, to module.attr. */
void onnx_keep_attributes(struct onnx *o, uint32_t mark, uint32_t *first, uint32_t *n);

/* ---- onnx_type.c ----------------------------------------------------------------------------- */

ir_type onnx_type(struct onnx *o, struct span bytes, ir_loc loc);
/* Checks an element type's number. */
enum ir_dtype onnx_dtype(struct onnx *o, const struct onnx_field *f);

/* ---- onnx_data.c ----------------------------------------------------------------------------- */

/* The elements of a tensor, one by one; of a complex number, its two parts. */
struct onnx_elements {
    const struct source *source;
    enum ir_dtype dtype;
    struct onnx_cursor message, chunk; /* the tensor's fields; the rest of one */
    uint32_t field;                    /* whose rest it is; 0: none */
    uint64_t packed;                   /* a byte of several elements */
    uint32_t packed_left;
};

struct onnx_element {
    int64_t i;     /* integers, and the bit patterns of small floats */
    double f;      /* float, double, complex */
    struct span s; /* strings */
};

void onnx_elements_begin(struct onnx_elements *e, const struct source *s, enum ir_dtype dtype,
                         struct span tensor);
bool onnx_elements_next(struct onnx_elements *e, struct onnx_element *out);
/* The next entry of external data; the cursor is one over the tensor. */
bool onnx_external_next(const struct source *s, struct onnx_cursor *c, struct span *key,
                        struct span *value);

struct onnx_tensor {
    str name;
    ir_type type;
    ir_data data;
};
/* A TensorProto, or a SparseTensorProto. */
void onnx_tensor(struct onnx *o, const struct onnx_field *f, bool sparse, struct onnx_tensor *out);

#endif
