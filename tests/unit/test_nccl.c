/* NCCL's model against the figures that its formulas give, against what was measured, and the pieces
 * fitted to it; and the fit by itself. */
#include "cost.h"
#include "nccl.h"
#include "pieces.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static struct nccl_model model_of(const char *text) {
    struct nccl_model m;
    struct nccl_cluster c;
    struct diags d;
    diags_init(&d, NULL);
    cr_assert(nccl_cluster_read(&c, text, &d), "%s", text);
    diags_free(&d);
    nccl_model_init(&m, &c);
    return m;
}

/* The formulas, worked out by another program from the same figures; and how near the presets are
 * at these sizes. */
static const struct {
    const char *cluster, *preset;
    double us[4], error;
} table[] = {
    {"nvlink:8", "h100x8", {15.0, 28.0, 121.4, 1011.9}, .03},
    {"nvlink:8,nodes:64,ib:400x8", "h100x8-ib400-x64", {75.3, 144.8, 321.1, 1747.8}, .09},
    {"nodes:16,eth:25,gpu:a100", "eth25-x16", {49.9, 981.3, 16983.8, 168371.9}, .08},
    {"nvlink:8,gpu:a100", "a100x8", {15.0, 35.9, 247.1, 2013.3}, .03},
    {"pcie:8,gpu:l4", "l4-pcie", {20.7, 164.7, 1999.7, 19661.6}, .01},
    {"nodes:16,eth:100,gpu:a100", "eth100", {47.6, 419.7, 4695.8, 42542.8}, .04},
};
static const uint64_t sizes[] = {1 << 10, 1 << 20, 25 << 20, 256 << 20};

Test(nccl, model) {
    for (uint32_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct nccl_model m = model_of(table[i].cluster);
        for (uint32_t k = 0; k < 4; k++) {
            double us = nccl_allreduce_us(&m, sizes[k]);
            cr_expect(fabs(us - table[i].us[k]) <= .05 + .001 * us,
                      "%s at %lu bytes: %.1f, not %.1f", table[i].cluster, (unsigned long)sizes[k],
                      us, table[i].us[k]);
        }
    }
}

Test(nccl, presets_follow_the_model) {
    struct diags d;
    diags_init(&d, NULL);
    for (uint32_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct nccl_model m = model_of(table[i].cluster);
        struct topology t;
        cr_assert(topology_read(&t, table[i].preset, &d));
        cr_expect_eq(t.ranks, m.cluster.gpus * m.cluster.nodes);
        for (uint32_t k = 0; k < 4; k++) {
            double us = topology_cost_us(&t, sizes[k]), model = nccl_allreduce_us(&m, sizes[k]);
            cr_expect(fabs(us / model - 1) <= table[i].error, "%s at %lu bytes: %.1f, model %.1f",
                      table[i].preset, (unsigned long)sizes[k], us, model);
        }
    }
    uint32_t n = 0;
    while (topology_preset(n)) n++;
    cr_expect_eq(n, sizeof table / sizeof *table, "each preset is of some cluster");
    diags_free(&d);
}

static double bus_gb_s(const struct nccl_model *m, uint64_t bytes) {
    double ranks = m->cluster.gpus * m->cluster.nodes;
    return (double)bytes / nccl_allreduce_us(m, bytes) / 1000 * 2 * (ranks - 1) / ranks;
}

/* Eight H100: 476 to 480 GB/s of bus bandwidth were measured at large sizes; four nodes of them on
 * InfiniBand 331; 32 nodes of eight A100: 62 to 71 µs at small sizes. Three B200 with rings of LL128
 * alone: 479 (github.com/NVIDIA/nccl/pull/2343). */
Test(nccl, measurements) {
    struct nccl_model m = model_of("nvlink:8");
    double bus = bus_gb_s(&m, UINT64_C(16) << 30);
    cr_expect(bus > 476 * .95 && bus < 480 * 1.05, "%g", bus);
    m = model_of("nvlink:8,nodes:4,ib:400x8");
    bus = bus_gb_s(&m, UINT64_C(1) << 30);
    cr_expect(bus > 331 * .9 && bus < 331 * 1.1, "%g", bus);
    m = model_of("nvlink:8,nodes:32,ib:200x8,gpu:a100");
    double us = nccl_allreduce_us(&m, 1024);
    cr_expect(us > 62 && us < 71, "%g", us);
    m = model_of("nvlink:3,gpu:b200");
    double gb_s = m.way[NCCL_RING][NCCL_LL128].gb_s;
    cr_expect(gb_s > 479 * .95 && gb_s < 479 * 1.05, "%g", gb_s);
}

/* What a cluster's model must have: more nodes and slower links cost more, and no figure is
 * absurd. */
