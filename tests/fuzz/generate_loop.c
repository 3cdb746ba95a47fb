/* generate_loop.c - loops over a body of ops, and what an iteration of any loop is made of. */
#include "tests/fuzz/generate_loop.h"
#include <string.h>

enum { MAX_BODY = 48 };

static struct fz_op at_iteration(const struct fz_item *item, int i)
{
    struct fz_op op = item->op;
    if (op.kind == FZ_stale && i % 8 == 7)
        op.a[3] = 0;
    int32_t *k = op.kind == FZ_launch ? &op.a[9] : op.kind == FZ_fill ? &op.a[6] : NULL;
    if (op.kind == FZ_upload)
        k = &op.a[4];
    switch (item->rule) {
    case FZ_COUNTS:
        if (k)
            *k += i;
        break;
    case FZ_ALTERNATES:
        if (k)
            *k += i & 1;
        break;
    case FZ_STEPS:
        if (k)
            *k += i / 5;
        break;
    case FZ_CYCLES:
        if (k)
            *k += i % item->sets;
        break;
    case FZ_MOVES:
        if (op.kind == FZ_launch)
            op.a[6] = (op.a[6] + i) % 8;
        break;
    case FZ_SWAPS:
        if (op.kind == FZ_launch && (i & 1)) {
            op.a[5] = item->op.a[7];
            op.a[7] = item->op.a[5];
            op.a[6] = op.a[8] = 0;
        }
        break;
    case FZ_RESHAPES:
        if (op.kind == FZ_launch && i % 6 == 5)
            op.a[4] = (op.a[4] + 1) % FZ_SHAPES;
        break;
    case FZ_GROWS:
        op.a[4] = FZ_SHAPES + (item->first + i * 2 + (i % 7 == 6)) % FZ_GRIDS;
        break;
    case FZ_SAME:
    case FZ_RULES:
        break;
    }
    return op;
}

static void make_body(struct fz_gen *g, struct fz_item *body, int length, int streams)
{
    int own[3];
    for (int i = 0; i < 3; i++)
        own[i] = fz_pick_stream(g);
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
        fz_make_op(g, &body[i].op, own[below(g, streams)]);
        body[i].rule = changing && chance(g, 40) ? (enum fz_rule)below(g, FZ_RULES) : FZ_SAME;
        if (g->grows && body[i].op.kind == FZ_launch && chance(g, 30)) {
            body[i].rule = FZ_GROWS;
            body[i].first = below(g, FZ_GRIDS);
        }
    }
    if (!g->threads && chance(g, 12)) { /* memory that comes and goes */
        int at = below(g, length), buf = fz_pick_buf(g);
        body[at].op = (struct fz_op){.kind = FZ_alloc,
                                     .thread = (uint8_t)g->thread,
                                     .a = {buf, g->m.buf[buf].kind, fz_words_of(g, buf)}};
        body[at].rule = FZ_SAME;
    }
    if (length > 1 && chance(g, 8))
        body[below(g, length)].op = (struct fz_op){
            .kind = FZ_pause, .thread = (uint8_t)g->thread, .a = {chance(g, 70) ? 30 : 600}};
    if (length > 6 && chance(g, 30)) {
        int at = below(g, length - 4);
        body[at].inner_length = between(g, 1, 3);
        body[at].inner = between(g, 2, 4);
    }
}

void fz_run_item(struct fz_gen *g, struct fz_item *item, int i, int mutations)
{
    if (mutations && chance(g, mutations)) {
        struct fz_op other;
        switch (below(g, 4)) {
        case 0: /* left out */
            return;
        case 1: /* one more before it */
            fz_make_op(g, &other, fz_pick_stream(g));
            fz_emit(g, &other);
            break;
        case 2: /* different this once */
            fz_make_op(g, &other,
                       fz_op_stream(&item->op) >= 0 ? fz_op_stream(&item->op) : fz_pick_stream(g));
            fz_emit(g, &other);
            return;
        default: /* different from now on */
            fz_make_op(g, &other,
                       fz_op_stream(&item->op) >= 0 ? fz_op_stream(&item->op) : fz_pick_stream(g));
            item->op = other;
            break;
        }
    }
    struct fz_op op = at_iteration(item, i);
    if (op.kind == FZ_alloc) /* in a loop: the slot's memory is freed first */
        fz_simple(g, FZ_free, op.a[0], 0, 0);
    fz_emit(g, &op);
}

