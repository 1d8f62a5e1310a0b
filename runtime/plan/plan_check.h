/* Between plan_read.c and plan_check.c: the second checks the records once the first has set the
 * arrays of *p, whose sizes it has already compared with the file's. */
#ifndef DDPC_PLAN_CHECK_H
#define DDPC_PLAN_CHECK_H

#include "plan.h"

/* The counts of the sections for which struct plan has no field. */
struct plan_extent {
    uint64_t n_text, n_dims, n_names, n_step_params, n_certificates, n_sources;
};
/* Sets p->n_uniform_guards. False with *error filled. */
bool plan_check_records(struct plan *p, const struct plan_extent *extent, struct plan_error *error);

bool plan_fail(struct plan_error *error, enum plan_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
