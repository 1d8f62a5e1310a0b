/* `ddpc diff OLD NEW`: what changed between two plans, for a reviewer and for CI.
 *
 * The questions it answers, in this order: would ranks that run OLD and ranks that run NEW deadlock
 * or corrupt each other (wire)? Did the set of trainable parameters change, or what is known about
 * it (state)? Everything else is info. Exit 0: nothing at or above --fail-on; 1: something; 2: a
 * plan could not be read. */
#include "diff_print.h"
#include "plan_tool.h"
#include <string.h>

/* The thresholds, strictest first. Those between state and any belong to classes that no rule has
 * yet in this order: they fail on what is above them. */
#define FAIL_ON "wire state review numeric perf any none"
enum { FAIL_WIRE, FAIL_STATE, FAIL_REVIEW, FAIL_NUMERIC, FAIL_PERF, FAIL_ANY, FAIL_NONE };

static bool fails(const struct diff *d, int threshold) {
    static const int level[DIFF_N_CLASSES] = {
        [DIFF_WIRE] = FAIL_WIRE, [DIFF_STATE] = FAIL_STATE, [DIFF_INFO] = FAIL_ANY};
    if (threshold == FAIL_NONE) return false;
    for (uint32_t i = 0; i < d->changes.n; i++)
        if (level[diff_rule_class(d->changes.at[i].rule)] <= threshold) return true;
    return false;
}

int tool_diff(struct tool *t) {
    int format = tool_choice(t, "format", t->format, "text json");
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
