/* submit.h - what the files of `submit` share. */
#pragma once

#include "tests/simdriver/simprog.h"
#include <stdbool.h>

enum {
    STEP = 20,
    PLACES = 1021, /* of a queue, as SIMCUDA_QUEUE has it: no eager launch comes further */
    FAR = 6 * PLACES
};

/* A stream with what its launches have made of one word. */
struct line {
    CUstream stream;
    CUdeviceptr data;
    uint64_t want;
};

extern CUcontext home;
extern CUmodule module;
extern CUfunction hash;
extern struct line line;
extern struct line full, other; /* the first waits for the flag */
extern unsigned int *flag;

void open_line(struct line *l);
void start(void);
CUresult launch_with(struct line *l, uint64_t k, uint64_t argument);
CUresult launch(struct line *l, uint64_t k);
/* Launches that look unlike each other, and unlike those of a step that starts elsewhere. */
void step_from(struct line *l, uint64_t first);
void step(struct line *l);
void steps(struct line *l, int n, int between_syncs);
/* Steps with a sync each until two in a row go by graphs, which somebody else may have to build
 * first; a hundred at most. */
void steps_until_graphs(struct line *l, uint64_t first);
int print_value(const struct line *l);

/* Of submit_queue.c. The first two open `full` and `other`, with the flag and without. */
void start_gated(void);
void start_two(void);
/* From here on the GPU does nothing of `full` until the flag is 1. The second function sets it. */
void wait_at_gate(void);
void open_gate(void);
/* Launches of kernels and graphs, and records of events, that the driver has seen. */
uint64_t submissions(void);
void allocate(void);
/* The library gives its graphs back, and the call is made once more. */
void allocate_too_much(void);
void look_at_event(void);
void query(void);

/* Cases of submit_singles.c. */
int graphs_refused(int n);
int told_by_launch(int n);
int told_alone(int n);
int singles(int n);
int slow_singles(int n);
int slower_singles(int n);
int measured_singles(int n);

/* Cases of submit_streams.c. */
int tied(int n);
int in_turn(int n);
int seen_by_other(int n);
int many(int n);
int build_behind(int n);

/* Cases of submit_queue.c. */
int stuck(int how);
int query_with_lock(int n);

/* Cases of submit_far.c. */
int behind(int rounds);
int behind_steps(int n);
int beside(int n);
int patience(int n);
int patience_new(int n);
int adds(int n);
int patience_known(int n);
int exit_far(int n);
int slower_gpu(int n);
int gpu_of_64(int n);
int gate(int n);

/* Cases of submit_stuck.c. */
int stuck_call(int how);
int stuck_exit(int own);
int host_function_fills(int n);
int no_context(int n);
int exit_asked(int singles);
int stuck_nth(int n);
int stuck_always(int n);

/* Cases of submit_ends.c. */
int exit_handler(int n);
int forks(int n);
int exit_at_fault(int n);
int exit_beside(int n);
int destroys(int n);
