/* Types that contradict what operators take.
 *
 * Whether a value carries a gradient follows from its element type, so a wrong one does not fail
 * anywhere: it looks like a parameter that gets no gradient, and the advice would be to freeze it.
 * Three kinds of mistakes are told apart from what is merely unknown: arithmetic on a mix of values
 * with and without gradients, conditions that are not boolean, trip counts that are not integers.
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

bool check_types_node(const struct ir_module *m, ir_node n, const struct type_rule *rule,
                      struct diags *d) {
    bool ok = true;
    for (const struct type_rule *w = rule; w < table + N_TABLE; w++) {
        if (strcmp(w->op, rule->op) != 0) break;
        ok &= check_one(m, n, w, d);
    }
    return ok;
}
