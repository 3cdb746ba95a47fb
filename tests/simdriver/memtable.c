/*
 * memtable.c - what memory exists: one sorted table of ranges.
 *
 * Memory comes from an address range of its own at a fixed place, first fit, so that two runs of a
 * program see the same addresses and their argument digests can be compared. Device, pinned and
 * managed memory are all plain host memory; the table tells them apart. The range is a file without
 * a name, so that other processes can map parts of it (ipc.c); what this process maps of others
 * comes behind it.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Inside the application's range of every sanitizer, and far from where the kernel puts libraries.
 */
#define ARENA_BASE 0x7eb000000000u
/* More than there is memory, so that a fragmented arena refuses nothing. */
#define ARENA_SIZE (4 * sim_settings.memory)
#define ALIGNMENT  512u

static struct sim_allocation *table;
static size_t count, capacity;
static size_t used[SIM_MAX_DEVICES];
static uint64_t next_id = 1;
static uintptr_t arena;
static int arena_fd = -1;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static size_t first_after(uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Host memory, and what is another process's, takes none of the device's. */
static size_t device_bytes(const struct sim_allocation *a)
{
    bool here = a->memory == SIM_MEM_DEVICE || a->memory == SIM_MEM_MANAGED;
    return here && !a->mapping ? a->size : 0;
}

static bool insert(struct sim_allocation entry)
{
    if (count == capacity) {
        size_t more = capacity ? capacity * 2 : 256;
        struct sim_allocation *grown = realloc(table, more * sizeof *table);
        if (!grown)
            return false;
        table = grown;
        capacity = more;
    }
    size_t at = first_after(entry.base);
    memmove(&table[at + 1], &table[at], (count - at) * sizeof *table);
    entry.id = next_id++;
    if (!entry.reserved) {
        entry.device = entry.ctx->device;
        entry.access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    table[at] = entry;
    count++;
    used[entry.ctx->device] += device_bytes(&entry);
    sim_object_count(SIM_ALLOCATION, 1);
    return true;
}

static bool reserve(void)
{
    if (arena)
        return true;
    arena_fd = memfd_create("simcuda", MFD_CLOEXEC);
    if (arena_fd >= 0 && ftruncate(arena_fd, (off_t)ARENA_SIZE)) {
        close(arena_fd);
        arena_fd = -1;
    }
    int how = MAP_NORESERVE | (arena_fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *p = mmap((void *)ARENA_BASE, ARENA_SIZE, PROT_READ | PROT_WRITE,
                   how | MAP_FIXED_NOREPLACE, arena_fd, 0);
    if (p == MAP_FAILED)
        p = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, how, arena_fd, 0);
    if (p == MAP_FAILED)
        return false;
    arena = (uintptr_t)p;
    return true;
}

CUresult sim_mem_new(struct sim_context *ctx, enum sim_memory memory, size_t size,
                     unsigned int flags, uintptr_t *out)
{
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    size_t room = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    pthread_rwlock_wrlock(&lock);
    bool fits = memory == SIM_MEM_HOST ? size <= sim_settings.memory
                                       : size <= sim_settings.memory - used[ctx->device];
    if (fits && reserve()) {
        uintptr_t at = arena;
        for (size_t i = 0; i < count; i++) {
            if (table[i].base < arena || table[i].base >= arena + ARENA_SIZE)
                continue;
            if (table[i].base - at >= room)
                break;
            at = (table[i].base + table[i].size + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
        }
        struct sim_allocation entry = {
            .base = at, .size = size, .memory = memory, .flags = flags, .ctx = ctx->root};
        if (at + room <= arena + ARENA_SIZE && insert(entry)) {
            *out = at;
            r = CUDA_SUCCESS;
        }
    }
    pthread_rwlock_unlock(&lock);
    return r;
}

CUresult sim_mem_register(struct sim_context *ctx, uintptr_t base, size_t size, unsigned int flags)
{
    CUresult r = CUDA_SUCCESS;
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base + size - 1);
    if (at > 0 && table[at - 1].base + table[at - 1].size > base)
        r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!insert((struct sim_allocation){.base = base,
                                             .size = size,
                                             .memory = SIM_MEM_REGISTERED,
                                             .flags = flags,
                                             .ctx = ctx->root}))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_rwlock_unlock(&lock);
    return r;
}

/* Room for whole pages behind the arena; the table is sorted by address. */
static uintptr_t room_behind(size_t bytes)
{
    uintptr_t at = arena + ARENA_SIZE;
    for (size_t i = 0; i < count; i++) {
        if (table[i].mapping < at)
            continue;
        if (table[i].mapping - at >= bytes)
            break;
        at = table[i].mapping + table[i].mapping_size;
    }
    return at;
}

CUresult sim_mem_map(struct sim_context *ctx, int fd, uint64_t offset, size_t bytes,
                     enum sim_owner owner, uintptr_t *out)
{
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t from = offset & ~(uint64_t)4095;
    size_t length = (size_t)(offset - from + bytes + 4095) & ~(size_t)4095;
    pthread_rwlock_wrlock(&lock);
    void *p = MAP_FAILED;
    if (reserve())
        p = mmap((void *)room_behind(length), length, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, (off_t)from);
    if (p == MAP_FAILED)
        p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
    struct sim_allocation entry = {.base = (uintptr_t)p + (uintptr_t)(offset - from),
                                   .size = bytes,
                                   .memory = SIM_MEM_DEVICE,
                                   .ctx = ctx->root,
                                   .owner = owner,
                                   .mapping = (uintptr_t)p,
                                   .mapping_size = length};
    if (p != MAP_FAILED && insert(entry)) {
        *out = entry.base;
        r = CUDA_SUCCESS;
    } else if (p != MAP_FAILED) {
        munmap(p, length);
    }
    pthread_rwlock_unlock(&lock);
    return r;
}

int sim_mem_file(uintptr_t base, uint64_t *offset)
{
    *offset = base - arena;
    return base >= arena && base < arena + ARENA_SIZE ? arena_fd : -1;
}

static void remove_at(size_t i)
{
    if (table[i].reserved)
        mmap((void *)table[i].mapping, table[i].mapping_size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else if (table[i].mapping)
        munmap((void *)table[i].mapping, table[i].mapping_size);
    used[table[i].ctx->device] -= device_bytes(&table[i]);
    if (table[i].memory != SIM_MEM_REGISTERED) {
        /* Big blocks give their pages back; all blocks lose what they held. */
        uintptr_t from = (table[i].base + 4095) & ~(uintptr_t)4095;
        uintptr_t to = (table[i].base + table[i].size) & ~(uintptr_t)4095;
        if (!table[i].mapping && to > from && to - from >= 1u << 20)
            madvise((void *)from, to - from, arena_fd < 0 ? MADV_DONTNEED : MADV_REMOVE);
    }
    memmove(&table[i], &table[i + 1], (count - i - 1) * sizeof *table);
    count--;
    sim_object_count(SIM_ALLOCATION, -1);
}

CUresult sim_mem_release(uintptr_t base, enum sim_memory memory)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base && table[at - 1].owner == SIM_OWNER_PROGRAM) {
        enum sim_memory is = table[at - 1].memory;
        if (is == memory || (memory == SIM_MEM_DEVICE && is == SIM_MEM_MANAGED)) {
            remove_at(at - 1);
            r = CUDA_SUCCESS;
        }
    }
    pthread_rwlock_unlock(&lock);
    return r;
}

