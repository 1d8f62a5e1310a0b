/* Folding the nodes of a model into the vertices of a picture.
 *
 * At depth d modules are told apart by the first d parts of their names. What lies as deep or deeper
 * is folded into its module; nodes above are themselves, or runs of neighbours where many follow each
 * other. An If or a loop that is not folded holds its bodies. The depth that is not given is the
 * largest whose picture has no more than GRAPH_READABLE of both. */
#include "cost.h"
#include "graph_fold.h"
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_RUN = 3, RUN_PARTS = 24 };

const char *graph_class_name(uint32_t class) {
    return class == GRAPH_UNKNOWN ? "unknown" : grad_class_name((enum grad_class) class);
}

static uint32_t class_of(const struct folder *f, uint32_t param) {
    return f->p->params.at[param].perhaps ? GRAPH_UNKNOWN : (uint32_t)f->advice->class[param];
}

/* ---- vertices -------------------------------------------------------------------------------- */

uint32_t graph_vertex_add(struct folder *f, enum graph_kind kind, uint32_t parent,
                          const char *label) {
    struct graph_vertex v = {.kind = kind, .parent = parent, .place = f->place, .label = label};
    vec_push(&f->g->vertex, v);
    return f->g->vertex.n - 1;
}

static bool is_constant(const struct folder *f, ir_node n) {
    const struct ir_node_info *node = &f->m->node.at[n];
    return !node->n_inputs && !strcmp(ir_text(f->m, node->op), "Constant");
}

static void take(struct folder *f, ir_node n, uint32_t vertex) {
    if (is_constant(f, n)) return;
    struct graph_vertex *v = &f->g->vertex.at[vertex];
    if (!v->nodes++) f->only[vertex] = n;
    f->last[vertex] = n;
    f->of_node[n] = vertex;
    ir_graph body;
    bool any = false;
    for (uint32_t k = 0; (body = control_graph(f->m, n, k)); k++, any = true) {
        const struct ir_graph_info *graph = &f->m->graph.at[body];
        f->body_of[body] = 0;
        for (uint32_t i = 0; i < graph->n_nodes; i++)
            take(f, f->m->node_list.at[graph->nodes + i], vertex);
    }
    f->g->vertex.at[vertex].control += any;
}

/* The module's vertex in a graph. */
static uint32_t fold_of(struct folder *f, ir_graph g, uint32_t parent, uint32_t module) {
    if (f->fold_for[module] != g) {
        f->fold_for[module] = g;
        const char *path = strtab_text(&f->modules.path, module);
        f->fold[module] = graph_vertex_add(f, GRAPH_FOLD, parent, *path ? path : "the whole model");
    }
    return f->fold[module];
}

/* How many nodes from the i-th on are drawn themselves, one after the other in one module. */
static uint32_t run_from(const struct folder *f, const struct ir_graph_info *graph, uint32_t i) {
    const ir_node *list = &f->m->node_list.at[graph->nodes];
    uint32_t n = 0, module = f->modules.of_node[list[i]];
    for (; i < graph->n_nodes && n < f->run_length; i++) {
        if (is_constant(f, list[i])) continue;
        if (f->modules.of_node[list[i]] != module || control_graph(f->m, list[i], 0)) break;
        n++;
    }
    return n;
}

static void place_graph(struct folder *f, ir_graph g, uint32_t parent) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    const ir_node *list = &m->node_list.at[graph->nodes];
    uint32_t run = 0, left = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = list[i];
        uint32_t module = f->modules.of_node[n];
        f->place++;
        if (is_constant(f, n)) continue;
        if (f->modules.depth.at[module] >= f->depth) {
            take(f, n, fold_of(f, g, parent, graph_module_at(&f->modules, module, f->depth)));
            continue;
        }
        const char *op = ir_text(m, m->node.at[n].op);
        if (control_graph(m, n, 0)) {
            uint32_t v = f->of_node[n] = graph_vertex_add(f, GRAPH_CONTROL, parent, op);
            f->g->vertex.at[v].nodes = 1;
            f->only[v] = n;
        } else if (left) {
            take(f, n, run);
            left--;
        } else {
            uint32_t length = f->all ? 1 : run_from(f, graph, i);
            bool many = length >= SHORTEST_RUN;
            run = graph_vertex_add(f, many ? GRAPH_FOLD : GRAPH_NODE, parent, op);
            left = many ? length - 1 : 0;
            take(f, n, run);
            if (many) f->g->vertex.at[run].detail = ""; /* a run has no module to be called by */
        }
    }
    /* Bodies after the graph: a module's vertex is remembered for one graph at a time. */
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint32_t v = f->of_node[list[i]];
        if (!v || f->g->vertex.at[v].kind != GRAPH_CONTROL) continue;
        bool is_if = !strcmp(f->g->vertex.at[v].label, "If");
        ir_graph body;
        for (uint32_t k = 0; (body = control_graph(m, list[i], k)); k++) {
            const char *name = !is_if                                           ? "body"
                               : body == ir_subgraph(m, list[i], "then_branch") ? "then"
                                                                                : "else";
            f->body_of[body] = graph_vertex_add(f, GRAPH_BODY, v, name);
            place_graph(f, body, f->body_of[body]);
        }
    }
}

