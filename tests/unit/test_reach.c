#define _POSIX_C_SOURCE 200809L /* fmemopen */
/* Which gradients exist, rule by rule: each test is one way in which an analysis goes wrong. What
 * is expected was measured on unrolled autograd graphs. */
#include "reach_model.h"

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"ddpc\" : 1]>\n"

/* `expected`: "w always; v never; u conditional keep; s sometimes keep", a guard behind the class;
 * "sometimes" is conditional and not exact. Each parameter must stand there. */
static void expect_step(struct analysed *a, uint32_t step, const char *expected) {
    char copy[1024];
    uint32_t n = 0;
    snprintf(copy, sizeof copy, "%s", expected);
    for (char *item = copy, *next; item; item = next, n++) {
        if ((next = strstr(item, "; "))) *next = 0, next += 2;
        char *class = strchr(item, ' '), *guard = NULL;
        cr_assert(class);
        *class ++ = 0;
        if ((guard = strchr(class, ' '))) *guard++ = 0;
        const struct gradient *g = &a->r[step].gradient[analysed_param(a, item)];
        const char *is =
            g->class == GRAD_CONDITIONAL && !g->exact ? "sometimes" : grad_class_name(g->class);
        cr_assert(!strcmp(is, class) && (!guard || !strcmp(guard, g->guard ? g->guard : "-")),
                  "%s: expected %s %s, is %s %s\n%s", item, class, guard ? guard : "", is,
                  g->guard ? g->guard : "", a->source.bytes);
        cr_assert(g->reason && *g->reason, "%s has no reason", item);
        cr_assert(bdd_implies(a->b.bdd, g->must, g->may));
    }
    cr_assert_eq(n, a->p.params.n, "all parameters are in: %s", expected);
}

static void expect(const char *text, const char *expected) {
    struct analysed a = {0};
    analyse(&a, text);
    expect_step(&a, 0, expected);
    analysed_free(&a);
}

static void expect_reason(const char *text, const char *param, const char *reason) {
    struct analysed a = {0};
    analyse(&a, text);
    const struct gradient *g = &a.r[0].gradient[analysed_param(&a, param)];
    cr_assert_str_eq(g->reason, reason);
    analysed_free(&a);
}

/* ---- one rule each --------------------------------------------------------------------------- */

Test(reach, times_zero_and_minus_itself_are_uses) {
    expect(HEAD
           "m (float[3] x) => (float[3] loss) <float[3] w, float[3] v, float[1] zero = {0}> {\n"
           "  a = Mul (w, zero)  b = Sub (v, v)  c = Add (a, b)  loss = Add (c, x) }",
           "w always; v always");
}

Test(reach, where_and_one_hot_keep_their_edges) {
    expect(HEAD "m (float[3] x, bool[3] mask, int64[3] i, int64 depth) => (float[3] loss)\n"
                "<float[3] w, float[3] v, float[2] values> {\n"
                "  a = Where (mask, w, v)  h = OneHot (i, depth, values)  s = ReduceSum (h)\n"
                "  b = Add (a, s)  loss = Add (b, x) }",
           "w always; v always; values always");
}

Test(reach, a_condition_goes_back_through_captures) {
    /* w's operator stands before the If, but only one branch reads it. */
    expect(HEAD "m (float[3] x, bool c) => (float[3] loss) <float[3] w> {\n"
                "  h = Mul (x, w)\n"
                "  loss = If (c) <then_branch = t () => (a) { a = Relu (h) },\n"
                "                 else_branch = e () => (b) { b = Relu (x) }> }",
           "w conditional c");
}

Test(reach, uses_in_an_if_that_nobody_reads_do_not_count) {
    expect(HEAD "m (float[3] x, bool c) => (float[3] loss) <float[3] w, float[3] v> {\n"
                "  h = If (c) <then_branch = t () => (a) { a = Mul (x, w) },\n"
                "              else_branch = e () => (b) { b = Mul (x, w) }>\n"
                "  loss = Mul (x, v) }",
           "w never; v always");
}

Test(reach, both_branches_or_one_detached) {
    expect(HEAD "m (float[3] x, bool c) => (float[3] loss) <float[3] w, float[3] v> {\n"
                "  loss = If (c) <then_branch = t () => (a) { a0 = Mul (v, w) a = Mul (a0, x) },\n"
                "    else_branch = e () => (b) { d = ddpc.StopGradient (v) b = Mul (d, w) }> }",
           "w always; v conditional c");
}

Test(reach, outputs_are_told_apart) {
    /* TopK's indices, MaxPool's indices, BatchNormalization's statistics, Split's unread half. */
    expect(HEAD
           "m (float[2,3,4,4] x, int64[1] k) => (float loss)\n"
           "<float[4] w, float[2,3,4,4] p, float[3] s, float[3] b, float[3] mean, float[3] var> {\n"
           "  top, at = TopK (w, k)  f = Cast <to = 1> (at)\n"
           "  q = Add (x, p)  pooled, where = MaxPool <kernel_shape = [2, 2]> (q)\n"
           "  g = Cast <to = 1> (where)\n"
           "  y, m2, v2 = BatchNormalization <training_mode = 1> (x, s, b, mean, var)\n"
           "  t0 = ReduceSum <keepdims = 0> (f)  t1 = ReduceSum <keepdims = 0> (g)\n"
           "  t2 = ReduceSum <keepdims = 0> (m2)  t3 = Add (t0, t1)  loss = Add (t2, t3) }",
           "w never; p never; s never; b never; mean never; var never");
    expect(HEAD "m (float[4] x) => (float[2] loss) <float[4] w, float[2] v> {\n"
                "  a, b = Split (w)  c = Mul (b, v)  loss = Identity (a) }",
           "w always; v never");
}

