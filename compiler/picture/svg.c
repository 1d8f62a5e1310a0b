/* Writing SVG by hand: a head with a style sheet, then elements.
 *
 * The numbers have two decimals at most, so that the same picture has the same bytes everywhere. The
 * width of a text can only be estimated, as the viewer chooses the font: the table has the widths of
 * Helvetica in thousandths of the size, which common sans-serif fonts come close to. */
#include "svg.h"
#include <stdbool.h>
#include <string.h>

static const struct svg_color common[] = {
    {"paper", "#ffffff", "#15191e"},
    {"ink", "#1c2430", "#e4e8ee"},
    {"muted", "#5d6975", "#9aa5b1"},
    {"rule", "#d9dee4", "#333c46"},
};

static void variables(FILE *out, const struct svg_color *c, size_t n, bool dark) {
    for (size_t i = 0; i < n; i++)
        fprintf(out, "--%s:%s;", c[i].name, dark ? c[i].dark : c[i].light);
}

/* The plain colour first, for viewers that do not know var(). */
static void classes(FILE *out, const struct svg_color *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        fprintf(out, ".ddpc .f-%s{fill:%s;fill:var(--%s)}.ddpc .s-%s{stroke:%s;stroke:var(--%s)}\n",
                c[i].name, c[i].light, c[i].name, c[i].name, c[i].light, c[i].name);
}

void svg_open(FILE *out, double width, double height, const char *title, const char *description,
              const struct svg_color *colors, size_t n_colors) {
    size_t n_common = sizeof common / sizeof *common;
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ddpc\" role=\"img\" width=\"", out);
    svg_number(out, width);
    fputs("\" height=\"", out);
    svg_number(out, height);
    fputs("\" viewBox=\"0 0 ", out);
    svg_number(out, width);
    putc(' ', out);
    svg_number(out, height);
    fputs("\">\n<title>", out);
    svg_escape(out, title);
    fputs("</title>\n<desc>", out);
    svg_escape(out, description);
    fputs("</desc>\n<style>\n.ddpc{", out);
    variables(out, common, n_common, false);
    variables(out, colors, n_colors, false);
    fputs("}\n@media (prefers-color-scheme:dark){.ddpc{", out);
    variables(out, common, n_common, true);
    variables(out, colors, n_colors, true);
    fputs("}}\n", out);
    classes(out, common, n_common);
    classes(out, colors, n_colors);
    fprintf(out,
            ".ddpc text{font-family:system-ui,-apple-system,\"Segoe UI\",\"Helvetica Neue\",Arial,"
            "sans-serif;font-size:%dpx}\n"
            ".ddpc .small{font-size:%dpx}.ddpc .head{font-size:%dpx;font-weight:600}\n"
            ".ddpc .end{text-anchor:end}.ddpc .mid{text-anchor:middle}\n</style>\n",
            SVG_TEXT, SVG_SMALL, SVG_HEAD);
    svg_rect(out, 0, 0, width, height, "f-paper", NULL);
}

void svg_close(FILE *out) { fputs("</svg>\n", out); }

void svg_number(FILE *out, double x) {
    char text[32];
    snprintf(text, sizeof text, "%.2f", x);
    size_t n = strlen(text);
    while (text[n - 1] == '0') n--;
    if (text[n - 1] == '.') n--;
    text[n] = 0;
    fputs(strcmp(text, "-0") ? text : "0", out);
}

size_t svg_character(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    if (*s < 0x80) return *s >= ' ' || *s == '\t' || *s == '\n' ? *s != 0x7f : 0;
    size_t n = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
    if (*s < 0xc2 || *s > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xf0 && s[1] < 0x90)) return 0; /* overlong */
    if ((*s == 0xed && s[1] > 0x9f) || (*s == 0xf4 && s[1] > 0x8f)) return 0; /* no character */
    return *s == 0xef && s[1] == 0xbf && s[2] >= 0xbe ? 0 : n;
}

void svg_escape(FILE *out, const char *text) {
    for (size_t n; *text; text += n ? n : 1) {
        n = svg_character(text);
        switch (n ? *text : 0) {
        case 0: fputs("\xef\xbf\xbd", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fwrite(text, 1, n, out);
        }
    }
}

static void attribute(FILE *out, const char *name, double value) {
    fprintf(out, " %s=\"", name);
    svg_number(out, value);
    putc('"', out);
}

void svg_rect(FILE *out, double x, double y, double width, double height, const char *class,
              const char *tip) {
    fprintf(out, "<rect class=\"%s\"", class);
    attribute(out, "x", x);
    attribute(out, "y", y);
    attribute(out, "width", width);
    attribute(out, "height", height);
    if (!tip) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    svg_escape(out, tip);
    fputs("</title></rect>\n", out);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class) {
    fprintf(out, "<line class=\"%s\"", class);
    attribute(out, "x1", x1);
    attribute(out, "y1", y1);
    attribute(out, "x2", x2);
    attribute(out, "y2", y2);
    fputs("/>\n", out);
}

void svg_text(FILE *out, double x, double y, const char *class, const char *text) {
    fprintf(out, "<text class=\"%s\"", class);
    attribute(out, "x", x);
    attribute(out, "y", y);
    putc('>', out);
    svg_escape(out, text);
    fputs("</text>\n", out);
}

/* ---- widths ---------------------------------------------------------------------------------- */

/* Of the character at s in thousandths of the size; *n gets its bytes. */
static unsigned advance(const char *s, size_t *n) {
    unsigned char c = (unsigned char)*s;
    *n = svg_character(s);
    if (!*n) *n = 1;
    if (c >= 0xe1) return c == 0xe2 ? 1000 : 1050; /* signs such as an ellipsis; CJK and the like */
    if (c >= 0x80) return 620;
    if (strchr("ijl|'", c)) return 230;
    if (strchr(" .,:;!()[]ftrI/\\-`{}*\"", c)) return 340;
    if (strchr("mwMW@%", c)) return 900;
    if (strchr("<>=+~", c)) return 600;
    return c >= 'A' && c <= 'Z' ? 720 : 560;
}

double svg_text_width(const char *text, double size) {
    uint64_t sum = 0;
    for (size_t n; *text; text += n) sum += advance(text, &n);
    return (double)sum * size / 1000;
}

const char *svg_fit(struct arena *a, const char *text, double size, double width) {
    if (svg_text_width(text, size) <= width) return text;
    double room = width - svg_text_width("\xe2\x80\xa6", size), used = 0;
    size_t bytes = 0, characters = 0;
    for (size_t n; text[bytes]; bytes += n, characters++) {
        used += advance(text + bytes, &n) * size / 1000;
        if (used > room) break;
    }
    if (characters < 3) return NULL;
    return arena_printf(a, "%.*s\xe2\x80\xa6", (int)bytes, text);
}
