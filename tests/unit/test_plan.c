/* The plan format: what the builder writes the reader gives back, and whatever else a file holds
 * the reader refuses, or it makes no difference to what an executor does. */
#define _POSIX_C_SOURCE 200809L
#include "ir.h"
#include "plan_forge.h"
#include "plan_sample.h"
#include "random.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- round trip ------------------------------------------------------------------------------ */

Test(plan, round_trip) {
    struct sample s = sample_default();
    struct plan *p = sample_open(&s);
    cr_assert_eq(p->n_params, 7);
    cr_assert_eq(p->n_steps, 2);
    cr_assert_eq(p->n_uniform_guards, 1);
    cr_assert_str_eq(plan_param_name(p, 2), "h");
    cr_assert_eq(p->param[2].dtype, PLAN_BFLOAT16);
    cr_assert_eq(p->param[2].elements, 24);
    cr_assert_eq(p->dim[p->param[2].first_dim + 1], 3);
    cr_assert_eq(p->param[4].rank, 0);
    cr_assert_eq(p->param[4].elements, 1);
    for (uint32_t i = 0; i < p->n_params; i++) {
        const char *name = plan_param_name(p, i);
        cr_assert_eq(plan_find_param(p, name, strlen(name)), i);
    }
    cr_assert_eq(plan_find_param(p, "ww", 2), PLAN_NONE);
    cr_assert_eq(plan_find_param(p, "", 0), PLAN_NONE);
    cr_assert_eq(plan_find_step(p, "g"), 1);
    cr_assert_eq(plan_find_step(p, "w"), PLAN_NONE);
    cr_assert_eq(plan_find_branch(p, "b"), 1);
    cr_assert_eq(plan_step_param(p, 0, 0)->class, PLAN_ALWAYS);
    cr_assert_eq(plan_step_param(p, 1, 0)->class, PLAN_FROZEN);
    cr_assert_eq(plan_step_param(p, 1, 3)->class, PLAN_NEVER);
    cr_assert_eq(p->source[0].line, 4);
    cr_assert_str_eq(plan_string(p, p->option[0].key), "average");
    cr_assert_str_eq(plan_string(p, p->option[1].value), "exact");
    plan_close(p);
}

Test(plan, layout) {
    struct sample s = sample_default();
    struct plan *p = sample_open(&s);
    const struct plan_step *d = &p->step[0], *g = &p->step[1];
    cr_assert_eq(d->n_buckets, 7);
    /* control: 50 pairs of floats */
    cr_assert_eq(p->bucket[0].kind, PLAN_CONTROL);
    cr_assert_eq(p->bucket[0].bytes, 400);
    cr_assert_eq(p->bucket[g->first_bucket].bytes, 400);
    /* w is 60 bytes, padded to 64 */
    cr_assert_eq(p->bucket[1].offset, 4096);
    cr_assert_eq(p->bucket[1].bytes, 64);
    cr_assert_eq(p->bucket[1].gradient_bytes, 60);
    /* u may be skipped, so that its step has a presence bucket anyway, here with two slots more */
    cr_assert_eq(p->bucket[5].guard, 1);
    cr_assert_eq(p->guard[1].control_pair, PLAN_PAIR_GUARDS);
    cr_assert_eq(p->guard[0].control_pair, PLAN_NONE);
    cr_assert_eq(p->bucket[6].kind, PLAN_PRESENCE);
    cr_assert_eq(p->bucket[6].bytes, 16);
    cr_assert_eq(d->error_offset, p->bucket[6].offset);
    cr_assert_eq(d->arena_bytes, 7 * 4096);
    cr_assert_eq(plan_step_param(p, 0, 3)->presence_slot, 1);
    cr_assert_eq(plan_step_param(p, 0, 4)->presence_slot, 2);
    /* the other step has its error slot behind n, which is 12 bytes padded to 16 */
    cr_assert_eq(g->n_buckets, 3);
    cr_assert_eq(g->error_bucket, 9);
    cr_assert_eq(p->bucket[9].bytes, 32);
    cr_assert_eq(p->bucket[9].gradient_bytes, 12);
    cr_assert_eq(g->error_offset, p->bucket[9].offset + 16);
    plan_close(p);
}

