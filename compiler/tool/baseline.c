/* Reading a baseline. It is JSON that this program wrote, so what cannot be understood is an error
 * and never skipped: a parameter that was overlooked would count as new, or as fixed. Keys that a
 * later minor version adds are of no interest; another major version may mean anything else.
 *
 * Names lose what wrappers put before them, if all have it, so that a report on the module that
 * DistributedDataParallel wraps compares with one on the module itself. */
#include "baseline.h"
#include "check.h"
#include "wrappers.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define REWRITE "write it again: ddpc check MODEL --format=json -o %s"
enum { LARGEST = 1 << 29 }; /* bytes; a tree of JSON takes some ten times as much memory */

struct reader {
    struct baseline *b;
    struct diags d;
    const char *file;
};

static bool wrong(struct reader *r, enum diag_code code, const char *text) {
    struct diag *g = diag_plain(&r->d, code, r->file, "%s", text);
    diag_set_help(&r->d, g, REWRITE, r->file);
    return false;
}

/* A key of `object` that must be there, of this type; `where` is the object's path with a dot, or
 * "". NULL after reporting. */
static json_t *member(struct reader *r, json_t *object, const char *where, const char *key,
                      json_type type) {
    static const char *const types[] = {"an object", "an array", "a string"};
    json_t *value = json_object_get(object, key);
    if (value && json_typeof(value) == type) return value;
    wrong(r, DIAG_BASELINE_CONTENT,
          arena_printf(&r->d.arena, "this is no report of `ddpc check`: %s%s is %s%s", where, key,
                       value ? "not " : "missing", value ? types[type] : ""));
    return NULL;
}

/* The same for a string that is one of the names; -1 after reporting. */
static int choice(struct reader *r, json_t *object, const char *where, const char *key,
                  const char *(*name)(int), int n) {
    json_t *value = member(r, object, where, key, JSON_STRING);
    if (!value) return -1;
    for (int i = 0; i < n; i++)
        if (!strcmp(json_string_value(value), name(i))) return i;
    wrong(r, DIAG_BASELINE_CONTENT,
          arena_printf(&r->d.arena, "%s%s is '%s', which no report of `ddpc check` says", where,
                       key, json_string_value(value)));
    return -1;
}

static const char *verdict_text(int i) { return verdict_name((enum verdict)i); }
static const char *class_text(int i) { return grad_class_name((enum grad_class)i); }
static const char *evidence_text(int i) { return check_evidence_name((enum evidence)i); }
static const char *kind_text(int i) { return i ? "buffer" : "parameter"; }

static bool read_parameter(struct reader *r, json_t *o, const char *where, uint32_t step) {
    json_t *name = member(r, o, where, "name", JSON_STRING);
    int kind = name ? choice(r, o, where, "kind", kind_text, 2) : -1;
    int class = kind >= 0 ? choice(r, o, where, "class", class_text, 4) : -1;
    if (class < 0) return false;
    struct baseline_at at = {arena_printf(&r->b->arena, "%s", json_string_value(name)), step,
                             (enum grad_class) class};
    if (kind == 0) vec_push(&r->b->at, at);
    return true;
}

static bool read_step(struct reader *r, json_t *o, uint32_t step) {
    struct arena paths = {0};
    bool ok = false;
    const char *where = arena_printf(&paths, "steps[%u].", step);
    json_t *name = member(r, o, where, "name", JSON_STRING), *p;
    json_t *ddp = name ? member(r, o, where, "ddp", JSON_OBJECT) : NULL;
    int verdict =
        ddp ? choice(r, ddp, arena_printf(&paths, "%sddp.", where), "verdict", verdict_text, 3)
            : -1;
    json_t *params = verdict >= 0 ? member(r, o, where, "parameters", JSON_ARRAY) : NULL;
    if (params) {
        vec_push(&r->b->steps, arena_printf(&r->b->arena, "%s", json_string_value(name)));
        vec_push(&r->b->step_verdict, (enum verdict)verdict);
        ok = true;
        size_t i;
        json_array_foreach(params, i, p) {
            char path[64];
            snprintf(path, sizeof path, "steps[%u].parameters[%zu].", step, i);
            if (!(ok = read_parameter(r, p, path, step))) break;
        }
    }
    arena_free(&paths);
    return ok;
}

static bool read_version(struct reader *r, json_t *root) {
    json_t *version = member(r, root, "", "format_version", JSON_STRING);
    if (!version) return false;
    const char *text = json_string_value(version);
    size_t digits = strspn(text, "0123456789");
    if (digits == 1 && *text == '1' && (text[1] == '.' || !text[1])) return true;
    return wrong(r, DIAG_BASELINE_MAJOR,
                 arena_printf(&r->d.arena,
                              "its format_version is '%s'; this ddpc, %s, reads version 1", text,
                              DDPC_VERSION));
}

