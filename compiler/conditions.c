/* From boolean values to functions of the branches.
 *
 * A condition is seen through as far as its meaning is certain: Not, And, Or, Xor, copies,
 * constants, boolean results of an If, casts to a number and back, comparison of such with a
 * constant. What is left are the model's branches, one variable per distinct value (numbering.c).
 * Variables are numbered in the order in which their values are defined, which keeps diagrams of
 * ordinary models small.
 *
 * Three walks over the graphs, none when there is no control flow:
 *   1. numbering, which says which values are equal and which change from trip to trip;
 *   2. backwards: which booleans conditions are made of, so that a model's masks do not become
 *      branches;
 *   3. forwards: the functions, and for each loop whether it runs and how often.
 *
 * A boolean that changes from trip to trip of a loop gets a variable that belongs to the loop. The
 * analysis handles one trip after the other and projects the loop's variables away after each, so
 * one variable can stand for that boolean in every trip. These variables are numbered far above the
 * branches and appear in no result.
 *
 * What the trip's number alone decides (`i == 0`) has known values where the trips are counted.
 *
 * The condition that a loop passes to its body is true there by definition: the body runs because
 * it is. With that, `keep_going = Identity (cond_in)` is a known condition.
 *
 * Assumptions (--assume) replace a value's function by a constant, in the whole class of equal
 * values, and back through Not, And and Or where those leave no choice. */
#include "conditions.h"
#include "facts.h"
#include "numbering.h"
#include <string.h>

#define FIRST_OWN 0x40000000u      /* variables of loops start here */
#define UNKNOWN   (UINT32_MAX - 1) /* no function computed */

struct maker {
    struct conditions *c;
    struct program *p;
    const struct ir_module *m;
    struct bdd_manager *bdd;
    struct numbering n;
    bool *needed;                    /* by value: some condition is made of it */
    uint8_t *assumed;                /* by value, first of its class: 0 no, 1 false, 2 true */
    uint32_t *branch_of;             /* by value, first of its class: its branch + 1 */
    uint32_t *trips_of;              /* by value: the variable of [it >= 1], + 1 */
    uint32_t *size_of;               /* by string: the branch of [dimension >= 1], + 1 */
    uint32_t *named;                 /* by string: how many branches have the name */
    VEC(struct loop_facts *) around; /* the loops around the place of the walk */
    uint32_t next_own;
    ir_node at; /* the node at work, for the budget's warning */
};

