/* compare.c - see compare.h. */
#include "capture/compare.h"
#include "capture/clock.h"
#include "capture/log.h"
#include "capture/options.h"
#include "capture/stats.h"
#include "capture/thread.h"
#include <stdlib.h>
#include <time.h>

enum {
    REST_OPS = 128,  /* asleep before the stream looks again whether the span has ended */
    FEWEST_OPS = 32, /* a span in which the program did less says nothing */
    MOST_PAIRS = 4096,
};

_Atomic uint32_t ag_compare_rests;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop = PTHREAD_COND_INITIALIZER;
static bool running, stopping;
static pthread_t thread;
static double ratios[MOST_PAIRS];
static size_t num_ratios;

void ag_compare_rest(struct ag_stream *s)
{
    if (s->num_deferred || s->policy.dormant || ag_nap_is_active(&s->nap))
        return;
    s->num_staged = s->num_bytes = 0;
    ag_policy_rest(&s->policy, REST_OPS);
    ag_stream_sleeps(s, s->policy.dormant);
    s->policy.dormant = 0;
}

/* False where the end has come. Under the mutex. */
static bool wait_us(uint64_t us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + us * 1000;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    while (!stopping && pthread_cond_timedwait(&stop, &mutex, &until) == 0)
        ;
    return !stopping;
}

struct sample {
    uint64_t ops, ns;
};

static struct sample sample(void)
{
    struct ag_totals t;
    pthread_mutex_unlock(&mutex); /* takes the locks of streams */
    ag_stats_collect(&t);
    pthread_mutex_lock(&mutex);
    return (struct sample){t.ops, ag_clock_monotonic_ns()};
}

/* Ops per nanosecond of a span, 0 where it held too few, negative at the end. Under the mutex. */
static double span(bool eager)
{
    uint64_t us = (uint64_t)ag_options.compare_ms * 1000;
    atomic_store(&ag_compare_rests, eager);
    if (!wait_us(us / 4))
        return -1.0;
    struct sample from = sample();
    if (!wait_us(us - us / 4))
        return -1.0;
    struct sample to = sample();
    if (to.ops - from.ops < FEWEST_OPS || to.ns <= from.ns)
        return 0.0;
    return (double)(to.ops - from.ops) / (double)(to.ns - from.ns);
}

static void *compare(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    while (!stopping && num_ratios < MOST_PAIRS) {
        double replayed = span(false), eager = replayed < 0.0 ? -1.0 : span(true);
        if (replayed > 0.0 && eager > 0.0)
            ratios[num_ratios++] = replayed / eager;
    }
    atomic_store(&ag_compare_rests, 0);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

void ag_compare_start(void)
{
    if (!ag_options.compare_ms || ag_options.mode != AG_MODE_ON)
        return;
    pthread_mutex_lock(&mutex);
    if (!running && !stopping) {
        running = ag_thread_start(&thread, "autograph-pairs", compare);
        stopping = !running;
    }
    pthread_mutex_unlock(&mutex);
}

void ag_compare_stop(void)
{
    pthread_mutex_lock(&mutex);
    stopping = true;
    bool join = running;
    running = false;
    pthread_cond_broadcast(&stop);
    pthread_mutex_unlock(&mutex);
    if (join)
        pthread_join(thread, NULL);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void ag_compare_print(void)
{
    if (!ag_options.compare_ms || ag_options.mode != AG_MODE_ON)
        return;
    size_t n = num_ratios;
    if (!n) {
        ag_say("  compared with eager: the program ended before two spans of %u ms were measured",
               ag_options.compare_ms);
        return;
    }
    qsort(ratios, n, sizeof(*ratios), by_value);
    ag_say("  compared with eager: %.3f times as fast (half of %zu pairs of spans between %.3f and "
           "%.3f)",
           (ratios[(n - 1) / 2] + ratios[n / 2]) / 2, n, ratios[n / 4], ratios[(n - 1) * 3 / 4]);
}
