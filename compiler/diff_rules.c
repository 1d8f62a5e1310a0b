/* What changed, said once.
 *
 * A plan's fields hang together: another shape moves every offset behind it, another class takes a
 * gradient out of its bucket and adds a presence slot. Reporting what differs field by field would
 * bury the cause under its consequences. So each rule looks at one decision, and a rule whose
 * fields follow from another decision leaves out what that one explains: a gradient that has
 * another dtype, class or guard says nothing about buckets; bytes, offsets and slots are never
 * looked at, because the format determines them.
 *
 * That could overlook something. The semantic hash is the safety net: where two plans' hashes
 * differ and no rule of the classes wire and state has fired, the rule OTHER does. */
#include "diff.h"
#include <stdio.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    uint32_t number;
    enum diff_class class;
    const char *title, *essay;
} rules[] = {
#define RULE(number, ident, class, title, essay) {number, DIFF_##class, title, essay},
#include "diff_rules.def"
};

static const struct {
    const char *name, *meaning;
} classes[] = {
#define CLASS(ident, name, meaning) {name, meaning},
#include "diff_rules.def"
};

const char *diff_rule_id(enum diff_rule r, char id[DIFF_ID_SIZE]) {
    snprintf(id, DIFF_ID_SIZE, "DDP%c%03u", "WSRNPI"[rules[r].class], (unsigned)rules[r].number);
    return id;
}
enum diff_class diff_rule_class(enum diff_rule r) { return rules[r].class; }
const char *diff_rule_title(enum diff_rule r) { return rules[r].title; }
const char *diff_rule_essay(enum diff_rule r) { return rules[r].essay; }
const char *diff_class_name(enum diff_class c) { return classes[c].name; }
const char *diff_class_meaning(enum diff_class c) { return classes[c].meaning; }

bool diff_compatible(const struct diff *d) {
    return memcmp(d->old->header->semantic_hash, d->new->header->semantic_hash, 16) == 0;
}

/* ---- saying it ------------------------------------------------------------------------------- */

static struct diff_change *add(struct diff *d, enum diff_rule rule, enum diff_action action,
                               const char *path) {
    struct diff_change change = {rule,      action,   path, NULL, NULL, rules[rule].title,
                                 PLAN_NONE, PLAN_NONE};
    vec_push(&d->changes, change);
    return &d->changes.at[d->changes.n - 1];
}

static struct diff_change *add_update(struct diff *d, enum diff_rule rule, const char *path,
                                      const char *before, const char *after) {
    struct diff_change *c = add(d, rule, DIFF_UPDATE, path);
    c->before = before;
    c->after = after;
    return c;
}

static const char *param_path(struct diff *d, uint32_t old) {
    return arena_printf(d->arena, "parameter/%s", plan_param_name(d->old, old));
}
static const char *step_name(const struct plan *p, uint32_t step) {
    return plan_string(p, p->step[step].name);
}
static const char *step_path(struct diff *d, uint32_t old) {
    return arena_printf(d->arena, "step/%s", step_name(d->old, old));
}
/* Buckets are counted within their step, as in dump. */
static const char *bucket_number(struct diff *d, const struct plan *p, uint32_t bucket) {
    return arena_printf(d->arena, "bucket %u",
                        bucket - p->step[p->bucket[bucket].step].first_bucket);
}

