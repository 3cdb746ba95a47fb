/*
 * trace.c - what the events of the dump mean: ops, graphs, flushes, boundaries, and the names that
 * they use.
 */
#include "ag_version.h"
#include "capture/trace.h"
#include "capture/capture.h"
#include "capture/log.h"
#include "capture/options.h"
#include "capture/shortfall.h"
#include "capture/state.h"
#include "capture/stats.h"
#include "capture/trace_file.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* uthash would end the program where there is no memory; now `hh.tbl` is NULL after adding */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

__thread uint32_t ag_trace_cause_now __attribute__((tls_model("initial-exec")));

/* ---- texts ------------------------------------------------------------------------------ */

struct text {
    uint32_t id;
    UT_hash_handle hh;
    char bytes[];
};
static struct text *texts;
static uint32_t num_texts;
static struct ag_lock texts_lock;

uint32_t ag_trace_string(const char *bytes)
{
    size_t n = strlen(bytes);
    struct text *t;
    ag_lock(&texts_lock);
    HASH_FIND(hh, texts, bytes, n, t);
    if (!t && (t = malloc(sizeof(*t) + n + 1))) {
        memcpy(t->bytes, bytes, n + 1);
        t->id = num_texts + 1;
        HASH_ADD_KEYPTR(hh, texts, t->bytes, n, t);
        if (t->hh.tbl) {
            struct ag_dump_string head = {t->id, (uint32_t)n};
            ag_trace_define(AG_DUMP_STRING, &head, sizeof(head), bytes, n);
            num_texts++;
        } else {
            free(t);
            t = NULL;
        }
    }
    ag_unlock(&texts_lock);
    return t ? t->id : 0;
}

static const char *cause_text(uint32_t cause)
{
    switch (cause) {
    case AG_SYM_COUNT:
    case AG_CAUSE_END:
        return "end";
    case AG_CAUSE_MISMATCH:
        return "mismatch";
    case AG_CAUSE_WATCHDOG:
        return "watchdog";
    case AG_CAUSE_ORDER:
        return "order of the legacy default stream";
    case AG_CAUSE_NOT_RECORDABLE:
        return "op that cannot be recorded";
    case AG_CAUSE_GRAPH_FAILED:
        return "graph that could not be launched";
    default:
        return ag_sym_name((enum ag_sym)cause);
    }
}

static uint32_t cause_string(uint32_t cause)
{
    static _Atomic uint32_t ids[AG_NUM_CAUSES];
    if (cause >= AG_NUM_CAUSES)
        cause = AG_SYM_COUNT;
    uint32_t id = atomic_load_explicit(&ids[cause], memory_order_relaxed);
    if (__builtin_expect(!id, 0)) {
        id = ag_trace_string(cause_text(cause));
        atomic_store_explicit(&ids[cause], id, memory_order_relaxed);
    }
    return id;
}

/* Why an op that a graph could hold was submitted at once. */
static uint32_t why_string(enum ag_why why)
{
    static const char *const names[AG_NUM_WHYS] = {
        [AG_WHY_UNKNOWN] = "not known to repeat, or not yet",
        [AG_WHY_SELDOM] = "its sequence was seen too seldom for a graph",
        [AG_WHY_BUILDING] = "its graph is being built",
        [AG_WHY_BUILD_FAILED] = "its graph could not be built",
        [AG_WHY_SLOWER] = "its sequence is faster without graphs",
        [AG_WHY_TRIAL] = "its sequence is tried without graphs, to compare",
        [AG_WHY_RESTS] = "held back in vain too often of late",
        [AG_WHY_MEASURED] = "the program measures how long it takes",
        [AG_WHY_REST_OF_CHUNK] = "the rest of a graph that was left half way",
    };
    static _Atomic uint32_t ids[AG_NUM_WHYS];
    uint32_t id = atomic_load_explicit(&ids[why], memory_order_relaxed);
    if (__builtin_expect(!id, 0)) {
        id = ag_trace_string(names[why]);
        atomic_store_explicit(&ids[why], id, memory_order_relaxed);
    }
    return id;
}

/* ---- shapes ----------------------------------------------------------------------------- */

