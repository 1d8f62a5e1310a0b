/* Profiles: JSON token by token, and traces that profilers have written (tests/data/traces). */
#define _GNU_SOURCE /* mkstemp */
#include "json_read.h"
#include "profile.h"
#include "program_fixture.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static const char *written(const char *text, size_t size, bool packed) {
    static char path[64];
    strcpy(path, "/tmp/ddpc-profile-XXXXXX");
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    gzFile to = gzdopen(fd, packed ? "wb" : "wT"); /* T: as it is */
    cr_assert_eq(gzwrite(to, text, (unsigned)size), (int)size);
    gzclose(to);
    return path;
}

/* The tokens of a text, a letter each, with texts in brackets; "!" and why where it is bad. */
static const char *tokens_of(const char *text, size_t size, bool packed) {
    static char out[4096];
    static const char letter[] = "$!{}[]k\"1w";
    struct json *j = json_open(written(text, size, packed));
    enum json_token t;
    size_t n = 0;
    do {
        t = json_next(j);
        out[n++] = letter[t];
        if (t >= JSON_KEY) n += (size_t)sprintf(out + n, "(%.*s)", (int)j->length, j->text);
        if (t == JSON_BAD)
            n += (size_t)sprintf(out + n, "%d:%d %s", (int)j->line, (int)j->column, j->why);
    } while (t != JSON_END && t != JSON_BAD && n < sizeof out - 512);
    out[n] = 0;
    json_close(j);
    return out;
}

Test(json, tokens) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{}", "{}$"},
        {" [1, -2.5e3 ,true,null, NaN,-Infinity]\n",
         "[1(1)1(-2.5e3)w(true)w(null)w(NaN)w(-Infinity)]$"},
        {"{\"a\":[{}],\"b\" : \"c\"}", "{k(a)[{}]k(b)\"(c)}$"},
        {"[\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/\\q\"]", "[\"(é😀\n\"\\/q)]$"},
        {"[\"\\ud83dx\\ude00\"]", "[\"(\xef\xbf\xbdx\xef\xbf\xbd)]$"},
        {"", "!1:1 ends before its last bracket"},
        {"[", "[!1:2 ends before its last bracket"},
        {"[1 2]", "[1(1)!1:4 lacks a comma or a bracket"},
        {"[1,]", "[1(1)!1:4 has a bracket that closes nothing"},
        {"{\"a\"}", "{!1:5 has a key without a colon after it"},
        {"{1:2}", "{!1:2 has something that is no key in an object"},
        {"{\"a\":1,}", "{k(a)1(1)!1:8 has a bracket that closes nothing"},
        {"[}", "[!1:2 has a bracket that closes nothing"},
        {"[1]\n\n x", "[1(1)]!3:2 goes on after its value"},
        {"[\"\\u12", "[!1:2 ends inside a string"},
        {"[\"\\u12x\"]", "[!1:2 has an escape of a string that is cut off"},
        {"[\"a", "[!1:2 ends inside a string"},
        {"[truE]", "[!1:2 has a word that is none of JSON's"},
        {"[:]", "[!1:2 has a character where a value should begin"},
        {"]", "!1:1 has a bracket that closes nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int packed = 0; packed < 2; packed++)
            cr_expect_str_eq(tokens_of(cases[i].text, strlen(cases[i].text), packed), cases[i].want,
                             "%s: %s", cases[i].text,
                             tokens_of(cases[i].text, strlen(cases[i].text), packed));
}

/* Longer than every buffer: cut, not lost; and the place behind it is right. */
Test(json, long_string) {
    size_t n = 300000;
    char *text = malloc(n + 16);
    memset(text, 'x', n + 16);
    memcpy(text, "[\n\"", 3);
    memcpy(text + n, "\", 7x]", 6);
    struct json *j = json_open(written(text, n + 6, false));
    cr_assert_eq(json_next(j), JSON_ARRAY);
    cr_assert_eq(json_next(j), JSON_STRING);
    cr_assert(j->cut && j->length == JSON_MAX_TEXT);
    cr_assert_eq(json_next(j), JSON_NUMBER);
    double number;
    cr_assert(!json_number(j, &number));
    cr_assert_eq(j->line, 2);
    cr_assert_eq(j->column, n + 2);
    json_close(j);
    free(text);
}

Test(json, skip) {
    static const char text[] = "[[1,[2,{\"a\":\"]\"}]],{\"b\":[]},3]";
    struct json *j = json_open(written(text, sizeof text - 1, true));
    json_next(j);
    cr_assert(json_skip(j, json_next(j)));
    cr_assert(json_skip(j, json_next(j)));
    cr_assert_eq(json_next(j), JSON_NUMBER);
    cr_assert_eq(json_next(j), JSON_ARRAY_END);
    cr_assert_eq(json_next(j), JSON_END);
    json_close(j);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static struct diags diags;

static struct profile *trace(const char *name) {
    char path[512];
    snprintf(path, sizeof path, TESTS_FOLDER "/data/traces/%s", name);
    diags_init(&diags, NULL);
    struct profile *f = profile_read(path, &diags);
    cr_assert(f, "%s", diags.all.n ? diags.all.at[0]->text : "");
    return f;
}

/* The gradients of a profile in the order of time: "2 2x8 …". */
static const char *shapes_of(const struct profile *f) {
    static char out[512];
    const struct profile_gradients *g = &f->gradients.at[0];
    bool taken[64] = {0};
    size_t n = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        uint32_t first = UINT32_MAX;
        for (uint32_t i = 0; i < g->n; i++)
            if (!taken[i] && (first == UINT32_MAX || g->us[i] < g->us[first])) first = i;
        taken[first] = true;
        cr_assert(g->us[first] > 0 && g->us[first] < 1e6);
        n +=
            (size_t)sprintf(out + n, "%s%s", k ? " " : "", strtab_text(&f->names, g->shape[first]));
    }
    return out;
}

