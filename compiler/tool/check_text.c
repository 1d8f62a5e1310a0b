/* `ddpc check` in text: the verdict first, then what to paste, then the loss, why, and the basis.
 *
 *     VERDICT  flag not needed, after freezing 1 parameter
 *     PASTE    for n in ["pooler.weight"]: model.get_parameter(n).requires_grad_(False)
 *     LOSS     loss (the only scalar output)
 *     WHY      pooler.weight  never: nothing reads it (m.ir:88)
 *     BASIS    proved; 200 of 201 parameters always, 1 never, 0 conditional
 *
 * What stands under PASTE is Python for plain DDP, with the spellings of the wrappers around it as
 * comments. WHY says a thing once: neighbours of one module that share class and reason share a
 * line. A program of several steps has its steps' sections between, with what to toggle before
 * each. */
#include "check.h"
#include "modules.h"
#include <string.h>

enum { MAX_WHY = 40, MAX_NOT_TAKEN = 5, NAMES_IN_GROUP = 3, NAMES_IN_PASTE = 6 };

struct report {
    const struct check_report *report;
    struct tool *t;
    struct compilation *c;
    const struct advices *a;
    FILE *out;
    const char *heading; /* of the section; NULL once it is printed */
    bool bare;           /* no headings, no room for them */
};

static void section(struct report *r, const char *heading) { r->heading = heading; }

/* Starts a line of the section, in the ninth column or behind the heading. */
static FILE *line(struct report *r) {
    if (!r->bare) fprintf(r->out, "%-8s ", r->heading ? r->heading : "");
    r->heading = NULL;
    return r->out;
}

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

/* Text of the model's on a terminal: control characters become '?'. */
static const char *shown(struct report *r, const char *text) {
    char *copy = arena_printf(&r->t->arena, "%s", tool_utf8(&r->t->arena, text));
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
    return copy;
}

static const char *param_name(struct report *r, uint32_t param) {
    return shown(r, ir_text(r->c->program.m, r->c->program.params.at[param].name));
}

static const char *step_name(struct report *r, uint32_t s) {
    return shown(r, ir_text(r->c->program.m, r->c->program.steps.at[s].name));
}

/* A string of Python: the first `length` bytes of a text. */
static void put_string(struct report *r, const char *text, size_t length) {
    fputc('"', r->out);
    for (const char *p = text; p < text + length; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) {
            fprintf(r->out, "\\x%02x", (unsigned)*p);
            continue;
        }
        if (*p == '"' || *p == '\\') fputc('\\', r->out);
        fputc(*p, r->out);
    }
    fputc('"', r->out);
}

/* ---- VERDICT --------------------------------------------------------------------------------- */

/* Only which step it is makes the flag necessary. */
static bool only_steps(const struct report *r, const struct advice *a) {
    for (uint32_t s = 0; s < r->a->n_steps; s++)
        if (r->a->step[s].verdict != VERDICT_NOT_NEEDED) return false;
    return a->by_step && a->by_step == a->count[GRAD_CONDITIONAL];
}

static void put_verdict(struct report *r, const struct advice *a) {
    const char *unknown = check_unknown_because(&r->c->program, a);
    switch (a->verdict) {
    case VERDICT_UNKNOWN:
        fprintf(r->out, "%s%s\n", a->nothing_trains ? "" : "unknown: ", unknown);
        break;
    case VERDICT_NEEDED:
        if (only_steps(r, a)) {
            fprintf(r->out,
                    "flag needed: each step alone needs no flag; one wrapper over %s does\n",
                    r->a->n_steps == 2 ? "both" : "all of them");
            break;
        }
        fprintf(r->out, "flag needed: %u of %u parameters have a gradient in some %s only\n",
                a->count[GRAD_CONDITIONAL], a->parameters,
                a == &r->a->all && r->a->n_steps > 1 ? "steps or executions" : "executions");
        break;
    case VERDICT_NOT_NEEDED:
        if (a->freeze.n)
            fprintf(r->out, "flag not needed, after freezing %u parameter%s\n", a->freeze.n,
                    plural(a->freeze.n));
        else
            fprintf(r->out, "flag not needed\n");
    }
}

