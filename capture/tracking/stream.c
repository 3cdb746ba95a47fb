/* stream.c - streams come, are found, parked and go. */
#include "capture/tracking/per_thread.h"
#include "capture/settings/log.h"
#include "capture/tracking/count.h"
#include "capture/settings/options.h"
#include <stdlib.h>
#include <utlist.h>

struct ag_stream_table ag_stream_table;
static struct ag_stream *buckets[4096];
static _Atomic(struct ag_context *) contexts; /* newest first; never removed */
static struct ag_stream *left;                /* streams that are gone, linked by `chained` */
static struct ag_stream *parked;              /* those parked first come first, in the same way */
static uint64_t last_made;
static const struct ag_policy_hooks *policy_hooks;
static const struct ag_engine_world *engine_world;
static void (*stream_comes)(const struct ag_stream_kind *);
static void (*stream_made)(struct ag_stream *);

/* The key that finds a stream: its handle, or for default streams their context. The lowest bits
 * distinguish them. Per-thread default streams of one context have the same key. */
static inline uintptr_t key_of(CUstream handle, CUcontext ctx)
{
    return !ctx ? (uintptr_t)handle : (uintptr_t)ctx | (handle == CU_STREAM_LEGACY ? 1 : 3);
}

static inline uint32_t hash(uintptr_t key)
{
    return (uint32_t)((uint64_t)key * 0x9E3779B97F4A7C15ull >> 32);
}

static inline uint32_t place_of(uintptr_t key)
{
    return hash(key) % AG_FOUND_STREAMS;
}

uintptr_t ag_number_thread(void)
{
    static _Atomic uint32_t last;
    clockid_t clock = 0;
    pthread_getcpuclockid(pthread_self(), &clock);
    return ag_thread.number = (uintptr_t)(atomic_fetch_add(&last, 1) + 1) << 32 | (uint32_t)clock;
}

CUcontext ag_core_context_of(CUstream stream, bool ptsz)
{
    CUcontext ctx = NULL;
    CUresult r =
        ptsz ? AG_REAL(cuStreamGetCtx_ptsz)(stream, &ctx) : AG_REAL(cuStreamGetCtx)(stream, &ctx);
    return r == CUDA_SUCCESS ? ctx : NULL;
}

bool ag_stream_is_per_thread(CUstream handle, bool ptsz)
{
    return handle == CU_STREAM_PER_THREAD || (!handle && ptsz);
}

/* Under the lock. */
static struct ag_stream **bucket(uintptr_t key)
{
    return &buckets[hash(key) % (sizeof(buckets) / sizeof(buckets[0]))];
}

/* The thread that a stream of that handle belongs to, or 0. */
static inline uintptr_t thread_of(CUstream handle)
{
    return handle == CU_STREAM_PER_THREAD ? ag_this_thread() : 0;
}

/* Under the lock. */
static struct ag_stream *look_up(uintptr_t key, uintptr_t of)
{
    struct ag_stream *s = *bucket(key);
    while (s && !(s->key == key && s->thread == of))
        s = s->chained;
    return s;
}

/* Nobody finds it any more. Under the lock. */
static void unchain(struct ag_stream *s)
{
    struct ag_stream **first = bucket(s->key);
    if (*first)
        LL_DELETE2(*first, s, chained);
}

struct ag_context *ag_context_find(CUcontext handle)
{
    struct ag_context *c = atomic_load(&contexts);
    while (c && c->handle != handle)
        c = c->next;
    return c;
}

/* Under the lock. */
static struct ag_context *context_get(CUcontext handle)
{
    struct ag_context *c = ag_context_find(handle);
    if (c)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->handle = handle;
    c->next = atomic_load(&contexts);
    c->bit = c->next ? c->next->bit << 1 : 1;
    atomic_store(&contexts, c);
    atomic_fetch_add(&ag_stream_generation, 1); /* NULL may mean another legacy stream now */
    return c;
}

