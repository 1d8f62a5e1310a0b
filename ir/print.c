/* The module as canonical text.
 *
 * What comes out reads back to the same module, and is what the official parser of ONNX reads too,
 * wherever the construct exists there: names in quotes unless they are identifiers, attributes
 * before the inputs unless they hold a graph, numbers in decimal with a digit before the point. Two
 * texts of the same model that differ in white space, comments, quotes or order of attributes'
 * places print the same.
 *
 * Numbers of tensors are copied from a text, digit by digit, with canonical spacing; floats of
 * attributes and of binary tensors are printed with the fewest digits that read back to the same
 * 32-bit value. Types are printed as they were declared; ir_print_typed has what was inferred, as
 * value_info. */
#include "onnx.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct printer {
    bool nul; /* a string held one, which no text can */
    const struct ir_module *m;
    FILE *out;
    bool elide;                /* no long data */
    int indent;                /* of nodes, in steps of three blanks */
    uint32_t opsets, n_opsets; /* imports in force */
    const bool *declared;      /* by value; NULL: only what was declared has a type */
};

static void print_graph(struct printer *p, ir_graph g);

/* ---- names and strings ----------------------------------------------------------------------- */

static void print_indent(struct printer *p, int steps) {
    for (int i = 0; i < steps; i++) fputs("   ", p->out);
}

static void print_quoted(struct printer *p, const char *s, size_t len) {
    p->nul |= len && memchr(s, 0, len);
    putc('"', p->out);
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '"' || s[i] == '\\') putc('\\', p->out);
        putc(s[i], p->out);
    }
    putc('"', p->out);
}

static void print_string(struct printer *p, str s) {
    print_quoted(p, ir_text(p->m, s), strtab_len(&p->m->strings, s));
}

/* Identifiers that are words of the grammar are quoted too: `float`, `seq`, `inf`. */
static bool needs_quotes(const struct ir_module *m, str s) {
    struct span word = {ir_text(m, s), strtab_len(&m->strings, s)};
    enum ir_dtype dtype;
    return !lex_is_identifier(word.s, word.len) || lex_is_special(word) ||
           ir_dtype_parse(word.s, word.len, &dtype) || span_is(word, "seq") ||
           span_is(word, "map") || span_is(word, "optional") || span_is(word, "sparse_tensor") ||
           span_is(word, "opaque");
}

static void print_name(struct printer *p, str s) {
    if (needs_quotes(p->m, s))
        print_string(p, s);
    else
        fputs(ir_text(p->m, s), p->out);
}

/* ---- types and data -------------------------------------------------------------------------- */

static void print_type(struct printer *p, ir_type t) {
    struct arena scratch = {0};
    fputs(ir_type_text(p->m, &scratch, t), p->out);
    arena_free(&scratch);
}

/* A number as it stands in the source, in the form that every parser reads: no '+', no bare point.
 */
static void print_number(struct printer *p, struct span s) {
    if (s.s[0] == '+' || s.s[0] == '-') {
        if (s.s[0] == '-') putc('-', p->out);
        s.s++;
        s.len--;
    }
    if (s.s[0] == '.') putc('0', p->out);
    fwrite(s.s, 1, s.len, p->out);
}

static void print_float(struct printer *p, double x, bool wide, bool attribute);

/* The elements of a binary model's tensor. Those that share a byte are printed as that byte, which
 * is how ONNX's parser takes them. */
static void print_elements(struct printer *p, enum ir_dtype dtype,
                           const struct ir_data_info *data) {
    struct span tensor = {p->m->source->bytes + data->loc, data->length};
    bool complex = dtype == IR_COMPLEX64 || dtype == IR_COMPLEX128;
    uint64_t left = complex ? 2 * data->count : data->count;
    uint32_t bits = ir_dtype_bits(dtype);
    if (bits && bits < 8) {
        left = (left * bits + 7) / 8;
        dtype = IR_UINT8;
    }
    struct onnx_elements e;
    struct onnx_element x;
    onnx_elements_begin(&e, p->m->source, dtype, tensor);
    for (const char *separator = ""; left-- > 0 && onnx_elements_next(&e, &x); separator = ", ") {
        fputs(separator, p->out);
        if (dtype == IR_STRING)
            print_quoted(p, x.s.s, x.s.len);
        else if (dtype == IR_FLOAT || dtype == IR_COMPLEX64)
            print_float(p, x.f, false, false);
        else if (dtype == IR_DOUBLE || dtype == IR_COMPLEX128)
            print_float(p, x.f, true, false);
        else if (dtype == IR_UINT64)
            fprintf(p->out, "%" PRIu64, (uint64_t)x.i);
        else
            fprintf(p->out, "%" PRId64, x.i);
    }
}

