/*
 * trace.c - turns ops, graphs, flushes and sync points into events of the dump, and defines the
 * names that they use.
 */
#include "ag_version.h"
#include "capture/trace/trace.h"
#include "capture/system/digest.h"
#include "capture/tracking/count.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "capture/trace/trace_file.h"
#include "capture/trace/trace_ring.h"
#include "capture/trace/trace_site.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

__thread uint32_t ag_trace_cause_now __attribute__((tls_model("initial-exec")));

/* ---- texts ----------------------------------------------------------------------------- */

/* The id of a text that is a constant, asked for once. */
static uint32_t id_of(_Atomic uint32_t *known, const char *text)
{
    uint32_t id = atomic_load_explicit(known, memory_order_relaxed);
    if (__builtin_expect(!id, 0)) {
        id = ag_trace_string(text);
        atomic_store_explicit(known, id, memory_order_relaxed);
    }
    return id;
}

static uint32_t cause_string(uint32_t cause)
{
    static const char *const names[AG_NUM_CAUSES] = {
        [AG_SYM_COUNT] = "end",
        [AG_CAUSE_MISMATCH] = "mismatch",
        [AG_CAUSE_WATCHDOG] = "watchdog",
        [AG_CAUSE_ORDER] = "order of streams",
        [AG_CAUSE_NOT_RECORDABLE] = "op that cannot be recorded",
        [AG_CAUSE_GRAPH_FAILED] = "graph that could not be launched",
    };
    static _Atomic uint32_t ids[AG_NUM_CAUSES];
    if (cause >= AG_NUM_CAUSES)
        cause = AG_SYM_COUNT;
    return id_of(&ids[cause], names[cause] ? names[cause] : ag_sym_name((enum ag_sym)cause));
}

/* Why an op that a graph could hold was submitted at once. */
static uint32_t why_string(enum ag_why why)
{
    static const char *const names[AG_NUM_WHYS] = {
        [AG_WHY_UNKNOWN] = "not known to repeat, or not yet",
        [AG_WHY_SELDOM] = "its sequence was seen too seldom for a graph",
        [AG_WHY_BUILDING] = "its graph is being built",
        [AG_WHY_BUILD_FAILED] = "its graph could not be built",
        [AG_WHY_SLOWER] = "its sequence is as fast without graphs, or faster",
        [AG_WHY_TRIAL] = "its sequence is tried without graphs, to compare",
        [AG_WHY_RESTS] = "held back in vain too often of late",
        [AG_WHY_MEASURED] = "the program measures how long it takes",
        [AG_WHY_REST_OF_CHUNK] = "the rest of a graph that was left half way",
        [AG_WHY_ODD] = "another launch each time, between others that repeat",
    };
    static _Atomic uint32_t ids[AG_NUM_WHYS];
    return id_of(&ids[why], names[why]);
}

/* As ag_dump_signature has it: of a copy, all of its bytes. */
static uint64_t width_of(const struct ag_signature *signature)
{
    const struct ag_rows *r = &signature->rows;
    return signature->width * (r->depth ? r->height * r->depth : 1);
}

/* ---- signatures ----------------------------------------------------------------------------- */

_Static_assert((int)AG_OP_LAUNCH == AG_DUMP_KERNEL && (int)AG_OP_MEMSET == AG_DUMP_MEMSET &&
                   (int)AG_OP_COPY == AG_DUMP_COPY && (int)AG_OP_RECORD == AG_DUMP_RECORD &&
                   (int)AG_OP_WAIT == AG_DUMP_WAIT,
               "the dump's kinds of ops are capture's");

