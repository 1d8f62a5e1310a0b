/* The flow of gradients, backwards over the graphs.
 *
 * Every value has a pair of functions of the branches: must, where a gradient path to a loss
 * certainly exists, and may, where one possibly does. A loss has (true, true). A node gives the
 * union of its outputs' pairs to each input that the operator table lets a gradient pass to. Nodes
 * are visited from last to first, so every use of a value comes before its producer. A model
 * without control flow needs nothing else: one pass over dense arrays.
 *
 * If: a branch's outputs get the pair of the If's outputs and the condition, or its negation. Outer
 * values that a branch reads are ordinary values; they get what their uses inside get.
 *
 * Loops (also Scan and SequenceMap): let T be one trip backwards, from the pairs of the states
 * after the trip to those before it. The initial states get the outputs' pairs where the loop does
 * not run; the rest is about the case that it does.
 *   - As many trips as are known, up to 64: T is applied so often, or until nothing changes.
 *   - Otherwise k >= 1 trips, k unknown. may is the union over all k, which the least fixed point
 *     reaches because T distributes over unions. must is bounded from below by the greatest fixed
 *     point of m = m && T(m) from T(outputs), which holds after every k because T is monotone.
 *
 * Outer values read inside, and what is scanned, collect over the trips: may from each; must from
 * each trip that certainly takes place, the last one when nothing else is known. Within a trip a
 * value's uses are united first; then the loop's own variables are projected away: "for all" for
 * must, "there is" for may. After that the pairs know nothing about the trip, and the one before it
 * can be done with the same variables.
 *
 * Both budgets (nodes of the diagrams, visits of loop bodies) end in must = what is certain so far
 * and may = true. That is always right, only not exact. */
#include "flow.h"

enum { MAX_TRIPS = 64, MAX_UNROLLED = 4096 }; /* exact trips of one loop; of nested ones together */
enum { VISITS_AT_LEAST = 4000000, VISITS_PER_NODE = 16 };

struct pair {
    bdd must, may;
};
static const struct pair none = {BDD_FALSE, BDD_FALSE};

struct walk {
    struct flow *f;
    const struct ir_module *m;
    VEC(struct pair) stack; /* the frames of the loops at work */
    uint64_t visits, max_visits;
    uint64_t unrolled; /* product of the trip counts of the loops at work */
    ir_node at;
};

/* ---- pairs ----------------------------------------------------------------------------------- */

static bdd certain(struct walk *w, bdd must) {
    if (must != BDD_OVERFLOW) return must;
    if (!w->f->overflow) w->f->overflow = w->at;
    return BDD_FALSE;
}

static bdd possible(struct walk *w, bdd may) {
    if (may != BDD_OVERFLOW) return may;
    if (!w->f->overflow) w->f->overflow = w->at;
    return BDD_TRUE;
}

static struct pair pair_of(const struct walk *w, ir_value v) {
    return (struct pair){w->f->must[v], w->f->may[v]};
}

static struct pair unite(struct walk *w, struct pair a, struct pair b) {
    if (b.may == BDD_FALSE || a.must == BDD_TRUE) return a;
    if (a.may == BDD_FALSE || b.must == BDD_TRUE) return b;
    bdd must = bdd_or(w->f->bdd, a.must, b.must);
    if (must == BDD_OVERFLOW) certain(w, must), must = a.must;
    return (struct pair){must, possible(w, bdd_or(w->f->bdd, a.may, b.may))};
}

/* The pair where `condition` holds, or where it does not; it may be BDD_OVERFLOW. */
static struct pair where(struct walk *w, struct pair a, bdd condition, bool holds) {
    if (a.may == BDD_FALSE) return none;
    if (condition == BDD_OVERFLOW) return (struct pair){BDD_FALSE, a.may};
    if (!holds) condition = bdd_not(w->f->bdd, condition);
    bdd must = certain(w, bdd_and(w->f->bdd, a.must, condition));
    bdd may = bdd_and(w->f->bdd, a.may, condition);
    if (may == BDD_OVERFLOW) possible(w, may), may = a.may;
    return (struct pair){must, may};
}

/* The gradient reaches a value. */
static void reach(struct walk *w, ir_value v, struct pair by) {
    if (!v || by.may == BDD_FALSE) return;
    struct pair now = unite(w, pair_of(w, v), by);
    w->f->must[v] = now.must;
    w->f->may[v] = now.may;
    w->f->live[v] = true;
}

