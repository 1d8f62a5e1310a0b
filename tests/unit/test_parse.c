#define _GNU_SOURCE /* open_memstream */
#include "random.h"
#include "text_model.h"
#include <criterion/criterion.h>

static struct text_model t;

static const struct ir_module *reads(const char *text) {
    text_model_read(&t, text, strlen(text));
    if (!t.ok) {
        char *why = text_model_diagnostics(&t.diags, false);
        cr_assert(t.ok, "%s", why);
        free(why);
    }
    return &t.m;
}

/* The text's diagnostics, short, without the file's name: "1:2: error[DDP0101]: ...". */
static void refuses(const char *text, const char *expected) {
    text_model_read(&t, text, strlen(text));
    cr_assert_not(t.ok, "%s reads", text);
    char *all = text_model_diagnostics(&t.diags, true), *to = all;
    for (const char *from = all; *from; from++) {
        if (strncmp(from, "m.ir:", 5) == 0 && (from == all || from[-1] == '\n')) from += 5;
        *to++ = *from;
    }
    *to = 0;
    cr_assert_str_eq(all, expected, "%s\ngives\n%s", text, all);
    free(all);
    text_model_free(&t);
}

/* A value of the main graph or the graph given, by name; the first one. */
static ir_value value_in(ir_graph g, const char *name) {
    for (ir_value v = 1; v < t.m.value.n; v++)
        if (t.m.value.at[v].graph == g && strcmp(ir_value_name(&t.m, v), name) == 0) return v;
    cr_assert(false, "no value %s", name);
    return 0;
}

static ir_node node_at(ir_graph g, uint32_t i) {
    cr_assert_lt(i, t.m.graph.at[g].n_nodes);
    return t.m.node_list.at[t.m.graph.at[g].nodes + i];
}

Test(parse, header) {
    const struct ir_module *m = reads(
        "<ir_version: 8, producer_name: \"a\\\"\\n\", model_version: -3, opset_import: "
        "[\"\" : 17, \"ai.onnx\" : 18, \"x\" : 1], metadata_props: [\"k\" : \"v\", \"l\":\"\"], "
        "doc_string: \"\">g () => () {}");
    cr_assert(m->has_header && m->has_ir_version && m->has_producer_name && m->has_model_version &&
              m->has_opsets && m->has_metadata && m->has_doc);
    cr_assert_not(m->has_domain || m->has_producer_version);
    cr_assert_eq(m->ir_version, 8);
    cr_assert_eq(m->model_version, -3);
    cr_assert_str_eq(ir_text(m, m->producer_name), "a\"n", "a backslash stands for what follows");
    cr_assert_eq(m->n_opsets, 3);
    cr_assert_eq(m->opset.at[m->opsets + 1].domain, 0, "ai.onnx is the empty domain");
    cr_assert_eq(m->opset.at[m->opsets + 2].version, 1);
    cr_assert_eq(m->metadata.n, 2);
    cr_assert_str_eq(ir_text(m, m->metadata.at[0].value), "v");
    text_model_free(&t);
}

Test(parse, types) {
    static const char *const types[] = {
        "float",         "float[]",           "float[2,N,?]",        "bool[0]",
        "seq(float)",    "map(int64, float)", "optional(seq(int8))", "sparse_tensor(float[3,4])",
        "opaque(a.b,n)", "bfloat16[1]",       "float[\"a b\",1]",    "sparse_tensor(double[])",
        "opaque(n)",     "opaque()",          "opaque(d.e,)",
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[100];
        snprintf(text, sizeof text, "g (%s x, %s y) => () {}", types[i], types[i]);
        const struct ir_module *m = reads(text);
        ir_type type = m->value.at[value_in(m->main, "x")].type;
        struct arena a = {0};
        cr_assert_str_eq(ir_type_text(m, &a, type), types[i]);
        cr_assert_eq(type, m->value.at[value_in(m->main, "y")].type, "each type is kept once");
        arena_free(&a);
        text_model_free(&t);
    }
}

