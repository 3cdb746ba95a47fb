/*
 * trace_format.h - the layout of a dump (AUTOGRAPH_TRACE). The writer in capture/ and the readers
 * in tools/ share it. docs/format.md describes the layout for everybody else; change both
 * together.
 *
 * A dump is a header followed by chunks. All numbers are little-endian. A reader skips chunks and
 * event kinds that it does not know. Raise the version for a change that an old reader would
 * misread.
 */
#pragma once

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dumps are written and read as they lie in memory, which must be little-endian"
#endif

#define AG_DUMP_MAGIC                                                                              \
    "\x89"                                                                                         \
    "AGDUMP\n"
enum { AG_DUMP_MAGIC_SIZE = 8, AG_DUMP_VERSION = 1 };

struct ag_dump_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size; /* chunks begin here */
    uint64_t wall_ns;     /* CLOCK_REALTIME when the dump began ... */
    uint64_t clock_ns;    /* ... and the clock of the events at that moment */
    uint32_t pid;
    uint32_t reserved[3];
};

/* `crc` is the CRC-32 (IEEE 802.3, as zlib computes it) of type, length and payload. Zero bytes
 * pad the payload to a multiple of 8; neither length nor crc counts them. */
struct ag_dump_chunk {
    uint32_t mark;
    uint32_t type;
    uint32_t length;
    uint32_t crc;
};

#define AG_DUMP_TAG(a, b, c, d)                                                                    \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

enum {
    AG_DUMP_MARK = AG_DUMP_TAG('A', 'G', 'c', 'k'),
    AG_DUMP_MAX_CHUNK = 16 << 20,

    AG_DUMP_PROCESS = AG_DUMP_TAG('P', 'R', 'O', 'C'),   /* name=value\0 name=value\0 ... */
    AG_DUMP_STRING = AG_DUMP_TAG('S', 'T', 'R', 'G'),    /* struct ag_dump_string, text */
    AG_DUMP_SIGNATURE = AG_DUMP_TAG('S', 'H', 'A', 'P'), /* struct ag_dump_signature */
    AG_DUMP_STREAM = AG_DUMP_TAG('S', 'T', 'R', 'M'),    /* struct ag_dump_stream */
    AG_DUMP_GRAPH = AG_DUMP_TAG('G', 'R', 'P', 'H'),     /* struct ag_dump_graph, signature ids */
    AG_DUMP_SITE = AG_DUMP_TAG('S', 'I', 'T', 'E'),      /* struct ag_dump_site, frames */
    AG_DUMP_EVENTS = AG_DUMP_TAG('E', 'V', 'T', 'S'),    /* struct ag_dump_events, events */
    AG_DUMP_COUNTERS = AG_DUMP_TAG('C', 'N', 'T', 'S'),  /* name=number\0 ..., at the end */
    AG_DUMP_END = AG_DUMP_TAG('E', 'N', 'D', ' '),       /* why: exit | full */
};

/* Ids of each kind count up from 1 without gaps; 0 means none. Whatever an event names was defined
 * before that event's chunk. */
struct ag_dump_string {
    uint32_t id;
    uint32_t size; /* bytes of text that follow, no final zero */
};

enum { AG_DUMP_KERNEL, AG_DUMP_MEMSET, AG_DUMP_COPY, AG_DUMP_RECORD, AG_DUMP_WAIT };

struct ag_dump_signature {
    uint32_t id;
    uint32_t kind;
    uint32_t name;       /* string: the kernel's name as linked (mangled) */
    uint32_t dims[7];    /* kernel: grid, block, bytes of dynamic shared memory */
    uint32_t num_params; /* kernel */
    uint32_t arg_bytes;
    uint32_t elem_size; /* memset */
    uint32_t num_attrs; /* kernel */
    uint64_t width;     /* memset: elements per row; copy: bytes; wait: how many records ago */
    uint64_t height;    /* memset: rows */
    uint64_t pitch;
};

enum { AG_DUMP_STREAM_LEGACY = 1, AG_DUMP_STREAM_BLOCKING = 2 };

