/* The two forms of `ddpc diff`'s report. */
#ifndef DDPC_DIFF_PRINT_H
#define DDPC_DIFF_PRINT_H

#include "diff.h"
#include <stdio.h>

void diff_print_text(const struct diff *d, FILE *out);
void diff_print_json(const struct diff *d, FILE *out);

#endif
