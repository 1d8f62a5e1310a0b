/* What the tool says around a pipeline: diagnostics in the form that was asked for, the passes'
 * results for --print-after, their times for --stats=json. */
#define _DEFAULT_SOURCE
#include "sarif.h"
#include "tool.h"
#include <jansson.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *tool_utf8(struct arena *a, const char *text) {
    /* The table of RFC 3629: a lead byte says how many follow and what the second may be. */
    size_t n = strlen(text);
    char *out = arena_alloc(a, 3 * n + 1), *to = out;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t more = c < 0x80                 ? 0
                      : c >= 0xC2 && c <= 0xDF ? 1
                      : (c & 0xF0) == 0xE0     ? 2
                      : c >= 0xF0 && c <= 0xF4 ? 3
                                               : 9;
        unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
        unsigned char high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
        bool ok = more < 9 && i + more < n;
        for (size_t k = 1; ok && k <= more; k++) {
            unsigned char d = (unsigned char)text[i + k];
            ok = k == 1 ? d >= low && d <= high : (d & 0xC0) == 0x80;
        }
        if (ok) {
            memcpy(to, text + i, more + 1);
            to += more + 1;
            i += more + 1;
        } else {
            memcpy(to, "\xEF\xBF\xBD", 3);
            to += 3;
            i++;
        }
    }
    return out;
}

void tool_put(FILE *out, const char *text) {
    for (; *text; text++) putc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}

static const char *severity_name(enum diag_severity s) {
    return s == DIAG_ERROR ? "error" : s == DIAG_WARNING ? "warning" : "note";
}

static void set_location(json_t *object, struct diags *d, ir_loc loc) {
    if (loc == IR_NO_LOC || !d->source) return;
    uint32_t line, column;
    if (d->source->binary) {
        struct arena a = {0};
        json_object_set_new(object, "path",
                            json_string(tool_utf8(&a, source_path(d->source, loc, &a))));
        arena_free(&a);
        return;
    }
    source_position(d->source, loc, &line, &column);
    json_object_set_new(object, "line", json_integer(line));
    json_object_set_new(object, "column", json_integer(column));
}

/* A broken text may have a million mistakes; no tool that reads these wants more of each kind. */
enum { JSON_MAX_SHOWN = 1000 };

static void print_json(struct diags *d, FILE *out) {
    struct arena a = {0};
    json_t *list = json_array();
    uint32_t shown[2] = {0}, hidden = 0; /* errors apart, so that warnings push none out */
    for (uint32_t i = 0; i < d->all.n; i++) {
        const struct diag *g = d->all.at[i];
        if (shown[g->severity == DIAG_ERROR]++ >= JSON_MAX_SHOWN) {
            hidden++;
            continue;
        }
        char code[16];
        snprintf(code, sizeof code, "DDP%04d", (int)g->code);
        const char *file = g->file                            ? g->file
                           : g->loc != IR_NO_LOC && d->source ? d->source->name
                                                              : "ddpc";
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:s}", "code", code, "severity", severity_name(g->severity),
                      "file", tool_utf8(&a, file), "message", tool_utf8(&a, g->text));
        set_location(o, d, g->loc);
        if (json_object_get(o, "line")) json_object_set_new(o, "length", json_integer(g->length));
        json_t *notes = json_array();
        for (uint32_t k = 0; k < g->notes.n; k++) {
            json_t *note = json_pack("{s:s}", "message", tool_utf8(&a, g->notes.at[k].text));
            set_location(note, d, g->notes.at[k].loc);
            json_array_append_new(notes, note);
        }
        json_object_set_new(o, "notes", notes);
        json_object_set_new(o, "help", g->help ? json_string(tool_utf8(&a, g->help)) : json_null());
        json_array_append_new(list, o);
    }
    json_t *root = json_pack("{s:s, s:o, s:I}", "format_version", "1.0", "diagnostics", list,
                             "not_shown", (json_int_t)hidden);
    json_dumpf(root, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(root);
    arena_free(&a);
}

void tool_print_diags(const struct tool *t, struct diags *d) {
    diags_sort(d);
    if (t->diagnostics == DIAGNOSTICS_SARIF) {
        sarif_add(t->sarif, d);
        return;
    }
    if (t->diagnostics == DIAGNOSTICS_JSON) {
        if (d->all.n) print_json(d, stderr);
        return;
    }
    bool color = t->color == COLOR_ALWAYS || (t->color == COLOR_AUTO && isatty(STDERR_FILENO));
    diags_print(d, stderr, t->diagnostics == DIAGNOSTICS_SHORT, color);
}

