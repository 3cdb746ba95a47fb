/*
 * replay_ops - drives recorded op streams (tests/README.md says the format) through the
 * policy alone, as capture/ would drive it, and prints what the policy made of them.
 *
 *     xz -dc stream.ops.xz | replay_ops [NAME]
 */
#include "policy/policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct record {
    uint64_t time_ns, key, digest;
    uint32_t stream;
    uint16_t kind, arg_bytes;
};

/* measured: 2.8 KB on the device and 7.7 KB on the host for each node of a graph */
enum { NODE_BYTES = 10500 };

enum { KIND_LAUNCH = 1, KIND_LAUNCH_EX = 2, KIND_MEMSET = 3, KIND_CALLS = 100, MAX_STREAMS = 64 };

struct stream {
    uint32_t id;
    struct ag_policy policy;
    uint64_t first_replay; /* ops before it */
    ag_key deferred[AG_MAX_SEQUENCE_OPS];
    uint32_t num_deferred;
    uint64_t built, nodes_built;
};

static struct stream *streams[MAX_STREAMS];
static int num_streams;
static uint64_t live_nodes, peak_bytes;

static void drop(void *context, struct ag_chunk *chunk)
{
    (void)context;
    chunk->user = NULL;
    live_nodes -= chunk->count;
}

static void measure_memory(void)
{
    uint64_t bytes = live_nodes * NODE_BYTES;
    for (int i = 0; i < num_streams; i++)
        bytes += ag_policy_memory(&streams[i]->policy);
    if (bytes > peak_bytes)
        peak_bytes = bytes;
}

static bool share(void *context, struct ag_chunk *from, struct ag_chunk *to)
{
    (void)context;
    to->user = from->user;
    return true;
}

static struct stream *stream_get(uint32_t id)
{
    for (int i = 0; i < num_streams; i++)
        if (streams[i]->id == id)
            return streams[i];
    if (num_streams == MAX_STREAMS)
        exit(2);
    struct stream *s = calloc(1, sizeof(*s));
    struct ag_policy_config config;
    struct ag_policy_hooks hooks = {.share = share, .drop = drop};
    ag_policy_defaults(&config);
    config.profit = true;
    s->id = id;
    s->first_replay = UINT64_MAX;
    if (ag_policy_open(&s->policy, &config, &hooks))
        exit(2);
    streams[num_streams++] = s;
    return s;
}

/* Submits deferred ops as capture does: by shorter graphs where there are any, else one by one. */
static void flush(struct stream *s, uint32_t n)
{
    uint32_t at = 0;
    if (n != s->num_deferred) {
        fprintf(stderr, "policy says %u deferred, there are %u\n", n, s->num_deferred);
        exit(1);
    }
    while (at < n) {
        struct ag_chunk *c = ag_policy_cover(&s->policy, s->deferred + at, n - at);
        if (c) {
            s->policy.counts.covered += c->count;
            at += c->count;
        } else {
            s->policy.counts.flushed++;
            at++;
        }
    }
    s->num_deferred = 0;
}

static void op(struct stream *s, const struct record *r)
{
    struct ag_verdict v;
    ag_policy_op(&s->policy, r->key ? r->key : 1, r->time_ns, &v);
    if (v.flush)
        flush(s, v.flush);
    if (v.what == AG_DO_DEFER)
        s->deferred[s->num_deferred++] = r->key ? r->key : 1;
    if (v.done && v.what == AG_DO_DEFER) {
        if (v.done->count != s->num_deferred) {
            fprintf(stderr, "chunk of %u ops, %u deferred\n", v.done->count, s->num_deferred);
            exit(1);
        }
        s->num_deferred = 0;
        if (s->first_replay == UINT64_MAX)
            s->first_replay = s->policy.counts.ops;
    } else if (v.done) {
        s->built++;
        s->nodes_built += v.done->count;
        live_nodes += v.done->count;
        v.done->user = s;
        ag_policy_built(v.done, true);
        measure_memory();
    }
}

static void sync_point(struct stream *s, uint64_t now)
{
    flush(s, ag_policy_sync_point(&s->policy, now));
}

/* What becomes of a call: by its name, the way the library classes it. */
enum call { CALL_SYNC_POINT, CALL_OP, CALL_PASS, CALL_BARRIER };
static unsigned char calls[65536];