static bdd note_overflow(struct maker *k, bdd f) {
    if (f == BDD_OVERFLOW && !k->c->overflow) k->c->overflow = k->at;
    return f;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* A trip count is uniform under its own name too: "n" for "(n>=1)". */
static uint32_t add_branch(struct maker *k, struct branch b) {
    const char *inner = b.count  ? ir_value_name(k->m, b.count)
                        : b.size ? ir_text(k->m, b.size)
                                 : b.name;
    for (uint32_t i = 0; i < k->p->uniform.n; i++)
        b.uniform |=
            glob_match(k->p->uniform.at[i], b.name) || glob_match(k->p->uniform.at[i], inner);
    for (uint32_t i = 0; i < k->p->branch_words.n; i++)
        if (!strcmp(k->p->branch_words.at[i].name, b.name)) b.words = k->p->branch_words.at[i].text;
    vec_push(&k->c->branches->all, b);
    return k->c->branches->all.n - 1;
}

static uint32_t add_own(struct maker *k, uint32_t level) {
    struct loop_facts *loop = k->around.at[level - 1];
    uint32_t v = k->next_own++;
    if (loop->own.n && loop->own.at[loop->own.n - 1].last == v)
        loop->own.at[loop->own.n - 1].last++;
    else
        vec_push(&loop->own, ((struct var_range){v, v + 1}));
    return v;
}

/* Two values may have the same name in different graphs; a number tells the second apart. */
static const char *branch_name(struct maker *k, ir_value v) {
    const struct ir_value_info *value = &k->m->value.at[v];
    const char *name = ir_text(k->m, value->name);
    uint32_t before = k->named[value->name]++;
    return before ? arena_printf(&k->p->arena, "%s@%u", name, before + 1) : name;
}

static bdd variable(struct maker *k, ir_value v) {
    if (k->n.level[v]) {
        uint32_t own = add_own(k, k->n.level[v]);
        struct loop_facts *loop = k->around.at[k->n.level[v] - 1];
        vec_push(&loop->tests, ((struct trip_test){.variable = own, .value = v}));
        return bdd_var(k->bdd, own);
    }
    if (!k->branch_of[v])
        k->branch_of[v] = add_branch(k, (struct branch){.name = branch_name(k, v), .value = v}) + 1;
    return bdd_var(k->bdd, k->branch_of[v] - 1);
}

/* [v >= 1] for a trip count, or [length of v >= 1]. One variable per value. */
static bdd count_variable(struct maker *k, ir_value v, const char *format) {
    v = k->n.same[v];
    if (!k->trips_of[v]) {
        const char *name = arena_printf(&k->p->arena, format, ir_value_name(k->m, v));
        uint32_t level = k->n.level[v];
        k->trips_of[v] = 1 + (level ? add_own(k, level)
                                    : add_branch(k, (struct branch){.name = name, .count = v}));
    }
    return bdd_var(k->bdd, k->trips_of[v] - 1);
}

static bdd size_variable(struct maker *k, str symbol) {
    if (!k->size_of[symbol]) {
        const char *name = arena_printf(&k->p->arena, "(%s>=1)", ir_text(k->m, symbol));
        k->size_of[symbol] = 1 + add_branch(k, (struct branch){.name = name, .size = symbol});
    }
    return bdd_var(k->bdd, k->size_of[symbol] - 1);
}

/* The branches that an earlier step of the program has made are these. */
static void recall_branches(struct maker *k) {
    for (uint32_t i = 0; i < k->c->branches->all.n; i++) {
        const struct branch *b = &k->c->branches->all.at[i];
        if (b->value) {
            k->branch_of[b->value] = i + 1;
            k->named[k->m->value.at[b->value].name]++;
        }
        if (b->count) k->trips_of[b->count] = i + 1;
        if (b->size) k->size_of[b->size] = i + 1;
    }
}

/* ---- which booleans conditions are made of --------------------------------------------------- */

static void need(struct maker *k, ir_value v) {
    if (v) k->needed[k->n.same[v]] = true;
}

static void need_inputs(struct maker *k, ir_node n) {
    ir_value a = ir_input(k->m, n, 0), b = ir_input(k->m, n, 1);
    need(k, k->n.opposite[ir_outputs(k->m, n)[0]]);
    switch (numbering_logic(&k->n, n)) {
    case LOGIC_CAST:
    case LOGIC_SHAPE:
        if (k->n.boolish[a]) need(k, a);
        break;
    case LOGIC_NOT: need(k, a); break;
    case LOGIC_AND:
    case LOGIC_OR:
    case LOGIC_XOR: need(k, a), need(k, b); break;
    case LOGIC_EQUAL: /* of two booleans, or of one and a constant */
        if (k->n.boolish[a]) need(k, a);
        if (k->n.boolish[b]) need(k, b);
        break;
    default: break;
    }
}

static void need_graph(struct maker *k, ir_graph g) {
    const struct ir_module *m = k->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        ir_node n = m->node_list.at[graph->nodes + i];
        const struct control *c = control_of(&k->c->control, n);
        const ir_value *out = ir_outputs(m, n);
        if (!c) {
            if (m->node.at[n].n_outputs && k->needed[out[0]]) need_inputs(k, n);
            continue;
        }
        if (c->kind == CONTROL_IF) {
            need(k, ir_input(m, n, 0));
            for (uint32_t o = 0; o < m->node.at[n].n_outputs; o++)
                if (k->needed[out[o]]) {
                    need(k, control_graph_output(m, c->body, o));
                    need(k, control_graph_output(m, c->otherwise, o));
                }
        } else if (c->kind == CONTROL_LOOP) {
            ir_value count = ir_input(m, n, 0);
            if (k->n.boolish[count]) need(k, count);
            need(k, ir_input(m, n, 1));
            need(k, control_graph_output(m, c->body, 0));
        }
        /* Backwards here too: what the second graph needs may be numbered as a value of the first.
         */
        uint32_t inner = 0;
        while (control_graph(m, n, inner)) inner++;
        while (inner-- > 0) need_graph(k, control_graph(m, n, inner));
    }
}

/* ---- assumptions ----------------------------------------------------------------------------- */

