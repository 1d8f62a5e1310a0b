/* A program without a graph.
 *
 * Whoever knows their gradients by other means - measured, or from a program that has no ONNX form
 * - lists them, and everything from the schedule on works as usual. The list states what the graph
 * would show: the class of each parameter through its guard, and when its gradient is ready.
 * Nothing proves it, so the evidence is `unknown`, while the list counts as complete: it is the
 * user's word.
 *
 * Without times, the gradients are taken to be ready in reverse order of the lines, as they are in
 * a plain chain of layers: all at time 0, and among equals the later declaration goes first.
 *
 * A guard is parsed by recursive descent straight into a decision diagram:
 *
 *     or   = and  { "||" and }
 *     and  = not  { "&&" not }
 *     not  = { "!" } ( "(" or ")" | "true" | "false" | NAME )
 *
 * where a NAME is a run of anything but blanks, quotes and the operators' characters, or stands in
 * double quotes. */
#include "from_list.h"
#include "glob.h"
#include "keyfile.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct program *p;
    const struct options *o;
    struct branches *b;
    struct lines lines;
    struct arena scratch;
    VEC(uint32_t) variable; /* by string: its branch + 1 */
    VEC(uint32_t) first;    /* by string: the line that lists it, or 0 */
    VEC(bdd) guard;         /* by parameter */
    VEC(double) us;
    bool timed;
};

/* ---- guards ---------------------------------------------------------------------------------- */

enum { MAX_GUARD_DEPTH = 200 };
#define MOST_US 1e12 /* eleven days */

struct guard {
    struct reader *r;
    const char *at, *end;
    uint32_t depth;
    const char *wrong; /* the first complaint */
};

static bdd parse_or(struct guard *g);

static void skip(struct guard *g) {
    while (g->at < g->end && isspace((unsigned char)*g->at)) g->at++;
}

static bool accept(struct guard *g, const char *token) {
    skip(g);
    size_t n = strlen(token);
    if ((size_t)(g->end - g->at) < n || memcmp(g->at, token, n) != 0) return false;
    g->at += n;
    return true;
}

static bdd complain(struct guard *g, const char *what) {
    if (!g->wrong) g->wrong = what;
    return BDD_FALSE;
}

static bool is_uniform(const struct program *p, const char *name) {
    for (uint32_t i = 0; i < p->uniform.n; i++)
        if (glob_match(p->uniform.at[i], name)) return true;
    return false;
}

static bdd branch_named(struct reader *r, const char *name, size_t length) {
    struct strtab *strings = &r->p->m->strings;
    str s = strtab_add(strings, name, length);
    while (r->variable.n <= s) vec_push(&r->variable, 0);
    if (!r->variable.at[s]) {
        struct branch new = {.name = strtab_text(strings, s)};
        new.uniform = is_uniform(r->p, new.name);
        vec_push(&r->b->all, new);
        r->variable.at[s] = r->b->all.n;
    }
    return bdd_var(r->b->bdd, r->variable.at[s] - 1);
}

static bdd parse_primary(struct guard *g) {
    if (accept(g, "(")) {
        if (++g->depth > MAX_GUARD_DEPTH) return complain(g, "too many parentheses");
        bdd inside = parse_or(g);
        g->depth--;
        return accept(g, ")") ? inside : complain(g, "a ')' is missing");
    }
    skip(g);
    const char *from = g->at;
    if (accept(g, "\"")) {
        const char *close = memchr(g->at, '"', (size_t)(g->end - g->at));
        if (!close) return complain(g, "a closing '\"' is missing");
        g->at = close + 1;
        return branch_named(g->r, from + 1, (size_t)(close - from - 1));
    }
    while (g->at < g->end && !isspace((unsigned char)*g->at) && !strchr("!&|()\"", *g->at)) g->at++;
    struct word w = {.text = from, .length = (size_t)(g->at - from)};
    if (!w.length) return complain(g, "a branch's name must stand here");
    if (word_is(w, "true")) return BDD_TRUE;
    if (word_is(w, "false")) return BDD_FALSE;
    return branch_named(g->r, w.text, w.length);
}

static bdd parse_not(struct guard *g) {
    bool negated = false;
    while (accept(g, "!")) negated = !negated;
    bdd f = parse_primary(g);
    return negated ? bdd_not(g->r->b->bdd, f) : f;
}

static bdd parse_and(struct guard *g) {
    bdd f = parse_not(g);
    while (!g->wrong && accept(g, "&&")) f = bdd_and(g->r->b->bdd, f, parse_not(g));
    return f;
}

static bdd parse_or(struct guard *g) {
    bdd f = parse_and(g);
    while (!g->wrong && accept(g, "||")) f = bdd_or(g->r->b->bdd, f, parse_and(g));
    return f;
}

