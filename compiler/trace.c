/* Traces: the events of a Chrome trace that say when gradients are ready, or how long nodes take.
 *
 * A trace is an array of events, alone or as `traceEvents` of an object; ts and dur are in µs (an
 * object's displayTimeUnit is about how a viewer shows them). Complete events (ph X) and pairs of B
 * and E count, of annotations also instants. What is looked for:
 *
 *     autograd::engine::evaluate_function: AddmmBackward0   PyTorch: one node of the backward graph
 *     torch::autograd::AccumulateGrad                       a gradient is there; with record_shapes
 *                                                           its first input dimensions are its shape
 *     ready PARAMETER, node NAME                            annotations (record_function), as the
 *                                                           lines of a table: the beginning of the
 *                                                           one is the time, the length of the other
 *     args.correlation, with a stream or without            a kernel, and the call that launched it
 *     NAME_kernel_time, in the category Node                ONNX Runtime: the forward of a node
 *
 * Everything else is passed over as it comes. Kernels of NCCL do not count: they wait for other
 * ranks. The essays of passes.c and match.c say what becomes of it. Sources: torch/csrc/autograd's
 * engine.cpp and profiler_kineto.cpp; onnxruntime's profiler.cc; the Trace Event Format. */
#include "profile.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_OPEN = 4096, MOST_RANK = 16 };

struct event {
    char phase;
    bool cut, node, kernel; /* categories */
    bool has_time, has_length, has_stream, has_number, has_correlation, bad_time;
    double ts, dur;
    int64_t number;
    uint64_t correlation, thread;
    int64_t forward_thread;
    bool has_shape;
    uint32_t rank;
    double dims[MOST_RANK];
    uint64_t line, column;
    bool projected; /* the device's picture of an annotation of the host */
    uint32_t length;
    char name[JSON_MAX_TEXT]; /* last: of it only `length` bytes are kept */
};

static void copy_event(struct event *to, const struct event *from) {
    memcpy(to, from, offsetof(struct event, name) + from->length);
}

struct trace {
    struct json *j;
    struct profile *f;
    struct passes passes;
    const char *path;
    struct diags *d;
    VEC(struct event *) open; /* B without its E so far */
    uint64_t events;
    struct event event;
};

static bool complain_at(struct trace *t, uint64_t line, uint64_t column, const char *what) {
    const char *place = arena_printf(&t->d->arena, "%s:%llu:%llu", t->path,
                                     (unsigned long long)line, (unsigned long long)column);
    struct diag *x = diag_plain(t->d, DIAG_TRACE, place, "%s", what);
    diag_set_help(t->d, x,
                  "take the trace again and let the program end by itself, or give a table: lines "
                  "`node NAME us` "
                  "and `ready PARAMETER us`; ddpc.torch.profile writes one");
    return false;
}

static bool complain(struct trace *t) {
    return complain_at(t, t->j->line, t->j->column,
                       arena_printf(&t->d->arena, "this trace %s", t->j->why));
}

/* ---- one event ------------------------------------------------------------------------------- */

static bool text_is(const struct json *j, const char *text) {
    return strlen(text) == j->length && memcmp(j->text, text, j->length) == 0;
}

static uint64_t hash_text(uint64_t h, const struct json *j) {
    for (size_t i = 0; i < j->length; i++) h = (h ^ (unsigned char)j->text[i]) * 0x100000001b3;
    return h;
}

static void time_of(struct trace *t, enum json_token token, bool *has, double *out) {
    bool good = token == JSON_NUMBER && json_number(t->j, out);
    if (!good) t->event.bad_time = true;
    *has = true;
}

static bool whole_of(struct json *j, enum json_token token, int64_t *out) {
    double number;
    if (token != JSON_NUMBER || !json_number(j, &number) || number < 0 || number > 0x1p53)
        return false;
    *out = (int64_t)number;
    return true;
}

