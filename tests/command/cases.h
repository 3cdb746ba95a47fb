/* cases.h - what cases.c and cases_waits.c share. */
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

/* cases_waits.c */
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
