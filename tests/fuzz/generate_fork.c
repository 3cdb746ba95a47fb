/* generate_fork.c - loops over streams that wait for each other. */
#include "tests/fuzz/generate_loop.h"
#include <string.h>

/* This thread's next event, most often a new one without timing. */
static int event_of_fork(struct fz_gen *g, int *next_event)
{
    int slot = g->events[(*next_event)++ % g->num_events];
    if (chance(g, 80) && fz_simple(g, FZ_unevent, slot, 0, 0))
        fz_simple(g, FZ_event, slot, 1, 0);
    return slot;
}

/* A stream of this thread's, most often a new one of the origin's kind. */
static int side_of_fork(struct fz_gen *g, int origin)
{
    int slot = fz_pick_second(g, origin), kind = g->m.stream[origin].kind;
    if (g->streams[0] < 2 && origin >= 2 && chance(g, 10))
        return g->streams[0]; /* the legacy stream */
    if (slot != origin && slot >= FZ_FIRST_STREAM && chance(g, 70) &&
        fz_simple(g, FZ_unstream, slot, 0, 0))
        fz_simple(g, FZ_stream, slot, origin < FZ_FIRST_STREAM ? 1 : kind, 0);
    return slot;
}

/* ---- streams that fork and join --------------------------------------------------------- */

enum { SIDES = 2 };

/* Streams that fork and join. */
struct fork {
    int origin, sides, side[SIDES], other; /* `other` has no part in it */
    int forked, joined[SIDES], crossed;    /* events */
    int buf;                               /* that ops of all of them write */
    bool together, backwards,
        late;             /* all records come first, in the other order, before more work */
    struct fz_item after; /* that work */
    bool orderly;         /* the records and waits alone order the work, which would not race: */
    int own[SIDES + 1];   /* each stream writes its own buffer, the origin's first ... */
    int shared;           /* ... and the origin this one where it has joined the sides */
    int records, far;     /* how an event is recorded elsewhere, behind work on this buffer */
};

static void join_sides(struct fz_gen *g, struct fork *f, int i)
{
    for (int n = 0; n < f->sides; n++) {
        fz_simple(g, FZ_record, f->joined[n], f->side[n], 0);
        if (f->late)
            fz_run_item(g, &f->after, i, 0);
        if (!f->together)
            fz_simple(g, FZ_wait, f->origin, f->joined[n], 0);
    }
    for (int n = 0; n < f->sides && f->together; n++) {
        int side = f->backwards ? f->sides - 1 - n : n;
        fz_simple(g, FZ_wait, f->origin, f->joined[side], 0);
        if (f->orderly) /* before it waits for the next */
            fz_reads(g, f->origin, f->shared, f->own[side + 1]);
    }
    for (int n = 0; n < f->sides && f->orderly && !f->together; n++)
        fz_reads(g, f->origin, f->shared, f->own[n + 1]);
}

/* The host looks at the buffer itself or, where it cannot, by a read in that stream. */
static void look_at(struct fz_gen *g, int stream, int buf)
{
    struct fz_op op = {.kind = FZ_read,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, buf, 0, fz_words_to_read(g, buf), 0}};
    if (g->m.buf[buf].kind != FZ_DEVICE) {
        op.kind = FZ_peek;
        op.a[0] = buf;
    }
    fz_emit(g, &op);
}

/* What the fork wrote is looked at, as a rule from a stream that has no part in the fork. */
static void look_at_fork(struct fz_gen *g, const struct fork *f)
{
    look_at(g, f->other, f->buf);
}

/* Every time it is another graph, so that the event may end meanwhile. */
static void graph_meets_fork(struct fz_gen *g, const struct fork *f, int event)
{
    int graph = below(g, FZ_GRAPHS);
    if (!fz_graph_of_events(g, graph, f->buf, event + 1, 0))
        return;
    fz_launch_graph(g, graph, f->other);
    look_at_fork(g, f);
    fz_simple(g, FZ_ungraph, graph, 0, 0);
}

