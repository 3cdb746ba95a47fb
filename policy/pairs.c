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
    WINS = 1030,          /* thousandths */
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

static void wait_longer(struct ag_pairs *p)
{
    p->interval_ns = !p->interval_ns                        ? FIRST_NS
                     : p->interval_ns < LONGEST_INTERVAL_NS ? p->interval_ns * 2
                                                            : p->interval_ns;
}

static void end(struct ag_pairs *p, uint64_t now)
{
    uint32_t median = ag_samples_middle(p->ratios, AG_PAIRS, 0);
    bool won = median >= WINS, same = p->trials && won == (p->percent * 10 >= WINS);
    if (!same)
        p->interval_ns = 0;
    wait_longer(p);
    p->next_ns = begins_after(now + p->interval_ns);
    p->trials++;
    p->wins += won;
    p->percent = median / 10;
    p->tries = false;
    p->second = p->last = won;
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
    if (!p->tries && now < p->next_ns)
        return p->second;
    uint64_t span = now / SPAN_NS;
    if (p->tries && span != p->span)
        count(p, now, ops);
    if (p->count == AG_PAIRS) {
        p->count = 0;
        end(p, now);
    } else if (p->tries && now > p->tries_since + MOST_NS) {
        ag_pairs_abort(p);
        wait_longer(p);
        p->next_ns = begins_after(now + p->interval_ns);
    } else if (!p->tries || span != p->span) {
        if (!p->tries)
            p->tries_since = now;
        p->tries = p->warms = true;
        p->span = span;
        p->second = is_second(span);
    } else if (p->warms && now % SPAN_NS >= WARM_NS) {
        p->warms = false;
        p->began_ns = now;
        p->began_ops = ops;
    }
    return p->second;
}
