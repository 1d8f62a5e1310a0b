/* Shapes of operators that sum up, and so lose dimensions or get new ones: reductions, products of
 * matrices, losses. */
#include "shape_rules.h"
#include <string.h>

/* ---- matrices -------------------------------------------------------------------------------- */

static void gemm(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape a, b;
    (void)output;
    shape_set_rank(out, 2);
    if (shape_of_input(f, n, 0, &a) && a.rank == 2)
        out->dim[0] = a.dim[ir_attr_int(f->m, n, "transA", 0) != 0];
    if (shape_of_input(f, n, 1, &b) && b.rank == 2)
        out->dim[1] = b.dim[ir_attr_int(f->m, n, "transB", 0) == 0];
}

static void multiply(const struct facts *f, ir_node n, uint32_t second, struct shape *out) {
    struct shape a, b;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &a) || !shape_of_input(f, n, second, &b) || a.rank < 1 ||
        b.rank < 1)
        return;
    /* A vector is a matrix of one row or column, which the result then lacks. */
    bool row = a.rank >= 2, column = b.rank >= 2;
    struct ir_dim rows = row ? a.dim[a.rank - 2] : dim_fixed(1);
    struct ir_dim columns = column ? b.dim[b.rank - 1] : dim_fixed(1);
    struct shape batch = {.rank = row ? a.rank - 2 : 0}, other = {.rank = column ? b.rank - 2 : 0};
    memcpy(batch.dim, a.dim, sizeof batch.dim);
    memcpy(other.dim, b.dim, sizeof other.dim);
    shape_broadcast(&batch, &other);
    if (!shape_set_rank(out, batch.rank + row + column)) return;
    memcpy(out->dim, batch.dim, (size_t)batch.rank * sizeof *out->dim);
    if (row) out->dim[batch.rank] = rows;
    if (column) out->dim[batch.rank + row] = columns;
}

static void matmul(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    multiply(f, n, 1, out);
}

static void matmul_quantized(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    multiply(f, n, 3, out);
}

/* ---- reductions and losses ------------------------------------------------------------------- */

static void reduce(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    bool known = shape_of_input(f, n, 0, &x);
    bool keep = ir_attr_int(f->m, n, "keepdims", 1) != 0;
    bool given = numbers_of_attr_or_input(f, n, "axes", 1, &axes);
    if (given && axes.known && axes.n == 0) given = false; /* none named: all, or none */
    if (!given && ir_attr_int(f->m, n, "noop_with_empty_axes", 0)) {
        *out = x;
        return;
    }
    shape_give_up(out);
    if (!given && !keep) out->rank = 0;
    if (known && given && !axes.known) {
        struct elements some;
        bool counted = elements_of_attr_or_input(f, n, "axes", 1, &some);
        if (keep || counted) shape_set_rank(out, x.rank - (keep ? 0 : (int64_t)some.n));
    }
    if (!known || (given && !axes.known)) return;
    uint32_t bits = given ? numbers_axis_bits(&axes, x.rank) : UINT32_MAX;
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        if (!(bits >> i & 1))
            out->dim[out->rank++] = x.dim[i];
        else if (keep)
            out->dim[out->rank++] = dim_fixed(1);
    }
}

static void arg_reduce(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x)) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", 0), x.rank);
    bool keep = ir_attr_int(f->m, n, "keepdims", 1) != 0;
    if (axis < 0) return;
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        if (i != axis)
            out->dim[out->rank++] = x.dim[i];
        else if (keep)
            out->dim[out->rank++] = dim_fixed(1);
    }
}

static void loss(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    if (output == 1)
        shape_of_input(f, n, 0, out);
    else if (strcmp(shape_attr_string(f, n, "reduction"), "none") == 0)
        shape_of_input(f, n, 1, out);
    else
        shape_set_rank(out, 0);
}

static void determinant(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    if (out->rank >= 2)
        out->rank -= 2;
    else
        shape_give_up(out);
}

/* ---- einsum ---------------------------------------------------------------------------------- */

