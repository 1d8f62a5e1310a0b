/* Graphs, nodes and functions of binary models.
 *
 * In the file a graph's nodes come first and its inputs last, while names are resolved in the
 * order of texts: inputs, outputs, initializers and types, then nodes. So a graph is gone over
 * once for each kind of field that it has; the fields of other kinds are skipped by their length.
 * The outcome is the module that the model's text gives, list by list. */
#include "onnx.h"
#include <string.h>

/* Calls `read` for the message's fields of one number. */
static void each(struct onnx *o, enum onnx_message message, struct span bytes, uint32_t number,
                 void (*read)(struct onnx *, const struct onnx_field *)) {
    struct onnx_cursor c = onnx_cursor(message, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);)
        if (f.number == number) read(o, &f);
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* What an exporter notes at a value or a tensor. */
static void read_notes(struct onnx *o, enum onnx_message message, const struct onnx_field *of,
                       uint32_t number, str name) {
    struct onnx_cursor c = onnx_cursor(message, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);)
        if (f.number == number) onnx_note_kind(o, f.bytes, name);
}

static void read_value(struct onnx *o, const struct onnx_field *of, str *name, ir_type *type) {
    *name = 0;
    *type = 0;
    bool notes = false;
    struct onnx_cursor c = onnx_cursor(ONNX_VALUE, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == VALUE_name) *name = onnx_name(o, &f);
        if (f.number == VALUE_type) *type = onnx_type(o, f.bytes, f.loc);
        notes |= f.number == VALUE_metadata_props;
    }
    if (notes) read_notes(o, ONNX_VALUE, of, VALUE_metadata_props, *name);
}

static void read_input(struct onnx *o, const struct onnx_field *f) {
    struct ir_decl decl = {.loc = f->loc};
    str name;
    read_value(o, f, &name, &decl.type);
    if (name)
        scope_declare(&o->scope, IR_DEF_INPUT, name, decl);
    else
        onnx_error(o, f->loc, "an input has no name");
}

/* Until the graph ends, an output's `value` is its name. */
static void read_output(struct onnx *o, const struct onnx_field *f) {
    struct ir_decl decl = {.loc = f->loc};
    read_value(o, f, &decl.value, &decl.type);
    if (decl.value)
        vec_push(&o->m->decl, decl);
    else
        onnx_error(o, f->loc, "an output has no name");
}

static void read_value_info(struct onnx *o, const struct onnx_field *f) {
    struct ir_decl decl = {.loc = f->loc};
    str name;
    read_value(o, f, &name, &decl.type);
    if (name) scope_declare(&o->scope, IR_DEF_DECLARED, name, decl);
}

static void read_tensor(struct onnx *o, const struct onnx_field *f, bool sparse) {
    struct onnx_tensor t;
    onnx_tensor(o, f, sparse, &t);
    if (t.name) {
        scope_declare(&o->scope, IR_DEF_INITIALIZER, t.name,
                      (struct ir_decl){.type = t.type, .loc = f->loc, .data = t.data});
        if (!sparse) read_notes(o, ONNX_TENSOR, f, TENSOR_metadata_props, t.name);
        return;
    }
    struct diag *g = diag_at(o->d, DIAG_UNNAMED_INITIALIZER, f->loc, 1,
                             "an initializer without a name is ignored");
    diag_set_help(o->d, g, "nothing can read it; give it a name or leave it out");
}

static void read_initializer(struct onnx *o, const struct onnx_field *f) {
    read_tensor(o, f, false);
}

