/* Every rule that a plan's records keep, checked in one pass over each section; after it the
 * executor indexes without looking.
 *
 * The checks are written so that almost every field is *determined*: ranges must follow one another
 * without gaps, offsets must be what the layout rules give, back references must lead back. A wrong
 * value then contradicts a neighbour, and there is no second spelling of the same plan. What stays
 * free is what nobody executes: predicted times, options, the source map.
 *
 * All loops are linear in the file, whatever it holds. Two would not be, done naively, and a
 * hostile file could make them crawl: "names are unique" (a comparison of all pairs, or a hash
 * table that the file's author filled with collisions) and "each name is found in the table" (a
 * walk per name through one long run of slots). Strings are therefore stored in ascending order,
 * which makes them distinct, so that distinct names are distinct indices: a bit per string. And the
 * walks share one budget. */
#include "plan_check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes beyond this (2^56 bytes) are refused, so that no sum below can overflow 64 bits. */
static const uint64_t too_large = (uint64_t)1 << 56;

#define REQUIRE(condition, section, record, field)                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return plan_fail(error, PLAN_CORRUPT, "is corrupt: section %s, record %llu, field %s", \
                             section, (unsigned long long)(record), field);                        \
    } while (0)

/* A set of small numbers, one bit each. */
static bool set_add(uint8_t *set, uint32_t i) {
    if (set[i / 8] >> (i % 8) & 1) return false;
    set[i / 8] |= (uint8_t)(1 << i % 8);
    return true;
}
static bool set_has(const uint8_t *set, uint32_t i) { return set[i / 8] >> (i % 8) & 1; }

static bool is_time(double us) { return isfinite(us) && us >= 0 && !signbit(us); }

/* ---- names ----------------------------------------------------------------------------------- */

static bool check_strings(const struct plan *p, uint64_t n_text, struct plan_error *error) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < p->n_strings; i++) {
        const struct plan_string *s = &p->string[i], *before = s - 1;
        REQUIRE(s->offset == at, "strings", i, "offset");
        REQUIRE(s->length < n_text - at, "strings", i, "length");
        REQUIRE(!memchr(p->text + at, 0, s->length) && p->text[at + s->length] == 0, "strings", i,
                "length (there is no NUL, or one too early)");
        if (i) {
            uint32_t common = s->length < before->length ? s->length : before->length;
            int order = memcmp(p->text + before->offset, p->text + at, common);
            REQUIRE(order < 0 || (order == 0 && before->length < s->length), "strings", i,
                    "offset (not in ascending order)");
        }
        at += (uint64_t)s->length + 1;
    }
    REQUIRE(at == n_text, "text", at, "(no string owns it)");
    return true;
}

static bool check_params(const struct plan *p, const struct plan_extent *e, uint8_t *names,
                         struct plan_error *error) {
    uint64_t dim = 0;
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_param *param = &p->param[i];
        uint64_t elements = 1;
        bool empty = false;
        REQUIRE(param->name < p->n_strings && set_add(names, param->name), "params", i, "name");
        REQUIRE(plan_dtype_bits(param->dtype), "params", i, "dtype");
        REQUIRE(param->first_dim == dim, "params", i, "first_dim");
        REQUIRE(param->rank <= e->n_dims - dim, "params", i, "rank");
        REQUIRE(param->zero == 0, "params", i, "zero");
        for (uint32_t k = 0; k < param->rank; k++) {
            int64_t size = p->dim[dim + k];
            REQUIRE(size >= 0, "dims", dim + k, "(negative)");
            if (size == 0)
                empty = true;
            else {
                REQUIRE(elements <= too_large / 16 / (uint64_t)size, "dims", dim + k,
                        "(too large)");
                elements *= (uint64_t)size;
            }
        }
        REQUIRE(param->elements == (empty ? 0 : elements), "params", i, "elements");
        dim += param->rank;
    }
    REQUIRE(dim == e->n_dims, "dims", dim, "(no parameter owns it)");
    return true;
}

/* Each name is found, and nothing else is in the table. The probes are counted: in a table that is
 * at most half full they are 1.5 on average, and whoever filled one with collisions is refused, not
 * followed. */
