/* Shapes of operators that move elements and compute none: reshaping, cutting, joining, gathering.
 *
 * Where an output has as many elements as the input, a dimension that is left open ('-1' of a
 * Reshape) follows from the others, also with one symbol among them. */
#include "shape_rules.h"

/* ---- the same elements ----------------------------------------------------------------------- */

/* The product of dimensions [from, to); '?' unless all are fixed (one alone may be a symbol). */
static struct ir_dim product(const struct shape *s, int32_t from, int32_t to) {
    int64_t n = 1;
    struct ir_dim other = DIM_UNKNOWN;
    int others = 0;
    for (int32_t i = from; i < to; i++) {
        if (!dim_is_fixed(s->dim[i])) {
            other = s->dim[i];
            others++;
        } else if (s->dim[i].size && n > INT64_MAX / s->dim[i].size) {
            return DIM_UNKNOWN;
        } else {
            n *= s->dim[i].size;
        }
    }
    if (others == 0) return dim_fixed(n);
    return others == 1 && n == 1 ? other : DIM_UNKNOWN;
}

static void transpose(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers perm;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &x)) return;
    numbers_of_attr(m, n, "perm", &perm);
    if (perm.known && perm.n != (uint32_t)x.rank) return;
    shape_set_rank(out, x.rank);
    for (int32_t i = 0; i < x.rank; i++) {
        int64_t from = perm.known ? perm.at[i] : x.rank - 1 - i;
        if (from >= 0 && from < x.rank) out->dim[i] = x.dim[from];
    }
}

static void reshape(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, target;
    struct numbers sizes;
    (void)output;
    shape_give_up(out);
    bool known = shape_of_input(m, n, 0, &x);
    if (!numbers_of_attr_or_input(m, n, "shape", 1, &sizes)) return;
    if (!sizes.known) { /* its length may be known, though not its numbers */
        if (shape_of_input(m, n, 1, &target) && target.rank == 1 && dim_is_fixed(target.dim[0]))
            shape_set_rank(out, target.dim[0].size);
        return;
    }
    if (!shape_set_rank(out, sizes.n)) return;
    bool allow_zero = ir_attr_int(m, n, "allowzero", 0) != 0;
    int32_t rest = -1;
    uint32_t copied = 0; /* dimensions that are the input's own, bit by bit */
    int64_t others = 1;
    for (int32_t i = 0; i < out->rank; i++) {
        if (sizes.at[i] == -1) {
            rest = i;
        } else if (sizes.at[i] == 0 && !allow_zero) {
            if (known && i < x.rank) {
                out->dim[i] = x.dim[i];
                copied |= 1u << i;
            }
        } else {
            out->dim[i] = dim_fixed(sizes.at[i]);
            if (others && sizes.at[i] > 0 && sizes.at[i] <= INT64_MAX / others)
                others *= sizes.at[i];
            else
                others = 0;
        }
    }
    if (rest < 0 || !known || !others) return;
    /* -1 takes what is left of the elements, once those dimensions are out that are copied. */
    struct shape left = {0};
    for (int32_t i = 0; i < x.rank; i++)
        if (!(copied >> i & 1)) left.dim[left.rank++] = x.dim[i];
    struct ir_dim all = product(&left, 0, left.rank);
    if (others == 1)
        out->dim[rest] = all;
    else if (dim_is_fixed(all) && all.size % others == 0)
        out->dim[rest] = dim_fixed(all.size / others);
}

static void flatten(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_set_rank(out, 2);
    if (!shape_of_input(m, n, 0, &x)) return;
    int64_t axis = ir_attr_int(m, n, "axis", 1);
    if (axis < 0) axis += x.rank;
    if (axis < 0 || axis > x.rank) return;
    out->dim[0] = product(&x, 0, (int32_t)axis);
    out->dim[1] = product(&x, (int32_t)axis, x.rank);
}

static void squeeze(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &x)) return;
    bool given = numbers_of_attr_or_input(m, n, "axes", 1, &axes);
    if (given && !axes.known) return;
    uint32_t bits = numbers_axis_bits(&axes, x.rank);
    for (int32_t i = 0; !given && i < x.rank; i++) {
        if (!dim_is_fixed(x.dim[i])) return;
        if (x.dim[i].size == 1) bits |= 1u << i;
    }
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++)
        if (!(bits >> i & 1)) out->dim[out->rank++] = x.dim[i];
}

static void unsqueeze(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &x) || !numbers_of_attr_or_input(m, n, "axes", 1, &axes) ||
        !axes.known)
        return;
    if (!shape_set_rank(out, (int64_t)x.rank + axes.n)) return;
    uint32_t bits = numbers_axis_bits(&axes, out->rank);
    for (int32_t i = 0, from = 0; i < out->rank; i++) {
        if (bits >> i & 1)
            out->dim[i] = dim_fixed(1);
        else if (from < x.rank)
            out->dim[i] = x.dim[from++];
    }
}

/* ---- cutting and joining --------------------------------------------------------------------- */

static void concat(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!shape_of_input(m, n, 0, out)) return;
    int32_t axis = shape_axis(ir_attr_int(m, n, "axis", 1), out->rank);
    for (uint32_t i = 1; i < m->node.at[n].n_inputs; i++) {
        struct shape x;
        if (!shape_of_input(m, n, i, &x) || x.rank != out->rank || axis < 0) {
            shape_give_up(out);
            return;
        }
        for (int32_t k = 0; k < out->rank; k++) {
            struct ir_dim *d = &out->dim[k];
            if (k != axis)
                *d = dim_is_fixed(*d) || !dim_is_fixed(x.dim[k]) ? *d : x.dim[k];
            else if (dim_is_fixed(*d) && dim_is_fixed(x.dim[k]) &&
                     d->size <= INT64_MAX - x.dim[k].size)
                d->size += x.dim[k].size;
            else
                *d = DIM_UNKNOWN;
        }
    }
}

