/* model_lives.c - ops by which things begin and end: streams, events, memory, modules, contexts. */
#include "tests/fuzz/model_step.h"
#include <string.h>

/* ---- streams and events ---------------------------------------------------------------- */

/* A stream is made or ends. What the legacy stream waits for changes with a blocking one. */
static bool take_slot(const struct fz_step *s, int slot, int kind)
{
    struct fz_model *m = s->m;
    if (!may_touch(s, m->stream[slot].toucher) || (!(kind & 1) && !fz_take_phase(s)))
        return false;
    m->stream[slot].toucher = (uint8_t)(s->thread + 1);
    return true;
}

static void make_stream(const struct fz_step *s, int slot, int kind)
{
    struct fz_model *m = s->m;
    unsigned int c = m->clocks++;
    m->toucher[c] = (uint8_t)(s->thread + 1);
    m->stream[slot].live = true;
    m->stream[slot].capturing = false;
    m->stream[slot].kind = (uint8_t)kind;
    m->stream[slot].clock = (uint8_t)c;
    m->blocking[c] = !(kind & 1);
}

static void end_stream(const struct fz_step *s, int slot)
{
    struct fz_model *m = s->m;
    m->stream[slot].live = false;
    if (fz_limits.real) /* that the legacy stream waits for one that is gone is not promised */
        m->blocking[m->stream[slot].clock] = false;
}

enum fz_legal fz_do_stream(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || slot < FZ_FIRST_STREAM || slot >= FZ_STREAMS ||
        m->stream[slot].live || m->clocks == FZ_CLOCKS || !in_range(s->op->a[1], 4) ||
        !take_slot(s, slot, s->op->a[1]))
        return FZ_ILLEGAL;
    make_stream(s, slot, s->op->a[1]);
    return FZ_OK;
}

enum fz_legal fz_do_unstream(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || slot < FZ_FIRST_STREAM || !stream_usable(s, slot) ||
        !take_slot(s, slot, m->stream[slot].kind))
        return FZ_ILLEGAL;
    end_stream(s, slot);
    return FZ_OK;
}

/* The launches of the stream that ends write one buffer, those of the new one another: these wait
 * for nothing of the old one's. The launch that waits for the host must keep no other thread
 * waiting. */
enum fz_legal fz_do_leave(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* slot kind buf buf2 module n rounds */
    struct fz_model *m = s->m;
    if (m->capturing[s->thread] || m->trapped || a[0] < FZ_FIRST_STREAM ||
        !stream_usable(s, a[0]) || m->clocks == FZ_CLOCKS || !in_range(a[1], 4) ||
        !buf_usable(s, a[2], 0, 1) || !buf_usable(s, a[3], 0, 1) || a[2] == a[3] ||
        !module_usable(s, a[4]) || a[5] < 1 || a[5] > 8 || !in_range(a[6], 9) ||
        !take_slot(s, a[0], m->stream[a[0]].kind & a[1]))
        return FZ_ILLEGAL;
    if (!fz_ordered(s, m->host[s->thread], a[3], true))
        return FZ_RACE;
    enum fz_legal r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[2], true}, 1, a[4]);
    if (r != FZ_OK)
        return r;
    end_stream(s, a[0]);
    make_stream(s, a[0], a[1]);
    r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[3], true}, 1, a[4]);
    fz_host_knows(s, m->stream[a[0]].clock);
    return r;
}

/* Whether a graph has the event in a node, or a launch of one that does may still run. */
static bool graphs_need(const struct fz_step *s, int event)
{
    const struct fz_model *m = s->m;
    bool needed = false;
    for (int i = 0; i < FZ_GRAPHS; i++)
        needed |= m->graph[i].live &&
                  (m->graph[i].waits == event + 1 || m->graph[i].records == event + 1);
    for (int i = 0; i < FZ_CLOCKS; i++)
        needed |= m->host[s->thread][i] < m->event[event].used[i];
    return needed;
}

enum fz_legal fz_do_event(const struct fz_step *s, bool create)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || !in_range(slot, FZ_EVENTS) || m->event[slot].live == create ||
        (!create && graphs_need(s, slot)) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    memset(&m->event[slot], 0, sizeof m->event[slot]);
    m->event[slot].live = create;
    m->event[slot].timed = create && !s->op->a[1];
    return FZ_OK;
}

/* ---- memory and modules ---------------------------------------------------------------- */

