/* The pipeline itself. Each pass is a function from what stands in the compilation to one more part
 * of it; pipeline_run walks the table, measures, and stops at the first pass that reports an error,
 * since every pass may rely on what the earlier ones promise. In debug builds the verifier runs
 * again after each pass that rewrites the module: what it then finds is a bug of ours, hence an
 * assertion. */
#define _POSIX_C_SOURCE 200809L
#include "pipeline.h"
#include "emit.h"
#include "from_list.h"
#include "glob.h"
#include <assert.h>
#include <string.h>
#include <time.h>

static bool run_read(struct compilation *c) {
    const char *why;
    if (!source_open(&c->source, c->path, &why)) {
        struct diag *d =
            diag_plain(&c->diags, DIAG_CANNOT_READ, c->path, "cannot read the model: %s", why);
        const char *python = strstr(c->path, ".py");
        diag_set_help(
            &c->diags, d, "%s",
            python && (!python[3] || python[3] == ':')
                ? "a module is recorded and checked with python -m ddpc.check FILE.py:FUNCTION"
                : "name a .onnx file or ONNX text (.onnxtxt, .ir), or - for standard "
                  "input");
        return false;
    }
    return ir_parse(&c->module, &c->source, &c->diags);
}

static bool run_verify(struct compilation *c) {
    for (uint32_t i = 0; i < c->options->assume_differentiable.n; i++)
        op_table_assume(&c->ops, c->options->assume_differentiable.at[i]);
    if (c->options->ops && !op_table_read(&c->ops, c->options->ops, &c->diags)) return false;
    bool sound = ir_verify(&c->module, &c->ops, &c->diags);
    for (uint32_t i = 0; i < c->options->assume_differentiable.n; i++) {
        const char *glob = c->options->assume_differentiable.at[i];
        if (op_table_assumed(&c->ops, glob)) continue;
        struct diag *d =
            diag_plain(&c->diags, DIAG_MATCHES_NOTHING, "--assume-differentiable",
                       "'%s' matches no operator of the model that is not known", glob);
        diag_set_help(&c->diags, d, "it is compared with DOMAIN.OPERATOR, as in my.domain.Fancy");
    }
    return sound;
}

static void check_rewrite(struct compilation *c) {
#ifndef NDEBUG
    struct diags found;
    diags_init(&found, &c->source);
    bool sound = ir_verify(&c->module, &c->ops, &found);
    if (!sound) diags_print(&found, stderr, false, false);
    assert(sound && "a pass broke the module");
    diags_free(&found);
#else
    (void)c;
#endif
}

static bool run_inline(struct compilation *c) {
    if (!inline_functions(&c->module, &c->ops, &c->diags)) return false;
    check_rewrite(c);
    return true;
}

static bool run_types(struct compilation *c) {
    return infer_types(&c->module, &c->ops, c->options, &c->diags);
}

static bool run_program(struct compilation *c) {
    if (!program_build(&c->program, &c->module, &c->ops, c->options, &c->diags)) return false;
    uint32_t n = c->program.steps.n;
    c->reach = arena_new(&c->program.arena, struct reach, n);
    c->ready = arena_new(&c->program.arena, struct ready_times, n);
    c->sched = arena_new(&c->program.arena, struct sched, n);
    return true;
}

/* Which branches there are is known only now. */
static void check_uniform(struct compilation *c) {
    for (uint32_t i = 0; i < c->program.uniform.n; i++) {
        const char *glob = c->program.uniform.at[i];
        VEC(const char *) names = {0};
        bool found = false;
        for (uint32_t k = 0; k < c->branches.all.n && !found; k++) {
            vec_push(&names, c->branches.all.at[k].name);
            found = glob_match(glob, names.at[k]);
        }
        if (!found) {
            struct diag *d = diag_plain(&c->diags, DIAG_MATCHES_NOTHING, "--uniform",
                                        "'%s' matches no branch on which a gradient depends", glob);
            const char *near = diag_nearest(glob, names.at, names.n);
            if (names_help_repeat(&c->diags, d, "--uniform", glob)) {
            } else if (near || names.n)
                diag_set_help(&c->diags, d, "did you mean '%s'?", near ? near : names.at[0]);
        }
        vec_free(&names);
    }
}

static bool run_reach(struct compilation *c) {
    for (uint32_t s = 0; s < c->program.steps.n; s++)
        reach_step(&c->program, s, &c->branches, &c->diags, &c->reach[s]);
    check_uniform(c);
    return true;
}

static bool run_order(struct compilation *c) {
    if (!device_read(&c->device, c->options->device ? c->options->device : "h100", &c->diags))
        return false;
    if (c->options->profile && !(c->profile = profile_read(c->options->profile, &c->diags)))
        return false;
    for (uint32_t s = 0; s < c->program.steps.n; s++)
        if (!order_ready(&c->program, s, &c->reach[s], &c->device, c->profile, &c->diags,
                         &c->ready[s]))
            return false;
    return true;
}

