/*
 * own.h - driver calls that the library makes for itself, and that the program must not notice.
 */
#pragma once

#include "driver/entries.h"
#include <stdbool.h>

/* Put these around calls that may fail by intention: how many parameters a kernel has, of which
 * kind a handle is. If the program has registered a callback for failed calls
 * (cuLogsRegisterCallback), the driver runs it in the calling thread. The hook of that call checks
 * ag_probes first. */
extern __thread unsigned int ag_probes; /* probes that this thread is in */

static inline void ag_probe_begins(void)
{
    ag_probes++;
}

static inline void ag_probe_ends(void)
{
    ag_probes--;
}

/* The calling thread's context, NULL if it has none. */
CUcontext ag_context_current(void);
/* Makes a context current if it is not. Undo it with ag_context_leave(entered). */
bool ag_context_enter(CUcontext ctx);
/* The same. Returns whether it is current now; the driver may refuse. */
bool ag_context_try(CUcontext ctx, bool *entered);
void ag_context_leave(bool entered);

/* Sets the calling thread's stream capture mode and returns the old one. Some calls of the library
 * end a stream capture of the program that is in global mode, unless the thread has set its mode
 * so that they do not (CUDA Driver API, cuThreadExchangeStreamCaptureMode). */
CUstreamCaptureMode ag_core_mode(CUstreamCaptureMode mode);
