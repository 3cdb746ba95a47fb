/*
 * generate.c - the program of a seed.
 *
 * Programs must look like real ones to the library: loops that repeat a body of ops many times,
 * with small differences, so that sequences are found, built and replayed, and then left, changed
 * and met again. So a program is a few nested loops over bodies; an op of a body keeps its
 * arguments or changes them by a rule (a counter, a ping-pong), and now and then one is left out,
 * altered or put in. The model judges each op as it is made; work that would race gets the order it
 * lacks first.
 */
#include "tests/fuzz/generate_loop.h"
#include <stdlib.h>

static void collect(struct fz_gen *g)
{
    g->num_streams = g->num_bufs = g->num_events = 0;
    for (int i = 0; i < FZ_STREAMS; i++)
        if (g->m.stream[i].live && (i >= FZ_FIRST_STREAM || chance(g, 40)))
            g->streams[g->num_streams++] = i;
    for (int i = 0; i < FZ_BUFS; i++)
        if (g->m.buf[i].live)
            g->bufs[g->num_bufs++] = i;
    for (int i = 0; i < FZ_EVENTS; i++)
        if (g->m.event[i].live)
            g->events[g->num_events++] = i;
}

static void set_up(struct fz_gen *g)
{
    fz_simple(g, FZ_load, 0, chance(g, 30), 0);
    if (chance(g, 50))
        fz_simple(g, FZ_load, 1, below(g, 2), 0);
    for (int i = between(g, 1, 6); i > 0; i--)
        fz_simple(g, FZ_stream, FZ_FIRST_STREAM - 1 + i, below(g, 4), 0);
    for (int i = between(g, 2, FZ_EVENTS); i > 0; i--)
        fz_simple(g, FZ_event, i - 1, below(g, 2), 0);
    for (int i = between(g, 3, FZ_BUFS); i > 0; i--)
        fz_fresh_buf(g, i - 1);
    fz_simple(g, FZ_sync, FZ_SYNC_CTX, 0, 0);
}

static void loop(struct fz_gen *g, unsigned int budget)
{
    if (!fz_limits.forks || !g->num_events || !chance(g, 70))
        fz_body_loop(g, budget);
    else if (g->num_events > 3 && g->num_bufs > 2 && chance(g, 20))
        fz_ahead_loop(g, budget);
    else
        fz_fork_loop(g, budget);
}

/* A phase of several threads: everything is dealt out among them. */
static void deal_and_run(struct fz_gen *g, unsigned int threads)
{
    struct fz_gen all;
    fz_simple(g, FZ_barrier, 0, 0, 0);
    collect(g);
    all = *g;
    int legacy = below(g, (int)threads), salt = below(g, 1000);
    for (unsigned int t = 0; t < threads; t++) {
        g->thread = t;
        g->num_streams = g->num_bufs = g->num_events = 0;
        for (int i = 0; i < all.num_streams; i++) {
            int s = all.streams[i];
            bool mine = s < 2   ? (int)t == legacy
                        : s < 4 ? true
                                : (unsigned int)(s + salt) % threads == t;
            if (mine)
                g->streams[g->num_streams++] = s;
        }
        for (int i = 0; i < all.num_bufs; i++)
            if ((unsigned int)(i + salt) % threads == t)
                g->bufs[g->num_bufs++] = all.bufs[i];
        for (int i = 0; i < all.num_events; i++)
            if ((unsigned int)(i + salt) % threads == t)
                g->events[g->num_events++] = all.events[i];
        if (!g->num_streams)
            g->streams[g->num_streams++] = 2;
        if (g->num_bufs && g->num_events) {
            bool captures = chance(g, 25);
            if (captures && chance(g, 50))
                fz_repeated_capture(g, (int)t);
            loop(g, g->target / 8 + 20);
            if (captures)
                fz_own_graph(g, (int)t);
        }
    }
    g->thread = 0;
    fz_simple(g, FZ_barrier, 0, 0, 0);
    collect(g);
}

void fz_generate(struct fz_program *p, const struct fz_shape_of_program *how)
{
    struct fz_gen *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->p = p;
    g->random = how->seed * 0x2545f4914f6cdd1du + 77;
    g->target = how->ops;
    fz_model_start(&g->m);
    unsigned int threads = how->threads ? (unsigned int)between(g, 2, FZ_THREADS) : 1;
    g->odd_calls = (unsigned int)between(g, 0, 40);
    g->threads = threads > 1;
    set_up(g);
    collect(g);
    bool traps = how->seed % 13 == 5;
    g->renews = how->seed % 4 == 1;
    g->grows = how->seed % 9 == 2;
    g->sets = how->seed % 17 == 3 ? 17 + (int)(how->seed % 8) : 0;
    while (p->count < g->target) {
        if (chance(g, 45)) {
            fz_upheaval(g);
            collect(g);
        }
        if (traps && p->count > g->target * 3 / 4) {
            struct fz_op op = {.kind = FZ_trap,
                               .a = {fz_pick_stream(g), fz_pick_buf(g), fz_pick_module(g),
                                     between(g, 1, 12), below(g, FZ_TRAPS)}};
            traps = !fz_emit(g, &op);
        }
        if (threads > 1 && chance(g, 70))
            deal_and_run(g, threads);
        else
            loop(g, g->target / 2 + 20);
    }
    if (threads > 1) {
        g->thread = threads - 1; /* so that all of them exist, whatever was dealt */
        fz_simple(g, FZ_barrier, 0, 0, 0);
    }
    free(g);
}
