/*
 * replay_ops - drives recorded op streams (tests/policy/README.md says the format) through the
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

enum { KIND_LAUNCH = 1, KIND_LAUNCH_EX = 2, KIND_MEMSET = 3, KIND_CALLS = 100, MAX_STREAMS = 64 };

struct stream {
    uint32_t id;
    struct ag_policy policy;
    uint64_t first_replay; /* ops before it */
    ag_key deferred[AG_MAX_BLOCK_OPS];
    uint32_t num_deferred;
    uint64_t built, graph_nodes;
};

static struct stream *streams[MAX_STREAMS];
static int num_streams;
static uint64_t dropped;

static void drop(void *context, struct ag_chunk *chunk)
{
    (void)context;
    chunk->user = NULL;
    dropped++;
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
    struct ag_policy_hooks hooks = {drop, NULL};
    ag_policy_defaults(&config);
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
        s->graph_nodes += v.done->count;
        v.done->user = s;
        ag_policy_built(v.done, true);
    }
}

static void boundary(struct stream *s, uint64_t now)
{
    flush(s, ag_policy_boundary(&s->policy, now));
}

int main(int argc, char **argv)
{
    int64_t n;
    if (fread(&n, sizeof(n), 1, stdin) != 1 || n <= 0 || n > (1 << 28))
        return 2;
    struct record *records = malloc((size_t)n * sizeof(*records));
    if (!records || fread(records, sizeof(*records), (size_t)n, stdin) != (size_t)n)
        return 2;
    char line[256];
    static unsigned char is_copy[65536], is_pass[65536], is_all[65536];
    while (fgets(line, sizeof(line), stdin)) {
        int number;
        char name[200];
        if (sscanf(line, "%d %199s", &number, name) == 2) {
            is_copy[number & 65535] = !!strstr(name, "DtoD");
            is_pass[number & 65535] = !strcmp(name, "cuEventQuery");
            is_all[number & 65535] = !!strstr(name, "cuMemcpyDtoH_v2") ||
                                     !!strstr(name, "CtxSync") || !!strstr(name, "cuMemFree_v2") ||
                                     !!strstr(name, "EventSync");
        }
    }
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (int64_t i = 0; i < n; i++) {
        const struct record *r = &records[i];
        struct stream *s = stream_get(r->stream);
        if (is_pass[r->kind])
            continue;
        if (r->kind <= KIND_MEMSET || is_copy[r->kind])
            op(s, r);
        else if (is_all[r->kind] || r->stream == 0)
            for (int k = 0; k < num_streams; k++)
                boundary(streams[k], r->time_ns);
        else
            boundary(s, r->time_ns);
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    double ns = (t1.tv_sec - t0.tv_sec) * 1e9 + (t1.tv_nsec - t0.tv_nsec);
    struct ag_policy_counts c = {0};
    uint64_t first = UINT64_MAX, built = 0, nodes = 0;
    for (int k = 0; k < num_streams; k++) {
        const struct ag_policy_counts *x = &streams[k]->policy.counts;
        c.ops += x->ops;
        c.replayed += x->replayed;
        c.covered += x->covered;
        c.flushed += x->flushed;
        c.mismatches += x->mismatches;
        c.switches += x->switches;
        c.resyncs += x->resyncs;
        c.periods += x->periods;
        c.blocks += x->blocks;
        c.evicted += x->evicted;
        built += streams[k]->built;
        nodes += streams[k]->graph_nodes;
        if (streams[k]->first_replay < first)
            first = streams[k]->first_replay;
    }
    printf(
        "%-20s ops %llu replayed %.2f%% covered %.2f%% flushed %.2f%% first %llu mismatches %llu "
        "switches %llu resyncs %llu periods %llu blocks %llu evicted %llu graphs %llu nodes %llu "
        "ns/op %.1f\n",
        argc > 1 ? argv[1] : "stream", (unsigned long long)c.ops, 100.0 * c.replayed / c.ops,
        100.0 * c.covered / c.ops, 100.0 * c.flushed / c.ops, (unsigned long long)first,
        (unsigned long long)c.mismatches, (unsigned long long)c.switches,
        (unsigned long long)c.resyncs, (unsigned long long)c.periods, (unsigned long long)c.blocks,
        (unsigned long long)c.evicted, (unsigned long long)built, (unsigned long long)nodes,
        ns / n);
    for (int k = 0; k < num_streams; k++) {
        ag_policy_close(&streams[k]->policy);
        free(streams[k]);
    }
    free(records);
    return 0;
}
