/* Graphs and nodes.
 *
 * Names are resolved while reading (scope.h): a node's outputs get their meaning after its inputs and
 * attributes have been read, a graph's outputs when it ends.
 *
 * With a million names the table of strings is far larger than the caches. So names are hashed, and
 * their places in the table sent for, when they are read, and looked up a little later: those of a
 * node when the next one has been read (or a graph inside it begins), those of items a few at a
 * time. The order in which names get their meaning stays that of the text. */
#include "parse.h"

static const char graph_form[] =
    "a graph reads: name (float[2] x) => (float y) <float[2] w = {1, 2}> "
    "{ y = Op (x, w) }";
static const char node_form[] =
    "a node reads: outputs = Op <attributes> (inputs) or outputs = Op (inputs) <attributes>";

/* ---- declarations ---------------------------------------------------------------------------- */

/* `[type] name`. A type and then '=' is data without a name, which the caller reports. */
static bool read_declaration(struct parser *p, struct parse_item *out) {
    bool ok, typed;
    *out = (struct parse_item){0};
    if (!parse_maybe_type(p, true, &typed, &out->type)) return false;
    out->loc = parse_here(p);
    bool named = parse_pending_name(p, LEX_NAME, &out->name, &ok) && out->name.text.len > 0;
    if (!ok) return false;
    char next = lex_peek(&p->lex);
    bool ends = next == ',' || next == ')' || next == '>' || next == '=' || next == 0;
    if (named && !typed && !ends && parse_misspelt_type(p, out->name.text, next == '['))
        return false;
    if (named || (typed && next == '=')) return true;
    p->lex.at = p->lex.base + out->loc; /* an empty name in quotes is none */
    return parse_expected(p, typed ? "a name behind the type" : "a type or a name");
}

static bool has_name(struct parser *p, const struct parse_item *decl) {
    return decl->name.text.len > 0 || parse_expected(p, "a name behind the type");
}

static void add_declaration(struct parser *p, const struct parse_item *decl, enum ir_def def) {
    scope_declare(&p->scope, def, parse_intern(p, &decl->name),
                  (struct ir_decl){0, decl->type, decl->loc, decl->data});
}

static bool read_input(struct parser *p) {
    struct parse_item decl;
    if (!read_declaration(p, &decl) || !has_name(p, &decl)) return false;
    if (lex_take(&p->lex, '=') && !parse_data(p, decl.type, &decl.data)) return false;
    add_declaration(p, &decl, IR_DEF_INPUT);
    return true;
}

/* Until the graph ends, an output's `value` is its name. */
static bool read_output(struct parser *p) {
    struct parse_item decl;
    if (!read_declaration(p, &decl) || !has_name(p, &decl)) return false;
    str name = parse_intern(p, &decl.name);
    vec_push(&p->m->decl, ((struct ir_decl){name, decl.type, decl.loc, 0}));
    return true;
}

/* What was read of a graph's items gets its meaning a few at a time: each name's place in the table
 * of strings is on its way while the next ones are read. */
static void add_items(struct parser *p) {
    for (uint32_t i = 0; i < p->n_items; i++)
        add_declaration(p, &p->items[i], p->items[i].data ? IR_DEF_INITIALIZER : IR_DEF_DECLARED);
    p->n_items = 0;
}

