/* Birth and death of a runtime, and the lookups that need no step.
 *
 * Everything a step needs is allocated here, once: a slot per step and parameter (what ddprt_ready
 * looks at, prepared so that it has nothing to search), a counter per bucket, the queue, room for
 * the errors of all ranks. The arenas of the steps follow one another in one piece of memory from
 * the transport, so that an offset means the same place on every rank. */
#define _GNU_SOURCE
#include "agree.h"
#include "error.h"
#include "futex.h"
#include "runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_MS = 10000 };

/* ---- plans ----------------------------------------------------------------------------------- */

static int wrap_plan(struct plan *p, const struct plan_error *why, ddprt_plan **plan,
                     ddprt_error *error) {
    if (!p)
        return error_set(error, why->status == PLAN_NO_MEMORY ? DDPRT_NO_MEMORY : DDPRT_PLAN, "%s",
                         why->message);
    *plan = malloc(sizeof **plan);
    if (!*plan) {
        plan_close(p);
        return error_set(error, DDPRT_NO_MEMORY, "out of memory");
    }
    (*plan)->p = p;
    return DDPRT_OK;
}

int ddprt_plan_open(const char *path, ddprt_plan **plan, ddprt_error *error) {
    struct plan_error why;
    if (!path || !plan)
        return error_set(error, DDPRT_INVALID, "no path, or nowhere to put the plan");
    *plan = NULL;
    return wrap_plan(plan_open_file(path, &why), &why, plan, error);
}

int ddprt_plan_from_memory(const void *bytes, size_t size, ddprt_plan **plan, ddprt_error *error) {
    struct plan_error why;
    if (!bytes || !plan)
        return error_set(error, DDPRT_INVALID, "no bytes, or nowhere to put the plan");
    *plan = NULL;
    return wrap_plan(plan_from_memory(bytes, size, &why), &why, plan, error);
}

void ddprt_plan_close(ddprt_plan *plan) {
    if (!plan) return;
    plan_close(plan->p);
    free(plan);
}

static int found(uint32_t index) { return index == PLAN_NONE ? -1 : (int)index; }

int ddprt_param_count(const ddprt_plan *plan) { return (int)plan->p->n_params; }

int ddprt_param_find(const ddprt_plan *plan, const char *name) {
    return found(plan_find_param(plan->p, name, strlen(name)));
}

const char *ddprt_param_name(const ddprt_plan *plan, int param) {
    bool known = param >= 0 && (uint32_t)param < plan->p->n_params;
    return known ? plan_param_name(plan->p, (uint32_t)param) : NULL;
}

int ddprt_step_find(const ddprt_plan *plan, const char *name) {
    return found(plan_find_step(plan->p, name));
}

int ddprt_branch_find(const ddprt_plan *plan, const char *name) {
    return found(plan_find_branch(plan->p, name));
}

/* ---- open ------------------------------------------------------------------------------------ */

static void prepare_step(ddprt_runtime *rt, uint32_t index, struct bucket_left *buckets,
                         unsigned char *arena) {
    const struct plan *p = rt->plan;
    struct step_state *s = &rt->step[index];
    s->index = index;
    s->plan = &p->step[index];
    s->plan_bucket = &p->bucket[s->plan->first_bucket];
    s->n_buckets = s->plan->n_buckets;
    s->bucket = buckets;
    s->arena = arena;
    s->slot = rt->slots + (size_t)index * p->n_params;
    const struct plan_bucket *last = &s->plan_bucket[s->n_buckets - 1];
    if (last->kind == PLAN_PRESENCE) s->presence = (float *)(void *)(arena + last->offset);
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_step_param *sp = plan_step_param(p, index, i);
        s->slot[i].bucket = sp->segment == PLAN_NONE
                                ? PLAN_NONE
                                : p->segment[sp->segment].bucket - s->plan->first_bucket;
        s->slot[i].presence = sp->presence_slot;
    }
    for (uint32_t b = 0; b < s->n_buckets; b++) s->guarded |= s->plan_bucket[b].guard != PLAN_NONE;
}

/* A page that says whether this is still the process that opened the runtime: the kernel clears it
 * in forked children, so asking costs a load where getpid would cost a system call. */
static const _Atomic uint32_t *alive_page(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *m = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) return NULL;
    if (madvise(m, page, MADV_WIPEONFORK) != 0) {
        munmap(m, page);
        return NULL;
    }
    atomic_init((_Atomic uint32_t *)m, 1);
    return m;
}

static bool allocate(ddprt_runtime *rt) {
    const struct plan *p = rt->plan;
    uint32_t most = 1, n_queue = 2;
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->step[i].n_buckets > most) most = p->step[i].n_buckets;
    while (n_queue <= most) n_queue *= 2; /* and the one that says quit */
    size_t n_slots = (size_t)p->n_steps * p->n_params;
    rt->queue_mask = n_queue - 1;
    rt->queue = calloc(n_queue, sizeof *rt->queue);
    rt->step = calloc(p->n_steps, sizeof *rt->step);
    rt->slots = calloc(n_slots ? n_slots : 1, sizeof *rt->slots);
    rt->buckets = aligned_alloc(64, p->n_buckets * sizeof *rt->buckets);
    rt->branch = calloc(p->n_branches ? p->n_branches : 1, sizeof *rt->branch);
    rt->errors = calloc((size_t)rt->comm->size, sizeof *rt->errors);
    rt->records = calloc((size_t)rt->comm->size, sizeof *rt->records);
    rt->alive = alive_page();
    return rt->queue && rt->step && rt->slots && rt->buckets && rt->branch && rt->errors &&
           rt->records && rt->alive;
}

