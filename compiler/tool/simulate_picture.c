/* `ddpc simulate --format=svg|trace`: one step as a picture, or as events for chrome://tracing and
 * ui.perfetto.dev. Without jitter it is the step as predicted; with it the one whose time is the
 * median, so neither a lucky one nor an unlucky one. */
#include "simulation.h"
#include "timeline.h"
#include <string.h>

static const char *group_text(const struct plan *p, const struct plan_bucket *b, struct arena *a) {
    const char *class = b->class == PLAN_ALWAYS ? "" : " conditional";
    if (b->guard == PLAN_NONE) return arena_printf(a, "%s%s", plan_dtype_name(b->dtype), class);
    return arena_printf(a, "%s if %s", plan_dtype_name(b->dtype),
                        tool_utf8(a, plan_string(p, p->guard[b->guard].text)));
}

static void take(const struct simulations *all, const struct simulation *s, struct arena *a,
                 struct timeline *out) {
    const struct plan *p = s->plan;
    const struct plan_step *step = &p->step[s->step];
    const struct sim_work *w = &s->work;
    const char **name = arena_new(a, const char *, w->n + 1u),
               **group = arena_new(a, const char *, w->n_groups + 1u);
    double *at = arena_new(a, double, w->n_moments);
    struct topology *t = arena_new(a, struct topology, 1);
    sim_draw(w, &all->jitter, s->report.median_step, at, t);
    for (uint32_t i = 0; i < w->n; i++) name[i] = tool_utf8(a, plan_param_name(p, s->param[i]));
    for (uint32_t i = 0, b = 0; i < step->n_buckets; i++)
        if (p->bucket[step->first_bucket + i].kind == PLAN_GRADIENT)
            group[s->schedule->bucket[b++].group] =
                group_text(p, &p->bucket[step->first_bucket + i], a);
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < s->schedule->n_buckets; b++) bytes += s->schedule->bucket[b].bytes;
    const char *which =
        all->steps > 1 ? arena_printf(a, ", the median of %u steps", all->steps) : "";
    const char *verdict = simulate_verdict(s, a);
    *out = (struct timeline){
        .title =
            arena_printf(a, "step %s%s: %u gradient%s, %s in %u bucket%s. %s",
                         tool_utf8(a, plan_string(p, step->name)), which, w->n,
                         w->n == 1 ? "" : "s", timeline_bytes(a, bytes), s->schedule->n_buckets,
                         s->schedule->n_buckets == 1 ? "" : "s", verdict ? verdict : ""),
        .backward =
            at[w->n_moments - 1] != w->backward_us ? "backward of the last rank" : "backward",
        .work = w,
        .at_us = at,
        .topology = t,
        .schedule = s->schedule,
        .n = s->n,
        .name = name,
        .group = group,
    };
}

static struct timeline *take_all(const struct simulations *s, struct arena *a) {
    struct timeline *t = arena_new(a, struct timeline, s->n);
    for (uint32_t i = 0; i < s->n; i++) take(s, &s->at[i], a, &t[i]);
    return t;
}

void simulate_svg(const struct simulations *s, FILE *out) {
    struct arena a = {0};
    const char *slash = strrchr(s->file, '/');
    const char *title =
        arena_printf(&a, "%s on %s, %u rank%s", tool_utf8(&a, slash ? slash + 1 : s->file),
                     tool_utf8(&a, s->at[0].work.topology.name), s->jitter.ranks,
                     s->jitter.ranks == 1 ? "" : "s");
    timeline_svg(title, take_all(s, &a), s->n, out);
    arena_free(&a);
}

/* ---- trace ----------------------------------------------------------------------------------- */

enum { BACKWARD = 1, CHANNEL = 2 }; /* threads; a schedule more is a thread more */

static void describe(json_t *events, const char *what, int pid, int tid, const char *name) {
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name",
                                            what, "pid", pid, "tid", tid, "args", "name", name));
}

