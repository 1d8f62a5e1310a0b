/* Shape rules, one function per family of operators, as the ONNX specification states them.
 *
 * A rule sees the node and what is known of its inputs, and gives as much of the output's shape as
 * follows: a dimension that does not is '?', a shape whose rank does not follow has none. Shapes
 * serve the cost model and the reports, never the question which gradients exist, so a rule may
 * give up where a case is rare, but what it says has to be right.
 *
 * Numbers come from attributes and from payloads that the reader keeps (integers of up to
 * IR_MAX_INTS elements); a shape that the graph computes from another's Shape is '?'. */
#include "shapes.h"
#include <string.h>

static const struct ir_dim unknown_dim = {.size = -1};

static struct ir_dim fixed(int64_t size) { return (struct ir_dim){.size = size < 0 ? -1 : size}; }
static bool is_fixed(struct ir_dim d) { return !d.symbol && d.size >= 0; }
static bool same_dim(struct ir_dim a, struct ir_dim b) {
    return a.symbol == b.symbol && (a.symbol || (a.size == b.size && a.size >= 0));
}

struct ir_dim shape_join_dim(struct ir_dim a, struct ir_dim b) {
    return same_dim(a, b) ? a : unknown_dim;
}

static void give_up(struct shape *s) { s->rank = IR_RANK_UNKNOWN; }

/* Sets a rank whose dimensions are not known yet. */
static bool set_rank(struct shape *s, int64_t rank) {
    if (rank < 0 || rank > SHAPE_MAX_RANK) {
        give_up(s);
        return false;
    }
    s->rank = (int32_t)rank;
    for (int32_t i = 0; i < s->rank; i++) s->dim[i] = unknown_dim;
    return true;
}

void shape_of_type(const struct ir_module *m, ir_type t, struct shape *out) {
    const struct ir_type_info *info = &m->type.at[t];
    give_up(out);
    if (info->kind != IR_TYPE_TENSOR || info->rank < 0 || info->rank > SHAPE_MAX_RANK) return;
    out->rank = info->rank;
    for (int32_t i = 0; i < info->rank; i++) out->dim[i] = m->dim.at[info->dims + (uint32_t)i];
}

static bool input_shape(const struct ir_module *m, ir_node n, uint32_t i, struct shape *out) {
    shape_of_type(m, m->value.at[ir_input(m, n, i)].type, out);
    return out->rank != IR_RANK_UNKNOWN;
}

/* ---- numbers --------------------------------------------------------------------------------- */

struct numbers {
    bool known;
    uint32_t n;
    int64_t at[IR_MAX_INTS];
};

static void take_ints(struct numbers *out, const int64_t *ints, uint32_t n) {
    if (n > IR_MAX_INTS) return;
    out->known = true;
    out->n = n;
    memcpy(out->at, ints, n * sizeof *ints);
}

static void attr_numbers(const struct ir_module *m, ir_node n, const char *name,
                         struct numbers *out) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    out->known = false;
    out->n = 0;
    if (a->kind == IR_ATTR_TENSOR && a->n_values) {
        const int64_t *ints;
        ir_data data = m->attr_value.at[a->values].tensor.data;
        uint32_t count = ir_data_ints(m, data, &ints);
        if (count) take_ints(out, ints, count);
    } else if ((a->kind == IR_ATTR_INT || a->kind == IR_ATTR_INTS) && a->n_values <= IR_MAX_INTS) {
        out->known = true;
        for (uint32_t i = 0; i < a->n_values; i++)
            out->at[out->n++] = m->attr_value.at[a->values + i].i;
    }
}

