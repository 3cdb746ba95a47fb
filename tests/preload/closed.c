/*
 * closed.c - opens and closes the library of its first argument beside the driver, as somebody does
 * who tries whether it can be loaded, and goes on to use the driver.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int (*synchronize)(void);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!driver || !library) {
        fprintf(stderr, "closed: %s\n", dlerror());
        return 2;
    }
    dlclose(library);
    if (!dlsym(driver, "cuDriverGetVersion")) /* answered with the driver's own address */
        return 2;
    *(void **)&synchronize = dlsym(driver, "cuCtxSynchronize");
    printf("%d\n", synchronize());
    return 0;
}
