/* What one node promises: that its operator exists, its domain is imported, and its inputs,
 * outputs, subgraphs and attributes are those that the operator or the model's function has.
 *
 * A name means one of the model's own functions if domain, name and overload are equal, else an
 * operator of the registry. Names are resolved once each and kept in a small hash table.
 *
 * Input counts depend on the opset version, since some inputs were attributes in earlier ones; the
 * registry knows from which version on each is needed. Control flow has to fit exactly, as the
 * passes that follow pair a node's outputs with its subgraphs' outputs by position. */
#include "verify.h"
#include <stdlib.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

static uint32_t hash_name(str domain, str op, str overload) {
    uint64_t h = ((uint64_t)domain << 32 | op) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ overload) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

static struct resolved *slot_of(struct resolved *slots, uint32_t n_slots, str domain, str op,
                                str overload) {
    uint32_t i = hash_name(domain, op, overload) & (n_slots - 1);
    for (;; i = (i + 1) & (n_slots - 1)) {
        struct resolved *r = &slots[i];
        if (!r->used || (r->domain == domain && r->op == op && r->overload == overload)) return r;
    }
}

static void grow_names(struct verifier *v) {
    uint32_t n = v->n_slots ? v->n_slots * 2 : 64;
    struct resolved *slots = calloc(n, sizeof *slots);
    if (!slots) arena_out_of_memory(n * sizeof *slots);
    for (uint32_t i = 0; i < v->n_slots; i++) {
        const struct resolved *r = &v->names[i];
        if (r->used) *slot_of(slots, n, r->domain, r->op, r->overload) = *r;
    }
    free(v->names);
    v->names = slots;
    v->n_slots = n;
}

/* The name's entry; a new one has `used` false. Valid until the next call. */
static struct resolved *entry_of(struct verifier *v, str domain, str op, str overload) {
    if (v->n_names >= v->n_slots / 2) grow_names(v);
    struct resolved *r = slot_of(v->names, v->n_slots, domain, op, overload);
    r->domain = domain;
    r->op = op;
    r->overload = overload;
    return r;
}

static const char *full_name(struct verifier *v, str domain, str op, str overload) {
    const struct ir_module *m = v->m;
    return arena_printf(&v->d->arena, "%s%s%s%s%s", ir_text(m, domain), domain ? "." : "",
                        ir_text(m, op), overload ? ":" : "", ir_text(m, overload));
}

uint32_t verify_operator_length(const struct verifier *v, const struct ir_node_info *node) {
    uint32_t length = verify_name_length(v, node->op);
    if (node->domain) length += verify_name_length(v, node->domain) + 1;
    if (node->overload) length += verify_name_length(v, node->overload) + 1;
    return length;
}

const char *verify_function_name(struct verifier *v, ir_function f) {
    const struct ir_function_info *info = &v->m->function.at[f];
    return full_name(v, info->domain, info->name, info->overload);
}

/* The attributes of node `n`, or the formal ones of function `f`: each once. */
static void verify_once(struct verifier *v, uint32_t first, uint32_t count, ir_node n,
                        ir_function f) {
    for (ir_attr a = first; a < first + count; a++) {
        const struct ir_attr_info *attr = &v->m->attr.at[a];
        ir_attr before = v->given[attr->name];
        v->given[attr->name] = a;
        if (before < first || before >= a) continue; /* another node's */
        struct diag *e =
            diag_at(v->d, DIAG_ATTRIBUTE_TWICE, attr->loc, verify_name_length(v, attr->name),
                    "%s has the attribute '%s' twice",
                    n ? verify_node_name(v, n)
                      : arena_printf(&v->d->arena, "function '%s'", verify_function_name(v, f)),
                    ir_text(v->m, attr->name));
        diag_add_note(v->d, e, v->m->attr.at[before].loc, "the first one is here");
        diag_set_help(v->d, e, "leave out the one that is not meant");
    }
}

void verify_functions(struct verifier *v) {
    for (ir_function f = 1; f < v->m->function.n; f++) {
        const struct ir_function_info *info = &v->m->function.at[f];
        verify_once(v, info->attrs, info->n_attrs, 0, f);
        struct resolved *r = entry_of(v, info->domain, info->name, info->overload);
        if (r->used) {
            struct diag *e =
                diag_at(v->d, DIAG_FUNCTION_TWICE, info->loc, verify_name_length(v, info->name),
                        "function '%s' is defined twice", verify_function_name(v, f));
            diag_add_note(v->d, e, v->m->function.at[r->callee].loc, "first defined here");
            continue;
        }
        r->used = true;
        r->callee = f;
        v->n_names++;
    }
}

