/* Emit: the plan's bytes.
 *
 * A plan records the options that shaped it, so that whoever finds one can make it again, but no
 * path: a file that holds where it was made differs from folder to folder. Topology and device are
 * named as they name themselves. Numbers are written in full, as C writes doubles, independent of
 * the locale.
 *
 * The finished bytes go through the runtime's reader before anybody sees them. That costs a few
 * milliseconds on a large model and turns a disagreement of the two sides into an error here. */
#include "emit.h"
#include <stdlib.h>

static void add_number(struct compilation *c, struct plan_builder *b, const char *key,
                       double value) {
    plan_add_option(b, key, arena_printf(&c->program.arena, "%.17g", value));
}

static void add_options(struct compilation *c, struct plan_builder *b) {
    const struct options *o = c->options;
    static const char *const averages[] = {
        [AVERAGE_WORLD] = "world", [AVERAGE_PRESENT] = "present", [AVERAGE_NONE] = "none"};
    static const char *const schedules[] = {[SCHEDULE_ROBUST] = "robust",
                                            [SCHEDULE_EXACT] = "exact",
                                            [SCHEDULE_DDP] = "ddp",
                                            [SCHEDULE_SINGLE] = "single"};
    static const char *const orders[] = {[ORDER_READY] = "ready",
                                         [ORDER_REGISTRATION] = "registration",
                                         [ORDER_DDP_FLAG] = "ddp-flag"};
    plan_add_option(b, "schedule", schedules[o->schedule]);
    plan_add_option(b, "average", averages[o->average]);
    plan_add_option(b, "guards", o->guards == GUARDS_REPORTED ? "reported" : "discovered");
    plan_add_option(b, "topology", c->topology.name);
    if (c->device.name[0]) plan_add_option(b, "device", c->device.name); /* not with a list */
    if (o->schedule == SCHEDULE_DDP) {
        plan_add_option(b, "order", orders[o->order]);
        if (o->first_bucket_mib > 0) add_number(c, b, "first-bucket-mib", o->first_bucket_mib);
    }
    if (o->schedule != SCHEDULE_SINGLE && o->bucket_cap_mib > 0)
        add_number(c, b, "bucket-cap-mib", o->bucket_cap_mib);
    if ((o->schedule == SCHEDULE_EXACT || o->schedule == SCHEDULE_ROBUST) && o->max_buckets > 0)
        add_number(c, b, "max-buckets", o->max_buckets);
}

static const char *joined(struct arena *a, const char *list, const char *item) {
    return *list ? arena_printf(a, "%s,%s", list, item) : item;
}

/* What the user vouches for: the patterns, and of the file of declarations, whose name means nothing
 * elsewhere, the operators that the model has, as the file would declare them. */
static void add_assumptions(struct compilation *c, struct plan_builder *b) {
    struct program *p = &c->program;
    const string_list *globs = &c->options->assume_differentiable;
    const char *list = "";
    for (uint32_t i = 0; i < globs->n; i++) list = joined(&p->arena, list, globs->at[i]);
    if (*list) plan_add_option(b, "assume-differentiable", list);
    list = "";
    for (uint32_t i = 0; i < p->n_assumed; i++)
        if (op_get(p->ops, p->assumed[i])->flags & OP_DECLARED)
            list = joined(&p->arena, list, op_declaration(p->ops, p->assumed[i], &p->arena));
    if (*list) plan_add_option(b, "ops", list);
}

struct plan *emit_plan(struct compilation *c) {
    struct plan_builder *b = plan_builder_new();
    struct plan *plan = NULL;
    struct plan_error error;
    void *bytes = NULL;
    size_t size = 0;
    if (!b) arena_out_of_memory(1);
    layout_plan(c, b);
    add_options(c, b);
    add_assumptions(c, b);
    if (!plan_build(b, &bytes, &size)) arena_out_of_memory(size);
    plan = plan_from_memory(bytes, size, &error);
    if (!plan)
        diag_plain(&c->diags, DIAG_PLAN_CANNOT_HOLD, c->path, "the finished plan %s",
                   error.message);
    free(bytes);
    plan_builder_free(b);
    return plan;
}
