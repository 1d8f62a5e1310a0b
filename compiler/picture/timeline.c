/* The timeline of a step.
 *
 * From top to bottom: an axis; the modules of the model in the order in which their gradients become
 * ready; the stretches between gradients; and for each schedule the channel with its collectives.
 * Red ground is what comes after the backward pass: exposed. A line under collectives marks the way
 * that decides the end: from there the channel is never idle. A thin line before a collective is
 * the time that its gradients wait for the channel; one below it, for the plan alone, how much later
 * they could be. What is exposed is often a hundredth of the step, so the end is drawn once more,
 * enlarged.
 *
 * Any number of buckets must stay readable and the file small. Boxes that are too thin to be told
 * apart are drawn as one, whose tooltip says how many they are; a text is drawn only where it fits,
 * in the longest of several wordings; texts that could meet stand in rows of their own. */
#include "timeline.h"
#include "svg.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1200,
    LEFT = 190, /* the rows' names */
    RIGHT = 24,
    AXIS = 22,
    MODULES = 20,
    STRETCHES = 12,
    ROW = 26,
    GAP = 18,
    N_GROUP_COLORS = 6,
};

static const struct svg_color colors[] = {
    {"group0", "#2f6db3", "#6aa5e8"},  {"group1", "#c2611a", "#f0975c"},
    {"group2", "#1f8a7c", "#55c2b2"},  {"group3", "#8350a8", "#bd90e2"},
    {"group4", "#93761b", "#d9bd5a"},  {"group5", "#b03a5e", "#ec7f9f"},
    {"module0", "#c9d6e6", "#33485e"}, {"module1", "#dfe6ef", "#26384a"},
    {"exposed", "#f9d7d4", "#5c2528"}, {"late", "#b3261e", "#ff8a80"},
    {"slack", "#a9b6c3", "#566473"},   {"onbox", "#ffffff", "#10151a"},
};

const char *timeline_time(struct arena *a, double us) {
    if (us < 999.95) return arena_printf(a, "%.1f \xc2\xb5s", us);
    if (us < 9999.5) return arena_printf(a, "%.2f ms", us / 1e3);
    if (us < 999950) return arena_printf(a, "%.1f ms", us / 1e3);
    return arena_printf(a, "%.2f s", us / 1e6);
}

const char *timeline_bytes(struct arena *a, uint64_t bytes) {
    if (bytes < 1000) return arena_printf(a, "%u B", (unsigned)bytes);
    if (bytes < 999500) return arena_printf(a, "%.0f kB", (double)bytes / 1e3);
    if (bytes < 99950000) return arena_printf(a, "%.1f MB", (double)bytes / 1e6);
    if (bytes < 9995000000) return arena_printf(a, "%.0f MB", (double)bytes / 1e6);
    return arena_printf(a, "%.1f GB", (double)bytes / 1e9);
}

size_t timeline_module(const char *name) {
    size_t end = 0, two = 0, components = 0;
    for (const char *at = name; *at;) {
        size_t n = strcspn(at, ".");
        if (strspn(at, "0123456789") == n && n && at > name) return (size_t)(at - name) + n;
        if (!at[n]) break;
        end = (size_t)(at - name) + n;
        if (++components <= 2) two = end;
        at += n + 1;
    }
    return two ? two : strlen(name);
}

/* ---- a range of time on the page ------------------------------------------------------------- */

struct panel {
    const struct timeline *t;
    struct arena *a;
    FILE *out;
    double from_us, to_us;
    double y; /* of the next thing */
    double *start_us, *end_us, *slack_us;
};

static double x_of(const struct panel *p, double us) {
    double part = (us - p->from_us) / (p->to_us - p->from_us);
    return LEFT + (part < 0 ? 0 : part > 1 ? 1 : part) * (WIDTH - LEFT - RIGHT);
}

static bool outside(const struct panel *p, double from, double to) {
    return to <= p->from_us || from >= p->to_us;
}

/* The longest of the wordings that fits, in the middle of a box. */
static void label(const struct panel *p, double x, double width, double y, const char *class,
                  double size, const char *const *wording, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (svg_text_width(wording[i], size) + 6 > width) continue;
        svg_text(p->out, x + width / 2, y, class, wording[i]);
        return;
    }
}

