/* event_call.c - the program's calls on events. Records and waits may be ops of streams that fork
 * and join; a call that could notice that such a record is held back submits it first. */
#include "capture/core/branch.h"
#include "capture/core/flush.h"
#include "capture/core/launch.h"
#include "capture/core/quiet.h"
#include "capture/tracking/event.h"
#include "capture/tracking/state.h"

/* Whether it can matter that somebody asks for an event: some stream forks, or its records count.
 */
static bool asks_matter(void)
{
    return atomic_load(&ag_forks) || atomic_load_explicit(&ag_quiet_any, memory_order_relaxed);
}

enum reason { ASKED, RECORDED };

/* Submits what holds back records of the event, or waits for it. The driver gets its last record.
 * `last`: what is known of it.
 */
static void settle(CUevent event, const struct ag_record *last, enum reason reason)
{
    struct ag_stream *origin = last->origin;
    if (!origin)
        return;
    if (reason == ASKED)
        atomic_store(&origin->asked_for, true);
    /* another thread may have the lock for long */
    if (!ag_fork_lacks_events(origin) || (reason == ASKED && last->told))
        return;
    if (ag_thread.in_host_function)
        ag_flush_await(origin);
    ag_lock(&origin->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(origin) && ag_fork_has_events(origin, last) &&
        !(ag_thread.in_host_function && ag_fork_holds(origin, last))) {
        ag_stream_submit(origin, ag_stream_is_own(origin));
        ag_fork_shows(origin, event, false);
    }
    ag_unlock(&origin->lock);
}

/* Whether a record or a wait is an op of a fork, and noted as such. `last`: what a wait waits for.
 * The caller holds the lock. */
static bool is_op(struct ag_stream *home, struct ag_stream *s, struct ag_incoming *in,
                  const struct ag_record *last)
{
    CUevent event = in->event->event;
    bool is_record = in->kind == AG_OP_RECORD;
    if (ag_state_is_eager() || !ag_stream_forks(home) || !ag_incoming_is_of(in, home) ||
        !ag_fork_has_room(home))
        return false;
    if (is_record) {
        struct ag_record record = ag_fork_next_record(home, s);
        if (!ag_quiet_stays(home) || !ag_event_recorded(event, &record))
            return false;
    } else {
        uint64_t distance = ag_fork_distance(home, last);
        if (distance > AG_MOST_DISTANCE || last->outdated)
            return false;
        in->distance = (uint16_t)distance;
    }
    ag_fork_notes(home, event, is_record);
    return true;
}

/* Whether a record or a wait goes with the ops of a fork. If so, it is done. */
static bool goes_with_ops(struct ag_stream *s, struct ag_incoming *in, struct ag_record *last,
                          CUresult *result)
{
    const struct ag_stream *origin = s ? atomic_load(&s->origin) : NULL;
    if (!s || in->event->flags || (!origin && !ag_stream_forks(s)))
        return false;
    if (in->kind == AG_OP_RECORD && atomic_load(&ag_forks) > 1 &&
        ag_event_find(in->event->event, last) && last->origin != (origin ? origin : s))
        settle(in->event->event, last,
               RECORDED); /* else that fork might record it behind this one */
    if (atomic_load(&s->not_understood) & AG_FORK_IS_OVER)
        ag_branch_is_over(s);
    if (s->legacy || s->blocking)
        ag_flush_for_order(s);
    ag_stream_set_owner(s);
    struct ag_stream *home = ag_stream_lock_home(s, &in->branch);
    if (!is_op(home, s, in, last)) {
        ag_unlock(&home->lock);
        in->branch = 0;
        return false;
    }
    home->ties++;
    *result = ag_incoming_of_fork(home, in);
    return true;
}

/* It has been done, and was a sync point. */
static void was_called(struct ag_stream *s, const struct ag_incoming *in,
                       const struct ag_record *last)
{
    bool seen = s && !ag_state_bypasses();
    if (in->kind == AG_OP_RECORD && seen && !in->event->flags)
        ag_quiet_recorded(s, in->event->event);
    else if (in->kind == AG_OP_RECORD)
        ag_event_recorded(in->event->event, &(struct ag_record){.serial = 0});
    else if (seen && last->stream && !last->outdated)
        ag_branch_waited(s, last->stream, last->serial);
}

