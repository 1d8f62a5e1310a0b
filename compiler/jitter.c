/* Drawing a step.
 *
 * A collective waits for the last rank, so of all ranks' times only the latest counts; but which
 * that is depends on all of them. So every rank is drawn, stretch by stretch. There is no shorter
 * way that is honest: the latest of N random walks at each of a few hundred moments has no
 * distribution that could be drawn from directly. It is made cheap instead. A rank's deviation from
 * the undisturbed time is a float, a stretch adds one random number to it, and sixteen ranks are one
 * vector. Without jitter of operations a rank is a constant factor, and only the largest counts.
 *
 * Rank r takes for a stretch of d µs
 *
 *     d * f_r * (1 + J x),   f_r = factor_r * (1 + R z)
 *
 * x is triangular, from the two halves of one 32-bit number, with deviation 1: from -2.45 to 2.45. z
 * is drawn once per rank and step, the sum of twelve uniform numbers, close to normal. Each rank has
 * a generator of its own in each step, started from a hash of seed, step and rank, so a step can be
 * drawn again by itself.
 *
 * Generators: xorshift32 (G. Marsaglia, 2003) and the finalizer of splitmix64 (G. Steele et al.,
 * 2014). Integers, and +, *, comparisons of floats without contraction: the same bits everywhere. */
#include "jitter.h"
#include <math.h>

enum { WIDTH = 16, BLOCK = 512 }; /* ranks in a vector, and side by side in the cache */

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Of different uses of one seed. */
enum use { USE_OP = 1, USE_RANK, USE_NETWORK, USE_CHOICE };

static uint64_t stream(uint64_t seed, enum use use, uint32_t step) {
    return mix(mix(seed + (uint64_t)use) + step);
}

/* Mean 0, deviation 1, from -6 to 6. */
static double near_normal(uint64_t stream, uint32_t rank) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t x = mix(stream + ((uint64_t)rank << 2 | i));
        sum += (uint32_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
    }
    return ((double)sum + 6) / 65536 - 6;
}

static double factor_of(const struct jitter *j, uint64_t stream, uint32_t rank) {
    double factor = j->factor ? j->factor[rank] : 1;
    return j->rank > 0 ? factor * (1 + j->rank * near_normal(stream, rank)) : factor;
}

/* A block of ranks, structure of arrays. */
struct block {
    uint32_t state[BLOCK];
    float late[BLOCK];   /* µs behind the undisturbed time so far */
    float longer[BLOCK]; /* f - 1 */
    float factor[BLOCK]; /* f */
};

/* All ranks of the block go through a stretch: `by` µs, `jitter` of it. most[] is raised to the
 * latest, element by element. */
static void stretch(struct block *b, float by, float jitter, float most[WIDTH]) {
    for (uint32_t first = 0; first < BLOCK; first += WIDTH) {
        for (uint32_t l = 0; l < WIDTH; l++) {
            uint32_t r = first + l, x = b->state[r];
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            b->state[r] = x;
            float draw = (float)((int32_t)(x & 0xffff) + (int32_t)(x >> 16) - 65535);
            float late = b->late[r] + (by * b->longer[r] + jitter * draw * b->factor[r]);
            b->late[r] = late;
            most[l] = late > most[l] ? late : most[l];
        }
    }
}

static uint32_t draw_ops(const struct jitter *j, uint32_t step, uint32_t n, const double *moment_us,
                         double *at_us) {
    static const double unit = 2.449489742783178 / 65536; /* sqrt 6 / 2^16 */
    uint64_t ops = stream(j->seed, USE_OP, step), ranks = stream(j->seed, USE_RANK, step);
    uint32_t slowest = 0;
    float latest = -INFINITY, earliest = INFINITY;
    for (uint32_t i = 0; i < n; i++) at_us[i] = -INFINITY;
    for (uint32_t first = 0; first < j->ranks; first += BLOCK) {
        struct block b;
        uint32_t used = j->ranks - first < BLOCK ? j->ranks - first : BLOCK;
        for (uint32_t l = 0; l < BLOCK; l++) {
            /* Those beyond the last rank repeat it: they change no maximum. */
            uint32_t rank = first + (l < used ? l : used - 1);
            double factor = factor_of(j, ranks, rank);
            b.state[l] = (uint32_t)(mix(ops + rank) >> 32);
            b.state[l] += b.state[l] == 0;
            b.late[l] = 0;
            b.longer[l] = (float)(factor - 1);
            b.factor[l] = (float)factor;
        }
        for (uint32_t i = 0; i < n; i++) {
            double by = moment_us[i] - (i ? moment_us[i - 1] : 0);
            float most[WIDTH];
            for (uint32_t l = 0; l < WIDTH; l++) most[l] = -INFINITY;
            stretch(&b, (float)by, (float)(by * j->op * unit), most);
            for (uint32_t l = 0; l < WIDTH; l++)
                if (most[l] > at_us[i]) at_us[i] = most[l];
        }
        for (uint32_t l = 0; l < used; l++) {
            if (b.late[l] < earliest) earliest = b.late[l];
            if (b.late[l] <= latest) continue;
            latest = b.late[l];
            slowest = first + l;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        at_us[i] += moment_us[i];
        if (i && at_us[i] < at_us[i - 1]) at_us[i] = at_us[i - 1]; /* by rounding */
    }
    return latest > earliest ? slowest : JITTER_NO_RANK;
}

uint32_t jitter_backward(const struct jitter *j, uint32_t step, uint32_t n, const double *moment_us,
                         double *at_us) {
    if (j->op > 0) return draw_ops(j, step, n, moment_us, at_us);
    uint64_t ranks = stream(j->seed, USE_RANK, step);
    double most = 1;
    uint32_t slowest = 0;
    bool differ = false;
    for (uint32_t r = 0; r < j->ranks && (j->factor || j->rank > 0); r++) {
        double factor = factor_of(j, ranks, r);
        differ = differ || (r && factor != most);
        if (r && factor <= most) continue;
        most = factor;
        slowest = r;
    }
    for (uint32_t i = 0; i < n; i++) at_us[i] = moment_us[i] * most;
    return differ && moment_us[n - 1] > 0 ? slowest : JITTER_NO_RANK;
}

double jitter_network(const struct jitter *j, uint32_t step) {
    double draw = (double)(stream(j->seed, USE_NETWORK, step) >> 32) / 4294967296;
    return draw < j->slow_share ? j->slow_factor : 1;
}

/* Selection sampling: each rank is taken with the chance that is left for it. */
void jitter_choose(uint64_t seed, uint32_t ranks, uint32_t count, bool *chosen) {
    uint64_t draws = stream(seed, USE_CHOICE, 0);
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t draw = (mix(draws + r) >> 32) * (ranks - r) >> 32;
        chosen[r] = draw < count;
        count -= chosen[r];
    }
}