/* The numbers of an input that is a constant. */
static void input_numbers(const struct ir_module *m, ir_node n, uint32_t i, struct numbers *out) {
    const struct ir_value_info *v = &m->value.at[ir_input(m, n, i)];
    out->known = false;
    out->n = 0;
    if (v->def == IR_DEF_INITIALIZER) {
        const int64_t *ints;
        uint32_t count = ir_data_ints(m, v->data, &ints);
        if (count) take_ints(out, ints, count);
    } else if (v->def == IR_DEF_NODE &&
               strcmp(ir_text(m, m->node.at[v->node].op), "Constant") == 0) {
        attr_numbers(m, v->node, "value", out);
        if (!out->known) attr_numbers(m, v->node, "value_ints", out);
        if (!out->known) attr_numbers(m, v->node, "value_int", out);
    }
}

/* Axes and the like: an attribute in early opsets, an input in later ones. `given` says that there
 * is one, known or not. */
static bool attr_or_input(const struct ir_module *m, ir_node n, const char *name, uint32_t input,
                          struct numbers *out) {
    attr_numbers(m, n, name, out);
    if (out->known) return true;
    if (!ir_input(m, n, input)) return false;
    input_numbers(m, n, input, out);
    return true;
}

static int64_t attr_int(const struct ir_module *m, ir_node n, const char *name, int64_t otherwise) {
    return ir_attr_int(m, n, name, otherwise);
}

static const char *attr_string(const struct ir_module *m, ir_node n, const char *name) {
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, name)];
    return a->kind == IR_ATTR_STRING && a->n_values ? ir_text(m, m->attr_value.at[a->values].s)
                                                    : "";
}

/* A negative axis counts from the end; -1 if it is out of range. */
static int32_t normal_axis(int64_t axis, int32_t rank) {
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? (int32_t)axis : -1;
}

