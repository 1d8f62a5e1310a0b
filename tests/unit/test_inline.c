/* Inlining: the result of each case as text, the links that copies keep, and the limits. */
#include "model.h"
#include "program.h"
#include <stdlib.h>

#define HEAD    "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
#define F(name) "<domain: \"local\", opset_import: [\"\" : 17]> " name " "

static struct model t;

static bool inlined(const char *text) {
    model_read(&t, text);
    cr_assert(ir_verify(&t.m, &t.ops, &t.diags), "%s", text);
    return inline_functions(&t.m, &t.ops, &t.diags);
}

/* A graph's nodes in short: "y = Add(a, b); z = If(c){q = Abs(y)}{...}; ". */
static void put_graph(ir_graph g, char **at) {
    const struct ir_graph_info *graph = &t.m.graph.at[g];
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = t.m.node_list.at[graph->nodes + i];
        const struct ir_node_info *node = &t.m.node.at[n];
        cr_assert_eq(node->graph, g);
        cr_assert(!node->callee);
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            ir_value v = ir_outputs(&t.m, n)[k];
            if (v) {
                cr_assert_eq(t.m.value.at[v].node, n);
                cr_assert_eq(t.m.value.at[v].output, k);
                cr_assert_eq(t.m.value.at[v].graph, g);
            }
            *at += sprintf(*at, "%s%s", k ? "," : "", ir_value_name(&t.m, v));
        }
        *at += sprintf(*at, "=%s(", ir_text(&t.m, node->op));
        for (uint32_t k = 0; k < node->n_inputs; k++)
            *at += sprintf(*at, "%s%s", k ? "," : "", ir_value_name(&t.m, ir_inputs(&t.m, n)[k]));
        *at += sprintf(*at, ")");
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            const struct ir_attr_info *a = &t.m.attr.at[node->attrs + k];
            cr_assert(!a->ref);
            if (a->kind == IR_ATTR_INT)
                *at += sprintf(*at, "<%s=%d>", ir_text(&t.m, a->name),
                               (int)t.m.attr_value.at[a->values].i);
            if (a->kind != IR_ATTR_GRAPH) continue;
            ir_graph inner = t.m.attr_value.at[a->values].g;
            const struct ir_graph_info *info = &t.m.graph.at[inner];
            cr_assert_eq(info->owner, n);
            cr_assert_eq(info->parent, g);
            *at += sprintf(*at, "{");
            for (uint32_t j = 0; j < info->n_inputs; j++)
                *at +=
                    sprintf(*at, "%s|", ir_value_name(&t.m, t.m.decl.at[info->inputs + j].value));
            put_graph(inner, at);
            for (uint32_t j = 0; j < info->n_outputs; j++)
                *at +=
                    sprintf(*at, "%s!", ir_value_name(&t.m, t.m.decl.at[info->outputs + j].value));
            *at += sprintf(*at, "}");
        }
        *at += sprintf(*at, ";");
    }
}

static void gives(const char *text, const char *expected) {
    static char out[65536];
    cr_assert(inlined(text), "%s", text);
    char *at = out;
    put_graph(t.m.main, &at);
    *at = 0;
    cr_assert_str_eq(out, expected);
    cr_assert(ir_verify(&t.m, &t.ops, &t.diags), "the result does not verify");
    model_free(&t);
}

Test(inline, a_call) {
    gives(HEAD "g (x, w) => (y) { h = Abs (x) y = local.f (h, w) } " F(
              "f") "(a, b) => (c) { d = Mul (a, b) c = Relu (d) }",
          "h=Abs(x);y/d=Mul(h,w);y=Relu(y/d);");
}

Test(inline, names_of_calls) {
    gives(HEAD "g (x) => (z) { [layer] y = local.f (x) [layer] z = local.f (y) } " F(
              "f") "(a) => (c) { d = Abs (a) c = Relu (d) }",
          "layer/d=Abs(x);y=Relu(layer/d);layer#2/d=Abs(y);z=Relu(layer#2/d);");
    /* A name that a value of the model has already. */
    gives(HEAD "g (\"y/d\") => (y) { y = local.f (\"y/d\") } " F(
              "f") "(a) => (c) { d = Abs (a) c = Relu (d) }",
          "y/d#2=Abs(y/d);y=Relu(y/d#2);");
}

