/* `ddpc simulate`: what a step takes on many ranks that are not all equally fast, under a plan and
 * under other systems' buckets.
 *
 * The input is a plan or, told apart by its first bytes, a model, which is then compiled. Either
 * way everything comes from the plan: ready times, bytes, groups, the cost of a collective
 * (simulate_plan.c). This file reads the flags and hands the results to one of the forms. Without
 * jitter, stragglers or a slow network every step is the same, so one is enough, and it ends when
 * the plan says. */
#define _POSIX_C_SOURCE 200809L
#include "args.h"
#include "simulation.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_STEPS = 1000000, DEFAULT_STEPS = 1000 };

/* ---- flags ----------------------------------------------------------------------------------- */

/* "NUMBER:FACTOR" or "NUMBER%:FACTOR"; in the latter case *share is set to the part, else negative.
 */
static bool read_factor(const char *text, double *number, double *share, double *factor) {
    const char *colon = strchr(text, ':');
    if (!colon || colon == text) return false;
    bool percent = colon[-1] == '%';
    *share = -1;
    if (!keyfile_number(text, (size_t)(colon - text) - percent, number) ||
        !keyfile_number(colon + 1, strlen(colon + 1), factor) || *factor < 0.01 || *factor > 100)
        return false;
    if (percent) *share = *number / 100;
    return !percent || (*number > 0 && *number <= 100);
}

static bool read_stragglers(struct tool *t, struct simulations *s) {
    const string_list *flags = &t->simulate.straggler;
    if (!flags->n) return true;
    double *factor = arena_new(&t->arena, double, s->jitter.ranks);
    bool *chosen = arena_new(&t->arena, bool, s->jitter.ranks);
    for (uint32_t r = 0; r < s->jitter.ranks; r++) factor[r] = 1;
    for (uint32_t i = 0; i < flags->n; i++) {
        double number, share, by;
        if (!read_factor(flags->at[i], &number, &share, &by)) {
            tool_usage_error(t,
                             "--straggler takes RANK:FACTOR or PERCENT%%:FACTOR with a factor from "
                             "0.01 to 100, as 3:1.5 or 1%%:1.2, not '%s'",
                             flags->at[i]);
            return false;
        }
        if (share < 0 && !(number < s->jitter.ranks && number == (double)(uint32_t)number)) {
            tool_usage_error(t, "--straggler: there is no rank %.*s, only 0 to %u",
                             (int)strcspn(flags->at[i], ":"), flags->at[i], s->jitter.ranks - 1);
            return false;
        }
        if (share < 0) {
            factor[(uint32_t)number] *= by;
            continue;
        }
        uint32_t count = (uint32_t)(share * s->jitter.ranks + .5);
        jitter_choose(s->jitter.seed + i, s->jitter.ranks, count ? count : 1, chosen);
        for (uint32_t r = 0; r < s->jitter.ranks; r++)
            if (chosen[r]) factor[r] *= by;
    }
    for (uint32_t r = 0; r < s->jitter.ranks; r++) s->stragglers += factor[r] != 1;
    s->jitter.factor = factor;
    return true;
}

