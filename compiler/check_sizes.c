/* Sizes of inputs that no operator takes together; part of the inference of types.
 *
 * Shapes are declared or follow from the operators; a wrong declaration of one value shows where it
 * meets another. It is a warning, as sizes decide times alone. Only numbers contradict each other:
 * what is open or symbolic is not guessed at. What an output is declared as is types.c's to compare
 * with what its operator makes. */
#include "check_sizes.h"
#include "shape_rules.h"
#include <string.h>

struct sized {
    const struct facts *f;
    ir_node n;
    struct diags *d;
};

typedef void (*size_rule)(const struct sized *s);

/* ---- what is said ---------------------------------------------------------------------------- */

static const char *name_of(const struct sized *s, uint32_t input) {
    return ir_value_name(s->f->m, ir_input(s->f->m, s->n, input));
}

static const char *type_of(const struct sized *s, uint32_t input) {
    return ir_type_text(s->f->m, &s->d->arena,
                        s->f->m->value.at[ir_input(s->f->m, s->n, input)].type);
}

static const char *op_of(const struct sized *s) {
    return ir_text(s->f->m, s->f->m->node.at[s->n].op);
}

/* Points at the input; the help has the shapes of it and of another. */
static void report(const struct sized *s, uint32_t other, uint32_t input, const char *text) {
    const struct ir_module *m = s->f->m;
    const struct ir_node_info *node = &m->node.at[s->n];
    ir_value v = ir_input(m, s->n, input);
    struct diag *g =
        diag_at(s->d, DIAG_INNER_SIZES, m->ref_loc.at[node->refs + node->n_outputs + input],
                strtab_len(&m->strings, m->value.at[v].name), "%s", text);
    if (node->name)
        diag_add_note(s->d, g, node->loc, "the node is called '%s'", ir_text(m, node->name));
    if (other == input)
        diag_set_help(s->d, g, "'%s' is %s", name_of(s, input), type_of(s, input));
    else
        diag_set_help(s->d, g, "'%s' is %s, '%s' is %s", name_of(s, other), type_of(s, other),
                      name_of(s, input), type_of(s, input));
}

#define SAY(s, ...) arena_printf(&(s)->d->arena, __VA_ARGS__)

static bool differ(struct ir_dim a, struct ir_dim b) {
    return dim_is_fixed(a) && dim_is_fixed(b) && a.size != b.size;
}

static bool take(const struct sized *s, uint32_t input, struct shape *out) {
    return ir_input(s->f->m, s->n, input) && shape_of_input(s->f, s->n, input, out);
}

/* ---- operands that are broadcast ------------------------------------------------------------- */

/* The first sizes, each from the end, that broadcast neither way; or only not `b` to `a`. */
static bool misfit(const struct shape *a, const struct shape *b, bool one_way, long long *p,
                   long long *q) {
    for (int32_t i = 1; i <= a->rank && i <= b->rank; i++) {
        struct ir_dim x = a->dim[a->rank - i], y = b->dim[b->rank - i];
        *p = x.size;
        *q = y.size;
        if (differ(x, y) && y.size != 1 && (one_way || x.size != 1)) return true;
    }
    return false;
}