static uint32_t define_signature(struct ag_signature *signature)
{
    static struct ag_lock lock;
    static uint32_t last;
    static const char *const names[] = {[AG_OP_LAUNCH] = "unknown kernel",
                                        [AG_OP_MEMSET] = "memset",
                                        [AG_OP_COPY] = "copy",
                                        [AG_OP_RECORD] = "event record",
                                        [AG_OP_WAIT] = "event wait"};
    const char *kernel = signature->kind == AG_OP_LAUNCH ? ag_function_name(signature->func) : NULL;
    uint32_t name = ag_trace_string(kernel ? kernel : names[signature->kind]);
    ag_lock(&lock, AG_RANK_SIGNATURE_IDS);
    uint32_t id = atomic_load(&signature->trace_id);
    if (!id) {
        id = ++last;
        struct ag_dump_signature d = {.id = id,
                                      .kind = signature->kind,
                                      .name = name,
                                      .num_params = signature->layout.num_params,
                                      .arg_bytes = signature->layout.recorded_bytes,
                                      .elem_size = signature->elem_size,
                                      .num_attrs = signature->num_attrs,
                                      .width = width_of(signature),
                                      .height = signature->rows.height,
                                      .pitch = signature->rows.dst_pitch};
        memcpy(d.dims, signature->dims, sizeof(d.dims));
        ag_trace_define(AG_DUMP_SIGNATURE, &d, sizeof(d), NULL, 0);
        atomic_store(&signature->trace_id, id);
    }
    ag_unlock(&lock);
    return id;
}

static inline uint32_t signature_id(struct ag_signature *signature)
{
    uint32_t id = atomic_load_explicit(&signature->trace_id, memory_order_relaxed);
    return __builtin_expect(id != 0, 1) ? id : define_signature(signature);
}

/* ---- arguments -------------------------------------------------------------------------- */

/* Equal arguments give equal digests. Reads through the program's own pointers, so that nothing is
 * copied. */
static uint64_t digest(const struct ag_signature *signature, const struct ag_incoming *in)
{
    if (in->kind == AG_OP_MEMSET)
        return ag_digest_word(ag_digest_word(1, in->fill->dst), in->fill->value);
    if (in->kind == AG_OP_COPY)
        return ag_digest_word(ag_digest_word(1, in->copy->dst), in->copy->src);
    if (ag_signature_is_event(signature))
        return ag_digest_word(1, (uint64_t)(uintptr_t)in->event->event);
    const struct ag_layout *l = &signature->layout;
    if (in->launch->params && !in->launch->extra) {
        uint64_t hash = l->has_grid ? ag_digest(1, in->launch->dims, 3 * sizeof(int)) : 1;
        for (uint32_t i = 0; i < l->num_params; i++)
            hash = ag_digest(hash, in->launch->params[i], l->params[i].size);
        return hash;
    }
    uint8_t small[4096];
    if (!l->recorded_bytes || l->recorded_bytes > sizeof(small))
        return 1;
    ag_record_launch(small, l, in->launch);
    return ag_digest(1, small, l->recorded_bytes);
}

/* ---- events ----------------------------------------------------------------------------- */

static inline uint32_t stream_id(const struct ag_stream *s)
{
    return s ? (uint32_t)s->serial : 0;
}

/* The duration of something that ends at `now`. Time and duration come from the same clock
 * reading, so that nested events are also nested in the dump. */
