/*
 * hostfunction.c - host functions of the program's that have not returned. One may wait for what
 * the program does only behind further launches, as little as a mutex that it holds meanwhile, and
 * those wait for the driver's locks where a graph is made executable, which may wait for the GPU
 * (waits.c). So each is launched inside a function of ours, which tells when it has returned: that
 * needs no event behind it.
 */
#include "capture/tracking/hostfunction.h"
#include "capture/capture.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include <stdlib.h>

struct ag_host_call {
    CUhostFn function;
    CUstreamCallback callback; /* or this one */
    void *data;
    struct ag_context *context;
    uint32_t generation;
};

/* Of a context, in struct ag_context: how many have not returned, and in the upper half the
 * generation that they are of. After the end of the context they never run. */
static uint32_t generation_of(uint64_t all)
{
    return (uint32_t)(all >> 32);
}

static void returned(struct ag_context *context, uint32_t generation)
{
    uint64_t all = atomic_load(&context->host_calls);
    while (generation_of(all) == generation &&
           !atomic_compare_exchange_weak(&context->host_calls, &all, all - 1))
        ;
}

static void is_pending(struct ag_context *context, void *any)
{
    *(bool *)any |= (uint32_t)atomic_load(&context->host_calls) != 0;
}

bool ag_host_functions_pending(void)
{
    bool any = false;
    ag_contexts_each(is_pending, &any);
    return any;
}

void ag_host_functions_invalidate(struct ag_context *context)
{
    uint64_t all = atomic_load(&context->host_calls);
    while (!atomic_compare_exchange_weak(&context->host_calls, &all,
                                         (uint64_t)(generation_of(all) + 1) << 32))
        ;
}

static struct ag_context *context_of(CUstream stream, bool ptsz)
{
    struct ag_stream *s = ag_stream_find(stream, ptsz);
    CUcontext ctx = NULL;
    if (s)
        return s->context;
    CUresult r =
        ptsz ? AG_REAL(cuStreamGetCtx_ptsz)(stream, &ctx) : AG_REAL(cuStreamGetCtx)(stream, &ctx);
    return r == CUDA_SUCCESS && ctx ? ag_context_get(ctx) : NULL;
}

struct ag_host_call *ag_host_call_make(CUstream stream, bool ptsz, CUhostFn function,
                                       CUstreamCallback callback, void *data)
{
    struct ag_context *context = context_of(stream, ptsz);
    struct ag_host_call *call = context ? malloc(sizeof(*call)) : NULL;
    if (!call)
        return NULL;
    *call = (struct ag_host_call){function, callback, data, context, 0};
    call->generation = generation_of(atomic_fetch_add(&context->host_calls, 1));
    return call;
}

void ag_host_call_cancel(struct ag_host_call *call)
{
    returned(call->context, call->generation);
    free(call);
}

void CUDA_CB ag_core_host_function(void *data)
{
    struct ag_host_call call = *(struct ag_host_call *)data;
    free(data);
    call.function(call.data);
    returned(call.context, call.generation);
}

void CUDA_CB ag_core_host_callback(CUstream stream, CUresult status, void *data)
{
    struct ag_host_call call = *(struct ag_host_call *)data;
    free(data);
    call.callback(stream, status, call.data);
    returned(call.context, call.generation);
}