static void slice(json_t *events, int pid, int tid, const char *name, double from, double to,
                  json_t *args) {
    json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X",
                                            "name", name, "pid", pid, "tid", tid, "ts", from, "dur",
                                            to - from, "args", args));
}

/* An arrow from within a stretch of the backward pass to the collective that it made ready. */
static void arrow(json_t *events, int pid, int tid, int id, double from, double to) {
    json_array_append_new(events, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f}", "ph", "s",
                                            "name", "ready", "cat", "ready", "id", id, "pid", pid,
                                            "tid", BACKWARD, "ts", from));
    json_array_append_new(events, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:f}", "ph", "f",
                                            "bp", "e", "name", "ready", "cat", "ready", "id", id,
                                            "pid", pid, "tid", tid, "ts", to));
}

/* A stretch is called after the gradients that are ready at its end. */
static void trace_backward(json_t *events, int pid, const struct timeline *t, struct arena *a) {
    const struct sim_work *w = t->work;
    uint32_t i = 0;
    for (uint32_t m = 0; m < w->n_moments; m++) {
        json_t *gradients = json_array();
        uint32_t first = i;
        for (; i < w->n && w->gradient[i].moment == m; i++)
            json_array_append_new(gradients, json_string(t->name[i]));
        const char *name = i == first ? "rest of the backward"
                           : i - first == 1
                               ? t->name[first]
                               : arena_printf(a, "%s and %u more", t->name[first], i - first - 1);
        slice(events, pid, BACKWARD, name, m ? t->at_us[m - 1] : 0, t->at_us[m],
              json_pack("{s:o}", "gradients", gradients));
    }
}

static void trace_channel(json_t *events, int pid, const struct timeline *t, uint32_t k, int *id,
                          struct arena *a) {
    struct sim_schedule *s = &t->schedule[k];
    double *start = arena_new(a, double, t->work->n + 1u),
           *end = arena_new(a, double, t->work->n + 1u);
    double *slack = arena_new(a, double, t->work->n + 1u);
    sim_replay(t->work, s, t->at_us, t->topology, start, end);
    uint32_t chain = sim_slack(t->work, s, t->at_us, start, end, slack);
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        const struct sim_bucket *x = &s->bucket[b];
        double ready = t->at_us[x->moment], before = x->moment ? t->at_us[x->moment - 1] : 0;
        json_t *gradients = json_array();
        for (uint32_t i = x->first; i < x->first + x->n; i++)
            json_array_append_new(gradients, json_string(t->name[s->gradient[i]]));
        slice(events, pid, CHANNEL + (int)k,
              arena_printf(a, "bucket %u, %s", b + 1, timeline_bytes(a, x->bytes)), start[b],
              end[b],
              json_pack("{s:I, s:s, s:f, s:f, s:b, s:o}", "bytes", (json_int_t)x->bytes, "group",
                        t->group[x->group], "ready_us", ready, "slack_us", slack[b], "decides",
                        b >= chain, "gradients", gradients));
        arrow(events, pid, CHANNEL + (int)k, ++*id, (before + ready) / 2, start[b]);
    }
}

void simulate_trace(const struct simulations *s, FILE *out) {
    struct arena a = {0};
    struct timeline *t = take_all(s, &a);
    json_t *events = json_array();
    int id = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        int pid = (int)i + 1;
        describe(
            events, "process_name", pid, 0,
            arena_printf(&a, "step %s",
                         tool_utf8(&a, plan_string(s->at[i].plan, s->at[i].plan->step[i].name))));
        describe(events, "thread_name", pid, BACKWARD, t[i].backward);
        trace_backward(events, pid, &t[i], &a);
        for (uint32_t k = 0; k < t[i].n; k++) {
            describe(events, "thread_name", pid, CHANNEL + (int)k,
                     arena_printf(&a, "channel, %s", t[i].schedule[k].name));
            trace_channel(events, pid, &t[i], k, &id, &a);
        }
    }
    json_t *root = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events);
    json_dumpf(root, out, JSON_COMPACT | JSON_REAL_PRECISION(12));
    fputc('\n', out);
    json_decref(root);
    arena_free(&a);
}
