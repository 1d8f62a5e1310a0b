/* Parameters from --params FILE: what the module has, against what the graph shows.
 *
 * A name of the file is looked for in the graph. Where an exporter wrote it as an Identity of an
 * initializer, that is the parameter, unless the initializer is one itself: exporters store equal
 * tensors once, so the copy stands for a second parameter, and no gradient may pass it into the
 * first. A name that is not in the graph was dropped because nothing used it, or was folded into an
 * initializer of another name. Only its size can tell the two apart: without an unlisted
 * initializer of so many elements, nothing was renamed; and only tensors of a name that an exporter
 * made up can hold several (exporter.c). Those of its dimensions, in any order, are the likelier
 * ones and are named first.
 *
 * Names in the graph are claimed first and copies second, since the first decide whose copy an
 * Identity is; each pass is one walk over the list, and candidates of a size are found in a sorted
 * pool, so that a hundred thousand lines cost no more than reading them. */
#include "lines.h"
#include "program_build.h"
#include "wrappers.h"
#include <stdlib.h>
#include <string.h>

struct listing {
    struct builder *b;
    struct params_list list;
    struct lines file;   /* for messages: its name */
    uint32_t *candidate; /* by value: its candidate + 1 */
    uint32_t *owner;     /* by value: the entry that is this tensor, + 1 */
    uint32_t *found;     /* by entry: its candidate + 1 */
    bool few;            /* it lists less than half of the model: said once, not of each */
    bool ok;
};

static str entry_name(const struct listing *l, const struct params_entry *e, uint32_t k) {
    return k ? l->list.alias.at[e->aliases + k - 1] : e->name;
}

static void describe(struct listing *l, struct param *p, const struct params_entry *e) {
    const struct ir_module *m = l->b->m;
    p->name = e->name;
    p->type = e->type;
    p->dtype = ir_type_dtype(m, e->type);
    p->elements = ir_type_elements(m, e->type);
    p->no_grad = !e->requires_grad;
    for (uint32_t k = 1; k <= e->n_aliases; k++) vec_push(&p->aliases, entry_name(l, e, k));
}

/* The list's type of a parameter against the model's. Another number of elements is another tensor,
 * another element type or order of dimensions may be meant: the exporter converted. But a tensor of
 * another name may be a transposed copy. */
static void check_type(struct listing *l, const struct params_entry *e, ir_value v) {
    struct builder *b = l->b;
    const struct ir_value_info *value = &b->m->value.at[v];
    int64_t listed = ir_type_elements(b->m, e->type), here = ir_type_elements(b->m, value->type);
    if (here < 0 || e->type == value->type) return;
    bool renamed = b->real[v] || value->name != e->name;
    if (listed == here && renamed &&
        ir_type_dtype(b->m, e->type) == ir_type_dtype(b->m, value->type))
        return;
    struct diag *g = lines_report(
        &l->file, e->line, listed == here ? DIAG_PARAMS_OTHER_TYPE : DIAG_PARAMS_MISMATCH,
        "'%s' is listed as %s, but the model has it as %s", ir_text(b->m, e->name),
        ir_type_text(b->m, &b->scratch, e->type), ir_type_text(b->m, &b->scratch, value->type));
    diag_add_note(b->d, g, value->loc, "the model has it here");
    if (listed == here)
        diag_set_help(b->d, g, "the list is believed; write it and the model from one module");
    else
        l->ok = false;
}

/* Entry `i` is the tensor `v`, of the candidate at[c - 1] if c. */
static void claim(struct listing *l, uint32_t i, ir_value v) {
    struct builder *b = l->b;
    const struct params_entry *e = &l->list.all.at[i];
    check_type(l, e, v);
    l->owner[v] = i + 1;
    if (l->found[i]) {
        vec_push(&b->candidates.at[l->found[i] - 1].param.tied, v);
        if (l->candidate[v]) {
            b->candidates.at[l->candidate[v] - 1].role = ROLE_TIED;
            b->candidates.at[l->candidate[v] - 1].into = l->found[i] - 1;
        }
        return;
    }
    if (!l->candidate[v]) {
        params_add_candidate(b, v, ir_type_elements(b->m, e->type), ROLE_PARAMETER);
        l->candidate[v] = b->candidates.n;
    }
    l->found[i] = l->candidate[v];
    struct candidate *c = &b->candidates.at[l->found[i] - 1];
    c->role = ROLE_PARAMETER;
    c->listed = true;
    describe(l, &c->param, e);
}

