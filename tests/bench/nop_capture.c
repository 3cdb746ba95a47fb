/*
 * nop_capture.c - a stand-in for capture/ that makes each real call at once: libautograph_nop.so
 * only hooks. What it costs is the cost of hooking; the rest is that of thinking. With
 * AG_OPS_ARE_FREE it is libautograph_free.so, see free_ops.h.
 */
#include "driver/call.h"
#include "capture/capture.h"
#include "capture/settings/options.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include "tests/bench/free_ops.h"

_Atomic uint32_t ag_open_streams;

void ag_core_start(bool observe_only, const char *why)
{
    (void)observe_only;
    (void)why;
    ag_options_read();
    ag_free_ops_start();
}

void ag_core_launched_nothing(void)
{
}

void ag_core_started(void)
{
}

void ag_core_observe_only(const char *why)
{
    (void)why;
}

CUresult ag_core_launch(const struct ag_launch *launch)
{
    return ag_op_is_free()
               ? CUDA_SUCCESS
               : ag_call_make(&(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = launch});
}

CUresult ag_core_memset(const struct ag_memset *fill)
{
    return ag_op_is_free()
               ? CUDA_SUCCESS
               : ag_call_make(&(struct ag_incoming){.kind = AG_OP_MEMSET, .fill = fill});
}

CUresult ag_core_copy(const struct ag_copy *copy)
{
    /* cuMemcpyAsync may be one that the program reads the result of. */
    bool on_device =
        copy->sym == AG_SYM_cuMemcpyDtoDAsync_v2 || copy->sym == AG_SYM_cuMemcpyDtoDAsync_v2_ptsz;
    return on_device && ag_op_is_free()
               ? CUDA_SUCCESS
               : ag_call_make(&(struct ag_incoming){.kind = AG_OP_COPY, .copy = copy});
}

bool ag_core_read_back(const struct ag_copy *copy, bool sync, CUresult *result)
{
    (void)copy, (void)sync, (void)result;
    return false;
}

void ag_core_returned(void)
{
}

CUresult ag_core_stream_sync_point(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    (void)stream;
    (void)ptsz;
    (void)sym;
    (void)blocks;
    return CUDA_SUCCESS;
}

void ag_core_stream_sync_point_quiet(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    ag_core_stream_sync_point(stream, ptsz, sym, blocks);
}

CUresult ag_core_barrier(enum ag_sym sym)
{
    (void)sym;
    return CUDA_SUCCESS;
}

CUresult ag_core_barrier_for(CUcontext ctx, enum ag_sym sym)
{
    (void)ctx;
    (void)sym;
    return CUDA_SUCCESS;
}

CUresult ag_core_barrier_of_copy(enum ag_sym sym, CUdeviceptr dst, CUdeviceptr src)
{
    (void)sym;
    (void)dst;
    (void)src;
    return CUDA_SUCCESS;
}

void ag_core_barrier_quiet(enum ag_sym sym)
{
    (void)sym;
}

void ag_core_invalidate_module(void *module, enum ag_sym sym)
{
    (void)module;
    (void)sym;
}

void ag_core_invalidate_functions_again(void)
{
}

void ag_core_invalidate_functions(enum ag_sym sym)
{
    (void)sym;
}

struct ag_context *ag_core_context_may_end(CUcontext ctx, enum ag_sym sym)
{
    (void)ctx;
    (void)sym;
    return NULL;
}

CUresult ag_core_context_ended(struct ag_context *context, bool ended)
{
    (void)context;
    (void)ended;
    return CUDA_SUCCESS;
}

void ag_core_context_attached(CUcontext ctx)
{
    (void)ctx;
}

bool ag_core_context_detached(struct ag_context *context)
{
    (void)context;
    return true;
}

uint64_t ag_core_lookup(const void *library, const char *name)
{
    (void)library, (void)name;
    return 0;
}

bool ag_core_lookup_loads(uint64_t lookup)
{
    return !lookup;
}

void ag_core_looked_up(uint64_t lookup, CUresult result)
{
    (void)lookup, (void)result;
}

bool ag_core_primary_begins(CUdevice device, enum ag_sym sym)
{
    (void)device, (void)sym;
    return false;
}

void ag_core_primary_retained(CUdevice device, bool locked, bool success)
{
    (void)device;
    (void)locked;
    (void)success;
}

struct ag_context *ag_core_primary_releases(CUdevice device, bool locked, enum ag_sym sym)
{
    (void)device;
    (void)locked;
    (void)sym;
    return NULL;
}

CUresult ag_core_primary_released(struct ag_context *context, CUdevice device, bool locked,
                                  bool success)
{
    (void)context;
    (void)device;
    (void)locked;
    (void)success;
    return CUDA_SUCCESS;
}

struct ag_context *ag_core_primary_resets(CUdevice device, enum ag_sym sym)
{
    (void)device;
    (void)sym;
    return NULL;
}

