/* memory.c - allocation and what can be asked of a pointer. */
#include "sim.h"
#include <string.h>
#include <unistd.h>

static CUresult allocate(enum sim_memory memory, size_t bytes, unsigned int flags, uintptr_t *out)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS && (!out || !bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && atomic_load(&sim_captures))
        r = sim_capture_unsafe();
    return r == CUDA_SUCCESS ? sim_mem_new(ctx, memory, bytes, flags, out) : r;
}

SIM_API(cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes), (out, bytes))
{
    uintptr_t address;
    CUresult r = out ? allocate(SIM_MEM_DEVICE, bytes, 0, &address) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = address;
    return r;
}

SIM_API(cuMemAllocPitch_v2,
        (CUdeviceptr * out, size_t *pitch, size_t width, size_t height, unsigned int element),
        (out, pitch, width, height, element))
{
    uintptr_t address;
    if (!out || !pitch || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + 511) & ~(size_t)511;
    CUresult r = allocate(SIM_MEM_DEVICE, row * height, 0, &address);
    if (r == CUDA_SUCCESS) {
        *out = address;
        *pitch = row;
    }
    return r;
}

SIM_API(cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned int flags),
        (out, bytes, flags))
{
    uintptr_t address;
    if (!out || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = allocate(SIM_MEM_MANAGED, bytes, flags, &address);
    if (r == CUDA_SUCCESS)
        *out = address;
    return r;
}

/* Freeing waits for the work of the context, as the real driver does. */
static CUresult release(uintptr_t address, enum sim_memory memory)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS && atomic_load(&sim_captures))
        r = sim_capture_unsafe();
    if (r != CUDA_SUCCESS || !address)
        return r;
    struct sim_allocation a;
    if (!sim_mem_find(address, &a) || a.base != address)
        return CUDA_ERROR_INVALID_VALUE;
    sim_context_wait(a.ctx);
    return sim_mem_release(address, memory);
}

SIM_API(cuMemFree_v2, (CUdeviceptr address), (address))
{
    return release(address, SIM_MEM_DEVICE);
}

SIM_API(cuMemAllocHost_v2, (void **out, size_t bytes), (out, bytes))
{
    return allocate(SIM_MEM_HOST, bytes, 0, (uintptr_t *)out);
}

SIM_API(cuMemAllocHost, (void **out, unsigned int bytes), (out, bytes))
{
    return allocate(SIM_MEM_HOST, bytes, 0, (uintptr_t *)out);
}

SIM_API(cuMemHostAlloc, (void **out, size_t bytes, unsigned int flags), (out, bytes, flags))
{
    if (flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = allocate(SIM_MEM_HOST, bytes, flags, (uintptr_t *)out);
    struct sim_context *ctx;
    if (r == CUDA_SUCCESS && flags & CU_MEMHOSTALLOC_WRITECOMBINED &&
        sim_current(&ctx) == CUDA_SUCCESS)
        r = sim_mem_map_twice(ctx, (uintptr_t)*out, bytes);
    return r;
}

SIM_API(cuMemFreeHost, (void *address), (address))
{
    struct sim_allocation a;
    bool found = sim_mem_find((uintptr_t)address, &a);
    CUresult r = release((uintptr_t)address, SIM_MEM_HOST);
    if (r == CUDA_SUCCESS && found && a.device_address)
        sim_mem_disown(a.device_address);
    return r;
}

static CUresult host_register(void *address, size_t bytes, unsigned int flags)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS && (!address || !bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? sim_mem_register(ctx, (uintptr_t)address, bytes, flags) : r;
}

SIM_API(cuMemHostRegister, (void *address, size_t bytes, unsigned int flags),
        (address, bytes, flags))
{
    return host_register(address, bytes, flags);
}

SIM_API(cuMemHostRegister_v2, (void *address, size_t bytes, unsigned int flags),
        (address, bytes, flags))
{
    return host_register(address, bytes, flags);
}

SIM_API(cuMemHostUnregister, (void *address), (address))
{
    CUresult r =
        address ? release((uintptr_t)address, SIM_MEM_REGISTERED) : CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_ERROR_INVALID_VALUE && address ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : r;
}

SIM_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void *address, unsigned int flags),
        (out, address, flags))
{
    struct sim_allocation a;
    if (!out || flags || !sim_mem_find((uintptr_t)address, &a) || a.memory == SIM_MEM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)address + (a.device_address ? a.device_address - a.base : 0);
    return CUDA_SUCCESS;
}

SIM_API(cuMemHostGetFlags, (unsigned int *flags, void *address), (flags, address))
{
    struct sim_allocation a;
    if (!flags || !sim_mem_find((uintptr_t)address, &a) || a.memory == SIM_MEM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = a.flags;
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total), (free_bytes, total))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (free_bytes)
        *free_bytes = sim_settings.memory - sim_mem_used(ctx->device);
    if (total)
        *total = sim_settings.memory;
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *size, CUdeviceptr address),
        (base, size, address))
{
    struct sim_allocation a;
    if (!sim_mem_find(address, &a))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = a.base;
    if (size)
        *size = a.size;
    return CUDA_SUCCESS;
}

