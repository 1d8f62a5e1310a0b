/* The operator registry against the list of rules with reasons (tests/data/grad_rules.tsv),
 * look-ups, and what --ops and --assume-differentiable add. */
#define _POSIX_C_SOURCE 200809L
#include "ops.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const rule_names[] = {"STOP", "FLOW", "FLOW_IF_FLOAT", "ZERO", "BODY", "STE"};

static struct op_table table;
static struct diags diags;

static void set_up(void) {
    op_table_init(&table);
    diags_init(&diags, NULL);
}

static void tear_down(void) {
    op_table_free(&table);
    diags_free(&diags);
}

TestSuite(ops, .init = set_up, .fini = tear_down);

static uint32_t find(const char *domain, const char *name) {
    uint32_t def = op_find(&table, domain, name);
    cr_assert(def, "no operator %s.%s", domain, name);
    return def;
}

/* Both ways: every row is in the registry, and the registry has no input that is not a row. */
Test(ops, equals_the_list_of_rules) {
    FILE *f = fopen(TESTS_FOLDER "/data/grad_rules.tsv", "r");
    cr_assert(f);
    char text[512], domain[64], op[64], input[64], option[16], rule[16];
    unsigned index, rows = 0;
    cr_assert(fgets(text, sizeof text, f));
    while (fgets(text, sizeof text, f)) {
        cr_assert_eq(
            sscanf(text, "%63s %63s %u %63s %15s %15s", domain, op, &index, input, option, rule), 6,
            "%s", text);
        rows++;
        uint32_t def = find(domain, op);
        cr_assert_lt(index, op_get(&table, def)->n_inputs, "%s", text);
        const struct op_input *in = op_input_of(&table, def, index);
        cr_assert_str_eq(in->name, input, "%s", text);
        cr_assert_str_eq(in->state ? "STATE" : rule_names[in->rule], rule, "%s", text);
        cr_assert_eq(in->variadic, strcmp(option, "Variadic") == 0, "%s", text);
        if (!in->variadic) cr_assert_eq(in->optional, strcmp(option, "Optional") == 0, "%s", text);
    }
    fclose(f);
    cr_assert_eq(rows, 943);
    unsigned inputs = 0;
    for (uint32_t i = 1; i < table.n_defs; i++)
        if (strcmp(table.defs[i].domain, "ddpc") != 0) inputs += table.defs[i].n_inputs;
    cr_assert_eq(inputs, rows);
}

Test(ops, every_definition_is_found_and_well_formed) {
    for (uint32_t i = 1; i < table.n_defs; i++) {
        const struct op_def *op = op_get(&table, i);
        cr_assert_eq(op_find(&table, op->domain, op->name), i, "%s.%s", op->domain, op->name);
        cr_assert_geq(op->max_outputs, 1, "%s", op->name);
        bool passes = false;
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            const struct op_input *in = op_input_of(&table, i, k);
            passes |= in->rule != OP_STOP;
            cr_assert(!in->state || in->rule == OP_STOP, "%s", op->name);
            cr_assert(!in->variadic || k + 1 == op->n_inputs, "%s", op->name);
        }
        cr_assert_eq(op->grad_outputs != 0, passes || op->out_dtype == OP_DTYPE_BODY, "%s",
                     op->name);
    }
}

Test(ops, domains) {
    cr_assert_eq(find("", "Conv"), find("ai.onnx", "Conv"));
    cr_assert_eq(op_find(&table, "ddpc", "Conv"), 0);
    cr_assert_eq(op_find(&table, "", "StopGradient"), 0);
    cr_assert_eq(op_input_of(&table, find("ddpc", "StopGradient"), 0)->rule, OP_STOP);
    cr_assert_eq(op_find(&table, "", ""), 0);
    find("", "Constant");
    find("", "RandomNormal");
    find("", "RandomUniform");
    find("", "SequenceEmpty");
    find("", "Upsample");
    find("", "Scatter");
}

