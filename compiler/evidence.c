/* How much of the truth a text can know: is it complete, and what does its evidence rest on?
 *
 * Exporters drop parameters that nothing uses and fold names, so a model whose parameters are plain
 * initializers may lack some that DDP would wait for. Only a model that declares its parameters,
 * says that it is complete, or comes with a list (--params) that accounts for all of them supports
 * a confident verdict.
 *
 * A complete model proves what it shows, unless it was traced: an exporter that runs the module
 * once follows one side of each `if` and writes detach() down as nothing at all, so what it shows
 * is observed. Those that are known to do so are recognized by the producer's name that they leave.
 * The author may know better and says so with ddpc.evidence. What the flags say of unknown
 * operators is an assumption, and every report of evidence names it. */
#include "program_build.h"
#include <string.h>

/* An exporter that traces, and what of the program leaves no sign in its graphs. torch.onnx drops
 * aten::detach and grad modes as identities, in both of its exporters; tf2onnx and keras2onnx
 * (also of Keras modules) turn tf.stop_gradient into Identity. */
static const struct {
    const char *producer, *hides;
} tracers[] = {
    {"pytorch", "no detach(), no no_grad() and no Python if"},
    {"tf2onnx", "no stop_gradient() and no Python if"},
    {"keras2onnx", "no stop_gradient() and no Python if"},
};

static const char *incomplete_because(const struct builder *b) {
    struct program *p = b->p;
    uint32_t parameters = 0;
    for (uint32_t i = 0; i < p->params.n; i++)
        parameters += p->params.at[i].kind == PARAM_PARAMETER;
    if (!parameters) return "the model has no parameters";
    if (b->unaccounted)
        return arena_printf(&p->arena, "%s and the model do not agree about %u parameter%s",
                            b->o->params, b->unaccounted, b->unaccounted == 1 ? "" : "s");
    if (!b->declared && !b->said_complete && !b->o->params)
        return "an exporter drops parameters that nothing uses, so the model cannot "
               "show that it has them all; --params tells what the module has";
    return NULL;
}

/* Each operator that the user vouches for, once. */
static void find_assumed(const struct builder *b) {
    struct program *p = b->p;
    bool *seen = arena_new(&p->arena, bool, p->ops->n_defs);
    p->assumed = arena_new(&p->arena, uint32_t, p->ops->n_defs);
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        uint32_t def = b->m->node.at[b->nodes.at[i]].def;
        if (!def || seen[def] || !(op_get(p->ops, def)->flags & OP_ASSUMED)) continue;
        seen[def] = true;
        p->assumed[p->n_assumed++] = def;
    }
}

const char *program_assumed_name(const struct program *p, uint32_t i, struct arena *a) {
    const struct op_def *op = op_get(p->ops, p->assumed[i]);
    return *op->domain ? arena_printf(a, "%s.%s", op->domain, op->name) : op->name;
}

/* ", assuming a.B, a.C differentiable and a.D as --ops declares it" */
static const char *assumptions(struct program *p) {
    const char *text[2] = {"", ""};
    for (uint32_t i = 0; i < p->n_assumed; i++) {
        bool declared = op_get(p->ops, p->assumed[i])->flags & OP_DECLARED;
        const char **t = &text[declared];
        *t = arena_printf(&p->arena, "%s%s%s", *t, **t ? ", " : "",
                          program_assumed_name(p, i, &p->arena));
    }
    return arena_printf(&p->arena, "%s%s%s%s%s%s", p->n_assumed ? ", assuming " : "", text[0],
                        *text[0] ? " differentiable" : "", *text[0] && *text[1] ? " and " : "",
                        text[1], *text[1] ? " as --ops declares" : "");
}

void evidence_judge(struct builder *b) {
    struct program *p = b->p;
    static const char *const names[] = {"proved", "observed", "unknown"};
    p->incomplete_because = incomplete_because(b);
    p->complete = !p->incomplete_because;
    p->evidence = b->observed                       ? EVIDENCE_OBSERVED
                  : p->complete && !b->said_unknown ? EVIDENCE_PROVED
                                                    : EVIDENCE_UNKNOWN;
    const char *basis = b->observed ? b->observed : names[p->evidence];
    const char *producer = ir_text(b->m, b->m->producer_name);
    for (size_t i = 0; i < sizeof tracers / sizeof *tracers; i++) {
        if (p->evidence != EVIDENCE_PROVED || b->said_proved ||
            strcmp(producer, tracers[i].producer) != 0)
            continue;
        p->evidence = EVIDENCE_OBSERVED;
        p->traced = true;
        basis = arena_printf(&p->arena, "observed in one trace by %s's exporter, which shows %s",
                             producer, tracers[i].hides);
    }
    find_assumed(b);
    p->basis = arena_printf(&p->arena, "%s%s", basis, assumptions(p));
}
