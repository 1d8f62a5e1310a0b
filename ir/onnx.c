/* The reader of binary models: a ModelProto's bytes to the module that the model's text gives.
 *
 * onnx_wire.c knows protobuf, onnx.def the fields, onnx_graph.c graphs, nodes and functions,
 * onnx_attr.c attributes, onnx_type.c types, onnx_data.c tensors, onnx_note.c what exporters add to
 * all that; this file has the model around them, and errors. The file is mapped and gone over by
 * spans, so what is read costs memory and what is skipped, such as weights, costs none.
 *
 * Errors. Behind bytes that are no protobuf message nothing can be read, so the first such place ends
 * the reading. What ONNX does not allow is reported and gone past. */
#include "onnx.h"
#include <string.h>

enum { MAX_ERRORS = 100 };

/* ---- errors ---------------------------------------------------------------------------------- */

static void stop(struct onnx *o) {
    o->errors++;
    o->stopped = true;
}

bool onnx_broken(struct onnx *o, const struct onnx_cursor *c, ir_loc loc) {
    if (!c->broken) return false;
    if (o->stopped) return true;
    struct diag *g = diag_at(o->d, DIAG_ONNX_DAMAGED, loc, 1, "byte %u: %s", loc, c->broken);
    diag_set_help(o->d, g,
                  "the file is not whole, or no .onnx model; copy it again or export it again");
    stop(o);
    return true;
}

struct diag *onnx_error(struct onnx *o, ir_loc loc, const char *format, ...) {
    if (o->stopped) return NULL;
    va_list args;
    va_start(args, format);
    struct arena scratch = {0};
    struct diag *g =
        diag_at(o->d, DIAG_ONNX_CONTENT, loc, 1, "%s", arena_vprintf(&scratch, format, args));
    arena_free(&scratch);
    va_end(args);
    if (++o->errors >= MAX_ERRORS) o->stopped = true;
    diag_set_help(o->d, g,
                  "what wrote the file has a mistake; correct it and export the model again");
    return g;
}

bool onnx_enter(struct onnx *o, ir_loc loc) {
    if (o->stopped) return false;
    if (o->depth < IR_MAX_NESTING) {
        o->depth++;
        return true;
    }
    struct diag *g = diag_at(o->d, DIAG_TEXT_NESTING, loc, 1,
                             "more than %d graphs or types inside each other", IR_MAX_NESTING);
    diag_set_help(o->d, g, "move inner graphs into functions");
    stop(o);
    return false;
}

/* ---- strings and entries --------------------------------------------------------------------- */

str onnx_string(struct onnx *o, const struct onnx_field *f) {
    return strtab_add(&o->m->strings, f->bytes.s, f->bytes.len);
}

str onnx_name(struct onnx *o, const struct onnx_field *f) {
    return onnx_name_hashed(o, f, strtab_hash(f->bytes.s, f->bytes.len));
}

str onnx_name_hashed(struct onnx *o, const struct onnx_field *f, uint32_t hash) {
    if (f->bytes.len && memchr(f->bytes.s, 0, f->bytes.len)) {
        onnx_error(o, f->loc, "a name holds a NUL");
        return strtab_addz(&o->m->strings, "?");
    }
    return strtab_add_hashed(&o->m->strings, f->bytes.s, f->bytes.len, hash);
}

