/*
 * branch.c - see branch.h.
 *
 * A stream becomes a branch of another once the two have forked and joined some times with nothing
 * but ops between: the second waited for an event of the first, and then the first for an event of
 * the second. So whoever waits for the first waits for the second as well, and it does no harm that
 * the first stream has the graphs of both. One thread launches to both.
 */
#include "capture/core/branch.h"
#include "capture/core/flush.h"
#include "capture/core/submitter.h"
#include "capture/graphs/pause.h"
#include "capture/settings/options.h"
#include "capture/tracking/count.h"
#include "capture/tracking/state.h"
#include "capture/tracking/streams.h"
#include "capture/tracking/waits.h"

/* ---- ops of a fork ------------------------------------------------------------------------- */

void ag_branch_calls(struct ag_stream *home, const struct ag_incoming *in)
{
    if (!ag_stream_forks(home)) /* its end has counted the call under way */
        return;
    struct ag_visit visit = ag_driver_enter(home);
    ag_fork_call_begins(home, in->branch);
    if (in->kind >= AG_OP_RECORD) {
        ag_fork_catches_up(home); /* as in ag_op_submit() */
        ag_fork_event_is_done(home);
    }
    ag_driver_leave(home, visit);
}

void ag_branch_passes(struct ag_stream *home, const struct ag_incoming *in)
{
    if (!ag_branch_concerns(home, in) || !ag_stream_is_live(home))
        return;
    ag_stream_end_segment(home);
    ag_branch_calls(home, in);
    if (in->branch)
        ag_branch_meets(home, in->branch, true);
}

void ag_branch_meets(struct ag_stream *home, uint8_t branch, bool foreign)
{
    if (!ag_stream_forks(home))
        return;
    if (foreign) {
        ag_branch_is_foreign(home->fork->streams[branch]);
        ag_fork_remove(home, branch);
        return;
    }
    struct ag_visit visit = ag_driver_enter(home);
    ag_fork_call_begins(home, branch);
    ag_driver_leave(home, visit);
}

void ag_forks_catch_up(void)
{
    if (!atomic_load(&ag_forks))
        return;
    struct ag_streams all = ag_streams_snapshot();
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        if (!ag_stream_forks(s) || !ag_fork_lacks_events(s))
            continue;
        ag_lock(&s->lock, AG_RANK_STREAM);
        if (ag_stream_is_live(s) && ag_stream_forks(s)) {
            ag_stream_submit(s, ag_stream_is_own(s));
            ag_branch_meets(s, 0, false);
        }
        ag_unlock(&s->lock);
    }
}

/* One thread may take a fork over from another, as PyTorch's does that computes gradients. But if
 * several threads launch in turn, the order of their calls differs from step to step. */
void ag_branch_changes_hands(struct ag_stream *s)
{
    uint8_t branch = 0;
    struct ag_stream *home = ag_stream_lock_home(s, &branch);
    if (ag_stream_is_live(home) && ag_stream_forks(home) && !ag_stream_is_own(home)) {
        uint64_t ops = ag_policy_counts(ag_engine_policy(&home->engine))->ops;
        bool in_turn = ops - home->taken_at < AG_FORK_TURN;
        home->taken_at = ops;
        atomic_store_explicit(&home->owner, ag_this_thread(), memory_order_relaxed);
        ag_thread.owned++;
        ag_submitter_settle(home);
        ag_fork_is_shared(home);
        if (in_turn) {
            for (int n = 1; n < AG_BRANCHES; n++)
                if (home->fork->streams[n])
                    ag_branch_is_foreign(home->fork->streams[n]);
            ag_stream_break(home);
            ag_fork_end(home);
        }
    }
    ag_unlock(&home->lock);
}

/* `wait`: those of other threads end later. */
static void end_forks(bool wait)
{
    if (!atomic_load(&ag_forks))
        return;
    struct ag_streams all = ag_streams_snapshot();
    for (size_t i = 0; i < all.n; i++)
        if (atomic_load(&ag_streams_at(&all, i)->origin))
            ag_branch_is_foreign(ag_streams_at(&all, i));
    for (struct ag_stream *s; (s = ag_streams_next(&all));) {
        const struct ag_stream *origin = atomic_load(&s->origin);
        bool forks = ag_stream_forks(s), own = ag_stream_is_own(origin ? origin : s);
        if (wait && !own && (origin || forks)) {
            atomic_fetch_or(&s->not_understood, AG_FORK_IS_OVER);
            if (forks)
                ag_count(AG_COUNT_FORK_ENDS_LATER);
        } else if (forks)
            ag_branches_end(s);
    }
}

void ag_forks_end(void)
{
    end_forks(false);
}

void ag_forks_end_for_wait(void)
{
    end_forks(true);
}

void ag_branch_is_over(struct ag_stream *s)
{
    atomic_fetch_and(&s->not_understood, (uint8_t)~AG_FORK_IS_OVER);
    ag_branches_end(s);
}

/* What waits for an event that another process has recorded may wait for what this process does
 * behind another stream of the fork. */
