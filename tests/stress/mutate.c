/* Mutated binary models: each is read, and what reads is verified and printed, and the print read
 * and printed again, to the same text; messages are printed with their places. Nothing may crash.
 * Bytes are changed, inserted, removed, copied from elsewhere and cut off, mostly few of them, so
 * that much of a file still means something. The same seed makes the same mutants.
 *
 * usage: mutate SEED COUNT FILE... */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "ir.h"
#include "ops.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static uint32_t differing;

static uint32_t below(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state >> 33) % n) : 0;
}

static size_t change(unsigned char *at, size_t n) {
    static const unsigned char odd[] = {0, 1, 7, 0x7f, 0x80, 0xff, 0x0a, 0x12, 0x2a, 0x3a};
    size_t i = below((uint32_t)n), from = below((uint32_t)n), some = below(16);
    switch (below(6)) {
    case 0: at[i] ^= (unsigned char)(1u << below(8)); return n;
    case 1: at[i] = odd[below(sizeof odd)]; return n;
    case 2: at[i] = (unsigned char)below(256); return n;
    case 3: /* an insertion */
        memmove(at + i + 1, at + i, n - i);
        at[i] = (unsigned char)below(256);
        return n + 1;
    case 4: /* a removal */
        some = some < n - i ? some : n - i - 1;
        memmove(at + i, at + i + some, n - i - some);
        return n - some;
    default:
        if (below(8) == 0) return i + 1;
        some = some < n - i ? some : n - i;
        some = some < n - from ? some : n - from;
        memmove(at + i, at + from, some);
        return n;
    }
}

/* The text of a model; NULL if it has none, since a string of it holds a NUL. */
static char *text_of(const struct ir_module *m, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) exit(2);
    bool whole = ir_print(m, out);
    fclose(out);
    if (whole) return text;
    free(text);
    return NULL;
}

static void compare(const char *text, size_t size, uint32_t mutant) {
    struct source source;
    struct diags diags;
    struct ir_module m;
    source_from_memory(&source, "text", text, size);
    diags_init(&diags, &source);
    bool ok = ir_parse(&m, &source, &diags);
    size_t n = 0;
    char *again = ok ? text_of(&m, &n) : NULL;
    if (!again || n != size || memcmp(again, text, n) != 0) {
        diags_print(&diags, stderr, false, false);
        fprintf(stderr, "the text of mutant %u reads to another model:\n%s\nis printed as\n%s\n",
                mutant, text, again ? again : "");
        differing++;
    }
    free(again);
    ir_module_free(&m);
    diags_free(&diags);
    source_free(&source);
}

static bool reads(const char *name, const void *bytes, size_t size, FILE *out, uint32_t mutant) {
    struct source source;
    struct diags diags;
    struct ir_module m;
    source_from_memory(&source, name, bytes, size);
    diags_init(&diags, &source);
    bool ok = ir_parse(&m, &source, &diags);
    if (ok) {
        struct op_table ops;
        size_t n;
        char *text = text_of(&m, &n);
        if (text) compare(text, n, mutant);
        free(text);
        op_table_init(&ops);
        ir_verify(&m, &ops, &diags);
        op_table_free(&ops);
    }
    diags_print(&diags, out, false, false);
    ir_module_free(&m);
    diags_free(&diags);
    source_free(&source);
    return ok;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    FILE *out = fopen("/dev/null", "w");
    uint32_t count = (uint32_t)atoi(argv[2]), made = 0, read = 0;
    for (int k = 3; k < argc; k++) {
        const char *why;
        struct source file;
        if (!out || !source_open(&file, argv[k], &why)) return 2;
        unsigned char *copy = malloc(file.size + 64);
        if (!copy) return 2;
        state = (uint64_t)atoi(argv[1]);
        for (uint32_t i = 0; i < count; i++, made++) {
            memcpy(copy, file.bytes, file.size);
            size_t n = file.size;
            for (uint32_t changes = 1 + below(below(4) ? 3 : 12); changes-- > 0;)
                n = change(copy, n);
            read += reads(argv[k], copy, n, out, made);
        }
        free(copy);
        source_free(&file);
    }
    fclose(out);
    printf("%u mutants, of which %u are models\n", made, read);
    return differing != 0;
}
