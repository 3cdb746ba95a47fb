/* branches_order.c - cases of `forks`: what a fork must not put in order, and what it must. */
#define _GNU_SOURCE
#include "tests/command/branches.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned int *word;

static void make_word(void)
{
    CHECK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
}

/* Work that waits until the program writes this value. */
static void waits_for(CUstream s, unsigned int value)
{
    void *none = NULL;
    CHECK(ag_prog_launch(ag_prog_function(module, "poll"), s, (void *[]){&word, &value, &none}));
}

/* So many launches that never repeat, and the stream is dormant for some thousand. */
static void goes_dormant(CUstream s)
{
    enum { NEVER_ALIKE = 41400, LARGEST = 4096 }; /* as in tests/bench/dormant_order.c */
    unsigned int random = 1;
    for (int i = 0; i < NEVER_ALIKE; i++) {
        random = random * 1103515245 + 12345;
        CHECK(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, (random >> 16) % LARGEST, s,
                             (void *[]){&y, &counter}, NULL));
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* The kernel's launches as programs of CUDA 3 make them, into the legacy stream. */
static CUfunction old_poll(void)
{
    CUfunction f = ag_prog_function(module, "poll");
    void *none = NULL;
    CHECK(cuFuncSetBlockShape(f, 1, 1, 1));
    CHECK(cuParamSetv(f, 0, &word, sizeof word));
    CHECK(cuParamSetv(f, 16, &none, sizeof none));
    CHECK(cuParamSetSize(f, 24));
    return f;
}

static void waits_for_old(CUfunction f, unsigned int value)
{
    CHECK(cuParamSetv(f, 8, &value, sizeof value));
    CHECK(value % 20 ? cuLaunch(f) : cuLaunchGrid(f, 1, 1));
}
#pragma GCC diagnostic pop

static CUcontext peer;
static CUdeviceptr of_peer;

/* The context of another device, with some memory. */
static void make_peer(void)
{
    CHECK(cuDevicePrimaryCtxRetain(&peer, 1));
    CHECK(cuCtxPushCurrent_v2(peer));
    of_peer = ag_prog_alloc(16);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxPopCurrent_v2(NULL));
}

/* A copy between devices goes into the legacy stream, behind work of a blocking one that waits. */
static void waits_to_copy(CUstream s, unsigned int value)
{
    waits_for(s, value);
    CHECK(cuMemcpyPeer(of_peer, peer, of_peer + 8, peer, 8));
}

/* Two blocking streams. Work in the legacy stream (1: launched as in CUDA 3; 2: a copy between
 * devices) waits for the program, and the program for `b`, all of whose work came before. Both
 * events have been asked for. */
