/*
 * interop.c - programs that share memory and order with another process or another API;
 * `interop CASE [N]`.
 *
 * Each repeats a step of launches, N times, with the calls of one way of sharing in the middle of
 * it. What the other side has seen goes into the result: no two launches commute with each other or
 * with what the other side does, so that work which reaches the driver too late, or an order that
 * is lost, shows. Every seventh step has those calls at another place.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP = 20, BYTES = 4096, PEER_FD = 3 };

static CUfunction hash;
static CUstream stream;
static CUdeviceptr own;

static void start(void)
{
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    own = ag_prog_alloc(BYTES);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

/* Launches number `from` to `to` of a step; they look unlike each other. */
static void launches(CUdeviceptr x, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++)
        CHECK(cuLaunchKernel(hash, 1 + (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                             (void *[]){&x, &k}, NULL));
}

/* Where in its step the calls that share come. */
static uint64_t place(int step)
{
    return step % 7 == 6 ? 5 : 8;
}

/* A step that begins with a copy of what is shared, until it is well known: once the memory is
 * gone, the copy is refused as if it had never been. */
static void copying_steps(CUdeviceptr x)
{
    for (int i = 0; i < 12; i++) {
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream));
        launches(own, 0, STEP);
        CHECK(cuStreamSynchronize(stream));
    }
}

static int copy_of_nothing(CUdeviceptr x)
{
    int code = (int)cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream);
    launches(own, 0, STEP);
    return code;
}

static int result(CUdeviceptr x, uint64_t seen)
{
    CHECK(cuStreamSynchronize(stream));
    printf("value %llu, own %llu and %llu, seen %llu\n", (unsigned long long)ag_prog_read64(x),
           (unsigned long long)ag_prog_read64(own), (unsigned long long)ag_prog_read64(own + 8),
           (unsigned long long)seen);
    return 0;
}

/* ---- memory and semaphores of another API
 * -------------------------------------------------------------------------------------- */

/* A file that both sides hold; this side's view of it. */
static _Atomic uint64_t *shared_file(int *fd)
{
    *fd = memfd_create("interop", MFD_CLOEXEC);
    REQUIRE(*fd >= 0 && !ftruncate(*fd, BYTES));
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    REQUIRE(p != MAP_FAILED);
    return p;
}

static CUexternalSemaphore import_semaphore(int fd, CUexternalSemaphoreHandleType type)
{
    CUexternalSemaphore semaphore;
    CHECK(cuImportExternalSemaphore(
        &semaphore, &(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC){.type = type, .handle.fd = fd}));
    return semaphore;
}

static CUdeviceptr import_buffer(int fd, CUexternalMemory *memory)
{
    CUdeviceptr x;
    CHECK(cuImportExternalMemory(
        memory,
        &(CUDA_EXTERNAL_MEMORY_HANDLE_DESC){
            .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = BYTES}));
    CHECK(cuExternalMemoryGetMappedBuffer(&x, *memory,
                                          &(CUDA_EXTERNAL_MEMORY_BUFFER_DESC){.size = BYTES}));
    return x;
}

