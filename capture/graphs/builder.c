/*
 * builder.c - the thread that builds graphs, and how to pause it. It also destroys dropped graphs
 * (budget.c).
 *
 * While a request is queued or being built, its chunk is in state BUILDING and the policy keeps the
 * chunk alive. A chunk that only gains a variant may end at any time; the `orphan` mark of its
 * graphs then says so. Nothing is built while the program captures (our calls could be prohibited
 * and break its capture) or while the builder is paused.
 */
#include "capture/graphs/builder.h"
#include "capture/graphs/budget.h"
#include "capture/graphs/build.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/graphs/lower.h"
#include "capture/settings/log.h"
#include "capture/tracking/memory.h"
#include "capture/settings/options.h"
#include "capture/graphs/pause.h"
#include "capture/system/thread.h"
#include "capture/trace/trace.h"
#include "capture/trace/trace_format.h"
#include "capture/tracking/standing.h"
#include "capture/tracking/waits.h"
#include <stdlib.h>
#include <utlist.h>

/* Protected by the lock of pause.h. */
static struct ag_request *first;
static bool running, stopping;
static bool answering; /* a thread that pauses answers the queued requests */
static pthread_t thread;

/* ---- building --------------------------------------------------------------------------- */

void ag_request_free(struct ag_request *r)
{
    free(r->bytes);
    free(r);
}

/* Ends a request: hands the result to the chunk or to the graphs. */
static void answer(struct ag_request *r, struct ag_variant *v, bool again)
{
    struct ag_graphs *g = r->graphs;
    if (v) {
        ag_budget_take(g);
        ag_count(AG_COUNT_BUILT);
        ag_count_by(AG_COUNT_BUILT_NODES, g->count);
    }
    if (!r->chunk) {
        ag_graphs_answered(g, v);
    } else if (v) {
        g->variants[0] = v;
        g->num_variants = 1;
        ag_chunk_set_user(r->chunk, g);
        ag_policy_built(r->chunk, true);
    } else {
        ag_graphs_destroy(g);
        if (again)
            ag_policy_not_built(r->chunk);
        else
            ag_policy_built(r->chunk, false);
    }
}

/* Whether the driver looks at memory of the program while it builds this. It does not look at what
 * the arguments of a kernel are. */
static bool touches_memory(const struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct ag_signature *signature = ag_key_signature(g->ops[i].key);
        if (signature->kind != AG_OP_LAUNCH && !ag_signature_is_event(signature) &&
            !ag_lowering(g->context, signature))
            return true;
    }
    return false;
}

/* Whether a node takes more shared memory than its function is allowed at the moment. The driver
 * refuses such a node. */
static bool over_limit(const struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (ag_signature_bad(ag_key_signature(g->ops[i].key)) & AG_SIGNATURE_OVER_LIMIT)
            return true;
    return false;
}

/* `evict` is false if the caller holds a stream's lock (inline mode). */
static void build(struct ag_request *r, bool evict)
{
    struct ag_graphs *g = r->graphs;
    struct ag_variant *v = NULL;
    bool pass = ag_waits_rings_pass(), again = !pass;
    uint64_t began = ag_clock_monotonic_ns(), took;
    bool room = pass && ag_budget_room(g, evict, r->apart_ns);
    if (room) {
        bool entered = ag_context_enter(g->context->handle);
        CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        ag_probe_begins(); /* a graph that cannot be built is none of the program's failures */
        bool touches = touches_memory(g);
        again = over_limit(g) || (touches && !ag_memory_hold(r->memory_epoch));
        v = again ? NULL : ag_variant_build(g, r->bytes);
        if (touches && !again)
            ag_memory_release();
        again = again || (!v && over_limit(g));
        ag_probe_ends();
        took = ag_clock_monotonic_ns() - began;
        ag_core_mode(mode);
        ag_context_leave(entered);
    } else {
        ag_count(pass ? AG_COUNT_BUILD_OVER_BUDGET : AG_COUNT_BUILD_HELD_UP);
        took = ag_clock_monotonic_ns() - began;
    }
    ag_count_by(AG_COUNT_BUILD_NS, took);
    atomic_fetch_add_explicit(&r->stream->build_ns, took, memory_order_relaxed);
    ag_trace_build(g->trace_id, g->count,
                   v       ? AG_BUILT
                   : !room ? AG_BUILT_PUT_OFF
                           : AG_BUILT_FAILED,
                   ag_clock_monotonic_ns() - began);
    ag_debug("build", "graph of %u ops %s", g->count, v ? "built" : room ? "failed" : "put off");
    answer(r, v, again);
}

