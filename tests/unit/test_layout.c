/* From the passes' results to a plan: what stands in the plan is what the passes said. */
#define _POSIX_C_SOURCE 200809L
#include "emit.h"
#include "random.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct compiled {
    struct compilation c;
    struct options options;
    struct plan *plan;
};

/* A model's text, or a list's. */
static void compile(struct compiled *out, const char *text, bool list) {
    char path[] = "/tmp/ddpc-test-layout-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    if (list) out->options.from_list = path;
    pipeline_init(&out->c, &out->options);
    bool ok = pipeline_run(&out->c, path, PIPELINE_schedule);
    unlink(path);
    if (!ok) diags_print(&out->c.diags, stderr, false, false);
    cr_assert(ok);
    out->plan = emit_plan(&out->c);
    cr_assert_not_null(out->plan);
}

static void release(struct compiled *c) {
    plan_close(c->plan);
    vec_free(&c->options.uniform);
    pipeline_free(&c->c);
}

/* ---- guards ---------------------------------------------------------------------------------- */

enum { BRANCHES = 6, PARAMS = 60, MAX_NODES = 1 << 12 };

/* Expressions over the branches b0 ... b5 as trees in an array, with their own evaluation. */
struct expression {
    char op; /* 'v' variable, '!', '&', '|' */
    int left, right;
};
static struct expression pool[MAX_NODES];
static int n_pool;

static int make(uint64_t *r, int depth) {
    int at = n_pool++;
    cr_assert_lt(at, MAX_NODES);
    uint32_t what = depth == 0 ? 0 : random_below(r, 4);
    pool[at].op = "v!&|"[what];
    if (what == 0)
        pool[at].left = (int)random_below(r, BRANCHES);
    else
        pool[at].left = make(r, depth - 1);
    if (what > 1) pool[at].right = make(r, depth - 1);
    return at;
}

static bool evaluate(int e, uint32_t values) {
    switch (pool[e].op) {
    case 'v': return values >> pool[e].left & 1;
    case '!': return !evaluate(pool[e].left, values);
    case '&': return evaluate(pool[e].left, values) && evaluate(pool[e].right, values);
    default: return evaluate(pool[e].left, values) || evaluate(pool[e].right, values);
    }
}

static void print(int e, FILE *out) {
    switch (pool[e].op) {
    case 'v': fprintf(out, "b%d", pool[e].left); return;
    case '!':
        fputs("!(", out);
        print(pool[e].left, out);
        break;
    default:
        fputc('(', out);
        print(pool[e].left, out);
        fputs(pool[e].op == '&' ? " && " : " || ", out);
        print(pool[e].right, out);
    }
    fputc(')', out);
}

static void check_guards(const struct plan *p, const int *expression) {
    uint32_t branch[BRANCHES];
    cr_assert_eq(p->n_params, PARAMS);
    for (int i = 0; i < BRANCHES; i++) {
        char name[8];
        snprintf(name, sizeof name, "b%d", i);
        branch[i] = plan_find_branch(p, name);
    }
    for (uint32_t i = 0; i < PARAMS; i++) {
        const struct plan_step_param *sp = plan_step_param(p, 0, i);
        uint32_t n_true = 0;
        for (uint32_t values = 0; values < 1u << BRANCHES; values++) {
            uint8_t value[BRANCHES] = {0};
            bool holds = evaluate(expression[i], values);
            n_true += holds;
            if (sp->class != PLAN_CONDITIONAL) continue;
            for (int k = 0; k < BRANCHES; k++)
                if (branch[k] != PLAN_NONE) value[branch[k]] = values >> k & 1;
            cr_assert_eq(plan_guard_holds(p, sp->guard, value), holds, "parameter %u", i);
        }
        enum plan_class class = n_true == 0                ? PLAN_NEVER
                                : n_true == 1u << BRANCHES ? PLAN_ALWAYS
                                                           : PLAN_CONDITIONAL;
        cr_assert_eq(sp->class, class, "parameter %u", i);
    }
    /* Equal functions are one guard, and every branch is needed by some. */
    for (uint32_t i = 0; i < p->n_guards; i++)
        for (uint32_t k = 0; k < i; k++) cr_assert_neq(p->guard[i].root, p->guard[k].root);
    for (uint32_t i = 0; i < p->n_branches; i++) {
        bool used = false;
        for (uint32_t k = 0; k < p->n_guard_nodes; k++) used |= p->guard_node[k].branch == i;
        cr_assert(used);
    }
}