static void signal_to(CUexternalSemaphore semaphore, uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    CHECK(cuSignalExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

static void wait_for(CUexternalSemaphore semaphore, uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = value};
    CHECK(cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

/* The other API: a thread that knows the files and nothing of CUDA. */
struct other_api {
    _Atomic uint64_t *memory;
    _Atomic uint64_t *ready, *done; /* one word for both where it is a timeline */
    int steps;
    uint64_t seen;
};

static void await_word(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load(word) < value)
        sched_yield();
}

static void *other_api(void *argument)
{
    struct other_api *api = argument;
    bool timeline = api->ready == api->done;
    for (uint64_t i = 0; i < (uint64_t)api->steps; i++) {
        await_word(api->ready, timeline ? 2 * i + 1 : 1);
        if (!timeline)
            atomic_store(api->ready, 0);
        uint64_t value = atomic_load(&api->memory[0]);
        api->seen = api->seen * 31 + value;
        atomic_store(&api->memory[0], value * 7 + i);
        atomic_store(api->done, timeline ? 2 * i + 2 : 1);
    }
    return NULL;
}

static int with_semaphores(int n, bool timeline)
{
    struct other_api api = {.steps = n};
    CUexternalMemory memory;
    CUexternalSemaphore ready, done;
    pthread_t thread;
    int fd;
    start();
    api.memory = shared_file(&fd);
    CUdeviceptr x = import_buffer(fd, &memory);
    api.ready = api.done = shared_file(&fd);
    ready = done =
        import_semaphore(fd, timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
                                      : CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD);
    if (!timeline) {
        api.done = shared_file(&fd);
        done = import_semaphore(fd, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD);
    }
    REQUIRE(!pthread_create(&thread, NULL, other_api, &api));
    for (int i = 0; i < n; i++) {
        launches(x, 0, place(i));
        signal_to(ready, 2 * (uint64_t)i + 1);
        launches(own, 0, 4); /* runs beside the other API */
        wait_for(done, 2 * (uint64_t)i + 2);
        launches(x, place(i), STEP);
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream));
        if (i % 4 == 3)
            CHECK(cuStreamSynchronize(stream));
    }
    pthread_join(thread, NULL);
    result(x, api.seen);
    /* In the middle of a known step, with what the step works on. */
    launches(x, 0, 5);
    CHECK(cuDestroyExternalSemaphore(ready));
    if (!timeline)
        CHECK(cuDestroyExternalSemaphore(done));
    launches(x, 5, 6);
    CHECK(cuDestroyExternalMemory(memory)); /* what was mapped of it stays */
    CHECK(cuStreamSynchronize(stream));
    result(x, atomic_load(&api.memory[0]));
    copying_steps(x);
    launches(x, 0, 5);
    CHECK(cuMemFree_v2(x));
    printf("after the free: %d\n", copy_of_nothing(x));
    return result(own, atomic_load(&api.memory[0]));
}

static int timeline_semaphores(int n)
{
    return with_semaphores(n, true);
}

static int binary_semaphores(int n)
{
    return with_semaphores(n, false);
}

/* ---- graphics
 * -------------------------------------------------------------------------------------- */

/* What the graphics API does with a buffer that it has got back. */
static void render(void *data, size_t bytes, void *user)
{
    uint64_t *seen = user, *pixels = data;
    (void)bytes;
    *seen = *seen * 31 + *pixels;
    *pixels = *pixels * 7 + 3;
}

