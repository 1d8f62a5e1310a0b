/* The builder behind plan_write.h: arrays of records that grow as calls come in, and plan_build,
 * which sorts the strings, lays the steps out, and copies everything into one block of bytes.
 *
 * Records are held in their final form; while building, a string field holds the order of arrival,
 * and plan_build maps it to the index in the sorted, deduplicated table. Layout happens there too,
 * once the number of uniform guards, and with it the control bucket's length, is known. */
#include "plan_write.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct array {
    char *at;
    size_t n, cap; /* bytes */
};

struct plan_builder {
    struct array text;    /* of the strings as they came, each with a NUL */
    struct array strings; /* struct plan_string, in the order of arrival */
    struct array params, dims, steps, step_params, buckets, segments;
    struct array guards, nodes, branches, certificates, pieces, options, sources;
    struct array node_uniform; /* by node: char, whether all branches below it are uniform */
    uint32_t n_uniform;        /* guards of such nodes */
    bool no_memory;
    _Alignas(16) char scratch[256]; /* what grow hands out after memory ran out */
};

/* Room for `size` more bytes, zeroed. After memory ran out it hands out a scratch block, so that
 * callers that add one record need no second path; only a string can be larger, and then the room
 * is NULL. */
static void *grow(struct plan_builder *b, struct array *a, size_t size) {
    if (size > a->cap - a->n) {
        size_t cap = a->cap ? a->cap : 1024;
        while (cap - a->n < size) cap *= 2;
        char *at = b->no_memory ? NULL : realloc(a->at, cap);
        if (!at) {
            b->no_memory = true;
            return size <= sizeof b->scratch ? memset(b->scratch, 0, size) : NULL;
        }
        a->at = at;
        a->cap = cap;
    }
    void *room = memset(a->at + a->n, 0, size);
    a->n += size;
    return room;
}

#define COUNT(b, field, type) ((uint32_t)((b)->field.n / sizeof(struct type)))
#define AT(b, field, type, i) (&((struct type *)(void *)(b)->field.at)[i])
#define PUSH(b, field, type)  ((struct type *)grow((b), &(b)->field, sizeof(struct type)))

struct plan_builder *plan_builder_new(void) {
    return calloc(1, sizeof(struct plan_builder));
}

void plan_builder_free(struct plan_builder *b) {
    if (!b) return;
    struct array *all[] = {&b->text,    &b->strings,  &b->params,      &b->dims,
                           &b->steps,   &b->buckets,  &b->segments,    &b->guards,
                           &b->nodes,   &b->branches, &b->pieces,      &b->certificates,
                           &b->options, &b->sources,  &b->step_params, &b->node_uniform};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->at);
    free(b);
}

/* ---- what there is --------------------------------------------------------------------------- */

static uint32_t add_string(struct plan_builder *b, const char *s) {
    size_t length = strlen(s);
    uint32_t offset = (uint32_t)b->text.n;
    char *room = grow(b, &b->text, length + 1);
    if (room && !b->no_memory) memcpy(room, s, length);
    *PUSH(b, strings, plan_string) = (struct plan_string){offset, (uint32_t)length};
    return COUNT(b, strings, plan_string) - 1;
}

uint32_t plan_add_param(struct plan_builder *b, const char *name, uint32_t dtype, uint32_t rank,
                        const int64_t *dims, struct plan_source source) {
    uint64_t elements = 1;
    uint32_t first_dim = (uint32_t)(b->dims.n / sizeof *dims);
    assert(b->steps.n == 0);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t *dim = grow(b, &b->dims, sizeof *dim);
        *dim = dims[i];
        elements *= (uint64_t)dims[i];
    }
    *PUSH(b, sources, plan_source) = source;
    uint32_t string = add_string(b, name);
    *PUSH(b, params, plan_param) = (struct plan_param){.name = string,
                                                       .dtype = (uint16_t)dtype,
                                                       .rank = (uint16_t)rank,
                                                       .first_dim = first_dim,
                                                       .elements = elements};
    return COUNT(b, params, plan_param) - 1;
}

uint32_t plan_add_branch(struct plan_builder *b, const char *name, bool uniform) {
    uint32_t string = add_string(b, name);
    *PUSH(b, branches, plan_branch) = (struct plan_branch){.name = string, .uniform = uniform};
    return COUNT(b, branches, plan_branch) - 1;
}

