/*
 * timeline.c - `autograph timeline`: a dump as Chrome trace events, for Perfetto, chrome://tracing
 * and what reads the traces of PyTorch's profiler.
 *
 * Names follow that profiler: driver calls are of category cuda_driver and bear a `correlation` and
 * a `stream`; arrows are of category ac2g. One arrow leads from each launch that was held back to
 * the call that submitted it. Host threads are threads of the process; process 0 has a line for
 * each stream, with what was held back there.
 */
#include "tools/names.h"
#include "tools/tools.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct held {
    uint64_t time;
    uint32_t thread, correlation;
};

struct line {
    struct held *held;
    uint32_t count, room;
};

struct writer {
    const struct dump *d;
    FILE *out;
    struct line *streams;
    uint64_t start;
    uint32_t correlation;
    bool any;
};

/* ---- compressed output ------------------------------------------------------------------ */

static ssize_t gz_write(void *gz, const char *bytes, size_t n)
{
    return gzwrite(gz, bytes, (unsigned int)n);
}

static int gz_close(void *gz)
{
    return gzclose(gz) == Z_OK ? 0 : -1;
}

static FILE *compressed(const char *path)
{
    gzFile gz = gzopen(path, "wbe");
    if (!gz)
        return NULL;
    FILE *f = fopencookie(gz, "w", (cookie_io_functions_t){.write = gz_write, .close = gz_close});
    if (f)
        setvbuf(f, NULL, _IOFBF, 1 << 16);
    return f;
}

/* ---- events ----------------------------------------------------------------------------- */

static void put(struct writer *w, json_t *event)
{
    if (!event)
        return;
    fputs(w->any ? ",\n" : "\n", w->out);
    json_dumpf(event, w->out, JSON_COMPACT);
    json_decref(event);
    w->any = true;
}

static double us(const struct writer *w, uint64_t time)
{
    return time > w->start ? (double)(time - w->start) / 1e3 : 0;
}

static void slice(struct writer *w, const char *name, const char *category, uint64_t pid,
                  uint64_t tid, uint64_t begin, uint64_t ns, json_t *args)
{
    put(w, json_pack("{ss ss ss sI sI sf sf so}", "ph", "X", "name", name, "cat", category, "pid",
                     (json_int_t)pid, "tid", (json_int_t)tid, "ts", us(w, begin), "dur",
                     (double)ns / 1e3, "args", args ? args : json_object()));
}

static void name_of(struct writer *w, const char *what, uint64_t pid, uint64_t tid,
                    const char *name)
{
    put(w, json_pack("{ss ss sI sI s{ss}}", "ph", "M", "name", what, "pid", (json_int_t)pid, "tid",
                     (json_int_t)tid, "args", "name", name));
}

static void arrow(struct writer *w, const struct held *from, uint32_t to_thread, uint64_t to)
{
    json_int_t pid = w->d->header.pid;
    put(w, json_pack("{ss ss ss si sI si sf}", "ph", "s", "name", "ac2g", "cat", "ac2g", "id",
                     from->correlation, "pid", pid, "tid", from->thread, "ts", us(w, from->time)));
    put(w, json_pack("{ss ss ss si sI si sf ss}", "ph", "f", "name", "ac2g", "cat", "ac2g", "id",
                     from->correlation, "pid", pid, "tid", to_thread, "ts", us(w, to), "bp", "e"));
}

static json_t *shape_args(const struct writer *w, const struct ag_dump_event *e)
{
    const struct ag_dump_shape *s = dump_shape(w->d, e->a);
    char text[1024];
    names_of_shape(w->d, s, text, sizeof(text));
    json_t *args =
        json_pack("{si si ss}", "stream", e->stream, "correlation", w->correlation, "kernel", text);
    if (s->kind == AG_DUMP_KERNEL) {
        json_object_set_new(args, "grid", json_pack("[i,i,i]", s->dims[0], s->dims[1], s->dims[2]));
        json_object_set_new(args, "block",
                            json_pack("[i,i,i]", s->dims[3], s->dims[4], s->dims[5]));
        json_object_set_new(args, "shared memory", json_integer(s->dims[6]));
    }
    return args;
}

