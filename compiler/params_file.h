/* --params FILE: what the module really has, one parameter a line:
 *
 *     name dtype shape requires_grad [alias...]
 *     encoder.weight float32 3x5 true
 *     wte.weight     float32 [50257,768] true lm_head.weight    # tied: one parameter, two names */
#ifndef DDPC_PARAMS_FILE_H
#define DDPC_PARAMS_FILE_H

#include "ir.h"

struct params_entry {
    str name;
    ir_type type;
    uint32_t aliases, n_aliases; /* in params_list.alias */
    bool requires_grad;
    uint32_t line;
};

struct params_list {
    VEC(struct params_entry) all;
    VEC(str) alias;
};

/* Names are interned in `m`. False after reporting; free it either way. */
bool params_file_read(struct params_list *list, struct ir_module *m, const char *path,
                      struct diags *d);
void params_file_free(struct params_list *list);

#endif