static void assume(struct maker *k, const struct step *step) {
    VEC(struct assumption) todo = {0};
    for (uint32_t i = step->assume.n; i-- > 0;) vec_push(&todo, step->assume.at[i]);
    while (todo.n) {
        struct assumption a = todo.at[--todo.n];
        ir_value v = k->n.same[a.value];
        const struct ir_value_info *value = &k->m->value.at[v];
        if (k->assumed[v]) continue;
        k->assumed[v] = 1 + a.is;
        if (value->def != IR_DEF_NODE) continue;
        if (k->n.opposite[v]) vec_push(&todo, ((struct assumption){k->n.opposite[v], !a.is}));
        enum logic l = numbering_logic(&k->n, value->node);
        bool both = (l == LOGIC_AND && a.is) || (l == LOGIC_OR && !a.is);
        bool one =
            l == LOGIC_NOT || (l == LOGIC_CAST && k->n.boolish[ir_input(k->m, value->node, 0)]);
        if (both || one)
            vec_push(&todo, ((struct assumption){ir_input(k->m, value->node, 0),
                                                 l == LOGIC_NOT ? !a.is : a.is}));
        if (both) vec_push(&todo, ((struct assumption){ir_input(k->m, value->node, 1), a.is}));
    }
    vec_free(&todo);
}

/* ---- functions ------------------------------------------------------------------------------- */

bdd condition_of(const struct conditions *c, ir_value v) {
    bdd f = c->function[c->same[v]];
    return f == UNKNOWN ? BDD_OVERFLOW : f;
}

/* Where a number that an If chooses among constants is this one; false if it may be another. */
static bool chosen_equal(struct maker *k, ir_value v, int64_t number, uint32_t depth, bdd *out) {
    int64_t constant;
    if (facts_number(k->m, v, &constant)) {
        *out = constant == number ? BDD_TRUE : BDD_FALSE;
        return true;
    }
    const struct ir_value_info *value = &k->m->value.at[v];
    if (value->def != IR_DEF_NODE || depth == 0) return false;
    const struct control *c = control_of(&k->c->control, value->node);
    bdd yes, no;
    if (!c || c->kind != CONTROL_IF ||
        !chosen_equal(k, control_graph_output(k->m, c->body, value->output), number, depth - 1,
                      &yes) ||
        !chosen_equal(k, control_graph_output(k->m, c->otherwise, value->output), number, depth - 1,
                      &no))
        return false;
    *out = bdd_ite(k->bdd, condition_of(k->c, ir_input(k->m, value->node, 0)), yes, no);
    return true;
}

static bdd equal(struct maker *k, ir_value v, ir_value a, ir_value b) {
    enum { CHOICES_DEPTH = 8 };
    int64_t constant;
    bdd chosen;
    if ((facts_number(k->m, b, &constant) &&
         chosen_equal(k, a, constant, CHOICES_DEPTH, &chosen)) ||
        (facts_number(k->m, a, &constant) && chosen_equal(k, b, constant, CHOICES_DEPTH, &chosen)))
        return chosen;
    if (!k->n.boolish[a] || facts_number(k->m, a, &constant)) {
        ir_value swap = a;
        a = b, b = swap;
    }
    if (!k->n.boolish[a]) return variable(k, v);
    if (facts_number(k->m, b, &constant))
        return constant == 1 ? condition_of(k->c, a)
               : constant    ? (bdd)BDD_FALSE
                             : bdd_not(k->bdd, condition_of(k->c, a));
    if (!k->n.boolish[b]) return variable(k, v);
    return bdd_not(k->bdd, bdd_xor(k->bdd, condition_of(k->c, a), condition_of(k->c, b)));
}

static bdd function_of(struct maker *k, ir_value v) {
    const struct ir_value_info *value = &k->m->value.at[v];
    int64_t constant;
    if (k->assumed[v]) return k->assumed[v] == 2 ? BDD_TRUE : BDD_FALSE;
    if (facts_number(k->m, v, &constant)) return constant ? BDD_TRUE : BDD_FALSE;
    if (value->def != IR_DEF_NODE) return variable(k, v);
    if (numbering_evaluate(&k->n, v, NULL, &constant)) return constant ? BDD_TRUE : BDD_FALSE;
    if (k->n.opposite[v]) return bdd_not(k->bdd, condition_of(k->c, k->n.opposite[v]));
    ir_value a = ir_input(k->m, value->node, 0), b = ir_input(k->m, value->node, 1);
    const struct control *c = control_of(&k->c->control, value->node);
    if (c && c->kind == CONTROL_IF)
        return bdd_ite(k->bdd, condition_of(k->c, a),
                       condition_of(k->c, control_graph_output(k->m, c->body, value->output)),
                       condition_of(k->c, control_graph_output(k->m, c->otherwise, value->output)));
    switch (numbering_logic(&k->n, value->node)) {
    case LOGIC_CAST:
    case LOGIC_SHAPE: return k->n.boolish[a] ? condition_of(k->c, a) : variable(k, v);
    case LOGIC_NOT: return bdd_not(k->bdd, condition_of(k->c, a));
    case LOGIC_AND: return bdd_and(k->bdd, condition_of(k->c, a), condition_of(k->c, b));
    case LOGIC_OR: return bdd_or(k->bdd, condition_of(k->c, a), condition_of(k->c, b));
    case LOGIC_XOR: return bdd_xor(k->bdd, condition_of(k->c, a), condition_of(k->c, b));
    case LOGIC_EQUAL: return equal(k, v, a, b);
    default: return variable(k, v);
    }
}