Test(reach, contributions_are_those_that_flow) {
    struct analysed a = {0};
    analyse(&a, HEAD
            "m (int64[3] i, float[3,4] x) => (float[3,4] loss) <float[3,4] w, float[3,4] v> {\n"
            "  e = Gather (w, i)  d = ddpc.StopGradient (w)  f = Mul (d, e)\n"
            "  g = Mul (w, w)  n = Shape (w)  h = Add (f, g)  loss = Mul (h, v)\n"
            "  unread = Relu (v) }");
    cr_assert_eq(a.r[0].gradient[analysed_param(&a, "w")].contributions, 3u);
    cr_assert_eq(a.r[0].gradient[analysed_param(&a, "v")].contributions, 1u);
    analysed_free(&a);
}

Test(reach, the_loss_may_be_an_if) {
    expect(HEAD "m (float x, bool c) => (float loss) <float w, float v> {\n"
                "  loss = If (c) <then_branch = t () => (a) { a = Mul (x, w) },\n"
                "                 else_branch = e () => (b) { b = Mul (x, v) }> }",
           "w conditional c; v conditional !c");
}

Test(reach, zero_gradients_are_gradients) {
    expect(HEAD
           "m (float[3] x) => (float[3] loss) <float[3] a, float[3] b, float[3] c, float[3] d> {\n"
           "  a1 = Floor (a)  b1 = Ceil (b)  c1 = Round (c)  d1 = Sign (d)\n"
           "  s = Sum (a1, b1, c1, d1)  loss = Mul (s, x) }",
           "a always; b always; c always; d always");
}

Test(reach, operators_that_pass_nothing) {
    expect(
        HEAD
        "m (float[3] x) => (float[3] loss)\n"
        "<float[3] a, float[3] b, float[3] c, float[3] d, float[3] e, float[3] f, float[3] g> {\n"
        "  a1 = ArgMax <keepdims = 0> (a)  a2 = Cast <to = 1> (a1)\n"
        "  b1 = Greater (b, x)  b2 = Cast <to = 1> (b1)\n"
        "  c1 = Cast <to = 7> (c)  c2 = Cast <to = 1> (c1)\n"
        "  d1 = Shape (d)  d2 = Cast <to = 1> (d1)\n"
        "  e1 = IsNaN (e)  e2 = Cast <to = 1> (e1)\n"
        "  f1 = RandomNormalLike (f)  g1 = NonZero (g)  g2 = Cast <to = 1> (g1)\n"
        "  s = Sum (a2, b2, c2, d2, e2, f1, g2)  loss = Mul (s, x) }",
        "a never; b never; c never; d never; e never; f never; g never");
}

Test(reach, straight_through_quantization) {
    /* Q, moving data, DQ passes; what leaves between does not. */
    expect(HEAD
           "m (float[4] x, float s, int8 z, int64[2] shape) => (float[2,2] loss)\n"
           "<float[4] w, float[4] v, float[4] u> {\n"
           "  q = QuantizeLinear (w, s, z)  r = Reshape (q, shape)\n"
           "  t = Transpose <perm = [1, 0]> (r)  a = DequantizeLinear (t, s, z)\n"
           "  qv = QuantizeLinear (v, s, z)  fv = Cast <to = 1> (qv)  b = Reshape (fv, shape)\n"
           "  qu = QuantizeLinear (u, s, z)  tu = Reshape (qu, shape)\n"
           "  c = Add (a, b)  loss = Identity (c) }",
           "w always; v never; u never");
}

/* ---- conditions ------------------------------------------------------------------------------ */

#define TWO_IFS(first, second)                                                                     \
    "  a = If (" first ") <then_branch = p () => (a1) { a1 = Mul (x, w) },\n"                      \
    "                      else_branch = q () => (a2) { a2 = Identity (x) }>\n"                    \
    "  b = If (" second ") <then_branch = r () => (b1) { b1 = Mul (x, w) },\n"                     \
    "                       else_branch = s () => (b2) { b2 = Identity (x) }>\n"                   \
    "  loss = Add (a, b) }"

static void expect_complements(const char *conditions) {
    char text[2048];
    snprintf(text, sizeof text, "%s%s%s%s", HEAD,
             "m (float[3] x, bool c, bool d, float u, float v) => (float[3] loss) <float[3] w> {\n",
             conditions, TWO_IFS("first", "second"));
    expect(text, "w always");
}

Test(conditions, are_seen_through) {
    expect_complements("  first = Identity (c)  second = Not (c)\n");
    expect_complements("  first = And (c, d)  n = Not (c) m = Not (d)  second = Or (n, m)\n");
    expect_complements("  first = Xor (c, d)  n = Not (c)  second = Xor (d, n)\n");
    expect_complements("  i = Cast <to = 7> (c)  f = Cast <to = 1> (i)  first = Cast <to = 9> (f)\n"
                       "  zero = Constant <value = int64 {0}> ()  second = Equal (i, zero)\n");
    expect_complements("  no = Constant <value = bool {0}> ()  first = Equal (c, no)  "
                       "second = Identity (c)\n");
    expect_complements("  yes = Constant <value = bool {1}> ()  first = And (c, yes)  "
                       "n = Identity (c)  second = Not (n)\n");
    expect_complements("  first = If (c) <then_branch = g () => (g1) { g1 = Identity (d) },\n"
                       "                  else_branch = h () => (h1) { h1 = Not (d) }>\n"
                       "  second = Xor (c, d)\n");
}