/* Whether a function asks uniform branches alone. Constants ask none and have no such guards. */
static bool is_uniform(const struct plan_builder *b, uint32_t function) {
    return !b->no_memory && (function < 2 || b->node_uniform.at[function - 2]);
}

uint32_t plan_add_guard_node(struct plan_builder *b, uint32_t branch, uint32_t low, uint32_t high) {
    bool uniform =
        is_uniform(b, low) && is_uniform(b, high) && AT(b, branches, plan_branch, branch)->uniform;
    *PUSH(b, nodes, plan_guard_node) = (struct plan_guard_node){branch, low, high};
    *(char *)grow(b, &b->node_uniform, 1) = uniform;
    return COUNT(b, nodes, plan_guard_node) + 1;
}

uint32_t plan_add_guard(struct plan_builder *b, uint32_t root, const char *text) {
    uint32_t string = add_string(b, text), pair = PLAN_NONE;
    if (root >= 2 && is_uniform(b, root)) pair = PLAN_PAIR_GUARDS + b->n_uniform++;
    *PUSH(b, guards, plan_guard) = (struct plan_guard){root, string, pair, 0};
    return COUNT(b, guards, plan_guard) - 1;
}

bool plan_guard_is_uniform(const struct plan_builder *b, uint32_t guard) {
    return guard != PLAN_NONE && guard < COUNT(b, guards, plan_guard) &&
           AT(b, guards, plan_guard, guard)->control_pair != PLAN_NONE;
}