static _Atomic bool shared_events;

void ag_forks_meet_shared_events(void)
{
    atomic_store(&shared_events, true);
    ag_forks_end_for_wait();
}

/* ---- which streams ------------------------------------------------------------------------- */

static bool is_plain(const struct ag_stream *s)
{
    return !atomic_load(&s->not_understood) && !s->in_order && !s->thread && ag_stream_is_own(s) &&
           !ag_dormant_is_active(&s->dormant);
}

/* Whether the ops of `b` may go into the stream `a`: their priority is the same, and both are
 * blocking streams or neither is. `a` may be the legacy stream, of whose fork ops of blocking
 * streams make an end (ag_flush_for_order()). */
static bool fits(const struct ag_stream *a, const struct ag_stream *b)
{
    return a->context == b->context && a->priority == b->priority && !b->legacy &&
           a->blocking == b->blocking && is_plain(a) && is_plain(b);
}

/* `b` becomes a branch of `a`, if nothing has changed meanwhile. */
static void join(struct ag_stream *a, struct ag_stream *b)
{
    uint8_t n = 0;
    ag_lock(&a->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(a) && !atomic_load(&a->origin) && fits(a, b) && !ag_state_is_eager()) {
        ag_submitter_settle(a);
        n = ag_fork_add(a, b);
    }
    ag_unlock(&a->lock);
    if (!n)
        return;
    ag_lock(&b->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(b) && ag_fork_is_alone(b)) {
        ag_stream_end_segment(b);
        ag_fork_end(b);
    }
    /* another thread may have ended it, and made another stream in its place */
    bool joins =
        ag_stream_is_live(b) && !atomic_load(&b->origin) && !ag_stream_forks(b) && fits(a, b);
    if (joins) {
        ag_stream_end_segment(b); /* behind which it may go dormant, to be compared (weigh.h) */
        joins = !ag_dormant_is_active(&b->dormant);
    }
    if (joins) {
        b->branch = n;
        atomic_store_explicit(&b->origin, a, memory_order_release);
    }
    ag_unlock(&b->lock);
    ag_lock(&a->lock, AG_RANK_STREAM);
    /* another thread may have ended the fork before it was complete */
    bool lasts = ag_stream_forks(a) && a->fork->streams[n] == b;
    if (lasts && joins) { /* a graph may have been launched since it was added */
        ag_submitter_settle(a);
        ag_fork_is_behind(a);
    }
    if (lasts && !joins && ag_stream_is_live(a)) {
        ag_stream_break(a); /* the records that it holds back are of the fork as it was */
        ag_fork_remove(a, n);
    } else if (!lasts && joins && atomic_load(&b->origin) == a)
        atomic_store_explicit(&b->origin, NULL, memory_order_release);
    ag_unlock(&a->lock);
}

bool ag_nothing_waits(void)
{
    if (!ag_pause_enter())
        return false;
    bool rest = ag_waits_at_rest();
    ag_pause_leave();
    return rest;
}

void ag_branch_waited(struct ag_stream *s, struct ag_stream *of, uint64_t serial)
{
    if (s == of || !ag_options.join || ag_state_builds_nothing())
        return;
    struct ag_stream *a = atomic_load(&s->origin), *b = of;
    a = a ? a : s;
    if (atomic_load(&b->origin)) /* it is a branch, of this one or of another */
        return;
    ag_lock(&b->lock, AG_RANK_STREAM);
    bool plain = b->serial == serial && ag_stream_is_live(b) && is_plain(b), enough = false;
    if (plain) {
        enough = atomic_load(&b->suitor) == a && b->forked && ++b->suits >= ag_options.join;
        b->forked = false;
    }
    /* the stream that was there first is the origin, as its steps mostly begin there */
    bool fit = enough && fits(a, b) && (a->serial < serial || !fits(b, a));
    ag_unlock(&b->lock);
    if (!plain)
        return;
    if (enough && atomic_load(&shared_events)) {
        ag_count(AG_COUNT_SHARED_EVENTS);
        return;
    }
    if (fit && ag_nothing_waits()) {
        join(a, b);
        /* another thread's wait has begun, and may have missed the fork */
        if (!ag_nothing_waits() || atomic_load(&shared_events))
            ag_branches_end(b);
    }
    of = atomic_load(&of->origin) ? atomic_load(&of->origin) : of;
    if (atomic_load(&s->origin) || s == of)
        return;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (atomic_exchange(&s->suitor, of) != of)
        s->suits = 0;
    s->forked = true;
    ag_unlock(&s->lock);
}

void ag_branch_begins_alone(struct ag_stream *s)
{
    bool begins = false;
    if (ag_state_builds_nothing() || !is_plain(s) || !ag_nothing_waits())
        return;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s) && !atomic_load(&s->origin) && is_plain(s) && !ag_state_is_eager()) {
        ag_submitter_settle(s);
        begins = ag_fork_begin_alone(s);
    }
    ag_unlock(&s->lock);
    if (begins && !ag_nothing_waits()) /* as in ag_branch_waited() */
        ag_branches_end(s);
}
