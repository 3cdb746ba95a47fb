/*
 * heat.h - the 2-D heat equation on a square plate, solved by explicit steps until it is steady.
 *
 * A step is two launches: the inner cells, then the edges. Every `check_every` steps the largest
 * change is computed on the GPU and read back, 4 bytes, and decides whether to go on: the pattern
 * of every iterative solver. What is shared by the bindings is here: options, the arithmetic of a
 * cell (the same on GPU and CPU, without fused multiply-add, so that the check is bit for bit) and
 * the solution on the CPU.
 */
#pragma once

#include "common/example.h"

#ifdef __CUDACC__
#define HEAT_BOTH static __host__ __device__ inline
#else
#define HEAT_BOTH static inline
#endif

#define HEAT_ALPHA 0.2f /* diffusion, below the 0.25 where explicit steps get unstable */
#define HEAT_LEVEL 1.0f /* temperature of the left edge; the right one is kept at 0 */

/* Temperature of an inner cell after a step; `at` indexes a plate of n by n cells. */
HEAT_BOTH float heat_cell(const float *plate, int n, int at, float alpha)
{
    float around = (plate[at - 1] + plate[at + 1]) + (plate[at - n] + plate[at + n]);
    return plate[at] + alpha * (around - 4.0f * plate[at]);
}

/* Edge cell number i of each edge: left and right are held, top and bottom let no heat through. */
HEAT_BOTH void heat_edges(float *plate, int n, int i, float level)
{
    if (i > 0 && i < n - 1) {
        plate[i] = plate[n + i];
        plate[(n - 1) * n + i] = plate[(n - 2) * n + i];
    }
    plate[i * n] = level;
    plate[i * n + n - 1] = 0.0f;
}

HEAT_BOTH float heat_change(const float *a, const float *b, int at)
{
    float change = a[at] - b[at];
    return change < 0.0f ? -change : change;
}

#ifdef __cplusplus
extern "C" {
#endif

struct heat_options {
    struct ex_pace pace;
    int size;        /* cells along each side */
    int most_steps;  /* gives up after so many */
    int check_every; /* steps between two looks at the residual */
    bool graph;      /* the steps up to a look captured by hand, one graph launch for all */
};

/* A solution and what it took. */
struct heat_solution {
    float *plate;
    int steps;
    float residual; /* the last one that was read back */
};

struct heat_options heat_parse(int argc, char **argv);

/* Whether a solver goes on after so many steps with this residual. */
bool heat_goes_on(const struct heat_options *options, int steps, float residual);

/* Launches of a solution of that many steps. */
double heat_launches(const struct heat_options *options, int steps);

/* Solves on the CPU, compares, prints the result line and returns the exit status. */
int heat_result(const struct heat_options *options, const char *binding, double us_per_launch,
                const struct heat_solution *solution);

#ifdef __cplusplus
}
#endif
