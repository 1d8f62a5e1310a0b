/* Attributes: `<axis = 1, pads: ints = [0, 0], value = float[2] {1, 2}, body = g (x) => (y)
 * {...}>`.
 *
 * The kind of a value follows from how it looks; a written kind must agree with it, except that an
 * integer may stand for a float. A list has the kind of its elements, and `[]` needs a written one.
 *
 * What starts with a word can be a number (inf), a type, a tensor (a type with data behind it, or
 * "..." where a printer left the data out, even right behind a word: `bool...`) or a graph, whose
 * name may be any of these words. A graph is told by the '(' or '=>' behind its name, and where
 * the name could also be `seq (` and the like, by the '=>' behind the parentheses.
 *
 * ONNX keeps float attributes in 32 bits; so the values read here are rounded to them. */
#include "parse.h"
#include <math.h>

enum { PLURAL = IR_ATTR_FLOATS - IR_ATTR_FLOAT };

static const char attr_form[] = "an attribute reads: name = value or name: ints = [1, 2]; a value "
                                "is a number, a string such as \"sum\", a tensor "
                                "such as float[2] {1, 2}, a type, a graph or @reference";

struct value {
    enum ir_attr_kind kind;
    union ir_attr_value v;
};

static bool out_of_range(struct parser *p, struct span s, const char *what) {
    struct diag *g =
        parse_error(p, DIAG_NUMBER_RANGE, (ir_loc)(s.s - p->lex.base), s.len,
                    "'%.*s' does not fit into %s", (int)(s.len < 80 ? s.len : 80), s.s, what);
    if (g)
        diag_set_help(p->d, g,
                      "integers have 64 bits, floats 32 (up to about 3.4e38); inf is a number");
    return false;
}

static bool bad_number(struct parser *p, struct span s) {
    struct diag *g = parse_error(p, DIAG_BAD_NUMBER, (ir_loc)(s.s - p->lex.base), s.len,
                                 "'%.*s' is not a number", (int)(s.len < 80 ? s.len : 80), s.s);
    if (g) diag_set_help(p->d, g, "numbers read: 5, -5, 0.5, 1e-3, inf, nan");
    return false;
}

