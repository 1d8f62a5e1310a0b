/* What the backward of a node takes on a device, estimated from shapes.
 *
 * A node's backward is one kernel or a few: the gradient of each input that wants one. A kernel
 * takes the largest of its arithmetic (FLOPs over the reached part of the peak), its traffic
 * (bytes over the reached part of the memory's rate) and the launch floor: the roofline model.
 * Products and convolutions cost per wanted input what the forward costs, so twice the forward if
 * both are wanted; attention 2.5 times the forward, as the usual kernels recompute the scores;
 * normalizations two passes; element-wise operators about three activations. A gathered table gets
 * a dense gradient: all of it is written, however few rows were read. Sums pass gradients on, and
 * casts, slices and the like move them. Reshapes and transpositions are views and free. Operators
 * without a formula are taken for element-wise. Where a count of elements is unknown, the node
 * costs the floor and the caller is told. */
#include "schedule.h"
#include <string.h>

struct work {
    const struct ir_module *m;
    const struct device *dev;
    const bool *needs; /* by value; NULL: all */
    ir_node node;
    double us;
    bool unknown; /* a size was missing */
};

static bool wanted(const struct work *w, ir_value v) { return v && (!w->needs || w->needs[v]); }

static double elements(struct work *w, ir_value v) {
    if (v == 0) return 0;
    int64_t n = ir_type_elements(w->m, w->m->value.at[v].type);
    if (n < 0) w->unknown = true;
    return (double)n;
}

static double bytes(struct work *w, ir_value v) {
    enum ir_dtype t = ir_type_dtype(w->m, w->m->value.at[v].type);
    return elements(w, v) * (double)ir_dtype_bits(t) / 8;
}

/* The dimension `at` (from the end if negative); unknown, or of too low a rank: 1, and w is told.
 */
static double dim(struct work *w, ir_value v, int32_t at) {
    const struct ir_type_info *t = &w->m->type.at[w->m->value.at[v].type];
    if (at < 0) at += t->rank;
    if (t->kind == IR_TYPE_TENSOR && at >= 0 && at < t->rank) {
        int64_t size = w->m->dim.at[t->dims + (uint32_t)at].size;
        if (w->m->dim.at[t->dims + (uint32_t)at].symbol == 0 && size > 0) return (double)size;
    }
    w->unknown = true;
    return 1;
}

static double larger(double a, double b) { return a > b ? a : b; }

static void kernel(struct work *w, double flops, double efficiency, double traffic) {
    double compute = flops / (efficiency * w->dev->flops_per_us);
    double memory = traffic / (w->dev->memory * w->dev->bytes_per_us);
    w->us += larger(larger(compute, memory), w->dev->floor_us);
}

static ir_value input(const struct work *w, uint32_t i) { return ir_input(w->m, w->node, i); }
static ir_value output(const struct work *w, uint32_t i) { return ir_outputs(w->m, w->node)[i]; }

/* The traffic of a kernel that reads or writes all inputs and outputs once. */
static double all_bytes(struct work *w) {
    const struct ir_node_info *n = &w->m->node.at[w->node];
    double sum = 0;
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (output(w, i)) sum += bytes(w, output(w, i));
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (input(w, i)) sum += bytes(w, input(w, i));
    return sum;
}

/* One kernel of `flops` for each wanted one of the two factors, and a reduction for the bias. */
static void product_of(struct work *w, uint32_t factors, uint32_t bias, double flops,
                       double efficiency) {
    for (uint32_t i = factors; i < factors + 2; i++)
        if (wanted(w, input(w, i))) kernel(w, flops, efficiency, all_bytes(w));
    ir_value b = input(w, bias);
    if (wanted(w, b)) kernel(w, 0, 1, bytes(w, output(w, 0)) + bytes(w, b));
}

static void product(struct work *w, double flops, double efficiency) {
    product_of(w, 0, 2, flops, efficiency);
}

static void free_view(struct work *w) { (void)w; }