/* The event is recorded behind work elsewhere, and waited for. */
static void records_elsewhere(struct fz_gen *g, const struct fork *f, int event)
{
    int graph = below(g, FZ_GRAPHS);
    struct fz_op op = {.thread = (uint8_t)g->thread};
    fz_simple(g, FZ_slow, f->other, fz_first_module(g), 400);
    fz_writes(g, f->other, f->far);
    if (f->records == FZ_BY_CONTEXT) {
        fz_simple(g, FZ_ctxrecord, event, 0, 0);
    } else if (f->records == FZ_BY_CAPTURE && fz_captured_record(g, graph, f->other, event)) {
        fz_launch_graph(g, graph, f->other);
    } else if (f->records == FZ_BY_GRAPH && fz_graph_of_events(g, graph, f->far, 0, event + 1)) {
        fz_launch_graph(g, graph, f->other);
    } else if (f->records == FZ_BY_LAUNCH) {
        fz_make_fire(g, &op, f->other, -1, event);
        fz_emit(g, &op);
    } else {
        fz_simple(g, FZ_record, event, f->other, 0);
    }
    fz_simple(g, FZ_wait, f->origin, event, 0);
    fz_reads(g, f->origin, f->shared, f->far);
    fz_simple(g, FZ_ungraph, graph, 0, 0);
}

/* Something meets the events of a fork, or its streams, from outside. */
static void meet_fork(struct fz_gen *g, struct fork *f, int way, int i)
{
    int event = chance(g, 70) ? f->joined[f->sides - 1] : f->forked, side = f->side[0];
    struct fz_op op = {.thread = (uint8_t)g->thread};
    switch (way) {
    case 0:
        fz_simple(g, FZ_sync, FZ_SYNC_EVENT, event, 0);
        look_at_fork(g, f);
        break;
    case 1:
        fz_simple(g, FZ_sync, FZ_POLL_EVENT, event, 0);
        look_at_fork(g, f);
        break;
    case 2:
        fz_simple(g, FZ_query, FZ_SYNC_EVENT, event, 0);
        break;
    case 3:
        fz_simple(g, FZ_wait, f->other, event, 0);
        look_at_fork(g, f);
        break;
    case 4: /* recorded elsewhere, behind work there */
        fz_make_launch(g, &op, f->other);
        fz_emit(g, &op);
        fz_simple(g, FZ_record, event, f->other, 0);
        if (i & 1)
            fz_run_item(g, &f->after, i, 0);
        fz_simple(g, FZ_sync, FZ_SYNC_EVENT, event, 0);
        break;
    case 5:
        if (fz_simple(g, FZ_unevent, event, 0, 0))
            fz_simple(g, FZ_event, event, 1, 0);
        break;
    case 6: /* a call that is no op, on a branch */
        op = (struct fz_op){.kind = FZ_read,
                            .thread = (uint8_t)g->thread,
                            .a = {side, f->buf, 0, fz_words_to_read(g, f->buf), 0}};
        fz_emit(g, &op);
        break;
    case 7:
        if (side >= FZ_FIRST_STREAM && fz_simple(g, FZ_unstream, side, 0, 0))
            fz_simple(g, FZ_stream, side, g->m.stream[side].kind, 0);
        break;
    case 8: /* the branch alone */
        fz_run_item(g, &f->after, i, 0);
        if (i & 2) /* else the order with the legacy stream may be enough */
            fz_simple(g, FZ_sync, i & 1 ? FZ_SYNC_STREAM : FZ_POLL_STREAM, side, 0);
        look_at_fork(g, f);
        break;
    case 9: /* the branch works beside a capture */
        if (fz_simple(g, FZ_begin, f->other, 2, 0)) {
            fz_run_item(g, &f->after, i, 0);
            fz_simple(g, FZ_end, f->other, 0, 0);
            fz_simple(g, FZ_ungraph, 0, 0, 0);
        }
        break;
    case 10: /* a launch that no graph may have */
        op = f->after.op;
        op.a[3] = i & 1 ? FZ_COOP : FZ_EX_COOP;
        fz_emit(g, &op);
        break;
    case 11: /* it goes on for so long before the next iteration */
        for (int n = between(g, 1, 3); n > 0; n--)
            fz_run_item(g, &f->after, i, 0);
        break;
    case 12:
        fz_simple(g, FZ_ctxwait, event, 0, 0);
        look_at_fork(g, f);
        break;
    case 13: /* a graph waits for it */
        graph_meets_fork(g, f, event);
        break;
    default:
        records_elsewhere(g, f, event);
        break;
    }
}

