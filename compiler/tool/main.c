/* The `ddpc` command: reads the command line, runs one subcommand, returns its exit code.
 *
 * Commands and flags are tables (commands.def, flags.def), from which come the parsing here, the
 * usage texts and `ddpc help`. `ddpc MODEL -o PLAN` without a command's name compiles. */
#include "args.h"
#include "sarif.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(size_t bytes) {
    fprintf(stderr, "ddpc: error: out of memory (%zu bytes were needed)\n", bytes);
    exit(TOOL_USAGE);
}

int main(int argc, char **argv) {
    arena_out_of_memory = out_of_memory;
    signal(SIGXFSZ, SIG_IGN); /* writing then fails, as on a full disk */
    struct tool t = {.sarif = json_array()};
    int exit_code;
    if (args_read(&t, argc, argv, &exit_code)) exit_code = t.command->run(&t);
    /* A full disk shows only when the last bytes leave. */
    if (fflush(stdout) || ferror(stdout)) {
        const char *why = strerror(errno);
        if (!tool_complain_coded(&t, DIAG_CANNOT_WRITE, "standard output", why, NULL))
            fprintf(stderr, "ddpc: error: cannot write to standard output: %s\n", why);
        if (exit_code == TOOL_OK) exit_code = TOOL_USAGE;
    }
    if (t.diagnostics == DIAGNOSTICS_SARIF)
        sarif_print(stderr, t.sarif);
    else
        json_decref(t.sarif);
    args_free(&t);
    return exit_code;
}
