/* Reading a policy, the file .ddpccheck in which a project writes down what it accepts:
 *
 *     deny never,conditional                                 # as the flag, which wins
 *     allow never pooler.* reason="the checkpoint has it"
 *     allow conditional *.experts.* step=train reason="routed"
 *     allow unknown reason="the vendor's export has no list"
 *
 * It is read by people long after it was written, so a reason is mandatory, and an entry that nothing
 * needs any more is warned of (gate.c, which knows the model). A mistake stops the check: an entry
 * that was misread could allow what nobody wanted. Of a line only the first mistake is shown. */
#define _POSIX_C_SOURCE 200809L
#include "policy.h"
#include "glob.h"
#include "wrappers.h"
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#define POLICY_FILE ".ddpccheck"
#define ENTRY                                                                                      \
    "`allow never|conditional PATTERN [step=NAME] reason=\"WHY\"` or `allow unknown "              \
    "reason=\"WHY\"`"

static const char *const class_names[] = {"never", "conditional", "unknown"};

unsigned denied_of(const char *name) {
    for (unsigned i = 0; i < 3; i++)
        if (!strcmp(name, class_names[i])) return 1u << i;
    return 0;
}

/* A mistake at `length` bytes of the file. */
static bool mistake(struct policy *p, const char *at, size_t length, const char *text,
                    const char *help) {
    struct diag *g = diag_at(&p->diags, DIAG_POLICY_SYNTAX, (ir_loc)(at - p->file.source.bytes),
                             (uint32_t)length, "%s", text);
    diag_set_help(&p->diags, g, "%s", help);
    return false;
}

/* The same for a word that is none of those that may stand there, or not meant as it stands. */
static bool bad_word(struct policy *p, struct word w, const char *what, const char *const *near,
                     size_t n, const char *help) {
    const char *word = arena_strndup(&p->arena, w.text, w.length);
    const char *best = diag_nearest(word, near, n);
    const char *text = arena_printf(&p->arena, "'%s' %s", word, what);
    if (best) help = arena_printf(&p->arena, "did you mean '%s'? %s", best, help);
    return mistake(p, w.from, w.length, text, help);
}

/* Whether `w` is `key=VALUE`, with VALUE perhaps in quotes: then moves the line behind it and sets
 * *value, which is NULL after a mistake. */
static bool read_value(struct policy *p, struct line *line, struct word w, const char *key,
                       const char **value) {
    size_t n = strlen(key);
    if (w.quoted || w.length <= n || memcmp(w.text, key, n) != 0 || w.text[n] != '=') return false;
    if (*value) {
        mistake(p, w.from, n, arena_printf(&p->arena, "a second %s", key), "one is enough");
        *value = NULL;
        return true;
    }
    line->at = w.from + n + 1;
    bool empty = line->at == line->end || isspace((unsigned char)*line->at);
    if (empty || !line_word(line, &p->arena, &w) || !w.length) {
        mistake(p, w.from, w.length ? w.length : 2, arena_printf(&p->arena, "an empty %s", key),
                "an entry is " ENTRY);
    } else if (w.open) {
        mistake(p, w.from, 1, "nothing closes this quote", "close it in the same line");
    } else {
        *value = arena_strndup(&p->arena, w.text, w.length);
    }
    return true;
}

static bool read_deny(struct policy *p, struct word verb, struct line line) {
    struct word w;
    bool any = false;
    while (line_word(&line, &p->arena, &w)) {
        for (const char *at = w.text, *end = w.text + w.length; at < end;) {
            const char *comma = memchr(at, ',', (size_t)(end - at));
            struct word one = w;
            one.text = at;
            one.length = (size_t)((comma ? comma : end) - at);
            if (!w.quoted) one.from = at;
            unsigned class = denied_of(arena_strndup(&p->arena, at, one.length));
            if (!class)
                return bad_word(p, one, "is nothing to deny", class_names, 3,
                                "the words are never, conditional, unknown, with commas between");
            p->deny |= class;
            any = true;
            at = comma ? comma + 1 : end;
        }
    }
    return any || mistake(p, verb.from, verb.length, "`deny` names nothing",
                          "as in `deny never,conditional`");
}