/* The product of dimensions [from, to); '?' unless all are fixed (one alone may be a symbol). */
static struct ir_dim product(const struct shape *s, int32_t from, int32_t to) {
    int64_t n = 1;
    struct ir_dim other = unknown_dim;
    int others = 0;
    for (int32_t i = from; i < to; i++) {
        if (!is_fixed(s->dim[i])) {
            other = s->dim[i];
            others++;
        } else if (s->dim[i].size && n > INT64_MAX / s->dim[i].size) {
            return unknown_dim;
        } else {
            n *= s->dim[i].size;
        }
    }
    if (others == 0) return fixed(n);
    return others == 1 && n == 1 ? other : unknown_dim;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static void same_as_input(const struct ir_module *m, ir_node n, uint32_t output,
                          struct shape *out) {
    (void)output;
    input_shape(m, n, 0, out);
}

static void first_as_input(const struct ir_module *m, ir_node n, uint32_t output,
                           struct shape *out) {
    give_up(out);
    if (output == 0) input_shape(m, n, 0, out);
}

static struct ir_dim broadcast_dim(struct ir_dim a, struct ir_dim b) {
    if (is_fixed(a) && a.size == 1) return b;
    if (is_fixed(b) && b.size == 1) return a;
    if (same_dim(a, b)) return a;
    if (is_fixed(a)) return a; /* the other is not known, but has to fit */
    return is_fixed(b) ? b : unknown_dim;
}

static void broadcast(struct shape *a, const struct shape *b) {
    if (a->rank < 0 || b->rank < 0) {
        give_up(a);
        return;
    }
    struct shape result;
    set_rank(&result, a->rank > b->rank ? a->rank : b->rank);
    for (int32_t i = 1; i <= result.rank; i++) {
        struct ir_dim x = i <= a->rank ? a->dim[a->rank - i] : fixed(1);
        struct ir_dim y = i <= b->rank ? b->dim[b->rank - i] : fixed(1);
        result.dim[result.rank - i] = broadcast_dim(x, y);
    }
    *a = result;
}

static void broadcast_all(const struct ir_module *m, ir_node n, uint32_t output,
                          struct shape *out) {
    (void)output;
    input_shape(m, n, 0, out);
    for (uint32_t i = 1; i < m->node.at[n].n_inputs; i++) {
        struct shape next;
        if (!ir_input(m, n, i)) continue;
        input_shape(m, n, i, &next);
        broadcast(out, &next);
    }
}

/* ---- convolutions and pools ------------------------------------------------------------------ */

struct window {
    struct numbers kernel, strides, dilations, pads, output_padding;
    const char *auto_pad;
};

static void read_window(const struct ir_module *m, ir_node n, struct window *w) {
    attr_numbers(m, n, "kernel_shape", &w->kernel);
    attr_numbers(m, n, "strides", &w->strides);
    attr_numbers(m, n, "dilations", &w->dilations);
    attr_numbers(m, n, "pads", &w->pads);
    attr_numbers(m, n, "output_padding", &w->output_padding);
    w->auto_pad = attr_string(m, n, "auto_pad");
}

static int64_t number(const struct numbers *x, uint32_t i, int64_t otherwise) {
    return x->known && i < x->n ? x->at[i] : otherwise;
}

/* Numbers from a file: anything that large is nonsense, and nothing below can overflow. */
static bool sane(int64_t x) { return x >= -(1 << 30) && x <= (1 << 30); }

/* What is added on both sides together; something insane if either is. */
static int64_t both_pads(const struct numbers *pads, uint32_t i, uint32_t behind) {
    int64_t before = number(pads, i, 0), after = number(pads, behind, 0);
    return sane(before) && sane(after) ? before + after : INT64_MAX;
}

/* One spatial dimension through a window of `kernel`. */
static struct ir_dim slide(const struct window *w, uint32_t i, uint32_t spatial, struct ir_dim in,
                           int64_t kernel, bool ceil_mode) {
    int64_t stride = number(&w->strides, i, 1), dilation = number(&w->dilations, i, 1);
    int64_t pad = both_pads(&w->pads, i, i + spatial);
    if (kernel < 1 || stride < 1 || !sane(stride) || dilation < 1 || !sane(dilation) ||
        !sane(kernel) || !sane(pad))
        return unknown_dim;
    int64_t extent = dilation * (kernel - 1) + 1;
    bool same = strncmp(w->auto_pad, "SAME", 4) == 0;
    if (strcmp(w->auto_pad, "VALID") == 0) pad = 0;
    if (stride == 1 && (same || pad == extent - 1)) return in;
    if (!is_fixed(in) || !sane(in.size)) return unknown_dim;
    if (same) return fixed((in.size + stride - 1) / stride);
    int64_t room = in.size + pad - extent;
    if (room < 0) return unknown_dim;
    int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    /* A window that would start in the padding behind the end is left out. */
    if (ceil_mode && (out - 1) * stride >= in.size + number(&w->pads, i, 0)) out--;
    return fixed(out);
}

static void conv(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, w;
    struct window window;
    (void)output;
    give_up(out);
    bool have_w = input_shape(m, n, 1, &w);
    if (!input_shape(m, n, 0, &x) || x.rank < 3 || (have_w && w.rank != x.rank)) return;
    read_window(m, n, &window);
    set_rank(out, x.rank);
    out->dim[0] = x.dim[0];
    if (have_w) out->dim[1] = w.dim[0];
    for (int32_t i = 2; i < x.rank; i++) {
        int64_t kernel = have_w && is_fixed(w.dim[i]) ? w.dim[i].size : 0;
        if (window.kernel.known) kernel = number(&window.kernel, (uint32_t)i - 2, 0);
        out->dim[i] =
            slide(&window, (uint32_t)i - 2, (uint32_t)x.rank - 2, x.dim[i], kernel, false);
    }
}

static void conv_transpose(const struct ir_module *m, ir_node n, uint32_t output,
                           struct shape *out) {
    struct shape x, w;
    struct window window;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x) || x.rank < 3 || !input_shape(m, n, 1, &w) || w.rank != x.rank)
        return;
    read_window(m, n, &window);
    set_rank(out, x.rank);
    uint32_t spatial = (uint32_t)x.rank - 2;
    int64_t group = attr_int(m, n, "group", 1);
    out->dim[0] = x.dim[0];
    if (is_fixed(w.dim[1]) && sane(group) && sane(w.dim[1].size))
        out->dim[1] = fixed(w.dim[1].size * group);
    struct numbers sizes;
    attr_numbers(m, n, "output_shape", &sizes);
    for (uint32_t i = 0; i < spatial; i++) {
        struct ir_dim in = x.dim[i + 2];
        int64_t kernel = number(&window.kernel, i, w.dim[i + 2].size);
        int64_t stride = number(&window.strides, i, 1), dilation = number(&window.dilations, i, 1);
        int64_t pad = both_pads(&window.pads, i, i + spatial);
        int64_t more = number(&window.output_padding, i, 0);
        if (sizes.known)
            out->dim[i + 2] = fixed(number(&sizes, i, -1));
        else if (is_fixed(in) && sane(in.size) && sane(kernel) && kernel > 0 && sane(stride) &&
                 sane(dilation) && sane(pad) && sane(more))
            out->dim[i + 2] =
                strncmp(window.auto_pad, "SAME", 4) == 0
                    ? fixed(in.size * stride)
                    : fixed((in.size - 1) * stride + more + dilation * (kernel - 1) + 1 - pad);
    }
}

