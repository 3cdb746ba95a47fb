/* context.c - primary and created contexts, the stack of each thread, limits, peers. */
#include "sim.h"
#include <string.h>
#include <unistd.h>

#define STACK_DEPTH 32

static struct {
    pthread_mutex_t lock; /* one each: to end a context may wait for its work */
    struct sim_context *ctx;
    int references;
    unsigned int flags;
} primary[SIM_MAX_DEVICES] = {[0 ... SIM_MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};
static _Thread_local struct sim_context *stack[STACK_DEPTH];
static _Thread_local int depth;
static _Atomic uint64_t next_id = 1;

CUresult sim_context_new(int device, unsigned int flags, bool is_primary, struct sim_context **out)
{
    struct sim_context *ctx = sim_object_new(SIM_CONTEXT, sizeof *ctx);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->device = device;
    ctx->flags = flags;
    ctx->api_version = 3020;
    ctx->primary = is_primary;
    ctx->root = ctx;
    ctx->id = atomic_fetch_add(&next_id, 1);
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
    pthread_mutex_init(&ctx->lock, NULL);
    ctx->legacy = sim_stream_new(ctx, 0, 0, true);
    *out = ctx;
    return CUDA_SUCCESS;
}

static void context_destroy(struct sim_context *ctx)
{
    sim_context_wait(ctx);
    sim_green_end_all(ctx);
    /* a ghost's handle may become another thread's stream as soon as the lock is given back */
    struct sim_stream *alive = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (struct sim_stream *s = ctx->streams, *next; s; s = next) {
        next = s->next;
        if (s->ghost)
            continue;
        s->next = alive;
        alive = s;
    }
    ctx->streams = NULL;
    pthread_mutex_unlock(&ctx->lock);
    for (struct sim_stream *next; alive; alive = next) {
        next = alive->next;
        sim_stream_stop(alive);
        sim_object_destroy(alive, SIM_STREAM);
    }
    sim_module_release_context(ctx);
    sim_mem_release_context(ctx);
    sim_object_destroy(ctx, SIM_CONTEXT);
    if (sim_settings.slow_us)
        usleep(sim_settings.slow_us); /* its handles may be given out again by now */
}

struct sim_context *sim_current_quiet(void)
{
    return depth ? stack[depth - 1] : NULL;
}

/* The current context, lost or not. */
static CUresult current_alive(struct sim_context **out)
{
    struct sim_context *ctx = sim_current_quiet();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_current(struct sim_context **out)
{
    if (sim_running)
        return CUDA_ERROR_NOT_PERMITTED; /* no driver calls from callbacks and host functions */
    CUresult r = current_alive(out);
    return r == CUDA_SUCCESS ? (CUresult)atomic_load(&(*out)->error) : r;
}

void sim_context_raise(struct sim_context *ctx, CUresult error)
{
    int none = 0;
    atomic_compare_exchange_strong(&ctx->error, &none, (int)error);
    if (ctx->root != ctx)
        sim_context_raise(ctx->root, error);
}

CUresult sim_context_wait(struct sim_context *ctx)
{
    struct {
        struct sim_stream *stream;
        uint64_t seq;
    } list[256];
    size_t n;
    do { /* more than fit: again, until nothing is pending */
        n = 0;
        pthread_mutex_lock(&ctx->lock);
        for (struct sim_stream *s = ctx->streams; s && n < 256; s = s->next)
            if (!sim_stream_done(s)) {
                list[n].stream = s;
                list[n++].seq = atomic_load(&s->submitted);
            }
        pthread_mutex_unlock(&ctx->lock);
        for (size_t i = 0; i < n; i++)
            sim_stream_wait(list[i].stream, list[i].seq);
    } while (n == 256);
    pthread_mutex_lock(&ctx->lock);
    struct sim_context *green = ctx->greens;
    pthread_mutex_unlock(&ctx->lock);
    while (green) {
        sim_context_wait(green);
        pthread_mutex_lock(&ctx->lock);
        green = green->next_green;
        pthread_mutex_unlock(&ctx->lock);
    }
    return (CUresult)atomic_load(&ctx->error);
}

static bool context_push(struct sim_context *ctx)
{
    if (depth == STACK_DEPTH)
        return false;
    stack[depth++] = ctx;
    return true;
}

/* ---- primary contexts
 * ----------------------------------------------------------------------------- */

static bool valid(CUdevice device)
{
    return device >= 0 && device < sim_device_count();
}

CUresult sim_primary_retain(CUdevice device, struct sim_context **out)
{
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&primary[device].lock);
    if (!primary[device].ctx)
        r = sim_context_new(device, primary[device].flags, true, &primary[device].ctx);
    if (r == CUDA_SUCCESS) {
        primary[device].references++;
        *out = primary[device].ctx;
    }
    pthread_mutex_unlock(&primary[device].lock);
    return r;
}

SIM_API(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device))
{
    return out ? sim_primary_retain(device, (struct sim_context **)out) : CUDA_ERROR_INVALID_VALUE;
}

