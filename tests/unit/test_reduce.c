/* The reductions: conversions against arithmetic in double, and that neither the rank that adds nor
 * the split of the range changes a bit. */
#include "plan.h"
#include "random.h"
#include "reduce.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* What a binary16 number means, from its definition. */
static double meaning_of_half(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

Test(reduce, every_half_means_what_it_says) {
    for (uint32_t h = 0; h < 65536; h++) {
        double want = meaning_of_half((uint16_t)h), got = reduce_from_float16((uint16_t)h);
        cr_assert(isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want), "%04x",
                  h);
        if (!isnan(want))
            cr_assert_eq(reduce_to_float16((float)want), h, "%04x", h);
        else
            cr_assert_eq(reduce_to_float16((float)want), 0x7fff);
    }
}

/* Between two neighbouring halves a <= f <= b the nearer one, ties to the even one. */
Test(reduce, halves_round_to_nearest_even) {
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double a = meaning_of_half((uint16_t)h), b = meaning_of_half((uint16_t)(h + 1));
        float middle = (float)((a + b) / 2); /* exact: one bit more */
        uint32_t even = h & 1 ? h + 1 : h;
        cr_assert_eq(reduce_to_float16(middle), even, "%04x", h);
        cr_assert_eq(reduce_to_float16(nextafterf(middle, INFINITY)), h + 1);
        cr_assert_eq(reduce_to_float16(nextafterf(middle, -INFINITY)), h);
        cr_assert_eq(reduce_to_float16(-middle), even | 0x8000);
    }
    cr_assert_eq(reduce_to_float16(65519.99f), 0x7bff);
    cr_assert_eq(reduce_to_float16(65520.0f), 0x7c00);
    cr_assert_eq(reduce_to_float16(-1e30f), 0xfc00);
    cr_assert_eq(reduce_to_float16(1e-30f), 0);
}

Test(reduce, bfloat16_rounds_to_nearest_even) {
    uint64_t seed = 1;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = reduce_from_bfloat16((uint16_t)h);
        cr_assert_eq(reduce_to_bfloat16(f), isnan(f) ? 0x7fff : h, "%04x", h);
    }
    for (int k = 0; k < 200000; k++) {
        uint32_t u = (uint32_t)random_next(&seed);
        float f;
        memcpy(&f, &u, 4);
        if (!isfinite(f)) continue;
        uint16_t got = reduce_to_bfloat16(f);
        if ((got & 0x7fff) == 0x7f80) continue; /* rounded up to infinity */
        float low = reduce_from_bfloat16((uint16_t)(u >> 16));
        double here = fabs((double)reduce_from_bfloat16(got) - f);
        double down = fabs((double)low - f);
        double up = fabs((double)reduce_from_bfloat16((uint16_t)((u >> 16) + 1)) - f);
        cr_assert(here <= down && here <= up, "%08x", u);
        if (down == up) cr_assert_eq(got & 1, 0);
    }
}

static double get(uint32_t dtype, const void *p, size_t i) {
    switch (dtype) {
    case PLAN_FLOAT32: return ((const float *)p)[i];
    case PLAN_FLOAT64: return ((const double *)p)[i];
    case PLAN_FLOAT16: return meaning_of_half(((const uint16_t *)p)[i]);
    default: return reduce_from_bfloat16(((const uint16_t *)p)[i]);
    }
}

enum { ELEMENTS = 5003, RANKS = 5, PARTS = 7 };
static _Alignas(16) unsigned char data[2][RANKS][ELEMENTS * 8];

static void fill_random(uint32_t dtype, uint64_t seed) {
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < ELEMENTS; i++) {
            float f = (float)random_below(&seed, 20000) / 1000 - 10;
            double d = f;
            uint16_t h = dtype == PLAN_FLOAT16 ? reduce_to_float16(f) : reduce_to_bfloat16(f);
            if (dtype == PLAN_FLOAT32)
                memcpy(data[0][r] + 4 * i, &f, 4);
            else if (dtype == PLAN_FLOAT64)
                memcpy(data[0][r] + 8 * i, &d, 8);
            else
                memcpy(data[0][r] + 2 * i, &h, 2);
        }
    memcpy(data[1], data[0], sizeof data[0]);
}

