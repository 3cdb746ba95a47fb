/* world.c - what the engine of a stream does to the world: it calls the driver. */
#include "capture/core/world.h"
#include "capture/graphs/ahead.h"
#include "capture/graphs/budget.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/core/flush.h"
#include "capture/graphs/graph.h"
#include "capture/settings/log.h"
#include "capture/core/op.h"
#include "capture/graphs/replay.h"
#include "capture/graphs/request.h"
#include "capture/tracking/state.h"
#include "capture/trace/trace.h"
#include "capture/core/submitter.h"
#include "capture/core/watchdog.h"

static struct ag_stream *stream_of(struct ag_engine *e)
{
    return (struct ag_stream *)(void *)((char *)e - offsetof(struct ag_stream, engine));
}

/* ---- one by one -------------------------------------------------------------------------- */

/* The driver refused a deferred op. Lack of memory may pass. Any other objection will come again,
 * and from now on the program gets it at the launch itself. */
static void fail(struct ag_stream *s, const struct ag_signature *signature, CUresult r)
{
    ag_info("flush", "a deferred launch failed with error %d", (int)r);
    ag_signature_refused(signature, r);
    if (s->pending != CUDA_SUCCESS)
        return;
    s->pending = r;
    ag_stream_open(s);
}

/* From here on the flush under way calls the driver. */
static void flush_enters(struct ag_stream *s)
{
    s->flush_hands = false;
    ag_submitter_settle(s);
    s->visit = ag_driver_enter(s);
}

static void submit(struct ag_engine *e, ag_key key, const uint8_t *bytes)
{
    struct ag_stream *s = stream_of(e);
    if (s->flush_hands && ag_submitter_hand_recorded(s, key, bytes))
        return;
    if (s->flush_hands)
        flush_enters(s);
    CUresult r = ag_op_submit(s, ag_key_signature(key), bytes);
    if (r != CUDA_SUCCESS)
        fail(s, ag_key_signature(key), r);
}

static void flush_begins(struct ag_engine *e, enum ag_engine_why why)
{
    struct ag_stream *s = stream_of(e);
    if (why == AG_ENGINE_DEPARTED)
        ag_trace_cause(AG_CAUSE_MISMATCH);
    else if (why == AG_ENGINE_GRAPH_FAILED)
        ag_trace_cause(AG_CAUSE_GRAPH_FAILED);
    /* a caller that asked relies on what was submitted when its call goes on */
    s->flush_hands = why == AG_ENGINE_DEPARTED && ag_submitter_takes_ops(s);
    s->flush_began = ag_trace_clock();
    if (!s->flush_hands)
        flush_enters(s);
}

static void flush_ends(struct ag_engine *e, uint32_t ops, uint32_t covered)
{
    struct ag_stream *s = stream_of(e);
    if (!s->flush_hands)
        ag_driver_leave(s, s->visit);
    ag_trace_flush(s, ops, covered, s->flush_began);
}

/* ---- by graphs --------------------------------------------------------------------------- */

static bool cover(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes)
{
    struct ag_stream *s = stream_of(e);
    struct ag_graphs *g = ag_chunk_user(chunk);
    if (s->pending || !g)
        return false;
    if (s->flush_hands)
        flush_enters(s);
    return ag_graphs_launch(s, g, bytes);
}

__attribute__((hot)) static bool launch(struct ag_engine *e, struct ag_chunk *chunk,
                                        const uint8_t *bytes, uint64_t began)
{
    struct ag_stream *s = stream_of(e);
    struct ag_graphs *g = ag_chunk_user(chunk);
    bool launched = false;
    bool failed = atomic_load_explicit(&g->failed, memory_order_relaxed);
    ag_ahead_make_if_due(s);
    bool looks = ++g->given >= g->look_at; /* behind the launch, with the ring at rest */
    s->handed = __builtin_expect(!failed && !looks, 1) &&
                ag_submitter_hand(s, g, bytes, began, ag_policy_awaited(ag_engine_policy(e), chunk),
                                  ag_chunk_behind(chunk));
    if (s->handed)
        return true;
    ag_submitter_settle(s);
    if (!failed) {
        s->update_ns = 0;
        struct ag_visit visit = ag_driver_enter(s);
        launched = ag_graphs_launch(s, g, bytes);
        if (launched)
            ag_ahead_decide(s);
        ag_driver_leave(s, visit);
    }
    if (!launched)
        ag_graphs_discard(chunk);
    return launched;
}

static void add(_Atomic int64_t *sum, int64_t ns)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + ns,
                          memory_order_relaxed);
}

/* Adds what the graph of `ops` ops, launched in `ns`, has gained over eager calls. An eager call
 * counts as an estimate until one has been timed. The policy hears of the program's own launches,
 * and of twice an eager call at most: what took longer was waiting, perhaps for the GPU, as eager
 * launches would. `waits`: the library makes it wait, which is not in `ns`. Nobody knows what such
 * a launch has gained, so a stream of these is in doubt. */
