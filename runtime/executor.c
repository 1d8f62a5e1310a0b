/* The executor: from "this gradient is ready" to "this bucket is issued", in the callers' threads.
 *
 * ddprt_ready is a claim and a count. The claim is one compare-and-swap of the parameter's word
 * from an earlier epoch to this one, so that one parameter counts once per step whoever calls;
 * nothing is reset between steps except the counts. Who takes a bucket's count to zero drives.
 *
 * Driving issues buckets in the plan's order, which is the same on all ranks; that is all the
 * ordering that collectives need. One thread at a time must do it, and none may wait. A try-lock is
 * wrong: the thread that finds it taken leaves, and the holder may already have looked past the
 * bucket that the leaver completed. So `pending` counts: adding to it says "look again", the one
 * that found it zero looks, and goes only when the number is still what it was before the look.
 *
 * Issuing is cheap (an index in a queue, perhaps a wake): the collectives run in a thread of their
 * own (communicate.c), because a collective waits for the slowest rank, and the thread that
 * computes gradients has better things to do. The queue cannot overflow: it holds the largest step.
 *
 * The last bucket carries the error slot and is held back for ddprt_step_end, so that an error in
 * this step still reaches everybody in this step. A bucket whose uniform guard may be false waits
 * until the control bucket has shown that all ranks agree about it. */
#define _POSIX_C_SOURCE 200809L
#include "runtime.h"

#include "futex.h"

#include <sched.h>
#include <string.h>

/* ---- driving --------------------------------------------------------------------------------- */

/* The guard's value by the branches set so far; false with the branch recorded as error if one that
 * decides it is not set. */
static bool guard_by_branches(ddprt_runtime *rt, uint32_t guard) {
    const struct plan *p = rt->plan;
    uint32_t f = p->guard[guard].root;
    while (f > 1) {
        const struct plan_guard_node *n = &p->guard_node[f - 2];
        uint8_t value = atomic_load_explicit(&rt->branch[n->branch], memory_order_relaxed);
        if (value == BRANCH_UNKNOWN) {
            struct comm_record r = record_at(rt, DDPRT_BRANCH_UNSET, rt->comm->rank);
            r.branch = (int32_t)n->branch;
            record_error(rt, &r);
            return false;
        }
        f = value ? n->high : n->low;
    }
    return f == 1;
}

static void put_pair(float *control, uint32_t pair, bool x) {
    control[2 * pair] = x ? 1.0f : 0.0f;
    control[2 * pair + 1] = x ? 0.0f : 1.0f;
}

static void fill_control(ddprt_runtime *rt) {
    struct step_state *s = rt->open;
    const struct plan *p = rt->plan;
    float *control = (float *)(void *)(s->arena + s->plan_bucket[0].offset);
    for (uint32_t k = 0; k < p->n_uniform_guards; k++)
        put_pair(control, PLAN_PAIR_GUARDS + k, false);
    for (uint32_t b = 0; s->guarded && b < s->n_buckets; b++) {
        uint32_t guard = s->plan_bucket[b].guard;
        if (guard != PLAN_NONE)
            put_pair(control, p->guard[guard].control_pair, guard_by_branches(rt, guard));
    }
    for (uint32_t bit = 0; bit < 16; bit++)
        put_pair(control, PLAN_PAIR_STEP + bit, s->index >> bit & 1);
    for (uint32_t bit = 0; bit < 32; bit++)
        put_pair(control, PLAN_PAIR_SEQUENCE + bit, rt->sequence >> bit & 1);
    put_pair(control, PLAN_PAIR_ERROR, has_error(rt));
}

static void issue(ddprt_runtime *rt, uint32_t bucket) {
    uint32_t n = atomic_load_explicit(&rt->issued, memory_order_relaxed);
    rt->queue[n & rt->queue_mask] = bucket;
    atomic_store(&rt->issued, n + 1);
    if (atomic_load(&rt->asleep)) futex_wake_all(&rt->issued, false);
}

