/* Decision diagrams against truth tables: a function of six variables is a 64-bit mask, bit i its
 * value under the assignment i. */
#include "bdd.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { VARS = 6 };
static const uint64_t column[VARS] = {0xAAAAAAAAAAAAAAAA, 0xCCCCCCCCCCCCCCCC, 0xF0F0F0F0F0F0F0F0,
                                      0xFF00FF00FF00FF00, 0xFFFF0000FFFF0000, 0xFFFFFFFF00000000};

static uint64_t state = 1;
static uint32_t dice(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static uint64_t table_of(const struct bdd_manager *m, bdd f) {
    uint64_t t = 0;
    for (uint32_t i = 0; i < 64; i++) {
        bool assignment[VARS];
        for (uint32_t v = 0; v < VARS; v++) assignment[v] = i >> v & 1;
        if (bdd_eval(m, f, assignment)) t |= (uint64_t)1 << i;
    }
    return t;
}

static uint64_t table_quantified(uint64_t t, uint32_t first, uint32_t last, bool all) {
    for (uint32_t v = first; v < last; v++) {
        uint64_t high = t & column[v], low = t & ~column[v];
        high |= high >> (1u << v);
        low |= low << (1u << v);
        t = all ? high & low : high | low;
    }
    return t;
}

Test(bdd, operators_agree_with_truth_tables) {
    struct bdd_manager *m = bdd_new(100000);
    bdd f[64];
    uint64_t t[64];
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < 64; i++) {
            if (i < VARS) {
                f[i] = bdd_var(m, i), t[i] = column[i];
                continue;
            }
            uint32_t a = dice(i), b = dice(i), c = dice(i), first = dice(VARS + 1);
            uint32_t last = first + dice(VARS + 1 - first);
            switch (dice(7)) {
            case 0: f[i] = bdd_not(m, f[a]), t[i] = ~t[a]; break;
            case 1: f[i] = bdd_and(m, f[a], f[b]), t[i] = t[a] & t[b]; break;
            case 2: f[i] = bdd_or(m, f[a], f[b]), t[i] = t[a] | t[b]; break;
            case 3: f[i] = bdd_xor(m, f[a], f[b]), t[i] = t[a] ^ t[b]; break;
            case 4:
                f[i] = bdd_ite(m, f[a], f[b], f[c]), t[i] = (t[a] & t[b]) | (~t[a] & t[c]);
                break;
            case 5:
                f[i] = bdd_exists(m, f[a], first, last);
                t[i] = table_quantified(t[a], first, last, false);
                break;
            default:
                f[i] = bdd_forall(m, f[a], first, last);
                t[i] = table_quantified(t[a], first, last, true);
            }
            cr_assert_eq(table_of(m, f[i]), t[i], "round %u function %u", round, i);
            cr_assert_eq(bdd_implies(m, f[a], f[i]), (t[a] & ~t[i]) == 0);
            for (uint32_t k = 0; k < i; k++)
                cr_assert_eq(f[k] == f[i], t[k] == t[i], "equal functions have equal handles");
            bdd_support s = {0};
            bdd_support_of(m, f[i], &s);
            uint32_t depends = 0, listed = 0;
            for (uint32_t v = 0; v < VARS; v++)
                if (((t[i] & column[v]) >> (1u << v)) != (t[i] & ~column[v])) depends |= 1u << v;
            for (uint32_t k = 0; k < s.n; k++) {
                cr_assert(k == 0 || s.at[k - 1] < s.at[k], "ascending, once each");
                listed |= 1u << s.at[k];
            }
            cr_assert_eq(listed, depends);
            vec_free(&s);
        }
    }
    bdd_free(m);
}

static const char *letter(void *context, uint32_t variable) {
    (void)context;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    return names[variable];
}

/* Reads a text of letters, "!", " && " and " || " back into a table. Drops product number
 * `without`. */
static uint64_t table_of_text(const char *s, int without) {
    if (!strcmp(s, "true")) return ~(uint64_t)0;
    if (!strcmp(s, "false")) return 0;
    uint64_t sum = 0, product = ~(uint64_t)0;
    int n = 0;
    for (;; s++) {
        bool not_ = *s == '!';
        s += not_;
        product &= not_ ? ~column[*s - 'a'] : column[*s - 'a'];
        s++;
        if (!strncmp(s, " && ", 4)) {
            s += 3;
            continue;
        }
        if (n++ != without) sum |= product;
        product = ~(uint64_t)0;
        if (!*s) return sum;
        cr_assert(!strncmp(s, " || ", 4));
        s += 3;
    }
}

