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
#include "tests/fuzz/model.h"
#include <stdlib.h>
#include <string.h>

struct gen {
    struct fz_program *p;
    struct fz_model m;
    uint64_t random;
    unsigned int target;
    unsigned int thread;
    bool threads;
    /* what the current thread may pick from */
    int streams[FZ_STREAMS], num_streams;
    int bufs[FZ_BUFS], num_bufs;
    int events[FZ_EVENTS], num_events;
    int32_t counter;
    unsigned int odd_calls; /* of 100 ops, how many are of the rarer kinds */
    int sets;               /* of arguments that a loop takes in turn, more than graphs; 0: none */
    bool grows;             /* launches of loops have ever other grids */
    bool renews;            /* streams are destroyed and made anew in the iterations of loops */
};

static uint64_t next(struct gen *g)
{
    uint64_t z = g->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(struct gen *g, int n)
{
    return n > 0 ? (int)(next(g) % (unsigned int)n) : 0;
}

static bool chance(struct gen *g, int percent)
{
    return below(g, 100) < percent;
}

static int between(struct gen *g, int low, int high)
{
    return low + below(g, high - low + 1);
}

/* ---- putting ops into the program ------------------------------------------------------- */

static bool add(struct gen *g, const struct fz_op *op)
{
    unsigned int ignored;
    if (fz_model_step(&g->m, op, &ignored) != FZ_OK)
        return false;
    fz_program_add(g->p, op);
    return true;
}

static bool simple(struct gen *g, enum fz_kind kind, int a, int b, int c)
{
    struct fz_op op = {.kind = (uint8_t)kind, .thread = (uint8_t)g->thread, .a = {a, b, c}};
    return add(g, &op);
}

static int slot_of_clock(const struct gen *g, unsigned int clock)
{
    if (clock == 0)
        return 0;
    if (clock == 1 + g->thread)
        return 2;
    for (int i = FZ_FIRST_STREAM; i < FZ_STREAMS; i++)
        if (g->m.stream[i].live && g->m.stream[i].clock == clock)
            return i;
    return -1;
}

/* Adds the op, behind an event or a sync where it would race. The way is the same for the same op,
 * so that loops stay loops. */
static bool emit(struct gen *g, const struct fz_op *op)
{
    for (int tries = 0; tries < 8; tries++) {
        unsigned int clock = 0;
        enum fz_legal r = fz_model_step(&g->m, op, &clock);
        if (r == FZ_OK) {
            fz_program_add(g->p, op);
            return true;
        }
        if (r == FZ_ILLEGAL)
            return false;
        int from = slot_of_clock(g, clock), to = fz_op_stream(op);
        unsigned int way = ((unsigned int)op->a[0] * 7 + op->kind * 3 + clock) % 4;
        bool done = false;
        if (way && from >= 0 && to >= 0 && g->num_events) {
            int event = g->events[(unsigned int)(from + to) % (unsigned int)g->num_events];
            done = simple(g, FZ_record, event, from, 0) && simple(g, FZ_wait, to, event, 0);
        }
        if (!done && from >= 0 && way < 2)
            done = simple(g, FZ_sync, way ? FZ_POLL_STREAM : FZ_SYNC_STREAM, from, 0);
        if (!done && !simple(g, FZ_sync, FZ_SYNC_CTX, 0, 0))
            return false;
    }
    return false;
}

/* ---- random ops ------------------------------------------------------------------------- */

static int pick_stream(struct gen *g)
{
    return g->num_streams ? g->streams[below(g, g->num_streams)] : 0;
}

static int pick_buf(struct gen *g)
{
    return g->num_bufs ? g->bufs[below(g, g->num_bufs)] : 0;
}

static int pick_buf_of(struct gen *g, int kind)
{
    for (int i = 0; i < 12; i++) {
        int b = pick_buf(g);
        if (g->m.buf[b].live && g->m.buf[b].kind == kind)
            return b;
    }
    return pick_buf(g);
}

static int words_of(const struct gen *g, int buf)
{
    return (int)g->m.buf[buf].words;
}

/* Where nobody tells the order of the work, what a read shows has to. */
static int words_to_read(struct gen *g, int buf)
{
    int few = between(g, 1, 8);
    return fz_limits.real && g->m.buf[buf].live ? words_of(g, buf) : few;
}

static int pick_module(struct gen *g)
{
    int m = below(g, FZ_MODULES);
    for (int i = 0; i < FZ_MODULES; i++)
        if (g->m.module[(m + i) % FZ_MODULES].live)
            return (m + i) % FZ_MODULES;
    return 0;
}

/* The same one every time, so that sequences stay the same. */
static int first_module(const struct gen *g)
{
    int m = 0;
    while (m < FZ_MODULES - 1 && !g->m.module[m].live)
        m++;
    return m;
}

static void make_launch(struct gen *g, struct fz_op *op, int stream)
{
    int buf = pick_buf(g), buf2 = pick_buf(g);
    int kernel = chance(g, 50) ? FZ_MIX : below(g, FZ_KERNELS);
    int how = chance(g, 80) ? FZ_PARAMS : below(g, FZ_HOWS);
    op->kind = FZ_launch;
    memcpy(op->a,
           (int32_t[]){stream, kernel, pick_module(g), how, below(g, FZ_SHAPES), buf,
                       below(g, words_of(g, buf) - 8), buf2, below(g, words_of(g, buf2)),
                       below(g, 1000)},
           sizeof op->a);
}

static void make_fill(struct gen *g, struct fz_op *op, int stream)
{
    static const int sizes[] = {1, 2, 4};
    int buf = pick_buf_of(g, FZ_DEVICE), elem = sizes[below(g, 3)];
    int height = chance(g, 25) ? between(g, 2, 4) : 1;
    int room = words_of(g, buf) * 8 / elem;
    int width = between(g, 1, room / (2 * height) > 1 ? room / (2 * height) : 1);
    op->kind = FZ_fill;
    memcpy(op->a,
           (int32_t[]){stream, elem, buf, below(g, room / 4), width, height, below(g, 256),
                       stream < 3 && stream != 1 && chance(g, 10)},
           8 * sizeof op->a[0]);
}

static void make_copy(struct gen *g, struct fz_op *op, int stream)
{
    int how = chance(g, 60) ? FZ_DTOD : below(g, FZ_COPIES);
    int dst = pick_buf_of(g, how == FZ_DTOH ? FZ_PINNED : FZ_DEVICE);
    int src = pick_buf_of(g, how == FZ_HTOD ? FZ_PINNED : FZ_DEVICE);
    int least = words_of(g, dst) < words_of(g, src) ? words_of(g, dst) : words_of(g, src);
    op->kind = FZ_copy;
    memcpy(op->a,
           (int32_t[]){stream, dst, below(g, least / 2), src, below(g, least / 2),
                       between(g, 1, least / 2 > 1 ? least / 2 : 1), how},
           7 * sizeof op->a[0]);
}

static void make_jam(struct gen *g, struct fz_op *op, int stream)
{
    op->kind = FZ_jam;
    memcpy(op->a, (int32_t[]){stream, pick_buf(g), pick_module(g), between(g, 4, 32), below(g, 9)},
           5 * sizeof op->a[0]);
}

static void make_context(struct gen *g, struct fz_op *op)
{
    op->kind = FZ_context;
    memcpy(op->a,
           (int32_t[]){pick_buf(g), between(g, 0, 6), between(g, 2, 12), below(g, 9),
                       below(g, FZ_CONTEXTS)},
           5 * sizeof op->a[0]);
}

/* The new stream is of the old one's kind, with one in eight of another. */
static void make_leave(struct gen *g, struct fz_op *op, int slot)
{
    int kind = chance(g, 12) ? below(g, 4) : g->m.stream[slot].kind;
    op->kind = FZ_leave;
    memcpy(op->a,
           (int32_t[]){slot, kind, pick_buf(g), pick_buf(g), pick_module(g), between(g, 2, 8),
                       between(g, 0, 5)},
           7 * sizeof op->a[0]);
}

static int pick_event(struct gen *g)
{
    return g->num_events ? g->events[below(g, g->num_events)] : 0;
}

static void make_fire(struct gen *g, struct fz_op *op, int stream, int buf, int event)
{
    op->kind = FZ_fire;
    memcpy(op->a, (int32_t[]){stream, pick_module(g), buf, event, below(g, FZ_FIRES), below(g, 9)},
           6 * sizeof op->a[0]);
}

/* Contexts begin, go on and end beside everything else, and a queue fills. */
static void make_rare(struct gen *g, struct fz_op *op, int stream)
{
    switch (below(g, 10)) {
    case 0:
    case 1:
        make_context(g, op);
        break;
    case 2:
        make_jam(g, op, stream);
        break;
    case 3:
        op->kind = FZ_away;
        memcpy(op->a, (int32_t[]){below(g, 3), between(g, 1, 8), below(g, 9)}, 3 * sizeof op->a[0]);
        break;
    case 4:
        op->kind = FZ_awayend;
        op->a[0] = below(g, 2);
        break;
    default:
        op->kind = FZ_retain;
        op->a[0] = chance(g, 30);
        op->a[1] = between(g, 1, 3);
        break;
    }
}

/* Work of a stream and what goes between. */
static void make_common(struct gen *g, struct fz_op *op, int stream)
{
    int buf = pick_buf(g);
    if (!fz_limits.real && chance(g, 6)) {
        make_rare(g, op, stream);
        return;
    }
    switch (below(g, 17)) {
    case 0:
    case 1:
    case 2:
        make_fill(g, op, stream);
        break;
    case 3:
    case 4:
    case 5:
        make_copy(g, op, stream);
        break;
    case 6:
        op->kind = FZ_upload;
        memcpy(op->a, (int32_t[]){stream, buf, 0, between(g, 1, 8), below(g, 1000), below(g, 3)},
               6 * sizeof op->a[0]);
        break;
    case 7:
        op->kind = FZ_read;
        memcpy(op->a, (int32_t[]){stream, buf, 0, words_to_read(g, buf), below(g, 3)},
               5 * sizeof op->a[0]);
        break;
    case 8:
        op->kind = FZ_host;
        memcpy(op->a,
               (int32_t[]){stream, pick_buf_of(g, FZ_PINNED), below(g, 4), below(g, 1000),
                           below(g, 2)},
               5 * sizeof op->a[0]);
        break;
    case 9:
        op->kind = FZ_record;
        op->a[0] = pick_event(g);
        op->a[1] = stream;
        op->a[2] = chance(g, 20);
        break;
    case 10:
        op->kind = FZ_wait;
        op->a[0] = stream;
        op->a[1] = pick_event(g);
        break;
    case 11:
        op->kind = chance(g, 50) ? FZ_peek : FZ_poke;
        op->a[0] = pick_buf_of(g, chance(g, 50) ? FZ_PINNED : FZ_MANAGED);
        op->a[1] = below(g, 1000);
        break;
    case 12:
        op->kind = FZ_query;
        op->a[0] = chance(g, 70) ? FZ_SYNC_STREAM : FZ_SYNC_EVENT;
        op->a[1] = op->a[0] == FZ_SYNC_STREAM ? stream : g->events[below(g, g->num_events)];
        break;
    case 13:
        op->kind = FZ_sync;
        op->a[0] = below(g, 5);
        op->a[1] = op->a[0] == FZ_SYNC_EVENT || op->a[0] == FZ_POLL_EVENT
                       ? g->events[below(g, g->num_events)]
                       : stream;
        break;
    case 14:
        if (chance(g, 20)) {
            op->kind = FZ_gate;
            memcpy(op->a,
                   (int32_t[]){stream, buf, pick_module(g), between(g, 1, 12), below(g, 100)},
                   5 * sizeof op->a[0]);
            break;
        }
        op->kind = FZ_misc;
        op->a[0] = below(g, FZ_MISCS);
        op->a[1] = pick_module(g);
        break;
    case 15:
        if (chance(g, 50)) {
            make_fire(g, op, stream, pick_buf(g), pick_event(g));
            break;
        }
        op->kind = chance(g, 50) ? FZ_ctxrecord : FZ_ctxwait;
        op->a[0] = pick_event(g);
        break;
    default:
        if (!g->threads && chance(g, 30)) {
            op->kind = FZ_stale;
            memcpy(op->a, (int32_t[]){stream, between(g, 1, 16), below(g, 3), chance(g, 80)},
                   4 * sizeof op->a[0]);
            break;
        }
        op->kind = FZ_bad;
        op->a[0] = stream;
        op->a[1] = below(g, FZ_BADS);
        op->a[2] = pick_module(g);
        break;
    }
}

static void make_op(struct gen *g, struct fz_op *op, int stream)
{
    memset(op, 0, sizeof *op);
    op->thread = (uint8_t)g->thread;
    int roll = below(g, 100);
    if (roll < (int)g->odd_calls)
        make_common(g, op, stream);
    else if (roll < (int)g->odd_calls + 8)
        make_fill(g, op, stream);
    else if (roll < (int)g->odd_calls + 16)
        make_copy(g, op, stream);
    else
        make_launch(g, op, stream);
}

/* ---- loops ------------------------------------------------------------------------------ */

/* How an op's arguments go from iteration to iteration. */
enum rule { SAME, COUNTS, ALTERNATES, STEPS, MOVES, SWAPS, RESHAPES, RULES, CYCLES, GROWS };

struct item {
    struct fz_op op;
    enum rule rule;
    int sets;  /* of CYCLES */
    int first; /* grid of GROWS */
    int inner; /* > 0: this many times an inner loop of the next `inner_length` items */
    int inner_length;
};

enum { MAX_BODY = 48 };

static struct fz_op at_iteration(const struct item *item, int i)
{
    struct fz_op op = item->op;
    if (op.kind == FZ_stale && i % 8 == 7)
        op.a[3] = 0;
    int32_t *k = op.kind == FZ_launch ? &op.a[9] : op.kind == FZ_fill ? &op.a[6] : NULL;
    if (op.kind == FZ_upload)
        k = &op.a[4];
    switch (item->rule) {
    case COUNTS:
        if (k)
            *k += i;
        break;
    case ALTERNATES:
        if (k)
            *k += i & 1;
        break;
    case STEPS:
        if (k)
            *k += i / 5;
        break;
    case CYCLES:
        if (k)
            *k += i % item->sets;
        break;
    case MOVES:
        if (op.kind == FZ_launch)
            op.a[6] = (op.a[6] + i) % 8;
        break;
    case SWAPS:
        if (op.kind == FZ_launch && (i & 1)) {
            op.a[5] = item->op.a[7];
            op.a[7] = item->op.a[5];
            op.a[6] = op.a[8] = 0;
        }
        break;
    case RESHAPES:
        if (op.kind == FZ_launch && i % 6 == 5)
            op.a[4] = (op.a[4] + 1) % FZ_SHAPES;
        break;
    case GROWS:
        op.a[4] = FZ_SHAPES + (item->first + i * 2 + (i % 7 == 6)) % FZ_GRIDS;
        break;
    case SAME:
    case RULES:
        break;
    }
    return op;
}

static int make_body(struct gen *g, struct item *body, int length, int streams)
{
    int own[3];
    for (int i = 0; i < 3; i++)
        own[i] = pick_stream(g);
    if (streams > 1 && chance(g, 30)) { /* the legacy stream and one that it is ordered with */
        for (int i = 0; i < g->num_streams; i++) {
            int stream = g->streams[i];
            if (stream < 2)
                own[0] = stream;
            else if (stream >= FZ_FIRST_STREAM && !(g->m.stream[stream].kind & 1))
                own[1] = stream;
        }
    }
    bool changing = chance(g, 70);
    for (int i = 0; i < length; i++) {
        memset(&body[i], 0, sizeof body[i]);
        make_op(g, &body[i].op, own[below(g, streams)]);
        body[i].rule = changing && chance(g, 40) ? (enum rule)below(g, RULES) : SAME;
        if (g->grows && body[i].op.kind == FZ_launch && chance(g, 30)) {
            body[i].rule = GROWS;
            body[i].first = below(g, FZ_GRIDS);
        }
    }
    if (!g->threads && chance(g, 12)) { /* memory that comes and goes */
        int at = below(g, length), buf = pick_buf(g);
        body[at].op = (struct fz_op){.kind = FZ_alloc,
                                     .thread = (uint8_t)g->thread,
                                     .a = {buf, g->m.buf[buf].kind, words_of(g, buf)}};
        body[at].rule = SAME;
    }
    if (length > 1 && chance(g, 8))
        body[below(g, length)].op = (struct fz_op){
            .kind = FZ_pause, .thread = (uint8_t)g->thread, .a = {chance(g, 70) ? 30 : 600}};
    if (length > 6 && chance(g, 30)) {
        int at = below(g, length - 4);
        body[at].inner_length = between(g, 1, 3);
        body[at].inner = between(g, 2, 4);
    }
    return length;
}

static void run_item(struct gen *g, struct item *item, int i, int mutations)
{
    if (mutations && chance(g, mutations)) {
        struct fz_op other;
        switch (below(g, 4)) {
        case 0: /* left out */
            return;
        case 1: /* one more before it */
            make_op(g, &other, pick_stream(g));
            emit(g, &other);
            break;
        case 2: /* different this once */
            make_op(g, &other,
                    fz_op_stream(&item->op) >= 0 ? fz_op_stream(&item->op) : pick_stream(g));
            emit(g, &other);
            return;
        default: /* different from now on */
            make_op(g, &other,
                    fz_op_stream(&item->op) >= 0 ? fz_op_stream(&item->op) : pick_stream(g));
            item->op = other;
            break;
        }
    }
    struct fz_op op = at_iteration(item, i);
    if (op.kind == FZ_alloc) /* in a loop: the slot's memory is freed first */
        simple(g, FZ_free, op.a[0], 0, 0);
    emit(g, &op);
}

static void end_of_iteration(struct gen *g, int way, int stream, int buf, int i)
{
    int words = fz_limits.real && g->m.buf[buf].live ? words_of(g, buf) : 1;
    struct fz_op op = {
        .kind = FZ_read, .thread = (uint8_t)g->thread, .a = {stream, buf, 0, words, 0}};
    switch (way) {
    case 0:
        simple(g, FZ_sync, FZ_SYNC_STREAM, stream, 0);
        break;
    case 1:
        simple(g, FZ_sync, FZ_SYNC_CTX, 0, 0);
        break;
    case 2:
        if (g->m.buf[buf].kind == FZ_PINNED)
            op.kind = FZ_peek, op.a[0] = buf;
        emit(g, &op);
        break;
    case 3:
        simple(g, FZ_record, g->num_events ? g->events[0] : 0, stream, 0);
        break;
    case 4:
        if (g->m.module[0].live && i % 4 == 3)
            simple(g, FZ_flag, stream, 0, ++g->counter);
        break;
    case 5:
        simple(g, FZ_sync, FZ_POLL_STREAM, stream, 0);
        break;
    default:
        break; /* a loop without any sync point */
    }
}

/* What a loop does to its streams between two iterations, as a function that makes one for itself.
 * One in eight is of another kind than before. The model knows so many streams. */
static void renew(struct gen *g, int stream)
{
    if (stream < FZ_FIRST_STREAM || stream >= FZ_STREAMS || g->m.clocks == FZ_CLOCKS ||
        !g->m.stream[stream].live)
        return;
    int kind = g->m.stream[stream].kind;
    if (chance(g, 15)) { /* it certainly works */
        struct fz_op op = {.thread = (uint8_t)g->thread};
        make_leave(g, &op, stream);
        emit(g, &op);
        return;
    }
    if (chance(g, 60)) /* else it may end while it works */
        simple(g, FZ_sync, FZ_SYNC_STREAM, stream, 0);
    if (simple(g, FZ_unstream, stream, 0, 0) &&
        !simple(g, FZ_stream, stream, chance(g, 12) ? below(g, 4) : kind, 0))
        simple(g, FZ_stream, stream, kind, 0);
}

/* Another stream that can be captured; `stream` itself where there is none. */
static int pick_second(struct gen *g, int stream)
{
    for (int i = 0; i < 8; i++) {
        int other = pick_stream(g);
        if (other >= FZ_FIRST_STREAM && other != stream)
            return other;
    }
    return stream;
}

/* An event of this thread's, most often a new one without timing. `*next` goes around them. */
static int event_of_fork(struct gen *g, int *next_event)
{
    int slot = g->events[(*next_event)++ % g->num_events];
    if (chance(g, 80) && simple(g, FZ_unevent, slot, 0, 0))
        simple(g, FZ_event, slot, 1, 0);
    return slot;
}

/* A stream of this thread's, most often a new one of the origin's kind. */
static int side_of_fork(struct gen *g, int origin)
{
    int slot = pick_second(g, origin), kind = g->m.stream[origin].kind;
    if (g->streams[0] < 2 && origin >= 2 && chance(g, 10))
        return g->streams[0]; /* the legacy stream */
    if (slot != origin && slot >= FZ_FIRST_STREAM && chance(g, 70) &&
        simple(g, FZ_unstream, slot, 0, 0))
        simple(g, FZ_stream, slot, origin < FZ_FIRST_STREAM ? 1 : kind, 0);
    return slot;
}

enum { SIDES = 2 };

/* Streams that fork and join. */
struct fork {
    int origin, sides, side[SIDES], other; /* `other` has no part in it */
    int forked, joined[SIDES], crossed;    /* events */
    int buf;                               /* that ops of all of them write */
    bool together, backwards,
        late;           /* all records come first, in the other order, before more work */
    struct item after;  /* that work */
    bool orderly;       /* the records and waits alone order the work, which would not race: */
    int own[SIDES + 1]; /* each stream writes its own buffer, the origin's first ... */
    int shared;         /* ... and the origin this one where it has joined the sides */
    int records, far;   /* how an event is recorded elsewhere, behind work on this buffer */
};

/* A launch whose result depends on what `from` holds by then. */
static void reads(struct gen *g, int stream, int into, int from)
{
    struct fz_op op = {.kind = FZ_launch,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, FZ_JOIN, first_module(g), FZ_PARAMS, 0, into, 0, from, 0, 1}};
    emit(g, &op);
}

