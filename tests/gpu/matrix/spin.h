/*
 * spin.h - steps of kernels that keep the GPU busy for a chosen time, for programs that measure.
 *
 * The kernels of a step differ in shape, as those of real programs do. `family` makes the shapes of
 * one sequence different from those of all others in the process, so that nothing learned about one
 * sequence is used for the next.
 */
#pragma once

#include "examples/common/driver.h"
#include "examples/common/example.h"

struct spin {
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr sum;
    uint32_t expected; /* what *sum must be once everything submitted has run */
};

void spin_start(struct spin *spin);
void spin_stop(struct spin *spin);

/* Launch number k of a step of sequence `family`. */
void spin_launch(struct spin *spin, CUstream stream, int family, int k, long long cycles);

/* The host works for so many microseconds. */
void spin_host(double us);

/* Stops the program where a launch was lost or doubled. All streams must be idle. */
void spin_verify(const struct spin *spin, const char *what);
