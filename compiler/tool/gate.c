/* The gate: from classes, a baseline and a policy to what fails.
 *
 * Everything is first a finding: each parameter of class never or conditional, a verdict that is
 * unknown, evidence that is not what it should be. A finding is denied if --deny (else the policy,
 * else, against a baseline, everything) names its class, if no entry of the policy allows it, and if
 * the baseline has it not. So a team with forty dead parameters can start today, and the
 * forty-first fails.
 *
 * Without a baseline parameters count over all steps, as one wrapper sees them. Against one also
 * within each step: a generator that loses its gradient in its own step was conditional over all
 * steps before, and is so now. A step that the baseline lacks is compared with what parameters were
 * over all steps.
 *
 * Evidence belongs to the class unknown: how sure an answer is. That nothing trains is no finding
 * that a policy can allow. And --require-proof is a demand of its own, which no baseline lowers. */
#include "gate.h"
#include "check.h"
#include "wrappers.h"
#include <string.h>

const char *gate_rule_name(enum gate_rule r) {
    static const char *const names[] = {"never", "conditional", "unknown", "evidence"};
    return names[r];
}

/* ---- what the flags say ---------------------------------------------------------------------- */

bool gate_open(struct gate *g, struct tool *t) {
    *g = (struct gate){0};
    for (uint32_t i = 0; i < t->deny.n; i++) {
        int k = tool_choice(t, "deny", t->deny.at[i], DENIED_NAMES);
        if (k < 0) return false;
        g->deny |= 1u << k;
    }
    const char *model = t->args.n ? t->args.at[0] : t->options.from_list;
    if (t->baseline && !strcmp(t->baseline, "-") && !strcmp(model, "-")) {
        tool_usage_error(t, "MODEL and --baseline cannot both be standard input");
        return false;
    }
    bool ok = policy_read(&g->policy, t->policy);
    if (!ok) tool_print_diags(t, &g->policy.diags);
    if (t->baseline && !baseline_read(&g->baseline, t, t->baseline)) ok = false;
    if (!g->deny) g->deny = g->policy.deny;
    if (!g->deny && t->baseline) g->deny = DENY_NEVER | DENY_CONDITIONAL | DENY_UNKNOWN;
    return ok;
}

void gate_free(struct gate *g) {
    policy_free(&g->policy);
    baseline_free(&g->baseline);
    vec_free(&g->findings);
    vec_free(&g->fixed);
    vec_free(&g->denied);
    vec_free(&g->help);
}

/* ---- findings -------------------------------------------------------------------------------- */

struct judge {
    struct gate *g;
    struct tool *t;
    struct compilation *c;
    const struct advices *a;
    const char **step;              /* names, by step */
    struct baseline_param **before; /* by parameter: what the baseline has; NULL where it is new */
};

/* As the model spells them: what a policy is compared with. For people and JSON there are
 * check_param_name and step_name, which copy. */
static const char *raw_step(const struct judge *j, uint32_t s) {
    return ir_text(j->c->program.m, j->c->program.steps.at[s].name);
}

static const char *raw_param(const struct judge *j, uint32_t i) {
    return ir_text(j->c->program.m, j->c->program.params.at[i].name);
}

static const char *step_name(const struct judge *j, uint32_t s) { return j->step[s]; }

static bool is_param(const struct judge *j, uint32_t i) {
    return j->c->program.params.at[i].kind == PARAM_PARAMETER;
}

static enum grad_class class_of(const struct judge *j, uint32_t param, uint32_t step) {
    return step == ALL_STEPS ? j->a->class[param] : j->c->reach[step].gradient[param].class;
}

/* GRAD_NEVER and GRAD_CONDITIONAL are findings, and classes of --deny. */
static unsigned denied_class(enum grad_class class) {
    return class == GRAD_NEVER ? DENY_NEVER : class == GRAD_CONDITIONAL ? DENY_CONDITIONAL : 0;
}

/* Whether an entry speaks of the parameter in that step. */
static bool covers(const struct judge *j, const struct policy_entry *e, uint32_t param,
                   uint32_t step) {
    return (!e->step || (step != ALL_STEPS && !strcmp(e->step, raw_step(j, step)))) &&
           policy_names(e, raw_param(j, param), j->g->prefix);
}

