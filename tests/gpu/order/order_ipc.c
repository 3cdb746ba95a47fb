/*
 * order_ipc.c - two processes work in turns on memory of one of them.
 *
 * Events that both have order their work; the processes tell each other over a socket what they
 * have submitted, and wait for the GPU only where the other one reads the memory. What the peer has
 * read is part of the result.
 */
#include "order.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_FD    3
#define IPC_ROUNDS (ROUNDS / 3)
#define HALF       (KERNELS / 2)
#define BLOCK      ((size_t)2 << 20)

struct handles {
    CUipcMemHandle memory;
    CUipcEventHandle there, back;
};

/* Rounds after which the peer reads what the first process has done and waited for. */
static bool reads(int round)
{
    return round % 10 == 9;
}

static bool tell(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool hear(int fd, void *data, size_t bytes)
{
    return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool spawn_peer(int *fd, pid_t *peer)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    char name[] = "order", role[] = "ipc-peer";
    char *const argv[] = {name, role, NULL};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], PEER_FD);
    bool good = !posix_spawn(peer, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *fd = ends[0];
    return good;
}

static bool ended_well(pid_t peer)
{
    int status = 0;
    return waitpid(peer, &status, 0) == peer && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The peer's launches, as the CPU follows them. */
static void peer_maps(struct lane *lane)
{
    for (int k = HALF; k < KERNELS; k++) {
        lane->expected = fault_value(k, lane->expected);
    }
}

/* Each round goes on with work of its own behind the record, so that no sequence need end with it.
 */
static bool rounds(struct lane *lane, struct lane *own, CUstream stream, int fd, CUevent there,
                   CUevent back)
{
    char turn = 0;
    uint32_t seen;
    for (int round = 0; round < IPC_ROUNDS; round++) {
        order_launches(lane, stream, 0, HALF);
        CHECK(cuEventRecord(there, stream));
        order_launches(own, stream, 0, HALF);
        if (reads(round)) {
            CHECK(cuStreamSynchronize(stream));
        }
        if (!tell(fd, &turn, 1) ||
            !hear(fd, reads(round) ? (void *)&seen : &turn, reads(round) ? sizeof seen : 1)) {
            printf("round %d: the other process has ended\n", round);
            return false;
        }
        if (reads(round) && seen != lane->expected) {
            printf("round %d: the other process read %u and not %u\n", round, seen, lane->expected);
            return false;
        }
        peer_maps(lane);
        CHECK(cuStreamWaitEvent(stream, back, 0));
    }
    CHECK(cuStreamSynchronize(stream));
    return order_memory_holds(lane, IPC_ROUNDS) && order_memory_holds(own, IPC_ROUNDS);
}

bool order_ipc(struct lane *lanes)
{
    struct lane *lane = &lanes[0], *own = &lanes[1];
    struct handles handles;
    CUevent events[2];
    int fd, answer;
    pid_t peer;
    CUstream stream = order_stream(CU_STREAM_NON_BLOCKING);
    /* Smaller memory may share a block with other memory, and handles are of whole blocks. */
    CHECK(cuMemAlloc(&lane->loop.data, BLOCK));
    CHECK(cuMemsetD32(lane->loop.data, INITIAL, SIZE));
    CHECK(cuCtxSynchronize());
    CUresult result = cuIpcGetMemHandle(&handles.memory, lane->loop.data);
    for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
        CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
        result = cuIpcGetEventHandle(i ? &handles.back : &handles.there, events[i]);
    }
    if (result != CUDA_SUCCESS) {
        printf("SKIP: no handle for another process (error %d)\n", (int)result);
        return true;
    }
    if (!spawn_peer(&fd, &peer)) {
        perror("the other process");
        return false;
    }
    if (!tell(fd, &handles, sizeof handles) || !hear(fd, &answer, sizeof answer)) {
        printf("the other process has ended\n");
        return false;
    }
    if (answer != CUDA_SUCCESS) {
        printf("SKIP: another process cannot open the handles (error %d)\n", answer);
        return ended_well(peer);
    }
    /* The peer closes its handles once it has heard the last byte. */
    bool good = rounds(lane, own, stream, fd, events[0], events[1]) && tell(fd, "", 1);
    close(fd);
    return ended_well(peer) && good;
}

int order_ipc_peer(void)
{
    struct handles handles;
    struct lane lane = {.expected = 0}, own = {.expected = INITIAL};
    CUevent there, back;
    CUdeviceptr memory;
    char turn;
    int fd = PEER_FD;
    if (!hear(fd, &handles, sizeof handles)) {
        return 1;
    }
    driver_start();
    fault_loop_start(&own.loop);
    lane.loop = own.loop;
    CUresult result =
        cuIpcOpenMemHandle(&memory, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result == CUDA_SUCCESS) {
        result = cuIpcOpenEventHandle(&there, handles.there);
    }
    if (result == CUDA_SUCCESS) {
        result = cuIpcOpenEventHandle(&back, handles.back);
    }
    int answer = (int)result;
    if (!tell(fd, &answer, sizeof answer) || result != CUDA_SUCCESS) {
        return 0;
    }
    lane.loop.data = memory;
    CUstream stream = lane.loop.stream;
    for (int round = 0; round < IPC_ROUNDS; round++) {
        uint32_t seen = 0;
        if (!hear(fd, &turn, 1)) {
            return 1;
        }
        CHECK(cuStreamWaitEvent(stream, there, 0));
        if (reads(round)) {
            CHECK(cuMemcpyDtoH(&seen, memory, sizeof seen));
        }
        order_launches(&lane, stream, HALF, KERNELS);
        CHECK(cuEventRecord(back, stream));
        order_launches(&own, stream, 0, HALF);
        if (!tell(fd, reads(round) ? (void *)&seen : &turn, reads(round) ? sizeof seen : 1)) {
            return 1;
        }
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuIpcCloseMemHandle(memory));
    return order_memory_holds(&own, IPC_ROUNDS) && hear(fd, &turn, 1) ? 0 : 1;
}