/* Each with the one before it. */
static void broadcast(const struct sized *s) {
    if (ir_attr_find(s->f->m, s->n, "broadcast")) return; /* before opset 7 it may align left */
    for (uint32_t i = 1; i < s->f->m->node.at[s->n].n_inputs; i++) {
        struct shape a, b;
        long long p, q;
        if (!take(s, i - 1, &a) || !take(s, i, &b) || !misfit(&a, &b, false, &p, &q)) continue;
        report(s, i - 1, i,
               SAY(s, "'%s' and '%s' differ in size: %s broadcasts neither %lld to %lld nor back",
                   name_of(s, i - 1), name_of(s, i), op_of(s), p, q));
        return;
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static bool inner_fits(const struct sized *s, struct ir_dim columns, struct ir_dim rows) {
    bool fits = !differ(columns, rows);
    if (!fits)
        report(s, 0, 1,
               SAY(s, "'%s' has %lld columns and '%s' %lld rows, as %s multiplies them",
                   name_of(s, 0), (long long)columns.size, name_of(s, 1), (long long)rows.size,
                   op_of(s)));
    return fits;
}

static void matmul(const struct sized *s) {
    struct shape a, b;
    long long p, q;
    if (!take(s, 0, &a) || !take(s, 1, &b) || a.rank < 1 || b.rank < 1) return;
    bool fits = inner_fits(s, a.dim[a.rank - 1], b.dim[b.rank > 1 ? b.rank - 2 : 0]);
    if (!fits || a.rank < 3 || b.rank < 3) return;
    a.rank -= 2;
    b.rank -= 2;
    if (misfit(&a, &b, false, &p, &q))
        report(s, 0, 1,
               SAY(s, "'%s' and '%s' hold %lld and %lld matrices, which %s cannot pair",
                   name_of(s, 0), name_of(s, 1), p, q, op_of(s)));
}

static void gemm(const struct sized *s) {
    struct shape a, b, c, result = {.rank = 2};
    long long p, q;
    bool turned_a = ir_attr_int(s->f->m, s->n, "transA", 0) != 0;
    bool turned_b = ir_attr_int(s->f->m, s->n, "transB", 0) != 0;
    if (!take(s, 0, &a) || !take(s, 1, &b) || a.rank != 2 || b.rank != 2) return;
    if (!inner_fits(s, a.dim[!turned_a], b.dim[turned_b])) return;
    result.dim[0] = a.dim[turned_a];
    result.dim[1] = b.dim[!turned_b];
    if (take(s, 2, &c) && !ir_attr_find(s->f->m, s->n, "broadcast") &&
        misfit(&result, &c, true, &p, &q))
        report(s, 1, 2,
               SAY(s, "'%s' has %lld where the product has %lld, to which %s adds it",
                   name_of(s, 2), q, p, op_of(s)));
}

/* ---- convolutions and their like ------------------------------------------------------------- */

static bool channels_fit(const struct sized *s, uint32_t input, struct ir_dim have,
                         struct ir_dim want) {
    bool fit = !differ(have, want);
    if (!fit)
        report(s, 0, input,
               SAY(s, "'%s' has %lld channels, but '%s' is for %lld", name_of(s, 0),
                   (long long)have.size, name_of(s, input), (long long)want.size));
    return fit;
}

/* Weights are [out, in / group, kernel...], transposed ones [in, out / group, kernel...]. */
static void convolution(const struct sized *s) {
    struct shape x, w, bias;
    bool transposed = strcmp(op_of(s), "ConvTranspose") == 0;
    int64_t group = ir_attr_int(s->f->m, s->n, "group", 1);
    if (!take(s, 1, &w) || w.rank < 3) return;
    w.dim[1] = dim_times(w.dim[1], group);
    struct ir_dim in = w.dim[!transposed], made = w.dim[transposed];
    if (take(s, 0, &x) && x.rank >= 3) {
        channels_fit(s, 1, x.dim[1], in);
        if (x.rank != w.rank)
            report(s, 0, 1,
                   SAY(s, "'%s' has %d dimensions and '%s' %d, as %s slides one over the other",
                       name_of(s, 0), x.rank, name_of(s, 1), w.rank, op_of(s)));
    }
    if (take(s, 2, &bias) && bias.rank == 1 && differ(bias.dim[0], made))
        report(s, 1, 2,
               SAY(s, "'%s' makes %lld channels, but '%s' is for %lld", name_of(s, 1),
                   (long long)made.size, name_of(s, 2), (long long)bias.dim[0].size));
}

static void normalization(const struct sized *s) {
    struct shape x, scale;
    if (!take(s, 0, &x) || x.rank < 2) return;
    for (uint32_t i = 1; i < s->f->m->node.at[s->n].n_inputs; i++)
        if (take(s, i, &scale) && scale.rank == 1 && !channels_fit(s, i, x.dim[1], scale.dim[0]))
            return;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void concat(const struct sized *s) {
    struct shape first, x;
    if (!take(s, 0, &first)) return;
    int32_t axis = shape_axis(ir_attr_int(s->f->m, s->n, "axis", 1), first.rank);
    for (uint32_t i = 1; i < s->f->m->node.at[s->n].n_inputs; i++) {
        if (!take(s, i, &x)) continue;
        int32_t at = -1;
        for (int32_t k = 0; k < first.rank && k < x.rank && at < 0; k++)
            if (k != axis && differ(first.dim[k], x.dim[k])) at = k;
        if (x.rank == first.rank && at < 0) continue;
        report(s, 0, i,
               at < 0
                   ? SAY(s, "'%s' has %d dimensions and '%s' %d, as %s joins them", name_of(s, 0),
                         first.rank, name_of(s, i), x.rank, op_of(s))
                   : SAY(s, "'%s' has %lld and '%s' %lld along axis %d, but %s joins them along %d",
                         name_of(s, 0), (long long)first.dim[at].size, name_of(s, i),
                         (long long)x.dim[at].size, at, op_of(s), axis));
        return;
    }
}

/* How many elements a shape has; -1 if that is not a known number. */
static int64_t count(const struct shape *x) {
    struct ir_dim n = dim_fixed(x->rank < 0 ? -1 : 1);
    for (int32_t i = 0; i < x->rank; i++)
        n = dim_is_fixed(x->dim[i]) ? dim_times(n, x->dim[i].size) : DIM_UNKNOWN;
    return dim_is_fixed(n) ? n.size : -1;
}

/* Where the sizes are not known, the output's declared ones count. */
static void reshape(const struct sized *s) {
    struct shape x, to;
    struct elements sizes = {0};
    ir_value out = ir_outputs(s->f->m, s->n)[0];
    bool given = elements_of_attr_or_input(s->f, s->n, "shape", 1, &sizes);
    bool allow_zero = ir_attr_int(s->f->m, s->n, "allowzero", 0) != 0, open = false;
    if (!take(s, 0, &x) || !shape_set_rank(&to, sizes.n)) return;
    for (uint32_t i = 0; i < sizes.n; i++) {
        struct element e = sizes.at[i];
        bool rest = e.known && e.n == -1, copy = e.known && e.n == 0 && !allow_zero;
        if (!copy)
            to.dim[i] = rest ? dim_fixed(1) : element_dim(e);
        else if ((int32_t)i < x.rank)
            to.dim[i] = x.dim[i];
        open |= rest;
    }
    int64_t have = count(&x), want = given ? count(&to) : -1;
    if (want < 0) {
        shape_of_type(s->f->m, s->f->m->value.at[out].type, &to);
        want = count(&to);
        open = false;
    }
    if (have < 0 || want < 0 || (open ? want == 0 || have % want == 0 : have == want)) return;
    report(s, 0, 0,
           SAY(s, "'%s' has %lld elements, which %s cannot arrange as the %s%lld of '%s'",
               name_of(s, 0), (long long)have, op_of(s), open ? "multiple of " : "",
               (long long)want, ir_value_name(s->f->m, out)));
}

static void split(const struct sized *s) {
    struct shape x;
    struct numbers sizes;
    if (!take(s, 0, &x)) return;
    int32_t axis = shape_axis(ir_attr_int(s->f->m, s->n, "axis", 0), x.rank);
    numbers_of_attr_or_input(s->f, s->n, "split", 1, &sizes);
    if (axis < 0 || !dim_is_fixed(x.dim[axis]) || !sizes.known || !sizes.n) return;
    struct ir_dim sum = dim_fixed(0);
    for (uint32_t i = 0; i < sizes.n; i++) sum = dim_plus(sum, sizes.at[i]);
    if (differ(sum, x.dim[axis]))
        report(s, 0, 0,
               SAY(s, "'%s' has %lld along axis %d, but %s cuts it into parts of %lld together",
                   name_of(s, 0), (long long)x.dim[axis].size, axis, op_of(s),
                   (long long)sum.size));
}

static void transpose(const struct sized *s) {
    struct shape x;
    struct numbers perm;
    numbers_of_attr(s->f, s->n, "perm", &perm);
    if (!perm.known || !take(s, 0, &x) || (int64_t)perm.n == x.rank) return;
    report(s, 0, 0,
           SAY(s, "'%s' has %d dimensions, but %s has an order of %u", name_of(s, 0), x.rank,
               op_of(s), perm.n));
}

/* ---- axes ------------------------------------------------------------------------------------ */

static bool axis_in(const struct sized *s, int64_t otherwise, int32_t more, struct shape *x) {
    if (!take(s, 0, x)) return false;
    int64_t axis = ir_attr_int(s->f->m, s->n, "axis", otherwise);
    if (axis >= -(int64_t)x->rank && axis < x->rank + more) return true;
    report(s, 0, 0,
           SAY(s, "'%s' has %d dimensions, but %s is along axis %lld", name_of(s, 0), x->rank,
               op_of(s), (long long)axis));
    return false;
}

static void flatten(const struct sized *s) {
    struct shape x;
    axis_in(s, 1, 1, &x);
}

static void gather(const struct sized *s) {
    struct shape x;
    struct numbers at;
    if (!axis_in(s, 0, 0, &x)) return;
    struct ir_dim size = x.dim[shape_axis(ir_attr_int(s->f->m, s->n, "axis", 0), x.rank)];
    numbers_of_input(s->f, s->n, 1, &at);
    for (uint32_t i = 0; dim_is_fixed(size) && at.known && i < at.n; i++) {
        if (at.at[i] >= -size.size && at.at[i] < size.size) continue;
        report(s, 0, 1,
               SAY(s, "'%s' has %lld along its axis, but '%s' asks for element %lld", name_of(s, 0),
                   (long long)size.size, name_of(s, 1), (long long)at.at[i]));
        return;
    }
}

/* ---- which operator has which ---------------------------------------------------------------- */

static const struct {
    size_rule rule;
    const char *ops; /* separated by spaces */
} rules[] = {
    {broadcast, "Add Div Max Mean Min Mul Sub Sum Where"},
    {matmul, "MatMul MatMulInteger"},
    {gemm, "Gemm"},
    {convolution, "Conv ConvTranspose"},
    {normalization, "BatchNormalization InstanceNormalization"},
    {concat, "Concat"},
    {reshape, "Reshape"},
    {split, "Split"},
    {transpose, "Transpose"},
    {flatten, "Flatten"},
    {gather, "Gather"},
};

uint32_t check_sizes_rule(const char *op) {
    for (uint32_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (shape_word_in(rules[i].ops, op)) return i + 1;
    return 0;
}

void check_sizes_node(const struct facts *f, ir_node n, uint32_t rule, struct diags *d) {
    rules[rule - 1].rule(&(struct sized){f, n, d});
}
