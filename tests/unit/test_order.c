/* When gradients are ready, by hand: on this device every kernel takes its floor of 1 µs, so times
 * are numbers of kernels. A product's backward is a kernel per input that wants a gradient,
 * reshapes are free, everything else is one. */
#define _POSIX_C_SOURCE 200809L
#include "cost.h"
#include "program_fixture.h"
#include <criterion/criterion.h>

static const struct device device = {"unit", 1e12, 1e12, 1, 1, 1, 1, 1};

/* "w2@3 w1@5 |5": the ready order with times, and the whole backward. */
static const char *order_of(const char *text, const char *profile_text, uint32_t *unmatched) {
    static char out[1024];
    struct fixture f = {0};
    struct branches b;
    struct reach r;
    struct ready_times ready;
    struct profile *profile = NULL;
    vec_push(&f.o.frozen, "frozen*");
    cr_assert(fixture_build(&f, text));
    branches_init(&b);
    reach_step(&f.p, 0, &b, &f.d, &r);
    if (profile_text) {
        char path[32];
        fixture_write(path, profile_text);
        profile = profile_read(path, &f.d);
        unlink(path);
        cr_assert(profile);
    }
    cr_assert(order_ready(&f.p, 0, &r, &device, profile, &f.d, &ready));
    size_t n = 0;
    for (uint32_t i = 0; i < ready.n; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s@%g ",
                              ir_text(&f.m, f.p.params.at[ready.order[i]].name),
                              ready.us[ready.order[i]]);
    snprintf(out + n, sizeof out - n, "|%g", ready.backward_us);
    if (unmatched) *unmatched = fixture_count(&f, DIAG_PROFILE_UNMATCHED);
    if (profile) profile_free(profile);
    branches_free(&b);
    fixture_free(&f);
    return out;
}

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"ddpc\" : 1]>\n"
#define MEAN "loss = ReduceMean <keepdims = 0> (y)\n"

static void expect(const char *text, const char *want) {
    const char *got = order_of(text, NULL, NULL);
    cr_expect_str_eq(got, want, "%s\n  got  %s\n  want %s", text, got, want);
}

/* The first product needs no gradient for the data. */
#define CHAIN                                                                                      \
    HEAD "g (float[4,8] x) => (float loss) <float[8,8] w1, float[8,8] w2, float[8,8] unused> {\n"  \
         "h = MatMul (x, w1)\n r = Relu (h)\n y = MatMul (r, w2)\n" MEAN "}\n"

Test(order, chain) { expect(CHAIN, "w2@3 w1@5 |5"); }

/* Its two uses are a product at the end and the lookup at the start; the transpose is a view. */
Test(order, tied_embedding_is_last) {
    expect(HEAD "g (int64[4] t) => (float loss) <float[9,8] e, float[8,8] w> {\n"
                "h = Gather (e, t)\n m = MatMul (h, w)\n et = Transpose <perm = [1, 0]> (e)\n"
                "y = MatMul (m, et)\n" MEAN "}\n",
           "w@5 e@6 |6");
}

/* The earliest use is detached: the later one decides. */
Test(order, detached_earliest_use) {
    expect(HEAD "g (float[4,8] x) => (float loss) <float[8,8] a, float[8,8] b> {\n"
                "d = ddpc.StopGradient (a)\n h = MatMul (x, d)\n i = MatMul (h, b)\n"
                "y = MatMul (i, a)\n" MEAN "}\n",
           "a@3 b@4 |4");
}

/* Data is prepared for free, and frozen layers before the first trained one have no backward. */
Test(order, nothing_before_the_first_parameter) {
    expect(HEAD "g (float[4,8] x) => (float loss) <float[8,8] frozen1, float[8,8] w> {\n"
                "s = Sqrt (x)\n h = MatMul (s, frozen1)\n r = Relu (h)\n"
                "y = MatMul (r, w)\n" MEAN "}\n",
           "w@2 |2");
}

/* Of equals the later declaration is first. */
Test(order, ties) {
    expect(HEAD "g (float[4,8] x) => (float loss) <float[8] c, float[8,8] b, float[8,8] a> {\n"
                "y = Gemm (x, b, c)\n" MEAN "}\n",
           "b@3 c@3 |3");
    expect(HEAD "g (float[4,8] x) => (float loss) <float[8] c, float[8] b, float[8] a> {\n"
                "bc = Add (b, c)\n abc = Add (a, bc)\n y = Add (x, abc)\n" MEAN "}\n",
           "a@3 b@4 c@4 |4");
}