static void pool(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct window window;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x) || x.rank < 3) return;
    read_window(m, n, &window);
    set_rank(out, x.rank);
    out->dim[0] = x.dim[0];
    out->dim[1] = x.dim[1];
    for (int32_t i = 2; i < x.rank; i++)
        out->dim[i] =
            slide(&window, (uint32_t)i - 2, (uint32_t)x.rank - 2, x.dim[i],
                  number(&window.kernel, (uint32_t)i - 2, 0), attr_int(m, n, "ceil_mode", 0) != 0);
}

static void global_pool(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    for (int32_t i = 2; i < out->rank; i++) out->dim[i] = fixed(1);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static void gemm(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape a, b;
    (void)output;
    set_rank(out, 2);
    if (input_shape(m, n, 0, &a) && a.rank == 2)
        out->dim[0] = a.dim[attr_int(m, n, "transA", 0) != 0];
    if (input_shape(m, n, 1, &b) && b.rank == 2)
        out->dim[1] = b.dim[attr_int(m, n, "transB", 0) == 0];
}

static void matmul(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape a, b;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &a) || !input_shape(m, n, 1, &b) || a.rank < 1 || b.rank < 1) return;
    /* A vector is a matrix of one row or column, which the result then lacks. */
    bool row = a.rank >= 2, column = b.rank >= 2;
    struct ir_dim rows = row ? a.dim[a.rank - 2] : fixed(1);
    struct ir_dim columns = column ? b.dim[b.rank - 1] : fixed(1);
    struct shape batch = {.rank = row ? a.rank - 2 : 0}, other = {.rank = column ? b.rank - 2 : 0};
    memcpy(batch.dim, a.dim, sizeof batch.dim);
    memcpy(other.dim, b.dim, sizeof other.dim);
    broadcast(&batch, &other);
    if (!set_rank(out, batch.rank + row + column)) return;
    memcpy(out->dim, batch.dim, (size_t)batch.rank * sizeof *out->dim);
    if (row) out->dim[batch.rank] = rows;
    if (column) out->dim[batch.rank + row] = columns;
}

/* ---- rearranging ----------------------------------------------------------------------------- */

static void transpose(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers perm;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x)) return;
    attr_numbers(m, n, "perm", &perm);
    if (perm.known && perm.n != (uint32_t)x.rank) return;
    set_rank(out, x.rank);
    for (int32_t i = 0; i < x.rank; i++) {
        int64_t from = perm.known ? perm.at[i] : x.rank - 1 - i;
        if (from >= 0 && from < x.rank) out->dim[i] = x.dim[from];
    }
}

