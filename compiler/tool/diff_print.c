/* The two forms of a diff: text for the log of a CI job, JSON for what reads it. Both end with what
 * changed in size: per step and in total the parameters with a gradient, the buckets, their bytes
 * and the predicted finish, also where nothing else differs. */
#include "diff_print.h"
#include "plan_tool.h"
#include <string.h>

static const char *action_name(enum diff_action a) {
    static const char *const names[] = {"add", "remove", "update", "move"};
    return names[a];
}

static uint32_t count_of(const struct diff *d, enum diff_class class) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->changes.n; i++)
        n += diff_rule_class(d->changes.at[i].rule) == class;
    return n;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

struct sizes {
    uint64_t parameters, buckets, bytes;
    double finish_us;
};

static struct sizes sizes_of(const struct plan *p, uint32_t step) {
    struct sizes s = {0};
    if (step == PLAN_NONE) return s;
    const struct plan_step *t = &p->step[step];
    s.parameters = t->n_segments;
    s.finish_us = t->finish_us;
    for (uint32_t i = t->first_bucket; i < t->first_bucket + t->n_buckets; i++) {
        s.buckets += p->bucket[i].kind == PLAN_GRADIENT;
        s.bytes += p->bucket[i].gradient_bytes;
    }
    return s;
}

/* The rows: OLD's steps with their partners, then those that only NEW has, then the sum. */
struct row {
    const char *name; /* NULL: the total */
    struct sizes old, new;
};
typedef VEC(struct row) row_list;

static void add_sizes(struct sizes *to, const struct sizes *s) {
    to->parameters += s->parameters;
    to->buckets += s->buckets;
    to->bytes += s->bytes;
    to->finish_us += s->finish_us;
}

static void make_rows(const struct diff *d, row_list *rows) {
    struct row total = {0};
    for (uint32_t s = 0; s < d->old->n_steps; s++) {
        struct row row = {plan_string(d->old, d->old->step[s].name), sizes_of(d->old, s),
                          sizes_of(d->new, d->step_to_new[s])};
        vec_push(rows, row);
    }
    for (uint32_t t = 0; t < d->new->n_steps; t++) {
        struct row row = {plan_string(d->new, d->new->step[t].name), {0}, sizes_of(d->new, t)};
        if (d->step_to_old[t] == PLAN_NONE) vec_push(rows, row);
    }
    for (uint32_t i = 0; i < rows->n; i++) {
        add_sizes(&total.old, &rows->at[i].old);
        add_sizes(&total.new, &rows->at[i].new);
    }
    vec_push(rows, total);
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *count_cell(struct arena *a, uint64_t old, uint64_t new) {
    if (old == new) return arena_printf(a, "%llu", (unsigned long long)old);
    return arena_printf(a, "%llu -> %llu (%c%llu)", (unsigned long long)old,
                        (unsigned long long)new, old < new ? '+' : '-',
                        (unsigned long long)(old < new ? new - old : old - new));
}

static const char *time_cell(struct arena *a, double old, double new) {
    if (old == new) return arena_printf(a, "%.3f µs", old);
    if (old == 0) return arena_printf(a, "%.3f -> %.3f µs", old, new);
    return arena_printf(a, "%.3f -> %.3f µs (%+.1f %%)", old, new, 100 * (new - old) / old);
}

static void print_table(const struct diff *d, FILE *out) {
    enum { COLUMNS = 5 };
    static const char *const head[COLUMNS] = {"STEP", "PARAMETERS", "BUCKETS", "BYTES", "FINISH"};
    row_list rows = {0};
    make_rows(d, &rows);
    const char **cell = arena_new(d->arena, const char *, (size_t)(rows.n + 1) * COLUMNS);
    size_t width[COLUMNS] = {0};
    memcpy(cell, head, sizeof head);
    for (uint32_t i = 0; i < rows.n; i++) {
        const struct row *r = &rows.at[i];
        const char **to = &cell[(size_t)(i + 1) * COLUMNS];
        to[0] = r->name ? r->name : "TOTAL";
        to[1] = count_cell(d->arena, r->old.parameters, r->new.parameters);
        to[2] = count_cell(d->arena, r->old.buckets, r->new.buckets);
        to[3] = count_cell(d->arena, r->old.bytes, r->new.bytes);
        to[4] = time_cell(d->arena, r->old.finish_us, r->new.finish_us);
    }
    for (size_t i = 0; i < (size_t)(rows.n + 1) * COLUMNS; i++)
        if (strlen(cell[i]) > width[i % COLUMNS]) width[i % COLUMNS] = strlen(cell[i]);
    for (size_t i = 0; i < (size_t)(rows.n + 1) * COLUMNS; i++) {
        if (i % COLUMNS + 1 == COLUMNS)
            fprintf(out, "%s\n", cell[i]);
        else
            fprintf(out, "%-*s", (int)width[i % COLUMNS] + 2, cell[i]);
    }
    vec_free(&rows);
}

void diff_print_text(const struct diff *d, FILE *out) {
    char id[DIFF_ID_SIZE];
    for (uint32_t i = 0; i < d->changes.n; i++) {
        const struct diff_change *c = &d->changes.at[i];
        fprintf(out, "%-5s  %s  ", diff_class_name(diff_rule_class(c->rule)),
                diff_rule_id(c->rule, id));
        const char *change = "";
        if (c->before && c->after)
            change = arena_printf(d->arena, " (%s -> %s)", c->before, c->after);
        else if (c->before || c->after)
            change = arena_printf(d->arena, " (%s%s)", c->before ? "was " : "now ",
                                  c->before ? c->before : c->after);
        tool_put(out, arena_printf(d->arena, "%s: %s%s", c->path, c->reason, change));
        fputc('\n', out);
    }
    if (d->changes.n) fputc('\n', out);
    print_table(d, out);
    fprintf(out, "\n%s; %s\n",
            d->changes.n
                ? arena_printf(d->arena, "%u wire, %u state, %u info", count_of(d, DIFF_WIRE),
                               count_of(d, DIFF_STATE), count_of(d, DIFF_INFO))
                : "no change",
            diff_compatible(d) ? "ranks with OLD and ranks with NEW can run together"
                               : "ranks with OLD and ranks with NEW refuse each other: wire and "
                                 "state must agree");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *text_or_null(const char *s) { return s ? dump_name(s) : json_null(); }

static json_t *location_of(const struct plan *p, uint32_t param) {
    if (param == PLAN_NONE || p->source[param].line == 0) return json_null();
    return json_pack("{s:i, s:i}", "line", (int)p->source[param].line, "column",
                     (int)p->source[param].column);
}

/* What names a change from run to run: its rule, place and values, not its position in the list. */
static const char *fingerprint_of(struct arena *a, const struct diff_change *c) {
    char id[DIFF_ID_SIZE];
    const char *text = arena_printf(a, "%s\n%s\n%s\n%s", diff_rule_id(c->rule, id), c->path,
                                    c->before ? c->before : "", c->after ? c->after : "");
    return arena_printf(a, "%016llx", (unsigned long long)plan_name_hash(text, strlen(text)));
}

static json_t *change_of(const struct diff *d, const struct diff_change *c) {
    char id[DIFF_ID_SIZE];
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:n}", "rule",
                     diff_rule_id(c->rule, id), "class", diff_class_name(diff_rule_class(c->rule)),
                     "action", action_name(c->action), "path", dump_name(c->path), "before",
                     text_or_null(c->before), "after", text_or_null(c->after), "reason",
                     dump_name(c->reason), "old_location", location_of(d->old, c->old_param),
                     "new_location", location_of(d->new, c->new_param), "fingerprint",
                     fingerprint_of(d->arena, c), "suppressed_by");
}

