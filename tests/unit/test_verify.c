/* The verifier: each rule with a text that breaks it, near misses that must pass, and linear time.
 */
#include "model.h"
#include <stdlib.h>

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"

/* Verifies and checks that exactly these codes are reported (0 ends), at these lines and columns.
 */
struct expected {
    int code;
    unsigned line, column;
};

static void check(const char *text, const struct expected *expected) {
    struct model t;
    model_read(&t, text);
    bool ok = ir_verify(&t.m, &t.ops, &t.diags);
    diags_sort(&t.diags);
    uint32_t n = 0;
    while (expected[n].code) n++;
    bool same = t.diags.all.n == n && ok == (n == 0);
    for (uint32_t i = 0; i < n && same; i++) {
        uint32_t line, column;
        source_position(&t.source, t.diags.all.at[i]->loc, &line, &column);
        same = (int)t.diags.all.at[i]->code == expected[i].code && line == expected[i].line &&
               column == expected[i].column;
    }
    if (!same) diags_print(&t.diags, stderr, false, false);
    cr_assert(same, "%s", text);
    model_free(&t);
}

#define GOOD(text)     check(text, (struct expected[]){{0, 0, 0}})
#define BAD(text, ...) check(text, (struct expected[]){__VA_ARGS__, {0, 0, 0}})

/* The only diagnostic's text, help and notes, in one string. */
static const char *message(const char *text) {
    static char out[4096];
    struct model t;
    model_read(&t, text);
    ir_verify(&t.m, &t.ops, &t.diags);
    cr_assert_eq(t.diags.all.n, 1, "%s", text);
    const struct diag *e = t.diags.all.at[0];
    int n = snprintf(out, sizeof out, "%s | %s", e->text, e->help ? e->help : "");
    for (uint32_t i = 0; i < e->notes.n; i++)
        n += snprintf(out + n, sizeof out - (size_t)n, " | %s", e->notes.at[i].text);
    model_free(&t);
    return out;
}

static void says(const char *text, const char *part) {
    const char *all = message(text);
    cr_assert(strstr(all, part), "'%s' is not in '%s'", part, all);
}

Test(verify, a_plain_model) {
    GOOD(HEAD "g (float[2] x) => (float[2] y) <float[2] w> { h = Add (x, w) y = Relu (h) }");
    GOOD(HEAD "g () => () {}");
    GOOD(HEAD "g (float[2] x) => (x) {}");
    GOOD(HEAD "g (float[2] x) => (y) <float[2] x = {1, 2}> { y = Relu (x) }");
    GOOD(HEAD "g (float[2] x = {1, 2}) => (y) { y = Relu (x) }");
}

Test(verify, defined_twice) {
    BAD(HEAD "g (x) => (y) {\n y = Relu (x)\n y = Relu (x)\n}", {DIAG_DEFINED_TWICE, 4, 2});
    BAD(HEAD "g (x, x) => (y) {\n y = Relu (x)\n}", {DIAG_DEFINED_TWICE, 2, 7});
    BAD(HEAD "g (x) => (y) {\n x = Relu (x)\n y = Relu (x) }", {DIAG_DEFINED_TWICE, 3, 2});
    BAD(HEAD "g (x) => (y) <\nfloat w = {1}, float w = {2}> { y = Add (x, w) }",
        {DIAG_DEFINED_TWICE, 3, 22});
    BAD(HEAD "g (x) => (y) <float w = {1}> {\n w = Relu (x)\n y = Add (x, w) }",
        {DIAG_DEFINED_TWICE, 3, 2});
    BAD(HEAD "g (x) => (y) {\n y, y = Split (x) }", {DIAG_DEFINED_TWICE, 3, 5});
    says(HEAD "g (x) => (y) { y = Relu (x) y = Relu (x) }", "first defined here");
    /* An inner graph may use a name again, and two inner graphs the same one. */
    GOOD(HEAD
         "g (x, bool c) => (y) { h = Relu (x) y = If (c) <"
         "then_branch = a () => (h) { h = Relu (x) }, else_branch = b () => (h) { h = Abs (x) }>"
         "}");
    BAD(HEAD "g (x, bool c) => (y) {\n h = Relu (x) y = If (c) <then_branch = a () => (h) {"
             " h = Relu (x) }, else_branch = b () => (h) { h = Abs (x) }>\n h = Abs (x) }",
        {DIAG_DEFINED_TWICE, 4, 2});
}

