/* loop_driver.c - the published loop on the driver API. */
#include "loop.h"
#include "loop_sim.h"

#include <stdio.h>
#include <stdlib.h>

struct loop {
    struct loop_options options;
    CUstream stream;
    CUfunction kernel;
    CUstream side; /* with fork */
    CUevent forked, joined;
    CUevent begun, ended; /* with timing */
    CUdeviceptr data;
    CUdeviceptr filled; /* with memsets */
    uint32_t *polled;   /* with LOOP_SYNC_POLL; mapped */
    CUdeviceptr polled_on_device;
    uint32_t polled_was;
    long long busy_cycles;
    CUgraphExec step_graph;
    uint32_t steps_done;
};

static void wait_for(CUstream stream)
{
    ex_wait_begin();
    CHECK(cuStreamSynchronize(stream));
    ex_wait_end();
}

static void launch(struct loop *l, CUstream stream, CUdeviceptr data, int size, int k)
{
    const struct loop_options *o = &l->options;
    struct loop_launch launch = loop_launch_at(o, l->steps_done, (uint32_t)k);
    int words = LOOP_FILLED;
    void *params[] = {&data, &launch.mul, &launch.add, &size, &l->busy_cycles};
    if (o->memsets) {
        CHECK(cuMemsetD32Async(l->filled, launch.add, LOOP_FILLED, stream));
        params[2] = &l->filled;
        params[4] = &words;
    }
    CHECK(
        cuLaunchKernel(l->kernel, launch.grid, 1, 1, launch.block, 1, 1, 0, stream, params, NULL));
    if (o->sync == LOOP_SYNC_KERNEL) {
        wait_for(stream);
    }
}

/* Two streams with a half each, between the first kernel and the end of the step. */
static void launch_sides(struct loop *l)
{
    int size = l->options.size / 2;
    CHECK(cuEventRecord(l->forked, l->stream));
    CHECK(cuStreamWaitEvent(l->side, l->forked, 0));
    for (int k = 1; k < l->options.kernels; k++) {
        launch(l, l->stream, l->data, size, k);
        launch(l, l->side, l->data + (CUdeviceptr)size * sizeof(uint32_t), size, k);
    }
    CHECK(cuEventRecord(l->joined, l->side));
    CHECK(cuStreamWaitEvent(l->stream, l->joined, 0));
}

static void launch_step(struct loop *l)
{
    if (l->options.fork) {
        launch(l, l->stream, l->data, l->options.size, 0);
        launch_sides(l);
        return;
    }
    for (int k = 0; k < l->options.kernels; k++) {
        launch(l, l->stream, l->data, l->options.size, k);
    }
    if (l->options.sync == LOOP_SYNC_POLL) {
        launch(l, l->stream, l->polled_on_device, 1, l->options.kernels);
    }
}

static void submit_step(struct loop *l)
{
    if (l->options.graph) {
        CHECK(cuGraphLaunch(l->step_graph, l->stream));
    } else {
        launch_step(l);
    }
}

/* A step between two events. Their distance has to be a time, whichever way the step was submitted.
 */
static void timed_step(struct loop *l)
{
    float ms = -1.0f;
    CHECK(cuEventRecord(l->begun, l->stream));
    submit_step(l);
    CHECK(cuEventRecord(l->ended, l->stream));
    wait_for(l->stream);
    CHECK(cuEventElapsedTime(&ms, l->begun, l->ended));
    if (!(ms > 0.0f)) {
        fprintf(stderr, "loop: a step took %g ms by its events\n", (double)ms);
        exit(1);
    }
}

static double repetition(void *arg)
{
    struct loop *l = arg;
    for (int step = 0; step < l->options.steps; step++) {
        if (l->options.timing) {
            timed_step(l);
        } else {
            submit_step(l);
            if (l->options.sync == LOOP_SYNC_STEP) {
                wait_for(l->stream);
            } else if (l->options.sync == LOOP_SYNC_POLL) {
                struct loop_launch last =
                    loop_launch_at(&l->options, l->steps_done, (uint32_t)l->options.kernels);
                l->polled_was = loop_poll(&last, l->polled, l->polled_was);
            }
        }
        l->steps_done++;
    }
    wait_for(l->stream);
    return (double)l->options.steps * loop_ops(&l->options);
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
    l.kernel = driver_kernel(module, l.options.memsets  ? "filled_kernel"
                                     : l.options.gpu_us ? "busy_kernel"
                                                        : "short_kernel");
    if (l.options.gpu_us) {
        l.busy_cycles = (long long)(l.options.gpu_us * driver_cycles_per_us());
    }
    if (l.options.stream == LOOP_STREAM_OWN) {
        CHECK(cuStreamCreate(&l.stream, CU_STREAM_DEFAULT));
    } else if (l.options.stream == LOOP_STREAM_PER_THREAD) {
        l.stream = CU_STREAM_PER_THREAD;
    }
    if (l.options.fork) {
        CHECK(cuStreamCreate(&l.side, CU_STREAM_DEFAULT));
    }
    CHECK(cuEventCreate(&l.forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&l.joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&l.begun, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&l.ended, CU_EVENT_DEFAULT));
    CHECK(cuMemAlloc(&l.filled, LOOP_FILLED * sizeof(uint32_t)));
    CHECK(cuMemAlloc(&l.data, bytes));
    CHECK(cuMemcpyHtoD(l.data, host, bytes));
    if (l.options.sync == LOOP_SYNC_POLL) {
        CHECK(cuMemHostAlloc((void **)&l.polled, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
        CHECK(cuMemHostGetDevicePointer(&l.polled_on_device, l.polled, 0));
        *l.polled = 0;
    }
    if (l.options.graph) {
        capture_step(&l);
    }
    double us = ex_measure(&l.options.pace, repetition, &l);
    CHECK(cuMemcpyDtoH(host, l.data, bytes));
    int status = loop_result(&l.options, "driver", us, l.steps_done, host);

    if (l.step_graph) {
        CHECK(cuGraphExecDestroy(l.step_graph));
    }
    if (l.polled) {
        CHECK(cuMemFreeHost(l.polled));
    }
    CHECK(cuMemFree(l.data));
    CHECK(cuMemFree(l.filled));
    CHECK(cuEventDestroy(l.forked));
    CHECK(cuEventDestroy(l.joined));
    CHECK(cuEventDestroy(l.begun));
    CHECK(cuEventDestroy(l.ended));
    if (l.side) {
        CHECK(cuStreamDestroy(l.side));
    }
    if (l.options.stream == LOOP_STREAM_OWN) {
        CHECK(cuStreamDestroy(l.stream));
    }
    CHECK(cuModuleUnload(module));
    driver_stop();
    free(host);
    return status;
}