/* Two or three streams that fork and join in each iteration, with ops of all of them between. */
void fz_fork_loop(struct fz_gen *g, unsigned int budget)
{
    enum { LENGTH = 14, WAYS = 12, OTHERS = 6 };
    struct fz_item body[LENGTH];
    int event = below(g, g->num_events);
    struct fork f = {.origin = fz_pick_stream(g), .forked = event_of_fork(g, &event)};
    int length = between(g, 1, LENGTH), iterations = (int)budget / (length + 4) + 2;
    int late = below(g, length), again = chance(g, 30) ? late : -1;
    f.sides = chance(g, 35) ? 1 : SIDES;
    for (int i = 0; i < f.sides; i++) {
        for (int tries = 0; tries < 4 && (!tries || (i && f.side[i] == f.side[0])); tries++)
            f.side[i] = side_of_fork(g, f.origin);
        f.joined[i] = event_of_fork(g, &event);
    }
    f.other = fz_pick_stream(g);
    f.crossed = event_of_fork(g, &event);
    f.together = chance(g, 50);
    f.backwards = chance(g, 50);
    f.late = chance(g, 30);
    f.orderly = g->num_bufs > SIDES + 2 && chance(g, 70);
    int buf = below(g, g->num_bufs);
    f.buf = g->bufs[buf];
    f.shared = g->bufs[(buf + 1) % g->num_bufs];
    for (int i = 0; i <= SIDES; i++)
        f.own[i] = g->bufs[(buf + 2 + i) % g->num_bufs];
    if (f.orderly && !f.late)
        f.buf = f.own[1];
    f.records = below(g, FZ_RECORDS);
    f.far = fz_pick_buf(g);
    int crosses = f.sides > 1 && chance(g, 50) ? below(g, length) : -1;
    memset(&f.after, 0, sizeof f.after);
    fz_make_launch(g, &f.after.op, f.side[0]);
    f.after.op.a[5] = f.after.op.a[7] = f.buf;
    f.after.op.a[6] = f.after.op.a[8] = 0;
    f.after.op.thread = (uint8_t)g->thread;
    bool plain = f.orderly || chance(g, 60);
    for (int k = 0; k < length; k++) {
        int n = chance(g, 40) ? 0 : between(g, 1, f.sides);
        if (f.orderly && crosses >= 0 && k >= crosses && n == 1)
            n = 2; /* the other side reads what this one has written */
        int stream = n ? f.side[n - 1] : f.origin;
        memset(&body[k], 0, sizeof body[k]);
        if (plain || chance(g, 80))
            fz_make_launch(g, &body[k].op, stream);
        else
            fz_make_op(g, &body[k].op, stream);
        body[k].op.thread = (uint8_t)g->thread;
        body[k].rule =
            chance(g, 30) ? (enum fz_rule)below(g, f.orderly ? FZ_MOVES : FZ_RULES) : FZ_SAME;
        if (f.orderly) {
            body[k].op.a[5] = body[k].op.a[7] = f.own[n];
            body[k].op.a[6] = body[k].op.a[8] = 0;
        }
    }
    int way = below(g, 9), mutations = chance(g, 50) ? 0 : between(g, 1, 4);
    int meets = chance(g, 60) ? below(g, WAYS) : chance(g, 60) ? WAYS + below(g, OTHERS) : -1;
    int period = chance(g, 40) ? 1 : between(g, 2, 9);
    bool leaves_out = chance(g, 30), anew = chance(g, 40);
    bool renews = g->renews && chance(g, 40);
    for (int i = 0; i < iterations; i++) {
        for (int k = 0; k < length; k++) {
            if (k == 0 || k == again)
                fz_simple(g, FZ_record, f.forked, f.origin, 0);
            for (int n = 0; n < f.sides && (k == 0 || k == again); n++)
                fz_simple(g, FZ_wait, f.side[n], f.forked, 0);
            if (anew && (k == 0 || k == again) && fz_simple(g, FZ_unevent, f.forked, 0, 0))
                fz_simple(g, FZ_event, f.forked, 1, 0);
            for (int n = 0; n < f.sides && k == 0 && f.orderly; n++)
                fz_reads(g, f.side[n], f.own[n + 1], f.shared);
            if (k == crosses) { /* one side waits for the other */
                fz_simple(g, FZ_record, f.crossed, f.side[0], 0);
                fz_simple(g, FZ_wait, f.side[1], f.crossed, 0);
                if (f.orderly)
                    fz_reads(g, f.side[1], f.own[2], f.own[1]);
            }
            fz_run_item(g, &body[k], i, mutations);
        }
        if (!(i % 9 == 8 && leaves_out))
            join_sides(g, &f, i);
        if (meets >= 0 && i % period == period - 1)
            meet_fork(g, &f, meets, i);
        fz_end_of_iteration(g, way, chance(g, 70) ? f.origin : f.side[0], f.buf, i);
        if (renews && i % period == 0) {
            fz_renew(g, f.origin);
            for (int n = 0; n < f.sides && i & 1; n++)
                fz_renew(g, f.side[n]);
        }
    }
}

