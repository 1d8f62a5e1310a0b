/* Types: each rule on a small graph, declarations, control flow, and --dim. */
#include "model.h"
#include "program.h"

#define HEAD "<ir_version: 8, opset_import: [\"\" : 21, \"ddpc\" : 1]>\n"

static struct model t;
static struct options options;

static void infer(const char *text) {
    model_read(&t, text);
    if (!ir_verify(&t.m, &t.ops, &t.diags)) {
        diags_print(&t.diags, stderr, false, false);
        cr_assert(false, "%s", text);
    }
    cr_assert(infer_types(&t.m, &t.ops, &options, &t.diags));
}

static const char *type_of(const char *name) {
    ir_value v = model_value(&t, name);
    cr_assert(v, "no value '%s'", name);
    return ir_type_text(&t.m, &t.diags.arena, t.m.value.at[v].type);
}

/* The type of `y` in a graph with these inputs and nodes. */
static void gives(const char *inputs, const char *nodes, const char *expected) {
    char text[2048];
    snprintf(text, sizeof text, HEAD "g (%s) => (y) { %s }", inputs, nodes);
    infer(text);
    cr_assert_str_eq(type_of("y"), expected, "%s", nodes);
    model_free(&t);
}

Test(types, elementwise) {
    gives("float[2,B] x", "y = Relu (x)", "float[2,B]");
    gives("float[2,3] x, float[3] b", "y = Add (x, b)", "float[2,3]");
    gives("float[B,1,4] x, float[5,1] b", "y = Mul (x, b)", "float[B,5,4]");
    gives("float[B] x, float[B] b", "y = Mul (x, b)", "float[B]");
    gives("float[B] x, float[C] b", "y = Mul (x, b)", "float[?]");
    gives("float[B] x, float[7] b", "y = Mul (x, b)", "float[7]");
    gives("float[2] x, float[] b", "y = Mul (x, b)", "float[]");
    gives("float[2] x, float b", "y = Mul (x, b)", "float[2]");
    gives("bool[2,1] c, float16[3] a, float16 b", "y = Where (c, a, b)", "float16[2,3]");
    gives("float[2] x", "y = ddpc.StopGradient (x)", "float[2]");
    gives("float[2,3] x", "y = Softmax (x)", "float[2,3]");
}

Test(types, element_types) {
    gives("float[2] x", "y = Less (x, x)", "bool[2]");
    gives("float[2] x", "y = Cast <to = 7> (x)", "int64[2]");
    gives("float[2] x, double[3] d", "y = CastLike (x, d)", "double[2]");
    gives("float[2,3] x", "y = Shape (x)", "int64[2]");
    gives("float[2,3] x", "y = Shape <start = 1> (x)", "int64[1]");
    gives("float[2,3] x", "y = Size (x)", "int64");
    gives("float[2,3] x", "y = ArgMax <axis = 1, keepdims = 0> (x)", "int64[2]");
    gives("float[2,3] x", "k = Constant <value = int64[1] {2}> () z, y = TopK (x, k)",
          "int64[2,2]");
    gives("float[2,3] x", "k = Constant <value = int64[1] {2}> () y, z = TopK (x, k)",
          "float[2,2]");
    gives("double[1,2,8] x", "z, y = MaxPool <kernel_shape = [2], strides = [2]> (x)",
          "int64[1,2,4]");
    gives("float[2] x", "z, y = Dropout (x)",
          "undefined[2]"); /* bool from opset 10, before like x */
    gives("float[2] x", "y = RandomNormalLike (x)", "float[2]");
    gives("float[2] x", "y = RandomNormalLike <dtype = 11> (x)", "double[2]");
    gives("float[2] x", "y = RandomNormal <shape = [3, 4]> ()", "float[3,4]");
    gives("float[2,5] x", "y = Multinomial <sample_size = 3> (x)", "int32[2,3]");
    gives("float[2] x, float s, int8 z", "y = QuantizeLinear (x, s, z)", "int8[2]");
    gives("float[2] x, float s", "y = QuantizeLinear (x, s)", "uint8[2]");
    gives("int8[2] x, float16 s", "y = DequantizeLinear (x, s)", "float16[2]");
    gives("int64[2] i, int64 d, float16[2] v", "y = OneHot (i, d, v)", "float16[2,?]");
    gives("float[2] x", "y = Constant <value_float = 1.5> ()", "float");
    gives("float[2] x", "y = Constant <value_ints = [1, 2, 3]> ()", "int64[3]");
    gives("float[2] x", "y = Constant <value = float16[2] {1, 2}> ()", "float16[2]");
    gives("float[2] x", "s = Constant <value_ints = [4, 5]> () y = ConstantOfShape (s)",
          "float[4,5]");
}

