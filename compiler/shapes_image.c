/* Shapes of operators on images: resizing, moving between depth and space, sampling, regions. */
#include "shape_rules.h"
#include <string.h>

/* ---- resizing -------------------------------------------------------------------------------- */

static struct ir_dim scaled(struct ir_dim d, double scale) {
    if (scale == 1) return d;
    double size = (double)d.size * (double)(float)scale;
    bool known = dim_is_fixed(d) && number_is_sane(d.size) && size >= 0 && size <= 1 << 30;
    return known ? dim_fixed((int64_t)size) : DIM_UNKNOWN; /* rounded down */
}

static bool scales_of_attr(const struct facts *f, ir_node n, const char *name, double *out,
                           uint32_t *count) {
    const struct ir_attr_info *a = &f->m->attr.at[ir_attr_find(f->m, n, name)];
    *count = a->n_values;
    if (a->kind != IR_ATTR_FLOATS || a->n_values > SHAPE_MAX_RANK) return false;
    for (uint32_t i = 0; i < a->n_values; i++) out[i] = f->m->attr_value.at[a->values + i].f;
    return true;
}

/* Sizes of the axes that are resized; where the aspect is kept, all get one scale. */
static void by_sizes(const struct facts *f, ir_node n, const struct elements *sizes,
                     const struct numbers *axes, struct shape *out) {
    const char *policy = shape_attr_string(f, n, "keep_aspect_ratio_policy");
    bool larger = strcmp(policy, "not_smaller") == 0,
         keep = larger || !strcmp(policy, "not_larger");
    double scale = larger ? 0 : 1e30;
    bool known = true;
    for (uint32_t i = 0; i < sizes->n; i++) {
        int32_t axis = shape_axis(numbers_at(axes, i, i), out->rank);
        if (axis < 0) continue;
        struct ir_dim *d = &out->dim[axis];
        if (!keep) {
            *d = element_dim(sizes->at[i]);
            continue;
        }
        known &= dim_is_fixed(*d) && d->size > 0 && sizes->at[i].known;
        double own = known ? (double)sizes->at[i].n / (double)d->size : 1;
        if (larger ? own > scale : own < scale) scale = own;
    }
    for (uint32_t i = 0; keep && i < sizes->n; i++) {
        int32_t axis = shape_axis(numbers_at(axes, i, i), out->rank);
        if (axis < 0) continue;
        double size = known ? scale * (double)out->dim[axis].size + 0.5 : -1;
        out->dim[axis] = dim_fixed(size >= 0 && size <= 1 << 30 ? (int64_t)size : -1);
    }
}

static void resize(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct numbers axes;
    struct elements sizes;
    double scales[SHAPE_MAX_RANK];
    uint32_t count, n_inputs = f->m->node.at[n].n_inputs;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    numbers_of_attr(f, n, "axes", &axes);
    if (ir_input(f->m, n, 3)) {
        bool known = facts_elements(f, ir_input(f->m, n, 3), &sizes) &&
                     sizes.n == (axes.known ? axes.n : (uint32_t)out->rank);
        if (known)
            by_sizes(f, n, &sizes, &axes, out);
        else
            shape_set_rank(out, out->rank);
        return;
    }
    /* (X, roi, scales) from opset 11 on, (X, scales) before, and attributes at first. */
    ir_value given = ir_input(f->m, n, n_inputs == 2 ? 1 : 2);
    bool known = given ? facts_floats(f, given, scales, SHAPE_MAX_RANK, &count)
                       : scales_of_attr(f, n, "scales", scales, &count);
    if (!known || count != (axes.known ? axes.n : (uint32_t)out->rank)) {
        shape_set_rank(out, out->rank);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(numbers_at(&axes, i, i), out->rank);
        if (axis >= 0) out->dim[axis] = scaled(out->dim[axis], scales[i]);
    }
}

/* ---- depth and space ------------------------------------------------------------------------- */

static void depth_to_space(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    int64_t block = ir_attr_int(f->m, n, "blocksize", 0);
    (void)output;
    if (!shape_of_input(f, n, 0, out) || out->rank != 4 || block < 1 || block > 1 << 15) return;
    out->dim[1] = dim_over(out->dim[1], block * block);
    for (int32_t i = 2; i < 4; i++) out->dim[i] = dim_times(out->dim[i], block);
}

