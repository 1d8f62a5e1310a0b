/* Value numbering and loop levels, for the conditions of control flow.
 *
 * Two `Greater(x, half)` are one branch, not two: a layer that is used when the one holds and
 * another that is used when it does not are never both absent. So values are numbered by what
 * computes them - operator, attributes, numbers of the inputs - and equal ones share a variable:
 * exporters write the same arithmetic, and the same constant, again at each use. Only what stands
 * at most NEAR steps before a condition is numbered: further back copies are rare, and models are
 * large. Random operators are never numbered: two executions of one node give two values. Of
 * integers `a > b` and `a <= b` are opposites; of floats they are not, because of NaN, and stay two
 * branches.
 *
 * A boolean inside a loop's body may have another value in each trip. A value's level is the depth
 * of the innermost loop on whose carried values, trip number, scan slices or random operators it
 * depends; 0 means that all trips see one value. Where levels are not known exactly they are too
 * deep, never too shallow: a deeper level only forgets that two trips agree.
 *
 * A walk backwards finds what is near, one in execution order fills all tables. */
#include "numbering.h"
#include "facts.h"

#include <string.h>

enum {
    MAX_NUMBERED_BYTES = 512, /* of a constant's text */
    NEAR = 16,                /* operators, not counting logic */
    EVALUATED_DEPTH = 8,      /* operators between a condition and the numbers that decide it */
};

struct walk {
    struct numbering *n;
    const struct ir_module *m;
    uint8_t *near;      /* by value: how many steps further back is still near a condition, + 1 */
    VEC(ir_node) slots; /* hash table of numbered nodes; n is its size, a power of two */
    uint32_t used;
};

static const struct {
    const char *op;
    enum logic logic;
} logic_ops[] = {
    {"Identity", LOGIC_COPY},
    {"Reshape", LOGIC_SHAPE},
    {"Squeeze", LOGIC_SHAPE},
    {"Unsqueeze", LOGIC_SHAPE},
    {"Flatten", LOGIC_SHAPE},
    {"Cast", LOGIC_CAST},
    {"Not", LOGIC_NOT},
    {"And", LOGIC_AND},
    {"Or", LOGIC_OR},
    {"Xor", LOGIC_XOR},
    {"Equal", LOGIC_EQUAL},
    {"Greater", LOGIC_GREATER},
    {"Less", LOGIC_LESS},
    {"GreaterOrEqual", LOGIC_GREATER_OR_EQUAL},
    {"LessOrEqual", LOGIC_LESS_OR_EQUAL},
    {"Constant", LOGIC_CONSTANT},
    {"Add", LOGIC_ADD},
    {"Sub", LOGIC_SUB},
    {"Mul", LOGIC_MUL},
    {"Mod", LOGIC_MOD},
};

enum logic numbering_logic(const struct numbering *n, ir_node node) {
    uint32_t def = n->m->node.at[node].def;
    return def < n->n_logic ? n->logic[def] : LOGIC_OTHER;
}

/* ---- numbers that constants decide ------------------------------------------------------------ */

static bool is_integer(const struct ir_module *m, ir_value v) {
    enum ir_dtype t = ir_type_dtype(m, m->value.at[v].type);
    return t == IR_BOOL || t == IR_INT32 || t == IR_INT64;
}

/* Of small numbers: nothing overflows, in int32 neither. */
static bool compute(enum logic l, int64_t x, int64_t y, int64_t *out) {
    enum { SMALL = 1 << 15 };
    if (x <= -SMALL || x >= SMALL || y <= -SMALL || y >= SMALL) return false;
    switch (l) {
    case LOGIC_AND: *out = x && y; return true;
    case LOGIC_OR: *out = x || y; return true;
    case LOGIC_XOR: *out = !x != !y; return true;
    case LOGIC_EQUAL: *out = x == y; return true;
    case LOGIC_GREATER: *out = x > y; return true;
    case LOGIC_LESS: *out = x < y; return true;
    case LOGIC_GREATER_OR_EQUAL: *out = x >= y; return true;
    case LOGIC_LESS_OR_EQUAL: *out = x <= y; return true;
    case LOGIC_ADD: *out = x + y; return true;
    case LOGIC_SUB: *out = x - y; return true;
    case LOGIC_MUL: *out = x * y; return true;
    case LOGIC_MOD: /* where both kinds of remainder agree */
        if (x < 0 || y <= 0) return false;
        *out = x % y;
        return true;
    default: return false;
    }
}