static const struct ir_opset *find_opset(const struct verifier *v, uint32_t first, uint32_t n,
                                         str domain) {
    for (uint32_t i = first; i < first + n; i++)
        if (v->m->opset.at[i].domain == domain) return &v->m->opset.at[i];
    return NULL;
}

/* The import of the domain that counts here, or NULL. A function sees its own and the model's. */
static const struct ir_opset *imported(const struct verifier *v, str domain) {
    const struct ir_function_info *f = &v->m->function.at[v->function];
    const struct ir_opset *opset = find_opset(v, f->opsets, f->n_opsets, domain);
    return opset ? opset : find_opset(v, v->m->opsets, v->m->n_opsets, domain);
}

/* The operator or function of the same domain whose name is nearest. */
static const char *nearest_operator(struct verifier *v, const struct ir_node_info *node) {
    const struct ir_module *m = v->m;
    const char *domain = ir_text(m, node->domain), *name = ir_text(m, node->op);
    const char *candidates[2] = {NULL, NULL};
    size_t n = 0;
    VEC(const char *) functions = {0};
    for (ir_function f = 1; f < m->function.n; f++)
        if (m->function.at[f].domain == node->domain)
            vec_push(&functions, ir_text(m, m->function.at[f].name));
    const char *function = diag_nearest(name, functions.at, functions.n);
    const char *builtin = op_nearest(v->ops, domain, name);
    if (function) candidates[n++] = function;
    if (builtin) candidates[n++] = builtin;
    vec_free(&functions);
    return diag_nearest(name, candidates, n);
}

/* " (aten::linear)" where PyTorch's fallback node, ATen, says which of its operators it stands
 * for. */
static const char *stands_for(struct verifier *v, ir_node n) {
    const struct ir_module *m = v->m;
    ir_attr a = ir_attr_find(m, n, "operator");
    if (!a || m->attr.at[a].kind != IR_ATTR_STRING || !m->attr.at[a].n_values ||
        strcmp(ir_text(m, m->node.at[n].op), "ATen") != 0)
        return "";
    return arena_printf(&v->d->arena, " (aten::%s)",
                        ir_text(m, m->attr_value.at[m->attr.at[a].values].s));
}

static void unknown_operator(struct verifier *v, ir_node n, struct resolved *r) {
    const struct ir_node_info *node = &v->m->node.at[n];
    if (r->reported) {
        r->more++;
        return;
    }
    const char *name = full_name(v, r->domain, node->op, node->overload);
    r->reported = diag_at(v->d, DIAG_UNKNOWN_OPERATOR, node->loc, (uint32_t)strlen(name),
                          "operator '%s'%s is not known", name, stands_for(v, n));
    const char *nearest = v->d->errors <= DIAG_MAX_SHOWN ? nearest_operator(v, node) : NULL;
    const char *domain = ir_text(v->m, r->domain);
    const char *pattern = r->domain ? arena_printf(&v->d->arena, "%s.*", domain) : name;
    const char *way = arena_printf(
        &v->d->arena,
        "--assume-differentiable \"%s\" accepts it with gradients to all float inputs; --ops FILE "
        "declares it input by input",
        pattern);
    if (nearest)
        diag_set_help(v->d, r->reported, "did you mean '%s'? If the name is right: %s", nearest,
                      way);
    else if (r->domain && op_find(v->ops, "", ir_text(v->m, node->op)))
        diag_set_help(v->d, r->reported,
                      "'%s' exists in ONNX's own domain. If this one is meant: %s",
                      ir_text(v->m, node->op), way);
    else
        diag_set_help(v->d, r->reported, "%s", way);
    if (!imported(v, r->domain))
        diag_add_note(v->d, r->reported, IR_NO_LOC, "the model does not import domain '%s' either",
                      r->domain ? domain : "ai.onnx");
}

void verify_unknown_counts(struct verifier *v) {
    for (uint32_t i = 0; i < v->n_slots; i++) {
        const struct resolved *r = &v->names[i];
        if (r->more)
            diag_add_note(v->d, r->reported, IR_NO_LOC, "%u more node%s use%s it", r->more,
                          r->more == 1 ? "" : "s", r->more == 1 ? "s" : "");
    }
}

