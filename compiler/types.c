/* Type inference: gives values the types that follow from the operators.
 *
 * One walk over the graphs in order. The element type decides what can carry a gradient and is
 * inferred through every operator (out_dtype of the registry); shapes serve costs and reports and
 * are inferred where shapes.c has a rule. If, Loop, Scan and SequenceMap hand types into their
 * bodies and take them from the bodies' outputs.
 *
 * Declarations are believed: what the text says about a value stays, and inference fills in what it
 * leaves open, an unknown rank or a '?'. A symbol that turns out to be a number becomes the number.
 * Contradictions that would change where gradients flow are reported (check_types.c).
 *
 * --dim B=32 replaces a symbol wherever it stands, before anything else. */
#include "check_types.h"
#include "program.h"
#include "shapes.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct typer {
    struct ir_module *m;
    const struct op_table *ops;
    struct diags *d;
    bool ok;
    struct {
        bool known;
        shape_rule rule;
        const struct type_rule *types;
    } * rules; /* by operator, found when first needed */
};

/* ---- --dim ----------------------------------------------------------------------------------- */

struct dim_flag {
    str symbol;
    int64_t size;
    bool used;
};

static bool parse_dim_flag(const struct ir_module *m, const char *text, struct dim_flag *out,
                           struct diags *d) {
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    errno = 0;
    long long size = equals ? strtoll(equals + 1, &end, 10) : -1;
    if (!equals || equals == text || end == equals + 1 || *end || errno || size < 0) {
        struct diag *e =
            diag_plain(d, DIAG_DIM_FLAG, "--dim", "'%s' is not of the form NAME=SIZE", text);
        diag_set_help(d, e, "write --dim B=32");
        return false;
    }
    out->size = size;
    if (!strtab_find(&m->strings, text, (size_t)(equals - text), &out->symbol)) out->symbol = 0;
    return true;
}

static void unused_dim_flag(const struct ir_module *m, const char *text, struct diags *d) {
    size_t length = (size_t)(strrchr(text, '=') - text);
    char *name = arena_strndup(&d->arena, text, length);
    VEC(const char *) symbols = {0};
    bool *seen = calloc(m->strings.text.n, sizeof *seen);
    if (!seen) arena_out_of_memory(m->strings.text.n);
    for (uint32_t i = 0; i < m->dim.n; i++) {
        str s = m->dim.at[i].symbol;
        if (s && !seen[s]) vec_push(&symbols, ir_text(m, s));
        seen[s] = true;
    }
    struct diag *e =
        diag_plain(d, DIAG_DIM_UNUSED, "--dim", "no dimension of the model is called '%s'", name);
    const char *nearest = diag_nearest(name, symbols.at, symbols.n);
    if (nearest)
        diag_set_help(d, e, "did you mean '%s'?", nearest);
    else if (symbols.n)
        diag_set_help(d, e, "it has %u, '%s' among them", symbols.n, symbols.at[0]);
    vec_free(&symbols);
    free(seen);
}

/* The type with the symbols replaced; the same handle if it has none of them. */
static ir_type replace_dims(struct ir_module *m, ir_type t, struct dim_flag *flags, uint32_t n,
                            ir_type *done) {
    if (!t || done[t]) return done[t];
    struct ir_type_info info = m->type.at[t];
    if (info.elem) info.elem = replace_dims(m, info.elem, flags, n, done);
    bool changed = info.elem != m->type.at[t].elem;
    VEC(struct ir_dim) dims = {0};
    for (int32_t i = 0; i < info.rank; i++) {
        struct ir_dim d = m->dim.at[info.dims + (uint32_t)i];
        for (uint32_t k = 0; k < n && d.symbol; k++)
            if (flags[k].symbol == d.symbol) {
                d = (struct ir_dim){.size = flags[k].size};
                flags[k].used = changed = true;
            }
        vec_push(&dims, d);
    }
    done[t] = changed ? ir_type_add(m, &info, dims.at) : t;
    vec_free(&dims);
    return done[t];
}

