/*
 * plan.c - how a sequence is cut into chunks.
 *
 * A chunk is submitted when its last op has arrived. So with a long chunk the GPU waits for the
 * host, and with short ones the program pays for more graph launches. Measured on an H100
 * (docs/performance.md): if the host issues an op every 0.25 us, a first chunk of 4 and a second of
 * 16 beat one chunk of 20. At 1 us and above, chunks of about 5 win. Chunks longer than 64 ops gain
 * nothing.
 */
#include "policy/internal.h"
#include <stdlib.h>

static bool is_loop(const struct ag_sequence *sequence)
{
    return sequence->periodic && !sequence->loose;
}

/* Several short turns merged, and mostly followed to the end. */
static bool is_steady(const struct ag_sequence *sequence)
{
    return is_loop(sequence) && sequence->shortest_period &&
           sequence->visits >= AG_PLAN_STEADY_VISITS &&
           sequence->left * AG_PLAN_STEADY_TURNS <= sequence->kept;
}

/* A loop that goes on, and whose host is so slow that the GPU waits for it however it is cut. */
static bool is_slow_loop(const struct ag_policy_state *s, const struct ag_sequence *sequence)
{
    return sequence->periodic && s->gap >= AG_SLOW_HOST_NS &&
           sequence->visits >= AG_PLAN_SLOW_LOOP_VISITS && ag_sequence_is_kept(sequence);
}

/* Most ops in a chunk of this sequence at the host's present pace. `up` is the number of times the
 * chunks were made longer; < 0: shorter, the first time only towards the end. */
uint32_t ag_plan_limit(const struct ag_policy_state *s, const struct ag_sequence *sequence, int up)
{
    if (s->config.fixed_chunk)
        return s->config.fixed_chunk;
    uint32_t gap = s->gap ? s->gap : 1;
    uint32_t most = s->config.hold_most_ns / gap + 1; /* longer ones are flushed half way */
    uint32_t limit = AG_PLAN_HOLD_NS / gap;
    if (is_steady(sequence) && AG_PLAN_STEADY_NS / gap >= sequence->len && most >= sequence->len)
        limit = AG_PLAN_STEADY_NS / gap;
    uint32_t least = is_slow_loop(s, sequence) ? AG_PLAN_SLOW_LOOP_CHUNK : 4;
    if (limit < least)
        limit = least;
    if (up < -1)
        limit >>= 2 * (-up - 1);
    if (up > 0)
        limit <<= 2 * up;
    if (!limit)
        limit = 1;
    if (limit > most)
        limit = most;
    if (limit > s->config.max_chunk)
        limit = s->config.max_chunk;
    if (sequence->profit.most && limit > sequence->profit.most)
        limit = sequence->profit.most;
    return limit;
}

/* Ops in a chunk that finds the GPU idle. */
static uint32_t first_count(const struct ag_policy_state *s, uint32_t limit)
{
    uint32_t first = limit < AG_PLAN_FIRST_CHUNK ? limit : AG_PLAN_FIRST_CHUNK;
    if (s->gap > AG_PLAN_FIRST_NS / AG_PLAN_FIRST_CHUNK)
        first = s->gap > AG_PLAN_FIRST_NS / 2 ? 1 : first > 2 ? 2 : first;
    return first;
}

