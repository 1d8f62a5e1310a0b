/* What PyTorch's exporters leave of a module's parameters, and what they lose.
 *
 * Both exporters fold: a transposed weight, the stacked weights of an LSTM, a convolution with its
 * batch normalization, a lookup at constant positions become one tensor each under a made-up name.
 * What stands in it gets its gradient through it, yet the module's names are gone; so a listed
 * parameter that such a graph lacks may be in any of these tensors, and is not known to be unused.
 * A transposed copy of a tied table is told from a folded weight by this: all that is listed is
 * there, and the copy is as large as one of it. Optimizers that fold after the export (onnxruntime's,
 * onnxsim) leave the names of the nodes that they computed.
 *
 * The newer exporter's optimizer also keeps one of equal tensors, such as those of normalizations
 * before training, and drops what multiplies by 1 or adds 0; of that nothing is left. It makes
 * initializers of all Constant nodes, so a graph that has one has not been through it.
 *
 * Folding can be switched off, and then every used parameter keeps its name: that is what the note
 * advises, once for all of them. */
#include "program_build.h"
#include <ctype.h>
#include <string.h>

enum { NAMES_SHOWN = 3 };

static bool is_number(const char *name) {
    if (!*name) return false;
    while (isdigit((unsigned char)*name)) name++;
    return !*name;
}

/* TorchScript's exporter names values `/layer/MatMul_output_0` or `onnx::Gemm_7`, earlier ones `17`;
 * those of the newer exporter are identifiers. */
void exporter_recognize(struct builder *b) {
    const struct ir_module *m = b->m;
    if (strcmp(ir_text(m, m->producer_name), "pytorch") != 0) return;
    b->exporter = EXPORTER_DYNAMO;
    for (ir_value v = 1; v < m->value.n && b->exporter == EXPORTER_DYNAMO; v++) {
        const char *name = ir_value_name(m, v);
        if (*name == '/' || !strncmp(name, "onnx::", 6) || is_number(name))
            b->exporter = EXPORTER_TORCHSCRIPT;
    }
}

/* `conv.weight_bias`: a batch normalization folded into the convolution of conv.weight. */
static bool is_fused_bias(const struct builder *b, const char *name) {
    size_t n = strlen(name), suffix = strlen("_bias");
    return n > suffix && !strcmp(name + n - suffix, "_bias") && names_find(b, name, n - suffix);
}

bool exporter_made_up(const struct builder *b, const struct candidate *c) {
    if (params_is_generated(b, c)) return true;
    const char *name = ir_text(b->m, c->param.name);
    /* What a node computed, and a weight in another layout: an optimizer folded after the export. */
    if (b->exporter && (*name == '/' || !strncmp(name, "reorder", 7))) return true;
    return b->exporter == EXPORTER_DYNAMO && (!strchr(name, '.') || is_fused_bias(b, name));
}

/* Whether --tie says what the tensor is. */
static bool is_tied(const struct builder *b, const char *name) {
    size_t n = strlen(name);
    for (uint32_t i = 0; i < b->o->tie.n; i++) {
        const char *text = b->o->tie.at[i], *equal = strchr(text, '=');
        if (equal &&
            (!strcmp(equal + 1, name) || ((size_t)(equal - text) == n && !strncmp(text, name, n))))
            return true;
    }
    return false;
}

/* An initializer that is none of the module's. */
static bool is_foreign(const struct builder *b, const struct candidate *c) {
    bool role = c->role == ROLE_CONSTANT || (c->role == ROLE_PARAMETER && !c->listed);
    return role && c->param.value && b->m->value.at[c->param.value].def == IR_DEF_INITIALIZER &&
           exporter_made_up(b, c) && !is_tied(b, ir_text(b->m, c->param.name));
}

/* A tensor that may hold parameters: more than a number of the program, read as more than state. */
static bool may_hold(const struct builder *b, const struct candidate *c) {
    return is_foreign(b, c) && !c->literal && c->param.elements > 1;
}

