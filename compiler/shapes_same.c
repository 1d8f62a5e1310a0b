/* Shapes that an input has already, or numbers give: element-wise operators with and without
 * broadcasting, constants, and operators that are told the shape of what they make. */
#include "shape_rules.h"

/* ---- as the inputs --------------------------------------------------------------------------- */

static void same_as_input(const struct ir_module *m, ir_node n, uint32_t output,
                          struct shape *out) {
    (void)output;
    shape_of_input(m, n, 0, out);
}

static void first_as_input(const struct ir_module *m, ir_node n, uint32_t output,
                           struct shape *out) {
    shape_give_up(out);
    if (output == 0) shape_of_input(m, n, 0, out);
}

static void broadcast_all(const struct ir_module *m, ir_node n, uint32_t output,
                          struct shape *out) {
    (void)output;
    shape_of_input(m, n, 0, out);
    for (uint32_t i = 1; i < m->node.at[n].n_inputs; i++) {
        struct shape next;
        if (!ir_input(m, n, i)) continue;
        shape_of_input(m, n, i, &next);
        shape_broadcast(out, &next);
    }
}

/* ---- as told --------------------------------------------------------------------------------- */

static void scalar(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    (void)m;
    (void)n;
    (void)output;
    shape_set_rank(out, 0);
}

static void constant(const struct ir_module *m, ir_node n, uint32_t output, struct shape *out) {
    const struct ir_node_info *node = &m->node.at[n];
    (void)output;
    shape_give_up(out);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        if (a->kind == IR_ATTR_TENSOR && a->n_values) {
            shape_of_type(m, m->attr_value.at[a->values].tensor.type, out);
        } else if (a->kind >= IR_ATTR_FLOATS) {
            shape_set_rank(out, 1);
            out->dim[0] = dim_fixed(a->n_values);
        } else {
            shape_set_rank(out, 0);
        }
    }
}

static void from_shape_input(const struct ir_module *m, ir_node n, uint32_t output,
                             struct shape *out) {
    struct numbers sizes;
    (void)output;
    shape_give_up(out);
    numbers_of_attr_or_input(m, n, "shape", 0, &sizes);
    if (!sizes.known || !shape_set_rank(out, sizes.n)) return;
    for (uint32_t i = 0; i < sizes.n; i++) out->dim[i] = dim_fixed(sizes.at[i]);
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_same[] = {
    {same_as_input,
     "Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitCast BitwiseNot Cast CastLike Ceil "
     "Celu Clip Cos Cosh CumProd CumSum DequantizeLinear Dropout Elu Erf Exp EyeLike Floor "
     "Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization "
     "IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish "
     "Neg Not QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike Reciprocal "
     "Relu ReverseSequence RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink "
     "Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt StopGradient Swish Tan Tanh "
     "TensorScatter ThresholdedRelu Trilu"},
    {first_as_input, "BatchNormalization LayerNormalization"},
    {broadcast_all,
     "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
     "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum SwiGLU Where Xor"},
    {scalar, "Size SequenceLength OptionalHasElement"},
    {constant, "Constant"},
    {from_shape_input, "ConstantOfShape RandomNormal RandomUniform"},
    {NULL, NULL},
};
