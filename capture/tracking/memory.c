/*
 * memory.c - for which memory the library may record an op on addresses.
 *
 * The driver checks the addresses of a memset or a copy during the call; a graph node would fault
 * later. So the library looks up an address (0.3 us) before it defers the op. It remembers the
 * result until the program frees or unmaps any memory, or changes who may use it: every call that
 * does so is a barrier that raises ag_memory_epoch (kills:memory in driver/entries.tbl). So does
 * each launch of a graph of the program's, once one may have a node that frees.
 */
#include "capture/tracking/memory.h"
#include "capture/tracking/state.h"

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
        ag_mutex_wait(&released, &mutex);
    ag_mutex_unlock(&mutex);
}

static _Atomic bool graphs_free; /* the program may have made a graph that frees memory */

void ag_core_graphs_free(void)
{
    atomic_store_explicit(&graphs_free, true, memory_order_relaxed);
}

void ag_core_freed_in_stream(void)
{
    if (ag_state_captures()) /* the call becomes a node */
        ag_core_graphs_free();
}

void ag_memory_graph_is_launched(void)
{
    if (atomic_load_explicit(&graphs_free, memory_order_relaxed))
        ag_core_invalidate_memory();
}

static _Atomic bool multicast; /* the program may have mapped a multicast object */

void ag_core_maps_multicast(void)
{
    atomic_store(&multicast, true);
    ag_core_peer_memory();
    ag_core_invalidate_memory();
}

/* What was found at one address. `whole`: where the allocation begins, or the range of addresses
 * that the program has reserved; mapped memory may lie there in pieces, of which `range` is one. */
struct finding {
    struct ag_range range;
    CUdeviceptr whole;
};

static CUresult ask(unsigned int n, CUpointer_attribute *wanted, void **values, CUdeviceptr address)
{
    ag_probe_begins();
    CUresult r = AG_REAL(cuPointerGetAttributes)(n, wanted, values, address);
    ag_probe_ends();
    return r;
}

/* The device whose memory that is, or -1. */
static int device_of(CUdeviceptr address)
{
    unsigned int type = 0;
    int device = -1;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    CUresult r = ask(2, wanted, (void *[]){&type, &device}, address);
    return r == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE ? device : -1;
}

bool ag_memory_is_of_two_devices(CUdeviceptr a, CUdeviceptr b)
{
    int first = device_of(a), second = device_of(b);
    return first >= 0 && second >= 0 && first != second;
}

/* What is mapped at the address: the driver calls memory of virtual memory management a range of
 * all that was reserved (CUDA Driver API, CU_POINTER_ATTRIBUTE_RANGE_SIZE). */
static bool mapped_part(struct finding *f, CUdeviceptr address)
{
    CUdeviceptr start = 0, end;
    size_t size = 0;
    ag_probe_begins();
    CUresult r = AG_REAL(cuMemGetAddressRange_v2)(&start, &size, address);
    ag_probe_ends();
    if (r != CUDA_SUCCESS)
        return false;
    end = start + size;
    if (end > f->range.start + f->range.size)
        end = f->range.start + f->range.size;
    if (start < f->range.start)
        start = f->range.start;
    if (address < start || address >= end)
        return false;
    f->range.start = start;
    f->range.size = end - start;
    return true;
}

/* What is written to a multicast object goes to all of its devices. The driver's copies may write
 * there (NCCL's do). Kernels have instructions of their own for that (multimem.st), and nothing
 * that we know of permits ordinary ones, so the copy kernel stays away. Nothing tells such an
 * object from memory that the program maps, but memory of a pool is none. */
static bool may_be_multicast(CUdeviceptr address)
{
    CUmemoryPool pool = NULL;
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    return atomic_load_explicit(&multicast, memory_order_relaxed) &&
           (ask(1, &wanted, (void *[]){&pool}, address) != CUDA_SUCCESS || !pool);
}

/* Memory that names no context. The driver says what the device of the current context may do with
 * it, so that must be the stream's. */
static bool is_movable(const struct ag_stream *s, CUdeviceptr address, struct finding *f)
{
    int owner = -1, device = -2;
    unsigned int access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    void *values[] = {&owner, &access};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
    return ag_context_current() == s->context->handle &&
           AG_REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
           ask(2, wanted, values, address) == CUDA_SUCCESS && owner == device &&
           access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE && !may_be_multicast(address) &&
           mapped_part(f, address);
}

