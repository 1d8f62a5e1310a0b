/* `ddpc dump --format=json`: the machine's view of a plan, format_version 1.0. Fields may be added
 * in minor versions; none changes its meaning. Sizes in bytes, times in µs from the start of
 * backward, offsets from the start of the step's arena. A bucket's `bytes` are its gradients'
 * without padding, so that control and presence buckets have 0. */
#include "plan_tool.h"

json_t *dump_name(const char *name) {
    json_t *text = json_string(name);
    if (text) return text;
    struct arena scratch = {0}; /* not valid UTF-8 */
    text = json_string(tool_utf8(&scratch, name));
    arena_free(&scratch);
    return text;
}

static json_t *bytes(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *guard_of(const struct plan *p, uint32_t guard, bool exact) {
    if (guard == PLAN_NONE) return json_null();
    branch_list used = {0};
    json_t *names = json_array();
    plan_guard_branches(p, guard, &used);
    for (uint32_t i = 0; i < used.n; i++)
        json_array_append_new(names, dump_name(plan_string(p, p->branch[used.at[i]].name)));
    vec_free(&used);
    return json_pack("{s:o, s:b, s:o}", "text", dump_name(plan_string(p, p->guard[guard].text)),
                     "exact", exact, "branches", names);
}

static json_t *bucket_of(const struct plan *p, uint32_t index, uint32_t first) {
    const struct plan_bucket *b = &p->bucket[index];
    json_t *names = json_array(), *segments = json_array();
    bool exact = true;
    for (uint32_t i = b->first_segment; i < b->first_segment + b->n_segments; i++) {
        const struct plan_segment *s = &p->segment[i];
        json_t *name = dump_name(plan_param_name(p, s->param));
        json_array_append(names, name);
        json_array_append_new(segments, json_pack("{s:o, s:o, s:o}", "parameter", name, "offset",
                                                  bytes(s->offset), "bytes", bytes(s->bytes)));
        exact = exact && plan_step_param(p, b->step, s->param)->exact;
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f}", "index",
                     (int)(index - first), "kind", plan_bucket_kind_name(b->kind), "dtype",
                     plan_dtype_name(b->dtype), "class", plan_class_name(b->class), "guard",
                     guard_of(p, b->guard, exact), "offset", bytes(b->offset), "bytes",
                     bytes(b->gradient_bytes), "parameters", names, "segments", segments,
                     "ready_us", b->ready_us, "start_us", b->start_us, "end_us", b->end_us);
}

static json_t *step_of(const struct plan *p, uint32_t index) {
    const struct plan_step *s = &p->step[index];
    json_t *buckets = json_array(), *params = json_array();
    for (uint32_t i = 0; i < s->n_buckets; i++)
        json_array_append_new(buckets, bucket_of(p, s->first_bucket + i, s->first_bucket));
    for (uint32_t i = 0; i < p->n_params; i++) {
        const struct plan_step_param *sp = plan_step_param(p, index, i);
        json_array_append_new(params,
                              json_pack("{s:o, s:s, s:o}", "name", dump_name(plan_param_name(p, i)),
                                        "class", plan_class_name(sp->class), "guard",
                                        guard_of(p, sp->guard, sp->exact)));
    }
    json_t *schedule =
        json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:o}", "policy", plan_policy_name(s->policy),
                  "order", plan_order_name(s->order), "predicted_finish_us", s->finish_us,
                  "lower_bound_us", s->lower_bound_us, "exposed_us", s->exposed_us, "backward_us",
                  s->backward_us, "topology", dump_name(plan_string(p, s->topology)),
                  "worst_regret", s->worst_regret < 0 ? json_null() : json_real(s->worst_regret));
    return json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:{s:o, s:o}}", "name",
                     dump_name(plan_string(p, s->name)), "schedule", schedule, "average",
                     plan_average_name(s->average), "guards", plan_guards_name(s->guards),
                     "buckets", buckets, "parameters", params, "arena", "bytes",
                     bytes(s->arena_bytes), "error_slot", bytes(s->error_offset));
}

static json_t *param_of(const struct plan *p, uint32_t index) {
    const struct plan_param *q = &p->param[index];
    json_t *shape = json_array();
    for (uint32_t i = 0; i < q->rank; i++)
        json_array_append_new(shape, json_integer(p->dim[q->first_dim + i]));
    return json_pack("{s:i, s:o, s:s, s:o, s:o}", "index", (int)index, "name",
                     dump_name(plan_param_name(p, index)), "dtype", plan_dtype_name(q->dtype),
                     "shape", shape, "elements", bytes(q->elements));
}

void dump_json(const struct plan *p, FILE *out) {
    char hash[33], version[32];
    uint64_t arena_bytes = 0;
    json_t *options = json_object(), *params = json_array(), *steps = json_array();
    json_t *branches = json_array();
    for (int i = 0; i < 16; i++)
        snprintf(hash + 2 * i, 3, "%02x", (unsigned)p->header->semantic_hash[i]);
    snprintf(version, sizeof version, "%u.%u", p->header->major, p->header->minor);
    for (uint32_t i = 0; i < p->n_options; i++)
        json_object_set_new(options, plan_string(p, p->option[i].key),
                            dump_name(plan_string(p, p->option[i].value)));
    for (uint32_t i = 0; i < p->n_params; i++) json_array_append_new(params, param_of(p, i));
    for (uint32_t i = 0; i < p->n_branches; i++)
        json_array_append_new(branches, json_pack("{s:o, s:b}", "name",
                                                  dump_name(plan_string(p, p->branch[i].name)),
                                                  "uniform", (int)p->branch[i].uniform));
    for (uint32_t i = 0; i < p->n_steps; i++) {
        json_array_append_new(steps, step_of(p, i));
        arena_bytes += p->step[i].arena_bytes;
    }
    json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:{s:o, s:i}}",
                             "format_version", "1.0", "semantic_hash", hash, "plan_format", version,
                             "protocol", (int)p->header->protocol, "options", options, "parameters",
                             params, "branches", branches, "steps", steps, "arena", "bytes",
                             bytes(arena_bytes), "alignment", PLAN_BUCKET_ALIGN);
    json_dumpf(root, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(root);
}
