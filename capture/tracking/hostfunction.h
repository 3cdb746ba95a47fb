/* hostfunction.h - see hostfunction.c. */
#ifndef AG_HOSTFUNCTION_H
#define AG_HOSTFUNCTION_H

#include "capture/tracking/stream.h"

struct ag_host_call;
/* What is launched in place of a host function of the program's, as ag_core_host_begins() says;
 * NULL where it could not be told when that has returned. */
struct ag_host_call *ag_host_call_make(CUstream stream, bool ptsz, CUhostFn function,
                                       CUstreamCallback callback, void *data);
/* It was not launched. */
void ag_host_call_cancel(struct ag_host_call *call);

/* Whether host functions of the program's have not returned; those of a context that has been
 * destroyed never will. */
bool ag_host_functions_pending(void);
void ag_host_functions_invalidate(struct ag_context *context);

#endif
