/* `ddpc explain MODEL PARAMETER`: the way from a parameter to the loss, or every place where such a
 * way is cut, for each step. The parameter is named as `check` names it, or by any of its aliases;
 * a pattern stands for all whose name it matches. */
#include "glob.h"
#include "tool.h"

#include <string.h>

static bool is_called(const struct program *p, const struct param *param, const char *name) {
    if (!strcmp(ir_text(p->m, param->name), name)) return true;
    for (uint32_t i = 0; i < param->aliases.n; i++)
        if (!strcmp(ir_text(p->m, param->aliases.at[i]), name)) return true;
    for (uint32_t i = 0; i <= param->tied.n; i++) {
        ir_value v = i ? param->tied.at[i - 1] : param->value;
        if (v && !strcmp(ir_value_name(p->m, v), name)) return true;
    }
    return false;
}

static int no_such_parameter(struct tool *t, const struct program *p, const char *name) {
    const char **names = arena_new(&t->arena, const char *, p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++) names[i] = ir_text(p->m, p->params.at[i].name);
    const char *near = diag_nearest(name, names, p->params.n);
    bool dropped = !near && !p->complete && !t->options.params;
    return tool_usage_error(t, "the model has no parameter '%s'%s%s%s%s", name,
                            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                            dropped ? "; if its exporter dropped it, --params FILE says so" : "");
}

static void explain(struct compilation *c, uint32_t param) {
    tool_put(stdout, ir_text(&c->module, c->program.params.at[param].name));
    putchar('\n');
    for (uint32_t s = 0; s < c->program.steps.n; s++)
        reach_explain(&c->program, s, &c->branches, &c->reach[s], param, stdout);
}

/* How many were explained: the one that has the name, or else those that match it. */
static uint32_t explain_all(struct compilation *c, const char *name) {
    const struct program *p = &c->program;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->params.n; i++)
        if (is_called(p, &p->params.at[i], name)) {
            explain(c, i);
            return 1;
        }
    for (uint32_t i = 0; i < p->params.n; i++) {
        if (!glob_match(name, ir_text(p->m, p->params.at[i].name))) continue;
        if (n++) putchar('\n');
        explain(c, i);
    }
    return n;
}

int tool_explain(struct tool *t) {
    struct compilation c;
    int result = tool_run_pipeline(t, &c, PIPELINE_reach);
    const char *name = t->args.at[t->args.n - 1];
    if (result == TOOL_OK && !explain_all(&c, name))
        result = no_such_parameter(t, &c.program, name);
    pipeline_free(&c);
    return result;
}
