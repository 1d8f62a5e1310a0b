/* The module: a model's text as data, in ONNX's words.
 *
 * Everything lives in arrays of the module and is known by a 32-bit handle (its index); handle 0 is
 * "none" in each array, so that a zeroed field means absent. Lists (a node's inputs, a graph's
 * nodes) are ranges in pools: a first index and a count.
 *
 *     graph  --decls-->  inputs, outputs, items (initializers, value_info, as the text has them)
 *            --nodes-->  node_list[]  -> node
 *     node   --refs--->  outputs, then inputs: ref_value[], ref_loc[] (0: an omitted optional)
 *            --attrs-->  attr: number, string, tensor, type, or a graph that sees the node's scope
 *
 * Names are resolved while reading: a use inside a subgraph of a name from outside refers to the
 * outer value itself (a capture). A use that no definition precedes gets a value whose `def` is
 * IR_DEF_UNDEFINED or whose definition comes later; the verifier reports both. So the module can
 * hold any text that has the right syntax, and `print` writes it again.
 *
 * Payloads (the numbers of weights) stay in the source as a span. Integers and booleans of up to
 * IR_MAX_INTS elements are also kept as numbers, for trip counts, conditions and shapes. */
#ifndef DDPC_IR_H
#define DDPC_IR_H

#include "arena.h"
#include "diag.h"
#include "source.h"
#include "strtab.h"

typedef uint32_t ir_value, ir_node, ir_graph, ir_type, ir_attr, ir_data, ir_function;

/* ---- types ----------------------------------------------------------------------------------- */

enum ir_dtype {
#define DTYPE(id, text, array, onnx, bits, grad) IR_##id = onnx,
#include "dtypes.def"
#undef DTYPE
    IR_N_DTYPES
};

const char *ir_dtype_text(enum ir_dtype t);  /* "float": as in ONNX's text */
const char *ir_dtype_array(enum ir_dtype t); /* "float32": as in reports and plans */
uint32_t ir_dtype_bits(enum ir_dtype t);
bool ir_dtype_carries_gradient(enum ir_dtype t);
/* Accepts both spellings; false if there is no such type. */
bool ir_dtype_parse(const char *s, size_t len, enum ir_dtype *out);

enum ir_type_kind {
    IR_TYPE_NONE, /* nothing known */
    IR_TYPE_TENSOR,
    IR_TYPE_SPARSE_TENSOR,
    IR_TYPE_SEQUENCE, /* of elem */
    IR_TYPE_MAP,      /* from dtype to elem */
    IR_TYPE_OPTIONAL, /* of elem */
    IR_TYPE_OPAQUE,
};

enum { IR_RANK_UNKNOWN = -1 };

struct ir_type_info {
    uint8_t kind, dtype;
    int32_t rank;  /* IR_RANK_UNKNOWN, or the number of dims */
    uint32_t dims; /* first of them in module.dims */
    ir_type elem;
    str opaque_domain, opaque_name;
};

/* One dimension: a size (symbol 0, size >= 0), a name (symbol), or '?' (symbol 0, size -1). The
 * empty name "" of a quoted symbol is '?' too. */
struct ir_dim {
    int64_t size;
    str symbol;
};

/* ---- payloads -------------------------------------------------------------------------------- */

enum ir_data_kind {
    IR_DATA_NONE,
    IR_DATA_LITERALS, /* { 1, 2 }: span is what stands between the braces */
    IR_DATA_EXTERNAL, /* [ "location": "w.bin" ]: span is what stands between the brackets */
    IR_DATA_ELIDED,   /* ... */
};

enum { IR_MAX_INTS = 64 };
enum { IR_MAX_NESTING = 256 }; /* graphs and types inside each other: bounds every recursion */

struct ir_data_info {
    enum ir_data_kind kind;
    ir_loc loc;            /* the span in the source; of a binary one, the whole TensorProto */
    uint32_t length;       /* bytes of the span */
    uint64_t count;        /* elements found there */
    uint32_t ints, n_ints; /* kept numbers in module.ints; n_ints 0 if not kept */
};

/* ---- values, nodes, graphs ------------------------------------------------------------------- */

enum ir_def {
    IR_DEF_UNDEFINED,   /* used, never defined */
    IR_DEF_INPUT,       /* a graph or function input */
    IR_DEF_INITIALIZER, /* an initializer; `also_input` if it is listed as an input too */
    IR_DEF_DECLARED,    /* listed between < > with a type, no data, no producer: a parameter */
    IR_DEF_NODE,        /* an output of a node */
};

struct ir_value_info {
    str name;
    ir_type type;   /* what is known: declarations first, then inference */
    ir_loc loc;     /* of its definition; of its first use if undefined */
    ir_graph graph; /* whose scope it belongs to */
    uint8_t def;    /* enum ir_def */
    bool also_input;
    bool is_output;  /* of its graph */
    ir_node node;    /* IR_DEF_NODE: the producer */
    uint32_t output; /* IR_DEF_NODE: which of its outputs */
    ir_data data;    /* IR_DEF_INITIALIZER */
    ir_value origin; /* a copy made by inlining: the value it was copied from */
};