Test(verify, undefined_values) {
    BAD(HEAD "g (x) => (y) {\n y = Add (x, z) }", {DIAG_UNDEFINED, 3, 14});
    BAD(HEAD "g (x) => (y) {\n h = Abs (z)\n y = Add (h, z) }", {DIAG_UNDEFINED, 3, 11});
    says(HEAD "g (hidden0) => (y) { y = Relu (hiden0) }", "did you mean 'hidden0'?");
    says(HEAD "g (hidden0) => (y) { y = Relu (hiden0) }", "'hidden0' is defined here");
    BAD(HEAD "g (x, bool c) => (y) { y = If (c) <then_branch = a () => (r) {\n r = Relu (q) },"
             "else_branch = b () => (s) { s = Relu (x) }> }",
        {DIAG_UNDEFINED, 3, 12});
    /* What one branch defines the other does not see. */
    BAD(HEAD "g (x, bool c) => (y) { y = If (c) <then_branch = a () => (r) { r = Relu (x) },"
             "\nelse_branch = b () => (s) { s = Relu (r) }> }",
        {DIAG_UNDEFINED, 3, 39});
    /* A type alone defines nothing in a subgraph or function. */
    BAD(HEAD "g (x, bool c) => (y) { y = If (c) <then_branch = a () => (r) <float w> {"
             "\n r = Add (x, w) }, else_branch = b () => (s) { s = Relu (x) }> }",
        {DIAG_UNDEFINED, 3, 14});
}

Test(verify, undefined_outputs) {
    BAD(HEAD "g (x) => (y) { z = Relu (x) }", {DIAG_OUTPUT_UNDEFINED, 2, 11});
    says(HEAD "g (x) => (float losss) { loss = Relu (x) }", "did you mean 'loss'?");
    BAD(HEAD "g (x, bool c) => (y) { y = If (c) <then_branch = a () => (r) { q = Relu (x) },"
             "\nelse_branch = b () => (s) { s = Relu (x) }> }",
        {DIAG_OUTPUT_UNDEFINED, 2, 59});
}

Test(verify, order) {
    BAD(HEAD "g (x) => (y) {\n y = Relu (h)\n h = Abs (x) }", {DIAG_USED_BEFORE_DEFINED, 3, 12});
    says(HEAD "g (x) => (y) { y = Relu (h) h = Abs (x) }", "by 'h' (Abs)");
    /* A capture of what the outer graph defines later. */
    BAD(HEAD "g (x, bool c) => (y) {\n y = If (c) <then_branch = a () => (r) {\n r = Relu (h) },"
             "else_branch = b () => (s) { s = Relu (x) }>\n h = Abs (x) }",
        {DIAG_USED_BEFORE_DEFINED, 4, 12});
}

Test(verify, cycles) {
    BAD(HEAD "g (x) => (y) {\n a = Add (x, b)\n b = Relu (a)\n y = Abs (b) }", {DIAG_CYCLE, 3, 14});
    says(HEAD "g (x) => (y) { a = Add (x, b) b = Relu (a) y = Abs (b) }",
         "'b' (Relu) needs 'a' (Add) needs 'b' (Relu)");
    BAD(HEAD "g (x) => (y) {\n y = Add (x, y) }", {DIAG_CYCLE, 3, 14});
    says(HEAD "g (x) => (y) { y = Add (x, y) }", "needs its own output 'y'");
    /* Through a subgraph. */
    BAD(HEAD "g (x, bool c) => (y) {\n y = If (c) <then_branch = a () => (r) {\n r = Relu (h) },"
             "else_branch = b () => (s) { s = Relu (x) }>\n h = Abs (y) }",
        {DIAG_CYCLE, 4, 12});
    /* Two circles and a node in the wrong place are three things. */
    BAD(HEAD "g (x) => (y) {\n a = Add (x, b)\n b = Relu (a)\n c = Add (d, x)\n d = Relu (c)\n"
             " y = Add (e, d)\n e = Abs (x) }",
        {DIAG_CYCLE, 3, 14}, {DIAG_CYCLE, 5, 11}, {DIAG_USED_BEFORE_DEFINED, 7, 11});
    /* A long way round, with a short cut: the shortest circle is shown. */
    says(HEAD "g (x) => (y) { a = Sum (x, e, c) b = Relu (a) c = Abs (b) d = Abs (c) e = Abs (d)"
              " y = Abs (e) }",
         "'e' (Abs) needs 'd' (Abs) needs 'c' (Abs) needs 'b' (Relu) needs 'a' (Sum) needs 'e' "
         "(Abs)");
}

