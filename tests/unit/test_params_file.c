/* The list of --params: both spellings of everything, and what is wrong. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "params_file.h"
#include "program_fixture.h"
#include <criterion/criterion.h>

struct read {
    struct ir_module m;
    struct diags d;
    struct params_list list;
    bool ok;
};

static struct read *read_text(const char *text) {
    struct read *r = calloc(1, sizeof *r);
    char path[32];
    fixture_write(path, text);
    ir_module_init(&r->m, NULL);
    diags_init(&r->d, NULL);
    r->ok = params_file_read(&r->list, &r->m, path, &r->d);
    unlink(path);
    return r;
}

static void release(struct read *r) {
    params_file_free(&r->list);
    diags_free(&r->d);
    ir_module_free(&r->m);
    free(r);
}

Test(params_file, reads_every_spelling) {
    struct read *r = read_text("# a comment, then an empty line\n\n"
                               "a.w float32 3x5 true\n"
                               "  b\tbfloat16 [50257, 768]\tFalse  tied.to another # why\r\n"
                               "c double [] 1\n"
                               "\"d \\\"x\\\"\" float scalar yes\n"
                               "e float16 7 0");
    cr_assert(r->ok);
    cr_assert_eq(r->list.all.n, 5);
    static const struct {
        char name[8], type[24];
        bool grad;
        uint32_t aliases, line;
    } want[] = {
        {"a.w", "float[3,5]", true, 0, 3}, {"b", "bfloat16[50257,768]", false, 2, 4},
        {"c", "double", true, 0, 5},       {"d \"x\"", "float", true, 0, 6},
        {"e", "float16[7]", false, 0, 7},
    };
    for (uint32_t i = 0; i < 5; i++) {
        const struct params_entry *e = &r->list.all.at[i];
        cr_expect_str_eq(ir_text(&r->m, e->name), want[i].name);
        cr_expect_str_eq(ir_type_text(&r->m, &r->d.arena, e->type), want[i].type);
        cr_expect_eq(e->requires_grad, want[i].grad);
        cr_expect_eq(e->n_aliases, want[i].aliases);
        cr_expect_eq(e->line, want[i].line);
    }
    cr_expect_str_eq(ir_text(&r->m, r->list.alias.at[1]), "another");
    release(r);
}

Test(params_file, says_what_is_wrong) {
    static const struct {
        char text[64];
        int code;
    } bad[] = {
        {"w", DIAG_LIST_SYNTAX},
        {"w flaot32 3 true", DIAG_LIST_SYNTAX},
        {"w float32", DIAG_LIST_SYNTAX},
        {"w float32 3x true", DIAG_LIST_SYNTAX},
        {"w float32 3xBx5 true", DIAG_LIST_SYNTAX},
        {"w float32 [3,5 true", DIAG_LIST_SYNTAX},
        {"w float32 3,5 true", DIAG_LIST_SYNTAX},
        {"w float32 -3 true", DIAG_LIST_SYNTAX},
        {"w float32 4294967296x4294967296 true", DIAG_LIST_SYNTAX},
        {"w float32 99999999999999999999 true", DIAG_LIST_SYNTAX},
        {"w float32 3", DIAG_LIST_SYNTAX},
        {"w float32 3 maybe", DIAG_LIST_SYNTAX},
        {"w float32 3 true\nw float32 3 true", DIAG_LIST_DUPLICATE},
        {"w float32 3 true\nv float32 3 true w", DIAG_LIST_DUPLICATE},
        {"w float32 3 true w", DIAG_LIST_DUPLICATE},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct read *r = read_text(bad[i].text);
        cr_expect_not(r->ok, "%s", bad[i].text);
        cr_assert_eq(r->d.all.n, 1, "%s: %u diagnostics", bad[i].text, r->d.all.n);
        cr_expect_eq((int)r->d.all.at[0]->code, bad[i].code, "%s", bad[i].text);
        release(r);
    }
}

Test(params_file, an_error_names_the_line_and_reading_goes_on) {
    struct read *r = read_text("a float32 3 true\nb float32 true\nc float32 3\n");
    cr_expect_not(r->ok);
    cr_assert_eq(r->d.all.n, 2);
    const char *file = r->d.all.at[1]->file;
    cr_expect_str_eq(file + strlen(file) - 2, ":3");
    release(r);
}

Test(params_file, a_missing_file) {
    struct ir_module m;
    struct diags d;
    struct params_list list = {0};
    ir_module_init(&m, NULL);
    diags_init(&d, NULL);
    cr_expect_not(params_file_read(&list, &m, "/nonexistent/params.txt", &d));
    cr_expect_eq(d.all.at[0]->code, DIAG_CANNOT_READ);
    params_file_free(&list);
    diags_free(&d);
    ir_module_free(&m);
}
