/*
 * capture.h - the narrow interface of capture/: everything that preload/ may call. docs/glossary.md
 * explains the words.
 *
 * preload/ notices *that* the program made a driver call, and which one. capture/ decides what the
 * call means. Any thread may call any function here. A function takes no lock on entry that is held
 * across a real driver call of another stream. No function here calls a hooked entry point.
 *
 * Stream handles: `stream` is the handle that the program passed. `ptsz` is true if the program
 * called a _ptsz/_ptds variant. There NULL names the per-thread default stream; elsewhere it names
 * the legacy default stream (cuda.h, "Stream synchronization behavior").
 *
 * Return values are CUresult. If a sync point function returns CUDA_SUCCESS, make the real call and
 * return its result. Any other value is an error that the driver gave earlier, for work that was
 * deferred. Make the real call, and return that error if the call itself succeeds.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "capture/system/current.h"
#include "driver/call.h"
#include "driver/entries.h" /* cuda.h with internal names, enum ag_sym, AG_REAL() */

/*
 * Number of streams that have seen an op since their last sync point. While it is 0 a barrier has
 * nothing to do: the assembly stubs compare it with 0 and tail-jump to the driver.
 */
extern _Atomic uint32_t ag_open_streams;

/*
 * Starts the library. Call it once in a process, after the driver has been initialised. Until then,
 * call only ag_core_observe_only(), the sync points and ag_core_finish(); sync points and
 * ag_core_finish() do nothing that early. Set `observe_only` if replay is not known to be safe on
 * this driver: it is older than 12.4, or its getter's answers differ from its exports.
 */
void ag_core_start(bool observe_only, const char *why);
/* Before ag_core_start(), of a process that starts only to end: its dump replaces nobody's. */
void ag_core_launched_nothing(void);

/* Does the part of the start that may load a library. Call it after ag_core_start(), without any
 * lock. */
void ag_core_started(void);

/* Gives one more reason to replay nothing from now on (an unknown export table, CUPTI attached,
 * ...), and flushes everything. Giving the same reason again has no effect. The log says it once,
 * and the report counts it. */
void ag_core_observe_only(const char *why);

/* ---- ops: recordable stream operations -------------------------------------------------- */

/* These functions make the program's call themselves, eagerly or as part of a graph. */
CUresult ag_core_launch(const struct ag_launch *launch);

CUresult ag_core_memset(const struct ag_memset *fill);

CUresult ag_core_copy(const struct ag_copy *copy);

/* cuMemcpyDtoH_v2 (`sync`) and cuMemcpyDtoHAsync_v2. True: the copy has been made, with that
 * result. False: it is no op. The caller makes the call, behind a sync point. */
bool ag_core_read_back(const struct ag_copy *copy, bool sync, CUresult *result);

/* ---- sync points ------------------------------------------------------------------------- */

/* Handles a call on one stream that is not an op (event record, host copy, callback, sync of a
 * stream ...). Submits what that stream has deferred, and what other streams must submit before it
 * (legacy stream). `blocks`: the calling thread will wait for the GPU in this call, so the function
 * also submits everything that this thread has deferred on any stream. */
CUresult ag_core_stream_sync_point(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks);

/* Call the second behind each call for which a sync point was made, as that may have waited for the
 * GPU. */
__attribute__((cold)) void ag_core_returned(void);
static inline void ag_returned(void)
{
    if (__builtin_expect(ag_thread.waits, 0))
        ag_core_returned();
}

/* Makes the program's cuEventRecord, cuEventRecordWithFlags or cuStreamWaitEvent: a sync point, or
 * an op of streams that fork and join (tracking/fork.h). */
CUresult ag_core_event_call(const struct ag_event_call *call);
/* Call the first behind cuEventCreate, the second before cuEventDestroy, the third before
 * cuEventSynchronize. */
void ag_core_event_made(CUevent event, unsigned int flags);
bool ag_core_event_ends(CUevent event); /* true: the library destroys it, later */
/* Whether it does that later than now. Every call on such an event fails, as its handle is invalid
 * to the program. */
bool ag_core_event_is_ending(CUevent event);
void ag_core_event_settles(CUevent event);
/* Call it before cuEventQuery. Anything but CUDA_SUCCESS is the answer. */
CUresult ag_core_event_query(CUevent event);
/* Whether the event is ready, though the driver says that it is not yet. */
bool ag_core_event_has_passed(CUevent event);
/* Call it, behind the barrier, before a call that may record an event unseen. */
void ag_core_events_unseen(void);

/* The program has just learned the time between two events, so it is measuring; see measure.c. */
void ag_core_time_asked(void);

/* Handles a call that may observe or change anything: submits what every stream has deferred. */
CUresult ag_core_barrier(enum ag_sym sym);
/* The same for a call that names the context whose errors it returns. */
CUresult ag_core_barrier_for(CUcontext ctx, enum ag_sym sym);
/* The same for a copy without a stream. */
CUresult ag_core_barrier_of_copy(enum ag_sym sym, CUdeviceptr dst, CUdeviceptr src);

