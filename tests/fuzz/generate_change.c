/* generate_change.c - what happens between loops. */
#include "tests/fuzz/generate_loop.h"
#include <string.h>

void fz_fresh_buf(struct fz_gen *g, int slot)
{
    int kind = chance(g, 65) ? FZ_DEVICE : chance(g, 60) ? FZ_PINNED : FZ_MANAGED;
    fz_simple(g, FZ_alloc, slot, kind,
              chance(g, 20) ? between(g, 100, FZ_MAX_WORDS) : between(g, 16, 64));
}

/* Two streams that an event puts in order, again and again, in one of the ways that are not a
 * record and a wait in a stream. */
struct order {
    int from, to, event, buf, into;
    int graph[2]; /* that record and that wait */
    int records, waits;
    bool renews; /* the first stream ends in between */
};

static void put_in_order(struct fz_gen *g, const struct order *o, int i)
{
    struct fz_op op = {.thread = (uint8_t)g->thread};
    if (o->records == FZ_BY_STREAM) {
        fz_simple(g, FZ_record, o->event, o->from, 0);
    } else if (o->records == FZ_BY_CONTEXT) {
        fz_simple(g, FZ_ctxrecord, o->event, 0, 0);
    } else if (o->records == FZ_BY_GRAPH) {
        fz_launch_graph(g, o->graph[0], o->from);
    } else {
        fz_make_fire(g, &op, o->from, chance(g, 50) ? fz_pick_buf(g) : -1, o->event);
        fz_emit(g, &op);
    }
    if (o->renews && i % 4 == 3)
        fz_renew(g, o->from);
    if (o->waits == FZ_BY_STREAM)
        fz_simple(g, FZ_wait, o->to, o->event, 0);
    else if (o->waits == FZ_BY_CONTEXT)
        fz_simple(g, FZ_ctxwait, o->event, 0, 0);
    else
        fz_launch_graph(g, o->graph[1], o->to);
    fz_reads(g, o->to, o->into, o->buf);
}

static void other_orders(struct fz_gen *g)
{
    struct order o = {.from = fz_pick_stream(g),
                      .to = fz_pick_stream(g),
                      .event = fz_pick_event(g),
                      .buf = fz_pick_buf(g),
                      .into = fz_pick_buf(g),
                      .records = below(g, 4),
                      .waits = below(g, 3),
                      .renews = chance(g, 30)};
    struct fz_item body[4];
    int length = between(g, 1, 4), iterations = between(g, 4, 24), way = below(g, 10);
    o.graph[0] = below(g, FZ_GRAPHS);
    o.graph[1] = (o.graph[0] + 1) % FZ_GRAPHS;
    if (fz_simple(g, FZ_unevent, o.event, 0, 0))
        fz_simple(g, FZ_event, o.event, 1, 0);
    if (o.records == FZ_BY_GRAPH && !fz_graph_of_events(g, o.graph[0], o.buf, 0, o.event + 1))
        return;
    if (o.waits == FZ_BY_GRAPH && !fz_graph_of_events(g, o.graph[1], o.into, o.event + 1, 0))
        return;
    memset(body, 0, sizeof body);
    for (int k = 0; k < length; k++) {
        fz_make_launch(g, &body[k].op, o.from);
        body[k].op.thread = (uint8_t)g->thread;
        body[k].op.a[5] = body[k].op.a[7] = o.buf;
        body[k].op.a[6] = body[k].op.a[8] = 0;
        body[k].rule = chance(g, 30) ? FZ_COUNTS : FZ_SAME;
    }
    for (int i = 0; i < iterations; i++) {
        if (i % 4 == 3)
            fz_simple(g, FZ_slow, o.from, fz_first_module(g), 400);
        for (int k = 0; k < length; k++)
            fz_run_item(g, &body[k], i, 0);
        put_in_order(g, &o, i);
        fz_end_of_iteration(g, way, o.to, o.into, i);
    }
}

