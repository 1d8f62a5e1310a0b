/* Writes a plan for the stress tests:
 *
 *     make_plan OUT job               the one of job.h
 *     make_plan OUT flat N ELEMENTS   N float32 gradients in 4 buckets */
#include "job.h"

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t size;
    int n = argc >= 5 ? atoi(argv[3]) : 0;
    void *bytes = n ? job_flat_plan(n, atoll(argv[4]), (n + 3) / 4, &size)
                    : job_plan(PLAN_WORLD, "w0", &size);
    FILE *f = fopen(argv[1], "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) return 2;
    free(bytes);
    return 0;
}