static void set_function(struct maker *k, ir_value v) {
    if (!k->needed[v] || k->n.same[v] != v || k->c->function[v] != UNKNOWN) return;
    k->c->function[v] = note_overflow(k, function_of(k, v));
}

/* How often a Scan or SequenceMap runs: what its scan inputs are long. */
static void scan_length(struct maker *k, const struct control *c, struct loop_facts *facts) {
    const struct ir_module *m = k->m;
    ir_attr axes = ir_attr_find(m, c->node, "scan_input_axes");
    str symbol = 0;
    ir_value first = ir_input(m, c->node, c->node_in + c->n_state);
    facts->trips = -1;
    if (c->node_in && ir_input(m, c->node, 0)) { /* opset 8: sequences of lengths of their own */
        facts->runs = count_variable(k, ir_input(m, c->node, 0), "(max(%s)>=1)");
        return;
    }
    for (uint32_t i = 0; c->kind == CONTROL_SCAN && i < c->n_scan_in; i++) {
        ir_value v = ir_input(m, c->node, c->node_in + c->n_state + i);
        const struct ir_type_info *type = &m->type.at[m->value.at[v].type];
        if (type->kind != IR_TYPE_TENSOR || type->rank < 1) continue;
        int64_t axis = c->node_in; /* opset 8: behind the batch */
        if (axes && i < m->attr.at[axes].n_values)
            axis = m->attr_value.at[m->attr.at[axes].values + i].i;
        if (axis < 0) axis += type->rank;
        if (axis < 0 || axis >= type->rank) continue;
        const struct ir_dim *dim = &m->dim.at[type->dims + (uint32_t)axis];
        if (dim->size >= 0 && !dim->symbol) {
            facts->trips = dim->size;
            facts->runs = dim->size > 0 ? BDD_TRUE : BDD_FALSE;
            return;
        }
        /* A size of the same name is the same size, unless it belongs to a trip of a loop. */
        if (!symbol && !k->n.level[v]) symbol = dim->symbol;
    }
    if (!first) /* a Scan without inputs would never end; the verifier refuses it */
        facts->runs = BDD_FALSE;
    else
        facts->runs = symbol ? size_variable(k, symbol) : count_variable(k, first, "(len(%s)>=1)");
}

enum { MAX_NUMBERED_TRIPS = 64 }; /* bits of struct trip_test */

static bool evaluate_in(struct maker *k, const struct control *c, ir_value v, int64_t number,
                        int64_t *out) {
    const struct trip t = {.number_of = control_graph_input(k->m, c->body, 0),
                           .number = number,
                           .going = control_graph_input(k->m, c->body, 1)};
    return numbering_evaluate(&k->n, v, &t, out);
}

/* `i < 2` as the condition after a trip: how many trips there are; -1 if more decides than their
 * number. `most`: the literal count, or -1. */
static int64_t trips_by_number(struct maker *k, const struct control *c, int64_t most) {
    ir_value on = control_graph_output(k->m, c->body, 0);
    for (int64_t t = 0; t < MAX_NUMBERED_TRIPS; t++) {
        int64_t goes = 0;
        if (t == most) return most;
        if (!evaluate_in(k, c, on, t, &goes)) return -1;
        if (!goes) return t + 1;
    }
    return most == MAX_NUMBERED_TRIPS ? most : -1;
}

static void loop_length(struct maker *k, const struct control *c, struct loop_facts *facts) {
    const struct ir_module *m = k->m;
    ir_value count = ir_input(m, c->node, 0), start = ir_input(m, c->node, 1);
    int64_t n = -1;
    bdd counted = BDD_TRUE;
    if (count && facts_number(k->m, count, &n)) {
        counted = n >= 1 ? BDD_TRUE : BDD_FALSE;
        if (n < 0) n = 0;
    } else if (count && k->n.boolish[count]) {
        counted = condition_of(k->c, count);
        n = 1;
    } else if (count)
        counted = count_variable(k, count, "(%s>=1)");
    facts->runs = bdd_and(k->bdd, counted, start ? condition_of(k->c, start) : (bdd)BDD_TRUE);

    /* After a trip it goes on for certain, stops for certain, or we do not know. Implementations
     * differ on whether the body's condition counts where the node has none: then we do not know.
     */
    bdd on = condition_of(k->c, control_graph_output(m, c->body, 0));
    facts->trips = n == 1 ? 1 : -1;
    if (facts->runs == BDD_OVERFLOW || on == BDD_OVERFLOW) return;
    if (bdd_implies(k->bdd, facts->runs, on))
        facts->trips = n;
    else if (start && bdd_and(k->bdd, facts->runs, on) == BDD_FALSE)
        facts->trips = 1;
    else if (start && (!count || n > 1))
        facts->trips = trips_by_number(k, c, n);
}

