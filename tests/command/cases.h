/* cases.h - what the files of `cases` share. */
#pragma once

#include "tests/simdriver/simprog.h"

enum { STEP = 20 };

extern CUmodule module;
extern CUfunction hash;
extern CUstream stream;
extern CUdeviceptr data;

void start(void);
void launch(unsigned int grid, uint64_t k);
void step(unsigned int grid);
void steps(int n);
int print_value(void);

/* Cases of cases_calls.c. */
int table(int n);
int memory(int n);
int refused(int n);
int encode(int n);
int newer_capture(int n);
int error_log(int n);
int settings(int n);
int changing_attribute(int n);
int changing_limit(int n);

/* Cases of cases_pauses.c. */
int slow_host(int n);
int pauses_once(int n);
int slow_host_pauses(int n);
int fast_host_pauses(int n);
int fast_host_sleeps(int n);
int slow_fill(int n);
int drops(int n);

/* Cases of cases_process.c. */
int leaves(int n);
int leaves_at_once(int n);
int hooks(int n);
int threads(int n);
int wakes(int n);
int constructor(int n);
int prefork(int n);
int small_files(int n);
int title(int n);
int own_file(int n);
int heap(int n);

/* Cases of cases_shortage.c. */
int last_mib(int n);
int all_memory(int n);
int most_memory(int n);
int last_mib_and_wait(int n);
int too_much(int n);
int pinned_memory(int n);
int refused_once(int n);

/* Cases of cases_waits.c, and what makes a stream wait for a word. */
uint32_t *new_word(void);
void CUDA_CB wait_in_function(void *flag);
int collective(int n);
int collective_busy(int n);
int collective_dormant(int n);
int host_function(int n);
int function_in_graph(int n);
int function_lost(int n);
int function_calls(int n);
int word(int n);
int word_first(int n);
int word_beside(int n);
int word_in_capture(int n);
int word_in_graph(int n);
int word_and_destroy(int n);
int word_and_other(int n);
