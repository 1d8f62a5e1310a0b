/* --from-list FILE: a program without a graph, one parameter a line in declaration order:
 *
 *     name dtype shape [ready_us] [guard]
 *     gen.weight  float32 3x5  12.5  !d_turn
 *     disc.weight float32 [5]  30    d_turn && !(skip || eval)
 *
 * ready_us is when the gradient is ready, in µs from the start of backward; all lines have one or
 * none has. The guard says under which branches there is a gradient; without one, always. */
#ifndef DDPC_FROM_LIST_H
#define DDPC_FROM_LIST_H

#include "cost.h"

/* Builds the program with its one step `train`, its branches, and what reach and order would find
 * out. `m` is an initialised, empty module that keeps the strings and types. False after reporting.
 */
bool from_list_read(struct program *p, struct ir_module *m, const struct options *o,
                    struct branches *b, struct reach *reach, struct ready_times *ready,
                    struct diags *d);

#endif
