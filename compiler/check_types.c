/* Types that contradict what operators take.
 *
 * Whether a value carries a gradient follows from its element type, so a wrong one does not fail
 * anywhere: it looks like a parameter that gets no gradient, and the advice would be to freeze it.
 * Three kinds of mistakes are told apart from what is merely unknown: arithmetic on a mix of values
 * with and without gradients, conditions that are not boolean, trip counts that are not integers.
 * Sizes that do not fit are a warning, since sizes decide times alone.
 * Mixes of float types are left alone. They are as invalid in ONNX, but stale declarations are
 * common in models converted to half precision, and change nothing here. */
#include "check_types.h"
#include <string.h>

struct type_rule {
    const char *op;
    uint32_t input, to;  /* the inputs [input, to) */
    enum ir_dtype dtype; /* what they must be; undefined: all with a gradient or all without */
};

/* Ascending by operator. */
static const struct type_rule table[] = {
    {"Add", 0, 2, IR_UNDEFINED},
    {"Concat", 0, UINT32_MAX, IR_UNDEFINED},
    {"Conv", 0, 3, IR_UNDEFINED},
    {"ConvTranspose", 0, 3, IR_UNDEFINED},
    {"Div", 0, 2, IR_UNDEFINED},
    {"Einsum", 0, UINT32_MAX, IR_UNDEFINED},
    {"Gemm", 0, 3, IR_UNDEFINED},
    {"If", 0, 1, IR_BOOL},
    {"Loop", 0, 1, IR_INT64},
    {"Loop", 1, 2, IR_BOOL},
    {"MatMul", 0, 2, IR_UNDEFINED},
    {"Max", 0, UINT32_MAX, IR_UNDEFINED},
    {"Mean", 0, UINT32_MAX, IR_UNDEFINED},
    {"Min", 0, UINT32_MAX, IR_UNDEFINED},
    {"Mul", 0, 2, IR_UNDEFINED},
    {"PRelu", 0, 2, IR_UNDEFINED},
    {"Sub", 0, 2, IR_UNDEFINED},
    {"Sum", 0, UINT32_MAX, IR_UNDEFINED},
    {"Where", 0, 1, IR_BOOL},
    {"Where", 1, 3, IR_UNDEFINED},
};
enum { N_TABLE = sizeof table / sizeof *table };

const struct type_rule *check_types_rule(const char *op) {
    for (uint32_t i = 0; i < N_TABLE; i++)
        if (strcmp(table[i].op, op) == 0) return &table[i];
    return NULL;
}

static enum ir_dtype dtype_of(const struct ir_module *m, ir_node n, uint32_t i) {
    return ir_type_dtype(m, m->value.at[ir_input(m, n, i)].type);
}

static struct diag *report(const struct ir_module *m, ir_node n, uint32_t i, struct diags *d,
                           const char *what) {
    const struct ir_node_info *node = &m->node.at[n];
    return diag_at(d, DIAG_MIXED_TYPES, m->ref_loc.at[node->refs + node->n_outputs + i],
                   strtab_len(&m->strings, m->value.at[ir_input(m, n, i)].name),
                   "'%s' is %s, but %s", ir_value_name(m, ir_input(m, n, i)),
                   ir_dtype_array(dtype_of(m, n, i)), what);
}

static bool check_one(const struct ir_module *m, ir_node n, const struct type_rule *w,
                      struct diags *d) {
    const char *op = ir_text(m, m->node.at[n].op);
    uint32_t first = UINT32_MAX;
    for (uint32_t i = w->input; i < w->to && i < m->node.at[n].n_inputs; i++) {
        enum ir_dtype t = dtype_of(m, n, i);
        if (t == IR_UNDEFINED) continue;
        if (w->dtype != IR_UNDEFINED) {
            if (t == w->dtype || (t == IR_INT32 && w->dtype == IR_INT64)) continue;
            const char *role = w->dtype == IR_BOOL ? "the condition" : "the trip count";
            report(
                m, n, i, d,
                arena_printf(&d->arena, "%s of %s must be %s", role, op, ir_dtype_array(w->dtype)));
            return false;
        }
        if (first == UINT32_MAX) {
            first = i;
        } else if (ir_dtype_carries_gradient(t) !=
                   ir_dtype_carries_gradient(dtype_of(m, n, first))) {
            struct diag *g =
                report(m, n, i, d,
                       arena_printf(&d->arena, "%s takes one element type and '%s' is %s", op,
                                    ir_value_name(m, ir_input(m, n, first)),
                                    ir_dtype_array(dtype_of(m, n, first))));
            diag_set_help(d, g, "a Cast makes one type of both");
            return false;
        }
    }
    return true;
}

