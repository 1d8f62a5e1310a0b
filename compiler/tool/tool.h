/* The `ddpc` command: what its subcommands share. Each subcommand is one file with one function
 * `int tool_NAME(struct tool *)` that returns an exit code; commands.def lists them, flags.def the
 * flags. */
#ifndef DDPC_TOOL_H
#define DDPC_TOOL_H

#include "options.h"
#include "pipeline.h"

enum tool_exit {
    TOOL_OK = 0,
    TOOL_REJECTED = 1, /* input rejected, denied or different */
    TOOL_USAGE = 2,    /* wrong usage, a file that cannot be read or written, a corrupt plan */
};

enum diagnostics_format {
    DIAGNOSTICS_TEXT,
    DIAGNOSTICS_SHORT,
    DIAGNOSTICS_JSON,
    DIAGNOSTICS_SARIF
};
enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
enum stats_format { STATS_NONE, STATS_JSON };

/* Of `ddpc simulate`. */
struct simulate_flags {
    int ranks, steps, seed;     /* 0: not given */
    double jitter, rank_jitter; /* percent */
    string_list straggler;      /* --straggler RANK:FACTOR or PERCENT%:FACTOR */
    string_list against;        /* --against, split at commas */
    const char *slow_link;      /* --slow-link FACTOR or PERCENT%:FACTOR */
};

/* What the command line said. Strings are borrowed from argv. */
struct tool {
    const struct command *command;
    string_list args; /* the positional arguments */
    struct options options;
    const char *output;   /* -o FILE; NULL: standard output */
    const char *format;   /* --format; tool_format checks it; NULL: text */
    int depth;            /* graph --depth; 0: not given */
    const char *emit;     /* --emit; NULL: plan */
    const char *fail_on;  /* diff --fail-on; NULL: review */
    string_list deny;     /* check --deny, split at commas; each is checked by the command */
    const char *baseline; /* check --baseline FILE */
    const char *policy;   /* check --policy FILE|none; NULL: .ddpccheck, if there is one */
    bool require_proof;
    struct simulate_flags simulate;
    bool elide;
    enum stats_format stats;
    const char *print_after; /* a pass's name */
    enum diagnostics_format diagnostics;
    enum color_mode color;
    struct json_t *sarif; /* with --diagnostics=sarif: results, printed at the end as one log */
    struct arena arena;   /* for the whole run */
};

#define COMMAND(name, arguments, min_args, max_args, flags, formats, summary)                      \
    int tool_##name(struct tool *t);
#include "commands.def"
#undef COMMAND

/* Runs the pipeline on the first argument, prints its diagnostics and, asked for, passes and
 * statistics. Returns TOOL_OK or what the command should exit with. The caller frees the
 * compilation either way. */
int tool_run_pipeline(struct tool *t, struct compilation *c, enum pipeline_pass last);

/* Prints what was collected in the form that --diagnostics asks for. */
void tool_print_diags(const struct tool *t, struct diags *d);

/* With --diagnostics=json or sarif reports one error with a code and returns true; else false, and
 * the caller prints its text. help may be NULL. */
bool tool_complain_coded(const struct tool *t, enum diag_code code, const char *file,
                         const char *text, const char *help);

/* "ddpc check: error: ..." and the usage on standard error; returns TOOL_USAGE. */
int tool_usage_error(const struct tool *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The index of `value` among the space-separated `choices`; 0 if value is NULL; -1 after an error
 * that names the flag, the valid values and the nearest. */
int tool_choice(const struct tool *t, const char *flag, const char *value, const char *choices);
/* The same for --format, among the command's formats. */
int tool_format(const struct tool *t);

/* An output that appears whole or not at all: a temporary file in the same folder, renamed by
 * close. path NULL or "-" is standard output. Both report their own errors; open returns NULL,
 * close false. */
struct tool_output {
    const struct tool *tool;
    FILE *file;
    const char *path;
    char *temporary;
    char *target; /* what the path's links lead to; NULL: nothing is there yet */
};
FILE *tool_output_open(const struct tool *t, struct tool_output *o, const char *path);
/* keep false: throw away what was written. */
bool tool_output_close(struct tool_output *o, bool keep);

/* Writes a name for people: control characters, which could break lines or drive a terminal, become
 * '?'. */
void tool_put(FILE *out, const char *text);

/* A copy of `text` in the arena that is valid UTF-8: bytes that are not become U+FFFD. */
const char *tool_utf8(struct arena *a, const char *text);

#endif
