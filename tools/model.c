/* model.c - goes through the events once and adds them up. */
#include "tools/model.h"
#include "tools/names.h"
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* Where a dump holds no eager launch to compare with: what one takes on the host, measured
 * (docs/performance.md: 2.5 to 3.9 us). */
#define ASSUMED_EAGER_NS 3000.0
/* No program runs for ten years. */
#define LONGEST_NS (10ull * 366 * 86400 * 1000000000)

static void *need(void *p)
{
    if (!p) {
        fputs("autograph: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

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

static int by_times_met(const void *a, const void *b)
{
    const struct model_count *x = a, *y = b;
    return x->times < y->times ? 1 : x->times > y->times ? -1 : x->id < y->id ? -1 : 1;
}

static void sort_tally(struct model_tally *t)
{
    if (t->count)
        qsort(t->list, t->count, sizeof(*t->list), by_times_met);
}

static int by_ops(const void *a, const void *b)
{
    const struct model_reason *x = a, *y = b;
    if (x->ops != y->ops)
        return x->ops < y->ops ? 1 : -1;
    return x->times < y->times ? 1 : x->times > y->times ? -1 : 0;
}

static int by_times(const void *a, const void *b)
{
    const struct model_reason *x = a, *y = b;
    return x->times < y->times ? 1 : x->times > y->times ? -1 : 0;
}

static void sort_reasons(struct model_reasons *r, int (*order)(const void *, const void *))
{
    if (!r->count)
        return;
    qsort(r->list, r->count, sizeof(*r->list), order);
    for (uint32_t i = 0; i < r->count; i++) {
        sort_tally(&r->list[i].sites);
        sort_tally(&r->list[i].names);
    }
}

static void free_reasons(struct model_reasons *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        free(r->list[i].sites.list);
        free(r->list[i].sites.index);
        free(r->list[i].names.list);
        free(r->list[i].names.index);
    }
    free(r->list);
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

/* A thread's last sync point, which tells who flushed; and its last flush by a mismatch, which the
 * next op explains. */
struct caller {
    uint32_t thread, text, site;
    uint32_t departed; /* string of the reason, 0: none */
    bool of_program;   /* it made calls; else it is one of the library's own */
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

/* Finds the threads that are the program's. */
static void find_callers(struct adding *a)
{
    const struct dump *d = a->m->d;
    struct caller *c = NULL;
    for (size_t i = 0; i < d->num_events; i++) {
        const struct dump_event *event = &d->events[i];
        if (event->e.kind != AG_EVENT_OP && event->e.kind != AG_EVENT_SYNC_POINT)
            continue;
        if (!c || c->thread != event->thread)
            c = caller_get(a, event->thread);
        c->of_program = true;
    }
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

static void add_graph(struct adding *a, const struct dump_event *event)
{
    struct model *m = a->m;
    const struct ag_dump_event *e = &event->e;
    const struct dump_graph *g = dump_graph(m->d, e->a);
    if (e->a >= m->d->num_graphs || e->value >> 32)
        return;
    struct model_graph *mine = &m->graphs[e->a];
    mine->launches++;
    mine->updates += e->value & UINT32_MAX;
    if (e->what >= mine->variants)
        mine->variants = e->what + 1u;
    m->launches++;
    m->updates += e->value & UINT32_MAX;
    if (caller_get(a, event->thread)->of_program) {
        mine->host_ns += e->b;
        m->graph_ns += e->b;
    } else {
        m->own_launches++;
        m->own_ns += e->b;
    }
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
    r->ns += e->value >> 32;
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
        if (d->events[i].e.kind == AG_EVENT_CALL)
            m->eager_total_ns += ns[n++] = d->events[i].e.b;
    m->eager_calls = n;
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
        add_graph(a, event);
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

static void add_events(struct model *m)
{
    struct adding a = {.m = m, .lives = need(calloc(m->d->num_processes, sizeof(*a.lives)))};
    find_callers(&a);
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

/* ---- sequences -------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b, void *dump)
{
    const struct dump_graph *x = dump_graph(dump, *(const uint32_t *)a);
    const struct dump_graph *y = dump_graph(dump, *(const uint32_t *)b);
    if (x->d.stream != y->d.stream)
        return x->d.stream < y->d.stream ? -1 : 1;
    if (x->d.sequence != y->d.sequence)
        return x->d.sequence < y->d.sequence ? -1 : 1;
    if (x->d.first != y->d.first)
        return x->d.first < y->d.first ? -1 : 1;
    return x->d.id < y->d.id ? -1 : x->d.id > y->d.id;
}

static int by_saved(const void *a, const void *b)
{
    const struct model_sequence *x = a, *y = b;
    if (x->saved_ns != y->saved_ns)
        return x->saved_ns < y->saved_ns ? 1 : -1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static void add_to_sequence(struct model *m, struct model_sequence *s, uint32_t id)
{
    const struct dump_graph *g = dump_graph(m->d, id);
    const struct model_graph *mine = &m->graphs[id];
    s->num_graphs++;
    s->launches += mine->launches;
    s->carried += mine->launches * g->d.count;
    s->updates += mine->updates;
    s->host_ns += mine->host_ns;
    s->build_ns += mine->build_ns;
    s->builds += mine->builds;
    s->saved_ns += (double)(mine->launches * g->d.count) * m->eager_ns - (double)mine->host_ns;
}

static void find_sequences(struct model *m)
{
    const struct dump *d = m->d;
    uint32_t *ids = need(malloc((d->num_graphs + 1) * sizeof(*ids))), n = 0;
    for (uint32_t i = 1; i < d->num_graphs; i++)
        if (d->graphs[i].d.id)
            ids[n++] = i;
    qsort_r(ids, n, sizeof(*ids), by_place, (void *)(uintptr_t)d);
    m->sequences = need(calloc(n + 1, sizeof(*m->sequences)));
    for (uint32_t i = 0; i < n; i++) {
        const struct dump_graph *g = dump_graph(d, ids[i]);
        struct model_sequence *s = m->num_sequences ? &m->sequences[m->num_sequences - 1] : NULL;
        if (!s || s->key != g->d.sequence || s->stream != g->d.stream) {
            s = &m->sequences[m->num_sequences++];
            s->key = g->d.sequence;
            s->stream = g->d.stream;
            s->length = g->d.sequence_length;
            s->graphs = ids + i;
            s->processes = 1;
        }
        add_to_sequence(m, s, ids[i]);
    }
    for (uint32_t i = 0; i < m->num_sequences; i++)
        m->saved_ns += m->sequences[i].saved_ns;
    model_sort_sequences(m);
    m->sequence_graphs = ids;
}

void model_sort_sequences(struct model *m)
{
    if (m->num_sequences)
        qsort(m->sequences, m->num_sequences, sizeof(*m->sequences), by_saved);
}

/* ---- all of it -------------------------------------------------------------------------- */

/* The library says it at the end; of a process that did not come to its end the events tell. */
static void find_why(struct model *m)
{
    const struct model_reasons *lists[] = {&m->immediate, &m->eager};
    const struct model_reason *most = NULL;
    bool wanted = !strcmp(dump_process(m->d, "AUTOGRAPH"), "observe");
    if (*dump_said(m->d, "why not more"))
        m->why = dump_said(m->d, "why not more");
    m->advice = dump_said(m->d, "what to do");
    for (size_t k = 0; k < 2; k++)
        if (lists[k]->count && (!most || lists[k]->list[0].ops > most->ops))
            most = &lists[k]->list[0];
    if (wanted) {
        m->why = "AUTOGRAPH=observe replays nothing";
        m->advice = "`autograph replay` says what replaying would have done";
    } else if (!m->why) {
        m->why = most && model_falls_short(m) ? dump_string(m->d, most->text) : "";
    }
}

struct model *model_make(const struct dump *d)
{
    struct model *m = need(calloc(1, sizeof(*m)));
    m->d = d;
    if (d->num_events) {
        m->first_ns = d->events[0].e.time;
        m->last_ns = d->events[d->num_events - 1].e.time;
    }
    m->graphs = need(calloc(d->num_graphs + 1, sizeof(*m->graphs)));
    m->num_streams = d->num_streams;
    m->streams = need(calloc(d->num_streams + 1, sizeof(*m->streams)));
    m->signature_ops = need(calloc(d->num_signatures + 1, sizeof(*m->signature_ops)));
    find_eager_cost(m);
    add_events(m);
    find_sequences(m);
    sort_reasons(&m->flushes, by_ops);
    sort_reasons(&m->immediate, by_ops);
    sort_reasons(&m->eager, by_ops);
    sort_reasons(&m->cuts, by_times);
    find_why(m);
    return m;
}

bool model_falls_short(const struct model *m)
{
    return m->ops && model_coverage(m) < 95;
}

void model_free(struct model *m)
{
    for (uint32_t i = 0; i < m->d->num_graphs; i++)
        free(m->graphs[i].op_updates);
    free(m->sequence_graphs);
    free_reasons(&m->flushes);
    free_reasons(&m->immediate);
    free_reasons(&m->eager);
    free_reasons(&m->cuts);
    free(m->sequences);
    free(m->graphs);
    free(m->streams);
    free(m->signature_ops);
    free(m);
}

double model_share(uint64_t part, uint64_t whole)
{
    double share = whole ? 100.0 * (double)part / (double)whole : 0;
    return share < 100 ? share : 100; /* of a dump that contradicts itself */
}

double model_coverage(const struct model *m)
{
    return model_share(m->replayed + m->covered, m->ops);
}

/* What no run can have done. */
static bool contradicts_itself(const struct model *m)
{
    uint64_t ops = 0;
    for (uint32_t i = 1; i < m->num_streams; i++) {
        if (m->streams[i].carried + m->streams[i].flushed > m->streams[i].ops)
            return true;
        ops += m->streams[i].ops;
    }
    return m->replayed + m->covered + m->flushed > m->ops || ops > m->ops ||
           m->last_ns - m->first_ns > LONGEST_NS;
}

bool model_is_sound(const struct model *m)
{
    bool contradicts = contradicts_itself(m);
    if (contradicts)
        fprintf(stderr,
                "autograph: %s: its figures contradict each other (more launches by graphs than "
                "there were, or the like): do not rely on them\n",
                m->d->path);
    return !contradicts && !m->d->damaged;
}