struct einsum {
    struct ir_dim letter[128]; /* by letter; size -2: not met */
    struct shape dots;         /* what "..." stands for */
};

/* One operand's letters. False if they cannot be what the operand has. */
static bool read_term(struct einsum *e, const char *term, size_t length, const struct shape *x) {
    int32_t letters = 0, axis = 0;
    bool dots = false;
    for (size_t i = 0; i < length; i++) {
        letters += term[i] > ' ' && term[i] != '.';
        dots |= term[i] == '.';
    }
    if (x->rank < letters || (x->rank > letters && !dots)) return false;
    for (size_t i = 0; i < length; i++) {
        if (term[i] <= ' ') continue;
        if (term[i] != '.') {
            struct ir_dim *d = &e->letter[(unsigned char)term[i]];
            *d = d->size == -2 || !dim_is_fixed(*d) || d->size == 1 ? x->dim[axis] : *d;
            axis++;
            continue;
        }
        if (axis + x->rank - letters > x->rank) return false; /* dots twice */
        struct shape own = {.rank = x->rank - letters};
        for (int32_t k = 0; k < own.rank; k++) own.dim[k] = x->dim[axis + k];
        shape_broadcast(&e->dots, &own);
        axis += own.rank;
        while (i + 1 < length && term[i + 1] == '.') i++;
    }
    return true;
}

static void put_dim(struct shape *out, struct ir_dim d) {
    if (out->rank >= 0 && out->rank < SHAPE_MAX_RANK)
        out->dim[out->rank++] = d.size == -2 ? DIM_UNKNOWN : d;
    else
        shape_give_up(out);
}

/* Without "->" the result has the letters that stand once, in alphabetic order, behind "...". */
static size_t implied_result(const char *terms, size_t length, char *result) {
    size_t n = 0;
    if (memchr(terms, '.', length)) result[n++] = '.';
    for (int letter = 'A'; letter <= 'z'; letter++) {
        const char *first = memchr(terms, letter, length);
        if (first && !memchr(first + 1, letter, (size_t)(terms + length - first - 1)))
            result[n++] = (char)letter;
    }
    return n;
}

static void einsum(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    const char *equation = shape_attr_string(f, n, "equation"), *arrow = strstr(equation, "->");
    size_t length = arrow ? (size_t)(arrow - equation) : strlen(equation), at = 0;
    struct einsum e = {.dots = {.rank = 0}};
    char implied[64];
    (void)output;
    shape_give_up(out);
    for (const char *p = equation; *p; p++)
        if (*p & 0x80) return;
    for (size_t i = 0; i < 128; i++) e.letter[i].size = -2;
    for (uint32_t i = 0; i < f->m->node.at[n].n_inputs; i++) {
        size_t term = 0;
        struct shape x;
        while (at + term < length && equation[at + term] != ',') term++;
        if (!shape_of_input(f, n, i, &x) || !read_term(&e, equation + at, term, &x)) return;
        at += term + 1;
    }
    const char *result = arrow ? arrow + 2 : implied;
    size_t n_result = arrow ? strlen(result) : implied_result(equation, length, implied);
    shape_set_rank(out, 0);
    for (size_t i = 0; i < n_result; i++) {
        if (result[i] <= ' ') continue;
        if (result[i] != '.') {
            put_dim(out, e.letter[(unsigned char)result[i]]);
            continue;
        }
        for (int32_t k = 0; k < e.dots.rank; k++) put_dim(out, e.dots.dim[k]);
        while (i + 1 < n_result && result[i + 1] == '.') i++;
    }
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_reduce[] = {
    {gemm, "Gemm"},
    {matmul, "MatMul MatMulInteger"},
    {matmul_quantized, "QLinearMatMul"},
    {reduce,
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSum ReduceSumSquare"},
    {arg_reduce, "ArgMax ArgMin"},
    {loss, "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"},
    {determinant, "Det"},
    {einsum, "Einsum"},
    {NULL, NULL},
};
