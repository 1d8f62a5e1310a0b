/* `ddpc fmt MODEL`: the model as canonical text.
 *
 * It needs only syntax, so it prints models that do not verify: the first thing to do with a text
 * that somebody sends along with a question. A text with a syntax error is not printed at all,
 * since half a model in place of a whole one is a loss. */
#include "tool.h"

int tool_fmt(struct tool *t) {
    const char *why;
    struct source source;
    struct diags diags;
    struct ir_module module;
    if (!source_open(&source, t->args.at[0], &why)) {
        diags_init(&diags, NULL);
        diag_plain(&diags, DIAG_CANNOT_READ, t->args.at[0], "cannot read the model: %s", why);
        tool_print_diags(t, &diags);
        diags_free(&diags);
        return TOOL_USAGE;
    }
    diags_init(&diags, &source);
    bool ok = ir_parse(&module, &source, &diags);
    int status = ok ? TOOL_OK : TOOL_REJECTED;
    if (ok) {
        struct tool_output output;
        FILE *out = tool_output_open(t, &output, t->output);
        bool whole = out && (t->elide ? ir_print_elided : ir_print)(&module, out);
        if (!out || !tool_output_close(&output, whole)) status = TOOL_USAGE;
        if (out && !whole) {
            diag_plain(&diags, DIAG_NO_TEXT, source.name,
                       "a string in the model holds a NUL, which no text can");
            status = TOOL_REJECTED;
        }
    }
    tool_print_diags(t, &diags);
    ir_module_free(&module);
    diags_free(&diags);
    source_free(&source);
    return status;
}
