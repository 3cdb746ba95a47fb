/*
 * fork.h - streams that fork from another one and join it again, as in a stream capture.
 *
 * A program with two streams lets the second wait for an event of the first (it *forks*), and later
 * the first for an event of the second (it *joins*). If every record and every wait were a sync
 * point, such a program would get short graphs, several for each step. So the ops of the second
 * stream, a *branch*, go to the engine of the first, its *origin*, in the order of the program's
 * calls, and records and waits are ops as well. The key of an op says which branch it goes to, and
 * that of a wait how many records ago its event was recorded. So one graph holds the ops of all
 * branches, with the edges that the events give, and goes into the origin's stream.
 *
 * What a graph does in the origin's stream for a branch must also be ordered with what lies in the
 * branch's own stream:
 *
 *  - *behind*: the branch's stream holds work that the origin's has not waited for. It waits before
 *    the next graph that holds ops of this branch.
 *  - *ahead*: the branch's last work lies in a graph. Before anything else goes into the branch's
 *    own stream, that waits for `event`, which stands for the last such graph.
 *
 * A branch that a graph has waited for is no longer behind. But if threads share its stream, or one
 * has taken the fork over from another, every graph waits anew, as a call of another thread may be
 * on its way there. So do the first
 * AG_FORK_YOUNG graphs of any branch: before the fork, such a call may have passed unseen.
 *
 * Events of the program whose records are part of a graph stand for it as well: whoever waits for
 * one waits for no less than the program asked for. Most of them are for the fork's own waits
 * alone, which are edges of the graph, and each record behind a graph keeps the program's wait for
 * the GPU longer. So such a record is *due*: the driver gets it when somebody asks for the event,
 * or before anything but graphs of the fork goes into the origin's stream, or into one that the
 * legacy stream ties to it, as that may wait for the program, and the program for the event. A
 * record that is made only when further graphs have been launched comes late: the program then
 * waits for more than it asked for. So none is kept back while anybody asks for events of the fork:
 * at first, and for the next 1,024 records after somebody did.
 *
 * While a stream has branches it counts in ag_open_streams, so that no call passes by: not even one
 * that finds nothing held back, after which a branch is behind.
 *
 * Ownership: ag_stream.origin and .branch of a branch are set under its own lock, when nothing is
 * held back there, and cleared under the origin's. ag_stream_lock_home() takes the lock that
 * counts. `ahead`, `behind`, ag_stream.done and .num_due, and the events belong to whoever has the
 * origin's lock with its ring at rest, or the ring's role; everything else to the origin's lock.
 */
#pragma once

#include "capture/tracking/event.h"
#include "capture/tracking/stream.h"

enum {
    AG_BRANCHES = 8,
    AG_MOST_DISTANCE = 15,
    AG_MOST_DUE = 8,
    AG_MOST_EVENTS = 1024,
    AG_MOST_DOOMED = 64
};

struct ag_fork {
    uint64_t id; /* new each time that a fork begins, or loses a branch */
    struct ag_stream *streams[AG_BRANCHES]; /* the first is the origin */
    uint32_t width;                         /* how many these are */

    /* by whoever has the origin's lock */
    uint64_t records;               /* record ops that have come */
    CUevent events[AG_MOST_EVENTS]; /* ag_stream.noted; events[n % AG_MOST_EVENTS] of number n */
    bool is_record[AG_MOST_EVENTS]; /* the same: else it is a wait */
    _Atomic uint32_t doomed;        /* events that the program has destroyed since the fork began */

    /* by whoever has that lock with the ring at rest, or the ring's role */
    _Atomic uint64_t recorded; /* of `records`: the same as ag_stream.done */
    CUevent event, own;        /* for the last graph; for a branch that is waited for */
    bool event_is_due;
    uint32_t ahead, behind; /* bits by branch */
    CUevent due[AG_MOST_DUE];
    uint64_t due_numbers[AG_MOST_DUE]; /* which of `records` each of them is */
    uint64_t due_graphs[AG_MOST_DUE];  /* `graphs` when its graph had been launched */
    uint64_t graphs;
    uint64_t young[AG_BRANCHES]; /* until there have been so many, each waits for the branch */
    uint32_t prompt;             /* so many records go to the driver right behind their graphs */
    _Atomic uint32_t destroyed;  /* of `doomed` */

    /* Destroyed by the program when so many were noted: the driver destroys them once these are
     * done, as eagerly it would keep what its streams still need. */
    struct ag_doomed {
        CUevent event;
        uint64_t number; /* ag_event_ends_later() */
        uint64_t after;
    } list[AG_MOST_DOOMED];
};

/* Streams that have branches. */
extern _Atomic uint32_t ag_forks;

struct ag_stream *ag_stream_lock_origin(struct ag_stream *s, uint8_t *branch);
/* Takes the lock of the stream whose engine has this stream's ops, and returns that stream.
 * `*branch`, which is 0 before: which branch this one is; 0: it has no origin. */
static inline struct ag_stream *ag_stream_lock_home(struct ag_stream *s, uint8_t *branch)
{
    if (__builtin_expect(!atomic_load_explicit(&s->origin, memory_order_relaxed), 1)) {
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (__builtin_expect(!atomic_load_explicit(&s->origin, memory_order_relaxed), 1))
            return s;
        ag_unlock(&s->lock);
    }
    return ag_stream_lock_origin(s, branch);
}

