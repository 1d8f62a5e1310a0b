/* Transport `local`: how ranks find each other, as processes that may die, and what goes wrong. */
#define _GNU_SOURCE
#include "job.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

/* What forked ranks leave behind. */
struct result {
    int code;
    double ms;
    ddprt_error error;
    ddprt_report report;
};
static struct result *results;
static char job_name[64];

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Runs `run` in a process for each rank; true if all that were not killed ended well. */
static bool run_processes(int size, void (*run)(int rank, int size)) {
    static int jobs;
    pid_t pid[MAX_RANKS];
    bool good = true;
    size_t bytes = MAX_RANKS * sizeof *results;
    results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(job_name, sizeof job_name, "test-local-%d-%d", (int)getpid(), jobs++);
    for (int r = 0; r < size; r++)
        if ((pid[r] = fork()) == 0) {
            run(r, size);
            _exit(0);
        }
    for (int r = 0; r < size; r++) {
        int status;
        waitpid(pid[r], &status, 0);
        good &= status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    return good;
}

static ddprt_runtime *open_rank(int rank, int size, int timeout_ms, uint64_t max_bytes,
                                const char *name_of_w0) {
    size_t bytes;
    void *image = job_plan(PLAN_WORLD, name_of_w0, &bytes);
    ddprt_plan *plan = NULL;
    ddprt_comm *comm = NULL;
    ddprt_runtime *rt = NULL;
    ddprt_options options = {.timeout_ms = timeout_ms, .max_arena_bytes = max_bytes};
    struct result *r = &results[rank];
    r->code = ddprt_plan_from_memory(image, bytes, &plan, &r->error);
    if (!r->code) r->code = ddprt_comm_local(job_name, rank, size, timeout_ms, &comm, &r->error);
    if (!r->code) r->code = ddprt_open(plan, comm, &options, &rt, &r->error);
    if (r->code) ddprt_comm_close(comm);
    return rt;
}

static void step_other(ddprt_runtime *rt, int rank, int timeout_ms) {
    float *w0 = ddprt_grad(rt, OTHER, W0, NULL);
    ddprt_step_begin(rt, OTHER, DDPRT_ZERO, NULL);
    w0[3] = (float)(rank + 1);
    ddprt_ready(rt, W0);
    ddprt_ready(rt, F);
    ddprt_step_end(rt);
    results[rank].code = ddprt_step_wait(rt, timeout_ms, &results[rank].report);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void adds(int rank, int size) {
    ddprt_runtime *rt = open_rank(rank, size, 5000, 0, "w0");
    float *w0 = ddprt_grad(rt, OTHER, W0, NULL);
    for (int it = 0; it < 100; it++) {
        step_other(rt, rank, 5000);
        if (results[rank].code || w0[3] != (float)(size + 1) / 2) _exit(1);
    }
    ddprt_close(rt);
}
Test(local, processes_add) {
    for (int size = 1; size <= 6; size++)
        cr_assert(run_processes(size, adds), "%d: %s", size, results[0].error.text);
}

static void dies(int rank, int size) {
    ddprt_runtime *rt = open_rank(rank, size, 5000, 0, "w0");
    step_other(rt, rank, 5000);
    if (rank == 2) raise(SIGKILL);
    double start = now_ms();
    step_other(rt, rank, 5000);
    results[rank].ms = now_ms() - start;
    ddprt_close(rt);
}
Test(local, a_dead_process_is_named_long_before_the_deadline) {
    cr_assert(run_processes(4, dies));
    for (int r = 0; r < 4; r++) {
        if (r == 2) continue;
        cr_assert_eq(results[r].code, DDPRT_PEER_DIED, "%s", results[r].report.error.text);
        cr_assert_eq(results[r].report.error.rank, 2);
        cr_assert_lt(results[r].ms, 1500);
        cr_assert_not_null(
            strstr(results[r].report.error.text, "rank 2, step \"other\" (number 2)"));
    }
}

static void stops(int rank, int size) {
    ddprt_runtime *rt = open_rank(rank, size, 5000, 0, "w0");
    step_other(rt, rank, 5000);
    if (rank == 0) {
        kill(getpid(), SIGSTOP); /* the others give up; one of them wakes it afterwards */
    }
    double start = now_ms();
    step_other(rt, rank, 300);
    results[rank].ms = now_ms() - start;
    if (rank == 1) kill((pid_t)results[0].ms, SIGCONT);
    ddprt_close(rt);
}
static void stops_and_is_known(int rank, int size) {
    if (rank == 0) results[0].ms = getpid();
    stops(rank, size);
}
Test(local, a_stopped_process_is_named_within_the_deadline) {
    cr_assert(run_processes(3, stops_and_is_known));
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(results[r].code, DDPRT_PEER_STALLED, "%s", results[r].report.error.text);
        cr_assert_eq(results[r].report.error.rank, 0);
        if (r) cr_assert_lt(results[r].ms, 1300);
    }
}

/* ---- the rendezvous -------------------------------------------------------------------------- */

static void one_is_missing(int rank, int size) {
    if (rank != 1) open_rank(rank, size, 300, 0, "w0");
}
Test(local, a_rank_that_does_not_come_is_named) {
    cr_assert(run_processes(3, one_is_missing));
    for (int r = 0; r < 3; r += 2) {
        cr_assert_eq(results[r].code, DDPRT_RENDEZVOUS);
        cr_assert_eq(results[r].error.rank, 1);
        cr_assert_not_null(strstr(results[r].error.text, "rank 1 of 3 did not come"), "rank %d: %s",
                           r, results[r].error.text);
    }
}

static void zero_is_missing(int rank, int size) {
    if (rank != 0) open_rank(rank, size, 200, 0, "w0");
}
Test(local, rank_0_that_does_not_come_is_named) {
    cr_assert(run_processes(2, zero_is_missing));
    cr_assert_eq(results[1].code, DDPRT_RENDEZVOUS);
    cr_assert_not_null(strstr(results[1].error.text, "rank 0 of 2 did not come"));
}

static void other_size(int rank, int size) {
    open_rank(rank, rank == 1 ? size + 1 : size, 2000, 0, "w0");
}
Test(local, ranks_that_disagree_about_the_size) {
    cr_assert(run_processes(3, other_size));
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(results[r].code, DDPRT_RENDEZVOUS);
        cr_assert_str_eq(results[r].error.text,
                         "rank 1 says that the job has 4 ranks, rank 0 says 3");
    }
}

