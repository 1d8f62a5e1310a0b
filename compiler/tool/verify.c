/* `ddpc verify`: is this plan what it claims to be?
 *
 * Opening it has checked the structure: every offset, range and back reference (runtime/plan). What
 * is left is the schedule. The certificate's check replays the buckets on one channel and, where
 * the plan claims an optimum, computes it anew by another method than the scheduler's; this file
 * only brings the plan's records into the form that the check takes. It also prints the bottleneck:
 * the gradient from whose moment on the channel never rests, which is why no reordering behind it
 * can help.
 *
 * Exit 0: everything claimed holds. 1: a claim is refuted. 2: the file cannot be read or is
 * corrupt. */
#include "certificate.h"
#include "plan_tool.h"

struct step_check {
    struct certificate certificate; /* arrays in the arena */
    struct certificate_report report;
};

/* Buckets of one dtype, class and guard are a group. Numbered as they first appear, which is the
 * order in which groups that are late have to follow each other. */
static uint32_t group_of(const struct plan_bucket *b, const struct plan_bucket **groups,
                         uint32_t *n) {
    for (uint32_t i = 0; i < *n; i++)
        if (groups[i]->dtype == b->dtype && groups[i]->class == b->class &&
            groups[i]->guard == b->guard)
            return i;
    groups[*n] = b;
    return (*n)++;
}

static void check_step(const struct plan *p, uint32_t step, struct arena *a,
                       struct step_check *out) {
    const struct plan_step *s = &p->step[step];
    const struct plan_certificate *c = &p->certificate[step];
    struct certificate_item *item = arena_new(a, struct certificate_item, s->n_segments);
    struct certificate_bucket *bucket = arena_new(a, struct certificate_bucket, s->n_buckets);
    struct certificate_piece *piece = arena_new(a, struct certificate_piece, c->n_pieces);
    const struct plan_bucket **groups = arena_new(a, const struct plan_bucket *, s->n_buckets);
    bool *late = arena_new(a, bool, s->n_buckets);
    uint32_t n_buckets = 0, n_groups = 0;
    for (uint32_t i = 0; i < s->n_segments; i++) {
        const struct plan_segment *g = &p->segment[s->first_segment + i];
        item[i] = (struct certificate_item){g->ready_us, plan_segment_bytes(g->bytes)};
    }
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[s->first_bucket + i];
        if (b->kind != PLAN_GRADIENT) continue;
        uint32_t group = group_of(b, groups, &n_groups);
        late[group] = s->guards == PLAN_DISCOVERED && b->class == PLAN_CONDITIONAL;
        bucket[n_buckets++] =
            (struct certificate_bucket){.first = b->first_segment - s->first_segment,
                                        .n = b->n_segments,
                                        .group = group,
                                        .ready_us = b->ready_us,
                                        .start_us = b->start_us,
                                        .end_us = b->end_us};
    }
    for (uint32_t i = 0; i < c->n_pieces; i++) {
        const struct plan_piece *from = &p->piece[c->first_piece + i];
        piece[i] = (struct certificate_piece){from->alpha_us, from->us_per_byte};
    }
    out->certificate = (struct certificate){.n_items = s->n_segments,
                                            .n_buckets = n_buckets,
                                            .n_groups = n_groups,
                                            .n_pieces = c->n_pieces,
                                            .first_number = 1, /* 0 is the control bucket */
                                            .item = item,
                                            .bucket = bucket,
                                            .group_late = late,
                                            .piece = piece,
                                            .cap_bytes = c->cap_bytes,
                                            .max_buckets = c->max_buckets,
                                            .optimal = c->optimal,
                                            .slack = s->policy == PLAN_ROBUST ? CERTIFICATE_ROBUST : 0,
                                            .worst_regret = s->worst_regret,
                                            .optimum_us = c->optimum_us,
                                            .lower_bound_us = s->lower_bound_us,
                                            .finish_us = s->finish_us};
    certificate_check(&out->certificate, &out->report);
}

static const char *verdict_name(enum certificate_verdict v) {
    return v == CERTIFICATE_PROVED ? "proved" : v == CERTIFICATE_REPLAYED ? "replayed" : "refuted";
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *chain_param(const struct plan *p, uint32_t step, const struct step_check *c) {
    return plan_param_name(p, p->segment[p->step[step].first_segment + c->report.chain_item].param);
}

/* Bucket numbers are those of dump, where bucket 0 is the control bucket. */
static void print_chain(const struct plan *p, uint32_t step, const struct step_check *c) {
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

static void print_text(const struct plan *p, const struct step_check *checks) {
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

static json_t *step_of(const struct plan *p, uint32_t step, const struct step_check *c) {
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

static void print_json(const struct plan *p, const struct step_check *checks, bool sound) {
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
    struct step_check *checks = arena_new(&t->arena, struct step_check, p->n_steps);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        check_step(p, i, &t->arena, &checks[i]);
        sound = sound && checks[i].report.verdict != CERTIFICATE_REFUSED;
    }
    if (format == 0)
        print_text(p, checks);
    else
        print_json(p, checks, sound);
    plan_close(p);
    return sound ? TOOL_OK : TOOL_REJECTED;
}