struct ag_dump_stream {
    uint32_t id;
    uint32_t flags;
    int32_t priority;
    uint32_t reserved;
    uint64_t handle;
    uint64_t context;
};

/* A graph: `count` ops on one stream, starting at op `first` of a sequence of `sequence_length`
 * ops. `sequence` identifies the sequence on this stream. A graph's executable variants differ
 * only in arguments. */
struct ag_dump_graph {
    uint32_t id;
    uint32_t stream;
    uint64_t sequence;
    uint32_t sequence_length;
    uint32_t first;
    uint32_t count; /* of signature ids that follow */
    uint32_t reserved;
};

/* A place in the program, innermost frame first. Frames of the library itself are left out. */
struct ag_dump_site {
    uint32_t id;
    uint32_t count; /* of frames */
};
struct ag_dump_frame {
    uint32_t object; /* string: path of the file */
    uint32_t reserved;
    uint64_t offset; /* of the return address, from the object's load address */
};

/* Events of one thread, in the order in which they happened. */
struct ag_dump_events {
    uint32_t thread; /* the kernel's thread id */
    uint32_t count;
};

enum ag_dump_kind {
    AG_EVENT_OP = 1, /* what: enum ag_dump_done; a: signature; b: string, why it was submitted at
                        once; value: digest. If it cannot be recorded: a: 0; value: site */
    AG_EVENT_CALL,   /* an op's own driver call returned: a: signature; b: host ns; value: result */
    AG_EVENT_GRAPH,  /* what: variant; a: graph; b: host ns; value: updates | result << 32 */
    AG_EVENT_UPDATE, /* arguments of a node changed: a: graph; b: op of the graph, from 0 */
    AG_EVENT_BUILD,  /* what: enum ag_dump_built; a: graph; b: ops; value: host ns */
    AG_EVENT_FLUSH,  /* a: string, why; b: ops; value: ops by shorter graphs | host ns << 32 */
    AG_EVENT_SYNC_POINT, /* stream: 0 for all; a: string, entry point; b: site */
    AG_EVENT_DROP,       /* graphs destroyed: a: graph; b: variants */
    AG_EVENT_LOST,       /* value: how many events of this thread were lost before this one */
    AG_EVENT_NOTE,       /* a: string */
    AG_EVENT_TAKEN,      /* what: enum ag_dump_taker, who takes a chunk or a single op out of its
                            stream's ring; a: graph, 0: a single op; b: ops; value: ns since it was
                            put in. This thread's next graph launch or flush on the stream, or its
                            next call, submits it */
    AG_EVENT_SUBMITTER,  /* this thread is the submitter; value: ns of processor time that it has
                            taken until now */
};

/* What was done with an op when it arrived. */
enum ag_dump_done {
    AG_DONE_EAGER,     /* submitted at once */
    AG_DONE_RECORDED,  /* submitted at once; its arguments are kept to build a graph */
    AG_DONE_DEFERRED,  /* held back for a graph */
    AG_DONE_PASSED,    /* submitted at once without a look: the stream is dormant */
    AG_DONE_IMMEDIATE, /* cannot be recorded, see `b` */
};

enum ag_dump_taker { AG_TAKEN_BY_CALL, AG_TAKEN_BY_SUBMITTER };

enum ag_dump_built { AG_BUILT_FAILED, AG_BUILT, AG_BUILT_PUT_OFF };

struct ag_dump_event {
    uint64_t time; /* ns, of the header's clock */
    uint8_t kind;
    uint8_t what;
    uint16_t reserved;
    uint32_t stream;
    uint32_t a;
    uint32_t b;
    uint64_t value;
};

_Static_assert(sizeof(struct ag_dump_header) == 48, "layout");
_Static_assert(sizeof(struct ag_dump_chunk) == 16, "layout");
_Static_assert(sizeof(struct ag_dump_signature) == 80, "layout");
_Static_assert(sizeof(struct ag_dump_stream) == 32, "layout");
_Static_assert(sizeof(struct ag_dump_graph) == 32, "layout");
_Static_assert(sizeof(struct ag_dump_frame) == 16, "layout");
_Static_assert(sizeof(struct ag_dump_event) == 32, "layout");