void sim_mem_disown(uintptr_t base)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base)
        remove_at(at - 1);
    pthread_rwlock_unlock(&lock);
}

void sim_mem_give_to(uintptr_t base, enum sim_owner owner)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base)
        table[at - 1].owner = owner;
    pthread_rwlock_unlock(&lock);
}

void sim_mem_of_pool(uintptr_t base)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base)
        table[at - 1].no_context = true;
    pthread_rwlock_unlock(&lock);
}

void sim_mem_set_syncs(uintptr_t base, bool syncs)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base)
        table[at - 1].syncs = syncs;
    pthread_rwlock_unlock(&lock);
}

bool sim_mem_syncs(uintptr_t address)
{
    enum { CTX_SYNC_MEMOPS = 0x80 }; /* CU_CTX_SYNC_MEMOPS, new in CUDA 12.1 */
    struct sim_allocation a;
    const struct sim_context *ctx = sim_current_quiet();
    return (ctx && atomic_load(&ctx->flags) & CTX_SYNC_MEMOPS) ||
           (sim_mem_find(address, &a) && a.syncs);
}

/* ---- memory that the program maps itself -------------------------------------------------- */

CUresult sim_mem_map_at(struct sim_context *ctx, enum sim_memory memory, int fd, int device,
                        uintptr_t address, size_t bytes, uintptr_t reserved, size_t reserved_size)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(address + bytes - 1);
    bool taken = at > 0 && table[at - 1].base + table[at - 1].size > address;
    if (!taken && mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                       0) != MAP_FAILED)
        r = insert((struct sim_allocation){.base = address,
                                           .size = bytes,
                                           .memory = memory,
                                           .ctx = ctx->root,
                                           .device = device,
                                           .no_context = true,
                                           .mapping = address,
                                           .mapping_size = bytes,
                                           .reserved = reserved,
                                           .reserved_size = reserved_size})
                ? CUDA_SUCCESS
                : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_rwlock_unlock(&lock);
    return r;
}

