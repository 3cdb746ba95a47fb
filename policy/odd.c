/*
 * odd.c - ops that are others in each turn, as a kernel whose grid grows.
 *
 * A turn with such an op never comes again as a whole, and in a model of several layers it is in
 * each of them. So an *odd* op ends the segment, as a sync point does, and belongs to none: what
 * lies between two odd ops repeats.
 *
 * The policy cannot tell an odd op from the first of a new phase when it comes. It takes an op for
 * odd if its key was never met before, and
 *  - the ops since the last new one came between two new ones before, or
 *  - it comes in the middle of a known sequence, or behind a sync point or an odd op as others
 *    did lately (with few known ops in between), in a stream in which such ops turned out to be
 *    odd a short time ago: what was known then went on behind them.
 * The key stays odd for some turns: it may come several times in each, and in several of them. How
 * long a turn is the policy does not know. It takes the ops since the last few odd keys came first.
 * No key stays odd for more than AG_ODD_TRUST ops, or once that has cost more than learning it.
 */
#include "policy/internal.h"

/* Ops since the last new one: whether they came between two new ones before. The next part begins
 * behind the op that comes now. */
static bool part_came_before(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    struct ag_finder *f = &s->finder;
    uint64_t hash = 0;
    if (s->sequence)
        ag_into_history(s, ag_position(p));
    uint64_t from = s->odds.part > f->floor ? s->odds.part : f->floor, len = f->end - from;
    s->odds.part = f->end + 1;
    if (len < AG_PART_OPS || len > f->ring_size || len > AG_MAX_SEQUENCE_OPS)
        return false;
    for (uint64_t i = from; i < f->end; i++)
        hash = ag_hash_add(hash, ag_finder_at(f, i));
    return ag_seen_before(s, ag_mix(ag_content_id(hash, (uint32_t)len)));
}

/* A key that was new not long ago ends a part as well, even where it was not taken for odd. */
static void meet_again(struct ag_policy *p, ag_key key)
{
    struct ag_odds *o = &p->state->odds;
    for (uint32_t i = 0; i < AG_ODD_KINDS; i++)
        if (o->newest[i] == key) {
            if (p->state->sequence)
                ag_into_history(p->state, ag_position(p));
            o->part = p->state->finder.end + 1;
        }
}

void ag_odds_were(struct ag_policy *p)
{
    p->state->odds.trusted_until = p->counts.ops + AG_ODD_TRUST;
}

/* A step may have several parts between sync points, and there may be several sync points between
 * two parts. */
static void part_ends(struct ag_odds *o, uint64_t ops)
{
    if (ops == o->synced)
        return;
    bool new_work = o->leading > (ops - o->synced) / 2;
    o->led[o->parts++ % AG_ODD_ROWS] = new_work ? 0 : o->leading;
    o->leading = 0;
    o->synced = ops;
    if (o->newest_at == ops) /* a row that ends here may be new work, too */
        o->row = 0;
}

/* All ops of a segment that is one known sequence came before, and need not enter the history. */
void ag_odds_end(struct ag_policy *p)
{
    struct ag_policy_state *s = p->state;
    const struct ag_sequence *b = s->sequence;
    if (p->counts.ops >= s->odds.watched_until) /* no op was new of late */
        return;
    bool known = b && b->visits > 1 && ag_position(p) == b->len && s->finder.end == s->finder.floor;
    part_ends(&s->odds, p->counts.ops);
    if (s->odds.part > s->finder.floor && (known ? b->len > AG_PART_OPS : part_came_before(p)))
        ag_odds_were(p);
}

static void watch_until(struct ag_odds *o, uint64_t ops)
{
    if (o->watched_until < ops)
        o->watched_until = ops;
}

static bool came(const uint32_t *rows, uint32_t n)
{
    bool any = false;
    for (uint32_t i = 0; i < AG_ODD_ROWS; i++)
        any |= n <= rows[i];
    return any;
}

/* A new op has come, the n-th behind a sync point, or the n-th in a row behind odd ones: whether n
 * new ops came in such a place lately. Fewer known ops than a part has, in between, do not count.
 */
static bool is_expected(struct ag_odds *o, uint64_t ops)
{
    bool leads = ops - o->synced - o->leading <= AG_PART_OPS;
    bool goes_on = ops == o->newest_at + 1;
    if (!goes_on) {
        o->rows[o->num_rows++ % AG_ODD_ROWS] = o->row;
        o->row = 0;
    }
    o->row++;
    o->newest_at = ops;
    if (leads)
        return came(o->led, ++o->leading);
    return o->last && ops - o->last <= AG_PART_OPS && came(o->rows, o->row);
}

/* Whether more ops went eagerly since the last odd key came first than learning takes: those of the
 * turns until one is replayed, and as many as building graphs costs. Nobody knows how long a turn
 * is, so a part counts as one. */
static bool costs_more(const struct ag_policy *p)
{
    const struct ag_odds *o = &p->state->odds;
    uint64_t ops = p->counts.ops - o->born[(o->num_born - 1) % AG_ODD_KINDS];
    uint64_t parts = o->parts - o->born_parts;
    uint64_t eager = ops - (p->counts.replayed - o->born_replayed);
    return eager * parts > p->state->config.min_repeats * ops + AG_ODD_BUILD * parts;
}

bool ag_is_odd(struct ag_policy *p, ag_key key)
{
    struct ag_policy_state *s = p->state;
    struct ag_odds *o = &s->odds;
    uint64_t ops = p->counts.ops;
    struct ag_odd *odd = &o->keys[ag_mix(key) % AG_ODD_KEYS];
    if (odd->key == key && ops < odd->until && !costs_more(p)) {
        o->last = ops;
        return true;
    }
    if (p->fresh == s->fresh) {
        meet_again(p, key);
        return false;
    }
    o->newest[o->num_new++ % AG_ODD_KINDS] = key;
    watch_until(o, ops + AG_ODD_TRUST);
    bool expected = is_expected(o, ops) || (s->sequence && ag_position(p));
    if (!part_came_before(p) && !(expected && ops < o->trusted_until))
        return false;
    uint64_t *born = &o->born[o->num_born++ % AG_ODD_KINDS];
    uint64_t life = AG_ODD_TURNS * (ops - *born); /* the births before may be long ago */
    *odd = (struct ag_odd){key, ops + (life < AG_ODD_TRUST ? life : AG_ODD_TRUST)};
    *born = o->last = ops;
    o->born_replayed = p->counts.replayed;
    o->born_parts = o->parts;
    o->part = s->finder.end; /* the op does not enter the history */
    watch_until(o, odd->until);
    ag_odds_were(p);
    return true;
}
