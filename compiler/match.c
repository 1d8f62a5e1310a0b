/* From the shapes of a trace's gradients to parameters.
 *
 * PyTorch's traces say when a gradient was ready and what shape it has, but not whose it is. A
 * shape that one parameter has, and one gradient of each pass, is a name. Of several parameters of
 * one shape the gradients come in the order in which autograd runs the backward pass, which is
 * that of the forward reversed: the order that the model predicts. So the k-th gradient of a shape
 * belongs to the k-th parameter of that shape in this order, if there are as many of the one as of
 * the other; if not, nothing is known of that shape. What is not known lies between those that
 * are, in proportion to the estimates. Of several kinds of passes (a GAN has two) a step takes the
 * one that has most of its gradients. */
#include "profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shape of a parameter as the profile spells it; 0: the profile has none such. */
static str shape_of(const struct profile *f, const struct program *p, uint32_t param) {
    const struct ir_module *m = p->m;
    const struct ir_type_info *t = &m->type.at[p->params.at[param].type];
    char text[512] = "scalar";
    size_t n = 0;
    if (t->kind != IR_TYPE_TENSOR || t->rank < 0) return 0;
    for (int32_t i = 0; i < t->rank; i++) {
        const struct ir_dim *dim = &m->dim.at[t->dims + (uint32_t)i];
        if (dim->symbol || n + 24 > sizeof text) return 0;
        n +=
            (size_t)snprintf(text + n, sizeof text - n, i ? "x%lld" : "%lld", (long long)dim->size);
    }
    str shape;
    return strtab_find(&f->names, text, strlen(text), &shape) ? shape : 0;
}

/* Where a shape's gradients begin in g, and how many there are. */
static uint32_t of_shape(const struct profile_gradients *g, str shape, uint32_t *count) {
    uint32_t low = 0, high = g->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (g->shape[mid] < shape)
            low = mid + 1;
        else
            high = mid;
    }
    for (*count = 0; low + *count < g->n && g->shape[low + *count] == shape;) ++*count;
    return low;
}

struct match {
    const struct profile_gradients *g;
    uint32_t alone, in_order, unknown; /* parameters */
    double *us;                        /* by place in the predicted order; -1: not known */
};

/* `shape` by place in the predicted order; `have` and `taken`, by shape, are zero before and
 * after. */
static void match(struct match *m, const str *shape, uint32_t n, uint32_t *have, uint32_t *taken) {
    for (uint32_t i = 0; i < n; i++) have[shape[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count, from = of_shape(m->g, shape[i], &count);
        bool known = shape[i] && count == have[shape[i]];
        m->us[i] = known ? m->g->us[from + taken[shape[i]]++] : -1;
        if (!known)
            m->unknown++;
        else if (count == 1)
            m->alone++;
        else
            m->in_order++;
    }
    for (uint32_t i = 0; i < n; i++) have[shape[i]] = taken[shape[i]] = 0;
}

/* Fills the gaps; us_of is in the predicted order, estimates ascend in it. */
static void replace(const struct match *m, const uint32_t *order, uint32_t n, double *us) {
    double estimate = 0, measured = 0; /* of the last one known */
    for (uint32_t i = 0; i < n;) {
        if (m->us[i] >= 0) {
            estimate = us[order[i]];
            measured = us[order[i]] = m->us[i];
            i++;
            continue;
        }
        uint32_t next = i;
        while (next < n && m->us[next] < 0) next++;
        double scale = estimate > 0 ? measured / estimate : 1;
        if (next < n) {
            double span = us[order[next]] - estimate, rise = m->us[next] - measured;
            scale = span > 0 && rise > 0 ? rise / span : 0;
        }
        for (; i < next; i++) us[order[i]] = measured + (us[order[i]] - estimate) * scale;
    }
}

static void report(const struct profile *f, const struct match *best, uint32_t n, const char *step,
                   struct diags *d) {
    struct diag *x;
    const char *help =
        f->shapeless
            ? "the trace has gradients but not their shapes: profile with record_shapes=True, or "
              "let "
              "ddpc.torch.profile write a table"
            : "profile the model and the batch that the model's text is of, in one process, with "
              "record_shapes=True; or let ddpc.torch.profile write a table";
    if (!best || best->unknown == n) {
        if (f->all.n) return; /* it has times of names, which order.c counts */
        x = diag_plain(d, DIAG_TRACE_USELESS, f->trace,
                       "step '%s': the trace gives none of its %u gradients a time; it has %s",
                       step, n, f->holds);
        diag_set_help(d, x, "%s", help);
        return;
    }
    x = diag_plain(d, DIAG_TRACE_MATCHED, f->trace,
                   "step '%s': ready times from %u backward pass%s; of %u gradients %u by a shape "
                   "that no other has, "
                   "%u by shape and order, %u not known",
                   step, best->g->passes, best->g->passes == 1 ? "" : "es", n, best->alone,
                   best->in_order, best->unknown);
    if (best->unknown) diag_set_help(d, x, "%s", help);
}

bool profile_match(const struct profile *f, const struct program *p, const char *step,
                   const uint32_t *order, uint32_t n, double *us, struct diags *d) {
    struct arena scratch = {0};
    uint32_t shapes = f->names.text.n;
    str *shape = arena_new(&scratch, str, n + 1u);
    uint32_t *have = arena_new(&scratch, uint32_t, shapes),
             *taken = arena_new(&scratch, uint32_t, shapes);
    struct match best = {0};
    for (uint32_t i = 0; i < n; i++) shape[i] = shape_of(f, p, order[i]);
    for (uint32_t g = 0; g < f->gradients.n; g++) {
        struct match m = {&f->gradients.at[g], 0, 0, 0, arena_new(&scratch, double, n + 1u)};
        match(&m, shape, n, have, taken);
        if (!best.g || m.unknown < best.unknown ||
            (m.unknown == best.unknown && m.g->passes > best.g->passes))
            best = m;
    }
    bool known = best.g && best.unknown < n;
    if (known) replace(&best, order, n, us);
    report(f, best.g ? &best : NULL, n, step, d);
    arena_free(&scratch);
    return known;
}
