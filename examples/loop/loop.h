/*
 * loop.h - the published loop: a step is a row of short kernels, and the program does many steps.
 *
 * What is shared by its bindings (cudart and the driver API): options, what each launch looks like,
 * and the expected result.
 *
 * Every launch maps each element x to mul * x + add modulo 2^32, with an odd mul: no launch can be
 * lost, doubled or take another's place without changing the final memory. A row of such maps is
 * again such a map, so that the CPU can check any number of launches exactly and at once.
 *
 * Variants of the step:
 *   memsets  each kernel takes `add` from LOOP_FILLED words that a memset before it filled;
 *   fork     the first kernel maps everything; then two streams map a half each, tied to it and to
 *            the next step by events;
 *   timing   an event before and one after each step, and the time between them is asked for;
 *   poll     one more kernel maps a word in mapped memory, and the program reads that word until it
 *            has changed, without any call;
 *   gpu_us   each kernel keeps the GPU busy for so many microseconds.
 */
#pragma once

#include "common/example.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LOOP_FILLED 64

enum loop_stream { LOOP_STREAM_OWN, LOOP_STREAM_LEGACY, LOOP_STREAM_PER_THREAD };
enum loop_sync { LOOP_SYNC_KERNEL, LOOP_SYNC_STEP, LOOP_SYNC_POLL, LOOP_SYNC_NONE };

struct loop_options {
    struct ex_pace pace;
    enum loop_sync sync;
    bool graph;        /* the step captured by hand, one graph launch a step */
    bool changing;     /* other arguments in every step */
    bool resized;      /* another grid in every step, as where the size of the work changes */
    bool never_repeat; /* other grids and arguments in every step, without any period */
    enum loop_stream stream;
    bool memsets;
    bool fork;
    bool timing;
    int gpu_us; /* 0: as short as the work is */
    int size;   /* elements of 4 bytes */
    int steps;
    int kernels; /* maps of each element a step */
};

struct loop_launch {
    unsigned int grid;
    unsigned int block;
    uint32_t mul;
    uint32_t add;
};

/* Exits with a message where the command line makes no sense. */
struct loop_options loop_parse(int argc, char **argv);

/* Launch `kernel` of step `step`; steps are counted over all repetitions. */
struct loop_launch loop_launch_at(const struct loop_options *options, uint32_t step,
                                  uint32_t kernel);

/* With LOOP_SYNC_POLL: reads `word` until it is what `was` becomes by the step's last launch, and
 * returns that value. */
uint32_t loop_poll(const struct loop_launch *last, const uint32_t *word, uint32_t was);

/* Operations that a step submits, memsets included. */
int loop_ops(const struct loop_options *options);

/* The memory before the first launch. The caller frees it. */
uint32_t *loop_initial(const struct loop_options *options);

/* Prints the result line and returns the exit status. */
int loop_result(const struct loop_options *options, const char *binding, double us_per_launch,
                uint32_t steps, const uint32_t *data);

#ifdef __cplusplus
}
#endif