static json_t *sizes_json(const struct sizes *s) {
    return json_pack("{s:I, s:I, s:I, s:f}", "parameters", (json_int_t)s->parameters, "buckets",
                     (json_int_t)s->buckets, "bytes", (json_int_t)s->bytes, "predicted_finish_us",
                     s->finish_us);
}

void diff_print_json(const struct diff *d, FILE *out) {
    json_t *changes = json_array(), *steps = json_array(), *total = NULL;
    row_list rows = {0};
    make_rows(d, &rows);
    for (uint32_t i = 0; i < d->changes.n; i++)
        json_array_append_new(changes, change_of(d, &d->changes.at[i]));
    for (uint32_t i = 0; i < rows.n; i++) {
        const struct row *r = &rows.at[i];
        json_t *sizes =
            json_pack("{s:o, s:o}", "old", sizes_json(&r->old), "new", sizes_json(&r->new));
        if (!r->name)
            total = sizes;
        else {
            json_object_set_new(sizes, "name", dump_name(r->name));
            json_array_append_new(steps, sizes);
        }
    }
    vec_free(&rows);
    const char *verdict =
        d->changes.n ? diff_class_name(diff_rule_class(d->changes.at[0].rule)) : "same";
    json_t *root = json_pack(
        "{s:s, s:s, s:b, s:{s:i, s:i, s:i}, s:o, s:{s:o, s:o}}", "format_version", "1.0", "verdict",
        verdict, "compatible", (int)diff_compatible(d), "counts", "wire",
        (int)count_of(d, DIFF_WIRE), "state", (int)count_of(d, DIFF_STATE), "info",
        (int)count_of(d, DIFF_INFO), "changes", changes, "deltas", "steps", steps, "total", total);
    json_dumpf(root, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(root);
}