static bool apply_dims(struct ir_module *m, const struct options *o, struct diags *d) {
    uint32_t n = o->dim.n;
    if (!n) return true;
    struct dim_flag *flags = calloc(n, sizeof *flags);
    ir_type *done = calloc(m->type.n, sizeof *done);
    if (!flags || !done) arena_out_of_memory(m->type.n * sizeof *done);
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) ok &= parse_dim_flag(m, o->dim.at[i], &flags[i], d);
    if (ok) {
        for (ir_value v = 1; v < m->value.n; v++)
            m->value.at[v].type = replace_dims(m, m->value.at[v].type, flags, n, done);
        for (uint32_t i = 0; i < n; i++)
            if (!flags[i].used) unused_dim_flag(m, o->dim.at[i], d);
    }
    free(flags);
    free(done);
    return ok;
}

/* ---- what is known already ------------------------------------------------------------------- */

static bool is_tensor(const struct ir_type_info *t) {
    return t->kind == IR_TYPE_TENSOR || t->kind == IR_TYPE_SPARSE_TENSOR;
}

/* What the text says of the value, filled in with what was inferred. */
static void give_type(struct typer *x, ir_value v, ir_type inferred) {
    struct ir_module *m = x->m;
    ir_type declared = m->value.at[v].type;
    if (!v || !inferred || declared == inferred) return;
    struct ir_type_info a = m->type.at[declared], b = m->type.at[inferred];
    if (a.kind == IR_TYPE_NONE) {
        m->value.at[v].type = inferred;
        return;
    }
    if (!is_tensor(&a) || !is_tensor(&b)) return;
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
    m->value.at[v].type = ir_type_add(m, &a, to.dim);
}

static ir_type tensor_type(struct ir_module *m, enum ir_dtype dtype, const struct shape *s) {
    if (dtype == IR_UNDEFINED && s->rank == IR_RANK_UNKNOWN) return 0;
    return ir_type_tensor(m, dtype, s->rank, s->dim);
}

static ir_type container_of(struct ir_module *m, enum ir_type_kind kind, ir_type elem) {
    struct ir_type_info info = {.kind = (uint8_t)kind, .rank = IR_RANK_UNKNOWN, .elem = elem};
    return elem ? ir_type_add(m, &info, NULL) : 0;
}

/* A type for a value that may have come from either: where they differ, nothing is known. */
static ir_type join(struct ir_module *m, ir_type a, ir_type b) {
    if (a == b || !b) return a;
    if (!a) return b;
    struct ir_type_info x = m->type.at[a], y = m->type.at[b];
    if (!is_tensor(&x) || !is_tensor(&y)) return a;
    struct shape s, t;
    shape_of_type(m, a, &s);
    shape_of_type(m, b, &t);
    if (s.rank != t.rank) s.rank = IR_RANK_UNKNOWN;
    for (int32_t i = 0; i < s.rank; i++) s.dim[i] = shape_join_dim(s.dim[i], t.dim[i]);
    return tensor_type(m, x.dtype != IR_UNDEFINED ? x.dtype : y.dtype, &s);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* The attribute's TensorProto.DataType, or `otherwise`. */
static enum ir_dtype attr_dtype(const struct ir_module *m, ir_node n, const char *name,
                                enum ir_dtype otherwise) {
    int64_t t = ir_attr_int(m, n, name, 0);
    return t > 0 && t < IR_N_DTYPES ? (enum ir_dtype)t : otherwise;
}

static enum ir_dtype constant_dtype(const struct ir_module *m, ir_node n) {
    const struct ir_node_info *node = &m->node.at[n];
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        switch ((enum ir_attr_kind)a->kind) {
        case IR_ATTR_TENSOR:
        case IR_ATTR_SPARSE_TENSOR:
            if (a->n_values) return ir_type_dtype(m, m->attr_value.at[a->values].tensor.type);
            break;
        case IR_ATTR_FLOAT:
        case IR_ATTR_FLOATS: return IR_FLOAT;
        case IR_ATTR_INT:
        case IR_ATTR_INTS: return IR_INT64;
        case IR_ATTR_STRING:
        case IR_ATTR_STRINGS: return IR_STRING;
        default: break;
        }
    }
    return IR_FLOAT; /* ConstantOfShape without a value */
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
        *complete = t && !is_tensor(&m->type.at[t]);
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
        return container_of(
            m, IR_TYPE_SEQUENCE,
            ir_type_tensor(m, attr_dtype(m, n, "dtype", IR_FLOAT), IR_RANK_UNKNOWN, NULL));
    case OP_DTYPE_SEQUENCE: { /* its elements may differ in shape */
        enum ir_dtype t = input_dtype(m, n, 0, IR_UNDEFINED);
        *complete = true;
        return t ? container_of(m, IR_TYPE_SEQUENCE, ir_type_tensor(m, t, IR_RANK_UNKNOWN, NULL))
                 : 0;
    }
    case OP_DTYPE_OPTIONAL:
        *complete = true;
        return container_of(m, IR_TYPE_OPTIONAL, input_type(m, n, 0));
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
        if (!complete) {
            struct shape s = {.rank = IR_RANK_UNKNOWN};
            if (x->rules[def].rule) x->rules[def].rule(m, n, i, &s);
            t = tensor_type(m, dtype, &s);
        }
        give_type(x, out, t);
    }
}

