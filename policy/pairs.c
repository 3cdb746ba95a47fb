/* pairs.c - see pairs.h. */
#include "policy/pairs.h"
#include "policy/internal.h"

enum {
    SPAN_NS = 16000000,
    WARM_NS =
        SPAN_NS / 4, /* of a span, that is not counted: the other way's work is still under way */
    LONGEST_NS = 3 * SPAN_NS, /* a span that takes longer has a pause in it, and says nothing */
    FEWEST_OPS = 64,
    WINS = 1030, /* thousandths */
};
static const uint64_t BEFORE_NS = 250000000, /* a program that begins is still warming up */
    FIRST_NS = 2000000000, LONGEST_INTERVAL_NS = 64000000000;

static void begin_span(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    p->began_ns = now;
    p->began_ops = ops;
    p->warms = true;
    p->second = ((p->spans + 1) >> 1) & 1; /* A B B A */
}

static void begin(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    p->tries = true;
    p->spans = p->count = 0;
    begin_span(p, now, ops);
}

static void end(struct ag_pairs *p, uint64_t now)
{
    uint32_t median = ag_samples_middle(p->ratios, AG_PAIRS, 0);
    bool won = median >= WINS, same = p->trials && won == (p->percent * 10 >= WINS);
    p->interval_ns = same && p->interval_ns < LONGEST_INTERVAL_NS ? p->interval_ns * 2
                     : same                                       ? p->interval_ns
                                                                  : FIRST_NS;
    p->next_ns = now + p->interval_ns;
    p->trials++;
    p->wins += won;
    p->percent = median / 10;
    p->tries = false;
    p->second = won;
}

/* A span has ended. */
static void count(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    uint64_t ns = now - p->began_ns, n = ops - p->began_ops;
    if (ns > LONGEST_NS || n < FEWEST_OPS) {
        p->spans &= ~1u; /* its pair begins anew */
        return;
    }
    p->rates[p->second] = (double)n / (double)ns;
    if (++p->spans % 2 == 0)
        p->ratios[p->count++] = (uint32_t)(p->rates[1] / p->rates[0] * 1000);
}

bool ag_pairs_choose(struct ag_pairs *p, uint64_t now, uint64_t ops)
{
    if (!p->next_ns) {
        p->next_ns = now + BEFORE_NS;
        p->second = true;
    }
    if (!p->tries) {
        if (now >= p->next_ns)
            begin(p, now, ops);
        return p->second;
    }
    if (p->warms && now - p->began_ns >= WARM_NS) {
        p->warms = false;
        p->began_ns = now;
        p->began_ops = ops;
    } else if (!p->warms && now - p->began_ns >= SPAN_NS - WARM_NS) {
        count(p, now, ops);
        if (p->count == AG_PAIRS)
            end(p, now);
        else
            begin_span(p, now, ops);
    }
    return p->second;
}
