/* Arenas and growing arrays: the two ways the compiler takes memory.
 *
 * An arena hands out memory that lives as long as the arena; nothing is freed one by one. A VEC is
 * a typed array that grows by doubling; whoever declares it calls vec_free.
 *
 * Neither ever returns NULL. When memory runs out they call `arena_out_of_memory`, which must not
 * return; the default aborts, the tool installs one that says so and exits. */
#ifndef DDPC_ARENA_H
#define DDPC_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Called with the number of bytes that could not be had. Must not return. */
extern void (*arena_out_of_memory)(size_t bytes);

struct arena {
    struct arena_block *blocks; /* newest first */
    char *next, *end;           /* free part of the newest block */
};

void *arena_alloc(struct arena *a, size_t bytes);                /* 16-byte aligned, zeroed */
char *arena_strndup(struct arena *a, const char *s, size_t len); /* adds a NUL */
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void arena_free(struct arena *a); /* and makes it empty again */

#define arena_new(a, type, count) ((type *)arena_alloc((a), sizeof(type) * (size_t)(count)))

/* VEC(int) v = {0}; vec_push(&v, 7); v.at[0]; v.n; vec_free(&v); */
#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t n, cap;                                                                           \
    }
#define vec_reserve(v, more)                                                                       \
    ((size_t)(more) <= (v)->cap - (v)->n                                                           \
         ? (void)0                                                                                 \
         : (void)((v)->at = vec_grow_((v)->at, (v)->n, (more), &(v)->cap, sizeof *(v)->at)))
#define vec_push(v, x)   (vec_reserve((v), 1), (v)->at[(v)->n++] = (x))
#define vec_extend(v, k) (vec_reserve((v), (k)), (v)->n += (k), &(v)->at[(v)->n - (k)])
#define vec_free(v)      (vec_release_((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

void *vec_grow_(void *at, uint32_t n, size_t more, uint32_t *cap, size_t size);
void vec_release_(void *at);

#endif