static void join_sides(struct gen *g, struct fork *f, int i)
{
    for (int n = 0; n < f->sides; n++) {
        simple(g, FZ_record, f->joined[n], f->side[n], 0);
        if (f->late)
            run_item(g, &f->after, i, 0);
        if (!f->together)
            simple(g, FZ_wait, f->origin, f->joined[n], 0);
    }
    for (int n = 0; n < f->sides && f->together; n++) {
        int side = f->backwards ? f->sides - 1 - n : n;
        simple(g, FZ_wait, f->origin, f->joined[side], 0);
        if (f->orderly) /* before it waits for the next */
            reads(g, f->origin, f->shared, f->own[side + 1]);
    }
    for (int n = 0; n < f->sides && f->orderly && !f->together; n++)
        reads(g, f->origin, f->shared, f->own[n + 1]);
}

/* The host looks at the buffer itself or, where it cannot, by a read in that stream. */
static void look_at(struct gen *g, int stream, int buf)
{
    struct fz_op op = {.kind = FZ_read,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, buf, 0, words_to_read(g, buf), 0}};
    if (g->m.buf[buf].kind != FZ_DEVICE) {
        op.kind = FZ_peek;
        op.a[0] = buf;
    }
    emit(g, &op);
}

/* What the fork wrote is looked at, as a rule from a stream that has no part in the fork. */
static void look_at_fork(struct gen *g, const struct fork *f)
{
    look_at(g, f->other, f->buf);
}

