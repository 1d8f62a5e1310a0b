/* `ddpc check --format=sarif`: a result for each parameter of class never or conditional, and for a
 * verdict or evidence that is not what it should be, at the line of the user's program where a
 * recorded model says it, else of the model.
 *
 * What is denied is an error. What a policy allows is suppressed, with the reason as its
 * justification. Against a baseline a result is new or unchanged. Its fingerprint is made of the
 * parameter, its class and the step, so that an alert stays the same alert when lines move; it also
 * stands in place of the one that services make from the line, which would be one for a weight and
 * its bias. */
#include "check.h"
#include "plan.h"
#include "sarif.h"
#include <string.h>

static const struct {
    const char *level, *title, *essay;
} rules[GATE_N_RULES] = {
    [RULE_NEVER] =
        {"warning", "a parameter that never gets a gradient",
         "No execution has a path of differentiable edges from this parameter to the loss. "
         "DistributedDataParallel without find_unused_parameters=True waits for its gradient and "
         "stops "
         "at the next iteration. Freeze it (requires_grad_(False)), use it, or remove it."},
    [RULE_CONDITIONAL] =
        {"note", "a parameter that gets a gradient in some executions only",
         "Whether a path leads from this parameter to the loss depends on a run-time condition, or "
         "on "
         "the step. DistributedDataParallel needs find_unused_parameters=True, unless every rank "
         "executes what uses it in every step."},
    [RULE_UNKNOWN] =
        {"warning", "a verdict that is unknown",
         "The model cannot show that it has every parameter of the module, or nothing in it "
         "trains, so what it shows is no answer for the module. --params says what the module "
         "has; --loss names another loss."},
    [RULE_EVIDENCE] =
        {"warning", "evidence that is weaker than it should be",
         "The answer rests on an observation or on what flags vouch for where a proof was "
         "asked for, or on less than when the baseline was written."},
};

/* The step whose gradient tells why: of a finding over all steps the first that has its class, else
 * the first in which the parameter rests. */
static uint32_t telling_step(const struct check_report *r, const struct finding *f) {
    if (f->step != ALL_STEPS) return f->step;
    enum grad_class class = r->a->class[f->param];
    for (uint32_t s = 0; s < r->a->n_steps; s++)
        if (r->c->reach[s].gradient[f->param].class == class) return s;
    for (uint32_t s = 0; s < r->a->n_steps; s++)
        if (r->c->reach[s].gradient[f->param].class != GRAD_ALWAYS) return s;
    return 0;
}

static const char *step_name(const struct check_report *r, uint32_t s) {
    return tool_utf8(&r->t->arena, ir_text(r->c->program.m, r->c->program.steps.at[s].name));
}

/* What to paste for a parameter, or NULL. All that never trains is advised to be frozen, or
 * nothing. */
static const char *paste(const struct check_report *r, const struct finding *f, const char *name) {
    const char *module = r->c->program.module ? r->c->program.module : "model";
    if (f->rule == RULE_CONDITIONAL)
        return f->step == ALL_STEPS
                   ? arena_printf(&r->t->arena,
                                  "DistributedDataParallel(%s, find_unused_parameters=True)",
                                  module)
                   : NULL;
    if (f->step != ALL_STEPS || !r->a->all.freeze.n) return NULL;
    if (strpbrk(name, "\"\\\n"))
        return NULL; /* no name of a module; the text report has it escaped */
    return arena_printf(&r->t->arena, "%s.get_parameter(\"%s\").requires_grad_(False)", module,
                        name);
}

static const char *sentence(const struct check_report *r, const struct finding *f, uint32_t step) {
    struct arena *a = &r->t->arena;
    if (f->param == NO_PARAM)
        return f->help ? arena_printf(a, "%s\n%s", f->text, f->help) : f->text;
    const struct gradient *g = &r->c->reach[step].gradient[f->param];
    const char *name = check_param_name(r->t, r->c, f->param), *how = "";
    const char *in = r->a->n_steps > 1 ? arena_printf(a, " in step %s", step_name(r, step)) : "";
    if (f->rule == RULE_NEVER)
        how = arena_printf(a, "never gets a gradient%s: %s", in, g->reason);
    else if (g->class == GRAD_CONDITIONAL)
        how = arena_printf(a, "gets a gradient%s in some executions only: %s", in, g->reason);
    else
        how = arena_printf(a, "gets a gradient in some steps only, and none%s: %s", in, g->reason);
    const char *code = paste(r, f, name);
    return arena_printf(a, "%s %s%s%s", name, how, code ? "\nPaste: " : "", code ? code : "");
}

/* Where the user looks first: a line of the recorded program; else of the model, which then is no
 * related place besides. */
static json_t *place(const struct check_report *r, const struct finding *f, uint32_t step,
                     json_t **in_model) {
    struct arena *a = &r->t->arena;
    struct source *model = &r->c->source;
    const char *name = r->t->options.from_list ? r->t->options.from_list : model->name;
    *in_model = NULL;
    if (f->param == NO_PARAM || r->t->options.from_list) return sarif_place(a, name, 1, 0);
    const struct gradient *g = &r->c->reach[step].gradient[f->param];
    ir_loc at = g->guard_loc != IR_NO_LOC ? g->guard_loc : g->loc;
    struct ir_source s;
    json_t *here = at == IR_NO_LOC ? sarif_place(a, name, 1, 0) : sarif_place_in(a, model, at);
    if (!ir_node_source(r->c->program.m, g->source, &s)) return here;
    json_t *user = sarif_place(a, arena_strndup(a, s.text, s.file), s.line, 0);
    if (!user) return here;
    *in_model = here;
    return user;
}

