/*
 * invalidate.c - calls after which what was recorded no longer holds: handles die, functions
 * change.
 *
 * These are rare, so they are simple: the builder is paused, every stream submits what it has
 * deferred and forgets what it must, then the tables go.
 */
#include "capture/capture.h"
#include "capture/flush.h"
#include "capture/graph.h"
#include "capture/log.h"
#include "capture/op.h"
#include "capture/setting.h"
#include "capture/state.h"
#include "capture/stats.h"
#include "capture/trace.h"

static bool passing(void)
{
    return atomic_load_explicit(&ag_state.bypass, memory_order_relaxed) &
           ~(AG_BYPASS_CAPTURE | AG_BYPASS_DEAD);
}

/* Ends the stream's segment and forgets all of its sequences. Under no lock, builder paused. */
static void forget_sequences(struct ag_stream *s)
{
    bool entered = ag_context_enter(s);
    ag_lock(&s->lock);
    if (!s->dead) {
        ag_stream_end_segment(s);
        ag_stream_wakes(s);
        ag_policy_forget(&s->policy);
        memset(&s->shapes, 0, sizeof(s->shapes));
    }
    ag_unlock(&s->lock);
    ag_context_leave(entered);
}

static void forget_everything(void)
{
    size_t n;
    ag_builder_pause();
    struct ag_shape_tables *old = ag_shapes_detach();
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++)
        forget_sequences(streams[i]);
    ag_streams_release(streams, n);
    ag_graphs_collect(UINT32_MAX);
    ag_shapes_destroy(old);
    ag_builder_resume();
}

void ag_capture_functions_die(enum ag_sym sym)
{
    if (passing())
        return;
    ag_count_boundary(sym);
    ag_trace_boundary(NULL, sym);
    ag_count(AG_COUNT_FUNCTIONS_DIED);
    ag_debug("capture", "%s: all sequences are forgotten", ag_sym_name(sym));
    forget_everything();
}

/* ---- graphs with certain kernels ---------------------------------------------------------- */

struct dropping {
    struct ag_policy *policy;
    const struct ag_kernel *kernel; /* NULL: those with dead functions */
};

static bool concerns(const struct ag_shape *shape, const struct ag_kernel *kernel)
{
    return kernel ? shape->function && shape->function->kernel == kernel
                  : ag_shape_bad(shape) & AG_SHAPE_DEAD;
}

static void drop_if_concerned(void *context, struct ag_block *block)
{
    const struct dropping *d = context;
    for (uint32_t i = 0; i < block->len; i++)
        if (concerns(ag_key_shape(block->keys[i]), d->kernel)) {
            ag_policy_drop_graphs(d->policy, block);
            return;
        }
}

/* Every stream ends its segment; `drop`: and graphs go. Builder paused where they do. */
static void submit_all(bool drop, const struct ag_kernel *kernel)
{
    size_t n;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++) {
        struct ag_stream *s = streams[i];
        bool entered = ag_context_enter(s);
        ag_lock(&s->lock);
        if (!s->dead) {
            ag_stream_end_segment(s);
            struct dropping d = {&s->policy, kernel};
            if (drop)
                ag_policy_each(&s->policy, drop_if_concerned, &d);
            if (drop && !kernel)
                memset(&s->shapes, 0, sizeof(s->shapes));
        }
        ag_unlock(&s->lock);
        ag_context_leave(entered);
    }
    ag_streams_release(streams, n);
}

void ag_capture_module_dies(void *module, enum ag_sym sym)
{
    if (passing())
        return;
    ag_count_boundary(sym);
    ag_trace_boundary(NULL, sym);
    ag_builder_pause();
    bool any = ag_shapes_die(sym == AG_SYM_cuLibraryUnload, module);
    if (any)
        ag_count(AG_COUNT_MODULE_DIED);
    submit_all(any, NULL);
    ag_graphs_collect(UINT32_MAX);
    ag_builder_resume();
    ag_capture_memory_goes(); /* its variables */
}

enum ag_change ag_capture_function_changes(CUfunction func, int attribute, int value, int device,
                                           enum ag_sym sym)
{
    const struct ag_kernel *kernel;
    if (passing())
        return AG_CHANGES_NOTHING;
    enum ag_change change = ag_function_setting_begins(func, attribute, value, device, &kernel);
    if (change == AG_CHANGES_NOTHING)
        return change;
    ag_count_boundary(sym);
    ag_trace_boundary(NULL, sym);
    ag_debug("capture", "%s: attribute %d of %p on device %d is to be %d", ag_sym_name(sym),
             attribute, (void *)func, device, value);
    ag_count(kernel ? AG_COUNT_FUNCTION_CHANGED : AG_COUNT_LIMIT_FALLS);
    if (kernel)
        ag_builder_pause();
    submit_all(kernel != NULL, kernel);
    return change;
}