static inline uint32_t short_ns(uint64_t began, uint64_t now)
{
    uint64_t ns = began ? now - began : 0;
    return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static inline void event_at(uint64_t now, enum ag_dump_kind kind, uint32_t what,
                            const struct ag_stream *s, uint32_t a, uint32_t b, uint64_t value)
{
    ag_trace_push(&(struct ag_dump_event){.time = now,
                                          .kind = (uint8_t)kind,
                                          .what = (uint8_t)what,
                                          .stream = stream_id(s),
                                          .a = a,
                                          .b = b,
                                          .value = value});
}

static inline void event(enum ag_dump_kind kind, uint32_t what, const struct ag_stream *s,
                         uint32_t a, uint32_t b, uint64_t value)
{
    event_at(ag_clock_ns(), kind, what, s, a, b, value);
}

void ag_trace_write_op(const struct ag_stream *s, struct ag_signature *signature,
                       const struct ag_incoming *in, uint32_t what)
{
    uint32_t why =
        what == AG_DONE_EAGER ? why_string(ag_policy_why_eager(ag_engine_policy(&s->engine))) : 0;
    event(AG_EVENT_OP, what, s, signature_id(signature), why, digest(signature, in));
    ag_trace_cause_now = AG_CAUSE_MISMATCH; /* this op flushes only if it did not match */
}

/* The dump must show every op, so that it can be replayed. The policy saw none of these. */
void ag_trace_write_passed(struct ag_stream *s, const struct ag_incoming *in, const char *why)
{
    if (why || !s) {
        event(AG_EVENT_OP, AG_DONE_IMMEDIATE, s, 0, ag_trace_string(why ? why : "no stream"),
              ag_trace_site());
        ag_trace_cause_now = AG_CAUSE_NOT_RECORDABLE;
        return;
    }
    const char *ignored;
    ag_lock(&s->lock, AG_RANK_STREAM);
    /* a closed stream keeps no signature: nobody would take it away in time */
    struct ag_signature *signature =
        ag_stream_is_live(s) ? ag_signature_of(&s->signatures, in, &ignored) : NULL;
    if (signature && ag_incoming_has_arguments(in, signature))
        event(AG_EVENT_OP, AG_DONE_PASSED, s, signature_id(signature), 0, digest(signature, in));
    ag_unlock(&s->lock);
}

void ag_trace_write_call(const struct ag_stream *s, uint64_t began, CUresult r)
{
    uint64_t now = ag_clock_ns();
    event_at(now, AG_EVENT_CALL, 0, s, 0, short_ns(began, now), (uint64_t)r);
}

void ag_trace_write_graph(const struct ag_stream *s, uint32_t graph, uint32_t variant,
                          uint64_t updates, uint64_t began, CUresult r)
{
    uint64_t now = ag_clock_ns();
    event_at(now, AG_EVENT_GRAPH, variant, s, graph, short_ns(began, now),
             (updates & UINT32_MAX) | (uint64_t)r << 32);
}

void ag_trace_taken(const struct ag_stream *s, uint32_t graph, uint32_t ops, uint64_t now,
                    uint64_t waited, enum ag_dump_taker taker)
{
    if (ag_trace_on())
        event_at(now, AG_EVENT_TAKEN, taker, s, graph, ops, waited);
}

void ag_trace_submitter(uint64_t ns)
{
    if (ag_trace_on())
        event(AG_EVENT_SUBMITTER, 0, NULL, 0, 0, ns);
}

void ag_trace_write_update(const struct ag_stream *s, uint32_t graph, uint32_t op)
{
    event(AG_EVENT_UPDATE, 0, s, graph, op, 0);
}

uint32_t ag_trace_chunk(const struct ag_stream *s, const struct ag_chunk *chunk)
{
    static _Atomic uint32_t last;
    struct ag_engine_content recorded = ag_engine_content(&s->engine);
    struct ag_sequence_facts sequence = ag_sequence_facts(ag_chunk_sequence(chunk));
    uint32_t *signatures =
        ag_trace_on() ? malloc((recorded.num_ops + 1) * sizeof(*signatures)) : NULL;
    if (!signatures)
        return 0;
    for (uint32_t i = 0; i < recorded.num_ops; i++)
        signatures[i] = signature_id((struct ag_signature *)(uintptr_t)recorded.ops[i].key);
    struct ag_dump_graph d = {.id = atomic_fetch_add(&last, 1) + 1,
                              .stream = stream_id(s),
                              .sequence = sequence.id,
                              .sequence_length = sequence.len,
                              .first = ag_chunk_first(chunk),
                              .count = recorded.num_ops};
    ag_trace_define(AG_DUMP_GRAPH, &d, sizeof(d), signatures,
                    recorded.num_ops * sizeof(*signatures));
    free(signatures);
    return d.id;
}

void ag_trace_build(uint32_t graph, uint32_t ops, uint32_t how, uint64_t ns)
{
    if (ag_trace_on())
        event(AG_EVENT_BUILD, how, NULL, graph, ops, ns);
}

void ag_trace_flush(const struct ag_stream *s, uint32_t n, uint64_t covered, uint64_t began)
{
    if (!ag_trace_on() || !n)
        return;
    uint64_t now = ag_clock_ns();
    event_at(now, AG_EVENT_FLUSH, 0, s, cause_string(ag_trace_cause_now), n,
             (covered & UINT32_MAX) | (uint64_t)short_ns(began, now) << 32);
}

void ag_trace_sync_point(const struct ag_stream *s, enum ag_sym sym)
{
    ag_count_sync_point(sym);
    if (!ag_trace_on())
        return;
    ag_trace_cause_now = sym;
    event(AG_EVENT_SYNC_POINT, 0, s, cause_string(sym), ag_trace_site(), 0);
}

void ag_trace_drop(uint32_t graph, uint64_t variants)
{
    if (ag_trace_on() && variants)
        event(AG_EVENT_DROP, 0, NULL, graph, (uint32_t)variants, 0);
}

void ag_trace_note(const char *text)
{
    if (ag_trace_on())
        event(AG_EVENT_NOTE, 0, NULL, ag_trace_string(text), 0, 0);
}

/* ---- the process ------------------------------------------------------------------------ */

/* `autograph doctor` looks for this line in the file. */
static const char version_line[] = "libautograph version " AG_VERSION ", " AG_COMMIT;

static void define_process(void)
{
    struct ag_lines l = {.used = 0};
    char host[256] = "", line[1024];
    int version = 0;
    struct ag_option_row row;
    gethostname(host, sizeof(host) - 1);
    ag_lines_add(&l, "pid", "%d", (int)getpid());
    ag_lines_add(&l, "host", "%s", host);
    ag_lines_add(&l, "rank", "%s", ag_rank() ? ag_rank() : "");
    ag_lines_add(&l, "program", "%s", program_invocation_name);
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;
    if (f)
        fclose(f);
    for (size_t i = 0; i + 1 < n; i++)
        line[i] = line[i] ? line[i] : ' ';
    line[n] = 0;
    ag_lines_add(&l, "command", "%s", line);
    ag_lines_add(&l, "library", "%s", version_line + strlen("libautograph version "));
    CUresult (*driver_version)(int *) = (CUresult(*)(int *))ag_real[AG_SYM_cuDriverGetVersion];
    if (driver_version && driver_version(&version) == CUDA_SUCCESS)
        ag_lines_add(&l, "driver", "%d", version);
    for (size_t i = 0; !ag_options_row(i, &row); i++)
        ag_lines_add(&l, row.variable, "%s", row.value);
    ag_trace_define(AG_DUMP_PROCESS, l.text, l.used, NULL, 0);
}

void ag_trace_stream(const struct ag_stream *s)
{
    if (!ag_trace_on())
        return;
    uint32_t flags =
        (s->legacy ? AG_DUMP_STREAM_LEGACY : 0u) | (s->blocking ? AG_DUMP_STREAM_BLOCKING : 0u);
    struct ag_dump_stream d = {.id = stream_id(s),
                               .flags = flags,
                               .priority = s->priority,
                               .handle = s->thread ? (uint64_t)(uintptr_t)CU_STREAM_PER_THREAD
                                                   : (uint64_t)(uintptr_t)s->handle,
                               .context = (uint64_t)(uintptr_t)s->context->handle};
    ag_trace_define(AG_DUMP_STREAM, &d, sizeof(d), NULL, 0);
}

static bool opened;

void ag_trace_start(void)
{
    if (!ag_options.trace || !ag_dump_open(ag_options.trace, (uint64_t)ag_options.trace_mb << 20))
        return;
    opened = true;
    ag_trace_sites_start();
    define_process();
    atomic_store(&ag_tracing, true);
}

bool ag_trace_stop(void)
{
    if (!opened)
        return false;
    atomic_store(&ag_tracing, false);
    ag_trace_drain();
    return true;
}

void ag_trace_after_fork(void)
{
    atomic_store(&ag_tracing, false);
    opened = false;
}
