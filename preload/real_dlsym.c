/* real_dlsym.c - finds what this library's own dlsym stands in front of. */
#define _GNU_SOURCE
#include "preload/real_dlsym.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *(*ag_next_dlsym)(void *handle, const char *name);

static void *(*real_dlsym)(void *handle, const char *name);

/* The C library's function of this name, or NULL. */
__attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined)) static void *
of_c_library(const char *name)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *found = NULL;
    for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
        found = dlvsym(RTLD_NEXT, name, versions[i]);
    return found;
}

void *ag_real_dlopen(const char *path, int mode)
{
    void *(*real)(const char *path, int mode);
    *(void **)&real = of_c_library("dlopen");
    return real ? real(path, mode) : NULL;
}

/* A sanitizer's run time looks up names before instrumented code may run. */
__attribute__((no_sanitize_address, no_sanitize_thread,
               no_sanitize_undefined)) void *(*ag_find_real_dlsym(void))(void *handle,
                                                                         const char *name)
{
    if (real_dlsym)
        return real_dlsym;
    void *found = of_c_library("dlsym");
    if (!found) {
        fprintf(stderr, "autograph: the C library has no dlsym that can be found\n");
        abort();
    }
    dlerror();
    *(void **)&real_dlsym = found;
    return real_dlsym;
}

__attribute__((no_sanitize_address, no_sanitize_thread,
               no_sanitize_undefined)) void *(*ag_find_next_dlsym(void))(void *handle,
                                                                         const char *name)
{
    if (!ag_next_dlsym)
        *(void **)&ag_next_dlsym = ag_find_real_dlsym()(RTLD_NEXT, "dlsym");
    return ag_next_dlsym;
}
