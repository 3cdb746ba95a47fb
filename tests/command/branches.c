/*
 * branches.c - streams that fork and join, and what happens in the middle of that.
 *
 *     forks CASE [HOW]
 *
 * Every case begins with steps that fork and join often enough to go into graphs. What it prints
 * must be the same with and without the library.
 */
#define _GNU_SOURCE
#include "tests/command/branches.h"
#include "tests/simdriver/newer.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

CUcontext ctx;
CUmodule module;
CUfunction hash, spin;
CUstream a, b; /* the second forks from the first and joins it */
CUevent forked, joined;
CUdeviceptr x, y; /* words of `a`, and of `b` */
uint64_t counter;

CUevent new_event(void)
{
    CUevent e;
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

CUstream new_stream(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

void start(void)
{
    ctx = ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    spin = ag_prog_function(module, "spin_us");
    a = new_stream();
    b = new_stream();
    forked = new_event();
    joined = new_event();
    x = ag_prog_alloc(64);
    y = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize()); /* no stream here waits for the legacy one */
    hashes(a, x);              /* the first stream that the library sees is to be the origin */
}

void hashes(CUstream s, CUdeviceptr p)
{
    for (int i = 0; i < OPS; i++)
        CHECK(ag_prog_hash(hash, s, p, ++counter));
}

void hash_with(CUstream s, CUdeviceptr p, CUlaunchAttribute attribute)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s,
                             .attrs = &attribute,
                             .numAttrs = 1};
    uint64_t k = ++counter;
    CHECK(cuLaunchKernelEx(&config, hash, (void *[]){&p, &k}, NULL));
}

void spins(CUstream s, int us)
{
    CHECK(ag_prog_launch(spin, s, (void *[]){&us}));
}

static _Atomic bool may_end;

static void held(const struct cuSimLaunch *l)
{
    while (*(const int *)l->params[0] && !atomic_load(&may_end))
        usleep(100);
}

void spins_until_told(void)
{
    CUmodule m;
    REQUIRE(!cuSimRegisterKernel("held", held, 1, (size_t[]){0}, (size_t[]){sizeof(int)},
                                 CUSIM_MAY_BLOCK));
    CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC "kernel held\n"));
    spin = ag_prog_function(m, "held");
}

void end_spin(void)
{
    atomic_store(&may_end, true);
}

void fork_to(CUstream s)
{
    CHECK(cuEventRecord(forked, a));
    CHECK(cuStreamWaitEvent(s, forked, 0));
}

void join_from(CUstream s, CUevent e)
{
    CHECK(cuEventRecord(e, s));
    CHECK(cuStreamWaitEvent(a, e, 0));
}

/* A step: `b` spins for so long first. */
void step(int us)
{
    fork_to(b);
    spins(b, us);
    hashes(b, y);
    hashes(a, x);
    join_from(b, joined);
    hashes(a, y);
}

void steps(void)
{
    for (int i = 0; i < STEPS; i++) {
        step(0);
        CHECK(cuStreamSynchronize(a));
    }
}

void print_words(void)
{
    CHECK(cuCtxSynchronize());
    printf("%016llx %016llx\n", (unsigned long long)ag_prog_read64(x),
           (unsigned long long)ag_prog_read64(y));
}

/* Twice as many event calls as launches, and the host takes far longer than any of these. */
static int busy(int steps)
{
    uint64_t work = 1;
    for (int i = 0; i < steps; i++) {
        fork_to(b);
        CHECK(ag_prog_hash(hash, b, y, ++counter));
        CHECK(ag_prog_hash(hash, a, x, ++counter));
        join_from(b, joined);
        CHECK(cuStreamSynchronize(a));
        for (int turn = 0; turn < 100000; turn++)
            work ^= work * 0x9e3779b97f4a7c15ull >> (turn % 32 + 1);
    }
    printf("%016llx\n", (unsigned long long)work);
    return 0;
}

