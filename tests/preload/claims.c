/* claims.c - asks whether there is a driver in the ways that need no libcuda to link with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

extern int cuMemAlloc_v2(void *, size_t) __attribute__((weak));

int main(void)
{
    printf("weak %s, default %s\n", cuMemAlloc_v2 ? "there" : "absent",
           dlsym(RTLD_DEFAULT, "cuLaunchKernel") ? "there" : "absent");
    return 0;
}