/* What a recorder adds to a node is not its value. */
Test(types, constants_with_a_place_in_the_program) {
    gives("int64[2] s", "y = ConstantOfShape <source = \"m.py:1\"> (s)", "float[?,?]");
    gives("float x", "y = Constant <value = int64[2] {4, 3}, source = \"m.py:1\"> ()", "int64[2]");
    gives("float x", "y = Constant <source = \"m.py:1\", value_float = 1.0> ()", "float");
    gives("float[6] x",
          "s = Constant <value = int64[2] {2, 3}, source = \"m.py:1\"> () y = Reshape (x, s)",
          "float[2,3]");
}

Test(types, containers) {
    gives("float[2] a", "y = SequenceConstruct (a, a)", "seq(float[2])");
    gives("float[2] a, int64 i", "s = SequenceConstruct (a) y = SequenceAt (s, i)", "float[2]");
    gives("seq(float16[2]) s, int64 i", "y = SequenceAt (s, i)", "float16[2]");
    gives("seq(float16[2]) s, float16[2] a", "y = SequenceInsert (s, a)", "seq(float16[2])");
    gives("float[2] a", "y = Optional (a)", "optional(float[2])");
    gives("optional(float[2]) a", "y = OptionalGetElement (a)", "float[2]");
    gives("optional(float[2]) a", "y = OptionalHasElement (a)", "bool");
    gives("float[2] a", "y = SequenceEmpty <dtype = 7> ()", "seq(int64[])");
}

Test(types, convolutions_and_pools) {
    const char *x = "float[N,3,224,224] x, float[64,3,7,7] w";
    gives(x, "y = Conv <strides = [2, 2], pads = [3, 3, 3, 3]> (x, w)", "float[N,64,112,112]");
    gives(x, "y = Conv (x, w)", "float[N,64,218,218]");
    gives(x, "y = Conv <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (x, w)",
          "float[N,64,112,112]");
    gives(x, "y = Conv <dilations = [2, 2]> (x, w)", "float[N,64,212,212]");
    gives("float[1,8,H,W] x, float[4,8,3,3] w", "y = Conv <pads = [1, 1, 1, 1]> (x, w)",
          "float[1,4,H,W]");
    gives("float[1,8,H,W] x, float[4,8,3,3] w", "y = Conv (x, w)", "float[1,4,?,?]");
    gives("float[1,8,5] x, float[8,4,3] w", "y = ConvTranspose <strides = [2], group = 2> (x, w)",
          "float[1,8,11]");
    gives("float[1,8,112,112] x",
          "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)",
          "float[1,8,56,56]");
    gives("float[1,8,6] x", "y = MaxPool <kernel_shape = [3], strides = [2]> (x)", "float[1,8,2]");
    gives("float[1,8,6] x", "y = MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> (x)",
          "float[1,8,3]");
    gives("float[1,8,7,7] x", "y = GlobalAveragePool (x)", "float[1,8,1,1]");
    gives("float[N,8,7,7] x, float[8] s", "y = BatchNormalization (x, s, s, s, s)",
          "float[N,8,7,7]");
    /* Nonsense gives no shape, not a wrong one. */
    gives("float[1,8,5] x", "y = MaxPool <kernel_shape = [9]> (x)", "float[1,8,?]");
    gives("float[1,8,5] x", "y = MaxPool <kernel_shape = [3], strides = [0]> (x)", "float[1,8,?]");
}

