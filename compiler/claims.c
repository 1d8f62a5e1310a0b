/* From a plan's records to the check of its certificate.
 *
 * The certificate's check (certificate.c) knows no plans; this file brings a step into the form that
 * it takes. It also looks at what a plan says twice: the options say in words what the records
 * say in numbers, control and presence buckets have the times that follow from the others, what is
 * exposed is the finish less the backward pass. So whoever changes a number has to change what hangs
 * on it too, up to the claim that is computed anew.
 *
 * These fields carry no claim, since nothing in a plan says what they should be: the number of
 * ranks, and the options that speak of the model (device, assumptions). These are what the claims
 * rest on, and are refused only where a claim does not follow from them any more: when gradients are
 * ready, the length of the backward pass, the cost pieces. */
#include "claims.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one dtype, class and guard. */
static uint32_t group_of(const struct plan_bucket *b, const struct plan_bucket **groups,
                         uint32_t *n) {
    for (uint32_t i = 0; i < *n; i++)
        if (groups[i]->dtype == b->dtype && groups[i]->class == b->class &&
            groups[i]->guard == b->guard)
            return i;
    groups[*n] = b;
    return (*n)++;
}

static bool is_late(const struct plan_step *s, const struct plan_bucket *b) {
    return s->guards == PLAN_DISCOVERED && b->class == PLAN_CONDITIONAL;
}

struct claims_groups claims_groups(const struct plan *p, uint32_t step, struct arena *a) {
    const struct plan_step *s = &p->step[step];
    const struct plan_bucket **groups = arena_new(a, const struct plan_bucket *, s->n_buckets);
    struct claims_groups out = {0, arena_new(a, uint32_t, s->n_buckets),
                                arena_new(a, bool, s->n_buckets)};
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[s->first_bucket + i];
        if (b->kind != PLAN_GRADIENT) continue;
        out.of[i] = group_of(b, groups, &out.n);
        out.late[out.of[i]] = is_late(s, b);
    }
    return out;
}

static struct certificate certificate_of(const struct plan *p, uint32_t step, struct arena *a) {
    const struct plan_step *s = &p->step[step];
    const struct plan_certificate *c = &p->certificate[step];
    struct certificate_item *item = arena_new(a, struct certificate_item, s->n_segments);
    struct certificate_bucket *bucket = arena_new(a, struct certificate_bucket, s->n_buckets);
    struct certificate_piece *piece = arena_new(a, struct certificate_piece, c->n_pieces);
    struct claims_groups groups = claims_groups(p, step, a);
    uint32_t n_buckets = 0;
    for (uint32_t i = 0; i < s->n_segments; i++) {
        const struct plan_segment *g = &p->segment[s->first_segment + i];
        item[i] = (struct certificate_item){g->ready_us, plan_segment_bytes(g->bytes)};
    }
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[s->first_bucket + i];
        if (b->kind != PLAN_GRADIENT) continue;
        bucket[n_buckets++] =
            (struct certificate_bucket){.first = b->first_segment - s->first_segment,
                                        .n = b->n_segments,
                                        .group = groups.of[i],
                                        .ready_us = b->ready_us,
                                        .start_us = b->start_us,
                                        .end_us = b->end_us};
    }
    for (uint32_t i = 0; i < c->n_pieces; i++) {
        const struct plan_piece *from = &p->piece[c->first_piece + i];
        piece[i] = (struct certificate_piece){from->alpha_us, from->us_per_byte};
    }
    return (struct certificate){.n_items = s->n_segments,
                                .n_buckets = n_buckets,
                                .n_groups = groups.n,
                                .n_pieces = c->n_pieces,
                                .first_number = 1, /* 0 is the control bucket */
                                .item = item,
                                .bucket = bucket,
                                .group_late = groups.late,
                                .piece = piece,
                                .cap_bytes = c->cap_bytes,
                                .max_buckets = c->max_buckets,
                                .optimal = c->optimal,
                                .slack = s->policy == PLAN_ROBUST ? CERTIFICATE_ROBUST : 0,
                                .worst_regret = s->worst_regret,
                                .optimum_us = c->optimum_us,
                                .lower_bound_us = s->lower_bound_us,
                                .finish_us = s->finish_us};
}

/* ---- what is said twice ---------------------------------------------------------------------- */

