/* waits.h - see waits.c. */
#ifndef AG_WAITS_H
#define AG_WAITS_H

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
/* Call the first before a stream is destroyed, under the stream's lock; the second after a context
 * is destroyed. The builder must be paused for both. False: the end of the stream's wait cannot be
 * found out, so nothing may be built any more. */
bool ag_waits_stream_ends(struct ag_stream *s);
void ag_waits_context_ends(CUcontext ctx);

#endif
