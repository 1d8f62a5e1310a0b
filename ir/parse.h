/* Inside the reader: what its files (parse*.c) share. Every parse_* function returns false after it
 * has reported an error; its caller passes that on up to a place where reading can go on. */
#ifndef DDPC_PARSE_H
#define DDPC_PARSE_H

#include "lex.h"
#include "scope.h"

/* A name that was read and is not interned yet. */
struct parse_name {
    struct span text;
    uint32_t hash;
    str interned; /* if it had to be at once; else 0 */
};

/* A tensor's type by its text. */
struct parse_seen_type {
    struct span text;
    ir_type type;
};
enum { PARSE_SEEN_TYPES = 64 };

/* A node's input or output. */
struct parse_ref {
    struct parse_name name;
    ir_value value; /* an input's, once it is known */
    ir_loc loc;
};

/* A node that was read and whose names have no meaning yet. */
struct parse_node {
    ir_node node; /* 0: none */
    struct parse_name name;
    uint32_t refs, n_outputs, n_refs; /* in parser.refs */
};

/* A declaration that was read: `float[2] w = {1, 2}`. */
struct parse_item {
    struct parse_name name;
    ir_type type;
    ir_loc loc;
    ir_data data; /* 0: none */
};
enum { PARSE_ITEMS = 16 };

struct parser {
    struct lexer lex;
    struct ir_module *m;
    struct diags *d;
    const char *form; /* how the construct that is being read looks: the help of its errors */
    bool quiet;       /* the text has ended, or too much is wrong: say nothing more */
    const char *quote, *quote_end; /* the last quoted string, and what stands behind it */
    uint32_t errors;
    uint32_t depth;            /* graphs and types around this place */
    uint32_t opsets, n_opsets; /* imports in force, in module.opset */
    uint32_t keys;             /* of the header that is being read: a bit for each that it has */

    struct scope scope;

    struct parse_item items[PARSE_ITEMS]; /* of the graph's head, not yet in the module */
    uint32_t n_items;
    struct parse_seen_type seen_types[PARSE_SEEN_TYPES], last_type;
    struct parse_node held; /* the graph's last node */

    /* Stacks for lists whose elements may hold graphs and so further lists of the same kind. */
    VEC(struct parse_ref) refs;
    VEC(struct ir_attr_info) attrs;
    VEC(union ir_attr_value) values;
    VEC(ir_node) nodes;
    VEC(struct ir_dim) dims;
};

/* ---- parse.c --------------------------------------------------------------------------------- */

static inline ir_loc parse_here(struct parser *p) {
    lex_peek(&p->lex);
    return (ir_loc)(p->lex.at - p->lex.base);
}
/* "expected WHAT, found ..." at the next token, or that the text ends there. Returns false. */
bool parse_expected(struct parser *p, const char *what);
/* Any other error. NULL if nothing more is to be said. */
struct diag *parse_error(struct parser *p, enum diag_code code, ir_loc loc, size_t length,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Takes `c`, or reports that `what` was expected. */
bool parse_missing(struct parser *p, const char *what);
static inline bool parse_take(struct parser *p, char c, const char *what) {
    return lex_take(&p->lex, c) || parse_missing(p, what);
}
/* A quoted string. */
bool parse_string(struct parser *p, const char *what, str *out);
/* A name, quoted or not. Unquoted it may hold `classes` of characters. */
bool parse_name(struct parser *p, int classes, const char *what, str *out);
/* The same in two steps: `parse_pending_name` takes a name if one is next. Much of the reader's
 * time is waiting for the table of strings; a name that is not needed at once need not wait
 * (strtab.h). */
bool parse_pending_name(struct parser *p, int classes, struct parse_name *out, bool *ok);
static inline str parse_intern(struct parser *p, const struct parse_name *name) {
    if (name->interned || name->text.len == 0) return name->interned;
    return strtab_add_hashed(&p->m->strings, name->text.s, name->text.len, name->hash);
}
/* Takes a name if one is next. */
bool parse_maybe_name(struct parser *p, int classes, str *out, bool *ok);
/* One more level of nesting; false, reported, if there are too many. */
bool parse_enter(struct parser *p);

/* Takes a list's elements up to and including `close`; a comma may follow the last one. After an
 * element that does not read it goes on at the next comma. */
bool parse_list(struct parser *p, char close, const char *what, bool (*element)(struct parser *));

/* ---- parse_graph.c --------------------------------------------------------------------------- */

/* Gives the names of the last node their meaning: before a graph that may use them. */
void parse_settle(struct parser *p);
bool parse_graph(struct parser *p, str name, ir_loc loc, ir_node owner, ir_graph *out);
/* From the inputs on: `(inputs) => (outputs) <declarations> { nodes }`. */
bool parse_graph_body(struct parser *p, ir_graph g);

/* ---- parse_type.c ---------------------------------------------------------------------------- */

/* Takes a type if one is next: *out 0 if there is none (or it is `undefined`). Where a name could
 * stand too (`name_possible`), what follows the word decides. */
bool parse_maybe_type(struct parser *p, bool name_possible, bool *found, ir_type *out);

/* Reports the word, which is no type, if it is nearly one, or stands where `surely` a type is
 * meant. */
bool parse_misspelt_type(struct parser *p, struct span word, bool surely);

/* ---- parse_data.c ---------------------------------------------------------------------------- */

/* `{...}`, `[...]` or `...`; `type` decides what the elements may be. */
bool parse_data(struct parser *p, ir_type type, ir_data *out);

/* ---- parse_attr.c ---------------------------------------------------------------------------- */

/* `<a = 1, b: ints = [1, 2]>` behind the '<'; appends to module.attr. */
bool parse_attrs(struct parser *p, ir_node owner, uint32_t *first, uint32_t *n);
/* A function's formal attributes, behind the '<'. */
bool parse_formal_attrs(struct parser *p, uint32_t *first, uint32_t *n);
/* An integer literal that fits into 64 bits. */
bool parse_int(struct parser *p, const char *what, int64_t *out);

#endif
