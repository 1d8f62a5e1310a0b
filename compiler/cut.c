/* Words for a node and for what ends a gradient's way.
 *
 * A reader finds a place by the line of the model's text: "MatMul (h, line 4)". Where the text was
 * recorded from a program, its names and lines mean nothing to anybody; its nodes carry the line of
 * the program in an attribute, and that is said instead: "linear at model.py:88". A StopGradient
 * that a recorder wrote also carries why autograd passes nothing on there. It stands behind the
 * operator whose result has no gradient, or before the one that gives none to an input; both have
 * its line. */
#include "reason.h"

#include <string.h>

static const char *source_of(const struct flow *f, ir_node n) {
    struct ir_source s;
    return ir_node_source(f->m, n, &s) ? s.text : NULL;
}

/* "line 4"; of a binary model, "graph.node[3]". */
static const char *place_of(const struct flow *f, struct arena *a, ir_loc loc) {
    uint32_t line = 0, column;
    if (f->m->source->binary) return source_path(f->m->source, loc, a);
    if (loc != IR_NO_LOC) source_position(f->m->source, loc, &line, &column);
    return arena_printf(a, "line %u", line);
}

const char *node_text(const struct flow *f, struct arena *a, ir_node n) {
    const struct ir_node_info *node = &f->m->node.at[n];
    const char *name = ir_text(f->m, node->name), *op = ir_text(f->m, node->op);
    const char *source = source_of(f, n);
    if (source) return arena_printf(a, "%s at %s", op, source);
    for (uint32_t o = 0; !*name && o < node->n_outputs; o++)
        name = ir_value_name(f->m, ir_outputs(f->m, n)[o]);
    if (!*name) return arena_printf(a, "%s (%s)", op, place_of(f, a, node->loc));
    return arena_printf(a, "%s (%s, %s)", op, name, place_of(f, a, node->loc));
}

/* For sentences that say "at" themselves: "argmax (model.py:91)". */
static const char *node_aside(const struct flow *f, struct arena *a, ir_node n) {
    const char *source = source_of(f, n);
    if (!source) return node_text(f, a, n);
    return arena_printf(a, "%s (%s)", ir_text(f->m, f->m->node.at[n].op), source);
}

static const char *unread_text(const struct flow *f, struct arena *a, ir_value v) {
    const struct ir_value_info *value = &f->m->value.at[v];
    const char *name = ir_text(f->m, value->name);
    if (value->def != IR_DEF_NODE) return arena_printf(a, "ends at %s, which nothing reads", name);
    const struct control *c = control_of(&f->c.control, value->node);
    const struct ir_node_info *node = &f->m->node.at[value->node];
    if (source_of(f, value->node))
        return arena_printf(a, "ends at %s, whose result nothing reads",
                            node_aside(f, a, value->node));
    bool scan = c && control_is_loop(c) && value->output >= c->n_state;
    const char *text =
        arena_printf(a, "feeds only %soutput %s of %s (%s), which nothing reads",
                     scan ? "scan " : "", name, ir_text(f->m, node->op), place_of(f, a, node->loc));
    /* Who reads the other output wonders. */
    for (uint32_t o = 0; !c && o < node->n_outputs; o++) {
        ir_value other = ir_outputs(f->m, value->node)[o];
        if (other && cut_at_output(f, value->node, o))
            return arena_printf(a, "%s; its output %s carries no gradient", text,
                                ir_value_name(f->m, other));
    }
    return text;
}

/* ---- StopGradient ---------------------------------------------------------------------------- */

static bool is_stop(const struct flow *f, ir_node n) {
    return !strcmp(ir_text(f->m, f->m->node.at[n].op), "StopGradient");
}

bool cut_same_line(const struct flow *f, ir_node a, ir_node b) {
    const char *x = source_of(f, a), *y = source_of(f, b);
    return x && y && !strcmp(x, y);
}

/* The operator that a recorded StopGradient speaks of: the one just before it that makes its input
 * or, `reader`, the one just behind it that reads its output; 0 if neither shares its line. */
static ir_node stopped_by(const struct flow *f, ir_node stop, bool reader) {
    const struct ir_module *m = f->m;
    ir_node n = reader ? stop + 1 : stop - 1;
    while (n && n < m->node.n && is_stop(f, n) && cut_same_line(f, n, stop)) n += reader ? 1 : -1u;
    if (!n || n >= m->node.n || !cut_same_line(f, n, stop)) return 0;
    if (!reader) return m->value.at[ir_input(m, stop, 0)].node == n ? n : 0;
    for (uint32_t i = 0; i < m->node.at[n].n_inputs; i++)
        if (ir_inputs(m, n)[i] == ir_outputs(m, stop)[0]) return n;
    return 0;
}