Test(parse, names_like_types) {
    const struct ir_module *m =
        reads("g (float float, seq, map, int64 seq2, float[1] \"float\", optional) => (x) {}");
    cr_assert_eq(m->graph.at[m->main].n_inputs, 6);
    cr_assert_eq(m->value.at[value_in(m->main, "seq")].type, 0);
    cr_assert_neq(m->value.at[value_in(m->main, "float")].type, 0);
    text_model_free(&t);
}

Test(parse, definitions_meet_their_uses) {
    const struct ir_module *m =
        reads("g (float[2] x, float[2] w) => (z) <float[2] w = {1, 2}, float[3] y, float[2] p>\n"
              "{ y = Relu (x) z = Add (y, p) u = Neg (late) late = Neg (x) q = F (nowhere, z) }");
    const struct ir_value_info *v = m->value.at;
    cr_assert_eq(v[value_in(m->main, "x")].def, IR_DEF_INPUT);
    cr_assert_eq(v[value_in(m->main, "w")].def, IR_DEF_INITIALIZER);
    cr_assert(v[value_in(m->main, "w")].also_input);
    cr_assert_eq(m->data.at[v[value_in(m->main, "w")].data].count, 2);
    cr_assert_eq(v[value_in(m->main, "y")].def, IR_DEF_NODE);
    cr_assert_neq(v[value_in(m->main, "y")].type, 0, "the declared type stays");
    cr_assert_eq(v[value_in(m->main, "p")].def, IR_DEF_DECLARED);
    cr_assert_eq(v[value_in(m->main, "late")].def, IR_DEF_NODE);
    cr_assert_eq(v[value_in(m->main, "late")].node, node_at(m->main, 3));
    cr_assert_eq(v[value_in(m->main, "nowhere")].def, IR_DEF_UNDEFINED);
    cr_assert(v[value_in(m->main, "z")].is_output);
    cr_assert_not(v[value_in(m->main, "y")].is_output);
    cr_assert_eq(ir_inputs(m, node_at(m->main, 1))[0], value_in(m->main, "y"));
    text_model_free(&t);
}

Test(parse, a_second_definition_is_a_second_value) {
    const struct ir_module *m = reads("g (x) => (y) { y = Relu (x) y = Neg (x) z = Abs (y) }");
    ir_value first = ir_outputs(m, node_at(m->main, 0))[0];
    ir_value second = ir_outputs(m, node_at(m->main, 1))[0];
    cr_assert_neq(first, second);
    cr_assert_eq(m->value.at[second].name, m->value.at[first].name);
    cr_assert_eq(ir_inputs(m, node_at(m->main, 2))[0], first);
    text_model_free(&t);
}

Test(parse, an_output_has_its_name_only_behind_its_node) {
    const struct ir_module *m =
        reads("g (x) => (y) { y = If (x) <b = in () => (r) { x = Neg (x) r = Abs (x) }> }");
    ir_graph inner = ir_subgraph(m, node_at(m->main, 0), "b");
    cr_assert_eq(m->graph.at[inner].parent, m->main);
    cr_assert_eq(m->graph.at[inner].owner, node_at(m->main, 0));
    cr_assert_eq(ir_inputs(m, node_at(inner, 0))[0], value_in(m->main, "x"), "the outer x");
    cr_assert_eq(ir_inputs(m, node_at(inner, 1))[0], value_in(inner, "x"), "the inner x");
    text_model_free(&t);
}

Test(parse, a_graphs_names_end_with_it) {
    const struct ir_module *m = reads("g (c) => (y) { y = If (c) <a = a () => (r) { r = F (c) }, b "
                                      "= b () => (c) { s = F (r) }> z = F (r) }");
    ir_graph a = ir_subgraph(m, node_at(m->main, 0), "a"),
             b = ir_subgraph(m, node_at(m->main, 0), "b");
    cr_assert_neq(value_in(a, "r"), value_in(b, "r"));
    cr_assert_eq(m->value.at[value_in(b, "r")].def, IR_DEF_UNDEFINED);
    cr_assert_eq(m->value.at[value_in(m->main, "r")].def, IR_DEF_UNDEFINED);
    const struct ir_decl *out = &m->decl.at[m->graph.at[b].outputs];
    cr_assert_eq(out->value, value_in(m->main, "c"), "an output may be a value from outside");
    cr_assert_not(m->value.at[out->value].is_output);
    text_model_free(&t);
}

