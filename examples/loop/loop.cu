// loop.cu - the published loop on the CUDA runtime.
#include "common/cudart_check.h"
#include "loop.h"
#include "loop_kernels.cuh"

struct loop {
    loop_options options;
    cudaStream_t stream;
    cudaStream_t side; // with fork
    cudaEvent_t forked, joined;
    cudaEvent_t begun, ended; // with timing
    unsigned int *data;
    unsigned int *filled; // with memsets
    uint32_t *polled;     // with LOOP_SYNC_POLL; mapped
    uint32_t *polled_on_device;
    uint32_t polled_was;
    long long busy_cycles;
    cudaGraphExec_t step_graph;
    uint32_t steps_done;
};

static void wait_for(cudaStream_t stream)
{
    ex_wait_begin();
    CHECK(cudaStreamSynchronize(stream));
    ex_wait_end();
}

static void launch(loop *l, cudaStream_t stream, unsigned int *data, int size, int k)
{
    const loop_options &o = l->options;
    loop_launch at = loop_launch_at(&o, l->steps_done, k);
    if (o.memsets) {
        CHECK(cudaMemsetAsync(l->filled, at.add & 0xff, LOOP_FILLED * sizeof *data, stream));
        filled_kernel<<<at.grid, at.block, 0, stream>>>(data, at.mul, l->filled, size, LOOP_FILLED);
    } else if (o.gpu_us) {
        busy_kernel<<<at.grid, at.block, 0, stream>>>(data, at.mul, at.add, size, l->busy_cycles);
    } else {
        short_kernel<<<at.grid, at.block, 0, stream>>>(data, at.mul, at.add, size);
    }
    if (o.sync == LOOP_SYNC_KERNEL) {
        wait_for(stream);
    }
}

// Two streams with a half each, between the first kernel and the end of the step.
static void launch_sides(loop *l)
{
    int size = l->options.size / 2;
    CHECK(cudaEventRecord(l->forked, l->stream));
    CHECK(cudaStreamWaitEvent(l->side, l->forked, 0));
    for (int k = 1; k < l->options.kernels; k++) {
        launch(l, l->stream, l->data, size, k);
        launch(l, l->side, l->data + size, size, k);
    }
    CHECK(cudaEventRecord(l->joined, l->side));
    CHECK(cudaStreamWaitEvent(l->stream, l->joined, 0));
}

static void launch_step(loop *l)
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

static void submit_step(loop *l)
{
    if (l->options.graph) {
        CHECK(cudaGraphLaunch(l->step_graph, l->stream));
    } else {
        launch_step(l);
    }
}

// A step between two events. Their distance has to be a time, whichever way the step was submitted.
static void timed_step(loop *l)
{
    float ms = -1.0f;
    CHECK(cudaEventRecord(l->begun, l->stream));
    submit_step(l);
    CHECK(cudaEventRecord(l->ended, l->stream));
    wait_for(l->stream);
    CHECK(cudaEventElapsedTime(&ms, l->begun, l->ended));
    if (!(ms > 0.0f)) {
        fprintf(stderr, "loop: a step took %g ms by its events\n", (double)ms);
        exit(1);
    }
}

static double repetition(void *arg)
{
    loop *l = static_cast<loop *>(arg);
    for (int step = 0; step < l->options.steps; step++) {
        if (l->options.timing) {
            timed_step(l);
        } else {
            submit_step(l);
            if (l->options.sync == LOOP_SYNC_STEP) {
                wait_for(l->stream);
            } else if (l->options.sync == LOOP_SYNC_POLL) {
                loop_launch last = loop_launch_at(&l->options, l->steps_done, l->options.kernels);
                l->polled_was = loop_poll(&last, l->polled, l->polled_was);
            }
        }
        l->steps_done++;
    }
    CHECK(cudaGetLastError());
    wait_for(l->stream);
    return static_cast<double>(l->options.steps) * loop_ops(&l->options);
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

    if (l.options.stream == LOOP_STREAM_OWN) {
        CHECK(cudaStreamCreate(&l.stream));
    } else if (l.options.stream == LOOP_STREAM_PER_THREAD) {
        l.stream = cudaStreamPerThread;
    }
    if (l.options.gpu_us) {
        int khz;
        CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
        l.busy_cycles = l.options.gpu_us * (khz / 1000ll);
    }
    if (l.options.fork) {
        CHECK(cudaStreamCreate(&l.side));
    }
    CHECK(cudaEventCreateWithFlags(&l.forked, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&l.joined, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&l.begun));
    CHECK(cudaEventCreate(&l.ended));
    CHECK(cudaMalloc(&l.filled, LOOP_FILLED * sizeof *l.filled));
    CHECK(cudaMalloc(&l.data, bytes));
    CHECK(cudaMemcpy(l.data, host, bytes, cudaMemcpyHostToDevice));
    if (l.options.sync == LOOP_SYNC_POLL) {
        CHECK(cudaHostAlloc(&l.polled, sizeof *l.polled, cudaHostAllocMapped));
        CHECK(cudaHostGetDevicePointer(&l.polled_on_device, l.polled, 0));
        *l.polled = 0;
    }
    if (l.options.graph) {
        capture_step(&l);
    }
    double us = ex_measure(&l.options.pace, repetition, &l);
    CHECK(cudaMemcpy(host, l.data, bytes, cudaMemcpyDeviceToHost));
    int status = loop_result(&l.options, BINDING, us, l.steps_done, host);

    if (l.step_graph) {
        CHECK(cudaGraphExecDestroy(l.step_graph));
    }
    if (l.polled) {
        CHECK(cudaFreeHost(l.polled));
    }
    CHECK(cudaFree(l.data));
    CHECK(cudaFree(l.filled));
    CHECK(cudaEventDestroy(l.forked));
    CHECK(cudaEventDestroy(l.joined));
    CHECK(cudaEventDestroy(l.begun));
    CHECK(cudaEventDestroy(l.ended));
    if (l.side) {
        CHECK(cudaStreamDestroy(l.side));
    }
    if (l.options.stream == LOOP_STREAM_OWN) {
        CHECK(cudaStreamDestroy(l.stream));
    }
    free(host);
    return status;
}
