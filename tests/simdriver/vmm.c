/*
 * vmm.c - virtual memory management: addresses that the program reserves, and physical memory that
 * it maps there.
 *
 * Addresses come from a place of their own, and none is given out again, so that two runs of a
 * program see the same ones and what is used after its end shows.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <sys/mman.h>
#include <unistd.h>

#define GRANULARITY ((size_t)65536)
#define FIRST       0x7e9000000000u /* below memtable.c's arena, and as good for sanitizers */
#define BEHIND      0x7eb000000000u

enum { RESERVATIONS = 1024 };

struct physical {
    struct sim_object object;
    int fd;
    CUmemLocation location;
    size_t size;
};

static struct {
    uintptr_t base;
    size_t size;
} reserved[RESERVATIONS];
static uintptr_t next = FIRST;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_whole(uint64_t n)
{
    return n && n % GRANULARITY == 0;
}

static bool is_of_host(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && !location.id;
}

static bool is_understood(const CUmemAllocationProp *p)
{
    return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           (is_of_host(p->location) ||
            (p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id >= 0 &&
             p->location.id < sim_device_count()));
}

SIM_API(cuMemGetAllocationGranularity,
        (size_t * out, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags option),
        (out, p, option))
{
    (void)option;
    if (!out || !is_understood(p))
        return CUDA_ERROR_INVALID_VALUE;
    *out = GRANULARITY;
    return CUDA_SUCCESS;
}

SIM_API(cuMemAddressReserve,
        (CUdeviceptr * out, size_t size, size_t alignment, CUdeviceptr wish,
         unsigned long long flags),
        (out, size, alignment, wish, flags))
{
    (void)wish;
    if (!out || !is_whole(size) || alignment > GRANULARITY || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RESERVATIONS && r != CUDA_SUCCESS && size < BEHIND - next; i++) {
        if (reserved[i].size)
            continue;
        void *p = mmap((void *)next, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED)
            break;
        reserved[i].base = *out = next;
        reserved[i].size = size;
        next += size;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

static bool is_mapped(uintptr_t address, size_t size)
{
    struct sim_allocation a;
    bool any = false;
    for (uintptr_t at = address; at < address + size; at += GRANULARITY)
        any |= sim_mem_find(at, &a);
    return any;
}

SIM_API(cuMemAddressFree, (CUdeviceptr address, size_t size), (address, size))
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RESERVATIONS; i++)
        if (reserved[i].size && reserved[i].base == address && reserved[i].size == size) {
            if (is_mapped(address, size))
                break;
            munmap((void *)address, size);
            reserved[i].size = 0;
            r = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

SIM_API(cuMemCreate,
        (CUmemGenericAllocationHandle * out, size_t size, const CUmemAllocationProp *p,
         unsigned long long flags),
        (out, size, p, flags))
{
    if (!out || !is_whole(size) || flags || !is_understood(p))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_of_host(p->location) && size > sim_settings.memory - sim_mem_used(p->location.id))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int fd = memfd_create("simcuda physical", MFD_CLOEXEC);
    struct physical *m =
        fd < 0 || ftruncate(fd, (off_t)size) ? NULL : sim_object_new(SIM_PHYSICAL, sizeof *m);
    if (!m) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->fd = fd;
    m->location = p->location;
    m->size = size;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)m;
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetAllocationPropertiesFromHandle,
        (CUmemAllocationProp * out, CUmemGenericAllocationHandle handle), (out, handle))
{
    const struct physical *m = (const struct physical *)(uintptr_t)handle;
    if (!out || !sim_object_is(m, SIM_PHYSICAL))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = m->location};
    return CUDA_SUCCESS;
}

/* Mappings keep the memory. */
SIM_API(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
{
    struct physical *m = (struct physical *)(uintptr_t)handle;
    if (!sim_object_is(m, SIM_PHYSICAL))
        return CUDA_ERROR_INVALID_VALUE;
    close(m->fd);
    sim_object_destroy(m, SIM_PHYSICAL);
    return CUDA_SUCCESS;
}

/* Nobody has access to it yet. */
SIM_API(cuMemMap,
        (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
         unsigned long long flags),
        (address, size, offset, handle, flags))
{
    struct physical *m = (struct physical *)(uintptr_t)handle;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (offset || flags || !sim_object_is(m, SIM_PHYSICAL) || size != m->size)
        return CUDA_ERROR_INVALID_VALUE;
    r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RESERVATIONS; i++)
        if (address >= reserved[i].base && address - reserved[i].base < reserved[i].size &&
            size <= reserved[i].size - (address - reserved[i].base))
            r = sim_mem_map_at(ctx, is_of_host(m->location) ? SIM_MEM_HOST : SIM_MEM_DEVICE, m->fd,
                               m->location.id, address, size, reserved[i].base, reserved[i].size);
    pthread_mutex_unlock(&lock);
    return r;
}

SIM_API(cuMemUnmap, (CUdeviceptr address, size_t size), (address, size))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    sim_context_wait(ctx);
    for (CUdeviceptr end = address + size; address < end;) {
        struct sim_allocation a;
        if (!sim_mem_find(address, &a) || a.size > end - address ||
            !sim_mem_unmap_at(address, a.size))
            return CUDA_ERROR_INVALID_VALUE;
        address += a.size;
    }
    return CUDA_SUCCESS;
}

/* Only what a piece's own device may do with it is kept. */
SIM_API(cuMemSetAccess,
        (CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count),
        (address, size, desc, count))
{
    if (!desc || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr end = address + size; address < end;) {
        struct sim_allocation a;
        size_t bytes = 0;
        if (!sim_mem_find(address, &a))
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < count; i++)
            if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                desc[i].location.id == a.device &&
                !sim_mem_give_access(address, desc[i].flags, &bytes))
                return CUDA_ERROR_INVALID_VALUE;
        address += bytes ? bytes : a.size;
    }
    return CUDA_SUCCESS;
}