Test(parse, functions_see_only_their_formals) {
    const struct ir_module *m =
        reads("<opset_import: [\"\" : 17]> g (x, w) => (y) { y = d.F (x) }\n"
              "<domain: \"d\", opset_import: [\"\" : 16, \"e\" : 1], overload: \"o\", doc_string: "
              "\"text\">\n"
              "F <a, b: float = 2, c: ints = [1]> (x) => (y) { y = Add (x, w) }");
    cr_assert_eq(m->function.n, 2);
    const struct ir_function_info *f = &m->function.at[1];
    cr_assert_str_eq(ir_text(m, f->domain), "d");
    cr_assert_str_eq(ir_text(m, f->overload), "o");
    cr_assert_str_eq(ir_text(m, f->doc), "text");
    cr_assert_eq(f->n_opsets, 2);
    cr_assert_eq(m->n_opsets, 1);
    cr_assert_eq(f->n_attrs, 3);
    cr_assert(m->attr.at[f->attrs].no_value);
    cr_assert_eq(m->attr.at[f->attrs + 1].kind, IR_ATTR_FLOAT, "an integer for a float");
    cr_assert_eq(m->attr_value.at[m->attr.at[f->attrs + 1].values].f, 2.0);
    cr_assert_eq(m->value.at[value_in(f->body, "w")].def, IR_DEF_UNDEFINED);
    cr_assert_eq(m->value.at[value_in(f->body, "x")].def, IR_DEF_INPUT);
    text_model_free(&t);
}

Test(parse, omitted_inputs_and_outputs) {
    const struct {
        const char *inputs;
        uint32_t n;
    } lists[] = {{"", 0},     {"x", 1},    {"x,", 1},     {",", 1}, {",x", 2},
                 {"x,,y", 3}, {"\"\"", 1}, {"x,\"\"", 2}, {",,", 2}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[100];
        snprintf(text, sizeof text, "g (x, y) => () { z, , \"\", v = F (%s) }", lists[i].inputs);
        const struct ir_module *m = reads(text);
        cr_assert_eq(m->node.at[node_at(m->main, 0)].n_inputs, lists[i].n, "(%s)", lists[i].inputs);
        cr_assert_eq(m->node.at[node_at(m->main, 0)].n_outputs, 4);
        cr_assert_eq(ir_outputs(m, node_at(m->main, 0))[1], 0);
        cr_assert_eq(ir_input(m, node_at(m->main, 0), 7), 0);
        text_model_free(&t);
    }
}

Test(parse, attributes) {
    const struct ir_module *m = reads("g (x) => () { y = F <i = -5, f = 1.5, n = inf, s = \"s\", "
                                      "il: ints = [1, 2,], fl = [1, 2.5], e: "
                                      "floats = [], u = [], r: float = @alpha, t = float[2] {1, "
                                      "2}, tn = int64[2] nm = {3, 4}, tp = "
                                      "float[N], tps = [seq(float), int8], sl = [\"a\", \"b\"], h "
                                      "= g2 (a) => (b) { b = F (a) }> (x) }");
    const ir_node n = node_at(m->main, 0);
    cr_assert_eq(ir_attr_int(m, n, "i", 0), -5);
    cr_assert_eq(ir_attr_int(m, n, "none", 7), 7);
    static const struct {
        const char *name;
        enum ir_attr_kind kind;
        uint32_t n_values;
    } expected[] = {
        {"f", IR_ATTR_FLOAT, 1},     {"n", IR_ATTR_FLOAT, 1},       {"s", IR_ATTR_STRING, 1},
        {"il", IR_ATTR_INTS, 2},     {"fl", IR_ATTR_FLOATS, 2},     {"e", IR_ATTR_FLOATS, 0},
        {"u", IR_ATTR_UNDEFINED, 0}, {"r", IR_ATTR_FLOAT, 0},       {"t", IR_ATTR_TENSOR, 1},
        {"tn", IR_ATTR_TENSOR, 1},   {"tp", IR_ATTR_TYPE_PROTO, 1}, {"tps", IR_ATTR_TYPE_PROTOS, 2},
        {"sl", IR_ATTR_STRINGS, 2},  {"h", IR_ATTR_GRAPH, 1},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, n, expected[i].name)];
        cr_assert_eq(a->kind, expected[i].kind, "%s is %d", expected[i].name, a->kind);
        cr_assert_eq(a->n_values, expected[i].n_values, "%s", expected[i].name);
    }
    cr_assert_eq(m->attr_value.at[m->attr.at[ir_attr_find(m, n, "fl")].values].f, 1.0);
    cr_assert_str_eq(ir_text(m, m->attr.at[ir_attr_find(m, n, "r")].ref), "alpha");
    const int64_t *ints;
    const union ir_attr_value *nm = &m->attr_value.at[m->attr.at[ir_attr_find(m, n, "tn")].values];
    cr_assert_eq(ir_data_ints(m, nm->tensor.data, &ints), 2);
    cr_assert_eq(ints[1], 4);
    cr_assert_neq(ir_subgraph(m, n, "h"), 0);
    cr_assert_eq(ir_subgraph(m, n, "i"), 0);
    text_model_free(&t);
}

