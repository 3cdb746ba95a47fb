/*
 * launch.c - the hot path: what happens to a kernel launch. Memsets and copies come here from
 * memset_copy.c.
 *
 * Rules for everything that runs while the library follows a known sequence:
 *  - no allocation, no system call, and no driver call but the chunk's own graph launch, and
 *    cuCtxGetCurrent for the legacy default stream (whose meaning depends on it);
 *  - one lock, the stream's own; two threads contend for it only if they launch to one stream;
 *  - no hash: the expected op is compared field by field;
 *  - the clock is read only twice per chunk;
 *  - no counter takes an atomic operation per op.
 *
 * A chunk that is handed over (submitter.c) may cost more, but no op of it: the clock once more if
 * the submitter is at another stream, and in one of 61 chunks, whose wait is timed; and a futex if
 * the submitter sleeps. Each 16 ms a chunk asks whether to hand over at all (wanted.h). The
 * stream's first such chunk allocates the ring. The same holds for an op that is in no chunk.
 *
 * Where a kernel's grid is an argument, a launch with a new grid is first looked up in the table of
 * signatures, under its lock.
 *
 * An eager launch is made without the lock: nobody may wait for the driver because of us.
 */
#include "capture/core/launch.h"
#include "capture/graphs/ahead.h"
#include "capture/system/clock.h"
#include "capture/report/compare.h"
#include "capture/tracking/count.h"
#include "capture/core/branch.h"
#include "capture/core/flush.h"
#include "capture/trace/live.h"
#include "capture/tracking/dormancy.h"
#include "capture/core/measure.h"
#include "capture/core/op.h"
#include "capture/core/passing.h"
#include "capture/core/submitter.h"
#include "capture/core/shortage.h"
#include "capture/report/shortfall.h"
#include "capture/tracking/state.h"
#include "capture/tracking/waits.h"
#include "capture/trace/trace.h"
#include "capture/trace/trace_define.h"
#include "capture/core/wait.h"
#include "capture/core/weigh.h"

/* The op goes at once. Returns whether the caller must launch it: the first of its signature, or
 * what is not handed over. */
static __attribute__((noinline)) bool
is_callers(struct ag_stream *s, const struct ag_signature *signature, const struct ag_incoming *in)
{
    s->handed_op = ag_signature_is_proven(signature, s->context->bit) && !ag_incoming_read(in) &&
                   !ag_branch_has_ended(s, in) && ag_submitter_hand_op(s, signature, in);
    if (!s->handed_op)
        ag_submitter_settle(s);
    if (!s->handed_op && ag_branch_concerns(s, in))
        ag_branch_calls(s, in);
    return !s->handed_op;
}

/* Whether the driver has not yet taken such an op in this context: its call may load the kernel, so
 * it is no usual one. */
static inline bool is_first(const struct ag_stream *s, const struct ag_signature *signature)
{
    return !ag_signature_is_proven(signature, s->context->bit) && s->context->bit;
}

/* Acts on the policy's verdict about an op of this signature. Returns whether the caller must still
 * launch the op itself, after it has released the lock. The caller holds the lock. */
static inline __attribute__((always_inline)) bool act(struct ag_stream *s,
                                                      const struct ag_signature *signature,
                                                      const struct ag_incoming *in,
                                                      const struct ag_verdict *v, uint64_t now)
{
    struct ag_engine *e = &s->engine;
    ag_trace_op(s, (struct ag_signature *)(uintptr_t)signature, in, v->what);
    uint8_t *room =
        ag_engine_record(e, ag_signature_key(signature), signature->layout.recorded_bytes, v);
    if (!room)
        return is_callers(s, signature, in);
    ag_op_record(room, signature, in);
    if (__builtin_expect(v->done && !now, 0)) /* a chunk of one op where nothing was expected */
        now = ag_clock_ns();
    ag_engine_recorded(e, v, now);
    if (v->done) {
        ag_compare_look(s);
        ag_weigh_look(s);
    }
    return v->what != AG_DO_DEFER && is_callers(s, signature, in);
}

