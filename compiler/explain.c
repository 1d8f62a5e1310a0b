/* Explains one parameter of one step: a shortest way along which its gradient comes from the loss,
 * or every place where such a way ends.
 *
 * Both are a breadth-first search forwards from the parameter. With a gradient it follows only
 * edges on which gradients flow, up to a loss. Without one it follows every edge that could carry
 * one and reports each end it comes to. Readers of a value are found through an index made here,
 * since only this question needs one. */
#include "paths.h"
#include "reason.h"

#include <string.h>

enum { NODES_SHOWN = 5 }; /* of the way to a cut: the rest is "..." */

/* One reading of a value: by a node's input, or as an output of a graph that a node holds. */
struct use {
    ir_node node;
    uint32_t index;
    uint32_t graph; /* 0: an input; 1 + k: an output of the node's k-th graph */
};

/* How the search came to a value. */
struct step_to {
    ir_value from;
    ir_node by;
    bool seen;
};

struct search {
    const struct flow *f;
    const struct ir_module *m;
    struct branches *b;
    struct arena arena;
    FILE *out;
    uint32_t *first_use; /* by value, and one more: index into uses */
    struct use *uses;
    bool *is_loss;
    struct step_to *to; /* by value */
    VEC(ir_value) queue;
    bool alive; /* follow gradients, not possibilities */
    uint32_t cuts;
};

/* ---- the index ------------------------------------------------------------------------------- */

/* Called twice: to count, then to fill. */
static void index_use(struct search *s, ir_value v, struct use u, bool fill) {
    if (!v) return;
    if (fill)
        s->uses[s->first_use[v]++] = u;
    else
        s->first_use[v + 1]++;
}

static void index_graph(struct search *s, ir_graph g, bool fill) {
    const struct ir_module *m = s->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = m->node_list.at[graph->nodes + i];
        for (uint32_t k = 0; k < m->node.at[n].n_inputs; k++)
            index_use(s, ir_inputs(m, n)[k], (struct use){n, k, 0}, fill);
        if (!control_of(&s->f->c.control, n)) continue;
        ir_graph inner;
        for (uint32_t k = 0; (inner = control_graph(m, n, k)); k++) {
            index_graph(s, inner, fill);
            for (uint32_t o = 0; o < m->graph.at[inner].n_outputs; o++)
                index_use(s, control_graph_output(m, inner, o), (struct use){n, o, 1 + k}, fill);
        }
    }
}

