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
 *     shapes_move.c      reshaping, cutting, joining, gathering
 *     shapes_reduce.c    reductions, products of matrices, losses, recurrent layers, attention
 *
 * Numbers come from attributes and from payloads that the reader keeps (integers of up to
 * IR_MAX_INTS elements); a shape that the graph computes from another's Shape is '?'. */
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

bool shape_of_input(const struct ir_module *m, ir_node n, uint32_t i, struct shape *out) {
    shape_of_type(m, m->value.at[ir_input(m, n, i)].type, out);
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

/* ---- numbers --------------------------------------------------------------------------------- */

static void take_ints(struct numbers *out, const int64_t *ints, uint32_t n) {
    if (n > IR_MAX_INTS) return;
    out->known = true;
    out->n = n;
    memcpy(out->at, ints, n * sizeof *ints);
}

void numbers_of_attr(const struct ir_module *m, ir_node n, const char *name, struct numbers *out) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    out->known = false;
    out->n = 0;
    if (a->kind == IR_ATTR_TENSOR && a->n_values) {
        const int64_t *ints;
        ir_data data = m->attr_value.at[a->values].tensor.data;
        uint32_t count = ir_data_ints(m, data, &ints);
        if (count) take_ints(out, ints, count);
    } else if ((a->kind == IR_ATTR_INT || a->kind == IR_ATTR_INTS) && a->n_values <= IR_MAX_INTS) {
        out->known = true;
        for (uint32_t i = 0; i < a->n_values; i++)
            out->at[out->n++] = m->attr_value.at[a->values + i].i;
    }
}

void numbers_of_input(const struct ir_module *m, ir_node n, uint32_t i, struct numbers *out) {
    const struct ir_value_info *v = &m->value.at[ir_input(m, n, i)];
    out->known = false;
    out->n = 0;
    if (v->def == IR_DEF_INITIALIZER) {
        const int64_t *ints;
        uint32_t count = ir_data_ints(m, v->data, &ints);
        if (count) take_ints(out, ints, count);
    } else if (v->def == IR_DEF_NODE &&
               strcmp(ir_text(m, m->node.at[v->node].op), "Constant") == 0) {
        numbers_of_attr(m, v->node, "value", out);
        if (!out->known) numbers_of_attr(m, v->node, "value_ints", out);
        if (!out->known) numbers_of_attr(m, v->node, "value_int", out);
    }
}

bool numbers_of_attr_or_input(const struct ir_module *m, ir_node n, const char *name,
                              uint32_t input, struct numbers *out) {
    numbers_of_attr(m, n, name, out);
    if (out->known) return true;
    if (!ir_input(m, n, input)) return false;
    numbers_of_input(m, n, input, out);
    return true;
}

const char *shape_attr_string(const struct ir_module *m, ir_node n, const char *name) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    return a->kind == IR_ATTR_STRING && a->n_values ? ir_text(m, m->attr_value.at[a->values].s)
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

static shape_rule find(const struct shape_rules *family, const char *op) {
    size_t length = strlen(op);
    for (; family->rule; family++)
        for (const char *at = family->ops; *at;) {
            size_t word = strcspn(at, " ");
            if (word == length && memcmp(at, op, length) == 0) return family->rule;
            at += word + (at[word] == ' ');
        }
    return NULL;
}

shape_rule shape_rule_of(const char *op) {
    const struct shape_rules *const families[] = {shape_rules_same, shape_rules_window,
                                                  shape_rules_move, shape_rules_reduce};
    shape_rule rule = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families && !rule; i++)
        rule = find(families[i], op);
    return rule;
}
