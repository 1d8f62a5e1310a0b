/* The end of the compile path: what the passes decided, as a plan.
 *
 * layout.c turns programs, gradients and schedules into the builder's calls (plan_write.h); emit.c
 * adds what is not a pass's result (options) and opens the finished bytes with the same reader that
 * the runtime has, so that nothing is ever written that would be refused later. */
#ifndef DDPC_EMIT_H
#define DDPC_EMIT_H

#include "pipeline.h"
#include "plan_write.h"

/* The plan of a compilation that went through all passes: its bytes and size are what goes into a
 * file. Ends with plan_close. NULL after reporting (a model that no plan can hold). */
struct plan *emit_plan(struct compilation *c);

/* layout.c */
/* Asked before the schedule, whose sums rely on it. False after reporting what no plan can hold. */
bool layout_fits(struct compilation *c);
void layout_plan(struct compilation *c, struct plan_builder *b);

#endif