static void reshape(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, target;
    struct numbers sizes;
    (void)output;
    give_up(out);
    bool known = input_shape(m, n, 0, &x);
    if (!attr_or_input(m, n, "shape", 1, &sizes)) return;
    if (!sizes.known) { /* its length may be known, though not its numbers */
        if (input_shape(m, n, 1, &target) && target.rank == 1 && is_fixed(target.dim[0]))
            set_rank(out, target.dim[0].size);
        return;
    }
    if (!set_rank(out, sizes.n)) return;
    bool allow_zero = attr_int(m, n, "allowzero", 0) != 0;
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
            out->dim[i] = fixed(sizes.at[i]);
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
    else if (is_fixed(all) && all.size % others == 0)
        out->dim[rest] = fixed(all.size / others);
}

static void flatten(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    set_rank(out, 2);
    if (!input_shape(m, n, 0, &x)) return;
    int64_t axis = attr_int(m, n, "axis", 1);
    if (axis < 0) axis += x.rank;
    if (axis < 0 || axis > x.rank) return;
    out->dim[0] = product(&x, 0, (int32_t)axis);
    out->dim[1] = product(&x, (int32_t)axis, x.rank);
}

static uint32_t axis_bits(const struct numbers *axes, int32_t rank) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < axes->n; i++) {
        int32_t axis = normal_axis(axes->at[i], rank);
        if (axis >= 0) bits |= 1u << axis;
    }
    return bits;
}

static void squeeze(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x)) return;
    bool given = attr_or_input(m, n, "axes", 1, &axes);
    if (given && !axes.known) return;
    uint32_t bits = axis_bits(&axes, x.rank);
    for (int32_t i = 0; !given && i < x.rank; i++) {
        if (!is_fixed(x.dim[i])) return;
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
    give_up(out);
    if (!input_shape(m, n, 0, &x) || !attr_or_input(m, n, "axes", 1, &axes) || !axes.known) return;
    if (!set_rank(out, (int64_t)x.rank + axes.n)) return;
    uint32_t bits = axis_bits(&axes, out->rank);
    for (int32_t i = 0, from = 0; i < out->rank; i++) {
        if (bits >> i & 1)
            out->dim[i] = fixed(1);
        else if (from < x.rank)
            out->dim[i] = x.dim[from++];
    }
}

static void concat(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    int32_t axis = normal_axis(attr_int(m, n, "axis", 1), out->rank);
    for (uint32_t i = 1; i < m->node.at[n].n_inputs; i++) {
        struct shape x;
        if (!input_shape(m, n, i, &x) || x.rank != out->rank || axis < 0) {
            give_up(out);
            return;
        }
        for (int32_t k = 0; k < out->rank; k++) {
            struct ir_dim *d = &out->dim[k];
            if (k != axis)
                *d = is_fixed(*d) || !is_fixed(x.dim[k]) ? *d : x.dim[k];
            else if (is_fixed(*d) && is_fixed(x.dim[k]) && d->size <= INT64_MAX - x.dim[k].size)
                d->size += x.dim[k].size;
            else
                *d = unknown_dim;
        }
    }
}

static void split(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers sizes;
    if (!input_shape(m, n, 0, out)) return;
    int32_t axis = normal_axis(attr_int(m, n, "axis", 0), out->rank);
    if (axis < 0) {
        give_up(out);
        return;
    }
    struct ir_dim whole = out->dim[axis];
    int64_t parts = m->node.at[n].n_outputs;
    out->dim[axis] = unknown_dim;
    if (attr_or_input(m, n, "split", 1, &sizes)) {
        if (sizes.known) out->dim[axis] = fixed(number(&sizes, output, -1));
    } else if (is_fixed(whole) &&
               whole.size <= INT64_MAX - parts) { /* equal parts, the last one smaller */
        int64_t part = (whole.size + parts - 1) / parts, left = whole.size - part * output;
        out->dim[axis] = fixed(left < 0 ? 0 : left < part ? left : part);
    }
}