struct ag_context *ag_context_get(CUcontext handle)
{
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    struct ag_context *c = context_get(handle);
    ag_unlock(&ag_stream_table.lock);
    return c;
}

struct ag_context *ag_contexts(void)
{
    return atomic_load(&contexts);
}

/* Memory for a stream, all 0 except the lock. Reuses the memory of a stream that is gone, if there
 * is any. A thread that found the old stream earlier may be about to take its lock, or hold it.
 * Under the lock. */
static struct ag_stream *allocate(struct ag_context *context, bool legacy, bool per_thread)
{
    struct ag_stream **from = legacy ? &context->old_legacy : &left, *s;
    while (per_thread && *from && (*from)->ring) /* the submitter could launch nothing there */
        from = &(*from)->chained;
    s = *from;
    if (!s) {
        s = aligned_alloc(_Alignof(struct ag_stream), sizeof(*s));
        return s ? memset(s, 0, sizeof(*s)) : NULL;
    }
    ag_lock(&s->lock, AG_RANK_IDLE_STREAM);
    *from = s->chained;
    size_t before = offsetof(struct ag_stream, lock), behind = before + sizeof(s->lock);
    struct ag_ring *ring = s->ring;
    memset(s, 0, before);
    memset((char *)s + behind, 0, sizeof(*s) - behind);
    s->ring = ring;
    ag_unlock(&s->lock);
    return s;
}

void ag_streams_start(const struct ag_policy_hooks *hooks, const struct ag_engine_world *world,
                      void (*comes)(const struct ag_stream_kind *kind),
                      void (*made)(struct ag_stream *stream))
{
    policy_hooks = hooks;
    engine_world = world;
    stream_comes = comes;
    stream_made = made;
}

static int open_engine(struct ag_engine *engine)
{
    struct ag_policy_config config;
    ag_policy_defaults(&config);
    config.min_repeats = ag_options.min_repeats;
    config.min_ops = ag_options.min_ops;
    config.max_chunk = ag_options.max_chunk;
    config.fixed_chunk = ag_options.chunk;
    config.profit = ag_options.profit == 1;
    config.hold_most_ns = ag_options.max_defer_us * AG_PLAN_HELD_THOUSANDTHS;
    return ag_engine_open(engine, &config, policy_hooks, engine_world);
}

/* Others find it from now on. Under the table's lock, as the next functions. */
static void chain(struct ag_stream *s)
{
    LL_PREPEND2(*bucket(s->key), s, chained);
}

/* Going by the order in which they were made, streams that a program makes by turns mostly meet
 * their own again, and none learns what another knows. A context that is ending has none, as
 * nothing may be held back there. */
struct ag_stream *ag_stream_parked_behind(uint64_t made, const struct ag_stream_kind *kind)
{
    struct ag_stream *found = NULL;
    if (kind->legacy || atomic_load(&kind->context->ending))
        return NULL;
    for (struct ag_stream *s = parked; s; s = s->chained)
        if (s->made > made && (!found || s->made < found->made) && s->context == kind->context &&
            s->blocking == kind->blocking && s->priority == kind->priority &&
            !(kind->thread && s->ring))
            found = s;
    return found;
}

/* Under the table's lock. */
static void leave_parked(struct ag_stream *s)
{
    s->parked = false;
    LL_DELETE2(parked, s, chained);
    ag_stream_table.parked--;
}

/* The parked stream with which a new one of this kind goes on: none that still works. */
static struct ag_stream *take_parked(const struct ag_stream_kind *kind)
{
    struct ag_stream *s = ag_stream_parked_behind(0, kind);
    while (s && atomic_load(&s->behind_parked))
        s = ag_stream_parked_behind(s->made, kind);
    if (s)
        leave_parked(s);
    return s;
}

/* The stream gets its name, and is new. Under its own lock, too. */
static void name(struct ag_stream *s, const struct ag_stream_kind *kind)
{
    s->handle = kind->handle;
    s->key = kind->key;
    s->thread = kind->thread;
    s->serial = ++ag_stream_table.last_serial;
}

