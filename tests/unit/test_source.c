#define _GNU_SOURCE /* mkstemp */
#include "source.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of `size` bytes, 'a' to 'z' over and over. */
static void write_file(char *path, size_t size) {
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *out = fdopen(fd, "w");
    for (size_t i = 0; i < size; i++) putc((int)('a' + i % 26), out);
    fclose(out);
}

/* Small files are read, large ones mapped; the second ends exactly with a page. */
Test(source, whole_files_with_a_nul_behind) {
    const size_t sizes[] = {0, 1, 100000, 1 << 20, (2 << 20) + 4096, (1 << 20) + 17};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char path[] = "/tmp/ddpc-source-XXXXXX";
        write_file(path, sizes[k]);
        struct source s;
        const char *why;
        cr_assert(source_open(&s, path, &why), "%s", why);
        cr_assert_eq(s.size, sizes[k]);
        for (size_t i = 0; i < s.size; i++) cr_assert_eq(s.bytes[i], (char)('a' + i % 26));
        cr_assert_eq(s.bytes[s.size], 0);
        cr_assert_str_eq(s.name, path);
        source_free(&s);
        unlink(path);
    }
}

Test(source, says_why_it_cannot_read) {
    struct source s;
    const char *why;
    cr_assert_not(source_open(&s, "/tmp", &why));
    cr_assert_str_eq(why, "is a directory");
    cr_assert_not(source_open(&s, "/nowhere/at/all", &why));
    cr_assert_str_eq(why, "does not exist");
    cr_assert_null(s.bytes);
}

Test(source, standard_input_from_a_pipe) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], "g () => () {}", 13), 13);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    struct source s;
    const char *why;
    cr_assert(source_open(&s, "-", &why));
    cr_assert_str_eq(s.name, "<stdin>");
    cr_assert_str_eq(s.bytes, "g () => () {}");
    source_free(&s);
}

static void check_position(struct source *s, ir_loc at, uint32_t line, uint32_t column) {
    uint32_t l, c;
    source_position(s, at, &l, &c);
    cr_assert(l == line && c == column, "byte %u: %u:%u instead of %u:%u", at, l, c, line, column);
}

Test(source, lines_and_columns) {
    struct source s;
    const char *text = "ab\r\n\n\tcd";
    source_from_memory(&s, "m", text, strlen(text));
    check_position(&s, 0, 1, 1);
    check_position(&s, 3, 1, 4);
    check_position(&s, 4, 2, 1);
    check_position(&s, 5, 3, 1);
    check_position(&s, 7, 3, 3);
    check_position(&s, 8, 3, 4); /* the end */
    const char *line;
    cr_assert_eq(source_line(&s, 1, &line), 2, "the carriage return is part of the line's end");
    cr_assert_eq(strncmp(line, "ab", 2), 0);
    cr_assert_eq(source_line(&s, 2, &line), 0);
    cr_assert_eq(source_line(&s, 3, &line), 3);
    cr_assert_eq(source_line(&s, 4, &line), 0);
    cr_assert_eq(source_line(&s, 0, &line), 0);
    source_free(&s);
}

Test(source, agrees_with_counting_newlines) {
    char text[2000];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        seed = seed * 1103515245 + 12345;
        text[i] = seed >> 16 & 7 ? 'x' : '\n';
    }
    struct source s;
    source_from_memory(&s, "m", text, sizeof text);
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        check_position(&s, (ir_loc)i, line, column);
        column++;
        if (text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    source_free(&s);
}

Test(source, no_bytes_at_all) {
    struct source s;
    source_from_memory(&s, "m", "", 0);
    check_position(&s, 0, 1, 1);
    const char *line;
    cr_assert_eq(source_line(&s, 1, &line), 0);
    source_free(&s);
}
