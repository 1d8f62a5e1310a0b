/* How the ranks of a job on one host find each other.
 *
 * Rank 0 listens on a socket that is named after the job, in a directory that only this user can
 * enter. The others connect, say who they are, and wait. When all have come, rank 0 creates the
 * control segment (anonymous memory: a memfd) and passes it to each over its socket; from then on
 * the ranks talk through memory, and the sockets serve only to pass the arenas once.
 *
 * Jobs die in the middle. Rank 0 holds a lock (flock) on NAME.lock while it listens, and the kernel
 * drops locks of dead processes; who holds the lock may unlink whatever socket a dead job has left
 * under the name. A rank that connects to a socket nobody listens to is refused by the kernel and
 * tries again until its deadline.
 *
 * Who is at the other end is asked of the kernel (SO_PEERCRED): another user's process is turned
 * away, and the process id it gives is the one whose death all ranks watch, through a pidfd, which
 * unlike a number never comes to mean another process. */
#define _GNU_SOURCE
#include "error.h"
#include "futex.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    HELLO_MAGIC = 0x64647072,
    HELLO_VERSION = 1,
    RETRY_NS = 2 * 1000 * 1000, /* between two attempts to connect */
    VERDICT_NS =
        300 * 1000 * 1000, /* how long past its own deadline a rank listens to rank 0's verdict */
    NAME_NS = 1000 * 1000 * 1000, /* how long a killed job may take to let go of its name */
    LINGER_NS =
        1000 * 1000 * 1000, /* how long rank 0 stays to tell latecomers that there is no job */
    NAME_MAX_BYTES = 64,
};

struct hello {
    uint32_t magic, version;
    int32_t rank, size, pid;
};
/* Rank 0's answer: the control segment with code 0, or why there is no job. */
struct answer {
    int32_t code, rank;
    char text[200];
};

int local_send(int socket, const void *message, size_t bytes, int fd) {
    struct iovec io = {(void *)(uintptr_t)message, bytes};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -1;
}

/* poll(2) for one descriptor until the deadline, whatever signals come. */
static bool readable_by(int fd, int64_t deadline_ns) {
    for (;;) {
        int64_t left = deadline_ns - clock_ns();
        if (left < 0) left = 0;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, (int)((left + 999999) / 1000000));
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
        if (left == 0) return false;
    }
}

long local_receive(int socket, void *message, size_t bytes, int *fd, int64_t deadline_ns) {
    *fd = -1;
    if (!readable_by(socket, deadline_ns)) return -1;
    struct iovec io = {message, bytes};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n <= 0) return n;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
            memcpy(fd, CMSG_DATA(h), sizeof *fd);
    return n;
}

/* ---- the meeting place ----------------------------------------------------------------------- */

struct place {
    char socket[sizeof((struct sockaddr_un *)0)->sun_path], lock[128];
    int lock_fd;
};

/* A directory that nobody else can write to or list. */
static bool private_directory(const char *path) {
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    errno = 0;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

static int find_place(struct place *p, const char *name, ddprt_error *error) {
    char directory[96];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_BYTES || name[0] == '.' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != n)
        return error_set(
            error, DDPRT_INVALID,
            "a job's name is 1 to %d letters, digits, '.', '_' or '-' and begins with no "
            "'.'",
            NAME_MAX_BYTES);
    bool found = runtime && runtime[0] == '/' && strlen(runtime) < 24 &&
                 snprintf(directory, sizeof directory, "%s/ddprt", runtime) > 0 &&
                 private_directory(directory);
    if (!found) {
        snprintf(directory, sizeof directory, "/tmp/ddprt-%u", (unsigned)geteuid());
        if (!private_directory(directory))
            return error_set(error, DDPRT_RENDEZVOUS,
                             "%s must be a directory of this user with mode 0700 (%s)", directory,
                             errno ? strerror(errno) : "it is not");
    }
    snprintf(p->socket, sizeof p->socket, "%.31s/%.64s.sock", directory, name);
    snprintf(p->lock, sizeof p->lock, "%.31s/%.64s.lock", directory, name);
    p->lock_fd = -1;
    return DDPRT_OK;
}

