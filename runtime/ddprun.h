/* ddprun: runs a plan on real transports with made-up gradients, and checks every element.
 *
 * ddprun_options.c reads the command line, ddprun.c starts the ranks and waits for them,
 * ddprun_rank.c is what one rank does, ddprun_data.c makes and checks the gradients,
 * ddprun_report.c prints what came of it. ddprun_calibrate.c measures all-reduces instead. */
#ifndef DDPRUN_H
#define DDPRUN_H

#include "ddpc/ddprt.h"
#include "plan.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum { EXIT_VERIFIED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum fault_kind {
    FAULT_NONE,
    FAULT_KILL,    /* the rank dies; as a thread it closes its runtime instead */
    FAULT_STALL,   /* the rank sleeps past the deadline */
    FAULT_SKIP,    /* it withholds the gradient of an always-parameter */
    FAULT_EXTRA,   /* it reports a gradient of a never- or unknown parameter */
    FAULT_TWICE,   /* it reports a gradient twice */
    FAULT_CORRUPT, /* it opens another plan */
};

struct run_options {
    const char *plan_path;
    int ranks, iters, warmup, timeout_ms;
    const char *step;      /* NULL: all steps in turn */
    const char *calibrate; /* write a topology file here instead of running a plan; NULL: no */
    bool threads, json, compute_plan;
    enum fault_kind fault;
    int fault_rank, fault_iteration; /* counted from 0, warm-up included */
    char fault_param[256];           /* "": the first that fits */
};

/* False after printing why, with the exit code; also for --help, with 0. */
bool options_read(struct run_options *o, int argc, char **argv, int *exit_code);

/* What a rank measured in one iteration: ddprun_rank.c says how. */
struct sample {
    double step_us, exposed_us, bookkeeping_us;
    double ready_ns; /* -1: every gradient completed a bucket */
    uint64_t wire_bytes;
    int buckets, skipped;
};

enum { NOT_AWAITED = INT_MAX }; /* it has ended, or is stopped */

/* What a rank leaves behind, in memory that it shares with ddprun. */
struct rank_result {
    /* Iterations for which it has made its gradients, or NOT_AWAITED; a futex of all ranks. */
    _Atomic uint32_t prepared;
    int exit_status;                     /* of the process, as waitpid gives it; 0 for threads */
    bool gone;                           /* the fault took it away: nothing is expected of it */
    ddprt_error error;                   /* code 0: none */
    ddprt_error errors[DDPRT_LOCAL_MAX]; /* what all ranks say */
    int n_errors;
    int iterations;   /* that succeeded and were checked */
    uint64_t checked; /* elements */
    char wrong[256];  /* the first wrong element in words; "": none */
};

struct job {
    struct run_options options;
    const struct plan *plan;
    char name[64];
    uint32_t step[2], n_steps;  /* steps [step[0], step[0] + n_steps) in turn */
    uint32_t fault_param;       /* index; n_params for an unknown one */
    struct rank_result *result; /* by rank */
    struct sample *sample;      /* [rank x iters + iteration] without the warm-up */
    double *took_us;            /* calibration: [(rank x sizes + size) x iters + iteration] */
    void (*run)(struct job *j, int rank); /* what a rank does, from the rendezvous to the end */
};

static inline uint32_t job_step(const struct job *j, int iteration) {
    return j->step[0] + (uint32_t)iteration % j->n_steps;
}

void rank_run(struct job *j, int rank);
/* Tells the ranks what this one is ready for. */
void rank_prepared(struct job *j, int rank, uint32_t iterations);

/* ---- gradients (ddprun_data.c) --------------------------------------------------------------- */

/* The run-time booleans of a rank in an iteration, and which conditional parameters have a
 * gradient. */
void data_branches(const struct job *j, int iteration, int rank, uint8_t *value);
bool data_present(const struct job *j, int iteration, int rank, uint32_t param,
                  const uint8_t *branches);
void data_fill(const struct job *j, int iteration, int rank, uint32_t param, void *grad);
/* Checks a reduced gradient: `present[r]` says whether rank r had it. The index of the first wrong
 * element, -1 if all are right; *got and *want are then the two values. */
int64_t data_check(const struct job *j, int iteration, uint32_t param, const bool *present,
                   const void *grad, double *got, double *want);

/* ---- calibration (ddprun_calibrate.c) -------------------------------------------------------- */

enum { CALIBRATE_SIZES = 17 };
void calibrate_rank(struct job *j, int rank);
/* Fits and writes the file; false after printing why not. */
bool calibrate_write(const struct job *j);

/* ---- the report (ddprun_report.c) ------------------------------------------------------------ */

/* Prints; true if the run is verified. */
bool report_print(const struct job *j, FILE *out);
/* What a rank has to complain about, if anything. */
void report_rank(const struct job *j, int rank, FILE *out);
bool report_died(const struct rank_result *r); /* in a way that nobody planned */

#endif