bool parse_int(struct parser *p, const char *what, int64_t *out) {
    struct span s;
    lex_peek(&p->lex);
    const char *from = p->lex.at;
    enum lex_number_kind kind = lex_number(&p->lex, &s);
    if (kind == LEX_BAD_NUMBER) return bad_number(p, s);
    if (kind != LEX_INT) {
        p->lex.at = from;
        return parse_expected(p, what);
    }
    uint64_t magnitude;
    bool negative;
    if (!lex_int_value(s, &magnitude, &negative) || magnitude > (uint64_t)INT64_MAX + negative)
        return out_of_range(p, s, "64 bits");
    *out = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

static bool read_number(struct parser *p, bool want_float, struct value *out) {
    struct span s;
    enum lex_number_kind kind = lex_number(&p->lex, &s);
    if (kind == LEX_NO_NUMBER) return parse_expected(p, "a value");
    if (kind == LEX_BAD_NUMBER) return bad_number(p, s);
    if (kind == LEX_INT && !want_float) {
        uint64_t magnitude;
        bool negative;
        if (!lex_int_value(s, &magnitude, &negative) || magnitude > (uint64_t)INT64_MAX + negative)
            return out_of_range(p, s, "64 bits");
        out->kind = IR_ATTR_INT;
        out->v.i = (int64_t)(negative ? 0 - magnitude : magnitude);
        return true;
    }
    double x = lex_float_value(kind, s);
    out->kind = IR_ATTR_FLOAT;
    out->v.f = isnan(x) ? x : lex_float32(x);
    if (kind != LEX_INF && kind != LEX_NAN && isinf(out->v.f))
        return out_of_range(p, s, "a float of 32 bits");
    return true;
}

static bool read_graph(struct parser *p, str name, ir_loc loc, ir_node owner, struct value *out) {
    const char *form = p->form;
    out->kind = IR_ATTR_GRAPH;
    parse_settle(p);
    bool ok = parse_graph(p, name, loc, owner, &out->v.g);
    p->form = form;
    return ok;
}

/* A type, or the tensor that it starts. */
static bool read_type_or_tensor(struct parser *p, ir_type type, struct value *out) {
    struct lexer *l = &p->lex;
    char c = lex_peek(l);
    struct lexer behind = *l;
    bool assigns = c == '=' && !lex_take_arrow(&behind);
    if (!assigns && c != '{' && c != '[' && c != '"' && c != '.' && !lex_is(c, LEX_IDENT) &&
        c != '/') {
        out->kind = IR_ATTR_TYPE_PROTO;
        out->v.type = type;
        return true;
    }
    out->kind =
        p->m->type.at[type].kind == IR_TYPE_SPARSE_TENSOR ? IR_ATTR_SPARSE_TENSOR : IR_ATTR_TENSOR;
    out->v.tensor.name = 0;
    out->v.tensor.type = type;
    bool ok = true;
    if (c == '"') {
        parse_maybe_name(p, LEX_NAME, &out->v.tensor.name, &ok);
    } else if (c != '.') {
        struct span name = lex_while_not_elided(l, LEX_NAME);
        out->v.tensor.name = strtab_add(&p->m->strings, name.s, name.len);
    }
    if (!ok) return false;
    lex_take(l, '=');
    return parse_data(p, type, &out->v.tensor.data);
}

/* True if the word at the current position is a graph's name. */
static bool starts_graph(struct parser *p) {
    struct lexer ahead = p->lex;
    struct span word = lex_while(&ahead, LEX_NAME);
    if (lex_peek(&ahead) != '(') return lex_take_arrow(&ahead);
    bool may_be_type = span_is(word, "seq") || span_is(word, "map") || span_is(word, "optional") ||
                       span_is(word, "sparse_tensor") || span_is(word, "opaque");
    if (!may_be_type) return true;
    ahead.at++;
    lex_skip_to(&ahead, ")");
    return lex_take(&ahead, ')') && lex_take_arrow(&ahead);
}

static bool read_value(struct parser *p, ir_node owner, bool want_float, struct value *out) {
    struct lexer *l = &p->lex;
    ir_loc loc = parse_here(p);
    char c = *l->at;
    str name = 0;
    if (c == '"') {
        if (!parse_string(p, "a value", &name)) return false;
        struct lexer behind = *l;
        if (lex_peek(l) == '(' || lex_take_arrow(&behind))
            return read_graph(p, name, loc, owner, out);
        out->kind = IR_ATTR_STRING;
        out->v.s = name;
        return true;
    }
    if (lex_is(c, LEX_DIGIT) || c == '-' || c == '+' || c == '.')
        return read_number(p, want_float, out);
    if (starts_graph(p)) {
        bool ok;
        parse_maybe_name(p, LEX_NAME, &name, &ok);
        return ok && read_graph(p, name, loc, owner, out);
    }
    bool is_type;
    ir_type type;
    if (!parse_maybe_type(p, false, &is_type, &type)) return false;
    if (is_type) return read_type_or_tensor(p, type, out);
    struct lexer ahead = *l;
    struct span word = lex_while(&ahead, LEX_IDENT);
    char next = lex_peek(&ahead);
    if (word.len && !lex_is_special(word) && next != ',' && next != '>' &&
        parse_misspelt_type(p, word, false))
        return false;
    return read_number(p, true, out);
}

/* Brings a value to the kind that is written or that its list has; false if it cannot. */
static bool convert(struct value *v, enum ir_attr_kind kind) {
    if (kind == IR_ATTR_UNDEFINED || v->kind == kind) return true;
    if (v->kind == IR_ATTR_INT && kind == IR_ATTR_FLOAT)
        v->v.f = (double)(float)v->v.i;
    else if (v->kind != IR_ATTR_TENSOR || kind != IR_ATTR_SPARSE_TENSOR)
        return false;
    v->kind = kind;
    return true;
}

static bool wrong_kind(struct parser *p, ir_loc loc, enum ir_attr_kind wanted, const char *found) {
    struct diag *g =
        parse_error(p, DIAG_ATTRIBUTE_KIND, loc, (size_t)(p->lex.at - p->lex.base) - loc,
                    "the value is of kind %s where %s is wanted", found, ir_attr_kind_text(wanted));
    if (g)
        diag_set_help(p->d, g,
                      "an attribute's values have the kind that is written before '=', and all of "
                      "a list the same");
    return false;
}

/* Behind '[', up to and including ']'. `kind` is the written kind of an element, or undefined. */
static bool read_value_list(struct parser *p, ir_node owner, enum ir_attr_kind *kind) {
    uint32_t first = p->values.n;
    while (!lex_take(&p->lex, ']')) {
        ir_loc loc = parse_here(p);
        struct value v = {0};
        if (!read_value(p, owner, *kind == IR_ATTR_FLOAT, &v)) return false;
        if (*kind == IR_ATTR_INT && v.kind == IR_ATTR_FLOAT && p->values.n > first &&
            !p->attrs.at[p->attrs.n - 1].kind) { /* [1, 2.5]: all of them are floats */
            for (uint32_t i = first; i < p->values.n; i++)
                p->values.at[i].f = (double)(float)p->values.at[i].i;
            *kind = IR_ATTR_FLOAT;
        }
        if (!convert(&v, *kind)) return wrong_kind(p, loc, *kind, ir_attr_kind_text(v.kind));
        *kind = v.kind;
        vec_push(&p->values, v.v);
        if (!lex_take(&p->lex, ',')) return parse_take(p, ']', "',' or ']' behind a value");
    }
    return true;
}

static void keep_values(struct parser *p, struct ir_attr_info *a, uint32_t mark) {
    a->values = p->m->attr_value.n;
    a->n_values = p->values.n - mark;
    if (a->n_values)
        memcpy(vec_extend(&p->m->attr_value, a->n_values), p->values.at + mark,
               a->n_values * sizeof *p->values.at);
    p->values.n = mark;
}

/* Behind '='. The attribute is the top of p->attrs; its kind is the written one. */
static bool read_assigned(struct parser *p, ir_node owner) {
    uint32_t top = p->attrs.n - 1, mark = p->values.n;
    enum ir_attr_kind written = p->attrs.at[top].kind;
    if (lex_take(&p->lex, '@')) return parse_name(p, LEX_NAME, "a name", &p->attrs.at[top].ref);
    bool plural = written >= IR_ATTR_FLOATS;
    enum ir_attr_kind kind = plural ? written - PLURAL : written;
    if (lex_peek(&p->lex) == ']' && written == IR_ATTR_STRINGS) {
        p->lex.at++; /* as older printers wrote a list of strings without elements */
        return true;
    }
    ir_loc loc = parse_here(p);
    if (lex_take(&p->lex, '[')) {
        if (written && !plural) return wrong_kind(p, loc, written, "list");
        if (!read_value_list(p, owner, &kind)) return false;
        p->attrs.at[top].kind = (uint8_t)(kind ? kind + PLURAL : IR_ATTR_UNDEFINED);
    } else {
        struct value v = {0};
        if (!read_value(p, owner, kind == IR_ATTR_FLOAT, &v)) return false;
        if (plural || !convert(&v, kind))
            return wrong_kind(p, loc, written, ir_attr_kind_text(v.kind));
        p->attrs.at[top].kind = (uint8_t)v.kind;
        vec_push(&p->values, v.v);
    }
    keep_values(p, &p->attrs.at[top], mark);
    return true;
}

static bool read_kind(struct parser *p, uint8_t *out) {
    ir_loc loc = parse_here(p);
    struct span word = lex_while(&p->lex, LEX_IDENT);
    for (int kind = IR_ATTR_FLOAT; kind <= IR_ATTR_TYPE_PROTOS; kind++)
        if (span_is(word, ir_attr_kind_text((enum ir_attr_kind)kind))) {
            *out = (uint8_t)kind;
            return true;
        }
    if (span_is(word, "undefined")) return true;
    const char *kinds[IR_ATTR_TYPE_PROTOS];
    for (int kind = IR_ATTR_FLOAT; kind <= IR_ATTR_TYPE_PROTOS; kind++)
        kinds[kind - 1] = ir_attr_kind_text((enum ir_attr_kind)kind);
    struct arena scratch = {0};
    const char *near =
        diag_nearest(arena_strndup(&scratch, word.s, word.len), kinds, IR_ATTR_TYPE_PROTOS);
    arena_free(&scratch);
    p->lex.at = p->lex.base + loc;
    const char *form = p->form;
    char suggestion[64];
    if (near) {
        snprintf(suggestion, sizeof suggestion, "did you mean '%s'?", near);
        p->form = suggestion;
    } else {
        p->form = "the kinds are float, int, string, tensor, graph, sparse_tensor, type_proto, and "
                  "their plurals for lists";
    }
    parse_expected(p, "a kind of value");
    p->form = form;
    return false;
}

static bool read_attr(struct parser *p, ir_node owner, bool formal) {
    struct ir_attr_info a = {.loc = parse_here(p)};
    if (!parse_name(p, LEX_IDENT | LEX_MARK, "an attribute's name", &a.name)) return false;
    vec_push(&p->attrs, a);
    uint32_t top = p->attrs.n - 1;
    if (lex_take(&p->lex, ':') && !read_kind(p, &p->attrs.at[top].kind)) return false;
    if (lex_take(&p->lex, '=')) return read_assigned(p, owner);
    p->attrs.at[top].no_value = true;
    return formal || parse_expected(p, "'=' behind the attribute's name");
}

static bool read_attrs(struct parser *p, ir_node owner, bool formal, uint32_t *first, uint32_t *n) {
    const char *form = p->form;
    p->form = attr_form;
    uint32_t mark = p->attrs.n;
    bool ok = true;
    while (ok && !lex_take(&p->lex, '>')) {
        ok = read_attr(p, owner, formal);
        if (!ok || lex_take(&p->lex, ',')) continue;
        ok = parse_take(p, '>', "',' or '>' behind an attribute");
        break;
    }
    *n = p->attrs.n - mark;
    *first = p->m->attr.n;
    if (ok && *n) memcpy(vec_extend(&p->m->attr, *n), p->attrs.at + mark, *n * sizeof *p->attrs.at);
    p->attrs.n = mark;
    p->form = form;
    return ok;
}

bool parse_attrs(struct parser *p, ir_node owner, uint32_t *first, uint32_t *n) {
    return read_attrs(p, owner, false, first, n);
}

bool parse_formal_attrs(struct parser *p, uint32_t *first, uint32_t *n) {
    return read_attrs(p, 0, true, first, n);
}
