/*
 * replay.c - `autograph replay`: a dump's launches played to engines whose world is this file. Says
 * what a run in observe mode would have gained, and what other settings would make of a run.
 *
 * What is played besides the launches: sync points, of the calling thread's streams as capture/
 * takes them; the order of the legacy default stream; the watchdog; the memory budget. What is not:
 * graphs are there as soon as they are asked for, and building costs nothing.
 */
#include "policy/constants.h"
#include "policy/engine.h"
#include "tools/tools.h"
#include "tools/need.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stream {
    struct ag_engine engine;
    const struct ag_dump_stream *as; /* the dump's */
    uint32_t owner;                  /* thread of the last op */
    uint64_t now, deferred_since;
    size_t memory; /* of the policy, when it was looked at last */
    struct stream *next;
};

/* A chunk's. */
struct graphs {
    uint32_t chunks, count;
    uint64_t last_used;
};

static struct settings {
    struct common common;
    struct ag_policy_config config;
    uint32_t max_defer_us, memory_mb;
} settings;

static struct stream *all; /* that have had an op */
static struct result {
    uint64_t first; /* launches until the first replay, this included; 0: none */
    uint64_t launches, built, nodes, put_off;
    uint64_t memory, peak; /* of graphs and policies */
} result;
static uint64_t num_ops;
static uint32_t launch_ns; /* of an eager launch, as the dump has it */

static uint32_t usual_launch_ns(const struct dump *d)
{
    uint64_t sum = 0, n = 0;
    for (size_t i = 0; i < d->num_events; i++)
        if (d->events[i].e.kind == AG_EVENT_CALL && d->events[i].e.b < AG_LONGEST_CALL_NS) {
            sum += d->events[i].e.b;
            n++;
        }
    return n ? (uint32_t)(sum / n) : 0;
}

/* ---- graphs ----------------------------------------------------------------------------- */

static void drop(void *context, struct ag_chunk *chunk)
{
    struct graphs *g = ag_chunk_user(chunk);
    (void)context;
    ag_chunk_set_user(chunk, NULL);
    if (--g->chunks)
        return;
    result.memory -= (uint64_t)g->count * AG_NODE_BYTES;
    free(g);
}

static bool share(void *context, struct ag_chunk *from, struct ag_chunk *to)
{
    struct graphs *g = ag_chunk_user(from);
    (void)context;
    g->chunks++;
    ag_chunk_set_user(to, g);
    return true;
}

static uint64_t last_use_of(const struct ag_sequence *sequence)
{
    uint64_t latest = 0;
    for (uint32_t i = 0, n = ag_sequence_facts(sequence).num_chunks; i < n; i++) {
        const struct graphs *g = ag_chunk_user(ag_sequence_chunk(sequence, i));
        if (g && g->last_used > latest)
            latest = g->last_used;
    }
    return latest;
}

/* Drops the graphs that have gone unused for longest, as the library does. */
static bool evict_one(void)
{
    uint64_t oldest = UINT64_MAX;
    struct stream *from = NULL;
    for (struct stream *s = all; s; s = s->next) {
        struct ag_sequence *b = ag_policy_victim(ag_engine_policy(&s->engine));
        if (b && last_use_of(b) < oldest) {
            oldest = last_use_of(b);
            from = s;
        }
    }
    struct ag_sequence *b = from ? ag_policy_victim(ag_engine_policy(&from->engine)) : NULL;
    return b && ag_policy_drop_graphs(ag_engine_policy(&from->engine), b);
}

static void look_at_memory(struct stream *s)
{
    size_t now = ag_policy_memory(ag_engine_policy(&s->engine));
    result.memory += now - s->memory;
    s->memory = now;
    if (result.memory > result.peak)
        result.peak = result.memory;
}

/* ---- the world -------------------------------------------------------------------------- */

static struct stream *stream_of(struct ag_engine *e)
{
    return (struct stream *)(void *)((char *)e - offsetof(struct stream, engine));
}

static void submit(struct ag_engine *e, ag_key key, const uint8_t *bytes)
{
    (void)e;
    (void)key;
    (void)bytes;
}

static bool launch(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes,
                   uint64_t began)
{
    (void)e;
    (void)chunk;
    (void)bytes;
    (void)began;
    result.launches++;
    return true;
}

