/*
 * fake_libcuda.c - a libcuda.so.1 that does nothing but remember how it was called.
 *
 * It exports every symbol of the table, and some of "a newer driver". Each takes twelve integers,
 * so that arguments on the stack are seen too, and answers 0. What the tests need to steer is at
 * the end. It includes no CUDA header: it must not agree with the library by sharing its mistakes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_libcuda.h"

#define EXPORT __attribute__((visibility("default")))
#define PARAMS                                                                                     \
    uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,     \
        uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11
#define ARGS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11

static struct fake_call last;
static int next_result;

static int record(const char *name, PARAMS)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const uint64_t args[] = {ARGS};
    pthread_mutex_lock(&lock);
    int result = next_result;
    last.name = name;
    memcpy(last.args, args, sizeof(args));
    last.calls += strncmp(name, "cuGetProcAddress", 16) != 0; /* asked at the start too */
    next_result = 0;
    pthread_mutex_unlock(&lock);
    return result;
}

#define FAKE_SYMBOL(name)                                                                          \
    EXPORT int name(PARAMS);                                                                       \
    EXPORT int name(PARAMS)                                                                        \
    {                                                                                              \
        return record(#name, ARGS);                                                                \
    }
/* Written by CMake: FAKE_SYMBOL(x) for every symbol of the table that is not below, and the new
 * ones. */
#include "fake_symbols.h"
#undef FAKE_SYMBOL

static int capture_status[2];
static int captures_asked;

int cuDriverGetVersion(int *version);
EXPORT int cuDriverGetVersion(int *version)
{
    const char *asked = getenv("FAKE_VERSION");
    *version = asked ? atoi(asked) : 13000;
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status);
EXPORT int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = capture_status[captures_asked++ > 0];
    return 0;
}

int cuCtxGetLimit(size_t *value, int limit);
EXPORT int cuCtxGetLimit(size_t *value, int limit)
{
    *value = (size_t)limit * 100;
    return 0;
}

/* Whether the driver is initialised, as the library asks: not a call of the program's. */
int cuCtxGetCurrent(void **context);
EXPORT int cuCtxGetCurrent(void **context)
{
    const char *fresh = getenv("FAKE_UNINITIALISED");
    *context = NULL;
    return fresh ? 3 : 0;
}

/* Floating point arguments: what a stub must keep as well. */
int cuTexRefSetMipmapLevelBias(void *texref, float bias);
EXPORT int cuTexRefSetMipmapLevelBias(void *texref, float bias)
{
    record("cuTexRefSetMipmapLevelBias", (uint64_t)texref, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    last.floating = bias;
    return 0;
}

int cuGetExportTable(const void **table, const unsigned char *id); /* fake_tables.c */
int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

static const struct {
    const char *name;
    void *address;
} symbols[] = {
#define FAKE_SYMBOL(name) {#name, (void *)name},
#include "fake_symbols.h"
#undef FAKE_SYMBOL
    {"cuDriverGetVersion", (void *)cuDriverGetVersion},
    {"cuStreamIsCapturing", (void *)cuStreamIsCapturing},
    {"cuCtxGetLimit", (void *)cuCtxGetLimit},
    {"cuCtxGetCurrent", (void *)cuCtxGetCurrent},
    {"cuTexRefSetMipmapLevelBias", (void *)cuTexRefSetMipmapLevelBias},
    {"cuGetExportTable", (void *)cuGetExportTable},
    {"cuGetProcAddress", (void *)cuGetProcAddress},
    {"cuGetProcAddress_v2", (void *)cuGetProcAddress_v2},
};

EXPORT void *fake_address(const char *name)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].address;
    return NULL;
}

/* The newest variant that exists, with the suffix of the per-thread stream where flag 2 asks for
 * it. */
static void *choose(const char *symbol, int version, uint64_t flags)
{
    static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
    char name[128];
    if (strcmp(symbol, "cuGetProcAddress") == 0)
        return version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    for (int threaded = flags == 2; threaded >= 0; threaded--)
        for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
            strcpy(name, symbol);
            strcat(name, suffixes[i]);
            strcat(name, threaded ? "_ptsz" : "");
            if (fake_address(name))
                return fake_address(name);
        }
    return NULL;
}

EXPORT int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags,
                               int *status)
{
    static int cookie;
    const char *outside = getenv("FAKE_OUTSIDE");
    record("cuGetProcAddress_v2", (uint64_t)symbol, (uint64_t)pfn, (uint64_t)version, flags,
           (uint64_t)status, 0, 0, 0, 0, 0, 0, 0);
    if (!symbol || !pfn)
        return 1;
    *pfn = symbol[0] ? choose(symbol, version, flags) : &cookie;
    if (outside && strcmp(outside, symbol) == 0)
        *pfn = (void *)getenv;
    if (status)
        *status = *pfn ? 0 : 1;
    return *pfn ? 0 : 500;
}

EXPORT int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}

EXPORT struct fake_call *fake_last(void)
{
    return &last;
}

EXPORT void fake_next_result(int result)
{
    next_result = result;
}

EXPORT void fake_capturing(int before, int after)
{
    capture_status[0] = before;
    capture_status[1] = after;
    captures_asked = 0;
}

/* The driver looks up symbols of its own. */
EXPORT void *fake_dlsym(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    __asm__ volatile("" ::: "memory"); /* no tail call: the return address must lie in here */
    return found;
}

#ifdef AG_FAKE_CHOSEN
/* An entry point that the loader chooses when it binds a name to it. */
static int chosen(void)
{
    return 0;
}

static __attribute__((no_sanitize_address, no_sanitize_thread)) int (*choose_when_bound(void))(void)
{
    return chosen;
}

__attribute__((visibility("default"), ifunc("choose_when_bound"))) int cuFakeChosen(void);
#endif
