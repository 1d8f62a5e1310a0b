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
    int which = 0;
    for (uint32_t i = 0; i < t->deny.n; i++) {
        int k = tool_choice(t, "deny", t->deny.at[i], "never conditional unknown");
        if (k < 0) return -1;
        which |= 1 << k;
    }
    return which;
}

enum { NAMES_SHOWN = 5 };

static bool deny(struct tool *t, const char *why) {
    const char *text = arena_printf(&t->arena, "denied: %s", why);
    if (!tool_complain_json(t, DIAG_DENIED, t->args.n ? t->args.at[0] : t->options.from_list, text,
                            NULL)) {
        fputs("ddpc check: ", stderr);
        tool_put(stderr, text);
        fputc('\n', stderr);
    }
    return true;
}

static bool deny_class(struct tool *t, struct compilation *c, const struct advices *a,
                       enum grad_class class) {
    uint32_t n = a->all.count[class], shown = 0;
    if (!n) return false;
    const char *names = "";
    for (uint32_t i = 0; i < c->program.params.n && shown < NAMES_SHOWN; i++) {
        if (c->program.params.at[i].kind != PARAM_PARAMETER || a->class[i] != class) continue;
        names = arena_printf(&t->arena, "%s%s %s", names, shown++ ? "," : "",
                             check_param_name(t, c, i));
    }
    return deny(t, arena_printf(&t->arena, "%u parameter%s of class %s:%s%s", n, n == 1 ? "" : "s",
                                grad_class_name(class), names, n > shown ? ", ..." : ""));
}

static bool denied(struct tool *t, struct compilation *c, const struct advices *a, int which) {
    bool any = false;
    if (which & DENY_NEVER) any |= deny_class(t, c, a, GRAD_NEVER);
    if (which & DENY_CONDITIONAL) any |= deny_class(t, c, a, GRAD_CONDITIONAL);
    if (which & DENY_UNKNOWN && a->all.verdict == VERDICT_UNKNOWN)
        any |= deny(t, arena_printf(&t->arena, "the verdict is unknown: %s",
                                    c->program.incomplete_because));
    if (t->require_proof && c->program.evidence != EVIDENCE_PROVED)
        any |=
            deny(t, arena_printf(&t->arena, "the evidence is %s, not proved",
                                 c->program.observed ? c->program.observed
                                                     : check_evidence_name(c->program.evidence)));
    return any;
}

static int report(struct tool *t, struct compilation *c, int format, int which) {
    struct advices a;
    struct tool_output out;
    advices_give(&c->program, c->reach, &a);
    int exit_code = TOOL_USAGE;
    if (tool_output_open(t, &out, t->output)) {
        (format == 1 ? check_json : check_text)(t, c, &a, out.file);
        if (tool_output_close(&out, true))
            exit_code = denied(t, c, &a, which) ? TOOL_REJECTED : TOOL_OK;
    }
    advices_free(&a);
    return exit_code;
}

int tool_check(struct tool *t) {
    int format = tool_choice(t, "format", t->format, "text json");
    int which = read_deny(t);
    if (format < 0 || which < 0) return TOOL_USAGE;
    struct compilation c;
    int exit_code = tool_run_pipeline(t, &c, PIPELINE_reach);
    if (exit_code == TOOL_OK) exit_code = report(t, &c, format, which);
    pipeline_free(&c);
    return exit_code;
}