/* One kernel that reads the outputs' gradients and passes `times` over each input that wants one. */
static void passes_over_inputs(struct work *w, double times) {
    const struct ir_node_info *n = &w->m->node.at[w->node];
    double traffic = 0;
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (output(w, i)) traffic += bytes(w, output(w, i));
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (wanted(w, input(w, i))) traffic += times * bytes(w, input(w, i));
    kernel(w, 0, 1, traffic);
}

/* It reads the input and writes its gradient. */
static void elementwise(struct work *w) { passes_over_inputs(w, 2); }

/* What it computes is linear, so that its backward reads no input: it moves the outputs' gradients
 * to the inputs'. */
static void move(struct work *w) { passes_over_inputs(w, 1); }

/* A term as large as the sum gets the sum's gradient itself; where there are several, their paths
 * part above, and there the gradients are added. A smaller one was broadcast, and is summed over. */
static void sum(struct work *w) {
    const struct ir_node_info *n = &w->m->node.at[w->node];
    double of_sum = bytes(w, output(w, 0));
    uint32_t whole = 0;
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        if (!wanted(w, input(w, i))) continue;
        double of_term = bytes(w, input(w, i));
        if (of_term < of_sum)
            kernel(w, 0, 1, of_sum + of_term);
        else if (whole++)
            kernel(w, 0, 1, 3 * of_sum);
    }
}

static void matmul(struct work *w) {
    product(w, 2 * elements(w, output(w, 0)) * dim(w, input(w, 0), -1), w->dev->matmul);
}

/* torch: the bias comes first. */
static void addmm(struct work *w) {
    double inner = dim(w, input(w, 1), -1);
    product_of(w, 1, 0, 2 * elements(w, output(w, 0)) * inner, w->dev->matmul);
}

static void gemm(struct work *w) {
    bool trans = ir_attr_int(w->m, w->node, "transA", 0) != 0;
    product(w, 2 * elements(w, output(w, 0)) * dim(w, input(w, 0), trans ? 0 : 1), w->dev->matmul);
}

/* Weights are [Cout, Cin/groups, filter...]: each output element takes |W| / Cout products. */
static void conv(struct work *w) {
    double per_output = elements(w, input(w, 1)) / dim(w, input(w, 1), 0);
    product(w, 2 * elements(w, output(w, 0)) * per_output, w->dev->convolution);
}

/* Weights are [Cin, Cout/groups, filter...]: each input element takes part in |W| / Cin products.
 */
static void conv_transpose(struct work *w) {
    double per_input = elements(w, input(w, 1)) / dim(w, input(w, 1), 0);
    product(w, 2 * elements(w, input(w, 0)) * per_input, w->dev->convolution);
}

/* Queries and keys are [batch, heads, length, size] or [batch, length, heads x size]. */
static void attention(struct work *w) {
    ir_value k = input(w, 1);
    double keys = dim(w, k, w->m->type.at[w->m->value.at[k].type].rank == 3 ? 1 : 2);
    double forward = 2 * keys * (elements(w, input(w, 0)) + elements(w, output(w, 0)));
    if (ir_attr_int(w->m, w->node, "is_causal", 0)) forward /= 2;
    kernel(w, 2.5 * forward, w->dev->attention, 2 * all_bytes(w));
}

/* A pass that reads dY and X for the sums, and one that reads them again and writes dX. */
static void normalization(struct work *w) {
    double x = bytes(w, input(w, 0));
    kernel(w, 0, 1, 2 * x);
    kernel(w, 0, 1, 3 * x);
}

static void gather(struct work *w) {
    kernel(w, 0, 1, bytes(w, input(w, 0)) + bytes(w, output(w, 0)));
}

/* X is [length, batch, inputs], W and R the weights of all gates: twice the forward's products, and
 * a kernel per time step at least. */
static void recurrent(struct work *w) {
    ir_value x = input(w, 0);
    bool batch_first = ir_attr_int(w->m, w->node, "layout", 0) != 0;
    double rows = elements(w, x) / dim(w, x, 2), length = dim(w, x, batch_first ? 1 : 0);
    double weights = elements(w, input(w, 1)) + elements(w, input(w, 2));
    kernel(w, 4 * rows * weights, w->dev->matmul, 2 * all_bytes(w));
    w->us = larger(w->us, length * w->dev->floor_us);
}