static void reach_input(struct walk *w, ir_node n, uint32_t i, struct pair by) {
    const struct ir_node_info *node = &w->m->node.at[n];
    if (by.may == BDD_FALSE || i >= node->n_inputs) return;
    w->f->flows[node->refs + node->n_outputs + i] = true;
    w->f->passes[n] = true;
    reach(w, ir_inputs(w->m, n)[i], by);
}

static void clear(struct walk *w, ir_value v) { w->f->must[v] = w->f->may[v] = BDD_FALSE; }

/* A graph's own values before it is walked again. */
static void clear_graph(struct walk *w, ir_graph g) {
    const struct ir_module *m = w->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_inputs; i++) clear(w, m->decl.at[graph->inputs + i].value);
    for (uint32_t i = 0; i < graph->n_items; i++) clear(w, m->decl.at[graph->items + i].value);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        for (uint32_t o = 0; o < m->node.at[n].n_outputs; o++) clear(w, ir_outputs(m, n)[o]);
    }
}

/* The pair of a node's output. A parameter that a node produces is where its gradient ends. */
static struct pair output_pair(const struct walk *w, ir_node n, uint32_t o) {
    ir_value v = o < w->m->node.at[n].n_outputs ? ir_outputs(w->m, n)[o] : 0;
    return v && !w->f->p->param_of[v] ? pair_of(w, v) : none;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

bool flow_enters(const struct flow *f, ir_node n, uint32_t output, bool *straight) {
    const struct op_def *def = op_get(f->p->ops, f->m->node.at[n].def);
    ir_value v = ir_outputs(f->m, n)[output];
    if (!v || !op_output_carries(def, output)) return false;
    *straight = !f->type_carries[f->m->value.at[v].type];
    return !*straight || def->flags & OP_MOVES_DATA ||
           op_input_of(f->p->ops, f->m->node.at[n].def, 0)->rule == OP_STE;
}

bool flow_edge(const struct flow *f, ir_node n, uint32_t input, bool straight) {
    uint32_t def = f->m->node.at[n].def;
    switch (op_input_of(f->p->ops, def, input)->rule) {
    case OP_STOP:
    case OP_BODY: return false;
    case OP_STE: return true;
    default: return straight || f->type_carries[f->m->value.at[ir_inputs(f->m, n)[input]].type];
    }
}

bool flow_connects(const struct flow *f, ir_node n, uint32_t input, uint32_t output) {
    return op_input_reaches(op_input_of(f->p->ops, f->m->node.at[n].def, input), output);
}

/* What enters at all outputs, or at those that depend on an input. */
static struct pair entering(struct walk *w, ir_node n, const struct op_input *in, bool *straight) {
    struct pair by = none;
    bool one;
    *straight = true;
    for (uint32_t o = 0; o < w->m->node.at[n].n_outputs; o++) {
        struct pair out = output_pair(w, n, o);
        if (out.may == BDD_FALSE || (in && !op_input_reaches(in, o)) ||
            !flow_enters(w->f, n, o, &one))
            continue;
        by = unite(w, by, out);
        *straight &= one;
    }
    return by;
}

/* The gradient of an element goes where it was put into the sequence, if that is known. */
static bool visit_element(struct walk *w, ir_node n, struct pair by) {
    struct sequence_way way;
    if (!sequence_way(w->f, n, &way)) return false;
    for (uint32_t i = 0; i + 1 < way.n; i++) {
        const struct ir_node_info *node = &w->m->node.at[way.at[i].node];
        w->f->flows[node->refs + node->n_outputs + way.at[i].input] = true;
        w->f->passes[way.at[i].node] = true;
        w->f->live[ir_inputs(w->m, way.at[i].node)[way.at[i].input]] = true;
    }
    reach_input(w, way.at[way.n - 1].node, way.at[way.n - 1].input, by);
    return true;
}

static void visit_plain(struct walk *w, ir_node n) {
    const struct ir_node_info *node = &w->m->node.at[n];
    bool all_straight, straight;
    struct pair by = entering(w, n, NULL, &all_straight);
    if (by.may == BDD_FALSE) return;
    if (node->def == w->f->sequence_at && visit_element(w, n, by)) return;
    if ((node->def == w->f->sequence_at || node->def == w->f->sequence_erase) &&
        !sequence_of_pieces(w->f, ir_inputs(w->m, n)[0]))
        by.must = BDD_FALSE; /* of each element */
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!ir_inputs(w->m, n)[i] || !flow_edge(w->f, n, i, all_straight)) continue;
        const struct op_input *in = op_input_of(w->f->p->ops, node->def, i);
        reach_input(w, n, i, in->apart ? entering(w, n, in, &straight) : by);
    }
}

