/* model.c - begins with a model, and which function judges which op; see model.h. */
#include "tests/fuzz/model_step.h"
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

static enum fz_legal do_barrier(struct fz_model *m)
{
    for (int i = 0; i < FZ_THREADS; i++)
        if (m->capturing[i])
            return FZ_ILLEGAL;
    for (int i = 1; i < FZ_THREADS; i++)
        join(m->host[0], m->host[i]);
    for (int i = 1; i < FZ_THREADS; i++)
        memcpy(m->host[i], m->host[0], sizeof(fz_clock));
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

static enum fz_legal judge(const struct fz_step *s)
{
    const int32_t *a = s->op->a;
    switch ((enum fz_kind)s->op->kind) {
    case FZ_stream:
        return fz_do_stream(s);
    case FZ_unstream:
        return fz_do_unstream(s);
    case FZ_event:
        return fz_do_event(s, true);
    case FZ_unevent:
        return fz_do_event(s, false);
    case FZ_alloc:
        return fz_do_alloc(s);
    case FZ_free:
        return fz_do_free(s);
    case FZ_load:
        return fz_do_load(s);
    case FZ_unload:
        return fz_do_unload(s);
    case FZ_launch:
        return fz_do_launch(s);
    case FZ_slow:
        return fz_do_slow(s);
    case FZ_bad:
        return fz_do_bad(s);
    case FZ_stale:
        return fz_do_stale(s);
    case FZ_fill:
        return fz_do_fill(s);
    case FZ_copy:
        return fz_do_copy(s);
    case FZ_upload:
        return fz_do_upload(s);
    case FZ_read:
        return fz_do_read(s);
    case FZ_peek:
        return fz_do_host_access(s, false);
    case FZ_poke:
        return fz_do_host_access(s, true);
    case FZ_sync:
        return fz_do_sync(s, false);
    case FZ_query:
        return fz_do_sync(s, true);
    case FZ_record:
        return fz_do_record_or_wait(s, true);
    case FZ_wait:
        return fz_do_record_or_wait(s, false);
    case FZ_ctxrecord:
        return fz_do_ctxrecord(s);
    case FZ_ctxwait:
        return fz_do_ctxwait(s);
    case FZ_fire:
        return fz_do_fire(s);
    case FZ_host:
        return fz_do_host(s);
    case FZ_flag:
        return fz_do_flag(s);
    case FZ_gate:
        return fz_do_gate(s);
    case FZ_pause:
        return in_range(a[0], 5000) ? FZ_OK : FZ_ILLEGAL;
    case FZ_begin:
        return fz_do_begin(s);
    case FZ_fork:
        return fz_do_fork(s);
    case FZ_merge:
        return fz_do_merge(s);
    case FZ_end:
        return fz_do_end(s);
    case FZ_build:
        return fz_do_build(s);
    case FZ_inst:
        return fz_do_inst(s);
    case FZ_glaunch:
        return fz_do_glaunch(s);
    case FZ_gupdate:
        return fz_do_gupdate(s);
    case FZ_ungraph:
        return fz_do_ungraph(s);
    case FZ_misc:
        return s->m->capturing[s->thread] || !in_range(a[0], FZ_MISCS) || !module_usable(s, a[1])
                   ? FZ_ILLEGAL
                   : FZ_OK;
    case FZ_away:
        return fz_do_away(s, false);
    case FZ_awayread:
        return fz_do_away(s, true);
    case FZ_awayend:
        return fz_do_awayend(s);
    case FZ_context:
        return fz_do_context(s);
    case FZ_retain:
        return fz_do_retain(s);
    case FZ_jam:
        return fz_limits.real ? FZ_ILLEGAL : fz_do_gate(s);
    case FZ_leave:
        return fz_do_leave(s);
    case FZ_ctxgate:
        return fz_do_ctxgate(s);
    case FZ_trap:
        return fz_do_trap(s);
    case FZ_barrier:
        return do_barrier(s->m);
    case FZ_KINDS:
        break;
    }
    return FZ_ILLEGAL;
}

enum fz_legal fz_model_step(struct fz_model *m, const struct fz_op *op, unsigned int *clock)
{
    struct fz_step s = {.m = m, .op = op, .thread = op->thread, .clock = clock};
    if (op->thread >= FZ_THREADS || fz_limits.without >> op->kind & 1 ||
        (m->solo && op->kind != FZ_barrier && !(m->actors & 1u << op->thread)))
        return FZ_ILLEGAL;
    enum fz_legal r = judge(&s);
    if (r == FZ_OK && op->kind != FZ_barrier)
        m->actors |= 1u << op->thread;
    return r;
}
