/* `ddpc check`: which parameters get no gradient, why, and what to set in DistributedDataParallel.
 *
 * It runs the pipeline up to reach, asks for advice, and reports in text or JSON. What makes it a
 * gate for CI is --deny, which names what must not be, and --require-proof, which refuses a verdict
 * that rests on observation or on an incomplete model. The report goes out either way, so that the
 * log of a failed job has it; what was denied is said on standard error. */
#include "check.h"
#include <string.h>

const char *check_evidence_name(enum evidence e) {
    static const char *const names[] = {"proved", "observed", "unknown"};
    return names[e];
}

enum { DENY_NEVER = 1, DENY_CONDITIONAL = 2, DENY_UNKNOWN = 4 };

/* The set of --deny, or -1 after an error. */
static int read_deny(struct tool *t) {
    int deny = 0;
    for (uint32_t i = 0; i < t->deny.n; i++) {
        int k = tool_choice(t, "deny", t->deny.at[i], "never conditional unknown");
        if (k < 0) return -1;
        deny |= 1 << k;
    }
    return deny;
}

enum { NAMES_SHOWN = 5 };

static bool deny_class(struct tool *t, struct compilation *c, const struct advices *a,
                       enum grad_class class) {
    uint32_t n = a->all.count[class], shown = 0;
    if (!n) return false;
    fprintf(stderr, "ddpc check: denied: %u parameter%s of class %s:", n, n == 1 ? "" : "s",
            grad_class_name(class));
    for (uint32_t i = 0; i < c->program.params.n && shown < NAMES_SHOWN; i++) {
        if (c->program.params.at[i].kind != PARAM_PARAMETER || a->class[i] != class) continue;
        fprintf(stderr, "%s %s", shown++ ? "," : "", check_param_name(t, c, i));
    }
    fprintf(stderr, n > shown ? ", ...\n" : "\n");
    return true;
}

static bool denied(struct tool *t, struct compilation *c, const struct advices *a, int deny) {
    bool any = false;
    if (deny & DENY_NEVER) any |= deny_class(t, c, a, GRAD_NEVER);
    if (deny & DENY_CONDITIONAL) any |= deny_class(t, c, a, GRAD_CONDITIONAL);
    if (deny & DENY_UNKNOWN && a->all.verdict == VERDICT_UNKNOWN) {
        fprintf(stderr, "ddpc check: denied: the verdict is unknown: %s\n",
                c->program.incomplete_because);
        any = true;
    }
    if (t->require_proof && c->program.evidence != EVIDENCE_PROVED) {
        fprintf(stderr, "ddpc check: denied: the evidence is %s, not proved\n",
                c->program.observed ? c->program.observed
                                    : check_evidence_name(c->program.evidence));
        any = true;
    }
    return any;
}

static int report(struct tool *t, struct compilation *c, int format, int deny) {
    struct advices a;
    struct tool_output out;
    advices_give(&c->program, c->reach, &a);
    int exit_code = TOOL_USAGE;
    if (tool_output_open(&out, t->output)) {
        (format == 1 ? check_json : check_text)(t, c, &a, out.file);
        if (tool_output_close(&out, true))
            exit_code = denied(t, c, &a, deny) ? TOOL_REJECTED : TOOL_OK;
    }
    advices_free(&a);
    return exit_code;
}

int tool_check(struct tool *t) {
    int format = tool_choice(t, "format", t->format, "text json");
    int deny = read_deny(t);
    if (format < 0 || deny < 0) return TOOL_USAGE;
    struct compilation c;
    int exit_code = tool_run_pipeline(t, &c, PIPELINE_reach);
    if (exit_code == TOOL_OK) exit_code = report(t, &c, format, deny);
    pipeline_free(&c);
    return exit_code;
}
