/*
 * timeline_events.c - writes the Chrome trace events of a dump, for timeline.c.
 *
 * Names follow PyTorch's profiler: driver calls are of category cuda_driver and bear a
 * `correlation`; arrows are of category ac2g. An argument `stream` would say that the GPU did
 * something, which a dump does not know: Holistic Trace Analysis tells host from GPU by it, so host
 * calls say `on stream`. One arrow leads from each launch that was held back to the call that
 * submitted it. Host threads are threads of the process, also the submitter's, whose processor time
 * is a counter; process 0 has a line for each stream, with what was held back there. Dumps are
 * large, hence json_out.h.
 */
#include "tools/timeline.h"
#include "tools/handed.h"
#include "tools/json_out.h"
#include "tools/names.h"
#include <stdlib.h>
#include <string.h>

struct held {
    uint64_t time;
    uint32_t thread, correlation;
};

struct line {
    struct held *held;
    uint32_t count, room;
    uint64_t until; /* the last slice of what was held back ends here */
};

struct writer {
    const struct dump *d;
    FILE *out;
    struct line *streams;
    uint32_t *next;           /* by event: the next one of its thread */
    uint64_t start, from, to; /* ns; the latter two since the start */
    struct handed handed;
    uint64_t wait_ns; /* of what this event submits, if it `waited` */
    bool waited;
    uint64_t told, told_ns; /* when the submitter last said what processor time it took, and that */
    uint32_t correlation;
    bool any;
};

static uint64_t since_start(const struct writer *w, uint64_t time)
{
    return time > w->start ? time - w->start : 0;
}

static bool is_shown(const struct writer *w, uint64_t time)
{
    uint64_t at = since_start(w, time);
    return at >= w->from && at <= w->to;
}

