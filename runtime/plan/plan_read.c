/* Opening a plan: a private copy of the bytes, then the frame - header, hash, section table - and
 * then, in plan_check.c, every record.
 *
 * The file is read, not mapped: whoever can write to a mapped file can change it after the check,
 * and a file that shrinks under a mapping kills the process. Nothing is allocated on the file's
 * word: the copy is as large as what was really read, and the arrays of struct plan point into it.
 * The order of the checks is chosen for the messages: a file that is no plan, or one of another
 * generation, should hear that and not that its hash is wrong; a cut file should hear that it is
 * cut. */
#define _GNU_SOURCE
#include "plan_check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool plan_fail(struct plan_error *error, enum plan_status status, const char *format, ...) {
    va_list arguments;
    error->status = status;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return false;
}

static const struct {
    const char *name;
    uint32_t record_bytes;
} sections[PLAN_N_SECTIONS + 1] = {
    [PLAN_SECTION_STRINGS] = {"strings", sizeof(struct plan_string)},
    [PLAN_SECTION_TEXT] = {"text", 1},
    [PLAN_SECTION_PARAMS] = {"params", sizeof(struct plan_param)},
    [PLAN_SECTION_DIMS] = {"dims", sizeof(int64_t)},
    [PLAN_SECTION_NAMES] = {"names", sizeof(uint32_t)},
    [PLAN_SECTION_STEPS] = {"steps", sizeof(struct plan_step)},
    [PLAN_SECTION_STEP_PARAMS] = {"step_params", sizeof(struct plan_step_param)},
    [PLAN_SECTION_BUCKETS] = {"buckets", sizeof(struct plan_bucket)},
    [PLAN_SECTION_SEGMENTS] = {"segments", sizeof(struct plan_segment)},
    [PLAN_SECTION_GUARDS] = {"guards", sizeof(struct plan_guard)},
    [PLAN_SECTION_GUARD_NODES] = {"guard_nodes", sizeof(struct plan_guard_node)},
    [PLAN_SECTION_BRANCHES] = {"branches", sizeof(struct plan_branch)},
    [PLAN_SECTION_CERTIFICATE] = {"certificate", sizeof(struct plan_certificate)},
    [PLAN_SECTION_PIECES] = {"pieces", sizeof(struct plan_piece)},
    [PLAN_SECTION_OPTIONS] = {"options", sizeof(struct plan_option)},
    [PLAN_SECTION_SOURCE_MAP] = {"source_map", sizeof(struct plan_source)},
};

