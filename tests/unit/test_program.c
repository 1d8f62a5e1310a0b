/* What a module means for training: parameters, losses, steps, evidence. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "program_fixture.h"
#include <criterion/criterion.h>

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17, \"ddpc\" : 1]>\n"
#define META(props)                                                                                \
    "<ir_version: 8, opset_import: [\"\" : 17, \"ddpc\" : 1], metadata_props: [" props "]>\n"

static const char declared[] =
    HEAD "g (float[B,3] x, bool turn) => (float loss) <float[3,3] w, float[3] unread,\n"
         " float[3] scale = {1.0, 2.0, 3.0}, int64[2] shape>\n"
         "{ h = MatMul (x, w)\n k = Mul (h, scale)\n loss = ReduceMean <keepdims=0> (k) }";

static const char exported[] = HEAD
    "g (float[B,3] x) => (float loss) <float[3,3] w = {0,0,0,0,0,0,0,0,0}, float[3] stale,\n"
    " float[3] gone = {1,2,3}, float[3] gamma = {1,1,1}, float[3] beta = {0,0,0},\n"
    " float[3] mean = {0,0,0}, float[3] var = {1,1,1}, float val_7 = {2.0}, int64[1] n = {3}>\n"
    "{ h = MatMul (x, w)\n b = BatchNormalization (h, gamma, beta, mean, var)\n"
    "  k = Mul (b, val_7)\n loss = ReduceMean <keepdims=0> (k) }";

static void check(struct fixture *f, const char *model, const char *expected) {
    bool ok = fixture_build(f, model);
    if (!ok) diags_print(&f->d, stderr, false, false);
    cr_assert(ok);
    cr_expect_str_eq(fixture_show(f), expected, "got %s", fixture_show(f));
}

Test(program, declared_names_are_the_parameters) {
    struct fixture f = {0};
    check(&f, declared, "w unread");
    cr_expect(f.p.complete);
    cr_expect_eq(f.p.evidence, EVIDENCE_PROVED);
    cr_expect_str_eq(ir_text(&f.m, f.p.steps.at[0].name), "train");
    cr_expect_str_eq(ir_value_name(&f.m, f.p.steps.at[0].losses.at[0]), "loss");
    fixture_free(&f);
}

Test(program, initializers_are_parameters_where_nothing_is_declared) {
    struct fixture f = {0};
    check(&f, exported, "w gone gamma beta mean:buffer var:buffer");
    cr_expect_eq(fixture_count(&f, DIAG_STALE_DECLARED), 1);
    cr_expect_not(f.p.complete);
    cr_expect_eq(f.p.evidence, EVIDENCE_UNKNOWN);
    cr_expect_not_null(f.p.incomplete_because);
    fixture_free(&f);
}

Test(program, unread_declared_names_count_where_there_are_no_weights) {
    struct fixture f = {0};
    check(&f,
          HEAD "g (float[B,3] x) => (float loss) <float[3] a, float[2] b>"
               "{ loss = ReduceMean <keepdims=0> (x) }",
          "a b");
    cr_expect_eq(fixture_count(&f, DIAG_STALE_DECLARED), 0);
    fixture_free(&f);
}

Test(program, a_shared_statistic_is_a_buffer_through_identity) {
    struct fixture f = {0};
    check(&f,
          HEAD "g (float[B,3] x, float[3] s) => (float loss) <float[3] mean = {0,0,0}>"
               "{ copy = Identity (mean)\n b = BatchNormalization (x, s, s, copy, mean)\n"
               " loss = ReduceMean <keepdims=0> (b) }",
          "mean:buffer");
    cr_expect_not(f.p.complete, "a model without parameters is never complete");
    fixture_free(&f);
}

Test(program, a_generated_name_is_a_literal_only_with_one_element) {
    struct fixture f = {0};
    check(&f,
          HEAD "g (float[B,3] x) => (float loss) <float[3,3] \"onnx::MatMul_16\" = ...,"
               " float[1] \"onnx::Mul_17\" = {2}, float temperature = {1}, float[0] roi = {}>"
               "{ h = MatMul (x, \"onnx::MatMul_16\")\n k = Mul (h, \"onnx::Mul_17\")\n"
               "  l = Mul (k, temperature)\n loss = ReduceMean <keepdims=0> (l) }",
          "onnx::MatMul_16 temperature");
    fixture_free(&f);
}

Test(program, trainable_chooses_among_parameters) {
    struct fixture f = {0};
    vec_push(&f.o.trainable, "ga*");
    check(&f, exported,
          "w(frozen) gone(frozen) gamma beta(frozen) mean:buffer(frozen) var:buffer(frozen)");
    fixture_free(&f);
}

Test(program, trainable_adds_what_is_no_parameter) {
    struct fixture f = {0};
    vec_push(&f.o.trainable, "scale");
    check(&f, declared, "w unread scale");
    fixture_free(&f);
    vec_push(&f.o.trainable, "mean");
    check(&f, exported, "w gone gamma beta mean var:buffer");
    fixture_free(&f);
    vec_push(&f.o.trainable, "p?*");
    check(&f,
          HEAD "g (float[3] p0, float[B] p1, int64[3] p2) => (float loss) <float[3] w>"
               "{ h = Mul (p0, w)\n loss = ReduceMean <keepdims=0> (h) }",
          "w p0");
    fixture_free(&f);
}

Test(program, frozen_and_unknown_names) {
    struct fixture f = {0};
    vec_push(&f.o.frozen, "un*");
    check(&f, declared, "w unread(frozen)");
    fixture_free(&f);
    vec_push(&f.o.frozen, "unreed");
    cr_expect_not(fixture_build(&f, declared));
    const struct diag *g = fixture_diag(&f, DIAG_UNKNOWN_NAME);
    cr_assert_not_null(g);
    cr_expect_not_null(strstr(g->help, "'unread'"));
    fixture_free(&f);
    vec_push(&f.o.frozen, "zz*");
    cr_expect(fixture_build(&f, declared), "a glob that matches nothing is a warning");
    cr_expect_eq(fixture_count(&f, DIAG_MATCHES_NOTHING), 1);
    fixture_free(&f);
}

static const char tied[] = HEAD
    "g (int64[B] ids, float[2] t) => (float loss) <float[4,2] wte, float[2] b, float[2,4] head>\n"
    "{ e = Gather (wte, ids)\n s = Add (e, b)\n l = MatMul (s, head)\n"
    "  loss = ReduceMean <keepdims=0> (l) }";

Test(program, tie_keeps_the_first_declared) {
    struct fixture f = {0};
    vec_push(&f.o.tie, "head=wte");
    check(&f, tied, "wte b");
    const struct param *p = &f.p.params.at[0];
    cr_assert_eq(p->tied.n, 1);
    cr_expect_str_eq(ir_value_name(&f.m, p->tied.at[0]), "head");
    cr_expect_str_eq(ir_text(&f.m, p->aliases.at[0]), "head");
    cr_expect_eq(f.p.param_of[p->value], 1);
    cr_expect_eq(f.p.param_of[p->tied.at[0]], 1);
    fixture_free(&f);
    vec_push(&f.o.tie, "head=b");
    cr_expect_not(fixture_build(&f, tied));
    cr_expect_eq(fixture_count(&f, DIAG_BAD_TIE), 1);
    fixture_free(&f);
    vec_push(&f.o.tie, "head");
    vec_push(&f.o.tie, "head=nobody");
    cr_expect_not(fixture_build(&f, tied));
    cr_expect_eq(fixture_count(&f, DIAG_FLAG_SYNTAX), 1);
    cr_expect_eq(fixture_count(&f, DIAG_UNKNOWN_NAME), 1);
    fixture_free(&f);
}

Test(program, alias_renames) {
    struct fixture f = {0};
    vec_push(&f.o.alias, "wte=transformer.wte.weight");
    vec_push(&f.o.frozen, "transformer.*");
    check(&f, tied, "transformer.wte.weight(frozen) b head");
    fixture_free(&f);
    vec_push(&f.o.alias, "wte=head");
    cr_expect_not(fixture_build(&f, tied));
    cr_expect_eq(fixture_count(&f, DIAG_ALIAS_TAKEN), 1);
    fixture_free(&f);
    vec_push(&f.o.alias, "wta=emb");
    cr_expect_not(fixture_build(&f, tied));
    cr_expect_eq(fixture_count(&f, DIAG_UNKNOWN_NAME), 1);
    fixture_free(&f);
}

/* ---- --params -------------------------------------------------------------------------------- */

