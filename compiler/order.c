/* The ready order: when the backward pass has each gradient.
 *
 * The backward pass runs the nodes in reverse order of execution, each for as long as cost.c or a
 * profile says, and skips those that no gradient passes. A parameter used in several places sums
 * its contributions, so its gradient is ready when the backward of its *earliest* flowing use ends,
 * which is the latest in the backward pass: a tied embedding is ready last. A use through a detach
 * does not flow and does not count.
 *
 * An `If` costs its larger branch; the parameters of either branch count from its start. A `Loop`
 * costs its trips times its body, and a parameter of the body is complete in the backward of the
 * first iteration, the last one that runs. Trips are a literal or a known size of a tensor
 * (which --dim can make known), else 1.
 *
 * Three linear walks over all graphs: needs.c's forwards (autograd does not run the backward of what
 * no parameter precedes), then bodies before their nodes for durations, then the times themselves. */
#include "control.h"
#include "facts.h"
#include "profile.h"
#include "schedule.h"
#include <stdlib.h>
#include <string.h>

struct walk {
    const struct program *p;
    const struct ir_module *m;
    const struct reach *r;
    const struct device *dev;
    const struct profile *profile;
    bool *needs;      /* by value: a trainable parameter precedes it */
    double *node_us;  /* by node */
    double *graph_us; /* by graph: one execution */
    double *ready;    /* by parameter */
    bool *matched;    /* by entry of the profile */
    struct ready_times *out;
};

static bool is_op(const struct ir_module *m, ir_node n, const char *op) {
    return strcmp(ir_text(m, m->node.at[n].op), op) == 0;
}

/* ---- how long things take -------------------------------------------------------------------- */

/* The size of dimension `axis` (from the end if negative) where it is known. */
static bool size_of(const struct ir_module *m, ir_value v, int64_t axis, int64_t *out) {
    const struct ir_type_info *t = &m->type.at[m->value.at[v].type];
    if (axis < 0) axis += t->rank;
    if (t->kind != IR_TYPE_TENSOR || axis < 0 || axis >= t->rank) return false;
    const struct ir_dim *dim = &m->dim.at[t->dims + (uint32_t)axis];
    *out = dim->size;
    return !dim->symbol && dim->size >= 0;
}

double order_trips(const struct ir_module *m, ir_node n) {
    int64_t trips = 1;
    if (is_op(m, n, "Loop")) {
        if (!facts_number(m, ir_input(m, n, 0), &trips)) return 1;
    } else if (is_op(m, n, "Scan")) {
        int64_t scanned = ir_attr_int(m, n, "num_scan_inputs", 0), axis = 0;
        uint32_t n_inputs = m->node.at[n].n_inputs;
        if (scanned < 1 || scanned > (int64_t)n_inputs) return 1;
        ir_attr axes = ir_attr_find(m, n, "scan_input_axes");
        if (axes && m->attr.at[axes].n_values) axis = m->attr_value.at[m->attr.at[axes].values].i;
        if (!size_of(m, ir_inputs(m, n)[n_inputs - (uint32_t)scanned], axis, &trips)) return 1;
    }
    return trips < 1 ? 1 : (double)trips;
}

static double duration_of(struct walk *w, ir_graph g);

#define LONGEST_US 1e15 /* 30 years */

static bool measured_as(struct walk *w, enum profile_kind kind, const char *name, size_t length,
                        double *us) {
    uint32_t entry = profile_find(w->profile, kind, name, length, us);
    if (entry) w->matched[entry - 1] = true;
    return entry != 0;
}

/* The profile's time for a node: by its name, or that of its first output. */
static bool measured(struct walk *w, ir_node n, enum profile_kind kind, double *us) {
    const struct ir_module *m = w->m;
    str name = m->node.at[n].name;
    if (!name && m->node.at[n].n_outputs) name = m->value.at[ir_outputs(m, n)[0]].name;
    return measured_as(w, kind, ir_text(m, name), strtab_len(&m->strings, name), us);
}

/* ONNX Runtime times the forward pass, and calls a node without a name MatMul_3 by operator and
 * place. The backward of a product or convolution runs one of the forward's size per operand
 * that wants a gradient; what the cost model has for free is; all else takes as long as it did. */