/* ---- control flow ---------------------------------------------------------------------------- */

static void infer_graph(struct typer *x, ir_graph g);

static ir_value graph_input(const struct ir_module *m, ir_graph g, uint32_t i) {
    const struct ir_graph_info *graph = &m->graph.at[g];
    return i < graph->n_inputs ? m->decl.at[graph->inputs + i].value : 0;
}

static ir_type graph_output_type(const struct ir_module *m, ir_graph g, uint32_t i) {
    const struct ir_graph_info *graph = &m->graph.at[g];
    return i < graph->n_outputs ? m->value.at[m->decl.at[graph->outputs + i].value].type : 0;
}

static ir_value node_output(const struct ir_module *m, ir_node n, uint32_t i) {
    return i < m->node.at[n].n_outputs ? ir_outputs(m, n)[i] : 0;
}

static void infer_if(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph yes = ir_subgraph(m, n, "then_branch"), no = ir_subgraph(m, n, "else_branch");
    infer_graph(x, yes);
    infer_graph(x, no);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++)
        give_type(x, node_output(m, n, i),
                  join(m, graph_output_type(m, yes, i), graph_output_type(m, no, i)));
}

/* A slice along an axis, or (insert) the stack of slices; the length of the axis is `length`. */
static ir_type along_axis(struct ir_module *m, ir_type t, int64_t axis, bool insert,
                          struct ir_dim length) {
    struct shape s;
    shape_of_type(m, t, &s);
    if (!t || !is_tensor(&m->type.at[t])) return 0;
    int32_t rank = s.rank + insert;
    if (axis < 0) axis += rank;
    if (s.rank == IR_RANK_UNKNOWN || rank > SHAPE_MAX_RANK || axis < 0 || axis >= rank) {
        s.rank = IR_RANK_UNKNOWN;
        return tensor_type(m, ir_type_dtype(m, t), &s);
    }
    size_t behind = (size_t)(rank - 1 - axis) * sizeof *s.dim;
    if (insert) {
        memmove(&s.dim[axis + 1], &s.dim[axis], behind);
        s.dim[axis] = length;
        s.rank++;
    } else {
        memmove(&s.dim[axis], &s.dim[axis + 1], behind);
        s.rank--;
    }
    return tensor_type(m, ir_type_dtype(m, t), &s);
}

static void infer_loop(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph body = ir_subgraph(m, n, "body");
    uint32_t n_inputs = m->node.at[n].n_inputs, carried = n_inputs > 2 ? n_inputs - 2 : 0;
    give_type(x, graph_input(m, body, 0), ir_type_tensor(m, IR_INT64, 0, NULL));
    give_type(x, graph_input(m, body, 1), ir_type_tensor(m, IR_BOOL, 0, NULL));
    for (uint32_t i = 0; i < carried; i++)
        give_type(x, graph_input(m, body, 2 + i), input_type(m, n, 2 + i));
    infer_graph(x, body);
    const struct ir_dim any = {.size = -1};
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++) {
        ir_type t = graph_output_type(m, body, 1 + i);
        t = i < carried ? join(m, input_type(m, n, 2 + i), t) : along_axis(m, t, 0, true, any);
        give_type(x, node_output(m, n, i), t);
    }
}

static int64_t axis_of(const struct ir_module *m, ir_node n, const char *name, uint32_t i) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    bool ints = a->kind == IR_ATTR_INTS && i < a->n_values;
    return ints ? m->attr_value.at[a->values + i].i : 0;
}

