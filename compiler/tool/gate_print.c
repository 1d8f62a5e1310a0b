/* What the policy and the baseline had to say, in the report's two forms.
 *
 *     POLICY   .ddpccheck:3 allows 2 never: the checkpoint has it
 *     BASELINE check.json: 40 known, 1 new, 1 fixed
 *              new: dec.bias never (was always)
 *              fixed: enc.bias always (was never)
 *
 * A policy that was found without being asked for is thereby said, and what is fixed asks for a
 * new baseline, which is a note and fails nothing. */
#include "check.h"

enum { NAMES_SHOWN = 5 };

static const char *name_of(const struct check_report *r, const struct finding *f) {
    return check_param_name(r->t, r->c, f->param);
}

static const char *step_of(const struct check_report *r, uint32_t step) {
    return tool_utf8(&r->t->arena, ir_text(r->c->program.m, r->c->program.steps.at[step].name));
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_policy(const struct check_report *r) {
    const struct policy *p = &r->g->policy;
    const char *heading = "POLICY";
    for (uint32_t i = 0; i < p->allow.n; i++) {
        const struct policy_entry *e = &p->allow.at[i];
        uint32_t n = 0;
        enum gate_rule rule = RULE_UNKNOWN;
        for (uint32_t k = 0; k < r->g->findings.n; k++) {
            if (r->g->findings.at[k].allowed != e) continue;
            rule = r->g->findings.at[k].rule;
            n++;
        }
        if (!n) continue;
        fprintf(r->out, "%-9s", heading);
        heading = "";
        tool_put(r->out, p->path);
        fprintf(r->out, ":%u allows ", e->line);
        if (e->class == DENY_UNKNOWN)
            fputs("what is unknown: ", r->out);
        else
            fprintf(r->out, "%u %s: ", n, gate_rule_name(rule));
        tool_put(r->out, tool_utf8(&r->t->arena, e->reason));
        fputc('\n', r->out);
    }
    if (!*heading) return;
    fprintf(r->out, "%-9s", heading);
    tool_put(r->out, p->path);
    fputs(" allows nothing here\n", r->out);
}

/* "new: " before the first, then commas; false where it is one too many to show. */
static bool begin_item(const struct check_report *r, const char *what, uint32_t i) {
    if (i >= NAMES_SHOWN) return false;
    if (i)
        fputs(", ", r->out);
    else
        fprintf(r->out, "%9s%s: ", "", what);
    return true;
}

static void end_items(const struct check_report *r, uint32_t n) {
    if (n > NAMES_SHOWN) fprintf(r->out, " and %u more", n - NAMES_SHOWN);
    if (n) fputc('\n', r->out);
}

static void put_step(const struct check_report *r, uint32_t step) {
    if (step == ALL_STEPS) return;
    fputs(" in step ", r->out);
    tool_put(r->out, step_of(r, step));
}

static void put_baseline(const struct check_report *r) {
    const struct gate *g = r->g;
    uint32_t known = 0, new = 0;
    for (uint32_t i = 0; i < g->findings.n; i++) *(g->findings.at[i].new ? &new : &known) += 1;
    fprintf(r->out, "%-9s", "BASELINE");
    tool_put(r->out, g->baseline.file);
    fprintf(r->out, ": %u known, %u new, %u fixed\n", known, new, g->fixed.n);
    new = 0;
    for (uint32_t i = 0; i < g->findings.n; i++) {
        const struct finding *f = &g->findings.at[i];
        if (!f->new || !begin_item(r, "new", new ++)) continue;
        tool_put(r->out, f->param == NO_PARAM ? f->text : name_of(r, f));
        if (f->param == NO_PARAM) continue;
        fprintf(r->out, " %s", gate_rule_name(f->rule));
        put_step(r, f->step);
        fprintf(r->out, " (was %s)", f->was ? f->was : "not there");
    }
    end_items(r, new);
    for (uint32_t i = 0; i < g->fixed.n; i++) {
        const struct fixed *f = &g->fixed.at[i];
        if (!begin_item(r, "fixed", i)) break;
        tool_put(r->out, f->name ? f->name : "the evidence");
        fprintf(r->out, " %s", f->is ? f->is : "gone");
        put_step(r, f->step);
        fprintf(r->out, " (was %s)", f->was);
    }
    end_items(r, g->fixed.n);
    if (!g->fixed.n) return;
    fprintf(r->out, "%9s# to hold that: ddpc check MODEL --format=json -o ", "");
    tool_put(r->out, g->baseline.file);
    fputc('\n', r->out);
}

void gate_text(const struct check_report *r) {
    if (r->g->policy.path) put_policy(r);
    if (r->g->baseline.file) put_baseline(r);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *text(const struct check_report *r, const char *s) {
    return s ? json_string(tool_utf8(&r->t->arena, s)) : json_null();
}

static json_t *step_json(const struct check_report *r, uint32_t step) {
    return step == ALL_STEPS ? json_null() : json_string(step_of(r, step));
}

static json_t *found(const struct check_report *r, const struct finding *f) {
    return json_pack("{s:o, s:o, s:s}", "parameter",
                     text(r, f->param == NO_PARAM ? NULL : name_of(r, f)), "step",
                     step_json(r, f->step), "class", gate_rule_name(f->rule));
}

static json_t *policy_json(const struct check_report *r) {
    const struct policy *p = &r->g->policy;
    if (!p->path) return json_null();
    json_t *allowed = json_array(), *unused = json_array();
    for (uint32_t i = 0; i < r->g->findings.n; i++) {
        const struct finding *f = &r->g->findings.at[i];
        if (!f->allowed) continue;
        json_t *o = found(r, f);
        json_object_set_new(o, "reason", text(r, f->allowed->reason));
        json_object_set_new(o, "line", json_integer(f->allowed->line));
        json_array_append_new(allowed, o);
    }
    for (uint32_t i = 0; i < p->allow.n; i++)
        if (!p->allow.at[i].used) json_array_append_new(unused, json_integer(p->allow.at[i].line));
    return json_pack("{s:o, s:o, s:o}", "file", text(r, p->path), "allowed", allowed, "unused",
                     unused);
}

static json_t *baseline_json(const struct check_report *r) {
    const struct gate *g = r->g;
    if (!g->baseline.file) return json_null();
    json_t *known = json_array(), *new = json_array(), *fixed = json_array();
    for (uint32_t i = 0; i < g->findings.n; i++) {
        const struct finding *f = &g->findings.at[i];
        json_t *o = found(r, f);
        json_object_set_new(o, "was", text(r, f->was));
        json_array_append_new(f->new ? new : known, o);
    }
    for (uint32_t i = 0; i < g->fixed.n; i++) {
        const struct fixed *f = &g->fixed.at[i];
        json_array_append_new(fixed, json_pack("{s:o, s:o, s:o, s:s}", "parameter",
                                               text(r, f->name), "step", step_json(r, f->step),
                                               "class", text(r, f->is), "was", f->was));
    }
    return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o}", "file", text(r, g->baseline.file), "verdict",
                     verdict_name(g->baseline.verdict), "evidence",
                     check_evidence_name(g->baseline.evidence), "known", known, "new", new, "fixed",
                     fixed);
}

void gate_json(const struct check_report *r, json_t *root) {
    json_object_set_new(root, "policy", policy_json(r));
    json_object_set_new(root, "baseline", baseline_json(r));
}
