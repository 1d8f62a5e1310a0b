/* ddprun's command line: a table of flags that is also the help. */
#include "ddprun.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: ddprun PLAN [-n RANKS] [flags]\n"
    "       ddprun --calibrate=FILE [-n RANKS] [flags]\n"
    "\n"
    "Runs a reduction plan on this machine with made-up gradients of whole numbers, and checks "
    "every\n"
    "element of every sum on every rank.\n"
    "\n"
    "  -n, --ranks=N       how many ranks; default 2, at most 64\n"
    "  --transport=local   shared memory of one host, the default\n"
    "  --threads           ranks are threads of one process instead of processes\n"
    "  --iters=N           measured iterations; default 20\n"
    "  --warmup=N          iterations before them, checked but not measured; default 5\n"
    "  --step=NAME         one step of the plan instead of all in turn\n"
    "  --compute=none      report all gradients at once, the default\n"
    "  --compute=plan      wait before each gradient until the plan predicts it\n"
    "  --timeout-ms=N      how long a rank waits for the others; default 10000\n"
    "  --fault=KIND:RANK@ITERATION[:PARAMETER]\n"
    "                      make one rank fail, counting iterations from 0 and the warm-up too:\n"
    "                      kill (it dies), stall (it sleeps past the deadline), skip (it withholds "
    "a\n"
    "                      gradient), extra (it has one that cannot exist), twice (it reports one\n"
    "                      twice), corrupt-plan (it runs another plan)\n"
    "  --calibrate=FILE    no plan: measure all-reduces of 1 KiB to 64 MiB, and write what they "
    "cost as a\n"
    "                      file for ddpc --topology; - is standard output\n"
    "  --format=text|json  how to report; default text\n"
    "  -h, --help          this text\n"
    "  --version           which version this is\n"
    "\n"
    "Exit: 0 verified; 1 an error, or nothing was verified; 2 usage, or the plan cannot be read.\n";

static const struct {
    const char *name;
    enum fault_kind kind;
} faults[] = {
    {"kill", FAULT_KILL},   {"stall", FAULT_STALL}, {"skip", FAULT_SKIP},
    {"extra", FAULT_EXTRA}, {"twice", FAULT_TWICE}, {"corrupt-plan", FAULT_CORRUPT},
};

static bool number(const char *text, int low, int high, int *out) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < low || n > high) return false;
    *out = (int)n;
    return true;
}

static bool read_number(const char *flag, const char *text, int low, int high, int *out) {
    if (number(text, low, high, out)) return true;
    fprintf(stderr, "ddprun: %s: \"%s\" is not a number from %d to %d\n", flag, text, low, high);
    return false;
}

static bool read_fault(struct run_options *o, const char *text) {
    const char *colon = strchr(text, ':'), *at = colon ? strchr(colon, '@') : NULL;
    char rank[16], iteration[16];
    for (size_t i = 0; at && i < sizeof faults / sizeof *faults; i++)
        if (strlen(faults[i].name) == (size_t)(colon - text) &&
            !strncmp(faults[i].name, text, (size_t)(colon - text)))
            o->fault = faults[i].kind;
    if (o->fault != FAULT_NONE) {
        const char *param = strchr(at, ':');
        size_t n = param ? (size_t)(param - at - 1) : strlen(at + 1);
        snprintf(rank, sizeof rank, "%.*s", (int)(at - colon - 1), colon + 1);
        snprintf(iteration, sizeof iteration, "%.*s", (int)n, at + 1);
        if (param) snprintf(o->fault_param, sizeof o->fault_param, "%s", param + 1);
        if (number(rank, 0, DDPRT_LOCAL_MAX - 1, &o->fault_rank) &&
            number(iteration, 0, INT_MAX, &o->fault_iteration))
            return true;
    }
    fprintf(stderr,
            "ddprun: --fault: \"%s\" is not KIND:RANK@ITERATION[:PARAMETER] with one of the kinds "
            "kill, stall, skip, extra, twice, corrupt-plan\n",
            text);
    return false;
}

/* One of two words. */
static bool read_choice(const char *flag, const char *text, const char *no, const char *yes,
                        bool *out) {
    *out = !strcmp(text, yes);
    if (*out || !strcmp(text, no)) return true;
    fprintf(stderr, "ddprun: %s: \"%s\" is neither %s nor %s\n", flag, text, no, yes);
    return false;
}

static bool read_transport(const char *text) {
    if (!strcmp(text, "local")) return true;
    if (!strcmp(text, "mpi") || !strcmp(text, "nccl"))
        fprintf(stderr, "ddprun: this build has no transport %s, only local\n", text);
    else
        fprintf(stderr, "ddprun: --transport: \"%s\" is not local\n", text);
    return false;
}

static bool read_flag(struct run_options *o, const char *flag, const char *value) {
    if (!strcmp(flag, "-n") || !strcmp(flag, "--ranks"))
        return read_number(flag, value, 1, DDPRT_LOCAL_MAX, &o->ranks);
    if (!strcmp(flag, "--iters")) return read_number(flag, value, 0, 10000000, &o->iters);
    if (!strcmp(flag, "--warmup")) return read_number(flag, value, 0, 10000000, &o->warmup);
    if (!strcmp(flag, "--timeout-ms"))
        return read_number(flag, value, 1, INT_MAX / 2, &o->timeout_ms);
    if (!strcmp(flag, "--transport")) return read_transport(value);
    if (!strcmp(flag, "--fault")) return read_fault(o, value);
    if (!strcmp(flag, "--compute"))
        return read_choice(flag, value, "none", "plan", &o->compute_plan);
    if (!strcmp(flag, "--format")) return read_choice(flag, value, "text", "json", &o->json);
    if (!strcmp(flag, "--calibrate")) {
        o->calibrate = value;
        return true;
    }
    if (!strcmp(flag, "--step")) {
        o->step = value;
        return true;
    }
    return false;
}

