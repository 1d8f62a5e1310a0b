/* The gradients of a step: classes, contributions, guards, and where the backward pass works.
 *
 * flow.c has found under which branch values a gradient reaches each value. Here that becomes one
 * answer per parameter, which is the union over its values (tied names are one parameter):
 *
 *   always       must is true: a gradient path exists in every execution
 *   never        may is false: in none
 *   conditional  neither; the guard is may. A false guard promises that no rank has a gradient; a
 *                true one promises that it has one only if the answer is exact (must = may)
 *   frozen       not trainable in this step, whatever the paths
 *
 * Buffers are of class never. Contributions are counted over (node, input) edges: those inside a
 * loop once, however often it runs. */
#include "flow.h"
#include "paths.h"

#include <string.h>

const char *grad_class_name(enum grad_class c) {
    static const char *const names[] = {"always", "never", "conditional", "frozen"};
    return names[c];
}

void branches_init(struct branches *b) {
    *b = (struct branches){.bdd = bdd_new(BRANCHES_MAX_NODES)};
}

void branches_free(struct branches *b) {
    bdd_free(b->bdd);
    vec_free(&b->all);
    b->bdd = NULL;
}

static const char *branch_name(void *context, uint32_t variable) {
    const struct branches *b = context;
    return variable < b->all.n ? b->all.at[variable].name : "?";
}

const char *branches_text(const struct branches *b, bdd f, struct arena *a) {
    return bdd_text(b->bdd, f, a, branch_name, (void *)b);
}

/* ---- classes --------------------------------------------------------------------------------- */

static void unite_value(struct flow *f, struct gradient *g, ir_value v) {
    bdd must = bdd_or(f->bdd, g->must, f->must[v]), may = bdd_or(f->bdd, g->may, f->may[v]);
    if (must != BDD_OVERFLOW) g->must = must; /* what is certain stays so */
    g->may = may == BDD_OVERFLOW ? (bdd)BDD_TRUE : may;
}

static enum grad_class class_of(const struct flow *f, uint32_t i, const struct gradient *g) {
    const struct param *param = &f->p->params.at[i];
    if (param->kind == PARAM_BUFFER) return GRAD_NEVER;
    if (f->step->frozen[i] || param->no_grad) return GRAD_FROZEN;
    if (g->may == BDD_FALSE) return GRAD_NEVER;
    return g->must == BDD_TRUE ? GRAD_ALWAYS : GRAD_CONDITIONAL;
}

/* Thousands of parameters may share a guard (the layers of an expert): each text is made once. */
struct guard_text {
    bdd f;
    const char *text, *words;
};

struct guard_texts {
    const struct program *p;
    struct branches *b;
    struct arena *a;
    VEC(struct guard_text) slots; /* a hash table; n is its size, a power of two */
};

/* "in batch 2 of 3"; "when a && !b (a: the warm-up; b: a text without images)" */
static const char *guard_words(struct guard_texts *t, bdd guard, const char *text) {
    bdd_support on = {0};
    const char *list = "", *batches = paths_words(t->p, t->b, guard, t->a);
    if (batches) return batches;
    bdd_support_of(t->b->bdd, guard, &on);
    for (uint32_t i = 0; i < on.n; i++) {
        if (on.at[i] >= t->b->all.n || !t->b->all.at[on.at[i]].words) continue;
        const struct branch *b = &t->b->all.at[on.at[i]];
        bool alone = strcmp(b->name, text) == 0;
        list = arena_printf(t->a, "%s%s%s%s%s", list, *list ? "; " : "", alone ? "" : b->name,
                            alone ? "" : ": ", b->words);
    }
    vec_free(&on);
    return arena_printf(t->a, *list ? "when %s (%s)" : "when %s", text, list);
}

static const struct guard_text *guard_text(struct guard_texts *t, bdd guard) {
    for (uint32_t i = guard * 0x9E3779B9u;; i++) {
        struct guard_text *at = &t->slots.at[i & (t->slots.n - 1)];
        if (!at->text) {
            at->f = guard;
            at->text = branches_text(t->b, guard, t->a);
            at->words = guard_words(t, guard, at->text);
        }
        if (at->f == guard) return at;
    }
}

static void classify(struct flow *f, struct branches *b, struct reach *out) {
    struct guard_texts texts = {.p = f->p, .b = b, .a = &f->p->arena};
    uint32_t n = f->p->params.n, size = 2;
    while (size < 2 * n) size *= 2;
    memset(vec_extend(&texts.slots, size), 0, size * sizeof *texts.slots.at);
    for (uint32_t i = 0; i < n; i++) {
        const struct param *param = &f->p->params.at[i];
        struct gradient *g = &out->gradient[i];
        if (param->value) unite_value(f, g, param->value);
        for (uint32_t k = 0; k < param->tied.n; k++) unite_value(f, g, param->tied.at[k]);
        g->class = class_of(f, i, g);
        if (g->class == GRAD_NEVER) g->must = g->may = BDD_FALSE;
        g->exact = g->must == g->may;
        if (g->class != GRAD_CONDITIONAL) continue;
        const struct guard_text *text = guard_text(&texts, g->may);
        g->guard = text->text;
        g->guard_words = text->words;
    }
    vec_free(&texts.slots);
}

