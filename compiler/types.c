/* Type inference: gives values the types that follow from the operators.
 *
 * One walk over the graphs in order. The element type decides what can carry a gradient and is
 * inferred through every operator (out_dtype of the registry); shapes serve costs and reports and
 * are inferred where shapes.c has a rule, with the numbers that the graph computes (facts.c, fold.c).
 * types_flow.c hands types into the bodies of control flow and takes them from their outputs.
 *
 * Declarations are believed: what the text says about a value stays, and inference fills in what it
 * leaves open, an unknown rank or a '?'. A symbol that turns out to be a number becomes the number.
 * Contradictions that would change where gradients flow are reported (check_types.c).
 * A shape that contradicts its declaration is a warning, since sizes decide times alone.
 *
 * --dim B=32 replaces a symbol wherever it stands, before anything else (types_dims.c). */
#include "types.h"
#include <stdlib.h>
#include <string.h>

/* ---- what is known already ------------------------------------------------------------------- */

/* The declaration is believed, but its author should know. */
static void report_shape(struct typer *x, ir_value v, ir_type inferred, ir_node by) {
    struct ir_module *m = x->m;
    const struct ir_value_info *value = &m->value.at[v];
    if (!by) return;
    struct diag *g =
        diag_at(x->d, DIAG_OTHER_SHAPE, value->loc, strtab_len(&m->strings, value->name),
                "'%s' is declared as %s, but %s gives it %s", ir_value_name(m, v),
                ir_type_text(m, &x->d->arena, value->type), ir_text(m, m->node.at[by].op),
                ir_type_text(m, &x->d->arena, inferred));
    const char *name = ir_text(m, m->node.at[by].name);
    if (m->node.at[by].loc != value->loc)
        diag_add_note(x->d, g, m->node.at[by].loc,
                      *name ? "it is made here, by '%s'" : "it is made here", name);
    diag_set_help(x->d, g,
                  "correct the declaration, or leave it out: the shape follows from the operator");
}

/* Whether the shapes cannot both be right. */
static bool contradict(const struct shape *a, const struct shape *b) {
    if (a->rank < 0 || b->rank < 0) return false;
    bool differ = a->rank != b->rank;
    for (int32_t i = 0; !differ && i < a->rank; i++) {
        struct ir_dim p = a->dim[i], q = b->dim[i];
        differ = !p.symbol && !q.symbol && p.size >= 0 && q.size >= 0 && p.size != q.size;
    }
    return differ;
}

static void set_type(struct typer *x, ir_value v, ir_type t) {
    ir_type *now = &x->m->value.at[v].type;
    if (*now == t) return;
    if (x->loops) vec_push(&x->journal, ((struct type_before){v, *now}));
    *now = t;
}

void types_give(struct typer *x, ir_value v, ir_type inferred, ir_node by) {
    struct ir_module *m = x->m;
    ir_type declared = m->value.at[v].type;
    if (!v || !inferred || declared == inferred) return;
    struct ir_type_info a = m->type.at[declared], b = m->type.at[inferred];
    if (a.kind == IR_TYPE_NONE) {
        set_type(x, v, inferred);
        return;
    }
    if (!types_is_tensor(&a) || !types_is_tensor(&b)) {
        /* seq(float[]) learns what its elements are */
        if (a.kind == b.kind && a.elem && b.elem && !m->type.at[a.elem].elem &&
            m->type.at[a.elem].rank == IR_RANK_UNKNOWN &&
            m->type.at[a.elem].dtype == m->type.at[b.elem].dtype)
            set_type(x, v, inferred);
        return;
    }
    if (a.dtype == IR_UNDEFINED) a.dtype = b.dtype;
    if (b.dtype != IR_UNDEFINED &&
        ir_dtype_carries_gradient(a.dtype) != ir_dtype_carries_gradient(b.dtype))
        diag_at(x->d, DIAG_OTHER_TYPE, m->value.at[v].loc,
                strtab_len(&m->strings, m->value.at[v].name),
                "'%s' is declared as %s, but what it gets is %s", ir_value_name(m, v),
                ir_dtype_array(a.dtype), ir_dtype_array(b.dtype));
    struct shape from, to;
    shape_of_type(m, declared, &to);
    shape_of_type(m, inferred, &from);
    bool single = ir_type_elements(m, declared) == 1 && ir_type_elements(m, inferred) == 1;
    if (!single && contradict(&to, &from)) report_shape(x, v, inferred, by);
    if (a.rank == IR_RANK_UNKNOWN) {
        to = from;
    } else {
        if (from.rank != to.rank || to.rank < 0) return;
        for (int32_t i = 0; i < to.rank; i++) {
            struct ir_dim *mine = &to.dim[i], other = from.dim[i];
            bool open = mine->symbol || mine->size < 0, number = !other.symbol && other.size >= 0;
            if (open && (number || (!mine->symbol && other.symbol))) *mine = other;
        }
    }
    a.rank = to.rank;
    set_type(x, v, ir_type_add(m, &a, to.dim));
}

