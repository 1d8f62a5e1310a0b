/* The sentences on the page of `ddpc report`. */
#define _POSIX_C_SOURCE 200809L
#include "page.h"
#include "svg.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 12, MOST_SENTENCES = 40 };

/* What check writes for a terminal, as a text of the arena's, without the last end of line. */
static const char *written(struct page *g, const struct advice *v) {
    char *bytes = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&bytes, &n);
    if (!out) arena_out_of_memory(1);
    struct check_report r = g->check;
    r.out = out;
    if (v)
        check_verdict(&r, v);
    else
        check_paste(&r);
    if (fclose(out) != 0) arena_out_of_memory(n + 1);
    while (n && bytes[n - 1] == '\n') n--;
    const char *text = arena_strndup(&g->t->arena, bytes, n);
    free(bytes);
    return text;
}

const char *page_verdict(struct page *g, const struct advice *v) { return written(g, v); }

void page_paste(struct page *g, FILE *out) { svg_escape(out, written(g, NULL)); }

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

const char *page_counts(struct page *g) {
    const struct advice *v = &g->advices.all;
    struct arena *a = &g->t->arena;
    const char *text = arena_printf(a, "%u of %u parameter%s always, %u never, %u conditional",
                                    v->count[GRAD_ALWAYS], v->parameters, plural(v->parameters),
                                    v->count[GRAD_NEVER], v->count[GRAD_CONDITIONAL] - v->by_step);
    if (v->by_step) text = arena_printf(a, "%s, %u in some steps only", text, v->by_step);
    if (v->count[GRAD_FROZEN]) text = arena_printf(a, "%s, %u frozen", text, v->count[GRAD_FROZEN]);
    return arena_printf(a, "%s; %s", text, check_evidence_name(g->c->program.evidence));
}

/* ---- advice ---------------------------------------------------------------------------------- */

static const char *names(struct page *g, const uint32_t *at, uint32_t n) {
    struct arena *a = &g->t->arena;
    const char *text = "";
    for (uint32_t i = 0; i < n && i < MOST_NAMES; i++)
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", check_param_name(g->t, g->c, at[i]));
    return n > MOST_NAMES ? arena_printf(a, "%s and %u more", text, n - MOST_NAMES) : text;
}

void page_list_advice(struct page *g) {
    const struct advice *v = &g->advices.all;
    const struct program *p = &g->c->program;
    struct arena *a = &g->t->arena;
    if (v->freeze.n)
        vec_push(&g->advice, arena_printf(a, "Freeze what never gets a gradient: %s.",
                                          names(g, v->freeze.at, v->freeze.n)));
    if (v->verdict == VERDICT_NOT_NEEDED && v->static_graph)
        vec_push(&g->advice, "static_graph=True is safe too.");
    if (v->verdict == VERDICT_NOT_NEEDED && v->returned.n)
        vec_push(&g->advice,
                 arena_printf(a,
                              "static_graph=True only with these frozen, as a returned output "
                              "depends on them: %s.",
                              names(g, v->returned.at, v->returned.n)));
    if (v->count[GRAD_CONDITIONAL] > v->by_step)
        vec_push(&g->advice, "Stock DDP needs find_unused_parameters=True where gradients are "
                             "conditional; a plan knows the conditions.");
    const char *walk = check_walk_text(&g->check);
    if (walk) vec_push(&g->advice, arena_printf(a, "find_unused_parameters=True: %s.", walk));
    for (uint32_t s = 0; s < p->steps.n && s < MOST_SENTENCES; s++) {
        const char *text = check_buckets_text(&g->check, s, true);
        if (!text) continue;
        vec_push(&g->advice, p->steps.n == 1
                                 ? arena_printf(a, "Stock DDP's %s.", text)
                                 : arena_printf(a, "Stock DDP's %s, in step %s.", text,
                                                tool_utf8(a, ir_text(p->m, p->steps.at[s].name))));
    }
    if (!g->advice.n) vec_push(&g->advice, "Nothing to do.");
}

/* ---- basis ----------------------------------------------------------------------------------- */

void page_list_basis(struct page *g) {
    const struct program *p = &g->c->program;
    struct arena *a = &g->t->arena;
    uint32_t buffers = 0, unknown = types_unknown_shapes(&g->c->module), warnings = 0;
    for (uint32_t i = 0; i < p->params.n; i++) buffers += p->params.at[i].kind == PARAM_BUFFER;
    vec_push(&g->basis, arena_printf(a, "Evidence: %s.", tool_utf8(a, p->basis)));
    if (!p->complete && p->incomplete_because)
        vec_push(&g->basis, arena_printf(a, "The model is not complete: %s.",
                                         tool_utf8(a, p->incomplete_because)));
    if (buffers)
        vec_push(&g->basis, arena_printf(a, "%u buffer%s, which never train, %s left out.", buffers,
                                         plural(buffers), buffers == 1 ? "is" : "are"));
    if (unknown)
        vec_push(&g->basis,
                 arena_printf(a, "Of %u node%s an output's rank or a dimension is not known.",
                              unknown, plural(unknown)));
    for (uint32_t i = 0; i < p->n_assumed && i < MOST_SENTENCES; i++)
        vec_push(&g->basis, arena_printf(a, "Assumed of an operator that is not known: %s.",
                                         tool_utf8(a, program_assumed_name(p, i, a))));
    for (uint32_t i = 0; i < p->not_taken.n && i < MOST_SENTENCES; i++)
        vec_push(&g->basis, arena_printf(a, "No batch took this branch of Python: %s",
                                         tool_utf8(a, p->not_taken.at[i])));
    for (uint32_t i = 0; i < g->c->diags.all.n && warnings < MOST_SENTENCES; i++) {
        const struct diag *d = &*g->c->diags.all.at[i];
        if (d->severity == DIAG_ERROR) continue;
        warnings++;
        vec_push(&g->basis,
                 arena_printf(a, "Warning DDP%04d: %s", (int)d->code, tool_utf8(a, d->text)));
    }
}
