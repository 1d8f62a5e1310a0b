/* `ddpc help`: the commands, one command's flags, the essay behind a diagnostic's code, or what a
 * rule of `ddpc diff` means. */
#include "args.h"
#include "diff.h"
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

static bool same_letters(const char *a, const char *b) {
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool explain_rule(const char *id) {
    char known[DIFF_ID_SIZE];
    for (int r = 0; r < DIFF_N_RULES; r++) {
        if (!same_letters(id, diff_rule_id(r, known))) continue;
        enum diff_class class = diff_rule_class(r);
        printf("%s: %s\n\n", known, diff_rule_title(r));
        print_wrapped(diff_rule_essay(r));
        printf("Class %s: %s.\n", diff_class_name(class), diff_class_meaning(class));
        return true;
    }
    return false;
}

static void explain_classes(void) {
    char id[DIFF_ID_SIZE];
    bool used[DIFF_N_CLASSES] = {0};
    for (int r = 0; r < DIFF_N_RULES; r++) used[diff_rule_class(r)] = true;
    putchar('\n');
    print_wrapped("The classes of changes, strictest first. Exit 1 means a change of the class of "
                  "--fail-on or of a stricter one; with any also info, with none never.");
    for (int c = 0; c < DIFF_N_CLASSES; c++)
        printf("  %-8s %s%s\n", diff_class_name(c), diff_class_meaning(c),
               used[c] ? "" : " (no rule yet)");
    print_wrapped("Ranks compare a hash over all that is wire or state before the first "
                  "collective, and refuse each other if it differs.");
    printf("\nThe rules; `ddpc help RULE` explains one:\n");
    for (int r = 0; r < DIFF_N_RULES; r++)
        printf("  %s  %s\n", diff_rule_id(r, id), diff_rule_title(r));
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
        if (c->groups & F_DIFF) explain_classes();
        return TOOL_OK;
    }
    if (explain_rule(topic)) return TOOL_OK;
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
        near ? tool_usage_error(t,
                                "there is no command, diagnostic or rule '%s'; did you mean '%s'?",
                                topic, near)
             : tool_usage_error(t, "there is no command, diagnostic or rule '%s'", topic);
    vec_free(&names);
    return exit_code;
}
