/* execute_wait.c - ops: waits, queries, and what the host does later. */
#include "tests/fuzz/execute_op.h"
#include "tests/fuzz/model.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

double fz_patience_s = 3.0;

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static CUresult ask(const struct fz_run *r, int what, int slot)
{
    return what == FZ_SYNC_STREAM ? ON(slot, cuStreamQuery, handle(r, slot))
                                  : cuEventQuery(r->h->event[slot]);
}

void fz_run_query(const struct fz_run *r)
{
    CUresult e = ask(r, r->op->a[0], r->op->a[1]);
    check(r, e == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : e);
}

void fz_poll_until_done(const struct fz_run *r, int what, int slot)
{
    double end = seconds() + fz_patience_s;
    CUresult e;
    while ((e = ask(r, what, slot)) == CUDA_ERROR_NOT_READY && seconds() < end)
        sched_yield();
    check(r, e);
}

void fz_run_sync(const struct fz_run *r)
{
    int what = r->op->a[0], slot = r->op->a[1];
    if (what == FZ_SYNC_STREAM)
        check(r, ON(slot, cuStreamSynchronize, handle(r, slot)));
    else if (what == FZ_SYNC_CTX)
        check(r, cuCtxSynchronize());
    else if (what == FZ_SYNC_EVENT)
        check(r, cuEventSynchronize(r->h->event[slot]));
    else
        fz_poll_until_done(r, what == FZ_POLL_STREAM ? FZ_SYNC_STREAM : FZ_SYNC_EVENT, slot);
}

/* Then what a launch has done is there when it returns. */
static bool launches_wait(void)
{
    const char *value = getenv("CUDA_LAUNCH_BLOCKING");
    return value && atoi(value);
}

void fz_run_flag(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream module k */
    uint32_t *flag = r->h->flags + r->op->thread, value = (uint32_t)a[2];
    uint64_t x = (uint64_t)(uintptr_t)flag, k = value;
    struct fz_arguments g = {.params = {&x, &k}};
    __atomic_store_n(flag, ~value, __ATOMIC_RELEASE);
    fz_launch(r, a[0], r->h->module[a[1]].function[FZ_PUBLISH], FZ_PARAMS, 0, &g);
    if (r->result->error != CUDA_SUCCESS)
        return;
    double end = launches_wait() ? 0 : seconds() + fz_patience_s;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value && seconds() < end)
        sched_yield();
    uint8_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE) == value;
    observe(r, &seen, 1);
}

struct gate {
    const uint32_t *flag;
    uint32_t value;
};

static void CUDA_CB wait_at_gate(void *data)
{
    struct gate *gate = data;
    while (__atomic_load_n(gate->flag, __ATOMIC_ACQUIRE) < gate->value)
        sched_yield();
    free(gate);
}

static void CUDA_CB wait_at_gate_too(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    wait_at_gate(data);
}

static void launches(const struct fz_run *r, int slot, int module, int buf, int n)
{
    for (int i = 0; i < n; i++) {
        struct fz_arguments g;
        g.x = address(r, buf, 0);
        g.k = (uint64_t)i;
        fz_make_arguments(&g, FZ_MIX);
        fz_launch(r, slot, r->h->module[module].function[FZ_MIX], FZ_PARAMS, 0, &g);
    }
}

/* The stream ends while a launch in it waits for a word, with launches behind that. The stream that
 * takes its place gets the same ones, and they are waited for before the host writes the word. No
 * real driver promises that a kernel which waits leaves others their place: there all only runs on.
 */