/* ---- PASTE ----------------------------------------------------------------------------------- */

/* `for n in ["a", "b"]: model.get_parameter(n)` and so on for the groups of one sort: whole modules
 * or single parameters. */
static void put_loop(struct report *r, const struct module_group *groups, uint32_t n, bool modules,
                     const char *comment) {
    const char *separator = "for n in [";
    for (uint32_t i = 0; i < n; i++) {
        if (!groups[i].prefix == modules) continue;
        if (*separator == 'f') line(r);
        for (uint32_t k = 0; k < (modules ? 1 : groups[i].n); k++) {
            const char *name = check_param_name(r->t, r->c, groups[i].first + k);
            fputs(separator, r->out);
            put_string(r, name, modules ? groups[i].prefix - 1 : strlen(name));
            separator = ", ";
        }
    }
    if (*separator == 'f') return;
    const char *module = r->c->program.module;
    fprintf(r->out, "]: %s.%s(n).requires_grad_(False)%s\n", module ? module : "model",
            modules ? "get_submodule" : "get_parameter", comment);
}

/* What sets requires_grad of the chosen parameters; chosen[i] is NULL for buffers, "yes" or "". Few
 * are named one by one, many by their modules. */
static void put_freeze(struct report *r, const char *const *chosen, const char *comment) {
    const struct program *p = &r->c->program;
    VEC(struct module_group) groups = {0};
    uint32_t total = 0;
    for (uint32_t i = 0; i < p->params.n; i++) total += chosen[i] && *chosen[i];
    for (uint32_t i = 0; i < p->params.n; i++) {
        if (!chosen[i] || !*chosen[i]) continue;
        struct module_group one = {i, 1, 0};
        if (total > NAMES_IN_PASTE) one = modules_group(p, chosen, i);
        vec_push(&groups, one);
        i += one.n - 1;
    }
    put_loop(r, groups.at, groups.n, true, comment);
    put_loop(r, groups.at, groups.n, false, comment);
    vec_free(&groups);
}

static const char **choose_none(struct report *r) {
    const struct program *p = &r->c->program;
    const char **chosen = arena_new(&r->t->arena, const char *, p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++)
        chosen[i] = p->params.at[i].kind == PARAM_BUFFER ? NULL : "";
    return chosen;
}

static void put_frozen(struct report *r, const struct advice *a) {
    const char **chosen = choose_none(r);
    for (uint32_t i = 0; i < a->freeze.n; i++) chosen[a->freeze.at[i]] = "yes";
    put_freeze(r, chosen, "");
    uint32_t unread = 0;
    for (uint32_t i = 0; i < a->freeze.n; i++)
        unread += !r->c->reach[0].gradient[a->freeze.at[i]].uses;
    if (unread && r->c->program.not_taken.n)
        fputs("# but not what only a branch under NOT TAKEN uses: give a batch that takes it\n",
              line(r));
}