/* A single number counts too, where none is larger: it may be softmax(weights)[0]. */
const char *exporter_folded(const struct builder *b) {
    const struct candidate *one = NULL;
    for (uint32_t i = 0; b->exporter && i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (may_hold(b, c)) return ir_text(b->m, c->param.name);
        if (!one && is_foreign(b, c)) one = c;
    }
    return one ? ir_text(b->m, one->param.name) : NULL;
}

bool exporter_optimized(const struct builder *b) {
    uint32_t constant = op_find(b->p->ops, "", "Constant");
    if (b->said_folded) return true;
    if (b->said_not_folded || b->exporter != EXPORTER_DYNAMO) return false;
    for (uint32_t i = 0; i < b->nodes.n; i++)
        if (b->m->node.at[b->nodes.at[i]].def == constant) return false;
    return true;
}

/* The listed table of which it may be a transposed copy: as large, in the graph, while none that is
 * not in the graph is as large. Vectors are often as large as each other by chance. */
static const struct candidate *original_of(const struct builder *b, const struct candidate *copy) {
    const struct ir_module *m = b->m;
    const struct candidate *found = NULL;
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (c->role != ROLE_PARAMETER || !c->listed || c->param.elements != copy->param.elements)
            continue;
        if (!c->param.value) return NULL;
        if (!found && m->type.at[c->param.type].rank == 2 && m->type.at[copy->param.type].rank == 2)
            found = c;
    }
    return found;
}

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

void exporter_note(struct builder *b) {
    const struct ir_module *m = b->m;
    uint32_t n = 0;
    const char *names = "";
    const struct candidate *first = NULL, *copy = NULL, *of = NULL;
    for (uint32_t i = 0; b->exporter && i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (!may_hold(b, c)) continue;
        if (!first) first = c;
        if (n++ < NAMES_SHOWN)
            names = arena_printf(&b->scratch, "%s%s'%s'", names, *names ? ", " : "",
                                 ir_text(m, c->param.name));
        if (!of && b->o->params && (of = original_of(b, c))) copy = c;
    }
    if ((!n && (!b->absent || (!exporter_folded(b) && !exporter_optimized(b)))) ||
        (b->o->params && !b->unaccounted && !copy))
        return;
    bool torchscript = b->exporter == EXPORTER_TORCHSCRIPT;
    const char *who = torchscript                      ? "TorchScript's exporter"
                      : b->exporter == EXPORTER_DYNAMO ? "torch.export's exporter"
                                                       : "an optimizer";
    struct diag *g =
        n ? diag_at(b->d, DIAG_EXPORT_FOLDED, first->param.loc,
                    (uint32_t)strlen(ir_text(m, first->param.name)),
                    "%s made up the name%s of %u tensor%s, %s%s, which may hold parameters of the "
                    "module",
                    who, plural(n), n, plural(n), names, n > NAMES_SHOWN ? " and others" : "")
          : diag_at(b->d, DIAG_EXPORT_FOLDED, m->graph.at[m->main].loc, 1,
                    "%s optimized the graph, and may have computed what it lacks, or kept one of "
                    "equal parameters",
                    who);
    if (b->absent)
        diag_add_note(b->d, g, IR_NO_LOC, "the graph lacks %u listed parameter%s", b->absent,
                      plural(b->absent));
    if (copy) {
        const char *name = ir_text(m, copy->param.name), *original = ir_text(m, of->param.name);
        diag_add_note(b->d, g, copy->param.loc,
                      "'%s' is as large as '%s'; if it is a copy: --tie '%s=%s'", name, original,
                      original, name);
    }
    b->p->export_again =
        arena_printf(&b->p->arena,
                     "export again with %s%s, or let python -m ddpc.check record the module itself",
                     torchscript ? "training=TrainingMode.TRAINING, do_constant_folding=False"
                                 : "optimize=False",
                     b->o->params ? "" : " and say --params");
    diag_set_help(b->d, g, "%s", b->p->export_again);
}