/* The version of the node's domain; 0, reported once a scope, if it is not imported. */
static int64_t opset_version(struct verifier *v, const struct ir_node_info *node, str domain) {
    struct ir_module *m = v->m;
    const struct ir_opset *opset = imported(v, domain);
    if (opset) return opset->version;
    for (uint32_t i = 0; i < v->missing_domains.n; i++)
        if (v->missing_domains.at[i] == domain) return 0;
    vec_push(&v->missing_domains, domain);
    const char *text = ir_text(m, domain), *op = ir_text(m, node->op);
    int version = domain ? 1 : 17;
    struct diag *e = diag_at(v->d, DIAG_OPSET_MISSING, node->loc, verify_operator_length(v, node),
                             "'%s' is in domain '%s', which the model does not import", op,
                             domain ? text : "ai.onnx");
    if (v->function)
        diag_set_help(v->d, e, "add \"%s\" : %d to the opset_import of the function or the model",
                      text, version);
    else if (m->has_opsets)
        diag_set_help(v->d, e, "add \"%s\" : %d to opset_import", text, version);
    else
        diag_set_help(v->d, e,
                      m->has_header
                          ? "add to the header: opset_import: [\"%s\" : %d]"
                          : "begin the file with <ir_version: 8, opset_import: [\"%s\" : %d]>",
                      text, version);
    return 0;
}

/* ---- control flow ---------------------------------------------------------------------------- */

/* The subgraph; 0 after reporting that it is missing, or silently where a function's attribute
 * stands for it (*refers). */
static ir_graph need_subgraph(struct verifier *v, ir_node n, const char *name, bool *refers) {
    const struct ir_module *m = v->m;
    ir_graph g = ir_subgraph(m, n, name);
    ir_attr a = ir_attr_find(m, n, name);
    *refers = a && m->attr.at[a].ref;
    if (!g && !*refers) {
        const char *op = ir_text(m, m->node.at[n].op);
        struct diag *e =
            diag_at(v->d, DIAG_SUBGRAPH_MISSING, m->node.at[n].loc, (uint32_t)strlen(op),
                    "%s has no graph '%s'", verify_node_name(v, n), name);
        diag_set_help(v->d, e, "give it as an attribute: <%s = name (inputs) => (outputs) { ... }>",
                      name);
    }
    return g;
}

static void need_count(struct verifier *v, ir_node n, ir_graph g, const char *what, uint32_t has,
                       uint32_t needs, const char *because) {
    if (has == needs) return;
    const struct ir_module *m = v->m;
    struct diag *e = diag_at(
        v->d, DIAG_SUBGRAPH_ARITY, m->graph.at[g].loc, verify_name_length(v, m->graph.at[g].name),
        "graph '%s' has %u %s%s, but %s needs %u: %s", ir_text(m, m->graph.at[g].name), has, what,
        has == 1 ? "" : "s", verify_node_name(v, n), needs, because);
    diag_add_note(v->d, e, m->node.at[n].loc, "the node is here");
}

static void verify_if(struct verifier *v, ir_node n) {
    static const char *const branches[] = {"then_branch", "else_branch"};
    for (int i = 0; i < 2; i++) {
        bool refers;
        ir_graph g = need_subgraph(v, n, branches[i], &refers);
        if (!g) continue;
        need_count(v, n, g, "input", v->m->graph.at[g].n_inputs, 0,
                   "a branch reads outer values directly");
        need_count(v, n, g, "output", v->m->graph.at[g].n_outputs, v->m->node.at[n].n_outputs,
                   "as many as the node");
    }
}

static void verify_loop(struct verifier *v, ir_node n) {
    bool refers;
    ir_graph g = need_subgraph(v, n, "body", &refers);
    if (!g) return;
    const struct ir_node_info *node = &v->m->node.at[n];
    uint32_t carried = node->n_inputs > 2 ? node->n_inputs - 2 : 0;
    need_count(v, n, g, "input", v->m->graph.at[g].n_inputs, 2 + carried,
               "iteration number, condition, carried values");
    need_count(v, n, g, "output", v->m->graph.at[g].n_outputs, 1 + node->n_outputs,
               "condition, then the node's outputs");
    if (node->n_outputs < carried) {
        struct diag *e = diag_at(v->d, DIAG_SUBGRAPH_ARITY, node->loc, 4,
                                 "%s has %u outputs for %u carried values", verify_node_name(v, n),
                                 node->n_outputs, carried);
        diag_set_help(v->d, e, "the outputs are the carried values, then the scan outputs");
    }
}

/* Scan of opset 8: the lengths of the sequences stand before the states, or an omitted input. */
static bool may_be_batched(int64_t opset) { return opset == 8 || opset == OP_ANY_OPSET; }

