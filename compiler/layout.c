/* Layout: from the passes' results to the plan's records.
 *
 * Parameters keep their order, without the buffers, which have no gradient and no place in a plan.
 * Of the branches only those are taken that some guard depends on, in the order of their variables:
 * a plan should not change because an unrelated condition appeared in the model. Guards are the
 * conditional parameters' `may` functions, each once; their decision diagrams are copied node by
 * node, shared nodes once, children before parents, which is what lets the plan's reader check them
 * in one pass and the runtime evaluate them by walking down.
 *
 * The arithmetic of offsets is the builder's (runtime/plan), because the reader insists on the same
 * rules. So is the choice of where control and presence buckets go. */
#include "emit.h"
#include <string.h>

struct layout {
    struct compilation *c;
    struct program *p;
    struct plan_builder *b;
    uint32_t *param;    /* by program parameter: the plan's index; PLAN_NONE for buffers */
    uint32_t *function; /* by bdd handle: the plan's function, while marking 1 if it is needed */
    uint32_t *guard;    /* by bdd handle: the plan's guard + 1 */
    uint32_t *branch;   /* by variable: the plan's branch + 1; while marking 1 if it is needed */
    VEC(bdd) order;     /* the needed nodes, children first */
    VEC(bdd) stack;
};

/* ---- parameters ------------------------------------------------------------------------------ */

static bool refuse(struct compilation *c, const struct param *p, const char *why) {
    diag_at(&c->diags, DIAG_PLAN_CANNOT_HOLD, p->loc, strtab_len(&c->module.strings, p->name),
            "parameter '%s' %s", ir_text(&c->module, p->name), why);
    return false;
}

/* What a plan has no field for: 2^52 elements are more bytes than any address space holds, and so
 * are 2^55 bytes in all. */
static bool check_param(struct compilation *c, const struct param *p) {
    const struct ir_module *m = &c->module;
    const struct ir_type_info *type = &m->type.at[p->type];
    if (strlen(ir_text(m, p->name)) != strtab_len(&m->strings, p->name))
        return refuse(c, p, "has a NUL byte in its name");
    if (!plan_dtype_bits(p->dtype)) return refuse(c, p, "has an element type without a size");
    uint64_t left = (uint64_t)1 << 52;
    for (int32_t i = 0; i < type->rank; i++) {
        int64_t size = m->dim.at[type->dims + (uint32_t)i].size;
        if (size > 0 && (left /= (uint64_t)size) == 0)
            return refuse(c, p, "has more than 2^52 elements");
    }
    return true;
}

bool layout_fits(struct compilation *c) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->program.params.n; i++) {
        const struct param *p = &c->program.params.at[i];
        if (p->kind == PARAM_BUFFER) continue;
        if (!check_param(c, p)) return false;
        bytes += (uint64_t)p->elements * plan_dtype_bits(p->dtype) / 8 + PLAN_SEGMENT_ALIGN;
        if (bytes >= (uint64_t)1 << 55)
            return refuse(c, p, "makes all parameters together more than 2^55 bytes");
    }
    return true;
}

