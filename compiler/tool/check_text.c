/* `ddpc check` in text: the verdict first, then what to paste, then why, then the basis.
 *
 *     VERDICT  flag not needed, after freezing 2 parameters
 *     PASTE    for n in ["pooler.dense.weight", "pooler.dense.bias"]: model.get_parameter(n)...
 *     WHY      pooler.dense.*  never: feeds only output pooler_output, which is not a loss
 * (m.ir:88) BASIS    proved; 199 of 201 parameters always, 2 never, 0 conditional
 *
 * What stands under PASTE is Python for plain DDP, with the spellings of the wrappers around it as
 * comments. WHY says a thing once: neighbours of one module that share class and reason share a
 * line. A program of several steps has its steps' sections between, with what to toggle before
 * each. */
#include "check.h"
#include <string.h>

enum { MAX_WHY = 40, NAMES_IN_GROUP = 3 };

struct report {
    struct tool *t;
    struct compilation *c;
    const struct advices *a;
    FILE *out;
    const char *heading; /* of the section; NULL once it is printed */
};

static void section(struct report *r, const char *heading) { r->heading = heading; }

/* Starts a line of the section. */
static FILE *line(struct report *r) {
    fprintf(r->out, "%-9s", r->heading ? r->heading : "");
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

/* A list of strings in Python. */
static void put_names(struct report *r, const uint32_t *params, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        fputs(i ? ", \"" : "[\"", r->out);
        for (const char *p = check_param_name(r->t, r->c, params[i]); *p; p++) {
            if ((unsigned char)*p < ' ' || *p == 0x7f) {
                fprintf(r->out, "\\x%02x", (unsigned)*p);
                continue;
            }
            if (*p == '"' || *p == '\\') fputc('\\', r->out);
            fputc(*p, r->out);
        }
        fputc('"', r->out);
    }
    fputc(']', r->out);
}

/* ---- VERDICT -------------------------------------------------------------------------------- */