CUresult ag_core_primary_reset(struct ag_context *context, CUdevice device, bool locked,
                               bool success)
{
    (void)context;
    (void)device;
    (void)locked;
    (void)success;
    return CUDA_SUCCESS;
}

void ag_core_green_stream(CUstream stream, CUgreenCtx green, enum ag_sym sym)
{
    (void)stream;
    (void)green;
    (void)sym;
}

CUresult ag_core_event_call(const struct ag_event_call *call)
{
    return ag_call_make(&(struct ag_incoming){.kind = AG_OP_RECORD, .event = call});
}

void ag_core_event_made(CUevent event, unsigned int flags)
{
    (void)event;
    (void)flags;
}

bool ag_core_event_ends(CUevent event)
{
    (void)event;
    return false;
}

bool ag_core_event_is_ending(CUevent event)
{
    (void)event;
    return false;
}

void ag_core_event_settles(CUevent event)
{
    (void)event;
}

CUresult ag_core_event_query(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

bool ag_core_event_has_passed(CUevent event)
{
    (void)event;
    return false;
}

void ag_core_events_unseen(void)
{
}

void ag_core_time_asked(void)
{
}

uint64_t ag_core_green_context_ends(void)
{
    return 0;
}

void ag_core_green_context_ended(CUgreenCtx green, uint64_t latest, bool success)
{
    (void)success;
    (void)green;
    (void)latest;
}

CUresult ag_core_invalidate_stream(CUstream stream, enum ag_sym sym)
{
    (void)stream;
    (void)sym;
    return CUDA_SUCCESS;
}

void ag_core_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    ag_core_stream_sync_point(stream, ptsz, sym, false);
}

bool ag_core_wait_begins(CUstream stream, bool ptsz)
{
    (void)stream;
    (void)ptsz;
    return false;
}

bool ag_core_graph_wait_begins(CUstream stream, bool ptsz)
{
    (void)stream;
    (void)ptsz;
    return false;
}

bool ag_core_graphs_may_wait(void)
{
    return false;
}

void ag_core_graphs_wait(void)
{
}

void ag_core_wait_ends(CUstream stream, bool ptsz, bool waits)
{
    (void)stream;
    (void)ptsz;
    (void)waits;
}

struct ag_host_call *ag_core_host_begins(CUstream stream, bool ptsz, CUhostFn function,
                                         CUstreamCallback callback, void *data)
{
    (void)stream;
    (void)ptsz;
    (void)function;
    (void)callback;
    (void)data;
    return NULL;
}

void ag_core_host_ends(struct ag_host_call *not_launched)
{
    (void)not_launched;
}

void CUDA_CB ag_core_host_function(void *data)
{
    (void)data;
}

void CUDA_CB ag_core_host_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    (void)data;
}

enum ag_change ag_core_function_changes(CUfunction func, int attribute, int value, int device,
                                        enum ag_sym sym)
{
    (void)device;
    (void)func;
    (void)attribute;
    (void)value;
    (void)sym;
    return AG_CHANGES_NOTHING;
}

void ag_core_function_changed(CUfunction func, int attribute, int value, int device,
                              enum ag_change change, CUresult result)
{
    (void)func;
    (void)attribute;
    (void)value;
    (void)device;
    (void)change;
    (void)result;
}

void ag_core_invalidate_memory(void)
{
}

void ag_core_graphs_free(void)
{
}

void ag_core_freed_in_stream(void)
{
}

void ag_core_maps_multicast(void)
{
}

void ag_core_table_call(bool first)
{
    (void)first;
}

void ag_core_kernel_found(const char *name)
{
    (void)name;
}

void ag_core_kernels_found(const CUkernel *kernels, unsigned int n)
{
    (void)kernels;
    (void)n;
}

void ag_core_functions_found(const CUfunction *functions, unsigned int n)
{
    (void)functions;
    (void)n;
}

bool ag_core_gives_memory(unsigned int tries)
{
    (void)tries;
    return false;
}

CUresult ag_core_stream_first_error(CUstream stream, bool ptsz, CUresult result, CUresult pending)
{
    (void)stream;
    (void)ptsz;
    return result == CUDA_SUCCESS ? pending : result;
}

CUresult ag_core_first_error(CUresult result, CUresult pending)
{
    return result == CUDA_SUCCESS ? pending : result;
}

void ag_core_capture_begins(enum ag_sym sym)
{
    (void)sym;
}

void ag_core_capture_began(CUcontext of, CUstream stream, bool succeeded)
{
    (void)of;
    (void)stream;
    (void)succeeded;
}

void ag_core_capture_ended(CUcontext of, CUstream stream)
{
    (void)of;
    (void)stream;
}

bool ag_core_capture_is_of(CUstream stream)
{
    return stream;
}

CUcontext ag_core_context_of(CUstream stream, bool ptsz)
{
    (void)stream;
    (void)ptsz;
    return NULL;
}

uint32_t ag_core_streams_capturing(void)
{
    return 0;
}

void ag_core_after_fork_in_child(void)
{
}

bool ag_core_active(void)
{
    return true;
}

void ag_core_finish(void)
{
}
