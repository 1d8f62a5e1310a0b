/* The numbers of tensors.
 *
 * A payload is checked and counted, not kept: the module remembers where it stands. Only integers
 * and booleans of up to IR_MAX_INTS elements are kept too, since trip counts, conditions and shapes
 * are among them. Weights written as text can be most of a file, so the loop over numbers touches
 * each byte once and converts nothing unless it is to be kept or might be out of range.
 *
 * A wrong number is reported once for its payload, and reading goes on behind the closing brace. */
#include "parse.h"
#include <math.h>

static const char data_form[] = "data reads: {1, 2, 3} or [\"location\": \"weights.bin\"]";

static bool is_integer_type(enum ir_dtype t) {
    return t == IR_BOOL || t == IR_INT2 || t == IR_INT4 || t == IR_INT8 || t == IR_INT16 ||
           t == IR_INT32 || t == IR_INT64 || t == IR_UINT2 || t == IR_UINT4 || t == IR_UINT8 ||
           t == IR_UINT16 || t == IR_UINT32 || t == IR_UINT64;
}

/* So few digits reach the largest float only with an exponent of two, unless it is negative. */
static bool surely_in_range(enum lex_number_kind kind, struct span s) {
    if (s.len > 28) return false;
    if (kind != LEX_SCIENTIFIC) return true;
    size_t digits = 0;
    while (lex_is(s.s[s.len - 1 - digits], LEX_DIGIT)) digits++;
    return digits < 2 || s.s[s.len - 1 - digits] == '-';
}

/* How far an integer type's elements go below and above zero. Where several are packed into a
 * byte, one number may stand for all of them. */
struct range {
    uint64_t below, above;
};

static struct range range_of(enum ir_dtype t) {
    if (t == IR_BOOL) return (struct range){0, 1};
    uint32_t bits = ir_dtype_bits(t);
    if (bits < 8) return (struct range){128, 255};
    bool is_signed = t == IR_INT8 || t == IR_INT16 || t == IR_INT32 || t == IR_INT64;
    uint64_t all = UINT64_MAX >> (64 - bits);
    return is_signed ? (struct range){all / 2 + 1, all / 2} : (struct range){0, all};
}

static bool check_number(struct parser *p, enum ir_dtype dtype, enum lex_number_kind kind,
                         struct span s, int64_t *value) {
    ir_loc loc = (ir_loc)(s.s - p->lex.base);
    bool integer = is_integer_type(dtype);
    *value = 0;
    if (integer && kind != LEX_INT) {
        struct diag *g = parse_error(p, DIAG_BAD_NUMBER, loc, s.len, "%s data holds '%.*s'",
                                     ir_dtype_text(dtype), (int)(s.len < 80 ? s.len : 80), s.s);
        if (g)
            diag_set_help(p->d, g, "elements of this type are integers%s",
                          dtype == IR_BOOL ? ", 0 or 1" : "");
        return false;
    }
    bool ok = true;
    if (integer) {
        uint64_t magnitude;
        bool negative;
        struct range range = range_of(dtype);
        ok = lex_int_value(s, &magnitude, &negative) &&
             magnitude <= (negative ? range.below : range.above);
        *value = (int64_t)(negative ? 0 - magnitude : magnitude);
    } else if (kind != LEX_INF && kind != LEX_NAN && !surely_in_range(kind, s)) {
        double x = lex_float_value(kind, s);
        bool wide = dtype == IR_DOUBLE || dtype == IR_COMPLEX128;
        ok = isfinite(wide ? x : lex_float32(x));
    }
    if (ok) return true;
    struct diag *g =
        parse_error(p, DIAG_NUMBER_RANGE, loc, s.len, "'%.*s' is out of range for %s",
                    (int)(s.len < 80 ? s.len : 80), s.s, dtype ? ir_dtype_text(dtype) : "64 bits");
    struct range range = integer ? range_of(dtype) : (struct range){0};
    if (g && integer)
        diag_set_help(p->d, g, "the type holds %s%llu to %llu", range.below ? "-" : "",
                      (unsigned long long)range.below, (unsigned long long)range.above);
    else if (g)
        diag_set_help(p->d, g, "write a number that the type can hold, or inf");
    return false;
}

/* One element of the payload. */
static bool read_element(struct parser *p, enum ir_dtype dtype, int64_t *value) {
    struct lexer *l = &p->lex;
    *value = 0;
    if (lex_peek(l) == '"') {
        if (dtype == IR_STRING || dtype == IR_UNDEFINED)
            return lex_skip_string(l) || parse_expected(p, "a string");
        return parse_expected(p, "a number");
    }
    struct span s;
    enum lex_number_kind kind = dtype == IR_STRING ? LEX_NO_NUMBER : lex_number(l, &s);
    if (kind == LEX_NO_NUMBER)
        return parse_expected(p, dtype == IR_STRING ? "a string" : "a number or '}'");
    if (kind != LEX_BAD_NUMBER) return check_number(p, dtype, kind, s, value);
    struct diag *g = parse_error(p, DIAG_BAD_NUMBER, (ir_loc)(s.s - l->base), s.len,
                                 "'%.*s' is not a number", (int)(s.len < 80 ? s.len : 80), s.s);
    if (g) diag_set_help(p->d, g, "numbers read: 5, -5, 0.5, 1e-3, inf, nan");
    return false;
}

