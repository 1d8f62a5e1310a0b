/* Functions that call themselves, directly or through others: inlining them would never end.
 *
 * Depth first over the calls between functions, without recursion of our own; a call of a function
 * that is still on the path closes a circle. The calls were listed while the nodes were checked, so
 * this costs functions plus calls. */
#include "verify.h"
#include <stdlib.h>

enum { SHOWN_CALLS = 8 }; /* of a circle */
enum color { WHITE, GREY, BLACK };

static int by_caller(const void *a, const void *b) {
    const struct call *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void report_recursion(struct verifier *v, const ir_function *path, const uint32_t *next,
                             uint32_t depth, const struct call *back) {
    uint32_t start = depth - 1;
    while (path[start] != back->to) start--;
    uint32_t shown = depth - start > SHOWN_CALLS ? start + SHOWN_CALLS : depth;
    const char *text = "";
    for (uint32_t i = start; i < shown; i++)
        text = arena_printf(&v->d->arena, "%s'%s' calls ", text, verify_function_name(v, path[i]));
    if (shown < depth)
        text = arena_printf(&v->d->arena, "%s%u more functions and at last ", text, depth - shown);
    struct diag *e = diag_at(v->d, DIAG_FUNCTION_RECURSION, v->m->node.at[back->node].loc,
                             verify_operator_length(v, &v->m->node.at[back->node]),
                             "%s'%s', without end", text, verify_function_name(v, back->to));
    for (uint32_t i = start; i < shown; i++) {
        const struct call *call = &v->calls.at[next[i] - 1];
        if (call != back)
            diag_add_note(v->d, e, v->m->node.at[call->node].loc, "'%s' calls '%s' here",
                          verify_function_name(v, call->from), verify_function_name(v, call->to));
    }
}

void verify_recursion(struct verifier *v) {
    uint32_t n = v->m->function.n, n_calls = v->calls.n, depth = 0;
    if (!n_calls) return;
    qsort(v->calls.at, n_calls, sizeof *v->calls.at, by_caller);
    struct arena scratch = {0};
    uint8_t *color = arena_new(&scratch, uint8_t, n);
    uint32_t *first = arena_new(&scratch, uint32_t, n + 1),
             *next = arena_new(&scratch, uint32_t, n);
    ir_function *path = arena_new(&scratch, ir_function, n);
    for (uint32_t i = 0; i < n_calls; i++) first[v->calls.at[i].from + 1]++;
    for (uint32_t f = 0; f < n; f++) first[f + 1] += first[f];
    for (ir_function root = 1; root < n; root++) {
        if (color[root] != WHITE) continue;
        color[root] = GREY;
        next[depth] = first[root];
        path[depth++] = root;
        while (depth) {
            ir_function at = path[depth - 1];
            if (next[depth - 1] == first[at + 1]) {
                color[at] = BLACK;
                depth--;
                continue;
            }
            const struct call *call = &v->calls.at[next[depth - 1]++];
            if (color[call->to] == GREY) {
                report_recursion(v, path, next, depth, call);
            } else if (color[call->to] == WHITE) {
                color[call->to] = GREY;
                next[depth] = first[call->to];
                path[depth++] = call->to;
            }
        }
    }
    arena_free(&scratch);
}
