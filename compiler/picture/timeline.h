/* A step as a picture: the backward pass above, the channel below, once for each schedule. */
#ifndef DDPC_TIMELINE_H
#define DDPC_TIMELINE_H

#include "simulate.h"
#include <stdio.h>

struct timeline {
    const char *title;    /* of the step */
    const char *backward; /* whose it is: "backward", "backward of the last rank" */
    const struct sim_work *work;
    const double *at_us; /* by moment: the draw that is shown */
    const struct topology *topology;
    struct sim_schedule *schedule; /* the plan's first; replayed here */
    uint32_t n;
    const char *const *name;  /* of each gradient */
    const char *const *group; /* of each group, in words */
};

/* One self-contained SVG of all steps, below each other. */
void timeline_svg(const char *title, const struct timeline *t, uint32_t n, FILE *out);

/* "12.3 µs", "4.56 ms"; "12 kB", "283.6 MB". */
const char *timeline_time(struct arena *a, double us);
const char *timeline_bytes(struct arena *a, uint64_t bytes);
/* The part of a parameter's name that says where in the model it is, such as `encoder.layer.11`: up
 * to the first number among its components, else all but the last, at most two. Its length. */
size_t timeline_module(const char *name);

#endif