static void walk_graph(struct walk *w, ir_graph g);

static void visit_if(struct walk *w, const struct control *c) {
    const struct ir_module *m = w->m;
    bdd condition = condition_of(&w->f->c, ir_input(m, c->node, 0));
    for (int then = 1; then >= 0; then--) {
        ir_graph g = then ? c->body : c->otherwise;
        bool any = false;
        clear_graph(w, g);
        for (uint32_t o = 0; o < m->node.at[c->node].n_outputs; o++) {
            struct pair out = where(w, output_pair(w, c->node, o), condition, then);
            reach(w, control_graph_output(m, g, o), out);
            any |= out.may != BDD_FALSE;
        }
        w->f->passes[c->node] |= any;
        if (any) walk_graph(w, g);
    }
}

/* ---- what is not known ----------------------------------------------------------------------- */

static void mark_all(struct walk *w, ir_graph g) {
    const struct ir_module *m = w->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        const struct ir_node_info *node = &m->node.at[n];
        w->f->passes[n] = true;
        for (uint32_t o = 0; o < node->n_outputs; o++) w->f->live[ir_outputs(m, n)[o]] = true;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            w->f->flows[node->refs + node->n_outputs + k] |=
                control_of(&w->f->c.control, n) || flow_edge(w->f, n, k, false);
        ir_graph inner;
        for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++) mark_all(w, inner);
    }
}

/* A node whose graphs are not looked into: all that they read may get a gradient, nothing of it for
 * certain. The inputs of an operator that the user calls differentiable get theirs. */