static void print_external(struct printer *p, const struct ir_data_info *data) {
    struct span tensor = {p->m->source->bytes + data->loc, data->length}, key, value;
    struct onnx_cursor c = onnx_cursor(ONNX_TENSOR, tensor);
    for (const char *separator = ""; onnx_external_next(p->m->source, &c, &key, &value);
         separator = ", ") {
        fputs(separator, p->out);
        print_quoted(p, key.s, key.len);
        fputs(": ", p->out);
        print_quoted(p, value.s, value.len);
    }
}

static void print_data(struct printer *p, ir_data d, ir_type type) {
    const struct ir_data_info *data = &p->m->data.at[d];
    bool weights = data->kind == IR_DATA_LITERALS && data->count > IR_MAX_INTS;
    if (data->kind == IR_DATA_ELIDED || (p->elide && weights)) {
        fputs("...", p->out);
        return;
    }
    bool external = data->kind == IR_DATA_EXTERNAL;
    if (p->m->source->binary) {
        putc(external ? '[' : '{', p->out);
        if (external)
            print_external(p, data);
        else
            print_elements(p, ir_type_dtype(p->m, type), data);
        putc(external ? ']' : '}', p->out);
        return;
    }
    const char *from = p->m->source->bytes + data->loc;
    struct lexer l = {from, from, from + data->length};
    putc(external ? '[' : '{', p->out);
    for (const char *separator = ""; lex_peek(&l) && l.at < l.end;) {
        fputs(separator, p->out);
        separator = ", ";
        struct span s = {l.at, 0};
        if (*l.at == '"') {
            lex_skip_string(&l);
            fwrite(s.s, 1, (size_t)(l.at - s.s), p->out);
        } else if (lex_number(&l, &s) != LEX_NO_NUMBER) {
            print_number(p, s);
        } else {
            break; /* only after an error, which the reader has reported */
        }
        if (external && lex_take(&l, ':')) separator = ": ";
        if (lex_peek(&l) == ',' && l.at < l.end) l.at++;
    }
    putc(external ? ']' : '}', p->out);
}

static void print_decl(struct printer *p, const struct ir_decl *decl) {
    ir_type type = p->declared ? p->m->value.at[decl->value].type : decl->type;
    if (type) {
        print_type(p, type);
        putc(' ', p->out);
    }
    print_name(p, p->m->value.at[decl->value].name);
    if (decl->data) {
        fputs(" = ", p->out);
        print_data(p, decl->data, type);
    }
}

