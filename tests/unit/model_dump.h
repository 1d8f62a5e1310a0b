/* A module as flat text, field by field: for comparing two modules by what they hold rather than by
 * what they print. Values are numbered in the order of the walk, so that which name means which
 * value shows. */
#ifndef DDPC_MODEL_DUMP_H
#define DDPC_MODEL_DUMP_H

#include "ir.h"
#include <inttypes.h>
#include <stdlib.h>

struct model_dump {
    const struct ir_module *m;
    FILE *out;
    struct arena scratch;
    uint32_t *number; /* by value; 0: not met yet */
    uint32_t met;
};

static void dump_value(struct model_dump *d, ir_value v) {
    if (v == 0) {
        fputs(" -", d->out);
        return;
    }
    const struct ir_value_info *info = &d->m->value.at[v];
    bool first = d->number[v] == 0;
    if (first) d->number[v] = ++d->met;
    fprintf(d->out, " %%%u", d->number[v]);
    if (!first) return;
    fprintf(d->out, "(\"%s\" def %d in \"%s\" %s%s%s", ir_text(d->m, info->name), info->def,
            ir_text(d->m, d->m->graph.at[info->graph].name),
            ir_type_text(d->m, &d->scratch, info->type), info->also_input ? " also_input" : "",
            info->is_output ? " is_output" : "");
    if (info->def == IR_DEF_NODE)
        fprintf(d->out, " output %u of a %s", info->output,
                ir_text(d->m, d->m->node.at[info->node].op));
    putc(')', d->out);
}

/* The span is compared without white space, as other places for it are the same payload. */
static void dump_data(struct model_dump *d, ir_data data) {
    const struct ir_data_info *info = &d->m->data.at[data];
    fprintf(d->out, " data %d of %" PRIu64 " <", info->kind, info->count);
    bool quoted = false, escaped = false, comment = false;
    for (uint32_t i = 0; i < info->length; i++) {
        char c = d->m->source->bytes[info->loc + i];
        bool quote = c == '"' && !escaped && !comment;
        escaped = quoted && c == '\\' && !escaped;
        if (quote) quoted = !quoted;
        if (c == '#' && !quoted) comment = true;
        if (!comment && (quoted || (c != ' ' && c != '\n' && c != '\t'))) putc(c, d->out);
        if (c == '\n') comment = false;
    }
    putc('>', d->out);
    const int64_t *ints;
    uint32_t n = ir_data_ints(d->m, data, &ints);
    for (uint32_t i = 0; i < n; i++) fprintf(d->out, " %" PRId64, ints[i]);
}

static void dump_decls(struct model_dump *d, const char *what, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const struct ir_decl *decl = &d->m->decl.at[first + i];
        fprintf(d->out, "%s", what);
        dump_value(d, decl->value);
        fprintf(d->out, " %s", ir_type_text(d->m, &d->scratch, decl->type));
        if (decl->data) dump_data(d, decl->data);
        putc('\n', d->out);
    }
}

static void dump_graph(struct model_dump *d, ir_graph g);

static void dump_attr(struct model_dump *d, ir_attr attr) {
    const struct ir_attr_info *a = &d->m->attr.at[attr];
    fprintf(d->out, "  attr \"%s\" kind %d ref \"%s\" no_value %d:", ir_text(d->m, a->name),
            a->kind, ir_text(d->m, a->ref), a->no_value);
    int kind = a->kind >= IR_ATTR_FLOATS ? a->kind - (IR_ATTR_FLOATS - IR_ATTR_FLOAT) : a->kind;
    for (uint32_t i = 0; i < a->n_values; i++) {
        const union ir_attr_value *v = &d->m->attr_value.at[a->values + i];
        if (kind == IR_ATTR_FLOAT) fprintf(d->out, " %a", v->f);
        if (kind == IR_ATTR_INT) fprintf(d->out, " %" PRId64, v->i);
        if (kind == IR_ATTR_STRING) fprintf(d->out, " \"%s\"", ir_text(d->m, v->s));
        if (kind == IR_ATTR_TYPE_PROTO)
            fprintf(d->out, " %s", ir_type_text(d->m, &d->scratch, v->type));
        if (kind == IR_ATTR_TENSOR || kind == IR_ATTR_SPARSE_TENSOR) {
            fprintf(d->out, " \"%s\" %s", ir_text(d->m, v->tensor.name),
                    ir_type_text(d->m, &d->scratch, v->tensor.type));
            dump_data(d, v->tensor.data);
        }
        if (kind == IR_ATTR_GRAPH) {
            putc('\n', d->out);
            dump_graph(d, v->g);
        }
    }
    putc('\n', d->out);
}