Test(program, params_account_for_the_model) {
    struct fixture f = {0};
    fixture_params(&f, "gamma float32 3 true\nw float32 3x3 false\nbeta float32 [3] true\n"
                       "dropped.bias float32 7 true # nothing of seven elements is left\n"
                       "counter int64 [] false\n");
    check(&f, exported, "gamma w(frozen) beta dropped.bias? mean:buffer var:buffer");
    cr_expect(f.p.complete);
    cr_expect_eq(f.p.evidence, EVIDENCE_PROVED);
    fixture_free(&f);
}

Test(program, an_absent_name_with_a_candidate_leaves_the_model_incomplete) {
    struct fixture f = {0};
    fixture_params(&f, "w float32 3x3 true\ngamma float32 3 true\nbeta float32 3 true\n"
                       "head.bias float32 3 true\n");
    check(&f, exported, "w gamma beta head.bias? mean:buffer var:buffer");
    cr_expect_not(f.p.complete);
    const struct diag *g = fixture_diag(&f, DIAG_PARAMS_ABSENT);
    cr_assert_not_null(g);
    cr_expect_str_eq(g->help, "if it is the first of them: --alias 'gone=head.bias'");
    fixture_free(&f);
    vec_push(&f.o.alias, "gone=head.bias");
    fixture_params(&f, "w float32 3x3 true\ngamma float32 3 true\nbeta float32 3 true\n"
                       "head.bias float32 3 true\n");
    check(&f, exported, "w gamma beta head.bias mean:buffer var:buffer");
    cr_expect(f.p.complete);
    fixture_free(&f);
}