void plan_add_option(struct plan_builder *b, const char *key, const char *value) {
    uint32_t k = add_string(b, key), v = add_string(b, value);
    *PUSH(b, options, plan_option) = (struct plan_option){k, v};
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct plan_step *last_step(const struct plan_builder *b) {
    return AT(b, steps, plan_step, COUNT(b, steps, plan_step) - 1);
}

static struct plan_bucket *add_bucket(struct plan_builder *b, enum plan_bucket_kind kind,
                                      double at) {
    struct plan_bucket *bucket = PUSH(b, buckets, plan_bucket);
    *bucket = (struct plan_bucket){.step = COUNT(b, steps, plan_step) - 1,
                                   .kind = (uint8_t)kind,
                                   .dtype = PLAN_FLOAT32,
                                   .class = PLAN_ALWAYS,
                                   .guard = PLAN_NONE,
                                   .first_segment = COUNT(b, segments, plan_segment),
                                   .ready_us = at,
                                   .start_us = at,
                                   .end_us = at};
    if (!b->no_memory) last_step(b)->n_buckets++;
    return bucket;
}

/* A step is complete when the next one begins or the plan is built: then its presence bucket. */
static void end_step(struct plan_builder *b) {
    if (b->no_memory || b->steps.n == 0) return;
    struct plan_step *step = last_step(b);
    const struct plan_bucket *last =
        AT(b, buckets, plan_bucket, COUNT(b, buckets, plan_bucket) - 1);
    if (last->kind == PLAN_PRESENCE) return; /* built before */
    if (step->n_conditional || last->kind == PLAN_CONTROL || last->guard != PLAN_NONE)
        add_bucket(b, PLAN_PRESENCE, step->finish_us);
    step->error_bucket = COUNT(b, buckets, plan_bucket) - 1;
}

uint32_t plan_add_step(struct plan_builder *b, const struct plan_step_info *info) {
    end_step(b);
    uint32_t name = add_string(b, info->name), topology = add_string(b, info->topology);
    uint32_t n_params = COUNT(b, params, plan_param), index = COUNT(b, steps, plan_step);
    double exposed = info->finish_us - info->backward_us;
    *PUSH(b, steps, plan_step) =
        (struct plan_step){.name = name,
                           .policy = (uint8_t)info->policy,
                           .order = (uint8_t)info->order,
                           .average = (uint8_t)info->average,
                           .guards = (uint8_t)info->guards,
                           .topology = topology,
                           .first_bucket = COUNT(b, buckets, plan_bucket),
                           .first_segment = COUNT(b, segments, plan_segment),
                           .backward_us = info->backward_us,
                           .finish_us = info->finish_us,
                           .lower_bound_us = info->lower_bound_us,
                           .exposed_us = exposed > 0 ? exposed : 0,
                           .worst_regret = info->worst_regret};
    *PUSH(b, certificates, plan_certificate) =
        (struct plan_certificate){.step = index,
                                  .optimal = info->optimal,
                                  .first_piece = COUNT(b, pieces, plan_piece),
                                  .n_pieces = info->n_pieces,
                                  .cap_bytes = info->cap_bytes,
                                  .max_buckets = info->max_buckets,
                                  .ranks = info->ranks,
                                  .optimum_us = info->optimum_us};
    for (uint32_t i = 0; i < info->n_pieces; i++) *PUSH(b, pieces, plan_piece) = info->piece[i];
    add_bucket(b, PLAN_CONTROL, 0);
    for (uint32_t i = 0; i < n_params; i++)
        *PUSH(b, step_params, plan_step_param) =
            (struct plan_step_param){PLAN_NEVER, 1, 0, PLAN_NONE, PLAN_NONE, PLAN_NONE};
    return index;
}

static struct plan_step_param *param_of_last_step(const struct plan_builder *b, uint32_t param) {
    return AT(b, step_params, plan_step_param,
              b->step_params.n / sizeof(struct plan_step_param) - COUNT(b, params, plan_param) +
                  param);
}

void plan_set_class(struct plan_builder *b, uint32_t param, enum plan_class class, bool exact,
                    uint32_t guard) {
    if (b->no_memory) return;
    struct plan_step_param *p = param_of_last_step(b, param);
    p->class = (uint8_t) class;
    p->exact = exact;
    p->guard = guard;
}

void plan_add_bucket(struct plan_builder *b, uint32_t guard, double ready_us, double start_us,
                     double end_us) {
    struct plan_bucket *bucket = add_bucket(b, PLAN_GRADIENT, 0);
    bucket->guard = guard;
    bucket->ready_us = ready_us;
    bucket->start_us = start_us;
    bucket->end_us = end_us;
}

void plan_add_segment(struct plan_builder *b, uint32_t param, double ready_us) {
    if (b->no_memory) return;
    const struct plan_param *p = AT(b, params, plan_param, param);
    struct plan_step_param *sp = param_of_last_step(b, param);
    struct plan_step *step = last_step(b);
    struct plan_bucket *bucket = AT(b, buckets, plan_bucket, COUNT(b, buckets, plan_bucket) - 1);
    uint64_t bytes = (p->elements * plan_dtype_bits(p->dtype) + 7) / 8;
    sp->segment = COUNT(b, segments, plan_segment);
    if (sp->class == PLAN_CONDITIONAL)
        sp->presence_slot = PLAN_PRESENCE_FIRST + step->n_conditional++;
    if (bucket->n_segments++ == 0) {
        bucket->dtype = (uint8_t)p->dtype;
        bucket->class = sp->class;
    }
    bucket->gradient_bytes += bytes;
    step->n_segments++;
    *PUSH(b, segments, plan_segment) =
        (struct plan_segment){.param = param,
                              .bucket = COUNT(b, buckets, plan_bucket) - 1,
                              .bytes = bytes,
                              .ready_us = ready_us};
}

/* ---- layout ---------------------------------------------------------------------------------- */

static void lay_out_step(struct plan_builder *b, struct plan_step *step) {
    uint64_t end = 0;
    for (uint32_t i = step->first_bucket; i <= step->error_bucket; i++) {
        struct plan_bucket *bucket = AT(b, buckets, plan_bucket, i);
        uint64_t at = bucket->offset = plan_align(end, PLAN_BUCKET_ALIGN);
        for (uint32_t k = 0; k < bucket->n_segments; k++) {
            struct plan_segment *s = AT(b, segments, plan_segment, bucket->first_segment + k);
            s->offset = at;
            at += plan_segment_bytes(s->bytes);
        }
        if (bucket->kind == PLAN_CONTROL)
            at += plan_control_bytes(b->n_uniform);
        else if (bucket->kind == PLAN_PRESENCE)
            at += plan_presence_bytes(step->n_conditional);
        if (i == step->error_bucket) {
            step->error_offset = bucket->kind == PLAN_PRESENCE ? bucket->offset : at;
            if (bucket->kind == PLAN_GRADIENT) at += PLAN_SEGMENT_ALIGN;
        }
        bucket->bytes = at - bucket->offset;
        end = at;
    }
    step->arena_bytes = plan_align(end, PLAN_BUCKET_ALIGN);
}

/* ---- strings and names ----------------------------------------------------------------------- */

struct arrival {
    const char *text;
    uint32_t length, index;
};

static int compare_arrivals(const void *left, const void *right) {
    const struct arrival *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order) return order;
    return (a->length > b->length) - (a->length < b->length);
}

