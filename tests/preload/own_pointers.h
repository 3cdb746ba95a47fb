/* own_pointers.h - see own_pointers.c. */
#pragma once

#pragma GCC visibility push(default)
extern int (*cuMemAlloc_v2)(void);
extern int (*cuLaunchKernel)(void);
int own_pointers(void);
#pragma GCC visibility pop
