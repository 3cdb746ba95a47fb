/*
 * follow.c - follows a sequence, run by run, and changes to another one.
 *
 * A *run* is the ops between p->next and p->stop, which are all treated alike (p->doing). A
 * *subsegment* lies between two sync points of any kind, real or artificial (such as the end of a
 * period). A *segment* lies between two real sync points, and has one subsegment or several.
 *
 * Invariants
 *  - p->doing == AG_DO_DEFER only while s->sequence is set, the run began at the first op of a
 *    chunk, and that chunk was ready. The deferred ops are exactly the chunk's ops before p->next.
 *  - If s->pure, the subsegment so far is s->sequence->keys[0 .. position). If not, it is
 *    s->subsegment followed by s->sequence->keys[s->from .. position).
 */
#include "policy/internal.h"

uint32_t ag_policy_deferred(const struct ag_policy *p)
{
    const struct ag_policy_state *s = p->state;
    return s->sequence && p->doing == AG_DO_DEFER
               ? ag_position(p) - s->sequence->plan.chunks[s->chunk].first
               : 0;
}

static bool wants_graphs(const struct ag_policy_state *s, const struct ag_sequence *b)
{
    return b->len >= s->config.min_ops && b->visits + 1 >= s->config.min_repeats;
}

/* Sequences with the same beginning share the graphs of the ops that they have in common. */
static bool takes_graphs_over(struct ag_policy_state *s, struct ag_chunk *chunk)
{
    struct ag_chunk *other = s->hooks.share ? ag_chunk_alike(chunk) : NULL;
    if (!other || !s->hooks.share(s->hooks.context, other, chunk))
        return false;
    atomic_store_explicit(&chunk->state, AG_CHUNK_READY, memory_order_release);
    return true;
}

/* What to do with a chunk whose first op comes next. */
static enum ag_do treatment(struct ag_policy_state *s, struct ag_chunk *chunk)
{
    struct ag_sequence *b = chunk->sequence;
    if (s->config.profit && !ag_profit_defers(&b->profit))
        return AG_DO_EAGER;
    switch (ag_chunk_state(chunk)) {
    case AG_CHUNK_READY:
        return b->visits < chunk->cold_until ? AG_DO_EAGER : AG_DO_DEFER;
    case AG_CHUNK_FAILED:
        if (!chunk->retry_at) { /* the failure was not noticed before */
            chunk->retry_at = b->visits + (AG_RETRY_FIRST << chunk->retries);
            chunk->retries += chunk->retries < AG_RETRY_MOST_SHIFT;
        }
        if (b->visits < chunk->retry_at)
            return AG_DO_EAGER;
        chunk->retry_at = 0;
        atomic_store_explicit(&chunk->state, AG_CHUNK_NEW, memory_order_relaxed);
        return AG_DO_RECORD;
    case AG_CHUNK_NEW:
        if (!wants_graphs(s, b))
            return AG_DO_EAGER;
        /* one equal first op is weak evidence for a sequence that was seen once */
        if (b->visits < 2 && chunk->first + chunk->count < AG_FIRST_EVIDENCE &&
            chunk->first + chunk->count < b->len)
            return AG_DO_EAGER;
        return takes_graphs_over(s, chunk) ? AG_DO_DEFER : AG_DO_RECORD;
    default:
        return AG_DO_EAGER;
    }
}

bool ag_is_measured(const struct ag_policy *p, const struct ag_sequence *b, uint64_t now)
{
    return p->measured && (!b->first_seen_ns || now < b->first_seen_ns + AG_MEASURE_LONGEST_NS);
}

static const ag_key *end_of(const struct ag_sequence *b, const struct ag_chunk *chunk)
{
    return b->keys + chunk->first + chunk->count;
}

/* Whether the first op of this visit is a run of its own, so that its time is known. The pace is
 * learnt from chunks in front of which the program did not wait, and here there is no such. */
static bool times_first(const struct ag_sequence *b)
{
    return b->plan.num_chunks == 1 && b->len > 1 && !b->periodic && !b->num_cuts &&
           b->visits % AG_PACE_FIRST_ONE_IN == 0;
}

/* `next`: where it mostly is. */
static uint32_t chunk_at(const struct ag_sequence *b, uint32_t at, uint32_t next)
{
    bool is = next < b->plan.num_chunks && b->plan.chunks[next].first == at;
    return is ? next : ag_plan_chunk_at(b, at);
}