Test(verify, operators) {
    BAD(HEAD "g (x) => (y) {\n y = Foo (x) }", {DIAG_UNKNOWN_OPERATOR, 3, 6});
    says(HEAD "g (x) => (y) { y = Rellu (x) }", "did you mean 'Relu'?");
    says(HEAD "g (x) => (y) { y = local.Foo (x) }", "--assume-differentiable \"local.*\"");
    says(HEAD "g (x) => (y) { y = local.Foo (x) }", "--ops FILE");
    says(HEAD "g (x) => (y) { y = local.Relu (x) }", "'Relu' exists in ONNX's own domain");
    says(HEAD "g (x) => (y) { a = Foo (x) b = Foo (a) y = Foo (b) }", "2 more nodes use it");
    struct model t;
    model_read(&t, HEAD "g (x) => (y) { y = local.Foo (x) }");
    op_table_assume(&t.ops, "local.*");
    cr_assert(ir_verify(&t.m, &t.ops, &t.diags));
    cr_assert_eq(op_get(&t.ops, t.m.node.at[1].def)->flags, OP_ASSUMED);
    model_free(&t);
}

Test(verify, opsets) {
    BAD("g (x) => (y) {\n y = Relu (x) }", {DIAG_OPSET_MISSING, 2, 6});
    says("g (x) => (y) { y = Relu (x) }", "<ir_version: 8, opset_import: [\"\" : 17]>");
    BAD("<ir_version: 8, opset_import: [\"\" : 17]>\ng (x) => (y) {\n y = ddpc.StopGradient (x)\n}",
        {DIAG_OPSET_MISSING, 3, 6});
    says("<ir_version: 8, opset_import: [\"\" : 17]> g (x) => (y) { a = ddpc.StopGradient (x)"
         " y = ddpc.StopGradient (a) }",
         "add \"ddpc\" : 1 to opset_import");
    says("<ir_version: 8> g (x) => (y) { y = Relu (x) }", "add to the header");
    GOOD("<ir_version: 8, opset_import: [\"ai.onnx\" : 17]> g (x) => (y) { y = Relu (x) }");
    GOOD("<ir_version: 8, opset_import: [\"\" : 17]> g (x) => (y) { y = ai.onnx.Relu (x) }");
    GOOD(HEAD "g (x) => (y) { y = local.f (x) }"
              "<domain: \"local\", opset_import: [\"ddpc\" : 1]> f (a) => (b) "
              "{ c = Relu (a) b = ddpc.StopGradient (c) }");
    GOOD("g () => () {}");
}