/* Bounds are clamped to the dimension; the result never has more than it. */
static int64_t slice_length(int64_t size, int64_t start, int64_t end, int64_t step) {
    if (start < 0) start = start < -size ? -1 : start + size;
    if (end < 0) end = end < -size ? -1 : end + size;
    if (step > 0) {
        if (start < 0) start = 0;
        if (end > size) end = size;
        return end > start ? (end - start - 1) / step + 1 : 0;
    }
    if (step == INT64_MIN) step++;
    if (start > size - 1) start = size - 1;
    if (end > size) end = size;
    return start > end ? (start - end - 1) / -step + 1 : 0;
}

static void slice(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers starts, ends, axes, steps;
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    attr_or_input(m, n, "starts", 1, &starts);
    attr_or_input(m, n, "ends", 2, &ends);
    bool has_axes = attr_or_input(m, n, "axes", 3, &axes);
    bool has_steps = attr_or_input(m, n, "steps", 4, &steps);
    if (has_axes ? !axes.known : !starts.known) { /* any of them may be cut */
        set_rank(out, out->rank);
        return;
    }
    uint32_t count = has_axes ? axes.n : starts.n;
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis = normal_axis(has_axes ? axes.at[i] : i, out->rank);
        if (axis < 0) continue;
        struct ir_dim whole = out->dim[axis];
        out->dim[axis] = unknown_dim;
        if (!is_fixed(whole) || !starts.known || !ends.known || (has_steps && !steps.known) ||
            i >= starts.n || i >= ends.n)
            continue;
        int64_t step = number(&steps, i, 1);
        if (step) out->dim[axis] = fixed(slice_length(whole.size, starts.at[i], ends.at[i], step));
    }
}

static void gather(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, indices;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x) || !input_shape(m, n, 1, &indices)) return;
    int32_t axis = normal_axis(attr_int(m, n, "axis", 0), x.rank);
    if (axis < 0 || !set_rank(out, (int64_t)x.rank - 1 + indices.rank)) return;
    int32_t to = 0;
    for (int32_t i = 0; i < axis; i++) out->dim[to++] = x.dim[i];
    for (int32_t i = 0; i < indices.rank; i++) out->dim[to++] = indices.dim[i];
    for (int32_t i = axis + 1; i < x.rank; i++) out->dim[to++] = x.dim[i];
}

static void as_indices(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    input_shape(m, n, 1, out);
}

static void expand(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers sizes;
    struct shape target;
    (void)output;
    input_shape(m, n, 0, out);
    input_numbers(m, n, 1, &sizes);
    if (!sizes.known || !set_rank(&target, sizes.n)) {
        give_up(out);
        return;
    }
    for (uint32_t i = 0; i < sizes.n; i++) target.dim[i] = fixed(sizes.at[i]);
    broadcast(out, &target);
}

static void tile(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers repeats;
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    input_numbers(m, n, 1, &repeats);
    for (int32_t i = 0; i < out->rank; i++) {
        int64_t times = number(&repeats, (uint32_t)i, -1);
        if (times == 1) continue;
        bool known = is_fixed(out->dim[i]) && times >= 0 && sane(times) && sane(out->dim[i].size);
        out->dim[i] = known ? fixed(out->dim[i].size * times) : unknown_dim;
    }
}

static void pad(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers pads;
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    attr_numbers(m, n, "paddings", &pads); /* its name in opset 1 */
    if (!pads.known) attr_or_input(m, n, "pads", 1, &pads);
    bool all = pads.known && pads.n == 2 * (uint32_t)out->rank && !ir_input(m, n, 3);
    for (int32_t i = 0; i < out->rank; i++) {
        int64_t more = all ? both_pads(&pads, (uint32_t)i, (uint32_t)(i + out->rank)) : 0;
        if (all && more == 0) continue;
        bool known = all && is_fixed(out->dim[i]) && sane(more) && sane(out->dim[i].size);
        out->dim[i] = known ? fixed(out->dim[i].size + more) : unknown_dim;
    }
}

