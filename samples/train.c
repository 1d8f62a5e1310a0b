/* Data-parallel training in C with libddprt: a two-layer network on 1 to 16 processes of this host.
 *
 *     ddpc samples/mlp.ir -o mlp.plan
 *     train mlp.plan 4
 *
 * Every rank has the same parameters and its own share of the samples. It computes gradients
 * straight into the arena, says `ready` as soon as each one is finished, the output layer's first,
 * as the backward pass goes, and lets the optimizer read the averages once ddprt_step_wait has
 * called the step good. Since the ranks' averages have the same bits, their parameters stay equal
 * without ever being sent. What a program of your own needs is in train(); the rest is the network.
 */
#define _POSIX_C_SOURCE 200809L
#include <ddpc/ddprt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IN = 8, HIDDEN = 32, SAMPLES = 64, STEPS = 200, MAX_RANKS = 16 };

enum { HIDDEN_WEIGHT, HIDDEN_BIAS, OUTPUT_WEIGHT, OUTPUT_BIAS, N_PARAMS };
static const struct {
    const char *name; /* as in mlp.ir */
    size_t elements;
} params[N_PARAMS] = {
    {"hidden.weight", IN *HIDDEN},
    {"hidden.bias", HIDDEN},
    {"output.weight", HIDDEN},
    {"output.bias", 1},
};

