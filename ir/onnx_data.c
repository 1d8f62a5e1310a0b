/* Tensors of binary models.
 *
 * A tensor has its elements in raw_data, little-endian, or in the field of numbers that its type
 * decides: int32_data holds all smaller integers and the bit patterns of small floats, float_data and
 * double_data also the parts of complex numbers. Four-bit and two-bit elements are packed into bytes,
 * the first one lowest. Weights stay where they are: the module keeps the span of the whole message
 * (`ir_data_info`), and what needs the elements goes over them again. The count of elements follows
 * from the field's length where it can, so that no page of them is touched.
 *
 * A sparse tensor's numbers are left out, like what a printer elides: no text has a form for them. */
#include "onnx.h"
#include <string.h>

enum { COUNT_VARINTS_UP_TO = 1 << 20 }; /* bytes; beyond, the shape is believed */

static bool is_complex(enum ir_dtype t) { return t == IR_COMPLEX64 || t == IR_COMPLEX128; }

/* The field that has the elements when raw_data has not. */
static uint32_t data_field(enum ir_dtype t) {
    switch (t) {
    case IR_FLOAT:
    case IR_COMPLEX64: return TENSOR_float_data;
    case IR_DOUBLE:
    case IR_COMPLEX128: return TENSOR_double_data;
    case IR_INT64: return TENSOR_int64_data;
    case IR_UINT32:
    case IR_UINT64: return TENSOR_uint64_data;
    case IR_STRING: return TENSOR_string_data;
    default: return TENSOR_int32_data;
    }
}

/* Bits of an element, or of a complex one's parts. */
static uint32_t element_bits(enum ir_dtype t) {
    return t == IR_BOOL ? 8 : is_complex(t) ? ir_dtype_bits(t) / 2 : ir_dtype_bits(t);
}

/* ---- the elements, one by one ---------------------------------------------------------------- */

void onnx_elements_begin(struct onnx_elements *e, const struct source *s, enum ir_dtype dtype,
                         struct span tensor) {
    *e = (struct onnx_elements){
        .source = s, .dtype = dtype, .message = onnx_cursor(ONNX_TENSOR, tensor)};
}

/* The next number as it is stored, before a byte of several elements is taken apart. */
static bool next_stored(struct onnx_elements *e, uint64_t *out) {
    for (;;) {
        struct onnx_cursor *c = &e->chunk;
        if (e->field == TENSOR_raw_data && c->at < c->end) {
            uint32_t bits = element_bits(e->dtype);
            return onnx_next_bytes(c, bits < 8 ? 1 : bits / 8, out);
        }
        if (e->field && e->field != TENSOR_raw_data && onnx_next_number(c, e->field, out))
            return true;
        struct onnx_field f;
        if (c->broken || !onnx_next(e->source, &e->message, &f)) return false;
        e->field = 0;
        if (f.number != TENSOR_raw_data && f.number != data_field(e->dtype)) continue;
        if (!f.is_span) {
            *out = f.value;
            return true;
        }
        e->field = f.number;
        *c = onnx_cursor(ONNX_TENSOR, f.bytes);
    }
}

static int64_t sign_extended(uint64_t x, uint32_t bits) {
    return (int64_t)(x << (64 - bits)) >> (64 - bits);
}

bool onnx_elements_next(struct onnx_elements *e, struct onnx_element *out) {
    enum ir_dtype t = e->dtype;
    *out = (struct onnx_element){0};
    if (t == IR_STRING) {
        struct onnx_field f;
        while (onnx_next(e->source, &e->message, &f))
            if (f.number == TENSOR_string_data) {
                out->s = f.bytes;
                return true;
            }
        return false;
    }
    uint32_t bits = element_bits(t);
    uint64_t x;
    if (bits == 0) return false;
    if (e->packed_left) {
        x = e->packed >>= bits;
        e->packed_left--;
    } else {
        if (!next_stored(e, &x)) return false;
        e->packed = x & 0xff;
        e->packed_left = bits < 8 ? 8 / bits - 1 : 0;
    }
    if (t == IR_FLOAT || t == IR_COMPLEX64) {
        uint32_t word = (uint32_t)x;
        float number;
        memcpy(&number, &word, sizeof number);
        out->f = (double)number;
    } else if (t == IR_DOUBLE || t == IR_COMPLEX128) {
        memcpy(&out->f, &x, sizeof out->f);
    } else if (t == IR_BOOL) {
        out->i = x != 0;
    } else if (t == IR_INT2 || t == IR_INT4 || t == IR_INT8 || t == IR_INT16 || t == IR_INT32 ||
               t == IR_INT64) {
        out->i = sign_extended(x, bits);
    } else {
        out->i = (int64_t)(bits < 64 ? x & ((UINT64_C(1) << bits) - 1) : x);
    }
    return true;
}

