/*
 * capture.h - the narrow interface of capture/: everything that preload/ may call.
 *
 * preload/ decides *that* a driver call came in and which one; capture/ decides what it means.
 * Every function here may be called from any thread, takes no lock on entry that is held across a
 * real driver call of another stream, and never calls a hooked entry point.
 *
 * Stream handles: `stream` is what the program passed. `ptsz` tells whether the entry point was a
 * _ptsz/_ptds variant: there NULL names the per-thread default stream, elsewhere the legacy one
 * (cuda.h, "Stream synchronization behavior").
 *
 * Return values are CUresult. A CUDA_SUCCESS from a sync point function means "go on with the real
 * call"; anything else is an error that the driver gave earlier for work that was deferred, which
 * the caller returns if the real call itself succeeds.
 */
#ifndef AG_CAPTURE_H
#define AG_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "driver/call.h"
#include "driver/entries.h" /* cuda.h with internal names, enum ag_sym, AG_REAL() */

/*
 * Number of streams that have seen an op since their last sync point. While it is 0 a barrier has
 * nothing to do: the assembly stubs compare it and tail-jump to the driver.
 */
extern _Atomic uint32_t ag_open_streams;

/*
 * Called once in a process, when the driver has been initialised, before any other call of here but
 * ag_core_observe_only(), the sync points and ag_core_finish(), which do nothing until then.
 * `observe_only` is set where the driver is not one that replay is known to be safe on (older than
 * 12.4, or its getter's answers are not its exports).
 */
void ag_core_start(bool observe_only, const char *why);

/* Behind it, without any lock: what may load a library. */
void ag_core_started(void);

/* One reason more to replay nothing from now on (an export table nobody knows, CUPTI attached,
 * ...). Flushes everything. Idempotent per reason; said once in the log, counted in the report. */
void ag_core_observe_only(const char *why);

/* ---- ops: recordable stream operations -------------------------------------------------- */

/* These make the call themselves, eagerly or as part of a graph. */
CUresult ag_core_launch(const struct ag_launch *launch);

CUresult ag_core_memset(const struct ag_memset *fill);

CUresult ag_core_copy(const struct ag_copy *copy);

/* ---- sync points ------------------------------------------------------------------------- */

/* A call on one stream that is not an op (event record, host copy, callback, sync of a stream ...).
 * Submits what that stream has deferred, and what must be ordered before it on other streams
 * (legacy stream). `blocks` tells that the calling thread will wait for the GPU in the call, so
 * that everything this thread has deferred on any stream is submitted too. */
CUresult ag_core_stream_sync_point(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks);

/* The program has been told the time between two events: it measures, see measure.c. */
void ag_core_time_asked(void);

/* A call that may observe or change anything: submits what every stream has deferred. */
CUresult ag_core_barrier(enum ag_sym sym);

/* The C side of the assembly barrier stubs and of anything that cannot return an error. An error
 * met stays pending for the next call that may return it. */
void ag_core_barrier_quiet(enum ag_sym sym);
void ag_core_stream_sync_point_quiet(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks);

/* ---- calls that invalidate something (class TRACK). Each flushes what it must by itself - */

/* Before cuModuleUnload (a CUmodule) and cuLibraryUnload (a CUlibrary). */
void ag_core_invalidate_module(void *module, enum ag_sym sym);
/* Before whatever may change what any launch means (cuCtxSetLimit and the like). */
void ag_core_invalidate_functions(enum ag_sym sym);
/* Around cuCtxDestroy and cuCtxDetach. What the first gives, NULL where nothing is known of the
 * context, is for the second, which must follow; `ended`: the real call was successful. */
struct ag_context;
struct ag_context *ag_core_context_may_end(CUcontext ctx, enum ag_sym sym);
void ag_core_context_ended(struct ag_context *context, bool ended);
/* Around cuDevicePrimaryCtxRetain, Release and Reset: `begins` first, then for Release and Reset
 * what gives the context, the real call, and what `locked` and the context are for. */
bool ag_core_primary_begins(CUdevice device);
void ag_core_primary_retained(CUdevice device, bool locked, bool success);
struct ag_context *ag_core_primary_releases(CUdevice device, bool locked, enum ag_sym sym);
void ag_core_primary_released(struct ag_context *context, CUdevice device, bool locked,
                              bool success);
