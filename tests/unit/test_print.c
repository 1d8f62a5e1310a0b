#define _GNU_SOURCE /* open_memstream */
#include "model_dump.h"
#include "random.h"
#include "text_model.h"
#include <criterion/criterion.h>

static char *read_and_print(const char *text, char **dump) {
    struct text_model t;
    text_model_read(&t, text, strlen(text));
    char *why = text_model_diagnostics(&t.diags, false);
    cr_assert(t.ok, "%s\nin\n%s", why, text);
    free(why);
    char *printed = text_model_print(&t.m);
    if (dump) *dump = model_dump(&t.m);
    text_model_free(&t);
    return printed;
}

static void prints(const char *text, const char *expected) {
    char *printed = read_and_print(text, NULL);
    cr_assert_str_eq(printed, expected, "\n%s", printed);
    char *again = read_and_print(printed, NULL);
    cr_assert_str_eq(again, expected);
    free(again);
    free(printed);
}

Test(print, the_canonical_form) {
    prints("# a "
           "comment\n<model_version:3,ir_version:8,doc_string:\"d\\\"\",opset_import:[\"ai.onnx\":"
           "17,],"
           "metadata_props:[\"a\":\"b\"]>g(float[2]x,y)=>(float z)<float[2]w={1,+2 ,},float v>{"
           "[n]a,=Relu(x)[\"b\"]\"c d\",,e=d.F(,a,)<i=1,f=2.50>z=G()}",
           "<\n"
           "   ir_version: 8,\n"
           "   opset_import: [\"\" : 17],\n"
           "   model_version: 3,\n"
           "   doc_string: \"d\\\"\",\n"
           "   metadata_props: [\"a\": \"b\"]\n"
           ">\n"
           "g (float[2] x, y) => (float z)\n"
           "<\n"
           "   float[2] w = {1, 2},\n"
           "   float v\n"
           ">\n"
           "{\n"
           "   [n] a = Relu (x)\n"
           "   [b] \"c d\", \"\", e = d.F <i = 1, f = 2.5> (\"\", a)\n"
           "   z = G ()\n"
           "}\n");
}

Test(print, subgraphs_stand_behind_the_inputs) {
    prints("g (c) => (y) { y = If <t = a () => (q) <float[1] w = {1}> { q = F (w) }, e = b () => "
           "(q) { q = G () }> (c) }",
           "g (c) => (y) {\n"
           "   y = If (c) <t = a () => (q)\n"
           "   <\n"
           "      float[1] w = {1}\n"
           "   >\n"
           "   {\n"
           "      q = F (w)\n"
           "   }, e = b () => (q) {\n"
           "      q = G ()\n"
           "   }>\n"
           "}\n");
}

Test(print, quotes_only_where_needed) {
    prints(
        "g (\"x\", \"a b\", gpu_0/y, \"float\", \"inf\", \"seq\", 11, \xc3\xa9) => () { \"z\" = "
        "\"Op\" (\"x\") }",
        "g (x, \"a b\", \"gpu_0/y\", \"float\", \"inf\", \"seq\", \"11\", \"\xc3\xa9\") => () {\n"
        "   z = Op (x)\n"
        "}\n");
}

Test(print, quotes_tell_where_the_domain_ends) {
    prints("<opset_import: [\"aten\" : 1, \"a.b\" : 1]> g () => () { a = aten.add.Tensor () b = "
           "a.b.C () "
           "c = x.y.Z () d = \"aten.q\".R () e = pkg.2.Op:1 () }",
           "<\n"
           "   opset_import: [\"aten\" : 1, \"a.b\" : 1]\n"
           ">\n"
           "g () => () {\n"
           "   a = aten.add.Tensor ()\n"
           "   b = a.b.C ()\n"
           "   c = x.y.Z ()\n"
           "   d = \"aten.q\".R ()\n"
           "   e = \"pkg.2\".Op:\"1\" ()\n"
           "}\n");
}