/* Replaces b->text and b->strings by the sorted, deduplicated table; map[arrival] is the index. */
static bool sort_strings(struct plan_builder *b, uint32_t *map) {
    uint32_t n = COUNT(b, strings, plan_string), n_distinct = 0;
    struct arrival *arrivals = malloc((n + 1) * sizeof *arrivals);
    char *text = malloc(b->text.n + 1);
    size_t at = 0;
    if (!arrivals || !text) {
        free(arrivals);
        free(text);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_string *s = AT(b, strings, plan_string, i);
        arrivals[i] = (struct arrival){b->text.at + s->offset, s->length, i};
    }
    qsort(arrivals, n, sizeof *arrivals, compare_arrivals);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || compare_arrivals(&arrivals[i - 1], &arrivals[i]) != 0) {
            *AT(b, strings, plan_string, n_distinct++) =
                (struct plan_string){(uint32_t)at, arrivals[i].length};
            memcpy(text + at, arrivals[i].text, arrivals[i].length);
            at += arrivals[i].length;
            text[at++] = 0;
        }
        map[arrivals[i].index] = n_distinct - 1;
    }
    free(arrivals);
    free(b->text.at);
    b->text = (struct array){text, at, at};
    b->strings.n = n_distinct * sizeof(struct plan_string);
    return true;
}

static int compare_options(const void *left, const void *right) {
    const struct plan_option *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

static bool settle_strings(struct plan_builder *b) {
    uint32_t *map = malloc((COUNT(b, strings, plan_string) + 1) * sizeof *map);
    if (!map || !sort_strings(b, map)) {
        free(map);
        return false;
    }
#define MAP(field, type, member)                                                                   \
    for (uint32_t i = 0; i < COUNT(b, field, type); i++)                                           \
    AT(b, field, type, i)->member = map[AT(b, field, type, i)->member]
    MAP(params, plan_param, name);
    MAP(branches, plan_branch, name);
    MAP(guards, plan_guard, text);
    MAP(steps, plan_step, name);
    MAP(steps, plan_step, topology);
    MAP(options, plan_option, key);
    MAP(options, plan_option, value);
#undef MAP
    if (b->options.n)
        qsort(b->options.at, COUNT(b, options, plan_option), sizeof(struct plan_option),
              compare_options);
    free(map);
    return true;
}

static uint32_t *name_table(const struct plan_builder *b, uint32_t *n_slots) {
    uint32_t n = COUNT(b, params, plan_param);
    for (*n_slots = 1; *n_slots < 2 * (uint64_t)n || *n_slots <= n;) *n_slots *= 2;
    uint32_t *slots = calloc(*n_slots, sizeof *slots);
    if (!slots) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_string *s =
            AT(b, strings, plan_string, AT(b, params, plan_param, i)->name);
        uint32_t at = (uint32_t)plan_name_hash(b->text.at + s->offset, s->length);
        for (at &= *n_slots - 1; slots[at]; at = (at + 1) & (*n_slots - 1)) continue;
        slots[at] = i + 1;
    }
    return slots;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

struct part {
    const void *at;
    size_t bytes, record_bytes;
};

static uint8_t *assemble(const struct part *parts, size_t *size) {
    uint64_t end = sizeof(struct plan_header) + PLAN_N_SECTIONS * sizeof(struct plan_section);
    struct plan_section table[PLAN_N_SECTIONS];
    for (uint32_t i = 0; i < PLAN_N_SECTIONS; i++) {
        const struct part *part = &parts[i + 1];
        table[i] = (struct plan_section){i + 1, (uint32_t)part->record_bytes, plan_align(end, 16),
                                         part->bytes / part->record_bytes};
        end = table[i].offset + part->bytes;
    }
    *size = plan_align(end, 16);
    uint8_t *bytes = calloc(1, *size);
    if (!bytes) return NULL;
    struct plan_header header = {.major = PLAN_MAJOR,
                                 .minor = PLAN_MINOR,
                                 .n_sections = PLAN_N_SECTIONS,
                                 .file_bytes = *size,
                                 .protocol = PLAN_PROTOCOL};
    memcpy(header.magic, PLAN_MAGIC, sizeof header.magic);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, table, sizeof table);
    for (uint32_t i = 0; i < PLAN_N_SECTIONS; i++)
        if (parts[i + 1].bytes)
            memcpy(bytes + table[i].offset, parts[i + 1].at, parts[i + 1].bytes);
    return bytes;
}

