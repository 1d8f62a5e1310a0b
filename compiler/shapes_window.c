/* Shapes behind a window that slides over the spatial dimensions: convolutions and pools.
 *
 * An input is [batch, channels, spatial...]. Kernel, strides, dilations and padding are numbers
 * from somebody's file: what is too large to make sense gives '?', so that nothing here can
 * overflow. */
#include "shape_rules.h"
#include <string.h>

struct window {
    struct numbers kernel, strides, dilations, pads, output_padding;
    const char *auto_pad;
};

static void read_window(const struct facts *f, ir_node n, struct window *w) {
    numbers_of_attr(f, n, "kernel_shape", &w->kernel);
    numbers_of_attr(f, n, "strides", &w->strides);
    numbers_of_attr(f, n, "dilations", &w->dilations);
    numbers_of_attr(f, n, "pads", &w->pads);
    numbers_of_attr(f, n, "output_padding", &w->output_padding);
    w->auto_pad = shape_attr_string(f, n, "auto_pad");
}

/* One spatial dimension through a window of `kernel`. */
static struct ir_dim slide(const struct window *w, uint32_t i, uint32_t spatial, struct ir_dim in,
                           int64_t kernel, bool ceil_mode) {
    int64_t stride = numbers_at(&w->strides, i, 1), dilation = numbers_at(&w->dilations, i, 1);
    int64_t pad = numbers_both_pads(&w->pads, i, i + spatial);
    if (kernel < 1 || stride < 1 || !number_is_sane(stride) || dilation < 1 ||
        !number_is_sane(dilation) || !number_is_sane(kernel) || !number_is_sane(pad))
        return DIM_UNKNOWN;
    int64_t extent = dilation * (kernel - 1) + 1;
    bool same = strncmp(w->auto_pad, "SAME", 4) == 0;
    if (strcmp(w->auto_pad, "VALID") == 0) pad = 0;
    if (stride == 1 && (same || pad == extent - 1)) return in;
    if (!dim_is_fixed(in) || !number_is_sane(in.size)) return DIM_UNKNOWN;
    if (same) return dim_fixed((in.size + stride - 1) / stride);
    int64_t room = in.size + pad - extent;
    if (room < 0) return DIM_UNKNOWN;
    int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    /* A window that would start in the padding behind the end is left out. */
    if (ceil_mode && (out - 1) * stride >= in.size + numbers_at(&w->pads, i, 0)) out--;
    return dim_fixed(out);
}

static void convolve(const struct facts *f, ir_node n, uint32_t weights, struct shape *out) {
    struct shape x, w;
    struct window window;
    shape_give_up(out);
    bool have_w = shape_of_input(f, n, weights, &w);
    if (!shape_of_input(f, n, 0, &x) || x.rank < 3 || (have_w && w.rank != x.rank)) return;
    read_window(f, n, &window);
    shape_set_rank(out, x.rank);
    out->dim[0] = x.dim[0];
    if (have_w) out->dim[1] = w.dim[0];
    for (int32_t i = 2; i < x.rank; i++) {
        int64_t kernel = have_w && dim_is_fixed(w.dim[i]) ? w.dim[i].size : 0;
        if (window.kernel.known) kernel = numbers_at(&window.kernel, (uint32_t)i - 2, 0);
        out->dim[i] =
            slide(&window, (uint32_t)i - 2, (uint32_t)x.rank - 2, x.dim[i], kernel, false);
    }
}

static void conv(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    convolve(f, n, 1, out);
}

static void conv_quantized(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    convolve(f, n, 3, out);
}

static void conv_transpose(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, w;
    struct window window;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x) || x.rank < 3 || !shape_of_input(f, n, 1, &w) ||
        w.rank != x.rank)
        return;
    read_window(f, n, &window);
    shape_set_rank(out, x.rank);
    uint32_t spatial = (uint32_t)x.rank - 2;
    int64_t group = ir_attr_int(f->m, n, "group", 1);
    out->dim[0] = x.dim[0];
    if (dim_is_fixed(w.dim[1]) && number_is_sane(group) && number_is_sane(w.dim[1].size))
        out->dim[1] = dim_fixed(w.dim[1].size * group);
    struct numbers sizes;
    numbers_of_attr(f, n, "output_shape", &sizes);
    for (uint32_t i = 0; i < spatial; i++) {
        struct ir_dim in = x.dim[i + 2];
        int64_t kernel = numbers_at(&window.kernel, i, w.dim[i + 2].size);
        int64_t stride = numbers_at(&window.strides, i, 1),
                dilation = numbers_at(&window.dilations, i, 1);
        int64_t pad = numbers_both_pads(&window.pads, i, i + spatial);
        int64_t more = numbers_at(&window.output_padding, i, 0);
        if (sizes.known) /* early exporters also wrote batch and channels */
            out->dim[i + 2] = dim_fixed(numbers_at(&sizes, sizes.n - spatial + i, -1));
        else if (dim_is_fixed(in) && number_is_sane(in.size) && number_is_sane(kernel) &&
                 kernel > 0 && number_is_sane(stride) && number_is_sane(dilation) &&
                 number_is_sane(pad) && number_is_sane(more))
            out->dim[i + 2] =
                strncmp(window.auto_pad, "SAME", 4) == 0
                    ? dim_fixed(in.size * stride)
                    : dim_fixed((in.size - 1) * stride + more + dilation * (kernel - 1) + 1 - pad);
    }
}

static void pool(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct window window;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &x) || x.rank < 3) return;
    read_window(f, n, &window);
    shape_set_rank(out, x.rank);
    out->dim[0] = x.dim[0];
    out->dim[1] = x.dim[1];
    for (int32_t i = 2; i < x.rank; i++)
        out->dim[i] = slide(&window, (uint32_t)i - 2, (uint32_t)x.rank - 2, x.dim[i],
                            numbers_at(&window.kernel, (uint32_t)i - 2, 0),
                            ir_attr_int(f->m, n, "ceil_mode", 0) != 0);
}

/* What a pool with this window would have made the input of. */
static void unpool(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements sizes;
    struct window w;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    if (ir_input(f->m, n, 2)) {
        bool known = facts_elements(f, ir_input(f->m, n, 2), &sizes);
        shape_set_rank(out, out->rank);
        for (int32_t i = 0; known && (uint32_t)out->rank == sizes.n && i < out->rank; i++)
            out->dim[i] = element_dim(sizes.at[i]);
        return;
    }
    read_window(f, n, &w);
    for (int32_t i = 2; i < out->rank; i++) {
        uint32_t k = (uint32_t)i - 2;
        int64_t kernel = numbers_at(&w.kernel, k, 1), stride = numbers_at(&w.strides, k, 1);
        int64_t pad = numbers_both_pads(&w.pads, k, k + (uint32_t)out->rank - 2);
        bool sane = number_is_sane(kernel) && number_is_sane(pad);
        out->dim[i] = dim_times(dim_plus(out->dim[i], -1), stride);
        out->dim[i] = sane ? dim_plus(out->dim[i], kernel - pad) : DIM_UNKNOWN;
    }
}

static void global_pool(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    for (int32_t i = 2; i < out->rank; i++) out->dim[i] = dim_fixed(1);
}

const struct shape_rules shape_rules_window[] = {
    {conv, "Conv ConvInteger DeformConv"},
    {conv_quantized, "QLinearConv"},
    {conv_transpose, "ConvTranspose"},
    {pool, "AveragePool LpPool MaxPool"},
    {unpool, "MaxUnpool"},
    {global_pool, "GlobalAveragePool GlobalLpPool GlobalMaxPool"},
    {NULL, NULL},
};
