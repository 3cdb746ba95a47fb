/*
 * trace.h - writes events to the dump (AUTOGRAPH_TRACE), see trace_format.h.
 *
 * While no dump is written, everything here is one predictable branch. While one is written, an
 * event goes to a ring of the calling thread, without a lock or a system call. It allocates only
 * for the thread's first event and for things seen for the first time. A separate thread writes
 * the rings to the file. A full ring loses events, and the dump says so.
 */
#pragma once

#include "capture/system/clock.h"
#include "capture/tracking/stream.h"
#include "capture/trace/trace_define.h"
#include "capture/trace/trace_format.h"

/* The time at which a measurement begins; 0 if nothing is traced. */
static inline uint64_t ag_trace_clock(void)
{
    return ag_trace_on() ? ag_clock_ns() : 0;
}

/* Why this thread flushes: an entry point, or one of these. */
enum ag_trace_cause {
    AG_CAUSE_MISMATCH = AG_SYM_COUNT + 1,
    AG_CAUSE_WATCHDOG,
    AG_CAUSE_ORDER,
    AG_CAUSE_NOT_RECORDABLE,
    AG_CAUSE_GRAPH_FAILED,
    AG_NUM_CAUSES
};
extern __thread uint32_t ag_trace_cause_now __attribute__((tls_model("initial-exec")));
static inline void ag_trace_cause(uint32_t cause)
{
    if (ag_trace_on())
        ag_trace_cause_now = cause;
}

/* Start opens the file that AUTOGRAPH_TRACE names, or prints one line if it cannot. Stop writes
 * what is left; if it returns true, pass the counters to ag_dump_close(). After a fork, the child
 * writes nothing more. */
void ag_trace_start(void);
bool ag_trace_stop(void);
void ag_trace_after_fork(void);

void ag_trace_write_op(const struct ag_stream *s, struct ag_signature *signature,
                       const struct ag_incoming *in, uint32_t what);
void ag_trace_write_passed(struct ag_stream *s, const struct ag_incoming *in, const char *why);
void ag_trace_write_call(const struct ag_stream *s, uint64_t began, CUresult r);
void ag_trace_write_graph(const struct ag_stream *s, uint32_t graph, uint32_t variant,
                          uint64_t updates, uint64_t began, CUresult r);
void ag_trace_write_update(const struct ag_stream *s, uint32_t graph, uint32_t op);

/* An op arrived; `what` is done with it. Call it under the stream's lock. */
static inline void ag_trace_op(const struct ag_stream *s, struct ag_signature *signature,
                               const struct ag_incoming *in, enum ag_do what)
{
    if (ag_trace_on())
        ag_trace_write_op(s, signature, in,
                          what == AG_DO_DEFER    ? AG_DONE_DEFERRED
                          : what == AG_DO_RECORD ? AG_DONE_RECORDED
                                                 : AG_DONE_EAGER);
}

/* An op is submitted that the policy does not see. `why` NULL: the stream is dormant. `s` NULL:
 * nothing is kept of the stream. Call it without the stream's lock. */
static inline void ag_trace_passed(struct ag_stream *s, const struct ag_incoming *in,
                                   const char *why)
{
    if (ag_trace_on())
        ag_trace_write_passed(s, in, why);
}

/* The driver call of an op that was submitted at once has returned. */
static inline void ag_trace_call(const struct ag_stream *s, uint64_t began, CUresult r)
{
    if (ag_trace_on())
        ag_trace_write_call(s, began, r);
}

static inline void ag_trace_graph(const struct ag_stream *s, uint32_t graph, uint32_t variant,
                                  uint64_t updates, uint64_t began, CUresult r)
{
    if (ag_trace_on())
        ag_trace_write_graph(s, graph, variant, updates, began, r);
}

static inline void ag_trace_update(const struct ag_stream *s, uint32_t graph, uint32_t op)
{
    if (ag_trace_on())
        ag_trace_write_update(s, graph, op);
}

/* What is rare enough for a call each time. */

/* A chunk or a single op leaves the ring, in which it waited for so many ns. */
void ag_trace_taken(const struct ag_stream *s, uint32_t graph, uint32_t ops, uint64_t now,
                    uint64_t waited, enum ag_dump_taker taker);
/* The submitter, which calls it, has taken so much processor time. */
void ag_trace_submitter(uint64_t ns);
/* The recorded ops of `s` are handed to the builder as this chunk's graphs. Returns the graphs'
 * id. */
uint32_t ag_trace_chunk(const struct ag_stream *s, const struct ag_chunk *chunk);
/* `how`: enum ag_dump_built. */
void ag_trace_build(uint32_t graph, uint32_t ops, uint32_t how, uint64_t ns);
/* `n` deferred ops were submitted before their chunk was complete, `covered` of them by graphs. */
void ag_trace_flush(const struct ag_stream *s, uint32_t n, uint64_t covered, uint64_t began);
/* Also counts it. A call that ends segments: of this stream, or of all streams (NULL). Later
 * flushes name this call as their cause. */
void ag_trace_sync_point(const struct ag_stream *s, enum ag_sym sym);
void ag_trace_drop(uint32_t graph, uint64_t variants);
void ag_trace_stream(const struct ag_stream *s);
void ag_trace_note(const char *text);
