/*
 * error_log.c - cuLogsRegisterCallback: who asked for it gets a line for each call that fails.
 *
 *     [CUDA][E][ENTRY POINT] CUDA_ERROR_...
 *
 * The time and the thread, which the real driver puts first, are left out: two runs compare. "Not
 * ready" is an answer and no failure. The callback runs in the calling thread, under no lock.
 */
#include "sim.h"
#include <stdio.h>
#include <string.h>

struct CUlogsCallbackEntry_st {
    CUlogsCallback fn;
    void *data;
};
static struct CUlogsCallbackEntry_st entries[8]; /* fn NULL: free */
enum { ENTRIES = sizeof entries / sizeof *entries };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_error_log(enum sim_symbol symbol, CUresult result)
{
    static _Thread_local bool telling; /* what a callback calls is not told */
    struct CUlogsCallbackEntry_st now[ENTRIES];
    char line[256];
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY || telling)
        return;
    const char *name = sim_error_name(result);
    snprintf(line, sizeof line, "[CUDA][E][%s] %s", sim_symbol_table[symbol].base,
             name ? name : "unknown error");
    pthread_mutex_lock(&lock);
    memcpy(now, entries, sizeof now);
    pthread_mutex_unlock(&lock);
    telling = true;
    for (int i = 0; i < ENTRIES; i++)
        if (now[i].fn)
            now[i].fn(now[i].data, CU_LOG_LEVEL_ERROR, line, strlen(line));
    telling = false;
}

SIM_API(cuLogsRegisterCallback, (CUlogsCallback fn, void *data, CUlogsCallbackHandle *out),
        (fn, data, out))
{
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ENTRIES && r != CUDA_SUCCESS; i++)
        if (!entries[i].fn) {
            entries[i].fn = fn;
            entries[i].data = data;
            if (out)
                *out = &entries[i];
            atomic_fetch_or(&sim_attention, SIM_ATTEND_ERRORS);
            r = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

SIM_API(cuLogsUnregisterCallback, (CUlogsCallbackHandle handle), (handle))
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ENTRIES; i++)
        if (handle == &entries[i] && entries[i].fn) {
            entries[i].fn = NULL;
            r = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return r;
}
