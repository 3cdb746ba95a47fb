/*
 * queue.c - how work gets from a submitting thread to its execution.
 *
 * A stream has a queue and, from its first work on, a worker thread. Each work item has a sequence
 * number; `completed` is the number of the last one that ran. What an item must wait for on other
 * streams is a list of (stream, number), fixed when it is submitted: all of it was submitted
 * before, so no wait can be circular. Streams that order themselves with the legacy stream get such
 * entries without being asked (cuda.h, "Stream synchronization behavior").
 */
#include "sim.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct sim_dep {
    struct sim_stream *stream;
    uint64_t seq;
};
struct sim_work {
    struct sim_work *next;
    uint64_t seq;
    struct sim_op op;
    unsigned int dep_count, dep_capacity;
    struct sim_dep *deps;
    struct sim_dep few[4];
};

_Thread_local struct sim_stream *sim_running;

/* How long a worker looks for more work, and a waiter for completion, before going to sleep. */
#define SPINS 300

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void sim_stream_wait(struct sim_stream *s, uint64_t seq)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&s->completed) >= seq)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add(&s->waiters, 1);
    while (atomic_load(&s->completed) < seq)
        pthread_cond_wait(&s->changed, &s->lock);
    atomic_fetch_sub(&s->waiters, 1);
    pthread_mutex_unlock(&s->lock);
}

bool sim_stream_done(struct sim_stream *s)
{
    return atomic_load(&s->completed) >= atomic_load(&s->submitted);
}

static void run(struct sim_stream *s, struct sim_work *w)
{
    struct sim_stream *outer = sim_running;
    sim_running = s;
    sim_op_run(&w->op, s);
    sim_running = outer;
}

static void work_free(struct sim_work *w)
{
    sim_op_drop(&w->op);
    if (w->deps != w->few)
        free(w->deps);
    free(w);
}

static void *worker(void *argument)
{
    struct sim_stream *s = argument;
    for (;;) {
        uint64_t next = atomic_load(&s->completed) + 1;
        for (int i = 0; i < SPINS && atomic_load(&s->submitted) < next; i++)
            pause_briefly();
        pthread_mutex_lock(&s->lock);
        while (!s->head && !s->stopping) {
            atomic_store(&s->asleep, true);
            pthread_cond_wait(&s->changed, &s->lock);
            atomic_store(&s->asleep, false);
        }
        struct sim_work *batch = s->head;
        s->head = s->tail = NULL;
        pthread_mutex_unlock(&s->lock);
        if (!batch)
            return NULL;
        for (struct sim_work *after; batch; batch = after) {
            after = batch->next;
            for (unsigned int i = 0; i < batch->dep_count; i++)
                sim_stream_wait(batch->deps[i].stream, batch->deps[i].seq);
            run(s, batch);
            uint64_t seq = batch->seq;
            work_free(batch);
            atomic_store(&s->completed, seq);
            if (atomic_load(&s->waiters)) {
                pthread_mutex_lock(&s->lock);
                pthread_cond_broadcast(&s->changed);
                pthread_mutex_unlock(&s->lock);
            }
        }
    }
}

static bool start_worker(struct sim_stream *s)
{
    if (s->worker)
        return true;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, (size_t)1 << 20);
    /* The program's signals are for the program's threads. */
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    s->worker = pthread_create(&thread, &attributes, worker, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return s->worker;
}

/* The worker ends when it has run what there is; the stream object stays. One whose handle may be
 * given out again keeps its worker. */
