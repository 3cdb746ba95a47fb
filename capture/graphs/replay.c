/*
 * replay.c - launches a chunk: chooses among its variants, updates arguments, submits.
 *
 * This runs on the hot path once per chunk. Rules: no allocation except at the first miss of a
 * chunk; one driver call if the arguments are known, and one more per changed node.
 */
#include "capture/graphs/replay.h"
#include "capture/graphs/ahead.h"
#include "capture/graphs/budget.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/system/digest.h"
#include "capture/settings/log.h"
#include "capture/graphs/node.h"
#include "capture/graphs/nvtx.h"
#include "capture/graphs/request.h"
#include "capture/tracking/fork.h"
#include "capture/tracking/hostmemory.h"
#include "capture/tracking/state.h"
#include "capture/trace/trace.h"
#include "capture/tracking/per_thread.h"
#include <stdlib.h>

/* ---- updates ---------------------------------------------------------------------------- */

/* A node that names memory outside for the first time may lack a fence in front. */
static bool may_lack_fence(const struct ag_variant *v, uint32_t i,
                           const struct ag_signature *signature, const uint8_t *recorded)
{
    if (v->nodes[i].names_outside || !ag_outside_is_named(signature, recorded, v->device))
        return false;
    ag_info("flush", "an argument is now memory of the host or of another device");
    ag_count(AG_COUNT_NAMES_OUTSIDE);
    ag_signature_lacked_fence(signature);
    return true;
}

/* The same of all nodes, where memory of the host was added: arguments that stay as they are may
 * lie there now. */
static bool may_lack_fences(const struct ag_graphs *g, struct ag_variant *v)
{
    uint32_t epoch = atomic_load(&ag_host_memory_epoch);
    for (uint32_t i = 0; i < g->count; i++) {
        const struct ag_signature *signature = ag_key_signature(g->ops[i].key);
        if (may_lack_fence(v, i, signature, v->bytes + g->ops[i].offset))
            return true;
    }
    v->host_memory_epoch = epoch;
    return false;
}

static bool update_node(const struct ag_graphs *g, struct ag_variant *v, uint32_t i,
                        const struct ag_recorded *op, const uint8_t *bytes)
{
    const struct ag_signature *signature = ag_key_signature(op->key);
    if (may_lack_fence(v, i, signature, bytes + op->offset))
        return false;
    ag_probe_begins();
    CUresult r = ag_node_update(v->exec, g, &v->nodes[i], signature, bytes + op->offset);
    ag_probe_ends();
    if (r != CUDA_SUCCESS) {
        ag_info("build", "node update failed with error %d", (int)r);
        ag_count(AG_COUNT_UPDATE_FAILED);
        return false;
    }
    memcpy(v->bytes + op->offset, bytes + op->offset, signature->layout.recorded_bytes);
    return true;
}

static bool op_differs(const struct ag_recorded *op, const uint8_t *a, const uint8_t *b)
{
    return memcmp(a + op->offset, b + op->offset,
                  ag_key_signature(op->key)->layout.recorded_bytes) != 0;
}

/* One bit per op: whether it has other arguments. */
struct marks {
    uint64_t words[AG_MOST_NODES / 64];
};

static uint32_t mark_differences(const struct ag_graphs *g, const uint8_t *a, const uint8_t *b,
                                 struct marks *marks)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count; i += 64) {
        uint64_t word = 0;
        for (uint32_t k = 0; k < 64 && i + k < g->count; k++)
            word |= (uint64_t)op_differs(&g->ops[i + k], a, b) << k;
        marks->words[i / 64] = word;
        n += (uint32_t)__builtin_popcountll(word);
    }
    return n;
}

static uint32_t count_differences(const struct ag_graphs *g, const uint8_t *a, const uint8_t *b,
                                  uint32_t enough)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count && n < enough; i++)
        n += op_differs(&g->ops[i], a, b);
    return n;
}

/* Uploads the graph before its first update. If nodes are changed before their graph was ever on
 * the device, its kernels are slower for good (docs/performance.md); otherwise the launch that
 * follows would upload it anyway. If the upload fails, the graph is only slower. There is no upload
 * while the program captures: whether its captures tolerate that call is not documented. */
