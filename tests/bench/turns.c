/*
 * turns.c - libautograph_turns.so: the library, where ways of submitting take turns in one running
 * program. The shares of what could be saved (tests/gpu/pace/turns.py) come from it: two processes
 * of one program differ by more than most ways do.
 *
 * AG_TURNS: the ways, a letter each. e: eagerly. m: the same, and the clock says what each launch,
 * memset or copy on the device takes, for programs that do not run in "f". i: graphs, launched by
 * the program's thread. t: graphs and ops that are in none, launched by the submitter where the
 * library would think of it. c: the same for graphs alone. f: launches, memsets and copies on the
 * device cost nothing and do nothing, so the program's results are wrong. Several sets of ways,
 * with commas between, follow each other, so that the library can fit its cuts to one way of
 * submitting at a time.
 *
 * AG_TURNS_SECONDS: how long each set lasts. The first third is not counted.
 * Then the process writes one line to stdout for each set, and ends a second later. They begin a
 * second after the first graph, or after the library first thinks of handing an op over, so that
 * what a program checks or tries out at its start is right. Until then it is "i".
 *
 * Each way has spans of AG_TURNS_SPAN_MS (120), in an order that goes forth and back (e i t f f t i
 * e). The clock of the machine says whose turn it is, so processes that work together have the same
 * turn. The first quarter of a span does not count: behind spans in which it sees nothing the
 * library takes up to a step of the program to find its place again. The linker puts the functions
 * of this file in front of the library's own (--wrap).
 */
#define _GNU_SOURCE
#include "driver/call.h"
#include "capture/capture.h"
#include "capture/core/flush.h"
#include "capture/core/submitter.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/tracking/stream.h"
#include "driver/entries.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPAN_MS = 120, LOOK_EVERY = 8, MOST_SPANS = 1024 };
static const uint64_t START_NS = 1000000000;

CUresult __real_ag_core_launch(const struct ag_launch *l);
CUresult __real_ag_core_memset(const struct ag_memset *f);
CUresult __real_ag_core_copy(const struct ag_copy *c);
bool __real_ag_submitter_hand(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes,
                              uint64_t now, bool awaited, uint32_t behind);
bool __real_ag_submitter_put_op(struct ag_stream *s, const struct ag_signature *signature,
                                const struct ag_incoming *in, bool asks);
bool __real_ag_submitter_takes_ops(struct ag_stream *s);
CUresult __wrap_ag_core_launch(const struct ag_launch *l);
CUresult __wrap_ag_core_memset(const struct ag_memset *f);
CUresult __wrap_ag_core_copy(const struct ag_copy *c);
bool __wrap_ag_submitter_hand(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes,
                              uint64_t now, bool awaited, uint32_t behind);
bool __wrap_ag_submitter_put_op(struct ag_stream *s, const struct ag_signature *signature,
                                const struct ag_incoming *in, bool asks);
bool __wrap_ag_submitter_takes_ops(struct ag_stream *s);

