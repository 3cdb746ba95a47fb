/*
 * request.c - decides which graphs to request, and what they may cost. Requests are made under a
 * stream's lock. The builder carries them out.
 */
#include "capture/graphs/request.h"
#include "capture/graphs/budget.h"
#include "capture/graphs/build.h"
#include "capture/graphs/builder.h"
#include "capture/system/clock.h"
#include "capture/system/digest.h"
#include "capture/tracking/count.h"
#include "capture/tracking/memory.h"
#include "capture/settings/options.h"
#include "capture/graphs/ownkernels.h"
#include "capture/graphs/pause.h"
#include "capture/tracking/state.h"
#include "capture/trace/trace.h"
#include "policy/debt.h"
#include "policy/new.h"
#include "capture/tracking/waits.h"
#include <stdlib.h>

void ag_request_prepare(const struct ag_stream *s)
{
    if (ag_state_builds_nothing() || ag_own_kernels_tried(s->context) || !ag_pause_enter())
        return;
    if (ag_waits_at_rest()) {
        bool entered = ag_context_enter(s->context->handle);
        /* another thread may begin a capture now */
        CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        ag_own_kernels_load(s->context);
        ag_core_mode(mode);
        ag_context_leave(entered);
    }
    ag_pause_leave();
}

static struct ag_request *make_request(struct ag_stream *s, struct ag_graphs *g,
                                       struct ag_chunk *chunk, const uint8_t *bytes)
{
    struct ag_request *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->stream = s;
    r->graphs = g;
    r->chunk = chunk;
    r->memory_epoch = atomic_load(&ag_memory_epoch);
    r->bytes = malloc(g->num_bytes + 1);
    if (!r->bytes) {
        free(r);
        return NULL;
    }
    memcpy(r->bytes, bytes, g->num_bytes);
    return r;
}

static _Atomic uint64_t lapsed_until; /* ag_debt_now() */

/* What a stream owes for its graphs: what they have cost, less the share of their gain that may be
 * spent, and less what has lapsed. Below 0 it has that to spare. */
static int64_t owed_by(struct ag_stream *s, uint64_t now)
{
    int64_t spent = (int64_t)atomic_load_explicit(&s->build_ns, memory_order_relaxed);
    int64_t gained = atomic_load_explicit(&s->worth_ns, memory_order_relaxed);
    return ag_debt_now(&s->lapsed_ns, spent - gained / AG_BUILD_GAIN_SHARE, &lapsed_until, now);
}

/* Until when streams that have ended owe something (debt.h), up to what makes a build as dear as it
 * can be. */
static _Atomic uint64_t owed_until;

void ag_request_stream_ends(struct ag_stream *s)
{
    const int64_t most =
        AG_BUILD_ALLOWANCE_NS + (int64_t)AG_BUILD_HIGHEST_PRICE * AG_BUILD_NS_A_VISIT;
    uint64_t before = atomic_load(&owed_until), now = ag_clock_ns();
    int64_t owed = owed_by(s, now);
    while (
        !atomic_compare_exchange_weak(&owed_until, &before, ag_debt_with(before, now, owed, most)))
        ;
}

/*
 * Building must pay for itself, or it stops. While a graph is instantiated, the program's own
 * launches wait for the driver's locks (measured: a decode loop that kept building lost 10 %). So
 * the time that building takes is weighed against the time that replaying has gained. In debt, the
 * library builds only what it has seen often. A stream takes over what others have left: else a
 * program that makes a stream for each of its tasks would build for each of them anew.
 */
static uint32_t sightings_needed(struct ag_stream *s, uint32_t ops)
{
    if (!ag_options.profit)
        return 0;
    uint64_t until = atomic_load_explicit(&owed_until, memory_order_relaxed), now = ag_clock_ns();
    return ag_debt_price(owed_by(s, now) + ag_debt_at(until, now), ops);
}

static void look_for_branches(struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct ag_signature *signature = ag_key_signature(g->ops[i].key);
        g->branches |= 1u << signature->branch;
        g->events += ag_signature_is_event(signature);
        g->waits |= signature->kind == AG_OP_WAIT;
    }
}

/* Behind records or not: they are no nodes. */
static bool begins_with_read(const struct ag_engine_content *recorded)
{
    uint32_t i = 0;
    while (i < recorded->num_ops && ag_signature_is_event(ag_key_signature(recorded->ops[i].key)))
        i++;
    return i < recorded->num_ops && ag_key_signature(recorded->ops[i].key)->reads;
}

/* ---- twins ------------------------------------------------------------------------------ */

enum { PLACES = 256 };

/* The chunks of a stream for which graphs were requested, found by their content: references, which
 * keep nothing alive. The code checks what a reference leads to before using it. One piece of
 * memory, under the stream's lock and freed with it. */
struct ag_twins {
    struct place {
        uint64_t content;
        struct ag_chunk_ref chunk;
    } places[PLACES];
};

static uint64_t digest(const struct ag_engine_content *recorded)
{
    uint64_t hash = recorded->num_ops;
    for (uint32_t i = 0; i < recorded->num_ops; i++)
        hash = ag_digest(hash, &recorded->ops[i].key, sizeof(ag_key));
    return ag_digest(hash, recorded->bytes, recorded->num_bytes);
}

