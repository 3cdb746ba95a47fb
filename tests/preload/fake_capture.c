/*
 * fake_capture.c - a stand-in for capture/: it makes each real call at once and writes a line for
 * everything that preload/ tells it.
 *
 * AG_TEST_FD    the descriptor that lines go to
 * AG_TEST_OPEN  1: say that a stream is open, so that every stub takes its slow path
 * AG_TEST_ERROR the code that each sync point hands back as pending
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/call.h"
#include "capture/capture.h"
#include "capture/settings/log.h"
#include "capture/tracking/dormant.h"
#include "capture/settings/options.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"

_Atomic uint32_t ag_open_streams;
_Atomic uint64_t ag_stream_generation = 1;
__thread struct ag_thread ag_thread __attribute__((tls_model("initial-exec")));
static bool in_child;
static uint32_t capturing_now;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    const char *fd = getenv("AG_TEST_FD");
    char line[256];
    va_list args;
    if (!fd)
        return;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (write(atoi(fd), line, (size_t)length) != length)
        abort();
}

struct ag_options ag_options = {.log_level = AG_LOG_INFO};

uint32_t ag_options_mode(void)
{
    const char *mode = getenv("AUTOGRAPH");
    return mode && strcmp(mode, "0") == 0 ? AG_MODE_OFF : AG_MODE_ON;
}

bool ag_options_mode_is_understood(void)
{
    return true;
}

void ag_options_read(void)
{
    const char *force = getenv("AUTOGRAPH_FORCE");
    ag_options.force = force ? (uint32_t)atoi(force) : 0;
}

void ag_log_look(void)
{
}

void ag_log_line(const char *domain, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    say("log %s %s\n", domain, text);
}

static CUresult pending(void)
{
    const char *error = getenv("AG_TEST_ERROR");
    return error ? (CUresult)atoi(error) : CUDA_SUCCESS;
}

void ag_core_start(bool observe_only, const char *why)
{
    const char *open = getenv("AG_TEST_OPEN");
    ag_open_streams = open ? (uint32_t)atoi(open) : 0;
    say("start %s\n", observe_only ? why : "replay");
}

void ag_core_launched_nothing(void)
{
}

void ag_core_started(void)
{
}

void ag_core_observe_only(const char *why)
{
    say("observe %s\n", why);
}

CUresult ag_core_launch(const struct ag_launch *launch)
{
    say("launch %s ptsz=%d grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p attrs=%u\n",
        ag_sym_name(launch->sym), launch->ptsz, launch->dims[0], launch->dims[1], launch->dims[2],
        launch->dims[3], launch->dims[4], launch->dims[5], launch->dims[AG_DIM_SHARED],
        (void *)launch->stream, launch->num_attrs);
    return ((AG_PFN_cuLaunchKernel)ag_real[AG_SYM_cuLaunchKernel])(
        launch->func, launch->dims[0], launch->dims[1], launch->dims[2], launch->dims[3],
        launch->dims[4], launch->dims[5], launch->dims[AG_DIM_SHARED], launch->stream,
        launch->params, launch->extra);
}

CUresult ag_core_memset(const struct ag_memset *fill)
{
    say("memset %s ptsz=%d dst=%llx pitch=%zu value=%x elem=%u width=%zu height=%zu stream=%p\n",
        ag_sym_name(fill->sym), fill->ptsz, fill->dst, fill->pitch, fill->value, fill->elem_size,
        fill->width, fill->height, (void *)fill->stream);
    return CUDA_SUCCESS;
}

CUresult ag_core_copy(const struct ag_copy *copy)
{
    say("copy %s ptsz=%d dst=%llx src=%llx bytes=%zu stream=%p\n", ag_sym_name(copy->sym),
        copy->ptsz, copy->dst, copy->src, copy->bytes, (void *)copy->stream);
    return CUDA_SUCCESS;
}

bool ag_core_read_back(const struct ag_copy *copy, bool sync, CUresult *result)
{
    (void)copy, (void)sync, (void)result;
    return false;
}

void ag_core_stream_sync_point_quiet(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    say("sync point %s ptsz=%d blocks=%d stream=%p\n", ag_sym_name(sym), ptsz, blocks,
        (void *)stream);
}

void ag_core_returned(void)
{
    ag_thread.waits = false;
    say("returned\n");
}

CUresult ag_core_stream_sync_point(CUstream stream, bool ptsz, enum ag_sym sym, bool blocks)
{
    ag_core_stream_sync_point_quiet(stream, ptsz, sym, blocks);
    if (sym == AG_SYM_cuStreamSynchronize || sym == AG_SYM_cuStreamSynchronize_ptsz)
        ag_thread.waits = true; /* some stream wants to know */
    return pending();
}

void ag_core_barrier_quiet(enum ag_sym sym)
{
    say("barrier %s\n", ag_sym_name(sym));
}

