/* sequence.c - the known sequences of a stream: found by content or by first key, dropped by
 * age. */
#include "policy/internal.h"
#include <stdlib.h>
#include <string.h>

uint64_t ag_hash_join(uint64_t left, uint64_t right, uint32_t right_len)
{
    uint64_t power = 1, base = AG_HASH_BASE;
    if (!left)
        return right;
    for (uint32_t n = right_len; n; n >>= 1, base = ag_hash_product(base, base))
        if (n & 1)
            power = ag_hash_product(power, base);
    return ag_hash_sum(ag_hash_product(left, power), right);
}

void ag_keys_push(struct ag_keys *keys, ag_key key)
{
    if (keys->count == AG_MAX_SEQUENCE_OPS)
        keys->overflow = true;
    if (keys->overflow)
        return;
    if (keys->count == keys->capacity) {
        uint32_t capacity = keys->capacity ? keys->capacity * 2 : 32;
        ag_key *data = realloc(keys->data, capacity * sizeof(*data));
        if (!data) {
            keys->overflow = true;
            return;
        }
        keys->data = data;
        keys->capacity = capacity;
    }
    keys->data[keys->count++] = key;
    keys->hash = ag_hash_add(keys->hash, key);
}

void ag_keys_clear(struct ag_keys *keys)
{
    keys->count = 0;
    keys->hash = 0;
    keys->overflow = false;
}

struct ag_ref ag_sequence_ref(const struct ag_sequence *sequence)
{
    return sequence ? (struct ag_ref){sequence->slot, sequence->serial} : (struct ag_ref){0, 0};
}

struct ag_sequence *ag_sequence_get(struct ag_policy_state *s, struct ag_ref ref)
{
    struct ag_sequence *sequence = ref.serial ? s->slots[ref.slot] : NULL;
    return sequence && sequence->serial == ref.serial ? sequence : NULL;
}

struct ag_chunk_ref ag_policy_chunk_ref(const struct ag_chunk *chunk)
{
    const struct ag_sequence *sequence = chunk->sequence;
    return (struct ag_chunk_ref){sequence->slot, sequence->serial,
                                 (uint32_t)(chunk - sequence->plan.chunks)};
}

struct ag_chunk *ag_policy_chunk_get(struct ag_policy *p, struct ag_chunk_ref ref)
{
    struct ag_sequence *sequence = ag_sequence_get(p->state, (struct ag_ref){ref.slot, ref.serial});
    return sequence && ref.index < sequence->plan.num_chunks ? &sequence->plan.chunks[ref.index]
                                                             : NULL;
}

struct ag_sequence *ag_sequence_find(struct ag_policy_state *s, uint64_t hash, uint32_t len)
{
    uint64_t id = ag_content_id(hash, len);
    struct ag_sequence *sequence;
    HASH_FIND(hh, s->by_id, &id, sizeof(id), sequence);
    return sequence && sequence->len == len ? sequence : NULL;
}

struct ag_sequence *ag_sequence_of_turn(struct ag_policy_state *s, uint64_t turn)
{
    struct ag_sequence *sequence;
    HASH_FIND(turn_hh, s->by_turn, &turn, sizeof(turn), sequence);
    return sequence;
}

void ag_sequence_has_turn(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    if (sequence->in_turns || ag_sequence_of_turn(s, sequence->turn))
        return;
    HASH_ADD(turn_hh, s->by_turn, turn, sizeof(sequence->turn), sequence);
    sequence->in_turns = sequence->turn_hh.tbl != NULL;
}

static struct ag_head *head_get(struct ag_policy_state *s, ag_key key)
{
    struct ag_head *head;
    HASH_FIND(hh, s->by_head, &key, sizeof(key), head);
    if (!head) {
        head = calloc(1, sizeof(*head));
        if (!head)
            return NULL;
        head->key = key;
        HASH_ADD(hh, s->by_head, key, sizeof(key), head);
        if (!head->hh.tbl) {
            free(head);
            return NULL;
        }
    }
    return head;
}

static void head_release(struct ag_policy_state *s, struct ag_head *head)
{
    if (head->first || head->ready)
        return;
    HASH_DEL(s->by_head, head);
    free(head);
}