Test(types, matrices) {
    gives("float[B,10] x, float[10,20] w", "y = Gemm (x, w)", "float[B,20]");
    gives("float[10,B] x, float[20,10] w", "y = Gemm <transA = 1, transB = 1> (x, w)",
          "float[B,20]");
    gives("float[B,5,6] x, float[6,7] w", "y = MatMul (x, w)", "float[B,5,7]");
    gives("float[B,1,5,6] x, float[4,6,7] w", "y = MatMul (x, w)", "float[B,4,5,7]");
    gives("float[6] x, float[6,7] w", "y = MatMul (x, w)", "float[7]");
    gives("float[3,6] x, float[6] w", "y = MatMul (x, w)", "float[3]");
    gives("float[6] x, float[6] w", "y = MatMul (x, w)", "float");
    gives("float[B,4,4] x", "y = Det (x)", "float[B]");
}

Test(types, rearranging) {
    gives("float[B,2,3] x", "y = Transpose <perm = [2, 0, 1]> (x)", "float[3,B,2]");
    gives("float[B,2,3] x", "y = Transpose (x)", "float[3,2,B]");
    gives("float[B,2,3] x", "y = Flatten (x)", "float[B,6]");
    gives("float[B,2,3] x", "y = Flatten <axis = 0> (x)", "float[1,\"6*B\"]");
    gives("float[S,B,6] x", "y = Flatten <axis = 2> (x)", "float[\"B*S\",6]");
    gives("float[S,B,6] x", "s = Constant <value_ints = [-1, 12]> () y = Reshape (x, s)",
          "float[?,12]"); /* S times B need not be even */
    gives(
        "float[S,B,6] x",
        "s = Constant <value_ints = [-1, 3]> () z = Reshape (x, s) f = Shape (x) "
        "r = Constant <value_ints = [0, -1, 6]> () i = Constant <value_int = 0> () "
        "b = Gather (f, i) o = Constant <value_ints = [-1, 6]> () a = Constant <value_int = 0> () "
        "t = Unsqueeze (b, a) p = Concat <axis = 0> (t, o) y = Reshape (z, p)",
        "float[S,B,6]");
    gives("float[\"b + s\",B] x", "y = Flatten <axis = 0> (x)", "float[1,?]");
    gives("float[4,2,3] x", "y = Flatten <axis = -1> (x)", "float[8,3]");
    gives("float[4,2,3] x", "s = Constant <value_ints = [0, -1]> () y = Reshape (x, s)",
          "float[4,6]");
    gives("float[B,2,3] x", "s = Constant <value_ints = [0, -1]> () y = Reshape (x, s)",
          "float[B,6]");
    gives("float[B,2,3] x", "s = Constant <value_ints = [-1, 6]> () y = Reshape (x, s)",
          "float[B,6]");
    gives("float[B,2,3] x", "s = Constant <value_ints = [-1, 4]> () y = Reshape (x, s)",
          "float[?,4]");
    gives("float[B,6] x", "s = Constant <value_ints = [0, 2, 3]> () y = Reshape (x, s)",
          "float[B,2,3]");
    gives("float[B,6] x, int64[3] s", "y = Reshape (x, s)", "float[?,?,?]");
    gives("float[B,1,3,1] x", "a = Constant <value_ints = [1, -1]> () y = Squeeze (x, a)",
          "float[B,3]");
    gives("float[1,3,1] x", "y = Squeeze (x)", "float[3]");
    gives("float[B,3] x", "a = Constant <value_ints = [0, -1]> () y = Unsqueeze (x, a)",
          "float[1,B,3,1]");
    gives("float[B,3] x, float[B,4] z", "y = Concat <axis = 1> (x, z)", "float[B,7]");
    gives("float[B,3] x, float[B,C] z", "y = Concat <axis = -1> (x, z)", "float[B,?]");
    gives("float[B,7] x", "z, y = Split <axis = 1, num_outputs = 2> (x)", "float[B,3]");
    gives("float[7] x", "s = Constant <value_ints = [5, 2]> () z, y = Split (x, s)", "float[2]");
    gives("float[9,5,B] x",
          "s = Constant <value_ints = [1, -2]> () e = Constant <value_ints = [100, -1]> () "
          "a = Constant <value_ints = [0, 1]> () p = Constant <value_ints = [2, 1]> () "
          "y = Slice (x, s, e, a, p)",
          "float[4,1,B]");
    gives("float[9] x",
          "s = Constant <value_ints = [-1]> () e = Constant <value_ints = [-100]> () "
          "a = Constant <value_ints = [0]> () p = Constant <value_ints = [-2]> () "
          "y = Slice (x, s, e, a, p)",
          "float[5]");
    gives("float[30,8] x, int64[B,5] i", "y = Gather (x, i)", "float[B,5,8]");
    gives("float[B,5,8] x, int64 i", "y = Gather <axis = 1> (x, i)", "float[B,8]");
    gives("float[B,5] x, int64[B,2] i", "y = GatherElements <axis = 1> (x, i)", "float[B,2]");
    gives("float[3,1] x", "s = Constant <value_ints = [2, 1, 6]> () y = Expand (x, s)",
          "float[2,3,6]");
    gives("float[3,B] x", "s = Constant <value_ints = [2, 1]> () y = Tile (x, s)", "float[6,B]");
    gives("float[3,B] x", "p = Constant <value_ints = [1, 0, 2, 0]> () y = Pad (x, p)",
          "float[6,B]");
}

