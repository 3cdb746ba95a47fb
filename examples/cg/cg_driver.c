/* cg_driver.c - conjugate gradients on the driver API. */
#include "cg.h"
#include "cg_sim.h"

#include <stdio.h>
#include <stdlib.h>

struct cg {
    struct cg_options options;
    CUstream stream;
    CUfunction multiply, dot, advance, turn;
    CUdeviceptr b, x, r, p, q, scalars;
    CUgraphExec graph; /* with graph: an iteration */
    int iterations;
    float rr;
};

static void launch(struct cg *c, CUfunction kernel, unsigned int blocks, void **params)
{
    CHECK(cuLaunchKernel(kernel, blocks, 1, 1, CG_THREADS, 1, 1, 0, c->stream, params, NULL));
}

static CUdeviceptr scalar(const struct cg *c, unsigned int which)
{
    return c->scalars + which * sizeof(float);
}

static void dot(struct cg *c, unsigned int sum, CUdeviceptr a, CUdeviceptr b)
{
    CUdeviceptr to = scalar(c, sum);
    int cells = c->options.size * c->options.size;
    launch(c, c->dot, 1, (void *[]){&to, &a, &b, &cells});
}

static void submit_iteration(struct cg *c)
{
    int n = c->options.size, cells = n * n;
    unsigned int blocks = ((unsigned int)cells + CG_THREADS - 1) / CG_THREADS;
    launch(c, c->multiply, blocks, (void *[]){&c->q, &c->p, &n});
    dot(c, CG_PQ, c->p, c->q);
    launch(c, c->advance, blocks, (void *[]){&c->x, &c->r, &c->p, &c->q, &c->scalars, &cells});
    dot(c, CG_NEW_RR, c->r, c->r);
    launch(c, c->turn, blocks, (void *[]){&c->p, &c->r, &c->scalars, &cells});
    CHECK(cuMemcpyDtoDAsync(scalar(c, CG_RR), scalar(c, CG_NEW_RR), sizeof c->rr, c->stream));
}

static void read_residual(struct cg *c)
{
    ex_wait_begin(); /* a copy to pageable memory waits */
    CHECK(cuMemcpyDtoHAsync(&c->rr, scalar(c, CG_RR), sizeof c->rr, c->stream));
    CHECK(cuStreamSynchronize(c->stream));
    ex_wait_end();
}

static void start_over(struct cg *c)
{
    size_t bytes = (size_t)c->options.size * (size_t)c->options.size * sizeof(float);
    CHECK(cuMemsetD8Async(c->x, 0, bytes, c->stream));
    CHECK(cuMemcpyDtoDAsync(c->r, c->b, bytes, c->stream));
    CHECK(cuMemcpyDtoDAsync(c->p, c->b, bytes, c->stream));
    dot(c, CG_RR, c->r, c->r);
    read_residual(c);
}

static void solve(struct cg *c)
{
    start_over(c);
    for (c->iterations = 0; cg_goes_on(&c->options, c->iterations, c->rr); c->iterations++) {
        if (c->graph) {
            CHECK(cuGraphLaunch(c->graph, c->stream));
        } else {
            submit_iteration(c);
        }
        read_residual(c);
    }
}

static double repetition(void *arg)
{
    struct cg *c = arg;
    for (int i = 0; i < CG_SOLUTIONS; i++) {
        solve(c);
    }
    return 6.0 * c->iterations * CG_SOLUTIONS;
}

static void capture_iteration(struct cg *c)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    submit_iteration(c);
    CHECK(cuStreamEndCapture(c->stream, &graph));
    CHECK(cuGraphInstantiate(&c->graph, graph, 0));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphUpload(c->graph, c->stream));
    CHECK(cuStreamSynchronize(c->stream));
}

int main(int argc, char **argv)
{
    struct cg c = {.options = cg_parse(argc, argv)};
    size_t bytes = (size_t)c.options.size * (size_t)c.options.size * sizeof(float);
    CUdeviceptr *memory[] = {&c.b, &c.x, &c.r, &c.p, &c.q};
    const size_t vectors = sizeof memory / sizeof *memory;
    float *host = cg_right_side(&c.options);

    driver_start();
    CUmodule module = driver_load("cg_kernels", cg_on_cpu);
    c.multiply = driver_kernel(module, "cg_multiply");
    c.dot = driver_kernel(module, "cg_dot");
    c.advance = driver_kernel(module, "cg_advance");
    c.turn = driver_kernel(module, "cg_turn");
    CHECK(cuStreamCreate(&c.stream, CU_STREAM_DEFAULT));
    for (size_t i = 0; i < vectors; i++) {
        CHECK(cuMemAlloc(memory[i], bytes));
    }
    CHECK(cuMemAlloc(&c.scalars, CG_SCALARS * sizeof(float)));
    CHECK(cuMemcpyHtoD(c.b, host, bytes));
    if (c.options.graph) {
        capture_iteration(&c);
    }
    double us = ex_measure(&c.options.pace, repetition, &c);

    CHECK(cuMemcpyDtoH(host, c.x, bytes));
    struct cg_solution solution = {host, c.iterations, c.rr};
    int status = cg_result(&c.options, "driver", us, &solution);

    free(host);
    if (c.graph) {
        CHECK(cuGraphExecDestroy(c.graph));
    }
    for (size_t i = 0; i < vectors; i++) {
        CHECK(cuMemFree(*memory[i]));
    }
    CHECK(cuMemFree(c.scalars));
    CHECK(cuStreamDestroy(c.stream));
    CHECK(cuModuleUnload(module));
    driver_stop();
    return status;
}
