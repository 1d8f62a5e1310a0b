/* The paths that a recording's batches took.
 *
 * A recorder writes each path of a step as a branch of a chain of Ifs: the first boolean is true for
 * the batches of the first path, the second for those of the second, and the last else is the rest.
 * A guard over these booleans is true on some of the paths. Which ones is found by trying each:
 * what a person wants to read is not `!variant_1 && variant_2` but the batches. */
#include "paths.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS_SHOWN = 8 };

bool paths_read(struct program *p, const char *value) {
    struct paths paths = {0};
    bool ok = true, last = false;
    const char *blanks = " \t\n";
    for (const char *at = value + strspn(value, blanks); *at && ok; at += strspn(at, blanks)) {
        size_t name = strcspn(at, "= \t\n");
        ok = !last && name && at[name] == '=';
        if (!ok) break;
        last = name == 4 && !memcmp(at, "else", 4);
        struct path path = {.branch = last ? NULL : arena_strndup(&p->arena, at, name),
                            .first = paths.batch.n};
        at += name;
        do {
            char *end;
            long batch = strtol(++at, &end, 10);
            ok = end != at && batch > 0 && batch < INT32_MAX;
            if (ok) vec_push(&paths.batch, (uint32_t)batch);
            at = end;
        } while (ok && *at == ',');
        path.n = paths.batch.n - path.first;
        ok &= !*at || strchr(blanks, *at);
        vec_push(&paths.all, path);
    }
    if (ok && last)
        vec_push(&p->paths, paths);
    else {
        vec_free(&paths.all);
        vec_free(&paths.batch);
    }
    return ok && last;
}

/* The place in the chain of the path that the variable chooses, or the number of paths. */
static uint32_t place_of(const struct paths *s, const struct branches *b, uint32_t variable) {
    uint32_t k = 0;
    if (variable >= b->all.n) return s->all.n;
    while (k < s->all.n &&
           (!s->all.at[k].branch || strcmp(s->all.at[k].branch, b->all.at[variable].name) != 0))
        k++;
    return k;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* "batch 2", "batches 1, 3-5 and 9" */
static const char *batches_text(uint32_t *batch, uint32_t n, struct arena *a) {
    qsort(batch, n, sizeof *batch, ascending);
    const char *text = n == 1 ? "batch " : "batches ";
    for (uint32_t i = 0, last, runs = 0; i < n; i = last + 1, runs++) {
        if (runs == RUNS_SHOWN) return arena_printf(a, "%s, ...", text);
        for (last = i; last + 1 < n && batch[last + 1] == batch[last] + 1;) last++;
        if (last == i + 1) last = i; /* two neighbours are no range */
        const char *join = !i ? "" : last + 1 == n ? " and " : ", ";
        text = last == i ? arena_printf(a, "%s%s%u", text, join, batch[i])
                         : arena_printf(a, "%s%s%u-%u", text, join, batch[i], batch[last]);
    }
    return text;
}

/* place[i] is that of the guard's variable i. */
static const char *words(const struct paths *s, const struct branches *b, const bdd_support *on,
                         const uint32_t *place, bdd guard, struct arena *a) {
    VEC(uint32_t) batches = {0};
    bool *value = arena_new(a, bool, on->at[on->n - 1] + 1);
    for (uint32_t k = 0; k < s->all.n; k++) {
        for (uint32_t i = 0; i < on->n; i++) value[on->at[i]] = place[i] == k;
        if (!bdd_eval(b->bdd, guard, value)) continue;
        for (uint32_t i = 0; i < s->all.at[k].n; i++)
            vec_push(&batches, s->batch.at[s->all.at[k].first + i]);
    }
    const char *text = NULL;
    if (batches.n)
        text = arena_printf(a, "in %s of %u", batches_text(batches.at, batches.n, a), s->batch.n);
    vec_free(&batches);
    return text;
}

const char *paths_words(const struct program *p, const struct branches *b, bdd guard,
                        struct arena *a) {
    const char *text = NULL;
    bdd_support on = {0};
    bdd_support_of(b->bdd, guard, &on);
    uint32_t *place = p->paths.n ? arena_new(a, uint32_t, on.n) : NULL;
    for (uint32_t i = 0; i < p->paths.n && !text; i++) {
        const struct paths *s = &p->paths.at[i];
        uint32_t known = 0;
        while (known < on.n && (place[known] = place_of(s, b, on.at[known])) < s->all.n) known++;
        if (known && known == on.n) text = words(s, b, &on, place, guard, a);
    }
    vec_free(&on);
    return text;
}
