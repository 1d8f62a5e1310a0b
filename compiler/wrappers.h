/* What wrappers of a module put before the names of its parameters. */
#ifndef DDPC_WRAPPERS_H
#define DDPC_WRAPPERS_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes of wrappers all n names begin with: 17 if each begins with "module._orig_mod.". A
 * prefix that only some have belongs to the module itself. */
size_t wrappers_prefix(const char *const *names, uint32_t n);

#endif
