/* `ddpc help`: the commands, one command's flags, or the essay behind a diagnostic's code. */
#include "args.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* "DDP0203", "ddp0203" or "203" -> 203; 0 if it is no code's spelling. */
static unsigned code_number(const char *text) {
    if (!strncmp(text, "DDP", 3) || !strncmp(text, "ddp", 3)) text += 3;
    if (!*text || strlen(text) > 4 || strspn(text, "0123456789") != strlen(text)) return 0;
    return (unsigned)strtoul(text, NULL, 10);
}

enum { WIDTH = 90 };

static void print_wrapped(const char *text) {
    for (size_t column = 0; *text;) {
        size_t n = strcspn(text, " ");
        if (column && column + 1 + n > WIDTH) {
            putchar('\n');
            column = 0;
        }
        column += (size_t)printf("%s%.*s", column ? " " : "", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    putchar('\n');
}

int tool_help(struct tool *t) {
    const char *topic = t->args.n ? t->args.at[0] : NULL;
    if (!topic) {
        args_print_usage(NULL, stdout);
        return TOOL_OK;
    }
    const struct command *c = args_command(topic);
    if (c) {
        args_print_usage(c, stdout);
        return TOOL_OK;
    }
    unsigned number = code_number(topic);
    const char *essay = number ? diag_essay((enum diag_code)number) : NULL;
    if (essay) {
        printf("DDP%04u: %s\n\n", number, diag_title((enum diag_code)number));
        print_wrapped(essay);
        return TOOL_OK;
    }
    string_list names = {0};
    for (size_t i = 0; i < args_n_commands; i++) vec_push(&names, args_commands[i].name);
    const char *near = diag_nearest(topic, names.at, names.n);
    int exit_code =
        near ? tool_usage_error(t, "there is no command or diagnostic '%s'; did you mean '%s'?",
                                topic, near)
             : tool_usage_error(t, "there is no command or diagnostic '%s'", topic);
    vec_free(&names);
    return exit_code;
}
