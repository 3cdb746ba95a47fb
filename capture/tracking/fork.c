/* fork.c - see fork.h. */
#include "capture/tracking/fork.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "capture/tracking/count.h"
#include <stdlib.h>

_Atomic uint32_t ag_forks;

/* It has had another origin, or none. Not inlined: its registers would be saved at each launch. */
static __attribute__((noinline)) struct ag_stream *
lock_again(struct ag_stream *s, struct ag_stream *had, uint8_t *branch)
{
    ag_unlock(&had->lock);
    return ag_stream_lock_home(s, branch);
}

struct ag_stream *ag_stream_lock_origin(struct ag_stream *s, uint8_t *branch)
{
    struct ag_stream *origin = atomic_load(&s->origin), *home = origin ? origin : s;
    ag_lock(&home->lock, AG_RANK_STREAM);
    if (__builtin_expect(atomic_load(&s->origin) != origin, 0))
        return lock_again(s, home, branch);
    *branch = origin ? s->branch : 0;
    return home;
}

/* ---- order between a branch's stream and its origin's -------------------------------------- */

/* `stream` waits for all that is in `other` now. Where the driver refuses, the caller waits itself.
 */
static void waits_for_all(CUstream stream, CUstream other, CUevent event)
{
    if (AG_REAL(cuEventRecord)(event, other) != CUDA_SUCCESS ||
        AG_REAL(cuStreamWaitEvent)(stream, event, 0) != CUDA_SUCCESS)
        AG_REAL(cuStreamSynchronize)(other);
}

/* Behind all that is in the origin's stream. Where the driver refuses, the caller waits itself. */
static void record(struct ag_fork *f, CUevent event)
{
    if (AG_REAL(cuEventRecord)(event, f->streams[0]->handle) != CUDA_SUCCESS)
        AG_REAL(cuStreamSynchronize)(f->streams[0]->handle);
}

/* How many of ag_stream.noted are done, and how many records are due. */
static uint64_t num_done(const struct ag_fork *f)
{
    return atomic_load_explicit(&f->streams[0]->done, memory_order_relaxed);
}

static uint32_t dues(const struct ag_fork *f)
{
    return atomic_load_explicit(&f->streams[0]->num_due, memory_order_relaxed);
}

static bool blocking_branch_is_ahead(const struct ag_fork *f)
{
    for (uint32_t left = f->ahead; left; left &= left - 1)
        if (f->streams[__builtin_ctz(left)]->blocking)
            return true;
    return false;
}

/* What is not in the driver yet, and must be before anything that the legacy stream orders behind
 * it: records of the program's that are due, the fork's own, and the wait of a branch. */
static void set_due(struct ag_fork *f, uint32_t num_due, bool event_is_due)
{
    struct ag_stream *origin = f->streams[0];
    _Atomic uint32_t *held = ag_stream_held(origin);
    bool any = num_due || event_is_due || (held && blocking_branch_is_ahead(f));
    atomic_store_explicit(&origin->num_due, num_due, memory_order_release);
    f->event_is_due = event_is_due;
    if (any == atomic_load_explicit(&origin->due, memory_order_relaxed))
        return;
    atomic_store(&origin->due, any);
    if (held)
        atomic_fetch_add(held, any ? 1u : UINT32_MAX);
}

static void set_num_due(struct ag_fork *f, uint32_t n)
{
    set_due(f, n, f->event_is_due);
}

static void record_own_event(struct ag_fork *f)
{
    if (!f->event_is_due)
        return;
    record(f, f->event);
    set_due(f, dues(f), false);
}

/* The branch's own stream goes on behind its work in graphs. */
static void release(struct ag_fork *f, uint8_t branch)
{
    if (!(f->ahead & 1u << branch))
        return;
    record_own_event(f);
    if (AG_REAL(cuStreamWaitEvent)(f->streams[branch]->handle, f->event, 0) != CUDA_SUCCESS)
        AG_REAL(cuStreamSynchronize)(f->streams[0]->handle);
    f->ahead &= ~(1u << branch);
    set_num_due(f, dues(f));
}

void ag_fork_call_begins(struct ag_stream *origin, uint8_t branch)
{
    struct ag_fork *f = origin->fork;
    if (!branch) {
        ag_fork_catches_up(origin);
        return;
    }
    release(f, branch);
    f->behind |= 1u << branch;
}

void ag_fork_graph_begins(struct ag_stream *origin, uint32_t branches, bool waits)
{
    struct ag_fork *f = origin->fork;
    if (waits)
        branches = UINT32_MAX;
    for (uint32_t left = f->behind & branches; left; left &= left - 1) {
        int n = __builtin_ctz(left);
        waits_for_all(origin->handle, f->streams[n]->handle, f->own);
        /* another thread's call may still be on its way there */
        if (!atomic_load(&f->streams[n]->shared) && f->graphs >= f->young[n])
            f->behind &= ~(1u << n);
    }
}

