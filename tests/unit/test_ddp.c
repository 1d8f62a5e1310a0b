/* DDP's buckets. The sizes for ResNet-18 are those that its users observed: 25 MiB and 35 MiB caps
 * in pytorch/pytorch#48880, the first assignment (kept under find_unused_parameters) from the same
 * rule walked the other way. */
#include "step_fixture.h"
#include <criterion/criterion.h>

static uint32_t add_norm(int64_t *elements, uint32_t n, int64_t width) {
    elements[n] = elements[n + 1] = width; /* weight, bias */
    return n + 2;
}

/* The elements of torchvision's 62 parameters in the order of declaration. */
static uint32_t resnet18(int64_t *elements) {
    uint32_t n = 0;
    int64_t in = 64;
    elements[n++] = 64 * 3 * 7 * 7;
    n = add_norm(elements, n, 64);
    for (int stage = 0; stage < 4; stage++) {
        int64_t width = 64 << stage;
        for (int block = 0; block < 2; block++) {
            elements[n++] = width * in * 9;
            n = add_norm(elements, n, width);
            elements[n++] = width * width * 9;
            n = add_norm(elements, n, width);
            if (stage && !block) { /* downsample */
                elements[n++] = width * in;
                n = add_norm(elements, n, width);
            }
            in = width;
        }
    }
    elements[n++] = 512 * 1000;
    elements[n++] = 1000;
    return n;
}

static void expect(enum ddp_order order, double cap, bool never, const uint64_t want[3]) {
    int64_t elements[64];
    uint32_t n = resnet18(elements);
    cr_assert_eq(n, 62);
    struct fixture f;
    fixture_init(&f, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        fixture_add(&f, IR_FLOAT, elements[i], n - i, BDD_TRUE);
        if (i == 30 && never) fixture_add(&f, IR_FLOAT, 1 << 22, 0, BDD_FALSE);
    }
    f.o = (struct options){.schedule = SCHEDULE_DDP, .order = order, .bucket_cap_mib = cap};
    cr_assert(fixture_run(&f));
    cr_assert_eq(f.s.bucket.n, 3);
    for (uint32_t b = 0; b < 3; b++) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < f.s.bucket.at[b].n; i++)
            bytes +=
                4 * (uint64_t)f.p.params.at[f.s.item.at[f.s.bucket.at[b].first + i].param].elements;
        cr_expect_eq(bytes, want[b], "order %d, cap %g, bucket %u: %lu", (int)order, cap, b,
                     (unsigned long)bytes);
    }
    fixture_free(&f);
}

Test(ddp, resnet18_registration) {
    expect(ORDER_REGISTRATION, 25, false, (uint64_t[]){2052000, 28852224, 15853824});
    expect(ORDER_REGISTRATION, 0, false, (uint64_t[]){2052000, 28852224, 15853824});
    expect(ORDER_REGISTRATION, 35, false, (uint64_t[]){2052000, 38297600, 6408448});
}

/* Here gradients arrive in reverse order of declaration. */
Test(ddp, resnet18_ready) {
    expect(ORDER_READY, 25, false, (uint64_t[]){2052000, 28852224, 15853824});
}

Test(ddp, resnet18_flag) {
    expect(ORDER_DDP_FLAG, 25, false, (uint64_t[]){11497376, 33744896, 1515776});
}

Test(ddp, never_is_left_out) {
    expect(ORDER_REGISTRATION, 25, true, (uint64_t[]){2052000, 28852224, 15853824});
    expect(ORDER_DDP_FLAG, 25, true, (uint64_t[]){11497376, 33744896, 1515776});
}

/* A tensor that reaches the limit closes its bucket, whatever its size. */
Test(ddp, closes_at_the_limit) {
    uint64_t bytes[] = {3, 1, 10, 9, 1, 4};
    uint32_t boundary[7];
    cr_assert_eq(schedule_ddp(6, bytes, 4, 10, boundary), 4);
    const uint32_t want[] = {0, 2, 3, 5, 6};
    for (uint32_t i = 0; i < 5; i++) cr_expect_eq(boundary[i], want[i]);
    cr_assert_eq(schedule_ddp(0, bytes, 4, 10, boundary), 0);
}

/* Two accumulators: buckets go in the order in which they close, leftovers last. */
Test(ddp, two_dtypes) {
    struct fixture f;
    fixture_init(&f, 8);
    const struct {
        enum ir_dtype dtype;
        int64_t mib;
    } params[] = {{IR_FLOAT, 1}, {IR_FLOAT16, 2}, {IR_FLOAT, 30}, {IR_FLOAT16, 3}, {IR_FLOAT16, 1}};
    for (uint32_t i = 0; i < 5; i++)
        fixture_add(&f, params[i].dtype,
                    params[i].mib * (1 << 20) * 8 / ir_dtype_bits(params[i].dtype), 0, BDD_TRUE);
    f.o = (struct options){.schedule = SCHEDULE_DDP, .order = ORDER_REGISTRATION};
    cr_assert(fixture_run(&f));
    /* The walk is 4 3 2 1 0: closes {4}, {2}; left over are {3 1} of float16 and {0}. */
    const uint32_t want[] = {4, 2, 3, 1, 0};
    cr_assert_eq(f.s.bucket.n, 4);
    for (uint32_t i = 0; i < 5; i++) cr_expect_eq(f.s.item.at[i].param, want[i], "place %u", i);
    fixture_free(&f);
}
