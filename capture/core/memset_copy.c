/* memset_copy.c - memsets and copies: whether a graph can hold them. If so, they go the way of a
 * launch (launch.c). */
#include "capture/core/launch.h"
#include "capture/core/passing.h"
#include "capture/core/shortage.h"
#include "capture/graphs/ownkernels.h"
#include "capture/report/shortfall.h"
#include "capture/tracking/count.h"
#include "capture/tracking/memory.h"
#include "capture/tracking/state.h"
#include "capture/trace/trace.h"

/* A fill or copy that is no op. `blocks`: it may wait for the GPU. */
static CUresult passes(const struct ag_incoming *in, bool ptsz, enum ag_sym sym, bool blocks)
{
    if (!ag_incoming_is_sync(in)) {
        CUresult pending = ag_core_stream_sync_point(ag_incoming_stream(in), ptsz, sym, blocks);
        return ag_incoming_first_error(in, ag_op_call(in), pending);
    }
    CUresult pending = in->kind == AG_OP_COPY
                           ? ag_core_barrier_of_copy(sym, in->copy->dst, in->copy->src)
                           : ag_core_barrier(sym);
    return ag_core_first_error(ag_op_call(in), pending);
}

/* Why a graph cannot hold a fill or a copy of such memory. */
static const char *const memory_reasons[][2] = {
    [AG_MEMORY_MOVABLE] = {"a fill of memory of a pool, or mapped by the program",
                           "a copy of memory of a pool, or mapped by the program"},
    [AG_MEMORY_UNKNOWN] = {"a fill that is not aligned, or not within one allocation",
                           "a copy that overlaps, or is not within one allocation"},
    [AG_MEMORY_MANAGED] = {"a fill of managed memory", "a copy of managed memory"},
    [AG_MEMORY_NO_CONTEXT] = {"a fill of memory of a pool, or mapped by the program",
                              "a copy of memory of a pool, or mapped by the program"},
    [AG_MEMORY_OTHER_CONTEXT] = {"a fill of memory of another context",
                                 "a copy of memory of another context"},
    [AG_MEMORY_SYNC] = {"a fill that is to wait for the GPU", "a copy that is to wait for the GPU"},
};

static CUresult on_addresses(struct ag_stream *s, struct ag_incoming *in, enum ag_memory memory,
                             bool ptsz, enum ag_sym sym)
{
    if (!s || (memory != AG_MEMORY_PLAIN && !in->movable)) {
        const char *why = memory_reasons[memory][in->kind == AG_OP_COPY];
        ag_count(s ? AG_COUNT_NOT_RECORDABLE : AG_COUNT_UNKNOWN_STREAM);
        if (s)
            ag_shortfall_not_recordable(why);
        ag_trace_passed(s, in, s ? why : "unknown stream");
        return passes(in, ptsz, sym, false);
    }
    return ag_incoming_arrives(s, in);
}

/* The stream of a fill or copy. A call that takes none makes none known: in a program that launches
 * nothing into its default stream, it is only a sync point of the others. */
static struct ag_stream *stream_of(const struct ag_incoming *in, bool ptsz)
{
    CUstream stream = ag_incoming_stream(in);
    return ag_incoming_is_sync(in) ? ag_stream_find(stream, ptsz) : ag_stream_get(stream, ptsz);
}

/* Bytes from the first to the last. 0 if the numbers make no sense. */
static size_t fill_extent(const struct ag_memset *f)
{
    size_t row = f->width * f->elem_size;
    if (!f->width || !f->height || row / f->elem_size != f->width)
        return 0;
    if (f->height == 1)
        return row;
    if (f->pitch < row || (f->pitch && (f->height - 1) > (SIZE_MAX - row) / f->pitch))
        return 0;
    return f->pitch * (f->height - 1) + row;
}

CUresult ag_core_memset(const struct ag_memset *f)
{
    struct ag_incoming in = {.kind = AG_OP_MEMSET, .fill = f};
    if (ag_state_bypasses())
        return ag_incoming_call_now(&in);
    struct ag_stream *s = stream_of(&in, f->ptsz);
    if (!s && f->is_sync)
        return passes(&in, f->ptsz, f->sym, false);
    size_t extent = fill_extent(f);
    bool aligned = f->dst % f->elem_size == 0 && (f->height == 1 || f->pitch % f->elem_size == 0);
    enum ag_memory memory = AG_MEMORY_UNKNOWN;
    if (s && extent && aligned)
        memory = ag_memory_at(s, f->dst, extent, f->is_sync);
    if (memory == AG_MEMORY_HOST) /* mapped into the device's address space */
        memory = AG_MEMORY_UNKNOWN;
    in.movable = memory == AG_MEMORY_MOVABLE && ag_own_kernels_are_loaded(s->context);
    return on_addresses(s, &in, memory, f->ptsz, f->sym);
}

CUresult ag_core_copy(const struct ag_copy *c)
{
    struct ag_incoming in = {.kind = AG_OP_COPY, .copy = c};
    if (ag_state_bypasses())
        return ag_incoming_call_now(&in);
    struct ag_stream *s = stream_of(&in, c->ptsz);
    if (!s && c->is_sync)
        return passes(&in, c->ptsz, c->sym, false);
    size_t apart = c->dst > c->src ? c->dst - c->src : c->src - c->dst;
    enum ag_memory to = AG_MEMORY_UNKNOWN, from = AG_MEMORY_UNKNOWN;
    if (s && c->bytes && apart >= c->bytes) {
        to = ag_memory_at(s, c->dst, c->bytes, c->is_sync);
        from = ag_memory_at(s, c->src, c->bytes, c->is_sync);
    }
    if (to == AG_MEMORY_HOST || from == AG_MEMORY_HOST)
        return passes(&in, c->ptsz, c->sym, true);
    enum ag_memory both = to > from ? to : from; /* the one that permits less */
    in.movable = both == AG_MEMORY_MOVABLE && c->bytes <= AG_MOST_COPIED &&
                 ag_own_kernels_are_loaded(s->context);
    return on_addresses(s, &in, both, c->ptsz, c->sym);
}
