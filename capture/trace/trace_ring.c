/*
 * trace_ring.c - brings events to the dump.
 *
 * Each thread has a ring of its own: one producer, one consumer, no lock. The writer's thread
 * looks every few milliseconds, and wakes early if a ring fills up. Definitions of names go
 * through one buffer under a lock. The writer first notes how far the rings are filled, then
 * writes the definitions, then the events up to there. So no event uses a name that the file has
 * not defined.
 */
#include "capture/trace/trace_ring.h"
#include "capture/system/clock.h"
#include "capture/system/lock.h"
#include "capture/system/thread.h"
#include "capture/trace/trace_define.h"
#include "capture/trace/trace_file.h"
#include "capture/trace/trace_site.h"
#include "policy/constants.h"
#include <stdlib.h>
#include <string.h>

enum {
    RING = 32768,    /* 32-byte events: 1 MiB, of which only used pages are touched */
    IN_CHUNK = 4096, /* most events in one chunk */
};

struct ring {
    /* the producer's */
    _Atomic uint32_t head __attribute__((aligned(64)));
    uint32_t known_tail;
    _Atomic uint64_t lost; /* events since the last that fitted */
    /* the writer's */
    _Atomic uint32_t tail __attribute__((aligned(64)));
    _Atomic uint32_t thread; /* 0: free */
    _Atomic bool ended;      /* the thread has ended */
    struct ring *next;
    struct ag_dump_event events[RING] __attribute__((aligned(64)));
};

static __thread struct ring *own __attribute__((tls_model("initial-exec")));
static _Atomic(struct ring *) rings;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards making rings */
static pthread_key_t key;
static bool have_key, running;
static pthread_t thread;
static _Atomic uint32_t bell; /* the writer sleeps on this futex */
static _Atomic bool stopping;

/* ---- the writer's side ------------------------------------------------------------------ */

static void write_definition(uint32_t type, const void *bytes, size_t size)
{
    if (!ag_dump_write(type, bytes, size, NULL, 0, false))
        ag_trace_give_up();
}

static void write_events(struct ring *r, uint32_t until)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    while (tail != until) {
        uint32_t n = until - tail, at = tail % RING;
        if (n > IN_CHUNK)
            n = IN_CHUNK;
        if (n > RING - at)
            n = RING - at;
        struct ag_dump_events head = {atomic_load_explicit(&r->thread, memory_order_relaxed), n};
        if (!ag_dump_write(AG_DUMP_EVENTS, &head, sizeof(head), &r->events[at],
                           n * sizeof(r->events[0]), false))
            ag_trace_give_up();
        tail += n;
        atomic_store_explicit(&r->tail, tail, memory_order_release);
    }
}

/* With its next event a thread reports how many it lost. This reports them for a thread that has no
 * next event. */
static void write_lost(struct ring *r)
{
    uint64_t lost = atomic_exchange_explicit(&r->lost, 0, memory_order_relaxed);
    struct ag_dump_events head = {atomic_load_explicit(&r->thread, memory_order_relaxed), 1};
    struct ag_dump_event event = {.time = ag_clock_ns(), .kind = AG_EVENT_LOST, .value = lost};
    if (lost && !ag_dump_write(AG_DUMP_EVENTS, &head, sizeof(head), &event, sizeof(event), false))
        ag_trace_give_up();
}

enum { MAX_RINGS = 1024 };

/* Looks at everything once. Returns whether there was anything. */
static bool look(void)
{
    static uint32_t until[MAX_RINGS];
    static bool ended[MAX_RINGS];
    size_t n = 0;
    bool any = false;
    struct ring *list = atomic_load_explicit(&rings, memory_order_acquire);
    for (struct ring *r = list; r && n < MAX_RINGS; r = r->next, n++) {
        ended[n] = atomic_load(&r->ended); /* read before the head: nothing comes after that */
        until[n] = atomic_load_explicit(&r->head, memory_order_acquire);
    }
    ag_trace_sites_define();
    ag_trace_definitions_take(write_definition);
    ag_dump_mark(); /* no thread's events end long before another's, even on a full disk */
    n = 0;
    for (struct ring *r = list; r && n < MAX_RINGS; r = r->next, n++) {
        any |= until[n] != atomic_load_explicit(&r->tail, memory_order_relaxed);
        write_events(r, until[n]);
        if (ended[n]) {
            write_lost(r);
            atomic_store(&r->ended, false);
            atomic_store(&r->thread, 0);
        }
    }
    ag_dump_mark();
    return any;
}

