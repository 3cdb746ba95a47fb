/*
 * phases.h - what a long run goes through, again and again.
 *
 * A phase depends on nothing that was before it: its memory is filled anew, its random numbers
 * start anew, so its digest is the same in every cycle, with and without the library. It gives back
 * all that it made.
 */
#pragma once

#include "examples/common/driver.h"
#include <stdint.h>

enum { SOAK_BUFFERS = 8, SOAK_WORDS = 256, SOAK_PHASES = 12 };

struct soak {
    CUmodule module;
    CUfunction mix, join, span;
    CUdeviceptr data[SOAK_BUFFERS];
    CUstream stream;
    uint64_t random, digest;
    int steps;
    void (*tick)(void); /* called in every step */
};

extern const struct soak_phase {
    const char *name;
    void (*run)(struct soak *s);
} soak_phases[SOAK_PHASES];

void soak_load(struct soak *s);
void soak_unload(struct soak *s);
void soak_digest(struct soak *s, const void *bytes, size_t n);