/* How long no graph is destroyed behind one, ns: many times what that took, and less if many wait.
 * Beside other processes on the same GPU a graph may take far longer than by itself. */
static uint64_t rest_behind(uint64_t took, uint32_t dropped)
{
    uint64_t rest = took * AG_DESTROY_REST;
    if (rest < AG_DESTROY_LEAST_REST_NS)
        rest = AG_DESTROY_LEAST_REST_NS;
    if (rest > AG_DESTROY_LONGEST_REST_NS)
        rest = AG_DESTROY_LONGEST_REST_NS;
    return rest / (1 + dropped / AG_DESTROY_FEW);
}

/* The builder had something to build, and has slept since `began`: because something waits outside
 * of the GPU, or because a stream stands still. */
static void held_up(bool stands, uint64_t began)
{
    ag_count(stands ? AG_COUNT_BUILD_STANDS : AG_COUNT_BUILD_HELD_UP);
    ag_count_by(stands ? AG_COUNT_BUILD_STANDS_NS : AG_COUNT_BUILD_HELD_UP_NS,
                ag_clock_monotonic_ns() - began);
}

/*
 * Called when there is nothing to build: destroys dropped graphs. To destroy one takes 30 us,
 * during which a launch of the program's waits for the driver's locks (580, on an H100). So graphs
 * are destroyed one by one with rests in between, and ahead of a build only if very many wait.
 * Nothing is destroyed while paused, since the thread that pauses may be about to destroy what the
 * graphs depend on. Nor is anything destroyed while the GPU may be waiting for the program, or for
 * what is in a ring (waits.c). The caller holds the mutex.
 */
static void tidy(void)
{
    static uint64_t rests_until;
    uint32_t dropped = ag_graphs_dropped();
    uint64_t now = ag_clock_monotonic_ns();
    if (!ag_pause.busy && !ag_pause.paused && !ag_pause.held && dropped && now >= rests_until) {
        uint64_t began = now;
        ag_pause.busy = true;
        ag_pause_unlock();
        if (ag_waits_at_rest() && ag_waits_rings_pass())
            ag_graphs_collect(1);
        ag_pause_lock();
        ag_pause_rests();
        now = ag_clock_monotonic_ns();
        rests_until = now + rest_behind(now - began, dropped);
    }
    if (stopping || (first && ag_pause_permits() && dropped < AG_DESTROY_CROWD))
        return;
    if (!ag_pause.paused && ag_graphs_dropped()) {
        ag_thread_wait(&ag_pause.work, &ag_pause.mutex,
                       rests_until > now ? rests_until - now : AG_DESTROY_LEAST_REST_NS);
    } else {
        ag_pause.barred = first || ag_graphs_dropped();
        bool held = first && ag_pause.held;
        uint64_t began = ag_clock_monotonic_ns();
        ag_mutex_wait(&ag_pause.work, &ag_pause.mutex);
        if (held)
            held_up(false, began);
        ag_pause.barred = false;
    }
}