static bool evaluate(const struct numbering *n, ir_value v, const struct trip *t, uint32_t depth,
                     int64_t *out) {
    const struct ir_module *m = n->m;
    const struct ir_value_info *value = &m->value.at[v];
    if (v && t && (v == t->number_of || v == t->going)) {
        *out = v == t->going ? 1 : t->number;
        return true;
    }
    if (facts_number(m, v, out)) return true;
    if (!v || value->def != IR_DEF_NODE || depth == 0 || !is_integer(m, v)) return false;
    ir_value a = ir_input(m, value->node, 0), b = ir_input(m, value->node, 1);
    enum logic l = numbering_logic(n, value->node);
    int64_t x, y;
    if (l == LOGIC_OTHER || !is_integer(m, a) || !evaluate(n, a, t, depth - 1, &x)) return false;
    if (l == LOGIC_COPY || l == LOGIC_SHAPE || l == LOGIC_CAST || l == LOGIC_NOT) {
        bool flag = l == LOGIC_CAST && ir_type_dtype(m, value->type) == IR_BOOL;
        *out = l == LOGIC_NOT ? !x : flag ? x != 0 : x;
        return true;
    }
    return is_integer(m, b) && evaluate(n, b, t, depth - 1, &y) && compute(l, x, y, out);
}

bool numbering_evaluate(const struct numbering *n, ir_value v, const struct trip *t, int64_t *out) {
    return evaluate(n, v, t, EVALUATED_DEPTH, out);
}

/* ---- value numbering ------------------------------------------------------------------------- */

static bool attr_equal(const struct ir_module *m, ir_attr a, ir_attr b) {
    const struct ir_attr_info *x = &m->attr.at[a], *y = &m->attr.at[b];
    if (x->name != y->name || x->kind != y->kind || x->ref || y->ref || x->n_values != y->n_values)
        return false;
    for (uint32_t i = 0; i < x->n_values; i++) {
        const union ir_attr_value *u = &m->attr_value.at[x->values + i];
        const union ir_attr_value *v = &m->attr_value.at[y->values + i];
        switch (x->kind) {
        case IR_ATTR_INT:
        case IR_ATTR_INTS:
            if (u->i != v->i) return false;
            break;
        case IR_ATTR_FLOAT:
        case IR_ATTR_FLOATS:
            if (memcmp(&u->f, &v->f, sizeof u->f)) return false;
            break;
        case IR_ATTR_STRING:
            if (u->s != v->s) return false;
            break;
        case IR_ATTR_TENSOR: {
            if (u->tensor.type != v->tensor.type ||
                m->data.at[u->tensor.data].kind != IR_DATA_LITERALS ||
                m->data.at[v->tensor.data].kind != IR_DATA_LITERALS)
                return false;
            enum ir_dtype dtype = ir_type_dtype(m, u->tensor.type);
            struct ir_bytes c = ir_data_bytes(m, u->tensor.data, dtype);
            struct ir_bytes d = ir_data_bytes(m, v->tensor.data, dtype);
            if (c.n != d.n || c.n > MAX_NUMBERED_BYTES || memcmp(c.at, d.at, c.n)) return false;
            break;
        }
        default: return false;
        }
    }
    return true;
}

/* What a node computes: its operator and the numbers of its inputs, mirrored and sorted where that
 * changes nothing. */
struct key {
    uint32_t op; /* a definition; MIRRORED and a logic for an inequality */
    ir_value a, b;
    uint32_t n_inputs;
};
#define MIRRORED 0x80000000u

static struct key key_of(const struct walk *w, ir_node n) {
    const struct ir_node_info *node = &w->m->node.at[n];
    ir_value a = ir_input(w->m, n, 0), b = ir_input(w->m, n, 1);
    struct key k = {node->def, w->n->same[a], w->n->same[b], node->n_inputs};
    enum logic l = numbering_logic(w->n, n);
    bool mirrored = l == LOGIC_GREATER || l == LOGIC_GREATER_OR_EQUAL;
    bool symmetric = l == LOGIC_AND || l == LOGIC_OR || l == LOGIC_XOR || l == LOGIC_EQUAL;
    if (mirrored || (symmetric && k.a > k.b)) {
        ir_value swap = k.a;
        k.a = k.b, k.b = swap;
    }
    if (mirrored) k.op = l == LOGIC_GREATER ? LOGIC_LESS : LOGIC_LESS_OR_EQUAL;
    if (l == LOGIC_LESS || l == LOGIC_LESS_OR_EQUAL) k.op = l;
    if (mirrored || l == LOGIC_LESS || l == LOGIC_LESS_OR_EQUAL) k.op |= MIRRORED;
    return k;
}

