/* The model's metadata: properties whose key starts with `ddpc.`.
 *
 * Lists of names are separated by commas or blanks; each name becomes a wish, as those of the
 * flags do. What a recorder of programs knows and a graph cannot say stands here too: which
 * declared names are buffers, which names are one tensor, how to reach the module from a wrapper
 * around it, what a branch is in words, which batches took which path, and which Python branches
 * no batch took. A property that says nothing is a warning: its author meant something. */
#include "paths.h"
#include "program_build.h"
#include <ctype.h>
#include <string.h>

static bool is_yes(const char *text) { return !strcmp(text, "true") || !strcmp(text, "1"); }

/* A dotted way to an object, with numbers as subscripts: nobody is shown code that does more. */
static bool is_expression(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("_.[]", *text)) return false;
    return true;
}

static bool read_lines(struct builder *b, const char *text) {
    struct program *p = b->p;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        if (n) vec_push(&p->not_taken, (const char *)arena_strndup(&p->arena, at, n));
        at += n + (at[n] != 0);
    }
    return true;
}

static bool read_evidence(struct builder *b, const char *value) {
    if (!strncmp(value, "observed", 8)) {
        b->observed = value;
        return true;
    }
    b->said_unknown = !strcmp(value, "unknown");
    b->said_proved = !strcmp(value, "proved");
    return b->said_unknown || b->said_proved;
}

/* What stands behind `ddpc.`, of a key that holds one thing; false if that is nothing. */
static bool read_value(struct builder *b, const char *name, const char *value) {
    struct program *p = b->p;
    if (!strcmp(name, "complete")) {
        b->said_complete = is_yes(value);
        return b->said_complete || !strcmp(value, "false");
    }
    if (!strcmp(name, "folded")) {
        b->said_folded = is_yes(value);
        b->said_not_folded = !strcmp(value, "false");
        return b->said_folded || b->said_not_folded;
    }
    if (!strcmp(name, "evidence")) return read_evidence(b, value);
    if (!strcmp(name, "not_taken")) return read_lines(b, value);
    if (!strcmp(name, "module") && is_expression(value)) {
        p->module = value;
        return true;
    }
    if (!strcmp(name, "paths") || !strncmp(name, "paths.", 6)) return paths_read(p, value);
    if (!strncmp(name, "branch.", 7) && name[7]) {
        struct branch_words words = {name + 7, value};
        vec_push(&p->branch_words, words);
        return true;
    }
    return false;
}

static bool read_property(struct builder *b, const struct ir_property *at) {
    struct arena *a = &b->p->arena;
    const char *key = arena_printf(a, "%s", ir_text(b->m, at->key));
    const char *value = arena_printf(a, "%s", ir_text(b->m, at->value));
    const char *name = key + strlen("ddpc.");
    const struct {
        const char *name;
        wish_list *list;
    } lists[] = {{"loss", &b->loss},       {"trainable", &b->trainable}, {"frozen", &b->frozen},
                 {"uniform", &b->uniform}, {"buffers", &b->buffers},     {"tie", &b->tie}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!strcmp(name, lists[i].name)) {
            steps_split(b, lists[i].list, value, key, true);
            return true;
        }
    if (!strncmp(name, "step.", 5) && name[5]) return steps_add_metadata(b, key, name + 5, value);
    if (read_value(b, name, value)) return true;
    struct diag *g = diag_at(b->d, DIAG_METADATA, at->loc, (uint32_t)strlen(key) + 2,
                             "'%s: %s' says nothing to ddpc and is ignored", key, value);
    diag_set_help(
        b->d, g,
        "the keys are ddpc.loss, trainable, frozen, uniform, buffers, tie, complete and "
        "folded (true or false), evidence (proved, unknown, or observed and what), module (such as "
        "model.base_model), branch.NAME, paths, not_taken and step.NAME");
    return true;
}

bool metadata_read(struct builder *b) {
    bool ok = true;
    for (uint32_t i = 0; i < b->m->metadata.n; i++)
        if (!strncmp(ir_text(b->m, b->m->metadata.at[i].key), "ddpc.", 5))
            ok &= read_property(b, &b->m->metadata.at[i]);
    return ok;
}

static void add_wish(const struct builder *b, wish_list *list, const struct ir_attr_info *a,
                     bool strings) {
    if (a->kind != (strings ? IR_ATTR_STRINGS : IR_ATTR_STRING)) return;
    for (uint32_t i = 0; i < a->n_values; i++) {
        struct wish w = {ir_text(b->m, b->m->attr_value.at[a->values + i].s), "Gradient", true};
        vec_push(list, w);
    }
}

/* Gradient nodes of ai.onnx.preview.training say what is differentiated by what. A gradient of a
 * gradient is no loss: none passes a Gradient node. */
void metadata_gradients(struct builder *b) {
    const struct ir_module *m = b->m;
    bool losses = !b->loss.n && !b->specs.n, trainables = !b->trainable.n;
    uint32_t gradient = op_find(b->p->ops, "ai.onnx.preview.training", "Gradient");
    for (uint32_t i = b->nodes.n; i-- > 0;) {
        ir_node n = b->nodes.at[i];
        ir_attr xs = ir_attr_find(m, n, "xs"), y = ir_attr_find(m, n, "y");
        if (m->node.at[n].def != gradient || !xs || !y || !m->attr.at[y].n_values) continue;
        str name = m->attr_value.at[m->attr.at[y].values].s;
        ir_value of = names_find(b, ir_text(m, name), strtab_len(&m->strings, name));
        if (of && m->value.at[of].def == IR_DEF_NODE &&
            m->node.at[m->value.at[of].node].def == gradient)
            continue;
        if (losses) add_wish(b, &b->loss, &m->attr.at[y], false);
        if (trainables) add_wish(b, &b->trainable, &m->attr.at[xs], true);
    }
}