/* Whether calls that take no stream wait for the GPU in all of the current context. */
static bool context_syncs(void)
{
    enum { CTX_SYNC_MEMOPS = 0x80 }; /* CU_CTX_SYNC_MEMOPS, new in CUDA 12.1 */
    unsigned int flags = CTX_SYNC_MEMOPS;
    return !AG_HAVE(cuCtxGetFlags) || AG_REAL(cuCtxGetFlags)(&flags) != CUDA_SUCCESS ||
           flags & CTX_SYNC_MEMOPS;
}

static enum ag_memory look_up(const struct ag_stream *s, CUdeviceptr address, struct finding *f)
{
    unsigned int type = 0, managed = 1, syncs = 1;
    CUcontext ctx = NULL;
    *f = (struct finding){.whole = 0};
    void *values[] = {&type, &managed, &ctx, &f->range.start, &f->range.size, &syncs};
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_CONTEXT,     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
    if (ask(6, wanted, values, address) != CUDA_SUCCESS)
        return AG_MEMORY_UNKNOWN;
    f->whole = f->range.start;
    f->range.syncs = syncs || context_syncs();
    if (managed)
        return AG_MEMORY_MANAGED;
    if (!type || type == CU_MEMORYTYPE_HOST) /* 0: the driver does not know it */
        return AG_MEMORY_HOST;
    if (!ctx) {
        bool movable = type == CU_MEMORYTYPE_DEVICE && is_movable(s, address, f);
        return movable ? AG_MEMORY_MOVABLE : AG_MEMORY_NO_CONTEXT;
    }
    if (ctx != s->context->handle)
        return AG_MEMORY_OTHER_CONTEXT;
    return type == CU_MEMORYTYPE_DEVICE && f->range.size ? AG_MEMORY_PLAIN : AG_MEMORY_UNKNOWN;
}

static bool covers(const struct ag_range *range, CUdeviceptr address, size_t bytes)
{
    return address >= range->start && address - range->start <= range->size &&
           bytes <= range->size - (address - range->start);
}

/* Adds the pieces that lie behind the first, until they reach the end of what the program named.
 * An op on pieces of several reservations is left to the driver. */
static enum ag_memory add_pieces(const struct ag_stream *s, struct finding *f, CUdeviceptr address,
                                 size_t bytes)
{
    enum { MOST_PIECES = 64 };
    for (int i = 1; i < MOST_PIECES && !covers(&f->range, address, bytes); i++) {
        struct finding next;
        CUdeviceptr end = f->range.start + f->range.size;
        enum ag_memory found = look_up(s, end, &next);
        if (found != AG_MEMORY_MOVABLE || next.whole != f->whole || next.range.start != end)
            return AG_MEMORY_UNKNOWN;
        f->range.size += next.range.size;
        f->range.syncs |= next.range.syncs;
    }
    return covers(&f->range, address, bytes) ? AG_MEMORY_MOVABLE : AG_MEMORY_UNKNOWN;
}

static void forget_what_was_freed(struct ag_stream *s)
{
    uint64_t epoch = atomic_load_explicit(&ag_memory_epoch, memory_order_acquire);
    if (s->memory_epoch == epoch)
        return;
    s->memory_epoch = epoch;
    s->device_memory.n = 0;
    s->pinned_memory.n = 0;
}

