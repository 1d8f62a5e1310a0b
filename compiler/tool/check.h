/* The two forms of `ddpc check`'s report. */
#ifndef DDPC_CHECK_H
#define DDPC_CHECK_H

#include "advice.h"
#include "tool.h"

void check_text(struct tool *t, struct compilation *c, const struct advices *a, FILE *out);
/* denied: what --deny and --require-proof found, a sentence each. */
void check_json(struct tool *t, struct compilation *c, const struct advices *a,
                const string_list *denied, FILE *out);

const char *check_evidence_name(enum evidence e);
/* A sentence for a verdict that is unknown. */
const char *check_unknown_because(const struct program *p, const struct advice *a);
static inline const char *check_param_name(struct tool *t, const struct compilation *c,
                                           uint32_t param) {
    const struct program *p = &c->program;
    return tool_utf8(&t->arena, ir_text(p->m, p->params.at[param].name));
}

#endif
