/* The elements of small integer tensors, as far as they are known while types are inferred.
 *
 * Exporters write shapes as programs: Shape, Gather, Mul, Concat, Reshape. To see through them, each
 * value of up to IR_MAX_INTS integers may have a list of elements, of which some may be numbers, some
 * the size of a symbolic dimension, and some not known. A symbol goes through unchanged, so a batch
 * size that is read from one tensor and written into the shape of another is the same 'B' in both.
 *
 * Elements of initializers are those that the reader keeps; the others are stored here by fold.c. The
 * store is a pool that only grows, with a range per value. */
#include "facts.h"
#include "onnx.h"
#include <stdlib.h>
#include <string.h>

void facts_init(struct facts *f, struct ir_module *m) {
    *f = (struct facts){.m = m, .of = calloc(m->value.n, sizeof *f->of)};
    if (!f->of) arena_out_of_memory(m->value.n * sizeof *f->of);
}

void facts_free(struct facts *f) {
    free(f->of);
    vec_free(&f->pool);
}

struct ir_dim element_dim(struct element e) {
    if (e.symbol) return (struct ir_dim){.size = -1, .symbol = e.symbol};
    return (struct ir_dim){.size = e.known && e.n >= 0 ? e.n : -1};
}

struct element element_of_dim(struct ir_dim d) {
    if (d.symbol) return (struct element){.symbol = d.symbol};
    return d.size >= 0 ? ELEMENT(d.size) : ELEMENT_UNKNOWN;
}

static bool is_whole(enum ir_dtype t) {
    return t != IR_UNDEFINED && t != IR_STRING && !ir_dtype_carries_gradient(t);
}

bool facts_elements(const struct facts *f, ir_value v, struct elements *out) {
    const struct ir_value_info *info = &f->m->value.at[v];
    out->n = 0;
    if (f->of[v].n) {
        out->n = f->of[v].n;
        memcpy(out->at, &f->pool.at[f->of[v].first], out->n * sizeof *out->at);
        return true;
    }
    if (ir_is_constant(f->m, v)) {
        const int64_t *ints;
        int64_t count = ir_type_elements(f->m, info->type);
        out->n = ir_data_ints(f->m, info->data, &ints);
        if (count >= 0 && count != out->n) out->n = 0; /* several packed into one number */
        for (uint32_t i = 0; i < out->n; i++) out->at[i] = ELEMENT(ints[i]);
        if (out->n) return true;
    }
    int64_t n = ir_type_elements(f->m, info->type);
    if (n < 0 || n > IR_MAX_INTS || !is_whole(ir_type_dtype(f->m, info->type))) return false;
    out->n = (uint32_t)n;
    memset(out->at, 0, out->n * sizeof *out->at);
    return true;
}

void facts_set(struct facts *f, ir_value v, const struct elements *known) {
    bool any = false;
    for (uint32_t i = 0; i < known->n; i++) any |= known->at[i].known || known->at[i].symbol;
    f->of[v].first = f->pool.n;
    f->of[v].n = any ? known->n : 0;
    if (!any) return;
    memcpy(vec_extend(&f->pool, known->n), known->at, known->n * sizeof *known->at);
}

/* The payload of a constant: of an initializer or of a Constant. */
static ir_data payload(const struct ir_module *m, ir_value v) {
    const struct ir_value_info *info = &m->value.at[v];
    if (info->def != IR_DEF_NODE) return info->data;
    const struct ir_attr_info *a = &m->attr.at[ir_attr_find(m, info->node, "value")];
    bool constant = strcmp(ir_text(m, m->node.at[info->node].op), "Constant") == 0;
    return constant && a->kind == IR_ATTR_TENSOR && a->n_values
               ? m->attr_value.at[a->values].tensor.data
               : 0;
}

bool facts_floats(const struct facts *f, ir_value v, double *out, uint32_t max, uint32_t *n) {
    const struct ir_module *m = f->m;
    ir_data data = payload(m, v);
    const struct ir_data_info *d = &m->data.at[data];
    *n = 0;
    if (d->kind != IR_DATA_LITERALS || d->count > max || !m->source) return false;
    if (m->source->binary) {
        struct onnx_elements e;
        struct onnx_element x;
        struct span tensor = {m->source->bytes + d->loc, d->length};
        onnx_elements_begin(&e, m->source, ir_type_dtype(m, m->value.at[v].type), tensor);
        while (*n < d->count && onnx_elements_next(&e, &x)) out[(*n)++] = x.f;
        return *n == d->count;
    }
    const char *at = m->source->bytes + d->loc, *end = at + d->length;
    while (at < end && *n < max) {
        char *behind;
        double x = strtod(at, &behind);
        if (behind == at || behind > end) {
            at++; /* a separator */
        } else {
            out[(*n)++] = x;
            at = behind;
        }
    }
    return *n == d->count;
}

/* ---- for later passes ------------------------------------------------------------------------ */

void facts_keep(const struct facts *f, struct ir_module *m) {
    for (ir_value v = 1; v < m->value.n; v++) {
        if (f->of[v].n != 1) continue;
        struct element e = f->pool.at[f->of[v].first];
        if (e.known) vec_push(&m->number, ((struct ir_number){v, e.n}));
    }
}

bool facts_number(const struct ir_module *m, ir_value v, int64_t *out) {
    const struct ir_value_info *value = &m->value.at[v];
    const int64_t *ints;
    if (value->def == IR_DEF_INITIALIZER) {
        if (!ir_is_constant(m, v) || m->data.at[value->data].count != 1 ||
            ir_data_ints(m, value->data, &ints) != 1)
            return false;
        *out = ints[0];
        return true;
    }
    for (uint32_t first = 0, last = m->number.n; first < last;) {
        uint32_t middle = first + (last - first) / 2;
        if (m->number.at[middle].value == v) {
            *out = m->number.at[middle].is;
            return true;
        }
        if (m->number.at[middle].value < v)
            first = middle + 1;
        else
            last = middle;
    }
    return false;
}