static struct record *load(FILE *in, int64_t *n)
{
    char line[256], name[200];
    int number;
    if (fread(n, sizeof(*n), 1, in) != 1 || *n <= 0 || *n > (1 << 28))
        return NULL;
    struct record *records = malloc((size_t)*n * sizeof(*records));
    if (!records || fread(records, sizeof(*records), (size_t)*n, in) != (size_t)*n) {
        free(records);
        return NULL;
    }
    for (number = 0; number <= KIND_MEMSET; number++)
        calls[number] = CALL_OP;
    while (fgets(line, sizeof(line), in)) {
        if (sscanf(line, "%d %199s", &number, name) != 2 || number < KIND_CALLS || number > 65535)
            continue;
        if (strstr(name, "DtoD"))
            calls[number] = CALL_OP;
        else if (!strcmp(name, "cuEventQuery"))
            calls[number] = CALL_PASS;
        else if (strstr(name, "cuMemcpyDtoH_v2") || strstr(name, "CtxSync") ||
                 strstr(name, "cuMemFree_v2") || strstr(name, "EventSync"))
            calls[number] = CALL_BARRIER;
    }
    return records;
}

static void play(const struct record *records, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct record *r = &records[i];
        struct stream *s = stream_get(r->stream);
        enum call call = calls[r->kind];
        if (call == CALL_OP)
            op(s, r);
        else if (call == CALL_BARRIER || (call == CALL_SYNC_POINT && r->stream == 0))
            for (int k = 0; k < num_streams; k++)
                sync_point(streams[k], r->time_ns);
        else if (call == CALL_SYNC_POINT)
            sync_point(s, r->time_ns);
    }
}

struct totals {
    struct ag_policy_counts c;
    uint64_t first, built, nodes;
};

static struct totals add_up(void)
{
    struct totals t = {.first = UINT64_MAX};
    for (int k = 0; k < num_streams; k++) {
        const struct stream *s = streams[k];
        const uint64_t *from = (const uint64_t *)&s->policy.counts;
        uint64_t *to = (uint64_t *)&t.c;
        for (size_t i = 0; i < sizeof(t.c) / sizeof(*to); i++)
            to[i] += from[i];
        t.built += s->built;
        t.nodes += s->nodes_built;
        if (s->first_replay < t.first)
            t.first = s->first_replay;
    }
    return t;
}

int main(int argc, char **argv)
{
    const char *name = "stream";
    double at_least = 0, at_most = 100;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--at-least") && i + 1 < argc)
            at_least = atof(argv[++i]);
        else if (!strcmp(argv[i], "--at-most") && i + 1 < argc)
            at_most = atof(argv[++i]);
        else
            name = argv[i];
    }
    int64_t n;
    struct record *records = load(stdin, &n);
    if (!records) {
        fprintf(stderr, "replay_ops: standard input is not a recorded stream\n");
        return 2;
    }
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    play(records, n);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    measure_memory();
    struct totals t = add_up();
    double ns = (double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec);
    double ops = t.c.ops ? (double)t.c.ops : 1;
    double replayed = 100 * (double)t.c.replayed / ops, covered = 100 * (double)t.c.covered / ops;
    double flushed = 100 * (double)t.c.flushed / ops;
    printf(
        json
            ? "{\"stream\": \"%s\", \"ops\": %llu, \"replayed_percent\": %.2f, "
              "\"covered_percent\": %.2f, \"flushed_percent\": %.3f, \"first_replay\": %lld, "
              "\"mismatches\": %llu, \"switches\": %llu, \"resyncs\": %llu, \"periods\": "
              "%llu, \"sequences\": %llu, \"evicted\": %llu, \"graphs_built\": %llu, "
              "\"nodes_built\": %llu, \"peak_memory_kb\": %llu, \"ns_per_op\": %.1f}\n"
            : "%-20s ops %llu  replayed %.2f %%  covered %.2f %%  flushed %.3f %%  first replay at "
              "%lld  mismatches %llu  switches %llu  resyncs %llu  periods %llu  sequences %llu  "
              "evicted %llu  graphs %llu  nodes %llu  peak KB %llu  ns/op %.1f\n",
        name, (unsigned long long)t.c.ops, replayed, covered, flushed, (long long)t.first,
        (unsigned long long)t.c.mismatches, (unsigned long long)t.c.switches,
        (unsigned long long)t.c.resyncs, (unsigned long long)t.c.periods,
        (unsigned long long)t.c.sequences, (unsigned long long)t.c.evicted,
        (unsigned long long)t.built, (unsigned long long)t.nodes,
        (unsigned long long)peak_bytes / 1024, ns / (double)n);
    for (int k = 0; k < num_streams; k++) {
        ag_policy_close(&streams[k]->policy);
        free(streams[k]);
    }
    free(records);
    if (replayed + covered < at_least) {
        fprintf(stderr, "%s: %.2f %% of ops by graphs, at least %.2f %% wanted\n", name,
                replayed + covered, at_least);
        return 1;
    }
    if (flushed > at_most) {
        fprintf(stderr, "%s: %.3f %% of ops flushed, at most %.2f %% wanted\n", name, flushed,
                at_most);
        return 1;
    }
    return 0;
}