static void go_on(struct ag_stream *s, const struct ag_stream_kind *kind)
{
    ag_lock(&s->lock, AG_RANK_IDLE_STREAM);
    name(s, kind);
    s->gone = false;
    atomic_store(&s->not_understood, 0); /* of the stream before */
    ag_engine_reopen(&s->engine);
    ag_unlock(&s->lock);
    chain(s);
}

static struct ag_stream *open_anew(const struct ag_stream_kind *kind,
                                   const struct ag_engine *engine)
{
    struct ag_stream *s = allocate(kind->context, kind->legacy, kind->thread);
    if (!s)
        return NULL;
    ag_lock(&s->lock, AG_RANK_IDLE_STREAM);
    name(s, kind);
    s->legacy = kind->legacy;
    s->in_order = ag_streams_are_in_order();
    s->blocking = kind->blocking;
    s->priority = kind->priority;
    s->engine = *engine;
    s->context = kind->context;
    s->made = ++last_made;
    ag_unlock(&s->lock);
    atomic_store(&s->references, 1);
    DL_PREPEND(ag_stream_table.newest, s);
    chain(s);
    ag_stream_table.count++;
    if (s->legacy) {
        s->context->legacy = s;
        atomic_fetch_add(&ag_stream_generation, 1); /* blocking streams are ordered with it */
    }
    return s;
}

bool ag_streams_are_in_order(void)
{
    enum { NOT_ASKED, NO, YES };
    static _Atomic int answer;
    if (atomic_load_explicit(&answer, memory_order_relaxed) == NOT_ASKED) {
        const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
        atomic_store(&answer, value && atoi(value) == 1 ? YES : NO);
    }
    return atomic_load_explicit(&answer, memory_order_relaxed) == YES;
}

static struct ag_stream *make(CUstream handle, CUcontext ctx)
{
    unsigned int flags = 0;
    int priority = 0;
    bool legacy = handle == CU_STREAM_LEGACY, per_thread = handle == CU_STREAM_PER_THREAD;
    if (!legacy && !per_thread) {
        ag_probe_begins(); /* there may be no such stream */
        bool known = AG_REAL(cuStreamGetFlags)(handle, &flags) == CUDA_SUCCESS &&
                     AG_REAL(cuStreamGetCtx)(handle, &ctx) == CUDA_SUCCESS;
        if (known)
            AG_REAL(cuStreamGetPriority)(handle, &priority);
        ag_probe_ends();
        if (!known)
            return NULL;
    }
    if (!ctx)
        return NULL;
    struct ag_engine engine;
    if (open_engine(&engine))
        return NULL;

    struct ag_stream_kind kind = {
        .context = ag_context_find(ctx),
        .handle = per_thread ? ag_per_thread_name() : handle,
        .key = key_of(handle, legacy || per_thread ? ctx : NULL),
        .thread = thread_of(handle),
        .legacy = legacy,
        .blocking = !legacy && (ag_streams_are_in_order() || !(flags & CU_STREAM_NON_BLOCKING)),
        .priority = priority};
    stream_comes(&kind);
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    struct ag_stream *other = look_up(kind.key, kind.thread), *s = NULL;
    kind.context = other ? NULL : context_get(ctx);
    struct ag_stream *before = kind.context ? take_parked(&kind) : NULL;
    if (before)
        go_on(s = before, &kind);
    else if (kind.context)
        s = open_anew(&kind, &engine);
    ag_unlock(&ag_stream_table.lock);
    if (before || !s)
        ag_engine_free(&engine);
    if (!s)
        return other;
    if (before)
        ag_count(AG_COUNT_UNPARKED);
    if (per_thread)
        ag_per_thread_begins();
    stream_made(s);
    ag_debug("start", "stream %p of context %p: %s, priority %d%s", (void *)handle, (void *)ctx,
             legacy        ? "legacy default"
             : per_thread  ? "per-thread default"
             : s->blocking ? "blocking"
                           : "non-blocking",
             priority, before ? ", goes on with what another one has learnt" : "");
    return s;
}

