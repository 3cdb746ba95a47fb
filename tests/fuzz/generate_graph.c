/* generate_graph.c - the program's own captures and graphs. */
#include "tests/fuzz/generate.h"
#include <string.h>

/* A graph that waits for an event (+ 1) first and records one last; 0: none. */
bool fz_graph_of_events(struct fz_gen *g, int graph, int buf, int waits, int records)
{
    struct fz_op op = {.kind = FZ_build,
                       .thread = (uint8_t)g->thread,
                       .a = {graph, fz_pick_module(g), between(g, 1, 3), buf, 5, waits, records}};
    fz_simple(g, FZ_ungraph, graph, 0, 0);
    return fz_emit(g, &op) && fz_simple(g, FZ_inst, graph, 0, 0);
}

void fz_launch_graph(struct fz_gen *g, int graph, int stream)
{
    struct fz_op op = {.kind = FZ_glaunch, .thread = (uint8_t)g->thread, .a = {graph, stream}};
    fz_emit(g, &op);
}

/* A graph that is captured, and records the event behind a launch. */
bool fz_captured_record(struct fz_gen *g, int graph, int stream, int event)
{
    fz_simple(g, FZ_ungraph, graph, 0, 0);
    unsigned int toucher = g->m.graph[graph].toucher;
    if (g->m.graph[graph].live || (toucher && toucher != g->thread + 1) ||
        !fz_simple(g, FZ_begin, stream, 2, 0))
        return false;
    fz_writes(g, stream, fz_pick_buf(g));
    bool records = fz_simple(g, FZ_record, event, stream, 2);
    return fz_simple(g, FZ_end, stream, graph, 0) && fz_simple(g, FZ_inst, graph, 0, 0) && records;
}

/* The program's own capture: some ops on one stream, perhaps others beside it, and the graph in use
 * from then on. */
void fz_own_graph(struct fz_gen *g, int graph)
{
    struct fz_op op;
    int stream = fz_pick_stream(g), launches = between(g, 1, 6);
    if (g->m.graph[graph].live)
        fz_simple(g, FZ_ungraph, graph, 0, 0);
    if (chance(g, 60)) {
        if (!fz_simple(g, FZ_begin, stream, below(g, 3), 0))
            return;
        int second = fz_pick_second(g, stream);
        bool forks = chance(g, 40) && fz_simple(g, FZ_fork, stream, second, 0);
        for (int i = between(g, 1, forks ? 12 : 6); i > 0; i--) {
            int other = forks ? second : fz_pick_stream(g);
            if (chance(g, 8))
                fz_simple(g, FZ_record, fz_pick_event(g), stream, 2);
            if (chance(g, 8))
                fz_simple(g, FZ_wait, stream, fz_pick_event(g), 2);
            fz_make_op(g, &op, chance(g, forks ? 50 : 80) ? stream : other);
            fz_emit(g, &op);
        }
        if (forks)
            fz_simple(g, FZ_merge, stream, second, 0);
        fz_simple(g, FZ_end, stream, graph, 0);
    } else {
        op = (struct fz_op){.kind = FZ_build,
                            .thread = (uint8_t)g->thread,
                            .a = {graph, fz_pick_module(g), between(g, 1, 6), fz_pick_buf(g), 5,
                                  chance(g, 30) ? fz_pick_event(g) + 1 : 0,
                                  chance(g, 30) ? fz_pick_event(g) + 1 : 0}};
        fz_emit(g, &op);
    }
    if (!fz_simple(g, FZ_inst, graph, 0, 0))
        return;
    for (int i = 0; i < launches; i++) {
        struct fz_op launch = {
            .kind = FZ_glaunch, .thread = (uint8_t)g->thread, .a = {graph, fz_pick_stream(g)}};
        fz_make_op(g, &op, launch.a[1]);
        fz_emit(g, &op);
        fz_emit(g, &launch);
        if (chance(g, 40)) {
            op = (struct fz_op){.kind = FZ_gupdate,
                                .thread = (uint8_t)g->thread,
                                .a = {graph, fz_pick_module(g), 0, below(g, 100), below(g, 2)}};
            fz_emit(g, &op);
        }
    }
}

/* The same ops again and again, partly inside a capture of the program's own. Either from the
 * start, or once they are known well, from their first: what would then be deferred is in the
 * capture. */
void fz_repeated_capture(struct fz_gen *g, int graph)
{
    struct fz_op body[8];
    int stream = fz_pick_stream(g), length = between(g, 2, 8);
    int begin = below(g, length), end = between(g, begin, length), mode = below(g, 3);
    int times = between(g, 6, 30), skip = below(g, 8);
    bool pauses = chance(g, 30), settles = chance(g, 50);
    int second = chance(g, 40) ? fz_pick_second(g, stream) : stream;
    if (settles) {
        stream = stream < FZ_FIRST_STREAM ? fz_pick_second(g, stream) : stream;
        begin = 0;
        end = between(g, 1, length);
        times = between(g, 16, 30);
    }
    if (g->m.graph[graph].live)
        fz_simple(g, FZ_ungraph, graph, 0, 0);
    for (int i = 0; i < length; i++)
        fz_make_launch(g, memset(&body[i], 0, sizeof body[i]), i & 1 ? second : stream);
    for (int i = 0; i < times; i++) {
        /* now and then without the capture, so that what is inside is known as work too */
        bool captures = i % 4 != skip && (!settles || i >= times / 2);
        for (int k = 0; k <= length; k++) {
            if (k == begin && captures) {
                fz_simple(g, FZ_begin, stream, mode, 0);
                fz_simple(g, FZ_fork, stream, second, 0); /* illegal where they are one */
                if (pauses)                               /* long enough for the watchdog to look */
                    fz_simple(g, FZ_pause, 1200, 0, 0);
            }
            if (k == end && captures) {
                fz_simple(g, FZ_merge, stream, second, 0);
                fz_simple(g, FZ_end, stream, graph, 0);
                fz_simple(g, FZ_inst, graph, 0, 0);
                fz_simple(g, FZ_glaunch, graph, stream, 0);
                fz_simple(g, FZ_ungraph, graph, 0, 0);
            }
            body[k % length].thread = (uint8_t)g->thread;
            if (k < length)
                fz_emit(g, &body[k]);
        }
        if (settles || (i & 1))
            fz_simple(g, FZ_sync, FZ_SYNC_STREAM, stream, 0);
    }
}
