/* `ddpc check`: which parameters get no gradient, why, and what to set in DistributedDataParallel.
 *
 * It runs the pipeline up to reach, asks for advice, and reports in text or JSON. What makes it a
 * gate for CI is --deny, which names what must not be, and --require-proof, which refuses a verdict
 * that rests on observation or on an incomplete model. The report goes out either way, so that the
 * log of a failed job has it; what was denied is said on standard error, and in JSON also there. */
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

static void deny_class(struct tool *t, struct compilation *c, const struct advices *a,
                       enum grad_class class, string_list *denied) {
    uint32_t n = a->all.count[class], shown = 0;
    if (!n) return;
    const char *names = "";
    for (uint32_t i = 0; i < c->program.params.n && shown < NAMES_SHOWN; i++) {
        if (c->program.params.at[i].kind != PARAM_PARAMETER || a->class[i] != class) continue;
        names = arena_printf(&t->arena, "%s%s %s", names, shown++ ? "," : "",
                             check_param_name(t, c, i));
    }
    vec_push(denied,
             arena_printf(&t->arena, "%u parameter%s of class %s:%s%s", n, n == 1 ? "" : "s",
                          grad_class_name(class), names, n > shown ? ", ..." : ""));
}

static void find_denied(struct tool *t, struct compilation *c, const struct advices *a, int which,
                        string_list *denied) {
    if (which & DENY_NEVER) deny_class(t, c, a, GRAD_NEVER, denied);
    if (which & DENY_CONDITIONAL) deny_class(t, c, a, GRAD_CONDITIONAL, denied);
    if (which & DENY_UNKNOWN && a->all.verdict == VERDICT_UNKNOWN)
        vec_push(denied, arena_printf(&t->arena, "the verdict is unknown: %s",
                                      c->program.incomplete_because));
    if (t->require_proof && c->program.evidence != EVIDENCE_PROVED)
        vec_push(denied,
                 arena_printf(&t->arena, "the evidence is %s, not proved",
                              c->program.observed ? c->program.observed
                                                  : check_evidence_name(c->program.evidence)));
}

static void print_denied(struct tool *t, const string_list *denied) {
    const char *model = t->args.n ? t->args.at[0] : t->options.from_list;
    for (uint32_t i = 0; i < denied->n; i++) {
        const char *text = arena_printf(&t->arena, "denied: %s", denied->at[i]);
        if (tool_complain_json(t, DIAG_DENIED, model, text, NULL)) continue;
        fputs("ddpc check: ", stderr);
        tool_put(stderr, text);
        fputc('\n', stderr);
    }
}

static int report(struct tool *t, struct compilation *c, int format, int which) {
    struct advices a;
    struct tool_output out;
    string_list denied = {0};
    advices_give(&c->program, c->reach, &a);
    find_denied(t, c, &a, which, &denied);
    int exit_code = TOOL_USAGE;
    if (tool_output_open(t, &out, t->output)) {
        if (format == 1)
            check_json(t, c, &a, &denied, out.file);
        else
            check_text(t, c, &a, out.file);
        if (tool_output_close(&out, true)) {
            print_denied(t, &denied);
            exit_code = denied.n ? TOOL_REJECTED : TOOL_OK;
        }
    }
    vec_free(&denied);
    advices_free(&a);
    return exit_code;
}

int tool_check(struct tool *t) {
    int format = tool_format(t);
    int which = read_deny(t);
    if (format < 0 || which < 0) return TOOL_USAGE;
    struct compilation c;
    int exit_code = tool_run_pipeline(t, &c, PIPELINE_reach);
    if (exit_code == TOOL_OK) exit_code = report(t, &c, format, which);
    pipeline_free(&c);
    return exit_code;
}
