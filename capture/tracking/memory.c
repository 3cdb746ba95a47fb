/*
 * memory.c - for which memory the library may record an op on addresses.
 *
 * The driver checks the addresses of a memset or a copy during the call; a graph node would fault
 * later. So the library looks up an address (0.3 us) before it defers the op. It remembers the
 * result until the program frees or unmaps any memory.
 */
#include "capture/tracking/memory.h"
#include "capture/capture.h"
#include "capture/system/lock.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include "driver/own.h"
#include <pthread.h>

_Atomic uint64_t ag_memory_epoch = 1;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static _Atomic bool held; /* by one builder at a time */

bool ag_memory_hold(uint64_t epoch)
{
    atomic_store(&held, true);
    if (epoch == atomic_load(&ag_memory_epoch))
        return true;
    ag_memory_release();
    return false;
}

void ag_memory_release(void)
{
    ag_mutex_lock(&mutex, AG_RANK_MEMORY);
    atomic_store(&held, false);
    pthread_cond_broadcast(&released);
    ag_mutex_unlock(&mutex);
}

void ag_core_invalidate_memory(void)
{
    atomic_fetch_add(&ag_memory_epoch, 1);
    if (!atomic_load(&held))
        return;
    ag_mutex_lock(&mutex, AG_RANK_MEMORY);
    while (atomic_load(&held))
        pthread_cond_wait(&released, &mutex);
    ag_mutex_unlock(&mutex);
}

static enum ag_memory look_up(const struct ag_stream *s, CUdeviceptr address, CUdeviceptr *start,
                              size_t *size)
{
    unsigned int type = 0, managed = 1;
    CUcontext ctx = NULL;
    void *values[] = {&type, &managed, &ctx, start, size};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                    CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    ag_probe_begins();
    CUresult r = AG_REAL(cuPointerGetAttributes)(5, wanted, values, address);
    ag_probe_ends();
    if (r != CUDA_SUCCESS)
        return AG_MEMORY_UNKNOWN;
    if (managed)
        return AG_MEMORY_MANAGED;
    if (!type || type == CU_MEMORYTYPE_HOST) /* 0: the driver does not know it */
        return AG_MEMORY_HOST;
    if (!ctx)
        return AG_MEMORY_NO_CONTEXT;
    if (ctx != s->context->handle)
        return AG_MEMORY_OTHER_CONTEXT;
    return type == CU_MEMORYTYPE_DEVICE && *size ? AG_MEMORY_PLAIN : AG_MEMORY_UNKNOWN;
}

/* Call it under the stream's lock: two threads may use one stream. */
static enum ag_memory memory_at(struct ag_stream *s, CUdeviceptr address, size_t bytes)
{
    uint64_t epoch = atomic_load_explicit(&ag_memory_epoch, memory_order_acquire);
    if (s->ranges_epoch != epoch) {
        s->ranges_epoch = epoch;
        s->num_ranges = 0;
    }
    uint32_t known = s->num_ranges < AG_RANGES ? s->num_ranges : AG_RANGES;
    for (uint32_t i = 0; i < known; i++)
        if (address >= s->ranges[i].start && address - s->ranges[i].start <= s->ranges[i].size &&
            bytes <= s->ranges[i].size - (address - s->ranges[i].start))
            return AG_MEMORY_PLAIN;
    struct ag_range range;
    enum ag_memory found = look_up(s, address, &range.start, &range.size);
    if (found != AG_MEMORY_PLAIN)
        return found;
    if (address < range.start || address - range.start > range.size ||
        bytes > range.size - (address - range.start))
        return AG_MEMORY_UNKNOWN;
    s->ranges[s->num_ranges++ % AG_RANGES] = range;
    return AG_MEMORY_PLAIN;
}

enum ag_memory ag_memory_at(struct ag_stream *s, CUdeviceptr address, size_t bytes)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    enum ag_memory found = memory_at(s, address, bytes);
    ag_unlock(&s->lock);
    return found;
}