Test(verify, numbers_of_inputs_and_outputs) {
    BAD(HEAD "g (x) => (y) {\n y = Add (x) }", {DIAG_TOO_FEW_INPUTS, 3, 6});
    says(HEAD "g (x) => (y) { y = Add (x) }", "'y' (Add) lacks input 2, 'B'");
    BAD(HEAD "g (x) => (y) {\n y = Add (, x) }", {DIAG_TOO_FEW_INPUTS, 3, 6});
    BAD(HEAD "g (x) => (y) {\n y = Relu (x, x) }", {DIAG_TOO_MANY_INPUTS, 3, 15});
    BAD(HEAD "g (x) => (y) {\n y = Concat <axis = 0> () }", {DIAG_TOO_FEW_INPUTS, 3, 6});
    GOOD(HEAD "g (x) => (y) { y = Clip (x, , x) }");
    GOOD(HEAD "g (x) => (y) { y = Concat <axis = 0> (x, x, x, x) }");
    GOOD(HEAD "g (x) => (y) { y = LSTM (x, x, x) }");
    BAD(HEAD "g (x) => (y) {\n y, z = Relu (x) }", {DIAG_TOO_MANY_OUTPUTS, 3, 5});
    BAD(HEAD "g (x) => (x) {\n = Relu (x) }", {DIAG_NO_OUTPUTS, 3, 4});
    GOOD(HEAD "g (x) => (h) { , h = LSTM (x, x, x) }");
    /* By opset: the axes of Unsqueeze were an attribute before 13. */
    GOOD("<opset_import: [\"\" : 11]> g (x) => (y) { y = Unsqueeze <axes = [0]> (x) }");
    BAD("<opset_import: [\"\" : 13]> g (x) => (y) {\n y = Unsqueeze <axes = [0]> (x) }",
        {DIAG_TOO_FEW_INPUTS, 2, 6});
    says("<opset_import: [\"\" : 13]> g (x) => (y) { y = Unsqueeze <axes = [0]> (x) }",
         "from opset 13 on");
}

#define IF(then_head, else_head)                                                                   \
    HEAD "g (x, bool c) => (y) {\n y = If (c) <then_branch = " then_head                           \
         " { r = Relu (x) }, else_branch = " else_head " { s = Relu (x) }> }"
#define LOOP(outputs, inputs, head)                                                                \
    HEAD "g (int64 n, bool c, x) => (x) {\n " outputs " = Loop (" inputs ") <body = " head         \
         " { co = Identity (ci) k = Relu (x) }> }"
#define SCAN(attributes, outputs, head)                                                            \
    HEAD "g (x, h) => (x) {\n " outputs " = Scan (h, x) <" attributes "body = " head               \
         " { k = Relu (x) }> }"

Test(verify, control_flow) {
    GOOD(IF("a () => (r)", "b () => (s)"));
    BAD(IF("a () => (r, r)", "b () => (s)"), {DIAG_SUBGRAPH_ARITY, 3, 28});
    BAD(IF("a (q) => (r)", "b () => (s)"), {DIAG_SUBGRAPH_ARITY, 3, 28});
    BAD(HEAD "g (x, bool c) => (y) {\n y = If (c) <then_branch = a () => (r) { r = Abs (x) }> }",
        {DIAG_SUBGRAPH_MISSING, 3, 6});
    says(HEAD "g (x, bool c) => (y) { y = If (c) <then_branch = a () => (r) { r = Abs (x) }> }",
         "'y' (If) has no graph 'else_branch'");
    GOOD(LOOP("a", "n, c, x", "b (i, ci, k0) => (co, k)"));
    GOOD(LOOP("a, t", "n, c, x", "b (i, ci, k0) => (co, k, k)"));
    GOOD(LOOP("t", "n, c", "b (i, ci) => (co, k)"));
    BAD(LOOP("a", "n, c, x", "b (i, ci) => (co, k)"), {DIAG_SUBGRAPH_ARITY, 3, 29});
    BAD(LOOP("a, t", "n, c, x", "b (i, ci, k0) => (co, k)"), {DIAG_SUBGRAPH_ARITY, 3, 32});
    BAD(LOOP("a", "n, c, x, x", "b (i, ci, k0, k1) => (co, k)"), {DIAG_SUBGRAPH_ARITY, 3, 6});
    BAD(HEAD "g (int64 n, bool c, x) => (y) {\n y = Loop (n, c, x) }",
        {DIAG_SUBGRAPH_MISSING, 3, 6});
    GOOD(SCAN("num_scan_inputs = 1,", "a, t", "b (s, e) => (k, k)"));
    BAD(SCAN("", "a, t", "b (s, e) => (k, k)"), {DIAG_SUBGRAPH_MISSING, 3, 9});
    BAD(SCAN("num_scan_inputs = 3,", "a, t", "b (s, e) => (k, k)"), {DIAG_SUBGRAPH_ARITY, 3, 9});
    BAD(SCAN("num_scan_inputs = 1,", "a, t", "b (s) => (k, k)"), {DIAG_SUBGRAPH_ARITY, 3, 49});
    BAD(SCAN("num_scan_inputs = 1,", "a, t", "b (s, e) => (k)"), {DIAG_SUBGRAPH_ARITY, 3, 49});
#define SCAN8(inputs)                                                                              \
    "<opset_import: [\"\" : 8]> g (x, h) => (y) {\n"                                               \
    " y, t = Scan (" inputs                                                                        \
    ") <num_scan_inputs = 1, body = b (s, e) => (k, e) { k = Relu (s) }> }"
    GOOD(SCAN8(", h, x"));
    GOOD(SCAN8("x, h, x"));
    BAD(SCAN8("h, x"), {DIAG_SUBGRAPH_ARITY, 2, 50});
    BAD(SCAN8("h, x, x, x"), {DIAG_SUBGRAPH_ARITY, 2, 56});
    GOOD(HEAD
         "g (s, x) => (y) { y = SequenceMap (s, x) <body = b (e, z) => (k) { k = Add (e, z) }> }");
    BAD(HEAD
        "g (s, x) => (y) {\n y = SequenceMap (s, x) <body = b (e) => (k) { k = Add (e, x) }> }",
        {DIAG_SUBGRAPH_ARITY, 3, 33});
}