/* nn.Sequential(Linear(6, 8), Tanh(), Linear(8, 8), Linear(8, 2)), three steps. */
Test(trace, torch_with_shapes) {
    struct profile *f = trace("torch-2.15-shapes.json.gz");
    cr_assert_eq(f->passes, 3);
    cr_assert_eq(f->shapeless, 0);
    cr_assert_eq(f->gradients.n, 1);
    cr_assert_eq(f->gradients.at[0].passes, 3);
    cr_expect_str_eq(shapes_of(f), "2 2x8 8 8x8 8 8x6");
    profile_free(f);
}

static void annotated(const char *name) {
    static const char *const order[] = {"3.bias",   "3.weight", "2.bias",
                                        "2.weight", "0.bias",   "0.weight"};
    struct profile *f = trace(name);
    cr_assert_eq(f->passes, 3);
    cr_assert_eq(f->gradients.n, 0);
    cr_assert_eq(profile_size(f), 6);
    double last = 0, us;
    for (size_t i = 0; i < 6; i++) {
        cr_assert(profile_find(f, PROFILE_READY, order[i], strlen(order[i]), &us), "%s", order[i]);
        cr_expect(us > last && us < 1e6, "%s at %g after %g", order[i], us, last);
        last = us;
    }
    profile_free(f);
}
Test(trace, torch_annotated) { annotated("torch-2.15-ready.json.gz"); }
Test(trace, torch_without_numbers_annotated) { annotated("torch-1.13-ready.json.gz"); }

Test(trace, onnxruntime) {
    struct profile *f = trace("onnxruntime-1.32.json.gz");
    double us;
    cr_assert_eq(profile_size(f), 5);
    cr_assert(profile_find(f, PROFILE_FORWARD, "proj1", 5, &us) && us == 14);
    cr_assert(profile_find(f, PROFILE_FORWARD, "MatMul_3", 8, &us) && us == 9);
    profile_free(f);
}

/* A device behind its host: moments are when kernels end that were launched before. Two passes, of
 * which the first does not count; NCCL's kernel and the picture of an annotation neither. */
#define EVENT(name, ts, dur, more)                                                                 \
    "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts ",\"dur\":" #dur more    \
    "},\n"
#define NUMBER(n)  ",\"args\":{\"Sequence number\":" #n ",\"Fwd thread id\":1}"
#define CALL(c)    ",\"cat\":\"cuda_runtime\",\"args\":{\"correlation\":" #c "}"
#define KERNEL(c)  ",\"cat\":\"kernel\",\"args\":{\"stream\":7,\"correlation\":" #c "}"
#define SHAPE(...) ",\"args\":{\"Input Dims\":[[" #__VA_ARGS__ "]]}"
static const char device[] = "{\"traceEvents\":[\n" EVENT(
    "autograd::engine::evaluate_function: MeanBackward0", 0, 5, NUMBER(3))
    EVENT("torch::autograd::AccumulateGrad", 900, 1, SHAPE(4))
        EVENT("gemm", 1500, 500, KERNEL(11))    /* before its launch in the file */
    EVENT("cudaLaunchKernel", 995, 1, CALL(11)) /* the forward's last: ends at 2000 */
    EVENT("autograd::engine::evaluate_function: MeanBackward0", 1000, 5, NUMBER(9))
        EVENT("cudaLaunchKernel", 1002, 1, CALL(12)) EVENT("gemm", 2000, 100, KERNEL(12))
            EVENT("cudaLaunchKernel", 1003, 1, CALL(13))
                EVENT("ncclDevKernel_AllReduce", 2000, 9000, KERNEL(13))
                    EVENT("torch::autograd::AccumulateGrad", 1010, 1, SHAPE(4))
                        EVENT("ready w", 1010, 1, "")
                            EVENT("ready w", 2100, 1, ",\"cat\":\"gpu_user_annotation\"")
                                EVENT("last", 1, 1, "") "]}";

Test(trace, device_behind_its_host) {
    char text[sizeof device];
    strcpy(text, device);
    memcpy(strstr(text, ",\n]}"), " \n]}", 4);
    diags_init(&diags, NULL);
    struct profile *f = profile_read(written(text, strlen(text), false), &diags);
    cr_assert(f, "%s", diags.all.n ? diags.all.at[0]->text : "");
    double us;
    cr_assert_eq(f->passes, 2);
    cr_assert_float_eq(f->gradients.at[0].us[0], 100, 1e-9);
    cr_assert(profile_find(f, PROFILE_READY, "w", 1, &us));
    cr_assert_float_eq(us, 100, 1e-9);
    profile_free(f);
}
