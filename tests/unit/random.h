/* Random numbers for property tests: the same on every machine. Source: S. Vigna, xorshift64*. */
#ifndef DDPC_TEST_RANDOM_H
#define DDPC_TEST_RANDOM_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t random_next(uint64_t *seed) {
    uint64_t x = *seed;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *seed = x;
    return x * 0x2545f4914f6cdd1dULL;
}
/* Uniform in [0, n), n > 0. */
static inline uint32_t random_below(uint64_t *seed, uint32_t n) {
    return (uint32_t)((random_next(seed) >> 32) * n >> 32);
}

/* How many instances a property is tried on: `some`, or what DDPC_TEST_INSTANCES says. */
static inline uint32_t random_instances(uint32_t some) {
    const char *text = getenv("DDPC_TEST_INSTANCES");
    return text ? (uint32_t)strtoul(text, NULL, 10) : some;
}

#endif