/* An entry of a graph's inputs, outputs or items. Types are as written, 0 if not. */
struct ir_decl {
    ir_value value;
    ir_type type;
    ir_loc loc;
    ir_data data; /* 0: none */
};

enum ir_attr_kind {
    IR_ATTR_UNDEFINED, /* an empty list without a type, a formal without a type */
    IR_ATTR_FLOAT,
    IR_ATTR_INT,
    IR_ATTR_STRING,
    IR_ATTR_TENSOR,
    IR_ATTR_GRAPH,
    IR_ATTR_SPARSE_TENSOR,
    IR_ATTR_TYPE_PROTO,
    IR_ATTR_FLOATS, /* the plurals, in the same order */
    IR_ATTR_INTS,
    IR_ATTR_STRINGS,
    IR_ATTR_TENSORS,
    IR_ATTR_GRAPHS,
    IR_ATTR_SPARSE_TENSORS,
    IR_ATTR_TYPE_PROTOS,
};

/* One element of an attribute. */
union ir_attr_value {
    double f;
    int64_t i;
    str s;
    ir_graph g;
    ir_type type;
    struct {
        str name;
        ir_type type;
        ir_data data;
    } tensor; /* sparse tensors too */
};

struct ir_attr_info {
    str name;
    uint8_t kind;  /* enum ir_attr_kind */
    str ref;       /* not 0: `= @ref`, a function's attribute; then there are no values */
    bool no_value; /* a function's formal attribute without a default */
    ir_loc loc;    /* of the name */
    uint32_t values, n_values; /* in module.attr_values; singular kinds have one */
};

struct ir_node_info {
    str name; /* often 0 */
    str domain, op, overload;
    uint32_t def;       /* the operator's index in the registry (ops.h); 0 until verified */
    ir_function callee; /* the model's own function it calls; 0 until verified */
    ir_loc loc;         /* of its operator */
    ir_graph graph;
    uint32_t refs, n_outputs, n_inputs; /* outputs first, then inputs */
    uint32_t attrs, n_attrs;
    ir_node call; /* a copy made by inlining: the call it came from */
};

struct ir_graph_info {
    str name;
    ir_loc loc;
    ir_graph parent;      /* the graph around it; 0 for the main graph and function bodies */
    ir_node owner;        /* the node that holds it as an attribute */
    ir_function function; /* whose body it is */
    uint32_t inputs, n_inputs, outputs, n_outputs, items, n_items; /* in module.decls */
    uint32_t nodes, n_nodes;                                       /* in module.node_list */
};

struct ir_opset {
    str domain; /* 0 is ai.onnx */
    int64_t version;
    ir_loc loc;
};

struct ir_function_info {
    str domain, name, overload, doc;
    ir_graph body;           /* its inputs and outputs are the formals */
    uint32_t attrs, n_attrs; /* formal attributes, in module.attrs */
    uint32_t opsets, n_opsets;
    bool has_opsets;
    ir_loc loc;
};

struct ir_property {
    str key, value;
    ir_loc loc;
};

/* What the only element of an integer value is in every execution. */
struct ir_number {
    ir_value value;
    int64_t is;
};

struct ir_module {
    struct source *source; /* borrowed */
    struct strtab strings;

    /* The header between < >. has_* tells 0 from not written. */
    bool has_header, has_ir_version, has_model_version;
    int64_t ir_version, model_version;
    bool has_producer_name, has_producer_version, has_domain, has_doc;
    str producer_name, producer_version, domain, doc;
    bool has_opsets, has_metadata;
    uint32_t opsets, n_opsets;
    VEC(struct ir_opset) opset;
    VEC(struct ir_property) metadata;

    ir_graph main;

    /* The arrays behind the handles; index 0 is a zeroed "none". */
    VEC(struct ir_value_info) value;
    VEC(struct ir_node_info) node;
    VEC(struct ir_graph_info) graph;
    VEC(struct ir_type_info) type;
    VEC(struct ir_data_info) data;
    VEC(struct ir_attr_info) attr;
    VEC(struct ir_function_info) function;

    /* The pools behind the ranges. */
    VEC(ir_value) ref_value;
    VEC(ir_loc) ref_loc;
    VEC(ir_node) node_list;
    VEC(struct ir_decl) decl;
    VEC(union ir_attr_value) attr_value;
    VEC(struct ir_dim) dim;
    VEC(int64_t) ints;

    VEC(struct ir_number) number; /* by value: integers that type inference found */

    uint32_t *type_slots, n_type_slots; /* hash table that keeps each type once */
};

/* An empty module. ir_parse starts with it. */
void ir_module_init(struct ir_module *m, struct source *source);
/* Makes room for so many nodes, inputs and outputs of nodes, and names, if the caller can tell. */
void ir_module_reserve(struct ir_module *m, uint32_t nodes, uint32_t refs, uint32_t names);
void ir_module_free(struct ir_module *m);

/* ---- reading it ------------------------------------------------------------------------------ */