/*
 * The stream of this key, or NULL. Before a call that ends a context has returned, the driver may
 * give the handle of a stream that ended with it to a new stream of another context. The table
 * still has the old one then. So while a stream's context may be ending, the driver is asked whose
 * the handle is. `*lasts` is false then: the answer holds for this call alone.
 */
static struct ag_stream *known(uintptr_t key, CUstream handle, bool *lasts)
{
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    struct ag_stream *s = look_up(key, thread_of(handle));
    struct ag_context *context = s ? s->context : NULL;
    uint64_t serial = s ? s->serial : 0;
    *lasts = !s || !atomic_load(&context->ending);
    ag_unlock(&ag_stream_table.lock);
    CUcontext ctx;
    if (*lasts || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD ||
        AG_REAL(cuStreamGetCtx)(handle, &ctx) != CUDA_SUCCESS || ctx == context->handle)
        return s;
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    s = look_up(key, 0);
    if (s && s->serial == serial) {
        unchain(s);
        s = NULL;
    }
    ag_unlock(&ag_stream_table.lock);
    return s;
}

static struct ag_stream *get_uncached(CUstream handle, CUcontext ctx, bool create)
{
    bool lasts;
    uintptr_t key = key_of(handle, ctx);
    uint64_t now = atomic_load_explicit(&ag_stream_generation, memory_order_acquire);
    struct ag_stream *s = known(key, handle, &lasts);
    if (!s && create) {
        s = make(handle, ctx);
        lasts = s && !atomic_load(&s->context->ending);
    }
    if (!s || !lasts)
        return s;
    ag_thread_knows_streams_of(now);
    uint32_t place = place_of(key);
    if (ag_thread.found[place].key && !ag_thread.found[place ^ 1].key)
        place ^= 1;
    ag_thread.found[place] = ag_thread.last = (struct ag_found_stream){key, s};
    return s;
}

/* Not the one that the thread used last. */
static __attribute__((noinline)) struct ag_stream *get_another(CUstream handle, CUcontext ctx,
                                                               bool create, bool knows)
{
    uintptr_t key = key_of(handle, ctx);
    uint32_t place = place_of(key);
    for (uint32_t i = 0; knows && i < 2; i++)
        if (ag_thread.found[place ^ i].key == key)
            return (ag_thread.last = ag_thread.found[place ^ i]).stream;
    return get_uncached(handle, ctx, create);
}

static inline __attribute__((always_inline)) struct ag_stream *get(CUstream handle, bool ptsz,
                                                                   bool create)
{
    CUcontext ctx = NULL;
    bool per_thread = ag_stream_is_per_thread(handle, ptsz);
    if (per_thread || !handle || handle == CU_STREAM_LEGACY) {
        handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
        ctx = ag_context_current();
        if (!ctx || (per_thread && ag_thread.in_host_function))
            return NULL;
    }
    uintptr_t key = key_of(handle, ctx);
    uint64_t now = atomic_load_explicit(&ag_stream_generation, memory_order_acquire);
    bool knows = ag_thread.generation == now;
    if (__builtin_expect(knows && ag_thread.last.key == key, 1))
        return ag_thread.last.stream;
    return get_another(handle, ctx, create, knows);
}

__attribute__((hot)) struct ag_stream *ag_stream_get(CUstream handle, bool ptsz)
{
    return get(handle, ptsz, true);
}

struct ag_stream *ag_stream_find(CUstream handle, bool ptsz)
{
    return get(handle, ptsz, false);
}

/* Drops a reference. When a stream that has ended loses its last one, frees what it holds, and
 * keeps its memory: nobody can find it any more, but threads that found it earlier may still use
 * it. */