static void same_rank(int rank, int size) {
    if (rank == 0)
        open_rank(0, size, 1000, 0, "w0");
    else {
        int keep = results[1].code;
        open_rank(1, size, 1000, 0, "w0");
        if (keep) results[1].code = keep;
    }
}
Test(local, two_processes_with_one_rank) {
    cr_assert(run_processes(3, same_rank));
    cr_assert_eq(results[0].code, DDPRT_RENDEZVOUS);
    cr_assert_str_eq(results[0].error.text, "two processes say that they are rank 1");
}

static void other_plan(int rank, int size) {
    open_rank(rank, size, 2000, 0, rank == 2 ? "x0" : "w0");
}
Test(local, another_plan_is_named_before_anything_is_added) {
    cr_assert(run_processes(4, other_plan));
    for (int r = 0; r < 4; r++) {
        cr_assert_eq(results[r].code, DDPRT_OTHER_PLAN);
        cr_assert_eq(results[r].error.rank, 2);
        cr_assert_eq(strncmp(results[r].error.text, "rank 2 runs another plan: its hash", 34), 0);
    }
}

static void limited(int rank, int size) { open_rank(rank, size, 2000, rank == 1 ? 1000 : 0, "w0"); }
Test(local, a_rank_that_refuses_the_arena_stops_all) {
    cr_assert(run_processes(2, limited));
    cr_assert_eq(results[1].code, DDPRT_PLAN_LIMIT);
    cr_assert_not_null(strstr(results[1].error.text, "max_arena_bytes allows 1000"));
    cr_assert_eq(results[0].code, DDPRT_PLAN_LIMIT);
    cr_assert_eq(results[0].error.rank, 1);
}