/* Ops that pass unseen are not handed over, so a stream that hands its ops over stays awake: to
 * look at an op costs far less than its launch. But one whose ops are new each time rests: their
 * signatures would fill the memory. */
static bool stays_awake(struct ag_stream *s)
{
    const struct ag_policy *policy = ag_engine_policy(&s->engine);
    uint64_t ops = ag_policy_counts(policy)->ops, met = ag_policy_met(policy);
    bool hands = (s->singles - s->wish.singles) * AG_AWAKE_HANDED_ONE_IN > ops - s->wish.ops;
    bool compares = s->pairs.tries && s->asked != s->wish.asked;
    bool knows = (met - s->wish.met) * AG_AWAKE_NEW_ONE_IN < ops - s->wish.ops;
    s->wish = (struct ag_wish){ops, met, s->singles, s->asked};
    return (hands || compares) && knows;
}

static void update_dormant(struct ag_stream *s)
{
    struct ag_policy *policy = ag_engine_policy(&s->engine);
    if (!ag_policy_wants_rest(policy))
        return;
    if (stays_awake(s)) {
        ag_policy_refuse_rest(policy);
        ag_engine_wake(&s->engine, 0);
    } else {
        ag_stream_goes_dormant(s);
    }
}

/* Launch costs are part of the time between eager ops. The policy wants to know the rest. */
static inline bool times_call(const struct ag_stream *s)
{
    uint64_t eager = ag_engine_counts(&s->engine)->eager;
    return eager % (eager < AG_TIMED_FIRST ? 8 : AG_TIMED_ONE_IN) == 0 ||
           !atomic_load_explicit(&s->call_ns, memory_order_relaxed);
}

/* Whether the call of this op, which goes at once, is timed if the caller makes it. For such ops it
 * also records why they are eager. The caller holds the lock. */
static inline bool is_sample(struct ag_stream *s)
{
    bool timed = times_call(s);
    if (__builtin_expect(timed, 0))
        s->whys[ag_policy_why_eager(ag_engine_policy(&s->engine))]++;
    return timed;
}

/* Whether the call takes the host what a launch does. */
static inline bool may_time(const struct ag_incoming *in)
{
    return in->kind <= AG_OP_COPY && !in->reads;
}

/* Beyond what it asks for, the policy uses the clock only for the time between two ops. It takes 0
 * to mean that there is no time. */
static inline bool wants_time(const struct ag_stream *s)
{
    uint64_t ops = ag_policy_counts(ag_engine_policy(&s->engine))->ops;
    return ag_policy_wants_time(ag_engine_policy(&s->engine)) || ops % AG_TIMED_ONE_IN < 2 ||
           ops < AG_TIMED_FIRST;
}

static CUresult call_eagerly(struct ag_stream *s, const struct ag_incoming *in, bool timed)
{
    if (!timed && !ag_trace_on())
        return ag_op_call(in);
    uint64_t began = ag_clock_ns();
    CUresult r = ag_op_call(in);
    uint64_t ns = ag_clock_ns() - began;
    ag_trace_call(s, began, r);
    if (may_time(in))
        ag_stream_call_took(s, ns);
    return r;
}

/* The library has decided to replay nothing any more, and this stream holds nothing back. So the
 * stream becomes dormant, and its launches cost only what those of a dormant stream cost. The
 * caller holds the lock; this function releases it. */
static CUresult call_unseen(struct ag_stream *s, const struct ag_incoming *in)
{
    CUresult pending = ag_stream_tell(s);
    ag_engine_rest(&s->engine, ag_shortfall_rest());
    ag_stream_goes_dormant(s);
    ag_dormant_step(&s->dormant); /* counts this op */
    ag_unlock(&s->lock);
    ag_shortfall_tell();
    ag_live_poll();
    ag_trace_passed(s, in, NULL);
    return ag_incoming_first_error(in, ag_op_call(in), pending);
}

static bool sees_nothing(struct ag_stream *s)
{
    if (!ag_state_only_observes())
        return false;
    ag_stream_leaves_dormant(s);
    return ag_engine_is_idle(&s->engine);
}

