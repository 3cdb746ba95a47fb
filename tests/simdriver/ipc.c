/*
 * ipc.c - device memory and events that several processes share.
 *
 * A handle names a file of the process that made it, by process and descriptor: who opens it finds
 * the file under /proc. Handles live as long as that process and what they stand for.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEMORY_HANDLE = 0x73696d01, EVENT_HANDLE = 0x73696d02 };
struct handle {
    uint32_t magic;
    int32_t pid;
    int32_t fd;
    uint64_t offset;
    uint64_t size;
    uint64_t id; /* of the allocation */
};
_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "the size is part of the API");

/* What this process has opened: a handle that is opened again answers the same address. */
static struct opened {
    struct handle handle;
    struct sim_context *ctx;
    uintptr_t base;
    unsigned int refs;
} opened[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int open_file(const struct handle *handle)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)handle->pid, (int)handle->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- memory
 * -------------------------------------------------------------------------------------- */

SIM_API(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address), (out, address))
{
    struct sim_allocation a;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !sim_mem_find(address, &a) || a.memory != SIM_MEM_DEVICE ||
        a.owner != SIM_OWNER_PROGRAM || a.mapping)
        return CUDA_ERROR_INVALID_VALUE;
    struct handle handle = {
        .magic = MEMORY_HANDLE, .pid = (int32_t)getpid(), .size = a.size, .id = a.id};
    handle.fd = sim_mem_file(a.base, &handle.offset);
    if (handle.fd < 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

/* Under the lock. */
static CUresult map(struct opened *slot, const struct handle *handle, struct sim_context *ctx)
{
    int fd = open_file(handle);
    if (fd < 0)
        return CUDA_ERROR_MAP_FAILED;
    CUresult r = sim_mem_map(ctx, fd, handle->offset, handle->size, SIM_OWNER_IPC, &slot->base);
    close(fd);
    if (r != CUDA_SUCCESS)
        return CUDA_ERROR_MAP_FAILED;
    slot->handle = *handle;
    slot->ctx = ctx;
    slot->refs = 1;
    return CUDA_SUCCESS;
}

static CUresult open_memory(CUdeviceptr *out, const CUipcMemHandle *given, unsigned int flags)
{
    struct handle handle;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&handle, given, sizeof handle);
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != MEMORY_HANDLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.pid == getpid()) /* not for the process that it comes from */
        return CUDA_ERROR_INVALID_CONTEXT;
    struct opened *slot = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        if (!opened[i].refs && !slot)
            slot = &opened[i];
        if (opened[i].refs && opened[i].ctx == ctx &&
            !memcmp(&opened[i].handle, &handle, sizeof handle)) {
            slot = &opened[i];
            break;
        }
    }
    if (!slot)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else if (slot->refs)
        slot->refs++;
    else
        r = map(slot, &handle, ctx);
    if (r == CUDA_SUCCESS)
        *out = slot->base;
    pthread_mutex_unlock(&lock);
    return r;
}

SIM_API(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags),
        (out, handle, flags))
{
    return open_memory(out, &handle, flags);
}

SIM_API(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags),
        (out, handle, flags))
{
    return open_memory(out, &handle, flags);
}

/* Waits for the work of the context, as a free does. */
SIM_API(cuIpcCloseMemHandle, (CUdeviceptr address), (address))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    sim_context_wait(ctx);
    r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++)
        if (opened[i].refs && opened[i].base == address) {
            if (--opened[i].refs == 0)
                sim_mem_disown(address);
            r = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- events
 * -------------------------------------------------------------------------------------- */

static struct sim_shared_event *map_event(int fd)
{
    void *p =
        mmap(NULL, sizeof(struct sim_shared_event), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

CUresult sim_shared_event_new(struct sim_event *e)
{
    int fd = memfd_create("simcuda event", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!ftruncate(fd, sizeof(struct sim_shared_event)))
        e->shared = map_event(fd);
    e->shared_fd = fd;
    if (e->shared)
        return CUDA_SUCCESS;
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* A record inside a graph has no number of its own: it stands for all there are. */
void sim_shared_event_done(struct sim_shared_event *shared, uint64_t ticket)
{
    uint64_t value = ticket ? ticket : atomic_load(&shared->recorded);
    uint64_t now = atomic_load(&shared->done);
    while (now < value && !atomic_compare_exchange_weak(&shared->done, &now, value)) {
    }
}

void sim_shared_event_wait(struct sim_shared_event *shared, uint64_t ticket)
{
    for (unsigned int n = 0; atomic_load(&shared->done) < ticket; n++)
        sim_look_later(n);
}

SIM_API(cuIpcGetEventHandle, (CUipcEventHandle * out, CUevent event), (out, event))
{
    struct sim_event *e = (struct sim_event *)event;
    if (!sim_object_is(e, SIM_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !e->shared)
        return CUDA_ERROR_INVALID_VALUE;
    struct handle handle = {
        .magic = EVENT_HANDLE, .pid = (int32_t)getpid(), .fd = (int32_t)e->shared_fd};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

SIM_API(cuIpcOpenEventHandle, (CUevent * out, CUipcEventHandle given), (out, given))
{
    struct handle handle;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&handle, &given, sizeof handle);
    if (!out || handle.magic != EVENT_HANDLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    int fd = open_file(&handle);
    struct sim_shared_event *shared = fd < 0 ? NULL : map_event(fd);
    struct sim_event *e = shared ? sim_event_new() : NULL;
    if (!e) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_MAP_FAILED;
    }
    e->ctx = ctx;
    e->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    e->shared = shared;
    e->shared_fd = fd;
    *out = (CUevent)e;
    return CUDA_SUCCESS;
}