/* The semantic hash is taken over a plan as readers see it; these are the fields it reads. */
static void put_hashes(const struct plan_builder *b, uint8_t *bytes, size_t size) {
    struct plan_header *header = (struct plan_header *)(void *)bytes;
    struct plan p = {.header = header,
                     .n_params = COUNT(b, params, plan_param),
                     .n_steps = COUNT(b, steps, plan_step),
                     .n_buckets = COUNT(b, buckets, plan_bucket),
                     .n_segments = COUNT(b, segments, plan_segment),
                     .n_guards = COUNT(b, guards, plan_guard),
                     .n_guard_nodes = COUNT(b, nodes, plan_guard_node),
                     .n_branches = COUNT(b, branches, plan_branch),
                     .string = AT(b, strings, plan_string, 0),
                     .text = b->text.at,
                     .param = AT(b, params, plan_param, 0),
                     .dim = (const int64_t *)(const void *)b->dims.at,
                     .step = AT(b, steps, plan_step, 0),
                     .step_param = AT(b, step_params, plan_step_param, 0),
                     .bucket = AT(b, buckets, plan_bucket, 0),
                     .segment = AT(b, segments, plan_segment, 0),
                     .guard = AT(b, guards, plan_guard, 0),
                     .guard_node = AT(b, nodes, plan_guard_node, 0),
                     .branch = AT(b, branches, plan_branch, 0)};
    plan_semantic_hash(&p, header->semantic_hash);
    plan_content_hash(bytes, size, header->content_hash);
}

bool plan_build(struct plan_builder *b, void **bytes, size_t *size) {
    uint32_t n_slots;
    *bytes = NULL;
    end_step(b);
    if (b->no_memory || !settle_strings(b)) return false;
    for (uint32_t i = 0; i < COUNT(b, steps, plan_step); i++)
        lay_out_step(b, AT(b, steps, plan_step, i));
    uint32_t *slots = name_table(b, &n_slots);
    if (!slots) return false;
#define PART(field, record)                                                                        \
    { b->field.at, b->field.n, record }
    const struct part parts[PLAN_N_SECTIONS + 1] = {
        [PLAN_SECTION_STRINGS] = PART(strings, sizeof(struct plan_string)),
        [PLAN_SECTION_TEXT] = PART(text, 1),
        [PLAN_SECTION_PARAMS] = PART(params, sizeof(struct plan_param)),
        [PLAN_SECTION_DIMS] = PART(dims, sizeof(int64_t)),
        [PLAN_SECTION_NAMES] = {slots, n_slots * sizeof *slots, sizeof *slots},
        [PLAN_SECTION_STEPS] = PART(steps, sizeof(struct plan_step)),
        [PLAN_SECTION_STEP_PARAMS] = PART(step_params, sizeof(struct plan_step_param)),
        [PLAN_SECTION_BUCKETS] = PART(buckets, sizeof(struct plan_bucket)),
        [PLAN_SECTION_SEGMENTS] = PART(segments, sizeof(struct plan_segment)),
        [PLAN_SECTION_GUARDS] = PART(guards, sizeof(struct plan_guard)),
        [PLAN_SECTION_GUARD_NODES] = PART(nodes, sizeof(struct plan_guard_node)),
        [PLAN_SECTION_BRANCHES] = PART(branches, sizeof(struct plan_branch)),
        [PLAN_SECTION_CERTIFICATE] = PART(certificates, sizeof(struct plan_certificate)),
        [PLAN_SECTION_PIECES] = PART(pieces, sizeof(struct plan_piece)),
        [PLAN_SECTION_OPTIONS] = PART(options, sizeof(struct plan_option)),
        [PLAN_SECTION_SOURCE_MAP] = PART(sources, sizeof(struct plan_source)),
    };
#undef PART
    *bytes = assemble(parts, size);
    free(slots);
    if (!*bytes) return false;
    put_hashes(b, *bytes, *size);
    return true;
}
