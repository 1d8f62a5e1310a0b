/* The reader: a model's text to a module, in one pass and without a token array.
 *
 * The grammar is ONNX's textual syntax, read by recursive descent. Each construct has its function;
 * this file has the outermost ones (the header, functions) and what all share: errors and the way
 * on after them. parse_graph.c reads graphs and resolves names, parse_attr.c attributes,
 * parse_type.c types, parse_data.c the numbers of tensors. lex.c knows the characters.
 *
 * More is accepted than the official parser accepts: names without quotes as older printers wrote
 * them, a comma before a closing bracket, elided data, a byte-order mark. print.c writes the strict
 * form again.
 *
 * Errors. A function that cannot go on reports what it expected, and how the construct looks that
 * it was reading, and returns false. Lists go on at their next comma, graphs at what looks like
 * their next node, functions behind their closing brace. When the text has ended nothing more is
 * said, since every construct that is still open would complain about the same end. */
#include "parse.h"
#include "onnx.h"

enum {
    MAX_ERRORS = 100, /* beyond it the rest is noise: reading stops */
    /* Of a text without weights, roughly: guesses of how much room will be needed. */
    BYTES_PER_NAME = 90,
    BYTES_PER_NODE = 50,
    BYTES_PER_REF = 20,
};

static const char model_form[] = "a model reads: <ir_version: 8, opset_import: [\"\" : 17]> "
                                 "name (inputs) => (outputs) <initializers> { nodes }";
static const char function_form[] =
    "a function reads: <domain: \"d\", opset_import: [\"\" : 17]> name <attributes> (inputs) => "
    "(outputs) { nodes }";

/* ---- errors ---------------------------------------------------------------------------------- */

struct diag *parse_error(struct parser *p, enum diag_code code, ir_loc loc, size_t length,
                         const char *format, ...) {
    p->errors++;
    if (p->quiet) return NULL;
    va_list args;
    va_start(args, format);
    struct arena scratch = {0};
    uint32_t shown = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
    struct diag *g = diag_at(p->d, code, loc, shown, "%s", arena_vprintf(&scratch, format, args));
    arena_free(&scratch);
    va_end(args);
    if (p->errors >= MAX_ERRORS) {
        p->quiet = true;
        p->lex.at = p->lex.end;
    }
    return g;
}

/* The next token in words, and its length; the text is the caller's. */
static size_t describe_token(const struct parser *p, char text[static 128]) {
    struct lexer l = p->lex; /* looks without taking */
    const char *from = l.at;
    char c = *from;
    if (c == '"') {
        lex_skip_string(&l);
        strcpy(text, "a string");
        return (size_t)(l.at - from);
    }
    struct span word = lex_while(&l, LEX_NAME);
    if (word.len) {
        snprintf(text, 128, "'%.*s'", (int)(word.len < 80 ? word.len : 80), word.s);
        return word.len;
    }
    if ((unsigned char)c < ' ' || c == 0x7f) {
        snprintf(text, 128, "the byte 0x%02x", (unsigned)(unsigned char)c);
        return 1;
    }
    size_t len = c == '=' && from[1] == '>' ? 2 : 1;
    snprintf(text, 128, "'%.*s'", (int)len, from);
    return len;
}

/* A name whose closing quote is missing goes on to the next quote of the text, and what follows there
 * cannot follow a string. So where nothing but an error stands behind a string of several lines, or
 * right behind its quote, the string is what is wrong. Reading goes on behind the string's line. */
static bool open_string(struct parser *p) {
    const char *from = p->quote, *to = p->quote_end;
    if (!to) return false;
    const char *line_end = memchr(from, '\n', (size_t)(to - from));
    struct lexer l = p->lex;
    l.at = to;
    lex_peek(&l);
    if (l.at != p->lex.at || !(line_end || (l.at == to && lex_is(*to, LEX_NAME)))) return false;
    uint32_t line, column;
    source_position(p->m->source, (ir_loc)(to - 1 - p->lex.base), &line, &column);
    struct diag *g = parse_error(p, DIAG_OPEN_STRING, (ir_loc)(from - p->lex.base), 1,
                                 "this string has no closing quote");
    if (g)
        diag_set_help(p->d, g, "close it; as it stands it ends at the quote in line %u, column %u",
                      line, column);
    const char *end = line_end ? line_end : memchr(to, '\n', (size_t)(p->lex.end - to));
    p->lex.at = end ? end : p->lex.end;
    p->quote_end = NULL;
    return true;
}

