/*
 * past.c - loads a library that calls dlsym in one of three ways, then uses the driver: "plain",
 * "deepbind" (its dlsym is the C library's) or "namespace" (dlmopen: no preloaded library there).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    void *library = NULL;
    if (strcmp(how, "plain") == 0)
        library = dlopen(NEXT_LIBRARY, RTLD_NOW);
    else if (strcmp(how, "deepbind") == 0)
        library = dlopen(NEXT_LIBRARY, RTLD_NOW | RTLD_DEEPBIND);
    else if (strcmp(how, "namespace") == 0)
        library = dlmopen(LM_ID_NEWLM, NEXT_LIBRARY, RTLD_NOW);
    void *driver = library ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
    if (!driver) {
        fprintf(stderr, "past: %s\n", dlerror());
        return 1;
    }
    int (*synchronize)(void);
    *(void **)&synchronize = dlsym(driver, "cuCtxSynchronize");
    return synchronize();
}
