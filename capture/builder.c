/*
 * builder.c - the thread that builds graphs: its requests, what they may cost, and pausing it. It
 * also destroys what has been dropped (budget.c).
 *
 * Requests carry copies of everything they need. While one is queued or being built its chunk is in
 * state BUILDING and the policy keeps it alive; a chunk that only gains a variant may go at any
 * time, which its `orphan` mark tells. Nothing is built while the program captures (prohibited
 * calls of ours could break its capture) or while the builder is paused.
 */
#include "capture/builder.h"
#include "capture/clock.h"
#include "capture/graph.h"
#include "capture/log.h"
#include "capture/op.h"
#include "capture/stats.h"
#include "capture/state.h"
#include "capture/thread.h"
#include "capture/trace.h"
#include "capture/twin.h"
#include "capture/watchdog.h"
#include "driver/own.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct ag_stream *stream; /* lives as long as the request, see ag_builder_pause() */
    struct ag_graphs *graphs;
    struct ag_chunk *chunk; /* of a first build, else NULL */
    uint8_t *bytes;
    uint64_t memory_epoch; /* then its addresses were good */
    uint64_t apart_ns; /* since the chunk's block was seen before; 0: a loop that has just begun */
    struct request *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER; /* something to do, or stop */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* a build has ended */
static struct request *first, **last = &first;
static bool running, busy, stopping;
static bool answering; /* a thread that pauses ends what was queued */
static unsigned int paused;
static unsigned int held; /* nothing new is begun */
static bool barred;       /* the thread sleeps though there is something to do: paused, or held */
static pthread_t thread;

enum {
    REST_NS = 1000000, /* between two graphs that are destroyed, where there are few */
    FEW = 32,
    CROWD = 256, /* so many go before anything else is built */
};

/* ---- building --------------------------------------------------------------------------- */

static void free_request(struct request *r)
{
    free(r->bytes);
    free(r);
}

/* Ends a request: the chunk or the graphs learn what became of it. */
static void answer(struct request *r, struct ag_variant *v, bool again)
{
    struct ag_graphs *g = r->graphs;
    if (v) {
        ag_budget_take(g);
        ag_count(AG_COUNT_BUILT);
        ag_count_by(AG_COUNT_BUILT_NODES, g->count);
    }
    if (r->chunk) {
        if (v) {
            g->variants[0] = v;
            g->num_variants = 1;
            r->chunk->user = g;
            ag_policy_built(r->chunk, true);
        } else {
            ag_graphs_destroy(g);
            if (again)
                ag_policy_not_built(r->chunk);
            else
                ag_policy_built(r->chunk, false);
        }
        return;
    }
    if (v)
        atomic_store_explicit(&g->incoming, v, memory_order_release);
    ag_graphs_answered(g);
}

static bool touches_memory(const struct ag_graphs *g)
{
    bool fills = ag_fill_kernel(g->context->handle) != NULL;
    for (uint32_t i = 0; i < g->count; i++) {
        enum ag_op_kind kind = g->ops[i].shape->kind;
        if (kind == AG_OP_COPY || (kind == AG_OP_MEMSET && !fills))
            return true;
    }
    return false;
}

/* The driver refuses a node that takes more shared memory than its function is allowed at the
 * moment. */
static bool over_limit(const struct ag_graphs *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (ag_shape_bad(g->ops[i].shape) & AG_SHAPE_OVER_LIMIT)
            return true;
    return false;
}

