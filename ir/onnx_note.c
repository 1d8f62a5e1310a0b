/* What exporters note in a binary model, beside ONNX's own words, and texts have no place for.
 *
 * Four notes say something about training, and become what a text can say, as a person would write
 * it: torch.export's kind of a value (`ddpc.buffers`), what a training algorithm updates
 * (`ddpc.trainable`), that an optimizer rewrote the graph (`ddpc.folded`), all three in the model's
 * metadata, where its own word counts more; and the line of the program that a node comes from, its
 * attribute `source`. A Constant gets none: its attributes are what it is.
 *
 * A line is that of the innermost frame of the user's code, which is all but PyTorch: a layer of
 * torch.nn says less than who calls it. Files are named as people know them, from the current folder
 * or from the folder of installed packages. torch.export writes the frames as Python prints them, the
 * innermost last; TorchScript's exporter, with verbose=True, as "FILE(LINE): FUNCTION", innermost
 * first, its own frames below the user's. */
#define _GNU_SOURCE /* memmem */
#include "onnx.h"
#include <ctype.h>
#include <string.h>
#include <unistd.h>

static bool starts(struct span s, const char *with) {
    return s.len >= strlen(with) && !memcmp(s.s, with, strlen(with));
}

static bool ends(struct span s, const char *with) {
    size_t n = strlen(with);
    return s.len >= n && !memcmp(s.s + s.len - n, with, n);
}

/* Whether one of the rewriters of onnxscript, which torch.export's exporter uses, leaves such a
 * key. */
static void note_optimizer(struct onnx *o, struct span key) {
    if (starts(key, "pkg.onnxscript.")) o->folded = true;
}

/* As torch.export calls what is no parameter of a module. */
void onnx_note_kind(struct onnx *o, struct span entry, str name) {
    struct span key, value;
    if (!onnx_entry(o, entry, &key, &value)) return;
    note_optimizer(o, key);
    if (!ends(key, "graph_signature.InputSpec.kind")) return;
    if (span_is(value, "BUFFER") || span_is(value, "CONSTANT_TENSOR")) vec_push(&o->buffers, name);
}

/* ---- lines of the program -------------------------------------------------------------------- */

struct frame {
    struct span file, line;
};

/* The next line of a text; false at its end. */
static bool next_line(struct span *text, struct span *line) {
    if (!text->len) return false;
    const char *newline = memchr(text->s, '\n', text->len);
    *line = (struct span){text->s, newline ? (size_t)(newline - text->s) : text->len};
    size_t taken = line->len + (newline != NULL);
    text->s += taken;
    text->len -= taken;
    return true;
}

/* The digits at the start of a text. */
static struct span digits(const char *at, const char *end) {
    struct span out = {at, 0};
    while (at + out.len < end && isdigit((unsigned char)at[out.len])) out.len++;
    return out;
}

/* `  File "a.py", line 3, in forward` */
static bool python_frame(struct span text, struct frame *out) {
    static const char file[] = "File \"", line[] = "\", line ";
    const char *end = text.s + text.len;
    const char *at = memmem(text.s, text.len, file, sizeof file - 1);
    if (!at) return false;
    at += sizeof file - 1;
    const char *behind = memmem(at, (size_t)(end - at), line, sizeof line - 1);
    if (!behind) return false;
    out->file = (struct span){at, (size_t)(behind - at)};
    out->line = digits(behind + sizeof line - 1, end);
    return out->file.len && out->line.len;
}

/* `a.py(3): forward` */
static bool torchscript_frame(struct span text, struct frame *out) {
    static const char py[] = ".py(";
    const char *end = text.s + text.len, *at = memmem(text.s, text.len, py, sizeof py - 1);
    if (!at) return false;
    at += sizeof py - 1;
    out->file = (struct span){text.s, (size_t)(at - 1 - text.s)};
    out->line = digits(at, end);
    at = out->line.s + out->line.len;
    return out->line.len && end - at >= 2 && at[0] == ')' && at[1] == ':';
}

static const char *find(struct span s, const char *what) {
    return memmem(s.s, s.len, what, strlen(what));
}

/* The file as seen from the folder of packages that it is installed in, or from the current one. */
static struct span short_name(struct onnx *o, struct span file) {
    static const char *const packages[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < 2; i++) {
        const char *at = find(file, packages[i]);
        if (!at) continue;
        at += strlen(packages[i]);
        return (struct span){at, (size_t)(file.s + file.len - at)};
    }
    if (!o->folder && !getcwd(o->folder_bytes, sizeof o->folder_bytes - 1)) *o->folder_bytes = 0;
    if (!o->folder && *o->folder_bytes && strcmp(o->folder_bytes, "/") != 0)
        strcat(o->folder_bytes, "/");
    o->folder = o->folder_bytes;
    size_t n = strlen(o->folder);
    if (n && file.len > n && starts(file, o->folder))
        return (struct span){file.s + n, file.len - n};
    return file;
}

