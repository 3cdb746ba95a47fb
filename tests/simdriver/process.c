/* process.c - start, settings, fork, exit, and the way into every entry point. */
#include "sim.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sim_settings sim_settings = {
    .mode = SIM_ASYNC, .version = 13000, .devices = 2, .memory = (size_t)16 << 30};
pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic unsigned int sim_attention = SIM_ATTEND_UNINITIALISED;
_Atomic uint64_t sim_calls[SIM_SYMBOL_COUNT];

static _Atomic uint64_t misuses;
static _Atomic uint64_t unsupported;
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

uint64_t sim_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void sim_look_later(unsigned int n)
{
    static const struct timespec rest = {.tv_nsec = 20000};
    if (n < 64)
        sched_yield();
    else
        nanosleep(&rest, NULL);
}

void sim_misuse(const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    atomic_fetch_add(&misuses, 1);
    fprintf(stderr, "simcuda: misuse: %s\n", text);
}

SIM_EXPORT uint64_t cuSimMisuseCount(void)
{
    return atomic_load(&misuses);
}

SIM_EXPORT uint64_t cuSimUnsupportedCount(void)
{
    return atomic_load(&unsupported);
}

SIM_EXPORT uint64_t cuSimCallCount(const char *symbol)
{
    int i = sim_symbol_find(symbol);
    return i < 0 ? 0 : atomic_load(&sim_calls[i]);
}

static void after_fork_in_child(void)
{
    /* As on the real driver: a child of a process that has initialised CUDA cannot use it. */
    if (!(atomic_load(&sim_attention) & SIM_ATTEND_UNINITIALISED))
        atomic_store(&sim_attention, SIM_ATTEND_FORKED);
}

static void report_leaks(void)
{
    static const char *const kinds[] = {"context", "module", "library", "stream",
                                        "event",   "graph",  "exec",    "allocation"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int64_t n = cuSimAlive(kinds[i]);
        if (n > 0)
            fprintf(stderr, "simcuda: alive at exit: %lld %s\n", (long long)n, kinds[i]);
    }
}

static void at_exit(void)
{
    if (atomic_load(&sim_attention) & SIM_ATTEND_FORKED)
        return;
    if (sim_settings.log_path)
        sim_log_write_file();
    if (sim_settings.report_leaks)
        report_leaks();
}

