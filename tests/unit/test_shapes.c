/* Shapes: for each family of operators a table of inputs, nodes, and the type that `y` has behind
 * them. */
#include "model.h"
#include "program.h"

static struct model t;
static struct options options;

struct row {
    const char *inputs, *nodes, *y;
};

static void infer(const char *header, const struct row *r) {
    char text[2048];
    snprintf(text, sizeof text, "<ir_version: 10, opset_import: [%s]> g (%s) => (y) { %s }", header,
             r->inputs, r->nodes);
    model_read(&t, text);
    if (!ir_verify(&t.m, &t.ops, &t.diags)) {
        diags_print(&t.diags, stderr, false, false);
        cr_assert(false, "%s", text);
    }
    cr_assert(infer_types(&t.m, &t.ops, &options, &t.diags));
}

static void check(const char *header, const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        infer(header, &rows[i]);
        ir_type y = t.m.value.at[model_value(&t, "y")].type;
        cr_expect_str_eq(ir_type_text(&t.m, &t.diags.arena, y), rows[i].y, "%s", rows[i].nodes);
        cr_expect_eq(t.diags.all.n, 0, "%s", rows[i].nodes);
        model_free(&t);
    }
}

#define ROWS(header, ...)                                                                          \
    do {                                                                                           \
        const struct row rows[] = {__VA_ARGS__};                                                   \
        check(header, rows, sizeof rows / sizeof *rows);                                           \
    } while (0)
#define ONNX "\"\" : 21"

/* What exporters write for x.view(x.shape[0], -1, 4, 8) and the like. */
Test(shapes, arithmetic_of_shapes) {
    const char *x = "float[B,S,32] x";
    ROWS(
        ONNX,
        {x,
         "s = Shape (x) i = Constant <value_int = 0> () b = Gather (s, i) a = Constant <value_ints "
         "= [0]> () "
         "u = Unsqueeze (b, a) r = Constant <value_ints = [-1, 4, 8]> () c = Concat <axis = 0> (u, "
         "r) "
         "y = Reshape (x, c)",
         "float[B,S,4,8]"},
        {x,
         "s = Shape <start = 0, end = 2> (x) k = Constant <value_ints = [1, 1]> () m = Mul (s, k) "
         "r = Constant <value_ints = [32]> () c = Concat <axis = 0> (m, r) y = ConstantOfShape (c)",
         "float[B,S,32]"},
        {"float[4,6] x", "s = Shape (x) p = ReduceProd <keepdims = 1> (s) y = Reshape (x, p)",
         "float[24]"},
        {"float[4,6] x",
         "s = Shape (x) two = Constant <value_ints = [2]> () d = Div (s, two) e = Sub (s, d) f = "
         "Add (e, two) "
         "y = ConstantOfShape (f)",
         "float[4,5]"},
        {"float[4,6] x, float[7] z",
         "s = Shape (x) q = Shape (z) m = Max (s, q) n = Min (m, s) r = Mod (m, n) y = "
         "ConstantOfShape (r)",
         "float[3,1]"},
        {x,
         "s = Shape (x) o = Constant <value_ints = [-1, -1, 1]> () e = Equal (o, s) w = Where (e, "
         "o, s) "
         "y = ConstantOfShape (w)",
         "float[B,S,32]"},
        {"float[3,4] x",
         "s = Shape (x) b = Constant <value_ints = [-1]> () f = Constant <value_ints = [-9]> () "
         "a = Constant <value_ints = [0]> () r = Slice (s, b, f, a, b) y = ConstantOfShape (r)",
         "float[4,3]"},
        {"float[3,4] x", "s = Shape (x) a, b = Split <num_outputs = 2> (s) y = ConstantOfShape (b)",
         "float[4]"},
        {x, "n = Size (x) y = ConstantOfShape (n)", "float[?]"},
        {"float[2,3,4] x",
         "n = Size (x) o = Constant <value_ints = [1]> () r = Reshape (n, o) "
         "y = ConstantOfShape (r)",
         "float[24]"},
        {"float[B,3] x",
         "s = Shape <end = 1> (x) z = Constant <value_int = 0> () o = Constant <value_int = 1> () "
         "l = Squeeze (s) y = Range (z, l, o)",
         "int64[B]"},
        /* torch's order of padding, turned into ONNX's */
        {"float[1,2,5,6] x",
         "p = Constant <value_ints = [1, 2, 3, 4]> () n = Constant <value_ints = [4]> () z = "
         "ConstantOfShape "
         "<value = int64[1] {0}> (n) c = Concat <axis = 0> (p, z) two = Constant <value_ints = "
         "[-1, 2]> () "
         "r = Reshape (c, two) b = Constant <value_ints = [-1]> () f = Constant <value_ints = "
         "[-9]> () "
         "a = Constant <value_ints = [0]> () s = Slice (r, b, f, a, b) q = Transpose (s) "
         "g = Reshape (q, b) y = Pad (x, g)",
         "float[1,2,12,9]"}, );
}