/* 1, 2 or 5 times a power of ten, of which about `n` fit. */
static double tick_step(double range, double n) {
    double step = 1e-3;
    while (step * n * 10 <= range) step *= 10;
    if (step * n * 5 <= range) return step * 5;
    return step * n * 2 <= range ? step * 2 : step;
}

static void axis(struct panel *p, double height) {
    double range = p->to_us - p->from_us, step = tick_step(range, 6);
    double unit = range >= 1e7 ? 1e6 : step >= 100 ? 1e3 : 1;
    const char *name = unit == 1e6 ? "s" : unit == 1e3 ? "ms" : "\xc2\xb5s";
    double first = (double)(uint64_t)(p->from_us / step) * step;
    int decimals = 0;
    for (double least = unit; step < least * .999 && decimals < 3; least /= 10) decimals++;
    for (uint32_t i = 0; first + i * step <= p->to_us; i++) {
        double us = first + i * step, x = x_of(p, us);
        if (us < p->from_us) continue;
        svg_line(p->out, x, p->y + AXIS - 6, x, p->y + height, "s-rule");
        svg_text(p->out, x, p->y + 11, "small mid f-muted",
                 arena_printf(p->a, "%.*f %s", decimals, us / unit, name));
    }
    p->y += AXIS;
}

/* ---- the backward pass ----------------------------------------------------------------------- */

static bool is_late(const struct sim_work *w, uint32_t i) {
    return i == w->n || w->late[w->gradient[i].group];
}

/* The first gradient after the i-th that is of another module, or late. */
static uint32_t module_end(const struct timeline *t, uint32_t i) {
    size_t length = timeline_module(t->name[i]);
    uint32_t next = i + 1;
    while (!is_late(t->work, next) && timeline_module(t->name[next]) == length &&
           !strncmp(t->name[next], t->name[i], length))
        next++;
    return next;
}

/* A module from its first gradient's stretch to its last one's; thin ones together. */
static void modules(struct panel *p) {
    const struct sim_work *w = p->t->work;
    double from = 0, to, width;
    uint32_t shade = 0;
    for (uint32_t i = 0, next; !is_late(w, i); i = next, from = to) {
        uint32_t many = 0;
        double x = x_of(p, from);
        next = i;
        do {
            next = module_end(p->t, next);
            to = p->t->at_us[w->gradient[next - 1].moment];
            width = x_of(p, to) - x;
            many++;
        } while (width < 1.5 && !outside(p, from, to) && !is_late(w, next));
        if (outside(p, from, to)) continue;
        const char *name = p->t->name[i];
        const char *module = arena_printf(p->a, "%.*s", (int)timeline_module(name), name);
        const char *dot = strrchr(module, '.');
        const char *before = dot;
        while (before && before > module && before[-1] != '.') before--;
        const char *wording[] = {module, before ? before : module, dot ? dot + 1 : module};
        const char *more = many > 1 ? arena_printf(p->a, " and %u more", many - 1) : "";
        svg_rect(p->out, x, p->y, width < .7 ? .7 : width, MODULES - 2,
                 shade++ % 2 ? "f-module1" : "f-module0",
                 arena_printf(p->a, "%s%s: %u gradients, ready from %s to %s", module, more,
                              next - i, timeline_time(p->a, p->t->at_us[w->gradient[i].moment]),
                              timeline_time(p->a, to)));
        if (many == 1) label(p, x, width, p->y + 13, "small mid f-ink", SVG_SMALL, wording, 3);
    }
    p->y += MODULES;
}