Test(print, numbers) {
    prints("g () => () <float[6] f = {.5, +.5, -.5, 1., 1E5, nan}> { y = F <a = 0.1, b = 1e-9, c = "
           "16777217.0, "
           "d = inf, e = -INF, f = nan, g = 1e30, h: float = 3, i = -0.0, j = "
           "-9223372036854775808> () }",
           "g () => ()\n"
           "<\n"
           "   float[6] f = {0.5, 0.5, -0.5, 1., 1E5, nan}\n"
           ">\n"
           "{\n"
           "   y = F <a = 0.1, b = 1e-09, c = 16777216.0, d = inf, e = -inf, f = nan, g = 1e+30, h "
           "= 3.0, "
           "i = -0.0, j = -9223372036854775808> ()\n"
           "}\n");
}

/* Any 32-bit float comes back. */
Test(print, floats_round_trip) {
    uint64_t seed = 3;
    for (int round = 0; round < 20000; round++) {
        uint32_t bits = (uint32_t)random_next(&seed);
        float x;
        memcpy(&x, &bits, sizeof x);
        if (x != x || x - x != 0) continue; /* nan, inf */
        char text[100];
        snprintf(text, sizeof text, "g () => () { y = F <a = %.17e> () }", (double)x);
        char *printed = read_and_print(text, NULL);
        struct text_model t;
        text_model_read(&t, printed, strlen(printed));
        cr_assert_eq(t.m.attr.at[1].kind, IR_ATTR_FLOAT);
        cr_assert_eq((float)t.m.attr_value.at[0].f, x, "%s", printed);
        text_model_free(&t);
        free(printed);
    }
}

/* ---- random modules -------------------------------------------------------------------------- */

/* A writer of texts that follow the grammar, with odd spacing and every form. */
struct writer {
    FILE *out;
    uint64_t seed;
    int depth;
    bool graphs; /* attributes may be graphs */
};

static uint32_t pick(struct writer *w, uint32_t n) { return random_below(&w->seed, n); }

static void space(struct writer *w) {
    static const char *const spaces[] = {"", " ", "", "\n  ", "\t", " # c\"}{\n", "\r\n"};
    fputs(spaces[pick(w, sizeof spaces / sizeof *spaces)], w->out);
}

static void put(struct writer *w, const char *s) {
    space(w);
    fputs(s, w->out);
    space(w);
}

static void name(struct writer *w) {
    static const char *const names[] = {"x",         "y",  "z1",     "\"a b\"",   "\"q\\\"\\\\\"",
                                        "gpu_0/x",   "11", "w.bias", "\"float\"", "\xc3\xa9",
                                        "onnx::M_1", "_t"};
    putc(' ', w->out);
    fputs(names[pick(w, sizeof names / sizeof *names)], w->out);
    putc(' ', w->out);
}

static void list(struct writer *w, const char *open, const char *close, uint32_t most,
                 void (*element)(struct writer *)) {
    put(w, open);
    uint32_t n = pick(w, most + 1);
    for (uint32_t i = 0; i < n; i++) {
        element(w);
        if (i + 1 < n || pick(w, 4) == 0) put(w, ",");
    }
    put(w, close);
}

static void type(struct writer *w) {
    static const char *const types[] = {"float",           "float[ ]",
                                        "int64[2, N]",     "double[?,\"a b\", 3]",
                                        "seq( float[2] )", "map(int64,seq(string))",
                                        "optional(bool)",  "sparse_tensor(float[3, 4])",
                                        "opaque(d.e,n)"};
    put(w, types[pick(w, sizeof types / sizeof *types)]);
}

/* A type with data that fits it. */
static void tensor(struct writer *w, bool assign, bool named) {
    static const char *const data[][2] = {{"float[2]", "{1, -2.5e3}"},
                                          {"int64[3]", "{1 ,2, -9223372036854775808}"},
                                          {"bool", "{1}"},
                                          {"string[2]", "{ \"a, }\", \"\\\"#\" }"},
                                          {"float[0]", "{}"},
                                          {"float[N]", "{1,2 # c\n,3}"},
                                          {"double[1]", "{ nan }"},
                                          {"float16[2]", "{15360, 0}"},
                                          {"float[9]", "[\"location\" : \"w\", \"offset\":\"0\"]"},
                                          {"int8[2]", "..."},
                                          {"bool", "..."}};
    uint32_t k = pick(w, sizeof data / sizeof *data);
    put(w, data[k][0]);
    if (named) name(w);
    if (assign) put(w, "=");
    put(w, data[k][1]);
}

static void value_info(struct writer *w) {
    if (pick(w, 3)) type(w);
    name(w);
}