static void print_decls(struct printer *p, uint32_t first, uint32_t n) {
    putc('(', p->out);
    for (uint32_t i = 0; i < n; i++) {
        if (i) fputs(", ", p->out);
        print_decl(p, &p->m->decl.at[first + i]);
    }
    putc(')', p->out);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* With the fewest digits that read back to the same number of 32 bits, or of 64 if it is `wide`. */
static void print_float(struct printer *p, double x, bool wide, bool attribute) {
    if (isnan(x) || isinf(x)) {
        fputs(isnan(x) ? "nan" : x < 0 ? "-inf" : "inf", p->out);
        return;
    }
    char text[40];
    int most = wide ? 17 : 9;
    /* So many digits keep every decimal of that length, but for the denormal numbers. */
    int least = fabs(x) < (wide ? DBL_MIN : (double)FLT_MIN) ? 1 : wide ? DBL_DIG : FLT_DIG;
    for (int digits = least; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        double back = strtod(text, NULL);
        if (wide ? back == x : (float)back == (float)x) break;
    }
    fputs(text, p->out);
    if (attribute && !strpbrk(text, ".e")) fputs(".0", p->out); /* a float, not an integer */
}

static void print_value(struct printer *p, enum ir_attr_kind kind, const union ir_attr_value *v) {
    switch (kind) {
    case IR_ATTR_FLOAT: print_float(p, v->f, false, true); break;
    case IR_ATTR_INT: fprintf(p->out, "%" PRId64, v->i); break;
    case IR_ATTR_STRING: print_string(p, v->s); break;
    case IR_ATTR_GRAPH: print_graph(p, v->g); break;
    case IR_ATTR_TYPE_PROTO: print_type(p, v->type); break;
    default: /* the two kinds of tensors */
        print_type(p, v->tensor.type);
        putc(' ', p->out);
        if (v->tensor.name) {
            print_name(p, v->tensor.name);
            putc(' ', p->out);
        } else if (p->m->data.at[v->tensor.data].kind == IR_DATA_EXTERNAL) {
            fputs("= ", p->out); /* without it '[' reads as further dimensions */
        }
        print_data(p, v->tensor.data, v->tensor.type);
    }
}

static void print_attr(struct printer *p, const struct ir_attr_info *a) {
    if (lex_is_identifier(ir_text(p->m, a->name), strtab_len(&p->m->strings, a->name)))
        fputs(ir_text(p->m, a->name), p->out);
    else
        print_string(p, a->name);
    bool plural = a->kind >= IR_ATTR_FLOATS;
    /* Where the value does not show it, to every reader. */
    bool untold = a->ref || a->no_value || a->kind == IR_ATTR_SPARSE_TENSOR ||
                  a->kind >= IR_ATTR_TENSORS || (plural && a->n_values == 0);
    if (untold && a->kind) fprintf(p->out, ": %s", ir_attr_kind_text(a->kind));
    if (a->no_value) return;
    fputs(" = ", p->out);
    if (a->ref) {
        putc('@', p->out);
        print_name(p, a->ref);
        return;
    }
    bool list = plural || a->kind == IR_ATTR_UNDEFINED;
    enum ir_attr_kind kind = plural ? a->kind - (IR_ATTR_FLOATS - IR_ATTR_FLOAT) : a->kind;
    if (list) putc('[', p->out);
    for (uint32_t i = 0; i < a->n_values; i++) {
        if (i) fputs(", ", p->out);
        print_value(p, kind, &p->m->attr_value.at[a->values + i]);
    }
    if (list) putc(']', p->out);
}

static void print_attrs(struct printer *p, uint32_t first, uint32_t n) {
    fputs(" <", p->out);
    for (uint32_t i = 0; i < n; i++) {
        if (i) fputs(", ", p->out);
        print_attr(p, &p->m->attr.at[first + i]);
    }
    putc('>', p->out);
}

/* ---- nodes and graphs ------------------------------------------------------------------------ */

/* Every part of a dotted name is an identifier. */
static bool is_dotted(const char *s, size_t len) {
    const char *end = s + len;
    for (;;) {
        const char *dot = memchr(s, '.', (size_t)(end - s));
        if (!lex_is_identifier(s, (size_t)((dot ? dot : end) - s))) return false;
        if (!dot) return true;
        s = dot + 1;
    }
}

static void print_plain_or_quoted(struct printer *p, str s, bool plain) {
    if (plain)
        fputs(ir_text(p->m, s), p->out);
    else
        print_string(p, s);
}

/* `domain.Op:overload`. Quotes say where the domain ends when a reader would not find it. */
static void print_operator(struct printer *p, const struct ir_node_info *n) {
    const struct ir_module *m = p->m;
    const char *op = ir_text(m, n->op);
    size_t op_len = strtab_len(&m->strings, n->op), domain_len = strtab_len(&m->strings, n->domain);
    bool plain_op = lex_is_identifier(op, op_len);
    if (n->domain) {
        struct arena scratch = {0};
        const char *text = arena_printf(&scratch, "%s.%s", ir_text(m, n->domain), op);
        bool found = ir_domain_length(m, p->opsets, p->n_opsets, text, domain_len + 1 + op_len) ==
                     domain_len;
        bool plain = is_dotted(text, domain_len) && (!plain_op || found);
        plain_op = plain_op || (plain && found && is_dotted(op, op_len));
        arena_free(&scratch);
        print_plain_or_quoted(p, n->domain, plain);
        putc('.', p->out);
    }
    print_plain_or_quoted(p, n->op, plain_op);
    if (n->overload) {
        putc(':', p->out);
        print_plain_or_quoted(
            p, n->overload,
            lex_is_identifier(ir_text(m, n->overload), strtab_len(&m->strings, n->overload)));
    }
}

static void print_refs(struct printer *p, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (i) fputs(", ", p->out);
        ir_value v = p->m->ref_value.at[first + i];
        print_name(p, p->m->value.at[v].name);
    }
}