/* A graph that waits for an event (+ 1) first and records one last; 0: none. */
static bool graph_of_events(struct gen *g, int graph, int buf, int waits, int records)
{
    struct fz_op op = {.kind = FZ_build,
                       .thread = (uint8_t)g->thread,
                       .a = {graph, pick_module(g), between(g, 1, 3), buf, 5, waits, records}};
    simple(g, FZ_ungraph, graph, 0, 0);
    return emit(g, &op) && simple(g, FZ_inst, graph, 0, 0);
}

static void launch_graph(struct gen *g, int graph, int stream)
{
    struct fz_op op = {.kind = FZ_glaunch, .thread = (uint8_t)g->thread, .a = {graph, stream}};
    emit(g, &op);
}

/* Every time it is another graph, so that the event may end meanwhile. */
static void graph_meets_fork(struct gen *g, const struct fork *f, int event)
{
    int graph = below(g, FZ_GRAPHS);
    if (!graph_of_events(g, graph, f->buf, event + 1, 0))
        return;
    launch_graph(g, graph, f->other);
    look_at_fork(g, f);
    simple(g, FZ_ungraph, graph, 0, 0);
}

/* A launch that writes only this buffer. */
static void writes(struct gen *g, int stream, int buf)
{
    struct fz_op op = {.kind = FZ_launch,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, FZ_MIX, first_module(g), FZ_PARAMS, 0, buf, 0, buf, 0, 2}};
    emit(g, &op);
}

