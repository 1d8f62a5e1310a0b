/* `ddpc MODEL -o PLAN`: the whole pipeline, then the plan, or what it says as JSON or as a C
 * header. */
#include "plan_tool.h"
#include "tool.h"
#include <string.h>
#include <unistd.h>

enum { EMIT_PLAN, EMIT_JSON, EMIT_HEADER };

static bool write_plan(const struct tool *t, const struct plan *p, int emit) {
    struct tool_output o;
    FILE *out = tool_output_open(t, &o, t->output);
    if (!out) return false;
    switch (emit) {
    case EMIT_PLAN: fwrite(p->bytes, 1, p->size, out); break;
    case EMIT_JSON: dump_json(p, out); break;
    case EMIT_HEADER: dump_header(p, out); break;
    }
    return tool_output_close(&o, true);
}

/* To someone who watches: what the schedule of each step promises. */
static void report(const struct tool *t, const struct plan *p) {
    if (!t->output || !strcmp(t->output, "-") || t->diagnostics != DIAGNOSTICS_TEXT ||
        !isatty(STDERR_FILENO))
        return;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct plan_step *s = &p->step[i];
        double best = p->certificate[i].optimal ? p->certificate[i].optimum_us : s->lower_bound_us;
        uint32_t buckets = 0;
        for (uint32_t b = 0; b < s->n_buckets; b++)
            buckets += p->bucket[s->first_bucket + b].kind == PLAN_GRADIENT;
        fputs("step ", stderr);
        tool_put(stderr, plan_string(p, s->name));
        fprintf(stderr, ": %u bucket%s, finish %.1f µs, exposed %.1f µs", buckets,
                buckets == 1 ? "" : "s", s->finish_us, s->exposed_us);
        if (best > 0)
            fprintf(stderr, ", within %.3f %% of the %s", 100 * (s->finish_us / best - 1),
                    p->certificate[i].optimal ? "optimum" : "lower bound");
        if (s->worst_regret >= 0) fprintf(stderr, ", worst regret %.3f %%", 100 * s->worst_regret);
        fputc('\n', stderr);
    }
}

int tool_compile(struct tool *t) {
    int emit = tool_choice(t, "emit", t->emit, "plan json header");
    if (emit < 0) return TOOL_USAGE;
    if (!t->output && emit == EMIT_PLAN)
        return tool_usage_error(t, "the plan needs a file: -o PLAN, or -o - for standard output");

    struct compilation c;
    int exit_code = tool_run_pipeline(t, &c, PIPELINE_emit);
    if (exit_code == TOOL_OK && !write_plan(t, c.plan, emit)) exit_code = TOOL_USAGE;
    if (exit_code == TOOL_OK) report(t, c.plan);
    pipeline_free(&c);
    return exit_code;
}
