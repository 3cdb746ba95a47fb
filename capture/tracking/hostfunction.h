/* hostfunction.h - see hostfunction.c. */
#pragma once

#include "capture/tracking/stream.h"

struct ag_host_call;
/* The data to launch in place of one of the program's host functions, see ag_core_host_begins().
 * NULL if the library could not find out when the function has returned. */
struct ag_host_call *ag_host_call_make(CUstream stream, bool ptsz, CUhostFn function,
                                       CUstreamCallback callback, void *data);
/* The call was not launched. */
void ag_host_call_cancel(struct ag_host_call *call);

/* Whether any of the program's host functions has not returned yet. Those of a destroyed context
 * never will, so ag_host_functions_invalidate() stops counting them. */
bool ag_host_functions_pending(void);
void ag_host_functions_invalidate(struct ag_context *context);
