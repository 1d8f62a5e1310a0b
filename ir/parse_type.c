/* Types: `float[2,B]`, `seq(float)`, `map(int64, optional(string))`.
 *
 * None of the words is reserved: a value may be called `float`. Whether a word starts a type is
 * decided by what follows it. A name has a comma, a closing bracket or '=' behind it; an element
 * type has its dimensions or the name of what it describes; `seq` and the like have a parenthesis.
 *
 * `undefined` is what printers write for a missing type; it is read as no type. */
#include "parse.h"

static const char type_form[] = "a type reads: float, float[2,N,?], float[] (any rank), seq(type), "
                                "map(int64, type), optional(type), sparse_tensor(float[2])";

static bool read_type(struct parser *p, ir_type *out);

static bool element_type(struct span word, enum ir_dtype *out) {
    if (word.len == 5 && memcmp(word.s, "float", 5) == 0) {
        *out = IR_FLOAT;
        return true;
    }
    return word.len >= 3 && word.len <= 16 && ir_dtype_parse(word.s, word.len, out);
}

static bool is_constructor(struct span word) {
    return span_is(word, "seq") || span_is(word, "map") || span_is(word, "optional") ||
           span_is(word, "sparse_tensor") || span_is(word, "opaque");
}

bool parse_misspelt_type(struct parser *p, struct span word, bool surely) {
    const char *words[IR_N_DTYPES + 5] = {"seq", "map", "optional", "sparse_tensor", "opaque"};
    size_t n = 5;
    for (enum ir_dtype t = 1; t < IR_N_DTYPES; t++)
        if (ir_dtype_text(t)) words[n++] = ir_dtype_text(t);
    struct arena scratch = {0};
    const char *near =
        word.len < 32 ? diag_nearest(arena_strndup(&scratch, word.s, word.len), words, n) : NULL;
    bool wrong = near || surely;
    struct diag *g =
        wrong ? parse_error(p, DIAG_SYNTAX, (ir_loc)(word.s - p->lex.base), word.len,
                            "'%.*s' is not a type", (int)(word.len < 80 ? word.len : 80), word.s)
              : NULL;
    if (g && near)
        diag_set_help(p->d, g, "did you mean '%s'?", near);
    else if (g)
        diag_set_help(p->d, g, "%s", type_form);
    arena_free(&scratch);
    return wrong;
}

static bool read_dim(struct parser *p) {
    struct ir_dim dim = {.size = -1};
    char c = lex_peek(&p->lex);
    if (c == '?') {
        p->lex.at++;
    } else if (lex_is(c, LEX_DIGIT) || c == '-' || c == '+') {
        if (!parse_int(p, "a dimension", &dim.size)) return false;
        if (dim.size < 0) dim.size = -1;
    } else if (!parse_name(p, LEX_NAME, "a dimension (a number, a name or '?')", &dim.symbol)) {
        return false;
    }
    vec_push(&p->dims, dim);
    return true;
}

/* True where `[` starts external data rather than dimensions: a string and a ':' follow. */
static bool is_external_data(const struct parser *p) {
    struct lexer l = p->lex;
    l.at++;
    return lex_peek(&l) == '"' && lex_skip_string(&l) && lex_peek(&l) == ':';
}

/* A tensor's dimensions, if there are any, behind its element type. */
static bool read_tensor(struct parser *p, enum ir_type_kind kind, enum ir_dtype dtype,
                        ir_type *out) {
    uint32_t mark = p->dims.n;
    int32_t rank = 0;
    if (lex_peek(&p->lex) == '[' && !is_external_data(p)) {
        p->lex.at++;
        bool known = lex_peek(&p->lex) != ']';
        if (!parse_list(p, ']', "',' or ']' behind a dimension", read_dim)) {
            p->dims.n = mark;
            return false;
        }
        rank = known ? (int32_t)(p->dims.n - mark) : IR_RANK_UNKNOWN;
    }
    struct ir_type_info info = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .rank = rank};
    *out = ir_type_add(p->m, &info, p->dims.at + mark);
    p->dims.n = mark;
    return true;
}

static bool read_element_type(struct parser *p, enum ir_dtype *out) {
    ir_loc loc = parse_here(p);
    struct span word = lex_while(&p->lex, LEX_IDENT);
    if (element_type(word, out) && *out != IR_UNDEFINED) return true;
    if (parse_misspelt_type(p, word, false)) return false;
    p->lex.at = p->lex.base + loc;
    return parse_expected(p, "an element type such as float or int64");
}