/* Begins the run at index `at` of the followed sequence. */
static void begin_run(struct ag_policy *p, uint32_t at, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    p->next = b->keys + at;
    p->doing = AG_DO_EAGER;
    s->run_began = now;
    s->first_op = 0;
    if (at == b->len) {
        p->stop = p->next;
        return;
    }
    if (!b->plan.num_chunks && wants_graphs(s, b))
        ag_plan(s, b);
    if (!b->plan.num_chunks) {
        p->stop = b->keys + b->len;
        return;
    }
    s->chunk = chunk_at(b, at, s->chunk + 1);
    struct ag_chunk *chunk = &b->plan.chunks[s->chunk];
    p->stop = end_of(b, chunk);
    if (ag_is_measured(p, b, now)) {
        uint32_t ops = (uint32_t)(p->stop - p->next);
        p->measured -= ops < p->measured ? ops : p->measured;
    } else if (chunk->first == at) {
        p->doing = treatment(s, chunk);
    }
    if (p->doing == AG_DO_DEFER && times_first(b))
        p->stop = p->next + 1;
    s->recorded |= p->doing == AG_DO_RECORD;
}

void ag_follow(struct ag_policy *p, struct ag_sequence *sequence, uint32_t at, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    s->sequence = sequence;
    s->from = at;
    s->pushed = at;
    ag_sequence_touch(s, sequence);
    ag_profit_followed(&sequence->profit);
    begin_run(p, at, now);
}

/* If the host's pace has changed, gives the sequence that is about to begin a new plan; or changes
 * to the other one of two plans that are compared. A new cut gives it one at once. Call this only
 * while the caller holds no chunk from a verdict. */
void ag_replan(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *sequence = s->sequence;
    if (!sequence)
        return;
    uint32_t at = ag_position(p);
    if (at && !(sequence->tune.replan && at < sequence->len && ag_is_cut(sequence, at)))
        return;
    if (!ag_plan_is_stale(s, sequence)) {
        if (ag_tune_changes_plan(p, sequence))
            begin_run(p, 0, now);
        return;
    }
    ag_tune_ends(sequence);
    if (sequence->aside.num_chunks) {
        ag_plan_retire(s, &sequence->aside); /* the others go before its next begin */
        return;
    }
    if (!ag_plan_retire(s, &sequence->plan))
        return;
    if (!sequence->profit.replan && !sequence->tune.replan)
        sequence->replans++;
    sequence->profit.replan = sequence->tune.replan = false;
    begin_run(p, at, now);
}

void ag_follow_nothing(struct ag_policy *p)
{
    p->state->sequence = NULL;
    p->next = p->stop = NULL;
    p->doing = AG_DO_EAGER;
}

void ag_into_history(struct ag_policy_state *s, uint32_t upto)
{
    if (upto > s->pushed) {
        ag_finder_push(&s->finder, s->sequence->keys + s->pushed, upto - s->pushed);
        s->pushed = upto;
    }
}

/* The stream leaves the followed sequence at index `at`. */
static void leave(struct ag_policy_state *s, uint32_t at)
{
    struct ag_sequence *b = s->sequence;
    ag_into_history(s, at);
    if (b->periodic) {
        s->loop = ag_sequence_ref(b);
        s->loop_at = at;
    }
    b->streak = 0;
    ag_sequence_left(b, at);
}

/* Copies the followed ops to s->subsegment and stops following. */
void ag_depart(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    s->last_op = 0; /* while ops are followed, nothing notes when they came */
    uint32_t at = ag_position(p);
    for (uint32_t i = s->pure ? 0 : s->from; i < at; i++)
        ag_keys_push(&s->subsegment, s->sequence->keys[i]);
    s->pure = false;
    leave(s, at);
    ag_follow_nothing(p);
}

/* A loop is cut evenly, because the GPU is busy with the turn before. But if the loop alternates
 * with other work that has the same beginning, it must be cut like that work. Otherwise deferred
 * ops fit the chunks of only one of them. */
static void loosen(struct ag_sequence *sequence)
{
    if (!sequence->periodic || sequence->loose || !ag_sequence_has_like(sequence))
        return;
    sequence->loose = true;
    sequence->tune.replan = true;
}

/* The ops deferred for the current chunk must be submitted eagerly. If this happens to a chunk
 * often, it rests for a while; the other chunks of its sequence go on. */
static void chunk_failed(struct ag_chunk *chunk)
{
    chunk->fails++;
    ag_tune_failed(chunk->sequence);
    if (chunk->fails >= AG_FAILS_MIN) {
        if (chunk->fails > chunk->hits) {
            chunk->cold_until = chunk->sequence->visits + AG_FAILS_COOL_VISITS;
            loosen(chunk->sequence);
        }
        chunk->hits = chunk->fails = 0;
    }
}