static bool cover(struct ag_engine *e, struct ag_chunk *chunk, const uint8_t *bytes)
{
    return launch(e, chunk, bytes, 0);
}

static void launched(struct ag_engine *e, struct ag_chunk *chunk, uint64_t began)
{
    struct graphs *g = ag_chunk_user(chunk);
    g->last_used = began;
    if (!result.first)
        result.first = num_ops;
    ag_policy_submitted(ag_engine_policy(e), began);
}

static void build(struct ag_engine *e, struct ag_chunk *chunk)
{
    struct stream *s = stream_of(e);
    uint32_t count = ag_chunk_count(chunk);
    uint64_t bytes = (uint64_t)count * AG_NODE_BYTES;
    while (result.memory + bytes > (uint64_t)settings.memory_mb << 20)
        if (!evict_one()) {
            result.put_off++;
            ag_policy_not_built(chunk);
            return;
        }
    struct graphs *g = need(malloc(sizeof(*g)));
    *g = (struct graphs){.chunks = 1, .count = count, .last_used = s->now};
    ag_chunk_set_user(chunk, g);
    result.memory += bytes;
    result.built++;
    result.nodes += count;
    ag_policy_built(chunk, true);
    look_at_memory(s);
}

static void deferring(struct ag_engine *e, bool on)
{
    struct stream *s = stream_of(e);
    if (on)
        s->deferred_since = s->now;
}

static void broken(struct ag_engine *e, const char *what)
{
    (void)e;
    fprintf(stderr, "autograph: a mistake, please report it: \"%s\" does not hold\n", what);
    exit(1);
}

static const struct ag_engine_world world = {
    .submit = submit,
    .launch = launch,
    .launched = launched,
    .cover = cover,
    .build = build,
    .deferring = deferring,
    .broken = broken,
    .least_covered = AG_LEAST_COVERED,
};

/* ---- streams ---------------------------------------------------------------------------- */

static struct stream *stream_get(const struct dump *d, struct stream **streams, uint32_t id)
{
    struct ag_policy_hooks hooks = {.share = share, .drop = drop};
    if (streams[id])
        return streams[id];
    struct stream *s = need(calloc(1, sizeof(*s)));
    if (ag_engine_open(&s->engine, &settings.config, &hooks, &world))
        need(NULL);
    s->as = &d->streams[id];
    ag_policy_launch_takes(ag_engine_policy(&s->engine), launch_ns);
    s->next = all;
    all = s;
    return streams[id] = s;
}

/* By `thread`: the streams of others only submit what they hold back. */
static void meet(struct stream *s, uint32_t thread, uint64_t now)
{
    if (s->owner == thread)
        ag_engine_sync_point(&s->engine, now);
    else if (ag_engine_deferred(&s->engine))
        ag_engine_break(&s->engine);
}

static void watchdog(struct stream *s, uint64_t now)
{
    if (ag_engine_deferred(&s->engine) &&
        now - s->deferred_since > (uint64_t)settings.max_defer_us * 1000)
        ag_engine_pause(&s->engine, now);
}

/* Work on `as` is coming: the legacy default stream and the blocking streams of its context keep
 * their order. NULL: a per-thread default stream. */
static void keep_order(const struct ag_dump_stream *as, uint32_t thread, uint64_t now)
{
    bool legacy = as && as->flags & AG_DUMP_STREAM_LEGACY;
    if (as && !legacy && !(as->flags & AG_DUMP_STREAM_BLOCKING))
        return;
    for (struct stream *s = all; s; s = s->next)
        if (ag_engine_deferred(&s->engine) && s->as != as &&
            (!as || s->as->context == as->context) &&
            s->as->flags & (legacy ? AG_DUMP_STREAM_BLOCKING : AG_DUMP_STREAM_LEGACY))
            meet(s, thread, now);
}

static bool *met; /* by signature: whether an op had it */
static uint32_t num_met;

static void op(struct stream *s, uint32_t signature, uint32_t thread, uint64_t now)
{
    struct ag_verdict v;
    num_ops++;
    s->owner = thread;
    s->now = now;
    watchdog(s, now);
    if (signature < num_met && !met[signature]) {
        met[signature] = true;
        ag_policy_meets_new(ag_engine_policy(&s->engine));
    }
    ag_engine_op(&s->engine, signature, now, &v);
    if (v.what == AG_DO_EAGER)
        ag_engine_record(&s->engine, signature, 0, &v);
    else if (need(ag_engine_record(&s->engine, signature, 0, &v)))
        ag_engine_recorded(&s->engine, &v, now);
}