static void count_contributions(struct flow *f, struct reach *out) {
    const struct ir_module *m = f->m;
    for (ir_node n = 1; n < m->node.n; n++) {
        const struct ir_node_info *node = &m->node.at[n];
        if (!f->passes[n]) continue;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t ref = node->refs + node->n_outputs + i;
            uint32_t param = f->p->param_of[m->ref_value.at[ref]];
            if (f->flows[ref] && param && out->gradient[param - 1].class != GRAD_NEVER)
                out->gradient[param - 1].contributions++;
        }
    }
}

/* ---- where the backward pass works ----------------------------------------------------------- */

struct trains {
    const struct flow *f;
    bool *needs; /* by value: a parameter that trains is behind it */
    bool changed;
};

static void need(struct trains *t, ir_value v) {
    if (!v || t->needs[v]) return;
    t->needs[v] = t->changed = true;
}

/* Forwards: what depends, by edges on which gradients flow, on a parameter that trains. */
static void need_graph(struct trains *t, ir_graph g) {
    const struct flow *f = t->f;
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t k = 0; k < graph->n_nodes; k++) {
        ir_node n = m->node_list.at[graph->nodes + k];
        const struct ir_node_info *node = &m->node.at[n];
        if (!f->passes[n]) continue;
        const struct control *c = control_of(&f->c.control, n);
        const ir_value *in = ir_inputs(m, n), *out = ir_outputs(m, n);
        if (c && control_is_loop(c))
            for (uint32_t i = 0; i < c->n_state + c->n_scan_in; i++)
                if (t->needs[ir_input(m, n, c->node_in + i)])
                    need(t, control_graph_input(m, c->body, c->body_in + i));
        ir_graph inner;
        for (uint32_t j = 0; c && (inner = control_graph(m, n, j)); j++) need_graph(t, inner);
        if (c && c->kind != CONTROL_OPAQUE) {
            for (uint32_t o = 0; o < node->n_outputs; o++) {
                ir_value first = control_graph_output(m, c->body, c->body_out + o);
                ir_value second = c->otherwise ? control_graph_output(m, c->otherwise, o) : 0;
                if (t->needs[first] || t->needs[second]) need(t, out[o]);
                if (control_is_loop(c) && o < c->n_state && t->needs[first])
                    need(t, control_graph_input(m, c->body, c->body_in + o));
            }
            for (uint32_t o = 0; control_is_loop(c) && o < c->n_state && o < node->n_outputs; o++)
                if (t->needs[ir_input(m, n, c->node_in + o)]) need(t, out[o]);
            continue;
        }
        bool any = c != NULL;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            any |= f->flows[node->refs + node->n_outputs + i] && t->needs[in[i]];
        for (uint32_t o = 0; any && o < node->n_outputs; o++) need(t, out[o]);
    }
}

static void find_work(struct flow *f, struct reach *out) {
    const struct ir_module *m = f->m;
    struct trains t = {.f = f, .needs = arena_new(&f->arena, bool, m->value.n)};
    for (uint32_t i = 0; i < f->p->params.n; i++) {
        const struct param *param = &f->p->params.at[i];
        if (out->gradient[i].class != GRAD_ALWAYS && out->gradient[i].class != GRAD_CONDITIONAL)
            continue;
        need(&t, param->value);
        for (uint32_t k = 0; k < param->tied.n; k++) need(&t, param->tied.at[k]);
    }
    /* A loop carries what its body gives to the next trip: with loops, until nothing changes. */
    do {
        t.changed = false;
        need_graph(&t, m->main);
    } while (t.changed && f->c.control.of_node);

    out->node_active = arena_new(&f->p->arena, bool, m->node.n);
    out->ref_flows = arena_new(&f->p->arena, bool, m->ref_value.n);
    for (ir_node n = 1; n < m->node.n; n++) {
        const struct ir_node_info *node = &m->node.at[n];
        if (!f->passes[n]) continue;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t ref = node->refs + node->n_outputs + i;
            out->ref_flows[ref] = f->flows[ref] && t.needs[m->ref_value.at[ref]];
            out->node_active[n] |= out->ref_flows[ref];
        }
        for (uint32_t o = 0; control_of(&f->c.control, n) && o < node->n_outputs; o++)
            out->node_active[n] |= t.needs[ir_outputs(m, n)[o]];
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void warn_budget(const struct flow *f, struct diags *d) {
    const struct ir_node_info *node = &f->m->node.at[f->overflow];
    const char *op = ir_text(f->m, node->op);
    struct diag *g =
        diag_at(d, DIAG_TOO_MANY_BRANCHES, node->loc, (uint32_t)strlen(op),
                "the conditions and trips around this %s are too many to follow exactly", op);
    diag_set_help(
        d, g,
        "parameters behind it may count as conditional without need; fix some conditions with "
        "--assume NAME=true|false to see more");
}

void reach_step(struct program *p, uint32_t step, struct branches *b, struct diags *d,
                struct reach *out) {
    struct flow f;
    flow_make(&f, p, step, b);
    *out = (struct reach){.exact_budget = !f.overflow};
    out->gradient = arena_new(&p->arena, struct gradient, p->params.n);
    classify(&f, b, out);
    count_contributions(&f, out);
    reason_all(&f, out);
    place_guards(&f, out);
    find_work(&f, out);
    if (f.overflow) warn_budget(&f, d);
    flow_free(&f);
}