static void set_fingerprints(const struct check_report *r, const struct finding *f,
                             json_t *result) {
    struct arena *a = &r->t->arena;
    const char *name =
        f->param == NO_PARAM ? "" : check_param_name(r->t, r->c, f->param) + r->g->prefix;
    const char *text = arena_printf(a, "%s\n%s\n%s", gate_rule_name(f->rule), name,
                                    f->step == ALL_STEPS ? "" : step_name(r, f->step));
    if (f->rule == RULE_EVIDENCE) text = arena_printf(a, "%s\n%s", text, f->text);
    const char *hash =
        arena_printf(a, "%016llx", (unsigned long long)plan_name_hash(text, strlen(text)));
    json_object_set_new(result, "partialFingerprints",
                        json_pack("{s:s, s:o}", "parameterAndClass/v1", hash,
                                  "primaryLocationLineHash",
                                  json_string(arena_printf(a, "%s:1", hash))));
}

static void set_suppressions(const struct check_report *r, const struct finding *f,
                             json_t *result) {
    json_t *list = json_array();
    if (f->allowed) {
        /* Without `status`, which is called `state` in some versions of the schema. */
        json_t *s = json_pack("{s:s, s:s}", "kind", "external", "justification",
                              tool_utf8(&r->t->arena, f->allowed->reason));
        json_t *at = sarif_place(&r->t->arena, r->g->policy.path, f->allowed->line, 0);
        if (at) json_object_set_new(s, "location", json_pack("{s:o}", "physicalLocation", at));
        json_array_append_new(list, s);
    }
    json_object_set_new(result, "suppressions", list);
}

static json_t *result_of(const struct check_report *r, const struct finding *f) {
    struct arena *a = &r->t->arena;
    uint32_t step = f->param == NO_PARAM ? 0 : telling_step(r, f);
    json_t *in_model, *here = place(r, f, step, &in_model), *location = json_object();
    if (here) json_object_set_new(location, "physicalLocation", here);
    if (f->param != NO_PARAM)
        json_object_set_new(location, "logicalLocations",
                            json_pack("[{s:s, s:s}]", "fullyQualifiedName",
                                      check_param_name(r->t, r->c, f->param), "kind", "parameter"));
    json_t *result =
        json_pack("{s:o, s:i, s:s, s:{s:s}, s:[o]}", "ruleId",
                  json_string(arena_printf(a, "ddpc/%s", gate_rule_name(f->rule))), "ruleIndex",
                  (int)f->rule, "level", f->denied ? "error" : rules[f->rule].level, "message",
                  "text", tool_utf8(a, sentence(r, f, step)), "locations", location);
    if (in_model)
        json_object_set_new(result, "relatedLocations",
                            json_pack("[{s:o, s:{s:s}}]", "physicalLocation", in_model, "message",
                                      "text", "as recorded"));
    set_fingerprints(r, f, result);
    if (r->g->baseline.file)
        json_object_set_new(result, "baselineState", json_string(f->new ? "new" : "unchanged"));
    if (r->g->policy.path) set_suppressions(r, f, result);
    return result;
}

/* GitHub shows 5,000 results of a run and refuses a file of 10 MB (compressed); 5,000 are about 5
 * MB. */
enum { MAX_RESULTS = 5000 };

/* What matters most first: what is denied, what is not allowed, the rest. */
static int rank_of(const struct finding *f) { return f->denied ? 0 : f->allowed ? 2 : 1; }

static void add_results(const struct check_report *r, json_t *results) {
    uint32_t left = MAX_RESULTS, last[3];
    for (int k = 0; k < 3; k++) { /* last: of each rank, how many are shown */
        uint32_t n = 0;
        for (uint32_t i = 0; i < r->g->findings.n; i++) n += rank_of(&r->g->findings.at[i]) == k;
        last[k] = n < left ? n : left;
        left -= last[k];
    }
    for (uint32_t i = 0; i < r->g->findings.n; i++) {
        const struct finding *f = &r->g->findings.at[i];
        if (last[rank_of(f)] && last[rank_of(f)]--) json_array_append_new(results, result_of(r, f));
    }
}

/* How many results were left out, where a reader of the log finds it; NULL: none. */
static json_t *left_out(const struct check_report *r) {
    if (r->g->findings.n <= MAX_RESULTS) return NULL;
    const char *text = arena_printf(
        &r->t->arena,
        "%u of %u results are left out, those that are not denied first: the log has at most %d. "
        "`ddpc check --format=json` has all parameters.",
        r->g->findings.n - MAX_RESULTS, r->g->findings.n, MAX_RESULTS);
    return json_pack("[{s:b, s:[{s:s, s:{s:s}}]}]", "executionSuccessful", 1,
                     "toolExecutionNotifications", "level", "warning", "message", "text", text);
}

void check_sarif(const struct check_report *r) {
    json_t *list = json_array(), *results = json_array();
    for (int i = 0; i < GATE_N_RULES; i++)
        json_array_append_new(list, sarif_rule(arena_printf(&r->t->arena, "ddpc/%s",
                                                            gate_rule_name((enum gate_rule)i)),
                                               rules[i].title, rules[i].essay, rules[i].level));
    add_results(r, results);
    json_t *properties = json_pack("{s:s, s:s}", "verdict", verdict_name(r->a->all.verdict),
                                   "evidence", check_evidence_name(r->c->program.evidence));
    if (r->g->policy.path)
        json_object_set_new(properties, "policy",
                            json_string(tool_utf8(&r->t->arena, r->g->policy.path)));
    sarif_write(r->out, list, results, left_out(r), properties, JSON_INDENT(1));
}
