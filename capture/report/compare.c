/* compare.c - see compare.h. */
#include "capture/report/compare.h"
#include "capture/system/clock.h"
#include "capture/system/hot.h"
#include "capture/settings/log.h"
#include "capture/tracking/dormancy.h"
#include "capture/settings/options.h"
#include "capture/tracking/streams.h"
#include "capture/system/thread.h"
#include <stdlib.h>

enum { MOST_PAIRS = 4096 };

_Atomic uint32_t ag_compare_span AG_HOT;
_Atomic uint64_t ag_compare_rested_ns, ag_compare_weighed_ns;
static _Atomic uint32_t rest_ops = AG_COMPARE_LEAST_REST;
static _Atomic uint64_t told; /* ops of all streams, except those a dormant stream is passing */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop = PTHREAD_COND_INITIALIZER;
static bool running, stopping;
static pthread_t thread;
static double ratios[MOST_PAIRS];
static size_t num_ratios;

void ag_compare_meet(struct ag_stream *s)
{
    uint64_t ops = ag_stream_launches(s);
    atomic_fetch_add_explicit(&told, ops - s->told, memory_order_relaxed);
    s->told = ops;
    if (atomic_load_explicit(&ag_compare_span, memory_order_relaxed) != AG_COMPARE_RESTS ||
        !ag_engine_is_idle(&s->engine))
        return;
    ag_engine_rest(&s->engine, atomic_load_explicit(&rest_ops, memory_order_relaxed));
    ag_stream_goes_dormant(s);
}

/* False: the end has come. The caller holds the mutex. */
static bool wait_us(uint64_t us)
{
    if (!stopping)
        ag_thread_wait(&stop, &mutex, us * 1000);
    return !stopping;
}

struct sample {
    uint64_t ops, ns;
};

static struct sample sample(void)
{
    uint64_t ops = atomic_load(&told);
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        uint32_t granted = atomic_load(&s->dormant.granted);
        uint32_t left = atomic_load(&s->dormant.left);
        ops += granted > left ? granted - left : 0;
    }
    return (struct sample){ops, ag_clock_monotonic_ns()};
}

/* Runs one span and returns its ops per nanosecond: 0 if it had too few ops, negative at the end.
 * The caller holds the mutex. */
static double span(bool eager)
{
    uint64_t us = (uint64_t)ag_options.compare_ms * 1000;
    atomic_store(&ag_compare_span, eager ? AG_COMPARE_RESTS : AG_COMPARE_REPLAYS);
    if (!wait_us(us / 4))
        return -1.0;
    struct sample from = sample();
    if (!wait_us(us - us / 4))
        return -1.0;
    struct sample to = sample();
    uint64_t rest = (to.ops - from.ops) / AG_COMPARE_REST_SHARE;
    atomic_store(&rest_ops, rest < AG_COMPARE_LEAST_REST  ? AG_COMPARE_LEAST_REST
                            : rest > AG_COMPARE_MOST_REST ? AG_COMPARE_MOST_REST
                                                          : rest);
    if (to.ops < from.ops + AG_COMPARE_FEWEST_OPS || to.ns <= from.ns)
        return 0.0;
    return (double)(to.ops - from.ops) / (double)(to.ns - from.ns);
}

/* Waits while tied streams are compared by themselves (weigh.h): that takes turns, too. */
static bool wait_for_weighing(void)
{
    while (atomic_load(&ag_compare_weighed_ns) + AG_COMPARE_WEIGHED_NS > ag_clock_monotonic_ns())
        if (!wait_us(1000))
            return false;
    return true;
}

static double eager_span(void)
{
    if (!wait_for_weighing())
        return -1.0;
    uint64_t began = ag_clock_monotonic_ns();
    double rate = span(true);
    atomic_fetch_add(&ag_compare_rested_ns, ag_clock_monotonic_ns() - began);
    return rate;
}

/* Whether the eager span of a pair comes first. If it always did, the pairs of a program that
 * trains for 50 ms and loads for 50 would compare the one with the other. */
static bool toss(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 63;
}

static void *compare(void *unused)
{
    (void)unused;
    ag_mutex_lock(&mutex, AG_RANK_COMPARE);
    uint64_t state = 0;
    while (!stopping && num_ratios < MOST_PAIRS) {
        bool eager_first = toss(&state);
        uint64_t began = ag_clock_monotonic_ns();
        double first = eager_first ? eager_span() : span(false);
        if (first < 0.0)
            break;
        double second = eager_first ? span(false) : eager_span();
        if (first > 0.0 && second > 0.0 && atomic_load(&ag_compare_weighed_ns) < began)
            ratios[num_ratios++] = eager_first ? second / first : first / second;
    }
    atomic_store(&ag_compare_span, AG_COMPARE_OFF);
    ag_mutex_unlock(&mutex);
    return NULL;
}

static bool wanted(void)
{
    return ag_options.compare_ms && ag_options.mode == AG_MODE_ON;
}

void ag_compare_start(void)
{
    if (!wanted())
        return;
    ag_mutex_lock(&mutex, AG_RANK_COMPARE);
    if (!running && !stopping) {
        running = ag_thread_start(&thread, "autograph-pairs", compare);
        stopping = !running;
    }
    ag_mutex_unlock(&mutex);
}

void ag_compare_stop(void)
{
    ag_mutex_lock(&mutex, AG_RANK_COMPARE);
    stopping = true;
    bool join = running;
    running = false;
    pthread_cond_broadcast(&stop);
    ag_mutex_unlock(&mutex);
    if (join)
        ag_thread_join(thread);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void ag_compare_print(const char *process)
{
    if (!wanted())
        return;
    size_t n = num_ratios;
    if (!n) {
        ag_say(
            "%s:   compared with eager: the program ended before two spans of %u ms were measured",
            process, ag_options.compare_ms);
        return;
    }
    qsort(ratios, n, sizeof(*ratios), by_value);
    double low = ratios[n / 4], high = ratios[(n - 1) * 3 / 4];
    ag_say("%s:   compared with eager: %.3f times as fast (half of %zu pairs of spans between %.3f "
           "and %.3f)%s",
           process, (ratios[(n - 1) / 2] + ratios[n / 2]) / 2, n, low, high,
           high > AG_COMPARE_UNEVEN * low
               ? "; this is too uneven to judge by: make AUTOGRAPH_COMPARE_MS "
                 "longer than the program's phases"
               : "");
}
