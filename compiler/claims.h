/* What a plan claims about a step, checked: its certificate, and that its records agree with each
 * other where opening a plan has no opinion. */
#ifndef DDPC_CLAIMS_H
#define DDPC_CLAIMS_H

#include "arena.h"
#include "certificate.h"
#include "plan.h"

struct claims {
    struct certificate certificate; /* arrays in the arena */
    struct certificate_report report;
};
void claims_check(const struct plan *p, uint32_t step, struct arena *a, struct claims *out);

#endif
