/* From the marks of a trace to times: the backward passes, and medians over them.
 *
 * A backward pass is a run of PyTorch's evaluate_function events. Sequence numbers rise in the
 * forward pass and fall in the backward pass, so a top-level event whose number is above all
 * before it begins the next pass; one inside another (a reentrant checkpoint) does not. A step of
 * the profiler or of an optimizer ends one, which old traces need: they have no numbers. Where
 * there is none of these, an annotation that comes for the second time tells that a pass began,
 * after the longest gap since the last annotation: there the forward ran.
 *
 * On a CPU a gradient is ready when its AccumulateGrad ends. On a GPU the host is ahead: what it
 * has asked for by then is done when the last kernel so far launched ends. So both the pass's
 * beginning and a gradient's moment are taken to be the later of the host's time and the end of
 * all kernels that were launched until then, and the difference is the ready time.
 *
 * Passes whose gradients have the same shapes are of one kind of step. The first of them warms up
 * caches and does not count if there is another; of the others the median does. What is kept grows
 * with backward nodes and kernels up to a limit, after which later passes are left out: some 20
 * MB. */
#include "profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void passes_init(struct passes *p) {
    p->until = HUGE_VAL;
    p->slots = calloc(2 * MOST_LAUNCHES, sizeof *p->slots);
    if (!p->slots) arena_out_of_memory(2 * MOST_LAUNCHES * sizeof *p->slots);
}

void passes_free(struct passes *p) {
    vec_free(&p->marks);
    vec_free(&p->launches);
    vec_free(&p->samples);
    vec_free(&p->counted);
    free(p->slots);
}

static void full(struct passes *p, double at) {
    if (at < p->until) p->until = at;
}

void passes_mark(struct passes *p, struct mark m) {
    if (p->marks.n == MOST_MARKS)
        full(p, m.at);
    else
        vec_push(&p->marks, m);
}

/* Either half of a launch may come first; a graph's launch has many kernels. */
void passes_launch(struct passes *p, uint64_t correlation, double host, double end) {
    uint32_t i = (uint32_t)((correlation * 0x9e3779b97f4a7c15) >> 45); /* 2^19 slots */
    while (p->slots[i] && p->launches.at[p->slots[i] - 1].correlation != correlation)
        i = (i + 1) % (2 * MOST_LAUNCHES);
    if (!p->slots[i]) {
        if (p->launches.n == MOST_LAUNCHES) {
            full(p, host >= 0 ? host : end);
            return;
        }
        vec_push(&p->launches, ((struct launch){correlation, -1, -1}));
        p->slots[i] = p->launches.n;
    }
    struct launch *l = &p->launches.at[p->slots[i] - 1];
    if (host >= 0) l->host = host;
    if (end > l->end) l->end = end;
}

void passes_sample(struct passes *p, uint32_t entry, double us) {
    while (p->counted.n <= entry) vec_push(&p->counted, 0);
    if (p->counted.at[entry] == MOST_SAMPLES) return;
    struct sample s = {entry, p->counted.at[entry]++, us};
    vec_push(&p->samples, s);
}

/* ---- medians --------------------------------------------------------------------------------- */

static int compare_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n numbers in the order of the passes, without the first if there are others; reorders them. */
static double median(double *us, uint32_t n) {
    if (n > 1) us++, n--;
    qsort(us, n, sizeof *us, compare_double);
    return n % 2 ? us[n / 2] : (us[n / 2 - 1] + us[n / 2]) / 2;
}

static int compare_sample(const void *a, const void *b) {
    const struct sample *x = a, *y = b;
    if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void finish_samples(struct passes *p, struct profile *f) {
    if (p->samples.n) qsort(p->samples.at, p->samples.n, sizeof *p->samples.at, compare_sample);
    for (uint32_t i = 0, n; i < p->samples.n; i += n) {
        double us[MOST_SAMPLES];
        uint32_t entry = p->samples.at[i].entry;
        for (n = 0; i + n < p->samples.n && p->samples.at[i + n].entry == entry; n++)
            us[n] = p->samples.at[i + n].us;
        f->all.at[entry].us = median(us, n);
    }
}

/* ---- the device's clock ---------------------------------------------------------------------- */

static int compare_launch(const void *a, const void *b) {
    const struct launch *x = a, *y = b;
    return (x->host > y->host) - (x->host < y->host);
}

/* In the order of the host, each with the end of all until it. */
static void sort_launches(struct passes *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->launches.n; i++)
        if (p->launches.at[i].host >= 0 && p->launches.at[i].end >= 0)
            p->launches.at[n++] = p->launches.at[i];
    p->launches.n = n;
    if (n) qsort(p->launches.at, n, sizeof *p->launches.at, compare_launch);
    for (uint32_t i = 1; i < n; i++)
        if (p->launches.at[i].end < p->launches.at[i - 1].end)
            p->launches.at[i].end = p->launches.at[i - 1].end;
}

/* When all that was asked for until `host` is done. */
static double done(const struct passes *p, double host) {
    uint32_t low = 0, high = p->launches.n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (p->launches.at[mid].host <= host)
            low = mid + 1;
        else
            high = mid;
    }
    return low && p->launches.at[low - 1].end > host ? p->launches.at[low - 1].end : host;
}

/* ---- passes ---------------------------------------------------------------------------------- */