Test(conditions, equal_comparisons_are_one_branch) {
    expect_complements("  first = Greater (u, v)  g = Greater (u, v)  second = Not (g)\n");
    expect_complements("  first = Greater (u, v)  g = Less (v, u)  second = Not (g)\n");
    expect_complements("  first = Equal (u, v)  g = Equal (v, u)  second = Not (g)\n");
    expect_complements(
        "  k = Constant <value = float {0.5}> ()  l = Constant <value = float {0.5}> ()\n"
        "  first = Greater (u, k)  g = Greater (u, l)  second = Not (g)\n");
    struct analysed a = {0};
    /* Two constants that differ, and two random numbers, are two branches each. */
    analyse(&a, HEAD
            "m (float[3] x, float u) => (float[3] loss) <float[3] w> {\n"
            "  k = Constant <value = float {0.5}> ()  l = Constant <value = float {0.7}> ()\n"
            "  first = Greater (u, k)  g = Greater (u, l)  second = Not (g)\n" TWO_IFS("first",
                                                                                       "second"));
    expect_step(&a, 0, "w conditional first || !g");
    analysed_free(&a);
    a = (struct analysed){0};
    analyse(&a, HEAD "m (float[3] x, float u) => (float[3] loss) <float[3] w> {\n"
                     "  k = RandomUniform <shape = [1]> ()  l = RandomUniform <shape = [1]> ()\n"
                     "  first = Greater (u, k)  g = Greater (u, l)  second = Not (g)\n" TWO_IFS(
                         "first", "second"));
    expect_step(&a, 0, "w conditional first || !g");
    analysed_free(&a);
}

Test(conditions, only_those_that_decide_are_branches) {
    struct analysed a = {0};
    analyse(&a, HEAD "m (float[3] x, bool c, bool unused) => (float[3] loss) <float[3] w> {\n"
                     "  mask = Greater (x, w)  n = Not (unused)  y = Where (mask, x, w)\n"
                     "  loss = If (c) <then_branch = t () => (a) { a = Relu (y) },\n"
                     "                 else_branch = e () => (b) { b = Relu (x) }> }");
    cr_assert_eq(a.b.all.n, 1u);
    cr_assert_str_eq(a.b.all.at[0].name, "c");
    analysed_free(&a);
}

Test(conditions, an_initializer_that_can_be_overridden_is_a_branch) {
#define FLAG_MODEL(version)                                                                        \
    "<ir_version: " version ", opset_import: [\"\" : 17]>\n"                                       \
    "m (float[3] x, bool c = {1}) => (float[3] loss) <float[3] w> {\n"                             \
    "  loss = If (c) <then_branch = t () => (a) { a = Mul (x, w) },\n"                             \
    "                 else_branch = e () => (b) { b = Relu (x) }> }"
    expect(FLAG_MODEL("8"), "w conditional c");
    expect(FLAG_MODEL("3"), "w always");
    expect(HEAD "m (float[3] x) => (float[3] loss) <float[3] w, bool c = {0}> {\n"
                "  loss = If (c) <then_branch = t () => (a) { a = Mul (x, w) },\n"
                "                 else_branch = e () => (b) { b = Relu (x) }> }",
           "w never");
}

Test(conditions, assumptions_reach_back) {
    struct analysed a = {0};
    const char *assume = "both=true";
    a.options.assume.at = &assume;
    a.options.assume.n = 1;
    analyse(&a, HEAD "m (float[3] x, bool c, bool d) => (float[3] loss) <float[3] w> {\n"
                     "  n = Not (d)  both = And (c, n)\n" TWO_IFS("c", "d"));
    expect_step(&a, 0, "w always");
    cr_assert_eq(a.b.all.n, 0u);
    analysed_free(&a);
}

Test(conditions, uniform_marks_by_glob) {
    struct analysed a = {0};
    const char *uniform = "d_*";
    a.options.uniform.at = &uniform;
    a.options.uniform.n = 1;
    analyse(&a,
            HEAD "m (float[3] x, bool c, bool d_turn) => (float[3] loss) <float[3] w> {\n" TWO_IFS(
                "c", "d_turn"));
    expect_step(&a, 0, "w conditional c || d_turn");
    cr_assert_not(a.b.all.at[0].uniform);
    cr_assert(a.b.all.at[1].uniform);
    analysed_free(&a);
}

Test(conditions, a_trip_count_is_uniform_by_its_name) {
    struct analysed a = {0};
    const char *uniform = "n";
    a.options.uniform.at = &uniform;
    a.options.uniform.n = 1;
    analyse(&a,
            HEAD "m (float[3] x, int64 n) => (float[3] loss) <float[3] w> {\n"
                 "  loss = Loop (n, , x) <body = b (int64 i, bool on, float[3] s) => (on2, s2) {\n"
                 "    on2 = Identity (on)  s2 = Mul (s, w) }> }");
    expect_step(&a, 0, "w conditional (n>=1)");
    cr_assert(a.b.all.at[0].uniform);
    analysed_free(&a);
}

