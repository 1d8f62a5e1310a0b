/* Arenas and growing arrays.
 *
 * An arena is a list of blocks. The newest one is handed out from front to back, 16 bytes at a
 * time; when it is full, a block of twice the size follows (up to 16 MiB), so that small users stay
 * small and large ones rarely come here. A request that would waste much of a block gets a block of
 * its own, which is linked behind the newest one so that the latter's free part stays in use.
 * Blocks come from calloc and are never reused, which is why memory from an arena is zero without
 * being cleared.
 *
 * A page that is touched first costs the kernel more than what a pass then does with it. So large
 * memory begins at a huge page and asks for such, and arrays whose size can be guessed are best
 * reserved: what is never touched costs nothing, and an array that moves as it grows leaves its huge
 * pages.
 *
 * Out of memory has one answer, the hook: a compiler that has no memory left can do nothing useful,
 * and checking every allocation would be code that never runs. The library itself does not decide
 * how to die; it calls the hook and, should that return, aborts rather than go on with a null
 * pointer. */
#define _GNU_SOURCE /* madvise */
#include "arena.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 16, FIRST_BLOCK = 4 << 10, LARGEST_BLOCK = 16 << 20, HUGE_FROM = 1 << 20 };
enum { HUGE_PAGE = 2 << 20 };

struct arena_block {
    struct arena_block *older;
    char *at;    /* its memory, behind this header */
    size_t size; /* in bytes */
};

static void die(size_t bytes) {
    (void)bytes;
    abort();
}

void (*arena_out_of_memory)(size_t bytes) = die;

static void *no_memory(size_t bytes) {
    arena_out_of_memory(bytes);
    abort();
}

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* The memory is large, and page-aligned or malloc's. */
static void advise_huge(void *at, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at / page * page;
    madvise((void *)from, (uintptr_t)at + bytes - from, MADV_HUGEPAGE); /* advice: may fail */
}

static struct arena_block *new_block(size_t size) {
    size_t align = size < HUGE_FROM ? ALIGN : HUGE_PAGE;
    if (size > SIZE_MAX / 2) return no_memory(size);
    struct arena_block *b = calloc(1, sizeof *b + align + round_up(size, align));
    if (!b) return no_memory(size);
    b->at = (char *)round_up((uintptr_t)(b + 1), align);
    b->size = size;
    if (align == HUGE_PAGE) advise_huge(b->at, round_up(size, align));
    return b;
}

void *arena_alloc(struct arena *a, size_t bytes) {
    if (bytes > SIZE_MAX - LARGEST_BLOCK) return no_memory(bytes);
    size_t take = round_up(bytes, ALIGN);
    if (take == 0) take = ALIGN; /* distinct objects have distinct addresses */
    if (take > (size_t)(a->end - a->next)) {
        size_t size = FIRST_BLOCK;
        if (a->blocks) size = a->blocks->size < LARGEST_BLOCK ? a->blocks->size * 2 : LARGEST_BLOCK;
        if (take > size / 4) {
            struct arena_block *own = new_block(take);
            if (a->blocks) {
                own->older = a->blocks->older;
                a->blocks->older = own;
                return own->at;
            }
            a->blocks = own;
            a->next = a->end = own->at + take;
            return own->at;
        }
        struct arena_block *b = new_block(size);
        b->older = a->blocks;
        a->blocks = b;
        a->next = b->at;
        a->end = a->next + size;
    }
    void *at = a->next;
    a->next += take;
    return at;
}

char *arena_strndup(struct arena *a, const char *s, size_t len) {
    if (len == SIZE_MAX) return no_memory(len);
    char *copy = arena_alloc(a, len + 1);
    if (len) memcpy(copy, s, len);
    return copy;
}

char *arena_vprintf(struct arena *a, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    char first_try[256];
    int len = vsnprintf(first_try, sizeof first_try, format, args);
    char *text = arena_alloc(a, len < 0 ? 1 : (size_t)len + 1);
    if (len >= (int)sizeof first_try)
        vsnprintf(text, (size_t)len + 1, format, again);
    else if (len > 0)
        memcpy(text, first_try, (size_t)len);
    va_end(again);
    return text;
}

char *arena_printf(struct arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(a, format, args);
    va_end(args);
    return text;
}

void arena_free(struct arena *a) {
    for (struct arena_block *b = a->blocks, *older; b; b = older) {
        older = b->older;
        free(b);
    }
    *a = (struct arena){0};
}

void *vec_grow_(void *at, uint32_t n, size_t more, uint32_t *cap, size_t size) {
    if (more <= *cap - n) return at;
    if (more > UINT32_MAX - (size_t)n) return no_memory(more);
    size_t want = n + more, twice = (size_t)*cap * 2;
    if (twice > UINT32_MAX) twice = UINT32_MAX;
    if (want < twice) want = twice;
    if (want < 8) want = 8;
    if (want > (SIZE_MAX - HUGE_PAGE) / size) return no_memory(SIZE_MAX);
    size_t bytes = want * size < HUGE_FROM ? want * size : round_up(want * size, HUGE_PAGE);
    bool large = bytes >= HUGE_PAGE;
    void *grown = large && !at ? aligned_alloc(HUGE_PAGE, bytes) : realloc(at, bytes);
    if (!grown) return no_memory(bytes);
    if (large) advise_huge(grown, bytes);
    *cap = (uint32_t)want;
    return grown;
}

void vec_release_(void *at) { free(at); }
