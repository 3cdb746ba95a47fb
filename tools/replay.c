/*
 * replay.c - `autograph replay`: a dump's launches played to the policy alone, as capture/ would
 * play them. Says what a run in observe mode would have gained, and what other settings would make
 * of a run.
 */
#include "policy/policy.h"
#include "tools/tools.h"
#include <stdlib.h>
#include <string.h>

struct stream {
    struct ag_policy policy;
    bool open;
    ag_key deferred[AG_MAX_BLOCK_OPS];
    uint32_t num_deferred;
    uint64_t launches, built, nodes, failed;
};

static struct ag_policy_config config;
static uint32_t launch_ns; /* of an eager launch, as the dump has it */

static uint32_t usual_launch_ns(const struct dump *d)
{
    uint64_t sum = 0, n = 0;
    for (size_t i = 0; i < d->num_events; i++)
        if (d->events[i].e.kind == AG_EVENT_CALL && d->events[i].e.b < 50000) {
            sum += d->events[i].e.b;
            n++;
        }
    return n ? (uint32_t)(sum / n) : 0;
}

static void drop(void *context, struct ag_chunk *chunk)
{
    (void)context;
    chunk->user = NULL;
}

static struct stream *stream_get(struct stream **streams, uint32_t id)
{
    struct ag_policy_hooks hooks = {.drop = drop};
    if (streams[id])
        return streams[id];
    struct stream *s = calloc(1, sizeof(*s));
    if (!s || ag_policy_open(&s->policy, &config, &hooks)) {
        fputs("autograph: out of memory\n", stderr);
        exit(1);
    }
    return streams[id] = s;
}

static void flush(struct stream *s, uint32_t n)
{
    for (uint32_t at = 0; at < n && n <= s->num_deferred;) {
        struct ag_chunk *c = ag_policy_cover(&s->policy, s->deferred + at, n - at);
        if (c)
            s->policy.counts.covered += c->count;
        else
            s->policy.counts.flushed++;
        s->launches += c != NULL;
        at += c ? c->count : 1;
    }
    s->num_deferred = 0;
}

static void op(struct stream *s, uint32_t shape, uint64_t now)
{
    struct ag_verdict v;
    ag_key key = shape;
    s->policy.launch_ns = launch_ns;
    ag_policy_op(&s->policy, key, now, &v);
    if (v.flush)
        flush(s, v.flush);
    if (v.what == AG_DO_DEFER && s->num_deferred < AG_MAX_BLOCK_OPS)
        s->deferred[s->num_deferred++] = key;
    if (v.done && v.what == AG_DO_DEFER) {
        s->launches++;
        s->num_deferred = 0;
    } else if (v.done) {
        s->built++;
        s->nodes += v.done->count;
        v.done->user = s;
        ag_policy_built(v.done, true);
    }
}

static void boundary(struct stream *s, uint64_t now)
{
    flush(s, ag_policy_boundary(&s->policy, now));
}

static void play(const struct dump *d, struct stream **streams)
{
    for (size_t i = 0; i < d->num_events; i++) {
        const struct ag_dump_event *e = &d->events[i].e;
        bool known = e->stream && e->stream < d->num_streams && e->stream < UINT32_MAX;
        if (e->kind == AG_EVENT_OP && known) {
            struct stream *s = stream_get(streams, e->stream);
            if (e->a && e->what != AG_DONE_IMMEDIATE)
                op(s, e->a, e->time);
            else
                boundary(s, e->time);
        } else if (e->kind == AG_EVENT_BOUNDARY && known) {
            boundary(stream_get(streams, e->stream), e->time);
        } else if (e->kind == AG_EVENT_BOUNDARY) {
            for (uint32_t k = 0; k < d->num_streams; k++)
                if (streams[k])
                    boundary(streams[k], e->time);
        }
    }
}

static void result(struct table_output *o, const char *what, uint64_t count, uint64_t of)
{
    table_text(o, what);
    table_number(o, count);
    table_real(o, of ? 100.0 * (double)count / (double)of : 0, 1);
}

int replay_dump(const struct dump *d, struct table_output *o)
{
    struct stream **streams = calloc(d->num_streams + 1, sizeof(*streams));
    struct ag_policy_counts t = {0};
    uint64_t launches = 0, built = 0, nodes = 0;
    if (!streams)
        return 1;
    if (!config.max_blocks)
        ag_policy_defaults(&config);
    launch_ns = usual_launch_ns(d);
    play(d, streams);
    for (uint32_t k = 0; k < d->num_streams; k++) {
        if (!streams[k])
            continue;
        struct stream *s = streams[k];
        flush(s, ag_policy_boundary(&s->policy, UINT64_MAX / 2));
        const uint64_t *from = (const uint64_t *)&s->policy.counts;
        uint64_t *to = (uint64_t *)&t;
        for (size_t i = 0; i < sizeof(t) / sizeof(*to); i++)
            to[i] += from[i];
        launches += s->launches;
        built += s->built;
        nodes += s->nodes;
        ag_policy_close(&s->policy);
        free(s);
    }
    free(streams);
    table_begin(o, "replay", "What the policy makes of these launches", "<What|Count|Share (%)");
    result(o, "launches", t.ops, t.ops);
    result(o, "replayed by graphs", t.replayed, t.ops);
    result(o, "by shorter graphs", t.covered, t.ops);
    result(o, "held back, then one by one", t.flushed, t.ops);
    result(o, "calls of the driver to submit them", t.ops - t.replayed - t.covered + launches,
           t.ops);
    result(o, "graph launches", launches, t.ops);
    result(o, "graphs built", built, t.ops);
    result(o, "nodes in them", nodes, t.ops);
    result(o, "sequences known", t.blocks, t.ops);
    result(o, "departures from a sequence", t.mismatches, t.ops);
    table_end(o);
    return 0;
}

/* ---- the verb --------------------------------------------------------------------------- */

struct settings {
    struct common common;
};

enum { KEY_REPEATS = 256, KEY_OPS, KEY_MOST, KEY_CHUNK };

static const struct argp_option options[] = {
    {"min-repeats", KEY_REPEATS, "N", 0, "as AUTOGRAPH_MIN_REPEATS", 0},
    {"min-ops", KEY_OPS, "N", 0, "as AUTOGRAPH_MIN_OPS", 0},
    {"max-chunk", KEY_MOST, "N", 0, "as AUTOGRAPH_MAX_CHUNK", 0},
    {"chunk", KEY_CHUNK, "N", 0, "as AUTOGRAPH_CHUNK", 0},
    {0}};
static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {0}};

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
        config.min_repeats = number(state, arg, 2, 1000000);
        return 0;
    case KEY_OPS:
        config.min_ops = number(state, arg, 1, 10000);
        return 0;
    case KEY_MOST:
        config.max_chunk = number(state, arg, 1, 1024);
        return 0;
    case KEY_CHUNK:
        config.fixed_chunk = number(state, arg, 0, 1024);
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
    children,
    NULL,
    NULL};

int verb_replay(int argc, char **argv)
{
    struct settings s = {.common = {.min_dumps = 1, .max_dumps = 1}};
    ag_policy_defaults(&config);
    argp_parse(&argp, argc, argv, 0, NULL, &s);
    struct dump *d = dump_load(s.common.dumps[0]);
    FILE *out = d ? common_open(&s.common) : NULL;
    int status = 1;
    if (out) {
        struct table_output *o = table_open(out, s.common.format);
        dump_complain(d);
        status = replay_dump(d, o);
        table_close(o);
        if (!common_close(&s.common, out))
            status = 1;
    }
    dump_free(d);
    return status;
}