static const char *option_of(const struct plan *p, const char *key) {
    for (uint32_t i = 0; i < p->n_options; i++)
        if (!strcmp(plan_string(p, p->option[i].key), key))
            return plan_string(p, p->option[i].value);
    return NULL;
}

static double number_of(const struct plan *p, const char *key) {
    const char *text = option_of(p, key);
    return text ? strtod(text, NULL) : 0;
}

static bool options_agree(const struct plan *p, uint32_t step, struct certificate_report *out) {
    const struct plan_step *s = &p->step[step];
    const struct plan_certificate *c = &p->certificate[step];
    bool ddp = s->policy == PLAN_DDP, best = s->policy == PLAN_EXACT || s->policy == PLAN_ROBUST;
    const struct {
        const char *key, *says;
    } words[] = {{"schedule", plan_policy_name(s->policy)},
                 {"average", plan_average_name(s->average)},
                 {"guards", plan_guards_name(s->guards)},
                 {"order", ddp ? plan_order_name(s->order) : NULL},
                 {"topology", plan_string(p, s->topology)}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *option = option_of(p, words[i].key);
        if (option && words[i].says ? !strcmp(option, words[i].says) : option == words[i].says)
            continue;
        snprintf(out->what, sizeof out->what, "the option %s is %.40s, and the step has %.40s",
                 words[i].key, option ? option : "missing", words[i].says ? words[i].says : "none");
        return false;
    }
    if (!ddp && s->order != PLAN_READY) {
        snprintf(out->what, sizeof out->what, "a schedule that is not DDP's goes by ready order");
        return false;
    }
    double cap = best ? number_of(p, "bucket-cap-mib") * 1048576 : 0;
    if (c->cap_bytes != (uint64_t)(cap + .5)) {
        snprintf(out->what, sizeof out->what, "the cap is %llu bytes, and the options say %.0f",
                 (unsigned long long)c->cap_bytes, cap);
        return false;
    }
    double most = best ? number_of(p, "max-buckets") : 0;
    if (c->max_buckets != most) {
        snprintf(out->what, sizeof out->what,
                 "at most %u buckets are claimed, and the options say %.0f", c->max_buckets, most);
        return false;
    }
    return true;
}

/* Equal but for a rounding or two. */
static bool same(double a, double b) {
    double gap = a < b ? b - a : a - b;
    return gap <= CERTIFICATE_EPSILON * (a < 0 ? -a : a);
}

static bool times_agree(const struct plan *p, uint32_t step, struct certificate_report *out) {
    const struct plan_step *s = &p->step[step];
    double last = 0, exposed = s->finish_us - s->backward_us;
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[s->first_bucket + i];
        double at = b->kind == PLAN_CONTROL ? 0 : s->finish_us;
        if (b->kind == PLAN_GRADIENT) {
            for (uint32_t k = 0; k < b->n_segments; k++) {
                double ready = p->segment[b->first_segment + k].ready_us;
                last = ready > last ? ready : last;
                if (!is_late(s, b) || same(ready, s->backward_us)) continue;
                snprintf(out->what, sizeof out->what,
                         "gradients of bucket %u are late and ready at %.3f µs, not at the end of "
                         "backward",
                         i, ready);
                return false;
            }
        } else if (b->ready_us != at || b->start_us != at || b->end_us != at) {
            snprintf(out->what, sizeof out->what, "bucket %u has other times than %.3f µs", i, at);
            return false;
        }
    }
    if (s->backward_us < last) {
        snprintf(out->what, sizeof out->what,
                 "a gradient is ready at %.3f µs, after a backward pass of %.3f µs", last,
                 s->backward_us);
        return false;
    }
    if (!same(exposed > 0 ? exposed : 0, s->exposed_us)) {
        snprintf(out->what, sizeof out->what, "%.3f µs are exposed, not %.3f µs",
                 exposed > 0 ? exposed : 0, s->exposed_us);
        return false;
    }
    return true;
}

void claims_check(const struct plan *p, uint32_t step, struct arena *a, struct claims *out) {
    out->certificate = certificate_of(p, step, a);
    out->report = (struct certificate_report){.verdict = CERTIFICATE_REFUSED, .worst_regret = -1};
    if (!options_agree(p, step, &out->report)) return;
    certificate_check(&out->certificate, &out->report);
    if (out->report.verdict != CERTIFICATE_REFUSED && !times_agree(p, step, &out->report))
        out->report.verdict = CERTIFICATE_REFUSED;
}