static const struct policy_entry *allowed_in(const struct judge *j, unsigned class, uint32_t param,
                                             uint32_t step) {
    const struct policy *p = &j->g->policy;
    for (uint32_t i = 0; i < p->allow.n; i++)
        if (p->allow.at[i].class == class && covers(j, &p->allow.at[i], param, step))
            return &p->allow.at[i];
    return NULL;
}

/* Over all steps a class rests on the steps that have it: entries for each of them do as well. */
static const struct policy_entry *allowed(const struct judge *j, unsigned class, uint32_t param,
                                          uint32_t step) {
    const struct policy_entry *e = allowed_in(j, class, param, step);
    if (e || step != ALL_STEPS) return e;
    for (uint32_t s = 0; s < j->a->n_steps; s++) {
        if (denied_class(class_of(j, param, s)) != class) continue;
        const struct policy_entry *in = allowed_in(j, class, param, s);
        if (!in) return NULL;
        e = e ? e : in;
    }
    return e;
}

static void find_param(struct judge *j, uint32_t param, uint32_t step) {
    struct gate *g = j->g;
    enum grad_class class = class_of(j, param, step);
    unsigned denied = denied_class(class);
    /* What may be there all the same makes the verdict unknown, and is no finding of its own. */
    if (!denied || (class == GRAD_NEVER && j->c->program.params.at[param].unsure)) return;
    struct finding f = {.rule = class == GRAD_NEVER ? RULE_NEVER : RULE_CONDITIONAL,
                        .param = param,
                        .step = step,
                        .new = true,
                        .allowed = allowed(j, denied, param, step)};
    const struct baseline_param *before = g->baseline.file ? j->before[param] : NULL;
    if (before) {
        int s = step == ALL_STEPS ? -1 : baseline_step(&g->baseline, step_name(j, step));
        enum grad_class was = baseline_class(&g->baseline, before, s);
        f.was = grad_class_name(was);
        f.new = was != class;
    }
    /* In a step only what the finding over all steps does not say already. */
    if (step != ALL_STEPS && class == j->a->class[param]) {
        bool said = !before || before->all != class;
        if (said || !f.new) return;
    }
    f.denied = f.new && g->deny &denied && !f.allowed;
    vec_push(&g->findings, f);
}

static void find_sentence(struct judge *j, struct finding f) {
    f.param = NO_PARAM;
    vec_push(&j->g->findings, f);
}

static const struct policy_entry *unknown_allowed(const struct judge *j) {
    for (uint32_t i = 0; i < j->g->policy.allow.n; i++)
        if (j->g->policy.allow.at[i].class == DENY_UNKNOWN) return &j->g->policy.allow.at[i];
    return NULL;
}

/* The verdict over all steps (ALL_STEPS), or, against a baseline, of one. */
static void find_unknown(struct judge *j, uint32_t step) {
    const struct baseline *b = &j->g->baseline;
    bool all = step == ALL_STEPS;
    const struct advice *a = all ? &j->a->all : &j->a->step[step];
    if (a->verdict != VERDICT_UNKNOWN) return;
    int s = all ? -1 : baseline_step(b, step_name(j, step));
    bool was_unknown = b->file && (s < 0 ? b->verdict : b->step_verdict.at[s]) == VERDICT_UNKNOWN;
    struct finding f = {.rule = RULE_UNKNOWN, .step = step, .new = !was_unknown};
    const char *because = check_unknown_because(&j->c->program, a);
    unsigned classes = DENY_UNKNOWN;
    f.text = arena_printf(&j->t->arena, "the verdict %sis unknown: %s",
                          all ? "" : arena_printf(&j->t->arena, "of step %s ", step_name(j, step)),
                          because);
    if (a->nothing_trains) {
        if (all) f.text = because;
        classes |= DENY_NEVER;
        if (all && b->file) f.new = !b->nothing_trained;
    } else {
        if (!all) return; /* completeness is the model's, and said of all steps */
        f.allowed = unknown_allowed(j);
    }
    f.denied = f.new && j->g->deny &classes && !f.allowed;
    find_sentence(j, f);
}