static int graphics(int n)
{
    CUgraphicsResource resource;
    CUdeviceptr x = 0;
    size_t bytes;
    uint64_t seen = 0;
    void *registered;
    start();
    REQUIRE(cuSimGraphicsRegister(&registered, BYTES, render, &seen) == 0);
    resource = registered;
    for (int i = 0; i < n; i++) {
        launches(own, 0, 4);
        CHECK(cuGraphicsMapResources(1, &resource, stream));
        CHECK(cuGraphicsResourceGetMappedPointer_v2(&x, &bytes, resource));
        launches(x, 0, place(i));
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream));
        launches(x, 8, STEP);
        CHECK(cuGraphicsUnmapResources(1, &resource, stream));
        launches(own + 8, 0, 4);
        if (i % 4 == 3)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamSynchronize(stream));
    result(own, seen);
    CHECK(cuGraphicsMapResources(1, &resource, stream));
    copying_steps(x);
    CHECK(cuGraphicsUnmapResources(1, &resource, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("when it is not mapped: %d\n", copy_of_nothing(x));
    CHECK(cuGraphicsMapResources(1, &resource, stream));
    copying_steps(x);
    launches(x, 0, 5);
    CHECK(cuGraphicsUnregisterResource(resource));
    printf("when it is gone: %d\n", copy_of_nothing(x));
    return result(own, seen);
}

/* ---- two processes
 * -------------------------------------------------------------------------------------- */

struct handles {
    CUipcMemHandle memory;
    CUipcEventHandle there, back;
    int steps;
};

static int peer_fd;
static pid_t peer;

static void tell(const void *data, size_t bytes)
{
    REQUIRE(write(peer_fd, data, bytes) == (ssize_t)bytes);
}

static void hear(void *data, size_t bytes)
{
    REQUIRE(recv(peer_fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

/* The other side has submitted what this side's next calls need. */
static void tell_turn(void)
{
    tell("", 1);
}

static void hear_turn(void)
{
    char turn;
    hear(&turn, 1);
}

/* The same program once more, as `interop CASE-peer`; the other end of a socket is its PEER_FD. */
static void spawn_peer(const char *name)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    int ends[2];
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], PEER_FD);
    REQUIRE(!posix_spawn(&peer, "/proc/self/exe", &actions, NULL,
                         (char *[]){(char *)"interop", (char *)(uintptr_t)name, NULL}, environ));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    peer_fd = ends[0];
}

static int peer_status(void)
{
    int status;
    REQUIRE(waitpid(peer, &status, 0) == peer);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static CUevent shared_event(CUipcEventHandle *handle)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK(cuIpcGetEventHandle(handle, event));
    return event;
}

/* Two processes work on the same memory in turns. Events order their work; no host waits for it. */
static int ipc_events(int n)
{
    struct handles handles = {.steps = n};
    uint64_t seen;
    spawn_peer("ipc-events-peer");
    start();
    CUdeviceptr x = ag_prog_alloc(BYTES);
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handles.memory, x));
    CUevent there = shared_event(&handles.there), back = shared_event(&handles.back);
    tell(&handles, sizeof handles);
    for (int i = 0; i < n; i++) {
        launches(x, 0, i % 7 == 6 ? 13 : STEP);
        CHECK(cuEventRecord(there, stream));
        tell_turn();
        launches(own, 0, 4);
        hear_turn();
        CHECK(cuStreamWaitEvent(stream, back, 0));
    }
    CHECK(cuEventSynchronize(back));
    EXPECT(cuEventQuery(there), CUDA_SUCCESS);
    hear(&seen, sizeof seen);
    result(x, seen);
    /* The peer's view of it is gone before the memory is. */
    hear_turn();
    CHECK(cuMemFree_v2(x));
    return peer_status();
}

static int ipc_events_peer(int n)
{
    struct handles handles;
    CUevent there, back;
    CUdeviceptr x;
    (void)n;
    start();
    hear(&handles, sizeof handles);
    CHECK(cuIpcOpenMemHandle_v2(&x, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(cuIpcOpenEventHandle(&there, handles.there));
    CHECK(cuIpcOpenEventHandle(&back, handles.back));
    for (int i = 0; i < handles.steps; i++) {
        hear_turn();
        CHECK(cuStreamWaitEvent(stream, there, 0));
        launches(x, STEP, STEP + place(i));
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream));
        launches(x, STEP + 8, 2 * STEP);
        CHECK(cuEventRecord(back, stream));
        launches(own + 8, 0, 4);
        tell_turn();
    }
    CHECK(cuStreamSynchronize(stream));
    uint64_t seen = ag_prog_read64(own + 8);
    tell(&seen, sizeof seen);
    CHECK(cuIpcCloseMemHandle(x));
    tell_turn();
    return 0;
}

/* A process reads what another has worked on after that has waited for it; then it works on the
 * memory itself, and closes its handle with that work not waited for. */
static int ipc_handles(int n)
{
    struct handles handles = {.steps = n};
    uint64_t seen;
    spawn_peer("ipc-handles-peer");
    start();
    CUdeviceptr x = ag_prog_alloc(BYTES);
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handles.memory, x));
    tell(&handles, sizeof handles);
    for (int i = 0; i < n; i++) {
        launches(x, 0, STEP);
        CHECK(cuStreamSynchronize(stream));
        tell_turn();
        hear_turn();
        launches(own, 0, STEP);
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream)); /* what the peer has left in it */
        launches(own + 8, 0, place(i));
        CUipcMemHandle again;
        CHECK(cuIpcGetMemHandle(&again, x));
        launches(own, 8, STEP);
    }
    hear(&seen, sizeof seen);
    result(x, seen);
    return peer_status();
}