Test(shapes, reshape) {
    ROWS(ONNX,
         {"float[B,6] x", "s = Constant <value_ints = [2, -1, 3]> () y = Reshape (x, s)",
          "float[2,B,3]"},
         {"float[B,6] x", "s = Constant <value_ints = [-1, 2, 3]> () y = Reshape (x, s)",
          "float[B,2,3]"},
         {"float[?,6] x", "s = Constant <value_ints = [0, -1, 3]> () y = Reshape (x, s)",
          "float[?,2,3]"},
         {"float[0,6] x",
          "s = Constant <value_ints = [6, 0]> () y = Reshape <allowzero = 1> (x, s)", "float[6,0]"},
         {"float[4] x", "s = Constant <value_ints = [0, -1]> () y = Reshape (x, s)",
          "float[4,1]"}, );
}

Test(shapes, cutting) {
    const char *cut =
        "b = Constant <value_ints = [0]> () e = Constant <value_ints = [9223372036854775807]> () "
        "a = Constant <value_ints = [0]> () y = Slice (x, b, e, a)";
    ROWS(ONNX, {"float[B,3] x", cut, "float[B,3]"}, {"float[?,3] x", cut, "float[?,3]"},
         {"float[S,S] x, float[B,S] z",
          "d = Shape <start = 1> (z) b = Constant <value_ints = [0]> () a = Constant <value_ints = "
          "[1]> () "
          "y = Slice (x, b, d, a)",
          "float[S,S]"},
         {"float[B,8] x, float[T] z",
          "d = Shape (z) b = Constant <value_ints = [0]> () a = Constant <value_ints = [1]> () "
          "y = Slice (x, b, d, a)",
          "float[B,?]"},
         {"float[B,7] x", "a, b, c, y = Split <axis = 1, num_outputs = 4> (x)", "float[B,1]"},
         {"float[3,4] x, int64[4] p", "y = Pad (x, p)", "float[?,?]"},
         {"float[3,4] x",
          "p = Constant <value_ints = [1, 2]> () a = Constant <value_ints = [-1]> () y = Pad (x, "
          "p, , a)",
          "float[3,7]"},
         {"float[B,1] x, float[C] z",
          "s = Shape (z) o = Constant <value_ints = [1]> () "
          "r = Concat <axis = 0> (o, s) y = Tile (x, r)",
          "float[B,C]"},
         {"x, float[B,3] z", "y = Concat <axis = 1> (x, z)", "undefined[B,?]"}, );
}

Test(shapes, indices) {
    ROWS(
        ONNX, {"float[B,5,8] x, int64[7,2] i", "y = GatherND (x, i)", "float[7,8]"},
        {"float[B,5,8] x, int64[B,7,1] i", "y = GatherND <batch_dims = 1> (x, i)", "float[B,7,8]"},
        {"float[4,5] x", "y = NonZero (x)", "int64[2,?]"},
        {"float[4,5] x, bool[4] c", "y = Compress <axis = 0> (x, c)", "float[?,5]"},
        {"float[4,5] x, bool[4] c", "y = Compress (x, c)", "float[?]"},
        {"float[4,5] x, int64[4,5] i, float[4,5] u", "y = ScatterElements (x, i, u)", "float[4,5]"},
        {"float[B,5] x", "k = Constant <value_ints = [3]> () v, y = TopK (x, k)", "int64[B,3]"},
        {"int64[B] x, float[2] v",
         "d = Constant <value_int = 9> () y = OneHot <axis = 0> (x, d, v)", "float[9,B]"},
        {"float[4,5] x", "y, i, j, c = Unique (x)", "float[?]"},
        {"float[1,9,4] b, float[1,2,9] s", "y = NonMaxSuppression (b, s)", "int64[?,3]"},
        {"float x",
         "a = Constant <value_int = 10> () b = Constant <value_int = 0> () c = Constant <value_int "
         "= -3> () "
         "y = Range (a, b, c)",
         "int64[4]"}, );
}

