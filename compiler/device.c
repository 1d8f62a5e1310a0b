/* Devices: how fast a node's backward can be, by preset or by a file.
 *
 * A device is its two peak rates, the part of each that kernels of a kind reach, and the least time
 * of a kernel. Peaks are the vendors' dense figures: an H100's 1,979 TFLOP/s of bfloat16 are for
 * structured sparsity, half of it is what a dense product can have. The efficiencies are those of
 * well tuned kernels at training sizes. What matters here is less the absolute time than the order
 * of the gradients and their distances relative to communication; a measured profile beats both. */
#include "cost.h"

/* 1 TFLOP/s is 10^6 FLOP/µs, 10^9 bytes/s are 1000 bytes/µs. */
#define RATES(tflops, gb_s) 1e6 * (tflops), 1000.0 * (gb_s)
#define KERNELS             .60, .35, .35, .80
static const struct device presets[] = {
    {"h100", RATES(989, 3350), KERNELS, 4}, /* SXM5: bfloat16, HBM3 */
    {"h200", RATES(989, 4800), KERNELS, 4}, /* SXM: the same with HBM3e */
    {"a100", RATES(312, 2039), KERNELS, 4}, /* SXM4 80 GB: bfloat16, HBM2e */
    {"l4", RATES(121, 300), KERNELS, 4},    /* bfloat16, GDDR6; the 242 are for sparsity */
    {"cpu", RATES(2, 150), KERNELS, 1},     /* a socket of 32 cores: float32, 8 channels of DDR4 */
};
static const struct device blank = {"file", 0, 0, KERNELS, 4};

static const char *set(void *to, struct word key, struct word value, struct arena *a) {
    struct device *t = to;
    (void)a;
    const struct {
        const char *key;
        double *to, scale, most;
    } numbers[] = {
        {"tflops", &t->flops_per_us, 1e6, 1e9}, {"memory_gb_s", &t->bytes_per_us, 1000, 1e9},
        {"matmul", &t->matmul, 1, 1},           {"convolution", &t->convolution, 1, 1},
        {"attention", &t->attention, 1, 1},     {"memory", &t->memory, 1, 1},
        {"floor_us", &t->floor_us, 1, 1e9},
    };
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!word_is(key, numbers[i].key)) continue;
        double x;
        if (!keyfile_number(value.text, value.length, &x) || x > numbers[i].most ||
            (x == 0 && numbers[i].to != &t->floor_us))
            return numbers[i].most > 1 ? "wants a number above 0"
                                       : "wants a part above 0 and up to 1";
        *numbers[i].to = x * numbers[i].scale;
        return NULL;
    }
    return "has an unknown key: there are `name`, `tflops`, `memory_gb_s`, `matmul`, "
           "`convolution`, `attention`, `memory` and `floor_us`";
}

static const char *missing(const void *of) {
    const struct device *t = of;
    if (t->flops_per_us == 0) return "`tflops`";
    return t->bytes_per_us == 0 ? "`memory_gb_s`" : NULL;
}

bool device_read(struct device *t, const char *name_or_file, struct diags *d) {
    static const struct keyfile file = {"--device",       presets, sizeof presets / sizeof *presets,
                                        sizeof *presets,  &blank,  DIAG_UNKNOWN_DEVICE,
                                        DIAG_DEVICE_FILE, NULL,    set,
                                        missing};
    return keyfile_read(&file, name_or_file, t, d);
}
