/* What operators do to the elements of small integer tensors.
 *
 * The type of the output is known before its elements are computed, and only outputs of up to
 * IR_MAX_INTS integers with fixed sizes get here. So an operator that rearranges is a walk over the
 * output's positions with a stride per axis in the input, and one that computes is a function of two
 * elements, broadcast by the same walk with strides of 0.
 *
 * Arithmetic knows what sizes are: not negative. With a symbol it says what holds for every size
 * (B + 0 is B, B == -1 is false, max(B, 0) is B) and nothing else. What overflows is not known. */
#include "facts.h"
#include "shape_rules.h"
#include <string.h>

typedef struct element (*arithmetic)(struct element a, struct element b);

struct context {
    const struct facts *f;
    ir_node n;
    uint32_t output;
    struct shape shape; /* of the output: all sizes fixed */
    arithmetic compute;
};

struct fold_rule {
    void (*run)(const struct context *c, struct elements *out); /* starts with nothing known */
    arithmetic compute;
    const char *ops; /* separated by spaces */
};

/* ---- arithmetic ------------------------------------------------------------------------------ */

static bool is(struct element e, int64_t n) { return e.known && e.n == n; }
static bool at_most(struct element e, int64_t n) { return e.known && e.n <= n; }

static struct element add(struct element a, struct element b) {
    int64_t sum;
    if (is(a, 0)) return b;
    if (is(b, 0)) return a;
    bool ok = a.known && b.known && !__builtin_add_overflow(a.n, b.n, &sum);
    return ok ? ELEMENT(sum) : ELEMENT_UNKNOWN;
}

static struct element subtract(struct element a, struct element b) {
    int64_t difference;
    if (is(b, 0)) return a;
    if (element_same(a, b)) return ELEMENT(0);
    bool ok = a.known && b.known && !__builtin_sub_overflow(a.n, b.n, &difference);
    return ok ? ELEMENT(difference) : ELEMENT_UNKNOWN;
}

static struct element multiply(struct element a, struct element b) {
    int64_t product;
    if (is(a, 1) || is(b, 0)) return b;
    if (is(b, 1) || is(a, 0)) return a;
    bool ok = a.known && b.known && !__builtin_mul_overflow(a.n, b.n, &product);
    return ok ? ELEMENT(product) : ELEMENT_UNKNOWN;
}

static struct element divide(struct element a, struct element b) {
    if (is(b, 1)) return a;
    bool ok = a.known && b.known && b.n > 0 && (a.n >= 0 || a.n % b.n == 0);
    return ok ? ELEMENT(a.n / b.n) : ELEMENT_UNKNOWN;
}

static struct element modulo(struct element a, struct element b) {
    if (is(b, 1)) return ELEMENT(0);
    bool ok = a.known && b.known && b.n > 0 && a.n >= 0;
    return ok ? ELEMENT(a.n % b.n) : ELEMENT_UNKNOWN;
}

static struct element less(struct element a, struct element b) {
    if (a.known && b.known) return ELEMENT(a.n < b.n);
    if (element_same(a, b) || (a.symbol && at_most(b, 0))) return ELEMENT(0);
    return b.symbol && at_most(a, -1) ? ELEMENT(1) : ELEMENT_UNKNOWN;
}

static struct element negated(struct element a) { return a.known ? ELEMENT(!a.n) : a; }
static struct element greater(struct element a, struct element b) { return less(b, a); }
static struct element not_less(struct element a, struct element b) { return negated(less(a, b)); }
static struct element not_greater(struct element a, struct element b) {
    return negated(less(b, a));
}

static struct element equal(struct element a, struct element b) {
    if (a.known && b.known) return ELEMENT(a.n == b.n);
    if (element_same(a, b)) return ELEMENT(1);
    bool never = (a.symbol && at_most(b, -1)) || (b.symbol && at_most(a, -1));
    return never ? ELEMENT(0) : ELEMENT_UNKNOWN;
}