/* A graph that is captured, and records the event behind a launch. */
static bool captured_record(struct gen *g, int graph, int stream, int event)
{
    simple(g, FZ_ungraph, graph, 0, 0);
    unsigned int toucher = g->m.graph[graph].toucher;
    if (g->m.graph[graph].live || (toucher && toucher != g->thread + 1) ||
        !simple(g, FZ_begin, stream, 2, 0))
        return false;
    writes(g, stream, pick_buf(g));
    bool records = simple(g, FZ_record, event, stream, 2);
    return simple(g, FZ_end, stream, graph, 0) && simple(g, FZ_inst, graph, 0, 0) && records;
}

enum { BY_STREAM, BY_CONTEXT, BY_GRAPH, BY_LAUNCH, BY_CAPTURE, RECORDS };

/* The event is recorded behind work elsewhere, and waited for. */
static void records_elsewhere(struct gen *g, const struct fork *f, int event)
{
    int graph = below(g, FZ_GRAPHS);
    struct fz_op op = {.thread = (uint8_t)g->thread};
    simple(g, FZ_slow, f->other, first_module(g), 400);
    writes(g, f->other, f->far);
    if (f->records == BY_CONTEXT) {
        simple(g, FZ_ctxrecord, event, 0, 0);
    } else if (f->records == BY_CAPTURE && captured_record(g, graph, f->other, event)) {
        launch_graph(g, graph, f->other);
    } else if (f->records == BY_GRAPH && graph_of_events(g, graph, f->far, 0, event + 1)) {
        launch_graph(g, graph, f->other);
    } else if (f->records == BY_LAUNCH) {
        make_fire(g, &op, f->other, -1, event);
        emit(g, &op);
    } else {
        simple(g, FZ_record, event, f->other, 0);
    }
    simple(g, FZ_wait, f->origin, event, 0);
    reads(g, f->origin, f->shared, f->far);
    simple(g, FZ_ungraph, graph, 0, 0);
}

