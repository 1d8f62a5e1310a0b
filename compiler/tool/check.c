/* `ddpc check`: which parameters get no gradient, why, and what to set in DistributedDataParallel.
 *
 * It runs the pipeline up to reach, asks for advice, and reports in text or JSON. What fails is
 * gate.c's to say. The report goes out either way, so that the log of a failed job has it; what was
 * denied is said on standard error, and in JSON also there. */
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

static void print_denied(struct tool *t, const struct gate *g) {
    const char *model = t->args.n ? t->args.at[0] : t->options.from_list;
    for (uint32_t i = 0; i < g->denied.n; i++) {
        const char *text = arena_printf(&t->arena, "denied: %s", g->denied.at[i]);
        const char *help = g->help.at[i];
        if (tool_complain_coded(t, DIAG_DENIED, model, text, help)) continue;
        fputs("ddpc check: ", stderr);
        tool_put(stderr, text);
        if (help) fprintf(stderr, "\nhelp: %s", help);
        fputc('\n', stderr);
    }
}

static int report(struct tool *t, struct compilation *c, int format, struct gate *g) {
    struct advices a;
    struct tool_output out;
    int exit_code = TOOL_USAGE;
    advices_give(&c->program, c->reach, &a);
    const struct check_stock *stock = check_stock(t, c, &a);
    if (stock && gate_judge(g, t, c, &a) && tool_output_open(t, &out, t->output)) {
        struct check_report r = {t, c, &a, stock, g, out.file};
        void (*const forms[])(const struct check_report *) = {check_text, check_json, check_sarif};
        forms[format](&r);
        if (tool_output_close(&out, true)) {
            print_denied(t, g);
            exit_code = g->denied.n ? TOOL_REJECTED : TOOL_OK;
        }
    }
    advices_free(&a);
    return exit_code;
}

int tool_check(struct tool *t) {
    int format = tool_format(t), exit_code = TOOL_USAGE;
    if (format < 0) return TOOL_USAGE;
    struct gate g;
    if (gate_open(&g, t)) {
        struct compilation c;
        exit_code = tool_run_pipeline(t, &c, PIPELINE_reach);
        if (exit_code == TOOL_OK) exit_code = report(t, &c, format, &g);
        pipeline_free(&c);
    }
    gate_free(&g);
    return exit_code;
}