static const char *kernel_name(const struct ag_shape *shape)
{
    const char *name = NULL;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    if (shape->function->is_kernel && AG_HAVE(cuKernelGetName))
        r = AG_REAL(cuKernelGetName)(&name, (CUkernel)shape->func);
    else if (!shape->function->is_kernel && AG_HAVE(cuFuncGetName))
        r = AG_REAL(cuFuncGetName)(&name, shape->func);
    return r == CUDA_SUCCESS && name ? name : "unknown kernel";
}

_Static_assert((int)AG_OP_LAUNCH == AG_DUMP_KERNEL && (int)AG_OP_MEMSET == AG_DUMP_MEMSET &&
                   (int)AG_OP_COPY == AG_DUMP_COPY,
               "the dump's kinds of ops are capture's");

static uint32_t define_shape(struct ag_shape *shape)
{
    static struct ag_lock lock;
    static uint32_t last;
    uint32_t name = shape->kind == AG_OP_LAUNCH   ? ag_trace_string(kernel_name(shape))
                    : shape->kind == AG_OP_MEMSET ? ag_trace_string("memset")
                                                  : ag_trace_string("copy");
    ag_lock(&lock);
    uint32_t id = atomic_load(&shape->trace_id);
    if (!id) {
        id = ++last;
        struct ag_dump_shape d = {.id = id,
                                  .kind = shape->kind,
                                  .name = name,
                                  .num_params = shape->function ? shape->function->num_params : 0,
                                  .arg_bytes = shape->staged_bytes,
                                  .elem_size = shape->elem_size,
                                  .num_attrs = shape->num_attrs,
                                  .width = shape->width,
                                  .height = shape->height,
                                  .pitch = shape->pitch};
        memcpy(d.dims, shape->dims, sizeof(d.dims));
        ag_trace_define(AG_DUMP_SHAPE, &d, sizeof(d), NULL, 0);
        atomic_store(&shape->trace_id, id);
    }
    ag_unlock(&lock);
    return id;
}

static inline uint32_t shape_id(struct ag_shape *shape)
{
    uint32_t id = atomic_load_explicit(&shape->trace_id, memory_order_relaxed);
    return __builtin_expect(id != 0, 1) ? id : define_shape(shape);
}

/* ---- arguments -------------------------------------------------------------------------- */

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 29);
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *at = data;
    uint64_t word = 0;
    for (; n >= 8; n -= 8, at += 8) {
        memcpy(&word, at, 8);
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, at, n);
    return n ? mix(hash, word) : hash;
}

/* Equal arguments, equal digest; from the program's own pointers, so that nothing is copied. */
static uint64_t digest(const struct ag_shape *shape, const struct ag_incoming *in)
{
    if (in->kind == AG_OP_MEMSET)
        return mix(mix(1, in->fill->dst), in->fill->value);
    if (in->kind == AG_OP_COPY)
        return mix(mix(1, in->copy->dst), in->copy->src);
    const struct ag_function *f = shape->function;
    if (in->launch->params && !in->launch->extra) {
        uint64_t hash = 1;
        for (uint32_t i = 0; i < f->num_params; i++)
            hash = mix_bytes(hash, in->launch->params[i], f->params[i].size);
        return hash;
    }
    uint8_t small[4096];
    if (!f->num_params || shape->staged_bytes > sizeof(small))
        return 1;
    ag_stage_launch(small, shape, in->launch);
    return mix_bytes(1, small, shape->staged_bytes);
}

/* ---- events ----------------------------------------------------------------------------- */

static inline uint32_t stream_id(const struct ag_stream *s)
{
    return s ? (uint32_t)s->serial : 0;
}

/* Of something that ends `now`: time and duration are of one reading of the clock, so that what was
 * within something else is so in the dump. */
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

void ag_trace_write_op(const struct ag_stream *s, struct ag_shape *shape,
                       const struct ag_incoming *in, uint32_t what)
{
    uint32_t why = what == AG_DONE_EAGER ? why_string(ag_policy_why_eager(&s->policy)) : 0;
    event(AG_EVENT_OP, what, s, shape_id(shape), why, digest(shape, in));
    ag_trace_cause_now = AG_CAUSE_MISMATCH; /* what this op flushes, it did not fit to */
}