static void read_sparse_initializer(struct onnx *o, const struct onnx_field *f) {
    read_tensor(o, f, true);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void read_ref(struct onnx *o, const struct onnx_field *f, bool output) {
    uint32_t hash = strtab_hash(f->bytes.s, f->bytes.len);
    strtab_prefetch(&o->m->strings, hash);
    vec_push(&o->refs, ((struct onnx_ref){.field = *f, .hash = hash, .output = output}));
}

static void resolve_refs(struct onnx *o, uint32_t mark) {
    for (uint32_t i = mark; i < o->refs.n; i++) {
        struct onnx_ref *ref = &o->refs.at[i];
        ref->name = onnx_name_hashed(o, &ref->field, ref->hash);
        if (!ref->output) ref->value = scope_use(&o->scope, ref->name, ref->field.loc);
    }
}

static void keep_refs(struct onnx *o, ir_node n, uint32_t mark) {
    struct ir_module *m = o->m;
    uint32_t n_refs = o->refs.n - mark, at[2] = {0}; /* of outputs, of inputs */
    for (uint32_t i = mark; i < o->refs.n; i++) at[1] += o->refs.at[i].output;
    struct ir_node_info *node = &m->node.at[n];
    node->n_outputs = at[1];
    node->n_inputs = n_refs - at[1];
    node->refs = m->ref_value.n;
    if (n_refs == 0) return;
    ir_value *values = vec_extend(&m->ref_value, n_refs);
    ir_loc *locs = vec_extend(&m->ref_loc, n_refs);
    for (uint32_t i = mark; i < o->refs.n; i++) {
        struct onnx_ref *ref = &o->refs.at[i];
        uint32_t to = at[!ref->output]++;
        locs[to] = ref->field.loc;
        values[to] = ref->value;
        if (ref->output)
            values[to] = scope_define_output(&o->scope, n, to, ref->name, ref->field.loc);
    }
    o->refs.n = mark;
}

static void read_node(struct onnx *o, const struct onnx_field *of) {
    ir_node n = o->m->node.n;
    struct ir_node_info node = {.loc = of->loc, .graph = o->scope.graph};
    vec_push(&o->m->node, node);
    uint32_t refs = o->refs.n, attrs = o->attrs.n, n_attrs = 0;
    struct onnx_source source = {0};
    struct onnx_cursor c = onnx_cursor(ONNX_NODE, of->bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) switch (f.number) {
        case NODE_input: read_ref(o, &f, false); break;
        case NODE_output: read_ref(o, &f, true); break;
        case NODE_name: node.name = onnx_name(o, &f); break;
        case NODE_op_type: node.op = onnx_name(o, &f); break;
        case NODE_domain: node.domain = ir_domain_canonical(o->m, onnx_name(o, &f)); break;
        case NODE_overload: node.overload = onnx_name(o, &f); break;
        case NODE_attribute: n_attrs++; break;
        case NODE_doc_string:
        case NODE_metadata_props: onnx_note_node(o, &f, &source); break;
        }
    resolve_refs(o, refs);
    if (!node.op) onnx_error(o, of->loc, "a node has no operator");
    c = onnx_cursor(ONNX_NODE, of->bytes);
    for (struct onnx_field f; n_attrs && onnx_field(o, &c, &f);)
        if (f.number == NODE_attribute) onnx_attribute(o, &f, n);
    if (o->stopped) return;
    if (strcmp(ir_text(o->m, node.op), "Constant") != 0) onnx_add_source(o, &source, attrs);
    onnx_keep_attributes(o, attrs, &node.attrs, &node.n_attrs);
    o->m->node.at[n] = node;
    keep_refs(o, n, refs);
    vec_push(&o->nodes, n);
}

static void keep_nodes(struct onnx *o, ir_graph g, uint32_t mark) {
    struct ir_graph_info *graph = &o->m->graph.at[g];
    graph->nodes = o->m->node_list.n;
    graph->n_nodes = o->nodes.n - mark;
    if (graph->n_nodes)
        memcpy(vec_extend(&o->m->node_list, graph->n_nodes), o->nodes.at + mark,
               graph->n_nodes * sizeof(ir_node));
    o->nodes.n = mark;
}

/* ---- graphs and functions -------------------------------------------------------------------- */

void onnx_graph(struct onnx *o, ir_graph g, struct span bytes) {
    struct ir_module *m = o->m;
    struct scope_outer outer = scope_enter(&o->scope, g);
    uint32_t nodes = o->nodes.n;
    bool has[ONNX_N_NUMBERS] = {0};
    uint32_t n_fields = 0, n_nodes = 0;
    struct onnx_cursor c = onnx_cursor(ONNX_GRAPH, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        n_fields++;
        n_nodes += f.number == GRAPH_node;
        if (f.number < ONNX_N_NUMBERS) has[f.number] = true;
        if (f.number == GRAPH_name) m->graph.at[g].name = onnx_name(o, &f);
    }
    if (g == m->main) { /* a node has a name of its own, and roughly so many inputs and outputs */
        ir_module_reserve(m, n_nodes, 3 * n_nodes, n_fields);
        vec_reserve(&o->scope.meaning, n_fields);
    }
    uint32_t inputs = m->decl.n;
    if (has[GRAPH_input]) each(o, ONNX_GRAPH, bytes, GRAPH_input, read_input);
    uint32_t outputs = m->decl.n;
    if (has[GRAPH_output]) each(o, ONNX_GRAPH, bytes, GRAPH_output, read_output);
    uint32_t items = m->decl.n;
    if (has[GRAPH_initializer]) each(o, ONNX_GRAPH, bytes, GRAPH_initializer, read_initializer);
    if (has[GRAPH_sparse_initializer])
        each(o, ONNX_GRAPH, bytes, GRAPH_sparse_initializer, read_sparse_initializer);
    if (has[GRAPH_value_info]) each(o, ONNX_GRAPH, bytes, GRAPH_value_info, read_value_info);
    struct ir_graph_info *graph = &m->graph.at[g];
    graph->inputs = inputs;
    graph->n_inputs = outputs - inputs;
    graph->outputs = outputs;
    graph->n_outputs = items - outputs;
    graph->items = items;
    graph->n_items = m->decl.n - items;
    if (has[GRAPH_node]) each(o, ONNX_GRAPH, bytes, GRAPH_node, read_node);
    keep_nodes(o, g, nodes);
    scope_leave(&o->scope, outer);
}

static void read_formal_input(struct onnx *o, const struct onnx_field *f) {
    str name = onnx_name(o, f);
    if (name)
        scope_declare(&o->scope, IR_DEF_INPUT, name, (struct ir_decl){.loc = f->loc});
    else
        onnx_error(o, f->loc, "an input has no name");
}

static void read_formal_output(struct onnx *o, const struct onnx_field *f) {
    struct ir_decl decl = {.value = onnx_name(o, f), .loc = f->loc};
    if (decl.value)
        vec_push(&o->m->decl, decl);
    else
        onnx_error(o, f->loc, "an output has no name");
}

static void read_formal_attribute(struct onnx *o, const struct onnx_field *f) {
    vec_push(&o->attrs,
             ((struct ir_attr_info){.name = onnx_name(o, f), .loc = f->loc, .no_value = true}));
}

static void read_default(struct onnx *o, const struct onnx_field *f) { onnx_attribute(o, f, 0); }

static void read_opset(struct onnx *o, const struct onnx_field *f) {
    struct ir_opset opset = {.loc = f->loc};
    struct onnx_cursor c = onnx_cursor(ONNX_OPSET, f->bytes);
    for (struct onnx_field part; onnx_field(o, &c, &part);) {
        if (part.number == OPSET_domain)
            opset.domain = ir_domain_canonical(o->m, onnx_name(o, &part));
        if (part.number == OPSET_version) opset.version = (int64_t)part.value;
    }
    vec_push(&o->m->opset, opset);
}

void onnx_opsets(struct onnx *o, enum onnx_message message, struct span bytes, uint32_t number,
                 uint32_t *first, uint32_t *n) {
    *first = o->m->opset.n;
    each(o, message, bytes, number, read_opset);
    *n = o->m->opset.n - *first;
}

void onnx_function(struct onnx *o, const struct onnx_field *of) {
    struct ir_module *m = o->m;
    struct span bytes = of->bytes;
    ir_function f = m->function.n;
    ir_graph g = m->graph.n;
    struct ir_function_info info = {.body = g, .loc = of->loc};
    struct ir_graph_info body = {.function = f, .loc = of->loc};
    vec_push(&m->function, info);
    vec_push(&m->graph, body);
    struct onnx_cursor c = onnx_cursor(ONNX_FUNCTION, bytes);
    for (struct onnx_field part; onnx_field(o, &c, &part);) switch (part.number) {
        case FUNCTION_name: info.name = onnx_name(o, &part); break;
        case FUNCTION_domain: info.domain = ir_domain_canonical(m, onnx_name(o, &part)); break;
        case FUNCTION_overload: info.overload = onnx_name(o, &part); break;
        case FUNCTION_doc_string: info.doc = onnx_string(o, &part); break;
        }
    if (!info.name) onnx_error(o, of->loc, "a function has no name");
    body.name = info.name;
    onnx_opsets(o, ONNX_FUNCTION, bytes, FUNCTION_opset_import, &info.opsets, &info.n_opsets);
    info.has_opsets = info.n_opsets > 0;
    uint32_t attrs = o->attrs.n, nodes = o->nodes.n;
    struct scope_outer outer = scope_enter(&o->scope, g);
    each(o, ONNX_FUNCTION, bytes, FUNCTION_attribute, read_formal_attribute);
    each(o, ONNX_FUNCTION, bytes, FUNCTION_attribute_proto, read_default);
    onnx_keep_attributes(o, attrs, &info.attrs, &info.n_attrs);
    body.inputs = m->decl.n;
    each(o, ONNX_FUNCTION, bytes, FUNCTION_input, read_formal_input);
    body.outputs = m->decl.n;
    body.n_inputs = body.outputs - body.inputs;
    each(o, ONNX_FUNCTION, bytes, FUNCTION_output, read_formal_output);
    body.items = m->decl.n;
    body.n_outputs = body.items - body.outputs;
    each(o, ONNX_FUNCTION, bytes, FUNCTION_value_info, read_value_info);
    body.n_items = m->decl.n - body.items;
    m->function.at[f] = info;
    m->graph.at[g] = body;
    each(o, ONNX_FUNCTION, bytes, FUNCTION_node, read_node);
    keep_nodes(o, g, nodes);
    scope_leave(&o->scope, outer);
}
