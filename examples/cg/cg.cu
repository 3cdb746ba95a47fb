// cg.cu - conjugate gradients on the CUDA runtime.
#include "common/cudart_check.h"
#include "cg.h"
#include "cg_kernels.cuh"

struct cg {
    cg_options options;
    cudaStream_t stream;
    float *b, *x, *r, *p, *q, *scalars;
    cudaGraphExec_t graph; // with graph: an iteration
    int iterations;
    float rr;
};

static void submit_iteration(cg *c)
{
    int n = c->options.size, cells = n * n;
    int blocks = (cells + CG_THREADS - 1) / CG_THREADS;
    cg_multiply<<<blocks, CG_THREADS, 0, c->stream>>>(c->q, c->p, n);
    cg_dot<<<1, CG_THREADS, 0, c->stream>>>(c->scalars + CG_PQ, c->p, c->q, cells);
    cg_advance<<<blocks, CG_THREADS, 0, c->stream>>>(c->x, c->r, c->p, c->q, c->scalars, cells);
    cg_dot<<<1, CG_THREADS, 0, c->stream>>>(c->scalars + CG_NEW_RR, c->r, c->r, cells);
    cg_turn<<<blocks, CG_THREADS, 0, c->stream>>>(c->p, c->r, c->scalars, cells);
    CHECK(cudaMemcpyAsync(c->scalars + CG_RR, c->scalars + CG_NEW_RR, sizeof c->rr,
                          cudaMemcpyDeviceToDevice, c->stream));
}

static void read_residual(cg *c)
{
    ex_wait_begin(); // a copy to pageable memory waits
    CHECK(cudaMemcpyAsync(&c->rr, c->scalars + CG_RR, sizeof c->rr, cudaMemcpyDeviceToHost,
                          c->stream));
    CHECK(cudaStreamSynchronize(c->stream));
    ex_wait_end();
}

static void start_over(cg *c)
{
    int cells = c->options.size * c->options.size;
    size_t bytes = cells * sizeof(float);
    CHECK(cudaMemsetAsync(c->x, 0, bytes, c->stream));
    CHECK(cudaMemcpyAsync(c->r, c->b, bytes, cudaMemcpyDeviceToDevice, c->stream));
    CHECK(cudaMemcpyAsync(c->p, c->b, bytes, cudaMemcpyDeviceToDevice, c->stream));
    cg_dot<<<1, CG_THREADS, 0, c->stream>>>(c->scalars + CG_RR, c->r, c->r, cells);
    read_residual(c);
}

static void solve(cg *c)
{
    start_over(c);
    for (c->iterations = 0; cg_goes_on(&c->options, c->iterations, c->rr); c->iterations++) {
        if (c->graph) {
            CHECK(cudaGraphLaunch(c->graph, c->stream));
        } else {
            submit_iteration(c);
        }
        read_residual(c);
    }
    CHECK(cudaGetLastError());
}

static double repetition(void *arg)
{
    cg *c = static_cast<cg *>(arg);
    for (int i = 0; i < CG_SOLUTIONS; i++) {
        solve(c);
    }
    return 6.0 * c->iterations * CG_SOLUTIONS;
}

static void capture_iteration(cg *c)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeGlobal));
    submit_iteration(c);
    CHECK(cudaStreamEndCapture(c->stream, &graph));
    CHECK(cudaGraphInstantiate(&c->graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(c->graph, c->stream));
    CHECK(cudaStreamSynchronize(c->stream));
}

int main(int argc, char **argv)
{
    cg c = {};
    c.options = cg_parse(argc, argv);
    size_t bytes = sizeof(float) * c.options.size * c.options.size;
    float *host = cg_right_side(&c.options);

    CHECK(cudaStreamCreate(&c.stream));
    for (float **vector : {&c.b, &c.x, &c.r, &c.p, &c.q}) {
        CHECK(cudaMalloc(vector, bytes));
    }
    CHECK(cudaMalloc(&c.scalars, CG_SCALARS * sizeof *c.scalars));
    CHECK(cudaMemcpy(c.b, host, bytes, cudaMemcpyHostToDevice));
    if (c.options.graph) {
        capture_iteration(&c);
    }
    double us = ex_measure(&c.options.pace, repetition, &c);

    CHECK(cudaMemcpy(host, c.x, bytes, cudaMemcpyDeviceToHost));
    cg_solution solution = {host, c.iterations, c.rr};
    int status = cg_result(&c.options, BINDING, us, &solution);

    free(host);
    if (c.graph) {
        CHECK(cudaGraphExecDestroy(c.graph));
    }
    for (float *memory : {c.b, c.x, c.r, c.p, c.q, c.scalars}) {
        CHECK(cudaFree(memory));
    }
    CHECK(cudaStreamDestroy(c.stream));
    return status;
}
