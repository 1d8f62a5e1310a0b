/* `ddpc topology [NAME|FILE|CLUSTER]`: a topology as the file that describes it, to look at, to edit,
 * to keep. Of a cluster it also says what NCCL's model has and how near the pieces are to it. Without
 * an argument: the presets, and the words for clusters. */
#include "nccl.h"
#include "tool.h"
#include <string.h>

static double gb_s(const struct cost_piece *p) { return 1 / (1000 * p->us_per_byte); }

static void list(FILE *out) {
    const struct topology *t;
    fprintf(out, "%-18s %6s  pieces: alpha in us, 10^9 bytes/s\n", "preset", "ranks");
    for (uint32_t i = 0; (t = topology_preset(i)); i++) {
        fprintf(out, "%-18s %6u ", t->name, t->ranks);
        for (uint32_t k = 0; k < t->n_pieces; k++)
            fprintf(out, "%s %.4g %.4g", k ? ";" : "", t->piece[k].alpha_us, gb_s(&t->piece[k]));
        fputc('\n', out);
    }
    fputs("\nclusters, by NCCL's own model: words with commas between them\n"
          "  nvlink:GPUS or pcie:GPUS       GPUs of a node, 2 to 16; 1 without\n"
          "  nodes:N                        1 without\n"
          "  ib:GBIT[xNICS] or eth:...      Gb/s of each NIC, and how many a node has\n"
          "  gpu:h100|h200|b200|a100|l4     h100 without\n",
          out);
}

static void print_fit(const struct topology *t, const struct nccl_model *m, double error,
                      FILE *out) {
    fprintf(out,
            "# The all-reduce of NCCL's own model (2.30), between %s GPUs.\n"
            "# The pieces are within %.1f %% of it from 1 KiB to 1 GiB:\n"
            "#      bytes     model us    pieces us\n",
            nccl_gpu_names[m->cluster.gpu], 100 * error);
    for (uint64_t bytes = TOPOLOGY_FIT_FROM; bytes <= TOPOLOGY_FIT_TO; bytes *= 4)
        fprintf(out, "# %10llu %12.1f %12.1f\n", (unsigned long long)bytes,
                nccl_allreduce_us(m, bytes), topology_cost_us(t, bytes));
}

static void print_file(const struct topology *t, FILE *out) {
    fprintf(out, "name = %s\nranks = %u\n", t->name, t->ranks);
    for (uint32_t k = 0; k < t->n_pieces; k++)
        fprintf(out, "piece = %.10g %.10g\n", t->piece[k].alpha_us, gb_s(&t->piece[k]));
}

int tool_topology(struct tool *t) {
    const char *name = t->args.n ? t->args.at[0] : NULL;
    struct diags diags;
    struct topology topology;
    struct tool_output output;
    diags_init(&diags, NULL);
    int status = TOOL_USAGE;
    FILE *out = NULL;
    if (!name || topology_read(&topology, name, &diags))
        out = tool_output_open(t, &output, t->output);
    if (out) {
        struct nccl_cluster cluster;
        if (!name) {
            list(out);
        } else if (nccl_is_cluster(name) && nccl_cluster_read(&cluster, name, &diags)) {
            struct nccl_model model;
            nccl_model_init(&model, &cluster);
            print_fit(&topology, &model, topology_fit(&topology, &model), out);
            print_file(&topology, out);
        } else {
            print_file(&topology, out);
        }
        if (tool_output_close(&output, true)) status = TOOL_OK;
    }
    tool_print_diags(t, &diags);
    diags_free(&diags);
    return status;
}
