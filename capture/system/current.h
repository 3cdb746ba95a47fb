/*
 * current.h - what the library keeps for the calling thread. Some programs fill the caches with
 * their own work between two launches. There a launch takes mostly the time until its cache lines
 * have come. So what each launch reads and writes of this lies in the first line, and what launches
 * of dormant streams read besides lies in the next two.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ag_stream;

/* A dormant stream (tracking/dormant.h) by the program's handle. NULL is the legacy default stream
 * there, CU_STREAM_PER_THREAD the thread's own. */
struct ag_dormant_slot {
    const void *stream;
    struct ag_dormant *dormant;
    const _Atomic uint32_t *held; /* not 0: another stream holds back ops that go first */
};

/* A stream by the key that finds it (tracking/stream.c). */
struct ag_found_stream {
    uintptr_t key;
    struct ag_stream *stream;
};

enum { AG_DORMANT_SLOTS = 4, AG_FOUND_STREAMS = 16 };
struct ag_thread {
    _Alignas(64) uintptr_t number; /* unique among all threads, 0 until it is needed; its lower half
                                      is the clock of the thread's processor time */
    uint64_t generation;           /* ag_stream_generation, for which the streams here hold */
    struct ag_found_stream last;
    uint32_t locks_held;   /* of the library's, mutexes included. One of the program's handlers may
                              interrupt the thread there and end the process (lifecycle.c) */
    uint32_t owned;        /* streams that it became the owner of, including those that other
                              threads have taken over since */
    bool in_host_function; /* it runs one of the program's, in which the driver takes no launches
                              (CUDA_ERROR_NOT_PERMITTED): what is held back must not be submitted
                              there. Its number is then AG_NO_OWNER */
    uint8_t ending;        /* turns that the destructors of its keys have had (per_thread.c) */
    bool waits;            /* in a call that may wait for the GPU: its end is told to `waits_for` */
    void *told_of;         /* the stream whose error it returned last */
    struct ag_stream *waits_for; /* whose segment it ended last, if that wants to know; without a
                                    reference */
    struct ag_dormant_slot dormant[AG_DORMANT_SLOTS];
    struct ag_found_stream found[AG_FOUND_STREAMS]; /* each at one of two places */
    const void *told_in;                            /* the context of `told_of` */
};
#define AG_NO_OWNER UINTPTR_MAX
extern __thread struct ag_thread ag_thread __attribute__((tls_model("initial-exec")));

/* The streams that it knows hold for this generation from now on: those of another one are
 * forgotten. */
void ag_thread_knows_streams_of(uint64_t generation);