static void place_all(struct folder *f, uint32_t depth) {
    const struct ir_module *m = f->m;
    f->depth = depth;
    f->all = depth > f->modules.max_depth + 1;
    f->place = 0;
    f->g->vertex.n = 0;
    memset(f->of_node, 0, sizeof *f->of_node * m->node.n);
    memset(f->fold_for, 0, sizeof *f->fold_for * f->modules.parent.n);
    graph_vertex_add(f, GRAPH_ROOT, 0, "");
    place_graph(f, m->main, 0);
}

/* ---- what they read -------------------------------------------------------------------------- */

static int compare_reads(const void *a, const void *b) {
    const struct reads *x = a, *y = b;
    if (x->vertex != y->vertex) return x->vertex < y->vertex ? -1 : 1;
    return x->param < y->param ? -1 : x->param > y->param;
}

static void count_params(struct folder *f) {
    const struct program *p = f->p;
    bool *read = arena_new(&f->scratch, bool, p->params.n + 1);
    for (ir_node n = 1; n < f->m->node.n; n++) {
        if (!f->of_node[n]) continue;
        for (uint32_t i = 0; i < f->m->node.at[n].n_inputs; i++) {
            uint32_t param = p->param_of[ir_inputs(f->m, n)[i]];
            if (!param || p->params.at[param - 1].kind == PARAM_BUFFER) continue;
            struct reads r = {f->of_node[n], param - 1};
            vec_push(&f->reads, r);
            read[param - 1] = true;
        }
    }
    for (uint32_t i = 0; i < p->params.n; i++) {
        if (p->params.at[i].kind == PARAM_BUFFER) continue;
        f->g->params++;
        f->g->class[class_of(f, i)]++;
        if (read[i]) continue;
        uint32_t module = graph_module_at(&f->modules, f->modules.of_param[i], f->depth);
        if (f->fold_for[module] != f->m->main) {
            f->fold_for[module] = f->m->main;
            f->fold[module] =
                graph_vertex_add(f, GRAPH_UNREAD, 0, strtab_text(&f->modules.path, module));
        }
        struct reads r = {f->fold[module], i};
        vec_push(&f->reads, r);
    }
    if (f->reads.n) qsort(f->reads.at, f->reads.n, sizeof *f->reads.at, compare_reads);
    for (uint32_t i = 0; i < f->reads.n; i++) {
        const struct reads *r = &f->reads.at[i];
        if (i && !compare_reads(r - 1, r)) continue;
        struct graph_vertex *v = &f->g->vertex.at[r->vertex];
        v->params++;
        v->class[class_of(f, r->param)]++;
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *graph_classes_text(const struct graph_vertex *v, struct arena *a) {
    const char *text = "";
    for (uint32_t c = 0; c < GRAPH_N_CLASSES; c++)
        if (v->class[c])
            text = arena_printf(a, "%s%s%u %s", text, *text ? ", " : "", v->class[c],
                                graph_class_name(c));
    return text;
}

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

/* `query.weight`, and of `main.0.weight` all three parts, as a number alone says little. */
static const char *short_name(const char *name) {
    const char *at = name + strlen(name);
    for (int parts = 0; at > name; at--)
        if (at[-1] == '.' && ++parts >= 2 && !(*at >= '0' && *at <= '9')) break;
    return at;
}

/* The parameter that a node reads, after its module's name; of more, how many have which class. */
static const char *reads_text(struct folder *f, uint32_t vertex, uint32_t *at) {
    const struct graph_vertex *v = &f->g->vertex.at[vertex];
    while (*at < f->reads.n && f->reads.at[*at].vertex < vertex) ++*at;
    if (!v->params) return "";
    if (v->params > 1) return graph_classes_text(v, &f->g->arena);
    const char *name = ir_text(f->m, f->p->params.at[f->reads.at[*at].param].name);
    return arena_printf(&f->g->arena, "%s: %s", short_name(name),
                        graph_class_name(class_of(f, f->reads.at[*at].param)));
}

static void describe(struct folder *f) {
    struct arena *a = &f->g->arena;
    uint32_t at = 0;
    for (uint32_t i = 1; i < f->g->vertex.n; i++) {
        struct graph_vertex *v = &f->g->vertex.at[i];
        bool run = v->kind == GRAPH_FOLD && v->detail;
        if (v->kind == GRAPH_FOLD && v->nodes == 1 && !v->control) {
            v->kind = GRAPH_NODE;
            v->label = ir_text(f->m, f->m->node.at[f->only[i]].op);
        }
        const char *classes = graph_classes_text(v, a);
        switch (v->kind) {
        case GRAPH_NODE: v->detail = reads_text(f, i, &at); break;
        case GRAPH_CONTROL: {
            ir_value decides = ir_input(f->m, f->only[i], 0);
            const char *name = decides ? ir_value_name(f->m, decides) : "";
            bool is_if = !strcmp(v->label, "If");
            v->detail = is_if ? arena_printf(a, "when %s", name) : "";
            break;
        }
        case GRAPH_FOLD:
            if (run)
                v->label = arena_printf(a, "%s \xe2\x80\xa6 %s", v->label,
                                        ir_text(f->m, f->m->node.at[f->last[i]].op));
            v->detail = arena_printf(a, "%u node%s%s%s", v->nodes, plural(v->nodes),
                                     *classes ? "; " : "", classes);
            break;
        case GRAPH_UNREAD:
            if (v->params == 1) {
                while (f->reads.at[at].vertex < i) at++;
                v->label = ir_text(f->m, f->p->params.at[f->reads.at[at].param].name);
                classes = graph_class_name(class_of(f, f->reads.at[at].param));
                v->detail = arena_printf(a, "nothing reads it: %s", classes);
                break;
            }
            if (!*v->label) v->label = "parameters";
            v->detail = arena_printf(a, "nothing reads them: %s", classes);
            break;
        default: break;
        }
    }
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void choose_depth(struct folder *f, uint32_t depth) {
    uint32_t most = f->modules.max_depth + 2, best = 1; /* there, not even runs are folded */
    if (!depth)
        for (uint32_t d = 1; d <= most; d++) {
            place_all(f, d);
            uint32_t n = 0;
            for (uint32_t i = 1; i < f->g->vertex.n; i++) {
                enum graph_kind kind = f->g->vertex.at[i].kind;
                n += kind != GRAPH_CONTROL && kind != GRAPH_BODY;
            }
            if (n <= GRAPH_READABLE) best = d;
        }
    f->g->depth = depth ? depth < most ? depth : most : best;
    f->g->max_depth = most;
    place_all(f, f->g->depth);
}

void graph_build(struct graph *g, struct program *p, struct branches *b, const struct reach *reach,
                 const struct advices *advice, uint32_t depth) {
    const struct ir_module *m = p->m;
    *g = (struct graph){.p = p};
    struct folder f = {.g = g, .p = p, .m = m, .reach = reach, .advice = advice};
    graph_modules_find(&f.modules, p, &f.scratch);
    for (ir_node n = 1; n < m->node.n; n++) g->nodes += !is_constant(&f, n);
    f.run_length = g->nodes / RUN_PARTS + SHORTEST_RUN;
    f.of_node = arena_new(&f.scratch, uint32_t, m->node.n + 1);
    f.only = arena_new(&f.scratch, ir_node, m->node.n + m->graph.n + p->params.n + 2);
    f.last = arena_new(&f.scratch, ir_node, m->node.n + m->graph.n + p->params.n + 2);
    f.of_input = arena_new(&f.scratch, uint32_t, m->value.n + 1);
    f.body_of = arena_new(&f.scratch, uint32_t, m->graph.n + 1);
    f.fold = arena_new(&f.scratch, uint32_t, f.modules.parent.n);
    f.fold_for = arena_new(&f.scratch, uint32_t, f.modules.parent.n);
    f.needs = arena_new(&f.scratch, bool, m->value.n + 1);
    choose_depth(&f, depth);
    count_params(&f);
    describe(&f);

    flow_make(&f.flow, p, 0, b);
    bool *trains = arena_new(&f.scratch, bool, p->params.n + 1);
    for (uint32_t i = 0; i < p->params.n; i++) trains[i] = advice->class[i] != GRAD_FROZEN;
    needs_find(p, trains, f.needs);
    graph_connect(&f);
    flow_free(&f.flow);

    /* Names live as long as the module; those of modules as the picture. */
    for (uint32_t i = 0; i < g->vertex.n; i++) {
        struct graph_vertex *v = &g->vertex.at[i];
        v->label = arena_printf(&g->arena, "%s", v->label);
        if (!v->detail) v->detail = "";
    }
    graph_modules_free(&f.modules);
    vec_free(&f.ways);
    vec_free(&f.reads);
    arena_free(&f.scratch);
}

void graph_free(struct graph *g) {
    vec_free(&g->vertex);
    vec_free(&g->edge);
    vec_free(&g->cut);
    arena_free(&g->arena);
}

bool graph_within(const struct graph *g, uint32_t a, uint32_t b) {
    while (a != b && a) a = g->vertex.at[a].parent;
    return a == b;
}
