/* model.c - see model.h. Begins with the events (model_events.c); then finds the sequences, and
 * sorts. */
#include "tools/model.h"
#include "tools/need.h"
#include <stdlib.h>
#include <string.h>

/* No program runs for ten years. */
#define LONGEST_NS (10ull * 366 * 86400 * 1000000000)

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

/* ---- reasons ---------------------------------------------------------------------------- */

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

/* ---- all of it -------------------------------------------------------------------------- */

/* The library writes it at the end. For a process that did not come to its end, it follows from the
 * events. */
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
    if (!handed_find(&m->handed, d))
        need(NULL);
    model_add_events(m);
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
    handed_free(&m->handed);
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
    return share < 100 ? share : 100; /* of a dump that misses ops or contradicts itself */
}

double model_coverage(const struct model *m)
{
    return model_share(m->replayed + m->covered, m->ops);
}

/* What no run can have done. */
static bool contradicts_itself(const struct model *m)
{
    if (m->last_ns - m->first_ns > LONGEST_NS)
        return true;
    if (!dump_is_whole(m->d))
        return false; /* it may miss the ops that a graph carried */
    for (uint32_t i = 1; i < m->num_streams; i++)
        if (m->streams[i].carried + m->streams[i].flushed > m->streams[i].ops)
            return true;
    return m->replayed + m->covered + m->flushed > m->ops;
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