/* ---- the live page ---------------------------------------------------------------------- */

/*
 * A process under the library keeps one page of figures: a memfd of this name among its open files
 * (/proc/PID/fd). A reader sets `wanted`. The library writes new figures at its next sync point or
 * when the watchdog next looks, and adds 1 to `updates` before and after.
 */
#define AG_LIVE_NAME  "autograph-live"
#define AG_LIVE_MAGIC "AGLIVE1\n"
enum { AG_LIVE_SIZE = 4096 };

/*
 * The command `autograph` creates one such file for all processes that it runs, and names it in
 * AUTOGRAPH_LIVE. The file has one page with this head, then one page for each process that uses
 * CUDA. The pages outlive the processes, so that the command can report on those that ended
 * without a summary.
 */
#define AG_LIVES_MAGIC "AGLIVES\n"
enum { AG_LIVES_MOST = 1023 };
struct ag_lives_page {
    char magic[8];
    uint32_t most;  /* pages that follow */
    uint32_t taken; /* of these; can grow beyond `most` */
};

/*
 * How long what was handed over waited: how many waits of each length were timed. The first place
 * is for those under 64 ns, the last for those of 134 ms and more; eight places make a length twice
 * as long.
 */
enum { AG_LIVE_WAITS = 170 };
struct ag_live_waits {
    uint64_t longest_ns;
    uint64_t counts[AG_LIVE_WAITS];
};

/* The shortest wait of a place. */
static inline uint64_t ag_live_wait_ns(uint32_t place)
{
    return place ? (uint64_t)(8 + (place - 1) % 8) << ((place - 1) / 8 + 3) : 0;
}

static inline uint32_t ag_live_wait_place(uint64_t ns)
{
    if (ns < 64)
        return 0;
    uint32_t doubled = 63 - (uint32_t)__builtin_clzll(ns);
    uint32_t place = (doubled - 6) * 8 + (uint32_t)(ns >> (doubled - 3) & 7) + 1;
    return place < AG_LIVE_WAITS ? place : AG_LIVE_WAITS - 1;
}

static inline uint64_t ag_live_waits_timed(const struct ag_live_waits *w)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < AG_LIVE_WAITS; i++)
        n += w->counts[i];
    return n;
}

/* Good to an eighth. 0: none was timed. */
static inline uint64_t ag_live_waits_median_ns(const struct ag_live_waits *w)
{
    uint64_t left = ag_live_waits_timed(w) / 2;
    uint32_t i = 0;
    while (i + 1 < AG_LIVE_WAITS && left >= w->counts[i])
        left -= w->counts[i++];
    uint64_t from = ag_live_wait_ns(i), to = ag_live_wait_ns(i + 1);
    uint64_t ns = w->counts[i] ? from + (to - from) * left / w->counts[i] : 0;
    return ns < w->longest_ns ? ns : w->longest_ns;
}

struct ag_live_page {
    char magic[8];
    uint32_t wanted;
    uint32_t updates; /* odd while the figures are being written */
    uint64_t start_ns, now_ns;
    uint64_t ops, replayed, covered, flushed, eager, dormant, graph_launches, node_updates;
    uint64_t mismatches, sequences, graphs_built, build_ns, memory, memory_budget, streams;
    uint64_t sync_points, watchdog;
    uint32_t observe_only, pid;
    char program[64];
    char why[512];  /* why little is replayed; "" if enough is */
    char dump[512]; /* path of its dump; "" if it has none */
    uint32_t ended; /* 1: it ended in an orderly way; these figures are final */
    char rank[12];  /* as a launcher gave it, "" if none did */
    /* of the graph launches and ops those by the library's own thread, and its processor time */
    uint64_t handed, handed_ops, submit_ns;
    uint64_t handed_singly; /* ops that the library's own thread launched one by one */
    struct ag_live_waits waits;
};
_Static_assert(sizeof(struct ag_live_page) <= AG_LIVE_SIZE, "one page");