Test(ops, variadic_tails_and_beyond) {
    uint32_t concat = find("", "Concat"), loop = find("", "Loop"), relu = find("", "Relu");
    cr_assert_eq(op_input_of(&table, concat, 1000)->rule, OP_FLOW_IF_FLOAT);
    cr_assert_eq(op_input_of(&table, loop, 1)->rule, OP_STOP);
    cr_assert_eq(op_input_of(&table, loop, 7)->rule, OP_BODY);
    cr_assert_eq(op_input_of(&table, relu, 1)->rule, OP_STOP);
    cr_assert_eq(op_input_of(&table, find("", "Constant"), 0)->rule, OP_STOP);
}

static bool carries(const char *name, uint32_t output) {
    return op_output_carries(op_get(&table, find("", name)), output);
}

Test(ops, outputs_that_carry) {
    cr_assert(carries("TopK", 0) && !carries("TopK", 1));
    cr_assert(carries("MaxPool", 0) && !carries("MaxPool", 1));
    cr_assert(carries("BatchNormalization", 0) && !carries("BatchNormalization", 1));
    cr_assert(!carries("BatchNormalization", 2));
    cr_assert(carries("Dropout", 0) && !carries("Dropout", 1));
    cr_assert(carries("LSTM", 0) && carries("LSTM", 1) && carries("LSTM", 2));
    cr_assert(carries("Split", 0) && carries("Split", 31) && carries("Split", 500));
    const struct op_def *skip = op_get(&table, find("com.microsoft", "SkipLayerNormalization"));
    cr_assert(op_output_carries(skip, 0) && !op_output_carries(skip, 1));
    cr_assert(!op_output_carries(skip, 2) && op_output_carries(skip, 3));
    cr_assert(!carries("Unique", 0) && !carries("ArgMax", 0) && !carries("Shape", 0));
    cr_assert(carries("Floor", 0) && carries("QuantizeLinear", 0));
}

Test(ops, inputs_that_some_outputs_do_not_depend_on) {
    uint32_t skip = find("com.microsoft", "SkipLayerNormalization"),
             attention = find("", "Attention");
    cr_assert(op_input_reaches(op_input_of(&table, skip, 2), 0));
    cr_assert(!op_input_reaches(op_input_of(&table, skip, 2), 3));
    cr_assert(op_input_reaches(op_input_of(&table, skip, 4), 3));
    cr_assert(!op_input_reaches(op_input_of(&table, attention, 0), 1));
    cr_assert(op_input_reaches(op_input_of(&table, attention, 1), 3));
    cr_assert(!op_input_reaches(op_input_of(&table, attention, 1), 2));
    cr_assert(op_input_reaches(op_input_of(&table, find("", "Split"), 0), 100));
}

Test(ops, state_inputs) {
    static const struct {
        const char *name;
        uint32_t bits;
    } state[] = {{"BatchNormalization", 0x18},
                 {"NegativeLogLikelihoodLoss", 4},
                 {"SoftmaxCrossEntropyLoss", 4},
                 {"QuantizeLinear", 6},
                 {"DequantizeLinear", 6},
                 {"QLinearConv", 0xf6},
                 {"QLinearMatMul", 0xf6},
                 {"Dropout", 2},
                 {"Resize", 6},
                 {"Upsample", 2},
                 {"ConvInteger", 0xc},
                 {"MatMulInteger", 0xc}};
    for (uint32_t i = 1; i < table.n_defs; i++) {
        const struct op_def *op = op_get(&table, i);
        if (*op->domain) continue; /* the list of rules has the others */
        uint32_t bits = 0, expected = 0;
        for (uint32_t k = 0; k < op->n_inputs; k++)
            if (op_input_of(&table, i, k)->state) bits |= 1u << k;
        for (size_t k = 0; k < sizeof state / sizeof *state; k++)
            if (strcmp(state[k].name, op->name) == 0) expected = state[k].bits;
        cr_assert_eq(bits, expected, "%s", op->name);
    }
}

