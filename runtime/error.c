/* Errors in words. Ranks tell each other failures as numbers (struct comm_record); here every rank
 * turns them into one line with the names of its own plan:
 *
 *     rank 2, step "train" (number 17), bucket 3, parameter "h.0.ln.weight": no gradient came, ...
 *
 * The parts that do not apply are left out. A bucket is followed by the parameters it holds, if the
 * record does not name one itself, because nobody knows a bucket by its number. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

const char *ddprt_code_name(int code) {
    switch (code) {
    case DDPRT_OK: return "ok";
#define DDPRT_ERROR(id, number, name, text)                                                        \
    case number:                                                                                   \
        return name;
#include "ddpc/ddprt_errors.def"
#undef DDPRT_ERROR
    default: return "unknown";
    }
}

const char *ddprt_code_text(int code) {
    switch (code) {
    case DDPRT_OK: return "success";
#define DDPRT_ERROR(id, number, name, text)                                                        \
    case number:                                                                                   \
        return text;
#include "ddpc/ddprt_errors.def"
#undef DDPRT_ERROR
    default: return "an unknown error";
    }
}

int error_set(ddprt_error *error, int code, const char *format, ...) {
    if (!error) return code;
    *error = (ddprt_error){.code = code,
                           .rank = -1,
                           .reporter = -1,
                           .step = -1,
                           .parameter = -1,
                           .bucket = -1,
                           .branch = -1,
                           .sequence = -1};
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

/* Appends to a bounded text; what does not fit is cut. */
struct line {
    char *at, *end;
};
static void add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->at, (size_t)(l->end - l->at), format, args);
    va_end(args);
    if (n > 0) l->at += n < l->end - l->at ? n : l->end - l->at - 1;
}

static void add_bucket(struct line *l, const struct plan *p, const struct comm_record *r) {
    add(l, ", bucket %d", r->bucket);
    const struct plan_step *step = &p->step[r->step];
    if ((uint32_t)r->bucket >= step->n_buckets) return;
    const struct plan_bucket *b = &p->bucket[step->first_bucket + (uint32_t)r->bucket];
    if (b->kind == PLAN_CONTROL) add(l, " (the control bucket)");
    if (b->kind == PLAN_PRESENCE) add(l, " (the presence bucket)");
    if (b->n_segments == 0 || r->parameter >= 0) return;
    const struct plan_segment *s = &p->segment[b->first_segment];
    if (b->n_segments == 1)
        add(l, " (\"%.80s\")", plan_param_name(p, s->param));
    else
        add(l, " (\"%.60s\" to \"%.60s\")", plan_param_name(p, s->param),
            plan_param_name(p, s[b->n_segments - 1].param));
}

int error_from_record(ddprt_error *error, const struct plan *plan, const struct comm_record *r) {
    if (!error) return r->code;
    *error = (ddprt_error){.code = r->code,
                           .rank = r->rank,
                           .reporter = -1,
                           .step = r->step,
                           .parameter = r->parameter,
                           .bucket = r->bucket,
                           .branch = r->branch,
                           .sequence = r->sequence};
    struct line l = {error->text, error->text + sizeof error->text};
    if (r->rank >= 0)
        add(&l, "rank %d", r->rank);
    else
        add(&l, "all ranks");
    /* The record may come from a rank with another plan: its indices are checked here. */
    if (plan && r->step >= 0 && (uint32_t)r->step < plan->n_steps) {
        add(&l, ", step \"%.60s\"", plan_string(plan, plan->step[r->step].name));
        if (r->sequence >= 0) add(&l, " (number %lld)", (long long)r->sequence);
        if (r->bucket >= 0) add_bucket(&l, plan, r);
    } else if (r->sequence >= 0) {
        add(&l, ", step number %lld", (long long)r->sequence);
    }
    if (plan && r->parameter >= 0) {
        if ((uint32_t)r->parameter < plan->n_params)
            add(&l, ", parameter \"%.100s\"", plan_param_name(plan, (uint32_t)r->parameter));
        else
            add(&l, ", parameter index %d of %u", r->parameter, plan->n_params);
    }
    if (plan && r->branch >= 0 && (uint32_t)r->branch < plan->n_branches)
        add(&l, ", branch \"%.80s\"", plan_string(plan, plan->branch[r->branch].name));
    add(&l, ": %s", ddprt_code_text(r->code));
    if (r->message[0]) add(&l, ": %.*s", (int)sizeof r->message, r->message);
    return r->code;
}

int error_while_opening(ddprt_error *error, const struct comm_record *record) {
    struct comm_record r = *record;
    snprintf(r.message, sizeof r.message, "while the plan was opened");
    return error_from_record(error, NULL, &r);
}
