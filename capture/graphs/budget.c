/*
 * budget.c - how long graphs live: how much of the memory budget they take, which graphs are
 * dropped to make room, and what happens to graphs that the policy drops.
 *
 * The policy may drop graphs under any stream's lock. So dropped graphs are put aside here and
 * destroyed later: by the builder (builder.c), by the thread that has paused it, or in inline mode
 * before the next build.
 */
#include "capture/graphs/budget.h"
#include "capture/graphs/build.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/settings/options.h"
#include "capture/graphs/pause.h"
#include "capture/tracking/streams.h"
#include "capture/trace/trace.h"
#include <stdlib.h>
#include <utlist.h>

/* Protects the garbage and what struct ag_graphs shares. A thread may hold the builder's lock when
 * it takes this one. It takes no lock under this one. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ag_graphs *garbage; /* linked by `next_dropped` */
static uint32_t num_garbage;
static _Atomic uint64_t memory;
static _Atomic uint32_t halvings; /* of the budget */

uint64_t ag_budget_used(void)
{
    return atomic_load_explicit(&memory, memory_order_relaxed);
}

static uint64_t all(void)
{
    return (uint64_t)ag_options.memory_mb << 20;
}

uint64_t ag_budget(void)
{
    return all() >> atomic_load_explicit(&halvings, memory_order_relaxed);
}

void ag_budget_halve(void)
{
    uint32_t n = atomic_load(&halvings);
    while (all() >> (n + 1) >= AG_LEAST_BUDGET &&
           !atomic_compare_exchange_weak(&halvings, &n, n + 1))
        ;
}

/* Of one variant. The arguments are there twice: the driver's copy, and the variant's. */
static uint64_t size_of(const struct ag_graphs *g)
{
    return (uint64_t)g->count * AG_NODE_BYTES + 2 * (uint64_t)g->num_bytes;
}

bool ag_budget_driver_has_room(const struct ag_graphs *g)
{
    uint64_t alive = ag_counted(AG_COUNT_BUILT) - ag_counted(AG_COUNT_DROPPED);
    uint64_t nodes = ag_budget_used() / AG_NODE_BYTES + g->count;
    return alive < AG_ROOM_GRAPHS && nodes <= AG_ROOM_NODES;
}

static uint64_t history_of(const struct ag_graphs *g)
{
    return g->history ? (uint64_t)AG_HISTORY * g->num_bytes : 0;
}

/* ---- graphs that are dropped ----------------------------------------------------------- */

static void destroy(struct ag_graphs *g)
{
    bool entered = ag_context_enter(g->context->handle);
    uint64_t n = g->num_variants + (atomic_load(&g->incoming) != NULL);
    uint64_t bytes = n * size_of(g) + history_of(g);
    ag_trace_drop(g->trace_id, n);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    ag_graphs_destroy(g);
    ag_core_mode(mode);
    atomic_fetch_sub(&memory, bytes); /* the driver has room for others only now */
    ag_count_by(AG_COUNT_DROPPED, n);
    ag_context_leave(entered);
}

/* Puts graphs aside that nobody uses any more. The caller holds the mutex. */
static void put_aside(struct ag_graphs *g)
{
    LL_PREPEND2(garbage, g, next_dropped);
    num_garbage++;
}

/* The policy's drop hook. The caller may hold any stream's lock. */
static void drop(void *context, struct ag_chunk *chunk)
{
    struct ag_graphs *g = ag_chunk_user(chunk);
    bool wake = false;
    (void)context;
    ag_chunk_set_user(chunk, NULL);
    ag_mutex_lock(&mutex, AG_RANK_BUDGET);
    if (--g->chunks) {
        /* another chunk still uses them */
    } else if (atomic_load(&g->incoming) == AG_REQUESTED) {
        g->orphan = true; /* whoever ends the request puts them aside */
    } else {
        put_aside(g);
        wake = true;
    }
    ag_mutex_unlock(&mutex);
    if (wake)
        ag_pause_wake();
}

/* The policy's share hook. */
static bool share(void *context, struct ag_chunk *from, struct ag_chunk *to)
{
    struct ag_graphs *g = ag_chunk_user(from);
    (void)context;
    ag_mutex_lock(&mutex, AG_RANK_BUDGET);
    g->chunks++;
    ag_mutex_unlock(&mutex);
    ag_chunk_set_user(to, g);
    ag_count(AG_COUNT_SHARED);
    return true;
}

const struct ag_policy_hooks ag_graphs_policy_hooks = {
    .share = share, .ends = ag_graphs_ends, .drop = drop};

void ag_graphs_discard(struct ag_chunk *chunk)
{
    if (ag_chunk_user(chunk))
        drop(NULL, chunk);
    ag_policy_built(chunk, false);
}

/* Whether a ring still holds them. Nobody puts them into one any more. */
static bool is_handed(const struct ag_graphs *g)
{
    return atomic_load_explicit(&g->done, memory_order_acquire) !=
           atomic_load_explicit(&g->handed, memory_order_relaxed);
}