static void put_flags(struct report *r, const struct advice *a) {
    switch (a->verdict) {
    case VERDICT_UNKNOWN:
        if (a->nothing_trains) {
            fprintf(line(r), "# nothing: DistributedDataParallel refuses a module without "
                             "trainable parameters\n");
            break;
        }
        if (r->t->options.params && r->c->program.export_again) {
            fprintf(line(r), "# nothing yet: %s\n", r->c->program.export_again);
            break;
        }
        if (r->t->options.params) {
            fprintf(line(r), "# the warnings say what does not agree; for a renamed one: --alias "
                             "EXPORTED=REAL\n");
            break;
        }
        fputs("names = model.state_dict(keep_vars=True).items()\n", line(r));
        fputs("for n, p in model.named_parameters(): print(n, str(p.dtype)[6:], list(p.shape), "
              "p.requires_grad, *[k for k, q in names if q is p and k != n])\n",
              line(r));
        fputs("# into params.txt; then: ddpc check MODEL --params params.txt\n", line(r));
        break;
    case VERDICT_NEEDED:
        fputs("DistributedDataParallel(model, find_unused_parameters=True)\n", line(r));
        fputs("# Trainer: TrainingArguments(ddp_find_unused_parameters=True)\n", line(r));
        fputs("# accelerate: Accelerator(kwargs_handlers=[DistributedDataParallelKwargs("
              "find_unused_parameters=True)])\n",
              line(r));
        fputs("# Lightning: Trainer(strategy=\"ddp_find_unused_parameters_true\")\n", line(r));
        if (only_steps(r, a))
            fputs(
                "# or, without the flag, one DistributedDataParallel around each step's modules\n",
                line(r));
        break;
    case VERDICT_NOT_NEEDED:
        fprintf(line(r), "DistributedDataParallel(model)%s\n",
                a->static_graph ? "  # static_graph=True is safe too" : "");
        fputs("# Trainer: TrainingArguments(ddp_find_unused_parameters=False)\n", line(r));
        fputs("# accelerate and Lightning (strategy=\"ddp\"): as they are\n", line(r));
        if (r->c->program.traced)
            fputs("# check once, after a backward: [n for n, p in model.named_parameters() if "
                  "p.requires_grad and p.grad is None] must be []\n",
                  line(r));
    }
    const char *walk = check_walk_text(r->report),
               *buckets = check_buckets_text(r->report, 0, false);
    if (walk) fprintf(line(r), "# %s\n", walk);
    if (buckets && r->a->n_steps == 1 && a->verdict != VERDICT_UNKNOWN)
        fprintf(line(r), "# %s\n", buckets);
    if (a->verdict == VERDICT_NOT_NEEDED && a->returned.n &&
        r->c->program.evidence != EVIDENCE_OBSERVED)
        fprintf(line(r),
                "# static_graph=True only with them frozen: a returned output depends on %s%s\n",
                param_name(r, a->returned.at[0]), a->returned.n > 1 ? " and others" : "");
}

/* Parameters that rest in this step and train in another: to be frozen for its duration. */
static void put_toggle(struct report *r, uint32_t s) {
    const struct program *p = &r->c->program;
    const char **chosen = choose_none(r);
    for (uint32_t i = 0; i < p->params.n; i++) {
        enum grad_class class = r->c->reach[s].gradient[i].class;
        bool rests = class == GRAD_NEVER || class == GRAD_FROZEN;
        if (chosen[i] && rests && r->a->class[i] == GRAD_CONDITIONAL) chosen[i] = "yes";
    }
    put_freeze(r, chosen,
               arena_printf(&r->t->arena, "  # in step %s; True again after it", step_name(r, s)));
}

/* ---- WHY ------------------------------------------------------------------------------------- */

/* What is said of a group: the guard, since the reason of a conditional parameter also names its
 * own first use. */
static const char *why(const struct gradient *g) { return g->guard ? g->guard_words : g->reason; }

/* What neighbours share: that, but for the line of a recorded program. */
static const char *why_key(struct report *r, const struct gradient *g) {
    struct ir_source source;
    const char *text = why(g), *at;
    if (!ir_node_source(r->c->program.m, g->source, &source)) return text;
    if (!(at = strstr(text, source.text))) return text;
    return arena_printf(&r->t->arena, "%.*s%s", (int)(at - text), text, at + strlen(source.text));
}

/* Whether all of a group give the first one's reason. */
static bool same_why(const struct gradient *g, const char *const *key, uint32_t n) {
    for (uint32_t i = 1; i < n; i++)
        if (key[i] && strcmp(why(g), why(&g[i])) != 0) return false;
    return true;
}

/* A guard that is always true says nothing: that some executions have no gradient depends on no
 * branch alone, as in a loop of unknown length. */
static bool says_nothing(const struct gradient *g) { return g->guard && g->may == BDD_TRUE; }