Test(inline, nested_calls) {
    gives(HEAD "g (x) => (z) { y = local.f (x) z = local.h (y) } " F(
              "f") "(a) => (c) { d = local.h (a) c = local.h (d) } " F("h") "(p) => (r) { q = Abs "
                                                                            "(p) r = Neg (q) }",
          "y/d/q=Abs(x);y/d=Neg(y/d/q);y/c/q=Abs(y/d);y=Neg(y/c/q);z/q=Abs(y);z=Neg(z/q);");
}

Test(inline, formals_named_like_outer_values) {
    /* The call passes w2 for the formal w1, as exporters do. */
    gives(HEAD "g (x, w1, w2) => (y) { y = local.f (x, w2) } " F(
              "f") "(x, w1) => (y) { w2 = Neg (w1) y = Add (x, w2) }",
          "y/w2=Neg(w2);y=Add(x,y/w2);");
    /* Swapped. */
    gives(HEAD "g (a, b) => (c) { c = local.f (b, a) } " F("f") "(a, b) => (c) { c = Sub (a, b) }",
          "c=Sub(b,a);");
}

Test(inline, outputs) {
    /* Passed through, given twice, left out. */
    gives(HEAD "g (x) => (y, z) { y, z = local.f (x) } " F("f") "(a) => (a, b) { b = Abs (a) }",
          "z=Abs(x);y=Identity(x);");
    gives(HEAD "g (x) => (y, z) { y, z = local.f (x) } " F("f") "(a) => (b, b) { b = Abs (a) }",
          "y=Abs(x);z=Identity(y);");
    gives(HEAD
          "g (x) => (y) { y = local.f (x) } " F("f") "(a) => (b, c) { b = Abs (a) c = Neg (b) }",
          "y=Abs(x);y/c=Neg(y);");
    gives(HEAD
          "g (x) => (z) { , z = local.f (x) } " F("f") "(a) => (b, c) { b = Abs (a) c = Neg (b) }",
          "z/b=Abs(x);z=Neg(z/b);");
}

Test(inline, omitted_inputs) {
    gives(HEAD "g (x) => (y) { y = local.f (x) } " F(
              "f") "(a, low, high) => (c) { c = Clip (a, low, high) }",
          "y=Clip(x,,);");
    gives(HEAD "g (x, h) => (y) { z = local.f (x, x, h) y = local.f (z, , h) } " F(
              "f") "(a, low, high) => (c) { c = Clip (a, low, high) }",
          "z=Clip(x,x,h);y=Clip(z,,h);");
}

Test(inline, attributes) {
    const char *f =
        F("f") "<axis, keep: int = 7> (a) => (c) "
               "{ b = Softmax <axis = @axis> (a) c = ReduceSum <keepdims = @keep> (b) }";
    char text[1024];
    snprintf(text, sizeof text, HEAD "g (x) => (y) { y = local.f <axis = 3> (x) } %s", f);
    gives(text, "y/b=Softmax(x)<axis=3>;y=ReduceSum(y/b)<keepdims=7>;");
    snprintf(text, sizeof text, HEAD "g (x) => (y) { y = local.f <keep = 0, axis = 3> (x) } %s", f);
    gives(text, "y/b=Softmax(x)<axis=3>;y=ReduceSum(y/b)<keepdims=0>;");
    /* Through two levels, under other names; and one that nobody gives a value. */
    gives(HEAD "g (x) => (y) { y = local.f <k = 5> (x) } " F(
              "f") "<k> (a) => (c) { c = local.h <axis = @k> (a) } " F("h") "<axis> (a) => (c) { c "
                                                                            "= Softmax <axis = "
                                                                            "@axis> (a) }",
          "y=Softmax(x)<axis=5>;");
}