Test(program, a_weight_may_have_moved_into_a_subgraph) {
    struct fixture f = {0};
    fixture_params(&f, "w float32 3 true\nv float32 5 true\n");
    check(&f,
          HEAD "g (float[B,5] x, bool c) => (float loss) <float[3] w = {1,1,1}>"
               "{ y = If (c) < then_branch = a () => (float[B,5] p) <float[5] k = {1,1,1,1,1}>"
               " { p = Mul (x, k) }, else_branch = b () => (float[B,5] q) { q = Neg (x) } >"
               " loss = ReduceMean <keepdims=0> (y) }",
          "w v?");
    cr_expect_not(f.p.complete);
    cr_expect_str_eq(f.p.params.at[1].perhaps, "k");
    fixture_free(&f);
}

Test(program, a_stale_name_is_absent) {
    struct fixture f = {0};
    fixture_params(&f, "w float32 3x3 true\nstale float32 3 true\n");
    check(&f, exported, "w stale? mean:buffer var:buffer");
    cr_expect_not(f.p.complete, "gone, gamma or beta could be it");
    fixture_free(&f);
}

Test(program, a_parameter_of_another_size_is_an_error) {
    struct fixture f = {0};
    fixture_params(&f, "w float32 3x4 true\n");
    cr_expect_not(fixture_build(&f, exported));
    cr_expect_eq(fixture_count(&f, DIAG_PARAMS_MISMATCH), 1);
    fixture_free(&f);
}

static const char copies[] = HEAD
    "g (float[B,3] x) => (float loss) <float[3] \"onnx::a\" = {1,1,1}, float[3] b1 = {0,0,0}>\n"
    "{ w = Identity (\"onnx::a\")\n h = Mul (x, w)\n h1 = Add (h, b1)\n"
    "  b2 = Identity (b1)\n h2 = Add (h1, b2)\n loss = ReduceMean <keepdims=0> (h2) }";

Test(program, a_copy_of_an_unlisted_initializer_is_it_and_of_a_listed_one_another_parameter) {
    struct fixture f = {0};
    fixture_params(&f, "w float32 3 true\nb1 float32 3 true\nb2 float32 3 true\n");
    check(&f, copies, "w b1 b2");
    cr_expect_str_eq(ir_value_name(&f.m, f.p.params.at[0].value), "onnx::a");
    cr_expect_str_eq(ir_value_name(&f.m, f.p.params.at[2].value), "b2");
    cr_expect(f.p.complete);
    fixture_free(&f);
}

Test(program, an_alias_in_the_list_ties_what_an_exporter_untied) {
    struct fixture f = {0};
    fixture_params(&f, "wte float32 4x2 true head lm.head\nb float32 2 true\n");
    check(&f, tied, "wte b");
    cr_assert_eq(f.p.params.at[0].tied.n, 1);
    cr_expect_eq(f.p.params.at[0].aliases.n, 2);
    cr_expect(f.p.complete);
    fixture_free(&f);
}

Test(program, a_declared_parameter_that_the_list_lacks_is_kept_and_warned_of) {
    struct fixture f = {0};
    fixture_params(&f, "wte float32 4x2 true\nb float32 2 true\n");
    check(&f, tied, "wte b head");
    cr_expect_eq(fixture_count(&f, DIAG_PARAMS_UNLISTED), 1);
    cr_expect_not(f.p.complete);
    fixture_free(&f);
}

/* ---- --params-from --------------------------------------------------------------------------- */

