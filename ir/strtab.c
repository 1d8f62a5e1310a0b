/* Interned strings.
 *
 * One hash table with linear probing, at most two thirds full. A slot holds 32 bits of the string's
 * hash next to its handle, so that a probe that meets another string turns away without touching
 * that string's memory: with a million names each such touch would be a cache miss. The same bits
 * give the slot, so that the table can double without looking at strings. Handles are given in
 * order of first appearance, which is what makes everything that follows their order deterministic.
 *
 * The hash (strtab.h) takes eight bytes at a time, by multiplying and rotating. It is not seeded:
 * names come from the user's own model, and the worst that a crafted file reaches is a slow
 * compilation of that file. */
#include "strtab.h"
#include <string.h>

enum {
    FIRST_SLOTS = 1 << 10, /* a power of two, as every later size */
    FIRST_TEXT = 16 << 10, /* bytes of the first block of strings; each is twice the one before */
    LARGEST_TEXT = 16 << 20,
};

static uint64_t slot_of(uint32_t hash, str s) { return (uint64_t)hash << 32 | (s + 1); }

/* The slot that holds the string, or the free one where it belongs. */
static uint32_t find_slot(const struct strtab *t, const char *s, size_t len, uint32_t hash) {
    uint32_t mask = t->n_slots - 1, i = hash & mask;
    for (; t->slots[i]; i = (i + 1) & mask) {
        if (t->slots[i] >> 32 != hash) continue;
        str found = (uint32_t)t->slots[i] - 1;
        if (strtab_is(t, found, s, len)) break;
    }
    return i;
}

static void resize(struct strtab *t, uint32_t n_slots) {
    uint64_t *old = t->slots;
    uint32_t n_old = t->n_slots, mask = n_slots - 1;
    t->slots = arena_new(&t->arena, uint64_t, n_slots);
    t->n_slots = n_slots;
    for (uint32_t k = 0; k < n_old; k++) {
        if (!old[k]) continue;
        uint32_t i = (uint32_t)(old[k] >> 32) & mask;
        while (t->slots[i]) i = (i + 1) & mask;
        t->slots[i] = old[k];
    }
}

void strtab_reserve(struct strtab *t, uint32_t n) {
    uint32_t n_slots = t->n_slots;
    while (n_slots / 3 * 2 < n && n_slots < UINT32_C(1) << 31) n_slots *= 2;
    if (n_slots > t->n_slots) resize(t, n_slots);
    vec_reserve(&t->text, n);
    vec_reserve(&t->length, n);
}

void strtab_init(struct strtab *t) {
    *t = (struct strtab){.n_slots = FIRST_SLOTS};
    t->slots = arena_new(&t->arena, uint64_t, FIRST_SLOTS);
    strtab_add(t, "", 0);
}

void strtab_free(struct strtab *t) {
    arena_free(&t->arena);
    vec_free(&t->text);
    vec_free(&t->length);
    *t = (struct strtab){0};
}

/* A copy with a NUL behind it. Strings are packed, without the arena's alignment. */
static const char *copy_string(struct strtab *t, const char *s, size_t len) {
    if (len >= FIRST_TEXT / 4) return arena_strndup(&t->arena, s, len);
    if (len >= (size_t)(t->end - t->next)) {
        t->block = t->block == 0             ? FIRST_TEXT
                   : t->block < LARGEST_TEXT ? t->block * 2
                                             : LARGEST_TEXT;
        t->next = arena_alloc(&t->arena, t->block);
        t->end = t->next + t->block;
    }
    char *copy = t->next;
    if (len) memcpy(copy, s, len);
    t->next += len + 1; /* the NUL is there: the arena's memory is zero */
    return copy;
}

str strtab_add_slowly(struct strtab *t, const char *s, size_t len, uint32_t hash) {
    uint32_t i = find_slot(t, s, len, hash);
    if (t->slots[i]) return (uint32_t)t->slots[i] - 1;
    str added = t->text.n;
    t->slots[i] = slot_of(hash, added);
    vec_push(&t->text, copy_string(t, s, len));
    vec_push(&t->length, (uint32_t)len);
    if (t->text.n > t->n_slots / 3 * 2) resize(t, t->n_slots * 2);
    return added;
}

str strtab_add(struct strtab *t, const char *s, size_t len) {
    return strtab_add_hashed(t, s, len, strtab_hash(s, len));
}

str strtab_addz(struct strtab *t, const char *s) { return strtab_add(t, s, strlen(s)); }

str strtab_printf(struct strtab *t, const char *format, ...) {
    struct arena scratch = {0};
    va_list args;
    va_start(args, format);
    str added = strtab_addz(t, arena_vprintf(&scratch, format, args));
    va_end(args);
    arena_free(&scratch);
    return added;
}

bool strtab_find(const struct strtab *t, const char *s, size_t len, str *out) {
    uint32_t i = find_slot(t, s, len, strtab_hash(s, len));
    if (!t->slots[i]) return false;
    *out = (uint32_t)t->slots[i] - 1;
    return true;
}
