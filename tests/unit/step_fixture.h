/* A step made by hand for tests of the scheduler: parameters with a type, a size, a class and a
 * ready time, without a graph. */
#ifndef DDPC_TEST_STEP_FIXTURE_H
#define DDPC_TEST_STEP_FIXTURE_H

#include "certificate.h"
#include "schedule.h"
#include <string.h>

struct fixture {
    struct ir_module m;
    struct program p;
    struct branches b;
    struct reach r;
    struct ready_times ready;
    struct topology t;
    struct options o;
    struct diags d;
    struct sched s;
};

static inline void fixture_init(struct fixture *f, uint32_t room) {
    memset(f, 0, sizeof *f);
    ir_module_init(&f->m, NULL);
    diags_init(&f->d, NULL);
    f->b.bdd = bdd_new(1000);
    f->p.m = &f->m;
    f->t = (struct topology){"test", 2, 1, {{9, 1}}};
    f->o.schedule = SCHEDULE_EXACT;
    f->r.gradient = arena_new(&f->p.arena, struct gradient, room);
    f->ready.us = arena_new(&f->p.arena, double, room);
    f->ready.order = arena_new(&f->p.arena, uint32_t, room);
    struct step step = {.name = strtab_addz(&f->m.strings, "train")};
    vec_push(&f->p.steps, step);
}

/* A guard of BDD_TRUE makes it `always`, BDD_FALSE `never`, others `conditional`. */
static inline void fixture_add(struct fixture *f, enum ir_dtype dtype, int64_t elements,
                               double ready_us, bdd may) {
    uint32_t i = f->p.params.n;
    struct param x = {
        .name = strtab_printf(&f->m.strings, "p%u", i), .dtype = dtype, .elements = elements};
    vec_push(&f->p.params, x);
    f->r.gradient[i] = (struct gradient){.class = may == BDD_TRUE    ? GRAD_ALWAYS
                                                  : may == BDD_FALSE ? GRAD_NEVER
                                                                     : GRAD_CONDITIONAL,
                                         .must = may,
                                         .may = may};
    f->ready.us[i] = ready_us;
    if (may == BDD_FALSE) return;
    /* By time, of equals the later declaration first. */
    uint32_t at = f->ready.n++;
    for (; at && f->ready.us[f->ready.order[at - 1]] >= ready_us; at--)
        f->ready.order[at] = f->ready.order[at - 1];
    f->ready.order[at] = i;
    if (ready_us > f->ready.backward_us) f->ready.backward_us = ready_us;
}

static inline bdd fixture_branch(struct fixture *f, const char *name, bool uniform) {
    vec_push(&f->b.all, ((struct branch){.name = name, .uniform = uniform}));
    return bdd_var(f->b.bdd, f->b.all.n - 1);
}

static inline bool fixture_run(struct fixture *f) {
    sched_free(&f->s);
    return schedule_step(&f->p, 0, &f->r, &f->b, &f->ready, &f->t, &f->o, &f->d, &f->s);
}

static inline void fixture_free(struct fixture *f) {
    sched_free(&f->s);
    diags_free(&f->d);
    bdd_free(f->b.bdd);
    vec_free(&f->b.all);
    vec_free(&f->p.params);
    vec_free(&f->p.steps);
    arena_free(&f->p.arena);
    ir_module_free(&f->m);
}

/* The schedule's certificate, as a plan carries it; all in one arena of the caller's. */
struct fixture_certificate {
    struct certificate c;
    struct certificate_item *item;
    struct certificate_bucket *bucket;
    struct certificate_piece *piece;
    bool *late;
};

static inline struct fixture_certificate fixture_certify(const struct fixture *f, struct arena *a) {
    const struct sched *s = &f->s;
    struct fixture_certificate x = {
        .item = arena_new(a, struct certificate_item, s->item.n),
        .bucket = arena_new(a, struct certificate_bucket, s->bucket.n),
        .piece = arena_new(a, struct certificate_piece, f->t.n_pieces),
        .late = arena_new(a, bool, s->group.n),
    };
    for (uint32_t i = 0; i < s->item.n; i++)
        x.item[i] = (struct certificate_item){s->item.at[i].ready_us, s->item.at[i].bytes};
    for (uint32_t b = 0; b < s->bucket.n; b++) {
        const struct sched_bucket *k = &s->bucket.at[b];
        x.bucket[b] = (struct certificate_bucket){k->first,    k->n,        k->group,
                                                  k->ready_us, k->start_us, k->end_us};
    }
    for (uint32_t p = 0; p < f->t.n_pieces; p++)
        x.piece[p] = (struct certificate_piece){f->t.piece[p].alpha_us, f->t.piece[p].us_per_byte};
    for (uint32_t g = 0; g < s->group.n; g++) x.late[g] = s->group.at[g].late;
    x.c = (struct certificate){.n_items = s->item.n,
                               .n_buckets = s->bucket.n,
                               .n_groups = s->group.n,
                               .n_pieces = f->t.n_pieces,
                               .item = x.item,
                               .bucket = x.bucket,
                               .group_late = x.late,
                               .piece = x.piece,
                               .cap_bytes = s->cap_bytes,
                               .max_buckets = s->max_buckets,
                               .optimal = s->optimal,
                               .slack = f->o.schedule == SCHEDULE_ROBUST ? ROBUST_SLACK : 0,
                               .worst_regret = s->worst_regret,
                               .optimum_us = s->optimum_us,
                               .lower_bound_us = s->lower_bound_us,
                               .finish_us = s->finish_us};
    return x;
}

#endif