static void dump_node(struct model_dump *d, ir_node node) {
    const struct ir_node_info *n = &d->m->node.at[node];
    fprintf(d->out, "node \"%s\" \"%s\".\"%s\":\"%s\" %u to %u:", ir_text(d->m, n->name),
            ir_text(d->m, n->domain), ir_text(d->m, n->op), ir_text(d->m, n->overload), n->n_inputs,
            n->n_outputs);
    for (uint32_t i = 0; i < n->n_inputs; i++) dump_value(d, ir_inputs(d->m, node)[i]);
    fputs(" =>", d->out);
    for (uint32_t i = 0; i < n->n_outputs; i++) dump_value(d, ir_outputs(d->m, node)[i]);
    putc('\n', d->out);
    for (uint32_t i = 0; i < n->n_attrs; i++) dump_attr(d, n->attrs + i);
}

static void dump_graph(struct model_dump *d, ir_graph g) {
    const struct ir_graph_info *graph = &d->m->graph.at[g];
    fprintf(d->out, "graph \"%s\" in \"%s\" of a \"%s\", function \"%s\"\n",
            ir_text(d->m, graph->name), ir_text(d->m, d->m->graph.at[graph->parent].name),
            ir_text(d->m, d->m->node.at[graph->owner].op),
            ir_text(d->m, d->m->function.at[graph->function].name));
    dump_decls(d, "input", graph->inputs, graph->n_inputs);
    dump_decls(d, "item", graph->items, graph->n_items);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        ir_node node = d->m->node_list.at[graph->nodes + i];
        if (d->m->node.at[node].graph != g) fputs("NOT IN ITS GRAPH: ", d->out);
        dump_node(d, node);
    }
    dump_decls(d, "output", graph->outputs, graph->n_outputs);
    fputs("end\n", d->out);
}

static void dump_opsets(struct model_dump *d, bool has, uint32_t first, uint32_t n) {
    fprintf(d->out, "opsets %d:", has);
    for (uint32_t i = 0; i < n; i++)
        fprintf(d->out, " \"%s\" %" PRId64, ir_text(d->m, d->m->opset.at[first + i].domain),
                d->m->opset.at[first + i].version);
    putc('\n', d->out);
}

/* To be freed. */
static inline char *model_dump(const struct ir_module *m) {
    static char *text;
    static size_t size;
    struct model_dump d = {.m = m, .out = open_memstream(&text, &size)};
    d.number = calloc(m->value.n, sizeof *d.number);
    fprintf(d.out,
            "ir_version %d %" PRId64 ", model_version %d %" PRId64
            ", producer %d \"%s\" %d \"%s\", domain %d \"%s\", doc %d \"%s\", metadata %d:",
            m->has_ir_version, m->ir_version, m->has_model_version, m->model_version,
            m->has_producer_name, ir_text(m, m->producer_name), m->has_producer_version,
            ir_text(m, m->producer_version), m->has_domain, ir_text(m, m->domain), m->has_doc,
            ir_text(m, m->doc), m->has_metadata);
    for (uint32_t i = 0; i < m->metadata.n; i++)
        fprintf(d.out, " \"%s\" \"%s\"", ir_text(m, m->metadata.at[i].key),
                ir_text(m, m->metadata.at[i].value));
    putc('\n', d.out);
    dump_opsets(&d, m->has_opsets, m->opsets, m->n_opsets);
    dump_graph(&d, m->main);
    for (ir_function f = 1; f < m->function.n; f++) {
        const struct ir_function_info *info = &m->function.at[f];
        fprintf(d.out, "function \"%s\".\"%s\":\"%s\" doc \"%s\"\n", ir_text(m, info->domain),
                ir_text(m, info->name), ir_text(m, info->overload), ir_text(m, info->doc));
        dump_opsets(&d, info->has_opsets, info->opsets, info->n_opsets);
        for (uint32_t i = 0; i < info->n_attrs; i++) dump_attr(&d, info->attrs + i);
        dump_graph(&d, info->body);
    }
    fclose(d.out);
    arena_free(&d.scratch);
    free(d.number);
    return text;
}

#endif
