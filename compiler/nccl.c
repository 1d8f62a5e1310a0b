/* NCCL's own cost model, for clusters of equal nodes.
 *
 * NCCL chooses among algorithms (ring, tree, and with NVSwitch the reductions inside of it: NVLS)
 * and protocols (LL and LL128 send flags along with the data, for latency; Simple does not, for
 * bandwidth) by a model of each: latency + bytes / bandwidth. Figures and formulas are those of
 * src/graph/tuning.cc, 2.30, for all-reduce: fitted by its authors to their machines. What the
 * model takes from a search over the machine's links (src/graph/search.cc) - how many channels, of
 * what rate - is worked out here for the plain case: all GPUs of a node reach each other at one
 * rate, all nodes are alike, NICs are spread evenly. The search tries rates from a list and keeps
 * the one with the largest sum over channels.
 *
 * Assumed besides: Intel processors (AMD's add a µs to ring hops between nodes), no latency
 * reported by the network, no CollNet. Bandwidths in 10^9 bytes/s, times in µs. */
#include "nccl.h"
#include <stddef.h>

/* ---- figures --------------------------------------------------------------------------------- */

enum generation { AMPERE, HOPPER, BLACKWELL, N_GENERATIONS };
enum link { NVLINK, PCIE, NETWORK, N_LINKS };

const char *const nccl_gpu_names[NCCL_N_GPUS] = {"h100", "h200", "b200", "a100", "l4"};

static const struct gpu {
    enum generation generation;
    double nvlink; /* links x rate of one */
    double pcie;   /* x16, as a NIC uses it */
    bool ll128;    /* is trusted to keep 128 bytes together */
} gpus[NCCL_N_GPUS] = {
    {HOPPER, 18 * 20.6, 48, true}, /* 5th generation PCIe */
    {HOPPER, 18 * 20.6, 48, true}, {BLACKWELL, 18 * 40.1, 48, true},
    {AMPERE, 12 * 20.0, 24, true}, {AMPERE, 0, 24, false}, /* Ada counts as Ampere */
};
/* Intel's root ports cut what goes from GPU to GPU into small packets: a sixth is lost. */
#define PEER_SHARE 6 / 5

static const double rates_in_node[N_GENERATIONS][16] = {
    {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3},
    {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3},
    {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18},
};
static const double rates_between[N_GENERATIONS][24] = {
    {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12},
    {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12},
    {96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12},
};
enum { MOST_CHANNELS = 16 };

