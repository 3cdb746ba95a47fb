/*
 * next_library.c - a function that calls the next one of its name, as OpenMP's run time does. With
 * a dlsym wrapper in C, "next" means the wrapper's next: the function finds itself, and never ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define CHAIN(name)                                                                                \
    __attribute__((visibility("default"))) int name(void);                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        int (*next)(void);                                                                         \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
        if (next == name)                                                                          \
            return -1;                                                                             \
        return next ? next() : 1;                                                                  \
    }

CHAIN(ag_test_chain)
CHAIN(cuTestChain)