static const char *stop_text(const struct flow *f, struct arena *a, ir_node n) {
    const struct ir_attr_info *attr = &f->m->attr.at[ir_attr_find(f->m, n, "reason")];
    const char *why = attr->kind == IR_ATTR_STRING && attr->n_values
                          ? ir_text(f->m, f->m->attr_value.at[attr->values].s)
                          : "detach";
    const char *source = source_of(f, n), *at = source ? source : node_text(f, a, n);
    if (!strcmp(why, "detach"))
        return arena_printf(a, "is detached %s %s", source ? "at" : "by", at);
    if (!strcmp(why, "requires_grad is False"))
        return arena_printf(a, "comes while its requires_grad is False, at %s", at);
    if (strcmp(why, "not differentiable") != 0)
        return arena_printf(a, "is cut by %s at %s", why, at);
    ir_node maker = stopped_by(f, n, false), reader = maker ? 0 : stopped_by(f, n, true);
    if (maker)
        return arena_printf(a, "ends at %s, which autograd does not differentiate",
                            node_aside(f, a, maker));
    if (reader)
        return arena_printf(a, "ends at %s, which gives this input no gradient",
                            node_aside(f, a, reader));
    return arena_printf(a, "is cut at %s, where autograd does not differentiate", at);
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* No output of the operator ever carries a gradient. */
static bool makes_none(const struct flow *f, ir_node n) {
    const struct op_def *def = op_get(f->p->ops, f->m->node.at[n].def);
    for (uint32_t o = 0; o < f->m->node.at[n].n_outputs; o++)
        if (op_output_carries(def, o)) return false;
    return true;
}

static const char *input_text(const struct flow *f, struct arena *a, const struct cut *c) {
    const struct ir_node_info *node = &f->m->node.at[c->node];
    const struct control *control = control_of(&f->c.control, c->node);
    const char *at = node_aside(f, a, c->node);
    if (control && control->kind == CONTROL_IF)
        return arena_printf(a, "only decides which branch %s takes", at);
    if (control && control_is_loop(control))
        return arena_printf(a, "only decides how often %s runs", at);
    if (is_stop(f, c->node)) return stop_text(f, a, c->node);
    if (makes_none(f, c->node))
        return arena_printf(a, "ends at %s, whose result carries no gradient", at);
    const struct op_input *def = op_input_of(f->p->ops, node->def, c->index);
    ir_value v = ir_input(f->m, c->node, c->index);
    if (def->rule != OP_STOP && !f->type_carries[f->m->value.at[v].type])
        return arena_printf(a, "ends at %s, whose input %s is %s and carries no gradient", at,
                            ir_value_name(f->m, v),
                            ir_dtype_text(ir_type_dtype(f->m, f->m->value.at[v].type)));
    const char *input = def->name;
    if (!input || !*input) input = ir_value_name(f->m, v);
    return arena_printf(a, "ends at %s, whose input '%s' passes no gradient", at, input);
}

static const char *makes_text(const struct flow *f, struct arena *a, const struct cut *c) {
    ir_value v = ir_outputs(f->m, c->node)[c->index];
    const char *at = node_aside(f, a, c->node);
    if (!f->type_carries[f->m->value.at[v].type])
        return arena_printf(a, "ends at %s, whose output is %s and carries no gradient", at,
                            ir_dtype_text(ir_type_dtype(f->m, f->m->value.at[v].type)));
    return arena_printf(a, "ends at %s, whose output %s carries no gradient", at,
                        ir_value_name(f->m, v));
}

static const char *output_text(const struct flow *f, struct arena *a, ir_value v) {
    const struct step *s = f->step;
    const char *name = ir_value_name(f->m, v);
    if (!s->loss_named) return arena_printf(a, "reaches only output %s, which is not a loss", name);
    if (s->losses.n > 1)
        return arena_printf(a, "reaches only output %s, which is none of the losses chosen", name);
    return arena_printf(a, "reaches only output %s, which is not the loss chosen (%s)", name,
                        ir_value_name(f->m, s->losses.at[0]));
}

const char *cut_text(const struct flow *f, struct arena *a, const struct cut *c) {
    switch (c->kind) {
    case CUT_NONE: break;
    case CUT_UNREAD: return unread_text(f, a, c->value);
    case CUT_OUTPUT: return output_text(f, a, c->value);
    case CUT_INPUT: return input_text(f, a, c);
    case CUT_MAKES: return makes_text(f, a, c);
    case CUT_BRANCH:
        return arena_printf(a, "ends in the %s of %s, which is never taken",
                            c->index ? "else_branch" : "then_branch", node_text(f, a, c->node));
    case CUT_RUNS:
        return arena_printf(a, "ends in the body of %s, which never runs",
                            node_text(f, a, c->node));
    case CUT_ELEMENT:
        return arena_printf(a, "ends at %s, of whose elements the loss needs others",
                            node_aside(f, a, c->node));
    case CUT_TRIPS:
        return arena_printf(a,
                            "is carried through %s, whose trips never bring it to an output that a "
                            "loss needs",
                            node_text(f, a, c->node));
    }
    return "ends nowhere";
}

ir_node cut_node(const struct flow *f, const struct cut *c) {
    if (c->node) return c->node;
    return c->value ? f->m->value.at[c->value].node : 0;
}

ir_loc cut_loc(const struct flow *f, const struct cut *c) {
    if (c->node) return f->m->node.at[c->node].loc;
    return c->value ? f->m->value.at[c->value].loc : IR_NO_LOC;
}