static const char *call_name(const struct writer *w, uint32_t shape)
{
    switch (dump_shape(w->d, shape)->kind) {
    case AG_DUMP_MEMSET:
        return "cuMemsetAsync";
    case AG_DUMP_COPY:
        return "cuMemcpyAsync";
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

/* The call that ends at `to` submitted the first `n` ops that the stream holds back. */
static void release(struct writer *w, uint32_t stream, uint32_t n, uint32_t thread, uint64_t began,
                    uint64_t to, const char *by)
{
    struct line *l = stream < w->d->num_streams ? &w->streams[stream] : NULL;
    if (!l || !l->count || !n)
        return;
    if (n > l->count)
        n = l->count;
    for (uint32_t i = 0; i < n; i++)
        arrow(w, &l->held[i], thread, began);
    slice(w, "held back", "autograph", 0, stream, l->held[0].time,
          to > l->held[0].time ? to - l->held[0].time : 0,
          json_pack("{si ss}", "launches", n, "submitted by", by));
    memmove(l->held, l->held + n, (l->count - n) * sizeof(*l->held));
    l->count -= n;
}

/* Host time of the eager call of the op at `i`: the next event of its thread says it. */
static uint64_t call_ns(const struct dump *d, size_t i)
{
    for (size_t k = i + 1; k < d->num_events && k < i + 64; k++)
        if (d->events[k].thread == d->events[i].thread)
            return d->events[k].e.kind == AG_EVENT_CALL ? d->events[k].e.b : 0;
    return 0;
}

static void op(struct writer *w, size_t i)
{
    const struct dump_event *event = &w->d->events[i];
    const struct ag_dump_event *e = &event->e;
    uint64_t ns = call_ns(w->d, i), pid = w->d->header.pid;
    w->correlation++;
    if (e->what == AG_DONE_IMMEDIATE) {
        slice(w, "cuLaunchKernel", "cuda_driver", pid, event->thread, e->time, ns,
              json_pack("{si si ss}", "stream", e->stream, "correlation", w->correlation,
                        "not recorded", dump_string(w->d, e->b)));
        return;
    }
    if (e->what == AG_DONE_DEFERRED && e->stream < w->d->num_streams) {
        hold(w, event);
        ns = 100; /* only so that there is something to see and to hang an arrow on */
    }
    slice(w, call_name(w, e->a), "cuda_driver", pid, event->thread, e->time, ns, shape_args(w, e));
}

static void graph(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    const struct dump_graph *g = dump_graph(w->d, e->a);
    uint64_t began = e->time > e->b ? e->time - e->b : 0;
    w->correlation++;
    slice(w, "cuGraphLaunch", "cuda_driver", w->d->header.pid, event->thread, began, e->b,
          json_pack("{si si si si si si si}", "stream", e->stream, "correlation", w->correlation,
                    "graph", e->a, "launches", g->d.count, "variant", e->what, "updates",
                    (int)(e->value & UINT32_MAX), "result", (int)(e->value >> 32)));
    if (!(e->value >> 32))
        release(w, e->stream, g->d.count, event->thread, began, e->time, "cuGraphLaunch");
}

static void flush(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    uint64_t ns = e->value >> 32, began = e->time > ns ? e->time - ns : 0;
    const char *why = dump_string(w->d, e->a);
    char name[256];
    uint32_t covered = (uint32_t)(e->value & UINT32_MAX);
    snprintf(name, sizeof(name), "flush: %.200s", why);
    slice(w, name, "autograph", w->d->header.pid, event->thread, began, ns,
          json_pack("{si si si ss}", "stream", e->stream, "launches", e->b, "by shorter graphs",
                    covered, "reason", why));
    release(w, e->stream, e->b > covered ? e->b - covered : 0, event->thread, began, e->time, name);
}

static void boundary(struct writer *w, const struct dump_event *event)
{
    const struct ag_dump_event *e = &event->e;
    char place[512];
    names_of_site(w->d, e->b, place, sizeof(place));
    json_t *args = json_pack("{si si}", "stream", e->stream, "correlation", ++w->correlation);
    if (*place)
        json_object_set_new(args, "made by", json_string(place));
    slice(w, dump_string(w->d, e->a), "cuda_driver", w->d->header.pid, event->thread, e->time, 0,
          args);
}

static void one(struct writer *w, size_t i)
{
    const struct dump_event *event = &w->d->events[i];
    const struct ag_dump_event *e = &event->e;
    uint64_t pid = w->d->header.pid;
    switch (e->kind) {
    case AG_EVENT_OP:
        op(w, i);
        break;
    case AG_EVENT_GRAPH:
        graph(w, event);
        break;
    case AG_EVENT_FLUSH:
        flush(w, event);
        break;
    case AG_EVENT_BOUNDARY:
        boundary(w, event);
        break;
    case AG_EVENT_BUILD:
        slice(w, e->what == AG_BUILT ? "build graph" : "build graph (failed)", "autograph", pid,
              event->thread, e->time > e->value ? e->time - e->value : 0, e->value,
              json_pack("{si si}", "graph", e->a, "launches", e->b));
        break;
    case AG_EVENT_DROP:
        slice(w, "drop graph", "autograph", pid, event->thread, e->time, 0,
              json_pack("{si}", "graph", e->a));
        break;
    case AG_EVENT_NOTE:
        slice(w, dump_string(w->d, e->a), "autograph", pid, event->thread, e->time, 0, NULL);
        break;
    default:
        break;
    }
}

static void name_lines(struct writer *w)
{
    char text[128];
    uint32_t seen[256], n = 0;
    name_of(w, "process_name", w->d->header.pid, 0, dump_process(w->d, "program"));
    name_of(w, "process_name", 0, 0, "held back by libautograph");
    for (uint32_t i = 1; i < w->d->num_streams; i++) {
        snprintf(text, sizeof(text), "stream %u", i);
        name_of(w, "thread_name", 0, i, text);
    }
    for (size_t i = 0; i < w->d->num_events && n < 256; i++) {
        uint32_t k = 0, thread = w->d->events[i].thread;
        while (k < n && seen[k] != thread)
            k++;
        if (k < n)
            continue;
        seen[n++] = thread;
        snprintf(text, sizeof(text), "%s %u",
                 w->d->events[i].e.kind == AG_EVENT_BUILD ? "autograph builder" : "thread", thread);
        name_of(w, "thread_name", w->d->header.pid, thread, text);
    }
}

static bool write_timeline(const struct dump *d, FILE *out)
{
    struct writer w = {.d = d, .out = out, .start = d->header.clock_ns};
    w.streams = calloc(d->num_streams + 1, sizeof(*w.streams));
    if (!w.streams)
        return false;
    json_t *program = json_string(dump_process(d, "program"));
    fputs("{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"traceName\":", out);
    json_dumpf(program, out, JSON_ENCODE_ANY);
    fprintf(out, ",\"baseTimeNanoseconds\":%llu,\"traceEvents\":[",
            (unsigned long long)d->header.wall_ns);
    json_decref(program);
    name_lines(&w);
    for (size_t i = 0; i < d->num_events; i++)
        one(&w, i);
    fputs("\n]}\n", out);
    for (uint32_t i = 0; i < d->num_streams; i++)
        free(w.streams[i].held);
    free(w.streams);
    return true;
}

/* ---- the verb --------------------------------------------------------------------------- */

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    NULL,
    parse,
    "DUMP -o trace.json",
    "A dump as Chrome trace events: open the file in https://ui.perfetto.dev "
    "or chrome://tracing. A name that ends in .gz is compressed.",
    children,
    NULL,
    NULL};

int verb_timeline(int argc, char **argv)
{
    struct common c = {.min_dumps = 1, .max_dumps = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &c);
    struct dump *d = dump_load(c.dumps[0]);
    if (!d)
        return 1;
    dump_complain(d);
    size_t n = c.output ? strlen(c.output) : 0;
    bool gz = n > 3 && !strcmp(c.output + n - 3, ".gz");
    FILE *out = gz ? compressed(c.output) : common_open(&c);
    if (gz && !out)
        fprintf(stderr, "autograph: cannot write %s\n", c.output);
    bool good = out && write_timeline(d, out);
    if (out && !common_close(&c, out))
        good = false;
    dump_free(d);
    return good ? 0 : 1;
}
