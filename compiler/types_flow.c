/* Types through control flow: into the bodies of If, Loop, Scan and SequenceMap, and out of them. */
#include "types.h"
#include <stdlib.h>
#include <string.h>

static ir_type input_type(const struct ir_module *m, ir_node n, uint32_t i) {
    return m->value.at[ir_input(m, n, i)].type;
}

static ir_value graph_input(const struct ir_module *m, ir_graph g, uint32_t i) {
    const struct ir_graph_info *graph = &m->graph.at[g];
    return i < graph->n_inputs ? m->decl.at[graph->inputs + i].value : 0;
}

static ir_value graph_output(const struct ir_module *m, ir_graph g, uint32_t i) {
    const struct ir_graph_info *graph = &m->graph.at[g];
    return i < graph->n_outputs ? m->decl.at[graph->outputs + i].value : 0;
}

static ir_type graph_output_type(const struct ir_module *m, ir_graph g, uint32_t i) {
    return m->value.at[graph_output(m, g, i)].type;
}

static ir_value node_output(const struct ir_module *m, ir_node n, uint32_t i) {
    return i < m->node.at[n].n_outputs ? ir_outputs(m, n)[i] : 0;
}

/* The elements of a value that may have come from either. */
static void join_elements(struct typer *x, ir_value a, ir_value b, ir_value out) {
    struct elements p, q;
    if (!a || !b || !out || !facts_elements(&x->facts, a, &p) ||
        !facts_elements(&x->facts, b, &q) || p.n != q.n)
        return;
    for (uint32_t i = 0; i < p.n; i++)
        if (!element_same(p.at[i], q.at[i])) p.at[i] = ELEMENT_UNKNOWN;
    facts_set(&x->facts, out, &p);
}

/* A branch that is known not to run: nothing is taken of it, and sizes need not fit. */
static void infer_dead(struct typer *x, ir_graph g) {
    uint32_t before = x->d->all.n;
    bool ok = x->ok;
    types_infer_graph(x, g);
    if (ok == x->ok) diags_take_back(x->d, before);
}

static void infer_if(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph yes = ir_subgraph(m, n, "then_branch"), no = ir_subgraph(m, n, "else_branch");
    struct elements condition;
    if (facts_elements(&x->facts, ir_input(m, n, 0), &condition) && condition.n == 1 &&
        condition.at[0].known) {
        infer_dead(x, condition.at[0].n ? no : yes);
        yes = no = condition.at[0].n ? yes : no;
    }
    types_infer_graph(x, yes);
    if (no != yes) types_infer_graph(x, no);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++) {
        ir_value a = graph_output(m, yes, i), b = graph_output(m, no, i),
                 out = node_output(m, n, i);
        types_give(x, out, types_join(m, m->value.at[a].type, m->value.at[b].type), n);
        join_elements(x, a, b, out);
    }
}

/* ---- slices ----------------------------------------------------------------------------------- */