static bool keys_equal(struct key j, struct key k) {
    return j.op == k.op && j.a == k.a && j.b == k.b && j.n_inputs == k.n_inputs;
}

/* The line of the program is no part of what is computed. */
static bool is_place(const struct ir_module *m, ir_attr a) {
    return strcmp(ir_text(m, m->attr.at[a].name), "source") == 0;
}

static bool nodes_equal(const struct walk *w, ir_node x, ir_node y) {
    const struct ir_node_info *a = &w->m->node.at[x], *b = &w->m->node.at[y];
    if (!keys_equal(key_of(w, x), key_of(w, y))) return false;
    for (uint32_t i = 2; i < a->n_inputs; i++)
        if (w->n->same[ir_input(w->m, x, i)] != w->n->same[ir_input(w->m, y, i)]) return false;
    for (uint32_t i = 0, j = 0;; i++, j++) {
        while (i < a->n_attrs && is_place(w->m, a->attrs + i)) i++;
        while (j < b->n_attrs && is_place(w->m, b->attrs + j)) j++;
        if (i == a->n_attrs || j == b->n_attrs) return i == a->n_attrs && j == b->n_attrs;
        if (!attr_equal(w->m, a->attrs + i, b->attrs + j)) return false;
    }
}

/* A constant is numbered if its text is small. */
static bool small_constant(const struct ir_module *m, ir_node n) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_of_value(m, n)];
    if (a->ref || a->n_values != 1) return false;
    if (a->kind != IR_ATTR_TENSOR) return a->kind == IR_ATTR_INT || a->kind == IR_ATTR_FLOAT;
    const struct ir_data_info *d = &m->data.at[m->attr_value.at[a->values].tensor.data];
    return d->kind == IR_DATA_LITERALS && d->length <= MAX_NUMBERED_BYTES;
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) {
    for (const uint8_t *b = bytes; n-- > 0; b++) h = (h ^ *b) * 0x100000001B3u;
    return h;
}

static uint64_t hash_attr(const struct ir_module *m, uint64_t h, const struct ir_attr_info *a) {
    for (uint32_t i = 0; i < a->n_values; i++) {
        const union ir_attr_value *v = &m->attr_value.at[a->values + i];
        if (a->kind == IR_ATTR_TENSOR) {
            if (m->data.at[v->tensor.data].kind != IR_DATA_LITERALS) continue;
            struct ir_bytes d = ir_data_bytes(m, v->tensor.data, ir_type_dtype(m, v->tensor.type));
            if (d.n <= MAX_NUMBERED_BYTES) h = hash_bytes(h ^ v->tensor.type, d.at, d.n);
        } else if (a->kind == IR_ATTR_INT || a->kind == IR_ATTR_INTS)
            h = hash_bytes(h, &v->i, sizeof v->i);
        else if (a->kind == IR_ATTR_FLOAT || a->kind == IR_ATTR_FLOATS)
            h = hash_bytes(h, &v->f, sizeof v->f);
        else if (a->kind == IR_ATTR_STRING)
            h = hash_bytes(h, &v->s, sizeof v->s);
    }
    return h;
}

static uint64_t hash_key(struct key k) {
    return k.op * 0x9E3779B97F4A7C15u ^ k.a * 0xC2B2AE3D27D4EB4Fu ^ k.b * 0x165667B19E3779F9u;
}

