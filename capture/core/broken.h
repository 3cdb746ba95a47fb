/* broken.h - see broken.c. */
#ifndef AG_BROKEN_H
#define AG_BROKEN_H

#include "capture/tracking/stream.h"

/* A context has been destroyed. If an error had ended it, that error no longer matters. */
void ag_broken_context_ended(struct ag_context *context);

#endif
