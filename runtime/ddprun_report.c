/* What came of a run, as a table for people and as JSON for programs.
 *
 * A run is verified if every rank that was to live through it ended without an error after checking
 * every element of every iteration, and there was at least one to check. Times of an iteration are
 * those of its slowest rank; over the iterations the median and the 99th percentile are shown, the
 * latter in the table only from 100 iterations on, since of fewer it is just one of the slowest. */
#include "ddprun.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct summary {
    double step_p50, step_p99, exposed_p50, exposed_p99, bookkeeping_p50, bookkeeping_p99;
    double ready_p50, ready_p99;
    uint64_t wire_bytes;
    int buckets, samples, ready_samples;
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of one measurement, given by its place in struct sample; which steps: all if step is PLAN_NONE.
 * Negative values are none. */
static int percentiles(const struct job *j, uint32_t step, size_t field, double *scratch,
                       double *p50, double *p99) {
    int n = 0, iters = j->options.iters;
    *p50 = *p99 = 0;
    for (int i = 0; i < iters; i++) {
        if (step != PLAN_NONE && job_step(j, j->options.warmup + i) != step) continue;
        double worst = -1;
        for (int r = 0; r < j->options.ranks; r++) {
            const struct sample *s = &j->sample[(size_t)r * (size_t)iters + (size_t)i];
            double x;
            memcpy(&x, (const char *)s + field, sizeof x);
            if (x > worst) worst = x;
        }
        if (worst >= 0) scratch[n++] = worst;
    }
    if (n == 0) return 0;
    qsort(scratch, (size_t)n, sizeof *scratch, ascending);
    *p50 = scratch[(n - 1) / 2];
    *p99 = scratch[(int)((n - 1) * 0.99)];
    return n;
}