Test(plan, guards_evaluate) {
    struct sample s = sample_default();
    struct plan *p = sample_open(&s);
    for (uint8_t a = 0; a < 2; a++)
        for (uint8_t b = 0; b < 2; b++) {
            uint8_t value[2] = {a, b};
            cr_assert_eq(plan_guard_holds(p, 0, value), !a && b);
            cr_assert_eq(plan_guard_holds(p, 1, value), b);
        }
    plan_close(p);
}

Test(plan, empty_step_has_presence_bucket) {
    struct plan_builder *b = plan_builder_new();
    struct plan_piece piece = {1, 1};
    struct plan_step_info info = {.name = "train",
                                  .topology = "t",
                                  .worst_regret = -1,
                                  .ranks = 2,
                                  .n_pieces = 1,
                                  .piece = &piece};
    void *bytes;
    size_t size;
    struct plan_error error;
    plan_add_step(b, &info);
    cr_assert(plan_build(b, &bytes, &size));
    struct plan *p = plan_from_memory(bytes, size, &error);
    cr_assert_not_null(p, "%s", error.message);
    cr_assert_eq(p->n_buckets, 2);
    cr_assert_eq(p->bucket[1].kind, PLAN_PRESENCE);
    cr_assert_eq(plan_find_param(p, "w", 1), PLAN_NONE);
    plan_close(p);
    plan_builder_free(b);
    free(bytes);
}

Test(plan, dtypes_are_the_compilers) {
    for (uint32_t t = 0; t < 256; t++) {
        const char *name = plan_dtype_name(t);
        cr_assert_eq(name == NULL, t >= IR_N_DTYPES || ir_dtype_bits(t) == 0, "dtype %u", t);
        if (!name) continue;
        cr_assert_str_eq(name, ir_dtype_array(t));
        cr_assert_eq(plan_dtype_bits(t), ir_dtype_bits(t));
        cr_assert_eq(plan_dtype_has_gradient(t), ir_dtype_carries_gradient(t));
    }
}

Test(plan, same_calls_same_bytes) {
    struct sample s = sample_default();
    size_t n, m;
    void *a = sample_build(&s, &n), *b = sample_build(&s, &m);
    cr_assert_eq(n, m);
    cr_assert_eq(memcmp(a, b, n), 0);
    free(a);
    free(b);
}

/* ---- the semantic hash ----------------------------------------------------------------------- */

static bool same_semantics(struct sample a, struct sample b) {
    struct plan *p = sample_open(&a), *q = sample_open(&b);
    bool same = memcmp(p->header->semantic_hash, q->header->semantic_hash, 16) == 0;
    cr_assert(memcmp(p->header->content_hash, q->header->content_hash, 16) != 0);
    plan_close(p);
    plan_close(q);
    return same;
}