ir_type types_tensor(struct ir_module *m, enum ir_dtype dtype, const struct shape *s) {
    if (dtype == IR_UNDEFINED && s->rank == IR_RANK_UNKNOWN) return 0;
    return ir_type_tensor(m, dtype, s->rank, s->dim);
}

ir_type types_container(struct ir_module *m, enum ir_type_kind kind, ir_type elem) {
    struct ir_type_info info = {.kind = (uint8_t)kind, .rank = IR_RANK_UNKNOWN, .elem = elem};
    return elem ? ir_type_add(m, &info, NULL) : 0;
}

ir_type types_join(struct ir_module *m, ir_type a, ir_type b) {
    if (a == b || !b) return a;
    if (!a) return b;
    struct ir_type_info x = m->type.at[a], y = m->type.at[b];
    if (!types_is_tensor(&x) || !types_is_tensor(&y)) return a;
    struct shape s, t;
    shape_of_type(m, a, &s);
    shape_of_type(m, b, &t);
    if (s.rank != t.rank) s.rank = IR_RANK_UNKNOWN;
    for (int32_t i = 0; i < s.rank; i++) s.dim[i] = shape_join_dim(s.dim[i], t.dim[i]);
    return types_tensor(m, x.dtype != IR_UNDEFINED ? x.dtype : y.dtype, &s);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* The attribute's TensorProto.DataType, or `otherwise`. */
static enum ir_dtype attr_dtype(const struct ir_module *m, ir_node n, const char *name,
                                enum ir_dtype otherwise) {
    int64_t t = ir_attr_int(m, n, name, 0);
    return t > 0 && t < IR_N_DTYPES ? (enum ir_dtype)t : otherwise;
}

static enum ir_dtype constant_dtype(const struct ir_module *m, ir_node n) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_of_value(m, n)];
    switch ((enum ir_attr_kind)a->kind) {
    case IR_ATTR_TENSOR:
    case IR_ATTR_SPARSE_TENSOR:
        return a->n_values ? ir_type_dtype(m, m->attr_value.at[a->values].tensor.type) : IR_FLOAT;
    case IR_ATTR_INT:
    case IR_ATTR_INTS: return IR_INT64;
    case IR_ATTR_STRING:
    case IR_ATTR_STRINGS: return IR_STRING;
    default: return IR_FLOAT; /* ConstantOfShape without a value too */
    }
}

static ir_type input_type(const struct ir_module *m, ir_node n, uint32_t i) {
    return m->value.at[ir_input(m, n, i)].type;
}

static enum ir_dtype input_dtype(const struct ir_module *m, ir_node n, uint32_t i,
                                 enum ir_dtype otherwise) {
    enum ir_dtype t = ir_type_dtype(m, input_type(m, n, i));
    return t != IR_UNDEFINED ? t : otherwise;
}

/* The output's type without a shape if it is no tensor's (*complete), else its element type. */
static ir_type output_type(struct ir_module *m, ir_node n, enum op_out_dtype from,
                           enum ir_dtype *dtype, bool *complete) {
    *complete = false;
    *dtype = IR_UNDEFINED;
    switch (from) {
    case OP_DTYPE_INPUT0:
    case OP_DTYPE_INPUT1:
    case OP_DTYPE_INPUT2: {
        ir_type t = input_type(m, n, (uint32_t)from - OP_DTYPE_INPUT0);
        *complete = t && !types_is_tensor(&m->type.at[t]);
        *dtype = ir_type_dtype(m, t);
        return t;
    }
    case OP_DTYPE_INPUT7: *dtype = input_dtype(m, n, 7, IR_UNDEFINED); return 0;
    case OP_DTYPE_BOOL: *dtype = IR_BOOL; return 0;
    case OP_DTYPE_UINT8: *dtype = IR_UINT8; return 0;
    case OP_DTYPE_INT32: *dtype = IR_INT32; return 0;
    case OP_DTYPE_INT64: *dtype = IR_INT64; return 0;
    case OP_DTYPE_FLOAT: *dtype = IR_FLOAT; return 0;
    case OP_DTYPE_STRING: *dtype = IR_STRING; return 0;
    case OP_DTYPE_ATTR_TO: *dtype = attr_dtype(m, n, "to", IR_UNDEFINED); return 0;
    case OP_DTYPE_ATTR_DTYPE:
        *dtype = attr_dtype(m, n, "dtype", input_dtype(m, n, 0, IR_FLOAT));
        return 0;
    case OP_DTYPE_ATTR_DTYPE_INT32: *dtype = attr_dtype(m, n, "dtype", IR_INT32); return 0;
    case OP_DTYPE_ATTR_OUTPUT_DATATYPE:
        *dtype = attr_dtype(m, n, "output_datatype", IR_FLOAT);
        return 0;
    case OP_DTYPE_ATTR_VALUE: *dtype = constant_dtype(m, n); return 0;
    case OP_DTYPE_QUANTIZED:
        *dtype = attr_dtype(m, n, "output_dtype", input_dtype(m, n, 2, IR_UINT8));
        return 0;
    case OP_DTYPE_DEQUANTIZED:
        *dtype = attr_dtype(m, n, "output_dtype", input_dtype(m, n, 1, IR_FLOAT));
        return 0;
    case OP_DTYPE_ATTR_SEQUENCE:
        *complete = true;
        return types_container(
            m, IR_TYPE_SEQUENCE,
            ir_type_tensor(m, attr_dtype(m, n, "dtype", IR_FLOAT), IR_RANK_UNKNOWN, NULL));
    case OP_DTYPE_SEQUENCE: { /* its elements may differ in shape */
        enum ir_dtype t = input_dtype(m, n, 0, IR_UNDEFINED);
        *complete = true;
        return t ? types_container(m, IR_TYPE_SEQUENCE, ir_type_tensor(m, t, IR_RANK_UNKNOWN, NULL))
                 : 0;
    }
    case OP_DTYPE_OPTIONAL:
        *complete = true;
        return types_container(m, IR_TYPE_OPTIONAL, input_type(m, n, 0));
    case OP_DTYPE_ELEMENT: {
        ir_type t = input_type(m, n, 0), elem = m->type.at[t].elem;
        *complete = true;
        return elem ? elem : t; /* OptionalGetElement takes a plain value too */
    }
    case OP_DTYPE_UNKNOWN:
    case OP_DTYPE_BODY:
    case OP_DTYPE_SAME: break;
    }
    return 0;
}

