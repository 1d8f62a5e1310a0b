/* Inlining: every call of one of the model's functions becomes a copy of its body.
 *
 * Afterwards the main graph and its subgraphs hold no calls, and each graph's nodes are a fresh
 * range of node_list; the functions' own bodies stay as they were read. The passes that follow know
 * graphs only.
 *
 * The formal inputs stand for the call's inputs and the formal outputs for its outputs, by
 * position: values, not names, are substituted, so it does not matter that a formal may be called
 * like an outer value that the call does not pass. A body's value is copied as "call/value", where
 * the call's name is the node's or that of its first output; a call inside a copied body gets a
 * copy too (in no graph), so that node.call leads from a node through all calls around it.
 *
 * An attribute written `= @name` becomes the call's attribute of that name, or the function's
 * default, or vanishes. Subgraphs in bodies are copied with them; a subgraph that is passed as an
 * attribute is copied at each place that refers to it.
 *
 * A function that calls another twice at each of 40 levels would fill any memory, so the resulting
 * numbers of nodes and levels are computed first, once per function. The work is linear in the
 * result. */
#include "program.h"
#include <string.h>

enum {
    MAX_NODES = 1 << 24,
    MAX_PASSED = 1 << 18, /* nodes in copies of subgraphs passed as attributes */
};

#define OMITTED UINT32_MAX /* in `map`: a formal input that the call does not give */

struct inliner {
    struct ir_module *m;
    struct op_table *ops;
    struct diags *d;
    VEC(ir_value) map;    /* by value: what stands for it in the copy being made; 0: itself */
    VEC(uint8_t) bound;   /* by value: a formal output whose copy is the call's output */
    VEC(ir_node) out;     /* stack: the nodes of the graphs being rebuilt */
    VEC(uint8_t) taken;   /* by str: some value has this name */
    VEC(uint32_t) copies; /* by str: how many calls had this name */
    VEC(char) text;       /* a name being made */
    uint64_t *nodes;      /* by function: nodes of its body with everything inlined; 0: not known */
    uint32_t *levels;     /* by function: calls and subgraphs below it */
    uint32_t depth;       /* of copied subgraphs around this place */
    uint32_t passing;     /* inside how many subgraphs passed as attributes we are */
    uint32_t passed_nodes; /* nodes made there */
    bool failed;
};

/* One copy of a function's body. */
struct copy {
    ir_function function;
    ir_node call;
    str prefix;
};

/* ---- how large it becomes -------------------------------------------------------------------- */

struct size {
    uint64_t nodes;
    uint32_t levels;
};

static struct size measure_graph(struct inliner *x, ir_graph g, uint32_t level, ir_node at);

static struct size measure_function(struct inliner *x, ir_function f, uint32_t level, ir_node at) {
    if (!x->nodes[f]) {
        struct size s = measure_graph(x, x->m->function.at[f].body, level, at);
        x->nodes[f] = s.nodes + 1;
        x->levels[f] = s.levels;
    }
    return (struct size){x->nodes[f], x->levels[f]};
}

static void too_deep(struct inliner *x, ir_node at) {
    const struct ir_node_info *node = &x->m->node.at[at];
    if (!x->failed)
        diag_at(x->d, DIAG_INLINE_DEPTH, node->loc, strtab_len(&x->m->strings, node->op),
                "inlining this makes more than %d levels of calls and subgraphs", IR_MAX_NESTING);
    x->failed = true;
}

static void add_size(struct inliner *x, struct size *to, struct size s, uint32_t level,
                     ir_node at) {
    to->nodes += s.nodes;
    if (to->nodes > MAX_NODES) to->nodes = MAX_NODES + 1; /* no overflow, however deep */
    if (s.levels + 1 > to->levels) to->levels = s.levels + 1;
    if (level + to->levels > IR_MAX_NESTING) too_deep(x, at);
}

