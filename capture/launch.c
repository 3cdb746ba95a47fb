/*
 * launch.c - the hot path: what happens to a kernel launch.
 *
 * Rules, for everything that runs while a known sequence is followed:
 *  - no allocation, no system call, no call into the driver but the chunk's own graph launch and
 *    cuCtxGetCurrent for the legacy default stream (whose meaning depends on it);
 *  - one lock, the stream's own; it is contended only where two threads launch to one stream;
 *  - no hash: the expected op is compared field by field;
 *  - no clock but once per chunk;
 *  - nothing is counted with an atomic operation per op.
 * An eager launch is made without the lock: nobody may wait for the driver because of us.
 */
#include "capture/capture.h"
#include "capture/clock.h"
#include "capture/flush.h"
#include "capture/graph.h"
#include "capture/log.h"
#include "capture/state.h"
#include "capture/stats.h"
#include <stdlib.h>

_Atomic uint32_t ag_open_streams;

static CUresult launch_now(const struct ag_launch *l)
{
    if (l->sym == AG_SYM_cuLaunchKernel || l->sym == AG_SYM_cuLaunchKernel_ptsz) {
        AG_PFN_cuLaunchKernel real = (AG_PFN_cuLaunchKernel)ag_real[l->sym];
        return real(l->func, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                    l->block[2], l->shared_bytes, l->stream, l->params, l->extra);
    }
    CUlaunchConfig config = {.gridDimX = l->grid[0],
                             .gridDimY = l->grid[1],
                             .gridDimZ = l->grid[2],
                             .blockDimX = l->block[0],
                             .blockDimY = l->block[1],
                             .blockDimZ = l->block[2],
                             .sharedMemBytes = l->shared_bytes,
                             .hStream = l->stream,
                             .attrs = (CUlaunchAttribute *)l->attrs,
                             .numAttrs = l->num_attrs};
    return ((AG_PFN_cuLaunchKernelEx)ag_real[l->sym])(&config, l->func, l->params, l->extra);
}

static CUresult take_pending(struct ag_stream *s, CUresult r)
{
    if (__builtin_expect(s->pending != CUDA_SUCCESS, 0) && r == CUDA_SUCCESS) {
        r = s->pending;
        s->pending = CUDA_SUCCESS;
    }
    return r;
}

/* Room for one more op; false without memory. */
static bool grow(struct ag_stream *s, uint32_t bytes)
{
    if (s->num_staged == s->max_staged) {
        uint32_t n = s->max_staged ? s->max_staged * 2 : 64;
        struct ag_staged *staged = realloc(s->staged, n * sizeof(*staged));
        if (!staged)
            return false;
        s->staged = staged;
        s->max_staged = n;
    }
    if (s->num_bytes + bytes > s->max_bytes) {
        uint32_t n = (s->num_bytes + bytes) * 2 + 4096;
        uint8_t *more = realloc(s->bytes, n);
        if (!more)
            return false;
        s->bytes = more;
        s->max_bytes = n;
    }
    return true;
}

static inline bool stage(struct ag_stream *s, const struct ag_shape *shape,
                         const struct ag_launch *l)
{
    if (__builtin_expect(s->num_staged == s->max_staged ||
                             s->num_bytes + shape->staged_bytes > s->max_bytes,
                         0) &&
        !grow(s, shape->staged_bytes))
        return false;
    ag_stage_launch(s->bytes + s->num_bytes, shape, l);
    s->staged[s->num_staged++] = (struct ag_staged){shape, s->num_bytes};
    s->num_bytes += shape->staged_bytes;
    return true;
}

/* The chunk whose last op has just been deferred goes to the GPU as one graph. */
static void submit_chunk(struct ag_stream *s, struct ag_chunk *chunk, uint64_t now)
{
    struct ag_graphs *g = chunk->user;
    if (ag_graphs_launch(s, g, s->bytes)) {
        g->last_used_ns = now;
        s->replayed_ops += chunk->count;
        s->num_deferred = 0;
        ag_deferring_ends(s);
    } else {
        ag_flush(s, s->num_deferred);
    }
}

/* Acts on a verdict about an op of this shape. Returns whether the op is still to be launched by
 * the caller, after the lock is released. Under the lock. */
static bool act(struct ag_stream *s, const struct ag_shape *shape, const struct ag_launch *l,
                const struct ag_verdict *v, uint64_t now)
{
    bool eager = v->what != AG_DO_DEFER;
    if (v->flush)
        ag_flush(s, v->flush);
    if (v->fresh || v->what == AG_DO_EAGER) {
        s->num_staged = 0;
        s->num_bytes = 0;
    }
    if (v->what != AG_DO_EAGER && !stage(s, shape, l)) {
        /* out of memory: everything deferred goes, and this op after it */
        ag_flush(s, s->num_deferred);
        ag_policy_break(&s->policy);
        if (v->done && v->what == AG_DO_STAGE)
            ag_policy_not_built(v->done);
        s->num_staged = s->num_bytes = 0;
        return true;
    }
    if (!eager)
        s->num_deferred++;
    if (v->done) {
        if (eager)
            ag_builder_request(s, v->done);
        else
            submit_chunk(s, v->done, now);
        s->num_staged = 0;
        s->num_bytes = 0;
    } else if (!eager) {
        ag_deferring_begins(s);
    }
    if (eager)
        s->eager_ops++;
    return eager;
}