/* `a.b.*` for all of a module, else names. */
static void put_group(struct report *r, struct module_group g) {
    if (g.prefix) {
        fprintf(r->out, "%.*s*", (int)g.prefix, param_name(r, g.first));
        return;
    }
    for (uint32_t i = 0; i < g.n && i < NAMES_IN_GROUP; i++)
        fprintf(r->out, "%s%s", i ? ", " : "", param_name(r, g.first + i));
    if (g.n > NAMES_IN_GROUP) fprintf(r->out, " and %u more", g.n - NAMES_IN_GROUP);
}

/* Where to look: a line of the program that was recorded, if the reason does not name it, else one of
 * the model. That a recording declares a parameter says nothing. */
static void put_place(struct report *r, const struct gradient *g, const struct param *param) {
    struct ir_source source;
    if (ir_node_source(r->c->program.m, g->source, &source)) {
        if (g->guard || !strstr(g->reason, source.text))
            fprintf(r->out, " (%s)", shown(r, source.text));
        return;
    }
    ir_loc loc = g->guard_loc != IR_NO_LOC ? g->guard_loc : g->loc;
    bool recorded = r->c->program.evidence == EVIDENCE_OBSERVED && !r->c->program.traced;
    if (loc == IR_NO_LOC || (recorded && loc == param->loc)) return;
    uint32_t at, column;
    if (r->c->source.binary) {
        fprintf(r->out, " (%s)", shown(r, source_path(&r->c->source, loc, &r->t->arena)));
        return;
    }
    source_position(&r->c->source, loc, &at, &column);
    fprintf(r->out, " (%s:%u)", shown(r, r->c->source.name), at);
}

static void put_why(struct report *r, uint32_t s) {
    const struct program *p = &r->c->program;
    const struct gradient *gradient = r->c->reach[s].gradient;
    const char **key = choose_none(r);
    for (uint32_t i = 0; i < p->params.n; i++)
        if (key[i] && (gradient[i].class == GRAD_NEVER || gradient[i].class == GRAD_CONDITIONAL))
            key[i] = why_key(r, &gradient[i]);
    uint32_t lines = 0, left = 0;
    for (uint32_t i = 0; i < p->params.n; i++) {
        if (!key[i] || !*key[i]) continue;
        struct module_group group = modules_group(p, key, i);
        const struct gradient *g = &gradient[i];
        i += group.n - 1;
        if (lines++ >= MAX_WHY) {
            left++;
            continue;
        }
        line(r);
        put_group(r, group);
        if (says_nothing(g))
            fprintf(r->out, "  %s: in some executions, which no branch alone tells apart",
                    grad_class_name(g->class));
        else
            fprintf(r->out, "  %s: %s%s",
                    p->params.at[i + 1 - group.n].unsure && g->class == GRAD_NEVER
                        ? "unknown"
                        : grad_class_name(g->class),
                    g->guard ? "only " : "", shown(r, why(g)));
        if (g->guard && !g->exact && !says_nothing(g)) fputs(", and not always then", r->out);
        if (!same_why(g, &key[i + 1 - group.n], group.n)) fputs("; the others alike", r->out);
        put_place(r, g, &p->params.at[i + 1 - group.n]);
        fputc('\n', r->out);
    }
    if (left) fprintf(line(r), "... and %u more; --format=json has them all\n", left);
    if (!lines && r->a->n_steps == 1 && r->a->all.parameters && !r->a->all.nothing_trains)
        fprintf(line(r), "every %sparameter%s reaches the loss in %s\n",
                r->a->all.count[GRAD_FROZEN] ? "trained " : "",
                p->complete ? "" : " that the model shows",
                p->evidence == EVIDENCE_OBSERVED ? "what was observed" : "every execution");
}

/* ---- NOT TAKEN ------------------------------------------------------------------------------- */

