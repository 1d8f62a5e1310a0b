/* A plan's records in the form that the replay takes, and the replay of each of its steps. */
#include "claims.h"
#include "simulation.h"
#include <stdlib.h>

struct placed {
    bool late;
    double ready_us;
    uint32_t param, segment;
};

/* The scheduler's order: of equal times the later declaration first. Late ones are all ready at once,
 * and their own times are not in the plan, but its buckets have them in that order. */
static int compare(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->late != y->late) return x->late ? 1 : -1;
    if (x->late) return x->segment < y->segment ? -1 : x->segment > y->segment;
    if (x->ready_us != y->ready_us) return x->ready_us < y->ready_us ? -1 : 1;
    return x->param > y->param ? -1 : x->param < y->param;
}

static void take_step(struct simulation *s, const struct topology *t, struct arena *a) {
    const struct plan *p = s->plan;
    const struct plan_step *step = &p->step[s->step];
    uint32_t n = step->n_segments;
    struct claims_groups groups = claims_groups(p, s->step, a);
    struct placed *placed = arena_new(a, struct placed, n + 1u);
    for (uint32_t i = 0; i < step->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[step->first_bucket + i];
        if (b->kind != PLAN_GRADIENT) continue;
        bool late = groups.late[groups.of[i]];
        for (uint32_t k = b->first_segment; k < b->first_segment + b->n_segments; k++)
            placed[k - step->first_segment] = (struct placed){
                late, p->segment[k].ready_us, p->segment[k].param, k - step->first_segment};
    }
    qsort(placed, n, sizeof *placed, compare);

    struct sim_work *w = &s->work;
    uint32_t *place = arena_new(a, uint32_t, n + 1u); /* by segment: its gradient */
    *w = (struct sim_work){.n = n,
                           .n_groups = groups.n,
                           .late = groups.late,
                           .backward_us = step->backward_us,
                           .topology = *t};
    w->gradient = arena_new(a, struct sim_gradient, n + 1u);
    s->param = arena_new(a, uint32_t, n + 1u);
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_segment *g = &p->segment[step->first_segment + placed[i].segment];
        uint32_t bits = plan_dtype_bits(p->param[g->param].dtype);
        s->param[i] = g->param;
        place[placed[i].segment] = i;
        w->gradient[i] = (struct sim_gradient){.ready_us = g->ready_us,
                                               .bytes = plan_segment_bytes(g->bytes),
                                               .raw_bytes = g->bytes,
                                               .group = groups.of[g->bucket - step->first_bucket],
                                               .element_bytes = bits < 8 ? 1 : bits / 8};
    }
    sim_work_prepare(w, a);

    struct sim_schedule *own = &s->schedule[0];
    *own = (struct sim_schedule){.name = plan_policy_name(step->policy),
                                 .bucket = arena_new(a, struct sim_bucket, n + 1u),
                                 .gradient = arena_new(a, uint32_t, n + 1u)};
    for (uint32_t i = 0, at = 0; i < step->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[step->first_bucket + i];
        if (b->kind != PLAN_GRADIENT) continue;
        struct sim_bucket *x = &own->bucket[own->n_buckets++];
        *x = (struct sim_bucket){.first = at, .n = b->n_segments, .group = groups.of[i]};
        for (uint32_t k = 0; k < b->n_segments; k++) {
            uint32_t g = own->gradient[at++] = place[b->first_segment - step->first_segment + k];
            if (w->gradient[g].moment > x->moment) x->moment = w->gradient[g].moment;
            x->bytes += w->gradient[g].bytes;
        }
    }
}

struct topology simulate_topology(const struct plan *p, uint32_t step) {
    const struct plan_certificate *c = &p->certificate[step];
    struct topology t = {.ranks = c->ranks,
                         .n_pieces =
                             c->n_pieces < TOPOLOGY_MAX_PIECES ? c->n_pieces : TOPOLOGY_MAX_PIECES};
    snprintf(t.name, sizeof t.name, "%s", plan_string(p, p->step[step].topology));
    for (uint32_t i = 0; i < t.n_pieces; i++)
        t.piece[i] = (struct cost_piece){p->piece[c->first_piece + i].alpha_us,
                                         p->piece[c->first_piece + i].us_per_byte};
    return t;
}

static void run_step(const struct simulations *all, struct simulation *s, const struct topology *t,
                     const enum sim_rule *rules, struct arena *a) {
    s->schedule = arena_new(a, struct sim_schedule, s->n);
    s->result = arena_new(a, struct sim_result, s->n);
    take_step(s, t, a);
    for (uint32_t k = 1; k < s->n; k++) sim_rule(&s->work, rules[k - 1], a, &s->schedule[k]);
    uint32_t buckets = s->schedule->n_buckets;
    s->start_us = arena_new(a, double, buckets + 1u);
    s->end_us = arena_new(a, double, buckets + 1u);
    s->slack_us = arena_new(a, double, buckets + 1u);
    simulate(&s->work, &all->jitter, all->steps, s->schedule, s->n, a, s->result, &s->report);
    sim_replay(&s->work, s->schedule, s->work.moment_us, &s->work.topology, s->start_us, s->end_us);
    sim_slack(&s->work, s->schedule, s->work.moment_us, s->start_us, s->end_us, s->slack_us);
}

void simulate_plan(struct simulations *s, const struct plan *p, const struct topology *topology,
                   const enum sim_rule *rules, uint32_t n_rules, struct arena *a) {
    s->n = p->n_steps;
    s->at = arena_new(a, struct simulation, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        struct topology own = topology ? *topology : simulate_topology(p, i);
        s->at[i] = (struct simulation){.plan = p, .step = i, .n = n_rules + 1};
        run_step(s, &s->at[i], &own, rules, a);
    }
}

void simulate_predicted(struct simulations *s, const struct plan *p, const char *file,
                        struct arena *a) {
    static const enum sim_rule ddp = SIM_DDP;
    *s = (struct simulations){
        .file = file,
        .steps = 1,
        .jitter = {.seed = 1, .ranks = p->certificate[0].ranks, .slow_factor = 1}};
    simulate_plan(s, p, NULL, &ddp, 1, a);
}