/* It stays current to the threads that it is current to: their calls answer that it is gone. */
static void drop_primary(CUdevice device)
{
    if (primary[device].ctx)
        context_destroy(primary[device].ctx);
    primary[device].ctx = NULL;
}

CUresult sim_primary_release(CUdevice device)
{
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&primary[device].lock);
    if (!primary[device].references)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (--primary[device].references == 0)
        drop_primary(device);
    pthread_mutex_unlock(&primary[device].lock);
    return r;
}

SIM_API(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))
{
    return sim_primary_release(device);
}

/* "Resetting the primary context does not release it." */
SIM_API(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device))
{
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&primary[device].lock);
    drop_primary(device);
    pthread_mutex_unlock(&primary[device].lock);
    return CUDA_SUCCESS;
}

SIM_API(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active),
        (device, flags, active))
{
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&primary[device].lock);
    if (flags)
        *flags = primary[device].flags;
    if (active)
        *active = primary[device].ctx != NULL;
    pthread_mutex_unlock(&primary[device].lock);
    return CUDA_SUCCESS;
}

SIM_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags), (device, flags))
{
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&primary[device].lock);
    primary[device].flags = flags;
    pthread_mutex_unlock(&primary[device].lock);
    return CUDA_SUCCESS;
}

/* ---- created contexts
 * ----------------------------------------------------------------------------- */

static CUresult create(CUcontext *out, unsigned int flags, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_context *ctx;
    CUresult r = sim_context_new(device, flags, false, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!context_push(ctx))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice device),
        (out, flags, device))
{
    return create(out, flags, device);
}

SIM_API(cuCtxCreate_v3,
        (CUcontext * out, CUexecAffinityParam *params, int count, unsigned int flags,
         CUdevice device),
        (out, params, count, flags, device))
{
    if (count && !params)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out, flags, device);
}

SIM_API(cuCtxCreate_v4,
        (CUcontext * out, CUctxCreateParams *params, unsigned int flags, CUdevice device),
        (out, params, flags, device))
{
    (void)params;
    return create(out, flags, device);
}

static CUresult destroy(CUcontext handle)
{
    struct sim_context *ctx = (struct sim_context *)handle;
    if (!sim_object_is(ctx, SIM_CONTEXT) || ctx->primary || ctx->green)
        return CUDA_ERROR_INVALID_CONTEXT;
    context_destroy(ctx);
    if (depth && stack[depth - 1] == ctx)
        depth--;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxDestroy_v2, (CUcontext ctx), (ctx))
{
    return destroy(ctx);
}

SIM_API(cuCtxDestroy, (CUcontext ctx), (ctx))
{
    return destroy(ctx);
}

