/* What the verifier's files share; everybody else calls ir_verify (ir.h). */
#ifndef DDPC_VERIFY_H
#define DDPC_VERIFY_H

#include "ops.h"

/* What an operator's or a function's name stands for; kept, so that a million nodes of forty
 * operators cost forty look-ups. */
struct resolved {
    str domain, op, overload;
    bool used;
    uint32_t def;
    ir_function callee;
    struct diag *reported; /* it is unknown, and this says so */
    uint32_t more;         /* further nodes that use it */
};

/* A call of one of the model's functions in the body of another. */
struct call {
    ir_function from, to;
    ir_node node;
};

/* A use of a value whose producing node comes later. */
struct early_use {
    ir_value value;
    ir_node user; /* in the value's own graph: the node itself, or the one whose subgraph has it */
    ir_loc loc;
};

/* A use of a name that nothing has defined so far; a graph around it may define it later. */
struct open_use {
    ir_value value;
    ir_node user;
    ir_loc loc;
};

struct verifier {
    struct ir_module *m;
    struct op_table *ops;
    struct diags *d;
    struct arena scratch; /* of the arrays below */
    bool *defined;        /* by value: its definition has been passed */
    ir_value *by_name;    /* by str: the value of that name in the innermost scope that has one */
    VEC(ir_value) hidden; /* undo list: what by_name held before the scopes around this place */
    ir_value *later;      /* by undefined value: the one that an outer graph defines later, or 0 */
    VEC(struct open_use) open;
    struct resolved *names;
    uint32_t n_names, n_slots;
    VEC(struct call) calls;
    VEC(struct early_use) early;
    ir_attr *given;           /* by str: the last attribute of that name */
    VEC(str) missing_domains; /* reported in the current scope */
    ir_function function;     /* whose body is being walked, or 0 */
};

/* verify_node.c: operator, opset, numbers of inputs and outputs, subgraphs, attributes. */
void verify_functions(struct verifier *v); /* before any node: enters their names */
void verify_node(struct verifier *v, ir_node n);
void verify_unknown_counts(struct verifier *v); /* after all nodes */

/* verify_recursion.c: functions whose calls go round in a circle. After all nodes. */
void verify_recursion(struct verifier *v);

/* verify_order.c: tells a use before its definition from a cycle. */
void verify_order(struct verifier *v);

/* A node as messages name it: "'conv1' (Conv)", by its name or its first output. In the arena of
 * the diagnostics. */
const char *verify_node_name(struct verifier *v, ir_node n);
const char *verify_function_name(struct verifier *v, ir_function f); /* the same arena */

/* Bytes of a name, and of a node's operator with domain and overload, as they stand in the text. */
uint32_t verify_name_length(const struct verifier *v, str name);
uint32_t verify_operator_length(const struct verifier *v, const struct ir_node_info *node);

#endif