/* Reports at `place`, which is the next token's or one before it. */
static bool expected_at(struct parser *p, ir_loc place, const char *what) {
    ir_loc here = parse_here(p);
    struct lexer l = p->lex;
    struct diag *g;
    if (open_string(p)) return false;
    if (*l.at == 0) {
        g = parse_error(p, DIAG_TRUNCATED, here, 1, "the text ends where %s should follow", what);
        if (g && p->form) diag_set_help(p->d, g, "%s", p->form);
        p->quiet = true;
        return false;
    }
    if (*l.at == '"' && !lex_skip_string(&l)) {
        g = parse_error(p, DIAG_OPEN_STRING, here, 1, "this string has no closing quote");
        if (g) diag_set_help(p->d, g, "a string ends at the next '\"' without a '\\' before it");
        p->quiet = true;
        return false;
    }
    char found[128];
    size_t length = describe_token(p, found);
    g = parse_error(p, DIAG_SYNTAX, place, place == here ? length : 1, "expected %s, found %s",
                    what, found);
    if (g && p->form) diag_set_help(p->d, g, "%s", p->form);
    return false;
}

bool parse_expected(struct parser *p, const char *what) {
    return expected_at(p, parse_here(p), what);
}

bool parse_enter(struct parser *p) {
    if (p->depth < IR_MAX_NESTING) {
        p->depth++;
        return true;
    }
    struct diag *g = parse_error(p, DIAG_TEXT_NESTING, parse_here(p), 1,
                                 "more than %d graphs or types inside each other", IR_MAX_NESTING);
    if (g) diag_set_help(p->d, g, "move inner graphs into functions");
    p->quiet = true; /* the way back through all these levels would report each of them */
    p->lex.at = p->lex.end;
    return false;
}

/* ---- what every construct is made of --------------------------------------------------------- */

/* What is missing at the end of a line is missed there, not where the next line begins. */
bool parse_missing(struct parser *p, const char *what) {
    const char *before = p->lex.at;
    while (before > p->lex.base && lex_is(before[-1], LEX_SPACE)) before--;
    bool line_ends = memchr(before, '\n', (size_t)(p->lex.at - before)) != NULL;
    return expected_at(p, (ir_loc)((line_ends ? before : p->lex.at) - p->lex.base), what);
}

bool parse_string(struct parser *p, const char *what, str *out) {
    bool quoted = lex_peek(&p->lex) == '"';
    const char *quote = p->lex.at;
    if (!quoted || !lex_string(&p->lex, &p->m->strings, out)) return parse_expected(p, what);
    p->quote = quote;
    p->quote_end = p->lex.at;
    return true;
}

bool parse_pending_name(struct parser *p, int classes, struct parse_name *out, bool *ok) {
    *ok = true;
    out->interned = 0;
    char c = lex_peek(&p->lex);
    if (c == '"') {
        bool escaped;
        *ok = lex_string_span(&p->lex, &out->text, &escaped) || parse_expected(p, "a name");
        if (!*ok) return false;
        p->quote = out->text.s - 1;
        p->quote_end = p->lex.at;
        if (escaped) {
            out->interned = lex_unescape(&p->m->strings, out->text);
            return true;
        }
    } else {
        /* '-', '@' and the like occur in names but do not start them. */
        if (!lex_is(c, LEX_IDENT) && c != '/' && c != '.' && c != '$' && c != '%') return false;
        out->text = lex_while(&p->lex, classes);
        if (out->text.len == 0) return false;
    }
    out->hash = strtab_hash(out->text.s, out->text.len);
    strtab_prefetch(&p->m->strings, out->hash);
    return true;
}

