/* model_wait.c - ops that wait, events that order streams, and work that waits for the host. */
#include "tests/fuzz/model_step.h"
#include <string.h>

enum fz_legal fz_do_sync(const struct fz_step *s, bool query)
{
    struct fz_model *m = s->m;
    int what = s->op->a[0], slot = s->op->a[1];
    if (m->capturing[s->thread])
        return FZ_ILLEGAL;
    if (what == FZ_SYNC_CTX && !query) {
        if (m->capturers & ~(1u << s->thread))
            return FZ_ILLEGAL;
        m->waiters |= 1u << s->thread;
        fz_host_knows_all(s);
        return FZ_OK;
    }
    if (what == FZ_SYNC_STREAM || (what == FZ_POLL_STREAM && !query)) {
        if (!stream_usable(s, slot))
            return FZ_ILLEGAL;
        unsigned int c = clock_of(m, s->thread, slot);
        /* any other stream is waited for only as far as its own work goes; who asks waits for none
         */
        if (c == 0 && !query && !fz_limits.real)
            fz_now(s, c);
        m->toucher[c] = (uint8_t)(s->thread + 1);
        if (!query)
            fz_host_knows(s, c);
        return FZ_OK;
    }
    if (what == FZ_SYNC_EVENT || (what == FZ_POLL_EVENT && !query)) {
        if (!event_usable(s, slot))
            return FZ_ILLEGAL;
        m->event[slot].toucher = (uint8_t)(s->thread + 1);
        if (!query && m->event[slot].recorded)
            join(m->host[s->thread], m->event[slot].clock);
        return FZ_OK;
    }
    return FZ_ILLEGAL;
}

/* A node of the capture's graph, of which each has one of a kind here. */
static enum fz_legal do_event_node(const struct fz_step *s, int event, int slot, bool record)
{
    struct fz_model *m = s->m;
    if (!m->capturing[s->thread] || !event_usable(s, event) || !stream_usable(s, slot) ||
        !m->stream[slot].capturing || m->capture[s->thread].records == event + 1 ||
        m->capture[s->thread].waits == event + 1)
        return FZ_ILLEGAL;
    uint8_t *place = record ? &m->capture[s->thread].records : &m->capture[s->thread].waits;
    if (*place)
        return FZ_ILLEGAL;
    *place = (uint8_t)(event + 1);
    m->event[event].toucher = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

/* That a record or a wait in the legacy stream orders other streams among each other is not relied
 * on: a wait for an event that was never recorded does nothing at all (CUDA Driver API,
 * cuStreamWaitEvent). */
enum fz_legal fz_do_record_or_wait(const struct fz_step *s, bool record)
{
    struct fz_model *m = s->m;
    int event = s->op->a[record ? 0 : 1], slot = s->op->a[record ? 1 : 0];
    if (s->op->a[2] == 2)
        return do_event_node(s, event, slot, record);
    if (m->capturing[s->thread] || !event_usable(s, event) || !stream_usable(s, slot))
        return FZ_ILLEGAL;
    unsigned int c = clock_of(m, s->thread, slot);
    fz_clock before;
    memcpy(before, m->clock[c], sizeof before);
    enum fz_legal r = fz_work(s, slot, NULL, 0, -1);
    if (r != FZ_OK)
        return r;
    m->event[event].toucher = (uint8_t)(s->thread + 1);
    if (record) {
        m->event[event].recorded = true;
        memcpy(m->event[event].clock, m->clock[c], sizeof(fz_clock));
    }
    if (c == 0) {
        before[0] = m->clock[0][0];
        memcpy(m->clock[0], before, sizeof before);
    }
    if (!record && m->event[event].recorded)
        join(m->clock[c], m->event[event].clock);
    return FZ_OK;
}

/* The event is recorded for the whole context, which counts the streams that are there. The driver
 * refuses that during a capture. */
enum fz_legal fz_do_ctxrecord(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int event = s->op->a[0];
    if (m->capturing[s->thread] || m->capturers & ~(1u << s->thread) || !event_usable(s, event))
        return FZ_ILLEGAL;
    m->waiters |= 1u << s->thread;
    m->event[event].toucher = (uint8_t)(s->thread + 1);
    m->event[event].recorded = true;
    memcpy(m->event[event].clock, m->host[s->thread], sizeof(fz_clock));
    for (int slot = 0; slot < FZ_STREAMS; slot++)
        if (stream_usable(s, slot))
            join(m->event[event].clock, m->clock[clock_of(m, s->thread, slot)]);
    return FZ_OK;
}

enum fz_legal fz_do_ctxwait(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int event = s->op->a[0];
    if (m->capturing[s->thread] || !event_usable(s, event) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    m->event[event].toucher = (uint8_t)(s->thread + 1);
    if (m->event[event].recorded)
        join(m->everyone, m->event[event].clock);
    return FZ_OK;
}

/* Such an event may be ready before the launch has ended, but not before what comes before it. */
enum fz_legal fz_do_fire(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    const int32_t *a = s->op->a; /* stream module buf event how k */
    if (m->capturing[s->thread] || !module_usable(s, a[1]) ||
        (a[2] >= 0 && !buf_usable(s, a[2], 0, 1)) || !event_usable(s, a[3]) ||
        m->event[a[3]].timed || !in_range(a[4], FZ_FIRES))
        return FZ_ILLEGAL;
    enum fz_legal r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[2], true}, a[2] >= 0, a[1]);
    if (r != FZ_OK)
        return r;
    unsigned int c = clock_of(m, s->thread, a[0]);
    m->event[a[3]].toucher = (uint8_t)(s->thread + 1);
    m->event[a[3]].recorded = true;
    memcpy(m->event[a[3]].clock, m->clock[c], sizeof(fz_clock));
    m->event[a[3]].clock[c]--;
    return FZ_OK;
}

