// loop.cu - the published loop on the CUDA runtime.
#include "common/cudart_check.h"
#include "loop.h"
#include "loop_kernels.cuh"

struct loop {
    loop_options options;
    cudaStream_t stream;
    unsigned int *data;
    cudaGraphExec_t step_graph;
    uint32_t steps_done;
};

static void launch_step(loop *l)
{
    for (int k = 0; k < l->options.kernels; k++) {
        loop_launch launch = loop_launch_at(&l->options, l->steps_done, k);
        short_kernel<<<launch.grid, launch.block, 0, l->stream>>>(l->data, launch.mul, launch.add,
                                                                  l->options.size);
        if (l->options.sync == LOOP_SYNC_KERNEL) {
            CHECK(cudaStreamSynchronize(l->stream));
        }
    }
}

static double repetition(void *arg)
{
    loop *l = static_cast<loop *>(arg);
    for (int step = 0; step < l->options.steps; step++) {
        if (l->options.graph) {
            CHECK(cudaGraphLaunch(l->step_graph, l->stream));
        } else {
            launch_step(l);
        }
        if (l->options.sync == LOOP_SYNC_STEP) {
            CHECK(cudaStreamSynchronize(l->stream));
        }
        l->steps_done++;
    }
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(l->stream));
    return static_cast<double>(l->options.steps) * l->options.kernels;
}

static void capture_step(loop *l)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(l->stream, cudaStreamCaptureModeGlobal));
    launch_step(l);
    CHECK(cudaStreamEndCapture(l->stream, &graph));
    CHECK(cudaGraphInstantiate(&l->step_graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(l->step_graph, l->stream));
    CHECK(cudaStreamSynchronize(l->stream));
}

int main(int argc, char **argv)
{
    loop l = {};
    l.options = loop_parse(argc, argv);
    size_t bytes = l.options.size * sizeof *l.data;
    uint32_t *host = loop_initial(&l.options);

    if (!l.options.legacy_stream) {
        CHECK(cudaStreamCreate(&l.stream));
    }
    CHECK(cudaMalloc(&l.data, bytes));
    CHECK(cudaMemcpy(l.data, host, bytes, cudaMemcpyHostToDevice));
    if (l.options.graph) {
        capture_step(&l);
    }
    double us = ex_measure(&l.options.pace, repetition, &l);
    CHECK(cudaMemcpy(host, l.data, bytes, cudaMemcpyDeviceToHost));
    int status = loop_result(&l.options, BINDING, us, l.steps_done, host);

    if (l.step_graph) {
        CHECK(cudaGraphExecDestroy(l.step_graph));
    }
    CHECK(cudaFree(l.data));
    if (l.stream) {
        CHECK(cudaStreamDestroy(l.stream));
    }
    free(host);
    return status;
}
