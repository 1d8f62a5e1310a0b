/* Protobuf's wire format, by nanopb's streams, and the way from a byte back to the field it is in.
 *
 * A message is a list of fields: a tag (number and wire type), then a number, or a length and as many
 * bytes. A cursor gives the fields one by one, without copying: what is not asked for is skipped by
 * its length, so gigabytes of weights cost no page. onnx.def says which wire type a known field must
 * have; unknown fields are skipped. Protobuf lets fields come in any order and lets a list of numbers
 * be split; readers above rely on neither.
 *
 * Places in a binary model are told as paths, `graph.node[12].input[0]`, with the names that the fields
 * have in onnx.proto. A location is the offset of a field's first byte; the path is looked for only
 * when somebody asks. The fields of the main graph, of which there can be a million, are then indexed
 * once; what is inside one of them is walked. */
#include "onnx.h"
#include <string.h>

enum kind { NO_FIELD, VARINT, VARINTS, FIXED32, FIXED32S, FIXED64S, BYTES, MESSAGE };
enum { ONE, MANY };

static const struct entry {
    const char *name;
    uint8_t kind, of, many;
} schema[ONNX_N_MESSAGES][ONNX_N_NUMBERS] = {
#define FIELD(message, number, name, kind, of, many)                                               \
    [ONNX_##message][number] = {#name, kind, ONNX_##of, many},
#include "onnx.def"
#undef FIELD
};

static const struct entry *entry_of(enum onnx_message message, uint32_t number) {
    return &schema[message][number < ONNX_N_NUMBERS ? number : 0];
}

/* ---- fields ---------------------------------------------------------------------------------- */

struct onnx_cursor onnx_cursor(enum onnx_message message, struct span bytes) {
    return (struct onnx_cursor){
        .in = pb_istream_from_buffer((const pb_byte_t *)bytes.s, bytes.len),
        .end = bytes.s + bytes.len,
        .message = message,
    };
}

static bool fits(enum kind kind, pb_wire_type_t wire) {
    switch (kind) {
    case NO_FIELD: return true;
    case VARINT: return wire == PB_WT_VARINT;
    case VARINTS: return wire == PB_WT_VARINT || wire == PB_WT_STRING;
    case FIXED32: return wire == PB_WT_32BIT;
    case FIXED32S: return wire == PB_WT_32BIT || wire == PB_WT_STRING;
    case FIXED64S: return wire == PB_WT_64BIT || wire == PB_WT_STRING;
    case BYTES:
    case MESSAGE: return wire == PB_WT_STRING;
    }
    return false;
}

static bool broken(struct onnx_cursor *c, const char *why) {
    c->broken = why;
    return false;
}

bool onnx_next(const struct source *s, struct onnx_cursor *c, struct onnx_field *f) {
    if (c->in.bytes_left == 0 || c->broken) return false;
    *f = (struct onnx_field){.loc = (ir_loc)(c->end - c->in.bytes_left - s->bytes)};
    pb_wire_type_t wire;
    bool end;
    if (!pb_decode_tag(&c->in, &wire, &f->number, &end)) return broken(c, "no field begins there");
    if (f->number == 0) return broken(c, "a field has number 0");
    const struct entry *entry = entry_of(c->message, f->number);
    if (!fits(entry->kind, wire)) return broken(c, "a field is of another kind than ONNX's");
    uint32_t word;
    pb_istream_t inside;
    switch (wire) {
    case PB_WT_VARINT:
        if (!pb_decode_varint(&c->in, &f->value)) return broken(c, "a number has no end");
        return true;
    case PB_WT_32BIT:
        if (!pb_decode_fixed32(&c->in, &word)) return broken(c, "a number is cut off");
        f->value = word;
        return true;
    case PB_WT_64BIT:
        if (!pb_decode_fixed64(&c->in, &f->value)) return broken(c, "a number is cut off");
        return true;
    case PB_WT_STRING:
        if (!pb_make_string_substream(&c->in, &inside))
            return broken(c, "a field is longer than what it is in");
        f->is_span = true;
        f->bytes.len = inside.bytes_left;
        f->bytes.s = c->end - c->in.bytes_left - inside.bytes_left;
        if (!pb_close_string_substream(&c->in, &inside)) return broken(c, "a field is cut off");
        return true;
    default: return broken(c, "a field has a wire type that ONNX never uses");
    }
}

bool onnx_next_number(struct onnx_cursor *c, uint32_t number, uint64_t *out) {
    if (c->in.bytes_left == 0 || c->broken) return false;
    uint32_t word;
    switch ((enum kind)entry_of(c->message, number)->kind) {
    case FIXED32S:
        if (!pb_decode_fixed32(&c->in, &word)) return broken(c, "a number is cut off");
        *out = word;
        return true;
    case FIXED64S: return pb_decode_fixed64(&c->in, out) || broken(c, "a number is cut off");
    default: return pb_decode_varint(&c->in, out) || broken(c, "a number has no end");
    }
}

/* Writers put fields in the order of their numbers, so nearly every model begins with ir_version, and
 * no text begins with that byte. For the others the whole file must be a list of fields, with a graph
 * among them; a newer ONNX may have fields that are not known here. */
bool onnx_is_model(const struct source *s) {
    if (s->size == 0) return false;
    if (s->bytes[0] == (MODEL_ir_version << 3 | PB_WT_VARINT)) return true;
    struct onnx_cursor c = onnx_cursor(ONNX_MODEL, (struct span){s->bytes, s->size});
    bool graph = false;
    for (struct onnx_field f; onnx_next(s, &c, &f);) graph |= f.number == MODEL_graph;
    return graph && !c.broken;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static uint32_t index_in(const struct source *s, enum onnx_message message, struct span bytes,
                         const struct onnx_field *of) {
    uint32_t n = 0;
    struct onnx_cursor c = onnx_cursor(message, bytes);
    for (struct onnx_field f; onnx_next(s, &c, &f) && f.loc < of->loc;) n += f.number == of->number;
    return n;
}

static bool ends_behind(const struct source *s, const struct onnx_cursor *c, ir_loc at) {
    return (ir_loc)(c->end - c->in.bytes_left - s->bytes) > at;
}

/* The offsets and the indices of the main graph's fields, in s->lines and s->indices. */
static void index_graph(struct source *s, struct span graph) {
    uint32_t n[ONNX_N_NUMBERS] = {0};
    struct onnx_cursor c = onnx_cursor(ONNX_GRAPH, graph);
    for (struct onnx_field f; onnx_next(s, &c, &f);) {
        vec_push(&s->lines, f.loc);
        vec_push(&s->indices, f.number < ONNX_N_NUMBERS ? n[f.number]++ : 0);
    }
}

static uint32_t last_before(const struct source *s, ir_loc at) {
    uint32_t low = 0, high = s->lines.n;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        *(s->lines.at[mid] <= at ? &low : &high) = mid;
    }
    return low;
}

const char *source_path(struct source *s, ir_loc at, struct arena *a) {
    enum onnx_message message = ONNX_MODEL;
    struct span bytes = {s->bytes, s->size};
    const char *path = "";
    while (message) {
        struct onnx_cursor c = onnx_cursor(message, bytes);
        struct onnx_field f = {0};
        bool main = message == ONNX_GRAPH && strcmp(path, "graph") == 0, found = false;
        uint32_t index = 0;
        if (main && s->lines.n == 0) index_graph(s, bytes);
        if (main && s->lines.n && s->lines.at[0] <= at) {
            uint32_t i = last_before(s, at);
            const char *from = s->bytes + s->lines.at[i];
            c = onnx_cursor(message, (struct span){from, (size_t)(c.end - from)});
            index = s->indices.at[i];
        }
        while (!found && onnx_next(s, &c, &f)) found = ends_behind(s, &c, at);
        const struct entry *entry = entry_of(message, f.number);
        if (!found || f.loc > at || !entry->kind) break;
        if (!main && entry->many == MANY) index = index_in(s, message, bytes, &f);
        path = arena_printf(a, "%s%s%s", path, *path ? "." : "", entry->name);
        if (entry->many == MANY) path = arena_printf(a, "%s[%u]", path, index);
        if (f.loc == at || entry->kind != MESSAGE || at < (ir_loc)(f.bytes.s - s->bytes)) break;
        message = entry->of;
        bytes = f.bytes;
    }
    return path;
}