static void put_not_taken(struct report *r) {
    const string_list *not_taken = &r->c->program.not_taken;
    if (!not_taken->n) return;
    section(r, "NOT TAKEN");
    fprintf(line(r), "%u Python branch%s that no batch took\n", not_taken->n,
            not_taken->n == 1 ? "" : "es");
    for (uint32_t i = 0; i < not_taken->n && i < MAX_NOT_TAKEN; i++)
        fprintf(line(r), "%s\n", shown(r, not_taken->at[i]));
    if (not_taken->n > MAX_NOT_TAKEN)
        fprintf(line(r), "... and %u more; --format=json has them all\n",
                not_taken->n - MAX_NOT_TAKEN);
}

/* ---- LOSS ------------------------------------------------------------------------------------ */

static void put_loss(struct report *r, uint32_t s) {
    const struct step *step = &r->c->program.steps.at[s];
    if (!step->losses.n) return; /* a list has none */
    section(r, "LOSS");
    line(r);
    for (uint32_t i = 0; i < step->losses.n; i++)
        fprintf(r->out, "%s%s", i ? " + " : "",
                shown(r, ir_value_name(r->c->program.m, step->losses.at[i])));
    if (step->loss_because) fprintf(r->out, " (%s)", step->loss_because);
    fputc('\n', r->out);
}

/* ---- BASIS ----------------------------------------------------------------------------------- */

static void put_counts(struct report *r, const struct advice *a) {
    fprintf(r->out, "%u of %u parameter%s always, %u never, %u conditional", a->count[GRAD_ALWAYS],
            a->parameters, plural(a->parameters), a->count[GRAD_NEVER] - a->unsure,
            a->count[GRAD_CONDITIONAL] - a->by_step);
    if (a->unsure) fprintf(r->out, ", %u unknown", a->unsure);
    if (a->by_step) fprintf(r->out, ", %u in some steps only", a->by_step);
    if (a->count[GRAD_FROZEN]) fprintf(r->out, ", %u frozen", a->count[GRAD_FROZEN]);
    fputc('\n', r->out);
}

/* They are for the times of a plan, not for what is said here. */
static void put_unknown_shapes(struct report *r) {
    uint32_t unknown = types_unknown_shapes(&r->c->module);
    bool recorded = r->c->program.evidence == EVIDENCE_OBSERVED && !r->c->program.traced;
    if (unknown && !recorded)
        fprintf(line(r), "the shapes of %u node%s are not known, and with them their times\n",
                unknown, plural(unknown));
}

static void put_steps(struct report *r) {
    for (uint32_t s = 0; s < r->a->n_steps; s++) {
        section(r, "STEP");
        fprintf(line(r), "%s: ", step_name(r, s));
        put_verdict(r, &r->a->step[s]);
        line(r);
        put_counts(r, &r->a->step[s]);
        put_loss(r, s);
        section(r, "WHY");
        put_why(r, s);
    }
}

static void put_paste(struct report *r) {
    put_frozen(r, &r->a->all);
    put_flags(r, &r->a->all);
    for (uint32_t s = 0; r->a->n_steps > 1 && s < r->a->n_steps; s++) put_toggle(r, s);
}

void check_verdict(const struct check_report *report, const struct advice *a) {
    struct report r = {report, report->t, report->c, report->a, report->out, NULL, true};
    put_verdict(&r, a);
}

void check_paste(const struct check_report *report) {
    struct report r = {report, report->t, report->c, report->a, report->out, NULL, true};
    put_paste(&r);
}

void check_text(const struct check_report *report) {
    const struct advices *a = report->a;
    const struct program *p = &report->c->program;
    struct report r = {report, report->t, report->c, a, report->out, NULL, false};
    bool several = a->n_steps > 1;
    section(&r, "VERDICT");
    line(&r);
    put_verdict(&r, &a->all);
    section(&r, "PASTE");
    put_paste(&r);
    if (several) {
        put_steps(&r);
    } else {
        put_loss(&r, 0);
        section(&r, "WHY");
        put_why(&r, 0);
    }
    section(&r, "BASIS");
    fprintf(line(&r), "%s; ", shown(&r, p->basis));
    put_counts(&r, &a->all);
    put_unknown_shapes(&r);
    put_not_taken(&r);
    gate_text(report);
}