/* `evict` is false where a stream's lock is held (inline mode). */
static void build(struct request *r, bool evict)
{
    struct ag_graphs *g = r->graphs;
    uint64_t began = ag_clock_monotonic_ns(), took;
    struct ag_variant *v = NULL;
    bool again = false;
    bool room = ag_budget_room(g, evict, r->apart_ns);
    if (room) {
        bool entered = ag_context_enter(g->context->handle);
        CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        bool touches = touches_memory(g);
        again = over_limit(g) || (touches && !ag_memory_hold(r->memory_epoch));
        v = again ? NULL : ag_variant_build(g, r->bytes);
        if (touches && !again)
            ag_memory_release();
        again = again || (!v && over_limit(g));
        took = ag_clock_monotonic_ns() - began;
        ag_capture_mode(mode);
        ag_context_leave(entered);
    } else {
        ag_count(AG_COUNT_BUILD_OVER_BUDGET);
        took = ag_clock_monotonic_ns() - began;
    }
    ag_count_by(AG_COUNT_BUILD_NS, took);
    atomic_fetch_add_explicit(&r->stream->build_ns, took, memory_order_relaxed);
    ag_trace_build(g, v != NULL, !room, ag_clock_monotonic_ns() - began);
    ag_debug("build", "graph of %u ops %s", g->count, v ? "built" : room ? "failed" : "put off");
    answer(r, v, again);
}

static bool may_build(void)
{
    return !paused && !held && !atomic_load(&ag_state.captures);
}

/* At most so long for something to do. Under the mutex. */
static void wait_ns(uint32_t ns)
{
    ag_thread_wait(&work, &mutex, ns);
}

/*
 * Nothing is to be built. To destroy a graph takes 30 us, in which a launch of the program's waits
 * for the driver's locks (580, on an H100): so one by one, with rests in between, and ahead of a
 * build only where very many have come together. Not while paused: who pauses may be about to
 * destroy what the graphs hang on; nor while the GPU may be waiting for the program (waits.c).
 * Under the mutex.
 */
static void tidy(void)
{
    static uint64_t rests_until;
    uint32_t dropped = ag_graphs_dropped(), rest = REST_NS / (1 + dropped / FEW);
    if (!paused && !held && dropped && ag_clock_monotonic_ns() >= rests_until) {
        busy = true;
        ag_mutex_unlock(&mutex);
        if (ag_waits_at_rest())
            ag_graphs_collect(1);
        ag_mutex_lock(&mutex);
        busy = false;
        pthread_cond_broadcast(&idle);
        rests_until = ag_clock_monotonic_ns() + rest;
    }
    if (stopping || (first && may_build() && dropped < CROWD))
        return;
    if (!paused && ag_graphs_dropped()) {
        wait_ns(rest);
    } else {
        barred = first || ag_graphs_dropped();
        pthread_cond_wait(&work, &mutex);
        barred = false;
    }
}

static void *builder(void *unused)
{
    (void)unused;
    ag_probe_begins(); /* all that fails here is the library's affair */
    ag_mutex_lock(&mutex);
    while (!stopping) {
        if (first && may_build() && ag_waits_pending()) {
            busy = true; /* who pauses may be about to destroy what is asked for */
            ag_mutex_unlock(&mutex);
            bool rest = ag_waits_at_rest();
            ag_mutex_lock(&mutex);
            busy = false;
            pthread_cond_broadcast(&idle);
            if (!rest)
                wait_ns(REST_NS);
            continue;
        }
        struct request *r = may_build() && ag_graphs_dropped() < CROWD ? first : NULL;
        if (!r) {
            tidy();
            continue;
        }
        first = r->next;
        if (!first)
            last = &first;
        busy = true;
        ag_mutex_unlock(&mutex);
        build(r, true);
        free_request(r);
        ag_mutex_lock(&mutex);
        busy = false;
        pthread_cond_broadcast(&idle);
    }
    ag_mutex_unlock(&mutex);
    return NULL;
}

/* Under the mutex. */
static bool start(void)
{
    if (running || stopping)
        return running;
    running = ag_thread_start(&thread, "autograph-build", builder);
    if (!running)
        ag_warn("build", "no builder thread could be started: nothing is replayed");
    return running;
}

/* ---- in the program's thread ------------------------------------------------------------- */

/* False: something is under way, or must not begin. */
static bool enter(void)
{
    ag_mutex_lock(&mutex);
    bool entered = may_build() && !busy;
    busy |= entered;
    ag_mutex_unlock(&mutex);
    return entered;
}

static void leave(void)
{
    ag_mutex_lock(&mutex);
    busy = false;
    pthread_cond_broadcast(&idle);
    ag_mutex_unlock(&mutex);
}

