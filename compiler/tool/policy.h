/* .ddpccheck: what a project accepts, and why. docs/gate.md describes the file. */
#ifndef DDPC_POLICY_H
#define DDPC_POLICY_H

#include "lines.h"
#include "options.h"

/* What --deny can name; a set of them is their sum. */
enum denied { DENY_NEVER = 1, DENY_CONDITIONAL = 2, DENY_UNKNOWN = 4 };
/* The one of the three that a word names; 0: none. */
unsigned denied_of(const char *name);
#define DENIED_NAMES "never conditional unknown"

struct policy_entry {
    unsigned class;   /* one of enum denied */
    const char *glob; /* NULL: of DENY_UNKNOWN, which is about no parameter */
    const char *step; /* NULL: all */
    const char *reason;
    ir_loc loc;
    uint32_t length, line;
    bool used;
};

struct policy {
    const char *path; /* NULL: there is none */
    struct lines file;
    struct diags diags; /* about this file */
    struct arena arena;
    unsigned deny; /* the classes of its `deny` lines */
    VEC(struct policy_entry) allow;
};

/* `path`: as --policy has it, NULL to look into the current folder. The diagnostics are the
 * caller's to print; free it in any case. */
bool policy_read(struct policy *p, const char *path);
void policy_free(struct policy *p);

/* Whether the entry speaks of a parameter whose name begins with `prefix` bytes of wrappers. */
bool policy_names(const struct policy_entry *e, const char *name, size_t prefix);

#endif
