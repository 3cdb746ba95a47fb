/*
 * soak.c - soak_driver: a driver-API program that runs long, through phases that change.
 *
 *     soak_driver [--seconds N] [--cycles N] [--steps N]
 *
 * Goes through all phases again and again until the time is over or the cycles are done. Prints
 * "PHASE <number in the cycle> <digest> <name>" after each phase and "GPU <bytes in use>" once a
 * second; the last line is "END <phases>".
 */
#include "phases.h"
#include "examples/common/example.h"
#include "tests/fuzz/kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double next_sample_us;

static void tick(void)
{
    size_t unused, total;
    if (ex_now_us() < next_sample_us)
        return;
    CHECK(cuMemGetInfo(&unused, &total));
    printf("GPU %zu\n", total - unused);
    fflush(stdout);
    next_sample_us = ex_now_us() + 1e6;
}

/* What the data is before a phase. */
static void fill(struct soak *s)
{
    uint64_t words[SOAK_WORDS];
    for (int b = 0; b < SOAK_BUFFERS; b++) {
        for (int i = 0; i < SOAK_WORDS; i++)
            words[i] = (uint64_t)(b * 1000 + i) * 0x9e3779b97f4a7c15u;
        CHECK(cuMemcpyHtoD(s->data[b], words, sizeof words));
    }
}

static void run_phase(struct soak *s, int phase)
{
    uint64_t words[SOAK_WORDS];
    s->random = (uint64_t)phase + 1;
    s->digest = 0xcbf29ce484222325u;
    CHECK(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
    fill(s);
    CHECK(cuCtxSynchronize());
    soak_phases[phase].run(s);
    CHECK(cuCtxSynchronize());
    for (int b = 0; b < SOAK_BUFFERS; b++) {
        CHECK(cuMemcpyDtoH(words, s->data[b], sizeof words));
        soak_digest(s, words, sizeof words);
    }
    CHECK(cuStreamDestroy(s->stream));
    printf("PHASE %d %016llx %s\n", phase, (unsigned long long)s->digest, soak_phases[phase].name);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct soak s = {.steps = 6000, .tick = tick};
    double seconds = 0;
    long cycles = 0, done = 0;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            fprintf(stderr, "soak_driver: %s wants a number\n", argv[i]);
            return 2;
        } else if (!strcmp(argv[i], "--seconds")) {
            seconds = (double)ex_number(argv[i], argv[i + 1], 1);
        } else if (!strcmp(argv[i], "--cycles")) {
            cycles = ex_number(argv[i], argv[i + 1], 1);
        } else if (!strcmp(argv[i], "--steps")) {
            s.steps = (int)ex_number(argv[i], argv[i + 1], 120);
        } else {
            fprintf(stderr, "soak_driver: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    double end = ex_now_us() + seconds * 1e6;
    fz_kernels_register();
    driver_start();
    for (int b = 0; b < SOAK_BUFFERS; b++)
        CHECK(cuMemAlloc(&s.data[b], SOAK_WORDS * 8));
    soak_load(&s);
    while (cycles ? done < cycles * SOAK_PHASES : ex_now_us() < end)
        run_phase(&s, (int)(done++ % SOAK_PHASES));
    soak_unload(&s);
    for (int b = 0; b < SOAK_BUFFERS; b++)
        CHECK(cuMemFree(s.data[b]));
    driver_stop();
    printf("END %ld\n", done);
    return 0;
}