/* Something meets the events of a fork, or its streams, from outside. */
static void meet_fork(struct gen *g, struct fork *f, int way, int i)
{
    int event = chance(g, 70) ? f->joined[f->sides - 1] : f->forked, side = f->side[0];
    struct fz_op op = {.thread = (uint8_t)g->thread};
    switch (way) {
    case 0:
        simple(g, FZ_sync, FZ_SYNC_EVENT, event, 0);
        look_at_fork(g, f);
        break;
    case 1:
        simple(g, FZ_sync, FZ_POLL_EVENT, event, 0);
        look_at_fork(g, f);
        break;
    case 2:
        simple(g, FZ_query, FZ_SYNC_EVENT, event, 0);
        break;
    case 3:
        simple(g, FZ_wait, f->other, event, 0);
        look_at_fork(g, f);
        break;
    case 4: /* recorded elsewhere, behind work there */
        make_launch(g, &op, f->other);
        emit(g, &op);
        simple(g, FZ_record, event, f->other, 0);
        if (i & 1)
            run_item(g, &f->after, i, 0);
        simple(g, FZ_sync, FZ_SYNC_EVENT, event, 0);
        break;
    case 5:
        if (simple(g, FZ_unevent, event, 0, 0))
            simple(g, FZ_event, event, 1, 0);
        break;
    case 6: /* a call that is no op, on a branch */
        op = (struct fz_op){.kind = FZ_read,
                            .thread = (uint8_t)g->thread,
                            .a = {side, f->buf, 0, words_to_read(g, f->buf), 0}};
        emit(g, &op);
        break;
    case 7:
        if (side >= FZ_FIRST_STREAM && simple(g, FZ_unstream, side, 0, 0))
            simple(g, FZ_stream, side, g->m.stream[side].kind, 0);
        break;
    case 8: /* the branch alone */
        run_item(g, &f->after, i, 0);
        if (i & 2) /* else the order with the legacy stream may be enough */
            simple(g, FZ_sync, i & 1 ? FZ_SYNC_STREAM : FZ_POLL_STREAM, side, 0);
        look_at_fork(g, f);
        break;
    case 9: /* the branch works beside a capture */
        if (simple(g, FZ_begin, f->other, 2, 0)) {
            run_item(g, &f->after, i, 0);
            simple(g, FZ_end, f->other, 0, 0);
            simple(g, FZ_ungraph, 0, 0, 0);
        }
        break;
    case 10: /* a launch that no graph may have */
        op = f->after.op;
        op.a[3] = i & 1 ? FZ_COOP : FZ_EX_COOP;
        emit(g, &op);
        break;
    case 11: /* it goes on for so long before the next iteration */
        for (int n = between(g, 1, 3); n > 0; n--)
            run_item(g, &f->after, i, 0);
        break;
    case 12:
        simple(g, FZ_ctxwait, event, 0, 0);
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

/* Two or three streams that fork and join in each iteration, with ops of all of them between.
 * Returns the number of ops that it made. */
static unsigned int fork_loop(struct gen *g, unsigned int budget)
{
    enum { LENGTH = 14, WAYS = 12, OTHERS = 6 };
    struct item body[LENGTH];
    size_t before = g->p->count;
    int event = below(g, g->num_events);
    struct fork f = {.origin = pick_stream(g), .forked = event_of_fork(g, &event)};
    int length = between(g, 1, LENGTH), iterations = (int)budget / (length + 4) + 2;
    int late = below(g, length), again = chance(g, 30) ? late : -1;
    f.sides = chance(g, 35) ? 1 : SIDES;
    for (int i = 0; i < f.sides; i++) {
        for (int tries = 0; tries < 4 && (!tries || (i && f.side[i] == f.side[0])); tries++)
            f.side[i] = side_of_fork(g, f.origin);
        f.joined[i] = event_of_fork(g, &event);
    }
    f.other = pick_stream(g);
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
    f.records = below(g, RECORDS);
    f.far = pick_buf(g);
    int crosses = f.sides > 1 && chance(g, 50) ? below(g, length) : -1;
    memset(&f.after, 0, sizeof f.after);
    make_launch(g, &f.after.op, f.side[0]);
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
            make_launch(g, &body[k].op, stream);
        else
            make_op(g, &body[k].op, stream);
        body[k].op.thread = (uint8_t)g->thread;
        body[k].rule = chance(g, 30) ? (enum rule)below(g, f.orderly ? MOVES : RULES) : SAME;
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
                simple(g, FZ_record, f.forked, f.origin, 0);
            for (int n = 0; n < f.sides && (k == 0 || k == again); n++)
                simple(g, FZ_wait, f.side[n], f.forked, 0);
            if (anew && (k == 0 || k == again) && simple(g, FZ_unevent, f.forked, 0, 0))
                simple(g, FZ_event, f.forked, 1, 0);
            for (int n = 0; n < f.sides && k == 0 && f.orderly; n++)
                reads(g, f.side[n], f.own[n + 1], f.shared);
            if (k == crosses) { /* one side waits for the other */
                simple(g, FZ_record, f.crossed, f.side[0], 0);
                simple(g, FZ_wait, f.side[1], f.crossed, 0);
                if (f.orderly)
                    reads(g, f.side[1], f.own[2], f.own[1]);
            }
            run_item(g, &body[k], i, mutations);
        }
        if (!(i % 9 == 8 && leaves_out))
            join_sides(g, &f, i);
        if (meets >= 0 && i % period == period - 1)
            meet_fork(g, &f, meets, i);
        end_of_iteration(g, way, chance(g, 70) ? f.origin : f.side[0], f.buf, i);
        if (renews && i % period == 0) {
            renew(g, f.origin);
            for (int n = 0; n < f.sides && i & 1; n++)
                renew(g, f.side[n]);
        }
    }
    return (unsigned int)(g->p->count - before);
}