/* The product of the sizes of all letters, for each wanted operand. */
static void einsum(struct work *w) {
    ir_attr a = ir_attr_find(w->m, w->node, "equation");
    if (!a || w->m->attr.at[a].kind != IR_ATTR_STRING) {
        elementwise(w);
        return;
    }
    const char *c = ir_text(w->m, w->m->attr_value.at[w->m->attr.at[a].values].s);
    double size = 1;
    uint64_t seen = 0;
    int32_t at = 0;
    uint32_t operand = 0;
    for (; *c && *c != '-'; c++) {
        if (*c == ' ') continue;
        if (*c == '.') { /* an ellipsis: which dimensions it stands for is not worked out */
            elementwise(w);
            return;
        }
        if (*c == ',') {
            operand++;
            at = 0;
            continue;
        }
        uint64_t bit = UINT64_C(1) << (*c & 63);
        if (!(seen & bit)) size *= dim(w, input(w, operand), at);
        seen |= bit;
        at++;
    }
    for (uint32_t i = 0; i < w->m->node.at[w->node].n_inputs; i++)
        if (wanted(w, input(w, i))) kernel(w, 2 * size, w->dev->matmul, all_bytes(w));
}

/* torch's recurrent layers and multi-head attention in one call: every row of the first input meets
 * each weight matrix, twice the forward's products. */
static void layers(struct work *w) {
    double weights = 0, rows = elements(w, input(w, 0)) / dim(w, input(w, 0), -1);
    for (uint32_t i = 1; i < w->m->node.at[w->node].n_inputs; i++) {
        ir_value v = input(w, i);
        if (v && w->m->type.at[w->m->value.at[v].type].rank == 2) weights += elements(w, v);
    }
    kernel(w, 4 * rows * weights, w->dev->matmul, 2 * all_bytes(w));
}

/* torch: what was read, in whatever place of the call, gets a dense gradient. */
static void lookup(struct work *w) {
    double traffic = bytes(w, output(w, 0));
    for (uint32_t i = 0; i < w->m->node.at[w->node].n_inputs; i++)
        if (wanted(w, input(w, i))) traffic += bytes(w, input(w, i));
    kernel(w, 0, 1, traffic);
}

struct formula {
    const char *op;
    uint32_t inputs; /* that it looks at; 0 for views */
    void (*run)(struct work *w);
};

/* Both ascending by name. */
static const struct formula formulas[] = {
    {"Add", 1, sum},
    {"Attention", 3, attention},
    {"BatchNormalization", 1, normalization},
    {"Cast", 1, move},
    {"Concat", 1, move},
    {"Conv", 2, conv},
    {"ConvTranspose", 2, conv_transpose},
    {"Einsum", 1, einsum},
    {"Expand", 1, move},
    {"Flatten", 0, free_view},
    {"GRU", 3, recurrent},
    {"Gather", 2, gather},
    {"GatherElements", 2, gather},
    {"GatherND", 2, gather},
    {"Gemm", 2, gemm},
    {"GroupNormalization", 1, normalization},
    {"Identity", 0, free_view},
    {"If", 0, free_view},
    {"InstanceNormalization", 1, normalization},
    {"LSTM", 3, recurrent},
    {"LayerNormalization", 1, normalization},
    {"Loop", 0, free_view},
    {"MatMul", 2, matmul},
    {"Neg", 1, move},
    {"Pad", 1, move},
    {"RMSNormalization", 1, normalization},
    {"RNN", 3, recurrent},
    {"ReduceMean", 1, move},
    {"ReduceSum", 1, move},
    {"Reshape", 0, free_view},
    {"Scan", 0, free_view},
    {"SequenceMap", 0, free_view},
    {"Slice", 1, move},
    {"Split", 1, move},
    {"Squeeze", 0, free_view},
    {"Sub", 1, sum},
    {"Sum", 1, sum},
    {"Tile", 1, move},
    {"Transpose", 0, free_view},
    {"Unsqueeze", 0, free_view},
};

