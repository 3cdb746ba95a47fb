/*
 * alike.c - chooses among known sequences with the same beginning: which one a stream goes on with,
 * which one it keeps to, and which ones are cut alike and share their graphs.
 *
 * Sequences with the same first key are in the list of one head, the most recently used first.
 * All functions look only at the first AG_CANDIDATES of them: a program may make thousands.
 */
#include "policy/internal.h"
#include <string.h>

/* The most recently used sequence that begins with the `position` ops hashed in `prefix` and goes
 * on with `key`. Prefers one that was seen more than once. */
struct ag_sequence *ag_sequence_candidate(struct ag_policy_state *s, ag_key head_key,
                                          uint64_t prefix, uint32_t position, ag_key key)
{
    struct ag_head *head;
    struct ag_sequence *seen_once = NULL;
    int looked = 0;
    HASH_FIND(hh, s->by_head, &head_key, sizeof(head_key), head);
    for (struct ag_sequence *b = head ? head->first : NULL; b && looked < AG_CANDIDATES;
         b = b->next, looked++) {
        if (b->len <= position || b->prefix[position] != prefix || b->keys[position] != key)
            continue;
        if (b->visits > 1)
            return b;
        if (!seen_once)
            seen_once = b;
    }
    return seen_once;
}

/* A sequence is *kept* if a stream that follows it mostly goes on to its end. Only recent visits
 * count. */
static void drop_old(struct ag_sequence *sequence)
{
    if (sequence->kept + sequence->left >= AG_KEPT_RECENTLY) {
        sequence->kept /= 2;
        sequence->left /= 2;
    }
}

void ag_sequence_kept(struct ag_sequence *sequence)
{
    sequence->kept++;
    drop_old(sequence);
}

void ag_sequence_left(struct ag_sequence *sequence, uint32_t at)
{
    if (at == 0 || at == sequence->len)
        return;
    sequence->left++;
    drop_old(sequence);
}

bool ag_sequence_is_kept(const struct ag_sequence *sequence)
{
    return sequence->kept > 1 && sequence->left * AG_KEPT_LEFT_WEIGHT <= sequence->kept;
}

/* Of the sequences that begin with this op: the longest one that is kept, or, if none is, the one
 * with the most visits. */
struct ag_sequence *ag_sequence_beginning(struct ag_policy_state *s, ag_key head_key)
{
    struct ag_head *head;
    struct ag_sequence *best = NULL;
    int looked = 0;
    HASH_FIND(hh, s->by_head, &head_key, sizeof(head_key), head);
    for (struct ag_sequence *b = head ? head->first : NULL; b && looked < AG_CANDIDATES;
         b = b->next, looked++) {
        bool kept = ag_sequence_is_kept(b), best_kept = best && ag_sequence_is_kept(best);
        if (!best || (kept && !best_kept) ||
            (kept == best_kept && (kept ? b->len > best->len : b->visits > best->visits)))
            best = b;
    }
    return best;
}

/* Whether other sequences with the same first op are in use besides this one. They must be cut
 * alike, so that the stream can change from one to another while ops are deferred. */
bool ag_sequence_has_like(const struct ag_sequence *sequence)
{
    int looked = 0;
    for (struct ag_sequence *b = sequence->head->first; b && looked < AG_CANDIDATES;
         b = b->next, looked++)
        if (b != sequence && !b->periodic && b->visits > 1 + sequence->visits / AG_LIKE_SHARE)
            return true;
    return false;
}

/* The number of ops that both begin with. */
static uint32_t common(const struct ag_sequence *a, const struct ag_sequence *b)
{
    uint32_t low = 0, high = a->len < b->len ? a->len : b->len;
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        if (a->prefix[middle] == b->prefix[middle])
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Of the other sequences that already have a plan, the one with the longest beginning in common
 * with this one; among equals, the longest. So all of them get the same plan, whichever came first.
 */
struct ag_sequence *ag_sequence_planned_alike(const struct ag_sequence *sequence, uint32_t limit)
{
    struct ag_sequence *best = NULL;
    uint32_t best_common = 0;
    int looked = 0;
    for (struct ag_sequence *b = sequence->head->first; b && looked < AG_CANDIDATES;
         b = b->next, looked++) {
        if (b == sequence || !b->plan.num_chunks || (b->periodic && !b->loose) ||
            b->profit.most != sequence->profit.most || b->tune.up != sequence->tune.up ||
            b->plan.limit >= limit * 2 || limit >= b->plan.limit * 2)
            continue;
        uint32_t n = common(b, sequence);
        if (!best || n > best_common || (n == best_common && b->len > best->len)) {
            best = b;
            best_common = n;
        }
    }
    return best;
}

struct ag_chunk *ag_chunk_alike(const struct ag_chunk *chunk)
{
    const struct ag_sequence *sequence = chunk->sequence;
    const ag_key *keys = sequence->keys + chunk->first;
    int looked = 0;
    for (struct ag_sequence *b = sequence->head->first; b && looked < AG_CANDIDATES;
         b = b->next, looked++) {
        if (b == sequence || !b->plan.num_chunks || b->len < chunk->first + chunk->count)
            continue;
        struct ag_chunk *other = &b->plan.chunks[ag_plan_chunk_at(b, chunk->first)];
        if (other->first == chunk->first && other->count == chunk->count &&
            /* the builder writes `user` before the state */
            ag_chunk_state(other) == AG_CHUNK_READY && other->user &&
            !memcmp(b->keys + other->first, keys, chunk->count * sizeof(*keys)))
            return other;
    }
    return NULL;
}