CUresult ag_core_event_call(const struct ag_event_call *call)
{
    bool waits =
        call->sym == AG_SYM_cuStreamWaitEvent || call->sym == AG_SYM_cuStreamWaitEvent_ptsz;
    struct ag_incoming in = {.kind = waits ? AG_OP_WAIT : AG_OP_RECORD, .event = call};
    struct ag_stream *s = ag_stream_find(call->stream, call->ptsz);
    struct ag_record last = {.serial = 0};
    CUresult r;
    if (ag_event_is_ending(call->event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (waits) {
        ag_event_find(call->event, &last);
        ag_quiet_asked(&last, s, false);
    }
    if (!ag_state_bypasses() && !ag_thread.in_host_function && goes_with_ops(s, &in, &last, &r))
        return r;
    if (!waits && atomic_load(&ag_forks))
        ag_event_find(call->event, &last);
    settle(call->event, &last, waits ? ASKED : RECORDED);
    CUresult pending = ag_core_stream_sync_point(call->stream, call->ptsz, call->sym, false);
    r = ag_call_make(&in);
    if (r == CUDA_SUCCESS)
        was_called(s, &in, &last);
    if (__builtin_expect(r == CUDA_SUCCESS && pending == CUDA_SUCCESS, 1))
        return CUDA_SUCCESS;
    return ag_core_stream_first_error(call->stream, call->ptsz, r, pending);
}

/* ---- other calls on events ----------------------------------------------------------------- */

/* Whether something that is held back still needs the event. If so, it ends later. The caller holds
 * the lock. */
static bool is_needed(struct ag_stream *origin, CUevent event, const struct ag_record *last)
{
    if (!ag_stream_is_live(origin) || !ag_fork_has_events(origin, last))
        return false;
    if (ag_fork_dooms(origin, event))
        return true;
    ag_stream_submit(origin, ag_stream_is_own(origin));
    ag_fork_forgets(origin, event);
    return false;
}

/* The context of an event does not end while the caller has its origin's lock. Until then the event
 * stays in the list, where the end of the context finds it. */
static void end_what_is_left(void)
{
    struct ag_record last;
    CUevent event;
    uint64_t number;
    if (ag_thread.in_host_function)
        return;
    for (uint32_t n = ag_events_left(); n && ag_event_first_left(&event, &number, &last); n--) {
        if (!ag_stream_lock_if_prompt(last.origin))
            break;
        if (ag_event_take_left(event, number) && !is_needed(last.origin, event, &last))
            ag_event_destroy(event, number);
        ag_unlock(&last.origin->lock);
    }
}

void ag_core_event_made(CUevent event, unsigned int flags)
{
    ag_event_made(event, ag_context_current(), flags); /* first: its handle may be of one left */
    end_what_is_left();
    if (flags & CU_EVENT_INTERPROCESS)
        ag_forks_meet_shared_events();
}

void ag_core_event_settles(CUevent event)
{
    struct ag_record last;
    if (!asks_matter() || !ag_event_find(event, &last))
        return;
    ag_quiet_asked(&last, NULL, false);
    settle(event, &last, ASKED);
}

bool ag_core_event_is_ending(CUevent event)
{
    return ag_event_is_ending(event);
}

/* The call does not wait for a thread that waits in the driver, for room in a queue. */
bool ag_core_event_ends(CUevent event)
{
    struct ag_record last;
    bool later = false;
    end_what_is_left();
    if (atomic_load(&ag_forks) && ag_event_find(event, &last) && last.origin &&
        ag_fork_lacks_events(last.origin)) {
        if (!ag_thread.in_host_function && ag_stream_lock_if_prompt(last.origin)) {
            later = is_needed(last.origin, event, &last);
            ag_unlock(&last.origin->lock);
        } else {
            later = true;
            ag_event_is_left(event);
        }
    }
    if (!later)
        ag_event_ends(event);
    return later;
}

CUresult ag_core_event_query(CUevent event)
{
    struct ag_record last;
    if (ag_event_is_ending(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!asks_matter() || !ag_event_find(event, &last))
        return CUDA_SUCCESS;
    ag_quiet_asked(&last, NULL, true);
    if (!last.origin)
        return CUDA_SUCCESS;
    struct ag_stream *origin = last.origin;
    atomic_store(&origin->asked_for, true);
    if (!ag_fork_lacks_events(origin) || last.told || last.passed)
        return CUDA_SUCCESS;
    bool ready = true;
    if (!ag_stream_lock_if_prompt(origin))
        return CUDA_ERROR_NOT_READY;
    if (ag_stream_is_live(origin) && ag_fork_has_events(origin, &last)) {
        if (ag_fork_holds(origin, &last) && !ag_stream_is_own(origin))
            ready = false; /* the watchdog submits it */
        else
            ready = ag_stream_end_segment_if_prompt(origin);
        if (ready)
            ag_fork_shows(origin, event, true);
    }
    ag_unlock(&origin->lock);
    return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

bool ag_core_event_has_passed(CUevent event)
{
    struct ag_record last;
    return ag_event_find(event, &last) && last.passed && !last.outdated;
}

void ag_core_events_unseen(void)
{
    ag_forks_catch_up(); /* this one's record may be among them */
    ag_events_unseen();
}
