#include "arena.h"
#include <criterion/criterion.h>
#include <string.h>

Test(arena, memory_is_aligned_zero_and_apart) {
    struct arena a = {0};
    char *before = NULL;
    size_t last = 0;
    for (size_t size = 0; size < 3000; size += 7) {
        char *p = arena_alloc(&a, size);
        cr_assert_eq((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++) cr_assert_eq(p[i], 0);
        if (before && last) cr_assert_eq(before[last - 1], 'x', "a later object overwrote one");
        cr_assert_neq(p, before);
        memset(p, 'x', size);
        before = p;
        last = size;
    }
    arena_free(&a);
    cr_assert_null(a.blocks);
}

Test(arena, a_large_object_leaves_the_small_ones_together) {
    struct arena a = {0};
    char *first = arena_alloc(&a, 16);
    char *large = arena_alloc(&a, 10 << 20);
    char *second = arena_alloc(&a, 16);
    large[(10 << 20) - 1] = 1;
    cr_assert_eq(second, first + 16);
    arena_free(&a);
}

Test(arena, works_again_after_free) {
    struct arena a = {0};
    cr_assert_str_eq(arena_strndup(&a, "hello", 4), "hell");
    arena_free(&a);
    cr_assert_str_eq(arena_strndup(&a, "", 0), "");
    arena_free(&a);
}

Test(arena, printf_of_any_length) {
    struct arena a = {0};
    char text[1000];
    for (size_t len = 0; len < sizeof text; len += 37) {
        memset(text, 'a', len);
        text[len] = 0;
        cr_assert_str_eq(arena_printf(&a, "%s", text), text);
    }
    cr_assert_str_eq(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    arena_free(&a);
}

Test(vec, grows_and_keeps_its_elements) {
    VEC(int) v = {0};
    for (int i = 0; i < 10000; i++) vec_push(&v, i * 3);
    cr_assert_eq(v.n, 10000);
    for (int i = 0; i < 10000; i++) cr_assert_eq(v.at[i], i * 3);
    int *more = vec_extend(&v, 50000);
    more[49999] = 5;
    cr_assert_eq(v.n, 60000);
    cr_assert_eq(v.at[9999], 9999 * 3);
    vec_free(&v);
    cr_assert_eq(v.n + v.cap, 0);
    cr_assert_null(v.at);
}

static size_t asked_for;
static void out_of_memory(size_t bytes) {
    asked_for = bytes;
    _Exit(42);
}

Test(arena, calls_the_hook_when_memory_runs_out, .exit_code = 42) {
    arena_out_of_memory = out_of_memory;
    struct arena a = {0};
    arena_alloc(&a, SIZE_MAX - 4);
}

Test(vec, more_than_32_bits_of_elements_is_out_of_memory, .exit_code = 42) {
    arena_out_of_memory = out_of_memory;
    VEC(char) v = {0};
    vec_push(&v, 'a');
    vec_reserve(&v, (size_t)UINT32_MAX);
}
