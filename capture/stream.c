/* stream.c - the table of streams. */
#include "capture/stream.h"
#include "capture/log.h"
#include "capture/trace.h"
#include <stdlib.h>

__thread char ag_thread_mark __attribute__((tls_model("initial-exec")));

static struct ag_lock lock;
static struct ag_stream *streams; /* newest first */
static struct ag_context *contexts;
static size_t num_streams;
static uint64_t last_serial;
static _Atomic uint64_t generation = 1; /* changes when a stream goes: caches are void */

/* The last streams that this thread used: handle as normalised, and the context for the legacy one.
 */
enum { CACHED = 4 };
static __thread struct {
    CUstream handle;
    CUcontext context;
    struct ag_stream *stream;
    uint64_t generation;
} cache[CACHED] __attribute__((tls_model("initial-exec")));

bool ag_stream_is_per_thread(CUstream handle, bool ptsz)
{
    return handle == CU_STREAM_PER_THREAD || (!handle && ptsz);
}

static CUcontext current_context(void)
{
    CUcontext ctx = NULL;
    return AG_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS ? ctx : NULL;
}

/* Under the lock. */
static struct ag_stream *look_up(CUstream handle, CUcontext ctx)
{
    for (struct ag_stream *s = streams; s; s = s->next)
        if (s->handle == handle && (!ctx || s->context->handle == ctx))
            return s;
    return NULL;
}

/* Under the lock. */
static struct ag_context *context_get(CUcontext handle)
{
    struct ag_context *c;
    for (c = contexts; c; c = c->next)
        if (c->handle == handle)
            return c;
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->handle = handle;
    c->next = contexts;
    contexts = c;
    return c;
}

static struct ag_stream *make(CUstream handle, CUcontext ctx)
{
    unsigned int flags = 0;
    int priority = 0;
    bool legacy = handle == CU_STREAM_LEGACY;
    if (!legacy) {
        if (AG_REAL(cuStreamGetFlags)(handle, &flags) != CUDA_SUCCESS ||
            AG_REAL(cuStreamGetCtx)(handle, &ctx) != CUDA_SUCCESS)
            return NULL;
        AG_REAL(cuStreamGetPriority)(handle, &priority);
    }
    if (!ctx)
        return NULL;
    struct ag_stream *s = calloc(1, sizeof(*s));
    struct ag_policy_config config;
    if (!s)
        return NULL;
    ag_policy_defaults(&config);
    config.min_repeats = ag_options.min_repeats;
    config.min_ops = ag_options.min_ops;
    config.max_chunk = ag_options.max_chunk;
    config.fixed_chunk = ag_options.chunk;
    config.gate = ag_options.gate;
    if (ag_policy_open(&s->policy, &config, &ag_stream_policy_hooks)) {
        free(s);
        return NULL;
    }
    s->handle = handle;
    s->legacy = legacy;
    s->blocking = !legacy && !(flags & CU_STREAM_NON_BLOCKING);
    s->priority = priority;
    atomic_store(&s->references, 1);

    ag_lock(&lock);
    struct ag_stream *other = look_up(handle, legacy ? ctx : NULL);
    struct ag_context *context = other ? NULL : context_get(ctx);
    if (context) {
        s->context = context;
        s->serial = ++last_serial;
        s->next = streams;
        if (streams)
            streams->prev = s;
        streams = s;
        num_streams++;
        if (legacy)
            context->legacy = s;
    }
    ag_unlock(&lock);
    if (!context) {
        ag_policy_close(&s->policy);
        free(s);
        return other;
    }
    ag_trace_stream(s);
    ag_debug("start", "stream %p of context %p: %s, priority %d", (void *)handle, (void *)ctx,
             legacy        ? "legacy default"
             : s->blocking ? "blocking"
                           : "non-blocking",
             priority);
    return s;
}

static struct ag_stream *get(CUstream handle, bool ptsz, bool create)
{
    if (ag_stream_is_per_thread(handle, ptsz))
        return NULL;
    CUcontext ctx = NULL;
    if (!handle || handle == CU_STREAM_LEGACY) {
        handle = CU_STREAM_LEGACY;
        ctx = current_context();
        if (!ctx)
            return NULL;
    }
    uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    for (int i = 0; i < CACHED; i++)
        if (cache[i].handle == handle && cache[i].context == ctx && cache[i].generation == now)
            return cache[i].stream;
    ag_lock(&lock);
    struct ag_stream *s = look_up(handle, ctx);
    ag_unlock(&lock);
    if (!s && create)
        s = make(handle, ctx);
    if (s) {
        int victim = 0;
        for (int i = 0; i < CACHED; i++)
            if (cache[i].generation != now || !cache[i].stream)
                victim = i;
        if (cache[victim].generation == now && cache[victim].stream)
            victim = (int)(s->serial % CACHED);
        cache[victim].handle = handle;
        cache[victim].context = ctx;
        cache[victim].stream = s;
        cache[victim].generation = now;
    }
    return s;
}

struct ag_stream *ag_stream_get(CUstream handle, bool ptsz)
{
    return get(handle, ptsz, true);
}

struct ag_stream *ag_stream_find(CUstream handle, bool ptsz)
{
    return get(handle, ptsz, false);
}

static void release(struct ag_stream *s)
{
    if (atomic_fetch_sub(&s->references, 1) != 1)
        return;
    ag_policy_close(&s->policy);
    free(s->staged);
    free(s->bytes);
    free(s);
}

void ag_stream_forget(struct ag_stream *s)
{
    ag_lock(&lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        streams = s->next;
    if (s->next)
        s->next->prev = s->prev;
    if (s->context->legacy == s)
        s->context->legacy = NULL;
    num_streams--;
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    ag_unlock(&lock);
    release(s);
}

struct ag_stream **ag_streams_snapshot(size_t *n)
{
    ag_lock(&lock);
    struct ag_stream **list = malloc((num_streams + 1) * sizeof(*list));
    *n = 0;
    for (struct ag_stream *s = list ? streams : NULL; s; s = s->next) {
        atomic_fetch_add(&s->references, 1);
        list[(*n)++] = s;
    }
    ag_unlock(&lock);
    return list;
}

void ag_streams_release(struct ag_stream **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        release(list[i]);
    free(list);
}

bool ag_context_enter(const struct ag_stream *s)
{
    return current_context() != s->context->handle &&
           AG_REAL(cuCtxPushCurrent_v2)(s->context->handle) == CUDA_SUCCESS;
}

void ag_context_leave(bool entered)
{
    CUcontext ctx;
    if (entered)
        AG_REAL(cuCtxPopCurrent_v2)(&ctx);
}
