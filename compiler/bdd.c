/* Reduced ordered binary decision diagrams.
 *
 * A node is (variable, low, high): the function is `low` where the variable is false and `high`
 * where it is true. Nodes are made only by `make`, which never makes one with equal children and
 * finds an equal older node through a hash table; so equal functions are equal handles, and
 * comparing is ==. Every binary operator is one case of ite(c, a, b) = c ? a : b. There are no
 * complement edges: a negation costs a walk, but handles stay plain and the printed covers easy to
 * follow.
 *
 * A model may have thousands of branches in a chain, so a diagram may be thousands of levels deep:
 * no function here recurses over a diagram. ite and the quantifiers keep their frames in `stack`,
 * which they share - a quantifier calls ite with its own frames below - and which grows on the
 * heap. (The cover of bdd_text recurses, but only to a fixed depth.)
 *
 * Nothing is ever collected: a compilation makes few nodes, and the limit bounds memory. A limit of
 * nodes alone does not bound time, because an operation on two large diagrams may find every node
 * it makes already there; so steps are limited too, in proportion. Both limits end in BDD_OVERFLOW.
 */
#include "bdd.h"

#include <string.h>

enum { LEAF = UINT32_MAX }; /* the variable of the two constants: below every other */
enum { STEPS_PER_NODE = 64, STEPS_AT_LEAST = 1 << 20 };
enum { CACHE_MIN_BITS = 10, CACHE_MAX_BITS = 20 };

struct node {
    uint32_t variable;
    bdd low, high;
    uint32_t next; /* in the chain of its hash slot; 0 ends it (a constant is in no chain) */
};

enum op { OP_NONE, OP_ITE, OP_EXISTS, OP_FORALL };

/* Remembers results; a newer one takes an older one's place. Keys: for ite the three functions; for
 * the quantifiers the function and the range. */
struct cached {
    uint32_t op, f, g, h;
    bdd result;
};

/* A suspended step: its low half is being computed (or, when has_low, its high half). */
struct frame {
    uint32_t f, g, h;
    uint32_t variable;
    bdd low, high_f, high_g, high_h; /* the second question, and the first one's answer */
    bool has_low;
};

struct bdd_manager {
    VEC(struct node) node;
    uint32_t *slots, n_slots; /* heads of the chains; a power of two */
    struct cached *cache;
    uint32_t n_cache; /* a power of two */
    VEC(struct frame) stack;
    uint32_t max_nodes;
    uint64_t steps, max_steps;
    uint32_t *mark; /* by node: the last visit that saw it */
    uint32_t n_mark, visit;
};

struct bdd_manager *bdd_new(uint32_t max_nodes) {
    struct bdd_manager *m = vec_grow_(NULL, 0, 1, &(uint32_t){0}, sizeof *m);
    memset(m, 0, sizeof *m);
    m->max_nodes = max_nodes;
    m->max_steps = (uint64_t)max_nodes * STEPS_PER_NODE + STEPS_AT_LEAST;
    vec_push(&m->node, ((struct node){LEAF, BDD_FALSE, BDD_FALSE, 0}));
    vec_push(&m->node, ((struct node){LEAF, BDD_TRUE, BDD_TRUE, 0}));
    return m;
}

void bdd_free(struct bdd_manager *m) {
    if (!m) return;
    vec_free(&m->node);
    vec_free(&m->stack);
    vec_release_(m->slots);
    vec_release_(m->cache);
    vec_release_(m->mark);
    vec_release_(m);
}

uint32_t bdd_node_count(const struct bdd_manager *m) { return m->node.n; }

uint32_t bdd_top(const struct bdd_manager *m, bdd a, bdd *low, bdd *high) {
    const struct node *n = &m->node.at[a];
    *low = n->low;
    *high = n->high;
    return n->variable;
}

static void *zeroed(uint32_t n, size_t size) {
    void *p = vec_grow_(NULL, 0, n, &(uint32_t){0}, size);
    return memset(p, 0, n * size);
}

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c) {
    uint64_t h = (a * 0x9E3779B97F4A7C15u) ^ (b * 0xC2B2AE3D27D4EB4Fu) ^ (c * 0x165667B19E3779F9u);
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

/* Keeps a chain near one node long, and the cache about as large as the diagrams. */
static void grow_tables(struct bdd_manager *m) {
    if (m->node.n < m->n_slots) return;
    m->n_slots = m->n_slots ? m->n_slots * 2 : 1u << CACHE_MIN_BITS;
    vec_release_(m->slots);
    m->slots = zeroed(m->n_slots, sizeof *m->slots);
    for (uint32_t i = 2; i < m->node.n; i++) {
        struct node *n = &m->node.at[i];
        uint32_t *slot = &m->slots[hash(n->variable, n->low, n->high) & (m->n_slots - 1)];
        n->next = *slot;
        *slot = i;
    }
    if (m->n_slots > 1u << CACHE_MAX_BITS) return;
    struct cached *old = m->cache;
    uint32_t n_old = m->n_cache;
    m->n_cache = m->n_slots;
    m->cache = zeroed(m->n_cache, sizeof *m->cache);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].op)
            m->cache[hash(old[i].f ^ old[i].op, old[i].g, old[i].h) & (m->n_cache - 1)] = old[i];
    vec_release_(old);
}