static void call(const struct dump *d, struct stream *s, const struct dump_event *event)
{
    uint64_t now = event->e.time;
    bool everywhere = !event->e.stream;
    if (!everywhere && s) {
        keep_order(s->as, event->thread, now);
        everywhere = s->as->flags & AG_DUMP_STREAM_LEGACY;
        watchdog(s, now);
        ag_engine_sync_point(&s->engine, now);
    }
    /* who waits for one stream is not launching to others */
    bool waits = strstr(dump_string(d, event->e.a), "Synchronize") != NULL;
    for (struct stream *k = all; k && (everywhere || waits); k = k->next)
        if (k != s && (everywhere || k->owner == event->thread)) {
            watchdog(k, now);
            meet(k, event->thread, now);
        }
}

static void play(const struct dump *d, struct stream **streams)
{
    num_met = d->num_signatures;
    met = need(calloc(num_met + 1u, sizeof(*met)));
    for (size_t i = 0; i < d->num_events; i++) {
        const struct dump_event *event = &d->events[i];
        const struct ag_dump_event *e = &event->e;
        bool known = e->stream && e->stream < d->num_streams;
        if (e->kind == AG_EVENT_SYNC_POINT)
            call(d, known ? streams[e->stream] : NULL, event);
        if (e->kind != AG_EVENT_OP)
            continue;
        keep_order(known ? &d->streams[e->stream] : NULL, event->thread, e->time);
        if (!known)
            continue;
        struct stream *s = stream_get(d, streams, e->stream);
        if (e->a && e->what != AG_DONE_IMMEDIATE)
            op(s, e->a, event->thread, e->time);
        else
            ag_engine_sync_point(&s->engine, e->time);
    }
}

/* ---- what came of it -------------------------------------------------------------------- */

struct totals {
    struct ag_policy_counts counts;
    uint64_t covered, flushed;
};

static struct totals close_streams(void)
{
    struct totals t = {0};
    for (struct stream *s = all, *next; s; s = next) {
        next = s->next;
        ag_engine_sync_point(&s->engine, UINT64_MAX / 2);
        look_at_memory(s);
        const uint64_t *from = (const uint64_t *)ag_policy_counts(ag_engine_policy(&s->engine));
        uint64_t *to = (uint64_t *)&t.counts;
        for (size_t i = 0; i < sizeof(t.counts) / sizeof(*to); i++)
            to[i] += from[i];
        t.covered += ag_engine_counts(&s->engine)->covered;
        t.flushed += ag_engine_counts(&s->engine)->flushed;
        ag_engine_free(&s->engine);
        free(s);
    }
    all = NULL;
    return t;
}

static void count_row(struct table_output *o, const char *what, uint64_t count, uint64_t of)
{
    table_text(o, what);
    table_number(o, count);
    table_real(o, of ? 100.0 * (double)count / (double)of : 0, 1);
}

