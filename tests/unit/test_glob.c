/* Globs: each form, the traps of '*', and a comparison with a plain recursive matcher. */
#include "glob.h"
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

Test(glob, literals) {
    cr_assert(glob_match("", ""));
    cr_assert(!glob_match("", "a"));
    cr_assert(glob_match("layer.0.weight", "layer.0.weight"));
    cr_assert(!glob_match("layer.0.weight", "layer.0.weights"));
    cr_assert(!glob_match("layer.0.weights", "layer.0.weight"));
}

Test(glob, star_crosses_dots_and_slashes) {
    cr_assert(glob_match("gen.*", "gen.0.conv.weight"));
    cr_assert(!glob_match("gen.*", "gen"));
    cr_assert(glob_match("*", ""));
    cr_assert(glob_match("*.bias", "a/b.c.bias"));
    cr_assert(glob_match("*bias*", "bias"));
    cr_assert(glob_match("a*b*c", "a-b-b-c"));
    cr_assert(!glob_match("a*b*c", "a-c-b"));
    cr_assert(glob_match("**a", "ba"));
}

Test(glob, question_mark_is_one_byte) {
    cr_assert(glob_match("h.?.w", "h.3.w"));
    cr_assert(!glob_match("h.?.w", "h.13.w"));
    cr_assert(!glob_match("?", ""));
}

Test(glob, sets) {
    cr_assert(glob_match("h.[0-3].w", "h.3.w"));
    cr_assert(!glob_match("h.[0-3].w", "h.4.w"));
    cr_assert(glob_match("h.[!0-3].w", "h.4.w"));
    cr_assert(glob_match("[abc-]", "-"));
    cr_assert(glob_match("[]x]", "]"));
    cr_assert(!glob_match("[]x]", "y"));
    cr_assert(glob_match("*[xy]", "axbxzy"));
    cr_assert(glob_match("[abc", "[abc"), "a '[' that is never closed stands for itself");
    cr_assert(!glob_match("[abc", "a"));
    cr_assert(glob_match("[\xc3]", "\xc3"), "bytes above 127");
}

static bool reference(const char *glob, const char *text) {
    if (!*glob) return !*text;
    if (*glob == '*') return reference(glob + 1, text) || (*text && reference(glob, text + 1));
    return *text && (*glob == '?' || *glob == *text) && reference(glob + 1, text + 1);
}

Test(glob, equals_a_recursive_matcher) {
    unsigned long long seed = 1;
    for (int i = 0; i < 200000; i++) {
        char glob[7], text[9];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned long long bits = seed >> 20;
        size_t g = bits % 7, t = (bits >> 3) % 9;
        bits >>= 6;
        for (size_t k = 0; k < g; k++, bits >>= 2) glob[k] = "ab*?"[bits & 3];
        for (size_t k = 0; k < t; k++, bits >>= 1) text[k] = "ab"[bits & 1];
        glob[g] = text[t] = 0;
        cr_assert_eq(glob_match(glob, text), reference(glob, text), "'%s' on '%s'", glob, text);
    }
}

Test(glob, many_stars_are_not_exponential) {
    char text[4001];
    memset(text, 'a', 4000);
    text[4000] = 0;
    clock_t start = clock();
    cr_assert(!glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
    cr_assert_lt((double)(clock() - start) / CLOCKS_PER_SEC, 1.0);
}
