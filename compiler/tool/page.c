/* `ddpc report`: all that is known of a model, as one page that needs nothing else.
 *
 * How the page looks stands in picture/report.html, .css and .js, which the build puts into the
 * program; this file says what stands in its places (template.h). Verdict and what to paste are
 * check's, the schedule is the plan's, the pictures those of `simulate` and `graph`. */
#define _POSIX_C_SOURCE 200809L
#include "page.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *utf8(struct page *g, const char *text) { return tool_utf8(&g->t->arena, text); }

static const char *number(struct page *g, uint64_t n) {
    return arena_printf(&g->t->arena, "%llu", (unsigned long long)n);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static int order_of(enum grad_class c) {
    static const int order[] = {
        [GRAD_NEVER] = 0, [GRAD_CONDITIONAL] = 1, [GRAD_FROZEN] = 2, [GRAD_ALWAYS] = 3};
    return order[c];
}

/* What needs attention first, otherwise in the order of declaration. */
static void list_rows(struct page *g) {
    const struct program *p = &g->c->program;
    for (int order = 0; order < 4; order++)
        for (uint32_t i = 0; i < p->params.n; i++)
            for (uint32_t s = 0; p->params.at[i].kind == PARAM_PARAMETER && s < p->steps.n; s++)
                if (order_of(g->c->reach[s].gradient[i].class) == order)
                    vec_push(&g->rows, ((struct page_row){i, s}));
}

static const char *place_of(struct page *g, const struct gradient *x) {
    struct compilation *c = g->c;
    struct ir_source source;
    if (ir_node_source(&c->module, x->source, &source)) return utf8(g, source.text);
    ir_loc loc = x->guard_loc != IR_NO_LOC ? x->guard_loc : x->loc;
    if (loc == IR_NO_LOC || !c->source.name) return "";
    if (c->source.binary) return utf8(g, source_path(&c->source, loc, &g->t->arena));
    uint32_t line, column;
    source_position(&c->source, loc, &line, &column);
    return arena_printf(&g->t->arena, "%s:%u", g->model, line);
}

static const char *row_text(struct page *g, const char *name) {
    const struct page_row *row = &g->rows.at[g->row];
    const struct param *p = &g->c->program.params.at[row->param];
    const struct gradient *x = &g->c->reach[row->step].gradient[row->param];
    if (!strcmp(name, "name")) return utf8(g, ir_text(&g->c->module, p->name));
    if (!strcmp(name, "class")) return grad_class_name(x->class);
    if (!strcmp(name, "elements")) return number(g, (uint64_t)(p->elements < 0 ? 0 : p->elements));
    if (!strcmp(name, "why")) return utf8(g, x->reason);
    if (!strcmp(name, "where")) return place_of(g, x);
    if (!strcmp(name, "type")) return utf8(g, ir_type_text(&g->c->module, &g->t->arena, p->type));
    return NULL;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static const struct plan_bucket *bucket_at(const struct page *g) {
    return &g->c->plan->bucket[g->c->plan->step[g->step].first_bucket + g->bucket];
}

static const char *bound_text(struct page *g) {
    const struct plan_step *s = &g->c->plan->step[g->step];
    const struct sched *d = &g->c->sched[g->step];
    struct arena *a = &g->t->arena;
    const char *least = timeline_time(a, s->lower_bound_us);
    if (!d->optimal || d->optimum_us <= 0)
        return arena_printf(a, "no schedule ends before %s: %.2f %% away", least,
                            s->finish_us > 0 ? 100 * (1 - s->lower_bound_us / s->finish_us) : 0.);
    return arena_printf(
        a, "the proved optimum is %s: %.2f %% away; no schedule at all ends before %s",
        timeline_time(a, d->optimum_us), 100 * (s->finish_us / d->optimum_us - 1), least);
}

static const char *schedule_text(struct page *g, const char *name) {
    const struct plan *p = g->c->plan;
    const struct plan_step *s = &p->step[g->step];
    struct arena *a = &g->t->arena;
    uint64_t bytes = 0;
    uint32_t buckets = 0;
    for (uint32_t i = s->first_bucket; i < s->first_bucket + s->n_buckets; i++)
        if (p->bucket[i].kind == PLAN_GRADIENT) bytes += p->bucket[i].gradient_bytes, buckets++;
    if (!strcmp(name, "policy")) return plan_policy_name(s->policy);
    if (!strcmp(name, "machine"))
        return arena_printf(a, "%s (%u ranks), %s", utf8(g, g->c->topology.name),
                            g->c->topology.ranks,
                            *g->c->device.name ? utf8(g, g->c->device.name) : "times of the list");
    if (!strcmp(name, "gradients"))
        return arena_printf(a, "%u, %s", s->n_segments, timeline_bytes(a, bytes));
    if (!strcmp(name, "backward")) return timeline_time(a, s->backward_us);
    if (!strcmp(name, "finish")) return timeline_time(a, s->finish_us);
    if (!strcmp(name, "exposed"))
        return arena_printf(a, "%s after the backward pass", timeline_time(a, s->exposed_us));
    if (!strcmp(name, "bound")) return bound_text(g);
    if (!strcmp(name, "regret"))
        return s->worst_regret < 0
                   ? "not computed for this schedule"
                   : arena_printf(a, "%.2f %%, where predictions are off", 100 * s->worst_regret);
    if (!strcmp(name, "against")) return simulate_verdict(&g->simulations.at[g->step], a);
    if (!strcmp(name, "buckets"))
        return arena_printf(a, "%u bucket%s", buckets, buckets == 1 ? "" : "s");
    return NULL;
}

static const char *bucket_text(struct page *g, const char *name) {
    const struct plan *p = g->c->plan;
    const struct plan_bucket *b = bucket_at(g);
    const struct plan_segment *first = &p->segment[b->first_segment];
    struct arena *a = &g->t->arena;
    if (!strcmp(name, "index")) return number(g, g->bucket);
    if (!strcmp(name, "bytes")) return timeline_bytes(a, b->gradient_bytes);
    if (!strcmp(name, "members")) return number(g, b->n_segments);
    if (!strcmp(name, "first")) return utf8(g, plan_param_name(p, first->param));
    if (!strcmp(name, "last"))
        return b->n_segments < 2 ? "" : utf8(g, plan_param_name(p, first[b->n_segments - 1].param));
    if (!strcmp(name, "ready")) return timeline_time(a, b->ready_us);
    if (!strcmp(name, "start")) return timeline_time(a, b->start_us);
    if (!strcmp(name, "end")) return timeline_time(a, b->end_us);
    if (!strcmp(name, "group"))
        return b->guard != PLAN_NONE
                   ? arena_printf(a, "%s if %s", plan_dtype_name(b->dtype),
                                  utf8(g, plan_string(p, p->guard[b->guard].text)))
                   : arena_printf(a, "%s %s", plan_dtype_name(b->dtype), plan_class_name(b->class));
    return NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static const char *step_text(struct page *g, const char *name) {
    const struct program *p = &g->c->program;
    const struct step *s = &p->steps.at[g->step];
    const struct advice *v = &g->advices.step[g->step];
    struct arena *a = &g->t->arena;
    if (!strcmp(name, "step")) return utf8(g, ir_text(p->m, s->name));
    if (!strcmp(name, "because"))
        return s->loss_because ? s->loss_because
               : s->loss_named ? "named by a flag"
                               : "it is called so";
    if (!strcmp(name, "step_verdict")) return page_verdict(g, v);
    if (!strcmp(name, "always")) return number(g, v->count[GRAD_ALWAYS]);
    if (!strcmp(name, "conditional")) return number(g, v->count[GRAD_CONDITIONAL]);
    if (!strcmp(name, "never")) return number(g, v->count[GRAD_NEVER]);
    if (!strcmp(name, "frozen")) return number(g, v->count[GRAD_FROZEN]);
    if (!strcmp(name, "all")) return number(g, v->parameters);
    if (!strcmp(name, "loss")) {
        const char *text = "";
        for (uint32_t i = 0; i < s->losses.n; i++)
            text = arena_printf(a, "%s%s%s", text, i ? " + " : "",
                                utf8(g, ir_value_name(p->m, s->losses.at[i])));
        return text;
    }
    return NULL;
}

/* ---- the template's questions ---------------------------------------------------------------- */

static const char *text(void *context, const char *name) {
    struct page *g = context;
    if (!strcmp(name, "model")) return g->model;
    if (!strcmp(name, "version")) return DDPC_VERSION;
    if (!strcmp(name, "verdict_class")) return verdict_name(g->advices.all.verdict);
    if (!strcmp(name, "verdict")) return page_verdict(g, &g->advices.all);
    if (!strcmp(name, "counts")) return page_counts(g);
    if (!strcmp(name, "advice")) return g->advice.at[g->item];
    if (!strcmp(name, "basis")) return g->basis.at[g->item];
    const char *found = g->in == PAGE_BUCKET ? bucket_text(g, name)
                        : g->in == PAGE_ROW  ? row_text(g, name)
                                             : NULL;
    if (g->in == PAGE_ROW) g->step = g->rows.at[g->row].step;
    if (!found) found = step_text(g, name);
    if (!found) found = schedule_text(g, name);
    assert(found && "the template has a name that nothing stands for");
    return found;
}

static void raw(void *context, const char *name, FILE *out) {
    struct page *g = context;
    if (!strcmp(name, "css")) fwrite(report_css, 1, report_css_size, out);
    if (!strcmp(name, "js")) fwrite(report_js, 1, report_js_size, out);
    if (!strcmp(name, "paste")) page_paste(g, out);
    if (!strcmp(name, "timeline")) simulate_svg(&g->simulations, out);
    if (!strcmp(name, "graph")) graph_svg(&g->graph, out);
}

/* The next gradient bucket from g->bucket on. */
static bool next_bucket(struct page *g, uint32_t i) {
    g->in = PAGE_BUCKET;
    if (i == 0)
        g->bucket = 0;
    else
        g->bucket++;
    for (; g->bucket < g->c->plan->step[g->step].n_buckets; g->bucket++)
        if (bucket_at(g)->kind == PLAN_GRADIENT) return true;
    g->in = PAGE_STEP;
    return false;
}

static bool part(void *context, const char *name, uint32_t i) {
    struct page *g = context;
    const struct program *p = &g->c->program;
    if (!strcmp(name, "graph")) return i == 0 && g->has_graph;
    if (!strcmp(name, "losses")) return i == 0 && p->steps.at[0].losses.n;
    if (!strcmp(name, "several")) return i == 0 && p->steps.n > 1;
    if (!strcmp(name, "few")) return i == 0 && g->c->plan->step[g->step].n_buckets <= 24;
    if (!strcmp(name, "against"))
        return i == 0 && simulate_verdict(&g->simulations.at[g->step], &g->t->arena);
    if (!strcmp(name, "bucket")) return next_bucket(g, i);
    g->in = PAGE_STEP;
    g->step = g->item = g->row = i;
    if (!strcmp(name, "step") || !strcmp(name, "planned")) return i < p->steps.n;
    if (!strcmp(name, "advice")) return i < g->advice.n;
    if (!strcmp(name, "basis")) return i < g->basis.n;
    if (!strcmp(name, "parameter")) {
        g->in = PAGE_ROW;
        return i < g->rows.n;
    }
    assert(!"the template has a part that nothing stands for");
    return false;
}

static int write_page(struct tool *t, struct compilation *c) {
    struct page g = {.t = t, .c = c};
    struct tool_output out;
    const char *path = t->options.from_list ? t->options.from_list : c->source.name;
    const char *slash = strrchr(path, '/');
    g.model = utf8(&g, slash ? slash + 1 : path);
    advices_give(&c->program, c->reach, &g.advices);
    g.check = (struct check_report){
        .t = t, .c = c, .a = &g.advices, .stock = check_stock(t, c, &g.advices)};
    int exit_code = TOOL_USAGE;
    if (g.check.stock && tool_output_open(t, &out, t->output)) {
        simulate_predicted(&g.simulations, c->plan, path, &t->arena);
        g.has_graph = c->module.main != 0;
        if (g.has_graph)
            graph_build(&g.graph, &c->program, &c->branches, c->reach, &g.advices,
                        (uint32_t)t->depth);
        list_rows(&g);
        page_list_advice(&g);
        page_list_basis(&g);
        struct template_data d = {&g, text, raw, part};
        template_write(report_html, report_html_size, &d, out.file);
        if (tool_output_close(&out, true)) exit_code = TOOL_OK;
        if (g.has_graph) graph_free(&g.graph);
    }
    vec_free(&g.rows);
    vec_free(&g.advice);
    vec_free(&g.basis);
    advices_free(&g.advices);
    return exit_code;
}

int tool_report(struct tool *t) {
    struct compilation c;
    int exit_code = tool_run_pipeline(t, &c, PIPELINE_emit);
    if (exit_code == TOOL_OK) exit_code = write_page(t, &c);
    pipeline_free(&c);
    return exit_code;
}