static void split(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers sizes;
    if (!shape_of_input(m, n, 0, out)) return;
    int32_t axis = shape_axis(ir_attr_int(m, n, "axis", 0), out->rank);
    if (axis < 0) {
        shape_give_up(out);
        return;
    }
    struct ir_dim whole = out->dim[axis];
    int64_t parts = m->node.at[n].n_outputs;
    out->dim[axis] = DIM_UNKNOWN;
    if (numbers_of_attr_or_input(m, n, "split", 1, &sizes)) {
        if (sizes.known) out->dim[axis] = dim_fixed(numbers_at(&sizes, output, -1));
    } else if (dim_is_fixed(whole) &&
               whole.size <= INT64_MAX - parts) { /* equal parts, the last one smaller */
        int64_t part = (whole.size + parts - 1) / parts, left = whole.size - part * output;
        out->dim[axis] = dim_fixed(left < 0 ? 0 : left < part ? left : part);
    }
}

static void slice(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers starts, ends, axes, steps;
    (void)output;
    if (!shape_of_input(m, n, 0, out)) return;
    numbers_of_attr_or_input(m, n, "starts", 1, &starts);
    numbers_of_attr_or_input(m, n, "ends", 2, &ends);
    bool has_axes = numbers_of_attr_or_input(m, n, "axes", 3, &axes);
    bool has_steps = numbers_of_attr_or_input(m, n, "steps", 4, &steps);
    if (has_axes ? !axes.known : !starts.known) { /* any of them may be cut */
        shape_set_rank(out, out->rank);
        return;
    }
    uint32_t count = has_axes ? axes.n : starts.n;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(has_axes ? axes.at[i] : i, out->rank);
        if (axis < 0) continue;
        struct ir_dim whole = out->dim[axis];
        out->dim[axis] = DIM_UNKNOWN;
        if (!dim_is_fixed(whole) || !starts.known || !ends.known || (has_steps && !steps.known) ||
            i >= starts.n || i >= ends.n)
            continue;
        int64_t step = numbers_at(&steps, i, 1);
        if (step)
            out->dim[axis] =
                dim_fixed(shape_slice_length(whole.size, starts.at[i], ends.at[i], step));
    }
}

static void gather(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, indices;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(m, n, 0, &x) || !shape_of_input(m, n, 1, &indices)) return;
    int32_t axis = shape_axis(ir_attr_int(m, n, "axis", 0), x.rank);
    if (axis < 0 || !shape_set_rank(out, (int64_t)x.rank - 1 + indices.rank)) return;
    int32_t to = 0;
    for (int32_t i = 0; i < axis; i++) out->dim[to++] = x.dim[i];
    for (int32_t i = 0; i < indices.rank; i++) out->dim[to++] = indices.dim[i];
    for (int32_t i = axis + 1; i < x.rank; i++) out->dim[to++] = x.dim[i];
}

static void as_indices(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_of_input(m, n, 1, out);
}

static void expand(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers sizes;
    struct shape target;
    (void)output;
    shape_of_input(m, n, 0, out);
    numbers_of_input(m, n, 1, &sizes);
    if (!sizes.known || !shape_set_rank(&target, sizes.n)) {
        shape_give_up(out);
        return;
    }
    for (uint32_t i = 0; i < sizes.n; i++) target.dim[i] = dim_fixed(sizes.at[i]);
    shape_broadcast(out, &target);
}

static void tile(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers repeats;
    (void)output;
    if (!shape_of_input(m, n, 0, out)) return;
    numbers_of_input(m, n, 1, &repeats);
    for (int32_t i = 0; i < out->rank; i++) {
        int64_t times = numbers_at(&repeats, (uint32_t)i, -1);
        if (times == 1) continue;
        bool known = dim_is_fixed(out->dim[i]) && times >= 0 && number_is_sane(times) &&
                     number_is_sane(out->dim[i].size);
        out->dim[i] = known ? dim_fixed(out->dim[i].size * times) : DIM_UNKNOWN;
    }
}

static void pad(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers pads;
    (void)output;
    if (!shape_of_input(m, n, 0, out)) return;
    numbers_of_attr(m, n, "paddings", &pads); /* its name in opset 1 */
    if (!pads.known) numbers_of_attr_or_input(m, n, "pads", 1, &pads);
    bool all = pads.known && pads.n == 2 * (uint32_t)out->rank && !ir_input(m, n, 3);
    for (int32_t i = 0; i < out->rank; i++) {
        int64_t more = all ? numbers_both_pads(&pads, (uint32_t)i, (uint32_t)(i + out->rank)) : 0;
        if (all && more == 0) continue;
        bool known = all && dim_is_fixed(out->dim[i]) && number_is_sane(more) &&
                     number_is_sane(out->dim[i].size);
        out->dim[i] = known ? dim_fixed(out->dim[i].size + more) : DIM_UNKNOWN;
    }
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_move[] = {
    {transpose, "Transpose"},
    {reshape, "Reshape"},
    {flatten, "Flatten"},
    {squeeze, "Squeeze"},
    {unsqueeze, "Unsqueeze"},
    {concat, "Concat"},
    {split, "Split"},
    {slice, "Slice"},
    {gather, "Gather"},
    {as_indices, "GatherElements"},
    {expand, "Expand"},
    {tile, "Tile"},
    {pad, "Pad"},
    {NULL, NULL},
};
