/* waits.h - see waits.c. */
#ifndef AG_WAITS_H
#define AG_WAITS_H

#include "capture/tracking/stream.h"

/* Something that waits for more than the GPU has been launched, into a stream without a struct
 * ag_stream by the thread whose stream it is. False where it cannot be told when that has passed.
 * Without any lock. */
bool ag_waits_record(struct ag_stream *s);
bool ag_waits_record_loose(CUstream stream, bool ptsz);

bool ag_waits_pending(void);
/* None can be in flight. Where the builder is busy: what it asks the driver for is not to be
 * destroyed meanwhile. */
bool ag_waits_at_rest(void);
/* The stream is about to be destroyed, the context has been. The builder is paused; the first under
 * the stream's lock. */
void ag_waits_stream_goes(struct ag_stream *s);
void ag_waits_context_goes(CUcontext ctx);

#endif
