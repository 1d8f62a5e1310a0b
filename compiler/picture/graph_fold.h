/* A graph on its way into vertices and edges: what graph.c and graph_edges.c share. */
#ifndef DDPC_GRAPH_FOLD_H
#define DDPC_GRAPH_FOLD_H

#include "graph.h"
#include "reason.h"

/* Of one input of one node. */
struct way {
    uint32_t from, to;
    bool flows;
    struct cut cut;
};

struct reads {
    uint32_t vertex, param;
};

struct folder {
    struct graph *g;
    struct program *p;
    const struct ir_module *m;
    const struct reach *reach;
    const struct advices *advice;
    struct graph_modules modules;
    struct flow flow; /* of the first step: what is cut is the same in all */
    struct arena scratch;
    uint32_t depth;
    bool all;                  /* every node is told apart */
    uint32_t *of_node;         /* by node: its vertex; 0: not drawn */
    uint32_t *of_input;        /* by value */
    ir_node *only, *last;      /* by vertex: its first node, its last */
    uint32_t *fold, *fold_for; /* by module: its vertex, and in which graph (or 0) */
    uint32_t *body_of;         /* by graph: its vertex */
    bool *needs;               /* by value: a trainable parameter precedes it */
    uint32_t run_length, place;
    VEC(struct way) ways;
    VEC(struct reads) reads;
};

uint32_t graph_vertex_add(struct folder *f, enum graph_kind kind, uint32_t parent,
                          const char *label);
/* graph_edges.c: edges, inputs and outputs, once the vertices are there. Needs flow, needs. */
void graph_connect(struct folder *f);

#endif
