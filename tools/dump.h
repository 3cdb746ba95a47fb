/*
 * dump.h - a dump in memory. The reader does not trust the file: whatever it holds, the lists
 * below are consistent, and every look-up by id returns something that can be printed.
 */
#pragma once

#include "capture/trace/trace_format.h"
#include <stdbool.h>
#include <stdio.h>

struct dump_event {
    struct ag_dump_event e; /* `reserved` is the process here, if the dump was made of several */
    uint32_t thread;
    uint32_t order; /* of reading, among events of the same time */
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
    char **strings; /* lists by id; entry 0 and undefined ids are empty */
    struct ag_dump_signature *signatures;
    struct ag_dump_stream *streams;
    struct dump_graph *graphs;
    struct dump_site *sites;
    uint32_t num_strings, num_signatures, num_streams, num_graphs, num_sites;
    struct dump_event *events; /* by time */
    size_t num_events;
    struct dump_pair *process, *counters;
    size_t num_process, num_counters;
    uint32_t num_processes; /* that the dump covers; a stream's `reserved` says which is its own */
    uint64_t most_short;    /* launches of the process whose reasons are printed (dump_merge.c) */
    char *end;              /* "exit", "full", or NULL: the process did not end in order */
    uint64_t size;          /* of the file */
    uint64_t cut;           /* bytes at the end that are not a whole chunk */
    uint64_t damaged;       /* bytes elsewhere that had to be skipped */
    uint64_t lost;          /* events that found no room in a ring */
};

/* Returns NULL if the file cannot be read; a line on stderr has then said why. A dump that is cut
 * or damaged is still loaded; dump_complain() reports that. */
struct dump *dump_load(const char *path);
/* The same from memory; `path` is for messages. If it returns NULL, `why` says what is wrong. */
struct dump *dump_parse(const char *path, const unsigned char *bytes, size_t size,
                        const char **why);
void dump_free(struct dump *d);
/* Prints one line on stderr for each thing that limits what the dump can show. */
void dump_complain(const struct dump *d);

/* Sorts by time, then by the order in which the events were read. */
void dump_sort_events(struct dump *d);

const char *dump_string(const struct dump *d, uint32_t id);
const struct ag_dump_signature *dump_signature(const struct dump *d, uint32_t id);
const struct dump_graph *dump_graph(const struct dump *d, uint32_t id);
/* For each event, the index of the next event of its thread; 0 if there is none. The caller frees
 * the list; NULL without memory. */
uint32_t *dump_link_threads(const struct dump *d);
/* "" if it is not there */
const char *dump_process(const struct dump *d, const char *name);
uint64_t dump_counter(const struct dump *d, const char *name);
/* Whether all events are there up to the end of the process. If not, one thread's may end before
 * another's: then there are launches of graphs without the ops that they carried. */
bool dump_is_whole(const struct dump *d);
/* What the library said at the end, "" if it is not there. */
const char *dump_said(const struct dump *d, const char *name);
