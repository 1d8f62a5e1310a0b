/* `ddpc dump`: a plan in words. The text is meant for people and for `git diff` (as a textconv):
 * one line per fact, in the plan's order, no column whose width depends on another line. */
#include "plan_tool.h"

static void print_type(const struct plan *p, uint32_t param, FILE *out) {
    const struct plan_param *q = &p->param[param];
    fputs(plan_dtype_name(q->dtype), out);
    fputc('[', out);
    for (uint32_t i = 0; i < q->rank; i++)
        fprintf(out, "%s%lld", i ? "," : "", (long long)p->dim[q->first_dim + i]);
    fputc(']', out);
}

static void print_guard(const struct plan *p, uint32_t guard, bool exact, FILE *out) {
    if (guard == PLAN_NONE) return;
    fputs("  if ", out);
    tool_put(out, plan_string(p, p->guard[guard].text));
    if (!exact) fputs(" (at most)", out);
}

static void print_bucket(const struct plan *p, const struct plan_step *step, uint32_t bucket,
                         FILE *out) {
    const struct plan_bucket *b = &p->bucket[bucket];
    fprintf(out, "  bucket %u  %s %s  %s  offset %llu  %llu bytes", bucket - step->first_bucket,
            plan_bucket_kind_name(b->kind), plan_dtype_name(b->dtype), plan_class_name(b->class),
            (unsigned long long)b->offset,
            (unsigned long long)(b->kind == PLAN_GRADIENT ? b->gradient_bytes : b->bytes));
    print_guard(p, b->guard, true, out);
    if (b->kind == PLAN_GRADIENT)
        fprintf(out, "  ready %.3f µs  start %.3f µs  end %.3f µs", b->ready_us, b->start_us,
                b->end_us);
    fputc('\n', out);
    for (uint32_t i = 0; i < b->n_segments; i++) {
        const struct plan_segment *s = &p->segment[b->first_segment + i];
        const struct plan_step_param *sp = plan_step_param(p, b->step, s->param);
        fputs("    ", out);
        tool_put(out, plan_param_name(p, s->param));
        fputs("  ", out);
        print_type(p, s->param, out);
        fprintf(out, "  offset %llu  %llu bytes", (unsigned long long)s->offset,
                (unsigned long long)s->bytes);
        print_guard(p, sp->guard, sp->exact, out);
        fputc('\n', out);
    }
}

static void print_step(const struct plan *p, uint32_t index, FILE *out) {
    const struct plan_step *s = &p->step[index];
    uint32_t count[PLAN_N_CLASSES] = {0};
    for (uint32_t i = 0; i < p->n_params; i++) count[plan_step_param(p, index, i)->class]++;
    fputs("\nstep ", out);
    tool_put(out, plan_string(p, s->name));
    fprintf(out, "\n  schedule   %s", plan_policy_name(s->policy));
    if (s->policy == PLAN_DDP) fprintf(out, ", %s order", plan_order_name(s->order));
    fprintf(out, ", on %s\n", plan_string(p, s->topology));
    fprintf(
        out,
        "  predicted  finish %.3f µs, backward %.3f µs, exposed %.3f µs, no plan below %.3f µs\n",
        s->finish_us, s->backward_us, s->exposed_us, s->lower_bound_us);
    if (s->worst_regret >= 0) {
        double optimum = p->certificate[index].optimum_us;
        fputs("  robust     ", out);
        if (optimum > 0)
            fprintf(out, "within %.3f %% of the optimum, ", 100 * (s->finish_us / optimum - 1));
        fprintf(out, "worst regret %.3f %% where predictions are off\n", 100 * s->worst_regret);
    }
    fprintf(out, "  average    %s, guards %s\n", plan_average_name(s->average),
            plan_guards_name(s->guards));
    fprintf(out, "  arena      %llu bytes, error slot at %llu\n",
            (unsigned long long)s->arena_bytes, (unsigned long long)s->error_offset);
    fprintf(out, "  classes    %u always, %u conditional, %u never, %u frozen\n",
            count[PLAN_ALWAYS], count[PLAN_CONDITIONAL], count[PLAN_NEVER], count[PLAN_FROZEN]);
    for (uint32_t i = 0; i < s->n_buckets; i++) print_bucket(p, s, s->first_bucket + i, out);
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_step_param *sp = plan_step_param(p, index, i);
        if (sp->segment != PLAN_NONE) continue;
        fprintf(out, "  %-7s  ", plan_class_name(sp->class));
        tool_put(out, plan_param_name(p, i));
        fputs("  ", out);
        print_type(p, i, out);
        fputc('\n', out);
    }
}

void dump_text(const struct plan *p, FILE *out) {
    fprintf(out, "plan       format %u.%u, protocol %u, %zu bytes\n", p->header->major,
            p->header->minor, p->header->protocol, p->size);
    fputs("semantics  ", out);
    for (int i = 0; i < 16; i++) fprintf(out, "%02x", p->header->semantic_hash[i]);
    fputs("\noptions   ", out);
    for (uint32_t i = 0; i < p->n_options; i++)
        fprintf(out, " %s=%s", plan_string(p, p->option[i].key),
                plan_string(p, p->option[i].value));
    fputc('\n', out);
    for (uint32_t i = 0; i < p->n_branches; i++) {
        fputs("branch     ", out);
        tool_put(out, plan_string(p, p->branch[i].name));
        fputs(p->branch[i].uniform ? "  uniform\n" : "\n", out);
    }
    for (uint32_t i = 0; i < p->n_steps; i++) print_step(p, i, out);
}

void plan_guard_branches(const struct plan *p, uint32_t guard, branch_list *out) {
    uint32_t root = p->guard[guard].root;
    if (root < 2) return;
    /* One byte per node below the root and per branch; children have lower indices. */
    struct arena scratch = {0};
    uint8_t *reached = arena_alloc(&scratch, root), *used = arena_alloc(&scratch, p->n_branches);
    reached[root - 2] = 1;
    for (uint32_t i = root - 1; i-- > 0;) {
        if (!reached[i]) continue;
        const struct plan_guard_node *n = &p->guard_node[i];
        used[n->branch] = 1;
        if (n->low >= 2) reached[n->low - 2] = 1;
        if (n->high >= 2) reached[n->high - 2] = 1;
    }
    for (uint32_t i = 0; i < p->n_branches; i++)
        if (used[i]) vec_push(out, i);
    arena_free(&scratch);
}

int tool_dump(struct tool *t) {
    static void (*const print[])(const struct plan *, FILE *) = {dump_text, dump_json, dump_header};
    struct tool_output output;
    int format = tool_format(t);
    if (format < 0) return TOOL_USAGE;
    struct plan *p = tool_open_plan(t, t->args.at[0]);
    if (!p) return TOOL_USAGE;
    FILE *out = tool_output_open(t, &output, t->output);
    if (out) print[format](p, out);
    plan_close(p);
    return out && tool_output_close(&output, true) ? TOOL_OK : TOOL_USAGE;
}
