/* How fast a text is read: read FILE [ROUNDS] prints, for each round, one line with the seconds of
 * processor time and of wall time of ir_parse alone, on a file that is in memory already. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "ir.h"
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: bench_read FILE [ROUNDS]\n");
        return 2;
    }
    struct source source;
    const char *why;
    if (!source_open(&source, argv[1], &why)) {
        fprintf(stderr, "%s %s\n", argv[1], why);
        return 2;
    }
    unsigned long sum = 0; /* every page is in memory before the clock starts */
    for (size_t i = 0; i < source.size; i += 4096) sum += (unsigned char)source.bytes[i];
    bool ok = sum != 0;
    for (int round = argc > 2 ? atoi(argv[2]) : 5; round > 0 && ok; round--) {
        struct diags d;
        struct ir_module m;
        diags_init(&d, &source);
        double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        ok = ir_parse(&m, &source, &d);
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        wall = seconds(CLOCK_MONOTONIC) - wall;
        printf("%.6f %.6f\n", cpu, wall);
        diags_print(&d, stderr, true, false);
        diags_free(&d);
        ir_module_free(&m);
    }
    source_free(&source);
    return !ok;
}