void ag_sequence_touch(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    sequence->last_use = ++s->clock;
    DL_DELETE2(s->by_use[sequence->seen_again], sequence, older, newer);
    sequence->seen_again = sequence->visits > 1;
    DL_APPEND2(s->by_use[sequence->seen_again], sequence, older, newer);
    if (sequence->head->first != sequence) {
        DL_DELETE(sequence->head->first, sequence);
        DL_PREPEND(sequence->head->first, sequence);
    }
}

/* ready chunks by first key */

void ag_chunk_publish(struct ag_policy_state *s, struct ag_chunk *chunk)
{
    if (chunk->published)
        return;
    struct ag_head *head = head_get(s, chunk->sequence->keys[chunk->first]);
    if (!head)
        return; /* it can be launched in its place, but ag_policy_cover() does not find it */
    chunk->published = true;
    DL_PREPEND2(head->ready, chunk, prev_same_head, next_same_head);
}

static void chunk_withdraw(struct ag_policy_state *s, struct ag_chunk *chunk)
{
    struct ag_head *head;
    if (!chunk->published)
        return;
    ag_key key = chunk->sequence->keys[chunk->first];
    chunk->published = false;
    HASH_FIND(hh, s->by_head, &key, sizeof(key), head);
    if (!head)
        return;
    DL_DELETE2(head->ready, chunk, prev_same_head, next_same_head);
    head_release(s, head);
}

static bool begin_with(const struct ag_recorded *ops, const struct ag_chunk *chunk)
{
    const ag_key *keys = chunk->sequence->keys + chunk->first;
    for (uint32_t i = 0; i < chunk->count; i++)
        if (ops[i].key != keys[i])
            return false;
    return true;
}

struct ag_chunk *ag_policy_cover(struct ag_policy *p, const struct ag_recorded *ops, uint32_t n)
{
    struct ag_policy_state *s = p->state;
    struct ag_chunk *best = NULL;
    struct ag_head *head;
    int looked = 0;
    if (!n)
        return NULL;
    HASH_FIND(hh, s->by_head, &ops->key, sizeof(ops->key), head);
    for (struct ag_chunk *c = head ? head->ready : NULL; c && looked < AG_CANDIDATES;
         c = c->next_same_head, looked++)
        if (c->count <= n && (!best || c->count > best->count) &&
            ag_chunk_state(c) == AG_CHUNK_READY && begin_with(ops, c))
            best = c;
    return best;
}

/* dropping */

static bool is_building(const struct ag_plan *plan)
{
    for (uint32_t i = 0; i < plan->num_chunks; i++)
        if (ag_chunk_state(&plan->chunks[i]) == AG_CHUNK_BUILDING)
            return true;
    return false;
}

static bool sequence_is_building(const struct ag_sequence *sequence)
{
    return is_building(&sequence->plan) || is_building(&sequence->aside);
}

void ag_sequence_swap_plans(struct ag_sequence *sequence)
{
    struct ag_plan plan = sequence->plan;
    sequence->plan = sequence->aside;
    sequence->aside = plan;
}

static void drop_chunk(struct ag_policy_state *s, struct ag_chunk *chunk)
{
    chunk_withdraw(s, chunk);
    if (chunk->user && s->hooks.drop)
        s->hooks.drop(s->hooks.context, chunk);
}

void ag_plan_free(struct ag_policy_state *s, struct ag_plan *plan)
{
    for (uint32_t i = 0; i < plan->num_chunks; i++)
        drop_chunk(s, &plan->chunks[i]);
    free(plan->chunks);
    plan->chunks = NULL;
    plan->num_chunks = 0;
}

static void drop_chunks(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    for (uint32_t i = 0; i < s->retired.num_chunks; i++) {
        struct ag_chunk *chunk = &s->retired.chunks[i];
        if (chunk->sequence != sequence)
            continue;
        drop_chunk(s, chunk);
        chunk->sequence = NULL; /* no later plan may take it over */
    }
    ag_plan_free(s, &sequence->plan);
    ag_sequence_swap_plans(sequence);
    ag_plan_free(s, &sequence->plan);
    ag_tune_ends(sequence);
}

/* Fails while one of the chunks is being built. The chunks live until the next call, because the
 * current verdict may name one of them. */
