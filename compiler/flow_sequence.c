/* Which element of a sequence a gradient goes to.
 *
 * Autograd knows no sequences: an element of a list is the tensor that was put there, and a tensor
 * whose element nobody takes gets nothing. So the gradient at a SequenceAt goes to the node that put
 * the element in, past the sequences between, where the graph says which that is. Otherwise - the
 * position comes at run time, a loop or an If has made the sequence - every element may get it, and
 * none does for certain. A sequence of the pieces of one tensor is an exception: whichever piece is
 * taken, the tensor gets its gradient.
 *
 * Where all of a sequence is used, as by ConcatFromSequence, the rules of the operator table do. */
#include "facts.h"
#include "flow.h"

#include <string.h>

enum kind { OTHER, COPY, CONSTRUCT, EMPTY, INSERT, ERASE, SPLIT };

static enum kind kind_of(const struct flow *f, ir_value v) {
    static const struct {
        const char *op;
        enum kind kind;
    } kinds[] = {
        {"Identity", COPY},
        {"Optional", COPY},
        {"OptionalGetElement", COPY},
        {"SequenceEmpty", EMPTY},
        {"SequenceConstruct", CONSTRUCT},
        {"SequenceInsert", INSERT},
        {"SequenceErase", ERASE},
        {"SplitToSequence", SPLIT},
    };
    const struct ir_value_info *value = &f->m->value.at[v];
    if (value->def != IR_DEF_NODE) return OTHER;
    const struct op_def *op = op_get(f->p->ops, f->m->node.at[value->node].def);
    for (size_t i = 0; !*op->domain && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].op, op->name)) return kinds[i].kind;
    return OTHER;
}

/* -1: not known. */
static int64_t length_of(const struct flow *f, ir_value v) {
    int64_t more = 0;
    for (;;) {
        ir_node n = f->m->value.at[v].node;
        switch (kind_of(f, v)) {
        case CONSTRUCT: return f->m->node.at[n].n_inputs + more;
        case EMPTY: return more;
        case INSERT: more++; break;
        case ERASE: more--; break;
        case COPY: break;
        default: return -1;
        }
        v = ir_input(f->m, n, 0);
    }
}

/* The position that a node's input `i` says, or the last of `length`; from the start if that is
 * known, else negative from the end. */
static bool position_of(const struct flow *f, ir_node n, uint32_t i, int64_t length, int64_t *out) {
    ir_value v = ir_input(f->m, n, i);
    *out = -1;
    if (v && !facts_number(f->m, v, out)) return false;
    if (*out < 0 && length >= 0) *out += length;
    return true;
}

/* Whether `outer` is the graph of `inner`, or around it with nothing but Ifs between. */
static bool runs_with(const struct ir_module *m, ir_graph inner, ir_graph outer) {
    for (; inner != outer; inner = m->graph.at[inner].parent)
        if (!inner || strcmp(ir_text(m, m->node.at[m->graph.at[inner].owner].op), "If") != 0)
            return false;
    return true;
}

bool sequence_way(const struct flow *f, ir_node at, struct sequence_way *way) {
    const struct ir_module *m = f->m;
    ir_value s = ir_input(m, at, 0);
    int64_t pos = 0, q;
    bool known = position_of(f, at, 1, length_of(f, s), &pos);
    *way = (struct sequence_way){.n = 1, .at[0] = {at, 0}};
    while (way->n < SEQUENCE_MAX_WAY && runs_with(m, m->node.at[at].graph, m->value.at[s].graph)) {
        ir_node n = m->value.at[s].node;
        uint32_t input = 0;
        int64_t length;
        bool end = false;
        switch (kind_of(f, s)) {
        case COPY: break;
        case SPLIT: end = true; break;
        case CONSTRUCT:
            if (m->node.at[n].n_inputs == 1)
                pos = 0;
            else if (!known || pos < 0 || pos >= m->node.at[n].n_inputs)
                return false;
            input = (uint32_t)pos;
            end = true;
            break;
        case INSERT:
            length = length_of(f, ir_input(m, n, 0));
            /* Without a position it becomes the last, whatever the length. */
            if (length >= 0 && !ir_input(m, n, 2)) length++;
            if (!known || !position_of(f, n, 2, length, &q)) return false;
            if (ir_input(m, n, 2) && q < 0) return false;
            if ((pos < 0) != (q < 0)) return false;
            input = end = pos == q;
            pos += q < 0 ? pos < q : -(pos > q);
            break;
        case ERASE:
            if (!known || !position_of(f, n, 1, length_of(f, ir_input(m, n, 0)), &q)) return false;
            if ((pos < 0) != (q < 0) || (ir_input(m, n, 1) && q < 0)) return false;
            pos += q < 0 ? -1 : pos >= q;
            break;
        default: return false;
        }
        way->at[way->n++] = (struct sequence_step){n, input};
        if (end) return true;
        s = ir_inputs(m, n)[0];
    }
    return false;
}

bool sequence_of_pieces(const struct flow *f, ir_value v) {
    for (;;) {
        ir_node n = f->m->value.at[v].node;
        switch (kind_of(f, v)) {
        case SPLIT: return true;
        case COPY:
        case ERASE: v = ir_input(f->m, n, 0); break;
        default: return false;
        }
    }
}
