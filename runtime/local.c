/* Transport `local`: the ranks of one host, as processes or threads, add in shared memory.
 *
 * All arenas lie one after the other in one memfd that every rank maps. An all-reduce is two
 * meetings with work between: after the first, everybody's gradients are there; each rank then owns
 * a slice of the elements, adds that slice over all arenas and writes the sum to all of them (a
 * fused reduce-scatter and all-gather: no byte is copied to be added); after the second, all slices
 * are done. Each byte crosses the memory bus once in and once out per rank, and the order of the
 * additions is the order of the ranks, so all ranks read the same bits.
 *
 * A meeting: whoever comes last advances the generation in `word`; the others spin a little if
 * there are processors enough, then sleep on the word's low half, at most a tenth of a second at a
 * time, and between naps look whether somebody they wait for has died (pidfd) or left. Breaking is
 * a compare-and-swap on the same word, and a waiter asks first whether its generation was reached
 * and only then whether the word is broken: a meeting that took place took place for all, and one
 * that did not never will, whoever notices first and however late the others wake.
 *
 * Before adding, the ranks compare what they believe to add (step, sequence number, bucket, bytes).
 * With another order on one rank, sums would be garbage that looks like gradients. */
#define _GNU_SOURCE
#include "local.h"

#include "error.h"
#include "futex.h"
#include "reduce.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SPINS = 2000,                    /* about 20 to 80 µs */
    COLLECT_NS = 1 * 1000 * 1000,    /* between two looks at who has posted */
    SLICE_ALIGN = 64,                /* bytes: no cache line belongs to two ranks */
    RESERVE_BYTES = 1 << 20,         /* of an arena at a time: some 0.3 ms of the kernel's work */
    RESERVE_NS = 1000 * 1000 * 1000, /* in which a rank that reserves must get on by a piece */
};

/* ---- the word -------------------------------------------------------------------------------- */

static uint64_t generation_of(uint64_t word) { return word >> 16; }
static int code_of(uint64_t word) { return (int)(word >> 8 & 0xff); }
static int rank_of(uint64_t word) { return (int)(word & 0xff); }

static _Atomic uint32_t *futex_of(struct local_shared *s) {
    return (_Atomic uint32_t *)(void *)&s->word;
}

static void wake(struct local_shared *s) {
    if (atomic_load(&s->sleepers)) futex_wake_all(futex_of(s), true);
}

static void break_word(struct local *c, int code, int rank) {
    uint64_t word = atomic_load(&c->shared->word);
    while (!code_of(word)) {
        uint64_t broken = word | (uint64_t)code << 8 | (uint64_t)(rank & 0xff);
        if (atomic_compare_exchange_weak(&c->shared->word, &word, broken)) {
            wake(c->shared);
            return;
        }
    }
}

