/* broken.c - errors that end a context: the library defers nothing until the context is
 * destroyed. */
#include "capture/core/broken.h"
#include "capture/capture.h"
#include "capture/tracking/count.h"
#include "capture/core/enter.h"
#include "driver/error.h"
#include "capture/settings/log.h"
#include "capture/tracking/state.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include "driver/own.h"

static void error_in(struct ag_context *context, CUresult error)
{
    if (!context || atomic_exchange(&context->broken, true))
        return; /* an unknown context defers nothing, and we would not hear of its end */
    ag_count(AG_COUNT_BROKEN_CONTEXT);
    ag_info("context", "error %d: nothing is deferred until the context is destroyed", (int)error);
    ag_state_enter(AG_EAGER_BROKEN, AG_SYM_COUNT);
}

void ag_core_driver_error(CUresult error)
{
    if (__builtin_expect(!ag_error_ends_context(error), 1) || !ag_state_tracks())
        return;
    CUcontext ctx = ag_context_current();
    error_in(ctx ? ag_context_get(ctx) : NULL, error);
}

void ag_core_stream_error(CUstream stream, bool ptsz, CUresult error)
{
    struct ag_stream *s = ag_error_ends_context(error) ? ag_stream_find(stream, ptsz) : NULL;
    if (!s)
        ag_core_driver_error(error);
    else if (ag_state_tracks())
        error_in(s->context, error);
}

static void is_broken(struct ag_context *context, void *any)
{
    *(bool *)any |= atomic_load(&context->broken);
}

void ag_broken_context_ended(struct ag_context *context)
{
    bool any = false;
    if (!atomic_exchange(&context->broken, false))
        return;
    ag_contexts_each(is_broken, &any);
    if (!any)
        ag_state_leave(AG_EAGER_BROKEN);
}
