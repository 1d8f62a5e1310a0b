/* What a condition over the paths of a recording says in batches: "in batches 1, 3 and 4 of 6". */
#ifndef DDPC_PATHS_H
#define DDPC_PATHS_H

#include "conditions.h"

/* The value of a property `ddpc.paths` or `ddpc.paths.STEP`: "variant_1=1,3 variant_2=2 else=4".
 * False if it does not read. */
bool paths_read(struct program *p, const char *value);
/* NULL unless the guard is over the paths of one step. The text is in the arena. */
const char *paths_words(const struct program *p, const struct branches *b, bdd guard,
                        struct arena *a);

#endif
