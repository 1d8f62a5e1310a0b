/* Types and shapes of binary models.
 *
 * A type is a message with one field, which says its kind. An element type of 0, or no field at all,
 * is no type, as `undefined` in texts. A tensor without a shape has an unknown rank; a shape without
 * dimensions is a scalar's. A dimension without a value, with a negative one or with an empty name is
 * not known. */
#include "onnx.h"
#include <string.h>

enum ir_dtype onnx_dtype(struct onnx *o, const struct onnx_field *f) {
    if (f->value < IR_N_DTYPES) {
        enum ir_dtype dtype = (enum ir_dtype)f->value;
        if (dtype == IR_UNDEFINED || *ir_dtype_text(dtype)) return dtype;
    }
    struct diag *g = onnx_error(o, f->loc, "%llu is the number of no element type",
                                (unsigned long long)f->value);
    if (g)
        diag_set_help(o->d, g, "a newer ONNX may have it; the newest that ddpc knows is %s",
                      ir_dtype_text((enum ir_dtype)(IR_N_DTYPES - 1)));
    return IR_UNDEFINED;
}

static struct ir_dim read_dim(struct onnx *o, struct span bytes) {
    struct ir_dim dim = {.size = -1};
    struct onnx_cursor c = onnx_cursor(ONNX_DIM, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == DIM_dim_value)
            dim = (struct ir_dim){.size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value};
        if (f.number == DIM_dim_param) dim = (struct ir_dim){-1, onnx_name(o, &f)};
    }
    return dim;
}

static ir_type read_tensor(struct onnx *o, enum ir_type_kind kind, struct span bytes) {
    struct ir_type_info info = {.kind = (uint8_t)kind, .rank = IR_RANK_UNKNOWN};
    uint32_t mark = o->dims.n;
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR_TYPE, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == TENSOR_TYPE_elem_type) info.dtype = (uint8_t)onnx_dtype(o, &f);
        if (f.number != TENSOR_TYPE_shape) continue;
        o->dims.n = mark;
        struct onnx_cursor shape = onnx_cursor(ONNX_SHAPE, f.bytes);
        for (struct onnx_field dim; onnx_field(o, &shape, &dim);)
            if (dim.number == SHAPE_dim) vec_push(&o->dims, read_dim(o, dim.bytes));
        info.rank = (int32_t)(o->dims.n - mark);
    }
    ir_type type = info.dtype ? ir_type_add(o->m, &info, o->dims.at + mark) : 0;
    o->dims.n = mark;
    return type;
}

/* A sequence's, an optional's or a map's. */
static ir_type read_constructed(struct onnx *o, enum ir_type_kind kind,
                                const struct onnx_field *of) {
    struct ir_type_info info = {.kind = (uint8_t)kind};
    bool map = kind == IR_TYPE_MAP;
    struct onnx_cursor c = onnx_cursor(map ? ONNX_MAP_TYPE : ONNX_ELEM_TYPE, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (map && f.number == MAP_TYPE_key_type)
            info.dtype = (uint8_t)onnx_dtype(o, &f);
        else if (f.number == (map ? (uint32_t)MAP_TYPE_value_type : (uint32_t)ELEM_TYPE_elem_type))
            info.elem = onnx_type(o, f.bytes, f.loc);
    }
    return map && !info.dtype ? 0 : ir_type_add(o->m, &info, NULL);
}

static ir_type read_opaque(struct onnx *o, struct span bytes) {
    struct ir_type_info info = {.kind = IR_TYPE_OPAQUE};
    struct onnx_cursor c = onnx_cursor(ONNX_OPAQUE_TYPE, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == OPAQUE_TYPE_domain) info.opaque_domain = onnx_name(o, &f);
        if (f.number == OPAQUE_TYPE_name) info.opaque_name = onnx_name(o, &f);
    }
    return ir_type_add(o->m, &info, NULL);
}

ir_type onnx_type(struct onnx *o, struct span bytes, ir_loc loc) {
    ir_type type = 0;
    uint32_t errors = o->errors;
    if (bytes.len && o->last_type.len == bytes.len &&
        memcmp(o->last_type.s, bytes.s, bytes.len) == 0)
        return o->last;
    if (!onnx_enter(o, loc)) return 0;
    struct onnx_cursor c = onnx_cursor(ONNX_TYPE, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) switch (f.number) {
        case TYPE_tensor_type: type = read_tensor(o, IR_TYPE_TENSOR, f.bytes); break;
        case TYPE_sparse_tensor_type: type = read_tensor(o, IR_TYPE_SPARSE_TENSOR, f.bytes); break;
        case TYPE_sequence_type: type = read_constructed(o, IR_TYPE_SEQUENCE, &f); break;
        case TYPE_optional_type: type = read_constructed(o, IR_TYPE_OPTIONAL, &f); break;
        case TYPE_map_type: type = read_constructed(o, IR_TYPE_MAP, &f); break;
        case TYPE_opaque_type: type = read_opaque(o, f.bytes); break;
        }
    o->depth--;
    if (o->errors == errors) {
        o->last_type = bytes;
        o->last = type;
    }
    return type;
}
