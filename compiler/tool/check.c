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

const char *check_unknown_because(const struct program *p, const struct advice *a) {
    if (!a->nothing_trains) return p->incomplete_because;
    return a->count[GRAD_FROZEN] == a->parameters
               ? "nothing trains: every parameter is frozen"
               : "nothing trains: no parameter reaches the loss; is the loss right?";
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

/* Sentences, and for each the way out or NULL. */
struct denials {
    string_list text, help;
};

static void deny(struct denials *d, const char *text, const char *help) {
    vec_push(&d->text, text);
    vec_push(&d->help, help);
}

static void deny_class(struct tool *t, struct compilation *c, const struct advices *a,
                       enum grad_class class, struct denials *d) {
    uint32_t n = a->all.count[class], shown = 0;
    if (!n) return;
    const char *names = "";
    for (uint32_t i = 0; i < c->program.params.n && shown < NAMES_SHOWN; i++) {
        if (c->program.params.at[i].kind != PARAM_PARAMETER || a->class[i] != class) continue;
        names = arena_printf(&t->arena, "%s%s %s", names, shown++ ? "," : "",
                             check_param_name(t, c, i));
    }
    const char *help = "freeze them in the module (see PASTE) and name them with --frozen, or in a "
                       "--params file whose requires_grad is False";
    if (t->options.params)
        help = "freeze them in the module (see PASTE) and write the --params file again, so that "
               "it says requires_grad False; or name them with --frozen";
    deny(d,
         arena_printf(&t->arena, "%u parameter%s of class %s:%s%s", n, n == 1 ? "" : "s",
                      grad_class_name(class), names, n > shown ? ", ..." : ""),
         class == GRAD_NEVER && !a->all.nothing_trains ? help : NULL);
}

static void find_denied(struct tool *t, struct compilation *c, const struct advices *a, int which,
                        struct denials *d) {
    const struct program *p = &c->program;
    const char *unknown = check_unknown_because(p, &a->all);
    if (which & DENY_NEVER) deny_class(t, c, a, GRAD_NEVER, d);
    if (which & DENY_CONDITIONAL) deny_class(t, c, a, GRAD_CONDITIONAL, d);
    if (which & (DENY_NEVER | DENY_UNKNOWN) && a->all.nothing_trains)
        deny(d, unknown, NULL);
    else if (which & DENY_UNKNOWN && a->all.verdict == VERDICT_UNKNOWN)
        deny(d, arena_printf(&t->arena, "the verdict is unknown: %s", unknown), NULL);
    if (t->require_proof && (p->evidence != EVIDENCE_PROVED || p->n_assumed))
        deny(d, arena_printf(&t->arena, "the evidence is no proof: %s", p->basis),
             p->traced ? "compare with `p.grad is None` after one backward; if the trace hides "
                         "nothing, the metadata \"ddpc.evidence\": \"proved\" says so"
                       : NULL);
}

static void print_denied(struct tool *t, const struct denials *d) {
    const char *model = t->args.n ? t->args.at[0] : t->options.from_list;
    for (uint32_t i = 0; i < d->text.n; i++) {
        const char *text = arena_printf(&t->arena, "denied: %s", d->text.at[i]);
        const char *help = d->help.at[i];
        if (tool_complain_json(t, DIAG_DENIED, model, text, help)) continue;
        fputs("ddpc check: ", stderr);
        tool_put(stderr, text);
        if (help) fprintf(stderr, "\nhelp: %s", help);
        fputc('\n', stderr);
    }
}

static int report(struct tool *t, struct compilation *c, int format, int which) {
    struct advices a;
    struct tool_output out;
    struct denials denied = {0};
    advices_give(&c->program, c->reach, &a);
    find_denied(t, c, &a, which, &denied);
    int exit_code = TOOL_USAGE;
    if (tool_output_open(t, &out, t->output)) {
        if (format == 1)
            check_json(t, c, &a, &denied.text, out.file);
        else
            check_text(t, c, &a, out.file);
        if (tool_output_close(&out, true)) {
            print_denied(t, &denied);
            exit_code = denied.text.n ? TOOL_REJECTED : TOOL_OK;
        }
    }
    vec_free(&denied.text);
    vec_free(&denied.help);
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