static bool holds_graph(const struct ir_module *m, const struct ir_node_info *n) {
    for (uint32_t i = 0; i < n->n_attrs; i++) {
        uint8_t kind = m->attr.at[n->attrs + i].kind;
        if (kind == IR_ATTR_GRAPH || kind == IR_ATTR_GRAPHS) return true;
    }
    return false;
}

static void print_node(struct printer *p, ir_node node) {
    const struct ir_node_info *n = &p->m->node.at[node];
    bool attrs_last = holds_graph(p->m, n);
    print_indent(p, p->indent);
    if (n->name) {
        putc('[', p->out);
        print_name(p, n->name);
        fputs("] ", p->out);
    }
    print_refs(p, n->refs, n->n_outputs);
    fputs(" = ", p->out);
    print_operator(p, n);
    if (n->n_attrs && !attrs_last) print_attrs(p, n->attrs, n->n_attrs);
    fputs(" (", p->out);
    print_refs(p, n->refs + n->n_outputs, n->n_inputs);
    putc(')', p->out);
    if (attrs_last) print_attrs(p, n->attrs, n->n_attrs);
    putc('\n', p->out);
}

/* From the inputs on. */
static void start_item(struct printer *p, bool *any) {
    if (*any) {
        fputs(",\n", p->out);
    } else {
        putc('\n', p->out);
        print_indent(p, p->indent - 1);
        fputs("<\n", p->out);
    }
    *any = true;
    print_indent(p, p->indent);
}

/* What stands between < and > before the nodes, without the end; false if there is nothing. */
static bool print_items(struct printer *p, const struct ir_graph_info *graph) {
    bool any = false;
    for (uint32_t i = 0; i < graph->n_items; i++) {
        start_item(p, &any);
        print_decl(p, &p->m->decl.at[graph->items + i]);
    }
    for (uint32_t i = 0; p->declared && i < graph->n_nodes; i++) {
        ir_node n = p->m->node_list.at[graph->nodes + i];
        for (uint32_t k = 0; k < p->m->node.at[n].n_outputs; k++) {
            ir_value v = ir_outputs(p->m, n)[k];
            if (!v || p->declared[v] || !p->m->value.at[v].type) continue;
            start_item(p, &any);
            print_decl(p, &(struct ir_decl){.value = v});
        }
    }
    return any;
}

static void print_graph_body(struct printer *p, ir_graph g) {
    const struct ir_graph_info *graph = &p->m->graph.at[g];
    putc(' ', p->out);
    print_decls(p, graph->inputs, graph->n_inputs);
    fputs(" => ", p->out);
    print_decls(p, graph->outputs, graph->n_outputs);
    p->indent++;
    if (print_items(p, graph)) {
        fputs("\n", p->out);
        print_indent(p, p->indent - 1);
        fputs(">\n", p->out);
        print_indent(p, p->indent - 1);
    } else {
        putc(' ', p->out);
    }
    fputs("{\n", p->out);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        print_node(p, p->m->node_list.at[graph->nodes + i]);
    p->indent--;
    print_indent(p, p->indent);
    putc('}', p->out);
}

/* A graph's name; the main graph and those of attributes. */
static void print_graph(struct printer *p, ir_graph g) {
    print_name(p, p->m->graph.at[g].name);
    print_graph_body(p, g);
}

