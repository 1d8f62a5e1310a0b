/* The results of `ddpc simulate` as text and as JSON. The table has the plan first, then what it is
 * compared with, all on the same draws; below it stands in a sentence whether the plan gains
 * anything, since that is what a user wants to know before he changes anything. */
#include "simulation.h"
#include "timeline.h"
#include <string.h>

/* A difference below this part of a step is nothing that anybody would measure. */
#define NOTHING 0.001

static uint32_t ddp_or_first(const struct simulation *s) {
    for (uint32_t k = 1; k < s->n; k++)
        if (!strcmp(s->schedule[k].name, "ddp")) return k;
    return 1;
}

const char *simulate_verdict(const struct simulation *s, struct arena *a) {
    if (s->n < 2) return NULL;
    uint32_t other = ddp_or_first(s), best = 0;
    double own = s->result[0].step_us.p50, theirs = s->result[other].step_us.p50;
    const char *name = s->schedule[other].name, *text;
    for (uint32_t k = 1; k < s->n; k++)
        if (s->result[k].step_us.p50 < s->result[best].step_us.p50) best = k;
    if (!s->work.n) return "There is nothing to reduce.";
    if (theirs - own >= NOTHING * theirs)
        text = arena_printf(
            a, "The plan's step is %.1f %% shorter than that of %s: it saves %s of %s.",
            100 * (1 - own / theirs), name, timeline_time(a, theirs - own),
            timeline_time(a, theirs));
    else if (own - theirs >= NOTHING * theirs)
        text =
            arena_printf(a, "The plan gains nothing: its step is %.1f %% longer than that of %s.",
                         100 * (own / theirs - 1), name);
    else
        text = arena_printf(
            a, "The plan gains nothing against %s: the steps differ by less than %.1f %%.", name,
            100 * NOTHING);
    double least = s->result[best].step_us.p50;
    if (best != 0 && best != other && own - least >= NOTHING * least)
        text = arena_printf(a, "%s The shortest step is that of %s.", text, s->schedule[best].name);
    return text;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_conditions(const struct simulations *s, FILE *out) {
    const struct jitter *j = &s->jitter;
    tool_put(out, s->file);
    const struct topology *t = &s->at[0].work.topology;
    fprintf(out, ": %u rank%s on ", j->ranks, j->ranks == 1 ? "" : "s");
    tool_put(out, t->name);
    if (j->ranks != t->ranks) fprintf(out, " (whose collectives are of %u)", t->ranks);
    if (s->steps > 1)
        fprintf(out, ", %u steps from seed %llu", s->steps, (unsigned long long)j->seed);
    if (j->op > 0) fprintf(out, ", jitter %g %% per operation", 100 * j->op);
    if (j->rank > 0) fprintf(out, ", %g %% per rank", 100 * j->rank);
    bool alike = s->stragglers == j->ranks;
    for (uint32_t r = 1; r < j->ranks && alike; r++) alike = j->factor[r] == j->factor[0];
    if (s->stragglers && alike)
        fprintf(out, ", computing takes %g times as long", j->factor[0]);
    else if (s->stragglers)
        fprintf(out, ", %u straggler%s", s->stragglers, s->stragglers == 1 ? "" : "s");
    if (j->slow_share > 0 && j->slow_factor > 1)
        fprintf(out, ", a byte on the network %g times as long", j->slow_factor);
    if (j->slow_share > 0 && j->slow_share < 1 && j->slow_factor > 1)
        fprintf(out, " in %g %% of the steps", 100 * j->slow_share);
    if (s->steps == 1 && !s->stragglers && j->slow_factor == 1) fputs(", without jitter", out);
    fputc('\n', out);
}

static void print_schedules(const struct simulations *all, const struct simulation *s, FILE *out) {
    bool drawn = all->steps > 1;
    if (drawn)
        fprintf(out, "\n  %-14s %7s %13s %12s %16s %12s\n", "schedule", "buckets", "step p50 (us)",
                "p99", "exposed p50 (us)", "p99");
    else
        fprintf(out, "\n  %-14s %7s %13s %16s\n", "schedule", "buckets", "step (us)",
                "exposed (us)");
    for (uint32_t k = 0; k < s->n; k++) {
        const struct sim_result *r = &s->result[k];
        char name[32];
        snprintf(name, sizeof name, "%s%s", s->schedule[k].name,
                 k == 0                  ? " (the plan)"
                 : s->schedule[k].partly ? " *"
                                         : "");
        fprintf(out, "  %-18s %3u", name, r->n_buckets);
        if (drawn)
            fprintf(out, " %13.1f %12.1f %16.1f %12.1f", r->step_us.p50, r->step_us.p99,
                    r->exposed_us.p50, r->exposed_us.p99);
        else
            fprintf(out, " %13.1f %16.1f", r->step_us.p50, r->exposed_us.p50);
        double longer = k && s->work.n ? 100 * (r->step_us.p50 / s->result[0].step_us.p50 - 1) : 0;
        if (k && s->work.n)
            fprintf(out, "   %+.1f %%", longer > -0.05 && longer < 0.05 ? 0 : longer);
        fputc('\n', out);
    }
}

enum { MAX_SHOWN = 16 };

/* Bucket numbers are those of dump, where bucket 0 is the control bucket. */
static void print_buckets(const struct simulations *all, const struct simulation *s, FILE *out) {
    bool drawn = all->steps > 1;
    uint32_t n = s->schedule->n_buckets;
    if (drawn) fputs("\n  The plan's buckets, without jitter, and what was drawn:", out);
    fprintf(out, "\n  %6s %12s %12s %12s %12s %12s", "bucket", "bytes", "ready (us)", "start",
            "end", "slack");
    if (drawn) fprintf(out, " %12s %9s", "least slack", "decides");
    fputc('\n', out);
    for (uint32_t b = 0; b < n; b++) {
        const struct sim_bucket *x = &s->schedule->bucket[b];
        if (n > MAX_SHOWN && b == MAX_SHOWN / 2) {
            fprintf(out, "  and %u more, which --format=json has, until\n", n - MAX_SHOWN);
            b = n - MAX_SHOWN / 2;
        }
        x = &s->schedule->bucket[b];
        fprintf(out, "  %6u %12llu %12.1f %12.1f %12.1f %12.1f", b + 1,
                (unsigned long long)x->bytes, s->work.moment_us[x->moment], s->start_us[b],
                s->end_us[b], s->slack_us[b]);
        if (drawn)
            fprintf(out, " %12.1f %7.1f %%", s->report.least_slack_us[b],
                    100.0 * s->report.bottleneck_steps[b] / all->steps);
        fputc('\n', out);
    }
}

static void print_step(const struct simulations *all, const struct simulation *s, FILE *out) {
    struct arena a = {0};
    const struct sim_report *r = &s->report;
    fputs("\nstep ", out);
    tool_put(out, plan_string(s->plan, s->plan->step[s->step].name));
    fprintf(out, "\n  backward       %.1f µs as predicted", s->work.backward_us);
    if (r->backward_us.p99 != s->work.backward_us) {
        fprintf(out, "; of the slowest rank %.1f", r->backward_us.p50);
        if (all->steps > 1) fprintf(out, " at p50, %.1f at p99", r->backward_us.p99);
    }
    if (r->slowest_rank == JITTER_NO_RANK)
        fputs("\n  slowest rank   none: all ranks are alike\n", out);
    else if (all->steps == 1)
        fprintf(out, "\n  slowest rank   %u\n", r->slowest_rank);
    else
        fprintf(out, "\n  slowest rank   %u, the last in %u of %u steps\n", r->slowest_rank,
                r->slowest_steps, all->steps);
    print_schedules(all, s, out);
    bool partly = false;
    for (uint32_t k = 0; k < s->n; k++) partly = partly || s->schedule[k].partly;
    if (partly)
        fputs("  * each of the groups as if it had the channel for itself: there are too many to "
              "schedule together\n",
              out);
    const char *verdict = simulate_verdict(s, &a);
    if (verdict) fprintf(out, "\n  %s\n", verdict);
    if (s->work.n) print_buckets(all, s, out);
    arena_free(&a);
}

void simulate_text(const struct simulations *s, FILE *out) {
    print_conditions(s, out);
    for (uint32_t i = 0; i < s->n; i++) print_step(s, &s->at[i], out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *quantiles(struct sim_quantiles q) {
    return json_pack("{s:f, s:f}", "p50", q.p50, "p99", q.p99);
}

static json_t *step_of(const struct simulations *all, const struct simulation *s) {
    struct arena a = {0};
    const struct sim_report *r = &s->report;
    json_t *schedules = json_array(), *buckets = json_array(), *slowest = json_null();
    for (uint32_t k = 0; k < s->n; k++) {
        const struct sim_result *x = &s->result[k];
        double own = s->result[0].step_us.p50;
        json_array_append_new(
            schedules,
            json_pack("{s:s, s:b, s:i, s:o, s:o, s:o}", "name", s->schedule[k].name, "of_plan",
                      k == 0, "buckets", (int)x->n_buckets, "step_us", quantiles(x->step_us),
                      "exposed_us", quantiles(x->exposed_us), "against_plan",
                      k && own > 0 ? json_real(x->step_us.p50 / own - 1) : json_null()));
    }
    for (uint32_t b = 0; b < s->schedule->n_buckets; b++) {
        const struct sim_bucket *x = &s->schedule->bucket[b];
        json_array_append_new(
            buckets, json_pack("{s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:i}", "index", (int)b + 1,
                               "bytes", (json_int_t)x->bytes, "ready_us",
                               s->work.moment_us[x->moment], "start_us", s->start_us[b], "end_us",
                               s->end_us[b], "slack_us", s->slack_us[b], "least_slack_us",
                               r->least_slack_us[b], "decides", (int)r->bottleneck_steps[b]));
    }
    if (r->slowest_rank != JITTER_NO_RANK)
        slowest =
            json_pack("{s:i, s:i}", "rank", (int)r->slowest_rank, "steps", (int)r->slowest_steps);
    const char *verdict = simulate_verdict(s, &a);
    json_t *o =
        json_pack("{s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "name",
                  dump_name(plan_string(s->plan, s->plan->step[s->step].name)),
                  "predicted_backward_us", s->work.backward_us, "backward_us",
                  quantiles(r->backward_us), "slowest_rank", slowest, "schedules", schedules,
                  "verdict", verdict ? json_string(verdict) : json_null(), "buckets", buckets);
    (void)all;
    arena_free(&a);
    return o;
}

void simulate_json(const struct simulations *s, FILE *out) {
    const struct jitter *j = &s->jitter;
    json_t *steps = json_array(), *stragglers = json_array();
    for (uint32_t r = 0; r < j->ranks && j->factor; r++)
        if (j->factor[r] != 1)
            json_array_append_new(stragglers,
                                  json_pack("{s:i, s:f}", "rank", (int)r, "factor", j->factor[r]));
    for (uint32_t i = 0; i < s->n; i++) json_array_append_new(steps, step_of(s, &s->at[i]));
    const struct topology *t = &s->at[0].work.topology;
    json_t *root = json_pack(
        "{s:s, s:o, s:i, s:o, s:i, s:i, s:I, s:f, s:f, s:o, s:{s:f, s:f}, s:o}", "format_version",
        "1.0", "file", dump_name(s->file), "ranks", (int)j->ranks, "topology", dump_name(t->name),
        "topology_ranks", (int)t->ranks, "drawn_steps", (int)s->steps, "seed", (json_int_t)j->seed,
        "jitter", j->op, "rank_jitter", j->rank, "stragglers", stragglers, "slow_link", "share",
        j->slow_share, "factor", j->slow_factor, "steps", steps);
    json_dumpf(root, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(root);
}