/* `i == 0`, `i % 2`: keeps the tests that the number of the trip decides. */
static void decide_tests(struct maker *k, const struct control *c, struct loop_facts *facts) {
    uint32_t kept = 0;
    bool known = c->kind == CONTROL_LOOP && facts->trips >= 1 && facts->trips <= MAX_NUMBERED_TRIPS;
    for (uint32_t i = 0; known && i < facts->tests.n; i++) {
        struct trip_test test = facts->tests.at[i];
        bool decided = true;
        for (int64_t t = 0; decided && t < facts->trips; t++) {
            int64_t is = 0;
            decided = evaluate_in(k, c, test.value, t, &is);
            test.is |= (uint64_t)(is != 0) << t;
        }
        if (decided) facts->tests.at[kept++] = test;
    }
    facts->tests.n = kept;
}

static void function_graph(struct maker *k, ir_graph g) {
    const struct ir_module *m = k->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        set_function(k, m->decl.at[graph->inputs + i].value);
    for (uint32_t i = 0; i < graph->n_items; i++) {
        ir_value v = m->decl.at[graph->items + i].value;
        if (m->value.at[v].def != IR_DEF_NODE) set_function(k, v);
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        const struct control *c = control_of(&k->c->control, n);
        k->at = n;
        if (c) {
            struct loop_facts *facts = &k->c->loops[k->c->control.of_node[n]];
            bool loop = control_is_loop(c);
            if (loop) vec_push(&k->around, facts);
            if (c->kind == CONTROL_LOOP)
                k->c->function[control_graph_input(m, c->body, 1)] = BDD_TRUE;
            ir_graph inner;
            for (uint32_t j = 0; (inner = control_graph(m, n, j)); j++) function_graph(k, inner);
            k->at = n;
            if (loop) k->around.n--;
            if (c->kind == CONTROL_LOOP)
                loop_length(k, c, facts);
            else if (loop)
                scan_length(k, c, facts);
            if (loop) {
                note_overflow(k, facts->runs);
                decide_tests(k, c, facts);
            }
        }
        for (uint32_t o = 0; o < m->node.at[n].n_outputs; o++) set_function(k, ir_outputs(m, n)[o]);
    }
}

void conditions_make(struct conditions *c, struct program *p, const struct step *step,
                     struct branches *b) {
    const struct ir_module *m = p->m;
    *c = (struct conditions){.p = p, .branches = b};
    control_find(m, p->ops, &c->control);
    if (!c->control.of_node) return;
    struct arena scratch = {0};
    struct maker k = {.c = c, .p = p, .m = m, .bdd = b->bdd, .next_own = FIRST_OWN};
    numbering_make(&k.n, m, p->ops, &c->control, &c->arena);
    c->same = k.n.same;
    c->function = arena_new(&c->arena, bdd, m->value.n);
    for (ir_value v = 0; v < m->value.n; v++) c->function[v] = UNKNOWN;
    c->loops = arena_new(&c->arena, struct loop_facts, c->control.all.n);
    k.needed = arena_new(&scratch, bool, m->value.n);
    k.assumed = arena_new(&scratch, uint8_t, m->value.n);
    k.branch_of = arena_new(&scratch, uint32_t, m->value.n);
    k.trips_of = arena_new(&scratch, uint32_t, m->value.n);
    k.size_of = arena_new(&scratch, uint32_t, m->strings.text.n);
    k.named = arena_new(&scratch, uint32_t, m->strings.text.n);
    recall_branches(&k);
    need_graph(&k, m->main);
    assume(&k, step);
    function_graph(&k, m->main);
    vec_free(&k.around);
    arena_free(&scratch);
}

void conditions_free(struct conditions *c) {
    for (uint32_t i = 0; i < c->control.all.n && c->loops; i++) {
        vec_free(&c->loops[i].own);
        vec_free(&c->loops[i].tests);
    }
    control_free(&c->control);
    arena_free(&c->arena);
}