/* Between two gradients; a mark where one is ready. */
static void stretches(struct panel *p) {
    const struct sim_work *w = p->t->work;
    double end = p->t->at_us[w->n_moments - 1], last = -1;
    if (!outside(p, 0, end))
        svg_rect(p->out, x_of(p, 0), p->y, x_of(p, end) - x_of(p, 0), STRETCHES, "f-module0",
                 arena_printf(p->a, "%s: %s", p->t->backward, timeline_time(p->a, end)));
    for (uint32_t i = 0, next; i < w->n; i = next) {
        uint32_t moment = w->gradient[i].moment;
        uint64_t bytes = 0;
        for (next = i; next < w->n && w->gradient[next].moment == moment; next++)
            bytes += w->gradient[next].bytes;
        double us = p->t->at_us[moment], x = x_of(p, us);
        if (us < p->from_us || us > p->to_us || x - last < 1.5) continue; /* one mark for some */
        last = x;
        svg_rect(p->out, x - .5, p->y, 1, STRETCHES, "f-muted",
                 next - i == 1
                     ? arena_printf(p->a, "%s, %s, ready at %s", p->t->name[i],
                                    timeline_bytes(p->a, bytes), timeline_time(p->a, us))
                     : arena_printf(p->a, "%s and %u more, %s, ready at %s", p->t->name[i],
                                    next - i - 1, timeline_bytes(p->a, bytes),
                                    timeline_time(p->a, us)));
    }
    p->y += STRETCHES + GAP;
}

/* ---- the channel ----------------------------------------------------------------------------- */

/* Neighbouring buckets as one box. */
struct box {
    uint32_t first, n, group;
    double x, end, start_us, end_us, ready_us, slack_us;
    uint64_t bytes;
    bool decides, mixed; /* mixed: of several groups */
};

static void draw_box(struct panel *p, const struct sim_schedule *s, const struct box *b) {
    const char *size = timeline_bytes(p->a, b->bytes);
    const char *from = timeline_time(p->a, b->start_us), *to = timeline_time(p->a, b->end_us);
    const char *slack = timeline_time(p->a, b->slack_us);
    const char *end = b->decides ? "; decides the end" : "";
    const char *group = b->mixed ? "of several groups" : p->t->group[b->group], *tip;
    uint32_t gradients = 0;
    for (uint32_t i = b->first; i < b->first + b->n; i++) gradients += s->bucket[i].n;
    if (b->n == 1)
        tip = arena_printf(
            p->a, "bucket %u: %u gradient%s, %s, %s\nready at %s, from %s to %s\nslack %s%s",
            b->first + 1, gradients, gradients == 1 ? "" : "s", size, group,
            timeline_time(p->a, b->ready_us), from, to, slack, end);
    else
        tip = arena_printf(
            p->a, "buckets %u to %u: %u gradients, %s, %s\nfrom %s to %s\nleast slack %s%s",
            b->first + 1, b->first + b->n, gradients, size, group, from, to, slack, end);
    double width = b->end - b->x;
    char class[32];
    snprintf(class, sizeof class, "f-group%u", b->group % N_GROUP_COLORS);
    /* A hair of ground between boxes that are wide enough. */
    svg_rect(p->out, b->x, p->y,
             width > 3    ? width - .7
             : width < .7 ? .7
                          : width,
             ROW - 6, class, tip);
    if (b->decides)
        svg_rect(p->out, b->x, p->y + ROW - 4, width < .7 ? .7 : width, 2.5, "f-ink", NULL);
    const char *many = arena_printf(p->a, "%u\xe2\x80\x93%u", b->first + 1, b->first + b->n);
    const char *one = arena_printf(p->a, "%u", b->first + 1);
    const char *number = b->n == 1 ? one : many;
    const char *wording[] = {
        arena_printf(p->a, "%s %s: %s", b->n == 1 ? "bucket" : "buckets", number, size),
        arena_printf(p->a, "%s: %s", number, size), number};
    label(p, b->x, width, p->y + 14, "small mid f-onbox", SVG_SMALL, wording, 3);
}

/* How long gradients wait for the channel, above; of the plan, how much later they could be, below.
 * Lines that meet are drawn once. */
static void draw_lines(struct panel *p, const struct sim_schedule *s, uint32_t chain, bool slack) {
    double waited = 0, spare = 0; /* where the lines end so far */
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        double ready = p->t->at_us[s->bucket[i].moment], x = x_of(p, ready);
        double start = x_of(p, p->start_us[i]), from = x > waited ? x : waited;
        if (start - from > 1) {
            char class[32];
            snprintf(class, sizeof class, "f-group%u", s->bucket[i].group % N_GROUP_COLORS);
            svg_rect(p->out, from, p->y - 4, start - from, 2, class, NULL);
            waited = start;
        }
        double to = x_of(p, ready + p->slack_us[i]);
        from = x > spare ? x : spare;
        if (slack && i < chain && to - from > 1) {
            svg_rect(p->out, from, p->y + ROW - 4, to - from, 2, "f-slack", NULL);
            spare = to;
        }
    }
}