static bool check_names(const struct plan *p, uint64_t n_slots, struct plan_error *error) {
    uint32_t mask = (uint32_t)n_slots - 1, n_full = 0;
    uint64_t probes = 8 * (uint64_t)p->n_params + 64;
    REQUIRE(n_slots && (n_slots & (n_slots - 1)) == 0 && n_slots >= 2 * (uint64_t)p->n_params,
            "names", n_slots, "(the number of slots)");
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_string *s = &p->string[p->param[i].name];
        uint32_t slot = (uint32_t)plan_name_hash(p->text + s->offset, s->length) & mask;
        for (; p->name_slot[slot] != i + 1; slot = (slot + 1) & mask) {
            REQUIRE(p->name_slot[slot], "names", slot, "(a name cannot be found)");
            REQUIRE(probes-- > 0, "names", slot, "(too many names collide)");
        }
    }
    for (uint64_t slot = 0; slot < n_slots; slot++) n_full += p->name_slot[slot] != 0;
    REQUIRE(n_full == p->n_params, "names", n_full, "(as many full slots as parameters)");
    return true;
}

/* ---- guards ---------------------------------------------------------------------------------- */

static bool check_branches(const struct plan *p, uint8_t *names, struct plan_error *error) {
    for (uint32_t i = 0; i < p->n_branches; i++) {
        const struct plan_branch *b = &p->branch[i];
        REQUIRE(b->name < p->n_strings && set_add(names, b->name), "branches", i, "name");
        REQUIRE(b->uniform <= 1, "branches", i, "uniform");
    }
    return true;
}

static bool child_is_fine(const struct plan *p, uint32_t node, uint32_t child) {
    if (child < 2) return true;
    return child < node + 2 && p->guard_node[child - 2].branch > p->guard_node[node].branch;
}

/* `uniform` gets the nodes that depend on uniform branches alone. */
static bool check_guards(struct plan *p, uint8_t *uniform, struct plan_error *error) {
    REQUIRE(p->n_guard_nodes < PLAN_NONE - 2, "guard_nodes", p->n_guard_nodes, "(too many)");
    for (uint32_t i = 0; i < p->n_guard_nodes; i++) {
        const struct plan_guard_node *n = &p->guard_node[i];
        REQUIRE(n->branch < p->n_branches, "guard_nodes", i, "branch");
        REQUIRE(child_is_fine(p, i, n->low), "guard_nodes", i, "low");
        REQUIRE(child_is_fine(p, i, n->high) && n->high != n->low, "guard_nodes", i, "high");
        if (p->branch[n->branch].uniform && (n->low < 2 || set_has(uniform, n->low - 2)) &&
            (n->high < 2 || set_has(uniform, n->high - 2)))
            set_add(uniform, i);
    }
    for (uint32_t i = 0; i < p->n_guards; i++) {
        const struct plan_guard *g = &p->guard[i];
        REQUIRE(g->root != 0 && g->root < p->n_guard_nodes + 2, "guards", i, "root");
        REQUIRE(g->text < p->n_strings, "guards", i, "text");
        bool is_uniform = g->root >= 2 && set_has(uniform, g->root - 2);
        REQUIRE(g->control_pair ==
                    (is_uniform ? PLAN_PAIR_GUARDS + p->n_uniform_guards : PLAN_NONE),
                "guards", i, "control_pair");
        REQUIRE(g->zero == 0, "guards", i, "zero");
        p->n_uniform_guards += is_uniform;
    }
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The parameters' side: what refers to a segment is referred to by it, so that each segment belongs
 * to one parameter once check_segments has found as many. */
static bool check_step_params(const struct plan *p, uint32_t step, struct plan_error *error) {
    const struct plan_step *s = &p->step[step];
    uint32_t n_segments = 0;
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_step_param *sp = plan_step_param(p, step, i);
        uint64_t record = (uint64_t)step * p->n_params + i;
        bool has_gradient = sp->class == PLAN_ALWAYS || sp->class == PLAN_CONDITIONAL;
        bool conditional = sp->class == PLAN_CONDITIONAL;
        REQUIRE(sp->class < PLAN_N_CLASSES, "step_params", record, "class");
        REQUIRE(sp->exact <= 1 && (sp->exact || conditional), "step_params", record, "exact");
        REQUIRE(sp->zero == 0, "step_params", record, "zero");
        REQUIRE(conditional ? sp->guard < p->n_guards : sp->guard == PLAN_NONE, "step_params",
                record, "guard");
        REQUIRE(conditional || sp->presence_slot == PLAN_NONE, "step_params", record,
                "presence_slot");
        if (!has_gradient) {
            REQUIRE(sp->segment == PLAN_NONE, "step_params", record, "segment");
            continue;
        }
        REQUIRE(sp->segment >= s->first_segment && sp->segment - s->first_segment < s->n_segments &&
                    p->segment[sp->segment].param == i,
                "step_params", record, "segment");
        n_segments++;
    }
    REQUIRE(n_segments == s->n_segments, "steps", step, "n_segments");
    return true;
}

