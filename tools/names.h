/* names.h - names that people recognise: demangled kernels, functions of the program. */
#pragma once

#include "tools/dump.h"

/* A short kernel name that is enough to distinguish kernels:
 * "vectorized_elementwise_kernel<FillFunctor>". */
const char *names_kernel(const char *name);
/* "name <<<grid, block>>>", "memset 4096 B", "copy 64 B" */
void names_of_signature(const struct dump *d, const struct ag_dump_signature *signature, char *text,
                        size_t size);

/* The place of a kernel's name (a string) in the order in which the dump mentions kernels, from 0
 * up: for colours that distinguish kernels. Works for only one dump in a process. */
uint32_t names_place(const struct dump *d, uint32_t name);

/* The function that contains `offset` of the file `object`, or NULL. */
const char *names_function(const char *object, uint64_t offset);
/* "step in solver", with the CUDA call that the function made; "" for site 0. */
void names_of_site(const struct dump *d, uint32_t site, char *text, size_t size);
