/* The writer of SVG: what it writes is well-formed whatever the texts, and texts fit. */
#define _POSIX_C_SOURCE 200809L
#include "svg.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t size;
static FILE *out;
static struct arena a;

static void open_memory(void) { out = open_memstream(&text, &size); }
static void close_memory(void) {
    fclose(out);
    free(text);
    arena_free(&a);
}
TestSuite(svg, .init = open_memory, .fini = close_memory);

static void expect(const char *want) {
    fflush(out);
    cr_expect_str_eq(text, want);
    rewind(out);
}

Test(svg, numbers) {
    static const struct {
        double x;
        const char *text;
    } all[] = {{0, "0"},     {-0.001, "0"}, {1, "1"},     {1.5, "1.5"},
               {100, "100"}, {.25, "0.25"}, {-2, "-2"},   {1234.567, "1234.57"},
               {0.996, "1"}, {10, "10"},    {-.5, "-0.5"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        svg_number(out, all[i].x);
        putc('\0', out);
        expect(all[i].text);
    }
}

Test(svg, escapes_what_xml_cannot_hold) {
    svg_escape(out, "a<b>&\"c\" \xc3\xa9 \xf0\x9f\x98\x80");
    putc('\0', out);
    expect("a&lt;b&gt;&amp;&quot;c&quot; \xc3\xa9 \xf0\x9f\x98\x80");
    /* control characters, a lone byte, overlong, a surrogate, U+FFFE, cut off */
    svg_escape(out, "\x01|\x1b|\xff|\xc0\x80|\xed\xa0\x80|\xef\xbf\xbe|\xe2\x80");
    putc('\0', out);
#define BAD "\xef\xbf\xbd"
    expect(BAD "|" BAD "|" BAD "|" BAD BAD "|" BAD BAD BAD "|" BAD BAD BAD "|" BAD BAD);
}

Test(svg, elements) {
    svg_rect(out, 1, 2, 3.5, 4, "f-ink", "<tip>");
    svg_line(out, 0, 0, 1, 1, "s-rule");
    svg_text(out, 5, 6, "mid", "x & y");
    putc('\0', out);
    expect("<rect class=\"f-ink\" x=\"1\" y=\"2\" width=\"3.5\" "
           "height=\"4\"><title>&lt;tip&gt;</title></rect>\n"
           "<line class=\"s-rule\" x1=\"0\" y1=\"0\" x2=\"1\" y2=\"1\"/>\n"
           "<text class=\"mid\" x=\"5\" y=\"6\">x &amp; y</text>\n");
}

Test(svg, both_grounds) {
    static const struct svg_color blue = {"blue", "#0000aa", "#8888ff"};
    svg_open(out, 10, 20, "T", "D", &blue, 1);
    svg_close(out);
    fflush(out);
    cr_expect(strstr(text, "viewBox=\"0 0 10 20\""));
    cr_expect(strstr(text, "<title>T</title>\n<desc>D</desc>"));
    const char *dark = strstr(text, "@media (prefers-color-scheme:dark)");
    cr_assert(dark);
    cr_expect(strstr(text, "--blue:#0000aa;") < dark);
    cr_expect(strstr(dark, "--blue:#8888ff;"));
    cr_expect(strstr(text, ".f-blue{fill:#0000aa;fill:var(--blue)}"));
    cr_expect(strstr(text, "http") == strstr(text, "http://www.w3.org/2000/svg"));
    cr_expect_null(strstr(strstr(text, "svg\" class") + 1, "http"),
                   "nothing is loaded from elsewhere");
}

Test(svg, fit) {
    cr_expect_str_eq(svg_fit(&a, "short", 12, 100), "short");
    const char *cut = svg_fit(&a, "encoder.layer.11.attention.self.query.weight", 12, 100);
    cr_assert(cut);
    cr_expect(svg_text_width(cut, 12) <= 100 && svg_text_width(cut, 12) > 80, "%s", cut);
    cr_expect_str_eq(cut + strlen(cut) - 3, "\xe2\x80\xa6");
    cr_expect_null(svg_fit(&a, "encoder", 12, 15));
    /* Never inside a character. */
    const char *greek =
        svg_fit(&a, "\xce\xb1\xce\xb2\xce\xb3\xce\xb4\xce\xb5\xce\xb6\xce\xb7\xce\xb8", 12, 45);
    cr_assert(greek);
    cr_expect_eq(strlen(greek) % 2, 1);
}
