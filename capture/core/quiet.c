/* quiet.c - see quiet.h. */
#include "capture/core/quiet.h"
#include "capture/core/branch.h"
#include "capture/core/flush.h"
#include "capture/settings/options.h"

_Atomic bool ag_quiet_any;

static void count_record(struct ag_stream *s)
{
    s->quiet += s->quiet < AG_QUIET_MOST * (int)ag_options.join;
}

void ag_quiet_recorded(struct ag_stream *s, CUevent event)
{
    struct ag_record last = {.stream = s, .serial = s->serial};
    bool begins = false, ends = false;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s))
        last.at = ag_stream_ops(s);
    if (ag_event_recorded(event, &last) && ag_options.join) {
        ends = ag_fork_is_alone(s) && s->quiet <= 0;
        count_record(s);
        begins = !ends && s->quiet >= (int)ag_options.join;
    }
    bool counts = s->quiet > 0;
    ag_unlock(&s->lock);
    if (counts && !atomic_load_explicit(&ag_quiet_any, memory_order_relaxed))
        atomic_store(&ag_quiet_any, true);
    if (ends)
        ag_branches_end(s);
    else if (begins)
        ag_branch_begins_alone(s);
}

bool ag_quiet_stays(struct ag_stream *s)
{
    if (!ag_fork_is_alone(s))
        return true;
    if (s->quiet <= 0)
        return false;
    count_record(s);
    return true;
}

/* `at`: ops of the stream before the record. */
static void count_ask(struct ag_stream *s, uint64_t at, bool query)
{
    uint64_t ops = ag_stream_ops(s);
    bool again = s->asked_at == at && s->asked_ops == ops; /* as in a loop that waits by queries */
    s->asked_at = at;
    s->asked_ops = ops;
    if (query && ops - at >= AG_QUIET_FAR && !again)
        return;
    if (ops != at)
        s->quiet = AG_QUIET_EARLY;
    else if (s->quiet > 0 && !again)
        s->quiet = s->quiet > AG_QUIET_AT_END ? s->quiet - AG_QUIET_AT_END : 0;
}

void ag_quiet_asked(const struct ag_record *last, const struct ag_stream *by, bool query)
{
    struct ag_stream *s = last->stream;
    if (!atomic_load_explicit(&ag_quiet_any, memory_order_relaxed) || !s || s == by ||
        atomic_load(&s->origin) || (by && atomic_load(&by->origin) == s))
        return;
    if (!ag_stream_lock_if_prompt(s))
        return; /* it is submitting; nobody is kept waiting for a count */
    /* What was recorded while the stream was a branch counts the ops of its origin. */
    if (ag_stream_is_live(s) && s->serial == last->serial && (!last->origin || last->origin == s) &&
        (!ag_stream_forks(s) || ag_fork_is_alone(s)))
        count_ask(s, last->at, query);
    ag_unlock(&s->lock);
}