static bool is_torch(struct span name) {
    return starts(name, "torch/") || find(name, "/torch/nn/") || find(name, "/torch/_") ||
           starts(name, "<");
}

/* "FILE:LINE" of the innermost frame of the user's code; 0 if there is none. */
static str user_line(struct onnx *o, struct span trace, bool innermost_first,
                     bool (*read)(struct span, struct frame *)) {
    struct frame frame, user = {0};
    for (struct span line; next_line(&trace, &line);) {
        if (!read(line, &frame)) continue;
        frame.file = short_name(o, frame.file);
        /* Where tracing begins; what is around it calls the exporter. */
        if (innermost_first && (find(frame.file, "torch/jit/") || find(frame.file, "torch/onnx/")))
            break;
        if (is_torch(frame.file)) continue;
        user = frame;
        if (innermost_first) break;
    }
    if (!user.file.len || memchr(user.file.s, 0, user.file.len)) return 0;
    struct arena scratch = {0};
    const char *text = arena_printf(&scratch, "%.*s:%.*s", (int)user.file.len, user.file.s,
                                    (int)user.line.len, user.line.s);
    str out = strtab_addz(&o->m->strings, text);
    arena_free(&scratch);
    return out;
}

void onnx_note_node(struct onnx *o, const struct onnx_field *f, struct onnx_source *out) {
    struct span key, value;
    if (f->number == NODE_doc_string && !out->line)
        out->line = user_line(o, f->bytes, true, torchscript_frame);
    if (f->number == NODE_metadata_props) {
        if (!onnx_entry(o, f->bytes, &key, &value)) return;
        note_optimizer(o, key);
        if (!span_is(key, "pkg.torch.onnx.stack_trace")) return;
        out->line = user_line(o, value, false, python_frame);
    }
    out->loc = f->loc;
}

/* Onto o->attrs, above `mark`, unless the node has such an attribute. */
void onnx_add_source(struct onnx *o, const struct onnx_source *s, uint32_t mark) {
    if (!s->line) return;
    struct ir_attr_info a = {.name = strtab_addz(&o->m->strings, "source"),
                             .kind = IR_ATTR_STRING,
                             .loc = s->loc,
                             .values = o->m->attr_value.n,
                             .n_values = 1};
    for (uint32_t i = mark; i < o->attrs.n; i++)
        if (o->attrs.at[i].name == a.name) return;
    vec_push(&o->m->attr_value, ((union ir_attr_value){.s = s->line}));
    vec_push(&o->attrs, a);
}

/* ---- the model's metadata -------------------------------------------------------------------- */

static bool has_property(const struct ir_module *m, const char *key) {
    for (uint32_t i = 0; i < m->metadata.n; i++)
        if (strcmp(ir_text(m, m->metadata.at[i].key), key) == 0) return true;
    return false;
}

static void add_property(struct onnx *o, const char *key, str value) {
    struct ir_module *m = o->m;
    struct ir_property property = {
        .key = strtab_addz(&m->strings, key), .value = value, .loc = m->graph.at[m->main].loc};
    vec_push(&m->metadata, property);
    m->has_metadata = true;
}

/* The names of float initializers among those noted become a property, if the list of names that it
 * is can hold them. */
static void add_names(struct onnx *o, const char *key, const str *names, uint32_t n) {
    struct ir_module *m = o->m;
    if (n == 0 || has_property(m, key)) return;
    bool *noted = arena_new(&o->d->arena, bool, m->strings.text.n);
    for (uint32_t i = 0; i < n; i++) noted[names[i]] = true;
    VEC(char) list = {0};
    const struct ir_graph_info *graph = &m->graph.at[m->main];
    for (uint32_t i = 0; i < graph->n_items; i++) {
        const struct ir_decl *decl = &m->decl.at[graph->items + i];
        str name = m->value.at[decl->value].name;
        const char *text = ir_text(m, name);
        if (!decl->data || !noted[name] || !ir_type_carries_gradient(m, decl->type) ||
            strpbrk(text, ", \t\n*?["))
            continue;
        if (list.n) vec_push(&list, ' ');
        memcpy(vec_extend(&list, strtab_len(&m->strings, name)), text,
               strtab_len(&m->strings, name));
    }
    if (list.n) add_property(o, key, strtab_add(&m->strings, list.at, list.n));
    vec_free(&list);
}

void onnx_add_properties(struct onnx *o) {
    add_names(o, "ddpc.buffers", o->buffers.at, o->buffers.n);
    add_names(o, "ddpc.trainable", o->trained.at, o->trained.n);
    if (o->folded && !has_property(o->m, "ddpc.folded"))
        add_property(o, "ddpc.folded", strtab_addz(&o->m->strings, "true"));
}
