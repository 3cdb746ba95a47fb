/*
 * bound.c - a program linked with -lcuda: it looks nothing up. It calls what its first argument
 * names and prints what the fake driver saw; with "fork" and "exit" what follows them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_libcuda.h"

int cuMemAlloc_v2(uint64_t a, uint64_t b);
int cuTexObjectDestroy(uint64_t object);
int cuCtxSynchronize(void);
int cuModuleUnload(uint64_t module);
int cuStreamSynchronize(uint64_t stream);
int cuGraphAddNode_v2(void *node, uint64_t graph, const void *dependencies, const void *data,
                      size_t count, void *params);
int cuLaunchKernel(uint64_t function, unsigned int gx, unsigned int gy, unsigned int gz,
                   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                   uint64_t stream, void **params, void **extra);

static void launch(void)
{
    cuLaunchKernel(1, 2, 3, 4, 5, 6, 7, 8, 9, NULL, NULL);
}

/* Addresses that the loader writes: to a table of pointers, and where code takes them from. */
static int (*const table[])(void) = {cuCtxSynchronize};
static int (*volatile pointer)(void);

static void late(void)
{
    launch(); /* after the library's last flush: it must still arrive */
    fprintf(stderr, "late %s\n", fake_last()->name);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "stub") == 0)
        cuTexObjectDestroy(11);
    else if (strcmp(what, "hook") == 0)
        cuCtxSynchronize();
    else if (strcmp(what, "pointer") == 0)
        pointer = cuCtxSynchronize, pointer();
    else if (strcmp(what, "table") == 0)
        table[argc - 2]();
    else if (strcmp(what, "track") == 0)
        cuModuleUnload(5);
    else if (strcmp(what, "node") == 0)
        cuGraphAddNode_v2(NULL, 0, NULL, NULL, 0, (uint64_t[32]){0});
    else if (strcmp(what, "exit") == 0)
        cuMemAlloc_v2(1, 2), atexit(late), launch();
    else if (strcmp(what, "fork") == 0) {
        launch();
        pid_t child = fork();
        if (child == 0) {
            launch();
            cuStreamSynchronize(1);
            cuMemAlloc_v2(1, 2);
            exit(fake_last()->calls == 4 ? 0 : 1); /* the parent's launch and these three */
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0)
            return 1;
        cuStreamSynchronize(1);
    } else
        return 2;
    printf("%s %lu\n", fake_last()->name, fake_last()->calls);
    return 0;
}