Test(parse, payloads) {
    const struct ir_module *m = reads("g () => () <int64[3] a = {1, -2, 9223372036854775807}, bool "
                                      "b = {1}, float[2] f = {1, 2e3}, "
                                      "float[3] sp = {inf, -infinity, NaN}, string[2] s = {\"},\", "
                                      "\"\\\"\"}, float16[1] h = {15360}, "
                                      "float[9] x = [\"location\": \"w\", \"offset\": \"0\"], "
                                      "float[5] el = ..., float[5] no = {}, "
                                      "uint64[1] u = {18446744073709551615}, complex64[2] c = {1, "
                                      "2, 3, 4}, int4[4] i4 = {1, 2}> {}");
    const int64_t *ints;
    cr_assert_eq(ir_data_ints(m, m->value.at[value_in(m->main, "a")].data, &ints), 3);
    cr_assert(ints[0] == 1 && ints[1] == -2 && ints[2] == INT64_MAX);
    cr_assert_eq(ir_data_ints(m, m->value.at[value_in(m->main, "b")].data, &ints), 1);
    cr_assert_eq(ir_data_ints(m, m->value.at[value_in(m->main, "f")].data, &ints), 0);
    cr_assert_eq(m->data.at[m->value.at[value_in(m->main, "sp")].data].count, 3);
    cr_assert_eq(m->data.at[m->value.at[value_in(m->main, "s")].data].count, 2);
    cr_assert_eq(m->data.at[m->value.at[value_in(m->main, "x")].data].kind, IR_DATA_EXTERNAL);
    cr_assert_eq(m->data.at[m->value.at[value_in(m->main, "el")].data].kind, IR_DATA_ELIDED);
    text_model_free(&t);
}

Test(parse, up_to_64_integers_are_kept) {
    for (int n = IR_MAX_INTS - 1; n <= IR_MAX_INTS + 1; n++) {
        char text[1000], *end = text + sprintf(text, "g () => () <int32[%d] a = {", n);
        for (int i = 0; i < n; i++) end += sprintf(end, "%d,", i * 3 - 7);
        sprintf(end, "}> {}");
        const struct ir_module *m = reads(text);
        const int64_t *ints;
        uint32_t kept = ir_data_ints(m, m->value.at[value_in(m->main, "a")].data, &ints);
        cr_assert_eq(kept, n <= IR_MAX_INTS ? (uint32_t)n : 0);
        for (uint32_t i = 0; i < kept; i++) cr_assert_eq(ints[i], (int64_t)i * 3 - 7);
        text_model_free(&t);
    }
}