static bool read_opaque(struct parser *p, struct ir_type_info *info) {
    if (lex_peek(&p->lex) == ')') return true;
    if (!parse_name(p, LEX_IDENT | LEX_MARK, "a name", &info->opaque_name)) return false;
    if (!lex_take(&p->lex, ',')) return true;
    info->opaque_domain = info->opaque_name;
    info->opaque_name = 0;
    if (lex_peek(&p->lex) == ')') return true;
    return parse_name(p, LEX_IDENT | LEX_MARK, "a name", &info->opaque_name);
}

/* Behind `seq (` and its like, up to and including the ')'. */
static bool read_constructed(struct parser *p, struct span word, ir_type *out) {
    struct ir_type_info info = {0};
    enum ir_dtype dtype = IR_UNDEFINED;
    if (span_is(word, "opaque")) {
        info.kind = IR_TYPE_OPAQUE;
        if (!read_opaque(p, &info)) return false;
    } else if (span_is(word, "sparse_tensor")) {
        if (!read_element_type(p, &dtype) || !read_tensor(p, IR_TYPE_SPARSE_TENSOR, dtype, out))
            return false;
        return parse_take(p, ')', "')' behind the type");
    } else {
        info.kind = span_is(word, "seq") ? IR_TYPE_SEQUENCE : IR_TYPE_OPTIONAL;
        if (span_is(word, "map")) {
            info.kind = IR_TYPE_MAP;
            if (!read_element_type(p, &dtype) || !parse_take(p, ',', "',' behind the key's type"))
                return false;
            info.dtype = (uint8_t)dtype;
        }
        if (!read_type(p, &info.elem)) return false;
    }
    *out = ir_type_add(p->m, &info, NULL);
    return parse_take(p, ')', "')' behind the type");
}

/* A model repeats its types: most are found by their text, many are the last one. The same bytes are
 * always the same type, as long as the type ends where the text does; what holds comments or odd
 * quotes does not. */
static bool is_seen(const struct parser *p, const struct parse_seen_type *seen) {
    return seen->text.len && (size_t)(p->lex.end - p->lex.at) >= seen->text.len &&
           memcmp(seen->text.s, p->lex.at, seen->text.len) == 0;
}

static struct parse_seen_type *seen_type(struct parser *p, struct span *text) {
    enum { LONGEST = 64 };
    const char *from = p->lex.at;
    size_t left = (size_t)(p->lex.end - from);
    const char *close = memchr(from, ']', left < LONGEST ? left : LONGEST);
    if (!close) return NULL;
    *text = (struct span){from, (size_t)(close + 1 - from)};
    return &p->seen_types[strtab_hash(text->s, text->len) % PARSE_SEEN_TYPES];
}

/* Where a type must stand. */
static bool read_type(struct parser *p, ir_type *out) {
    lex_peek(&p->lex);
    const char *from = p->lex.at;
    struct span word = lex_while(&p->lex, LEX_IDENT);
    enum ir_dtype dtype;
    if (element_type(word, &dtype)) {
        *out = 0;
        return dtype == IR_UNDEFINED || read_tensor(p, IR_TYPE_TENSOR, dtype, out);
    }
    if (is_constructor(word) && lex_take(&p->lex, '(')) {
        if (!parse_enter(p)) return false;
        bool ok = read_constructed(p, word, out);
        p->depth--;
        return ok;
    }
    if (parse_misspelt_type(p, word, false)) return false;
    p->lex.at = from;
    return parse_expected(p, "a type");
}

bool parse_maybe_type(struct parser *p, bool name_possible, bool *found, ir_type *out) {
    *found = false;
    *out = 0;
    if (!lex_is(lex_peek(&p->lex), LEX_ALPHA)) return true;
    struct span text = {0};
    struct parse_seen_type *seen = is_seen(p, &p->last_type) ? &p->last_type : seen_type(p, &text);
    if (seen && is_seen(p, seen)) {
        *found = true;
        *out = seen->type;
        p->lex.at += seen->text.len;
        p->last_type = *seen;
        return true;
    }
    struct lexer l = p->lex;
    struct span word = name_possible ? lex_while(&l, LEX_NAME) : lex_while_not_elided(&l, LEX_NAME);
    enum ir_dtype dtype;
    if (is_constructor(word)) {
        *found = lex_peek(&l) == '(';
    } else if (element_type(word, &dtype)) {
        char next = lex_peek(&l);
        *found = !name_possible || next == '[' || next == '"' || lex_is(next, LEX_IDENT | LEX_MARK);
    }
    if (!*found) return true;
    const char *form = p->form;
    p->form = type_form;
    bool ok = read_type(p, out);
    p->form = form;
    if (ok && seen && p->lex.at == text.s + text.len) *seen = (struct parse_seen_type){text, *out};
    return ok;
}
