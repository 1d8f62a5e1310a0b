/* Shapes of recurrent layers and of attention, in ONNX's domain and in com.microsoft.
 *
 * Queries, keys and values are [batch, heads, length, size], or [batch, length, heads x size], where
 * attributes say how many heads. */
#include "shape_rules.h"
#include <string.h>

/* ---- recurrent layers ------------------------------------------------------------------------ */

static void recurrent(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape x, r;
    shape_give_up(out);
    bool known = shape_of_input(f, n, 0, &x) && x.rank == 3;
    int64_t hidden = ir_attr_int(f->m, n, "hidden_size", -1);
    if (hidden < 0 && shape_of_input(f, n, 2, &r) && r.rank == 3 && dim_is_fixed(r.dim[2]))
        hidden = r.dim[2].size;
    struct ir_dim directions =
        dim_fixed(strcmp(shape_attr_string(f, n, "direction"), "bidirectional") ? 1 : 2);
    bool batch_first = ir_attr_int(f->m, n, "layout", 0) != 0;
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

/* ---- attention ------------------------------------------------------------------------------- */

static struct ir_dim dim_sum(struct ir_dim a, struct ir_dim b) {
    return dim_is_fixed(b)   ? dim_plus(a, b.size)
           : dim_is_fixed(a) ? dim_plus(b, a.size)
                             : DIM_UNKNOWN;
}

static struct ir_dim dim_product(struct ir_dim a, struct ir_dim b) {
    return dim_is_fixed(b)   ? dim_times(a, b.size)
           : dim_is_fixed(a) ? dim_times(b, a.size)
                             : DIM_UNKNOWN;
}

/* An input of attention as [batch, heads, length, size]. */
static bool read_heads(const struct facts *f, ir_node n, uint32_t input, int64_t heads,
                       struct shape *out) {
    if (!shape_of_input(f, n, input, out)) return false;
    if (out->rank != 3) return out->rank == 4;
    struct ir_dim length = out->dim[1], size = dim_over(out->dim[2], heads);
    out->rank = 4;
    out->dim[1] = dim_fixed(heads);
    out->dim[2] = length;
    out->dim[3] = size;
    return true;
}

static void attention(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape q, k, v, past, given;
    int64_t q_heads = ir_attr_int(f->m, n, "q_num_heads", 0);
    int64_t kv_heads = ir_attr_int(f->m, n, "kv_num_heads", 0);
    bool has_q = read_heads(f, n, 0, q_heads, &q), has_k = read_heads(f, n, 1, kv_heads, &k);
    bool has_v = read_heads(f, n, 2, kv_heads, &v);
    bool three = shape_of_input(f, n, 0, &given) && given.rank == 3;
    shape_give_up(out);
    struct ir_dim all = has_k ? k.dim[2] : DIM_UNKNOWN;
    if (ir_input(f->m, n, 4))
        all = shape_of_input(f, n, 4, &past) && past.rank == 4 ? dim_sum(all, past.dim[2])
                                                               : DIM_UNKNOWN;
    if (output == 1 || output == 2) { /* the keys or values with those of the past */
        if (output == 1 ? !has_k : !has_v) return;
        *out = output == 1 ? k : v;
        out->dim[2] = all;
    } else if (has_q) {
        *out = q;
        out->dim[3] = output == 3 ? all : has_v ? v.dim[3] : DIM_UNKNOWN;
        if (output == 0 && three) {
            struct ir_dim rows[3] = {q.dim[0], q.dim[2], dim_product(q.dim[1], out->dim[3])};
            out->rank = 3;
            memcpy(out->dim, rows, sizeof rows);
        }
    }
}

static void linear_attention(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    shape_give_up(out);
    if (output == 1) {
        shape_of_input(f, n, 3, out);
        return;
    }
    struct shape v;
    if (!shape_of_input(f, n, 0, out) || out->rank == 0) return;
    bool fits = shape_of_input(f, n, 2, &v) && v.rank == out->rank && v.rank == 4;
    out->dim[out->rank - 1] = fits ? v.dim[3] : DIM_UNKNOWN;
}

static void causal_convolution(const struct facts *f, ir_node n, uint32_t output,
                               struct shape *out) {
    struct shape w;
    if (!shape_of_input(f, n, 0, out) || output == 0 || out->rank < 3) return;
    bool known = shape_of_input(f, n, 1, &w) && w.rank == out->rank;
    out->dim[out->rank - 1] = known ? dim_plus(w.dim[w.rank - 1], -1) : DIM_UNKNOWN;
}

const struct shape_rules shape_rules_attention[] = {
    {recurrent, "GRU LSTM RNN"},
    {attention, "Attention FlexAttention"},
    {linear_attention, "LinearAttention"},
    {causal_convolution, "CausalConvWithState"},
    {NULL, NULL},
};
