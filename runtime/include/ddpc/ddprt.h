/* libddprt: executes a reduction plan that ddpc has compiled.
 *
 * A training process opens the plan, meets the other ranks, and gets an arena: flat memory in which
 * every gradient of a step has its place. In each step it writes gradients there and says so, in
 * whatever order and from whatever threads they come; the runtime adds them up over the ranks,
 * bucket by bucket, in the background:
 *
 *     ddprt_plan_open("model.plan", &plan, &error);
 *     ddprt_comm_local("job", rank, size, 10000, &comm, &error);
 *     ddprt_open(plan, comm, NULL, &rt, &error);
 *     for (each iteration) {
 *         ddprt_step_begin(rt, step, DDPRT_ZERO, NULL);
 *         for (each gradient of the backward pass) {
 *             float *g = ddprt_grad(rt, step, param, NULL);   // may be looked up once, before
 *             ... write or accumulate into g ...
 *             ddprt_ready(rt, param);
 *         }
 *         ddprt_step_end(rt);
 *         if (ddprt_step_wait(rt, 10000, &report)) ... report.error.text says what and who ...
 *         ... the gradients are now the sums or averages: let the optimizer read them ...
 *     }
 *     ddprt_close(rt); ddprt_plan_close(plan);
 *
 * Errors. Every function that can fail returns a code, 0 (DDPRT_OK) for success. Codes from 1 to 19
 * mean that the call did nothing. All others are fatal for the job: the runtime makes every rank
 * fail the same step if it still can, and from then on refuses to begin one. A failed step's
 * gradients are undefined. Success of ddprt_step_wait means that what every rank had in its arena
 * when a bucket was issued was summed; it never means less.
 *
 * Threads. ddprt_ready, ddprt_absent, ddprt_abort, ddprt_last_error and the lookups may be called
 * from any thread at any time while the runtime is open. All other calls on one runtime come from
 * one thread at a time.
 *
 * Deadlines are milliseconds. Every call returns by its deadline, plus the half second that ranks
 * take at most to tell each other what went wrong. A process that forks keeps its runtime; the
 * child must not use it and is refused. */
#ifndef DDPC_DDPRT_H
#define DDPC_DDPRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDPRT_API __attribute__((visibility("default")))

/* ---- errors ---------------------------------------------------------------------------------- */

typedef enum ddprt_code {
    DDPRT_OK = 0,
#define DDPRT_ERROR(id, number, name, text) DDPRT_##id = number,
#include "ddprt_errors.def"
#undef DDPRT_ERROR
} ddprt_code;

/* "missing"; never NULL. */
DDPRT_API const char *ddprt_code_name(int code);
/* "no gradient came, but the plan says ..."; never NULL. */
DDPRT_API const char *ddprt_code_text(int code);

/* What happened, where, and whose fault it is. Fields that do not apply are -1. */
typedef struct ddprt_error {
    int code;         /* ddprt_code */
    int rank;         /* the rank at fault, which may be another one than this */
    int reporter;     /* the rank that says so */
    int step;         /* index in the plan */
    int parameter;    /* index in the plan */
    int bucket;       /* index in the step */
    int branch;       /* index in the plan */
    int64_t sequence; /* which step_begin of the runtime, from 1 */
    char text[384];   /* all of it in one line, with names */
} ddprt_error;

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct ddprt_plan ddprt_plan;

/* Reads and checks a plan; a bad one is DDPRT_PLAN and error->text says why. The bytes are copied,
 * so the file or the memory may change or go away. Plans are read-only and may be shared by threads
 * and runtimes; they must outlive the runtimes. `error` may be NULL, here and everywhere. */
DDPRT_API int ddprt_plan_open(const char *path, ddprt_plan **plan, ddprt_error *error);
DDPRT_API int ddprt_plan_from_memory(const void *bytes, size_t size, ddprt_plan **plan,
                                     ddprt_error *error);
DDPRT_API void ddprt_plan_close(ddprt_plan *plan);

/* Parameters, steps and branches are known by index. The finders return -1 for unknown names, the
 * names NULL for unknown indices. */
DDPRT_API int ddprt_param_count(const ddprt_plan *plan);
DDPRT_API int ddprt_param_find(const ddprt_plan *plan, const char *name);
DDPRT_API const char *ddprt_param_name(const ddprt_plan *plan, int param);
DDPRT_API int ddprt_step_find(const ddprt_plan *plan, const char *name);
DDPRT_API int ddprt_branch_find(const ddprt_plan *plan, const char *name);

/* ---- ranks ----------------------------------------------------------------------------------- */

typedef struct ddprt_comm ddprt_comm;

/* Meets the other ranks of a job on this host, as processes or as threads of one: each calls it
 * with the same name and size and its own rank. The name is made of letters, digits, '.', '_' and
 * '-'; two jobs of one user that run at the same time need different ones. At most DDPRT_LOCAL_MAX
 * ranks. Ranks find each other in $XDG_RUNTIME_DIR/ddprt or /tmp/ddprt-UID, which only this user
 * can enter. */
enum { DDPRT_LOCAL_MAX = 64 };
DDPRT_API int ddprt_comm_local(const char *name, int rank, int size, int timeout_ms,
                               ddprt_comm **comm, ddprt_error *error);
/* Only for one that no runtime has taken. */
DDPRT_API void ddprt_comm_close(ddprt_comm *comm);

