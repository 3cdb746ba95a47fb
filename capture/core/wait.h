/* wait.h - see wait.c. */
#ifndef AG_WAIT_H
#define AG_WAIT_H

#include "capture/tracking/stream.h"

/* Something that waits for more than the GPU has been launched on `s`: nothing is built until it
 * has ended. Behind the launch, without any lock. */
void ag_wait_launched(struct ag_stream *s);

#endif