#define SAME_WITH(change, expected)                                                                \
    do {                                                                                           \
        struct sample changed = sample_default();                                                  \
        changed.change;                                                                            \
        cr_assert_eq(same_semantics(sample_default(), changed), expected, #change);                \
    } while (0)

Test(plan, semantic_hash_covers_what_ranks_share) {
    SAME_WITH(w_rows = 4, false);
    SAME_WITH(w_dtype = PLAN_FLOAT64, false);
    SAME_WITH(average = PLAN_PRESENT, false);
    SAME_WITH(v_class = PLAN_FROZEN, false);
    SAME_WITH(swap_buckets = true, false);
    SAME_WITH(merge_buckets = true, false);
    SAME_WITH(extra_param = true, false);
    SAME_WITH(w_name = "layer.weight", false);
    SAME_WITH(drop_step = true, false);
    SAME_WITH(uniform_b = false, false);
    SAME_WITH(other_guard = true, false);
    SAME_WITH(finish_us = 100, true);
    SAME_WITH(line_of_w = 5, true);
    SAME_WITH(guard_text = "not a and b", true);
    SAME_WITH(topology = "eth25-x16", true);
}

/* ---- hostile files --------------------------------------------------------------------------- */

/* ---- what readers of a plan take for granted ------------------------------------------------- */

/* Asked here without looking at how the reader checks it. */

static void use_time(double us) { cr_assert(us >= 0 && us < INFINITY && !signbit(us)); }
static void use_string(const struct plan *p, uint32_t s) {
    cr_assert_lt(s, p->n_strings);
    cr_assert_eq(strlen(plan_string(p, s)), p->string[s].length);
}

static void use_names(const struct plan *p) {
    uint8_t value[64] = {0};
    cr_assert_lt(p->n_branches, sizeof value);
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_param *q = &p->param[i];
        uint64_t elements = 1;
        use_string(p, q->name);
        cr_assert_eq(plan_find_param(p, plan_param_name(p, i), strlen(plan_param_name(p, i))), i);
        cr_assert_not_null(plan_dtype_name(q->dtype));
        for (uint32_t k = 0; k < q->rank; k++) {
            cr_assert_geq(p->dim[q->first_dim + k], 0);
            elements *= (uint64_t)p->dim[q->first_dim + k];
        }
        cr_assert_eq(elements, q->elements);
        cr_assert_eq(p->source[i].line == 0, p->source[i].column == 0);
    }
    for (uint32_t i = 0; i < p->n_branches; i++) {
        use_string(p, p->branch[i].name);
        cr_assert_leq(p->branch[i].uniform, 1u);
    }
    for (uint32_t i = 0; i < p->n_guards; i++) {
        plan_guard_holds(p, i, value);
        use_string(p, p->guard[i].text);
    }
    for (uint32_t i = 0; i < p->n_options; i++) {
        use_string(p, p->option[i].key);
        use_string(p, p->option[i].value);
        for (uint32_t k = 0; k < i; k++) cr_assert_neq(p->option[i].key, p->option[k].key);
    }
}

/* owner[] counts the uses of each byte of the arena: by a bucket, then by what lies in it. */
static void use_bucket(const struct plan *p, uint32_t step, uint32_t index, uint8_t *owner) {
    const struct plan_bucket *b = &p->bucket[index];
    cr_assert_eq(b->step, step);
    cr_assert_not_null(plan_bucket_kind_name(b->kind));
    cr_assert(b->offset % 4096 == 0 && b->bytes % 16 == 0 && b->bytes > 0);
    cr_assert_leq(b->offset + b->bytes, p->step[step].arena_bytes);
    for (uint64_t k = 0; k < b->bytes; k++) cr_assert_eq(owner[b->offset + k]++, 0);
    use_time(b->ready_us);
    use_time(b->start_us - b->ready_us);
    use_time(b->end_us - b->start_us);
    cr_assert(plan_dtype_has_gradient(b->dtype));
    cr_assert(b->class == PLAN_ALWAYS || b->class == PLAN_CONDITIONAL);
    cr_assert_eq(b->n_segments > 0, b->kind == PLAN_GRADIENT);
    if (b->guard != PLAN_NONE) {
        cr_assert_lt(b->guard, p->n_guards);
        cr_assert_lt(p->guard[b->guard].control_pair, PLAN_PAIR_GUARDS + p->n_uniform_guards);
        cr_assert(b->n_segments > 0);
    }
    for (uint32_t k = b->first_segment; k < b->first_segment + b->n_segments; k++) {
        const struct plan_segment *s = &p->segment[k];
        cr_assert_lt(s->param, p->n_params);
        const struct plan_step_param *sp = plan_step_param(p, step, s->param);
        cr_assert(sp->segment == k && s->bucket == index);
        cr_assert(s->offset % 16 == 0 && s->offset >= b->offset);
        cr_assert_leq(s->offset + s->bytes, b->offset + b->bytes);
        cr_assert_eq(s->bytes * 8,
                     p->param[s->param].elements * plan_dtype_bits(p->param[s->param].dtype));
        cr_assert(p->param[s->param].dtype == b->dtype && sp->class == b->class);
        cr_assert(b->guard == PLAN_NONE || b->guard == sp->guard);
        use_time(s->ready_us);
        for (uint64_t at = 0; at < s->bytes; at++) cr_assert_eq(owner[s->offset + at]++, 1);
    }
}

