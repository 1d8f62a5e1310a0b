/* The module's arrays, its types, and the small questions that passes ask of it.
 *
 * Every array starts with a zeroed element, so that handle 0 can stand for "none" and be read
 * without a test: the type of value 0 is type 0, whose kind is "nothing known".
 *
 * Types are hash-consed: `ir_type_add` returns the same handle for the same type, which makes types
 * comparable as integers and keeps a model of a million nodes, most of whose tensors share a few
 * hundred types, small. Dimensions are compared as written; two symbols are the same dimension if
 * they have the same name. */
#include "ir.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- element types --------------------------------------------------------------------------- */

static const struct dtype {
    const char *text, *array;
    uint32_t bits;
    bool carries_gradient;
} dtypes[IR_N_DTYPES] = {
#define DTYPE(id, text, array, onnx, bits, grad) [onnx] = {text, array, bits, grad},
#include "dtypes.def"
#undef DTYPE
};

const char *ir_dtype_text(enum ir_dtype t) { return dtypes[t].text; }
const char *ir_dtype_array(enum ir_dtype t) { return dtypes[t].array; }
uint32_t ir_dtype_bits(enum ir_dtype t) { return dtypes[t].bits; }
bool ir_dtype_carries_gradient(enum ir_dtype t) { return dtypes[t].carries_gradient; }

static bool same(const char *word, const char *s, size_t len) {
    return strncmp(word, s, len) == 0 && word[len] == 0;
}

bool ir_dtype_parse(const char *s, size_t len, enum ir_dtype *out) {
    for (uint32_t i = 0; i < IR_N_DTYPES; i++)
        if (same(dtypes[i].text, s, len) || same(dtypes[i].array, s, len)) {
            *out = (enum ir_dtype)i;
            return true;
        }
    return false;
}

/* ---- the module ------------------------------------------------------------------------------ */

enum { FIRST_TYPE_SLOTS = 64 }; /* a power of two */

static uint32_t *new_type_slots(uint32_t n) {
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) arena_out_of_memory(n * sizeof *slots);
    return slots;
}

void ir_module_init(struct ir_module *m, struct source *source) {
    *m = (struct ir_module){.source = source, .n_type_slots = FIRST_TYPE_SLOTS};
    strtab_init(&m->strings);
    vec_push(&m->value, (struct ir_value_info){0});
    vec_push(&m->node, (struct ir_node_info){0});
    vec_push(&m->graph, (struct ir_graph_info){0});
    vec_push(&m->type, (struct ir_type_info){0});
    vec_push(&m->data, (struct ir_data_info){0});
    vec_push(&m->attr, (struct ir_attr_info){0});
    vec_push(&m->function, (struct ir_function_info){0});
    m->type_slots = new_type_slots(FIRST_TYPE_SLOTS);
}

void ir_module_reserve(struct ir_module *m, uint32_t nodes, uint32_t refs, uint32_t names) {
    strtab_reserve(&m->strings, names);
    vec_reserve(&m->value, names);
    vec_reserve(&m->decl, names);
    vec_reserve(&m->node, nodes);
    vec_reserve(&m->node_list, nodes);
    vec_reserve(&m->ref_value, refs);
    vec_reserve(&m->ref_loc, refs);
}

void ir_module_free(struct ir_module *m) {
    strtab_free(&m->strings);
    vec_free(&m->opset);
    vec_free(&m->metadata);
    vec_free(&m->value);
    vec_free(&m->node);
    vec_free(&m->graph);
    vec_free(&m->type);
    vec_free(&m->data);
    vec_free(&m->attr);
    vec_free(&m->function);
    vec_free(&m->ref_value);
    vec_free(&m->ref_loc);
    vec_free(&m->node_list);
    vec_free(&m->decl);
    vec_free(&m->attr_value);
    vec_free(&m->dim);
    vec_free(&m->ints);
    vec_free(&m->number);
    free(m->type_slots);
    *m = (struct ir_module){0};
}

str ir_domain_canonical(const struct ir_module *m, str domain) {
    return strcmp(ir_text(m, domain), "ai.onnx") == 0 ? 0 : domain;
}

