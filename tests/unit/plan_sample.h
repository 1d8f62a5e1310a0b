/* A small plan that has one of everything: two steps, three dtypes, all four classes, a uniform and
 * an ordinary guard, a bucket that can be skipped, a step with a presence bucket and one without.
 */
#ifndef PLAN_SAMPLE_H
#define PLAN_SAMPLE_H

#include "plan_write.h"
#include <criterion/criterion.h>
#include <stdlib.h>

struct sample {
    /* What a test may change; the defaults are sample_default's. */
    int64_t w_rows;
    uint32_t w_dtype;
    double finish_us;
    enum plan_average average;
    enum plan_class v_class;
    bool swap_buckets;  /* step "d": the two always buckets in the other order */
    bool merge_buckets; /* step "d": w and v in one bucket */
    bool extra_param, rename_param, drop_step, uniform_b;
    uint32_t line_of_w;
    const char *guard_text;
    bool other_guard; /* step "d": c has a's guard instead of its own */
    const char *topology;
};

static inline struct sample sample_default(void) {
    return (struct sample){.w_rows = 3,
                           .w_dtype = PLAN_FLOAT32,
                           .finish_us = 90,
                           .v_class = PLAN_ALWAYS,
                           .uniform_b = true,
                           .line_of_w = 4,
                           .topology = "h100x8"};
}

static inline void *sample_build(const struct sample *s, size_t *size) {
    struct plan_builder *b = plan_builder_new();
    struct plan_source here = {7, 3};
    int64_t matrix[2] = {s->w_rows, 5}, vector[1] = {6}, cube[3] = {2, 3, 4};
    uint32_t w = plan_add_param(b, s->rename_param ? "layer.weight" : "w", s->w_dtype, 2, matrix,
                                (struct plan_source){s->line_of_w, 8});
    uint32_t v = plan_add_param(b, "v", PLAN_FLOAT32, 1, vector, here);
    uint32_t h = plan_add_param(b, "h", PLAN_BFLOAT16, 3, cube, here);
    uint32_t c = plan_add_param(b, "c", PLAN_FLOAT32, 1, vector, here);
    uint32_t u = plan_add_param(b, "u", PLAN_FLOAT32, 0, NULL, here);
    uint32_t n = plan_add_param(b, "n", PLAN_FLOAT16, 1, vector, (struct plan_source){0, 0});
    uint32_t f = plan_add_param(b, "f", PLAN_INT8, 1, vector, here);
    uint32_t x = s->extra_param ? plan_add_param(b, "x", PLAN_FLOAT32, 1, vector, here) : PLAN_NONE;
    uint32_t br_a = plan_add_branch(b, "a", false), br_b = plan_add_branch(b, "b", s->uniform_b);
    uint32_t f_b = plan_add_guard_node(b, br_b, 0, 1);
    uint32_t f_ab = plan_add_guard_node(b, br_a, f_b, 0);
    uint32_t g_ab = plan_add_guard(b, f_ab, s->guard_text ? s->guard_text : "!a && b");
    uint32_t g_b = plan_add_guard(b, f_b, "b");
    struct plan_piece pieces[2] = {{15, 0.25}, {25, 0.125}};
    struct plan_step_info info = {.name = "d",
                                  .topology = s->topology,
                                  .average = s->average,
                                  .backward_us = 40,
                                  .finish_us = s->finish_us,
                                  .lower_bound_us = 80,
                                  .worst_regret = -1,
                                  .optimal = true,
                                  .ranks = 8,
                                  .n_pieces = 2,
                                  .piece = pieces,
                                  .optimum_us = s->finish_us};
    plan_add_option(b, "schedule", "exact");
    plan_add_option(b, "average", "world");

    plan_add_step(b, &info);
    plan_set_class(b, w, PLAN_ALWAYS, true, PLAN_NONE);
    plan_set_class(b, v, s->v_class, true, PLAN_NONE);
    plan_set_class(b, h, PLAN_ALWAYS, true, PLAN_NONE);
    plan_set_class(b, c, PLAN_CONDITIONAL, false, s->other_guard ? g_b : g_ab);
    plan_set_class(b, u, PLAN_CONDITIONAL, true, g_b);
    plan_set_class(b, f, PLAN_FROZEN, true, PLAN_NONE);
    if (x != PLAN_NONE) plan_set_class(b, x, PLAN_FROZEN, true, PLAN_NONE);
    for (int i = 0; i < 2; i++) {
        if ((i == 0) != s->swap_buckets) {
            plan_add_bucket(b, PLAN_NONE, 10, 10, 20);
            plan_add_segment(b, w, 10);
            if (s->merge_buckets && s->v_class == PLAN_ALWAYS) plan_add_segment(b, v, 12);
        } else {
            plan_add_bucket(b, PLAN_NONE, 20, 20, 30);
            plan_add_segment(b, h, 20);
            if (!s->merge_buckets && s->v_class == PLAN_ALWAYS) {
                plan_add_bucket(b, PLAN_NONE, 20, 30, 40);
                plan_add_segment(b, v, 12);
            }
        }
    }
    plan_add_bucket(b, PLAN_NONE, 40, 40, 60);
    plan_add_segment(b, c, 30);
    plan_add_bucket(b, plan_guard_is_uniform(b, g_b) ? g_b : PLAN_NONE, 40, 60, 90);
    plan_add_segment(b, u, 35);

    if (!s->drop_step) {
        info.name = "g";
        plan_add_step(b, &info);
        plan_set_class(b, w, PLAN_FROZEN, true, PLAN_NONE);
        plan_set_class(b, v, PLAN_ALWAYS, true, PLAN_NONE);
        plan_set_class(b, n, PLAN_ALWAYS, true, PLAN_NONE);
        plan_add_bucket(b, PLAN_NONE, 10, 10, 20);
        plan_add_segment(b, v, 10);
        plan_add_bucket(b, PLAN_NONE, 20, 20, 90);
        plan_add_segment(b, n, 20);
    }
    void *bytes;
    cr_assert(plan_build(b, &bytes, size));
    plan_builder_free(b);
    return bytes;
}

static inline struct plan *sample_open(const struct sample *s) {
    struct plan_error error;
    size_t size;
    void *bytes = sample_build(s, &size);
    struct plan *p = plan_from_memory(bytes, size, &error);
    cr_assert_not_null(p, "%s", error.message);
    free(bytes);
    return p;
}

#endif