CUresult ag_core_barrier(enum ag_sym sym)
{
    ag_core_barrier_quiet(sym);
    return pending();
}

CUresult ag_core_barrier_for(CUcontext ctx, enum ag_sym sym)
{
    (void)ctx;
    return ag_core_barrier(sym);
}

CUresult ag_core_barrier_of_copy(enum ag_sym sym, CUdeviceptr dst, CUdeviceptr src)
{
    say("copy to 0x%llx from 0x%llx\n", dst, src);
    return ag_core_barrier(sym);
}

void ag_core_invalidate_module(void *module, enum ag_sym sym)
{
    say("invalidate_module %s module=%p\n", ag_sym_name(sym), module);
}

void ag_core_invalidate_functions_again(void)
{
    say("invalidate_functions_again\n");
}

void ag_core_invalidate_functions(enum ag_sym sym)
{
    say("invalidate_functions %s\n", ag_sym_name(sym));
}

struct ag_context *ag_core_context_may_end(CUcontext ctx, enum ag_sym sym)
{
    say("context_may_end %s ctx=%p\n", ag_sym_name(sym), (void *)ctx);
    return (struct ag_context *)0x77;
}

CUresult ag_core_context_ended(struct ag_context *context, bool ended)
{
    say("context_ended %p ended=%d\n", (void *)context, ended);
    return pending();
}

void ag_core_context_attached(CUcontext ctx)
{
    say("context_attached ctx=%p\n", (void *)ctx);
}

bool ag_core_context_detached(struct ag_context *context)
{
    say("context_detached %p\n", (void *)context);
    return false;
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
    say("primary_begins %s device=%d\n", ag_sym_name(sym), device);
    return true;
}

void ag_core_primary_retained(CUdevice device, bool locked, bool success)
{
    say("primary_retained device=%d locked=%d success=%d\n", device, locked, success);
}

struct ag_context *ag_core_primary_releases(CUdevice device, bool locked, enum ag_sym sym)
{
    say("primary_releases %s device=%d locked=%d\n", ag_sym_name(sym), device, locked);
    return (struct ag_context *)0x78;
}

CUresult ag_core_primary_released(struct ag_context *context, CUdevice device, bool locked,
                                  bool success)
{
    say("primary_released %p device=%d locked=%d success=%d\n", (void *)context, device, locked,
        success);
    return pending();
}

struct ag_context *ag_core_primary_resets(CUdevice device, enum ag_sym sym)
{
    say("primary_resets %s device=%d\n", ag_sym_name(sym), device);
    return (struct ag_context *)0x79;
}

CUresult ag_core_primary_reset(struct ag_context *context, CUdevice device, bool locked,
                               bool success)
{
    say("primary_reset %p device=%d locked=%d success=%d\n", (void *)context, device, locked,
        success);
    return pending();
}

void ag_core_green_stream(CUstream stream, CUgreenCtx green, enum ag_sym sym)
{
    say("green_stream %s stream=%p green=%p\n", ag_sym_name(sym), (void *)stream, (void *)green);
}

CUresult ag_core_event_call(const struct ag_event_call *call)
{
    CUresult first = ag_core_stream_sync_point(call->stream, call->ptsz, call->sym, false), result;
    struct ag_incoming in = {.kind = AG_OP_RECORD, .event = call};
    result = ag_call_make(&in);
    return result != CUDA_SUCCESS ? result : first;
}

void ag_core_event_made(CUevent event, unsigned int flags)
{
    say("event made %p flags=%u\n", (void *)event, flags);
}

bool ag_core_event_ends(CUevent event)
{
    say("event ends %p\n", (void *)event);
    return false;
}

bool ag_core_event_is_ending(CUevent event)
{
    (void)event;
    return false;
}

void ag_core_event_settles(CUevent event)
{
    say("event settles %p\n", (void *)event);
}

CUresult ag_core_event_query(CUevent event)
{
    say("event query %p\n", (void *)event);
    return CUDA_SUCCESS;
}

bool ag_core_event_has_passed(CUevent event)
{
    (void)event;
    return false;
}

void ag_core_events_unseen(void)
{
    say("events unseen\n");
}

void ag_core_time_asked(void)
{
    say("time_asked\n");
}

uint64_t ag_core_green_context_ends(void)
{
    say("green_context_ends\n");
    return 7;
}

void ag_core_green_context_ended(CUgreenCtx green, uint64_t latest, bool success)
{
    say("green_context_ended %p latest=%d success=%d\n", (void *)green, (int)latest, success);
}

CUresult ag_core_invalidate_stream(CUstream stream, enum ag_sym sym)
{
    say("stream_ends %s stream=%p\n", ag_sym_name(sym), (void *)stream);
    return pending();
}

void ag_core_stream_not_understood(CUstream stream, bool ptsz, enum ag_sym sym)
{
    say("not_understood %s ptsz=%d stream=%p\n", ag_sym_name(sym), ptsz, (void *)stream);
}