static const char *type_text(struct diff *d, const struct plan *p, uint32_t param) {
    const struct plan_param *q = &p->param[param];
    const char *text = arena_printf(d->arena, "%s[", plan_dtype_name(q->dtype));
    for (uint32_t i = 0; i < q->rank && i < 16; i++)
        text = arena_printf(d->arena, "%s%s%lld", text, i ? "," : "",
                            (long long)p->dim[q->first_dim + i]);
    return arena_printf(d->arena, "%s%s]", text, q->rank > 16 ? ",..." : "");
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void compare_param(struct diff *d, uint32_t old, uint32_t new) {
    const struct plan_param *p = &d->old->param[old], *q = &d->new->param[new];
    size_t dims = p->rank * sizeof *d->old->dim;
    struct diff_change *c;
    if (strcmp(plan_param_name(d->old, old), plan_param_name(d->new, new)) != 0) {
        c = add_update(d, DIFF_RULE_PARAM_NAME, param_path(d, old), plan_param_name(d->old, old),
                       plan_param_name(d->new, new));
        c->action = DIFF_MOVE;
        c->old_param = old, c->new_param = new;
    }
    if (p->rank != q->rank ||
        (dims && memcmp(d->old->dim + p->first_dim, d->new->dim + q->first_dim, dims) != 0)) {
        c = add_update(d, DIFF_RULE_SHAPE, param_path(d, old), type_text(d, d->old, old),
                       type_text(d, d->new, new));
        c->old_param = old, c->new_param = new;
    }
    if (p->dtype != q->dtype) {
        c = add_update(d, DIFF_RULE_DTYPE, param_path(d, old), plan_dtype_name(p->dtype),
                       plan_dtype_name(q->dtype));
        c->old_param = old, c->new_param = new;
    }
}

static void compare_params(struct diff *d) {
    struct diff_change *c;
    uint32_t n_moved = 0, n = 0, n_located = 0;
    uint32_t *order = arena_new(d->arena, uint32_t, d->old->n_params + 1);
    bool *keep = arena_new(d->arena, bool, d->old->n_params + 1);
    for (uint32_t i = 0; i < d->old->n_params; i++) {
        uint32_t j = d->param_to_new[i];
        if (j == PLAN_NONE) {
            c = add(d, DIFF_RULE_PARAM_REMOVED, DIFF_REMOVE, param_path(d, i));
            c->before = type_text(d, d->old, i);
            c->old_param = i;
            continue;
        }
        compare_param(d, i, j);
        order[n++] = j;
        n_located += memcmp(&d->old->source[i], &d->new->source[j], sizeof *d->old->source) != 0;
    }
    for (uint32_t j = 0; j < d->new->n_params; j++) {
        if (d->param_to_old[j] != PLAN_NONE) continue;
        c = add(d, DIFF_RULE_PARAM_ADDED, DIFF_ADD,
                arena_printf(d->arena, "parameter/%s", plan_param_name(d->new, j)));
        c->after = type_text(d, d->new, j);
        c->new_param = j;
    }
    n_moved = n - diff_longest_ascending(order, n, keep, d->arena);
    if (n_moved) {
        c = add(d, DIFF_RULE_PARAM_ORDER, DIFF_MOVE, "parameters");
        c->reason = arena_printf(d->arena, "%u of %u parameters have another place in the order",
                                 n_moved, n);
    }
    if (n_located) {
        c = add(d, DIFF_RULE_LOCATIONS, DIFF_MOVE, "parameters");
        c->reason = arena_printf(
            d->arena, "%u of %u parameters are at another place in the model's text", n_located, n);
    }
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* A number per function (node index + 2) that is equal for equal functions of equally named
 * branches in the same order; 64 bits of hash, which for plans that do not attack each other is
 * equality. */
static uint64_t *function_numbers(struct diff *d, const struct plan *p) {
    uint64_t *number = arena_new(d->arena, uint64_t, p->n_guard_nodes + 2);
    number[1] = 1;
    for (uint32_t i = 0; i < p->n_guard_nodes; i++) {
        const struct plan_guard_node *n = &p->guard_node[i];
        const char *name = plan_string(p, p->branch[n->branch].name);
        uint64_t key[3] = {plan_name_hash(name, strlen(name)), number[n->low], number[n->high]};
        number[i + 2] = plan_name_hash((const char *)key, sizeof key);
    }
    return number;
}

struct functions {
    const uint64_t *old, *new; /* function numbers */
};

static bool same_guard(const struct diff *d, const struct functions *g, uint32_t old,
                       uint32_t new) {
    if (old == PLAN_NONE || new == PLAN_NONE) return old == new;
    return g->old[d->old->guard[old].root] == g->new[d->new->guard[new].root];
}

static const char *guard_text(const struct plan *p, uint32_t guard) {
    return guard == PLAN_NONE ? NULL : plan_string(p, p->guard[guard].text);
}

static bool compare_branches(struct diff *d) {
    bool changed = false;
    for (uint32_t i = 0; i < d->old->n_branches; i++) {
        const char *name = plan_string(d->old, d->old->branch[i].name);
        uint32_t j = plan_find_branch(d->new, name);
        if (j == PLAN_NONE || d->old->branch[i].uniform == d->new->branch[j].uniform) continue;
        add_update(d, DIFF_RULE_BRANCH_UNIFORM, arena_printf(d->arena, "branch/%s", name),
                   d->old->branch[i].uniform ? "uniform" : "not uniform",
                   d->new->branch[j].uniform ? "uniform" : "not uniform");
        changed = true;
    }
    return changed;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Sets follows[i] for the gradients whose buckets can be compared. */
static void compare_classes(struct diff *d, const struct functions *g, uint32_t s, uint32_t t,
                            bool *follows) {
    for (uint32_t i = 0; i < d->old->n_params; i++) {
        uint32_t j = d->param_to_new[i];
        follows[i] = false;
        if (j == PLAN_NONE) continue;
        const struct plan_step_param *a = plan_step_param(d->old, s, i);
        const struct plan_step_param *b = plan_step_param(d->new, t, j);
        const char *path = NULL;
        struct diff_change *c = NULL;
        bool other_guard = !same_guard(d, g, a->guard, b->guard);
        if (a->class != b->class || other_guard || a->exact != b->exact)
            path = arena_printf(d->arena, "step/%s/parameter/%s", step_name(d->old, s),
                                plan_param_name(d->old, i));
        if (a->class != b->class)
            c = add_update(d, DIFF_RULE_CLASS, path, plan_class_name(a->class),
                           plan_class_name(b->class));
        else if (other_guard)
            c = add_update(d, DIFF_RULE_GUARD, path, guard_text(d->old, a->guard),
                           guard_text(d->new, b->guard));
        else if (a->exact != b->exact)
            c = add_update(d, DIFF_RULE_EXACT, path, a->exact ? "exact" : "at most",
                           b->exact ? "exact" : "at most");
        if (c) c->old_param = i, c->new_param = j;
        follows[i] = a->segment != PLAN_NONE && a->class == b->class && !other_guard &&
                     d->old->param[i].dtype == d->new->param[j].dtype;
    }
}

/* The gradients that follow, in the order of the new bucket, as indices of old segments. */
static bool order_changed(struct diff *d, uint32_t s, uint32_t new_bucket, uint32_t old_bucket,
                          const bool *follows) {
    const struct plan_bucket *b = &d->new->bucket[new_bucket];
    uint32_t last = 0;
    for (uint32_t i = b->first_segment; i < b->first_segment + b->n_segments; i++) {
        uint32_t param = d->param_to_old[d->new->segment[i].param];
        if (param == PLAN_NONE || !follows[param]) continue;
        uint32_t segment = plan_step_param(d->old, s, param)->segment;
        if (d->old->segment[segment].bucket != old_bucket) continue;
        if (segment < last) return true;
        last = segment;
    }
    return false;
}

static const char *names_of(struct diff *d, const struct plan *p, const uint32_t *params,
                            uint32_t n) {
    const char *text = plan_param_name(p, params[0]);
    for (uint32_t i = 1; i < n && i < 3; i++)
        text = arena_printf(d->arena, "%s, %s", text, plan_param_name(p, params[i]));
    return n > 3 ? arena_printf(d->arena, "%s and %u more", text, n - 3) : text;
}

/* One component of buckets that exchanged members. */
struct component {
    uint32_t n_old, n_new, first_old, first_new;
    uint32_t n_moved, moved[3]; /* parameters of OLD whose bucket is not their old one's partner */
};

/* "bucket 4", "buckets 1, 3", "buckets 1, 2, 3, 4, 5, 6, 7, 8 and 12 more". */
static const char *list_buckets(struct diff *d, const struct plan *p, const struct plan_step *s,
                                const uint32_t *component, uint32_t which, uint32_t n) {
    const char *text = n == 1 ? "bucket" : "buckets";
    uint32_t seen = 0;
    for (uint32_t i = s->first_bucket; i < s->first_bucket + s->n_buckets && seen < 8; i++)
        if (p->bucket[i].kind == PLAN_GRADIENT && component[i] == which)
            text = arena_printf(d->arena, "%s%s %u", text, seen++ ? "," : "", i - s->first_bucket);
    return n > 8 ? arena_printf(d->arena, "%s and %u more", text, n - 8) : text;
}

static void report_component(struct diff *d, uint32_t s, const struct component *c,
                             uint32_t which) {
    const struct plan_step *old = &d->old->step[s], *new = &d->new->step[d->step_to_new[s]];
    if (c->n_old == 1 && c->n_new == 1) return;
    struct diff_change *change = add(
        d, DIFF_RULE_BUCKET_MEMBERS, DIFF_MOVE,
        arena_printf(d->arena, "%s/bucket/%u", step_path(d, s), c->first_old - old->first_bucket));
    change->before = list_buckets(d, d->old, old, d->old_component, which, c->n_old);
    change->after = list_buckets(d, d->new, new, d->new_component, which, c->n_new);
    const char *how = c->n_old == 1 ? "split" : c->n_new == 1 ? "merged" : "regrouped";
    change->reason = how;
    if (c->n_moved)
        change->reason =
            arena_printf(d->arena, "%s: %s %s in another bucket", how,
                         names_of(d, d->old, c->moved, c->n_moved), c->n_moved == 1 ? "is" : "are");
}

static void compare_members(struct diff *d, uint32_t s, const bool *follows) {
    const struct plan_step *old = &d->old->step[s], *new = &d->new->step[d->step_to_new[s]];
    uint32_t n = old->n_buckets + new->n_buckets;
    struct component *all = arena_new(d->arena, struct component, n);
    for (uint32_t i = old->n_buckets; i-- > 0;) {
        struct component *c = &all[d->old_component[old->first_bucket + i]];
        c->n_old++;
        c->first_old = old->first_bucket + i;
    }
    for (uint32_t i = new->n_buckets; i-- > 0;) {
        struct component *c = &all[d->new_component[new->first_bucket + i]];
        c->n_new++;
        c->first_new = new->first_bucket + i;
    }
    for (uint32_t i = old->first_segment; i < old->first_segment + old->n_segments; i++) {
        const struct plan_segment *a = &d->old->segment[i];
        if (!follows[a->param]) continue;
        uint32_t segment =
            plan_step_param(d->new, d->step_to_new[s], d->param_to_new[a->param])->segment;
        if (d->new->segment[segment].bucket == d->bucket_to_new[a->bucket]) continue;
        struct component *c = &all[d->old_component[a->bucket]];
        if (c->n_moved < 3) c->moved[c->n_moved] = a->param;
        c->n_moved++;
    }
    /* A component without both sides is buckets whose members are all new, gone or of another kind.
     */
    for (uint32_t i = 0; i < n; i++)
        if (all[i].n_old && all[i].n_new) report_component(d, s, &all[i], i);
}

static void compare_bucket_pairs(struct diff *d, const struct functions *g, uint32_t s,
                                 const bool *follows, bool other_branches) {
    const struct plan_step *old = &d->old->step[s];
    uint32_t *partner = arena_new(d->arena, uint32_t, old->n_buckets + 1);
    uint32_t *bucket = arena_new(d->arena, uint32_t, old->n_buckets + 1), n = 0;
    bool *keep = arena_new(d->arena, bool, old->n_buckets + 1);
    for (uint32_t i = old->first_bucket; i < old->first_bucket + old->n_buckets; i++) {
        uint32_t j = d->bucket_to_new[i];
        if (j == PLAN_NONE) continue;
        const char *path =
            arena_printf(d->arena, "%s/bucket/%u", step_path(d, s), i - old->first_bucket);
        if (order_changed(d, s, j, i, follows)) add(d, DIFF_RULE_SEGMENT_ORDER, DIFF_MOVE, path);
        if (!other_branches && !same_guard(d, g, d->old->bucket[i].guard, d->new->bucket[j].guard))
            add_update(d, DIFF_RULE_BUCKET_GUARD, path, guard_text(d->old, d->old->bucket[i].guard),
                       guard_text(d->new, d->new->bucket[j].guard));
        bucket[n] = i;
        partner[n++] = j;
    }
    diff_longest_ascending(partner, n, keep, d->arena);
    for (uint32_t i = 0; i < n; i++) {
        if (keep[i]) continue;
        struct diff_change *c = add(
            d, DIFF_RULE_BUCKET_ORDER, DIFF_MOVE,
            arena_printf(d->arena, "%s/bucket/%u", step_path(d, s), bucket[i] - old->first_bucket));
        c->before = bucket_number(d, d->old, bucket[i]);
        c->after = bucket_number(d, d->new, partner[i]);
    }
}

static bool same_times(const struct diff *d, uint32_t s, uint32_t t) {
    const struct plan_step *a = &d->old->step[s], *b = &d->new->step[t];
    if (a->finish_us != b->finish_us || a->backward_us != b->backward_us ||
        a->lower_bound_us != b->lower_bound_us)
        return false;
    for (uint32_t i = 0; i < a->n_segments; i++) {
        uint32_t j = d->param_to_new[d->old->segment[a->first_segment + i].param];
        uint32_t segment = j == PLAN_NONE ? PLAN_NONE : plan_step_param(d->new, t, j)->segment;
        if (segment != PLAN_NONE &&
            d->old->segment[a->first_segment + i].ready_us != d->new->segment[segment].ready_us)
            return false;
    }
    return true;
}

static bool same_cost_model(const struct diff *d, uint32_t s, uint32_t t) {
    const struct plan_certificate *a = &d->old->certificate[s], *b = &d->new->certificate[t];
    return a->n_pieces == b->n_pieces && a->cap_bytes == b->cap_bytes &&
           a->max_buckets == b->max_buckets && a->ranks == b->ranks &&
           memcmp(d->old->piece + a->first_piece, d->new->piece + b->first_piece,
                  a->n_pieces * sizeof *d->old->piece) == 0 &&
           strcmp(plan_string(d->old, d->old->step[s].topology),
                  plan_string(d->new, d->new->step[t].topology)) == 0;
}

static void compare_step(struct diff *d, const struct functions *g, uint32_t s, uint32_t t,
                         bool other_branches) {
    const struct plan_step *a = &d->old->step[s], *b = &d->new->step[t];
    const char *path = step_path(d, s);
    bool *follows = arena_new(d->arena, bool, d->old->n_params + 1);
    if (strcmp(step_name(d->old, s), step_name(d->new, t)) != 0)
        add_update(d, DIFF_RULE_STEP_NAME, path, step_name(d->old, s), step_name(d->new, t))
            ->action = DIFF_MOVE;
    if (a->average != b->average)
        add_update(d, DIFF_RULE_AVERAGE, path, plan_average_name(a->average),
                   plan_average_name(b->average));
    if (a->guards != b->guards)
        add_update(d, DIFF_RULE_GUARDS, path, plan_guards_name(a->guards),
                   plan_guards_name(b->guards));
    compare_classes(d, g, s, t, follows);
    diff_align_buckets(d, s, follows);
    compare_members(d, s, follows);
    compare_bucket_pairs(d, g, s, follows, other_branches);
    if (!same_times(d, s, t))
        add_update(d, DIFF_RULE_TIMES, path, arena_printf(d->arena, "finish %.3f µs", a->finish_us),
                   arena_printf(d->arena, "finish %.3f µs", b->finish_us));
    if (!same_cost_model(d, s, t))
        add_update(d, DIFF_RULE_COST_MODEL, path, plan_string(d->old, a->topology),
                   plan_string(d->new, b->topology));
    if (a->policy != b->policy || a->order != b->order)
        add_update(d, DIFF_RULE_POLICY, path,
                   arena_printf(d->arena, "%s, %s order", plan_policy_name(a->policy),
                                plan_order_name(a->order)),
                   arena_printf(d->arena, "%s, %s order", plan_policy_name(b->policy),
                                plan_order_name(b->order)));
}

static void compare_steps(struct diff *d) {
    struct functions g = {function_numbers(d, d->old), function_numbers(d, d->new)};
    bool other_branches = compare_branches(d);
    uint32_t *order = arena_new(d->arena, uint32_t, d->old->n_steps + 1), n = 0;
    bool *keep = arena_new(d->arena, bool, d->old->n_steps + 1);
    for (uint32_t s = 0; s < d->old->n_steps; s++) {
        uint32_t t = d->step_to_new[s];
        if (t == PLAN_NONE) {
            add(d, DIFF_RULE_STEP_SET, DIFF_REMOVE, step_path(d, s))->before = step_name(d->old, s);
            continue;
        }
        compare_step(d, &g, s, t, other_branches);
        order[n++] = t;
    }
    for (uint32_t t = 0; t < d->new->n_steps; t++)
        if (d->step_to_old[t] == PLAN_NONE)
            add(d, DIFF_RULE_STEP_SET, DIFF_ADD,
                arena_printf(d->arena, "step/%s", step_name(d->new, t)))
                ->after = step_name(d->new, t);
    if (diff_longest_ascending(order, n, keep, d->arena) != n)
        add(d, DIFF_RULE_STEP_ORDER, DIFF_MOVE, "steps");
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Both lists are sorted by key. */
static void compare_options(struct diff *d) {
    const struct plan *p = d->old, *q = d->new;
    for (uint32_t i = 0, j = 0; i < p->n_options || j < q->n_options;) {
        const char *a = i < p->n_options ? plan_string(p, p->option[i].key) : NULL;
        const char *b = j < q->n_options ? plan_string(q, q->option[j].key) : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp(a, b);
        const char *before = order <= 0 ? plan_string(p, p->option[i].value) : NULL;
        const char *after = order >= 0 ? plan_string(q, q->option[j].value) : NULL;
        if (order || strcmp(before, after) != 0)
            add_update(d, DIFF_RULE_OPTION, arena_printf(d->arena, "option/%s", order <= 0 ? a : b),
                       before, after)
                ->action = order < 0   ? DIFF_REMOVE
                           : order > 0 ? DIFF_ADD
                                       : DIFF_UPDATE;
        i += order <= 0;
        j += order >= 0;
    }
}

/* The table's order is the classes' order, so that a stable pass per rule would do; one pass per
 * class keeps the places in order instead. */
static void sort_by_class(struct diff *d) {
    struct diff_change *sorted = arena_new(d->arena, struct diff_change, d->changes.n + 1);
    uint32_t n = 0;
    for (int class = 0; class < DIFF_N_CLASSES; class ++)
        for (uint32_t i = 0; i < d->changes.n; i++)
            if ((int)rules[d->changes.at[i].rule].class == class) sorted[n++] = d->changes.at[i];
    if (n) memcpy(d->changes.at, sorted, n * sizeof *sorted);
}

void diff_plans(struct diff *d) {
    d->bucket_to_new = arena_new(d->arena, uint32_t, d->old->n_buckets);
    d->old_component = arena_new(d->arena, uint32_t, d->old->n_buckets);
    d->new_component = arena_new(d->arena, uint32_t, d->new->n_buckets);
    for (uint32_t i = 0; i < d->old->n_buckets; i++) d->bucket_to_new[i] = PLAN_NONE;
    diff_align_params(d);
    diff_align_steps(d);
    if (memcmp(d->old->header->content_hash, d->new->header->content_hash, 16) == 0) return;
    compare_params(d);
    compare_steps(d);
    compare_options(d);
    if (d->old->header->minor != d->new->header->minor)
        add_update(d, DIFF_RULE_FORMAT, "format",
                   arena_printf(d->arena, "%u.%u", d->old->header->major, d->old->header->minor),
                   arena_printf(d->arena, "%u.%u", d->new->header->major, d->new->header->minor));
    sort_by_class(d);
    bool explained = d->changes.n && rules[d->changes.at[0].rule].class != DIFF_INFO;
    if (!diff_compatible(d) && !explained) {
        add(d, DIFF_RULE_OTHER, DIFF_UPDATE, "plan");
        sort_by_class(d);
    }
}

void diff_free(struct diff *d) { vec_free(&d->changes); }