/* The value of which `v` is a copy by Identity nodes; `v` itself if it is none. */
static ir_value copied_from(const struct builder *b, ir_value v) {
    const struct ir_module *m = b->m;
    uint32_t identity = op_find(b->p->ops, "", "Identity");
    while (m->value.at[v].def == IR_DEF_NODE && m->node.at[m->value.at[v].node].def == identity) {
        ir_value from = ir_input(m, m->value.at[v].node, 0);
        if (!from) break;
        v = from;
    }
    return v;
}

/* A stale name does not count: the tensor may live on under another one. */
static bool is_candidate(const struct listing *l, ir_value v) {
    return l->candidate[v] && l->b->candidates.at[l->candidate[v] - 1].role != ROLE_STALE;
}

static void find_entries(struct listing *l) {
    struct builder *b = l->b;
    /* The names that the graph has come first: they decide whose copy an Identity is. */
    for (int copies = 0; copies < 2; copies++) {
        for (uint32_t i = 0; i < l->list.all.n; i++) {
            const struct params_entry *e = &l->list.all.at[i];
            if (!ir_type_carries_gradient(b->m, e->type)) continue;
            for (uint32_t k = 0; k <= e->n_aliases; k++) {
                str name = entry_name(l, e, k);
                ir_value v = names_find(b, ir_text(b->m, name), strtab_len(&b->m->strings, name));
                if (!v) continue;
                if (!copies) {
                    if (is_candidate(l, v) && !l->owner[v]) claim(l, i, v);
                    continue;
                }
                ir_value from = copied_from(b, v);
                if (from == v || !is_candidate(l, from) || l->owner[from] == i + 1) continue;
                claim(l, i, l->owner[from] ? v : from);
            }
        }
    }
}

/* An initializer by its size and by its dimensions in any order, ones left out: a folded weight is
 * transposed, or has gained or lost dimensions of size 1. */
struct sized {
    int64_t elements;
    uint64_t form;
    ir_value value;
};

/* The same for the same dimensions; a sum of mixed dimensions has no order (the finalizer is
 * splitmix64's). Equal by chance, two forms make one suggestion too many. */
static uint64_t form_of(const struct ir_module *m, ir_type type) {
    const struct ir_type_info *info = &m->type.at[type];
    uint64_t sum = 0;
    for (int32_t i = 0; i < info->rank; i++) {
        uint64_t x = (uint64_t)m->dim.at[info->dims + (uint32_t)i].size;
        if (x == 1) continue;
        x *= 0x9E3779B97F4A7C15u;
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
        x = (x ^ x >> 27) * 0x94D049BB133111EBu;
        sum += x ^ x >> 31;
    }
    return sum;
}

static int compare_sized(const struct sized *x, const struct sized *y) {
    if (x->elements != y->elements) return x->elements < y->elements ? -1 : 1;
    return x->form < y->form ? -1 : x->form > y->form;
}

static int by_size(const void *a, const void *b) {
    const struct sized *x = a, *y = b;
    int order = compare_sized(x, y);
    return order ? order : x->value < y->value ? -1 : x->value > y->value;
}

typedef VEC(struct sized) pool;

/* The tensors with data that no line of the file is, sorted by size: constants of the main graph,
 * declared parameters, and the initializers of subgraphs, into which an exporter may have moved a
 * weight. */
static pool unlisted(const struct listing *l) {
    const struct builder *b = l->b;
    const struct ir_module *m = b->m;
    pool out = {0};
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        struct sized s = {c->param.elements, form_of(m, c->param.type), c->param.value};
        if (c->role == ROLE_CONSTANT || (c->role == ROLE_PARAMETER && !c->listed))
            vec_push(&out, s);
    }
    for (ir_value v = 1; v < m->value.n; v++) {
        const struct ir_value_info *value = &m->value.at[v];
        if (value->def != IR_DEF_INITIALIZER || value->graph == m->main) continue;
        struct sized s = {ir_type_elements(m, value->type), form_of(m, value->type), v};
        if (params_is_float(m, v)) vec_push(&out, s);
    }
    if (out.n) qsort(out.at, out.n, sizeof *out.at, by_size);
    return out;
}

