/* handed.c - see handed.h. */
#include "tools/handed.h"
#include "tools/dump_merge.h"
#include <stdlib.h>
#include <uthash.h>

struct handed_chunk {
    uint32_t thread;
    bool is_due;
    uint64_t ns;
    UT_hash_handle hh;
};

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int by_thread(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void add_thread(struct handed *h, uint32_t thread)
{
    if (h->num_threads < DUMP_MOST_PROCESSES && !handed_is_own(h, thread)) {
        h->threads[h->num_threads++] = thread;
        qsort(h->threads, h->num_threads, sizeof(*h->threads), by_thread);
    }
}

static void add_launch(struct handed *h, const struct dump *d, const struct ag_dump_event *e)
{
    if (e->a >= d->num_graphs || e->value >> 32)
        return;
    h->own_launches++;
    h->own_ops += dump_graph(d, e->a)->d.count;
    h->own_ns += e->b;
}

/* `waits` are as many as there are slots. */
static void find_waits(struct handed *h, uint64_t *waits)
{
    qsort(waits, h->slots, sizeof(*waits), by_number);
    h->median_ns = waits[h->slots / 2];
    h->p99_ns = waits[h->slots - 1 - h->slots / 100];
    h->longest_ns = waits[h->slots - 1];
}

static void add_taken(struct handed *h, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    bool own = e->what == AG_TAKEN_BY_SUBMITTER;
    if (e->a) {
        h->chunks++;
        h->ops += e->b;
        h->taken_back += !own;
    } else {
        h->singles++;
        h->own_singles += own;
    }
    if (own)
        add_thread(h, event->thread);
}

bool handed_find(struct handed *h, const struct dump *d)
{
    size_t n = 0;
    uint64_t told_ns = 0;
    *h = (struct handed){.num_threads = 0};
    for (size_t i = 0; i < d->num_events; i++)
        n += d->events[i].e.kind == AG_EVENT_TAKEN;
    if (!n)
        return true;
    uint64_t *waits = malloc(n * sizeof(*waits));
    h->threads = malloc(DUMP_MOST_PROCESSES * sizeof(*h->threads));
    for (size_t i = 0; waits && h->threads && i < d->num_events; i++) {
        const struct ag_dump_event *e = &d->events[i].e;
        if (e->kind == AG_EVENT_GRAPH && handed_is_own(h, d->events[i].thread))
            add_launch(h, d, e);
        if (e->kind == AG_EVENT_SUBMITTER) {
            add_thread(h, d->events[i].thread);
            told_ns = e->value;
        }
        if (e->kind != AG_EVENT_TAKEN)
            continue;
        waits[h->slots++] = e->value;
        add_taken(h, &d->events[i]);
    }
    bool good = waits && h->threads;
    if (good)
        find_waits(h, waits);
    free(waits);
    h->submit_ns = dump_counter(d, "SUBMIT_NS");
    h->knows_submit_ns = *dump_said(d, "SUBMIT_NS");
    if (!h->knows_submit_ns && d->num_processes <= 1) { /* it did not come to its end */
        h->submit_ns = told_ns;
        h->knows_submit_ns = told_ns;
    }
    h->gained_ns = dump_counter(d, "handed_gained_ns");
    h->percent = d->num_processes > 1 ? 0 : dump_counter(d, "SUBMIT_PERCENT");
    return good;
}

bool handed_follow(struct handed *h, const struct dump_event *event, uint64_t *ns)
{
    const struct ag_dump_event *e = &event->e;
    struct handed_chunk *chunk;
    bool takes = e->kind == AG_EVENT_TAKEN;
    if (!h->slots || (!takes && e->kind != AG_EVENT_GRAPH && e->kind != AG_EVENT_FLUSH &&
                      e->kind != AG_EVENT_CALL))
        return false;
    HASH_FIND(hh, h->taken, &event->thread, sizeof(event->thread), chunk);
    if (!chunk) {
        if (!takes || !(chunk = calloc(1, sizeof(*chunk))))
            return false;
        chunk->thread = event->thread;
        HASH_ADD(hh, h->taken, thread, sizeof(chunk->thread), chunk);
    }
    bool waited = chunk->is_due && !takes;
    if (takes)
        chunk->ns = e->value;
    *ns = chunk->ns;
    /* a launch that was refused is followed by a flush */
    chunk->is_due = takes || (waited && e->kind == AG_EVENT_GRAPH && e->value >> 32);
    return waited;
}

void handed_free(struct handed *h)
{
    struct handed_chunk *chunk = h->taken, *next;
    HASH_CLEAR(hh, h->taken);
    for (; chunk; chunk = next) {
        next = chunk->hh.next;
        free(chunk);
    }
    free(h->threads);
    h->threads = NULL;
    h->num_threads = 0;
}

bool handed_is_own(const struct handed *h, uint32_t thread)
{
    return h->num_threads &&
           bsearch(&thread, h->threads, h->num_threads, sizeof(thread), by_thread);
}
