/* A small plan that has one of everything: two steps, three dtypes, all four classes, a uniform and
 * an ordinary guard, a bucket that can be skipped, a step with a presence bucket, one without. */
#ifndef PLAN_SAMPLE_H
#define PLAN_SAMPLE_H

#include "plan_write.h"
#include <criterion/criterion.h>
#include <stdlib.h>

/* What a test may change; the zero of each is the default but where sample_default says otherwise.
 */
struct sample {
    int64_t w_rows;
    uint32_t w_dtype, line_of_w, minor;
    double finish_us;
    enum plan_average average;
    enum plan_guards guards;
    enum plan_policy policy;
    enum plan_class v_class;
    bool exact_c;        /* step "d": the guard of c is exact */
    bool other_guard;    /* step "d": c has u's guard instead of its own */
    bool swap_buckets;   /* step "d": the buckets of w and h in the other order */
    bool merge_buckets;  /* step "d": w and v in one bucket */
    bool reverse_bucket; /* step "d": that bucket the other way round */
    bool keep_u;         /* step "d": the bucket of u is never skipped */
    bool swap_params;    /* v is declared before w */
    bool extra_param, extra_branch, uniform_b, drop_step, swap_steps;
    const char *w_name, *g_name, *guard_text, *topology, *schedule_option;
};

static inline struct sample sample_default(void) {
    return (struct sample){.w_rows = 3,
                           .w_dtype = PLAN_FLOAT32,
                           .line_of_w = 4,
                           .finish_us = 90,
                           .uniform_b = true,
                           .w_name = "w",
                           .g_name = "g",
                           .guard_text = "!a && b",
                           .topology = "h100x8",
                           .schedule_option = "exact"};
}

/* The indices of what the two steps use. */
struct sample_ids {
    uint32_t w, v, h, c, u, n, f, x, g_ab, g_b;
};

static inline void sample_step_d(struct plan_builder *b, const struct sample *s,
                                 const struct sample_ids *id, const struct plan_step_info *info) {
    bool merged = s->merge_buckets && s->v_class == PLAN_ALWAYS;
    plan_add_step(b, info);
    plan_set_class(b, id->w, PLAN_ALWAYS, true, PLAN_NONE);
    plan_set_class(b, id->v, s->v_class, true, PLAN_NONE);
    plan_set_class(b, id->h, PLAN_ALWAYS, true, PLAN_NONE);
    plan_set_class(b, id->c, PLAN_CONDITIONAL, s->exact_c, s->other_guard ? id->g_b : id->g_ab);
    plan_set_class(b, id->u, PLAN_CONDITIONAL, true, id->g_b);
    plan_set_class(b, id->f, PLAN_FROZEN, true, PLAN_NONE);
    if (id->x != PLAN_NONE) plan_set_class(b, id->x, PLAN_FROZEN, true, PLAN_NONE);
    for (int i = 0; i < 2; i++) {
        if ((i == 0) != s->swap_buckets) {
            plan_add_bucket(b, PLAN_NONE, 10, 10, 20);
            if (merged && s->reverse_bucket) plan_add_segment(b, id->v, 12);
            plan_add_segment(b, id->w, 10);
            if (merged && !s->reverse_bucket) plan_add_segment(b, id->v, 12);
        } else {
            plan_add_bucket(b, PLAN_NONE, 20, 20, 30);
            plan_add_segment(b, id->h, 20);
        }
    }
    if (!merged && s->v_class == PLAN_ALWAYS) {
        plan_add_bucket(b, PLAN_NONE, 20, 30, 40);
        plan_add_segment(b, id->v, 12);
    }
    plan_add_bucket(b, PLAN_NONE, 40, 40, 60);
    plan_add_segment(b, id->c, 30);
    bool skipped = plan_guard_is_uniform(b, id->g_b) && !s->keep_u;
    plan_add_bucket(b, skipped ? id->g_b : PLAN_NONE, 40, 60, 90);
    plan_add_segment(b, id->u, 35);
}