void ag_fork_is_behind(struct ag_stream *origin)
{
    struct ag_fork *f = origin->fork;
    for (int n = 1; n < AG_BRANCHES; n++)
        if (f->streams[n])
            f->behind |= 1u << n;
}

void ag_fork_is_shared(struct ag_stream *origin)
{
    ag_fork_is_behind(origin);
    for (int n = 1; n < AG_BRANCHES; n++)
        if (origin->fork->streams[n])
            atomic_store(&origin->fork->streams[n]->shared, true);
}

void ag_fork_graph_ends(struct ag_stream *origin, uint32_t branches)
{
    struct ag_fork *f = origin->fork;
    f->graphs++;
    branches &= ~1u;
    if (!branches)
        return;
    f->ahead |= branches;
    set_due(f, dues(f), true);
}

/* ---- the program's events ------------------------------------------------------------------ */

/* Its place; AG_MOST_DUE: it is not there. */
static uint32_t place_of(const CUevent *list, uint32_t n, CUevent event)
{
    for (uint32_t i = 0; i < n && i < AG_MOST_DUE; i++)
        if (list[i] == event)
            return i;
    return AG_MOST_DUE;
}

static void drop_due(struct ag_fork *f, CUevent event)
{
    uint32_t n = dues(f), place = place_of(f->due, n, event);
    if (place == AG_MOST_DUE)
        return;
    f->due[place] = f->due[n - 1];
    f->due_numbers[place] = f->due_numbers[n - 1];
    f->due_graphs[place] = f->due_graphs[n - 1];
    set_num_due(f, n - 1);
}

/* The driver destroys the events that the program has destroyed and nothing needs any more. */
static void destroy_doomed(struct ag_fork *f)
{
    while (f->destroyed != atomic_load_explicit(&f->doomed, memory_order_acquire)) {
        const struct ag_doomed *doomed = &f->list[f->destroyed % AG_MOST_DOOMED];
        if (doomed->after > num_done(f))
            return;
        drop_due(f, doomed->event);
        ag_event_destroy(doomed->event, doomed->number);
        atomic_store_explicit(&f->destroyed, f->destroyed + 1, memory_order_release);
    }
}

CUevent ag_fork_event(const struct ag_stream *origin)
{
    const struct ag_fork *f = origin->fork;
    return f->events[num_done(f) % AG_MOST_EVENTS];
}

/* The oldest records and waits are done. */
static void are_done(struct ag_fork *f, uint32_t n)
{
    atomic_store_explicit(&f->streams[0]->done, num_done(f) + n, memory_order_release);
    destroy_doomed(f);
}

/* One more record is done. Returns which it is. */
static uint64_t count_recorded(struct ag_fork *f)
{
    uint64_t number = atomic_load_explicit(&f->recorded, memory_order_relaxed) + 1;
    atomic_store_explicit(&f->recorded, number, memory_order_release);
    return number;
}

void ag_fork_event_is_done(struct ag_stream *origin)
{
    struct ag_fork *f = origin->fork;
    if (f->is_record[num_done(f) % AG_MOST_EVENTS])
        ag_event_reached(ag_fork_event(origin), f->id, count_recorded(f), false);
    are_done(f, 1);
}

/* Instead of an earlier record of the event: whoever asks gets this one. */
static void becomes_due(struct ag_fork *f, CUevent event)
{
    uint64_t number = count_recorded(f);
    uint32_t n = dues(f), place = place_of(f->due, n, event);
    f->prompt -= f->prompt > 0;
    if (place == AG_MOST_DUE && n == AG_MOST_DUE) {
        record(f, event);
        ag_event_reached(event, f->id, number, false);
        return;
    }
    place = place < n ? place : n;
    f->due[place] = event;
    f->due_numbers[place] = number;
    f->due_graphs[place] = f->graphs;
    if (place == n)
        set_num_due(f, n + 1);
}

static void record_due(struct ag_fork *f, uint32_t place)
{
    CUevent event = f->due[place];
    record(f, event);
    ag_event_reached(event, f->id, f->due_numbers[place], false);
    drop_due(f, event);
}

/* The next records are not kept back behind their graphs. */
static void be_prompt(struct ag_fork *f)
{
    f->prompt = AG_FORK_PROMPT * ag_options.join;
}

