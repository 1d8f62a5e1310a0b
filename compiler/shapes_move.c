/* Shapes of operators that move elements and compute none: reshaping, cutting, joining.
 *
 * Where an output has as many elements as the input, a dimension that is left open ('-1' of a
 * Reshape) follows from the others, also with symbols among them (product.h). */
#include "product.h"
#include "shape_rules.h"

/* ---- the same elements ----------------------------------------------------------------------- */

/* The product of dimensions [from, to). */
static struct ir_dim product(const struct facts *f, const struct shape *s, int32_t from,
                             int32_t to) {
    return product_size(f->m, product_of(f->m, &s->dim[from], to - from));
}

static void transpose(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers perm;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x)) return;
    numbers_of_attr(f, n, "perm", &perm);
    if (perm.known && perm.n != (uint32_t)x.rank) return;
    shape_set_rank(out, x.rank);
    for (int32_t i = 0; i < x.rank; i++) {
        int64_t from = perm.known ? perm.at[i] : x.rank - 1 - i;
        if (from >= 0 && from < x.rank) out->dim[i] = x.dim[from];
    }
}

/* What one dimension of `to` is so that both have as many elements. */
static struct ir_dim quotient(const struct facts *f, const struct shape *from, struct shape *to,
                              int32_t open) {
    to->dim[open] = dim_fixed(1);
    struct product divisor = product_of(f->m, to->dim, to->rank);
    return product_size(f->m, product_over(product_of(f->m, from->dim, from->rank), &divisor));
}

static void reshape(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct elements sizes;
    (void)output;
    shape_give_up(out);
    bool known = shape_of_input(f, n, 0, &x);
    if (!elements_of_attr_or_input(f, n, "shape", 1, &sizes) || !shape_set_rank(out, sizes.n))
        return;
    bool allow_zero = ir_attr_int(f->m, n, "allowzero", 0) != 0;
    int32_t open = -1, n_open = 0; /* a dimension that takes what is left */
    for (int32_t i = 0; i < out->rank; i++) {
        struct element e = sizes.at[i];
        out->dim[i] = element_dim(e);
        if (e.known && e.n == 0 && !allow_zero)
            out->dim[i] = known && i < x.rank ? x.dim[i] : DIM_UNKNOWN;
        else if (!e.symbol && (!e.known || e.n < 0)) {
            open = i;
            n_open++;
        }
    }
    if (known && n_open == 1) {
        /* '?' that was copied is the same dimension on both sides. */
        struct shape to = *out, from = x;
        for (int32_t i = 0; i < to.rank && i < from.rank; i++)
            if (sizes.at[i].known && sizes.at[i].n == 0 && !allow_zero)
                to.dim[i] = from.dim[i] = dim_fixed(1);
        out->dim[open] = quotient(f, &from, &to, open);
    }
}

static void flatten(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    shape_set_rank(out, 2);
    if (!shape_of_input(f, n, 0, &x)) return;
    int64_t axis = ir_attr_int(f->m, n, "axis", 1);
    if (axis < 0) axis += x.rank;
    if (axis < 0 || axis > x.rank) return;
    out->dim[0] = product(f, &x, 0, (int32_t)axis);
    out->dim[1] = product(f, &x, (int32_t)axis, x.rank);
}

static void squeeze(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x)) return;
    bool given = numbers_of_attr_or_input(f, n, "axes", 1, &axes);
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

static void unsqueeze(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x) || !numbers_of_attr_or_input(f, n, "axes", 1, &axes) ||
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

static void concat(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    bool known = shape_of_input(f, n, 0, out);
    for (uint32_t i = 1; !known && i < f->m->node.at[n].n_inputs; i++)
        if (shape_of_input(f, n, i, out)) { /* the rank, at least, is that of any other */
            int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", 1), out->rank);
            if (axis >= 0) out->dim[axis] = DIM_UNKNOWN;
            return;
        }
    if (!known) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", 1), out->rank);
    for (uint32_t i = 1; i < f->m->node.at[n].n_inputs; i++) {
        struct shape x;
        if (!shape_of_input(f, n, i, &x) && axis >= 0) {
            out->dim[axis] = DIM_UNKNOWN;
            continue;
        }
        if (x.rank != out->rank || axis < 0) {
            shape_give_up(out);
            return;
        }
        for (int32_t k = 0; k < out->rank; k++) {
            struct ir_dim *d = &out->dim[k];
            if (k != axis)
                *d = dim_is_fixed(*d) || (d->symbol && !dim_is_fixed(x.dim[k])) ? *d : x.dim[k];
            else if (dim_is_fixed(*d) && dim_is_fixed(x.dim[k]) &&
                     d->size <= INT64_MAX - x.dim[k].size)
                d->size += x.dim[k].size;
            else
                *d = DIM_UNKNOWN;
        }
    }
}