static int ipc_handles_peer(int n)
{
    struct handles handles;
    CUdeviceptr x = 0;
    uint64_t seen = 0;
    (void)n;
    start();
    hear(&handles, sizeof handles);
    for (int i = 0; i < handles.steps; i++) {
        hear_turn();
        CHECK(cuIpcOpenMemHandle_v2(&x, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        seen = seen * 31 + ag_prog_read64(x);
        launches(x, STEP, 2 * STEP);
        CHECK(cuMemcpyDtoDAsync_v2(own + 8, x, 8, stream));
        launches(x, STEP, i % 7 == 6 ? STEP + 5 : 2 * STEP);
        CHECK(cuIpcCloseMemHandle(x));
        launches(own + 8, 0, STEP);
        tell_turn();
    }
    CHECK(cuIpcOpenMemHandle_v2(&x, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    copying_steps(x);
    CHECK(cuIpcCloseMemHandle(x));
    seen = seen * 31 + (uint64_t)copy_of_nothing(x);
    CHECK(cuStreamSynchronize(stream));
    seen = seen * 31 + ag_prog_read64(own + 8);
    tell(&seen, sizeof seen);
    return 0;
}

/* Two streams fork and join, and in each tenth step the second waits for the peer's event. The
 * peer's work before that waits for a word, which this process writes behind the first stream. */
static int ipc_gate(int n)
{
    struct handles handles = {.steps = n};
    CUstream second, third;
    CUevent forked, joined, half, there;
    spawn_peer("ipc-gate-peer");
    start();
    CUdeviceptr x = ag_prog_alloc(BYTES);
    CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&half, CU_EVENT_DISABLE_TIMING));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handles.memory, x));
    tell(&handles, sizeof handles);
    hear(&handles.there, sizeof handles.there);
    CHECK(cuIpcOpenEventHandle(&there, handles.there));
    for (unsigned int i = 1; i <= (unsigned int)n; i++) {
        hear_turn();
        launches(own, 0, 4);
        CHECK(cuEventRecord(forked, stream));
        CHECK(cuStreamWaitEvent(second, forked, 0));
        if (i % 10 == 0)
            CHECK(cuStreamWaitEvent(second, there, 0));
        for (uint64_t k = 0; k < 4; k++)
            CHECK(ag_prog_hash(hash, second, own + 8, k));
        launches(own, 4, 8);
        CHECK(cuEventRecord(half, stream));
        CHECK(cuEventSynchronize(half));
        CHECK(cuStreamWriteValue32_v2(third, x + 8, i, 0));
        CHECK(cuEventRecord(joined, second));
        CHECK(cuStreamWaitEvent(stream, joined, 0));
        CHECK(cuStreamSynchronize(stream));
        tell_turn();
    }
    result(own, 0);
    return peer_status();
}

static int ipc_gate_peer(int n)
{
    struct handles handles;
    CUipcEventHandle handle;
    CUdeviceptr x;
    (void)n;
    start();
    hear(&handles, sizeof handles);
    CHECK(cuIpcOpenMemHandle_v2(&x, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CUevent there = shared_event(&handle);
    tell(&handle, sizeof handle);
    for (unsigned int i = 1; i <= (unsigned int)handles.steps; i++) {
        CHECK(cuStreamWaitValue32_v2(stream, x + 8, i, CU_STREAM_WAIT_VALUE_GEQ));
        launches(own, 0, 4);
        CHECK(cuEventRecord(there, stream));
        tell_turn();
        hear_turn();
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuIpcCloseMemHandle(x));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int n);
} cases[] = {{"timeline", timeline_semaphores},
             {"binary", binary_semaphores},
             {"graphics", graphics},
             {"ipc-events", ipc_events},
             {"ipc-events-peer", ipc_events_peer},
             {"ipc-gate", ipc_gate},
             {"ipc-gate-peer", ipc_gate_peer},
             {"ipc-handles", ipc_handles},
             {"ipc-handles-peer", ipc_handles_peer}};

int main(int argc, char **argv)
{
    peer_fd = PEER_FD;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            return cases[i].run(argc > 2 ? atoi(argv[2]) : 10);
    fprintf(stderr, "usage: interop CASE [N]\n");
    return 2;
}
