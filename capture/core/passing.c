/* passing.c - see passing.h. */
#include "capture/core/passing.h"
#include "capture/core/branch.h"
#include "capture/core/deferral.h"
#include "capture/core/flush.h"
#include "capture/core/shortage.h"
#include "capture/core/wait.h"
#include "capture/report/shortfall.h"
#include "capture/settings/log.h"
#include "capture/tracking/count.h"
#include "capture/tracking/per_thread.h"
#include "capture/tracking/state.h"
#include "capture/trace/trace.h"

/* Handles an op that is not recordable: it is a sync point. */
static CUresult pass_through(struct ag_stream *s, const struct ag_incoming *in)
{
    CUresult pending = CUDA_SUCCESS;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        ag_stream_end_segment(s);
        pending = ag_stream_tell(s);
    }
    ag_unlock(&s->lock);
    ag_branch_is_foreign(s);
    CUresult r = ag_op_call(in);
    if (r != CUDA_SUCCESS)
        ag_count(AG_COUNT_FAILED_LAUNCHES);
    return ag_incoming_first_error(in, r, pending);
}

CUresult ag_passing_refused(struct ag_stream *s, const struct ag_incoming *in, CUresult r,
                            CUresult pending)
{
    const char *why;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s)) {
        /* looked up again: all signatures may have been invalidated during the call */
        struct ag_signature *signature = ag_signature_of(&s->signatures, in, &why);
        if (signature)
            ag_signature_refused(signature, r);
    }
    ag_unlock(&s->lock);
    ag_count(AG_COUNT_FAILED_LAUNCHES);
    return ag_incoming_first_error(in, r, pending);
}

void ag_passing_prove(struct ag_stream *s, const struct ag_incoming *in, uint32_t disproofs)
{
    const char *why;
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (ag_stream_is_live(s) && atomic_load(&ag_disproofs) == disproofs) {
        /* looked up again: all signatures may have been invalidated during the call */
        struct ag_signature *signature = ag_signature_of(&s->signatures, in, &why);
        if (signature) {
            ag_signature_prove(signature, s->context->bit);
            ag_signature_belongs_to(signature, s->context->handle);
        }
    }
    ag_unlock(&s->lock);
}

static void count_passed(void)
{
    ag_count(ag_state_is(AG_EAGER_CAPTURE) ? AG_COUNT_IN_CAPTURE : AG_COUNT_BYPASSED);
}

CUresult ag_passing_in_eager_state(struct ag_stream *s, const struct ag_incoming *in)
{
    count_passed();
    ag_trace_passed(s, in, "nothing is replayed at this time");
    return pass_through(s, in);
}

CUresult ag_passing_unrecorded(struct ag_stream *s, const struct ag_incoming *in, uint8_t bad,
                               const char *why)
{
    bool collective = !strcmp(why, "collective kernel");
    if (bad)
        why = bad & AG_SIGNATURE_FAILED ? "a launch of this signature has failed"
              : bad & AG_SIGNATURE_OVER_LIMIT
                  ? "more shared memory than its function attribute allows"
                  : "a signature that another thread has just given up";
    ag_count(collective ? AG_COUNT_COLLECTIVE : AG_COUNT_NOT_RECORDABLE);
    if (!collective)
        ag_shortfall_not_recordable(why);
    ag_debug("flush", "op submitted at once: %s", why);
    ag_trace_passed(s, in, why);
    bool held = collective && ag_wait_of_peers_begins();
    CUresult r = pass_through(s, in);
    if (held && in->branch)
        ag_core_wait_ends(ag_incoming_stream(in), false, true);
    else if (held)
        ag_wait_of_peers_ends(s);
    return r;
}

CUresult ag_incoming_call_now(const struct ag_incoming *in)
{
    ag_per_thread_gather_own();
    if (ag_state_tracks())
        count_passed();
    return ag_op_call(in);
}

CUresult ag_passing_of_peers(struct ag_stream *s, const struct ag_incoming *in)
{
    const struct ag_launch *l = in->launch;
    ag_count(AG_COUNT_COLLECTIVE);
    ag_trace_passed(s, in, "collective kernel");
    bool held = s ? ag_wait_of_peers_begins() : ag_core_wait_begins(l->stream, l->ptsz);
    CUresult r = ag_op_call(in);
    if (held && s)
        ag_wait_of_peers_ends(s);
    else if (held)
        ag_core_wait_ends(l->stream, l->ptsz, r == CUDA_SUCCESS);
    return r;
}

/* An op of a per-thread default stream while some stream may wait for the program. Whether that is
 * over takes calls of the driver, so it is asked now and then. */
static CUresult passes_behind_waits(struct ag_stream *s, const struct ag_incoming *in)
{
    if (++s->passed % AG_PASSED_BEHIND_WAITS == 0 && ag_nothing_waits()) {
        atomic_fetch_and(&s->not_understood, (uint8_t)~AG_BEHIND_WAITS);
        if (!ag_nothing_waits()) /* one has begun meanwhile, and may have missed the stream */
            atomic_fetch_or(&s->not_understood, AG_BEHIND_WAITS);
    }
    if (in->kind == AG_OP_LAUNCH && ag_passing_waits_for_peers(in->launch))
        return ag_passing_of_peers(s, in);
    ag_count(AG_COUNT_BEHIND_WAITS);
    ag_trace_passed(s, in,
                    "per-thread default stream, while another stream may wait for the program");
    return ag_op_call(in);
}

/* Another thread may have deferred an op while the stream became one. */
CUresult ag_passing_not_understood(struct ag_stream *s, const struct ag_incoming *in)
{
    ag_stream_is_used(s); /* it may become understood later */
    if (atomic_load(&s->deferring))
        ag_stream_submit_deferred(s, true);
    if (atomic_load(&s->not_understood) == AG_BEHIND_WAITS)
        return passes_behind_waits(s, in);
    if (in->kind == AG_OP_LAUNCH && ag_passing_waits_for_peers(in->launch))
        return ag_passing_of_peers(s, in);
    ag_count(AG_COUNT_NOT_UNDERSTOOD);
    ag_trace_passed(s, in, "stream with properties that graphs lack");
    return ag_op_call(in);
}
