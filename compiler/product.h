/* Products of sizes of which some are symbols. */
#ifndef DDPC_PRODUCT_H
#define DDPC_PRODUCT_H

#include "ir.h"

enum { PRODUCT_MAX = 8 };

struct product {
    bool known;
    int64_t number;
    uint32_t n;
    str symbol[PRODUCT_MAX]; /* in any order, each as often as it is a factor */
};

/* Not known if one of the sizes is not. */
struct product product_of(struct ir_module *m, const struct ir_dim *sizes, int32_t n);
/* Not known unless it leaves no rest, whatever the symbols are. */
struct product product_over(struct product a, const struct product *b);
/* '?' if it is not known; a product of symbols is a symbol of its own, "2*B*S". */
struct ir_dim product_size(struct ir_module *m, struct product p);

#endif
