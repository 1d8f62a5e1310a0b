/* Topologies: what a collective costs, by preset, by a file, or by NCCL's model of a cluster.
 *
 * The cost of an all-reduce of S bytes is affine, alpha + S / bandwidth, or the least of several
 * such pieces, since a library switches algorithms with the size. A cluster's pieces are fitted to
 * what NCCL itself expects (nccl.c) between 1 KiB and 1 GiB, where it never falls; those of the
 * presets were, and docs/scheduling.md says how near they are.
 *
 * A file has the lines `name = TEXT`, `ranks = N` and one or more `piece = ALPHA_US BANDWIDTH_GB_S`
 * (10^9 bytes/s). `ddpc topology` prints any topology as such a file. */
#include "cost.h"
#include "nccl.h"
#include "pieces.h"
#include <string.h>

/* 10^9 bytes/s are 1000 bytes/µs. */
#define PIECE(alpha_us, gb_s)                                                                      \
    { alpha_us, 1 / (1000.0 * (gb_s)) }
static const struct topology presets[] = {
    {"h100x8", 8, 2, {PIECE(15, 85.5), PIECE(25, 272)}},
    {"h100x8-ib400-x64", 512, 3, {PIECE(75.2, 4.29), PIECE(134.5, 143), PIECE(275.8, 182)}},
    {"a100x8", 8, 2, {PIECE(15.45, 52.74), PIECE(43.48, 133)}},
    {"l4-pcie", 8, 2, {PIECE(20.6, 6.857), PIECE(88.2, 13.71)}},
    {"eth25-x16", 16, 3, {PIECE(46.5, 0.252), PIECE(77.4, 0.773), PIECE(285.9, 1.60)}},
    {"eth100", 16, 3, {PIECE(48.29, 1.128), PIECE(87.39, 3.298), PIECE(300.2, 6.169)}},
};
static const struct topology blank = {.name = "file"};

/* "ALPHA_US BANDWIDTH_GB_S" */
static bool parse_piece(struct word value, struct arena *a, struct cost_piece *out) {
    struct line line = {value.text, value.text + value.length};
    struct word alpha, bandwidth;
    double gb_s;
    if (!line_word(&line, a, &alpha) || !line_word(&line, a, &bandwidth) ||
        !keyfile_number(alpha.text, alpha.length, &out->alpha_us) ||
        !keyfile_number(bandwidth.text, bandwidth.length, &gb_s) || gb_s == 0)
        return false;
    out->us_per_byte = 1 / (1000.0 * gb_s);
    return line_rest(&line).length == 0;
}

static const char *set(void *to, struct word key, struct word value, struct arena *a) {
    struct topology *t = to;
    if (word_is(key, "ranks")) {
        double ranks;
        if (!keyfile_number(value.text, value.length, &ranks) || ranks < 1 || ranks > 1e6 ||
            ranks != (double)(uint32_t)ranks)
            return "wants a whole number from 1 to 1000000";
        t->ranks = (uint32_t)ranks;
        return NULL;
    }
    if (word_is(key, "piece")) {
        if (t->n_pieces == TOPOLOGY_MAX_PIECES) return "is one piece too many: 16 is the limit";
        if (!parse_piece(value, a, &t->piece[t->n_pieces]))
            return "wants a latency in µs and a bandwidth above 0 in 10^9 bytes/s";
        t->n_pieces++;
        return NULL;
    }
    return "has an unknown key: there are `name`, `ranks` and `piece`";
}

static const char *missing(const void *of) {
    const struct topology *t = of;
    if (t->ranks == 0) return "`ranks = N`";
    return t->n_pieces == 0 ? "`piece = ALPHA_US BANDWIDTH_GB_S`" : NULL;
}

/* ---- clusters -------------------------------------------------------------------------------- */

/* The same number with four digits, as `ddpc topology` prints it and a file reads it. */
static double four_digits(double x) {
    double power = 1;
    while (x * power < 1000 && power < 1e12) power *= 10;
    if (x * power < 10000) return (double)(uint64_t)(x * power + .5) / power;
    for (power = 1; x / power >= 10000;) power *= 10;
    return (double)(uint64_t)(x / power + .5) * power;
}

double topology_fit(struct topology *t, const struct nccl_model *m) {
    struct cost_point point[PIECES_MAX_POINTS];
    struct plan_piece piece[4];
    uint32_t n = 0;
    for (uint64_t low = TOPOLOGY_FIT_FROM; low <= TOPOLOGY_FIT_TO; low *= 2)
        for (uint64_t bytes = low; bytes < 2 * low && bytes <= TOPOLOGY_FIT_TO; bytes += low / 4)
            point[n++] = (struct cost_point){(double)bytes, nccl_allreduce_us(m, bytes)};
    pieces_monotone(point, n);
    double error = 0;
    t->ranks = m->cluster.gpus * m->cluster.nodes;
    t->n_pieces = pieces_fit(point, n, 4, .05, piece, &error);
    for (uint32_t i = 0; i < t->n_pieces; i++)
        t->piece[i] = (struct cost_piece)PIECE(four_digits(piece[i].alpha_us),
                                               four_digits(1 / (1000 * piece[i].us_per_byte)));
    for (uint32_t k = 0; k < n; k++) {
        double us = topology_cost_us(t, (uint64_t)point[k].bytes);
        double apart = us > point[k].us ? us / point[k].us : point[k].us / us;
        if (apart - 1 > error) error = apart - 1;
    }
    return error;
}

bool topology_read(struct topology *t, const char *name, struct diags *d) {
    static const struct keyfile file = {"--topology",
                                        presets,
                                        sizeof presets / sizeof *presets,
                                        sizeof *presets,
                                        &blank,
                                        DIAG_UNKNOWN_TOPOLOGY,
                                        DIAG_TOPOLOGY_FILE,
                                        "piece",
                                        set,
                                        missing};
    struct nccl_cluster cluster;
    struct nccl_model model;
    if (!nccl_is_cluster(name)) return keyfile_read(&file, name, t, d);
    if (!nccl_cluster_read(&cluster, name, d)) return false;
    *t = (struct topology){.n_pieces = 0};
    strcpy(t->name, name);
    nccl_model_init(&model, &cluster);
    topology_fit(t, &model);
    return true;
}

const struct topology *topology_preset(uint32_t i) {
    return i < sizeof presets / sizeof *presets ? &presets[i] : NULL;
}