static bdd make(struct bdd_manager *m, uint32_t variable, bdd low, bdd high) {
    if (low == high) return low;
    grow_tables(m);
    uint32_t *slot = &m->slots[hash(variable, low, high) & (m->n_slots - 1)];
    for (uint32_t i = *slot; i; i = m->node.at[i].next) {
        const struct node *n = &m->node.at[i];
        if (n->variable == variable && n->low == low && n->high == high) return i;
    }
    if (m->node.n >= m->max_nodes) return BDD_OVERFLOW;
    vec_push(&m->node, ((struct node){variable, low, high, *slot}));
    return *slot = m->node.n - 1;
}

static struct cached *cache_slot(struct bdd_manager *m, enum op op, uint32_t f, uint32_t g,
                                 uint32_t h) {
    grow_tables(m);
    return &m->cache[hash(f ^ op, g, h) & (m->n_cache - 1)];
}
static bool cache_find(struct bdd_manager *m, enum op op, uint32_t f, uint32_t g, uint32_t h,
                       bdd *out) {
    const struct cached *c = cache_slot(m, op, f, g, h);
    if (c->op != op || c->f != f || c->g != g || c->h != h) return false;
    *out = c->result;
    return true;
}
static void cache_put(struct bdd_manager *m, enum op op, uint32_t f, uint32_t g, uint32_t h,
                      bdd result) {
    *cache_slot(m, op, f, g, h) = (struct cached){op, f, g, h, result};
}

bdd bdd_var(struct bdd_manager *m, uint32_t variable) {
    return make(m, variable, BDD_FALSE, BDD_TRUE);
}

static uint32_t variable_of(const struct bdd_manager *m, bdd a) { return m->node.at[a].variable; }
static bdd cofactor(const struct bdd_manager *m, bdd a, uint32_t variable, bool value) {
    const struct node *n = &m->node.at[a];
    return n->variable != variable ? a : value ? n->high : n->low;
}

/* ---- ite ------------------------------------------------------------------------------------- */

/* Rewrites a question to the one form in which it is cached; true if it is already answered. */
static bool ite_simple(bdd *c, bdd *a, bdd *b, bdd *result) {
    if (*a == *c) *a = BDD_TRUE;
    if (*b == *c) *b = BDD_FALSE;
    if (*c <= BDD_TRUE || *a == *b)
        *result = *c == BDD_FALSE ? *b : *a;
    else if (*a == BDD_TRUE && *b == BDD_FALSE)
        *result = *c;
    else {
        if ((*a == BDD_TRUE && *b < *c)) { /* c || b */
            bdd swap = *b;
            *b = *c, *c = swap;
        } else if (*b == BDD_FALSE && *a < *c) { /* c && a */
            bdd swap = *a;
            *a = *c, *c = swap;
        }
        return false;
    }
    return true;
}

bdd bdd_ite(struct bdd_manager *m, bdd c, bdd a, bdd b) {
    if (c == BDD_OVERFLOW || a == BDD_OVERFLOW || b == BDD_OVERFLOW) return BDD_OVERFLOW;
    uint32_t base = m->stack.n;
    for (;;) {
        /* Down: answer (c, a, b), or suspend it and ask its low half. */
        bdd result;
        if (!ite_simple(&c, &a, &b, &result) && !cache_find(m, OP_ITE, c, a, b, &result)) {
            if (++m->steps > m->max_steps) break;
            uint32_t v = variable_of(m, c);
            if (variable_of(m, a) < v) v = variable_of(m, a);
            if (variable_of(m, b) < v) v = variable_of(m, b);
            struct frame f = {.f = c, .g = a, .h = b, .variable = v};
            f.high_f = cofactor(m, c, v, true);
            f.high_g = cofactor(m, a, v, true);
            f.high_h = cofactor(m, b, v, true);
            vec_push(&m->stack, f);
            c = cofactor(m, c, v, false);
            a = cofactor(m, a, v, false);
            b = cofactor(m, b, v, false);
            continue;
        }
        /* Up: give the answer to the frames that have both halves now. */
        for (;;) {
            if (m->stack.n == base) return result;
            struct frame *f = &m->stack.at[m->stack.n - 1];
            if (!f->has_low) {
                f->has_low = true;
                f->low = result;
                c = f->high_f, a = f->high_g, b = f->high_h;
                break;
            }
            result = make(m, f->variable, f->low, result);
            if (result == BDD_OVERFLOW) goto overflow;
            cache_put(m, OP_ITE, f->f, f->g, f->h, result);
            m->stack.n--;
        }
    }
overflow:
    m->stack.n = base;
    return BDD_OVERFLOW;
}

