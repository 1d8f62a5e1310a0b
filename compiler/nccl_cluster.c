/* A cluster in one line: `nvlink:8,nodes:64,ib:400x8,gpu:h100`.
 *
 * The words may come in any order, each once. Left out: one node; one GPU in a node; gpu:h100. */
#include "keyfile.h"
#include "nccl.h"
#include <string.h>

enum { LEAST_GPUS = 2, MOST_GPUS = 16, MOST_NODES = 16384, MOST_NICS = 16 };

/* What a text is read into, and where complaints go. */
struct reader {
    struct nccl_cluster *to;
    const char *text;
    struct diags *diags;
    const char *node, *network; /* the words that said how GPUs and nodes are joined */
};

static bool complain(struct reader *r, const char *help, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool complain(struct reader *r, const char *help, const char *format, ...) {
    va_list args;
    char what[256];
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    struct diag *x =
        diag_plain(r->diags, DIAG_TOPOLOGY_WORDS, "--topology", "'%s': %s", r->text, what);
    diag_set_help(r->diags, x, "%s", help);
    return false;
}

static bool whole(const char *text, size_t length, uint32_t least, uint32_t most, uint32_t *out) {
    uint32_t n = 0;
    if (length == 0 || length > 6) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        n = n * 10 + (uint32_t)(text[i] - '0');
    }
    *out = n;
    return n >= least && n <= most;
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool set_gpus(struct reader *r, const char *word, const char *value) {
    r->to->nvlink = strcmp(word, "nvlink") == 0;
    if (r->node && strcmp(r->node, word) != 0)
        return complain(r, "leave one of them out",
                        "the GPUs of a node are joined by both %s and %s", r->node, word);
    r->node = word;
    return whole(value, strlen(value), LEAST_GPUS, MOST_GPUS, &r->to->gpus) ||
           complain(r, "a single GPU in a node needs no word",
                    "%s:%s is no number of GPUs from 2 to 16", word, value);
}

static bool set_nodes(struct reader *r, const char *word, const char *value) {
    return whole(value, strlen(value), 1, MOST_NODES, &r->to->nodes) ||
           complain(r, "such as nodes:64", "%s:%s is no number of nodes from 1 to 16384", word,
                    value);
}

static bool set_network(struct reader *r, const char *word, const char *value) {
    if (r->network && strcmp(r->network, word) != 0)
        return complain(r, "leave one of them out", "the nodes are joined by both %s and %s",
                        r->network, word);
    r->network = word;
    const char *x = strchr(value, 'x');
    size_t length = x ? (size_t)(x - value) : strlen(value);
    r->to->nics = 1;
    bool ok = keyfile_number(value, length, &r->to->nic_gbit_s) && r->to->nic_gbit_s >= 1 &&
              r->to->nic_gbit_s <= 3200;
    if (ok && x) ok = whole(x + 1, strlen(x + 1), 1, MOST_NICS, &r->to->nics);
    return ok || complain(r, "such as ib:400x8: eight NICs in each node of 400 Gb/s each",
                          "%s:%s is no rate from 1 to 3200 Gb/s, with x and up to 16 NICs after it",
                          word, value);
}

static bool set_gpu(struct reader *r, const char *word, const char *value) {
    for (enum nccl_gpu g = 0; g < NCCL_N_GPUS; g++)
        if (strcmp(value, nccl_gpu_names[g]) == 0) {
            r->to->gpu = g;
            return true;
        }
    const char *near = diag_nearest(value, nccl_gpu_names, NCCL_N_GPUS);
    return complain(r,
                    arena_printf(&r->diags->arena, "%s%s%sthere are h100, h200, b200, a100 and l4",
                                 near ? "did you mean '" : "", near ? near : "", near ? "'? " : ""),
                    "%s:%s is no GPU that the model knows", word, value);
}

static const struct {
    const char *word;
    bool (*set)(struct reader *r, const char *word, const char *value);
} words[] = {{"nvlink", set_gpus}, {"pcie", set_gpus},   {"nodes", set_nodes},
             {"ib", set_network},  {"eth", set_network}, {"gpu", set_gpu}};
enum { N_WORDS = sizeof words / sizeof *words };

static bool read_word(struct reader *r, char *word, uint32_t *seen) {
    static const char list[] = "the words are nvlink:GPUS or pcie:GPUS, nodes:N, ib:GBIT[xNICS] or "
                               "eth:GBIT[xNICS], and gpu:NAME, with commas between them";
    char *value = strchr(word, ':');
    if (!*word) return complain(r, list, "a word is empty");
    if (value) *value++ = 0;
    const char *names[N_WORDS];
    for (uint32_t i = 0; i < N_WORDS; i++) {
        names[i] = words[i].word;
        if (strcmp(word, names[i]) != 0) continue;
        if (!value) return complain(r, list, "%s has no value", word);
        if (*seen >> i & 1) return complain(r, "leave one of them out", "%s comes twice", word);
        *seen |= 1u << i;
        return words[i].set(r, names[i], value);
    }
    const char *near = diag_nearest(word, names, N_WORDS);
    return complain(
        r, near ? arena_printf(&r->diags->arena, "did you mean '%s'? %s", near, list) : list,
        "'%s' is no word for a part of a cluster", word);
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool nccl_is_cluster(const char *text) { return strchr(text, ':') && !strchr(text, '/'); }

static bool check(struct reader *r) {
    const struct nccl_cluster *c = r->to;
    if (c->nodes > 1 && !r->network)
        return complain(r, "say what joins them: ib:400x8, or eth:25", "%u nodes have no network",
                        c->nodes);
    if (c->nodes == 1 && r->network)
        return complain(r, "say how many nodes there are: nodes:4",
                        "%s joins nothing: there is one node", r->network);
    if (c->gpus * c->nodes < 2)
        return complain(r, "add nvlink:8, pcie:8, or nodes:4 and a network",
                        "there is a single GPU: nothing to reduce");
    if (c->nvlink && !nccl_has_nvlink(c->gpu))
        return complain(r, "say pcie instead of nvlink", "%s has no NVLink",
                        nccl_gpu_names[c->gpu]);
    return true;
}

bool nccl_cluster_read(struct nccl_cluster *c, const char *text, struct diags *d) {
    char copy[KEYFILE_NAME];
    uint32_t seen = 0;
    struct reader r = {c, text, d, NULL, NULL};
    *c = (struct nccl_cluster){.gpu = NCCL_H100, .gpus = 1, .nodes = 1};
    if (strlen(text) >= sizeof copy)
        return complain(&r, "a cluster takes few words; `ddpc topology` lists them",
                        "there are more than 63 bytes");
    strcpy(copy, text);
    for (char *at = copy, *comma; at; at = comma) {
        if ((comma = strchr(at, ','))) *comma++ = 0;
        if (!read_word(&r, at, &seen)) return false;
    }
    return check(&r);
}
