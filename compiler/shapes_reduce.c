/* Shapes of operators that sum up, and so lose dimensions or get new ones: reductions, products of
 * matrices, losses, recurrent layers, attention. */
#include "shape_rules.h"
#include <string.h>

/* ---- matrices -------------------------------------------------------------------------------- */

static void gemm(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape a, b;
    (void)output;
    shape_set_rank(out, 2);
    if (shape_of_input(m, n, 0, &a) && a.rank == 2)
        out->dim[0] = a.dim[ir_attr_int(m, n, "transA", 0) != 0];
    if (shape_of_input(m, n, 1, &b) && b.rank == 2)
        out->dim[1] = b.dim[ir_attr_int(m, n, "transB", 0) == 0];
}

static void matmul(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape a, b;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &a) || !shape_of_input(m, n, 1, &b) || a.rank < 1 || b.rank < 1)
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

/* ---- reductions and losses ------------------------------------------------------------------- */

static void reduce(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    bool known = shape_of_input(m, n, 0, &x);
    bool keep = ir_attr_int(m, n, "keepdims", 1) != 0;
    bool given = numbers_of_attr_or_input(m, n, "axes", 1, &axes);
    if (!given && ir_attr_int(m, n, "noop_with_empty_axes", 0)) {
        *out = x;
        return;
    }
    shape_give_up(out);
    if (!given && !keep) out->rank = 0;
    if (!known || (given && !axes.known)) {
        if (known && keep) shape_set_rank(out, x.rank);
        return;
    }
    uint32_t bits = given ? numbers_axis_bits(&axes, x.rank) : UINT32_MAX;
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        if (!(bits >> i & 1))
            out->dim[out->rank++] = x.dim[i];
        else if (keep)
            out->dim[out->rank++] = dim_fixed(1);
    }
}

static void arg_reduce(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &x)) return;
    int32_t axis = shape_axis(ir_attr_int(m, n, "axis", 0), x.rank);
    bool keep = ir_attr_int(m, n, "keepdims", 1) != 0;
    if (axis < 0) return;
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        if (i != axis)
            out->dim[out->rank++] = x.dim[i];
        else if (keep)
            out->dim[out->rank++] = dim_fixed(1);
    }
}

static void loss(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    if (output == 1)
        shape_of_input(m, n, 0, out);
    else if (strcmp(shape_attr_string(m, n, "reduction"), "none") == 0)
        shape_of_input(m, n, 1, out);
    else
        shape_set_rank(out, 0);
}

static void top_k(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers k;
    (void)output;
    if (!shape_of_input(m, n, 0, out)) return;
    int32_t axis = shape_axis(ir_attr_int(m, n, "axis", -1), out->rank);
    numbers_of_attr_or_input(m, n, "k", 1, &k);
    if (axis >= 0) out->dim[axis] = dim_fixed(numbers_at(&k, 0, -1));
}

static void one_hot(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers depth;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &x) || !shape_set_rank(out, (int64_t)x.rank + 1)) return;
    int32_t axis = shape_axis(ir_attr_int(m, n, "axis", -1), out->rank);
    numbers_of_input(m, n, 1, &depth);
    for (int32_t i = 0, from = 0; i < out->rank; i++)
        out->dim[i] =
            i == axis ? dim_fixed(numbers_at(&depth, 0, -1)) : x.dim[from++ % SHAPE_MAX_RANK];
}

static void shape_op(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_set_rank(out, 1);
    if (!shape_of_input(m, n, 0, &x)) return;
    out->dim[0] = dim_fixed(shape_slice_length(x.rank, ir_attr_int(m, n, "start", 0),
                                               ir_attr_int(m, n, "end", x.rank), 1));
}

static void determinant(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!shape_of_input(m, n, 0, out)) return;
    if (out->rank >= 2)
        out->rank -= 2;
    else
        shape_give_up(out);
}

/* ---- recurrent layers and attention ---------------------------------------------------------- */

static void recurrent(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, r;
    shape_give_up(out);
    bool known = shape_of_input(m, n, 0, &x) && x.rank == 3;
    int64_t hidden = ir_attr_int(m, n, "hidden_size", -1);
    if (hidden < 0 && shape_of_input(m, n, 2, &r) && r.rank == 3 && dim_is_fixed(r.dim[2]))
        hidden = r.dim[2].size;
    struct ir_dim directions =
        dim_fixed(strcmp(shape_attr_string(m, n, "direction"), "bidirectional") ? 1 : 2);
    bool batch_first = ir_attr_int(m, n, "layout", 0) != 0;
    struct ir_dim batch = known ? x.dim[!batch_first] : DIM_UNKNOWN;
    struct ir_dim steps = known ? x.dim[batch_first] : DIM_UNKNOWN;
    if (output == 0) {
        struct ir_dim y[4] = {steps, directions, batch, dim_fixed(hidden)};
        struct ir_dim y_batch_first[4] = {batch, steps, directions, dim_fixed(hidden)};
        shape_set_rank(out, 4);
        memcpy(out->dim, batch_first ? y_batch_first : y, sizeof y);
    } else {
        shape_set_rank(out, 3);
        out->dim[0] = batch_first ? batch : directions;
        out->dim[1] = batch_first ? directions : batch;
        out->dim[2] = dim_fixed(hidden);
    }
}

static void attention(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape v;
    shape_give_up(out);
    if (output != 0 || !shape_of_input(m, n, 0, out)) return;
    bool four = out->rank == 4 && shape_of_input(m, n, 2, &v) && v.rank == 4;
    out->dim[out->rank ? out->rank - 1 : 0] = four ? v.dim[3] : DIM_UNKNOWN;
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_reduce[] = {
    {gemm, "Gemm"},
    {matmul, "MatMul MatMulInteger"},
    {reduce,
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSum ReduceSumSquare"},
    {arg_reduce, "ArgMax ArgMin"},
    {loss, "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"},
    {top_k, "TopK"},
    {one_hot, "OneHot"},
    {shape_op, "Shape"},
    {determinant, "Det"},
    {recurrent, "GRU LSTM RNN"},
    {attention, "Attention"},
    {NULL, NULL},
};
