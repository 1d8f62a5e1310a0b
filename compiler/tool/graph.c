/* `ddpc graph`: the model's graph with the classes of its parameters, for Graphviz or as a picture of
 * its own. The work is picture/graph.h's. */
#include "graph.h"
#include "tool.h"

int tool_graph(struct tool *t) {
    int format = tool_format(t), exit_code = TOOL_USAGE;
    if (format < 0) return TOOL_USAGE;
    if (t->options.from_list) return tool_usage_error(t, "a list has no graph");
    struct compilation c;
    exit_code = tool_run_pipeline(t, &c, PIPELINE_reach);
    struct tool_output out;
    if (exit_code == TOOL_OK && !tool_output_open(t, &out, t->output)) exit_code = TOOL_USAGE;
    if (exit_code == TOOL_OK) {
        struct advices advice;
        struct graph g;
        advices_give(&c.program, c.reach, &advice);
        graph_build(&g, &c.program, &c.branches, c.reach, &advice, (uint32_t)t->depth);
        (format ? graph_svg(&g, out.file) : graph_dot(&g, out.file));
        if (!tool_output_close(&out, true)) exit_code = TOOL_USAGE;
        graph_free(&g);
        advices_free(&advice);
    }
    pipeline_free(&c);
    return exit_code;
}
