/* The operator registry.
 *
 * ops.def is expanded twice: once into the inputs of all operators in one array, once into the
 * operators themselves, each with the number of its inputs. op_table_init copies both into arrays
 * that can grow (--ops and --assume-differentiable add operators for one run), gives each operator
 * the place of its inputs, and enters it into a hash table by domain and name, so that a look-up
 * costs the same whatever the table's size.
 *
 * A declaration in an --ops file takes precedence over the built-in operator of the same name:
 * whoever trains quantization scales says so there. Index 0 is the unknown operator: no inputs,
 * nothing carries a gradient. The record "*" of a domain is copied for each further name that is
 * looked up in it. */
#include "ops.h"
#include "glob.h"
#include <stdlib.h>
#include <string.h>

#define ALL          UINT32_MAX
#define FIRST        1
#define NONE         0
#define FIRST_AND(i) (1 | 1u << (i))
#define BUT(i)       (~(1u << (i)))

#define IN(name, rule)           {name, OP_##rule, false, false, false, 0, 0, 0},
#define OPT(name, rule)          {name, OP_##rule, true, false, false, 0, 0, 0},
#define SOME(name, rule)         {name, OP_##rule, false, true, false, 0, 0, 0},
#define MANY(name, rule)         {name, OP_##rule, true, true, false, 0, 0, 0},
#define STATE(name)              {name, OP_STOP, false, false, true, 0, 0, 0},
#define OPT_STATE(name)          {name, OP_STOP, true, false, true, 0, 0, 0},
#define SINCE(opset, name, rule) {name, OP_##rule, false, false, false, opset, 0, 0},
#define SINCE_STATE(opset, name) {name, OP_STOP, false, false, true, opset, 0, 0},
#define UNTIL(opset, name, rule) {name, OP_##rule, false, false, false, 0, opset, 0},
#define IN_FOR(outputs, name, rule)                                                                \
    {name, OP_##rule, false, false, false, 0, 0, (uint8_t) ~(outputs)},
#define OPT_FOR(outputs, name, rule)                                                               \
    {name, OP_##rule, true, false, false, 0, 0, (uint8_t) ~(outputs)},
#define OP(domain, name, flags, outputs, type, others, carries, inputs) inputs
static const struct op_input builtin_inputs[] = {
#include "ops.def"
};
#undef OP
#undef IN
#undef OPT
#undef SOME
#undef MANY
#undef STATE
#undef OPT_STATE
#undef SINCE
#undef SINCE_STATE
#undef UNTIL
#undef IN_FOR
#undef OPT_FOR

#define IN(name, rule)               +1
#define OPT(name, rule)              +1
#define SOME(name, rule)             +1
#define MANY(name, rule)             +1
#define STATE(name)                  +1
#define OPT_STATE(name)              +1
#define SINCE(opset, name, rule)     +1
#define SINCE_STATE(opset, name)     +1
#define UNTIL(opset, name, rule)     +1
#define IN_FOR(outputs, name, rule)  +1
#define OPT_FOR(outputs, name, rule) +1
#define ANY                          OP_ANY
#define OP(domain, name, flags, outputs, type, others, carries, inputs)                            \
    {domain, name, 0, 0 inputs, OP_##flags, OP_DTYPE_##type, OP_DTYPE_##others, outputs, carries},
static const struct op_def builtin_defs[] = {
#include "ops.def"
};

enum { N_BUILTIN = sizeof builtin_defs / sizeof *builtin_defs, FIRST_SLOTS = 1024 };

struct op_assumption {
    const char *glob;
    bool used;
};

struct op_extra {
    struct arena arena; /* names from files */
    VEC(struct op_def) defs;
    VEC(struct op_input) inputs;
    VEC(struct op_assumption) assumed;
    uint32_t *slots, n_slots; /* open addressing, a power of two; 0 is free */
};

static const char *normal_domain(const char *domain) {
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

/* FNV-1a over both names with a byte between that no name starts or ends with. */
static uint32_t hash_names(const char *domain, const char *name) {
    uint32_t h = 2166136261u;
    for (; *domain; domain++) h = (h ^ (unsigned char)*domain) * 16777619u;
    h *= 16777619u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h ^ h >> 15;
}

/* The slot that holds the operator, or the free one where it would stand. */
static uint32_t *slot_of(const struct op_extra *x, const char *domain, const char *name) {
    uint32_t mask = x->n_slots - 1;
    for (uint32_t i = hash_names(domain, name) & mask;; i = (i + 1) & mask) {
        uint32_t def = x->slots[i];
        if (!def) return &x->slots[i];
        if (strcmp(x->defs.at[def].name, name) == 0 && strcmp(x->defs.at[def].domain, domain) == 0)
            return &x->slots[i];
    }
}

static void set_slots(struct op_extra *x, uint32_t n_slots) {
    free(x->slots);
    x->slots = calloc(n_slots, sizeof *x->slots);
    if (!x->slots) arena_out_of_memory(n_slots * sizeof *x->slots);
    x->n_slots = n_slots;
    for (uint32_t i = 1; i < x->defs.n; i++)
        *slot_of(x, x->defs.at[i].domain, x->defs.at[i].name) = i;
}

/* Adds an operator whose inputs are the last ones of x->inputs; it replaces one of the same name.
 */
static uint32_t add_def(struct op_table *t, struct op_def def) {
    struct op_extra *x = t->extra;
    uint32_t index = x->defs.n;
    vec_push(&x->defs, def);
    if (x->defs.n > x->n_slots / 2)
        set_slots(x, x->n_slots * 2);
    else
        *slot_of(x, def.domain, def.name) = index;
    t->defs = x->defs.at;
    t->n_defs = x->defs.n;
    t->inputs = x->inputs.at;
    return index;
}

void op_table_init(struct op_table *t) {
    struct op_extra *x = calloc(1, sizeof *x);
    if (!x) arena_out_of_memory(sizeof *x);
    *t = (struct op_table){.extra = x};
    memcpy(vec_extend(&x->inputs, sizeof builtin_inputs / sizeof *builtin_inputs), builtin_inputs,
           sizeof builtin_inputs);
    vec_push(&x->defs, ((struct op_def){.domain = "", .name = ""}));
    set_slots(x, FIRST_SLOTS);
    uint32_t first = 0;
    for (uint32_t i = 0; i < N_BUILTIN; i++) {
        struct op_def def = builtin_defs[i];
        def.first_input = first;
        first += def.n_inputs;
        add_def(t, def);
    }
}

void op_table_free(struct op_table *t) {
    struct op_extra *x = t->extra;
    if (x) {
        vec_free(&x->defs);
        vec_free(&x->inputs);
        vec_free(&x->assumed);
        arena_free(&x->arena);
        free(x->slots);
        free(x);
    }
    *t = (struct op_table){0};
}

uint32_t op_find(const struct op_table *t, const char *domain, const char *name) {
    return *slot_of(t->extra, normal_domain(domain), name);
}

const struct op_def *op_get(const struct op_table *t, uint32_t def) {
    return &t->defs[def < t->n_defs ? def : 0];
}

const struct op_input *op_input_of(const struct op_table *t, uint32_t def, uint32_t i) {
    static const struct op_input beyond = {.name = "", .rule = OP_STOP, .optional = true};
    const struct op_def *op = op_get(t, def);
    if (op->n_inputs == 0) return &beyond;
    const struct op_input *last = &t->inputs[op->first_input + op->n_inputs - 1];
    if (i < op->n_inputs) return &t->inputs[op->first_input + i];
    return last->variadic ? last : &beyond;
}

bool op_input_in(const struct op_input *in, int64_t opset) {
    if (opset == OP_ANY_OPSET) return !in->since && !in->until;
    return opset == 0 ? !in->until : in->since <= opset && (!in->until || opset <= in->until);
}

uint32_t op_min_inputs(const struct op_table *t, uint32_t def, int64_t opset) {
    const struct op_def *op = op_get(t, def);
    uint32_t needed = 0;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const struct op_input *in = &t->inputs[op->first_input + i];
        if (!in->optional && op_input_in(in, opset)) needed = i + 1;
    }
    return needed;
}

uint32_t op_max_inputs(const struct op_table *t, uint32_t def, int64_t opset) {
    const struct op_def *op = op_get(t, def);
    uint32_t n = op->n_inputs;
    if (n && t->inputs[op->first_input + n - 1].variadic) return UINT32_MAX;
    while (opset != OP_ANY_OPSET && n && t->inputs[op->first_input + n - 1].until &&
           !op_input_in(&t->inputs[op->first_input + n - 1], opset))
        n--;
    return n;
}

const char *op_nearest(const struct op_table *t, const char *domain, const char *name) {
    const char **names = calloc(t->n_defs, sizeof *names);
    if (!names) arena_out_of_memory(t->n_defs * sizeof *names);
    size_t n = 0;
    for (uint32_t i = 1; i < t->n_defs; i++)
        if (strcmp(t->defs[i].domain, normal_domain(domain)) == 0) names[n++] = t->defs[i].name;
    const char *nearest = diag_nearest(name, names, n);
    free(names);
    return nearest;
}

/* ---- operators of one run -------------------------------------------------------------------- */

void op_table_assume(struct op_table *t, const char *glob) {
    const char *copy = arena_strndup(&t->extra->arena, glob, strlen(glob));
    vec_push(&t->extra->assumed, ((struct op_assumption){copy, false}));
}

bool op_table_assumed(const struct op_table *t, const char *glob) {
    const struct op_extra *x = t->extra;
    for (uint32_t i = 0; i < x->assumed.n; i++)
        if (x->assumed.at[i].used && strcmp(x->assumed.at[i].glob, glob) == 0) return true;
    return false;
}

/* Marks every pattern that matches. */
static bool is_assumed(struct op_extra *x, const char *domain, const char *name) {
    struct arena scratch = {0};
    const char *full = arena_printf(&scratch, "%s.%s", *domain ? domain : "ai.onnx", name);
    bool found = false;
    for (uint32_t i = 0; i < x->assumed.n; i++) {
        struct op_assumption *a = &x->assumed.at[i];
        if (!glob_match(a->glob, full) && (*domain || !glob_match(a->glob, name))) continue;
        a->used = found = true;
    }
    arena_free(&scratch);
    return found;
}

uint32_t op_resolve(struct op_table *t, const char *domain, const char *name) {
    struct op_extra *x = t->extra;
    domain = normal_domain(domain);
    uint32_t known = op_find(t, domain, name), any = known ? 0 : op_find(t, domain, "*");
    if (any) {
        struct op_def same = *op_get(t, any);
        same.name = arena_strndup(&x->arena, name, strlen(name));
        return add_def(t, same);
    }
    if (known || !is_assumed(x, domain, name)) return known;
    struct op_def def = {.domain = arena_strndup(&x->arena, domain, strlen(domain)),
                         .name = arena_strndup(&x->arena, name, strlen(name)),
                         .first_input = x->inputs.n,
                         .n_inputs = 1,
                         .flags = OP_ASSUMED,
                         .out_dtype = OP_DTYPE_UNKNOWN,
                         .rest_dtype = OP_DTYPE_UNKNOWN,
                         .max_outputs = OP_ANY,
                         .grad_outputs = UINT32_MAX};
    vec_push(&x->inputs,
             ((struct op_input){
                 .name = "inputs", .rule = OP_FLOW_IF_FLOAT, .optional = true, .variadic = true}));
    return add_def(t, def);
}

/* One line of an --ops file while it is read. */
struct line {
    struct op_table *t;
    struct diags *d;
    const char *file; /* "ops.txt:3" */
    const char *at;   /* the rest of the line; NUL-terminated */
};

static bool malformed(struct line *l, const char *what, const char *word) {
    struct diag *e = diag_plain(l->d, DIAG_OPS_FILE, l->file, "%s '%s'", what, word);
    diag_set_help(
        l->d, e,
        "write 'my.domain.Op x=FLOW indices=STOP bias?=FLOW rest*=FLOW -> y=FLOW mask=STOP'"
        "; the rules are FLOW, FLOW_IF_FLOAT, ZERO, STOP and STATE");
    return false;
}

/* The next word of the line, in the table's arena; NULL at its end or before a comment. */
static const char *next_word(struct line *l) {
    l->at += strspn(l->at, " \t\r");
    if (!*l->at || *l->at == '#') return NULL;
    size_t len = strcspn(l->at, " \t\r");
    const char *word = arena_strndup(&l->t->extra->arena, l->at, len);
    l->at += len;
    return word;
}

/* "name=RULE" with '?' (may be omitted) or '*' (any number) behind the name. */
static bool read_item(struct line *l, const char *word, struct op_input *in) {
    static const struct {
        const char *name;
        enum op_rule rule;
    } rules[] = {{"FLOW", OP_FLOW},
                 {"FLOW_IF_FLOAT", OP_FLOW_IF_FLOAT},
                 {"ZERO", OP_ZERO},
                 {"STOP", OP_STOP},
                 {"STATE", OP_STOP}};
    const char *equals = strchr(word, '=');
    if (!equals) return malformed(l, "expected 'name=RULE', found", word);
    size_t len = (size_t)(equals - word);
    *in = (struct op_input){0};
    if (len && (equals[-1] == '?' || equals[-1] == '*')) {
        in->optional = true;
        in->variadic = equals[-1] == '*';
        len--;
    }
    if (!len) return malformed(l, "there is no name before the '=' in", word);
    in->name = arena_strndup(&l->t->extra->arena, word, len);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(equals + 1, rules[i].name) == 0) {
            in->rule = (uint8_t)rules[i].rule;
            in->state = strcmp(rules[i].name, "STATE") == 0;
            return true;
        }
    return malformed(l, "unknown rule", equals + 1);
}

static bool read_outputs(struct line *l, struct op_def *def) {
    const char *word;
    uint32_t n = 0;
    def->grad_outputs = 0;
    for (; (word = next_word(l)); n++) {
        struct op_input out;
        if (!read_item(l, word, &out)) return false;
        if (out.rule != OP_FLOW && out.rule != OP_STOP)
            return malformed(l, "an output is FLOW or STOP, not", word);
        uint32_t first = n < 31 ? n : 31, bits = out.variadic ? UINT32_MAX << first : 1u << first;
        if (out.rule == OP_FLOW) def->grad_outputs |= bits;
        if (out.variadic)
            def->max_outputs = OP_ANY;
        else if (def->max_outputs < OP_ANY)
            def->max_outputs++;
    }
    return n ? true : malformed(l, "no outputs after", "->");
}

static bool read_declaration(struct line *l) {
    struct op_extra *x = l->t->extra;
    const char *full = next_word(l), *word;
    if (!full) return true;
    const char *dot = strrchr(full, '.');
    size_t domain_len = dot ? (size_t)(dot - full) : 0;
    struct op_def def = {
        .domain = normal_domain(arena_strndup(&x->arena, full, domain_len)),
        .name = dot ? dot + 1 : full,
        .first_input = x->inputs.n,
        .flags = OP_ASSUMED | OP_DECLARED,
        .max_outputs = 0,
        .grad_outputs = UINT32_MAX,
    };
    if (!*def.name || strchr(full, '=')) return malformed(l, "expected 'domain.Op', found", full);
    uint32_t known = op_find(l->t, def.domain, def.name);
    if (known && op_get(l->t, known)->out_dtype == OP_DTYPE_BODY)
        return malformed(l, "control flow cannot be declared:", full);
    if (known && op_get(l->t, known)->flags & OP_ASSUMED)
        return malformed(l, "declared twice:", full);
    bool arrow = false;
    while (!arrow && (word = next_word(l))) {
        struct op_input in;
        arrow = strcmp(word, "->") == 0;
        if (arrow) break;
        if (x->inputs.n > def.first_input && x->inputs.at[x->inputs.n - 1].variadic)
            return malformed(l, "an input with '*' must be the last; found", word);
        if (!read_item(l, word, &in)) return false;
        vec_push(&x->inputs, in);
        l->t->inputs = x->inputs.at;
    }
    def.n_inputs = x->inputs.n - def.first_input;
    if (!arrow)
        def.max_outputs = OP_ANY;
    else if (!read_outputs(l, &def))
        return false;
    add_def(l->t, def);
    return true;
}

bool op_table_read(struct op_table *t, const char *path, struct diags *d) {
    struct source s;
    const char *why;
    if (!source_open(&s, path, &why)) {
        diag_plain(d, DIAG_CANNOT_READ, path, "cannot read the operator declarations: %s", why);
        return false;
    }
    bool ok = true;
    uint32_t number = 0;
    for (const char *at = s.bytes, *end = s.bytes + s.size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((newline ? newline : end) - at);
        struct line l = {t, d, arena_printf(&d->arena, "%s:%u", path, ++number),
                         arena_strndup(&t->extra->arena, at, len)};
        ok &= read_declaration(&l);
        at += len + 1;
    }
    source_free(&s);
    return ok;
}

const char *op_declaration(const struct op_table *t, uint32_t def, struct arena *a) {
    static const char *const rules[] = {"STOP", "FLOW", "FLOW_IF_FLOAT", "ZERO", "BODY", "STE"};
    const struct op_def *op = op_get(t, def);
    const char *s = arena_printf(a, "%s%s%s", op->domain, *op->domain ? "." : "", op->name);
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const struct op_input *in = &t->inputs[op->first_input + i];
        s = arena_printf(a, "%s %s%s=%s", s, in->name,
                         in->variadic   ? "*"
                         : in->optional ? "?"
                                        : "",
                         in->state ? "STATE" : rules[in->rule]);
    }
    if (op->max_outputs == OP_ANY && op->grad_outputs == UINT32_MAX) return s;
    s = arena_printf(a, "%s ->", s);
    uint32_t named = op->max_outputs;
    if (named == OP_ANY) /* up to the first of those that are all alike */
        for (named = 31; named && op_output_carries(op, named - 1) == op_output_carries(op, 31);)
            named--;
    for (uint32_t i = 0; i < named; i++)
        s = arena_printf(a, "%s y%u=%s", s, i, op_output_carries(op, i) ? "FLOW" : "STOP");
    if (op->max_outputs == OP_ANY)
        s = arena_printf(a, "%s rest*=%s", s, op_output_carries(op, 31) ? "FLOW" : "STOP");
    return s;
}