/* Sums up as it goes: *at is the arena's end so far, *conditional the presence slots. */
static bool check_segments(const struct plan *p, uint32_t bucket, uint64_t *at,
                           uint32_t *conditional, struct plan_error *error) {
    const struct plan_bucket *b = &p->bucket[bucket];
    uint64_t gradient_bytes = 0;
    *at = b->offset;
    for (uint32_t i = b->first_segment; i < b->first_segment + b->n_segments; i++) {
        const struct plan_segment *s = &p->segment[i];
        REQUIRE(s->param < p->n_params, "segments", i, "param");
        const struct plan_param *param = &p->param[s->param];
        const struct plan_step_param *sp = plan_step_param(p, b->step, s->param);
        REQUIRE(sp->segment == i, "segments", i, "param");
        REQUIRE(s->bucket == bucket, "segments", i, "bucket");
        REQUIRE(s->offset == *at, "segments", i, "offset");
        REQUIRE(s->bytes == (param->elements * plan_dtype_bits(param->dtype) + 7) / 8, "segments",
                i, "bytes");
        REQUIRE(is_time(s->ready_us), "segments", i, "ready_us");
        REQUIRE(param->dtype == b->dtype, "segments", i, "bucket (of another dtype)");
        REQUIRE(sp->class == b->class, "segments", i, "bucket (of another class)");
        REQUIRE(b->guard == PLAN_NONE || sp->guard == b->guard, "segments", i,
                "bucket (of another guard)");
        if (sp->class == PLAN_CONDITIONAL)
            REQUIRE(sp->presence_slot == PLAN_PRESENCE_FIRST + (*conditional)++, "step_params",
                    (uint64_t)b->step * p->n_params + s->param, "presence_slot");
        gradient_bytes += s->bytes;
        *at += plan_segment_bytes(s->bytes);
        REQUIRE(*at < too_large, "segments", i, "bytes (too large)");
    }
    REQUIRE(b->gradient_bytes == gradient_bytes, "buckets", bucket, "gradient_bytes");
    return true;
}

