/* Agreement. Every rank says what it is about to run: the plan's semantic hash, which covers
 * everything that decides which bytes meet which (plan.h), the protocol's version and the size of
 * the job. All get all and compare, so all come to the same verdict about the same rank: the one
 * that differs from what most say, or from rank 0 where there is no most. */
#include "agree.h"

#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct statement {
    uint8_t hash[16];
    uint32_t protocol;
    int32_t size;
};

/* The first eight bytes are plenty to tell plans apart by eye, and what `ddpc dump` begins with. */
static const char *hex(const uint8_t hash[16], char out[17]) {
    for (int i = 0; i < 8; i++) snprintf(out + 2 * i, 3, "%02x", hash[i]);
    return out;
}

static int differ(const struct statement *all, int odd, int usual, ddprt_error *error) {
    const struct statement *a = &all[odd], *b = &all[usual];
    char x[17], y[17];
    int code = DDPRT_OTHER_PLAN;
    if (a->protocol != b->protocol)
        error_set(error, code, "rank %d speaks protocol %u, rank %d protocol %u", odd, a->protocol,
                  usual, b->protocol);
    else if (a->size != b->size)
        error_set(error, code, "rank %d belongs to a job of %d ranks, rank %d to one of %d", odd,
                  a->size, usual, b->size);
    else
        error_set(error, code,
                  "rank %d runs another plan: its hash begins with %s, that of rank %d with %s",
                  odd, hex(a->hash, x), usual, hex(b->hash, y));
    if (error) error->rank = odd;
    return code;
}

int agree(ddprt_comm *c, const struct plan *plan, int64_t deadline_ns, ddprt_error *error) {
    struct statement mine, *all = malloc((size_t)c->size * sizeof *all);
    if (!all) return error_set(error, DDPRT_NO_MEMORY, "out of memory");
    memset(&mine, 0, sizeof mine);
    memcpy(mine.hash, plan->header->semantic_hash, sizeof mine.hash);
    mine.protocol = PLAN_PROTOCOL;
    mine.size = c->size;
    struct comm_record failure = COMM_RECORD_NONE;
    int code = c->ops->gather(c, &mine, sizeof mine, all, deadline_ns, &failure);
    if (code) error_while_opening(error, &failure);
    int usual = 0, votes = 0;
    for (int r = 0; !code && r < c->size; r++) {
        int same = 0;
        for (int k = 0; k < c->size; k++) same += !memcmp(&all[r], &all[k], sizeof mine);
        if (same > votes) usual = r, votes = same;
    }
    for (int r = 0; !code && r < c->size; r++)
        if (memcmp(&all[r], &all[usual], sizeof mine)) code = differ(all, r, usual, error);
    free(all);
    return code;
}