struct span {
    char way;
    const char *set;     /* that it belongs to */
    float ops_a_us, cpu; /* the submitter's, of a processor */
    unsigned int chunks; /* that had a graph */
    float calls;         /* of the span, what the driver's calls took in "m" */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *sets = "eitf"; /* those to come */
static const char *ways;          /* the present one, `num_ways` letters; NULL: none has begun */
static size_t num_ways;
static _Atomic char way = 'i';
static _Atomic uint64_t first_ns; /* see above */
static _Atomic uint64_t ops;
static _Atomic unsigned int chunks; /* of this span */
static struct span spans[MOST_SPANS];
static size_t num_spans;
static uint64_t turn;
static _Atomic uint64_t calls_ns; /* in "m" */
static uint64_t began_ns, began_ops, began_cpu, began_calls;
static uint64_t span_ns;
static uint64_t counts_ns, ends_ns; /* when the set's spans begin to count, and when it ends */
static bool warm, told;

static uint64_t submitter_ns(void)
{
    ag_submitter_count_time();
    return atomic_load(&ag_counts[AG_COUNT_SUBMIT_NS]);
}

/* {"spans": [["e", ops a us, share of a processor, chunks, share of the calls], ...]} of each set,
 * in one piece. */
static void tell(void)
{
    static char line[64 + 128 * MOST_SPANS];
    size_t n = 0;
    for (size_t i = 0; i < num_spans; i++) {
        bool first = !i || spans[i].set != spans[i - 1].set;
        const char *lead = !first ? "," : i ? "]}\nTURNS {\"spans\": [" : "TURNS {\"spans\": [";
        n += (size_t)sprintf(line + n, "%s[\"%c\",%.5f,%.3f,%u,%.4f]", lead, spans[i].way,
                             (double)spans[i].ops_a_us, (double)spans[i].cpu, spans[i].chunks,
                             (double)spans[i].calls);
    }
    n += (size_t)sprintf(line + n, num_spans ? "]}\n" : "TURNS {\"spans\": []}\n");
    for (size_t done = 0; done < n;) {
        ssize_t r = write(STDOUT_FILENO, line + done, n - done);
        if (r < 0)
            _exit(96);
        done += (size_t)r;
    }
    told = true;
}

static void begin(uint64_t now)
{
    began_ns = now;
    began_ops = atomic_load(&ops);
    began_cpu = submitter_ns();
    began_calls = atomic_load(&calls_ns);
    chunks = 0;
}

static void begin_set(uint64_t now)
{
    const char *seconds = getenv("AG_TURNS_SECONDS");
    uint64_t ns = (uint64_t)((seconds ? atof(seconds) : 5.0) * 1e9);
    ways = sets;
    num_ways = strcspn(ways, ",");
    sets += num_ways + (ways[num_ways] == ',');
    counts_ns = now + ns / 3;
    ends_ns = now + ns;
}

/* Whether the turns have begun. */
static bool starts(uint64_t now)
{
    if (ways)
        return true;
    if (!atomic_load(&first_ns) || now < atomic_load(&first_ns) + START_NS)
        return false;
    const char *asked = getenv("AG_TURNS");
    if (asked && *asked)
        sets = asked;
    const char *span = getenv("AG_TURNS_SPAN_MS");
    span_ns = (span && atoi(span) > 0 ? (uint64_t)atoi(span) : SPAN_MS) * 1000000;
    begin_set(now);
    return true;
}

/* A span in which the program paused says nothing. */
static void end_span(uint64_t now)
{
    uint64_t ns = now - began_ns, n = atomic_load(&ops) - began_ops;
    if (warm || began_ns < counts_ns || ns < span_ns / 2 || ns > 2 * span_ns || !n ||
        num_spans == MOST_SPANS)
        return;
    struct span *span = &spans[num_spans++];
    span->way = way;
    span->set = ways;
    span->ops_a_us = (float)((double)n * 1e3 / (double)ns);
    span->cpu = (float)((double)(submitter_ns() - began_cpu) / (double)ns);
    span->chunks = chunks;
    span->calls = (float)((double)(atomic_load(&calls_ns) - began_calls) / (double)ns);
}

static void count_op(void)
{
    if (atomic_fetch_add(&ops, 1) % LOOK_EVERY || pthread_mutex_trylock(&mutex))
        return;
    uint64_t now = ag_clock_monotonic_ns();
    bool turns = starts(now);
    if (turns && now > ends_ns && !*sets && !told)
        tell();
    if (turns && now > ends_ns + 1000000000)
        _exit(0);
    if (turns && now / span_ns != turn) {
        end_span(now);
        if (now > ends_ns && *sets)
            begin_set(now);
        turn = now / span_ns;
        size_t at = turn % (2 * num_ways);
        way = ways[at < num_ways ? at : 2 * num_ways - 1 - at];
        warm = true;
        chunks = 0;
    } else if (turns && warm && now % span_ns > span_ns / 4) {
        warm = false;
        begin(now);
    }
    pthread_mutex_unlock(&mutex);
}

static CUresult call_timed(const struct ag_incoming *in)
{
    uint64_t began = ag_clock_ns();
    CUresult r = ag_call_make(in);
    atomic_fetch_add(&calls_ns, ag_clock_ns() - began);
    return r;
}

/* Whether the op does not concern the library; then `*r` is its result. */
static bool passes(const struct ag_incoming *in, CUstream stream, bool ptsz, CUresult *r)
{
    count_op();
    if (way != 'e' && way != 'm' && way != 'f')
        return false;
    struct ag_stream *s = ag_stream_get(stream, ptsz);
    if (s && atomic_load(&s->deferring)) /* of the span before */
        ag_stream_submit_deferred(s, true);
    *r = way == 'f' ? CUDA_SUCCESS : way == 'm' ? call_timed(in) : ag_call_make(in);
    return true;
}

CUresult __wrap_ag_core_launch(const struct ag_launch *l)
{
    CUresult r;
    struct ag_incoming in = {.kind = AG_OP_LAUNCH, .launch = l};
    return passes(&in, l->stream, l->ptsz, &r) ? r : __real_ag_core_launch(l);
}

CUresult __wrap_ag_core_memset(const struct ag_memset *f)
{
    CUresult r;
    struct ag_incoming in = {.kind = AG_OP_MEMSET, .fill = f};
    return passes(&in, f->stream, f->ptsz, &r) ? r : __real_ag_core_memset(f);
}

CUresult __wrap_ag_core_copy(const struct ag_copy *c)
{
    CUresult r;
    struct ag_incoming in = {.kind = AG_OP_COPY, .copy = c};
    /* cuMemcpyAsync may be one that the program reads the result of */
    bool on_device =
        c->sym == AG_SYM_cuMemcpyDtoDAsync_v2 || c->sym == AG_SYM_cuMemcpyDtoDAsync_v2_ptsz;
    return on_device && passes(&in, c->stream, c->ptsz, &r) ? r : __real_ag_core_copy(c);
}

/* Whether something is handed over is decided here, and not by what was measured. */
static bool decides(struct ag_stream *s, bool hands)
{
    if (!atomic_load_explicit(&first_ns, memory_order_relaxed))
        atomic_store(&first_ns, ag_clock_monotonic_ns());
    s->pairs = (struct ag_pairs){.next_ns = UINT64_MAX, .second = true};
    if (hands && !s->hands_ops)
        s->asks_at = 0; /* the answer before may be that of another way */
    s->hands_ops = s->hands_ops && hands;
    return hands;
}

bool __wrap_ag_submitter_hand(struct ag_stream *s, struct ag_graphs *g, const uint8_t *bytes,
                              uint64_t now, bool awaited, uint32_t behind)
{
    chunks++;
    return decides(s, way == 't' || way == 'c') &&
           __real_ag_submitter_hand(s, g, bytes, now, awaited, behind);
}

bool __wrap_ag_submitter_put_op(struct ag_stream *s, const struct ag_signature *signature,
                                const struct ag_incoming *in, bool asks)
{
    return decides(s, way == 't') && __real_ag_submitter_put_op(s, signature, in, asks);
}

bool __wrap_ag_submitter_takes_ops(struct ag_stream *s)
{
    return decides(s, way == 't') && __real_ag_submitter_takes_ops(s);
}
