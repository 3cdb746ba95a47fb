/*
 * hooks_log.c - who is told of failed calls is not told of the library's own.
 *
 * The program's callback goes inside one of ours. What that needs stays for good: nobody says
 * whether a callback may still be running when it has been unregistered.
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
