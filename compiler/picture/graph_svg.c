/* The graph as SVG. Each If, loop and body is a box with a layout of its own; an edge between two
 * boxes is drawn in the innermost that holds both ends, from and to what holds them there. Where no
 * gradient passes for a reason there is a number, and the reasons are listed below the picture. */
#include "graph.h"
#include "svg.h"
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN = 20,
    PAD = 12,
    MOST_WIDTH = 250,
    LEAST_WIDTH = 64,
    LINE = 14,
    BAR = 5,
    LEAST_PICTURE = 640,
    MOST_LISTED = 40,
    MARK = 7
};

static const struct svg_color colors[] = {
    {"always", "#2a78c2", "#5aa2e6"},      {"t-always", "#e4eff9", "#1b2f45"},
    {"never", "#cf3b2f", "#f0796d"},       {"t-never", "#fbe4e1", "#47221f"},
    {"conditional", "#c98500", "#e9b44c"}, {"t-conditional", "#fdf0d2", "#40330f"},
    {"frozen", "#7b8794", "#8c97a3"},      {"t-frozen", "#e6e9ec", "#2c343c"},
    {"unknown", "#8a5cc2", "#b48ae6"},     {"t-unknown", "#efe6f8", "#33264a"},
    {"loss", "#1f9d55", "#4cc38a"},        {"t-loss", "#daf3e4", "#16382a"},
    {"flow", "#6b9dcb", "#5f93c4"},        {"cut", "#b5146e", "#f06eb4"},
    {"none", "#b3bac2", "#59646f"},        {"t-body", "#f6f7f9", "#1b2128"},
};

struct box {
    struct layout layout;
    uint32_t *inside; /* vertices, in the order of layout.node */
    uint32_t edge;    /* index in picture.lifted of the first of layout.edge */
    double width, height, head;
};

/* An edge in the box where it is drawn. */
struct lifted {
    uint32_t box, from, to, cuts, first_cut;
    bool flows;
};

struct mark {
    const char *why;
    uint32_t n;
};

struct picture {
    struct graph *g;
    struct arena a;
    FILE *out;
    struct box *box;        /* by vertex */
    uint32_t *first, *next; /* by vertex: what it holds */
    uint32_t *slot;         /* by vertex: its index in its box's layout */
    VEC(struct lifted) lifted;
    VEC(struct mark) marks;
};