static bool measured_forward(struct walk *w, ir_node n, uint32_t place, double *us) {
    static const char *const products[] = {"MatMul", "Gemm", "Conv", "ConvTranspose"};
    const struct ir_module *m = w->m;
    char name[128];
    int length = snprintf(name, sizeof name, "%s_%u", ir_text(m, m->node.at[n].op), place);
    bool nameless = !m->node.at[n].name && length < (int)sizeof name;
    if (!measured(w, n, PROFILE_FORWARD, us) &&
        !(nameless && measured_as(w, PROFILE_FORWARD, name, (size_t)length, us)))
        return false;
    bool unknown;
    if (cost_backward_us(w->p, w->dev, n, w->needs, &unknown) == 0) *us = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (is_op(m, n, products[i]) && m->node.at[n].n_inputs > 1)
            *us *= w->needs[ir_input(m, n, 0)] + w->needs[ir_input(m, n, 1)];
    return true;
}

static double duration_of_node(struct walk *w, ir_node n, uint32_t place) {
    const struct ir_module *m = w->m;
    const struct ir_node_info *node = &m->node.at[n];
    double us = 0, trips = 0;
    ir_graph g;
    for (uint32_t k = 0; (g = control_graph(m, n, k)); k++) {
        if (!trips) trips = order_trips(m, n);
        double body = duration_of(w, g);
        if (body > us) us = body;
    }
    /* Nested trip counts may be anything; their product stays finite. */
    if (trips) return trips * us < LONGEST_US ? trips * us : LONGEST_US;

    bool known =
        w->profile && (measured(w, n, PROFILE_NODE, &us) || measured_forward(w, n, place, &us));
    bool active = false;
    for (uint32_t i = 0; i < node->n_inputs && !active; i++)
        active = w->r->ref_flows[node->refs + node->n_outputs + i] && w->needs[ir_inputs(m, n)[i]];
    if (!active) return 0;
    w->out->nodes++;
    if (known) return us;
    bool unknown = false;
    us = cost_backward_us(w->p, w->dev, n, w->needs, &unknown);
    w->out->unknown_nodes += unknown;
    return us;
}

static double duration_of(struct walk *w, ir_graph g) {
    const struct ir_graph_info *graph = &w->m->graph.at[g];
    double sum = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node n = w->m->node_list.at[graph->nodes + i];
        sum += w->node_us[n] = duration_of_node(w, n, i);
    }
    return w->graph_us[g] = sum;
}

/* ---- when gradients are ready ---------------------------------------------------------------- */

static void ready_at(struct walk *w, ir_value v, double us) {
    uint32_t param = w->p->param_of[v];
    if (param && us > w->ready[param - 1]) w->ready[param - 1] = us;
}

/* The backward of g begins at `now`; returns when it ends. */
static double ready_in(struct walk *w, ir_graph g, double now) {
    const struct ir_module *m = w->m;
    const struct ir_graph_info *graph = &m->graph.at[g];
    for (uint32_t at = graph->n_nodes; at-- > 0;) {
        ir_node n = m->node_list.at[graph->nodes + at];
        const struct ir_node_info *node = &m->node.at[n];
        ir_graph body;
        for (uint32_t k = 0; (body = control_graph(m, n, k)); k++) {
            double start = now;
            if (!is_op(m, n, "If")) start += w->node_us[n] - w->graph_us[body];
            ready_in(w, body, start);
            /* A parameter may be the body's output itself. */
            for (uint32_t i = 0; i < m->graph.at[body].n_outputs; i++)
                ready_at(w, m->decl.at[m->graph.at[body].outputs + i].value, start);
        }
        now += w->node_us[n];
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (w->r->ref_flows[node->refs + node->n_outputs + i])
                ready_at(w, ir_inputs(m, n)[i], now);
    }
    return now;
}

struct rank {
    double us;
    uint32_t param;
};

static double larger(double a, double b) { return a > b ? a : b; }

static int compare_rank(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->param > y->param ? -1 : x->param < y->param;
}

static bool has_gradient(const struct walk *w, uint32_t param) {
    enum grad_class class = w->r->gradient[param].class;
    return class == GRAD_ALWAYS || class == GRAD_CONDITIONAL;
}

/* By time, of equals the last declared first. */
static void sort_order(struct walk *w, struct rank *rank) {
    struct ready_times *out = w->out;
    for (uint32_t i = 0; i < out->n; i++)
        rank[i] = (struct rank){w->ready[out->order[i]], out->order[i]};
    qsort(rank, out->n, sizeof *rank, compare_rank);
    for (uint32_t i = 0; i < out->n; i++) out->order[i] = rank[i].param;
}

/* The order, with absolute times from the profile: by shapes, in the order as estimated, or by
 * name. */