size_t ir_domain_length(const struct ir_module *m, uint32_t opsets, uint32_t n_opsets,
                        const char *text, size_t len) {
    size_t last = 0;
    for (size_t dot = len; dot-- > 1;) {
        if (text[dot] != '.') continue;
        if (last == 0) last = dot;
        str domain;
        if (!strtab_find(&m->strings, text, dot, &domain)) continue;
        for (uint32_t i = 0; i < n_opsets; i++)
            if (m->opset.at[opsets + i].domain == domain) return dot;
    }
    return last;
}

const char *ir_attr_kind_text(enum ir_attr_kind kind) {
    static const char *const text[] = {"",       "float",          "int",           "string",
                                       "tensor", "graph",          "sparse_tensor", "type_proto",
                                       "floats", "ints",           "strings",       "tensors",
                                       "graphs", "sparse_tensors", "type_protos"};
    return text[kind];
}

ir_attr ir_attr_find(const struct ir_module *m, ir_node n, const char *name) {
    const struct ir_node_info *node = &m->node.at[n];
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(ir_text(m, m->attr.at[node->attrs + i].name), name) == 0) return node->attrs + i;
    return 0;
}

ir_attr ir_attr_of_value(const struct ir_module *m, ir_node n) {
    static const char *const forms[] = {"value",         "value_float", "value_floats",
                                        "value_int",     "value_ints",  "value_string",
                                        "value_strings", "sparse_value"};
    ir_attr a = 0;
    for (size_t i = 0; !a && i < sizeof forms / sizeof *forms; i++)
        a = ir_attr_find(m, n, forms[i]);
    return a;
}

ir_graph ir_subgraph(const struct ir_module *m, ir_node n, const char *name) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    return a->kind == IR_ATTR_GRAPH && a->n_values ? m->attr_value.at[a->values].g : 0;
}

int64_t ir_attr_int(const struct ir_module *m, ir_node n, const char *name, int64_t otherwise) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    return a->kind == IR_ATTR_INT && a->n_values ? m->attr_value.at[a->values].i : otherwise;
}

bool ir_node_source(const struct ir_module *m, ir_node n, struct ir_source *out) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, "source")];
    if (a->kind != IR_ATTR_STRING || !a->n_values) return false;
    const char *text = ir_text(m, m->attr_value.at[a->values].s), *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1] || strlen(colon) > 10) return false;
    *out = (struct ir_source){.text = text, .file = (size_t)(colon - text)};
    for (const char *digit = colon + 1; *digit; digit++) {
        if (*digit < '0' || *digit > '9') return false;
        out->line = out->line * 10 + (uint32_t)(*digit - '0');
    }
    return true;
}

bool ir_is_constant(const struct ir_module *m, ir_value v) {
    const struct ir_value_info *value = &m->value.at[v];
    bool overridable = value->also_input && !(m->has_ir_version && m->ir_version < 4);
    return value->def == IR_DEF_INITIALIZER && !overridable;
}

uint32_t ir_data_ints(const struct ir_module *m, ir_data d, const int64_t **out) {
    const struct ir_data_info *data = &m->data.at[d];
    *out = data->n_ints ? &m->ints.at[data->ints] : NULL;
    return data->n_ints;
}