/* The dump is to show every op, so that it can be replayed; the policy saw none of these. */
void ag_trace_write_passed(struct ag_stream *s, const struct ag_incoming *in, const char *why)
{
    if (why || !s) {
        event(AG_EVENT_OP, AG_DONE_IMMEDIATE, s, 0, ag_trace_string(why ? why : "no stream"),
              ag_trace_site());
        ag_trace_cause_now = AG_CAUSE_NOT_RECORDABLE;
        return;
    }
    const char *ignored;
    ag_lock(&s->lock);
    struct ag_shape *shape = in->kind == AG_OP_LAUNCH
                                 ? ag_shape_of_launch(&s->shapes, in->launch, &ignored)
                             : in->kind == AG_OP_MEMSET ? ag_shape_of_memset(&s->shapes, in->fill)
                                                        : ag_shape_of_copy(&s->shapes, in->copy);
    if (shape && in->kind == AG_OP_LAUNCH && !ag_launch_has_arguments(in->launch, shape->function))
        shape = NULL;
    if (shape)
        event(AG_EVENT_OP, AG_DONE_PASSED, s, shape_id(shape), 0, digest(shape, in));
    ag_unlock(&s->lock);
}

void ag_trace_write_call(const struct ag_stream *s, const struct ag_incoming *in, uint64_t began,
                         CUresult r)
{
    (void)in;
    uint64_t now = ag_clock_ns();
    event_at(now, AG_EVENT_CALL, 0, s, 0, short_ns(began, now), (uint64_t)r);
}

void ag_trace_write_graph(const struct ag_stream *s, const struct ag_graphs *g, uint32_t variant,
                          uint64_t updates, uint64_t began, CUresult r)
{
    uint64_t now = ag_clock_ns();
    event_at(now, AG_EVENT_GRAPH, variant, s, g->trace_id, short_ns(began, now),
             (updates & UINT32_MAX) | (uint64_t)r << 32);
}

void ag_trace_write_update(const struct ag_stream *s, const struct ag_graphs *g, uint32_t op)
{
    event(AG_EVENT_UPDATE, 0, s, g->trace_id, op, 0);
}

void ag_trace_write_chunk(const struct ag_stream *s, struct ag_graphs *g,
                          const struct ag_chunk *chunk)
{
    static _Atomic uint32_t last;
    uint32_t *shapes = malloc((g->count + 1) * sizeof(*shapes));
    if (!shapes)
        return;
    for (uint32_t i = 0; i < g->count; i++)
        shapes[i] = shape_id((struct ag_shape *)(uintptr_t)g->ops[i].shape);
    struct ag_dump_graph d = {.id = atomic_fetch_add(&last, 1) + 1,
                              .stream = stream_id(s),
                              .sequence = chunk->block->id,
                              .sequence_length = chunk->block->len,
                              .first = chunk->first,
                              .count = g->count};
    ag_trace_define(AG_DUMP_GRAPH, &d, sizeof(d), shapes, g->count * sizeof(*shapes));
    g->trace_id = d.id;
    free(shapes);
}

void ag_trace_write_build(const struct ag_graphs *g, uint32_t how, uint64_t ns)
{
    event(AG_EVENT_BUILD, how, NULL, g->trace_id, g->count, ns);
}

void ag_trace_write_flush(const struct ag_stream *s, uint32_t n, uint64_t covered, uint64_t began)
{
    uint64_t now = ag_clock_ns();
    event_at(now, AG_EVENT_FLUSH, 0, s, cause_string(ag_trace_cause_now), n,
             (covered & UINT32_MAX) | (uint64_t)short_ns(began, now) << 32);
}

void ag_trace_write_boundary(const struct ag_stream *s, enum ag_sym sym)
{
    ag_trace_cause_now = sym;
    event(AG_EVENT_BOUNDARY, 0, s, cause_string(sym), ag_trace_site(), 0);
}

void ag_trace_write_drop(const struct ag_graphs *g, uint64_t variants)
{
    event(AG_EVENT_DROP, 0, NULL, g->trace_id, (uint32_t)variants, 0);
}

void ag_trace_write_note(const char *text)
{
    event(AG_EVENT_NOTE, 0, NULL, ag_trace_string(text), 0, 0);
}

/* ---- the process ------------------------------------------------------------------------ */

struct lines {
    char text[8192];
    size_t used;
};

