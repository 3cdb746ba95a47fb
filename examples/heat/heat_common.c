/* heat_common.c - see heat.h. */
#define _GNU_SOURCE
#include "heat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEADY 1e-4f /* the change in a step below which the plate counts as steady */

static const char usage[] = "usage: heat [options]\n"
                            "  --size=N         cells along each side of the plate (64)\n"
                            "  --most-steps=N   gives up after so many steps (5000)\n"
                            "  --check-every=N  steps between two looks at the residual (10)\n"
                            "  --graph          the steps between two looks captured by hand\n"
                            "  --reps=N         measured solutions (7)\n"
                            "  --paced          wait for a line on stdin before each solution\n";

struct heat_options heat_parse(int argc, char **argv)
{
    struct heat_options o = {
        .pace = {.repetitions = 7}, .size = 64, .most_steps = 5000, .check_every = 10};
    ex_options(argc, argv, usage, &o.pace,
               (struct ex_option[]){{.name = "size", .number = &o.size, .least = 4},
                                    {.name = "most-steps", .number = &o.most_steps, .least = 1},
                                    {.name = "check-every", .number = &o.check_every, .least = 1},
                                    {.name = "graph", .flag = &o.graph},
                                    {.name = NULL}});
    if (o.graph && (o.check_every % 2 || o.most_steps % o.check_every)) {
        /* A graph names its memory: the two plates must lie as before after the steps of one. */
        ex_refuse("--graph goes with an even --check-every that divides --most-steps", usage);
    }
    ex_launches_per_step(2 * o.check_every + 1);
    return o;
}

bool heat_goes_on(const struct heat_options *options, int steps, float residual)
{
    return steps < options->most_steps && residual > STEADY;
}

double heat_launches(const struct heat_options *options, int steps)
{
    return 2.0 * steps + steps / options->check_every;
}

static void solve_on_cpu(const struct heat_options *options, struct heat_solution *s)
{
    int n = options->size;
    size_t cells = (size_t)n * (size_t)n;
    float *now = calloc(cells, sizeof *now);
    float *next = calloc(cells, sizeof *next);
    if (!now || !next) {
        perror("calloc");
        exit(1);
    }
    s->steps = 0;
    s->residual = 1.0f;
    while (heat_goes_on(options, s->steps, s->residual)) {
        for (int row = 1; row < n - 1; row++) {
            for (int at = row * n + 1; at < row * n + n - 1; at++) {
                next[at] = heat_cell(now, n, at, HEAT_ALPHA);
            }
        }
        for (int i = 0; i < n; i++) {
            heat_edges(next, n, i, HEAT_LEVEL);
        }
        if (++s->steps % options->check_every == 0) {
            s->residual = 0.0f;
            for (int at = 0; at < n * n; at++) {
                float change = heat_change(next, now, at);
                s->residual = change > s->residual ? change : s->residual;
            }
        }
        float *old = now;
        now = next;
        next = old;
    }
    s->plate = now;
    free(next);
}

int heat_result(const struct heat_options *options, const char *binding, double us_per_launch,
                const struct heat_solution *solution)
{
    struct heat_solution expected;
    size_t bytes = (size_t)options->size * (size_t)options->size * sizeof(float);
    solve_on_cpu(options, &expected);
    bool correct = expected.steps == solution->steps && expected.residual == solution->residual &&
                   !memcmp(expected.plate, solution->plate, bytes);
    if (!correct) {
        fprintf(stderr, "heat: %d steps to a residual of %g, but %d to %g on the CPU\n",
                solution->steps, (double)solution->residual, expected.steps,
                (double)expected.residual);
    }
    free(expected.plate);
    char variant[48];
    snprintf(variant, sizeof variant, "%d-steps%s", solution->steps,
             options->graph ? "-graph" : "");
    return ex_result("heat", binding, variant, us_per_launch, ex_checksum(solution->plate, bytes),
                     correct);
}
