/* Shapes of transforms and windows of signals, of operators on text, and of ai.onnx.ml. */
#include "shape_rules.h"

/* ---- signals --------------------------------------------------------------------------------- */

/* An input that is one number; otherwise not known. */
static struct element number(const struct facts *f, ir_node n, uint32_t input) {
    struct elements e;
    bool one = ir_input(f->m, n, input) && facts_elements(f, ir_input(f->m, n, input), &e);
    return one && e.n == 1 ? e.at[0] : ELEMENT_UNKNOWN;
}

/* What of a spectrum of so many is kept if it is real. */
static struct ir_dim one_side(struct ir_dim length) {
    return dim_is_fixed(length) ? dim_fixed(length.size / 2 + 1) : DIM_UNKNOWN;
}

static void window(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_set_rank(out, 1);
    out->dim[0] = element_dim(number(f, n, 0));
}

static void mel(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_set_rank(out, 2);
    out->dim[0] = one_side(element_dim(number(f, n, 1)));
    out->dim[1] = element_dim(number(f, n, 0));
}

/* The axis is an attribute (opset 17) or an input (20), of different defaults: those of a signal
 * [batch, length, parts] agree. */
static void dft(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct numbers given;
    (void)output;
    if (!shape_of_input(f, n, 0, out)) return;
    bool has_axis = numbers_of_attr_or_input(f, n, "axis", 2, &given);
    int64_t axis = has_axis ? numbers_at(&given, 0, INT64_MAX) : out->rank == 3 ? 1 : INT64_MAX;
    bool half = ir_attr_int(f->m, n, "onesided", 0), inverse = ir_attr_int(f->m, n, "inverse", 0);
    if (axis == INT64_MAX || shape_axis(axis, out->rank) < 0 || (half && inverse)) {
        shape_set_rank(out, out->rank);
        return;
    }
    struct ir_dim *length = &out->dim[shape_axis(axis, out->rank)];
    if (ir_input(f->m, n, 1)) *length = element_dim(number(f, n, 1));
    if (half) *length = one_side(*length);
    out->dim[out->rank - 1] = dim_fixed(2);
}

static void stft(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct shape signal, w;
    struct element step = number(f, n, 1), length = number(f, n, 3);
    (void)output;
    bool known = shape_of_input(f, n, 0, &signal);
    shape_set_rank(out, 4);
    out->dim[3] = dim_fixed(2);
    if (known && signal.rank > 1) out->dim[0] = signal.dim[0];
    if (!length.known && shape_of_input(f, n, 2, &w) && w.rank == 1)
        length = element_of_dim(w.dim[0]);
    struct ir_dim bins = element_dim(length);
    out->dim[2] = ir_attr_int(f->m, n, "onesided", 1) ? one_side(bins) : bins;
    if (known && signal.rank > 1 && dim_is_fixed(signal.dim[1]) && length.known && step.known &&
        step.n > 0 && length.n >= 0 && signal.dim[1].size >= length.n)
        out->dim[1] = dim_fixed((signal.dim[1].size - length.n) / step.n + 1);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void split_words(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    if (!shape_of_input(f, n, 0, out) || output == 1) return;
    if (out->rank < SHAPE_MAX_RANK)
        out->dim[out->rank++] = DIM_UNKNOWN;
    else
        shape_give_up(out);
}

static void last_open(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    if (shape_of_input(f, n, 0, out) && out->rank > 0) out->dim[out->rank - 1] = DIM_UNKNOWN;
}

static void n_grams(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    struct numbers at;
    int64_t largest = -1;
    (void)output;
    bool known = shape_of_input(f, n, 0, out);
    numbers_of_attr(f, n, "ngram_indexes", &at);
    for (uint32_t i = 0; i < at.n; i++) largest = at.at[i] > largest ? at.at[i] : largest;
    if (known && out->rank > 0) out->dim[out->rank - 1] = dim_fixed(at.n ? largest + 1 : -1);
}

const struct shape_rules shape_rules_signal[] = {
    {window, "BlackmanWindow HammingWindow HannWindow"},
    {mel, "MelWeightMatrix"},
    {dft, "DFT"},
    {stft, "STFT"},
    {split_words, "StringSplit"},
    {last_open, "StringNormalizer"},
    {n_grams, "TfIdfVectorizer"},
    {NULL, NULL},
};

/* ---- ai.onnx.ml ------------------------------------------------------------------------------ */

static void as_input(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    shape_of_input(f, n, 0, out);
}

/* [batch, targets]; of classifiers the labels, then what each class scores. */
static void per_row(const struct facts *f, ir_node n, const char *count, struct shape *out) {
    struct shape x;
    bool known = shape_of_input(f, n, 0, &x) && x.rank == 2;
    shape_set_rank(out, 2);
    if (known) out->dim[0] = x.dim[0];
    if (count) out->dim[1] = dim_fixed(ir_attr_int(f->m, n, count, -1));
}

static void regress(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    (void)output;
    per_row(f, n, ir_attr_find(f->m, n, "n_targets") ? "n_targets" : "targets", out);
}

static void classify(const struct facts *f, ir_node n, uint32_t output, struct shape *out) {
    per_row(f, n, NULL, out);
    if (output == 0) out->rank = 1;
}

const struct shape_rules shape_rules_ml[] = {
    {as_input, "Binarizer Imputer LabelEncoder Normalizer Scaler CategoryMapper"},
    {regress, "LinearRegressor TreeEnsemble TreeEnsembleRegressor"},
    {classify, "LinearClassifier SVMClassifier TreeEnsembleClassifier"},
    {NULL, NULL},
};
