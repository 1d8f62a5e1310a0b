/* What both sides of a plan need besides the records: names of the enums, lookups, guards' values,
 * and the two hashes.
 *
 * The content hash is about damage: any changed byte changes it. The semantic hash is about
 * agreement: two ranks whose plans share it issue the same collectives over the same bytes with the
 * same meaning, whatever else their files say. So it is taken over the records, not over the file:
 * names by their bytes (their indices depend on strings that do not matter), and of each record
 * only the fields that ranks must agree on, which the records therefore keep at their front. Ready
 * times and the certificate stay out: two profiles of one model that lead to the same buckets may
 * run together. */
#define XXH_INLINE_ALL
#include "plan.h"
#include <string.h>
#include <xxhash.h>

/* ---- names ----------------------------------------------------------------------------------- */

const char *plan_dtype_name(uint32_t dtype) {
    switch (dtype) {
#define X(id, name, number, bits, grad)                                                            \
    case number: return name;
        PLAN_DTYPES(X)
#undef X
    default: return NULL;
    }
}

uint32_t plan_dtype_bits(uint32_t dtype) {
    switch (dtype) {
#define X(id, name, number, bits, grad)                                                            \
    case number: return bits;
        PLAN_DTYPES(X)
#undef X
    default: return 0;
    }
}

bool plan_dtype_has_gradient(uint32_t dtype) {
    switch (dtype) {
#define X(id, name, number, bits, grad)                                                            \
    case number: return grad;
        PLAN_DTYPES(X)
#undef X
    default: return false;
    }
}

static const char *name_in(const char *const *names, uint32_t n, uint32_t i) {
    return i < n ? names[i] : NULL;
}

const char *plan_class_name(uint32_t c) {
    static const char *const names[] = {"always", "never", "conditional", "frozen"};
    return name_in(names, PLAN_N_CLASSES, c);
}
const char *plan_policy_name(uint32_t policy) {
    static const char *const names[] = {"exact", "ddp", "single", "robust"};
    return name_in(names, PLAN_N_POLICIES, policy);
}
const char *plan_order_name(uint32_t order) {
    static const char *const names[] = {"ready", "registration", "ddp-flag"};
    return name_in(names, PLAN_N_ORDERS, order);
}
const char *plan_average_name(uint32_t average) {
    static const char *const names[] = {"world", "present", "none"};
    return name_in(names, PLAN_N_AVERAGES, average);
}
const char *plan_guards_name(uint32_t guards) {
    static const char *const names[] = {"discovered", "reported"};
    return name_in(names, PLAN_N_GUARDS, guards);
}
const char *plan_bucket_kind_name(uint32_t kind) {
    static const char *const names[] = {"control", "gradient", "presence"};
    return name_in(names, PLAN_N_BUCKET_KINDS, kind);
}

/* ---- lookups --------------------------------------------------------------------------------- */

uint64_t plan_name_hash(const char *name, size_t length) { return XXH3_64bits(name, length); }

uint32_t plan_find_param(const struct plan *p, const char *name, size_t length) {
    uint32_t slot = (uint32_t)plan_name_hash(name, length) & p->name_mask;
    for (; p->name_slot[slot]; slot = (slot + 1) & p->name_mask) {
        uint32_t param = p->name_slot[slot] - 1;
        const struct plan_string *s = &p->string[p->param[param].name];
        if (s->length == length && memcmp(p->text + s->offset, name, length) == 0) return param;
    }
    return PLAN_NONE;
}

uint32_t plan_find_step(const struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (strcmp(plan_string(p, p->step[i].name), name) == 0) return i;
    return PLAN_NONE;
}

uint32_t plan_find_branch(const struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_branches; i++)
        if (strcmp(plan_string(p, p->branch[i].name), name) == 0) return i;
    return PLAN_NONE;
}

bool plan_guard_holds(const struct plan *p, uint32_t guard, const uint8_t *value) {
    uint32_t f = p->guard[guard].root;
    while (f >= 2) {
        const struct plan_guard_node *node = &p->guard_node[f - 2];
        f = value[node->branch] ? node->high : node->low;
    }
    return f != 0;
}

/* ---- hashes ---------------------------------------------------------------------------------- */

static void finish(XXH3_state_t *state, uint8_t out[16]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(out, canonical.digest, 16);
}

void plan_content_hash(const void *bytes, size_t size, uint8_t out[16]) {
    static const uint8_t zeros[16];
    const size_t at = offsetof(struct plan_header, content_hash);
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, bytes, at);
    XXH3_128bits_update(&state, zeros, sizeof zeros);
    XXH3_128bits_update(&state, (const uint8_t *)bytes + at + 16, size - at - 16);
    finish(&state, out);
}

/* Collects the many small pieces, which XXH3 takes much faster together. */
struct gather {
    XXH3_state_t state;
    size_t n;
    uint8_t bytes[4096];
};

static void gather(struct gather *g, const void *at, size_t n) {
    if (n > sizeof g->bytes - g->n) {
        XXH3_128bits_update(&g->state, g->bytes, g->n);
        g->n = 0;
        if (n > sizeof g->bytes) {
            XXH3_128bits_update(&g->state, at, n);
            return;
        }
    }
    if (n) memcpy(g->bytes + g->n, at, n);
    g->n += n;
}

static void gather_number(struct gather *g, uint64_t x) { gather(g, &x, sizeof x); }

/* The length in front, so that no two lists of names run together to the same bytes. */
static void gather_string(struct gather *g, const struct plan *p, uint32_t s) {
    gather_number(g, p->string[s].length);
    gather(g, p->text + p->string[s].offset, p->string[s].length);
}

void plan_semantic_hash(const struct plan *p, uint8_t out[16]) {
    struct gather g;
    g.n = 0;
    XXH3_128bits_reset(&g.state);
    gather_number(&g, p->header->protocol);
    gather_number(&g, p->n_params);
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_param *param = &p->param[i];
        gather_string(&g, p, param->name);
        gather_number(&g, (uint64_t)param->dtype << 32 | param->rank);
        gather(&g, p->dim + param->first_dim, param->rank * sizeof *p->dim);
    }
    gather_number(&g, p->n_branches);
    for (uint32_t i = 0; i < p->n_branches; i++) {
        gather_string(&g, p, p->branch[i].name);
        gather_number(&g, p->branch[i].uniform);
    }
    gather_number(&g, p->n_guard_nodes);
    gather(&g, p->guard_node, p->n_guard_nodes * sizeof *p->guard_node);
    gather_number(&g, p->n_guards);
    for (uint32_t i = 0; i < p->n_guards; i++)
        gather_number(&g, (uint64_t)p->guard[i].root << 32 | p->guard[i].control_pair);
    gather_number(&g, p->n_steps);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct plan_step *step = &p->step[i];
        gather_string(&g, p, step->name);
        gather_number(&g, (uint64_t)step->average << 32 | step->guards);
        gather_number(&g, (uint64_t)step->n_buckets << 32 | step->n_segments);
        gather_number(&g, step->arena_bytes);
        gather_number(&g, step->error_offset);
    }
    gather(&g, p->step_param, (size_t)p->n_steps * p->n_params * sizeof *p->step_param);
    for (uint32_t i = 0; i < p->n_buckets; i++)
        gather(&g, &p->bucket[i], offsetof(struct plan_bucket, ready_us));
    for (uint32_t i = 0; i < p->n_segments; i++)
        gather(&g, &p->segment[i], offsetof(struct plan_segment, ready_us));
    XXH3_128bits_update(&g.state, g.bytes, g.n);
    finish(&g.state, out);
}