bool ag_core_wait_begins(CUstream stream, bool ptsz)
{
    say("wait_begins ptsz=%d stream=%p\n", ptsz, (void *)stream);
    return true;
}

bool ag_core_graph_wait_begins(CUstream stream, bool ptsz)
{
    say("graph_wait_begins ptsz=%d stream=%p\n", ptsz, (void *)stream);
    return true;
}

bool ag_core_graphs_may_wait(void)
{
    return false;
}

void ag_core_graphs_wait(void)
{
    say("graphs_wait\n");
}

void ag_core_wait_ends(CUstream stream, bool ptsz, bool waits)
{
    say("wait_ends ptsz=%d waits=%d stream=%p\n", ptsz, waits, (void *)stream);
}

struct ag_host_call *ag_core_host_begins(CUstream stream, bool ptsz, CUhostFn function,
                                         CUstreamCallback callback, void *data)
{
    say("host_begins ptsz=%d stream=%p function=%p callback=%p data=%p\n", ptsz, (void *)stream,
        (void *)(uintptr_t)function, (void *)(uintptr_t)callback, data);
    return data == (void *)0xbad ? NULL : (struct ag_host_call *)0xca11;
}

void ag_core_host_ends(struct ag_host_call *not_launched)
{
    say("host_ends %p\n", (void *)not_launched);
}

void CUDA_CB ag_core_host_function(void *data)
{
    say("host_function %p\n", data);
}

void CUDA_CB ag_core_host_callback(CUstream stream, CUresult status, void *data)
{
    say("host_callback stream=%p status=%d %p\n", (void *)stream, (int)status, data);
}

enum ag_change ag_core_function_changes(CUfunction func, int attribute, int value, int device,
                                        enum ag_sym sym)
{
    say("function_changes %s func=%p attribute=%d value=%d device=%d\n", ag_sym_name(sym),
        (void *)func, attribute, value, device);
    return AG_CHANGES_LIMIT;
}

void ag_core_function_changed(CUfunction func, int attribute, int value, int device,
                              enum ag_change change, CUresult result)
{
    say("function_changed func=%p attribute=%d value=%d device=%d change=%d result=%d\n",
        (void *)func, attribute, value, device, change, (int)result);
}

void ag_core_capture_begins(enum ag_sym sym)
{
    say("capture_begins %s\n", ag_sym_name(sym));
}

void ag_core_capture_began(CUcontext of, CUstream stream, bool succeeded)
{
    (void)of;
    (void)stream;
    say("capture_began %d\n", succeeded);
}

void ag_core_capture_ended(CUcontext of, CUstream stream)
{
    (void)of;
    (void)stream;
    say("capture_ended\n");
}

bool ag_core_capture_is_of(CUstream stream)
{
    return stream != (CUstream)0x51; /* a capture has spread to this one */
}

CUcontext ag_core_context_of(CUstream stream, bool ptsz)
{
    (void)stream;
    (void)ptsz;
    return NULL;
}

uint32_t ag_core_streams_capturing(void)
{
    return capturing_now++ % 2; /* as if each call between two looks had begun one */
}

void ag_core_after_fork_in_child(void)
{
    ag_open_streams = 0;
    in_child = true;
    say("child\n");
}

bool ag_core_active(void)
{
    return !in_child;
}

void ag_core_graphs_free(void)
{
    say("graphs_free\n");
}

void ag_core_freed_in_stream(void)
{
    say("freed_in_stream\n");
}

void ag_core_invalidate_memory(void)
{
    say("memory\n");
}

void ag_core_maps_multicast(void)
{
    say("multicast\n");
}

void ag_core_memory_mapped(uint64_t start, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    (void)start, (void)bytes, (void)handle;
}

void ag_core_pinned(void *host, uint64_t bytes)
{
    ag_core_host_memory((uintptr_t)host, bytes);
}

void ag_core_peer_memory(void)
{
    say("peers\n");
}

void ag_core_access_given(CUdeviceptr address, const CUmemAccessDesc *desc, size_t count)
{
    (void)address;
    (void)desc;
    say("access %zu\n", count);
}

void ag_core_host_memory(uint64_t start, uint64_t bytes)
{
    say("host memory%s %llu\n", start ? "" : " anywhere", (unsigned long long)bytes);
}

void ag_core_table_call(bool first)
{
    say("table call first=%d\n", first);
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
    say("short of memory\n");
    return tries == 1;
}

CUresult ag_core_stream_first_error(CUstream stream, bool ptsz, CUresult result, CUresult pending)
{
    (void)stream;
    (void)ptsz;
    return ag_core_first_error(result, pending);
}

CUresult ag_core_first_error(CUresult result, CUresult pending)
{
    if (result == CUDA_SUCCESS)
        return pending;
    say("error %d\n", (int)result);
    return result;
}

void ag_core_finish(void)
{
    say("finish\n");
}