struct ir_bytes ir_data_bytes(const struct ir_module *m, ir_data d, enum ir_dtype dtype) {
    const struct ir_data_info *data = &m->data.at[d];
    const char *from = m->source->bytes + data->loc;
    struct ir_bytes whole = {from, data->length}, found = {from, 0};
    if (!m->source->binary || data->kind != IR_DATA_LITERALS) return whole;
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR, (struct span){from, data->length});
    for (struct onnx_field f; onnx_next(m->source, &c, &f);) {
        if (f.number != TENSOR_raw_data && f.number != data_field(dtype)) continue;
        if (found.n || !f.is_span || dtype == IR_STRING) return whole; /* in several pieces */
        found = (struct ir_bytes){f.bytes.s, f.bytes.len};
    }
    return found;
}

/* ---- reading them ---------------------------------------------------------------------------- */

static bool is_integer(enum ir_dtype t) {
    return t != IR_UNDEFINED && t != IR_STRING && !ir_dtype_carries_gradient(t);
}

/* A field's bytes as elements of so many bits, each of `size` bytes or several in one. */
static uint64_t whole_elements(struct onnx *o, const struct onnx_field *f, uint32_t size,
                               uint32_t bits) {
    if (!bits) return 0;
    if (f->bytes.len % size == 0) return (uint64_t)f->bytes.len * 8 / bits;
    struct diag *g = onnx_error(o, f->loc, "%zu bytes are no whole number of elements of %u bytes",
                                f->bytes.len, size);
    if (g) diag_set_help(o->d, g, "the data was cut off, or is of another element type");
    return 0;
}

/* How many elements a field holds. */
static uint64_t count_elements(struct onnx *o, const struct onnx_field *f, enum ir_dtype t,
                               uint64_t expected) {
    uint32_t bits = element_bits(t);
    uint64_t stored = 0, number;
    if (t == IR_STRING) return 1;
    if (!f->is_span) return bits && bits < 8 ? 8 / bits : 1;
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR, f->bytes);
    switch (f->number) {
    case TENSOR_raw_data: return whole_elements(o, f, bits < 8 ? 1 : bits / 8, bits);
    case TENSOR_float_data: return whole_elements(o, f, 4, 32);
    case TENSOR_double_data: return whole_elements(o, f, 8, 64);
    default:
        if (f->bytes.len > COUNT_VARINTS_UP_TO) return expected;
        while (onnx_next_number(&c, f->number, &number)) stored++;
        onnx_broken(o, &c, f->loc);
        return bits && bits < 8 ? stored * (8 / bits) : stored;
    }
}

static void keep_integers(struct onnx *o, enum ir_dtype dtype, struct span tensor,
                          struct ir_data_info *data) {
    int64_t kept[IR_MAX_INTS];
    uint32_t n = 0;
    struct onnx_elements e;
    struct onnx_element x;
    onnx_elements_begin(&e, o->source, dtype, tensor);
    while (n < data->count && onnx_elements_next(&e, &x)) kept[n++] = x.i;
    if (n != data->count || n == 0) return;
    data->ints = o->m->ints.n;
    data->n_ints = n;
    memcpy(vec_extend(&o->m->ints, n), kept, n * sizeof *kept);
}

static void wrong_count(struct onnx *o, ir_loc loc, ir_type type, int64_t expected,
                        uint64_t count) {
    o->errors++;
    const char *text = ir_type_text(o->m, &o->d->arena, type);
    struct diag *g =
        diag_at(o->d, DIAG_ELEMENT_COUNT, loc, 1, "%s has %lld element%s, but %llu %s given", text,
                (long long)expected, expected == 1 ? "" : "s", (unsigned long long)count,
                count == 1 ? "is" : "are");
    diag_set_help(o->d, g, "correct the shape or the data");
}