/* One stream fills buffers in turn, and another reads each of them in that or a later turn. Each
 * buffer has two events: that it is full, and that it may be filled again. So most waits are for a
 * record behind which others have come. */
enum { MOST_AHEAD = 3 };

struct ahead {
    int from, to, buffers, lag, into;
    int buf[MOST_AHEAD], full[MOST_AHEAD], empty[MOST_AHEAD];
    bool early[2]; /* it waits right behind its record for what it needs in the next turn */
};

static void fills(struct gen *g, const struct ahead *a, int turn)
{
    int n = turn % a->buffers, next = (turn + 1) % a->buffers;
    if (!a->early[0])
        simple(g, FZ_wait, a->from, a->empty[n], 0);
    writes(g, a->from, a->buf[n]);
    simple(g, FZ_record, a->full[n], a->from, 0);
    if (a->early[0])
        simple(g, FZ_wait, a->from, a->empty[next], 0);
}

/* Which buffer is read in that turn. */
static int read_in(const struct ahead *a, int turn)
{
    return (turn + a->buffers - a->lag) % a->buffers;
}

static void empties(struct gen *g, const struct ahead *a, int turn)
{
    int n = read_in(a, turn), next = (n + 1) % a->buffers;
    if (!a->early[1])
        simple(g, FZ_wait, a->to, a->full[n], 0);
    reads(g, a->to, a->into, a->buf[n]);
    simple(g, FZ_record, a->empty[n], a->to, 0);
    if (a->early[1])
        simple(g, FZ_wait, a->to, a->full[next], 0);
}

/* Returns the number of ops that it made. */
static unsigned int ahead_loop(struct gen *g, unsigned int budget)
{
    size_t before = g->p->count;
    int most = g->num_events / 2 < MOST_AHEAD ? g->num_events / 2 : MOST_AHEAD;
    int event = below(g, g->num_events), buf = below(g, g->num_bufs);
    struct ahead a = {.from = pick_stream(g)};
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
    int asks = chance(g, 50) ? between(g, 3, 20) : 0, other = pick_stream(g);
    int how = chance(g, 70) ? FZ_POLL_EVENT : FZ_SYNC_EVENT;
    int way = chance(g, 70) ? -1 : below(g, 6), odd = chance(g, 60) ? 0 : between(g, 1, 6);
    /* enough turns for records that are kept back: the first 64 of a fork are not */
    for (int turn = 0; turn < (int)budget / 4 + 2; turn++) {
        fills(g, &a, turn);
        if (chance(g, odd)) {
            make_op(g, &op, chance(g, 50) ? a.from : a.to);
            emit(g, &op);
        }
        empties(g, &a, turn);
        if (chance(g, asks)) {
            simple(g, FZ_sync, how, a.empty[read_in(&a, turn)], 0);
            look_at(g, other, a.into);
        }
        end_of_iteration(g, way, a.to, a.into, turn);
    }
    return (unsigned int)(g->p->count - before);
}

/* Returns the number of ops that it made. */
static unsigned int loop(struct gen *g, unsigned int budget)
{
    if (fz_limits.forks && g->num_events && chance(g, 70))
        return g->num_events > 3 && g->num_bufs > 2 && chance(g, 20) ? ahead_loop(g, budget)
                                                                     : fork_loop(g, budget);
    struct item body[MAX_BODY];
    size_t before = g->p->count;
    int length = chance(g, 15) ? between(g, 20, 40) : between(g, 1, 12);
    int iterations = between(g, 6, 40);
    if ((unsigned int)(length * iterations) > budget)
        iterations = (int)budget / length + 1;
    bool cycles = g->sets && chance(g, 60);
    if (cycles) { /* as often as it takes to build a graph for each set that can have one */
        length = between(g, 1, 3);
        iterations = (int)budget / length;
    }
    make_body(g, body, length, between(g, 1, chance(g, 60) ? 1 : 3));
    for (int k = 0; cycles && k < length; k++) {
        body[k].rule = CYCLES;
        body[k].sets = g->sets;
    }
    int mutations = chance(g, 50) ? 0 : between(g, 1, 4), way = below(g, 10);
    int stream = fz_op_stream(&body[0].op) >= 0 ? fz_op_stream(&body[0].op) : pick_stream(g);
    int buf = pick_buf(g), exit_at = chance(g, 20) ? below(g, length) : -1;
    int last = fz_op_stream(&body[length - 1].op);
    int anew = g->renews && chance(g, 60) ? between(g, 1, 4) : 0;
    for (int i = 0; i < iterations; i++) {
        bool cut = exit_at >= 0 && (i % 7 == 6);
        for (int k = 0; k < length && !(cut && k == exit_at); k++) {
            if (!body[k].inner) {
                run_item(g, &body[k], i, mutations);
                continue;
            }
            /* the inner count changes now and then */
            int times = body[k].inner + (i % 5 == 4);
            for (int t = 0; t < times; t++)
                for (int n = 0; n < body[k].inner_length && k + n < length; n++)
                    run_item(g, &body[k + n], i, mutations);
            k += body[k].inner_length - 1;
        }
        end_of_iteration(g, way, stream, buf, i);
        if (anew && i % anew == 0) {
            renew(g, stream);
            if (last != stream && i & 1)
                renew(g, last);
        }
    }
    return (unsigned int)(g->p->count - before);
}

/* ---- things that happen between loops --------------------------------------------------- */

