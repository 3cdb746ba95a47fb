/* cg_sim.c - see cg_sim.h. */
#include "cg_sim.h"
#include "cg.h"

static void cg_multiply(const struct cuSimLaunch *launch)
{
    float *q = *(float **)launch->params[0];
    const float *p = *(const float **)launch->params[1];
    int n = *(const int *)launch->params[2];
    for (int at = 0; at < n * n; at++) {
        q[at] = cg_row(p, n, at);
    }
}

static void cg_dot(const struct cuSimLaunch *launch)
{
    float *sum = *(float **)launch->params[0];
    const float *a = *(const float **)launch->params[1];
    const float *b = *(const float **)launch->params[2];
    *sum = cg_dot_on_cpu(a, b, *(const int *)launch->params[3]);
}

static void cg_advance(const struct cuSimLaunch *launch)
{
    float *x = *(float **)launch->params[0];
    float *r = *(float **)launch->params[1];
    const float *p = *(const float **)launch->params[2];
    const float *q = *(const float **)launch->params[3];
    const float *scalars = *(const float **)launch->params[4];
    int cells = *(const int *)launch->params[5];
    float alpha = scalars[CG_RR] / scalars[CG_PQ];
    for (int at = 0; at < cells; at++) {
        x[at] += alpha * p[at];
        r[at] -= alpha * q[at];
    }
}

static void cg_turn(const struct cuSimLaunch *launch)
{
    float *p = *(float **)launch->params[0];
    const float *r = *(const float **)launch->params[1];
    const float *scalars = *(const float **)launch->params[2];
    int cells = *(const int *)launch->params[3];
    float beta = scalars[CG_NEW_RR] / scalars[CG_RR];
    for (int at = 0; at < cells; at++) {
        p[at] = r[at] + beta * p[at];
    }
}

#define POINTER sizeof(CUdeviceptr)
static const size_t multiply_sizes[] = {POINTER, POINTER, 4};
static const size_t dot_sizes[] = {POINTER, POINTER, POINTER, 4};
static const size_t advance_sizes[] = {POINTER, POINTER, POINTER, POINTER, POINTER, 4};
static const size_t turn_sizes[] = {POINTER, POINTER, POINTER, 4};

const struct driver_cpu_kernel cg_on_cpu[] = {{"cg_multiply", cg_multiply, 3, multiply_sizes},
                                              {"cg_dot", cg_dot, 4, dot_sizes},
                                              {"cg_advance", cg_advance, 6, advance_sizes},
                                              {"cg_turn", cg_turn, 4, turn_sizes},
                                              {NULL, NULL, 0, NULL}};
