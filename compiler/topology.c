/* Topologies: what a collective costs, by preset or by a file.
 *
 * The cost of an all-reduce of S bytes is affine, alpha + S / bandwidth, or the least of several
 * such pieces, since a library switches algorithms with the size. The presets are lower envelopes
 * of NCCL's own model (src/graph/tuning.cc of 2.30: latency + S / bandwidth, the minimum over
 * algorithm and protocol) for three clusters; docs/scheduling.md says how far each is from the
 * model.
 *
 * A file has the lines `name = TEXT`, `ranks = N` and one or more `piece = ALPHA_US BANDWIDTH_GB_S`
 * (10^9 bytes/s). */
#include "cost.h"

/* 10^9 bytes/s are 1000 bytes/µs. */
#define PIECE(alpha_us, gb_s)                                                                      \
    { alpha_us, 1 / (1000.0 * (gb_s)) }
static const struct topology presets[] = {
    {"h100x8", 8, 2, {PIECE(15, 85.5), PIECE(25, 272)}},
    {"h100x8-ib400-x64", 512, 3, {PIECE(75.2, 4.29), PIECE(134.5, 143), PIECE(275.8, 182)}},
    {"eth25-x16", 16, 3, {PIECE(46.5, 0.252), PIECE(77.4, 0.773), PIECE(285.9, 1.60)}},
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

bool topology_read(struct topology *t, const char *name_or_file, struct diags *d) {
    static const struct keyfile file = {
        "--topology",       presets, sizeof presets / sizeof *presets,
        sizeof *presets,    &blank,  DIAG_UNKNOWN_TOPOLOGY,
        DIAG_TOPOLOGY_FILE, set,     missing};
    return keyfile_read(&file, name_or_file, t, d);
}