static bool is_zero(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

/* ---- the frame ------------------------------------------------------------------------------- */

static bool check_header(const struct plan *p, struct plan_error *error) {
    const struct plan_header *h = p->header;
    uint8_t hash[16];
    const size_t version_end = offsetof(struct plan_header, n_sections);
    size_t seen = p->size < sizeof h->magic ? p->size : sizeof h->magic;
    if (seen == 0) return plan_fail(error, PLAN_TRUNCATED, "is empty");
    if (memcmp(p->bytes, PLAN_MAGIC, seen) != 0)
        return plan_fail(error, PLAN_NOT_A_PLAN, "is not a plan: it does not begin as one");
    if (p->size < version_end)
        return plan_fail(error, PLAN_TRUNCATED, "is cut off within the header, at %zu bytes",
                         p->size);
    if (h->major != PLAN_MAJOR)
        return plan_fail(error, PLAN_OTHER_MAJOR,
                         "has plan format %u.%u, and this program reads format %d.x", h->major,
                         h->minor, PLAN_MAJOR);
    if (p->size < sizeof *h)
        return plan_fail(error, PLAN_TRUNCATED, "is cut off within the header, at %zu bytes",
                         p->size);
    if (h->file_bytes > p->size)
        return plan_fail(error, PLAN_TRUNCATED, "is cut off: it has %zu bytes and should have %llu",
                         p->size, (unsigned long long)h->file_bytes);
    if (h->file_bytes < p->size)
        return plan_fail(error, PLAN_TRUNCATED, "is longer than the %llu bytes that it should have",
                         (unsigned long long)h->file_bytes);
    plan_content_hash(p->bytes, p->size, hash);
    if (memcmp(hash, h->content_hash, sizeof hash) != 0)
        return plan_fail(error, PLAN_BAD_HASH,
                         "is damaged: its bytes do not have the hash that it states");
    if (h->protocol != PLAN_PROTOCOL)
        return plan_fail(error, PLAN_OTHER_MAJOR,
                         "is for protocol %u, and this program speaks protocol %d", h->protocol,
                         PLAN_PROTOCOL);
    if (h->zero || !is_zero(h->zero2, sizeof h->zero2))
        return plan_fail(error, PLAN_CORRUPT, "is corrupt: header.zero is not zero");
    return true;
}

/* Section i is known by its place: the known kinds come first, in the order of their numbers, and
 * whatever follows has higher numbers and is skipped. Together the sections cover the file. */
static bool check_sections(const struct plan *p, struct plan_error *error) {
    const struct plan_section *table = (const struct plan_section *)(p->header + 1);
    const uint8_t *bytes = p->bytes;
    uint32_t n = p->header->n_sections;
    uint64_t end = sizeof *p->header + (uint64_t)n * sizeof *table;
    if (n < PLAN_N_SECTIONS || end > p->size)
        return plan_fail(error, PLAN_CORRUPT, "is corrupt: header.n_sections is %u", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_section *s = &table[i];
        const char *field = NULL;
        if (i < PLAN_N_SECTIONS ? s->kind != i + 1 : s->kind <= table[i - 1].kind)
            field = "kind";
        else if (i < PLAN_N_SECTIONS ? s->record_bytes != sections[s->kind].record_bytes
                                     : s->record_bytes == 0)
            field = "record_bytes";
        else if (s->offset != plan_align(end, 16) || s->offset > p->size)
            field = "offset";
        else if (s->count >= PLAN_NONE || s->count > (p->size - s->offset) / s->record_bytes)
            field = "count";
        else if (!is_zero(bytes + end, s->offset - end))
            field = "offset (the gap before it is not zero)";
        if (field)
            return plan_fail(error, PLAN_CORRUPT, "is corrupt: section %u (%s), field %s", i,
                             i < PLAN_N_SECTIONS ? sections[i + 1].name : "unknown", field);
        end = s->offset + s->count * s->record_bytes;
    }
    if (plan_align(end, 16) != p->size || !is_zero(bytes + end, p->size - end))
        return plan_fail(error, PLAN_CORRUPT,
                         "is corrupt: there are bytes behind the last section");
    return true;
}

static const void *section(const struct plan *p, enum plan_section_kind kind, uint64_t *count) {
    const struct plan_section *table = (const struct plan_section *)(p->header + 1);
    *count = table[kind - 1].count;
    return (const uint8_t *)p->bytes + table[kind - 1].offset;
}

/* Points the arrays into the copy. */
static void set_arrays(struct plan *p, struct plan_extent *e) {
    uint64_t n;
#define ARRAY(field, KIND, counter)                                                                \
    p->field = section(p, PLAN_SECTION_##KIND, &n), p->counter = (uint32_t)n
    ARRAY(string, STRINGS, n_strings);
    ARRAY(param, PARAMS, n_params);
    ARRAY(step, STEPS, n_steps);
    ARRAY(bucket, BUCKETS, n_buckets);
    ARRAY(segment, SEGMENTS, n_segments);
    ARRAY(guard, GUARDS, n_guards);
    ARRAY(guard_node, GUARD_NODES, n_guard_nodes);
    ARRAY(branch, BRANCHES, n_branches);
    ARRAY(piece, PIECES, n_pieces);
    ARRAY(option, OPTIONS, n_options);
#undef ARRAY
    p->text = section(p, PLAN_SECTION_TEXT, &e->n_text);
    p->dim = section(p, PLAN_SECTION_DIMS, &e->n_dims);
    p->name_slot = section(p, PLAN_SECTION_NAMES, &e->n_names);
    p->name_mask = (uint32_t)e->n_names - 1;
    p->step_param = section(p, PLAN_SECTION_STEP_PARAMS, &e->n_step_params);
    p->certificate = section(p, PLAN_SECTION_CERTIFICATE, &e->n_certificates);
    p->source = section(p, PLAN_SECTION_SOURCE_MAP, &e->n_sources);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Takes the bytes over, also on failure. */
static struct plan *open_bytes(void *bytes, size_t size, struct plan_error *error) {
    struct plan_extent extent;
    uint8_t hash[16];
    struct plan *p = calloc(1, sizeof *p);
    if (!p) {
        free(bytes);
        plan_fail(error, PLAN_NO_MEMORY, "does not fit into memory");
        return NULL;
    }
    p->bytes = bytes;
    p->size = size;
    p->header = bytes;
    if (!check_header(p, error) || !check_sections(p, error)) goto bad;
    set_arrays(p, &extent);
    if (!plan_check_records(p, &extent, error)) goto bad;
    plan_semantic_hash(p, hash);
    if (memcmp(hash, p->header->semantic_hash, sizeof hash) != 0) {
        plan_fail(error, PLAN_CORRUPT,
                  "is corrupt: header.semantic_hash is not that of the records");
        goto bad;
    }
    return p;
bad:
    plan_close(p);
    return NULL;
}

struct plan *plan_from_memory(const void *bytes, size_t size, struct plan_error *error) {
    struct plan_error ignored;
    void *copy = malloc(size ? size : 1);
    if (!error) error = &ignored;
    *error = (struct plan_error){.status = PLAN_OK};
    if (!copy) {
        plan_fail(error, PLAN_NO_MEMORY, "does not fit into memory (%zu bytes)", size);
        return NULL;
    }
    if (size) memcpy(copy, bytes, size);
    return open_bytes(copy, size, error);
}

/* Whether more bytes can change nothing: these are no plan's, or already more than theirs. Streams
 * may be endless. */
static bool is_enough(const void *bytes, size_t n) {
    const struct plan_header *h = bytes;
    return n > sizeof *h &&
           (memcmp(h->magic, PLAN_MAGIC, sizeof h->magic) != 0 || n > h->file_bytes);
}

/* All of a descriptor's bytes, malloc'd. The stated size is a first guess: pipes have none, and a
 * file may grow or shrink while it is read. */
static void *read_all(int fd, size_t *size, struct plan_error *error) {
    struct stat st;
    size_t cap = 65536, n = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        cap = (size_t)st.st_size + 1; /* one more, so that the end shows without another round */
    char *bytes = malloc(cap);
    while (bytes) {
        ssize_t got = read(fd, bytes + n, cap - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            plan_fail(error, PLAN_UNREADABLE, "cannot be read: %s", strerror(errno));
            free(bytes);
            return NULL;
        }
        n += (size_t)got;
        if (got == 0 || is_enough(bytes, n)) {
            *size = n;
            return bytes;
        }
        if (n == cap) {
            char *larger = cap > SIZE_MAX / 2 ? NULL : realloc(bytes, cap *= 2);
            if (!larger) free(bytes);
            bytes = larger;
        }
    }
    plan_fail(error, PLAN_NO_MEMORY, "does not fit into memory");
    return NULL;
}

struct plan *plan_open_file(const char *path, struct plan_error *error) {
    struct plan_error ignored;
    size_t size;
    if (!error) error = &ignored;
    *error = (struct plan_error){.status = PLAN_OK};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        plan_fail(error, PLAN_UNREADABLE, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    void *bytes = read_all(fd, &size, error);
    close(fd);
    return bytes ? open_bytes(bytes, size, error) : NULL;
}

void plan_close(struct plan *p) {
    if (!p) return;
    free(p->bytes);
    free(p);
}
