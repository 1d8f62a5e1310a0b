/* Memory that runs out at every possible moment while a plan is built and opened: each failure is
 * reported, nothing leaks (the sanitizer says), and the attempt after the last one succeeds. The
 * library's files are compiled into the test so that their allocations can be made to fail. */
#define _GNU_SOURCE
#include <stdlib.h>

static int calls_left; /* allocations that still succeed */

static void *failing_malloc(size_t size) { return calls_left-- > 0 ? malloc(size) : NULL; }
static void *failing_calloc(size_t n, size_t size) {
    return calls_left-- > 0 ? calloc(n, size) : NULL;
}
static void *failing_realloc(void *p, size_t size) {
    return calls_left-- > 0 ? realloc(p, size) : NULL;
}

#define malloc  failing_malloc
#define calloc  failing_calloc
#define realloc failing_realloc
#include "../../runtime/plan/plan_check.c"
#include "../../runtime/plan/plan_read.c"
#undef REQUIRE
#include "../../runtime/plan/plan_write.c"
#undef malloc
#undef calloc
#undef realloc

#include <criterion/criterion.h>
#include <stdio.h>

static bool build(void **bytes, size_t *size) {
    struct plan_builder *b = plan_builder_new();
    struct plan_piece piece = {1, 1};
    struct plan_step_info info = {.name = "train",
                                  .topology = "t",
                                  .worst_regret = -1,
                                  .ranks = 2,
                                  .n_pieces = 1,
                                  .piece = &piece};
    int64_t dims[2] = {3, 5};
    if (!b) return false;
    for (int i = 0; i < 40; i++) {
        char name[300]; /* longer than the builder's scratch block */
        snprintf(name, sizeof name, "%0290d", i);
        plan_add_param(b, name, PLAN_FLOAT32, 2, dims, (struct plan_source){1, 1});
    }
    uint32_t branch = plan_add_branch(b, "flag", true);
    uint32_t guard = plan_add_guard(b, plan_add_guard_node(b, branch, 0, 1), "flag");
    plan_add_option(b, "schedule", "exact");
    for (int s = 0; s < 2; s++) {
        info.name = s ? "second" : "first";
        plan_add_step(b, &info);
        for (uint32_t i = 0; i < 40; i++) {
            bool conditional = i >= 20;
            plan_set_class(b, i, conditional ? PLAN_CONDITIONAL : PLAN_ALWAYS, true,
                           conditional ? guard : PLAN_NONE);
            if (i % 10 == 0)
                plan_add_bucket(
                    b, conditional && plan_guard_is_uniform(b, guard) ? guard : PLAN_NONE, 0, 0, 0);
            plan_add_segment(b, i, 0);
        }
    }
    bool ok = plan_build(b, bytes, size);
    cr_assert_eq(ok, *bytes != NULL);
    plan_builder_free(b);
    return ok;
}

Test(plan_memory, every_allocation_fails_once) {
    void *bytes = NULL;
    size_t size = 0;
    int n = 0;
    for (;; n++) {
        calls_left = n;
        if (build(&bytes, &size)) break;
    }
    cr_assert_gt(n, 20, "only %d allocations were made to fail", n);
    struct plan *p = NULL;
    int m = 0;
    for (;; m++) {
        struct plan_error error;
        calls_left = m;
        if ((p = plan_from_memory(bytes, size, &error))) break;
        cr_assert_eq(error.status, PLAN_NO_MEMORY, "%s", error.message);
    }
    cr_assert_eq(m, 3, "opening takes the copy, the handle and one bit set");
    cr_assert_eq(p->n_steps, 2u);
    plan_close(p);
    free(bytes);
}

Test(plan_memory, endless_stream) {
    struct plan_error error;
    for (int n = 0; n < 3; n++) {
        calls_left = n;
        cr_assert_null(plan_open_file("/dev/zero", &error));
        cr_assert_eq(error.status, n < 2 ? PLAN_NO_MEMORY : PLAN_NOT_A_PLAN);
    }
}
