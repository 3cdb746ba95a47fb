/*
 * order.c - programs whose result shows whether every order that they express through CUDA is kept.
 *
 * `order CASE` repeats one pattern ROUNDS times: streams tied by events, the legacy stream between
 * others, host functions, polling, copies, several threads, two processes.
 */
#include "order.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void lane_start(struct lane *lane)
{
    fault_loop_start(&lane->loop);
    lane->expected = INITIAL;
}

static void launch(struct lane *lane, CUstream stream, int k, enum fault_action action)
{
    lane->loop.stream = stream;
    CHECK(fault_launch(&lane->loop, k, action, SIZE));
    lane->expected = fault_value(k, lane->expected);
}

void order_launches(struct lane *lane, CUstream stream, int from, int to)
{
    for (int k = from; k < to; k++) {
        launch(lane, stream, k, FAULT_NONE);
    }
}

/* Whether memory on the host is what it has to be; says where it first is not. */
static bool holds(const uint32_t *host, uint32_t expected, int round)
{
    for (int i = 0; i < SIZE; i++) {
        if (host[i] != expected) {
            printf("round %d: element %d is %u and not %u\n", round, i, host[i], expected);
            return false;
        }
    }
    return true;
}

bool order_memory_holds(const struct lane *lane, int round)
{
    uint32_t host[SIZE];
    CHECK(cuMemcpyDtoH(host, lane->loop.data, sizeof host));
    return holds(host, lane->expected, round);
}

CUstream order_stream(unsigned int flags)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, flags));
    return stream;
}

static CUevent new_event(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* Two streams work on the same memory in turns, tied by events; the host waits only at the end. */
static bool events(struct lane *lane)
{
    CUstream streams[2] = {order_stream(CU_STREAM_NON_BLOCKING),
                           order_stream(CU_STREAM_NON_BLOCKING)};
    CUevent done = new_event();
    for (int round = 0; round < 2 * ROUNDS; round++) {
        CUstream now = streams[round % 2];
        order_launches(lane, now, 0, KERNELS / 2);
        CHECK(cuEventRecord(done, now));
        CHECK(cuStreamWaitEvent(streams[(round + 1) % 2], done, 0));
    }
    CHECK(cuCtxSynchronize());
    return order_memory_holds(lane, 2 * ROUNDS);
}

/* The legacy stream takes turns with two blocking streams; nothing but its own rules orders them.
 */
static bool legacy(struct lane *lane)
{
    CUstream streams[2] = {order_stream(CU_STREAM_DEFAULT), order_stream(CU_STREAM_DEFAULT)};
    for (int round = 0; round < ROUNDS; round++) {
        order_launches(lane, streams[round % 2], 0, 6);
        order_launches(lane, CU_STREAM_LEGACY, 6, 12);
        order_launches(lane, NULL, 12, 15);
    }
    CHECK(cuStreamSynchronize(NULL));
    return order_memory_holds(lane, ROUNDS);
}

struct callback_log {
    volatile uint32_t *flag;
    uint32_t seen[ROUNDS];
    int count;
};

static void CUDA_CB note_flag(void *arg)
{
    struct callback_log *log = arg;
    log->seen[log->count++] = *log->flag;
}

/* A host function sees what was launched before it, and nothing that comes after it. */
static bool callback(struct lane *lane)
{
    static struct callback_log log;
    CUstream stream = order_stream(CU_STREAM_NON_BLOCKING);
    log.flag = lane->loop.flag;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < KERNELS; k++) {
            launch(lane, stream, k, FAULT_RAISE_FLAG);
        }
        CHECK(cuLaunchHostFunc(stream, note_flag, &log));
    }
    CHECK(cuStreamSynchronize(stream));
    for (int round = 0; round < ROUNDS; round++) {
        if (log.count != ROUNDS || log.seen[round] != (uint32_t)(KERNELS * (round + 1))) {
            printf("host function %d of %d saw %u launches\n", round, log.count, log.seen[round]);
            return false;
        }
    }
    return order_memory_holds(lane, ROUNDS);
}

/* Polling: once a stream or an event is said to be done, what came before it is visible. */
static bool query(struct lane *lane)
{
    CUstream stream = order_stream(CU_STREAM_NON_BLOCKING);
    CUevent done = new_event();
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < KERNELS; k++) {
            launch(lane, stream, k, FAULT_RAISE_FLAG);
        }
        CUresult result;
        if (round % 2) {
            CHECK(cuEventRecord(done, stream));
        }
        do {
            result = round % 2 ? cuEventQuery(done) : cuStreamQuery(stream);
        } while (result == CUDA_ERROR_NOT_READY);
        CHECK(result);
        if (*lane->loop.flag != (uint32_t)(KERNELS * (round + 1))) {
            printf("round %d: done after %u launches\n", round, *lane->loop.flag);
            return false;
        }
    }
    return order_memory_holds(lane, ROUNDS);
}