Test(conditions, each_call_of_a_function_has_its_own) {
    struct analysed a = {0};
    analyse(&a, "<ir_version: 8, opset_import: [\"\" : 17, \"my\" : 1]>\n"
                "m (float x, float u) => (float loss) <float w, float v> {\n"
                "  p = my.gate (x, w)  q = my.gate (u, v)  loss = Add (p, q) }\n"
                "<domain: \"my\", opset_import: [\"\" : 17]>\n"
                "gate (a, b) => (c) {\n"
                "  go = Greater (a, b)\n"
                "  c = If (go) <then_branch = t () => (d) { d = Mul (a, b) },\n"
                "               else_branch = e () => (f) { f = Identity (a) }> }\n");
    cr_assert_eq(a.b.all.n, 2u);
    const struct gradient *w = &a.r[0].gradient[0], *v = &a.r[0].gradient[1];
    cr_assert(w->class == GRAD_CONDITIONAL && v->class == GRAD_CONDITIONAL && w->may != v->may);
    cr_assert_str_eq(w->guard, a.b.all.at[0].name);
    cr_assert_str_eq(w->guard, "p/go");
    analysed_free(&a);
}

Test(reach, a_graph_in_an_assumed_operator_is_not_looked_into) {
    struct analysed a = {0};
    const char *assume = "my.*";
    a.options.assume_differentiable.at = &assume;
    a.options.assume_differentiable.n = 1;
    analyse(&a, "<ir_version: 8, opset_import: [\"\" : 17, \"my\" : 1]>\n"
                "m (float x) => (float loss) <float w, float v, float u> {\n"
                "  y = my.Checkpoint (v) <body = b () => (c) { c = Mul (x, w) }>\n"
                "  z = my.Checkpoint (u) <body = b () => (e) { e = Mul (x, u) }>\n"
                "  loss = Add (x, y) }");
    expect_step(&a, 0, "w sometimes true; v always; u never");
    analysed_free(&a);
}

Test(conditions, steps_share_branches_and_differ_in_assumptions) {
    struct analysed a = {0};
    const char *steps[] = {"d: loss=loss assume=d_turn=true", "g: loss=loss assume=!d_turn",
                           "e: loss=loss"};
    a.options.step.at = steps;
    a.options.step.n = 3;
    analyse(&a,
            HEAD "m (float x, bool d_turn, bool k) => (float loss) <float w, float v, float u> {\n"
                 "  h = If (k) <then_branch = p () => (h1) { h1 = Mul (x, u) },\n"
                 "              else_branch = q () => (h2) { h2 = Identity (x) }>\n"
                 "  loss = If (d_turn) <then_branch = t () => (a) { a = Mul (h, w) },\n"
                 "                      else_branch = e () => (b) { b = Mul (h, v) }> }");
    expect_step(&a, 0, "w always; v never; u conditional k");
    expect_step(&a, 1, "w never; v always; u conditional k");
    expect_step(&a, 2, "w conditional d_turn; v conditional !d_turn; u conditional k");
    cr_assert_eq(a.b.all.n, 2u);
    analysed_free(&a);
}

/* ---- loops ----------------------------------------------------------------------------------- */

#define LITERAL(n) "  n = Constant <value = int64 {" n "}> ()\n"
#define YES        "  yes = Constant <value = bool {1}> ()\n"
#define ON                                                                                         \
    " (int64 i, bool on, float[3] s, float[3] t) => (bool on2, s2, t2) { on2 = Identity (on) "
#define LOOP2 "  a, b = Loop (n, yes, pa, pb) <body = body"

Test(loops, swapped_states) {
#define SWAP(input, literal)                                                                       \
    HEAD "m (float[3] x" input                                                                     \
         ") => (float[3] loss) <float[3] pa, float[3] pb> {\n" literal YES LOOP2                   \
         " (int64 i, bool on, float[3] s, float[3] t) => (bool on2, t, s) { on2 = Identity (on) "  \
         "}>\n"                                                                                    \
         "  loss = Mul (a, x) }"
    expect(SWAP("", LITERAL("3")), "pa never; pb always");
    expect(SWAP("", LITERAL("2")), "pa always; pb never");
    expect(SWAP("", LITERAL("0")), "pa always; pb never");
    expect(SWAP("", LITERAL("64")), "pa always; pb never");
    expect(SWAP(", int64 n", ""), "pa sometimes; pb sometimes (n>=1)");
    /* Too many to apply: what is not known for certain is conditional. */
    expect(SWAP("", LITERAL("65")), "pa sometimes; pb sometimes");
}

Test(loops, the_initial_state_only_where_it_does_not_run) {
    expect(HEAD
           "m (float[3] x, int64 n) => (float[3] loss) <float[3] w0, float[3] w1> {\n" YES
           "  h0 = Mul (x, w0)\n"
           "  h = Loop (n, yes, h0) <body = b (int64 i, bool on, float[3] h1) => (bool on2, k) {\n"
           "    on2 = Identity (on)  k = Mul (x, w1) }>\n"
           "  loss = Relu (h) }",
           "w0 conditional !(n>=1); w1 conditional (n>=1)");
}