/* ---- headers and functions ------------------------------------------------------------------- */

/* The entries of a header; the first opens it. */
static void print_key(struct printer *p, bool *first, const char *key) {
    fprintf(p->out, "%s   %s: ", *first ? "<\n" : ",\n", key);
    *first = false;
}

static void print_string_entry(struct printer *p, bool *first, bool has, const char *key, str s) {
    if (!has) return;
    print_key(p, first, key);
    print_string(p, s);
}

static void print_int_entry(struct printer *p, bool *first, bool has, const char *key, int64_t i) {
    if (!has) return;
    print_key(p, first, key);
    fprintf(p->out, "%" PRId64, i);
}

static void print_opsets(struct printer *p, bool *first, uint32_t opsets, uint32_t n) {
    print_key(p, first, "opset_import");
    putc('[', p->out);
    for (uint32_t i = 0; i < n; i++) {
        const struct ir_opset *opset = &p->m->opset.at[opsets + i];
        if (i) fputs(", ", p->out);
        print_string(p, opset->domain);
        fprintf(p->out, " : %" PRId64, opset->version);
    }
    putc(']', p->out);
    p->opsets = opsets;
    p->n_opsets = n;
}

static void print_header(struct printer *p) {
    const struct ir_module *m = p->m;
    bool first = true;
    print_int_entry(p, &first, m->has_ir_version, "ir_version", m->ir_version);
    if (m->has_opsets) print_opsets(p, &first, m->opsets, m->n_opsets);
    print_string_entry(p, &first, m->has_producer_name, "producer_name", m->producer_name);
    print_string_entry(p, &first, m->has_producer_version, "producer_version", m->producer_version);
    print_string_entry(p, &first, m->has_domain, "domain", m->domain);
    print_int_entry(p, &first, m->has_model_version, "model_version", m->model_version);
    print_string_entry(p, &first, m->has_doc, "doc_string", m->doc);
    if (m->has_metadata) {
        print_key(p, &first, "metadata_props");
        putc('[', p->out);
        for (uint32_t i = 0; i < m->metadata.n; i++) {
            if (i) fputs(", ", p->out);
            print_string(p, m->metadata.at[i].key);
            fputs(": ", p->out);
            print_string(p, m->metadata.at[i].value);
        }
        putc(']', p->out);
    }
    if (!first) fputs("\n>\n", p->out);
}

static void print_function(struct printer *p, ir_function function) {
    const struct ir_function_info *f = &p->m->function.at[function];
    bool first = true;
    p->opsets = p->m->opsets;
    p->n_opsets = p->m->n_opsets;
    print_string_entry(p, &first, f->domain != 0, "domain", f->domain);
    print_string_entry(p, &first, f->overload != 0, "overload", f->overload);
    if (f->has_opsets) print_opsets(p, &first, f->opsets, f->n_opsets);
    print_string_entry(p, &first, f->doc != 0, "doc_string", f->doc);
    if (!first) fputs("\n>\n", p->out);
    print_name(p, f->name);
    if (f->n_attrs) print_attrs(p, f->attrs, f->n_attrs);
    print_graph_body(p, f->body);
    putc('\n', p->out);
}

static void print_module(struct printer *p) {
    print_header(p);
    print_graph(p, p->m->main);
    putc('\n', p->out);
    for (ir_function f = 1; f < p->m->function.n; f++) print_function(p, f);
}

bool ir_print(const struct ir_module *m, FILE *out) {
    struct printer p = {.m = m, .out = out};
    print_module(&p);
    return !p.nul;
}

bool ir_print_elided(const struct ir_module *m, FILE *out) {
    struct printer p = {.m = m, .out = out, .elide = true};
    print_module(&p);
    return !p.nul;
}

void ir_print_typed(const struct ir_module *m, FILE *out) {
    bool *declared = calloc(m->value.n, sizeof *declared);
    if (!declared) arena_out_of_memory(m->value.n * sizeof *declared);
    for (uint32_t i = 0; i < m->decl.n; i++) declared[m->decl.at[i].value] = true;
    print_module(&(struct printer){.m = m, .out = out, .declared = declared});
    free(declared);
}
