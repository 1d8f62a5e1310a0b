#define _GNU_SOURCE /* open_memstream */
#include "text_model.h"
#include <criterion/criterion.h>

static struct source source;
static struct diags diags;

static void over(const char *text) {
    source_from_memory(&source, "m.ir", text, strlen(text));
    diags_init(&diags, &source);
}

static void shows(bool short_form, const char *expected) {
    char *text = text_model_diagnostics(&diags, short_form);
    cr_assert_str_eq(text, expected, "\n%s\ninstead of\n%s", text, expected);
    free(text);
    diags_free(&diags);
    source_free(&source);
}

Test(diag, line_caret_note_and_help) {
    over("one\n   h2 = Relu (h1)\n");
    struct diag *g = diag_at(&diags, DIAG_SYNTAX, 17, 2, "value '%s' is not defined", "h1");
    diag_add_note(&diags, g, 0, "'one' is defined here");
    diag_add_note(&diags, g, IR_NO_LOC, "a note without a place");
    diag_set_help(&diags, g, "did you mean '%s'?", "one");
    shows(false, "m.ir:2:14: error[DDP0101]: value 'h1' is not defined\n"
                 "    2 |    h2 = Relu (h1)\n"
                 "      |              ^~\n"
                 "m.ir:1:1: note: 'one' is defined here\n"
                 "note: a note without a place\n"
                 "help: did you mean 'one'?\n");
}

Test(diag, short_form_is_one_line) {
    over("x\ny");
    diag_set_help(&diags, diag_at(&diags, DIAG_SYNTAX, 2, 1, "no"), "help");
    diag_plain(&diags, DIAG_CANNOT_READ, "params.txt:3", "cannot");
    shows(true, "m.ir:2:1: error[DDP0101]: no\nparams.txt:3: error[DDP0901]: cannot\n");
}

Test(diag, a_place_outside_the_model) {
    over("x");
    diag_plain(&diags, DIAG_CANNOT_READ, NULL, "cannot");
    shows(false, "ddpc: error[DDP0901]: cannot\n");
}

Test(diag, tabs_move_the_underline_as_they_move_the_line) {
    over("\tab\tcd");
    diag_at(&diags, DIAG_SYNTAX, 4, 2, "here");
    shows(false, "m.ir:1:5: error[DDP0101]: here\n"
                 "    1 | \tab\tcd\n"
                 "      | \t  \t^~\n");
}

Test(diag, utf8_takes_one_column_a_character) {
    over("\xc3\xa9\xe2\x82\xac = x\xc3\xa9z!");
    diag_at(&diags, DIAG_SYNTAX, 8, 4, "here");
    shows(false, "m.ir:1:9: error[DDP0101]: here\n"
                 "    1 | \xc3\xa9\xe2\x82\xac = x\xc3\xa9z!\n"
                 "      |      ^~~\n");
}

Test(diag, control_characters_and_broken_utf8_do_not_reach_the_terminal) {
    over("a\033[31mb\xff"
         "c");
    diag_at(&diags, DIAG_SYNTAX, 1, 1, "name '%s'", "\033[0m\x80");
    shows(false, "m.ir:1:2: error[DDP0101]: name '?[0m?'\n"
                 "    1 | a?[31mb?c\n"
                 "      |  ^\n");
}

Test(diag, long_lines_show_a_window) {
    static char text[1001];
    memset(text, 'x', 1000);
    text[1000] = 0;
    text[500] = '!';
    over(text);
    diag_at(&diags, DIAG_SYNTAX, 500, 1, "here");
    char *shown = text_model_diagnostics(&diags, false);
    char *line = strchr(shown, '\n') + 1, *caret = strchr(line, '\n') + 1;
    cr_assert_lt(caret - line, 150);
    cr_assert_eq(strchr(line, '!') - line, strchr(caret, '^') - caret, "\n%s", shown);
    cr_assert(strstr(line, "| ...xxx") && strstr(line, "xxx...\n"));
    free(shown);
    diags_free(&diags);
    source_free(&source);
}

