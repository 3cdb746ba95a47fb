/* own_pointers.h - see own_pointers.c. */
#ifndef OWN_POINTERS_H
#define OWN_POINTERS_H

#pragma GCC visibility push(default)
extern int (*cuMemAlloc_v2)(void);
extern int (*cuLaunchKernel)(void);
int own_pointers(void);
#pragma GCC visibility pop

#endif
