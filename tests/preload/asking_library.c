/* asking_library.c - a library that looks things up by itself. */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *ag_test_ask(void *handle, const char *name);

void *ag_test_ask(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    __asm__ volatile("" ::: "memory"); /* no tail call: the return address must lie in here */
    return found;
}