Test(loops, two_trips_may_be_needed) {
    /* w reaches t in the first trip, s in the second. */
#define CHAIN(input, literal)                                                                      \
    HEAD "m (float[3] x" input                                                                     \
         ") => (float[3] loss) <float[3] pa, float[3] pb, float[3] w> {\n" literal YES LOOP2 ON    \
         "s2 = Relu (t)  t2 = Mul (x, w) }>\n  loss = Mul (a, x) }"
    expect(CHAIN("", LITERAL("1")), "pa never; pb always; w never");
    expect(CHAIN("", LITERAL("2")), "pa never; pb never; w always");
    expect(CHAIN("", LITERAL("1000")), "pa never; pb never; w always");
    expect(CHAIN(", int64 n", ""),
           "pa conditional !(n>=1); pb sometimes (n>=1); w sometimes (n>=1)");
}

Test(loops, a_shift_register_with_enough_trips) {
    expect(HEAD "m (float[3] x) => (float[3] loss) <float[3] pa, float[3] pb> {\n" LITERAL("2")
               YES LOOP2 ON "s2 = Relu (t)  t2 = Relu (t) }>\n  loss = Mul (a, x) }",
           "pa never; pb always");
    expect(HEAD
           "m (float[3] x, int64 n) => (float[3] loss) <float[3] pa, float[3] pb> {\n" YES LOOP2 ON
           "s2 = Relu (t)  t2 = Relu (t) }>\n  loss = Mul (a, x) }",
           "pa conditional !(n>=1); pb conditional (n>=1)");
}

Test(loops, scan_outputs_count_only_if_read) {
    expect(HEAD "m (float[3] x) => (float[3] loss) <float[3] w, float[3] v> {\n" LITERAL("2") YES
           "  h, trace, log = Loop (n, yes, x) <body = b (int64 i, bool on, float[3] s) =>\n"
           "    (bool on2, s2, l1, l2) { on2 = Identity (on)  s2 = Relu (s)  l1 = Mul (s, w)\n"
           "    l2 = Mul (s, v) }>\n"
           "  sum = ReduceSum (trace)  loss = Add (h, sum) }",
           "w always; v never");
}

Test(loops, a_branch_of_its_own_in_every_trip) {
    /* Taken in none or any of the trips: no branch of the model says in which. */
    expect(HEAD
           "m (float[3] x, float u) => (float[3] loss) <float[3] w, float[3] v> {\n" LITERAL("2")
               YES
           "  h = Loop (n, yes, x) <body = b (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    on2 = Identity (on)  m = ReduceSum <keepdims = 0> (s)  c = Greater (m, u)\n"
           "    s2 = If (c) <then_branch = t () => (a) { a = Mul (s, w) },\n"
           "                 else_branch = e () => (b1) { b0 = Mul (s, v) b1 = Mul (b0, s) }> }>\n"
           "  loss = Relu (h) }",
           "w sometimes true; v sometimes true");
    /* Both branches in one trip: for certain, though neither is. */
    expect(HEAD "m (float[3] x, float u) => (float[3] loss) <float[3] w> {\n" LITERAL("2") YES
           "  h = Loop (n, yes, x) <body = b (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    on2 = Identity (on)  m = ReduceSum <keepdims = 0> (s)  c = Greater (m, u)\n"
           "    s2 = If (c) <then_branch = t () => (a) { a = Mul (s, w) },\n"
           "                 else_branch = e () => (b) { b = Mul (w, s) }> }>\n"
           "  loss = Relu (h) }",
           "w always");
    /* The same in every trip: an ordinary branch. */
    expect(HEAD "m (float[3] x, float u, float t) => (float[3] loss) <float[3] w> {\n" LITERAL("2")
               YES
           "  h = Loop (n, yes, x) <body = b (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    on2 = Identity (on)  c = Greater (t, u)\n"
           "    s2 = If (c) <then_branch = t1 () => (a) { a = Mul (s, w) },\n"
           "                 else_branch = e () => (b) { b = Identity (s) }> }>\n"
           "  loss = Relu (h) }",
           "w conditional c");
    /* A coin of its own in every trip. */
    expect(HEAD "m (float[3] x, float u) => (float[3] loss) <float[3] w> {\n" LITERAL("1") YES
           "  h = Loop (n, yes, x) <body = b (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    on2 = Identity (on)  r = RandomUniform <shape = [1]> ()  c = Greater (r, u)\n"
           "    s2 = If (c) <then_branch = t () => (a) { a = Mul (s, w) },\n"
           "                 else_branch = e () => (b) { b = Identity (s) }> }>\n"
           "  loss = Relu (h) }",
           "w sometimes true");
}

Test(loops, a_condition_that_stops_it) {
    /* At least one trip is certain; the last one uses w. */
    expect(HEAD
           "m (float[3] x, float u) => (float[3] loss) <float[3] w, float[3] pa> {\n" LITERAL("9")
               YES
           "  h0 = Mul (x, pa)\n"
           "  h = Loop (n, yes, h0) <body = b (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    m = ReduceSum <keepdims = 0> (s)  on2 = Greater (m, u)  s2 = Mul (s, w) }>\n"
           "  loss = Relu (h) }",
           "w always; pa always");
    /* The initial condition decides. */
    expect(HEAD "m (float[3] x, bool go) => (float[3] loss) <float[3] w> {\n" LITERAL(
               "9") "  h = Loop (n, go, x) <body = b (int64 i, bool on, float[3] s) => (bool on2, "
                    "s2) {\n"
                    "    on2 = Identity (go)  s2 = Mul (s, w) }>\n"
                    "  loss = Relu (h) }",
           "w conditional go");
    /* It stops after one trip: a swap happens once. */
    expect(HEAD "m (float[3] x) => (float[3] loss) <float[3] pa, float[3] pb> {\n" LITERAL("9")
               YES LOOP2
           " (int64 i, bool on, float[3] s, float[3] t) => (bool on2, t, s) { on2 = Not (on) }>\n"
           "  loss = Mul (a, x) }",
           "pa never; pb always");
}