static bool read_flags(struct tool *t, uint32_t topology_ranks, struct simulations *s) {
    const struct simulate_flags *f = &t->simulate;
    uint32_t ranks = f->ranks ? (uint32_t)f->ranks : topology_ranks;
    if (ranks > JITTER_MAX_RANKS) {
        tool_usage_error(t, "%u ranks are too many to simulate; --ranks takes up to %d", ranks,
                         JITTER_MAX_RANKS);
        return false;
    }
    if (f->jitter > 100 * JITTER_MAX_OP || f->rank_jitter > 100 * JITTER_MAX_RANK) {
        tool_usage_error(
            t,
            "--jitter goes up to %g %% and --rank-jitter up to %g %%: beyond that, times "
            "could become negative",
            100 * JITTER_MAX_OP, 100 * JITTER_MAX_RANK);
        return false;
    }
    if (f->steps > MAX_STEPS) {
        tool_usage_error(t, "--steps takes up to %d, not %d", MAX_STEPS, f->steps);
        return false;
    }
    s->jitter = (struct jitter){.seed = f->seed ? (uint64_t)f->seed : 1,
                                .ranks = ranks ? ranks : 1,
                                .op = f->jitter / 100,
                                .rank = f->rank_jitter / 100,
                                .slow_factor = 1};
    if (f->slow_link) {
        double number, share, factor;
        if (keyfile_number(f->slow_link, strlen(f->slow_link), &factor))
            share = 1;
        else if (!read_factor(f->slow_link, &number, &share, &factor) || share < 0)
            factor = 0;
        if (!(factor >= 1 && factor <= 1000)) {
            tool_usage_error(
                t,
                "--slow-link takes FACTOR or PERCENT%%:FACTOR with a factor from 1, as 2 "
                "or 5%%:4, not '%s'",
                f->slow_link);
            return false;
        }
        s->jitter.slow_share = share;
        s->jitter.slow_factor = factor;
    }
    if (!read_stragglers(t, s)) return false;
    bool random = s->jitter.op > 0 || s->jitter.rank > 0 ||
                  (s->jitter.slow_share > 0 && s->jitter.slow_share < 1);
    s->steps = f->steps ? (uint32_t)f->steps : random ? DEFAULT_STEPS : 1;
    return true;
}