Test(shapes, products) {
    const char *two = "float[B,3,4] a, float[B,4,5] b";
    ROWS(ONNX, {two, "y = Einsum <equation = \"bij,bjk->bik\"> (a, b)", "float[B,3,5]"},
         {two, "y = Einsum <equation = \"...ij, ...jk -> ...ik\"> (a, b)", "float[B,3,5]"},
         {two, "y = Einsum <equation = \"bij,bjk\"> (a, b)", "float[3,5]"},
         {"float[4,4] a", "y = Einsum <equation = \"ii->\"> (a)", "float"},
         {"float[4,4] a", "y = Einsum <equation = \"ijk->i\"> (a)", "float[]"},
         {"uint8[B,4] a, uint8[4,5] b", "y = MatMulInteger (a, b)", "int32[B,5]"},
         {"float[B,4] x",
          "a = Constant <value = int64[0] {}> () y = ReduceSum <keepdims = 0> (x, a)", "float"},
         {"float[B,4] x",
          "a = Constant <value = int64[0] {}> () y = ReduceSum <noop_with_empty_axes = 1> (x, a)",
          "float[B,4]"},
         {"float[B,4,6] x, float[6] s", "z, y = LayerNormalization <axis = 1> (x, s)",
          "undefined[B,1,1]"}, );
}

Test(shapes, images) {
    ROWS(ONNX,
         {"float[B,3,8,9] x",
          "s = Constant <value = float[4] {1, 1, 2, 0.5}> () y = Resize (x, , s)",
          "float[B,3,16,4]"},
         {"float[B,3,8,8] x",
          "s = Constant <value_ints = [5, 7]> () y = Resize <axes = [2, 3]> (x, , , s)",
          "float[B,3,5,7]"},
         {"float[1,3,10,20] x",
          "s = Constant <value_ints = [5, 5]> () y = Resize <axes = [2, 3], "
          "keep_aspect_ratio_policy = \"not_larger\"> (x, , , s)",
          "float[1,3,3,5]"},
         {"float[B,8,4,5] x", "y = DepthToSpace <blocksize = 2> (x)", "float[B,2,8,10]"},
         {"float[B,2,8,10] x", "y = SpaceToDepth <blocksize = 2> (x)", "float[B,8,4,5]"},
         {"float[B,2,8,10] x, float[B,4,5,2] g", "y = GridSample (x, g)", "float[B,2,4,5]"},
         {"float[B,2,8,10] x, float[7,4] r, int64[7] i",
          "y = RoiAlign <output_height = 3, output_width = 4> (x, r, i)", "float[7,2,3,4]"},
         {"float[1,1,4] x, int64[1,1,4] i",
          "y = MaxUnpool <kernel_shape = [2], strides = [2]> (x, i)", "float[1,1,8]"}, );
    ROWS(
        "\"\" : 8",
        {"float[B,3,8,9] x", "y = Upsample <scales = [1., 1., 2., 2.]> (x)", "float[B,3,16,18]"}, );
}

Test(shapes, attention) {
    ROWS("\"\" : 23",
         {"float[B,4,S,8] q, float[B,4,T,8] k, float[B,4,T,6] v", "y = Attention (q, k, v)",
          "float[B,4,S,6]"},
         {"float[B,S,32] q, float[B,T,16] k, float[B,T,16] v",
          "y = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v)", "float[B,S,32]"},
         {"float[B,4,3,8] q, float[B,4,5,8] k, float[B,4,5,8] v, float[B,4,2,8] p",
          "z, y = Attention (q, k, v, , p, p)", "float[B,4,7,8]"}, );
}