/* The host takes some time between two launches, so that another thread makes them. */
static int paced(void)
{
    for (int i = 0; i < STEPS * 10; i++) {
        fork_to(b);
        for (int k = 0; k < 2 * OPS; k++) {
            double until = ag_prog_seconds() + 5e-6;
            CHECK(ag_prog_hash(hash, k < OPS ? b : a, k < OPS ? y : x, ++counter));
            while (ag_prog_seconds() < until)
                ;
        }
        join_from(b, joined);
        if (i % 16 == 15)
            CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* ---- calls that pass by --------------------------------------------------------------------- */

/* A graph without ops of `b` waits for it. A copy into `b` then comes before its next op. */
static int copy_behind_wait(void)
{
    enum { BYTES = 32 << 20 };
    CUdeviceptr large = ag_prog_alloc(BYTES);
    CUdeviceptr last = large + BYTES - 8;
    char *from;
    CHECK(cuMemHostAlloc((void **)&from, BYTES, 0));
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < STEPS * 2; i++) {
        fork_to(b);
        hashes(b, last);
        CHECK(cuEventRecord(joined, b));
        CHECK(cuStreamSynchronize(b));
        CHECK(cuStreamWaitEvent(a, joined, 0));
        hashes(a, x);
        CHECK(cuStreamSynchronize(a));
        while (cuEventQuery(forked) == CUDA_ERROR_NOT_READY ||
               cuEventQuery(joined) == CUDA_ERROR_NOT_READY)
            usleep(10);
        if (i > STEPS && i % 4 == 0) {
            memset(from, i, BYTES);
            CHECK(cuMemcpyHtoDAsync_v2(large, from, BYTES, b));
        }
    }
    CHECK(cuCtxSynchronize());
    y = last;
    print_words();
    return 0;
}

/* A call that nobody knows puts an op into the branch. */
static int unknown_call(void)
{
    uint64_t k = 7;
    CUresult CUDAAPI (*launch)(CUfunction, CUstream, void **);
    CUdriverProcAddressQueryResult status;
    CHECK(cuGetProcAddress_v2("cuFutureLaunch", (void **)&launch, 13030, 0, &status));
    REQUIRE(launch);
    for (int i = 0; i < STEPS * 2; i++) {
        bool calls = i > STEPS && i % 4 == 0;
        fork_to(b);
        spins(b, calls ? 20000 : 0);
        hashes(b, y);
        if (calls)
            CHECK(launch(hash, b, (void *[]){&y, &k}));
        else
            CHECK(cuStreamSynchronize(b));
        join_from(b, joined);
        hashes(a, y);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* ---- branches that come and go -------------------------------------------------------------- */

/* One of two branches is one no longer, and what it did last is waited for. */
static int leaving_branch(void)
{
    CUstream c = new_stream();
    CUevent second = new_event();
    CUdeviceptr z = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < STEPS * 2; i++) {
        bool leaves = i > STEPS && i % 4 == 0;
        fork_to(b);
        CHECK(cuStreamWaitEvent(c, forked, 0));
        if (leaves)
            spins(b, 20000); /* not the usual step */
        hashes(b, y);
        hashes(c, z);
        CHECK(cuEventRecord(second, c));
        CHECK(cuEventRecord(joined, b));
        uint64_t host = 5;
        if (leaves)
            CHECK(cuMemcpyHtoDAsync_v2(y + 8, &host, 8, b));
        else
            CHECK(cuStreamSynchronize(c));
        CHECK(cuStreamWaitEvent(a, joined, 0));
        CHECK(cuStreamWaitEvent(a, second, 0));
        hashes(a, y);
        hashes(a, z);
        CHECK(cuStreamSynchronize(a));
    }
    x = z;
    print_words();
    return 0;
}

/* Copies into a branch and waits for it, for so long that the library measures meanwhile whether
 * graphs pay. */
static int weighed(void)
{
    uint64_t host = 3;
    double until = ag_prog_seconds() + 3;
    for (int i = 0; ag_prog_seconds() < until; i++) {
        step(0);
        if (i % 3 == 1)
            CHECK(cuMemcpyHtoDAsync_v2(y + 8, &host, 8, b));
        if (i % 3 == 2)
            CHECK(cuStreamSynchronize(b));
        if (i % 5 == 0)
            CHECK(cuStreamSynchronize(a));
    }
    CHECK(cuCtxSynchronize());
    puts("done");
    return 0;
}

/* More branches than a fork has, more events than can be due, and waits for events of long ago. */
static int many(void)
{
    enum { SIDES = 10, RECORDS = 20 };
    CUstream sides[SIDES];
    CUevent of_side[SIDES], more[RECORDS];
    CUdeviceptr words = ag_prog_alloc(SIDES * 8);
    CHECK(cuCtxSynchronize());
    for (int k = 0; k < SIDES; k++) {
        sides[k] = new_stream();
        of_side[k] = new_event();
    }
    for (int k = 0; k < RECORDS; k++)
        more[k] = new_event();
    for (int i = 0; i < STEPS; i++) {
        CHECK(cuEventRecord(forked, a));
        for (int k = 0; k < SIDES; k++) {
            CHECK(cuStreamWaitEvent(sides[k], forked, 0));
            CHECK(ag_prog_hash(hash, sides[k], words + 8u * (unsigned int)k, ++counter));
            CHECK(cuEventRecord(of_side[k], sides[k]));
        }
        for (int k = 0; k < RECORDS; k++) {
            CHECK(ag_prog_hash(hash, a, x, ++counter));
            CHECK(cuEventRecord(more[k], a));
        }
        CHECK(cuStreamWaitEvent(b, more[2], 0));
        CHECK(cuStreamWaitEvent(b, more[RECORDS - 1], 0));
        CHECK(ag_prog_hash(hash, b, x, ++counter));
        join_from(b, joined);
        for (int k = 0; k < SIDES; k++) {
            CHECK(cuStreamWaitEvent(a, of_side[k], 0));
            CHECK(ag_prog_hash(hash, a, words + 8u * (unsigned int)k, ++counter));
        }
        CHECK(ag_prog_hash(hash, a, x, ++counter));
        if (i % 7 == 6)
            for (int k = 0; k < RECORDS; k++)
                CHECK(cuEventSynchronize(more[k]));
        CHECK(cuStreamSynchronize(a));
    }
    CHECK(cuCtxSynchronize());
    for (int k = 0; k < SIDES; k++)
        printf("%016llx\n", (unsigned long long)ag_prog_read64(words + 8u * (unsigned int)k));
    print_words();
    return 0;
}

/* Streams, events and contexts that end in the middle of a step. */
static int ends(void)
{
    for (int i = 0; i < 24; i++) {
        for (int k = 0; k < STEPS / 2; k++) {
            step(0);
            if (k % 3)
                CHECK(cuStreamSynchronize(a));
        }
        fork_to(b);
        hashes(b, y);
        hashes(a, x);
        CHECK(cuEventRecord(joined, b));
        CUstream gone = i % 2 ? a : b;
        CUevent late = joined;
        if (i % 4 < 2)
            CHECK(cuStreamDestroy_v2(gone));
        if (i % 3 == 0) {
            CHECK(cuEventDestroy_v2(forked));
            forked = new_event();
        }
        CUstream other = new_stream();
        CHECK(cuStreamWaitEvent(other, late, 0));
        hashes(other, y);
        CHECK(cuStreamSynchronize(other));
        if (i % 4 < 2 && i % 2)
            a = new_stream();
        else if (i % 4 < 2)
            b = new_stream();
        if (i % 8 == 7) {
            CUcontext next;
            print_words();
            CHECK(cuCtxCreate_v4(&next, NULL, 0, 0));
            if (i > 8)
                CHECK(cuCtxDestroy_v2(ctx));
            ctx = next;
            module = ag_prog_module();
            hash = ag_prog_function(module, "hash");
            spin = ag_prog_function(module, "spin_us");
            a = new_stream(), b = new_stream();
            forked = new_event(), joined = new_event();
            x = ag_prog_alloc(64), y = ag_prog_alloc(64);
        }
        CHECK(cuCtxSynchronize());
    }
    print_words();
    return 0;
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *takes_turns(void *unused)
{
    CHECK(cuCtxSetCurrent(ctx));
    for (int i = 0; i < STEPS * 2; i++) {
        pthread_mutex_lock(&turn);
        for (int k = 0; k < 2 + i % 5; k++)
            step(0);
        while (cuEventQuery(joined) == CUDA_ERROR_NOT_READY)
            ;
        pthread_mutex_unlock(&turn);
    }
    return unused;
}

/* Threads that launch to the same streams in turns, in any order. */
static int threads(void)
{
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    for (int i = 0; i < STEPS; i++)
        step(0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, takes_turns, NULL) == 0 ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    print_words();
    return 0;
}

/* ---- streams that wait for the program ------------------------------------------------------ */

static _Atomic bool open_gate;

static void CUDA_CB gate(void *unused)
{
    (void)unused;
    while (!atomic_load(&open_gate))
        usleep(100);
}

static void gate_kernel(const struct cuSimLaunch *unused)
{
    (void)unused;
    gate(NULL);
}

/* A kernel that waits for its peer, as one thread's launch may for that of another. */
static CUfunction collective(void)
{
    CUlibrary library;
    REQUIRE(!cuSimRegisterKernel("ncclDevKernel_AllReduce_gate", gate_kernel, 0, NULL, NULL,
                                 CUSIM_MAY_BLOCK));
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC "kernel ncclDevKernel_AllReduce_gate\n",
                            NULL, NULL, 0, NULL, NULL, 0));
    return ag_prog_kernel(library, "ncclDevKernel_AllReduce_gate");
}

static struct third {
    CUstream stream;
    CUevent event;
    CUfunction collective; /* NULL: a host function waits */
} third;

static void *waits_in_third(void *unused)
{
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(third.collective ? ag_prog_launch(third.collective, third.stream, NULL)
                           : cuLaunchHostFunc(third.stream, gate, NULL));
    CHECK(cuEventRecord(third.event, third.stream));
    return unused;
}

/* 0: the origin waits for the program, and the program for the branch. 1: the other way round. 2,
 * 3: the same, but what waits for the program is a third stream, and the origin or the branch for
 * that. 4, 5: what waits there is a collective kernel. 6 to 9: as 2 to 5, by another thread. */
static int gate_in(int how)
{
    bool by_other = how >= 6;
    how -= by_other ? 4 : 0;
    third = (struct third){new_stream(), new_event(), how >= 4 ? collective() : NULL};
    for (int i = 0; i < STEPS * 2; i++) {
        bool waits = i > STEPS && i % 8 == 0;
        atomic_store(&open_gate, false);
        if (waits && by_other) {
            pthread_t thread;
            REQUIRE(!pthread_create(&thread, NULL, waits_in_third, NULL));
            pthread_join(thread, NULL);
        } else if (waits && how >= 2) {
            waits_in_third(NULL);
        }
        fork_to(b);
        hashes(b, y);
        hashes(a, x);
        if (!waits)
            CHECK(cuStreamSynchronize(a));
        else if (how < 2)
            CHECK(cuLaunchHostFunc(how ? b : a, gate, NULL));
        else
            CHECK(cuStreamWaitEvent(how % 2 ? b : a, third.event, 0));
        hashes(b, y);
        hashes(a, x);
        CHECK(cuStreamSynchronize(how % 2 ? a : b)); /* it does not wait for the gate */
        atomic_store(&open_gate, true);
        join_from(b, joined);
        hashes(a, y);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* ---- programmatic serialization ------------------------------------------------------------- */

static void overlapping_hash(CUstream s, CUdeviceptr p)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attr.value.programmaticStreamSerializationAllowed = 1;
    hash_with(s, p, attr);
}

/* The first launch of a branch may not overlap what it waits for. */
static int overlap(void)
{
    for (int i = 0; i < STEPS; i++) {
        CHECK(ag_prog_hash(hash, a, x, ++counter));
        fork_to(b);
        overlapping_hash(b, x);
        join_from(b, joined);
        overlapping_hash(a, x);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {
        {"paced", paced},
        {"copy-behind-wait", copy_behind_wait},
        {"unknown-call", unknown_call},
        {"context-event", context_event},
        {"failed-record", failed_record},
        {"shared-event", shared_event},
        {"event-of-other-context", event_of_other_context},
        {"ready-at-once", ready_at_once},
        {"launch-event", launch_event},
        {"leaving-branch", leaving_branch},
        {"weighed", weighed},
        {"many", many},
        {"ends", ends},
        {"threads", threads},
        {"overlap", overlap},
        {"record-alone", record_alone},
        {"late-asks", late_asks},
        {"split-fork", split_fork},
        {"unloads", unloads},
        {"quiet", quiet},
        {"quiet-captured", quiet_captured},
        {"quiet-queries", quiet_queries},
        {"quiet-host", quiet_host},
        {"quiet-asks", quiet_asks},
        {"quiet-ends", quiet_ends},
    };
    if (argc < 2)
        return 2;
    start();
    if (!strcmp(argv[1], "busy") && argc == 3)
        return busy(atoi(argv[2]));
    if (!strcmp(argv[1], "gate") && argc == 3)
        return gate_in(atoi(argv[2]));
    if (!strcmp(argv[1], "legacy-gate") && argc == 3)
        return legacy_gate(atoi(argv[2]));
    if (!strcmp(argv[1], "legacy-order") && argc == 3)
        return legacy_order(atoi(argv[2]));
    if (!strcmp(argv[1], "destroyed-twice") && argc == 3)
        return destroyed_twice(atoi(argv[2]));
    if (!strcmp(argv[1], "own-event") && argc == 3)
        return own_event(atoi(argv[2]));
    if (!strcmp(argv[1], "passed-event") && argc == 3)
        return passed_event(atoi(argv[2]));
    if (!strcmp(argv[1], "late-call") && argc == 3)
        return late_call(atoi(argv[2]));
    if (!strcmp(argv[1], "quiet-dormant") && argc == 3)
        return quiet_dormant(atoi(argv[2]));
    if (!strcmp(argv[1], "quiet-unknown") && argc == 3)
        return quiet_unknown(atoi(argv[2]));
    if (!strcmp(argv[1], "quiet-gate") && argc == 3)
        return quiet_gate(atoi(argv[2]));
    if (!strcmp(argv[1], "full-queue") && argc == 3)
        return full_queue(atoi(argv[2]));
    if (!strcmp(argv[1], "full-queue-of-thread") && argc == 3)
        return full_queue_of_thread(atoi(argv[2]));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            return cases[i].run();
    fprintf(stderr, "no such case: %s\n", argv[1]);
    return 2;
}
