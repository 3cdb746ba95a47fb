/* cg_common.c - see cg.h. */
#define _GNU_SOURCE
#include "cg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOLVED            1e-4f /* the square of the residual below which the system counts as solved */
#define OPS_PER_ITERATION 6     /* five kernels and a copy */

static const char usage[] =
    "usage: cg [options]\n"
    "  --size=N             cells along each side of the grid (64)\n"
    "  --most-iterations=N  gives up after so many (500)\n"
    "  --graph              an iteration captured by hand\n"
    "  --reps=N             measured solutions (7)\n"
    "  --paced              wait for a line on stdin before each solution\n";

struct cg_options cg_parse(int argc, char **argv)
{
    struct cg_options o = {.pace = {.repetitions = 7}, .size = 64, .most_iterations = 500};
    ex_options(
        argc, argv, usage, &o.pace,
        (struct ex_option[]){{.name = "size", .number = &o.size, .least = 2},
                             {.name = "most-iterations", .number = &o.most_iterations, .least = 1},
                             {.name = "graph", .flag = &o.graph},
                             {.name = NULL}});
    ex_launches_per_step(OPS_PER_ITERATION);
    return o;
}

bool cg_goes_on(const struct cg_options *options, int iterations, float rr)
{
    return iterations < options->most_iterations && rr > SOLVED;
}

static float *zeros(size_t count)
{
    float *values = calloc(count, sizeof *values);
    if (!values) {
        perror("calloc");
        exit(1);
    }
    return values;
}

float *cg_right_side(const struct cg_options *options)
{
    size_t cells = (size_t)options->size * (size_t)options->size;
    float *b = zeros(cells);
    for (size_t i = 0; i < cells; i++) {
        b[i] = (float)(ex_hash((uint32_t)i + 1) >> 8) / 16777216.0f - 0.5f;
    }
    return b;
}

float cg_dot_on_cpu(const float *a, const float *b, int cells)
{
    float sums[CG_THREADS] = {0};
    for (int at = 0; at < cells; at++) {
        sums[at % CG_THREADS] += a[at] * b[at];
    }
    for (int half = CG_THREADS / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            sums[i] += sums[i + half];
        }
    }
    return sums[0];
}

static void solve_on_cpu(const struct cg_options *options, struct cg_solution *s)
{
    int n = options->size, cells = n * n;
    float *r = cg_right_side(options), *p = cg_right_side(options);
    float *q = zeros((size_t)cells);
    s->x = zeros((size_t)cells);
    s->rr = cg_dot_on_cpu(r, r, cells);
    for (s->iterations = 0; cg_goes_on(options, s->iterations, s->rr); s->iterations++) {
        for (int at = 0; at < cells; at++) {
            q[at] = cg_row(p, n, at);
        }
        float alpha = s->rr / cg_dot_on_cpu(p, q, cells);
        for (int at = 0; at < cells; at++) {
            s->x[at] += alpha * p[at];
            r[at] -= alpha * q[at];
        }
        float rr = cg_dot_on_cpu(r, r, cells);
        float beta = rr / s->rr;
        for (int at = 0; at < cells; at++) {
            p[at] = r[at] + beta * p[at];
        }
        s->rr = rr;
    }
    free(r);
    free(p);
    free(q);
}

int cg_result(const struct cg_options *options, const char *binding, double us_per_launch,
              const struct cg_solution *solution)
{
    struct cg_solution expected;
    size_t bytes = (size_t)options->size * (size_t)options->size * sizeof(float);
    solve_on_cpu(options, &expected);
    bool correct = expected.iterations == solution->iterations && expected.rr == solution->rr &&
                   !memcmp(expected.x, solution->x, bytes);
    if (!correct) {
        fprintf(stderr, "cg: %d iterations to %g, but %d to %g on the CPU\n", solution->iterations,
                (double)solution->rr, expected.iterations, (double)expected.rr);
    }
    free(expected.x);
    char variant[48];
    snprintf(variant, sizeof variant, "%d-iterations%s", solution->iterations,
             options->graph ? "-graph" : "");
    return ex_result("cg", binding, variant, us_per_launch, ex_checksum(solution->x, bytes),
                     correct);
}
