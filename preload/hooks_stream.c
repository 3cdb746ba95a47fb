/* hooks_stream.c - streams and events: calls that wait, query, order or end. */
#include "driver/own.h"
#include "preload/hook.h"

AG_STREAM_HOOK(cuStreamSynchronize, hStream, AG_LEGACY, AG_BLOCKS, (CUstream hStream), (hStream))
AG_STREAM_HOOK(cuStreamSynchronize_ptsz, hStream, AG_PTSZ, AG_BLOCKS, (CUstream hStream), (hStream))

/* Records and waits may be ops; capture/ makes the call. */
#define AG_EVENT_HOOK(name, is_ptsz, the_flags, params, args)                                      \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, AG_UNWRAP args);                                                  \
        struct ag_event_call call = {.sym = AG_SYM_##name,                                         \
                                     .ptsz = is_ptsz,                                              \
                                     .event = hEvent,                                              \
                                     .stream = ag_named(hStream, is_ptsz),                         \
                                     .flags = the_flags};                                          \
        return ag_core_event_call(&call);                                                          \
    }

AG_EVENT_HOOK(cuStreamWaitEvent, AG_LEGACY, Flags,
              (CUstream hStream, CUevent hEvent, unsigned int Flags), (hStream, hEvent, Flags))
AG_EVENT_HOOK(cuStreamWaitEvent_ptsz, AG_PTSZ, Flags,
              (CUstream hStream, CUevent hEvent, unsigned int Flags), (hStream, hEvent, Flags))
AG_EVENT_HOOK(cuEventRecord, AG_LEGACY, 0, (CUevent hEvent, CUstream hStream), (hEvent, hStream))
AG_EVENT_HOOK(cuEventRecord_ptsz, AG_PTSZ, 0, (CUevent hEvent, CUstream hStream), (hEvent, hStream))
AG_EVENT_HOOK(cuEventRecordWithFlags, AG_LEGACY, flags,
              (CUevent hEvent, CUstream hStream, unsigned int flags), (hEvent, hStream, flags))
AG_EVENT_HOOK(cuEventRecordWithFlags_ptsz, AG_PTSZ, flags,
              (CUevent hEvent, CUstream hStream, unsigned int flags), (hEvent, hStream, flags))

AG_HOOK cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CUresult result = AG_CALL(cuEventCreate, phEvent, Flags);
    if (result == CUDA_SUCCESS && ag_hooked())
        ag_core_event_made(*phEvent, Flags);
    return ag_hooked() ? ag_own_error(result) : result;
}

AG_HOOK cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    CUresult pending = ag_hooked() ? ag_core_barrier(AG_SYM_cuIpcOpenEventHandle) : CUDA_SUCCESS;
    CUresult result = AG_CALL(cuIpcOpenEventHandle, phEvent, handle);
    if (result == CUDA_SUCCESS && ag_hooked())
        ag_core_event_made(*phEvent, CU_EVENT_INTERPROCESS);
    return ag_first_error(result, pending);
}

#define AG_EVENT_END_HOOK(name)                                                                    \
    AG_HOOK name(CUevent hEvent)                                                                   \
    {                                                                                              \
        if (ag_hooked() && ag_core_event_is_ending(hEvent))                                        \
            return CUDA_ERROR_INVALID_HANDLE;                                                      \
        if (ag_hooked() && ag_core_event_ends(hEvent))                                             \
            return CUDA_SUCCESS;                                                                   \
        return AG_CALL(name, hEvent);                                                              \
    }

AG_EVENT_END_HOOK(cuEventDestroy)
AG_EVENT_END_HOOK(cuEventDestroy_v2)

AG_HOOK cuEventQuery(CUevent hEvent)
{
    bool hooked = ag_hooked();
    CUresult known = hooked ? ag_core_event_query(hEvent) : CUDA_SUCCESS;
    if (known != CUDA_SUCCESS)
        return known;
    CUresult result = AG_CALL(cuEventQuery, hEvent);
    if (result == CUDA_ERROR_NOT_READY && hooked && ag_core_event_has_passed(hEvent))
        return CUDA_SUCCESS;
    return hooked ? ag_own_error(result) : result;
}

/* The host or streams that the call does not name (`streams`) wait for the event, or record it.
 * What is held back of the event goes first, and all that `drains` submits. */
#define AG_EVENT_BARRIER_HOOK(name, streams, drains, params, args)                                 \
    AG_HOOK name params                                                                            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked() && ag_core_event_is_ending(hEvent))                                        \
            return CUDA_ERROR_INVALID_HANDLE;                                                      \
        if (ag_hooked()) {                                                                         \
            ag_core_event_settles(hEvent);                                                         \
            pending = drains;                                                                      \
            if (streams)                                                                           \
                ag_core_events_unseen();                                                           \
        }                                                                                          \
        return ag_first_error(AG_CALL(name, AG_UNWRAP args), pending);                             \
    }