uint32_t ag_give_up(struct ag_policy *p)
{
    uint32_t deferred = ag_policy_deferred(p);
    if (deferred) {
        chunk_failed(&p->state->sequence->plan.chunks[p->state->chunk]);
        p->counts.mismatches++;
    }
    return deferred;
}

__attribute__((hot)) void ag_policy_submitted(struct ag_policy *p, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    const struct ag_sequence *b = s->sequence;
    s->run_began = now;
    if (__builtin_expect(b && (p->next == b->keys || b->tune.replan), 0))
        ag_replan(p, now);
}

/* Other threads may have gone on meanwhile. */
static uint64_t later(uint64_t began, uint64_t ns, uint64_t now)
{
    return began && began + ns < now ? began + ns : began ? now : 0;
}

/* The pace is the host's. A loop waits in few of its turns, for the work of several. Eagerly the
 * queue would make each wait a little, and none while it has room, as at the beginning of a trial.
 * So these times are compared without. Where a sync ends each visit, both ways wait for all of it.
 */
void ag_policy_waited(struct ag_policy *p, uint64_t ns, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    p->counts.waits++;
    s->run_began = later(s->run_began, ns, now);
    if (s->sequence && s->sequence->periodic)
        s->sequence_began = later(s->sequence_began, ns, now);
}

void ag_policy_gained(struct ag_policy *p, struct ag_sequence *sequence, int64_t ns)
{
    const struct ag_policy_state *s = p->state;
    if (s->config.profit && sequence->plan.longest == 1 &&
        (sequence->len == 1 || !ag_tune_saves_launches(s, sequence)))
        ag_profit_gained(&sequence->profit, ns, sequence->len);
}

static void learn_fill(struct ag_policy_state *s, struct ag_chunk *chunk, uint64_t ns)
{
    uint32_t before = chunk->fill_ns, most = s->config.hold_most_ns + 1;
    uint32_t latest = ns < most ? (uint32_t)ns : most;
    chunk->fill_ns = before ? before - before / 8 + latest / 8 : latest;
    ag_learn_gap(s, ns / chunk->count);
}

/* Whether it is known how long the host took to issue the chunk. The time of the first run behind a
 * sync point or a pause includes the wait. */
static inline bool is_timed(const struct ag_policy_state *s, const struct ag_chunk *chunk,
                            uint64_t now)
{
    const struct ag_sequence *b = chunk->sequence;
    return s->run_began && now > s->run_began && (chunk->first || b->periodic) &&
           !(b->num_cuts && ag_is_cut(b, chunk->first));
}

/* The chunk has its graph, and all of its ops have come: it goes. */
static inline void replays(struct ag_policy *p, struct ag_chunk *chunk, struct ag_verdict *v)
{
    v->done = chunk;
    if (__builtin_expect(!chunk->published, 0))
        ag_chunk_publish(p->state, chunk);
    p->counts.replayed += chunk->count;
    chunk->hits++;
    ag_something_repeats(p->state);
}

/* Most runs that end are a chunk with a graph, and the next one of the plan has its graph as well.
 * So this takes as few instructions and cache lines as it can. False: there is more to do, and
 * nothing has been done. */
static inline __attribute__((always_inline)) bool
goes_straight_on(struct ag_policy *p, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    if (__builtin_expect(
            p->doing != AG_DO_DEFER || s->chunk + 1 >= b->plan.num_chunks || s->retired.chunks, 0))
        return false;
    struct ag_chunk *chunk = &b->plan.chunks[s->chunk], *next = chunk + 1;
    if (__builtin_expect(ag_chunk_state(chunk) != AG_CHUNK_READY ||
                             ag_chunk_state(next) != AG_CHUNK_READY || b->visits < next->cold_until,
                         0))
        return false;
    /* ops that were deferred already may go on in a sequence that itself must not be deferred */
    if (__builtin_expect(
            (s->config.profit && !ag_profit_defers(&b->profit)) || ag_is_measured(p, b, now), 0))
        return false;
    /* a chunk without a time may be behind a cut, and end_run() tells the cut of it */
    if (__builtin_expect(!is_timed(s, chunk, now), 0))
        return false;
    p->idle = false;
    replays(p, chunk, v);
    learn_fill(s, chunk, now - s->run_began);
    s->chunk++;
    s->run_began = now;
    p->stop = end_of(b, next);
    return true;
}

