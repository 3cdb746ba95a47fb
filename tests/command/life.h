/* life.h - what the files of `life` share. */
#pragma once

#include "tests/simdriver/simprog.h"
#include <stdbool.h>

enum { STEP = 20 };

/* A stream with a word that all of its launches work on. */
struct work {
    CUcontext ctx;
    CUfunction hash;
    CUstream stream;
    CUdeviceptr x;
    uint64_t want;
};

/* In the current context, with a stream of its own where it is not given. */
struct work make_work(CUstream stream);
/* Launches number `from` to `to` of a step; they look unlike each other. */
void launches(struct work *w, uint64_t from, uint64_t to);
void step(struct work *w);
void steps(struct work *w, int n);
bool is_right(const struct work *w);
int print(const char *what, bool right);
/* Gives the stream a property that graphs lack. */
void set_property(CUstream stream);
void *destroy_context(void *ctx);
/* `act`, n times, beside threads that launch into the primary context of device 0 all the while. */
int beside(void (*act)(void), int n, const char *what);
/* Retains the primary context once more, and releases it. */
void pair(void);
void reset_device_1(void);

/* Cases of life_ending.c. */
int new_in_ending(int n);
int handle_again(int n);
int ends_beside_wait(int n);
int loose_waits_while_ending(int n);
int green_handle_again(int n);
int green_asked(int n);
int green_contexts(int n);

/* Cases of life_stays.c. */
int kept_property(int n);
int failing_ends(int n);
int host_function_waits(int n);
int stream_waits(int n);
int loose_waits(int n);
int attached(int n);
int lost_captures(int n);
int spread_capture(int n);
int context_ends_beside_capture(int n);
int forgotten_capture(int n);
