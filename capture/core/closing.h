/* closing.h - what ends without a call of the program's. */
#pragma once

#include "capture/tracking/stream.h"

/* Per-thread default streams of the context whose threads have ended: what they hold back is
 * submitted, and they end like streams that are destroyed. The caller holds no lock. */
void ag_closing_ended_threads(const struct ag_context *context);
