/*
 * model.h - what a dump amounts to: totals, sequences, reasons. Everything that a verb prints
 * comes from here or from the events themselves.
 *
 * Words as in docs/how-it-works.md: ops that a complete graph submitted are `replayed`. Ops of an
 * incomplete graph that shorter graphs submitted are `covered`. Both are `carried` by graphs.
 */
#pragma once

#include "tools/dump.h"
#include "tools/handed.h"

struct model_graph {
    uint64_t launches, updates, builds, build_ns, failed;
    uint64_t host_ns;     /* of the program's threads in its launches */
    uint32_t variants;    /* used */
    uint64_t *op_updates; /* per op, NULL if there were none */
    bool dropped;
};

/* A sequence on a stream, with the graphs that its ops are cut into. */
struct model_sequence {
    uint64_t key;
    uint32_t stream, length, num_graphs;
    uint32_t *graphs; /* ids, in order of place; they lie within model.sequence_graphs */
    uint64_t launches, carried, updates, host_ns, build_ns, builds;
    double saved_ns;    /* host time saved against eager launches */
    uint32_t processes; /* that have it */
};

enum { MODEL_MOST_SITES = 3 };

/* How often each of some ids occurred. */
struct model_tally {
    struct model_count {
        uint32_t id;
        uint64_t times;
    } * list; /* most frequent first, once the model is made */
    uint32_t count;
    uint64_t met;
    uint32_t *index; /* by id: place in the list + 1 */
    uint32_t room;
};

/* Why something did not go as a graph, or what cut a stream. */
struct model_reason {
    uint32_t text; /* string */
    uint64_t times, ops, covered, ns;
    uint64_t ops_before;      /* sync points: ops on the stream since the one before */
    struct model_tally sites; /* who made the call, if the library looked */
    struct model_tally names; /* mismatches: strings, the op that came instead */
};

struct model_reasons {
    struct model_reason *list;
    uint32_t count;
};

struct model_stream {
    uint64_t ops, carried, flushed, launches;
    uint64_t since_sync_point; /* ops; not valid if `round` is an earlier one */
    uint32_t round;
};

struct model_kernel {
    uint64_t ops, carried;
};

enum { MODEL_BUCKETS = 60 };

struct model {
    const struct dump *d;
    uint64_t first_ns, last_ns;
    uint64_t ops, done[8]; /* by enum ag_dump_done */
    uint64_t replayed, covered, flushed, launches, updates;
    uint64_t graph_ns; /* of the program's threads in graph launches */
    struct handed handed;
    uint64_t builds, builds_failed, builds_put_off, build_ns;
    uint64_t sync_points, dropped;
    uint64_t eager_calls, eager_total_ns;
    double eager_ns; /* a typical eager call; assumed if there was none */
    double saved_ns;
    bool eager_is_assumed;
    const char *why, *advice;     /* why no more went as graphs, and what to do; "" if not known */
    struct model_graph *graphs;   /* by id, d->num_graphs */
    struct model_stream *streams; /* by id, num_streams */
    uint32_t num_streams;
    uint64_t *signature_ops;          /* by id, d->num_signatures: arrivals */
    struct model_sequence *sequences; /* by time saved */
    uint32_t num_sequences;
    uint32_t *sequence_graphs;
    struct model_reasons flushes, immediate, eager, cuts; /* by ops, the last by times */
    struct model_bucket {
        uint64_t ops, carried;
    } buckets[MODEL_BUCKETS];
};

struct model *model_make(const struct dump *d);
/* The part of it that adds up the events; the rest follows from what it adds up. */
void model_add_events(struct model *m);
/* Sorts the sequences by the time that they saved. */
void model_sort_sequences(struct model *m);
void model_free(struct model *m);

/* Returns false if the dump was damaged or contradicts itself, so that its figures are not
 * reliable. A line on stderr has then said so, and verbs return 1. */
bool model_is_sound(const struct model *m);

/* Share of the ops that graphs carried, in percent. */
double model_coverage(const struct model *m);
/* At most 100. */
double model_share(uint64_t part, uint64_t whole);

/* Whether to print the reason why ops were not replayed: more than a twentieth of them were not. */
bool model_falls_short(const struct model *m);

/* Writes plain advice, one sentence per entry; returns how many there are. The caller frees each.
 */
enum { MODEL_MOST_ADVICE = 8 };
int model_advice(const struct model *m, char **advice);