Test(types, reductions_and_losses) {
    gives("float[B,3,4] x", "y = ReduceMean <keepdims = 0> (x)", "float");
    gives("float[B,3,4] x", "y = ReduceMean (x)", "float[1,1,1]");
    gives("float[] x", "y = ReduceMean <keepdims = 0> (x)", "float");
    gives("float[B,3,4] x", "a = Constant <value_ints = [-1]> () y = ReduceSum (x, a)",
          "float[B,3,1]");
    gives("float[B,3,4] x",
          "a = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (x, a)", "float[B,4]");
    gives("float[B,3,4] x, int64[1] a", "y = ReduceSum (x, a)", "float[?,?,?]");
    gives("float[B,10] x, int64[B] l", "y = SoftmaxCrossEntropyLoss (x, l)", "float");
    gives("float[B,10] x, int64[B] l", "y = SoftmaxCrossEntropyLoss <reduction = \"none\"> (x, l)",
          "float[B]");
    gives("float[B,10] x, int64[B] l", "z, y = SoftmaxCrossEntropyLoss (x, l)", "float[B,10]");
}

Test(types, recurrent_layers) {
    const char *in = "float[T,B,8] x, float[2,64,8] w, float[2,64,16] r";
    const char *lstm = "LSTM <hidden_size = 16, direction = \"bidirectional\"> (x, w, r)";
    char text[256];
    snprintf(text, sizeof text, "y = %s", lstm);
    gives(in, text, "float[T,2,B,16]");
    snprintf(text, sizeof text, ", y = %s", lstm);
    gives(in, text, "float[2,B,16]");
}

Test(types, declarations_are_believed) {
    infer(HEAD "g (float[?,3] x) => (float[B,3] y) <float[7,3] h, float16 k> "
               "{ h = Relu (x) k = Neg (x) y = Abs (h) }");
    cr_assert_str_eq(type_of("h"), "float[7,3]");
    cr_assert_str_eq(type_of("k"), "float16", "even where they are wrong");
    cr_assert_str_eq(type_of("y"), "float[7,3]", "a symbol that turns out to be a number");
    model_free(&t);
    infer(HEAD
          "g (float[2,3] x) => (float[] y, float[?,3] z, w) { y = Relu (x) z = Neg (x) w = Abs (x)"
          "}");
    cr_assert_str_eq(type_of("y"), "float[2,3]");
    cr_assert_str_eq(type_of("z"), "float[2,3]");
    cr_assert_str_eq(type_of("w"), "float[2,3]");
    model_free(&t);
}

Test(types, unknown_operators_and_values) {
    model_read(&t, HEAD "g (x, float[2] z) => (y, u) { y = my.Op (z) u = Relu (x) }");
    op_table_assume(&t.ops, "*");
    t.m.opset.at[0].domain = strtab_addz(&t.m.strings, "my");
    ir_verify(&t.m, &t.ops, &t.diags);
    cr_assert(infer_types(&t.m, &t.ops, &options, &t.diags));
    cr_assert_eq(t.m.value.at[model_value(&t, "y")].type, 0);
    cr_assert_eq(t.m.value.at[model_value(&t, "u")].type, 0);
    model_free(&t);
}

