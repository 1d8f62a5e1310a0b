/* Waiting for a word of memory to change. A wait is short (FUTEX_SLICE_NS), so that the waiter can
 * look at what no wake tells: a deadline, a dead process. Linux only. */
#ifndef DDPRT_FUTEX_H
#define DDPRT_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FUTEX_SLICE_NS = 100 * 1000 * 1000 };

/* Sleeps while *word == seen, at most `ns` nanoseconds; may return early. `shared`: the word lies
 * in memory that processes share. */
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t ns, bool shared);
void futex_wake_all(_Atomic uint32_t *word, bool shared);

/* CLOCK_MONOTONIC, in nanoseconds. */
int64_t clock_ns(void);
/* The moment `ms` milliseconds from now. */
int64_t deadline_in_ms(int64_t ms);

#endif