static void use_step(const struct plan *p, uint32_t t) {
    const struct plan_step *step = &p->step[t];
    const struct plan_bucket *last = &p->bucket[step->error_bucket];
    uint8_t *owner = calloc(1, step->arena_bytes);
    uint32_t conditional = 0, gradients = 0;
    cr_assert_not_null(owner);
    use_string(p, step->name);
    use_string(p, step->topology);
    cr_assert(plan_policy_name(step->policy) && plan_order_name(step->order) &&
              plan_average_name(step->average) && plan_guards_name(step->guards));
    use_time(step->backward_us);
    use_time(step->finish_us);
    use_time(step->lower_bound_us);
    use_time(step->exposed_us);
    if (step->worst_regret != -1) use_time(step->worst_regret);
    cr_assert_eq(p->bucket[step->first_bucket].kind, PLAN_CONTROL);
    for (uint32_t i = step->first_bucket; i < step->first_bucket + step->n_buckets; i++) {
        use_bucket(p, t, i, owner);
        gradients += p->bucket[i].kind == PLAN_GRADIENT;
    }
    cr_assert_eq(step->error_bucket, step->first_bucket + step->n_buckets - 1);
    cr_assert_eq(last->guard, PLAN_NONE, "the error slot may be skipped");
    cr_assert_eq(owner[step->error_offset]++, 1, "the error slot overlaps a gradient");
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_step_param *sp = plan_step_param(p, t, i);
        cr_assert_not_null(plan_class_name(sp->class));
        cr_assert(sp->exact <= 1 && (sp->exact || sp->class == PLAN_CONDITIONAL));
        cr_assert_eq(sp->segment == PLAN_NONE, sp->class == PLAN_NEVER || sp->class == PLAN_FROZEN);
        cr_assert_eq(sp->class == PLAN_CONDITIONAL, sp->presence_slot != PLAN_NONE);
        cr_assert_eq(sp->class == PLAN_CONDITIONAL, sp->guard != PLAN_NONE);
        if (sp->class != PLAN_CONDITIONAL) continue;
        conditional++;
        cr_assert_lt(sp->guard, p->n_guards);
        cr_assert_eq(last->kind, PLAN_PRESENCE);
        cr_assert_leq(4 * sp->presence_slot + 4, last->bytes);
        cr_assert_eq(owner[last->offset + 4 * sp->presence_slot]++, 1);
    }
    cr_assert_eq(conditional, step->n_conditional);
    if (gradients == 0) cr_assert_eq(last->kind, PLAN_PRESENCE);
    free(owner);
}

static void use(const struct plan *p) {
    use_names(p);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct plan_certificate *c = &p->certificate[i];
        use_step(p, i);
        cr_assert(c->step == i && c->optimal <= 1 && c->ranks > 0 && c->n_pieces > 0);
        cr_assert_leq(c->first_piece + c->n_pieces, p->n_pieces);
        use_time(c->optimum_us);
    }
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        use_time(p->piece[i].alpha_us);
        use_time(p->piece[i].us_per_byte);
    }
}

/* The bytes of a file that can change without breaking a rule. Everything else must be refused. */
#define FREE(record, from, to)                                                                     \
    if (in + 1 > offsetof(struct record, from) && in < offsetof(struct record, to)) return true