static bool read_literals(struct parser *p, enum ir_dtype dtype, struct ir_data_info *data,
                          bool *counted) {
    struct lexer *l = &p->lex;
    bool keep = is_integer_type(dtype) && ir_dtype_bits(dtype) >= 8; /* those below may be packed */
    int64_t kept[IR_MAX_INTS];
    data->kind = IR_DATA_LITERALS;
    data->loc = (ir_loc)(l->at - l->base);
    bool ok = true;
    while (ok && lex_peek(l) != '}') {
        int64_t value;
        ok = read_element(p, dtype, &value);
        if (keep && ok && data->count < IR_MAX_INTS) kept[data->count] = value;
        data->count++;
        if (ok && !lex_take(l, ',') && lex_peek(l) != '}')
            ok = parse_expected(p, "',' or '}' behind an element");
    }
    if (!ok) lex_skip_to(&p->lex, "})>");
    *counted = ok;
    data->length = (uint32_t)(l->at - l->base) - data->loc;
    if (!lex_take(l, '}')) return false;
    if (keep && data->count > 0 && data->count <= IR_MAX_INTS && *counted) {
        data->ints = p->m->ints.n;
        data->n_ints = (uint32_t)data->count;
        memcpy(vec_extend(&p->m->ints, data->n_ints), kept, data->n_ints * sizeof *kept);
    }
    return true;
}

static bool skip_pair(struct parser *p) {
    str ignored;
    return parse_string(p, "a key in quotes", &ignored) &&
           parse_take(p, ':', "':' behind the key") &&
           parse_string(p, "a value in quotes", &ignored);
}

/* The number of elements must fit the type, where it is known. Printers leave all of them out, write
 * several that share a byte as one number, and complex numbers as one or two. */
static void check_count(struct parser *p, ir_type type, const struct ir_data_info *data) {
    enum ir_dtype dtype = ir_type_dtype(p->m, type);
    int64_t expected =
        p->m->type.at[type].kind == IR_TYPE_TENSOR ? ir_type_elements(p->m, type) : -1;
    if (expected < 0 || data->count == 0 || data->count == (uint64_t)expected) return;
    uint64_t n = (uint64_t)expected, in_byte = ir_dtype_bits(dtype) ? 8 / ir_dtype_bits(dtype) : 0;
    if (in_byte > 1 && data->count == n / in_byte + (n % in_byte != 0)) return;
    bool complex = dtype == IR_COMPLEX64 || dtype == IR_COMPLEX128;
    if (complex && data->count == 2 * n) return;
    struct arena scratch = {0};
    const char *text = ir_type_text(p->m, &scratch, type);
    struct diag *g = parse_error(p, DIAG_ELEMENT_COUNT, data->loc, data->length,
                                 "%s has %lld element%s, but %llu %s given", text,
                                 (long long)expected, expected == 1 ? "" : "s",
                                 (unsigned long long)data->count, data->count == 1 ? "is" : "are");
    if (g) diag_set_help(p->d, g, "correct the shape or the data");
    arena_free(&scratch);
}

bool parse_data(struct parser *p, ir_type type, ir_data *out) {
    struct lexer *l = &p->lex;
    struct ir_data_info data = {0};
    const char *form = p->form;
    p->form = data_form;
    bool ok = true, counted = false;
    if (lex_take(l, '{')) {
        ok = read_literals(p, ir_type_dtype(p->m, type), &data, &counted);
    } else if (lex_take(l, '[')) {
        data.kind = IR_DATA_EXTERNAL;
        data.loc = (ir_loc)(l->at - l->base);
        ok = parse_list(p, ']', "',' or ']' behind an entry", skip_pair);
        if (ok) data.length = (uint32_t)(l->at - l->base) - data.loc - 1;
    } else if (lex_peek(l) == '.' && l->at[1] == '.' && l->at[2] == '.') {
        data.kind = IR_DATA_ELIDED;
        data.loc = (ir_loc)(l->at - l->base);
        data.length = 3;
        l->at += 3;
    } else if (*l->at == '}' && ir_type_dtype(p->m, type) == IR_STRING) {
        data.kind = IR_DATA_LITERALS; /* as older printers wrote a string tensor without elements */
        data.loc = (ir_loc)(l->at - l->base);
        l->at++;
    } else {
        ok = parse_expected(p, "data: '{', '[' or '...'");
    }
    p->form = form;
    if (!ok) return false;
    if (counted) check_count(p, type, &data);
    *out = p->m->data.n;
    vec_push(&p->m->data, data);
    return true;
}