/* ---- buffers that one stream fills and another reads ------------------------------------ */

/* One stream fills buffers in turn, and another reads each of them in that or a later turn. Each
 * buffer has two events: that it is full, and that it may be filled again. So most waits are for a
 * record behind which others have come. */
enum { MOST_AHEAD = 3 };

struct ahead {
    int from, to, buffers, lag, into;
    int buf[MOST_AHEAD], full[MOST_AHEAD], empty[MOST_AHEAD];
    bool early[2]; /* it waits right behind its record for what it needs in the next turn */
};

static void fills(struct fz_gen *g, const struct ahead *a, int turn)
{
    int n = turn % a->buffers, next = (turn + 1) % a->buffers;
    if (!a->early[0])
        fz_simple(g, FZ_wait, a->from, a->empty[n], 0);
    fz_writes(g, a->from, a->buf[n]);
    fz_simple(g, FZ_record, a->full[n], a->from, 0);
    if (a->early[0])
        fz_simple(g, FZ_wait, a->from, a->empty[next], 0);
}

/* Which buffer is read in that turn. */
static int read_in(const struct ahead *a, int turn)
{
    return (turn + a->buffers - a->lag) % a->buffers;
}

static void empties(struct fz_gen *g, const struct ahead *a, int turn)
{
    int n = read_in(a, turn), next = (n + 1) % a->buffers;
    if (!a->early[1])
        fz_simple(g, FZ_wait, a->to, a->full[n], 0);
    fz_reads(g, a->to, a->into, a->buf[n]);
    fz_simple(g, FZ_record, a->empty[n], a->to, 0);
    if (a->early[1])
        fz_simple(g, FZ_wait, a->to, a->full[next], 0);
}

void fz_ahead_loop(struct fz_gen *g, unsigned int budget)
{
    int most = g->num_events / 2 < MOST_AHEAD ? g->num_events / 2 : MOST_AHEAD;
    int event = below(g, g->num_events), buf = below(g, g->num_bufs);
    struct ahead a = {.from = fz_pick_stream(g)};
    struct fz_op op;
    a.to = side_of_fork(g, a.from);
    a.buffers = between(g, 2, most < g->num_bufs ? most : g->num_bufs - 1);
    a.lag = below(g, a.buffers);
    for (int n = 0; n < a.buffers; n++) {
        a.buf[n] = g->bufs[(buf + n) % g->num_bufs];
        a.full[n] = event_of_fork(g, &event);
        a.empty[n] = event_of_fork(g, &event);
    }
    a.into = g->bufs[(buf + a.buffers) % g->num_bufs];
    /* where that has been recorded by then */
    a.early[0] = a.lag <= a.buffers - 2 && chance(g, 50);
    a.early[1] = a.lag >= 1 && chance(g, 50);
    /* in no fixed turn, so that a known sequence does not end there: then nothing is held back */
    int asks = chance(g, 50) ? between(g, 3, 20) : 0, other = fz_pick_stream(g);
    int how = chance(g, 70) ? FZ_POLL_EVENT : FZ_SYNC_EVENT;
    int way = chance(g, 70) ? -1 : below(g, 6), odd = chance(g, 60) ? 0 : between(g, 1, 6);
    /* enough turns for records that are kept back: the first 64 of a fork are not */
    for (int turn = 0; turn < (int)budget / 4 + 2; turn++) {
        fills(g, &a, turn);
        if (chance(g, odd)) {
            fz_make_op(g, &op, chance(g, 50) ? a.from : a.to);
            fz_emit(g, &op);
        }
        empties(g, &a, turn);
        if (chance(g, asks)) {
            fz_simple(g, FZ_sync, how, a.empty[read_in(&a, turn)], 0);
            look_at(g, other, a.into);
        }
        fz_end_of_iteration(g, way, a.to, a.into, turn);
    }
}
