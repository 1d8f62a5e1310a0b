/* What all SARIF of this program has in common, and diagnostics in that form.
 *
 * Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, 2020.
 *
 * Paths are URIs relative to the folder that the program ran in, called %SRCROOT% as code scanning
 * services do, so that the same run gives the same bytes on every machine; a file outside of it has
 * an absolute one. Columns count code points, where the rest of the program counts bytes. */
#define _XOPEN_SOURCE 700
#include "sarif.h"
#include "tool.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"

static json_t *message(const char *text) { return json_pack("{s:s}", "text", text); }

void sarif_write(FILE *out, json_t *rules, json_t *results, json_t *invocations, json_t *properties,
                 size_t flags) {
    json_t *run = json_pack("{s:{s:{s:s, s:s, s:o}}, s:s, s:{s:{s:o}}, s:o}", "tool", "driver",
                            "name", "ddpc", "version", DDPC_VERSION, "rules", rules, "columnKind",
                            "unicodeCodePoints", "originalUriBaseIds", "%SRCROOT%", "description",
                            message("the folder in which ddpc ran"), "results", results);
    if (invocations) json_object_set_new(run, "invocations", invocations);
    if (properties) json_object_set_new(run, "properties", properties);
    json_t *root =
        json_pack("{s:s, s:s, s:[o]}", "$schema", SCHEMA, "version", "2.1.0", "runs", run);
    json_dumpf(root, out, flags);
    fputc('\n', out);
    json_decref(root);
}

