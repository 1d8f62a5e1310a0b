/* What names mean.
 *
 * A definition in the graph that already used the name undefined fills that value in; so does a
 * node's output whose type the graph's head declared. A second definition makes a second value, and
 * the first keeps the name: the verifier compares the two. A node's outputs get their meaning after
 * its inputs and attributes have been read. Graph outputs are listed before anything defines them;
 * they are looked up when the graph ends, and may then be values from outside. */
#include "scope.h"
#include <string.h>

void scope_free(struct scope *s) {
    vec_free(&s->meaning);
    vec_free(&s->undo);
}

void scope_set_meaning(struct scope *s, str name, ir_value v) {
    if (name >= s->meaning.n) {
        uint32_t more = s->m->strings.text.n - s->meaning.n;
        memset(vec_extend(&s->meaning, more), 0, more * sizeof(ir_value));
    }
    if (s->graph != s->m->main)
        vec_push(&s->undo, ((struct scope_undo){name, s->meaning.at[name]}));
    s->meaning.at[name] = v;
}

ir_value scope_define(struct scope *s, str name, enum ir_def def, ir_loc loc) {
    if (name == 0) return 0;
    ir_value v = name < s->meaning.n ? s->meaning.at[name] : 0;
    if (v && s->m->value.at[v].graph == s->graph) {
        struct ir_value_info *info = &s->m->value.at[v];
        bool declared = info->def == IR_DEF_DECLARED && def != IR_DEF_INPUT;
        bool from_input = info->def == IR_DEF_INPUT && def == IR_DEF_INITIALIZER;
        if (info->def == IR_DEF_UNDEFINED || declared || from_input) {
            info->def = (uint8_t)def;
            info->loc = loc;
            info->also_input = from_input;
            return v;
        }
        if (def == IR_DEF_DECLARED) return v;
        return ir_value_add(s->m, name, def, s->graph, loc);
    }
    v = ir_value_add(s->m, name, def, s->graph, loc);
    scope_set_meaning(s, name, v);
    return v;
}

void scope_declare(struct scope *s, enum ir_def def, str name, struct ir_decl decl) {
    decl.value = scope_define(s, name, def, decl.loc);
    struct ir_value_info *info = &s->m->value.at[decl.value];
    if (!info->type) info->type = decl.type;
    if (decl.data) info->data = decl.data;
    if (decl.data && def == IR_DEF_INPUT) {
        info->def = IR_DEF_INITIALIZER;
        info->also_input = true;
    }
    vec_push(&s->m->decl, decl);
}

struct scope_outer scope_enter(struct scope *s, ir_graph g) {
    struct scope_outer outer = {s->graph, s->undo.n};
    s->graph = g;
    return outer;
}

void scope_leave(struct scope *s, struct scope_outer outer) {
    const struct ir_graph_info *graph = &s->m->graph.at[s->graph];
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        struct ir_decl *decl = &s->m->decl.at[graph->outputs + i];
        decl->value = scope_use(s, (str)decl->value, decl->loc);
        struct ir_value_info *info = &s->m->value.at[decl->value];
        if (!info->type) info->type = decl->type;
        if (info->graph == s->graph) info->is_output = true;
    }
    if (s->graph == s->m->main && s->meaning.n)
        memset(s->meaning.at, 0, s->meaning.n * sizeof(ir_value));
    while (s->undo.n > outer.undo) {
        struct scope_undo *u = &s->undo.at[--s->undo.n];
        s->meaning.at[u->name] = u->before;
    }
    s->graph = outer.graph;
}