static inline void sample_step_g(struct plan_builder *b, const struct sample_ids *id,
                                 const struct plan_step_info *info) {
    plan_add_step(b, info);
    plan_set_class(b, id->w, PLAN_FROZEN, true, PLAN_NONE);
    plan_set_class(b, id->v, PLAN_ALWAYS, true, PLAN_NONE);
    plan_set_class(b, id->n, PLAN_ALWAYS, true, PLAN_NONE);
    plan_add_bucket(b, PLAN_NONE, 10, 10, 20);
    plan_add_segment(b, id->v, 10);
    plan_add_bucket(b, PLAN_NONE, 20, 20, 90);
    plan_add_segment(b, id->n, 20);
}

static inline void *sample_build(const struct sample *s, size_t *size) {
    struct plan_builder *b = plan_builder_new();
    struct plan_source here = {7, 3}, at_w = {s->line_of_w, 8}, nowhere = {0, 0};
    int64_t matrix[2] = {s->w_rows, 5}, vector[1] = {6}, cube[3] = {2, 3, 4};
    struct sample_ids id = {0};
    if (s->swap_params) id.v = plan_add_param(b, "v", PLAN_FLOAT32, 1, vector, here);
    id.w = plan_add_param(b, s->w_name, s->w_dtype, 2, matrix, at_w);
    if (!s->swap_params) id.v = plan_add_param(b, "v", PLAN_FLOAT32, 1, vector, here);
    id.h = plan_add_param(b, "h", PLAN_BFLOAT16, 3, cube, here);
    id.c = plan_add_param(b, "c", PLAN_FLOAT32, 1, vector, here);
    id.u = plan_add_param(b, "u", PLAN_FLOAT32, 0, NULL, here);
    id.n = plan_add_param(b, "n", PLAN_FLOAT16, 1, vector, nowhere);
    id.f = plan_add_param(b, "f", PLAN_INT8, 1, vector, here);
    id.x = s->extra_param ? plan_add_param(b, "x", PLAN_FLOAT32, 1, vector, here) : PLAN_NONE;
    uint32_t br_a = plan_add_branch(b, "a", false), br_b = plan_add_branch(b, "b", s->uniform_b);
    if (s->extra_branch) plan_add_branch(b, "unused", false);
    uint32_t f_b = plan_add_guard_node(b, br_b, 0, 1);
    uint32_t f_ab = plan_add_guard_node(b, br_a, f_b, 0);
    id.g_ab = plan_add_guard(b, f_ab, s->guard_text);
    id.g_b = plan_add_guard(b, f_b, "b");
    plan_add_option(b, "schedule", s->schedule_option);
    plan_add_option(b, "average", "world");

    struct plan_piece pieces[2] = {{15, 0.25}, {25, 0.125}};
    struct plan_step_info d = {.name = "d",
                               .topology = s->topology,
                               .policy = s->policy,
                               .average = s->average,
                               .guards = s->guards,
                               .backward_us = 40,
                               .finish_us = s->finish_us,
                               .lower_bound_us = 80,
                               .worst_regret = -1,
                               .optimal = true,
                               .ranks = 8,
                               .n_pieces = 2,
                               .piece = pieces,
                               .optimum_us = s->finish_us};
    struct plan_step_info g = d;
    g.name = s->g_name;
    for (int i = 0; i < 2; i++) {
        if ((i == 0) != s->swap_steps)
            sample_step_d(b, s, &id, &d);
        else if (!s->drop_step)
            sample_step_g(b, &id, &g);
    }
    void *bytes;
    cr_assert(plan_build(b, &bytes, size));
    plan_builder_free(b);
    struct plan_header *header = bytes;
    header->minor = (uint16_t)(header->minor + s->minor);
    plan_content_hash(bytes, *size, header->content_hash);
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
