/* pairs.c - see pairs.h. */
#include "policy/pairs.h"
#include "policy/internal.h"

static const uint64_t MS = 1000000, BEGINS_NS = AG_PAIRS_BEGINS * (uint64_t)AG_PAIRS_SPAN_NS;

static uint64_t begins_after(uint64_t ns)
{
    return (ns + BEGINS_NS - 1) / BEGINS_NS * BEGINS_NS;
}

static uint64_t span_ns(const struct ag_pairs *p)
{
    return (uint64_t)AG_PAIRS_SPAN_NS * (p->longer ? AG_PAIRS_LONGER : 1);
}

/* Whether the second way has this span: A B B A. */
static bool is_second(uint64_t span)
{
    return ((span + 1) >> 1) & 1;
}

void ag_pairs_abort(struct ag_pairs *p)
{
    if (!p->tries)
        return;
    p->tries = false;
    p->count = 0;
    p->second = p->last;
    p->next_ns = 0;
}

bool ag_pairs_are_awaited(const struct ag_pairs *p, uint64_t now)
{
    return p->tries || (p->next_ns && !p->interval_ns && now < p->next_ns + BEGINS_NS);
}

void ag_pairs_soon(struct ag_pairs *p)
{
    if (!p->next_ns)
        p->next_ns = 1;
}

/* The time is that from beginning to beginning, which processes that wait for each other have in
 * common, whenever each of them comes to its answer. */
static void wait_longer(struct ag_pairs *p)
{
    p->longer = false;
    if (!p->interval_ns)
        p->interval_ns = AG_PAIRS_FIRST_INTERVAL_MS * MS;
    else if (p->interval_ns < AG_PAIRS_LONGEST_INTERVAL_MS * MS)
        p->interval_ns *= 2;
    p->next_ns = begins_after(p->tries_since / BEGINS_NS * BEGINS_NS + p->interval_ns);
}

/* Whether the answer is known, and which it is. Further pairs cannot change the answer of nine; and
 * where the first way is faster three times in a row, it is left at that, because each pair
 * takes the program some time of the slower way. */
static bool is_known(const struct ag_pairs *p, bool *second)
{
    uint32_t for_second = 0;
    for (uint32_t i = 0; i < p->count; i++)
        for_second += p->ratios[i] >= AG_PAIRS_WINS;
    *second = for_second > AG_PAIRS / 2;
    return *second || p->count - for_second > AG_PAIRS / 2 ||
           (!for_second && p->count == AG_PAIRS_AT_ONCE);
}

static void end(struct ag_pairs *p, bool won)
{
    uint32_t median = ag_samples_middle(p->ratios, p->count, 0);
    bool same = p->trials && won == p->last;
    if (!same)
        p->interval_ns = 0;
    wait_longer(p);
    p->trials++;
    p->percent = median / 10;
    p->tries = false;
    p->count = 0;
    p->second = p->last = won;
}

/* Three spans of a comparison have ended, at least one of each way, and spans of this program have
 * too few ops to say anything. */
static bool says_nothing(const struct ag_pairs *p)
{
    return p->span == p->tries_since / span_ns(p) + 2 && p->most < AG_PAIRS_FEWEST_OPS;
}

/* By one of the ways the program is so slow that it comes by less than once in each span, so that
 * few of them make a pair. */
static bool comes_by_seldom(const struct ag_pairs *p, uint64_t now)
{
    uint64_t spans = (now - p->tries_since) / span_ns(p);
    uint32_t looks = p->looks[0] < p->looks[1] ? p->looks[0] : p->looks[1];
    return !p->longer && spans >= AG_PAIRS_SELDOM && looks < spans && p->count < spans / 4;
}

/* Whether two spans of so many ops say which way is faster. One may have few if that is because it
 * is far slower. */
static bool tell(uint64_t a, uint64_t b)
{
    uint64_t least = a < b ? a : b, most = a < b ? b : a;
    return least >= AG_PAIRS_FEWEST_OPS ||
           (most >= 2ull * AG_PAIRS_FEWEST_OPS && most >= 2 * least);
}

static void begin_span(struct ag_pairs *p, uint64_t now, uint64_t ops, bool warms)
{
    p->warms = warms;
    p->began_ns = now;
    p->began_ops = ops;
}

/* A span has ended. The two spans of a pair are neighbours, and the first has an even number. */
static void count(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    uint64_t ns = now - p->began_ns, n = ops - p->began_ops;
    if (p->warms || ns < span_ns(p) / 2 || ns > AG_PAIRS_LONGEST * span_ns(p))
        return;
    if (p->most < n)
        p->most = n;
    double rate = (double)(n ? n : 1) / (double)ns;
    if (p->span % 2 && p->counted == p->span - 1 && tell(n, p->ops))
        p->ratios[p->count++] = (uint32_t)((p->second ? rate / p->rate : p->rate / rate) * 1000);
    p->counted = p->span;
    p->rate = rate;
    p->ops = n;
}

bool ag_pairs_choose(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    if (!p->next_ns)
        p->next_ns = begins_after(now + AG_PAIRS_BEFORE_MS * MS);
    if (!p->tries && now > p->next_ns + BEGINS_NS / 2) /* other processes have begun long ago */
        p->next_ns = begins_after(now);
    if (!p->tries && now < p->next_ns)
        return p->second;
    uint64_t span = now / span_ns(p);
    bool begins = !p->tries, changes = begins || span != p->span, second;
    if (begins) {
        p->tries = true;
        p->tries_since = now;
        p->most = p->looks[0] = p->looks[1] = 0;
    } else if (changes) {
        count(p, now, ops);
    }
    p->looks[p->second]++;
    if (changes && is_known(p, &second)) {
        end(p, second);
    } else if (comes_by_seldom(p, now)) {
        ag_pairs_abort(p);
        p->longer = true;
    } else if ((changes && !begins && says_nothing(p)) ||
               now > p->tries_since + AG_PAIRS_MOST * span_ns(p)) {
        ag_pairs_abort(p);
        wait_longer(p);
    } else if (changes) {
        p->span = span;
        p->second = is_second(span);
        begin_span(p, now, ops, true);
    } else if (p->warms && now % span_ns(p) >= span_ns(p) / AG_PAIRS_WARM_ONE_IN) {
        begin_span(p, now, ops, false);
    }
    return p->second;
}