static void finish_order(struct walk *w, const char *step, struct diags *d) {
    const struct program *p = w->p;
    struct ready_times *out = w->out;
    struct rank *rank = malloc((p->params.n + 1u) * sizeof *rank);
    if (!rank) arena_out_of_memory((p->params.n + 1u) * sizeof *rank);
    for (uint32_t i = 0; i < p->params.n; i++)
        if (has_gradient(w, i))
            out->order[out->n++] = i;
        else
            w->ready[i] = 0;
    sort_order(w, rank);
    bool all = w->profile && w->profile->trace &&
               profile_match(w->profile, p, step, out->order, out->n, w->ready, d);
    uint32_t named = 0;
    for (uint32_t i = 0; w->profile && i < p->params.n; i++) {
        str name = p->params.at[i].name;
        double us;
        if (measured_as(w, PROFILE_READY, ir_text(p->m, name), strtab_len(&p->m->strings, name),
                        &us) &&
            has_gradient(w, i)) {
            w->ready[i] = us;
            named++;
        }
    }
    sort_order(w, rank);
    /* The end of a pass that is measured is its last gradient's. */
    double last = out->n ? w->ready[out->order[out->n - 1]] : 0;
    out->backward_us = out->n && (all || named == out->n) ? last : larger(out->backward_us, last);
    free(rank);
}

/* "'a', 'b' and 3 more" */
static const char *examples(const struct walk *w, struct arena *a, uint32_t unmatched) {
    const char *list = "";
    uint32_t shown = 0;
    for (uint32_t i = 0; i < profile_size(w->profile) && shown < 3; i++) {
        if (w->matched[i]) continue;
        list = arena_printf(a, "%s%s'%s'", list, shown ? ", " : "", profile_name(w->profile, i));
        shown++;
    }
    return shown < unmatched ? arena_printf(a, "%s and %u more", list, unmatched - shown) : list;
}

static void report_names(const struct walk *w, struct diags *d) {
    uint32_t n = profile_size(w->profile), unmatched = 0;
    const char *trace = w->profile->trace;
    for (uint32_t i = 0; i < n; i++) unmatched += !w->matched[i];
    if (trace && n)
        diag_plain(d, DIAG_TRACE_MATCHED, trace,
                   "%u of the %u names that have times are the model's", n - unmatched, n);
    if (!unmatched) return;
    struct diag *x = diag_plain(d, DIAG_PROFILE_UNMATCHED, trace ? trace : "--profile",
                                "%u of %u names in the profile match nothing in the model: %s",
                                unmatched, n, examples(w, &d->arena, unmatched));
    diag_set_help(d, x, "%s",
                  trace
                      ? "an ONNX Runtime that optimizes fuses and renames nodes: profile with "
                        "graph_optimization_level = "
                        "ORT_DISABLE_ALL; annotations want names as `ddpc check` prints them"
                      : "`node` wants a node's name, or its first output's if it has none; `ready` "
                        "a parameter's name as `ddpc check` prints it");
}

bool order_ready(struct program *p, uint32_t step, const struct reach *r, const struct device *dev,
                 const struct profile *profile, struct diags *d, struct ready_times *out) {
    const struct ir_module *m = p->m;
    struct arena scratch = {0};
    *out = (struct ready_times){
        .us = arena_new(&p->arena, double, p->params.n + 1u),
        .order = arena_new(&p->arena, uint32_t, p->params.n + 1u),
    };
    struct walk w = {
        .p = p,
        .m = m,
        .r = r,
        .dev = dev,
        .profile = profile,
        .needs = arena_new(&scratch, bool, m->value.n + 1u),
        .node_us = arena_new(&scratch, double, m->node.n + 1u),
        .graph_us = arena_new(&scratch, double, m->graph.n + 1u),
        .ready = out->us,
        .matched = arena_new(&scratch, bool, (profile ? profile_size(profile) : 0) + 1u),
        .out = out,
    };
    bool *trains = arena_new(&scratch, bool, p->params.n + 1u);
    for (uint32_t i = 0; i < p->params.n; i++) trains[i] = r->gradient[i].class != GRAD_FROZEN;
    needs_find(p, trains, w.needs);
    duration_of(&w, m->main);
    out->backward_us = ready_in(&w, m->main, 0);
    finish_order(&w, ir_text(m, p->steps.at[step].name), d);
    if (profile && step == 0) report_names(&w, d);
    if (out->unknown_nodes) {
        struct diag *x =
            diag_plain(d, DIAG_UNKNOWN_SIZES, "--device",
                       "step '%s': of %u of its %u nodes the sizes are not known; each is taken "
                       "for the launch of one kernel",
                       ir_text(m, p->steps.at[step].name), out->unknown_nodes, out->nodes);
        diag_set_help(d, x, "give sizes with --dim B=32, or measured times with --profile FILE");
    }
    arena_free(&scratch);
    return true;
}
