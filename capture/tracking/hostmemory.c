/*
 * hostmemory.c - which addresses are memory of the host or of other devices, that kernels can write
 * to.
 *
 * The host, or a kernel of another device, may poll a word there, and then read what other kernels
 * wrote before. Between two kernels of a stream the driver makes all writes visible to them, and
 * between two graphs. Between two kernels of one graph it does not: the word comes first
 * (tests/gpu/order/visible.cu and peers.cu saw it on an H100 and an H200, driver 580). So graphs
 * get a fence there (graphs/build.c).
 *
 * No range is ever taken out again. Memory that was freed is mostly allocated again, and an address
 * too many costs a fence.
 */
#include "capture/tracking/hostmemory.h"
#include "capture/capture.h"
#include "capture/system/lock.h"
#include "driver/own.h"

enum {
    MOST_RANGES = 512,
    /* bytes: a kernel may be given the end of the memory, from which an iterator goes backwards, or
     * the element in front of an array that counts from 1 */
    BESIDE = 16
};

/* In order, and apart from each other. There is room for one that comes before two are joined. */
static struct range {
    uint64_t start, end;
} ranges[MOST_RANGES + 1];
static uint32_t num_ranges;
static struct ag_lock lock;
_Atomic uint32_t ag_host_memory_epoch;
static _Atomic uint64_t lowest, highest; /* of all; read without the lock */

/* Joins the two ranges that are nearest to each other. */
static void join_two(void)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i + 1 < num_ranges; i++)
        if (ranges[i + 1].start - ranges[i].end < ranges[at + 1].start - ranges[at].end)
            at = i;
    ranges[at].end = ranges[at + 1].end;
    num_ranges--;
    memmove(&ranges[at + 1], &ranges[at + 2], (num_ranges - at - 1) * sizeof(*ranges));
}

void ag_core_host_memory(uint64_t start, uint64_t bytes)
{
    struct range range = {start > BESIDE ? start - BESIDE : 0, bytes < UINT64_MAX - BESIDE - start
                                                                   ? start + bytes + BESIDE
                                                                   : UINT64_MAX};
    if (!bytes)
        return;
    ag_lock(&lock, AG_RANK_HOST_MEMORY);
    uint32_t at = 0, behind;
    while (at < num_ranges && ranges[at].end < range.start)
        at++;
    if (at < num_ranges && ranges[at].start <= range.start && range.end <= ranges[at].end) {
        ag_unlock(&lock);
        return;
    }
    for (behind = at; behind < num_ranges && ranges[behind].start <= range.end; behind++) {
        range.start = ranges[behind].start < range.start ? ranges[behind].start : range.start;
        range.end = ranges[behind].end > range.end ? ranges[behind].end : range.end;
    }
    memmove(&ranges[at + 1], &ranges[behind], (num_ranges - behind) * sizeof(*ranges));
    ranges[at] = range;
    num_ranges += 1 - (behind - at);
    if (num_ranges > MOST_RANGES)
        join_two();
    atomic_store(&lowest, ranges[0].start);
    atomic_store(&highest, ranges[num_ranges - 1].end);
    atomic_fetch_add(&ag_host_memory_epoch, 1); /* last: who reads it then finds the range */
    ag_unlock(&lock);
}

/* Memory that is registered, or written in bursts, may have another address for kernels (CUDA
 * Driver API, "Unified Addressing"). */
void ag_core_pinned(void *host, uint64_t bytes)
{
    CUdeviceptr device = (uintptr_t)host;
    ag_core_host_memory(device, bytes);
    if (!AG_HAVE(cuMemHostGetDevicePointer_v2))
        return;
    ag_probe_begins();
    CUresult r = AG_REAL(cuMemHostGetDevicePointer_v2)(&device, host, 0);
    ag_probe_ends();
    if (r == CUDA_SUCCESS)
        ag_core_host_memory(device, bytes);
}

/* The handle may come from another process, so it is asked. That of a multicast object does not
 * say: all of its memory is the devices'. */