static void begin(struct writer *w, char phase, const char *name, const char *category,
                  uint64_t pid, uint64_t tid, uint64_t time)
{
    json_raw(w->out, w->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
    putc_unlocked(phase, w->out);
    json_raw(w->out, "\"");
    json_add_text(w->out, "name", name);
    if (category)
        json_add_text(w->out, "cat", category);
    json_add_number(w->out, "pid", pid);
    json_add_number(w->out, "tid", tid);
    json_add_us(w->out, "ts", since_start(w, time));
    w->any = true;
}

/* A slice, whose arguments follow: json_add_number(), json_add_text(); then end_slice(). `first`
 * and its value are the first argument. */
static void begin_slice(struct writer *w, const char *name, const char *category, uint64_t pid,
                        uint64_t tid, uint64_t time, uint64_t ns, const char *first, uint64_t value)
{
    begin(w, 'X', name, category, pid, tid, time);
    json_add_us(w->out, "dur", ns);
    json_raw(w->out, ",\"args\":{\"");
    json_raw(w->out, first);
    json_raw(w->out, "\":");
    json_number(w->out, value);
}

static void end_slice(struct writer *w)
{
    json_raw(w->out, "}}");
}

static void name_of(struct writer *w, const char *what, uint64_t pid, uint64_t tid,
                    const char *name)
{
    begin(w, 'M', what, NULL, pid, tid, w->start);
    json_raw(w->out, ",\"args\":{\"name\":\"");
    json_escaped(w->out, name);
    json_raw(w->out, "\"}}");
}

static void arrow(struct writer *w, const struct held *from, uint32_t to_thread, uint64_t to)
{
    begin(w, 's', "ac2g", "ac2g", w->d->header.pid, from->thread, from->time);
    json_add_number(w->out, "id", from->correlation);
    json_raw(w->out, "}");
    begin(w, 'f', "ac2g", "ac2g", w->d->header.pid, to_thread, to);
    json_add_number(w->out, "id", from->correlation);
    json_raw(w->out, ",\"bp\":\"e\"}");
}

static void signature_args(struct writer *w, uint32_t id)
{
    const struct ag_dump_signature *s = dump_signature(w->d, id);
    char text[1024];
    names_of_signature(w->d, s, text, sizeof(text));
    json_add_text(w->out, "kernel", text);
    if (s->kind != AG_DUMP_KERNEL)
        return;
    for (int i = 0; i < 6; i++) {
        json_raw(w->out, i == 0 ? ",\"grid\":[" : i == 3 ? "],\"block\":[" : ",");
        json_number(w->out, s->dims[i]);
    }
    json_raw(w->out, "]");
    if (s->dims[6])
        json_add_number(w->out, "shared memory", s->dims[6]);
}

/* As the driver's function is called. */
static const char *call_name(const struct writer *w, uint32_t signature)
{
    const struct ag_dump_signature *s = dump_signature(w->d, signature);
    bool flat = s->height <= 1;
    switch (s->kind) {
    case AG_DUMP_MEMSET:
        return s->elem_size == 1   ? flat ? "cuMemsetD8Async" : "cuMemsetD2D8Async"
               : s->elem_size == 2 ? flat ? "cuMemsetD16Async" : "cuMemsetD2D16Async"
               : flat              ? "cuMemsetD32Async"
                                   : "cuMemsetD2D32Async";
    case AG_DUMP_COPY:
        return "cuMemcpyDtoDAsync";
    case AG_DUMP_RECORD:
        return "cuEventRecord";
    case AG_DUMP_WAIT:
        return "cuStreamWaitEvent";
    default:
        return "cuLaunchKernel";
    }
}

static void hold(struct writer *w, const struct dump_event *event)
{
    struct line *l = &w->streams[event->e.stream];
    if (l->count == l->room) {
        uint32_t room = l->room ? l->room * 2 : 64;
        struct held *more = realloc(l->held, room * sizeof(*more));
        if (!more)
            return;
        l->held = more;
        l->room = room;
    }
    l->held[l->count++] = (struct held){event->e.time, event->thread, w->correlation};
}

/* The call from `start` to `to` submitted the first `n` ops that the stream holds back. */
static void release(struct writer *w, uint32_t stream, uint32_t n, uint32_t thread, uint64_t start,
                    uint64_t to, const char *by)
{
    struct line *l = stream < w->d->num_streams ? &w->streams[stream] : NULL;
    if (!l || !l->count || !n)
        return;
    if (n > l->count)
        n = l->count;
    if (is_shown(w, to)) {
        for (uint32_t i = 0; i < n; i++)
            if (is_shown(w, l->held[i].time))
                arrow(w, &l->held[i], thread, start);
        uint64_t from = l->held[0].time > l->until ? l->held[0].time : l->until;
        begin_slice(w, "held back", "autograph", 0, stream, from, to > from ? to - from : 0,
                    "launches", n);
        json_add_text(w->out, "submitted by", by);
        end_slice(w);
    }
    l->until = to;
    memmove(l->held, l->held + n, (l->count - n) * sizeof(*l->held));
    l->count -= n;
}

/* When the work began whose end this event reports. */
static uint64_t began(const struct ag_dump_event *e)
{
    uint64_t ns = e->kind == AG_EVENT_GRAPH || e->kind == AG_EVENT_CALL ? e->b
                  : e->kind == AG_EVENT_FLUSH                           ? e->value >> 32
                  : e->kind == AG_EVENT_BUILD                           ? e->value
                                                                        : 0;
    return e->time > ns ? e->time - ns : 0;
}

enum {
    SEEN_NS = 100, /* so that a call held back can be seen, and an arrow hung on it */
    AHEAD = 32     /* events of the thread looked at */
};

/* How long the slice of the op at `i` is: to the end of its call where it was submitted at once.
 * The slices of a thread must not overlap, viewers drop those that do. */
static uint64_t op_ns(const struct writer *w, size_t i)
{
    const struct dump_event *event = &w->d->events[i];
    bool held = event->e.what == AG_DONE_DEFERRED;
    uint64_t time = event->e.time, ns = held ? SEEN_NS : 0;
    int looked = 0;
    for (uint32_t k = w->next[i]; k && looked < AHEAD; k = w->next[k]) {
        const struct ag_dump_event *e = &w->d->events[k].e;
        if (e->kind == AG_EVENT_UPDATE) /* many at once, before the launch of their graph */
            continue;
        looked++;
        if (held) {
            uint64_t until = began(e) > time ? began(e) - time : 0;
            ns = until < ns ? until : ns;
        } else if (e->kind == AG_EVENT_CALL) {
            return e->time - time;
        } else if (e->kind != AG_EVENT_BUILD) {
            return 0;
        }
    }
    return ns;
}

static void op(struct writer *w, size_t i)
{
    const struct dump_event *event = &w->d->events[i];
    const struct ag_dump_event *e = &event->e;
    bool immediate = e->what == AG_DONE_IMMEDIATE, held = e->what == AG_DONE_DEFERRED;
    w->correlation++;
    if (held && e->stream < w->d->num_streams)
        hold(w, event);
    if (!is_shown(w, e->time))
        return;
    begin_slice(w, immediate ? "cuLaunchKernel" : call_name(w, e->a), "cuda_driver",
                w->d->header.pid, event->thread, e->time, op_ns(w, i), "correlation",
                w->correlation);
    json_add_number(w->out, "on stream", e->stream);
    if (immediate)
        json_add_text(w->out, "not recorded", dump_string(w->d, e->b));
    else
        signature_args(w, e->a);
    end_slice(w);
}

static void graph(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    const struct dump_graph *g = dump_graph(w->d, e->a);
    w->correlation++;
    if (is_shown(w, e->time)) {
        begin_slice(w, "cuGraphLaunch", "cuda_driver", w->d->header.pid, event->thread, began(e),
                    e->b, "correlation", w->correlation);
        json_add_number(w->out, "on stream", e->stream);
        json_add_number(w->out, "graph", e->a);
        json_add_number(w->out, "launches", g->d.count);
        json_add_number(w->out, "variant", e->what);
        json_add_number(w->out, "updates", e->value & UINT32_MAX);
        json_add_number(w->out, "result", e->value >> 32);
        if (w->waited)
            json_add_us(w->out, "waited us", w->wait_ns);
        end_slice(w);
    }
    const char *by = "cuGraphLaunch";
    if (handed_is_own(&w->handed, event->thread))
        by = "cuGraphLaunch by the library's own thread";
    if (!(e->value >> 32))
        release(w, e->stream, g->d.count, event->thread, began(e), e->time, by);
}

static void flush(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    const char *why = dump_string(w->d, e->a);
    char name[256];
    uint32_t covered = (uint32_t)(e->value & UINT32_MAX);
    snprintf(name, sizeof(name), "flush: %.200s", why);
    if (is_shown(w, e->time)) {
        begin_slice(w, name, "autograph", w->d->header.pid, event->thread, began(e), e->value >> 32,
                    "launches", e->b);
        json_add_number(w->out, "on stream", e->stream);
        json_add_number(w->out, "by shorter graphs", covered);
        json_add_text(w->out, "reason", why);
        if (w->waited)
            json_add_us(w->out, "waited us", w->wait_ns);
        end_slice(w);
    }
    release(w, e->stream, e->b > covered ? e->b - covered : 0, event->thread, began(e), e->time,
            name);
}

static void sync_point(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    char place[512];
    w->correlation++;
    if (!is_shown(w, e->time))
        return;
    names_of_site(w->d, e->b, place, sizeof(place));
    begin_slice(w, dump_string(w->d, e->a), "cuda_driver", w->d->header.pid, event->thread, e->time,
                0, "correlation", w->correlation);
    json_add_number(w->out, "on stream", e->stream);
    if (*place)
        json_add_text(w->out, "made by", place);
    end_slice(w);
}

/* What the library does by itself. */
static void own_work(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    uint64_t pid = w->d->header.pid;
    if (!is_shown(w, e->time))
        return;
    if (e->kind == AG_EVENT_CALL) {
        begin_slice(w, "launch", "cuda_driver", pid, event->thread, began(e), e->b, "on stream",
                    e->stream);
        json_add_us(w->out, "waited us", w->waited ? w->wait_ns : 0);
    } else if (e->kind == AG_EVENT_BUILD) {
        begin_slice(w, e->what == AG_BUILT ? "build graph" : "build graph (failed)", "autograph",
                    pid, event->thread, began(e), e->value, "graph", e->a);
        json_add_number(w->out, "launches", e->b);
    } else if (e->kind == AG_EVENT_DROP) {
        begin_slice(w, "drop graph", "autograph", pid, event->thread, e->time, 0, "graph", e->a);
    } else {
        begin_slice(w, dump_string(w->d, e->a), "autograph", pid, event->thread, e->time, 0, "note",
                    1);
    }
    end_slice(w);
}

/* From `since` on the submitter took `ns` of processor time in `of`. */
static void counter(struct writer *w, uint64_t since, uint64_t ns, uint64_t of)
{
    if (!is_shown(w, since))
        return;
    begin(w, 'C', "processor time of autograph-submit", NULL, w->d->header.pid, 0, since);
    json_raw(w->out, ",\"args\":{\"percent\":");
    json_number(w->out, ns < of ? (uint64_t)(100.0 * (double)ns / (double)of + 0.5) : 100);
    json_raw(w->out, "}}");
}

static void submitter(struct writer *w, const struct ag_dump_event *e)
{
    if (w->told && e->time > w->told && e->value >= w->told_ns)
        counter(w, w->told, e->value - w->told_ns, e->time - w->told);
    w->told = e->time;
    w->told_ns = e->value;
}

static void one(struct writer *w, size_t i)
{
    const struct dump_event *event = &w->d->events[i];
    w->waited = handed_follow(&w->handed, event, &w->wait_ns);
    switch (event->e.kind) {
    case AG_EVENT_OP:
        op(w, i);
        break;
    case AG_EVENT_GRAPH:
        graph(w, event);
        break;
    case AG_EVENT_FLUSH:
        flush(w, event);
        break;
    case AG_EVENT_SYNC_POINT:
        sync_point(w, event);
        break;
    case AG_EVENT_CALL: /* that of a thread of the program's is in the slice of its op */
        if (handed_is_own(&w->handed, event->thread))
            own_work(w, event);
        break;
    case AG_EVENT_SUBMITTER:
        submitter(w, &event->e);
        break;
    case AG_EVENT_BUILD:
    case AG_EVENT_DROP:
    case AG_EVENT_NOTE:
        own_work(w, event);
        break;
    default:
        break;
    }
}

static void name_lines(struct writer *w)
{
    char text[128], took[64] = "";
    uint32_t seen[256], n = 0;
    if (w->handed.knows_submit_ns)
        snprintf(took, sizeof(took), ", %.1f ms of processor time",
                 (double)w->handed.submit_ns / 1e6);
    name_of(w, "process_name", w->d->header.pid, 0, dump_process(w->d, "program"));
    name_of(w, "process_name", 0, 0, "held back by libautograph");
    for (uint32_t i = 1; i < w->d->num_streams; i++) {
        if (!w->d->streams[i].id)
            continue;
        snprintf(text, sizeof(text), "stream %u", i);
        name_of(w, "thread_name", 0, i, text);
    }
    for (size_t i = 0; i < w->d->num_events && n < 256; i++) {
        uint32_t k = 0, thread = w->d->events[i].thread;
        if (i && w->d->events[i - 1].thread == thread)
            continue;
        while (k < n && seen[k] != thread)
            k++;
        if (k < n)
            continue;
        seen[n++] = thread;
        bool own = handed_is_own(&w->handed, thread);
        snprintf(text, sizeof(text), "%s %u%s",
                 own                                        ? "autograph-submit"
                 : w->d->events[i].e.kind == AG_EVENT_BUILD ? "autograph builder"
                                                            : "thread",
                 thread, own ? took : "");
        name_of(w, "thread_name", w->d->header.pid, thread, text);
    }
}

static void write_events(struct writer *w)
{
    json_raw(w->out, "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\"");
    json_add_text(w->out, "traceName", dump_process(w->d, "program"));
    json_add_number(w->out, "baseTimeNanoseconds", w->d->header.wall_ns);
    json_raw(w->out, ",\"traceEvents\":[");
    name_lines(w);
    for (size_t i = 0; i < w->d->num_events; i++)
        one(w, i);
    if (w->told) /* it sleeps, or has ended */
        counter(w, w->told, 0, 1);
    json_raw(w->out, "\n]}\n");
}

bool timeline_write(const struct dump *d, double from, double to, FILE *out)
{
    struct writer w = {.d = d,
                       .out = out,
                       .start = d->header.clock_ns,
                       .from = (uint64_t)(from * 1e9),
                       .to = (uint64_t)(to * 1e9)};
    w.streams = calloc(d->num_streams + 1, sizeof(*w.streams));
    w.next = dump_link_threads(d);
    bool good = handed_find(&w.handed, d) && w.streams && w.next;
    if (good)
        write_events(&w);
    else
        fputs("autograph: out of memory\n", stderr);
    for (uint32_t i = 0; w.streams && i < d->num_streams; i++)
        free(w.streams[i].held);
    free(w.streams);
    free(w.next);
    handed_free(&w.handed);
    return good;
}
