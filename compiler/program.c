/* From a verified module to a program: what the module means for training.
 *
 * Three sources say it, in rising authority: the graph itself (declared names, initializers, an
 * output called `loss`), the model's metadata (metadata.c), and the flags. Here flags replace the
 * metadata where there are any; the other files of program_build.h do the rest.
 *
 * What the text can know of the truth at all is judged last, in evidence.c. */
#include "program_build.h"
#include <string.h>

/* Flags replace the metadata of their name. */
static void override(wish_list *list, const string_list *flags, const char *flag) {
    if (flags->n) list->n = 0;
    for (uint32_t i = 0; i < flags->n; i++) {
        struct wish w = {flags->at[i], flag, false};
        vec_push(list, w);
    }
}

static void free_specs(struct builder *b) {
    for (uint32_t i = 0; i < b->specs.n; i++) {
        vec_free(&b->specs.at[i].loss);
        vec_free(&b->specs.at[i].trainable);
        vec_free(&b->specs.at[i].frozen);
        vec_free(&b->specs.at[i].assume);
    }
    vec_free(&b->specs);
}

static bool read_wishes(struct builder *b) {
    const struct options *o = b->o;
    if (!metadata_read(b)) return false;
    override(&b->loss, &o->loss, "--loss");
    override(&b->trainable, &o->trainable, "--trainable");
    override(&b->frozen, &o->frozen, "--frozen");
    override(&b->assume, &o->assume, "--assume");
    override(&b->uniform, &o->uniform, "--uniform");
    for (uint32_t i = 0; i < b->uniform.n; i++) vec_push(&b->p->uniform, b->uniform.at[i].text);
    /* Steps have losses of their own, so --loss replaces the metadata's steps as well. */
    if (o->step.n || o->loss.n) free_specs(b);
    bool ok = true;
    for (uint32_t i = 0; i < o->step.n; i++) ok &= steps_add_flag(b, o->step.at[i]);
    metadata_gradients(b);
    return ok;
}

static void builder_free(struct builder *b) {
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        vec_free(&b->candidates.at[i].param.tied);
        vec_free(&b->candidates.at[i].param.aliases);
    }
    vec_free(&b->candidates);
    vec_free(&b->nodes);
    vec_free(&b->loss);
    vec_free(&b->trainable);
    vec_free(&b->frozen);
    vec_free(&b->assume);
    vec_free(&b->uniform);
    vec_free(&b->buffers);
    vec_free(&b->tie);
    free_specs(b);
    arena_free(&b->scratch);
}

bool program_build(struct program *p, struct ir_module *m, struct op_table *ops,
                   const struct options *o, struct diags *d) {
    *p = (struct program){.m = m, .ops = ops};
    struct builder b = {.p = p, .m = m, .o = o, .d = d};
    names_build(&b);
    exporter_recognize(&b);
    bool ok = read_wishes(&b) && names_alias(&b) && params_build(&b) && steps_build(&b);
    if (ok) evidence_judge(&b);
    builder_free(&b);
    return ok;
}

void program_free(struct program *p) {
    for (uint32_t i = 0; i < p->params.n; i++) {
        vec_free(&p->params.at[i].tied);
        vec_free(&p->params.at[i].aliases);
    }
    for (uint32_t i = 0; i < p->steps.n; i++) {
        vec_free(&p->steps.at[i].losses);
        vec_free(&p->steps.at[i].assume);
    }
    vec_free(&p->params);
    vec_free(&p->steps);
    vec_free(&p->uniform);
    vec_free(&p->branch_words);
    for (uint32_t i = 0; i < p->paths.n; i++) {
        vec_free(&p->paths.at[i].all);
        vec_free(&p->paths.at[i].batch);
    }
    vec_free(&p->paths);
    vec_free(&p->not_taken);
    arena_free(&p->arena);
    *p = (struct program){0};
}
