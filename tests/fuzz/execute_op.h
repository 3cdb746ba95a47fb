/* execute_op.h - what the files that run ops share: execute_*.c. */
#pragma once

#include "tests/fuzz/execute.h"
#include "tests/fuzz/kernels.h"
#include "tests/simdriver/simcuda.h"
#include <string.h>

/* cuda.h declares few of the per-thread default stream's entry points. */
#define PTSZ(name) extern __typeof__(name) name##_ptsz
PTSZ(cuLaunchKernel);
PTSZ(cuLaunchKernelEx);
PTSZ(cuLaunchCooperativeKernel);
PTSZ(cuMemsetD8Async);
PTSZ(cuMemsetD16Async);
PTSZ(cuMemsetD32Async);
PTSZ(cuMemsetD2D8Async);
PTSZ(cuMemsetD2D16Async);
PTSZ(cuMemsetD2D32Async);
PTSZ(cuMemcpyAsync);
PTSZ(cuMemcpyDtoDAsync_v2);
PTSZ(cuMemcpyHtoDAsync_v2);
PTSZ(cuMemcpyDtoHAsync_v2);
PTSZ(cuMemcpy2DAsync_v2);
PTSZ(cuMemcpy3DAsync_v2);
PTSZ(cuMemcpyPeerAsync);
PTSZ(cuStreamSynchronize);
PTSZ(cuStreamQuery);
PTSZ(cuStreamWaitEvent);
PTSZ(cuStreamIsCapturing);
PTSZ(cuEventRecord);
PTSZ(cuEventRecordWithFlags);
PTSZ(cuLaunchHostFunc);
PTSZ(cuStreamAddCallback);
PTSZ(cuGraphLaunch);
PTSZ(cuStreamWaitValue32_v2);
#define PTDS(name) extern __typeof__(name) name##_ptds
PTDS(cuMemsetD8_v2);
PTDS(cuMemsetD16_v2);
PTDS(cuMemsetD32_v2);
PTDS(cuMemcpyHtoD_v2);
PTDS(cuMemcpyDtoH_v2);
PTDS(cuMemcpyDtoD_v2);

struct fz_run {
    struct fz_handles *h;
    const struct fz_op *op;
    struct fz_result *result;
};

/* Slot 2, and one in four of the created streams, is used through the _ptsz entry points. */
static inline bool by_ptsz(int slot)
{
    return slot == 2 || (slot >= FZ_FIRST_STREAM && slot % 4 == 3);
}

static inline CUstream handle(const struct fz_run *r, int slot)
{
    switch (slot) {
    case 0:
    case 2:
        return NULL;
    case 1:
        return CU_STREAM_LEGACY;
    case 3:
        return CU_STREAM_PER_THREAD;
    default:
        return r->h->stream[slot];
    }
}

#define ON(slot, name, ...)      (by_ptsz(slot) ? name##_ptsz(__VA_ARGS__) : name(__VA_ARGS__))
#define DEFAULT(slot, name, ...) ((slot) == 2 ? name##_ptds(__VA_ARGS__) : name(__VA_ARGS__))

static inline void check(const struct fz_run *r, CUresult error)
{
    if (r->result->error == CUDA_SUCCESS)
        r->result->error = error;
}

/* faults/inject fails the library's pushes, and these not: nobody knows which comes first. */
static inline CUresult push(CUcontext ctx)
{
    cuSimSpare(1);
    CUresult error = cuCtxPushCurrent_v2(ctx);
    cuSimSpare(0);
    return error;
}

static inline void observe(const struct fz_run *r, const void *bytes, size_t n)
{
    uint64_t hash = r->result->seen ? r->result->value : 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    r->result->seen = true;
    r->result->value = hash;
}

/* Bytes that an API does not define: other ones each time, as the stack has them. */
static inline void poison(void *bytes, size_t n)
{
    static __thread uint8_t next;
    memset(bytes, ++next | 1, n);
}

static inline CUdeviceptr address(const struct fz_run *r, int buf, int off)
{
    return r->h->buf[buf].device + (CUdeviceptr)off * 8;
}

/* The arguments of one launch in the forms that an entry point may want. */
struct fz_arguments {
    uint64_t x, y, k;
    uint32_t n;
    struct fz_odd odd;
    struct fz_big big;
    void *params[7];
    union {
        uint64_t words[4];
        struct fz_odd odd;
        struct {
            uint64_t x;
            struct fz_big big;
        } big;
    } packed;
    size_t packed_bytes;
    void *extra[5];
};

/* execute_launch.c */
void fz_make_arguments(struct fz_arguments *g, int kernel);
void fz_launch(const struct fz_run *r, int slot, CUfunction f, int how, int shape,
               struct fz_arguments *g);
void fz_run_launch(const struct fz_run *r);
void fz_run_slow(const struct fz_run *r);
void fz_run_fire(const struct fz_run *r);
void fz_run_bad(const struct fz_run *r);
void fz_run_stale(const struct fz_run *r);

/* execute_memory.c */
void fz_run_fill(const struct fz_run *r);
void fz_run_copy(const struct fz_run *r);
void fz_run_upload(const struct fz_run *r);
void fz_run_read(const struct fz_run *r);
void fz_run_alloc(const struct fz_run *r);
void fz_run_free(const struct fz_run *r);
void fz_run_host(const struct fz_run *r);

/* execute_wait.c */
void fz_run_query(const struct fz_run *r);
void fz_poll_until_done(const struct fz_run *r, int what, int slot);
void fz_run_sync(const struct fz_run *r);
void fz_run_flag(const struct fz_run *r);
void fz_run_gate(const struct fz_run *r);
void fz_run_jam(const struct fz_run *r);
void fz_run_leave(const struct fz_run *r);
void fz_run_ctxgate(const struct fz_run *r);

/* execute_ops.c */
void fz_make_stream(const struct fz_run *r, int slot, int kind);
void fz_end_stream(const struct fz_run *r, int slot);