void sim_stream_stop(struct sim_stream *s)
{
    if (sim_settings.reuse_handles)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void depend(struct sim_work *w, struct sim_stream *s, uint64_t seq)
{
    if (!seq || atomic_load(&s->completed) >= seq)
        return;
    if (w->dep_count == w->dep_capacity) {
        unsigned int more = w->dep_capacity * 2;
        struct sim_dep *grown = malloc(more * sizeof *grown);
        if (!grown)
            abort();
        memcpy(grown, w->deps, w->dep_count * sizeof *grown);
        if (w->deps != w->few)
            free(w->deps);
        w->deps = grown;
        w->dep_capacity = more;
    }
    w->deps[w->dep_count++] = (struct sim_dep){s, seq};
}

static void depend_on_event(struct sim_work *w, struct sim_event *e, struct sim_stream *self)
{
    pthread_mutex_lock(&e->lock);
    if (e->stream && e->stream != self && !e->shared)
        depend(w, e->stream, e->seq);
    pthread_mutex_unlock(&e->lock);
}

/* All that the context has, and its green ones have. */
static void depend_on_all(struct sim_work *w, struct sim_stream *s, struct sim_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    for (struct sim_stream *o = ctx->streams; o; o = o->next)
        if (o != s)
            depend(w, o, atomic_load(&o->submitted));
    for (struct sim_context *green = ctx->greens; green; green = green->next_green)
        depend_on_all(w, s, green);
    pthread_mutex_unlock(&ctx->lock);
}

/* What the context has been made to wait for, and for a green one the primary one. */
static void depend_on_waits(struct sim_work *w, struct sim_stream *s)
{
    struct sim_stream *waits[] = {atomic_load(&s->ctx->waits), atomic_load(&s->ctx->root->waits)};
    for (int i = 0; i < 2; i++)
        if (waits[i] && waits[i] != s)
            depend(w, waits[i], atomic_load(&waits[i]->submitted));
}

static void depend_on_others(struct sim_work *w, struct sim_stream *s)
{
    struct sim_context *ctx = s->ctx;
    depend_on_waits(w, s);
    if (s == atomic_load(&ctx->records)) {
        depend_on_all(w, s, ctx);
    } else if (s->legacy) {
        pthread_mutex_lock(&ctx->lock);
        for (struct sim_stream *o = ctx->streams; o; o = o->next)
            if (o != s && !(o->flags & CU_STREAM_NON_BLOCKING))
                depend(w, o, atomic_load(&o->submitted));
        pthread_mutex_unlock(&ctx->lock);
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING)) {
        depend(w, ctx->legacy, atomic_load(&ctx->legacy->submitted));
    }
    if (w->op.kind == SIM_OP_WAIT) {
        depend_on_event(w, w->op.record.event, s);
    } else if (w->op.kind == SIM_OP_IMAGE) {
        struct sim_image *image = w->op.image;
        for (unsigned int i = 0; i < image->count; i++)
            if (image->steps[i].op.kind == SIM_OP_WAIT && image->steps[i].enabled)
                depend_on_event(w, image->steps[i].op.record.event, s);
    }
}

/* From now on the event means the end of this item. Called with the number fixed, before it runs.
 */
static void point_event(struct sim_event *e, struct sim_stream *s, uint64_t seq, uint64_t *ticket)
{
    pthread_mutex_lock(&e->lock);
    e->stream = s;
    e->seq = seq;
    e->capture = NULL;
    *ticket = ++e->ticket;
    if (e->shared) /* the number that counts is the one that all processes share */
        *ticket = e->ticket = atomic_fetch_add(&e->shared->recorded, 1) + 1;
    pthread_mutex_unlock(&e->lock);
}

static void point_events(struct sim_work *w, struct sim_stream *s)
{
    if (w->op.kind == SIM_OP_RECORD) {
        point_event(w->op.record.event, s, w->seq, &w->op.record.ticket);
    } else if (w->op.kind == SIM_OP_IMAGE) {
        /* The steps are shared by all launches: these events get their time at whichever runs last.
         */
        uint64_t ignored;
        for (unsigned int i = 0; i < w->op.image->count; i++)
            if (w->op.image->steps[i].op.kind == SIM_OP_RECORD && w->op.image->steps[i].enabled)
                point_event(w->op.image->steps[i].op.record.event, s, w->seq, &ignored);
    }
}

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

static void wait_alone(struct sim_context *ctx)
{
    pthread_mutex_lock(&door);
    sim_context_wait(ctx);
    pthread_mutex_unlock(&door);
}

void sim_wait_alone(struct sim_context *ctx)
{
    if (sim_settings.waits == 1)
        wait_alone(ctx);
}