bdd bdd_not(struct bdd_manager *m, bdd a) { return bdd_ite(m, a, BDD_FALSE, BDD_TRUE); }
bdd bdd_and(struct bdd_manager *m, bdd a, bdd b) { return bdd_ite(m, a, b, BDD_FALSE); }
bdd bdd_or(struct bdd_manager *m, bdd a, bdd b) { return bdd_ite(m, a, BDD_TRUE, b); }
bdd bdd_xor(struct bdd_manager *m, bdd a, bdd b) { return bdd_ite(m, a, bdd_not(m, b), b); }
bool bdd_implies(struct bdd_manager *m, bdd a, bdd b) {
    return bdd_ite(m, a, b, BDD_TRUE) == BDD_TRUE;
}

/* ---- quantifiers ----------------------------------------------------------------------------- */

static bdd quantify(struct bdd_manager *m, enum op op, bdd a, uint32_t first, uint32_t last) {
    if (a == BDD_OVERFLOW) return BDD_OVERFLOW;
    const bdd decided = op == OP_EXISTS ? BDD_TRUE : BDD_FALSE;
    uint32_t base = m->stack.n;
    for (;;) {
        bdd result = a;
        /* Variables grow downwards: from `last` on nothing is left to project. */
        if (a > BDD_TRUE && variable_of(m, a) < last &&
            !cache_find(m, op, a, first, last, &result)) {
            if (++m->steps > m->max_steps) goto overflow;
            struct frame f = {.f = a, .variable = variable_of(m, a)};
            f.high_f = cofactor(m, a, f.variable, true);
            vec_push(&m->stack, f);
            a = cofactor(m, a, f.variable, false);
            continue;
        }
        for (;;) {
            if (m->stack.n == base) return result;
            struct frame f = m->stack.at[m->stack.n - 1];
            bool projected = f.variable >= first;
            if (!f.has_low && !(projected && result == decided)) {
                m->stack.at[m->stack.n - 1].has_low = true;
                m->stack.at[m->stack.n - 1].low = result;
                a = f.high_f;
                break;
            }
            if (f.has_low && !projected)
                result = make(m, f.variable, f.low, result);
            else if (f.has_low)
                result = op == OP_EXISTS ? bdd_or(m, f.low, result) : bdd_and(m, f.low, result);
            if (result == BDD_OVERFLOW) goto overflow;
            cache_put(m, op, f.f, first, last, result);
            m->stack.n--;
        }
    }
overflow:
    m->stack.n = base;
    return BDD_OVERFLOW;
}

