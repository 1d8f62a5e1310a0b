/* What the commands over plans share: opening one with a diagnostic, and its printed forms. */
#ifndef DDPC_PLAN_TOOL_H
#define DDPC_PLAN_TOOL_H

#include "plan.h"
#include "tool.h"
#include <jansson.h>

/* "-" is standard input. NULL after printing why. */
struct plan *tool_open_plan(const struct tool *t, const char *path);

void dump_text(const struct plan *p, FILE *out);
void dump_json(const struct plan *p, FILE *out);   /* dump_json.c */
void dump_header(const struct plan *p, FILE *out); /* dump_header.c */

/* A JSON string of a name, whatever bytes that has. */
json_t *dump_name(const char *name);

/* The branches that a guard depends on, ascending, appended to `out`. */
typedef VEC(uint32_t) branch_list;
void plan_guard_branches(const struct plan *p, uint32_t guard, branch_list *out);

#endif