/* The first that may be destroyed. Those that the submitter still has to launch stay; they are few,
 * and other graphs do not wait for them. */
static struct ag_graphs *take_garbage(void)
{
    ag_mutex_lock(&mutex, AG_RANK_BUDGET);
    struct ag_graphs **at = &garbage;
    while (*at && is_handed(*at))
        at = &(*at)->next_dropped;
    struct ag_graphs *g = *at;
    if (g) {
        *at = g->next_dropped;
        num_garbage--;
    }
    ag_mutex_unlock(&mutex);
    return g;
}

uint32_t ag_graphs_collect(uint32_t most)
{
    static pthread_mutex_t collecting = PTHREAD_MUTEX_INITIALIZER;
    uint32_t n = 0;
    /* A thread that ends a context finds none of its graphs left, nor in another thread's hands. */
    ag_mutex_lock(&collecting, AG_RANK_COLLECT);
    for (; n < most; n++) {
        struct ag_graphs *g = take_garbage();
        if (!g)
            break;
        destroy(g);
    }
    ag_mutex_unlock(&collecting);
    return n;
}

uint32_t ag_graphs_dropped(void)
{
    ag_mutex_lock(&mutex, AG_RANK_BUDGET);
    uint32_t n = num_garbage;
    ag_mutex_unlock(&mutex);
    return n;
}

/* ---- while a variant is being built ------------------------------------------------------ */

bool ag_graphs_requested(struct ag_graphs *g)
{
    ag_mutex_lock(&mutex, AG_RANK_BUDGET);
    bool used = g->chunks > 0;
    if (used)
        atomic_store(&g->incoming, AG_REQUESTED);
    ag_mutex_unlock(&mutex);
    return used;
}

void ag_graphs_answered(struct ag_graphs *g, struct ag_variant *v)
{
    ag_mutex_lock(&mutex, AG_RANK_BUDGET);
    atomic_store(&g->incoming, v);
    if (g->orphan)
        put_aside(g);
    ag_mutex_unlock(&mutex);
}

/* ---- the budget ------------------------------------------------------------------------- */

static uint64_t last_use_of(const struct ag_sequence *sequence)
{
    uint64_t latest = 0;
    for (uint32_t i = 0, n = ag_sequence_facts(sequence).num_chunks; i < n; i++) {
        const struct ag_graphs *g = ag_chunk_user(ag_sequence_chunk(sequence, i));
        if (g && g->last_used_ns > latest)
            latest = g->last_used_ns;
    }
    return latest;
}

/* Drops the graphs of the sequence that has gone unused for longest, whatever stream it belongs to.
 * Returns false if no graphs can be dropped. Also returns false if no sequence has gone unused for
 * longer than `apart_ns`, the time between the last two visits of the sequence that wants the room.
 * When more sequences take turns than fit, the graphs that exist then stay and are replayed;
 * otherwise all would be built again and again. The caller holds no lock. */
static bool evict_one(uint64_t apart_ns)
{
    uint64_t oldest = UINT64_MAX;
    struct ag_stream *from = NULL;
    struct ag_streams all = ag_streams_snapshot();
    bool done = false;
    for (size_t i = 0; i < all.n; i++) {
        struct ag_stream *s = ag_streams_at(&all, i);
        if (!ag_stream_lock_if_prompt(s))
            continue;
        struct ag_sequence *b = ag_policy_victim(ag_engine_policy(&s->engine));
        uint64_t use = b ? last_use_of(b) : UINT64_MAX;
        ag_unlock(&s->lock);
        if (use < oldest) {
            oldest = use;
            from = s;
        }
    }
    if (from && oldest + apart_ns < ag_clock_ns() && ag_stream_lock_if_prompt(from)) {
        struct ag_sequence *b = ag_policy_victim(ag_engine_policy(&from->engine));
        done = b && ag_policy_drop_graphs(ag_engine_policy(&from->engine), b);
        ag_unlock(&from->lock);
    }
    ag_streams_done(&all);
    return done;
}

bool ag_budget_room(const struct ag_graphs *g, bool evict, uint64_t apart_ns)
{
    evict = evict && size_of(g) <= ag_budget(); /* else all others would go in vain */
    while (atomic_load(&memory) + size_of(g) > ag_budget()) {
        if (!evict || !(ag_graphs_dropped() ? ag_graphs_collect(1) : evict_one(apart_ns)))
            return false;
    }
    return true;
}

void ag_budget_take(const struct ag_graphs *g)
{
    atomic_fetch_add(&memory, size_of(g));
}

uint8_t *ag_budget_new_history(const struct ag_graphs *g)
{
    uint64_t bytes = (uint64_t)AG_HISTORY * g->num_bytes;
    uint8_t *history = atomic_load(&memory) + bytes <= ag_budget() ? malloc(bytes) : NULL;
    if (history)
        atomic_fetch_add(&memory, bytes);
    return history;
}
