/* The backward time of a node against the formulas, worked out here from shapes. The device has
 * round rates: 1 FLOP and 1 byte take 1 µs at full efficiency, so that times are counts. */
#define _POSIX_C_SOURCE 200809L
#include "cost.h"
#include "program_fixture.h"
#include <criterion/criterion.h>
#include <math.h>

/* Only arithmetic, only traffic, or both. */
static const struct device arithmetic = {"a", 1, 1e30, 1, 1, 1, 1, 0};
static const struct device traffic = {"t", 1e30, 1, 1, 1, 1, 1, 0};

/* The time of the node that makes `y`; inputs whose names begin with x want no gradient. */
static double cost_of(const struct device *dev, const char *inputs, const char *params,
                      const char *node, bool *unknown) {
    char text[1024];
    snprintf(text, sizeof text,
             "<ir_version: 10, opset_import: [\"\" : 24, \"torch\" : 1]>\n"
             "g (%s) => (float loss) <%s> { %s\n loss = ReduceSum <keepdims = 0> (y) }\n",
             inputs, params, node);
    struct fixture f = {0};
    bool ignored;
    cr_assert(fixture_build(&f, text), "%s", node);
    bool *needs = arena_new(&f.p.arena, bool, f.m.value.n);
    ir_node n = 0;
    for (ir_value v = 1; v < f.m.value.n; v++) {
        const char *name = ir_value_name(&f.m, v);
        needs[v] = *name != 'x';
        if (strcmp(name, "y") == 0) n = f.m.value.at[v].node;
    }
    cr_assert(n);
    double us = cost_backward_us(&f.p, dev, n, needs, unknown ? unknown : &ignored);
    fixture_free(&f);
    return us;
}

static void expect(const char *inputs, const char *params, const char *node, double flops,
                   double bytes) {
    bool unknown = false;
    double a = cost_of(&arithmetic, inputs, params, node, &unknown);
    double t = cost_of(&traffic, inputs, params, node, &unknown);
    cr_expect(!unknown, "%s: a size is unknown", node);
    cr_expect(fabs(a - flops) <= 1e-9 * flops + 1e-9, "%s: %g FLOPs, want %g", node, a, flops);
    cr_expect(fabs(t - bytes) <= 1e-9 * bytes + 1e-9, "%s: %g bytes, want %g", node, t, bytes);
}

Test(cost, products) {
    /* dX and dW of 2mnk each; with data in front only dW. Traffic: all three matrices for each. */
    double mm = 2. * 6 * 5 * 7, all = 4. * (6 * 7 + 7 * 5 + 6 * 5);
    expect("float[6,7] h", "float[7,5] w", "y = MatMul (h, w)", 2 * mm, 2 * all);
    expect("float[6,7] x", "float[7,5] w", "y = MatMul (x, w)", mm, all);
    expect("float[3,6,7] x", "float[7,5] w", "y = MatMul (x, w)", 3 * mm,
           4. * (3 * 6 * 7 + 7 * 5 + 3 * 6 * 5));
    /* The bias sums dY. */
    double gemm = 4. * (7 * 6 + 7 * 5 + 5 + 6 * 5);
    expect("float[7,6] h", "float[7,5] w, float[5] b", "y = Gemm <transA = 1> (h, w, b)", 2 * mm,
           2 * gemm + 4. * (6 * 5 + 5));
}

Test(cost, convolutions) {
    /* 2 N prod(out) prod(filter) Cin/groups Cout, twice. */
    double out = 2 * 8 * 16 * 16, w = 8 * 4 / 2 * 9, in = 2 * 4 * 16 * 16;
    expect("float[2,4,16,16] h", "float[8,2,3,3] w",
           "y = Conv <group = 2, pads = [1,1,1,1]> (h, w)", 2 * 2 * out * 9 * 2,
           2 * 4 * (out + w + in));
    /* Transposed: the same product with the roles of input and output exchanged. */
    out = 2. * 8 * 32 * 32;
    w = 4 * 8 * 4;
    expect("float[2,4,16,16] h", "float[4,8,2,2] w", "y = ConvTranspose <strides = [2,2]> (h, w)",
           2 * 2 * in * 8 * 4, 2 * 4 * (out + w + in));
}