void sim_wait_for_graph(struct sim_context *ctx)
{
    unsigned int room = sim_settings.waits == 1 ? 0 : sim_settings.waits;
    if (sim_settings.waits && ctx->root->graphs >= room)
        wait_alone(ctx);
}

static CUresult enqueue(struct sim_stream *s, struct sim_op *op, struct sim_dep *extra,
                        uint64_t *seq)
{
    if (sim_settings.waits) {
        pthread_mutex_lock(&door);
        pthread_mutex_unlock(&door);
    }
    struct sim_work *w = malloc(sizeof *w);
    if (!w) {
        sim_op_drop(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    w->next = NULL;
    w->op = *op;
    w->dep_count = 0;
    w->dep_capacity = 4;
    w->deps = w->few;
    depend_on_others(w, s);
    if (extra && extra->stream && extra->stream != s)
        depend(w, extra->stream, extra->seq);
    pthread_mutex_lock(&s->lock);
    w->seq = atomic_load(&s->submitted) + 1;
    point_events(w, s);
    if (seq)
        *seq = w->seq;
    if (extra)
        *extra = (struct sim_dep){s, w->seq};
    bool now = sim_settings.mode == SIM_INLINE && !w->dep_count && !s->head && sim_stream_done(s) &&
               !sim_op_may_block(&w->op);
    if (now) {
        atomic_store(&s->submitted, w->seq);
        run(s, w);
        atomic_store(&s->completed, w->seq);
        if (atomic_load(&s->waiters))
            pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        work_free(w);
        return CUDA_SUCCESS;
    }
    if (!start_worker(s)) {
        pthread_mutex_unlock(&s->lock);
        work_free(w);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (s->tail)
        s->tail->next = w;
    else
        s->head = w;
    s->tail = w;
    atomic_store(&s->submitted, w->seq);
    if (atomic_load(&s->asleep))
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return CUDA_SUCCESS;
}

/* The number that the next item of the stream gets is at most SIMCUDA_QUEUE ahead of the last one
 * that has run. Several threads that wait for one place may all get it: each adds one item. */
CUresult sim_wait_for_room(struct sim_stream *s)
{
    uint64_t submitted = atomic_load(&s->submitted);
    if (!sim_settings.queue || submitted < sim_settings.queue)
        return CUDA_SUCCESS;
    sim_stream_wait(s, submitted + 1 - sim_settings.queue);
    return sim_object_is(s, SIM_STREAM) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_submit(struct sim_stream *s, struct sim_op *op, uint64_t *seq)
{
    if (seq)
        *seq = 0;
    if (atomic_load(&sim_captures)) {
        if (atomic_load(&s->capture))
            return sim_capture_add(s, op);
        CUresult r = s->legacy ? sim_capture_implicit(s->ctx) : CUDA_SUCCESS;
        if (r != CUDA_SUCCESS) {
            sim_op_drop(op);
            return r;
        }
    }
    CUresult error = sim_wait_for_room(s);
    if (error == CUDA_SUCCESS)
        error = (CUresult)atomic_load(&s->ctx->error);
    if (error != CUDA_SUCCESS || sim_settings.mode == SIM_NULL) {
        sim_op_drop(op);
        return error;
    }
    return enqueue(s, op, NULL, seq);
}

CUresult sim_submit_exec(struct sim_stream *s, struct sim_op *op, struct sim_exec *exec)
{
    /* An executable graph runs one instance at a time, on whatever streams it is launched. */
    struct sim_dep last = {exec->last_stream, exec->last_seq};
    CUresult r = enqueue(s, op, &last, NULL);
    if (r == CUDA_SUCCESS) {
        exec->last_stream = last.stream;
        exec->last_seq = last.seq;
    }
    return r;
}

CUresult sim_submit_and_wait(struct sim_stream *s, struct sim_op *op)
{
    uint64_t seq;
    CUresult r = sim_submit(s, op, &seq);
    if (r != CUDA_SUCCESS)
        return r;
    sim_stream_wait(s, seq);
    return (CUresult)atomic_load(&s->ctx->error);
}
