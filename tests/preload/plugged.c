/*
 * plugged.c - a program without CUDA loads a plug-in that is bound with -lcuda; with "after" the
 * driver is there already, with "look" somebody looks a name of its up when the plug-in is loaded.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int (*first)(void);
    int (*again)(void);
    if (argc > 2 && strcmp(argv[2], "after") == 0 && !dlopen("libcuda.so.1", RTLD_NOW))
        return 2;
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_LAZY) : NULL;
    if (!plugin) {
        fprintf(stderr, "plugged: %s\n", dlerror());
        return 2;
    }
    if (argc > 2 && strcmp(argv[2], "look") == 0)
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    *(void **)&first = dlsym(plugin, "ag_test_first");
    *(void **)&again = dlsym(plugin, "ag_test_again");
    printf("in the constructor %d, then %d\n", first(), again());
    return 0;
}