static void verify_scan(struct verifier *v, ir_node n, int64_t opset) {
    bool refers;
    ir_graph g = need_subgraph(v, n, "body", &refers);
    const struct ir_node_info *node = &v->m->node.at[n];
    ir_attr a = ir_attr_find(v->m, n, "num_scan_inputs");
    int64_t scanned = ir_attr_int(v->m, n, "num_scan_inputs", -1);
    if (!a) {
        struct diag *e = diag_at(v->d, DIAG_SUBGRAPH_MISSING, node->loc, 4,
                                 "%s has no attribute 'num_scan_inputs'", verify_node_name(v, n));
        diag_set_help(v->d, e, "it says how many of the last inputs are scanned");
        return;
    }
    if (!g || v->m->attr.at[a].ref) return;
    uint32_t lengths = may_be_batched(opset) && node->n_inputs &&
                       (opset == 8 || node->n_inputs == v->m->graph.at[g].n_inputs + 1);
    uint32_t inputs = node->n_inputs - lengths;
    if (scanned < 0 || scanned > inputs) {
        diag_at(v->d, DIAG_SUBGRAPH_ARITY, node->loc, 4, "%s scans %lld of its %u inputs",
                verify_node_name(v, n), (long long)scanned, inputs);
        return;
    }
    need_count(v, n, g, "input", v->m->graph.at[g].n_inputs, inputs,
               lengths ? "as many as the node behind its sequence lengths" : "as many as the node");
    need_count(v, n, g, "output", v->m->graph.at[g].n_outputs, node->n_outputs,
               "as many as the node");
    uint32_t states = inputs - (uint32_t)scanned;
    if (node->n_outputs < states)
        diag_at(v->d, DIAG_SUBGRAPH_ARITY, node->loc, 4, "%s has %u outputs for %u state values",
                verify_node_name(v, n), node->n_outputs, states);
}

static void verify_map(struct verifier *v, ir_node n) {
    bool refers;
    ir_graph g = need_subgraph(v, n, "body", &refers);
    if (!g) return;
    need_count(v, n, g, "input", v->m->graph.at[g].n_inputs, v->m->node.at[n].n_inputs,
               "as many as the node");
    need_count(v, n, g, "output", v->m->graph.at[g].n_outputs, v->m->node.at[n].n_outputs,
               "as many as the node");
}

/* ---- operators and calls --------------------------------------------------------------------- */

/* Inputs up to the last that is not omitted. */
static uint32_t given_inputs(const struct ir_module *m, ir_node n) {
    uint32_t given = m->node.at[n].n_inputs;
    while (given && !ir_inputs(m, n)[given - 1]) given--;
    return given;
}

static ir_loc ref_place(const struct ir_module *m, ir_node n, uint32_t ref) {
    return m->ref_loc.at[m->node.at[n].refs + ref];
}

static void verify_operator(struct verifier *v, ir_node n, int64_t opset) {
    const struct ir_module *m = v->m;
    const struct ir_node_info *node = &m->node.at[n];
    const struct op_def *op = op_get(v->ops, node->def);
    uint32_t caret = verify_operator_length(v, node), given = given_inputs(m, n);
    uint32_t least = op_min_inputs(v->ops, node->def, opset);
    uint32_t most = op_max_inputs(v->ops, node->def, opset);
    if (given > most)
        diag_at(v->d, DIAG_TOO_MANY_INPUTS, ref_place(m, n, node->n_outputs + most), 1,
                "%s has %u inputs, but '%s' takes %u", verify_node_name(v, n), given, op->name,
                most);
    for (uint32_t i = 0; i < least; i++) {
        const struct op_input *in = op_input_of(v->ops, node->def, i);
        bool needed = !in->optional && op_input_in(in, opset);
        if (!needed || ir_input(m, n, i)) continue;
        if (i == 0 && node->n_inputs > 1 && may_be_batched(opset) && strcmp(op->name, "Scan") == 0)
            continue; /* the lengths of the sequences */
        struct diag *e =
            diag_at(v->d, DIAG_TOO_FEW_INPUTS, node->loc, caret, "%s lacks input %u, '%s'",
                    verify_node_name(v, n), i + 1, in->name);
        if (in->since)
            diag_set_help(v->d, e, "from opset %d on it is an input, before it was an attribute",
                          in->since);
        break;
    }
    bool named = false;
    for (uint32_t i = 0; i < node->n_outputs; i++) named |= ir_outputs(m, n)[i] != 0;
    if (!named)
        diag_at(v->d, DIAG_NO_OUTPUTS, node->loc, caret, "a '%s' node has no output",
                ir_text(m, node->op));
    if (op->max_outputs != OP_ANY && node->n_outputs > op->max_outputs)
        diag_at(v->d, DIAG_TOO_MANY_OUTPUTS, ref_place(m, n, op->max_outputs), 1,
                "%s has %u outputs, but '%s' gives %u", verify_node_name(v, n), node->n_outputs,
                op->name, op->max_outputs);
    if (op->out_dtype != OP_DTYPE_BODY) return;
    if (strcmp(op->name, "If") == 0)
        verify_if(v, n);
    else if (strcmp(op->name, "Loop") == 0)
        verify_loop(v, n);
    else if (strcmp(op->name, "Scan") == 0)
        verify_scan(v, n, opset);
    else
        verify_map(v, n);
}

