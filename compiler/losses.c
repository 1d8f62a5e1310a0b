/* Where the gradient starts.
 *
 * A step's losses are what its flags or the metadata name; without either, the graph's outputs
 * decide: one called `loss`, else the only one that looks like a loss. The looks are tried from the
 * strictest (a float scalar) to the loosest (any float tensor, which is then said aloud), and two
 * candidates of the same looks are an error, never a guess: a wrong loss would name the wrong
 * parameters unused. */
#include "program_build.h"
#include <string.h>

static bool carries(const struct ir_module *m, ir_value v) {
    return ir_type_carries_gradient(m, m->value.at[v].type);
}

static bool add_loss(struct builder *b, struct wish w, struct step *out) {
    const struct ir_module *m = b->m;
    ir_value v = names_find(b, w.text, strlen(w.text));
    if (!v) {
        /* Without its loss a step means nothing: an error from metadata too. */
        w.metadata = false;
        names_unknown(b, w, NAME_VALUE);
        return false;
    }
    if (m->value.at[v].graph != m->main) {
        diag_at(b->d, DIAG_LOSS_UNFIT, m->value.at[v].loc, (uint32_t)strlen(w.text),
                "'%s' is a value inside a subgraph; a loss must be one of the main graph", w.text);
        return false;
    }
    if (!carries(m, v)) {
        diag_at(b->d, DIAG_LOSS_UNFIT, m->value.at[v].loc, (uint32_t)strlen(w.text),
                "'%s' is %s: no gradient can start from it", w.text,
                ir_type_text(m, &b->d->arena, m->value.at[v].type));
        return false;
    }
    for (uint32_t i = 0; i < out->losses.n; i++)
        if (out->losses.at[i] == v) return true;
    vec_push(&out->losses, v);
    return true;
}

enum looks { LOOKS_SCALAR, LOOKS_ONE_ELEMENT, LOOKS_FLOAT, N_LOOKS };

static bool looks_like(const struct ir_module *m, ir_value v, enum looks looks) {
    ir_type t = m->value.at[v].type;
    const struct ir_type_info *type = &m->type.at[t];
    if (looks == LOOKS_FLOAT) return carries(m, v);
    if (type->kind != IR_TYPE_TENSOR || !carries(m, v)) return false;
    return looks == LOOKS_SCALAR ? type->rank == 0 : ir_type_elements(m, t) == 1;
}

/* The main graph's outputs of these looks: how many, and the first. */
static uint32_t count_outputs(const struct builder *b, enum looks looks, ir_value *first) {
    const struct ir_module *m = b->m;
    const struct ir_graph_info *graph = &m->graph.at[m->main];
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        ir_value v = m->decl.at[graph->outputs + i].value;
        if (looks_like(m, v, looks) && n++ == 0) *first = v;
    }
    return n;
}

static void report_candidates(struct builder *b, enum looks looks) {
    const struct ir_module *m = b->m;
    const struct ir_graph_info *graph = &m->graph.at[m->main];
    struct diag *g = NULL;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const struct ir_decl *output = &m->decl.at[graph->outputs + i];
        if (!looks_like(m, output->value, looks)) continue;
        const char *name = ir_value_name(m, output->value);
        if (g) {
            diag_add_note(b->d, g, output->loc, "'%s' could be it too", name);
            continue;
        }
        g = diag_at(b->d, DIAG_MANY_LOSSES, output->loc, (uint32_t)strlen(name),
                    "which output is the loss? '%s' is one of several that could be it", name);
        diag_set_help(b->d, g, "say it with --loss %s; a repeated --loss sums several", name);
    }
}

static bool choose_output(struct builder *b, struct step *out) {
    const struct ir_module *m = b->m;
    const struct ir_graph_info *graph = &m->graph.at[m->main];
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        ir_value v = m->decl.at[graph->outputs + i].value;
        if (strcmp(ir_value_name(m, v), "loss") != 0) continue;
        return add_loss(b, (struct wish){"loss", "--loss", false}, out);
    }
    for (enum looks looks = 0; looks < N_LOOKS; looks++) {
        ir_value v = 0;
        uint32_t n = count_outputs(b, looks, &v);
        if (n > 1) {
            report_candidates(b, looks);
            return false;
        }
        if (n == 0) continue;
        static const char *const because[] = {"scalar", "one-element", "float"};
        vec_push(&out->losses, v);
        out->loss_because = arena_printf(&b->p->arena, "the only %s output", because[looks]);
        if (looks == LOOKS_FLOAT) {
            const char *name = ir_value_name(m, v);
            struct diag *g =
                diag_at(b->d, DIAG_LOSS_TAKEN, m->value.at[v].loc, (uint32_t)strlen(name),
                        "the gradient is taken to start from '%s', the only float output", name);
            diag_set_help(b->d, g, "say it with --loss %s", name);
        }
        return true;
    }
    struct diag *g = diag_at(b->d, DIAG_NO_LOSS, graph->loc, 1,
                             "no output of the graph could be a loss: none is a float tensor");
    diag_set_help(b->d, g, "name the value that the gradient starts from with --loss NAME");
    return false;
}

bool losses_select(struct builder *b, const struct wish *wishes, uint32_t n, struct step *out) {
    bool ok = true;
    out->loss_named = n && !wishes[0].metadata;
    for (uint32_t i = 0; i < n; i++) ok &= add_loss(b, wishes[i], out);
    return n ? ok : choose_output(b, out);
}