AG_EVENT_BARRIER_HOOK(cuEventSynchronize, false, ag_core_barrier(AG_SYM_cuEventSynchronize),
                      (CUevent hEvent), (hEvent))
AG_EVENT_BARRIER_HOOK(cuCtxWaitEvent, true, ag_core_barrier_for(hCtx, AG_SYM_cuCtxWaitEvent),
                      (CUcontext hCtx, CUevent hEvent), (hCtx, hEvent))
AG_EVENT_BARRIER_HOOK(cuGreenCtxWaitEvent, true, ag_core_barrier(AG_SYM_cuGreenCtxWaitEvent),
                      (CUgreenCtx hCtx, CUevent hEvent), (hCtx, hEvent))
AG_EVENT_BARRIER_HOOK(cuCtxRecordEvent, true, ag_core_barrier_for(hCtx, AG_SYM_cuCtxRecordEvent),
                      (CUcontext hCtx, CUevent hEvent), (hCtx, hEvent))
AG_EVENT_BARRIER_HOOK(cuGreenCtxRecordEvent, true, ag_core_barrier(AG_SYM_cuGreenCtxRecordEvent),
                      (CUgreenCtx hCtx, CUevent hEvent), (hCtx, hEvent))

/* Headers before CUDA 12.8 do not declare it. */
AG_HOOK cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd);

#define AG_ELAPSED_HOOK(name)                                                                      \
    AG_HOOK name(float *pMilliseconds, CUevent hStart, CUevent hEnd)                               \
    {                                                                                              \
        if (ag_hooked() && (ag_core_event_is_ending(hStart) || ag_core_event_is_ending(hEnd)))     \
            return CUDA_ERROR_INVALID_HANDLE;                                                      \
        CUresult result = AG_CALL(name, pMilliseconds, hStart, hEnd);                              \
        if (result == CUDA_SUCCESS && ag_hooked())                                                 \
            ag_core_time_asked();                                                                  \
        return result;                                                                             \
    }

AG_ELAPSED_HOOK(cuEventElapsedTime)
AG_ELAPSED_HOOK(cuEventElapsedTime_v2)

/* The stream waits for a word that the program may be about to write, or for a semaphore of another
 * API that may wait for the program. */
#define AG_WAIT_VALUE_HOOK(name, is_ptsz, type)                                                    \
    AG_WAIT_HOOK(name, is_ptsz, ag_core_wait_begins, AG_BLOCKS,                                    \
                 (CUstream stream, CUdeviceptr addr, type value, unsigned int flags),              \
                 (stream, addr, value, flags))
#define AG_BATCH_HOOK(name, is_ptsz)                                                               \
    AG_WAIT_HOOK(name, is_ptsz, ag_core_wait_begins, AG_BLOCKS,                                    \
                 (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,       \
                  unsigned int flags),                                                             \
                 (stream, count, paramArray, flags))

AG_WAIT_VALUE_HOOK(cuStreamWaitValue32, AG_LEGACY, cuuint32_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue32_ptsz, AG_PTSZ, cuuint32_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue32_v2, AG_LEGACY, cuuint32_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue32_v2_ptsz, AG_PTSZ, cuuint32_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue64, AG_LEGACY, cuuint64_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue64_ptsz, AG_PTSZ, cuuint64_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue64_v2, AG_LEGACY, cuuint64_t)
AG_WAIT_VALUE_HOOK(cuStreamWaitValue64_v2_ptsz, AG_PTSZ, cuuint64_t)
AG_BATCH_HOOK(cuStreamBatchMemOp, AG_LEGACY)
AG_BATCH_HOOK(cuStreamBatchMemOp_ptsz, AG_PTSZ)
AG_BATCH_HOOK(cuStreamBatchMemOp_v2, AG_LEGACY)
AG_BATCH_HOOK(cuStreamBatchMemOp_v2_ptsz, AG_PTSZ)
#define AG_SEMAPHORES_HOOK(name, is_ptsz)                                                          \
    AG_WAIT_HOOK(name, is_ptsz, ag_core_wait_begins, AG_BLOCKS,                                    \
                 (const CUexternalSemaphore *semaphores,                                           \
                  const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,           \
                  CUstream stream),                                                                \
                 (semaphores, params, count, stream))
AG_SEMAPHORES_HOOK(cuWaitExternalSemaphoresAsync, AG_LEGACY)
AG_SEMAPHORES_HOOK(cuWaitExternalSemaphoresAsync_ptsz, AG_PTSZ)

