/* What schedules lose when predictions are off: for each model and topology, by policy, the nominal
 * loss against the optimum and the worst regret in the box of compiler/robust.c, over draws that the
 * scheduler has not seen (another seed, and more of them).
 *
 * usage: bench_robust MODEL TOPOLOGY...; a MODEL that ends in .list is one for --from-list */
#include "pipeline.h"
#include <stdio.h>
#include <string.h>

enum { OTHER_SEED = 2, ROUNDS = 20 };

static bool schedule(struct compilation *c, struct options *o, const char *model) {
    size_t n = strlen(model);
    if (n > 5 && !strcmp(model + n - 5, ".list")) o->from_list = model;
    pipeline_init(c, o);
    bool ok = pipeline_run(c, o->from_list ? NULL : model, PIPELINE_schedule);
    if (!ok) diags_print(&c->diags, stderr, false, false);
    return ok;
}

static bool compare(const char *model, const char *topology) {
    static const struct {
        const char *name;
        enum schedule_policy policy;
    } policies[] = {{"exact", SCHEDULE_EXACT}, {"robust", SCHEDULE_ROBUST}, {"ddp", SCHEDULE_DDP}};
    double optimum = 0;
    bool ok = true;
    printf("%s on %s\n", model, topology);
    for (size_t i = 0; i < sizeof policies / sizeof *policies && ok; i++) {
        struct options o = {.schedule = policies[i].policy, .topology = topology};
        struct compilation c;
        ok = schedule(&c, &o, model);
        for (uint32_t s = 0; ok && s < c.program.steps.n; s++) {
            const struct sched *x = &c.sched[s];
            if (i == 0 && s == 0) optimum = x->finish_us;
            printf("  %-6s %-8s %5u buckets  nominal +%.3f %%  worst regret %.2f %%, of %u unseen "
                   "draws %.2f %%\n",
                   policies[i].name, ir_text(&c.module, c.program.steps.at[s].name), x->bucket.n,
                   s ? 0. : 100 * (x->finish_us / optimum - 1),
                   100 * sched_worst_regret(x, &c.topology, ROBUST_SEED, robust_rounds(x->item.n)),
                   ROUNDS * ROBUST_CORNERS,
                   100 * sched_worst_regret(x, &c.topology, OTHER_SEED, ROUNDS));
        }
        pipeline_free(&c);
    }
    return ok;
}

int main(int argc, char **argv) {
    bool ok = argc > 2;
    for (int i = 2; i < argc && ok; i++) ok = compare(argv[1], argv[i]);
    return !ok;
}
