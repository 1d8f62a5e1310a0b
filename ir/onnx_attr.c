/* Attributes of binary models.
 *
 * An attribute says its kind and has a field for each; the oldest writers left the kind out, and
 * it is then that of the field that is there. Values are read in a second walk, once the kind is
 * known. A singular value that is left out is the kind's zero, as protobuf has it. */
#include "onnx.h"
#include <string.h>

/* AttributeProto.AttributeType, and the field of that kind's values. */
static const struct {
    uint8_t kind, field;
} kinds[] = {
    {IR_ATTR_UNDEFINED, 0},
    {IR_ATTR_FLOAT, ATTRIBUTE_f},
    {IR_ATTR_INT, ATTRIBUTE_i},
    {IR_ATTR_STRING, ATTRIBUTE_s},
    {IR_ATTR_TENSOR, ATTRIBUTE_t},
    {IR_ATTR_GRAPH, ATTRIBUTE_g},
    {IR_ATTR_FLOATS, ATTRIBUTE_floats},
    {IR_ATTR_INTS, ATTRIBUTE_ints},
    {IR_ATTR_STRINGS, ATTRIBUTE_strings},
    {IR_ATTR_TENSORS, ATTRIBUTE_tensors},
    {IR_ATTR_GRAPHS, ATTRIBUTE_graphs},
    {IR_ATTR_SPARSE_TENSOR, ATTRIBUTE_sparse_tensor},
    {IR_ATTR_SPARSE_TENSORS, ATTRIBUTE_sparse_tensors},
    {IR_ATTR_TYPE_PROTO, ATTRIBUTE_tp},
    {IR_ATTR_TYPE_PROTOS, ATTRIBUTE_type_protos},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static double float_of(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, sizeof f);
    return (double)f;
}

static void read_packed(struct onnx *o, const struct onnx_field *f) {
    struct onnx_cursor c = onnx_cursor(ONNX_ATTRIBUTE, f->bytes);
    for (uint64_t x; onnx_next_number(&c, f->number, &x);) {
        union ir_attr_value v = {0};
        if (f->number == ATTRIBUTE_floats)
            v.f = float_of(x);
        else
            v.i = (int64_t)x;
        vec_push(&o->values, v);
    }
    onnx_broken(o, &c, f->loc);
}

static ir_graph read_graph(struct onnx *o, const struct onnx_field *f, ir_node owner) {
    if (!onnx_enter(o, f->loc)) return 0;
    ir_graph g = o->m->graph.n;
    vec_push(&o->m->graph,
             ((struct ir_graph_info){.loc = f->loc, .parent = o->scope.graph, .owner = owner}));
    onnx_graph(o, g, f->bytes);
    o->depth--;
    return g;
}

static void read_value(struct onnx *o, const struct onnx_field *f, ir_node owner) {
    union ir_attr_value v = {0};
    struct onnx_tensor t;
    switch (f->number) {
    case ATTRIBUTE_floats:
    case ATTRIBUTE_ints:
        if (f->is_span) {
            read_packed(o, f);
            return;
        }
        if (f->number == ATTRIBUTE_floats)
            v.f = float_of(f->value);
        else
            v.i = (int64_t)f->value;
        break;
    case ATTRIBUTE_f: v.f = float_of(f->value); break;
    case ATTRIBUTE_i: v.i = (int64_t)f->value; break;
    case ATTRIBUTE_s:
    case ATTRIBUTE_strings: v.s = onnx_string(o, f); break;
    case ATTRIBUTE_tp:
    case ATTRIBUTE_type_protos: v.type = onnx_type(o, f->bytes, f->loc); break;
    case ATTRIBUTE_g:
    case ATTRIBUTE_graphs: v.g = read_graph(o, f, owner); break;
    default:
        onnx_tensor(o, f,
                    f->number == ATTRIBUTE_sparse_tensor || f->number == ATTRIBUTE_sparse_tensors,
                    &t);
        v.tensor.name = t.name;
        v.tensor.type = t.type;
        v.tensor.data = t.data;
    }
    vec_push(&o->values, v);
}

/* Which row of `kinds` the attribute has; 0 if none. */
static uint32_t kind_of(struct onnx *o, const struct onnx_field *of, struct ir_attr_info *a) {
    uint64_t written = 0;
    uint32_t found = 0;
    ir_loc loc = of->loc;
    struct onnx_cursor c = onnx_cursor(ONNX_ATTRIBUTE, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == ATTRIBUTE_name) a->name = onnx_name(o, &f);
        if (f.number == ATTRIBUTE_ref_attr_name) a->ref = onnx_name(o, &f);
        if (f.number == ATTRIBUTE_type) written = f.value;
        if (f.number == ATTRIBUTE_type) loc = f.loc;
        for (uint32_t k = 1; k < N_KINDS; k++)
            if (kinds[k].field == f.number) found = k;
    }
    if (written < N_KINDS) return written ? (uint32_t)written : found;
    struct diag *g = onnx_error(o, loc, "%llu is the number of no kind of attribute",
                                (unsigned long long)written);
    if (g) diag_set_help(o->d, g, "the kinds have the numbers 1 to %d", N_KINDS - 1);
    return 0;
}

void onnx_attribute(struct onnx *o, const struct onnx_field *of, ir_node owner) {
    struct ir_attr_info a = {.loc = of->loc};
    uint32_t k = kind_of(o, of, &a), mark = o->values.n, top = o->attrs.n;
    a.kind = kinds[k].kind;
    bool plural = a.kind >= IR_ATTR_FLOATS;
    vec_push(&o->attrs, a);
    if (!a.name) onnx_error(o, of->loc, "an attribute has no name");
    if (a.ref || k == 0) return;
    struct onnx_cursor c = onnx_cursor(ONNX_ATTRIBUTE, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number != kinds[k].field) continue;
        if (!plural) o->values.n = mark; /* of several the last counts */
        read_value(o, &f, owner);
    }
    if (o->stopped) return;
    if (!plural && o->values.n == mark) {
        if (a.kind != IR_ATTR_FLOAT && a.kind != IR_ATTR_INT && a.kind != IR_ATTR_STRING) {
            onnx_error(o, of->loc, "attribute '%s' has the kind %s and no value",
                       ir_text(o->m, a.name), ir_attr_kind_text((enum ir_attr_kind)a.kind));
            return;
        }
        vec_push(&o->values, (union ir_attr_value){0});
    }
    struct ir_attr_info *kept = &o->attrs.at[top];
    kept->values = o->m->attr_value.n;
    kept->n_values = o->values.n - mark;
    if (kept->n_values)
        memcpy(vec_extend(&o->m->attr_value, kept->n_values), o->values.at + mark,
               kept->n_values * sizeof *o->values.at);
    o->values.n = mark;
}

void onnx_keep_attributes(struct onnx *o, uint32_t mark, uint32_t *first, uint32_t *n) {
    *first = o->m->attr.n;
    *n = o->attrs.n - mark;
    if (*n) memcpy(vec_extend(&o->m->attr, *n), o->attrs.at + mark, *n * sizeof *o->attrs.at);
    o->attrs.n = mark;
}