/* Evidence that got worse. */
static void find_evidence(struct judge *j) {
    const struct program *p = &j->c->program;
    const struct baseline *b = &j->g->baseline;
    struct arena *arena = &j->t->arena;
    struct finding f = {
        .rule = RULE_EVIDENCE, .step = ALL_STEPS, .new = true, .allowed = unknown_allowed(j)};
    f.denied = j->g->deny & DENY_UNKNOWN && !f.allowed;
    if (p->evidence > b->evidence) {
        f.was = check_evidence_name(b->evidence);
        f.text = arena_printf(arena, "the evidence was %s and is now %s", f.was, p->basis);
        find_sentence(j, f);
    }
    f.was = NULL;
    for (uint32_t i = 0; i < p->n_assumed; i++) {
        const char *name = tool_utf8(arena, program_assumed_name(p, i, arena));
        bool known = false;
        for (uint32_t k = 0; k < b->assumed.n && !known; k++)
            known = !strcmp(b->assumed.at[k], name);
        f.text = arena_printf(arena, "the answer now rests on what you say of %s", name);
        if (!known) find_sentence(j, f);
    }
}

static void find_no_proof(struct judge *j) {
    const struct program *p = &j->c->program;
    if (p->evidence == EVIDENCE_PROVED && !p->n_assumed) return;
    struct finding f = {.rule = RULE_EVIDENCE, .step = ALL_STEPS, .new = true, .denied = true};
    f.text = arena_printf(&j->t->arena, "the evidence is no proof: %s", p->basis);
    if (p->traced)
        f.help = "compare with `p.grad is None` after one backward; if the trace hides "
                 "nothing, the metadata \"ddpc.evidence\": \"proved\" says so";
    find_sentence(j, f);
}

/* ---- the baseline ---------------------------------------------------------------------------- */

/* Finds each parameter in the baseline, by its name or another of its names. Less than half of the
 * smaller set in common is another model: comparing would call everything new. */
static bool match_baseline(struct judge *j) {
    const struct program *p = &j->c->program;
    const struct baseline *b = &j->g->baseline;
    struct arena *arena = &j->t->arena;
    uint32_t common = 0, here = 0;
    j->before = arena_new(arena, struct baseline_param *, p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++) {
        if (!is_param(j, i)) continue;
        const struct param *q = &p->params.at[i];
        here++;
        for (uint32_t k = 0; k <= q->aliases.n && !j->before[i]; k++) {
            const char *name = ir_text(p->m, k ? q->aliases.at[k - 1] : q->name);
            size_t n = wrappers_prefix(&name, 1) >= j->g->prefix ? j->g->prefix : 0;
            j->before[i] = baseline_find(b, tool_utf8(arena, name + n));
        }
        if (!j->before[i]) continue;
        j->before[i]->seen = true;
        common++;
    }
    uint32_t fewer = here < b->params.n ? here : b->params.n;
    if (common && 2 * common >= fewer) return true;
    if (!here && !b->params.n) return true;
    struct diags d;
    diags_init(&d, NULL);
    struct diag *g = diag_plain(&d, DIAG_BASELINE_OTHER, b->file,
                                "the baseline is of another model: of its %u parameters and the "
                                "model's %u only %u have the "
                                "same name",
                                b->params.n, here, common);
    diag_set_help(&d, g,
                  "name the baseline of this model; if it was changed as much as that, write a new "
                  "one: ddpc check MODEL --format=json -o %s",
                  b->file);
    tool_print_diags(j->t, &d);
    diags_free(&d);
    return false;
}

static bool is_finding(enum grad_class class) {
    return class == GRAD_NEVER || class == GRAD_CONDITIONAL;
}

static void find_fixed_params(struct judge *j) {
    const struct baseline *b = &j->g->baseline;
    for (uint32_t i = 0; i < j->c->program.params.n; i++) {
        const struct baseline_param *p = j->before[i];
        if (!p) continue;
        enum grad_class is = j->a->class[i];
        bool all = is_finding(p->all) && !is_finding(is);
        struct fixed f = {p->name, ALL_STEPS, grad_class_name(p->all), grad_class_name(is)};
        if (all) vec_push(&j->g->fixed, f);
        for (uint32_t s = 0; s < j->a->n_steps && j->a->n_steps > 1 && !all; s++) {
            int step = baseline_step(b, step_name(j, s));
            enum grad_class was = step < 0 ? GRAD_ALWAYS : baseline_class(b, p, step);
            is = class_of(j, i, s);
            struct fixed in = {p->name, s, grad_class_name(was), grad_class_name(is)};
            if (is_finding(was) && !is_finding(is)) vec_push(&j->g->fixed, in);
        }
    }
    for (uint32_t i = 0; i < b->params.n; i++) {
        const struct baseline_param *p = &b->params.at[i];
        struct fixed f = {p->name, ALL_STEPS, grad_class_name(p->all), NULL};
        if (!p->seen && is_finding(p->all)) vec_push(&j->g->fixed, f);
    }
    enum evidence evidence = j->c->program.evidence;
    struct fixed f = {NULL, ALL_STEPS, check_evidence_name(b->evidence),
                      check_evidence_name(evidence)};
    if (evidence < b->evidence) vec_push(&j->g->fixed, f);
}

