/* Plans whose bytes were changed, with hashes that fit. */
#ifndef DDPC_TEST_PLAN_FORGE_H
#define DDPC_TEST_PLAN_FORGE_H

#include "plan.h"
#include <criterion/criterion.h>
#include <string.h>

static inline const struct plan_section *sections_of(const void *bytes) {
    return (const struct plan_section *)(const void *)((const uint8_t *)bytes +
                                                       sizeof(struct plan_header));
}

/* Opens mutated bytes as a careful attacker would leave them: both hashes fit. */
static inline struct plan *open_with_hashes(uint8_t *bytes, size_t size, struct plan_error *error) {
    struct plan_header *h = (struct plan_header *)(void *)bytes;
    plan_content_hash(bytes, size, h->content_hash);
    struct plan *p = plan_from_memory(bytes, size, error);
    if (p || !strstr(error->message, "semantic_hash")) return p;
    /* Only now are the records known to be sound enough to be hashed. */
    const struct plan_section *t = sections_of(bytes);
#define POINTER(kind) ((const void *)(bytes + t[kind - 1].offset))
#define NUMBER(kind)  ((uint32_t)t[kind - 1].count)
    struct plan view = {.header = h,
                        .n_params = NUMBER(PLAN_SECTION_PARAMS),
                        .n_steps = NUMBER(PLAN_SECTION_STEPS),
                        .n_buckets = NUMBER(PLAN_SECTION_BUCKETS),
                        .n_segments = NUMBER(PLAN_SECTION_SEGMENTS),
                        .n_guards = NUMBER(PLAN_SECTION_GUARDS),
                        .n_guard_nodes = NUMBER(PLAN_SECTION_GUARD_NODES),
                        .n_branches = NUMBER(PLAN_SECTION_BRANCHES),
                        .string = POINTER(PLAN_SECTION_STRINGS),
                        .text = POINTER(PLAN_SECTION_TEXT),
                        .param = POINTER(PLAN_SECTION_PARAMS),
                        .dim = POINTER(PLAN_SECTION_DIMS),
                        .step = POINTER(PLAN_SECTION_STEPS),
                        .step_param = POINTER(PLAN_SECTION_STEP_PARAMS),
                        .bucket = POINTER(PLAN_SECTION_BUCKETS),
                        .segment = POINTER(PLAN_SECTION_SEGMENTS),
                        .guard = POINTER(PLAN_SECTION_GUARDS),
                        .guard_node = POINTER(PLAN_SECTION_GUARD_NODES),
                        .branch = POINTER(PLAN_SECTION_BRANCHES)};
    plan_semantic_hash(&view, h->semantic_hash);
    plan_content_hash(bytes, size, h->content_hash);
    p = plan_from_memory(bytes, size, error);
    cr_assert(p || !strstr(error->message, "semantic_hash"));
    return p;
}

#endif
