/*
 * own.h - driver calls of the library's own, which the program is not to notice.
 */
#ifndef AG_OWN_H
#define AG_OWN_H

#include "driver/entries.h"
#include <stdbool.h>

/* Calls that may fail by intention: how many parameters a kernel has, of which kind a handle is.
 * Where the program has asked to be told of failed calls (cuLogsRegisterCallback), the driver tells
 * it in the calling thread, and the hook of that call looks here first. */
extern __thread unsigned int ag_probes; /* that this thread is in */

static inline void ag_probe_begins(void)
{
    ag_probes++;
}

static inline void ag_probe_ends(void)
{
    ag_probes--;
}

/* The calling thread's context, NULL where there is none. */
CUcontext ag_context_current(void);
/* Makes a context current where it is not; undo with ag_context_leave(entered). */
bool ag_context_enter(CUcontext ctx);
void ag_context_leave(bool entered);

/* Sets the calling thread's capture mode and returns the one before. Some calls of ours end a
 * capture of the program's that is in global mode, unless the thread says that it means none (CUDA
 * Driver API, cuThreadExchangeStreamCaptureMode). */
CUstreamCaptureMode ag_core_mode(CUstreamCaptureMode mode);

#endif