static uint32_t mix(uint64_t h) {
    h ^= h >> 31;
    h *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

/* Inequalities have two inputs and no attributes: their hash is that of the key. */
static uint32_t hash_node(const struct walk *w, ir_node n) {
    const struct ir_node_info *node = &w->m->node.at[n];
    uint64_t h = hash_key(key_of(w, n));
    for (uint32_t i = 2; i < node->n_inputs; i++) {
        ir_value v = w->n->same[ir_input(w->m, n, i)];
        h = hash_bytes(h, &v, sizeof v);
    }
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (!is_place(w->m, node->attrs + i))
            h = hash_attr(w->m, h, &w->m->attr.at[node->attrs + i]);
    return mix(h);
}

/* The slot of an equal node, or the free one where it belongs. */
static ir_node *slot_of(struct walk *w, ir_node n) {
    uint32_t i = hash_node(w, n);
    for (;; i++) {
        ir_node *slot = &w->slots.at[i & (w->slots.n - 1)];
        if (!*slot || nodes_equal(w, *slot, n)) return slot;
    }
}

/* For an inequality of integers: the earlier value that is true where it is false, or 0. */
static ir_value opposite_of(struct walk *w, ir_node n) {
    struct key k = key_of(w, n);
    if (!(k.op & MIRRORED) ||
        ir_type_carries_gradient(w->m, w->m->value.at[ir_input(w->m, n, 0)].type))
        return 0;
    bool less = k.op == (MIRRORED | LOGIC_LESS);
    struct key other = {MIRRORED | (less ? LOGIC_LESS_OR_EQUAL : LOGIC_LESS), k.b, k.a, 2};
    for (uint32_t i = mix(hash_key(other));; i++) {
        ir_node slot = w->slots.at[i & (w->slots.n - 1)];
        if (!slot) return 0;
        if (keys_equal(key_of(w, slot), other)) return ir_outputs(w->m, slot)[0];
    }
}

static void grow_slots(struct walk *w) {
    if (w->used * 2 < w->slots.n) return;
    ir_node *old = w->slots.at;
    uint32_t n_old = w->slots.n, n = n_old ? n_old * 2 : 64;
    w->slots.at = NULL;
    w->slots.n = w->slots.cap = 0;
    memset(vec_extend(&w->slots, n), 0, n * sizeof *old);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i]) *slot_of(w, old[i]) = old[i];
    vec_release_(old);
}

static void number_node(struct walk *w, ir_node n) {
    ir_value out = ir_outputs(w->m, n)[0];
    grow_slots(w);
    ir_node *slot = slot_of(w, n);
    if (*slot)
        w->n->same[out] = w->n->same[ir_outputs(w->m, *slot)[0]];
    else {
        w->n->opposite[out] = opposite_of(w, n);
        *slot = n, w->used++;
    }
}

/* ---- what is near a condition ---------------------------------------------------------------- */

static void near(struct walk *w, ir_value v, uint8_t steps) {
    if (w->near[v] < steps) w->near[v] = steps;
}

