/* Opening a plan on behalf of a command: the reader's one sentence becomes a diagnostic with a code
 * that `ddpc help` explains. */
#include "plan_tool.h"
#include <string.h>

static enum diag_code code_of(enum plan_status status) {
    switch (status) {
    case PLAN_NOT_A_PLAN: return DIAG_NOT_A_PLAN;
    case PLAN_OTHER_MAJOR: return DIAG_PLAN_OTHER_MAJOR;
    case PLAN_TRUNCATED: return DIAG_PLAN_TRUNCATED;
    case PLAN_BAD_HASH: return DIAG_PLAN_DAMAGED;
    case PLAN_CORRUPT: return DIAG_PLAN_CORRUPT;
    case PLAN_OK:
    case PLAN_UNREADABLE:
    case PLAN_NO_MEMORY: break;
    }
    return DIAG_PLAN_UNREADABLE;
}

/* Whether the beginning of the file reads like a text, as a model's would. */
static bool is_text(const char *path) {
    char bytes[512];
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0, i = 0;
    if (file) fclose(file);
    while (i < n && ((unsigned char)bytes[i] >= ' ' || strchr("\t\r\n", bytes[i])) && bytes[i]) i++;
    return n && i == n;
}

struct plan *tool_open_plan(const struct tool *t, const char *path) {
    struct plan_error error;
    struct diags d;
    bool standard = strcmp(path, "-") == 0;
    struct plan *p = plan_open_file(standard ? "/dev/stdin" : path, &error);
    if (p) return p;
    diags_init(&d, NULL);
    const char *file = standard ? "<stdin>" : path;
    bool text = error.status == PLAN_NOT_A_PLAN && !standard && is_text(path);
    struct diag *g =
        text ? diag_plain(&d, DIAG_NOT_A_PLAN, file, "this is a text, not a plan")
             : diag_plain(&d, code_of(error.status), file, "the file %s", error.message);
    if (text)
        diag_set_help(&d, g, "if it is a model, `ddpc %s -o PLAN` compiles it", path);
    else if (error.status == PLAN_NOT_A_PLAN)
        diag_set_help(&d, g, "ddpc MODEL -o PLAN compiles a model into a plan");
    if (error.status == PLAN_OTHER_MAJOR)
        diag_set_help(&d, g, "compile the model again with this ddpc");
    tool_print_diags(t, &d);
    diags_free(&d);
    return NULL;
}
