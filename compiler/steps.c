/* Steps: what trains when.
 *
 *     --step "d: loss=d_loss trainable=d.* assume=d_turn"
 *     metadata ddpc.step.g: "loss=g_loss trainable=g.* assume=!d_turn"
 *
 * A step has losses, trainables and assumed booleans of its own; what it does not say it takes from
 * the whole program. Without any step there is one, called `train`. A parameter is frozen in a step
 * if the module says so (requires_grad false), if --frozen matches it, or if there is a choice of
 * trainables, the program's or the step's, and it is not among them. */
#include "program_build.h"
#include <ctype.h>
#include <string.h>

static bool is_blank(char c) { return isspace((unsigned char)c) != 0; }

void steps_split(struct builder *b, wish_list *to, const char *text, const char *flag,
                 bool metadata) {
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ", \t\r\n");
        if (n) {
            struct wish w = {arena_strndup(&b->p->arena, p, n), flag, metadata};
            vec_push(to, w);
        }
        p += n + (p[n] != 0);
    }
}

/* `loss=a,b trainable=x.*` into the step. */
static bool parse_settings(struct builder *b, const char *text, const char *flag, bool metadata,
                           struct step_spec *out) {
    for (const char *p = text; *p;) {
        if (is_blank(*p)) {
            p++;
            continue;
        }
        size_t n = strcspn(p, " \t\r\n"), key = strcspn(p, "=");
        const char *word = arena_strndup(&b->scratch, p, n), *value = word + key + 1;
        wish_list *to = key >= n                           ? NULL
                        : !strncmp(word, "loss=", 5)       ? &out->loss
                        : !strncmp(word, "trainable=", 10) ? &out->trainable
                        : !strncmp(word, "frozen=", 7)     ? &out->frozen
                        : !strncmp(word, "assume=", 7)     ? &out->assume
                                                           : NULL;
        if (!to || !*value) {
            struct diag *g = diag_plain(b->d, DIAG_FLAG_SYNTAX, flag,
                                        "'%s' is no setting of step '%s'", word, out->name);
            diag_set_help(b->d, g,
                          "a step has loss=, trainable=, frozen= and assume=, each with "
                          "names separated by commas");
            return false;
        }
        steps_split(b, to, value, flag, metadata);
        p += n;
    }
    return true;
}

static bool add_spec(struct builder *b, const char *name, size_t length, const char *settings,
                     const char *flag, bool metadata) {
    struct step_spec spec = {.name = arena_strndup(&b->scratch, name, length)};
    bool ok = parse_settings(b, settings, flag, metadata, &spec);
    for (uint32_t i = 0; ok && i < b->specs.n; i++) {
        if (strcmp(b->specs.at[i].name, spec.name) != 0) continue;
        diag_plain(b->d, DIAG_STEP_TWICE, flag, "the step '%s' is given twice", spec.name);
        ok = false;
    }
    vec_push(&b->specs, spec);
    return ok;
}

bool steps_add_flag(struct builder *b, const char *text) {
    const char *colon = strchr(text, ':'), *end = colon;
    while (is_blank(*text)) text++;
    while (end && end > text && is_blank(end[-1])) end--;
    if (!colon || end <= text) {
        struct diag *g = diag_plain(b->d, DIAG_FLAG_SYNTAX, "--step",
                                    "'%s' does not start with the step's name and a colon", text);
        diag_set_help(b->d, g, "as in --step \"d: loss=d_loss trainable=d.* assume=d_turn\"");
        return false;
    }
    return add_spec(b, text, (size_t)(end - text), colon + 1, "--step", false);
}

bool steps_add_metadata(struct builder *b, const char *key, const char *name,
                        const char *settings) {
    return add_spec(b, name, strlen(name), settings, key, true);
}

/* `x`, `!x`, `x=true`, `x=false`. */
static bool parse_assumption(struct builder *b, struct wish w, struct assumption *out) {
    const struct ir_module *m = b->m;
    const char *name = w.text;
    size_t n = strlen(name);
    out->is = true;
    const char *equal = strrchr(name, '=');
    if (equal) {
        out->is = !strcmp(equal + 1, "true");
        n = (size_t)(equal - name);
        if (!out->is && strcmp(equal + 1, "false") != 0) n = 0;
    } else if (*name == '!') {
        out->is = false;
        name++;
        n--;
    }
    if (!n) {
        diag_plain(b->d, DIAG_FLAG_SYNTAX, w.flag,
                   "'%s' is none of NAME=true, NAME=false, NAME and !NAME", w.text);
        return false;
    }
    out->value = names_find(b, name, n);
    if (!out->value) {
        w.text = arena_strndup(&b->scratch, name, n);
        return names_unknown(b, w, NAME_VALUE);
    }
    ir_type type = m->value.at[out->value].type;
    if (m->type.at[type].kind != IR_TYPE_NONE && ir_type_dtype(m, type) != IR_BOOL) {
        diag_plain(b->d, DIAG_ASSUME_UNFIT, w.flag, "'%.*s' is %s; only a boolean can be assumed",
                   (int)n, name, ir_type_text(m, &b->scratch, type));
        return false;
    }
    return true;
}

/* A step's assumption replaces the program's; two of the same origin must agree. */
static bool add_assumptions(struct builder *b, const wish_list *wishes, struct step *step) {
    uint32_t before = step->assume.n;
    for (uint32_t i = 0; i < wishes->n; i++) {
        struct assumption a;
        if (!parse_assumption(b, wishes->at[i], &a)) return false;
        if (!a.value) continue;
        uint32_t k = 0;
        while (k < step->assume.n && step->assume.at[k].value != a.value) k++;
        if (k == step->assume.n) {
            vec_push(&step->assume, a);
        } else if (k < before) {
            step->assume.at[k] = a;
        } else if (step->assume.at[k].is != a.is) {
            diag_plain(b->d, DIAG_ASSUME_UNFIT, wishes->at[i].flag,
                       "'%s' is assumed both true and false", ir_value_name(b->m, a.value));
            return false;
        }
    }
    return true;
}

static void freeze(struct builder *b, const struct step_spec *spec, struct step *step) {
    struct program *p = b->p;
    const struct name_set all = names_set(b, &b->frozen), own = names_set(b, &spec->frozen),
                          trainable = names_set(b, &spec->trainable);
    step->frozen = arena_new(&p->arena, bool, p->params.n);
    for (uint32_t i = 0; i < p->params.n; i++) {
        const struct param *param = &p->params.at[i];
        step->frozen[i] = param->no_grad || (b->restricted && !b->chosen[i]) ||
                          names_in(b, &all, param) || names_in(b, &own, param) ||
                          (spec->trainable.n && !names_in(b, &trainable, param));
    }
}

bool steps_build(struct builder *b) {
    static const struct step_spec only = {.name = "train"};
    uint32_t n = b->specs.n ? b->specs.n : 1;
    bool ok = true, assumed = true; /* what all steps share is wrong once */
    for (uint32_t s = 0; s < n; s++) {
        const struct step_spec *spec = b->specs.n ? &b->specs.at[s] : &only;
        struct step step = {.name = strtab_addz(&b->m->strings, spec->name)};
        const wish_list *loss = spec->loss.n ? &spec->loss : &b->loss;
        ok &= losses_select(b, loss->at, loss->n, &step);
        assumed = assumed && add_assumptions(b, &b->assume, &step);
        ok &= assumed && add_assumptions(b, &spec->assume, &step);
        freeze(b, spec, &step);
        vec_push(&b->p->steps, step);
    }
    return ok;
}