Test(nccl, many_clusters) {
    static const char *const gpu[] = {"h100", "b200", "a100", "l4"}, *const node[] = {
                                                                         "",          "pcie:2,",
                                                                         "pcie:8,",   "nvlink:2,",
                                                                         "nvlink:4,", "nvlink:16,"};
    static const char *const rate[] = {"1", "25", "100x2", "200x8", "400x16"};
    for (uint32_t g = 0; g < 4; g++)
        for (uint32_t k = 0; k < 6; k++) {
            if (g == 3 && k >= 3) continue; /* no NVLink */
            for (uint32_t s = 0; s < 4; s++) {
                double before = 1e300;
                for (uint32_t r = 0; r < 5; r++) {
                    double previous = 0;
                    for (uint32_t nodes = 2; nodes <= 16384; nodes *= 16) {
                        char text[64];
                        snprintf(text, sizeof text, "%snodes:%u,eth:%s,gpu:%s", node[k], nodes,
                                 rate[r], gpu[g]);
                        struct nccl_model m = model_of(text);
                        double us = nccl_allreduce_us(&m, sizes[s]);
                        cr_expect(us >= previous * .9999, "%s: %g after %g", text, us, previous);
                        cr_expect(nodes > 2 || us <= before * 1.0001, "%s: %g after %g", text, us,
                                  before);
                        if (nodes == 2) before = us;
                        previous = us;
                        if (s || nodes != 32) continue;
                        struct topology t = {.n_pieces = 0};
                        double error = topology_fit(&t, &m);
                        cr_expect(error >= 0 && error < .15, "%s: %g", text, error);
                        for (uint32_t p = 0; p < t.n_pieces; p++)
                            cr_expect(t.piece[p].alpha_us > 0 && t.piece[p].us_per_byte > 0);
                    }
                }
            }
        }
}

/* ---- the fit --------------------------------------------------------------------------------- */

static uint32_t random_state = 1;
static double uniform(void) {
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) / (double)(1 << 24);
}

static double worst(const struct cost_point *p, uint32_t n, const struct plan_piece *piece,
                    uint32_t count) {
    double worst = 0;
    for (uint32_t k = 0; k < n; k++) {
        double ratio = pieces_us(piece, count, p[k].bytes) / p[k].us;
        if (ratio < 1) ratio = 1 / ratio;
        if (ratio - 1 > worst) worst = ratio - 1;
    }
    return worst;
}

Test(pieces, exact_where_the_cost_is_of_pieces) {
    for (int round = 0; round < 200; round++) {
        struct plan_piece is[3] = {{5 + 10 * uniform(), 1e-3}}, found[4];
        is[1] = (struct plan_piece){is[0].alpha_us + 100 * uniform(), 1e-4};
        is[2] = (struct plan_piece){is[1].alpha_us + 1000 * uniform(), 1e-5};
        struct cost_point p[64];
        uint32_t n = 0;
        for (double bytes = 1000; n < 64; bytes *= 1.3)
            p[n++] = (struct cost_point){bytes, pieces_us(is, 3, bytes)};
        double error;
        uint32_t count = pieces_fit(p, n, 4, .001, found, &error);
        cr_assert_leq(count, 3);
        cr_assert_leq(error, .001 * 1.01);
        cr_assert_leq(worst(p, n, found, count), error + 1e-9);
    }
}

/* No line does better than the one found: all lines through a band, tried by brute force. */
Test(pieces, a_single_line_is_the_best_one) {
    for (int round = 0; round < 50; round++) {
        struct cost_point p[8];
        double bytes = 1, us = 1;
        for (uint32_t k = 0; k < 8; k++) {
            p[k] = (struct cost_point){bytes, us};
            bytes += 1 + 20 * uniform();
            us += 10 * uniform();
        }
        struct plan_piece found, tried;
        double error, best = 1e300;
        cr_assert_eq(pieces_fit(p, 8, 1, 0, &found, &error), 1);
        cr_assert_leq(worst(p, 8, &found, 1), error + 1e-9);
        for (int a = 0; a <= 200; a++)
            for (int b = 1; b <= 400; b++) {
                tried = (struct plan_piece){a * .05 * p[0].us, b * .005 * p[7].us / p[7].bytes};
                double e = worst(p, 8, &tried, 1);
                if (e < best) best = e;
            }
        cr_assert(best >= error - .002, "%g found, %g by trying", error, best);
    }
}

Test(pieces, noise_and_extremes) {
    struct cost_point one = {100, 7};
    struct plan_piece piece[4];
    double error;
    cr_assert_eq(pieces_fit(&one, 1, 3, .05, piece, &error), 1);
    cr_expect(fabs(pieces_us(piece, 1, 100) - 7) < .4 && piece[0].us_per_byte > 0);
    for (int round = 0; round < 200; round++) {
        struct cost_point p[40];
        uint32_t n = 1 + (uint32_t)(39 * uniform());
        double bytes = 64;
        for (uint32_t k = 0; k < n; k++, bytes *= 1.5)
            p[k] = (struct cost_point){bytes, (20 + bytes / 1000) * (.5 + uniform())};
        pieces_monotone(p, n);
        for (uint32_t k = 1; k < n; k++) cr_assert_leq(p[k - 1].us, p[k].us);
        uint32_t count = pieces_fit(p, n, 3, .05, piece, &error);
        cr_assert(count >= 1 && count <= 3);
        cr_assert_leq(worst(p, n, piece, count), error + 1e-9);
        for (uint32_t i = 0; i < count; i++)
            cr_assert(piece[i].alpha_us >= 0 && piece[i].us_per_byte > 0);
    }
}
