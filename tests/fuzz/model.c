/* model.c - legality and order of ops; see model.h. */
#include "tests/fuzz/model.h"
#include <string.h>

struct fz_limits fz_limits;

void fz_model_start(struct fz_model *m)
{
    memset(m, 0, sizeof *m);
    m->clocks = 1 + FZ_THREADS;
    for (unsigned int i = 1; i < m->clocks; i++)
        m->blocking[i] = true;
    for (int i = 0; i < FZ_FIRST_STREAM; i++)
        m->stream[i].live = true;
}

/* The clock of a stream slot as a thread sees it. */
static unsigned int clock_of(const struct fz_model *m, unsigned int thread, int slot)
{
    return slot < 2 ? 0 : slot < FZ_FIRST_STREAM ? 1 + thread : m->stream[slot].clock;
}

/* One op under judgement. */
struct step {
    struct fz_model *m;
    const struct fz_op *op;
    unsigned int thread;
    unsigned int *clock; /* where a race is reported */
};

static bool in_range(int32_t value, int32_t end)
{
    return value >= 0 && value < end;
}

/* A thing belongs to the thread that touches it first in a phase. */
static bool may_touch(const struct step *s, uint8_t toucher)
{
    return !toucher || toucher == s->thread + 1;
}

static void join(uint32_t *into, const uint32_t *from)
{
    for (int i = 0; i < FZ_CLOCKS; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

static bool stream_usable(const struct step *s, int slot)
{
    const struct fz_model *m = s->m;
    return in_range(slot, FZ_STREAMS) && m->stream[slot].live &&
           may_touch(s, m->toucher[clock_of(m, s->thread, slot)]);
}

static bool buf_usable(const struct step *s, int buf, int off, int words)
{
    const struct fz_model *m = s->m;
    return in_range(buf, FZ_BUFS) && m->buf[buf].live && may_touch(s, m->buf[buf].toucher) &&
           off >= 0 && words > 0 && off <= FZ_MAX_WORDS && words <= FZ_MAX_WORDS &&
           (uint32_t)(off + words) <= m->buf[buf].words;
}

static bool event_usable(const struct step *s, int event)
{
    return in_range(event, FZ_EVENTS) && s->m->event[event].live &&
           may_touch(s, s->m->event[event].toucher);
}

static bool module_usable(const struct step *s, int slot)
{
    return in_range(slot, FZ_MODULES) && s->m->module[slot].live;
}

/* What a stream's next op is ordered behind, once the implicit order of the legacy stream and the
 * calling thread's knowledge are in. What another thread does to a stream in this phase has no
 * fixed place, so nothing may follow from it. */
static uint32_t *now(const struct step *s, unsigned int c)
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
static bool ordered(const struct step *s, const uint32_t *clock, int buf, bool write)
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

static void touch(const struct step *s, unsigned int c, const struct fz_access *list,
                  unsigned int n)
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

static enum fz_legal work_in_capture(const struct step *s, const struct fz_access *list,
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
static bool apart(const struct step *s, int slot, const struct fz_access *list, unsigned int n)
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
static enum fz_legal work(const struct step *s, int slot, const struct fz_access *list,
                          unsigned int n, int module)
{
    struct fz_model *m = s->m;
    if (!stream_usable(s, slot))
        return FZ_ILLEGAL;
    if (m->stream[slot].capturing && m->fork[s->thread].second && !apart(s, slot, list, n))
        return FZ_ILLEGAL;
    if (m->stream[slot].capturing)
        return work_in_capture(s, list, n, module);
    /* beside a capture: streams that have nothing to do with the legacy one */
    unsigned int c = clock_of(m, s->thread, slot);
    if (m->capturing[s->thread] && (c == 0 || m->blocking[c]))
        return FZ_ILLEGAL;
    const uint32_t *clock = now(s, c);
    for (unsigned int i = 0; i < n; i++)
        if (!ordered(s, clock, list[i].buf, list[i].write))
            return FZ_RACE;
    touch(s, c, list, n);
    return FZ_OK;
}

static void host_knows(const struct step *s, unsigned int c)
{
    join(s->m->host[s->thread], s->m->clock[c]);
}

static void host_knows_all(const struct step *s)
{
    for (unsigned int i = 0; i < s->m->clocks; i++)
        if (may_touch(s, s->m->toucher[i]))
            host_knows(s, i);
}

/* The thread has the phase for itself: for calls whose effect is not bound to a stream. */
static bool take_phase(const struct step *s)
{
    if (s->m->actors & ~(1u << s->thread))
        return false;
    s->m->solo = true;
    return true;
}

/* ---- the kinds of ops ------------------------------------------------------------------- */

/* A stream is made or ends. What the legacy stream waits for changes with a blocking one. */
static bool take_slot(const struct step *s, int slot, int kind)
{
    struct fz_model *m = s->m;
    if (!may_touch(s, m->stream[slot].toucher) || (!(kind & 1) && !take_phase(s)))
        return false;
    m->stream[slot].toucher = (uint8_t)(s->thread + 1);
    return true;
}

static void make_stream(const struct step *s, int slot, int kind)
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

static void end_stream(const struct step *s, int slot)
{
    struct fz_model *m = s->m;
    m->stream[slot].live = false;
    if (fz_limits.real) /* that the legacy stream waits for one that is gone is not promised */
        m->blocking[m->stream[slot].clock] = false;
}

static enum fz_legal do_stream(const struct step *s)
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

static enum fz_legal do_unstream(const struct step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || slot < FZ_FIRST_STREAM || !stream_usable(s, slot) ||
        !take_slot(s, slot, m->stream[slot].kind))
        return FZ_ILLEGAL;
    end_stream(s, slot);
    return FZ_OK;
}

static enum fz_legal do_alloc(const struct step *s)
{
    struct fz_model *m = s->m;
    int buf = s->op->a[0];
    if (m->capturing[s->thread] || !in_range(buf, FZ_BUFS) || m->buf[buf].live ||
        !in_range(s->op->a[1], 3) || s->op->a[2] < 1 || s->op->a[2] > FZ_MAX_WORDS ||
        !take_phase(s))
        return FZ_ILLEGAL;
    uint32_t generation = m->buf[buf].generation + 1;
    memset(&m->buf[buf], 0, sizeof m->buf[buf]);
    m->buf[buf].live = true;
    m->buf[buf].kind = (uint8_t)s->op->a[1];
    m->buf[buf].words = (uint32_t)s->op->a[2];
    m->buf[buf].generation = generation;
    /* filled in the legacy stream, behind everything that it waits for */
    now(s, 0);
    touch(s, 0, &(struct fz_access){(uint8_t)buf, true}, 1);
    return FZ_OK;
}

static enum fz_legal do_free(const struct step *s)
{
    struct fz_model *m = s->m;
    int buf = s->op->a[0], stream = s->op->a[2];
    if (m->capturing[s->thread] || !buf_usable(s, buf, 0, 1) || !take_phase(s))
        return FZ_ILLEGAL;
    if (fz_limits.real && m->buf[buf].kind == FZ_DEVICE && fz_pooled(buf) != (s->op->a[1] != 0))
        return FZ_ILLEGAL;
    if (s->op->a[1]) {
        if (m->buf[buf].kind != FZ_DEVICE)
            return FZ_ILLEGAL;
        enum fz_legal r = work(s, stream, &(struct fz_access){(uint8_t)buf, true}, 1, -1);
        if (r != FZ_OK)
            return r;
        host_knows(s, clock_of(m, s->thread, stream));
    } else if (!fz_limits.real) {
        host_knows_all(s);
    }
    m->buf[buf].live = false;
    return FZ_OK;
}

static enum fz_legal do_load(const struct step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || !in_range(slot, FZ_MODULES) || m->module[slot].live ||
        !in_range(s->op->a[1], 2) || !take_phase(s))
        return FZ_ILLEGAL;
    m->module[slot].live = true;
    m->module[slot].kind = (uint8_t)s->op->a[1];
    m->module[slot].generation++;
    return FZ_OK;
}

static enum fz_legal do_unload(const struct step *s)
{
    if (s->m->capturing[s->thread] || !module_usable(s, s->op->a[0]) || !take_phase(s))
        return FZ_ILLEGAL;
    s->m->module[s->op->a[0]].live = false;
    return FZ_OK;
}

static enum fz_legal do_launch(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream kernel module how shape buf off buf2 off2 k */
    if (!in_range(a[1], FZ_KERNELS) || !module_usable(s, a[2]) || !in_range(a[3], FZ_HOWS) ||
        !in_range(a[4], FZ_SHAPES + FZ_GRIDS))
        return FZ_ILLEGAL;
    if (s->m->capturing[s->thread] && a[3] > FZ_EX)
        return FZ_ILLEGAL;
    struct fz_access list[2];
    unsigned int n = 0;
    if (a[1] != FZ_NONE) {
        if (!buf_usable(s, a[5], a[6], a[1] == FZ_SPAN ? 8 : 1))
            return FZ_ILLEGAL;
        list[n++] = (struct fz_access){(uint8_t)a[5], true};
    }
    if (a[1] == FZ_JOIN) {
        if (!buf_usable(s, a[7], a[8], 1))
            return FZ_ILLEGAL;
        list[n++] = (struct fz_access){(uint8_t)a[7], false};
    }
    return work(s, a[0], list, n, a[2]);
}

static enum fz_legal do_slow(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream module us */
    if (s->m->capturing[s->thread] || !module_usable(s, a[1]) || !in_range(a[2], 2001))
        return FZ_ILLEGAL;
    return work(s, a[0], NULL, 0, a[1]);
}

static enum fz_legal do_bad(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream what module */
    if (fz_limits.real && (a[1] == 3 || a[1] == 5 || a[1] == 7))
        return FZ_ILLEGAL; /* may run with whatever its parameters were, or end the context */
    if (s->m->capturing[s->thread] || !stream_usable(s, a[0]) || !in_range(a[1], FZ_BADS) ||
        !module_usable(s, a[2]))
        return FZ_ILLEGAL;
    s->m->toucher[clock_of(s->m, s->thread, a[0])] = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

static enum fz_legal do_stale(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream words how good */
    if (s->m->capturing[s->thread] || a[1] < 1 || a[1] > FZ_MAX_WORDS || !in_range(a[2], 3) ||
        (fz_limits.real && (!a[3] || a[1] < 2)) || !take_phase(s))
        return FZ_ILLEGAL;
    enum fz_legal r = work(s, a[0], NULL, 0, -1);
    if (r == FZ_OK && !fz_limits.real)
        host_knows_all(s); /* freeing waits */
    return r;
}

static enum fz_legal do_fill(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream elem buf off width height value how */
    if ((a[1] != 1 && a[1] != 2 && a[1] != 4) || a[3] < 0 || a[4] < 1 || a[5] < 1 || a[5] > 16 ||
        a[3] > 8 * FZ_MAX_WORDS || a[4] > 8 * FZ_MAX_WORDS || !in_range(a[7], 2))
        return FZ_ILLEGAL;
    /* rows are four elements apart where there are several */
    int bytes = (a[4] * a[5] + 4 * (a[5] - 1)) * a[1];
    if (!buf_usable(s, a[2], 0, (a[3] * a[1] + bytes + 7) / 8))
        return FZ_ILLEGAL;
    if (a[7] && (s->m->capturing[s->thread] || (a[0] != 0 && a[0] != 2)))
        return FZ_ILLEGAL; /* the synchronous form has no stream argument */
    return work(s, a[0], &(struct fz_access){(uint8_t)a[2], true}, 1, -1);
}

/* Whether what an access must be ordered behind is in the same stream or known to be over. */
static bool surely_ordered(const struct step *s, unsigned int c, int buf, bool write)
{
    uint32_t clock[FZ_CLOCKS];
    memcpy(clock, s->m->host[s->thread], sizeof clock);
    clock[c] = s->m->clock[c][c];
    return ordered(s, clock, buf, write);
}

/* A copy from memory of the host in a stream that the legacy stream and it wait for each other: on
 * an H200 it did not wait for what another such stream was still writing there (docs/proof.md). */
static bool overtakes(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream dst doff src soff words how */
    if (!fz_limits.real || s->m->buf[a[3]].kind == FZ_DEVICE || !stream_usable(s, a[0]))
        return false;
    unsigned int c = clock_of(s->m, s->thread, a[0]);
    if (a[0] >= FZ_FIRST_STREAM && !s->m->blocking[c])
        return false;
    return !surely_ordered(s, c, a[3], false) || !surely_ordered(s, c, a[1], true);
}

static enum fz_legal do_copy(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream dst doff src soff words how */
    const struct fz_model *m = s->m;
    if (!buf_usable(s, a[1], a[2], a[5]) || !buf_usable(s, a[3], a[4], a[5]) ||
        !in_range(a[6], FZ_COPIES))
        return FZ_ILLEGAL;
    if ((a[6] == FZ_HTOD && (m->buf[a[3]].kind != FZ_PINNED || m->buf[a[1]].kind != FZ_DEVICE)) ||
        (a[6] == FZ_DTOH && (m->buf[a[1]].kind != FZ_PINNED || m->buf[a[3]].kind != FZ_DEVICE)))
        return FZ_ILLEGAL;
    if (a[6] == FZ_DTOD_SYNC && (m->capturing[s->thread] || (a[0] != 0 && a[0] != 2)))
        return FZ_ILLEGAL;
    /* Two-dimensional and peer copies want device memory here; a synchronous one would wait for
     * pinned memory, but not for device memory. */
    if ((a[6] == FZ_DTOD || a[6] == FZ_DTOD_SYNC || a[6] == FZ_2D || a[6] == FZ_3D ||
         a[6] == FZ_PEER) &&
        (m->buf[a[1]].kind != FZ_DEVICE || m->buf[a[3]].kind != FZ_DEVICE))
        return FZ_ILLEGAL;
    if (m->capturing[s->thread] && a[6] >= FZ_DTOD_SYNC)
        return FZ_ILLEGAL;
    if (fz_limits.real && a[1] == a[3] && a[2] < a[4] + a[5] && a[4] < a[2] + a[5])
        return FZ_ILLEGAL; /* what a copy onto itself leaves is not defined */
    if (overtakes(s))
        return FZ_ILLEGAL;
    return work(s, a[0], (struct fz_access[]){{(uint8_t)a[1], true}, {(uint8_t)a[3], a[1] == a[3]}},
                2, -1);
}

static enum fz_legal do_upload(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream buf off words k how */
    if (s->m->capturing[s->thread] || !buf_usable(s, a[1], a[2], a[3]) || !in_range(a[5], 3) ||
        (a[5] == 1 && a[0] != 0 && a[0] != 2) || s->m->buf[a[1]].kind == FZ_PINNED)
        return FZ_ILLEGAL;
    enum fz_legal r = work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
    if (r == FZ_OK && a[5] == 1 && !fz_limits.real) /* a real one may return before the end */
        host_knows(s, clock_of(s->m, s->thread, a[0]));
    return r;
}

static enum fz_legal do_read(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream buf off words how */
    if (s->m->capturing[s->thread] || !buf_usable(s, a[1], a[2], a[3]) || !in_range(a[4], 3) ||
        (a[4] == 1 && a[0] != 0 && a[0] != 2) || s->m->buf[a[1]].kind == FZ_PINNED)
        return FZ_ILLEGAL;
    enum fz_legal r = work(s, a[0], &(struct fz_access){(uint8_t)a[1], false}, 1, -1);
    if (r == FZ_OK)
        host_knows(s, clock_of(s->m, s->thread, a[0]));
    return r;
}

/* The host's own access to mapped memory. */
static enum fz_legal do_host_access(const struct step *s, bool write)
{
    struct fz_model *m = s->m;
    int buf = s->op->a[0];
    if (!buf_usable(s, buf, 0, 1) || (m->buf[buf].kind == FZ_DEVICE && s->op->kind != FZ_context))
        return FZ_ILLEGAL;
    if (!ordered(s, m->host[s->thread], buf, write))
        return FZ_RACE;
    m->buf[buf].toucher = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

static enum fz_legal do_sync(const struct step *s, bool query)
{
    struct fz_model *m = s->m;
    int what = s->op->a[0], slot = s->op->a[1];
    if (m->capturing[s->thread])
        return FZ_ILLEGAL;
    if (what == FZ_SYNC_CTX && !query) {
        if (m->capturers & ~(1u << s->thread))
            return FZ_ILLEGAL;
        m->waiters |= 1u << s->thread;
        host_knows_all(s);
        return FZ_OK;
    }
    if (what == FZ_SYNC_STREAM || (what == FZ_POLL_STREAM && !query)) {
        if (!stream_usable(s, slot))
            return FZ_ILLEGAL;
        unsigned int c = clock_of(m, s->thread, slot);
        /* any other stream is waited for only as far as its own work goes; who asks waits for none
         */
        if (c == 0 && !query && !fz_limits.real)
            now(s, c);
        m->toucher[c] = (uint8_t)(s->thread + 1);
        if (!query)
            host_knows(s, c);
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
static enum fz_legal do_event_node(const struct step *s, int event, int slot, bool record)
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
static enum fz_legal do_record_or_wait(const struct step *s, bool record)
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
    enum fz_legal r = work(s, slot, NULL, 0, -1);
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
static enum fz_legal do_ctxrecord(const struct step *s)
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

static enum fz_legal do_ctxwait(const struct step *s)
{
    struct fz_model *m = s->m;
    int event = s->op->a[0];
    if (m->capturing[s->thread] || !event_usable(s, event) || !take_phase(s))
        return FZ_ILLEGAL;
    m->event[event].toucher = (uint8_t)(s->thread + 1);
    if (m->event[event].recorded)
        join(m->everyone, m->event[event].clock);
    return FZ_OK;
}

/* Such an event may be ready before the launch has ended, but not before what comes before it. */
static enum fz_legal do_fire(const struct step *s)
{
    struct fz_model *m = s->m;
    const int32_t *a = s->op->a; /* stream module buf event how k */
    if (m->capturing[s->thread] || !module_usable(s, a[1]) ||
        (a[2] >= 0 && !buf_usable(s, a[2], 0, 1)) || !event_usable(s, a[3]) ||
        m->event[a[3]].timed || !in_range(a[4], FZ_FIRES))
        return FZ_ILLEGAL;
    enum fz_legal r = work(s, a[0], &(struct fz_access){(uint8_t)a[2], true}, a[2] >= 0, a[1]);
    if (r != FZ_OK)
        return r;
    unsigned int c = clock_of(m, s->thread, a[0]);
    m->event[a[3]].toucher = (uint8_t)(s->thread + 1);
    m->event[a[3]].recorded = true;
    memcpy(m->event[a[3]].clock, m->clock[c], sizeof(fz_clock));
    m->event[a[3]].clock[c]--;
    return FZ_OK;
}

/* Whether a graph has the event in a node, or a launch of one that does may still run. */
static bool graphs_need(const struct step *s, int event)
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

static enum fz_legal do_event(const struct step *s, bool create)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || !in_range(slot, FZ_EVENTS) || m->event[slot].live == create ||
        (!create && graphs_need(s, slot)) || !take_phase(s))
        return FZ_ILLEGAL;
    memset(&m->event[slot], 0, sizeof m->event[slot]);
    m->event[slot].live = create;
    m->event[slot].timed = create && !s->op->a[1];
    return FZ_OK;
}

static enum fz_legal do_host(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream buf off k how */
    if (!buf_usable(s, a[1], a[2], 1) || s->m->buf[a[1]].kind != FZ_PINNED || !in_range(a[4], 2) ||
        (a[4] && s->m->capturing[s->thread]))
        return FZ_ILLEGAL;
    return work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
}

static enum fz_legal do_flag(const struct step *s)
{
    if (s->m->capturing[s->thread] || !module_usable(s, s->op->a[1]))
        return FZ_ILLEGAL;
    enum fz_legal r = work(s, s->op->a[0], NULL, 0, -1);
    if (r == FZ_OK && !fz_limits.real)
        host_knows(s, clock_of(s->m, s->thread, s->op->a[0]));
    return r;
}

static enum fz_legal do_gate(const struct step *s)
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
    if ((fz_limits.real || (fz_limits.queues && (c == 0 || s->m->blocking[c]))) && !take_phase(s))
        return FZ_ILLEGAL;
    return work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
}

/* The launches of the stream that ends write one buffer, those of the new one another: these wait
 * for nothing of the old one's. The launch that waits for the host must keep no other thread
 * waiting. */
static enum fz_legal do_leave(const struct step *s)
{
    const int32_t *a = s->op->a; /* slot kind buf buf2 module n rounds */
    struct fz_model *m = s->m;
    if (m->capturing[s->thread] || m->trapped || a[0] < FZ_FIRST_STREAM ||
        !stream_usable(s, a[0]) || m->clocks == FZ_CLOCKS || !in_range(a[1], 4) ||
        !buf_usable(s, a[2], 0, 1) || !buf_usable(s, a[3], 0, 1) || a[2] == a[3] ||
        !module_usable(s, a[4]) || a[5] < 1 || a[5] > 8 || !in_range(a[6], 9) ||
        !take_slot(s, a[0], m->stream[a[0]].kind & a[1]))
        return FZ_ILLEGAL;
    if (!ordered(s, m->host[s->thread], a[3], true))
        return FZ_RACE;
    enum fz_legal r = work(s, a[0], &(struct fz_access){(uint8_t)a[2], true}, 1, a[4]);
    if (r != FZ_OK)
        return r;
    end_stream(s, a[0]);
    make_stream(s, a[0], a[1]);
    r = work(s, a[0], &(struct fz_access){(uint8_t)a[3], true}, 1, a[4]);
    host_knows(s, m->stream[a[0]].clock);
    return r;
}

/* The first stream does not wait for what the second waits for. */
static enum fz_legal do_ctxgate(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream second event buf module n rounds */
    struct fz_model *m = s->m;
    if (m->capturing[s->thread] || a[0] < FZ_FIRST_STREAM || a[1] < FZ_FIRST_STREAM ||
        a[0] == a[1] || !stream_usable(s, a[0]) || !stream_usable(s, a[1]) ||
        !event_usable(s, a[2]) || !buf_usable(s, a[3], 0, 1) || !module_usable(s, a[4]) ||
        a[5] < 1 || a[5] > 8 || !in_range(a[6], 9) || !take_phase(s))
        return FZ_ILLEGAL;
    enum fz_legal r = work(s, a[0], &(struct fz_access){(uint8_t)a[3], true}, 1, a[4]);
    if (r != FZ_OK)
        return r;
    host_knows(s, m->stream[a[0]].clock);
    work(s, a[1], NULL, 0, -1);
    m->event[a[2]].toucher = (uint8_t)(s->thread + 1);
    m->event[a[2]].recorded = true;
    memcpy(m->event[a[2]].clock, m->clock[m->stream[a[1]].clock], sizeof(fz_clock));
    join(m->everyone, m->event[a[2]].clock);
    return FZ_OK;
}

enum { CAPTURE_GLOBAL = 0 };

/* ---- captures and graphs ------------------------------------------------------------------ */

/* Others may go on meanwhile where neither the mode nor the stream concerns them; but while anybody
 * captures, nobody can wait for the context. */
static bool may_capture(const struct step *s, int slot, int mode)
{
    struct fz_model *m = s->m;
    if (mode == CAPTURE_GLOBAL || !(m->stream[slot].kind & 1) || m->waiters & ~(1u << s->thread))
        return take_phase(s);
    m->capturers |= 1u << s->thread;
    return true;
}

static bool graph_usable(const struct step *s, int graph)
{
    struct fz_model *m = s->m;
    if (m->capturing[s->thread] || !in_range(graph, FZ_GRAPHS) ||
        !may_touch(s, m->graph[graph].toucher))
        return false;
    m->graph[graph].toucher = (uint8_t)(s->thread + 1);
    return true;
}

static enum fz_legal do_begin(const struct step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || slot < FZ_FIRST_STREAM || !stream_usable(s, slot) ||
        !in_range(s->op->a[1], 3) || !may_capture(s, slot, s->op->a[1]))
        return FZ_ILLEGAL;
    m->toucher[m->stream[slot].clock] = (uint8_t)(s->thread + 1);
    memset(&m->capture[s->thread], 0, sizeof m->capture[s->thread]);
    m->stream[slot].capturing = true;
    m->capturing[s->thread] = slot + 1;
    return FZ_OK;
}

static enum fz_legal do_fork(const struct step *s)
{
    struct fz_model *m = s->m;
    int first = s->op->a[0], second = s->op->a[1];
    if (m->capturing[s->thread] != first + 1 || m->fork[s->thread].second || second == first ||
        second < FZ_FIRST_STREAM || !stream_usable(s, second) ||
        (!(m->stream[second].kind & 1) && !take_phase(s)))
        return FZ_ILLEGAL;
    memset(&m->fork[s->thread], 0, sizeof m->fork[s->thread]);
    m->toucher[m->stream[second].clock] = (uint8_t)(s->thread + 1);
    m->stream[second].capturing = true;
    m->fork[s->thread].second = second + 1;
    return FZ_OK;
}

static enum fz_legal do_merge(const struct step *s)
{
    struct fz_model *m = s->m;
    int first = s->op->a[0], second = s->op->a[1];
    if (m->capturing[s->thread] != first + 1 || m->fork[s->thread].second != second + 1)
        return FZ_ILLEGAL;
    m->stream[second].capturing = false;
    m->fork[s->thread].second = 0;
    return FZ_OK;
}

static enum fz_legal do_end(const struct step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0], graph = s->op->a[1];
    if (m->capturing[s->thread] != slot + 1 || m->fork[s->thread].second ||
        !in_range(graph, FZ_GRAPHS) || m->graph[graph].live ||
        !may_touch(s, m->graph[graph].toucher))
        return FZ_ILLEGAL;
    m->stream[slot].capturing = false;
    m->capturing[s->thread] = 0;
    m->graph[graph] = m->capture[s->thread];
    m->graph[graph].live = true;
    m->graph[graph].toucher = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

static enum fz_legal do_build(const struct step *s)
{
    struct fz_model *m = s->m;
    const int32_t *a = s->op->a; /* graph module nodes buf k waits records */
    if (!graph_usable(s, a[0]) || m->graph[a[0]].live || !module_usable(s, a[1]) || a[2] < 1 ||
        a[2] > FZ_MAX_NODES || !buf_usable(s, a[3], 0, 1) || (a[5] && a[5] == a[6]) ||
        (a[5] && !event_usable(s, a[5] - 1)) || (a[6] && !event_usable(s, a[6] - 1)))
        return FZ_ILLEGAL;
    memset(&m->capture[s->thread], 0, sizeof m->capture[s->thread]);
    work_in_capture(s, &(struct fz_access){(uint8_t)a[3], true}, 1, a[1]);
    m->graph[a[0]] = m->capture[s->thread];
    m->graph[a[0]].live = true;
    m->graph[a[0]].toucher = (uint8_t)(s->thread + 1);
    m->graph[a[0]].nodes = (uint8_t)a[2];
    m->graph[a[0]].buf = (uint8_t)a[3];
    m->graph[a[0]].waits = (uint8_t)a[5];
    m->graph[a[0]].records = (uint8_t)a[6];
    return FZ_OK;
}

static bool graph_fresh(const struct fz_model *m, int graph)
{
    for (unsigned int i = 0; i < m->graph[graph].count; i++) {
        unsigned int b = m->graph[graph].access[i].buf;
        if (!m->buf[b].live || m->buf[b].generation != m->graph[graph].buf_generation[b])
            return false;
    }
    for (int i = 0; i < FZ_MODULES; i++)
        if (m->graph[graph].uses_module[i] &&
            (!m->module[i].live || m->module[i].generation != m->graph[graph].module_generation[i]))
            return false;
    return true;
}

static enum fz_legal do_inst(const struct step *s)
{
    struct fz_model *m = s->m;
    int graph = s->op->a[0];
    if (!graph_usable(s, graph) || !m->graph[graph].live || m->graph[graph].inst ||
        !graph_fresh(m, graph))
        return FZ_ILLEGAL;
    m->graph[graph].inst = true;
    return FZ_OK;
}

static bool event_free(const struct step *s, uint8_t slot_and_1)
{
    return !slot_and_1 || event_usable(s, slot_and_1 - 1);
}

/* The launch works with the event, which stands for its stream's work if `records`; a node anywhere
 * in the graph only for what is before that. */
static void use_event(const struct step *s, uint8_t slot_and_1, unsigned int c, bool records,
                      bool anywhere)
{
    struct fz_model *m = s->m;
    if (!slot_and_1)
        return;
    m->event[slot_and_1 - 1].toucher = (uint8_t)(s->thread + 1);
    join(m->event[slot_and_1 - 1].used, m->clock[c]);
    if (!records)
        return;
    m->event[slot_and_1 - 1].recorded = true;
    memcpy(m->event[slot_and_1 - 1].clock, m->clock[c], sizeof(fz_clock));
    m->event[slot_and_1 - 1].clock[c] -= anywhere;
}

static enum fz_legal do_glaunch(const struct step *s)
{
    struct fz_model *m = s->m;
    int graph = s->op->a[0], slot = s->op->a[1];
    if (!graph_usable(s, graph) || !m->graph[graph].inst || !graph_fresh(m, graph) ||
        !stream_usable(s, slot) || !event_free(s, m->graph[graph].waits) ||
        !event_free(s, m->graph[graph].records))
        return FZ_ILLEGAL;
    uint8_t waits = m->graph[graph].waits, records = m->graph[graph].records;
    for (unsigned int i = 0; i < m->graph[graph].count; i++)
        if (!may_touch(s, m->buf[m->graph[graph].access[i].buf].toucher))
            return FZ_ILLEGAL;
    unsigned int c = clock_of(m, s->thread, slot);
    fz_clock before;
    memcpy(before, m->clock[c], sizeof before);
    /* An executable graph's launches are ordered among themselves, but on a GPU not where there is
     * nothing in it: then the second stream does not wait (docs/proof.md). */
    if (!fz_limits.real || m->graph[graph].count)
        join(m->clock[c], m->graph[graph].clock);
    bool anywhere = !m->graph[graph].nodes; /* else they are the first and the last */
    if (waits && m->event[waits - 1].recorded && !anywhere)
        join(m->clock[c], m->event[waits - 1].clock);
    enum fz_legal r = work(s, slot, m->graph[graph].access, m->graph[graph].count, -1);
    if (r != FZ_OK) {
        memcpy(m->clock[c], before, sizeof before);
        return r;
    }
    memcpy(m->graph[graph].clock, m->clock[c], sizeof(fz_clock));
    use_event(s, waits, c, false, anywhere);
    use_event(s, records, c, true, anywhere);
    return FZ_OK;
}

static enum fz_legal do_gupdate(const struct step *s)
{
    const int32_t *a = s->op->a; /* graph module node k how */
    const struct fz_model *m = s->m;
    if (!graph_usable(s, a[0]) || !m->graph[a[0]].inst || !m->graph[a[0]].nodes ||
        !module_usable(s, a[1]) || !m->graph[a[0]].uses_module[a[1]] || !graph_fresh(m, a[0]) ||
        !in_range(a[2], m->graph[a[0]].nodes) || !in_range(a[4], 2))
        return FZ_ILLEGAL;
    return FZ_OK;
}

static enum fz_legal do_ungraph(const struct step *s)
{
    int graph = s->op->a[0];
    if (!graph_usable(s, graph) || !s->m->graph[graph].live)
        return FZ_ILLEGAL;
    s->m->graph[graph].live = s->m->graph[graph].inst = false;
    return FZ_OK;
}

/* The second device belongs to one thread in a phase. */
static bool takes_away(const struct step *s)
{
    struct fz_model *m = s->m;
    if (fz_limits.real || m->capturing[s->thread] || !may_touch(s, m->away.toucher))
        return false;
    m->away.toucher = (uint8_t)(s->thread + 1);
    return true;
}

static enum fz_legal do_away(const struct step *s, bool read)
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

static enum fz_legal do_awayend(const struct step *s)
{
    if (!s->m->away.made || !in_range(s->op->a[0], 2) || !takes_away(s))
        return FZ_ILLEGAL;
    s->m->away.made = false;
    return FZ_OK;
}

/* The program holds the first device's context. That of the second may end with the release. */
static enum fz_legal do_retain(const struct step *s)
{
    if (fz_limits.real || s->m->capturing[s->thread] || !in_range(s->op->a[0], 2) ||
        !in_range(s->op->a[1], 9) || (s->op->a[0] && !takes_away(s)))
        return FZ_ILLEGAL;
    return FZ_OK;
}

/* The kernels of the other context write a buffer of this one; both calls that end it wait. */
static enum fz_legal do_context(const struct step *s)
{
    const int32_t *a = s->op->a; /* buf rounds n k how */
    if (s->m->capturing[s->thread] || s->m->trapped || !buf_usable(s, a[0], 0, 1) ||
        !in_range(a[1], 9) || !in_range(a[2], 33) || !in_range(a[4], FZ_CONTEXTS))
        return FZ_ILLEGAL;
    if (fz_limits.real && (a[4] || s->m->buf[a[0]].kind != FZ_PINNED || !take_phase(s)))
        return FZ_ILLEGAL; /* device memory belongs to its context */
    if ((a[4] == 1 || a[4] == 2) && (s->m->away.made || !takes_away(s)))
        return FZ_ILLEGAL;
    return do_host_access(s, true);
}

/* Nothing is outstanding when the context is lost, so that nothing depends on what came through. */
static enum fz_legal do_trap(const struct step *s)
{
    const int32_t *a = s->op->a; /* stream buf module n how */
    if (fz_limits.real || s->m->trapped || s->m->capturing[s->thread] || !take_phase(s) ||
        !buf_usable(s, a[1], 0, 1) || !module_usable(s, a[2]) || a[3] < 1 || a[3] > 32 ||
        !in_range(a[4], FZ_TRAPS))
        return FZ_ILLEGAL;
    host_knows_all(s);
    enum fz_legal r = work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
    s->m->trapped |= r == FZ_OK;
    return r;
}

static enum fz_legal do_barrier(struct fz_model *m)
{
    for (int i = 0; i < FZ_THREADS; i++)
        if (m->capturing[i])
            return FZ_ILLEGAL;
    for (int i = 1; i < FZ_THREADS; i++)
        join(m->host[0], m->host[i]);
    for (int i = 1; i < FZ_THREADS; i++)
        memcpy(m->host[i], m->host[0], sizeof(fz_clock));
    m->phase++;
    m->actors = m->capturers = m->waiters = 0;
    m->solo = false;
    m->away.toucher = 0;
    memset(m->toucher, 0, sizeof m->toucher);
    for (int i = 0; i < FZ_STREAMS; i++)
        m->stream[i].toucher = 0;
    for (int i = 0; i < FZ_EVENTS; i++)
        m->event[i].toucher = 0;
    for (int i = 0; i < FZ_BUFS; i++)
        m->buf[i].toucher = 0;
    for (int i = 0; i < FZ_GRAPHS; i++)
        m->graph[i].toucher = 0;
    return FZ_OK;
}

static enum fz_legal judge(const struct step *s)
{
    const int32_t *a = s->op->a;
    switch ((enum fz_kind)s->op->kind) {
    case FZ_stream:
        return do_stream(s);
    case FZ_unstream:
        return do_unstream(s);
    case FZ_event:
        return do_event(s, true);
    case FZ_unevent:
        return do_event(s, false);
    case FZ_alloc:
        return do_alloc(s);
    case FZ_free:
        return do_free(s);
    case FZ_load:
        return do_load(s);
    case FZ_unload:
        return do_unload(s);
    case FZ_launch:
        return do_launch(s);
    case FZ_slow:
        return do_slow(s);
    case FZ_bad:
        return do_bad(s);
    case FZ_stale:
        return do_stale(s);
    case FZ_fill:
        return do_fill(s);
    case FZ_copy:
        return do_copy(s);
    case FZ_upload:
        return do_upload(s);
    case FZ_read:
        return do_read(s);
    case FZ_peek:
        return do_host_access(s, false);
    case FZ_poke:
        return do_host_access(s, true);
    case FZ_sync:
        return do_sync(s, false);
    case FZ_query:
        return do_sync(s, true);
    case FZ_record:
        return do_record_or_wait(s, true);
    case FZ_wait:
        return do_record_or_wait(s, false);
    case FZ_ctxrecord:
        return do_ctxrecord(s);
    case FZ_ctxwait:
        return do_ctxwait(s);
    case FZ_fire:
        return do_fire(s);
    case FZ_host:
        return do_host(s);
    case FZ_flag:
        return do_flag(s);
    case FZ_gate:
        return do_gate(s);
    case FZ_pause:
        return in_range(a[0], 5000) ? FZ_OK : FZ_ILLEGAL;
    case FZ_begin:
        return do_begin(s);
    case FZ_fork:
        return do_fork(s);
    case FZ_merge:
        return do_merge(s);
    case FZ_end:
        return do_end(s);
    case FZ_build:
        return do_build(s);
    case FZ_inst:
        return do_inst(s);
    case FZ_glaunch:
        return do_glaunch(s);
    case FZ_gupdate:
        return do_gupdate(s);
    case FZ_ungraph:
        return do_ungraph(s);
    case FZ_misc:
        return s->m->capturing[s->thread] || !in_range(a[0], FZ_MISCS) || !module_usable(s, a[1])
                   ? FZ_ILLEGAL
                   : FZ_OK;
    case FZ_away:
        return do_away(s, false);
    case FZ_awayread:
        return do_away(s, true);
    case FZ_awayend:
        return do_awayend(s);
    case FZ_context:
        return do_context(s);
    case FZ_retain:
        return do_retain(s);
    case FZ_jam:
        return fz_limits.real ? FZ_ILLEGAL : do_gate(s);
    case FZ_leave:
        return do_leave(s);
    case FZ_ctxgate:
        return do_ctxgate(s);
    case FZ_trap:
        return do_trap(s);
    case FZ_barrier:
        return do_barrier(s->m);
    case FZ_KINDS:
        break;
    }
    return FZ_ILLEGAL;
}

enum fz_legal fz_model_step(struct fz_model *m, const struct fz_op *op, unsigned int *clock)
{
    struct step s = {.m = m, .op = op, .thread = op->thread, .clock = clock};
    if (op->thread >= FZ_THREADS || fz_limits.without >> op->kind & 1 ||
        (m->solo && op->kind != FZ_barrier && !(m->actors & 1u << op->thread)))
        return FZ_ILLEGAL;
    enum fz_legal r = judge(&s);
    if (r == FZ_OK && op->kind != FZ_barrier)
        m->actors |= 1u << op->thread;
    return r;
}