Test(loops, one_variable_for_one_trip_count) {
    expect(HEAD
           "m (float[3] x, int64 n) => (float[3] loss) <float[3] w, float[3] v> {\n" YES
           "  n2 = Identity (n)\n"
           "  a = Loop (n, yes, x) <body = b1 (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    on2 = Identity (on)  s2 = Mul (s, w) }>\n"
           "  y = Mul (x, w)\n"
           "  b = Loop (n2, yes, y) <body = b2 (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
           "    on2 = Identity (on)  s2 = Mul (x, v) }>\n"
           "  loss = Add (a, b) }",
           "w always; v conditional (n>=1)");
}

Test(loops, scan_and_sequence_map) {
    expect(HEAD "m (float[3] x, float[5,3] xs, float[N,3] ys) => (float[3] loss)\n"
                "<float[3] w, float[3] v, float[3] u> {\n"
                "  zs = Mul (ys, v)\n"
                "  a = Scan <num_scan_inputs = 1, body = b1 (float[3] s, float[3] e) => (s2) {\n"
                "    e1 = Mul (e, w)  s2 = Add (s, e1) }> (x, xs)\n"
                "  b = Scan <num_scan_inputs = 1, body = b2 (float[3] s, float[3] e) => (s2) {\n"
                "    e1 = Mul (e, u)  s2 = Add (s, e1) }> (a, zs)\n"
                "  loss = Relu (b) }",
           "w always; v conditional (N>=1); u conditional (N>=1)");
    expect(HEAD "m (float[3] x, seq(float[3]) xs) => (float[3] loss) <float[3] w, float[3] v> {\n"
                "  ys = SequenceMap (xs, v) <body = b (float[3] e, float[3] f) => (float[3] y) {\n"
                "    y0 = Mul (e, w)  y = Mul (y0, f) }>\n"
                "  c = ConcatFromSequence <axis = 0> (ys)  s = ReduceSum (c)  loss = Add (s, x) }",
           "w conditional (len(xs)>=1); v conditional (len(xs)>=1)");
}

Test(loops, a_scanned_slice_is_certain_only_if_its_trip_is) {
    /* A slice needs two trips to reach `a`: with one there is none. */
    expect(HEAD
           "m (float[3] x, float[N,3] ys) => (float[3] loss) <float[3] w> {\n"
           "  zs = Mul (ys, w)\n"
           "  a, b = Scan <num_scan_inputs = 1, body = g (float[3] s, float[3] t, float[3] e)\n"
           "    => (s2, t2) { s2 = Identity (t)  t2 = Identity (e) }> (x, x, zs)\n"
           "  loss = Relu (a) }",
           "w sometimes (N>=1)");
}

Test(loops, nested_ones_and_variables_of_the_outer_trip) {
    expect(
        HEAD "m (float[3] x, float u) => (float[3] loss) <float[3] w, float[3] v> {\n" LITERAL("3")
            YES
        "  h = Loop (n, yes, x) <body = b (int64 i, bool on, float[3] s) => (bool on2, s2) {\n"
        "    on2 = Identity (on)  m = ReduceSum <keepdims = 0> (s)  c = Greater (m, u)\n"
        "    s2 = Loop (n, yes, s) <body = d (int64 j, bool go, float[3] p) => (bool go2, p2) {\n"
        "      go2 = Identity (go)\n"
        "      p1 = If (c) <then_branch = t () => (a) { a = Mul (p, w) },\n"
        "                   else_branch = e () => (f) { f = Mul (p, v) }>\n"
        "      p2 = If (c) <then_branch = t2 () => (a2) { a2 = Mul (p1, v) },\n"
        "                   else_branch = e2 () => (f2) { f2 = Mul (p1, w) }> }> }>\n"
        "  loss = Relu (h) }",
        "w always; v always");
}

/* ---- limits ---------------------------------------------------------------------------------- */

Test(reach, too_many_branches_end_in_sound_answers) {
    char text[8192] = HEAD "m (float x";
    for (int i = 0; i < 24; i++) snprintf(text + strlen(text), 32, ", bool c%d", i);
    strcat(text, ") => (float loss) <float w, float v> {\n  o0 = And (c0, c12)\n");
    for (int i = 1; i < 12; i++)
        snprintf(text + strlen(text), 96, "  a%d = And (c%d, c%d)  o%d = Or (o%d, a%d)\n", i, i,
                 i + 12, i, i - 1, i);
    strcat(text, "  y = If (o11) <then_branch = t () => (a) { a = Mul (x, w) },\n"
                 "    else_branch = e () => (b) { b = Identity (x) }>  loss = Mul (y, v) }");
    struct analysed a = {0};
    analyse_within(&a, text, 500);
    expect_step(&a, 0, "w sometimes true; v always");
    cr_assert_not(a.r[0].exact_budget);
    cr_assert_eq(a.diags.warnings, 1u);
    analysed_free(&a);
    a = (struct analysed){0};
    analyse(&a, text);
    const struct gradient *g = &a.r[0].gradient[analysed_param(&a, "w")];
    cr_assert(g->class == GRAD_CONDITIONAL && g->exact);
    cr_assert(a.r[0].exact_budget);
    analysed_free(&a);
}

