/* branches_order.c - cases of `forks`: what a fork must not put in order, and what it must. */
#include "tests/command/branches.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

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

/* Two blocking streams. Work in the legacy stream waits for the program, and the program for `b`,
 * all of whose work came before. Both events have been asked for. */
int own_event(void)
{
    make_word();
    CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
    CHECK(cuCtxSynchronize());
    hashes(a, x);
    for (unsigned int i = 1; i <= STEPS * 2; i++) {
        step(0);
        if (i % 5 == 0) {
            CHECK(cuEventSynchronize(forked));
            CHECK(cuEventSynchronize(joined));
        }
        if (i % 10 == 0) {
            waits_for(CU_STREAM_LEGACY, i);
            CHECK(cuStreamSynchronize(b));
            __atomic_store_n(word, i, __ATOMIC_RELEASE);
        }
        CHECK(cuStreamSynchronize(a));
    }
    print_words();
    return 0;
}

/* The stream `b` is non-blocking, and forks from a blocking stream (0) or from the legacy stream
 * (1). What waits for the program is in the legacy stream, or in another blocking one. The program
 * waits for `b`, which that does not concern. */
int legacy_order(int how)
{
    CUstream third = CU_STREAM_LEGACY;
    make_word();
    if (how == 0) {
        CHECK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    } else {
        a = CU_STREAM_LEGACY;
        CHECK(cuStreamCreate(&third, CU_STREAM_DEFAULT));
    }
    CHECK(cuCtxSynchronize());
    hashes(a, x);
    CHECK(cuStreamSynchronize(a));
    for (unsigned int i = 1; i <= STEPS; i++) {
        hashes(a, x);
        fork_to(b);
        hashes(b, y);
        CHECK(cuStreamSynchronize(b));
        if (i % 10 == 0)
            waits_for(third, i);
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

static _Atomic unsigned int steps_made, launched;
static _Atomic bool over;
static uint64_t *count, errors;
static char *page;

/* What was launched before has added to the count, or is just about to: it takes long. */
static void adds(const struct cuSimLaunch *l)
{
    uint64_t *p = *(uint64_t *const *)l->params[0];
    for (int i = 0; i < 1000; i++)
        sched_yield();
    __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
}

static void expects(const struct cuSimLaunch *l)
{
    const uint64_t *p = *(uint64_t *const *)l->params[0];
    uint64_t least = *(const uint64_t *)l->params[1];
    if (__atomic_load_n(p, __ATOMIC_SEQ_CST) < least)
        __atomic_fetch_add(&errors, 1, __ATOMIC_SEQ_CST);
}

/* The arguments of a launch are read: the call stays there until the other thread has made some
 * steps, or for some time, as who reads them may have what that thread needs. */
static void is_read(int signal)
{
    unsigned int until = atomic_load(&steps_made) + 40;
    (void)signal;
    for (int i = 0; i < 20000 && atomic_load(&steps_made) < until && !atomic_load(&over); i++)
        sched_yield();
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *launches(void *kernel)
{
    CHECK(cuCtxSetCurrent(ctx));
    while (!atomic_load(&over)) {
        memcpy(page, &count, sizeof count);
        void *params[] = {page};
        mprotect(page, 4096, PROT_NONE);
        CHECK(ag_prog_launch(kernel, b, params));
        atomic_fetch_add(&launched, 1);
        unsigned int until = atomic_load(&steps_made) + 10;
        while (atomic_load(&steps_made) < until && !atomic_load(&over))
            sched_yield();
    }
    return NULL;
}

/* A thread's launch into `b` is on its way while another has the streams fork and join. When it has
 * returned, the other's next launch into `b` comes behind it. */
int late_call(void)
{
    pthread_t thread;
    cuSimRegisterKernel("adds", adds, 1, NULL, (size_t[]){8}, 0);
    cuSimRegisterKernel("expects", expects, 2, NULL, (size_t[]){8, 8}, 0);
    CUmodule own = ag_prog_module();
    CUfunction check = ag_prog_function(own, "expects");
    CHECK(cuMemHostAlloc((void **)&count, sizeof *count, CU_MEMHOSTALLOC_DEVICEMAP));
    *count = 0;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, is_read);
    hashes(a, x);
    CHECK(pthread_create(&thread, NULL, launches, ag_prog_function(own, "adds")) == 0
              ? CUDA_SUCCESS
              : CUDA_ERROR_UNKNOWN);
    for (int i = 0; i < STEPS * 20; i++) {
        fork_to(b);
        hashes(b, y);
        uint64_t least = atomic_load(&launched);
        CHECK(ag_prog_launch(check, b, (void *[]){&count, &least}));
        hashes(a, x);
        join_from(b, joined);
        hashes(a, x);
        CHECK(cuStreamSynchronize(a));
        atomic_fetch_add(&steps_made, 1);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    printf("out of order: %llu\n", (unsigned long long)errors);
    return 0;
}