static void verify_call(struct verifier *v, ir_node n) {
    const struct ir_module *m = v->m;
    const struct ir_node_info *node = &m->node.at[n];
    const struct ir_function_info *f = &m->function.at[node->callee];
    const struct ir_graph_info *body = &m->graph.at[f->body];
    uint32_t caret = verify_operator_length(v, node), given = given_inputs(m, n);
    struct diag *e = NULL;
    if (v->function) vec_push(&v->calls, ((struct call){v->function, node->callee, n}));
    if (given > body->n_inputs)
        e = diag_at(v->d, DIAG_FUNCTION_ARITY, node->loc, caret,
                    "%s has %u inputs, but the function takes %u", verify_node_name(v, n), given,
                    body->n_inputs);
    else if (node->n_outputs > body->n_outputs)
        e = diag_at(v->d, DIAG_FUNCTION_ARITY, node->loc, caret,
                    "%s has %u outputs, but the function gives %u", verify_node_name(v, n),
                    node->n_outputs, body->n_outputs);
    if (e) diag_add_note(v->d, e, f->loc, "the function is here");
    for (uint32_t i = 0; i < f->n_attrs; i++) {
        const struct ir_attr_info *formal = &m->attr.at[f->attrs + i];
        const char *name = ir_text(m, formal->name);
        if (!formal->no_value || ir_attr_find(m, n, name)) continue;
        e = diag_at(v->d, DIAG_FUNCTION_ATTRIBUTE, node->loc, caret,
                    "%s lacks attribute '%s', which the function needs", verify_node_name(v, n),
                    name);
        diag_add_note(v->d, e, formal->loc, "the function lists it here, without a default");
    }
}

/* `= @name` stands for an attribute of the function around it. */
static void verify_references(struct verifier *v, ir_node n) {
    const struct ir_module *m = v->m;
    const struct ir_node_info *node = &m->node.at[n];
    const struct ir_function_info *f = &m->function.at[v->function];
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct ir_attr_info *a = &m->attr.at[node->attrs + i];
        bool found = !a->ref;
        for (uint32_t k = 0; k < f->n_attrs && !found; k++)
            found = m->attr.at[f->attrs + k].name == a->ref;
        if (found) continue;
        const char *name = ir_text(m, a->ref);
        if (v->function)
            diag_at(v->d, DIAG_ATTRIBUTE_REFERENCE, a->loc, verify_name_length(v, a->name),
                    "'@%s' refers to no attribute of function '%s'", name,
                    verify_function_name(v, v->function));
        else
            diag_at(v->d, DIAG_ATTRIBUTE_REFERENCE, a->loc, verify_name_length(v, a->name),
                    "'@%s' outside a function refers to nothing", name);
    }
}

void verify_node(struct verifier *v, ir_node n) {
    struct ir_node_info *node = &v->m->node.at[n];
    struct resolved *r = entry_of(v, node->domain, node->op, node->overload);
    if (!r->used) {
        r->used = true;
        v->n_names++;
        if (!node->overload)
            r->def = op_resolve(v->ops, ir_text(v->m, r->domain), ir_text(v->m, node->op));
    }
    node->def = r->callee ? 0 : r->def;
    node->callee = r->callee;
    /* A copy made by inlining was checked under its function's imports, which the model need not
     * share. */
    bool known = r->callee || r->def;
    int64_t opset = node->call || !known ? OP_ANY_OPSET : opset_version(v, node, r->domain);
    if (node->n_attrs) verify_references(v, n);
    if (node->n_attrs > 1) verify_once(v, node->attrs, node->n_attrs, n, 0);
    if (r->callee)
        verify_call(v, n);
    else if (r->def && opset) /* what an operator takes depends on its version */
        verify_operator(v, n, opset);
    else if (!r->def)
        unknown_operator(v, n, r);
}