/* Takes the name. The lock file may be unlinked by its previous holder between our open and our
 * lock; then we hold the lock of nothing and begin again. */
static int take_name(struct place *p, const char *name, int64_t deadline, ddprt_error *error) {
    if (deadline > clock_ns() + NAME_NS) deadline = clock_ns() + NAME_NS;
    for (;;) {
        struct stat ours, there;
        int fd = open(p->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return error_set(error, DDPRT_SYSTEM, "%s: %s", p->lock, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            close(fd);
            if (clock_ns() < deadline) {
                nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
                continue;
            }
            return error_set(error, DDPRT_RENDEZVOUS,
                             "another job of this user is starting under the name \"%s\"", name);
        }
        if (fstat(fd, &ours) == 0 && stat(p->lock, &there) == 0 && ours.st_ino == there.st_ino) {
            p->lock_fd = fd;
            return DDPRT_OK;
        }
        close(fd);
    }
}

static void give_name_back(struct place *p) {
    if (p->lock_fd < 0) return;
    unlink(p->socket);
    unlink(p->lock);
    close(p->lock_fd);
    p->lock_fd = -1;
}

static struct sockaddr_un address_of(const struct place *p) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, p->socket, sizeof a.sun_path);
    return a;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static int missing_ranks(const struct local *c, const char *name, int timeout_ms,
                         ddprt_error *error) {
    int first = 0, n = 0;
    for (int r = c->comm.size - 1; r > 0; r--)
        if (c->socket[r] < 0) first = r, n++;
    int code = n == 1
                   ? error_set(error, DDPRT_RENDEZVOUS,
                               "rank %d of %d did not come to the job \"%s\" within %d ms", first,
                               c->comm.size, name, timeout_ms)
                   : error_set(error, DDPRT_RENDEZVOUS,
                               "rank %d and %d others of %d did not come to the job \"%s\" within "
                               "%d ms",
                               first, n - 1, c->comm.size, name, timeout_ms);
    error->rank = first;
    return code;
}

/* Admits one connection. An error ends the job: two programs disagree about what it is. */
static int admit(struct local *c, int fd, int32_t *pid, int64_t deadline, ddprt_error *error) {
    struct hello h;
    struct ucred who;
    socklen_t length = sizeof who;
    int passed;
    long n = local_receive(fd, &h, sizeof h, &passed, deadline);
    if (passed >= 0) close(passed);
    if (n != (long)sizeof h || h.magic != HELLO_MAGIC ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid()) {
        close(fd); /* whoever that was */
        return DDPRT_OK;
    }
    int code = DDPRT_OK;
    if (h.version != HELLO_VERSION)
        code = error_set(error, DDPRT_RENDEZVOUS, "rank %d speaks version %u, rank 0 version %d",
                         h.rank, h.version, HELLO_VERSION);
    else if (h.size != c->comm.size)
        code = error_set(error, DDPRT_RENDEZVOUS,
                         "rank %d says that the job has %d ranks, rank 0 says %d", h.rank, h.size,
                         c->comm.size);
    else if (h.rank <= 0 || h.rank >= c->comm.size || c->socket[h.rank] >= 0)
        code =
            error_set(error, DDPRT_RENDEZVOUS, "two processes say that they are rank %d", h.rank);
    else if (h.pid != who.pid)
        code = error_set(error, DDPRT_RENDEZVOUS, "rank %d lives in another PID namespace", h.rank);
    if (code) {
        struct answer a = {.code = code, .rank = h.rank};
        error->rank = h.rank;
        snprintf(a.text, sizeof a.text, "%.199s", error->text);
        local_send(fd, &a, sizeof a, -1);
        close(fd);
        c->turned_away++;
        return code;
    }
    c->socket[h.rank] = fd;
    pid[h.rank] = who.pid;
    return DDPRT_OK;
}