static void graph_input(struct writer *w) {
    if (pick(w, 5) == 0)
        tensor(w, true, true);
    else
        value_info(w);
}

static void item(struct writer *w) {
    if (pick(w, 2))
        tensor(w, true, true);
    else
        value_info(w);
}

static void graph(struct writer *w, const char *graph_name);
static void subgraph(struct writer *w) { graph(w, pick(w, 2) ? "sub" : "\"s/1\""); }
static void integer(struct writer *w) { fprintf(w->out, "%d", (int)pick(w, 100) - 50); }
static void number(struct writer *w) {
    fprintf(w->out, "%d.%d", (int)pick(w, 9), (int)pick(w, 99));
}
static void string(struct writer *w) { put(w, pick(w, 2) ? "\"s\"" : "\"a\\\\\\\" b\""); }
static void plain_tensor(struct writer *w) { tensor(w, pick(w, 2), pick(w, 2)); }

static void attr(struct writer *w) {
    static const char *const names[] = {"a", "b_1", "\"x y\"", "c.d", "value"};
    put(w, names[pick(w, sizeof names / sizeof *names)]);
    uint32_t kind = pick(w, w->graphs && w->depth < 3 ? 14 : 12);
    static const char *const kinds[] = {":int", ":float", ":string"};
    if (kind < 3 && pick(w, 2)) put(w, kinds[kind]);
    if (kind == 10) put(w, pick(w, 2) ? ": float" : ":tensors");
    if (kind == 11) put(w, ": ints");
    put(w, "=");
    switch (kind) {
    case 0: integer(w); break;
    case 1: number(w); break;
    case 2: string(w); break;
    case 3: list(w, "[", "]", 4, integer); break;
    case 4: list(w, "[", "]", 4, number); break;
    case 5: list(w, "[", "]", 4, string); break;
    case 6: list(w, "[", "]", 3, plain_tensor); break;
    case 7: list(w, "[", "]", 3, type); break;
    case 8: type(w); break;
    case 9: plain_tensor(w); break;
    case 10: put(w, "@ alpha"); break;
    case 11: put(w, "[ ]"); break;
    case 12: subgraph(w); break;
    case 13: list(w, "[", "]", 2, subgraph); break;
    }
}

/* The plural kinds need a list. */
static void typed_attr(struct writer *w) {
    switch (pick(w, 4)) {
    case 0:
        put(w, "l: ints =");
        list(w, "[", "]", 3, integer);
        break;
    case 1:
        put(w, "f : floats =");
        list(w, "[", "]", 3, integer);
        break;
    case 2:
        put(w, "s:strings=");
        list(w, "[", "]", 3, string);
        break;
    case 3: put(w, "f: float = 3"); break;
    }
}

static void any_attr(struct writer *w) {
    if (pick(w, 3))
        attr(w);
    else
        typed_attr(w);
}

static void attrs(struct writer *w) { list(w, "<", ">", 3, any_attr); }

static void node(struct writer *w) {
    static const char *const ops[] = {"Relu",
                                      "d.F",
                                      "d . e.G",
                                      "aten.add.Tensor",
                                      "H:o",
                                      "pkg.2.0.Op",
                                      "\"q\".\"r.s\" : \"t u\""};
    if (pick(w, 4) == 0) put(w, pick(w, 2) ? "[node]" : "[\"a/b\"]");
    for (uint32_t n = 1 + pick(w, 3); n > 0; n--) {
        name(w);
        if (n > 1) put(w, ",");
    }
    put(w, "=");
    put(w, ops[pick(w, sizeof ops / sizeof *ops)]);
    /* Graphs stand behind the inputs: a name that nothing defines belongs to the graph that reads
     * it first, and the printer puts them there. */
    uint32_t where = pick(w, 3);
    bool graphs = w->graphs;
    w->graphs = false;
    if (where == 0) attrs(w);
    w->graphs = true;
    list(w, "(", ")", 4, name);
    if (where == 1) attrs(w);
    w->graphs = graphs;
}

static void graph(struct writer *w, const char *graph_name) {
    w->depth++;
    put(w, graph_name);
    list(w, "(", ")", 3, graph_input);
    put(w, "=>");
    list(w, "(", ")", 3, value_info);
    if (pick(w, 2)) list(w, "<", ">", 4, item);
    put(w, "{");
    for (uint32_t n = pick(w, 5); n > 0; n--) node(w);
    put(w, "}");
    w->depth--;
}