/* ---- types ----------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, uint64_t x) {
    uint64_t y = (h ^ x) * 0x9e3779b97f4a7c15;
    return (uint32_t)(y >> 32 ^ y);
}

static uint32_t n_dims(const struct ir_type_info *t) { return t->rank > 0 ? (uint32_t)t->rank : 0; }

static uint32_t hash_type(const struct ir_type_info *t, const struct ir_dim *dims) {
    uint32_t h = mix(t->kind, t->dtype);
    h = mix(h, (uint32_t)t->rank);
    h = mix(h, t->elem);
    h = mix(h, (uint64_t)t->opaque_domain << 32 | t->opaque_name);
    for (uint32_t i = 0; i < n_dims(t); i++)
        h = mix(mix(h, (uint64_t)dims[i].size), dims[i].symbol);
    return h;
}

static bool same_type(const struct ir_type_info *a, const struct ir_dim *a_dims,
                      const struct ir_type_info *b, const struct ir_dim *b_dims) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank || a->elem != b->elem ||
        a->opaque_domain != b->opaque_domain || a->opaque_name != b->opaque_name)
        return false;
    for (uint32_t i = 0; i < n_dims(a); i++)
        if (a_dims[i].size != b_dims[i].size || a_dims[i].symbol != b_dims[i].symbol) return false;
    return true;
}

static void grow_type_slots(struct ir_module *m) {
    free(m->type_slots);
    m->n_type_slots *= 2;
    m->type_slots = new_type_slots(m->n_type_slots);
    uint32_t mask = m->n_type_slots - 1;
    for (ir_type t = 1; t < m->type.n; t++) {
        const struct ir_type_info *info = &m->type.at[t];
        uint32_t i = hash_type(info, m->dim.at + info->dims) & mask;
        while (m->type_slots[i]) i = (i + 1) & mask;
        m->type_slots[i] = t;
    }
}

ir_type ir_type_add(struct ir_module *m, const struct ir_type_info *info,
                    const struct ir_dim *dims) {
    if (info->kind == IR_TYPE_NONE) return 0;
    uint32_t mask = m->n_type_slots - 1, i = hash_type(info, dims) & mask;
    for (; m->type_slots[i]; i = (i + 1) & mask) {
        const struct ir_type_info *other = &m->type.at[m->type_slots[i]];
        if (same_type(info, dims, other, m->dim.at + other->dims)) return m->type_slots[i];
    }
    ir_type added = m->type.n;
    struct ir_type_info copy = *info;
    copy.dims = m->dim.n;
    if (n_dims(info)) { /* `dims` may lie in the pool, which moves when it grows */
        bool in_pool = (uintptr_t)dims - (uintptr_t)m->dim.at < m->dim.n * sizeof *dims;
        size_t first = in_pool ? (size_t)(dims - m->dim.at) : 0;
        struct ir_dim *to = vec_extend(&m->dim, n_dims(info));
        memcpy(to, in_pool ? m->dim.at + first : dims, n_dims(info) * sizeof *dims);
    }
    vec_push(&m->type, copy);
    m->type_slots[i] = added;
    if (m->type.n > m->n_type_slots / 2) grow_type_slots(m);
    return added;
}

ir_type ir_type_tensor(struct ir_module *m, enum ir_dtype dtype, int32_t rank,
                       const struct ir_dim *dims) {
    struct ir_type_info info = {.kind = IR_TYPE_TENSOR, .dtype = (uint8_t)dtype, .rank = rank};
    return ir_type_add(m, &info, dims);
}

int64_t ir_type_elements(const struct ir_module *m, ir_type t) {
    const struct ir_type_info *info = &m->type.at[t];
    if ((info->kind != IR_TYPE_TENSOR && info->kind != IR_TYPE_SPARSE_TENSOR) || info->rank < 0)
        return -1;
    int64_t n = 1;
    bool zero = false, overflow = false;
    for (uint32_t i = 0; i < n_dims(info); i++) {
        int64_t size = m->dim.at[info->dims + i].size;
        if (m->dim.at[info->dims + i].symbol || size < 0) return -1;
        if (size == 0)
            zero = true;
        else if (n > INT64_MAX / size)
            overflow = true;
        else
            n *= size;
    }
    return zero ? 0 : overflow ? -1 : n;
}

/* The tensor inside a sequence, map or optional. */
static const struct ir_type_info *innermost(const struct ir_module *m, ir_type t) {
    const struct ir_type_info *info = &m->type.at[t];
    while (info->elem) info = &m->type.at[info->elem];
    return info;
}

enum ir_dtype ir_type_dtype(const struct ir_module *m, ir_type t) {
    const struct ir_type_info *info = innermost(m, t);
    bool tensor = info->kind == IR_TYPE_TENSOR || info->kind == IR_TYPE_SPARSE_TENSOR;
    return tensor ? (enum ir_dtype)info->dtype : IR_UNDEFINED;
}

