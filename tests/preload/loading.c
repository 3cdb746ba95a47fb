/*
 * loading.c - a thread loads a plug-in whose constructor, with the loader's lock held, lets the
 * program make its first CUDA call, waits until that has returned, and makes one itself. Whoever
 * waits for the loader in that first call waits for good.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

__attribute__((visibility("default"))) void loading_constructor(void);
int cuCtxSynchronize(void);

static sem_t in_constructor, called;

void loading_constructor(void)
{
    sem_post(&in_constructor);
    sem_wait(&called);
}

static void *load(void *plugin)
{
    if (!dlopen(plugin, RTLD_NOW))
        fprintf(stderr, "loading: %s\n", dlerror());
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    sem_init(&in_constructor, 0, 0);
    sem_init(&called, 0, 0);
    if (argc < 2 || pthread_create(&thread, NULL, load, argv[1]) != 0)
        return 2;
    sem_wait(&in_constructor);
    cuCtxSynchronize();
    sem_post(&called);
    pthread_join(thread, NULL);
    puts("loaded");
    return 0;
}