static bool read_allow(struct policy *p, struct word verb, struct line line) {
    struct policy_entry e = {.line = p->file.number};
    struct word w;
    const char *end = verb.from + verb.length;
    if (!line_word(&line, &p->arena, &w))
        return mistake(p, verb.from, verb.length, "`allow` names nothing", "an entry is " ENTRY);
    e.class = denied_of(arena_strndup(&p->arena, w.text, w.length));
    if (!e.class)
        return bad_word(p, w, "is nothing to allow", class_names, 3, "an entry is " ENTRY);
    for (end = line.at; line_word(&line, &p->arena, &w); end = line.at) {
        const char **value = NULL;
        if (read_value(p, &line, w, "reason", &e.reason))
            value = &e.reason;
        else if (read_value(p, &line, w, "step", &e.step))
            value = &e.step;
        if (value && !*value) return false;
        if (value) continue;
        const char *equal = w.quoted ? NULL : memchr(w.text, '=', w.length);
        if (w.open)
            return mistake(p, w.from, 1, "nothing closes this quote", "close it in the same line");
        if (equal) {
            struct word key = w;
            key.length = (size_t)(equal - w.text);
            static const char *const keys[] = {"reason", "step"};
            return bad_word(p, key, "is no key", keys, 2,
                            "the keys are reason and step; a pattern with '=' goes in quotes");
        }
        if (e.class == DENY_UNKNOWN)
            return bad_word(p, w, "stands where a reason must", NULL, 0,
                            "`unknown` is a verdict, about no parameter: `allow unknown "
                            "reason=\"WHY\"`");
        if (e.glob)
            return bad_word(p, w, "is one word too many", NULL, 0,
                            "a line has one pattern; a reason of several words goes in quotes");
        e.glob = arena_strndup(&p->arena, w.text, w.length);
    }
    if (e.class == DENY_UNKNOWN && e.step)
        return mistake(p, verb.from, (size_t)(end - verb.from), "`unknown` is of no one step",
                       "it is the verdict on the model: `allow unknown reason=\"WHY\"`");
    e.loc = (ir_loc)(verb.from - p->file.source.bytes);
    e.length = (uint32_t)(end - verb.from);
    if (e.class != DENY_UNKNOWN && !e.glob)
        return mistake(p, verb.from, e.length, "this entry names no parameter",
                       "an entry is " ENTRY);
    if (!e.reason)
        return mistake(p, verb.from, e.length, "this entry has no reason",
                       "write why, for whoever reads it next: reason=\"the checkpoint has it\"");
    vec_push(&p->allow, e);
    return true;
}

static bool read_line(struct policy *p, struct line line) {
    static const char *const verbs[] = {"allow", "deny"};
    struct word verb;
    line_word(&line, &p->arena, &verb);
    if (word_is(verb, verbs[0])) return read_allow(p, verb, line);
    if (word_is(verb, verbs[1])) return read_deny(p, verb, line);
    return bad_word(p, verb, "begins no line of a policy", verbs, 2,
                    "a line is " ENTRY ", or `deny never,conditional`");
}

bool policy_read(struct policy *p, const char *path) {
    *p = (struct policy){0};
    if (path ? !strcmp(path, "none") : access(POLICY_FILE, F_OK) != 0) return true;
    p->path = path ? path : POLICY_FILE;
    diags_init(&p->diags, &p->file.source);
    bool ok = lines_open(&p->file, p->path, "policy", &p->diags);
    for (struct line line; ok && lines_next(&p->file, &line);) read_line(p, line);
    p->path = p->file.path;
    return ok && !p->diags.errors;
}

void policy_free(struct policy *p) {
    lines_close(&p->file);
    diags_free(&p->diags);
    vec_free(&p->allow);
    arena_free(&p->arena);
}

static bool names(const char *glob, const char *name) {
    return !strcmp(glob, name) || glob_match(glob, name);
}

/* Wrappers' prefixes do not count, neither before the name nor before the pattern. */
bool policy_names(const struct policy_entry *e, const char *name, size_t prefix) {
    if (!e->glob) return false;
    const char *bare = e->glob + wrappers_prefix(&e->glob, 1);
    return names(e->glob, name) || names(bare, name + prefix) || names(e->glob, name + prefix);
}