/* The driver is asked about a new signature, and may load the kernel's code for that. */
static struct ag_signature *signature_of(struct ag_stream *s, const struct ag_incoming *in,
                                         const char **why)
{
    if (in->kind != AG_OP_LAUNCH) /* nobody is asked */
        return ag_signature_of(&s->signatures, in, why);
    uint64_t hash;
    struct ag_signature *signature =
        ag_signature_cached(&s->signatures, in->launch, in->branch, &hash);
    if (__builtin_expect(!signature, 0)) {
        bool may_load = atomic_load_explicit(&ag_rings_are_used, memory_order_relaxed) &&
                        !ag_signatures_know(in->launch->func);
        if (may_load)
            ag_submitter_settle(s);
        struct ag_visit visit = ag_driver_enter(s);
        if (may_load)
            ag_waits_rings_pass(); /* the driver may wait for the GPU in that */
        signature =
            ag_signature_ask(&s->signatures, in->launch, in->branch, hash, !ag_measures(), why);
        ag_driver_leave(s, visit);
    }
    return signature;
}

/* Counts an op that was not expected. The callers of follow() know the kind of theirs, and count it
 * themselves. */
static inline void count_kind(struct ag_stream *s, const struct ag_incoming *in)
{
    if (in->kind > AG_OP_COPY || in->reads)
        s->only_awake++;
    else if (__builtin_expect(in->branch, 0))
        s->of_branches++;
}

/* Counts an op that no graph may hold. */
static inline void count_unrecorded(struct ag_stream *s, const struct ag_incoming *in)
{
    if (in->kind > AG_OP_COPY || in->reads)
        return;
    s->unrecorded++;
    s->of_branches += in->branch != 0;
}

/* Whether the stream expects such a launch with another grid. */
static bool takes_place(struct ag_stream *s, const struct ag_signature *signature)
{
    ag_key key = ag_engine_expected(&s->engine);
    return key && ag_signature_takes(ag_key_signature(key), signature);
}

static CUresult follow(struct ag_stream *s, ag_key key, const struct ag_incoming *in);

/* The op is done. Releases the lock, and waits if the graph is too far ahead of the GPU. */
static inline void leave(struct ag_stream *s, bool done)
{
    if (__builtin_expect(done && s->ahead.waits, 0))
        ag_ahead_wait(s);
    else
        ag_unlock(&s->lock);
}

static __attribute__((noinline)) void decide_ahead(struct ag_stream *s)
{
    ag_ahead_calls(s);
    if (ag_ahead_is_far(s, 0)) {
        struct ag_visit visit = ag_driver_enter(s);
        ag_ahead_decide(s);
        ag_driver_leave(s, visit);
    }
}

/* As leave(), in front of the op's own call. That counts as ahead, too. */
static inline void leave_for_call(struct ag_stream *s, const struct ag_incoming *in)
{
    if (__builtin_expect(s->ahead.pending, 0) && may_time(in) && !in->branch)
        decide_ahead(s);
    leave(s, true);
}

/* The op is not the expected one, or none was expected, or it is not a launch. The caller holds the
 * lock; this function releases it. */
