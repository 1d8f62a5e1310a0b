/* Glob matching without recursion: where a text does not fit what follows a '*', only the latest
 * '*' can usefully take more, so one saved position is enough and the time is at most the product
 * of both lengths. (fnmatch depends on the locale and lets a leading '.' or '/' be special.) */
#include "glob.h"
#include <stddef.h>

/* `set` is behind the '['. Returns what is behind the ']', or NULL if there is none, and whether
 * `c` is one of the set. A ']' that comes first is a member. */
static const char *match_set(const char *set, unsigned char c, bool *matches) {
    bool negated = *set == '!' || *set == '^', found = false;
    if (negated) set++;
    const char *first = set;
    while (*set && (*set != ']' || set == first)) {
        unsigned char low = (unsigned char)*set++, high = low;
        if (set[0] == '-' && set[1] && set[1] != ']') {
            high = (unsigned char)set[1];
            set += 2;
        }
        found |= low <= c && c <= high;
    }
    *matches = found != negated;
    return *set ? set + 1 : NULL;
}

/* Whether the first item of the glob takes the byte `c`; *after is what follows the item. */
static bool match_one(const char *glob, char c, const char **after) {
    bool matches;
    if (*glob == '[' && (*after = match_set(glob + 1, (unsigned char)c, &matches))) return matches;
    *after = glob + 1;
    return *glob == '?' || *glob == c;
}

bool glob_match(const char *glob, const char *text) {
    const char *star = NULL, *star_text = NULL, *after;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            star_text = text;
        } else if (*glob && match_one(glob, *text, &after)) {
            glob = after;
            text++;
        } else if (star) {
            glob = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*glob == '*') glob++;
    return !*glob;
}