void ag_capture_function_changed(CUfunction func, int attribute, int value, int device,
                                 enum ag_change change, CUresult result)
{
    ag_function_setting_ends(func, attribute, value, device, result == CUDA_SUCCESS);
    if (change == AG_CHANGES_GRAPHS)
        ag_builder_resume();
}

/* ---- streams ------------------------------------------------------------------------------ */

static CUresult stream_goes(struct ag_stream *s)
{
    bool entered = ag_context_enter(s);
    ag_lock(&s->lock);
    ag_stream_end_segment(s);
    CUresult r = s->pending;
    s->pending = CUDA_SUCCESS;
    s->dead = true;
    ag_waits_stream_goes(s);
    ag_policy_forget(&s->policy);
    ag_unlock(&s->lock);
    ag_context_leave(entered);
    ag_stats_retire_stream(s);
    ag_stream_forget(s);
    return r;
}

CUresult ag_capture_stream_dies(CUstream stream, enum ag_sym sym)
{
    if (passing())
        return CUDA_SUCCESS;
    struct ag_stream *s = ag_stream_find(stream, false);
    if (!s || s->legacy)
        return CUDA_SUCCESS; /* the default streams cannot be destroyed: the driver refuses */
    ag_count_boundary(sym);
    ag_trace_boundary(NULL, sym);
    ag_flush_for_order(s);
    ag_builder_pause();
    CUresult r = stream_goes(s);
    if (!ag_waits_pending()) /* else the builder does, when nothing waits any more */
        ag_graphs_collect(UINT32_MAX);
    ag_builder_resume();
    return r;
}

void ag_capture_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    struct ag_stream *s = passing() ? NULL : ag_stream_get(stream, ptsz);
    if (!s || atomic_exchange(&s->not_understood, true))
        return;
    ag_count_boundary(sym);
    ag_info("capture", "%s: stream %p is never deferred again", ag_sym_name(sym),
            (void *)s->handle);
    ag_stream_submit_deferred(s, true);
}

/* Without what waits in it being forgotten. */
static void leave_context(CUcontext ctx, enum ag_sym sym)
{
    size_t n;
    ag_count_boundary(sym);
    ag_trace_boundary(NULL, sym);
    ag_builder_pause();
    struct ag_stream **streams = ag_streams_snapshot(&n);
    for (size_t i = 0; i < n; i++)
        if (!ctx || streams[i]->context->handle == ctx)
            stream_goes(streams[i]);
    ag_streams_release(streams, n);
    ag_graphs_collect(UINT32_MAX);
    ag_fill_kernel_forget(ctx, true);
    ag_builder_resume();
}

void ag_capture_context_dies(CUcontext ctx, enum ag_sym sym)
{
    if (passing())
        return;
    ag_builder_hold();
    leave_context(ctx, sym);
    ag_waits_context_goes(ctx);
    ag_builder_release();
    ag_capture_functions_die(sym);
    ag_state_context_destroyed();
}

/* The context's handle, where it is there. */
static CUcontext primary_of(CUdevice device)
{
    unsigned int flags;
    int active = 0;
    CUcontext ctx = NULL;
    if (AG_REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active ||
        AG_REAL(cuDevicePrimaryCtxRetain)(&ctx, device) != CUDA_SUCCESS)
        return NULL;
    AG_REAL(cuDevicePrimaryCtxRelease_v2)(device);
    return ctx;
}

CUcontext ag_capture_primary_releases(CUdevice device, enum ag_sym sym)
{
    if (passing())
        return NULL;
    CUcontext ctx = primary_of(device);
    if (!ctx) {
        ag_capture_context_dies(NULL, sym);
        return NULL;
    }
    ag_builder_hold(); /* asks for no event of it until it is known whether it has ended */
    leave_context(ctx, sym);
    ag_capture_functions_die(sym);
    ag_state_context_destroyed();
    return ctx;
}

void ag_capture_primary_released(CUcontext ctx, CUdevice device)
{
    unsigned int flags;
    int active = 0;
    if (!ctx)
        return;
    if (AG_REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active)
        ag_waits_context_goes(ctx);
    ag_builder_release();
}
