/* heat_driver.c - the heat equation on the driver API. */
#include "heat.h"
#include "heat_sim.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAT_BLOCK 128u

struct heat {
    struct heat_options options;
    CUstream stream;
    CUfunction inner, edge, residual_kernel;
    CUdeviceptr now, next, largest;
    CUgraphExec graph; /* with graph: the steps up to a look */
    int steps;
    float residual;
};

static void launch(struct heat *h, CUfunction kernel, unsigned int blocks, unsigned int rows,
                   void **params)
{
    CHECK(cuLaunchKernel(kernel, blocks, rows, 1, HEAT_BLOCK, 1, 1, 0, h->stream, params, NULL));
}

static void step(struct heat *h)
{
    int n = h->options.size, cells = n * n;
    float alpha = HEAT_ALPHA, level = HEAT_LEVEL;
    unsigned int blocks = ((unsigned int)n + HEAT_BLOCK - 1) / HEAT_BLOCK;
    launch(h, h->inner, blocks, (unsigned int)n, (void *[]){&h->next, &h->now, &n, &alpha});
    launch(h, h->edge, blocks, 1, (void *[]){&h->next, &n, &level});
    if (++h->steps % h->options.check_every == 0) {
        CHECK(cuMemsetD32Async(h->largest, 0, 1, h->stream));
        launch(h, h->residual_kernel, 8, 1, (void *[]){&h->largest, &h->next, &h->now, &cells});
    }
    CUdeviceptr old = h->now;
    h->now = h->next;
    h->next = old;
}

static void submit_steps(struct heat *h)
{
    do {
        step(h);
    } while (h->steps % h->options.check_every && h->steps < h->options.most_steps);
}

static void look(struct heat *h)
{
    ex_wait_begin(); /* a copy to pageable memory waits */
    CHECK(cuMemcpyDtoHAsync(&h->residual, h->largest, sizeof h->residual, h->stream));
    CHECK(cuStreamSynchronize(h->stream));
    ex_wait_end();
}

/* The steps up to the next look, and the look where they are not the last few. */
static void advance(struct heat *h)
{
    if (h->graph) {
        CHECK(cuGraphLaunch(h->graph, h->stream));
        h->steps += h->options.check_every;
    } else {
        submit_steps(h);
    }
    if (h->steps % h->options.check_every == 0) {
        look(h);
    }
}

static void capture_steps(struct heat *h)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(h->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    submit_steps(h);
    CHECK(cuStreamEndCapture(h->stream, &graph));
    CHECK(cuGraphInstantiate(&h->graph, graph, 0));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphUpload(h->graph, h->stream));
    CHECK(cuStreamSynchronize(h->stream));
}

static double solve(void *arg)
{
    struct heat *h = arg;
    size_t cells = (size_t)h->options.size * (size_t)h->options.size;
    CHECK(cuMemsetD32Async(h->now, 0, cells, h->stream));
    CHECK(cuMemsetD32Async(h->next, 0, cells, h->stream));
    h->steps = 0;
    h->residual = 1.0f;
    while (heat_goes_on(&h->options, h->steps, h->residual)) {
        advance(h);
    }
    CHECK(cuStreamSynchronize(h->stream));
    return heat_launches(&h->options, h->steps);
}

int main(int argc, char **argv)
{
    struct heat h = {.options = heat_parse(argc, argv)};
    size_t bytes = (size_t)h.options.size * (size_t)h.options.size * sizeof(float);

    driver_start();
    CUmodule module = driver_load("heat_kernels", heat_on_cpu);
    h.inner = driver_kernel(module, "heat_inner");
    h.edge = driver_kernel(module, "heat_edge");
    h.residual_kernel = driver_kernel(module, "heat_residual");
    CHECK(cuStreamCreate(&h.stream, CU_STREAM_DEFAULT));
    CHECK(cuMemAlloc(&h.now, bytes));
    CHECK(cuMemAlloc(&h.next, bytes));
    CHECK(cuMemAlloc(&h.largest, sizeof(uint32_t)));
    if (h.options.graph) {
        capture_steps(&h);
    }
    double us = ex_measure(&h.options.pace, solve, &h);

    struct heat_solution solution = {malloc(bytes), h.steps, h.residual};
    if (!solution.plate) {
        perror("malloc");
        return 1;
    }
    CHECK(cuMemcpyDtoH(solution.plate, h.now, bytes));
    int status = heat_result(&h.options, "driver", us, &solution);

    free(solution.plate);
    if (h.graph) {
        CHECK(cuGraphExecDestroy(h.graph));
    }
    CHECK(cuMemFree(h.now));
    CHECK(cuMemFree(h.next));
    CHECK(cuMemFree(h.largest));
    CHECK(cuStreamDestroy(h.stream));
    CHECK(cuModuleUnload(module));
    driver_stop();
    return status;
}
