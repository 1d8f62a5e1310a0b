/* Sizes of inputs that contradict each other; part of the inference of types. */
#ifndef DDPC_CHECK_SIZES_H
#define DDPC_CHECK_SIZES_H

#include "diag.h"
#include "facts.h"

/* 0: the sizes of this operator of ONNX are not compared. */
uint32_t check_sizes_rule(const char *op);
/* Before the node's outputs have types. */
void check_sizes_node(const struct facts *f, ir_node n, uint32_t rule, struct diags *d);

#endif
