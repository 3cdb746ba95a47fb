/*
 * hostfunction.c - host functions of the program that have not returned yet. A host function may
 * wait for something that the program does only after further launches; a mutex that the program
 * holds meanwhile is enough. Those launches wait for the driver's locks while a graph is
 * instantiated, and instantiating may wait for the GPU (waits.c). So the library launches each
 * host function inside a function of its own, which records when the program's function has
 * returned. That needs no event after it.
 */
#include "capture/tracking/hostfunction.h"
#include <stdlib.h>

struct ag_host_call {
    CUhostFn function;
    CUstreamCallback callback; /* set instead of `function` */
    void *data;
    struct ag_context *context;
    uint32_t generation;
};

/* struct ag_context has one word per context: how many host functions have not returned, and in
 * the upper half their generation. After the context has ended they never run. */
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

bool ag_host_functions_pending(void)
{
    for (const struct ag_context *c = ag_contexts(); c; c = c->next)
        if ((uint32_t)atomic_load(&c->host_calls))
            return true;
    return false;
}

void ag_host_functions_invalidate(struct ag_context *context)
{
    uint64_t all = atomic_load(&context->host_calls);
    while (!atomic_compare_exchange_weak(&context->host_calls, &all,
                                         (uint64_t)(generation_of(all) + 1) << 32))
        ;
}

struct ag_host_call *ag_host_call_make(CUstream stream, bool ptsz, CUhostFn function,
                                       CUstreamCallback callback, void *data)
{
    const struct ag_stream *s = ag_stream_find(stream, ptsz);
    CUcontext ctx = s ? NULL : ag_core_context_of(stream, ptsz);
    struct ag_context *context = s ? s->context : ctx ? ag_context_get(ctx) : NULL;
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

/* The calling thread is one of the driver's, or that of the program's call. It owns no stream
 * meanwhile, so that whatever tells owners from others leaves the rest to the watchdog. */
static struct ag_thread enter(void)
{
    struct ag_thread was = ag_thread;
    ag_thread.number = AG_NO_OWNER;
    ag_thread.owned = 0;
    ag_thread.in_host_function = true;
    return was;
}

void CUDA_CB ag_core_host_function(void *data)
{
    struct ag_host_call call = *(struct ag_host_call *)data;
    free(data);
    struct ag_thread was = enter();
    call.function(call.data);
    ag_thread = was;
    returned(call.context, call.generation);
}

void CUDA_CB ag_core_host_callback(CUstream stream, CUresult status, void *data)
{
    struct ag_host_call call = *(struct ag_host_call *)data;
    free(data);
    struct ag_thread was = enter();
    call.callback(stream, status, call.data);
    ag_thread = was;
    returned(call.context, call.generation);
}