/* A uniform number in [-1, 1): the same sequence everywhere (xorshift32). */
static float uniform(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

/* One sample of the function to be learnt. */
static float sample(uint32_t *state, float x[IN]) {
    for (int i = 0; i < IN; i++) x[i] = uniform(state);
    return x[0] * x[1] + (x[2] > 0 ? x[2] : 0) - 0.5f * x[3];
}

/* This rank's mean loss; the gradients of the output layer, and the error at the hidden layer of
 * each sample, from which hidden_gradients goes on. */
static float output_gradients(float *const w[], float *const grad[], const float x[][IN],
                              const float y[], float h[][HIDDEN], float dh[][HIDDEN]) {
    float loss = 0;
    for (int s = 0; s < SAMPLES; s++) {
        float out = w[OUTPUT_BIAS][0];
        for (int j = 0; j < HIDDEN; j++) {
            float sum = w[HIDDEN_BIAS][j];
            for (int i = 0; i < IN; i++) sum += x[s][i] * w[HIDDEN_WEIGHT][i * HIDDEN + j];
            h[s][j] = sum > 0 ? sum : 0;
            out += h[s][j] * w[OUTPUT_WEIGHT][j];
        }
        float error = out - y[s], d = 2 * error / SAMPLES;
        loss += error * error / SAMPLES;
        grad[OUTPUT_BIAS][0] += d;
        for (int j = 0; j < HIDDEN; j++) {
            grad[OUTPUT_WEIGHT][j] += d * h[s][j];
            dh[s][j] = h[s][j] > 0 ? d * w[OUTPUT_WEIGHT][j] : 0;
        }
    }
    return loss;
}

static void hidden_gradients(float *const grad[], const float x[][IN], const float dh[][HIDDEN]) {
    for (int s = 0; s < SAMPLES; s++)
        for (int j = 0; j < HIDDEN; j++) {
            grad[HIDDEN_BIAS][j] += dh[s][j];
            for (int i = 0; i < IN; i++) grad[HIDDEN_WEIGHT][i * HIDDEN + j] += dh[s][j] * x[s][i];
        }
}

static int complain(int rank, const char *text) {
    fprintf(stderr, "rank %d: %s\n", rank, text);
    return 1;
}

static int train(const char *plan_path, const char *job, int rank, int ranks) {
    ddprt_plan *plan;
    ddprt_comm *comm;
    ddprt_runtime *rt;
    ddprt_error error;
    if (ddprt_plan_open(plan_path, &plan, &error)) return complain(rank, error.text);
    if (ddprt_comm_local(job, rank, ranks, 10000, &comm, &error)) return complain(rank, error.text);
    if (ddprt_open(plan, comm, NULL, &rt, &error)) return complain(rank, error.text);

    int step = ddprt_step_find(plan, "train"), index[N_PARAMS];
    float *grad[N_PARAMS], *w[N_PARAMS];
    uint32_t seed = 1; /* of the parameters: the same on every rank */
    for (int p = 0; p < N_PARAMS; p++) {
        size_t bytes;
        index[p] = ddprt_param_find(plan, params[p].name);
        grad[p] = index[p] < 0 ? NULL : ddprt_grad(rt, step, index[p], &bytes);
        w[p] = malloc(params[p].elements * sizeof *w[p]);
        if (!grad[p] || bytes != params[p].elements * sizeof *w[p] || !w[p])
            return complain(rank, "this is not a plan of mlp.ir");
        for (size_t i = 0; i < params[p].elements; i++) w[p][i] = 0.3f * uniform(&seed);
    }

    static float x[SAMPLES][IN], y[SAMPLES], h[SAMPLES][HIDDEN], dh[SAMPLES][HIDDEN];
    uint32_t data = 1000u + (uint32_t)rank; /* of the samples: another on each rank */
    int code = 0;
    for (int iteration = 1; iteration <= STEPS; iteration++) {
        for (int s = 0; s < SAMPLES; s++) y[s] = sample(&data, x[s]);
        if ((code = ddprt_step_begin(rt, step, DDPRT_ZERO, NULL))) break;
        float loss = output_gradients(w, grad, x, y, h, dh);
        if ((code = ddprt_ready(rt, index[OUTPUT_BIAS]))) break;
        if ((code = ddprt_ready(rt, index[OUTPUT_WEIGHT]))) break;
        hidden_gradients(grad, x, dh);
        if ((code = ddprt_ready(rt, index[HIDDEN_BIAS]))) break;
        if ((code = ddprt_ready(rt, index[HIDDEN_WEIGHT]))) break;
        if ((code = ddprt_step_end(rt))) break;
        if ((code = ddprt_step_wait(rt, 10000, NULL))) break;
        for (int p = 0; p < N_PARAMS; p++)
            for (size_t i = 0; i < params[p].elements; i++) w[p][i] -= 0.1f * grad[p][i];
        if (rank == 0 && (iteration == 1 || iteration % 50 == 0))
            printf("iteration %d: loss %.4f on this rank's samples\n", iteration, (double)loss);
    }

    uint32_t bits = 0; /* a sum over the parameters' bits: equal on all ranks */
    for (int p = 0; p < N_PARAMS; p++) {
        for (size_t i = 0; i < params[p].elements; i++) {
            uint32_t word;
            memcpy(&word, &w[p][i], sizeof word);
            bits = bits * 31 + word;
        }
        free(w[p]);
    }
    const ddprt_error *broken = ddprt_last_error(rt);
    if (code)
        complain(rank, broken ? broken->text : ddprt_code_text(code));
    else
        printf("rank %d: the parameters' checksum is %08x\n", rank, (unsigned)bits);
    ddprt_close(rt);
    ddprt_plan_close(plan);
    return code != 0;
}

int main(int argc, char **argv) {
    int ranks = argc == 3 ? atoi(argv[2]) : 0;
    if (ranks < 1 || ranks > MAX_RANKS) {
        fprintf(stderr, "usage: train PLAN RANKS (1 to %d)\n", MAX_RANKS);
        return 2;
    }
    char job[32];
    snprintf(job, sizeof job, "train-%ld", (long)getpid());
    for (int rank = 0; rank < ranks; rank++) {
        pid_t child = fork();
        if (child < 0) {
            perror("train: fork");
            return 1;
        }
        if (child == 0) {
            int failed = train(argv[1], job, rank, ranks);
            fflush(stdout);
            _exit(failed);
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status != 0;
    return failed;
}