bdd bdd_exists(struct bdd_manager *m, bdd a, uint32_t first, uint32_t last) {
    return quantify(m, OP_EXISTS, a, first, last);
}
bdd bdd_forall(struct bdd_manager *m, bdd a, uint32_t first, uint32_t last) {
    return quantify(m, OP_FORALL, a, first, last);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool bdd_eval(const struct bdd_manager *m, bdd a, const bool *assignment) {
    while (a > BDD_TRUE) a = cofactor(m, a, variable_of(m, a), assignment[variable_of(m, a)]);
    return a == BDD_TRUE;
}

/* Marks are in the manager, so that asking costs what the function is large, not what all are; they
 * are no part of its value. */
void bdd_support_of(const struct bdd_manager *manager, bdd a, bdd_support *out) {
    struct bdd_manager *m = (struct bdd_manager *)manager;
    if (a == BDD_OVERFLOW || a <= BDD_TRUE) return;
    if (m->n_mark < m->node.n) {
        vec_release_(m->mark);
        m->n_mark = m->node.n + m->node.n / 2;
        m->mark = zeroed(m->n_mark, sizeof *m->mark);
        m->visit = 0;
    }
    m->visit++;
    uint32_t start = out->n;
    VEC(bdd) todo = {0};
    vec_push(&todo, a);
    while (todo.n) {
        bdd f = todo.at[--todo.n];
        if (f <= BDD_TRUE || m->mark[f] == m->visit) continue;
        m->mark[f] = m->visit;
        vec_push(out, m->node.at[f].variable);
        vec_push(&todo, m->node.at[f].low);
        vec_push(&todo, m->node.at[f].high);
    }
    vec_free(&todo);
    /* Sort and drop repetitions: heapsort, for its bound and its constant stack. */
    uint32_t *v = out->at + start, n = out->n - start;
    for (uint32_t built = n / 2, end = n; end > 1;) {
        if (built)
            built--;
        else {
            uint32_t top = v[--end];
            v[end] = v[0], v[0] = top;
        }
        for (uint32_t i = built, child; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && v[child + 1] > v[child]) child++;
            if (v[i] >= v[child]) break;
            uint32_t swap = v[i];
            v[i] = v[child], v[child] = swap;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!kept || v[kept - 1] != v[i]) v[kept++] = v[i];
    out->n = start + kept;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A cover is a list of products; a product is a list of literals (variable * 2 + positive) ended by
 * END. It is for people: beyond these bounds it is cut off, and says so. */
enum { MAX_PRODUCTS = 12, MAX_LITERALS = 16, MAX_STEPS = 4096 };
#define END UINT32_MAX
struct cover {
    struct bdd_manager *m;
    VEC(uint32_t) literals;
    uint32_t products, steps, depth;
    uint32_t path[MAX_LITERALS];
    bool cut, cut_product; /* the last product has further literals */
};

static bdd cover_half(struct cover *c, bdd lower, bdd upper, uint32_t literal);

/* Appends products that together are true wherever `lower` is and nowhere outside `upper`, each of
 * them needed; returns their sum. */
static bdd cover(struct cover *c, bdd lower, bdd upper) {
    if (lower == BDD_FALSE || c->cut) return BDD_FALSE;
    if (lower == BDD_OVERFLOW || upper == BDD_OVERFLOW || ++c->steps > MAX_STEPS ||
        c->products >= MAX_PRODUCTS) {
        c->cut = true;
        return BDD_FALSE;
    }
    if (upper == BDD_TRUE || c->depth == MAX_LITERALS) {
        for (uint32_t i = 0; i < c->depth; i++) vec_push(&c->literals, c->path[i]);
        vec_push(&c->literals, END);
        c->products++;
        c->cut = c->cut_product = upper != BDD_TRUE;
        return BDD_TRUE;
    }
    struct bdd_manager *m = c->m;
    uint32_t v = variable_of(m, lower);
    if (variable_of(m, upper) < v) v = variable_of(m, upper);
    bdd l0 = cofactor(m, lower, v, false), l1 = cofactor(m, lower, v, true);
    bdd u0 = cofactor(m, upper, v, false), u1 = cofactor(m, upper, v, true);
    /* What only products with the literal can cover, then what is left without it. */
    bdd f1 = cover_half(c, bdd_and(m, l1, bdd_not(m, u0)), u1, v * 2 + 1);
    bdd f0 = cover_half(c, bdd_and(m, l0, bdd_not(m, u1)), u0, v * 2);
    bdd left = bdd_or(m, bdd_and(m, l0, bdd_not(m, f0)), bdd_and(m, l1, bdd_not(m, f1)));
    bdd rest = cover(c, left, bdd_and(m, u0, u1));
    return bdd_or(m, bdd_ite(m, bdd_var(m, v), f1, f0), rest);
}

static bdd cover_half(struct cover *c, bdd lower, bdd upper, uint32_t literal) {
    c->path[c->depth++] = literal;
    bdd f = cover(c, lower, upper);
    c->depth--;
    return f;
}

const char *bdd_text(struct bdd_manager *m, bdd a, struct arena *out,
                     const char *(*name)(void *context, uint32_t variable), void *context) {
    if (a == BDD_FALSE) return "false";
    if (a == BDD_TRUE) return "true";
    if (a == BDD_OVERFLOW) return "?";
    struct cover c = {.m = m};
    cover(&c, a, a);
    VEC(char) text = {0};
    bool in_product = false;
    for (uint32_t i = 0; i < c.literals.n; i++) {
        uint32_t l = c.literals.at[i];
        if (l == END) {
            in_product = false;
            continue;
        }
        const char *join = in_product ? " && " : text.n ? " || " : "", *sign = l & 1 ? "" : "!";
        const char *parts[] = {join, sign, name(context, l / 2)};
        for (int k = 0; k < 3; k++) {
            size_t n = strlen(parts[k]);
            if (n) memcpy(vec_extend(&text, n), parts[k], n);
        }
        in_product = true;
    }
    if (c.cut) {
        const char *rest = !text.n ? "..." : c.cut_product ? " && ..." : " || ...";
        size_t n = strlen(rest);
        memcpy(vec_extend(&text, n), rest, n);
    }
    const char *result = arena_strndup(out, text.at, text.n);
    vec_free(&text);
    vec_free(&c.literals);
    return result;
}