static void issue_what_is_ready(ddprt_runtime *rt) {
    struct step_state *s = rt->open;
    if (!s || atomic_load(&rt->started) !=
                  atomic_load_explicit(&s->epoch, memory_order_relaxed) >> CLAIM_SHIFT)
        return; /* a call of an earlier step that was late to get here */
    uint32_t limit = atomic_load(&rt->limit);
    for (; rt->next < limit && !atomic_load_explicit(&rt->failed, memory_order_relaxed);
         rt->next++) {
        const struct plan_bucket *b = &s->plan_bucket[rt->next];
        if (b->kind == PLAN_CONTROL) fill_control(rt);
        if (b->guard != PLAN_NONE) {
            if (!atomic_load(&rt->control_read)) return;
            if (!guard_is_true(s, rt->plan, b->guard)) continue;
        }
        if (atomic_load(&s->bucket[rt->next].left) != 0) return;
        issue(rt, rt->next);
    }
}

/* Puts ownership back, looking again as often as others asked for it meanwhile. */
static void drive_on(ddprt_runtime *rt) {
    uint32_t seen = 1;
    do issue_what_is_ready(rt);
    while (!atomic_compare_exchange_strong(&rt->pending, &seen, 0));
}

void drive(ddprt_runtime *rt, uint64_t epoch) {
    uint64_t started = atomic_load(&rt->started);
    while (started < epoch && !atomic_compare_exchange_weak(&rt->started, &started, epoch)) {
    }
    if (atomic_fetch_add(&rt->pending, 1) == 0) drive_on(rt);
}