static struct summary summarize(const struct job *j, uint32_t step) {
    struct summary s = {0};
    double *scratch = malloc(((size_t)j->options.iters + 1) * sizeof *scratch);
    if (!scratch) return s;
#define PERCENTILES(field, into)                                                                   \
    percentiles(j, step, offsetof(struct sample, field), scratch, &s.into##_p50, &s.into##_p99)
    s.samples = PERCENTILES(step_us, step);
    PERCENTILES(exposed_us, exposed);
    PERCENTILES(bookkeeping_us, bookkeeping);
    s.ready_samples = PERCENTILES(ready_ns, ready);
    for (int i = 0; i < j->options.iters; i++) {
        if (step != PLAN_NONE && job_step(j, j->options.warmup + i) != step) continue;
        if (j->sample[i].wire_bytes > s.wire_bytes) s.wire_bytes = j->sample[i].wire_bytes;
        if (j->sample[i].buckets > s.buckets) s.buckets = j->sample[i].buckets;
    }
    free(scratch);
    return s;
}

static double bandwidth(const struct summary *s) {
    return s->step_p50 > 0 ? (double)s->wire_bytes / s->step_p50 / 1e3 : 0; /* bytes/µs to GB/s */
}

bool report_died(const struct rank_result *r) { return !r->gone && r->exit_status != 0; }

static const char *first_problem(const struct job *j) {
    int wanted = j->options.warmup + j->options.iters;
    for (int r = 0; r < j->options.ranks; r++) {
        const struct rank_result *res = &j->result[r];
        if (report_died(res)) return "a rank died";
        if (res->gone) return "a rank was taken away";
        if (res->error.code) return "a rank failed";
        if (res->wrong[0]) return "a sum is wrong";
        if (res->iterations != wanted) return "a rank stopped early";
        if (res->checked == 0) return "nothing was verified";
    }
    return NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_table(const struct job *j, FILE *out) {
    const struct run_options *o = &j->options;
    fprintf(out, "# %s: %d ranks as %s, transport local, %d iterations after %d, compute=%s\n",
            o->plan_path, o->ranks, o->threads ? "threads" : "processes", o->iters, o->warmup,
            o->compute_plan ? "plan" : "none");
    fprintf(out, "# %-16s %8s %13s %10s %10s %11s %12s %8s %8s\n", "step", "buckets", "bytes",
            "p50 (us)", "p99 (us)", "exposed", "bookkeeping", "ready", "algbw");
    fprintf(out, "# %-16s %8s %13s %10s %10s %11s %12s %8s %8s\n", "", "", "on the wire", "", "",
            "p50 (us)", "p50 (us)", "(ns)", "(GB/s)");
    for (uint32_t k = 0; k < j->n_steps; k++) {
        uint32_t step = j->step[0] + k;
        struct summary s = summarize(j, step);
        if (!s.samples) continue;
        char ready[32] = "-", p99[32] = "-";
        if (s.samples >= 100) snprintf(p99, sizeof p99, "%.1f", s.step_p99);
        if (s.ready_samples) snprintf(ready, sizeof ready, "%.1f", s.ready_p50);
        fprintf(out, "  %-16s %8d %13llu %10.1f %10s %11.1f %12.1f %8s %8.2f\n",
                plan_string(j->plan, j->plan->step[step].name), s.buckets,
                (unsigned long long)s.wire_bytes, s.step_p50, p99, s.exposed_p50, s.bookkeeping_p50,
                ready, bandwidth(&s));
    }
}

void report_rank(const struct job *j, int rank, FILE *out) {
    const struct rank_result *r = &j->result[rank];
    if (r->gone) {
        fprintf(out, "rank %d: taken away by --fault\n", rank);
    } else if (report_died(r)) {
        if (WIFSIGNALED(r->exit_status))
            fprintf(out, "rank %d: died of signal %d\n", rank, WTERMSIG(r->exit_status));
        else
            fprintf(out, "rank %d: ended with status %d\n", rank, WEXITSTATUS(r->exit_status));
    } else if (r->error.code) {
        fprintf(out, "rank %d: %s: %s\n", rank, ddprt_code_name(r->error.code), r->error.text);
        for (int i = 0; i < r->n_errors; i++)
            if (strcmp(r->errors[i].text, r->error.text) != 0)
                fprintf(out, "rank %d:   rank %d says: %s\n", rank, r->errors[i].reporter,
                        r->errors[i].text);
    } else if (r->wrong[0]) {
        fprintf(out, "rank %d: wrong: %s\n", rank, r->wrong);
    }
}

static void print_text(const struct job *j, const char *problem, FILE *out) {
    for (int r = 0; r < j->options.ranks; r++) report_rank(j, r, stderr);
    if (problem) {
        fprintf(out, "not verified: %s\n", problem);
        return;
    }
    if (j->options.iters) print_table(j, out);
    fprintf(out,
            "verified: every one of %llu elements in %d iterations is right, on each of %d ranks\n",
            (unsigned long long)j->result[0].checked, j->options.warmup + j->options.iters,
            j->options.ranks);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_string(FILE *out, const char *s) {
    fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_number_or_null(FILE *out, const char *key, int64_t x) {
    fprintf(out, ",\"%s\":", key);
    if (x >= 0)
        fprintf(out, "%lld", (long long)x);
    else
        fputs("null", out);
}

static void put_error(const struct job *j, int rank, const ddprt_error *e, FILE *out) {
    const struct plan *p = j->plan;
    fprintf(out, "{\"rank\":%d,\"code\":\"%s\"", rank, ddprt_code_name(e->code));
    put_number_or_null(out, "fault_rank", e->rank);
    fputs(",\"step\":", out);
    if (e->step >= 0 && (uint32_t)e->step < p->n_steps)
        put_string(out, plan_string(p, p->step[e->step].name));
    else
        fputs("null", out);
    put_number_or_null(out, "sequence", e->sequence);
    fputs(",\"parameter\":", out);
    if (e->parameter >= 0 && (uint32_t)e->parameter < p->n_params)
        put_string(out, plan_param_name(p, (uint32_t)e->parameter));
    else
        fputs("null", out);
    put_number_or_null(out, "bucket", e->bucket);
    fputs(",\"text\":", out);
    put_string(out, e->text);
    fputc('}', out);
}

/* Something that the rank could not say in the runtime's words. */
static void put_plain_error(int rank, const char *code, const char *text, FILE *out) {
    fprintf(out, "{\"rank\":%d,\"code\":\"%s\",\"text\":", rank, code);
    put_string(out, text);
    fputc('}', out);
}

static void put_errors(const struct job *j, FILE *out) {
    const char *comma = "";
    for (int r = 0; r < j->options.ranks; r++) {
        const struct rank_result *res = &j->result[r];
        bool gone = res->gone || report_died(res);
        if (!gone && !res->error.code && !res->wrong[0]) continue;
        fputs(comma, out);
        comma = ",";
        if (gone)
            put_plain_error(r, "gone", res->gone ? "taken away by --fault" : "the process died",
                            out);
        else if (res->error.code)
            put_error(j, r, &res->error, out);
        else
            put_plain_error(r, "wrong", res->wrong, out);
    }
}

static void print_json(const struct job *j, const char *problem, FILE *out) {
    struct summary s = {0};
    if (!problem) s = summarize(j, PLAN_NONE);
    fprintf(out,
            "{\"format_version\":\"1.0\",\"verified\":%s,\"ranks\":%d,\"transport\":\"local\","
            "\"iterations\":%d",
            problem ? "false" : "true", j->options.ranks, s.samples);
    fprintf(out, ",\"step_us\":{\"p50\":%.3f,\"p99\":%.3f}", s.step_p50, s.step_p99);
    fprintf(out, ",\"exposed_us\":{\"p50\":%.3f,\"p99\":%.3f}", s.exposed_p50, s.exposed_p99);
    fprintf(out, ",\"bookkeeping_us\":{\"p50\":%.3f,\"p99\":%.3f}", s.bookkeeping_p50,
            s.bookkeeping_p99);
    if (s.ready_samples)
        fprintf(out, ",\"ready_ns\":{\"p50\":%.1f,\"p99\":%.1f}", s.ready_p50, s.ready_p99);
    else
        fputs(",\"ready_ns\":{\"p50\":null,\"p99\":null}", out);
    fprintf(out, ",\"wire_bytes\":%llu,\"algbw_gb_s\":%.3f", (unsigned long long)s.wire_bytes,
            bandwidth(&s));
    uint64_t checked = 0;
    for (int r = 0; r < j->options.ranks; r++) checked += j->result[r].checked;
    fprintf(out, ",\"checked_elements\":%llu,\"problem\":", (unsigned long long)checked);
    if (problem)
        put_string(out, problem);
    else
        fputs("null", out);
    fputs(",\"errors\":[", out);
    put_errors(j, out);
    fputs("]}\n", out);
}

bool report_print(const struct job *j, FILE *out) {
    const char *problem = first_problem(j);
    if (j->options.json)
        print_json(j, problem, out);
    else
        print_text(j, problem, out);
    return !problem;
}
