/*
 * test_calls.c - what comes in by dlopen and dlsym: every symbol of the table, and what the hooks
 * and stubs make of it. Run under the library with fake_capture.c, against fake_libcuda.c; once
 * with AG_TEST_OPEN=0 (the stubs' fast path) and once with 1 (their slow path).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_libcuda.h"
#include "driver/table.h"
#include "told.h"

typedef int (*generic)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static void *libcuda;
static bool open_streams;

static void *(*address_of)(const char *);
static struct fake_call *(*last_call)(void);
static void (*next_result)(int);
static void (*capturing)(int, int);

/* Whether the answer of a look-up is something else than the driver's own address. */
static bool substituted(const char *name)
{
    return dlsym(libcuda, name) != address_of(name);
}

static int call(const char *name, uint64_t first)
{
    generic function = (generic)dlsym(libcuda, name);
    return function(first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6,
                    first + 7, first + 8, first + 9, first + 10, first + 11);
}

static void assert_reached(const char *name, uint64_t first)
{
    const struct fake_call *last = last_call();
    assert_string_equal(last->name, name);
    for (uint64_t i = 0; i < 12; i++)
        assert_int_equal(last->args[i], first + i);
}

#define assert_told(...)                                                                           \
    do {                                                                                           \
        char expected_text[1024];                                                                  \
        snprintf(expected_text, sizeof(expected_text), __VA_ARGS__);                               \
        assert_string_equal(told(), expected_text);                                                \
    } while (0)

static void queries_are_not_touched(void **state)
{
    (void)state;
    size_t passed = 0;
    for (int sym = 0; sym < AG_SYM_COUNT; sym++) {
        const char *name = ag_entries[sym].name;
        assert_non_null(address_of(name));
        if (ag_entries[sym].cls == AG_CLASS_PASS && !(ag_entries[sym].flags & AG_ENTRY_HOOK)) {
            assert_false(substituted(name));
            passed++;
        }
        if (ag_entries[sym].cls != AG_CLASS_PASS && ag_entries[sym].cls != AG_CLASS_CAPTURE)
            assert_true(substituted(name));
    }
    assert_in_range(passed, 150, 300);
    assert_string_equal(told(), "");
}

/* Stubs: the driver sees the same twelve arguments, and capture/ is told what the table says. */
static void stubs_pass_arguments(void **state)
{
    (void)state;
    const uint64_t first = 0x1000;
    size_t stubs = 0;
    for (int sym = 0; sym < AG_SYM_COUNT; sym++) {
        const struct ag_entry *entry = &ag_entries[sym];
        void *handed_out = dlsym(libcuda, entry->name);
        bool track = entry->cls == AG_CLASS_TRACK;
        /* told of whether or not anything is open, and behind the barrier */
        char memory[64];
        snprintf(memory, sizeof(memory), "%s%s%s%s",
                 strncmp(entry->name, "cuMemFreeAsync", 14) ? "" : "freed_in_stream\n",
                 entry->flags & AG_ENTRY_KILLS_MEMORY ? "memory\n" : "",
                 entry->flags & AG_ENTRY_KILLS_MAPPED ? "multicast\n" : "",
                 entry->flags & AG_ENTRY_KILLS_PEERS ? "peers\n" : "");
        if (handed_out == address_of(entry->name) || entry->flags & AG_ENTRY_HOOK ||
            strcmp(entry->name, "cuTexRefSetMipmapLevelBias") == 0) /* has a test of its own */
            continue;
        stubs++;
        assert_int_equal(call(entry->name, first), 0);
        assert_reached(entry->name, first);
        if (!open_streams && !track && !*memory)
            assert_told("%s", "");
        else if (entry->flags & AG_ENTRY_KILLS_FUNCTIONS)
            assert_told("invalidate_functions %s\n", entry->name);
        else if (entry->flags & AG_ENTRY_KILLS_MODULE)
            assert_told("invalidate_module %s module=0x%x\n", entry->name, 0x1000);
        else if (entry->flags & AG_ENTRY_KILLS_REPLAY)
            assert_told("observe %s\n", entry->name);
        else if (track)
            assert_told("%s", memory);
        else if (entry->cls == AG_CLASS_BARRIER)
            assert_told("barrier %s\n%s", entry->name, memory);
        else
            assert_told("sync point %s ptsz=%d blocks=%d stream=0x%x\n%s", entry->name,
                        strstr(entry->name, "_pts") || strstr(entry->name, "_ptd") ? 1 : 0,
                        entry->flags & AG_ENTRY_BLOCKS ? 1 : 0, 0x1000 + entry->stream_arg, memory);
    }
    assert_in_range(stubs, 200, 400);
}

