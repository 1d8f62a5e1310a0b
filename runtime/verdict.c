/* What became of a step: the first error of this rank, the wait for the verdict, and the exchange.
 *
 * A rank keeps the first error it meets and shows it to the others at once (comm post), before
 * anybody knows that the step will fail; so the exchange after a failure needs no thread of the
 * failed rank. The verdict itself travels with the data (control bucket, error slot) or with the
 * transport's own break. Then every rank collects what all have shown, for a bounded time, and a
 * rank that did nothing wrong reports the most telling of it as its own. */
#include "error.h"
#include "futex.h"
#include "reduce.h"
#include "runtime.h"

#include <string.h>

bool has_error(const ddprt_runtime *rt) {
    uint32_t state;
    while ((state = atomic_load(&rt->error_state)) == 1) {
    } /* another thread is writing it */
    return state != 0;
}

struct comm_record record_at(const ddprt_runtime *rt, int code, int rank) {
    struct comm_record r = COMM_RECORD_NONE;
    const struct step_state *s = atomic_load(&rt->current);
    uint64_t epoch = atomic_load(&s->epoch) >> CLAIM_SHIFT;
    r.code = code;
    r.rank = rank;
    if (epoch > 0) {
        r.step = (int32_t)s->index;
        r.sequence = (int64_t)epoch;
    }
    return r;
}

/* True for the one thread that may write the error; it must call keep_error. */
static bool take_error(ddprt_runtime *rt) {
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&rt->error_state, &none, 1);
}

static void keep_error(ddprt_runtime *rt, const struct comm_record *record, int code) {
    rt->record = *record;
    rt->record.code = code;
    error_from_record(&rt->error, rt->plan, record);
    rt->error.code = code;
    rt->error.reporter = rt->comm->rank;
    atomic_store(&rt->error_state, 2);
}

int record_error(ddprt_runtime *rt, const struct comm_record *record) {
    if (take_error(rt)) {
        rt->comm->ops->post(rt->comm, record);
        keep_error(rt, record, record->code);
    }
    return record->code;
}

void tell_news(ddprt_runtime *rt) {
    atomic_fetch_add(&rt->news, 1);
    futex_wake_all(&rt->news, false);
}

static bool completed_by(ddprt_runtime *rt, int64_t deadline_ns) {
    for (;;) {
        uint32_t news = atomic_load(&rt->news);
        if (atomic_load(&rt->completed) == rt->sequence) return true;
        int64_t left = deadline_ns - clock_ns();
        if (left <= 0) return false;
        futex_wait(&rt->news, news, left < FUTEX_SLICE_NS ? left : FUTEX_SLICE_NS, false);
    }
}

void wait_completed(ddprt_runtime *rt, int64_t deadline_ns) {
    if (completed_by(rt, deadline_ns)) return;
    int missing = rt->comm->ops->missing(rt->comm);
    if (missing >= 0)
        rt->comm->ops->abort(rt->comm, DDPRT_PEER_STALLED, missing);
    else
        rt->comm->ops->abort(rt->comm, DDPRT_TIMEOUT, rt->comm->rank);
    /* The transport answers with a failure, or with a success that was already certain. */
    if (completed_by(rt, deadline_in_ms(ABORT_MS))) return;
    struct comm_record r = record_at(rt, DDPRT_TIMEOUT, rt->comm->rank);
    record_error(rt, &r);
    atomic_store(&rt->failed, 1);
}

/* A rank's own doing says more than what others noticed of it. */
static bool is_own_fault(const struct comm_record *r, int reporter) {
    return r->rank == reporter && r->code != DDPRT_TIMEOUT && r->code != DDPRT_PEER_STALLED;
}

void exchange_errors(ddprt_runtime *rt) {
    if (rt->told) return;
    rt->told = true;
    struct comm_record nothing = COMM_RECORD_NONE;
    nothing.code = DDPRT_PEER_ERROR;
    if (!has_error(rt)) rt->comm->ops->post(rt->comm, &nothing);
    rt->comm->ops->collect(rt->comm, rt->records, deadline_in_ms(EXCHANGE_MS));
    const struct comm_record *best = NULL;
    for (int r = 0; r < rt->comm->size; r++) {
        const struct comm_record *record = &rt->records[r];
        if (record->code == 0 || record->code == DDPRT_PEER_ERROR) continue;
        ddprt_error *e = &rt->errors[rt->n_errors++];
        error_from_record(e, rt->plan, record);
        e->reporter = r;
        if (!best || (is_own_fault(record, r) && !is_own_fault(best, best->rank))) best = record;
    }
    if (take_error(rt)) keep_error(rt, best ? best : &nothing, DDPRT_PEER_ERROR);
}

/* ---- the report ------------------------------------------------------------------------------ */