bool ir_type_carries_gradient(const struct ir_module *m, ir_type t) {
    if (innermost(m, t)->kind == IR_TYPE_OPAQUE) return false;
    enum ir_dtype dtype = ir_type_dtype(m, t);
    return dtype == IR_UNDEFINED || ir_dtype_carries_gradient(dtype);
}

/* ---- types as text --------------------------------------------------------------------------- */

typedef VEC(char) text_buffer;

static void put(text_buffer *b, const char *s, size_t len) {
    if (len) memcpy(vec_extend(b, (uint32_t)len), s, len);
}

static void puts_(text_buffer *b, const char *s) { put(b, s, strlen(s)); }

static void put_quoted(text_buffer *b, const char *s, size_t len) {
    puts_(b, "\"");
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '"' || s[i] == '\\') puts_(b, "\\");
        put(b, &s[i], 1);
    }
    puts_(b, "\"");
}

static void put_symbol(text_buffer *b, const char *s, size_t len) {
    bool plain = len > 0 && !isdigit((unsigned char)s[0]);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_') plain = false;
    if (plain)
        put(b, s, len);
    else
        put_quoted(b, s, len);
}

/* In quotes unless identifiers with dots between them. */
static void put_dotted(text_buffer *b, const struct ir_module *m, str s) {
    const char *text = ir_text(m, s);
    size_t len = strtab_len(&m->strings, s);
    bool plain = true;
    for (size_t i = 0; i < len; i++) {
        bool first = i == 0 || text[i - 1] == '.';
        if (text[i] == '.' ? first || i + 1 == len
                           : !(isalpha((unsigned char)text[i]) || text[i] == '_' ||
                               (!first && isdigit((unsigned char)text[i]))))
            plain = false;
    }
    if (plain)
        put(b, text, len);
    else
        put_quoted(b, text, len);
}

static void put_type(text_buffer *b, const struct ir_module *m, ir_type t) {
    const struct ir_type_info *info = &m->type.at[t];
    switch ((enum ir_type_kind)info->kind) {
    case IR_TYPE_NONE: puts_(b, "undefined"); return;
    case IR_TYPE_SEQUENCE: puts_(b, "seq("); break;
    case IR_TYPE_OPTIONAL: puts_(b, "optional("); break;
    case IR_TYPE_SPARSE_TENSOR: puts_(b, "sparse_tensor("); break;
    case IR_TYPE_MAP:
        puts_(b, "map(");
        puts_(b, ir_dtype_text(info->dtype));
        puts_(b, ", ");
        break;
    case IR_TYPE_OPAQUE:
        puts_(b, "opaque(");
        put_dotted(b, m, info->opaque_domain);
        if (info->opaque_domain) puts_(b, ",");
        if (info->opaque_name) put_dotted(b, m, info->opaque_name);
        puts_(b, ")");
        return;
    case IR_TYPE_TENSOR: break;
    }
    if (info->kind == IR_TYPE_SEQUENCE || info->kind == IR_TYPE_OPTIONAL ||
        info->kind == IR_TYPE_MAP) {
        put_type(b, m, info->elem);
        puts_(b, ")");
        return;
    }
    puts_(b, ir_dtype_text(info->dtype));
    if (info->rank != 0) puts_(b, "[");
    for (uint32_t i = 0; i < n_dims(info); i++) {
        const struct ir_dim *dim = &m->dim.at[info->dims + i];
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)dim->size);
        if (i) puts_(b, ",");
        if (dim->symbol)
            put_symbol(b, ir_text(m, dim->symbol), strtab_len(&m->strings, dim->symbol));
        else
            puts_(b, dim->size < 0 ? "?" : number);
    }
    if (info->rank != 0) puts_(b, "]");
    if (info->kind == IR_TYPE_SPARSE_TENSOR) puts_(b, ")");
}

const char *ir_type_text(const struct ir_module *m, struct arena *a, ir_type t) {
    text_buffer b = {0};
    put_type(&b, m, t);
    const char *text = arena_strndup(a, b.at, b.n);
    vec_free(&b);
    return text;
}
