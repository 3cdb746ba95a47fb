/* heat_sim.c - see heat_sim.h. */
#include "heat_sim.h"
#include "heat.h"

#include <string.h>

static void heat_inner(const struct cuSimLaunch *launch)
{
    float *next = *(float **)launch->params[0];
    const float *now = *(const float **)launch->params[1];
    int n = *(const int *)launch->params[2];
    float alpha = *(const float *)launch->params[3];
    for (int row = 1; row < n - 1; row++) {
        for (int at = row * n + 1; at < row * n + n - 1; at++) {
            next[at] = heat_cell(now, n, at, alpha);
        }
    }
}

static void heat_edge(const struct cuSimLaunch *launch)
{
    float *plate = *(float **)launch->params[0];
    int n = *(const int *)launch->params[1];
    float level = *(const float *)launch->params[2];
    for (int i = 0; i < n; i++) {
        heat_edges(plate, n, i, level);
    }
}

static void heat_residual(const struct cuSimLaunch *launch)
{
    uint32_t *largest = *(uint32_t **)launch->params[0];
    const float *a = *(const float **)launch->params[1];
    const float *b = *(const float **)launch->params[2];
    int cells = *(const int *)launch->params[3];
    for (int at = 0; at < cells; at++) {
        float change = heat_change(a, b, at);
        uint32_t bits;
        memcpy(&bits, &change, sizeof bits);
        *largest = bits > *largest ? bits : *largest;
    }
}

static const size_t inner_sizes[] = {sizeof(CUdeviceptr), sizeof(CUdeviceptr), 4, 4};
static const size_t edge_sizes[] = {sizeof(CUdeviceptr), 4, 4};
static const size_t residual_sizes[] = {sizeof(CUdeviceptr), sizeof(CUdeviceptr),
                                        sizeof(CUdeviceptr), 4};

const struct driver_cpu_kernel heat_on_cpu[] = {{"heat_inner", heat_inner, 4, inner_sizes},
                                                {"heat_edge", heat_edge, 3, edge_sizes},
                                                {"heat_residual", heat_residual, 4, residual_sizes},
                                                {NULL, NULL, 0, NULL}};