/* Memsets and copies of every direction between launches, the result read back in each round. */
static bool copies(struct lane *lane)
{
    CUstream stream = order_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr other;
    void *pinned;
    uint32_t pageable[SIZE];
    bool good = true;
    CHECK(cuMemAlloc(&other, sizeof pageable));
    CHECK(cuMemAllocHost(&pinned, sizeof pageable));
    for (int round = 0; round < ROUNDS && good; round++) {
        order_launches(lane, stream, 0, 5);
        CHECK(cuMemcpyDtoDAsync(other, lane->loop.data, sizeof pageable, stream));
        CHECK(cuMemsetD32Async(lane->loop.data, 0xdeadu, SIZE, stream));
        CHECK(cuMemcpyDtoDAsync(lane->loop.data, other, sizeof pageable, stream));
        order_launches(lane, stream, 5, 10);
        if (round % 3 == 1) {
            for (int i = 0; i < SIZE; i++) {
                pageable[i] = (uint32_t)round;
            }
            CHECK(cuMemcpyHtoDAsync(lane->loop.data, pageable, sizeof pageable, stream));
            memset(pageable, 0, sizeof pageable); /* allowed: the source was pageable */
            lane->expected = (uint32_t)round;
        } else if (round % 3 == 2) {
            CHECK(cuMemsetD32Async(lane->loop.data, (unsigned int)round, SIZE, stream));
            lane->expected = (uint32_t)round;
        }
        order_launches(lane, stream, 10, 15);
        CHECK(cuMemcpyDtoHAsync(pinned, lane->loop.data, sizeof pageable, stream));
        CHECK(cuStreamSynchronize(stream));
        good = holds(pinned, lane->expected, round);
    }
    return good;
}

struct thread_job {
    struct lane *lane;
    CUcontext context;
    CUstream stream; /* NULL: one of the thread's own making */
    bool good;
};

static void *in_thread(void *arg)
{
    struct thread_job *job = arg;
    CHECK(cuCtxSetCurrent(job->context));
    CUstream stream = job->stream ? job->stream : order_stream(CU_STREAM_NON_BLOCKING);
    for (int round = 0; round < ROUNDS; round++) {
        order_launches(job->lane, stream, 0, KERNELS);
        if (round % 3) {
            CHECK(cuStreamSynchronize(stream));
        }
    }
    CHECK(cuStreamSynchronize(stream));
    job->good = order_memory_holds(job->lane, ROUNDS);
    return NULL;
}

/* Threads that each have memory and a stream of their own. */
static bool in_threads(struct lane *lanes, CUstream stream)
{
    pthread_t threads[THREADS];
    struct thread_job jobs[THREADS];
    bool good = true;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct thread_job){&lanes[i], context, stream, false};
        if (pthread_create(&threads[i], NULL, in_thread, &jobs[i])) {
            perror("pthread_create");
            return false;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good &= jobs[i].good;
    }
    return good;
}

static bool threads_own_streams(struct lane *lanes)
{
    return in_threads(lanes, NULL);
}

static bool threads_default_streams(struct lane *lanes)
{
    return in_threads(lanes, CU_STREAM_PER_THREAD);
}

static const struct {
    const char *name;
    bool (*run)(struct lane *lanes);
} cases[] = {{"events", events},
             {"legacy", legacy},
             {"callback", callback},
             {"query", query},
             {"copies", copies},
             {"threads", threads_own_streams},
             {"per-thread-streams", threads_default_streams},
             {"limits", order_limits},
             {"ipc", order_ipc}};

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "ipc-peer")) {
        return order_ipc_peer();
    }
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(argv[1], cases[i].name)) {
            struct lane lanes[THREADS];
            driver_start();
            for (int lane = 0; lane < THREADS; lane++) {
                lane_start(&lanes[lane]);
            }
            bool good = cases[i].run(lanes);
            printf("%s: %s, element %u\n", argv[1], good ? "ok" : "WRONG", lanes[0].expected);
            return good ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: order CASE\ncases:");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fprintf(stderr, " %s", cases[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}