void ag_stream_release(struct ag_stream *s)
{
    if (atomic_fetch_sub(&s->references, 1) != 1)
        return;
    ag_lock(&s->lock, AG_RANK_IDLE_STREAM);
    ag_engine_free(&s->engine);
    free(s->twins);
    free(s->device_memory.list);
    free(s->pinned_memory.list);
    s->twins = NULL;
    s->device_memory = s->pinned_memory = (struct ag_ranges){.n = 0};
    memset(&s->ahead, 0, sizeof(s->ahead)); /* its events have been destroyed */
    ag_unlock(&s->lock);
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    struct ag_stream **list = s->legacy ? &s->context->old_legacy : &left;
    LL_PREPEND2(*list, s, chained);
    ag_unlock(&ag_stream_table.lock);
}

/* What the stream's engine knows stays, and what was measured of its ops. */
struct ag_stream *ag_stream_park(struct ag_stream *s)
{
    if (ag_stream_is_own(s))
        ag_thread.owned--;
    atomic_store(&s->owner, 0);
    atomic_store(&s->shared, false);
    atomic_store(&s->asked_for, false);
    atomic_store(&s->suitor, NULL);
    s->suits = 0;
    s->forked = false;
    s->taken_at = 0;
    s->quiet = 0;
    s->asked_at = s->asked_ops = 0;
    s->handed = s->handed_op = false;
    s->gone = true;
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    unchain(s);
    atomic_fetch_add(&ag_stream_generation, 1);
    s->handle = NULL;
    s->thread = 0;
    s->parked = true;
    LL_APPEND2(parked, s, chained);
    struct ag_stream *old = ++ag_stream_table.parked > AG_MOST_PARKED ? parked : NULL;
    if (old) {
        leave_parked(old);
        atomic_fetch_add(&old->references, 1);
    }
    ag_unlock(&ag_stream_table.lock);
    return old;
}

/* One that is not in the table any more stays out: its memory may be reused. */
void ag_stream_list(struct ag_stream *s)
{
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    if (s->prev && !atomic_load(&s->listed)) {
        DL_PREPEND2(ag_stream_table.busy, s, busy_prev, busy_next);
        ag_stream_table.num_busy++;
        atomic_store(&s->listed, true);
    }
    ag_unlock(&ag_stream_table.lock);
}

void ag_stream_unlist(struct ag_stream *s)
{
    DL_DELETE2(ag_stream_table.busy, s, busy_prev, busy_next);
    ag_stream_table.num_busy--;
}

bool ag_stream_invalidate(struct ag_stream *s)
{
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    bool listed = s->prev; /* the first one has the last as `prev` */
    if (listed) {
        if (ag_stream_is_own(s))
            ag_thread.owned--;
        DL_DELETE(ag_stream_table.newest, s);
        s->next = s->prev = NULL;
        if (s->context->legacy == s)
            s->context->legacy = NULL;
        unchain(s);
        if (atomic_exchange(&s->listed, false))
            ag_stream_unlist(s);
        ag_stream_table.count--;
        if (s->parked)
            leave_parked(s);
        atomic_fetch_add(&ag_stream_generation, 1);
    }
    ag_unlock(&ag_stream_table.lock);
    return listed;
}

bool ag_stream_lock_if_prompt(struct ag_stream *s)
{
    return ag_lock_unless(&s->lock, AG_RANK_STREAM, &s->in_driver);
}

__attribute__((hot)) struct ag_visit ag_driver_enter(struct ag_stream *s)
{
    struct ag_visit visit;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &visit.cancel);
    atomic_store_explicit(&s->in_driver, true, memory_order_release);
    visit.entered = ag_context_enter(s->context->handle);
    return visit;
}

__attribute__((hot)) void ag_driver_leave(struct ag_stream *s, struct ag_visit visit)
{
    if (__builtin_expect(s->strays, 0))
        ag_per_thread_strayed(s);
    ag_context_leave(visit.entered);
    atomic_store_explicit(&s->in_driver, false, memory_order_release);
    pthread_setcancelstate(visit.cancel, NULL);
}