bool parse_maybe_name(struct parser *p, int classes, str *out, bool *ok) {
    struct parse_name name;
    if (!parse_pending_name(p, classes, &name, ok)) return false;
    *out = parse_intern(p, &name);
    return true;
}

bool parse_name(struct parser *p, int classes, const char *what, str *out) {
    bool ok;
    if (parse_maybe_name(p, classes, out, &ok)) return true;
    return ok ? parse_expected(p, what) : false;
}

bool parse_list(struct parser *p, char close, const char *what, bool (*element)(struct parser *)) {
    const char stops[] = {',', close, '{', '}', 0}; /* a brace: the list was never closed */
    for (;;) {
        if (lex_take(&p->lex, close)) return true;
        bool ok = element(p);
        if (ok && lex_take(&p->lex, ',')) continue;
        if (ok && parse_take(p, close, what)) return true;
        if (ok && close == ']') return false; /* short; the list around it knows better */
        bool goes_on = lex_is(lex_peek(&p->lex), LEX_IDENT) || *p->lex.at == '"';
        if (ok && goes_on && lex_starts_line(&p->lex)) continue; /* only the comma is missing */
        lex_skip_to(&p->lex, stops);
        if (!lex_take(&p->lex, ',')) return lex_take(&p->lex, close);
    }
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool read_opset(struct parser *p) {
    struct ir_opset opset = {.loc = parse_here(p)};
    if (!parse_string(p, "a domain in quotes", &opset.domain) ||
        !parse_take(p, ':', "':' behind the domain") || !parse_int(p, "a version", &opset.version))
        return false;
    opset.domain = ir_domain_canonical(p->m, opset.domain);
    vec_push(&p->m->opset, opset);
    return true;
}

static bool read_opsets(struct parser *p, uint32_t *first, uint32_t *n) {
    *first = p->m->opset.n;
    bool ok = parse_take(p, '[', "'[' before the imports") &&
              parse_list(p, ']', "',' or ']' behind an import", read_opset);
    *n = p->m->opset.n - *first;
    p->opsets = *first;
    p->n_opsets = *n;
    return ok;
}

static bool read_property(struct parser *p) {
    struct ir_property property = {.loc = parse_here(p)};
    if (!parse_string(p, "a key in quotes", &property.key) ||
        !parse_take(p, ':', "':' behind the key") ||
        !parse_string(p, "a value in quotes", &property.value))
        return false;
    vec_push(&p->m->metadata, property);
    return true;
}

static bool read_metadata(struct parser *p) {
    return parse_take(p, '[', "'[' before the metadata") &&
           parse_list(p, ']', "',' or ']' behind an entry", read_property);
}

/* The key of an entry and its ':', as its place among the n that can stand there; -1 after an error.
 * `*seen` has a bit for each that has stood there. */
static int read_key(struct parser *p, const char *const *keys, int n, uint32_t *seen) {
    ir_loc loc = parse_here(p);
    if (!lex_is(*p->lex.at, LEX_ALPHA)) {
        parse_expected(p, "a key");
        return -1;
    }
    struct span key = lex_while(&p->lex, LEX_IDENT);
    if (!parse_take(p, ':', "':' behind the key")) return -1;
    for (int i = 0; i < n; i++) {
        if (!span_is(key, keys[i])) continue;
        bool twice = *seen >> i & 1;
        *seen |= 1u << i;
        if (!twice) return i;
        struct diag *g =
            parse_error(p, DIAG_KEY_TWICE, loc, key.len, "'%s' is given twice", keys[i]);
        if (g) diag_set_help(p->d, g, "leave out the one that is not meant");
        return -1;
    }
    struct diag *g = parse_error(p, DIAG_UNKNOWN_KEY, loc, key.len, "there is no key '%.*s' here",
                                 (int)(key.len < 80 ? key.len : 80), key.s);
    if (!g) return -1;
    struct arena scratch = {0};
    const char *near = diag_nearest(arena_strndup(&scratch, key.s, key.len), keys, (size_t)n);
    const char *all = "";
    for (int i = 0; i < n; i++) all = arena_printf(&scratch, "%s%s%s", all, i ? ", " : "", keys[i]);
    if (near)
        diag_set_help(p->d, g, "did you mean '%s'?", near);
    else
        diag_set_help(p->d, g, "the keys are %s", all);
    arena_free(&scratch);
    return -1;
}

static bool read_model_entry(struct parser *p) {
    static const char *const keys[] = {"ir_version",    "model_version",    "opset_import",
                                       "producer_name", "producer_version", "domain",
                                       "doc_string",    "metadata_props"};
    struct ir_module *m = p->m;
    switch (read_key(p, keys, sizeof keys / sizeof *keys, &p->keys)) {
    case 0: return m->has_ir_version = parse_int(p, "a version", &m->ir_version);
    case 1: return m->has_model_version = parse_int(p, "a version", &m->model_version);
    case 2: return m->has_opsets = read_opsets(p, &m->opsets, &m->n_opsets);
    case 3: return m->has_producer_name = parse_string(p, "a string", &m->producer_name);
    case 4: return m->has_producer_version = parse_string(p, "a string", &m->producer_version);
    case 5: return m->has_domain = parse_string(p, "a string", &m->domain);
    case 6: return m->has_doc = parse_string(p, "a string", &m->doc);
    case 7: return m->has_metadata = read_metadata(p);
    }
    return false;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool read_function_entry(struct parser *p) {
    static const char *const keys[] = {"domain", "opset_import", "overload", "doc_string"};
    struct ir_function_info *f = &p->m->function.at[p->m->function.n - 1];
    switch (read_key(p, keys, sizeof keys / sizeof *keys, &p->keys)) {
    case 0:
        if (!parse_string(p, "a string", &f->domain)) return false;
        f->domain = ir_domain_canonical(p->m, f->domain);
        return true;
    case 1: return f->has_opsets = read_opsets(p, &f->opsets, &f->n_opsets);
    case 2: return parse_string(p, "a string", &f->overload);
    case 3: return parse_string(p, "a string", &f->doc);
    }
    return false;
}

static bool read_function(struct parser *p) {
    struct ir_module *m = p->m;
    p->form = function_form;
    p->keys = 0;
    p->opsets = m->opsets;
    p->n_opsets = m->n_opsets;
    ir_function f = m->function.n;
    ir_graph body = m->graph.n;
    vec_push(&m->function, ((struct ir_function_info){.body = body}));
    vec_push(&m->graph, ((struct ir_graph_info){.function = f}));
    if (lex_take(&p->lex, '<') &&
        !parse_list(p, '>', "',' or '>' behind an entry", read_function_entry))
        return false;
    ir_loc loc = parse_here(p);
    str name;
    if (!parse_name(p, LEX_NAME, "a function's name", &name)) return false;
    m->function.at[f].name = m->graph.at[body].name = name;
    m->function.at[f].loc = m->graph.at[body].loc = loc;
    uint32_t first = 0, n = 0;
    if (lex_take(&p->lex, '<') && !parse_formal_attrs(p, &first, &n)) return false;
    m->function.at[f].attrs = first;
    m->function.at[f].n_attrs = n;
    return parse_graph_body(p, body);
}

/* ---- the whole text -------------------------------------------------------------------------- */

/* A header that says its version of the format. */
static bool starts_model(const struct parser *p) {
    struct lexer l = p->lex;
    return lex_take(&l, '<') && lex_peek(&l) && span_is(lex_while(&l, LEX_IDENT), "ir_version");
}

/* A header, or a name with what can follow a function's. */
static bool starts_function(const struct parser *p) {
    struct lexer l = p->lex;
    char c = lex_peek(&l);
    if (c == '<') return true;
    if (c == '"' ? !lex_skip_string(&l) : lex_while(&l, LEX_NAME).len == 0) return false;
    c = lex_peek(&l);
    return c == '<' || c == '(' || lex_take_arrow(&l);
}

static void read_model(struct parser *p) {
    struct ir_module *m = p->m;
    p->form = model_form;
    if (lex_peek(&p->lex) == 0) {
        struct diag *g =
            parse_error(p, DIAG_EMPTY, parse_here(p), 1, "there is no model in the text");
        diag_set_help(p->d, g, "%s", model_form);
        return;
    }
    if (lex_take(&p->lex, '<')) {
        m->has_header = true;
        if (!parse_list(p, '>', "',' or '>' behind an entry", read_model_entry)) return;
    }
    ir_loc loc = parse_here(p);
    str name = 0;
    bool ok;
    parse_maybe_name(p, LEX_NAME, &name, &ok);
    if (!ok || !parse_graph(p, name, loc, 0, &m->main)) return;
    ir_loc end = (ir_loc)(p->lex.at - p->lex.base) - 1;
    while (lex_peek(&p->lex) != 0) {
        bool model = starts_model(p);
        if (model || !starts_function(p)) {
            char found[128];
            size_t length = describe_token(p, found);
            struct diag *g =
                parse_error(p, DIAG_TRAILING, parse_here(p), length, "%s stands behind the model",
                            model ? "another one" : found);
            if (!g) return;
            if (m->function.n == 1) diag_add_note(p->d, g, end, "the main graph ends here");
            if (model)
                diag_set_help(p->d, g, "a file holds one model; put this one into another");
            else
                diag_set_help(p->d, g, "behind the main graph only functions may follow; %s",
                              function_form);
            return;
        }
        if (read_function(p)) continue;
        lex_skip_to(&p->lex, "{}"); /* its nodes, or the end of an earlier mistake */
        if (lex_take(&p->lex, '{')) lex_skip_to(&p->lex, "}");
        lex_take(&p->lex, '}');
    }
}

/* Files that people give in place of a model, by what they begin with. A plan's first bytes are
 * those of runtime/plan/plan.h; a test compares. */
static const struct {
    const char *begin, *what, *help;
} others[] = {
    {"\211DDP\r\n\032\n", "a plan, not a model's text",
     "plans are read by ddpc dump, ddpc verify, ddpc diff and ddprun"},
    {"version https://git-lfs.", "a Git LFS pointer, not the model that it stands for",
     "fetch the file: git lfs pull"},
    {"PK\003\004", "a zip archive, as torch.save writes, not a model",
     "export the module: torch.onnx.export, or python -m ddpc.export; or unpack what is in it"},
    {"\037\213", "a file that gzip compressed, not a model",
     "unpack it: gunzip -c FILE | ddpc COMMAND -"},
};

/* Reports a file that can be no text. */
static bool is_no_text(struct parser *p, const struct source *s) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i].begin);
        if (s->size < n || memcmp(s->bytes, others[i].begin, n) != 0) continue;
        struct diag *g = diag_plain(p->d, DIAG_NOT_TEXT, s->name, "this is %s", others[i].what);
        diag_set_help(p->d, g, "%s", others[i].help);
        return true;
    }
    const char *nul = s->size ? memchr(s->bytes, 0, s->size) : NULL;
    if (!nul) return false;
    struct diag *g = diag_plain(p->d, DIAG_NOT_TEXT, s->name,
                                "byte %zu is a NUL, which no text holds", (size_t)(nul - s->bytes));
    diag_set_help(p->d, g, "a model is a .onnx file or a text in UTF-8");
    return true;
}

bool ir_parse(struct ir_module *m, struct source *source, struct diags *d) {
    ir_module_init(m, source);
    if (onnx_is_model(source)) return onnx_read(m, source, d);
    struct parser p = {.m = m, .d = d, .scope.m = m};
    p.lex = (struct lexer){source->bytes, source->bytes, source->bytes + source->size};
    if (is_no_text(&p, source)) {
        p.errors++;
    } else {
        uint32_t size = (uint32_t)source->size;
        ir_module_reserve(m, size / BYTES_PER_NODE, size / BYTES_PER_REF, size / BYTES_PER_NAME);
        vec_reserve(&p.scope.meaning, size / BYTES_PER_NAME);
        vec_reserve(&p.nodes, size / BYTES_PER_NODE);
        read_model(&p);
    }
    scope_free(&p.scope);
    vec_free(&p.refs);
    vec_free(&p.attrs);
    vec_free(&p.values);
    vec_free(&p.nodes);
    vec_free(&p.dims);
    return p.errors == 0;
}
