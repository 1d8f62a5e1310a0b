/* Writes a plan for the stress tests:
 *
 *     make_plan OUT job               the one of job.h
 *     make_plan OUT flat N ELEMENTS   N float32 gradients in 4 buckets */
#include "job.h"

static void *flat_plan(int n, int64_t elements, size_t *size) {
    struct plan_builder *b = plan_builder_new();
    struct plan_source here = {1, 1};
    struct plan_piece piece = {10, 0.001};
    struct plan_step_info info = {.name = "train",
                                  .topology = "local",
                                  .worst_regret = -1,
                                  .ranks = 2,
                                  .n_pieces = 1,
                                  .piece = &piece};
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d.weight", i);
        plan_add_param(b, name, PLAN_FLOAT32, 1, &elements, here);
    }
    plan_add_step(b, &info);
    for (int i = 0; i < n; i++) plan_set_class(b, (uint32_t)i, PLAN_ALWAYS, true, PLAN_NONE);
    int per = (n + 3) / 4;
    for (int i = 0; i < n; i++) {
        if (i % per == 0) plan_add_bucket(b, PLAN_NONE, i, i, i + 1);
        plan_add_segment(b, (uint32_t)i, i);
    }
    void *bytes;
    if (!plan_build(b, &bytes, size)) abort();
    plan_builder_free(b);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t size;
    void *bytes = argc >= 5 ? flat_plan(atoi(argv[3]), atoll(argv[4]), &size)
                            : job_plan(PLAN_WORLD, "w0", &size);
    FILE *f = fopen(argv[1], "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) return 2;
    free(bytes);
    return 0;
}