CUresult sim_mem_map_twice(struct sim_context *ctx, uintptr_t base, size_t bytes)
{
    uint64_t offset;
    uintptr_t other;
    int fd = sim_mem_file(base, &offset);
    CUresult r =
        fd < 0 ? CUDA_SUCCESS : sim_mem_map(ctx, fd, offset, bytes, SIM_OWNER_RESOURCE, &other);
    if (fd < 0 || r != CUDA_SUCCESS)
        return r;
    pthread_rwlock_wrlock(&lock);
    table[first_after(other) - 1].memory = SIM_MEM_HOST;
    table[first_after(base) - 1].device_address = other;
    pthread_rwlock_unlock(&lock);
    return r;
}

/* Under the lock. */
static struct sim_allocation *mapped_at(uintptr_t address)
{
    size_t at = first_after(address);
    bool found = at > 0 && table[at - 1].base == address && table[at - 1].reserved;
    return found ? &table[at - 1] : NULL;
}

bool sim_mem_unmap_at(uintptr_t address, size_t bytes)
{
    pthread_rwlock_wrlock(&lock);
    struct sim_allocation *a = mapped_at(address);
    bool done = a && a->size == bytes;
    if (done)
        remove_at((size_t)(a - table));
    pthread_rwlock_unlock(&lock);
    return done;
}

bool sim_mem_give_access(uintptr_t address, CUmemAccess_flags access, size_t *bytes)
{
    pthread_rwlock_wrlock(&lock);
    struct sim_allocation *a = mapped_at(address);
    if (a) {
        a->access = access;
        *bytes = a->size;
    }
    pthread_rwlock_unlock(&lock);
    return a != NULL;
}

void sim_mem_hide(uintptr_t base, bool hidden)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base)
        table[at - 1].hidden = hidden;
    pthread_rwlock_unlock(&lock);
}

void sim_mem_graph_takes(uintptr_t base)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base) {
        table[at - 1].launches++;
        table[at - 1].hidden = false;
    }
    pthread_rwlock_unlock(&lock);
}

void sim_mem_graph_frees(uintptr_t base)
{
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base && table[at - 1].launches)
        table[at - 1].hidden = --table[at - 1].launches == 0;
    pthread_rwlock_unlock(&lock);
}

void sim_mem_release_context(struct sim_context *ctx)
{
    pthread_rwlock_wrlock(&lock);
    for (size_t i = count; i-- > 0;)
        if (table[i].ctx == ctx)
            remove_at(i);
    used[ctx->device] -= ctx->graph_bytes;
    ctx->graph_bytes = 0;
    pthread_rwlock_unlock(&lock);
}

bool sim_mem_find(uintptr_t address, struct sim_allocation *out)
{
    bool found = false;
    pthread_rwlock_rdlock(&lock);
    size_t at = first_after(address);
    if (at > 0 && address - table[at - 1].base < table[at - 1].size && !table[at - 1].hidden) {
        *out = table[at - 1];
        found = true;
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

/* Pieces that the program has mapped side by side into one reservation are as good as one. */
bool sim_mem_may(uintptr_t address, size_t bytes, CUmemAccess_flags access)
{
    struct sim_allocation a;
    uintptr_t reserved = 0;
    while (bytes) {
        if (!sim_mem_find(address, &a) || (a.access & access) != access ||
            (reserved && a.reserved != reserved))
            return false;
        size_t here = a.base + a.size - address;
        if (bytes <= here)
            return true;
        if (!a.reserved)
            return false;
        reserved = a.reserved;
        address += here;
        bytes -= here;
    }
    return true;
}

bool sim_mem_covers(uintptr_t address, size_t bytes)
{
    return sim_mem_may(address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

bool sim_mem_mark_dying(uintptr_t base)
{
    bool done = false;
    pthread_rwlock_wrlock(&lock);
    size_t at = first_after(base);
    if (at > 0 && table[at - 1].base == base && !table[at - 1].dying) {
        table[at - 1].dying = true;
        done = true;
    }
    pthread_rwlock_unlock(&lock);
    return done;
}

size_t sim_mem_used(int device)
{
    pthread_rwlock_rdlock(&lock);
    size_t n = used[device];
    pthread_rwlock_unlock(&lock);
    return n;
}

CUresult sim_mem_take(struct sim_context *ctx, size_t bytes)
{
    pthread_rwlock_wrlock(&lock);
    bool fits = bytes <= sim_settings.memory - used[ctx->device];
    if (fits) {
        used[ctx->device] += bytes;
        ctx->graph_bytes += bytes;
    }
    pthread_rwlock_unlock(&lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_mem_give(struct sim_context *ctx, size_t bytes)
{
    pthread_rwlock_wrlock(&lock);
    if (bytes <= ctx->graph_bytes) { /* not given back by the end of the context */
        used[ctx->device] -= bytes;
        ctx->graph_bytes -= bytes;
    }
    pthread_rwlock_unlock(&lock);
}