enum { CANDIDATES_SHOWN = 3, ABSENT_SHOWN = 3 };

/* `same`, `n`: the likelier ones of the `all` unlisted tensors of its size. */
static void report_absent(struct listing *l, const struct params_entry *e, const struct sized *same,
                          uint32_t n, uint32_t all) {
    struct builder *b = l->b;
    const char *name = ir_text(b->m, e->name);
    if (b->exporter && b->absent > ABSENT_SHOWN) return; /* exporter_note says it of all */
    struct diag *g = lines_report(
        &l->file, e->line, DIAG_PARAMS_ABSENT,
        "the model has no '%s'; %u initializer%s of its size could be it under another name", name,
        all, all == 1 ? "" : "s");
    for (uint32_t k = 0; k < n && k < CANDIDATES_SHOWN; k++) {
        const struct ir_value_info *value = &b->m->value.at[same[k].value];
        diag_add_note(b->d, g, value->loc, "'%s', %s", ir_value_name(b->m, same[k].value),
                      ir_type_text(b->m, &b->scratch, value->type));
    }
    diag_set_help(b->d, g, "if it is the first of them: --alias '%s=%s'",
                  ir_value_name(b->m, same->value), name);
}

/* The first of the pool that is not smaller than `s`. */
static uint32_t first_not_below(const pool *p, const struct sized *s) {
    uint32_t low = 0, high = p->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_sized(&p->at[middle], s) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of the tensors of one size, [low, high), those of this form; all of them if none is. */
static const struct sized *likelier(const pool *p, uint32_t low, uint32_t high, uint64_t form,
                                    uint32_t *n) {
    struct sized s = {p->at[low].elements, form, 0};
    uint32_t first = first_not_below(p, &s), end = first;
    while (end < high && p->at[end].form == form) end++;
    if (end == first) first = low, end = high;
    *n = end - first;
    return &p->at[first];
}

/* Listed parameters that the graph does not have. */
static void add_absent(struct listing *l) {
    struct builder *b = l->b;
    pool others = unlisted(l);
    const char *folded = exporter_folded(b);
    bool optimized = exporter_optimized(b);
    for (uint32_t i = 0; i < l->list.all.n; i++) {
        const struct params_entry *e = &l->list.all.at[i];
        if (l->found[i] || !ir_type_carries_gradient(b->m, e->type)) continue;
        struct candidate c = {.role = ROLE_PARAMETER, .listed = true, .param.loc = IR_NO_LOC};
        describe(l, &c.param, e);
        struct sized least = {c.param.elements, 0, 0};
        uint32_t low = first_not_below(&others, &least), high = low;
        while (high < others.n && others.at[high].elements == c.param.elements) high++;
        if (high > low && e->requires_grad) {
            uint32_t likely = 0;
            b->absent++;
            const struct sized *same =
                likelier(&others, low, high, form_of(b->m, e->type), &likely);
            if (!l->few) report_absent(l, e, same, likely, high - low);
            c.param.unsure = true;
            c.param.perhaps = ir_value_name(b->m, same->value);
            b->unaccounted++;
        } else if ((folded || optimized) && e->requires_grad) {
            b->absent++;
            c.param.unsure = true;
            c.param.perhaps = folded;
            b->unaccounted++;
        }
        vec_push(&b->candidates, c);
        l->found[i] = b->candidates.n;
    }
    vec_free(&others);
}

/* Declared parameters that the file does not know: one of the two is wrong. */
static void warn_unlisted(struct listing *l) {
    struct builder *b = l->b;
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        if (c->role != ROLE_PARAMETER || c->listed) continue;
        b->unaccounted++;
        if (l->few) continue;
        const char *name = ir_text(b->m, c->param.name);
        diag_at(b->d, DIAG_PARAMS_UNLISTED, c->param.loc, (uint32_t)strlen(name),
                "the model declares the parameter '%s', but %s does not list it", name,
                b->o->params);
    }
}

enum { FEW_SPEAK_FOR_THEMSELVES = 3 };

