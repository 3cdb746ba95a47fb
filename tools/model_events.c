/* model_events.c - goes through a dump's events once and adds them up. */
#include "tools/model.h"
#include "tools/need.h"
#include "tools/names.h"
#include <string.h>
#include <uthash.h>

/* Where a dump holds no eager launch to compare with: what one takes on the host, measured
 * (docs/performance.md: 2.5 to 4.3 us). */
#define ASSUMED_EAGER_NS 3000.0

/* ---- reasons ---------------------------------------------------------------------------- */

static struct model_reason *reason_get(struct model_reasons *r, uint32_t text)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->list[i].text == text)
            return &r->list[i];
    if (!(r->count & (r->count - 1)))
        r->list = need(realloc(r->list, (r->count ? r->count * 2 : 1) * sizeof(*r->list)));
    memset(&r->list[r->count], 0, sizeof(*r->list));
    r->list[r->count].text = text;
    return &r->list[r->count++];
}

/* `limit`: ids are below it. */
static void tally(struct model_tally *t, uint32_t id, uint32_t limit)
{
    if (!id || id >= limit)
        return;
    t->met++;
    if (id >= t->room) {
        uint32_t room = id < limit / 2 ? id * 2 : limit;
        t->index = need(realloc(t->index, room * sizeof(*t->index)));
        memset(t->index + t->room, 0, (room - t->room) * sizeof(*t->index));
        t->room = room;
    }
    if (!t->index[id]) {
        if (!(t->count & (t->count - 1)))
            t->list = need(realloc(t->list, (t->count ? t->count * 2 : 1) * sizeof(*t->list)));
        t->list[t->count++] = (struct model_count){id, 0};
        t->index[id] = t->count;
    }
    t->list[t->index[id] - 1].times++;
}

/* ---- events ----------------------------------------------------------------------------- */

/* What adding up needs to know of the events before. */
struct adding {
    struct model *m;
    struct life {
        uint32_t round;  /* sync points of all its streams so far */
        uint64_t since;  /* ops of all its streams since their last sync points */
    } * lives;           /* of the processes */
    uint32_t departures; /* threads whose next op is waited for */
    struct caller *list; /* threads */
};

/* A thread's last sync point, which is the cause of later flushes; and its last flush by a
 * mismatch, which the next op explains. */
struct caller {
    uint32_t thread, text, site;
    uint32_t departed; /* string of the reason, 0: none */
    UT_hash_handle hh;
};

static struct caller *caller_get(struct adding *a, uint32_t thread)
{
    struct caller *c;
    HASH_FIND(hh, a->list, &thread, sizeof(thread), c);
    if (!c) {
        c = need(calloc(1, sizeof(*c)));
        c->thread = thread;
        HASH_ADD(hh, a->list, thread, sizeof(thread), c);
    }
    return c;
}

static struct model_bucket *bucket(struct model *m, uint64_t time)
{
    double span = (double)(m->last_ns - m->first_ns) + 1;
    double at = (double)(time - m->first_ns) / span * MODEL_BUCKETS;
    int i = (int)at;
    return &m->buckets[i < MODEL_BUCKETS ? i : MODEL_BUCKETS - 1];
}

static uint64_t *ops_since_sync_point(const struct adding *a, const struct ag_dump_event *e)
{
    struct model_stream *s = &a->m->streams[e->stream];
    if (s->round != a->lives[e->reserved].round) {
        s->round = a->lives[e->reserved].round;
        s->since_sync_point = 0;
    }
    return &s->since_sync_point;
}

static void add_op(struct adding *a, const struct dump_event *event)
{
    struct model *m = a->m;
    const struct ag_dump_event *e = &event->e;
    m->ops++;
    m->done[e->what & 7]++;
    bucket(m, e->time)->ops++;
    if (e->a < m->d->num_signatures)
        m->signature_ops[e->a]++;
    if (e->stream < m->num_streams) {
        m->streams[e->stream].ops++;
        ++*ops_since_sync_point(a, e);
        a->lives[e->reserved].since++;
    }
    if (e->what == AG_DONE_IMMEDIATE) {
        struct model_reason *r = reason_get(&m->immediate, e->b);
        r->times++;
        r->ops++;
        if (e->value <= UINT32_MAX)
            tally(&r->sites, (uint32_t)e->value, m->d->num_sites);
    }
    if (e->what == AG_DONE_EAGER && e->b) {
        struct model_reason *r = reason_get(&m->eager, e->b);
        r->times++;
        r->ops++;
    }
    struct caller *c = a->departures ? caller_get(a, event->thread) : NULL;
    if (c && c->departed) {
        tally(&reason_get(&m->flushes, c->departed)->names, dump_signature(m->d, e->a)->name,
              m->d->num_strings);
        c->departed = 0;
        a->departures--;
    }
}

/* What the library's own thread did cost the program nothing. */
static uint64_t host_ns(const struct model *m, const struct dump_event *event, uint64_t ns)
{
    return handed_is_own(&m->handed, event->thread) ? 0 : ns;
}

static void add_graph(struct model *m, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    const struct dump_graph *g = dump_graph(m->d, e->a);
    if (e->a >= m->d->num_graphs || e->value >> 32)
        return;
    struct model_graph *mine = &m->graphs[e->a];
    mine->launches++;
    mine->updates += e->value & UINT32_MAX;
    mine->host_ns += host_ns(m, event, e->b);
    if (e->what >= mine->variants)
        mine->variants = e->what + 1u;
    m->launches++;
    m->updates += e->value & UINT32_MAX;
    m->graph_ns += host_ns(m, event, e->b);
    m->replayed += g->d.count;
    bucket(m, e->time)->carried += g->d.count;
    if (e->stream < m->num_streams) {
        m->streams[e->stream].carried += g->d.count;
        m->streams[e->stream].launches++;
    }
}