static CUresult arrive(struct ag_stream *s, const struct ag_incoming *in)
{
    const char *why = "";
    struct ag_signature *signature;
    struct ag_verdict v;
    if (ag_state_is_eager()) {
        if (sees_nothing(s))
            return call_unseen(s, in);
        ag_branch_passes(s, in);
        ag_unlock(&s->lock);
        return ag_passing_in_eager_state(s, in);
    }
    if (__builtin_expect(!ag_incoming_is_of(in, s), 0)) { /* the stream has gone, see stream.h */
        ag_unlock(&s->lock);
        return ag_op_call(in);
    }
    uint64_t now = wants_time(s) ? ag_clock_ns() : 0;
    signature = signature_of(s, in, &why);
    if (signature && !ag_incoming_has_arguments(in, signature))
        signature = NULL;
    uint8_t bad = signature ? ag_signature_bad(signature) : 0;
    if (!signature || bad) {
        count_unrecorded(s, in);
        ag_branch_passes(s, in);
        ag_unlock(&s->lock);
        return ag_passing_unrecorded(s, in, bad, why);
    }
    if (__builtin_expect(signature->any_grid, 0) && takes_place(s, signature)) {
        count_kind(s, in);
        return follow(s, ag_engine_expected(&s->engine), in);
    }
    ag_stream_leaves_dormant(s);
    ag_policy_launch_takes(ag_engine_policy(&s->engine),
                           s->handed_op ? AG_HAND_NS
                                        : atomic_load_explicit(&s->call_ns, memory_order_relaxed));
    if (__builtin_expect(!atomic_load_explicit(&signature->met, memory_order_relaxed), 0)) {
        atomic_store_explicit(&signature->met, true, memory_order_relaxed);
        ag_policy_meets_new(ag_engine_policy(&s->engine));
    }
    ag_stream_open(s);
    ag_engine_op(&s->engine, ag_signature_key(signature), now, &v);
    count_kind(s, in);
    bool first = is_first(s, signature);
    uint32_t disproofs = atomic_load(&ag_disproofs);
    bool eager = act(s, signature, in, &v, now);
    if (v.what == AG_DO_EAGER)
        ag_compare_look(s);
    update_dormant(s);
    CUresult pending = ag_stream_tell(s);
    bool timed = v.what != AG_DO_DEFER && is_sample(s) && may_time(in);
    if (eager)
        leave_for_call(s, in);
    else
        leave(s, v.done);
    if (first && eager)
        ag_waits_rings_pass(); /* the driver may load code, and wait for the GPU in that */
    CUresult r = eager ? call_eagerly(s, in, timed && !first) : CUDA_SUCCESS;
    if (__builtin_expect(r != CUDA_SUCCESS, 0))
        return ag_passing_refused(s, in, r, pending);
    if (__builtin_expect(first && eager, 0))
        ag_passing_prove(s, in, disproofs);
    if (__builtin_expect(atomic_load_explicit(&ag_signatures_full, memory_order_relaxed), 0) &&
        atomic_exchange(&ag_signatures_full, false))
        ag_core_invalidate_signatures();
    return ag_incoming_first_error(in, CUDA_SUCCESS, pending);
}

void ag_stream_is_used(struct ag_stream *s)
{
    uintptr_t nobody = 0;
    if (ag_stream_is_own(s) || ag_thread.in_host_function)
        return;
    if (atomic_compare_exchange_strong(&s->owner, &nobody, ag_this_thread()))
        ag_thread.owned++;
    else
        atomic_store(&s->shared, true);
}

/* Whether this op passes unseen. Who wakes the stream after that sees that threads share it. */
static inline bool is_dormant(struct ag_stream *s)
{
    if (!ag_dormant_is_active(&s->dormant) || !ag_dormant_step(&s->dormant))
        return false;
    ag_stream_is_used(s);
    return atomic_load(&s->dormant.active);
}

__attribute__((noinline)) bool ag_stream_becomes_own(struct ag_stream *s)
{
    if (ag_thread.in_host_function || (s->thread && !ag_stream_is_of_this_thread(s)))
        return false; /* or its memory is another thread's stream by now */
    if (atomic_load(&s->owner))
        atomic_store(&s->shared, true);
    if (atomic_load(&s->origin) || ag_stream_forks(s))
        ag_branch_changes_hands(s);
    if (ag_stream_is_own(s))
        return true;
    if (atomic_exchange(&s->owner, ag_this_thread()))
        atomic_store(&s->shared, true); /* both were the first */
    ag_thread.owned++;
    return true;
}

static inline bool is_of_key(ag_key key, const struct ag_launch *l, uint8_t branch)
{
    if (!key)
        return false;
    const struct ag_signature *signature = ag_key_signature(key);
    return ag_signature_is_launch(signature, l, branch) &&
           (__builtin_expect(l->params && !l->extra, 1) ||
            ag_launch_has_arguments(l, &signature->layout));
}