/* ---- the runtime ----------------------------------------------------------------------------- */

typedef struct ddprt_runtime ddprt_runtime;

typedef struct ddprt_options {
    uint64_t max_arena_bytes; /* refuse plans that want more for one rank; 0: no limit */
    int timeout_ms;           /* of ddprt_open and of waits without a deadline of their own;
                               * 0: 10,000 */
} ddprt_options;

/* Collective. The ranks first compare what they are about to run; if one has another plan, all fail
 * and say which (DDPRT_OTHER_PLAN). Then the arenas come into being, zeroed, and a communication
 * thread is started. `options` may be NULL. Success takes the comm over; after a failure it is
 * still the caller's, good only for ddprt_comm_close. */
DDPRT_API int ddprt_open(const ddprt_plan *plan, ddprt_comm *comm, const ddprt_options *options,
                         ddprt_runtime **rt, ddprt_error *error);

/* Where the gradient of a parameter lives in a step: dense, in its own type, 16-byte aligned, the
 * same place until close. NULL if it has none there (frozen or never). `bytes` may be NULL. */
DDPRT_API void *ddprt_grad(ddprt_runtime *rt, int step, int param, size_t *bytes);
/* The whole arena of a step, page-aligned, as `ddpc dump` lists it. */
DDPRT_API void *ddprt_arena(ddprt_runtime *rt, int step, size_t *bytes);

enum {
    DDPRT_ZERO =
        1, /* step_begin: fill the step's gradients with zeros, for callers that accumulate */
};

/* Begins a step. `stream` is for transports of devices; on this host's it is NULL. If an error
 * became known too late for the step that it belongs to, this call tells the other ranks and
 * returns it. */
DDPRT_API int ddprt_step_begin(ddprt_runtime *rt, int step, unsigned flags, void *stream);

/* The value of a branch in this step, before the first ddprt_ready. Every uniform branch that
 * decides about a bucket of the step must be set, to the same value on every rank. */
DDPRT_API int ddprt_branch(ddprt_runtime *rt, int branch, int value);

/* This rank's gradient of the parameter is complete in the arena. From here to the return of
 * ddprt_step_wait the memory belongs to the runtime. Costs a few dozen instructions; the call that
 * completes a bucket also wakes the communication thread. A parameter that is frozen in this step
 * is ignored and counted. */
DDPRT_API int ddprt_ready(ddprt_runtime *rt, int param);

/* This rank will have no gradient for this conditional parameter in this step. Optional: step_end
 * finds out by itself, but until then the parameter's bucket has to wait. */
DDPRT_API int ddprt_absent(ddprt_runtime *rt, int param);

/* No more gradients come: issues what is left. Conditional parameters without a gradient count as
 * absent and contribute zero; an always-parameter without one is DDPRT_MISSING. Returns the first
 * error of this rank in this step; ddprt_step_wait must follow in any case. */
DDPRT_API int ddprt_step_end(ddprt_runtime *rt);

typedef struct ddprt_report {
    ddprt_error error; /* of this step; code 0 if it succeeded */
    const ddprt_error
        *errors; /* what each failed rank says, by reporting rank; owned by the runtime */
    int n_errors;
    int step;
    int64_t sequence;
    int buckets, skipped; /* collectives issued, control and presence among them; not issued */
    int absent;           /* conditional parameters that no rank had */
    uint64_t wire_bytes;  /* of the issued buckets */
    double step_us;       /* from step_begin to the last collective's end */
    double exposed_us;    /* from step_end to there: what compute did not hide */
    double reduce_us;     /* inside collectives, waiting for the others included */
} ddprt_report;

/* The verdict about the step, which is the same on every rank. Afterwards the gradients are the
 * caller's again. A deadline that passes fails the job: the ranks that did not arrive are named.
 * timeout_ms < 0: the runtime's own. `report` may be NULL. */
DDPRT_API int ddprt_step_wait(ddprt_runtime *rt, int timeout_ms, ddprt_report *report);

/* Takes a step back of which nothing was issued yet (DDPRT_STATE otherwise). All ranks must. */
DDPRT_API int ddprt_step_cancel(ddprt_runtime *rt);

/* On how many ranks the parameter had a gradient in the last successful step; 0 for those that the
 * step does not train, -1 if there was none. A parameter with 0 reads zero. */
DDPRT_API int ddprt_presence(ddprt_runtime *rt, int param);

/* Makes every rank fail, at once; for when the program itself has found something wrong. The first
 * 79 bytes of the message reach the others. */
DDPRT_API int ddprt_abort(ddprt_runtime *rt, const char *message);

typedef struct ddprt_counters {
    uint64_t steps;   /* that succeeded */
    uint64_t buckets; /* issued */
    uint64_t skipped; /* not issued: their guard was false */
    uint64_t wire_bytes;
    uint64_t frozen_ready; /* gradients of frozen parameters that were ignored */
} ddprt_counters;
DDPRT_API void ddprt_stats(ddprt_runtime *rt, ddprt_counters *counters);

/* The error that broke this runtime, or NULL; valid until close. */
DDPRT_API const ddprt_error *ddprt_last_error(ddprt_runtime *rt);

/* Leaves the job and frees everything, the comm too. If this rank knows of an error that the others
 * do not know yet, they hear of it first. Never waits longer than the runtime's timeout. */
DDPRT_API void ddprt_close(ddprt_runtime *rt);

#ifdef __cplusplus
}
#endif
#endif
