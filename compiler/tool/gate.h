/* The gate of `ddpc check`: what it finds, what of that is new, allowed or denied. */
#ifndef DDPC_GATE_H
#define DDPC_GATE_H

#include "advice.h"
#include "baseline.h"
#include "policy.h"

enum gate_rule { RULE_NEVER, RULE_CONDITIONAL, RULE_UNKNOWN, RULE_EVIDENCE, GATE_N_RULES };
const char *gate_rule_name(enum gate_rule r); /* "never" */

enum { NO_PARAM = UINT32_MAX, ALL_STEPS = UINT32_MAX };

/* A parameter that is never or conditional, over all steps or, against a baseline, in one of them;
 * or, with NO_PARAM, what is wrong with the verdict or the evidence. */
struct finding {
    enum gate_rule rule;
    uint32_t param, step;
    const char *text; /* with NO_PARAM: a sentence */
    const char *help; /* a way out, or NULL; of parameters it is the group's */
    const char
        *was; /* its class in the baseline; NULL if that had no such parameter, or there is none */
    bool new; /* the baseline has it not; true if there is no baseline */
    bool denied;
    const struct policy_entry *allowed; /* by which entry, or NULL */
};

/* What the baseline has and the model has no more. `name` NULL: the verdict or the evidence. */
struct fixed {
    const char *name;
    uint32_t step;
    const char *was, *is; /* is NULL: gone */
};

struct gate {
    unsigned deny; /* classes */
    size_t prefix; /* of wrappers, in the names of the model */
    struct policy policy;
    struct baseline baseline;
    VEC(struct finding) findings;
    VEC(struct fixed) fixed;
    string_list denied, help; /* sentences, and for each the way out or NULL */
};

/* Reads what the flags name. False after reporting; free it in any case. */
bool gate_open(struct gate *g, struct tool *t);
/* Compares. False after reporting, if the baseline is of another model. */
bool gate_judge(struct gate *g, struct tool *t, struct compilation *c, const struct advices *a);
void gate_free(struct gate *g);

#endif