static const uint32_t types[] = {PLAN_FLOAT32, PLAN_FLOAT64, PLAN_FLOAT16, PLAN_BFLOAT16};

Test(reduce, sums_in_rank_order_whatever_the_split) {
    for (int t = 0; t < 4; t++) {
        uint32_t dtype = types[t];
        fill_random(dtype, 7 + (uint64_t)t);
        static double want[ELEMENTS];
        for (size_t i = 0; i < ELEMENTS; i++) {
            if (dtype == PLAN_FLOAT64) {
                want[i] = 0;
                for (int r = 0; r < RANKS; r++) want[i] += get(dtype, data[0][r], i);
            } else {
                float sum = (float)get(dtype, data[0][0], i);
                for (int r = 1; r < RANKS; r++) sum += (float)get(dtype, data[0][r], i);
                want[i] = dtype == PLAN_FLOAT32   ? sum
                          : dtype == PLAN_FLOAT16 ? meaning_of_half(reduce_to_float16(sum))
                                                  : reduce_from_bfloat16(reduce_to_bfloat16(sum));
            }
        }
        void *whole[RANKS], *parts[RANKS];
        for (int r = 0; r < RANKS; r++) whole[r] = data[0][r], parts[r] = data[1][r];
        reduce_range(dtype, whole, RANKS, 0, ELEMENTS, 0, 1);
        for (size_t k = 0; k < PARTS; k++)
            reduce_range(dtype, parts, RANKS, ELEMENTS * k / PARTS, ELEMENTS * (k + 1) / PARTS, 0,
                         1);
        size_t bytes = ELEMENTS * reduce_element_bytes(dtype);
        for (int r = 0; r < RANKS; r++) {
            cr_assert_eq(memcmp(whole[r], whole[0], bytes), 0);
            cr_assert_eq(memcmp(parts[r], whole[0], bytes), 0);
        }
        for (size_t i = 0; i < ELEMENTS; i++) cr_assert_eq(get(dtype, whole[0], i), want[i]);
    }
}

Test(reduce, scales_exactly_what_it_is_told) {
    for (int t = 0; t < 4; t++) {
        uint32_t dtype = types[t];
        fill_random(dtype, 70 + (uint64_t)t);
        void *plain[RANKS], *scaled[RANKS];
        for (int r = 0; r < RANKS; r++) plain[r] = data[0][r], scaled[r] = data[1][r];
        reduce_range(dtype, plain, RANKS, 0, ELEMENTS, 0, 1);
        reduce_range(dtype, scaled, RANKS, 0, 2500, 4001, 0.25);
        reduce_range(dtype, scaled, RANKS, 2500, ELEMENTS, 4001, 0.25);
        for (size_t i = 0; i < ELEMENTS; i++)
            cr_assert_eq(get(dtype, scaled[2], i), get(dtype, plain[0], i) * (i < 4001 ? 0.25 : 1),
                         "type %u element %zu", dtype, i);
    }
}

/* The sum of 16-bit numbers is rounded once, at the end. */
Test(reduce, accumulates_16_bits_in_float32) {
    uint16_t x[3] = {reduce_to_float16(2048), reduce_to_float16(1), reduce_to_float16(1)};
    void *in[3] = {&x[0], &x[1], &x[2]};
    reduce_range(PLAN_FLOAT16, in, 3, 0, 1, 0, 1);
    cr_assert_eq(reduce_from_float16(x[2]), 2050);
    uint16_t big[2] = {reduce_to_float16(60000), reduce_to_float16(60000)};
    void *two[2] = {&big[0], &big[1]};
    reduce_range(PLAN_FLOAT16, two, 2, 0, 1, 1, 0.5);
    cr_assert_eq(reduce_from_float16(big[1]), 60000);
}