/* A slice along an axis, or (insert) the stack of slices; the length of the axis is `length`. */
static ir_type along_axis(struct ir_module *m, ir_type t, int64_t axis, bool insert,
                          struct ir_dim length) {
    struct shape s;
    shape_of_type(m, t, &s);
    if (!t || !types_is_tensor(&m->type.at[t])) return 0;
    int32_t rank = s.rank + insert;
    if (axis < 0) axis += rank;
    if (s.rank == IR_RANK_UNKNOWN || rank > SHAPE_MAX_RANK || axis < 0 || axis >= rank) {
        s.rank = IR_RANK_UNKNOWN;
        return types_tensor(m, ir_type_dtype(m, t), &s);
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
    return types_tensor(m, ir_type_dtype(m, t), &s);
}

/* ---- bodies that run again -------------------------------------------------------------------- */

/* A state starts as the value that the loop is given, but the body may make another shape of it. So
 * the body is inferred with what is known at the start; where the end differs, the state gets what
 * both have in common, and the body is inferred again, until the two agree. Each round forgets a
 * dimension or more, and after a few, or where nested loops would make it many, all of them. */
enum { MAX_ROUNDS = 3 };

struct start {
    uint32_t journal, diags;
    bool ok;
};

static struct start begin(struct typer *x) {
    x->loops++;
    return (struct start){x->journal.n, x->d->all.n, x->ok};
}

static void start_over(struct typer *x, const struct start *s) {
    while (x->journal.n > s->journal) {
        x->journal.n--;
        ir_value v = x->journal.at[x->journal.n].v;
        x->m->value.at[v].type = x->journal.at[x->journal.n].was;
        facts_forget(&x->facts, v);
    }
    diags_take_back(x->d, s->diags);
    x->ok = s->ok;
}

static ir_type without_shape(struct ir_module *m, ir_type t) {
    struct ir_type_info info = m->type.at[t];
    if (!types_is_tensor(&info)) return t;
    info.rank = IR_RANK_UNKNOWN;
    return ir_type_add(m, &info, NULL);
}

/* Infers the body, whose inputs from `first_input` on are `n` states of the types in `state`, and its
 * outputs from `first_output` on what they become. Leaves in `state` what holds in every round. */
static void infer_body(struct typer *x, ir_graph body, uint32_t first_input, uint32_t first_output,
                       uint32_t n, ir_type *state) {
    struct ir_module *m = x->m;
    struct start s = begin(x);
    for (int round = 0;; round++) {
        uint32_t n_nodes = m->graph.at[body].n_nodes;
        bool forget = round == MAX_ROUNDS || x->repeats < n_nodes, differs = false;
        for (uint32_t i = 0; i < n; i++)
            types_give(x, graph_input(m, body, first_input + i), state[i], 0);
        types_infer_graph(x, body);
        for (uint32_t i = 0; i < n; i++) {
            ir_type end = graph_output_type(m, body, first_output + i);
            ir_type both = end ? types_join(m, state[i], end) : without_shape(m, state[i]);
            if (both == state[i]) continue;
            differs = true;
            state[i] = both;
        }
        if (!differs || round > MAX_ROUNDS) break;
        for (uint32_t i = 0; forget && i < n; i++) state[i] = without_shape(m, state[i]);
        x->repeats -= forget && x->repeats < n_nodes ? x->repeats : n_nodes;
        start_over(x, &s);
    }
    if (--x->loops == 0) x->journal.n = 0;
}

static ir_type *states_of(const struct ir_module *m, ir_node n, uint32_t first, uint32_t count) {
    ir_type *state = calloc(count + 1, sizeof *state);
    if (!state) arena_out_of_memory(count * sizeof *state);
    for (uint32_t i = 0; i < count; i++) state[i] = m->value.at[ir_input(m, n, first + i)].type;
    return state;
}

static void infer_loop(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph body = ir_subgraph(m, n, "body");
    uint32_t n_inputs = m->node.at[n].n_inputs, carried = n_inputs > 2 ? n_inputs - 2 : 0;
    ir_type *state = states_of(m, n, 2, carried);
    struct ir_dim length = {.size = -1};
    types_give(x, graph_input(m, body, 0), ir_type_tensor(m, IR_INT64, 0, NULL), 0);
    types_give(x, graph_input(m, body, 1), ir_type_tensor(m, IR_BOOL, 0, NULL), 0);
    infer_body(x, body, 2, 1, carried, state);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++) {
        ir_type t = i < carried ? state[i]
                                : along_axis(m, graph_output_type(m, body, 1 + i), 0, true, length);
        types_give(x, node_output(m, n, i), t, n);
    }
    free(state);
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
    ir_type *state = states_of(m, n, batched, states);
    for (uint32_t i = 0; i < n_inputs; i++) {
        ir_type t = input_type(m, n, batched + i);
        if (batched) t = without_axis(m, t, 0, &batch);
        if (i < states) {
            state[i] = t;
            continue;
        }
        t = without_axis(m, t, axis_of(m, n, "scan_input_axes", i - states), &length);
        types_give(x, graph_input(m, body, i), t, 0);
    }
    infer_body(x, body, 0, 0, states, state);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++) {
        ir_type t = i < states
                        ? state[i]
                        : along_axis(m, graph_output_type(m, body, i),
                                     axis_of(m, n, "scan_output_axes", i - states), true, length);
        if (batched) t = along_axis(m, t, 0, true, batch);
        types_give(x, node_output(m, n, i), t, n);
    }
    free(state);
}

static void infer_map(struct typer *x, ir_node n) {
    struct ir_module *m = x->m;
    ir_graph body = ir_subgraph(m, n, "body");
    for (uint32_t i = 0; i < m->node.at[n].n_inputs; i++) {
        ir_type t = input_type(m, n, i), elem = m->type.at[t].elem;
        types_give(x, graph_input(m, body, i), elem ? elem : t, 0);
    }
    types_infer_graph(x, body);
    for (uint32_t i = 0; i < m->node.at[n].n_outputs; i++)
        types_give(x, node_output(m, n, i),
                   types_container(m, IR_TYPE_SEQUENCE, graph_output_type(m, body, i)), n);
}

void types_infer_flow(struct typer *x, ir_node n, const char *op) {
    if (strcmp(op, "If") == 0)
        infer_if(x, n);
    else if (strcmp(op, "Loop") == 0)
        infer_loop(x, n);
    else if (strcmp(op, "Scan") == 0)
        infer_scan(x, n);
    else
        infer_map(x, n);
}