/* "Not ready" is a result, not an error, so a pending error is returned instead of it. */
#define AG_QUERY_HOOK(name, is_ptsz)                                                               \
    AG_HOOK name(CUstream hStream)                                                                 \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        if (ag_hooked())                                                                           \
            pending = ag_core_stream_sync_point(hStream, is_ptsz, AG_SYM_##name, false);           \
        CUresult result = AG_CALL(name, hStream);                                                  \
        if (pending == CUDA_ERROR_NOT_READY && result != CUDA_SUCCESS)                             \
            pending = CUDA_SUCCESS; /* an answer to this call, no error to keep */                 \
        if (result == CUDA_ERROR_NOT_READY && pending != CUDA_SUCCESS)                             \
            result = CUDA_SUCCESS;                                                                 \
        return ag_first_error_of(hStream, is_ptsz, result, pending);                               \
    }

AG_QUERY_HOOK(cuStreamQuery, AG_LEGACY)
AG_QUERY_HOOK(cuStreamQuery_ptsz, AG_PTSZ)

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    ag_probe_begins(); /* there may be no such stream */
    bool is = stream && AG_CALL(cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
              status != CU_STREAM_CAPTURE_STATUS_NONE;
    ag_probe_ends();
    return is;
}

/* Destroying the stream in which a capture began ends that capture. */
#define AG_DESTROY_HOOK(name)                                                                      \
    AG_HOOK name(CUstream hStream)                                                                 \
    {                                                                                              \
        if (!ag_hooked())                                                                          \
            return AG_CALL(name, hStream);                                                         \
        CUresult pending = ag_core_invalidate_stream(hStream, AG_SYM_##name);                      \
        bool capturing = is_capturing(hStream) && ag_core_capture_is_of(hStream);                  \
        CUcontext of = capturing ? ag_core_context_of(hStream, false) : NULL;                      \
        CUresult result = AG_CALL(name, hStream);                                                  \
        if (capturing && result == CUDA_SUCCESS)                                                   \
            ag_core_capture_ended(of, hStream);                                                    \
        return ag_first_error(result, pending);                                                    \
    }

AG_DESTROY_HOOK(cuStreamDestroy)
AG_DESTROY_HOOK(cuStreamDestroy_v2)

/*
 * Launches inherit their stream's attributes (access policy window, memory synchronisation domain,
 * priority), but graph nodes do not. So the library submits that stream eagerly from then on. How
 * the host waits for the stream does not matter.
 */
#define AG_SET_ATTRIBUTE_HOOK(name, is_ptsz)                                                       \
    AG_HOOK name(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)            \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        bool hooked = ag_hooked();                                                                 \
        if (hooked)                                                                                \
            pending = ag_core_stream_sync_point(hStream, is_ptsz, AG_SYM_##name, false);           \
        CUresult result = AG_CALL(name, hStream, attr, value);                                     \
        if (hooked && result == CUDA_SUCCESS &&                                                    \
            attr != CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)                                    \
            ag_core_stream_not_understood(hStream, is_ptsz, AG_SYM_##name);                        \
        return ag_first_error_of(hStream, is_ptsz, result, pending);                               \
    }

AG_SET_ATTRIBUTE_HOOK(cuStreamSetAttribute, AG_LEGACY)
AG_SET_ATTRIBUTE_HOOK(cuStreamSetAttribute_ptsz, AG_PTSZ)

/* The library does not record whether the source ever had an attribute set. */
#define AG_COPY_ATTRIBUTES_HOOK(name, is_ptsz)                                                     \
    AG_HOOK name(CUstream dst, CUstream src)                                                       \
    {                                                                                              \
        CUresult pending = CUDA_SUCCESS;                                                           \
        bool hooked = ag_hooked();                                                                 \
        if (hooked)                                                                                \
            pending = ag_core_stream_sync_point(dst, is_ptsz, AG_SYM_##name, false);               \
        CUresult result = AG_CALL(name, dst, src);                                                 \
        if (hooked && result == CUDA_SUCCESS)                                                      \
            ag_core_stream_not_understood(dst, is_ptsz, AG_SYM_##name);                            \
        return ag_first_error_of(dst, is_ptsz, result, pending);                                   \
    }

AG_COPY_ATTRIBUTES_HOOK(cuStreamCopyAttributes, AG_LEGACY)
AG_COPY_ATTRIBUTES_HOOK(cuStreamCopyAttributes_ptsz, AG_PTSZ)

/* This stream's launches run only on the multiprocessors of the green context; a graph's would
 * not. cuCtxFromGreenCtx handles streams made in a context that stands for a green one. */
AG_HOOK cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                               int priority)
{
    bool hooked = ag_hooked();
    CUresult pending = hooked ? ag_core_barrier(AG_SYM_cuGreenCtxStreamCreate) : CUDA_SUCCESS;
    CUresult result = AG_CALL(cuGreenCtxStreamCreate, phStream, greenCtx, flags, priority);
    if (hooked && result == CUDA_SUCCESS)
        ag_core_green_stream(*phStream, greenCtx, AG_SYM_cuGreenCtxStreamCreate);
    return ag_first_error(result, pending);
}
