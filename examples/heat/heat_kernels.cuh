// The solver's kernels. Threads are spread over cells; see heat.h for the arithmetic.
#include "heat/heat.h"

#define HEAT_BLOCK 128

extern "C" __global__ void heat_inner(float *next, const float *now, int n, float alpha)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    if (column > 0 && column < n - 1 && row > 0 && row < n - 1) {
        next[row * n + column] = heat_cell(now, n, row * n + column, alpha);
    }
}

extern "C" __global__ void heat_edge(float *plate, int n, float level)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        heat_edges(plate, n, i, level);
    }
}

// The largest change, as the bits of a float: floats that are not negative sort like their bits,
// and a maximum does not depend on the order in which threads arrive.
extern "C" __global__ void heat_residual(unsigned int *largest, const float *a, const float *b,
                                         int cells)
{
    float mine = 0.0f;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < cells; at += gridDim.x * blockDim.x) {
        mine = fmaxf(mine, heat_change(a, b, at));
    }
    atomicMax(largest, __float_as_uint(mine));
}