static uint32_t chunk_in(const struct ag_plan *plan, uint32_t position)
{
    uint32_t low = 0, high = plan->num_chunks;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (plan->chunks[middle].first <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Ops of those chunks of the plan before, from `at` on, that fill in time together: the ops of a
 * slow host come at an uneven pace. 0: it has none there. */
static uint32_t joined_count(const struct ag_policy_state *s, const struct ag_sequence *sequence,
                             uint32_t at, uint32_t limit)
{
    const struct ag_plan *before = sequence->plan.num_chunks    ? &sequence->plan
                                   : sequence->aside.num_chunks ? &sequence->aside
                                                                : &s->retired;
    uint32_t count = 0;
    uint64_t ns = 0;
    if (!before->num_chunks || before->chunks->sequence != sequence)
        return 0;
    for (uint32_t i = chunk_in(before, at); i < before->num_chunks; i++) {
        const struct ag_chunk *chunk = &before->chunks[i];
        ns += chunk->fill_ns ? chunk->fill_ns : (uint64_t)chunk->count * s->gap;
        if (chunk->first != at + count || count + chunk->count > limit ||
            (count && ns > s->config.hold_most_ns))
            break;
        count += chunk->count;
    }
    return count;
}

static uint32_t next_count(const struct ag_policy_state *s, const struct ag_sequence *sequence,
                           uint32_t limit, uint32_t at, uint32_t previous)
{
    uint32_t left = sequence->len - at, count;
    uint32_t joined =
        sequence->periodic && s->gap >= AG_SLOW_HOST_NS ? joined_count(s, sequence, at, limit) : 0;
    if (s->config.fixed_chunk) {
        count = s->config.fixed_chunk;
    } else if (joined) {
        count = joined;
    } else if (is_loop(sequence)) {
        /* the GPU is busy with the period before, so cut evenly, into whole repeating units */
        uint32_t unit = sequence->arguments_period ? sequence->arguments_period : ag_unit(sequence);
        count = unit <= limit ? limit / unit * unit : limit;
        uint32_t pieces = (sequence->len + count - 1) / count;
        if (unit > limit)
            count = (sequence->len + pieces - 1) / pieces;
    } else if (sequence->tune.up > 0) {
        /* the GPU waits for the host, and only the last chunk keeps the program waiting */
        uint32_t tail = ag_plan_limit(s, sequence, 0);
        count = left > limit + tail ? limit : left > tail ? left - tail : left;
    } else {
        uint32_t first = first_count(s, limit);
        count = at == 0 ? first : previous * 4;
        if (count > limit)
            count = limit;
        if (left < count + first && left <= limit + first && at > 0)
            count = left; /* leave no tiny chunk at the end */
        if (at == 0 && left <= first + first / 2)
            count = left;
        if (sequence->tune.up < 0) {
            /* Shorter and shorter: only the end keeps the program waiting. Half of what is left,
             * rounded up, needs fewer launches: three ops go in two, five in three. */
            uint32_t half = (left + 1) / 2;
            count = at == 0 ? limit : count;
            count = count < half ? count : half;
        }
    }
    return count < left ? count : left;
}

/* Sequences with the same beginning are cut alike, so that deferred ops fit when one takes over
 * from another. This gives the length of the chunk at `at`, as it would be without cuts, from a
 * planned sequence with the same beginning, or 0. */
static uint32_t copied_count(const struct ag_sequence *model, const struct ag_sequence *sequence,
                             uint32_t at)
{
    if (!model || at >= model->len || model->prefix[at] != sequence->prefix[at])
        return 0;
    uint32_t i = ag_plan_chunk_at(model, at);
    if (model->plan.chunks[i].first != at || model->plan.chunks[i].goes_on)
        return 0;
    uint32_t count = model->plan.chunks[i].count;
    while (++i < model->plan.num_chunks && model->plan.chunks[i].goes_on)
        count += model->plan.chunks[i].count;
    return count < sequence->len - at ? count : sequence->len - at;
}

/* Whether much longer or shorter chunks would now do, or a steady loop need not be cut at all. */
static bool is_far(const struct ag_sequence *sequence, uint32_t limit)
{
    return limit >= sequence->plan.limit * 2 || sequence->plan.limit >= limit * 2 ||
           (is_steady(sequence) && !ag_has_cuts(sequence) && limit >= sequence->len &&
            sequence->plan.num_chunks != 1);
}

struct plan {
    uint32_t limit;
    const struct ag_sequence *model;
    uint32_t at, end; /* of the chunk that is being cut, as it would be without cuts */
    uint8_t *ends;    /* where chunks should end (ag_policy_hooks.ends); NULL: anywhere */
    uint32_t longest; /* ops in a chunk that is made longer for that */
};

static enum ag_ends set_ends(const struct ag_policy_state *s, const struct ag_sequence *sequence,
                             struct plan *plan)
{
    enum ag_ends kind = AG_ANY_ENDS;
    plan->ends = s->hooks.ends && !s->config.fixed_chunk ? malloc(sequence->len) : NULL;
    if (plan->ends)
        kind = s->hooks.ends(s->hooks.context, sequence->keys, sequence->len, plan->ends);
    if (kind == AG_ANY_ENDS) {
        free(plan->ends);
        plan->ends = NULL;
    }
    return kind;
}

/* A chunk that would end at `end` is made longer, up to a limit, until it ends where it should. */
static uint32_t good_end(const struct plan *plan, const struct ag_sequence *sequence, uint32_t end)
{
    uint32_t left = sequence->len - plan->at;
    uint32_t most = left < plan->longest ? sequence->len : plan->at + plan->longest;
    for (uint32_t to = end; plan->ends && to <= most; to++)
        if (to == sequence->len || plan->ends[to - 1])
            return to;
    return end;
}

/* Where only the cuts have changed, the limit stays unless the pace asks for far more or less, so
 * the other chunks stay. After the end of its model, a sequence goes on with the model's limit.
 * Otherwise each change of the pace would give the next longer sequence a different plan. */
static struct plan plan_of(struct ag_policy_state *s, const struct ag_sequence *sequence)
{
    struct plan plan = {.limit = ag_plan_limit(s, sequence, sequence->tune.up)};
    if (sequence->recut && !sequence->profit.replan && !is_far(sequence, plan.limit))
        plan.limit = sequence->plan.limit;
    enum ag_ends ends = set_ends(s, sequence, &plan);
    if (ends != AG_OWN_ENDS && !is_loop(sequence))
        plan.model = ag_sequence_planned_alike(sequence, plan.limit);
    if (plan.model)
        plan.limit = plan.model->plan.limit;
    plan.longest = plan.limit + (ends == AG_SOME_ENDS);
    return plan;
}

/* The length of the chunk at `at`. Call it for all chunks, from the first to the last. A chunk ends
 * at a cut, and the next one is as short as on an idle GPU, unless the GPU waits for it anyway;
 * then the plan goes on as without. */
static uint32_t count_at(const struct ag_policy_state *s, struct plan *plan,
                         const struct ag_sequence *sequence, uint32_t at)
{
    if (at == plan->end) {
        uint32_t count = copied_count(plan->model, sequence, at);
        if (!count)
            count = next_count(s, sequence, plan->limit, at, at - plan->at);
        plan->at = at;
        plan->end = good_end(plan, sequence, at + count);
    }
    uint32_t end = plan->end;
    if (sequence->num_cuts) {
        bool is_short = ag_is_cut(sequence, at) && !is_slow_loop(s, sequence);
        uint32_t first = is_short ? first_count(s, plan->limit) : end - at;
        end = ag_cut_behind(sequence, at, end);
        end = first < end - at ? at + first : end;
    }
    return end - at;
}

/* Chunks of the plan that was just dropped go on with their graphs where the new plan has the same.
 */
static void take_over(struct ag_policy_state *s, struct ag_chunk *chunks, uint32_t n)
{
    struct ag_chunk *old = s->retired.chunks, *end = old + s->retired.num_chunks;
    for (uint32_t i = 0; i < n; i++) {
        while (old < end && old->first < chunks[i].first)
            old++;
        if (old == end || old->sequence != chunks->sequence)
            return;
        if (old->first != chunks[i].first || old->count != chunks[i].count)
            continue;
        enum ag_chunk_state state = ag_chunk_state(old);
        ag_chunk_set_user(&chunks[i], ag_chunk_user(old));
        ag_chunk_set_user(old, NULL);
        atomic_store_explicit(&old->state, AG_CHUNK_NEW,
                              memory_order_relaxed); /* its graph is gone */
        chunks[i].retries = old->retries;
        chunks[i].retry_at = old->retry_at;
        chunks[i].hits = old->hits;
        chunks[i].fails = old->fails;
        chunks[i].cold_until = old->cold_until;
        chunks[i].fill_ns = old->fill_ns;
        atomic_store_explicit(&chunks[i].state, state, memory_order_release);
    }
}

void ag_plan(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    struct plan plan = plan_of(s, sequence), again = plan;
    uint32_t n = 0;
    if (plan.model)
        ag_cuts_copy(sequence, plan.model);
    for (uint32_t at = 0; at < sequence->len; n++)
        at += count_at(s, &plan, sequence, at);
    struct ag_chunk *chunks = ag_new(n * sizeof(*chunks));
    if (!chunks) {
        free(plan.ends);
        return;
    }
    sequence->plan.longest = 0;
    for (uint32_t at = 0, i = 0; i < n; at += chunks[i++].count) {
        chunks[i].sequence = sequence;
        chunks[i].first = at;
        chunks[i].count = count_at(s, &again, sequence, at);
        chunks[i].goes_on = at > again.at;
        if (sequence->plan.longest < chunks[i].count)
            sequence->plan.longest = chunks[i].count;
    }
    free(plan.ends);
    take_over(s, chunks, n);
    sequence->plan.chunks = chunks;
    sequence->plan.num_chunks = n;
    sequence->plan.limit = plan.limit;
    sequence->unfit = 0;
    sequence->recut = false;
}

bool ag_plan_is_stale(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    if (sequence->profit.replan || sequence->tune.replan)
        return sequence->plan.num_chunks > 0;
    if (!sequence->plan.num_chunks || sequence->tune.mode == AG_TUNE_TRIES ||
        sequence->tune.wants != AG_TUNE_NOTHING || sequence->replans == AG_PLAN_MOST_NEW)
        return false;
    if (!is_far(sequence, ag_plan_limit(s, sequence, sequence->tune.up))) {
        sequence->unfit -= sequence->unfit > 0;
        return false;
    }
    if (++sequence->unfit < (uint32_t)AG_PLAN_NEW_VISITS << 2 * sequence->replans)
        return false;
    struct plan plan = plan_of(s, sequence);
    bool same = true;
    for (uint32_t i = 0; same && i < sequence->plan.num_chunks; i++)
        same = count_at(s, &plan, sequence, sequence->plan.chunks[i].first) ==
               sequence->plan.chunks[i].count;
    if (same)
        sequence->plan.limit = plan.limit;
    free(plan.ends);
    return !same;
}

uint32_t ag_plan_chunk_at(const struct ag_sequence *sequence, uint32_t position)
{
    return chunk_in(&sequence->plan, position);
}
