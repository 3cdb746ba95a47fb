/* pairs.c - see pairs.h. */
#include "policy/pairs.h"
#include "policy/internal.h"

enum {
    SPAN_NS = 16000000,
    WARM_NS =
        SPAN_NS / 4, /* of a span, that is not counted: the other way's work is still under way */
    SHORTEST_NS = SPAN_NS / 2, /* that is counted */
    LONGEST_NS = 3 * SPAN_NS,  /* a span that takes longer has a pause in it, and says nothing */
    FEWEST_OPS = 64,
    WINS = 1030, /* thousandths */
    AT_ONCE = 3,
    MOST_NS = 1000000000, /* of a comparison */
};
enum { AGAIN = 1 };                          /* next_ns: as at the beginning */
static const uint64_t BEFORE_NS = 250000000, /* a program that begins is still warming up */
    FIRST_NS = 2000000000, LONGEST_INTERVAL_NS = 64000000000,
                      BEGINS_NS = 16 * (uint64_t)SPAN_NS; /* comparisons begin at multiples */

static uint64_t begins_after(uint64_t ns)
{
    return (ns + BEGINS_NS - 1) / BEGINS_NS * BEGINS_NS;
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
    p->next_ns = AGAIN;
}

/* The time is that from beginning to beginning, which processes that wait for each other have in
 * common, whenever each of them comes to its answer. */
static void wait_longer(struct ag_pairs *p)
{
    p->interval_ns = !p->interval_ns                        ? FIRST_NS
                     : p->interval_ns < LONGEST_INTERVAL_NS ? p->interval_ns * 2
                                                            : p->interval_ns;
    p->next_ns = begins_after(p->tries_since / BEGINS_NS * BEGINS_NS + p->interval_ns);
}

/* Whether the answer is known, and which it is. Further pairs cannot change the answer of nine; and
 * where the first way is faster three times in a row, it is left at that, because each pair
 * takes the program some time of the slower way. */
static bool is_known(const struct ag_pairs *p, bool *second)
{
    uint32_t for_second = 0;
    for (uint32_t i = 0; i < p->count; i++)
        for_second += p->ratios[i] >= WINS;
    *second = for_second > AG_PAIRS / 2;
    return *second || p->count - for_second > AG_PAIRS / 2 || (!for_second && p->count == AT_ONCE);
}

static void end(struct ag_pairs *p, bool won)
{
    uint32_t median = ag_samples_middle(p->ratios, p->count, 0);
    bool same = p->trials && won == p->last;
    if (!same)
        p->interval_ns = 0;
    wait_longer(p);
    p->trials++;
    p->wins += won;
    p->percent = median / 10;
    p->tries = false;
    p->count = 0;
    p->second = p->last = won;
}

static void give_up(struct ag_pairs *p)
{
    ag_pairs_abort(p);
    wait_longer(p);
}

/* The first span of a comparison has ended, and spans of this program have too few ops to say
 * anything. */
static bool says_nothing(const struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    return p->span == p->tries_since / SPAN_NS && now - p->began_ns >= SHORTEST_NS &&
           ops - p->began_ops < FEWEST_OPS;
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
    if (p->warms || ns < SHORTEST_NS || ns > LONGEST_NS || n < FEWEST_OPS)
        return;
    double rate = (double)n / (double)ns;
    if (p->span % 2 && p->counted == p->span - 1)
        p->ratios[p->count++] = (uint32_t)((p->second ? rate / p->rate : p->rate / rate) * 1000);
    p->counted = p->span;
    p->rate = rate;
}

void ag_pairs_begin(struct ag_pairs *p, uint64_t now, bool second)
{
    p->next_ns = begins_after(now + BEFORE_NS);
    p->second = p->last = second;
}

bool ag_pairs_choose(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    if (p->next_ns <= AGAIN)
        ag_pairs_begin(p, now, p->next_ns == AGAIN ? p->last : true);
    if (!p->tries && now > p->next_ns + BEGINS_NS / 2) /* other processes have begun long ago */
        p->next_ns = begins_after(now);
    if (!p->tries && now < p->next_ns)
        return p->second;
    uint64_t span = now / SPAN_NS;
    bool begins = !p->tries, changes = begins || span != p->span, second;
    if (begins) {
        p->tries = true;
        p->tries_since = now;
    } else if (changes && says_nothing(p, now, ops)) {
        give_up(p);
        return p->second;
    } else if (changes) {
        count(p, now, ops);
    }
    if (changes && is_known(p, &second)) {
        end(p, second);
    } else if (now > p->tries_since + MOST_NS) {
        give_up(p);
    } else if (changes) {
        p->span = span;
        p->second = is_second(span);
        begin_span(p, now, ops, true);
    } else if (p->warms && now % SPAN_NS >= WARM_NS) {
        begin_span(p, now, ops, false);
    }
    return p->second;
}