static void upload(struct ag_stream *s, struct ag_variant *v)
{
    if (ag_state_captures())
        return;
    ag_probe_begins();
    CUresult r = AG_REAL(cuGraphUpload)(v->exec, ag_stream_handle(s));
    ag_probe_ends();
    if (r != CUDA_SUCCESS) {
        ag_info("build", "cuGraphUpload failed with error %d", (int)r);
        ag_count(AG_COUNT_UPLOAD_FAILED);
    }
}

/* One thread at a time counts; others may read. */
static inline void count_one(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static bool update(struct ag_stream *s, struct ag_graphs *g, struct ag_variant *v,
                   const uint8_t *bytes, const struct marks *marks)
{
    if (!v->used)
        upload(s, v);
    uint64_t began = ag_clock_ns(); /* the pace counts updates alone */
    for (uint32_t at = 0; at < g->count; at += 64) {
        /* mark_differences() has set it: NOLINTNEXTLINE(clang-analyzer-core.*) */
        for (uint64_t left = marks->words[at / 64]; left; left &= left - 1) {
            uint32_t i = at + (uint32_t)__builtin_ctzll(left);
            if (!update_node(g, v, i, &g->ops[i], bytes))
                return false;
            count_one(&s->updates);
            ag_trace_update(s, g->trace_id, i);
        }
    }
    s->update_ns += ag_clock_ns() - began;
    return true;
}

/* ---- variants --------------------------------------------------------------------------- */

/* Once a variant has come, no one else changes `incoming` before the next request. */
static void take_in(struct ag_graphs *g, struct ag_variant *v)
{
    g->variants[g->num_variants] = v;
    g->successor[g->num_variants] = (uint8_t)g->num_variants;
    g->num_variants++;
    g->repeats = 0;
    atomic_store_explicit(&g->incoming, NULL, memory_order_relaxed);
}

/* Would one more graph save updates? Yes if these very arguments were here before. Also yes if they
 * are much nearer to those of a few launches ago than to any graph's, as in a ping-pong, even one
 * with a counter among its arguments. `changes`: updates that the nearest variant needs. */
static bool worth_a_variant(struct ag_graphs *g, const uint8_t *bytes, uint32_t changes)
{
    uint64_t hash = ag_digest(g->num_bytes, bytes, g->num_bytes);
    bool again = false;
    for (uint32_t i = 0; i < AG_DIGESTS && i < g->num_digests; i++)
        again |= g->digests[i] == hash;
    g->digests[g->num_digests++ % AG_DIGESTS] = hash;
    if (!g->history)
        g->history = ag_budget_new_history(g);
    if (!g->history)
        return again;
    for (uint32_t k = 0; !again && changes > 1 && k < AG_HISTORY && k < g->num_history; k++)
        again = count_differences(g, g->history + (size_t)k * g->num_bytes, bytes, changes) *
                    AG_VARIANT_NEARER <
                changes;
    memcpy(g->history + (size_t)(g->num_history++ % AG_HISTORY) * g->num_bytes, bytes,
           g->num_bytes);
    g->repeats = again ? g->repeats + 1 : 0;
    return g->repeats >= AG_VARIANT_REPEATS;
}

/* The variant with the fewest nodes to change: `best`, which has `*changes`, unless another has
 * fewer. Changes count twice in a variant that was never launched, because it must be uploaded
 * first. */
static uint32_t nearest(const struct ag_graphs *g, const uint8_t *bytes, uint32_t best,
                        uint32_t *changes)
{
    uint32_t least = *changes << !g->variants[best]->used, predicted = best;
    for (uint32_t i = 0; i < g->num_variants; i++) {
        const struct ag_variant *v = g->variants[i];
        if (i == predicted)
            continue;
        uint32_t n = count_differences(g, bytes, v->bytes, least + 1), cost = n << !v->used;
        if (cost < least || (cost == least && v->used < g->variants[best]->used)) {
            best = i;
            *changes = n;
            least = cost;
            if (!n)
                break;
        }
    }
    return best;
}

/* Whether to search when the arguments are not those of the expected graph: for a nearer graph, and
 * for one worth building. The search reads the arguments of all graphs, which is more than the
 * updates read. It finds nothing if the arguments are new each time, or differ in words that no
 * kernel reads (stack garbage, as in all of PyTorch's launches). So after it was long fruitless, it
 * is done for some launches in a row, which is enough to find argument sets that take turns, and
 * then left out for many. */
static bool looks(const struct ag_graphs *g)
{
    return g->fruitless < AG_PATIENCE || g->misses % AG_LOOK_EVERY < AG_LOOK_FOR;
}

/* The expected graph has other arguments. Returns the variant to launch, and marks all of its nodes
 * that must be changed. */
static uint32_t choose(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes,
                       uint32_t expected, struct marks *marks, uint32_t *changes)
{
    uint32_t chosen = expected, fewer;
    uint32_t before = mark_differences(g, bytes, g->variants[expected]->bytes, marks);
    *changes = fewer = before;
    g->misses++;
    if (!looks(g))
        return chosen;
    g->fruitless++;
    chosen = nearest(g, bytes, expected, &fewer);
    if (chosen != expected)
        *changes = mark_differences(g, bytes, g->variants[chosen]->bytes, marks);
    if (fewer && g->num_variants < AG_MAX_VARIANTS &&
        !atomic_load_explicit(&g->incoming, memory_order_relaxed) &&
        worth_a_variant(g, bytes, fewer))
        ag_request_variant(s, g, bytes);
    if (fewer * AG_VARIANT_NEARER <= before || g->repeats)
        g->fruitless = 0;
    return chosen;
}

/* ---- launching -------------------------------------------------------------------------- */

static CUresult submit(struct ag_stream *s, const struct ag_graphs *g, const struct ag_variant *v)
{
    bool branches = g->branches & ~1u;
    if (__builtin_expect(branches || g->events, 0))
        ag_fork_graph_begins(s, g->branches, g->waits);
    bool empty = g->events && !v->exec; /* records and waits alone */
    ag_probe_begins(); /* if it fails, the ops go one by one, and the program hears of those */
    CUresult r = empty ? CUDA_SUCCESS : AG_REAL(cuGraphLaunch)(v->exec, ag_stream_handle(s));
    ag_probe_ends();
    if (__builtin_expect(ag_stream_forks(s), 0) && r == CUDA_SUCCESS)
        ag_fork_graph_ends(s, g->branches);
    if (__builtin_expect(g->events, 0) && r == CUDA_SUCCESS)
        ag_fork_events_are_in_graph(s, g->events);
    return r;
}

__attribute__((hot)) bool ag_graphs_launch(struct ag_stream *s, struct ag_graphs *g,
                                           const uint8_t *bytes)
{
    uint32_t chosen = g->successor[g->last], changes = 0;
    struct marks marks;
    uint64_t began = ag_trace_clock();
    struct ag_variant *incoming = atomic_load_explicit(&g->incoming, memory_order_acquire);
    if (__builtin_expect(incoming != NULL, 0) && incoming != AG_REQUESTED)
        take_in(g, incoming);
    if (memcmp(g->variants[chosen]->bytes, bytes, g->num_bytes)) {
        chosen = choose(s, g, bytes, chosen, &marks, &changes);
        if (changes && !update(s, g, g->variants[chosen], bytes, &marks))
            return false;
    }
    struct ag_variant *v = g->variants[chosen];
    uint32_t epoch = atomic_load_explicit(&ag_host_memory_epoch, memory_order_relaxed);
    if (__builtin_expect(v->host_memory_epoch != epoch, 0) && may_lack_fences(g, v))
        return false;
    bool begun = ag_nvtx_begin(g->count);
    CUresult r = submit(s, g, v);
    ag_nvtx_end(begun);
    ag_trace_graph(s, g->trace_id, chosen, changes, began, r);
    if (r != CUDA_SUCCESS) {
        ag_info("flush", "cuGraphLaunch failed with error %d", (int)r);
        ag_count(AG_COUNT_LAUNCH_FAILED);
        return false;
    }
    g->successor[g->last] = (uint8_t)chosen;
    g->last = chosen;
    v->used = ++g->launches;
    count_one(&s->launches);
    /* eagerly each stream of a fork has a queue of its own, and other graphs may fill the others */
    ag_ahead_launched(s, g->count / (ag_stream_forks(s) ? s->fork->width : 1));
    return true;
}
