/* Reduced ordered binary decision diagrams: boolean functions of the branches, one node a function.
 *
 * A function is a handle; equal functions have equal handles. Variables are numbered in the order
 * of their first definition. When the manager holds its limit of nodes, every operation that would
 * need another returns BDD_OVERFLOW, and so does every operation on it; the caller decides what
 * that means (must: false, may: true). Source: R. E. Bryant, "Graph-Based Algorithms for Boolean
 * Function Manipulation", IEEE ToC 1986. */
#ifndef DDPC_BDD_H
#define DDPC_BDD_H

#include "arena.h"
#include <stdbool.h>

typedef uint32_t bdd;
enum { BDD_FALSE = 0, BDD_TRUE = 1 };
#define BDD_OVERFLOW UINT32_MAX

struct bdd_manager; /* opaque */

struct bdd_manager *bdd_new(uint32_t max_nodes);
void bdd_free(struct bdd_manager *m);

bdd bdd_var(struct bdd_manager *m, uint32_t variable);
bdd bdd_not(struct bdd_manager *m, bdd a);
bdd bdd_and(struct bdd_manager *m, bdd a, bdd b);
bdd bdd_or(struct bdd_manager *m, bdd a, bdd b);
bdd bdd_xor(struct bdd_manager *m, bdd a, bdd b);
bdd bdd_ite(struct bdd_manager *m, bdd c, bdd a, bdd b);
/* Projects the variables in [first, last) away. */
bdd bdd_exists(struct bdd_manager *m, bdd a, uint32_t first, uint32_t last);
bdd bdd_forall(struct bdd_manager *m, bdd a, uint32_t first, uint32_t last);
bool bdd_implies(struct bdd_manager *m, bdd a, bdd b);
/* The function's value under an assignment, by variable. */
bool bdd_eval(const struct bdd_manager *m, bdd a, const bool *assignment);
/* The variables it depends on, ascending, appended to `out`. */
typedef VEC(uint32_t) bdd_support;
void bdd_support_of(const struct bdd_manager *m, bdd a, bdd_support *out);
/* The decision at the top of a function that is not constant: its variable and the functions where
 * that is false and true. */
uint32_t bdd_top(const struct bdd_manager *m, bdd a, bdd *low, bdd *high);
uint32_t bdd_node_count(const struct bdd_manager *m);

/* Readable text, an irredundant sum of products ("d_turn && !skip || x"); `name` gives a variable's
 * name. Long functions end in "...". Source of the cover: S. Minato, "Fast Generation of Prime-
 * Irredundant Covers from Binary Decision Diagrams", 1993. */
const char *bdd_text(struct bdd_manager *m, bdd a, struct arena *out,
                     const char *(*name)(void *context, uint32_t variable), void *context);

#endif