/* The first element of "Input Dims" (`[[512, 256], [], …]`), whose bracket is consumed. */
static bool read_dims(struct trace *t) {
    struct json *j = t->j;
    struct event *e = &t->event;
    enum json_token token = json_next(j);
    if (token == JSON_ARRAY) {
        e->has_shape = true;
        while ((token = json_next(j)) != JSON_ARRAY_END) {
            if (token == JSON_BAD) return false;
            int64_t size;
            if (e->rank < MOST_RANK && whole_of(j, token, &size))
                e->dims[e->rank++] = (double)size;
            else
                e->has_shape = false; /* a list of tensors */
            if (!json_skip(j, token)) return false;
        }
        token = json_next(j);
    }
    for (; token != JSON_ARRAY_END; token = json_next(j))
        if (!json_skip(j, token)) return false;
    return true;
}

static bool read_args(struct trace *t) {
    struct json *j = t->j;
    struct event *e = &t->event;
    enum json_token token;
    while ((token = json_next(j)) == JSON_KEY) {
        bool number = text_is(j, "Sequence number"), correlation = text_is(j, "correlation");
        bool stream = text_is(j, "stream"), forward = text_is(j, "Fwd thread id");
        bool dims = text_is(j, "Input Dims") || text_is(j, "Input dims");
        token = json_next(j);
        int64_t whole;
        if (dims && token == JSON_ARRAY) {
            e->has_shape = false;
            e->rank = 0;
            if (!read_dims(t)) return false;
            continue;
        }
        if (number) e->has_number = whole_of(j, token, &e->number);
        if (forward) whole_of(j, token, &e->forward_thread);
        if (correlation && whole_of(j, token, &whole) && whole) {
            e->has_correlation = true;
            e->correlation = (uint64_t)whole;
        }
        if (stream) e->has_stream = true;
        if (!json_skip(j, token)) return false;
    }
    return token == JSON_OBJECT_END;
}

static void category_of(struct event *e, const struct json *j) {
    e->node = text_is(j, "Node");
    e->projected = text_is(j, "gpu_user_annotation");
    e->kernel = text_is(j, "kernel") || text_is(j, "gpu_memcpy") || text_is(j, "gpu_memset") ||
                text_is(j, "Kernel") || text_is(j, "Memcpy") || text_is(j, "Memset");
}

/* An event, whose bracket is consumed. */
static bool read_event(struct trace *t) {
    struct json *j = t->j;
    struct event *e = &t->event;
    memset(e, 0, offsetof(struct event, name));
    e->line = j->line;
    e->column = j->column;
    e->thread = 0xcbf29ce484222325;
    enum json_token token;
    while ((token = json_next(j)) == JSON_KEY) {
        char key[8] = "";
        if (j->length < sizeof key) memcpy(key, j->text, j->length);
        token = json_next(j);
        if (strcmp(key, "args") == 0 && token == JSON_OBJECT) {
            if (!read_args(t)) return false;
            continue;
        }
        if (strcmp(key, "name") == 0 && token == JSON_STRING) {
            memcpy(e->name, j->text, j->length);
            e->length = (uint32_t)j->length;
            e->cut = j->cut;
        } else if (strcmp(key, "ph") == 0 && token == JSON_STRING && j->length == 1)
            e->phase = j->text[0];
        else if (strcmp(key, "cat") == 0 && token == JSON_STRING)
            category_of(e, j);
        else if (strcmp(key, "ts") == 0)
            time_of(t, token, &e->has_time, &e->ts);
        else if (strcmp(key, "dur") == 0)
            time_of(t, token, &e->has_length, &e->dur);
        else if (strcmp(key, "pid") == 0 || strcmp(key, "tid") == 0)
            e->thread ^= hash_text(key[0] == 'p' ? 1 : 2, j);
        if (!json_skip(j, token)) return false;
    }
    return token == JSON_OBJECT_END;
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* What follows `prefix` in the name, or NULL. */
static const char *after(const struct event *e, const char *prefix) {
    size_t n = strlen(prefix);
    return e->length > n && memcmp(e->name, prefix, n) == 0 ? e->name + n : NULL;
}

static bool is_name(const struct event *e, const char *name) {
    return e->length == strlen(name) && memcmp(e->name, name, e->length) == 0;
}

/* A name is shown to people and found in the model: whole, and UTF-8. */
static bool name_is_usable(const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i++];
        int rest = c < 0x80                ? 0
                   : c >= 0xC2 && c < 0xE0 ? 1
                   : (c & 0xF0) == 0xE0    ? 2
                   : c >= 0xF0 && c < 0xF5 ? 3
                                           : -1;
        if (rest < 0 || c == 0) return false;
        for (; rest; rest--)
            if (i == n || ((unsigned char)s[i++] & 0xC0) != 0x80) return false;
    }
    return true;
}

