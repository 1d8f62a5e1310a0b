/* Before the first collective: do all ranks run the same? */
#ifndef DDPRT_AGREE_H
#define DDPRT_AGREE_H

#include "comm.h"
#include "plan.h"

/* Collective. 0, or the same code on every rank with the rank at fault named. */
int agree(ddprt_comm *c, const struct plan *plan, int64_t deadline_ns, ddprt_error *error);

#endif
