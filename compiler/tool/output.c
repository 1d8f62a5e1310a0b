/* Output files appear whole or not at all: what is written goes to a temporary file beside the
 * target, which a rename replaces once every byte is out. A target that is no regular file
 * (/dev/stdout, a pipe) is written in place, since a rename would replace the device; behind a
 * symbolic link the file is replaced and the link stays. */
#define _XOPEN_SOURCE 700
#include "tool.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void complain(const struct tool_output *o, const char *what) {
    struct arena a = {0};
    const char *path = o->path ? o->path : "standard output", *why = strerror(errno);
    if (!tool_complain_coded(o->tool, DIAG_CANNOT_WRITE, path,
                             arena_printf(&a, "%s: %s", what, why), NULL))
        fprintf(stderr, "ddpc: error: %s %s: %s\n", what, path, why);
    arena_free(&a);
}

FILE *tool_output_open(const struct tool *t, struct tool_output *o, const char *path) {
    *o = (struct tool_output){.tool = t};
    if (!path || !strcmp(path, "-")) return o->file = stdout;
    o->path = path;
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        complain(o, "cannot write");
        return NULL;
    }
    if (exists && !S_ISREG(st.st_mode)) {
        o->file = fopen(path, "wb");
        if (!o->file) complain(o, "cannot write");
        return o->file;
    }
    if (exists && (o->target = realpath(path, NULL))) path = o->target;
    size_t size = strlen(path) + sizeof ".XXXXXX";
    o->temporary = malloc(size);
    if (!o->temporary) arena_out_of_memory(size);
    snprintf(o->temporary, size, "%s.XXXXXX", path);
    int fd = mkstemp(o->temporary);
    if (fd >= 0) {
        /* mkstemp makes the file private; give it the mode that any new file would have. */
        mode_t mask = umask(0);
        umask(mask);
        if (fchmod(fd, exists ? st.st_mode & 0777 : 0666 & ~mask) == 0) o->file = fdopen(fd, "wb");
    }
    if (!o->file) {
        complain(o, "cannot write");
        if (fd >= 0) {
            close(fd);
            unlink(o->temporary);
        }
        free(o->temporary);
        free(o->target);
        o->temporary = o->target = NULL;
    }
    return o->file;
}

bool tool_output_close(struct tool_output *o, bool keep) {
    bool ok = fflush(o->file) == 0 && !ferror(o->file);
    int error = errno;
    if (o->path && fclose(o->file) != 0 && ok) {
        ok = false;
        error = errno;
    }
    errno = error;
    if (!ok) {
        complain(o, "cannot write");
        if (!o->path) clearerr(stdout); /* said once is enough */
    }
    if (o->temporary) {
        if (ok && keep && rename(o->temporary, o->target ? o->target : o->path) != 0) {
            complain(o, "cannot rename the finished file to");
            ok = false;
        }
        if (!ok || !keep) unlink(o->temporary);
        free(o->temporary);
        free(o->target);
    }
    memset(o, 0, sizeof *o);
    return ok;
}