static const struct formula torch_formulas[] = {
    {"T", 0, free_view},
    {"__add__", 1, sum},
    {"__getitem__", 1, lookup},
    {"__iadd__", 1, sum},
    {"__isub__", 1, sum},
    {"__matmul__", 2, matmul},
    {"__radd__", 1, sum},
    {"__sub__", 1, sum},
    {"add", 1, sum},
    {"add_", 1, sum},
    {"addmm", 3, addmm},
    {"alias", 0, free_view},
    {"baddbmm", 3, addmm},
    {"batch_norm", 1, normalization},
    {"bfloat16", 1, move},
    {"bmm", 2, matmul},
    {"cat", 1, move},
    {"chunk", 1, move},
    {"clone", 1, move},
    {"concat", 1, move},
    {"contiguous", 1, move},
    {"conv1d", 2, conv},
    {"conv2d", 2, conv},
    {"conv3d", 2, conv},
    {"conv_transpose1d", 2, conv_transpose},
    {"conv_transpose2d", 2, conv_transpose},
    {"conv_transpose3d", 2, conv_transpose},
    {"detach", 0, free_view},
    {"double", 1, move},
    {"embedding", 2, lookup},
    {"embedding_bag", 2, lookup},
    {"expand", 1, move},
    {"expand_as", 1, move},
    {"flatten", 0, free_view},
    {"float", 1, move},
    {"gather", 2, lookup},
    {"group_norm", 1, normalization},
    {"gru", 3, layers},
    {"half", 1, move},
    {"index_select", 2, lookup},
    {"instance_norm", 1, normalization},
    {"layer_norm", 1, normalization},
    {"linear", 2, matmul},
    {"lstm", 3, layers},
    {"matmul", 2, matmul},
    {"mean", 1, move},
    {"mm", 2, matmul},
    {"movedim", 0, free_view},
    {"multi_head_attention_forward", 3, layers},
    {"neg", 1, move},
    {"pad", 1, move},
    {"permute", 0, free_view},
    {"repeat", 1, move},
    {"reshape", 0, free_view},
    {"rms_norm", 1, normalization},
    {"rnn_relu", 3, layers},
    {"rnn_tanh", 3, layers},
    {"scaled_dot_product_attention", 3, attention},
    {"split", 1, move},
    {"squeeze", 0, free_view},
    {"sub", 1, sum},
    {"sub_", 1, sum},
    {"sum", 1, move},
    {"swapaxes", 0, free_view},
    {"t", 0, free_view},
    {"to", 1, move},
    {"transpose", 0, free_view},
    {"unflatten", 0, free_view},
    {"unsqueeze", 0, free_view},
    {"view", 0, free_view},
    {"view_as", 0, free_view},
};

static const struct formula *formula_of(const struct formula *table, size_t n, const char *op) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = strcmp(op, table[mid].op);
        if (order == 0) return &table[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

double cost_backward_us(const struct program *p, const struct device *dev, ir_node n,
                        const bool *needs, bool *unknown) {
    const struct ir_module *m = p->m;
    const struct ir_node_info *node = &m->node.at[n];
    struct work w = {.m = m, .dev = dev, .needs = needs, .node = n};
    const char *domain = ir_text(m, node->domain);
    const struct formula *f = NULL;
    const char *op = ir_text(m, node->op);
    if (!*domain || strcmp(domain, "ai.onnx") == 0)
        f = formula_of(formulas, sizeof formulas / sizeof *formulas, op);
    else if (strcmp(domain, "torch") == 0)
        f = formula_of(torch_formulas, sizeof torch_formulas / sizeof *torch_formulas, op);
    bool complete = f && (f->inputs == 0 || output(&w, 0));
    for (uint32_t i = 0; complete && i < f->inputs; i++) complete = input(&w, i) != 0;
    if (complete)
        f->run(&w);
    else
        elementwise(&w);
    *unknown = w.unknown;
    return w.unknown ? dev->floor_us : w.us;
}