/* The run ends in any other way. */
static __attribute__((noinline)) void end_run(struct ag_policy *p, uint64_t now,
                                              struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence;
    uint32_t at = ag_position(p);
    if (s->retired.chunks)
        ag_plan_free(s, &s->retired);
    p->idle = false;
    if (p->doing == AG_DO_DEFER && p->stop != end_of(b, &b->plan.chunks[s->chunk])) {
        s->first_op = now;
        p->stop = end_of(b, &b->plan.chunks[s->chunk]);
        return;
    }
    struct ag_chunk *chunk = p->doing == AG_DO_EAGER ? NULL : &b->plan.chunks[s->chunk];
    if (p->doing == AG_DO_DEFER && ag_chunk_state(chunk) != AG_CHUNK_READY) {
        /* its graph failed at its previous launch */
        v->flush = chunk->count - 1;
        v->what = AG_DO_EAGER;
        v->fresh = false;
        chunk_failed(chunk);
    } else if (chunk && p->doing == AG_DO_DEFER) {
        replays(p, chunk, v);
        if (is_timed(s, chunk, now))
            learn_fill(s, chunk, now - s->run_began);
        else if (s->first_op && now > s->first_op && chunk->count > 1)
            ag_learn_gap(s, (now - s->first_op) / (chunk->count - 1));
    } else if (chunk) {
        v->done = chunk;
        atomic_store_explicit(&chunk->state, AG_CHUNK_BUILDING, memory_order_release);
        ag_something_repeats(s);
    }
    if (b->num_cuts && p->doing == AG_DO_DEFER && s->run_began && now > s->run_began)
        ag_cut_passed(s, b, b->plan.chunks[s->chunk].first, now - s->run_began,
                      b->plan.chunks[s->chunk].count);
    if (at == b->len && b->periodic)
        ag_end_period(p, now);
    else
        begin_run(p, at, now);
}

__attribute__((hot)) void ag_policy_run_end(struct ag_policy *p, uint64_t now, struct ag_verdict *v)
{
    if (__builtin_expect(!goes_straight_on(p, now, v), 0))
        end_run(p, now, v);
}

static void advance(struct ag_policy *p, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    v->what = p->doing;
    v->fresh =
        p->doing != AG_DO_EAGER && ag_position(p) == s->sequence->plan.chunks[s->chunk].first;
    if (++p->next == p->stop)
        ag_policy_run_end(p, now, v);
}

/* Changes to another known sequence with the same beginning that goes on with this op. */
static bool switch_sequence(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence, *other;
    uint32_t at = b ? ag_position(p) : 0, deferred = ag_policy_deferred(p);
    enum ag_do doing = p->doing;
    if (b ? !s->pure : !p->idle)
        return false;
    if (b && s->splits && at == b->len)
        return false; /* the subsegment has ended */
    other = ag_sequence_candidate(s, at ? b->keys[0] : key, at ? b->prefix[at] : 0, at, key);
    if (!other || other == b)
        return false;
    bool running = b && doing != AG_DO_EAGER && at > b->plan.chunks[s->chunk].first;
    uint32_t began = running ? b->plan.chunks[s->chunk].first : at;
    uint64_t run_began = s->run_began;
    struct ag_chunk *left = running ? &b->plan.chunks[s->chunk] : NULL;
    if (b)
        leave(s, at);
    if (b && at && at == b->len)
        ag_cut_wanted(p, other, at);
    ag_follow(p, other, at, now);
    s->from = 0;
    s->pure = true;
    if (running) {
        struct ag_chunk *fits = other->plan.num_chunks ? &other->plan.chunks[s->chunk] : NULL;
        bool alike = fits && fits->first == began;
        enum ag_do wanted = alike ? treatment(s, fits) : AG_DO_EAGER;
        /* a resting chunk is not entered, but ops that are already deferred may go on in it */
        if (alike && doing == AG_DO_DEFER && ag_chunk_state(fits) == AG_CHUNK_READY)
            wanted = AG_DO_DEFER;
        bool goes_on = wanted != AG_DO_EAGER && (wanted == doing || wanted == AG_DO_RECORD);
        if (goes_on) {
            p->doing = wanted;
            s->run_began = run_began;
        }
        /* p->doing may be that of a chunk that begins here; the deferred ops are not part of it */
        if (deferred && !(goes_on && wanted == AG_DO_DEFER)) {
            v->flush = deferred;
            if (!alike) /* if it is alike, it will soon have a graph */
                chunk_failed(left);
            p->counts.mismatches++;
        }
    }
    if (at)
        p->counts.switches++;
    return true;
}