/* The C side of the assembly barrier stubs, and of every call that cannot return an error. An error
 * stays pending until the next call that may return it. */
void ag_core_barrier_quiet(enum ag_sym sym);
/* A look-up of a variable of a library or module by name in the current context; whether it may
 * load that there, so that a barrier must come first; and its result. */
uint64_t ag_core_lookup(const void *owner, const char *name);
bool ag_core_lookup_loads(uint64_t lookup);
void ag_core_looked_up(uint64_t lookup, CUresult result);
void ag_core_stream_sync_point_quiet(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks);

/* ---- calls that invalidate something (class TRACK). Each flushes what it must by itself - */

/* Call it before cuModuleUnload (`module` is a CUmodule) and cuLibraryUnload (a CUlibrary). */
void ag_core_invalidate_module(void *module, enum ag_sym sym);
/* Call it before any call that may change the meaning of launches (cuCtxSetLimit and the like). */
void ag_core_invalidate_functions(enum ag_sym sym);
/* The same call has returned: what another thread built during it goes too, and is not counted. */
void ag_core_invalidate_functions_again(void);
/* Invalidates as much at a launch, because there are too many signatures. While another thread is
 * in the driver with a stream's lock, or something waits for the program, a later launch does it:
 * this one would have to wait. It does wait for a build under way. */
void ag_core_invalidate_signatures(void);
/* Call these around cuCtxDestroy and cuCtxDetach. The first returns NULL if the library does not
 * know the context. Always call the second afterwards, with what the first returned; it returns an
 * error of deferred work that nobody has told. `ended`: the real call succeeded. */
struct ag_context;
struct ag_context *ag_core_context_may_end(CUcontext ctx, enum ag_sym sym);
CUresult ag_core_context_ended(struct ag_context *context, bool ended);
/* Call the first behind cuCtxAttach, the second behind cuCtxDetach. The second returns whether the
 * context has ended. */
void ag_core_context_attached(CUcontext ctx);
bool ag_core_context_detached(struct ag_context *context);
/* Call these around cuDevicePrimaryCtxRetain, Release and Reset. First call `begins`; its result is
 * `locked` for the others. For Release and Reset, then call `releases` or `resets`, which returns
 * the context. After the real call, call `retained`, `released` or `reset` with `locked` and the
 * context; the latter two return what ag_core_context_ended() does. */
bool ag_core_primary_begins(CUdevice device, enum ag_sym sym);
void ag_core_primary_retained(CUdevice device, bool locked, bool success);
struct ag_context *ag_core_primary_releases(CUdevice device, bool locked, enum ag_sym sym);
CUresult ag_core_primary_released(struct ag_context *context, CUdevice device, bool locked,
                                  bool success);
struct ag_context *ag_core_primary_resets(CUdevice device, enum ag_sym sym);
CUresult ag_core_primary_reset(struct ag_context *context, CUdevice device, bool locked,
                               bool success);
/* Call the first after a stream of a green context was made, the others before and after such a
 * context is destroyed. `latest`: what the one before returned; `success`: the call did. */
void ag_core_green_stream(CUstream stream, CUgreenCtx green, enum ag_sym sym);
uint64_t ag_core_green_context_ends(void);
void ag_core_green_context_ended(CUgreenCtx green, uint64_t latest, bool success);
/* Call it before cuStreamDestroy. */
CUresult ag_core_invalidate_stream(CUstream stream, enum ag_sym sym);
/* Call these around a call that makes the stream wait for something that the program may do only
 * later, such as cuStreamWaitValue32. The library builds nothing until that wait is over. `waits`:
 * the real call succeeded. Call `_ends` only if `_begins` returned true. */
bool ag_core_wait_begins(CUstream stream, bool ptsz);
/* The `_begins` for a launch of one of the program's own graphs. It returns true only once some
 * graph may wait. It also forgets memory that the graph may free. */
bool ag_core_graph_wait_begins(CUstream stream, bool ptsz);
void ag_core_graphs_wait(void); /* the program made a graph node that waits */
bool ag_core_graphs_may_wait(void);
void ag_core_wait_ends(CUstream stream, bool ptsz, bool waits);
/* The same around cuLaunchHostFunc (`function`) and cuStreamAddCallback (`callback`): the library
 * builds nothing until the host function has returned. If `_begins` returns NULL, make the
 * program's call unchanged and do not call `_ends`. Otherwise launch ag_core_host_function or
 * ag_core_host_callback instead, with the returned pointer as its data. Then call `_ends`, with
 * NULL if the real call succeeded and with the pointer if it failed. */
struct ag_host_call *ag_core_host_begins(CUstream stream, bool ptsz, CUhostFn function,
                                         CUstreamCallback callback, void *data);
void ag_core_host_ends(struct ag_host_call *not_launched);
void CUDA_CB ag_core_host_function(void *data);
void CUDA_CB ag_core_host_callback(CUstream stream, CUresult status, void *data);
/* Call it after a call that gives the launches of one stream a property that graphs would not have
 * (attributes of the stream, a green context). The library never defers anything of that stream
 * again. */