/* The positions of streams, written down a second time. */
static void streams_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int position;
        int ptsz;
    } known[] = {
        {"cuGraphUpload", 1, 0},
        {"cuMemFreeAsync", 1, 0},
        {"cuMemFreeAsync_ptsz", 1, 1},
        {"cuStreamWriteValue32_v2", 0, 0},
        {"cuMemPrefetchAsync_v2", 4, 0},
        {"cuMemcpyPeerAsync", 5, 0},
        {"cuMemcpyBatchAsync_v2_ptsz", 7, 1},
        {"cuLaunchGridAsync", 3, 0},
    };
    if (!open_streams)
        return;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char expected[64];
        call(known[i].name, 0x500);
        snprintf(expected, sizeof(expected), "stream=0x%x\n", 0x500 + known[i].position);
        const char *line = told();
        assert_non_null(strstr(line, expected));
        assert_non_null(strstr(line, known[i].ptsz ? "ptsz=1" : "ptsz=0"));
    }
}

/* Freed or remapped addresses are told of whether or not anything is open; a second list of all
 * that can take memory of a pool away, unmap it, or change who may use it. */
static void memory_that_goes_is_told(void **state)
{
    (void)state;
    static const char *const names[] = {"cuMemFree_v2",         "cuMemFreeAsync",
                                        "cuMemFreeAsync_ptsz",  "cuMemFreeHost",
                                        "cuMemUnmap",           "cuMemPoolTrimTo",
                                        "cuMemPoolDestroy",     "cuMemPoolSetAttribute",
                                        "cuMemRelease",         "cuMemAddressFree",
                                        "cuDeviceGraphMemTrim", "cuGraphDestroy",
                                        "cuGraphExecDestroy",   "cuCtxDisablePeerAccess",
                                        "cuMemMapArrayAsync"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        call(names[i], 0x600);
        assert_reached(names[i], 0x600);
        const char *said = told();
        size_t length = strlen(said), ending = strlen("memory\n");
        assert_true(length >= ending);
        assert_string_equal(said + length - ending, "memory\n");
    }
    call("cuMemMap", 0x600);
    assert_int_equal(last_call()->args[4], 0x604);
    assert_non_null(strstr(told(), "memory\n"));
}

/* So is what lets kernels get at memory of other devices. */
static void access_is_told(void **state)
{
    (void)state;
    call("cuMemPoolSetAccess", 0x600);
    assert_told("%s", "barrier cuMemPoolSetAccess\nmemory\npeers\n");
    call("cuMemSetAccess", 0x600);
    assert_told("%smemory\naccess %d\n", open_streams ? "barrier cuMemSetAccess\n" : "", 0x603);
}

static void floating_arguments_survive(void **state)
{
    (void)state;
    int (*set)(void *, float);
    *(void **)&set = dlsym(libcuda, "cuTexRefSetMipmapLevelBias");
    assert_int_equal(set((void *)7, 2.5F), 0);
    assert_true(last_call()->floating == 2.5); /* exact: a half */
    assert_int_equal(last_call()->args[0], 7);
    assert_told("invalidate_functions cuTexRefSetMipmapLevelBias\n");
}

static void launches_are_decoded(void **state)
{
    (void)state;
    call("cuLaunchKernel", 1);
    assert_told(
        "launch cuLaunchKernel ptsz=0 grid=2,3,4 block=5,6,7 shared=8 stream=0x9 attrs=0\n");
    call("cuLaunchKernel_ptsz", 1);
    assert_told(
        "launch cuLaunchKernel_ptsz ptsz=1 grid=2,3,4 block=5,6,7 shared=8 stream=0x9 attrs=0\n");
    call("cuLaunchCooperativeKernel", 1);
    assert_told("launch cuLaunchCooperativeKernel ptsz=0 grid=2,3,4 block=5,6,7 shared=8 "
                "stream=0x9 attrs=1\n");
    call("cuLaunchCooperativeKernel_ptsz", 1);
    assert_told("launch cuLaunchCooperativeKernel_ptsz ptsz=1 grid=2,3,4 block=5,6,7 shared=8 "
                "stream=0x9 attrs=1\n");
    CUlaunchAttribute attribute = {0};
    CUlaunchConfig config = {1, 2, 3, 4, 5, 6, 7, (CUstream)0x88, &attribute, 1};
    int (*launch)(const CUlaunchConfig *, void *, void *, void *);
    *(void **)&launch = dlsym(libcuda, "cuLaunchKernelEx");
    launch(&config, (void *)1, NULL, NULL);
    assert_told(
        "launch cuLaunchKernelEx ptsz=0 grid=1,2,3 block=4,5,6 shared=7 stream=0x88 attrs=1\n");
    *(void **)&launch = dlsym(libcuda, "cuLaunchKernelEx_ptsz");
    launch(&config, (void *)1, NULL, NULL);
    assert_told("launch cuLaunchKernelEx_ptsz ptsz=1 grid=1,2,3 block=4,5,6 shared=7 stream=0x88 "
                "attrs=1\n");
}