/* Collects everybody; a rank that hangs up before all have come may come again. */
static int gather_ranks(struct local *c, int listener, const char *name, int timeout_ms,
                        int64_t deadline, int32_t *pid, ddprt_error *error) {
    for (;;) {
        struct pollfd p[DDPRT_LOCAL_MAX];
        int n_here = 1;
        p[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (int r = 1; r < c->comm.size; r++) {
            p[r] = (struct pollfd){.fd = c->socket[r]}; /* poll ignores -1 */
            n_here += c->socket[r] >= 0;
        }
        if (n_here == c->comm.size) return DDPRT_OK;
        int64_t left = deadline - clock_ns();
        if (left <= 0) return missing_ranks(c, name, timeout_ms, error);
        if (poll(p, (nfds_t)c->comm.size, (int)(left / 1000000 + 1)) < 0) {
            if (errno == EINTR) continue;
            /* EINVAL: more than the process may have open */
            return error_set(error, DDPRT_SYSTEM, "cannot wait for the ranks: %s",
                             strerror(errno == EINVAL ? EMFILE : errno));
        }
        for (int r = 1; r < c->comm.size; r++)
            if (p[r].revents & (POLLHUP | POLLERR)) {
                close(c->socket[r]);
                c->socket[r] = -1;
            }
        if (!(p[0].revents & POLLIN)) continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0)
            return error_set(error, DDPRT_SYSTEM, "cannot accept a rank: %s", strerror(errno));
        int code = admit(c, fd, pid, deadline, error);
        if (code) return code;
    }
}

static size_t shared_bytes(int size) {
    return sizeof(struct local_shared) + (size_t)size * sizeof(struct local_rank);
}

static int map_shared(struct local *c, int fd, ddprt_error *error) {
    c->shared_bytes = shared_bytes(c->comm.size);
    void *m = mmap(NULL, c->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m == MAP_FAILED)
        return error_set(error, DDPRT_SYSTEM, "cannot map the control segment: %s",
                         strerror(errno));
    c->shared = m;
    return DDPRT_OK;
}

