// chain.cu - an inference chain as libraries make it: for each of 20 layers a memset, a small
// matrix product by cuBLAS and a bias-and-activation kernel; the output goes back to the host once
// a pass. With --graph the layers are captured by hand; the copy stays outside, its memory being
// pageable.
#include "common/cudart_check.h"
#include "common/example.h"

#include <cmath>
#include <cstring>
#include <cublas_v2.h>
#include <vector>

#define CHECK_BLAS(call)                                                                           \
    do {                                                                                           \
        cublasStatus_t status_ = (call);                                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cublasGetStatusString(status_));                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const int LAYERS = 20, WIDTH = 64, BATCH = 8;

__global__ void bias_and_relu(float *x, const float *bias, int width, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        float value = x[i] + bias[i % width];
        x[i] = value > 0.0f ? value : 0.0f;
    }
}

struct chain {
    cublasHandle_t blas;
    cudaStream_t stream;
    float *weights, *bias, *input, *x[2];
    std::vector<float> output;
    cudaGraphExec_t graph; // with --graph
    float *last;           // where the last layer's output lies
    int passes;
};

// A value in [-scale, scale] that depends on `index` alone.
static float value_at(unsigned int index, float scale)
{
    return scale * (static_cast<float>(ex_hash(index + 1) >> 8) / 8388608.0f - 1.0f);
}

static void submit_layers(chain *c)
{
    const float one = 1.0f;
    const int total = WIDTH * BATCH;
    float *from = c->input;
    for (int layer = 0; layer < LAYERS; layer++) {
        float *to = c->x[layer % 2];
        CHECK(cudaMemsetAsync(to, 0, total * sizeof *to, c->stream));
        // beta is 1: the product is added to what the memset left, so that its place in the order
        // shows.
        CHECK_BLAS(cublasSgemm(c->blas, CUBLAS_OP_N, CUBLAS_OP_N, WIDTH, BATCH, WIDTH, &one,
                               c->weights + layer * WIDTH * WIDTH, WIDTH, from, WIDTH, &one, to,
                               WIDTH));
        bias_and_relu<<<(total + 127) / 128, 128, 0, c->stream>>>(to, c->bias + layer * WIDTH,
                                                                  WIDTH, total);
        from = to;
    }
    c->last = from;
}

static void pass(chain *c)
{
    if (c->graph) {
        CHECK(cudaGraphLaunch(c->graph, c->stream));
    } else {
        submit_layers(c);
    }
    ex_wait_begin(); // a copy to pageable memory waits
    CHECK(cudaMemcpyAsync(c->output.data(), c->last, c->output.size() * sizeof(float),
                          cudaMemcpyDeviceToHost, c->stream));
    CHECK(cudaStreamSynchronize(c->stream));
    ex_wait_end();
}

static void capture_layers(chain *c)
{
    cudaGraph_t graph;
    pass(c); // cuBLAS prepares itself at the first use
    CHECK(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeRelaxed));
    submit_layers(c);
    CHECK(cudaStreamEndCapture(c->stream, &graph));
    CHECK(cudaGraphInstantiate(&c->graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
}

static double repetition(void *arg)
{
    chain *c = static_cast<chain *>(arg);
    for (int i = 0; i < c->passes; i++) {
        pass(c);
    }
    CHECK(cudaGetLastError());
    return 2.0 * LAYERS * c->passes;
}

static float *to_device(const std::vector<float> &values)
{
    float *device;
    CHECK(cudaMalloc(&device, values.size() * sizeof(float)));
    CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return device;
}

// The whole chain in double precision. The GPU works in single precision and sums in an order of
// its own: 20 layers of sums over 64 terms stay well within a part in a thousand of the largest
// output.
static bool correct(const std::vector<float> &weights, const std::vector<float> &bias,
                    const std::vector<float> &input, const std::vector<float> &output)
{
    std::vector<double> x(input.begin(), input.end()), y(x.size());
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int b = 0; b < BATCH; b++) {
            for (int row = 0; row < WIDTH; row++) {
                double sum = bias[layer * WIDTH + row];
                for (int k = 0; k < WIDTH; k++) {
                    sum += static_cast<double>(weights[(layer * WIDTH + k) * WIDTH + row]) *
                           x[b * WIDTH + k];
                }
                y[b * WIDTH + row] = sum > 0.0 ? sum : 0.0;
            }
        }
        x.swap(y);
    }
    double largest = 0.0, error = 0.0;
    for (size_t i = 0; i < x.size(); i++) {
        largest = std::fmax(largest, std::fabs(x[i]));
        error = std::fmax(error, std::fabs(x[i] - static_cast<double>(output[i])));
    }
    bool good = largest > 0.0 && error <= 1e-3 * largest;
    if (!good) {
        fprintf(stderr, "chain: largest error %g, largest output %g\n", error, largest);
    }
    return good;
}

int main(int argc, char **argv)
{
    chain c = {};
    ex_pace pace = {7, false};
    bool by_hand = false;
    c.passes = 200;
    const ex_option options[] = {{"passes", &c.passes, 1, nullptr, nullptr},
                                 {"graph", nullptr, 0, &by_hand, nullptr},
                                 {nullptr, nullptr, 0, nullptr, nullptr}};
    ex_options(argc, argv, "usage: chain [--graph] [--passes=N] [--reps=N] [--paced]\n", &pace,
               options);

    std::vector<float> weights(LAYERS * WIDTH * WIDTH), bias(LAYERS * WIDTH), input(WIDTH * BATCH);
    for (size_t i = 0; i < weights.size(); i++) {
        weights[i] = value_at(i, 0.3f);
    }
    for (size_t i = 0; i < bias.size(); i++) {
        bias[i] = value_at(0x10000000u + i, 0.5f);
    }
    for (size_t i = 0; i < input.size(); i++) {
        input[i] = value_at(0x20000000u + i, 1.0f);
    }
    c.output.resize(WIDTH * BATCH);
    c.weights = to_device(weights);
    c.bias = to_device(bias);
    c.input = to_device(input);
    c.x[0] = to_device(c.output);
    c.x[1] = to_device(c.output);
    CHECK(cudaStreamCreate(&c.stream));
    CHECK_BLAS(cublasCreate(&c.blas));
    CHECK_BLAS(cublasSetStream(c.blas, c.stream));

    ex_launches_per_step(2 * LAYERS);
    if (by_hand) {
        capture_layers(&c);
    }
    double us = ex_measure(&pace, repetition, &c);
    int status = ex_result("chain", BINDING, by_hand ? "cublas-graph" : "cublas", us,
                           ex_checksum(c.output.data(), c.output.size() * sizeof(float)),
                           correct(weights, bias, input, c.output));

    if (c.graph) {
        CHECK(cudaGraphExecDestroy(c.graph));
    }
    CHECK_BLAS(cublasDestroy(c.blas));
    for (float *memory : {c.weights, c.bias, c.input, c.x[0], c.x[1]}) {
        CHECK(cudaFree(memory));
    }
    CHECK(cudaStreamDestroy(c.stream));
    return status;
}
