/* The communication thread: takes issued buckets one after the other and has the transport add
 * them.
 *
 * It exists because a collective lasts as long as the slowest rank takes to get there; in a thread
 * of its own that time is hidden behind the rest of the backward pass, and a rank that computes
 * still answers the others. The thread sleeps unless something was issued, and is the only one that
 * calls the transport's allreduce, so a transport needs no locks.
 *
 * It reads two results itself: the control bucket (are all ranks in the same step, does somebody
 * have an error, which guards are false) and the error slot in a step's last bucket, which is the
 * verdict. After a failure it adds nothing more, on any rank: all have read the same sums. */
#include "runtime.h"

#include "error.h"
#include "futex.h"

#include <stdio.h>

static const float *control_of(const struct step_state *s) {
    return (const float *)(const void *)(s->arena + s->plan_bucket[0].offset);
}

bool guard_is_true(const struct step_state *s, const struct plan *p, uint32_t guard) {
    return control_of(s)[2 * p->guard[guard].control_pair] != 0;
}

static bool unanimous(const float *control, uint32_t pair) {
    return (control[2 * pair] == 0) != (control[2 * pair + 1] == 0);
}

static int differing_guard(ddprt_runtime *rt, struct step_state *s, uint32_t b) {
    const struct plan_guard *guard = &rt->plan->guard[s->plan_bucket[b].guard];
    struct comm_record r = record_at(rt, DDPRT_BRANCH_DIFFERS, rt->comm->rank);
    r.bucket = (int32_t)b;
    if (guard->root > 1) {
        r.branch = (int32_t)rt->plan->guard_node[guard->root - 2].branch;
        uint8_t value = atomic_load_explicit(&rt->branch[r.branch], memory_order_relaxed);
        snprintf(r.message, sizeof r.message, "here it is %s", value ? "true" : "false");
    }
    return record_error(rt, &r);
}

/* 0 if the step goes on. */
static int read_control(ddprt_runtime *rt, struct step_state *s) {
    const float *control = control_of(s);
    if (control[2 * PLAN_PAIR_ERROR] != 0) return DDPRT_PEER_ERROR;
    for (uint32_t pair = PLAN_PAIR_STEP; pair < PLAN_PAIR_GUARDS; pair++)
        if (!unanimous(control, pair)) {
            struct comm_record r = record_at(rt, DDPRT_OTHER_STEP, -1);
            return record_error(rt, &r);
        }
    if (!s->guarded) return DDPRT_OK;
    for (uint32_t b = 0; b < s->n_buckets; b++)
        if (s->plan_bucket[b].guard != PLAN_NONE &&
            !unanimous(control, rt->plan->guard[s->plan_bucket[b].guard].control_pair))
            return differing_guard(rt, s, b);
    atomic_store(&rt->control_read, 1);
    tell_news(rt);
    drive(rt, rt->sequence);
    return DDPRT_OK;
}

static bool error_slot_set(const struct step_state *s) {
    const unsigned char *at = s->arena + s->plan->error_offset;
    uint32_t bytes = plan_dtype_bits(s->plan_bucket[s->n_buckets - 1].dtype) / 8;
    for (uint32_t i = 0; i < bytes; i++)
        if (at[i]) return true;
    return false;
}

/* Gradients are averaged here or, where the number of ranks is not known yet, in verdict.c. */
static double scale_of(const ddprt_runtime *rt, const struct step_state *s,
                       const struct plan_bucket *b) {
    bool world = s->plan->average == PLAN_WORLD ||
                 (s->plan->average == PLAN_PRESENT && b->class == PLAN_ALWAYS);
    return b->kind == PLAN_GRADIENT && world ? 1.0 / rt->comm->size : 1.0;
}

static int add_bucket(ddprt_runtime *rt, struct step_state *s, uint32_t bucket) {
    const struct plan_bucket *b = &s->plan_bucket[bucket];
    struct comm_op op = {
        .offset = (uint64_t)(s->arena - rt->memory) + b->offset,
        .bytes = b->bytes,
        .scaled_bytes = b->bytes,
        .scale = scale_of(rt, s, b),
        .dtype = b->dtype,
        .step = s->index,
        .bucket = bucket,
        .sequence = rt->sequence,
    };
    bool last = bucket == s->n_buckets - 1;
    if (last && b->kind == PLAN_GRADIENT) op.scaled_bytes = s->plan->error_offset - b->offset;
    struct comm_record failure = COMM_RECORD_NONE;
    int code = rt->comm->ops->allreduce(rt->comm, &op, &failure);
    if (code == DDPRT_PEER_ERROR) return code; /* what error, it has posted */
    if (code) {
        struct comm_record r = record_at(rt, code, failure.rank);
        r.bucket = (int32_t)bucket;
        if (failure.parameter >= 0 && (uint32_t)failure.parameter < rt->n_params) {
            r.parameter = failure.parameter;
            r.bucket = (int32_t)s->slot[r.parameter].bucket;
            snprintf(r.message, sizeof r.message, "it was waiting for this gradient");
        }
        if (failure.step >= 0) { /* where the other one is */
            r.step = failure.step;
            r.sequence = failure.sequence;
            r.bucket = failure.bucket;
        }
        return record_error(rt, &r);
    }
    if (b->kind == PLAN_CONTROL) return read_control(rt, s);
    if (last && error_slot_set(s)) return DDPRT_PEER_ERROR;
    return DDPRT_OK;
}

static void complete(ddprt_runtime *rt) {
    rt->completed_ns = clock_ns();
    atomic_store(&rt->completed, rt->sequence);
    tell_news(rt);
}

/* While nothing comes: tells the others which gradient this rank still waits for. Should they give
 * up, they can name it. */
static void hint(ddprt_runtime *rt) {
    struct step_state *s = atomic_load(&rt->current);
    uint64_t epoch = atomic_load(&s->epoch);
    if (atomic_load(&rt->completed) == epoch >> CLAIM_SHIFT) return;
    const struct plan_segment *g = &rt->plan->segment[s->plan->first_segment];
    for (uint32_t b = 0; b < s->n_buckets; g += s->plan_bucket[b++].n_segments) {
        if (atomic_load(&s->bucket[b].left) == 0) continue;
        for (uint32_t i = 0; i < s->plan_bucket[b].n_segments; i++)
            if (atomic_load(&s->slot[g[i].param].claim) < epoch) {
                rt->comm->ops->hint(rt->comm, epoch >> CLAIM_SHIFT, g[i].param);
                return;
            }
    }
}

void *communicate(void *runtime) {
    ddprt_runtime *rt = runtime;
    for (uint32_t taken = 0;;) {
        if (atomic_load(&rt->issued) == taken) {
            atomic_store(&rt->asleep, 1);
            futex_wait(&rt->issued, taken, FUTEX_SLICE_NS, false);
            atomic_store(&rt->asleep, 0);
            if (atomic_load(&rt->issued) == taken) {
                hint(rt);
                continue;
            }
        }
        if (atomic_load(&rt->quit)) return NULL;
        uint32_t bucket = rt->queue[taken++ & rt->queue_mask];
        if (atomic_load(&rt->failed)) continue;
        struct step_state *s = atomic_load(&rt->current);
        bool last = bucket == s->n_buckets - 1;
        int64_t begin = clock_ns();
        int code = add_bucket(rt, s, bucket);
        rt->reduce_ns += clock_ns() - begin;
        if (code) atomic_store(&rt->failed, 1);
        if (code || last) complete(rt);
    }
}