/* Whether both are so thin and close that they look like one. */
static bool merges(const struct box *a, const struct box *b) {
    bool thin = b->end - b->x < 2.5 && a->n && (a->n > 1 || a->end - a->x < 2.5);
    bool near = b->x - a->end < .8 && b->first == a->first + a->n;
    return thin && near && a->decides == b->decides &&
           (a->group == b->group || b->end - a->x < 1.5);
}

static void draw_boxes(struct panel *p, const struct sim_schedule *s, uint32_t chain) {
    struct box box = {.n = 0};
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        if (outside(p, p->start_us[i], p->end_us[i])) continue;
        const struct sim_bucket *b = &s->bucket[i];
        struct box next = {.first = i,
                           .n = 1,
                           .group = b->group,
                           .x = x_of(p, p->start_us[i]),
                           .end = x_of(p, p->end_us[i]),
                           .start_us = p->start_us[i],
                           .end_us = p->end_us[i],
                           .ready_us = p->t->at_us[b->moment],
                           .slack_us = p->slack_us[i],
                           .bytes = b->bytes,
                           .decides = i >= chain};
        if (merges(&box, &next)) {
            box.mixed = box.mixed || next.group != box.group;
            box.n++;
            box.end = next.end;
            box.end_us = next.end_us;
            box.bytes += next.bytes;
            if (next.slack_us < box.slack_us) box.slack_us = next.slack_us;
            continue;
        }
        if (box.n) draw_box(p, s, &box);
        box = next;
    }
    if (box.n) draw_box(p, s, &box);
}

