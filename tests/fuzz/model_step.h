/* model_step.h - what the files that judge ops share: model*.c. */
#pragma once

#include "tests/fuzz/model.h"

/* One op under judgement. */
struct fz_step {
    struct fz_model *m;
    const struct fz_op *op;
    unsigned int thread;
    unsigned int *clock; /* where a race is reported */
};

/* The clock of a stream slot as a thread sees it. */
static inline unsigned int clock_of(const struct fz_model *m, unsigned int thread, int slot)
{
    return slot < 2 ? 0 : slot < FZ_FIRST_STREAM ? 1 + thread : m->stream[slot].clock;
}

static inline bool in_range(int32_t value, int32_t end)
{
    return value >= 0 && value < end;
}

/* A thing belongs to the thread that touches it first in a phase. */
static inline bool may_touch(const struct fz_step *s, uint8_t toucher)
{
    return !toucher || toucher == s->thread + 1;
}

static inline void join(uint32_t *into, const uint32_t *from)
{
    for (int i = 0; i < FZ_CLOCKS; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

static inline bool stream_usable(const struct fz_step *s, int slot)
{
    const struct fz_model *m = s->m;
    return in_range(slot, FZ_STREAMS) && m->stream[slot].live &&
           may_touch(s, m->toucher[clock_of(m, s->thread, slot)]);
}

static inline bool buf_usable(const struct fz_step *s, int buf, int off, int words)
{
    const struct fz_model *m = s->m;
    return in_range(buf, FZ_BUFS) && m->buf[buf].live && may_touch(s, m->buf[buf].toucher) &&
           off >= 0 && words > 0 && off <= FZ_MAX_WORDS && words <= FZ_MAX_WORDS &&
           (uint32_t)(off + words) <= m->buf[buf].words;
}

static inline bool event_usable(const struct fz_step *s, int event)
{
    return in_range(event, FZ_EVENTS) && s->m->event[event].live &&
           may_touch(s, s->m->event[event].toucher);
}

static inline bool module_usable(const struct fz_step *s, int slot)
{
    return in_range(slot, FZ_MODULES) && s->m->module[slot].live;
}

/* model_order.c */
uint32_t *fz_now(const struct fz_step *s, unsigned int c);
bool fz_ordered(const struct fz_step *s, const uint32_t *clock, int buf, bool write);
void fz_touch(const struct fz_step *s, unsigned int c, const struct fz_access *list,
              unsigned int n);
enum fz_legal fz_work_in_capture(const struct fz_step *s, const struct fz_access *list,
                                 unsigned int n, int module);
enum fz_legal fz_work(const struct fz_step *s, int slot, const struct fz_access *list,
                      unsigned int n, int module);
void fz_host_knows(const struct fz_step *s, unsigned int c);
void fz_host_knows_all(const struct fz_step *s);
bool fz_take_phase(const struct fz_step *s);

/* Each judges the op and, if it is FZ_OK, does it. model_lives.c: */
enum fz_legal fz_do_stream(const struct fz_step *s);
enum fz_legal fz_do_unstream(const struct fz_step *s);
enum fz_legal fz_do_leave(const struct fz_step *s);
enum fz_legal fz_do_event(const struct fz_step *s, bool create);
enum fz_legal fz_do_alloc(const struct fz_step *s);
enum fz_legal fz_do_free(const struct fz_step *s);
enum fz_legal fz_do_load(const struct fz_step *s);
enum fz_legal fz_do_unload(const struct fz_step *s);
enum fz_legal fz_do_away(const struct fz_step *s, bool read);
enum fz_legal fz_do_awayend(const struct fz_step *s);
enum fz_legal fz_do_retain(const struct fz_step *s);
enum fz_legal fz_do_context(const struct fz_step *s);
enum fz_legal fz_do_trap(const struct fz_step *s);

/* model_work.c */
enum fz_legal fz_do_launch(const struct fz_step *s);
enum fz_legal fz_do_slow(const struct fz_step *s);
enum fz_legal fz_do_bad(const struct fz_step *s);
enum fz_legal fz_do_stale(const struct fz_step *s);
enum fz_legal fz_do_fill(const struct fz_step *s);
enum fz_legal fz_do_copy(const struct fz_step *s);
enum fz_legal fz_do_upload(const struct fz_step *s);
enum fz_legal fz_do_read(const struct fz_step *s);
enum fz_legal fz_do_host_access(const struct fz_step *s, bool write);
enum fz_legal fz_do_host(const struct fz_step *s);

/* model_wait.c */
enum fz_legal fz_do_sync(const struct fz_step *s, bool query);
enum fz_legal fz_do_record_or_wait(const struct fz_step *s, bool record);
enum fz_legal fz_do_ctxrecord(const struct fz_step *s);
enum fz_legal fz_do_ctxwait(const struct fz_step *s);
enum fz_legal fz_do_fire(const struct fz_step *s);
enum fz_legal fz_do_flag(const struct fz_step *s);
enum fz_legal fz_do_gate(const struct fz_step *s);
enum fz_legal fz_do_ctxgate(const struct fz_step *s);

/* model_graph.c */
enum fz_legal fz_do_begin(const struct fz_step *s);
enum fz_legal fz_do_fork(const struct fz_step *s);
enum fz_legal fz_do_merge(const struct fz_step *s);
enum fz_legal fz_do_end(const struct fz_step *s);
enum fz_legal fz_do_build(const struct fz_step *s);
enum fz_legal fz_do_inst(const struct fz_step *s);
enum fz_legal fz_do_glaunch(const struct fz_step *s);
enum fz_legal fz_do_gupdate(const struct fz_step *s);
enum fz_legal fz_do_ungraph(const struct fz_step *s);