/* The wrappers' part of all names in the list: how many bytes. */
static size_t wrapped(const struct listing *l) {
    const char **names = arena_new(&l->b->scratch, const char *, l->list.all.n);
    for (uint32_t i = 0; i < l->list.all.n; i++)
        names[i] = ir_text(l->b->m, l->list.all.at[i].name);
    return wrappers_prefix(names, l->list.all.n);
}

/* A list of another module than the model's: one message about all its names, not one about each.
 * False if it cannot be meant. */
static bool check_belongs(struct listing *l) {
    struct builder *b = l->b;
    uint32_t found = 0, initializers = 0;
    for (uint32_t i = 0; i < l->list.all.n; i++) found += l->found[i] != 0;
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        const struct candidate *c = &b->candidates.at[i];
        initializers +=
            c->listed || (!c->literal && c->role != ROLE_STALE && c->role != ROLE_INPUT &&
                          c->role != ROLE_BUFFER && !exporter_made_up(b, c));
    }
    size_t prefix = found ? 0 : wrapped(l);
    if (prefix) {
        struct diag *g = diag_plain(b->d, DIAG_PARAMS_WRAPPED, l->file.path,
                                    "every name begins with '%.*s', and the model has none of them",
                                    (int)prefix, ir_text(b->m, l->list.all.at[0].name));
        diag_set_help(
            b->d, g,
            "write the file from the unwrapped module (of DistributedDataParallel "
            "model.module, of torch.compile model._orig_mod, of PEFT model.base_model.model)");
        return false;
    }
    l->few = 2 * found < initializers &&
             (!l->list.all.n || initializers - found > FEW_SPEAK_FOR_THEMSELVES);
    if (!l->few) return true;
    struct diag *g =
        found ? diag_plain(b->d, DIAG_PARAMS_FEW, l->file.path,
                           "lists only %u of the model's %u initializers", found, initializers)
              : diag_plain(b->d, DIAG_PARAMS_FEW, l->file.path,
                           "lists none of the model's %u initializers", initializers);
    diag_set_help(b->d, g, "write it from the module that was exported: what it does not list %s",
                  b->declared ? "leaves the verdict unknown" : "does not train");
    return true;
}

/* The listed parameters first, in the file's order: that is the order of the module. */
static void reorder(struct listing *l) {
    struct builder *b = l->b;
    VEC(struct candidate) sorted = {0};
    uint32_t *moved = arena_new(&b->scratch, uint32_t, b->candidates.n);
    for (uint32_t i = 0; i < l->list.all.n; i++) {
        if (!l->found[i]) continue;
        moved[l->found[i] - 1] = sorted.n;
        vec_push(&sorted, b->candidates.at[l->found[i] - 1]);
    }
    for (uint32_t i = 0; i < b->candidates.n; i++) {
        if (b->candidates.at[i].listed) continue;
        moved[i] = sorted.n;
        vec_push(&sorted, b->candidates.at[i]);
    }
    for (uint32_t i = 0; i < sorted.n; i++) sorted.at[i].into = moved[sorted.at[i].into];
    vec_free(&b->candidates);
    b->candidates.at = sorted.at;
    b->candidates.n = sorted.n;
    b->candidates.cap = sorted.cap;
}

bool params_listed(struct builder *b) {
    const struct ir_module *m = b->m;
    struct listing l = {.b = b, .ok = true, .file = {.path = b->o->params, .diags = b->d}};
    if (params_file_read(&l.list, b->m, b->o->params, b->d)) {
        l.candidate = arena_new(&b->scratch, uint32_t, m->value.n);
        l.owner = arena_new(&b->scratch, uint32_t, m->value.n);
        l.found = arena_new(&b->scratch, uint32_t, l.list.all.n);
        for (uint32_t i = 0; i < b->candidates.n; i++) {
            struct candidate *c = &b->candidates.at[i];
            l.candidate[c->param.value] = i + 1;
            if (c->role == ROLE_STALE && b->declared) c->role = ROLE_PARAMETER;
        }
        find_entries(&l);
        if (check_belongs(&l)) {
            add_absent(&l);
            warn_unlisted(&l);
            reorder(&l);
        } else {
            l.ok = false;
        }
    } else {
        l.ok = false;
    }
    params_file_free(&l.list);
    return l.ok;
}