static void *builder(void *unused)
{
    (void)unused;
    ag_probe_begins(); /* failures here concern only the library */
    ag_pause_lock();
    while (!stopping) {
        bool room = !first || ag_budget_driver_has_room(first->graphs);
        if (first && ag_pause_permits() && (!room || ag_waits_pending())) {
            ag_pause.busy = true; /* a thread that pauses may be about to destroy what we query */
            ag_pause_unlock();
            bool rest = ag_waits_at_rest();
            uint64_t stand = rest && !room ? ag_streams_stand() : 0;
            ag_pause_lock();
            ag_pause_rests();
            if (!rest || stand) {
                uint64_t began = ag_clock_monotonic_ns();
                ag_thread_wait(&ag_pause.work, &ag_pause.mutex, rest ? stand : AG_STANDS_NS);
                held_up(stand > 0, began);
                continue;
            }
        }
        struct ag_request *r =
            ag_pause_permits() && ag_graphs_dropped() < AG_DESTROY_CROWD ? first : NULL;
        if (!r) {
            tidy();
            continue;
        }
        DL_DELETE(first, r);
        ag_pause.busy = true;
        ag_pause_unlock();
        build(r, true);
        ag_request_free(r);
        ag_pause_lock();
        ag_pause_rests();
    }
    ag_pause_unlock();
    return NULL;
}

/* The caller holds the mutex. Where no thread can be started, it is tried again much later: a try
 * takes system calls. */
static bool start(void)
{
    static uint32_t left;
    static bool said;
    if (running || stopping)
        return running;
    if (!left)
        running = ag_thread_start(&thread, "autograph-build", builder);
    if (running)
        return true;
    left = left ? left - 1 : AG_THREAD_RETRY;
    ag_count(AG_COUNT_NO_BUILDER);
    if (!said)
        ag_warn("build", "no builder thread could be started: nothing is replayed");
    said = true;
    return false;
}

/* ---- requests --------------------------------------------------------------------------- */

/* Queues the request, or builds it at once in inline mode. False: declined. */
bool ag_builder_submit(struct ag_request *r)
{
    bool taken;
    if (ag_options.build == AG_BUILD_INLINE) {
        if (!ag_pause_enter())
            return false;
        taken = ag_waits_at_rest();
        if (taken) {
            if (ag_waits_rings_pass())
                ag_graphs_collect(UINT32_MAX);
            build(r, false);
            ag_request_free(r);
        }
        ag_pause_leave();
        return taken;
    }
    ag_pause_lock();
    taken = !ag_pause.paused && start();
    if (taken) {
        DL_APPEND(first, r);
        pthread_cond_signal(&ag_pause.work);
    }
    ag_pause_unlock();
    return taken;
}

/* ---- pausing ---------------------------------------------------------------------------- */

void ag_builder_pause(void)
{
    ag_pause_lock();
    ag_pause.paused++;
    /* An answer writes to a chunk of any stream. So before this thread goes on to free its own
     * stream's chunks, no other thread that pauses may be giving answers. */
    while (ag_pause.busy || answering)
        ag_mutex_wait(&ag_pause.idle, &ag_pause.mutex);
    struct ag_request *list = first;
    first = NULL;
    bool answers = answering = list != NULL;
    ag_pause_unlock();
    for (struct ag_request *next; list; list = next) {
        next = list->next;
        answer(list, NULL, true);
        ag_request_free(list);
    }
    if (!answers)
        return;
    ag_pause_lock();
    answering = false;
    pthread_cond_broadcast(&ag_pause.idle);
    ag_pause_unlock();
}

bool ag_builder_pause_at_rest(void)
{
    ag_pause_lock();
    while (ag_pause.busy || answering)
        ag_mutex_wait(&ag_pause.idle, &ag_pause.mutex);
    bool may = ag_pause_permits(); /* else others may be destroying what we ask about */
    ag_pause.paused += may;
    if (may)
        ag_pause_begin();
    ag_pause_unlock();
    if (!may)
        return false;
    bool rest = ag_waits_at_rest();
    ag_pause_leave();
    if (rest)
        ag_builder_pause();
    ag_pause_resume();
    return rest;
}

void ag_builder_stop(void)
{
    ag_pause_lock();
    stopping = true;
    bool join = running;
    running = false;
    pthread_cond_broadcast(&ag_pause.work);
    ag_pause_unlock();
    if (join)
        ag_thread_join(thread);
}
