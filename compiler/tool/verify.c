/* `ddpc verify`: is this plan what it claims to be?
 *
 * Opening it has checked the structure: every offset, range and back reference (runtime/plan). What
 * is left are the claims (compiler/claims.c): its times, and how good its schedule is. This file
 * prints what came of them, and the bottleneck: the gradient from whose moment on the channel never
 * rests, which is why no reordering behind it can help.
 *
 * Exit 0: everything claimed holds. 1: a claim is refuted. 2: the file cannot be read or is
 * corrupt. */
#include "claims.h"
#include "plan_tool.h"

static const char *verdict_name(enum certificate_verdict v) {
    return v == CERTIFICATE_PROVED ? "proved" : v == CERTIFICATE_REPLAYED ? "replayed" : "refuted";
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *chain_param(const struct plan *p, uint32_t step, const struct claims *c) {
    return plan_param_name(p, p->segment[p->step[step].first_segment + c->report.chain_item].param);
}

/* Bucket numbers are those of dump, where bucket 0 is the control bucket. */
static void print_chain(const struct plan *p, uint32_t step, const struct claims *c) {
    enum { MAX_SHOWN = 6 };
    const struct certificate_report *r = &c->report;
    const struct certificate_bucket *b = c->certificate.bucket;
    uint32_t n = c->certificate.n_buckets - r->chain_bucket;
    fputs("  bottleneck   ", stdout);
    tool_put(stdout, chain_param(p, step, c));
    printf(", ready at %.3f µs; from there the channel is never idle:\n",
           c->certificate.item[r->chain_item].ready_us);
    for (uint32_t i = r->chain_bucket; i < c->certificate.n_buckets; i++) {
        if (n > MAX_SHOWN && i - r->chain_bucket == MAX_SHOWN - 1 &&
            i + 1 < c->certificate.n_buckets) {
            printf("               and %u buckets more, until\n", n - MAX_SHOWN);
            i = c->certificate.n_buckets - 1;
        }
        printf("               bucket %u, %.3f to %.3f µs\n", i + 1, b[i].start_us, b[i].end_us);
    }
}

static void print_text(const struct plan *p, const struct claims *checks) {
    uint64_t arena_bytes = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) arena_bytes += p->step[i].arena_bytes;
    printf("structure      sound: %u parameter%s, %u step%s, %u buckets, %llu bytes of arena\n",
           p->n_params, p->n_params == 1 ? "" : "s", p->n_steps, p->n_steps == 1 ? "" : "s",
           p->n_buckets, (unsigned long long)arena_bytes);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct plan_step *s = &p->step[i];
        const struct certificate_report *r = &checks[i].report;
        fputs("\nstep ", stdout);
        tool_put(stdout, plan_string(p, s->name));
        printf("\n  certificate  %s: %s\n", verdict_name(r->verdict), r->what);
        if (r->verdict == CERTIFICATE_REFUSED) continue;
        printf("  finish       %.3f µs", s->finish_us);
        if (r->verdict == CERTIFICATE_PROVED) printf(", optimum %.3f µs", r->optimum_us);
        printf("\n  lower bound  %.3f µs, gap to the %s %.3f %%\n", r->lower_bound_us,
               r->verdict == CERTIFICATE_PROVED ? "optimum" : "lower bound", 100 * r->gap);
        if (r->worst_regret >= 0)
            printf("  worst regret %.3f %%, where predictions are off\n", 100 * r->worst_regret);
        if (s->n_segments) print_chain(p, i, &checks[i]);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *step_of(const struct plan *p, uint32_t step, const struct claims *c) {
    const struct certificate_report *r = &c->report;
    json_t *o =
        json_pack("{s:o, s:s, s:s, s:f}", "name", dump_name(plan_string(p, p->step[step].name)),
                  "certificate", verdict_name(r->verdict), "what", r->what, "predicted_finish_us",
                  p->step[step].finish_us);
    if (r->verdict == CERTIFICATE_REFUSED) return o;
    json_object_set_new(o, "lower_bound_us", json_real(r->lower_bound_us));
    json_object_set_new(o, "optimum_us",
                        r->verdict == CERTIFICATE_PROVED ? json_real(r->optimum_us) : json_null());
    json_object_set_new(o, "gap", json_real(r->gap));
    json_object_set_new(o, "worst_regret",
                        r->worst_regret < 0 ? json_null() : json_real(r->worst_regret));
    json_t *chain = json_null();
    if (p->step[step].n_segments)
        chain = json_pack("{s:o, s:i, s:f}", "parameter", dump_name(chain_param(p, step, c)),
                          "bucket", (int)r->chain_bucket + 1, "ready_us",
                          c->certificate.item[r->chain_item].ready_us);
    json_object_set_new(o, "bottleneck", chain);
    return o;
}

static void print_json(const struct plan *p, const struct claims *checks, bool sound) {
    json_t *steps = json_array();
    for (uint32_t i = 0; i < p->n_steps; i++)
        json_array_append_new(steps, step_of(p, i, &checks[i]));
    json_t *root = json_pack("{s:s, s:b, s:o}", "format_version", "1.0", "verified", (int)sound,
                             "steps", steps);
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
}

int tool_verify(struct tool *t) {
    int format = tool_format(t);
    bool sound = true;
    if (format < 0) return TOOL_USAGE;
    struct plan *p = tool_open_plan(t, t->args.at[0]);
    if (!p) return TOOL_USAGE;
    struct claims *checks = arena_new(&t->arena, struct claims, p->n_steps);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        claims_check(p, i, &t->arena, &checks[i]);
        sound = sound && checks[i].report.verdict != CERTIFICATE_REFUSED;
    }
    if (format == 0)
        print_text(p, checks);
    else
        print_json(p, checks, sound);
    plan_close(p);
    return sound ? TOOL_OK : TOOL_REJECTED;
}