static struct element larger(struct element a, struct element b) {
    if (a.known && b.known) return a.n > b.n ? a : b;
    if (element_same(a, b) || (a.symbol && at_most(b, 0))) return a;
    return b.symbol && at_most(a, 0) ? b : ELEMENT_UNKNOWN;
}

static struct element smaller(struct element a, struct element b) {
    if (a.known && b.known) return a.n < b.n ? a : b;
    if (element_same(a, b) || (b.symbol && at_most(a, 0))) return a;
    return a.symbol && at_most(b, 0) ? b : ELEMENT_UNKNOWN;
}

static struct element both(struct element a, struct element b) {
    if (is(a, 0) || is(b, 0)) return ELEMENT(0);
    return a.known && b.known ? ELEMENT(1) : ELEMENT_UNKNOWN;
}

static struct element either(struct element a, struct element b) {
    if ((a.known && a.n) || (b.known && b.n)) return ELEMENT(1);
    return a.known && b.known ? ELEMENT(0) : ELEMENT_UNKNOWN;
}

static struct element negative(struct element a, struct element b) {
    (void)b;
    return subtract(ELEMENT(0), a);
}

static struct element magnitude(struct element a, struct element b) {
    (void)b;
    return a.symbol || (a.known && a.n >= 0) ? a : subtract(ELEMENT(0), a);
}

