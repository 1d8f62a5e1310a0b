/* Shapes of com.microsoft's operators: what optimizers for inference make of transformers. */
#include "shape_rules.h"
#include <string.h>

static void as_input(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    shape_give_up(out);
    if (output == 0) shape_of_input(f, n, 0, out);
}

static void broadcast(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape b;
    (void)output;
    shape_of_input(f, n, 0, out);
    shape_of_input(f, n, 1, &b);
    shape_broadcast(out, &b);
}

/* Normalized, its statistics, and the sum before. */
static void skip_normalization(const struct facts *f, ir_node n, uint32_t output,
                               struct shape *out) {
    if (!shape_of_input(f, n, 0, out)) return;
    if ((output == 1 || output == 2) && out->rank > 0) out->dim[out->rank - 1] = dim_fixed(1);
}

static void embedding(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape table;
    if (!shape_of_input(f, n, 0, out) || out->rank != 2) {
        shape_give_up(out);
        return;
    }
    if (output == 1) { /* how many tokens of each row count */
        out->rank = 1;
        return;
    }
    bool known = shape_of_input(f, n, 2, &table) && table.rank == 2;
    out->rank = 3;
    out->dim[2] = known ? table.dim[1] : DIM_UNKNOWN;
}

/* Of an input [batch, length, ...] and weights that make queries, keys and values at once. */
static void attention(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape w;
    struct numbers hidden;
    shape_give_up(out);
    if (output != 0 || !shape_of_input(f, n, 0, out) || out->rank != 3) return;
    numbers_of_attr(f, n, "qkv_hidden_sizes", &hidden);
    bool known = shape_of_input(f, n, 1, &w) && w.rank == 2;
    out->dim[2] = hidden.known ? dim_fixed(numbers_at(&hidden, 2, -1))
                  : known      ? dim_over(w.dim[1], 3)
                               : DIM_UNKNOWN;
}

/* Queries [batch, length, hidden]; packed with keys and values [batch, length, heads, 3, size]. The
 * result is as wide as the values. */
static void multi_head(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape q, v;
    shape_give_up(out);
    if (output != 0 || !shape_of_input(f, n, 0, &q) || q.rank < 3) return;
    shape_set_rank(out, 3);
    out->dim[0] = q.dim[0];
    out->dim[1] = q.dim[1];
    if (q.rank == 5 && dim_is_fixed(q.dim[4]))
        out->dim[2] = dim_times(q.dim[2], q.dim[4].size);
    else if (shape_of_input(f, n, 2, &v) && v.rank == 3)
        out->dim[2] = v.dim[2];
    else if (v.rank == 4 && dim_is_fixed(v.dim[1])) /* [batch, heads, length, size] */
        out->dim[2] = dim_times(v.dim[3], v.dim[1].size);
    else
        out->dim[2] = q.dim[2];
}

/* Without keys the queries hold them and the values too. */
static void group_query(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    shape_give_up(out);
    if (output != 0 || !shape_of_input(f, n, 0, out) || out->rank != 3) return;
    int64_t heads = ir_attr_int(f->m, n, "num_heads", 0),
            kv_heads = ir_attr_int(f->m, n, "kv_num_heads", 0);
    if (ir_input(f->m, n, 1) || !number_is_sane(heads) || !number_is_sane(kv_heads)) return;
    out->dim[2] = dim_times(dim_over(out->dim[2], heads + 2 * kv_heads), heads);
}

static void matmul_bits(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (shape_of_input(f, n, 0, out) && out->rank > 0)
        out->dim[out->rank - 1] = dim_fixed(ir_attr_int(f->m, n, "N", -1));
}

static void fused_matmul(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape a, b;
    (void)output;
    shape_give_up(out);
    if (!shape_of_input(f, n, 0, &a) || !shape_of_input(f, n, 1, &b) || a.rank < 2 || b.rank < 2 ||
        ir_attr_int(f->m, n, "transBatchA", 0) || ir_attr_int(f->m, n, "transBatchB", 0))
        return;
    struct ir_dim rows = a.dim[a.rank - 2 + (ir_attr_int(f->m, n, "transA", 0) != 0)];
    struct ir_dim columns = b.dim[b.rank - 1 - (ir_attr_int(f->m, n, "transB", 0) != 0)];
    a.rank -= 2;
    b.rank -= 2;
    shape_broadcast(&a, &b);
    if (!shape_set_rank(out, a.rank + 2)) return;
    memcpy(out->dim, a.dim, (size_t)a.rank * sizeof *a.dim);
    out->dim[a.rank] = rows;
    out->dim[a.rank + 1] = columns;
}

static void half_of_last(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (shape_of_input(f, n, 0, out) && out->rank > 0)
        out->dim[out->rank - 1] = dim_over(out->dim[out->rank - 1], 2);
}

const struct shape_rules shape_rules_microsoft[] = {
    {as_input,
     "BiasAdd BiasDropout BiasGelu BiasSoftmax DequantizeLinear FastGelu Gelu GroupNorm Inverse "
     "LayerNormalization QuantizeLinear QuickGelu RelativePositionBias RotaryEmbedding "
     "SimplifiedLayerNormalization BitmaskDropout SkipGroupNorm QLinearLeakyRelu QLinearSigmoid "
     "QLinearSoftmax LongformerAttention MoE QMoE"},
    {broadcast, "ComplexMul ComplexMulConj"},
    {skip_normalization, "SkipLayerNormalization SkipSimplifiedLayerNormalization"},
    {embedding, "EmbedLayerNormalization"},
    {attention, "Attention QAttention"},
    {multi_head, "MultiHeadAttention DecoderMaskedMultiHeadAttention"},
    {group_query, "GroupQueryAttention"},
    {matmul_bits, "MatMulNBits MatMulBnb4"},
    {fused_matmul, "FusedMatMul TransposeMatMul MatMulIntegerToFloat"},
    {half_of_last, "BiasSplitGelu"},
    {NULL, NULL},
};
