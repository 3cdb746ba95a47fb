/* wait.h - see wait.c. */
#ifndef AG_WAIT_H
#define AG_WAIT_H

#include "capture/tracking/stream.h"

/* Something that waits for more than the GPU has been launched on `s`. The library builds nothing
 * until it has ended. Call it after the launch, without any lock. */
void ag_wait_launched(struct ag_stream *s);

#endif
