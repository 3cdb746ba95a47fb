/* watchdog.c - no op is held back for too long. */
#include "capture/core/watchdog.h"
#include "capture/core/deferral.h"
#include "capture/tracking/count.h"
#include "capture/system/clock.h"
#include "capture/trace/live.h"
#include "capture/settings/options.h"
#include "capture/tracking/streams.h"
#include "capture/system/thread.h"
#include "capture/trace/trace.h"
#include <stdlib.h>
#include <sys/prctl.h>

_Atomic uint32_t ag_watchdog_state;
static _Atomic bool stopping;

/*
 * One thread at a time is on watch. When it submits, its driver call may wait for room in the
 * stream's queue, as long as the eager launch would have waited. Meanwhile another thread takes the
 * watch as soon as a further stream holds something back. Relieved threads rest until they are
 * needed again.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t watches; /* number of watches begun, which is the number of the current one */
static uint32_t resting; /* threads without a watch */
static uint32_t awaited; /* threads that the process's end waits for: on watch, or in the driver */
static bool vacant;      /* a resting thread is to take the watch */
static _Atomic uint64_t looks_made;
static _Atomic uint64_t fast_until; /* looks may be fast until so many were made */
static void *watch(void *unused);
static void (*submit_deferred)(struct ag_stream *stream);

struct watch {
    uint32_t number;
    bool fast;     /* the time since the look before was short */
    bool early;    /* the next look comes as soon as a pause may be long enough */
    uint64_t due;  /* when that is; UINT64_MAX: no program seems to pause */
    uint64_t last; /* when the first of what was left alone has to go; UINT64_MAX: nothing was */
    uint64_t gap;  /* the least time between two ops of streams that may pause, when last seen */
    uint32_t looks;
    uint64_t counted_ns; /* of this thread's processor time */
    uint64_t asked_ns;   /* when it last counted the processors */
};

/* Between two looks. */
static uint64_t slow_ns(void)
{
    return (uint64_t)ag_options.max_defer_us * 1000 / 2;
}

/* When what the stream holds back has to go; 0: nobody knows since when it holds that back. What is
 * in the ring is older than what the engine knows of. The caller holds the stream's lock. */
static uint64_t last_of(struct ag_stream *s)
{
    uint64_t began = ag_policy_began(ag_engine_policy(&s->engine));
    bool knows = began && ag_stream_ring_is_at_rest(s);
    return knows ? began + (uint64_t)ag_options.max_defer_us * AG_WATCHDOG_DUE_THOUSANDTHS : 0;
}

/* The host may pause for so long before it counts as a pause. */
static uint64_t pause_ns(const struct ag_stream *s)
{
    return (uint64_t)AG_WATCHDOG_FAST_OPS * ag_policy_gap(ag_engine_policy(&s->engine));
}

static void count_time(struct watch *w)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
        return;
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    ag_count_by(AG_COUNT_WATCH_NS, ns - w->counted_ns);
    w->counted_ns = ns;
}

static void count_processors(struct watch *w)
{
    uint64_t now = ag_clock_ns();
    if (now < w->asked_ns + AG_WATCHDOG_ASKS_NS)
        return;
    w->asked_ns = now;
    ag_thread_count_processors();
}

static void wait_for(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    syscall(SYS_futex, &ag_watchdog_state, FUTEX_WAIT_PRIVATE, AG_WATCHDOG_AWAKE, &t, NULL, 0);
}

static void sleep_until_woken(void)
{
    while (atomic_load(&ag_watchdog_state) == AG_WATCHDOG_ASLEEP && !atomic_load(&stopping))
        syscall(SYS_futex, &ag_watchdog_state, FUTEX_WAIT_PRIVATE, AG_WATCHDOG_ASLEEP, NULL, NULL,
                0);
}

/* One stream at a look. What it holds back has no later number, and was first seen at that time.
 * `used_ns`: the processor time that its owner had used by then; 0: nobody knows. */
struct look {
    struct ag_stream *stream;
    uint64_t serial, deferrals, seen_ns;
    uintptr_t owner;
    uint64_t used_ns;
};

