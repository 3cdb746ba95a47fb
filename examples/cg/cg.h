/*
 * cg.h - conjugate gradients: solves A x = b, where A is the 5-point Laplacian on a square grid.
 *
 * An iteration is five short kernels and a copy of four bytes on the GPU; its scalars stay there,
 * and only the square of the residual is read back, in every iteration, to decide whether to go on.
 * What is shared by the bindings is here: options, the arithmetic (the same on GPU and CPU, without
 * fused multiply-add and with sums in one fixed order, so that the check is bit for bit) and the
 * solution on the CPU.
 */
#pragma once

#include "common/example.h"

#ifdef __CUDACC__
#define CG_BOTH static __host__ __device__ inline
#else
#define CG_BOTH static inline
#endif

/* A scalar product is summed by one block: each thread a share, then halves onto halves. */
#define CG_THREADS 256

/* Solutions a repetition: one alone takes too little time to be measured well. */
#define CG_SOLUTIONS 10

/* Where the scalars of an iteration lie. */
enum { CG_RR, CG_PQ, CG_NEW_RR, CG_SCALARS };

/* Row `at` of A times p; outside the grid there is nothing. */
CG_BOTH float cg_row(const float *p, int n, int at)
{
    int row = at / n, column = at % n;
    float west = column > 0 ? p[at - 1] : 0.0f, east = column < n - 1 ? p[at + 1] : 0.0f;
    float north = row > 0 ? p[at - n] : 0.0f, south = row < n - 1 ? p[at + n] : 0.0f;
    return 4.0f * p[at] - ((west + east) + (north + south));
}

#ifdef __cplusplus
extern "C" {
#endif

struct cg_options {
    struct ex_pace pace;
    int size;            /* cells along each side of the grid */
    int most_iterations; /* gives up after so many */
    bool graph;          /* an iteration captured by hand */
};

/* A solution and what it took. */
struct cg_solution {
    float *x;
    int iterations;
    float rr; /* the last one that was read back */
};

struct cg_options cg_parse(int argc, char **argv);

/* Whether a solver goes on after so many iterations with this square of the residual. */
bool cg_goes_on(const struct cg_options *options, int iterations, float rr);

/* The right-hand side, of size * size values. The caller frees it. */
float *cg_right_side(const struct cg_options *options);

/* The scalar product as the kernel sums it. */
float cg_dot_on_cpu(const float *a, const float *b, int cells);

/* Solves on the CPU, compares, prints the result line and returns the exit status. */
int cg_result(const struct cg_options *options, const char *binding, double us_per_launch,
              const struct cg_solution *solution);

#ifdef __cplusplus
}
#endif