Test(ops, least_inputs_depend_on_the_opset) {
    cr_assert_eq(op_min_inputs(&table, find("", "Slice"), 9), 1);
    cr_assert_eq(op_min_inputs(&table, find("", "Slice"), 10), 3);
    cr_assert_eq(op_min_inputs(&table, find("", "Slice"), 0), 3);
    cr_assert_eq(op_min_inputs(&table, find("", "Unsqueeze"), 12), 1);
    cr_assert_eq(op_min_inputs(&table, find("", "Unsqueeze"), 13), 2);
    cr_assert_eq(op_min_inputs(&table, find("", "Gemm"), 17), 2);
    cr_assert_eq(op_min_inputs(&table, find("", "Loop"), 17), 0);
    cr_assert_eq(op_min_inputs(&table, find("", "Concat"), 17), 1);
    cr_assert_eq(op_min_inputs(&table, find("", "Tile"), 5), 3);
    cr_assert_eq(op_max_inputs(&table, find("", "Tile"), 5), 3);
    cr_assert_eq(op_min_inputs(&table, find("", "Tile"), 6), 2);
    cr_assert_eq(op_max_inputs(&table, find("", "Tile"), 6), 2);
    cr_assert_eq(op_max_inputs(&table, find("", "Tile"), 0), 2);
    cr_assert_eq(op_max_inputs(&table, find("", "Concat"), 17), UINT32_MAX);
}

Test(ops, nearest) {
    cr_assert_str_eq(op_nearest(&table, "", "Gem"), "Gemm");
    cr_assert_str_eq(op_nearest(&table, "ai.onnx", "LayerNormalisation"), "LayerNormalization");
    cr_assert_null(op_nearest(&table, "", "Frobnicate"));
    cr_assert_null(op_nearest(&table, "no.such", "Gemm"));
}

Test(ops, assumed_by_glob) {
    cr_assert_eq(op_resolve(&table, "my.domain", "Foo"), 0);
    op_table_assume(&table, "my.domain.*");
    cr_assert_eq(op_find(&table, "my.domain", "Foo"), 0,
                 "an assumption adds only what is asked for");
    uint32_t foo = op_resolve(&table, "my.domain", "Foo");
    cr_assert(foo);
    cr_assert_eq(op_resolve(&table, "my.domain", "Foo"), foo);
    cr_assert_eq(op_find(&table, "my.domain", "Foo"), foo);
    cr_assert_eq(op_get(&table, foo)->flags & OP_ASSUMED, OP_ASSUMED);
    cr_assert_eq(op_input_of(&table, foo, 40)->rule, OP_FLOW_IF_FLOAT);
    cr_assert(op_output_carries(op_get(&table, foo), 40));
    cr_assert_eq(op_resolve(&table, "my.domainx", "Foo"), 0);
    cr_assert_eq(op_get(&table, op_resolve(&table, "", "Relu"))->flags, OP_PLAIN);
    op_table_assume(&table, "Custom?");
    cr_assert(op_resolve(&table, "ai.onnx", "CustomA"));
}

Test(ops, every_function_of_torch) {
    uint32_t linear = op_resolve(&table, "torch", "linear"), known = table.n_defs;
    cr_assert_str_eq(op_get(&table, linear)->name, "linear");
    cr_assert_eq(op_get(&table, linear)->flags, OP_RANDOM, "nobody has to vouch for it");
    cr_assert_eq(op_resolve(&table, "torch", "linear"), linear);
    cr_assert_neq(op_resolve(&table, "torch", "add_"), linear);
    cr_assert_eq(table.n_defs, known + 1);
    cr_assert_eq(op_input_of(&table, linear, 0)->rule, OP_FLOW_IF_FLOAT);
    cr_assert_eq(op_input_of(&table, linear, 90)->rule, OP_FLOW_IF_FLOAT);
    cr_assert(op_output_carries(op_get(&table, linear), 90));
    cr_assert_eq(op_min_inputs(&table, linear, 1), 0);
    cr_assert_eq(op_resolve(&table, "ddpc", "linear"), 0, "of that domain alone");
}