Test(inline, control_flow_in_bodies) {
    /* Captures of formals and of the body's values; one copy a call. */
    gives(HEAD "g (x, bool p) => (z) { y = local.f (x, p) z = local.f (y, p) } " F(
              "f") "(a, c) => (r) { b = Abs (a) r = If (c) <then_branch = t () => (u) { u = Add "
                   "(a, b) },"
                   " else_branch = e () => (v) { v = local.h (b) }> } " F(
                       "h") "(a) => (c) { d = Neg (a) c = Relu (d) }",
          "y/b=Abs(x);y=If(p){y/u=Add(x,y/b);y/u!}{y/v/d=Neg(y/b);y/v=Relu(y/v/d);y/v!};"
          "z/b=Abs(y);z=If(p){z/u=Add(y,z/b);z/u!}{z/v/d=Neg(z/b);z/v=Relu(z/v/d);z/v!};");
    gives(HEAD "g (x, int64 n, bool p) => (y) { y = local.f (x, n, p) } " F(
              "f") "(a, n, c) => (r) { r = Loop (n, c, a) <body = b (i, ci, k) => (co, ko) "
                   "{ co = Identity (ci) ko = Mul (k, a) }> }",
          "y=Loop(n,p,x){y/i|y/ci|y/k|y/co=Identity(y/ci);y/ko=Mul(y/k,x);y/co!y/ko!};");
}

Test(inline, calls_in_subgraphs) {
    gives(HEAD "g (x, bool p) => (y) { h = Abs (x) y = If (p) <then_branch = t () => (u) { u = "
               "local.f (h) }, else_branch = e () => (v) { w = local.f (x) v = Neg (w) }> } " F(
                   "f") "(a) => (c) { b = Exp (a) c = Log (b) }",
          "h=Abs(x);y=If(p){u/b=Exp(h);u=Log(u/b);u!}{w/b=Exp(x);w=Log(w/b);v=Neg(w);v!};");
}

Test(inline, subgraphs_as_attributes) {
    /* A graph that the call passes; the function uses it twice. */
    gives(HEAD
          "g (x, bool p) => (y) { y = local.f <body: graph = t () => (u) { v = local.h (x) u = "
          "Neg (v) }> (p) } " F("f") "<body> (c) => (r) { r = If <then_branch: graph = @body, "
                                     "else_branch: graph = @body> (c) } " F(
                                         "h") "(a) => (c) { c = Exp (a) }",
          "y=If(p){y/v=Exp(x);y/u=Neg(y/v);y/u!}{y/v#2=Exp(x);y/u#2=Neg(y/v#2);y/u#2!};");
}

Test(inline, copies_know_where_they_come_from) {
    cr_assert(inlined(HEAD "g (x) => (y) { [outer] y = local.f (x) } " F(
        "f") "(a) => (c) { [inner] c = local.h (a) } " F("h") "(p) => (r) { q = Abs (p) r = Neg "
                                                              "(q) }"));
    ir_value copy = model_value(&t, "outer/inner/q"), original = model_value(&t, "q");
    cr_assert(copy && original);
    cr_assert_eq(t.m.value.at[copy].origin, original);
    ir_node n = t.m.value.at[copy].node, inner = t.m.node.at[n].call,
            outer = t.m.node.at[inner].call;
    cr_assert_eq(t.m.node.at[inner].callee, 2);
    cr_assert_str_eq(ir_text(&t.m, t.m.node.at[inner].name), "outer/inner");
    cr_assert_eq(t.m.node.at[outer].callee, 1);
    cr_assert_eq(t.m.node.at[outer].call, 0);
    cr_assert_eq(t.m.value.at[model_value(&t, "y")].origin, 0);
    cr_assert_eq(t.m.node.at[n].loc, t.m.node.at[t.m.value.at[original].node].loc);
    model_free(&t);
}

Test(inline, domains_that_only_functions_import) {
    gives("<ir_version: 8, opset_import: [\"local\" : 1]> g (x) => (y) { y = local.f (x) } " F(
              "f") "(a) => (c) { c = Abs (a) }",
          "y=Abs(x);");
}