static void start(void)
{
    const char *mode = getenv("SIMCUDA_MODE");
    if (mode && !strcmp(mode, "inline"))
        sim_settings.mode = SIM_INLINE;
    else if (mode && !strcmp(mode, "null"))
        sim_settings.mode = SIM_NULL;
    else if (mode && *mode && strcmp(mode, "async"))
        fprintf(stderr, "simcuda: SIMCUDA_MODE=%s is not async, inline or null; async is used\n",
                mode);
    const char *pace = getenv("SIMCUDA_PACE");
    if (pace && (sim_settings.mode != SIM_NULL || !sim_pace_parse(pace)))
        fprintf(stderr, "simcuda: SIMCUDA_PACE=%s is not four numbers, or not for this mode\n",
                pace);
    const char *version = getenv("SIMCUDA_VERSION");
    if (version && atoi(version) > 0)
        sim_settings.version = atoi(version);
    const char *devices = getenv("SIMCUDA_DEVICES");
    if (devices && *devices >= '0' && atoi(devices) <= 16)
        sim_settings.devices = atoi(devices);
    const char *memory = getenv("SIMCUDA_MEMORY_MB");
    if (memory && atoi(memory) > 0)
        sim_settings.memory = (size_t)atoi(memory) << 20;
    const char *node = getenv("SIMCUDA_NODE_BYTES");
    const char *graphs = getenv("SIMCUDA_GRAPHS");
    sim_settings.graphs_last_first = graphs && !strcmp(graphs, "last");
    sim_settings.node_bytes = node && atoi(node) > 0 ? (size_t)atoi(node) : 0;
    const char *handles = getenv("SIMCUDA_HANDLES");
    sim_settings.reuse_handles = handles && !strcmp(handles, "reuse");
    sim_settings.report_leaks = getenv("SIMCUDA_LEAKS") && atoi(getenv("SIMCUDA_LEAKS"));
    const char *slow = getenv("SIMCUDA_SLOW_US");
    sim_settings.slow_us = slow && atoi(slow) > 0 ? (unsigned int)atoi(slow) : 0;
    sim_settings.fatbins = getenv("SIMCUDA_FATBINS") && atoi(getenv("SIMCUDA_FATBINS"));
    const char *waits = getenv("SIMCUDA_WAITS");
    sim_settings.waits = waits && atoi(waits) > 0 ? (unsigned int)atoi(waits) : 0;
    sim_settings.blocking = getenv("CUDA_LAUNCH_BLOCKING") && atoi(getenv("CUDA_LAUNCH_BLOCKING"));
    const char *queue = getenv("SIMCUDA_QUEUE");
    sim_settings.queue = queue && atoi(queue) > 0 ? (uint64_t)atoi(queue) : 0;
    sim_settings.log_path = getenv("SIMCUDA_LOG");
    sim_settings.tables = getenv("SIMCUDA_TABLES");
    if (sim_settings.log_path || (getenv("SIMCUDA_TRACE") && atoi(getenv("SIMCUDA_TRACE"))))
        cuSimLogStart();
    sim_fault_read_environment();
    sim_late_read_environment();
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

__attribute__((constructor)) static void on_load(void)
{
    pthread_once(&start_once, start);
}

/* A destructor and not atexit: it runs after every handler that the program or a preloaded library
 * registered, whose last calls belong in the log. */
__attribute__((destructor)) static void on_unload(void)
{
    at_exit();
}

static bool works_uninitialised(enum sim_symbol symbol)
{
    switch (symbol) {
    case SIM_cuInit:
    case SIM_cuDriverGetVersion:
    case SIM_cuGetProcAddress:
    case SIM_cuGetProcAddress_v2:
    case SIM_cuGetErrorName:
    case SIM_cuGetErrorString:
    case SIM_cuGetExportTable:
    case SIM_cuThreadExchangeStreamCaptureMode:
    case SIM_cuLogsRegisterCallback:
    case SIM_cuLogsUnregisterCallback:
        return true;
    default:
        return false;
    }
}

CUresult sim_enter_slow(enum sim_symbol symbol)
{
    unsigned int why = atomic_load(&sim_attention);
    if (why & SIM_ATTEND_LATE)
        sim_late(symbol, false);
    if (why & SIM_ATTEND_LOCKED)
        sim_checkpoint_wait(symbol);
    if (why & SIM_ATTEND_FORKED) {
        if (symbol == SIM_cuDriverGetVersion || symbol == SIM_cuGetErrorName ||
            symbol == SIM_cuGetErrorString || symbol == SIM_cuGetProcAddress ||
            symbol == SIM_cuGetProcAddress_v2)
            return CUDA_SUCCESS;
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (why & SIM_ATTEND_FAULTS) {
        CUresult error = sim_fault(symbol);
        if (error != CUDA_SUCCESS)
            return error;
    }
    if ((why & SIM_ATTEND_UNINITIALISED) && !works_uninitialised(symbol))
        return CUDA_ERROR_NOT_INITIALIZED;
    return CUDA_SUCCESS;
}

CUresult sim_leave_slow(enum sim_symbol symbol, CUresult result)
{
    unsigned int why = atomic_load(&sim_attention);
    if (why & SIM_ATTEND_LOG)
        sim_log_call(symbol, result);
    if (why & SIM_ATTEND_ERRORS)
        sim_error_log(symbol, result);
    if (why & SIM_ATTEND_LATE)
        sim_late(symbol, true);
    return result;
}

int sim_unsupported(enum sim_symbol symbol)
{
    CUresult result = sim_enter(symbol);
    if (result == CUDA_SUCCESS) {
        atomic_fetch_add(&unsupported, 1);
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    return sim_leave(symbol, result);
}

SIM_API(cuInit, (unsigned int flags), (flags))
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    sim_code_builtin();
    atomic_fetch_and(&sim_attention, ~(unsigned int)SIM_ATTEND_UNINITIALISED);
    return CUDA_SUCCESS;
}

SIM_API(cuDriverGetVersion, (int *version), (version))
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim_settings.version;
    return CUDA_SUCCESS;
}