Test(diag, sorted_by_place_then_by_time) {
    over("abcdef");
    diag_plain(&diags, DIAG_CANNOT_READ, "f", "last");
    diag_at(&diags, DIAG_SYNTAX, 3, 1, "second");
    diag_at(&diags, DIAG_SYNTAX, 0, 1, "first");
    diag_at(&diags, DIAG_SYNTAX, 3, 1, "third");
    shows(true, "m.ir:1:1: error[DDP0101]: first\nm.ir:1:4: error[DDP0101]: second\n"
                "m.ir:1:4: error[DDP0101]: third\nf: error[DDP0901]: last\n");
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

/* Warnings, although they come first in the text, leave room for all errors. */
Test(diag, twenty_are_shown_and_errors_first) {
    over("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
    for (ir_loc i = 0; i < 10; i++) diag_at(&diags, DIAG_UNNAMED_INITIALIZER, i, 1, "w");
    for (ir_loc i = 10; i < 25; i++) diag_at(&diags, DIAG_SYNTAX, i, 1, "e");
    cr_assert_eq(diags.errors, 15);
    cr_assert_eq(diags.warnings, 10);
    char *text = text_model_diagnostics(&diags, true);
    cr_assert_eq(count(text, "error["), 15);
    cr_assert_eq(count(text, "warning["), 5);
    cr_assert(strstr(text, "\n5 more warnings not shown\n"));
    free(text);
    for (ir_loc i = 25; i < 31; i++) diag_at(&diags, DIAG_SYNTAX, i, 1, "e");
    text = text_model_diagnostics(&diags, true);
    cr_assert_eq(count(text, "error["), 20);
    cr_assert_eq(count(text, "warning["), 0);
    cr_assert(strstr(text, "\n1 more error not shown\n10 more warnings not shown\n"), "%s", text);
    free(text);
    diags_free(&diags);
    source_free(&source);
}

Test(diag, every_code_has_its_record) {
    cr_assert_str_eq(diag_title(DIAG_SYNTAX), "the text does not fit the grammar");
    cr_assert_not_null(diag_essay(DIAG_SYNTAX));
    cr_assert_null(diag_essay((enum diag_code)9999));
    cr_assert_eq(diag_severity_of(DIAG_UNNAMED_INITIALIZER), DIAG_WARNING);
}

Test(diag, nearest_name) {
    static const char *const names[] = {"", "h1", "conv1.weight", "conv2.weight", "hidden"};
    enum { N = sizeof names / sizeof *names };
    cr_assert_str_eq(diag_nearest("hl", names, N), "h1");
    cr_assert_str_eq(diag_nearest("conv2.weigth", names, N), "conv2.weight"); /* swapped */
    cr_assert_str_eq(diag_nearest("hiden", names, N), "hidden");
    cr_assert_str_eq(diag_nearest("HIDDEN", names, N), "hidden");
    cr_assert_null(diag_nearest("zz", names, N));
    cr_assert_null(diag_nearest("completely_else", names, N));
    cr_assert_null(diag_nearest("", names, N));
    cr_assert_null(diag_nearest("x", names, 0));
}

/* The whole table, without any of the short cuts. */
static unsigned slow_distance(const char *a, const char *b) {
    unsigned d[32][32];
    size_t n = strlen(a), m = strlen(b);
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

static unsigned draw(unsigned *seed, unsigned n) {
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 16) % n;
}

/* Short words, of which most are near; and long ones, which begin or end alike. */
Test(diag, nearest_agrees_with_brute_force) {
    unsigned seed = 7;
    for (int round = 0; round < 20000; round++) {
        char words[4][32];
        unsigned length = 6 + draw(&seed, 14), letters = 2 + draw(&seed, 3),
                 same = draw(&seed, length);
        for (int w = 0; w < 4; w++) {
            unsigned len = length + draw(&seed, 3);
            for (unsigned i = 0; i < len; i++)
                words[w][i] = w && i < same ? words[0][i] : (char)('a' + draw(&seed, letters));
            words[w][len] = 0;
        }
        const char *candidates[] = {words[1], words[2], words[3]}, *expected = NULL;
        unsigned least = (unsigned)strlen(words[0]) / 3 < 6 ? (unsigned)strlen(words[0]) / 3 : 6;
        for (int w = 0; w < 3; w++) {
            unsigned d = slow_distance(words[0], candidates[w]);
            if (d == 0 || d > least || (expected && d == least)) continue;
            least = d;
            expected = candidates[w];
        }
        const char *found = diag_nearest(words[0], candidates, 3);
        cr_assert_eq(found, expected, "%s: %s instead of %s", words[0], found ? found : "none",
                     expected ? expected : "none");
    }
}