static void add_update(struct model *m, const struct ag_dump_event *e)
{
    const struct dump_graph *g = dump_graph(m->d, e->a);
    if (e->a >= m->d->num_graphs || e->b >= g->d.count)
        return;
    struct model_graph *mine = &m->graphs[e->a];
    if (!mine->op_updates)
        mine->op_updates = need(calloc(g->d.count, sizeof(*mine->op_updates)));
    mine->op_updates[e->b]++;
}

static void add_build(struct model *m, const struct ag_dump_event *e)
{
    m->build_ns += e->value;
    m->builds += e->what == AG_BUILT;
    m->builds_failed += e->what == AG_BUILT_FAILED;
    m->builds_put_off += e->what == AG_BUILT_PUT_OFF;
    if (e->a < m->d->num_graphs) {
        m->graphs[e->a].builds += e->what == AG_BUILT;
        m->graphs[e->a].failed += e->what == AG_BUILT_FAILED;
        m->graphs[e->a].build_ns += e->value;
    }
}

static void add_flush(struct adding *a, const struct dump_event *event)
{
    struct model *m = a->m;
    const struct ag_dump_event *e = &event->e;
    struct model_reason *r = reason_get(&m->flushes, e->a);
    struct caller *c = caller_get(a, event->thread);
    uint64_t covered = e->value & UINT32_MAX, ops = e->b;
    if (covered > ops)
        covered = ops;
    r->times++;
    r->ops += ops - covered;
    r->covered += covered;
    r->ns += host_ns(m, event, e->value >> 32);
    m->covered += covered;
    m->flushed += ops - covered;
    if (e->stream < m->num_streams)
        m->streams[e->stream].flushed += ops - covered;
    if (c->text == e->a)
        tally(&r->sites, c->site, m->d->num_sites);
    if (!strcmp(dump_string(m->d, e->a), "mismatch")) {
        a->departures += !c->departed;
        c->departed = e->a;
    }
}

static void add_sync_point(struct adding *a, const struct dump_event *event)
{
    struct model *m = a->m;
    const struct ag_dump_event *e = &event->e;
    struct model_reason *r = reason_get(&m->cuts, e->a);
    struct caller *c = caller_get(a, event->thread);
    struct life *life = &a->lives[e->reserved];
    m->sync_points++;
    r->times++;
    if (!e->stream) {
        r->ops_before += life->since;
        life->since = 0;
        life->round++;
    } else if (e->stream < m->num_streams) {
        uint64_t *ops = ops_since_sync_point(a, e);
        r->ops_before += *ops;
        life->since -= *ops;
        *ops = 0;
    }
    tally(&r->sites, e->b, m->d->num_sites);
    c->text = e->a;
    c->site = e->b;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The median of the eager calls: a first launch may take milliseconds. */
static void find_eager_cost(struct model *m)
{
    const struct dump *d = m->d;
    size_t n = 0;
    for (size_t i = 0; i < d->num_events; i++)
        n += d->events[i].e.kind == AG_EVENT_CALL;
    m->eager_is_assumed = !n;
    m->eager_ns = ASSUMED_EAGER_NS;
    if (!n)
        return;
    uint32_t *ns = need(malloc(n * sizeof(*ns)));
    n = 0;
    for (size_t i = 0; i < d->num_events; i++)
        if (d->events[i].e.kind == AG_EVENT_CALL) {
            ns[n++] = d->events[i].e.b;
            if (!handed_is_own(&m->handed, d->events[i].thread)) {
                m->eager_calls++;
                m->eager_total_ns += d->events[i].e.b;
            }
        }
    qsort(ns, n, sizeof(*ns), by_number);
    size_t middle = n / 2;
    m->eager_ns = ns[middle];
    free(ns);
}

static void add_event(struct adding *a, const struct dump_event *event)
{
    struct model *m = a->m;
    const struct ag_dump_event *e = &event->e;
    switch (e->kind) {
    case AG_EVENT_OP:
        add_op(a, event);
        break;
    case AG_EVENT_GRAPH:
        add_graph(m, event);
        break;
    case AG_EVENT_UPDATE:
        add_update(m, e);
        break;
    case AG_EVENT_BUILD:
        add_build(m, e);
        break;
    case AG_EVENT_FLUSH:
        add_flush(a, event);
        break;
    case AG_EVENT_SYNC_POINT:
        add_sync_point(a, event);
        break;
    case AG_EVENT_NOTE: /* that it replays nothing from here on */
        m->why = dump_string(m->d, e->a);
        break;
    case AG_EVENT_DROP:
        m->dropped += e->b;
        if (e->a < m->d->num_graphs)
            m->graphs[e->a].dropped = true;
        break;
    default:
        break;
    }
}

void model_add_events(struct model *m)
{
    find_eager_cost(m);
    struct adding a = {.m = m, .lives = need(calloc(m->d->num_processes, sizeof(*a.lives)))};
    for (size_t i = 0; i < m->d->num_events; i++)
        add_event(&a, &m->d->events[i]);
    m->replayed -= m->covered < m->replayed ? m->covered : m->replayed;
    free(a.lives);
    struct caller *c = a.list, *next;
    HASH_CLEAR(hh, a.list);
    for (; c; c = next) {
        next = c->hh.next;
        free(c);
    }
}
