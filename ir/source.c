/* Reading a file, and finding lines in it.
 *
 * Small files and pipes are read into memory; files from 1 MiB on are mapped, so that a model with
 * gigabytes of weights costs page cache and not memory of ours. Readers rely on a NUL behind the
 * last byte. A mapping gives it for free where the file ends inside a page, as the rest of that
 * page is zero; for the other files one more anonymous page is reserved behind them, by mapping
 * zero pages over the whole length first and the file over their front.
 *
 * Locations are byte offsets everywhere; lines are looked for only when somebody asks, which a
 * compilation without diagnostics never does. */
#define _GNU_SOURCE /* mmap's MAP_ANONYMOUS */
#include "source.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAP_FROM = 1 << 20, READ_CHUNK = 64 << 10 };

static const char *reason(int error) {
    switch (error) {
    case ENOENT: return "does not exist";
    case EISDIR: return "is a directory";
    case EACCES: return "may not be read: permission denied";
    case ENOTDIR: return "does not exist: a part of its path is not a directory";
    default: return strerror(error);
    }
}

static bool map_file(struct source *s, int fd, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (size / page + 1) * page;
    char *at = mmap(NULL, whole, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    if (mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(at, whole);
        return false;
    }
    s->bytes = s->mapping = at;
    s->size = size;
    s->mapping_size = whole;
    return true;
}

static bool read_file(struct source *s, int fd, const char **why) {
    char *bytes = NULL;
    size_t size = 0, cap = 0;
    for (;;) {
        if (cap - size < READ_CHUNK) {
            cap = cap ? cap * 2 : 2 * READ_CHUNK;
            char *grown = realloc(bytes, cap);
            if (!grown) arena_out_of_memory(cap);
            bytes = grown;
        }
        ssize_t got = read(fd, bytes + size, cap - size - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            *why = reason(errno);
            free(bytes);
            return false;
        }
        if (got == 0) break;
        size += (size_t)got;
        if (size >= UINT32_MAX) {
            *why = "is larger than 4 GiB";
            free(bytes);
            return false;
        }
    }
    bytes[size] = 0;
    s->bytes = s->mapping = bytes;
    s->size = size;
    return true;
}

static void skip_mark(struct source *s) {
    if (s->size < 3 || memcmp(s->bytes, "\xef\xbb\xbf", 3) != 0) return;
    s->bytes += 3;
    s->size -= 3;
}

bool source_open(struct source *s, const char *path, const char **why) {
    bool standard_input = strcmp(path, "-") == 0;
    *s = (struct source){.name = standard_input ? "<stdin>" : path};
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *why = reason(errno);
        return false;
    }
    struct stat info;
    bool ok = false;
    if (fstat(fd, &info) != 0)
        *why = reason(errno);
    else if (S_ISDIR(info.st_mode))
        *why = reason(EISDIR);
    else if (S_ISREG(info.st_mode) && info.st_size >= (off_t)UINT32_MAX)
        *why = "is larger than 4 GiB";
    else if (S_ISREG(info.st_mode) && !standard_input && info.st_size >= MAP_FROM &&
             map_file(s, fd, (size_t)info.st_size))
        ok = true;
    else
        ok = read_file(s, fd, why);
    if (!standard_input) close(fd);
    if (!ok) *s = (struct source){0};
    skip_mark(s);
    return ok;
}

void source_from_memory(struct source *s, const char *name, const void *bytes, size_t size) {
    char *copy = malloc(size + 1);
    if (!copy) arena_out_of_memory(size + 1);
    if (size) memcpy(copy, bytes, size);
    copy[size] = 0;
    *s = (struct source){.name = name, .bytes = copy, .size = size, .mapping = copy};
    skip_mark(s);
}

void source_free(struct source *s) {
    if (s->mapping_size)
        munmap(s->mapping, s->mapping_size);
    else
        free(s->mapping);
    vec_free(&s->lines);
    vec_free(&s->indices);
    *s = (struct source){0};
}

static void find_lines(struct source *s) {
    if (s->lines.n) return;
    vec_push(&s->lines, 0);
    const char *end = s->bytes + s->size, *at = s->bytes;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL)
        vec_push(&s->lines, (uint32_t)(++at - s->bytes));
}

void source_position(struct source *s, ir_loc at, uint32_t *line, uint32_t *column) {
    *line = *column = 0;
    if (s->binary) return;
    find_lines(s);
    uint32_t low = 0, high = s->lines.n; /* lines.at[low] <= at < lines.at[high] */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (s->lines.at[mid] <= at)
            low = mid;
        else
            high = mid;
    }
    *line = low + 1;
    *column = at - s->lines.at[low] + 1;
}

size_t source_line(struct source *s, uint32_t line, const char **text) {
    *text = "";
    if (s->binary) return 0;
    find_lines(s);
    if (line == 0 || line > s->lines.n) return 0;
    size_t from = s->lines.at[line - 1];
    size_t to = line < s->lines.n ? s->lines.at[line] - 1 : s->size;
    if (to > from && s->bytes[to - 1] == '\r') to--;
    *text = s->bytes + from;
    return to - from;
}