Test(cost, attention) {
    /* Forward: scores and the weighted sum, 2 S T d each and head; backward 2.5 times that. */
    double forward = 2. * (2 * 3 * 8 * 8 * 4) * 2, tensor = 4. * 2 * 3 * 8 * 4;
    const char *qkv = "float[2,3,8,4] q, float[2,3,8,4] k, float[2,3,8,4] v";
    expect(qkv, "float[1] p", "y = Attention (q, k, v)", 2.5 * forward, 2 * 4 * tensor);
    expect(qkv, "float[1] p", "y = Attention <is_causal = 1> (q, k, v)", 1.25 * forward,
           2 * 4 * tensor);
}

Test(cost, memory_bound) {
    double a = 4. * 6 * 7;
    expect("float[6,7] h", "float[1] p", "y = Relu (h)", 0, 3 * a);
    expect("float[6,7] h, float[6,7] x", "float[1] p", "y = Mul (h, x)", 0, 3 * a);
    expect("float[6,7] h", "float[7] s, float[7] b", "y = LayerNormalization (h, s, b)", 0, 5 * a);
    expect("float16[6,7] h", "float[1] p", "y = Relu (h)", 0, 3 * a / 2);
    /* A sum passes gradients on; what was broadcast is summed over, and two terms part above. */
    expect("float[6,7] h", "float[7] b", "y = Add (h, b)", 0, a + 4. * 7);
    expect("float[6,7] h, float[6,7] k", "float[1] p", "y = Add (h, k)", 0, 3 * a);
    expect("float[6,7] h, float[6,7] x", "float[1] p", "y = Sub (h, x)", 0, 0);
    expect("float[6,7] h, float[6,7] k, float[6,7] l", "float[1] p", "y = Sum (h, k, l)", 0, 6 * a);
    expect("float[6,7] h", "float[1] p", "y = Cast <to = 10> (h)", 0, a + a / 2);
    expect("float[6,7] h, float[6,7] x", "float[1] p", "y = Concat <axis = 0> (h, x)", 0, 3 * a);
    expect("float[6,7] h", "float[1] p", "y = Transpose (h)", 0, 0);
    /* All of the table is written, whatever was looked up. */
    expect("int64[5] x", "float[1000,7] e", "y = Gather (e, x)", 0, 4. * (1000 * 7 + 5 * 7));
    expect("float[6,7] h, int64[1] xs", "float[1] p", "y = Reshape (h, xs)", 0, 0);
}

Test(cost, recurrent_and_einsum) {
    /* Twice the forward of 2 (I + H) H gates per row. */
    double w = 4 * 3 * (5. + 3), rows = 6 * 2;
    expect("float[6,2,5] h", "float[1,12,5] w, float[1,12,3] r",
           "y = LSTM <hidden_size = 3> (h, w, r)", 2 * 2 * rows * w,
           2 * 4 * (6 * 2 * 5 + w + 6 * 1 * 2 * 3));
    expect("float[2,3,4] h", "float[2,4,5] w, float[2,3,5] y",
           "y = Einsum <equation = \"bij,bjk->bik\"> (h, w)", 2 * 2. * 2 * 3 * 4 * 5,
           2 * 4. * (24 + 40 + 30));
}

