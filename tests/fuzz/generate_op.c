/* generate_op.c - random ops. */
#include "tests/fuzz/generate.h"
#include <string.h>

static int pick_buf_of(struct fz_gen *g, int kind)
{
    for (int i = 0; i < 12; i++) {
        int b = fz_pick_buf(g);
        if (g->m.buf[b].live && g->m.buf[b].kind == kind)
            return b;
    }
    return fz_pick_buf(g);
}

void fz_make_launch(struct fz_gen *g, struct fz_op *op, int stream)
{
    int buf = fz_pick_buf(g), buf2 = fz_pick_buf(g);
    int kernel = chance(g, 50) ? FZ_MIX : below(g, FZ_KERNELS);
    int how = chance(g, 80) ? FZ_PARAMS : below(g, FZ_HOWS);
    op->kind = FZ_launch;
    memcpy(op->a,
           (int32_t[]){stream, kernel, fz_pick_module(g), how, below(g, FZ_SHAPES), buf,
                       below(g, fz_words_of(g, buf) - 8), buf2, below(g, fz_words_of(g, buf2)),
                       below(g, 1000)},
           sizeof op->a);
}

static void make_fill(struct fz_gen *g, struct fz_op *op, int stream)
{
    static const int sizes[] = {1, 2, 4};
    int buf = pick_buf_of(g, FZ_DEVICE), elem = sizes[below(g, 3)];
    int height = chance(g, 25) ? between(g, 2, 4) : 1;
    int room = fz_words_of(g, buf) * 8 / elem;
    int width = between(g, 1, room / (2 * height) > 1 ? room / (2 * height) : 1);
    op->kind = FZ_fill;
    memcpy(op->a,
           (int32_t[]){stream, elem, buf, below(g, room / 4), width, height, below(g, 256),
                       stream < 3 && stream != 1 && chance(g, 10)},
           8 * sizeof op->a[0]);
}

static void make_copy(struct fz_gen *g, struct fz_op *op, int stream)
{
    int how = chance(g, 60) ? FZ_DTOD : below(g, FZ_COPIES);
    int dst = pick_buf_of(g, how == FZ_DTOH ? FZ_PINNED : FZ_DEVICE);
    int src = pick_buf_of(g, how == FZ_HTOD ? FZ_PINNED : FZ_DEVICE);
    int least =
        fz_words_of(g, dst) < fz_words_of(g, src) ? fz_words_of(g, dst) : fz_words_of(g, src);
    op->kind = FZ_copy;
    memcpy(op->a,
           (int32_t[]){stream, dst, below(g, least / 2), src, below(g, least / 2),
                       between(g, 1, least / 2 > 1 ? least / 2 : 1), how},
           7 * sizeof op->a[0]);
}

void fz_make_jam(struct fz_gen *g, struct fz_op *op, int stream)
{
    op->kind = FZ_jam;
    memcpy(op->a,
           (int32_t[]){stream, fz_pick_buf(g), fz_pick_module(g), between(g, 4, 32), below(g, 9)},
           5 * sizeof op->a[0]);
}

static void make_context(struct fz_gen *g, struct fz_op *op)
{
    op->kind = FZ_context;
    memcpy(op->a,
           (int32_t[]){fz_pick_buf(g), between(g, 0, 6), between(g, 2, 12), below(g, 9),
                       below(g, FZ_CONTEXTS)},
           5 * sizeof op->a[0]);
}

/* The new stream is of the old one's kind, with one in eight of another. */
void fz_make_leave(struct fz_gen *g, struct fz_op *op, int slot)
{
    /* a blocking one may wait for graphs of a fork of the legacy stream (docs/limits.md) */
    int old = g->m.stream[slot].kind, kind = chance(g, 12) ? below(g, 4) | (old & 1) : old;
    op->kind = FZ_leave;
    memcpy(op->a,
           (int32_t[]){slot, kind, fz_pick_buf(g), fz_pick_buf(g), fz_pick_module(g),
                       between(g, 2, 8), between(g, 0, 5)},
           7 * sizeof op->a[0]);
}

void fz_make_fire(struct fz_gen *g, struct fz_op *op, int stream, int buf, int event)
{
    op->kind = FZ_fire;
    memcpy(op->a,
           (int32_t[]){stream, fz_pick_module(g), buf, event, below(g, FZ_FIRES), below(g, 9)},
           6 * sizeof op->a[0]);
}

/* Contexts begin, go on and end beside everything else, and a queue fills. */
static void make_rare(struct fz_gen *g, struct fz_op *op, int stream)
{
    switch (below(g, 10)) {
    case 0:
    case 1:
        make_context(g, op);
        break;
    case 2:
        fz_make_jam(g, op, stream);
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
static void make_common(struct fz_gen *g, struct fz_op *op, int stream)
{
    int buf = fz_pick_buf(g);
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
        memcpy(op->a, (int32_t[]){stream, buf, 0, fz_words_to_read(g, buf), below(g, 3)},
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
        op->a[0] = fz_pick_event(g);
        op->a[1] = stream;
        op->a[2] = chance(g, 20);
        break;
    case 10:
        op->kind = FZ_wait;
        op->a[0] = stream;
        op->a[1] = fz_pick_event(g);
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
                   (int32_t[]){stream, buf, fz_pick_module(g), between(g, 1, 12), below(g, 100)},
                   5 * sizeof op->a[0]);
            break;
        }
        op->kind = FZ_misc;
        op->a[0] = below(g, FZ_MISCS);
        op->a[1] = fz_pick_module(g);
        break;
    case 15:
        if (chance(g, 50)) {
            fz_make_fire(g, op, stream, fz_pick_buf(g), fz_pick_event(g));
            break;
        }
        op->kind = chance(g, 50) ? FZ_ctxrecord : FZ_ctxwait;
        op->a[0] = fz_pick_event(g);
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
        op->a[2] = fz_pick_module(g);
        break;
    }
}

void fz_make_op(struct fz_gen *g, struct fz_op *op, int stream)
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
        fz_make_launch(g, op, stream);
}