static str shape_of(struct trace *t) {
    struct event *e = &t->event;
    if (!e->has_shape) return 0;
    char text[MOST_RANK * 20] = "scalar";
    for (uint32_t i = 0, n = 0; i < e->rank; i++)
        n += (uint32_t)snprintf(text + n, sizeof text - n, i ? "x%.0f" : "%.0f", e->dims[i]);
    return strtab_addz(&t->f->names, text);
}

/* An event of a kind that counts, its times checked. */
static bool use(struct trace *t, const struct event *e, bool length) {
    if (!e->bad_time && e->has_time && (!length || (e->has_length && e->dur >= 0))) return true;
    complain_at(t, e->line, e->column,
                arena_printf(&t->d->arena, "the event '%.*s' wants a number of µs as `ts`%s",
                             e->length > 80 ? 80 : (int)e->length, e->name,
                             length ? ", and one from 0 on as `dur`" : ""));
    return false;
}

static bool entry_of(struct trace *t, enum profile_kind kind, const char *name, size_t n,
                     uint32_t *out) {
    if (t->event.cut || !name_is_usable(name, n)) {
        complain_at(t, t->event.line, t->event.column,
                    t->event.cut ? "this event's name is longer than 4 KiB"
                                 : "this event's name is not UTF-8");
        return false;
    }
    *out = profile_entry(t->f, kind, name, n);
    return true;
}

static bool named(struct trace *t, enum profile_kind kind, const char *name, size_t n) {
    const struct event *e = &t->event;
    uint32_t entry;
    if (!use(t, e, kind != PROFILE_READY) || !entry_of(t, kind, name, n, &entry)) return false;
    if (kind != PROFILE_READY)
        passes_sample(&t->passes, entry, e->dur);
    else
        passes_mark(&t->passes, (struct mark){e->ts, e->ts, entry, 0, MARK_READY});
    return true;
}

static bool take(struct trace *t) {
    struct event *e = &t->event;
    static const char kernel_time[] = "_kernel_time";
    const size_t suffix = sizeof kernel_time - 1;
    const char *name;
    if (e->projected) return true;
    if ((name = after(e, "ready "))) return named(t, PROFILE_READY, name, e->length - 6);
    if (e->phase != 'X') return true;
    if ((name = after(e, "node "))) return named(t, PROFILE_NODE, name, e->length - 5);
    if (e->node && e->length > suffix &&
        memcmp(e->name + e->length - suffix, kernel_time, suffix) == 0) {
        return named(t, PROFILE_FORWARD, e->name, e->length - suffix);
    }
    bool pause = after(e, "ProfilerStep#") || after(e, "Optimizer.step#") ||
                 after(e, "Optimizer.zero_grad#");
    bool backward = after(e, "autograd::engine::evaluate_function: ");
    bool gradient = is_name(e, "torch::autograd::AccumulateGrad");
    if (pause) {
        if (!use(t, e, false)) return false;
        passes_mark(&t->passes, (struct mark){e->ts, e->ts, 0, 0, MARK_BREAK});
    } else if (backward || gradient) {
        if (!use(t, e, true)) return false;
        passes_mark(&t->passes, (struct mark){e->ts, e->ts + e->dur, e->has_number ? e->number : -1,
                                              gradient ? shape_of(t) : (str)e->forward_thread,
                                              gradient ? MARK_GRADIENT : MARK_BACKWARD});
    } else if (e->has_correlation && e->kernel && e->has_stream) {
        if (after(e, "nccl")) return true;
        if (!use(t, e, true)) return false;
        passes_launch(&t->passes, e->correlation, -1, e->ts + e->dur);
    } else if (e->has_correlation && !e->has_stream) {
        if (!use(t, e, false)) return false;
        passes_launch(&t->passes, e->correlation, e->ts, -1);
    }
    return true;
}