SIM_API(cuCtxAttach, (CUcontext * out, unsigned int flags), (out, flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&ctx->attached, 1);
    *out = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxDetach, (CUcontext handle), (handle))
{
    struct sim_context *ctx = (struct sim_context *)handle;
    if (!sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (atomic_load(&ctx->attached) == 0)
        return destroy(handle);
    atomic_fetch_sub(&ctx->attached, 1);
    return CUDA_SUCCESS;
}

/* ---- the current context
 * -------------------------------------------------------------------------- */

SIM_API(cuCtxPushCurrent_v2, (CUcontext handle), (handle))
{
    if (!sim_object_is(handle, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return context_push((struct sim_context *)handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuCtxPopCurrent_v2, (CUcontext * out), (out))
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

SIM_API(cuCtxSetCurrent, (CUcontext handle), (handle))
{
    if (!handle) {
        if (depth)
            depth--;
        return CUDA_SUCCESS;
    }
    if (!sim_object_is(handle, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!depth)
        depth = 1;
    stack[depth - 1] = (struct sim_context *)handle;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetCurrent, (CUcontext * out), (out))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUcontext)sim_current_quiet();
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetDevice, (CUdevice * device), (device))
{
    struct sim_context *ctx;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_alive(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    *device = ctx->device;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetFlags, (unsigned int *flags), (flags))
{
    struct sim_context *ctx;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_alive(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxSetFlags, (unsigned int flags), (flags))
{
    struct sim_context *ctx;
    CUresult r = current_alive(&ctx);
    if (r == CUDA_SUCCESS)
        atomic_store(&ctx->flags, flags);
    return r;
}

SIM_API(cuCtxGetId, (CUcontext handle, unsigned long long *id), (handle, id))
{
    struct sim_context *ctx = handle ? (struct sim_context *)handle : sim_current_quiet();
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx || !sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    *id = ctx->id;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetApiVersion, (CUcontext handle, unsigned int *version), (handle, version))
{
    struct sim_context *ctx = handle ? (struct sim_context *)handle : sim_current_quiet();
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx || !sim_object_is(ctx, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = ctx->api_version;
    return CUDA_SUCCESS;
}

static CUresult synchronize(struct sim_context *ctx)
{
    if (atomic_load(&sim_captures)) {
        CUresult r = sim_capture_unsafe();
        if (r == CUDA_SUCCESS)
            r = sim_capture_implicit(ctx);
        if (r != CUDA_SUCCESS)
            return r;
    }
    return sim_context_wait(ctx);
}

SIM_API(cuCtxSynchronize, (void), ())
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    return r == CUDA_SUCCESS ? synchronize(ctx) : r;
}

SIM_API(cuCtxSynchronize_v2, (CUcontext handle), (handle))
{
    if (handle) {
        if (!sim_object_is(handle, SIM_CONTEXT))
            return CUDA_ERROR_INVALID_CONTEXT;
        return synchronize((struct sim_context *)handle);
    }
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    return r == CUDA_SUCCESS ? synchronize(ctx) : r;
}

SIM_API(cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
{
    struct sim_context *ctx;
    CUresult r = current_alive(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetLimit, (size_t * value, CUlimit limit), (value, limit))
{
    struct sim_context *ctx;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_alive(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if ((unsigned int)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = ctx->limits[limit];
    return CUDA_SUCCESS;
}

SIM_API(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if ((unsigned int)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    ctx->limits[limit] = limit == CU_LIMIT_STACK_SIZE ? (value + 15) & ~(size_t)15 : value;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetCacheConfig, (CUfunc_cache * config), (config))
{
    struct sim_context *ctx;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = current_alive(&ctx);
    if (r == CUDA_SUCCESS)
        *config = ctx->cache;
    return r;
}

SIM_API(cuCtxSetCacheConfig, (CUfunc_cache config), (config))
{
    struct sim_context *ctx;
    CUresult r = current_alive(&ctx);
    if (r == CUDA_SUCCESS)
        ctx->cache = config;
    return r;
}

/* The banks of shared memory have a fixed size, as on all GPUs of today. */
SIM_API(cuCtxGetSharedMemConfig, (CUsharedconfig * config), (config))
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return sim_current_quiet() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_API(cuCtxSetSharedMemConfig, (CUsharedconfig config), (config))
{
    (void)config;
    return sim_current_quiet() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_API(cuCtxEnablePeerAccess, (CUcontext handle, unsigned int flags), (handle, flags))
{
    struct sim_context *ctx, *peer = (struct sim_context *)handle;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sim_object_is(peer, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0 || peer->device == ctx->device)
        return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->peers & 1u << peer->device)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    ctx->peers |= 1u << peer->device;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxDisablePeerAccess, (CUcontext handle), (handle))
{
    struct sim_context *ctx, *peer = (struct sim_context *)handle;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sim_object_is(peer, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(ctx->peers & 1u << peer->device))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    ctx->peers &= ~(1u << peer->device);
    return CUDA_SUCCESS;
}
