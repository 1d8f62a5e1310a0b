/* Sums over ranks, a block at a time.
 *
 * A block of each rank is read in rank order into an accumulator that stays in the first-level
 * cache, scaled, and stored to every rank: each input byte is read once and each output byte
 * written once, which is all a reduction that is bound by memory can hope for. The order of the
 * additions of one element is the order of the ranks, wherever the element lies, so that the result
 * is the same bits on every rank and for every split of the range.
 *
 * 16-bit types are added in float32 and rounded once, to the nearest, ties to even. The conversions
 * are integer arithmetic without branches that the compiler can turn into vectors; they do not
 * use the machine's own, which differ between processors in what they make of NaNs and denormals.
 * The scale is applied to the sum and before the rounding. */
#include "reduce.h"

#include "plan.h"

#include <string.h>

enum { BLOCK = 2048 }; /* elements: 8 KiB of float32, 16 KiB of float64 */

bool reduce_adds(uint32_t dtype) {
    return dtype == PLAN_FLOAT32 || dtype == PLAN_FLOAT64 || dtype == PLAN_FLOAT16 ||
           dtype == PLAN_BFLOAT16;
}

size_t reduce_element_bytes(uint32_t dtype) {
    return dtype == PLAN_FLOAT64 ? 8 : dtype == PLAN_FLOAT32 ? 4 : 2;
}

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* A choice as arithmetic: compilers do not turn a branch around floating-point operations into
 * vectors. */
static uint32_t pick(bool condition, uint32_t yes, uint32_t no) {
    uint32_t mask = -(uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

float reduce_from_float16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    uint32_t normal = (exponent + 112) << 23 | fraction << 13;
    uint32_t special = 0x7f800000 | fraction << 13;
    uint32_t denormal = bits_of((float)(int32_t)fraction * 0x1p-24f);
    return float_of(sign | pick(exponent == 0, denormal, pick(exponent == 31, special, normal)));
}

uint16_t reduce_to_float16(float f) {
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    uint32_t normal = (a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13;
    /* 0.5 + x has its last bit at 2^-24, which is the last bit of a half's denormals: the addition
     * rounds to exactly the places that there are. */
    uint32_t denormal = bits_of(float_of(a) + 0.5f) - 0x3f000000;
    uint32_t finite = pick(a >= 0x38800000, normal, denormal);
    uint32_t rounded = pick(a >= 0x477ff000, 0x7c00, finite); /* 65520 and above is infinite */
    return (uint16_t)pick(a > 0x7f800000, 0x7fff, sign | rounded);
}

float reduce_from_bfloat16(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t reduce_to_bfloat16(float f) {
    uint32_t u = bits_of(f);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)pick((u & 0x7fffffff) > 0x7f800000, 0x7fff, rounded);
}

/* Built twice where the linker can choose at load time, with 16- and with 32-byte vectors. The
 * results are the same bits: every operation is on one element, and none is fused
 * (-ffp-contract=off). */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_THREAD__) /* which is not set up yet when the linker chooses */
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* One block for a type: load turns an element into the accumulator's type, store back. */
#define REDUCE_BLOCK(name, element, sum, load, store)                                              \
    FOR_EACH_PROCESSOR static void name(void *const *in, uint32_t n, size_t first, size_t count,   \
                                        size_t scaled, double scale) {                             \
        _Alignas(64) sum acc[BLOCK];                                                               \
        const element *restrict x = (const element *)in[0] + first;                                \
        for (size_t i = 0; i < count; i++) acc[i] = load(x[i]);                                    \
        for (uint32_t k = 1; k < n; k++) {                                                         \
            const element *restrict y = (const element *)in[k] + first;                            \
            for (size_t i = 0; i < count; i++) acc[i] += load(y[i]);                               \
        }                                                                                          \
        if (scaled > count) scaled = count;                                                        \
        sum factor = (sum)scale;                                                                   \
        for (size_t i = 0; i < scaled; i++) acc[i] *= factor;                                      \
        element *restrict out = (element *)in[0] + first;                                          \
        for (size_t i = 0; i < count; i++) out[i] = store(acc[i]);                                 \
        for (uint32_t k = 1; k < n; k++)                                                           \
            memcpy((element *)in[k] + first, out, count * sizeof(element));                        \
    }
#define ITSELF(x) (x)
REDUCE_BLOCK(block_float32, float, float, ITSELF, ITSELF)
REDUCE_BLOCK(block_float64, double, double, ITSELF, ITSELF)
REDUCE_BLOCK(block_float16, uint16_t, float, reduce_from_float16, reduce_to_float16)
REDUCE_BLOCK(block_bfloat16, uint16_t, float, reduce_from_bfloat16, reduce_to_bfloat16)

void reduce_range(uint32_t dtype, void *const *in, uint32_t n, size_t first, size_t last,
                  size_t scaled, double scale) {
    for (size_t i = first; i < last; i += BLOCK) {
        size_t count = last - i < BLOCK ? last - i : BLOCK;
        size_t s = scale == 1 || scaled <= i ? 0 : scaled - i < count ? scaled - i : count;
        switch (dtype) {
        case PLAN_FLOAT32: block_float32(in, n, i, count, s, scale); break;
        case PLAN_FLOAT64: block_float64(in, n, i, count, s, scale); break;
        case PLAN_FLOAT16: block_float16(in, n, i, count, s, scale); break;
        case PLAN_BFLOAT16: block_bfloat16(in, n, i, count, s, scale); break;
        default: break;
        }
    }
}
