/* `ddpc dump --format=header`: a plan as a C header, for programs that want it inside themselves.
 * It has the file's bytes, for ddprt_plan_from_memory, and an enum each for steps, parameters and
 * branches, so that no name is looked up at run time. Names become identifiers: what C does not
 * allow becomes '_', and a second taker of an identifier gets its index at the end. */
#include "plan_tool.h"
#include <string.h>

static bool is_identifier_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* One enum; `name(p, i)` gives the names of its n constants. */
static void print_enum(const struct plan *p, const char *what, uint32_t n,
                       const char *(*name)(const struct plan *p, uint32_t i), FILE *out) {
    struct strtab taken;
    struct arena scratch = {0};
    if (n == 0) return;
    strtab_init(&taken);
    fprintf(out, "\nenum ddp_%s {\n", what);
    for (uint32_t i = 0; i < n; i++) {
        char *id = arena_printf(&scratch, "%s", name(p, i));
        str known;
        for (char *c = id; *c; c++)
            if (!is_identifier_byte(*c)) *c = '_';
        /* An identifier made unique may itself be the plain form of a later name, so ask again. */
        while (strtab_find(&taken, id, strlen(id), &known))
            id = arena_printf(&scratch, "%s_%u", id, i);
        strtab_addz(&taken, id);
        fprintf(out, "    DDP_%s_%s = %u,\n", what, id, i);
    }
    fputs("};\n", out);
    strtab_free(&taken);
    arena_free(&scratch);
}

static const char *step_name(const struct plan *p, uint32_t i) {
    return plan_string(p, p->step[i].name);
}
static const char *branch_name(const struct plan *p, uint32_t i) {
    return plan_string(p, p->branch[i].name);
}

void dump_header(const struct plan *p, FILE *out) {
    const unsigned char *bytes = p->bytes;
    fputs("/* A reduction plan, written by ddpc dump --format=header. Semantic hash ", out);
    for (int i = 0; i < 16; i++) fprintf(out, "%02x", p->header->semantic_hash[i]);
    fputs(". */\n#ifndef DDP_PLAN_H\n#define DDP_PLAN_H\n", out);
    print_enum(p, "step", p->n_steps, step_name, out);
    print_enum(p, "param", p->n_params, plan_param_name, out);
    print_enum(p, "branch", p->n_branches, branch_name, out);
    fprintf(out,
            "\n/* For ddprt_plan_from_memory. */\n#define DDP_PLAN_SIZE %zu\n"
            "static const unsigned char ddp_plan[DDP_PLAN_SIZE] = {",
            p->size);
    for (size_t i = 0; i < p->size; i++)
        fprintf(out, "%s%u", i % 20 ? "," : i ? ",\n    " : "\n    ", bytes[i]);
    fputs("\n};\n\n#endif\n", out);
}
