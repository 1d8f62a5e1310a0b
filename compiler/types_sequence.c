/* Types of sequences from those of their elements, and back; and how many nodes have no known shape.
 *
 * The elements of a sequence may differ in shape. Its type says what all of them have in common. */
#include "types.h"
#include <string.h>

static ir_type input_type(const struct ir_module *m, ir_node n, uint32_t i) {
    return m->value.at[ir_input(m, n, i)].type;
}

static ir_type construct(struct ir_module *m, ir_node n) {
    ir_type all = input_type(m, n, 0);
    for (uint32_t i = 1; i < m->node.at[n].n_inputs; i++) {
        ir_type next = input_type(m, n, i);
        if (!next || !all) return 0;
        all = types_join(m, all, next);
    }
    return types_container(m, IR_TYPE_SEQUENCE, all);
}

static ir_type insert(struct ir_module *m, ir_node n) {
    ir_type elem = m->type.at[input_type(m, n, 0)].elem, added = input_type(m, n, 1);
    return elem && added ? types_container(m, IR_TYPE_SEQUENCE, types_join(m, elem, added)) : 0;
}

/* Pieces along an axis; without sizes of one each, which need not keep the axis. */
static ir_type split(struct ir_module *m, ir_node n) {
    struct shape s;
    ir_type t = input_type(m, n, 0);
    shape_of_type(m, t, &s);
    int64_t axis = ir_attr_int(m, n, "axis", 0);
    if (axis < 0) axis += s.rank;
    if (s.rank == IR_RANK_UNKNOWN || axis < 0 || axis >= s.rank) return 0;
    bool sized = ir_input(m, n, 1) != 0, keep = sized || ir_attr_int(m, n, "keepdims", 1) != 0;
    s.dim[axis] = (struct ir_dim){.size = sized ? -1 : 1};
    if (!keep) {
        s.rank--;
        memmove(&s.dim[axis], &s.dim[axis + 1], (size_t)(s.rank - axis) * sizeof *s.dim);
    }
    return types_container(m, IR_TYPE_SEQUENCE, types_tensor(m, ir_type_dtype(m, t), &s));
}

static ir_type concatenate(struct ir_module *m, ir_node n) {
    struct shape s;
    ir_type elem = m->type.at[input_type(m, n, 0)].elem;
    shape_of_type(m, elem, &s);
    bool stack = ir_attr_int(m, n, "new_axis", 0) != 0;
    int64_t axis = ir_attr_int(m, n, "axis", 0);
    if (axis < 0) axis += s.rank + stack;
    if (s.rank == IR_RANK_UNKNOWN || axis < 0 || axis >= s.rank + stack ||
        s.rank + stack > SHAPE_MAX_RANK) {
        s.rank = IR_RANK_UNKNOWN;
    } else {
        if (stack) {
            memmove(&s.dim[axis + 1], &s.dim[axis], (size_t)(s.rank - axis) * sizeof *s.dim);
            s.rank++;
        }
        s.dim[axis] = (struct ir_dim){.size = -1};
    }
    return types_tensor(m, ir_type_dtype(m, elem), &s);
}

static const struct {
    const char *op;
    type_rule_of_sequence type;
} rules[] = {
    {"SequenceConstruct", construct},
    {"SequenceInsert", insert},
    {"SplitToSequence", split},
    {"ConcatFromSequence", concatenate},
};

type_rule_of_sequence types_sequence_rule(const char *op) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].op, op) == 0) return rules[i].type;
    return NULL;
}

/* ---- what stayed unknown --------------------------------------------------------------------- */

/* A symbol is known: --dim gives it a number. */
static bool has_shape(const struct ir_module *m, ir_type t) {
    const struct ir_type_info *info = &m->type.at[t];
    if (info->kind != IR_TYPE_NONE && info->kind != IR_TYPE_TENSOR) return true;
    for (int32_t i = 0; i < info->rank; i++) {
        const struct ir_dim *d = &m->dim.at[info->dims + (uint32_t)i];
        if (!d->symbol && d->size < 0) return false;
    }
    return info->kind == IR_TYPE_TENSOR && info->rank >= 0;
}

static bool runs(const struct ir_module *m, ir_graph g) {
    while (m->graph.at[g].parent) g = m->graph.at[g].parent;
    return g == m->main;
}

uint32_t types_unknown_shapes(const struct ir_module *m) {
    uint32_t unknown = 0;
    for (ir_graph g = 1; g < m->graph.n; g++) {
        const struct ir_graph_info *graph = &m->graph.at[g];
        if (!runs(m, g)) continue;
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
            ir_node n = m->node_list.at[graph->nodes + i];
            bool known = true;
            for (uint32_t k = 0; k < m->node.at[n].n_outputs && known; k++) {
                ir_value v = ir_outputs(m, n)[k];
                known = !v || has_shape(m, m->value.at[v].type);
            }
            unknown += !known;
        }
    }
    return unknown;
}