static bool may_change(const void *bytes, size_t at) {
    const struct plan_section *t = sections_of(bytes);
    if (at < sizeof(struct plan_header)) return at == 10 || at == 11; /* minor */
    for (uint32_t i = 0; i < PLAN_N_SECTIONS; i++) {
        if (at < t[i].offset || at >= t[i].offset + t[i].count * t[i].record_bytes) continue;
        size_t in = (at - t[i].offset) % t[i].record_bytes;
        switch (t[i].kind) {
        case PLAN_SECTION_TEXT: return true; /* as long as the order stays */
        case PLAN_SECTION_PARAMS: FREE(plan_param, name, rank); break;
        case PLAN_SECTION_STEPS:
            FREE(plan_step, name, first_bucket);
            FREE(plan_step, backward_us, worst_regret);
            return in >= offsetof(struct plan_step, worst_regret);
        case PLAN_SECTION_STEP_PARAMS:
            FREE(plan_step_param, class, zero);
            FREE(plan_step_param, guard, segment);
            break;
        case PLAN_SECTION_BUCKETS:
            FREE(plan_bucket, guard, first_segment);
            return in >= offsetof(struct plan_bucket, ready_us);
        case PLAN_SECTION_SEGMENTS: return in >= offsetof(struct plan_segment, ready_us);
        case PLAN_SECTION_GUARDS: FREE(plan_guard, root, control_pair); break;
        case PLAN_SECTION_GUARD_NODES: return true;
        case PLAN_SECTION_BRANCHES: return true;
        case PLAN_SECTION_CERTIFICATE:
            FREE(plan_certificate, optimal, first_piece);
            return in >= offsetof(struct plan_certificate, cap_bytes);
        case PLAN_SECTION_PIECES:
        case PLAN_SECTION_OPTIONS:
        case PLAN_SECTION_SOURCE_MAP: return true;
        default: break;
        }
    }
    return false;
}

static const char *place_of(const void *bytes, size_t at) {
    static char text[80];
    const struct plan_section *t = sections_of(bytes);
    for (uint32_t i = 0; i < PLAN_N_SECTIONS; i++)
        if (at >= t[i].offset)
            snprintf(text, sizeof text, "section %u, record %zu, byte %zu", t[i].kind,
                     (at - t[i].offset) / t[i].record_bytes,
                     (at - t[i].offset) % t[i].record_bytes);
    return text;
}

/* Every byte of the file, and every aligned word, set to values that break things. */
Test(plan, every_field_mutated) {
    struct sample s = sample_default();
    size_t size;
    uint8_t *good = sample_build(&s, &size), *bytes = malloc(size);
    uint32_t refused = 0, accepted = 0;
    for (size_t at = 0; at < size; at++)
        for (int kind = 0; kind < 14; kind++) {
            struct plan_error error;
            memcpy(bytes, good, size);
            if (kind < 8)
                bytes[at] ^= (uint8_t)(1 << kind);
            else if (kind == 8)
                bytes[at]++;
            else if (kind == 9)
                bytes[at]--;
            else if (at % 4)
                continue;
            else if (kind == 10)
                memset(bytes + at, 0xff, 4);
            else if (kind == 11)
                memset(bytes + at, 0, 4);
            else if (at % 8)
                continue;
            else
                memset(bytes + at, kind == 12 ? 0xff : 0x7f, 8);
            if (memcmp(bytes, good, size) == 0) continue;
            struct plan *p = open_with_hashes(bytes, size, &error);
            if (!p) {
                refused++;
                cr_assert_neq(error.status, PLAN_OK);
                cr_assert_gt(strlen(error.message), 10u);
                continue;
            }
            use(p);
            plan_close(p);
            bool hash_field = at >= offsetof(struct plan_header, content_hash) &&
                              at < offsetof(struct plan_header, zero2);
            cr_assert(hash_field || may_change(good, at), "%s, kind %d was accepted",
                      place_of(good, at), kind);
            accepted++;
        }
    cr_assert_gt(refused, 3 * accepted, "%u refused, %u accepted", refused, accepted);
    free(bytes);
    free(good);
}