struct arrival {
    str shape;
    double us;
};
struct group {
    VEC(str) shapes;
    VEC(double) us; /* pass by pass, in the order of shapes */
    uint32_t passes;
};
struct walk {
    struct passes *p;
    struct profile *f;
    bool open;
    double start, end; /* end: of the latest top-level event */
    int64_t highest;
    str thread;
    double gap,
        after_gap; /* the longest between top-level events since an annotation, and its end */
    VEC(struct arrival) arrivals;
    VEC(uint32_t) seen; /* by entry: the number of the pass, counted from 1, that had it */
    struct group group[MOST_GROUPS];
    uint32_t groups;
};

static int compare_arrival(const void *a, const void *b) {
    const struct arrival *x = a, *y = b;
    if (x->shape != y->shape) return x->shape < y->shape ? -1 : 1;
    return (x->us > y->us) - (x->us < y->us);
}

static struct group *group_of_pass(struct walk *w) {
    for (uint32_t g = 0; g < w->groups; g++) {
        struct group *group = &w->group[g];
        uint32_t i = 0;
        if (group->shapes.n != w->arrivals.n) continue;
        while (i < group->shapes.n && group->shapes.at[i] == w->arrivals.at[i].shape) i++;
        if (i == group->shapes.n) return group;
    }
    if (w->groups == MOST_GROUPS) return NULL;
    struct group *group = &w->group[w->groups++];
    for (uint32_t i = 0; i < w->arrivals.n; i++) vec_push(&group->shapes, w->arrivals.at[i].shape);
    return group;
}

static void close_pass(struct walk *w) {
    if (!w->open) return;
    w->open = false;
    if (!w->arrivals.n) return;
    qsort(w->arrivals.at, w->arrivals.n, sizeof *w->arrivals.at, compare_arrival);
    struct group *group = group_of_pass(w);
    if (group && group->passes < MOST_SAMPLES) {
        group->passes++;
        for (uint32_t i = 0; i < w->arrivals.n; i++) vec_push(&group->us, w->arrivals.at[i].us);
    }
    w->arrivals.n = 0;
}

static void open_pass(struct walk *w, double at) {
    close_pass(w);
    w->open = true;
    w->start = done(w->p, at);
    w->end = at;
    w->highest = -1;
    w->f->passes++;
}

static void backward(struct walk *w, const struct mark *m) {
    bool top = !w->open || m->at >= w->end;
    bool comparable = w->highest >= 0 && m->number >= 0 && m->name == w->thread;
    if (top && w->open && m->at - w->end > w->gap) {
        w->gap = m->at - w->end;
        w->after_gap = m->at;
    }
    if (top && (!w->open || (comparable && m->number > w->highest))) open_pass(w, m->at);
    if (top && m->end > w->end) w->end = m->end;
    if (w->highest < 0) w->thread = m->name;
    if (m->name == w->thread && m->number > w->highest) w->highest = m->number;
}

/* The second time begins a pass where the forward took the time since the last annotation. */
static void ready(struct walk *w, const struct mark *m) {
    uint32_t entry = (uint32_t)m->number;
    while (w->seen.n <= entry) vec_push(&w->seen, 0);
    if (!w->open) open_pass(w, m->at);
    if (w->seen.at[entry] == w->f->passes) open_pass(w, w->gap > 0 ? w->after_gap : m->at);
    w->gap = 0;
    w->seen.at[entry] = w->f->passes;
    passes_sample(w->p, entry, done(w->p, m->at) - w->start);
}

static void gradient(struct walk *w, const struct mark *m) {
    if (!m->name) {
        w->f->shapeless++;
        return;
    }
    if (!w->open) return;
    struct arrival a = {m->name, done(w->p, m->end) - w->start};
    vec_push(&w->arrivals, a);
}

static int compare_mark(const void *a, const void *b) {
    const struct mark *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

static void finish_group(struct group *g, struct profile *f) {
    struct profile_gradients out = {
        .n = g->shapes.n,
        .passes = g->passes,
        .shape = arena_new(&f->arena, str, g->shapes.n),
        .us = arena_new(&f->arena, double, g->shapes.n),
    };
    for (uint32_t i = 0; i < g->shapes.n; i++) {
        double us[MOST_SAMPLES];
        for (uint32_t k = 0; k < g->passes; k++) us[k] = g->us.at[k * g->shapes.n + i];
        out.shape[i] = g->shapes.at[i];
        out.us[i] = median(us, g->passes);
    }
    vec_push(&f->gradients, out);
    vec_free(&g->shapes);
    vec_free(&g->us);
}

void passes_finish(struct passes *p, struct profile *f) {
    struct walk w = {.p = p, .f = f, .highest = -1};
    sort_launches(p);
    if (p->marks.n) qsort(p->marks.at, p->marks.n, sizeof *p->marks.at, compare_mark);
    for (uint32_t i = 0; i < p->marks.n && p->marks.at[i].at < p->until; i++) {
        const struct mark *m = &p->marks.at[i];
        if (m->kind == MARK_BREAK && m->at >= w.end)
            close_pass(&w);
        else if (m->kind == MARK_BACKWARD)
            backward(&w, m);
        else if (m->kind == MARK_READY)
            ready(&w, m);
        else if (m->kind == MARK_GRADIENT)
            gradient(&w, m);
    }
    /* A pass that was cut off is none. */
    if (p->until < HUGE_VAL && f->passes > 1) w.arrivals.n = 0;
    close_pass(&w);
    for (uint32_t g = 0; g < w.groups; g++) finish_group(&w.group[g], f);
    finish_samples(p, f);
    vec_free(&w.arrivals);
    vec_free(&w.seen);
}