bool ag_plan_retire(struct ag_policy_state *s, struct ag_plan *plan)
{
    if (s->retired.chunks || is_building(plan))
        return false;
    for (uint32_t i = 0; i < plan->num_chunks; i++)
        chunk_withdraw(s, &plan->chunks[i]);
    s->retired = *plan;
    plan->chunks = NULL;
    plan->num_chunks = 0;
    return true;
}

static void sequence_delete(struct ag_policy_state *s, struct ag_sequence *sequence)
{
    drop_chunks(s, sequence);
    DL_DELETE(sequence->head->first, sequence);
    head_release(s, sequence->head);
    HASH_DELETE(hh, s->by_id, sequence);
    if (sequence->in_turns)
        HASH_DELETE(turn_hh, s->by_turn, sequence);
    DL_DELETE2(s->by_use[sequence->seen_again], sequence, older, newer);
    s->slots[sequence->slot] = NULL;
    if (s->free_slot > sequence->slot)
        s->free_slot = sequence->slot;
    s->num_sequences--;
    s->sequences_ops -= sequence->len;
    free(sequence->keys);
    free(sequence->prefix);
    free(sequence->cuts);
    free(sequence);
}

void ag_sequence_drop_all(struct ag_policy_state *s)
{
    ag_plan_free(s, &s->retired);
    while (s->by_id)
        sequence_delete(s, s->by_id);
}

/* A sequence that was seen again outlives sequences seen once, but not for ever: when the program
 * turns to other work, it makes room for that. */
static uint64_t worth(const struct ag_policy_state *s, const struct ag_sequence *sequence)
{
    uint64_t bonus = (uint64_t)s->config.max_sequences * AG_SEEN_AGAIN_BONUS;
    return sequence->last_use + (sequence->visits > 1 ? bonus : 0);
}

/* The first sequence of the list that may be dropped. */
static struct ag_sequence *first_to_go(struct ag_policy_state *s, struct ag_sequence *list,
                                       bool with_graphs)
{
    for (struct ag_sequence *sequence = list; sequence; sequence = sequence->newer)
        if (sequence != s->sequence && sequence != s->keep &&
            (!with_graphs || sequence->plan.num_chunks || sequence->aside.num_chunks) &&
            !sequence_is_building(sequence))
            return sequence;
    return NULL;
}

/* Of the sequences that may be dropped, the one that is worth least. */
static struct ag_sequence *oldest(struct ag_policy_state *s, bool with_graphs)
{
    struct ag_sequence *once = first_to_go(s, s->by_use[0], with_graphs);
    struct ag_sequence *again = first_to_go(s, s->by_use[1], with_graphs);
    return !again || (once && worth(s, once) < worth(s, again)) ? once : again;
}

/* It is expected next, but none of its ops has come. */
static bool is_only_expected(const struct ag_policy *p, const struct ag_sequence *sequence)
{
    return p->state->sequence == sequence && p->idle && ag_position(p) == p->state->from;
}

/* The one that is expected goes last: the stream may have ended, or do nothing for long. */
struct ag_sequence *ag_policy_victim(struct ag_policy *p)
{
    struct ag_sequence *victim = oldest(p->state, true), *expected = p->state->sequence;
    bool goes = !victim && expected && is_only_expected(p, expected) && expected->plan.num_chunks &&
                !sequence_is_building(expected);
    return goes ? expected : victim;
}

bool ag_policy_drop_graphs(struct ag_policy *p, struct ag_sequence *sequence)
{
    struct ag_policy_state *s = p->state;
    if (sequence_is_building(sequence))
        return false;
    if (s->sequence == sequence) {
        if (!is_only_expected(p, sequence))
            return false;
        ag_follow_nothing(p);
    }
    drop_chunks(s, sequence);
    sequence->dropped_at = sequence->visits;
    return true;
}

void ag_policy_forget(struct ag_policy *p, struct ag_sequence *sequence)
{
    if (!ag_policy_drop_graphs(p, sequence) || sequence == p->state->keep)
        return;
    sequence_delete(p->state, sequence);
    p->counts.evicted++;
}

/* new sequences */