/* Whether the stream has branches. It stays so while the caller holds its lock. */
static inline bool ag_stream_forks(const struct ag_stream *s)
{
    return atomic_load_explicit(&s->forks, memory_order_relaxed);
}

/* Finds a place for one more branch; 0: there is none. Others do not find the branch yet. The
 * caller holds the origin's lock, as for all of these. */
uint8_t ag_fork_add(struct ag_stream *origin, struct ag_stream *branch);
/* The stream forks without any branch: its records are ops (core/quiet.h). False: it cannot. */
bool ag_fork_begin_alone(struct ag_stream *origin);
/* Whether it forks so. */
static inline bool ag_fork_is_alone(const struct ag_stream *origin)
{
    return ag_stream_forks(origin) && origin->fork->width == 1;
}
/* The branch is one no longer. Nothing of it is held back. */
void ag_fork_remove(struct ag_stream *origin, uint8_t branch);
/* The same for all branches. Does nothing if there are none. */
void ag_fork_end(struct ag_stream *origin);
/* The stream, or its context, is about to end. */
void ag_fork_free(struct ag_stream *origin);

/* Whether there is room for one more record or wait. */
static inline bool ag_fork_has_room(const struct ag_stream *origin)
{
    return atomic_load_explicit(&origin->noted, memory_order_relaxed) -
               atomic_load_explicit(&origin->done, memory_order_acquire) <
           AG_MOST_EVENTS;
}
/* What is to be known of an event that is recorded next, in `stream`. */
static inline struct ag_record ag_fork_next_record(struct ag_stream *origin,
                                                   struct ag_stream *stream)
{
    const struct ag_fork *f = origin->fork;
    return (struct ag_record){.stream = stream,
                              .serial = stream->serial,
                              .origin = origin,
                              .fork = f->id,
                              .number = f->records + 1,
                              .context = stream->context->handle,
                              .at = ag_stream_ops(origin) + 1}; /* the record is one of them */
}
/* A record op has come, or one that waits. */
static inline void ag_fork_notes(struct ag_stream *origin, CUevent event, bool is_record)
{
    struct ag_fork *f = origin->fork;
    f->records += is_record;
    uint64_t noted = atomic_load_explicit(&origin->noted, memory_order_relaxed);
    f->events[noted % AG_MOST_EVENTS] = event;
    f->is_record[noted % AG_MOST_EVENTS] = is_record;
    atomic_store_explicit(&origin->noted, noted + 1, memory_order_release);
}
/* How many records ago that one was; more than AG_MOST_DISTANCE: it is not one of this fork, or too
 * long ago. */
static inline uint64_t ag_fork_distance(const struct ag_stream *origin,
                                        const struct ag_record *record)
{
    const struct ag_fork *f = origin->fork;
    return record->fork == f->id ? f->records - record->number : UINT64_MAX;
}
/* Whether the driver lacks records or waits of the stream's fork, due ones among them. Needs no
 * lock. */
static inline bool ag_fork_lacks_events(const struct ag_stream *origin)
{
    return atomic_load(&origin->noted) != atomic_load(&origin->done) ||
           atomic_load(&origin->num_due);
}
/* The same of that record's fork; and whether that record is held back with other ops. */
bool ag_fork_has_events(const struct ag_stream *origin, const struct ag_record *record);
bool ag_fork_holds(const struct ag_stream *origin, const struct ag_record *record);

/* The driver gets an op of this branch by itself. The caller is in the origin's context. */
void ag_fork_call_begins(struct ag_stream *origin, uint8_t branch);
/* The driver gets a graph with ops of these branches (bits), and has got it. If the graph stands
 * for a wait, it may be one for work of any branch: `waits`. The caller is in the origin's context.
 */
void ag_fork_graph_begins(struct ag_stream *origin, uint32_t branches, bool waits);
void ag_fork_graph_ends(struct ag_stream *origin, uint32_t branches);
/* The origin's stream has not waited for what has come into the branches' streams up to now. */
void ag_fork_is_behind(struct ag_stream *origin);
/* A thread has taken over from another. That one may go on with some of the branches, so a call of
 * its may be on its way into any of their streams, now and at any later time. */
void ag_fork_is_shared(struct ag_stream *origin);
/* The first record or wait that is not done; and it is now, as it has gone to the driver by itself.
 */
CUevent ag_fork_event(const struct ag_stream *origin);
void ag_fork_event_is_done(struct ag_stream *origin);
/* The first `n` are done: they are part of that graph. */
void ag_fork_events_are_in_graph(struct ag_stream *origin, uint32_t n);

/* The driver gets the records that are due: all of them, before something else goes into the
 * origin's stream; that of an event that the program asks for. It does not get that if the program
 * only asks whether the event is ready, and it is (ag_event_reached()). The ring is at rest. */
void ag_fork_catches_up(struct ag_stream *origin);
/* The same, and branches that are blocking streams wait for what they have in graphs: before
 * something goes into the legacy stream. */
void ag_fork_catches_up_with_branches(struct ag_stream *origin);
void ag_fork_shows(struct ag_stream *origin, CUevent event, bool queried);
/* The program destroys an event, and the driver does once it has all that has come up to now. False
 * if there are too many such events already. */
bool ag_fork_dooms(struct ag_stream *origin, CUevent event);
/* The event is about to be destroyed: nobody can ask for its record. */
void ag_fork_forgets(struct ag_stream *origin, CUevent event);
/* Whether the branch's work in graphs has ended. Waits for nothing. */
bool ag_fork_branch_is_done(struct ag_stream *origin, uint8_t branch);
