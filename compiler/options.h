/* What the command line asks of the compile path, as plain data. The tool fills it from flags.def;
 * every pass reads what concerns it. Strings are borrowed from argv. */
#ifndef DDPC_OPTIONS_H
#define DDPC_OPTIONS_H

#include "arena.h"
#include <stdbool.h>

typedef VEC(const char *) string_list;

enum schedule_policy { SCHEDULE_ROBUST, SCHEDULE_EXACT, SCHEDULE_DDP, SCHEDULE_SINGLE };
enum ddp_order { ORDER_READY, ORDER_REGISTRATION, ORDER_DDP_FLAG };
enum average { AVERAGE_WORLD, AVERAGE_PRESENT, AVERAGE_NONE };
enum guards { GUARDS_DISCOVERED, GUARDS_REPORTED };

struct options {
    /* Which gradients exist (program.c). */
    string_list loss;      /* --loss NAME, several are summed */
    string_list trainable; /* --trainable GLOB */
    string_list frozen;    /* --frozen GLOB */
    string_list uniform;   /* --uniform GLOB: branches with the same value on every rank */
    string_list assume;    /* --assume NAME=true|false */
    string_list tie;       /* --tie A=B */
    string_list alias;     /* --alias EXPORTED=REAL */
    string_list step;      /* --step "NAME: loss=... trainable=... assume=..." */
    string_list dim;       /* --dim B=32 */
    string_list assume_differentiable; /* --assume-differentiable GLOB */
    const char *params;                /* --params FILE */
    const char *params_from;           /* --params-from ConstantOfShape */
    const char *from_list;             /* --from-list FILE */
    const char *ops;                   /* --ops FILE */

    /* How they are reduced (order.c, cost.c, schedule.c). */
    enum schedule_policy schedule;
    enum ddp_order order;
    double bucket_cap_mib;   /* 0: none for exact; 25 for ddp */
    double first_bucket_mib; /* ddp: 1 */
    int max_buckets;         /* 0: no limit */
    const char *topology;    /* preset or file; NULL: h100x8 */
    const char *device;      /* preset or file; NULL: h100 */
    const char *profile;     /* --profile FILE */
    enum average average;
    enum guards guards;
};

#endif