enum fz_legal fz_do_alloc(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int buf = s->op->a[0];
    if (m->capturing[s->thread] || !in_range(buf, FZ_BUFS) || m->buf[buf].live ||
        !in_range(s->op->a[1], 3) || s->op->a[2] < 1 || s->op->a[2] > FZ_MAX_WORDS ||
        !fz_take_phase(s))
        return FZ_ILLEGAL;
    uint32_t generation = m->buf[buf].generation + 1;
    memset(&m->buf[buf], 0, sizeof m->buf[buf]);
    m->buf[buf].live = true;
    m->buf[buf].kind = (uint8_t)s->op->a[1];
    m->buf[buf].words = (uint32_t)s->op->a[2];
    m->buf[buf].generation = generation;
    /* filled in the legacy stream, behind everything that it waits for */
    fz_now(s, 0);
    fz_touch(s, 0, &(struct fz_access){(uint8_t)buf, true}, 1);
    return FZ_OK;
}

enum fz_legal fz_do_free(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int buf = s->op->a[0], stream = s->op->a[2];
    if (m->capturing[s->thread] || !buf_usable(s, buf, 0, 1) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    if (fz_limits.real && m->buf[buf].kind == FZ_DEVICE && fz_pooled(buf) != (s->op->a[1] != 0))
        return FZ_ILLEGAL;
    if (s->op->a[1]) {
        if (m->buf[buf].kind != FZ_DEVICE)
            return FZ_ILLEGAL;
        enum fz_legal r = fz_work(s, stream, &(struct fz_access){(uint8_t)buf, true}, 1, -1);
        if (r != FZ_OK)
            return r;
        fz_host_knows(s, clock_of(m, s->thread, stream));
    } else if (!fz_limits.real) {
        fz_host_knows_all(s);
    }
    m->buf[buf].live = false;
    return FZ_OK;
}

enum fz_legal fz_do_load(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || !in_range(slot, FZ_MODULES) || m->module[slot].live ||
        !in_range(s->op->a[1], 2) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    m->module[slot].live = true;
    m->module[slot].generation++;
    return FZ_OK;
}

enum fz_legal fz_do_unload(const struct fz_step *s)
{
    if (s->m->capturing[s->thread] || !module_usable(s, s->op->a[0]) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    s->m->module[s->op->a[0]].live = false;
    return FZ_OK;
}

/* ---- contexts --------------------------------------------------------------------------- */

/* The second device belongs to one thread in a phase. */
static bool takes_away(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    if (fz_limits.real || m->capturing[s->thread] || !may_touch(s, m->away.toucher))
        return false;
    m->away.toucher = (uint8_t)(s->thread + 1);
    return true;
}

enum fz_legal fz_do_away(const struct fz_step *s, bool read)
{
    if (!takes_away(s) || !in_range(s->op->a[0], 3))
        return FZ_ILLEGAL;
    if (read)
        return s->m->away.made ? FZ_OK : FZ_ILLEGAL;
    if (!in_range(s->op->a[1], 17))
        return FZ_ILLEGAL;
    s->m->away.made = true;
    return FZ_OK;
}

enum fz_legal fz_do_awayend(const struct fz_step *s)
{
    if (!s->m->away.made || !in_range(s->op->a[0], 2) || !takes_away(s))
        return FZ_ILLEGAL;
    s->m->away.made = false;
    return FZ_OK;
}

/* The program holds the first device's context. That of the second may end with the release. */
enum fz_legal fz_do_retain(const struct fz_step *s)
{
    if (fz_limits.real || s->m->capturing[s->thread] || !in_range(s->op->a[0], 2) ||
        !in_range(s->op->a[1], 9) || (s->op->a[0] && !takes_away(s)))
        return FZ_ILLEGAL;
    return FZ_OK;
}

/* The kernels of the other context write a buffer of this one; both calls that end it wait. */
enum fz_legal fz_do_context(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* buf rounds n k how */
    if (s->m->capturing[s->thread] || s->m->trapped || !buf_usable(s, a[0], 0, 1) ||
        !in_range(a[1], 9) || !in_range(a[2], 33) || !in_range(a[4], FZ_CONTEXTS))
        return FZ_ILLEGAL;
    if (fz_limits.real && (a[4] || s->m->buf[a[0]].kind != FZ_PINNED || !fz_take_phase(s)))
        return FZ_ILLEGAL; /* device memory belongs to its context */
    if ((a[4] == 1 || a[4] == 2) && (s->m->away.made || !takes_away(s)))
        return FZ_ILLEGAL;
    return fz_do_host_access(s, true);
}

/* Nothing is outstanding when the context is lost, so that nothing depends on what came through. */
enum fz_legal fz_do_trap(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream buf module n how */
    if (fz_limits.real || s->m->trapped || s->m->capturing[s->thread] || !fz_take_phase(s) ||
        !buf_usable(s, a[1], 0, 1) || !module_usable(s, a[2]) || a[3] < 1 || a[3] > 32 ||
        !in_range(a[4], FZ_TRAPS))
        return FZ_ILLEGAL;
    fz_host_knows_all(s);
    enum fz_legal r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
    s->m->trapped |= r == FZ_OK;
    return r;
}