/* ag_incoming_is_of(), where the compiler knows that the op is a launch. */
static inline bool is_of(const struct ag_launch *l, uint8_t branch, const struct ag_stream *s)
{
    const struct ag_incoming in = {.kind = AG_OP_LAUNCH, .launch = l, .branch = branch};
    return ag_incoming_is_of(&in, s);
}

static __attribute__((cold, noinline)) bool may_be_understood(struct ag_stream *s)
{
    if (atomic_load(&s->not_understood) & AG_FORK_IS_OVER)
        ag_branch_is_over(s);
    return !atomic_load(&s->not_understood);
}

static inline bool is_understood(struct ag_stream *s)
{
    return __builtin_expect(!atomic_load_explicit(&s->not_understood, memory_order_relaxed), 1) ||
           may_be_understood(s);
}

/* The expected launch is only held back, as most are: so this takes as few instructions and cache
 * lines as it can. False: there is more to do. The caller holds the lock. */
static inline bool joins(struct ag_stream *s, const struct ag_signature *signature,
                         const struct ag_launch *l)
{
    bool open = atomic_load_explicit(&s->open, memory_order_relaxed);
    if (__builtin_expect(ag_trace_on() || s->pending != CUDA_SUCCESS || !open, 0))
        return false;
    uint8_t *room = ag_engine_join(&s->engine, signature->layout.recorded_bytes);
    if (__builtin_expect(!room, 0))
        return false;
    ag_record_launch(room, &signature->layout, l);
    ag_engine_joined(&s->engine);
    return true;
}

/* The expected op, of which the policy knows by now, ends a chunk that is held back. Most ops that
 * do not join a chunk end one, so this, too, takes as few instructions and cache lines as it can.
 * False: it does something else, and nothing has been done. */
static inline bool ends_chunk(struct ag_stream *s, const struct ag_signature *signature,
                              const struct ag_incoming *in, const struct ag_verdict *v,
                              uint64_t now)
{
    if (__builtin_expect(!v->done || v->what != AG_DO_DEFER || ag_trace_on(), 0))
        return false;
    uint8_t *room =
        ag_engine_room(&s->engine, ag_signature_key(signature), signature->layout.recorded_bytes);
    if (__builtin_expect(!room, 0))
        return false;
    ag_fetch_to_write(&((struct ag_graphs *)ag_chunk_user(v->done))->last_used_ns);
    ag_op_record(room, signature, in);
    ag_engine_chunk_done(&s->engine, v, now);
    ag_compare_look(s);
    ag_weigh_look(s);
    return true;
}

/* The expected op does anything else. The caller holds the lock; this function releases it. */
static __attribute__((noinline, hot)) CUresult
follow_on(struct ag_stream *s, const struct ag_signature *signature, const struct ag_incoming *in,
          const struct ag_verdict *verdict, uint64_t now)
{
    const struct ag_verdict v = *verdict;
    bool eager = act(s, signature, in, &v, now);
    CUresult pending = ag_stream_tell(s);
    if (!eager) {
        if (v.what != AG_DO_DEFER)
            is_sample(s);
        leave(s, v.done);
        return ag_incoming_first_error(in, CUDA_SUCCESS, pending);
    }
    bool timed = is_sample(s) && may_time(in), first = is_first(s, signature);
    uint32_t disproofs = atomic_load(&ag_disproofs);
    leave_for_call(s, in);
    CUresult r = call_eagerly(s, in, timed && !first);
    if (__builtin_expect(r != CUDA_SUCCESS, 0))
        return ag_passing_refused(s, in, r, pending);
    if (__builtin_expect(first, 0))
        ag_passing_prove(s, in, disproofs);
    return ag_incoming_first_error(in, CUDA_SUCCESS, pending);
}