Test(shapes, other_domains) {
    const char *all = "\"\" : 21, \"com.microsoft\" : 1, \"ai.onnx.preview.training\" : 1";
    ROWS(all,
         {"float[B,S,32] x, float[32] s",
          "y, a, b, c = com.microsoft.SkipLayerNormalization (x, x, s, s)", "float[B,S,32]"},
         {"float[B,S,32] x, float[32,96] w", "y = com.microsoft.Attention <num_heads = 4> (x, w)",
          "float[B,S,32]"},
         {"float[B,S,32] x, int32[B] l, int32 t",
          "y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> "
          "(x, , , , , l, t)",
          "float[B,S,16]"},
         {"int32[B,S] i, float[99,32] e, float[50,32] p, float[32] s",
          "y, m = com.microsoft.EmbedLayerNormalization (i, , e, p, , s, s)", "float[B,S,32]"},
         {"float[B,6,4] a, float[6,5] b", "y = com.microsoft.FusedMatMul <transA = 1> (a, b)",
          "float[B,4,5]"},
         {"float[1,3,8,8] x, float[4,3,3,3] w", "y = com.microsoft.FusedConv (x, w)",
          "float[1,4,6,6]"},
         {"float r, int64 t, float[2] x, float[3] z",
          "a, b, c, y = ai.onnx.preview.training.Adagrad (r, t, x, z, x, z, x, z)",
          "undefined[3]"}, );
}

Test(shapes, sequences) {
    ROWS(ONNX, {"float[2,3] a, float[5,3] b", "y = SequenceConstruct (a, b)", "seq(float[?,3])"},
         {"seq(float[2,3]) s, float[2,4] b", "y = SequenceInsert (s, b)", "seq(float[2,?])"},
         {"float[6,3] x", "y = SplitToSequence <keepdims = 0> (x)", "seq(float[3])"},
         {"seq(float[2,3]) s", "y = ConcatFromSequence <axis = 1> (s)", "float[2,?]"},
         {"seq(float[2,3]) s", "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
          "float[?,2,3]"}, );
}

Test(shapes, branches_and_loops) {
    ROWS(ONNX,
         {"float[1,3] x",
          "c = Constant <value = bool {1}> () y = If (c) <then_branch = a () => (p) { p = Squeeze "
          "(x) }, "
          "else_branch = b () => (q) { q = Identity (x) }>",
          "float[3]"},
         /* what the loop makes of its state is no contradiction to where it starts */
         {"float[2,3] x, float[9,3] w, int64 n, bool c",
          "y = Loop (n, c, x) <body = b (i, ci, k) => (co, ko) { co = Identity (ci) m = Add (k, k) "
          "ko = Concat <axis = 0> (m, k) }>",
          "float[?,3]"},
         {"float[2,3] x, int64 n, bool c",
          "y = Loop (n, c, x) <body = b (i, ci, k) => (co, ko) { co = Identity (ci) ko = Loop (n, "
          "c, k) "
          "<body = d (j, cj, l) => (cp, lo) { cp = Identity (cj) lo = Transpose (l) }> }>",
          "float[?,?]"}, );
}

Test(shapes, contradictions) {
    infer(ONNX, &(struct row){"float[2,3] x", "h = Relu (x) y = Neg (h)", NULL});
    model_free(&t);
    model_read(&t, "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2,3] x) => (float[2,4] y) "
                   "<float[3] h> { h = Relu (x) y = Neg (x) }");
    cr_assert(ir_verify(&t.m, &t.ops, &t.diags));
    cr_assert(infer_types(&t.m, &t.ops, &options, &t.diags));
    cr_assert_eq(t.diags.all.n, 2);
    for (uint32_t i = 0; i < 2; i++) cr_assert_eq(t.diags.all.at[i]->code, DIAG_OTHER_SHAPE);
    model_free(&t);
}

Test(shapes, unknown_are_counted) {
    infer(ONNX, &(struct row){"float[B,3] x, z",
                              "a = Relu (x) b = NonZero (x) c = Relu (z) y = Neg (a)", NULL});
    cr_assert_eq(types_unknown_shapes(&t.m), 2);
    model_free(&t);
}
