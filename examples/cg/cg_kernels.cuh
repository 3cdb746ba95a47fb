// The solver's kernels; see cg.h for the arithmetic.
#include "cg/cg.h"

// q = A p
extern "C" __global__ void cg_multiply(float *q, const float *p, int n)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n * n) {
        q[at] = cg_row(p, n, at);
    }
}

// *sum = a . b, by one block of CG_THREADS.
extern "C" __global__ void cg_dot(float *sum, const float *a, const float *b, int cells)
{
    __shared__ float sums[CG_THREADS];
    int i = threadIdx.x;
    float mine = 0.0f;
    for (int at = i; at < cells; at += CG_THREADS) {
        mine += a[at] * b[at];
    }
    sums[i] = mine;
    for (int half = CG_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (i < half) {
            sums[i] += sums[i + half];
        }
    }
    if (i == 0) {
        *sum = sums[0];
    }
}

// x += alpha p, r -= alpha q
extern "C" __global__ void cg_advance(float *x, float *r, const float *p, const float *q,
                                      const float *scalars, int cells)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float alpha = scalars[CG_RR] / scalars[CG_PQ];
    if (at < cells) {
        x[at] += alpha * p[at];
        r[at] -= alpha * q[at];
    }
}

// p = r + beta p
extern "C" __global__ void cg_turn(float *p, const float *r, const float *scalars, int cells)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float beta = scalars[CG_NEW_RR] / scalars[CG_RR];
    if (at < cells) {
        p[at] = r[at] + beta * p[at];
    }
}