static bool read_root(struct reader *r, json_t *root) {
    struct baseline *b = r->b;
    if (!json_is_object(root))
        return wrong(r, DIAG_BASELINE_CONTENT,
                     "this is no report of `ddpc check`: it is no JSON object");
    if (!read_version(r, root)) return false;
    int verdict = choice(r, root, "", "verdict", verdict_text, 3);
    int evidence = verdict >= 0 ? choice(r, root, "", "evidence", evidence_text, 3) : -1;
    json_t *steps = evidence >= 0 ? member(r, root, "", "steps", JSON_ARRAY) : NULL, *x;
    json_t *assumed = steps ? member(r, root, "", "unknown_operators", JSON_ARRAY) : NULL;
    if (!assumed) return false;
    b->verdict = (enum verdict)verdict;
    b->evidence = (enum evidence)evidence;
    size_t i;
    json_array_foreach(assumed, i, x) {
        if (!json_is_string(x))
            return wrong(r, DIAG_BASELINE_CONTENT,
                         "this is no report of `ddpc check`: unknown_operators are not strings");
        vec_push(&b->assumed, arena_printf(&b->arena, "%s", json_string_value(x)));
    }
    json_array_foreach(steps, i, x) if (!read_step(r, x, (uint32_t)i)) return false;
    return true;
}

static int by_name(const void *a, const void *b) {
    const struct baseline_at *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->step < y->step ? -1 : x->step > y->step;
}

/* Sorts, strips wrappers, and finds what each parameter was over all steps. */
static bool build(struct reader *r) {
    struct baseline *b = r->b;
    const char **names = arena_new(&b->arena, const char *, b->at.n);
    for (uint32_t i = 0; i < b->at.n; i++) names[i] = b->at.at[i].name;
    size_t prefix = wrappers_prefix(names, b->at.n);
    for (uint32_t i = 0; i < b->at.n; i++) b->at.at[i].name += prefix;
    if (b->at.n) qsort(b->at.at, b->at.n, sizeof *b->at.at, by_name);
    b->nothing_trained = true;
    for (uint32_t i = 0; i < b->at.n;) {
        const struct baseline_at *at = &b->at.at[i];
        struct baseline_param p = {.name = at->name, .first = i, .all = at->class};
        for (; i < b->at.n && !strcmp(b->at.at[i].name, p.name); i++, p.n++) {
            if (p.n && b->at.at[i].step == b->at.at[i - 1].step)
                return wrong(r, DIAG_BASELINE_CONTENT,
                             arena_printf(&r->d.arena, "steps[%u] has the parameter '%s' twice",
                                          b->at.at[i].step, p.name));
            p.all = advice_merge(p.all, b->at.at[i].class);
        }
        b->nothing_trained &= p.all == GRAD_NEVER || p.all == GRAD_FROZEN;
        vec_push(&b->params, p);
    }
    return true;
}

static json_t *parse(struct reader *r, struct source *s) {
    const char *why;
    if (!source_open(s, r->file, &why)) {
        struct diag *g =
            diag_plain(&r->d, DIAG_CANNOT_READ, r->file, "cannot read the baseline: %s", why);
        diag_set_help(&r->d, g, "the first one: ddpc check MODEL --format=json -o %s", r->file);
        return NULL;
    }
    r->file = s->name;
    json_error_t e;
    if (s->size > LARGEST) {
        wrong(r, DIAG_BASELINE_CONTENT,
              "this is no report of `ddpc check`: it has more than 512 MiB");
        return NULL;
    }
    json_t *root = json_loadb(s->bytes, s->size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (root) return root;
    size_t at = e.position > 0 ? (size_t)e.position - 1 : 0;
    struct diag *g = diag_at(&r->d, DIAG_BASELINE_JSON, (ir_loc)(at < s->size ? at : s->size), 1,
                             "the baseline is not JSON: %s", e.text);
    if (!strncmp(s->bytes, "VERDICT", 7))
        diag_set_help(&r->d, g,
                      "this is the report as text; a baseline is one as JSON: ddpc check "
                      "MODEL --format=json -o FILE");
    else
        diag_set_help(&r->d, g, REWRITE, r->file);
    return NULL;
}

bool baseline_read(struct baseline *b, const struct tool *t, const char *path) {
    struct source source = {0};
    struct reader r = {.b = b, .file = path};
    *b = (struct baseline){.file = path};
    diags_init(&r.d, &source);
    json_t *root = parse(&r, &source);
    bool ok = root && read_root(&r, root) && build(&r);
    json_decref(root);
    tool_print_diags(t, &r.d);
    diags_free(&r.d);
    source_free(&source);
    return ok;
}

void baseline_free(struct baseline *b) {
    vec_free(&b->steps);
    vec_free(&b->step_verdict);
    vec_free(&b->assumed);
    vec_free(&b->at);
    vec_free(&b->params);
    arena_free(&b->arena);
}

struct baseline_param *baseline_find(const struct baseline *b, const char *name) {
    for (uint32_t low = 0, high = b->params.n; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(name, b->params.at[middle].name);
        if (!order) return &b->params.at[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

int baseline_step(const struct baseline *b, const char *name) {
    for (uint32_t s = 0; s < b->steps.n; s++)
        if (!strcmp(b->steps.at[s], name)) return (int)s;
    return -1;
}

enum grad_class baseline_class(const struct baseline *b, const struct baseline_param *p, int step) {
    for (uint32_t i = p->first; step >= 0 && i < p->first + p->n; i++)
        if (b->at.at[i].step == (uint32_t)step) return b->at.at[i].class;
    return p->all;
}
