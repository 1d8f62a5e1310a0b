/* Starts the ranks of a job, waits for all of them, and prints what came of it.
 *
 * Ranks are forked processes unless --threads asks for threads. What they measure and how they end
 * they write into memory that is shared with this process, so that also the last words of a process
 * that is killed are there. No rank can hang: each has deadlines of its own, so this process just
 * waits. */
#define _GNU_SOURCE
#include "ddprun.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool choose_step(struct job *j) {
    const char *name = j->options.step;
    j->step[0] = 0;
    j->n_steps = j->plan->n_steps;
    if (!name) return true;
    j->step[0] = plan_find_step(j->plan, name);
    j->n_steps = 1;
    if (j->step[0] != PLAN_NONE) return true;
    fprintf(stderr, "ddprun: the plan has no step \"%s\"; it has", name);
    for (uint32_t i = 0; i < j->plan->n_steps; i++)
        fprintf(stderr, "%s \"%s\"", i ? "," : "", plan_string(j->plan, j->plan->step[i].name));
    fputc('\n', stderr);
    return false;
}

/* Whether a fault can be made with this parameter in this step. */
static bool fits_fault(const struct job *j, uint32_t step, uint32_t param) {
    unsigned class = plan_step_param(j->plan, step, param)->class;
    switch (j->options.fault) {
    case FAULT_EXTRA: return class == PLAN_NEVER;
    case FAULT_SKIP:
    case FAULT_TWICE: return class == PLAN_ALWAYS;
    default: return class == PLAN_ALWAYS || class == PLAN_CONDITIONAL;
    }
}

static const char *fitting_class(enum fault_kind fault) {
    switch (fault) {
    case FAULT_EXTRA: return "one of class never";
    case FAULT_SKIP:
    case FAULT_TWICE: return "one of class always";
    default: return "one with a gradient";
    }
}

/* The first parameter, in the plan's order, that fits; n_params if none does. */
static uint32_t first_fitting(const struct job *j, uint32_t step) {
    uint32_t i = 0;
    while (i < j->plan->n_params && !fits_fault(j, step, i)) i++;
    return i;
}

/* A parameter that was named must fit; without a name it is the first that does, in the plan's
 * order. */
static bool choose_fault_param(struct job *j) {
    const struct run_options *o = &j->options;
    const struct plan *p = j->plan;
    uint32_t step = job_step(j, o->fault_iteration);
    j->fault_param = p->n_params;
    if (o->fault == FAULT_NONE || o->fault == FAULT_CORRUPT) return true;
    if (o->fault_param[0]) {
        uint32_t param = plan_find_param(p, o->fault_param, strlen(o->fault_param));
        if (param != PLAN_NONE && fits_fault(j, step, param))
            j->fault_param = param;
        else if (param == PLAN_NONE && o->fault == FAULT_EXTRA)
            return true;
        else {
            fprintf(stderr, "ddprun: --fault: parameter \"%s\" is %s in step \"%s\"; it needs %s",
                    o->fault_param,
                    param == PLAN_NONE ? "unknown"
                                       : plan_class_name(plan_step_param(p, step, param)->class),
                    plan_string(p, p->step[step].name), fitting_class(o->fault));
            param = first_fitting(j, step);
            if (param < p->n_params) fprintf(stderr, ", such as %s", plan_param_name(p, param));
            fputc('\n', stderr);
            return false;
        }
        return true;
    }
    j->fault_param = first_fitting(j, step);
    if (j->fault_param < p->n_params || o->fault == FAULT_EXTRA)
        return true; /* extra: an unknown one */
    fprintf(stderr, "ddprun: --fault: step \"%s\" has no such parameter; it needs %s\n",
            plan_string(p, p->step[step].name), fitting_class(o->fault));
    return false;
}

struct start {
    struct job *job;
    int rank;
};

static void *rank_thread(void *argument) {
    struct start *s = argument;
    s->job->run(s->job, s->rank);
    rank_prepared(s->job, s->rank, NOT_AWAITED);
    return NULL;
}