static const struct ir_dim *matrix_dim(const struct ir_module *m, ir_node n, uint32_t input,
                                       int32_t from_end) {
    const struct ir_type_info *t = &m->type.at[m->value.at[ir_input(m, n, input)].type];
    bool known = t->kind == IR_TYPE_TENSOR && t->rank >= 2;
    return known ? &m->dim.at[t->dims + (uint32_t)(t->rank - from_end)] : NULL;
}

/* Matrix products whose inner sizes are known and differ. */
static void check_inner_sizes(const struct ir_module *m, ir_node n, struct diags *d) {
    const char *op = ir_text(m, m->node.at[n].op);
    bool gemm = strcmp(op, "Gemm") == 0;
    if ((!gemm && strcmp(op, "MatMul") != 0) || m->node.at[n].n_inputs < 2) return;
    bool turned_a = gemm && ir_attr_int(m, n, "transA", 0) != 0;
    bool turned_b = gemm && ir_attr_int(m, n, "transB", 0) != 0;
    const struct ir_dim *a = matrix_dim(m, n, 0, turned_a ? 2 : 1);
    const struct ir_dim *b = matrix_dim(m, n, 1, turned_b ? 1 : 2);
    if (!a || !b || a->symbol || b->symbol || a->size < 0 || b->size < 0 || a->size == b->size)
        return;
    const struct ir_node_info *node = &m->node.at[n];
    struct diag *g = diag_at(d, DIAG_INNER_SIZES, m->ref_loc.at[node->refs + node->n_outputs + 1],
                             strtab_len(&m->strings, m->value.at[ir_input(m, n, 1)].name),
                             "'%s' has %lld columns and '%s' %lld rows, as %s multiplies them",
                             ir_value_name(m, ir_input(m, n, 0)), (long long)a->size,
                             ir_value_name(m, ir_input(m, n, 1)), (long long)b->size, op);
    diag_set_help(d, g, "'%s' is %s, '%s' is %s", ir_value_name(m, ir_input(m, n, 0)),
                  ir_type_text(m, &d->arena, m->value.at[ir_input(m, n, 0)].type),
                  ir_value_name(m, ir_input(m, n, 1)),
                  ir_type_text(m, &d->arena, m->value.at[ir_input(m, n, 1)].type));
}

/* Of two inputs the first sizes that do not fit, each from the end, if operands are broadcast. */
static bool misfit(const struct ir_module *m, ir_type a, ir_type b, long long *p, long long *q) {
    const struct ir_type_info *s = &m->type.at[a], *t = &m->type.at[b];
    for (int32_t i = 1; i <= s->rank && i <= t->rank; i++) {
        const struct ir_dim *x = &m->dim.at[s->dims + (uint32_t)(s->rank - i)];
        const struct ir_dim *y = &m->dim.at[t->dims + (uint32_t)(t->rank - i)];
        *p = x->size;
        *q = y->size;
        if (!x->symbol && !y->symbol && *p >= 0 && *q >= 0 && *p != *q && *p != 1 && *q != 1)
            return true;
    }
    return false;
}

/* Operands that are broadcast, each with the one before it. */
static void check_broadcast(const struct ir_module *m, ir_node n, struct diags *d) {
    static const char *const ops[] = {"Add", "Div", "Max", "Mean", "Min",
                                      "Mul", "Sub", "Sum", "Where"};
    const struct ir_node_info *node = &m->node.at[n];
    bool broadcasts = false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !broadcasts; i++)
        broadcasts = strcmp(ops[i], ir_text(m, node->op)) == 0;
    if (!broadcasts || ir_attr_find(m, n, "broadcast"))
        return; /* before opset 7 it may align left */
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        ir_value a = ir_input(m, n, i - 1), b = ir_input(m, n, i);
        long long p, q;
        if (!misfit(m, m->value.at[a].type, m->value.at[b].type, &p, &q)) continue;
        struct diag *g =
            diag_at(d, DIAG_INNER_SIZES, m->ref_loc.at[node->refs + node->n_outputs + i],
                    strtab_len(&m->strings, m->value.at[b].name),
                    "'%s' is %s and '%s' %s: %s broadcasts neither %lld to %lld nor back",
                    ir_value_name(m, a), ir_type_text(m, &d->arena, m->value.at[a].type),
                    ir_value_name(m, b), ir_type_text(m, &d->arena, m->value.at[b].type),
                    ir_text(m, node->op), p, q);
        diag_set_help(d, g, "sizes must be equal, counted from the last dimension, or 1");
        return;
    }
}

bool check_types_node(const struct ir_module *m, ir_node n, const struct type_rule *rule,
                      struct diags *d) {
    bool ok = true;
    for (const struct type_rule *w = rule; w < table + N_TABLE; w++) {
        if (strcmp(w->op, rule->op) != 0) break;
        ok &= check_one(m, n, w, d);
    }
    if (ok) check_inner_sizes(m, n, d);
    if (ok) check_broadcast(m, n, d);
    return ok;
}
