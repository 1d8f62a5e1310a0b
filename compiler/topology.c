/* Topologies: what a collective costs, by preset or by a file.
 *
 * The cost of an all-reduce of S bytes is affine, alpha + S / bandwidth, or the least of several
 * such pieces, since a library switches algorithms with the size. The presets are lower envelopes
 * of NCCL's own model (src/graph/tuning.cc of 2.30: latency + S / bandwidth, the minimum over
 * algorithm and protocol) for three clusters; docs/scheduling.md says how far each is from the
 * model.
 *
 * A file has the lines `name = TEXT`, `ranks = N` and one or more `piece = ALPHA_US BANDWIDTH_GB_S`
 * (10^9 bytes/s). `ddprun --calibrate` writes such files. */
#include "keyfile.h"
#include "schedule.h"
#include <string.h>

/* 10^9 bytes/s are 1000 bytes/µs. */
#define PIECE(alpha_us, gb_s)                                                                      \
    { alpha_us, 1 / (1000.0 * (gb_s)) }
static const struct topology presets[] = {
    {"h100x8", 8, 2, {PIECE(15, 85.5), PIECE(25, 272)}},
    {"h100x8-ib400-x64", 512, 3, {PIECE(75.2, 4.29), PIECE(134.5, 143), PIECE(275.8, 182)}},
    {"eth25-x16", 16, 3, {PIECE(46.5, 0.252), PIECE(77.4, 0.773), PIECE(285.9, 1.60)}},
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

/* "ALPHA_US BANDWIDTH_GB_S" */
static bool parse_piece(const char *text, size_t length, struct cost_piece *out) {
    size_t first = 0;
    while (first < length && text[first] != ' ' && text[first] != '\t') first++;
    size_t second = first;
    while (second < length && (text[second] == ' ' || text[second] == '\t')) second++;
    double gb_s;
    if (!keyfile_number(text, first, &out->alpha_us) ||
        !keyfile_number(text + second, length - second, &gb_s) || gb_s == 0)
        return false;
    out->us_per_byte = 1 / (1000.0 * gb_s);
    return true;
}

/* NULL, or what is wrong with the line. */
static const char *parse_line(struct topology *t, const char *key, size_t key_length,
                              const char *value, size_t length) {
    if (!value) return "is not `key = value`";
    if (keyfile_is(key, key_length, "name")) {
        if (length == 0 || length >= sizeof t->name) return "wants a name of 1 to 63 bytes";
        memcpy(t->name, value, length);
        t->name[length] = 0;
        return NULL;
    }
    if (keyfile_is(key, key_length, "ranks")) {
        double ranks;
        if (!keyfile_number(value, length, &ranks) || ranks < 1 || ranks > 1e6 ||
            ranks != (double)(uint32_t)ranks)
            return "wants a whole number of ranks from 1 to 1000000";
        t->ranks = (uint32_t)ranks;
        return NULL;
    }
    if (keyfile_is(key, key_length, "piece")) {
        if (t->n_pieces == TOPOLOGY_MAX_PIECES) return "is one piece too many: 16 is the limit";
        if (!parse_piece(value, length, &t->piece[t->n_pieces]))
            return "wants two numbers, a latency in µs and a bandwidth in 10^9 bytes/s above 0";
        t->n_pieces++;
        return NULL;
    }
    return "has an unknown key; there are `name`, `ranks` and `piece`";
}

bool topology_read(struct topology *t, const char *name_or_file, struct diags *d) {
    const char *names[N_PRESETS], *why;
    for (uint32_t i = 0; i < N_PRESETS; i++) {
        names[i] = presets[i].name;
        if (strcmp(name_or_file, names[i]) == 0) {
            *t = presets[i];
            return true;
        }
    }
    struct keyfile f;
    if (!keyfile_open(&f, name_or_file, &why)) {
        struct diag *x = diag_plain(d, DIAG_UNKNOWN_TOPOLOGY, "--topology",
                                    "'%s' is no preset, and as a file it %s", name_or_file, why);
        const char *nearest = diag_nearest(name_or_file, names, N_PRESETS);
        diag_set_help(d, x, "%s%s%sthe presets are %s, %s and %s", nearest ? "did you mean '" : "",
                      nearest ? nearest : "", nearest ? "'? " : "", names[0], names[1], names[2]);
        return false;
    }
    *t = (struct topology){.name = "file"};
    const char *key, *value;
    size_t key_length, length;
    bool ok = true;
    while (keyfile_pair(&f, &key, &key_length, &value, &length)) {
        if (!(why = parse_line(t, key, key_length, value, length))) continue;
        keyfile_report(&f, d, DIAG_TOPOLOGY_FILE, why);
        ok = false;
    }
    if (ok && (t->n_pieces == 0 || t->ranks == 0)) {
        keyfile_report(&f, d, DIAG_TOPOLOGY_FILE,
                       t->ranks ? "is the last, and there is no `piece = ALPHA_US BANDWIDTH_GB_S`"
                                : "is the last, and there is no `ranks = N`");
        ok = false;
    }
    keyfile_close(&f);
    return ok;
}