static void make_index(struct search *s) {
    uint32_t n = s->m->value.n;
    s->first_use = arena_new(&s->arena, uint32_t, n + 1);
    index_graph(s, s->m->main, false);
    for (uint32_t v = 0; v < n; v++) s->first_use[v + 1] += s->first_use[v];
    s->uses = arena_new(&s->arena, struct use, s->first_use[n]);
    index_graph(s, s->m->main, true);
    memmove(s->first_use + 1, s->first_use, n * sizeof *s->first_use); /* filling advanced them */
    s->first_use[0] = 0;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The If that chooses what one batch or another did is no part of the program. */
static bool chooses_batch(const struct search *s, ir_node n) {
    const struct control *c = control_of(&s->f->c.control, n);
    const struct program *p = s->f->p;
    if (!c || c->kind != CONTROL_IF) return false;
    for (uint32_t i = 0; i < p->branch_words.n; i++)
        if (!strcmp(p->branch_words.at[i].name, ir_value_name(s->m, ir_input(s->m, n, 0))))
            return true;
    return false;
}

/* The nodes between the parameter and a value, first to last. */
static void print_way(struct search *s, ir_value v, const char *join) {
    VEC(ir_node) way = {0};
    for (; s->to[v].from; v = s->to[v].from)
        if ((!way.n || way.at[way.n - 1] != s->to[v].by) && !chooses_batch(s, s->to[v].by))
            vec_push(&way, s->to[v].by);
    for (uint32_t i = way.n; i-- > 0;) {
        if (way.n > NODES_SHOWN && i == way.n - 3) {
            fprintf(s->out, "... (%u more)%s", way.n - NODES_SHOWN, join);
            i = 2;
        }
        fprintf(s->out, "%s%s", node_text(s->f, &s->arena, way.at[i]), i ? join : ": ");
    }
    vec_free(&way);
}

static void report(struct search *s, ir_value v, struct cut c) {
    if (s->alive) return;
    s->cuts++;
    fputs("    ", s->out);
    print_way(s, v, " -> ");
    fprintf(s->out, "%s\n", cut_text(s->f, &s->arena, &c));
}

/* ---- the search ------------------------------------------------------------------------------ */

static bool go(struct search *s, ir_value from, ir_node by, ir_value to) {
    if (!to || (s->alive && !s->f->live[to])) return false;
    if (s->to[to].seen) return true;
    s->to[to] = (struct step_to){from, by, true};
    vec_push(&s->queue, to);
    return true;
}

static void expand_plain(struct search *s, ir_value v, struct use u) {
    const struct ir_node_info *node = &s->m->node.at[u.node];
    bool any = false;
    if (s->alive && !s->f->flows[node->refs + node->n_outputs + u.index]) return;
    if (cut_at_input(s->f, u.node, u.index)) {
        report(s, v, (struct cut){.kind = CUT_INPUT, .node = u.node, .index = u.index});
        return;
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        ir_value out = ir_outputs(s->m, u.node)[o];
        if (!out || cut_at_output(s->f, u.node, o) || !flow_connects(s->f, u.node, u.index, o))
            continue;
        bool other = !s->alive && s->f->live[out];
        if (other) report(s, v, (struct cut){.kind = CUT_ELEMENT, .node = u.node});
        any |= other || go(s, v, u.node, out);
    }
    for (uint32_t o = 0; !any && o < node->n_outputs; o++)
        if (ir_outputs(s->m, u.node)[o])
            report(s, v, (struct cut){.kind = CUT_MAKES, .node = u.node, .index = o});
}

static ir_value node_output(const struct search *s, ir_node n, uint32_t o) {
    return o < s->m->node.at[n].n_outputs ? ir_outputs(s->m, n)[o] : 0;
}

static void expand_input(struct search *s, ir_value v, struct use u, const struct control *c) {
    if (c->kind == CONTROL_IF || u.index < c->node_in) {
        report(s, v, (struct cut){.kind = CUT_INPUT, .node = u.node, .index = u.index});
        return;
    }
    uint32_t i = u.index - c->node_in;
    bdd runs = s->f->c.loops[s->f->c.control.of_node[u.node]].runs;
    ir_value inner = control_graph_input(s->m, c->body, c->body_in + i);
    if (!s->alive && s->f->live[inner])
        report(s, v, (struct cut){.kind = CUT_TRIPS, .node = u.node});
    else if (runs != BDD_FALSE)
        go(s, v, u.node, inner);
    if (i < c->n_state && runs != BDD_TRUE) go(s, v, u.node, node_output(s, u.node, i));
}

static void expand_output(struct search *s, ir_value v, struct use u, const struct control *c) {
    struct cut cut = {.node = u.node, .index = u.graph - 1};
    if (u.index < c->body_out) {
        cut = (struct cut){.kind = CUT_INPUT, .node = u.node, .index = 1};
        report(s, v, cut);
        return;
    }
    uint32_t o = u.index - c->body_out;
    ir_value outer = node_output(s, u.node, o);
    cut.kind = c->kind == CONTROL_IF ? CUT_BRANCH : CUT_RUNS;
    if (!s->alive && outer && s->f->live[outer])
        report(s, v, cut);
    else if (!outer)
        report(s, v, (struct cut){.kind = CUT_UNREAD, .value = v});
    else
        go(s, v, u.node, outer);
    if (control_is_loop(c) && o < c->n_state)
        go(s, v, u.node, control_graph_input(s->m, c->body, c->body_in + o));
}

/* Returns the loss that it came to; 0 without one. */
static ir_value search(struct search *s) {
    for (uint32_t at = 0; at < s->queue.n; at++) {
        ir_value v = s->queue.at[at];
        if (s->is_loss[v]) return v;
        uint32_t first = s->first_use[v], last = s->first_use[v + 1];
        const struct ir_value_info *value = &s->m->value.at[v];
        bool output = value->is_output && value->graph == s->m->main;
        if (output)
            report(s, v, (struct cut){.kind = CUT_OUTPUT, .value = v});
        else if (first == last)
            report(s, v, (struct cut){.kind = CUT_UNREAD, .value = v});
        for (uint32_t i = first; i < last; i++) {
            struct use u = s->uses[i];
            const struct control *c = control_of(&s->f->c.control, u.node);
            if (!c || c->kind == CONTROL_OPAQUE)
                expand_plain(s, v, u);
            else if (u.graph)
                expand_output(s, v, u, c);
            else
                expand_input(s, v, u, c);
        }
    }
    return 0;
}

/* "only when keep" or "only in batch 2 of 3", if it is not always and about branches alone. */
static void print_guard(struct search *s, ir_value v) {
    bdd may = s->f->may[v];
    bdd_support on = {0};
    const char *batches = paths_words(s->f->p, s->b, may, &s->arena);
    bdd_support_of(s->b->bdd, may, &on);
    if (batches)
        fprintf(s->out, "  only %s", batches);
    else if (on.n && on.at[on.n - 1] < s->b->all.n)
        fprintf(s->out, "  only when %s", branches_text(s->b, may, &s->arena));
    vec_free(&on);
}

static void print_path(struct search *s, ir_value loss) {
    VEC(ir_value) path = {0};
    for (ir_value v = loss; v; v = s->to[v].from) vec_push(&path, v);
    for (uint32_t i = path.n; i-- > 0;) {
        ir_value v = path.at[i];
        if (s->to[v].by && chooses_batch(s, s->to[v].by)) continue;
        if (s->to[v].by)
            fprintf(s->out, "    -> %s", node_text(s->f, &s->arena, s->to[v].by));
        else
            fprintf(s->out, "    %s", ir_value_name(s->m, v));
        print_guard(s, v);
        fputc('\n', s->out);
    }
    fprintf(s->out, "    -> %s, the loss\n", ir_value_name(s->m, loss));
    vec_free(&path);
}

void reach_explain(struct program *p, uint32_t step, struct branches *b, const struct reach *r,
                   uint32_t param, FILE *out) {
    const struct gradient *g = &r->gradient[param];
    const struct param *at = &p->params.at[param];
    fprintf(out, "  step %s: %s\n", ir_text(p->m, p->steps.at[step].name),
            grad_class_name(g->class));
    fprintf(out, "  %s\n", g->reason);
    if (!at->value) return;

    struct flow f;
    flow_make(&f, p, step, b);
    struct search s = {.f = &f, .m = p->m, .b = b, .out = out};
    s.is_loss = arena_new(&s.arena, bool, p->m->value.n);
    s.to = arena_new(&s.arena, struct step_to, p->m->value.n);
    for (uint32_t i = 0; i < f.step->losses.n; i++) s.is_loss[f.step->losses.at[i]] = true;
    make_index(&s);
    for (uint32_t k = 0; k <= at->tied.n; k++) {
        ir_value v = k ? at->tied.at[k - 1] : at->value;
        s.alive |= f.live[v];
    }
    for (uint32_t k = 0; k <= at->tied.n; k++) go(&s, 0, 0, k ? at->tied.at[k - 1] : at->value);
    bool no_trip = g->class == GRAD_NEVER && at->kind == PARAM_PARAMETER;
    fputs(!s.alive  ? "  every way ends:\n"
          : no_trip ? "  a way to the loss, which no trip of a loop takes:\n"
                    : "  a way to the loss:\n",
          out);
    ir_value loss = search(&s);
    if (loss) print_path(&s, loss);
    vec_free(&s.queue);
    arena_free(&s.arena);
    flow_free(&f);
}