/* Both branches count from the If's start; it costs the larger one: 2 and 3 kernels. */
Test(order, branches) {
    expect(HEAD
           "g (float[4,8] x, bool p) => (float loss)\n"
           "<float[8,8] w0, float[8,8] w1, float[8,8] w2, float[8] b> {\n"
           "h = MatMul (x, w0)\n"
           "y = If (p) <then_branch = t () => (float[4,8] u) { u = MatMul (h, w1) },\n"
           "  else_branch = e () => (float[4,8] v) { k = MatMul (h, w2)\n v = Add (k, b) }>\n" MEAN
           "}\n",
           "b@2 w1@3 w2@4 w0@5 |5");
}

#define LOOP(trips)                                                                                \
    HEAD "g (float[4,8] x, float[5,2] z) => (float loss)\n"                                        \
         "<float[8,8] w0, float[8,8] w, float[8,8] v> {\n" trips                                   \
         "h = MatMul (x, w0)\n yes = Constant <value = bool {1}> ()\n"                             \
         "k = Loop (n, yes, h) <body = b (int64 i, bool c, float[4,8] s) => (bool c2, float[4,8] " \
         "s2) { c2 = Identity (c)\n q = MatMul (s, w)\n s2 = Relu (q) }>\n"                        \
         "y = MatMul (k, v)\n" MEAN "}\n"

/* Three trips of three kernels; w is complete after the first trip's, which runs last. */
Test(order, loops) {
    expect(LOOP("n = Constant <value = int64 {3}> ()\n"), "v@3 w@12 w0@13 |13");
    expect(LOOP("sh = Shape (z)\n at = Constant <value = int64 {0}> ()\n n = Gather (sh, at)\n"),
           "v@3 w@18 w0@19 |19");
}

/* However often nested loops run, times are numbers that a plan can hold. */
Test(order, trips_beyond_all_bounds) {
    enum { DEPTH = 24 }; /* 4e18 to this power is no double */
    char text[8192], in[8] = "x", out[8] = "y";
    int n = sprintf(text, HEAD "g (float[4,8] x) => (float loss) <float[8,8] w> {\n"
                               "n = Constant <value = int64 {4000000000000000000}> ()\n"
                               "yes = Constant <value = bool {1}> ()\n");
    for (int i = 0; i < DEPTH; i++) {
        n += sprintf(text + n,
                     "%s = Loop (n, yes, %s) <body = b (int64 i%d, bool c%d, float[4,8] s%d) => "
                     "(bool d%d, float[4,8] o%d) {\nd%d = Identity (c%d)\n",
                     out, in, i, i, i, i, i, i, i);
        sprintf(in, "s%d", i);
        sprintf(out, "o%d", i);
    }
    n += sprintf(text + n, "%s = MatMul (%s, w)\n", out, in);
    for (int i = 0; i < DEPTH; i++) n += sprintf(text + n, "}>\n");
    sprintf(text + n, MEAN "}\n");
    expect(text, "w@1e+15 |1e+15");
}

Test(order, profile) {
    uint32_t unmatched;
    /* y is a node without a name, known by its output; w1's time is absolute. */
    const char *got = order_of(CHAIN, "node y 40\nready w1 7.5\n", &unmatched);
    cr_expect_str_eq(got, "w1@7.5 w2@41 |43", "got %s", got);
    cr_expect_eq(unmatched, 0);
    got = order_of(CHAIN, "node nope 40\nready x 7.5\nready w2 100\n", &unmatched);
    cr_expect_str_eq(got, "w1@5 w2@100 |100", "got %s", got);
    cr_expect_eq(unmatched, 1);
    /* Where all gradients are measured, the last of them is the end. */
    got = order_of(CHAIN, "ready w2 1\nready w1 2\n", &unmatched);
    cr_expect_str_eq(got, "w2@1 w1@2 |2", "got %s", got);
}

/* A size that nobody knows: the floor, and it is counted. */
Test(order, unknown_sizes_are_counted) {
    struct fixture f = {0};
    struct branches b;
    struct reach r;
    struct ready_times ready;
    cr_assert(fixture_build(&f, HEAD "g (float[B,8] x) => (float loss) <float[8,8] w> {\n"
                                     "y = MatMul (x, w)\n" MEAN "}\n"));
    branches_init(&b);
    reach_step(&f.p, 0, &b, &f.d, &r);
    cr_assert(order_ready(&f.p, 0, &r, &device, NULL, &f.d, &ready));
    cr_expect_eq(ready.nodes, 2);
    cr_expect_eq(ready.unknown_nodes, 2);
    branches_free(&b);
    fixture_free(&f);
}
