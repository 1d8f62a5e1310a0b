/* What a plan claims about a step, checked: its certificate, and that its records agree with each
 * other where opening a plan has no opinion. */
#ifndef DDPC_CLAIMS_H
#define DDPC_CLAIMS_H

#include "arena.h"
#include "certificate.h"
#include "plan.h"

/* The groups of a step's gradients, which never share a bucket: numbered as they first appear, which
 * is the order in which groups that are late have to follow each other. */
struct claims_groups {
    uint32_t n, *of; /* by bucket of the step, for those of gradients */
    bool *late;      /* by group */
};
struct claims_groups claims_groups(const struct plan *p, uint32_t step, struct arena *a);

struct claims {
    struct certificate certificate; /* arrays in the arena */
    struct certificate_report report;
};
void claims_check(const struct plan *p, uint32_t step, struct arena *a, struct claims *out);

#endif
