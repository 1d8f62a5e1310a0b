/* Devices: how fast a node's backward can be, by preset or by a file.
 *
 * A device is its two peak rates, the part of each that kernels of a kind reach, and the least time
 * of a kernel. Peaks are the vendors' dense figures: an H100's 1,979 TFLOP/s of bfloat16 are for
 * structured sparsity, half of it is what a dense product can have. The efficiencies are those of
 * well tuned kernels at training sizes. What matters here is less the absolute time than the order
 * of the gradients and their distances relative to communication; a measured profile beats both. */
#include "keyfile.h"
#include "schedule.h"
#include <string.h>

/* 1 TFLOP/s is 10^6 FLOP/µs, 10^9 bytes/s are 1000 bytes/µs. */
#define RATES(tflops, gb_s) 1e6 * (tflops), 1000.0 * (gb_s)
#define KERNELS             .60, .35, .35, .80
static const struct device presets[] = {
    {"h100", RATES(989, 3350), KERNELS, 4}, /* SXM5: bfloat16, HBM3 */
    {"h200", RATES(989, 4800), KERNELS, 4}, /* SXM: the same with HBM3e */
    {"a100", RATES(312, 2039), KERNELS, 4}, /* SXM4 80 GB: bfloat16, HBM2e */
    {"cpu", RATES(2, 150), KERNELS, 1},     /* a socket of 32 cores: float32, 8 channels of DDR4 */
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

/* NULL, or what is wrong with the line. */
static const char *parse_line(struct device *t, struct line *line) {
    struct word key, value;
    if (!keyfile_pair(line, &key, &value)) return "is not `key = value`";
    if (word_is(key, "name")) {
        if (value.length == 0 || value.length >= sizeof t->name) return "wants 1 to 63 bytes";
        memcpy(t->name, value.text, value.length);
        t->name[value.length] = 0;
        return NULL;
    }
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
           "`convolution`, "
           "`attention`, `memory` and `floor_us`";
}

bool device_read(struct device *t, const char *name_or_file, struct diags *d) {
    const char *names[N_PRESETS], *why;
    for (uint32_t i = 0; i < N_PRESETS; i++) {
        names[i] = presets[i].name;
        if (strcmp(name_or_file, names[i]) == 0) {
            *t = presets[i];
            return true;
        }
    }
    struct lines f = {.path = name_or_file, .diags = d};
    if (!source_open(&f.source, name_or_file, &why)) {
        struct diag *x = diag_plain(d, DIAG_UNKNOWN_DEVICE, "--device",
                                    "'%s' is no preset, and as a file it %s", name_or_file, why);
        const char *nearest = diag_nearest(name_or_file, names, N_PRESETS);
        diag_set_help(d, x, "%s%s%sthe presets are %s, %s, %s and %s",
                      nearest ? "did you mean '" : "", nearest ? nearest : "", nearest ? "'? " : "",
                      names[0], names[1], names[2], names[3]);
        return false;
    }
    *t = (struct device){"file", 0, 0, KERNELS, 4};
    struct line line;
    bool ok = true;
    while (lines_next(&f, &line)) {
        if (!(why = parse_line(t, &line))) continue;
        lines_report(&f, f.number, DIAG_DEVICE_FILE, "this line %s", why);
        ok = false;
    }
    if (ok && (t->flops_per_us == 0 || t->bytes_per_us == 0)) {
        lines_report(&f, f.number ? f.number : 1, DIAG_DEVICE_FILE, "the file ends without `%s`",
                     t->flops_per_us == 0 ? "tflops" : "memory_gb_s");
        ok = false;
    }
    lines_close(&f);
    return ok;
}