static void fresh_buf(struct gen *g, int slot)
{
    int kind = chance(g, 65) ? FZ_DEVICE : chance(g, 60) ? FZ_PINNED : FZ_MANAGED;
    simple(g, FZ_alloc, slot, kind,
           chance(g, 20) ? between(g, 100, FZ_MAX_WORDS) : between(g, 16, 64));
}

/* The program's own capture: some ops on one stream, perhaps others beside it, and the graph in use
 * from then on. */
static void own_graph(struct gen *g, int graph)
{
    struct fz_op op;
    int stream = pick_stream(g), launches = between(g, 1, 6);
    if (g->m.graph[graph].live)
        simple(g, FZ_ungraph, graph, 0, 0);
    if (chance(g, 60)) {
        if (!simple(g, FZ_begin, stream, below(g, 3), 0))
            return;
        int second = pick_second(g, stream);
        bool forks = chance(g, 40) && simple(g, FZ_fork, stream, second, 0);
        for (int i = between(g, 1, forks ? 12 : 6); i > 0; i--) {
            int other = forks ? second : pick_stream(g);
            if (chance(g, 8))
                simple(g, FZ_record, pick_event(g), stream, 2);
            if (chance(g, 8))
                simple(g, FZ_wait, stream, pick_event(g), 2);
            make_op(g, &op, chance(g, forks ? 50 : 80) ? stream : other);
            emit(g, &op);
        }
        if (forks)
            simple(g, FZ_merge, stream, second, 0);
        simple(g, FZ_end, stream, graph, 0);
    } else {
        op = (struct fz_op){.kind = FZ_build,
                            .thread = (uint8_t)g->thread,
                            .a = {graph, pick_module(g), between(g, 1, 6), pick_buf(g), 5,
                                  chance(g, 30) ? pick_event(g) + 1 : 0,
                                  chance(g, 30) ? pick_event(g) + 1 : 0}};
        emit(g, &op);
    }
    if (!simple(g, FZ_inst, graph, 0, 0))
        return;
    for (int i = 0; i < launches; i++) {
        struct fz_op launch = {
            .kind = FZ_glaunch, .thread = (uint8_t)g->thread, .a = {graph, pick_stream(g)}};
        make_op(g, &op, launch.a[1]);
        emit(g, &op);
        emit(g, &launch);
        if (chance(g, 40)) {
            op = (struct fz_op){.kind = FZ_gupdate,
                                .thread = (uint8_t)g->thread,
                                .a = {graph, pick_module(g), 0, below(g, 100), below(g, 2)}};
            emit(g, &op);
        }
    }
}

/* The same ops again and again, partly inside a capture of the program's own. Either from the
 * start, or once they are known well, from their first: what would then be deferred is in the
 * capture. */
static void repeated_capture(struct gen *g, int graph)
{
    struct fz_op body[8];
    int stream = pick_stream(g), length = between(g, 2, 8);
    int begin = below(g, length), end = between(g, begin, length), mode = below(g, 3);
    int times = between(g, 6, 30), skip = below(g, 8);
    bool pauses = chance(g, 30), settles = chance(g, 50);
    int second = chance(g, 40) ? pick_second(g, stream) : stream;
    if (settles) {
        stream = stream < FZ_FIRST_STREAM ? pick_second(g, stream) : stream;
        begin = 0;
        end = between(g, 1, length);
        times = between(g, 16, 30);
    }
    if (g->m.graph[graph].live)
        simple(g, FZ_ungraph, graph, 0, 0);
    for (int i = 0; i < length; i++)
        make_launch(g, memset(&body[i], 0, sizeof body[i]), i & 1 ? second : stream);
    for (int i = 0; i < times; i++) {
        /* now and then without the capture, so that what is inside is known as work too */
        bool captures = i % 4 != skip && (!settles || i >= times / 2);
        for (int k = 0; k <= length; k++) {
            if (k == begin && captures) {
                simple(g, FZ_begin, stream, mode, 0);
                simple(g, FZ_fork, stream, second, 0); /* illegal where they are one */
                if (pauses)                            /* long enough for the watchdog to look */
                    simple(g, FZ_pause, 1200, 0, 0);
            }
            if (k == end && captures) {
                simple(g, FZ_merge, stream, second, 0);
                simple(g, FZ_end, stream, graph, 0);
                simple(g, FZ_inst, graph, 0, 0);
                simple(g, FZ_glaunch, graph, stream, 0);
                simple(g, FZ_ungraph, graph, 0, 0);
            }
            body[k % length].thread = (uint8_t)g->thread;
            if (k < length)
                emit(g, &body[k]);
        }
        if (settles || (i & 1))
            simple(g, FZ_sync, FZ_SYNC_STREAM, stream, 0);
    }
}

/* Two streams that an event puts in order, again and again, in one of the ways that are not a
 * record and a wait in a stream. */
struct order {
    int from, to, event, buf, into;
    int graph[2]; /* that record and that wait */
    int records, waits;
    bool renews; /* the first stream ends in between */
};

static void put_in_order(struct gen *g, const struct order *o, int i)
{
    struct fz_op op = {.thread = (uint8_t)g->thread};
    if (o->records == BY_STREAM) {
        simple(g, FZ_record, o->event, o->from, 0);
    } else if (o->records == BY_CONTEXT) {
        simple(g, FZ_ctxrecord, o->event, 0, 0);
    } else if (o->records == BY_GRAPH) {
        launch_graph(g, o->graph[0], o->from);
    } else {
        make_fire(g, &op, o->from, chance(g, 50) ? pick_buf(g) : -1, o->event);
        emit(g, &op);
    }
    if (o->renews && i % 4 == 3)
        renew(g, o->from);
    if (o->waits == BY_STREAM)
        simple(g, FZ_wait, o->to, o->event, 0);
    else if (o->waits == BY_CONTEXT)
        simple(g, FZ_ctxwait, o->event, 0, 0);
    else
        launch_graph(g, o->graph[1], o->to);
    reads(g, o->to, o->into, o->buf);
}

