/*
 * hostfunction.c - host functions of the program's that have not returned. One may wait for what
 * the program does only behind further launches, as little as a mutex that it holds meanwhile, and
 * those wait for the driver's locks where a graph is made executable, which may wait for the GPU
 * (waits.c). So each is launched inside a function of ours, which tells when it has returned: that
 * needs no event behind it.
 */
#include "capture/capture.h"
#include "capture/graph.h"
#include "capture/state.h"
#include "capture/stats.h"
#include <stdlib.h>

struct ag_host_call {
    CUhostFn function;
    CUstreamCallback callback; /* or this one */
    void *data;
    uint32_t generation;
};

/* How many have not returned, and in the upper half the generation that they are of: after an error
 * that ends a context they never run. */
static _Atomic uint64_t calls;

static uint32_t generation_of(uint64_t all)
{
    return (uint32_t)(all >> 32);
}

static void returned(uint32_t generation)
{
    uint64_t all = atomic_load(&calls);
    while (generation_of(all) == generation && !atomic_compare_exchange_weak(&calls, &all, all - 1))
        ;
}

bool ag_host_functions_pending(void)
{
    return (uint32_t)atomic_load(&calls) != 0;
}

void ag_host_functions_forget(void)
{
    uint64_t all = atomic_load(&calls);
    while (!atomic_compare_exchange_weak(&calls, &all, (uint64_t)(generation_of(all) + 1) << 32))
        ;
}

struct ag_host_call *ag_capture_host_begins(CUstream stream, bool ptsz, CUhostFn function,
                                            CUstreamCallback callback, void *data)
{
    if (!ag_capture_wait_begins(stream, ptsz))
        return NULL;
    struct ag_host_call *call = malloc(sizeof(*call));
    if (!call) {
        ag_count(AG_COUNT_ENDLESS); /* and the builder stays held */
        return NULL;
    }
    *call = (struct ag_host_call){function, callback, data, 0};
    call->generation = generation_of(atomic_fetch_add(&calls, 1));
    return call;
}

void ag_capture_host_ends(struct ag_host_call *not_launched)
{
    if (not_launched) {
        returned(not_launched->generation);
        free(not_launched);
    }
    ag_builder_release();
}

void CUDA_CB ag_capture_host_function(void *data)
{
    struct ag_host_call call = *(struct ag_host_call *)data;
    free(data);
    call.function(call.data);
    returned(call.generation);
}

void CUDA_CB ag_capture_host_callback(CUstream stream, CUresult status, void *data)
{
    struct ag_host_call call = *(struct ag_host_call *)data;
    free(data);
    call.callback(stream, status, call.data);
    returned(call.generation);
}
