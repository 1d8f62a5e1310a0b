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

/* NULL, or what is wrong with the line. */
static const char *parse_line(struct topology *t, struct line *line, struct arena *a) {
    struct word key, value;
    if (!keyfile_pair(line, &key, &value)) return "is not `key = value`";
    if (word_is(key, "name")) {
        if (value.length == 0 || value.length >= sizeof t->name) return "wants 1 to 63 bytes";
        memcpy(t->name, value.text, value.length);
        t->name[value.length] = 0;
        return NULL;
    }
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

bool topology_read(struct topology *t, const char *name_or_file, struct diags *d) {
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
        struct diag *x = diag_plain(d, DIAG_UNKNOWN_TOPOLOGY, "--topology",
                                    "'%s' is no preset, and as a file it %s", name_or_file, why);
        const char *nearest = diag_nearest(name_or_file, names, N_PRESETS);
        diag_set_help(d, x, "%s%s%sthe presets are %s, %s and %s", nearest ? "did you mean '" : "",
                      nearest ? nearest : "", nearest ? "'? " : "", names[0], names[1], names[2]);
        return false;
    }
    *t = (struct topology){.name = "file"};
    struct line line;
    bool ok = true;
    while (lines_next(&f, &line)) {
        if (!(why = parse_line(t, &line, &d->arena))) continue;
        lines_report(&f, f.number, DIAG_TOPOLOGY_FILE, "this line %s", why);
        ok = false;
    }
    if (ok && (t->n_pieces == 0 || t->ranks == 0)) {
        lines_report(&f, f.number ? f.number : 1, DIAG_TOPOLOGY_FILE, "the file ends without %s",
                     t->ranks ? "`piece = ALPHA_US BANDWIDTH_GB_S`" : "`ranks = N`");
        ok = false;
    }
    lines_close(&f);
    return ok;
}