void ag_fork_events_are_in_graph(struct ag_stream *origin, uint32_t n)
{
    struct ag_fork *f = origin->fork;
    uint64_t first = num_done(f);
    for (uint64_t i = first; i < first + n; i++)
        if (f->is_record[i % AG_MOST_EVENTS])
            becomes_due(f, f->events[i % AG_MOST_EVENTS]);
    are_done(f, n);
    if (atomic_load(&origin->asked_for) && atomic_exchange(&origin->asked_for, false))
        be_prompt(f);
    while (f->prompt && dues(f))
        record_due(f, 0);
}

void ag_fork_catches_up(struct ag_stream *origin)
{
    struct ag_fork *f = origin->fork;
    record_own_event(f);
    while (dues(f))
        record_due(f, 0);
    destroy_doomed(f);
}

void ag_fork_catches_up_with_branches(struct ag_stream *origin)
{
    struct ag_fork *f = origin->fork;
    ag_fork_catches_up(origin);
    for (int n = 1; n < AG_BRANCHES; n++)
        if (f->streams[n] && f->streams[n]->blocking)
            release(f, (uint8_t)n);
}

/* Whether all that the fork has submitted has ended. A program that waited for it knows that, while
 * a record that the library makes only now would not be ready at once. Where the driver takes the
 * event for ready, it needs no record: one behind what comes next would stand for too much. Where
 * the driver's last record is a node of a capture, it would refuse to tell. */
static bool is_over(struct ag_fork *f)
{
    if (AG_REAL(cuStreamQuery)(f->streams[0]->handle) != CUDA_SUCCESS)
        return false;
    for (uint32_t i = dues(f); i-- > 0;) {
        CUevent event = f->due[i];
        ag_event_reached(event, f->id, f->due_numbers[i], true);
        ag_probe_begins();
        CUresult r = AG_REAL(cuEventQuery)(event);
        ag_probe_ends();
        if (r == CUDA_SUCCESS)
            drop_due(f, event);
        else if (r == CUDA_ERROR_CAPTURED_EVENT)
            record_due(f, i);
    }
    f->ahead = 0;
    set_due(f, dues(f), false);
    return true;
}

void ag_fork_shows(struct ag_stream *origin, CUevent event, bool queried)
{
    struct ag_fork *f = origin->fork;
    uint32_t place = place_of(f->due, dues(f), event);
    if (place == AG_MOST_DUE)
        return;
    bool late = f->due_graphs[place] != f->graphs;
    struct ag_visit visit = ag_driver_enter(origin);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (!queried || !is_over(f)) {
        record_due(f, place);
        if (late)
            be_prompt(f);
    }
    ag_core_mode(mode);
    ag_driver_leave(origin, visit);
}

void ag_fork_forgets(struct ag_stream *origin, CUevent event)
{
    drop_due(origin->fork, event);
}

bool ag_fork_dooms(struct ag_stream *origin, CUevent event)
{
    struct ag_fork *f = origin->fork;
    uint32_t n = atomic_load(&f->doomed);
    if (n - atomic_load_explicit(&f->destroyed, memory_order_acquire) == AG_MOST_DOOMED)
        return false;
    f->list[n % AG_MOST_DOOMED] =
        (struct ag_doomed){event, ag_event_ends_later(event), atomic_load(&origin->noted)};
    atomic_store_explicit(&f->doomed, n + 1, memory_order_release);
    return true;
}

bool ag_fork_branch_is_done(struct ag_stream *origin, uint8_t branch)
{
    struct ag_fork *f = origin->fork;
    if (!(f->ahead & 1u << branch))
        return true;
    struct ag_visit visit = ag_driver_enter(origin);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool done = f->event_is_due && is_over(f);
    if (!done) {
        record_own_event(f);
        done = AG_REAL(cuEventQuery)(f->event) != CUDA_ERROR_NOT_READY;
    }
    ag_core_mode(mode);
    ag_driver_leave(origin, visit);
    return done;
}

/* ---- records ------------------------------------------------------------------------------- */

bool ag_fork_has_events(const struct ag_stream *origin, const struct ag_record *record)
{
    const struct ag_fork *f = origin->fork;
    return f && record->fork == f->id && ag_fork_lacks_events(origin);
}

bool ag_fork_holds(const struct ag_stream *origin, const struct ag_record *record)
{
    const struct ag_fork *f = origin->fork;
    return f && record->fork == f->id && record->number > atomic_load(&f->recorded);
}

/* ---- branches come and go ------------------------------------------------------------------ */

