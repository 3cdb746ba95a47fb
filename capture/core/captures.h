/* captures.h - the program's own captures; capture.h has what the hooks call. */
#pragma once

#include "capture/tracking/stream.h"

/* Those that began in streams of this context have ended with it. */
void ag_captures_context_ends(const struct ag_context *context);