static void header(struct writer *w) {
    static const char *const entries[] = {
        "ir_version : 8",
        "opset_import: [\"\" :17, \"aten\": 1, \"d\":2 ,\"d.e\" : 3]",
        "producer_name:\"p\\\"\"",
        "producer_version: \"\"",
        "domain:\"d\"",
        "model_version: -1",
        "doc_string: \"a\nb\"",
        "metadata_props : [ \"k\" : \"v\" , \"l\": \"\" ]"};
    put(w, "<");
    bool any = false;
    for (uint32_t i = 0; i < 8; i++) {
        if (pick(w, 2)) continue;
        if (any) put(w, ",");
        put(w, entries[i]);
        any = true;
    }
    put(w, ">");
}

static void formal(struct writer *w) {
    static const char *const formals[] = {"alpha", "\"b c\" : float = 2", "g: ints = []",
                                          "h = \"s\"", "i: int"};
    put(w, formals[pick(w, sizeof formals / sizeof *formals)]);
}

static void function(struct writer *w) {
    put(w, pick(w, 2)
               ? "<domain: \"d\", opset_import: [\"\":17]>"
               : "<opset_import:[\"aten\" : 1],doc_string:\"\\\\\", domain:\"e\",overload:\"o\">");
    put(w, pick(w, 2) ? "F" : "\"a|b\"");
    if (pick(w, 2)) list(w, "<", ">", 3, formal);
    w->depth++;
    list(w, "(", ")", 3, value_info);
    put(w, "=>");
    list(w, "(", ")", 3, value_info);
    if (pick(w, 2)) list(w, "<", ">", 2, value_info);
    put(w, "{");
    for (uint32_t n = pick(w, 4); n > 0; n--) node(w);
    put(w, "}");
    w->depth--;
}

static char *random_model(uint64_t seed) {
    static char *text;
    static size_t size;
    struct writer w = {.out = open_memstream(&text, &size), .seed = seed};
    if (pick(&w, 4)) header(&w);
    graph(&w, pick(&w, 2) ? "main_graph" : "\"torch-jit\"");
    for (uint32_t n = pick(&w, 3); n > 0; n--) function(&w);
    fclose(w.out);
    return text;
}

Test(print, what_is_printed_reads_as_the_same_module) {
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        char *text = random_model(seed * 77), *first_dump, *second_dump;
        char *first = read_and_print(text, &first_dump);
        char *second = read_and_print(first, &second_dump);
        cr_assert_str_eq(second, first, "seed %u\n%s\nprints\n%s\nthen\n%s", (unsigned)seed, text,
                         first, second);
        cr_assert_str_eq(second_dump, first_dump, "seed %u\n%s\nreads as\n%s\nthen as\n%s",
                         (unsigned)seed, text, first_dump, second_dump);
        free(text);
        free(first);
        free(second);
        free(first_dump);
        free(second_dump);
    }
}

/* The comparison above is worth something only if it sees differences. */
Test(print, dumps_of_different_modules_differ) {
    static const char *const texts[] = {"g (float x) => (x) { y = F (x) }",
                                        "g (float x) => (x) { y = F (y) }",
                                        "g (float[] x) => (x) { y = F (x) }",
                                        "g (float x) => (y) { y = F (x) }",
                                        "g (float x) => (x) { y = F <a = 1> (x) }",
                                        "g (float x) => (x) { y = F <a = 1.0> (x) }",
                                        "g (float x) => (x) <float y> { y = F (x) }",
                                        "g (float x) => (x) { y = F:o (x) }",
                                        "g (float x) => (x) { y = F (x) } F () => () {}",
                                        "g (float x = {1}) => (x) { y = F (x) }",
                                        "g (float x = {2}) => (x) { y = F (x) }"};
    enum { N = sizeof texts / sizeof *texts };
    char *dumps[N];
    for (int i = 0; i < N; i++) {
        free(read_and_print(texts[i], &dumps[i]));
        for (int k = 0; k < i; k++) cr_assert_str_neq(dumps[i], dumps[k], "%s", texts[i]);
    }
    for (int i = 0; i < N; i++) free(dumps[i]);
}