/* How many begin at the address or before it. */
static uint32_t up_to(const struct ag_ranges *known, CUdeviceptr address)
{
    uint32_t from = 0, to = known->n;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (known->list[middle].start <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The range that has all of these bytes, or NULL. */
static const struct ag_range *find(const struct ag_ranges *known, CUdeviceptr address, size_t bytes)
{
    uint32_t n = up_to(known, address);
    return n && covers(&known->list[n - 1], address, bytes) ? &known->list[n - 1] : NULL;
}

/* What was known from the same address on is forgotten, and all of it where there is too much or
 * no memory is left: it will be looked up again. */
static void remember(struct ag_ranges *known, const struct ag_range *range)
{
    enum { FIRST = 8, MOST = 4096 };
    uint32_t at = up_to(known, range->start);
    if (at && known->list[at - 1].start == range->start) {
        known->list[at - 1] = *range;
        return;
    }
    if (known->n == known->room) {
        uint32_t room = known->room ? 2 * known->room : FIRST;
        struct ag_range *more =
            room > MOST ? NULL : realloc(known->list, room * sizeof(*known->list));
        if (more) {
            known->list = more;
            known->room = room;
        } else {
            at = known->n = 0;
        }
        if (!known->room)
            return;
    }
    memmove(&known->list[at + 1], &known->list[at], (known->n - at) * sizeof(*known->list));
    known->list[at] = *range;
    known->n++;
}

/* Whether this holds for all of the range that was found, until memory is freed. */
static bool is_kept(enum ag_memory found)
{
    return found == AG_MEMORY_PLAIN || found == AG_MEMORY_MOVABLE || found == AG_MEMORY_MANAGED ||
           found == AG_MEMORY_OTHER_CONTEXT;
}

/* What that is for a call that takes no stream, or for any other. */
static enum ag_memory for_call(const struct ag_range *range, bool is_sync)
{
    return is_sync && range->syncs ? AG_MEMORY_SYNC : (enum ag_memory)range->what;
}

/* Call it under the stream's lock: two threads may use one stream. */
static enum ag_memory memory_at(struct ag_stream *s, CUdeviceptr address, size_t bytes,
                                bool is_sync)
{
    forget_what_was_freed(s);
    const struct ag_range *known = find(&s->device_memory, address, bytes);
    if (known)
        return for_call(known, is_sync);
    struct finding f;
    struct ag_visit visit = ag_driver_enter(s);
    enum ag_memory found = look_up(s, address, &f);
    if (found == AG_MEMORY_MOVABLE)
        found = add_pieces(s, &f, address, bytes);
    ag_driver_leave(s, visit);
    if (found == AG_MEMORY_PLAIN && !covers(&f.range, address, bytes))
        found = AG_MEMORY_UNKNOWN;
    f.range.what = (uint8_t)found;
    if (is_kept(found))
        remember(&s->device_memory, &f.range);
    return for_call(&f.range, is_sync);
}

enum ag_memory ag_memory_at(struct ag_stream *s, CUdeviceptr address, size_t bytes, bool is_sync)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    enum ag_memory found =
        ag_stream_is_live(s) ? memory_at(s, address, bytes, is_sync) : AG_MEMORY_UNKNOWN;
    ag_unlock(&s->lock);
    return found;
}

/* Memory that the program has registered may be read-only for kernels, or that of another device.
 * The flag of the latter is also that of write-combined memory, which is not for reading back. */
static bool look_up_pinned(const struct ag_stream *s, CUdeviceptr address, struct ag_range *range)
{
    unsigned int type = 0, managed = 1, flags;
    CUdeviceptr device = 0;
    CUcontext ctx = NULL;
    void *values[] = {&type, &managed, &ctx, &device, &range->start, &range->size};
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    if (ask(6, wanted, values, address) != CUDA_SUCCESS || type != CU_MEMORYTYPE_HOST || managed ||
        ctx != s->context->handle || device != address)
        return false;
    ag_probe_begins();
    CUresult r = AG_REAL(cuMemHostGetFlags)(&flags, (void *)(uintptr_t)address);
    ag_probe_ends();
    return r == CUDA_SUCCESS &&
           !(flags & (CU_MEMHOSTREGISTER_READ_ONLY | CU_MEMHOSTREGISTER_IOMEMORY));
}

bool ag_memory_is_pinned(struct ag_stream *s, CUdeviceptr address, size_t bytes)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    bool is = false;
    if (ag_stream_is_live(s)) {
        forget_what_was_freed(s);
        struct ag_range found = {.size = 0};
        is = find(&s->pinned_memory, address, bytes);
        if (!is) {
            struct ag_visit visit = ag_driver_enter(s);
            is = look_up_pinned(s, address, &found) && covers(&found, address, bytes);
            ag_driver_leave(s, visit);
        }
        if (found.size && is)
            remember(&s->pinned_memory, &found);
    }
    ag_unlock(&s->lock);
    return is;
}