/* The control segment: made, filled with who is who, and given to everybody. */
static int share(struct local *c, const int32_t *pid, ddprt_error *error) {
    int fd = memfd_create("ddprt-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int code = DDPRT_OK;
    if (fd < 0 || ftruncate(fd, (off_t)shared_bytes(c->comm.size)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        code = error_set(error, DDPRT_SYSTEM, "cannot create the control segment: %s",
                         strerror(errno));
    if (!code) code = map_shared(c, fd, error);
    if (!code) {
        for (int r = 0; r < c->comm.size; r++) c->shared->rank[r].pid = pid[r];
        struct answer a = {.code = DDPRT_OK};
        /* A rank that has died meanwhile is found out at the first meeting. */
        for (int r = 1; r < c->comm.size && !code; r++)
            if (local_send(c->socket[r], &a, sizeof a, fd) != 0 && errno == ETOOMANYREFS)
                code = error_set(error, DDPRT_SYSTEM, "cannot pass the control segment: %s",
                                 strerror(errno));
    }
    if (fd >= 0) close(fd);
    return code;
}

/* There is no job: tells those who are here, and those who are still on their way. */
static void turn_away(struct local *c, int listener, int64_t deadline, int code,
                      const ddprt_error *error) {
    struct answer no = {.code = code, .rank = error->rank};
    struct hello h;
    int told = 1 + c->turned_away, passed; /* ourselves too */
    snprintf(no.text, sizeof no.text, "%.199s", error->text);
    for (int r = 1; r < c->comm.size; r++)
        if (c->socket[r] >= 0) told += local_send(c->socket[r], &no, sizeof no, -1) == 0;
    if (deadline > clock_ns() + LINGER_NS) deadline = clock_ns() + LINGER_NS;
    while (told < c->comm.size && readable_by(listener, deadline)) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return;
        if (fd < 0) continue;
        if (local_receive(fd, &h, sizeof h, &passed, deadline) > 0)
            told += local_send(fd, &no, sizeof no, -1) == 0;
        if (passed >= 0) close(passed);
        close(fd);
    }
}

static int receive_ranks(struct local *c, struct place *place, const char *name, int timeout_ms,
                         ddprt_error *error) {
    int64_t deadline = deadline_in_ms(timeout_ms);
    int32_t pid[DDPRT_LOCAL_MAX] = {c->pid};
    int listener = -1, code = take_name(place, name, deadline, error);
    if (code) return code;
    struct sockaddr_un a = address_of(place);
    unlink(place->socket); /* a dead job's, since we hold the lock */
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) != 0 ||
        listen(listener, 2 * DDPRT_LOCAL_MAX) != 0)
        code = error_set(error, DDPRT_SYSTEM, "%s: %s", place->socket, strerror(errno));
    if (!code) code = gather_ranks(c, listener, name, timeout_ms, deadline, pid, error);
    if (!code) code = share(c, pid, error);
    if (code && listener >= 0) turn_away(c, listener, deadline, code, error);
    if (listener >= 0) close(listener);
    give_name_back(place);
    return code;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* False if nobody listens yet; *fd is then a socket all the same, or -1 if there can be none. */
static bool connect_to_zero(const struct place *place, int *fd) {
    struct sockaddr_un a = address_of(place);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return *fd >= 0 && connect(*fd, (struct sockaddr *)&a, sizeof a) == 0;
}

static int join(struct local *c, struct place *place, const char *name, int timeout_ms,
                ddprt_error *error) {
    int64_t deadline = deadline_in_ms(timeout_ms);
    struct hello h = {HELLO_MAGIC, HELLO_VERSION, c->comm.rank, c->comm.size, c->pid};
    while (clock_ns() < deadline) {
        struct answer a;
        int shared, fd;
        bool connected = connect_to_zero(place, &fd);
        if (fd < 0)
            return error_set(error, DDPRT_SYSTEM, "cannot make a socket: %s", strerror(errno));
        if (connected && local_send(fd, &h, sizeof h, -1) == 0) {
            long n = local_receive(fd, &a, sizeof a, &shared, deadline + VERDICT_NS);
            if (n == (long)sizeof a) {
                int code = a.code;
                a.text[sizeof a.text - 1] = 0;
                if (code) {
                    error_set(error, code, "%s", a.text);
                    error->rank = a.rank;
                } else if (shared < 0)
                    code =
                        error_set(error, DDPRT_SYSTEM,
                                  "the control segment did not get through: %s", strerror(EMFILE));
                else
                    code = map_shared(c, shared, error);
                if (shared >= 0) close(shared);
                if (code)
                    close(fd);
                else
                    c->socket[0] = fd;
                return code;
            }
        }
        /* Not there yet, or a job that was just dying. */
        close(fd);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
    int code = error_set(error, DDPRT_RENDEZVOUS,
                         "rank 0 of %d did not come to the job \"%s\" within %d ms", c->comm.size,
                         name, timeout_ms);
    error->rank = 0;
    return code;
}

int local_rendezvous(struct local *c, const char *name, int timeout_ms, ddprt_error *error) {
    struct place place;
    errno = 0;
    int code = find_place(&place, name, error);
    if (!code)
        code = c->comm.rank == 0 ? receive_ranks(c, &place, name, timeout_ms, error)
                                 : join(c, &place, name, timeout_ms, error);
    if (code) return code;
    for (int r = 0; r < c->comm.size; r++) {
        if (c->shared->rank[r].pid == c->pid) continue; /* a thread of this process, or ourselves */
        c->pidfd[r] = (int)syscall(SYS_pidfd_open, c->shared->rank[r].pid, 0);
        if (c->pidfd[r] >= 0) continue;
        if (errno != ESRCH)
            return error_set(error, DDPRT_SYSTEM, "cannot watch rank %d (pidfd_open): %s", r,
                             strerror(errno));
        c->gone[r] = true;
    }
    return DDPRT_OK;
}