struct ag_context *ag_core_primary_resets(CUdevice device, enum ag_sym sym);
void ag_core_primary_reset(struct ag_context *context, CUdevice device, bool locked, bool success);
/* A stream of a green context has been made, and before such a context is destroyed. */
void ag_core_green_stream(CUstream stream, CUgreenCtx green, enum ag_sym sym);
void ag_core_green_context_ended(CUgreenCtx green);
/* Before cuStreamDestroy. */
CUresult ag_core_invalidate_stream(CUstream stream, enum ag_sym sym);
/* Around a call after which the stream waits for something that the program may do only later, as
 * cuStreamWaitValue32: nothing is built until it has passed. `waits`: the call was successful. The
 * second only where the first gave true. */
bool ag_core_wait_begins(CUstream stream, bool ptsz);
/* The first of them for a launch of a graph of the program's, true only once one may wait. */
bool ag_core_graph_wait_begins(CUstream stream, bool ptsz);
void ag_core_graphs_wait(void); /* a node was made that waits */
void ag_core_wait_ends(CUstream stream, bool ptsz, bool waits);
/* The same around cuLaunchHostFunc (`function`) and cuStreamAddCallback (`callback`): nothing is
 * built until what was launched has returned. NULL: it is launched as it is, and that is all. Else
 * one of the two functions below is launched with what is returned as its data, and that is told
 * the second where the real call failed. */
struct ag_host_call *ag_core_host_begins(CUstream stream, bool ptsz, CUhostFn function,
                                         CUstreamCallback callback, void *data);
void ag_core_host_ends(struct ag_host_call *not_launched);
void CUDA_CB ag_core_host_function(void *data);
void CUDA_CB ag_core_host_callback(CUstream stream, CUresult status, void *data);
/* After a call that gives the launches of one stream a property that graphs would not have
 * (attributes of the stream, a green context): nothing of that stream is deferred any more. */
void ag_core_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym);
/* Before and after cuFuncSetAttribute, cuKernelSetAttribute, cuFuncSetCacheConfig,
 * cuFuncSetSharedMemConfig, cuKernelSetCacheConfig: `attribute` and `value` as given (cache and
 * shared-memory configs pass -1 and -2 as attribute). `device` is what cuKernel* were given; a
 * CUfunction's is not asked. Setting the value that was set last flushes nothing. What the first
 * returned is given to the second, with what the real call returned; where graphs change, nothing
 * is built between. */
enum ag_change ag_core_function_changes(CUfunction func, int attribute, int value, int device,
                                        enum ag_sym sym);
void ag_core_function_changed(CUfunction func, int attribute, int value, int device,
                              enum ag_change change, CUresult result);

/* Before memory that ops may name goes or changes its kind: cuMemFree, cuMemUnmap, cuMemPoolTrimTo
 * and the like, whether or not anything is open. */
void ag_core_invalidate_memory(void);

/* Before a function of the driver is called that nobody knows, of an export table; `first`: it
 * never was before. */
void ag_core_table_call(bool first);

/* After the program has found a kernel of this name, or kernels whose names are to be asked for. */
void ag_core_kernel_found(const char *name);
void ag_core_kernels_found(const CUkernel *kernels, unsigned int n);
void ag_core_functions_found(const CUfunction *functions, unsigned int n);

/* After a call of the program's that has failed for lack of device memory, without any lock: gives
 * all graphs back. True: the call is to be made once more, with the same arguments. */
bool ag_core_gives_memory(void);

/* A real call has returned this error. Where it is one that ends the context (cuda.h: "the process
 * must be terminated and relaunched", "leaves the process in an inconsistent state"), nothing is
 * deferred any more, so that every later call answers as it would have. Any value may be passed. */
void ag_core_driver_error(CUresult error);

/* ---- the program's own captures (class CAPTURE) ----------------------------------------- */

/* Before cuStreamBeginCapture*: flushes everything; while any capture is active nothing is deferred
 * or built. `began` afterwards tells whether the real call succeeded. */
void ag_core_capture_begins(CUstream stream, bool ptsz, enum ag_sym sym);
void ag_core_capture_began(bool succeeded);
/* After a cuStreamEndCapture that ended a capture (whether it returned a graph or an error). */
void ag_core_capture_ended(void);
/* How many of the streams that are known capture: the driver is asked. */
uint32_t ag_core_streams_capturing(void);

/* ---- process ---------------------------------------------------------------------------- */

/* In the child of fork, where its parent had started: pass everything through from now on, take no
 * lock, forget all state. */
void ag_core_after_fork_in_child(void);
/* Whether hooks do anything at all; false in a fork's child and with AUTOGRAPH=0. */
bool ag_core_active(void);
/* At exit, from a place where the driver still works: flush, stop threads, print the summary. */
void ag_core_finish(void);

#endif
