/*
 * faults.h - programs in which something goes wrong, or ends early, in the middle of a loop.
 *
 * `faults CASE` prints what a program can see: error codes, the call that gave them, the final
 * memory. The suite compares that text and the exit status with and without the library. Lines that
 * start with "MEASURED" hold times and are not compared.
 *
 * Each case first does STEPS steps of KERNELS launches and a sync, so that a library that learns
 * sequences is in the middle of a known one when the fault comes.
 */
#pragma once

#define _GNU_SOURCE
#include "examples/common/driver.h"
#include "examples/common/example.h"

#include <dlfcn.h>

#define STEPS   60
#define KERNELS 20
#define SIZE    512
#define INITIAL 7 /* every element before the first launch */

enum fault_action { FAULT_NONE, FAULT_TRAP, FAULT_RAISE_FLAG };

struct fault_loop {
    CUmodule module;
    CUfunction kernel;
    CUstream stream;
    CUdeviceptr data;
    unsigned int shared;     /* dynamic shared memory of the launches, bytes */
    volatile uint32_t *flag; /* in mapped host memory */
    CUdeviceptr flag_on_device;
};

extern const struct driver_cpu_kernel faults_on_cpu[];

/* Module, stream, memory on the current context. */
void fault_loop_start(struct fault_loop *loop);

/* What launch number k of a step makes of an element. */
uint32_t fault_value(int k, uint32_t element);

/* Launch number k of a step; `block` threads. */
CUresult fault_launch(const struct fault_loop *loop, int k, enum fault_action action,
                      unsigned int block);

/* Whole steps, each with a sync; stops the program at an error. */
void fault_steps(const struct fault_loop *loop, int steps);

/* The first `count` launches of a step, without a sync. */
void fault_begin_step(const struct fault_loop *loop, int count);

/* Prints the checksum of the memory. */
void fault_print_memory(const struct fault_loop *loop);
