/* stats.c - see stats.h. */
#include "capture/report/stats.h"
#include "capture/tracking/count.h"
#include "capture/tracking/streams.h"

static struct ag_lock lock;
static struct ag_totals retired;

/* What graphs, and launches that were handed over, have saved. What an eager call takes is known
 * best at the end: the first calls take several times as long as others, and few are timed. */
static int64_t gained_ns(const struct ag_stream *s, bool handed)
{
    uint32_t usual = atomic_load_explicit(&s->usual_ns, memory_order_relaxed);
    int64_t eager = usual ? usual : AG_CALL_ESTIMATE_NS, singles = handed ? (int64_t)s->singles : 0;
    return atomic_load(&s->graph_ops[handed]) * eager - atomic_load(&s->graph_ns[handed]) +
           singles * (eager - AG_HAND_NS);
}

static void add_stream(struct ag_totals *t, const struct ag_stream *s)
{
    const struct ag_policy_counts *c = ag_policy_counts(ag_engine_policy(&s->engine));
    const struct ag_engine_counts *e = ag_engine_counts(&s->engine);
    uint64_t passed = c->dormant - atomic_load(&s->dormant.left);
    uint64_t collectives = atomic_load(&s->collectives); /* a count of their own has them */
    passed -= collectives < passed ? collectives : passed;
    t->ops += c->ops + passed;
    t->dormant += passed;
    t->replayed += e->replayed;
    t->covered += e->covered;
    t->flushed += e->flushed;
    t->eager += e->eager;
    t->updates += s->updates;
    t->graph_launches += s->launches;
    t->mismatches += c->mismatches;
    t->switches += c->switches;
    t->resyncs += c->resyncs;
    t->periods += c->periods;
    t->sequences += c->sequences;
    t->evicted += c->evicted;
    t->waits += c->waits;
    t->singles += s->singles;
    t->handed_chunks += s->handed_chunks;
    int64_t handed = gained_ns(s, true);
    t->gained_ns += gained_ns(s, false) + handed;
    t->handed_gained_ns += handed;
    for (int i = 0; i < AG_NUM_WHYS; i++)
        t->whys[i] += s->whys[i];
}

void ag_stats_retire_stream(const struct ag_stream *s)
{
    ag_lock(&lock, AG_RANK_STATS);
    add_stream(&retired, s);
    ag_unlock(&lock);
}

/* Adds the stream's figures. Somebody may ask for live figures while others launch. If the holder
 * of a stream's lock stays in the driver, the figures of the last time are used for that stream. */
static void add_figures(struct ag_totals *t, struct ag_stream *s)
{
    struct ag_totals now = {0};
    bool locked = ag_stream_lock_if_prompt(s);
    for (int i = 0; i < AG_STATS_TRIES && !locked; i++) {
        ag_sleep_ns(AG_LOOK_AGAIN_NS);
        locked = ag_stream_lock_if_prompt(s);
    }
    if (locked) {
        add_stream(&now, s);
        ag_unlock(&s->lock);
    }
    ag_lock(&lock, AG_RANK_STATS);
    if (locked)
        s->counted = now;
    uint64_t *to = (uint64_t *)t;
    const uint64_t *from = (const uint64_t *)&s->counted;
    for (size_t i = 0; i < sizeof(*t) / sizeof(*to); i++)
        to[i] += from[i];
    ag_unlock(&lock);
}

void ag_stats_collect(struct ag_totals *t)
{
    ag_lock(&lock, AG_RANK_STATS);
    *t = retired;
    ag_unlock(&lock);
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));)
        add_figures(t, s);
}

/* ---- waits in rings --------------------------------------------------------------------- */

static _Atomic uint64_t waits[AG_LIVE_WAITS];
static _Atomic uint64_t longest_ns;

void ag_waited(uint64_t ns)
{
    uint64_t longest = atomic_load_explicit(&longest_ns, memory_order_relaxed);
    ag_count_by(AG_COUNT_HANDED_WAIT_NS, ns);
    while (longest < ns && !atomic_compare_exchange_weak(&longest_ns, &longest, ns))
        ;
    atomic_fetch_add(&waits[ag_live_wait_place(ns)], 1);
}

/* The longest is read last: it is then no less than any that is counted. */
void ag_waited_fill(struct ag_live_waits *w)
{
    for (uint32_t i = 0; i < AG_LIVE_WAITS; i++)
        w->counts[i] = atomic_load(&waits[i]);
    w->longest_ns = atomic_load(&longest_ns);
}
