/* The forms of `ddpc check`'s report. */
#ifndef DDPC_CHECK_H
#define DDPC_CHECK_H

#include "advice.h"
#include "gate.h"
#include "stock.h"
#include "tool.h"
#include <jansson.h>

/* Of a step. */
struct check_stock {
    struct flag_walk walk; /* nodes 0: there is no graph */
    struct stock_buckets buckets;
};

struct check_report {
    struct tool *t;
    struct compilation *c;
    const struct advices *a;
    const struct check_stock *stock; /* by step */
    const struct gate *g;
    FILE *out;
};

void check_text(const struct check_report *r);
void check_json(const struct check_report *r);
void check_sarif(const struct check_report *r);

/* Parts of the text: the verdict of one of the report's advices in a line, and what to paste. */
void check_verdict(const struct check_report *r, const struct advice *a);
void check_paste(const struct check_report *r);

/* What the policy and the baseline had to say: sections of the text, keys of the JSON. */
void gate_text(const struct check_report *r);
void gate_json(const struct check_report *r, json_t *root);

/* check_stock.c: what stock DDP costs, by step; in the tool's arena. NULL after reporting what is
 * wrong with --topology and its like. */
struct check_stock *check_stock(struct tool *t, struct compilation *c, const struct advices *a);
/* Lines about it for people, without ends of lines; NULL where there is nothing worth a line. */
const char *check_walk_text(const struct check_report *r);
/* always: also if nobody asked, and 25 is as good. */
const char *check_buckets_text(const struct check_report *r, uint32_t step, bool always);

const char *check_evidence_name(enum evidence e);
/* A sentence for a verdict that is unknown. */
const char *check_unknown_because(const struct program *p, const struct advice *a);
static inline const char *check_param_name(struct tool *t, const struct compilation *c,
                                           uint32_t param) {
    const struct program *p = &c->program;
    return tool_utf8(&t->arena, ir_text(p->m, p->params.at[param].name));
}

#endif