/* Each function calls the next one twice: 2^levels nodes. */
static char *doubling(int levels) {
    char *text = malloc((size_t)levels * 160 + 512);
    int n = sprintf(text, HEAD "g (x) => (y) { y = local.f0 (x) }");
    for (int i = 0; i < levels; i++)
        n += sprintf(text + n,
                     "<domain: \"local\", opset_import: [\"\" : 17]> f%d (a) => (c) "
                     "{ b = local.f%d (a) c = local.f%d (b) }\n",
                     i, i + 1, i + 1);
    sprintf(text + n,
            "<domain: \"local\", opset_import: [\"\" : 17]> f%d (a) => (c) { c = Abs (a) }",
            levels);
    return text;
}

Test(inline, too_large) {
    char *text = doubling(60);
    cr_assert(!inlined(text));
    cr_assert_eq(t.diags.all.n, 1);
    cr_assert_eq(t.diags.all.at[0]->code, DIAG_INLINE_SIZE);
    model_free(&t);
    free(text);
    text = doubling(12);
    cr_assert(inlined(text));
    cr_assert_eq(t.m.graph.at[t.m.main].n_nodes, 1 << 12);
    model_free(&t);
    free(text);
}

/* Graphs passed on twice at each level grow where the sizes of functions do not show it. */
Test(inline, too_large_through_attributes) {
    char *text = malloc(40 * 300 + 512);
    int n =
        sprintf(text, HEAD "g (x, bool p) => (y) { y = local.f0 <g: graph = t () => (u) { u = Abs "
                           "(x) }> (p) }");
    for (int i = 0; i < 40; i++)
        n += sprintf(text + n,
                     F("f%d") "<g> (p) => (c) { c = local.f%d <g: graph = e () => (v) { v = If "
                              "<then_branch: graph = @g, else_branch: graph = @g> (p) }> (p) }\n",
                     i, i + 1);
    sprintf(text + n, F("f40") "<g> (p) => (c) { c = If <then_branch: graph = @g, else_branch: "
                               "graph = @g> (p) }");
    cr_assert(!inlined(text));
    cr_assert_eq(t.diags.errors, 1);
    model_free(&t);
    free(text);
}

Test(inline, too_deep) {
    char *text = malloc(400 * 160 + 512);
    int n = sprintf(text, HEAD "g (x) => (y) { y = local.f0 (x) }");
    for (int i = 0; i < 300; i++)
        n += sprintf(text + n, F("f%d") "(a) => (c) { c = local.f%d (a) }\n", i, i + 1);
    sprintf(text + n, F("f300") "(a) => (c) { c = Abs (a) }");
    cr_assert(!inlined(text));
    cr_assert_eq(t.diags.all.n, 1);
    cr_assert_eq(t.diags.all.at[0]->code, DIAG_INLINE_DEPTH);
    model_free(&t);
    free(text);
}

/* Each level passes a graph that wraps the one it was given three graphs deeper. */
Test(inline, too_deep_through_attributes) {
    char *text = malloc(150 * 500 + 512);
    int n =
        sprintf(text, HEAD "g (x, bool p) => (y) { y = local.f0 <g: graph = t () => (u) { u = Abs "
                           "(x) }> (p) }");
    for (int i = 0; i < 140; i++)
        n +=
            sprintf(text + n,
                    F("f%d") "<g> (p) => (c) { c = local.f%d <g: graph = e () => (v) {"
                             "v = If (p) <else_branch = z () => (q) { q = Abs (p) }, then_branch = "
                             "e () => (v) { v = If <then_branch: graph = @g, else_branch = "
                             "z () => (q) { q = Abs (p) }> (p) }> }> (p) }\n",
                    i, i + 1);
    sprintf(text + n, F("f140") "<g> (p) => (c) { c = If <then_branch: graph = @g, else_branch = "
                                "z () => (q) { q = Abs (p) }> (p) }");
    cr_assert(!inlined(text));
    cr_assert_eq(t.diags.all.n, 1);
    cr_assert_eq(t.diags.all.at[0]->code, DIAG_INLINE_DEPTH);
    model_free(&t);
    free(text);
}

Test(inline, nothing_to_do) {
    gives(HEAD "g (x) => (y) { y = Abs (x) }", "y=Abs(x);");
    gives(HEAD "g (x) => (y) { y = Abs (x) } " F("f") "(a) => (c) { c = Abs (a) }", "y=Abs(x);");
}