static struct element inverted(struct element a, struct element b) {
    (void)b;
    return negated(a);
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* How far apart neighbours of each axis are. */
static void strides_of(const struct shape *s, int64_t *stride) {
    int64_t next = 1;
    for (int32_t i = s->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= s->dim[i].size;
    }
}

static bool all_fixed(const struct shape *s) {
    for (int32_t i = 0; i < s->rank; i++)
        if (!dim_is_fixed(s->dim[i])) return false;
    return s->rank >= 0;
}

/* The elements of an input and its shape; false unless both are of the same, known size and not 0. */
static bool take(const struct context *c, uint32_t input, struct elements *e, struct shape *s) {
    int64_t n = ir_type_elements(c->f->m, c->f->m->value.at[ir_input(c->f->m, c->n, input)].type);
    return n > 0 && shape_of_input(c->f, c->n, input, s) &&
           facts_elements(c->f, ir_input(c->f->m, c->n, input), e) && e->n == n;
}

/* to[position] = from[offset + position . stride] over all positions of `shape`. */
static void walk(const struct shape *shape, const int64_t *stride, int64_t offset,
                 const struct elements *from, struct elements *to) {
    for (uint32_t i = 0; i < to->n; i++) {
        int64_t rest = i, at = offset;
        for (int32_t k = shape->rank - 1; k >= 0; k--) {
            at += rest % shape->dim[k].size * stride[k];
            rest /= shape->dim[k].size;
        }
        if (at >= 0 && at < from->n) to->at[i] = from->at[at];
    }
}

/* An input, broadcast to the output's shape. */
static bool operand(const struct context *c, uint32_t input, struct elements *out) {
    struct elements e;
    struct shape s;
    int64_t own[SHAPE_MAX_RANK], stride[SHAPE_MAX_RANK];
    if (!take(c, input, &e, &s) || s.rank > c->shape.rank) return false;
    strides_of(&s, own);
    for (int32_t i = 0; i < c->shape.rank; i++) {
        int32_t k = i - (c->shape.rank - s.rank);
        stride[i] = k < 0 || s.dim[k].size == 1 ? 0 : own[k];
    }
    walk(&c->shape, stride, 0, &e, out);
    return true;
}

/* ---- operators ------------------------------------------------------------------------------- */

static void binary(const struct context *c, struct elements *out) {
    struct elements next = {.n = out->n};
    if (!operand(c, 0, out)) return;
    for (uint32_t i = 1; i < c->f->m->node.at[c->n].n_inputs; i++) {
        memset(next.at, 0, next.n * sizeof *next.at);
        operand(c, i, &next);
        for (uint32_t k = 0; k < out->n; k++) out->at[k] = c->compute(out->at[k], next.at[k]);
    }
}

static void unary(const struct context *c, struct elements *out) {
    if (!operand(c, 0, out)) return;
    for (uint32_t k = 0; k < out->n; k++) out->at[k] = c->compute(out->at[k], ELEMENT_UNKNOWN);
}

static void where(const struct context *c, struct elements *out) {
    struct elements yes = {.n = out->n}, no = {.n = out->n};
    memset(yes.at, 0, sizeof yes.at);
    memset(no.at, 0, sizeof no.at);
    if (!operand(c, 0, out)) return;
    operand(c, 1, &yes);
    operand(c, 2, &no);
    for (uint32_t i = 0; i < out->n; i++) {
        if (out->at[i].known)
            out->at[i] = out->at[i].n ? yes.at[i] : no.at[i];
        else
            out->at[i] = element_same(yes.at[i], no.at[i]) ? yes.at[i] : ELEMENT_UNKNOWN;
    }
}

/* The same elements in the same order. */
static void same(const struct context *c, struct elements *out) {
    struct elements e;
    struct shape s;
    if (take(c, 0, &e, &s) && e.n == out->n) memcpy(out->at, e.at, e.n * sizeof *e.at);
}

static void cast(const struct context *c, struct elements *out) {
    same(c, out);
    ir_value v = ir_outputs(c->f->m, c->n)[c->output];
    if (ir_type_dtype(c->f->m, c->f->m->value.at[v].type) != IR_BOOL) return;
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = out->at[i].known ? ELEMENT(out->at[i].n != 0) : ELEMENT_UNKNOWN;
}

static void spread(const struct context *c, struct elements *out) { operand(c, 0, out); }

static void constant(const struct context *c, struct elements *out) {
    struct numbers x;
    numbers_of_attr(c->f, c->n, "value", &x);
    if (!x.known) numbers_of_attr(c->f, c->n, "value_ints", &x);
    if (!x.known) numbers_of_attr(c->f, c->n, "value_int", &x);
    for (uint32_t i = 0; x.known && x.n == out->n && i < out->n; i++) out->at[i] = ELEMENT(x.at[i]);
}

static void filled(const struct context *c, struct elements *out) {
    struct numbers x;
    numbers_of_attr(c->f, c->n, "value", &x);
    for (uint32_t i = 0; x.known && x.n == 1 && i < out->n; i++) out->at[i] = ELEMENT(x.at[0]);
}

static void shape_of(const struct context *c, struct elements *out) {
    struct shape x;
    if (!shape_of_input(c->f, c->n, 0, &x)) return;
    int64_t start = ir_attr_int(c->f->m, c->n, "start", 0);
    if (start < 0) start += x.rank;
    if (start < 0) start = 0;
    for (uint32_t i = 0; i < out->n && start + i < x.rank; i++)
        out->at[i] = element_of_dim(x.dim[start + i]);
}

static void size_of(const struct context *c, struct elements *out) {
    struct shape x;
    if (!shape_of_input(c->f, c->n, 0, &x)) return;
    out->at[0] = ELEMENT(1);
    for (int32_t i = 0; i < x.rank; i++)
        out->at[0] = multiply(out->at[0], element_of_dim(x.dim[i]));
}

static void transposed(const struct context *c, struct elements *out) {
    struct elements e;
    struct shape s;
    struct numbers perm;
    int64_t own[SHAPE_MAX_RANK], stride[SHAPE_MAX_RANK];
    if (!take(c, 0, &e, &s) || s.rank != c->shape.rank) return;
    numbers_of_attr(c->f, c->n, "perm", &perm);
    strides_of(&s, own);
    for (int32_t i = 0; i < s.rank; i++) {
        int64_t from = numbers_at(&perm, (uint32_t)i, s.rank - 1 - i);
        if (from < 0 || from >= s.rank) return;
        stride[i] = own[from];
    }
    walk(&c->shape, stride, 0, &e, out);
}

static void sliced(const struct context *c, struct elements *out) {
    struct elements e;
    struct shape s;
    struct numbers starts, axes, steps;
    int64_t stride[SHAPE_MAX_RANK], offset = 0;
    if (!take(c, 0, &e, &s) || s.rank != c->shape.rank) return;
    numbers_of_attr_or_input(c->f, c->n, "starts", 1, &starts);
    bool has_axes = numbers_of_attr_or_input(c->f, c->n, "axes", 3, &axes);
    bool has_steps = numbers_of_attr_or_input(c->f, c->n, "steps", 4, &steps);
    if (!starts.known || (has_axes && !axes.known) || (has_steps && !steps.known)) return;
    strides_of(&s, stride);
    for (uint32_t i = 0; i < starts.n; i++) {
        int32_t axis = shape_axis(numbers_at(&axes, i, i), s.rank);
        int64_t step = numbers_at(&steps, i, 1), start = starts.at[i];
        if (axis < 0 || !number_is_sane(step)) return;
        int64_t size = s.dim[axis].size, last = step < 0 ? size - 1 : size;
        if (start < 0) start = start < -size ? 0 : start + size;
        offset += (start > last ? last : start) * stride[axis];
        stride[axis] *= step;
        if (!number_is_sane(stride[axis])) return;
    }
    walk(&c->shape, stride, offset, &e, out);
}

static void split(const struct context *c, struct elements *out) {
    struct elements e;
    struct shape s;
    int64_t stride[SHAPE_MAX_RANK], before = 0;
    if (!take(c, 0, &e, &s) || s.rank != c->shape.rank) return;
    int32_t axis = shape_axis(ir_attr_int(c->f->m, c->n, "axis", 0), s.rank);
    if (axis < 0) return;
    strides_of(&s, stride);
    for (uint32_t i = 0; i < c->output; i++) {
        struct shape other;
        shape_of_type(c->f->m, c->f->m->value.at[ir_outputs(c->f->m, c->n)[i]].type, &other);
        if (other.rank != s.rank || !number_is_sane(other.dim[axis].size) ||
            !dim_is_fixed(other.dim[axis]))
            return;
        before += other.dim[axis].size;
    }
    walk(&c->shape, stride, before * stride[axis], &e, out);
}

static void gathered(const struct context *c, struct elements *out) {
    struct elements e, indices;
    struct shape s, index_shape;
    int64_t stride[SHAPE_MAX_RANK];
    if (!take(c, 0, &e, &s) || !take(c, 1, &indices, &index_shape)) return;
    int32_t axis = shape_axis(ir_attr_int(c->f->m, c->n, "axis", 0), s.rank);
    if (axis < 0 || !indices.n) return;
    strides_of(&s, stride);
    int64_t inner = stride[axis], size = s.dim[axis].size;
    for (uint32_t i = 0; i < out->n; i++) {
        struct element index = indices.at[i / inner % indices.n];
        int64_t at = index.n < 0 ? index.n + size : index.n;
        if (!index.known || at < 0 || at >= size) continue;
        int64_t from = (i / inner / indices.n * size + at) * inner + i % inner;
        if (from < e.n) out->at[i] = e.at[from];
    }
}

static void joined(const struct context *c, struct elements *out) {
    struct elements e;
    struct shape s;
    int64_t stride[SHAPE_MAX_RANK], before = 0;
    int32_t axis = shape_axis(ir_attr_int(c->f->m, c->n, "axis", 1), c->shape.rank);
    if (axis < 0) return;
    strides_of(&c->shape, stride);
    int64_t row = stride[axis] * c->shape.dim[axis].size;
    for (uint32_t i = 0; i < c->f->m->node.at[c->n].n_inputs; i++) {
        if (!shape_of_input(c->f, c->n, i, &s) || s.rank != c->shape.rank || !all_fixed(&s)) return;
        int64_t own = stride[axis] * s.dim[axis].size;
        if (take(c, i, &e, &s))
            for (uint32_t k = 0; k < e.n; k++) {
                int64_t to = k / own * row + before + k % own;
                if (to < out->n) out->at[to] = e.at[k];
            }
        before += own;
    }
}

static void counted(const struct context *c, struct elements *out) {
    struct elements start, step;
    struct shape s;
    if (!take(c, 0, &start, &s) || !take(c, 2, &step, &s) || start.n != 1 || step.n != 1) return;
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = add(start.at[0], multiply(ELEMENT(i), step.at[0]));
}

/* Where all elements become one. */
static void reduced(const struct context *c, struct elements *out) {
    struct elements e;
    struct shape s;
    if (out->n != 1 || !take(c, 0, &e, &s) || !e.n) return;
    out->at[0] = e.at[0];
    for (uint32_t i = 1; i < e.n; i++) out->at[0] = c->compute(out->at[0], e.at[i]);
}

/* ---- which operator has which ---------------------------------------------------------------- */

static const struct fold_rule rules[] = {
    {binary, add, "Add"},
    {binary, subtract, "Sub"},
    {binary, multiply, "Mul"},
    {binary, divide, "Div"},
    {binary, modulo, "Mod"},
    {binary, larger, "Max"},
    {binary, smaller, "Min"},
    {binary, equal, "Equal"},
    {binary, less, "Less"},
    {binary, greater, "Greater"},
    {binary, not_greater, "LessOrEqual"},
    {binary, not_less, "GreaterOrEqual"},
    {binary, both, "And"},
    {binary, either, "Or"},
    {unary, negative, "Neg"},
    {unary, magnitude, "Abs"},
    {unary, inverted, "Not"},
    {where, NULL, "Where"},
    {same, NULL, "Identity Reshape Flatten Squeeze Unsqueeze"},
    {cast, NULL, "Cast CastLike"},
    {spread, NULL, "Expand"},
    {constant, NULL, "Constant"},
    {filled, NULL, "ConstantOfShape"},
    {shape_of, NULL, "Shape"},
    {size_of, NULL, "Size"},
    {transposed, NULL, "Transpose"},
    {sliced, NULL, "Slice"},
    {split, NULL, "Split"},
    {gathered, NULL, "Gather"},
    {joined, NULL, "Concat"},
    {counted, NULL, "Range"},
    {reduced, multiply, "ReduceProd"},
    {reduced, add, "ReduceSum"},
    {reduced, larger, "ReduceMax"},
    {reduced, smaller, "ReduceMin"},
};

const struct fold_rule *fold_rule_of(const char *op) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (shape_word_in(rules[i].ops, op)) return &rules[i];
    return NULL;
}

