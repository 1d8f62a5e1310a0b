/* Shapes that an input has already, or numbers give: element-wise operators with and without
 * broadcasting, constants, and operators that are told the shape of what they make. */
#include "shape_rules.h"

/* ---- as the inputs --------------------------------------------------------------------------- */

static void same_as_input(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_of_input(f, n, 0, out);
}

/* The others are statistics per channel. */
static void batch_normalization(const struct facts *f, ir_node n, uint32_t output,
                                struct shape *out) {
    shape_of_input(f, n, output ? 3 : 0, out);
}

/* The others are statistics over the axes from `axis` on. */
static void layer_normalization(const struct facts *f, ir_node n, uint32_t output,
                                struct shape *out) {
    if (!shape_of_input(f, n, 0, out) || output == 0) return;
    int32_t axis = shape_axis(ir_attr_int(f->m, n, "axis", -1), out->rank);
    for (int32_t i = axis; axis >= 0 && i < out->rank; i++) out->dim[i] = dim_fixed(1);
    if (axis < 0) shape_give_up(out);
}

/* Quantized, then a scale and a zero point. */
static void dynamic_quantization(const struct facts *f, ir_node n, uint32_t output,
                                 struct shape *out) {
    if (output)
        shape_set_rank(out, 0);
    else
        shape_of_input(f, n, 0, out);
}

static void broadcast_all(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_of_input(f, n, 0, out);
    if (ir_attr_int(f->m, n, "broadcast", 0)) return; /* before opset 7: as the first */
    for (uint32_t i = 1; i < f->m->node.at[n].n_inputs; i++) {
        struct shape next;
        if (!ir_input(f->m, n, i)) continue;
        shape_of_input(f, n, i, &next);
        shape_broadcast(out, &next);
    }
}

/* ---- as told --------------------------------------------------------------------------------- */

static void scalar(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)f;
    (void)n;
    (void)output;
    shape_set_rank(out, 0);
}

static void constant(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    const struct ir_attr_info *a = &f->m->attr.at[ir_attr_of_value(f->m, n)];
    (void)output;
    shape_give_up(out);
    if (a->kind == IR_ATTR_TENSOR || a->kind == IR_ATTR_SPARSE_TENSOR) {
        if (a->n_values) shape_of_type(f->m, f->m->attr_value.at[a->values].tensor.type, out);
    } else if (a->kind >= IR_ATTR_FLOATS) {
        shape_set_rank(out, 1);
        out->dim[0] = dim_fixed(a->n_values);
    } else if (a->kind) {
        shape_set_rank(out, 0);
    }
}

static void from_shape_input(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct elements sizes;
    (void)output;
    shape_give_up(out);
    if (!elements_of_attr_or_input(f, n, "shape", 0, &sizes) || !shape_set_rank(out, sizes.n))
        return;
    for (uint32_t i = 0; i < sizes.n; i++) out->dim[i] = element_dim(sizes.at[i]);
}

/* ---- which operator has which ---------------------------------------------------------------- */

const struct shape_rules shape_rules_same[] = {
    {same_as_input,
     "Abs Affine Acos Acosh Asin Asinh Atan Atanh Bernoulli BitCast BitwiseNot Cast CastLike Ceil "
     "Celu Clip Cos Cosh CumProd CumSum DequantizeLinear Dropout Elu Erf Exp EyeLike Floor "
     "Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization "
     "ImageScaler IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization "
     "MeanVarianceNormalization Mish "
     "Neg Not PRelu ParametricSoftplus QuantizeLinear RMSNormalization RandomNormalLike "
     "RandomUniformLike Reciprocal "
     "RegexFullMatch "
     "Relu ReverseSequence RotaryEmbedding Round Scatter ScatterElements ScatterND Scale "
     "ScaledTanh Selu Shrink "
     "Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt StopGradient Swish Tan Tanh "
     "TensorScatter ThresholdedRelu Trilu"},
    {batch_normalization, "BatchNormalization"},
    {layer_normalization, "LayerNormalization SimplifiedLayerNormalization"},
    {dynamic_quantization, "DynamicQuantizeLinear"},
    {broadcast_all,
     "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
     "LessOrEqual Max Mean Min Mod Mul Or Pow StringConcat Sub Sum SwiGLU Where Xor"},
    {scalar, "Size SequenceLength OptionalHasElement"},
    {constant, "Constant"},
    {from_shape_input, "ConstantOfShape RandomNormal RandomUniform"},
    {NULL, NULL},
};

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Behind a rate and a time stand n parameters, n gradients, and n of each kind of state; the outputs
 * are the new parameters and states. */
static void optimizer(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    uint32_t n_inputs = f->m->node.at[n].n_inputs, n_outputs = f->m->node.at[n].n_outputs;
    uint32_t count = n_inputs > n_outputs + 2 ? n_inputs - 2 - n_outputs : 0;
    shape_of_input(f, n, 2 + output + (output < count ? 0 : count), out);
}

const struct shape_rules shape_rules_training[] = {
    {optimizer, "Adagrad Adam Momentum"},
    {NULL, NULL},
};
