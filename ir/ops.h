/* The operator registry: what each operator does to gradients and types.
 *
 * The table is ops.def: for every operator its inputs, each with a rule that says whether a
 * gradient at the operator's output reaches that input. Rules are structural, as in autograd. */
#ifndef DDPC_OPS_H
#define DDPC_OPS_H

#include "ir.h"

enum op_rule {
    OP_STOP,          /* no gradient passes: indices, shapes, comparisons, state */
    OP_FLOW,          /* a gradient passes */
    OP_FLOW_IF_FLOAT, /* it passes where the input's type carries gradients */
    OP_ZERO,          /* it passes with value zero: the input still counts as used (Floor, Sign) */
    OP_BODY,          /* a subgraph decides: If, Loop, Scan, SequenceMap */
    OP_STE,           /* straight-through: QuantizeLinear -> data movement -> DequantizeLinear */
};

enum op_flag {
    OP_PLAIN = 0,
    OP_RANDOM = 1,     /* two executions differ: never the same branch */
    OP_MOVES_DATA = 2, /* rearranges elements only (Reshape, Transpose, Slice ...): STE passes it */
    OP_ASSUMED = 4,    /* accepted by --assume-differentiable or --ops */
    OP_DECLARED = 8,   /* by --ops */
};

struct op_input {
    const char *name;
    uint8_t rule; /* enum op_rule */
    bool optional, variadic;
    bool state;    /* a state input: a value whose uses are all such is a buffer */
    uint8_t since; /* the first opset that needs it: an attribute before; 0: always needed */
    uint8_t until; /* the last opset that has it; 0: the newest does */
    uint8_t apart; /* bit i: output i does not depend on it */
};

enum { OP_NEWEST_OPSET = 28 }; /* of ONNX's own domain, up to which ops.def goes */
enum { OP_ANY = 255 };         /* op_def.max_outputs: no limit */
enum { OP_ANY_OPSET = -1 };    /* as a version: what holds in all of them */

struct op_def {
    const char *domain, *name;
    uint32_t first_input, n_inputs; /* in op_table.inputs; the last may be variadic */
    uint32_t flags;
    uint8_t out_dtype;     /* of output 0: enum op_out_dtype */
    uint8_t rest_dtype;    /* of the others */
    uint8_t max_outputs;   /* in any opset; OP_ANY */
    uint32_t grad_outputs; /* bit i: output i can carry a gradient; bit 31: all from 31 on */
};

/* Where an output's element type comes from. */
enum op_out_dtype {
    OP_DTYPE_UNKNOWN,
    OP_DTYPE_INPUT0,
    OP_DTYPE_INPUT1,
    OP_DTYPE_INPUT2,
    OP_DTYPE_INPUT7,
    OP_DTYPE_BOOL,
    OP_DTYPE_UINT8,
    OP_DTYPE_INT32,
    OP_DTYPE_INT64,
    OP_DTYPE_FLOAT,
    OP_DTYPE_STRING,
    OP_DTYPE_ATTR_TO,    /* Cast */
    OP_DTYPE_ATTR_DTYPE, /* RandomNormal, EyeLike ...: attribute dtype, else input 0, else float */
    OP_DTYPE_ATTR_VALUE, /* Constant, ConstantOfShape: the tensor's */
    OP_DTYPE_ATTR_DTYPE_INT32,     /* Multinomial: attribute dtype, else int32 */
    OP_DTYPE_ATTR_OUTPUT_DATATYPE, /* windows: attribute output_datatype, else float */
    OP_DTYPE_ATTR_SEQUENCE,        /* SequenceEmpty: a sequence of attribute dtype, else of float */
    OP_DTYPE_QUANTIZED,            /* attribute output_dtype, else input 2, else uint8 */
    OP_DTYPE_DEQUANTIZED,          /* attribute output_dtype, else input 1 */
    OP_DTYPE_SEQUENCE,             /* a sequence of input 0 */
    OP_DTYPE_OPTIONAL,             /* an optional of input 0 */
    OP_DTYPE_ELEMENT,              /* what the sequence or optional in input 0 holds */
    OP_DTYPE_BODY,                 /* the subgraph's outputs */
    OP_DTYPE_SAME,                 /* rest_dtype only: as output 0 */
};

struct op_table {
    const struct op_def *defs; /* index 0 is "unknown" */
    uint32_t n_defs;
    const struct op_input *inputs;
    struct op_extra *extra; /* what --ops and --assume-differentiable add */
};

/* The built-in table; extended per run by the two flags. */
void op_table_init(struct op_table *t);
void op_table_free(struct op_table *t);
/* --assume-differentiable GLOB over "domain.Op" ("my.domain.*"). */
void op_table_assume(struct op_table *t, const char *glob);
/* Whether the pattern has matched an operator that was looked up and is not in the table. */
bool op_table_assumed(const struct op_table *t, const char *glob);
/* --ops FILE: lines `domain.Op input=RULE ... -> output=RULE ...`; see docs/ops-file.md. False
 * after reporting. */
bool op_table_read(struct op_table *t, const char *path, struct diags *d);

/* The operator as a line of such a file would declare it: `my.domain.Gate x=FLOW -> y=FLOW`. */
const char *op_declaration(const struct op_table *t, uint32_t def, struct arena *a);

/* 0 if there is no such operator. The domain "" and "ai.onnx" are the same. */
uint32_t op_find(const struct op_table *t, const char *domain, const char *name);
/* As op_find, but an operator of a domain with a record "*" gets that, and one matched by
 * --assume-differentiable a definition: every input FLOW_IF_FLOAT, every output carries gradients.
 */
uint32_t op_resolve(struct op_table *t, const char *domain, const char *name);
/* Valid until the next op_resolve or op_table_read. */
const struct op_def *op_get(const struct op_table *t, uint32_t def);
/* The rule of input i; of the last one for a variadic tail; OP_STOP beyond. */
const struct op_input *op_input_of(const struct op_table *t, uint32_t def, uint32_t i);
static inline bool op_output_carries(const struct op_def *def, uint32_t output) {
    return def->grad_outputs >> (output < 31 ? output : 31) & 1;
}
static inline bool op_input_reaches(const struct op_input *in, uint32_t output) {
    return output > 7 || !(in->apart >> output & 1);
}
/* Whether this opset version (0: the newest; OP_ANY_OPSET: each) has it as an input. */
bool op_input_in(const struct op_input *in, int64_t opset);
/* How many inputs the operator needs at least and takes at most in this opset version;
 * UINT32_MAX: any number. */
uint32_t op_min_inputs(const struct op_table *t, uint32_t def, int64_t opset);
uint32_t op_max_inputs(const struct op_table *t, uint32_t def, int64_t opset);
/* The operator name of a domain nearest to `name`, for "did you mean"; NULL if none is near. */
const char *op_nearest(const struct op_table *t, const char *domain, const char *name);

#endif