enum fz_legal fz_do_flag(const struct fz_step *s)
{
    if (s->m->capturing[s->thread] || !module_usable(s, s->op->a[1]))
        return FZ_ILLEGAL;
    enum fz_legal r = fz_work(s, s->op->a[0], NULL, 0, -1);
    if (r == FZ_OK && !fz_limits.real)
        fz_host_knows(s, clock_of(s->m, s->thread, s->op->a[0]));
    return r;
}

enum fz_legal fz_do_gate(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream buf module n k */
    if (s->m->capturing[s->thread] || !buf_usable(s, a[1], 0, 1) || !module_usable(s, a[2]) ||
        !in_range(a[3], 33))
        return FZ_ILLEGAL;
    if (!stream_usable(s, a[0]))
        return FZ_ILLEGAL;
    /* Another thread could sit in a call that waits with a lock of the driver held. Or its queue is
     * full of work behind this gate, and what it holds back goes before the launches here, which
     * then wait for room: eagerly, only that thread would (docs/limits.md). */
    unsigned int c = clock_of(s->m, s->thread, a[0]);
    if ((fz_limits.real || (fz_limits.queues && (c == 0 || s->m->blocking[c]))) &&
        !fz_take_phase(s))
        return FZ_ILLEGAL;
    return fz_work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
}

/* The first stream does not wait for what the second waits for. */
enum fz_legal fz_do_ctxgate(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream second event buf module n rounds */
    struct fz_model *m = s->m;
    if (m->capturing[s->thread] || a[0] < FZ_FIRST_STREAM || a[1] < FZ_FIRST_STREAM ||
        a[0] == a[1] || !stream_usable(s, a[0]) || !stream_usable(s, a[1]) ||
        !event_usable(s, a[2]) || !buf_usable(s, a[3], 0, 1) || !module_usable(s, a[4]) ||
        a[5] < 1 || a[5] > 8 || !in_range(a[6], 9) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    enum fz_legal r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[3], true}, 1, a[4]);
    if (r != FZ_OK)
        return r;
    fz_host_knows(s, m->stream[a[0]].clock);
    fz_work(s, a[1], NULL, 0, -1);
    m->event[a[2]].toucher = (uint8_t)(s->thread + 1);
    m->event[a[2]].recorded = true;
    memcpy(m->event[a[2]].clock, m->clock[m->stream[a[1]].clock], sizeof(fz_clock));
    join(m->everyone, m->event[a[2]].clock);
    return FZ_OK;
}