static void other_orders(struct gen *g)
{
    struct order o = {.from = pick_stream(g),
                      .to = pick_stream(g),
                      .event = pick_event(g),
                      .buf = pick_buf(g),
                      .into = pick_buf(g),
                      .records = below(g, 4),
                      .waits = below(g, 3),
                      .renews = chance(g, 30)};
    struct item body[4];
    int length = between(g, 1, 4), iterations = between(g, 4, 24), way = below(g, 10);
    o.graph[0] = below(g, FZ_GRAPHS);
    o.graph[1] = (o.graph[0] + 1) % FZ_GRAPHS;
    if (simple(g, FZ_unevent, o.event, 0, 0))
        simple(g, FZ_event, o.event, 1, 0);
    if (o.records == BY_GRAPH && !graph_of_events(g, o.graph[0], o.buf, 0, o.event + 1))
        return;
    if (o.waits == BY_GRAPH && !graph_of_events(g, o.graph[1], o.into, o.event + 1, 0))
        return;
    memset(body, 0, sizeof body);
    for (int k = 0; k < length; k++) {
        make_launch(g, &body[k].op, o.from);
        body[k].op.thread = (uint8_t)g->thread;
        body[k].op.a[5] = body[k].op.a[7] = o.buf;
        body[k].op.a[6] = body[k].op.a[8] = 0;
        body[k].rule = chance(g, 30) ? COUNTS : SAME;
    }
    for (int i = 0; i < iterations; i++) {
        if (i % 4 == 3)
            simple(g, FZ_slow, o.from, first_module(g), 400);
        for (int k = 0; k < length; k++)
            run_item(g, &body[k], i, 0);
        put_in_order(g, &o, i);
        end_of_iteration(g, way, o.to, o.into, i);
    }
}

/* Until what the streams leave behind is known. */
static void leave_often(struct gen *g)
{
    struct fz_op op = {.thread = (uint8_t)g->thread};
    int slot = pick_stream(g);
    if (slot < FZ_FIRST_STREAM)
        return;
    make_leave(g, &op, slot);
    for (int i = between(g, 3, 6); i > 0; i--)
        emit(g, &op);
}

static void gate_context(struct gen *g)
{
    int stream = pick_stream(g);
    struct fz_op op = {.kind = FZ_ctxgate,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, pick_second(g, stream), pick_event(g), pick_buf(g),
                             pick_module(g), between(g, 2, 8), between(g, 0, 5)}};
    for (int i = between(g, 1, 4); i > 0; i--)
        emit(g, &op);
}

static void collect(struct gen *g)
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

/* Something that the loops' sequences may depend on changes. */
static void upheaval(struct gen *g)
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
        make_jam(g, &op, pick_stream(g));
        for (int i = between(g, 4, 8); i > 0; i--)
            emit(g, &op);
        break;
    case 11:
        simple(g, FZ_awayend, below(g, 2), 0, 0);
        break;
    case 10:
        op = (struct fz_op){.kind = FZ_context,
                            .thread = (uint8_t)g->thread,
                            .a = {pick_buf(g), between(g, 3, 8), between(g, 2, 12), below(g, 9),
                                  fz_limits.real ? 0 : below(g, FZ_CONTEXTS)}};
        for (int i = between(g, 1, 3); i > 0; i--)
            emit(g, &op);
        break;
    case 9:
        repeated_capture(g, below(g, FZ_GRAPHS));
        break;
    case 0: /* freed and allocated again: the same address, as a rule */
        slot = pick_buf(g);
        if (simple(g, FZ_free, slot, chance(g, 30), pick_stream(g)))
            fresh_buf(g, slot);
        break;
    case 1:
        slot = between(g, FZ_FIRST_STREAM, FZ_STREAMS - 1);
        for (int i = 0; fz_limits.real && !g->m.stream[slot].live && i < 8; i++)
            slot = between(g, FZ_FIRST_STREAM, FZ_STREAMS - 1);
        simple(g, FZ_unstream, slot, 0, 0);
        simple(g, FZ_stream, slot, below(g, 4), 0);
        break;
    case 2:
        slot = pick_module(g);
        if (simple(g, FZ_unload, slot, 0, 0))
            simple(g, FZ_load, slot, below(g, 2), 0);
        break;
    case 3:
        slot = below(g, FZ_EVENTS);
        simple(g, FZ_unevent, slot, 0, 0);
        simple(g, FZ_event, slot, below(g, 2), 0);
        break;
    case 4:
    case 5:
        own_graph(g, below(g, FZ_GRAPHS));
        break;
    case 6:
    case 7:
        for (int i = between(g, 1, 12), how = below(g, 3), n = between(g, 1, 8); i > 0; i--) {
            simple(g, FZ_away, how, n, i & 1);
            if (chance(g, 40))
                simple(g, FZ_awayread, 0, 0, 0);
        }
        break;
    default:
        simple(g, FZ_misc, below(g, FZ_MISCS), pick_module(g), 0);
        break;
    }
    collect(g);
}

static void set_up(struct gen *g)
{
    simple(g, FZ_load, 0, chance(g, 30), 0);
    if (chance(g, 50))
        simple(g, FZ_load, 1, below(g, 2), 0);
    for (int i = between(g, 1, 6); i > 0; i--)
        simple(g, FZ_stream, FZ_FIRST_STREAM - 1 + i, below(g, 4), 0);
    for (int i = between(g, 2, FZ_EVENTS); i > 0; i--)
        simple(g, FZ_event, i - 1, below(g, 2), 0);
    for (int i = between(g, 3, FZ_BUFS); i > 0; i--)
        fresh_buf(g, i - 1);
    simple(g, FZ_sync, FZ_SYNC_CTX, 0, 0);
}

/* A phase of several threads: everything is dealt out among them. */
static void deal_and_run(struct gen *g, unsigned int threads)
{
    struct gen all;
    simple(g, FZ_barrier, 0, 0, 0);
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
                repeated_capture(g, (int)t);
            loop(g, g->target / 8 + 20);
            if (captures)
                own_graph(g, (int)t);
        }
    }
    g->thread = 0;
    simple(g, FZ_barrier, 0, 0, 0);
    collect(g);
}

void fz_generate(struct fz_program *p, const struct fz_shape_of_program *how)
{
    struct gen *g = calloc(1, sizeof *g);
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
        if (chance(g, 45))
            upheaval(g);
        if (traps && p->count > g->target * 3 / 4) {
            struct fz_op op = {.kind = FZ_trap,
                               .a = {pick_stream(g), pick_buf(g), pick_module(g), between(g, 1, 12),
                                     below(g, FZ_TRAPS)}};
            traps = !emit(g, &op);
        }
        if (threads > 1 && chance(g, 70))
            deal_and_run(g, threads);
        else
            loop(g, g->target / 2 + 20);
    }
    if (threads > 1) {
        g->thread = threads - 1; /* so that all of them exist, whatever was dealt */
        simple(g, FZ_barrier, 0, 0, 0);
    }
    free(g);
}
