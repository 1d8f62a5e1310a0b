/* Names: from the words of the command line and the metadata to values of the module.
 *
 * Names are found through an array over the interned strings, so a lookup costs a hash and a model
 * with a million nodes one pass. The main graph wins where a subgraph uses the same name; bodies of
 * functions that were inlined are no longer part of the program and are not indexed.
 *
 * The same walk notes how each value is read, which decides what is a buffer. Nodes are listed
 * outer graph first, so every use stands behind its definition and one pass from the end sees the
 * uses of a value before the node that makes it: that lets a copy by Identity count as what is done
 * with the copy (exporters share equal running statistics that way). */
#include "program_build.h"
#include <string.h>

typedef VEC(ir_graph) graph_list;

static graph_list live_graphs(struct builder *b) {
    const struct ir_module *m = b->m;
    graph_list graphs = {0};
    vec_push(&graphs, m->main);
    for (uint32_t g = 0; g < graphs.n; g++) {
        const struct ir_graph_info *graph = &m->graph.at[graphs.at[g]];
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
            ir_node n = m->node_list.at[graph->nodes + i];
            vec_push(&b->nodes, n);
            const struct ir_node_info *node = &m->node.at[n];
            for (uint32_t k = 0; k < node->n_attrs; k++) {
                const struct ir_attr_info *attr = &m->attr.at[node->attrs + k];
                if (attr->kind != IR_ATTR_GRAPH && attr->kind != IR_ATTR_GRAPHS) continue;
                for (uint32_t j = 0; j < attr->n_values; j++)
                    vec_push(&graphs, m->attr_value.at[attr->values + j].g);
            }
        }
    }
    return graphs;
}

static void note_uses(struct builder *b, const graph_list *graphs) {
    const struct ir_module *m = b->m;
    for (uint32_t g = 0; g < graphs->n; g++) {
        const struct ir_graph_info *graph = &m->graph.at[graphs->at[g]];
        for (uint32_t i = 0; i < graph->n_outputs; i++)
            b->use[m->decl.at[graph->outputs + i].value] |= USE_OTHER;
    }
    uint32_t identity = op_find(b->p->ops, "", "Identity");
    for (uint32_t i = b->nodes.n; i-- > 0;) {
        ir_node n = b->nodes.at[i];
        const struct ir_node_info *node = &m->node.at[n];
        uint8_t copied = 0;
        if (node->def && node->def == identity && node->n_outputs)
            copied = b->use[ir_outputs(m, n)[0]];
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            bool state = node->def && op_input_of(b->p->ops, node->def, k)->state;
            b->use[ir_inputs(m, n)[k]] |= copied ? copied : state ? USE_STATE : USE_OTHER;
        }
    }
}

void names_build(struct builder *b) {
    const struct ir_module *m = b->m;
    graph_list graphs = live_graphs(b);
    bool *live = arena_new(&b->scratch, bool, m->graph.n);
    for (uint32_t g = 0; g < graphs.n; g++) live[graphs.at[g]] = true;

    /* So that an alias has its place in the index too. */
    for (uint32_t i = 0; i < b->o->alias.n; i++) {
        const char *equal = strchr(b->o->alias.at[i], '=');
        if (equal) strtab_addz(&b->m->strings, equal + 1);
    }
    b->n_named = m->strings.text.n;
    b->by_name = arena_new(&b->scratch, ir_value, b->n_named);
    for (ir_value v = 1; v < m->value.n; v++) {
        const struct ir_value_info *value = &m->value.at[v];
        ir_value *slot = &b->by_name[value->name];
        if (!value->name || !live[value->graph]) continue;
        if (!*slot || (value->graph == m->main && m->value.at[*slot].graph != m->main)) *slot = v;
    }
    b->real = arena_new(&b->scratch, str, m->value.n);
    b->use = arena_new(&b->scratch, uint8_t, m->value.n);
    note_uses(b, &graphs);
    vec_free(&graphs);
}

ir_value names_find(const struct builder *b, const char *name, size_t length) {
    str s;
    if (!strtab_find(&b->m->strings, name, length, &s)) return 0;
    return s < b->n_named ? b->by_name[s] : 0;
}

static bool is_glob(const char *text) { return strpbrk(text, "*?[") != NULL; }

