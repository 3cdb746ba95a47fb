/*
 * model_order.c - which work is ordered before which: a vector clock for each stream, one for each
 * thread of the host, and the last accesses of each buffer.
 */
#include "tests/fuzz/model_step.h"

/* What a stream's next op is ordered behind, once the implicit order of the legacy stream and the
 * calling thread's knowledge are in. What another thread does to a stream in this phase has no
 * fixed place, so nothing may follow from it. */
uint32_t *fz_now(const struct fz_step *s, unsigned int c)
{
    struct fz_model *m = s->m;
    uint32_t *clock = m->clock[c];
    join(clock, m->host[s->thread]);
    join(clock, m->everyone);
    if (c == 0) {
        for (unsigned int i = 1; i < m->clocks; i++)
            if (m->blocking[i] && may_touch(s, m->toucher[i]))
                join(clock, m->clock[i]);
    } else if (m->blocking[c] && may_touch(s, m->toucher[0])) {
        join(clock, m->clock[0]);
    }
    return clock;
}

/* Whether an access to the buffer is ordered behind those that it must be ordered behind. */
bool fz_ordered(const struct fz_step *s, const uint32_t *clock, int buf, bool write)
{
    const struct fz_model *m = s->m;
    unsigned int w = m->buf[buf].writer;
    if (clock[w] < m->buf[buf].write) {
        *s->clock = w;
        return false;
    }
    for (unsigned int i = 0; write && i < m->clocks; i++)
        if (clock[i] < m->buf[buf].reads[i]) {
            *s->clock = i;
            return false;
        }
    return true;
}

void fz_touch(const struct fz_step *s, unsigned int c, const struct fz_access *list, unsigned int n)
{
    struct fz_model *m = s->m;
    uint32_t tick = ++m->clock[c][c];
    m->toucher[c] = (uint8_t)(s->thread + 1);
    for (unsigned int i = 0; i < n; i++) {
        m->buf[list[i].buf].toucher = (uint8_t)(s->thread + 1);
        if (list[i].write) {
            m->buf[list[i].buf].writer = (uint8_t)c;
            m->buf[list[i].buf].write = tick;
        } else {
            m->buf[list[i].buf].reads[c] = tick;
        }
    }
}

enum fz_legal fz_work_in_capture(const struct fz_step *s, const struct fz_access *list,
                                 unsigned int n, int module)
{
    struct fz_model *m = s->m;
    if (m->capture[s->thread].count + n > FZ_MAX_ACCESSES)
        return FZ_ILLEGAL;
    for (unsigned int i = 0; i < n; i++) {
        m->capture[s->thread].access[m->capture[s->thread].count++] = list[i];
        m->capture[s->thread].buf_generation[list[i].buf] = m->buf[list[i].buf].generation;
    }
    if (module >= 0) {
        m->capture[s->thread].uses_module[module] = true;
        m->capture[s->thread].module_generation[module] = m->module[module].generation;
    }
    return FZ_OK;
}

/* The two streams of a capture must not disturb each other's buffers. */
static bool apart(const struct fz_step *s, int slot, const struct fz_access *list, unsigned int n)
{
    struct fz_model *m = s->m;
    unsigned int mine = slot == m->fork[s->thread].second - 1, other = !mine;
    for (unsigned int i = 0; i < n; i++) {
        uint32_t bit = UINT32_C(1) << list[i].buf;
        if (m->fork[s->thread].writes[other] & bit ||
            (list[i].write && m->fork[s->thread].reads[other] & bit))
            return false;
    }
    for (unsigned int i = 0; i < n; i++)
        *(list[i].write ? &m->fork[s->thread].writes[mine] : &m->fork[s->thread].reads[mine]) |=
            UINT32_C(1) << list[i].buf;
    return true;
}

/* Work on a stream that accesses these buffers. */
enum fz_legal fz_work(const struct fz_step *s, int slot, const struct fz_access *list,
                      unsigned int n, int module)
{
    struct fz_model *m = s->m;
    if (!stream_usable(s, slot))
        return FZ_ILLEGAL;
    if (m->stream[slot].capturing && m->fork[s->thread].second && !apart(s, slot, list, n))
        return FZ_ILLEGAL;
    if (m->stream[slot].capturing)
        return fz_work_in_capture(s, list, n, module);
    /* beside a capture: streams that have nothing to do with the legacy one */
    unsigned int c = clock_of(m, s->thread, slot);
    if (m->capturing[s->thread] && (c == 0 || m->blocking[c]))
        return FZ_ILLEGAL;
    const uint32_t *clock = fz_now(s, c);
    for (unsigned int i = 0; i < n; i++)
        if (!fz_ordered(s, clock, list[i].buf, list[i].write))
            return FZ_RACE;
    fz_touch(s, c, list, n);
    return FZ_OK;
}

void fz_host_knows(const struct fz_step *s, unsigned int c)
{
    join(s->m->host[s->thread], s->m->clock[c]);
}

void fz_host_knows_all(const struct fz_step *s)
{
    for (unsigned int i = 0; i < s->m->clocks; i++)
        if (may_touch(s, s->m->toucher[i]))
            fz_host_knows(s, i);
}

/* The thread has the phase for itself: for calls whose effect is not bound to a stream. */
bool fz_take_phase(const struct fz_step *s)
{
    if (s->m->actors & ~(1u << s->thread))
        return false;
    s->m->solo = true;
    return true;
}
