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
        CUresult r = ag_op_call(in);
        ag_returned();
        return ag_incoming_first_error(in, r, pending);
    }
    CUresult pending = in->kind == AG_OP_COPY
                           ? ag_core_barrier_of_copy(sym, in->copy->dst, in->copy->src)
                           : ag_core_barrier(sym);
    CUresult r = ag_op_call(in);
    ag_returned();
    return ag_core_first_error(r, pending);
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

/* `why` no graph can hold it; NULL: one can. */
static CUresult on_addresses(struct ag_stream *s, struct ag_incoming *in, const char *why,
                             bool ptsz, enum ag_sym sym)
{
    if (!s || (why && !in->movable)) {
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
    const char *why = memory == AG_MEMORY_PLAIN ? NULL : memory_reasons[memory][0];
    return on_addresses(s, &in, why, f->ptsz, f->sym);
}

/* Whether no byte that is read is written. Rows of one pitch may lie between each other, as the
 * columns of a matrix do. */
static bool is_apart(const struct ag_copy *c, size_t dst_bytes, size_t src_bytes)
{
    const struct ag_rows *r = &c->rows;
    if (c->dst < c->src ? c->src - c->dst >= dst_bytes : c->dst - c->src >= src_bytes)
        return true;
    if (!r->depth || r->dst_pitch != r->src_pitch || r->dst_slice % r->dst_pitch ||
        r->src_slice % r->src_pitch)
        return false;
    size_t behind = c->dst > c->src ? c->dst - c->src : c->src - c->dst;
    size_t column = behind % r->dst_pitch; /* both ways: of the later one behind the other */
    return column >= c->bytes && column + c->bytes <= r->dst_pitch;
}

/* Bytes from the first to the last. */
static size_t copy_extent(const struct ag_copy *c, size_t pitch, size_t slice)
{
    const struct ag_rows *r = &c->rows;
    return r->depth ? (r->depth - 1) * slice + (r->height - 1) * pitch + c->bytes : c->bytes;
}

/* Whether it can be a launch of the library's copy kernel. */
static bool is_for_kernel(const struct ag_stream *s, const struct ag_copy *c)
{
    size_t rows = c->rows.depth ? c->rows.height * c->rows.depth : 1;
    return c->bytes <= AG_MOST_COPIED / rows && ag_own_kernels_are_loaded(s->context);
}

CUresult ag_core_copy(const struct ag_copy *c)
{
    struct ag_incoming in = {.kind = AG_OP_COPY, .copy = c};
    if (ag_state_bypasses())
        return ag_incoming_call_now(&in);
    struct ag_stream *s = stream_of(&in, c->ptsz);
    if (!s && c->is_sync)
        return passes(&in, c->ptsz, c->sym, false);
    size_t dst_bytes = copy_extent(c, c->rows.dst_pitch, c->rows.dst_slice);
    size_t src_bytes = copy_extent(c, c->rows.src_pitch, c->rows.src_slice);
    enum ag_memory to = AG_MEMORY_UNKNOWN, from = AG_MEMORY_UNKNOWN;
    if (s && c->bytes && is_apart(c, dst_bytes, src_bytes)) {
        to = ag_memory_at(s, c->dst, dst_bytes, c->is_sync);
        from = ag_memory_at(s, c->src, src_bytes, c->is_sync);
    }
    if (to == AG_MEMORY_HOST || from == AG_MEMORY_HOST)
        return passes(&in, c->ptsz, c->sym, true);
    enum ag_memory both = to > from ? to : from; /* the one that permits less */
    const char *why = both == AG_MEMORY_PLAIN ? NULL : memory_reasons[both][1];
    /* the driver updates nodes of one row only (cuGraphExecMemcpyNodeSetParams) */
    if (c->rows.depth && both == AG_MEMORY_PLAIN)
        why = "a copy of rows, and of more than the library's kernel copies";
    in.movable = why && both <= AG_MEMORY_MOVABLE && is_for_kernel(s, c);
    return on_addresses(s, &in, why, c->ptsz, c->sym);
}
