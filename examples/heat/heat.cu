// heat.cu - the heat equation on the CUDA runtime.
#include "common/cudart_check.h"
#include "heat.h"
#include "heat_kernels.cuh"

struct heat {
    heat_options options;
    cudaStream_t stream;
    float *now, *next;
    unsigned int *largest;
    cudaGraphExec_t graph; // with graph: the steps up to a look
    int steps;
    float residual;
};

static void step(heat *h)
{
    int n = h->options.size;
    dim3 blocks((n + HEAT_BLOCK - 1) / HEAT_BLOCK, n);
    heat_inner<<<blocks, HEAT_BLOCK, 0, h->stream>>>(h->next, h->now, n, HEAT_ALPHA);
    heat_edge<<<blocks.x, HEAT_BLOCK, 0, h->stream>>>(h->next, n, HEAT_LEVEL);
    if (++h->steps % h->options.check_every == 0) {
        CHECK(cudaMemsetAsync(h->largest, 0, sizeof *h->largest, h->stream));
        heat_residual<<<8, HEAT_BLOCK, 0, h->stream>>>(h->largest, h->next, h->now, n * n);
    }
    float *old = h->now;
    h->now = h->next;
    h->next = old;
}

static void submit_steps(heat *h)
{
    do {
        step(h);
    } while (h->steps % h->options.check_every && h->steps < h->options.most_steps);
}

static void look(heat *h)
{
    ex_wait_begin(); // a copy to pageable memory waits
    CHECK(cudaMemcpyAsync(&h->residual, h->largest, sizeof h->residual, cudaMemcpyDeviceToHost,
                          h->stream));
    CHECK(cudaStreamSynchronize(h->stream));
    ex_wait_end();
}

// The steps up to the next look, and the look where they are not the last few.
static void advance(heat *h)
{
    if (h->graph) {
        CHECK(cudaGraphLaunch(h->graph, h->stream));
        h->steps += h->options.check_every;
    } else {
        submit_steps(h);
    }
    if (h->steps % h->options.check_every == 0) {
        look(h);
    }
}

static void capture_steps(heat *h)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(h->stream, cudaStreamCaptureModeGlobal));
    submit_steps(h);
    CHECK(cudaStreamEndCapture(h->stream, &graph));
    CHECK(cudaGraphInstantiate(&h->graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(h->graph, h->stream));
    CHECK(cudaStreamSynchronize(h->stream));
}

static double solve(void *arg)
{
    heat *h = static_cast<heat *>(arg);
    size_t bytes = sizeof(float) * h->options.size * h->options.size;
    CHECK(cudaMemsetAsync(h->now, 0, bytes, h->stream));
    CHECK(cudaMemsetAsync(h->next, 0, bytes, h->stream));
    h->steps = 0;
    h->residual = 1.0f;
    while (heat_goes_on(&h->options, h->steps, h->residual)) {
        advance(h);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(h->stream));
    return heat_launches(&h->options, h->steps);
}

int main(int argc, char **argv)
{
    heat h = {};
    h.options = heat_parse(argc, argv);
    size_t bytes = sizeof(float) * h.options.size * h.options.size;

    CHECK(cudaStreamCreate(&h.stream));
    CHECK(cudaMalloc(&h.now, bytes));
    CHECK(cudaMalloc(&h.next, bytes));
    CHECK(cudaMalloc(&h.largest, sizeof *h.largest));
    if (h.options.graph) {
        capture_steps(&h);
    }
    double us = ex_measure(&h.options.pace, solve, &h);

    heat_solution solution = {static_cast<float *>(malloc(bytes)), h.steps, h.residual};
    CHECK(cudaMemcpy(solution.plate, h.now, bytes, cudaMemcpyDeviceToHost));
    int status = heat_result(&h.options, BINDING, us, &solution);

    free(solution.plate);
    if (h.graph) {
        CHECK(cudaGraphExecDestroy(h.graph));
    }
    CHECK(cudaFree(h.now));
    CHECK(cudaFree(h.next));
    CHECK(cudaFree(h.largest));
    CHECK(cudaStreamDestroy(h.stream));
    return status;
}