static struct size measure_graph(struct inliner *x, ir_graph g, uint32_t level, ir_node at) {
    const struct ir_module *m = x->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    struct size total = {0};
    if (level > IR_MAX_NESTING) too_deep(x, at);
    for (uint32_t i = 0; i < graph->n_nodes && !x->failed; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        const struct ir_node_info *node = &m->node.at[n];
        total.nodes++;
        if (node->callee)
            add_size(x, &total, measure_function(x, node->callee, level + 1, n), level, n);
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            const struct ir_attr_info *a = &m->attr.at[node->attrs + k];
            if (a->kind != IR_ATTR_GRAPH && a->kind != IR_ATTR_GRAPHS) continue;
            for (uint32_t j = 0; j < a->n_values && !x->failed; j++)
                add_size(x, &total,
                         measure_graph(x, m->attr_value.at[a->values + j].g, level + 1, n), level,
                         n);
        }
    }
    return total;
}

static void too_large(struct inliner *x, ir_loc at, str name, const char *what, uint32_t limit) {
    if (!x->failed) {
        struct diag *e = diag_at(x->d, DIAG_INLINE_SIZE, at, strtab_len(&x->m->strings, name),
                                 "inlining makes more than %u nodes %s", limit, what);
        diag_set_help(x->d, e, "look for functions that call others several times at each level");
    }
    x->failed = true;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void take_name(struct inliner *x, str name) {
    while (x->taken.n <= name) vec_push(&x->taken, 0);
    x->taken.at[name] = 1;
}

/* "prefix/name"; one for each copied value, hence without printf. */
static str join_names(struct inliner *x, str prefix, str name) {
    struct strtab *t = &x->m->strings;
    uint32_t a = strtab_len(t, prefix), b = strtab_len(t, name);
    x->text.n = 0;
    char *to = vec_extend(&x->text, a + 1 + b);
    memcpy(to, strtab_text(t, prefix), a);
    to[a] = '/';
    memcpy(to + a + 1, strtab_text(t, name), b);
    return strtab_add(t, to, a + 1 + b);
}

/* "prefix/name", with a number behind where some value is called so already. */
static str copy_name(struct inliner *x, str prefix, str name) {
    struct strtab *t = &x->m->strings;
    if (!name) return 0;
    str copy = join_names(x, prefix, name);
    for (unsigned k = 2; copy < x->taken.n && x->taken.at[copy]; k++)
        copy = strtab_printf(t, "%s/%s#%u", strtab_text(t, prefix), strtab_text(t, name), k);
    take_name(x, copy);
    return copy;
}

/* The call's name; calls of one name, which nodes may share, are numbered. */
static str call_prefix(struct inliner *x, ir_node call) {
    struct ir_module *m = x->m;
    str name = m->node.at[call].name;
    for (uint32_t i = 0; !name && i < m->node.at[call].n_outputs; i++)
        name = m->value.at[ir_outputs(m, call)[i]].name;
    while (x->copies.n <= name) vec_push(&x->copies, 0);
    uint32_t before = x->copies.at[name]++;
    return before ? strtab_printf(&m->strings, "%s#%u", ir_text(m, name), before + 1) : name;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void set_map(struct inliner *x, ir_value v, ir_value to) {
    while (x->map.n <= v) {
        vec_push(&x->map, 0);
        vec_push(&x->bound, 0);
    }
    x->map.at[v] = to;
}

static bool is_bound(const struct inliner *x, ir_value v) {
    return v < x->bound.n && x->bound.at[v];
}

static ir_value mapped(const struct inliner *x, ir_value v) {
    if (v >= x->map.n || !x->map.at[v]) return v;
    return x->map.at[v] == OMITTED ? 0 : x->map.at[v];
}

/* A value of graph `g` that stands for `v`. */
static ir_value copy_value(struct inliner *x, ir_value v, const struct copy *c, ir_graph g) {
    struct ir_module *m = x->m;
    if (!v) return 0;
    struct ir_value_info info = m->value.at[v];
    ir_value copy = ir_value_add(m, copy_name(x, c->prefix, info.name), info.def, g, info.loc);
    struct ir_value_info *new = &m->value.at[copy];
    new->type = info.type;
    new->also_input = info.also_input;
    new->is_output = info.is_output && m->graph.at[info.graph].owner;
    new->data = info.data;
    new->origin = info.origin ? info.origin : v;
    set_map(x, v, copy);
    return copy;
}

static ir_graph copy_graph(struct inliner *x, ir_graph g, const struct copy *c, ir_graph parent,
                           ir_node owner);
static void copy_node(struct inliner *x, ir_node n, const struct copy *c, ir_graph g);

/* What a node's attribute is in the copy: what it refers to, under its own name. */
static bool resolve_attr(const struct inliner *x, ir_attr a, const struct copy *c,
                         struct ir_attr_info *out) {
    const struct ir_module *m = x->m;
    const struct ir_function_info *f = &m->function.at[c->function];
    *out = m->attr.at[a];
    str ref = out->ref, name = out->name;
    if (!ref) return true;
    ir_attr given = ir_attr_find(m, c->call, ir_text(m, ref));
    for (uint32_t i = 0; !given && i < f->n_attrs; i++) {
        const struct ir_attr_info *formal = &m->attr.at[f->attrs + i];
        if (formal->name == ref && !formal->no_value) given = f->attrs + i;
    }
    if (!given) return false;
    *out = m->attr.at[given];
    out->name = name;
    return true;
}

static bool needs_copy(const struct ir_attr_info *a) {
    return a->ref || a->kind == IR_ATTR_GRAPH || a->kind == IR_ATTR_GRAPHS;
}

/* The attributes of the copy `to`, which is in graph `g`. Ranges are reserved before subgraphs are
 * copied, which add to the same pools. */
static void copy_attrs(struct inliner *x, ir_node from, ir_node to, const struct copy *c,
                       ir_graph g) {
    struct ir_module *m = x->m;
    uint32_t first = m->node.at[from].attrs, n = m->node.at[from].n_attrs, kept = 0;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) any |= needs_copy(&m->attr.at[first + i]);
    if (!any) return; /* shared with the original */
    uint32_t at = m->attr.n;
    for (uint32_t i = 0; i < n; i++) {
        struct ir_attr_info a;
        if (!resolve_attr(x, first + i, c, &a)) continue;
        a.ref = m->attr.at[first + i].ref; /* until below */
        vec_push(&m->attr, a);
        kept++;
    }
    m->node.at[to].attrs = at;
    m->node.at[to].n_attrs = kept;
    for (uint32_t i = 0; i < kept; i++) {
        struct ir_attr_info a = m->attr.at[at + i];
        m->attr.at[at + i].ref = 0;
        if (a.kind != IR_ATTR_GRAPH && a.kind != IR_ATTR_GRAPHS) continue;
        x->passing += a.ref != 0;
        uint32_t values = m->attr_value.n;
        m->attr.at[at + i].values = values;
        (void)vec_extend(&m->attr_value, a.n_values);
        for (uint32_t k = 0; k < a.n_values; k++) {
            ir_graph inner = copy_graph(x, m->attr_value.at[a.values + k].g, c, g, to);
            m->attr_value.at[values + k].g = inner;
        }
        x->passing -= a.ref != 0;
    }
}

static ir_node add_node(struct ir_module *m, struct ir_node_info info) {
    info.refs = m->ref_value.n;
    ir_node n = m->node.n;
    vec_push(&m->node, info);
    (void)vec_extend(&m->ref_value, info.n_outputs + info.n_inputs);
    (void)vec_extend(&m->ref_loc, info.n_outputs + info.n_inputs);
    return n;
}

static void produce(struct ir_module *m, ir_value v, ir_node n, uint32_t output) {
    if (!v) return;
    m->value.at[v].node = n;
    m->value.at[v].output = output;
}

/* Puts a call's copied body, or any other node, on the list being made. */
static void expand_call(struct inliner *x, ir_node call, ir_graph g) {
    struct ir_module *m = x->m;
    struct copy c = {m->node.at[call].callee, call, call_prefix(x, call)};
    ir_graph body = m->function.at[c.function].body;
    const struct ir_graph_info formal = m->graph.at[body];
    for (uint32_t i = 0; i < formal.n_inputs; i++) {
        ir_value in = ir_input(m, call, i);
        set_map(x, m->decl.at[formal.inputs + i].value, in ? in : OMITTED);
    }
    /* An output that a node of the body produces becomes the call's output itself. One that is a
     * formal input, or is listed twice, needs an Identity in between. */
    uint32_t n_outputs = m->node.at[call].n_outputs;
    VEC(uint32_t) passed = {0};
    for (uint32_t i = 0; i < n_outputs && i < formal.n_outputs; i++) {
        ir_value out = ir_outputs(m, call)[i], v = m->decl.at[formal.outputs + i].value;
        if (!out) continue;
        if (!m->value.at[out].type) m->value.at[out].type = m->value.at[v].type;
        if (m->value.at[v].def != IR_DEF_NODE || is_bound(x, v)) {
            vec_push(&passed, i);
            continue;
        }
        set_map(x, v, out);
        x->bound.at[v] = 1;
    }
    for (uint32_t i = 0; i < formal.n_nodes; i++)
        copy_node(x, m->node_list.at[formal.nodes + i], &c, g);
    for (uint32_t i = 0; i < passed.n; i++) {
        ir_value v = m->decl.at[formal.outputs + passed.at[i]].value;
        ir_value out = ir_outputs(m, call)[passed.at[i]];
        ir_node n = add_node(m, (struct ir_node_info){.op = strtab_addz(&m->strings, "Identity"),
                                                      .def = op_find(x->ops, "", "Identity"),
                                                      .loc = m->node.at[call].loc,
                                                      .graph = g,
                                                      .n_outputs = 1,
                                                      .n_inputs = 1,
                                                      .call = call});
        uint32_t refs = m->node.at[n].refs;
        m->ref_value.at[refs] = out;
        m->ref_value.at[refs + 1] = mapped(x, v);
        m->ref_loc.at[refs] = m->ref_loc.at[refs + 1] = m->decl.at[formal.outputs].loc;
        produce(m, out, n, 0);
        vec_push(&x->out, n);
    }
    vec_free(&passed);
}

static void copy_node(struct inliner *x, ir_node n, const struct copy *c, ir_graph g) {
    struct ir_module *m = x->m;
    if (x->failed) return;
    if (x->passing && ++x->passed_nodes > MAX_PASSED) {
        too_large(x, m->node.at[n].loc, m->node.at[n].op, "of subgraphs passed as attributes",
                  MAX_PASSED);
        return;
    }
    struct ir_node_info info = m->node.at[n];
    uint32_t from = info.refs;
    if (info.name || info.callee) {
        if (!info.name && info.n_outputs) info.name = m->value.at[ir_outputs(m, n)[0]].name;
        info.name = join_names(x, c->prefix, info.name);
    }
    info.graph = g;
    info.call = c->call;
    ir_node copy = add_node(m, info);
    uint32_t to = m->node.at[copy].refs;
    for (uint32_t i = 0; i < info.n_outputs + info.n_inputs; i++) {
        ir_value v = m->ref_value.at[from + i];
        m->ref_loc.at[to + i] = m->ref_loc.at[from + i];
        if (i >= info.n_outputs) {
            m->ref_value.at[to + i] = mapped(x, v);
            continue;
        }
        bool bound = is_bound(x, v);
        if (bound) x->bound.at[v] = 0;
        ir_value out = bound ? x->map.at[v] : copy_value(x, v, c, g);
        m->ref_value.at[to + i] = out;
        produce(m, out, copy, i);
    }
    if (info.n_attrs) copy_attrs(x, n, copy, c, g);
    if (info.callee)
        expand_call(x, copy, g);
    else
        vec_push(&x->out, copy);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Makes what lies on the stack above `base` the graph's nodes. */
static void finish_graph(struct inliner *x, ir_graph g, uint32_t base) {
    struct ir_module *m = x->m;
    uint32_t n = x->out.n - base;
    m->graph.at[g].nodes = m->node_list.n;
    m->graph.at[g].n_nodes = n;
    if (n) memcpy(vec_extend(&m->node_list, n), &x->out.at[base], n * sizeof(ir_node));
    x->out.n = base;
}

static uint32_t copy_decls(struct inliner *x, uint32_t first, uint32_t n, const struct copy *c,
                           ir_graph g, bool define) {
    struct ir_module *m = x->m;
    uint32_t at = m->decl.n;
    for (uint32_t i = 0; i < n; i++) {
        struct ir_decl decl = m->decl.at[first + i];
        bool own = define && decl.value && m->value.at[decl.value].def != IR_DEF_NODE;
        decl.value = own ? copy_value(x, decl.value, c, g) : mapped(x, decl.value);
        vec_push(&m->decl, decl);
    }
    return at;
}

static ir_graph copy_graph(struct inliner *x, ir_graph g, const struct copy *c, ir_graph parent,
                           ir_node owner) {
    struct ir_module *m = x->m;
    struct ir_graph_info info = m->graph.at[g];
    ir_graph copy = m->graph.n;
    vec_push(&m->graph, info);
    if (++x->depth > IR_MAX_NESTING) too_deep(x, owner);
    uint32_t inputs = copy_decls(x, info.inputs, info.n_inputs, c, copy, true);
    /* Of the items only initializers define values; types of nodes' outputs are in the values. */
    uint32_t items = m->decl.n;
    for (uint32_t i = 0; i < info.n_items; i++)
        if (m->decl.at[info.items + i].data) {
            struct ir_decl decl = m->decl.at[info.items + i];
            bool input =
                m->value.at[decl.value].def == IR_DEF_INPUT || m->value.at[decl.value].also_input;
            decl.value = input ? mapped(x, decl.value) : copy_value(x, decl.value, c, copy);
            vec_push(&m->decl, decl);
        }
    uint32_t n_items = m->decl.n - items, base = x->out.n;
    for (uint32_t i = 0; i < info.n_nodes; i++)
        copy_node(x, m->node_list.at[info.nodes + i], c, copy);
    finish_graph(x, copy, base);
    x->depth--;
    uint32_t outputs = copy_decls(x, info.outputs, info.n_outputs, c, copy, false);
    struct ir_graph_info *new = &m->graph.at[copy];
    new->parent = parent;
    new->owner = owner;
    new->function = 0;
    new->inputs = inputs;
    new->items = items;
    new->n_items = n_items;
    new->outputs = outputs;
    return copy;
}

/* Graphs that are not copies keep their nodes; calls among these are replaced. */
static void rebuild_graph(struct inliner *x, ir_graph g) {
    struct ir_module *m = x->m;
    struct ir_graph_info info = m->graph.at[g];
    uint32_t base = x->out.n;
    for (uint32_t i = 0; i < info.n_nodes && !x->failed; i++) {
        ir_node n = m->node_list.at[info.nodes + i];
        uint32_t attrs = m->node.at[n].attrs, n_attrs = m->node.at[n].n_attrs;
        for (uint32_t k = 0; k < n_attrs; k++) {
            struct ir_attr_info a = m->attr.at[attrs + k];
            if (a.kind == IR_ATTR_GRAPH || a.kind == IR_ATTR_GRAPHS)
                for (uint32_t j = 0; j < a.n_values; j++)
                    rebuild_graph(x, m->attr_value.at[a.values + j].g);
        }
        if (m->node.at[n].callee)
            expand_call(x, n, g);
        else
            vec_push(&x->out, n);
    }
    finish_graph(x, g, base);
}

bool inline_functions(struct ir_module *m, struct op_table *ops, struct diags *d) {
    if (m->function.n <= 1) return true;
    struct inliner x = {.m = m, .ops = ops, .d = d};
    struct arena scratch = {0};
    x.nodes = arena_new(&scratch, uint64_t, m->function.n);
    x.levels = arena_new(&scratch, uint32_t, m->function.n);
    struct size size = measure_graph(&x, m->main, 0, 0);
    if (size.nodes > MAX_NODES)
        too_large(&x, m->graph.at[m->main].loc, m->graph.at[m->main].name, "of this model",
                  MAX_NODES);
    if (!x.failed) {
        for (ir_value v = 1; v < m->value.n; v++) take_name(&x, m->value.at[v].name);
        rebuild_graph(&x, m->main);
    }
    vec_free(&x.map);
    vec_free(&x.bound);
    vec_free(&x.out);
    vec_free(&x.taken);
    vec_free(&x.copies);
    vec_free(&x.text);
    arena_free(&scratch);
    return !x.failed;
}
