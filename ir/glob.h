/* Shell-style patterns for names of parameters, branches and operators. */
#ifndef DDPC_GLOB_H
#define DDPC_GLOB_H

#include <stdbool.h>

/* '*' any run of bytes, '?' one byte, '[a-z]' one of, '[!a-z]' none of. Everything else, '.' and
 * '/' included, stands for itself; a '[' without its ']' does too. The whole text must match. */
bool glob_match(const char *glob, const char *text);

#endif
