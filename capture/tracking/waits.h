/* waits.h - see waits.c. */
#pragma once

#include "capture/tracking/stream.h"

/* Notes that the thread has launched something that waits for more than the GPU. The loose form is
 * for streams without a struct ag_stream; call it in the thread that owns the stream. Returns
 * false if the library cannot find out when the wait has passed. Call both without any lock. */
bool ag_waits_record(struct ag_stream *s);
bool ag_waits_record_loose(CUstream stream, bool ptsz);

bool ag_waits_pending(void);
/* Whether no such wait can be in flight. Call it while the builder is busy: the function queries
 * events, and what the builder asks the driver about must not be destroyed meanwhile. */
bool ag_waits_at_rest(void);
/* Waits until what is in rings now has been launched, for some milliseconds at most. Otherwise a
 * call that waits for the GPU, with locks of the driver's, may wait for it. False: something is
 * still there. */
bool ag_waits_rings_pass(void);
extern _Atomic bool ag_rings_are_used; /* set with the first ring */
/* Call it before a stream is destroyed, under the stream's lock, with the builder paused. False:
 * the end of the stream's wait cannot be found out, so nothing may be built any more. */
bool ag_waits_stream_ends(struct ag_stream *s);
/* Call the first before a context may be destroyed, when its `ending` says so: it waits for whoever
 * asks about the context's events. Call the second after that, with the builder paused. */
void ag_waits_context_may_end(void);
void ag_waits_context_ends(const struct ag_context *context);
