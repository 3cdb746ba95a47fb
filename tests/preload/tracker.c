/*
 * tracker.c - a preloaded library that looks at names as this one does, as memory limiters and
 * trackers do: its dlsym answers one of the driver's names with a function of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

static int (*synchronize)(void);

static int tracked(void)
{
    return synchronize ? 70 + synchronize() : -1;
}

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    void *(*real)(void *, const char *);
    *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", OLDEST);
    void *found = real(handle, name);
    if (!found || strcmp(name, "cuCtxSynchronize") != 0)
        return found;
    *(void **)&synchronize = found;
    return (void *)tracked;
}