static void split(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements sizes;
    if (!shape_of_input(f, n, 0, out)) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", 0), out->rank);
    if (axis < 0) {
        shape_give_up(out);
        return;
    }
    struct ir_dim whole = out->dim[axis];
    int64_t parts = ir_attr_int(f->m, n, "num_outputs", f->m->node.at[n].n_outputs);
    out->dim[axis] = DIM_UNKNOWN;
    if (ir_attr_find(f->m, n, "split") || ir_input(f->m, n, 1)) {
        bool counted = elements_of_attr_or_input(f, n, "split", 1, &sizes);
        if (counted && output < sizes.n) out->dim[axis] = element_dim(sizes.at[output]);
    } else if (dim_is_fixed(whole) && parts > 0 &&
               whole.size <= INT64_MAX - parts) { /* equal parts, the last one smaller */
        int64_t part = (whole.size + parts - 1) / parts, left = whole.size - part * output;
        out->dim[axis] = dim_fixed(left < 0 ? 0 : left < part ? left : part);
    } else if (parts == 1) {
        out->dim[axis] = whole;
    }
}

/* What is left of a dimension from start to end in steps; '?' where it depends on what is not known.
 */
static struct ir_dim cut(struct ir_dim whole, struct element start, struct element end,
                         int64_t step) {
    if (step == 0) return DIM_UNKNOWN;
    if (step == 1 && start.known && start.n == 0) {
        if (end.known && end.n == 0) return dim_fixed(0);
        bool all = end.known && end.n >= INT32_MAX && !dim_is_fixed(whole);
        if (all || element_same(element_of_dim(whole), end)) return whole;
    }
    if (dim_is_fixed(whole) && start.known && end.known)
        return dim_fixed(shape_slice_length(whole.size, start.n, end.n, step));
    return DIM_UNKNOWN;
}

static void slice(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements starts, ends;
    struct numbers axes, steps;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    bool counted = elements_of_attr_or_input(f, n, "starts", 1, &starts);
    counted &= elements_of_attr_or_input(f, n, "ends", 2, &ends) && starts.n == ends.n;
    bool has_axes = numbers_of_attr_or_input(f, n, "axes", 3, &axes);
    bool has_steps = numbers_of_attr_or_input(f, n, "steps", 4, &steps);
    if (has_axes ? !axes.known : !counted) { /* any of them may be cut */
        shape_set_rank(out, out->rank);
        return;
    }
    uint32_t count = has_axes ? axes.n : starts.n;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(has_axes ? axes.at[i] : i, out->rank);
        if (axis < 0) continue;
        bool known = counted && i < starts.n && (!has_steps || steps.known);
        out->dim[axis] =
            known ? cut(out->dim[axis], starts.at[i], ends.at[i], numbers_at(&steps, i, 1))
                  : DIM_UNKNOWN;
    }
}

static void expand(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements sizes;
    struct shape target;
    (void)output;
    bool known = shape_of_input(f, n, 0, out);
    if (!elements_of_attr_or_input(f, n, "shape", 1, &sizes) || !shape_set_rank(&target, sizes.n)) {
        shape_give_up(out);
        return;
    }
    for (uint32_t i = 0; i < sizes.n; i++) target.dim[i] = element_dim(sizes.at[i]);
    if (known) {
        shape_broadcast(out, &target);
    } else if (sizes.n > 0) {
        shape_give_up(out); /* the input may have more dimensions */
    }
}

static void tile(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    struct elements repeats;
    if (ir_input(f->m, n, 2)) { /* tiles and axis, in opset 1 */
        shape_set_rank(out, out->rank);
        return;
    }
    bool counted = elements_of_attr_or_input(f, n, "repeats", 1, &repeats);
    for (int32_t i = 0; i < out->rank; i++) {
        struct element times = counted && (uint32_t)i < repeats.n ? repeats.at[i] : ELEMENT_UNKNOWN;
        bool one = dim_is_fixed(out->dim[i]) && out->dim[i].size == 1;
        if (one)
            out->dim[i] = element_dim(times);
        else
            out->dim[i] = dim_times(out->dim[i], times.known ? times.n : -1);
    }
}

static void pad(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements pads;
    struct numbers axes;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    const char *name = ir_attr_find(f->m, n, "paddings") ? "paddings" : "pads"; /* opset 1 */
    bool counted = elements_of_attr_or_input(f, n, name, 1, &pads);
    bool has_axes = ir_input(f->m, n, 3) != 0;
    numbers_of_input(f, n, 3, &axes);
    uint32_t count = has_axes ? axes.n : (uint32_t)out->rank;
    if (!counted || (has_axes && !axes.known) || pads.n != 2 * count) {
        shape_set_rank(out, out->rank);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(has_axes ? axes.at[i] : i, out->rank);
        struct element before = pads.at[i], after = pads.at[i + count];
        bool known =
            before.known && after.known && number_is_sane(before.n) && number_is_sane(after.n);
        if (axis >= 0)
            out->dim[axis] = known ? dim_plus(out->dim[axis], before.n + after.n) : DIM_UNKNOWN;
    }
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_move[] = {
    {transpose, "Transpose"}, {reshape, "Reshape"}, {flatten, "Flatten"}, {squeeze, "Squeeze"},
    {unsqueeze, "Unsqueeze"}, {concat, "Concat"},   {split, "Split"},     {slice, "Slice"},
    {expand, "Expand"},       {tile, "Tile"},       {pad, "Pad"},         {NULL, NULL},
};
