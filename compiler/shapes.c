/* Shape rules, one function per family of operators, as the ONNX specification states them.
 *
 * A rule sees the node and what is known of its inputs, and gives as much of the output's shape as
 * follows: a dimension that does not is '?', a shape whose rank does not follow has none. Shapes
 * serve the cost model and the reports, never the question which gradients exist, so a rule may
 * give up where a case is rare, but what it says has to be right.
 *
 * This file looks rules up and has what they share; the rules are in
 *
 *     shapes_same.c      element-wise operators, and shapes that attributes or numbers give
 *     shapes_window.c    convolutions, pools
 *     shapes_move.c      reshaping, cutting, joining
 *     shapes_index.c     gathering, choosing, counting
 *     shapes_reduce.c    reductions, products of matrices, losses
 *     shapes_attention.c recurrent layers, attention
 *     shapes_microsoft.c the domain com.microsoft
 *     shapes_image.c     resizing and the like
 *     shapes_signal.c    transforms, windows, text, ai.onnx.ml
 *
 * Numbers come from attributes and from what is known of the elements of inputs (facts.h). */
#include "shape_rules.h"
#include <string.h>

/* ---- dimensions ------------------------------------------------------------------------------ */

struct ir_dim shape_join_dim(struct ir_dim a, struct ir_dim b) {
    return dim_same(a, b) ? a : DIM_UNKNOWN;
}

bool shape_set_rank(struct shape *s, int64_t rank) {
    if (rank < 0 || rank > SHAPE_MAX_RANK) {
        shape_give_up(s);
        return false;
    }
    s->rank = (int32_t)rank;
    for (int32_t i = 0; i < s->rank; i++) s->dim[i] = DIM_UNKNOWN;
    return true;
}

void shape_of_type(const struct ir_module *m, ir_type t, struct shape *out) {
    const struct ir_type_info *info = &m->type.at[t];
    shape_give_up(out);
    if (info->kind != IR_TYPE_TENSOR || info->rank < 0 || info->rank > SHAPE_MAX_RANK) return;
    out->rank = info->rank;
    for (int32_t i = 0; i < info->rank; i++) out->dim[i] = m->dim.at[info->dims + (uint32_t)i];
}

bool shape_of_input(const struct facts *f, ir_node n, uint32_t i, struct shape *out) {
    shape_of_type(f->m, f->m->value.at[ir_input(f->m, n, i)].type, out);
    return out->rank != IR_RANK_UNKNOWN;
}

static struct ir_dim broadcast_dim(struct ir_dim a, struct ir_dim b) {
    if (dim_is_fixed(a) && a.size == 1) return b;
    if (dim_is_fixed(b) && b.size == 1) return a;
    if (dim_same(a, b)) return a;
    if (dim_is_fixed(a)) return a; /* the other is not known, but has to fit */
    return dim_is_fixed(b) ? b : DIM_UNKNOWN;
}

void shape_broadcast(struct shape *a, const struct shape *b) {
    if (a->rank < 0 || b->rank < 0) {
        shape_give_up(a);
        return;
    }
    struct shape result;
    shape_set_rank(&result, a->rank > b->rank ? a->rank : b->rank);
    for (int32_t i = 1; i <= result.rank; i++) {
        struct ir_dim x = i <= a->rank ? a->dim[a->rank - i] : dim_fixed(1);
        struct ir_dim y = i <= b->rank ? b->dim[b->rank - i] : dim_fixed(1);
        result.dim[result.rank - i] = broadcast_dim(x, y);
    }
    *a = result;
}

struct ir_dim dim_plus(struct ir_dim a, int64_t b) {
    if (b == 0) return a;
    bool known = dim_is_fixed(a) && number_is_sane(a.size) && number_is_sane(b);
    return known ? dim_fixed(a.size + b) : DIM_UNKNOWN;
}

struct ir_dim dim_times(struct ir_dim a, int64_t b) {
    if (b == 1) return a;
    if (b == 0) return dim_fixed(0);
    bool known = dim_is_fixed(a) && b > 0 && number_is_sane(a.size) && number_is_sane(b);
    return known ? dim_fixed(a.size * b) : DIM_UNKNOWN;
}

