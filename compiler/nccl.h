/* What NCCL itself expects an all-reduce to take, on a cluster of equal nodes. */
#ifndef DDPC_NCCL_H
#define DDPC_NCCL_H

#include "diag.h"

enum nccl_gpu { NCCL_H100, NCCL_H200, NCCL_B200, NCCL_A100, NCCL_L4, NCCL_N_GPUS };
extern const char *const nccl_gpu_names[NCCL_N_GPUS];
bool nccl_has_nvlink(enum nccl_gpu gpu);

struct nccl_cluster {
    enum nccl_gpu gpu;
    bool nvlink;                /* between the GPUs of a node; else PCIe */
    uint32_t gpus, nodes, nics; /* gpus and nics: of each node */
    double nic_gbit_s;          /* of each; not looked at if there is one node */
};

/* `nvlink:8,nodes:64,ib:400x8,gpu:h100` (nccl_cluster.c). A text is meant as one if it has a colon
 * and no slash. False after reporting. */
bool nccl_is_cluster(const char *text);
bool nccl_cluster_read(struct nccl_cluster *c, const char *text, struct diags *d);

enum nccl_algorithm { NCCL_TREE, NCCL_RING, NCCL_NVLS, NCCL_NVLS_TREE, NCCL_N_ALGORITHMS };
enum nccl_protocol { NCCL_LL, NCCL_LL128, NCCL_SIMPLE, NCCL_N_PROTOCOLS };

struct nccl_model {
    struct nccl_cluster cluster;
    uint32_t ring_channels;
    struct nccl_way {
        double latency_us, gb_s; /* of the algorithm: bytes / time; 0: not used */
    } way[NCCL_N_ALGORITHMS][NCCL_N_PROTOCOLS];
};

/* At least two GPUs. */
void nccl_model_init(struct nccl_model *m, const struct nccl_cluster *c);

/* The least time over algorithms and protocols, µs; bytes > 0. It is what NCCL compares, so it can
 * fall where the size grows. */
double nccl_allreduce_us(const struct nccl_model *m, uint64_t bytes);

#endif