static void put_verdict(struct report *r, const struct advice *a) {
    const struct program *p = &r->c->program;
    switch (a->verdict) {
    case VERDICT_UNKNOWN: fprintf(r->out, "unknown: %s\n", p->incomplete_because); break;
    case VERDICT_NEEDED:
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

/* ---- PASTE ---------------------------------------------------------------------------------- */

static void put_freeze(struct report *r, const struct advice *a) {
    if (!a->freeze.n) return;
    fputs("for n in ", line(r));
    put_names(r, a->freeze.at, a->freeze.n);
    fputs(": model.get_parameter(n).requires_grad_(False)\n", r->out);
}

static void put_flags(struct report *r, const struct advice *a) {
    switch (a->verdict) {
    case VERDICT_UNKNOWN:
        if (r->t->options.params) {
            fprintf(line(r), "# the warnings name candidates: --alias EXPORTED=REAL\n");
            break;
        }
        fputs("for n, p in model.named_parameters(): print(n, str(p.dtype)[6:], list(p.shape), "
              "p.requires_grad)\n",
              line(r));
        fputs("# into params.txt; then: ddpc check MODEL --params params.txt\n", line(r));
        break;
    case VERDICT_NEEDED:
        fputs("DistributedDataParallel(model, find_unused_parameters=True)\n", line(r));
        fputs("# Trainer: TrainingArguments(ddp_find_unused_parameters=True)\n", line(r));
        fputs("# accelerate: DistributedDataParallelKwargs(find_unused_parameters=True)\n",
              line(r));
        fputs("# Lightning: Trainer(strategy=\"ddp_find_unused_parameters_true\")\n", line(r));
        fputs("# or without the flag, by a plan that knows the conditions: ddpc MODEL -o PLAN\n",
              line(r));
        break;
    case VERDICT_NOT_NEEDED:
        fprintf(line(r), "DistributedDataParallel(model)%s\n",
                a->static_graph ? "  # static_graph=True is safe too" : "");
        fputs("# Trainer: TrainingArguments(ddp_find_unused_parameters=False)\n", line(r));
        fputs("# accelerate and Lightning (strategy=\"ddp\"): as they are\n", line(r));
    }
    if (a->verdict == VERDICT_NOT_NEEDED && a->returned.n)
        fprintf(line(r),
                "# static_graph=True only with them frozen: a returned output depends on %s%s\n",
                param_name(r, a->returned.at[0]), a->returned.n > 1 ? " and others" : "");
}

/* Parameters that rest in this step and train in another: to be frozen for its duration. */
static void put_toggle(struct report *r, uint32_t s) {
    const struct program *p = &r->c->program;
    VEC(uint32_t) resting = {0};
    for (uint32_t i = 0; i < p->params.n; i++) {
        enum grad_class class = r->c->reach[s].gradient[i].class;
        bool rests = class == GRAD_NEVER || class == GRAD_FROZEN;
        if (p->params.at[i].kind == PARAM_PARAMETER && rests && r->a->class[i] == GRAD_CONDITIONAL)
            vec_push(&resting, i);
    }
    if (resting.n) {
        fputs("for n in ", line(r));
        put_names(r, resting.at, resting.n);
        fprintf(
            r->out,
            ": model.get_parameter(n).requires_grad_(False)  # in step %s; True again after it\n",
            step_name(r, s));
    }
    vec_free(&resting);
}

/* ---- WHY ------------------------------------------------------------------------------------ */

/* Bytes of the module's part of a name, its last dot included; 0 for a name without one. */
static size_t module_of(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) + 1 : 0;
}

/* What neighbours may share: the guard, since the reason of a conditional parameter also names its
 * own first use. */
static const char *why(const struct gradient *g) { return g->guard ? g->guard : g->reason; }

static bool same_module(const struct report *r, uint32_t i, uint32_t k) {
    const struct program *p = &r->c->program;
    if (k >= p->params.n) return false;
    const char *x = ir_text(p->m, p->params.at[i].name), *y = ir_text(p->m, p->params.at[k].name);
    return module_of(x) == module_of(y) && memcmp(x, y, module_of(x)) == 0;
}

static bool same_group(const struct report *r, uint32_t s, uint32_t i, uint32_t k) {
    const struct program *p = &r->c->program;
    const struct gradient *a = &r->c->reach[s].gradient[i], *b = &r->c->reach[s].gradient[k];
    if (p->params.at[k].kind != PARAM_PARAMETER || a->class != b->class) return false;
    if (strcmp(why(a), why(b)) != 0) return false;
    return same_module(r, i, k);
}

/* `a.b.*` for all of a module, else names. */
static void put_group(struct report *r, uint32_t first, uint32_t n) {
    const char *name = param_name(r, first);
    bool whole = !(first && same_module(r, first, first - 1)) && !same_module(r, first, first + n);
    if (n > 1 && whole && module_of(name)) {
        fprintf(r->out, "%.*s*", (int)module_of(name), name);
        return;
    }
    for (uint32_t i = 0; i < n && i < NAMES_IN_GROUP; i++)
        fprintf(r->out, "%s%s", i ? ", " : "", param_name(r, first + i));
    if (n > NAMES_IN_GROUP) fprintf(r->out, " and %u more", n - NAMES_IN_GROUP);
}

static void put_place(struct report *r, ir_loc loc) {
    if (loc == IR_NO_LOC) return;
    uint32_t at, column;
    source_position(&r->c->source, loc, &at, &column);
    fprintf(r->out, " (%s:%u)", shown(r, r->c->source.name), at);
}

static void put_why(struct report *r, uint32_t s) {
    const struct program *p = &r->c->program;
    uint32_t lines = 0, left = 0;
    for (uint32_t i = 0, n; i < p->params.n; i += n) {
        const struct gradient *g = &r->c->reach[s].gradient[i];
        n = 1;
        if (p->params.at[i].kind != PARAM_PARAMETER) continue;
        if (g->class != GRAD_NEVER && g->class != GRAD_CONDITIONAL) continue;
        while (i + n < p->params.n && same_group(r, s, i, i + n)) n++;
        if (lines++ >= MAX_WHY) {
            left++;
            continue;
        }
        line(r);
        put_group(r, i, n);
        fprintf(r->out, "  %s: %s%s", grad_class_name(g->class), g->guard ? "only when " : "",
                shown(r, why(g)));
        if (g->guard && !g->exact) fputs(", and not always then", r->out);
        put_place(r, g->loc);
        fputc('\n', r->out);
    }
    if (left) fprintf(line(r), "... and %u more; --format=json has them all\n", left);
    if (!lines && r->a->n_steps == 1 && r->a->all.parameters)
        fprintf(line(r), "every %sparameter%s reaches the loss in every execution\n",
                r->a->all.count[GRAD_FROZEN] ? "trained " : "",
                p->complete ? "" : " that the model shows");
}

/* ---- BASIS ---------------------------------------------------------------------------------- */

static void put_counts(struct report *r, const struct advice *a) {
    fprintf(r->out, "%u of %u parameter%s always, %u never, %u conditional", a->count[GRAD_ALWAYS],
            a->parameters, plural(a->parameters), a->count[GRAD_NEVER], a->count[GRAD_CONDITIONAL]);
    if (a->count[GRAD_FROZEN]) fprintf(r->out, ", %u frozen", a->count[GRAD_FROZEN]);
    fputc('\n', r->out);
}

static void put_steps(struct report *r) {
    for (uint32_t s = 0; s < r->a->n_steps; s++) {
        section(r, "STEP");
        fprintf(line(r), "%s: ", step_name(r, s));
        put_verdict(r, &r->a->step[s]);
        line(r);
        put_counts(r, &r->a->step[s]);
        put_why(r, s);
    }
}

void check_text(struct tool *t, struct compilation *c, const struct advices *a, FILE *out) {
    struct report r = {t, c, a, out, NULL};
    const struct program *p = &c->program;
    bool several = a->n_steps > 1;
    section(&r, "VERDICT");
    line(&r);
    put_verdict(&r, &a->all);
    section(&r, "PASTE");
    put_freeze(&r, &a->all);
    put_flags(&r, &a->all);
    for (uint32_t s = 0; several && s < a->n_steps; s++) put_toggle(&r, s);
    if (several) {
        put_steps(&r);
    } else {
        section(&r, "WHY");
        put_why(&r, 0);
    }
    section(&r, "BASIS");
    fprintf(line(&r), "%s; ",
            p->observed ? shown(&r, p->observed) : check_evidence_name(p->evidence));
    put_counts(&r, &a->all);
}