/* Data of some types, as ONNX before 1.23 prints it in attributes. */
Test(parse, elided_data_of_attributes) {
    static const struct {
        const char *text, *name;
        int rank;
    } cases[] = {
        {"bool...", "", 0},      {"tensor = bool...", "", 0},      {"float16[2]...", "", 1},
        {"int8 nm...", "nm", 0}, {"bool[2] a.b/c...", "a.b/c", 1}, {"uint8[2] n = ...", "n", 1},
        {"int8 ...", "", 0},     {"bool \"a b\"...", "a b", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        bool typed = !strncmp(cases[i].text, "tensor", 6);
        snprintf(text, sizeof text, "g () => (y) { y = Constant <value %s%s> () }",
                 typed ? ": " : "= ", cases[i].text);
        const struct ir_module *m = reads(text);
        const struct ir_attr_info *a = &m->attr.at[m->node.at[1].attrs];
        cr_assert_eq(a->kind, IR_ATTR_TENSOR, "%s", text);
        const union ir_attr_value *v = &m->attr_value.at[a->values];
        cr_assert_str_eq(ir_text(m, v->tensor.name), cases[i].name, "%s", text);
        cr_assert_eq(m->type.at[v->tensor.type].rank, cases[i].rank, "%s", text);
        cr_assert_eq(m->data.at[v->tensor.data].kind, IR_DATA_ELIDED, "%s", text);
        text_model_free(&t);
    }
}

/* What the official parser refuses and older printers wrote. */
Test(parse, tolerated_forms) {
    static const char *const texts[] = {
        "\xef\xbb\xbf<ir_version: 8,>\r\ng (x,) => (y,)\r\n<float[1] w,>\r\n{ y = F <a = 1,> (x,) "
        "}\r\n",
        "<> g () = > () <> {}",
        "gpu_0/net (float[1] gpu_0/x, onnx::Gemm_0, 11, a.b, \xc3\xa9) => (/fc1/y) { /fc1/y = F "
        "(11, a.b, gpu_0/x) }",
        "g () => () { y = F <b = \"torch-jit-export1\" () => () {}, c = \"\" () => () {}> () }",
        "g () => () { y = F <b = optional () => () {}, c = inf_body () => () {}, d = seq (float x) "
        "=> () {}> () }",
        "g () => () { y = F <b = float => () {}, c = () => () {}, d = inf () => () {}> () }",
        "g () => () { y = pkg.torch.2.1.0.Op () z = aten_add|folded_0 () w = a-b () v = Op:1 () }",
        "g () => () { y = F <\"a b\" = 1, x.y = @\"p q\", z: int = @r-s> () }",
        "g () => () { y = F <s: strings = ]> () }",
        "g () => () <string[0] s = }, undefined u, undefined v = ...> {}",
        "g () => () { y = F <t = float[3] [\"location\": \"w\"], u = float [\"location\": \"w\"]> "
        "() }",
        "g () => () { y = F <t: sparse_tensor = sparse_tensor(float[3]) {1}> () }",
        "g () => () { y = F <a = .5, b = +5, c = 1., d = [+.5]> () }",
        "g () => () <float[3] f = {.5, +5, 1.}> {}",
        "g () => () { [/a/b:c] y = F () [] z = F () }",
        "# comment\n g#c\n()#c\n=>#c\n()#c\n{#c\n}#c",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        reads(texts[i]);
        text_model_free(&t);
    }
}

Test(parse, where_a_domain_ends) {
    const struct ir_module *m =
        reads("<opset_import: [\"\" : 17, \"aten\" : 1, \"a.b\" : 1]> g () => () {\n"
              "a = aten.add.Tensor () b = a.b.C () c = x.y.Z () d = ai.onnx.Relu () e = "
              "\"q.r\".\"s.t\":u () f = a . b . D () }");
    static const char *const expected[][3] = {{"aten", "add.Tensor", ""}, {"a.b", "C", ""},
                                              {"x.y", "Z", ""},           {"", "Relu", ""},
                                              {"q.r", "s.t", "u"},        {"a.b", "D", ""}};
    for (uint32_t i = 0; i < 6; i++) {
        const struct ir_node_info *n = &m->node.at[node_at(m->main, i)];
        cr_assert_str_eq(ir_text(m, n->domain), expected[i][0]);
        cr_assert_str_eq(ir_text(m, n->op), expected[i][1]);
        cr_assert_str_eq(ir_text(m, n->overload), expected[i][2]);
    }
    text_model_free(&t);
}

Test(parse, an_unnamed_initializer_is_a_warning) {
    reads("g () => () <float[2] = {1, 2}, float[1] \"\" = {3}, float[1] w = {1}> {}");
    cr_assert_eq(t.diags.warnings, 2);
    cr_assert_eq(t.m.graph.at[t.m.main].n_items, 1);
    text_model_free(&t);
}

Test(parse, syntax_errors) {
    refuses("g (x) => (y) { y = Relu (x }",
            "1:28: error[DDP0101]: expected ',' or ')' behind the node's inputs, found '}'\n");
    refuses("g (x) (y) {}", "1:7: error[DDP0101]: expected '=>' before the outputs, found '('\n");
    refuses("<ir_version 8> g () => () {}",
            "1:13: error[DDP0101]: expected ':' behind the key, found '8'\n");
    refuses("<ir_versoin: 8> g () => () {}",
            "1:2: error[DDP0110]: there is no key 'ir_versoin' here\n");
    refuses("g () => () { y = F (x) \x01 }",
            "1:24: error[DDP0101]: expected a node: outputs and '=', found the byte 0x01\n");
    refuses("g () => () { y => F (x) }",
            "1:16: error[DDP0101]: expected '=' behind the node's outputs, found '=>'\n");
    refuses("g () => () <float[2] = {1, 2}, float[1]> {}",
            "1:22: warning[DDP0113]: an initializer without a name is ignored\n"
            "1:40: error[DDP0101]: expected a name behind the type, found '>'\n");
}

Test(parse, several_errors_in_one_run) {
    refuses("g (float[2 x, y) => (z)\n"
            "<float[3] w = {1, 2}, float[2] v = {1, 2x}>\n"
            "{\n"
            "   a = Relu (y\n"
            "   b = Add (y, y)\n"
            "   c = = Foo (y)\n"
            "   d = Foo <a=1,\n"
            "            b=1.5.2,\n"
            "            c=3> (y)\n"
            "   z = If (y) <t = t () => (q) {\n"
            "        q = Relu y\n"
            "        r = Tanh (q)\n"
            "      }> \n"
            "   e = Foo (y,, %%)\n"
            "}\n",
            "1:12: error[DDP0101]: expected ',' or ']' behind a dimension, found 'x'\n"
            "2:16: error[DDP0112]: float[3] has 3 elements, but 2 are given\n"
            "2:40: error[DDP0105]: '2x' is not a number\n"
            "4:15: error[DDP0101]: expected ',' or ')' behind the node's inputs, found 'b'\n"
            "6:8: error[DDP0101]: expected an operator, found '='\n"
            "8:15: error[DDP0105]: '1.5.2' is not a number\n"
            "11:18: error[DDP0101]: expected '(' before the node's inputs, found 'y'\n");
}

Test(parse, ends_of_the_text) {
    refuses("", "1:1: error[DDP0108]: there is no model in the text\n");
    refuses("  # nothing\n", "2:1: error[DDP0108]: there is no model in the text\n");
    refuses("g (x) => (y) { y = Relu (x", "1:27: error[DDP0102]: the text ends where ',' or ')' "
                                          "behind the node's inputs should follow\n");
    refuses("g (x) => (y) { y = If (x) <a = b () => () { y = F (x)",
            "1:54: error[DDP0102]: the text ends where a node or '}' should follow\n");
    refuses("g (x) => (y) { y = \"Relu (x) }",
            "1:20: error[DDP0109]: this string has no closing quote\n");
    refuses("g () => () {} }", "1:15: error[DDP0107]: '}' stands behind the model\n");
    text_model_read(&t, "g () => \0() {}", 14);
    cr_assert(!t.ok && t.diags.errors == 1);
    cr_assert_eq(t.diags.all.at[0]->code, DIAG_NOT_TEXT);
    text_model_free(&t);
}

Test(parse, numbers_out_of_range) {
    refuses("<ir_version: 9223372036854775808> g () => () {}",
            "1:14: error[DDP0104]: '9223372036854775808' does not fit into 64 bits\n");
    refuses("g () => () { y = F <a = -9223372036854775809> () }",
            "1:25: error[DDP0104]: '-9223372036854775809' does not fit into 64 bits\n");
    refuses("g () => () <float w = {3.4028236e38}> {}",
            "1:24: error[DDP0104]: '3.4028236e38' is out of range for float\n");
    refuses("g () => () { y = F <a = -3.4028236e38> () }",
            "1:25: error[DDP0104]: '-3.4028236e38' does not fit into a float of 32 bits\n");
    refuses("g () => () { y = F <a = 1e39> () }",
            "1:25: error[DDP0104]: '1e39' does not fit into a float of 32 bits\n");
    refuses("g () => () <float[2] w = {1, 1e39}> {}",
            "1:30: error[DDP0104]: '1e39' is out of range for float\n");
    refuses("g () => () <double[1] w = {1e309}> {}",
            "1:28: error[DDP0104]: '1e309' is out of range for double\n");
    refuses("g () => () <int64[1] w = {9223372036854775808}> {}",
            "1:27: error[DDP0104]: '9223372036854775808' is out of range for int64\n");
    refuses("g () => () <int64[1] w = {1.5}> {}", "1:27: error[DDP0105]: int64 data holds '1.5'\n");
    refuses("g () => () { y = F <a = - 5> () }", "1:25: error[DDP0105]: '-' is not a number\n");
    refuses("g () => () { y = F <a = 1e> () }", "1:25: error[DDP0105]: '1e' is not a number\n");
    refuses("g () => () { y = F <a = 0x10> () }", "1:25: error[DDP0105]: '0x10' is not a number\n");
    reads("g () => () <float[3] w = {340282346638528859811704183484516925440, 1e-99, 6e-45}> "
          "{ y = F <a = -9223372036854775808, b: float = 99999999999999999999> () }");
    text_model_free(&t);
}

Test(parse, kinds_that_do_not_fit) {
    refuses("g () => () { y = F <a: int = 1.5> () }",
            "1:30: error[DDP0111]: the value is of kind float where int is wanted\n");
    refuses("g () => () { y = F <a: ints = 3> () }",
            "1:31: error[DDP0111]: the value is of kind int where ints is wanted\n");
    refuses("g () => () { y = F <a: int = [3]> () }",
            "1:30: error[DDP0111]: the value is of kind list where int is wanted\n");
    refuses("g () => () { y = F <a = [1, \"x\"]> () }",
            "1:29: error[DDP0111]: the value is of kind string where int is wanted\n");
}

static char *repeated(const char *what, size_t times) {
    size_t len = strlen(what);
    char *text = malloc(len * times + 1);
    for (size_t i = 0; i < times; i++) memcpy(text + i * len, what, len);
    text[len * times] = 0;
    return text;
}

Test(parse, deep_nesting_is_a_diagnostic) {
    static const char *const nests[] = {"g () => () { y = F () <a = ", "g (seq("};
    for (int i = 0; i < 2; i++) {
        char *text = i == 0 ? repeated(nests[0], 100000) : repeated("seq(", 100000);
        if (i == 1) memcpy(text, "g (", 3);
        text_model_read(&t, text, strlen(text));
        cr_assert_not(t.ok);
        cr_assert_eq(t.diags.errors, 1);
        cr_assert_eq(t.diags.all.at[0]->code, i == 0 ? DIAG_TEXT_NESTING : DIAG_SYNTAX);
        text_model_free(&t);
        free(text);
    }
    char *types = repeated("seq(", 100000);
    char *text = malloc(strlen(types) + 10);
    sprintf(text, "g (%s", types);
    refuses(text, "1:1028: error[DDP0106]: more than 256 graphs or types inside each other\n");
    free(text);
    free(types);
}

Test(parse, garbage_stops_after_a_hundred_errors) {
    char *text = repeated("x = =\n", 10000), *model = malloc(strlen(text) + 100);
    sprintf(model, "g () => () {\n%s}", text);
    text_model_read(&t, model, strlen(model));
    cr_assert(t.diags.errors >= 90 && t.diags.errors <= 100);
    text_model_free(&t);
    free(model);
    free(text);
}

static const char sample[] =
    "<ir_version: 10, opset_import: [\"\" : 21, \"d\" : 1], producer_name: \"p\", domain: \"d\",\n"
    " model_version: 1, doc_string: \"doc\", metadata_props: [\"k\" : \"v\"]>\n"
    "main (float[N,\"a b\",?,3] x, float[] any, seq(float[2]) sq, map(int64, optional(string)) "
    "mp,\n"
    "  sparse_tensor(float[3]) sp, opaque(d.e,n) oq, bool \"c/1\", untyped, float[2] both = {1, "
    "2.5})\n"
    "  => (float[N] y, z) # comment\n"
    "  <int64[3] ints = {1, -2, 3}, string[2] strs = {\"a\", \"b\\\"c\"}, float[3] f = {inf, -nan, "
    "1e-3},\n"
    "   float[4] ext = [\"location\": \"w.bin\", \"offset\": \"0\"], float[2] vi, float[5] el = "
    "...>\n"
    "{\n"
    "  [n1] t1 = Relu (x)\n"
    "  [\"n/2\"] t2, , t3 = d.Split:ov <axis = -1, f = 1.5, s = \"s\", l = [1, 2], fl: floats = "
    "[1]> (t1, \"\")\n"
    "  t4 = Op <e: ints = [], t = float[2] {1, 2}, tn = int64[1] nm = {3}, tp = float[2,M], tl = "
    "[seq(int8)]> (, x)\n"
    "  t6 = If (\"c/1\") <then_branch = tb () => (float q) <float[1] w = {3}> { q = Add (t1, w) "
    "},\n"
    "                  else_branch = eb () => (float q) { q = Identity (t1) }>\n"
    "  y = d.F <alpha = 2.0> (x, t6)\n"
    "}\n"
    "<domain: \"d\", opset_import: [\"\" : 21], overload: \"o\">\n"
    "F <alpha, beta: float = 3.0> (float[N] x, w) => (y) <float[3] t> {\n"
    "  t = Mul (x, w) y = LeakyRelu <alpha: float = @alpha> (t)\n"
    "}\n";

/* No prefix crashes or hangs; whatever is cut off is an error, except behind a whole function or
 * graph. */
Test(parse, truncated_anywhere) {
    reads(sample);
    text_model_free(&t);
    size_t model_end = (size_t)(strstr(sample, "}\n<domain") - sample) + 1;
    for (size_t len = 0; len < sizeof sample - 1; len++) {
        char *copy = malloc(len + 1); /* on its own, so that a read behind its end shows */
        memcpy(copy, sample, len);
        text_model_read(&t, copy, len);
        free(copy);
        bool whole = len == model_end || len == model_end + 1 || len == sizeof sample - 2;
        cr_assert_eq(t.ok, whole, "%zu bytes", len);
        cr_assert_eq(t.diags.errors != 0, !whole);
        cr_assert_leq(t.diags.errors, 2, "%zu bytes give %u errors", len, t.diags.errors);
        free(text_model_diagnostics(&t.diags, false));
        text_model_free(&t);
    }
}

/* Bytes are replaced, removed and doubled at random; the reader says something or it does not, and
 * both it and the printer come back. */
Test(parse, damaged_anywhere) {
    static const char alphabet[] = "\"{}()<>[],=:.@#?\\ \nax0-9~\xc3\xa9\x01";
    uint64_t seed = 11;
    for (int round = 0; round < 3000; round++) {
        char text[sizeof sample + 64];
        size_t len = sizeof sample - 1;
        memcpy(text, sample, len);
        for (uint32_t k = 1 + random_below(&seed, 6); k > 0; k--) {
            size_t at = random_below(&seed, (uint32_t)len);
            uint32_t what = random_below(&seed, 3);
            if (what == 0) text[at] = alphabet[random_below(&seed, sizeof alphabet - 1)];
            if (what == 1) {
                memmove(text + at, text + at + 1, len - at - 1);
                len--;
            } else if (what == 2 && len < sizeof text) {
                memmove(text + at + 1, text + at, len - at);
                len++;
            }
        }
        text_model_read(&t, text, len);
        cr_assert_eq(t.ok, t.diags.errors == 0);
        free(text_model_diagnostics(&t.diags, false));
        if (t.ok) free(text_model_print(&t.m));
        text_model_free(&t);
    }
}
