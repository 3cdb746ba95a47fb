/* generate_emit.c - what there is to pick from, and how ops get into the program. */
#include "tests/fuzz/generate.h"

/* ---- picking ---------------------------------------------------------------------------- */

int fz_pick_stream(struct fz_gen *g)
{
    return g->num_streams ? g->streams[below(g, g->num_streams)] : 0;
}

/* Another stream that can be captured; `stream` itself where there is none. */
int fz_pick_second(struct fz_gen *g, int stream)
{
    for (int i = 0; i < 8; i++) {
        int other = fz_pick_stream(g);
        if (other >= FZ_FIRST_STREAM && other != stream)
            return other;
    }
    return stream;
}

int fz_pick_event(struct fz_gen *g)
{
    return g->num_events ? g->events[below(g, g->num_events)] : 0;
}

int fz_pick_buf(struct fz_gen *g)
{
    return g->num_bufs ? g->bufs[below(g, g->num_bufs)] : 0;
}

int fz_words_of(const struct fz_gen *g, int buf)
{
    return (int)g->m.buf[buf].words;
}

/* Where nobody tells the order of the work, what a read shows has to. */
int fz_words_to_read(struct fz_gen *g, int buf)
{
    int few = between(g, 1, 8);
    return fz_limits.real && g->m.buf[buf].live ? fz_words_of(g, buf) : few;
}

int fz_pick_module(struct fz_gen *g)
{
    int m = below(g, FZ_MODULES);
    for (int i = 0; i < FZ_MODULES; i++)
        if (g->m.module[(m + i) % FZ_MODULES].live)
            return (m + i) % FZ_MODULES;
    return 0;
}

/* The same one every time, so that sequences stay the same. */
int fz_first_module(const struct fz_gen *g)
{
    int m = 0;
    while (m < FZ_MODULES - 1 && !g->m.module[m].live)
        m++;
    return m;
}

/* ---- putting ops into the program ------------------------------------------------------- */

static bool add(struct fz_gen *g, const struct fz_op *op)
{
    unsigned int ignored;
    if (fz_model_step(&g->m, op, &ignored) != FZ_OK)
        return false;
    fz_program_add(g->p, op);
    return true;
}

bool fz_simple(struct fz_gen *g, enum fz_kind kind, int a, int b, int c)
{
    struct fz_op op = {.kind = (uint8_t)kind, .thread = (uint8_t)g->thread, .a = {a, b, c}};
    return add(g, &op);
}

static int slot_of_clock(const struct fz_gen *g, unsigned int clock)
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
bool fz_emit(struct fz_gen *g, const struct fz_op *op)
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
            done = fz_simple(g, FZ_record, event, from, 0) && fz_simple(g, FZ_wait, to, event, 0);
        }
        if (!done && from >= 0 && way < 2)
            done = fz_simple(g, FZ_sync, way ? FZ_POLL_STREAM : FZ_SYNC_STREAM, from, 0);
        if (!done && !fz_simple(g, FZ_sync, FZ_SYNC_CTX, 0, 0))
            return false;
    }
    return false;
}

/* A launch whose result depends on what `from` holds by then. */
void fz_reads(struct fz_gen *g, int stream, int into, int from)
{
    struct fz_op op = {
        .kind = FZ_launch,
        .thread = (uint8_t)g->thread,
        .a = {stream, FZ_JOIN, fz_first_module(g), FZ_PARAMS, 0, into, 0, from, 0, 1}};
    fz_emit(g, &op);
}

/* A launch that writes only this buffer. */
void fz_writes(struct fz_gen *g, int stream, int buf)
{
    struct fz_op op = {.kind = FZ_launch,
                       .thread = (uint8_t)g->thread,
                       .a = {stream, FZ_MIX, fz_first_module(g), FZ_PARAMS, 0, buf, 0, buf, 0, 2}};
    fz_emit(g, &op);
}
