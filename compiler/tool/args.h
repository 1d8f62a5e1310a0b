/* The command line: tables of commands and flags, and the reader that fills struct tool. */
#ifndef DDPC_ARGS_H
#define DDPC_ARGS_H

#include "tool.h"

enum flag_group {
    F_ALWAYS = 1,
    F_MODEL = 2,    /* what the model is */
    F_SCHEDULE = 4, /* how its gradients are reduced */
    F_OUTPUT = 8,
    F_EMIT = 16,
    F_FORMAT = 32,
    F_CHECK = 64,
    F_DIFF = 128,
    F_SIMULATE = 256,
    F_FMT = 512,
    F_GRAPH = 1024,
    F_MACHINE = 2048, /* what it runs on */
};

enum flag_kind {
    FLAG_LIST,
    FLAG_COMMAS,
    FLAG_STRING,
    FLAG_NUMBER,
    FLAG_COUNT,
    FLAG_CHOICE,
    FLAG_SET
};

struct flag {
    unsigned group;
    const char *name;
    enum flag_kind kind;
    size_t field; /* offset in struct tool */
    const char *argument, *help;
};

struct command {
    const char *name, *arguments;
    uint32_t min_args, max_args;
    unsigned groups;
    const char *formats; /* the choices of --format, the first is the default */
    const char *summary;
    int (*run)(struct tool *t);
};

extern const struct flag args_flags[];
extern const size_t args_n_flags;
extern const struct command args_commands[];
extern const size_t args_n_commands;

/* Fills t. Returns false where there is nothing to run (--version, --help, a usage error);
 * *exit_code is then what to exit with. */
bool args_read(struct tool *t, int argc, char **argv, int *exit_code);
void args_free(struct tool *t);

const struct command *args_command(const char *name);      /* NULL: none */
void args_print_usage(const struct command *c, FILE *out); /* with its flags; NULL: of the tool */

#endif