/* Behind the first look: type and name are known. */
static void read_data(struct onnx *o, const struct onnx_field *f, struct onnx_tensor *out) {
    enum ir_dtype dtype = ir_type_dtype(o->m, out->type);
    int64_t elements = ir_type_elements(o->m, out->type);
    struct ir_data_info data = {.kind = IR_DATA_LITERALS,
                                .loc = (ir_loc)(f->bytes.s - o->source->bytes),
                                .length = (uint32_t)f->bytes.len};
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR, f->bytes);
    bool external = false;
    for (struct onnx_field part; onnx_field(o, &c, &part);) {
        external |= part.number == TENSOR_data_location && part.value == 1;
        if (part.number == TENSOR_raw_data || part.number == data_field(dtype))
            data.count += count_elements(o, &part, dtype, elements < 0 ? 0 : (uint64_t)elements);
    }
    uint32_t bits = element_bits(dtype);
    if (external) {
        data.kind = IR_DATA_EXTERNAL;
        data.count = 0;
    }
    if (is_complex(dtype)) data.count /= 2;
    /* The last byte need not be full. */
    if (bits && bits < 8 && elements >= 0 && data.count - (uint64_t)elements < 8 / bits)
        data.count = (uint64_t)elements;
    if (elements >= 0 && data.count && data.count != (uint64_t)elements)
        wrong_count(o, f->loc, out->type, elements, data.count);
    else if (is_integer(dtype) && bits >= 8 && data.count <= IR_MAX_INTS)
        keep_integers(o, dtype, f->bytes, &data);
    out->data = o->m->data.n;
    vec_push(&o->m->data, data);
}

static void read_dims(struct onnx *o, const struct onnx_field *f) {
    if (!f->is_span) {
        vec_push(&o->dims,
                 ((struct ir_dim){.size = (int64_t)f->value < 0 ? -1 : (int64_t)f->value}));
        return;
    }
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR, f->bytes);
    for (uint64_t size; onnx_next_number(&c, TENSOR_dims, &size);)
        vec_push(&o->dims, ((struct ir_dim){.size = (int64_t)size < 0 ? -1 : (int64_t)size}));
    onnx_broken(o, &c, f->loc);
}

static void read_tensor(struct onnx *o, const struct onnx_field *of, struct onnx_tensor *out) {
    uint32_t mark = o->dims.n;
    enum ir_dtype dtype = IR_UNDEFINED;
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == TENSOR_dims) read_dims(o, &f);
        if (f.number == TENSOR_data_type) dtype = onnx_dtype(o, &f);
        if (f.number == TENSOR_name) out->name = onnx_name(o, &f);
    }
    int32_t rank = (int32_t)(o->dims.n - mark);
    if (dtype) out->type = ir_type_tensor(o->m, dtype, rank, o->dims.at + mark);
    o->dims.n = mark;
}

static void read_sparse(struct onnx *o, const struct onnx_field *of, struct onnx_tensor *out) {
    uint32_t mark = o->dims.n;
    struct onnx_tensor values = {0};
    struct onnx_cursor c = onnx_cursor(ONNX_SPARSE, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == SPARSE_dims) read_dims(o, &f);
        if (f.number == SPARSE_values) read_tensor(o, &f, &values);
    }
    struct ir_type_info info = {.kind = IR_TYPE_SPARSE_TENSOR,
                                .dtype = (uint8_t)ir_type_dtype(o->m, values.type),
                                .rank = (int32_t)(o->dims.n - mark)};
    if (info.dtype) out->type = ir_type_add(o->m, &info, o->dims.at + mark);
    o->dims.n = mark;
    out->name = values.name;
    out->data = o->m->data.n;
    vec_push(&o->m->data, ((struct ir_data_info){.kind = IR_DATA_ELIDED, .loc = of->loc}));
}

void onnx_tensor(struct onnx *o, const struct onnx_field *f, bool sparse, struct onnx_tensor *out) {
    *out = (struct onnx_tensor){0};
    if (sparse) {
        read_sparse(o, f, out);
        return;
    }
    read_tensor(o, f, out);
    read_data(o, f, out);
}

/* ---- printing them --------------------------------------------------------------------------- */

bool onnx_external_next(const struct source *s, struct onnx_cursor *c, struct span *key,
                        struct span *value) {
    for (struct onnx_field f; onnx_next(s, c, &f);) {
        if (f.number != TENSOR_external_data) continue;
        *key = *value = (struct span){"", 0};
        struct onnx_cursor entry = onnx_cursor(ONNX_ENTRY, f.bytes);
        for (struct onnx_field part; onnx_next(s, &entry, &part);)
            if (part.is_span) *(part.number == ENTRY_key ? key : value) = part.bytes;
        return true;
    }
    return false;
}
