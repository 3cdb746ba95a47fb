/* test_interop.c - memory and order that are shared with other processes and other APIs. */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 };

static CUfunction hash;
static CUstream stream;
static int peer_fd;
static pid_t peer;

static _Atomic uint64_t *file_of_both(int *fd)
{
    *fd = memfd_create("test", MFD_CLOEXEC);
    REQUIRE(*fd >= 0 && !ftruncate(*fd, BYTES));
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    REQUIRE(p != MAP_FAILED);
    return p;
}

static void external_memory_is_the_file(void **state)
{
    (void)state;
    CUexternalMemory memory;
    CUdeviceptr x, all;
    int fd;
    _Atomic uint64_t *words = file_of_both(&fd);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = BYTES + 1};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 4096 + 64, .size = 4096};
    EXPECT(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
    desc.size = BYTES;
    CHECK(cuImportExternalMemory(&memory, &desc));
    part.size = BYTES;
    EXPECT(cuExternalMemoryGetMappedBuffer(&x, memory, &part), CUDA_ERROR_INVALID_VALUE);
    part.size = 4096;
    CHECK(cuExternalMemoryGetMappedBuffer(&x, memory, &part));
    CHECK(cuExternalMemoryGetMappedBuffer(&all, memory,
                                          &(CUDA_EXTERNAL_MEMORY_BUFFER_DESC){.size = BYTES}));
    CHECK(cuDestroyExternalMemory(memory));
    EXPECT(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);

    atomic_store(&words[(4096 + 64) / 8], 3);
    CHECK(ag_prog_hash(hash, stream, x, 5));
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&words[(4096 + 64) / 8]), 3 * 31 + 5);
    assert_int_equal(ag_prog_read64(all + 4096 + 64), 3 * 31 + 5);
    CHECK(cuMemFree_v2(x));
    EXPECT(cuMemFree_v2(x), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyDtoD_v2(all, x, 8), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree_v2(all));
}

static CUexternalSemaphore semaphore(CUexternalSemaphoreHandleType type, int fd)
{
    CUexternalSemaphore s;
    CHECK(cuImportExternalSemaphore(
        &s, &(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC){.type = type, .handle.fd = fd}));
    return s;
}

static void await(CUexternalSemaphore s, uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = value};
    CHECK(cuWaitExternalSemaphoresAsync(&s, &params, 1, stream));
}

static void signal_it(CUexternalSemaphore s, uint64_t value)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    CHECK(cuSignalExternalSemaphoresAsync(&s, &params, 1, stream));
}

static void a_timeline_is_in_stream_order(void **state)
{
    (void)state;
    int fd;
    CUdeviceptr x = ag_prog_alloc(8);
    _Atomic uint64_t *word = file_of_both(&fd);
    CUexternalSemaphore s = semaphore(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, fd);
    CHECK(cuCtxSynchronize());
    await(s, 5);
    CHECK(ag_prog_hash(hash, stream, x, 1));
    signal_it(s, 6);
    usleep(2000);
    EXPECT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(atomic_load(word), 0);
    atomic_store(word, 4);
    usleep(2000);
    EXPECT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    atomic_store(word, 5);
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(word), 6);
    await(s, 3); /* has been */
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(x), 1);
    CHECK(cuDestroyExternalSemaphore(s));
    EXPECT(cuDestroyExternalSemaphore(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuMemFree_v2(x));
}

static void a_binary_semaphore_is_taken(void **state)
{
    (void)state;
    int fd;
    _Atomic uint64_t *word = file_of_both(&fd);
    CUexternalSemaphore s = semaphore(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, fd);
    signal_it(s, 0);
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(word), 1);
    await(s, 0);
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(word), 0);
    CHECK(cuDestroyExternalSemaphore(s));
}

static void semaphores_are_captured(void **state)
{
    (void)state;
    int fd;
    CUgraph graph;
    CUgraphNode node;
    size_t n = 1;
    CUgraphNodeType type;
    file_of_both(&fd);
    CUexternalSemaphore s = semaphore(CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, fd);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    signal_it(s, 1);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, &node, &n));
    CHECK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
    CHECK(cuGraphDestroy(graph));
    CHECK(cuDestroyExternalSemaphore(s));
}

static void draw(void *data, size_t bytes, void *user)
{
    assert_int_equal(bytes, BYTES);
    *(uint64_t *)user = ++*(uint64_t *)data;
}

static void a_resource_is_touched_while_it_is_mapped(void **state)
{
    (void)state;
    uint64_t drawn = 0, before = cuSimMisuseCount();
    CUdeviceptr p, x = ag_prog_alloc(8);
    size_t bytes;
    void *registered;
    assert_int_equal(cuSimGraphicsRegister(&registered, BYTES, draw, &drawn), 0);
    CUgraphicsResource r = registered;
    EXPECT(cuGraphicsResourceGetMappedPointer_v2(&p, &bytes, r), CUDA_ERROR_NOT_MAPPED);
    EXPECT(cuGraphicsUnmapResources(1, &r, stream), CUDA_ERROR_NOT_MAPPED);
    CHECK(cuGraphicsMapResources(1, &r, stream));
    EXPECT(cuGraphicsMapResources(1, &r, stream), CUDA_ERROR_ALREADY_MAPPED);
    CHECK(cuGraphicsResourceGetMappedPointer_v2(&p, &bytes, r));
    assert_int_equal(bytes, BYTES);
    EXPECT(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD8_v2(p, 0, 8));
    CHECK(cuCtxSynchronize());
    CHECK(ag_prog_hash(hash, stream, p, 7));
    CHECK(cuGraphicsUnmapResources(1, &r, stream));
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(drawn, 8);
    EXPECT(cuMemcpyDtoD_v2(x, p, 8), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphicsMapResources(1, &r, stream));
    assert_int_equal(ag_prog_read64(p), 8);
    CHECK(cuGraphicsUnregisterResource(r));
    EXPECT(cuGraphicsUnregisterResource(r), CUDA_ERROR_INVALID_HANDLE);
    /* A destroyed handle is reported. */
    assert_true(cuSimMisuseCount() > before);
    CHECK(cuMemFree_v2(x));
}