#define F "<domain: \"local\", opset_import: [\"\" : 17]> f "

Test(verify, calls) {
    GOOD(HEAD "g (x) => (y) { y = local.f (x, x) } " F "(a, b) => (c) { c = Add (a, b) }");
    GOOD(HEAD "g (x) => (y) { y = local.f (x) } " F
              "(a, b) => (c, d) { c = Add (a, b) d = Abs (c) }");
    BAD(HEAD "g (x) => (y) {\n y = local.f (x, x) } " F "(a) => (c) { c = Abs (a) }",
        {DIAG_FUNCTION_ARITY, 3, 6});
    BAD(HEAD "g (x) => (y) {\n y, z = local.f (x) } " F "(a) => (c) { c = Abs (a) }",
        {DIAG_FUNCTION_ARITY, 3, 9});
    BAD(HEAD "g (x) => (y) {\n y = local.f (x) } " F
             "<alpha> (a) => (c) { c = Elu <alpha = @alpha> (a)"
             "}",
        {DIAG_FUNCTION_ATTRIBUTE, 3, 6});
    GOOD(HEAD "g (x) => (y) { y = local.f <alpha = 1.0> (x) } " F
              "<alpha> (a) => (c) { c = Elu <alpha = @alpha> (a) }");
    GOOD(HEAD "g (x) => (y) { y = local.f (x) } " F
              "<alpha: float = 2.0> (a) => (c) { c = Elu <alpha = @alpha> (a) }");
    BAD(HEAD "g (x) => (y) { y = local.f (x) } " F "(a) => (c) {\n c = Elu <alpha = @beta> (a) }",
        {DIAG_ATTRIBUTE_REFERENCE, 3, 11});
    BAD(HEAD "g (x) => (y) {\n y = Elu <alpha = @beta> (x) }", {DIAG_ATTRIBUTE_REFERENCE, 3, 11});
    BAD(HEAD "g (x) => (y) { y = local.f (x) } " F "(a) => (c) { c = Abs (a) }\n" F
             "(a) => (c) { c = Abs (a) }",
        {DIAG_FUNCTION_TWICE, 3, 44});
    /* A function does not see the main graph. */
    BAD(HEAD "g (x) => (y) { y = local.f (x) } " F "(a) => (c) {\n c = Add (a, x) }",
        {DIAG_UNDEFINED, 3, 14});
    /* Only in its own domain does a function hide an operator. */
    struct model t;
    model_read(&t, HEAD "g (x) => (y) { a = local.Relu (x) y = Relu (a) } <domain: \"local\", "
                        "opset_import: [\"\" : 17]> Relu (a) => (b) { b = Relu (a) }");
    cr_assert(ir_verify(&t.m, &t.ops, &t.diags));
    cr_assert_eq(t.m.node.at[1].callee, 1);
    cr_assert_eq(t.m.node.at[1].def, 0);
    cr_assert_eq(t.m.node.at[2].callee, 0);
    cr_assert_str_eq(op_get(&t.ops, t.m.node.at[2].def)->name, "Relu");
    model_free(&t);
}

