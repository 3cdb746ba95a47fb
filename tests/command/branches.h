/* branches.h - what the files of `forks` share. */
#pragma once

#include "tests/simdriver/simprog.h"
#include <stdbool.h>

enum { STEPS = 60, OPS = 4 };

extern CUcontext ctx;
extern CUmodule module;
extern CUfunction hash, spin;
extern CUstream a, b; /* the second forks from the first and joins it */
extern CUevent forked, joined;
extern CUdeviceptr x, y; /* words of `a`, and of `b` */
extern uint64_t counter;

CUevent new_event(void);
CUstream new_stream(void);
void start(void);
void hashes(CUstream s, CUdeviceptr p);
/* One launch with a launch attribute. */
void hash_with(CUstream s, CUdeviceptr p, CUlaunchAttribute attribute);
void spins(CUstream s, int us);
/* From now on all that spins for more than 0 us does so until end_spin(). */
void spins_until_told(void);
void end_spin(void);
void fork_to(CUstream s);
void join_from(CUstream s, CUevent e);
/* A step: `b` spins for so long first. */
void step(int us);
void steps(void);
void print_words(void);

/* Cases of branches_events.c. */
int context_event(void);
int failed_record(void);
int shared_event(void);
int event_of_other_context(void);
int destroyed_twice(int us);
int ready_at_once(void);
int launch_event(void);
int full_queue(int how);
int full_queue_of_thread(int how);

/* Cases of branches_order.c. */
int own_event(int how);
int record_alone(void);
int legacy_order(int how);
int late_asks(void);
int passed_event(int how);
int unloads(void);
int late_call(int how);
int split_fork(void);

/* Cases of branches_quiet.c. */
int legacy_gate(int how);
int quiet(void);
int quiet_captured(void);
int quiet_gate(int how);
int quiet_queries(void);
int quiet_host(void);
int quiet_asks(void);
int quiet_ends(void);
int quiet_dormant(int how);
int quiet_unknown(int how);