static void near_graph(struct walk *w, ir_graph g) {
    const struct ir_module *m = w->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        ir_node n = m->node_list.at[graph->nodes + i];
        const struct ir_node_info *node = &m->node.at[n];
        const struct control *c = control_of(w->n->control, n);
        const ir_value *in = ir_inputs(m, n), *out = ir_outputs(m, n);
        if (!c) {
            uint8_t steps = node->n_outputs ? w->near[out[0]] : 0;
            if (!steps) continue;
            steps -= !w->n->boolish[out[0]];
            for (uint32_t k = 0; k < node->n_inputs; k++) near(w, in[k], steps);
            continue;
        }
        /* The condition; the trip count and the start; what is scanned. */
        uint32_t decide = c->kind == CONTROL_IF ? 1 : c->kind == CONTROL_LOOP ? 2 : node->n_inputs;
        for (uint32_t k = 0; k < decide && k < node->n_inputs; k++) near(w, in[k], NEAR);
        if (c->kind == CONTROL_LOOP) near(w, control_graph_output(m, c->body, 0), NEAR);
        for (uint32_t o = 0; c->kind == CONTROL_IF && o < node->n_outputs; o++) {
            near(w, control_graph_output(m, c->body, o), w->near[out[o]]);
            near(w, control_graph_output(m, c->otherwise, o), w->near[out[o]]);
        }
        uint32_t inner = 0;
        while (control_graph(m, n, inner)) inner++;
        while (inner-- > 0) near_graph(w, control_graph(m, n, inner));
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool is_bool(const struct ir_module *m, ir_value v) {
    return ir_type_dtype(m, m->value.at[v].type) == IR_BOOL;
}

static uint16_t deeper(uint16_t a, uint16_t b) { return a > b ? a : b; }

static bool walk_graph(struct walk *w, ir_graph g, uint16_t depth);

/* True if a random operator is inside. */
static bool walk_control(struct walk *w, const struct control *c, uint16_t depth, uint16_t *level) {
    const struct ir_module *m = w->m;
    struct numbering *n = w->n;
    ir_graph inner;
    bool random = false, loop = control_is_loop(c);
    if (loop)
        for (uint32_t i = 0; i < m->graph.at[c->body].n_inputs; i++)
            n->level[control_graph_input(m, c->body, i)] = depth + 1;
    for (uint32_t k = 0; (inner = control_graph(m, c->node, k)); k++)
        random |= walk_graph(w, inner, depth + loop);
    if (c->kind == CONTROL_IF)
        for (uint32_t k = 0; k < m->node.at[c->node].n_outputs; k++) {
            ir_value yes = control_graph_output(m, c->body, k);
            ir_value no = control_graph_output(m, c->otherwise, k);
            n->level[ir_outputs(m, c->node)[k]] = deeper(n->level[yes], n->level[no]);
        }
    for (uint32_t i = 0; i < c->captures.n; i++)
        *level = deeper(*level, n->level[c->captures.at[i]]);
    if (random && c->kind != CONTROL_IF) *level = depth;
    return random;
}

static bool walk_graph(struct walk *w, ir_graph g, uint16_t depth) {
    const struct ir_module *m = w->m;
    struct numbering *n = w->n;
    const struct ir_graph_info *graph = &m->graph.at[g];
    bool any_random = false;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node at = m->node_list.at[graph->nodes + i];
        const struct ir_node_info *node = &m->node.at[at];
        uint32_t flags = op_get(n->ops, node->def)->flags;
        bool random = flags & (OP_RANDOM | OP_ASSUMED);
        uint16_t level = random ? depth : 0;
        const ir_value *in = ir_inputs(m, at), *out = ir_outputs(m, at);
        for (uint32_t k = 0; k < node->n_inputs; k++) level = deeper(level, n->level[in[k]]);
        const struct control *c = control_of(n->control, at);
        if (c) random |= walk_control(w, c, depth, &level);
        any_random |= random;
        for (uint32_t k = 0; k < node->n_outputs; k++)
            n->level[out[k]] = deeper(n->level[out[k]], level);
        if (!node->n_outputs || !out[0]) continue;
        enum logic l = numbering_logic(n, at);
        n->boolish[out[0]] =
            is_bool(m, out[0]) || (node->n_inputs && n->boolish[in[0]] &&
                                   (l == LOGIC_COPY || l == LOGIC_SHAPE || l == LOGIC_CAST));
        if (l == LOGIC_COPY && node->n_inputs)
            n->same[out[0]] = n->same[in[0]];
        else if (node->n_outputs == 1 && !random && !c && w->near[out[0]] &&
                 (l != LOGIC_CONSTANT || small_constant(m, at)))
            number_node(w, at);
    }
    return any_random;
}

void numbering_make(struct numbering *n, const struct ir_module *m, const struct op_table *ops,
                    const struct control_flow *control, struct arena *a) {
    *n = (struct numbering){.m = m, .ops = ops, .control = control, .n_logic = ops->n_defs};
    n->logic = arena_new(a, uint8_t, n->n_logic);
    for (size_t i = 0; i < sizeof logic_ops / sizeof *logic_ops; i++) {
        uint32_t def = op_find(ops, "", logic_ops[i].op);
        if (def && def < n->n_logic) n->logic[def] = logic_ops[i].logic;
    }
    n->same = arena_new(a, ir_value, m->value.n);
    n->opposite = arena_new(a, ir_value, m->value.n);
    n->level = arena_new(a, uint16_t, m->value.n);
    n->boolish = arena_new(a, bool, m->value.n);
    for (ir_value v = 0; v < m->value.n; v++) {
        n->same[v] = v;
        n->boolish[v] = is_bool(m, v);
    }
    struct arena scratch = {0};
    struct walk w = {.n = n, .m = m, .near = arena_new(&scratch, uint8_t, m->value.n)};
    near_graph(&w, m->main);
    walk_graph(&w, m->main, 0);
    vec_free(&w.slots);
    arena_free(&scratch);
}