/* The driver is the one to judge a bad configuration. */
static void bad_configurations_reach_the_driver(void **state)
{
    (void)state;
    int (*launch)(const CUlaunchConfig *, void *, void *, void *);
    *(void **)&launch = dlsym(libcuda, "cuLaunchKernelEx");
    next_result(CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(NULL, (void *)1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(last_call()->name, "cuLaunchKernelEx");
    CUlaunchConfig config = {.numAttrs = 2};
    next_result(CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(&config, (void *)1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(told(), "");
}

static const struct {
    const char *name;
    unsigned int value;
    int size;
} sets[] = {{"D8", 0x22, 1}, {"D16", 0x1122, 2}, {"D32", 0x11223322, 4}};

static void memory_ops_are_decoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int ptsz = 0; ptsz <= 1; ptsz++) {
            char name[64];
            snprintf(name, sizeof(name), "cuMemset%sAsync%s", sets[i].name, ptsz ? "_ptsz" : "");
            generic set = (generic)dlsym(libcuda, name);
            set(0x10, sets[i].value, 30, 40, 0, 0, 0, 0, 0, 0, 0, 0);
            assert_told(
                "memset %s ptsz=%d dst=10 pitch=0 value=%x elem=%d width=30 height=1 stream=0x28\n",
                name, ptsz, sets[i].value, sets[i].size);
            snprintf(name, sizeof(name), "cuMemsetD2%sAsync%s", sets[i].name, ptsz ? "_ptsz" : "");
            set = (generic)dlsym(libcuda, name);
            set(0x10, 512, sets[i].value, 3, 4, 5, 0, 0, 0, 0, 0, 0);
            assert_told(
                "memset %s ptsz=%d dst=10 pitch=512 value=%x elem=%d width=3 height=4 stream=0x5\n",
                name, ptsz, sets[i].value, sets[i].size);
        }
    for (int variant = 0; variant < 4; variant++) {
        static const char *const names[] = {"cuMemcpyAsync", "cuMemcpyAsync_ptsz",
                                            "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz"};
        call(names[variant], 0x20);
        assert_told("copy %s ptsz=%d dst=20 src=21 bytes=34 stream=0x23\n", names[variant],
                    variant & 1);
    }
}

/* Fills and copies of a default stream that is not named. */
static const char *default_stream(int ptds)
{
    return ptds ? "0x2" : "(nil)";
}

static void memory_ops_of_no_stream_are_decoded(void **state)
{
    (void)state;
    for (int ptds = 0; ptds <= 1; ptds++) {
        const char *end = ptds ? "_ptds" : "";
        char name[64];
        for (size_t i = 0; i < 3; i++) {
            snprintf(name, sizeof(name), "cuMemset%s_v2%s", sets[i].name, end);
            generic set = (generic)dlsym(libcuda, name);
            set(0x10, sets[i].value, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0);
            assert_told("memset %s ptsz=%d dst=10 pitch=0 value=%x elem=%d width=30 height=1 "
                        "stream=%s\n",
                        name, ptds, sets[i].value, sets[i].size, default_stream(ptds));
            snprintf(name, sizeof(name), "cuMemsetD2%s_v2%s", sets[i].name, end);
            set = (generic)dlsym(libcuda, name);
            set(0x10, 512, sets[i].value, 3, 4, 0, 0, 0, 0, 0, 0, 0);
            assert_told("memset %s ptsz=%d dst=10 pitch=512 value=%x elem=%d width=3 height=4 "
                        "stream=%s\n",
                        name, ptds, sets[i].value, sets[i].size, default_stream(ptds));
        }
        snprintf(name, sizeof(name), "cuMemcpyDtoD_v2%s", end);
        call(name, 0x20);
        assert_told("copy %s ptsz=%d dst=20 src=21 bytes=34 stream=%s\n", name, ptds,
                    default_stream(ptds));
    }
}

/* Copies of rows: those that make sense are ops, and what is not between device memory is not. */
static void copies_of_rows_are_decoded(void **state)
{
    (void)state;
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcXInBytes = 4,
                          .srcY = 2,
                          .srcDevice = 0x1000,
                          .srcPitch = 0x100,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = 0x2000,
                          .dstPitch = 0x80,
                          .WidthInBytes = 8,
                          .Height = 3};
    generic copy = (generic)dlsym(libcuda, "cuMemcpy2DAsync_v2");
    copy((uintptr_t)&flat, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("copy cuMemcpy2DAsync_v2 ptsz=0 dst=2000 src=1204 bytes=8 stream=0x77\n");
    flat.srcPitch = flat.dstPitch = 8; /* side by side: one row */
    flat.srcXInBytes = 0;
    copy = (generic)dlsym(libcuda, "cuMemcpy2DUnaligned_v2");
    copy((uintptr_t)&flat, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("copy cuMemcpy2DUnaligned_v2 ptsz=0 dst=2000 src=1010 bytes=24 stream=(nil)\n");
    flat.dstPitch = 7;
    copy((uintptr_t)&flat, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("barrier cuMemcpy2DUnaligned_v2\n");
    flat.dstPitch = 8;
    flat.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy = (generic)dlsym(libcuda, "cuMemcpy2D_v2_ptds");
    copy((uintptr_t)&flat, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("barrier cuMemcpy2D_v2_ptds\n");
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcZ = 1,
                          .srcDevice = 0x1000,
                          .srcPitch = 0x10,
                          .srcHeight = 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = 0x2000,
                          .dstPitch = 0x20,
                          .dstHeight = 2,
                          .WidthInBytes = 8,
                          .Height = 2,
                          .Depth = 2};
    copy = (generic)dlsym(libcuda, "cuMemcpy3DAsync_v2_ptsz");
    copy((uintptr_t)&deep, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("copy cuMemcpy3DAsync_v2_ptsz ptsz=1 dst=2000 src=1040 bytes=8 stream=0x2\n");
    deep.dstArray = (CUarray)0x5;
    deep.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy((uintptr_t)&deep, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("sync point cuMemcpy3DAsync_v2_ptsz ptsz=1 blocks=1 stream=0x77\n");
}

/* Hooks that flush one stream, with the place of their stream, and whether the host can wait. One
 * that has waited says so if somebody wants to know. */
static void stream_hooks_flush_their_stream(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int position;
        int blocks;
    } hooks[] = {
        {"cuStreamSynchronize", 0, 1},  {"cuStreamQuery", 0, 0},
        {"cuStreamWaitEvent", 0, 0},    {"cuEventRecord", 1, 0},
        {"cuMemcpyDtoHAsync_v2", 3, 1}, {"cuEventRecordWithFlags", 1, 0},
        {"cuMemcpyHtoDAsync_v2", 3, 1},
    };
    for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
        for (int ptsz = 0; ptsz <= 1; ptsz++) {
            char name[64];
            snprintf(name, sizeof(name), "%s%s", hooks[i].name, ptsz ? "_ptsz" : "");
            call(name, 0x700);
            assert_string_equal(last_call()->name, name);
            assert_told("sync point %s ptsz=%d blocks=%d stream=0x%x\n%s", name, ptsz,
                        hooks[i].blocks, 0x700 + hooks[i].position, i ? "" : "returned\n");
        }
}

static void barrier_hooks_flush_everything(void **state)
{
    (void)state;
    static const char *const names[] = {"cuCtxSynchronize",     "cuCtxSynchronize_v2",
                                        "cuMemcpyDtoH_v2",      "cuMemcpyHtoD_v2",
                                        "cuMemcpyDtoH_v2_ptds", "cuMemcpyHtoD_v2_ptds"};
    static const char *const copies[] = {"cuMemcpy", "cuMemcpy_ptds"};
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        call(copies[i], 0x10);
        assert_string_equal(last_call()->name, copies[i]);
        assert_told("copy to 0x10 from 0x11\nbarrier %s\n", copies[i]);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        call(names[i], 1);
        assert_string_equal(last_call()->name, names[i]);
        assert_told("barrier %s\n", names[i]);
    }
}

/* Their records may be held back, and these calls could notice it. */
static void events_are_followed(void **state)
{
    (void)state;
    uint64_t event = 0x15;
    call("cuEventSynchronize", 0x11);
    assert_string_equal(last_call()->name, "cuEventSynchronize");
    assert_told("event settles 0x11\nbarrier cuEventSynchronize\n");
    call("cuEventQuery", 0x12);
    assert_string_equal(last_call()->name, "cuEventQuery");
    assert_told("event query 0x12\n");
    static const char *const ends[] = {"cuEventDestroy", "cuEventDestroy_v2"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        call(ends[i], 0x13);
        assert_string_equal(last_call()->name, ends[i]);
        assert_told("event ends 0x13\n");
    }
    static const char *const all[] = {"cuCtxRecordEvent", "cuGreenCtxRecordEvent", "cuCtxWaitEvent",
                                      "cuGreenCtxWaitEvent"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        call(all[i], 0x14);
        assert_string_equal(last_call()->name, all[i]);
        assert_told("event settles 0x15\nbarrier %s\nevents unseen\n", all[i]);
    }
    ((int (*)(void *, unsigned int))dlsym(libcuda, "cuEventCreate"))(&event, 2);
    assert_string_equal(last_call()->name, "cuEventCreate");
    assert_told("event made 0x15 flags=2\n");
    CUipcEventHandle handle = {{0}};
    ((int (*)(void *, CUipcEventHandle))dlsym(libcuda, "cuIpcOpenEventHandle"))(&event, handle);
    assert_string_equal(last_call()->name, "cuIpcOpenEventHandle");
    assert_told("barrier cuIpcOpenEventHandle\nevent made 0x15 flags=4\n");
}

/* An error of earlier work comes back where the call itself succeeds, and only there. */
static void pending_errors_are_returned(void **state)
{
    (void)state;
    setenv("AG_TEST_ERROR", "700", 1);
    assert_int_equal(call("cuStreamSynchronize", 1), 700);
    assert_int_equal(call("cuEventRecord", 1), 700);
    assert_int_equal(call("cuCtxSynchronize", 1), 700);
    assert_int_equal(call("cuCtxDestroy_v2", 1), 700);
    assert_int_equal(call("cuCtxDetach", 1), 700);
    assert_int_equal(call("cuDevicePrimaryCtxRelease_v2", 1), 700);
    assert_int_equal(call("cuDevicePrimaryCtxReset_v2", 1), 700);
    next_result(CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(call("cuStreamSynchronize", 1), CUDA_ERROR_INVALID_HANDLE);
    next_result(CUDA_ERROR_NOT_READY);
    assert_int_equal(call("cuStreamQuery", 1), 700);
    unsetenv("AG_TEST_ERROR");
    next_result(CUDA_ERROR_NOT_READY);
    assert_int_equal(call("cuStreamQuery", 1), CUDA_ERROR_NOT_READY);
    told();
}

static void what_ends_is_told(void **state)
{
    (void)state;
    call("cuStreamDestroy_v2", 0x30);
    assert_told("stream_ends cuStreamDestroy_v2 stream=0x30\n");
    call("cuCtxDestroy_v2", 0x40);
    assert_told("context_may_end cuCtxDestroy_v2 ctx=0x40\ncontext_ended 0x77 ended=1\n");
    next_result(CUDA_ERROR_INVALID_CONTEXT);
    call("cuCtxDestroy_v2", 0x40);
    assert_told(
        "context_may_end cuCtxDestroy_v2 ctx=0x40\ncontext_ended 0x77 ended=0\nerror 201\n");
    CUcontext attached = (CUcontext)0x41;
    call("cuCtxAttach", (uintptr_t)&attached);
    assert_told("barrier cuCtxAttach\ncontext_attached ctx=0x41\n");
    call("cuCtxDetach", 0x40);
    assert_told("context_may_end cuCtxDetach ctx=0x40\ncontext_detached 0x77\n"
                "context_ended 0x77 ended=0\n");
    call("cuDevicePrimaryCtxReset_v2", 3);
    assert_told("primary_begins cuDevicePrimaryCtxReset_v2 device=3\n"
                "primary_resets cuDevicePrimaryCtxReset_v2 device=3\n"
                "primary_reset 0x79 device=3 locked=1 success=1\n");
    call("cuDevicePrimaryCtxRelease", 3);
    assert_told("primary_begins cuDevicePrimaryCtxRelease device=3\n"
                "primary_releases cuDevicePrimaryCtxRelease device=3 locked=1\n"
                "primary_released 0x78 device=3 locked=1 success=1\n");
    call("cuGreenCtxDestroy", 0x50);
    assert_told("barrier cuGreenCtxDestroy\ngreen_context_ends\n"
                "green_context_ended 0x50 latest=7 success=1\n");
    call("cuModuleUnload", 3);
    assert_told("invalidate_module cuModuleUnload module=0x3\n");
    call("cuFuncSetAttribute", 5);
    assert_told("function_changes cuFuncSetAttribute func=0x5 attribute=6 value=7 device=-1\n"
                "function_changed func=0x5 attribute=6 value=7 device=-1 change=1 result=0\n");
    next_result(CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(call("cuKernelSetAttribute", 5), CUDA_ERROR_INVALID_VALUE);
    assert_told("function_changes cuKernelSetAttribute func=0x7 attribute=5 value=6 device=8\n"
                "function_changed func=0x7 attribute=5 value=6 device=8 change=1 result=1\n");
    next_result(CUDA_SUCCESS);
    call("cuFuncSetCacheConfig", 5);
    assert_told("function_changes cuFuncSetCacheConfig func=0x5 attribute=-1 value=6 device=-1\n"
                "function_changed func=0x5 attribute=-1 value=6 device=-1 change=1 result=0\n");
    call("cuFuncSetSharedMemConfig", 5);
    assert_told(
        "function_changes cuFuncSetSharedMemConfig func=0x5 attribute=-2 value=6 device=-1\n"
        "function_changed func=0x5 attribute=-2 value=6 device=-1 change=1 result=0\n");
    generic limit = (generic)dlsym(libcuda, "cuCtxSetLimit");
    limit(3, 300, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* the limit that is set already */
    assert_told("%s", "");
    limit(3, 301, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("invalidate_functions cuCtxSetLimit\ninvalidate_functions_again\n");
    limit(3, 301, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* the driver has made 300 of it */
    assert_told("%s", "");
    limit(3, 302, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    limit(3, 301, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("invalidate_functions cuCtxSetLimit\ninvalidate_functions_again\n"
                "invalidate_functions cuCtxSetLimit\ninvalidate_functions_again\n");
}

#define END "sync point cuStreamEndCapture ptsz=0 blocks=0 stream=0x50\n"

static void captures_are_followed(void **state)
{
    (void)state;
    call("cuStreamBeginCapture_v2", 0x50);
    assert_told("capture_begins cuStreamBeginCapture_v2\ncapture_began 1\n");
    next_result(CUDA_ERROR_INVALID_VALUE);
    call("cuStreamBeginCaptureToGraph_ptsz", 0x50);
    assert_told("capture_begins cuStreamBeginCaptureToGraph_ptsz\ncapture_began 0\n");
    call("cuStreamBeginRecaptureToGraph", 0x50);
    assert_told("capture_begins cuStreamBeginRecaptureToGraph\ncapture_began 1\n");
    call("cuStreamBeginCaptureToCig_ptsz", 0x50);
    assert_told("capture_begins cuStreamBeginCaptureToCig_ptsz\ncapture_began 1\n");
    capturing(1, 0);
    call("cuStreamEndCapture", 0x50);
    assert_told(END "capture_ended\n");
    capturing(2, 0); /* an invalidated one ends with an error */
    next_result(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(call("cuStreamEndCapture", 0x50), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_told(END "capture_ended\n");
    capturing(1, 1); /* another thread's goes on */
    next_result(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    call("cuStreamEndCapture", 0x50);
    assert_told(END);
    capturing(0, 0);
    next_result(CUDA_ERROR_ILLEGAL_STATE);
    call("cuStreamEndCapture", 0x50);
    assert_told(END);
    capturing(1, 0);
    call("cuStreamDestroy_v2", 0x50);
    assert_told("stream_ends cuStreamDestroy_v2 stream=0x50\ncapture_ended\n");
    capturing(1, 0);
    call("cuStreamDestroy_v2", 0x51);
    assert_told("stream_ends cuStreamDestroy_v2 stream=0x51\n");
    capturing(0, 0);
}

/* Of that stream alone. */
static void stream_attributes_end_deferral(void **state)
{
    (void)state;
    generic set = (generic)dlsym(libcuda, "cuStreamSetAttribute");
    set(0x60, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("sync point cuStreamSetAttribute ptsz=0 blocks=0 stream=0x60\n");
    set(0x60, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("sync point cuStreamSetAttribute ptsz=0 blocks=0 stream=0x60\n"
                "not_understood cuStreamSetAttribute ptsz=0 stream=0x60\n");
    next_result(CUDA_ERROR_INVALID_VALUE);
    set(0x60, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_null(strstr(told(), "not_understood "));
    call("cuStreamCopyAttributes_ptsz", 0x60);
    assert_told("sync point cuStreamCopyAttributes_ptsz ptsz=1 blocks=0 stream=0x60\n"
                "not_understood cuStreamCopyAttributes_ptsz ptsz=1 stream=0x60\n");
}

/* Around the call, for the builder is to rest before the stream waits. */
static void waits_for_memory_are_told(void **state)
{
    (void)state;
    call("cuStreamWaitValue32_v2", 0x62);
    assert_told("sync point cuStreamWaitValue32_v2 ptsz=0 blocks=1 stream=0x62\n"
                "wait_begins ptsz=0 stream=0x62\n"
                "wait_ends ptsz=0 waits=1 stream=0x62\n");
    next_result(CUDA_ERROR_NOT_SUPPORTED);
    call("cuStreamBatchMemOp_v2_ptsz", 0x62);
    assert_told("sync point cuStreamBatchMemOp_v2_ptsz ptsz=1 blocks=1 stream=0x62\n"
                "wait_begins ptsz=1 stream=0x62\n"
                "wait_ends ptsz=1 waits=0 stream=0x62\nerror 801\n");
}

/* They may wait for anything: a function of the library's is launched, which runs them. */
static void host_functions_are_told(void **state)
{
    (void)state;
    for (int ptsz = 0; ptsz <= 1; ptsz++)
        for (int kind = 0; kind < 3; kind++) {
            static const char *const kinds[] = {"cuLaunchHostFunc", "cuLaunchHostFunc_v2",
                                                "cuStreamAddCallback"};
            bool callback = kind == 2;
            char name[64], begins[256];
            snprintf(name, sizeof(name), "%s%s", kinds[kind], ptsz ? "_ptsz" : "");
            snprintf(begins, sizeof(begins),
                     "sync point %s ptsz=%d blocks=1 stream=0x700\n"
                     "host_begins ptsz=%d stream=0x700 function=%s callback=%s data=0x702\n",
                     name, ptsz, ptsz, callback ? "(nil)" : "0x701", callback ? "0x701" : "(nil)");
            call(name, 0x700);
            assert_string_equal(last_call()->name, name);
            assert_int_equal(last_call()->args[0], 0x700);
            assert_int_not_equal(last_call()->args[1], 0x701);
            assert_int_equal(last_call()->args[2], 0xca11);
            assert_told("%shost_ends (nil)\n", begins);
            next_result(CUDA_ERROR_INVALID_HANDLE);
            call(name, 0x700);
            assert_told("%shost_ends 0xca11\nerror 400\n", begins);
            generic launch = (generic)dlsym(libcuda, name); /* capture/ wants it as it is */
            launch(0x700, 0x701, 0xbad, 0x703, 0, 0, 0, 0, 0, 0, 0, 0);
            assert_null(strstr(told(), "host_ends"));
            assert_int_equal(last_call()->args[1], 0x701);
            assert_int_equal(last_call()->args[2], 0xbad);
            launch(0x700, 0, 0x702, 0x703, 0, 0, 0, 0, 0, 0, 0, 0); /* no function */
            assert_told("sync point %s ptsz=%d blocks=1 stream=0x700\n", name, ptsz);
            assert_int_equal(last_call()->args[1], 0);
        }
}

/* A graph of the program's may wait too, by a node of it, or free memory. */
static void waiting_nodes_are_told(void **state)
{
    (void)state;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    generic add = (generic)dlsym(libcuda, "cuGraphAddBatchMemOpNode");
    add(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_wait\n");
    add = (generic)dlsym(libcuda, "cuGraphAddHostNode");
    add(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_wait\n");
    add = (generic)dlsym(libcuda, "cuGraphAddMemFreeNode");
    add(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_free\n");
    add = (generic)dlsym(libcuda, "cuGraphAddNode");
    add(0, 0, 0, 0, (uintptr_t)&params, 0, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_wait\n");
    add = (generic)dlsym(libcuda, "cuGraphAddNode_v2");
    add(0, 0, 0, 0, 0, (uintptr_t)&params, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_wait\n");
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    add(0, 0, 0, 0, 0, (uintptr_t)&params, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_wait\n");
    params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    add(0, 0, 0, 0, 0, (uintptr_t)&params, 0, 0, 0, 0, 0, 0);
    assert_told("graphs_free\n");
    params.type = CU_GRAPH_NODE_TYPE_EMPTY;
    add(0, 0, 0, 0, 0, (uintptr_t)&params, 0, 0, 0, 0, 0, 0);
    assert_string_equal(told(), "");
    next_result(CUDA_ERROR_INVALID_VALUE); /* whose pointers must not be read */
    add(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_null(strstr(told(), "graphs_wait"));
    call("cuGraphLaunch", 0x62);
    assert_told("sync point cuGraphLaunch ptsz=0 blocks=0 stream=0x63\n"
                "graph_wait_begins ptsz=0 stream=0x63\nwait_ends ptsz=0 waits=1 stream=0x63\n");
    call("cuGraphLaunch_ptsz", 0x62);
    assert_told("sync point cuGraphLaunch_ptsz ptsz=1 blocks=0 stream=0x63\n"
                "graph_wait_begins ptsz=1 stream=0x63\nwait_ends ptsz=1 waits=1 stream=0x63\n");
}

static void streams_of_green_contexts_are_not_deferred(void **state)
{
    (void)state;
    CUstream stream = (CUstream)0x61; /* the fake driver leaves it as it is */
    generic create = (generic)dlsym(libcuda, "cuGreenCtxStreamCreate");
    create((uint64_t)&stream, 0x62, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("barrier cuGreenCtxStreamCreate\n"
                "green_stream cuGreenCtxStreamCreate stream=0x61 green=0x62\n");
    next_result(CUDA_ERROR_INVALID_VALUE);
    create((uint64_t)&stream, 0x62, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_null(strstr(told(), "green_stream "));
}

static void retains_are_counted(void **state)
{
    (void)state;
    generic retain = (generic)dlsym(libcuda, "cuDevicePrimaryCtxRetain");
    CUcontext ctx;
    retain((uint64_t)&ctx, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("primary_begins cuDevicePrimaryCtxRetain device=3\n"
                "primary_retained device=3 locked=1 success=1\n");
    next_result(CUDA_ERROR_INVALID_DEVICE);
    retain((uint64_t)&ctx, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_told("primary_begins cuDevicePrimaryCtxRetain device=3\n"
                "primary_retained device=3 locked=1 success=0\n");
}

/* Entry points of a newer driver: exported, in no table. One line is said about all of them, none
 * about graphics interoperability, which every driver exports. */
static void unknown_symbols_are_barriers(void **state)
{
    (void)state;
    void *interop = dlsym(libcuda, "cuGLMapBufferObject_v2");
    assert_ptr_not_equal(interop, address_of("cuGLMapBufferObject_v2"));
    assert_string_equal(told(), "");
    void *stub = dlsym(libcuda, "cuNewerCall");
    assert_non_null(stub);
    assert_ptr_not_equal(stub, address_of("cuNewerCall"));
    assert_ptr_equal(dlsym(libcuda, "cuNewerCall"), stub);
    assert_told("log start this driver has entry points that this library does not know "
                "(cuNewerCall first): they are treated as barriers\n");
    assert_ptr_not_equal(dlsym(libcuda, "cuNewerCall2"), stub);
    assert_string_equal(told(), "");
    static const char *const names[] = {"cuNewerCall", "cuNewerCall2", "cuGLMapBufferObject_v2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        call(names[i], 0x100);
        assert_reached(names[i], 0x100);
        assert_told("barrier an entry point of a newer driver\nmemory\n");
    }
    static const char *const versions[] = {"cuKernelSetAttribute_v9", "cuStreamWaitValue32_v9",
                                           "cuLaunchHostFunc_v9",     "cuMulticastBindMem_v9",
                                           "cuGraphAddNode_v9",       "cuGraphLaunch_v9",
                                           "cuLaunchKernelEx_v9"};
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        dlsym(libcuda, versions[i]);
        told();
        call(versions[i], 0x100);
        assert_reached(versions[i], 0x100);
        assert_told("barrier an entry point of a newer driver\nmemory\n"
                    "observe a newer driver's version of a call that the library must follow\n");
    }
    dlsym(libcuda, "cuEventRecord_v9");
    told();
    call("cuEventRecord_v9", 0x100);
    assert_told("barrier an entry point of a newer driver\nmemory\n");
}

/* By their names: what begins a capture, what ends one, and what is asked about behind it. */
static void unknown_captures_are_followed(void **state)
{
    (void)state;
    static const char begins[] = "capture_begins an entry point of a newer driver\ncapture_began ";
    dlsym(libcuda, "cuNewerBeginCapture");
    told();
    call("cuNewerBeginCapture", 0x100);
    assert_reached("cuNewerBeginCapture", 0x100);
    assert_told("%s1\n", begins);
    next_result(CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(call("cuNewerBeginCapture", 0x100), CUDA_ERROR_INVALID_VALUE);
    assert_told("%s0\n", begins);
    call("cuNewerEndCapture", 0x100);
    assert_reached("cuNewerEndCapture", 0x100);
    assert_told("barrier an entry point of a newer driver\ncapture_ended\n");
    next_result(CUDA_ERROR_INVALID_VALUE);
    call("cuNewerEndCapture", 0x100);
    assert_told("barrier an entry point of a newer driver\n");
    call("cuNewerCaptureCall", 0x100);
    assert_reached("cuNewerCaptureCall", 0x100);
    assert_told("barrier an entry point of a newer driver\n%s1\n", begins);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_are_not_touched),
        cmocka_unit_test(stubs_pass_arguments),
        cmocka_unit_test(streams_are_found),
        cmocka_unit_test(memory_that_goes_is_told),
        cmocka_unit_test(access_is_told),
        cmocka_unit_test(floating_arguments_survive),
        cmocka_unit_test(launches_are_decoded),
        cmocka_unit_test(bad_configurations_reach_the_driver),
        cmocka_unit_test(memory_ops_are_decoded),
        cmocka_unit_test(memory_ops_of_no_stream_are_decoded),
        cmocka_unit_test(copies_of_rows_are_decoded),
        cmocka_unit_test(stream_hooks_flush_their_stream),
        cmocka_unit_test(barrier_hooks_flush_everything),
        cmocka_unit_test(events_are_followed),
        cmocka_unit_test(pending_errors_are_returned),
        cmocka_unit_test(what_ends_is_told),
        cmocka_unit_test(captures_are_followed),
        cmocka_unit_test(stream_attributes_end_deferral),
        cmocka_unit_test(waits_for_memory_are_told),
        cmocka_unit_test(host_functions_are_told),
        cmocka_unit_test(waiting_nodes_are_told),
        cmocka_unit_test(streams_of_green_contexts_are_not_deferred),
        cmocka_unit_test(retains_are_counted),
        cmocka_unit_test(unknown_symbols_are_barriers),
        cmocka_unit_test(unknown_captures_are_followed),
    };
    (void)argc;
    (void)argv;
    const char *open = getenv("AG_TEST_OPEN");
    open_streams = open && atoi(open) != 0;
    told_open();
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 1;
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    *(void **)&last_call = dlsym(libcuda, "fake_last");
    *(void **)&next_result = dlsym(libcuda, "fake_next_result");
    *(void **)&capturing = dlsym(libcuda, "fake_capturing");
    call("cuCtxSynchronize", 0);
    if (strcmp(told(), "start replay\nbarrier cuCtxSynchronize\n") != 0) {
        fprintf(stderr, "the library did not start\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
