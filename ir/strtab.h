/* Interned strings: every name is stored once and known by a 32-bit handle, so that names compare
 * as integers. Handle 0 is the empty string. A string may hold any bytes, NUL included. */
#ifndef DDPC_STRTAB_H
#define DDPC_STRTAB_H

#include "arena.h"
#include <stdbool.h>
#include <string.h>

typedef uint32_t str;

struct strtab {
    struct arena arena;
    char *next, *end;       /* free part of the newest block of characters */
    size_t block;           /* its bytes */
    VEC(const char *) text; /* by handle; NUL-terminated */
    VEC(uint32_t) length;   /* by handle; bytes */
    uint64_t *slots;        /* open-addressing hash table: hash << 32 | handle + 1; 0 is free */
    uint32_t n_slots;
};

void strtab_init(struct strtab *t);
void strtab_free(struct strtab *t);
/* Makes room for n strings, if the caller can tell. */
void strtab_reserve(struct strtab *t, uint32_t n);
str strtab_add(struct strtab *t, const char *s, size_t len);
str strtab_addz(struct strtab *t, const char *s);
str strtab_printf(struct strtab *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool strtab_find(const struct strtab *t, const char *s, size_t len, str *out);

/* Valid until the table is freed. */
static inline const char *strtab_text(const struct strtab *t, str s) { return t->text.at[s]; }
static inline uint32_t strtab_len(const struct strtab *t, str s) { return t->length.at[s]; }

/* ---- in two steps ---------------------------------------------------------------------------- */

/* For who knows a string some time before its handle is needed. The table is larger than the caches,
 * and a string's slot has to come from memory: `strtab_prefetch` sends for it, `strtab_add_hashed`
 * uses it. Reading a model is little else, so the way to a string that is there is inlined. */

static inline uint64_t strtab_word_(const char *s) {
    uint64_t word;
    memcpy(&word, s, sizeof word);
    return word;
}

static inline uint32_t strtab_hash(const char *s, size_t len) {
    const uint64_t k = 0x9e3779b97f4a7c15;
    uint64_t h = len * k, word = 0;
    if (len >= 8) {
        for (size_t i = 0; i < len - 8; i += 8) h = ((h << 29 | h >> 35) ^ strtab_word_(s + i)) * k;
        word = strtab_word_(s + len - 8); /* it may overlap the one before */
    } else if (len >= 4) {
        uint32_t first, last; /* they overlap unless len is 8 */
        memcpy(&first, s, 4);
        memcpy(&last, s + len - 4, 4);
        word = (uint64_t)first << 32 | last;
    } else {
        for (size_t i = 0; i < len; i++) word = word << 8 | (unsigned char)s[i];
    }
    h = ((h << 29 | h >> 35) ^ word) * k;
    h ^= h >> 32;
    return (uint32_t)((h * k) >> 32);
}

static inline void strtab_prefetch(const struct strtab *t, uint32_t hash) {
    __builtin_prefetch(&t->slots[hash & (t->n_slots - 1)], 1);
}

/* Whether handle `is` has these bytes. */
static inline bool strtab_is(const struct strtab *t, str is, const char *s, size_t len) {
    const char *text = t->text.at[is];
    if (t->length.at[is] != len) return false;
    if (len < 8) return memcmp(text, s, len) == 0;
    for (size_t i = 0; i < len - 8; i += 8)
        if (strtab_word_(text + i) != strtab_word_(s + i)) return false;
    return strtab_word_(text + len - 8) == strtab_word_(s + len - 8);
}

str strtab_add_slowly(struct strtab *t, const char *s, size_t len, uint32_t hash);
static inline str strtab_add_hashed(struct strtab *t, const char *s, size_t len, uint32_t hash) {
    uint64_t slot = t->slots[hash & (t->n_slots - 1)];
    str found = (str)slot - 1;
    if (slot && slot >> 32 == hash && strtab_is(t, found, s, len)) return found;
    return strtab_add_slowly(t, s, len, hash);
}

#endif