static void add_params(struct layout *l) {
    struct program *p = l->p;
    VEC(int64_t) dims = {0};
    for (uint32_t i = 0; i < p->params.n; i++) {
        const struct param *param = &p->params.at[i];
        const struct ir_type_info *type = &p->m->type.at[param->type];
        struct plan_source source = {0, 0};
        l->param[i] = PLAN_NONE;
        if (param->kind == PARAM_BUFFER) continue;
        if (param->loc != IR_NO_LOC)
            source_position(&l->c->source, param->loc, &source.line, &source.column);
        dims.n = 0;
        for (int32_t k = 0; k < type->rank; k++)
            vec_push(&dims, p->m->dim.at[type->dims + (uint32_t)k].size);
        l->param[i] =
            plan_add_param(l->b, ir_text(p->m, param->name), param->dtype, dims.n, dims.at, source);
    }
    vec_free(&dims);
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* Depth first without recursion: a node is pushed twice, and is in order when it comes up again. */
static void mark(struct layout *l, bdd root) {
    vec_push(&l->stack, root);
    while (l->stack.n) {
        bdd f = l->stack.at[--l->stack.n], low, high;
        if (f == BDD_FALSE || f == BDD_TRUE || l->function[f] == 2) continue;
        uint32_t variable = bdd_top(l->c->branches.bdd, f, &low, &high);
        if (l->function[f] == 1) {
            l->function[f] = 2;
            vec_push(&l->order, f);
            l->branch[variable] = 1;
            continue;
        }
        l->function[f] = 1;
        vec_push(&l->stack, f);
        vec_push(&l->stack, low);
        vec_push(&l->stack, high);
    }
}

/* Values of different scopes may share a name; in a plan the second one is "name#2". */
static void add_branches(struct layout *l) {
    struct strtab names;
    strtab_init(&names);
    for (uint32_t i = 0; i < l->c->branches.all.n; i++) {
        const struct branch *branch = &l->c->branches.all.at[i];
        const char *name = branch->name;
        str known;
        if (!l->branch[i]) continue;
        for (int k = 2; strtab_find(&names, name, strlen(name), &known); k++)
            name = arena_printf(&l->p->arena, "%s#%d", branch->name, k);
        strtab_addz(&names, name);
        l->branch[i] = plan_add_branch(l->b, name, branch->uniform) + 1;
    }
    strtab_free(&names);
}

static void add_guards(struct layout *l) {
    struct program *p = l->p;
    for (uint32_t s = 0; s < p->steps.n; s++)
        for (uint32_t i = 0; i < p->params.n; i++)
            if (l->param[i] != PLAN_NONE && l->c->reach[s].gradient[i].class == GRAD_CONDITIONAL)
                mark(l, l->c->reach[s].gradient[i].may);
    add_branches(l);
    l->function[BDD_FALSE] = 0;
    l->function[BDD_TRUE] = 1;
    for (uint32_t i = 0; i < l->order.n; i++) {
        bdd f = l->order.at[i], low, high;
        uint32_t variable = bdd_top(l->c->branches.bdd, f, &low, &high);
        l->function[f] =
            plan_add_guard_node(l->b, l->branch[variable] - 1, l->function[low], l->function[high]);
    }
    for (uint32_t s = 0; s < p->steps.n; s++)
        for (uint32_t i = 0; i < p->params.n; i++) {
            const struct gradient *g = &l->c->reach[s].gradient[i];
            if (l->param[i] == PLAN_NONE || g->class != GRAD_CONDITIONAL || l->guard[g->may])
                continue;
            l->guard[g->may] = plan_add_guard(l->b, l->function[g->may], g->guard) + 1;
        }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum plan_class class_of(enum grad_class c) {
    switch (c) {
    case GRAD_ALWAYS: return PLAN_ALWAYS;
    case GRAD_NEVER: return PLAN_NEVER;
    case GRAD_CONDITIONAL: return PLAN_CONDITIONAL;
    case GRAD_FROZEN: break;
    }
    return PLAN_FROZEN;
}

static void begin_step(struct layout *l, uint32_t s) {
    static const enum plan_policy policies[] = {[SCHEDULE_ROBUST] = PLAN_ROBUST,
                                                [SCHEDULE_EXACT] = PLAN_EXACT,
                                                [SCHEDULE_DDP] = PLAN_DDP,
                                                [SCHEDULE_SINGLE] = PLAN_SINGLE};
    static const enum plan_order orders[] = {[ORDER_READY] = PLAN_READY,
                                             [ORDER_REGISTRATION] = PLAN_REGISTRATION,
                                             [ORDER_DDP_FLAG] = PLAN_DDP_FLAG};
    static const enum plan_average averages[] = {[AVERAGE_WORLD] = PLAN_WORLD,
                                                 [AVERAGE_PRESENT] = PLAN_PRESENT,
                                                 [AVERAGE_NONE] = PLAN_UNSCALED};
    const struct options *o = l->c->options;
    const struct topology *t = &l->c->topology;
    const struct sched *sched = &l->c->sched[s];
    struct plan_piece pieces[TOPOLOGY_MAX_PIECES];
    for (uint32_t i = 0; i < t->n_pieces; i++)
        pieces[i] = (struct plan_piece){t->piece[i].alpha_us, t->piece[i].us_per_byte};
    plan_add_step(l->b,
                  &(struct plan_step_info){
                      .name = ir_text(l->p->m, l->p->steps.at[s].name),
                      .topology = t->name,
                      .policy = policies[o->schedule],
                      .order = orders[o->schedule == SCHEDULE_DDP ? o->order : ORDER_READY],
                      .average = averages[o->average],
                      .guards = o->guards == GUARDS_REPORTED ? PLAN_REPORTED : PLAN_DISCOVERED,
                      .backward_us = sched->backward_us,
                      .finish_us = sched->finish_us,
                      .lower_bound_us = sched->lower_bound_us,
                      .worst_regret = sched->worst_regret,
                      .optimal = sched->optimal,
                      .cap_bytes = sched->cap_bytes,
                      .max_buckets = sched->max_buckets,
                      .ranks = t->ranks,
                      .n_pieces = t->n_pieces,
                      .piece = pieces,
                      .optimum_us = sched->optimum_us});
}

static void add_step(struct layout *l, uint32_t s) {
    const struct gradient *gradient = l->c->reach[s].gradient;
    const struct sched *sched = &l->c->sched[s];
    begin_step(l, s);
    for (uint32_t i = 0; i < l->p->params.n; i++) {
        if (l->param[i] == PLAN_NONE) continue;
        bool conditional = gradient[i].class == GRAD_CONDITIONAL;
        plan_set_class(l->b, l->param[i], class_of(gradient[i].class),
                       !conditional || gradient[i].exact,
                       conditional ? l->guard[gradient[i].may] - 1 : PLAN_NONE);
    }
    for (uint32_t k = 0; k < sched->bucket.n; k++) {
        const struct sched_bucket *bucket = &sched->bucket.at[k];
        bdd guard = sched->group.at[bucket->group].guard;
        plan_add_bucket(l->b, guard == BDD_TRUE ? PLAN_NONE : l->guard[guard] - 1, bucket->ready_us,
                        bucket->start_us, bucket->end_us);
        for (uint32_t i = bucket->first; i < bucket->first + bucket->n; i++)
            plan_add_segment(l->b, l->param[sched->item.at[i].param], sched->item.at[i].ready_us);
    }
}

void layout_plan(struct compilation *c, struct plan_builder *b) {
    struct program *p = &c->program;
    struct arena *a = &p->arena;
    uint32_t n_functions = bdd_node_count(c->branches.bdd) + 2;
    struct layout l = {.c = c,
                       .p = p,
                       .b = b,
                       .param = arena_new(a, uint32_t, p->params.n + 1),
                       .function = arena_new(a, uint32_t, n_functions),
                       .guard = arena_new(a, uint32_t, n_functions),
                       .branch = arena_new(a, uint32_t, c->branches.all.n + 1)};
    add_params(&l);
    add_guards(&l);
    for (uint32_t s = 0; s < p->steps.n; s++) add_step(&l, s);
    vec_free(&l.order);
    vec_free(&l.stack);
}