static void release(ddprt_runtime *rt) {
    free(rt->queue);
    free(rt->step);
    free(rt->slots);
    free(rt->buckets);
    free((void *)rt->branch);
    free(rt->errors);
    free(rt->records);
    if (rt->alive) munmap((void *)(uintptr_t)rt->alive, (size_t)sysconf(_SC_PAGESIZE));
    free(rt);
}

static int check_plan(ddprt_runtime *rt, uint64_t max_bytes, ddprt_error *error) {
    const struct plan *p = rt->plan;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (p->step[i].arena_bytes > UINT64_MAX / 2 - rt->memory_bytes)
            return error_set(error, DDPRT_PLAN_LIMIT, "the plan's arenas exceed the address space");
        rt->memory_bytes += p->step[i].arena_bytes;
    }
    if (max_bytes && rt->memory_bytes > max_bytes)
        return error_set(error, DDPRT_PLAN_LIMIT,
                         "the plan's arenas take %llu bytes, max_arena_bytes allows %llu",
                         (unsigned long long)rt->memory_bytes, (unsigned long long)max_bytes);
    for (uint32_t b = 0; b < p->n_buckets; b++)
        if (!rt->comm->ops->adds(p->bucket[b].dtype))
            return error_set(error, DDPRT_PLAN_DTYPE,
                             "step \"%.80s\", bucket %u: transport %s cannot add %s",
                             plan_string(p, p->step[p->bucket[b].step].name),
                             b - p->step[p->bucket[b].step].first_bucket, rt->comm->ops->name,
                             plan_dtype_name(p->bucket[b].dtype));
    return DDPRT_OK;
}

/* The thread takes no signals: the program's handlers run in its own threads. */
static int start_thread(ddprt_runtime *rt, ddprt_error *error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&rt->thread, NULL, communicate, rt);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? error_set(error, DDPRT_SYSTEM, "cannot start a thread: %s", strerror(failed))
                  : DDPRT_OK;
}

int ddprt_open(const ddprt_plan *plan, ddprt_comm *comm, const ddprt_options *options,
               ddprt_runtime **out, ddprt_error *error) {
    static const ddprt_options defaults;
    if (!plan || !comm || !out || (options && options->timeout_ms < 0))
        return error_set(error, DDPRT_INVALID, "no plan, no comm, or a negative timeout");
    if (!options) options = &defaults;
    *out = NULL;
    ddprt_runtime *rt = aligned_alloc(64, sizeof *rt);
    if (!rt) return error_set(error, DDPRT_NO_MEMORY, "out of memory");
    memset(rt, 0, sizeof *rt);
    rt->plan = plan->p;
    rt->comm = comm;
    rt->n_params = plan->p->n_params;
    rt->timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    int64_t deadline = deadline_in_ms(rt->timeout_ms);

    int code = agree(comm, rt->plan, deadline, error);
    if (!code) code = check_plan(rt, options->max_arena_bytes, error);
    if (!code && !allocate(rt)) code = error_set(error, DDPRT_NO_MEMORY, "out of memory");
    if (!code) {
        struct comm_record failure = COMM_RECORD_NONE;
        void *memory = NULL;
        code = comm->ops->map(comm, rt->memory_bytes, &memory, deadline, &failure);
        if (code) error_while_opening(error, &failure);
        rt->memory = memory;
    }
    if (!code) {
        unsigned char *arena = rt->memory;
        for (uint32_t i = 0; i < rt->plan->n_steps; i++) {
            prepare_step(rt, i, rt->buckets + rt->plan->step[i].first_bucket, arena);
            arena += rt->plan->step[i].arena_bytes;
        }
        atomic_store(&rt->current, &rt->step[0]);
        code = start_thread(rt, error);
    }
    if (code) {
        if (code != DDPRT_FORKED) comm->ops->abort(comm, code, comm->rank);
        release(rt);
        return code;
    }
    *out = rt;
    return DDPRT_OK;
}

void ddprt_close(ddprt_runtime *rt) {
    if (!rt || is_forked(rt)) return;
    /* There is no next step that could carry the error. All collectives of this rank are over, so
     * that breaking can only fail those that will not take place without it anyway. */
    if (rt->phase == PHASE_IDLE && has_error(rt))
        rt->comm->ops->abort(rt->comm, DDPRT_PEER_ERROR, rt->comm->rank);
    if (rt->phase == PHASE_ENDED) wait_completed(rt, deadline_in_ms(rt->timeout_ms));
    if (rt->phase == PHASE_OPEN) rt->comm->ops->abort(rt->comm, DDPRT_PEER_LEFT, rt->comm->rank);
    atomic_store(&rt->quit, 1);
    atomic_fetch_add(&rt->issued, 1);
    futex_wake_all(&rt->issued, false);
    pthread_join(rt->thread, NULL);
    rt->comm->ops->close(rt->comm);
    release(rt);
}

/* ---- where things are ------------------------------------------------------------------------ */

void *ddprt_grad(ddprt_runtime *rt, int step, int param, size_t *bytes) {
    if (!rt || step < 0 || (uint32_t)step >= rt->plan->n_steps || param < 0 ||
        (uint32_t)param >= rt->n_params)
        return NULL;
    uint32_t segment = plan_step_param(rt->plan, (uint32_t)step, (uint32_t)param)->segment;
    if (segment == PLAN_NONE) return NULL;
    if (bytes) *bytes = rt->plan->segment[segment].bytes;
    return rt->step[step].arena + rt->plan->segment[segment].offset;
}

void *ddprt_arena(ddprt_runtime *rt, int step, size_t *bytes) {
    if (!rt || step < 0 || (uint32_t)step >= rt->plan->n_steps) return NULL;
    if (bytes) *bytes = rt->step[step].plan->arena_bytes;
    return rt->step[step].arena;
}