json_t *sarif_rule(const char *id, const char *title, const char *essay, const char *level) {
    return json_pack("{s:s, s:o, s:o, s:o, s:{s:s}}", "id", id, "shortDescription", message(title),
                     "fullDescription", message(essay), "help", message(essay),
                     "defaultConfiguration", "level", level);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A path as a URI reference: everything but letters, digits and a few signs as %XX. */
static char *encode(struct arena *a, const char *path) {
    char *out = arena_alloc(a, 3 * strlen(path) + 1), *to = out;
    for (const char *p = path; *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || strchr("/-._~+,=@", *p);
        to += plain ? (*to = *p, 1) : sprintf(to, "%%%02X", (unsigned char)*p);
    }
    return out;
}

json_t *sarif_place(struct arena *a, const char *path, uint32_t line, uint32_t column) {
    if (!*path || *path == '<' || !strcmp(path, "-")) return NULL;
    char folder[4096];
    size_t n = *path == '/' && getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    if (n && !strncmp(path, folder, n) && path[n] == '/') path += n + 1;
    while (!strncmp(path, "./", 2)) path += 2;
    json_t *file = json_object();
    if (*path == '/') {
        json_object_set_new(file, "uri",
                            json_string(arena_printf(a, "file://%s", encode(a, path))));
    } else {
        json_object_set_new(file, "uri", json_string(encode(a, path)));
        json_object_set_new(file, "uriBaseId", json_string("%SRCROOT%"));
    }
    json_t *place = json_pack("{s:o}", "artifactLocation", file);
    if (!line) return place;
    json_t *region = json_pack("{s:I}", "startLine", (json_int_t)line);
    if (column) json_object_set_new(region, "startColumn", json_integer(column));
    json_object_set_new(place, "region", region);
    return place;
}

json_t *sarif_place_in(struct arena *a, struct source *s, ir_loc at) {
    uint32_t line, column, bytes;
    if (at == IR_NO_LOC) return sarif_place(a, s->name, 0, 0);
    if (s->binary) {
        json_t *place = sarif_place(a, s->name, 0, 0);
        json_object_set_new(place, "region",
                            json_pack("{s:I, s:i}", "byteOffset", (json_int_t)at, "byteLength", 1));
        return place;
    }
    source_position(s, at, &line, &bytes);
    const char *text;
    size_t length = source_line(s, line, &text);
    column = bytes;
    for (size_t i = 0; i + 1 < bytes && i < length; i++) column -= (text[i] & 0xc0) == 0x80;
    return sarif_place(a, s->name, line, column);
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

/* "params.txt:3" is a line of a file; "--dim" and "ddpc check" are none. */
static json_t *plain_place(struct arena *a, const char *file) {
    if (!strncmp(file, "--", 2) || !strcmp(file, "ddpc") || !strncmp(file, "ddpc ", 5)) return NULL;
    const char *colon = strrchr(file, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!digits || digits > 9 || colon[1 + digits]) return sarif_place(a, file, 0, 0);
    uint32_t line = 0;
    for (const char *p = colon + 1; *p; p++) line = line * 10 + (uint32_t)(*p - '0');
    return sarif_place(a, arena_strndup(a, file, (size_t)(colon - file)), line, 0);
}

static json_t *place_of(struct arena *a, struct diags *d, const struct diag *g) {
    if (g->file) return plain_place(a, g->file);
    if (!d->source || !d->source->name) return NULL;
    json_t *place = sarif_place_in(a, d->source, g->loc),
           *region = json_object_get(place, "region");
    json_int_t from = json_integer_value(json_object_get(region, "startColumn")), to = from;
    if (!from) return place;
    const struct source *s = d->source;
    for (size_t i = g->loc; i < s->size && i - g->loc < g->length && s->bytes[i] != '\n'; i++)
        to += (s->bytes[i] & 0xc0) != 0x80;
    json_object_set_new(region, "endColumn", json_integer(to > from ? to : from + 1));
    return place;
}

static json_t *locations_of(json_t *place) {
    return place ? json_pack("[{s:o}]", "physicalLocation", place) : json_array();
}

enum { MAX_RESULTS = 1000 }; /* of errors, and of the rest */

void sarif_add(json_t *results, struct diags *d) {
    static const char *const levels[] = {"error", "warning", "note"};
    struct arena a = {0};
    uint32_t shown[2] = {0};
    for (uint32_t i = 0; i < d->all.n; i++) {
        const struct diag *g = d->all.at[i];
        if (shown[g->severity == DIAG_ERROR]++ >= MAX_RESULTS) continue;
        const char *text = tool_utf8(&a, g->text);
        if (g->file && !strncmp(g->file, "--", 2)) text = arena_printf(&a, "%s: %s", g->file, text);
        json_t *related = json_array();
        for (uint32_t k = 0; k < g->notes.n; k++) {
            const struct diag_note *note = &g->notes.at[k];
            json_t *place = note->loc == IR_NO_LOC || !d->source
                                ? NULL
                                : sarif_place_in(&a, d->source, note->loc);
            const char *said = tool_utf8(&a, note->text);
            if (place)
                json_array_append_new(related, json_pack("{s:o, s:o}", "physicalLocation", place,
                                                         "message", message(said)));
            else
                text = arena_printf(&a, "%s\n%s", text, said);
        }
        if (g->help) text = arena_printf(&a, "%s\n%s", text, tool_utf8(&a, g->help));
        json_t *result = json_pack("{s:o, s:s, s:o, s:o}", "ruleId",
                                   json_string(arena_printf(&a, "DDP%04d", (int)g->code)), "level",
                                   levels[g->severity], "message", message(text), "locations",
                                   locations_of(place_of(&a, d, g)));
        if (json_array_size(related))
            json_object_set_new(result, "relatedLocations", related);
        else
            json_decref(related);
        json_array_append_new(results, result);
    }
    arena_free(&a);
}

void sarif_print(FILE *out, json_t *results) {
    static const char *const levels[] = {"error", "warning", "note"};
    json_t *rules = json_array(), *index = json_object(), *result;
    size_t i;
    json_array_foreach(results, i, result) {
        const char *id = json_string_value(json_object_get(result, "ruleId"));
        json_t *known = json_object_get(index, id);
        if (!known) {
            enum diag_code code = (enum diag_code)atoi(id + strlen("DDP"));
            known = json_integer((json_int_t)json_array_size(rules));
            json_object_set_new(index, id, known);
            json_array_append_new(rules, sarif_rule(id, diag_title(code), diag_essay(code),
                                                    levels[diag_severity_of(code)]));
        }
        json_object_set(result, "ruleIndex", known);
    }
    json_decref(index);
    sarif_write(out, rules, results, NULL, NULL, JSON_COMPACT);
}
