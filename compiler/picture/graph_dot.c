/* The graph in Graphviz's language, for `dot -Tsvg` and whatever else reads it.
 *
 * Every name is a quoted string. In labels a backslash begins an escape and an ampersand an entity of
 * HTML, so both are written as such; what is not UTF-8 becomes U+FFFD. Vertices are v1, v2, ... */
#include "graph.h"
#include "svg.h"
#include <string.h>

static void put_quoted(FILE *out, const char *text) {
    putc('"', out);
    for (size_t n; *text; text += n ? n : 1) {
        n = svg_character(text);
        if (!n)
            fputs("\xef\xbf\xbd", out);
        else if (*text == '\n' || *text == '\t')
            putc(' ', out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '"' || *text == '\\')
            putc('\\', out), putc(*text, out);
        else
            fwrite(text, 1, n, out);
    }
    putc('"', out);
}

static const char *const fill[GRAPH_N_CLASSES] = {"#cfe3f7", "#f8c9c4", "#fbe3ae", "#dcdfe3",
                                                  "#e3d3f2"};

/* The colour of the class, or of all that are there, in their shares. */
static const char *fill_of(const struct graph_vertex *v, struct arena *a) {
    const char *text = "";
    uint32_t n = 0;
    for (uint32_t c = 0; c < GRAPH_N_CLASSES; c++) {
        if (!v->class[c]) continue;
        text = arena_printf(a, "%s%s%s;%.4f", text, *text ? ":" : "", fill[c],
                            (double)v->class[c] / v->params);
        if (v->class[c] == v->params) return fill[c];
        n++;
    }
    return n ? text : "white";
}

static void put_vertex(const struct graph *g, uint32_t i, struct arena *a, FILE *out) {
    const struct graph_vertex *v = &g->vertex.at[i];
    const char *shape = "box", *style = "filled", *color = fill_of(v, a);
    switch (v->kind) {
    case GRAPH_FOLD: shape = "box3d"; break;
    case GRAPH_CONTROL: shape = "hexagon"; break;
    case GRAPH_INPUT: style = "rounded,filled"; break;
    case GRAPH_OUTPUT:
        shape = v->loss ? "doubleoctagon" : "octagon";
        color = v->loss ? "#c9ecd2" : "white";
        break;
    case GRAPH_UNREAD: style = "dashed,filled"; break;
    default: break;
    }
    bool mixed = strchr(color, ':') != NULL;
    fprintf(out, "v%u [shape=%s, style=\"%s\", fillcolor=\"%s\", label=", i, mixed ? "box" : shape,
            mixed ? "striped" : style, color);
    put_quoted(out, v->label);
    if (*v->detail) {
        fputs(" + \"\\n\" + ", out);
        put_quoted(out, v->detail);
    }
    if (v->cuts) fprintf(out, " + \"\\n%u cut%s inside\"", v->cuts, v->cuts == 1 ? "" : "s");
    if (v->cuts) {
        fputs(", tooltip=", out);
        put_quoted(out, g->cut.at[v->first_cut]);
    }
    fputs("];\n", out);
}

static void put_inside(const struct graph *g, const uint32_t *first, const uint32_t *next,
                       uint32_t box, uint32_t depth, struct arena *a, FILE *out) {
    for (uint32_t i = first[box]; i; i = next[i]) {
        const struct graph_vertex *v = &g->vertex.at[i];
        bool holds = v->kind == GRAPH_BODY || v->kind == GRAPH_CONTROL;
        fprintf(out, "%*s", (int)(2 * depth), "");
        if (v->kind != GRAPH_BODY && !holds) put_vertex(g, i, a, out);
        if (!holds) continue;
        fprintf(out, "subgraph cluster_%u {\n%*slabel=", i, (int)(2 * depth + 2), "");
        put_quoted(out, v->label);
        fputs(";\n", out);
        if (v->kind == GRAPH_CONTROL) {
            fprintf(out, "%*s", (int)(2 * depth + 2), "");
            put_vertex(g, i, a, out);
        }
        put_inside(g, first, next, i, depth + 1, a, out);
        fprintf(out, "%*s}\n", (int)(2 * depth), "");
    }
}

void graph_dot(const struct graph *g, FILE *out) {
    struct arena a = {0};
    uint32_t n = g->vertex.n;
    uint32_t *first = arena_new(&a, uint32_t, n), *next = arena_new(&a, uint32_t, n);
    for (uint32_t i = n; i-- > 1;) {
        next[i] = first[g->vertex.at[i].parent];
        first[g->vertex.at[i].parent] = i;
    }
    fputs("digraph ", out);
    put_quoted(out, ir_text(g->p->m, g->p->m->graph.at[g->p->m->main].name));
    fputs(" {\n"
          "  node [fontname=\"Helvetica,Arial,sans-serif\", fontsize=11];\n"
          "  edge [fontname=\"Helvetica,Arial,sans-serif\", fontsize=9, color=\"#8a939c\", "
          "style=dashed];\n"
          "  graph [fontname=\"Helvetica,Arial,sans-serif\", fontsize=11];\n",
          out);
    put_inside(g, first, next, 0, 1, &a, out);
    for (uint32_t i = 0; i < g->edge.n; i++) {
        const struct graph_edge *e = &g->edge.at[i];
        fprintf(out, "  v%u -> v%u", e->from, e->to);
        if (e->cuts) {
            fputs(" [color=\"#c0392b\", fontcolor=\"#c0392b\", arrowhead=tee, label=", out);
            put_quoted(out, g->cut.at[e->first_cut]);
            if (e->cuts > 1) fprintf(out, " + \"\\nand %u more\"", e->cuts - 1);
            fputs(e->flows ? ", style=solid]" : "]", out);
        } else if (e->flows)
            fputs(" [color=\"#1f6fb2\", style=solid]", out);
        fputs(";\n", out);
    }
    fputs("}\n", out);
    arena_free(&a);
}