/* ---- what is denied, in words ---------------------------------------------------------------- */

enum { NAMES_SHOWN = 5 };

static void deny(struct judge *j, const char *text, const char *help) {
    vec_push(&j->g->denied, text);
    vec_push(&j->g->help, help);
}

/* The way out for denied parameters of a rule, or NULL. */
static const char *way_out(struct judge *j, enum gate_rule rule) {
    const char *help = NULL, *file = j->g->baseline.file;
    const struct program *p = &j->c->program;
    if (rule == RULE_NEVER && !j->a->all.nothing_trains)
        help =
            p->evidence == EVIDENCE_OBSERVED && !p->traced
                ? "freeze them in the module (see PASTE) and record it again; or allow them, with "
                  "a reason, in .ddpccheck"
            : j->t->options.params
                ? "freeze them in the module (see PASTE) and write the --params file again, so "
                  "that it says requires_grad False; or name them with --frozen"
                : "freeze them in the module (see PASTE) and name them with --frozen, or in a "
                  "--params file whose requires_grad is False";
    if (!file) return help;
    return arena_printf(&j->t->arena,
                        "%s%sif it is meant to be so, write the baseline again: ddpc check MODEL "
                        "--format=json -o %s",
                        help ? help : "", help ? "; " : "", file);
}

/* One sentence for all denied parameters of a rule in a step. */
static void deny_params(struct judge *j, enum gate_rule rule, uint32_t step) {
    struct arena *arena = &j->t->arena;
    uint32_t n = 0;
    const char *names = "";
    for (uint32_t i = 0; i < j->g->findings.n; i++) {
        const struct finding *f = &j->g->findings.at[i];
        if (!f->denied || f->rule != rule || f->param == NO_PARAM || f->step != step) continue;
        if (n++ < NAMES_SHOWN)
            names = arena_printf(arena, "%s%s %s", names, n > 1 ? "," : "",
                                 check_param_name(j->t, j->c, f->param));
    }
    if (!n) return;
    deny(j,
         arena_printf(arena, "%u parameter%s %sof class %s%s%s:%s%s", n, n == 1 ? "" : "s",
                      j->g->baseline.file ? "newly " : "", gate_rule_name(rule),
                      step == ALL_STEPS ? "" : " in step ",
                      step == ALL_STEPS ? "" : step_name(j, step), names,
                      n > NAMES_SHOWN ? ", ..." : ""),
         way_out(j, rule));
}

static void say_denied(struct judge *j) {
    deny_params(j, RULE_NEVER, ALL_STEPS);
    deny_params(j, RULE_CONDITIONAL, ALL_STEPS);
    for (uint32_t s = 0; s < j->a->n_steps && j->g->baseline.file; s++) {
        deny_params(j, RULE_NEVER, s);
        deny_params(j, RULE_CONDITIONAL, s);
    }
    for (uint32_t i = 0; i < j->g->findings.n; i++) {
        const struct finding *f = &j->g->findings.at[i];
        if (f->denied && f->param == NO_PARAM) deny(j, f->text, f->help);
    }
}

/* ---- entries that allow nothing -------------------------------------------------------------- */

/* Whether the entry meets a parameter of its class; *names says whether it meets any at all. */
static bool is_used(const struct judge *j, const struct policy_entry *e, bool *names) {
    *names = false;
    if (e->class == DENY_UNKNOWN) {
        const struct advice *a = &j->a->all;
        bool worse = j->g->baseline.file && j->c->program.evidence > j->g->baseline.evidence;
        return (a->verdict == VERDICT_UNKNOWN && !a->nothing_trains) || worse;
    }
    for (uint32_t i = 0; i < j->c->program.params.n; i++) {
        if (!is_param(j, i) || !policy_names(e, raw_param(j, i), j->g->prefix)) continue;
        *names = true;
        if (!e->step && denied_class(j->a->class[i]) == e->class) return true;
        for (uint32_t s = 0; s < j->a->n_steps; s++)
            if (denied_class(class_of(j, i, s)) == e->class &&
                (!e->step || !strcmp(e->step, raw_step(j, s))))
                return true;
    }
    return false;
}

