/*
 * matrix.c - microseconds an op of one loop in many settings, for matrix.py.
 *
 *   matrix --calibrate
 *       prints BASE, the microseconds of a kernel that does not spin, and RATE, its cycles in a
 *       microsecond. Done once, so that all processes spin alike.
 *   matrix [--unchecked] BASE RATE WARM MS CELL...
 *       a cell is KERNEL:GAP:OPS:SYNC: microseconds of GPU time a kernel, microseconds that the
 *       host works between two launches, launches a step, and whether each step ends in a sync (1)
 *       or not (0). Each gets WARM milliseconds to warm up and MS to be measured in. Prints CELL
 *       and the microseconds an op in each of three parts. With --unchecked launches may do
 *       nothing.
 */
#define _GNU_SOURCE
#include "spin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS       3   /* measured parts of a cell */
#define WARM_STEPS   6   /* at least */
#define LAUNCH_US    2.5 /* about what a launch costs the host; only sizes the loops */
#define CALIBRATIONS 200 /* kernels in the graph that is timed */

struct cell {
    double kernel_us, gap_us;
    int ops, sync, family;
    long long cycles;
    CUstream stream;
};

static void run_steps(struct spin *spin, const struct cell *cell, int steps)
{
    for (int step = 0; step < steps; step++) {
        for (int k = 0; k < cell->ops; k++) {
            spin_launch(spin, cell->stream, cell->family, k, cell->cycles);
            spin_host(cell->gap_us);
        }
        if (cell->sync) {
            CHECK(cuStreamSynchronize(cell->stream));
        }
    }
    CHECK(cuStreamSynchronize(cell->stream));
}

static void measure(struct spin *spin, const struct cell *cell, double warm_ms, double ms,
                    double us[BLOCKS])
{
    double host_us = cell->gap_us + LAUNCH_US;
    double step_us = cell->ops * (host_us > cell->kernel_us ? host_us : cell->kernel_us);
    int steps = 1 + (int)(ms * 1e3 / BLOCKS / step_us);

    /* It warms up by what is measured, syncs between two parts included. */
    double start = ex_now_us();
    for (int done = 0; done < WARM_STEPS || ex_now_us() - start < warm_ms * 1e3; done += steps) {
        run_steps(spin, cell, steps);
    }
    for (int i = 0; i < BLOCKS; i++) {
        start = ex_now_us();
        run_steps(spin, cell, steps);
        us[i] = (ex_now_us() - start) / ((double)steps * cell->ops);
    }
}

/* GPU microseconds of a kernel among others in a graph. */
static double graph_us(struct spin *spin, CUstream stream, long long cycles)
{
    CUgraph graph;
    CUgraphExec exec;
    CUevent begun, ended;
    float best_ms = 1e9f;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int k = 0; k < CALIBRATIONS; k++) {
        spin_launch(spin, stream, 0, k, cycles);
    }
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
    for (int i = 0; i < 20; i++) {
        float ms;
        CHECK(cuEventRecord(begun, stream));
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuEventRecord(ended, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuEventElapsedTime(&ms, begun, ended));
        best_ms = ms < best_ms ? ms : best_ms;
    }
    CHECK(cuEventDestroy(begun));
    CHECK(cuEventDestroy(ended));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    return best_ms * 1e3 / CALIBRATIONS;
}

static void calibrate(struct spin *spin, CUstream stream)
{
    const long long cycles = 40000;
    graph_us(spin, stream, cycles); /* brings the clock up */
    double longer = graph_us(spin, stream, cycles);
    double base = graph_us(spin, stream, 0);
    double rate = (double)cycles / (longer - base);
    printf("BASE %.4f RATE %.4f\n", base, rate);
}

static bool parse_cell(const char *text, struct cell *cell)
{
    char rest;
    return sscanf(text, "%lf:%lf:%d:%d%c", &cell->kernel_us, &cell->gap_us, &cell->ops, &cell->sync,
                  &rest) == 4 &&
           cell->ops > 0;
}

int main(int argc, char **argv)
{
    struct spin spin;
    CUstream stream;
    bool unchecked = argc > 1 && !strcmp(argv[1], "--unchecked");
    argv += unchecked;
    argc -= unchecked;
    if (argc < 2 || (argc < 6 && strcmp(argv[1], "--calibrate"))) {
        fprintf(stderr, "usage: matrix --calibrate | matrix [--unchecked] BASE RATE WARM MS "
                        "KERNEL:GAP:OPS:SYNC...\n");
        return 2;
    }
    spin_start(&spin);
    if (!strcmp(argv[1], "--calibrate")) {
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        calibrate(&spin, stream);
        CHECK(cuStreamDestroy(stream));
        spin_stop(&spin);
        return 0;
    }
    double base = strtod(argv[1], NULL), rate = strtod(argv[2], NULL);
    double warm_ms = strtod(argv[3], NULL), ms = strtod(argv[4], NULL);
    for (int i = 5; i < argc; i++) {
        struct cell cell = {.family = i - 4};
        double us[BLOCKS];
        if (!parse_cell(argv[i], &cell)) {
            fprintf(stderr, "matrix: '%s' is no KERNEL:GAP:OPS:SYNC\n", argv[i]);
            return 2;
        }
        cell.cycles = cell.kernel_us > base ? (long long)((cell.kernel_us - base) * rate) : 0;
        CHECK(cuStreamCreate(&cell.stream, CU_STREAM_NON_BLOCKING));
        measure(&spin, &cell, warm_ms, ms, us);
        if (!unchecked) {
            spin_verify(&spin, argv[i]);
        }
        CHECK(cuStreamDestroy(cell.stream));
        printf("CELL %s", argv[i]);
        for (int k = 0; k < BLOCKS; k++) {
            printf(" %.4f", us[k]);
        }
        printf("\n");
        fflush(stdout);
    }
    spin_stop(&spin);
    return 0;
}
