/* submitter.c - see submitter.h. */
#include "capture/core/submitter.h"
#include "capture/core/wanted.h"
#include "capture/core/work.h"
#include "capture/graphs/ahead.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/core/deferral.h"
#include "capture/core/measure.h"
#include "capture/core/op.h"
#include "capture/settings/options.h"
#include "capture/system/thread.h"
#include "capture/tracking/waits.h"
#include "capture/trace/trace.h"
#include "capture/core/watchdog.h"
#include "policy/submit.h"
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { RINGS = 64 };
/* What each chunk that is handed over reads lies in one cache line. */
static struct {
    _Alignas(64) _Atomic uint32_t state; /* enum ag_submitter_state */
    _Atomic uint32_t num_rings;
    _Atomic bool stopping;
    _Atomic bool last_comes; /* behind the next chunk the program may wait */
} shared;
static _Atomic(struct ag_ring *) rings[RINGS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of starting */
static pthread_t thread;
static __thread bool is_submitter __attribute__((tls_model("initial-exec")));
static _Atomic clockid_t processor_time; /* of the thread; 0: it does not run */

/* The ring that the thread launches chunks of, and since when. */
static struct {
    char apart[64]; /* from what the program's threads read */
    _Atomic(struct ag_ring *) ring;
    _Atomic uint64_t since_ns;
    char apart2[64];
} at;

/* Behind a submitter that waits for room in a queue, or for a processor that a real-time thread
 * has, looking alone would take a processor for long. */
static void wait_briefly(unsigned int looks)
{
    if (looks > AG_SUBMIT_PATIENCE)
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
    else if (looks % AG_SUBMIT_YIELDS)
        ag_relax();
    else
        sched_yield();
}

/* ---- the owner's side --------------------------------------------------------------------- */

static void expect_last(bool comes)
{
    if (atomic_load_explicit(&shared.last_comes, memory_order_relaxed) != comes)
        atomic_store(&shared.last_comes, comes);
}

/* The ring is at rest: what the driver had to say is told by the next call that may tell it. */
static void settled(struct ag_stream *s)
{
    expect_last(false);
    int error = atomic_exchange(&s->handed_error, CUDA_SUCCESS);
    uint32_t eagerly = atomic_exchange(&s->handed_eagerly, 0);
    ag_engine_not_replayed(&s->engine, eagerly); /* as it seemed when they were handed over */
    if (error != CUDA_SUCCESS && s->pending == CUDA_SUCCESS)
        s->pending = (CUresult)error; /* the stream is open: its segment does not end before */
    s->ring->active = false;
    ag_deferring_settled(s);
}

/* To a handler of the program's that interrupts the driver here and ends the process, the role is a
 * lock that its own thread holds. */
static bool works(struct ag_ring *ring)
{
    if (!ag_ring_take_role(ring))
        return false;
    ag_rank_take(ring, AG_RANK_ROLE);
    ag_thread.locks_held++;
    ag_work_in(ring, is_submitter);
    ag_thread.locks_held--;
    ag_rank_give(ring);
    ag_ring_give_role(ring);
    return true;
}

/* Since `began` the program's thread has done what was handed over, or waited for it. `chunks`:
 * graphs were among it. */
static void lose_time(struct ag_stream *s, uint64_t began, bool chunks)
{
    int64_t lost = (int64_t)(ag_clock_ns() - began);
    int64_t ns = atomic_load_explicit(&s->graph_ns[1], memory_order_relaxed);
    int64_t worth = atomic_load_explicit(&s->worth_ns, memory_order_relaxed);
    s->doubt.gain_ns -= lost;
    atomic_store_explicit(&s->graph_ns[1], ns + lost, memory_order_relaxed);
    if (chunks)
        atomic_store_explicit(&s->worth_ns, worth - lost, memory_order_relaxed);
}

/* Whether all that was in the ring has been submitted: false if another thread has the role, and
 * this one waits for nobody. */
static bool settle(struct ag_stream *s, bool waits)
{
    struct ag_ring *ring = s->ring;
    bool done = ag_ring_is_at_rest(ring);
    if (!done) {
        uint64_t began = ag_clock_ns();
        bool chunks = ag_ring_has_chunks(ring);
        struct ag_visit visit = ag_driver_enter(s);
        done = works(ring);
        for (unsigned int looks = 1; waits && !ag_ring_is_at_rest(ring); looks++)
            if (!works(ring))
                wait_briefly(looks);
        ag_driver_leave(s, visit);
        lose_time(s, began, chunks);
    }
    if (done || waits)
        settled(s);
    return done || waits;
}

void ag_submitter_settle_ring(struct ag_stream *s)
{
    settle(s, true);
}

bool ag_submitter_settle_if_prompt(struct ag_stream *s)
{
    return !s->ring || !s->ring->active || settle(s, false);
}

static __attribute__((cold, noinline)) void wake(void)
{
    uint32_t was = atomic_load(&shared.state);
    if ((was == AG_SUBMITTER_ASLEEP || was == AG_SUBMITTER_NAPS) &&
        atomic_compare_exchange_strong(&shared.state, &was, AG_SUBMITTER_AWAKE))
        syscall(SYS_futex, &shared.state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *run(void *unused);

/* Where no thread can be started, it is tried again much later: a try takes system calls. */
static __attribute__((cold, noinline)) bool start(void)
{
    static _Atomic uint32_t left;
    uint32_t n = atomic_load(&left);
    if (n) {
        atomic_store(&left, n - 1);
        return false;
    }
    if (!ag_watchdog_is_ready()) { /* nobody else would submit what the thread does not */
        atomic_store(&left, AG_THREAD_RETRY);
        return false;
    }
    ag_mutex_lock(&mutex, AG_RANK_SUBMITTER);
    if (atomic_load(&shared.state) == AG_SUBMITTER_ABSENT && !atomic_load(&shared.stopping)) {
        atomic_store(&shared.state, AG_SUBMITTER_AWAKE);
        if (!ag_thread_start(&thread, "autograph-send", run)) {
            atomic_store(&shared.state, AG_SUBMITTER_ABSENT);
            atomic_store(&left, AG_THREAD_RETRY);
        }
    }
    ag_mutex_unlock(&mutex);
    return atomic_load(&shared.state) != AG_SUBMITTER_ABSENT;
}

/* Gives the stream a ring, which the thread looks at. */
static __attribute__((cold, noinline)) bool gets_ring(struct ag_stream *s)
{
    /* only its own thread can put anything into a per-thread default stream */
    if (s->thread || atomic_load_explicit(&shared.num_rings, memory_order_relaxed) == RINGS)
        return false;
    struct ag_ring *ring = aligned_alloc(_Alignof(struct ag_ring), sizeof(*ring));
    if (!ring)
        return false;
    memset(ring, 0, sizeof(*ring));
    ring->stream = s;
    ag_mutex_lock(&mutex, AG_RANK_SUBMITTER);
    uint32_t n = atomic_load(&shared.num_rings);
    bool fits = n < RINGS;
    if (fits) {
        atomic_store(&rings[n], ring);
        atomic_store(&shared.num_rings, n + 1);
        atomic_store(&ag_rings_are_used, true);
        s->ring = ring;
    }
    ag_mutex_unlock(&mutex);
    if (!fits)
        free(ring);
    return fits;
}

/* Call it only if there is another: `at` is in a cache line that the thread writes. */
static bool is_stuck_at_another(const struct ag_ring *ring)
{
    const struct ag_ring *other = atomic_load_explicit(&at.ring, memory_order_relaxed);
    return other && other != ring &&
           ag_submit_is_stuck(atomic_load_explicit(&at.since_ns, memory_order_relaxed),
                              ag_clock_ns());
}

/* Whether the thread will take what is put into the stream's ring now. */
static inline __attribute__((always_inline)) bool will_take(struct ag_stream *s,
                                                            struct ag_submit_offer offer)
{
    if (atomic_load_explicit(&shared.stopping, memory_order_relaxed) ||
        (__builtin_expect(!s->ring, 0) && !gets_ring(s)))
        return false;
    /* an error is told by the next call that may tell it; if all goes well, nobody settles */
    if (atomic_load_explicit(&s->handed_error, memory_order_relaxed) != CUDA_SUCCESS)
        return false;
    uint32_t now = atomic_load_explicit(&shared.state, memory_order_relaxed);
    bool others = atomic_load_explicit(&shared.num_rings, memory_order_relaxed) > 1;
    /* the option is in a cache line of its own, so it is asked only where it matters */
    return (ag_submit_takes(s->ring, offer, now, true) ||
            (ag_options.submit != AG_SUBMIT_AUTO && ag_submit_takes(s->ring, offer, now, false))) &&
           !(others && is_stuck_at_another(s->ring)) &&
           (__builtin_expect(now != AG_SUBMITTER_ABSENT, 1) || start());
}

/* Call it before something is put in. */
static inline void notes(struct ag_stream *s)
{
    if (__builtin_expect(ag_trace_on() || ag_ring_times_put(s->ring), 0))
        ag_ring_note_time(s->ring, ag_clock_ns());
    ag_deferring_hands(s);
}

static inline void was_put(struct ag_stream *s, bool single)
{
    ag_deferring_handed(s);
    if (__builtin_expect(ag_submit_must_wake(s->ring, single, atomic_load(&shared.state)), 0))
        wake();
}

static __attribute__((cold, noinline)) void look_ahead(struct ag_stream *s)
{
    struct ag_visit visit = ag_driver_enter(s);
    ag_ahead_passes(s);
    ag_driver_leave(s, visit);
}

/* Whether the stream is so far ahead of the GPU that the program's launch has to wait, with the
 * ring at rest. The program may have waited for the GPU since the submitter last looked. */
static inline bool is_far_ahead(struct ag_stream *s, uint32_t ops)
{
    struct ag_ring *ring = s->ring;
    if (ring && __builtin_expect(ag_ahead_is_due(s), 0) && ag_ring_is_at_rest(ring))
        look_ahead(s);
    return ag_ahead_is_far(s, ops + (ring ? ag_ring_held_ops(ring) : 0));
}

__attribute__((hot)) bool ag_submitter_hand(struct ag_stream *s, struct ag_graphs *g,
                                            const uint8_t *bytes, uint64_t now, bool awaited,
                                            uint32_t behind)
{
    if (__builtin_expect(!ag_submitter_is_wanted(s, now) || is_far_ahead(s, g->count), 0))
        return false;
    expect_last(ag_submit_last_comes(behind));
    if (!will_take(s, ag_submit_chunk(awaited, behind, s->pairs.tries)))
        return false;
    notes(s);
    uint32_t handed = atomic_load_explicit(&g->handed, memory_order_relaxed);
    atomic_store_explicit(&g->handed, handed + 1, memory_order_relaxed);
    if (__builtin_expect(!ag_ring_put(s->ring, g, g->count, bytes, g->num_bytes), 0)) {
        atomic_store_explicit(&g->handed, handed, memory_order_relaxed);
        return false;
    }
    s->handed_chunks++;
    was_put(s, false);
    return true;
}

static bool takes_ops(struct ag_stream *s, bool asks)
{
    if (!(asks ? ag_submitter_is_wanted(s, ag_clock_ns()) : s->hands_ops) || ag_measures())
        return false;
    return ag_options.submit != AG_SUBMIT_AUTO ||
           ag_submit_gains_by_ops(ag_policy_gap(ag_engine_policy(&s->engine)));
}

static bool will_take_op(struct ag_stream *s)
{
    return will_take(s, (struct ag_submit_offer){.single = true});
}

bool ag_submitter_takes_ops(struct ag_stream *s)
{
    /* in tests each of them asks */
    return (ag_options.test_switch || takes_ops(s, true)) && will_take_op(s);
}

static void put_op(struct ag_stream *s, ag_key key)
{
    notes(s);
    ag_ring_put_op(s->ring, key);
    s->singles++;
    was_put(s, true);
}

bool ag_submitter_put_op(struct ag_stream *s, const struct ag_signature *signature,
                         const struct ag_incoming *in, bool asks)
{
    /* nothing may be held back in a context that ends, nor in a stream that this very op has made
     * dormant, as the next ones pass unseen */
    bool takes =
        ag_engine_is_idle(&s->engine) && !atomic_load(&s->context->ending) && takes_ops(s, asks);
    /* the submitter may stop while the driver is asked how far that is */
    if (!takes || is_far_ahead(s, 1) || !will_take_op(s))
        return false;
    uint8_t *room = ag_ring_op_room(s->ring, signature->layout.recorded_bytes);
    if (!room)
        return false;
    ag_op_record(room, signature, in);
    put_op(s, ag_signature_key(signature));
    return true;
}

bool ag_submitter_hand_recorded(struct ag_stream *s, ag_key key, const uint8_t *bytes)
{
    uint32_t n = ag_key_signature(key)->layout.recorded_bytes;
    bool refuses = ag_options.test_switch && !takes_ops(s, true);
    uint8_t *room = refuses ? NULL : ag_ring_op_room(s->ring, n);
    if (!room)
        return false;
    memcpy(room, bytes, n);
    put_op(s, key);
    return true;
}

/* ---- the thread --------------------------------------------------------------------------- */

/* Returns how much work there was in all, whoever did it. */
static uint32_t look(void)
{
    uint32_t work = 0;
    uint32_t n = atomic_load_explicit(&shared.num_rings, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        struct ag_ring *ring = atomic_load_explicit(&rings[i], memory_order_relaxed);
        if (!ag_ring_is_empty(ring)) {
            atomic_store_explicit(&at.since_ns, ag_clock_ns(), memory_order_relaxed);
            atomic_store_explicit(&at.ring, ring, memory_order_relaxed);
            works(ring);
            atomic_store_explicit(&at.ring, NULL, memory_order_relaxed);
        }
        work += atomic_load_explicit(&ring->work, memory_order_relaxed);
    }
    return work;
}

/* Looks for work until that time, once at least. Returns whether there was some. */
static bool look_until(struct ag_submit_pace *p, uint64_t until)
{
    uint32_t work;
    for (unsigned int looks = 0; (work = look()) == p->work; looks++) {
        if (looks % AG_SUBMIT_LOOKS == 0 && ag_clock_ns() >= until)
            return false;
        ag_relax();
    }
    ag_submit_found(p, work, ag_clock_ns());
    return true;
}

/* Returns whether somebody woke the thread. */
static bool nap(uint64_t ns)
{
    struct timespec t = {.tv_nsec = (long)ns};
    uint32_t naps = AG_SUBMITTER_NAPS;
    atomic_store(&shared.state, AG_SUBMITTER_NAPS);
    syscall(SYS_futex, &shared.state, FUTEX_WAIT_PRIVATE, AG_SUBMITTER_NAPS, &t, NULL, 0);
    return !atomic_compare_exchange_strong(&shared.state, &naps, AG_SUBMITTER_AWAKE);
}

void ag_submitter_count_time(void)
{
    struct timespec t;
    clockid_t clock = atomic_load(&processor_time);
    if (clock && !clock_gettime(clock, &t))
        atomic_store(&ag_counts[AG_COUNT_SUBMIT_NS],
                     (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

static void tell_time(void)
{
    ag_submitter_count_time();
    ag_trace_submitter(ag_counted(AG_COUNT_SUBMIT_NS));
}

/* `told`: when a dump last got the thread's processor time. */
static void serve(struct ag_submit_pace *p, uint64_t *told)
{
    ag_submit_woken(p, ag_clock_ns());
    while (!ag_submit_sleeps(p) && !atomic_load(&shared.stopping)) {
        uint64_t since = ag_submit_since(p);
        if (ag_trace_on() && since - *told >= AG_SUBMIT_TELLS_NS) {
            *told = since;
            tell_time();
        }
        if (look_until(p, ag_submit_until(p, atomic_load(&shared.last_comes))))
            continue;
        if (nap(p->nap))
            ag_submit_woken(p, ag_clock_ns());
        else
            ag_submit_napped(p, ag_clock_ns());
    }
}

static void *run(void *unused)
{
    struct ag_submit_pace pace = {.last = ag_clock_ns()};
    uint64_t told = 0;
    (void)unused;
    clockid_t clock;
    is_submitter = true;
    if (!pthread_getcpuclockid(pthread_self(), &clock))
        atomic_store(&processor_time, clock);
    ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED); /* other threads may capture */
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* or naps take 50 us longer */
    while (!atomic_load(&shared.stopping)) {
        serve(&pace, &told);
        /* Say that this thread sleeps, then look once more. Whoever put a chunk in meanwhile either
         * reads that state or is seen by this look. */
        atomic_store(&shared.state, AG_SUBMITTER_ASLEEP);
        atomic_thread_fence(memory_order_seq_cst);
        if (look() != pace.work) {
            atomic_store(&shared.state, AG_SUBMITTER_AWAKE);
            continue;
        }
        tell_time();
        while (atomic_load(&shared.state) == AG_SUBMITTER_ASLEEP && !atomic_load(&shared.stopping))
            syscall(SYS_futex, &shared.state, FUTEX_WAIT_PRIVATE, AG_SUBMITTER_ASLEEP, NULL, NULL,
                    0);
    }
    tell_time();
    atomic_store(&processor_time, 0);
    return NULL;
}

void ag_submitter_stop(void)
{
    atomic_store(&shared.stopping, true);
    ag_mutex_lock(&mutex, AG_RANK_SUBMITTER); /* another thread may be starting it */
    bool runs = atomic_load(&shared.state) != AG_SUBMITTER_ABSENT;
    ag_mutex_unlock(&mutex);
    if (!runs)
        return;
    atomic_store(&shared.state, AG_SUBMITTER_AWAKE);
    syscall(SYS_futex, &shared.state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    ag_thread_join(thread);
}
