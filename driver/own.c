/* own.c - see own.h. */
#include "driver/own.h"

__thread unsigned int ag_probes;

CUcontext ag_context_current(void)
{
    CUcontext ctx = NULL;
    return AG_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS ? ctx : NULL;
}

bool ag_context_enter(CUcontext ctx)
{
    return ag_context_current() != ctx && AG_REAL(cuCtxPushCurrent_v2)(ctx) == CUDA_SUCCESS;
}

bool ag_context_try(CUcontext ctx, bool *entered)
{
    *entered = ag_context_enter(ctx);
    return *entered || ag_context_current() == ctx;
}

void ag_context_leave(bool entered)
{
    CUcontext ctx;
    if (entered)
        AG_REAL(cuCtxPopCurrent_v2)(&ctx);
}

CUstreamCaptureMode ag_core_mode(CUstreamCaptureMode mode)
{
    AG_REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    return mode;
}
