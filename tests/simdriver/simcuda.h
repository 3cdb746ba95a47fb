/*
 * simcuda.h - what the simulated driver offers beyond the driver API, for tests.
 *
 * The simulated driver is a libcuda.so.1 that executes work on the CPU. Programs reach it the way
 * they reach the real one (plain binding, dlopen + dlsym, cuGetProcAddress). The extras below are
 * exported functions as well; a program that must also run on a real driver finds them by dlsym.
 *
 * Module images: a text that starts with SIMCUDA_IMAGE_MAGIC, then one line each:
 *     kernel NAME            makes a registered or built-in kernel visible in the module
 *     global NAME BYTES      a module-level variable
 * An image without a `kernel` line shows every kernel that is registered when it is looked up.
 * PTX text is accepted too: its .entry names are bound to the kernels registered by that name.
 * So is nvcc's fatbin, where SIMCUDA_FATBINS says so; what it holds is not looked at.
 *
 * Environment, read once:
 *     SIMCUDA_MODE      async (default: a worker thread per stream), inline (work that is ready and
 *                       cannot block runs in the submitting call), null (work is dropped: only the
 *                       cost of a call is left)
 *     SIMCUDA_PACE      LAUNCH:GRAPH:UPDATE:KERNEL, for SIMCUDA_MODE=null: nanoseconds of a launch,
 *                       a launch of a graph, an update of a node, and a kernel on the GPU, one
 *                       after another in each stream. cuStreamSynchronize waits for it
 *     SIMCUDA_DEVICES   number of devices, default 2; 0 makes cuInit answer CUDA_ERROR_NO_DEVICE
 *     SIMCUDA_MEMORY_MB memory of a device, default 16384; little is best for checkers with shadows
 *     SIMCUDA_NODE_BYTES  device memory that a node of an executable graph takes until the graph is
 *                       destroyed, default 0; the real driver takes some 2800
 *     SIMCUDA_VERSION   driver version, default 13000; the getter hides what is newer. 13030 and
 *                       later also have what newer.h declares
 *     SIMCUDA_FATBINS   1 accepts fatbins, and so lets the library load its own kernels
 *     SIMCUDA_FAIL      "name:n=code,..." fails the n-th call of an entry point; n-m: from the n-th
 *                       to the m-th; *: every one
 *     SIMCUDA_LOG       file for the log of calls and executed work, written at exit; %p is the pid
 *     SIMCUDA_TRACE     1 keeps the log in memory without writing a file
 *     SIMCUDA_LEAKS     1 reports on stderr at exit what is still alive, by kind
 *     SIMCUDA_SLOW_US   microseconds that a call takes which works with an event or an executable
 *                       graph, so that what destroys those meanwhile shows; that one takes which
 *                       destroys either; and one which ends a context, behind the end of its
 *                       handles
 *     SIMCUDA_LATE      "name:us" makes a thread whose name begins so wait up to so many
 *                       microseconds, at random, before what its calls do and behind that
 *     SIMCUDA_WAITS     1 makes loading a module and making or destroying an executable graph wait
 *                       for all work of the context, and whoever submits work wait for that: what
 *                       the real driver does now and then, or may, here always. More than 1: making
 *                       an executable graph does, while so many are alive in the context. The real
 *                       driver has room for 33
 *     SIMCUDA_GRAPHS    last: of the nodes of a graph that could run next, the one added last does,
 *                       so that a missing edge shows. Default: the first
 *     SIMCUDA_QUEUE     unfinished items that a stream takes: a call with one more waits, under no
 *                       lock, until one has finished. Default: no limit
 *     SIMCUDA_TABLES    extra export tables to answer, which do not begin with their size: UUIDs
 *                       (hex, with or without '-', commas)
 *     SIMCUDA_HANDLES   unique (default: a destroyed handle's address is never given out again, so
 *                       a later use is reported) or reuse (addresses come back at once, as on the
 *                       real driver)
 *     CUDA_LAUNCH_BLOCKING  1: as on the real driver, a launch of a kernel or a graph returns when
 *                       that work has finished, with the error that it ended in
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMCUDA_IMAGE_MAGIC "SIMCUDA\n"

/* One launch as a kernel sees it. `params[i]` points at the copied bytes of parameter i. A kernel
 * does the work of the whole grid. */
struct cuSimLaunch {
    const char *name;
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared_bytes;
    void *const *params;
};
typedef void (*cuSimKernelFn)(const struct cuSimLaunch *launch);

