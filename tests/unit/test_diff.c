/* The semantic diff: each rule fires, alone, on the one change that it is about, also the other way
 * round; moves, splits, merges and renames are one change each. */
#include "diff.h"
#include "plan_sample.h"

struct found {
    uint32_t n, rule[16];
    struct diff_change change[16];
    bool compatible;
};

static struct arena arena; /* each test is a process of its own */
static void free_arena(void) { arena_free(&arena); }
TestSuite(diff, .fini = free_arena);

static const char *copy(const char *text) { return text ? arena_printf(&arena, "%s", text) : NULL; }

static struct found compare(struct sample old, struct sample new) {
    struct found f = {0};
    struct plan *p = sample_open(&old), *q = sample_open(&new);
    struct diff d = {.old = p, .new = q, .arena = &arena};
    diff_plans(&d);
    f.n = d.changes.n;
    f.compatible = diff_compatible(&d);
    cr_assert_leq(f.n, 16u);
    for (uint32_t i = 0; i < f.n; i++) {
        f.change[i] = d.changes.at[i];
        f.change[i].path = copy(f.change[i].path); /* some lie in the plans */
        f.change[i].before = copy(f.change[i].before);
        f.change[i].after = copy(f.change[i].after);
        f.rule[i] = f.change[i].rule;
    }
    diff_free(&d);
    plan_close(p);
    plan_close(q);
    return f;
}

static void expect(struct sample old, struct sample new, enum diff_rule rule, uint32_t n,
                   const char *what) {
    struct found f = compare(old, new);
    char id[DIFF_ID_SIZE], wanted[DIFF_ID_SIZE];
    for (uint32_t i = 0; i < f.n; i++)
        cr_assert_eq(f.rule[i], (uint32_t)rule, "%s: %s fired on %s instead of %s", what,
                     diff_rule_id(f.rule[i], id), f.change[i].path, diff_rule_id(rule, wanted));
    cr_assert_eq(f.n, n, "%s: %u changes", what, f.n);
    cr_assert_eq(f.compatible, diff_rule_class(rule) == DIFF_INFO, "%s", what);
}