/* Until what the streams leave behind is known. */
static void leave_often(struct fz_gen *g)
{
    struct fz_op op = {.thread = (uint8_t)g->thread};
    int slot = fz_pick_stream(g);
    if (slot < FZ_FIRST_STREAM)
        return;
    fz_make_leave(g, &op, slot);
    for (int i = between(g, 3, 6); i > 0; i--)
        fz_emit(g, &op);
}

static void gate_context(struct fz_gen *g)
{
    int stream = fz_pick_stream(g);
    struct fz_op op = {.kind = FZ_ctxgate,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, fz_pick_second(g, stream), fz_pick_event(g), fz_pick_buf(g),
                             fz_pick_module(g), between(g, 2, 8), between(g, 0, 5)}};
    for (int i = between(g, 1, 4); i > 0; i--)
        fz_emit(g, &op);
}

/* Something that the loops' sequences may depend on changes. */
void fz_upheaval(struct fz_gen *g)
{
    int slot;
    struct fz_op op;
    switch (below(g, 17)) {
    case 16:
        gate_context(g);
        break;
    case 15:
        leave_often(g);
        break;
    case 13:
    case 14:
        other_orders(g);
        break;
    case 12: /* known by then, so that it is held back when the queue is full */
        op = (struct fz_op){.thread = (uint8_t)g->thread};
        fz_make_jam(g, &op, fz_pick_stream(g));
        for (int i = between(g, 4, 8); i > 0; i--)
            fz_emit(g, &op);
        break;
    case 11:
        fz_simple(g, FZ_awayend, below(g, 2), 0, 0);
        break;
    case 10:
        op = (struct fz_op){.kind = FZ_context,
                            .thread = (uint8_t)g->thread,
                            .a = {fz_pick_buf(g), between(g, 3, 8), between(g, 2, 12), below(g, 9),
                                  fz_limits.real ? 0 : below(g, FZ_CONTEXTS)}};
        for (int i = between(g, 1, 3); i > 0; i--)
            fz_emit(g, &op);
        break;
    case 9:
        fz_repeated_capture(g, below(g, FZ_GRAPHS));
        break;
    case 0: /* freed and allocated again: the same address, as a rule */
        slot = fz_pick_buf(g);
        if (fz_simple(g, FZ_free, slot, chance(g, 30), fz_pick_stream(g)))
            fz_fresh_buf(g, slot);
        break;
    case 1:
        slot = between(g, FZ_FIRST_STREAM, FZ_STREAMS - 1);
        for (int i = 0; fz_limits.real && !g->m.stream[slot].live && i < 8; i++)
            slot = between(g, FZ_FIRST_STREAM, FZ_STREAMS - 1);
        fz_simple(g, FZ_unstream, slot, 0, 0);
        fz_simple(g, FZ_stream, slot, below(g, 4), 0);
        break;
    case 2:
        slot = fz_pick_module(g);
        if (fz_simple(g, FZ_unload, slot, 0, 0))
            fz_simple(g, FZ_load, slot, below(g, 2), 0);
        break;
    case 3:
        slot = below(g, FZ_EVENTS);
        fz_simple(g, FZ_unevent, slot, 0, 0);
        fz_simple(g, FZ_event, slot, below(g, 2), 0);
        break;
    case 4:
    case 5:
        fz_own_graph(g, below(g, FZ_GRAPHS));
        break;
    case 6:
    case 7:
        for (int i = between(g, 1, 12), how = below(g, 3), n = between(g, 1, 8); i > 0; i--) {
            fz_simple(g, FZ_away, how, n, i & 1);
            if (chance(g, 40))
                fz_simple(g, FZ_awayread, 0, 0, 0);
        }
        break;
    default:
        fz_simple(g, FZ_misc, below(g, FZ_MISCS), fz_pick_module(g), 0);
        break;
    }
}