Test(reach, frozen_ones_and_where_the_backward_pass_works) {
    struct analysed a = {0};
    const char *frozen = "bb_*";
    a.options.frozen.at = &frozen;
    a.options.frozen.n = 1;
    analyse(&a, HEAD "m (float[3] x) => (float[3] loss) <float[3] bb_w, float[3] w> {\n"
                     "  h = Mul (x, bb_w)  y = Mul (h, w)  loss = Relu (y) }");
    expect_step(&a, 0, "bb_w frozen; w always");
    for (ir_node n = 1; n < a.m.node.n; n++) {
        const char *out = ir_value_name(&a.m, ir_outputs(&a.m, n)[0]);
        cr_assert_eq(a.r[0].node_active[n], strcmp(out, "h") != 0, "%s", out);
        const bool *flows = a.r[0].ref_flows + a.m.node.at[n].refs + 1;
        if (!strcmp(out, "y")) cr_assert(!flows[0] && flows[1], "h needs no gradient");
    }
    analysed_free(&a);
}

/* ---- reasons --------------------------------------------------------------------------------- */

Test(reasons, name_the_cut) {
#define ONE(nodes) HEAD "m (float[3] x) => (float[3] loss, float[3] other) <float[3] w> {\n" nodes
#define REST       "\n loss = Relu (x) other = Relu (x) }"
    expect_reason(ONE("c = ArgMax (w)" REST), "w",
                  "its only use ends at ArgMax (c, line 3), whose result carries no gradient");
    expect_reason(
        ONE("c = Cast <to = 7> (w)" REST), "w",
        "its only use ends at Cast (c, line 3), whose output is int64 and carries no gradient");
    expect_reason(ONE("c = ddpc.StopGradient (w)" REST), "w",
                  "its only use is detached by StopGradient (c, line 3)");
    expect_reason(ONE("n = Constant <value = int64[1] {1}> ()\n v, i = TopK (w, n)" REST), "w",
                  "feeds only output v of TopK (line 4), which nothing reads; its output i carries "
                  "no gradient");
    expect_reason(ONE("c = Constant <value = float {0.1}> ()\n q = QuantizeLinear (w, c)\n"
                      "f = Cast <to = 1> (q)" REST),
                  "w",
                  "its only use ends at Cast (f, line 5), whose input q is uint8 and carries no "
                  "gradient");
    expect_reason(ONE("c = Mul (x, w)\n d = Relu (c)" REST), "w",
                  "feeds only output d of Relu (line 4), which nothing reads");
    expect_reason(ONE("loss = Relu (x)\n other = Mul (x, w) }"), "w",
                  "reaches only output other, which is not a loss");
    expect_reason(ONE(REST), "w", "nothing reads it");
    expect_reason(
        ONE("c = ArgMax (w)\n d = Shape (w)" REST), "w",
        "none of its 2 uses reaches a loss: the first ends at ArgMax (c, line 3), whose result "
        "carries no gradient");
    expect_reason(
        ONE("n = Constant <value = int64 {3}> ()\n a, b = Loop (n, , w, x) <body = g\n"
            "(int64 i, bool on, float[3] s, float[3] t) => (bool on2, t, s) {\n"
            "on2 = Identity (on) }>\n loss = Relu (a) other = Relu (x) }"),
        "w",
        "is carried through Loop (a, line 4), whose trips never bring it to an output that a "
        "loss needs");
    expect_reason(
        ONE("n = Constant <value = int64 {3}> ()\n a, trace = Loop (n, , x) <body = g\n"
            "(int64 i, bool on, float[3] s) => (bool on2, s2, l) {\n"
            "on2 = Identity (on) s2 = Relu (s) l = Mul (s, w) }>\n loss = Relu (a) other = Relu "
            "(x) }"),
        "w", "feeds only scan output trace of Loop (line 4), which nothing reads");
    expect_reason(ONE("c = Constant <value = bool {0}> ()\n loss = If (c) <\n"
                      "then_branch = t () => (a) { a = Mul (x, w) },\n"
                      "else_branch = e () => (b) { b = Relu (x) }> other = Relu (x) }"),
                  "w", "ends in the then_branch of If (loss, line 4), which is never taken");
}

Test(reasons, say_when_and_by_what) {
    const char *text =
        HEAD "m (float[3] x, bool keep) => (float[3] loss) <float[3] w, float[3] v> {\n"
             "  h = Mul (x, v)\n"
             "  loss = If (keep) <then_branch = t () => (a) { a = Mul (h, w) },\n"
             "    else_branch = e () => (b) { b = Mul (h, v) }> }";
    expect_reason(text, "w", "only when keep: gets its gradient from Mul (a, line 4)");
    expect_reason(text, "v",
                  "gets its gradient from 2 uses, the first Mul (h, line 3), in every execution");
}

