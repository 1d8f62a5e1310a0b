/* The page of `ddpc report`: what it is written from. */
#ifndef DDPC_PAGE_H
#define DDPC_PAGE_H

#include "check.h"
#include "graph.h"
#include "simulation.h"
#include "template.h"
#include "timeline.h"

struct page_row {
    uint32_t param, step;
};

struct page {
    struct tool *t;
    struct compilation *c;
    const char *model; /* the file's name without its folder */
    struct advices advices;
    struct check_report check;
    struct simulations simulations;
    struct graph graph;
    bool has_graph;
    VEC(struct page_row) rows; /* of the table of parameters */
    string_list advice, basis; /* sentences */

    /* What is being written. */
    enum { PAGE_STEP, PAGE_ROW, PAGE_BUCKET } in;
    uint32_t step, row, bucket, item; /* bucket: in the plan's step */
};

/* page_words.c */
const char *page_verdict(struct page *g, const struct advice *v);
const char *page_counts(struct page *g);
void page_paste(struct page *g, FILE *out);
void page_list_advice(struct page *g);
void page_list_basis(struct page *g);

#endif
