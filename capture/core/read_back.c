/*
 * read_back.c - small copies to the host, as ops.
 *
 * Solvers read a word back in each iteration. The driver's copy goes to an
 * engine of its own and ends a graph, and the host waits for it. So where a known sequence ends
 * with such a copy, the last node of its graph is the library's copy kernel, which writes to pinned
 * memory of the library. The program's thread waits for the stream, and copies from there to where
 * the program wants it. This is for copies that return when they are done: those without a stream,
 * and those to memory that the driver does not know (pageable memory).
 *
 * Into pinned memory of the program the copy kernel writes directly, and nobody waits: such a copy
 * is held back like any other op.
 */
#include "capture/core/branch.h"
#include "capture/core/launch.h"
#include "capture/core/shortage.h"
#include "capture/core/sync_point.h"
#include "capture/graphs/ownkernels.h"
#include "capture/tracking/memory.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/state.h"
#include "driver/error.h"

/* Takes one of the context's places: the address, or 0 if another thread has it. */
static CUdeviceptr take_place(struct ag_stream *s, uint64_t *bit)
{
    CUdeviceptr staging = atomic_load_explicit(&s->context->staging, memory_order_acquire);
    uint64_t place = s->serial % AG_STAGING_PLACES;
    *bit = (uint64_t)1 << place;
    if (!staging || atomic_fetch_or(&s->context->staging_used, *bit) & *bit)
        return 0;
    atomic_fetch_and(&s->context->staging_failed, ~*bit);
    return staging + place * AG_STAGING_BYTES;
}

/* Whether the driver does not know the memory, and so returns from a copy to it when that is done.
 */
static bool is_pageable(CUdeviceptr address)
{
    unsigned int type = 1, managed = 1;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED};
    ag_probe_begins();
    CUresult r = AG_REAL(cuPointerGetAttributes)(2, wanted, (void *[]){&type, &managed}, address);
    ag_probe_ends();
    return r == CUDA_SUCCESS && !type && !managed;
}

/* Whether the copy comes behind other ops, in a stream without branches, to which it would be
 * foreign (core/branch.h). By itself it stays the driver's, and no graph begins with one
 * (graphs/request.c): a kernel of the program's may fill the GPU until the program has read what it
 * wants to, and a copy kernel would wait for that one. Right behind another kernel there mostly is
 * room (docs/limits.md).
 */
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
    if (!s || !ag_own_kernels_are_loaded(s->context) || atomic_load(&s->not_understood) ||
        !has_place(s) || ag_context_current() != s->context->handle)
        return false;
    enum ag_memory from = ag_memory_at(s, c->src, c->bytes, false);
    return from == AG_MEMORY_PLAIN || from == AG_MEMORY_MOVABLE;
}

/* The driver has not been asked for the copy: it is part of what was submitted for the stream. If
 * some of that was refused, the program's own call copies, and waits until nothing writes to the
 * place any more. */
static CUresult finish(const struct ag_incoming *in, CUstream stream, bool refused)
{
    const struct ag_copy *c = in->copy;
    if (refused)
        return ag_op_call(in);
    ag_per_thread_gather_own(); /* another thread may have submitted it */
    CUresult r = AG_REAL(cuStreamSynchronize)(stream);
    if (r == CUDA_SUCCESS)
        memcpy((void *)(uintptr_t)c->dst, (const void *)(uintptr_t)c->read->staging, c->bytes);
    else if (!ag_error_ends_context(r)) /* something may still write to the place */
        r = ag_op_call(in);
    return r;
}

bool ag_core_read_back(const struct ag_copy *c, bool sync, CUresult *result)
{
    struct ag_read read = {.called = false};
    struct ag_copy copy = *c;
    struct ag_incoming in = {.kind = AG_OP_COPY, .movable = true, .reads = true, .copy = &copy};
    uint64_t bit;
    if (c->bytes > AG_STAGING_BYTES || !c->bytes || !c->dst || ag_state_bypasses() ||
        ag_thread.in_host_function || ag_state_is_eager())
        return false;
    struct ag_stream *s = ag_stream_find(c->stream, c->ptsz);
    if (!may_be_op(s, c))
        return false;
    bool pinned = ag_memory_is_pinned(s, c->dst, c->bytes);
    if (pinned && !sync) {
        ag_branch_is_foreign(s); /* a branch would lose its place by the next one */
        *result = ag_incoming_arrives(s, &in);
        return true;
    }
    if ((!pinned && !is_pageable(c->dst)) || !(read.staging = take_place(s, &bit)))
        return false;
    copy.read = &read;
    CUstream handle = s->thread ? CU_STREAM_PER_THREAD : s->handle; /* its own thread calls */
    struct ag_context *context = s->context;
    ag_core_thread_will_wait(s);
    CUresult pending = ag_incoming_arrives(s, &in), r = CUDA_SUCCESS; /* the first may be its own */
    CUresult others = sync ? ag_core_barrier(c->sym)
                           : ag_core_stream_sync_point(c->stream, c->ptsz, c->sym, true);
    pending = ag_incoming_first_error(&in, pending, others);
    if (!read.called)
        r = finish(&in, handle,
                   pending != CUDA_SUCCESS || atomic_load(&context->staging_failed) & bit);
    atomic_fetch_and(&context->staging_used, ~bit);
    ag_returned();
    *result = ag_incoming_first_error(&in, r, pending);
    return true;
}