static void *writer(void *unused)
{
    unsigned int idle = 0;
    (void)unused;
    while (!atomic_load(&stopping)) {
        uint32_t heard = atomic_load(&bell);
        idle = look() ? 0 : idle + 1;
        struct timespec t = {0,
                             idle < AG_TRACE_IDLE_LOOKS ? AG_TRACE_LOOK_NS : AG_TRACE_IDLE_LOOK_NS};
        syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, heard, &t, NULL, 0);
    }
    return NULL;
}

static void ring_bell(void)
{
    atomic_fetch_add(&bell, 1);
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void ag_trace_drain(void)
{
    ag_mutex_lock(&mutex, AG_RANK_RINGS);
    bool join = running;
    running = false;
    atomic_store(&stopping, true);
    ag_mutex_unlock(&mutex);
    if (join) {
        ring_bell();
        pthread_join(thread, NULL);
    }
    look();
    for (struct ring *r = atomic_load(&rings); r; r = r->next)
        write_lost(r);
    ag_dump_mark();
}

/* ---- the producers' side ---------------------------------------------------------------- */

static void thread_ends(void *ring)
{
    struct ring *r = ring;
    own = NULL;
    atomic_store(&r->ended, true);
}

/* Under the mutex. */
static void start_writer(void)
{
    if (running || atomic_load(&stopping))
        return;
    running = ag_thread_start(&thread, "autograph-trace", writer);
    if (!running)
        ag_trace_give_up();
}

static struct ring *make_ring(void)
{
    ag_mutex_lock(&mutex, AG_RANK_RINGS);
    start_writer();
    if (!have_key)
        have_key = pthread_key_create(&key, thread_ends) == 0;
    struct ring *r = atomic_load(&rings);
    while (r && atomic_load(&r->thread))
        r = r->next;
    if (!r && (r = aligned_alloc(64, sizeof(*r)))) {
        memset(r, 0, offsetof(struct ring, events));
        r->next = atomic_load(&rings);
        atomic_store_explicit(&rings, r, memory_order_release);
    }
    if (r)
        atomic_store(&r->thread, (uint32_t)syscall(SYS_gettid));
    ag_mutex_unlock(&mutex);
    if (r && have_key)
        pthread_setspecific(key, r);
    own = r;
    return r;
}

static inline bool has_room(struct ring *r, uint32_t head, uint32_t n)
{
    if (__builtin_expect(head + n - r->known_tail <= RING, 1))
        return true;
    r->known_tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    return head + n - r->known_tail <= RING;
}

void ag_trace_push(const struct ag_dump_event *event)
{
    struct ring *r = own;
    if (__builtin_expect(!r, 0) && !(r = make_ring()))
        return;
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    bool lost = atomic_load_explicit(&r->lost, memory_order_relaxed) != 0;
    if (__builtin_expect(!has_room(r, head, lost ? 2 : 1), 0)) {
        atomic_fetch_add_explicit(&r->lost, 1, memory_order_relaxed);
        return;
    }
    if (__builtin_expect(lost, 0))
        r->events[head++ % RING] = (struct ag_dump_event){
            .time = event->time,
            .kind = AG_EVENT_LOST,
            .value = atomic_exchange_explicit(&r->lost, 0, memory_order_relaxed)};
    r->events[head++ % RING] = *event;
    atomic_store_explicit(&r->head, head, memory_order_release);
    if (__builtin_expect(head % (RING / 4) == 0, 0))
        ring_bell();
}
