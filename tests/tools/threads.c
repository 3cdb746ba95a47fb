/*
 * threads.c - more threads than live at a time, each with a stream of its own; a child of fork in
 * the middle that ends in its own way. Prints how many launches were made.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

enum { AT_A_TIME = 6, ROUNDS = 4, STEPS = 200, OPS = 10 };

/* AddressSanitizer's runtime hangs in a child whose parent held one of its locks, as in dlopen. */
#if defined(__SANITIZE_ADDRESS__)
enum { FORKS = 0 };
#else
enum { FORKS = 1 };
#endif

static CUcontext context;

static void *work(void *unused)
{
    CUstream stream;
    CUdeviceptr memory;
    (void)unused;
    if (cuCtxSetCurrent(context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
        cuMemAlloc_v2(&memory, 4096))
        exit(1);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < OPS; i++)
            if (cuMemsetD32Async(memory + (CUdeviceptr)(4 * i), (unsigned int)i, 64, stream))
                exit(1);
        cuStreamSynchronize(stream);
    }
    return NULL;
}

int main(void)
{
    CUdevice device;
    pthread_t threads[AT_A_TIME];
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device))
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_A_TIME; i++)
            if (pthread_create(&threads[i], NULL, work, NULL))
                return 1;
        pid_t child = FORKS ? fork() : 1;
        if (child == 0) {
            /* Through the exit handlers of all that is loaded. The parent's threads may have held
             * any lock at the fork: a handler that needs one in the child hangs here, and fails the
             * test. */
            alarm(60);
            exit(0);
        }
        for (int i = 0; i < AT_A_TIME; i++)
            pthread_join(threads[i], NULL);
        int status = 0;
        if (FORKS && (child < 0 || waitpid(child, &status, 0) < 0 || status))
            return 1;
    }
    printf("%d\n", AT_A_TIME * ROUNDS * STEPS * OPS);
    return 0;
}
