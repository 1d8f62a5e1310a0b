/* `ddpc MODEL -o PLAN`: the whole pipeline, then the plan, or what it says as JSON or as a C
 * header. */
#include "plan_tool.h"
#include "tool.h"

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

int tool_compile(struct tool *t) {
    int emit = tool_choice(t, "emit", t->emit, "plan json header");
    if (emit < 0) return TOOL_USAGE;
    if (!t->output && emit == EMIT_PLAN)
        return tool_usage_error(t, "the plan needs a file: -o PLAN, or -o - for standard output");

    struct compilation c;
    int exit_code = tool_run_pipeline(t, &c, PIPELINE_emit);
    if (exit_code == TOOL_OK && !write_plan(t, c.plan, emit)) exit_code = TOOL_USAGE;
    pipeline_free(&c);
    return exit_code;
}