Test(plan, damage_is_seen_without_fixed_hashes) {
    struct sample s = sample_default();
    size_t size;
    uint8_t *bytes = sample_build(&s, &size);
    for (size_t at = 0; at < size; at++) {
        struct plan_error error;
        bytes[at] ^= 0x10;
        struct plan *p = plan_from_memory(bytes, size, &error);
        cr_assert_null(p, "byte %zu", at);
        if (at >= sizeof(struct plan_header)) cr_assert_eq(error.status, PLAN_BAD_HASH);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

Test(plan, truncated_at_every_length) {
    struct sample s = sample_default();
    size_t size;
    uint8_t *bytes = sample_build(&s, &size);
    for (size_t n = 0; n < size; n++) {
        struct plan_error error;
        void *part = malloc(n ? n : 1); /* its own block, so that ASan sees a read beyond */
        memcpy(part, bytes, n);
        cr_assert_null(plan_from_memory(part, n, &error));
        cr_assert_eq(error.status, PLAN_TRUNCATED, "%zu bytes: %s", n, error.message);
        if (n > sizeof(struct plan_header)) {
            ((struct plan_header *)part)->file_bytes = n;
            plan_content_hash(part, n, ((struct plan_header *)part)->content_hash);
            cr_assert_null(plan_from_memory(part, n, &error));
            cr_assert_eq(error.status, PLAN_CORRUPT);
        }
        free(part);
    }
    free(bytes);
}

Test(plan, random_damage) {
    struct sample s = sample_default();
    size_t size;
    uint8_t *good = sample_build(&s, &size), *bytes = malloc(size);
    uint64_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        struct plan_error error;
        memcpy(bytes, good, size);
        for (uint32_t k = 0, n = 1 + random_below(&seed, 8); k < n; k++)
            bytes[random_below(&seed, (uint32_t)size)] = (uint8_t)random_below(&seed, 256);
        struct plan *p = open_with_hashes(bytes, size, &error);
        if (p) use(p);
        plan_close(p);
    }
    free(bytes);
    free(good);
}

static void refuse(const char *what, uint8_t *bytes, size_t size, enum plan_status status,
                   const char *words) {
    struct plan_error error;
    plan_content_hash(bytes, size, ((struct plan_header *)(void *)bytes)->content_hash);
    cr_assert_null(plan_from_memory(bytes, size, &error), "%s", what);
    cr_assert_eq(error.status, status, "%s: %s", what, error.message);
    cr_assert_not_null(strstr(error.message, words), "%s: %s", what, error.message);
    free(bytes);
}

static void *sample_bytes(size_t *size) {
    struct sample s = sample_default();
    return sample_build(&s, size);
}

Test(plan, messages_name_the_place) {
    size_t size;
    uint8_t *b = sample_bytes(&size);
    ((struct plan_header *)(void *)b)->major = 7;
    refuse("other major", b, size, PLAN_OTHER_MAJOR, "7.0");
    b = sample_bytes(&size);
    ((struct plan_header *)(void *)b)->major = 7;
    refuse("other major", b, size, PLAN_OTHER_MAJOR, "1.x");
    b = sample_bytes(&size);
    ((struct plan_header *)(void *)b)->protocol = 9;
    refuse("other protocol", b, size, PLAN_OTHER_MAJOR, "protocol 9");
    b = sample_bytes(&size);
    memcpy(b, "PK\3\4", 4);
    refuse("a zip file", b, size, PLAN_NOT_A_PLAN, "not a plan");
    b = sample_bytes(&size);
    ((struct plan_bucket *)(void *)(b + sections_of(b)[PLAN_SECTION_BUCKETS - 1].offset))[2]
        .offset = 64;
    refuse("bucket", b, size, PLAN_CORRUPT, "section buckets, record 2, field offset");
    b = sample_bytes(&size);
    ((struct plan_section *)(void *)(b + sizeof(struct plan_header)))[5].count = UINT64_MAX / 50;
    refuse("section", b, size, PLAN_CORRUPT, "section 5 (steps), field count");
}

Test(plan, unknown_sections_are_skipped) {
    size_t size;
    uint8_t *b = sample_bytes(&size);
    /* A later minor version adds section 99 with one record of 5 bytes at the end: one more entry
     * in the table moves everything by 24 bytes, rounded to 32. */
    size_t table_end = sizeof(struct plan_header) + PLAN_N_SECTIONS * sizeof(struct plan_section);
    size_t shift = plan_align(table_end + 24, 16) - plan_align(table_end, 16);
    size_t old_data = plan_align(table_end, 16), larger = size + shift + 16;
    uint8_t *bytes = calloc(1, larger);
    memcpy(bytes, b, table_end);
    memcpy(bytes + old_data + shift, b + old_data, size - old_data);
    struct plan_header *h = (struct plan_header *)(void *)bytes;
    struct plan_section *t = (struct plan_section *)(void *)(h + 1);
    for (int i = 0; i < PLAN_N_SECTIONS; i++) t[i].offset += shift;
    t[PLAN_N_SECTIONS] = (struct plan_section){99, 5, size + shift, 1};
    memcpy(bytes + size + shift, "hello", 5);
    h->n_sections++;
    h->minor++;
    h->file_bytes = larger;
    struct plan_error error;
    struct plan *p = open_with_hashes(bytes, larger, &error);
    cr_assert_not_null(p, "%s", error.message);
    use(p);
    plan_close(p);
    free(bytes);
    free(b);
}

/* ---- files ----------------------------------------------------------------------------------- */

Test(plan, files) {
    struct plan_error error;
    size_t size;
    char path[] = "/tmp/ddpc-test-plan-XXXXXX";
    void *bytes = sample_bytes(&size);
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
    struct plan *p = plan_open_file(path, &error);
    cr_assert_not_null(p, "%s", error.message);
    plan_close(p);
    unlink(path);
    cr_assert_null(plan_open_file(path, &error));
    cr_assert_eq(error.status, PLAN_UNREADABLE);
    cr_assert_null(plan_open_file("/tmp", &error));
    cr_assert_eq(error.status, PLAN_UNREADABLE);
    cr_assert_not_null(strstr(error.message, "directory"));
    cr_assert_null(plan_open_file("/dev/null", NULL));
    free(bytes);
}

/* A hundred thousand parameters. */
Test(plan, large_plan_opens_fast) {
    enum { N = 100000 };
    struct plan_builder *b = plan_builder_new();
    struct plan_piece piece = {1, 1};
    struct plan_step_info info = {.name = "train",
                                  .topology = "t",
                                  .worst_regret = -1,
                                  .ranks = 2,
                                  .n_pieces = 1,
                                  .piece = &piece};
    struct plan_error error;
    void *bytes;
    size_t size;
    for (int64_t i = 0; i < N; i++) {
        char name[32];
        int64_t dims[2] = {1 + i % 7, 3};
        snprintf(name, sizeof name, "layer.%d.weight", (int)i);
        plan_add_param(b, name, PLAN_FLOAT32, 2, dims, (struct plan_source){0, 0});
    }
    plan_add_step(b, &info);
    for (uint32_t i = 0; i < N; i++) {
        plan_set_class(b, i, PLAN_ALWAYS, true, PLAN_NONE);
        if (i % 100 == 0) plan_add_bucket(b, PLAN_NONE, 0, 0, 0);
        plan_add_segment(b, i, 0);
    }
    cr_assert(plan_build(b, &bytes, &size));
    plan_builder_free(b);
    clock_t start = clock();
    struct plan *p = plan_from_memory(bytes, size, &error);
    double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_assert_not_null(p, "%s", error.message);
    cr_assert_eq(plan_find_param(p, "layer.4711.weight", 17), 4711);
    cr_assert_lt(ms, 1000, "%.1f ms",
                 ms); /* the target is 10 ms; this only catches a wrong order */
    fprintf(stderr, "opened %zu bytes in %.2f ms\n", size, ms);
    plan_close(p);
    free(bytes);
}