/* A free slot for a sequence of `len` ops; drops others to make room. AG_SLOTS if there is none. */
static uint32_t free_slot(struct ag_policy *p, uint32_t len)
{
    struct ag_policy_state *s = p->state;
    while (s->num_sequences >= s->config.max_sequences || s->sequences_ops + len > AG_KNOWN_OPS) {
        struct ag_sequence *victim = oldest(s, false);
        if (!victim)
            return AG_SLOTS;
        sequence_delete(s, victim);
        p->counts.evicted++;
    }
    for (; s->free_slot < s->num_slots; s->free_slot++)
        if (!s->slots[s->free_slot])
            return s->free_slot;
    uint32_t more = s->num_slots ? s->num_slots * 2 : 16;
    struct ag_sequence **slots = realloc(s->slots, more * sizeof(struct ag_sequence *));
    if (!slots)
        return AG_SLOTS;
    memset(slots + s->num_slots, 0, (more - s->num_slots) * sizeof(struct ag_sequence *));
    uint32_t first = s->num_slots;
    s->slots = slots;
    s->num_slots = more;
    return first;
}

/* The sequence with this content, made if it is not known yet; NULL if there is no memory or no
 * room. */
struct ag_sequence *ag_sequence_add(struct ag_policy *p, const ag_key *keys, uint32_t len)
{
    struct ag_policy_state *s = p->state;
    uint64_t hash = ag_hash_keys(keys, len);
    struct ag_sequence *known = ag_sequence_find(s, hash, len);
    if (known)
        return known;

    uint32_t slot = free_slot(p, len);
    if (slot == AG_SLOTS)
        return NULL;
    struct ag_sequence *sequence = ag_new(sizeof(*sequence));
    struct ag_head *head = head_get(s, keys[0]);
    if (!sequence || !head)
        goto fail;
    sequence->keys = malloc(len * sizeof(*sequence->keys));
    sequence->prefix = malloc((len + 1) * sizeof(*sequence->prefix));
    if (!sequence->keys || !sequence->prefix)
        goto fail;
    memcpy(sequence->keys, keys, len * sizeof(*keys));
    sequence->prefix[0] = 0;
    for (uint32_t i = 0; i < len; i++)
        sequence->prefix[i + 1] = ag_hash_add(sequence->prefix[i], keys[i]);
    sequence->id = ag_content_id(hash, len);
    sequence->len = len;
    sequence->slot = slot;
    sequence->serial = ++s->serial;
    sequence->last_use = ++s->clock;
    HASH_ADD(hh, s->by_id, id, sizeof(sequence->id), sequence);
    if (!sequence->hh.tbl)
        goto fail;
    sequence->head = head;
    DL_PREPEND(head->first, sequence);
    DL_APPEND2(s->by_use[0], sequence, older, newer);
    s->slots[slot] = sequence;
    s->num_sequences++;
    s->sequences_ops += len;
    p->counts.sequences++;
    return sequence;
fail:
    if (sequence) {
        free(sequence->keys);
        free(sequence->prefix);
        free(sequence);
    }
    if (head)
        head_release(s, head);
    return NULL;
}

void ag_policy_each(struct ag_policy *p, void (*visit)(void *context, struct ag_sequence *sequence),
                    void *context)
{
    for (struct ag_sequence *sequence = p->state->by_id, *following; sequence;
         sequence = following) {
        following = sequence->hh.next;
        visit(context, sequence);
    }
}

size_t ag_policy_memory(const struct ag_policy *p)
{
    const struct ag_policy_state *s = p->state;
    const struct ag_finder *f = &s->finder;
    size_t bytes = sizeof(*s) + (s->pauses ? AG_PAUSES * sizeof(*s->pauses) : 0) +
                   s->subsegment.capacity * sizeof(ag_key) +
                   s->num_slots * sizeof(struct ag_sequence *) +
                   s->chain.size * sizeof(*s->chain.entries) + f->ring_size * sizeof(*f->ring) +
                   f->index_size * sizeof(*f->index) + f->anchors_size * sizeof(*f->anchors);
    for (struct ag_sequence *b = s->by_id; b; b = b->hh.next)
        bytes += sizeof(*b) + (b->len * 2 + 1) * sizeof(ag_key) +
                 b->plan.num_chunks * sizeof(struct ag_chunk) + b->num_cuts * sizeof(struct ag_cut);
    return bytes;
}
