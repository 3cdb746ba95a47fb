/*
 * dump.h - a dump in memory, read with distrust: whatever the file holds, the lists below are
 * consistent, and look-ups by id answer something that can be printed.
 */
#ifndef AG_TOOLS_DUMP_H
#define AG_TOOLS_DUMP_H

#include "capture/trace/trace_format.h"
#include <stdbool.h>
#include <stdio.h>

struct dump_event {
    struct ag_dump_event e; /* `reserved` is the process here, of those that the dump is made of */
    uint32_t thread;
    uint32_t order; /* of reading, among events of one time */
};

struct dump_graph {
    struct ag_dump_graph d;
    uint32_t *signatures; /* d.count of them */
};

struct dump_site {
    uint32_t count;
    struct ag_dump_frame *frames;
};

struct dump_pair {
    char *name, *value;
};

struct dump {
    char *path;
    struct ag_dump_header header;
    char **strings; /* lists by id; entry 0 and what was not defined are empty */
    struct ag_dump_signature *signatures;
    struct ag_dump_stream *streams;
    struct dump_graph *graphs;
    struct dump_site *sites;
    uint32_t num_strings, num_signatures, num_streams, num_graphs, num_sites;
    struct dump_event *events; /* by time */
    size_t num_events;
    struct dump_pair *process, *counters;
    size_t num_process, num_counters;
    uint32_t num_processes; /* that it tells of; a stream's `reserved` says which is its own */
    uint64_t most_short;    /* launches of the process whose reasons are told (dump_merge.c) */
    char *end;              /* "exit", "full", or NULL: the process did not come to its end */
    uint64_t size;          /* of the file */
    uint64_t cut;           /* bytes at the end that are no whole chunk */
    uint64_t damaged;       /* bytes elsewhere that had to be skipped */
    uint64_t lost;          /* events that found no room in a ring */
};

/* NULL: a line on stderr has said why. What is cut or damaged is no reason; dump_complain() tells
 * of it. */
struct dump *dump_load(const char *path);
/* The same from memory; `path` is for messages, and `why` says what is wrong. */
struct dump *dump_parse(const char *path, const unsigned char *bytes, size_t size,
                        const char **why);
void dump_free(struct dump *d);
/* One line on stderr for each thing that limits what the dump can tell. */
void dump_complain(const struct dump *d);

/* By time, and by the order in which they were read. */
void dump_sort_events(struct dump *d);

const char *dump_string(const struct dump *d, uint32_t id);
const struct ag_dump_signature *dump_signature(const struct dump *d, uint32_t id);
const struct dump_graph *dump_graph(const struct dump *d, uint32_t id);
/* For each event the next one of its thread; 0: there is none. To be freed; NULL without memory. */
uint32_t *dump_link_threads(const struct dump *d);
/* "" where it is not there */
const char *dump_process(const struct dump *d, const char *name);
uint64_t dump_counter(const struct dump *d, const char *name);
/* What the library said at the end, "" where it is not there. */
const char *dump_said(const struct dump *d, const char *name);

#endif