/* The kernel may wait for the host or another stream: inline mode gives it to a worker. */
#define CUSIM_MAY_BLOCK 1u

/* Register a kernel under a name; a later registration of a name replaces the earlier one for
 * modules loaded from then on. `offsets` NULL: natural alignment of each size (at most 8). */
int cuSimRegisterKernel(const char *name, cuSimKernelFn fn, unsigned int nparams,
                        const size_t *offsets, const size_t *sizes, unsigned int flags);

/* For kernels: whether [addr, addr + bytes) is memory a kernel may touch now. If it is not, says so
 * on stderr, raises CUDA_ERROR_ILLEGAL_ADDRESS on the context and returns 0. */
int cuSimCheck(const void *addr, size_t bytes);
/* For kernels: raise a sticky error on the context of the running launch. */
void cuSimRaise(int error);

/* A buffer of a graphics API, registered: `*out` is a CUgraphicsResource. Each time it is unmapped,
 * the stream that it was given back on calls `render`, which stands for what that API does with it.
 * Returns 0, or -1. */
typedef void (*cuSimRenderFn)(void *data, size_t bytes, void *user);
int cuSimGraphicsRegister(void **out, size_t bytes, cuSimRenderFn render, void *user);

/* Fail the n-th call from now (1 is the next; 0 is every call) of an exported symbol. error 0
 * disarms. Returns 0, or -1 where the symbol is not known. */
int cuSimFail(const char *symbol, uint64_t nth, int error);
/* From here on, this thread's calls do not fail by SIMCUDA_FAIL or cuSimFail, though they count
 * (1); they do again (0). So a test can fail the calls of a library under it, and not its own. */
void cuSimSpare(int on);
/* From here on the calls of a thread whose name begins with `thread` are stuck, from the `nth` on
 * (1 is the next): they wait before what they do, or behind it, until another call of this
 * function; NULL holds none. `symbol`: only calls of that one are stuck, and count; NULL: of any
 * but cuThreadExchangeStreamCaptureMode. Returns 0, or -1 where the symbol is not known. */
int cuSimHold(const char *thread, const char *symbol, unsigned int nth, int behind);
/* Calls that are held now. */
unsigned int cuSimHeld(void);
/* Calls of an exported symbol since the start (faults included). */
uint64_t cuSimCallCount(const char *symbol);
/* Calls that found a symbol that is not simulated (CUDA_ERROR_NOT_SUPPORTED). */
uint64_t cuSimUnsupportedCount(void);
/* Misuse seen: destroyed handles used, freed memory touched. Each is also told on stderr. */
uint64_t cuSimMisuseCount(void);

/* The log. Executed work and calls have one global order. Text, one line an entry:
 *     ORDER call THREAD NAME RESULT
 *     ORDER exec STREAM KIND DETAILS          (what ran on a stream, eagerly or inside a graph)
 * Streams have small numbers: 1 is the first context's legacy stream, the others follow in creation
 * order. cuSimLogText returns a malloc'd string with the lines whose second word is `kind` ("call",
 * "exec", or NULL for both); `stream` 0 means all. With `order` 0 the ORDER column is left out, so
 * that two runs can be compared. */
void cuSimLogStart(void);
void cuSimLogStop(void);
void cuSimLogClear(void);
char *cuSimLogText(const char *kind, uint64_t stream, int order);
/* Number of executed work items of a kind ("kernel", "copy", "memset", "host"), graph nodes
 * included. */
uint64_t cuSimExecuted(const char *kind);

/* What cuGetExportTable answers for these two ids: a table as libraries ask for, and one with an
 * entry that is not the driver's. */
#define SIMCUDA_TABLE         "51a7ab1e000000000000000000000001"
#define SIMCUDA_TABLE_OUTSIDE "51a7ab1e000000000000000000000002"
struct cuSimTable {
    size_t bytes;
    int (*do_nothing)(void);
    void *none; /* an entry that is NULL */
    /* A block of a thread. */
    int (*launch)(void *function, void *stream, void **params);
    /* What is there once the stream has done what was submitted to it. */
    int (*read_word)(void *stream, unsigned long long address, uint64_t *value);
    int (*free_memory)(unsigned long long address);
};

/* Live objects of a kind: "context", "module", "library", "stream", "event", "graph", "exec",
 * "allocation". */
int64_t cuSimAlive(const char *kind);

#ifdef __cplusplus
}
#endif
