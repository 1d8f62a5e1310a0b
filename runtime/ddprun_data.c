/* Made-up gradients, and what their sums must be.
 *
 * Element i of a parameter's gradient is a whole number from -4 to 4, so that the sum over 64 ranks
 * is exact even in bfloat16, and every rank can tell what it must read. The numbers repeat after a
 * prime number of elements, which no alignment, slice or page is a multiple of: a block that ended
 * up in the wrong place shows. Filling and checking then are copies and comparisons of whole
 * stretches, as fast as memory, so that every element of every iteration can be checked.
 *
 * Averages are recomputed by their definition (the sum times the reciprocal, in float32 for types
 * up to 32 bits) and compared exactly.
 *
 * Branches are drawn per iteration, the ones that are not uniform per rank too; a conditional
 * parameter has a gradient where its guard holds, and in three of four cases where a guard that is
 * not exact does. */
#include "ddprun.h"
#include "reduce.h"

#include <string.h>

enum { PERIOD = 251, STRETCH = 8 * PERIOD };

/* A good mixing of a few small numbers. Source: the finalizer of MurmurHash3. */
static uint32_t mix(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t h = a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static int whole_number(uint32_t place) { return (int)(mix(place % PERIOD, 1, 2) % 9) - 4; }

/* Where in the period a gradient begins. */
static uint32_t start_of(int iteration, int rank, uint32_t param) {
    return mix((uint32_t)iteration, (uint32_t)rank + 1000, param) % PERIOD;
}

static size_t store(uint32_t dtype, unsigned char *at, double x) {
    float f = (float)x;
    uint16_t h;
    switch (dtype) {
    case PLAN_FLOAT64: memcpy(at, &x, sizeof x); return sizeof x;
    case PLAN_FLOAT32: memcpy(at, &f, sizeof f); return sizeof f;
    case PLAN_FLOAT16: h = reduce_to_float16(f); break;
    default: h = reduce_to_bfloat16(f); break;
    }
    memcpy(at, &h, sizeof h);
    return sizeof h;
}

static double load(uint32_t dtype, const unsigned char *at) {
    double d;
    float f;
    uint16_t h;
    switch (dtype) {
    case PLAN_FLOAT64: memcpy(&d, at, sizeof d); return d;
    case PLAN_FLOAT32: memcpy(&f, at, sizeof f); return (double)f;
    default:
        memcpy(&h, at, sizeof h);
        return dtype == PLAN_FLOAT16 ? (double)reduce_from_float16(h)
                                     : (double)reduce_from_bfloat16(h);
    }
}

/* The numbers repeated as often as a stretch holds them, or `elements` long if that is less. */
static size_t repeat(unsigned char *stretch, size_t element, uint64_t elements) {
    size_t n = elements < STRETCH ? (size_t)elements : STRETCH;
    for (size_t i = PERIOD; i < n; i += PERIOD)
        memcpy(stretch + i * element, stretch, (n - i < PERIOD ? n - i : PERIOD) * element);
    return n * element;
}

void data_branches(const struct job *j, int iteration, int rank, uint8_t *value) {
    for (uint32_t b = 0; b < j->plan->n_branches; b++) {
        uint32_t who = j->plan->branch[b].uniform ? 0 : (uint32_t)rank + 1;
        value[b] = mix((uint32_t)iteration, who, b + 77) >> 7 & 1;
    }
}

bool data_present(const struct job *j, int iteration, int rank, uint32_t param,
                  const uint8_t *branches) {
    const struct plan_step_param *s = plan_step_param(j->plan, job_step(j, iteration), param);
    if (s->class != PLAN_CONDITIONAL) return s->class == PLAN_ALWAYS;
    if (s->guard != PLAN_NONE && !plan_guard_holds(j->plan, s->guard, branches)) return false;
    return s->exact || mix((uint32_t)iteration, (uint32_t)rank, param + 5) % 4 != 0;
}

void data_fill(const struct job *j, int iteration, int rank, uint32_t param, void *grad) {
    unsigned char stretch[STRETCH * 8], *to = grad;
    const struct plan_param *p = &j->plan->param[param];
    size_t element = reduce_element_bytes(p->dtype);
    uint32_t start = start_of(iteration, rank, param);
    for (uint32_t i = 0; i < PERIOD && i < p->elements; i++)
        store(p->dtype, stretch + i * element, whole_number(start + i));
    size_t bytes = repeat(stretch, element, p->elements);
    for (uint64_t left = p->elements * element; left > 0; to += bytes) {
        if (bytes > left) bytes = (size_t)left;
        memcpy(to, stretch, bytes);
        left -= bytes;
    }
}

static double average(const struct job *j, int iteration, uint32_t param, int sum, int n_present) {
    uint32_t step = job_step(j, iteration), average = j->plan->step[step].average;
    bool always = plan_step_param(j->plan, step, param)->class == PLAN_ALWAYS;
    if (average == PLAN_UNSCALED || n_present == 0) return sum;
    double factor = 1.0 / (average == PLAN_PRESENT && !always ? n_present : j->options.ranks);
    if (j->plan->param[param].dtype == PLAN_FLOAT64) return sum * factor;
    return (double)((float)sum * (float)factor);
}

int64_t data_check(const struct job *j, int iteration, uint32_t param, const bool *present,
                   const void *grad, double *got, double *want) {
    unsigned char stretch[STRETCH * 8];
    const unsigned char *at = grad;
    const struct plan_param *p = &j->plan->param[param];
    size_t element = reduce_element_bytes(p->dtype);
    uint32_t start[DDPRT_LOCAL_MAX];
    int n = 0;
    for (int r = 0; r < j->options.ranks; r++)
        if (present[r]) start[n++] = start_of(iteration, r, param);
    for (uint32_t i = 0; i < PERIOD && i < p->elements; i++) {
        int sum = 0;
        for (int r = 0; r < n; r++) sum += whole_number(start[r] + i);
        store(p->dtype, stretch + i * element, average(j, iteration, param, sum, n));
    }
    size_t bytes = repeat(stretch, element, p->elements);
    for (uint64_t done = 0, all = p->elements * element; done < all; done += bytes) {
        if (bytes > all - done) bytes = (size_t)(all - done);
        if (memcmp(at + done, stretch, bytes) == 0) continue;
        for (size_t i = 0; i < bytes; i += element) {
            *got = load(p->dtype, at + done + i);
            *want = load(p->dtype, stretch + i);
            if (!(*got == *want)) return (int64_t)((done + i) / element);
        }
    }
    return -1;
}
