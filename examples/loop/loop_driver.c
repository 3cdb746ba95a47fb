/* loop_driver.c - the published loop on the driver API. */
#include "loop.h"
#include "loop_sim.h"

#include <stdlib.h>

struct loop {
    struct loop_options options;
    CUstream stream;
    CUfunction kernel;
    CUdeviceptr data;
    CUgraphExec step_graph;
    uint32_t steps_done;
};

static void launch_step(struct loop *l)
{
    for (int k = 0; k < l->options.kernels; k++) {
        struct loop_launch launch = loop_launch_at(&l->options, l->steps_done, (uint32_t)k);
        void *params[] = {&l->data, &launch.mul, &launch.add, &l->options.size};
        CHECK(cuLaunchKernel(l->kernel, launch.grid, 1, 1, launch.block, 1, 1, 0, l->stream, params,
                             NULL));
        if (l->options.sync == LOOP_SYNC_KERNEL) {
            CHECK(cuStreamSynchronize(l->stream));
        }
    }
}

static double repetition(void *arg)
{
    struct loop *l = arg;
    for (int step = 0; step < l->options.steps; step++) {
        if (l->options.graph) {
            CHECK(cuGraphLaunch(l->step_graph, l->stream));
        } else {
            launch_step(l);
        }
        if (l->options.sync == LOOP_SYNC_STEP) {
            CHECK(cuStreamSynchronize(l->stream));
        }
        l->steps_done++;
    }
    CHECK(cuStreamSynchronize(l->stream));
    return (double)l->options.steps * (double)l->options.kernels;
}

static void capture_step(struct loop *l)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(l->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_step(l);
    CHECK(cuStreamEndCapture(l->stream, &graph));
    CHECK(cuGraphInstantiate(&l->step_graph, graph, 0));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphUpload(l->step_graph, l->stream));
    CHECK(cuStreamSynchronize(l->stream));
}

int main(int argc, char **argv)
{
    struct loop l = {.options = loop_parse(argc, argv)};
    size_t bytes = (size_t)l.options.size * sizeof(uint32_t);
    uint32_t *host = loop_initial(&l.options);

    driver_start();
    CUmodule module = driver_load("loop_kernels", loop_on_cpu);
    l.kernel = driver_kernel(module, "short_kernel");
    if (!l.options.legacy_stream) {
        CHECK(cuStreamCreate(&l.stream, CU_STREAM_DEFAULT));
    }
    CHECK(cuMemAlloc(&l.data, bytes));
    CHECK(cuMemcpyHtoD(l.data, host, bytes));
    if (l.options.graph) {
        capture_step(&l);
    }
    double us = ex_measure(&l.options.pace, repetition, &l);
    CHECK(cuMemcpyDtoH(host, l.data, bytes));
    int status = loop_result(&l.options, "driver", us, l.steps_done, host);

    if (l.step_graph) {
        CHECK(cuGraphExecDestroy(l.step_graph));
    }
    CHECK(cuMemFree(l.data));
    if (l.stream) {
        CHECK(cuStreamDestroy(l.stream));
    }
    CHECK(cuModuleUnload(module));
    driver_stop();
    free(host);
    return status;
}