/* For the calls that change what is driven: waits out a thread that is just leaving drive. */
static void own_drive(ddprt_runtime *rt) {
    for (uint32_t none = 0; !atomic_compare_exchange_weak(&rt->pending, &none, 1); none = 0) {
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

static int parameter_error(ddprt_runtime *rt, int code, int param) {
    struct comm_record r = record_at(rt, code, rt->comm->rank);
    r.parameter = param;
    struct step_state *s = atomic_load(&rt->current);
    if (param >= 0 && (uint32_t)param < rt->n_params && s->slot[param].bucket != PLAN_NONE)
        r.bucket = (int32_t)s->slot[param].bucket;
    return record_error(rt, &r);
}

/* Every way in which a ready can be other than the first of a known gradient in an open step. */
static int unusual_ready(ddprt_runtime *rt, int param, bool absent) {
    if (is_forked(rt)) return DDPRT_FORKED;
    if (atomic_load(&rt->failed)) return has_error(rt) ? rt->record.code : DDPRT_PEER_ERROR;
    struct step_state *s = atomic_load(&rt->current);
    uint64_t epoch = atomic_load(&s->epoch) >> CLAIM_SHIFT;
    if (epoch == 0) return DDPRT_STATE;
    if (param < 0 || (uint32_t)param >= rt->n_params)
        return parameter_error(rt, DDPRT_UNKNOWN_PARAMETER, param);
    switch (plan_step_param(rt->plan, s->index, (uint32_t)param)->class) {
    case PLAN_FROZEN:
        if (!absent) atomic_fetch_add_explicit(&rt->frozen_ready, 1, memory_order_relaxed);
        return DDPRT_OK;
    case PLAN_NEVER: return absent ? DDPRT_OK : parameter_error(rt, DDPRT_NEVER, param);
    default: break;
    }
    uint64_t how = atomic_load(&s->slot[param].claim) & ((1 << CLAIM_SHIFT) - 1);
    return parameter_error(rt, how == CLAIM_CLOSED ? DDPRT_LATE : DDPRT_TWICE, param);
}

static bool claim(struct step_state *s, struct ready_slot *slot, uint64_t how) {
    uint64_t epoch = atomic_load_explicit(&s->epoch, memory_order_acquire);
    uint64_t seen = atomic_load_explicit(&slot->claim, memory_order_relaxed);
    /* Epochs are shifted, so any claim of this one is above it. */
    return seen < epoch &&
           atomic_compare_exchange_strong_explicit(&slot->claim, &seen, epoch | how,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* One gradient less to wait for. */
static void count_down(ddprt_runtime *rt, struct step_state *s, uint32_t bucket) {
    if (atomic_fetch_sub_explicit(&s->bucket[bucket].left, 1, memory_order_acq_rel) == 1)
        drive(rt, atomic_load_explicit(&s->epoch, memory_order_relaxed) >> CLAIM_SHIFT);
}

int ddprt_ready(ddprt_runtime *rt, int param) {
    struct step_state *s = atomic_load_explicit(&rt->current, memory_order_acquire);
    if ((uint32_t)param >= rt->n_params || is_forked(rt)) return unusual_ready(rt, param, false);
    struct ready_slot *slot = &s->slot[param];
    if (slot->bucket == PLAN_NONE || !claim(s, slot, CLAIM_READY))
        return unusual_ready(rt, param, false);
    if (slot->presence != PLAN_NONE) s->presence[slot->presence] = 1.0f;
    count_down(rt, s, slot->bucket);
    return DDPRT_OK;
}

static const struct plan_segment *segment_of(const ddprt_runtime *rt, const struct step_state *s,
                                             uint32_t param) {
    return &rt->plan->segment[plan_step_param(rt->plan, s->index, param)->segment];
}

static void zero_segment(const ddprt_runtime *rt, struct step_state *s, uint32_t param) {
    const struct plan_segment *g = segment_of(rt, s, param);
    memset(s->arena + g->offset, 0, g->bytes);
}

int ddprt_absent(ddprt_runtime *rt, int param) {
    struct step_state *s = atomic_load_explicit(&rt->current, memory_order_acquire);
    if ((uint32_t)param >= rt->n_params || is_forked(rt)) return unusual_ready(rt, param, true);
    struct ready_slot *slot = &s->slot[param];
    if (slot->bucket == PLAN_NONE || !claim(s, slot, CLAIM_ABSENT))
        return unusual_ready(rt, param, true);
    int code = DDPRT_OK;
    if (plan_step_param(rt->plan, s->index, (uint32_t)param)->class == PLAN_ALWAYS)
        code = parameter_error(rt, DDPRT_MISSING, param);
    zero_segment(rt, s, (uint32_t)param);
    count_down(rt, s, slot->bucket);
    return code;
}

int ddprt_branch(ddprt_runtime *rt, int branch, int value) {
    if (!rt) return DDPRT_INVALID;
    if (is_forked(rt)) return DDPRT_FORKED;
    if (branch < 0 || (uint32_t)branch >= rt->plan->n_branches) return DDPRT_INVALID;
    if (rt->phase != PHASE_OPEN) return DDPRT_STATE;
    if (atomic_load(&rt->started) == rt->sequence) {
        struct comm_record r = record_at(rt, DDPRT_BRANCH_LATE, rt->comm->rank);
        r.branch = branch;
        return record_error(rt, &r);
    }
    atomic_store_explicit(&rt->branch[branch], value != 0, memory_order_relaxed);
    return DDPRT_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The error slot is one element of its bucket's type. */
static void put_error_slot(struct step_state *s, bool error) {
    unsigned char *at = s->arena + s->plan->error_offset;
    float f = error;
    double d = error;
    uint16_t half = error ? 0x3c00 : 0, bfloat = error ? 0x3f80 : 0;
    switch (s->plan_bucket[s->n_buckets - 1].dtype) {
    case PLAN_FLOAT32: memcpy(at, &f, sizeof f); break;
    case PLAN_FLOAT64: memcpy(at, &d, sizeof d); break;
    case PLAN_FLOAT16: memcpy(at, &half, sizeof half); break;
    default: memcpy(at, &bfloat, sizeof bfloat); break;
    }
}

static void begin(ddprt_runtime *rt, struct step_state *s) {
    own_drive(rt);
    rt->sequence++;
    for (uint32_t b = 0; b < s->n_buckets; b++)
        atomic_store_explicit(&s->bucket[b].left, s->plan_bucket[b].n_segments,
                              memory_order_relaxed);
    for (uint32_t b = 0; b < rt->plan->n_branches; b++)
        atomic_store_explicit(&rt->branch[b], BRANCH_UNKNOWN, memory_order_relaxed);
    if (s->presence)
        memset(s->presence, 0, 4 * (size_t)(PLAN_PRESENCE_FIRST + s->plan->n_conditional));
    put_error_slot(s, false);
    rt->open = s;
    rt->next = 0;
    atomic_store(&rt->limit, s->n_buckets - 1);
    atomic_store(&rt->control_read, 0);
    rt->reduce_ns = 0;
    rt->begin_ns = clock_ns();
    atomic_store(&s->epoch, rt->sequence << CLAIM_SHIFT);
    atomic_store(&rt->current, s);
    drive_on(rt);
}

/* Closes every claim of the step that nobody took, and says what that means for each. */
static void close_claims(ddprt_runtime *rt, struct step_state *s, bool cancel) {
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        const struct plan_bucket *pb = &s->plan_bucket[b];
        bool skipped = !cancel && pb->guard != PLAN_NONE && !guard_is_true(s, rt->plan, pb->guard);
        if (!skipped && atomic_load_explicit(&s->bucket[b].left, memory_order_acquire) == 0)
            continue;
        const struct plan_segment *g = &rt->plan->segment[pb->first_segment];
        for (uint32_t i = 0; i < pb->n_segments; i++, g++) {
            struct ready_slot *slot = &s->slot[g->param];
            if (claim(s, slot, CLAIM_CLOSED)) {
                if (cancel) continue;
                memset(s->arena + g->offset, 0, g->bytes);
                if (skipped) continue;
                if (pb->class == PLAN_ALWAYS) parameter_error(rt, DDPRT_MISSING, (int)g->param);
                count_down(rt, s, b);
            } else if (skipped) {
                uint64_t how = atomic_load(&slot->claim) & ((1 << CLAIM_SHIFT) - 1);
                if (how == CLAIM_READY) parameter_error(rt, DDPRT_GUARD_FALSE, (int)g->param);
            }
        }
    }
}

void send_error_flag(ddprt_runtime *rt, struct step_state *s) {
    begin(rt, s);
    atomic_store(&rt->limit, 1);
    drive(rt, rt->sequence);
    wait_completed(rt, deadline_in_ms(rt->timeout_ms));
    exchange_errors(rt);
}

int ddprt_step_begin(ddprt_runtime *rt, int step, unsigned flags, void *stream) {
    if (!rt || step < 0 || (uint32_t)step >= rt->plan->n_steps || flags & ~(unsigned)DDPRT_ZERO ||
        stream)
        return DDPRT_INVALID;
    if (is_forked(rt)) return DDPRT_FORKED;
    if (rt->phase != PHASE_IDLE) return DDPRT_STATE;
    struct step_state *s = &rt->step[step];
    if (atomic_load(&rt->failed)) return rt->error.code;
    if (has_error(rt)) {
        send_error_flag(rt, s);
        return rt->error.code;
    }
    if (flags & DDPRT_ZERO)
        for (uint32_t b = 0; b < s->n_buckets; b++)
            if (s->plan_bucket[b].kind == PLAN_GRADIENT)
                memset(s->arena + s->plan_bucket[b].offset, 0, s->plan_bucket[b].bytes);
    begin(rt, s);
    rt->phase = PHASE_OPEN;
    return DDPRT_OK;
}

/* Until the guards are known, the step cannot be ended. */
static void wait_control(ddprt_runtime *rt) {
    int64_t deadline = deadline_in_ms(rt->timeout_ms);
    while (!atomic_load(&rt->control_read) && !atomic_load(&rt->failed)) {
        uint32_t news = atomic_load(&rt->news);
        if (atomic_load(&rt->control_read) || atomic_load(&rt->failed)) return;
        int64_t left = deadline - clock_ns();
        if (left <= 0) {
            wait_completed(rt, 0);
            return;
        }
        futex_wait(&rt->news, news, left < FUTEX_SLICE_NS ? left : FUTEX_SLICE_NS, false);
    }
}

int ddprt_step_end(ddprt_runtime *rt) {
    if (!rt) return DDPRT_INVALID;
    if (is_forked(rt)) return DDPRT_FORKED;
    if (rt->phase != PHASE_OPEN) return DDPRT_STATE;
    struct step_state *s = rt->open;
    rt->phase = PHASE_ENDED;
    if (s->guarded) {
        drive(rt, rt->sequence);
        wait_control(rt);
    }
    rt->end_ns = clock_ns();
    if (!atomic_load(&rt->failed)) {
        close_claims(rt, s, false);
        put_error_slot(s, has_error(rt));
        atomic_store(&rt->limit, s->n_buckets);
        drive(rt, rt->sequence);
    }
    return has_error(rt) ? rt->record.code : DDPRT_OK;
}

int ddprt_step_cancel(ddprt_runtime *rt) {
    if (!rt) return DDPRT_INVALID;
    if (is_forked(rt)) return DDPRT_FORKED;
    if (rt->phase != PHASE_OPEN) return DDPRT_STATE;
    own_drive(rt);
    bool issued = rt->next > 0;
    if (!issued) {
        atomic_store(&rt->limit, 0);
        close_claims(rt, rt->open, true);
        rt->phase = PHASE_IDLE;
    }
    drive_on(rt);
    return issued ? DDPRT_STATE : DDPRT_OK;
}