static char socket_path[160];
static void find_socket_path(void) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime) unsetenv("XDG_RUNTIME_DIR");
    char directory[64];
    snprintf(directory, sizeof directory, "/tmp/ddprt-%u", (unsigned)geteuid());
    mkdir(directory, 0700);
    snprintf(socket_path, sizeof socket_path, "%s/%s.sock", directory, job_name);
}

/* A socket that a killed job has left does not stop the next one. */
static void after_a_dead_job(int rank, int size) {
    find_socket_path();
    if (rank == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        memcpy(a.sun_path, socket_path, sizeof a.sun_path - 1);
        if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0) _exit(1);
        close(fd); /* the file stays */
        usleep(50 * 1000);
    }
    ddprt_runtime *rt = open_rank(rank, size, 3000, 0, "w0");
    if (!rt || access(socket_path, F_OK) == 0) _exit(1);
    step_other(rt, rank, 3000);
    ddprt_close(rt);
}
Test(local, stale_sockets_do_not_matter) {
    cr_assert(run_processes(3, after_a_dead_job), "%s", results[0].error.text);
    for (int r = 0; r < 3; r++) cr_assert_eq(results[r].code, 0);
}

static void name_is_taken(int rank, int size) {
    find_socket_path();
    char lock[192];
    snprintf(lock, sizeof lock, "%.*s.lock", (int)strlen(socket_path) - 5, socket_path);
    int fd = open(lock, O_RDWR | O_CREAT, 0600);
    flock(fd, LOCK_EX);
    open_rank(rank, size, 200, 0, "w0");
    unlink(lock);
}
Test(local, two_jobs_of_one_name) {
    cr_assert(run_processes(1, name_is_taken));
    cr_assert_eq(results[0].code, DDPRT_RENDEZVOUS);
    cr_assert_not_null(strstr(results[0].error.text, "another job of this user"));
}

/* A killed job holds its name until the kernel has cleared it away. */
static void name_comes_free(int rank, int size) {
    find_socket_path();
    char lock[192];
    snprintf(lock, sizeof lock, "%.*s.lock", (int)strlen(socket_path) - 5, socket_path);
    int fd = rank == 0 ? open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (rank == 0) flock(fd, LOCK_EX);
    pid_t dying = rank == 0 ? fork() : -1;
    if (dying == 0) {
        usleep(200 * 1000);
        _exit(0);
    }
    if (fd >= 0) close(fd); /* the child still has it */
    ddprt_runtime *rt = open_rank(rank, size, 3000, 0, "w0");
    if (rt) step_other(rt, rank, 3000);
    ddprt_close(rt);
    if (rank == 0) waitpid(dying, NULL, 0);
}
Test(local, a_dying_job_lets_go_of_its_name) {
    cr_assert(run_processes(2, name_comes_free));
    for (int r = 0; r < 2; r++) cr_assert_eq(results[r].code, 0, "%s", results[r].error.text);
}

static void no_descriptors(int rank, int size) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    open_rank(rank, size, 200, 0, "w0");
}
Test(local, system_errors_are_told) {
    cr_assert(run_processes(1, no_descriptors));
    cr_assert_eq(results[0].code, DDPRT_SYSTEM);
    cr_assert_not_null(strstr(results[0].error.text, strerror(EMFILE)), "%s",
                       results[0].error.text);
}

/* Opens a plan of one gradient; NULL after an error. */
static ddprt_runtime *open_one(int rank, int size, int64_t elements) {
    size_t n;
    void *bytes = job_flat_plan(1, elements, 1, &n);
    ddprt_plan *plan;
    ddprt_comm *comm;
    ddprt_runtime *rt = NULL;
    struct result *r = &results[rank];
    if (ddprt_plan_from_memory(bytes, n, &plan, &r->error)) _exit(1);
    if (ddprt_comm_local(job_name, rank, size, 2000, &comm, &r->error)) _exit(2);
    r->code = ddprt_open(plan, comm, NULL, &rt, &r->error);
    if (r->code) ddprt_comm_close(comm);
    return rt;
}

/* 4 TiB on every rank cannot be had. */
static void enormous(int rank, int size) { open_one(rank, size, (int64_t)1 << 40); }
Test(local, memory_that_cannot_be_had) {
    cr_assert(run_processes(2, enormous), "%s", results[0].error.text);
    for (int r = 0; r < 2; r++) cr_assert_eq(results[r].code, DDPRT_NO_MEMORY);
}

