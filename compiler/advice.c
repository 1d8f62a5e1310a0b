/* From classes to advice.
 *
 * DDP without flags waits for a gradient of every parameter that requires one; with
 * find_unused_parameters=True it looks at the graph in every iteration; with static_graph=True it
 * remembers the first one. So:
 *
 *   - every parameter always or frozen: no flag;
 *   - some never: freeze them, then no flag (the ignore list does it too, but ignored tensors are
 *     not broadcast, and DDP compares names in two spellings);
 *   - some conditional: the flag, or a plan, which knows the conditions;
 *   - static_graph only if the used set never changes and no parameter without a gradient feeds a
 *     returned output: DDP takes a path from an output for use and would wait for it. Not on the
 *     word of a trace, which may have taken one of several ways;
 *   - nothing trains: DDP refuses the module, and the loss is most likely not the one that was
 *     meant. Neither "not needed" nor freezing all of it would be an answer.
 *
 * One wrapper around several steps sees them as one program: a parameter counts as always, never or
 * frozen only if it is so in every step, otherwise as conditional - or as never, if one step
 * freezes it and no other has a gradient for it. And where the model may lack parameters that the
 * module has, "not needed" would be a guess, so the verdict is unknown and nothing is advised to be
 * frozen; a conditional parameter that is shown is there all the same. */
#include "advice.h"

const char *verdict_name(enum verdict v) {
    static const char *const names[] = {"flag_not_needed", "flag_needed", "unknown"};
    return names[v];
}

/* Which parameters a returned output depends on, under a step's assumptions: reach from all outputs
 * at once, as if they were losses. Branches and messages of that walk are of no interest. */
static bool *find_returned(struct program *p, uint32_t step) {
    const struct ir_module *m = p->m;
    bool *returned = arena_new(&p->arena, bool, p->params.n);
    if (!m->main) return returned;
    const struct ir_graph_info *graph = &m->graph.at[m->main];
    struct step all = {.name = p->steps.at[step].name,
                       .frozen = arena_new(&p->arena, bool, p->params.n)};
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        ir_value v = m->decl.at[graph->outputs + i].value;
        if (ir_type_carries_gradient(m, m->value.at[v].type)) vec_push(&all.losses, v);
    }
    all.assume = p->steps.at[step].assume;
    vec_push(&p->steps, all);
    struct branches branches;
    struct diags silent;
    struct reach reach;
    branches_init(&branches);
    diags_init(&silent, m->source);
    reach_step(p, p->steps.n - 1, &branches, &silent, &reach);
    for (uint32_t i = 0; i < p->params.n; i++) returned[i] = reach.gradient[i].class != GRAD_NEVER;
    diags_free(&silent);
    branches_free(&branches);
    vec_free(&all.losses);
    p->steps.n--;
    return returned;
}

static void count(const struct program *p, const enum grad_class *class, struct advice *out) {
    for (uint32_t i = 0; i < p->params.n; i++) {
        if (p->params.at[i].kind != PARAM_PARAMETER) continue;
        out->parameters++;
        out->count[class[i]]++;
        out->unsure += class[i] == GRAD_NEVER && p->params.at[i].unsure;
    }
    out->nothing_trains =
        out->parameters && !out->count[GRAD_ALWAYS] && !out->count[GRAD_CONDITIONAL];
    for (uint32_t i = 0; p->complete && !out->nothing_trains && i < p->params.n; i++)
        if (p->params.at[i].kind == PARAM_PARAMETER && class[i] == GRAD_NEVER)
            vec_push(&out->freeze, i);
    out->verdict = out->nothing_trains            ? VERDICT_UNKNOWN
                   : out->count[GRAD_CONDITIONAL] ? VERDICT_NEEDED
                   : p->complete                  ? VERDICT_NOT_NEEDED
                                                  : VERDICT_UNKNOWN;
}

static void finish(const struct program *p, const enum grad_class *class, const bool *returned,
                   struct advice *out) {
    for (uint32_t i = 0; returned && i < p->params.n; i++)
        if (p->params.at[i].kind == PARAM_PARAMETER && class[i] == GRAD_NEVER && returned[i])
            vec_push(&out->returned, i);
    out->static_graph =
        out->verdict == VERDICT_NOT_NEEDED && !out->returned.n && p->evidence == EVIDENCE_PROVED;
}

enum grad_class advice_merge(enum grad_class a, enum grad_class b) {
    if (a == b) return a;
    bool rests = (a == GRAD_NEVER || a == GRAD_FROZEN) && (b == GRAD_NEVER || b == GRAD_FROZEN);
    return rests ? GRAD_NEVER : GRAD_CONDITIONAL;
}

void advices_give(struct program *p, const struct reach *reach, struct advices *out) {
    uint32_t n = p->params.n;
    *out = (struct advices){.n_steps = p->steps.n,
                            .step = arena_new(&p->arena, struct advice, p->steps.n),
                            .class = arena_new(&p->arena, enum grad_class, n)};
    enum grad_class *class = arena_new(&p->arena, enum grad_class, n);
    bool *any_conditional = arena_new(&p->arena, bool, n);
    bool *any_returned = arena_new(&p->arena, bool, n);
    for (uint32_t s = 0; s < out->n_steps; s++) {
        for (uint32_t i = 0; i < n; i++) {
            class[i] = reach[s].gradient[i].class;
            any_conditional[i] |= class[i] == GRAD_CONDITIONAL;
            if (s == 0) out->class[i] = class[i];
            out->class[i] = advice_merge(out->class[i], class[i]);
        }
        struct advice *a = &out->step[s];
        count(p, class, a);
        const bool *returned = a->count[GRAD_NEVER] ? find_returned(p, s) : NULL;
        for (uint32_t i = 0; returned && i < n; i++) any_returned[i] |= returned[i];
        finish(p, class, returned, a);
    }
    count(p, out->class, &out->all);
    for (uint32_t i = 0; i < n; i++)
        out->all.by_step += p->params.at[i].kind == PARAM_PARAMETER &&
                            out->class[i] == GRAD_CONDITIONAL && !any_conditional[i];
    finish(p, out->class, any_returned, &out->all);
}

void advices_free(struct advices *a) {
    for (uint32_t s = 0; s < a->n_steps; s++) {
        vec_free(&a->step[s].freeze);
        vec_free(&a->step[s].returned);
    }
    vec_free(&a->all.freeze);
    vec_free(&a->all.returned);
}

void advice_ignore_names(const struct program *p, uint32_t param, struct arena *a,
                         string_list *out) {
    const struct param *q = &p->params.at[param];
    for (uint32_t i = 0; i <= q->aliases.n; i++) {
        const char *name = ir_text(p->m, i ? q->aliases.at[i - 1] : q->name);
        vec_push(out, name);
        vec_push(out, arena_printf(a, ".%s", name));
    }
}