bool onnx_entry(struct onnx *o, struct span bytes, struct span *key, struct span *value) {
    *key = *value = (struct span){"", 0};
    struct onnx_cursor c = onnx_cursor(ONNX_ENTRY, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) {
        if (f.number == ENTRY_key) *key = f.bytes;
        if (f.number == ENTRY_value) *value = f.bytes;
    }
    return !o->stopped;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void read_training(struct onnx *o, struct span bytes) {
    struct onnx_cursor c = onnx_cursor(ONNX_TRAINING, bytes);
    struct span key, value;
    for (struct onnx_field f; onnx_field(o, &c, &f);)
        if (f.number == TRAINING_update_binding && onnx_entry(o, f.bytes, &key, &value))
            vec_push(&o->trained, strtab_add(&o->m->strings, key.s, key.len));
}

static void read_property(struct onnx *o, const struct onnx_field *f) {
    struct span key, value;
    if (!onnx_entry(o, f->bytes, &key, &value)) return;
    struct ir_property property = {.key = strtab_add(&o->m->strings, key.s, key.len),
                                   .value = strtab_add(&o->m->strings, value.s, value.len),
                                   .loc = f->loc};
    vec_push(&o->m->metadata, property);
    o->m->has_metadata = true;
}

/* Protobuf would put two graphs together, as it puts two files together: no model means that. */
static void read_graph(struct onnx *o, const struct onnx_field *f, struct onnx_field *graph) {
    if (graph->number) {
        struct diag *g = onnx_error(o, f->loc, "the file holds two graphs");
        if (g) diag_set_help(o->d, g, "it may be two files in one; a model has one main graph");
    }
    *graph = *f;
}

/* All but functions, which stand behind the main graph. */
static void read_header(struct onnx *o, struct span bytes, struct onnx_field *graph) {
    struct ir_module *m = o->m;
    m->has_header = true;
    struct onnx_cursor c = onnx_cursor(ONNX_MODEL, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);) switch (f.number) {
        case MODEL_ir_version:
            m->has_ir_version = true;
            m->ir_version = (int64_t)f.value;
            break;
        case MODEL_model_version:
            m->has_model_version = true;
            m->model_version = (int64_t)f.value;
            break;
        case MODEL_producer_name:
            m->has_producer_name = true;
            m->producer_name = onnx_string(o, &f);
            break;
        case MODEL_producer_version:
            m->has_producer_version = true;
            m->producer_version = onnx_string(o, &f);
            break;
        case MODEL_domain:
            m->has_domain = true;
            m->domain = onnx_string(o, &f);
            break;
        case MODEL_doc_string:
            m->has_doc = true;
            m->doc = onnx_string(o, &f);
            break;
        case MODEL_metadata_props: read_property(o, &f); break;
        case MODEL_training_info: read_training(o, f.bytes); break;
        case MODEL_graph: read_graph(o, &f, graph); break;
        }
    onnx_opsets(o, ONNX_MODEL, bytes, MODEL_opset_import, &m->opsets, &m->n_opsets);
    m->has_opsets = m->n_opsets > 0;
}

static void read_model(struct onnx *o) {
    struct ir_module *m = o->m;
    struct span bytes = {o->source->bytes, o->source->size};
    struct onnx_field graph = {0};
    read_header(o, bytes, &graph);
    if (o->stopped) return;
    if (!graph.number) {
        struct diag *g =
            diag_plain(o->d, DIAG_ONNX_CONTENT, o->source->name, "this .onnx file holds no graph");
        diag_set_help(o->d, g, "it may hold a tensor, or be cut off; a model has a graph");
        o->errors++;
        return;
    }
    m->main = m->graph.n;
    o->depth++;
    vec_push(&m->graph, ((struct ir_graph_info){.loc = graph.loc}));
    onnx_graph(o, m->main, graph.bytes);
    struct onnx_cursor c = onnx_cursor(ONNX_MODEL, bytes);
    for (struct onnx_field f; onnx_field(o, &c, &f);)
        if (f.number == MODEL_functions) onnx_function(o, &f);
    if (o->stopped) return;
    onnx_add_properties(o);
}

bool onnx_read(struct ir_module *m, struct source *source, struct diags *d) {
    struct onnx o = {.m = m, .source = source, .d = d, .scope.m = m};
    source->binary = true;
    read_model(&o);
    scope_free(&o.scope);
    vec_free(&o.buffers);
    vec_free(&o.trained);
    vec_free(&o.refs);
    vec_free(&o.attrs);
    vec_free(&o.values);
    vec_free(&o.nodes);
    vec_free(&o.dims);
    return o.errors == 0;
}
