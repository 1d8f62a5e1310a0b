/* Calibration: what an all-reduce costs on the transport at hand, as a topology file for ddpc.
 *
 * Ranks meet, reduce a size, and note how long it took; of a measurement the slowest rank counts, of
 * a size the median, so that what else the machine does now and then does not matter. Sizes are
 * powers of two. What a size costs is at most what a larger one does, since a bucket could be
 * padded; to that at most three pieces are fitted (pieces.c). How near they came is in the file.
 *
 * A plan's buckets are reduced by the runtime's communication thread; here the rank calls the
 * transport itself, so that what is measured is the transport alone. Each measurement is at another
 * place of a large memory: in a step a bucket is reduced once, and is not in the caches from the
 * last time. */
#define _GNU_SOURCE
#include "ddprun.h"

#include "comm.h"
#include "futex.h"
#include "pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALLEST = 1 << 10, MOST_PIECES = 3, ARENA = 128 << 20, PAGE = 4096 };
static uint64_t size_at(uint32_t size) { return (uint64_t)SMALLEST << size; }

/* ---- measuring ------------------------------------------------------------------------------- */

static double *took(const struct job *j, int rank, uint32_t size, int iteration) {
    size_t at = (size_t)rank * CALIBRATE_SIZES + size;
    return &j->took_us[at * (size_t)j->options.iters + (size_t)iteration];
}

static int64_t deadline(const struct job *j) {
    return clock_ns() + (int64_t)j->options.timeout_ms * 1000000;
}

/* Where the n-th measurement is: a multiplicative walk over the pages that leave room for it. */
static uint64_t place_of(uint64_t n, uint64_t bytes) {
    uint64_t pages = (ARENA - bytes) / PAGE + 1;
    return n * UINT64_C(2654435761) % pages * PAGE;
}

/* 0, or the code of what failed. */
static int measure(const struct job *j, ddprt_comm *comm, struct comm_record *failure) {
    uint64_t all[DDPRT_LOCAL_MAX], sequence = 0;
    void *memory;
    int code = comm->ops->map(comm, ARENA, &memory, deadline(j), failure);
    if (!code) memset(memory, 0, ARENA); /* so that every page is there */
    for (uint32_t size = 0; size < CALIBRATE_SIZES; size++)
        for (int i = -j->options.warmup; i < j->options.iters && !code; i++) {
            struct comm_op op = {.bytes = size_at(size),
                                 .dtype = PLAN_FLOAT32,
                                 .scale = 1,
                                 .bucket = size,
                                 .sequence = ++sequence};
            op.offset = place_of(sequence, op.bytes);
            code = comm->ops->gather(comm, &sequence, sizeof sequence, all, deadline(j), failure);
            if (code) return code;
            int64_t begin = clock_ns();
            code = comm->ops->allreduce(comm, &op, failure);
            if (i >= 0) *took(j, comm->rank, size, i) = (double)(clock_ns() - begin) / 1e3;
        }
    return code;
}

