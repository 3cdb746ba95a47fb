/* captures.c - the program's own captures. While there are some, hooks submit at once. */
#include "capture/core/captures.h"
#include "capture/core/enter.h"
#include "capture/graphs/builder.h"
#include "capture/graphs/pause.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"
#include "capture/tracking/per_thread.h"
#include <stdlib.h>

static struct ag_lock captures_lock; /* of the count, of leaving the state with it, and the list */

/* Where captures began that have not ended. Without memory one is missing: then it does not end
 * with its stream or context. */
struct origin {
    const struct ag_context *context;
    CUstream stream;
    struct origin *next;
};
static struct origin *origins;

void ag_core_capture_begins(enum ag_sym sym)
{
    if (!ag_state_tracks())
        return;
    ag_lock(&captures_lock, AG_RANK_CAPTURES);
    atomic_fetch_add(&ag_state.captures, 1);
    ag_unlock(&captures_lock);
    ag_state_enter(AG_EAGER_CAPTURE, sym);
    ag_builder_pause(); /* waits for a build under way */
    ag_pause_resume();  /* the capture count keeps the builder from the next build */
}

static void capture_over(void)
{
    bool last = false;
    ag_lock(&captures_lock, AG_RANK_CAPTURES);
    if (atomic_load(&ag_state.captures)) {
        last = atomic_fetch_sub(&ag_state.captures, 1) == 1;
        if (last)
            ag_state_leave(AG_EAGER_CAPTURE);
    }
    ag_unlock(&captures_lock);
    if (last)
        ag_pause_wake();
}

void ag_core_capture_began(CUcontext of, CUstream stream, bool succeeded)
{
    struct ag_context *context = succeeded && of && ag_state_tracks() ? ag_context_get(of) : NULL;
    struct origin *origin = context ? malloc(sizeof(*origin)) : NULL;
    if (origin) {
        ag_lock(&captures_lock, AG_RANK_CAPTURES);
        *origin = (struct origin){context, stream, origins};
        origins = origin;
        ag_unlock(&captures_lock);
    }
    if (!succeeded)
        capture_over();
}

/* Takes one out of the list: that of the stream, or of `any` stream of the context. */
static bool take_origin(const struct ag_context *context, CUstream stream, bool any)
{
    ag_lock(&captures_lock, AG_RANK_CAPTURES);
    struct origin **at = &origins;
    while (*at && !((*at)->context == context && (any || (*at)->stream == stream)))
        at = &(*at)->next;
    struct origin *found = *at;
    if (found)
        *at = found->next;
    ag_unlock(&captures_lock);
    free(found);
    return found;
}

void ag_core_capture_ended(CUcontext of, CUstream stream)
{
    const struct ag_context *context = of ? ag_context_find(of) : NULL;
    if (context)
        take_origin(context, stream, false);
    capture_over();
}

bool ag_core_capture_is_of(CUstream stream)
{
    ag_lock(&captures_lock, AG_RANK_CAPTURES);
    const struct origin *origin = origins;
    while (origin && origin->stream != stream)
        origin = origin->next;
    ag_unlock(&captures_lock);
    return origin;
}

void ag_captures_context_ends(const struct ag_context *context)
{
    while (take_origin(context, NULL, true))
        capture_over();
}

uint32_t ag_core_streams_capturing(void)
{
    uint32_t count = 0;
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        ag_lock(&s->lock, AG_RANK_STREAM); /* a stream alive now stays so meanwhile */
        bool may_ask = !s->legacy && (!s->thread || (ag_stream_is_of_this_thread(s) &&
                                                     s->context->handle == ag_context_current()));
        if (ag_stream_is_live(s) && may_ask && AG_HAVE(cuStreamIsCapturing) &&
            AG_REAL(cuStreamIsCapturing)(ag_stream_handle(s), &status) == CUDA_SUCCESS)
            count += status != CU_STREAM_CAPTURE_STATUS_NONE;
        ag_unlock(&s->lock);
    }
    return count;
}