static void warn_unused(struct judge *j, struct policy_entry *e, bool names) {
    struct policy *p = &j->g->policy;
    const char *of = gate_rule_name(e->class == DENY_NEVER         ? RULE_NEVER
                                    : e->class == DENY_CONDITIONAL ? RULE_CONDITIONAL
                                                                   : RULE_UNKNOWN);
    struct diag *g;
    if (e->class == DENY_UNKNOWN)
        g = diag_at(&p->diags, DIAG_POLICY_UNUSED, e->loc, e->length,
                    "this entry allows nothing: the verdict is %s",
                    j->a->all.nothing_trains
                        ? "unknown because nothing trains, which no entry allows"
                        : verdict_name(j->a->all.verdict));
    else if (names)
        g = diag_at(&p->diags, DIAG_POLICY_UNUSED, e->loc, e->length,
                    "this entry allows nothing: no parameter '%s' is of class %s%s%s", e->glob, of,
                    e->step ? " in step " : "", e->step ? e->step : "");
    else
        g = diag_at(&p->diags, DIAG_POLICY_UNUSED, e->loc, e->length,
                    "this entry allows nothing: the model has no parameter '%s'", e->glob);
    string_list names_here = {0};
    bool known = !e->step, would = false;
    for (uint32_t s = 0; s < j->a->n_steps && e->step; s++) {
        vec_push(&names_here, raw_step(j, s));
        known |= !strcmp(e->step, raw_step(j, s));
    }
    for (uint32_t i = 0; known && !names && e->glob && i < j->c->program.params.n; i++)
        if (is_param(j, i)) vec_push(&names_here, raw_param(j, i));
    struct policy_entry wider = *e;
    if (known && !names && e->glob) {
        wider.glob = arena_printf(&p->arena, "*%s", e->glob);
        is_used(j, &wider, &would);
    }
    const char *near =
        diag_nearest(known ? e->glob ? e->glob : "" : e->step, names_here.at, names_here.n);
    if (!known)
        diag_set_help(&p->diags, g, "the model has no step '%s'%s%s%s", e->step,
                      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    else if (would)
        diag_set_help(&p->diags, g, "a pattern must match the whole name; '%s' does", wider.glob);
    else if (near && !names)
        diag_set_help(&p->diags, g, "did you mean '%s'?", near);
    else
        diag_set_help(&p->diags, g, "remove it, or correct it");
    vec_free(&names_here);
}

static void check_policy(struct judge *j) {
    struct policy *p = &j->g->policy;
    for (uint32_t i = 0; i < p->allow.n; i++) {
        bool names;
        p->allow.at[i].used = is_used(j, &p->allow.at[i], &names);
        if (!p->allow.at[i].used) warn_unused(j, &p->allow.at[i], names);
    }
    if (p->path) tool_print_diags(j->t, &p->diags);
}

bool gate_judge(struct gate *g, struct tool *t, struct compilation *c, const struct advices *a) {
    struct judge j = {g, t, c, a, arena_new(&t->arena, const char *, a->n_steps), NULL};
    for (uint32_t s = 0; s < a->n_steps; s++) j.step[s] = tool_utf8(&t->arena, raw_step(&j, s));
    string_list names = {0};
    for (uint32_t i = 0; i < c->program.params.n; i++)
        if (is_param(&j, i)) vec_push(&names, raw_param(&j, i));
    g->prefix = wrappers_prefix(names.at, names.n);
    vec_free(&names);
    if (g->baseline.file && !match_baseline(&j)) return false;
    bool steps = g->baseline.file && a->n_steps > 1;
    for (uint32_t i = 0; i < c->program.params.n; i++) {
        if (!is_param(&j, i)) continue;
        find_param(&j, i, ALL_STEPS);
        for (uint32_t s = 0; s < a->n_steps && steps; s++) find_param(&j, i, s);
    }
    find_unknown(&j, ALL_STEPS);
    for (uint32_t s = 0; s < a->n_steps && steps; s++) find_unknown(&j, s);
    if (g->baseline.file) {
        find_evidence(&j);
        find_fixed_params(&j);
    }
    if (t->require_proof) find_no_proof(&j);
    say_denied(&j);
    check_policy(&j);
    return true;
}
