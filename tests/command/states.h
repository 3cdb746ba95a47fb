/* states.h - what the files of `states` share. */
#pragma once

#include "tests/simdriver/simprog.h"
#include <stdatomic.h>
#include <stdbool.h>

enum { STEP = 20 };

extern CUcontext home;
extern CUmodule module;
extern CUfunction hash;
extern CUstream stream;
extern atomic_int rounds; /* of another thread */
extern CUdeviceptr data;
extern uint64_t want;
extern unsigned int *flag;
extern CUfunction poll_word, publish;

void start(void);
CUresult launch(CUstream s, CUdeviceptr x, uint64_t k);
/* Launches number `from` to `to` of a step; they look unlike each other. */
void launches(uint64_t from, uint64_t to);
void step(void);
void steps(int n);
int print_value(void);
/* Launches of kernels and graphs, and records of events, that the driver has seen. The library's
 * own records count. */
uint64_t submissions(void);
void publish_word(unsigned int value);
/* Lets the other thread go in the middle of the step. */
void releasing_step(unsigned int value, uint64_t to);

/* Cases of states_ends.c. */
int exit_beside_worker(int n);
int dead_beside_worker(int n);
int exit_in_handler(int n);
int exit_in_handler_between(int n);
int exit_in_handler_locked(int n);
int exit_on_alternate_stack(int bytes);
int signals_are_awaited(int n);
int cancel(int n);
int cancelled_at_start(int n);
int cancelled_at_exit(int n);
int no_threads(int n);
int own_threads(int n);
int starving(int n);
int refused_threads(int n);
int table_in_capture(int n);
int held_at_capture(int n);
int attributes(int n);
int cooperative(int n);
int always_a_host_function(int n);

/* Cases of states_contexts.c, and steps of `f`. */
void steps_in(CUfunction f, CUstream s, CUdeviceptr p, int n);
int refused_in_other_context(int legacy);
int refused_in_named_context(int here);
int error_of_ended_context(int how);
int end_of_lost_context(int n);
int asked_for_lost_context(int how);
int function_of_two_contexts(int n);
int function_of_unknown_context(int n);
int primary_beside_full_queue(int how);
int copy_between_devices(int how);

/* Cases of states_held.c. */
int load_behind_publish(int how);
int first_retain(int n);
int variable_in_step(int n);
int semaphore(int in_graph);
int wait_behind_write(int how);
int sticky_launches(int n);
int sticky_look(int how);
int error_behind_error(int how);
int error_of_other_context(int fails);
int query_fails(int n);
int refused_attribute(int n);
int attribute_of_unloaded(int n);
int module_in_step(int at);

/* Cases of states_waits.c. */
int peers(int in_graph);
int word_behind_launches(int n);
int looks_beside_ends(int how);
int memory_beside_thread(int n);
int signatures_beside_wait(int n);
int cancel_behind_build(int n);
int cancel_beside_wait(int how);
int exit_beside_full_queue(int n);
int locked_for_checkpoint(int n);
int polls_anywhere(int n);
int polls_beside_streams(int n);