/* Whether the graphs hold the recorded ops and arguments. */
static bool holds(const struct ag_graphs *g, const struct ag_engine_content *recorded)
{
    if (!g || g->count != recorded->num_ops || g->num_bytes != recorded->num_bytes)
        return false;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->ops[i].key != recorded->ops[i].key || g->ops[i].offset != recorded->ops[i].offset)
            return false;
    for (uint32_t i = 0; i < g->num_variants; i++)
        if (!memcmp(g->variants[i]->bytes, recorded->bytes, recorded->num_bytes))
            return true;
    return false;
}

/* Lets chunks of a stream with the same ops and arguments share their graphs. A loop that is cut
 * into pieces of its period then needs only one graph, which also stays in the processor's caches.
 * Returns whether `chunk`, whose ops are recorded, is not to be built now: it has the graphs of
 * another, or such graphs are being built. Otherwise the table remembers it. */
static bool has_twin(struct ag_stream *s, struct ag_chunk *chunk,
                     const struct ag_engine_content *recorded)
{
    if (!s->twins && !(s->twins = calloc(1, sizeof(*s->twins))))
        return false;
    uint64_t content = digest(recorded);
    struct place *place = &s->twins->places[content % PLACES];
    struct ag_chunk *twin = place->content == content
                                ? ag_policy_chunk_get(ag_engine_policy(&s->engine), place->chunk)
                                : NULL;
    if (twin && twin != chunk) {
        enum ag_chunk_state state = ag_chunk_state(twin); /* first: only then its graphs */
        if (state == AG_CHUNK_BUILDING) {
            ag_policy_not_built(chunk);
            return true;
        }
        if (state == AG_CHUNK_READY && holds(ag_chunk_user(twin), recorded)) {
            ag_graphs_policy_hooks.share(NULL, twin, chunk);
            ag_policy_built(chunk, true);
            return true;
        }
    }
    *place = (struct place){content, ag_policy_chunk_ref(chunk)};
    return false;
}

/* ---- requests --------------------------------------------------------------------------- */

void ag_request_graphs(struct ag_stream *s, struct ag_chunk *chunk, bool may_hold_back)
{
    struct ag_visit visit = ag_driver_enter(s);
    ag_request_prepare(s);
    ag_driver_leave(s, visit);
    struct ag_engine_content recorded = ag_engine_content(&s->engine);
    if (recorded.num_ops > AG_MOST_NODES) { /* no plan has such a chunk */
        ag_policy_built(chunk, false);
        return;
    }
    /* A copy kernel in front would need a place on the GPU that no op before it has had
     * (core/read_back.c). */
    bool read_first = begins_with_read(&recorded);
    if (read_first || !may_hold_back) {
        ag_count(read_first ? AG_COUNT_READ_FIRST : AG_COUNT_NO_WATCHDOG);
        ag_policy_put_off(chunk, AG_BUILD_LONGEST_DELAY);
        return;
    }
    bool wanted = !ag_state_builds_nothing();
    if (wanted && has_twin(s, chunk, &recorded))
        return;
    /* each build must be earned again */
    struct ag_sequence_facts sequence = ag_sequence_facts(ag_chunk_sequence(chunk));
    uint32_t needed = sightings_needed(s, recorded.num_ops);
    if (sequence.visits < needed) {
        uint32_t left = needed - (uint32_t)sequence.visits;
        ag_count(AG_COUNT_BUILD_TOO_DEAR);
        ag_policy_put_off(chunk, left < AG_BUILD_LONGEST_DELAY ? left : AG_BUILD_LONGEST_DELAY);
        return;
    }
    struct ag_graphs *g = wanted ? ag_new(sizeof(*g)) : NULL;
    struct ag_request *r = NULL;
    uint64_t now = ag_clock_ns();
    if (g) {
        g->last_used_ns = now;
        g->look_at = AG_BUILD_FIRST_LOOK;
        g->chunks = 1;
        g->context = s->context;
        g->priority = s->priority;
        g->count = recorded.num_ops;
        g->num_bytes = recorded.num_bytes;
        g->ops = malloc(recorded.num_ops * sizeof(*g->ops));
        if (g->ops) {
            memcpy(g->ops, recorded.ops, recorded.num_ops * sizeof(*g->ops));
            look_for_branches(g);
            g->trace_id = ag_trace_chunk(s, chunk);
            r = make_request(s, g, chunk, recorded.bytes);
            if (r)
                r->apart_ns = sequence.seen_ns ? now - sequence.seen_ns : 0;
        }
    }
    if (r && ag_builder_submit(r))
        return;
    if (r)
        ag_request_free(r);
    if (g)
        ag_graphs_destroy(g);
    ag_policy_not_built(chunk);
}

void ag_request_variant(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes)
{
    if (sightings_needed(s, g->count)) {
        ag_count(AG_COUNT_BUILD_TOO_DEAR);
        return;
    }
    struct ag_request *r = make_request(s, g, NULL, bytes);
    if (!r)
        return;
    bool used = ag_graphs_requested(g);
    if (used && ag_builder_submit(r))
        return;
    ag_request_free(r);
    if (used)
        ag_graphs_answered(g, NULL);
}