Test(bdd, text_is_an_irredundant_cover) {
    struct bdd_manager *m = bdd_new(1000000);
    for (uint32_t round = 0; round < 500; round++) {
        uint64_t t = 0;
        bdd f = BDD_FALSE;
        for (uint32_t k = dice(6); k-- > 0;) {
            bdd product = BDD_TRUE;
            uint64_t pt = ~(uint64_t)0;
            for (uint32_t v = 0; v < VARS; v++) {
                uint32_t how = dice(3);
                if (how == 2) continue;
                product = bdd_and(m, product, how ? bdd_var(m, v) : bdd_not(m, bdd_var(m, v)));
                pt &= how ? column[v] : ~column[v];
            }
            f = bdd_or(m, f, product), t |= pt;
        }
        struct arena a = {0};
        const char *text = bdd_text(m, f, &a, letter, NULL);
        cr_assert_eq(table_of_text(text, -1), t, "%s", text);
        int products = 1;
        for (const char *s = text; (s = strstr(s, " || ")); s++) products++;
        if (f > BDD_TRUE)
            for (int k = 0; k < products; k++)
                cr_assert_neq(table_of_text(text, k), t, "product %d of %s is not needed", k, text);
        arena_free(&a);
    }
    bdd_free(m);
}

Test(bdd, text_of_small_functions) {
    struct bdd_manager *m = bdd_new(1000);
    struct arena out = {0};
    bdd a = bdd_var(m, 0), b = bdd_var(m, 1), c = bdd_var(m, 2);
    cr_assert_str_eq(bdd_text(m, a, &out, letter, NULL), "a");
    cr_assert_str_eq(bdd_text(m, bdd_not(m, a), &out, letter, NULL), "!a");
    cr_assert_str_eq(bdd_text(m, bdd_or(m, bdd_and(m, a, bdd_not(m, b)), c), &out, letter, NULL),
                     "a && !b || c");
    cr_assert_str_eq(bdd_text(m, bdd_xor(m, a, b), &out, letter, NULL), "a && !b || !a && b");
    arena_free(&out);
    bdd_free(m);
}

static const char *numbered(void *context, uint32_t variable) {
    snprintf(context, 16, "v%u", variable);
    return context;
}

/* Depth is the number of variables, and none of it is on the stack. */
Test(bdd, a_chain_of_two_hundred_thousand_branches) {
    enum { N = 200000 };
    struct bdd_manager *m = bdd_new(2000000);
    bdd all = BDD_TRUE, any = BDD_FALSE;
    for (uint32_t v = N; v-- > 0;) {
        all = bdd_and(m, bdd_var(m, v), all);
        any = bdd_or(m, bdd_var(m, v), any);
    }
    cr_assert_neq(all, BDD_OVERFLOW);
    cr_assert(bdd_implies(m, all, any));
    cr_assert_not(bdd_implies(m, any, all));
    cr_assert_eq(bdd_exists(m, all, 0, N), (bdd)BDD_TRUE);
    cr_assert_eq(bdd_forall(m, any, 0, N), (bdd)BDD_FALSE);
    cr_assert_eq(bdd_exists(m, all, 1, N), bdd_var(m, 0));
    bdd_support s = {0};
    bdd_support_of(m, all, &s);
    cr_assert_eq(s.n, (uint32_t)N);
    vec_free(&s);
    struct arena a = {0};
    char name[16];
    const char *text = bdd_text(m, any, &a, numbered, name);
    cr_assert(strlen(text) < 1000);
    cr_assert_str_eq(text + strlen(text) - 7, " || ...");
    text = bdd_text(m, all, &a, numbered, name);
    cr_assert(strlen(text) < 1000);
    cr_assert_eq(strncmp(text, "v0 && v1 && v2 && ", 18), 0);
    cr_assert_str_eq(text + strlen(text) - 7, " && ...");
    arena_free(&a);
    bdd_free(m);
}

/* a1 b1 | a2 b2 | ... with all a before all b needs 2^n nodes. */
Test(bdd, the_limit_ends_in_overflow_and_spreads) {
    struct bdd_manager *m = bdd_new(1000);
    bdd f = BDD_FALSE;
    for (uint32_t i = 0; i < 20; i++)
        f = bdd_or(m, f, bdd_and(m, bdd_var(m, i), bdd_var(m, 20 + i)));
    cr_assert_eq(f, BDD_OVERFLOW);
    cr_assert(bdd_node_count(m) <= 1000);
    cr_assert_eq(bdd_and(m, f, BDD_FALSE), BDD_OVERFLOW);
    cr_assert_eq(bdd_not(m, f), BDD_OVERFLOW);
    cr_assert_eq(bdd_exists(m, f, 0, 40), BDD_OVERFLOW);
    cr_assert_not(bdd_implies(m, f, f));
    /* What was made before still stands. */
    cr_assert_eq(bdd_and(m, bdd_var(m, 0), bdd_var(m, 0)), bdd_var(m, 0));
    bdd_free(m);
}
