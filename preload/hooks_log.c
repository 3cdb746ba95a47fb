/*
 * hooks_log.c - hides failed calls of the library from a callback that the program has
 * registered for failed calls.
 *
 * The library wraps the program's callback in one of its own. It never frees what the wrapper
 * needs, because nobody can know whether an unregistered callback is still running.
 */
#include <stdlib.h>

#include "driver/own.h"
#include "preload/hook.h"

struct listener {
    CUlogsCallback callback;
    void *data;
};

static void CUDA_CB tell(void *data, CUlogLevel level, char *message, size_t length)
{
    const struct listener *listener = data;
    if (!ag_probes)
        listener->callback(listener->data, level, message, length);
}

AG_HOOK cuLogsRegisterCallback(CUlogsCallback callback, void *data, CUlogsCallbackHandle *handle);

AG_HOOK cuLogsRegisterCallback(CUlogsCallback callback, void *data, CUlogsCallbackHandle *handle)
{
    struct listener *listener = callback ? malloc(sizeof(*listener)) : NULL;
    if (!listener)
        return AG_CALL(cuLogsRegisterCallback, callback, data, handle);
    *listener = (struct listener){callback, data};
    CUresult result = AG_CALL(cuLogsRegisterCallback, tell, listener, handle);
    if (result != CUDA_SUCCESS)
        free(listener);
    return result;
}
