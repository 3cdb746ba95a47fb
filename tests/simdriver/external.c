/*
 * external.c - memory and semaphores of another API, imported by file descriptor.
 *
 * That API is whoever holds the file: memory is its bytes, a semaphore its first 64-bit word. A
 * timeline semaphore holds the highest value that was signalled; a binary one (an opaque file
 * descriptor) is 1 from its signal to the wait that takes it.
 */
#include "sim.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sim_external {
    struct sim_object object;
    int fd;
    uint64_t size;
};
struct sim_semaphore {
    struct sim_object object;
    bool timeline;
    _Atomic uint64_t *word; /* stays mapped: work that names it may be on its way */
};

/* ---- memory
 * -------------------------------------------------------------------------------------- */

SIM_API(cuImportExternalMemory,
        (CUexternalMemory * out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc), (out, desc))
{
    struct sim_context *ctx;
    struct stat file;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !desc || !desc->size)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(desc->handle.fd, &file) || (uint64_t)file.st_size < desc->size)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_external *memory = sim_object_new(SIM_EXTERNAL_MEMORY, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->fd = desc->handle.fd; /* the driver's from now on */
    memory->size = desc->size;
    *out = (CUexternalMemory)memory;
    return CUDA_SUCCESS;
}

/* The buffer is the program's, who frees it. */
SIM_API(cuExternalMemoryGetMappedBuffer,
        (CUdeviceptr * out, CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc),
        (out, handle, desc))
{
    struct sim_external *memory = (struct sim_external *)handle;
    struct sim_context *ctx;
    uintptr_t address;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sim_object_is(memory, SIM_EXTERNAL_MEMORY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !desc || desc->flags || !desc->size || desc->offset > memory->size ||
        desc->size > memory->size - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_mem_map(ctx, memory->fd, desc->offset, desc->size, SIM_OWNER_PROGRAM, &address);
    if (r == CUDA_SUCCESS)
        *out = address;
    return r;
}

SIM_API(cuDestroyExternalMemory, (CUexternalMemory handle), (handle))
{
    struct sim_external *memory = (struct sim_external *)handle;
    if (!sim_object_is(memory, SIM_EXTERNAL_MEMORY))
        return CUDA_ERROR_INVALID_HANDLE;
    close(memory->fd);
    sim_object_destroy(memory, SIM_EXTERNAL_MEMORY);
    return CUDA_SUCCESS;
}

/* ---- semaphores
 * ---------------------------------------------------------------------------------- */

SIM_API(cuImportExternalSemaphore,
        (CUexternalSemaphore * out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc), (out, desc))
{
    struct sim_context *ctx;
    struct stat file;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    bool timeline = desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
    if (!timeline && desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(desc->handle.fd, &file) || file.st_size < (off_t)sizeof(uint64_t))
        return CUDA_ERROR_INVALID_VALUE;
    void *p = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd, 0);
    struct sim_semaphore *semaphore =
        p == MAP_FAILED ? NULL : sim_object_new(SIM_SEMAPHORE, sizeof *semaphore);
    if (!semaphore)
        return CUDA_ERROR_OUT_OF_MEMORY;
    close(desc->handle.fd);
    semaphore->timeline = timeline;
    semaphore->word = p;
    *out = (CUexternalSemaphore)semaphore;
    return CUDA_SUCCESS;
}

SIM_API(cuDestroyExternalSemaphore, (CUexternalSemaphore handle), (handle))
{
    if (!sim_object_is(handle, SIM_SEMAPHORE))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_destroy(handle, SIM_SEMAPHORE);
    return CUDA_SUCCESS;
}

bool sim_semaphore_run(struct sim_semaphore *semaphore, uint64_t value, bool wait)
{
    if (!sim_object_is(semaphore, SIM_SEMAPHORE))
        return false;
    uint64_t one = 1;
    if (!wait)
        atomic_store(semaphore->word, semaphore->timeline ? value : 1);
    else if (semaphore->timeline)
        for (unsigned int n = 0; atomic_load(semaphore->word) < value; n++)
            sim_look_later(n);
    else
        for (unsigned int n = 0; !atomic_compare_exchange_strong(semaphore->word, &one, 0); n++) {
            one = 1;
            sim_look_later(n);
        }
    return true;
}

static CUresult submit(CUstream stream, bool ptsz, CUexternalSemaphore handle, uint64_t value,
                       unsigned int flags, enum sim_op_kind kind)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sim_object_is(handle, SIM_SEMAPHORE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = kind,
                        .fence = {.semaphore = (struct sim_semaphore *)handle, .value = value}};
    return sim_submit(s, &op, NULL);
}

SIM_API2(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz,
         (const CUexternalSemaphore *semaphores,
          const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count, CUstream stream),
         (semaphores, params, count, stream))
{
    CUresult r = count && (!semaphores || !params) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = submit(stream, ptsz, semaphores[i], params[i].params.fence.value, params[i].flags,
                   SIM_OP_SIGNAL);
    return r;
}

SIM_API2(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz,
         (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
          unsigned int count, CUstream stream),
         (semaphores, params, count, stream))
{
    CUresult r = count && (!semaphores || !params) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = submit(stream, ptsz, semaphores[i], params[i].params.fence.value, params[i].flags,
                   SIM_OP_AWAIT);
    return r;
}
