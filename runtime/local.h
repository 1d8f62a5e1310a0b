/* What the two halves of transport `local` share: local_rendezvous.c, where the ranks of a job on
 * one host find each other, and local.c, where they add. */
#ifndef DDPRT_LOCAL_H
#define DDPRT_LOCAL_H

#include "comm.h"

#include <stdatomic.h>

/* Which collective a rank believes to be in. */
struct local_tag {
    uint64_t sequence, bytes;
    uint32_t step, bucket;
};

enum { POST_WRITING = 1, POST_DONE };

/* Written by its rank alone; own cache lines, because the others read it while it changes. */
struct local_rank {
    _Alignas(64) _Atomic uint64_t arrived; /* the last generation that it waits for or has passed */
    _Atomic uint32_t left;                 /* 1: it has closed its comm */
    _Atomic uint32_t posted;               /* 0, POST_WRITING, POST_DONE: `record` is complete */
    _Atomic uint32_t reserved;             /* pieces of its arena that have their pages */
    _Atomic uint64_t hint;                 /* low half of a sequence number << 32 | parameter */
    int32_t pid;
    struct local_tag tag;
    struct comm_record record;
    unsigned char mail[COMM_GATHER_MAX];
};

/* The control segment, one per job, zeroed at first. */
struct local_shared {
    /* generation << 16 | code << 8 | rank: how many times all ranks have met, and, once code is not
     * 0, why they never will again. One word, so that meeting and breaking cannot both happen. Its
     * low half is the futex. */
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) _Atomic uint32_t arrivals; /* at the coming meeting */
    _Atomic uint32_t sleepers;              /* in a futex wait on the word */
    struct local_rank rank[];
};

struct local {
    ddprt_comm comm; /* first: the public handle */
    struct local_shared *shared;
    size_t shared_bytes;
    uint64_t generation;         /* meetings so far; of the thread that takes part in them */
    int pid;                     /* of this process */
    uint32_t spins;              /* looks at the word before it sleeps */
    int pidfd[DDPRT_LOCAL_MAX];  /* -1: own process, or already gone */
    int turned_away;             /* ranks that rank 0 has refused */
    bool gone[DDPRT_LOCAL_MAX];  /* it died before its pidfd could be opened */
    int socket[DDPRT_LOCAL_MAX]; /* rank 0: to each other; others: [0], to rank 0; else -1 */
    unsigned char *memory;       /* all ranks' arenas, in rank order */
    uint64_t stride;             /* bytes of one arena */
    void *arena[DDPRT_LOCAL_MAX];
};

/* Finds the other ranks: fills shared, socket and pidfd. `error` is not NULL. */
int local_rendezvous(struct local *c, const char *name, int timeout_ms, ddprt_error *error);

/* Passes a file descriptor with a message over a SOCK_SEQPACKET socket; -1 on failure. `fd` may be
 * -1. */
int local_send(int socket, const void *message, size_t bytes, int fd);
/* The message's bytes, 0 at the end, -1 on failure or past the deadline; *fd is -1 if none came. */
long local_receive(int socket, void *message, size_t bytes, int *fd, int64_t deadline_ns);

#endif