/* An initializer or a value's type. */
static bool read_item(struct parser *p) {
    struct parse_item *item = &p->items[p->n_items];
    if (!read_declaration(p, item)) return false;
    if (lex_take(&p->lex, '=') && !parse_data(p, item->type, &item->data)) return false;
    if (item->name.text.len == 0) {
        struct diag *g = diag_at(p->d, DIAG_UNNAMED_INITIALIZER, item->loc, 1,
                                 "an initializer without a name is ignored");
        diag_set_help(p->d, g, "nothing can read it; give it a name or leave it out");
        return true;
    }
    if (++p->n_items == PARSE_ITEMS) add_items(p);
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Names with commas between them, up to `close`, onto p->refs. A slot may be empty; behind the last
 * comma it does not count. */
static bool read_refs(struct parser *p, char close, const char *what) {
    struct lexer *l = &p->lex;
    for (;;) {
        char c = lex_peek(l);
        if (c == close) return true;
        struct parse_ref ref = {.loc = (ir_loc)(l->at - l->base)};
        bool ok = true;
        if (c != ',' && !parse_pending_name(p, LEX_NAME, &ref.name, &ok))
            return ok ? parse_expected(p, what) : false;
        vec_push(&p->refs, ref);
        if (!lex_take(l, ',')) return true;
    }
}

/* `domain.Op:overload`, each part quoted or not. */
static bool read_operator(struct parser *p, ir_node n) {
    struct lexer *l = &p->lex;
    struct strtab *strings = &p->m->strings;
    struct ir_node_info info = {.loc = parse_here(p)};
    if (!lex_is(*l->at, LEX_IDENT) && *l->at != '"') return parse_expected(p, "an operator");
    VEC(char) path = {0};
    vec_reserve(&path, 32); /* an empty name in quotes copies nothing, but from and to somewhere */
    bool quoted = false, ok = true;
    size_t domain = 0; /* bytes of the path that are the domain for certain */
    for (;;) {
        quoted = *l->at == '"';
        if (quoted) {
            str part;
            domain = path.n ? path.n - 1 : 0;
            ok = parse_string(p, "an operator", &part);
            if (!ok) break;
            uint32_t len = strtab_len(strings, part);
            memcpy(vec_extend(&path, len), ir_text(p->m, part), len);
        } else {
            struct span word = lex_while(l, LEX_IDENT | LEX_MARK);
            memcpy(vec_extend(&path, (uint32_t)word.len), word.s, word.len);
        }
        if (lex_peek(l) == '.') {
            if (quoted) domain = path.n;
            vec_push(&path, '.');
            l->at++;
            lex_peek(l);
        }
        bool goes_on = path.n && path.at[path.n - 1] == '.';
        if (!goes_on || !(lex_is(*l->at, LEX_IDENT) || *l->at == '"')) break;
    }
    if (ok) {
        if (!quoted) {
            size_t from = domain ? domain + 1 : 0;
            size_t split = ir_domain_length(p->m, p->opsets, p->n_opsets, path.at, path.n);
            if (split >= from) domain = split;
        }
        size_t op = domain ? domain + 1 : 0;
        info.domain = ir_domain_canonical(p->m, strtab_add(strings, path.at, domain));
        info.op = op < path.n ? strtab_add(strings, path.at + op, path.n - op) : 0;
        ok = info.op != 0 || parse_expected(p, "an operator behind the domain");
    }
    vec_free(&path);
    if (ok && lex_take(l, ':')) ok = parse_name(p, LEX_NAME, "an overload's name", &info.overload);
    struct ir_node_info *node = &p->m->node.at[n];
    node->loc = info.loc;
    node->domain = info.domain;
    node->op = info.op;
    node->overload = info.overload;
    return ok;
}

/* An operator of the default domain, as nearly all are; else read_operator. */
static bool read_plain_operator(struct parser *p, ir_node n) {
    struct lexer *l = &p->lex;
    if (!lex_is(lex_peek(l), LEX_ALPHA)) return read_operator(p, n);
    const char *from = l->at;
    struct span word = lex_while(l, LEX_IDENT);
    if (lex_is(*l->at, LEX_NAME) || lex_peek(l) == '.' || *l->at == ':' || *l->at == '"') {
        l->at = from;
        return read_operator(p, n);
    }
    p->m->node.at[n].loc = (ir_loc)(from - l->base);
    p->m->node.at[n].op = strtab_add(&p->m->strings, word.s, word.len);
    return true;
}

static bool read_attributes(struct parser *p, ir_node n) {
    if (!lex_take(&p->lex, '<')) return true;
    uint32_t first, count;
    if (!parse_attrs(p, n, &first, &count)) return false;
    p->m->node.at[n].attrs = first;
    p->m->node.at[n].n_attrs = count;
    return true;
}

/* Gives the names of a node's inputs their values. */
static void resolve_inputs(struct parser *p, uint32_t first, uint32_t n) {
    for (struct parse_ref *ref = p->refs.at + first; n > 0; ref++, n--)
        if (!ref->value) ref->value = scope_use(&p->scope, parse_intern(p, &ref->name), ref->loc);
}

void parse_settle(struct parser *p) {
    struct ir_module *m = p->m;
    struct parse_node held = p->held;
    if (!held.node) return;
    p->held.node = 0;
    resolve_inputs(p, held.refs + held.n_outputs, held.n_refs - held.n_outputs);
    struct ir_node_info *node = &m->node.at[held.node];
    node->name = parse_intern(p, &held.name);
    node->refs = m->ref_value.n;
    ir_value *values = vec_extend(&m->ref_value, held.n_refs);
    ir_loc *locs = vec_extend(&m->ref_loc, held.n_refs);
    for (uint32_t i = 0; i < held.n_refs; i++) {
        struct parse_ref *ref = &p->refs.at[held.refs + i];
        locs[i] = ref->loc;
        values[i] = ref->value;
        if (i < held.n_outputs)
            values[i] =
                scope_define_output(&p->scope, held.node, i, parse_intern(p, &ref->name), ref->loc);
    }
}

/* The node is read: those before it get their meaning, and it waits for the next. */
static void hold(struct parser *p, const struct parse_node *node) {
    uint32_t first = p->held.node ? p->held.refs : node->refs;
    parse_settle(p);
    if (node->n_refs)
        memmove(p->refs.at + first, p->refs.at + node->refs, node->n_refs * sizeof *p->refs.at);
    p->held = *node;
    p->held.refs = first;
    p->refs.n = first + node->n_refs;
}

static bool read_node(struct parser *p) {
    struct ir_module *m = p->m;
    struct lexer *l = &p->lex;
    struct parse_node node = {.node = m->node.n, .refs = p->refs.n};
    ir_node n = node.node;
    vec_push(&m->node, ((struct ir_node_info){.graph = p->scope.graph}));
    if (lex_take(l, '[')) {
        bool ok;
        parse_pending_name(p, LEX_NAME, &node.name, &ok);
        if (!ok || !parse_take(p, ']', "']' behind the node's name")) return false;
    }
    if (!read_refs(p, '=', "a node: outputs and '='")) return false;
    const char *equals = l->at;
    if (!lex_take(l, '=') || lex_peek(l) == '>') {
        l->at = equals;
        return parse_expected(p, "'=' behind the node's outputs");
    }
    node.n_outputs = p->refs.n - node.refs;
    if (!read_plain_operator(p, n) || !read_attributes(p, n) ||
        !parse_take(p, '(', "'(' before the node's inputs") ||
        !read_refs(p, ')', "an input's name or ')'") ||
        !parse_take(p, ')', "',' or ')' behind the node's inputs"))
        return false;
    node.n_refs = p->refs.n - node.refs;
    if (m->node.at[n].n_attrs == 0 && lex_peek(l) == '<') {
        parse_settle(p); /* a graph among the attributes sees the names that the inputs made */
        resolve_inputs(p, node.refs + node.n_outputs, node.n_refs - node.n_outputs);
        if (!read_attributes(p, n)) return false;
    }
    m->node.at[n].n_outputs = node.n_outputs;
    m->node.at[n].n_inputs = node.n_refs - node.n_outputs;
    hold(p, &node);
    vec_push(&p->nodes, n);
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* How far the line of `at` is indented. */
static size_t indentation(const struct lexer *l, const char *at) {
    while (at > l->base && at[-1] != '\n') at--;
    const char *from = at;
    while (*at == ' ' || *at == '\t') at++;
    return (size_t)(at - from);
}

/* After an error in the node that starts at `node`: to where the next one probably starts, or to
 * the graph's '}'. The next node is taken to start a line that is not indented deeper than this
 * one's; what stands on one line is left out together. */
static void skip_node(struct parser *p, const char *node) {
    struct lexer *l = &p->lex;
    bool inner = p->m->graph.at[p->scope.graph].owner;
    size_t indent = indentation(l, node);
    for (uint32_t depth = 0; *l->at; l->at++) {
        char c = *l->at;
        bool may_start = lex_is(c, LEX_IDENT | LEX_MARK) || c == '[' || c == '"';
        if (depth == 0 && may_start && l->at > node && lex_starts_line(l) &&
            indentation(l, l->at) <= indent)
            return;
        if (c == '"') {
            if (!lex_skip_string(l)) l->at = l->end;
            l->at--;
        } else if (c == '#') {
            lex_skip_blanks(l);
            l->at--;
        } else if (c == '{') {
            depth++;
        } else if (c == '}' && depth > 0) {
            depth--;
        } else if (c == '}') {
            struct lexer behind = {l->base, l->at + 1, l->end};
            char next = lex_peek(&behind);
            if (inner || (next != ',' && next != '>'))
                return; /* else it ends a graph in the node */
        }
    }
}

static bool read_nodes(struct parser *p, ir_graph g) {
    struct lexer *l = &p->lex;
    ir_loc open = parse_here(p);
    if (!parse_take(p, '{', "'{' before the nodes")) return false;
    uint32_t depth = p->depth, mark = p->nodes.n, refs_mark = p->refs.n;
    while (!lex_take(l, '}')) {
        const char *node = l->at;
        uint32_t refs = p->refs.n, attrs = p->attrs.n, values = p->values.n;
        p->form = node_form;
        if (*node == 0) {
            bool first = !p->quiet;
            parse_expected(p, "a node or '}'");
            if (first && p->quiet && p->d->all.n)
                diag_add_note(p->d, p->d->all.at[p->d->all.n - 1], open,
                              "the graph's nodes begin here");
            return false;
        }
        if (read_node(p)) continue;
        if (p->quiet) return false;
        skip_node(p, node);
        p->refs.n = refs;
        p->attrs.n = attrs;
        p->values.n = values;
        p->depth = depth;
    }
    parse_settle(p);
    p->refs.n = refs_mark;
    struct ir_graph_info *graph = &p->m->graph.at[g];
    graph->nodes = p->m->node_list.n;
    graph->n_nodes = p->nodes.n - mark;
    if (graph->n_nodes)
        memcpy(vec_extend(&p->m->node_list, graph->n_nodes), p->nodes.at + mark,
               graph->n_nodes * sizeof(ir_node));
    p->nodes.n = mark;
    return true;
}

/* The head of a graph, whose scope is open. */
static bool read_head(struct parser *p, ir_graph g) {
    struct ir_module *m = p->m;
    m->graph.at[g].inputs = m->decl.n;
    if (lex_take(&p->lex, '(') && !parse_list(p, ')', "',' or ')' behind an input", read_input))
        return false;
    m->graph.at[g].n_inputs = m->decl.n - m->graph.at[g].inputs;
    if (!lex_take_arrow(&p->lex)) return parse_expected(p, "'=>' before the outputs");
    uint32_t outputs = m->decl.n;
    if (!parse_take(p, '(', "'(' before the outputs") ||
        !parse_list(p, ')', "',' or ')' behind an output", read_output))
        return false;
    m->graph.at[g].outputs = outputs;
    m->graph.at[g].n_outputs = m->decl.n - outputs;
    m->graph.at[g].items = m->decl.n;
    bool ok =
        !lex_take(&p->lex, '<') || parse_list(p, '>', "',' or '>' behind a declaration", read_item);
    add_items(p);
    if (!ok) return false;
    m->graph.at[g].n_items = m->decl.n - m->graph.at[g].items;
    return true;
}

/* After an error in a graph's head: true if its nodes begin next. A brace in the middle of a line is
 * that of a tensor's data. */
static bool nodes_begin(struct parser *p) {
    struct lexer *l = &p->lex;
    lex_skip_to(l, "{}");
    return *l->at == '{' && (lex_starts_line(l) || (l->at - l->base > 1 && l->at[-2] == ')'));
}

bool parse_graph_body(struct parser *p, ir_graph g) {
    struct scope_outer outer = scope_enter(&p->scope, g);
    uint32_t nodes = p->nodes.n;
    bool ok = (read_head(p, g) || nodes_begin(p)) && read_nodes(p, g);
    p->held.node = 0; /* after an error that ended the text */
    scope_leave(&p->scope, outer);
    p->nodes.n = nodes;
    return ok;
}

bool parse_graph(struct parser *p, str name, ir_loc loc, ir_node owner, ir_graph *out) {
    if (!parse_enter(p)) return false;
    p->form = graph_form;
    *out = p->m->graph.n;
    vec_push(&p->m->graph,
             ((struct ir_graph_info){
                 .name = name, .loc = loc, .parent = p->scope.graph, .owner = owner}));
    bool ok = parse_graph_body(p, *out);
    p->depth--;
    return ok;
}
