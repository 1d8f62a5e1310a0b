/* The graph as people look at it: boxes for modules and operators, and what a gradient does between
 * them.
 *
 * graph_modules.c finds the module of each node, graph.c folds the nodes into vertices,
 * graph_edges.c connects them, graph_layout.c gives them places; graph_dot.c and graph_svg.c
 * write. All steps of a program are in one picture: a parameter's class is that over all of them.
 * Constants are not drawn. */
#ifndef DDPC_GRAPH_H
#define DDPC_GRAPH_H

#include "advice.h"
#include <stdio.h>

/* Of a parameter: enum grad_class, and one more. */
enum { GRAPH_UNKNOWN = GRAD_FROZEN + 1, GRAPH_N_CLASSES };
const char *graph_class_name(uint32_t class);

enum graph_kind {
    GRAPH_ROOT,    /* vertex 0: what holds the others */
    GRAPH_NODE,    /* one operator */
    GRAPH_FOLD,    /* the nodes of a module, or a run of nodes */
    GRAPH_CONTROL, /* an If or a loop; holds its bodies */
    GRAPH_BODY,
    GRAPH_INPUT,
    GRAPH_OUTPUT,
    GRAPH_UNREAD, /* parameters that no node reads */
};

struct graph_vertex {
    enum graph_kind kind;
    uint32_t parent; /* the vertex that holds it */
    uint32_t place;  /* in the order of execution */
    const char *label, *detail;
    uint32_t nodes;                          /* in it, with those of bodies */
    uint32_t params, class[GRAPH_N_CLASSES]; /* those that its nodes read */
    uint32_t cuts;                           /* between nodes in it */
    uint32_t control;                        /* Ifs and loops in it */
    uint32_t first_cut;                      /* index in graph.cut */
    bool loss;                               /* GRAPH_OUTPUT: a gradient starts here */
};

struct graph_edge {
    uint32_t from, to;
    bool flows;               /* a gradient passes, from `to` to `from` */
    uint32_t cuts, first_cut; /* how many ways of one end here; index in graph.cut */
};

struct graph {
    const struct program *p;
    struct arena arena;
    VEC(struct graph_vertex) vertex;
    VEC(struct graph_edge) edge; /* by `from`, then `to` */
    VEC(const char *) cut;       /* why no gradient passes, a sentence each */
    uint32_t depth,
        max_depth; /* so many parts of the modules' names are told apart; all: max_depth */
    uint32_t nodes, params, class[GRAPH_N_CLASSES];
};

/* depth 0: as many as make a picture that can be read. */
enum { GRAPH_READABLE = 40 };
void graph_build(struct graph *g, struct program *p, struct branches *b, const struct reach *reach,
                 const struct advices *advice, uint32_t depth);
void graph_free(struct graph *g);

/* Whether a is b or in it. */
bool graph_within(const struct graph *g, uint32_t a, uint32_t b);
/* "16 always, 2 never" */
const char *graph_classes_text(const struct graph_vertex *v, struct arena *a);

void graph_dot(const struct graph *g, FILE *out);
void graph_svg(struct graph *g, FILE *out);

/* ---- modules --------------------------------------------------------------------------------- */

/* A path of names, a.b.c, as a tree. Module 0 is the whole model. */
enum { GRAPH_MAX_DEPTH = 16 };
struct graph_modules {
    struct strtab path;
    VEC(uint32_t) parent; /* by module, which is the path's handle */
    VEC(uint8_t) depth;   /* 0 of the whole */
    VEC(bool) has_children;
    uint32_t *of_node;
    uint32_t *of_param;
    uint32_t max_depth;
};
void graph_modules_find(struct graph_modules *s, const struct program *p, struct arena *a);
void graph_modules_free(struct graph_modules *s);
uint32_t graph_module_at(const struct graph_modules *s, uint32_t module, uint32_t depth);

/* ---- layout ---------------------------------------------------------------------------------- */

/* Boxes in layers, top to bottom. Whatever a box leads to in layers further down hangs on one line
 * from it, its trunk, which has a column of its own in each layer that it passes. */
struct layout_node {
    double width, height; /* given */
    uint32_t place;       /* given: an edge to a lower place leads upwards */
    double x, y;          /* found: of its centre and of its top */
    double top, bottom;   /* of its layer */
    uint32_t layer;
    uint32_t trunk, n_trunk; /* in layout.point */
};
struct layout_edge {
    uint32_t from, to;    /* given */
    bool straight;        /* given: its ends are rather to stand below each other than others' */
    uint32_t over, under; /* found: the two, by their places */
    uint32_t leaves;      /* so many points down the trunk of `over` */
    bool direct;          /* it does not use the trunk: there would be too many points */
};
struct layout_point {
    double x, top, bottom;
};
struct layout {
    struct layout_node *node;
    struct layout_edge *edge;
    uint32_t n, n_edges;
    struct layout_point *point; /* all found are in the arena */
    double width, height;
    struct arena *arena;
};
/* In O(n log n) of nodes and edges. */
void layout_layers(struct layout *l);

#endif
