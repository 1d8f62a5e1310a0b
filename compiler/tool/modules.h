/* Parameters by module: the dots in their names tell which neighbours belong together. */
#ifndef DDPC_MODULES_H
#define DDPC_MODULES_H

#include "program.h"

/* The parameters [first, first + n). prefix: the bytes of the module's name and its dot, if they
 * are all that the module has; else 0, and they are just neighbours in one module. */
struct module_group {
    uint32_t first, n;
    size_t prefix;
};

/* The largest group from `first` on whose parameters have equal keys. `key` is by parameter; NULL
 * (a buffer) fits any. */
struct module_group modules_group(const struct program *p, const char *const *key, uint32_t first);

#endif
