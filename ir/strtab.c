/* Interned strings.
 *
 * One hash table with linear probing, at most half full. A slot holds the upper half of the
 * string's hash next to its handle, so that a probe that meets another string turns away without
 * touching that string's memory: with a million names each such touch would be a cache miss.
 * Handles are given in order of first appearance, which is what makes everything that follows their
 * order deterministic.
 *
 * The hash reads eight bytes at a time, mixing by a 64 x 64 -> 128 bit multiplication folded onto
 * itself (the construction of wyhash). It is not seeded: names come from the user's own model, and
 * the worst that a crafted file reaches is a slow compilation of that file. */
#include "strtab.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 10 }; /* a power of two, as every later size */

static uint64_t fold(uint64_t a, uint64_t b) {
    uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
    uint64_t low = a * b, mid = a1 * b0 + (a0 * b0 >> 32);
    uint64_t high = a1 * b1 + (mid >> 32) + ((a0 * b1 + (mid & UINT32_MAX)) >> 32);
    return low ^ high;
}

static uint64_t hash_bytes(const char *s, size_t len) {
    const uint64_t k = 0x9e3779b97f4a7c15, k2 = 0xd6e8feb86659fd93;
    uint64_t h = len * k, word;
    for (; len > 8; s += 8, len -= 8) {
        memcpy(&word, s, 8);
        h = fold(h ^ word, k);
    }
    word = 0;
    for (size_t i = 0; i < len; i++) word = word << 8 | (unsigned char)s[i];
    return fold(h ^ word, k2);
}

/* The slot that holds the string, or the free one where it belongs. */
static uint32_t find_slot(const struct strtab *t, const char *s, size_t len, uint64_t h) {
    uint32_t mask = t->n_slots - 1, i = (uint32_t)h & mask;
    for (; t->slots[i]; i = (i + 1) & mask) {
        if (t->slots[i] >> 32 != h >> 32) continue;
        str found = (uint32_t)t->slots[i] - 1;
        if (t->length.at[found] == len && memcmp(t->text.at[found], s, len) == 0) break;
    }
    return i;
}

static uint64_t *new_slots(uint32_t n) {
    uint64_t *slots = calloc(n, sizeof *slots);
    if (!slots) arena_out_of_memory(n * sizeof *slots);
    return slots;
}

/* Doubles the table. Strings are hashed again, since a slot keeps only half of the hash. */
static void grow(struct strtab *t) {
    free(t->slots);
    t->n_slots *= 2;
    t->slots = new_slots(t->n_slots);
    for (str s = 0; s < t->text.n; s++) {
        uint64_t h = hash_bytes(t->text.at[s], t->length.at[s]);
        uint32_t mask = t->n_slots - 1, i = (uint32_t)h & mask;
        while (t->slots[i]) i = (i + 1) & mask;
        t->slots[i] = h >> 32 << 32 | (s + 1);
    }
}

void strtab_init(struct strtab *t) {
    *t = (struct strtab){.n_slots = FIRST_SLOTS, .slots = new_slots(FIRST_SLOTS)};
    strtab_add(t, "", 0);
}

void strtab_free(struct strtab *t) {
    arena_free(&t->arena);
    vec_free(&t->text);
    vec_free(&t->length);
    free(t->slots);
    *t = (struct strtab){0};
}

str strtab_add(struct strtab *t, const char *s, size_t len) {
    uint64_t h = hash_bytes(s, len);
    uint32_t i = find_slot(t, s, len, h);
    if (t->slots[i]) return (uint32_t)t->slots[i] - 1;
    str added = t->text.n;
    t->slots[i] = h >> 32 << 32 | (added + 1);
    vec_push(&t->text, arena_strndup(&t->arena, s, len));
    vec_push(&t->length, (uint32_t)len);
    if (t->text.n > t->n_slots / 2) grow(t);
    return added;
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
    uint32_t i = find_slot(t, s, len, hash_bytes(s, len));
    if (!t->slots[i]) return false;
    *out = (uint32_t)t->slots[i] - 1;
    return true;
}
