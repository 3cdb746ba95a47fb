/*
 * standing.c - streams that stand still.
 *
 * A kernel may wait for a word that the program writes only behind further launches. If a graph is
 * built meanwhile, and the driver needs more memory for it, the build waits for that kernel with
 * the driver's locks held, and the launches for those locks (tests/gpu/pace/builds.cu). Nobody can
 * tell such a kernel from a long one. But where launching is the limit, a stream that works gets
 * something new all the time. So one that has work, and has got nothing for a while, may have such
 * a kernel.
 */
#include "capture/tracking/standing.h"
#include "capture/system/clock.h"
#include "capture/tracking/streams.h"

struct look {
    bool recent;    /* the last one was a moment ago */
    uint64_t going; /* contexts with a blocking stream that goes on, by their `bit` */
};

/* Under the lock, as the next two. */
static uint64_t calls(const struct ag_stream *s)
{
    const struct ag_policy_counts *c = ag_policy_counts(ag_engine_policy(&s->engine));
    return ag_stream_ops(s) + s->unrecorded + c->sync_points;
}

static bool is_ready(struct ag_stream *s)
{
    struct ag_visit visit = ag_driver_enter(s);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    ag_probe_begins();
    /* a query would end a capture that nobody has told of */
    bool captures = AG_REAL(cuStreamIsCapturing)(s->handle, &status) != CUDA_SUCCESS ||
                    status != CU_STREAM_CAPTURE_STATUS_NONE;
    bool ready = !captures && AG_REAL(cuStreamQuery)(s->handle) != CUDA_ERROR_NOT_READY;
    ag_probe_ends();
    ag_core_mode(mode);
    ag_driver_leave(s, visit);
    return ready;
}

/* The legacy stream is not ready as long as a blocking one is not. */
static bool stands(struct ag_stream *s, struct look *look)
{
    uint64_t now = calls(s);
    bool goes_on = now != s->looked_calls && look->recent;
    if (now != s->looked_calls)
        s->looked_ready = false;
    s->looked_calls = now;
    if (goes_on && s->blocking)
        look->going |= s->context->bit;
    if (goes_on || s->looked_ready || (s->legacy && look->going & s->context->bit))
        return false;
    s->looked_ready = is_ready(s);
    return !s->looked_ready;
}

/* Whoever is in the driver with it may wait there for room in its queue. Only its own thread can
 * ask about a per-thread default stream. */
static bool looks_at(struct ag_stream *s, struct look *look)
{
    if (!ag_stream_lock_if_prompt(s))
        return true;
    bool asks = ag_stream_is_live(s) && !s->thread && !atomic_load(&s->context->ending);
    bool still = asks && stands(s, look);
    ag_unlock(&s->lock);
    return still;
}

uint64_t ag_streams_stand(void)
{
    static uint64_t looked_at, span = AG_STANDS_FIRST_NS;
    static bool any;
    uint64_t now = ag_clock_monotonic_ns(), since = now - looked_at;
    if (since < span)
        return any ? span - since : 0;
    struct look look = {.recent = since < AG_STANDS_RECENTLY * span};
    bool anew = !any || since / AG_STANDS_RECENTLY >= AG_STANDS_NS;
    looked_at = now;
    struct ag_streams all = ag_streams_snapshot();
    any = all.lacks;
    for (size_t i = 0; i < all.n; i++)
        if (!ag_streams_at(&all, i)->legacy)
            any |= looks_at(ag_streams_at(&all, i), &look);
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        if (s->legacy)
            any |= looks_at(s, &look);
    if (anew || !any)
        span = AG_STANDS_FIRST_NS;
    else if (span < AG_STANDS_NS)
        span *= 2;
    return any ? span : 0;
}
