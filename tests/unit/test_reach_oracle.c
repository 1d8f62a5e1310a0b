/* The analysis against brute force.
 *
 * Random models with branches and loops are made twice at once: as text for the compiler, and as a
 * small tree that an interpreter here executes. An execution fixes every run-time boolean and trip
 * count, so what it computes is a flat graph without control flow; a plain search from the loss
 * finds which parameters it reaches. All executions are tried by turning the choices like an
 * odometer, up to a limit. In each of them
 *
 *     must under the execution's branch values  =>  the parameter has a gradient  =>  may.
 *
 * Nothing of the analysis is shared: no conditions as functions, no fixed points, no unrolling of
 * pairs. For models whose branches are all visible from outside (no loop, or loops of literal
 * length without conditions of their own) the classes must also be exactly those that brute force
 * finds. */
#include "reach_model.h"

#include <stdarg.h>
#include <stdlib.h>

/* ---- models ---------------------------------------------------------------------------------- */

enum kind {
    PARAM,
    INPUT,
    BOOL_INPUT,
    COUNT,
    BODY_INPUT,
    TRUE_INPUT, /* no operator */
    ADD,
    COPY,
    DETACH, /* floats */
    NOT,
    AND,
    OR,
    XOR,
    COPY_BOOL,
    EQUAL_FALSE,
    THROUGH_INT,
    GREATER,
    CONSTANT, /* booleans */
    IF,
    LOOP,
    SCAN
};

enum {
    MAX_VALUES = 400,
    MAX_GRAPHS = 64,
    MAX_NODES = 16,
    MAX_OUT = 6,
    PARAMS = 4,
    INPUTS = 3,
    BOOLS = 3,
    COUNTS = 2
};

struct value {
    bool is_bool;
    bool in_loop; /* differs from trip to trip, perhaps */
};

struct node {
    enum kind kind;
    int in[MAX_OUT], n_in, out[MAX_OUT], n_out;
    int body, otherwise; /* graphs */
    int count;           /* a LOOP's or SCAN's trips if literal, else -1 */
    int count_value;     /* a COUNT */
    int start;           /* a LOOP's condition; -1: none */
    int n_state, n_scan_in;
    bool constant;
};

struct graph {
    struct node node[MAX_NODES];
    int n, in[MAX_OUT], n_in, out[MAX_OUT], n_out;
};

struct model {
    struct value value[MAX_VALUES];
    int n_values;
    struct graph graph[MAX_GRAPHS];
    int n_graphs, loss;
    bool plain; /* every condition is a function of the model's inputs, every loop literal */
    char text[65536];
    size_t length;
};