static void channel(struct panel *p, uint32_t k, bool named) {
    const struct timeline *t = p->t;
    struct sim_schedule *s = &t->schedule[k];
    double finish = sim_replay(t->work, s, t->at_us, t->topology, p->start_us, p->end_us);
    double backward = t->at_us[t->work->n_moments - 1];
    double exposed = finish > backward ? finish - backward : 0;
    uint32_t chain = sim_slack(t->work, s, t->at_us, p->start_us, p->end_us, p->slack_us);
    svg_text(p->out, 12, p->y + (named ? 9 : 14), "f-ink", s->name);
    if (named)
        svg_text(p->out, 12, p->y + 22, "small f-muted",
                 arena_printf(p->a, "%s, exposed %s", timeline_time(p->a, backward + exposed),
                              timeline_time(p->a, exposed)));
    if (exposed > 0 && !outside(p, backward, finish))
        svg_rect(p->out, x_of(p, backward), p->y - 6, x_of(p, finish) - x_of(p, backward), ROW + 6,
                 "f-exposed", arena_printf(p->a, "exposed: %s", timeline_time(p->a, exposed)));
    svg_line(p->out, LEFT, p->y + ROW - 6, WIDTH - RIGHT, p->y + ROW - 6, "s-rule");
    draw_lines(p, s, chain, k == 0);
    draw_boxes(p, s, chain);
    p->y += ROW + GAP;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static double panel_height(const struct timeline *t) {
    return AXIS + MODULES + STRETCHES + GAP + t->n * (double)(ROW + GAP) + 8;
}

static void draw_panel(struct panel *p, bool named) {
    double top = p->y;
    axis(p, panel_height(p->t) - GAP);
    svg_text(p->out, 12, p->y + 14, "f-ink", p->t->backward);
    if (named)
        svg_text(p->out, 12, p->y + 28, "small f-muted",
                 timeline_time(p->a, p->t->at_us[p->t->work->n_moments - 1]));
    modules(p);
    stretches(p);
    for (uint32_t k = 0; k < p->t->n; k++) channel(p, k, named);
    p->y = top + panel_height(p->t);
}

static double step_us(const struct timeline *t, uint32_t k) {
    double us = sim_replay(t->work, &t->schedule[k], t->at_us, t->topology, NULL, NULL);
    double backward = t->at_us[t->work->n_moments - 1];
    return us > backward ? us : backward;
}

static double longest(const struct timeline *t) {
    double us = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        double step = step_us(t, k);
        if (step > us) us = step;
    }
    return us > 0 ? us : 1;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The end of the step, if what is exposed would be thin otherwise, and is not thin beyond use:
 * room for the median of the schedules; those that take much longer run out of the picture. */
static bool tail(const struct timeline *t, struct arena *a, double *from, double *to) {
    double backward = t->at_us[t->work->n_moments - 1], all = longest(t);
    double *exposed = arena_new(a, double, t->n);
    for (uint32_t k = 0; k < t->n; k++) exposed[k] = step_us(t, k) - backward;
    qsort(exposed, t->n, sizeof *exposed, ascending);
    double middle = exposed[t->n / 2], most = exposed[t->n - 1];
    *from = backward > 2.5 * middle ? backward - 2.5 * middle : 0;
    *to = backward + (most < 2 * middle ? most : 2 * middle);
    double shown = *to - *from;
    return shown * 3 < all && shown * 1e6 > all;
}

static double legend_item(FILE *out, double x, double y, const char *class, double height,
                          const char *text) {
    svg_rect(out, x, y - height / 2 - 4, 14, height, class, NULL);
    svg_text(out, x + 19, y, "small f-muted", text);
    return x + 19 + svg_text_width(text, SVG_SMALL) + 18;
}

/* Groups as far as there is room beside what is always there. */
static double legend(const struct timeline *t, double y, struct arena *a, FILE *out) {
    double x = 12;
    for (uint32_t g = 0; g < t->work->n_groups; g++) {
        char class[32];
        const char *text = svg_fit(a, t->group[g], SVG_SMALL, WIDTH - 620 - x);
        if (!text) break;
        snprintf(class, sizeof class, "f-group%u", g % N_GROUP_COLORS);
        x = legend_item(out, x, y, class, 10, text);
    }
    x = legend_item(out, x, y, "f-exposed", 10, "exposed");
    x = legend_item(out, x, y, "f-ink", 2.5, "decides the end");
    x = legend_item(out, x, y, "f-slack", 2, "slack: could be ready until here");
    return legend_item(out, x, y, "f-group0", 2, "ready, waits for the channel");
}

void timeline_svg(const char *title, const struct timeline *t, uint32_t n, FILE *out) {
    struct arena a = {0};
    double height = 34, from, to;
    for (uint32_t i = 0; i < n; i++) {
        height +=
            44 + panel_height(&t[i]) + (tail(&t[i], &a, &from, &to) ? 22 + panel_height(&t[i]) : 0);
    }
    svg_open(out, WIDTH, height, title,
             "Time runs to the right. Above, when gradients become ready in the backward pass; "
             "below, for each schedule, the collectives on the channel.",
             colors, sizeof colors / sizeof *colors);
    const char *fits = svg_fit(&a, title, SVG_HEAD, WIDTH - 24);
    svg_text(out, 12, 24, "head f-ink", fits ? fits : title);
    double y = 34;
    for (uint32_t i = 0; i < n; i++) {
        struct panel p = {.t = &t[i], .a = &a, .out = out, .y = y, .to_us = longest(&t[i])};
        p.start_us = arena_new(&a, double, t[i].work->n + 1u);
        p.end_us = arena_new(&a, double, t[i].work->n + 1u);
        p.slack_us = arena_new(&a, double, t[i].work->n + 1u);
        fits = svg_fit(&a, t[i].title, SVG_TEXT, WIDTH - 24);
        svg_text(out, 12, p.y + 10, "f-muted", fits ? fits : t[i].title);
        legend(&t[i], p.y + 28, &a, out);
        p.y += 40;
        draw_panel(&p, true);
        if (tail(&t[i], &a, &from, &to)) {
            double times = p.to_us / (to - from);
            svg_text(out, 12, p.y + 12, "f-muted",
                     arena_printf(&a, "The end, %.0f times as large", times));
            p.y += 18;
            p.from_us = from;
            p.to_us = to;
            draw_panel(&p, false);
        }
        y = p.y + 4;
    }
    svg_close(out);
    arena_free(&a);
}