int own_event(int how)
{
    CUfunction old = NULL;
    CUstream side = NULL;
    make_word();
    CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
    if (how == 1)
        old = old_poll();
    if (how == 2) {
        CHECK(cuStreamCreate(&side, CU_STREAM_DEFAULT));
        make_peer();
    }
    CHECK(cuCtxSynchronize());
    hashes(a, x);
    for (unsigned int i = 1; i <= STEPS * 2; i++) {
        step(0);
        if (i % 5 == 0) {
            CHECK(cuEventSynchronize(forked));
            CHECK(cuEventSynchronize(joined));
        }
        if (i % 10 == 0) {
            if (how == 0)
                waits_for(CU_STREAM_LEGACY, i);
            else if (how == 1)
                waits_for_old(old, i);
            else
                waits_to_copy(side, i);
            CHECK(cuStreamSynchronize(b));
            __atomic_store_n(word, i, __ATOMIC_RELEASE);
        }
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* A kernel in the branch, which never repeats, waits for the program, and the program for ops and a
 * record of the origin. */
int record_alone(void)
{
    CUfunction poll_word = ag_prog_function(module, "poll");
    void *none = NULL;
    make_word();
    steps();
    for (unsigned int i = 1; i <= STEPS; i++) {
        CHECK(
            cuLaunchKernel(poll_word, 1, 1, 1, i, 1, 1, 0, b, (void *[]){&word, &i, &none}, NULL));
        CHECK(cuStreamSynchronize(a));
        hashes(a, x);
        CHECK(cuEventRecord(forked, a));
        hashes(a, x);
        CHECK(cuStreamSynchronize(a));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        step(0);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* The stream `b` is non-blocking, and forks from a blocking stream (0) or from the legacy stream.
 * What waits for the program is in the legacy stream, or in another blocking one (1): the thread's
 * default stream (2), one to which nothing is launched, behind an event (3), or one that is dormant
 * (4). The program waits for `b`, which that does not concern. */
int legacy_order(int how)
{
    CUstream third = CU_STREAM_LEGACY, gate = NULL;
    CUevent of_gate = new_event();
    make_word();
    if (how == 0) {
        CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    } else {
        a = CU_STREAM_LEGACY;
        if (how == 2)
            third = CU_STREAM_PER_THREAD;
        else
            CHECK(cuStreamCreate(&third, CU_STREAM_DEFAULT));
        gate = new_stream();
        if (how == 4)
            goes_dormant(third);
    }
    CHECK(cuCtxSynchronize());
    hashes(a, x);
    CHECK(cuStreamSynchronize(a));
    for (unsigned int i = 1; i <= STEPS; i++) {
        hashes(a, x);
        fork_to(b);
        hashes(b, y);
        CHECK(cuStreamSynchronize(b));
        if (i % 10 == 0 && how == 3) {
            waits_for(gate, i);
            CHECK(cuEventRecord(of_gate, gate));
            CHECK(cuStreamWaitEvent(third, of_gate, 0));
        } else if (i % 10 == 0) {
            waits_for(third, i);
        }
        hashes(b, y);
        CHECK(cuStreamSynchronize(b));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        join_from(b, joined);
        hashes(a, x);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* Each step has one of many events. The program waits for that of the step before, and then ends
 * what the step under way waits for. */
int late_asks(void)
{
    enum { EVENTS = 12 };
    CUevent done[EVENTS];
    make_word();
    for (int i = 0; i < EVENTS; i++)
        done[i] = new_event();
    CHECK(cuEventRecord(done[0], a));
    for (unsigned int i = 1; i <= STEPS * 4; i++) {
        step(0);
        waits_for(a, i);
        hashes(a, x);
        CHECK(cuEventRecord(done[i % EVENTS], a));
        CHECK(cuEventSynchronize(done[(i - 1) % EVENTS]));
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
    }
    print_words();
    return 0;
}

/* The program finds an event ready. Then work waits for the program, which asks for the event once
 * more: 0: it waits for it; 1: another stream does, and the program for that. */
int passed_event(int how)
{
    CUstream c = new_stream();
    make_word();
    for (unsigned int i = 1; i <= STEPS * 4; i++) {
        bool asks = i % STEPS == 0; /* so seldom that records are kept back again */
        step(0);
        CHECK(cuStreamSynchronize(a));
        if (asks)
            CHECK(cuEventQuery(joined));
        else
            __atomic_store_n(word, i, __ATOMIC_RELEASE);
        waits_for(a, i);
        hashes(a, x);
        if (asks && how == 0) {
            CHECK(cuEventSynchronize(joined));
        } else if (asks) {
            CHECK(cuStreamWaitEvent(c, joined, 0));
            CHECK(cuStreamSynchronize(c));
        }
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* A module that has nothing to do with them is unloaded now and then, while the library finds out
 * how the streams get on without graphs. */
int unloads(void)
{
    CHECK(cuCtxSynchronize());
    uint64_t want = ag_prog_read64(x), wrong = 0;
    for (int i = 0; i < STEPS; i++) { /* `b` by itself */
        hashes(b, y);
        CHECK(cuEventRecord(joined, b));
        CHECK(cuEventSynchronize(joined));
    }
    double until = ag_prog_seconds() + 2;
    for (uint64_t i = 1; ag_prog_seconds() < until; i++) {
        for (uint64_t k = 1; k <= 10; k++) {
            if (k == 5)
                fork_to(b);
            if (k == 9)
                join_from(b, joined);
            CHECK(ag_prog_hash(hash, k < 5 || k > 8 ? a : b, x, k));
            want = want * 31 + k;
        }
        CHECK(cuStreamSynchronize(a));
        if (i % 64 == 0)
            CHECK(cuModuleUnload(ag_prog_module()));
        uint64_t got = ag_prog_read64(x);
        wrong += got != want;
        want = got;
    }
    printf("wrong: %llu\n", (unsigned long long)wrong);
    return 0;
}

/* ---- a call that is on its way ----------------------------------------------------------------
 */

static _Atomic unsigned int steps_made, late_until, launched;
static _Atomic bool over, is_late, is_read_now;
static uint64_t *count, errors;
static char *page;
static size_t late_bytes; /* so many that a copy takes some time in its stream */
static unsigned int steps_meanwhile, sleeps;

/* What was launched before has added to the count, or is just about to: it takes long. */
static void adds(const struct cuSimLaunch *l)
{
    uint64_t *p = *(uint64_t *const *)l->params[0];
    usleep(1000);
    __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
}

static void expects(const struct cuSimLaunch *l)
{
    const uint64_t *p = *(uint64_t *const *)l->params[0];
    uint64_t least = *(const uint64_t *)l->params[1];
    if (__atomic_load_n(p, __ATOMIC_SEQ_CST) < least)
        __atomic_fetch_add(&errors, 1, __ATOMIC_SEQ_CST);
}

/* The arguments of a launch are read, or the source of a copy: the call stays there until the other
 * thread has made some steps, or for some time, as who reads them may have what that thread needs.
 */
static void is_read(int signal)
{
    unsigned int until = atomic_load(&late_until);
    (void)signal;
    atomic_store(&is_read_now, true);
    for (unsigned int i = 0; i < sleeps && atomic_load(&steps_made) < until && !atomic_load(&over);
         i++)
        usleep(50);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

/* The next call is late from here on. */
static void becomes_late(void)
{
    atomic_store(&late_until, atomic_load(&steps_made) + steps_meanwhile);
    atomic_store(&is_late, true);
    mprotect(page, 4096, PROT_NONE);
}

/* It has returned, and the other thread goes on for a while. */
static void was_late(void)
{
    atomic_fetch_add(&launched, 1);
    atomic_store(&is_late, false);
    unsigned int until = atomic_load(&steps_made) + 10;
    while (atomic_load(&steps_made) < until && !atomic_load(&over))
        sched_yield();
}

static void *launches(void *kernel)
{
    CHECK(cuCtxSetCurrent(ctx));
    while (!atomic_load(&over)) {
        memcpy(page, &count, sizeof count);
        void *params[] = {page};
        becomes_late();
        CHECK(ag_prog_launch(kernel, b, params));
        was_late();
    }
    return NULL;
}

/* The count is the last of what it copies. If something lies in another stream of this thread, the
 * library sees each copy, else only those that come while something is held back. */
static void *copies(void *other)
{
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)(count + 1) - late_bytes;
    CHECK(cuCtxSetCurrent(ctx));
    CUdeviceptr own = ag_prog_alloc(8);
    for (uint64_t n = 1; !atomic_load(&over); n++) {
        memcpy(page + late_bytes - sizeof n, &n, sizeof n);
        if (other)
            CHECK(ag_prog_hash(hash, other, own, n));
        becomes_late();
        CHECK(cuMemcpyHtoDAsync_v2(to, page, late_bytes, b));
        was_late();
    }
    return NULL;
}

/* A thread's call into `b` is on its way while another has the streams fork and join. When it has
 * returned, the other's next launch into `b` comes behind it. 0: launches; 1: copies; 2: one launch
 * while `b` is dormant, which is over when the streams fork; 3: copies, the first of which the
 * library does not see. */
int late_call(int how)
{
    static const unsigned int calls[] = {50, 50, 1, 1};
    enum { LAST_DORMANT = 40000 };
    pthread_t thread;
    cuSimRegisterKernel("adds", adds, 1, NULL, (size_t[]){8}, 0);
    cuSimRegisterKernel("expects", expects, 2, NULL, (size_t[]){8, 8}, 0);
    CUmodule own = ag_prog_module();
    CUfunction check = ag_prog_function(own, "expects"), slow = ag_prog_function(own, "adds");
    late_bytes = how == 3 ? 32 << 20 : 4 << 20;
    count = (uint64_t *)(uintptr_t)(ag_prog_alloc(late_bytes) + late_bytes) - 1;
    CHECK(cuCtxSynchronize());
    page = mmap(NULL, late_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    steps_meanwhile = how == 2 ? STEPS * 10 : how == 1 ? 100 : how == 3 ? 10 : 40;
    sleeps = how ? 200000 : 200; /* a copy and what passes unseen have no lock */
    signal(SIGSEGV, is_read);
    hashes(a, x);
    hashes(b, y);
    if (how == 2)
        goes_dormant(b);
    if (how == 3)
        CHECK(cuCtxSynchronize()); /* nothing is held back when the first copy comes */
    CUstream other = how == 1 ? new_stream() : NULL;
    bool copied = how == 1 || how == 3;
    CHECK(pthread_create(&thread, NULL, copied ? copies : launches, copied ? (void *)other : slow)
              ? CUDA_ERROR_UNKNOWN
              : CUDA_SUCCESS);
    while (how >= 2 && !atomic_load(&is_read_now))
        sched_yield();
    for (int i = 0; how == 2 && i < LAST_DORMANT; i++)
        CHECK(ag_prog_hash(hash, b, y, ++counter));
    for (int i = 0; i < (how == 3 ? STEPS : STEPS * 8) || atomic_load(&launched) < calls[how];
         i++) {
        fork_to(b);
        hashes(b, y);
        uint64_t least = atomic_load(&launched);
        CHECK(ag_prog_launch(check, b, (void *[]){&count, &least}));
        hashes(a, x);
        join_from(b, joined);
        hashes(a, x);
        CHECK(cuStreamSynchronize(a));
        atomic_fetch_add(&steps_made, 1);
        while (how == 3 && atomic_load(&is_late) &&
               atomic_load(&steps_made) >= atomic_load(&late_until))
            sched_yield(); /* such a copy may not be late for ever */
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    printf("out of order: %llu\n", (unsigned long long)errors);
    return 0;
}

static void sets(const struct cuSimLaunch *l)
{
    usleep(1000);
    __atomic_store_n(*(uint64_t *const *)l->params[0], *(const uint64_t *)l->params[1],
                     __ATOMIC_SEQ_CST);
}

static CUfunction set;

/* Its grid is a new one each time, so it is in no graph. */
static void sets_in_branch(uint64_t value)
{
    memcpy(page, &value, sizeof value);
    if (atomic_load(&late_until))
        becomes_late();
    CHECK(cuLaunchKernel(set, (unsigned int)value, 1, 1, 1, 1, 1, 0, b, (void *[]){&count, page},
                         NULL));
}

static void uses_in_branch(CUfunction check, uint64_t value)
{
    for (int i = 0; i < OPS; i++)
        CHECK(ag_prog_launch(check, b, (void *[]){&count, &value}));
    CHECK(cuEventRecord(joined, b));
}

static void waits_in_origin(void)
{
    CHECK(cuStreamWaitEvent(a, joined, 0));
    hashes(a, x);
    atomic_fetch_add(&steps_made, 1);
}

static void *takes_origin(void *unused)
{
    (void)unused;
    CHECK(cuCtxSetCurrent(ctx));
    while (!atomic_load(&over)) {
        while (!atomic_exchange(&is_read_now, false) && !atomic_load(&over))
            sched_yield();
        if (!atomic_load(&over))
            waits_in_origin();
    }
    return NULL;
}

/* One thread has the streams fork and join. Then another takes the origin over, and the first goes
 * on with the branch alone: its call is on its way there when a graph waits for the branch. What it
 * launches next comes behind that. */
int split_fork(void)
{
    enum { LEARNT = 300, SPLIT = 100 };
    pthread_t thread;
    cuSimRegisterKernel("sets", sets, 2, NULL, (size_t[]){8, 8}, 0);
    cuSimRegisterKernel("expects", expects, 2, NULL, (size_t[]){8, 8}, 0);
    CUmodule own = ag_prog_module();
    CUfunction check = ag_prog_function(own, "expects");
    set = ag_prog_function(own, "sets");
    count = (uint64_t *)(uintptr_t)ag_prog_alloc(8);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, is_read);
    steps_meanwhile = 1;
    sleeps = 200;
    CHECK(cuCtxSynchronize());
    steps();
    for (uint64_t i = 1; i <= LEARNT + SPLIT; i++) {
        if (i == LEARNT + 1) {
            CHECK(cuCtxSynchronize());
            atomic_store(&late_until, 1);
            REQUIRE(!pthread_create(&thread, NULL, takes_origin, NULL));
        }
        unsigned int before = atomic_load(&steps_made);
        sets_in_branch(i);
        if (i <= LEARNT)
            waits_in_origin();
        while (atomic_load(&steps_made) == before)
            sched_yield();
        uses_in_branch(check, i);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    printf("out of order: %llu\n", (unsigned long long)errors);
    return 0;
}
