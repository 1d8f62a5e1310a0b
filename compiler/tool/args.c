/* The command line, read by its two tables.
 *
 * A flag is a record of flags.def: which commands take it, how its value is read, and where in struct
 * tool it goes. So a new flag is a line there, and its parsing, its near names and its help come from
 * here. What a flag's value means for a model is checked later, by the pass that uses it; here only
 * numbers and choices are. */
#define _POSIX_C_SOURCE 200809L
#include "args.h"
#include "keyfile.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct flag args_flags[] = {
#define FLAG(group, name, kind, field, argument, help)                                             \
    {group, name, FLAG_##kind, offsetof(struct tool, field), argument, help},
#include "flags.def"
#undef FLAG
};
const size_t args_n_flags = sizeof args_flags / sizeof *args_flags;

const struct command args_commands[] = {
#define COMMAND(name, arguments, min_args, max_args, groups, formats, summary)                     \
    {#name, arguments, min_args, max_args, groups, formats, summary, tool_##name},
#include "commands.def"
#undef COMMAND
};
const size_t args_n_commands = sizeof args_commands / sizeof *args_commands;

const struct command *args_command(const char *name) {
    for (size_t i = 0; i < args_n_commands; i++)
        if (!strcmp(args_commands[i].name, name)) return &args_commands[i];
    return NULL;
}

static bool takes(const struct command *c, const struct flag *f) {
    return (f->group & (c->groups | F_ALWAYS)) != 0;
}

void args_print_usage(const struct command *c, FILE *out) {
    if (!c) {
        fprintf(out, "usage: ddpc COMMAND ARGUMENTS [--FLAG=VALUE ...]\n"
                     "       ddpc MODEL -o PLAN\n       ddpc --version | --help\n\n"
                     "commands:\n");
        for (size_t i = 0; i < args_n_commands; i++)
            fprintf(out, "  %-8s %-20s %s\n", args_commands[i].name, args_commands[i].arguments,
                    args_commands[i].summary);
        fprintf(
            out,
            "\nA MODEL is a .onnx file or ONNX's text, told apart by their bytes; - is standard "
            "input.\n`ddpc help COMMAND` lists a command's flags. Exit codes: 0 success; 1 input "
            "rejected, denied or\ndifferent; 2 usage, I/O or a corrupt file; 3 internal "
            "error.\n");
        return;
    }
    fprintf(out, "usage: ddpc %s %s [--FLAG=VALUE ...]\n%s\n\n", c->name, c->arguments, c->summary);
    for (size_t i = 0; i < args_n_flags; i++) {
        const struct flag *f = &args_flags[i];
        if (!takes(c, f)) continue;
        char left[96];
        snprintf(left, sizeof left, "--%s%s%s", f->name, f->kind == FLAG_SET ? "" : "=",
                 f->group == F_FORMAT ? c->formats : f->argument);
        for (char *s = left; f->kind == FLAG_CHOICE || f->group == F_FORMAT; s++) {
            if (!*(s += strcspn(s, " "))) break;
            *s = '|';
        }
        if (strlen(left) <= 30)
            fprintf(out, "  %-30s %s\n", left, f->help);
        else
            fprintf(out, "  %s\n  %-30s %s\n", left, "", f->help);
    }
}

int tool_usage_error(const struct tool *t, const char *format, ...) {
    const struct command *c = t->command;
    struct arena a = {0};
    va_list ap;
    va_start(ap, format);
    const char *text = arena_vprintf(&a, format, ap);
    va_end(ap);
    const char *help =
        c ? arena_printf(&a, "usage: ddpc %s %s [--FLAG=VALUE ...]; `ddpc help %s` lists the flags",
                         c->name, c->arguments, c->name)
          : "`ddpc help` lists the commands";
    const char *who = c ? arena_printf(&a, "ddpc %s", c->name) : "ddpc";
    if (!tool_complain_coded(t, DIAG_USAGE, who, text, help))
        fprintf(stderr, "%s: error: %s\n%s\n", who, text, help);
    arena_free(&a);
    return TOOL_USAGE;
}

/* Splits `choices` at `separator` into the arena. */
static void split(struct arena *a, const char *choices, char separator, string_list *out) {
    for (const char *s = choices;; s++) {
        size_t n = strcspn(s, (char[]){separator, 0});
        vec_push(out, arena_strndup(a, s, n));
        s += n;
        if (!*s) return;
    }
}

/* How close a flag or value must be to be offered is diag_nearest's to say. */
static const char *did_you_mean(struct arena *a, const char *word, const string_list *among) {
    const char *near = diag_nearest(word, among->at, among->n);
    return near ? arena_printf(a, "; did you mean '%s'?", near) : "";
}

int tool_choice(const struct tool *t, const char *flag, const char *value, const char *choices) {
    if (!value) return 0;
    struct arena a = {0};
    string_list all = {0};
    split(&a, choices, ' ', &all);
    int found = -1;
    for (uint32_t i = 0; i < all.n; i++)
        if (!strcmp(all.at[i], value)) found = (int)i;
    if (found < 0)
        tool_usage_error(t, "'%s' is no value of --%s; it takes one of: %s%s", value, flag, choices,
                         did_you_mean(&a, value, &all));
    vec_free(&all);
    arena_free(&a);
    return found;
}

int tool_format(const struct tool *t) {
    return tool_choice(t, "format", t->format, t->command->formats);
}

/* Of numbers that flags take: a byte in MiB, and what in MiB a 64-bit count of bytes holds. */
#define LEAST_NUMBER   1e-6
#define LARGEST_NUMBER 1e9

static bool set_flag(struct tool *t, const struct flag *f, const char *value) {
    void *field = (char *)t + f->field;
    switch (f->kind) {
    case FLAG_LIST: vec_push((string_list *)field, value); return true;
    case FLAG_COMMAS: split(&t->arena, value, ',', field); return true;
    case FLAG_STRING: *(const char **)field = value; return true;
    case FLAG_SET: *(bool *)field = true; return true;
    case FLAG_CHOICE: {
        int i = tool_choice(t, f->name, value, f->argument);
        if (i < 0) return false;
        *(int *)field = i; /* an enum of this ABI */
        return true;
    }
    case FLAG_NUMBER:
    case FLAG_COUNT: {
        bool count = f->kind == FLAG_COUNT;
        double x;
        if (!keyfile_number(value, strlen(value), &x) ||
            !(x >= (count ? 1 : LEAST_NUMBER) && x <= LARGEST_NUMBER) ||
            (count && x != (double)(int32_t)x)) {
            tool_usage_error(t, "--%s takes a %s to %g, not '%s'", f->name,
                             count ? "whole number from 1" : "number above 0 and up",
                             LARGEST_NUMBER, value);
            return false;
        }
        if (count)
            *(int *)field = (int)x;
        else
            *(double *)field = x;
        return true;
    }
    }
    return false;
}

static const struct flag *find_flag(struct tool *t, const char *name, size_t len) {
    for (size_t i = 0; i < args_n_flags; i++) {
        const struct flag *f = &args_flags[i];
        if (strlen(f->name) != len || strncmp(f->name, name, len) != 0) continue;
        if (takes(t->command, f)) return f;
        tool_usage_error(t, "--%s is no flag of `ddpc %s`", f->name, t->command->name);
        return NULL;
    }
    string_list all = {0};
    for (size_t i = 0; i < args_n_flags; i++)
        if (takes(t->command, &args_flags[i])) vec_push(&all, args_flags[i].name);
    const char *word = arena_strndup(&t->arena, name, len);
    const char *near = diag_nearest(word, all.at, all.n);
    if (near)
        tool_usage_error(t, "there is no flag --%s; did you mean --%s?", word, near);
    else
        tool_usage_error(t, "there is no flag --%s", word);
    vec_free(&all);
    return NULL;
}

/* Reads `--name=value`, `--name value`, `-o FILE`; *i moves past what it took. */
static bool read_flag(struct tool *t, int argc, char **argv, int *i) {
    const char *arg = argv[*i];
    const char *name = arg[1] == '-' ? arg + 2 : arg + 1;
    size_t len = strcspn(name, "=");
    if (arg[1] != '-') {
        if (strcmp(arg, "-o") != 0) {
            tool_usage_error(t, "there is no flag %s; flags begin with two dashes, except -o", arg);
            return false;
        }
        name = "output";
        len = strlen(name);
    }
    const struct flag *f = find_flag(t, name, len);
    if (!f) return false;
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (f->kind == FLAG_SET) {
        if (value) tool_usage_error(t, "--%s takes no value", f->name);
        return !value && set_flag(t, f, NULL);
    }
    if (!value) {
        if (*i + 1 >= argc) {
            tool_usage_error(t, "--%s needs a value: %s", f->name, f->argument);
            return false;
        }
        value = argv[++*i];
    }
    if (!*value && (f->kind == FLAG_STRING || f->kind == FLAG_LIST) &&
        offsetof(struct tool, format) != f->field) {
        tool_usage_error(t, "--%s needs a value: %s", f->name, f->argument);
        return false;
    }
    return set_flag(t, f, value);
}

/* A first word that is near to a command and no file: said here, since as a model's name it would
 * lead to messages about files. */
static bool misspelt_command(struct tool *t, const char *word) {
    const char *names[sizeof args_commands / sizeof *args_commands];
    for (size_t i = 0; i < args_n_commands; i++) names[i] = args_commands[i].name;
    const char *near = *word == '-' ? NULL : diag_nearest(word, names, args_n_commands);
    if (!near || access(word, F_OK) == 0) return false;
    tool_usage_error(t, "there is no command and no file '%s'; did you mean `ddpc %s`?", word,
                     near);
    return true;
}

/* Renaming the finished output over a file that was read would lose that file. Only fmt may do so,
 * since what it writes is the same model. */
static bool writes_over(struct tool *t, const struct stat *output, const char *input) {
    struct stat st;
    if (!input || !strcmp(input, "-") || stat(input, &st) != 0) return false;
    if (st.st_dev != output->st_dev || st.st_ino != output->st_ino) return false;
    tool_usage_error(t, "the output %s would replace the input %s", t->output, input);
    return true;
}

static bool writes_over_an_input(struct tool *t) {
    struct stat output;
    if (!t->output || !strcmp(t->output, "-") || !strcmp(t->command->name, "fmt") ||
        stat(t->output, &output) != 0 || !S_ISREG(output.st_mode))
        return false;
    for (uint32_t i = 0; i < t->args.n; i++)
        if (writes_over(t, &output, t->args.at[i])) return true;
    for (size_t i = 0; i < args_n_flags; i++) {
        const struct flag *f = &args_flags[i];
        bool names_file = f->kind == FLAG_STRING && strstr(f->argument, "FILE");
        if (!names_file || f->field == offsetof(struct tool, output)) continue;
        if (writes_over(t, &output, *(const char **)((char *)t + f->field))) return true;
    }
    return false;
}

bool args_read(struct tool *t, int argc, char **argv, int *exit_code) {
    *exit_code = TOOL_OK;
    if (argc < 2) {
        args_print_usage(NULL, stderr);
        *exit_code = TOOL_USAGE;
        return false;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("ddpc %s\n", DDPC_VERSION);
        return false;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        args_print_usage(NULL, stdout);
        return false;
    }
    /* Errors before that flag's turn are printed in its form too. */
    for (int i = 1; i < argc; i++) {
        const char *value = "";
        if (!strcmp(argv[i - 1], "--diagnostics")) value = argv[i];
        if (!strncmp(argv[i], "--diagnostics=", 14)) value = argv[i] + 14;
        if (!strcmp(value, "json")) t->diagnostics = DIAGNOSTICS_JSON;
        if (!strcmp(value, "sarif")) t->diagnostics = DIAGNOSTICS_SARIF;
    }
    t->command = args_command(argv[1]);
    int first = t->command ? 2 : 1;
    if (!t->command && misspelt_command(t, argv[1])) {
        *exit_code = TOOL_USAGE;
        return false;
    }
    if (!t->command) t->command = args_command("compile");

    *exit_code = TOOL_USAGE;
    bool flags_end = false;
    for (int i = first; i < argc; i++) {
        if (!flags_end && !strcmp(argv[i], "--")) {
            flags_end = true;
        } else if (!flags_end && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            args_print_usage(t->command, stdout);
            *exit_code = TOOL_OK;
            return false;
        } else if (!flags_end && argv[i][0] == '-' && argv[i][1]) {
            if (!read_flag(t, argc, argv, &i)) return false;
        } else if (!*argv[i]) {
            tool_usage_error(t, "an argument is empty");
            return false;
        } else {
            vec_push(&t->args, argv[i]);
        }
    }
    if (t->options.from_list && t->args.n > t->command->min_args &&
        t->command->min_args + 1 == t->command->max_args) {
        tool_usage_error(t, "--from-list takes the place of MODEL; '%s' is one too many",
                         t->args.at[0]);
        return false;
    }
    uint32_t least = t->command->min_args;
    if (t->command->groups & F_MODEL && !t->options.from_list) least = t->command->max_args;
    if (t->args.n < least || t->args.n > t->command->max_args) {
        if (first == 1 && t->args.n == 0)
            tool_usage_error(t, "no model is named");
        else
            tool_usage_error(t, "it takes %s, not %u argument%s", t->command->arguments, t->args.n,
                             t->args.n == 1 ? "" : "s");
        return false;
    }
    return !writes_over_an_input(t);
}

void args_free(struct tool *t) {
    for (size_t i = 0; i < args_n_flags; i++)
        if (args_flags[i].kind == FLAG_LIST || args_flags[i].kind == FLAG_COMMAS) {
            string_list *list = (void *)((char *)t + args_flags[i].field);
            vec_free(list);
        }
    vec_free(&t->args);
    arena_free(&t->arena);
}