Test(ops, thousands_of_assumed_operators) {
    op_table_assume(&table, "big.*");
    char name[16];
    uint32_t first = 0;
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "Op%d", i);
        uint32_t def = op_resolve(&table, "big", name);
        if (!i) first = def;
        cr_assert_eq(def, first + (uint32_t)i);
    }
    cr_assert_eq(op_find(&table, "big", "Op17"), first + 17);
    cr_assert(op_find(&table, "", "Relu"));
}

static bool read_text(const char *text) {
    char path[] = "/tmp/test_ops_XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fputs(text, f);
    fclose(f);
    bool ok = op_table_read(&table, path, &diags);
    remove(path);
    return ok;
}

Test(ops, torch_declared_in_a_file) {
    cr_assert(read_text("torch.rounded x=STOP -> y=FLOW\n"));
    cr_assert_eq(op_input_of(&table, op_resolve(&table, "torch", "rounded"), 0)->rule, OP_STOP);
}

Test(ops, declared_in_a_file) {
    cr_assert(
        read_text("# ours\n\n"
                  "my.domain.Gate x=FLOW k=STOP mean=STATE bias?=ZERO -> y=FLOW i=STOP # two\r\n"
                  "my.domain.Stack items*=FLOW_IF_FLOAT\n"
                  "Own x=FLOW -> a=STOP rest*=FLOW\n"
                  "QuantizeLinear x=FLOW y_scale=FLOW y_zero_point?=STATE"));
    uint32_t gate = find("my.domain", "Gate");
    const struct op_def *op = op_get(&table, gate);
    cr_assert_eq(op->n_inputs, 4);
    cr_assert_eq(op->max_outputs, 2);
    cr_assert_eq(op->grad_outputs, 1);
    cr_assert_eq(op->flags & OP_ASSUMED, OP_ASSUMED);
    cr_assert_eq(op_input_of(&table, gate, 0)->rule, OP_FLOW);
    cr_assert_eq(op_input_of(&table, gate, 1)->rule, OP_STOP);
    cr_assert(op_input_of(&table, gate, 2)->state && !op_input_of(&table, gate, 1)->state);
    cr_assert_eq(op_input_of(&table, gate, 3)->rule, OP_ZERO);
    cr_assert_str_eq(op_input_of(&table, gate, 3)->name, "bias");
    cr_assert_eq(op_min_inputs(&table, gate, 1), 3);
    uint32_t stack = find("my.domain", "Stack");
    cr_assert_eq(op_input_of(&table, stack, 9)->rule, OP_FLOW_IF_FLOAT);
    cr_assert_eq(op_get(&table, stack)->max_outputs, OP_ANY);
    cr_assert_eq(op_get(&table, find("", "Own"))->grad_outputs, UINT32_MAX << 1);
    cr_assert_eq(op_input_of(&table, find("", "QuantizeLinear"), 1)->rule, OP_FLOW,
                 "a declaration takes precedence");
}

Test(ops, files_that_cannot_be_read) {
    static const char *const bad[] = {"my.Op x=GLOW\n",
                                      "my.Op x\n",
                                      "my.Op =FLOW\n",
                                      "my.Op x=FLOW ->\n",
                                      "my.Op a*=FLOW b=FLOW\n",
                                      "my.Op x=FLOW -> y=ZERO\n",
                                      "Loop x=FLOW\n",
                                      "my.A x=FLOW\nmy.A x=STOP\n",
                                      "x=FLOW\n",
                                      "my. x=FLOW\n",
                                      "my.Op x=BODY\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t errors = diags.errors;
        cr_assert(!read_text(bad[i]), "%s", bad[i]);
        cr_assert_eq(diags.errors, errors + 1, "%s", bad[i]);
        cr_assert_eq(diags.all.at[errors]->code, DIAG_OPS_FILE, "%s", bad[i]);
        op_table_free(&table);
        op_table_init(&table);
    }
    cr_assert(!op_table_read(&table, "/nonexistent/ops.txt", &diags));
    cr_assert_eq(diags.all.at[diags.all.n - 1]->code, DIAG_CANNOT_READ);
}