static bool check_bucket(const struct plan *p, uint32_t step, uint32_t bucket, uint64_t *end,
                         uint32_t *segment, uint32_t *conditional, struct plan_error *error) {
    const struct plan_step *s = &p->step[step];
    const struct plan_bucket *b = &p->bucket[bucket];
    bool first = bucket == s->first_bucket, last = bucket == s->error_bucket;
    uint64_t at, bytes;
    REQUIRE(b->step == step, "buckets", bucket, "step");
    REQUIRE(first ? b->kind == PLAN_CONTROL
                  : b->kind == PLAN_GRADIENT || (b->kind == PLAN_PRESENCE && last),
            "buckets", bucket, "kind");
    REQUIRE(b->zero == 0 && b->zero2 == 0, "buckets", bucket, "zero");
    REQUIRE(b->offset == plan_align(*end, PLAN_BUCKET_ALIGN), "buckets", bucket, "offset");
    REQUIRE(b->first_segment == *segment, "buckets", bucket, "first_segment");
    REQUIRE(b->n_segments <= s->first_segment + s->n_segments - *segment &&
                (b->n_segments > 0) == (b->kind == PLAN_GRADIENT),
            "buckets", bucket, "n_segments");
    REQUIRE(is_time(b->ready_us), "buckets", bucket, "ready_us");
    REQUIRE(is_time(b->start_us) && b->start_us >= b->ready_us, "buckets", bucket, "start_us");
    REQUIRE(is_time(b->end_us) && b->end_us >= b->start_us, "buckets", bucket, "end_us");
    if (b->kind == PLAN_GRADIENT) {
        REQUIRE(plan_dtype_has_gradient(b->dtype), "buckets", bucket, "dtype");
        REQUIRE(b->class == PLAN_ALWAYS || b->class == PLAN_CONDITIONAL, "buckets", bucket,
                "class");
        REQUIRE(b->guard == PLAN_NONE || (b->class == PLAN_CONDITIONAL && b->guard < p->n_guards &&
                                          p->guard[b->guard].control_pair != PLAN_NONE),
                "buckets", bucket, "guard");
    } else {
        REQUIRE(b->dtype == PLAN_FLOAT32, "buckets", bucket, "dtype");
        REQUIRE(b->class == PLAN_ALWAYS, "buckets", bucket, "class");
        REQUIRE(b->guard == PLAN_NONE, "buckets", bucket, "guard");
    }
    if (!check_segments(p, bucket, &at, conditional, error)) return false;
    if (b->kind == PLAN_CONTROL)
        bytes = plan_control_bytes(p->n_uniform_guards);
    else if (b->kind == PLAN_PRESENCE)
        bytes = plan_presence_bytes(*conditional);
    else
        bytes = at - b->offset + (last ? PLAN_SEGMENT_ALIGN : 0);
    REQUIRE(b->bytes == bytes, "buckets", bucket, "bytes");
    *segment += b->n_segments;
    *end = b->offset + b->bytes;
    return true;
}

static bool check_step(const struct plan *p, uint32_t step, uint32_t *bucket, uint32_t *segment,
                       struct plan_error *error) {
    const struct plan_step *s = &p->step[step];
    uint32_t conditional = 0;
    uint64_t end = 0;
    REQUIRE(s->policy < PLAN_N_POLICIES, "steps", step, "policy");
    REQUIRE(s->order < PLAN_N_ORDERS, "steps", step, "order");
    REQUIRE(s->average < PLAN_N_AVERAGES, "steps", step, "average");
    REQUIRE(s->guards < PLAN_N_GUARDS, "steps", step, "guards");
    REQUIRE(s->topology < p->n_strings, "steps", step, "topology");
    REQUIRE(s->first_bucket == *bucket, "steps", step, "first_bucket");
    REQUIRE(s->n_buckets >= 2 && s->n_buckets <= p->n_buckets - *bucket, "steps", step,
            "n_buckets");
    REQUIRE(s->first_segment == *segment, "steps", step, "first_segment");
    REQUIRE(s->n_segments <= p->n_segments - *segment, "steps", step, "n_segments");
    REQUIRE(s->error_bucket == *bucket + s->n_buckets - 1, "steps", step, "error_bucket");
    REQUIRE(s->zero == 0, "steps", step, "zero");
    REQUIRE(is_time(s->backward_us), "steps", step, "backward_us");
    REQUIRE(is_time(s->finish_us), "steps", step, "finish_us");
    REQUIRE(is_time(s->lower_bound_us), "steps", step, "lower_bound_us");
    REQUIRE(is_time(s->exposed_us), "steps", step, "exposed_us");
    REQUIRE(is_time(s->worst_regret) || s->worst_regret == -1, "steps", step, "worst_regret");
    if (!check_step_params(p, step, error)) return false;
    for (uint32_t i = 0; i < s->n_buckets; i++)
        if (!check_bucket(p, step, *bucket + i, &end, segment, &conditional, error)) return false;
    *bucket += s->n_buckets;
    REQUIRE(*segment == s->first_segment + s->n_segments, "steps", step, "n_segments");
    REQUIRE(s->n_conditional == conditional, "steps", step, "n_conditional");
    REQUIRE(s->arena_bytes == plan_align(end, PLAN_BUCKET_ALIGN), "steps", step, "arena_bytes");
    /* A last bucket that may be skipped, or none, cannot carry the error slot. */
    const struct plan_bucket *last = &p->bucket[s->error_bucket];
    bool presence = last->kind == PLAN_PRESENCE;
    const struct plan_bucket *gradient = presence ? last - 1 : last;
    REQUIRE(presence ==
                (conditional || gradient->kind == PLAN_CONTROL || gradient->guard != PLAN_NONE),
            "steps", step, "n_buckets (a presence bucket too many, or none)");
    REQUIRE(s->error_offset == (presence ? last->offset : end - PLAN_SEGMENT_ALIGN), "steps", step,
            "error_offset");
    return true;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static bool check_certificates(const struct plan *p, struct plan_error *error) {
    uint32_t piece = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct plan_certificate *c = &p->certificate[i];
        REQUIRE(c->step == i, "certificate", i, "step");
        REQUIRE(c->optimal <= 1, "certificate", i, "optimal");
        REQUIRE(c->first_piece == piece, "certificate", i, "first_piece");
        REQUIRE(c->n_pieces >= 1 && c->n_pieces <= p->n_pieces - piece, "certificate", i,
                "n_pieces");
        REQUIRE(c->ranks >= 1, "certificate", i, "ranks");
        REQUIRE(is_time(c->optimum_us), "certificate", i, "optimum_us");
        piece += c->n_pieces;
    }
    REQUIRE(piece == p->n_pieces, "pieces", piece, "(no certificate owns it)");
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        REQUIRE(is_time(p->piece[i].alpha_us), "pieces", i, "alpha_us");
        REQUIRE(is_time(p->piece[i].us_per_byte), "pieces", i, "us_per_byte");
    }
    return true;
}