void ag_core_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym);
/* Call these before and after cuFuncSetAttribute, cuKernelSetAttribute, cuFuncSetCacheConfig,
 * cuFuncSetSharedMemConfig and cuKernelSetCacheConfig. Pass `attribute` and `value` as the program
 * gave them; cache and shared-memory configs pass -1 and -2 as attribute. `device` is what
 * cuKernel* were given; it is not used for a CUfunction. Setting the value that was set last
 * flushes nothing. Pass what the first returned to the second, with the real call's result. If
 * graphs change, the library builds nothing between the two. */
enum ag_change ag_core_function_changes(CUfunction func, int attribute, int value, int device,
                                        enum ag_sym sym);
void ag_core_function_changed(CUfunction func, int attribute, int value, int device,
                              enum ag_change change, CUresult result);

/* Call it before memory that ops may name is freed or changes its kind (cuMemFree, cuMemUnmap,
 * cuMemPoolTrimTo and the like), whether or not any stream is open. */
void ag_core_invalidate_memory(void);
/* Call the first when the program makes a graph node that frees memory, the second before its
 * cuMemFreeAsync, which makes one during a capture. From then on each launch of its graphs may free
 * memory. */
void ag_core_graphs_free(void);
void ag_core_freed_in_stream(void);
/* The program has memory of the host now to which kernels may write, [start, start + bytes). */
void ag_core_host_memory(uint64_t start, uint64_t bytes);
/* The same of memory that the driver has pinned: kernels may know it by another address. */
void ag_core_pinned(void *host, uint64_t bytes);
/* The program has mapped memory there, of the device or of the host. */
void ag_core_memory_mapped(uint64_t start, uint64_t bytes, CUmemGenericAllocationHandle handle);
/* Kernels of the program may get at memory of other devices from now on. */
void ag_core_peer_memory(void);
/* Call it behind cuMemSetAccess of that address: perhaps the same. */
void ag_core_access_given(CUdeviceptr address, const CUmemAccessDesc *desc, size_t count);
/* Call it before the program makes a multicast object, or binds one: what it maps from now on may
 * be such an object. */
void ag_core_maps_multicast(void);

/* Call it before the program calls an unknown function of an export table. `first`: the program has
 * never called this function before. */
void ag_core_table_call(bool first);

/* Call the first after the program has found a kernel of this name. Call the other two after it has
 * found kernels or functions whose names the driver must be asked for. */
void ag_core_kernel_found(const char *name);
void ag_core_kernels_found(const CUkernel *kernels, unsigned int n);
void ag_core_functions_found(const CUfunction *functions, unsigned int n);

/* Call it, without any lock, after a call of the program's has failed for lack of device memory,
 * `tries` times by now. It gives graphs back to the driver. If it returns true, make the call
 * once more with the same arguments. */
bool ag_core_gives_memory(unsigned int tries);

/* What a call returns whose real call returned `result`, if a sync point before it returned
 * `pending`, the error of deferred work: the first one that is an error. If both are, `pending`
 * stays for a later call. Some errors end the context (cuda.h: "the process must be terminated and
 * relaunched", "leaves the process in an inconsistent state"). After such an error the library
 * defers nothing any more, so that every later call answers as it would have without the library.
 */
CUresult ag_core_first_error(CUresult result, CUresult pending);
/* The same for a call on a stream, whose context need not be the current one. */
CUresult ag_core_stream_first_error(CUstream stream, bool ptsz, CUresult result, CUresult pending);

/* ---- the program's own captures (class CAPTURE) ----------------------------------------- */

/* Call the first before cuStreamBeginCapture*. It flushes everything. While any capture is active
 * the library defers and builds nothing. Call `began` after the real call, and say whether it
 * succeeded. `of`: the context of the stream; its end ends the capture. NULL: not known. */
void ag_core_capture_begins(enum ag_sym sym);
void ag_core_capture_began(CUcontext of, CUstream stream, bool succeeded);
/* Call it after a cuStreamEndCapture that ended a capture (whether it returned a graph or an
 * error). */
void ag_core_capture_ended(CUcontext of, CUstream stream);
/* Whether a capture began in this stream and has not ended. A capture outlives the streams to which
 * it has only spread, by waits for events. */
bool ag_core_capture_is_of(CUstream stream);
/* Asks the driver. */
CUcontext ag_core_context_of(CUstream stream, bool ptsz);
/* Asks the driver how many of the known streams are capturing. */
uint32_t ag_core_streams_capturing(void);

/* ---- process ---------------------------------------------------------------------------- */

/* Call it in the child of a fork if the parent had started. The child passes everything through
 * from now on, takes no lock and keeps no state. */
void ag_core_after_fork_in_child(void);
/* Whether hooks do anything at all. False in the child of a fork and with AUTOGRAPH=0. */
bool ag_core_active(void);
/* Call it at exit, at a point where the driver still works: it flushes, stops threads and prints
 * the summary. */
void ag_core_finish(void);