void fz_end_of_iteration(struct fz_gen *g, int way, int stream, int buf, int i)
{
    int words = fz_limits.real && g->m.buf[buf].live ? fz_words_of(g, buf) : 1;
    struct fz_op op = {
        .kind = FZ_read, .thread = (uint8_t)g->thread, .a = {stream, buf, 0, words, 0}};
    switch (way) {
    case 0:
        fz_simple(g, FZ_sync, FZ_SYNC_STREAM, stream, 0);
        break;
    case 1:
        fz_simple(g, FZ_sync, FZ_SYNC_CTX, 0, 0);
        break;
    case 2:
        if (g->m.buf[buf].kind == FZ_PINNED)
            op.kind = FZ_peek, op.a[0] = buf;
        fz_emit(g, &op);
        break;
    case 3:
        fz_simple(g, FZ_record, g->num_events ? g->events[0] : 0, stream, 0);
        break;
    case 4:
        if (g->m.module[0].live && i % 4 == 3)
            fz_simple(g, FZ_flag, stream, 0, ++g->counter);
        break;
    case 5:
        fz_simple(g, FZ_sync, FZ_POLL_STREAM, stream, 0);
        break;
    default:
        break; /* a loop without any sync point */
    }
}

/* What a loop does to its streams between two iterations, as a function that makes one for itself.
 * One in eight is of another kind than before. The model knows so many streams. */
void fz_renew(struct fz_gen *g, int stream)
{
    if (stream < FZ_FIRST_STREAM || stream >= FZ_STREAMS || g->m.clocks == FZ_CLOCKS ||
        !g->m.stream[stream].live)
        return;
    int kind = g->m.stream[stream].kind;
    if (chance(g, 15)) { /* it certainly works */
        struct fz_op op = {.thread = (uint8_t)g->thread};
        fz_make_leave(g, &op, stream);
        fz_emit(g, &op);
        return;
    }
    if (chance(g, 60)) /* else it may end while it works */
        fz_simple(g, FZ_sync, FZ_SYNC_STREAM, stream, 0);
    if (fz_simple(g, FZ_unstream, stream, 0, 0) &&
        !fz_simple(g, FZ_stream, stream, chance(g, 12) ? below(g, 4) : kind, 0))
        fz_simple(g, FZ_stream, stream, kind, 0);
}

void fz_body_loop(struct fz_gen *g, unsigned int budget)
{
    struct fz_item body[MAX_BODY];
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
        body[k].rule = FZ_CYCLES;
        body[k].sets = g->sets;
    }
    int mutations = chance(g, 50) ? 0 : between(g, 1, 4), way = below(g, 10);
    int stream = fz_op_stream(&body[0].op) >= 0 ? fz_op_stream(&body[0].op) : fz_pick_stream(g);
    int buf = fz_pick_buf(g), exit_at = chance(g, 20) ? below(g, length) : -1;
    int last = fz_op_stream(&body[length - 1].op);
    int anew = g->renews && chance(g, 60) ? between(g, 1, 4) : 0;
    for (int i = 0; i < iterations; i++) {
        bool cut = exit_at >= 0 && (i % 7 == 6);
        for (int k = 0; k < length && !(cut && k == exit_at); k++) {
            if (!body[k].inner) {
                fz_run_item(g, &body[k], i, mutations);
                continue;
            }
            /* the inner count changes now and then */
            int times = body[k].inner + (i % 5 == 4);
            for (int t = 0; t < times; t++)
                for (int n = 0; n < body[k].inner_length && k + n < length; n++)
                    fz_run_item(g, &body[k + n], i, mutations);
            k += body[k].inner_length - 1;
        }
        fz_end_of_iteration(g, way, stream, buf, i);
        if (anew && i % anew == 0) {
            fz_renew(g, stream);
            if (last != stream && i & 1)
                fz_renew(g, last);
        }
    }
}