/* n changes of `rule` from `base` with the change, and of `mirrored` back. */
#define FIRES_ON(base, change, fires, mirrored, n)                                                 \
    do {                                                                                           \
        struct sample changed = base;                                                              \
        changed.change;                                                                            \
        expect(base, changed, DIFF_RULE_##fires, n, #change);                                      \
        expect(changed, base, DIFF_RULE_##mirrored, n, "back: " #change);                          \
        fired[DIFF_RULE_##fires] = true;                                                           \
        fired[DIFF_RULE_##mirrored] = true;                                                        \
    } while (0)
#define FIRES(change, rule, n) FIRES_ON(base, change, rule, rule, n)

Test(diff, every_rule_alone) {
    struct sample base = sample_default(), merged = base;
    bool fired[DIFF_N_RULES] = {false};
    merged.merge_buckets = true;
    FIRES(drop_step = true, STEP_SET, 1);
    FIRES(swap_steps = true, STEP_ORDER, 1);
    FIRES(swap_buckets = true, BUCKET_ORDER, 1);
    FIRES(merge_buckets = true, BUCKET_MEMBERS, 1);
    FIRES_ON(merged, reverse_bucket = true, SEGMENT_ORDER, SEGMENT_ORDER, 1);
    FIRES(average = PLAN_PRESENT, AVERAGE, 2); /* of both steps */
    FIRES(guards = PLAN_REPORTED, GUARDS, 2);
    FIRES(keep_u = true, BUCKET_GUARD, 1);
    FIRES(uniform_b = false, BRANCH_UNIFORM, 1);
    FIRES(swap_params = true, PARAM_ORDER, 1);
    FIRES(g_name = "generator", STEP_NAME, 1);
    FIRES(extra_branch = true, OTHER, 1);
    FIRES_ON(base, extra_param = true, PARAM_ADDED, PARAM_REMOVED, 1);
    FIRES(w_name = "layer.weight", PARAM_NAME, 1);
    FIRES(w_rows = 40, SHAPE, 1);
    FIRES(w_dtype = PLAN_FLOAT64, DTYPE, 1);
    FIRES(v_class = PLAN_FROZEN, CLASS, 1);
    FIRES(other_guard = true, GUARD, 1);
    FIRES(exact_c = true, EXACT, 1);
    FIRES(finish_us = 100, TIMES, 2);
    FIRES(line_of_w = 5, LOCATIONS, 1);
    FIRES(schedule_option = "robust", OPTION, 1);
    FIRES(topology = "eth25-x16", COST_MODEL, 2);
    FIRES(policy = PLAN_SINGLE, POLICY, 2);
    FIRES(minor = 1, FORMAT, 1);
    for (int i = 0; i < DIFF_N_RULES; i++)
        cr_assert(fired[i], "no test provokes '%s'", diff_rule_title((enum diff_rule)i));
}

Test(diff, same_plan_no_change) {
    struct found f = compare(sample_default(), sample_default());
    cr_assert_eq(f.n, 0);
    cr_assert(f.compatible);
    struct sample other_words = sample_default();
    other_words.guard_text = "b and not a";
    f = compare(sample_default(), other_words);
    cr_assert_eq(f.n, 0, "another wording of the same condition is no change");
}

Test(diff, ids_are_unique) {
    for (int i = 0; i < DIFF_N_RULES; i++)
        for (int j = 0; j < i; j++) {
            char a[DIFF_ID_SIZE], b[DIFF_ID_SIZE];
            cr_assert_str_neq(diff_rule_id((enum diff_rule)i, a),
                              diff_rule_id((enum diff_rule)j, b));
        }
    char id[DIFF_ID_SIZE];
    cr_assert_str_eq(diff_rule_id(DIFF_RULE_STEP_SET, id), "DDPW001");
    cr_assert_str_eq(diff_rule_id(DIFF_RULE_FORMAT, id), "DDPI006");
}

Test(diff, changes_say_before_and_after) {
    struct sample new = sample_default();
    new.w_rows = 40;
    struct found f = compare(sample_default(), new);
    cr_assert_str_eq(f.change[0].path, "parameter/w");
    cr_assert_str_eq(f.change[0].before, "float32[3,5]");
    cr_assert_str_eq(f.change[0].after, "float32[40,5]");
    new = sample_default();
    new.merge_buckets = true;
    f = compare(sample_default(), new);
    cr_assert_str_eq(f.change[0].before, "buckets 1, 3");
    cr_assert_str_eq(f.change[0].after, "bucket 1");
    cr_assert_str_eq(f.change[0].reason, "merged: v is in another bucket");
    f = compare(new, sample_default());
    cr_assert_str_eq(f.change[0].reason, "split: v is in another bucket");
    new.merge_buckets = false;
    new.swap_buckets = true;
    f = compare(sample_default(), new);
    cr_assert_eq(f.change[0].action, DIFF_MOVE);
    cr_assert_str_eq(f.change[0].before, "bucket 1");
    cr_assert_str_eq(f.change[0].after, "bucket 2");
}

Test(diff, several_changes_sorted_by_class) {
    struct sample new = sample_default();
    new.line_of_w = 9;
    new.w_rows = 7;
    new.average = PLAN_PRESENT;
    new.merge_buckets = true;
    struct found f = compare(sample_default(), new);
    uint32_t wanted[] = {DIFF_RULE_AVERAGE, DIFF_RULE_BUCKET_MEMBERS, DIFF_RULE_AVERAGE,
                         DIFF_RULE_SHAPE, DIFF_RULE_LOCATIONS};
    cr_assert_eq(f.n, 5u);
    for (int i = 0; i < 5; i++) cr_assert_eq(f.rule[i], wanted[i], "change %d", i);
}

/* Against the definition on all short sequences of distinct numbers. */
Test(diff, longest_ascending) {
    for (uint32_t n = 0; n <= 6; n++) {
        uint32_t total = 1;
        for (uint32_t i = 0; i < n; i++) total *= 7;
        for (uint32_t code = 0; code < total; code++) {
            uint32_t value[6], best = 0, kept = 0, rest = code;
            bool keep[6], distinct = true;
            for (uint32_t i = 0; i < n; i++, rest /= 7) {
                value[i] = rest % 7;
                for (uint32_t j = 0; j < i; j++) distinct = distinct && value[j] != value[i];
            }
            if (!distinct) continue;
            for (uint32_t set = 0; set < 1u << n; set++) {
                uint32_t last = 0, count = 0;
                bool ascending = true;
                for (uint32_t i = 0; i < n; i++)
                    if (set >> i & 1) {
                        ascending = ascending && (count == 0 || value[i] > last);
                        last = value[i];
                        count++;
                    }
                if (ascending && count > best) best = count;
            }
            cr_assert_eq(diff_longest_ascending(value, n, keep, &arena), best);
            uint32_t last = 0;
            for (uint32_t i = 0; i < n; i++)
                if (keep[i]) {
                    cr_assert(kept == 0 || value[i] > last);
                    last = value[i];
                    kept++;
                }
            cr_assert_eq(kept, best);
        }
    }
}