static bool make(struct ag_stream *origin)
{
    struct ag_fork *f = calloc(1, sizeof(*f));
    if (!f)
        return false;
    f->streams[0] = origin;
    f->width = 1;
    struct ag_visit visit = ag_driver_enter(origin);
    CUstreamCaptureMode mode = ag_core_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool made = AG_REAL(cuEventCreate)(&f->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    if (made && AG_REAL(cuEventCreate)(&f->own, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        AG_REAL(cuEventDestroy_v2)(f->event);
        made = false;
    }
    ag_core_mode(mode);
    ag_driver_leave(origin, visit);
    if (made)
        origin->fork = f;
    else
        free(f);
    return made;
}

/* A name that no record has. */
static uint64_t new_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static bool begin(struct ag_stream *origin)
{
    if (ag_stream_forks(origin))
        return true;
    if (!origin->fork && !make(origin))
        return false;
    origin->fork->id = new_id();
    atomic_fetch_add(&ag_open_streams, 1);
    atomic_fetch_add(&ag_forks, 1);
    atomic_store(&origin->forks, true);
    ag_stream_becomes_busy(origin);
    return true;
}

bool ag_fork_begin_alone(struct ag_stream *origin)
{
    if (ag_stream_forks(origin) || !begin(origin))
        return false;
    ag_count(AG_COUNT_QUIET);
    ag_debug("start", "nobody asks for the events of stream %p: its records are ops",
             (void *)origin->handle);
    return true;
}

/* Before an op of a blocking stream the legacy stream's branches end (core/flush.c), so it does not
 * pass unseen. */
static void count_for_order(struct ag_stream *origin, uint32_t more)
{
    if (origin->legacy)
        atomic_fetch_add(&origin->context->legacy_held, more);
}

uint8_t ag_fork_add(struct ag_stream *origin, struct ag_stream *branch)
{
    if (!begin(origin))
        return 0;
    struct ag_fork *f = origin->fork;
    be_prompt(f);
    uint8_t n = 1;
    while (n < AG_BRANCHES && f->streams[n])
        n++;
    if (n == AG_BRANCHES)
        return 0;
    f->streams[n] = branch;
    f->width++;
    count_for_order(origin, 1);
    f->behind |= 1u << n;
    f->young[n] = f->graphs + AG_FORK_YOUNG;
    ag_count(AG_COUNT_BRANCHES);
    ag_debug("start", "stream %p is a branch of stream %p", (void *)branch->handle,
             (void *)origin->handle);
    return n;
}

static void remove_branch(struct ag_stream *origin, uint8_t n)
{
    struct ag_fork *f = origin->fork;
    struct ag_stream *branch = f->streams[n];
    release(f, n);
    f->behind &= ~(1u << n);
    f->streams[n] = NULL;
    f->width--;
    count_for_order(origin, UINT32_MAX);
    if (atomic_load(&branch->origin) == origin)
        atomic_store_explicit(&branch->origin, NULL, memory_order_release);
}

/* Without branches nothing is held back: what is left is a call under way. With others left the
 * fork goes on, but its records were made when there was one more: that may have been in the stream
 * of the branch that has gone, for which no graph waits any more. So a wait for one of them is no
 * op. */
static void end_if_alone(struct ag_stream *origin)
{
    struct ag_fork *f = origin->fork;
    if (!ag_fork_is_alone(origin)) {
        ag_fork_catches_up(origin);
        f->id = new_id();
        return;
    }
    atomic_store(&origin->done, atomic_load(&origin->noted));
    atomic_store(&f->recorded, f->records);
    ag_fork_catches_up(origin);
    f->id = 0;
    atomic_store(&origin->forks, false);
    atomic_fetch_sub(&ag_open_streams, 1);
    atomic_fetch_sub(&ag_forks, 1);
}

void ag_fork_remove(struct ag_stream *origin, uint8_t branch)
{
    struct ag_visit visit = ag_driver_enter(origin);
    remove_branch(origin, branch);
    end_if_alone(origin);
    ag_driver_leave(origin, visit);
}

void ag_fork_end(struct ag_stream *origin)
{
    if (!ag_stream_forks(origin))
        return;
    struct ag_visit visit = ag_driver_enter(origin);
    for (int n = 1; n < AG_BRANCHES; n++)
        if (origin->fork->streams[n])
            remove_branch(origin, (uint8_t)n);
    end_if_alone(origin);
    ag_driver_leave(origin, visit);
}

void ag_fork_free(struct ag_stream *origin)
{
    struct ag_fork *f = origin->fork;
    if (!f)
        return;
    ag_fork_end(origin);
    struct ag_visit visit = ag_driver_enter(origin);
    AG_REAL(cuEventDestroy_v2)(f->event);
    AG_REAL(cuEventDestroy_v2)(f->own);
    ag_driver_leave(origin, visit);
    free(f);
    origin->fork = NULL;
}