Test(cost, recorded_calls_are_counted_as_the_operators_are) {
    static const struct {
        const char *inputs, *params, *torch, *onnx;
    } pairs[] = {
        {"float[3,6,7] h, float[3,6,5] y", "float[7,5] w, float[5,7] v, float[5] b",
         "y = torch.linear (h, v)", "y = MatMul (h, w)"},
        {"float[6,7] h, float[6,5] y", "float[7,5] w, float[5] b", "y = torch.addmm (b, h, w)",
         "y = Gemm (h, w, b)"},
        {"float[2,4,16,16] h, float[2,8,16,16] y", "float[8,4,3,3] w", "y = torch.conv2d (h, w)",
         "y = Conv <pads = [1,1,1,1]> (h, w)"},
        {"float[2,4,16,16] h, float[2,8,32,32] y", "float[4,8,2,2] w",
         "y = torch.conv_transpose2d (h, w)", "y = ConvTranspose <strides = [2,2]> (h, w)"},
        {"float[2,3,8,4] h, float[2,3,8,4] y", "float[1] p",
         "y = torch.scaled_dot_product_attention (h, k, v)", "y = Attention (h, k, v)"},
        {"int64[5] x, float[5,7] y", "float[1000,7] e", "y = torch.embedding (x, e)",
         "y = Gather (e, x)"},
        {"float[6,7] h, float[6,7] y", "float[7] s, float[7] b", "y = torch.layer_norm (h, s, b)",
         "y = LayerNormalization (h, s, b)"},
        {"float[6,7] h, float[6,7] y", "float[1] p", "y = torch.gelu (h)", "y = Gelu (h)"},
        {"float[6,7] h, float[42] y", "float[1] p", "y = torch.view (h)", "y = Identity (h)"},
        {"float[6,7] h, float[6,7] y", "float[7] b", "y = torch.add (h, b)", "y = Add (h, b)"},
        {"float[6,7] h, float16[6,7] y", "float[1] p", "y = torch.to (h)",
         "y = Cast <to = 10> (h)"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct device *devices[] = {&arithmetic, &traffic};
        for (int d = 0; d < 2; d++) {
            /* The result's type is declared among the items, as a recorder does. */
            char params[256], inputs[128];
            const char *comma = strstr(pairs[i].inputs, ", float");
            snprintf(
                inputs, sizeof inputs, "%.*s%s", (int)(comma - pairs[i].inputs), pairs[i].inputs,
                strstr(pairs[i].torch, "(h, k, v)") ? ", float[2,3,8,4] k, float[2,3,8,4] v" : "");
            snprintf(params, sizeof params, "%s%s", pairs[i].params, comma);
            bool unknown = false;
            double torch = cost_of(devices[d], inputs, params, pairs[i].torch, &unknown);
            cr_expect(!unknown, "%s", pairs[i].torch);
            double onnx = cost_of(devices[d], inputs, params, pairs[i].onnx, NULL);
            cr_expect(fabs(torch - onnx) < 1e-9, "%s: %g, not %g", pairs[i].torch, torch, onnx);
        }
    }
}

Test(cost, recurrent_layers_in_one_call) {
    double w = 12 * 5 + 12 * 3, rows = 6 * 2;
    expect("float[6,2,5] h, float[1,2,3] x0",
           "float[12,5] w, float[12,3] r, float[12] b, float[6,2,3] y",
           "y = torch.lstm (h, x0, w, r, b)", 4 * rows * w,
           2 * 4 * (6 * 2 * 5 + 2 * 3 + w + 12 + 6 * 2 * 3));
}

Test(cost, roofline) {
    /* 600 FLOPs at 60 % of 10 a µs; 2000 bytes at 80 % of 5 a µs; the larger counts, never less
     * than the floor. */
    struct device d = {"d", 10, 1e9, .6, .35, .35, .8, 4};
    double us = cost_of(&d, "float[10,5] x", "float[5,6] w", "y = MatMul (x, w)", NULL);
    cr_expect(fabs(us - 600 / 6.) < 1e-9, "%g", us);
    d.bytes_per_us = 5;
    us = cost_of(&d, "float[10,5] x", "float[5,6] w", "y = MatMul (x, w)", NULL);
    cr_expect(fabs(us - 4. * (50 + 30 + 60) / 4) < 1e-9, "%g", us);
    us = cost_of(&d, "float[1,1] x", "float[1,1] w", "y = MatMul (x, w)", NULL);
    cr_expect_eq(us, 4);
}

Test(cost, unknown_sizes_cost_the_floor) {
    struct device d = {"d", 1, 1, 1, 1, 1, 1, 7};
    bool unknown = false;
    cr_expect_eq(cost_of(&d, "float[B,5] x", "float[5,6] w", "y = MatMul (x, w)", &unknown), 7);
    cr_expect(unknown);
    unknown = false;
    cr_expect_eq(cost_of(&d, "float[N,5] h", "float[1] w", "y = Relu (h)", &unknown), 7);
    cr_expect(unknown);
}

/* A well-known size: BERT-large's feed-forward on 8192 tokens, on an H100 in bfloat16. */
Test(cost, plausible) {
    struct diags diags;
    struct device h100;
    diags_init(&diags, NULL);
    cr_assert(device_read(&h100, "h100", &diags));
    double us = cost_of(&h100, "bfloat16[8192,1024] h", "bfloat16[1024,4096] w",
                        "t = MatMul (h, w)\n y = Identity (t)", NULL);
    cr_expect_eq(us, 0);
    us =
        cost_of(&h100, "bfloat16[8192,1024] h", "bfloat16[1024,4096] w", "y = MatMul (h, w)", NULL);
    cr_expect(fabs(us - 2 * 2 * 8192. * 1024 * 4096 / (.6 * 989e6)) < 1e-6, "%g µs", us);
    diags_free(&diags);
}