static void visit_opaque(struct walk *w, const struct control *c) {
    const struct ir_module *m = w->m;
    struct pair by = none;
    for (uint32_t o = 0; o < m->node.at[c->node].n_outputs; o++)
        by = unite(w, by, output_pair(w, c->node, o));
    if (by.may == BDD_FALSE) return;
    if (c->kind != CONTROL_OPAQUE) by.must = BDD_FALSE; /* a loop that is too much work */
    for (uint32_t i = c->node_in; i < m->node.at[c->node].n_inputs; i++) {
        ir_value v = ir_inputs(m, c->node)[i];
        if (w->f->type_carries[m->value.at[v].type]) reach_input(w, c->node, i, by);
    }
    by.must = BDD_FALSE;
    for (uint32_t i = 0; i < c->captures.n; i++)
        if (w->f->type_carries[m->value.at[c->captures.at[i]].type])
            reach(w, c->captures.at[i], by);
    w->f->passes[c->node] = true;
    ir_graph inner;
    for (uint32_t k = 0; (inner = control_graph(m, c->node, k)); k++) mark_all(w, inner);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* A loop at work. Its pairs are in the walk's stack, at these places. */
struct loop {
    const struct control *c;
    const struct loop_facts *facts;
    uint32_t n_in;   /* states and scan inputs */
    uint32_t out;    /* the node's outputs where it runs: states, then scan outputs */
    uint32_t after;  /* the states after the trip */
    uint32_t before; /* states and scan inputs before it */
    uint32_t saved;  /* outer values without this trip's uses */
    int64_t number;  /* of the trip; -1: not known */
};

/* Forgets the trip, whose number decides some of its variables. */
static struct pair project(struct walk *w, const struct loop *l, struct pair a) {
    const struct loop_facts *facts = l->facts;
    for (uint32_t i = 0; l->number >= 0 && i < facts->tests.n; i++) {
        const struct trip_test *test = &facts->tests.at[i];
        bdd known = bdd_var(w->f->bdd, test->variable);
        a = where(w, a, known, test->is >> l->number & 1);
        a.must = certain(w, bdd_exists(w->f->bdd, a.must, test->variable, test->variable + 1));
        a.may = possible(w, bdd_exists(w->f->bdd, a.may, test->variable, test->variable + 1));
    }
    for (uint32_t i = 0; i < facts->own.n; i++) {
        struct var_range r = facts->own.at[i];
        a.must = certain(w, bdd_forall(w->f->bdd, a.must, r.first, r.last));
        a.may = possible(w, bdd_exists(w->f->bdd, a.may, r.first, r.last));
    }
    return a;
}

/* One trip: from `after` to `before`. What it gives to outer values and to scan inputs is certain
 * only if the trip is. */
static void trip(struct walk *w, const struct loop *l, bool is_certain) {
    const struct ir_module *m = w->m;
    const struct control *c = l->c;
    for (uint32_t i = 0; i < c->captures.n; i++) {
        w->stack.at[l->saved + i] = pair_of(w, c->captures.at[i]);
        clear(w, c->captures.at[i]);
    }
    clear_graph(w, c->body);
    for (uint32_t i = 0; i < c->n_state + c->n_scan_out; i++) {
        uint32_t from = i < c->n_state ? l->after + i : l->out + i;
        reach(w, control_graph_output(m, c->body, c->body_out + i), w->stack.at[from]);
    }
    walk_graph(w, c->body);
    w->at = c->node;
    for (uint32_t i = 0; i < l->n_in; i++) {
        ir_value v = control_graph_input(m, c->body, c->body_in + i);
        struct pair in = v ? project(w, l, pair_of(w, v)) : none;
        w->stack.at[l->before + i] = in;
        if (!is_certain) in.must = BDD_FALSE;
        if (i >= c->n_state) reach_input(w, c->node, c->node_in + i, in);
    }
    for (uint32_t i = 0; i < c->captures.n; i++) {
        ir_value v = c->captures.at[i];
        struct pair inside = project(w, l, pair_of(w, v));
        struct pair saved = w->stack.at[l->saved + i];
        if (!is_certain) inside.must = BDD_FALSE;
        w->f->must[v] = saved.must;
        w->f->may[v] = saved.may;
        reach(w, v, inside);
    }
}

/* The states before the trip become those after the one before it. */
static bool step_back(struct walk *w, const struct loop *l) {
    bool changed = false;
    for (uint32_t i = 0; i < l->c->n_state; i++) {
        struct pair *after = &w->stack.at[l->after + i], before = w->stack.at[l->before + i];
        changed |= after->must != before.must || after->may != before.may;
        *after = before;
    }
    return changed;
}

/* Leaves the pairs of the initial states, where the loop runs, in `after`. */
static void run_known(struct walk *w, struct loop *l, uint64_t trips, bool *done) {
    uint64_t around = w->unrolled, limit = trips < MAX_TRIPS ? trips : MAX_TRIPS;
    w->unrolled *= limit;
    bool changed = true;
    /* Where trips differ by their number, one that changes nothing is not the last to look at. */
    bool tests = l->facts->tests.n && limit * w->m->graph.at[l->c->body].n_nodes <= VISITS_AT_LEAST;
    for (uint64_t t = 0; t < limit && (changed || tests); t++) {
        l->number = tests ? (int64_t)(trips - 1 - t) : -1;
        trip(w, l, true);
        changed = step_back(w, l);
    }
    l->number = -1;
    *done = !changed || limit == trips;
    w->unrolled = around;
}

static void run_unknown(struct walk *w, const struct loop *l) {
    uint32_t n = l->c->n_state;
    for (uint32_t i = 0; i < n; i++) w->stack.at[l->after + i] = w->stack.at[l->out + i];
    trip(w, l, true);
    step_back(w, l);
    bool changed = n > 0;
    /* must shrinks along chains of states; one that is too long to follow ends in false. */
    for (uint32_t round = 0; changed; round++) {
        /* `after` holds the bounds found so far, for the states before k >= 1 trips. The states
         * after a trip are those, or the outputs. */
        uint32_t bound = w->stack.n;
        (void)vec_extend(&w->stack, n);
        for (uint32_t i = 0; i < n; i++) {
            struct pair *after = &w->stack.at[l->after + i];
            w->stack.at[bound + i] = *after;
            bdd may = bdd_or(w->f->bdd, after->may, w->stack.at[l->out + i].may);
            after->may = possible(w, may);
        }
        trip(w, l, false);
        changed = false;
        for (uint32_t i = 0; i < n; i++) {
            struct pair old = w->stack.at[bound + i], in = w->stack.at[l->before + i], now;
            now.must = round > 4 * n + 16 ? (bdd)BDD_FALSE
                                          : certain(w, bdd_and(w->f->bdd, old.must, in.must));
            now.may = possible(w, bdd_or(w->f->bdd, old.may, in.may));
            changed |= now.must != old.must || now.may != old.may;
            w->stack.at[l->after + i] = now;
        }
        w->stack.n = bound;
    }
}

static void visit_loop(struct walk *w, const struct control *c) {
    struct loop l = {
        .c = c, .facts = &w->f->c.loops[w->f->c.control.of_node[c->node]], .number = -1};
    uint32_t n = c->n_state, base = w->stack.n;
    l.n_in = n + c->n_scan_in;
    l.out = base;
    l.after = l.out + n + c->n_scan_out;
    l.before = l.after + n;
    l.saved = l.before + l.n_in;
    (void)vec_extend(&w->stack, n + c->n_scan_out + n + l.n_in + c->captures.n);
    bool any = false;
    for (uint32_t i = 0; i < n + c->n_scan_out; i++) {
        struct pair out = output_pair(w, c->node, i);
        struct pair runs = where(w, out, l.facts->runs, true);
        w->stack.at[l.out + i] = runs;
        if (i < n) w->stack.at[l.after + i] = runs;
        any |= runs.may != BDD_FALSE;
        if (i < n) reach_input(w, c->node, c->node_in + i, where(w, out, l.facts->runs, false));
    }
    if (any) {
        uint64_t trips = l.facts->trips < 0 ? 0 : (uint64_t)l.facts->trips;
        bool done = false;
        w->f->passes[c->node] = true;
        if (trips && w->unrolled * (trips < MAX_TRIPS ? trips : MAX_TRIPS) <= MAX_UNROLLED)
            run_known(w, &l, trips, &done);
        if (!done) run_unknown(w, &l);
        for (uint32_t i = 0; i < n; i++)
            reach_input(w, c->node, c->node_in + i, w->stack.at[l.after + i]);
    }
    w->stack.n = base;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void visit_control(struct walk *w, const struct control *c) {
    w->at = c->node;
    if (c->kind == CONTROL_IF)
        visit_if(w, c);
    else if (c->kind == CONTROL_OPAQUE)
        visit_opaque(w, c);
    else if (w->visits <= w->max_visits)
        visit_loop(w, c);
    else {
        if (!w->f->overflow) w->f->overflow = c->node;
        visit_opaque(w, c);
    }
}

static void walk_graph(struct walk *w, ir_graph g) {
    const struct ir_graph_info *graph = &w->m->graph.at[g];
    const struct control_flow *control = &w->f->c.control;
    w->visits += graph->n_nodes;
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        ir_node n = w->m->node_list.at[graph->nodes + i];
        const struct control *c = control_of(control, n);
        if (c)
            visit_control(w, c);
        else
            visit_plain(w, n);
    }
}

void flow_make(struct flow *f, struct program *p, uint32_t step, struct branches *b) {
    const struct ir_module *m = p->m;
    *f = (struct flow){.p = p, .m = m, .step = &p->steps.at[step], .bdd = b->bdd};
    conditions_make(&f->c, p, f->step, b);
    f->overflow = f->c.overflow;
    f->sequence_at = op_find(p->ops, "", "SequenceAt");
    f->sequence_erase = op_find(p->ops, "", "SequenceErase");
    f->type_carries = arena_new(&f->arena, bool, m->type.n);
    for (ir_type t = 0; t < m->type.n; t++) f->type_carries[t] = ir_type_carries_gradient(m, t);
    f->must = arena_new(&f->arena, bdd, m->value.n);
    f->may = arena_new(&f->arena, bdd, m->value.n);
    f->live = arena_new(&f->arena, bool, m->value.n);
    f->passes = arena_new(&f->arena, bool, m->node.n);
    f->flows = arena_new(&f->arena, bool, m->ref_value.n);
    struct walk w = {.f = f, .m = m, .unrolled = 1};
    w.max_visits = VISITS_AT_LEAST + (uint64_t)m->node.n * VISITS_PER_NODE;
    for (uint32_t i = 0; i < f->step->losses.n; i++)
        reach(&w, f->step->losses.at[i], (struct pair){BDD_TRUE, BDD_TRUE});
    walk_graph(&w, m->main);
    vec_free(&w.stack);
}

void flow_free(struct flow *f) {
    conditions_free(&f->c);
    arena_free(&f->arena);
}