Test(verify, overloads_are_functions_of_their_own) {
    GOOD(HEAD "g (x) => (y) { y = local.f:v2 (x, x) } " F "(a) => (c) { c = Abs (a) }"
              "<domain: \"local\", overload: \"v2\", opset_import: [\"\" : 17]> f (a, b) => (c) "
              "{ c = Add (a, b) }");
    BAD(HEAD "g (x) => (y) {\n y = local.f:v3 (x) } " F "(a) => (c) { c = Abs (a) }",
        {DIAG_UNKNOWN_OPERATOR, 3, 6});
}

Test(verify, recursion) {
    BAD(HEAD "g (x) => (y) { y = local.f (x) } " F "(a) => (c) {\n c = local.f (a) }",
        {DIAG_FUNCTION_RECURSION, 3, 6});
    says(HEAD "g (x) => (y) { y = local.f (x) } " F "(a) => (c) { c = local.h (a) }"
              "<domain: \"local\", opset_import: [\"\" : 17]> h (a) => (c) { c = local.f (a) }",
         "'local.f' calls 'local.h' calls 'local.f', without end");
    /* Inside a subgraph too, and where nobody calls it. */
    BAD(HEAD "g (x) => (y) { y = Abs (x) } " F
             "(a, c) => (b) { b = If (c) <then_branch = t () => (r) {"
             "\n r = local.f (a, c) }, else_branch = e () => (s) { s = Abs (a) }> }",
        {DIAG_FUNCTION_RECURSION, 3, 6});
    /* Calling twice is no recursion. */
    GOOD(HEAD "g (x) => (y) { y = local.f (x) } " F "(a) => (c) { b = local.h (a) c = local.h (b) }"
              "<domain: \"local\", opset_import: [\"\" : 17]> h (a) => (c) { c = Abs (a) }");
}

/* A circle of any length is told in a few words. */
Test(verify, long_recursion) {
    char text[4096];
    enum { N = 12 };
    int n = sprintf(text, HEAD "g (x) => (y) { y = local.f0 (x) }");
    for (int i = 0; i < N; i++)
        n += sprintf(text + n,
                     "<domain: \"local\", opset_import: [\"\" : 17]> f%d (a) => (c) "
                     "{ c = local.f%d (a) }",
                     i, (i + 1) % N);
    says(text, "'local.f7' calls 4 more functions and at last 'local.f0', without end");
}

/* Verifies n lines, each made of the numbers of this value and the one before. */
static void verify_lines(int n, const char *line, uint32_t errors) {
    char *text = malloc((size_t)n * 64 + 512);
    int length = sprintf(text, HEAD "g (x0) => (x%d) {\n", n);
    for (int i = 0; i < n; i++) length += sprintf(text + length, line, i + 1, i, i);
    strcpy(text + length, "}");
    struct model t;
    model_read(&t, text);
    ir_verify(&t.m, &t.ops, &t.diags);
    cr_assert_geq(t.diags.errors, errors);
    model_free(&t);
    free(text);
}

/* So many lines that anything quadratic would run into the test's timeout. */
Test(verify, many_nodes_and_many_errors) {
    verify_lines(1000000, "x%d = Relu (x%d)\n", 0);
    verify_lines(300000, "x%d = Add (x%d, missing%d)\n", 300000);
    verify_lines(300000, "x%1$d = Add (x%2$d, y%1$d) y%1$d = Relu (x%2$d)\n", 300000);
    verify_lines(300000, "x%1$d = Add (x%2$d, y%1$d) y%1$d = Relu (y%1$d)\n", 300000); /* circles */
    verify_lines(100000, "x%1$d = Unknown%1$d (x%2$d)\n", 100000);
    verify_lines(100000, "x%1$d = local.Function%1$d (x%2$d)\n", 100000);
}
