/*
 * green.c - green contexts: some of a device's multiprocessors, with streams of their own.
 *
 * A green context stands for a context whose root is the primary one: memory, code and events are
 * the root's, streams and the default stream its own. Nothing here runs on fewer processors.
 */
#include "sim.h"
#include <string.h>
#include <unistd.h>

enum { PROCESSORS = 132, SMALLEST = 8 }; /* of the device, and of a part of it */

struct sim_green {
    struct sim_object object;
    struct sim_context *ctx;
    CUdevResource part;
    uint64_t id;
};
struct sim_descriptor {
    struct sim_object object;
    CUdevResource part;
};

static CUresult whole(CUdevResource *out, CUdevResourceType type)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memset(out, 0, sizeof *out);
    out->type = type;
    out->sm = (CUdevSmResource){PROCESSORS, SMALLEST, SMALLEST};
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetDevResource, (CUdevice device, CUdevResource *out, CUdevResourceType type),
        (device, out, type))
{
    if (device < 0 || device >= sim_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    return whole(out, type);
}

static CUresult part_of(const struct sim_green *g, CUdevResource *out, CUdevResourceType type)
{
    CUresult r = whole(out, type);
    if (r == CUDA_SUCCESS && g)
        *out = g->part;
    return r;
}

SIM_API(cuCtxGetDevResource, (CUcontext ctx, CUdevResource *out, CUdevResourceType type),
        (ctx, out, type))
{
    if (!sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return part_of(((struct sim_context *)ctx)->green, out, type);
}

SIM_API(cuGreenCtxGetDevResource, (CUgreenCtx green, CUdevResource *out, CUdevResourceType type),
        (green, out, type))
{
    if (!sim_object_is(green, SIM_GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    return part_of((struct sim_green *)green, out, type);
}

SIM_API(cuDevSmResourceSplitByCount,
        (CUdevResource * result, unsigned int *groups, const CUdevResource *input,
         CUdevResource *remaining, unsigned int flags, unsigned int least),
        (result, groups, input, remaining, flags, least))
{
    if (!groups || !input || flags > 3 || least > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    unsigned int size = (least + SMALLEST - 1) / SMALLEST * SMALLEST;
    size = size ? size : SMALLEST;
    unsigned int n = input->sm.smCount / size;
    n = result && *groups < n ? *groups : n;
    *groups = n;
    for (unsigned int i = 0; result && i < n; i++) {
        result[i] = *input;
        result[i].sm.smCount = size;
    }
    if (remaining) {
        *remaining = *input;
        remaining->sm.smCount -= n * size;
    }
    return CUDA_SUCCESS;
}

SIM_API(cuDevResourceGenerateDesc, (CUdevResourceDesc * out, CUdevResource *parts, unsigned int n),
        (out, parts, n))
{
    if (!out || !parts || !n)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < n; i++)
        if (parts[i].type != CU_DEV_RESOURCE_TYPE_SM)
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    struct sim_descriptor *d = sim_object_new(SIM_DESCRIPTOR, sizeof *d);
    if (!d)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->part = parts[0];
    for (unsigned int i = 1; i < n; i++)
        d->part.sm.smCount += parts[i].sm.smCount;
    *out = (CUdevResourceDesc)d;
    return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxCreate,
        (CUgreenCtx * out, CUdevResourceDesc desc, CUdevice device, unsigned int flags),
        (out, desc, device, flags))
{
    struct sim_context *primary, *ctx;
    if (!out || !sim_object_is(desc, SIM_DESCRIPTOR) || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = sim_primary_retain(device, &primary);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_green *g = sim_object_new(SIM_GREEN, sizeof *g);
    r = g ? sim_context_new(device, primary->flags, false, &ctx) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sim_primary_release(device);
        return r;
    }
    g->ctx = ctx;
    g->id = ctx->id;
    g->part = ((struct sim_descriptor *)desc)->part;
    ctx->root = primary;
    ctx->green = g;
    pthread_mutex_lock(&primary->lock);
    ctx->next_green = primary->greens;
    primary->greens = ctx;
    pthread_mutex_unlock(&primary->lock);
    *out = (CUgreenCtx)g;
    return CUDA_SUCCESS;
}

/* Its streams stay, and answer that their context is destroyed. */
void sim_green_end_all(struct sim_context *primary)
{
    pthread_mutex_lock(&primary->lock);
    for (struct sim_context *ctx = primary->greens; ctx; ctx = ctx->next_green)
        sim_object_destroy(ctx, SIM_CONTEXT);
    primary->greens = NULL;
    pthread_mutex_unlock(&primary->lock);
}

SIM_API(cuGreenCtxDestroy, (CUgreenCtx handle), (handle))
{
    struct sim_green *g = (struct sim_green *)handle;
    if (!sim_object_is(g, SIM_GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_context *ctx = g->ctx, *primary = ctx->root;
    sim_context_wait(ctx);
    pthread_mutex_lock(&primary->lock);
    struct sim_context **p = &primary->greens;
    while (*p && *p != ctx)
        p = &(*p)->next_green;
    bool alive = *p; /* not gone with the primary one */
    if (alive) {
        *p = ctx->next_green;
        sim_object_destroy(ctx, SIM_CONTEXT);
    }
    pthread_mutex_unlock(&primary->lock);
    sim_object_destroy(g, SIM_GREEN);
    sim_primary_release(ctx->device);
    if (sim_settings.slow_us)
        usleep(sim_settings.slow_us); /* its handle may be given out again by now */
    return alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIM_API(cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx green), (out, green))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(green, SIM_GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (CUcontext)((struct sim_green *)green)->ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxGetId, (CUgreenCtx green, unsigned long long *id), (green, id))
{
    const struct sim_context *now = sim_current_quiet();
    struct sim_green *g = green ? (struct sim_green *)green : now ? now->green : NULL;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!g || !sim_object_is(g, SIM_GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    *id = g->id;
    return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxStreamCreate,
        (CUstream * out, CUgreenCtx green, unsigned int flags, int priority),
        (out, green, flags, priority))
{
    if (!out || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(green, SIM_GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_context *ctx = ((struct sim_green *)green)->ctx;
    if (!sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    *out = (CUstream)sim_stream_new(ctx, flags, priority, false);
    return CUDA_SUCCESS;
}

SIM_API(cuStreamGetGreenCtx, (CUstream stream, CUgreenCtx *out), (stream, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, false, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = (CUgreenCtx)s->ctx->green;
    return r;
}

SIM_API2(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz,
         (CUstream stream, CUcontext *ctx, CUgreenCtx *green), (stream, ctx, green))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r == CUDA_SUCCESS && (!ctx || !green))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    *ctx = (CUcontext)s->ctx->root;
    *green = (CUgreenCtx)s->ctx->green;
    return CUDA_SUCCESS;
}
