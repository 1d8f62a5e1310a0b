/* Filling public errors. */
#ifndef DDPRT_ERROR_H
#define DDPRT_ERROR_H

#include "comm.h"
#include "plan.h"

/* Sets *error (which may be NULL) to this code without a place, text formatted; returns the code.
 */
int error_set(ddprt_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The record in words, with the plan's names; returns its code. `plan` may be NULL. */
int error_from_record(ddprt_error *error, const struct plan *plan,
                      const struct comm_record *record);
/* The same for a failure that has no step yet. */
int error_while_opening(ddprt_error *error, const struct comm_record *record);

#endif