static const struct graph_vertex *at(const struct picture *p, uint32_t v) {
    return &p->g->vertex.at[v];
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static double text_width(const struct picture *p, uint32_t i) {
    double label = svg_text_width(at(p, i)->label, SVG_TEXT);
    double detail = svg_text_width(at(p, i)->detail, SVG_SMALL);
    double w = (label > detail ? label : detail) + 2 * PAD;
    return w < LEAST_WIDTH ? LEAST_WIDTH : w > MOST_WIDTH ? MOST_WIDTH : w;
}

static void lift(struct picture *p) {
    struct graph *g = p->g;
    for (uint32_t i = 0; i < g->edge.n; i++) {
        const struct graph_edge *e = &g->edge.at[i];
        uint32_t from = e->from, to = e->to, box = from;
        while (!graph_within(g, to, box)) box = at(p, box)->parent;
        if (box == from || box == to) continue; /* between a body and what holds it */
        while (at(p, from)->parent != box) from = at(p, from)->parent;
        while (at(p, to)->parent != box) to = at(p, to)->parent;
        struct lifted l = {box, from, to, e->cuts, e->first_cut, e->flows};
        vec_push(&p->lifted, l);
    }
}

static int compare_lifted(const void *a, const void *b) {
    const struct lifted *x = a, *y = b;
    if (x->box != y->box) return x->box < y->box ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static void merge_lifted(struct picture *p) {
    struct lifted *l = p->lifted.at;
    uint32_t n = 0;
    if (p->lifted.n) qsort(l, p->lifted.n, sizeof *l, compare_lifted);
    for (uint32_t i = 0; i < p->lifted.n; i++) {
        if (n && !compare_lifted(&l[n - 1], &l[i])) {
            if (!l[n - 1].cuts) l[n - 1].first_cut = l[i].first_cut;
            l[n - 1].cuts += l[i].cuts;
            l[n - 1].flows |= l[i].flows;
        } else
            l[n++] = l[i];
    }
    p->lifted.n = n;
}

static void lay_out(struct picture *p, uint32_t i);

static void measure(struct picture *p, uint32_t i, struct layout_node *node) {
    const struct graph_vertex *v = at(p, i);
    node->place = v->place;
    if (v->kind == GRAPH_CONTROL || v->kind == GRAPH_BODY) {
        lay_out(p, i);
        node->width = p->box[i].width;
        node->height = p->box[i].height;
        return;
    }
    node->width = text_width(p, i) + (v->kind == GRAPH_FOLD ? 4 : 0);
    node->height = 10 + LINE + (*v->detail ? LINE : 0) + (v->kind == GRAPH_FOLD ? 4 : 0);
}

static void lay_out(struct picture *p, uint32_t i) {
    struct box *b = &p->box[i];
    uint32_t n = 0;
    for (uint32_t v = p->first[i]; v; v = p->next[v]) n++;
    b->layout = (struct layout){
        .arena = &p->a, .n = n, .node = arena_new(&p->a, struct layout_node, n + 1)};
    b->inside = arena_new(&p->a, uint32_t, n + 1);
    n = 0;
    for (uint32_t v = p->first[i]; v; v = p->next[v], n++) {
        b->inside[n] = v;
        p->slot[v] = n;
        measure(p, v, &b->layout.node[n]);
    }
    uint32_t low = 0, high = p->lifted.n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->lifted.at[middle].box < i)
            low = middle + 1;
        else
            high = middle;
    }
    b->edge = low;
    while (high < p->lifted.n && p->lifted.at[high].box == i) high++;
    b->layout.n_edges = high - low;
    b->layout.edge = arena_new(&p->a, struct layout_edge, high - low + 1);
    for (uint32_t k = low; k < high; k++)
        b->layout.edge[k - low] = (struct layout_edge){.from = p->slot[p->lifted.at[k].from],
                                                       .to = p->slot[p->lifted.at[k].to],
                                                       .straight = p->lifted.at[k].flows};
    layout_layers(&b->layout);
    b->head = !i ? 0 : at(p, i)->kind == GRAPH_CONTROL ? 10 + 2 * LINE : 6 + LINE;
    b->width = b->layout.width + (i ? 2 * PAD : 0);
    b->height = b->layout.height + (i ? b->head + PAD : 0);
    double least = i ? text_width(p, i) : 0;
    if (b->width < least) b->width = least;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void put(FILE *out, const char *command, double x, double y) {
    fputs(command, out);
    svg_number(out, x);
    putc(' ', out);
    svg_number(out, y);
}

/* On from (x0, y0) in a curve that begins and ends upright. */
static void curve(FILE *out, double x0, double y0, double x1, double y1) {
    double middle = (y0 + y1) / 2;
    if (x0 == x1) {
        put(out, "L", x1, y1);
        return;
    }
    put(out, "C", x0, middle);
    put(out, " ", x1, middle);
    put(out, " ", x1, y1);
}

static void arrow(FILE *out, double x, double y, bool up, const char *class) {
    double d = up ? 6 : -6;
    fprintf(out, "<path class=\"%s\" d=\"", class);
    put(out, "M", x, y);
    put(out, "L", x - 3, y + d);
    put(out, "L", x + 3, y + d);
    fputs("Z\"/>\n", out);
}

static void put_mark(struct picture *p, double x, double y, uint32_t cut, uint32_t n) {
    const char *why = p->g->cut.at[cut];
    struct mark m = {why, n};
    vec_push(&p->marks, m);
    fputs("<g><title>", p->out);
    svg_escape(p->out, why);
    fputs("</title><circle class=\"f-cut\" cx=\"", p->out);
    svg_number(p->out, x);
    fputs("\" cy=\"", p->out);
    svg_number(p->out, y);
    fprintf(p->out, "\" r=\"%d\"/>", MARK);
    svg_text(p->out, x, y + 3.5, "f-paper small mid", arena_printf(&p->a, "%u", p->marks.n));
    fputs("</g>\n", p->out);
}

/* The trunk of a box, as far as `n` points. */
static void put_trunk(const struct picture *p, const struct layout *l, const struct layout_node *u,
                      uint32_t n, double x, double y, const char *class) {
    if (!n) return;
    double at_x = u->x, at_y = u->bottom;
    fprintf(p->out, "<path class=\"%s\" d=\"", class);
    put(p->out, "M", x + at_x, y + u->y + u->height);
    put(p->out, "L", x + at_x, y + at_y);
    for (uint32_t k = 0; k < n; k++) {
        const struct layout_point *q = &l->point[u->trunk + k];
        curve(p->out, x + at_x, y + at_y, x + q->x, y + q->top);
        put(p->out, "L", x + q->x, y + q->bottom);
        at_x = q->x;
        at_y = q->bottom;
    }
    fputs("\"/>\n", p->out);
}

/* One sort of a box's edges: the gradient's way above the others. */
static void put_edges(struct picture *p, const struct box *b, double x, double y, bool flows) {
    const struct layout *l = &b->layout;
    const struct lifted *lifted = &p->lifted.at[b->edge];
    const char *line = flows ? "g-edge s-flow" : "g-edge g-dash s-none";
    uint32_t *reach = arena_new(&p->a, uint32_t, l->n + 1);
    for (uint32_t i = 0; i < l->n_edges; i++) {
        const struct layout_edge *e = &l->edge[i];
        if (lifted[i].flows == flows && !e->direct && e->leaves > reach[e->over])
            reach[e->over] = e->leaves;
    }
    for (uint32_t i = 0; i < l->n; i++) put_trunk(p, l, &l->node[i], reach[i], x, y, line);
    for (uint32_t i = 0; i < l->n_edges; i++) {
        const struct layout_edge *e = &l->edge[i];
        if (lifted[i].flows != flows) continue;
        const struct layout_node *u = &l->node[e->over], *v = &l->node[e->under];
        const struct layout_point *q =
            e->leaves && !e->direct ? &l->point[u->trunk + e->leaves - 1] : NULL;
        double x0 = q ? q->x : u->x, y0 = q ? q->bottom : u->bottom;
        bool up = e->from == e->under;
        fprintf(p->out, "<path class=\"%s\" d=\"", line);
        put(p->out, "M", x + x0, y + (q ? y0 : u->y + u->height + (up ? 5 : 0)));
        put(p->out, "L", x + x0, y + y0);
        curve(p->out, x + x0, y + y0, x + v->x, y + v->top - (up ? 0 : 5));
        put(p->out, "L", x + v->x, y + v->y - (up ? 0 : 5));
        fputs("\"/>\n", p->out);
        const char *head = flows ? "f-flow" : "f-none";
        if (up)
            arrow(p->out, x + u->x, y + u->y + u->height, true, head);
        else
            arrow(p->out, x + v->x, y + v->y, false, head);
    }
}

static void put_marks(struct picture *p, const struct box *b, double x, double y) {
    const struct layout *l = &b->layout;
    for (uint32_t i = 0; i < l->n_edges; i++) {
        const struct lifted *f = &p->lifted.at[b->edge + i];
        const struct layout_edge *e = &l->edge[i];
        if (!f->cuts) continue;
        const struct layout_node *u = &l->node[e->over], *v = &l->node[e->under];
        const struct layout_point *q =
            e->leaves && !e->direct ? &l->point[u->trunk + e->leaves - 1] : NULL;
        double x0 = q ? q->x : u->x;
        /* In the curve's last third, where the lines to a box have parted least from it. */
        put_mark(p, x + v->x + (x0 - v->x) * .16, y + v->top - 14, f->first_cut, f->cuts);
    }
}

static void put_text(struct picture *p, double x, double y, double width, const char *class,
                     double size, const char *text) {
    const char *fit = svg_fit(&p->a, text, size, width);
    if (fit && *fit) svg_text(p->out, x, y, class, fit);
}

/* A module's path without its first parts, if it is too wide. */
static void put_path(struct picture *p, double x, double y, double width, const char *path) {
    const char *text = path;
    for (const char *rest = path; svg_text_width(text, SVG_TEXT) > width;) {
        rest = strchr(rest, '.');
        if (!rest) break;
        text = arena_printf(&p->a, "\xe2\x80\xa6%s", ++rest);
    }
    put_text(p, x, y, width, "f-ink mid", SVG_TEXT, text);
}

static const char *tip_of(struct picture *p, const struct graph_vertex *v) {
    const char *text = v->label;
    if (*v->detail) text = arena_printf(&p->a, "%s: %s", text, v->detail);
    if (v->cuts) text = arena_printf(&p->a, "%s; cut inside: %s", text, p->g->cut.at[v->first_cut]);
    return text;
}

/* The classes of what it reads, as a bar along its left side. */
static void put_bar(const struct picture *p, const struct graph_vertex *v, double x, double y,
                    double height) {
    double done = 0;
    for (uint32_t c = 0; c < GRAPH_N_CLASSES; c++) {
        if (!v->class[c]) continue;
        double part = height * v->class[c] / v->params;
        char class[32];
        snprintf(class, sizeof class, "f-%s", graph_class_name(c));
        svg_rect(p->out, x, y + done, BAR, part, class, NULL);
        done += part;
    }
}

static void put_box(struct picture *p, uint32_t i, double x, double y);

static void put_vertex(struct picture *p, uint32_t i, const struct layout_node *n, double x,
                       double y) {
    const struct graph_vertex *v = at(p, i);
    double left = x + n->x - n->width / 2, top = y + n->y, width = n->width, height = n->height;
    if (v->kind == GRAPH_CONTROL || v->kind == GRAPH_BODY) {
        put_box(p, i, left, top);
        return;
    }
    char class[64] = "f-paper s-muted";
    for (uint32_t c = 0; c < GRAPH_N_CLASSES; c++)
        if (v->params && v->class[c] == v->params)
            snprintf(class, sizeof class, "f-t-%s s-%s", graph_class_name(c), graph_class_name(c));
    const char *more = v->kind == GRAPH_UNREAD                             ? " g-dash"
                       : v->kind == GRAPH_INPUT || v->kind == GRAPH_OUTPUT ? " g-round"
                                                                           : "";
    if (v->loss) snprintf(class, sizeof class, "f-t-loss s-loss g-thick");
    strcat(class, more);
    if (v->kind == GRAPH_FOLD) { /* a sheet behind it */
        width -= 4;
        height -= 4;
        svg_rect(p->out, left + 4, top + 4, width, height, class, NULL);
    }
    svg_rect(p->out, left, top, width, height, class, tip_of(p, v));
    put_bar(p, v, left, top, height);
    double middle = left + width / 2 + (v->params ? BAR / 2. : 0), room = width - 1.5 * PAD;
    put_path(p, middle, top + 5 + LINE - 3, room, v->label);
    put_text(p, middle, top + 5 + 2 * LINE - 4, room, "f-muted mid small", SVG_SMALL, v->detail);
    if (v->cuts) put_mark(p, left + width - 2, top + 2, v->first_cut, v->cuts);
}

static void put_box(struct picture *p, uint32_t i, double x, double y) {
    const struct box *b = &p->box[i];
    const struct graph_vertex *v = at(p, i);
    if (i) {
        bool control = v->kind == GRAPH_CONTROL;
        svg_rect(p->out, x, y, b->width, b->height, control ? "f-t-body s-muted" : "f-paper s-rule",
                 tip_of(p, v));
        double room = b->width - 2 * PAD;
        put_text(p, x + PAD, y + 4 + LINE - 2, room, control ? "f-ink" : "f-muted small",
                 control ? SVG_TEXT : SVG_SMALL, v->label);
        put_text(p, x + PAD, y + 4 + 2 * LINE - 3, room, "f-muted small", SVG_SMALL, v->detail);
    }
    double left = x + (i ? (b->width - b->layout.width) / 2 : 0), top = y + b->head;
    put_edges(p, b, left, top, false);
    put_edges(p, b, left, top, true);
    for (uint32_t k = 0; k < b->layout.n; k++)
        put_vertex(p, b->inside[k], &b->layout.node[k], left, top);
    put_marks(p, b, left, top);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const char *plural(uint32_t n) { return n == 1 ? "" : "s"; }

/* A sample of a colour or of a line, and what it means. */
static void put_sample(struct picture *p, uint32_t k, double x, double y, const char *text) {
    if (k < GRAPH_N_CLASSES) {
        char class[64];
        const char *name = graph_class_name(k);
        snprintf(class, sizeof class, "f-t-%s s-%s", name, name);
        svg_rect(p->out, x, y, 22, 12, class, NULL);
        snprintf(class, sizeof class, "f-%s", name);
        svg_rect(p->out, x, y, BAR, 12, class, NULL);
    } else if (k < GRAPH_N_CLASSES + 2)
        svg_line(p->out, x, y + 6, x + 22, y + 6,
                 k == GRAPH_N_CLASSES ? "g-edge s-flow" : "g-edge g-dash s-none");
    else
        fprintf(p->out, "<circle class=\"f-cut\" cx=\"%.2f\" cy=\"%.2f\" r=\"%d\"/>\n", x + 11,
                y + 6, MARK - 1);
    svg_text(p->out, x + 28, y + 10, "f-ink small", text);
}

/* Only what is in the picture. Returns where it ends; draw false: does no more. */
static double put_legend(struct picture *p, double y, double width, bool draw) {
    const struct graph *g = p->g;
    const char *text[GRAPH_N_CLASSES + 3] = {0};
    for (uint32_t c = 0; c < GRAPH_N_CLASSES; c++)
        if (g->class[c]) text[c] = arena_printf(&p->a, "%s (%u)", graph_class_name(c), g->class[c]);
    for (uint32_t i = 0; i < g->edge.n; i++)
        if (g->edge.at[i].flows)
            text[GRAPH_N_CLASSES] = "a gradient passes, against the arrow";
        else
            text[GRAPH_N_CLASSES + 1] = "no gradient";
    if (g->cut.n) text[GRAPH_N_CLASSES + 2] = "cut, for a reason listed below";
    double x = MARGIN;
    for (uint32_t k = 0; k < GRAPH_N_CLASSES + 3; k++) {
        if (!text[k]) continue;
        double room = svg_text_width(text[k], SVG_SMALL) + 44;
        if (x > MARGIN && x + room > width - MARGIN) {
            x = MARGIN;
            y += LINE + 4;
        }
        if (draw) put_sample(p, k, x, y, text[k]);
        x += room;
    }
    return y + LINE + 4;
}

static void prepare(struct picture *p) {
    uint32_t n = p->g->vertex.n;
    p->box = arena_new(&p->a, struct box, n);
    p->first = arena_new(&p->a, uint32_t, n);
    p->next = arena_new(&p->a, uint32_t, n);
    p->slot = arena_new(&p->a, uint32_t, n);
    for (uint32_t i = n; i-- > 1;) {
        p->next[i] = p->first[at(p, i)->parent];
        p->first[at(p, i)->parent] = i;
    }
    lift(p);
    merge_lifted(p);
    lay_out(p, 0);
}

/* How many marks there will be. */
static uint32_t count_marks(const struct picture *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->lifted.n; i++) n += p->lifted.at[i].cuts > 0;
    for (uint32_t i = 0; i < p->g->vertex.n; i++) n += at(p, i)->cuts > 0;
    return n;
}

void graph_svg(struct graph *g, FILE *out) {
    struct picture p = {.g = g, .out = out};
    prepare(&p);
    const struct box *all = &p.box[0];
    const char *name = ir_text(g->p->m, g->p->m->graph.at[g->p->m->main].name);
    uint32_t marks = count_marks(&p), listed = marks < MOST_LISTED ? marks : MOST_LISTED;
    double width = all->width + 2 * MARGIN, x = MARGIN;
    if (width < LEAST_PICTURE) {
        x = (LEAST_PICTURE - all->width) / 2;
        width = LEAST_PICTURE;
    }
    double legend = MARGIN + SVG_HEAD + 2 * LINE;
    double head = put_legend(&p, legend, width, false) + LINE;
    double height = head + all->height + MARGIN + (marks ? (listed + 2) * (LINE + 2) : 0) + MARGIN;
    const char *title = arena_printf(&p.a, "%s: the graph and its gradients", name);
    const char *what =
        arena_printf(&p.a, "%u node%s, %u parameter%s%s", g->nodes, plural(g->nodes), g->params,
                     plural(g->params),
                     g->depth < g->max_depth
                         ? arena_printf(&p.a, "; folded to depth %u of %u", g->depth, g->max_depth)
                         : "");
    svg_open(out, width, height, title, what, colors, sizeof colors / sizeof *colors);
    fputs("<style>.ddpc .g-thick{stroke-width:2}.ddpc .g-round{rx:9px}.ddpc "
          ".g-edge{fill:none;"
          "stroke-width:1.4}.ddpc .g-dash{stroke-dasharray:4 3}</style>\n",
          out);
    put_text(&p, MARGIN, MARGIN + SVG_HEAD, width - 2 * MARGIN, "f-ink head", SVG_HEAD, name);
    put_text(&p, MARGIN, MARGIN + SVG_HEAD + LINE + 2, width - 2 * MARGIN, "f-muted", SVG_TEXT,
             what);
    put_legend(&p, legend, width, true);
    put_box(&p, 0, x, head);
    double y = head + all->height + MARGIN + LINE;
    if (marks) svg_text(out, MARGIN, y, "f-ink", "Where the gradient's way is cut:");
    for (uint32_t i = 0; i < listed; i++) {
        const struct mark *m = &p.marks.at[i];
        y += LINE + 2;
        const char *text =
            m->n > 1 ? arena_printf(&p.a, "%u \xc2\xb7 %s, and %u more", i + 1, m->why, m->n - 1)
                     : arena_printf(&p.a, "%u \xc2\xb7 %s", i + 1, m->why);
        put_text(&p, MARGIN, y, width - 2 * MARGIN, "f-ink small", SVG_SMALL, text);
    }
    if (listed < marks)
        svg_text(out, MARGIN, y + LINE + 2, "f-muted small",
                 arena_printf(&p.a, "and %u more, under the pointer", marks - listed));
    svg_close(out);
    vec_free(&p.lifted);
    vec_free(&p.marks);
    arena_free(&p.a);
}