struct name_set names_set(struct builder *b, const wish_list *wishes) {
    struct name_set set = {0};
    if (!wishes->n) return set;
    set.n = b->m->strings.text.n;
    set.is = arena_new(&b->scratch, bool, set.n);
    set.globs = arena_new(&b->scratch, const char *, wishes->n);
    for (uint32_t i = 0; i < wishes->n; i++) {
        const char *text = wishes->at[i].text;
        str s;
        if (strtab_find(&b->m->strings, text, strlen(text), &s)) set.is[s] = true;
        if (is_glob(text)) set.globs[set.n_globs++] = text;
    }
    return set;
}

static bool name_in(const struct builder *b, const struct name_set *set, str name) {
    if (name < set->n && set->is[name]) return true;
    for (uint32_t i = 0; i < set->n_globs; i++)
        if (glob_match(set->globs[i], ir_text(b->m, name))) return true;
    return false;
}

bool names_in(const struct builder *b, const struct name_set *set, const struct param *param) {
    bool in = name_in(b, set, param->name);
    for (uint32_t i = 0; i < param->aliases.n && !in; i++)
        in = name_in(b, set, param->aliases.at[i]);
    return in;
}

str names_real(const struct builder *b, ir_value v) {
    return b->real[v] ? b->real[v] : b->m->value.at[v].name;
}

bool names_help_repeat(struct diags *d, struct diag *g, const char *flag, const char *text) {
    if (!strpbrk(text, ", ") || strncmp(flag, "--", 2) != 0) return false;
    diag_set_help(d, g, "a comma or a blank does not separate names here: repeat %s for each",
                  flag);
    return true;
}

bool names_unknown(struct builder *b, struct wish w, enum kind_of_name kind) {
    const struct ir_module *m = b->m;
    VEC(const char *) names = {0};
    if (kind == NAME_PARAMETER) {
        for (uint32_t i = 0; i < b->candidates.n; i++)
            if (b->candidates.at[i].role == ROLE_PARAMETER)
                vec_push(&names, ir_text(m, b->candidates.at[i].param.name));
    } else {
        for (ir_value v = 1; v < m->value.n; v++)
            if (m->value.at[v].name &&
                names_find(b, ir_value_name(m, v), strlen(ir_value_name(m, v))) == v)
                vec_push(&names, ir_value_name(m, v));
    }
    const char *near = diag_nearest(w.text, names.at, names.n);
    /* A value of a function's body is called `call/value` once the call is a copy of the body. */
    for (uint32_t i = 0; i < names.n && !near; i++) {
        const char *slash = strrchr(names.at[i], '/');
        if (slash && strcmp(slash + 1, w.text) == 0) near = names.at[i];
    }
    const char *what = kind == NAME_PARAMETER ? "parameter" : "value";
    bool glob = is_glob(w.text);
    struct diag *g =
        glob ? diag_plain(b->d, DIAG_MATCHES_NOTHING, w.flag, "'%s' matches no %s", w.text, what)
        : w.metadata
            ? diag_plain(b->d, DIAG_MATCHES_NOTHING, w.flag, "the model has no %s '%s'", what,
                         w.text)
            : diag_plain(b->d, DIAG_UNKNOWN_NAME, w.flag, "the model has no %s '%s'", what, w.text);
    if (!w.metadata && names_help_repeat(b->d, g, w.flag, w.text)) {
    } else if (near)
        diag_set_help(b->d, g, "did you mean '%s'?", near);
    else if (names.n)
        diag_set_help(b->d, g, "the model has %u %ss, '%s' among them", names.n, what, names.at[0]);
    vec_free(&names);
    return glob || w.metadata;
}

bool names_alias(struct builder *b) {
    bool ok = true;
    for (uint32_t i = 0; i < b->o->alias.n; i++) {
        const char *text = b->o->alias.at[i], *equal = strchr(text, '=');
        if (!equal || equal == text || !equal[1]) {
            diag_plain(b->d, DIAG_FLAG_SYNTAX, "--alias", "'%s' is not of the form EXPORTED=REAL",
                       text);
            ok = false;
            continue;
        }
        const char *exported = arena_strndup(&b->scratch, text, (size_t)(equal - text));
        ir_value v = names_find(b, exported, strlen(exported));
        if (!v) {
            names_unknown(b, (struct wish){exported, "--alias", false}, NAME_VALUE);
            ok = false;
            continue;
        }
        if (names_find(b, equal + 1, strlen(equal + 1))) {
            diag_plain(b->d, DIAG_ALIAS_TAKEN, "--alias",
                       "'%s' cannot be called '%s': the model has another value of that name",
                       exported, equal + 1);
            ok = false;
            continue;
        }
        b->real[v] = strtab_addz(&b->m->strings, equal + 1);
        b->by_name[b->real[v]] = v;
    }
    return ok;
}