/* Between two sync points, a subsegment ends in three places: after a whole turn, when the stream
 * leaves a loop; after ops that are a sequence by themselves; and before an op that has been the
 * first of other work. The policy then follows the sequence that begins with this op, from its
 * first op. If there is none, it observes the following ops as a subsegment of their own. */
static bool next_subsegment(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    struct ag_sequence *b = s->sequence, *subsegment = NULL;
    uint32_t at = b ? ag_position(p) : 0;
    if (!b || !(s->splits || b->periodic))
        return false;
    bool starts = ag_seen_before(s, ag_mix(key) | 1);
    struct ag_sequence *after = ag_sequence_beginning(s, key);
    uint32_t unit = ag_unit(b);
    bool turn = s->pure && b->periodic && at % unit == 0;
    if (!at)
        return false;
    if (s->pure && !turn)
        subsegment = at == b->len ? b : ag_sequence_find(s, b->prefix[at], at);
    if (!starts && !(after && (turn || subsegment)))
        return false;
    v->flush = ag_give_up(p);
    if (turn) {
        s->segment_hash = ag_hash_join(s->segment_hash, b->prefix[at], at);
        s->segment_len += at;
        s->looped += at;
        ag_chain_learn(s, AG_CHAIN_SUBSEGMENT, NULL, ag_content_id(b->prefix[unit], unit));
        leave(s, at);
        ag_follow_nothing(p);
    } else {
        s->keep = after;
        ag_depart(p);
        ag_end_subsegment(p, subsegment, false);
        s->keep = NULL;
    }
    s->splits++;
    s->departed.serial = 0;
    s->rejoined = false;
    s->pure = true;
    struct ag_sequence *predicted = ag_chain_predict(s, AG_CHAIN_SUBSEGMENT);
    if (predicted && predicted->keys[0] == key && (!after || ag_sequence_is_kept(predicted)))
        after = predicted;
    if (!after)
        return false;
    ag_follow(p, after, 0, now);
    return true;
}

void ag_policy_op(struct ag_policy *p, ag_key key, uint64_t now, struct ag_verdict *v)
{
    struct ag_policy_state *s = p->state;
    v->flush = 0;
    v->fresh = false;
    v->done = NULL;
    p->counts.ops++;
    if (p->dormant) {
        p->dormant--;
        v->what = AG_DO_EAGER;
        return;
    }
    if (s->was_dormant)
        ag_wake(p);
    if (p->next != p->stop && *p->next == key) {
        p->idle = false;
        advance(p, now, v);
        return;
    }
    if (p->idle && !s->pure && s->sequence && ag_position(p) == s->from) {
        ag_follow_nothing(p); /* the loop does not go on behind the sync point */
        s->pure = true;
    }
    if (ag_may_be_odd(p) && ag_is_odd(p, key)) {
        ag_passes_new(p);
        v->flush = ag_end_segment(p, now);
        v->what = AG_DO_EAGER;
        return;
    }
    if (switch_sequence(p, key, now, v) || next_subsegment(p, key, now, v) ||
        (s->departed.serial && !s->sequence && ag_rejoin_at_cut(p, key, now))) {
        p->idle = false;
        advance(p, now, v);
        return;
    }
    p->idle = false;
    if (s->sequence) {
        uint32_t at = ag_position(p);
        v->flush = ag_give_up(p);
        if (at && at < s->sequence->len) {
            s->departed = ag_sequence_ref(s->sequence);
            s->departed_at = at;
            s->departed_new = p->fresh != s->fresh;
            s->realign_run = 0;
            s->realign_left = AG_REALIGN_OPS;
        }
        ag_depart(p);
    }
    ag_observe(p, key, now, v);
}

void ag_policy_measured(struct ag_policy *p, uint32_t ops, uint64_t now)
{
    struct ag_policy_state *s = p->state;
    p->measured = ops;
    if (s->sequence && p->doing != AG_DO_EAGER && ag_is_measured(p, s->sequence, now))
        p->doing = AG_DO_EAGER;
}

uint32_t ag_policy_break(struct ag_policy *p)
{
    uint32_t deferred = ag_policy_deferred(p);
    if (deferred) {
        chunk_failed(&p->state->sequence->plan.chunks[p->state->chunk]);
        p->doing = AG_DO_EAGER;
    }
    return deferred;
}