static void add_line(struct lines *l, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_line(struct lines *l, const char *name, const char *format, ...)
{
    char line[1200];
    va_list args;
    int n = snprintf(line, sizeof(line), "%s=", name);
    va_start(args, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    size_t size = (n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) + 1;
    if (l->used + size > sizeof(l->text))
        return;
    memcpy(l->text + l->used, line, size);
    l->used += size;
}

/* `autograph doctor` finds it in the file. */
static const char version_line[] = "libautograph version " AG_VERSION ", " AG_COMMIT;

static void define_process(void)
{
    struct lines l = {.used = 0};
    char host[256] = "", line[1024];
    int version = 0;
    struct ag_option_row row;
    gethostname(host, sizeof(host) - 1);
    add_line(&l, "pid", "%d", (int)getpid());
    add_line(&l, "host", "%s", host);
    add_line(&l, "rank", "%s", ag_rank() ? ag_rank() : "");
    add_line(&l, "program", "%s", program_invocation_name);
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;
    if (f)
        fclose(f);
    for (size_t i = 0; i + 1 < n; i++)
        line[i] = line[i] ? line[i] : ' ';
    line[n] = 0;
    add_line(&l, "command", "%s", line);
    add_line(&l, "library", "%s", version_line + strlen("libautograph version "));
    CUresult (*driver_version)(int *) = (CUresult(*)(int *))ag_real[AG_SYM_cuDriverGetVersion];
    if (driver_version && driver_version(&version) == CUDA_SUCCESS)
        add_line(&l, "driver", "%d", version);
    for (size_t i = 0; !ag_options_row(i, &row); i++)
        add_line(&l, row.variable, "%s", row.value);
    ag_trace_define(AG_DUMP_PROCESS, l.text, l.used, NULL, 0);
}

void ag_trace_write_stream(const struct ag_stream *s)
{
    uint32_t flags =
        (s->legacy ? AG_DUMP_STREAM_LEGACY : 0u) | (s->blocking ? AG_DUMP_STREAM_BLOCKING : 0u);
    struct ag_dump_stream d = {.id = stream_id(s),
                               .flags = flags,
                               .priority = s->priority,
                               .handle = (uint64_t)(uintptr_t)s->handle,
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

/* The figures of the report, under names that do not change. */
static void define_counters(void)
{
    struct lines l = {.used = 0};
    struct ag_totals t;
    ag_stats_collect(&t);
#define TOTAL(name) add_line(&l, #name, "%llu", (unsigned long long)t.name);
    TOTAL(ops)
    TOTAL(replayed)
    TOTAL(covered)
    TOTAL(flushed)
    TOTAL(eager)
    TOTAL(dormant)
    TOTAL(updates)
    TOTAL(graph_launches)
    TOTAL(mismatches)
    TOTAL(switches)
    TOTAL(resyncs)
    TOTAL(periods)
    TOTAL(blocks)
    TOTAL(evicted)
#undef TOTAL
    add_line(&l, "memory", "%llu", (unsigned long long)ag_budget_used());
#define AG_COUNTER(name, text)                                                                     \
    add_line(&l, #name, "%llu", (unsigned long long)atomic_load(&ag_counts[AG_COUNT_##name]));
#include "capture/stats.def"
#undef AG_COUNTER
    struct ag_shortfall f;
    ag_shortfall_find(&t, &f);
    if (f.why) {
        add_line(&l, "why not more", "%s", f.why);
        add_line(&l, "what to do", "%s", f.advice);
    }
    ag_dump_write(AG_DUMP_COUNTERS, l.text, l.used, NULL, 0, true);
}

void ag_trace_stop(void)
{
    char process[128];
    if (!opened)
        return;
    atomic_store(&ag_tracing, false);
    ag_trace_drain();
    define_counters();
    const char *why = ag_dump_is_full() ? "full" : "exit";
    ag_dump_write(AG_DUMP_END, why, strlen(why), NULL, 0, true);
    if (ag_options.stats)
        ag_say("%s: dump: %s (%.1f MiB); look at it with: autograph report %s",
               ag_process_name(process, sizeof(process)), ag_dump_path(),
               (double)ag_dump_size() / 1048576.0, ag_dump_path());
    ag_dump_close();
}

void ag_trace_after_fork(void)
{
    atomic_store(&ag_tracing, false);
    opened = false;
}