static bool run_threads(struct job *j) {
    pthread_t thread[DDPRT_LOCAL_MAX];
    struct start start[DDPRT_LOCAL_MAX];
    for (int r = 0; r < j->options.ranks; r++) {
        start[r] = (struct start){j, r};
        int failed = pthread_create(&thread[r], NULL, rank_thread, &start[r]);
        if (failed) {
            fprintf(stderr, "ddprun: cannot start rank %d: %s\n", r, strerror(failed));
            return false; /* the process ends, and the other threads with it */
        }
    }
    for (int r = 0; r < j->options.ranks; r++) pthread_join(thread[r], NULL);
    return true;
}

static bool run_processes(struct job *j) {
    pid_t pid[DDPRT_LOCAL_MAX], parent = getpid();
    fflush(NULL);
    int started = 0;
    for (; started < j->options.ranks; started++) {
        pid[started] = fork();
        if (pid[started] < 0) break;
        if (pid[started] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) j->run(j, started);
        _exit(0);
    }
    bool all = started == j->options.ranks;
    if (!all) {
        fprintf(stderr, "ddprun: cannot start rank %d: %s\n", started, strerror(errno));
        for (int r = 0; r < started; r++) kill(pid[r], SIGKILL);
    }
    /* In the order in which they end, so that the others can be told not to wait for them. */
    for (int left = started; left > 0;) {
        int status;
        pid_t whose = waitpid(-1, &status, WUNTRACED);
        for (int r = 0; r < started; r++) {
            if (pid[r] != whose) continue;
            rank_prepared(j, r, NOT_AWAITED);
            if (WIFSTOPPED(status)) continue;
            j->result[r].exit_status = status;
            left--;
        }
    }
    return all;
}

static void *shared_memory(size_t bytes) {
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return m == MAP_FAILED ? NULL : m;
}

static bool start_ranks(struct job *j) {
    snprintf(j->name, sizeof j->name, "ddprun-%d", (int)getpid());
    return j->options.threads ? run_threads(j) : run_processes(j);
}

static int calibrate(struct job *j) {
    size_t ranks = (size_t)j->options.ranks, iters = (size_t)j->options.iters;
    j->run = calibrate_rank;
    j->result = shared_memory(ranks * sizeof *j->result);
    j->took_us = shared_memory(ranks * CALIBRATE_SIZES * iters * sizeof *j->took_us);
    if (!j->result || !j->took_us) {
        fprintf(stderr, "ddprun: out of memory\n");
        return EXIT_FAILED;
    }
    return start_ranks(j) && calibrate_write(j) ? EXIT_VERIFIED : EXIT_FAILED;
}

int main(int argc, char **argv) {
    struct job j = {0};
    struct plan_error error;
    int code;
    if (!options_read(&j.options, argc, argv, &code)) return code;
    if (j.options.calibrate) return calibrate(&j);
    struct plan *plan = plan_open_file(j.options.plan_path, &error);
    j.plan = plan;
    if (!plan) {
        fprintf(stderr, "ddprun: %s: %s\n", j.options.plan_path, error.message);
        return EXIT_USAGE;
    }
    j.run = rank_run;
    code = EXIT_USAGE;
    if (choose_step(&j) && choose_fault_param(&j)) {
        size_t ranks = (size_t)j.options.ranks, iters = (size_t)j.options.iters;
        j.result = shared_memory(ranks * sizeof *j.result);
        j.sample = shared_memory((ranks * iters + 1) * sizeof *j.sample);
        code = EXIT_FAILED;
        if (!j.result || !j.sample)
            fprintf(stderr, "ddprun: out of memory\n");
        else if (start_ranks(&j))
            code = report_print(&j, stdout) ? EXIT_VERIFIED : EXIT_FAILED;
    }
    plan_close(plan);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "ddprun: cannot write: %s\n", strerror(errno));
        return EXIT_USAGE;
    }
    return code;
}
