/* From classes to the verdict, per step and over all steps. */
#include "advice.h"
#include <criterion/criterion.h>
#include <string.h>

enum { MAX_PARAMS = 8 };

struct given {
    struct ir_module m;
    struct program p;
    struct reach reach[3];
    struct advices a;
};

/* One string a step, one letter a parameter: a, n, c, f; a capital letter is a buffer. */
static void give(struct given *g, bool complete, const char *const *steps, uint32_t n) {
    *g = (struct given){.p.complete = complete};
    ir_module_init(&g->m, NULL);
    g->p.m = &g->m;
    for (const char *c = steps[0]; *c; c++) {
        struct param q = {.kind = *c < 'a' ? PARAM_BUFFER : PARAM_PARAMETER};
        q.name = strtab_printf(&g->m.strings, "p%d", (int)(c - steps[0]));
        vec_push(&g->p.params, q);
    }
    for (uint32_t s = 0; s < n; s++) {
        struct step step = {0};
        vec_push(&g->p.steps, step);
        g->reach[s].gradient = arena_new(&g->p.arena, struct gradient, MAX_PARAMS);
        for (uint32_t i = 0; steps[s][i]; i++)
            g->reach[s].gradient[i].class =
                (enum grad_class)(strchr("ancf", steps[s][i] | 0x20) - "ancf");
    }
    advices_give(&g->p, g->reach, &g->a);
}

static void release(struct given *g) {
    advices_free(&g->a);
    program_free(&g->p);
    ir_module_free(&g->m);
}

Test(advice, one_step) {
    static const struct {
        char classes[MAX_PARAMS];
        bool complete;
        int verdict;
        bool static_graph;
        uint32_t freeze;
    } cases[] = {
        {"aaf", true, VERDICT_NOT_NEEDED, true, 0}, {"ana", true, VERDICT_NOT_NEEDED, true, 1},
        {"anc", true, VERDICT_NEEDED, false, 1},    {"aNa", true, VERDICT_NOT_NEEDED, true, 0},
        {"aaa", false, VERDICT_UNKNOWN, false, 0},  {"ana", false, VERDICT_UNKNOWN, false, 0},
        {"anc", false, VERDICT_NEEDED, false, 0},   {"nnf", true, VERDICT_UNKNOWN, false, 0},
        {"ff", true, VERDICT_UNKNOWN, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct given g;
        const char *steps[] = {cases[i].classes};
        give(&g, cases[i].complete, steps, 1);
        cr_expect_eq((int)g.a.step[0].verdict, cases[i].verdict, "%s", cases[i].classes);
        cr_expect_eq((int)g.a.all.verdict, cases[i].verdict, "%s", cases[i].classes);
        cr_expect_eq(g.a.step[0].static_graph, cases[i].static_graph, "%s", cases[i].classes);
        cr_expect_eq(g.a.step[0].freeze.n, cases[i].freeze, "%s", cases[i].classes);
        release(&g);
    }
}

Test(advice, buffers_are_not_counted) {
    struct given g;
    give(&g, true, (const char *[]){"aNNn"}, 1);
    cr_expect_eq(g.a.all.parameters, 2);
    cr_expect_eq(g.a.all.count[GRAD_NEVER], 1);
    cr_expect_eq(g.a.all.freeze.at[0], 3);
    release(&g);
}

Test(advice, one_wrapper_over_two_steps) {
    struct given g;
    give(&g, true, (const char *[]){"afnanan", "ffnnaaf"}, 2);
    static const int want[] = {GRAD_CONDITIONAL, GRAD_FROZEN, GRAD_NEVER, GRAD_CONDITIONAL,
                               GRAD_CONDITIONAL, GRAD_ALWAYS, GRAD_NEVER};
    for (uint32_t i = 0; i < 7; i++) cr_expect_eq((int)g.a.class[i], want[i], "parameter %u", i);
    cr_expect_eq(g.a.step[0].verdict, VERDICT_NOT_NEEDED);
    cr_expect_eq(g.a.step[0].freeze.n, 3);
    cr_expect_eq(g.a.all.verdict, VERDICT_NEEDED);
    cr_assert_eq(g.a.all.freeze.n, 2, "only what has a gradient in neither");
    cr_expect_eq(g.a.all.freeze.at[0], 2);
    release(&g);
}

Test(advice, names_for_the_ignore_list) {
    struct given g;
    give(&g, true, (const char *[]){"n"}, 1);
    vec_push(&g.p.params.at[0].aliases, strtab_addz(&g.m.strings, "head.w"));
    string_list names = {0};
    advice_ignore_names(&g.p, 0, &g.p.arena, &names);
    static const char want[][8] = {"p0", ".p0", "head.w", ".head.w"};
    cr_assert_eq(names.n, 4);
    for (uint32_t i = 0; i < 4; i++) cr_expect_str_eq(names.at[i], want[i]);
    vec_free(&names);
    release(&g);
}