void ag_builder_prepare(const struct ag_stream *s)
{
    CUcontext ctx = s->context->handle;
    if (atomic_load(&ag_state.observe_only) || ag_fill_kernel_tried(ctx) || !enter())
        return;
    if (ag_waits_at_rest()) {
        bool entered = ag_context_enter(ctx);
        /* another thread may begin a capture now */
        CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        ag_fill_kernel_load(ctx);
        ag_capture_mode(mode);
        ag_context_leave(entered);
    }
    leave();
}

/* ---- requests --------------------------------------------------------------------------- */

/* Queues, or builds at once in inline mode. False: declined. */
static bool submit(struct request *r)
{
    bool taken;
    if (ag_options.build == AG_BUILD_INLINE) {
        if (!enter())
            return false;
        taken = ag_waits_at_rest();
        if (taken) {
            ag_graphs_collect(UINT32_MAX);
            build(r, false);
            free_request(r);
        }
        leave();
        return taken;
    }
    ag_mutex_lock(&mutex);
    taken = !paused && start();
    if (taken) {
        *last = r;
        last = &r->next;
        pthread_cond_signal(&work);
    }
    ag_mutex_unlock(&mutex);
    return taken;
}

static struct request *make_request(struct ag_stream *s, struct ag_graphs *g,
                                    struct ag_chunk *chunk, const uint8_t *bytes)
{
    struct request *r = calloc(1, sizeof(*r));
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

/*
 * Building pays for itself or stops. While a graph is instantiated the program's own launches wait
 * for the driver's locks (measured: a decode loop that kept building lost 10 %), so what building
 * takes is held against what replaying has gained. In debt, only what has been seen often is built.
 */
enum {
    ALLOWANCE_NS = 20000000, /* to begin with */
    GAIN_SHARE = 4,          /* a quarter of what is gained may be spent */
    NS_A_VISIT = 4000000,
    FIRST_PRICE = 3,
    HIGHEST_PRICE = 64,
    FIRST_LOOK = 32,   /* launches until the cycle of a loop's arguments is looked at (cycle.c) */
    LONGEST_DELAY = 8, /* visits until it is looked again: the price may have fallen */
};

static uint32_t sightings_needed(struct ag_stream *s)
{
    if (!ag_options.gate)
        return 0;
    int64_t spent = (int64_t)atomic_load_explicit(&s->build_ns, memory_order_relaxed);
    int64_t debt = spent - s->gained_ns / GAIN_SHARE - ALLOWANCE_NS;
    if (debt <= 0)
        return 0;
    int64_t price = FIRST_PRICE + debt / NS_A_VISIT;
    return price < HIGHEST_PRICE ? (uint32_t)price : HIGHEST_PRICE;
}

void ag_builder_request(struct ag_stream *s, struct ag_chunk *chunk)
{
    ag_builder_prepare(s);
    if (s->num_staged > AG_MOST_NODES) { /* no plan has one */
        ag_policy_built(chunk, false);
        return;
    }
    if (!ag_watchdog_is_ready()) {
        ag_count(AG_COUNT_NO_WATCHDOG);
        ag_policy_put_off(chunk, LONGEST_DELAY);
        return;
    }
    enum ag_twin twin = atomic_load_explicit(&ag_state.observe_only, memory_order_relaxed)
                            ? AG_TWIN_NONE
                            : ag_twin_find(s, chunk);
    if (twin != AG_TWIN_NONE) {
        if (twin == AG_TWIN_COMING)
            ag_policy_not_built(chunk);
        return;
    }
    /* graphs that went before they paid count as often as they are built anew */
    uint32_t seen = chunk->block->visits - chunk->block->dropped_at, needed = sightings_needed(s);
    if (seen < needed) {
        ag_count(AG_COUNT_BUILD_TOO_DEAR);
        ag_policy_put_off(chunk, needed - seen < LONGEST_DELAY ? needed - seen : LONGEST_DELAY);
        return;
    }
    bool wanted = !atomic_load_explicit(&ag_state.observe_only, memory_order_relaxed);
    struct ag_graphs *g = wanted ? calloc(1, sizeof(*g)) : NULL;
    struct request *r = NULL;
    uint64_t now = ag_clock_ns();
    if (g) {
        g->last_used_ns = now;
        g->look_at = FIRST_LOOK;
        g->chunks = 1;
        g->context = s->context;
        g->priority = s->priority;
        g->count = s->num_staged;
        g->num_bytes = s->num_bytes;
        g->ops = malloc(s->num_staged * sizeof(*g->ops));
        if (g->ops) {
            memcpy(g->ops, s->staged, s->num_staged * sizeof(*g->ops));
            ag_trace_chunk(s, g, chunk);
            r = make_request(s, g, chunk, s->bytes);
            if (r)
                r->apart_ns = chunk->block->seen_ns ? now - chunk->block->seen_ns : 0;
        }
    }
    if (r && submit(r))
        return;
    if (r)
        free_request(r);
    if (g)
        ag_graphs_destroy(g);
    ag_policy_not_built(chunk);
}

void ag_builder_request_variant(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes)
{
    if (sightings_needed(s)) {
        ag_count(AG_COUNT_BUILD_TOO_DEAR);
        return;
    }
    struct request *r = make_request(s, g, NULL, bytes);
    if (!r)
        return;
    ag_graphs_requested(g);
    if (submit(r))
        return;
    free_request(r);
    ag_graphs_answered(g);
}

/* ---- pausing ---------------------------------------------------------------------------- */

void ag_builder_wake(void)
{
    ag_mutex_lock(&mutex);
    pthread_cond_signal(&work);
    ag_mutex_unlock(&mutex);
}

void ag_builder_pause(void)
{
    ag_mutex_lock(&mutex);
    paused++;
    /* An answer writes to a chunk of any stream: none may be under way in another thread that
     * pauses when this one goes on to free its own stream's chunks. */
    while (busy || answering)
        pthread_cond_wait(&idle, &mutex);
    struct request *list = first;
    first = NULL;
    last = &first;
    bool answers = answering = list != NULL;
    ag_mutex_unlock(&mutex);
    while (list) {
        struct request *next = list->next;
        answer(list, NULL, true);
        free_request(list);
        list = next;
    }
    if (!answers)
        return;
    ag_mutex_lock(&mutex);
    answering = false;
    pthread_cond_broadcast(&idle);
    ag_mutex_unlock(&mutex);
}

bool ag_builder_pause_at_rest(void)
{
    ag_mutex_lock(&mutex);
    while (busy || answering)
        pthread_cond_wait(&idle, &mutex);
    bool may = may_build(); /* else others may be destroying what is asked for */
    paused += may;
    busy = may;
    ag_mutex_unlock(&mutex);
    if (!may)
        return false;
    bool rest = ag_waits_at_rest();
    leave();
    if (rest)
        ag_builder_pause();
    ag_builder_resume();
    return rest;
}

void ag_builder_hold(void)
{
    ag_mutex_lock(&mutex);
    held++;
    while (busy)
        pthread_cond_wait(&idle, &mutex);
    ag_mutex_unlock(&mutex);
}

/* After each host function, among others: to wake a thread that has nothing to do is a system call
 * for nothing, and takes 8 us (measured on a virtual machine). */
void ag_builder_release(void)
{
    ag_mutex_lock(&mutex);
    held--;
    if (barred)
        pthread_cond_signal(&work);
    ag_mutex_unlock(&mutex);
}

void ag_builder_resume(void)
{
    ag_mutex_lock(&mutex);
    paused--;
    if (barred)
        pthread_cond_signal(&work);
    ag_mutex_unlock(&mutex);
}

void ag_builder_stop(void)
{
    ag_mutex_lock(&mutex);
    stopping = true;
    bool join = running;
    running = false;
    pthread_cond_broadcast(&work);
    ag_mutex_unlock(&mutex);
    if (join)
        ag_thread_join(thread);
}
