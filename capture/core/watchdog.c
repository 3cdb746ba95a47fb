/* watchdog.c - bounded deferral. */
#include "capture/core/watchdog.h"
#include "capture/tracking/count.h"
#include "capture/trace/live.h"
#include "capture/system/lock.h"
#include "capture/settings/options.h"
#include "capture/tracking/stream.h"
#include "capture/system/thread.h"
#include "capture/trace/trace.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDLE_LOOKS = 200 }; /* looks without any deferral before the thread sleeps */

_Atomic uint32_t ag_watchdog_state;
static _Atomic bool stopping;
static bool running;
static pthread_t thread;
static struct ag_lock start_lock;
static bool (*submit_deferred)(struct ag_stream *stream, bool boundary);

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

/* What one stream looked like at the last look. */
struct look {
    struct ag_stream *stream;
    uint64_t serial, deferrals;
};

struct looks {
    struct look *list;
    size_t count, capacity;
};

static uint64_t deferrals_before(const struct looks *old, const struct ag_stream *s)
{
    for (size_t i = 0; i < old->count; i++)
        if (old->list[i].stream == s && old->list[i].serial == s->serial)
            return old->list[i].deferrals;
    return UINT64_MAX;
}

/* One look at all streams; true if any is deferring. */
static bool look(const struct looks *old, struct looks *now)
{
    size_t n;
    bool any = false;
    struct ag_stream **streams = ag_streams_snapshot(&n);
    if (streams && now->capacity < n) {
        struct look *list = realloc(now->list, n * sizeof(*list));
        if (list) {
            now->list = list;
            now->capacity = n;
        }
    }
    now->count = 0;
    for (size_t i = 0; streams && i < n; i++) {
        struct ag_stream *s = streams[i];
        if (!atomic_load(&s->deferring))
            continue;
        any = true;
        uint64_t deferrals = atomic_load(&s->deferrals);
        if (deferrals_before(old, s) == deferrals || now->count == now->capacity) {
            ag_trace_cause(AG_CAUSE_WATCHDOG);
            if (submit_deferred(s, false))
                ag_count(AG_COUNT_WATCHDOG);
        } else {
            now->list[now->count++] = (struct look){s, s->serial, deferrals};
        }
    }
    ag_streams_release(streams, n);
    return any;
}

static void *watch(void *unused)
{
    struct looks looks[2] = {{0}};
    unsigned int turn = 0, idle = 0;
    uint64_t period = (uint64_t)ag_options.max_defer_us * 1000 / 2;
    (void)unused;
    while (!atomic_load(&stopping)) {
        if (look(&looks[turn & 1], &looks[(turn + 1) & 1]))
            idle = 0;
        else
            idle++;
        turn++;
        ag_live_poll();
        if (idle < IDLE_LOOKS) {
            wait_for(period);
            continue;
        }
        /* Going to sleep: say so first, then look once more, so that a stream which began to defer
         * in between either sees the word or is seen. */
        atomic_store(&ag_watchdog_state, AG_WATCHDOG_ASLEEP);
        if (look(&looks[turn & 1], &looks[(turn + 1) & 1])) {
            turn++;
            atomic_store(&ag_watchdog_state, AG_WATCHDOG_AWAKE);
        } else {
            ag_live_update(); /* nobody answers while this thread sleeps */
            sleep_until_woken();
        }
        idle = 0;
    }
    free(looks[0].list);
    free(looks[1].list);
    return NULL;
}

static void start(void)
{
    ag_lock(&start_lock, AG_RANK_WATCHDOG);
    if (!running && !atomic_load(&stopping)) {
        atomic_store(&ag_watchdog_state, AG_WATCHDOG_AWAKE);
        running = ag_thread_start(&thread, "autograph-watch", watch);
        if (!running)
            atomic_store(&ag_watchdog_state, AG_WATCHDOG_ABSENT);
    }
    ag_unlock(&start_lock);
}

void ag_watchdog_start(bool (*submit)(struct ag_stream *stream, bool boundary))
{
    submit_deferred = submit;
}

bool ag_watchdog_is_ready(void)
{
    if (ag_thread_starves_others())
        return false;
    if (atomic_load(&ag_watchdog_state) == AG_WATCHDOG_ABSENT)
        start();
    return atomic_load(&ag_watchdog_state) != AG_WATCHDOG_ABSENT;
}

void ag_watchdog_wake(void)
{
    uint32_t asleep = AG_WATCHDOG_ASLEEP;
    if (atomic_load(&ag_watchdog_state) == AG_WATCHDOG_ABSENT)
        start();
    else if (atomic_compare_exchange_strong(&ag_watchdog_state, &asleep, AG_WATCHDOG_AWAKE))
        syscall(SYS_futex, &ag_watchdog_state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void ag_watchdog_stop(void)
{
    ag_lock(&start_lock, AG_RANK_WATCHDOG);
    atomic_store(&stopping, true);
    bool join = running;
    running = false;
    ag_unlock(&start_lock);
    if (!join)
        return;
    atomic_store(&ag_watchdog_state, AG_WATCHDOG_ABSENT);
    syscall(SYS_futex, &ag_watchdog_state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    ag_thread_join(thread);
}