Test(types, branches) {
    infer(HEAD "g (float[2,3] x, float[4,3] z, bool c) => (y, w) { y, w = If (c) <"
               "then_branch = a () => (p, q) { p = Relu (x) q = Less (x, x) }, "
               "else_branch = b () => (r, s) { r = Neg (z) s = Less (x, x) }> }");
    cr_assert_str_eq(type_of("p"), "float[2,3]");
    cr_assert_str_eq(type_of("y"), "float[?,3]");
    cr_assert_str_eq(type_of("w"), "bool[2,3]");
    model_free(&t);
}

Test(types, loops) {
    infer(
        HEAD
        "g (float[2,3] x, float[0,3] e, int64 n, bool c) => (y) { y, grown, trace = Loop (n, c, x,"
        "e) <body = b (i, ci, k, g) => (co, ko, go, l) { co = Identity (ci) ko = Neg (k) "
        "go = Concat <axis = 0> (g, k) l = Gather (k, i) }> }");
    cr_assert_str_eq(type_of("i"), "int64");
    cr_assert_str_eq(type_of("ci"), "bool");
    cr_assert_str_eq(type_of("k"), "float[2,3]");
    cr_assert_str_eq(type_of("y"), "float[2,3]");
    cr_assert_str_eq(type_of("grown"), "float[?,3]", "what differs from its start is not known");
    cr_assert_str_eq(type_of("trace"), "float[?,3]");
    model_free(&t);
}

Test(types, scans) {
    infer(HEAD "g (float[3] s, float[B,T,4] x) => (y) { y, z = Scan (s, x) <num_scan_inputs = 1, "
               "scan_input_axes = [1], scan_output_axes = [-1], body = b (a, e) => (ao, o) "
               "{ ao = Neg (a) o = Relu (e) }> }");
    cr_assert_str_eq(type_of("e"), "float[B,4]");
    cr_assert_str_eq(type_of("y"), "float[3]");
    cr_assert_str_eq(type_of("z"), "float[B,4,T]");
    model_free(&t);
}

Test(types, maps) {
    infer(HEAD
          "g (seq(float[2]) s, float z) => (y) { y = SequenceMap (s, z) <body = b (e, q) => (k) "
          "{ k = Mul (e, q) }> }");
    cr_assert_str_eq(type_of("k"), "float[2]");
    cr_assert_str_eq(type_of("y"), "seq(float[2])");
    model_free(&t);
}

static void with_dims(const char *first, const char *second) {
    options.dim.n = 0;
    vec_push(&options.dim, first);
    if (second) vec_push(&options.dim, second);
}

Test(types, dims) {
    const char *text = HEAD "g (float[B,T,3] x, seq(float[T]) s) => (y) { y = Flatten (x) }";
    with_dims("B=4", "T=5");
    infer(text);
    cr_assert_str_eq(type_of("x"), "float[4,5,3]");
    cr_assert_str_eq(type_of("s"), "seq(float[5])");
    cr_assert_str_eq(type_of("y"), "float[4,15]");
    cr_assert_eq(t.diags.all.n, 0);
    model_free(&t);
    with_dims("Batch=4", "T=2");
    infer(text);
    cr_assert_str_eq(type_of("x"), "float[B,2,3]");
    cr_assert_eq(t.diags.all.n, 1);
    cr_assert_eq(t.diags.all.at[0]->code, DIAG_DIM_UNUSED);
    model_free(&t);
    static const char *const bad[] = {
        "B", "B=", "=3", "B=-1", "B=x", "B=4x", "B=99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        with_dims(bad[i], NULL);
        model_read(&t, text);
        cr_assert(ir_verify(&t.m, &t.ops, &t.diags));
        cr_assert(!infer_types(&t.m, &t.ops, &options, &t.diags), "%s", bad[i]);
        cr_assert_eq(t.diags.all.at[0]->code, DIAG_DIM_FLAG);
        model_free(&t);
    }
    vec_free(&options.dim);
}