static void infer_operator(struct typer *x, ir_node n, const struct op_def *op) {
    struct ir_module *m = x->m;
    uint32_t def = m->node.at[n].def;
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++) {
        ir_value out = ir_outputs(m, n)[i];
        enum op_out_dtype from =
            i && op->rest_dtype != OP_DTYPE_SAME ? op->rest_dtype : op->out_dtype;
        if (!out) continue;
        enum ir_dtype dtype;
        bool complete;
        ir_type t = output_type(m, n, from, &dtype, &complete);
        if (x->rules[def].sequence) {
            ir_type more = x->rules[def].sequence(m, n);
            t = more ? more : t;
        } else if (!complete) {
            struct shape s = {.rank = IR_RANK_UNKNOWN};
            if (x->rules[def].rule) x->rules[def].rule(&x->facts, n, i, &s);
            t = types_tensor(m, dtype, &s);
        }
        types_give(x, out, t, n);
    }
    for (uint32_t i = 0; x->rules[def].fold && i < m->node.at[n].n_outputs; i++)
        if (ir_outputs(m, n)[i]) fold(&x->facts, n, i, x->rules[def].fold);
}

static void infer_node(struct typer *x, ir_node n) {
    uint32_t def = x->m->node.at[n].def;
    const struct op_def *op = op_get(x->ops, def);
    if (!x->rules[def].known) {
        bool own = !*op->domain || strcmp(op->domain, "ddpc") == 0;
        x->rules[def].known = true;
        x->rules[def].rule = op->flags & OP_ASSUMED ? NULL : shape_rule_of(op->domain, op->name);
        x->rules[def].fold = own ? fold_rule_of(op->name) : NULL;
        x->rules[def].types = own ? check_types_rule(op->name) : NULL;
        x->rules[def].sizes = own ? check_sizes_rule(op->name) : 0;
        x->rules[def].sequence = own ? types_sequence_rule(op->name) : NULL;
    }
    if (x->rules[def].types && !check_types_node(x->m, n, x->rules[def].types, x->d)) x->ok = false;
    if (x->rules[def].sizes && x->ok) check_sizes_node(&x->facts, n, x->rules[def].sizes, x->d);
    if (op->out_dtype != OP_DTYPE_BODY)
        infer_operator(x, n, op);
    else
        types_infer_flow(x, n, op->name);
}

void types_infer_graph(struct typer *x, ir_graph g) {
    const struct ir_graph_info graph = x->m->graph.at[g];
    for (uint32_t i = 0; i < graph.n_nodes; i++) infer_node(x, x->m->node_list.at[graph.nodes + i]);
}

bool infer_types(struct ir_module *m, const struct op_table *ops, const struct options *o,
                 struct diags *d) {
    if (!types_apply_dims(m, o, d)) return false;
    struct typer x = {.m = m, .ops = ops, .d = d, .ok = true, .repeats = 4 * (uint64_t)m->node.n};
    x.rules = calloc(ops->n_defs, sizeof *x.rules);
    if (!x.rules) arena_out_of_memory(ops->n_defs * sizeof *x.rules);
    facts_init(&x.facts, m);
    types_infer_graph(&x, m->main);
    facts_keep(&x.facts, m);
    facts_free(&x.facts);
    vec_free(&x.journal);
    free(x.rules);
    return x.ok;
}