static void cost_row(struct table_output *o, const char *what, double value, int decimals,
                     const char *unit)
{
    table_text(o, what);
    table_real(o, value, decimals);
    table_text(o, unit);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Those of capture/settings/options.def. */
static void replay_defaults(void)
{
    ag_policy_defaults(&settings.config);
    settings.config.profit = true;
    settings.max_defer_us = 500;
    settings.memory_mb = 256;
}

int replay_dump(const struct dump *d, struct table_output *o)
{
    struct stream **streams = need(calloc(d->num_streams + 1, sizeof(*streams)));
    if (!settings.config.max_sequences)
        replay_defaults();
    memset(&result, 0, sizeof(result));
    num_ops = 0;
    launch_ns = usual_launch_ns(d);
    uint64_t began = now_ns();
    play(d, streams);
    double ns = (double)(now_ns() - began);
    const struct totals sums = close_streams();
    const struct ag_policy_counts t = sums.counts;
    free(streams);
    table_begin(o, "replay", "What the policy makes of these launches", "<What|Count|Share (%)");
    count_row(o, "launches", t.ops, t.ops);
    count_row(o, "replayed by graphs", t.replayed, t.ops);
    count_row(o, "by shorter graphs", sums.covered, t.ops);
    count_row(o, "held back, then one by one", sums.flushed, t.ops);
    count_row(o, "calls of the driver to submit them",
              t.ops - t.replayed - sums.covered + result.launches, t.ops);
    count_row(o, "graph launches", result.launches, t.ops);
    count_row(o, "graphs built", result.built, t.ops);
    count_row(o, "nodes in them", result.nodes, t.ops);
    count_row(o, "graphs put off, over the memory budget", result.put_off, t.ops);
    count_row(o, "sequences known", t.sequences, t.ops);
    count_row(o, "departures from a sequence", t.mismatches, t.ops);
    count_row(o, "until the first replay", result.first ? result.first - 1 : t.ops, t.ops);
    table_end(o);
    table_begin(o, "cost", "What the policy costs", "<What|Value|<Unit");
    cost_row(o, "most memory, graphs and policy", (double)result.peak / 1024, 0, "KiB");
    cost_row(o, "policy's time for a launch", num_ops ? ns / (double)num_ops : 0, 1, "ns");
    table_end(o);
    return 0;
}

/* ---- the verb --------------------------------------------------------------------------- */

enum { KEY_REPEATS = 256, KEY_OPS, KEY_MOST, KEY_CHUNK, KEY_DEFER, KEY_MEMORY, KEY_PROFIT };

static const struct argp_option options[] = {
    {"min-repeats", KEY_REPEATS, "N", 0, "as AUTOGRAPH_TEST_MIN_REPEATS", 0},
    {"min-ops", KEY_OPS, "N", 0, "as AUTOGRAPH_TEST_MIN_OPS", 0},
    {"max-chunk", KEY_MOST, "N", 0, "as AUTOGRAPH_TEST_MAX_CHUNK", 0},
    {"chunk", KEY_CHUNK, "N", 0, "as AUTOGRAPH_TEST_CHUNK", 0},
    {"max-defer-us", KEY_DEFER, "N", 0, "as AUTOGRAPH_MAX_DEFER_US", 0},
    {"memory-mb", KEY_MEMORY, "N", 0, "as AUTOGRAPH_MEMORY_MB", 0},
    {"profit", KEY_PROFIT, "N", 0, "as AUTOGRAPH_TEST_PROFIT", 0},
    {0}};

static uint32_t number(struct argp_state *state, const char *text, uint32_t least, uint32_t most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || end == text || n < least || n > most)
        argp_error(state, "%s is not a number from %u to %u", text, least, most);
    return (uint32_t)n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &s->common;
        return 0;
    case KEY_REPEATS:
        s->config.min_repeats = number(state, arg, 2, 1000000);
        return 0;
    case KEY_OPS:
        s->config.min_ops = number(state, arg, 1, 10000);
        return 0;
    case KEY_MOST:
        s->config.max_chunk = number(state, arg, 1, 1024);
        return 0;
    case KEY_CHUNK:
        s->config.fixed_chunk = number(state, arg, 0, 1024);
        return 0;
    case KEY_DEFER:
        s->max_defer_us = number(state, arg, 20, 1000000);
        return 0;
    case KEY_MEMORY:
        s->memory_mb = number(state, arg, 1, 65536);
        return 0;
    case KEY_PROFIT:
        s->config.profit = number(state, arg, 0, 1);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "DUMP",
    "Plays a dump's launches to the policy, without a GPU: what a run that "
    "only observed would have gained, or what other settings would change.",
    common_children,
    NULL,
    NULL};

int verb_replay(int argc, char **argv)
{
    struct settings *s = &settings;
    s->common = (struct common){.wish.main = "replay", .min_dumps = 1, .max_dumps = 1};
    replay_defaults();
    argp_parse(&argp, argc, argv, 0, NULL, s);
    struct dump *d = dump_load(s->common.dumps[0]);
    FILE *out = d ? common_open(&s->common) : NULL;
    int status = 1;
    if (out) {
        struct table_output *o = table_open(out, &s->common.wish);
        dump_complain(d);
        status = replay_dump(d, o);
        bool found = table_close(o);
        if (!common_close(&s->common, out) || !found || d->damaged)
            status = 1;
    }
    dump_free(d);
    return status;
}