/* The flags that take a value; the rest are beside them in options_read. */
static const char *const with_value[] = {"--ranks",     "--iters",     "--warmup",  "--timeout-ms",
                                         "--transport", "--fault",     "--compute", "--format",
                                         "--step",      "--calibrate", "-n"};
static const char *const alone[] = {"--threads", "--version", "--help", "-h"};
enum {
    N_WITH_VALUE = sizeof with_value / sizeof *with_value,
    N_ALONE = sizeof alone / sizeof *alone
};

static bool is_known(const char *flag) {
    for (size_t i = 0; i < N_WITH_VALUE; i++)
        if (!strcmp(flag, with_value[i])) return true;
    return false;
}

/* How many letters to insert, delete or change (Wagner and Fischer 1974, one row at a time). */
static size_t edit_distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    size_t row[LONGEST + 1], n = strlen(b);
    if (n > LONGEST) return LONGEST;
    for (size_t k = 0; k <= n; k++) row[k] = k;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            size_t change = diagonal + (a[i - 1] != b[k - 1]);
            diagonal = row[k];
            size_t other = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            row[k] = change < other ? change : other;
        }
    }
    return row[n];
}

static void refuse_flag(const char *flag) {
    const char *near = NULL;
    size_t least = 3; /* two swapped letters are two changes */
    for (size_t i = 0; i < N_WITH_VALUE + N_ALONE; i++) {
        const char *known = i < N_WITH_VALUE ? with_value[i] : alone[i - N_WITH_VALUE];
        size_t far = strlen(known) > 2 ? edit_distance(flag, known) : least;
        if (far < least) {
            near = known;
            least = far;
        }
    }
    if (least == 0)
        fprintf(stderr, "ddprun: %s takes no value\n", flag);
    else if (near)
        fprintf(stderr, "ddprun: there is no flag %s; did you mean %s?\n", flag, near);
    else
        fprintf(stderr, "ddprun: there is no flag %s; see ddprun --help\n", flag);
}

/* Nothing that is about a plan. */
static bool fits_calibration(const struct run_options *o) {
    const char *of_plan = o->plan_path             ? o->plan_path
                          : o->step                ? "--step"
                          : o->fault != FAULT_NONE ? "--fault"
                          : o->compute_plan        ? "--compute=plan"
                          : o->json                ? "--format=json"
                                                   : NULL;
    if (of_plan)
        fprintf(stderr, "ddprun: --calibrate runs no plan; leave out %s\n", of_plan);
    else if (o->ranks < 2 || o->iters < 1)
        fprintf(stderr, "ddprun: --calibrate needs at least %s\n",
                o->ranks < 2 ? "two ranks: -n 2" : "one measurement: --iters 1");
    else
        return true;
    return false;
}

bool options_read(struct run_options *o, int argc, char **argv, int *exit_code) {
    *o = (struct run_options){.ranks = 2, .iters = 20, .warmup = 5, .timeout_ms = 10000};
    *exit_code = EXIT_USAGE;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
            fputs(usage, stdout);
            *exit_code = 0;
            return false;
        }
        if (!strcmp(a, "--version")) {
            puts("ddprun " DDPRUN_VERSION);
            *exit_code = 0;
            return false;
        }
        if (!strcmp(a, "--threads")) {
            o->threads = true;
        } else if (a[0] == '-' && a[1]) {
            char flag[32];
            const char *equals = strchr(a, '=');
            size_t n = equals ? (size_t)(equals - a) : strlen(a);
            snprintf(flag, sizeof flag, "%.*s", n < sizeof flag ? (int)n : (int)sizeof flag, a);
            if (!is_known(flag)) {
                refuse_flag(flag);
                return false;
            }
            const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : "";
            if (!*value) {
                fprintf(stderr, "ddprun: %s needs a value; see ddprun --help\n", flag);
                return false;
            }
            if (!read_flag(o, flag, value)) return false;
        } else if (o->plan_path) {
            fprintf(stderr, "ddprun: two plans, %s and %s\n", o->plan_path, a);
            return false;
        } else {
            o->plan_path = a;
        }
    }
    if (o->calibrate) return fits_calibration(o);
    if (!o->plan_path) {
        fputs(usage, stderr);
        return false;
    }
    if (o->fault != FAULT_NONE && o->fault_rank >= o->ranks) {
        fprintf(stderr, "ddprun: --fault: there is no rank %d among %d\n", o->fault_rank, o->ranks);
        return false;
    }
    if (o->fault != FAULT_NONE && o->fault_iteration >= o->warmup + o->iters) {
        fprintf(stderr, "ddprun: --fault: iteration %d is never reached, there are %d\n",
                o->fault_iteration, o->warmup + o->iters);
        return false;
    }
    return true;
}