static void space_to_depth(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    int64_t block = ir_attr_int(f->m, n, "blocksize", 0);
    (void)output;
    if (!shape_of_input(f, n, 0, out) || out->rank != 4 || block < 1 || block > 1 << 15) return;
    out->dim[1] = dim_times(out->dim[1], block * block);
    for (int32_t i = 2; i < 4; i++) out->dim[i] = dim_over(out->dim[i], block);
}

static void columns_to_image(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements image;
    struct numbers block;
    struct shape x;
    (void)output;
    shape_give_up(out);
    if (!ir_input(f->m, n, 1) || !facts_elements(f, ir_input(f->m, n, 1), &image) ||
        !shape_set_rank(out, 2 + (int64_t)image.n))
        return;
    for (uint32_t i = 0; i < image.n; i++) out->dim[2 + i] = element_dim(image.at[i]);
    if (!shape_of_input(f, n, 0, &x) || x.rank != 3) return;
    out->dim[0] = x.dim[0];
    numbers_of_input(f, n, 2, &block);
    out->dim[1] = block.known ? x.dim[1] : DIM_UNKNOWN;
    for (uint32_t i = 0; i < block.n; i++) out->dim[1] = dim_over(out->dim[1], block.at[i]);
}

static void crop_or_pad(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct numbers axes;
    struct elements sizes;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    numbers_of_attr(f, n, "axes", &axes);
    if (!elements_of_attr_or_input(f, n, "shape", 1, &sizes)) {
        shape_set_rank(out, out->rank);
        return;
    }
    for (uint32_t i = 0; i < sizes.n; i++) {
        int32_t axis = shape_axis(numbers_at(&axes, i, i), out->rank);
        if (axis >= 0) out->dim[axis] = element_dim(sizes.at[i]);
    }
}

/* ---- sampling and regions -------------------------------------------------------------------- */

static void grid_sample(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape grid;
    bool known = shape_of_input(f, n, 0, out);
    (void)output;
    if (!known || !shape_of_input(f, n, 1, &grid) || grid.rank != out->rank) return;
    for (int32_t i = 2; i < out->rank; i++) out->dim[i] = grid.dim[i - 1];
}

/* A size [batch, channels, spatial...] gives [batch, spatial..., how many spatial]. */
static void affine_grid(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements size;
    (void)output;
    shape_give_up(out);
    if (!elements_of_attr_or_input(f, n, "size", 1, &size) || size.n < 3 ||
        !shape_set_rank(out, size.n))
        return;
    out->dim[0] = element_dim(size.at[0]);
    for (uint32_t i = 2; i < size.n; i++) out->dim[i - 1] = element_dim(size.at[i]);
    out->dim[size.n - 1] = dim_fixed((int64_t)size.n - 2);
}

static void regions(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, boxes;
    struct numbers pooled;
    (void)output;
    shape_set_rank(out, 4);
    if (shape_of_input(f, n, 0, &x) && x.rank == 4) out->dim[1] = x.dim[1];
    if (shape_of_input(f, n, 1, &boxes) && boxes.rank == 2) out->dim[0] = boxes.dim[0];
    numbers_of_attr(f, n, "pooled_shape", &pooled);
    out->dim[2] = dim_fixed(numbers_at(&pooled, 0, ir_attr_int(f->m, n, "output_height", 1)));
    out->dim[3] = dim_fixed(numbers_at(&pooled, 1, ir_attr_int(f->m, n, "output_width", 1)));
}

static void decoded(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    bool gray = strcmp(shape_attr_string(f, n, "pixel_format"), "Grayscale") == 0;
    (void)output;
    shape_set_rank(out, 3);
    out->dim[2] = dim_fixed(gray ? 1 : 3);
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_image[] = {
    {resize, "Resize Upsample"},      {depth_to_space, "DepthToSpace"},
    {space_to_depth, "SpaceToDepth"}, {columns_to_image, "Col2Im"},
    {crop_or_pad, "CenterCropPad"},   {grid_sample, "GridSample"},
    {affine_grid, "AffineGrid"},      {regions, "RoiAlign MaxRoiPool"},
    {decoded, "ImageDecoder"},        {NULL, NULL},
};