/* A launch that is not recordable: a boundary. */
static CUresult pass_through(struct ag_stream *s, const struct ag_launch *l, const char *why)
{
    ag_count(!strcmp(why, "collective kernel") ? AG_COUNT_COLLECTIVE : AG_COUNT_UNKNOWN_LAYOUT);
    ag_debug("flush", "launch submitted at once: %s", why);
    ag_lock(&s->lock);
    ag_stream_end_segment(s);
    CUresult pending = take_pending(s, CUDA_SUCCESS);
    ag_unlock(&s->lock);
    CUresult r = launch_now(l);
    return r == CUDA_SUCCESS ? pending : r;
}

static CUresult refused(struct ag_stream *s, const struct ag_launch *l, struct ag_shape *shape,
                        CUresult r)
{
    (void)s;
    (void)l;
    ag_count(AG_COUNT_FAILED_LAUNCHES);
    if (shape)
        atomic_store_explicit(&shape->bad, true, memory_order_relaxed);
    return r;
}

static void update_nap(struct ag_stream *s)
{
    if (__builtin_expect(s->policy.dormant != 0, 0)) {
        atomic_store_explicit(&s->nap, s->policy.dormant, memory_order_relaxed);
        s->policy.dormant = 0;
        if (s->open) { /* what is passed unseen has nothing to flush */
            s->open = false;
            atomic_fetch_sub(&ag_open_streams, 1);
        }
    }
}

/* Not the expected op, or no op expected. */
static CUresult unexpected(struct ag_stream *s, const struct ag_launch *l)
{
    const char *why = "";
    struct ag_verdict v;
    uint64_t now = ag_clock_ns();
    ag_lock(&s->lock);
    struct ag_shape *shape = ag_shape_of_launch(&s->shapes, l, &why);
    if (!shape || !ag_launch_has_arguments(l, shape->function) ||
        atomic_load_explicit(&shape->bad, memory_order_relaxed)) {
        ag_unlock(&s->lock);
        return pass_through(s, l, why);
    }
    ag_policy_op(&s->policy, ag_shape_key(shape), now, &v);
    if (!s->open) {
        s->open = true;
        atomic_fetch_add(&ag_open_streams, 1);
    }
    bool eager = act(s, shape, l, &v, now);
    update_nap(s);
    CUresult pending = take_pending(s, CUDA_SUCCESS);
    ag_unlock(&s->lock);
    CUresult r = eager ? launch_now(l) : CUDA_SUCCESS;
    if (__builtin_expect(r != CUDA_SUCCESS, 0))
        return refused(s, l, shape, r);
    return pending;
}

static bool is_expected(const struct ag_policy *p, const struct ag_launch *l)
{
    if (p->next == p->stop)
        return false;
    const struct ag_shape *shape = ag_key_shape(*p->next);
    return ag_shape_is_launch(shape, l) && (__builtin_expect(l->params && !l->extra, 1) ||
                                            ag_launch_has_arguments(l, shape->function));
}

CUresult ag_capture_launch(const struct ag_launch *l)
{
    if (__builtin_expect(atomic_load_explicit(&ag_state.bypass, memory_order_relaxed), 0)) {
        if (atomic_load(&ag_state.captures))
            ag_count(AG_COUNT_IN_CAPTURE);
        return launch_now(l);
    }
    struct ag_stream *s = ag_stream_get(l->stream, l->ptsz);
    ag_flush_for_order(s);
    if (!s) {
        ag_count(AG_COUNT_PER_THREAD);
        return launch_now(l);
    }
    uint32_t nap = atomic_load_explicit(&s->nap, memory_order_relaxed);
    if (nap) {
        atomic_store_explicit(&s->nap, nap - 1, memory_order_relaxed);
        return launch_now(l);
    }
    if (atomic_load_explicit(&s->owner, memory_order_relaxed) != ag_this_thread())
        atomic_store_explicit(&s->owner, ag_this_thread(), memory_order_relaxed);

    ag_lock(&s->lock);
    struct ag_policy *p = &s->policy;
    if (!is_expected(p, l)) {
        ag_unlock(&s->lock);
        return unexpected(s, l);
    }
    struct ag_shape *shape = (struct ag_shape *)(uintptr_t)*p->next;
    struct ag_verdict v = {0, p->doing, false, NULL};
    uint64_t now = 0;
    p->counts.ops++;
    if (!s->open) {
        s->open = true;
        atomic_fetch_add(&ag_open_streams, 1);
    }
    if (++p->next == p->stop) {
        now = ag_clock_ns();
        ag_policy_stretch_end(p, now, &v);
    }
    bool eager = act(s, shape, l, &v, now);
    CUresult r = take_pending(s, CUDA_SUCCESS);
    ag_unlock(&s->lock);
    if (!eager)
        return r;
    CUresult real = launch_now(l);
    if (__builtin_expect(real != CUDA_SUCCESS, 0))
        return refused(s, l, shape, real);
    return r;
}