static void what_cannot_be_shared(void **state)
{
    (void)state;
    CUipcMemHandle memory;
    CUipcEventHandle event;
    CUevent e;
    CUdeviceptr managed, x = ag_prog_alloc(8), again;
    CHECK(cuMemAllocManaged(&managed, 8, CU_MEM_ATTACH_GLOBAL));
    EXPECT(cuIpcGetMemHandle(&memory, managed), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcGetMemHandle(&memory, x));
    EXPECT(cuIpcOpenMemHandle_v2(&again, memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcOpenMemHandle_v2(&again, memory, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuIpcCloseMemHandle(x), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    EXPECT(cuIpcGetEventHandle(&event, e), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuEventDestroy_v2(e));
    CHECK(cuMemFree_v2(managed));
    CHECK(cuMemFree_v2(x));
}

/* ---- two processes
 * -------------------------------------------------------------------------------------- */

struct handles {
    CUipcMemHandle memory;
    CUipcEventHandle there, back;
};

static void tell(const void *data, size_t bytes)
{
    REQUIRE(write(peer_fd, data, bytes) == (ssize_t)bytes);
}

static void hear(void *data, size_t bytes)
{
    REQUIRE(recv(peer_fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

static void start_driver(void)
{
    ag_prog_start();
    hash = ag_prog_function(ag_prog_module(), "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* Waits for an event of the other process, works on its memory, and records another. */
static int run_peer(void)
{
    struct handles handles;
    CUdeviceptr x, same;
    CUevent there, back;
    hear(&handles, sizeof handles);
    start_driver();
    CHECK(cuIpcOpenMemHandle_v2(&x, handles.memory, 1));
    CHECK(cuIpcOpenMemHandle_v2(&same, handles.memory, 1));
    REQUIRE(x == same);
    EXPECT(cuMemFree_v2(x), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcOpenEventHandle(&there, handles.there));
    CHECK(cuIpcOpenEventHandle(&back, handles.back));
    CHECK(cuStreamWaitEvent(stream, there, 0));
    CHECK(ag_prog_hash(hash, stream, x, 2));
    CHECK(cuEventRecord(back, stream));
    EXPECT(cuEventQuery(there), CUDA_ERROR_NOT_READY);
    EXPECT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    tell("", 1);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuIpcCloseMemHandle(x));
    CHECK(cuMemcpyDtoD_v2(x + 16, x + 8, 8)); /* opened twice */
    CHECK(cuIpcCloseMemHandle(x));
    EXPECT(cuMemcpyDtoD_v2(x + 16, x + 8, 8), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static void processes_share_memory_and_events(void **state)
{
    (void)state;
    struct handles handles;
    CUevent there, back;
    CUdeviceptr before = ag_prog_alloc(8), x = ag_prog_alloc(BYTES);
    void *flag;
    unsigned int one = 1;
    void *none = NULL;
    char turn;
    int status;
    CHECK(cuMemHostAlloc(&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    *(unsigned int *)flag = 0;
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handles.memory, x));
    CHECK(cuEventCreate(&there, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&back, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK(cuIpcGetEventHandle(&handles.there, there));
    CHECK(cuIpcGetEventHandle(&handles.back, back));
    CHECK(cuEventQuery(back)); /* never recorded */
    CHECK(ag_prog_launch(ag_prog_function(ag_prog_module(), "poll"), stream,
                         (void *[]){&flag, &one, &none}));
    CHECK(ag_prog_hash(hash, stream, x, 1));
    CHECK(cuEventRecord(there, stream));
    tell(&handles, sizeof handles);
    hear(&turn, 1); /* the peer has recorded the other one */
    CHECK(cuStreamWaitEvent(stream, back, 0));
    CHECK(ag_prog_hash(hash, stream, x, 3));
    EXPECT(cuEventQuery(back), CUDA_ERROR_NOT_READY);
    __atomic_store_n((unsigned int *)flag, 1, __ATOMIC_RELEASE);
    CHECK(cuEventSynchronize(back));
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(x), (1 * 31 + 2) * 31 + 3);
    assert_int_equal(ag_prog_read64(before), 0);
    assert_int_equal(waitpid(peer, &status, 0), peer);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(cuEventDestroy_v2(there));
    CHECK(cuEventDestroy_v2(back));
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFree_v2(before));
    CHECK(cuMemFreeHost(flag));
}

static int start(void **state)
{
    (void)state;
    start_driver();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(external_memory_is_the_file),
        cmocka_unit_test(a_timeline_is_in_stream_order),
        cmocka_unit_test(a_binary_semaphore_is_taken),
        cmocka_unit_test(semaphores_are_captured),
        cmocka_unit_test(a_resource_is_touched_while_it_is_mapped),
        cmocka_unit_test(what_cannot_be_shared),
        cmocka_unit_test(processes_share_memory_and_events),
    };
    int ends[2];
    /* Before the driver starts: a child of a process that uses it cannot. */
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    peer = fork();
    peer_fd = ends[peer != 0];
    if (peer == 0) {
        close(ends[1]); /* or a parent that fails is waited for */
        exit(run_peer());
    }
    close(ends[0]);
    return cmocka_run_group_tests(tests, start, NULL);
}