void ag_core_memory_mapped(uint64_t start, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp prop;
    if (!AG_HAVE(cuMemGetAllocationPropertiesFromHandle))
        return;
    memset(&prop, 0, sizeof(prop));
    ag_probe_begins();
    CUresult r = AG_REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, handle);
    ag_probe_ends();
    if (r == CUDA_SUCCESS && prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        ag_core_host_memory(start, bytes);
}

/* Where this thread has last found no memory of the host: most addresses that a program uses lie
 * between the same two ranges, so threads seldom meet at the lock. */
static __thread struct {
    struct range range;
    uint32_t epoch;
} clear __attribute__((tls_model("initial-exec")));

static bool is_in_a_range(uint64_t address)
{
    ag_lock(&lock, AG_RANK_HOST_MEMORY);
    uint32_t from = 0, to = num_ranges;
    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (ranges[middle].end <= address)
            from = middle + 1;
        else
            to = middle;
    }
    bool is = from < num_ranges && ranges[from].start <= address;
    if (!is) {
        clear.range.start = from ? ranges[from - 1].end : 0;
        clear.range.end = from < num_ranges ? ranges[from].start : UINT64_MAX;
        clear.epoch = atomic_load(&ag_host_memory_epoch);
    }
    ag_unlock(&lock);
    return is;
}

static _Atomic bool peers; /* kernels may get at memory of other devices */

void ag_core_peer_memory(void)
{
    if (atomic_exchange(&peers, true))
        return;
    ag_lock(&lock, AG_RANK_HOST_MEMORY);
    atomic_fetch_add(&ag_host_memory_epoch, 1);
    ag_unlock(&lock);
}

/* Asks the driver (0.3 us). Memory of which it does not answer may be another's. */
static bool is_other_devices(uint64_t address, CUdevice device)
{
    unsigned int type = 0;
    int owner = device;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    ag_probe_begins();
    CUresult r =
        AG_REAL(cuPointerGetAttributes)(2, wanted, (void *[]){&type, &owner}, (CUdeviceptr)address);
    ag_probe_ends();
    return r != CUDA_SUCCESS || (type == CU_MEMORYTYPE_DEVICE && owner != device);
}

void ag_core_access_given(CUdeviceptr address, const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_other_devices(address, desc[i].location.id))
            ag_core_peer_memory();
}

/* No memory lies below the first, and none of the program's above the second. */
static bool may_be_address(uint64_t word)
{
    return word >= 1 << 20 && word < (uint64_t)1 << 56;
}

static bool any_is_outside(const uint8_t *words, uint32_t bytes, CUdevice device)
{
    uint64_t from = atomic_load_explicit(&lowest, memory_order_relaxed);
    uint64_t length = atomic_load_explicit(&highest, memory_order_relaxed) - from, address;
    bool asks = atomic_load_explicit(&peers, memory_order_relaxed);
    for (uint32_t k = 0; k + 8 <= bytes; k += 8) {
        memcpy(&address, words + k, 8);
        if (address - from < length &&
            address - clear.range.start >= clear.range.end - clear.range.start &&
            is_in_a_range(address))
            return true;
        if (__builtin_expect(asks, 0) && may_be_address(address) &&
            is_other_devices(address, device))
            return true;
    }
    return false;
}

bool ag_outside_is_named(const struct ag_signature *signature, const uint8_t *recorded,
                         CUdevice device)
{
    uint32_t epoch = atomic_load_explicit(&ag_host_memory_epoch, memory_order_acquire);
    if (!epoch)
        return false;
    if (clear.epoch != epoch)
        clear.range = (struct range){0, 0};
    if (signature->kind != AG_OP_LAUNCH) /* the first word is where it writes to */
        return signature->layout.recorded_bytes && any_is_outside(recorded, 8, device);
    for (uint32_t i = 0; i < signature->layout.num_params; i++) {
        const struct ag_param *param = &signature->layout.params[i];
        uint32_t at = -param->offset % 8;
        if (at < param->size &&
            any_is_outside(recorded + param->recorded + at, param->size - at, device))
            return true;
    }
    return false;
}