static const double base_us[NCCL_N_ALGORITHMS][NCCL_N_PROTOCOLS] = {{6.8, 14, 8.4}, {6.6, 14, 8.4}};
static const double hop_us[N_LINKS][NCCL_N_ALGORITHMS][NCCL_N_PROTOCOLS] = {
    {{.6, 1.25, 4}, {.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
    {{1, 1.9, 4}, {1, 2.5, 5.7}},
    {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 18}, {0, 0, 20.9}},
};
/* What a ring's hop in a node costs at least, where the network's messages are posted meanwhile. */
static const double post_us[NCCL_N_PROTOCOLS] = {1, 1, 3};

/* Largest bandwidths, in all or per channel: of one, of two, of more nodes. */
static const double ll_in_node[N_GENERATIONS] = {87.7, 141, 282};
static const double ll_between[3] = {0, 39, 20.4};
static const double ring_ll128[N_GENERATIONS] = {20, 36.7, 40};
static const double tree_ll128[N_GENERATIONS][3] = {
    {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const double tree_any[N_GENERATIONS][3] = {
    {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const double nvls_tree_any[N_GENERATIONS][3] = {{0}, {0, 57.7, 45.5}, {0, 96, 80}};
static const double nvls_efficiency[N_GENERATIONS] = {0, .85, .74};

/* Trees do worse at medium sizes than latency and bandwidth say: the part of the bandwidth that
 * they reach from 64 << i bytes on. */
static const double tree_part[NCCL_N_PROTOCOLS][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

bool nccl_has_nvlink(enum nccl_gpu gpu) { return gpus[gpu].nvlink > 0; }

/* ---- the search ------------------------------------------------------------------------------ */

struct graph {
    uint32_t channels;
    double rate, between; /* of a channel in a node and, for NVLS, on the network */
};

static uint32_t lesser(uint32_t a, uint32_t b) { return a < b ? a : b; }
static double less(double a, double b) { return a < b ? a : b; }

/* What a GPU sends to and gets from its peers; without any there is no limit. */
static double peer_rate(const struct nccl_cluster *c) {
    const struct gpu *gpu = &gpus[c->gpu];
    if (c->gpus == 1) return 1e9;
    return c->nvlink ? gpu->nvlink : gpu->pcie / (PEER_SHARE);
}

/* A NIC gives no more than its slot. */
static double nic_rate(const struct nccl_cluster *c) {
    return less(c->nic_gbit_s / 8, gpus[c->gpu].pcie);
}

/* Rings and trees: a channel passes every GPU once. Between nodes each goes through one NIC; of the
 * channels that were found NCCL makes two each, of half the rate, and so it does in a node if they
 * are fast. */
static struct graph search(const struct nccl_cluster *c) {
    enum generation generation = gpus[c->gpu].generation;
    bool alone = c->nodes == 1;
    const double *rate = alone ? rates_in_node[generation] : rates_between[generation];
    double peers = peer_rate(c), nic = alone ? 0 : nic_rate(c);
    struct graph best = {1, .1, 0};
    for (; *rate > 0 && (best.rate < 1 || *rate > .49 * best.rate); rate++) {
        if (*rate > peers || (!alone && *rate > nic)) continue;
        uint32_t channels =
            peers / *rate < MOST_CHANNELS ? (uint32_t)(peers / *rate) : MOST_CHANNELS;
        if (!alone) channels = lesser(channels, c->nics * (uint32_t)(nic / *rate));
        if (channels * *rate > best.channels * best.rate) best = (struct graph){channels, *rate, 0};
    }
    bool many = generation > AMPERE && best.rate < 50 && best.channels > 4;
    if (!alone || (best.rate >= 25 && !many)) {
        best.channels *= 2;
        best.rate /= 2;
    }
    return best;
}

/* NVLS: a channel per GPU, whose part of the data it gathers from all of them, itself too. */
static struct graph search_nvls(const struct nccl_cluster *c) {
    enum generation generation = gpus[c->gpu].generation;
    bool alone = c->nodes == 1;
    const double *rates = alone ? rates_in_node[generation] : rates_between[generation];
    double share = alone ? 1e9 : nic_rate(c) * less(1, (double)c->nics / c->gpus);
    struct graph g = {c->gpus, 0, 0};
    uint32_t i = 0;
    while (rates[i] > 0 && ((c->gpus + 1) * rates[i] > gpus[c->gpu].nvlink || rates[i] > share))
        i++;
    if (rates[i] == 0) return (struct graph){0};
    g.rate = g.between = rates[i];
    while (i > 0 && g.between < 2 * g.rate && rates[i - 1] <= share) g.between = rates[--i];
    return g;
}

/* ---- the model ------------------------------------------------------------------------------- */

static uint32_t floor_log2(uint64_t x) { return 63u - (uint32_t)__builtin_clzll(x); }

/* By number of nodes: one, two, more. */
static uint32_t column(const struct nccl_cluster *c) { return lesser(c->nodes, 3) - 1; }

/* The bus bandwidth of a ring or tree: what each link carries. */
static double bus_of(const struct nccl_cluster *c, const struct graph *g, enum nccl_algorithm a,
                     enum nccl_protocol p) {
    enum generation generation = gpus[c->gpu].generation;
    uint32_t at = column(c);
    double bus = g->channels * g->rate, ll = at == 0 ? ll_in_node[generation] : ll_between[at];
    if (a == NCCL_RING) {
        if (p == NCCL_LL) return less(bus / 2, ll);
        if (p == NCCL_LL128) return less(bus * .92, g->channels * ring_ll128[generation]);
        return bus;
    }
    bus = less(bus * .92, g->channels * tree_any[generation][at]);
    if (p == NCCL_LL) return less(bus / 3.8, ll);
    if (p == NCCL_LL128)
        return less(bus * (at == 0 ? 7.0 / 9 : 120.0 / 128),
                    g->channels * tree_ll128[generation][at]);
    return bus;
}

static double bus_of_nvls(const struct nccl_cluster *c, const struct graph *g) {
    enum generation generation = gpus[c->gpu].generation;
    double heads = g->channels;
    double rate = g->rate * nvls_efficiency[generation] * (heads - 1) / heads * 2;
    rate = less(rate, c->nodes == 2 ? 2 * g->between : g->between);
    if (c->nodes > 1) rate = less(rate, nvls_tree_any[generation][column(c)]);
    return heads * rate;
}

static double latency_of(const struct nccl_cluster *c, enum nccl_algorithm a,
                         enum nccl_protocol p) {
    double hop = hop_us[c->nvlink ? NVLINK : PCIE][a][p];
    double far = hop_us[NETWORK][c->gpus == 1 ? NCCL_TREE : a][p];
    double levels = floor_log2(c->nodes);
    uint32_t steps = 2 * (c->gpus * c->nodes - 1), crossings = 2 * (c->nodes - 1);
    switch (a) {
    case NCCL_RING:
        if (c->nodes > 1 && hop < post_us[p]) hop = post_us[p];
        return base_us[a][p] + (steps - crossings) * hop + crossings * far;
    case NCCL_TREE: return base_us[a][p] + 2 * ((c->gpus - 1) * hop + levels * far);
    default: return hop + (c->nodes > 1 ? 2 * levels * far : 0);
    }
}

void nccl_model_init(struct nccl_model *m, const struct nccl_cluster *c) {
    struct graph g = search(c);
    uint32_t ranks = c->gpus * c->nodes;
    double algorithm_per_bus = ranks / (2.0 * (ranks - 1));
    *m = (struct nccl_model){.cluster = *c, .ring_channels = g.channels};
    for (enum nccl_algorithm a = NCCL_TREE; a <= NCCL_RING; a++)
        for (enum nccl_protocol p = NCCL_LL; p < NCCL_N_PROTOCOLS; p++) {
            if (p == NCCL_LL128 && (!gpus[c->gpu].ll128 || (c->gpus > 1 && !c->nvlink))) continue;
            double bus = bus_of(c, &g, a, p);
            m->way[a][p] = (struct nccl_way){latency_of(c, a, p),
                                             bus * (a == NCCL_RING ? algorithm_per_bus : .5)};
        }
    if (c->nvlink && gpus[c->gpu].generation >= HOPPER && c->gpus > 2) {
        struct graph heads = search_nvls(c);
        enum nccl_algorithm a = c->nodes == 1 ? NCCL_NVLS : NCCL_NVLS_TREE;
        if (heads.channels)
            m->way[a][NCCL_SIMPLE] = (struct nccl_way){latency_of(c, a, NCCL_SIMPLE),
                                                       bus_of_nvls(c, &heads) * algorithm_per_bus};
    }
}

double nccl_allreduce_us(const struct nccl_model *m, uint64_t bytes) {
    const struct nccl_cluster *c = &m->cluster;
    double best = -1;
    uint32_t size = bytes >> 6 ? floor_log2(bytes >> 6) : 0;
    uint64_t plateau = UINT64_C(64) * m->ring_channels * c->gpus * c->nodes;
    for (enum nccl_algorithm a = NCCL_TREE; a < NCCL_N_ALGORITHMS; a++)
        for (enum nccl_protocol p = NCCL_LL; p < NCCL_N_PROTOCOLS; p++) {
            double latency = m->way[a][p].latency_us, gb_s = m->way[a][p].gb_s;
            if (gb_s == 0) continue;
            if (a == NCCL_TREE && size < 24) gb_s *= tree_part[p][size];
            if (a == NCCL_RING && p == NCCL_SIMPLE && c->nodes > 1 && bytes >= plateau)
                latency *= 1.4;
            double us = latency + (double)bytes / (1000 * gb_s);
            if (best < 0 || us < best) best = us;
        }
    return best;
}
