/* Which module a node belongs to.
 *
 * Exporters name nodes by their scope, `/encoder/layer.0/attention/MatMul`; that is taken. Other
 * texts have only the parameters' names, encoder.layer.0.attention.query.weight, so a node that
 * reads parameters belongs to their module. (One that reads a tied parameter again by another
 * operator does not.) The rest lie in the text between two such nodes. They end the one before,
 * layer.0 between it and layer.1, if they read what is made there; else they are in the innermost
 * module that holds both. An If or a loop is beside the modules that its bodies hold. */
#include "control.h"
#include "graph.h"
#include <string.h>

struct finder {
    struct graph_modules *s;
    const struct program *p;
    const struct ir_module *m;
    uint32_t *first_op; /* by parameter: the first reader's operator, 0 before it */
};

#define NONE UINT32_MAX

static uint32_t add(struct graph_modules *s, const char *path, size_t len, uint32_t parent) {
    uint32_t id = strtab_add(&s->path, path, len);
    if (id < s->parent.n) return id;
    vec_push(&s->parent, parent);
    vec_push(&s->depth, (uint8_t)(s->depth.at[parent] + 1));
    vec_push(&s->has_children, false);
    s->has_children.at[parent] = true;
    if (s->depth.at[id] > s->max_depth) s->max_depth = s->depth.at[id];
    return id;
}

/* All but the last part of a name. Dots and slashes part it. */
static uint32_t module_of_name(struct graph_modules *s, const char *name) {
    char path[1024];
    size_t n = 0;
    uint32_t module = 0;
    for (; *name && n < sizeof path; name++) {
        if (*name != '/' && *name != '.') {
            path[n++] = *name;
            continue;
        }
        if (!n || path[n - 1] == '.') continue;
        if (s->depth.at[module] < GRAPH_MAX_DEPTH) module = add(s, path, n, module);
        path[n++] = '.';
    }
    return module;
}

static uint32_t common(const struct graph_modules *s, uint32_t a, uint32_t b) {
    if (a == NONE) return b;
    if (b == NONE) return a;
    while (a != b)
        if (s->depth.at[a] >= s->depth.at[b])
            a = s->parent.at[a];
        else
            b = s->parent.at[b];
    return a;
}

uint32_t graph_module_at(const struct graph_modules *s, uint32_t module, uint32_t depth) {
    while (s->depth.at[module] > depth) module = s->parent.at[module];
    return module;
}

/* ---- what names and parameters say ----------------------------------------------------------- */

static bool is_below(const struct graph_modules *s, uint32_t module, uint32_t of) {
    return graph_module_at(s, module, s->depth.at[of]) == of;
}

static uint32_t say_graph(struct finder *f, ir_graph g);

static uint32_t say_node(struct finder *f, ir_node n) {
    const struct ir_node_info *node = &f->m->node.at[n];
    const char *name = ir_text(f->m, node->name);
    if (!strpbrk(name, "./")) {
        name = node->n_outputs && ir_outputs(f->m, n)[0]
                   ? ir_value_name(f->m, ir_outputs(f->m, n)[0])
                   : "";
        if (*name != '/') name = "";
    }
    uint32_t module = NONE, inside = NONE;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t param = f->p->param_of[ir_inputs(f->m, n)[i]];
        if (!param--) continue;
        if (!f->first_op[param]) f->first_op[param] = node->op;
        if (f->first_op[param] == node->op) module = common(f->s, module, f->s->of_param[param]);
    }
    ir_graph body;
    for (uint32_t k = 0; (body = control_graph(f->m, n, k)); k++)
        inside = common(f->s, inside, say_graph(f, body));
    if (inside != NONE) module = common(f->s, module, f->s->parent.at[inside]);
    if (*name) module = module_of_name(f->s, name);
    f->s->of_node[n] = module;
    return common(f->s, module, inside);
}

static uint32_t say_graph(struct finder *f, ir_graph g) {
    const struct ir_graph_info *graph = &f->m->graph.at[g];
    uint32_t all = NONE;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        all = common(f->s, all, say_node(f, f->m->node_list.at[graph->nodes + i]));
    return all;
}

/* ---- what lies between ----------------------------------------------------------------------- */

static bool reads_from(const struct finder *f, ir_node n, uint32_t module) {
    for (uint32_t i = 0; i < f->m->node.at[n].n_inputs; i++) {
        ir_node maker = f->m->value.at[ir_inputs(f->m, n)[i]].node;
        if (maker && f->s->of_node[maker] != NONE && is_below(f->s, f->s->of_node[maker], module))
            return true;
    }
    return false;
}

static void fill(struct finder *f, ir_graph g, uint32_t around) {
    const struct ir_module *m = f->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    const ir_node *list = &m->node_list.at[graph->nodes];
    struct graph_modules *s = f->s;
    uint32_t before = NONE;
    for (uint32_t i = 0, next = 0; i < graph->n_nodes; i++) {
        uint32_t *of = &s->of_node[list[i]];
        if (*of != NONE) {
            before = *of;
            continue;
        }
        for (next = next > i ? next : i; next < graph->n_nodes && s->of_node[list[next]] == NONE;)
            next++;
        bool end = next == graph->n_nodes;
        uint32_t both =
            common(s, before == NONE ? around : before, end ? around : s->of_node[list[next]]);
        *of = both;
        for (uint32_t at = end || before == NONE ? both : before; at != both; at = s->parent.at[at])
            if (s->has_children.at[at] && reads_from(f, list[i], at)) {
                *of = at;
                break;
            }
    }
    ir_graph body;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t k = 0; (body = control_graph(m, list[i], k)); k++)
            fill(f, body, s->of_node[list[i]]);
}

void graph_modules_find(struct graph_modules *s, const struct program *p, struct arena *a) {
    const struct ir_module *m = p->m;
    *s = (struct graph_modules){.of_node = arena_new(a, uint32_t, m->node.n + 1),
                                .of_param = arena_new(a, uint32_t, p->params.n + 1)};
    strtab_init(&s->path);
    vec_push(&s->parent, 0);
    vec_push(&s->depth, 0);
    vec_push(&s->has_children, false);
    for (uint32_t i = 0; i < p->params.n; i++)
        s->of_param[i] = module_of_name(s, ir_text(m, p->params.at[i].name));
    memset(s->of_node, 0xff, sizeof *s->of_node * m->node.n);
    struct finder f = {s, p, m, arena_new(a, uint32_t, p->params.n + 1)};
    if (!m->main) return;
    say_graph(&f, m->main);
    fill(&f, m->main, 0);
}

void graph_modules_free(struct graph_modules *s) {
    strtab_free(&s->path);
    vec_free(&s->parent);
    vec_free(&s->depth);
    vec_free(&s->has_children);
}