static void check_schedule_flags(struct compilation *c) {
    const struct options *o = c->options;
    bool best = o->schedule == SCHEDULE_ROBUST || o->schedule == SCHEDULE_EXACT;
    const struct {
        const char *flag;
        bool idle;
        const char *schedules;
    } flags[] = {
        {"--order", o->schedule != SCHEDULE_DDP && o->order != ORDER_READY, "ddp"},
        {"--first-bucket-mib", o->schedule != SCHEDULE_DDP && o->first_bucket_mib > 0, "ddp"},
        {"--max-buckets", !best && o->max_buckets > 0, "robust and exact"},
        {"--bucket-cap-mib", o->schedule == SCHEDULE_SINGLE && o->bucket_cap_mib > 0,
         "robust, exact and ddp"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].idle)
            diag_plain(&c->diags, DIAG_IDLE_FLAG, flags[i].flag,
                       "is ignored: it is for --schedule %s", flags[i].schedules);
}

/* `check` says it in its verdict, a plan would not. */
static void check_trains(struct compilation *c) {
    const struct program *p = &c->program;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        bool trains = false;
        for (uint32_t i = 0; i < p->params.n && !trains; i++) {
            enum grad_class class = c->reach[s].gradient[i].class;
            trains = class == GRAD_ALWAYS || class == GRAD_CONDITIONAL;
        }
        if (trains) continue;
        struct diag *d =
            diag_plain(&c->diags, DIAG_NOTHING_TRAINS, c->path ? c->path : c->options->from_list,
                       "step '%s' trains nothing: no parameter reaches its loss",
                       ir_text(p->m, p->steps.at[s].name));
        diag_set_help(&c->diags, d, "ddpc check says why; is the loss right?");
    }
}

static bool run_schedule(struct compilation *c) {
    check_trains(c);
    check_schedule_flags(c);
    const char *topology = c->options->topology ? c->options->topology : "h100x8";
    if (!topology_read(&c->topology, topology, &c->diags) || !layout_fits(c)) return false;
    for (uint32_t s = 0; s < c->program.steps.n; s++)
        if (!schedule_step(&c->program, s, &c->reach[s], &c->branches, &c->ready[s], &c->topology,
                           c->options, &c->diags, &c->sched[s]))
            return false;
    return true;
}

static bool run_emit(struct compilation *c) {
    c->plan = emit_plan(c);
    return c->plan != NULL;
}

static const struct {
    const char *name;
    bool (*run)(struct compilation *c);
} passes[PIPELINE_N_PASSES] = {
#define PASS(name) [PIPELINE_##name] = {#name, run_##name},
    PIPELINE_PASSES
#undef PASS
};

const char *pipeline_pass_name(enum pipeline_pass p) { return passes[p].name; }

/* With --from-list the list takes the place of every pass before the schedule. */
static bool run_list(struct compilation *c) {
    struct reach reach;
    struct ready_times ready;
    ir_module_init(&c->module, &c->source);
    if (!from_list_read(&c->program, &c->module, c->options, &c->branches, &reach, &ready,
                        &c->diags))
        return false;
    c->reach = arena_new(&c->program.arena, struct reach, 1);
    c->ready = arena_new(&c->program.arena, struct ready_times, 1);
    c->sched = arena_new(&c->program.arena, struct sched, 1);
    *c->reach = reach;
    *c->ready = ready;
    check_uniform(c);
    return true;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool run_pass(struct compilation *c, enum pipeline_pass p,
                     bool (*run)(struct compilation *)) {
    double start = now_ms();
    bool ok = run(c);
    c->pass_ms[p] = now_ms() - start;
    if (ok && c->after) c->after(c, p, c->after_context);
    return ok;
}

bool pipeline_run(struct compilation *c, const char *path, enum pipeline_pass last) {
    enum pipeline_pass p = 0;
    c->path = path;
    if (c->options->from_list) {
        if (!run_pass(c, PIPELINE_order, run_list)) return false;
        p = PIPELINE_schedule;
    }
    for (; p <= last; p++)
        if (!run_pass(c, p, passes[p].run)) return false;
    return true;
}

void pipeline_init(struct compilation *c, const struct options *options) {
    memset(c, 0, sizeof *c);
    c->options = options;
    diags_init(&c->diags, &c->source);
    op_table_init(&c->ops);
    branches_init(&c->branches);
}

void pipeline_free(struct compilation *c) {
    plan_close(c->plan);
    for (uint32_t s = 0; c->sched && s < c->program.steps.n; s++) sched_free(&c->sched[s]);
    if (c->profile) profile_free(c->profile);
    branches_free(&c->branches);
    program_free(&c->program);
    op_table_free(&c->ops);
    ir_module_free(&c->module);
    diags_free(&c->diags);
    source_free(&c->source);
}