/* The expected op has come. The caller holds the lock; this function releases it. */
static __attribute__((noinline, hot)) CUresult follow(struct ag_stream *s, ag_key key,
                                                      const struct ag_incoming *in)
{
    const struct ag_signature *signature = ag_key_signature(key);
    struct ag_verdict v;
    struct ag_ring *ring = atomic_load_explicit(&s->ring, memory_order_relaxed);
    uint64_t now = 0;
    if (ring && s->hands_ops)
        ag_ring_fetch(ring, ag_engine_content(&s->engine).num_bytes);
    ag_stream_open(s);
    if (__builtin_expect(ag_engine_step(&s->engine, &v), 1)) {
        now = ag_clock_ns();
        ag_engine_run_ends(&s->engine, now, &v);
    }
    if (__builtin_expect(!ends_chunk(s, signature, in, &v, now), 0))
        return follow_on(s, signature, in, &v, now);
    CUresult pending = ag_stream_tell(s);
    leave(s, true);
    return ag_incoming_first_error(in, CUDA_SUCCESS, pending);
}

/* Whether another stream may hold something back that goes before a launch into this one. */
static inline bool orders(const struct ag_stream *s)
{
    if (!(s->legacy | s->blocking))
        return false;
    const _Atomic uint32_t *held = ag_stream_held_before(s);
    return !held || atomic_load(held) || ag_thread.in_host_function;
}

__attribute__((hot)) CUresult ag_core_launch(const struct ag_launch *l)
{
    struct ag_incoming in = {.kind = AG_OP_LAUNCH, .launch = l};
    if (ag_state_bypasses()) {
        if (__builtin_expect(atomic_load_explicit(&ag_peers_are_known, memory_order_relaxed), 0))
            ag_wait_captures(l->func);
        return ag_incoming_call_now(&in);
    }
    struct ag_stream *s = ag_stream_get(l->stream, l->ptsz);
    if (!s || orders(s))
        ag_flush_for_order(s);
    if (!s) {
        if (ag_passing_waits_for_peers(l))
            return ag_passing_of_peers(NULL, &in);
        ag_count(AG_COUNT_UNKNOWN_STREAM);
        ag_trace_passed(NULL, &in, "unknown stream");
        return ag_op_call(&in);
    }
    if (!is_understood(s))
        return ag_passing_not_understood(s, &in);
    if (is_dormant(s)) {
        if (ag_passing_waits_for_peers(l)) {
            atomic_fetch_add_explicit(&s->collectives, 1, memory_order_relaxed);
            return ag_passing_of_peers(s, &in);
        }
        if (!ag_trace_on()) /* a dump names every launch */
            ag_stream_remember_dormant(s, s->thread ? CU_STREAM_PER_THREAD : l->stream);
        ag_trace_passed(s, &in, NULL);
        return ag_op_call(&in);
    }
    if (__builtin_expect(!ag_stream_set_owner(s), 0))
        return ag_op_call(&in);

    s = ag_stream_lock_home(s, &in.branch);
    ag_key key = ag_engine_expected(&s->engine);
    bool expected = is_of_key(key, l, in.branch) && !ag_state_is_eager() && is_of(l, in.branch, s);
    if (__builtin_expect(!expected, 0))
        return arrive(s, &in);
    if (__builtin_expect(in.branch, 0))
        s->of_branches++;
    if (!joins(s, ag_key_signature(key), l))
        return follow(s, key, &in);
    ag_unlock(&s->lock);
    return CUDA_SUCCESS;
}

CUresult ag_incoming_of_fork(struct ag_stream *s, const struct ag_incoming *in)
{
    ag_key key = ag_engine_expected(&s->engine);
    const struct ag_signature *signature = ag_key_signature(key);
    if (!key || signature->kind != in->kind || signature->branch != in->branch ||
        (in->kind == AG_OP_WAIT && signature->width != in->distance) || ag_signature_bad(signature))
        return arrive(s, in);
    s->only_awake++;
    return follow(s, key, in);
}

CUresult ag_incoming_arrives(struct ag_stream *s, struct ag_incoming *in)
{
    ag_flush_for_order(s);
    if (!is_understood(s))
        return ag_passing_not_understood(s, in);
    if (is_dormant(s)) {
        ag_trace_passed(s, in, NULL);
        return ag_op_call(in);
    }
    if (!ag_stream_set_owner(s))
        return ag_op_call(in);
    return arrive(ag_stream_lock_home(s, &in->branch), in);
}
