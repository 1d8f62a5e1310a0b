/* `ddpc diff OLD NEW`: what changed between two plans, for a reviewer and for CI.
 *
 * The questions it answers, in this order: would ranks that run OLD and ranks that run NEW deadlock
 * or corrupt each other (wire)? Did the set of trainable parameters change, or what is known about
 * it (state)? Everything else is info. Exit 0: nothing at or above --fail-on; 1: something; 2: a
 * plan could not be read. */
#include "diff_print.h"
#include "plan_tool.h"
#include <string.h>

/* The classes, strictest first, then "any" (info too) and "none". */
#define FAIL_ON "wire state review numeric perf any none"

static bool fails(const struct diff *d, int threshold) {
    if (threshold > DIFF_INFO) return false;
    for (uint32_t i = 0; i < d->changes.n; i++)
        if (diff_rule_class(d->changes.at[i].rule) <= (enum diff_class)threshold) return true;
    return false;
}

int tool_diff(struct tool *t) {
    int format = tool_format(t);
    int threshold = tool_choice(t, "fail-on", t->fail_on ? t->fail_on : "review", FAIL_ON);
    int exit_code = TOOL_USAGE;
    struct tool_output output;
    struct plan *old = NULL, *new = NULL;
    if (format < 0 || threshold < 0) return TOOL_USAGE;
    if (!strcmp(t->args.at[0], "-") && !strcmp(t->args.at[1], "-"))
        return tool_usage_error(t, "OLD and NEW cannot both be standard input");
    old = tool_open_plan(t, t->args.at[0]);
    new = tool_open_plan(t, t->args.at[1]);
    if (!old || !new) goto cleanup;
    struct diff d = {.old = old, .new = new, .arena = &t->arena};
    diff_plans(&d);
    FILE *out = tool_output_open(t, &output, t->output);
    if (out) {
        if (format == 0)
            diff_print_text(&d, out);
        else
            diff_print_json(&d, out);
        if (tool_output_close(&output, true))
            exit_code = fails(&d, threshold) ? TOOL_REJECTED : TOOL_OK;
    }
    diff_free(&d);
cleanup:
    plan_close(old);
    plan_close(new);
    return exit_code;
}