static inline const char *ir_text(const struct ir_module *m, str s) {
    return strtab_text(&m->strings, s);
}
static inline const char *ir_value_name(const struct ir_module *m, ir_value v) {
    return ir_text(m, m->value.at[v].name);
}
static inline const ir_value *ir_outputs(const struct ir_module *m, ir_node n) {
    return &m->ref_value.at[m->node.at[n].refs];
}
static inline const ir_value *ir_inputs(const struct ir_module *m, ir_node n) {
    return &m->ref_value.at[m->node.at[n].refs + m->node.at[n].n_outputs];
}
/* The node's input by position; 0 where it is omitted or beyond the end. */
static inline ir_value ir_input(const struct ir_module *m, ir_node n, uint32_t i) {
    return i < m->node.at[n].n_inputs ? ir_inputs(m, n)[i] : 0;
}
/* The node's attribute by name, or 0. */
ir_attr ir_attr_find(const struct ir_module *m, ir_node n, const char *name);
/* What a Constant or ConstantOfShape gives, in any of its forms, or 0. */
ir_attr ir_attr_of_value(const struct ir_module *m, ir_node n);
/* Its subgraph by attribute name, or 0. */
ir_graph ir_subgraph(const struct ir_module *m, ir_node n, const char *name);
/* The line of a program that the node was recorded from: its attribute `source`, "FILE:LINE". */
struct ir_source {
    const char *text;
    size_t file; /* the file's name is so many bytes of the text */
    uint32_t line;
};
bool ir_node_source(const struct ir_module *m, ir_node n, struct ir_source *out);
int64_t ir_attr_int(const struct ir_module *m, ir_node n, const char *name, int64_t otherwise);
/* "ints": as in ONNX's text; "" for IR_ATTR_UNDEFINED. */
const char *ir_attr_kind_text(enum ir_attr_kind kind);
/* The kept integers of an attribute or payload; returns how many, 0 if none are kept. */
uint32_t ir_data_ints(const struct ir_module *m, ir_data d, const int64_t **out);
/* True if v is an initializer that no caller overrides: from IR version 4 on, one that is no
 * input. */
bool ir_is_constant(const struct ir_module *m, ir_value v);

/* The bytes that stand for a payload's elements: the text of numbers, or a binary model's field of
 * them. */
struct ir_bytes {
    const char *at;
    size_t n;
};
struct ir_bytes ir_data_bytes(const struct ir_module *m, ir_data d, enum ir_dtype dtype);

/* A tensor's element count; -1 if any dimension is unknown or the product overflows. */
int64_t ir_type_elements(const struct ir_module *m, ir_type t);
enum ir_dtype ir_type_dtype(const struct ir_module *m, ir_type t); /* of the innermost tensor */
/* True if values of this type can carry gradients; an unknown type can. */
bool ir_type_carries_gradient(const struct ir_module *m, ir_type t);
/* "float[2,B]", into the arena. */
const char *ir_type_text(const struct ir_module *m, struct arena *a, ir_type t);

/* ---- building it ----------------------------------------------------------------------------- */

ir_type ir_type_tensor(struct ir_module *m, enum ir_dtype dtype, int32_t rank,
                       const struct ir_dim *dims);
ir_type ir_type_add(struct ir_module *m, const struct ir_type_info *info,
                    const struct ir_dim *dims); /* each type is kept once */
/* `domain.Op`, of which either may hold dots: the length of the domain, given the imports (a range
 * of m->opset). It ends at the last dot behind which an imported domain ends, else at the last. */
size_t ir_domain_length(const struct ir_module *m, uint32_t opsets, uint32_t n_opsets,
                        const char *text, size_t len);
/* "ai.onnx" is the empty domain. */
str ir_domain_canonical(const struct ir_module *m, str domain);
static inline ir_value ir_value_add(struct ir_module *m, str name, enum ir_def def, ir_graph graph,
                                    ir_loc loc) {
    vec_push(&m->value, ((struct ir_value_info){
                            .name = name, .def = (uint8_t)def, .graph = graph, .loc = loc}));
    return m->value.n - 1;
}

/* ---- the passes of ir/ ----------------------------------------------------------------------- */

/* parse.c, and onnx.c for what is binary: a source to a module. Reports what is wrong and returns
 * false if there was an error; the module then holds what could be read. */
bool ir_parse(struct ir_module *m, struct source *source, struct diags *d);
/* print.c: the module as canonical text. False if a string of a binary model holds a NUL, which no
 * text can: it then stands there as it is. */
bool ir_print(const struct ir_module *m, FILE *out);
/* The same without the elements of what is longer than IR_MAX_INTS. */
bool ir_print_elided(const struct ir_module *m, FILE *out);
/* With the types that were inferred. */
void ir_print_typed(const struct ir_module *m, FILE *out);
/* verify.c: names, order, arity, opsets, operators (ops.h). Sets node.def and node.callee. */
struct op_table;
bool ir_verify(struct ir_module *m, struct op_table *ops, struct diags *d);

#endif
