/* What names mean while a graph is read: shared by the readers of text and of binary models.
 *
 * `meaning` maps each interned string to the value that it means at this place; a graph that gives a
 * name a meaning notes the former one, and puts all of them back when it ends; before the main graph,
 * which has most names, none means anything. So a look-up is one
 * array access, and captures of outer values need no search. */
#ifndef DDPC_SCOPE_H
#define DDPC_SCOPE_H

#include "ir.h"

/* What a name meant before the current graph gave it a meaning. */
struct scope_undo {
    str name;
    ir_value before;
};

struct scope {
    struct ir_module *m;
    ir_graph graph;        /* the graph that is being read */
    VEC(ir_value) meaning; /* by str: the value that a name means here; 0: none */
    VEC(struct scope_undo) undo;
};

void scope_free(struct scope *s);

/* A graph begins; what it leaves is given to scope_leave, which also looks up its outputs: until then
 * the `value` of an output's ir_decl is its name. */
struct scope_outer {
    ir_graph graph;
    uint32_t undo;
};
struct scope_outer scope_enter(struct scope *s, ir_graph g);
void scope_leave(struct scope *s, struct scope_outer outer);

void scope_set_meaning(struct scope *s, str name, ir_value v);

/* The value that a use of the name refers to; 0 for the empty name. */
static inline ir_value scope_use(struct scope *s, str name, ir_loc loc) {
    if (name == 0) return 0;
    ir_value v = name < s->meaning.n ? s->meaning.at[name] : 0;
    if (v) return v;
    v = ir_value_add(s->m, name, IR_DEF_UNDEFINED, s->graph, loc);
    scope_set_meaning(s, name, v);
    return v;
}

/* The value that a definition of the name makes or fills in. */
ir_value scope_define(struct scope *s, str name, enum ir_def def, ir_loc loc);
/* The same for a graph's input, which may have data (0: none), an initializer or a value's type; and
 * appends it to module.decl. */
void scope_declare(struct scope *s, enum ir_def def, str name, struct ir_decl decl);
/* The same for output i of a node. */
static inline ir_value scope_define_output(struct scope *s, ir_node n, uint32_t i, str name,
                                           ir_loc loc) {
    if (name == 0) return 0;
    ir_value v = scope_define(s, name, IR_DEF_NODE, loc);
    s->m->value.at[v].node = n;
    s->m->value.at[v].output = i;
    return v;
}

#endif