bool tool_complain_coded(const struct tool *t, enum diag_code code, const char *file,
                         const char *text, const char *help) {
    if (t->diagnostics != DIAGNOSTICS_JSON && t->diagnostics != DIAGNOSTICS_SARIF) return false;
    struct diags d;
    diags_init(&d, NULL);
    struct diag *g = diag_plain(&d, code, file, "%s", text);
    if (help) diag_set_help(&d, g, "%s", help);
    tool_print_diags(t, &d);
    diags_free(&d);
    return true;
}

/* ---- --print-after --------------------------------------------------------------------------- */

static void print_after(struct compilation *c, enum pipeline_pass pass, void *context) {
    if (strcmp(context, pipeline_pass_name(pass)) != 0) return;
    if (pass < PIPELINE_program) {
        if (pass == PIPELINE_types)
            ir_print_typed(&c->module, stdout);
        else
            ir_print(&c->module, stdout);
        return;
    }
    const struct program *p = &c->program;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        printf("step %s\n", strtab_text(&p->m->strings, p->steps.at[s].name));
        if (pass == PIPELINE_schedule) {
            const struct sched *schedule = &c->sched[s];
            for (uint32_t i = 0; i < schedule->bucket.n; i++) {
                const struct sched_bucket *b = &schedule->bucket.at[i];
                printf("  bucket %u: %u gradients, group %u, %.3f us .. %.3f us\n", i, b->n,
                       b->group, b->start_us, b->end_us);
            }
            continue;
        }
        for (uint32_t i = 0; i < p->params.n; i++) {
            const struct param *q = &p->params.at[i];
            printf("  %s %s", q->kind == PARAM_BUFFER ? "buffer" : "parameter",
                   strtab_text(&p->m->strings, q->name));
            if (pass >= PIPELINE_reach)
                printf(" %s", grad_class_name(c->reach[s].gradient[i].class));
            if (pass >= PIPELINE_order) printf(" %.3f us", c->ready[s].us[i]);
            putchar('\n');
        }
    }
}

/* ---- --stats=json ---------------------------------------------------------------------------- */

static void print_stats(const struct compilation *c, enum pipeline_pass last) {
    json_t *passes = json_object();
    for (enum pipeline_pass p = 0; p <= last; p++)
        json_object_set_new(passes, pipeline_pass_name(p), json_real(c->pass_ms[p]));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    json_t *root = json_pack("{s:o, s:I, s:I, s:I}", "passes_ms", passes, "nodes",
                             (json_int_t)(c->module.node.n ? c->module.node.n - 1 : 0),
                             "parameters", (json_int_t)c->program.params.n, "peak_rss_bytes",
                             (json_int_t)usage.ru_maxrss * 1024);
    if (last >= PIPELINE_types)
        json_object_set_new(root, "unknown_shapes", json_integer(types_unknown_shapes(&c->module)));
    json_dumpf(root, stderr, JSON_COMPACT | JSON_REAL_PRECISION(6));
    fputc('\n', stderr);
    json_decref(root);
}

/* A file that cannot be read, or an error in what a flag says: not the model is wrong, and a gate
 * must be able to tell. */
static bool is_usage(const struct diags *d) {
    for (uint32_t i = 0; i < d->all.n; i++) {
        const struct diag *g = d->all.at[i];
        if (g->code == DIAG_CANNOT_READ) return true;
        if (g->severity == DIAG_ERROR && g->file && !strncmp(g->file, "--", 2)) return true;
    }
    return false;
}

int tool_run_pipeline(struct tool *t, struct compilation *c, enum pipeline_pass last) {
    pipeline_init(c, &t->options);
    if (t->print_after) {
        char names[128] = "";
        enum pipeline_pass first = t->options.from_list ? PIPELINE_order : 0;
        if (first > last)
            return tool_usage_error(t,
                                    "with --from-list no pass of this command leaves anything for "
                                    "--print-after");
        for (enum pipeline_pass p = first; p <= last && p < PIPELINE_emit; p++) {
            if (p != first) strcat(names, " ");
            strcat(names, pipeline_pass_name(p));
        }
        if (tool_choice(t, "print-after", t->print_after, names) < 0) return TOOL_USAGE;
        c->after = print_after;
        c->after_context = (void *)t->print_after;
    }
    bool ok = pipeline_run(c, t->options.from_list ? NULL : t->args.at[0], last);
    tool_print_diags(t, &c->diags);
    if (t->stats) print_stats(c, last);
    if (ok) return TOOL_OK;
    return is_usage(&c->diags) ? TOOL_USAGE : TOOL_REJECTED;
}
