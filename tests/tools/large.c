/*
 * large.c - writes a dump of about so many MiB, as a large program's would be: long mangled names,
 * thousands of signatures, ever new sequences, many streams and call sites, several threads whose
 * chunks alternate. large FILE MIB
 */
#include "capture/trace/trace_format.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    THREADS = 8,
    STREAMS = 64,
    SIGNATURES = 4000,
    SITES = 20000,
    IN_CHUNK = 2048, /* events of a thread, then another thread's */
    OPS = 16,        /* of a graph, and graphs of a sequence: */
    GRAPHS = 4,
    LAUNCHES = 30 /* of a sequence before the next one */
};

static FILE *out;

static void chunk(uint32_t type, const void *head, size_t head_size, const void *body, size_t size)
{
    static const char zeros[8];
    struct ag_dump_chunk c = {AG_DUMP_MARK, type, (uint32_t)(head_size + size), 0};
    uLong crc = crc32(0, (const unsigned char *)&c.type, 8);
    crc = crc32(crc, head, (uInt)head_size);
    c.crc = (uint32_t)(size ? crc32(crc, body, (uInt)size) : crc);
    fwrite(&c, sizeof(c), 1, out);
    fwrite(head, head_size, 1, out);
    if (size)
        fwrite(body, size, 1, out);
    fwrite(zeros, -(head_size + size) & 7, 1, out);
}

static uint32_t string(const char *text)
{
    static uint32_t last;
    struct ag_dump_string s = {++last, (uint32_t)strlen(text)};
    chunk(AG_DUMP_STRING, &s, sizeof(s), text, s.size);
    return s.id;
}

static uint32_t sync_name, object;

static void definitions(void)
{
    char name[512];
    chunk(AG_DUMP_PROCESS, "pid=1\0program=large\0command=large --all", 38, "", 1);
    sync_name = string("cuStreamSynchronize");
    object = string("/usr/lib/libtorch_cuda.so");
    for (uint32_t i = 1; i <= SIGNATURES; i++) {
        snprintf(name, sizeof(name),
                 "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_%uFunctor%uIfEESt5arrayIPcLm"
                 "3EEEEviT0_T1_",
                 i < 10     ? 8
                 : i < 100  ? 9
                 : i < 1000 ? 10
                            : 11,
                 i);
        struct ag_dump_signature s = {
            .id = i, .name = string(name), .dims = {i, 1, 1, 128, 1, 1, 0}, .num_params = 3};
        chunk(AG_DUMP_SIGNATURE, &s, sizeof(s), NULL, 0);
    }
    for (uint32_t i = 1; i <= STREAMS; i++) {
        struct ag_dump_stream s = {.id = i, .handle = i};
        chunk(AG_DUMP_STREAM, &s, sizeof(s), NULL, 0);
    }
    for (uint32_t i = 1; i <= SITES; i++) {
        struct ag_dump_site s = {i, 1};
        struct ag_dump_frame f = {object, 0, 16ull * i};
        chunk(AG_DUMP_SITE, &s, sizeof(s), &f, sizeof(f));
    }
}

/* What one thread does. */
struct thread {
    uint32_t stream, graphs, step, sequence;
    struct ag_dump_event events[IN_CHUNK + 64];
    uint32_t count;
    uint64_t time;
};

static uint32_t num_graphs;

static void define_sequence(struct thread *t)
{
    static uint32_t sequences;
    t->sequence = ++sequences;
    t->graphs = num_graphs + 1;
    for (uint32_t i = 0; i < GRAPHS; i++) {
        uint32_t signatures[OPS];
        struct ag_dump_graph g = {.id = ++num_graphs,
                                  .stream = t->stream,
                                  .sequence = t->sequence,
                                  .sequence_length = OPS * GRAPHS,
                                  .first = i * OPS,
                                  .count = OPS};
        for (uint32_t k = 0; k < OPS; k++)
            signatures[k] = (t->sequence * 7 + i * OPS + k) % SIGNATURES + 1;
        chunk(AG_DUMP_GRAPH, &g, sizeof(g), signatures, sizeof(signatures));
    }
}

static void event(struct thread *t, uint32_t kind, uint32_t what, uint32_t a, uint32_t b,
                  uint64_t value)
{
    t->time += 200;
    t->events[t->count++] = (struct ag_dump_event){.time = t->time,
                                                   .kind = (uint8_t)kind,
                                                   .what = (uint8_t)what,
                                                   .stream = t->stream,
                                                   .a = a,
                                                   .b = b,
                                                   .value = value};
}

static void step(struct thread *t)
{
    if (t->step++ % LAUNCHES == 0)
        define_sequence(t);
    for (uint32_t i = 0; i < GRAPHS; i++) {
        for (uint32_t k = 0; k < OPS; k++)
            event(t, AG_EVENT_OP, AG_DONE_DEFERRED,
                  (t->sequence * 7 + i * OPS + k) % SIGNATURES + 1, 0, k);
        event(t, AG_EVENT_GRAPH, 0, t->graphs + i, 2500, 1);
    }
    uint32_t stream = t->stream;
    t->stream = t->step % 8 ? stream : 0; /* now and then a call that ends all streams' sequences */
    event(t, AG_EVENT_SYNC_POINT, 0, sync_name, t->step % 4 ? 0 : t->step * 31 % SITES + 1, 0);
    t->stream = t->step % 100 ? stream : stream % STREAMS + 1;
}

int main(int argc, char **argv)
{
    static struct thread threads[THREADS];
    struct ag_dump_header header = {.magic = AG_DUMP_MAGIC,
                                    .version = AG_DUMP_VERSION,
                                    .header_size = sizeof(header),
                                    .pid = 1};
    if (argc != 3 || !(out = fopen(argv[1], "wb")))
        return 2;
    fwrite(&header, sizeof(header), 1, out);
    definitions();
    for (uint32_t i = 0; ftell(out) < atol(argv[2]) << 20; i++) {
        struct thread *t = &threads[i % THREADS];
        if (!t->stream)
            t->stream = i % THREADS * (STREAMS / THREADS) + 1;
        for (t->count = 0; t->count + OPS * GRAPHS + GRAPHS + 1 <= IN_CHUNK;)
            step(t);
        struct ag_dump_events head = {100 + i % THREADS, t->count};
        chunk(AG_DUMP_EVENTS, &head, sizeof(head), t->events, t->count * sizeof(t->events[0]));
    }
    chunk(AG_DUMP_END, "exit", 4, NULL, 0);
    return fclose(out) ? 1 : 0;
}