void fz_run_leave(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* slot kind buf buf2 module n rounds */
    uint32_t *flag = r->h->flags + FZ_THREADS + r->op->thread;
    uint32_t value = __atomic_load_n(flag, __ATOMIC_ACQUIRE) + 1;
    uint64_t x = (uint64_t)(uintptr_t)flag, k = value;
    struct fz_arguments g = {.params = {&x, &k}};
    for (int round = 0; round < a[6]; round++) {
        launches(r, a[0], a[4], a[2], a[5]);
        check(r, ON(a[0], cuStreamSynchronize, handle(r, a[0])));
    }
    if (!fz_limits.real)
        fz_launch(r, a[0], r->h->module[a[4]].function[FZ_AWAIT], FZ_PARAMS, 0, &g);
    launches(r, a[0], a[4], a[2], a[5]);
    fz_end_stream(r, a[0]);
    fz_make_stream(r, a[0], a[1]);
    launches(r, a[0], a[4], a[3], a[5]);
    fz_poll_until_done(r, FZ_SYNC_STREAM, a[0]);
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* What was launched before the context waits for an event does not wait for that: it is done before
 * the host writes the word that the event is behind. No real driver promises that streams do not
 * wait for each other: there the word is written first. */
void fz_run_ctxgate(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream second event buf module n rounds */
    uint32_t *flag = r->h->flags + FZ_THREADS + r->op->thread;
    uint32_t value = __atomic_load_n(flag, __ATOMIC_ACQUIRE) + 1;
    for (int round = 0; round < a[6]; round++) {
        launches(r, a[0], a[4], a[3], a[5]);
        check(r, ON(a[0], cuStreamSynchronize, handle(r, a[0])));
    }
    check(r, ON(a[1], cuStreamWaitValue32_v2, handle(r, a[1]), (CUdeviceptr)(uintptr_t)flag, value,
                CU_STREAM_WAIT_VALUE_GEQ));
    check(r, ON(a[1], cuEventRecord, r->h->event[a[2]], handle(r, a[1])));
    launches(r, a[0], a[4], a[3], a[5]);
    check(r, cuCtxWaitEvent(r->h->ctx, r->h->event[a[2]]));
    if (fz_limits.real)
        __atomic_store_n(flag, value, __ATOMIC_RELEASE);
    fz_poll_until_done(r, FZ_SYNC_STREAM, a[0]);
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* The stream waits for a word that the host writes only when all has been launched: nobody may wait
 * for the stream in between. One gate in four is a host function that does. */
void fz_run_gate(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream buf module n k */
    uint32_t *flag = r->h->flags + FZ_THREADS + r->op->thread;
    uint32_t value = __atomic_load_n(flag, __ATOMIC_ACQUIRE) + 1;
    if (a[4] % 4) {
        check(r, ON(a[0], cuStreamWaitValue32_v2, handle(r, a[0]), (CUdeviceptr)(uintptr_t)flag,
                    value, CU_STREAM_WAIT_VALUE_GEQ));
    } else {
        struct gate *gate = malloc(sizeof *gate);
        *gate = (struct gate){flag, value};
        check(r, a[4] % 8
                     ? ON(a[0], cuLaunchHostFunc, handle(r, a[0]), wait_at_gate, gate)
                     : ON(a[0], cuStreamAddCallback, handle(r, a[0]), wait_at_gate_too, gate, 0));
    }
    for (int i = 0; i < a[3]; i++) {
        struct fz_arguments g;
        g.x = address(r, a[1], 0);
        g.k = (uint64_t)(a[4] + i);
        fz_make_arguments(&g, FZ_MIX);
        fz_launch(r, a[0], r->h->module[a[2]].function[FZ_MIX], FZ_PARAMS, 0, &g);
    }
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* As a gate, but that another thread ends, and only when calls that wait for nobody have returned:
 * whether or not the launches have filled the queue by then. */
struct jam {
    CUcontext ctx;
    CUstream stream;
    uint32_t *flag, value;
    _Atomic int left; /* launches until the other thread begins */
};

static void *end_jam(void *data)
{
    struct jam *jam = data;
    CUevent event;
    size_t free_bytes, total;
    bool ready = cuCtxSetCurrent(jam->ctx) == CUDA_SUCCESS &&
                 cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    while (jam->left > 0)
        sched_yield();
    for (int i = 0; ready && i < 40; i++) {
        cuEventQuery(event);
        cuMemGetInfo_v2(&free_bytes, &total);
        cuStreamQuery(jam->stream);
    }
    if (ready)
        cuEventDestroy_v2(event);
    __atomic_store_n(jam->flag, jam->value, __ATOMIC_RELEASE);
    return NULL;
}

void fz_run_jam(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream buf module n k */
    uint32_t *flag = r->h->flags + FZ_THREADS + r->op->thread;
    enum { BEFORE = 12 }; /* less than any queue holds */
    struct jam jam = {r->h->ctx, a[0] < FZ_FIRST_STREAM ? NULL : handle(r, a[0]), flag,
                      __atomic_load_n(flag, __ATOMIC_ACQUIRE) + 1, a[3] < BEFORE ? a[3] : BEFORE};
    pthread_t other;
    if (pthread_create(&other, NULL, end_jam, &jam))
        abort();
    check(r, ON(a[0], cuStreamWaitValue32_v2, handle(r, a[0]), (CUdeviceptr)(uintptr_t)flag,
                jam.value, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < a[3]; i++) {
        struct fz_arguments g;
        g.x = address(r, a[1], 0);
        g.k = (uint64_t)(a[4] + i);
        fz_make_arguments(&g, FZ_MIX);
        fz_launch(r, a[0], r->h->module[a[2]].function[FZ_MIX], FZ_PARAMS, 0, &g);
        jam.left--;
    }
    pthread_join(other, NULL);
}
