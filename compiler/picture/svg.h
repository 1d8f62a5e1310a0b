/* A small writer of SVG: self-contained files that are readable on light and on dark ground.
 *
 * Colours have names. Of a colour `ink` the classes `f-ink` (fill) and `s-ink` (stroke) can be used;
 * the file's style sheet defines each twice, as what prefers-color-scheme asks for, through a CSS
 * variable, so that a page around an inlined picture can choose by setting `--ink` itself. Programs
 * that know no variables show the light one. Further classes: `end` and `mid` anchor a text, `small`
 * and `head` size it.
 *
 * Lengths are CSS pixels. Texts are escaped here, and what XML cannot hold becomes U+FFFD. */
#ifndef DDPC_SVG_H
#define DDPC_SVG_H

#include "arena.h"
#include <stdio.h>

struct svg_color {
    const char *name, *light, *dark;
};
/* There in every picture: paper, ink, muted (secondary text), rule (grid lines). */

enum { SVG_TEXT = 12, SVG_SMALL = 10, SVG_HEAD = 15 }; /* sizes of text */

/* The head: title and description are for those who do not see the picture. `colors` are added to
 * the ones above. */
void svg_open(FILE *out, double width, double height, const char *title, const char *description,
              const struct svg_color *colors, size_t n_colors);
void svg_close(FILE *out);

/* tip: what a pointer over it shows; NULL: nothing. */
void svg_rect(FILE *out, double x, double y, double width, double height, const char *class,
              const char *tip);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class);
void svg_text(FILE *out, double x, double y, const char *class, const char *text);

/* For other elements: a text or an attribute's value; a number with at most two decimals. */
void svg_escape(FILE *out, const char *text);
void svg_number(FILE *out, double x);
/* Bytes of the UTF-8 character at text; 0 if it is none that XML can hold. */
size_t svg_character(const char *text);

/* About how wide a text is; a little too wide rather than too narrow. */
double svg_text_width(const char *text, double size);
/* The text, or as much of it as fits into `width` with an ellipsis; NULL if not even three characters
 * of it do. */
const char *svg_fit(struct arena *a, const char *text, double size, double width);

#endif
