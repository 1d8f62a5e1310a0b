/* Shapes behind indices and counts: gathering, scattering, choosing, one-hot, ranges.
 *
 * How many elements a condition chooses is not known before it runs; the rank is. */
#include "shape_rules.h"

/* ---- gathering ------------------------------------------------------------------------------- */

static void gather(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, indices;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x) || !shape_of_input(f, n, 1, &indices)) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", 0), x.rank);
    if (axis < 0 || !shape_set_rank(out, (int64_t)x.rank - 1 + indices.rank)) return;
    int32_t to = 0;
    for (int32_t i = 0; i < axis; i++) out->dim[to++] = x.dim[i];
    for (int32_t i = 0; i < indices.rank; i++) out->dim[to++] = indices.dim[i];
    for (int32_t i = axis + 1; i < x.rank; i++) out->dim[to++] = x.dim[i];
}

/* The last dimension of the indices is how many leading axes, behind the batch's, one index picks. */
static void gather_nd(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, indices;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x) || !shape_of_input(f, n, 1, &indices)) return;
    int64_t batch = ir_attr_int(f->m, n, "batch_dims", 0);
    if (indices.rank < 1 || !dim_is_fixed(indices.dim[indices.rank - 1])) return;
    int64_t picked = indices.dim[indices.rank - 1].size;
    if (batch < 0 || picked < 0 || batch > x.rank || picked > x.rank - batch) return;
    int32_t from = (int32_t)(batch + picked), to = 0;
    if (!shape_set_rank(out, (int64_t)indices.rank - 1 + x.rank - from)) return;
    for (int32_t i = 0; i < indices.rank - 1; i++) out->dim[to++] = indices.dim[i];
    for (int32_t i = from; i < x.rank; i++) out->dim[to++] = x.dim[i];
}

static void as_indices(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_of_input(f, n, 1, out);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void top_k(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements k;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", -1), out->rank);
    bool counted = elements_of_attr_or_input(f, n, "k", 1, &k);
    if (axis >= 0) out->dim[axis] = counted && k.n == 1 ? element_dim(k.at[0]) : DIM_UNKNOWN;
}

static void one_hot(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct elements depth;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x) || !shape_set_rank(out, (int64_t)x.rank + 1)) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", -1), out->rank);
    bool counted = elements_of_attr_or_input(f, n, "depth", 1, &depth) && depth.n == 1;
    for (int32_t i = 0, from = 0; i < out->rank; i++)
        if (i != axis)
            out->dim[i] = x.dim[from++ % SHAPE_MAX_RANK];
        else if (counted)
            out->dim[i] = element_dim(depth.at[0]);
}

static void shape_op(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_set_rank(out, 1);
    if (!shape_of_input(f, n, 0, &x)) return;
    out->dim[0] = dim_fixed(shape_slice_length(x.rank, ir_attr_int(f->m, n, "start", 0),
                                               ir_attr_int(f->m, n, "end", x.rank), 1));
}

static void non_zero(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_set_rank(out, 2);
    if (shape_of_input(f, n, 0, &x)) out->dim[0] = dim_fixed(x.rank);
}

static void compress(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!ir_attr_find(f->m, n, "axis")) {
        shape_set_rank(out, 1);
        return;
    }
    if (!shape_of_input(f, n, 0, out)) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", 0), out->rank);
    if (axis >= 0) out->dim[axis] = DIM_UNKNOWN;
}

static void unique(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    if (output == 0)
        compress(f, n, output, out);
    else
        shape_set_rank(out, 1);
}

static void chosen_boxes(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)f;
    (void)n;
    (void)output;
    shape_set_rank(out, 2);
    out->dim[1] = dim_fixed(3);
}

static void sample(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!shape_of_input(f, n, 0, out) || out->rank != 2) shape_set_rank(out, 2);
    out->dim[1] = dim_fixed(ir_attr_int(f->m, n, "sample_size", 1));
}

/* ---- counting -------------------------------------------------------------------------------- */

static void range(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements start, limit, step;
    (void)output;
    shape_set_rank(out, 1);
    if (!ir_input(f->m, n, 2) || !facts_elements(f, ir_input(f->m, n, 0), &start) ||
        !facts_elements(f, ir_input(f->m, n, 1), &limit) ||
        !facts_elements(f, ir_input(f->m, n, 2), &step) || start.n != 1 || limit.n != 1 ||
        step.n != 1)
        return;
    int64_t s = step.at[0].n, from = start.at[0].n, to = limit.at[0].n;
    if (!start.at[0].known || !step.at[0].known) return;
    if (!limit.at[0].known && from == 0 && s == 1)
        out->dim[0] = element_dim(limit.at[0]);
    else if (limit.at[0].known && s && number_is_sane(s) && number_is_sane(from) &&
             number_is_sane(to))
        out->dim[0] = dim_fixed(s > 0 ? (to > from ? (to - from - 1) / s + 1 : 0)
                                      : (from > to ? (from - to - 1) / -s + 1 : 0));
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_index[] = {
    {gather, "Gather"},
    {gather_nd, "GatherND"},
    {as_indices, "GatherElements"},
    {top_k, "TopK"},
    {one_hot, "OneHot"},
    {non_zero, "NonZero"},
    {compress, "Compress"},
    {unique, "Unique"},
    {chosen_boxes, "NonMaxSuppression"},
    {sample, "Multinomial"},
    {range, "Range"},
    {shape_op, "Shape"},
    {NULL, NULL},
};