static const char *explained(const char *text, const char *param, char *into, size_t size) {
    struct analysed a = {0};
    analyse(&a, text);
    FILE *out = fmemopen(into, size, "w");
    reach_explain(&a.p, 0, &a.b, &a.r[0], analysed_param(&a, param), out);
    fclose(out);
    analysed_free(&a);
    return into;
}

Test(reasons, explain_shows_the_way_or_every_cut) {
    const char *text =
        HEAD "m (float[3] x, bool keep) => (float[3] loss) <float[3] w, float[3] v> {\n"
             "  h = Mul (x, w)\n  c = ArgMax (v)\n  s = Shape (v)\n"
             "  y = If (keep) <then_branch = t () => (a) { a = Relu (h) },\n"
             "    else_branch = e () => (b) { b = Relu (x) }>\n  loss = Relu (y) }";
    char out[4096];
    cr_assert_str_eq(explained(text, "w", out, sizeof out),
                     "  step train: conditional\n"
                     "  only when keep: gets its gradient from Mul (h, line 3)\n"
                     "  a way to the loss:\n"
                     "    w  only when keep\n"
                     "    -> Mul (h, line 3)  only when keep\n"
                     "    -> Relu (a, line 6)  only when keep\n"
                     "    -> If (y, line 6)\n"
                     "    -> Relu (loss, line 8)\n"
                     "    -> loss, the loss\n");
    cr_assert_str_eq(
        explained(text, "v", out, sizeof out),
        "  step train: never\n"
        "  none of its 2 uses reaches a loss: the first ends at ArgMax (c, line 4), whose "
        "result carries no gradient\n"
        "  every way ends:\n"
        "    ends at ArgMax (c, line 4), whose result carries no gradient\n"
        "    ends at Shape (s, line 5), whose result carries no gradient\n");
}

#define NUMBERED(count, test)                                                                      \
    HEAD "m (float[3] x) => (float[3] loss) <float[3] w, float[3] v> {\n" LITERAL(                 \
        count) "  k = Constant <value = int64 {2}> ()\n"                                           \
               "  loss = Loop <body = g (int64 i, bool on, float[3] s) => (on2, s2) {\n"           \
               "    on2 = Identity (on)  c = " test "\n"                                           \
               "    s2 = If (c) <then_branch = t () => (a) { a = Mul (s, w) },\n"                  \
               "      else_branch = e () => (b) { b = Mul (s, v) }> }> (n, , x) }"

Test(loops, the_number_of_the_trip_decides) {
    expect(NUMBERED("3", "Equal (i, k)"), "w always; v always");
    expect(NUMBERED("2", "Equal (i, k)"), "w never; v always");
    expect(NUMBERED("2", "LessOrEqual (i, k)"), "w always; v never");
#define STOPS(count, on)                                                                           \
    HEAD "m (float[3] x, int64 m, bool c) => (float[3] loss) <float[3] w, float[3] v> {\n" YES     \
         "  k = Constant <value = int64 {1}> ()\n" LITERAL(                                        \
             "5") "  loss, other = Loop <body = g (int64 i, bool go, float[3] s, float[3] t) => "  \
                  "(go2, s2, t2) {\n"                                                              \
                  "    go2 = " on "\n  s2 = Identity (t)  t2 = Identity (s) }> (" count            \
                  ", yes, w, v) }"
    /* Two trips, by a condition on their number. */
    expect(STOPS("", "Less (i, k)"), "w always; v never");
    expect(STOPS("n", "Less (i, k)"), "w always; v never");
    expect(STOPS("n", "LessOrEqual (i, k)"), "w never; v always");
    expect(STOPS("k", "Less (i, k)"), "w never; v always");
    expect(STOPS("k", "Identity (c)"), "w never; v always");
    /* Here m may end it earlier. */
    expect(STOPS("m", "Less (i, k)"), "w sometimes; v sometimes");
    /* Of more trips than are followed, all that is known is that some of both may take place. */
    expect(NUMBERED("65", "Equal (i, k)"), "w sometimes; v sometimes");
    expect_reason(NUMBERED("2", "Equal (i, k)"), "w",
                  "no trip of a loop takes its way to the loss, which begins at Mul (a, line 7)");
    char out[4096];
    cr_assert(strstr(explained(NUMBERED("2", "Equal (i, k)"), "w", out, sizeof out),
                     "a way to the loss, which no trip of a loop takes:\n    w\n    -> Mul"));
}

Test(reasons, name_the_sequence_whose_element_nobody_takes) {
    const char *text = HEAD "m (float[3] x) => (float[3] loss) <float[3] w, float[3] v> {\n"
                            "  i = Constant <value = int64 {1}> ()\n"
                            "  s = SequenceConstruct (v, w)\n  h = SequenceAt (s, i)\n"
                            "  loss = Mul (h, x) }";
    char out[4096];
    expect(text, "w always; v never");
    expect_reason(text, "v",
                  "its only use ends at SequenceConstruct (s, line 4), of whose elements the loss "
                  "needs others");
    cr_assert_str_eq(explained(text, "v", out, sizeof out),
                     "  step train: never\n"
                     "  its only use ends at SequenceConstruct (s, line 4), of whose elements the "
                     "loss needs others\n"
                     "  every way ends:\n"
                     "    ends at SequenceConstruct (s, line 4), of whose elements the loss needs "
                     "others\n");
    cr_assert(strstr(explained(text, "w", out, sizeof out), "-> SequenceAt (h, line 5)"));
}