static uint64_t seed;
static int dice(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static void say(struct model *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    m->length += (size_t)vsnprintf(m->text + m->length, sizeof m->text - m->length, format, args);
    va_end(args);
    cr_assert(m->length < sizeof m->text);
}

static int new_value(struct model *m, bool is_bool) {
    cr_assert(m->n_values < MAX_VALUES);
    m->value[m->n_values] = (struct value){.is_bool = is_bool};
    return m->n_values++;
}

/* What a place in the text sees. */
struct scope {
    int floats[MAX_VALUES], n_floats, bools[MAX_VALUES], n_bools;
    int depth, loops;
};

static void see(struct model *m, struct scope *s, int v) {
    if (m->value[v].is_bool)
        s->bools[s->n_bools++] = v;
    else
        s->floats[s->n_floats++] = v;
}

/* Later values are more likely, so that models are deep rather than flat. */
static int pick(const int *from, int n) {
    int a = dice(n), b = dice(n);
    return from[a > b ? a : b];
}
static int a_float(const struct scope *s) { return pick(s->floats, s->n_floats); }
static int a_bool(const struct scope *s) { return pick(s->bools, s->n_bools); }

static int new_graph(struct model *m, struct scope *s, int n_in, const bool *in_bool, bool loop,
                     int n_out, const bool *out_bool, int first_in_true);

static void indent(struct model *m, const struct scope *s) { say(m, "%*s", 2 + 2 * s->depth, ""); }

static void add_simple(struct model *m, struct scope *s, struct node *n) {
    static const char *const ops[] = {[ADD] = "Add",
                                      [COPY] = "Identity",
                                      [DETACH] = "ddpc.StopGradient",
                                      [NOT] = "Not",
                                      [AND] = "And",
                                      [OR] = "Or",
                                      [XOR] = "Xor",
                                      [COPY_BOOL] = "Identity",
                                      [GREATER] = "Greater"};
    bool is_bool = n->kind >= NOT;
    n->n_out = 1;
    n->out[0] = new_value(m, is_bool);
    n->n_in = n->kind == ADD || (n->kind >= AND && n->kind <= XOR) || n->kind == GREATER ? 2 : 1;
    if (n->kind == CONSTANT) n->n_in = 0;
    for (int i = 0; i < n->n_in; i++) {
        n->in[i] = is_bool && n->kind != GREATER ? a_bool(s) : a_float(s);
        if (n->kind == GREATER && (m->plain || dice(3))) n->in[i] = s->floats[dice(INPUTS)];
    }
    int o = n->out[0];
    indent(m, s);
    if (n->kind == CONSTANT) {
        n->constant = dice(2);
        say(m, "v%d = Constant <value = bool {%d}> ()\n", o, n->constant);
    } else if (n->kind == EQUAL_FALSE) {
        say(m, "k%d = Constant <value = bool {0}> ()\n", o);
        indent(m, s);
        say(m, "v%d = Equal (v%d, k%d)\n", o, n->in[0], o);
    } else if (n->kind == THROUGH_INT) {
        say(m, "i%d = Cast <to = 7> (v%d)\n", o, n->in[0]);
        indent(m, s);
        say(m, "v%d = Cast <to = 9> (i%d)\n", o, o);
    } else if (n->n_in == 2)
        say(m, "v%d = %s (v%d, v%d)\n", o, ops[n->kind], n->in[0], n->in[1]);
    else
        say(m, "v%d = %s (v%d)\n", o, ops[n->kind], n->in[0]);
    see(m, s, o);
}

static void say_outputs(struct model *m, const struct scope *s, struct node *n) {
    indent(m, s);
    for (int i = 0; i < n->n_out; i++) say(m, "%sv%d", i ? ", " : "", n->out[i]);
}

static void add_if(struct model *m, struct scope *s, struct node *n) {
    bool out_bool[MAX_OUT] = {0};
    n->in[0] = a_bool(s), n->n_in = 1;
    n->n_out = 1 + dice(3);
    for (int i = 0; i < n->n_out; i++) {
        out_bool[i] = i == 2;
        n->out[i] = new_value(m, out_bool[i]);
    }
    say_outputs(m, s, n);
    say(m, " = If (v%d) <\n", n->in[0]);
    say(m, "then_branch = ");
    n->body = new_graph(m, s, 0, NULL, false, n->n_out, out_bool, -1);
    say(m, ",\nelse_branch = ");
    n->otherwise = new_graph(m, s, 0, NULL, false, n->n_out, out_bool, -1);
    say(m, ">\n");
    for (int i = 0; i < n->n_out; i++) see(m, s, n->out[i]);
}

static void add_loop(struct model *m, struct scope *s, struct node *n, const int *counts) {
    bool in_bool[MAX_OUT] = {0}, out_bool[MAX_OUT] = {0};
    bool scan = n->kind == SCAN;
    int n_scan_out = dice(2), extra = scan ? 0 : 1; /* the condition among the body's outputs */
    n->n_scan_in = scan ? 1 : 0;
    n->n_state = scan ? dice(3) : 1 + dice(3);
    if (!n->n_state && !n_scan_out) n_scan_out = 1;
    n->count = m->plain || dice(2) ? dice(4) : -1;
    if (scan && n->count == 0) n->count = 3; /* a 0 in Reshape's shape means something else */
    n->count_value = counts[dice(COUNTS)];
    n->start = -1;
    bool bool_state = !m->plain && !scan && n->n_state == 3;
    n->n_in = n->n_state + n->n_scan_in;
    for (int i = 0; i < n->n_in; i++) {
        in_bool[i] = bool_state && i == 2;
        n->in[i] = in_bool[i] ? a_bool(s) : a_float(s);
    }
    n->n_out = n->n_state + n_scan_out;
    for (int i = 0; i < n->n_out; i++) {
        out_bool[i + extra] = i < n->n_state && in_bool[i];
        n->out[i] = new_value(m, out_bool[i + extra]);
    }
    int o = n->out[0];
    if (scan) {
        indent(m, s);
        if (n->count < 0)
            say(m, "s%d = Reshape (v%d, any_shape)\n", o, n->in[n->n_state]);
        else
            say(m, "s%d = Reshape (v%d, shape%d)\n", o, n->in[n->n_state], n->count);
        say_outputs(m, s, n);
        say(m, " = Scan <num_scan_inputs = 1, body = ");
        n->body = new_graph(m, s, n->n_in, in_bool, true, n->n_out, out_bool, -2);
        say(m, "> (");
        for (int i = 0; i < n->n_state; i++) say(m, "v%d, ", n->in[i]);
        say(m, "s%d)\n", o);
    } else {
        if (!m->plain && dice(3) == 0) n->start = a_bool(s);
        if (n->count >= 0) {
            indent(m, s);
            say(m, "m%d = Constant <value = int64 {%d}> ()\n", o, n->count);
        }
        out_bool[0] = true;
        say_outputs(m, s, n);
        say(m, " = Loop <body = ");
        n->body = new_graph(m, s, n->n_in, in_bool, true, n->n_out + 1, out_bool,
                            n->start >= 0 || dice(2));
        if (n->count >= 0)
            say(m, "> (m%d, ", o);
        else
            say(m, "> (n%d, ", n->count_value);
        if (n->start >= 0) say(m, "v%d", n->start);
        for (int i = 0; i < n->n_in; i++) say(m, ", v%d", n->in[i]);
        say(m, ")\n");
    }
    for (int i = 0; i < n->n_out; i++) see(m, s, n->out[i]);
}

static int the_counts[COUNTS];

static void add_node(struct model *m, struct graph *g, struct scope *s) {
    struct node *n = &g->node[g->n++];
    *n = (struct node){.count = -1, .start = -1};
    int what = dice(20);
    if (what < 4 && s->depth < 3 && m->n_graphs < MAX_GRAPHS - 8) {
        n->kind = IF;
        add_if(m, s, n);
    } else if (what < 8 && s->depth < 3 && s->loops < 2 && m->n_graphs < MAX_GRAPHS - 8) {
        n->kind = dice(4) ? LOOP : SCAN;
        add_loop(m, s, n, the_counts);
    } else {
        static const enum kind simple[] = {ADD,         ADD,         ADD,     COPY,    DETACH,
                                           NOT,         AND,         OR,      XOR,     COPY_BOOL,
                                           EQUAL_FALSE, THROUGH_INT, GREATER, GREATER, CONSTANT};
        n->kind = simple[dice(sizeof simple / sizeof *simple)];
        add_simple(m, s, n);
    }
}

/* `loop` 0: a branch. condition: -1 a branch, -2 a Scan's body, else a Loop's: 0 it goes on for
 * ever, 1 perhaps not. */
static int new_graph(struct model *m, struct scope *outer, int n_in, const bool *in_bool, bool loop,
                     int n_out, const bool *out_bool, int condition) {
    struct scope *s = malloc(sizeof *s);
    int id = m->n_graphs++;
    struct graph *g = &m->graph[id];
    memset(g, 0, sizeof *g);
    *s = *outer;
    s->depth++;
    s->loops += loop;
    int outside = m->n_values, going = -1;
    say(m, "g%d (", id);
    /* Loops give the trip's number and the condition. */
    if (condition >= 0) {
        going = new_value(m, true);
        say(m, "int64 t%d, bool v%d", id, going);
        see(m, s, going);
    }
    g->n_in = n_in;
    for (int i = 0; i < n_in; i++) {
        g->in[i] = new_value(m, in_bool[i]);
        say(m, "%s%s v%d", i || condition >= 0 ? ", " : "", in_bool[i] ? "bool" : "float[2]",
            g->in[i]);
        see(m, s, g->in[i]);
    }
    say(m, ") => (");
    size_t hole = m->length;
    g->n_out = n_out;
    for (int i = 0; i < n_out; i++) say(m, "%sO%03d", i ? ", " : "", i);
    say(m, ") {\n");
    for (int k = 1 + dice(3); k-- > 0;) add_node(m, g, s);
    for (int i = 0; i < n_out; i++) {
        int v = out_bool[i] ? a_bool(s) : a_float(s);
        if (condition >= 0 && i == 0 && (condition == 0 || m->plain || dice(2))) v = going;
        if (v < outside || dice(3) == 0 || v == going) { /* an outer value cannot be an output */
            struct node *n = &g->node[g->n++];
            *n = (struct node){.kind = out_bool[i] ? COPY_BOOL : COPY, .n_in = 1, .n_out = 1};
            n->in[0] = v;
            v = n->out[0] = new_value(m, out_bool[i]);
            indent(m, s);
            say(m, "v%d = Identity (v%d)\n", v, n->in[0]);
        }
        g->out[i] = v;
    }
    /* Now that the outputs are known, their names go into the hole: same width, "O000" or "v123".
     */
    for (int i = 0; i < n_out; i++) {
        char name[32];
        snprintf(name, sizeof name, "v%-3d", g->out[i]);
        memcpy(m->text + hole + 6 * (size_t)i, name, 4);
    }
    if (condition >= 0) { /* the body's own condition stands before its inputs */
        memmove(g->in + 1, g->in, sizeof *g->in * (size_t)n_in);
        g->in[0] = going;
        g->n_in++;
    }
    indent(m, outer);
    say(m, "}");
    free(s);
    return id;
}

static void new_model(struct model *m, bool plain) {
    struct scope *s = calloc(1, sizeof *s);
    memset(m, 0, offsetof(struct model, text));
    m->length = 0;
    m->plain = plain;
    m->n_graphs = 1;
    say(m, "<ir_version: 8, opset_import: [\"\" : 17, \"ddpc\" : 1]>\nmain (");
    for (int i = 0; i < INPUTS; i++) {
        see(m, s, new_value(m, false));
        say(m, "float[2] v%d, ", i);
    }
    for (int i = 0; i < BOOLS; i++) {
        int v = new_value(m, true);
        see(m, s, v);
        say(m, "bool v%d, ", v);
    }
    for (int i = 0; i < COUNTS; i++) {
        the_counts[i] = new_value(m, false);
        say(m, "int64 n%d, ", the_counts[i]);
    }
    say(m, "int64[2] any_shape) => (float[2] loss) <\n");
    int first_param = m->n_values;
    for (int i = 0; i < PARAMS; i++) {
        int v = new_value(m, false);
        see(m, s, v);
        say(m, "  float[2] v%d,\n", v);
    }
    for (int i = 0; i < 4; i++) say(m, "%s  int64[2] shape%d = {%d, 2}", i ? ",\n" : "", i, i);
    say(m, ">\n{\n");
    struct graph *g = &m->graph[0];
    for (int i = 0; i < PARAMS; i++) { /* every parameter is read at least once */
        struct node *n = &g->node[g->n++];
        *n = (struct node){
            .kind = ADD, .n_in = 2, .n_out = 1, .in = {first_param + i, dice(INPUTS)}};
        n->out[0] = new_value(m, false);
        say(m, "  v%d = Add (v%d, v%d)\n", n->out[0], n->in[0], n->in[1]);
        see(m, s, n->out[0]);
    }
    for (int k = 3 + dice(5); k-- > 0;) add_node(m, g, s);
    struct node *n = &g->node[g->n++];
    *n = (struct node){.kind = ADD, .n_in = 2, .n_out = 1, .in = {a_float(s), a_float(s)}};
    m->loss = n->out[0] = new_value(m, false);
    say(m, "  loss = Add (v%d, v%d)\n}\n", n->in[0], n->in[1]);
    free(s);
}

/* ---- executions ------------------------------------------------------------------------------ */

enum {
    MAX_INSTANCES = 20000,
    MAX_EDGES = 60000,
    MAX_ATOMS = 2000,
    MAX_CHOICES = 4000,
    MAX_EXECUTIONS = 500,
    MOST_TRIPS = 3
};

/* One execution. A float is an instance: a vertex of the flat graph. Choices are made when
 * something asks for them; `choice` remembers those of the execution before, to turn them on. */
struct run {
    const struct model *m;
    int now[MAX_VALUES];    /* a float's instance, a boolean's value; -1: not computed */
    int length[MAX_VALUES]; /* of what a SCAN with this first output scanned; -1: not executed */
    int counts[MAX_VALUES];
    int n_instances, n_edges, edge_from[MAX_EDGES], edge_to[MAX_EDGES], first[MAX_INSTANCES];
    int next[MAX_EDGES];
    struct {
        int a, b, value;
    } atom[MAX_ATOMS];
    int n_atoms;
    int choice[MAX_CHOICES], arity[MAX_CHOICES], n_choices, made;
};

static int choose(struct run *r, int arity) {
    cr_assert(r->made < MAX_CHOICES);
    if (r->made == r->n_choices) {
        r->choice[r->n_choices] = 0;
        r->arity[r->n_choices++] = arity;
    }
    return r->choice[r->made++];
}

/* False when all executions are done. */
static bool next_choices(struct run *r) {
    while (r->n_choices && r->choice[r->n_choices - 1] + 1 == r->arity[r->n_choices - 1])
        r->n_choices--;
    if (!r->n_choices) return false;
    r->choice[r->n_choices - 1]++;
    return true;
}

static int new_instance(struct run *r) {
    cr_assert(r->n_instances < MAX_INSTANCES);
    r->first[r->n_instances] = -1;
    return r->n_instances++;
}

static void edge(struct run *r, int from, int to) {
    cr_assert(r->n_edges < MAX_EDGES);
    r->edge_to[r->n_edges] = to;
    r->next[r->n_edges] = r->first[from];
    r->first[from] = r->n_edges++;
}

static int boolean(struct run *r, int v) {
    if (r->now[v] < 0) r->now[v] = choose(r, 2); /* an input of the model */
    return r->now[v];
}

static int atom(const struct run *r, int a, int b) {
    for (int i = 0; i < r->n_atoms; i++)
        if (r->atom[i].a == a && r->atom[i].b == b) return i;
    return -1;
}

/* What is unknown but equal for equal operands: a comparison, or (b < 0) a length. */
static int decide(struct run *r, int a, int b, int arity) {
    int i = atom(r, a, b);
    if (i < 0) {
        cr_assert(r->n_atoms < MAX_ATOMS);
        i = r->n_atoms++;
        r->atom[i].a = a, r->atom[i].b = b;
        r->atom[i].value = choose(r, arity);
    }
    return r->atom[i].value;
}

static void execute(struct run *r, int graph);

static void execute_loop(struct run *r, const struct node *n) {
    const struct graph *body = &r->m->graph[n->body];
    bool scan = n->kind == SCAN;
    int trips = n->count, extra = scan ? 0 : 1, state[MAX_OUT], scanned[MAX_OUT];
    if (trips < 0 && scan) trips = decide(r, r->now[n->in[n->n_state]], -1, MOST_TRIPS);
    if (trips < 0) {
        if (r->counts[n->count_value] < 0) r->counts[n->count_value] = choose(r, MOST_TRIPS + 1);
        trips = r->counts[n->count_value];
    }
    r->length[n->out[0]] = trips;
    for (int i = 0; i < n->n_state; i++)
        state[i] = r->m->value[n->in[i]].is_bool ? boolean(r, n->in[i]) : r->now[n->in[i]];
    for (int i = n->n_state; i < n->n_out; i++) scanned[i] = new_instance(r);
    int source = scan ? r->now[n->in[n->n_state]] : -1;
    bool on = n->start < 0 || boolean(r, n->start);
    for (int t = 0; t < trips && on; t++) {
        if (!scan) r->now[body->in[0]] = 1;
        for (int i = 0; i < n->n_state; i++) r->now[body->in[i + extra]] = state[i];
        if (scan) {
            int slice = r->now[body->in[n->n_state]] = new_instance(r);
            edge(r, slice, source);
        }
        execute(r, n->body);
        for (int i = 0; i < n->n_out; i++) {
            int out = body->out[i + extra];
            int now = r->m->value[out].is_bool ? boolean(r, out) : r->now[out];
            if (i < n->n_state)
                state[i] = now;
            else
                edge(r, scanned[i], now);
        }
        if (!scan) on = boolean(r, body->out[0]);
    }
    for (int i = 0; i < n->n_out; i++) r->now[n->out[i]] = i < n->n_state ? state[i] : scanned[i];
}

static void execute_node(struct run *r, const struct node *n) {
    int *out = &r->now[n->out[0]], a = n->n_in > 0 ? n->in[0] : 0, b = n->n_in > 1 ? n->in[1] : 0;
    switch (n->kind) {
    case ADD:
        *out = new_instance(r);
        edge(r, *out, r->now[a]);
        edge(r, *out, r->now[b]);
        break;
    case COPY: *out = r->now[a]; break;
    case DETACH: *out = new_instance(r); break;
    case NOT:
    case EQUAL_FALSE: *out = !boolean(r, a); break;
    case COPY_BOOL:
    case THROUGH_INT: *out = boolean(r, a); break;
    case AND: *out = boolean(r, a) & boolean(r, b); break;
    case OR: *out = boolean(r, a) | boolean(r, b); break;
    case XOR: *out = boolean(r, a) ^ boolean(r, b); break;
    case GREATER: *out = decide(r, r->now[a], r->now[b], 2); break;
    case CONSTANT: *out = n->constant; break;
    case IF: {
        int g = boolean(r, a) ? n->body : n->otherwise;
        execute(r, g);
        for (int i = 0; i < n->n_out; i++) {
            int inner = r->m->graph[g].out[i];
            r->now[n->out[i]] = r->m->value[inner].is_bool ? boolean(r, inner) : r->now[inner];
        }
        break;
    }
    default: execute_loop(r, n);
    }
}

static void execute(struct run *r, int graph) {
    const struct graph *g = &r->m->graph[graph];
    for (int i = 0; i < g->n; i++) execute_node(r, &g->node[i]);
}

/* The model's values 0.. are its inputs and parameters, in the order of new_model. */
enum { FIRST_PARAM = INPUTS + BOOLS + COUNTS };

static void start_run(struct run *r, const struct model *m) {
    r->m = m;
    r->n_instances = r->n_edges = r->n_atoms = r->made = 0;
    for (int v = 0; v < m->n_values; v++) r->now[v] = r->length[v] = r->counts[v] = -1;
    for (int v = 0; v < INPUTS; v++) r->now[v] = new_instance(r);
    for (int v = 0; v < PARAMS; v++) r->now[FIRST_PARAM + v] = new_instance(r);
}

/* Which instances the loss reaches. */
static void search(const struct run *r, bool *reached) {
    static int todo[MAX_EDGES + 1];
    int n = 0;
    memset(reached, 0, sizeof *reached * (size_t)r->n_instances);
    todo[n++] = r->now[r->m->loss];
    while (n) {
        int v = todo[--n];
        if (reached[v]) continue;
        reached[v] = true;
        for (int e = r->first[v]; e >= 0; e = r->next[e])
            if (!reached[r->edge_to[e]]) todo[n++] = r->edge_to[e];
    }
}

/* ---- comparison ------------------------------------------------------------------------------ */

static const struct node *producer(const struct model *m, int v) {
    for (int g = 0; g < m->n_graphs; g++)
        for (int i = 0; i < m->graph[g].n; i++)
            for (int o = 0; o < m->graph[g].node[i].n_out; o++)
                if (m->graph[g].node[i].out[o] == v) return &m->graph[g].node[i];
    return NULL;
}

/* The value of a branch in this execution; -1 if nothing decided it. */
static int branch_value(const struct run *r, const char *name) {
    int v;
    if (sscanf(name, "(n%d>=1)", &v) == 1) return r->counts[v] < 0 ? -1 : r->counts[v] > 0;
    /* A branch stands for all values that are computed like it: where it is not executed itself,
     * another may have decided. */
    bool scan = sscanf(name, "(len(s%d)>=1)", &v) == 1;
    if (scan && r->length[v] >= 0) return r->length[v] > 0;
    cr_assert(scan || sscanf(name, "v%d", &v) == 1, "a branch is called %s", name);
    const struct node *n = producer(r->m, v);
    if (scan) {
        int source = r->now[n->in[n->n_state]], i = source < 0 ? -1 : atom(r, source, -1);
        return i < 0 ? -1 : r->atom[i].value > 0;
    }
    if (r->now[v] >= 0 || !n || n->kind != GREATER) return r->now[v];
    int a = r->now[n->in[0]], b = r->now[n->in[1]], i = a < 0 || b < 0 ? -1 : atom(r, a, b);
    return i < 0 ? -1 : r->atom[i].value;
}

struct tally {
    int models, executions, conditional, exact, plain;
};

static void compare(const struct model *m, const struct analysed *a, struct tally *t) {
    static struct run r;
    static bool reached[MAX_INSTANCES];
    struct bdd_manager *diagrams = a->b.bdd;
    int runs = 0, present[PARAMS] = {0};
    bool complete = false;
    r.n_choices = 0;
    do {
        start_run(&r, m);
        execute(&r, 0);
        search(&r, reached);
        bool low[256], high[256]; /* undecided branches: all false, all true */
        cr_assert(a->b.all.n <= 256);
        for (uint32_t i = 0; i < a->b.all.n; i++) {
            int v = branch_value(&r, a->b.all.at[i].name);
            low[i] = v > 0;
            high[i] = v != 0;
        }
        for (int p = 0; p < PARAMS; p++) {
            const struct gradient *g = &a->r[0].gradient[p];
            bool is = reached[r.now[FIRST_PARAM + p]];
            present[p] += is;
            bool may = bdd_eval(diagrams, g->may, low) && bdd_eval(diagrams, g->may, high);
            bool must = bdd_eval(diagrams, g->must, low) || bdd_eval(diagrams, g->must, high);
            if (must && !is)
                cr_assert_fail("v%d: must, but has none in execution %d (%s, %s)\n%s",
                               FIRST_PARAM + p, runs, grad_class_name(g->class),
                               g->guard ? g->guard : "-", m->text);
            if (is && !may)
                cr_assert_fail("v%d: may not, but has one in execution %d (%s, %s)\n%s",
                               FIRST_PARAM + p, runs, grad_class_name(g->class),
                               g->guard ? g->guard : "-", m->text);
        }
        complete = !next_choices(&r);
    } while (!complete && ++runs < MAX_EXECUTIONS);
    runs += complete;
    t->models++;
    t->executions += runs;
    for (int p = 0; p < PARAMS; p++) {
        const struct gradient *g = &a->r[0].gradient[p];
        t->conditional += g->class == GRAD_CONDITIONAL;
        t->exact += g->class == GRAD_CONDITIONAL && g->exact;
        if (!m->plain || !complete) continue;
        t->plain++;
        enum grad_class class = present[p] == runs ? GRAD_ALWAYS
                                : present[p]       ? GRAD_CONDITIONAL
                                                   : GRAD_NEVER;
        cr_assert_eq(g->class, class, "v%d is %s (%s), brute force says %s in %d of %d\n%s",
                     FIRST_PARAM + p, grad_class_name(g->class), g->guard ? g->guard : "-",
                     grad_class_name(class), present[p], runs, m->text);
        cr_assert(g->exact, "v%d is not exact\n%s", FIRST_PARAM + p, m->text);
    }
}

static struct tally try_models(uint64_t first_seed, int n, bool plain) {
    static struct model m;
    struct tally t = {0};
    for (int i = 0; i < n; i++) {
        seed = first_seed + (uint64_t)i * 7919;
        dice(2), dice(2);
        new_model(&m, plain);
        struct analysed a = {0};
        analyse(&a, m.text);
        cr_assert_eq(a.p.params.n, (uint32_t)PARAMS);
        compare(&m, &a, &t);
        analysed_free(&a);
    }
    printf("%d models, %d executions, %d conditional parameters (%d exact), %d compared exactly\n",
           t.models, t.executions, t.conditional, t.exact, t.plain);
    return t;
}

Test(reach_oracle, visible_branches_are_exact) {
    struct tally t = try_models(1, 2000, true);
    cr_assert(t.plain > 4000);
    cr_assert(t.conditional > 500);
}

Test(reach_oracle, must_and_may_hold_in_every_execution) {
    struct tally t = try_models(1000003, 3000, false);
    cr_assert(t.conditional > 1000);
    cr_assert(t.exact > 500);
}
