/*
 * loader.c - a preloaded library that holds a lock while the program loads or closes something, as
 * those do that keep lists of what is loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((visibility("default"))) void *dlopen(const char *name, int mode)
{
    void *(*next)(const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    pthread_mutex_lock(&lock);
    void *handle = next(name, mode);
    pthread_mutex_unlock(&lock);
    return handle;
}

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    int (*next)(void *);
    *(void **)&next = dlsym(RTLD_NEXT, "dlclose");
    pthread_mutex_lock(&lock);
    int result = next(handle);
    pthread_mutex_unlock(&lock);
    return result;
}