/* B waits for the E of its thread, and becomes what X would have been. */
static bool pair(struct trace *t) {
    struct event *e = &t->event;
    if (e->phase == 'B') {
        if (t->open.n == MOST_OPEN)
            return complain_at(t, e->line, e->column,
                               "this trace has more than 4096 events that do not end");
        struct event *copy = malloc(offsetof(struct event, name) + e->length);
        if (!copy) arena_out_of_memory(sizeof *copy);
        copy_event(copy, e);
        vec_push(&t->open, copy);
        return true;
    }
    uint32_t i = t->open.n;
    while (i && t->open.at[i - 1]->thread != e->thread) i--;
    if (!i) return true; /* its beginning was before the trace's */
    struct event *begin = t->open.at[i - 1];
    begin->phase = 'X';
    begin->dur = e->ts - begin->ts;
    begin->has_length = e->has_time && begin->has_time;
    begin->bad_time |= e->bad_time;
    copy_event(e, begin);
    free(begin);
    memmove(&t->open.at[i - 1], &t->open.at[i], (t->open.n - i) * sizeof *t->open.at);
    t->open.n--;
    return take(t);
}

static bool one_event(struct trace *t) {
    if (!read_event(t))
        return t->j->why ? complain(t)
                         : complain_at(t, t->j->line, t->j->column, "this event is broken");
    t->events++;
    switch (t->event.phase) {
    case 'X':
    case 'i':
    case 'I': return take(t);
    case 'B':
    case 'E': return pair(t);
    default: return true;
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

/* `alone`: no object is around the array, which may then lack its last bracket. */
static bool read_events(struct trace *t, bool alone) {
    struct json *j = t->j;
    enum json_token token;
    while ((token = json_next(j)) != JSON_ARRAY_END) {
        if (token == JSON_OBJECT) {
            if (!one_event(t)) return false;
        } else if (token == JSON_BAD) {
            if (alone && json_ended(j)) return true;
            return complain(t);
        } else if (!json_skip(j, token))
            return complain(t);
    }
    return !alone || json_next(j) == JSON_END || complain(t);
}

static bool read_file(struct trace *t) {
    struct json *j = t->j;
    enum json_token token = json_next(j);
    if (token == JSON_ARRAY) return read_events(t, true);
    bool found = false;
    while ((token = json_next(j)) == JSON_KEY) {
        bool events = text_is(j, "traceEvents");
        token = json_next(j);
        if (events && token == JSON_ARRAY) {
            if (!read_events(t, false)) return false;
            found = true;
        } else if (!json_skip(j, token))
            return complain(t);
    }
    if (token == JSON_BAD || json_next(j) != JSON_END) return complain(t);
    return found || complain_at(t, 1, 1, "this JSON has no `traceEvents`, so it is no trace");
}

static const char *count(struct arena *a, uint64_t n, const char *one, const char *many) {
    return arena_printf(a, "%llu %s", (unsigned long long)n, n == 1 ? one : many);
}

bool trace_read(struct profile *f, struct json *j, const char *path, struct diags *d) {
    struct trace *t = calloc(1, sizeof *t);
    if (!t) arena_out_of_memory(sizeof *t);
    t->j = j;
    t->f = f;
    t->path = path;
    t->d = d;
    passes_init(&t->passes);
    bool ok = read_file(t);
    if (ok) {
        f->trace = path;
        passes_finish(&t->passes, f);
        f->holds = arena_printf(&f->arena, "%s, %s, %s without a shape",
                                count(&f->arena, t->events, "event", "events"),
                                count(&f->arena, f->passes, "backward pass", "backward passes"),
                                count(&f->arena, f->shapeless, "gradient", "gradients"));
    }
    for (uint32_t i = 0; i < t->open.n; i++) free(t->open.at[i]);
    vec_free(&t->open);
    passes_free(&t->passes);
    free(t);
    return ok;
}