static bool is_dead(const struct local *c, int rank) {
    if (c->gone[rank]) return true;
    if (c->pidfd[rank] < 0) return false;
    struct pollfd p = {.fd = c->pidfd[rank], .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Breaks the word if somebody who has not arrived at `generation` never will. */
static void look_for_the_lost(struct local *c, uint64_t generation) {
    for (int r = 0; r < c->comm.size; r++) {
        struct local_rank *peer = &c->shared->rank[r];
        if (atomic_load_explicit(&peer->arrived, memory_order_acquire) >= generation) continue;
        if (atomic_load_explicit(&peer->left, memory_order_acquire))
            break_word(c, DDPRT_PEER_LEFT, r);
        else if (is_dead(c, r))
            break_word(c, DDPRT_PEER_DIED, r);
    }
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int local_missing(ddprt_comm *comm) {
    struct local *c = (struct local *)comm;
    uint64_t mine = atomic_load(&c->shared->rank[comm->rank].arrived);
    for (int r = 0; r < comm->size; r++)
        if (atomic_load(&c->shared->rank[r].arrived) < mine) return r;
    return -1;
}

/* Changes whenever some rank has reserved a piece of its arena. */
static uint64_t pieces_reserved(const struct local *c) {
    uint64_t sum = 0;
    for (int r = 0; r < c->comm.size; r++)
        sum += atomic_load_explicit(&c->shared->rank[r].reserved, memory_order_relaxed);
    return sum;
}

static int meet(struct local *c, int64_t deadline_ns, struct comm_record *failure) {
    struct local_shared *s = c->shared;
    uint64_t target = ++c->generation, reserved = pieces_reserved(c);
    atomic_store_explicit(&s->rank[c->comm.rank].arrived, target, memory_order_release);
    if (atomic_fetch_add(&s->arrivals, 1) + 1 == (uint32_t)c->comm.size) {
        atomic_store(&s->arrivals, 0);
        uint64_t word = atomic_load(&s->word);
        while (!code_of(word))
            if (atomic_compare_exchange_weak(&s->word, &word, target << 16)) {
                wake(s);
                return DDPRT_OK;
            }
    }
    for (uint32_t spin = 0;;) {
        uint64_t word = atomic_load(&s->word);
        if (generation_of(word) >= target) return DDPRT_OK;
        if (code_of(word)) {
            failure->code = code_of(word);
            failure->rank = rank_of(word);
            return failure->code;
        }
        if (spin++ < c->spins) {
            relax();
            continue;
        }
        int64_t left = deadline_ns - clock_ns();
        if (left <= 0 && pieces_reserved(c) != reserved) { /* busy, not stalled */
            reserved = pieces_reserved(c);
            deadline_ns = clock_ns() + RESERVE_NS;
            continue;
        }
        if (left <= 0) {
            int r = local_missing(&c->comm);
            break_word(c, r >= 0 ? DDPRT_PEER_STALLED : DDPRT_TIMEOUT, r >= 0 ? r : c->comm.rank);
            continue;
        }
        atomic_fetch_add(&s->sleepers, 1);
        futex_wait(futex_of(s), (uint32_t)word, left < FUTEX_SLICE_NS ? left : FUTEX_SLICE_NS,
                   true);
        atomic_fetch_sub(&s->sleepers, 1);
        look_for_the_lost(c, target);
    }
}

/* ---- the interface --------------------------------------------------------------------------- */

static int local_gather(ddprt_comm *comm, const void *mine, uint32_t bytes, void *all,
                        int64_t deadline_ns, struct comm_record *failure) {
    struct local *c = (struct local *)comm;
    if (c->pid != (int)getpid()) { /* the parent is this rank, and only once */
        failure->rank = comm->rank;
        return failure->code = DDPRT_FORKED;
    }
    memcpy(c->shared->rank[comm->rank].mail, mine, bytes);
    int code = meet(c, deadline_ns, failure);
    if (code) return code;
    for (int r = 0; r < comm->size; r++)
        memcpy((unsigned char *)all + (size_t)r * bytes, c->shared->rank[r].mail, bytes);
    return meet(c, deadline_ns, failure); /* nobody writes again before all have read */
}

/* The descriptor of the memory for all arenas; -1 with errno. */
static int arenas_of_rank_0(struct local *c, uint64_t total) {
    int fd = memfd_create("ddprt-arenas", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    /* Sealed, so that no rank can shrink it and crash the others. */
    if (ftruncate(fd, (off_t)total) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    for (int r = 1; r < c->comm.size; r++)
        if (local_send(c->socket[r], "A", 1, fd) != 0 && errno == ETOOMANYREFS)
            break_word(c, DDPRT_SYSTEM, 0); /* other failures are deaths, which are noticed */
    return fd;
}

static int arenas_from_rank_0(struct local *c, int64_t deadline_ns) {
    for (;;) {
        char letter;
        int fd;
        int64_t slice = clock_ns() + FUTEX_SLICE_NS;
        long n =
            local_receive(c->socket[0], &letter, 1, &fd, slice < deadline_ns ? slice : deadline_ns);
        if (n > 0 && fd >= 0) return fd;
        if (n > 0) break_word(c, DDPRT_SYSTEM, c->comm.rank); /* too many open files */
        if (n == 0 || is_dead(c, 0)) break_word(c, DDPRT_PEER_DIED, 0);
        if (clock_ns() >= deadline_ns) break_word(c, DDPRT_PEER_STALLED, 0);
        if (code_of(atomic_load(&c->shared->word))) return -1;
    }
}

/* Gives an arena its pages now: a full memory is an error here and a crash (SIGBUS) later, and
 * touching them places them near this rank's processor. Piece by piece, because a signal makes the
 * kernel give up the piece it is at, and to show the others that this rank gets on. */
static bool reserve(struct local *c, int fd, unsigned char *memory, off_t at, uint64_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint64_t done = 0; done < bytes; done += RESERVE_BYTES) {
        uint64_t piece = bytes - done < RESERVE_BYTES ? bytes - done : RESERVE_BYTES;
        int failed;
        do failed = posix_fallocate(fd, at + (off_t)done, (off_t)piece);
        while (failed == EINTR);
        if (failed) return false;
        for (uint64_t i = 0; i < piece; i += page)
            *(volatile unsigned char *)(memory + at + done + i) = 0;
        atomic_fetch_add_explicit(&c->shared->rank[c->comm.rank].reserved, 1, memory_order_relaxed);
    }
    return true;
}

static void close_sockets(struct local *c) {
    for (int r = 0; r < DDPRT_LOCAL_MAX; r++) {
        if (c->socket[r] >= 0) close(c->socket[r]);
        c->socket[r] = -1;
    }
}

static int local_map(ddprt_comm *comm, uint64_t bytes, void **memory, int64_t deadline_ns,
                     struct comm_record *failure) {
    struct local *c = (struct local *)comm;
    /* More than the machine has must not even be tried: the kernel would hand out pages until it
     * has to kill somebody. */
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
    if (bytes / page >= pages / (uint64_t)comm->size) {
        break_word(c, DDPRT_NO_MEMORY, comm->rank);
        return meet(c, deadline_ns, failure);
    }
    uint64_t total = bytes * (uint64_t)comm->size;
    off_t own = (off_t)(bytes * (uint64_t)comm->rank);
    int fd = comm->rank == 0 ? arenas_of_rank_0(c, total) : arenas_from_rank_0(c, deadline_ns);
    void *m = fd < 0 ? MAP_FAILED : mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int64_t begin = clock_ns();
    if (m == MAP_FAILED || !reserve(c, fd, m, own, bytes))
        break_word(c, DDPRT_NO_MEMORY, comm->rank);
    deadline_ns += clock_ns() - begin; /* it is for waiting, and this was work */
    if (fd >= 0) close(fd);
    close_sockets(c); /* all has been passed */
    if (m != MAP_FAILED) {
        c->memory = m;
        c->stride = bytes;
        *memory = c->memory + own;
    }
    return meet(c, deadline_ns, failure);
}

static bool same_tag(const struct local_tag *a, const struct local_tag *b) {
    return a->sequence == b->sequence && a->step == b->step && a->bucket == b->bucket &&
           a->bytes == b->bytes;
}

/* The rank whose tag differs from what most have (from rank 0's, if there is no most); -1 if all
 * agree. All ranks compute the same from the same tags. */
static int odd_one_out(const struct local *c) {
    const struct local_rank *rank = c->shared->rank;
    int best = 0, votes = 0, n = c->comm.size;
    for (int r = 0; r < n; r++) {
        int same = 0;
        for (int k = 0; k < n; k++) same += same_tag(&rank[r].tag, &rank[k].tag);
        if (same == n) return -1;
        if (same > votes) best = r, votes = same;
    }
    for (int r = 0; r < n; r++)
        if (!same_tag(&rank[r].tag, &rank[best].tag)) return r;
    return -1;
}

static int local_allreduce(ddprt_comm *comm, const struct comm_op *op,
                           struct comm_record *failure) {
    struct local *c = (struct local *)comm;
    struct local_tag tag = {op->sequence, op->bytes, op->step, op->bucket};
    c->shared->rank[comm->rank].tag = tag;
    int code = meet(c, INT64_MAX, failure);
    if (code == DDPRT_PEER_STALLED || code == DDPRT_PEER_DIED || code == DDPRT_PEER_LEFT) {
        uint64_t hint = atomic_load(&c->shared->rank[failure->rank].hint);
        if (hint && hint >> 32 == (op->sequence & UINT32_MAX))
            failure->parameter = (int32_t)(hint & UINT32_MAX);
    }
    if (code) return code;

    int odd = odd_one_out(c);
    if (odd >= 0) {
        const struct local_tag *t = &c->shared->rank[odd].tag;
        break_word(c, DDPRT_OTHER_STEP, odd);
        failure->code = DDPRT_OTHER_STEP;
        failure->rank = odd;
        failure->step = (int32_t)t->step;
        failure->bucket = (int32_t)t->bucket;
        failure->sequence = (int64_t)t->sequence;
        return failure->code;
    }

    size_t element = reduce_element_bytes(op->dtype), n = op->bytes / element;
    size_t align = SLICE_ALIGN / element, size = (size_t)comm->size;
    size_t per = ((n + size - 1) / size + align - 1) / align * align;
    size_t first = per * (size_t)comm->rank, last = first + per;
    if (last > n) last = n;
    for (int r = 0; r < comm->size; r++)
        c->arena[r] = c->memory + (uint64_t)r * c->stride + op->offset;
    size_t scaled = (op->scaled_bytes + element - 1) / element;
    if (first < last)
        reduce_range(op->dtype, c->arena, (uint32_t)comm->size, first, last, scaled, op->scale);
    return meet(c, INT64_MAX, failure);
}

static void local_abort(ddprt_comm *comm, int code, int rank_at_fault) {
    break_word((struct local *)comm, code, rank_at_fault);
}

static void local_hint(ddprt_comm *comm, uint64_t sequence, uint32_t parameter) {
    struct local *c = (struct local *)comm;
    atomic_store(&c->shared->rank[comm->rank].hint, sequence << 32 | parameter);
}

static void local_post(ddprt_comm *comm, const struct comm_record *mine) {
    struct local_rank *r = &((struct local *)comm)->shared->rank[comm->rank];
    uint32_t nothing = 0;
    if (!atomic_compare_exchange_strong(&r->posted, &nothing, POST_WRITING)) return;
    r->record = *mine;
    atomic_store_explicit(&r->posted, POST_DONE, memory_order_release);
}

static void local_collect(ddprt_comm *comm, struct comm_record *all, int64_t deadline_ns) {
    struct local *c = (struct local *)comm;
    uint64_t word = atomic_load(&c->shared->word);
    for (int r = 0; r < comm->size; r++) {
        struct local_rank *peer = &c->shared->rank[r];
        bool stalled = code_of(word) == DDPRT_PEER_STALLED && rank_of(word) == r;
        while (atomic_load_explicit(&peer->posted, memory_order_acquire) != POST_DONE && !stalled &&
               !atomic_load(&peer->left) && !is_dead(c, r) && clock_ns() < deadline_ns)
            nanosleep(&(struct timespec){.tv_nsec = COLLECT_NS}, NULL);
        all[r] = COMM_RECORD_NONE;
        if (atomic_load_explicit(&peer->posted, memory_order_acquire) == POST_DONE)
            all[r] = peer->record;
    }
}

static void local_close(ddprt_comm *comm) {
    struct local *c = (struct local *)comm;
    close_sockets(c);
    for (int r = 0; r < DDPRT_LOCAL_MAX; r++)
        if (c->pidfd[r] >= 0) close(c->pidfd[r]);
    if (c->memory) munmap(c->memory, c->stride * (uint64_t)comm->size);
    if (c->shared) {
        if (c->pid == (int)getpid()) { /* a forked child takes nobody along */
            atomic_store(&c->shared->rank[comm->rank].left, 1);
            wake(c->shared);
        }
        munmap(c->shared, c->shared_bytes);
    }
    free(c);
}

static const struct comm_ops local_ops = {
    .name = "local",
    .adds = reduce_adds,
    .gather = local_gather,
    .map = local_map,
    .allreduce = local_allreduce,
    .abort = local_abort,
    .missing = local_missing,
    .hint = local_hint,
    .post = local_post,
    .collect = local_collect,
    .close = local_close,
};

int ddprt_comm_local(const char *name, int rank, int size, int timeout_ms, ddprt_comm **comm,
                     ddprt_error *error) {
    ddprt_error unwanted;
    if (!error) error = &unwanted;
    if (!name || !comm || size < 1 || size > DDPRT_LOCAL_MAX || rank < 0 || rank >= size ||
        timeout_ms < 0)
        return error_set(error, DDPRT_INVALID, "rank %d of %d: there can be 1 to %d ranks", rank,
                         size, DDPRT_LOCAL_MAX);
    *comm = NULL;
    struct local *c = calloc(1, sizeof *c);
    if (!c) return error_set(error, DDPRT_NO_MEMORY, "out of memory");
    c->comm = (ddprt_comm){&local_ops, rank, size};
    c->pid = (int)getpid();
    for (int r = 0; r < DDPRT_LOCAL_MAX; r++) c->pidfd[r] = c->socket[r] = -1;
    /* Spinning pays only while everybody whom we wait for can run. */
    c->spins = sysconf(_SC_NPROCESSORS_ONLN) >= size ? SPINS : 0;
    int code = local_rendezvous(c, name, timeout_ms, error);
    if (code) {
        local_close(&c->comm);
        return code;
    }
    *comm = &c->comm;
    return DDPRT_OK;
}

void ddprt_comm_close(ddprt_comm *comm) {
    if (comm) comm->ops->close(comm);
}
