/* Protobuf's wire format, and the way from a byte back to the field it is in.
 *
 * A message is a list of fields: a tag (number and wire type), then a number, or a length and as many
 * bytes. A cursor gives the fields one by one, without copying: what is not asked for is skipped by
 * its length, so gigabytes of weights cost no page. onnx.def says which wire type a known field must
 * have; unknown fields are skipped. Protobuf lets fields come in any order and lets a list of numbers
 * be split; readers above rely on neither.
 *
 * Places in a binary model are told as paths, `graph.node[12].input[0]`, with the names that the
 * fields have in onnx.proto. A location is the offset of a field's first byte; the path is looked
 * for only when somebody asks. The fields of the main graph, of which there can be a million, are
 * then indexed once; what is inside one of them is walked. */
#include "onnx.h"
#include <pb_decode.h>
#include <string.h>

enum kind { NO_FIELD, VARINT, VARINTS, FIXED32, FIXED32S, FIXED64S, BYTES, MESSAGE };
enum { ONE, MANY };
enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

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

/* The wire types that a kind may have, one bit each. */
static const uint8_t wires[] = {
    [NO_FIELD] = 0xff,
    [VARINT] = 1 << WIRE_VARINT,
    [VARINTS] = 1 << WIRE_VARINT | 1 << WIRE_BYTES,
    [FIXED32] = 1 << WIRE_FIXED32,
    [FIXED32S] = 1 << WIRE_FIXED32 | 1 << WIRE_BYTES,
    [FIXED64S] = 1 << WIRE_FIXED64 | 1 << WIRE_BYTES,
    [BYTES] = 1 << WIRE_BYTES,
    [MESSAGE] = 1 << WIRE_BYTES,
};

static bool broken(struct onnx_cursor *c, const char *why) {
    c->broken = why;
    return false;
}

static size_t bytes_left(const struct onnx_cursor *c) { return (size_t)(c->end - c->at); }

/* Most tags and lengths have one byte; the others are nanopb's. */
static bool next_varint(struct onnx_cursor *c, uint64_t *out) {
    if (c->at < c->end && (unsigned char)*c->at < 0x80) {
        *out = (unsigned char)*c->at++;
        return true;
    }
    pb_istream_t in = pb_istream_from_buffer((const pb_byte_t *)c->at, bytes_left(c));
    bool ok = pb_decode_varint(&in, out);
    c->at = c->end - in.bytes_left;
    return ok;
}

bool onnx_next_bytes(struct onnx_cursor *c, uint32_t n, uint64_t *out) {
    if (bytes_left(c) < n) return broken(c, "a number is cut off");
    *out = 0;
    for (uint32_t i = n; i-- > 0;) *out = *out << 8 | (unsigned char)c->at[i];
    c->at += n;
    return true;
}

bool onnx_next(const struct source *s, struct onnx_cursor *c, struct onnx_field *f) {
    if (c->at == c->end || c->broken) return false;
    *f = (struct onnx_field){.loc = (ir_loc)(c->at - s->bytes)};
    uint64_t tag, length;
    if (!next_varint(c, &tag) || tag > UINT32_MAX) return broken(c, "no field begins there");
    f->number = (uint32_t)tag >> 3;
    if (f->number == 0) return broken(c, "a field has number 0");
    enum wire wire = tag & 7;
    if (!(wires[entry_of(c->message, f->number)->kind] >> wire & 1))
        return broken(c, "a field is of another kind than ONNX's");
    switch (wire) {
    case WIRE_VARINT: return next_varint(c, &f->value) || broken(c, "a number has no end");
    case WIRE_FIXED32: return onnx_next_bytes(c, 4, &f->value);
    case WIRE_FIXED64: return onnx_next_bytes(c, 8, &f->value);
    case WIRE_BYTES:
        if (!next_varint(c, &length) || length > bytes_left(c))
            return broken(c, "a field is longer than what it is in");
        f->is_span = true;
        f->bytes = (struct span){c->at, (size_t)length};
        c->at += length;
        return true;
    }
    return broken(c, "a field has a wire type that ONNX never uses");
}

bool onnx_next_number(struct onnx_cursor *c, uint32_t number, uint64_t *out) {
    if (c->at == c->end || c->broken) return false;
    switch ((enum kind)entry_of(c->message, number)->kind) {
    case FIXED32S: return onnx_next_bytes(c, 4, out);
    case FIXED64S: return onnx_next_bytes(c, 8, out);
    default: return next_varint(c, out) || broken(c, "a number has no end");
    }
}

/* Writers put fields in the order of their numbers, so nearly every model begins with ir_version, and
 * no text begins with that byte. For the others the whole file must be a list of fields, with a graph
 * among them; a newer ONNX may have fields that are not known here. */
bool onnx_is_model(const struct source *s) {
    if (s->size == 0) return false;
    if (s->bytes[0] == (MODEL_ir_version << 3 | WIRE_VARINT)) return true;
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
    return (ir_loc)(c->at - s->bytes) > at;
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