Test(layout, guards_are_the_functions_of_the_list) {
    uint64_t r = 7;
    for (int round = 0; round < 6; round++) {
        struct compiled c = {0};
        char *text;
        size_t size;
        int expression[PARAMS];
        FILE *out = open_memstream(&text, &size);
        n_pool = 0;
        for (int i = 0; i < PARAMS; i++) {
            fprintf(out, "p%d float32 %d 0 ", i, 1 + i);
            print(expression[i] = make(&r, 1 + i % 4), out);
            fputc('\n', out);
        }
        fclose(out);
        if (round % 2) vec_push(&c.options.uniform, "b[024]");
        compile(&c, text, true);
        check_guards(c.plan, expression);
        /* A guard is uniform iff no function of it depends on an odd branch. */
        for (uint32_t i = 0; i < PARAMS; i++) {
            const struct plan_step_param *sp = plan_step_param(c.plan, 0, i);
            bool odd = false;
            if (sp->class != PLAN_CONDITIONAL) continue;
            for (uint32_t v = 0; v < 1u << BRANCHES; v++)
                for (uint32_t k = 1; k < BRANCHES; k += 2)
                    odd |= evaluate(expression[i], v) != evaluate(expression[i], v ^ 1u << k);
            cr_assert_eq(c.plan->guard[sp->guard].control_pair != PLAN_NONE, round % 2 && !odd);
            const struct plan_bucket *b = &c.plan->bucket[c.plan->segment[sp->segment].bucket];
            cr_assert_eq(b->guard, round % 2 && !odd ? sp->guard : PLAN_NONE);
        }
        release(&c);
        free(text);
    }
}

/* ---- parameters and steps -------------------------------------------------------------------- */

static const char model[] =
    "<ir_version: 8, opset_import: [\"\" : 17],\n"
    "  metadata_props: [\"ddpc.step.d\": \"loss=d_loss trainable=d.*\",\n"
    "                   \"ddpc.step.g\": \"loss=g_loss trainable=g.*\"]>\n"
    "m (float[2,3,4,4] x) => (float d_loss, float g_loss)\n"
    "<float[3] \"d.scale\", float[3] \"d.bias\", float[3] \"g.mean\", float[3] \"g.var\",\n"
    "  float[1] \"g.w\", float[5] \"g.unused\">\n"
    "{\n"
    "  n = BatchNormalization (x, \"d.scale\", \"d.bias\", \"g.mean\", \"g.var\")\n"
    "  d_loss = ReduceMean <keepdims = 0> (n)\n"
    "  y = Mul (n, \"g.w\")\n"
    "  g_loss = ReduceMean <keepdims = 0> (y)\n"
    "}\n";

Test(layout, steps_and_parameters) {
    struct compiled c = {0};
    compile(&c, model, false);
    const struct plan *p = c.plan;
    cr_assert_eq(p->n_steps, 2);
    /* A declared name is a parameter also where it is a running mean: d.scale ... g.unused, in
     * order. */
    uint32_t n = 0;
    for (uint32_t i = 0; i < c.c.program.params.n; i++) {
        const struct param *param = &c.c.program.params.at[i];
        if (param->kind == PARAM_BUFFER) continue;
        cr_assert_str_eq(plan_param_name(p, n), ir_text(&c.c.module, param->name));
        cr_assert_eq(p->param[n].elements, (uint64_t)param->elements);
        n++;
    }
    cr_assert_eq(p->n_params, n);
    uint32_t scale = plan_find_param(p, "d.scale", 7), w = plan_find_param(p, "g.w", 3);
    uint32_t unused = plan_find_param(p, "g.unused", 8);
    uint32_t d = plan_find_step(p, "d"), g = plan_find_step(p, "g");
    cr_assert_eq(plan_step_param(p, d, scale)->class, PLAN_ALWAYS);
    cr_assert_eq(plan_step_param(p, d, w)->class, PLAN_FROZEN);
    cr_assert_eq(plan_step_param(p, g, scale)->class, PLAN_FROZEN);
    cr_assert_eq(plan_step_param(p, g, w)->class, PLAN_ALWAYS);
    cr_assert_eq(plan_step_param(p, g, unused)->class, PLAN_NEVER);
    cr_assert_eq(p->source[scale].line, 5);
    cr_assert_eq(p->source[w].line, 6);
    release(&c);
}

/* Buckets, their times and the order of gradients are the schedule's. */
Test(layout, buckets_are_the_schedules) {
    struct compiled c = {0};
    compile(&c,
            "a float32 100x1000 10\nb float32 100x1000 20\nc float16 100x1000 25\n"
            "d float32 100x1000 2000 flag\ne float32 100x1000 4000\n",
            true);
    const struct plan *p = c.plan;
    const struct sched *s = &c.c.sched[0];
    uint32_t bucket = 0, segment = 0;
    for (uint32_t i = 0; i < p->n_buckets; i++) {
        const struct plan_bucket *b = &p->bucket[i];
        if (b->kind != PLAN_GRADIENT) continue;
        const struct sched_bucket *from = &s->bucket.at[bucket++];
        cr_assert_eq(b->n_segments, from->n);
        cr_assert(b->ready_us == from->ready_us && b->start_us == from->start_us &&
                  b->end_us == from->end_us);
        for (uint32_t k = 0; k < b->n_segments; k++, segment++) {
            cr_assert_eq(p->segment[segment].param, s->item.at[segment].param);
            cr_assert_eq(plan_segment_bytes(p->segment[segment].bytes), s->item.at[segment].bytes);
        }
    }
    cr_assert_eq(bucket, s->bucket.n);
    cr_assert_eq(segment, 5);
    cr_assert(p->step[0].finish_us == s->finish_us);
    cr_assert_eq(p->source[0].line, 0, "a list has no place in a model");
    release(&c);
}
