/* streams.c - see streams.h. */
#include "capture/tracking/streams.h"
#include <stdlib.h>
#include <string.h>

size_t ag_streams_count(void)
{
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    size_t n = ag_stream_table.count - ag_stream_table.parked;
    ag_unlock(&ag_stream_table.lock);
    return n;
}

/* Lists for use without memory: deferred ops must be found even then. They may be too short for all
 * streams, and then have the newest of those that are wanted. Under the table's lock. */
enum { SPARES = 4, SPARE_STREAMS = 1024 };
static struct ag_stream *spares[SPARES][SPARE_STREAMS];
static bool spare_taken[SPARES];

static struct ag_stream **spare_list(void)
{
    for (int i = 0; i < SPARES; i++)
        if (!spare_taken[i]) {
            spare_taken[i] = true;
            return spares[i];
        }
    return NULL;
}

/* Whether the list was a spare one. */
static bool spare_back(struct ag_stream **list)
{
    for (int i = 0; i < SPARES; i++)
        if (list == spares[i]) {
            ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
            spare_taken[i] = false;
            ag_unlock(&ag_stream_table.lock);
            return true;
        }
    return false;
}

static bool is_idle(const struct ag_stream *s)
{
    return !atomic_load(&s->open) && !atomic_load(&s->deferring) && !atomic_load(&s->forks);
}

/* Takes a stream that is idle out of the list of busy ones (stream.h). Under the table's lock. */
static bool leaves_list(struct ag_stream *s)
{
    if (!is_idle(s))
        return false;
    atomic_store(&s->listed, false);
    if (!is_idle(s)) {
        atomic_store(&s->listed, true);
        return false;
    }
    ag_stream_unlist(s);
    return true;
}

enum wanted { OWN = 1, DEFERRING = 2, IDLE = 4, ALL = 8, BUSY = 16 };

/* Own ones, those that have ops deferred, or both. */
static bool is_wanted(const struct ag_stream *s, unsigned int wanted)
{
    if (wanted & (ALL | BUSY))
        return true;
    bool defers = wanted & DEFERRING && atomic_load(&s->deferring);
    return defers || (wanted & OWN && ag_stream_is_own(s));
}

/* The list, which is full, gets room for `most` streams: the new room, or 0 if there is none. */
static size_t grow(struct ag_streams *all, size_t most)
{
    if (all->more)
        return 0;
    all->more = malloc(most * sizeof(*all->more));
    if (!all->more) {
        all->more = spare_list();
        most = SPARE_STREAMS;
    }
    if (!all->more)
        return 0;
    memcpy(all->more, all->few, sizeof(all->few));
    return most;
}

/* Without IDLE or ALL it goes through those that are listed as busy alone. */
static struct ag_streams snapshot(unsigned int wanted)
{
    struct ag_streams all = {.n = 0, .next = 0, .lacks = false, .more = NULL};
    bool idle = wanted & (IDLE | ALL);
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    size_t most = idle ? ag_stream_table.count : ag_stream_table.num_busy, room = AG_STREAMS_FEW;
    struct ag_stream *s = idle ? ag_stream_table.newest : ag_stream_table.busy;
    for (struct ag_stream *next; s; s = next) {
        next = idle ? s->next : s->busy_next;
        if ((!idle && leaves_list(s)) || !is_wanted(s, wanted))
            continue;
        if (all.n == room && !(room = grow(&all, most))) {
            all.lacks = true;
            break;
        }
        atomic_fetch_add(&s->references, 1);
        (all.more ? all.more : all.few)[all.n++] = s;
    }
    ag_unlock(&ag_stream_table.lock);
    return all;
}

uint64_t ag_streams_latest(void)
{
    ag_lock(&ag_stream_table.lock, AG_RANK_STREAMS);
    uint64_t serial = ag_stream_table.last_serial;
    ag_unlock(&ag_stream_table.lock);
    return serial;
}

struct ag_streams ag_streams_snapshot(void)
{
    return snapshot(ALL);
}

struct ag_streams ag_streams_busy(void)
{
    return snapshot(BUSY);
}

struct ag_streams ag_streams_deferring(void)
{
    return snapshot(DEFERRING);
}

struct ag_streams ag_streams_concerned(bool deferring, bool idle)
{
    return snapshot(OWN | (deferring ? DEFERRING : 0u) | (idle ? IDLE : 0u));
}

void ag_streams_done(struct ag_streams *all)
{
    for (size_t i = 0; i < all->n; i++)
        ag_stream_release(ag_streams_at(all, i));
    if (all->more && !spare_back(all->more))
        free(all->more);
    all->more = NULL;
    all->n = all->next = 0;
}

struct ag_stream *ag_streams_next(struct ag_streams *all)
{
    if (all->next < all->n)
        return ag_streams_at(all, all->next++);
    ag_streams_done(all);
    return NULL;
}