Test(program, outputs_of_constant_of_shape_are_parameters_if_asked) {
    static const char model[] =
        HEAD "g (float[B,3] x) => (float loss) <int64[2] s = {3, 2}, int64[1] t = {2}>\n"
             "{ w = ConstantOfShape (s)\n m = ConstantOfShape (t)\n v = ConstantOfShape (t)\n"
             "  c = ConstantOfShape (t)\n h = MatMul (x, w)\n"
             "  b = BatchNormalization (h, c, c, m, v)\n loss = ReduceMean <keepdims=0> (b) }";
    struct fixture f = {0};
    check(&f, model, "");
    fixture_free(&f);
    f.o.params_from = "ConstantOfShape";
    check(&f, model, "w m:buffer v:buffer c");
    fixture_free(&f);
    f.o.params_from = "Constant";
    cr_expect_not(fixture_build(&f, model));
    fixture_free(&f);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static const char *loss_of(struct fixture *f, const char *outputs) {
    const char *model = arena_printf(
        &f->p.arena,
        HEAD "g (float[2,3] x) => (%s) <float[3] w>\n"
             "{ h = Mul (x, w)\n s = ReduceMean <keepdims=0> (h)\n z = Neg (s)\n"
             "  one = ReduceSum <keepdims=1> (h)\n i = ArgMax (h)\n loss = Identity (s) }",
        outputs);
    char text[512];
    snprintf(text, sizeof text, "%s", model);
    arena_free(&f->p.arena);
    if (!fixture_build(f, text)) return NULL;
    return ir_value_name(&f->m, f->p.steps.at[0].losses.at[0]);
}

Test(program, the_loss_is_found) {
    static const struct {
        char outputs[80], loss[8];
        int code; /* of a diagnostic that comes with it */
    } cases[] = {
        {"float[2,3] h, float loss, float s", "loss", 0},
        {"float[2,3] h, float s", "s", 0},
        {"float[2,3] h, float[1,1] one", "one", 0},
        {"float[2,3] h, int64[1,3] i", "h", DIAG_LOSS_TAKEN},
        {"float s, float z", "", DIAG_MANY_LOSSES},
        {"int64[1,3] i", "", DIAG_NO_LOSS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f = {0};
        const char *loss = loss_of(&f, cases[i].outputs);
        cr_expect_str_eq(loss ? loss : "", cases[i].loss, "for %s", cases[i].outputs);
        if (cases[i].code)
            cr_expect_eq(fixture_count(&f, (enum diag_code)cases[i].code), 1, "for %s",
                         cases[i].outputs);
        fixture_free(&f);
    }
}

Test(program, named_losses) {
    struct fixture f = {0};
    vec_push(&f.o.loss, "z");
    vec_push(&f.o.loss, "h");
    cr_expect_str_eq(loss_of(&f, "float s"), "z");
    cr_expect_eq(f.p.steps.at[0].losses.n, 2);
    fixture_free(&f);
    vec_push(&f.o.loss, "i");
    cr_expect_null(loss_of(&f, "float s"));
    cr_expect_eq(fixture_count(&f, DIAG_LOSS_UNFIT), 1);
    fixture_free(&f);
    vec_push(&f.o.loss, "lost");
    cr_expect_null(loss_of(&f, "float s"));
    cr_expect_not_null(strstr(fixture_diag(&f, DIAG_UNKNOWN_NAME)->help, "'loss'"));
    fixture_free(&f);
}

/* ---- steps and metadata ---------------------------------------------------------------------- */

#define GAN                                                                                        \
    "g (float[B,3] x, bool turn, bool eval, float t) => (float d_loss, float g_loss)\n"            \
    "<float[3] gen.w, float[3] dis.w, float[3] both>\n"                                            \
    "{ a = Mul (x, gen.w)\n b = Mul (a, dis.w)\n c = Mul (b, both)\n"                              \
    "  d_loss = ReduceMean <keepdims=0> (c)\n g_loss = Neg (d_loss) }"

static void expect_gan(struct fixture *f) {
    cr_assert_eq(f->p.steps.n, 2);
    const struct step *d = &f->p.steps.at[0], *g = &f->p.steps.at[1];
    cr_expect_str_eq(ir_text(&f->m, d->name), "d");
    cr_expect_str_eq(ir_value_name(&f->m, d->losses.at[0]), "d_loss");
    cr_expect_str_eq(ir_value_name(&f->m, g->losses.at[0]), "g_loss");
    cr_expect(d->frozen[0] && !d->frozen[1] && !d->frozen[2]);
    cr_expect(!g->frozen[0] && g->frozen[1] && g->frozen[2]);
    cr_assert_eq(d->assume.n, 2);
    cr_assert_eq(g->assume.n, 2);
    cr_expect_str_eq(ir_value_name(&f->m, d->assume.at[1].value), "turn");
    cr_expect(d->assume.at[1].is && !g->assume.at[1].is);
    cr_expect_str_eq(ir_value_name(&f->m, d->assume.at[0].value), "eval");
    cr_expect_not(d->assume.at[0].is);
}

Test(program, steps_from_flags) {
    struct fixture f = {0};
    vec_push(&f.o.step, "d: loss=d_loss trainable=dis.*,both assume=turn");
    vec_push(&f.o.step, " g : loss=g_loss  trainable=gen.* assume=!turn");
    vec_push(&f.o.assume, "eval=false");
    cr_assert(fixture_build(&f, HEAD GAN));
    expect_gan(&f);
    fixture_free(&f);
}

Test(program, steps_from_metadata_and_flags_win) {
    static const char model[] =
        META("\"ddpc.step.d\": \"loss=d_loss trainable=dis.*,both assume=turn=true\","
             "\"ddpc.step.g\": \"loss=g_loss frozen=dis.*,both assume=turn=false\","
             "\"ddpc.complete\": \"true\", \"ddpc.evidence\": \"observed, 3 batches\","
             "\"ddpc.uniform\": \"turn, ev*\", \"other\": \"x\"") GAN;
    struct fixture f = {0};
    vec_push(&f.o.assume, "eval=false");
    cr_assert(fixture_build(&f, model));
    expect_gan(&f);
    cr_expect_eq(f.p.uniform.n, 2);
    cr_expect_eq(f.p.evidence, EVIDENCE_OBSERVED);
    cr_expect_str_eq(f.p.basis, "observed, 3 batches");
    cr_expect_eq(fixture_count(&f, DIAG_METADATA), 0);
    fixture_free(&f);
    vec_push(&f.o.loss, "g_loss");
    cr_assert(fixture_build(&f, model));
    cr_expect_eq(f.p.steps.n, 1);
    fixture_free(&f);
}

Test(program, wrong_steps_and_assumptions) {
    static const char steps[][64] = {
        "d",
        ": loss=d_loss",
        "d: los=d_loss",
        "d: loss=",
        "d: loss=no",
        "d: assume=turn,!turn",
        "d: assume=t",
        "d: assume=turn=maybe",
        "d: assume=nothing",
        "d: trainable=nobody",
        "d: frozen=nobody",
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct fixture f = {0};
        vec_push(&f.o.step, steps[i]);
        if (!strchr(steps[i], 'l')) vec_push(&f.o.loss, "d_loss");
        cr_expect_not(fixture_build(&f, HEAD GAN), "%s", steps[i]);
        cr_expect_eq(f.d.errors, 1, "%s: %u errors", steps[i], f.d.errors);
        fixture_free(&f);
    }
    struct fixture f = {0};
    vec_push(&f.o.step, "d: loss=d_loss");
    vec_push(&f.o.step, "d: loss=g_loss");
    cr_expect_not(fixture_build(&f, HEAD GAN));
    cr_expect_eq(fixture_count(&f, DIAG_STEP_TWICE), 1);
    fixture_free(&f);
}

Test(program, unknown_metadata_is_warned_of) {
    struct fixture f = {0};
    vec_push(&f.o.loss, "d_loss");
    cr_assert(fixture_build(&f, META("\"ddpc.los\": \"x\", \"ddpc.complete\": \"maybe\","
                                     "\"ddpc.frozen\": \"gen.w nobody\"") GAN));
    cr_expect_eq(fixture_count(&f, DIAG_METADATA), 2);
    cr_expect_eq(fixture_count(&f, DIAG_MATCHES_NOTHING), 1);
    cr_expect(f.p.steps.at[0].frozen[0]);
    fixture_free(&f);
}

Test(program, metadata_completes_an_exported_model) {
    struct fixture f = {0};
    check(
        &f,
        META(
            "\"ddpc.complete\": \"true\"") "g (float[B,3] x) => (float loss) <float[3] w = {1,2,3}>"
                                           "{ h = Mul (x, w)\n loss = ReduceMean <keepdims=0> (h) "
                                           "}",
        "w");
    cr_expect(f.p.complete);
    cr_expect_eq(f.p.evidence, EVIDENCE_PROVED);
    fixture_free(&f);
}

Test(program, a_read_declared_name_needs_a_static_shape) {
    struct fixture f = {0};
    cr_expect_not(fixture_build(&f,
                                HEAD "g (float[B,3] x) => (float loss) <float[N,3] w>"
                                     "{ h = Mul (x, w)\n loss = ReduceMean <keepdims=0> (h) }"));
    cr_expect_eq(fixture_count(&f, DIAG_DECLARED_SHAPE), 1);
    fixture_free(&f);
}