/* The rules of --against in order, each once. Returns their number, -1 after an error. */
static int read_against(const struct tool *t, enum sim_rule rules[SIM_N_RULES]) {
    static const char choices[] = ""
#define RULE(id, name) name " "
        SIM_RULES(RULE)
#undef RULE
        ;
    char text[sizeof choices];
    memcpy(text, choices, sizeof text);
    text[sizeof text - 2] = 0; /* the last blank */
    int n = 0;
    for (uint32_t i = 0; i < t->simulate.against.n; i++) {
        int rule = tool_choice(t, "against", t->simulate.against.at[i], text);
        if (rule < 0) return -1;
        int k = 0;
        while (k < n && rules[k] != (enum sim_rule)rule) k++;
        rules[k] = (enum sim_rule)rule;
        n += k == n;
    }
    return n;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Standard input as a file that can be read twice. */
static bool rewind_stdin(void) {
    if (lseek(STDIN_FILENO, 0, SEEK_CUR) >= 0) return true;
    char bytes[65536];
    FILE *copy = tmpfile();
    if (!copy) return false;
    for (ssize_t n; (n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0;)
        fwrite(bytes, 1, (size_t)n, copy);
    bool ok = fflush(copy) == 0 && !ferror(copy) && lseek(fileno(copy), 0, SEEK_SET) == 0 &&
              dup2(fileno(copy), STDIN_FILENO) >= 0;
    fclose(copy);
    return ok;
}

static bool is_plan(const char *path) {
    bool standard = strcmp(path, "-") == 0;
    char magic[sizeof PLAN_MAGIC - 1];
    if (standard && !rewind_stdin()) return false;
    FILE *file = fopen(standard ? "/dev/stdin" : path, "rb");
    size_t n = file ? fread(magic, 1, sizeof magic, file) : 0;
    if (file) fclose(file);
    return n == sizeof magic && !memcmp(magic, PLAN_MAGIC, sizeof magic);
}

/* A plan was compiled with what these flags say. */
static bool only_topology(const struct tool *t) {
    for (size_t i = 0; i < args_n_flags; i++) {
        const struct flag *f = &args_flags[i];
        static const struct tool none;
        size_t size = f->kind == FLAG_LIST || f->kind == FLAG_COMMAS ? sizeof(string_list)
                      : f->kind == FLAG_STRING                       ? sizeof(char *)
                      : f->kind == FLAG_NUMBER                       ? sizeof(double)
                      : f->kind == FLAG_SET                          ? sizeof(bool)
                                                                     : sizeof(int);
        if (!(f->group & (F_MODEL | F_SCHEDULE)) || !strcmp(f->name, "topology") ||
            !memcmp((const char *)t + f->field, (const char *)&none + f->field, size))
            continue;
        tool_usage_error(t, "--%s is for models; what a plan was compiled with stands in it",
                         f->name);
        return false;
    }
    return true;
}

/* Times of a few days: beyond them sums of floats mean nothing. What ddpc plans is far below, but
 * the format allows it. */
#define MAX_US 1e12

static bool can_be_simulated(const struct tool *t, const struct plan *p) {
    double us = 0;
    bool costs = true;
    for (uint32_t i = 0; i < p->n_segments; i++)
        if (p->segment[i].ready_us > us) us = p->segment[i].ready_us;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (p->step[i].backward_us > us) us = p->step[i].backward_us;
        costs = costs && p->certificate[i].n_pieces <= TOPOLOGY_MAX_PIECES;
    }
    for (uint32_t i = 0; i < p->n_pieces; i++)
        costs = costs && p->piece[i].alpha_us <= MAX_US && p->piece[i].us_per_byte <= 1e6;
    if (us > MAX_US)
        tool_usage_error(t,
                         "a backward pass of %g µs is too long to simulate; up to %g are possible",
                         us, MAX_US);
    else if (!costs && !t->options.topology)
        tool_usage_error(
            t, "the plan's own costs of a collective cannot be simulated; name a --topology");
    return us <= MAX_US && (costs || t->options.topology);
}

/* --topology's, or the plan's own, of its first step. */
static bool read_topology(struct tool *t, const struct plan *p, struct topology *out) {
    if (!t->options.topology) {
        *out = simulate_topology(p, 0);
        return true;
    }
    struct diags d;
    diags_init(&d, NULL);
    bool ok = topology_read(out, t->options.topology, &d);
    tool_print_diags(t, &d);
    diags_free(&d);
    return ok;
}

static int write_forms(struct tool *t, const struct simulations *s, int format) {
    void (*const forms[])(const struct simulations *, FILE *) = {simulate_text, simulate_json,
                                                                 simulate_svg, simulate_trace};
    struct tool_output o;
    FILE *out = tool_output_open(t, &o, t->output);
    if (!out) return TOOL_USAGE;
    forms[format](s, out);
    return tool_output_close(&o, true) ? TOOL_OK : TOOL_USAGE;
}

static int simulate_and_write(struct tool *t, const struct plan *p, const char *file, int format) {
    enum sim_rule rules[SIM_N_RULES];
    int against = read_against(t, rules);
    struct topology topology;
    if (against < 0 || !can_be_simulated(t, p) || !read_topology(t, p, &topology))
        return TOOL_USAGE;
    struct simulations s = {.file = file};
    if (!read_flags(t, topology.ranks, &s)) return TOOL_USAGE;
    simulate_plan(&s, p, t->options.topology ? &topology : NULL, rules, (uint32_t)against,
                  &t->arena);
    return write_forms(t, &s, format);
}

int tool_simulate(struct tool *t) {
    int format = tool_format(t), exit_code = TOOL_USAGE;
    if (format < 0) return TOOL_USAGE;
    const char *file = t->options.from_list ? t->options.from_list : t->args.at[0];
    if (!t->options.from_list && is_plan(file)) {
        if (!only_topology(t)) return TOOL_USAGE;
        struct plan *p = tool_open_plan(t, file);
        if (p) exit_code = simulate_and_write(t, p, file, format);
        plan_close(p);
        return exit_code;
    }
    struct compilation c;
    exit_code = tool_run_pipeline(t, &c, PIPELINE_emit);
    if (exit_code == TOOL_OK) exit_code = simulate_and_write(t, c.plan, file, format);
    pipeline_free(&c);
    return exit_code;
}
