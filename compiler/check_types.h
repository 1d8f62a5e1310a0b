/* Types that contradict what operators take; part of the inference of types. */
#ifndef DDPC_CHECK_TYPES_H
#define DDPC_CHECK_TYPES_H

#include "diag.h"
#include "ir.h"
#include "ops.h"

struct type_rule;

/* What the inputs of this operator of ONNX must be; NULL: anything. */
const struct type_rule *check_types_rule(const char *op);
/* False after reporting an input of a wrong type. */
bool check_types_node(const struct ir_module *m, ir_node n, const struct type_rule *rule,
                      struct diags *d);

#endif
