/*
 * read_back.c - small copies to the host, as ops.
 *
 * Solvers read a word back in each iteration. The driver's copy costs as much as several kernels:
 * the host waits for it, and it goes to an engine of its own. So where a known sequence ends with
 * such a copy, the last node of its graph is the library's copy kernel, which writes to pinned
 * memory of the library. The program's thread waits for the stream, and copies from there to where
 * the program wants it. This is for copies that return when they are done: those without a stream,
 * and those to memory that the driver does not know (pageable memory).
 *
 * Into pinned memory of the program the copy kernel writes directly, and nobody waits: such a copy
 * is held back like any other op.
 */
#include "capture/capture.h"
#include "capture/core/launch.h"
#include "capture/core/sync_point.h"
#include "capture/graphs/ownkernels.h"
#include "capture/tracking/fork.h"
#include "capture/tracking/memory.h"
#include "capture/tracking/state.h"
#include "driver/own.h"
#include <string.h>

/* Takes one of the context's places: the address, or 0 if another thread has it. */
static CUdeviceptr take_place(struct ag_stream *s, uint64_t *bit)
{
    CUdeviceptr staging = atomic_load_explicit(&s->context->staging, memory_order_acquire);
    uint64_t place = s->serial % AG_STAGING_PLACES;
    *bit = (uint64_t)1 << place;
    if (!staging || atomic_fetch_or(&s->context->staging_used, *bit) & *bit)
        return 0;
    return staging + place * AG_STAGING_BYTES;
}

/* Whether the copy returns only when it is done, and writes to memory of the host. */
static bool waits(const struct ag_copy *c, bool sync)
{
    unsigned int type = 0, managed = 0;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED};
    ag_probe_begins();
    CUresult r = AG_REAL(cuPointerGetAttributes)(2, wanted, (void *[]){&type, &managed}, c->dst);
    ag_probe_ends();
    return r == CUDA_SUCCESS && !managed && (!type || (sync && type == CU_MEMORYTYPE_HOST));
}

/* Whether the copy comes behind other ops, in a stream without branches, to which it would be
 * foreign (core/branch.h). By itself it stays the driver's: a kernel of the program's may fill the
 * GPU until the program has read what it wants to, and a copy kernel would wait for that one.
 * Behind another op it needs nothing that this has not needed. */
static bool has_place(struct ag_stream *s)
{
    if (atomic_load(&s->origin))
        return false;
    ag_lock(&s->lock, AG_RANK_STREAM);
    bool has = ag_stream_is_live(s) && s->open && !ag_dormant_is_active(&s->dormant) &&
               (!ag_stream_forks(s) || ag_fork_is_alone(s));
    ag_unlock(&s->lock);
    return has;
}

static bool may_be_op(struct ag_stream *s, const struct ag_copy *c)
{
    if (!s || !c->dst || !c->bytes || c->bytes > AG_STAGING_BYTES ||
        !ag_own_kernels_are_loaded(s->context) || atomic_load(&s->not_understood) ||
        !has_place(s) || ag_context_current() != s->context->handle)
        return false;
    enum ag_memory from = ag_memory_at(s, c->src, c->bytes);
    return from == AG_MEMORY_PLAIN || from == AG_MEMORY_MOVABLE;
}

/* What the driver has not been asked to copy is in the graph, or still held back. */
static CUresult wait_and_copy(struct ag_stream *s, const struct ag_copy *c)
{
    CUresult r = AG_REAL(cuStreamSynchronize)(s->handle);
    if (r == CUDA_SUCCESS)
        memcpy((void *)(uintptr_t)c->dst, (const void *)(uintptr_t)c->read->staging, c->bytes);
    return r;
}

bool ag_core_read_back(struct ag_copy *c, bool sync, CUresult *result)
{
    struct ag_read read = {.called = false};
    struct ag_incoming in = {.kind = AG_OP_COPY, .movable = true, .reads = true, .copy = c};
    uint64_t bit;
    if (ag_state_bypasses() || ag_state_is_eager())
        return false;
    struct ag_stream *s = ag_stream_find(c->stream, c->ptsz);
    if (!may_be_op(s, c))
        return false;
    if (!sync && ag_memory_is_pinned(s, c->dst, c->bytes)) {
        *result = ag_incoming_arrives(s, &in);
        return true;
    }
    if (!waits(c, sync) || !(read.staging = take_place(s, &bit)))
        return false;
    c->read = &read;
    ag_core_thread_will_wait(s);
    CUresult r = ag_incoming_arrives(s, &in);
    CUresult pending = ag_core_stream_sync_point(c->stream, c->ptsz, c->sym, true);
    if (r == CUDA_SUCCESS && !read.called)
        r = wait_and_copy(s, c);
    atomic_fetch_and(&s->context->staging_used, ~bit);
    *result = ag_incoming_first_error(&in, r, pending);
    return true;
}
