/* Interned strings: every name is stored once and known by a 32-bit handle, so that names compare
 * as integers. Handle 0 is the empty string. A string may hold any bytes, NUL included. */
#ifndef DDPC_STRTAB_H
#define DDPC_STRTAB_H

#include "arena.h"
#include <stdbool.h>

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

/* Interning in two steps, for who knows a string some time before its handle is needed. The table
 * is larger than the caches, and a new string's slot has to come from memory: `strtab_prefetch`
 * sends for it, `strtab_add_hashed` uses it. */
uint32_t strtab_hash(const char *s, size_t len);
void strtab_prefetch(const struct strtab *t, uint32_t hash);
str strtab_add_hashed(struct strtab *t, const char *s, size_t len, uint32_t hash);

bool strtab_find(const struct strtab *t, const char *s, size_t len, str *out);

/* Valid until the table is freed. */
static inline const char *strtab_text(const struct strtab *t, str s) { return t->text.at[s]; }
static inline uint32_t strtab_len(const struct strtab *t, str s) { return t->length.at[s]; }

#endif