/* ---- pointer attributes
 * --------------------------------------------------------------------------- */

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute,
                                  const struct sim_allocation *a, uintptr_t address)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = a->no_context ? NULL : (CUcontext)a->ctx;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *)data = a->memory == SIM_MEM_DEVICE || a->memory == SIM_MEM_MANAGED
                                    ? CU_MEMORYTYPE_DEVICE
                                    : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address + (a->device_address ? a->device_address - a->base : 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (a->memory == SIM_MEM_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = a->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)data = a->memory == SIM_MEM_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = a->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = a->reserved ? a->reserved : a->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = a->reserved ? a->reserved_size : a->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned int *)data = a->access;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: /* any, but that of a pool */
        *(uintptr_t *)data = a->no_context && !a->reserved ? a->base : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned int *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned int *)data = a->syncs;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

SIM_API(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr address),
        (data, attribute, address))
{
    struct sim_allocation a;
    if (!data || !sim_mem_find(address, &a))
        return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(data, attribute, &a, address);
}

/* An unknown pointer is no error here: its attributes are zero. */
SIM_API(cuPointerGetAttributes,
        (unsigned int n, CUpointer_attribute *attributes, void **data, CUdeviceptr address),
        (n, attributes, data, address))
{
    struct sim_allocation a;
    if (!n || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = sim_mem_find(address, &a);
    for (unsigned int i = 0; i < n; i++) {
        uint64_t value = 0;
        if (known)
            pointer_attribute(&value, attributes[i], &a, address);
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            value = (uint32_t)CU_DEVICE_INVALID;
        bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        bool flag = attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
        memcpy(data[i], &value, wide ? 8 : flag ? 1 : 4);
    }
    return CUDA_SUCCESS;
}

SIM_API(cuPointerSetAttribute,
        (const void *value, CUpointer_attribute attribute, CUdeviceptr address),
        (value, attribute, address))
{
    struct sim_allocation a;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sim_mem_find(address, &a))
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_settings.slow_us)
        usleep(sim_settings.slow_us); /* other threads may look meanwhile */
    sim_mem_set_syncs(a.base, *(const unsigned int *)value != 0);
    return CUDA_SUCCESS;
}

/* ---- stream-ordered allocation
 * -------------------------------------------------------------------- */

static CUresult allocate_async(CUdeviceptr *out, size_t bytes, CUstream stream, bool ptsz)
{
    struct sim_stream *s;
    uintptr_t address;
    CUresult r = sim_running ? CUDA_ERROR_NOT_PERMITTED : sim_stream_find(stream, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_mem_new(s->ctx, SIM_MEM_DEVICE, bytes, 0, &address);
    if (r != CUDA_SUCCESS)
        return r;
    sim_mem_of_pool(address);
    struct sim_op op = {.kind = SIM_OP_ALLOC, .memory = {.address = address, .bytes = bytes}};
    r = sim_submit(s, &op, NULL);
    if (r == CUDA_SUCCESS)
        *out = address;
    else
        sim_mem_release(address, SIM_MEM_DEVICE);
    return r;
}

SIM_API2(cuMemAllocAsync, cuMemAllocAsync_ptsz, (CUdeviceptr * out, size_t bytes, CUstream stream),
         (out, bytes, stream))
{
    return allocate_async(out, bytes, stream, ptsz);
}

SIM_API2(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
         (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
         (out, bytes, pool, stream))
{
    if (!sim_object_is(pool, SIM_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_async(out, bytes, stream, ptsz);
}

SIM_API2(cuMemFreeAsync, cuMemFreeAsync_ptsz, (CUdeviceptr address, CUstream stream),
         (address, stream))
{
    struct sim_stream *s;
    CUresult r = sim_running ? CUDA_ERROR_NOT_PERMITTED : sim_stream_find(stream, ptsz, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_allocation a;
    if (!sim_mem_find(address, &a) || a.base != address || a.memory != SIM_MEM_DEVICE ||
        a.owner != SIM_OWNER_PROGRAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!atomic_load(&s->capture) && !sim_mem_mark_dying(address)) {
        sim_misuse("memory at %#lx is freed twice", (unsigned long)address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_op op = {.kind = SIM_OP_FREE, .memory = {.address = address}};
    return sim_submit(s, &op, NULL);
}

/* One pool a device; its properties change nothing here. */
static CUresult default_pool(CUmemoryPool *out, CUdevice device)
{
    static struct sim_object *pools[SIM_MAX_DEVICES];
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= sim_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&sim_lock);
    if (!pools[device])
        pools[device] = sim_object_new(SIM_POOL, 64);
    *out = (CUmemoryPool)pools[device];
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), (out, device))
{
    return default_pool(out, device);
}

SIM_API(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device), (out, device))
{
    return default_pool(out, device);
}

SIM_API(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
        (pool, attribute, value))
{
    (void)attribute;
    return value && sim_object_is(pool, SIM_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
        (pool, attribute, value))
{
    if (!value || !sim_object_is(pool, SIM_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        *(cuuint64_t *)value = 0;
    else
        *(int *)value = 1;
    return CUDA_SUCCESS;
}

SIM_API(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep))
{
    (void)keep;
    return sim_object_is(pool, SIM_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
