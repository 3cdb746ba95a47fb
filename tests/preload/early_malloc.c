/*
 * early_malloc.c - a malloc and a free that look up the next ones when they are first called,
 * beside the library's dlsym on a C library that lacks _dl_find_object: looking that up fails,
 * which allocates.
 */
#define _GNU_SOURCE
#undef dlvsym /* real_dlsym.c calls older_dlvsym by that name */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "preload/dlsym.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t bytes);
EXPORT void *malloc(size_t bytes)
{
    static void *(*next)(size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return next(bytes);
}

EXPORT void free(void *memory);
EXPORT void free(void *memory)
{
    static void (*next)(void *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "free");
    next(memory);
}

void *older_dlvsym(void *handle, const char *name, const char *version);
void *older_dlvsym(void *handle, const char *name, const char *version)
{
    return dlvsym(handle, name, strcmp(name, "_dl_find_object") ? version : "GLIBC_NONE");
}

void *ag_dlsym_cuda(void *handle, const char *name, const void *caller)
{
    (void)handle;
    (void)name;
    (void)caller;
    return NULL;
}