static void count_gain(struct ag_stream *s, struct ag_sequence *sequence, int64_t ops, int64_t ns,
                       bool waits)
{
    uint32_t mean = atomic_load_explicit(&s->call_ns, memory_order_relaxed);
    int64_t usual = ops * atomic_load_explicit(&s->usual_ns, memory_order_relaxed);
    if (usual && !s->handed)
        ag_policy_gained(ag_engine_policy(&s->engine), sequence,
                         ns < AG_GRAPH_WAITED * usual ? usual - ns : -usual);
    int64_t gain = ops * (mean ? mean : AG_CALL_ESTIMATE_NS) - ns;
    s->doubt.gain_ns += waits || (usual && ns >= AG_GRAPH_WAITED * usual) ? 0 : gain;
    add(&s->worth_ns, gain);
    add(&s->graph_ops[s->handed], ops);
    add(&s->graph_ns[s->handed], ns);
}

static bool same_op(const struct ag_graphs *g, const uint8_t *bytes, uint32_t a, uint32_t b)
{
    const struct ag_recorded *x = &g->ops[a], *y = &g->ops[b];
    return x->key == y->key && !memcmp(bytes + x->offset, bytes + y->offset,
                                       ag_key_signature(x->key)->layout.recorded_bytes);
}

static bool repeats_after(const struct ag_graphs *g, uint32_t period)
{
    for (uint32_t k = 0; k < g->num_variants; k++)
        for (uint32_t i = 0; i + period < g->count; i++)
            if (!same_op(g, g->variants[k]->bytes, i, i + period))
                return false;
    return true;
}

/* Number of ops after which the arguments repeat, in a loop that needs several of these graphs. 0:
 * not known, or more ops than one graph has. */
static uint32_t cycle_of(const struct ag_graphs *g)
{
    for (uint32_t period = 1; g->num_variants > 1 && period < g->count; period++)
        if ((g->count - period) * g->num_variants >= AG_CYCLE_EVIDENCE && repeats_after(g, period))
            return period;
    return 0;
}

/* The arguments of a loop may repeat later than its ops do, and the policy sees no arguments: to it
 * a loop of one kernel that takes 20 sets of arguments in turn has period 1. In graphs of 64
 * launches this loop needs five graphs, launched in turn; in graphs of 60 it needs one. (Measured
 * on an H100: 1.00-1.18 us a kernel with five, 0.985 with one; docs/performance.md.) Returns how
 * many ops the arguments take to repeat if it is time to look, else 0. */
static __attribute__((cold, noinline)) uint32_t look_at_cycle(struct ag_graphs *g,
                                                              const struct ag_sequence *sequence)
{
    g->look_at *= AG_BUILD_LOOK_GROWTH;
    return ag_sequence_facts(sequence).periodic ? cycle_of(g) : 0;
}

__attribute__((hot)) static void launched(struct ag_engine *e, struct ag_chunk *chunk,
                                          uint64_t began)
{
    struct ag_stream *s = stream_of(e);
    struct ag_graphs *g = ag_chunk_user(chunk);
    struct ag_sequence *sequence = ag_chunk_sequence(chunk);
    uint64_t now = ag_clock_ns();
    g->last_used_ns = began;
    count_gain(s, sequence, ag_chunk_count(chunk), (int64_t)(now - began), s->ahead.waits);
    if (s->handed) { /* what was launched, and when, is the submitter's */
        ag_policy_submitted(ag_engine_policy(e), now);
        return;
    }
    /* the policy may drop the graphs next */
    uint32_t cycle = g->given < g->look_at ? 0 : look_at_cycle(g, sequence);
    /* updates cost time per op, as the gaps between ops do, so they count for the pace */
    ag_policy_submitted(ag_engine_policy(e), now - s->update_ns);
    if (cycle)
        ag_policy_align(ag_engine_policy(e), sequence, cycle);
}

static void build(struct ag_engine *e, struct ag_chunk *chunk)
{
    struct ag_stream *s = stream_of(e);
    ag_submitter_settle(s); /* it looks at the arguments of other graphs, and may build at once */
    ag_request_graphs(s, chunk, ag_watchdog_is_ready());
}

/* ---- holding back ------------------------------------------------------------------------ */

__attribute__((hot)) static void deferring(struct ag_engine *e, bool on)
{
    if (on)
        ag_deferring_begins(stream_of(e));
    else
        ag_deferring_ends(stream_of(e));
}

static void broken(struct ag_engine *e, const char *what)
{
    static _Atomic bool said;
    ag_count(AG_COUNT_UNEXPECTED);
    if (!atomic_exchange(&said, true))
        ag_say("a mistake of this library's, please report it: \"%s\" does not hold. The stream is "
               "submitted eagerly from here on.",
               what);
    atomic_fetch_or(&stream_of(e)->not_understood, AG_LACKS_SETTINGS);
}

const struct ag_engine_world ag_driver_world = {
    .submit = submit,
    .launch = launch,
    .launched = launched,
    .cover = cover,
    .begins = flush_begins,
    .ends = flush_ends,
    .build = build,
    .deferring = deferring,
    .broken = broken,
    .least_covered = AG_LEAST_COVERED,
};
