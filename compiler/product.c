/* Products of sizes, symbols among them, and what is left of one divided by another.
 *
 * A product of symbols is a symbol again, whose name says what it is, as exporters write it: 2*B*S.
 * Its factors are sorted, so that equal products have one name and are one size. A factor with
 * another operator in its name would be ambiguous in a longer one and is not multiplied. */
#include "product.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the name is one of ours, or cannot be taken for more than one factor. */
static bool is_plain(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++) {
        bool star = name[i] == '*';
        if (!isalnum((unsigned char)name[i]) && !strchr("_.:", name[i]) && !star) return false;
        if (star && (i == 0 || i + 1 == length || name[i + 1] == '*')) return false;
    }
    return length > 0;
}

static void put_number(struct product *p, int64_t n) {
    if (n < 0 || __builtin_mul_overflow(p->number, n, &p->number)) p->known = false;
}

static void put_symbol(struct product *p, str symbol) {
    if (p->n == PRODUCT_MAX)
        p->known = false;
    else
        p->symbol[p->n++] = symbol;
}

static void put_size(struct ir_module *m, struct product *p, struct ir_dim d) {
    const char *name = ir_text(m, d.symbol), *end = name + strtab_len(&m->strings, d.symbol);
    if (!d.symbol) {
        put_number(p, d.size);
    } else if (!is_plain(name, (size_t)(end - name))) {
        put_symbol(p, d.symbol);
    } else {
        for (; name < end; name += strcspn(name, "*") + 1) {
            size_t length = strcspn(name, "*");
            if (strspn(name, "0123456789") == length && length < 10)
                put_number(p, strtoll(name, NULL, 10));
            else
                put_symbol(p, strtab_add(&m->strings, name, length));
        }
    }
}

struct product product_of(struct ir_module *m, const struct ir_dim *sizes, int32_t n) {
    struct product p = {.known = true, .number = 1};
    for (int32_t i = 0; i < n && p.known; i++) put_size(m, &p, sizes[i]);
    return p;
}

struct product product_over(struct product a, const struct product *b) {
    a.known &= b->known && b->number > 0 && a.number % (b->number > 0 ? b->number : 1) == 0;
    if (!a.known) return a;
    a.number /= b->number;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t k = 0;
        while (k < a.n && a.symbol[k] != b->symbol[i]) k++;
        if (k == a.n) {
            a.known = false;
            return a;
        }
        a.symbol[k] = a.symbol[--a.n];
    }
    return a;
}

/* By their texts, so that names do not depend on the order in which they were met. */
static void sort(const struct ir_module *m, struct product *p) {
    for (uint32_t i = 1; i < p->n; i++)
        for (uint32_t k = i;
             k && strcmp(ir_text(m, p->symbol[k - 1]), ir_text(m, p->symbol[k])) > 0; k--) {
            str s = p->symbol[k];
            p->symbol[k] = p->symbol[k - 1];
            p->symbol[k - 1] = s;
        }
}

struct ir_dim product_size(struct ir_module *m, struct product p) {
    struct ir_dim unknown = {.size = -1};
    char name[256];
    size_t at = 0;
    if (!p.known) return unknown;
    if (!p.n || !p.number) return (struct ir_dim){.size = p.number};
    if (p.n == 1 && p.number == 1) return (struct ir_dim){.size = -1, .symbol = p.symbol[0]};
    sort(m, &p);
    if (p.number != 1) at = (size_t)snprintf(name, sizeof name, "%" PRId64, p.number);
    for (uint32_t i = 0; i < p.n; i++) {
        size_t length = strtab_len(&m->strings, p.symbol[i]);
        bool plain = is_plain(ir_text(m, p.symbol[i]), length);
        if (!plain || at + 1 + length >= sizeof name) return unknown;
        if (at) name[at++] = '*';
        memcpy(name + at, ir_text(m, p.symbol[i]), length);
        at += length;
    }
    return (struct ir_dim){.size = -1, .symbol = strtab_add(&m->strings, name, at)};
}