static bool read_guard(struct reader *r, const char *name, struct word text, bdd *out) {
    struct guard g = {.r = r, .at = text.text, .end = text.text + text.length};
    *out = parse_or(&g);
    skip(&g);
    if (!g.wrong && g.at < g.end) g.wrong = "'&&' or '||' must stand here";
    if (!g.wrong) return true;
    int left = g.end - g.at < 40 ? (int)(g.end - g.at) : 40;
    struct diag *bad =
        lines_report(&r->lines, r->lines.number, DIAG_GUARD_SYNTAX,
                     "the guard of '%s' cannot be read %s%.*s%s: %s", name,
                     left ? "at '" : "at its end", left, g.at, left ? "'" : "", g.wrong);
    diag_set_help(r->lines.diags, bad, "as in `d_turn && !(skip || eval)`");
    return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Meant as a number, whether or not it can be read as one. */
static bool is_like_number(struct word w) {
    struct line rest = {w.text, w.text + w.length};
    if (w.length && (*rest.at == '-' || *rest.at == '+')) rest.at++;
    w = line_rest(&rest);
    if (word_is(w, "inf") || word_is(w, "infinity") || word_is(w, "nan") || word_is(w, "NaN"))
        return true;
    size_t i = 0;
    while (i < w.length && (isdigit((unsigned char)w.text[i]) || strchr(".eE+-xX", w.text[i]))) i++;
    return i == w.length && i && (isdigit((unsigned char)*w.text) || *w.text == '.');
}

/* Takes the next word if it is a number; NaN if it is one that no time can be, since as a branch's
 * name it would silently make the gradient a conditional one. */
static bool read_time(struct line *line, struct arena *a, double *us) {
    struct line ahead = *line;
    struct word w;
    double x;
    if (!line_word(&ahead, a, &w) || w.quoted) return false;
    bool number = keyfile_number(w.text, w.length, &x);
    if (!number && !is_like_number(w)) return false;
    *us = number && x <= MOST_US ? x : (double)NAN;
    *line = ahead;
    return true;
}

static bool read_line(struct reader *r, struct line line) {
    struct program *p = r->p;
    struct param new = {.loc = IR_NO_LOC, .kind = PARAM_PARAMETER};
    struct word w;
    line_word(&line, &r->scratch, &w);
    new.name = strtab_add(&p->m->strings, w.text, w.length);
    const char *name = ir_text(p->m, new.name);
    if (!lines_type(&r->lines, &line, &r->scratch, name, p->m, &new.type)) return false;
    new.dtype = ir_type_dtype(p->m, new.type);
    new.elements = ir_type_elements(p->m, new.type);
    if (!ir_dtype_carries_gradient(new.dtype)) {
        lines_report(&r->lines, r->lines.number, DIAG_LIST_SYNTAX,
                     "'%s' is %s, which has no gradients", name, ir_dtype_array(new.dtype));
        return false;
    }
    double us = 0;
    bool timed = read_time(&line, &r->scratch, &us);
    if (isnan(us)) {
        lines_report(&r->lines, r->lines.number, DIAG_LIST_SYNTAX,
                     "the ready time of '%s' is no number of µs from 0 to %g", name, MOST_US);
        return false;
    }
    if (p->params.n == 0) r->timed = timed;
    if (timed != r->timed) {
        lines_report(&r->lines, r->lines.number, DIAG_LIST_SYNTAX,
                     "'%s' has %s, unlike the lines before: either all have one or none has", name,
                     timed ? "a ready time" : "no ready time");
        return false;
    }
    bdd guard = BDD_TRUE;
    struct word rest = line_rest(&line);
    if (rest.length && !read_guard(r, name, rest, &guard)) return false;
    while (r->first.n <= new.name) vec_push(&r->first, 0);
    if (r->first.at[new.name]) {
        lines_report(&r->lines, r->lines.number, DIAG_LIST_DUPLICATE,
                     "'%s' is listed twice; first on line %u", name, r->first.at[new.name]);
        return false;
    }
    r->first.at[new.name] = r->lines.number;
    vec_push(&p->params, new);
    vec_push(&r->guard, guard);
    vec_push(&r->us, us);
    return true;
}

/* ---- what reach and order would find --------------------------------------------------------- */

/* The globs of a flag, for the parameters that they match; false after reporting one that matches
 * none. */
static bool match_globs(const struct reader *r, const string_list *globs, const char *flag,
                        bool *matched) {
    const struct program *p = r->p;
    bool ok = true;
    for (uint32_t k = 0; k < globs->n; k++) {
        bool any = false;
        for (uint32_t i = 0; i < p->params.n; i++) {
            if (!glob_match(globs->at[k], ir_text(p->m, p->params.at[i].name))) continue;
            matched[i] = any = true;
        }
        if (any) continue;
        diag_plain(r->lines.diags, DIAG_UNKNOWN_NAME, flag, "'%s' matches no parameter of the list",
                   globs->at[k]);
        ok = false;
    }
    return ok;
}

static void classify(struct reader *r, const struct step *step, struct reach *out) {
    struct program *p = r->p;
    *out = (struct reach){.gradient = arena_new(&p->arena, struct gradient, p->params.n),
                          .node_active = arena_new(&p->arena, bool, p->m->node.n),
                          .ref_flows = arena_new(&p->arena, bool, p->m->ref_value.n),
                          .exact_budget = true};
    for (uint32_t i = 0; i < p->params.n; i++) {
        struct gradient *g = &out->gradient[i];
        bdd f = r->guard.at[i];
        bool overflow = f == BDD_OVERFLOW;
        if (overflow) out->exact_budget = false;
        g->must = overflow ? BDD_FALSE : f;
        g->may = overflow ? BDD_TRUE : f;
        g->exact = !overflow;
        g->contributions = f != BDD_FALSE;
        g->loc = g->guard_loc = IR_NO_LOC;
        g->class = step->frozen[i]       ? GRAD_FROZEN
                   : g->must == BDD_TRUE ? GRAD_ALWAYS
                   : g->may == BDD_FALSE ? GRAD_NEVER
                                         : GRAD_CONDITIONAL;
        const char *says = "has no guard";
        if (g->class == GRAD_FROZEN) says = "is not among what trains";
        if (g->class == GRAD_NEVER) says = "has a guard that is never true";
        if (g->class == GRAD_CONDITIONAL) {
            g->guard = branches_text(r->b, g->may, &p->arena);
            g->guard_words = arena_printf(&p->arena, "when %s", g->guard);
            says = arena_printf(&p->arena, "only when %s", g->guard);
        }
        g->reason = arena_printf(&p->arena, "%s (%s)", says, r->o->from_list);
    }
}

/* qsort has no context: sort keys that carry what they compare. */
struct due {
    double us;
    uint32_t param;
};

static int earlier(const void *a, const void *b) {
    const struct due *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->param > y->param ? -1 : x->param < y->param;
}

static void order(struct reader *r, const struct reach *reach, struct ready_times *out) {
    struct program *p = r->p;
    *out = (struct ready_times){.us = arena_new(&p->arena, double, p->params.n),
                                .order = arena_new(&p->arena, uint32_t, p->params.n)};
    struct due *due = arena_new(&r->scratch, struct due, p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++) {
        enum grad_class class = reach->gradient[i].class;
        if (class != GRAD_ALWAYS && class != GRAD_CONDITIONAL) continue;
        due[out->n++] = (struct due){r->us.at[i], i};
        out->us[i] = r->us.at[i];
        if (out->backward_us < r->us.at[i]) out->backward_us = r->us.at[i];
    }
    if (out->n) qsort(due, out->n, sizeof *due, earlier);
    for (uint32_t i = 0; i < out->n; i++) out->order[i] = due[i].param;
}

/* Flags that ask something of a graph. */
static bool check_flags(const struct options *o, struct diags *d) {
    const struct {
        const char *flag;
        bool given;
    } graph_flags[] = {
        {"--loss", o->loss.n},
        {"--assume", o->assume.n},
        {"--tie", o->tie.n},
        {"--alias", o->alias.n},
        {"--step", o->step.n},
        {"--dim", o->dim.n},
        {"--params", o->params},
        {"--ops", o->ops},
        {"--params-from", o->params_from},
        {"--profile", o->profile},
        {"--device", o->device},
        {"--assume-differentiable", o->assume_differentiable.n},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof graph_flags / sizeof *graph_flags; i++) {
        if (!graph_flags[i].given) continue;
        diag_plain(d, DIAG_NEEDS_GRAPH, graph_flags[i].flag,
                   "needs a graph, and with --from-list there is none");
        ok = false;
    }
    return ok;
}

static bool read_all(struct reader *r, struct step *step) {
    struct program *p = r->p;
    bool ok = true;
    for (struct line line; lines_next(&r->lines, &line);) ok &= read_line(r, line);
    if (ok && !p->params.n) {
        diag_plain(r->lines.diags, DIAG_LIST_SYNTAX, r->o->from_list, "the list has no parameter");
        ok = false;
    }
    bool *chosen = arena_new(&r->scratch, bool, p->params.n);
    ok = ok && match_globs(r, &r->o->trainable, "--trainable", chosen);
    step->frozen = arena_new(&p->arena, bool, p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++) step->frozen[i] = r->o->trainable.n && !chosen[i];
    return ok && match_globs(r, &r->o->frozen, "--frozen", step->frozen);
}

bool from_list_read(struct program *p, struct ir_module *m, const struct options *o,
                    struct branches *b, struct reach *reach, struct ready_times *ready,
                    struct diags *d) {
    *p = (struct program){
        .m = m, .complete = true, .evidence = EVIDENCE_UNKNOWN, .basis = "unknown"};
    struct reader r = {.p = p, .o = o, .b = b};
    struct step step = {.name = strtab_addz(&m->strings, "train")};
    if (!check_flags(o, d) || !lines_open(&r.lines, o->from_list, "list", d)) return false;
    for (uint32_t i = 0; i < o->uniform.n; i++) vec_push(&p->uniform, o->uniform.at[i]);

    bool ok = read_all(&r, &step);
    if (ok) {
        p->param_of = arena_new(&p->arena, uint32_t, m->value.n);
        vec_push(&p->steps, step);
        classify(&r, &step, reach);
        order(&r, reach, ready);
    }
    lines_close(&r.lines);
    vec_free(&r.variable);
    vec_free(&r.first);
    vec_free(&r.guard);
    vec_free(&r.us);
    arena_free(&r.scratch);
    return ok;
}