int ddprt_presence(ddprt_runtime *rt, int param) {
    if (!rt || !rt->last || param < 0 || (uint32_t)param >= rt->n_params) return -1;
    const struct step_state *s = rt->last;
    const struct ready_slot *slot = &s->slot[param];
    if (slot->bucket == PLAN_NONE) return 0;
    if (slot->presence == PLAN_NONE) return rt->comm->size;
    const struct plan_bucket *b = &s->plan_bucket[slot->bucket];
    if (b->guard != PLAN_NONE && !guard_is_true(s, rt->plan, b->guard)) return 0;
    return (int)s->presence[slot->presence];
}

static void divide(void *data, uint64_t n, uint32_t dtype, int by) {
    float *f = data;
    double *d = data;
    uint16_t *h = data;
    float factor = (float)(1.0 / by);
    switch (dtype) {
    case PLAN_FLOAT32:
        for (uint64_t i = 0; i < n; i++) f[i] *= factor;
        break;
    case PLAN_FLOAT64:
        for (uint64_t i = 0; i < n; i++) d[i] *= 1.0 / by;
        break;
    case PLAN_FLOAT16:
        for (uint64_t i = 0; i < n; i++)
            h[i] = reduce_to_float16(reduce_from_float16(h[i]) * factor);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            h[i] = reduce_to_bfloat16(reduce_from_bfloat16(h[i]) * factor);
        break;
    }
}

/* Counts what no rank had, and finishes averages over the ranks that had a gradient. */
static int settle_conditional(ddprt_runtime *rt, struct step_state *s) {
    int absent = 0;
    if (s->plan->n_conditional == 0) return 0;
    const struct plan_segment *g = &rt->plan->segment[s->plan->first_segment];
    for (uint32_t i = 0; i < s->plan->n_segments; i++, g++) {
        if (s->slot[g->param].presence == PLAN_NONE) continue;
        int n = ddprt_presence(rt, (int)g->param);
        absent += n == 0;
        uint32_t dtype = rt->plan->param[g->param].dtype;
        if (n > 1 && s->plan->average == PLAN_PRESENT)
            divide(s->arena + g->offset, g->bytes / (plan_dtype_bits(dtype) / 8), dtype, n);
    }
    return absent;
}

static double us(int64_t ns) { return (double)ns / 1000; }

static void fill_report(ddprt_runtime *rt, struct step_state *s, ddprt_report *report) {
    report->step = (int)s->index;
    report->sequence = (int64_t)rt->sequence;
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        const struct plan_bucket *pb = &s->plan_bucket[b];
        if (pb->guard != PLAN_NONE && !guard_is_true(s, rt->plan, pb->guard)) {
            report->skipped++;
            continue;
        }
        report->buckets++;
        report->wire_bytes += pb->bytes;
    }
    report->step_us = us(rt->completed_ns - rt->begin_ns);
    report->exposed_us = rt->completed_ns > rt->end_ns ? us(rt->completed_ns - rt->end_ns) : 0;
    report->reduce_us = us(rt->reduce_ns);
}

int ddprt_step_wait(ddprt_runtime *rt, int timeout_ms, ddprt_report *report) {
    ddprt_report unwanted;
    if (!rt) return DDPRT_INVALID;
    if (is_forked(rt)) return DDPRT_FORKED;
    if (rt->phase != PHASE_ENDED) return DDPRT_STATE;
    if (!report) report = &unwanted;
    memset(report, 0, sizeof *report);
    struct step_state *s = rt->open;
    rt->phase = PHASE_IDLE;
    wait_completed(rt, deadline_in_ms(timeout_ms < 0 ? rt->timeout_ms : timeout_ms));
    if (atomic_load(&rt->failed)) {
        rt->last = NULL;
        exchange_errors(rt);
        report->step = (int)s->index;
        report->sequence = (int64_t)rt->sequence;
        report->error = rt->error;
        report->errors = rt->errors;
        report->n_errors = rt->n_errors;
        return rt->error.code;
    }
    rt->last = s;
    fill_report(rt, s, report);
    report->absent = settle_conditional(rt, s);
    rt->counters.steps++;
    rt->counters.buckets += (uint64_t)report->buckets;
    rt->counters.skipped += (uint64_t)report->skipped;
    rt->counters.wire_bytes += report->wire_bytes;
    return DDPRT_OK;
}

int ddprt_abort(ddprt_runtime *rt, const char *message) {
    if (!rt) return DDPRT_INVALID;
    if (is_forked(rt)) return DDPRT_FORKED;
    struct comm_record r = record_at(rt, DDPRT_ABORTED, rt->comm->rank);
    if (message) strncpy(r.message, message, sizeof r.message - 1);
    record_error(rt, &r);
    rt->comm->ops->abort(rt->comm, DDPRT_ABORTED, rt->comm->rank);
    return DDPRT_OK;
}

const ddprt_error *ddprt_last_error(ddprt_runtime *rt) {
    return rt && has_error(rt) ? &rt->error : NULL;
}

void ddprt_stats(ddprt_runtime *rt, ddprt_counters *counters) {
    *counters = rt->counters;
    counters->frozen_ready = atomic_load_explicit(&rt->frozen_ready, memory_order_relaxed);
}
