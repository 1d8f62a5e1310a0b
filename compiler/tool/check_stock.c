/* What `ddpc check` says about stock DDP's costs: the flag's walk, and bucket_cap_mb. They need ready
 * times, so a device and a topology; the usual ones, unless flags name others. */
#include "check.h"

enum { LEAST_WALK_US = 100 }; /* less is not worth a line */

static bool read_machine(struct compilation *c) {
    const struct options *o = c->options;
    if (!device_read(&c->device, o->device ? o->device : "h100", &c->diags)) return false;
    if (!topology_read(&c->topology, o->topology ? o->topology : "h100x8", &c->diags)) return false;
    return !o->profile || c->profile || (c->profile = profile_read(o->profile, &c->diags));
}

struct check_stock *check_stock(struct tool *t, struct compilation *c, const struct advices *a) {
    struct program *p = &c->program;
    struct check_stock *out = arena_new(&t->arena, struct check_stock, p->steps.n + 1);
    uint32_t said = c->diags.all.n;
    bool planned = c->plan != NULL, ok = planned || read_machine(c); /* then all is there */
    for (uint32_t s = 0; ok && s < p->steps.n; s++) {
        struct diags silent; /* that sizes are not known is said in the report */
        diags_init(&silent, &c->source);
        stock_walk(p, &c->reach[s], &out[s].walk);
        ok = planned || c->options->from_list ||
             order_ready(p, s, &c->reach[s], &c->device, c->profile,
                         c->profile && s == 0 ? &c->diags : &silent, &c->ready[s]);
        if (ok)
            stock_buckets(p, s, &c->reach[s], &c->branches, &c->ready[s], &c->topology,
                          a->all.verdict == VERDICT_NEEDED, &out[s].buckets);
        diags_free(&silent);
    }
    if (c->diags.all.n > said) tool_print_diags(t, &c->diags);
    return ok ? out : NULL;
}

const char *check_walk_text(const struct check_report *r) {
    const struct check_stock *most = r->stock;
    for (uint32_t s = 1; s < r->a->n_steps; s++)
        if (r->stock[s].walk.nodes > most->walk.nodes) most = &r->stock[s];
    if (most->walk.us < LEAST_WALK_US || r->a->all.verdict == VERDICT_UNKNOWN) return NULL;
    return arena_printf(
        &r->t->arena,
        "the flag %s about %.1f ms in every forward: a walk over %.0f nodes of autograd",
        r->a->all.verdict == VERDICT_NEEDED ? "costs" : "would cost", most->walk.us / 1e3,
        most->walk.nodes);
}

const char *check_buckets_text(const struct check_report *r, uint32_t step, bool always) {
    const struct stock_buckets *b = &r->stock[step].buckets;
    const struct options *o = r->c->options;
    bool asked = always || o->topology || o->device || o->profile;
    struct arena *a = &r->t->arena;
    const char *on = arena_printf(a, "%s with %s", tool_utf8(a, r->c->topology.name),
                                  tool_utf8(a, r->c->device.name));
    if (b->unknown_nodes)
        return !asked ? NULL
                      : arena_printf(
                            a,
                            "bucket_cap_mb: cannot be said, as of %u of %u nodes the sizes are "
                            "not known; --dim gives them, --profile measured times",
                            b->unknown_nodes, b->nodes);
    if (!b->cap_mib) return NULL;
    if (b->cap_mib == STOCK_DEFAULT_CAP)
        return !asked
                   ? NULL
                   : arena_printf(a, "bucket_cap_mb: 25, the default, is as good as any on %s", on);
    return arena_printf(a, "bucket_cap_mb=%u: predicted %.1f %% sooner done than with 25, on %s",
                        b->cap_mib, 100 * (1 - b->finish_us / b->default_us), on);
}
