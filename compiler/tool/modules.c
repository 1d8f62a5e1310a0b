/* Grouping parameters by module, so that a report says a thing once: `encoder.layers.0.*` instead
 * of the sixteen tensors of that layer.
 *
 * Modules list their parameters together, so the parameters below a prefix that ends in a dot are
 * neighbours. A group is a whole module if every parameter below the prefix has the key of the
 * first; prefixes are tried from the outermost, and each only from the first parameter below it. So
 * each parameter is looked at once per dot of its name. */
#include "modules.h"
#include <string.h>

static const char *name_of(const struct program *p, uint32_t i) {
    return ir_text(p->m, p->params.at[i].name);
}

static bool below(const struct program *p, uint32_t i, const char *name, size_t prefix) {
    return strncmp(name_of(p, i), name, prefix) == 0;
}

static bool same_key(const char *a, const char *b) { return a == b || strcmp(a, b) == 0; }

/* How many parameters are below the prefix of the first's name; 0 if their keys differ, or if it is
 * not the first below it. */
static uint32_t whole_module(const struct program *p, const char *const *key, uint32_t first,
                             size_t prefix) {
    const char *name = name_of(p, first);
    if (first && below(p, first - 1, name, prefix)) return 0;
    uint32_t n = 1;
    for (; first + n < p->params.n && below(p, first + n, name, prefix); n++)
        if (key[first + n] && !same_key(key[first], key[first + n])) return 0;
    return n;
}

/* The longest prefix, from this one on, that all of them share. */
static size_t innermost(const struct program *p, uint32_t first, uint32_t n, size_t prefix) {
    const char *name = name_of(p, first);
    for (const char *dot; (dot = strchr(name + prefix, '.')) != NULL;) {
        size_t longer = (size_t)(dot - name) + 1;
        for (uint32_t i = 1; i < n; i++)
            if (!below(p, first + i, name, longer)) return prefix;
        prefix = longer;
    }
    return prefix;
}

struct module_group modules_group(const struct program *p, const char *const *key, uint32_t first) {
    const char *name = name_of(p, first);
    size_t module = 0; /* of the innermost one */
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        module = (size_t)(dot - name) + 1;
        uint32_t n = whole_module(p, key, first, module);
        if (n > 1) return (struct module_group){first, n, innermost(p, first, n, module)};
    }
    struct module_group group = {first, 1, 0};
    for (uint32_t i = first + 1; i < p->params.n; i++, group.n++) {
        const char *other = name_of(p, i);
        if (!key[i] || !same_key(key[first], key[i])) break;
        if (!below(p, i, name, module) || strchr(other + module, '.')) break;
    }
    return group;
}