struct ir_dim dim_over(struct ir_dim a, int64_t b) {
    if (b == 1) return a;
    return dim_is_fixed(a) && b > 0 && a.size % b == 0 ? dim_fixed(a.size / b) : DIM_UNKNOWN;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void take_ints(struct numbers *out, const int64_t *ints, uint32_t n) {
    if (n > IR_MAX_INTS) return;
    out->known = true;
    out->n = n;
    memcpy(out->at, ints, n * sizeof *ints);
}

void numbers_of_attr(const struct facts *f, ir_node n, const char *name, struct numbers *out) {
    const struct ir_attr_info *a = &f->m->attr.at[ir_attr_find(f->m, n, name)];
    out->known = false;
    out->n = 0;
    if (a->kind == IR_ATTR_TENSOR && a->n_values) {
        const int64_t *ints;
        ir_data data = f->m->attr_value.at[a->values].tensor.data;
        uint32_t count = ir_data_ints(f->m, data, &ints);
        if (count) take_ints(out, ints, count);
    } else if ((a->kind == IR_ATTR_INT || a->kind == IR_ATTR_INTS) && a->n_values <= IR_MAX_INTS) {
        out->known = true;
        for (uint32_t i = 0; i < a->n_values; i++)
            out->at[out->n++] = f->m->attr_value.at[a->values + i].i;
    }
}

void numbers_of_elements(const struct elements *e, struct numbers *out) {
    out->known = true;
    out->n = 0;
    for (uint32_t i = 0; i < e->n && out->known; i++) {
        out->known = e->at[i].known;
        out->at[out->n++] = e->at[i].n;
    }
    if (!out->known) out->n = 0;
}

void numbers_of_input(const struct facts *f, ir_node n, uint32_t i, struct numbers *out) {
    struct elements e;
    out->known = false;
    out->n = 0;
    if (ir_input(f->m, n, i) && facts_elements(f, ir_input(f->m, n, i), &e))
        numbers_of_elements(&e, out);
}

bool elements_of_attr_or_input(const struct facts *f, ir_node n, const char *name, uint32_t input,
                               struct elements *out) {
    struct numbers x;
    numbers_of_attr(f, n, name, &x);
    out->n = 0;
    if (!x.known)
        return ir_input(f->m, n, input) && facts_elements(f, ir_input(f->m, n, input), out);
    for (uint32_t i = 0; i < x.n; i++) out->at[out->n++] = ELEMENT(x.at[i]);
    return true;
}

bool numbers_of_attr_or_input(const struct facts *f, ir_node n, const char *name, uint32_t input,
                              struct numbers *out) {
    numbers_of_attr(f, n, name, out);
    if (out->known) return true;
    if (!ir_input(f->m, n, input)) return false;
    numbers_of_input(f, n, input, out);
    return true;
}

const char *shape_attr_string(const struct facts *f, ir_node n, const char *name) {
    const struct ir_attr_info *a = &f->m->attr.at[ir_attr_find(f->m, n, name)];
    return a->kind == IR_ATTR_STRING && a->n_values
               ? ir_text(f->m, f->m->attr_value.at[a->values].s)
               : "";
}

int32_t shape_axis(int64_t axis, int32_t rank) {
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? (int32_t)axis : -1;
}

uint32_t numbers_axis_bits(const struct numbers *axes, int32_t rank) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < axes->n; i++) {
        int32_t axis = shape_axis(axes->at[i], rank);
        if (axis >= 0) bits |= 1u << axis;
    }
    return bits;
}

int64_t shape_slice_length(int64_t size, int64_t start, int64_t end, int64_t step) {
    if (start < 0) start = start < -size ? -1 : start + size;
    if (end < 0) end = end < -size ? -1 : end + size;
    if (step > 0) {
        if (start < 0) start = 0;
        if (end > size) end = size;
        return end > start ? (end - start - 1) / step + 1 : 0;
    }
    if (step == INT64_MIN) step++;
    if (start > size - 1) start = size - 1;
    if (end > size) end = size;
    return start > end ? (start - end - 1) / -step + 1 : 0;
}

int64_t numbers_both_pads(const struct numbers *pads, uint32_t i, uint32_t behind) {
    int64_t before = numbers_at(pads, i, 0), after = numbers_at(pads, behind, 0);
    return number_is_sane(before) && number_is_sane(after) ? before + after : INT64_MAX;
}

/* ---- the rule of an operator ----------------------------------------------------------------- */

bool shape_word_in(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; *at;) {
        size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, word, length) == 0) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

static shape_rule find(const struct shape_rules *family, const char *op) {
    for (; family->rule; family++)
        if (shape_word_in(family->ops, op)) return family->rule;
    return NULL;
}

static shape_rule find_onnx(const char *op) {
    const struct shape_rules *const families[] = {
        shape_rules_same,   shape_rules_window,    shape_rules_move,  shape_rules_index,
        shape_rules_reduce, shape_rules_attention, shape_rules_image, shape_rules_signal};
    shape_rule rule = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families && !rule; i++)
        rule = find(families[i], op);
    return rule;
}

/* Operators of com.microsoft whose inputs and shapes are those of ONNX's. */
static const struct {
    const char *op, *as;
} like_onnx[] = {
    {"CausalConvWithState", "CausalConvWithState"},
    {"FusedConv", "Conv"},
    {"FusedGemm", "Gemm"},
    {"GatherND", "GatherND"},
    {"GridSample", "GridSample"},
    {"LinearAttention", "LinearAttention"},
    {"MatMulInteger16", "MatMulInteger"},
    {"DynamicQuantizeMatMul", "MatMul"},
    {"GemmFastGelu", "MatMul"},
    {"Pad", "Pad"},
    {"QLinearConv", "QLinearConv"},
    {"Range", "Range"},
    {"SwiGLU", "SwiGLU"},
    {"Trilu", "Trilu"},
    {"Unique", "Unique"},
};

shape_rule shape_rule_of(const char *domain, const char *op) {
    if (strcmp(domain, "com.microsoft") == 0) {
        for (size_t i = 0; i < sizeof like_onnx / sizeof *like_onnx; i++)
            if (strcmp(like_onnx[i].op, op) == 0) return find_onnx(like_onnx[i].as);
        return find(shape_rules_microsoft, op);
    }
    if (strcmp(domain, "ai.onnx.ml") == 0) return find(shape_rules_ml, op);
    if (strcmp(domain, "ai.onnx.preview.training") == 0) return find(shape_rules_training, op);
    bool own = !*domain || !strcmp(domain, "ddpc") || !strcmp(domain, "ai.onnx.preview");
    return own ? find_onnx(op) : NULL;
}