/* Drops the axis, whose size becomes *size if it is known. */
static ir_type without_axis(struct ir_module *m, ir_type t, int64_t axis, struct ir_dim *size) {
    struct shape s;
    shape_of_type(m, t, &s);
    if (axis < 0) axis += s.rank;
    if (axis >= 0 && axis < s.rank && (s.dim[axis].symbol || s.dim[axis].size >= 0))
        *size = s.dim[axis];
    return along_axis(m, t, axis, false, *size);
}

/* In opset 8 the lengths of the sequences stand before the states, or an omitted input, and all
 * else has a first axis of batches that a trip does not see. */
static void infer_scan(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph body = ir_subgraph(m, n, "body");
    uint32_t batched = m->node.at[n].n_inputs == m->graph.at[body].n_inputs + 1;
    uint32_t n_inputs = m->node.at[n].n_inputs - batched;
    int64_t scanned = ir_attr_int(m, n, "num_scan_inputs", 0);
    uint32_t states = scanned >= 0 && scanned <= n_inputs ? n_inputs - (uint32_t)scanned : n_inputs;
    struct ir_dim length = {.size = -1}, batch = {.size = -1};
    for (uint32_t i = 0; i < n_inputs; i++) {
        ir_type t = input_type(m, n, batched + i);
        if (batched) t = without_axis(m, t, 0, &batch);
        if (i >= states)
            t = without_axis(m, t, axis_of(m, n, "scan_input_axes", i - states), &length);
        give_type(x, graph_input(m, body, i), t);
    }
    infer_graph(x, body);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++) {
        ir_type t = graph_output_type(m, body, i);
        if (i >= states)
            t = along_axis(m, t, axis_of(m, n, "scan_output_axes", i - states), true, length);
        if (batched) t = along_axis(m, t, 0, true, batch);
        if (i < states) t = join(m, input_type(m, n, batched + i), t);
        give_type(x, node_output(m, n, i), t);
    }
}

static void infer_map(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph body = ir_subgraph(m, n, "body");
    for (uint32_t i = 0; i < m->node.at[n].n_inputs; i++) {
        ir_type t = input_type(m, n, i), elem = m->type.at[t].elem;
        give_type(x, graph_input(m, body, i), elem ? elem : t);
    }
    infer_graph(x, body);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++)
        give_type(x, node_output(m, n, i),
                  container_of(m, IR_TYPE_SEQUENCE, graph_output_type(m, body, i)));
}

static void infer_node(struct typer *x, ir_node n) {
    uint32_t def = x->m->node.at[n].def;
    const struct op_def *op = op_get(x->ops, def);
    if (!x->rules[def].known) {
        bool own = !*op->domain || strcmp(op->domain, "ddpc") == 0;
        x->rules[def].known = true;
        x->rules[def].rule = own && !(op->flags & OP_ASSUMED) ? shape_rule_of(op->name) : NULL;
        x->rules[def].types = own ? check_types_rule(op->name) : NULL;
    }
    if (x->rules[def].types && !check_types_node(x->m, n, x->rules[def].types, x->d)) x->ok = false;
    if (op->out_dtype != OP_DTYPE_BODY)
        infer_operator(x, n, op);
    else if (strcmp(op->name, "If") == 0)
        infer_if(x, n);
    else if (strcmp(op->name, "Loop") == 0)
        infer_loop(x, n);
    else if (strcmp(op->name, "Scan") == 0)
        infer_scan(x, n);
    else
        infer_map(x, n);
}

static void infer_graph(struct typer *x, ir_graph g) {
    const struct ir_graph_info graph = x->m->graph.at[g];
    for (uint32_t i = 0; i < graph.n_nodes; i++) infer_node(x, x->m->node_list.at[graph.nodes + i]);
}

bool infer_types(struct ir_module *m, const struct op_table *ops, const struct options *o,
                 struct diags *d) {
    if (!apply_dims(m, o, d)) return false;
    struct typer x = {.m = m, .ops = ops, .d = d, .ok = true};
    x.rules = calloc(ops->n_defs, sizeof *x.rules);
    if (!x.rules) arena_out_of_memory(ops->n_defs * sizeof *x.rules);
    infer_graph(&x, m->main);
    free(x.rules);
    return x.ok;
}