/* The last two looks, made by whichever thread is on watch. */
static struct looks {
    struct look *list;
    size_t count, capacity;
} looks[2];
static unsigned int turn;

/* What the look before saw of the stream, if it holds some of that back still. */
static const struct look *look_before(const struct looks *old, const struct ag_stream *s)
{
    for (size_t i = 0; i < old->count; i++)
        if (old->list[i].stream == s && old->list[i].serial == s->serial)
            return old->list[i].deferrals < ag_deferring_since(s) ? NULL : &old->list[i];
    return NULL;
}

/* A thread's processor time; 0: nobody knows. A clock of whole milliseconds counts ticks, which say
 * nothing of the time between two looks. */
static uint64_t used_by(uintptr_t owner)
{
    struct timespec t;
    if (!owner || clock_gettime((clockid_t)(uint32_t)owner, &t) || t.tv_nsec % 1000000 == 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether the stream's owner has worked or polled since. If it waits instead, for another thread or
 * for a processor, fast looks gain nothing, and on a busy machine they keep it waiting. */
static bool is_running(const struct ag_stream *s, const struct look *seen, uint64_t now)
{
    uint64_t used = used_by(seen->owner);
    return atomic_load(&s->owner) == seen->owner &&
           (!used || !seen->used_ns ||
            used - seen->used_ns >= (now - seen->seen_ns) / 4 * AG_WATCHDOG_RUNS_QUARTERS);
}

/* Puts a thread on watch: one that rests, or a new one. The caller holds the mutex. */
static bool post(void)
{
    pthread_t thread;
    if (!resting && ag_thread_start(&thread, "autograph-watch", watch))
        pthread_detach(thread);
    else if (!resting)
        return false;
    vacant = true;
    watches++;
    atomic_store(&ag_watchdog_state, AG_WATCHDOG_AWAKE);
    pthread_cond_broadcast(&changed);
    return true;
}

/* The same if nobody is on watch (AG_WATCHDOG_ABSENT), or if who is on watch is in the driver
 * (AG_WATCHDOG_BUSY). */
static void post_if(uint32_t state)
{
    ag_mutex_lock(&mutex, AG_RANK_WATCHDOG);
    if (atomic_load(&ag_watchdog_state) == state && !atomic_load(&stopping))
        post();
    ag_mutex_unlock(&mutex);
}

/* Asks the streams that there are now: one may have come since the look began. Without memory for
 * their list the answer is yes, as a stream that nobody looks at may wait for good. */
static bool another_defers(const struct ag_stream *s)
{
    struct ag_streams all = ag_streams_deferring();
    bool defers = all.lacks;
    for (struct ag_stream *other; !defers && (other = ag_streams_next(&all));)
        defers = other != s;
    ag_streams_done(&all);
    return defers;
}

/* Whether the program seems to have paused again: for the time of several ops no op has come since
 * an earlier look. If it may soon have, the next look comes then. A loop comes by the same place in
 * each turn, so what was seen before `seen_ns`, when this deferral was first seen, does not count.
 * The caller holds the stream's lock. */
static bool pauses_again(struct ag_stream *s, uint64_t seen_ns, uint64_t now, struct watch *w)
{
    const struct ag_policy *p = ag_engine_policy(&s->engine);
    if (looks_made >= s->fast_until)
        return false;
    if (s->place != ag_policy_place(p) || s->place_since < seen_ns) {
        s->place = ag_policy_place(p);
        s->place_since = now;
    }
    uint64_t due = s->place_since + pause_ns(s);
    if (s->place_since < now && now >= due)
        return true;
    if (due < w->due)
        w->due = due;
    if (ag_policy_gap(p) < w->gap)
        w->gap = ag_policy_gap(p);
    return false;
}

/* Submits what the stream has held back since it was seen, if that is due. False: another thread
 * has taken the watch meanwhile. */
static bool submit(const struct look *seen, struct watch *w)
{
    struct ag_stream *s = seen->stream;
    if (!ag_stream_lock_if_prompt(s))
        return true;
    bool entered = false; /* if it cannot, the next look tries again */
    uint64_t now = ag_clock_ns();
    bool still = seen->deferrals >= ag_deferring_since(s); /* else it holds back something newer */
    bool long_ago = still && (!w->fast || now - seen->seen_ns >= slow_ns());
    uint64_t last = long_ago ? last_of(s) : 0;
    if (now < last) {
        long_ago = false;
        w->last = last < w->last ? last : w->last;
    }
    if ((long_ago || pauses_again(s, seen->seen_ns, now, w)) && ag_stream_is_live(s) &&
        ag_context_try(s->context->handle, &entered) && ag_stream_ring_is_free(s)) {
        atomic_store(&ag_watchdog_state, AG_WATCHDOG_BUSY);
        if (another_defers(s)) /* its deferral began before the store */
            post_if(AG_WATCHDOG_BUSY);
        bool holds = atomic_load(&s->deferring) == AG_DEFERS || !ag_stream_ring_is_at_rest(s);
        bool runs = long_ago && is_running(s, seen, now);
        ag_trace_cause(AG_CAUSE_WATCHDOG);
        submit_deferred(s);
        if (holds) { /* else all was launched, and nobody had asked */
            ag_count(AG_COUNT_WATCHDOG);
            if (runs && pause_ns(s) < slow_ns()) /* or a fast look would come no sooner */
                atomic_store(&fast_until, s->fast_until = looks_made + AG_WATCHDOG_FAST_LOOKS);
        }
    }
    ag_context_leave(entered);
    ag_unlock(&s->lock);
    ag_mutex_lock(&mutex, AG_RANK_WATCHDOG);
    bool lasts = watches == w->number;
    if (lasts && atomic_load(&ag_watchdog_state) == AG_WATCHDOG_BUSY)
        atomic_store(&ag_watchdog_state, AG_WATCHDOG_AWAKE);
    ag_mutex_unlock(&mutex);
    return lasts;
}

enum sight { NOTHING, DEFERRED, RELIEVED };

/* Looks at all streams once. Returns whether any stream was deferring, or whether another thread
 * has taken the watch. */
static enum sight look(struct watch *w)
{
    uint64_t ns = ag_clock_ns();
    w->due = w->last = UINT64_MAX;
    uint64_t gap = w->gap;
    w->gap = UINT64_MAX;
    const struct looks *old = &looks[turn & 1];
    struct looks *now = &looks[(turn + 1) & 1];
    struct ag_streams all = ag_streams_deferring();
    enum sight sight = all.lacks ? DEFERRED : NOTHING; /* without memory nobody knows */
    if (now->capacity < all.n) {
        struct look *list = realloc(now->list, all.n * sizeof(*list));
        if (list) {
            now->list = list;
            now->capacity = all.n;
        }
    }
    now->count = 0;
    for (struct ag_stream *s; sight != RELIEVED && (s = ag_streams_next(&all));) {
        if (!atomic_load(&s->deferring))
            continue;
        sight = DEFERRED;
        struct look seen = {s, s->serial, atomic_load(&s->deferrals), ns, atomic_load(&s->owner),
                            0};
        const struct look *before = look_before(old, s);
        if (before)
            seen = *before;
        else
            seen.used_ns = used_by(seen.owner);
        bool kept = now->count < now->capacity;
        if (kept)
            now->list[now->count++] = seen;
        else
            seen.seen_ns = 0; /* the next look will not know how long it has waited */
        if ((before || w->fast || !kept) && !submit(&seen, w))
            sight = RELIEVED;
    }
    ag_streams_done(&all);
    if (w->gap == UINT64_MAX)
        w->gap = gap;
    if (sight != RELIEVED)
        turn++;
    return sight;
}

/* A look takes a processor some us. Half of the ops' time that counts as a pause is soon enough. */
static uint64_t fast_ns(const struct watch *w)
{
    uint64_t ns = AG_WATCHDOG_FAST_OPS / 2 * w->gap;
    return ns > AG_WATCHDOG_FAST_NS ? ns : AG_WATCHDOG_FAST_NS;
}

/* Every other fast look may be early: the program may just have been on its way. */
static void wait_for_next_look(struct watch *w)
{
    w->fast = ag_thread_may_spin() && atomic_fetch_add(&looks_made, 1) < atomic_load(&fast_until) &&
              slow_ns() > AG_WATCHDOG_FAST_NS;
    uint64_t ns = w->fast ? fast_ns(w) : slow_ns(), now = ag_clock_ns();
    w->early = w->fast && !w->early && w->due < now + ns;
    uint64_t next = w->early && w->due < w->last ? w->due : w->last;
    if (next < now + ns)
        ns = next > now ? next - now : 0;
    wait_for(ns);
}

/* Keeps one watch from its beginning to its end. */
static void keep_watch(struct watch *w)
{
    unsigned int idle = 0;
    while (!atomic_load(&stopping)) {
        enum sight sight = look(w);
        if (sight == RELIEVED)
            return;
        idle = sight == DEFERRED ? 0 : idle + 1;
        ag_live_poll();
        if (++w->looks % AG_WATCHDOG_COUNTS == 0) {
            count_time(w);
            count_processors(w);
        }
        if (idle < AG_WATCHDOG_IDLE_LOOKS) {
            wait_for_next_look(w);
            continue;
        }
        /* Say that this thread sleeps, then look once more. A stream that began to defer in between
         * either reads that state or is seen by this look. */
        atomic_store(&ag_watchdog_state, AG_WATCHDOG_ASLEEP);
        sight = look(w);
        if (sight == RELIEVED)
            return;
        if (sight == DEFERRED) {
            atomic_store(&ag_watchdog_state, AG_WATCHDOG_AWAKE);
        } else {
            count_time(w);
            ag_live_update(); /* nobody answers `autograph top` while this thread sleeps */
            sleep_until_woken();
        }
        idle = 0;
    }
}

static void *watch(void *unused)
{
    (void)unused;
    struct watch w = {.asked_ns = ag_clock_ns()};
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* or each wait takes 50 us longer */
    ag_mutex_lock(&mutex, AG_RANK_WATCHDOG);
    for (;;) {
        resting++;
        while (!vacant && !atomic_load(&stopping))
            ag_mutex_wait(&changed, &mutex);
        resting--;
        if (atomic_load(&stopping))
            break;
        vacant = false;
        awaited++;
        w.number = watches;
        ag_mutex_unlock(&mutex);
        keep_watch(&w);
        count_time(&w);
        ag_mutex_lock(&mutex, AG_RANK_WATCHDOG);
        awaited--;
    }
    pthread_cond_broadcast(&changed);
    ag_mutex_unlock(&mutex);
    return NULL;
}

void ag_watchdog_start(void (*submits)(struct ag_stream *stream))
{
    submit_deferred = submits;
}

bool ag_watchdog_is_ready(void)
{
    if (ag_thread_starves_others())
        return false;
    if (atomic_load(&ag_watchdog_state) == AG_WATCHDOG_ABSENT)
        post_if(AG_WATCHDOG_ABSENT);
    return atomic_load(&ag_watchdog_state) != AG_WATCHDOG_ABSENT;
}

void ag_watchdog_wake(void)
{
    uint32_t state = AG_WATCHDOG_ASLEEP;
    if (atomic_compare_exchange_strong(&ag_watchdog_state, &state, AG_WATCHDOG_AWAKE))
        syscall(SYS_futex, &ag_watchdog_state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    else if (state == AG_WATCHDOG_ABSENT)
        post_if(AG_WATCHDOG_ABSENT);
    else
        post_if(AG_WATCHDOG_BUSY);
}

/* Waits a second at most. A thread may be in the driver, behind another thread's launch that waits
 * there, and a process that ends does not wait for that. */
void ag_watchdog_stop(void)
{
    ag_mutex_lock(&mutex, AG_RANK_WATCHDOG);
    atomic_store(&stopping, true);
    atomic_store(&ag_watchdog_state, AG_WATCHDOG_ABSENT);
    syscall(SYS_futex, &ag_watchdog_state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_cond_broadcast(&changed);
    for (uint64_t until = ag_clock_ns() + AG_END_MOST_NS; awaited && ag_clock_ns() < until;)
        ag_thread_wait(&changed, &mutex, AG_END_MOST_NS);
    ag_mutex_unlock(&mutex);
}