static bool check_all(struct plan *p, const struct plan_extent *e, uint8_t *set, size_t set_bytes,
                      struct plan_error *error) {
    uint32_t bucket = 0, segment = 0;
    REQUIRE(p->n_steps >= 1 && p->n_steps <= PLAN_MAX_STEPS, "steps", p->n_steps, "(the count)");
    REQUIRE(e->n_step_params == (uint64_t)p->n_steps * p->n_params, "step_params", e->n_step_params,
            "(the count)");
    REQUIRE(e->n_certificates == p->n_steps, "certificate", e->n_certificates, "(the count)");
    REQUIRE(e->n_sources == p->n_params, "source_map", e->n_sources, "(the count)");
    if (!check_strings(p, e->n_text, error) || !check_params(p, e, set, error)) return false;
    memset(set, 0, set_bytes);
    if (!check_names(p, e->n_names, error)) return false;
    if (!check_branches(p, set, error)) return false;
    memset(set, 0, set_bytes);
    if (!check_guards(p, set, error)) return false;
    memset(set, 0, set_bytes);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        REQUIRE(p->step[i].name < p->n_strings && set_add(set, p->step[i].name), "steps", i,
                "name");
        if (!check_step(p, i, &bucket, &segment, error)) return false;
    }
    REQUIRE(bucket == p->n_buckets, "buckets", bucket, "(no step owns it)");
    REQUIRE(segment == p->n_segments, "segments", segment, "(no step owns it)");
    if (!check_certificates(p, error)) return false;
    for (uint32_t i = 0; i < p->n_options; i++) {
        const struct plan_option *o = &p->option[i];
        REQUIRE(o->key < p->n_strings && (i == 0 || o->key > o[-1].key), "options", i, "key");
        REQUIRE(o->value < p->n_strings, "options", i, "value");
    }
    for (uint32_t i = 0; i < p->n_params; i++)
        REQUIRE((p->source[i].line == 0) == (p->source[i].column == 0), "source_map", i, "column");
    return true;
}

bool plan_check_records(struct plan *p, const struct plan_extent *extent,
                        struct plan_error *error) {
    uint32_t most = p->n_strings > p->n_guard_nodes ? p->n_strings : p->n_guard_nodes;
    size_t set_bytes = most / 8 + 1;
    uint8_t *set = calloc(1, set_bytes);
    if (!set) return plan_fail(error, PLAN_NO_MEMORY, "does not fit into memory");
    bool ok = check_all(p, extent, set, set_bytes, error);
    free(set);
    return ok;
}