void calibrate_rank(struct job *j, int rank) {
    ddprt_comm *comm;
    ddprt_error *error = &j->result[rank].error;
    struct comm_record failure = COMM_RECORD_NONE;
    int ranks = j->options.ranks;
    if (ddprt_comm_local(j->name, rank, ranks, j->options.timeout_ms, &comm, error)) return;
    int code = measure(j, comm, &failure);
    if (code) {
        error->code = code;
        error->rank = failure.rank;
        snprintf(error->text, sizeof error->text, "the all-reduces ended early%s",
                 failure.rank >= 0 ? ": a rank is gone or stands still" : "");
    } else {
        j->result[rank].iterations = j->options.iters;
    }
    ddprt_comm_close(comm);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the slowest rank's times; scratch has room for all. */
static double median_of(const struct job *j, uint32_t size, double *scratch) {
    for (int i = 0; i < j->options.iters; i++) {
        scratch[i] = 0;
        for (int r = 0; r < j->options.ranks; r++)
            if (*took(j, r, size, i) > scratch[i]) scratch[i] = *took(j, r, size, i);
    }
    qsort(scratch, (size_t)j->options.iters, sizeof *scratch, ascending);
    return scratch[(j->options.iters - 1) / 2];
}

static double farthest(const struct cost_point *measured, const struct plan_piece *piece,
                       uint32_t n) {
    double worst = 1;
    for (uint32_t s = 0; s < CALIBRATE_SIZES; s++) {
        double us = pieces_us(piece, n, measured[s].bytes), ratio = us / measured[s].us;
        if (ratio < 1) ratio = 1 / ratio;
        if (ratio > worst) worst = ratio;
    }
    return worst - 1;
}

static void print_file(const struct job *j, const struct cost_point *measured, FILE *out) {
    struct cost_point point[CALIBRATE_SIZES];
    struct plan_piece piece[MOST_PIECES];
    double error;
    memcpy(point, measured, sizeof point);
    pieces_monotone(point, CALIBRATE_SIZES);
    uint32_t n = pieces_fit(point, CALIBRATE_SIZES, MOST_PIECES, .05, piece, &error);
    const struct run_options *o = &j->options;
    fprintf(
        out,
        "# All-reduces of float32 between %d ranks, %s of one host with %ld processors, over\n"
        "# transport local: medians of %d measurements after %d, of the slowest rank each time.\n"
        "# The pieces are within %.1f %% of every median:\n"
        "#    bytes    median us    pieces us\n",
        o->ranks, o->threads ? "threads" : "processes", sysconf(_SC_NPROCESSORS_ONLN), o->iters,
        o->warmup, 100 * farthest(measured, piece, n));
    for (uint32_t s = 0; s < CALIBRATE_SIZES; s++)
        fprintf(out, "# %8.0f %12.2f %12.2f\n", measured[s].bytes, measured[s].us,
                pieces_us(piece, n, measured[s].bytes));
    fprintf(out, "name = local-%d\nranks = %d\n", o->ranks, o->ranks);
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "piece = %.6g %.6g\n", piece[i].alpha_us, 1 / (1000 * piece[i].us_per_byte));
}

/* The file appears by a rename, once it is whole. */
static bool write_file(const struct job *j, const struct cost_point *measured, const char *path) {
    char temporary[4096];
    struct stat is;
    if (!strcmp(path, "-")) {
        print_file(j, measured, stdout);
        return fflush(stdout) == 0;
    }
    bool in_place = stat(path, &is) == 0 && !S_ISREG(is.st_mode); /* /dev/stdout, a pipe */
    int length = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = -1;
    FILE *out = NULL;
    errno = ENAMETOOLONG;
    if (in_place)
        out = fopen(path, "w");
    else if (length < (int)sizeof temporary && (fd = mkstemp(temporary)) >= 0)
        out = fdopen(fd, "w");
    if (!out) return false;
    print_file(j, measured, out);
    bool ok = !ferror(out);
    ok = fclose(out) == 0 && ok;
    if (in_place) return ok;
    mode_t mask = umask(0); /* mkstemp's file is private */
    umask(mask);
    ok = ok && chmod(temporary, 0666 & ~mask) == 0 && rename(temporary, path) == 0;
    if (!ok) unlink(temporary);
    return ok;
}

bool calibrate_write(const struct job *j) {
    bool complete = true;
    for (int r = 0; r < j->options.ranks; r++) {
        report_rank(j, r, stderr);
        complete = complete && !report_died(&j->result[r]) && j->result[r].iterations;
    }
    if (!complete) {
        fprintf(stderr, "ddprun: not calibrated: a rank failed\n");
        return false;
    }
    struct cost_point measured[CALIBRATE_SIZES];
    double *scratch = malloc((size_t)j->options.iters * sizeof *scratch);
    bool ok = scratch != NULL;
    for (uint32_t s = 0; s < CALIBRATE_SIZES && ok; s++)
        measured[s] = (struct cost_point){(double)size_at(s), median_of(j, s, scratch)};
    ok = ok && write_file(j, measured, j->options.calibrate);
    if (!ok)
        fprintf(stderr, "ddprun: cannot write %s: %s\n", j->options.calibrate, strerror(errno));
    free(scratch);
    return ok;
}