/* ---- reductions, losses, shapes -------------------------------------------------------------- */

static void reduce(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers axes;
    (void)output;
    bool known = input_shape(m, n, 0, &x);
    bool keep = attr_int(m, n, "keepdims", 1) != 0;
    bool given = attr_or_input(m, n, "axes", 1, &axes);
    if (!given && attr_int(m, n, "noop_with_empty_axes", 0)) {
        *out = x;
        return;
    }
    give_up(out);
    if (!given && !keep) out->rank = 0;
    if (!known || (given && !axes.known)) {
        if (known && keep) set_rank(out, x.rank);
        return;
    }
    uint32_t bits = given ? axis_bits(&axes, x.rank) : UINT32_MAX;
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        if (!(bits >> i & 1))
            out->dim[out->rank++] = x.dim[i];
        else if (keep)
            out->dim[out->rank++] = fixed(1);
    }
}

static void arg_reduce(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x)) return;
    int32_t axis = normal_axis(attr_int(m, n, "axis", 0), x.rank);
    bool keep = attr_int(m, n, "keepdims", 1) != 0;
    if (axis < 0) return;
    out->rank = 0;
    for (int32_t i = 0; i < x.rank; i++) {
        if (i != axis)
            out->dim[out->rank++] = x.dim[i];
        else if (keep)
            out->dim[out->rank++] = fixed(1);
    }
}

static void loss(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    if (output == 1)
        input_shape(m, n, 0, out);
    else if (strcmp(attr_string(m, n, "reduction"), "none") == 0)
        input_shape(m, n, 1, out);
    else
        set_rank(out, 0);
}

static void top_k(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct numbers k;
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    int32_t axis = normal_axis(attr_int(m, n, "axis", -1), out->rank);
    attr_or_input(m, n, "k", 1, &k);
    if (axis >= 0) out->dim[axis] = fixed(number(&k, 0, -1));
}

static void one_hot(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    struct numbers depth;
    (void)output;
    give_up(out);
    if (!input_shape(m, n, 0, &x) || !set_rank(out, (int64_t)x.rank + 1)) return;
    int32_t axis = normal_axis(attr_int(m, n, "axis", -1), out->rank);
    input_numbers(m, n, 1, &depth);
    for (int32_t i = 0, from = 0; i < out->rank; i++)
        out->dim[i] = i == axis ? fixed(number(&depth, 0, -1)) : x.dim[from++ % SHAPE_MAX_RANK];
}

static void shape_op(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x;
    (void)output;
    set_rank(out, 1);
    if (!input_shape(m, n, 0, &x)) return;
    out->dim[0] =
        fixed(slice_length(x.rank, attr_int(m, n, "start", 0), attr_int(m, n, "end", x.rank), 1));
}

static void scalar(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)m;
    (void)n;
    (void)output;
    set_rank(out, 0);
}

static void determinant(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (!input_shape(m, n, 0, out)) return;
    if (out->rank >= 2)
        out->rank -= 2;
    else
        give_up(out);
}

static void constant(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    const struct ir_node_info *node = &m->node.at[n];
    (void)output;
    give_up(out);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        if (a->kind == IR_ATTR_TENSOR && a->n_values) {
            shape_of_type(m, m->attr_value.at[a->values].tensor.type, out);
        } else if (a->kind >= IR_ATTR_FLOATS) {
            set_rank(out, 1);
            out->dim[0] = fixed(a->n_values);
        } else {
            set_rank(out, 0);
        }
    }
}

static void from_shape_input(const struct ir_module *m, ir_node n, uint32_t output,
                             struct shape *out) {
    struct numbers sizes;
    (void)output;
    give_up(out);
    attr_or_input(m, n, "shape", 0, &sizes);
    if (!sizes.known || !set_rank(out, sizes.n)) return;
    for (uint32_t i = 0; i < sizes.n; i++) out->dim[i] = fixed(sizes.at[i]);
}