/* Signals, as a profiler sends them, interrupt every system call while a large arena is reserved.
 */
static void nothing(int signal) { (void)signal; }
static void interrupted(int rank, int size) {
    struct sigaction act = {.sa_handler = nothing};
    struct itimerval often = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}};
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    ddprt_runtime *rt = open_one(rank, size, 32 << 20);
    if (!rt) return;
    ddprt_step_begin(rt, 0, 0, NULL);
    ddprt_ready(rt, 0);
    ddprt_step_end(rt);
    results[rank].code = ddprt_step_wait(rt, 10000, &results[rank].report);
    ddprt_close(rt);
}
Test(local, signals_do_not_matter) {
    cr_assert(run_processes(2, interrupted));
    for (int r = 0; r < 2; r++) cr_assert_eq(results[r].code, 0, "%s", results[r].error.text);
}

/* The child of a rank that forks between meeting and opening is not that rank, and when it closes
 * what it has inherited, its parent has not left. */
static void forks(int rank, int size) {
    size_t bytes;
    void *image = job_plan(PLAN_WORLD, "w0", &bytes);
    ddprt_plan *plan;
    ddprt_comm *comm;
    ddprt_runtime *rt;
    struct result *r = &results[rank];
    ddprt_plan_from_memory(image, bytes, &plan, NULL);
    r->code = ddprt_comm_local(job_name, rank, size, 5000, &comm, &r->error);
    if (r->code) return;
    pid_t child = fork();
    if (child == 0) {
        ddprt_error error;
        bool refused = ddprt_open(plan, comm, NULL, &rt, &error) == DDPRT_FORKED;
        ddprt_comm_close(comm);
        _exit(!refused);
    }
    int status;
    waitpid(child, &status, 0);
    r->code = ddprt_open(plan, comm, NULL, &rt, &r->error);
    if (r->code) return;
    step_other(rt, rank, 5000);
    ddprt_close(rt);
    if (status) _exit(1);
}
Test(local, a_fork_before_opening_is_not_the_rank) {
    cr_assert(run_processes(2, forks));
    for (int r = 0; r < 2; r++) cr_assert_eq(results[r].code, 0, "%s", results[r].error.text);
}

/* Two ranks fit into these descriptors, and the third does not. */
static void few_descriptors(int rank, int size) {
    if (rank == 0) {
        int next = dup(0);
        struct rlimit few = {(rlim_t)next + 3, (rlim_t)next + 3}; /* lock, socket, rank 1 */
        close(next);
        setrlimit(RLIMIT_NOFILE, &few);
    }
    double begin = now_ms();
    open_rank(rank, size, 3000, 0, "w0");
    results[rank].ms = now_ms() - begin;
}
Test(local, too_few_descriptors_are_said_so) {
    cr_assert(run_processes(3, few_descriptors));
    cr_assert_eq(results[0].code, DDPRT_SYSTEM, "%s", results[0].error.text);
    cr_assert_not_null(strstr(results[0].error.text, strerror(EMFILE)), "%s",
                       results[0].error.text);
    cr_assert_lt(results[0].ms, 2500);
    for (int r = 1; r < 3; r++) cr_assert_neq(results[r].code, 0);
}

Test(local, arguments) {
    ddprt_comm *comm;
    ddprt_error error;
    static const char *bad[] = {"", "a/b", "..", "a b", ".hidden"};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(ddprt_comm_local(bad[i], 0, 1, 100, &comm, &error), DDPRT_INVALID, "%s",
                     bad[i]);
    cr_assert_eq(ddprt_comm_local("x", 1, 1, 100, &comm, &error), DDPRT_INVALID);
    cr_assert_eq(ddprt_comm_local("x", 0, 0, 100, &comm, &error), DDPRT_INVALID);
    cr_assert_eq(ddprt_comm_local("x", 0, DDPRT_LOCAL_MAX + 1, 100, &comm, &error), DDPRT_INVALID);
    cr_assert_eq(ddprt_comm_local(NULL, 0, 1, 100, &comm, NULL), DDPRT_INVALID);
    ddprt_comm_close(NULL);
}
