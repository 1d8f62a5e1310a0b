/* Programs without a graph: guards, times, classes. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "from_list.h"
#include "program_fixture.h"
#include <criterion/criterion.h>

struct listed {
    struct ir_module m;
    struct diags d;
    struct program p;
    struct branches b;
    struct reach reach;
    struct ready_times ready;
    struct options o;
    bool ok;
};

static void read_text(struct listed *l, const char *text) {
    char path[32];
    fixture_write(path, text);
    l->o.from_list = path;
    ir_module_init(&l->m, NULL);
    diags_init(&l->d, NULL);
    branches_init(&l->b);
    l->ok = from_list_read(&l->p, &l->m, &l->o, &l->b, &l->reach, &l->ready, &l->d);
    unlink(path);
}

static void release(struct listed *l) {
    branches_free(&l->b);
    program_free(&l->p);
    diags_free(&l->d);
    ir_module_free(&l->m);
    vec_free(&l->o.frozen);
    vec_free(&l->o.trainable);
    vec_free(&l->o.uniform);
    vec_free(&l->o.loss);
    *l = (struct listed){0};
}

Test(from_list, classes_and_order) {
    struct listed l = {0};
    vec_push(&l.o.frozen, "old.*");
    vec_push(&l.o.uniform, "d_*");
    read_text(&l, "# name dtype shape us guard\n"
                  "stem float32 3x5 30\n"
                  "gen.w float32 [5] 12.5 !d_turn\n"
                  "dis.w bfloat16 [] 12.5 d_turn && !(skip || eval)\n"
                  "dead float32 2 1e1 d_turn && !d_turn\n"
                  "sure float32 2 0 skip || !skip\n"
                  "old.w float32 2 3\n");
    cr_assert(l.ok);
    static const int want[] = {GRAD_ALWAYS, GRAD_CONDITIONAL, GRAD_CONDITIONAL,
                               GRAD_NEVER,  GRAD_ALWAYS,      GRAD_FROZEN};
    cr_assert_eq(l.p.params.n, 6);
    for (uint32_t i = 0; i < 6; i++) {
        cr_expect_eq((int)l.reach.gradient[i].class, want[i], "parameter %u", i);
        cr_expect_gt(strlen(l.reach.gradient[i].reason), 0);
    }
    cr_expect_str_eq(l.reach.gradient[1].guard, "!d_turn");
    cr_expect(l.reach.gradient[2].exact);
    cr_assert_eq(l.b.all.n, 3);
    cr_expect(l.b.all.at[0].uniform && !l.b.all.at[1].uniform);
    /* Earliest first; of equals the later declaration. */
    static const uint32_t order[] = {4, 2, 1, 0};
    cr_assert_eq(l.ready.n, 4);
    for (uint32_t i = 0; i < 4; i++) cr_expect_eq(l.ready.order[i], order[i]);
    cr_expect_eq(l.ready.backward_us, 30.0);
    cr_expect(l.p.complete);
    release(&l);
}

Test(from_list, without_times_the_last_line_is_ready_first) {
    struct listed l = {0};
    read_text(&l, "a float32 1\nb float32 1 c\nd float32 1\n");
    cr_assert(l.ok);
    cr_assert_eq(l.ready.n, 3);
    cr_expect_eq(l.ready.order[0], 2);
    cr_expect_eq(l.ready.order[2], 0);
    release(&l);
}

/* Every guard of up to four names against C's own operators. */
Test(from_list, guards_mean_what_they_say) {
    static const char guards[][40] = {"a",           "!a",         "!!a",      "a&&b||c",
                                      "a||b&&c",     "!(a||b)&&c", "((a))",    "a && true",
                                      "false || !b", "!a&&!b&&!c", "\"a\"||b", "!(!(a&&b)||c)"};
    for (size_t k = 0; k < sizeof guards / sizeof *guards; k++) {
        struct listed l = {0};
        char text[600];
        snprintf(text, sizeof text, "o float32 1 a||b||c||!a\nw float32 1 %s\n", guards[k]);
        read_text(&l, text);
        cr_assert(l.ok, "%s", guards[k]);
        for (int bits = 0; bits < 8; bits++) {
            bool a = bits & 1, b = bits & 2, c = bits & 4, v[] = {a, b, c};
            bool want[] = {a, !a, a,  (a && b) || c,  a || (b && c), !(a || b) && c,
                           a, a,  !b, !a && !b && !c, a || b,        (a && b) && !c};
            cr_expect_eq(bdd_eval(l.b.bdd, l.reach.gradient[1].may, v), want[k], "%s under %d",
                         guards[k], bits);
        }
        release(&l);
    }
}

Test(from_list, says_what_is_wrong) {
    static const struct {
        char text[80];
        int code;
    } bad[] = {
        {"w float32 3 a &&", DIAG_GUARD_SYNTAX},
        {"w float32 3 (a", DIAG_GUARD_SYNTAX},
        {"w float32 3 a b", DIAG_GUARD_SYNTAX},
        {"w float32 3 a & b", DIAG_GUARD_SYNTAX},
        {"w float32 3 1 )", DIAG_GUARD_SYNTAX},
        {"w float32 3 \"a", DIAG_GUARD_SYNTAX},
        {"w int64 3", DIAG_LIST_SYNTAX},
        {"w float32", DIAG_LIST_SYNTAX},
        {"w float32 3 1\nv float32 3", DIAG_LIST_SYNTAX},
        {"w float32 3\nv float32 3 1", DIAG_LIST_SYNTAX},
        {"w float32 3\nw float32 3", DIAG_LIST_DUPLICATE},
        {"# nothing", DIAG_LIST_SYNTAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct listed l = {0};
        read_text(&l, bad[i].text);
        cr_expect_not(l.ok, "%s", bad[i].text);
        cr_assert_eq(l.d.all.n, 1, "%s", bad[i].text);
        cr_expect_eq((int)l.d.all.at[0]->code, bad[i].code, "%s", bad[i].text);
        release(&l);
    }
}

Test(from_list, deep_parentheses_are_an_error_not_a_crash) {
    struct listed l = {0};
    enum { DEEP = 200000 };
    char *text = malloc(DEEP + 32);
    int n = sprintf(text, "w float32 1 ");
    memset(text + n, '(', DEEP);
    text[n + DEEP] = 0;
    read_text(&l, text);
    cr_expect_not(l.ok);
    cr_expect_eq(l.d.all.at[0]->code, DIAG_GUARD_SYNTAX);
    free(text);
    release(&l);
}

Test(from_list, flags) {
    struct listed l = {0};
    vec_push(&l.o.loss, "x");
    read_text(&l, "w float32 3\n");
    cr_expect_not(l.ok);
    cr_expect_eq(l.d.all.at[0]->code, DIAG_NEEDS_GRAPH);
    release(&l);
    vec_push(&l.o.trainable, "w*");
    read_text(&l, "w float32 3\nv float32 3\n");
    cr_assert(l.ok);
    cr_expect_eq(l.reach.gradient[0].class, GRAD_ALWAYS);
    cr_expect_eq(l.reach.gradient[1].class, GRAD_FROZEN);
    release(&l);
    vec_push(&l.o.frozen, "nobody");
    read_text(&l, "w float32 3\n");
    cr_expect_not(l.ok);
    release(&l);
}
