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

/* A copy from or to the host: it is no op, and it may wait for the GPU. */
static CUresult copy_of_host(const struct ag_incoming *in)
{
    const struct ag_copy *c = in->copy;
    CUresult pending = ag_core_stream_sync_point(c->stream, c->ptsz, c->sym, true);
    return ag_incoming_first_error(in, ag_op_call(in), pending);
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
};

static CUresult on_addresses(struct ag_stream *s, struct ag_incoming *in, enum ag_memory memory,
                             CUstream stream, bool ptsz, enum ag_sym sym)
{
    if (!s || (memory != AG_MEMORY_PLAIN && !in->movable)) {
        const char *why = memory_reasons[memory][in->kind == AG_OP_COPY];
        ag_count(s ? AG_COUNT_NOT_RECORDABLE : AG_COUNT_UNKNOWN_STREAM);
        if (s)
            ag_shortfall_not_recordable(why);
        ag_trace_passed(s, in, s ? why : "unknown stream");
        CUresult pending = ag_core_stream_sync_point(stream, ptsz, sym, false);
        return ag_incoming_first_error(in, ag_op_call(in), pending);
    }
    return ag_incoming_arrives(s, in);
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
    struct ag_stream *s = ag_stream_get(f->stream, f->ptsz);
    size_t extent = fill_extent(f);
    bool aligned = f->dst % f->elem_size == 0 && (f->height == 1 || f->pitch % f->elem_size == 0);
    enum ag_memory memory = AG_MEMORY_UNKNOWN;
    if (s && extent && aligned)
        memory = ag_memory_at(s, f->dst, extent);
    if (memory == AG_MEMORY_HOST) /* mapped into the device's address space */
        memory = AG_MEMORY_UNKNOWN;
    in.movable = memory == AG_MEMORY_MOVABLE && ag_own_kernels_are_loaded(s->context);
    return on_addresses(s, &in, memory, f->stream, f->ptsz, f->sym);
}

CUresult ag_core_copy(const struct ag_copy *c)
{
    struct ag_incoming in = {.kind = AG_OP_COPY, .copy = c};
    if (ag_state_bypasses())
        return ag_incoming_call_now(&in);
    struct ag_stream *s = ag_stream_get(c->stream, c->ptsz);
    size_t apart = c->dst > c->src ? c->dst - c->src : c->src - c->dst;
    enum ag_memory to = AG_MEMORY_UNKNOWN, from = AG_MEMORY_UNKNOWN;
    if (s && c->bytes && apart >= c->bytes) {
        to = ag_memory_at(s, c->dst, c->bytes);
        from = ag_memory_at(s, c->src, c->bytes);
    }
    if (to == AG_MEMORY_HOST || from == AG_MEMORY_HOST)
        return copy_of_host(&in);
    enum ag_memory both = to > from ? to : from; /* the one that permits less */
    in.movable = both == AG_MEMORY_MOVABLE && c->bytes <= AG_MOST_COPIED &&
                 ag_own_kernels_are_loaded(s->context);
    return on_addresses(s, &in, both, c->stream, c->ptsz, c->sym);
}
