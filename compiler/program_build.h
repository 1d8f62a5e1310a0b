/* What the parts of program_build share while they work; nobody else includes it.
 *
 * metadata.c reads what the model says, names.c finds values by name, params.c and params_list.c
 * decide what is a parameter, losses.c where the gradient starts, steps.c what trains when,
 * exporter.c what got lost, evidence.c what it all rests on. program.c calls them in this order. */
#ifndef DDPC_PROGRAM_BUILD_H
#define DDPC_PROGRAM_BUILD_H

#include "glob.h"
#include "params_file.h"
#include "program.h"

enum candidate_role {
    ROLE_PARAMETER,
    ROLE_BUFFER,
    ROLE_CONSTANT, /* a float initializer that is no parameter: literals, not listed by --params */
    ROLE_INPUT,    /* a static float graph input: a parameter only if --trainable says so */
    ROLE_STALE,    /* listed with a type, never read, no producer */
    ROLE_TIED,     /* one parameter with candidate `into` */
};

/* A tensor that is a parameter or could be made one by a flag. */
struct candidate {
    struct param param;
    enum candidate_role role;
    bool chosen;  /* --trainable matches it */
    bool literal; /* an initializer that only its use as a number explains */
    bool listed;  /* by --params */
    uint32_t into;
};

/* One name or glob that a flag or the metadata gave. */
struct wish {
    const char *text;
    const char *flag; /* "--frozen", "ddpc.frozen": for messages */
    bool metadata; /* then a name that is not there is only a warning: the exporter may have lost it
                    */
};

typedef VEC(struct wish) wish_list;

/* A step as spelled. */
struct step_spec {
    const char *name;
    wish_list loss, trainable, frozen, assume;
};

enum exporter { EXPORTER_OTHER, EXPORTER_TORCHSCRIPT, EXPORTER_DYNAMO };

struct builder {
    struct program *p;
    struct ir_module *m;
    const struct options *o;
    struct diags *d;
    struct arena scratch; /* dies with the builder */

    /* names.c */
    uint32_t n_named;   /* strings known when by_name was made */
    ir_value *by_name;  /* by string: the value of that name; of the main graph if it has one */
    str *real;          /* by value: what --alias calls it, or 0 */
    VEC(ir_node) nodes; /* of the main graph and its subgraphs; uses after definitions */
    uint8_t *use;       /* by value: enum use bits */

    /* params.c */
    VEC(struct candidate) candidates;
    uint32_t *candidate_of; /* by string below n_names: its candidate + 1; aliases too */
    uint32_t n_names;
    bool *chosen;         /* by parameter of the program: --trainable matches it */
    bool declared;        /* the model declares its parameters */
    bool restricted;      /* --trainable chose among the parameters */
    uint32_t unaccounted; /* parameters of --params that may or may not be in the graph */
    uint32_t absent;      /* of these, the ones that it does not have by name */
    enum exporter exporter;

    /* program.c: flags, else metadata */
    wish_list loss, trainable, frozen, assume, uniform;
    wish_list buffers, tie; /* of the metadata */
    VEC(struct step_spec) specs;
    bool said_complete, said_proved, said_unknown, said_folded, said_not_folded;
    const char *observed; /* "observed, 3 batches", from metadata; NULL */
};

/* How a value is read, directly or through Identity. */
enum use { USE_STATE = 1, USE_OTHER = 2 };

/* metadata.c: the properties of the model; their lists become wishes. False after reporting. */
bool metadata_read(struct builder *b);
/* What Gradient nodes differentiate, where neither flags nor metadata say it. */
void metadata_gradients(struct builder *b);

/* names.c: the index of names, the walk over the live graphs, the uses. */
void names_build(struct builder *b);
ir_value names_find(const struct builder *b, const char *name, size_t length);
/* The name of a value as the module spells it. */
str names_real(const struct builder *b, ir_value v);
/* --alias. */
bool names_alias(struct builder *b);

/* Whether a parameter's name, or one of its aliases, is in a list of names and globs. A name that
 * holds a glob's characters stands for itself too. */
struct name_set {
    bool *is; /* by string below n */
    uint32_t n;
    const char **globs;
    uint32_t n_globs;
};
struct name_set names_set(struct builder *b, const wish_list *wishes);
bool names_in(const struct builder *b, const struct name_set *set, const struct param *param);

enum kind_of_name { NAME_PARAMETER, NAME_VALUE };
/* Says that a flag's name is unknown, with near ones among the parameters or the main graph's
 * values. An error, or a warning for a glob or metadata; returns true if it was only a warning. */
bool names_unknown(struct builder *b, struct wish w, enum kind_of_name kind);

/* params.c */
bool params_build(struct builder *b);
bool params_is_float(const struct ir_module *m, ir_value v);
/* Whether an exporter made up the candidate's name. */
bool params_is_generated(const struct builder *b, const struct candidate *c);
void params_add_candidate(struct builder *b, ir_value v, int64_t elements,
                          enum candidate_role role);
/* params_list.c: the candidates' roles by --params. False after reporting. */
bool params_listed(struct builder *b);

/* exporter.c: which of PyTorch's exporters wrote the model. */
void exporter_recognize(struct builder *b);
/* Whether an exporter made up the name, of a number or of what it folded. */
bool exporter_made_up(const struct builder *b, const struct candidate *c);
/* The name of a tensor into which a parameter may be folded; NULL if there is none. */
const char *exporter_folded(const struct builder *b);
/* Whether an optimizer may have merged or dropped parameters without a trace. */
bool exporter_optimized(const struct builder *b);
/* Says what the exporter lost and how to keep it; before the candidates move into the program. */
void exporter_note(struct builder *b);

/* losses.c: the losses of a step from its wishes or, without any, by the fall-back chain. */
bool losses_select(struct builder *b, const struct wish *wishes, uint32_t n, struct step *out);

/* steps.c */
/* Splits at commas and blanks; each piece becomes a wish. */
void steps_split(struct builder *b, wish_list *to, const char *text, const char *flag,
                 bool metadata);
/* `NAME: settings` of --step; the settings of ddpc.step.NAME. False after reporting. */
bool steps_add_flag(struct builder *b, const char *text);
bool steps_add_metadata(struct builder *b, const char *key, const char *name, const char *settings);
bool steps_build(struct builder *b);

/* evidence.c: completeness and evidence of what was built. */
void evidence_judge(struct builder *b);

#endif