/* ---- recurrent layers and attention ---------------------------------------------------------- */

static void recurrent(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, r;
    give_up(out);
    bool known = input_shape(m, n, 0, &x) && x.rank == 3;
    int64_t hidden = attr_int(m, n, "hidden_size", -1);
    if (hidden < 0 && input_shape(m, n, 2, &r) && r.rank == 3 && is_fixed(r.dim[2]))
        hidden = r.dim[2].size;
    struct ir_dim directions =
        fixed(strcmp(attr_string(m, n, "direction"), "bidirectional") ? 1 : 2);
    bool batch_first = attr_int(m, n, "layout", 0) != 0;
    struct ir_dim batch = known ? x.dim[!batch_first] : unknown_dim;
    struct ir_dim steps = known ? x.dim[batch_first] : unknown_dim;
    if (output == 0) {
        struct ir_dim y[4] = {steps, directions, batch, fixed(hidden)};
        struct ir_dim y_batch_first[4] = {batch, steps, directions, fixed(hidden)};
        set_rank(out, 4);
        memcpy(out->dim, batch_first ? y_batch_first : y, sizeof y);
    } else {
        set_rank(out, 3);
        out->dim[0] = batch_first ? batch : directions;
        out->dim[1] = batch_first ? directions : batch;
        out->dim[2] = fixed(hidden);
    }
}

static void attention(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    struct shape v;
    give_up(out);
    if (output != 0 || !input_shape(m, n, 0, out)) return;
    bool four = out->rank == 4 && input_shape(m, n, 2, &v) && v.rank == 4;
    out->dim[out->rank ? out->rank - 1 : 0] = four ? v.dim[3] : unknown_dim;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    shape_rule rule;
    const char *ops; /* separated by spaces */
} rules[] = {
    {same_as_input,
     "Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot BitCast Cast CastLike Ceil Celu "
     "Clip "
     "Cos Cosh CumProd CumSum DequantizeLinear Elu Erf Exp EyeLike Floor Gelu GroupNormalization "
     "HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LeakyRelu Log "
     "LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Not QuantizeLinear "
     "RMSNormalization RandomNormalLike RandomUniformLike Reciprocal Relu ReverseSequence "
     "RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh "
     "Softmax Softplus Softsign Sqrt StopGradient Swish Tan Tanh TensorScatter ThresholdedRelu "
     "Trilu "
     "Dropout"},
    {first_as_input, "BatchNormalization LayerNormalization"},
    {broadcast_all,
     "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
     "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum SwiGLU Where Xor"},
    {conv, "Conv ConvInteger"},
    {conv_transpose, "ConvTranspose"},
    {pool, "AveragePool LpPool MaxPool"},
    {global_pool, "GlobalAveragePool GlobalLpPool GlobalMaxPool"},
    {gemm, "Gemm"},
    {matmul, "MatMul MatMulInteger"},
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
    {reduce,
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSum ReduceSumSquare"},
    {arg_reduce, "ArgMax ArgMin"},
    {loss, "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"},
    {top_k, "TopK"},
    {one_hot, "OneHot"},
    {shape_op, "Shape"},
    {scalar, "Size SequenceLength OptionalHasElement"},
    {determinant, "Det"},
    {constant, "Constant"},
    {from_shape_input, "ConstantOfShape RandomNormal RandomUniform"},
    {recurrent, "GRU LSTM RNN"},
    {attention, "Attention"},
};

shape_rule shape_rule_of(const char *op) {
    size_t length = strlen(op);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (const char *at = rules[i].ops; *at;) {
            size_t word = strcspn(at, " ");
            if (word == length && memcmp(at, op, length) == 0) return rules[i].rule;
            at += word + (at[word] == ' ');
        }
    return NULL;
}