/* Whether it is a number of the type; what is not has wrapped around. */
static bool fits(enum ir_dtype t, int64_t n) {
    static const uint8_t bits[IR_N_DTYPES] = {
#define DTYPE(id, text, array, number, bits, carries) [number] = bits,
#include "dtypes.def"
#undef DTYPE
    };
    bool is_signed = t == IR_INT2 || t == IR_INT4 || t == IR_INT8 || t == IR_INT16 ||
                     t == IR_INT32 || t == IR_INT64;
    if (t == IR_BOOL) return n == 0 || n == 1;
    if (bits[t] == 64) return is_signed || n >= 0;
    int64_t end = (int64_t)1 << (bits[t] - is_signed);
    return n < end && n >= (is_signed ? -end : 0);
}

void fold(struct facts *f, ir_node n, uint32_t output, const struct fold_rule *rule) {
    ir_value v = ir_outputs(f->m, n)[output];
    ir_type t = f->m->value.at[v].type;
    enum ir_dtype dtype = ir_type_dtype(f->m, t);
    if (dtype == IR_UNDEFINED || dtype == IR_STRING || ir_dtype_carries_gradient(dtype)) return;
    int64_t count = ir_type_elements(f->m, t);
    if (count < 1 || count > IR_MAX_INTS) return;
    struct context c = {.f = f, .n = n, .output = output, .compute = rule->compute};
    shape_of_type(f->m, t, &c.shape);
    if (c.shape.rank == IR_RANK_UNKNOWN) return;
    struct elements out = {.n = (uint32_t)count};
    memset(out.at, 0, out.n * sizeof *out.at);
    rule->run(&c, &out);
    for (uint32_t i = 0; i < out.n; i++)
        if (out.at[i].known && !fits(dtype, out.at[i].n)) out.at[i] = ELEMENT_UNKNOWN;
    facts_set(f, v, &out);
}
